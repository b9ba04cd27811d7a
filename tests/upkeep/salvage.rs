//! What stands before the damage is saved whole, and nothing else changes.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use session_persistence::upkeep::salvage;
use session_persistence::{
    Access, CreateOptions, Error, ErrorKind, FaultKind, ListQuery, MemoryStore, OpenOptions, Page, Result, SeqRange,
    SessionEvent, SessionHandle, SessionHeader, SessionId, SessionPersistence, Snapshot,
};

use crate::logs::{self, id, import, text};
use crate::place::{Database, ENCODINGS, Root, content, short_logs, verify};

/// The text of a log under another id, with its first events only.
fn start(log: &str, old: &str, new: &str, events: usize) -> String {
    let lines: Vec<_> = log.split_inclusive('\n').take(events + 1).collect();
    lines.concat().replacen(&format!("\"id\":\"{old}\""), &format!("\"id\":\"{new}\""), 1)
}

#[test]
fn a_sound_log_of_any_kind_is_copied_whole() {
    for (name, store) in logs::stores() {
        let mut all = short_logs();
        all.push(
            r#"{"type":"session","version":1,"id":"old","createdAt":0,"seedLength":1,"delegationDepth":0}"#.to_owned()
                + "\n"
                + &logs::event("turn/start", 0, "{}"),
        );
        all.push(
            r#"{"createdAt":7, "type":"session","version":9,"id":"newer","future":[1]}"#.to_owned()
                + "\n"
                + &logs::event("x", 0, "{}"),
        );
        for log in &all {
            import(&*store, log);
        }
        for log in &all {
            let source = logs::id_of(log);
            let salvaged = salvage(&*store, &source, &id("new")).unwrap();
            assert_eq!((salvaged.session, salvaged.stopped), (id("new"), None), "{name}: {source:?}");
            let count = log.lines().count() - 1;
            assert_eq!(salvaged.events, count as u64);
            let quoted = serde_json::to_string(source.as_str()).unwrap();
            let expected = log.replacen(&format!("\"id\":{quoted}"), "\"id\":\"new\"", 1);
            assert_eq!(text(&*store, &id("new")), expected, "{name}: {source:?}");
            assert_eq!(text(&*store, &source), *log, "{name}: {source:?}");
            let inherited = |id| store.open(id, OpenOptions::uninterpreted()).unwrap().inherited_event_count();
            assert_eq!(inherited(&id("new")), inherited(&source), "{name}: {source:?}");
            assert!(store.remove(&id("new")).unwrap());
        }
        assert_eq!(verify(&*store).1, [], "{name}");
    }
}

#[test]
fn of_a_damaged_log_in_a_database_what_stands_before_the_damage_is_saved() {
    let log = logs::plain("a", 4200);
    for damaged in [0_u64, 1, 4095, 4199] {
        let database = Database::of(&[log.clone(), logs::plain("b", 2)]);
        database.change(&format!("UPDATE events SET time = 7 WHERE session = 1 AND seq = {damaged}"));
        let before = (
            database.one::<i64>("SELECT sum(checksum % 65536) FROM events"),
            database.one::<i64>("SELECT checksum FROM sessions WHERE id = 'a'"),
        );
        let store = database.open();
        let salvaged = salvage(&store, &id("a"), &id("saved")).unwrap();
        assert_eq!(salvaged.events, damaged);
        let stop = salvaged.stopped.unwrap();
        assert_eq!((stop.kind, stop.session, stop.seq), (FaultKind::Damage, Some(id("a")), Some(damaged)));
        assert!(stop.reason.contains("checksum"), "{}", stop.reason);
        assert_eq!(text(&store, &id("saved")), start(&log, "a", "saved", damaged as usize));
        let faults = verify(&store).1;
        assert!(faults.iter().all(|fault| fault.session == Some(id("a"))), "{faults:?}");
        drop(store);
        let after = (
            database.one::<i64>("SELECT sum(checksum % 65536) FROM events WHERE session < 3"),
            database.one::<i64>("SELECT checksum FROM sessions WHERE id = 'a'"),
        );
        assert_eq!(after, before, "the source stays as it is");
    }
}

#[test]
fn of_a_damaged_file_what_stands_before_the_damage_is_saved() {
    for encoding in ENCODINGS {
        let root = Root::of(encoding, &[logs::forked("a", "gone")]);
        let store = root.open();
        let writer = store.open(&id("a"), OpenOptions::write()).unwrap();
        let end = |seq| {
            SessionEvent::of("turn/end", seq, 0, &serde_json::json!({"turn": 1, "reason": {"kind": "completed"}}))
        };
        writer.append(&[end(5).unwrap()]).unwrap();
        writer.append(&[end(6).unwrap()]).unwrap();
        drop((writer, store));
        root.change("a", |bytes| {
            let at = match encoding {
                session_persistence::Encoding::Raw => {
                    bytes.windows(9).rposition(|window| window == br#""seq":5,""#).unwrap() + 6
                }
                _ => {
                    bytes.windows(4).enumerate().filter(|(_, four)| *four == [0x28, 0xb5, 0x2f, 0xfd]).nth(2).unwrap().0
                        + 14
                }
            };
            bytes[at] ^= 0x40;
        });
        let before = fs::read(root.log("a")).unwrap();
        let store = root.open();
        let salvaged = salvage(&store, &id("a"), &id("saved")).unwrap();
        let stop = salvaged.stopped.unwrap();
        assert_eq!((salvaged.events, stop.kind, stop.seq), (5, FaultKind::Damage, Some(5)), "{encoding:?}");
        assert!(stop.offset.is_some());
        assert_eq!(text(&store, &id("saved")), start(&logs::forked("a", "gone"), "a", "saved", 5));
        assert!(fs::read(root.log("a")).unwrap() == before);
    }
}

#[test]
fn a_torn_tail_is_left_out_and_told() {
    for encoding in ENCODINGS {
        let root = Root::of(encoding, &[logs::plain("a", 3)]);
        root.change("a", |bytes| bytes.extend([0; 100]));
        let salvaged = salvage(&root.open(), &id("a"), &id("saved")).unwrap();
        let stop = salvaged.stopped.unwrap();
        assert_eq!((salvaged.events, stop.kind, stop.seq), (3, FaultKind::Leftover, Some(3)), "{encoding:?}");
        assert_eq!(fs::read(root.log("a")).unwrap()[fs::read(root.log("a")).unwrap().len() - 100..], [0; 100]);
    }
}

#[test]
fn what_was_inherited_counts_as_far_as_it_was_saved() {
    for (kept, inherited) in [(5, 3), (4, 3), (3, 3), (2, 2), (0, 0)] {
        let database = Database::of(&[logs::forked("a", "gone")]);
        database.change(&format!("UPDATE events SET time = 7 WHERE seq >= {kept}"));
        let store = database.open();
        salvage(&store, &id("a"), &id("saved")).unwrap();
        let saved = store.open(&id("saved"), OpenOptions::read()).unwrap();
        assert_eq!(saved.inherited_event_count(), inherited, "{kept}");
        assert!(saved.header().is_seeded());
        assert_eq!(saved.header().parent_session(), Some("gone"));
    }
    let old = r#"{"type":"session","version":1,"id":"a","createdAt":0,"seedLength":2}"#.to_owned()
        + "\n"
        + &(0..4).map(|seq| logs::event("turn/start", seq, "{}")).collect::<String>();
    for (kept, length) in [(3, 2), (1, 1)] {
        let database = Database::of(std::slice::from_ref(&old));
        database.change(&format!("UPDATE events SET time = 7 WHERE seq >= {kept}"));
        let store = database.open();
        salvage(&store, &id("a"), &id("saved")).unwrap();
        let saved = store.open(&id("saved"), OpenOptions::uninterpreted()).unwrap();
        assert_eq!((saved.inherited_event_count(), saved.header().seed_length()), (length, Some(length)));
    }
}

#[test]
fn a_session_without_a_readable_header_a_taken_id_and_an_absent_one_are_refused() {
    let database = Database::filled();
    database.change("UPDATE sessions SET header = '{}' WHERE id = 'a'");
    let store = database.open();
    let refused = salvage(&store, &id("a"), &id("saved")).unwrap_err();
    assert_eq!((refused.kind(), refused.session()), (ErrorKind::Corruption, Some(&id("a"))));
    assert!(refused.to_string().contains("header") && refused.to_string().contains("restore it"), "{refused}");
    for taken in ["a", "b"] {
        let refused = salvage(&store, &id("b"), &id(taken)).unwrap_err();
        assert_eq!((refused.kind(), refused.session()), (ErrorKind::AlreadyExists, Some(&id(taken))));
    }
    let pending = store.create(&SessionHeader::new(id("pending"), 0).unwrap(), CreateOptions::default()).unwrap();
    assert_eq!(salvage(&store, &id("b"), &id("pending")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    drop(pending);
    assert_eq!(salvage(&store, &id("absent"), &id("saved")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(store.list(&ListQuery::default()).unwrap().items.len(), 2);
}

/// A store whose appends and flushes fail after some that do not.
struct Failing<S> {
    store: S,
    left: std::sync::Arc<AtomicU64>,
}

struct FailingHandle {
    handle: Box<dyn SessionHandle>,
    left: std::sync::Arc<AtomicU64>,
}

impl<S: SessionPersistence> SessionPersistence for Failing<S> {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        Ok(Box::new(FailingHandle { handle: self.store.create(header, options)?, left: self.left.clone() }))
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        self.store.open(id, options)
    }
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        self.store.stat(id)
    }
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        self.store.list(query)
    }
    fn flush(&self) -> Result<()> {
        self.store.flush()
    }
    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.store.remove(id)
    }
}

impl FailingHandle {
    fn fail(&self) -> Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        match left {
            0 => Err(Error::StorageFull { session: None, store: "the store".to_owned(), source: None }),
            _ => Ok(()),
        }
    }
}

impl SessionHandle for FailingHandle {
    fn id(&self) -> &SessionId {
        self.handle.id()
    }
    fn header(&self) -> &SessionHeader {
        self.handle.header()
    }
    fn inherited_event_count(&self) -> u64 {
        self.handle.inherited_event_count()
    }
    fn access(&self) -> Access {
        self.handle.access()
    }
    fn read(&self, range: SeqRange) -> Result<Vec<SessionEvent>> {
        self.handle.read(range)
    }
    fn append(&self, events: &[SessionEvent]) -> Result<()> {
        self.fail()?;
        self.handle.append(events)
    }
    fn flush(&self) -> Result<()> {
        // Stored, and not synced.
        self.handle.flush()?;
        self.fail()
    }
    fn close(&self) -> Result<()> {
        self.handle.close()
    }
}

#[test]
fn nothing_is_left_of_a_salvage_that_fails_half_way() {
    let long = logs::plain("a", 9000);
    let logs = [long, logs::header("a")];
    for log in &logs {
        let (database, roots) = (Database::of(&[]), ENCODINGS.map(|encoding| Root::of(encoding, &[])));
        let mut stores: Vec<Box<dyn SessionPersistence>> =
            vec![Box::new(MemoryStore::new()), Box::new(database.open())];
        stores.extend(roots.iter().map(|root| Box::new(root.open()) as Box<dyn SessionPersistence>));
        for store in stores {
            import(&*store, log);
            let failing = Failing { store, left: AtomicU64::new(0).into() };
            let mut failures = 0;
            for fail_at in 0.. {
                failing.left.store(fail_at, Ordering::Relaxed);
                let Err(failed) = salvage(&failing, &id("a"), &id("saved")) else { break };
                failures += 1;
                assert_eq!(failed.kind(), ErrorKind::StorageFull);
                assert!(failing.stat(&id("saved")).unwrap().is_none(), "{fail_at}");
                assert_eq!(failing.list(&ListQuery::default()).unwrap().items.len(), 1);
            }
            assert!(failures >= if log.len() > 1000 { 4 } else { 1 }, "{failures}");
            assert_eq!(text(&failing, &id("saved")), start(log, "a", "saved", 9000));
        }
        assert_eq!(verify(&database.open()).1, []);
        for root in &roots {
            assert_eq!(verify(&root.open()).1, []);
            assert!(content(root.folder()).iter().all(|(path, _)| !path.to_string_lossy().ends_with(".tmp")));
        }
    }
}

#[test]
fn a_session_that_another_one_made_first_is_not_removed() {
    let database = Database::of(&[logs::plain("a", 3)]);
    let (store, other) = (database.open(), database.open());
    /// A store in which another one makes the new session right before the first append.
    struct Raced<S, O>(S, O);
    impl<S: SessionPersistence, O: SessionPersistence> SessionPersistence for Raced<S, O> {
        fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
            let handle = self.0.create(header, options)?;
            import(&self.1, &logs::plain("saved", 1));
            Ok(handle)
        }
        fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
            self.0.open(id, options)
        }
        fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
            self.0.stat(id)
        }
        fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
            self.0.list(query)
        }
        fn flush(&self) -> Result<()> {
            self.0.flush()
        }
        fn remove(&self, id: &SessionId) -> Result<bool> {
            self.0.remove(id)
        }
    }
    let raced = Raced(store, other);
    assert_eq!(salvage(&raced, &id("a"), &id("saved")).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(text(&raced.1, &id("saved")), logs::plain("saved", 1));
}
