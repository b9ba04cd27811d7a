use crate::folder::{Folder, Run, log};

const COMMANDS: [&str; 16] = [
    "messages", "search", "stats", "demo", "list", "stat", "show", "export", "import", "copy", "verify", "salvage",
    "backup", "remove", "prune", "sql",
];

/// Every command that reads, in its shortest form.
const READING: [&[&str]; 9] = [
    &["list"],
    &["list", "--json"],
    &["stat", "s"],
    &["show", "s"],
    &["messages", "s"],
    &["export", "s"],
    &["verify"],
    &["verify", "--json", "s"],
    &["sql", "select 1"],
];

/// Those that make an index beside the store.
const INDEXING: [&[&str]; 2] = [&["search", "x"], &["stats"]];

#[test]
fn an_absent_store_is_an_error_and_stays_absent() {
    let folder = Folder::new();
    for command in READING.iter().chain(&INDEXING) {
        let run = folder.run(command);
        assert!(run.out.is_empty(), "{command:?}");
        run.failed("UnsupportedStore", &["sessions.db", "no such file", "--store", "$SESSIONS_STORE"]);
        folder.run(&[&["--store", "absent/x.db"], *command].concat()).failed("UnsupportedStore", &["absent/x.db"]);
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
        for command in READING.iter().chain(&INDEXING).chain(&writing) {
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
fn a_store_in_rollback_mode_is_named_so_and_keeps_it() {
    let folder = Folder::new();
    folder.write("log.jsonl", log("s", 4));
    folder
        .run(&["--store", "sqlite+rollback:slow.db", "list"])
        .failed("UnsupportedStore", &["slow.db", "no such file"]);
    folder.run(&["--store", "sqlite+rollback:slow.db", "import", "log.jsonl"]).done();
    folder.run(&["--store", "sqlite:fast.db", "import", "log.jsonl"]).done();
    let mode = |name: &str| -> String {
        let database = rusqlite::Connection::open(folder.path(name)).unwrap();
        database.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap()
    };
    assert_eq!((mode("slow.db"), mode("fast.db")), ("delete".to_owned(), "wal".to_owned()));
    for name in ["sqlite+rollback:slow.db", "slow.db", "sqlite:slow.db", "sqlite+rollback:fast.db"] {
        assert_eq!(folder.run(&["--store", name, "export", "s"]).done(), log("s", 4), "{name}");
        assert!(folder.run(&["--store", name, "sql", "select count(*) from session_events"]).done().ends_with("4\n"));
    }
    assert_eq!(
        (mode("slow.db"), mode("fast.db")),
        ("delete".to_owned(), "wal".to_owned()),
        "who only looks changes none"
    );
    folder.write("other.jsonl", log("t", 1));
    for name in ["slow.db", "sqlite+rollback:fast.db"] {
        folder.run(&["--store", name, "import", "other.jsonl"]).done();
        assert_eq!(folder.run(&["--store", name, "list", "--json"]).done().lines().count(), 2);
    }
    assert_eq!((mode("slow.db"), mode("fast.db")), ("delete".to_owned(), "delete".to_owned()));
    assert_eq!(folder.content().len(), 4, "nothing is left beside them");
    let help = folder.run(&["--help"]).done();
    assert!(help.contains("sqlite+rollback:PATH"), "{help}");
}

/// What a crash of the machine, a full disk or an editor makes of a store: the same error for every command, which names it
/// and says what to do, and not one byte is changed.
#[test]
fn a_broken_store_is_told_by_every_command_and_left_as_it_is() {
    for (mode, name) in [("sqlite:", "wal.db"), ("sqlite+rollback:", "rollback.db")] {
        let folder = Folder::new();
        folder.write("log.jsonl", log("s", 200));
        let store = format!("{mode}{name}");
        folder.run(&["--store", &store, "import", "log.jsonl"]).done();
        let whole = std::fs::read(folder.path(name)).unwrap();
        let random: Vec<u8> = (0..8192_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let broken = [
            (["not a SQLite database", "not a SQLite database"], [&random[..], &whole[8192..]].concat()),
            (["malformed", "backup"], whole[..8192].to_vec()),
            (["the file is empty", "restore a backup"], Vec::new()),
            (["not a SQLite database", "not a SQLite database"], b"Notes of last week. ".repeat(5000)),
        ];
        for (reasons, bytes) in broken {
            folder.write(name, &bytes);
            let before = folder.content();
            let writing: [&[&str]; 3] = [&["import", "log.jsonl"], &["demo"], &["copy", "--to", "new.db"]];
            for command in READING.iter().chain(&INDEXING).chain(&writing) {
                let run = folder.run(&[&["--store", &store], *command].concat());
                assert!(run.out.is_empty(), "{store} {command:?}");
                run.failed("UnsupportedStore", &[name, reasons[0], reasons[1]]);
                assert!(folder.content() == before, "{store} {command:?}");
            }
        }
    }
}

/// Where nothing can be written every command that reads does, and those that write say why not.
#[cfg(unix)]
#[test]
fn a_store_that_cannot_be_written_is_read_by_every_command() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("mounted")).unwrap();
    let mount = |how: &[&str]| {
        let run = std::process::Command::new("mount").args(how).arg(folder.path("mounted")).output();
        run.is_ok_and(|run| run.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=32m", "none"]) {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    struct Unmount(std::path::PathBuf);
    impl Drop for Unmount {
        fn drop(&mut self) {
            let run = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
            assert!(run.is_ok_and(|run| run.success()) || std::thread::panicking());
        }
    }
    let _unmount = Unmount(folder.path("mounted"));
    folder.write("log.jsonl", log("s", 4));
    for store in ["sqlite:mounted/wal.db", "sqlite+rollback:mounted/rollback.db"] {
        folder.run(&["--store", store, "import", "log.jsonl"]).done();
    }
    assert!(mount(&["-o", "remount,ro"]));
    folder.write("other.jsonl", log("t", 1));
    let before = folder.content();
    for store in ["sqlite:mounted/wal.db", "sqlite+rollback:mounted/rollback.db"] {
        for command in READING {
            let told = folder.run(&[&["--store", store], command].concat()).done();
            // A check that finds nothing says nothing, and no model sees turns that start and end.
            assert_eq!(told.is_empty(), ["verify", "messages"].contains(&command[0]), "{store} {command:?}");
        }
        assert_eq!(folder.run(&["--store", store, "export", "s"]).done(), log("s", 4), "{store}");
        let path = store.split_once(':').unwrap().1;
        folder.run(&["--store", store, "import", "other.jsonl"]).failed("StorageReadOnly", &[path]);
        folder
            .run(&["--store", "mounted/new.db", "import", "other.jsonl"])
            .failed("StorageReadOnly", &["mounted/new.db"]);
        for command in INDEXING {
            let run = folder.run(&[&["--store", store], command].concat());
            assert!(run.out.is_empty(), "{store} {command:?}");
            run.failed("IndexFailed", &[&format!("{path}.index"), "Read-only", "--index or $SESSIONS_INDEX"]);
        }
        assert!(folder.content() == before, "{store}");
        for command in INDEXING {
            folder.run(&[&["--store", store, "--index", "own.index"], command].concat()).misused("--index");
            folder.run(&[command, &["--store", store, "--index", "own.index"]].concat()).done();
        }
        let listed = folder.run(&["list", "--json", "--store", store, "--index", "own.index"]).done();
        assert!(listed.contains("\"turns\":2"), "{listed}");
        for name in ["own.index", "own.index-lock", "own.index-wal", "own.index-shm"] {
            // What SQLite keeps beside it while it is read may be there, or not.
            let removed = std::fs::remove_file(folder.path(name));
            assert!(removed.is_ok() || name.ends_with("-wal") || name.ends_with("-shm"), "{name}");
        }
    }
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
