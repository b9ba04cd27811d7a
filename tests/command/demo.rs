use session_persistence::{Error, OpenOptions, SeqRange, SessionId, SessionPersistence, SqliteStore};

use crate::folder::{Folder, Run, log, objects};

#[test]
fn the_demo_makes_a_store_shows_it_and_shows_it_again() {
    let folder = Folder::new();
    let first = folder.run(&["demo"]);
    assert!(first.err.contains("sessions --store sessions-demo.db show fix-login-loop"), "{}", first.err);
    let shown = first.done();
    assert!(shown.lines().count() >= 6 && shown.contains("fork of fix-login-loop"), "{shown}");
    assert_eq!(folder.content().len(), 1, "only the store is made");

    let before = folder.run(&["--store", "sessions-demo.db", "list", "--json"]).done();
    let second = folder.run(&["demo"]);
    assert!(second.err.contains("there already"), "{}", second.err);
    assert_eq!(second.done().lines().count(), shown.lines().count());
    assert_eq!(folder.run(&["--store", "sessions-demo.db", "list", "--json"]).done(), before);
}

#[test]
fn what_the_demo_suggests_works() {
    let folder = Folder::new();
    let hints = folder.run(&["demo", "--store", "my demo.db"]).err;
    let commands: Vec<_> = hints.lines().filter_map(|line| line.trim().strip_prefix("sessions ")).collect();
    assert!(commands.len() >= 4, "{hints}");
    for command in commands {
        let shell = format!("{} {command}", env!("CARGO_BIN_EXE_sessions"));
        let mut sh = assert_cmd::Command::new("sh");
        let run = Run::of(sh.args(["-c", &shell]).current_dir(folder.path("")));
        assert!(!run.done().is_empty(), "{command}");
    }
}

#[test]
fn the_demo_stays_out_of_a_store_that_is_in_use() {
    let folder = Folder::with_session("mine", 2);
    let before = folder.content();
    folder.run(&["--store", "sessions.db", "demo"]).failed("InvalidArgument", &["\"mine\"", "sessions.db", "--store"]);
    assert!(folder.content() == before);
    Run::of(folder.command().arg("demo").env("SESSIONS_STORE", "sessions.db")).done();
    assert_eq!(folder.run(&["list", "--json"]).done().lines().count(), 1);
    folder.write("log.jsonl", log("other", 1));
    folder.run(&["--store", "sessions-demo.db", "import", "log.jsonl"]).done();
    folder.run(&["demo"]).failed("InvalidArgument", &["\"other\""]);
}

#[test]
fn the_examples_are_sessions_that_a_host_can_open() {
    let folder = Folder::new();
    folder.run(&["demo"]).done();
    let store = SqliteStore::open_existing(folder.path("sessions-demo.db")).unwrap();
    let open =
        |id: &str| store.open(&SessionId::new(id)?, OpenOptions::read()).map_err(Box::<dyn std::error::Error>::from);
    for record in objects(&folder.run(&["--store", "sessions-demo.db", "list", "--json"]).done()) {
        open(record["id"].as_str().unwrap()).unwrap().read(SeqRange::ALL).unwrap();
    }
    let fork = open("limit-login-attempts").unwrap();
    let inherited = fork.inherited_event_count();
    assert!(inherited > 0);
    let parent = open("fix-login-loop").unwrap().read(SeqRange::from(..inherited)).unwrap();
    assert_eq!(fork.read(SeqRange::from(..inherited)).unwrap(), parent);
    let deploy = open("deploy-check").unwrap().read(SeqRange::ALL).unwrap();
    assert!(deploy.iter().any(|e| e.is_ignorable() && e.event_type().starts_with("acme/")));
    let report = open("weekly-report").unwrap().read(SeqRange::ALL).unwrap();
    assert_eq!(report.last().unwrap().event_type(), "tool/call");
    assert!(matches!(store.open(&SessionId::new("x").unwrap(), OpenOptions::read()), Err(Error::NotFound { .. })));
}

#[test]
fn run_through_cargo_the_demo_suggests_commands_through_cargo() {
    let folder = Folder::new();
    let mut command = folder.command();
    command.env("CARGO_PKG_NAME", "session-persistence").arg("demo");
    let run = Run::of(&mut command);
    assert!(run.err.contains("\n  cargo sessions --store"), "{}", run.err);
}
