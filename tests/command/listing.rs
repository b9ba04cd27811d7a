//! `list` with filters, and with what the search index knows.

use crate::folder::{Folder, STORES, assert_harmless, header, log, objects, says, talk};

fn ids(out: &str) -> String {
    let records = objects(out);
    let mut ids: Vec<_> = records.iter().filter_map(|r| Some(r.get("id")?.as_str()?.to_owned())).collect();
    ids.sort();
    ids.join(" ")
}

fn with_header(id: &str, more: &str) -> String {
    header(id).replace(r#""isSeeded""#, &format!(r#"{more},"isSeeded""#)) + &says(0, "x")
}

#[test]
fn filters_are_joined_in_every_kind_of_store() {
    for store in STORES {
        let folder = Folder::new();
        let here = folder.path("").canonicalize().unwrap();
        let here = here.to_str().unwrap();
        folder.write("a.jsonl", with_header("a", r#""cwd":"/w""#));
        folder.write("b.jsonl", with_header("b", r#""cwd":"/w","parentSession":"a","origin":"subagent""#));
        folder.write("c.jsonl", with_header("c", &format!(r#""cwd":"{here}""#)));
        folder.write("d.jsonl", with_header("d", r#""cwd":"no path","parentSession":"gone""#));
        folder.write("e.jsonl", log("e", 1).replace("\"version\":3", "\"version\":9"));
        std::fs::create_dir(folder.path("below")).unwrap();
        folder.run(&["--store", store, "import", "a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl", "e.jsonl"]).done();
        let list = |more: &[&str]| ids(&folder.run(&[&["--store", store, "list", "--json"], more].concat()).done());
        for (arguments, expected) in [
            (&[][..], "a b c d e"),
            (&["--cwd", "/w"], "a b"),
            (&["--cwd", "no path"], "d"),
            (&["--cwd", "."], "c"),
            (&["--cwd", "./below/.."], "c"),
            (&["--cwd", "/w/"], ""),
            (&["--parent", "a"], "b"),
            (&["--parent", "gone"], "d"),
            (&["--cwd", "/w", "--origin", "none"], "a"),
            (&["--origin", "subagent"], "b"),
            (&["--state", "newer-format"], "e"),
            (&["--state", "readable", "--cwd", "/w"], "a b"),
            (&["--owned"], ""),
            (&["--since", "1h"], "a b c d e"),
            (&["--until", "1h"], ""),
            (&["--since", "2020-01-01", "--until", "1s", "--cwd", "nowhere"], ""),
        ] {
            assert_eq!(list(arguments), expected, "{store} {arguments:?}");
        }
        let run = folder.run(&["--store", store, "list", "--cwd", "nowhere"]);
        assert!(run.err.starts_with("no such sessions in "), "{}", run.err);
        assert_eq!(run.done(), "");
        folder
            .run(&["--store", store, "list", "--since", "2026-01-02", "--until", "2026-01-01"])
            .misused("nothing is from");
    }
}

#[test]
fn pages_of_so_long_ago_go_on_where_the_one_before_ended() {
    for store in STORES {
        let folder = Folder::new();
        for name in ["a", "b", "c", "d", "e"] {
            folder.write(&format!("{name}.jsonl"), log(name, 1));
        }
        folder.run(&["--store", store, "import", "a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl", "e.jsonl"]).done();
        let records = folder.pages(&["--store", store, "list", "--json", "--since", "7d", "--limit", "2"]);
        let mut seen: Vec<_> = records.iter().map(|record| record["id"].as_str().unwrap().to_owned()).collect();
        seen.sort();
        assert_eq!(seen.concat(), "abcde", "{store}");
        let first = folder.run(&["--store", store, "list", "--since", "7d", "--limit", "2"]).err;
        let cursor = first.trim_end().rsplit(' ').next().unwrap();
        folder.run(&["--store", store, "list", "--cursor", cursor]).misused("cursor");
    }
}

#[cfg(unix)]
#[test]
fn the_loop_through_all_pages_that_the_help_shows_works() {
    let folder = Folder::new();
    if folder.process("jq").arg("--version").output().is_err() {
        eprintln!("skipped: there is no jq here");
        return;
    }
    for name in ["a", "b", "c"] {
        folder.write("log.jsonl", log(name, 1));
        folder.run(&["import", "log.jsonl"]).done();
    }
    let help = folder.run(&["list", "--help"]).done();
    let start = help.find("  cursor=").unwrap();
    let end = start + help[start..].find("  done").unwrap() + "  done".len();
    let script = help[start..end].replace("--limit 100", "--limit 1");
    let output = folder.process("sh").args(["-c", &script]).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let mut ids: Vec<_> = out.lines().collect();
    ids.sort();
    assert_eq!(ids, ["a", "b", "c"], "{script}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

/// A list may leave open how many events a log has; a person is not sent to look for damage for that.
#[test]
fn of_many_sound_sessions_a_person_gets_every_count() {
    let folder = Folder::new();
    let long = |id: &str| header(id) + &says(0, &"x".repeat(9000)) + &says(1, &"x".repeat(9000));
    let names: Vec<_> = (0..150).map(|n| format!("s{n}")).collect();
    for name in &names {
        folder.write(&format!("{name}.jsonl"), long(name));
    }
    let files: Vec<_> = names.iter().map(|name| format!("{name}.jsonl")).collect();
    let files: Vec<_> = files.iter().map(String::as_str).collect();
    folder.run(&[&["--store", "jsonl+raw:root", "import"], &files[..]].concat()).done();
    let table = folder.run(&["--store", "root", "list"]).done();
    let counts = table.lines().skip(1).filter(|line| line.split("  ").any(|cell| cell.trim() == "2"));
    assert_eq!(counts.count(), names.len(), "{table}");
    assert!(!table.contains("verify"), "{table}");
}

const KNOWN: [&str; 7] = ["title", "turns", "toolCalls", "inputTokens", "outputTokens", "interrupted", "blank"];

/// How many records have all that the index knows; of the others none has any of it.
fn known(out: &str) -> usize {
    let records = objects(out);
    let has = |record: &&serde_json::Map<String, serde_json::Value>| {
        let count = KNOWN.iter().filter(|key| record.contains_key(**key)).count();
        assert!(count == 0 || count == KNOWN.len(), "{record:?}");
        count > 0
    };
    records.iter().filter(has).count()
}

#[test]
fn what_the_index_knows_of_a_session_as_it_is_is_told_and_nothing_else() {
    for store in STORES {
        let folder = Folder::new();
        let list = |json: &[&str]| folder.run(&[&["--store", store, "list"], json].concat()).done();
        folder.write("a.jsonl", log("a", 3) + &says(3, "Fix \\u001b[2J the login"));
        folder.write("b.jsonl", log("b", 2));
        folder.run(&["--store", store, "import", "a.jsonl", "b.jsonl"]).done();
        let before = folder.content();
        assert_eq!(known(&list(&["--json"])), 0, "{store}");
        assert!(!list(&[]).contains("TITLE") && folder.content() == before, "{store}");

        folder.run(&["--store", store, "stats"]).done();
        let indexed = folder.content();
        let out = list(&["--json", "--sort", "created"]);
        assert_eq!(known(&out), 2, "{store}: {out}");
        let record = objects(&out).into_iter().find(|r| r["id"] == "a").unwrap();
        assert_eq!((&record["turns"], &record["toolCalls"], &record["blank"]), (&2.into(), &0.into(), &false.into()));
        assert_eq!(record["interrupted"], true);
        assert!(record["title"].as_str().unwrap().contains("the login"), "{record:?}");
        assert_eq!(objects(&folder.run(&["--store", store, "stat", "a", "--json"]).done())[0], record);
        let table = list(&[]);
        assert_harmless(&table);
        assert!(table.contains("TITLE") && table.contains("Fix \\u{1b}[2J the login"), "{table}");
        assert!(table.lines().any(|line| line.starts_with("a ") && line.ends_with("interrupted")), "{table}");
        assert!(!table.lines().any(|line| line.starts_with("b ") && line.ends_with("interrupted")), "{table}");
        let told = folder.run(&["--store", store, "stat", "a"]).done();
        assert!(told.contains("2, the last one interrupted"), "{told}");
        assert!(folder.content() == indexed, "{store}");

        // Of one that was written since the index knows only what was.
        folder.write("b.jsonl", log("b", 3));
        folder.run(&["--store", store, "import", "--extend", "b.jsonl"]).done();
        let out = list(&["--json"]);
        assert_eq!((objects(&out).len(), known(&out)), (2, 1), "{store}");
        assert_eq!(known(&folder.run(&["--store", store, "list", "--json", "--index", "absent"]).done()), 0);
        assert!(!folder.path("absent").exists() && !folder.path("absent-lock").exists());
    }
}

#[test]
fn whatever_is_wrong_with_the_index_is_no_matter_of_a_list() {
    let folder = Folder::new();
    folder.write("log.jsonl", talk("s", &["hello"]));
    folder.run(&["import", "log.jsonl"]).done();
    folder.run(&["stats"]).done();
    assert_eq!(known(&folder.run(&["list", "--json"]).done()), 1);
    let index = std::fs::read(folder.path("sessions.db.index")).unwrap();
    let list = |expected: usize, what: &str| {
        let before = folder.content();
        let run = folder.run(&["list", "--json"]);
        assert_eq!((&*run.err, objects(&run.out).len(), known(&run.out)), ("", 1, expected), "{what}");
        run.done();
        folder.run(&["list"]).done();
        folder.run(&["stat", "s"]).done();
        assert!(folder.content() == before, "{what}");
    };
    folder.write("sessions.db.index", "some text");
    list(0, "no index");
    folder.write("sessions.db.index", &index[..5000]);
    list(0, "cut short");
    let mut other = index.clone();
    other[4096..].fill(7);
    folder.write("sessions.db.index", &other);
    list(0, "overwritten");
    let mut newer = index.clone();
    newer[60..64].copy_from_slice(&9_u32.to_be_bytes());
    folder.write("sessions.db.index", &newer);
    list(0, "of a newer build");
    folder.write("sessions.db.index", &index);
    list(1, "whole again");
    let lock = std::fs::File::open(folder.path("sessions.db.index-lock")).unwrap();
    lock.lock().unwrap();
    list(0, "being made anew");
    drop(lock);
    list(1, "free again");
    let database = rusqlite::Connection::open(folder.path("sessions.db.index")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(known(&folder.run(&["list", "--json"]).done()), 1, "being written");
}
