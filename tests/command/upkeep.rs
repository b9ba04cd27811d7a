use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use session_persistence::{OpenOptions, SessionId, SessionPersistence, SqliteStore};

use crate::folder::{Folder, log, objects};

/// A folder with a store of the sessions `a`, `b` and `c`, of 4, 6 and 2 events.
fn filled(store: &[&str]) -> Folder {
    let folder = Folder::new();
    for (name, count) in [("a", 4), ("b", 6), ("c", 2)] {
        folder.write("log.jsonl", log(name, count));
        folder.run(&[store, &["import", "log.jsonl"]].concat()).done();
    }
    fs::remove_file(folder.path("log.jsonl")).unwrap();
    folder
}

/// Changes rows as no other program can without switching the triggers off.
fn change(folder: &Folder, statements: &str) {
    let other = Connection::open(folder.path("sessions.db")).unwrap();
    other.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    other.execute_batch(statements).unwrap();
}

const FILES: [&[&str]; 2] = [&["--store", "jsonl:root"], &["--store", "jsonl+raw:root"]];

#[test]
fn a_sound_store_is_told_so_in_one_line() {
    for store in [&[][..], FILES[0], FILES[1]] {
        let folder = filled(store);
        let before = folder.content();
        for arguments in [&["verify"][..], &["verify", "--json"], &["verify", "b", "a"]] {
            let run = folder.run(&[store, arguments].concat());
            let counts = if arguments.len() == 3 { "2 sessions with 10 events" } else { "3 sessions with 12 events" };
            assert_eq!(run.err, format!("{counts} were checked: no fault\n"), "{arguments:?}");
            assert_eq!(run.done(), "");
            assert!(folder.content() == before, "{arguments:?}");
        }
        folder.run(&[store, &["verify", "a", "absent"]].concat()).failed("NotFound", &["absent"]);
    }
}

#[test]
fn each_fault_is_a_line_with_its_kind_its_place_and_what_to_do() {
    let folder = filled(&[]);
    change(&folder, "UPDATE events SET time = 0 WHERE session = 2 AND seq = 3; DROP TRIGGER events_delete");
    let run = folder.run(&["verify"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.err, "3 sessions with 11 events were checked: 2 faults\n");
    let lines: Vec<_> = run.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", run.out);
    assert!(lines[0].starts_with("damage     session \"b\" seq 3: ") && lines[0].contains("; salvage"), "{}", run.out);
    assert!(lines[1].starts_with("structure  the store: the trigger events_delete is missing"), "{}", run.out);

    let run = folder.run(&["verify", "--json"]);
    assert_eq!(run.code, 1);
    let records = objects(&run.out);
    assert_eq!(records[0]["kind"], "damage");
    assert_eq!((&records[0]["session"], &records[0]["seq"]), (&"b".into(), &3.into()));
    assert_eq!((&records[1]["kind"], &records[1]["session"]), (&"structure".into(), &serde_json::Value::Null));
    for record in &records {
        assert_eq!(record.len(), 7);
        assert!(record["harmless"] == false && record["reason"].is_string() && record["advice"].is_string());
    }
    // Only what was asked for.
    folder.run(&["verify", "a", "c"]).done();
    assert_eq!(folder.run(&["verify", "b"]).out.lines().count(), 1);
}

#[test]
fn leftovers_are_told_and_are_no_failure() {
    for store in FILES {
        let folder = filled(store);
        let session = folder.path("root/_no-cwd/a");
        fs::write(session.join("session.v3.jsonl.zstd.0123456789ab.tmp"), "x").unwrap();
        let run = folder.run(&["--store", "root", "verify"]);
        assert!(run.err.ends_with("no fault, 1 leftover\n"), "{}", run.err);
        assert!(run.done().starts_with("leftover   session \"a\": "));
        fs::remove_file(session.join("session.lock")).unwrap();
        for file in fs::read_dir(&session).unwrap().map(|entry| entry.unwrap().path()) {
            if !file.to_string_lossy().ends_with(".tmp") {
                fs::remove_file(file).unwrap();
            }
        }
        folder.run(&["--store", "root", "verify"]).done();
    }
}

#[test]
fn nothing_that_a_fault_tells_drives_the_terminal() {
    let folder = Folder::new();
    let hostile = "x\\u001b[2J\\u202e";
    folder.write("log.jsonl", log(hostile, 2));
    folder.run(&["import", "log.jsonl"]).done();
    change(&folder, "DELETE FROM session_types; UPDATE sessions SET event_count = 9");
    for arguments in [&["verify"][..], &["verify", "--json"]] {
        let run = folder.run(arguments);
        assert_eq!(run.code, 1);
        assert!(run.out.contains("u{1b}[2J") || run.out.contains("u001b[2J"), "{}", run.out);
        assert!(!run.out.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{:?}", run.out);
    }
}

#[test]
fn a_reader_that_goes_away_ends_a_check_quietly() {
    let folder = filled(&[]);
    change(&folder, "UPDATE events SET time = seq * seq");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sessions"));
    let mut child = command
        .args(["--store", "sessions.db", "verify"])
        .current_dir(folder.path("."))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn what_stands_before_the_damage_becomes_a_session_of_its_own() {
    let folder = filled(&[]);
    change(&folder, "UPDATE events SET time = 0 WHERE session = 2 AND seq = 3");
    let run = folder.run(&["salvage", "b", "--to", "saved"]);
    assert!(
        run.err.contains("3 events were saved as session \"saved\"") && run.err.contains("at seq 3"),
        "{}",
        run.err
    );
    assert_eq!(run.done(), "");
    assert_eq!(folder.run(&["export", "saved"]).done(), log("saved", 3));
    let run = folder.run(&["salvage", "a", "--to", "a2"]);
    assert!(run.err.contains("4 events") && run.err.contains("is sound"), "{}", run.err);
    folder.run(&["salvage", "a", "--to", "c"]).failed("AlreadyExists", &["\"c\""]);
    folder.run(&["salvage", "absent", "--to", "d"]).failed("NotFound", &["absent"]);
    folder.run(&["salvage", "a"]).misused("--to");
    change(&folder, "UPDATE sessions SET header = '{}' WHERE id = 'c'");
    folder.run(&["salvage", "c", "--to", "d"]).failed("Corruption", &["\"c\"", "header", "restore it from a backup"]);
}

#[test]
fn a_backup_exports_the_same_bytes() {
    for store in [&[][..], FILES[0], FILES[1]] {
        let folder = filled(store);
        let run = folder.run(&[store, &["backup", "backup"]].concat());
        assert!(run.err.starts_with("3 sessions, 12 events, ") && run.err.contains("in backup"), "{}", run.err);
        assert_eq!(run.done(), "");
        for name in ["a", "b", "c"] {
            let before = folder.run(&[store, &["export", name]].concat()).done();
            assert_eq!(folder.run(&["--store", "backup", "export", name]).done(), before);
        }
        if store.is_empty() {
            let list = folder.run(&["list", "--json"]).done();
            assert_eq!(folder.run(&["--store", "backup", "list", "--json"]).done(), list, "with its revisions");
        }
        folder.run(&["--store", "backup", "verify"]).done();
        let before = folder.content();
        folder
            .run(&[store, &["backup", "backup"]].concat())
            .failed("InvalidArgument", &["backup", "something of that name"]);
        assert!(folder.content() == before);
        folder.run(&[store, &["backup"]].concat()).misused("FILE");
    }
    let folder = filled(&[]);
    folder.run(&["backup", "sessions.db-wal"]).failed("InvalidArgument", &["part of the store"]);
    folder.run(&["--store", "absent.db", "backup", "b"]).failed("UnsupportedStore", &["absent.db"]);
    assert_eq!(folder.content().len(), 1);
}

#[test]
fn a_backup_that_is_killed_leaves_nothing_under_its_name() {
    let tries = if std::env::var_os("SESSIONS_FULL").is_some() { 200 } else { 12 };
    for store in [&["--store", "sessions.db"][..], FILES[1]] {
        let folder = Folder::new();
        folder.write("log.jsonl", log("long", 4000));
        folder.run(&[store, &["import", "log.jsonl"]].concat()).done();
        let mut whole = 0;
        for n in 0..tries {
            let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_sessions"))
                .args(store)
                .args(["backup", "backup"])
                .current_dir(folder.path("."))
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(n * 160 / tries));
            child.kill().unwrap();
            child.wait().unwrap();
            let backup = folder.path("backup");
            if backup.exists() {
                whole += 1;
                let run = folder.run(&["--store", "backup", "verify"]);
                assert!(run.err.contains("1 session with 4000 events"), "{}", run.err);
                run.done();
                if backup.is_dir() { fs::remove_dir_all(backup).unwrap() } else { fs::remove_file(backup).unwrap() }
            }
            folder.run(&[store, &["verify"]].concat()).done();
        }
        eprintln!("{whole} of {tries} backups were whole before they were killed");
        for left in
            fs::read_dir(folder.path(".")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap())
        {
            assert!(left.starts_with(".sessions-") || ["root", "sessions.db", "log.jsonl"].contains(&&*left), "{left}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_backup_is_private_whatever_the_umask_is() {
    use std::os::unix::fs::PermissionsExt;
    for umask in ["000", "022"] {
        for store in [&[][..], FILES[0]] {
            let folder = filled(store);
            let command = format!("umask {umask}; exec \"$0\" \"$@\"");
            let run = std::process::Command::new("sh")
                .args(["-c", &command, env!("CARGO_BIN_EXE_sessions")])
                .args(store)
                .args(["backup", "backup"])
                .current_dir(folder.path("."))
                .output()
                .unwrap();
            assert!(run.status.success(), "{run:?}");
            let mut places = vec![folder.path("backup")];
            while let Some(place) = places.pop() {
                let found = fs::metadata(&place).unwrap();
                let expected = if found.is_dir() { 0o700 } else { 0o600 };
                assert_eq!(found.permissions().mode() & 0o777, expected, "{}", place.display());
                if found.is_dir() {
                    places.extend(fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()));
                }
            }
        }
    }
}

#[test]
fn sessions_are_removed_each_for_itself() {
    for store in [&[][..], FILES[0], FILES[1]] {
        let folder = filled(store);
        let run = folder.run(&[store, &["remove", "a", "absent", "c"]].concat());
        assert_eq!(run.code, 1);
        let lines: Vec<_> = run.err.lines().collect();
        assert_eq!(lines.len(), 3, "{}", run.err);
        assert_eq!((lines[0], lines[2]), ("removed: a", "removed: c"));
        assert!(lines[1].starts_with("sessions: NotFound: ") && lines[1].contains("absent"), "{}", run.err);
        assert_eq!(run.out, "");
        let left = objects(&folder.run(&[store, &["list", "--json"]].concat()).done());
        assert_eq!(left.len(), 1);
        folder.run(&[store, &["remove", "b"]].concat()).done();
        folder.run(&[store, &["remove"]].concat()).misused("ID");
        folder.run(&[store, &["verify"]].concat()).done();
    }
}

#[test]
fn a_session_that_is_being_written_is_told_with_its_writer() {
    let folder = filled(&[]);
    let store = SqliteStore::open(folder.path("sessions.db")).unwrap();
    let id = SessionId::new("b").unwrap();
    let writer = store.open(&id, OpenOptions::write()).unwrap();
    let run = folder.run(&["remove", "a", "b"]);
    assert_eq!(run.code, 1);
    let about = format!("process {}", std::process::id());
    assert!(run.err.contains("removed: a\nsessions: AlreadyOwned: ") && run.err.contains(&about), "{}", run.err);
    let run = folder.run(&["prune", "--older-than", "0s", "--now", "2999-01-01"]);
    assert!(run.err.contains("kept: b: it is being written by process"), "{}", run.err);
    assert_eq!(run.done().lines().count(), 1);
    writer.close().unwrap();
    assert!(store.stat(&id).unwrap().is_some());
}

#[test]
fn room_is_given_back_on_request() {
    let folder = Folder::with_session("a", 3000);
    folder.write("log.jsonl", log("b", 2));
    folder.run(&["import", "log.jsonl"]).done();
    let size = || fs::metadata(folder.path("sessions.db")).unwrap().len();
    let before = size();
    folder.run(&["remove", "a"]).done();
    assert_eq!(size(), before);
    folder.run(&["prune", "--older-than", "30d", "--compact", "--dry-run"]).done();
    assert_eq!(size(), before, "a dry run changes nothing");
    let run = folder.run(&["prune", "--older-than", "30d", "--compact"]);
    assert!(run.err.contains("the file had "), "{}", run.err);
    run.done();
    assert!(size() < before / 2);
    let run = folder.run(&["remove", "b", "--compact"]);
    assert!(run.err.starts_with("removed: b\nthe file had "), "{}", run.err);
    run.done();
    let folder = filled(FILES[0]);
    let run = folder.run(&["--store", "root", "remove", "a", "--compact"]);
    assert!(run.err.contains("log files"), "{}", run.err);
    run.done();
}

/// Sets the times of the log files of a raw root, so many days back.
fn age(folder: &Folder, ages: &[(&str, u64)]) {
    for (name, days) in ages {
        let file = folder.path(&format!("root/_no-cwd/{name}/session.v3.jsonl"));
        let file = File::options().write(true).open(file).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400)).unwrap();
    }
}

#[test]
fn a_dry_run_writes_the_lines_of_the_real_run() {
    let folder = filled(FILES[1]);
    age(&folder, &[("a", 60), ("b", 40), ("c", 1)]);
    let prune = |arguments: &[&str]| folder.run(&[&["--store", "root", "prune", "--older-than"], arguments].concat());
    let before = folder.content();
    let run = prune(&["30d", "--dry-run"]);
    assert!(run.err.starts_with("2 sessions, ") && run.err.ends_with("would be removed\n"), "{}", run.err);
    let dry = run.done();
    let lines: Vec<_> = dry.lines().collect();
    assert_eq!(lines.len(), 2, "{dry}");
    assert!(lines[0].starts_with("b  20") && lines[0].contains("UTC  6 events  "), "{dry}");
    assert!(folder.content() == before);
    assert_eq!(prune(&["30d", "--dry-run", "--keep", "2"]).done().lines().count(), 1);
    let run = prune(&["30d"]);
    assert!(run.err.ends_with(" were removed\n"), "{}", run.err);
    assert_eq!(run.done(), dry);
    assert_eq!(objects(&folder.run(&["--store", "root", "list", "--json"]).done()).len(), 1);
    assert_eq!(prune(&["30d"]).done(), "");
    for refused in [&["30"][..], &["1mo"], &["-3d"], &["30d", "--now", "tomorrow"], &["30d", "--keep", "-1"]] {
        assert_eq!(prune(refused).code, 2, "{refused:?}");
    }
    folder.run(&["--store", "root", "prune"]).misused("--older-than");
}

#[test]
fn a_clock_that_the_store_does_not_bear_out_removes_nothing_until_the_time_is_given() {
    let folder = filled(FILES[1]);
    age(&folder, &[("a", 400), ("b", 400), ("c", 400)]);
    let prune = |more: &[&str]| folder.run(&[&["--store", "root", "prune", "--older-than", "52w"], more].concat());
    let before = folder.content();
    for more in [&[][..], &["--dry-run"]] {
        prune(more).failed("InvalidArgument", &["400 days ahead", "check the clock"]);
        assert!(folder.content() == before);
    }
    assert_eq!(prune(&["--now", "2000-01-01"]).done(), "", "nothing was old then");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let now = rusqlite::Connection::open_in_memory()
        .unwrap()
        .query_row("SELECT strftime('%Y-%m-%dT%H:%M:%SZ', ?1, 'unixepoch')", [now as i64], |row| {
            row.get::<_, String>(0)
        })
        .unwrap();
    assert_eq!(prune(&["--now", &now]).done().lines().count(), 3);
}
