//! What the command tells of what it finds, and what to do about it.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use crate::folder::{Folder, event, log, objects};

#[test]
fn a_log_that_was_cut_is_told_from_none_that_is_whole() {
    for (store, file) in
        [("jsonl+raw:root", "root/_no-cwd/a/session.v3.jsonl"), ("jsonl:root", "root/_no-cwd/a/session.v3.jsonl.zstd")]
    {
        let folder = Folder::new();
        folder.write("log.jsonl", log("a", 3));
        folder.run(&["--store", store, "import", "log.jsonl"]).done();
        folder.write("log.jsonl", log("a", 6));
        folder.run(&["--store", store, "import", "--extend", "log.jsonl"]).done();
        assert!(!folder.run(&["--store", "root", "list"]).done().contains("verify"));
        let file = folder.path(file);
        let length = fs::metadata(&file).unwrap().len();
        File::options().write(true).open(&file).unwrap().set_len(length - 10).unwrap();

        let told = folder.run(&["--store", "root", "verify"]).done();
        for text in
            ["leftover   session \"a\" seq ", "if a writer was stopped", "cut short", "before anything is appended"]
        {
            assert!(told.contains(text), "{store}: {told}");
        }
        let listed = folder.run(&["--store", "root", "list"]).done();
        assert!(listed.contains("unfinished end of ") && listed.contains("run verify"), "{store}: {listed}");
        for command in [&["backup", "saved"][..], &["copy", "--to", "copy.db"]] {
            let run = folder.run(&[&["--store", "root"], command].concat());
            assert!(run.err.contains("do not check out"), "{store} {command:?}: {}", run.err);
            run.done();
        }
    }
}

#[test]
fn a_log_whose_events_cannot_be_counted_is_told_in_the_list() {
    let folder = Folder::new();
    folder.write("a.jsonl", log("a", 3));
    folder.run(&["--store", "jsonl+raw:root", "import", "a.jsonl"]).done();
    let file = folder.path("root/_no-cwd/a/session.v3.jsonl");
    fs::write(&file, fs::read_to_string(&file).unwrap() + &event("todo/write", 4_000_000, "{}")).unwrap();
    let listed = folder.run(&["--store", "root", "list"]).done();
    assert!(listed.contains("count unknown: run verify"), "{listed}");
}

#[test]
fn behind_damage_there_may_be_more_and_it_is_said_where_to_look() {
    let folder = Folder::with_session("a", 6);
    let other = rusqlite::Connection::open(folder.path("sessions.db")).unwrap();
    other.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    other.execute("UPDATE events SET time = 0 WHERE seq = 3", []).unwrap();
    other.close().unwrap();
    folder.run(&["export", "a"]).failed("Corruption", &["show ID --from SEQ", "before anything of it is removed"]);
    let told = folder.run(&["verify"]).out;
    assert!(told.contains("show ID --from SEQ"), "{told}");
    let run = folder.run(&["salvage", "a", "--to", "b"]);
    assert!(run.err.contains("show ID --from SEQ") && run.err.contains("before the damaged"), "{}", run.err);
    assert!(folder.run(&["show", "a", "--from", "4"]).done().contains("turn/end"), "and there is more");
}

#[test]
fn the_list_tells_of_the_last_write_by_which_it_is_sorted() {
    let folder = Folder::new();
    folder.write("log.jsonl", log("a", 3));
    folder.run(&["--store", "jsonl+raw:root", "import", "log.jsonl"]).done();
    let written = SystemTime::now() - Duration::from_secs(3 * 86_400 + 60);
    let file = File::options().write(true).open(folder.path("root/_no-cwd/a/session.v3.jsonl")).unwrap();
    file.set_modified(written).unwrap();
    let listed = folder.run(&["--store", "root", "list"]).done();
    assert!(listed.contains("3 days ago"), "{listed}");
    let record = &objects(&folder.run(&["--store", "root", "list", "--json"]).done())[0];
    assert_eq!(record["lastTime"], 1_700_000_002_000_u64);
    assert_eq!(record["writtenAt"], written.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64);
    folder.run(&["import", "log.jsonl"]).done();
    assert!(folder.run(&["list"]).done().contains("just now"), "of a file of SQLite");
}

#[test]
fn a_backup_of_a_folder_and_a_copy_are_new_writes_and_a_backup_of_a_file_is_none() {
    let folder = Folder::new();
    folder.write("log.jsonl", log("a", 3));
    for store in ["jsonl+raw:root", "sessions.db"] {
        folder.run(&["--store", store, "import", "log.jsonl"]).done();
    }
    let file = File::options().write(true).open(folder.path("root/_no-cwd/a/session.v3.jsonl")).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(40 * 86_400)).unwrap();
    let written = |store: &str| {
        objects(&folder.run(&["--store", store, "list", "--json"]).done())[0]["writtenAt"].as_u64().unwrap()
    };
    folder.run(&["--store", "root", "backup", "saved"]).done();
    folder.run(&["--store", "root", "copy", "--to", "copy.db"]).done();
    folder.run(&["backup", "saved.db"]).done();
    let month = 30 * 86_400_000;
    assert!(written("saved") > written("root") + month && written("copy.db") > written("root") + month);
    assert_eq!(written("saved.db"), written("sessions.db"));
    let help = folder.run(&["prune", "--help"]).done();
    assert!(help.contains("last modified") && help.contains("start anew"), "{help}");
}

#[test]
fn a_log_of_an_older_format_is_not_told_to_be_extended() {
    let folder = Folder::new();
    let old = |count| log("a", count).replace("\"version\":3", "\"version\":2");
    for (name, count) in [("short.jsonl", 2), ("long.jsonl", 4)] {
        folder.write(name, old(count));
    }
    folder.run(&["import", "short.jsonl"]).done();
    let run = folder.run(&["import", "long.jsonl"]);
    assert!(!run.err.contains("--extend"), "{}", run.err);
    run.failed("Conflict", &["up to seq 2", "format 2 cannot be extended", "another store"]);
}

#[test]
fn what_is_counted_is_what_was_given() {
    let folder = Folder::new();
    folder.write("a.jsonl", log("a", 1));
    folder.write("b.jsonl", log("b", 2));
    let run = folder.run(&["import", "a.jsonl", "b.jsonl", "a.jsonl"]);
    assert_eq!(run.err, "3 logs are stored, 0 failed\n");
    assert!(run.done().starts_with("imported   a  1 event  from"));
    assert_eq!(folder.run(&["verify", "a"]).err, "1 session with 1 event was checked: no fault\n");
    assert!(folder.run(&["copy", "--to", "c.db"]).err.starts_with("2 sessions are stored"));
    assert!(folder.run(&["export", "a", "-o", "x"]).err.starts_with("1 event, "));
}

#[test]
fn a_database_of_another_program_is_told_how_it_comes_in() {
    let folder = Folder::new();
    let database = rusqlite::Connection::open(folder.path("dsh.db")).unwrap();
    database.execute_batch("CREATE TABLE t (x); PRAGMA application_id = 0x44534850; PRAGMA user_version = 9;").unwrap();
    database.close().unwrap();
    folder.run(&["--store", "dsh.db", "list"]).failed("UnsupportedStore", &["import it", "`sessions import`"]);
}

#[cfg(unix)]
#[test]
fn too_many_open_files_are_no_fault_of_the_store() {
    for store in ["sessions.db", "jsonl:root"] {
        let folder = Folder::new();
        folder.write("log.jsonl", log("a", 3));
        folder.run(&["--store", store, "import", "log.jsonl"]).done();
        let mut met = 0;
        for limit in 4..14 {
            let run = std::process::Command::new("sh")
                .args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_sessions")])
                .args(["--store", store.trim_start_matches("jsonl:"), "verify"])
                .current_dir(folder.path("."))
                .output()
                .unwrap();
            let (out, err) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
            assert!(out.is_empty() && !err.contains("restore"), "{store} {limit}: {out}{err}");
            if !run.status.success() {
                met += 1;
                assert!(err.starts_with("sessions: Io: ") && err.contains("ulimit -n"), "{store} {limit}: {err}");
            }
        }
        assert!(met > 0, "{store}: the limit was never met");
    }
}

/// The one who asks is somebody else than the one whose files they are.
#[cfg(unix)]
#[test]
fn a_store_that_may_not_be_read_names_the_file_or_the_folder() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with_session("a", 3);
    fs::create_dir(folder.path("closed")).unwrap();
    fs::copy(folder.path("sessions.db"), folder.path("closed/sessions.db")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_sessions"), folder.path("sessions")).unwrap();
    let allow = |name: &str, mode| fs::set_permissions(folder.path(name), fs::Permissions::from_mode(mode)).unwrap();
    allow(".", 0o755);
    allow("sessions.db", 0o600);
    allow("closed", 0o700);
    for (store, reason) in
        [("sessions.db", "sessions.db cannot be read"), ("closed/sessions.db", "closed cannot be entered")]
    {
        let run = std::process::Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "./sessions", "--store", store, "list"])
            .current_dir(folder.path("."))
            .output();
        let Some(run) = run.ok().filter(|run| run.status.code() == Some(1)) else {
            eprintln!("skipped: nobody else can be asked here");
            return;
        };
        let err = String::from_utf8(run.stderr).unwrap();
        if err.starts_with("setpriv") {
            eprintln!("skipped: {err}");
            return;
        }
        assert!(err.contains(reason) && !err.contains("file://"), "{store}: {err}");
    }
}
