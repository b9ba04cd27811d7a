use std::io::Read as _;
use std::process::{Command, Stdio};

use crate::folder::{Folder, Run, event, log, objects};

#[cfg(unix)]
fn mode(path: &std::path::Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn all_sessions_go_into_a_folder_and_come_back_the_same() {
    let folder = Folder::new();
    let ids = ["plain", "a/b", "..", "A", "a", "é", "--", "a\nb", ".hidden", "../../x"];
    for id in ids {
        folder.write("log.jsonl", log(&id.replace('\n', "\\n"), 3));
        folder.run(&["import", "log.jsonl"]).done();
    }
    assert_eq!(folder.run(&["export", "--all", "-o", "out/logs"]).done(), "");
    let mut names: Vec<_> = std::fs::read_dir(folder.path("out/logs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "A.jsonl",
        "a.jsonl",
        "a~000Ab.jsonl",
        "a~002Fb.jsonl",
        "plain.jsonl",
        "~002D-.jsonl",
        "~002E.~002F..~002Fx.jsonl",
        "~002Ehidden.jsonl",
        "~002E~002E.jsonl",
        "~00E9.jsonl",
    ];
    assert_eq!(names, expected);
    #[cfg(unix)]
    {
        assert_eq!(mode(&folder.path("out")), 0o700);
        assert_eq!(mode(&folder.path("out/logs")), 0o700);
        assert_eq!(mode(&folder.path("out/logs/plain.jsonl")), 0o600);
    }
    assert_eq!(folder.read("out/logs/a~002Fb.jsonl"), log("a/b", 3));

    let paths: Vec<_> = names.iter().map(|name| format!("out/logs/{name}")).collect();
    let mut arguments = vec!["--store", "copy.db", "import"];
    arguments.extend(paths.iter().map(String::as_str));
    let report = folder.run(&arguments).done();
    assert_eq!(report.lines().filter(|line| line.starts_with("imported ")).count(), ids.len(), "{report}");
    let report = folder.run(&arguments).done();
    assert_eq!(report.lines().filter(|line| line.starts_with("unchanged ")).count(), ids.len(), "{report}");
    for id in ids {
        let export = |store| folder.run(&["--store", store, "export", "--", id]).done();
        assert_eq!(export("copy.db"), export("sessions.db"), "{id:?}");
    }
}

#[test]
fn an_output_is_a_file_a_folder_or_the_standard_output() {
    let folder = Folder::with_session("s", 3);
    let text = log("s", 3);
    assert_eq!(folder.run(&["export", "s"]).done(), text);
    assert_eq!(folder.run(&["export", "s", "-o", "-"]).done(), text);
    folder.write("old.jsonl", "what stood there");
    for output in ["old.jsonl", "new.jsonl"] {
        assert_eq!(folder.run(&["export", "s", "--output", output]).done(), "");
        assert_eq!(folder.read(output), text);
    }
    folder.run(&["export", "s", "-o", "made/"]).done();
    std::fs::create_dir(folder.path("there")).unwrap();
    folder.run(&["export", "s", "-o", "there"]).done();
    assert_eq!(folder.read("made/s.jsonl") + &folder.read("there/s.jsonl"), text.repeat(2));
    folder.run(&["export", "s", "-o", "absent/s.jsonl"]).failed("Io", &["absent/s.jsonl"]);
}

#[test]
fn a_command_line_that_makes_no_sense_is_refused() {
    let folder = Folder::with_session("s", 1);
    let before = folder.content();
    folder.run(&[]).misused("Usage: sessions");
    folder.run(&["nonsense"]).misused("nonsense");
    folder.run(&["export"]).misused("ID");
    folder.run(&["export", "--all", "s"]).misused("--all");
    folder.run(&["export", "s", "t"]).misused("--output DIR");
    folder.run(&["export", "--all"]).misused("--output DIR");
    folder.run(&["export", "s", "t", "-o", "sessions.db"]).misused("is a file");
    folder.run(&["import"]).misused("PATH");
    folder.run(&["stat", ""]).misused("it is empty");
    folder.run(&["show", "s", "--from", "x"]).misused("--from");
    assert!(folder.content() == before);
}

#[test]
fn sessions_that_cannot_be_exported_do_not_keep_the_others_back() {
    let folder = Folder::with_session("s", 3);
    folder.run(&["export", "absent"]).failed("NotFound", &["\"absent\""]);
    let run = folder.run(&["export", "absent", "s", "-o", "out"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("sessions: NotFound: session \"absent\""), "{}", run.err);
    assert_eq!(folder.read("out/s.jsonl"), log("s", 3));
}

#[test]
fn an_import_tells_of_each_file_and_goes_on_after_a_failure() {
    let folder = Folder::with_session("stored", 3);
    folder.write("broken.jsonl", log("broken", 2) + "{}\n");
    folder.write("longer.jsonl", log("stored", 5));
    folder.write("other.jsonl", log("stored", 2) + &event("turn/end", 2, "{}"));
    folder.write("sound.jsonl", log("sound", 2));
    let sources = folder.content();
    let run = folder.run(&["import", "absent.jsonl", "broken.jsonl", "longer.jsonl", "other.jsonl", "sound.jsonl"]);
    assert_eq!(run.code, 1);
    let kinds: Vec<_> = run.err.lines().filter_map(|line| line.strip_prefix("sessions: ")?.split_once(": ")).collect();
    let expected = [
        ("Io", "absent.jsonl"),
        ("InvalidLog", "broken.jsonl, line 4"),
        ("Conflict", "longer.jsonl: session \"stored\""),
        ("Conflict", "other.jsonl: session \"stored\" is stored with another event at seq 2"),
    ];
    assert_eq!(kinds.len(), expected.len(), "{}", run.err);
    for ((kind, text), (expected_kind, start)) in kinds.iter().zip(expected) {
        assert!(*kind == expected_kind && text.starts_with(start), "{kind}: {text}");
    }
    assert_eq!(run.out.lines().count(), 1);
    assert!(run.out.starts_with("imported   sound  2 events"), "{}", run.out);

    let run = folder.run(&["import", "--extend", "longer.jsonl"]).done();
    assert!(run.starts_with("extended   stored  2 events added, 5 now"), "{run}");
    assert_eq!(folder.run(&["export", "stored"]).done(), log("stored", 5));
    for (path, content) in sources {
        if path.extension().is_some_and(|e| e == "jsonl") {
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
    }
}

#[test]
fn the_standard_input_can_be_imported() {
    let folder = Folder::new();
    Run::of(folder.command().args(["import", "-"]).write_stdin(log("s", 4))).done();
    assert_eq!(folder.run(&["export", "s"]).done(), log("s", 4));
    let run = Run::of(folder.command().args(["import", "-"]).write_stdin("x\n"));
    run.failed("InvalidLog", &["the standard input, line 1: ", "at column 1"]);
}

#[test]
fn a_wrong_path_leaves_no_store_behind() {
    let folder = Folder::new();
    folder.run(&["import", "absent.jsonl"]).failed("Io", &["absent.jsonl"]);
    folder.run(&["import", "."]).failed("UnsupportedSource", &["."]);
    assert!(folder.content().is_empty());
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let folder = Folder::with_session("s", 50_000);
    let query = "select * from session_events";
    for arguments in
        [&["export", "s"][..], &["show", "s"], &["show", "s", "--json"], &["sql", query], &["sql", "--json", query]]
    {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sessions"))
            .args(arguments)
            .current_dir(folder.path(""))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut start = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut start).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(objects(&folder.run(&["list", "--json"]).done()).len(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure_and_not_a_short_export() {
    let folder = Folder::with_session("s", 50_000);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for arguments in [&["export", "s"][..], &["show", "s"], &["list"], &["--help"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessions"));
        let output = command.args(arguments).current_dir(folder.path("")).stdout(full()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            text.starts_with("sessions: StorageFull: ") && text.contains("free some space"),
            "{arguments:?}: {text}"
        );
    }
    folder.run(&["export", "s", "-o", "/dev/full"]).failed("StorageFull", &["/dev/full", "free some space"]);
}

#[test]
fn an_export_never_replaces_the_store_and_an_import_never_opens_it_as_a_source() {
    let folder = Folder::new();
    folder.write("a.jsonl", log("a", 3));
    folder.run(&["import", "a.jsonl"]).done();
    std::fs::hard_link(folder.path("sessions.db"), folder.path("link.db")).unwrap();
    let before = folder.content();
    for target in ["sessions.db", "./sessions.db", "link.db"] {
        folder.run(&["export", "a", "-o", target]).misused("part of the store itself");
        folder.run(&["import", "a.jsonl", target]).misused("part of the store itself");
    }
    assert!(folder.content() == before, "no byte changes");
}

#[test]
fn of_many_imports_of_one_log_at_once_none_fails() {
    let folder = Folder::new();
    folder.write("a.jsonl", log("a", 50));
    let importing: Vec<_> = (0..8)
        .map(|_| {
            Command::new(env!("CARGO_BIN_EXE_sessions"))
                .args(["import", "a.jsonl"])
                .current_dir(folder.path("."))
                .env_remove("SESSIONS_STORE")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut imported = 0;
    for child in importing {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        imported += usize::from(output.stdout.starts_with(b"imported"));
    }
    assert_eq!(imported, 1);
}

#[test]
fn an_import_of_a_root_that_is_killed_half_way_is_finished_by_the_next() {
    use std::io::BufRead as _;
    let folder = Folder::new();
    let ids: Vec<_> = (0..60).map(|i| format!("session-{i:02}")).collect();
    for id in &ids {
        std::fs::create_dir_all(folder.path("logs")).unwrap();
        folder.write(&format!("logs/{id}.jsonl"), log(id, 40));
    }
    let mut import = folder.command();
    import.args(["--store", "jsonl:root", "import"]).args(ids.iter().map(|id| format!("logs/{id}.jsonl")));
    Run::of(&mut import).done();
    let source =
        || folder.content().into_iter().filter(|(path, _)| path.starts_with(folder.path("root"))).collect::<Vec<_>>();
    let before = source();
    for store in ["sqlite:killed.db", "jsonl+raw:killed"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sessions"))
            .args(["--store", store, "import", "root"])
            .current_dir(folder.path("."))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let told = std::io::BufReader::new(child.stdout.take().unwrap()).lines().next();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(told.is_none_or(|line| line.unwrap().starts_with("imported")));
        let listed = folder.run(&["--store", store, "list", "--json"]).done();
        for session in objects(&listed) {
            assert_eq!(session["eventCount"], 40, "what is there is whole: {session:?}");
        }
        folder.run(&["--store", store, "import", "root"]).done();
        let again = folder.run(&["--store", store, "import", "root"]).done();
        assert!(again.lines().count() == ids.len() && again.lines().all(|l| l.starts_with("unchanged")), "{again}");
        for id in &ids {
            assert_eq!(folder.run(&["--store", store, "export", id]).done(), log(id, 40));
        }
    }
    assert!(source() == before, "the source stays as it is");
}
