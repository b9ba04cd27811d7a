use rusqlite::config::DbConfig;

use crate::folder::{Folder, event, header, log, objects};

const FIELDS: [&str; 15] = [
    "id",
    "version",
    "createdAt",
    "cwd",
    "parentSession",
    "origin",
    "delegationDepth",
    "agentPreset",
    "isSeeded",
    "eventCount",
    "sizeBytes",
    "lastTime",
    "revision",
    "writtenAt",
    "owner",
];

#[test]
fn a_record_has_exactly_the_documented_fields_and_null_where_nothing_is_known() {
    let folder = Folder::with_session("a b\\\"é", 3);
    let line = folder.run(&["list", "--json"]).done();
    let mut rest = line.as_str();
    for field in FIELDS {
        let at = rest.find(&format!("\"{field}\":")).unwrap_or_else(|| panic!("{field} is not next in {rest}"));
        rest = &rest[at + 1..];
    }
    let record = &objects(&line)[0];
    assert_eq!(record.len(), FIELDS.len(), "{line}");
    assert_eq!(record["id"], "a b\"é");
    assert_eq!(record["version"], 3);
    assert_eq!(record["createdAt"], 1_700_000_000_000_u64);
    assert_eq!(record["delegationDepth"], 0);
    assert_eq!(record["isSeeded"], false);
    assert_eq!(record["eventCount"], 3);
    assert_eq!(record["lastTime"], 1_700_000_002_000_u64);
    assert_eq!(record["sizeBytes"], log("a b\\\"é", 3).len());
    for field in ["cwd", "parentSession", "origin", "agentPreset", "owner"] {
        assert!(record[field].is_null(), "{field}");
    }
    assert_eq!(folder.run(&["stat", "a b\"é", "--json"]).done(), line);
}

#[test]
fn a_session_that_cannot_be_interpreted_is_listed_with_its_state_and_shown() {
    let folder = Folder::new();
    folder.write("new.jsonl", log("new", 2).replace("\"version\":3", "\"version\":9"));
    folder.write("odd.jsonl", log("odd", 1) + &event("acme/pulse", 1, "{}"));
    folder.run(&["import", "new.jsonl", "odd.jsonl"]).done();
    let records = objects(&folder.run(&["list", "--json", "--sort", "created"]).done());
    assert_eq!((&records[0]["state"], records[1].get("state")), (&"newer-format".into(), None));
    assert_eq!(objects(&folder.run(&["list", "--json", "--state", "newer-format"]).done()), records[..1]);
    assert_eq!(objects(&folder.run(&["stat", "new", "--json"]).done()), records[..1]);
    for arguments in [&["list"][..], &["stat", "new"]] {
        assert!(folder.run(arguments).done().contains("format 9, needs a newer program"));
    }
    for (id, reason) in [("new", "format 9"), ("odd", "\"acme/pulse\" at seq 1")] {
        let run = folder.run(&["show", id]);
        assert!(run.err.contains(reason) && run.err.lines().count() == 1, "{}", run.err);
        assert!(run.done().contains("turn/start"));
    }
}

#[test]
fn a_list_in_pages_gives_every_session_once() {
    let folder = Folder::new();
    let names: Vec<_> = (0..5).map(|n| format!("s{n}")).collect();
    for name in &names {
        folder.write("log.jsonl", log(name, 1));
        folder.run(&["import", "log.jsonl"]).done();
    }
    let pages = folder.pages(&["list", "--json", "--limit", "2"]);
    let seen: Vec<_> = pages.iter().rev().map(|record| record["id"].as_str().unwrap().to_owned()).collect();
    let first = objects(&folder.run(&["list", "--json", "--limit", "2"]).done());
    assert_eq!(first.iter().map(|line| line.len()).collect::<Vec<_>>(), [FIELDS.len(), FIELDS.len(), 1]);
    assert_eq!(seen, names);
    let run = folder.run(&["list", "--limit", "3"]);
    assert!(run.err.contains("--cursor "), "{}", run.err);
    assert_eq!(run.done().lines().count(), 4);
    folder.run(&["list", "--cursor", "nonsense"]).misused("cursor");
    folder.run(&["list", "--limit", "0"]).misused("a limit is a number of at least 1");
}

#[test]
fn all_commands_agree_on_the_counts() {
    let folder = Folder::new();
    folder.run(&["demo", "--store", "sessions.db"]).done();
    let records = objects(&folder.run(&["list", "--json"]).done());
    let counted = folder.run(&["sql", "select session_id, count(*) from session_events group by 1"]).done();
    assert_eq!(counted.lines().count(), records.len() + 1);
    for record in records {
        let id = record["id"].as_str().unwrap();
        let count = record["eventCount"].as_u64().unwrap();
        assert_eq!(objects(&folder.run(&["stat", id, "--json"]).done())[0], record);
        assert_eq!(folder.run(&["show", id, "--json"]).done().lines().count() as u64, count);
        let exported = folder.run(&["export", id]).done();
        assert_eq!(exported.lines().count() as u64, count + 1);
        assert_eq!(exported.len() as u64, record["sizeBytes"].as_u64().unwrap());
        assert!(counted.contains(&format!("{id}\t{count}\n")), "{counted}");
    }
}

#[test]
fn shown_json_is_the_exported_lines_of_the_asked_events() {
    let folder = Folder::with_session("s", 5000);
    let lines: Vec<_> = log("s", 5000).lines().skip(1).map(str::to_owned).collect();
    let show = |arguments: &[&str]| {
        let out = folder.run(&[&["show", "s", "--json"], arguments].concat()).done();
        out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(show(&[]), lines);
    assert_eq!(show(&["--from", "4990"]), lines[4990..]);
    assert_eq!(show(&["--from", "10", "--limit", "3"]), lines[10..13]);
    let ends = show(&["--type", "turn/end", "--from", "2", "--limit", "2"]);
    assert_eq!(ends, [lines[3].clone(), lines[5].clone()]);
    assert_eq!(show(&["--type", "turn/end,turn/start", "--from", "10", "--limit", "3"]), lines[10..13]);
    assert!(show(&["--from", "5000"]).is_empty() && show(&["--limit", "0"]).is_empty());
    assert!(show(&["--type", "none"]).is_empty());
}

#[test]
fn nothing_that_is_stored_drives_the_terminal() {
    let folder = Folder::new();
    let hostile = "\\u001b]0;x\\u0007\\u009b31m\u{9b}\\r\\u202e";
    let message = format!(
        r#"{{"role":"user","content":[{{"type":"text","text":"{hostile}\n\n{hostile}"}}],"source":{{"kind":"{hostile}"}}}}"#
    );
    let header = header("x").replace("\"id\":\"x\"", &format!("\"id\":\"{hostile}\",\"cwd\":\"{hostile}\""));
    folder.write("log.jsonl", header + &event("user/message", 0, &message) + &event(hostile, 1, &message));
    let id = "\u{1b}]0;x\u{7}\u{9b}31m\u{9b}\r\u{202e}";
    for arguments in [
        &["import", "log.jsonl"][..],
        &["list"],
        &["show", id],
        &["stat", id],
        &["sql", "select * from session_events"],
    ] {
        let run = folder.run(arguments);
        let text = run.out.clone() + &run.err;
        assert!(text.contains("\\u{1b}]0;x") || text.contains("\\\\u001b"), "{text:?}");
        let driving = text.chars().find(|c| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}');
        assert_eq!(driving, None, "{text:?}");
        run.done();
    }
}

#[test]
fn of_a_damaged_log_the_good_part_is_given_before_the_failure() {
    let folder = Folder::with_session("s", 3000);
    let database = rusqlite::Connection::open(folder.path("sessions.db")).unwrap();
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    database.execute("UPDATE events SET data = '{\"turn\":7}' WHERE seq = 2345", []).unwrap();
    database.close().unwrap();
    for arguments in [&["show", "s"][..], &["show", "s", "--json"], &["export", "s"]] {
        let run = folder.run(arguments);
        assert!(run.out.contains("2344") && !run.out.contains("2345"), "{arguments:?}");
        run.failed("Corruption", &["\"s\"", "seq 2345"]);
    }
    let behind = folder.run(&["show", "s", "--json", "--from", "2346"]).done();
    assert_eq!(behind.lines().count(), 3000 - 2346);
    folder.run(&["export", "s", "-o", "s.jsonl"]).failed("Corruption", &["seq 2345"]);
    let names: Vec<_> = folder.content().into_keys().collect();
    assert_eq!(names, [folder.path("sessions.db")]);
}

#[test]
fn looking_changes_no_byte() {
    let folder = Folder::new();
    folder.run(&["demo", "--store", "sessions.db"]).done();
    let before = folder.content();
    for arguments in [
        &["list"][..],
        &["list", "--json"],
        &["stat", "fix-login-loop"],
        &["show", "fix-login-loop"],
        &["export", "fix-login-loop"],
        &["sql", "select count(*) from session_messages"],
    ] {
        folder.run(arguments).done();
        assert!(folder.content() == before, "{arguments:?}");
    }
}

#[test]
fn a_torn_tail_is_told_by_stat_and_by_the_writer_that_cuts_it() {
    let folder = Folder::new();
    folder.write("short.jsonl", log("a", 3));
    folder.write("long.jsonl", log("a", 5));
    folder.run(&["--store", "jsonl+raw:root", "import", "short.jsonl"]).done();
    let file = folder.path("root/_no-cwd/a/session.v3.jsonl");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend_from_slice(br#"{"type":"turn/en"#);
    std::fs::write(&file, bytes).unwrap();

    let told = folder.run(&["--store", "root", "stat", "a"]).done();
    assert!(told.contains("16 bytes from seq 3 on"), "{told}");
    let told = folder.run(&["--store", "root", "stat", "a", "--json"]).done();
    assert!(told.contains(r#""eventCount":3"#) && told.contains(r#""tornTail":{"seq":3,"bytes":16}"#), "{told}");
    for command in ["export", "show"] {
        let run = folder.run(&["--store", "root", command, "a"]);
        assert!(run.err.contains("16 bytes from seq 3 on"), "{command}: {}", run.err);
        let shown = run.done();
        assert!(command == "show" || shown == log("a", 3), "{shown}");
    }

    let run = folder.run(&["--store", "root", "import", "--extend", "long.jsonl"]);
    assert!(run.err.contains("session \"a\": cut 16 bytes"), "{}", run.err);
    assert_eq!(folder.run(&["--store", "root", "export", "a"]).done(), log("a", 5));
    assert!(!folder.run(&["--store", "root", "stat", "a"]).done().contains("torn"));
}

#[test]
fn rows_behind_a_bad_one_of_an_unfinished_turn_are_never_left_out_without_a_word() {
    let folder = Folder::new();
    folder.write("a.jsonl", log("a", 1) + &(1..9).map(|seq| event("todo/write", seq, "{}")).collect::<String>());
    folder.run(&["--store", "jsonl+raw:root", "import", "a.jsonl"]).done();
    let file = folder.path("root/_no-cwd/a/session.v3.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"seq\":3,", "\"sex\":3,")).unwrap();
    for command in ["export", "show"] {
        let run = folder.run(&["--store", "root", command, "a"]);
        assert!(run.err.contains("from seq 3 on do not check out"), "{command}: {}", run.err);
    }
}

#[test]
fn a_last_row_that_does_not_continue_the_log_proves_no_count() {
    let folder = Folder::new();
    let file = folder.path("root/_no-cwd/a/session.v3.jsonl");
    for (row, count) in [(event("todo/write", 4_000_000, "{}"), "null"), ("garbage\n".to_owned(), "3")] {
        folder.write("a.jsonl", log("a", 3));
        folder.run(&["--store", "jsonl+raw:root", "import", "a.jsonl"]).done();
        let sound = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, sound.clone() + &row).unwrap();
        let told = folder.run(&["--store", "root", "stat", "a", "--json"]).done();
        assert!(told.contains(&format!("\"eventCount\":{count}")), "{row}: {told}");
        std::fs::write(&file, sound).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_in_the_place_of_a_log_is_listed_as_damaged_and_not_waited_for() {
    let folder = Folder::new();
    folder.write("a.jsonl", log("a", 3));
    folder.run(&["--store", "jsonl+raw:root", "import", "a.jsonl"]).done();
    std::fs::create_dir(folder.path("root/_no-cwd/pipe")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(folder.path("root/_no-cwd/pipe/session.v3.jsonl")).status();
    assert!(made.unwrap().success());
    let listed = folder.run(&["--store", "root", "list", "--json"]).done();
    assert!(listed.lines().count() == 2 && listed.contains(r#""state":"damaged""#), "{listed}");
    assert!(folder.run(&["--store", "root", "list"]).done().contains("not a file"));
}
