//! Databases in the two layouts that DeepSeek Harness has: made here, and imported.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::types::Value;
use rusqlite::{Connection, params};
use session_persistence::export::{self, ImportError, ImportOptions};
use session_persistence::{ErrorKind, ListQuery, MemoryStore, OpenOptions, SeqRange, SessionPersistence};

use crate::logs::{Reports, content, id, import, stores, text};

const V14: &str = "
    CREATE TABLE persistence_state (singleton INTEGER PRIMARY KEY CHECK (singleton = 1), store_id TEXT NOT NULL) STRICT;
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, version INTEGER NOT NULL, created_at INTEGER NOT NULL, cwd TEXT, parent_session TEXT,
        seed_length INTEGER, origin TEXT, delegation_depth INTEGER, agent_preset TEXT, incarnation TEXT NOT NULL,
        revision INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE events (
        session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE, seq INTEGER NOT NULL, type TEXT NOT NULL,
        time INTEGER NOT NULL, data TEXT NOT NULL, source_event_seqs TEXT, surface_op TEXT,
        PRIMARY KEY (session_id, seq)
    ) STRICT;
    PRAGMA application_id = 0x44534850; PRAGMA user_version = 14;";

/// The layout of version 17, by what it has in another way.
fn v17() -> String {
    V14.replace(
        "data TEXT NOT NULL, source_event_seqs TEXT, surface_op TEXT,",
        "data ANY NOT NULL, source_event_seqs ANY, \
         surface_op TEXT, ignorable INTEGER CHECK (ignorable IS NULL OR ignorable IN (0, 1)),",
    )
    .replace("user_version = 14", "user_version = 17")
}

struct Database {
    folder: tempfile::TempDir,
    connection: Option<Connection>,
}

impl Database {
    fn new(schema: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("dsh.db")).unwrap();
        connection.execute_batch(schema).unwrap();
        Self { folder, connection: Some(connection) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("dsh.db")
    }

    fn run(&self, sql: &str) {
        self.connection.as_ref().unwrap().execute_batch(sql).unwrap();
    }

    fn session(&self, id: &str) {
        let sql = "INSERT INTO sessions VALUES (?, 0, 5, '/srv/app', NULL, NULL, NULL, 0, NULL, 'i', 1)";
        self.connection.as_ref().unwrap().execute(sql, [id]).unwrap();
    }

    /// Adds a row; `rest` are the values behind the time.
    fn row(&self, session: &str, seq: i64, event_type: &str, rest: impl IntoIterator<Item = Value>) {
        let connection = self.connection.as_ref().unwrap();
        let mut values = vec![Value::from(session.to_owned()), seq.into(), event_type.to_owned().into()];
        values.push((1000 + seq).into());
        values.extend(rest);
        let marks = vec!["?"; values.len()].join(",");
        let sql = format!("INSERT INTO events VALUES ({marks})");
        connection.execute(&sql, rusqlite::params_from_iter(values)).unwrap();
    }

    fn plain(&self, session: &str, seq: i64, event_type: &str, data: &str) {
        let columns = self.connection.as_ref().unwrap().prepare("SELECT * FROM events").unwrap().column_count() - 5;
        let rest = std::iter::once(words(data)).chain(vec![Value::Null; columns]);
        self.row(session, seq, event_type, rest);
    }

    fn close(&mut self) {
        self.connection.take().unwrap().close().unwrap();
    }

    fn import(&self, store: &dyn SessionPersistence) -> Reports {
        let mut reports = Reports::default();
        export::import_path(store, &self.path(), ImportOptions::default(), &mut reports.take());
        reports
    }
}

fn words(text: &str) -> Value {
    text.to_owned().into()
}

fn header(id: &str) -> String {
    format!(
        "{{\"type\":\"session\",\"version\":0,\"id\":\"{id}\",\"createdAt\":5,\"cwd\":\"/srv/app\",\"delegationDepth\":0}}\n"
    )
}

fn event(event_type: &str, seq: u64, rest: &str) -> String {
    crate::logs::event(event_type, seq, rest)
}

fn chunk(seq: u64, text: &str) -> String {
    let chunk = format!(r#"{{"type":"text-delta","index":0,"text":"{text}"}}"#);
    event("assistant/chunk", seq, &format!(r#"{{"turn":1,"step":1,"chunk":{chunk}}}"#))
}

/// The files of a folder, with their content and times.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        files.insert(path.clone(), (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap()));
    }
    files.insert(folder.to_owned(), (Vec::new(), fs::metadata(folder).unwrap().modified().unwrap()));
    files
}

#[test]
fn a_database_of_version_14_becomes_logs() {
    let mut database = Database::new(V14);
    database.session("s");
    database.plain("s", 0, "turn/start", r#"{"turn":1}"#);
    database.row("s", 1, "user/message", [words(r#"{"b":1,"a":"\ud83d"}"#), words("[]"), words("\"append\"")]);
    let replace = r#"{"op":"replace","end":1,"start":1}"#;
    database.row("s", 2, "tool/result", [words("[1.0]"), words("[0,1]"), words(replace)]);
    database.close();
    for (name, store) in stores() {
        let before = files(database.folder.path());
        assert_eq!(database.import(&*store).letters(), "C", "{name}");
        let expected = header("s")
            + &event("turn/start", 0, r#"{"turn":1}"#)
            + &event("user/message", 1, r#"{"b":1,"a":"\ud83d"},"sourceEventSeqs":[],"surfaceOp":"append""#)
            + &event("tool/result", 2, &format!(r#"[1.0],"sourceEventSeqs":[0,1],"surfaceOp":{replace}"#));
        assert_eq!(text(&*store, &id("s")), expected, "{name}");
        assert_eq!(database.import(&*store).letters(), "U", "{name}");
        assert_eq!(files(database.folder.path()), before, "{name}");
    }
}

#[test]
fn a_database_of_version_17_unpacks_its_rows_and_its_data() {
    let mut database = Database::new(&v17());
    database.session("s");
    let long = format!("{{\"text\":\"{}\"}}", "a long text ".repeat(1000));
    let packed = zstd::bulk::compress(long.as_bytes(), 3).unwrap();
    database.row("s", 0, "user/message", [packed.into(), Value::Null, words("\"append\""), Value::Null]);
    let run = r#"{"turn":1,"step":1,"index":0,"dt":[1,1],"texts":["a","b","c"]}"#;
    database.row("s", 1, "text-chunks", [words(run), Value::Null, Value::Null, 0.into()]);
    let sources = vec![3_u8, 1, 3, 2];
    database.row("s", 4, "assistant/message", [words("{}"), sources.into(), words("\"append\""), Value::Null]);
    database.row("s", 5, "assistant/message", [words("{}"), Vec::<u8>::new().into(), Value::Null, Value::Null]);
    database.row("s", 6, "acme/pulse", [words("null"), Value::Null, Value::Null, 1.into()]);
    database.plain("s", 7, "turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#);
    database.close();
    let expected = header("s")
        + &event("user/message", 0, &format!("{long},\"surfaceOp\":\"append\""))
        + &chunk(1, "a")
        + &chunk(2, "b")
        + &chunk(3, "c")
        + &event("assistant/message", 4, r#"{},"sourceEventSeqs":[3,2,0,1],"surfaceOp":"append""#)
        + &event("assistant/message", 5, r#"{},"sourceEventSeqs":[]"#)
        + &event("acme/pulse", 6, r#"null,"ignorable":true"#)
        + &event("turn/end", 7, r#"{"turn":1,"reason":{"kind":"completed"}}"#);
    for (name, store) in stores() {
        let before = files(database.folder.path());
        assert_eq!(database.import(&*store).letters(), "C", "{name}");
        assert_eq!(text(&*store, &id("s")), expected, "{name}");
        assert_eq!(files(database.folder.path()), before, "{name}");
    }
}

#[test]
fn a_header_has_the_columns_that_are_filled_in_their_order() {
    let mut database = Database::new(V14);
    database.run(
        "INSERT INTO sessions VALUES ('full', 1, 7, '', 'p', 1, 'subagent', 3, 'x\"y', 'i', 0);
         INSERT INTO sessions VALUES ('bare', 0, 3, NULL, NULL, NULL, NULL, NULL, NULL, 'i', 0);
         INSERT INTO sessions VALUES ('', 0, 4, NULL, NULL, NULL, NULL, NULL, NULL, 'i', 0);
         INSERT INTO sessions VALUES ('new', 3, 5, NULL, NULL, NULL, NULL, 0, NULL, 'i', 0);
         INSERT INTO sessions VALUES ('odd', 0, -6, NULL, NULL, NULL, NULL, 0, NULL, 'i', 0);",
    );
    database.plain("full", 0, "turn/start", "{}");
    database.close();
    let store = MemoryStore::new();
    let reports = database.import(&store);
    assert_eq!(reports.letters(), "FCFFC");
    let errors: Vec<_> = reports.0.iter().filter_map(|r| r.as_ref().err()).map(ToString::to_string).collect();
    for (error, because) in errors.iter().zip(["createdAt", "empty", "isSeeded"]) {
        assert!(error.contains(because) && error.ends_with("nothing of it was stored"), "{error}");
    }
    assert_eq!(text(&store, &id("bare")), "{\"type\":\"session\",\"version\":0,\"id\":\"bare\",\"createdAt\":3}\n");
    let full = r#"{"type":"session","version":1,"id":"full","createdAt":7,"cwd":"","parentSession":"p","seedLength":1,"origin":"subagent","delegationDepth":3,"agentPreset":"x\"y"}"#;
    assert_eq!(text(&store, &id("full")), format!("{full}\n{}", event("turn/start", 0, "{}")));
    assert_eq!(store.open(&id("full"), OpenOptions::uninterpreted()).unwrap().inherited_event_count(), 1);
}

#[test]
fn what_stands_behind_the_last_finished_turn_and_cannot_be_read_is_left_out() {
    let torn: [&dyn Fn(&Database); 5] = [
        &|db| db.plain("s", 4, "turn/start", "{}"),
        &|db| db.plain("s", 3, "turn/start", "{torn"),
        &|db| db.plain("s", 3, "text-chunks", "{}"),
        &|db| {
            db.row(
                "s",
                3,
                "turn/start",
                [vec![0x28_u8, 0xb5, 0x2f, 0xfd].into(), Value::Null, Value::Null, Value::Null],
            );
            db.plain("s", 4, "turn/start", "{}");
        },
        &|db| db.row("s", 3, "user/message", [words("{}"), vec![0x80_u8].into(), Value::Null, Value::Null]),
    ];
    for (index, tear) in torn.into_iter().enumerate() {
        let mut database = Database::new(&v17());
        database.session("s");
        for (seq, event_type) in [(0, "turn/start"), (1, "turn/end"), (2, "turn/start")] {
            database.plain("s", seq, event_type, "{}");
        }
        tear(&database);
        database.close();
        let store = MemoryStore::new();
        assert_eq!(database.import(&store).letters(), "C", "{index}");
        let kept = event("turn/start", 0, "{}") + &event("turn/end", 1, "{}") + &event("turn/start", 2, "{}");
        assert_eq!(text(&store, &id("s")), header("s") + &kept, "{index}");
    }
}

#[test]
fn damage_before_a_finished_turn_is_an_error_with_its_seq_and_leaves_the_others_alone() {
    let damages = [
        ("DELETE FROM events WHERE seq = 1", 1),
        ("UPDATE events SET data = '{' WHERE seq = 1", 1),
        ("UPDATE events SET data = x'28b52ffd' WHERE seq = 2", 2),
        ("UPDATE events SET source_event_seqs = x'05' WHERE seq = 1", 1),
        ("UPDATE events SET surface_op = '1,\"ignorable\":true' WHERE seq = 1", 1),
        ("UPDATE events SET data = '1,\"x\":2' WHERE seq = 0", 0),
        ("UPDATE events SET ignorable = 0 WHERE seq = 1", 1),
        ("DELETE FROM events WHERE seq = 0", 0),
    ];
    for (damage, at) in damages {
        let mut database = Database::new(&v17());
        for session in ["a", "s", "z"] {
            database.session(session);
            for (seq, event_type) in [(0, "turn/start"), (1, "step/start"), (2, "step/end"), (3, "turn/end")] {
                database.plain(session, seq, event_type, "{}");
            }
        }
        database.run(&format!("{damage} AND session_id = 's'"));
        database.close();
        let store = MemoryStore::new();
        let reports = database.import(&store);
        assert_eq!(reports.letters(), "CFC", "{damage}");
        let error = reports.error();
        let ImportError::Source { source, session, .. } = &error else { panic!("{damage}: {error}") };
        assert_eq!((source.kind(), session), (ErrorKind::Corruption, &id("s")), "{damage}");
        let session_persistence::Error::Corruption { seq: Some(seq), .. } = &**source else { panic!("{source}") };
        assert_eq!(seq.get(), at, "{damage}: {source}");
        assert_eq!(content(&store).len(), 2, "{damage}");
    }
}

#[test]
fn a_finished_turn_that_cannot_be_read_itself_proves_nothing() {
    let mut database = Database::new(V14);
    database.session("s");
    for (seq, event_type, data) in [(0, "turn/start", "{}"), (1, "turn/end", "{}"), (3, "turn/end", "{torn")] {
        database.plain("s", seq, event_type, data);
    }
    database.close();
    let store = MemoryStore::new();
    assert_eq!(database.import(&store).letters(), "C");
    assert_eq!(text(&store, &id("s")).lines().count(), 3);
}

#[test]
fn other_databases_are_refused_by_name_with_nothing_stored() {
    for (change, because) in [
        ("PRAGMA user_version = 16", "schema version 16"),
        ("PRAGMA user_version = 18", "schema version 18"),
        ("PRAGMA user_version = 0", "schema version 0"),
        ("PRAGMA application_id = 0x44534851", "0x44534851"),
        ("PRAGMA application_id = 0", "another program"),
        ("DROP TABLE events", "does not have its tables"),
        ("DROP TABLE events; CREATE VIEW events AS SELECT * FROM sessions", "does not have its tables"),
        ("ALTER TABLE sessions RENAME COLUMN cwd TO folder", "cannot be read as"),
    ] {
        let mut database = Database::new(&v17());
        database.session("s");
        database.run(change);
        database.close();
        let store = MemoryStore::new();
        let error = database.import(&store).error();
        assert!(matches!(&error, ImportError::Foreign { .. }), "{change}: {error}");
        let text = error.to_string();
        assert!(text.contains(because) && text.ends_with("nothing was stored"), "{change}: {text}");
        assert!(store.list(&ListQuery::default()).unwrap().items.is_empty());
    }
}

#[test]
fn a_store_of_our_own_is_named_and_its_locks_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.db");
    let store = session_persistence::SqliteStore::open(&path).unwrap();
    import(&store, &crate::logs::plain("s", 3));
    let mut reports = Reports::default();
    export::import_path(&store, &path, ImportOptions::default(), &mut reports.take());
    let error = reports.error().to_string();
    assert!(error.contains("copy --to"), "{error}");
    import(&store, &crate::logs::plain("t", 3));
    assert_eq!(content(&store).len(), 2);
}

#[test]
fn changes_that_stand_beside_a_database_are_read_and_stay_there() {
    let mut database = Database::new(&v17());
    database.run("PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0;");
    database.session("s");
    database.plain("s", 0, "turn/start", "{}");
    // As a program leaves it that was killed: a copy of what stands there while it is open.
    let killed = tempfile::tempdir().unwrap();
    for name in ["dsh.db", "dsh.db-wal"] {
        fs::copy(database.folder.path().join(name), killed.path().join(name)).unwrap();
    }
    database.close();
    let before = files(killed.path());
    let store = MemoryStore::new();
    let mut reports = Reports::default();
    export::import_path(&store, &killed.path().join("dsh.db"), ImportOptions::default(), &mut reports.take());
    assert_eq!(reports.letters(), "C");
    assert_eq!(text(&store, &id("s")), header("s") + &event("turn/start", 0, "{}"));
    assert_eq!(files(killed.path()), before);
}

#[test]
fn a_read_starts_anywhere_in_what_was_packed() {
    let mut database = Database::new(&v17());
    database.session("s");
    let mut seq = 0;
    for length in [1, 2, 3, 500] {
        let texts = vec!["\"x\""; length].join(",");
        let dt = vec!["1"; length - 1].join(",");
        let run = format!(r#"{{"turn":1,"step":1,"index":0,"dt":[{dt}],"texts":[{texts}]}}"#);
        database.row("s", seq, "reasoning-chunks", [words(&run), Value::Null, Value::Null, 0.into()]);
        seq += length as i64;
        database.plain("s", seq, "step/end", "{}");
        seq += 1;
    }
    database.close();
    for (name, store) in stores() {
        assert_eq!(database.import(&*store).letters(), "C", "{name}");
        let handle = store.open(&id("s"), OpenOptions::uninterpreted()).unwrap();
        let all = handle.read(SeqRange::ALL).unwrap();
        assert_eq!(all.len() as i64, seq, "{name}");
        for from in 0..=all.len() + 1 {
            let read = handle.read(SeqRange::from(from as u64..)).unwrap();
            assert_eq!(read, all[from.min(all.len())..], "{name}: from {from}");
        }
    }
}

#[test]
fn a_database_of_someone_else_s_tables_and_indexes_is_read_all_the_same() {
    let mut database = Database::new(V14);
    database.session("s");
    database.run("CREATE TABLE mine (x); CREATE INDEX by_type ON events (type); CREATE VIEW v AS SELECT 1;");
    let connection = database.connection.as_ref().unwrap();
    connection.execute("INSERT INTO mine VALUES (?)", params!["x"]).unwrap();
    database.close();
    assert_eq!(database.import(&MemoryStore::new()).letters(), "C");
}

/// The samples that DeepSeek Harness itself wrote, where `SESSION_SAMPLES` names their folder.
fn samples() -> Option<PathBuf> {
    let samples = std::env::var_os("SESSION_SAMPLES").map(PathBuf::from);
    if samples.is_none() {
        eprintln!("SKIPPED: SESSION_SAMPLES names no folder with logs/ and dsh-root/databases/ in it");
    }
    samples
}

#[test]
fn the_databases_that_the_harness_itself_wrote_become_its_plain_logs() {
    let Some(samples) = samples() else { return };
    for version in [14, 17] {
        let path = samples.join(format!("dsh-root/databases/dsh-{version}.db"));
        let before = fs::read(&path).unwrap();
        for (name, store) in stores() {
            let mut reports = Reports::default();
            export::import_path(&*store, &path, ImportOptions::default(), &mut reports.take());
            assert_eq!(reports.letters(), "CCC", "{version} into {name}");
            for (session, text) in content(&*store) {
                let log = fs::read_to_string(samples.join(format!("logs/{session}.jsonl"))).unwrap();
                assert!(text == log, "{version} into {name}: {session:?}");
            }
        }
        assert!(fs::read(&path).unwrap() == before);
    }
}

#[test]
fn the_packed_log_that_the_harness_itself_wrote_becomes_its_plain_log() {
    let Some(samples) = samples() else { return };
    let store = MemoryStore::new();
    let path = samples.join("logs/v0-bash-tool.packed.jsonl");
    export::import_file(&store, &path, ImportOptions::default()).unwrap();
    let plain = fs::read_to_string(samples.join("logs/v0-bash-tool.jsonl")).unwrap();
    assert!(text(&store, &id("v0-bash-tool")) == plain);
}
