//! `search`, and the index that it makes.

use std::io::Read as _;

use rusqlite::config::DbConfig;
use serde_json::{Map, Value};

use crate::folder::{Folder, Run, STORES, assert_harmless, header, index_of, log, objects, says, talk};

/// A folder with sessions in its `./sessions.db`.
fn with(logs: &[String]) -> Folder {
    let folder = Folder::new();
    import(&folder, "sessions.db", logs);
    folder
}

fn import(folder: &Folder, store: &str, logs: &[String]) {
    for log in logs {
        folder.write("log.jsonl", log);
        folder.run(&["--store", store, "import", "--extend", "log.jsonl"]).done();
    }
    std::fs::remove_file(folder.path("log.jsonl")).unwrap();
}

/// The places of what is found.
fn places(out: &str) -> Vec<(String, u64)> {
    objects(out).iter().filter(|hit| hit.contains_key("seq")).map(place).collect()
}

fn place(hit: &Map<String, Value>) -> (String, u64) {
    (hit["session"].as_str().unwrap().to_owned(), hit["seq"].as_u64().unwrap())
}

/// What a shell, or the parser of the command line, could take for something else.
#[test]
fn plain_text_finds_the_event_that_holds_it_whatever_its_punctuation() {
    let texts = ["--json", "a \\\"b\\\" 'c'", "100%_*", "字, ẞ"];
    let folder = with(&[talk("s", &texts)]);
    for (seq, text) in (0..).zip(["--json", "a \"b\" 'c'", "%_*", "字, ẞ"]) {
        assert_eq!(places(&folder.run(&["search", "--json", "--", text]).done()), [("s".to_owned(), seq)], "{text}");
    }
}

#[test]
fn a_text_is_one_phrase_and_who_meant_more_is_told() {
    let folder = with(&[talk("s", &["connection was refused", "refused"])]);
    folder.run(&["search", "connection", "it's"]).misused(r"in quotes, as in sessions search 'connection it'\''s'");
    assert_eq!(folder.content().len(), 1);
    let told = "no event matches: the words of the text are looked for as one phrase, in this order\n";
    for (text, err) in [("connection refused", told), ("connexion", "no event matches\n"), ("was  refused", "")] {
        let run = folder.run(&["search", text]);
        assert_eq!(run.err, err);
        assert_eq!(run.done().is_empty(), !err.is_empty());
    }
}

#[test]
fn what_cannot_be_looked_for_is_misuse_and_touches_nothing() {
    let folder = with(&[talk("s", &["x"])]);
    let before = folder.content();
    let long = "a".repeat(1001);
    for (arguments, about) in [
        (&["search", ""][..], "it has no word"),
        (&["search", " \t\n"], "it has no word"),
        (&["search", &long], "more than 1000 characters"),
        (&["search"], "<TEXT>"),
        (&["search", "x", "--limit", "0"], "ask for 1 to 100"),
        (&["search", "x", "--limit", "101"], "ask for 1 to 100"),
        (&["search", "x", "--since", "soon"], "a time is written as"),
        (&["search", "x", "--since", "2026-01-02", "--until", "2026-01-01"], "nothing is from"),
        (&["search", "x", "--index", ""], "--index"),
        (&["search", "x", "--index", "sessions.db"], "part of the store itself"),
        (&["search", "x", "--index", "./sessions.db-wal"], "part of the store itself"),
        (&["stats", "--index", "sessions.db-locks/x"], "part of the store itself"),
        (&["list", "--index", "sessions.db"], "part of the store itself"),
        (&["stats", "--by", "year"], "--by"),
    ] {
        folder.run(arguments).misused(about);
        assert!(folder.content() == before, "{arguments:?}");
    }
    folder.run(&["search", "x", "--session", "absent"]).failed("NotFound", &["\"absent\""]);
    assert!(folder.content() == before);
    for cursor in ["nonsense", "MTph", ""] {
        folder.run(&["search", "x", "--cursor", cursor]).misused("cursor");
    }
}

#[test]
fn a_hit_has_exactly_the_documented_fields_and_the_place_in_its_snippet() {
    let folder =
        with(&[talk("s", &[&format!("{}Grüße, 👩\u{200d}💻 Needle and needle{}", "é".repeat(300), "字".repeat(300))])]);
    let out = folder.run(&["search", "--json", "NEEDLE"]).done();
    assert_eq!(out.lines().count(), 1);
    let hit = &objects(&out)[0];
    assert_eq!(
        hit.keys().map(String::as_str).collect::<Vec<_>>(),
        ["matches", "seq", "session", "snippet", "time", "type"]
    );
    assert_eq!(
        (&hit["session"], &hit["type"], &hit["seq"], &hit["matches"]),
        (&"s".into(), &"user/message".into(), &0.into(), &2.into())
    );
    assert_eq!(hit["time"], 1_700_000_000_000_u64);
    let Value::Object(snippet) = &hit["snippet"] else { panic!("{out}") };
    let place = |end: &str| snippet[end].as_u64().unwrap() as usize;
    let text = snippet["text"].as_str().unwrap();
    let found: String = text.chars().skip(place("start")).take(place("end") - place("start")).collect();
    assert_eq!((&*found, snippet.len()), ("Needle", 3));
    assert!(text.starts_with("…é") && text.ends_with("字…") && text.contains("👩\u{200d}💻"), "{text}");
    let shown = folder.run(&["search", "needle"]).done();
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines, ["s  0  user/message  2023-11-14 22:13:20 UTC", &format!("    {text}")]);
}

#[test]
fn pages_give_every_hit_once_and_so_long_ago_is_the_same_on_all() {
    let folder = with(&[talk("a", &["x"; 7]), talk("b", &["x x"; 4])]);
    for more in [&[][..], &["--since", "90000d"], &["--until", "1s"]] {
        let hits = folder.pages(&[&["search", "x", "--json", "--limit", "3"], more].concat());
        let seen: Vec<_> = hits.iter().map(place).collect();
        let expected =
            (0..4).rev().map(|seq| ("b".to_owned(), seq)).chain((0..7).rev().map(|seq| ("a".to_owned(), seq)));
        assert_eq!(seen, expected.collect::<Vec<_>>(), "{more:?}");
    }
    let last = objects(&folder.run(&["search", "x", "--json", "--limit", "3"]).done()).pop().unwrap();
    assert_eq!((last.len(), &last["total"]), (2, &11.into()));
    let run = folder.run(&["search", "x", "--limit", "3"]);
    assert!(run.err.starts_with("3 of 11 events; the next page: add --cursor "), "{}", run.err);
    let cursor = run.err.trim_end().rsplit(' ').next().unwrap();
    folder.run(&["search", "y", "--cursor", cursor]).misused("something else");
    folder.run(&["search", "x", "--type", "turn/end", "--cursor", cursor]).misused("something else");
}

#[test]
fn where_the_next_page_starts_is_told_behind_the_rows() {
    let folder = with(&[talk("a", &["x"; 7]), talk("b", &["x"])]);
    folder.run(&["stats"]).done();
    for arguments in [&["search", "x", "--limit", "2"][..], &["list", "--limit", "1"]] {
        let seen = folder.seen(arguments);
        let lines: Vec<_> = seen.lines().collect();
        let note = lines.iter().position(|line| line.contains("add --cursor "));
        assert_eq!(note, Some(lines.len() - 1), "{seen}");
    }
}

#[test]
fn filters_are_joined() {
    let cwd = |log: String| log.replacen(r#""isSeeded""#, r#""cwd":"/w","isSeeded""#, 1);
    let call = crate::folder::event("tool/call", 2, r#"{"turn":1,"step":1,"callId":"c","name":"x","arguments":"{}"}"#);
    let folder = with(&[cwd(talk("a", &["x", "x"])) + &call, talk("b", &["x", "x"])]);
    let seqs = |arguments: &[&str]| {
        let mut found = places(&folder.run(&[&["search", "x", "--json"], arguments].concat()).done());
        found.sort();
        found.iter().map(|(session, seq)| format!("{session}{seq}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(seqs(&[]), "a0 a1 a2 b0 b1");
    assert_eq!(seqs(&["--session", "b"]), "b0 b1");
    assert_eq!(seqs(&["--cwd", "/w"]), "a0 a1 a2");
    assert_eq!(seqs(&["--cwd", "/w", "--type", "tool/call"]), "a2");
    assert_eq!(seqs(&["--type", "tool/call", "--type", "user/message", "--session", "a"]), "a0 a1 a2");
    assert_eq!(seqs(&["--type", "tool/call,user/message", "--session", "a"]), "a0 a1 a2");
    assert_eq!(seqs(&["--since", "2023-11-14T22:13:21Z"]), "a1 a2 b1");
    assert_eq!(seqs(&["--since", "2023-11-14T22:13:21Z", "--until", "2023-11-14T22:13:21Z"]), "a1 b1");
    assert_eq!(seqs(&["--until", "2023-11-14"]), "a0 a1 a2 b0 b1");
    for nothing in
        [&["--since", "2023-11-15"][..], &["--type", "none"], &["--cwd", "w"], &["--session", "b", "--cwd", "/w"]]
    {
        let run = folder.run(&[&["search", "x"], nothing].concat());
        assert_eq!(run.err, "no event matches\n", "{nothing:?}");
        assert_eq!(run.done(), "");
    }
}

#[test]
fn in_every_kind_of_store_what_is_new_is_found_and_only_the_index_is_written() {
    for store in STORES {
        let index = index_of(store);
        let folder = Folder::new();
        import(&folder, store, &[talk("a", &["first"]), talk("b", &["other"])]);
        let before = folder.content();
        let search = |text: &str| places(&folder.run(&["--store", store, "search", "--json", text]).done());
        assert_eq!(search("FIRST"), [("a".to_owned(), 0)]);
        let mut after = folder.content();
        after.retain(|path, _| !path.to_str().unwrap().contains(".index"));
        assert!(after == before && folder.path(index).is_file(), "{store}");
        import(&folder, store, &[talk("a", &["first", "second first"])]);
        assert_eq!(search("first"), [("a".to_owned(), 0), ("a".to_owned(), 1)], "{store}");
        folder.run(&["--store", store, "remove", "a"]).done();
        assert_eq!(search("first"), [], "{store}");
        // What lies there is no matter of the store.
        let path = store.split_once(':').unwrap().1;
        assert_eq!(folder.run(&["--store", path, "verify"]).done(), "");
        assert_eq!(folder.run(&["--store", path, "list", "--json"]).done().lines().count(), 1);
        if path == "root" {
            assert!(folder.run(&["--store", "new.db", "import", path]).done().starts_with("imported   b"));
        }
        folder.run(&["--store", path, "copy", "--to", "jsonl:copy"]).done();
    }
}

#[test]
fn a_link_to_a_store_has_the_index_of_the_store() {
    let folder = with(&[talk("a", &["first"])]);
    #[cfg(unix)]
    {
        std::fs::create_dir(folder.path("links")).unwrap();
        std::os::unix::fs::symlink("../sessions.db", folder.path("links/s.db")).unwrap();
        folder.run(&["--store", "links/s.db", "search", "first"]).done();
        assert!(folder.path("sessions.db.index").exists() && !folder.path("links/s.db.index").exists());
    }
}

#[test]
fn the_index_is_where_it_is_told_to_be() {
    let folder = with(&[talk("a", &["first"])]);
    folder.run(&["search", "first", "--index", "one.index"]).done();
    Run::of(folder.command().args(["search", "first"]).env("SESSIONS_INDEX", "new/two.index")).done();
    assert!(folder.path("one.index").exists() && folder.path("new/two.index").exists());
    assert!(!folder.path("sessions.db.index").exists());
    folder.run(&["search", "first", "--index", "sessions.db.index"]).done();
    folder.write("file", "x");
    let run = folder.run(&["search", "first", "--index", "file/x.index"]);
    assert_eq!(run.out, "");
    run.failed("IndexFailed", &["file/x.index", "--index or $SESSIONS_INDEX"]);
    rusqlite::Connection::open(folder.path("foreign.db")).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let before = folder.content();
    folder.run(&["stats", "--index", "foreign.db"]).failed("NotAnIndex", &["foreign.db", "of another kind"]);
    assert_eq!(folder.run(&["list", "--json", "--index", "foreign.db"]).done().lines().count(), 1);
    assert!(folder.content().get(&folder.path("foreign.db")) == before.get(&folder.path("foreign.db")));
}

#[test]
fn a_damaged_index_is_made_anew_and_an_absent_one_too() {
    let folder = with(&[talk("a", &["first"])]);
    folder.run(&["search", "first"]).done();
    let cut = std::fs::read(folder.path("sessions.db.index")).unwrap()[..5000].to_vec();
    for content in [Some(&cut[..]), Some(b""), None] {
        match content {
            Some(content) => drop(folder.write("sessions.db.index", content)),
            None => std::fs::remove_file(folder.path("sessions.db.index")).unwrap(),
        }
        let length = content.map(<[u8]>::len);
        assert_eq!(places(&folder.run(&["search", "--json", "first"]).done()).len(), 1, "{length:?}");
    }
    folder.write("sessions.db.index", "notes of somebody");
    folder.run(&["search", "first"]).failed("NotAnIndex", &["sessions.db.index", "name another file"]);
    assert_eq!(folder.read("sessions.db.index"), "notes of somebody");
}

#[test]
fn damage_that_only_a_search_meets_is_told_and_mended() {
    let folder = with(&[talk("a", &["first needle", "second needle"])]);
    folder.run(&["search", "needle"]).done();
    let database = rusqlite::Connection::open(folder.path("sessions.db.index")).unwrap();
    assert_eq!(database.execute("UPDATE document SET text = 'needle' WHERE seq = 1", []).unwrap(), 1);
    database.close().unwrap();
    let run = folder.run(&["search", "needle", "--json"]);
    assert!(run.err.contains("sessions.db.index") && run.err.contains("damaged"), "{}", run.err);
    assert!(run.out.contains("second needle"), "{}", run.out);
    assert_eq!(places(&run.done()).len(), 2);
    assert_eq!(folder.run(&["search", "needle"]).err, "");
}

#[test]
fn what_cannot_be_read_is_told_each_time_and_hides_nothing_else() {
    let folder = with(&[talk("good", &["needle"]), talk("bad", &["needle", "needle 2", "needle 3"])]);
    let database = rusqlite::Connection::open(folder.path("sessions.db")).unwrap();
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    database.execute("UPDATE events SET data = '{\"a\":1}' WHERE seq = 2", []).unwrap();
    database.close().unwrap();
    for _ in 0..2 {
        let run = folder.run(&["search", "needle", "--json"]);
        let mut found = places(&run.out);
        found.sort();
        assert_eq!(found, [("bad".to_owned(), 0), ("bad".to_owned(), 1), ("good".to_owned(), 0)]);
        run.failed("Corruption", &["\"bad\"", "seq 2"]);
        let run = folder.run(&["stats", "--json"]);
        assert_eq!(objects(&run.out)[0]["events"], 3);
        run.failed("Corruption", &["\"bad\"", "seq 2"]);
        let run = folder.run(&["search", "needle", "--session", "good"]);
        assert_eq!(run.err, "");
        run.done();
        folder.run(&["search", "needle", "--session", "bad"]).failed("Corruption", &["\"bad\""]);
    }
}

#[test]
fn a_session_of_a_newer_format_is_told_and_no_failure() {
    for store in STORES {
        let folder = Folder::new();
        let newer = talk("new\\u001b", &["needle"]).replace("\"version\":3", "\"version\":9");
        import(&folder, store, &[talk("good", &["needle"]), newer]);
        for _ in 0..2 {
            for command in [&["search", "needle", "--json"][..], &["stats", "--json"]] {
                let run = folder.run(&[&["--store", store], command].concat());
                assert_harmless(&run.err);
                assert!(run.err.contains("format 9") && run.err.lines().count() == 1, "{store}: {}", run.err);
                assert_eq!(run.done().lines().count(), 1, "{store} {command:?}");
            }
        }
    }
}

#[test]
fn a_log_whose_header_is_damaged_is_told() {
    let folder = Folder::new();
    import(&folder, "jsonl+raw:root", &[talk("good", &["needle"]), talk("bad", &["needle"])]);
    folder.write("root/_no-cwd/bad/session.v3.jsonl", "garbage\n");
    for _ in 0..2 {
        let run = folder.run(&["--store", "root", "search", "needle", "--json"]);
        assert_eq!(places(&run.out), [("good".to_owned(), 0)]);
        run.failed("Corruption", &["\"bad\"", "not indexed"]);
    }
}

#[test]
fn nothing_that_is_stored_drives_the_terminal() {
    let hostile = "\\u001b]0;x\\u0007\u{9b}31m\\r\\u202e";
    let text = talk(hostile, &[&format!("{hostile} needle\\n\\t{hostile}"), "needle"]);
    let folder = with(&[text.replace(r#""isSeeded""#, &format!(r#""cwd":"{hostile}","isSeeded""#))]);
    for arguments in
        [&["search", "needle"][..], &["search", "needle", "--json"], &["search", "needle\n\u{1b}", "--limit", "1"]]
    {
        let run = folder.run(arguments);
        assert_harmless(&(run.out.clone() + &run.err));
        assert!(run.out.is_empty() || run.out.contains("]0;x"), "{}", run.out);
        run.done();
    }
    let id = "\u{1b}]0;x\u{7}\u{9b}31m\r\u{202e}";
    assert_eq!(places(&folder.run(&["search", "needle", "--json", "--session", id]).done()).len(), 2);
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let texts = vec!["needle and a lot of text around it"; 3000];
    let folder = with(&[talk("s", &texts), header("t") + &says(0, "needle"), log("u", 2)]);
    folder.run(&["stats"]).done();
    for arguments in [
        &["search", "needle", "--limit", "100"][..],
        &["search", "needle", "--json"],
        &["stats"],
        &["messages", "s"],
        &["list", "--json"],
    ] {
        let mut child = folder.start(arguments);
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let code = child.wait().unwrap().code();
        assert!(code == Some(0) && !err.contains("panicked"), "{arguments:?}: {code:?} {err}");
    }
}
