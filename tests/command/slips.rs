//! Command lines that can only be slips: refused with what to write instead, and nothing is touched.

use std::fs;

use crate::folder::{Folder, log};

#[test]
fn a_place_that_names_none_is_refused() {
    let folder = Folder::with_session("s", 1);
    folder.write("a.jsonl", log("a", 1));
    let before = folder.content();
    for store in ["", "sqlite:", "jsonl:"] {
        for command in [&["list"][..], &["import", "a.jsonl"], &["demo"]] {
            folder.run(&[&["--store", store], command].concat()).misused("path of the store is empty");
        }
    }
    folder.run(&["copy", "--to", ""]).misused("path of the store is empty");
    assert!(folder.content() == before);
}

#[test]
fn a_kind_of_store_that_is_none_is_refused_with_those_that_are_known() {
    let folder = Folder::with_session("s", 1);
    folder.write("a.jsonl", log("a", 1));
    let before = folder.content();
    for command in [&["list"][..], &["import", "a.jsonl"]] {
        folder.run(&[&["--store", "foo:bar"], command].concat()).misused("sqlite+rollback:, jsonl: and jsonl+raw:");
    }
    folder.run(&["copy", "--to", "zip:x"]).misused("jsonl+raw:");
    assert!(folder.content() == before);
    // Names of files that have a colon, and no word in front of it or nothing else to be.
    for store in ["./foo:bar", "sqlite:foo:baz", "2026-01-31T12:00.db"] {
        folder.run(&["--store", store, "import", "a.jsonl"]).done();
    }
    folder.run(&["--store", "foo:bar", "stat", "a"]).done();
}

#[test]
fn nothing_is_written_where_the_store_keeps_its_files_or_will() {
    for store in ["sessions.db", "sqlite+rollback:sessions.db"] {
        let folder = Folder::new();
        folder.write("a.jsonl", log("a", 2));
        folder.run(&["--store", store, "import", "a.jsonl"]).done();
        #[cfg(unix)]
        std::os::unix::fs::symlink("sessions.db", folder.path("link.db")).unwrap();
        let before = folder.content();
        for end in ["-wal", "-shm", "-journal", "-locks", "-locks/7.lock", "-locks/"] {
            let name = format!("sessions.db{end}");
            for named in [store, "link.db", "./sessions.db"].iter().take(if cfg!(unix) { 3 } else { 1 }) {
                folder.run(&["--store", named, "export", "a", "-o", &name]).misused("part of the store itself");
                folder.run(&["--store", named, "copy", "--to", &name]).misused("the store itself, or a part of it");
                let run = folder.run(&["--store", named, "backup", &name]);
                assert_ne!(run.code, 0, "{named} {name}");
            }
            if !end.contains('/') {
                let run = folder.run(&["--store", &name, "import", "a.jsonl"]);
                assert!(run.code == 1 && run.err.contains("SQLite keeps beside"), "{name}: {}", run.err);
            }
            assert!(folder.content() == before && !folder.path("sessions.db-locks").exists(), "{store} {name}");
        }
        assert_eq!(folder.run(&["--store", store, "export", "a"]).done(), log("a", 2));
    }
}

#[test]
fn an_export_into_a_folder_never_takes_the_name_of_the_store() {
    let folder = Folder::new();
    folder.write("log", log("a", 2));
    folder.run(&["--store", "a.jsonl", "import", "log"]).done();
    folder.run(&["--store", "jsonl:root", "import", "log"]).done();
    let before = folder.content();
    folder.run(&["--store", "a.jsonl", "export", "--all", "-o", "./"]).misused("part of the store itself");
    for output in ["root", "root/new/", "root/new.jsonl", "root/_no-cwd/a/x"] {
        folder.run(&["--store", "root", "export", "a", "-o", output]).misused("part of the store itself");
    }
    assert!(folder.content() == before);
}

#[test]
fn a_store_is_not_copied_onto_itself() {
    let folder = Folder::with_session("a", 2);
    folder.run(&["copy", "--to", "jsonl:root"]).done();
    let before = folder.content();
    for to in ["sessions.db", "./sessions.db", "sqlite:sessions.db"] {
        folder.run(&["copy", "--to", to]).misused("is the store itself");
    }
    for to in ["root", "jsonl:root", "jsonl:root/inner"] {
        folder.run(&["--store", "root", "copy", "--to", to]).misused("is the store itself");
    }
    fs::copy(folder.path("sessions.db"), folder.path("root/inner.db")).unwrap();
    folder.run(&["--store", "root/inner.db", "copy", "--to", "root"]).done();
    fs::remove_file(folder.path("root/inner.db")).unwrap();
    folder.run(&["--store", "root", "import", "root"]).misused("no source for it");
    assert!(folder.content() == before);
}

#[test]
fn a_backup_is_named_by_its_path_in_a_folder_that_is_there() {
    let folder = Folder::with_session("a", 2);
    folder.run(&["backup", "jsonl:b"]).misused("copy --to jsonl:b");
    folder.run(&["backup", "absent/b.db"]).failed("InvalidArgument", &["absent/b.db", "no folder absent", "make it"]);
    assert_eq!(folder.content().len(), 1);
    assert!(!folder.path("absent").exists());
}

#[test]
fn a_slip_shows_how_its_own_command_is_used() {
    let folder = Folder::with_session("a", 2);
    for arguments in [&["export", "a", "b"][..], &["export", "a", "--descendants"]] {
        folder.run(arguments).misused("Usage: sessions export ");
    }
    folder.run(&["export"]).misused("--all");
    folder.run(&["export", "a", "--all"]).misused("--all");
    let run = folder.run(&["prune", "--older-than", "30"]);
    assert!(run.err.contains("<AGE>': an age is written as 12h, 30d or 2w"), "{}", run.err);
}

#[test]
fn what_fails_leaves_no_new_store_behind() {
    let folder = Folder::with_session("a", 2);
    folder.write("bad.jsonl", "no log");
    folder.write("good.jsonl", log("b", 1));
    let before = folder.content();
    for store in ["new.db", "jsonl:new"] {
        folder.run(&["--store", store, "import", "bad.jsonl"]).failed("InvalidLog", &["bad.jsonl"]);
        folder.run(&["copy", "--to", store, "absent"]).failed("NotFound", &["absent"]);
        assert!(folder.content() == before, "{store}");
    }
    assert_eq!(folder.run(&["--store", "new.db", "import", "bad.jsonl", "good.jsonl"]).code, 1);
    assert_eq!(folder.run(&["--store", "new.db", "export", "b"]).done(), log("b", 1));
    folder.run(&["remove", "a"]).done();
    folder.run(&["copy", "--to", "none.db"]).done();
    assert_eq!(folder.run(&["--store", "none.db", "list", "--json"]).done(), "", "a copy of an empty store is one");
}

#[test]
fn an_answer_of_no_event_says_so() {
    let folder = Folder::with_session("a", 3);
    let types = "no event matches; of these types there are some: turn/end, turn/start\n";
    for (arguments, told) in [
        (&["--type", "nosuch"][..], types),
        (&["--type", "nosuch,none", "--json"], types),
        (&["--type", "turn/start", "--from", "3"], "no event matches\n"),
        (&["--from", "5000"], "no event matches\n"),
        (&["--from", "3", "--json"], "no event matches\n"),
    ] {
        let run = folder.run(&[&["show", "a"], arguments].concat());
        assert_eq!(run.err, told, "{arguments:?}");
        run.done();
    }
    for arguments in [&["--limit", "0"][..], &["--from", "2"]] {
        assert_eq!(folder.run(&[&["show", "a"], arguments].concat()).err, "");
    }
}

#[test]
fn a_type_or_a_parent_without_a_name_is_refused() {
    let folder = Folder::with_session("a", 3);
    for arguments in [
        &["show", "a", "--type", ""][..],
        &["show", "a", "--type", "x,"],
        &["search", "x", "--type", ""],
        &["list", "--parent", ""],
    ] {
        folder.run(arguments).misused("a value is required");
    }
    assert_eq!(folder.content().len(), 1);
}

#[test]
fn nothing_is_compacted_when_nothing_was_removed() {
    let folder = Folder::with_session("a", 3);
    let before = folder.content();
    folder.run(&["remove", "absent", "--compact"]).failed("NotFound", &["absent"]);
    assert!(folder.content() == before);
}
