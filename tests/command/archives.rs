//! Archives, copies and foreign databases from the command line.

use crate::folder::{Folder, Run, log};

fn child(id: &str, parent: &str) -> String {
    log(id, 2).replacen("\"isSeeded\"", &format!("\"parentSession\":\"{parent}\",\"isSeeded\""), 1)
}

fn family() -> Folder {
    let folder = Folder::with_session("root", 3);
    for (name, id) in [("a.jsonl", "a"), ("A.jsonl", "A")] {
        folder.write(name, child(id, "root"));
        folder.run(&["import", name]).done();
    }
    folder
}

#[test]
fn an_archive_goes_out_and_comes_back() {
    let folder = family();
    folder.run(&["export", "root", "--format", "zip", "--descendants", "-o", "x.zip"]).done();
    let piped = folder.command().args(["export", "root", "--format", "zip", "--descendants"]).output().unwrap();
    assert!(piped.stdout == std::fs::read(folder.path("x.zip")).unwrap());
    let report = folder.run(&["--store", "other.db", "import", "x.zip"]).done();
    assert_eq!(report.lines().filter(|line| line.starts_with("imported ")).count(), 3, "{report}");
    for id in ["root", "a", "A"] {
        let export = |store| folder.run(&["--store", store, "export", id]).done();
        assert_eq!(export("other.db"), export("sessions.db"));
    }
    folder.run(&["--store", "other.db", "export", "root", "--format", "zip", "--descendants", "-o", "y.zip"]).done();
    let read = |name| std::fs::read(folder.path(name)).unwrap();
    assert!(read("x.zip") == read("y.zip"));
    let report = folder.run(&["--store", "other.db", "import", "x.zip"]).done();
    assert_eq!(report.lines().filter(|line| line.starts_with("unchanged ")).count(), 3, "{report}");
}

#[test]
fn every_session_can_have_an_archive_of_its_own() {
    let folder = family();
    folder.run(&["export", "root", "a", "--format", "zip", "-o", "out/"]).done();
    for name in ["out/root.zip", "out/a.zip"] {
        assert!(std::fs::read(folder.path(name)).unwrap().starts_with(b"PK"), "{name}");
    }
    folder.run(&["export", "root", "--descendants"]).misused("--format zip");
    folder.run(&["export", "root", "--format", "tar"]).misused("tar");
    folder.run(&["export", "absent", "--format", "zip", "-o", "absent.zip"]).failed("NotFound", &["absent"]);
    assert!(!folder.path("absent.zip").exists());
}

#[test]
fn an_archive_that_is_refused_leaves_no_store_behind() {
    let folder = family();
    folder.run(&["export", "root", "--format", "zip", "-o", "x.zip"]).done();
    let archive = std::fs::read(folder.path("x.zip")).unwrap();
    folder.write("cut.zip", &archive[..archive.len() - 1]);
    let run = folder.run(&["--store", "new.db", "import", "cut.zip"]);
    run.failed("InvalidArchive", &["cut.zip: the archive is damaged", "nothing was stored"]);
    assert!(!folder.path("new.db").exists());
}

#[test]
fn sessions_are_copied_into_another_store() {
    let folder = family();
    let report = folder.run(&["copy", "--to", "copy.db", "root"]).done();
    assert!(report.starts_with("imported   root  3 events  from sessions.db"), "{report}");
    let run = folder.run(&["copy", "--to", "copy.db"]);
    assert!(run.err.contains("3 sessions are stored, 0 failed"), "{}", run.err);
    let report = run.done();
    assert_eq!(report.lines().filter(|line| line.starts_with("imported ")).count(), 2, "{report}");
    assert_eq!(report.lines().filter(|line| line.starts_with("unchanged ")).count(), 1, "{report}");

    folder.write("longer.jsonl", log("root", 5));
    folder.run(&["import", "--extend", "longer.jsonl"]).done();
    let run = folder.run(&["copy", "--to", "copy.db"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("sessions: Conflict: sessions.db: session \"root\""), "{}", run.err);
    assert_eq!(run.out.lines().count(), 2, "{}", run.out);
    let report = folder.run(&["copy", "--extend", "--to", "copy.db", "root"]).done();
    assert!(report.starts_with("extended   root  2 events added, 5 now"), "{report}");
    folder.run(&["copy", "--to", "copy.db", "absent"]).failed("NotFound", &["absent"]);
    folder.run(&["copy"]).misused("--to");
}

#[test]
fn a_copy_out_of_an_absent_store_makes_none() {
    let folder = Folder::new();
    folder.run(&["copy", "--to", "copy.db"]).failed("UnsupportedStore", &["sessions.db"]);
    assert!(folder.content().is_empty());
}

#[test]
fn a_database_of_another_program_is_named_and_makes_no_store() {
    let folder = Folder::new();
    let database = rusqlite::Connection::open(folder.path("other.db")).unwrap();
    database.execute_batch("CREATE TABLE t (x); PRAGMA application_id = 0x44534850; PRAGMA user_version = 9;").unwrap();
    database.close().unwrap();
    folder.run(&["import", "other.db"]).failed("UnsupportedSource", &["other.db", "schema version 9"]);
    assert!(!folder.path("sessions.db").exists());
}

#[test]
fn an_archive_on_the_standard_input_is_refused_with_what_to_do() {
    let folder = family();
    folder.run(&["export", "root", "--format", "zip", "-o", "x.zip"]).done();
    let archive = std::fs::read(folder.path("x.zip")).unwrap();
    let run = Run::of(folder.command().args(["import", "-"]).write_stdin(archive));
    run.failed("InvalidLog", &["ZIP archive", "import the file"]);
}
