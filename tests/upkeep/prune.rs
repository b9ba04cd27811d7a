//! Only what is old goes, only when it is asked for, and never by a clock that is wrong.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use session_persistence::upkeep::{Kept, PruneOptions, PruneReport, Pruned, prune};
use session_persistence::{
    CreateOptions, Encoding, ErrorKind, Holder, Json, JsonlStore, ListQuery, MemoryStore, OpenOptions, Page, Result,
    SessionEvent, SessionHandle, SessionHeader, SessionId, SessionPersistence, Snapshot,
};

use crate::logs::{self, id, import};
use crate::place::{Database, ENCODINGS, Root};

const DAY: i64 = 86_400_000;

/// A time that is no day of any test's clock.
const NOW: i64 = 1_700_000_000_000;

/// A store that tells of the last writes, and of the writers, what it is told.
struct Told<S> {
    store: S,
    written: Mutex<HashMap<SessionId, Option<i64>>>,
    owner: Option<SessionId>,
}

impl<S: SessionPersistence> Told<S> {
    fn new(store: S) -> Self {
        Self { store, written: Mutex::default(), owner: None }
    }

    /// Stores a session whose last write was so many days before `now`.
    fn add(&self, name: &str, now: i64, days: Option<i64>) {
        import(&self.store, &logs::plain(name, 3));
        self.written.lock().unwrap().insert(id(name), days.map(|days| now - days * DAY));
    }

    fn tell(&self, mut snapshot: Snapshot) -> Snapshot {
        if let Some(written) = self.written.lock().unwrap().get(&snapshot.id) {
            snapshot.written_at = *written;
        }
        if self.owner.as_ref() == Some(&snapshot.id) {
            snapshot.owner = Some(Holder::new(7, "host", 0));
        }
        snapshot
    }
}

impl<S: SessionPersistence> SessionPersistence for Told<S> {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        self.store.create(header, options)
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        self.store.open(id, options)
    }
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        Ok(self.store.stat(id)?.map(|snapshot| self.tell(snapshot)))
    }
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        let page = self.store.list(query)?;
        Ok(Page::new(page.items.into_iter().map(|snapshot| self.tell(snapshot)).collect(), page.next))
    }
    fn flush(&self) -> Result<()> {
        self.store.flush()
    }
    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.store.remove(id)
    }
}

fn days(days: u64) -> Duration {
    Duration::from_secs(days * 86_400)
}

/// The sessions that are removed, and those that are kept and told, with a word for why.
fn run(store: &dyn SessionPersistence, options: &PruneOptions, dry_run: bool) -> (Vec<String>, Vec<String>) {
    let (mut removed, mut kept) = (Vec::new(), Vec::new());
    let report = prune(store, options, dry_run, &mut |pruned| match pruned {
        Pruned::Removed(snapshot) => removed.push(snapshot.id.to_string()),
        Pruned::Kept(snapshot, why) => kept.push(match why {
            Kept::AgeUnknown => format!("{} unknown", snapshot.id),
            Kept::Owned(_) => format!("{} owned", snapshot.id),
            Kept::WrittenMeanwhile => format!("{} written", snapshot.id),
            other => format!("{} {other:?}", snapshot.id),
        }),
        other => panic!("{other:?}"),
    })
    .unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!((report.removed, report.kept), (removed.len() as u64, kept.len() as u64));
    (removed, kept)
}

fn ids(store: &dyn SessionPersistence) -> Vec<String> {
    let mut ids: Vec<_> = store.list(&ListQuery::default()).unwrap().items.iter().map(|s| s.id.to_string()).collect();
    ids.sort();
    ids
}

#[test]
fn a_dry_run_tells_of_exactly_what_the_real_run_removes() {
    for (name, store) in logs::stores() {
        let store = Told::new(store);
        for n in 0..40 {
            store.add(&format!("s{n:02}"), NOW, Some(40 - n));
        }
        for options in [
            PruneOptions::older_than(days(30)).with_now(NOW),
            PruneOptions::older_than(days(20)).with_now(NOW).with_keep(25),
            PruneOptions::older_than(days(0)).with_now(NOW).with_keep(3),
            PruneOptions::older_than(days(0)).with_now(NOW),
        ] {
            let before = ids(&store);
            let dry = run(&store, &options, true);
            assert_eq!(ids(&store), before, "{name}: a dry run removes nothing");
            let real = run(&store, &options, false);
            assert_eq!(real, dry, "{name}");
            let left: Vec<_> = before.into_iter().filter(|id| !real.0.contains(id)).collect();
            assert_eq!(ids(&store), left, "{name}");
            assert_eq!(run(&store, &options, false), (vec![], vec![]), "{name}");
        }
        assert!(ids(&store).is_empty());
    }
}

#[test]
fn the_age_is_that_of_the_last_write_and_a_session_that_is_as_old_as_the_limit_stays() {
    let store = Told::new(MemoryStore::new());
    store.add("older", NOW, Some(30));
    store.add("limit", NOW, Some(30));
    store.written.lock().unwrap().insert(id("older"), Some(NOW - 30 * DAY - 1));
    // Events from 1970 in a session that was written today.
    store.add("old events", NOW, Some(0));
    let options = PruneOptions::older_than(days(30)).with_now(NOW);
    assert_eq!(run(&store, &options, false).0, ["older"]);
}

#[test]
fn the_most_recently_active_are_kept_whatever_their_age() {
    let store = Told::new(MemoryStore::new());
    for name in ["first", "second", "third"] {
        store.add(name, NOW, Some(300));
    }
    // Active again, by whatever clock.
    store
        .open(&id("first"), OpenOptions::write())
        .unwrap()
        .append(&[SessionEvent::of("x", 3, 0, &1).unwrap()])
        .unwrap();
    let pending = store.create(&SessionHeader::new(id("pending"), 0).unwrap(), CreateOptions::default()).unwrap();
    let options = PruneOptions::older_than(days(30)).with_now(NOW).with_keep(2);
    assert_eq!(run(&store, &options, false), (vec!["second".to_owned()], vec![]));
    drop(pending);
    assert_eq!(ids(&store), ["first", "third"]);
}

#[test]
fn a_session_of_which_no_write_was_noted_is_kept_and_told() {
    let store = MemoryStore::new();
    import(&store, &logs::plain("a", 1));
    let options = PruneOptions::older_than(days(0)).with_now(i64::MAX);
    for dry_run in [true, false] {
        assert_eq!(run(&store, &options, dry_run), (vec![], vec!["a unknown".to_owned()]));
    }
    let database = Database::filled();
    database
        .change("UPDATE sessions SET event_count = 9 WHERE id = 'a'; UPDATE sessions SET header = '' WHERE id = 'b'");
    let store = database.open();
    let (removed, kept) = run(&store, &PruneOptions::older_than(days(1)).with_now(i64::MAX), false);
    assert_eq!(
        (removed, kept),
        (vec!["b".to_owned()], vec!["a unknown".to_owned()]),
        "damaged, and one of them with its time"
    );
}

#[test]
fn a_session_that_is_being_written_is_kept_and_told() {
    let mut store = Told::new(MemoryStore::new());
    for name in ["a", "b", "c"] {
        store.add(name, NOW, Some(300));
    }
    store.owner = Some(id("c"));
    let writer = store.open(&id("b"), OpenOptions::write()).unwrap();
    let options = PruneOptions::older_than(days(30)).with_now(NOW);
    for dry_run in [true, false] {
        let expected = (vec!["a".to_owned()], vec!["c owned".to_owned(), "b owned".to_owned()]);
        assert_eq!(run(&store, &options, dry_run), expected);
    }
    drop(writer);
    // By another store over the same data, which only the removal finds.
    let database = Database::of(&[logs::plain("a", 1)]);
    let (store, other) = (database.open(), database.open());
    let writer = other.open(&id("a"), OpenOptions::write()).unwrap();
    let options = PruneOptions::older_than(days(1)).with_now(i64::MAX);
    assert_eq!(run(&store, &options, false), (vec![], vec!["a owned".to_owned()]));
    drop(writer);
    assert_eq!(run(&store, &options, false).0, ["a"]);
}

#[test]
fn a_session_that_is_written_while_others_are_removed_is_kept() {
    let store = Told::new(MemoryStore::new());
    for name in ["a", "b", "c"] {
        store.add(name, NOW, Some(300));
    }
    let options = PruneOptions::older_than(days(30)).with_now(NOW);
    let mut told = Vec::new();
    prune(&store, &options, false, &mut |pruned| match pruned {
        Pruned::Removed(snapshot) => {
            told.push(snapshot.id.to_string());
            if snapshot.id == id("c") {
                let writer = store.open(&id("b"), OpenOptions::write()).unwrap();
                writer.append(&[SessionEvent::of("x", 3, 0, &1).unwrap()]).unwrap();
            }
        }
        Pruned::Kept(snapshot, Kept::WrittenMeanwhile) => told.push(format!("{} written", snapshot.id)),
        other => panic!("{other:?}"),
    })
    .unwrap();
    assert_eq!(told, ["c", "b written", "a"]);
    assert_eq!(ids(&store), ["b"]);
}

#[test]
fn of_a_session_whose_removal_fails_nothing_is_gone_and_the_others_go() {
    let root = Root::of(Encoding::Raw, &["a", "b", "c"].map(|name| logs::plain(name, 2)));
    let second = root.path().join("--w--").join("b");
    std::fs::create_dir_all(&second).unwrap();
    std::fs::copy(root.log("b"), second.join("session.v3.jsonl")).unwrap();
    let store = root.open();
    let mut failed = Vec::new();
    let options = PruneOptions::older_than(days(1)).with_now(i64::MAX / 2);
    let report = prune(&store, &options, false, &mut |pruned| {
        if let Pruned::Kept(snapshot, Kept::Failed(error)) = pruned {
            failed.push((snapshot.id.clone(), error.kind()));
        }
    })
    .unwrap();
    assert_eq!(failed, [(id("b"), ErrorKind::Corruption)]);
    assert_eq!((report.removed, report.kept, report.failed), (2, 1, 1));
    assert_eq!(ids(&store), ["b"]);
    assert!(root.log("b").exists() && second.join("session.v3.jsonl").exists());
}

/// The real clock, in milliseconds.
fn clock() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64
}

#[track_caller]
fn refused(store: &dyn SessionPersistence, age: Duration, about: &str) {
    let before = ids(store);
    for dry_run in [true, false] {
        let refused =
            prune(store, &PruneOptions::older_than(age), dry_run, &mut |told| panic!("{told:?}")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.to_string().contains(about) && refused.to_string().contains("explicitly"), "{refused}");
    }
    assert_eq!(ids(store), before);
}

#[test]
fn a_clock_that_is_far_ahead_of_the_newest_write_removes_nothing() {
    let store = Told::new(MemoryStore::new());
    for name in ["a", "b"] {
        store.add(name, clock(), Some(400));
    }
    refused(&store, days(30), "400 days ahead");
    store.add("recent", clock(), Some(91));
    refused(&store, days(30), "91 days ahead");
    store.add("more recent", clock(), Some(89));
    assert_eq!(run(&store, &PruneOptions::older_than(days(100)), true).0.len(), 2, "so the clock may be right");
    // Whoever has checked the clock says so.
    store.store.remove(&id("more recent")).unwrap();
    let options = PruneOptions::older_than(days(100)).with_now(clock());
    assert_eq!(run(&store, &options, false).0.len(), 2);
}

#[test]
fn a_clock_that_is_behind_a_write_removes_nothing() {
    let store = Told::new(MemoryStore::new());
    store.add("old", clock(), Some(400));
    store.add("future", clock(), Some(-2));
    refused(&store, days(30), " hours behind the last write to session \"future\"");
    store.written.lock().unwrap().insert(id("future"), Some(clock() + DAY / 2));
    assert_eq!(run(&store, &PruneOptions::older_than(days(30)), false).0, ["old"], "half a day is a time zone");
}

#[test]
fn nothing_is_removed_without_a_call_however_old_it_is_and_however_often_a_store_is_opened() {
    let root = Root::of(Encoding::Zstd, &["a", "b"].map(|name| logs::plain(name, 2)));
    for name in ["a", "b"] {
        let file = File::options().write(true).open(root.log(name)).unwrap();
        file.set_modified(SystemTime::now() - days(400)).unwrap();
    }
    for _ in 0..10 {
        let store = root.open();
        import(&store, &logs::plain("new", 1));
        store.remove(&id("new")).unwrap();
        assert_eq!(ids(&store), ["a", "b"]);
    }
    let store = root.open();
    refused(&store, days(30), "days ahead");
    let written = store.stat(&id("a")).unwrap().unwrap().written_at.unwrap();
    assert!((399 * DAY..401 * DAY).contains(&(clock() - written)));
    let options = PruneOptions::older_than(days(30)).with_now(clock());
    let dry = run(&store, &options, true);
    assert_eq!(run(&store, &options, false), dry);
    assert_eq!(dry.0.len(), 2);
    assert!(ids(&JsonlStore::open_existing(root.path()).unwrap()).is_empty());
}

#[test]
fn an_empty_store_is_pruned_by_any_clock() {
    let report = prune(&MemoryStore::new(), &PruneOptions::older_than(Duration::MAX), false, &mut |_| {}).unwrap();
    assert_eq!(report, PruneReport::default());
}

/// What a writer was told that it is stored is never removed as something older.
#[test]
fn a_session_that_is_written_while_it_is_pruned_goes_only_as_it_was_told() {
    let database = Database::of(&[]);
    let roots = ENCODINGS.map(|encoding| Root::of(encoding, &[]));
    let mut pairs: Vec<[Box<dyn SessionPersistence>; 2]> = vec![[(); 2].map(|()| Box::new(database.open()) as _)];
    pairs.extend(roots.iter().map(|root| [(); 2].map(|()| Box::new(root.open()) as _)));
    for [writing, pruning] in pairs {
        let (is_over, removed) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let options = PruneOptions::older_than(Duration::ZERO).with_now(i64::MAX);
                while !is_over.load(Ordering::Acquire) {
                    prune(&pruning, &options, false, &mut |pruned| {
                        if let Pruned::Removed(snapshot) = pruned {
                            removed.lock().unwrap().push(snapshot.event_count.unwrap());
                        }
                    })
                    .unwrap();
                }
            });
            let (mut told, mut lives) = (0, 0);
            while lives < 40 {
                let opened = match writing.open(&id("s"), OpenOptions::write()) {
                    Err(e) if e.kind() == ErrorKind::NotFound => {
                        if told > 0 {
                            lives += 1;
                        }
                        // The removal is told right behind it.
                        while removed.lock().unwrap().len() < lives {
                            std::thread::yield_now();
                        }
                        assert!(lives == 0 || removed.lock().unwrap()[lives - 1] == told, "{told} events were told");
                        told = 0;
                        writing.create(&SessionHeader::new(id("s"), 0).unwrap(), CreateOptions::default())
                    }
                    opened => opened,
                };
                let writer = match opened {
                    Ok(writer) => writer,
                    // It is just being removed.
                    Err(e) if e.is_retryable() || e.kind() == ErrorKind::AlreadyExists => continue,
                    Err(e) => panic!("{e:?}"),
                };
                let event = SessionEvent::new("todo/write", told, 0, Json::parse("1").unwrap()).unwrap();
                writer.append(&[event]).unwrap();
                told += 1;
            }
            is_over.store(true, Ordering::Release);
        });
    }
}
