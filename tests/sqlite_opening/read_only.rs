//! Stores that this process cannot write: it reads them, leaves nothing behind, and never gives an older or a torn state.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rusqlite::Connection;
use session_persistence::{
    CreateOptions, Error, ErrorKind, Journal, ListFilter, ListOrder, ListQuery, OpenOptions, Origin, Result,
    SessionHeader, SessionPersistence as _, SqliteOptions, SqliteStore, StateKind,
};
use tempfile::TempDir;

use super::place::{beside, content, copy, counts, event, events, id, names, open, put};

/// The store that a child process is to look at.
const CHILD: &str = "SESSIONS_OPENING_VISIT";

/// A user with no rights.
const NOBODY: u32 = 65534;

/// What a visit gives: the number of events of the session `s`, or the error.
fn look(path: &Path) -> String {
    match SqliteStore::open_existing(path).and_then(|store| counts(&store)) {
        Ok(counts) => counts["s"].to_string(),
        Err(error) => format!("{error:?}"),
    }
}

/// What filtered lists of a store give.
fn filtered(store: &SqliteStore) -> Result<Vec<String>> {
    let new = ListFilter::new;
    let filters = [
        new(),
        new().in_cwds([Some("/w")]),
        new().with_parents([Some("a")]),
        new().with_origins([Some(Origin::Subagent)]),
        new().with_versions([2]),
        new().in_states([StateKind::NewerFormat, StateKind::OlderFormat]),
        new().created_in([2..=3])?,
        new().owned(true),
        new().in_cwds([Some("/w\0x")]),
    ];
    let mut told = Vec::new();
    for filter in filters {
        for order in [ListOrder::Activity, ListOrder::Created] {
            let query = ListQuery::default().with_filter(filter.clone()).with_order(order).with_limit(2);
            let page = store.list(&query)?;
            let rest = page.next.map(|next| store.list(&query.with_cursor(next))).transpose()?;
            let items = page.items.iter().chain(rest.iter().flat_map(|rest| &rest.items));
            told.push(items.map(|told| told.id.to_string()).collect());
        }
    }
    Ok(told)
}

/// Tries to write in every way: how each is refused.
fn write(path: &Path) -> Result<Vec<ErrorKind>> {
    let store = SqliteStore::open_existing(path)?;
    let handle = store.create(&SessionHeader::new(id("new"), 1).unwrap(), CreateOptions::default())?;
    let refused = [
        handle.append(&[event(0, 10)]),
        handle.flush(),
        store.flush(),
        store.open(&id("s"), OpenOptions::write()).map(drop),
        store.remove(&id("s")).map(drop),
    ];
    assert_eq!(counts(&store)?.len(), 2, "the one that was created can still be looked at");
    Ok(refused.into_iter().map(|refused| refused.as_ref().map_or_else(Error::kind, |()| panic!("written"))).collect())
}

/// Looks at a store, and tries to write it, once for each line that it is given.
#[test]
#[ignore = "run by other tests as a process of its own"]
fn child_that_visits() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let kept = SqliteStore::open_existing(&path);
    for line in std::io::stdin().lines() {
        let told = match line.unwrap().as_str() {
            "look" => look(&path),
            // Through the store that was opened first.
            "again" => match kept.as_ref().map(counts) {
                Ok(Ok(counts)) => counts["s"].to_string(),
                Ok(Err(error)) => format!("{error:?}"),
                Err(error) => format!("{error:?}"),
            },
            "write" => format!("{:?}", write(&path)),
            "filter" => format!("{:?}", SqliteStore::open_existing(&path).and_then(|store| filtered(&store))),
            other => panic!("{other}"),
        };
        println!("told: {}", told.replace('\n', " "));
    }
}

/// A visitor without the rights of this process.
struct Visitor {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
    _program: TempDir,
}

impl Visitor {
    /// None where this process may not become somebody else.
    fn at(path: &Path) -> Option<Self> {
        if !may_read_all() {
            eprintln!("skipped: only the superuser can run a visitor that has no rights");
            return None;
        }
        // Where everybody can run it.
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("visitor");
        let own = std::env::current_exe().unwrap();
        if fs::hard_link(&own, &program).is_err() {
            fs::copy(&own, &program).unwrap();
        }
        let mut child = Command::new(&program)
            .args(["--ignored", "--exact", "read_only::child_that_visits", "--nocapture"])
            .env(CHILD, path)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .uid(NOBODY)
            .gid(NOBODY)
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, said, _program: folder })
    }

    fn ask(&mut self, what: &str) -> String {
        writeln!(self.child.stdin.as_ref().unwrap(), "{what}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "the visitor is gone");
            if let Some((_, told)) = line.split_once("told: ") {
                return told.trim_end().to_owned();
            }
        }
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success() || std::thread::panicking());
    }
}

/// Whether this process may read what nobody may.
fn may_read_all() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("probe");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o000)).unwrap();
    fs::read(&file).is_ok()
}

/// A closed store of one session with `count` events, in a folder where nothing but the rights is missing.
fn stored(journal: Journal, count: u64, folder_mode: u32, file_mode: u32) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    put(&SqliteStore::open_with(&path, SqliteOptions::default().with_journal(journal)).unwrap(), "s", count, 1000);
    allow(folder.path(), folder_mode, file_mode);
    (folder, path)
}

fn allow(folder: &Path, folder_mode: u32, file_mode: u32) {
    for entry in fs::read_dir(folder).unwrap() {
        fs::set_permissions(entry.unwrap().path(), Permissions::from_mode(file_mode)).unwrap();
    }
    fs::set_permissions(folder, Permissions::from_mode(folder_mode)).unwrap();
}

/// A folder or a file that the visitor cannot write.
const UNWRITABLE: [(u32, u32); 3] = [(0o755, 0o644), (0o555, 0o666), (0o777, 0o444)];

#[test]
fn a_store_that_cannot_be_written_is_read_and_nothing_is_made_beside_it() {
    for journal in [Journal::Wal, Journal::Rollback] {
        for (folder_mode, file_mode) in UNWRITABLE {
            let (folder, path) = stored(journal, 30, folder_mode, file_mode);
            let before = content(folder.path());
            let Some(mut visitor) = Visitor::at(&path) else { return };
            for what in ["look", "again", "look", "again"] {
                assert_eq!(visitor.ask(what), "30", "{journal:?}, {folder_mode:o}, {file_mode:o}");
            }
            let refused = format!("{:?}", Ok::<_, Error>(vec![ErrorKind::StorageReadOnly; 5]));
            assert_eq!(visitor.ask("write"), refused, "{journal:?}, {folder_mode:o}, {file_mode:o}");
            assert!(content(folder.path()) == before, "{journal:?}, {folder_mode:o}, {file_mode:o}");
        }
    }
}

#[test]
fn newest_writes_in_a_wal_that_cannot_be_read_are_an_error_and_no_older_state() {
    let live = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(live.path().join("s.db")).unwrap();
    put(&store, "s", 30, 1000);
    for (folder_mode, file_mode) in UNWRITABLE {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        copy(&live.path().join("s.db"), &path, &["-wal"]);
        allow(folder.path(), folder_mode, file_mode);
        let before = content(folder.path());
        let Some(mut visitor) = Visitor::at(&path) else { return };
        for what in ["look", "again", "write"] {
            let told = visitor.ask(what);
            for part in ["StorageReadOnly", "s.db", "-wal", "open it there once", "copy the file and its -wal"] {
                assert!(told.contains(part), "{folder_mode:o}, {file_mode:o}: {told}");
            }
        }
        assert!(content(folder.path()) == before, "{folder_mode:o}, {file_mode:o}");

        // Where its index lies beside it, it is read.
        fs::copy(live.path().join("s.db-shm"), beside(&path, "-shm")).unwrap();
        allow(folder.path(), folder_mode, file_mode);
        let before = names(folder.path());
        for what in ["look", "look"] {
            assert_eq!(visitor.ask(what), "30", "{folder_mode:o}, {file_mode:o}");
        }
        drop(visitor);
        assert_eq!(names(folder.path()), before, "{folder_mode:o}, {file_mode:o}");
        // Whoever may write puts it in order, and then it is read as it lies there.
        drop(open(&path));
        let mut visitor = Visitor::at(&path).unwrap();
        assert_eq!(visitor.ask("look"), "30");
        drop(visitor);
        assert_eq!(names(folder.path()), ["s.db"]);
    }
}

#[test]
fn a_change_that_was_not_finished_is_an_error_where_it_cannot_be_taken_back() {
    let (live, name) = stored(Journal::Rollback, 30, 0o755, 0o644);
    let connection = Connection::open(&name).unwrap();
    connection.execute_batch("CREATE TABLE mine (x); PRAGMA cache_size = 1; BEGIN").unwrap();
    for _ in 0..100 {
        connection.execute("INSERT INTO mine VALUES (zeroblob(3000))", []).unwrap();
    }
    for (folder_mode, file_mode) in UNWRITABLE {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        copy(&name, &path, &["-journal"]);
        allow(folder.path(), folder_mode, file_mode);
        let before = content(folder.path());
        let Some(mut visitor) = Visitor::at(&path) else { return };
        let told = visitor.ask("look");
        for part in ["StorageReadOnly", "s.db", "-journal"] {
            assert!(told.contains(part), "{folder_mode:o}, {file_mode:o}: {told}");
        }
        assert!(content(folder.path()) == before, "{folder_mode:o}, {file_mode:o}");
        assert_eq!(look(&path), "30", "whoever may write takes it back");
        assert_eq!(visitor.ask("look"), "30");
    }
    drop(live);
}

/// What the visitor is told while somebody else writes: never less than before, and at the end all.
#[test]
fn a_store_that_somebody_else_writes_is_read_whole_and_up_to_date() {
    let rounds = if std::env::var_os("SESSIONS_FULL").is_some() { 100 } else { 6 };
    for journal in [Journal::Wal, Journal::Rollback] {
        let (folder, path) = stored(journal, 1, 0o755, 0o644);
        let Some(mut visitor) = Visitor::at(&path) else { return };
        let mut count = 1;
        for round in 0..rounds {
            let before = count;
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let store = open(&path);
                    let handle = store.open(&id("s"), OpenOptions::write()).unwrap();
                    for _ in 0..4 {
                        handle.append(&events(count..count + 5, 3000)).unwrap();
                        count += 5;
                    }
                });
                let mut seen = before;
                while !writer.is_finished() {
                    let told = visitor.ask(if round % 2 == 0 { "look" } else { "again" });
                    // A writer that comes and goes at this moment is no reason for anything else.
                    let Ok(now) = told.parse::<u64>() else {
                        assert!(told.contains("StorageReadOnly") || told.contains("StoreBusy"), "{journal:?}: {told}");
                        continue;
                    };
                    assert!(now >= seen && (now - 1) % 5 == 0, "{journal:?}, round {round}: {now} after {seen}");
                    seen = now;
                }
                writer.join().unwrap();
            });
            for what in ["look", "again"] {
                assert_eq!(visitor.ask(what), count.to_string(), "{journal:?}, round {round}");
            }
            // A visitor who was still reading when the writer left kept it from putting the WAL away; the next one does.
            drop(open(&path));
            assert_eq!(names(folder.path()), ["s.db"], "{journal:?}, round {round}");
        }
        // While a writer stays it is read through the files that the writer made.
        let store = open(&path);
        let handle = store.open(&id("s"), OpenOptions::write()).unwrap();
        for _ in 0..10 {
            handle.append(&events(count..count + 5, 10)).unwrap();
            count += 5;
            for what in ["look", "again"] {
                assert_eq!(visitor.ask(what), count.to_string(), "{journal:?}");
            }
        }
    }
}

#[test]
fn a_file_that_is_replaced_under_a_visitor_is_told() {
    let (folder, path) = stored(Journal::Wal, 30, 0o755, 0o644);
    let Some(mut visitor) = Visitor::at(&path) else { return };
    assert_eq!(visitor.ask("again"), "30");
    let other = folder.path().join("other.db");
    put(&SqliteStore::open(&other).unwrap(), "s", 7, 10);
    allow(folder.path(), 0o755, 0o644);
    fs::rename(&other, &path).unwrap();
    assert!(visitor.ask("again").contains("UnsupportedStore"));
    assert_eq!(visitor.ask("look"), "7");
}

/// A file system that is gone when it is dropped.
struct Mount(TempDir);

impl Mount {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "none"]).arg(folder.path()).output();
        if mounted.as_ref().is_ok_and(|run| run.status.success()) {
            return Some(Self(folder));
        }
        eprintln!("skipped: nothing can be mounted here: {mounted:?}");
        None
    }

    fn remount(&self, how: &str) {
        let how = format!("remount,{how}");
        assert!(Command::new("mount").args(["-o", &how]).arg(self.0.path()).status().unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

#[test]
fn a_store_on_a_file_system_that_is_mounted_read_only_is_read() {
    for journal in [Journal::Wal, Journal::Rollback] {
        let Some(mount) = Mount::new() else { return };
        let path = mount.0.path().join("s.db");
        let options = SqliteOptions::default().with_journal(journal);
        put(&SqliteStore::open_with(&path, options.clone()).unwrap(), "s", 30, 1000);
        mount.remount("ro");
        assert_eq!(look(&path), "30");
        assert_eq!(write(&path).unwrap(), [ErrorKind::StorageReadOnly; 5]);
        // A mode is for those who write.
        let other = if journal == Journal::Wal { Journal::Rollback } else { Journal::Wal };
        let store = SqliteStore::open_with(&path, SqliteOptions::default().with_journal(other)).unwrap();
        assert_eq!(counts(&store).unwrap()["s"], 30);
        assert_eq!(
            SqliteStore::open(mount.0.path().join("new.db")).map(drop).unwrap_err().kind(),
            ErrorKind::StorageReadOnly
        );
        let elsewhere = tempfile::tempdir().unwrap();
        let backup = elsewhere.path().join("backup.db");
        store.backup(&backup).unwrap();
        assert_eq!(counts(&open(&backup)).unwrap()["s"], 30);
        let report = session_persistence::upkeep::verify(&store, None, &mut |_| {}).unwrap();
        assert!(report.is_sound() && report.events == 30);
        assert_eq!(store.compact().unwrap_err().kind(), ErrorKind::StorageReadOnly);
        assert_eq!(names(mount.0.path()), ["s.db"]);

        mount.remount("rw");
        let handle = open(&path).open(&id("s"), OpenOptions::write()).unwrap();
        handle.append(&events(30..35, 1000)).unwrap();
        drop(handle);
        assert_eq!(counts(&store).unwrap()["s"], 35, "by the store that was opened before");
        let refused = store.remove(&id("s")).unwrap_err();
        assert!(refused.kind() == ErrorKind::StorageReadOnly && format!("{refused:?}").contains("open it again"));
        drop(store);
        assert!(open(&path).remove(&id("s")).unwrap());
    }
}

#[test]
fn a_store_of_an_earlier_version_that_cannot_be_written_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(include_str!("../schemas/1.sql")).unwrap();
    connection.execute_batch("PRAGMA journal_mode = wal").unwrap();
    connection
        .set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
        .and_then(|_| connection.execute_batch("INSERT INTO store VALUES (1, 'id', 0, 0)"))
        .unwrap();
    drop(connection);
    allow(folder.path(), 0o755, 0o644);
    let before = content(folder.path());
    let Some(mut visitor) = Visitor::at(&path) else { return };
    let told = visitor.ask("look");
    assert!(told.contains("StorageReadOnly") && told.contains("version 1"), "{told}");
    assert!(content(folder.path()) == before);
}

#[test]
fn a_store_of_version_2_that_cannot_be_written_is_listed_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).unwrap();
    let made = |name: &str, created| SessionHeader::new(id(name), created).unwrap();
    for header in [
        made("a", 4).with_cwd("/w"),
        made("b", 3).with_cwd("/w").with_parent_session("a").with_origin(Origin::Subagent),
        made("c", 2).with_parent_session("a").with_version(2),
        made("d", 1).with_cwd("/w\0x"),
    ] {
        store.create(&header, CreateOptions::default()).unwrap().append(&[event(0, 10)]).unwrap();
    }
    let expected = format!("{:?}", filtered(&store));
    assert!(
        expected.starts_with(r#"Ok(["dcba", "abcd", "ba", "ab", "cb", "bc", "b", "b", "c", "c", "c", "c", "#),
        "{expected}"
    );
    assert!(expected.ends_with(r#", "cb", "bc", "", "", "d", "d"])"#), "{expected}");
    drop(store);
    let connection = Connection::open(&path).unwrap();
    let names = "SELECT name FROM sqlite_schema WHERE type = 'index' AND name GLOB 'sessions_*' AND name <> 'sessions_by_creation'";
    let names: Vec<String> =
        connection.prepare(names).unwrap().query_map([], |row| row.get(0)).unwrap().map(|name| name.unwrap()).collect();
    assert_eq!(names.len(), 6);
    names.iter().for_each(|name| connection.execute_batch(&format!("DROP INDEX {name}")).unwrap());
    connection.execute_batch("PRAGMA user_version = 2").unwrap();
    drop(connection);
    allow(folder.path(), 0o755, 0o644);
    let before = content(folder.path());
    let Some(mut visitor) = Visitor::at(&path) else { return };
    assert_eq!(visitor.ask("filter"), expected);
    assert!(content(folder.path()) == before);
}
