use crate::folder::{Folder, Run, log};

const COMMANDS: [&str; 13] = [
    "demo", "list", "stat", "show", "export", "import", "copy", "verify", "salvage", "backup", "remove", "prune", "sql",
];

/// Every command that reads, in its shortest form.
const READING: [&[&str]; 8] = [
    &["list"],
    &["list", "--json"],
    &["stat", "s"],
    &["show", "s"],
    &["export", "s"],
    &["verify"],
    &["verify", "--json", "s"],
    &["sql", "select 1"],
];

#[test]
fn an_absent_store_is_an_error_and_stays_absent() {
    let folder = Folder::new();
    for command in READING {
        let run = folder.run(command);
        assert!(run.out.is_empty(), "{command:?}");
        run.failed("UnsupportedStore", &["sessions.db", "no such file", "--store", "$SESSIONS_STORE"]);
        folder.run(&[&["--store", "absent/x.db"], command].concat()).failed("UnsupportedStore", &["absent/x.db"]);
        assert!(folder.content().is_empty() && !folder.path("absent").exists(), "{command:?}");
    }
}

#[test]
fn a_place_that_holds_something_else_is_refused_and_left_as_it_is() {
    let folder = Folder::new();
    folder.write("log.jsonl", log("s", 1));
    folder.write("garbage", "not a database at all, but some text that somebody wrote".repeat(100));
    folder.write("empty", "");
    let foreign = rusqlite::Connection::open(folder.path("foreign.db")).unwrap();
    foreign.execute_batch("CREATE TABLE sessions (id TEXT); INSERT INTO sessions VALUES ('s')").unwrap();
    foreign.close().unwrap();
    std::fs::create_dir(folder.path("directory")).unwrap();
    folder.write("directory/notes", "of somebody");
    let before = folder.content();
    let writing: [&[&str]; 2] = [&["import", "log.jsonl"], &["demo"]];
    for (store, reason) in [
        ("garbage", "not a SQLite database"),
        ("empty", "the file is empty"),
        ("foreign.db", "another program"),
        ("directory", "folder"),
        ("jsonl:directory", "folder"),
        ("jsonl+raw:directory", "folder"),
        ("jsonl:log.jsonl", "log.jsonl"),
    ] {
        for command in READING.iter().chain(&writing) {
            let run = folder.run(&[&["--store", store], *command].concat());
            assert!(run.out.is_empty(), "{store} {command:?}");
            let path = store.rsplit(':').next().unwrap();
            run.failed("UnsupportedStore", &[path, reason]);
            assert!(folder.content() == before, "{store} {command:?}");
        }
    }
}

#[test]
fn a_store_is_named_by_the_call_or_by_the_environment() {
    let folder = Folder::new();
    folder.write("log.jsonl", log("s", 2));
    folder.run(&["--store", "sqlite:work.db", "import", "log.jsonl"]).done();
    assert!(folder.path("work.db").exists() && !folder.path("sessions.db").exists());
    let named = folder.run(&["list", "--json", "--store", "work.db"]).done();
    assert_eq!(named.lines().count(), 1);
    assert_eq!(Run::of(folder.command().args(["list", "--json"]).env("SESSIONS_STORE", "work.db")).done(), named);
    assert_eq!(
        Run::of(folder.command().args(["list", "--json"]).env("SESSIONS_STORE", "sqlite:work.db")).done(),
        named
    );
    let both = Run::of(folder.command().args(["--store", "other.db", "list"]).env("SESSIONS_STORE", "work.db"));
    both.failed("UnsupportedStore", &["other.db"]);
}

#[test]
fn a_folder_is_a_store_of_log_files() {
    let folder = Folder::new();
    folder.write("log.jsonl", log("s", 3));
    for (store, file) in [("jsonl:packed", "session.v3.jsonl.zstd"), ("jsonl+raw:plain", "session.v3.jsonl")] {
        folder.run(&["--store", store, "list"]).failed("UnsupportedStore", &["no such file"]);
        folder.run(&["--store", store, "import", "log.jsonl"]).done();
        let path = store.split_once(':').unwrap().1;
        assert!(folder.path(path).join("_no-cwd/s").join(file).exists(), "{store}");
        for name in [store, path] {
            assert_eq!(folder.run(&["--store", name, "list", "--json"]).done().lines().count(), 1, "{name}");
            assert_eq!(folder.run(&["--store", name, "export", "s"]).done(), log("s", 3), "{name}");
            assert!(folder.run(&["--store", name, "show", "s"]).done().contains("turn/start"), "{name}");
            folder.run(&["--store", name, "sql", "select 1"]).failed("UnsupportedStore", &[path, "copy"]);
        }
        folder.run(&["--store", path, "copy", "--to", "all.db"]).done();
    }
    let report = folder.run(&["--store", "all.db", "copy", "--to", "plain"]).done();
    assert!(report.starts_with("unchanged  s  3 events"), "{report}");
    let report = folder.run(&["--store", "new.db", "import", "plain"]).done();
    assert!(report.starts_with("imported   s  3 events  from plain"), "{report}");
}

#[test]
fn an_absent_session_is_an_error() {
    let folder = Folder::with_session("s", 1);
    for command in ["stat", "show", "export"] {
        let run = folder.run(&[command, "t\n"]);
        assert!(run.out.is_empty(), "{command}");
        run.failed("NotFound", &["\"t\\n\"", "`list`"]);
    }
}

#[test]
fn a_store_without_sessions_is_an_empty_list_and_says_so() {
    let folder = Folder::with_session("s", 1);
    let store = session_persistence::SqliteStore::open_existing(folder.path("sessions.db")).unwrap();
    let id = session_persistence::SessionId::new("s").unwrap();
    assert!(session_persistence::SessionPersistence::remove(&store, &id).unwrap());
    drop(store);
    let run = folder.run(&["list"]);
    assert!(run.err.contains("no sessions in sessions.db"), "{}", run.err);
    assert_eq!(run.done(), "");
    assert_eq!(folder.run(&["list", "--json"]).done(), "");
    assert_eq!(folder.run(&["export", "--all", "-o", "out"]).done(), "");
}

#[test]
fn help_is_there_for_every_command() {
    let folder = Folder::new();
    let help = folder.run(&["--help"]).done();
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{help}");
        let of_command = folder.run(&[command, "--help"]).done();
        assert!(of_command.contains("Usage: sessions") && of_command.contains("--store"), "{of_command}");
    }
    assert!(help.contains("Examples:"));
    assert!(folder.run(&["--version"]).done().starts_with("sessions 0."));
}
