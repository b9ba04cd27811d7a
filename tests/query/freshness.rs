//! What another process does to a store is seen at the next look, and nothing is read again that did not change.

use std::time::Duration;

use session_persistence::query::{ColdCache, ReaderOptions, SessionReader};

use super::peer::Peer;
use super::place::{Kind, Place};
use super::sample::{events_of, id, kind, plains};

/// A store that another process fills, and a reader that keeps the session.
struct Scene {
    place: Place,
    path: String,
    peer: Peer,
    cache: ColdCache,
    reader: SessionReader,
}

impl Scene {
    fn each() -> impl Iterator<Item = Self> {
        Kind::ALL.iter().filter(|kind| **kind != Kind::Memory).map(|kind| Self::of(*kind))
    }

    /// The session has five events that say `first`.
    fn of(kind: Kind) -> Self {
        let place = Place::new(kind);
        let path = place.path().to_str().unwrap().to_owned();
        let mut peer = Peer::start();
        peer.tell(&["store", &format!("{kind:?}"), &path, "5", "first"]);
        let cache = ColdCache::default();
        let reader = SessionReader::new(place.open()).with_cache(&cache);
        let scene = Self { place, path, peer, cache, reader };
        scene.assert_sees(5, "first");
        scene.assert_sees(5, "first");
        assert_eq!((scene.loads(), scene.cache.stats().hits), (1, 1));
        scene
    }

    fn tell(&mut self, command: &str, words: &[&str]) {
        let kind = format!("{:?}", self.place.kind);
        let path = self.path.clone();
        self.peer.tell(&[&[command, &kind, &path], words].concat());
    }

    /// The reader gives `count` events that all say `mark`.
    #[track_caller]
    fn assert_sees(&self, count: u64, mark: &str) {
        let session = self.reader.observe(&id("s")).unwrap();
        assert_eq!(events_of(&session), plains(0..count, mark), "{:?}", self.place.kind);
    }

    fn loads(&self) -> u64 {
        self.cache.stats().loads
    }

    /// What stands at the path is another file: a database that is open tells that, a folder is looked at by its name.
    #[track_caller]
    fn reopen_where_it_is_one_file(&mut self) {
        if !self.place.path().is_dir() {
            let error = self.reader.observe(&id("s")).unwrap_err();
            assert_eq!(kind(&error), "UnsupportedStore", "{error}");
            assert!(error.to_string().contains("open the store again"), "{error}");
            // The cache stays.
            self.reader = SessionReader::new(self.place.open()).with_cache(&self.cache);
        }
    }
}

#[test]
fn an_append_of_another_process_is_seen_at_once() {
    for mut scene in Scene::each() {
        for next in 5..25 {
            scene.tell("append", &[&next.to_string(), &(next + 1).to_string(), "first"]);
            // Far less than a millisecond after it.
            scene.assert_sees(next + 1, "first");
        }
        assert_eq!((scene.loads(), scene.cache.stats().sessions), (21, 1), "{:?}", scene.place.kind);
    }
}

#[test]
fn an_older_backup_that_takes_the_place_of_the_store_is_seen() {
    for mut scene in Scene::each() {
        let backup = scene.place.beside("backup").to_str().unwrap().to_owned();
        scene.tell("backup", &[&backup]);
        scene.tell("append", &["5", "9", "first"]);
        scene.assert_sees(9, "first");
        let path = scene.path.clone();
        scene.peer.tell(&["replace", &path, &backup]);
        scene.reopen_where_it_is_one_file();
        scene.assert_sees(5, "first");
        scene.assert_sees(5, "first");
        assert_eq!(scene.loads(), 3, "{:?}", scene.place.kind);
        // What is written to it now has the length that the other one had.
        scene.tell("append", &["5", "9", "first"]);
        scene.assert_sees(9, "first");
        assert_eq!(scene.loads(), 4, "{:?}", scene.place.kind);
    }
}

#[test]
fn another_store_in_its_place_with_a_session_of_the_same_length_is_seen() {
    for mut scene in Scene::each() {
        let other = scene.place.beside("other").to_str().unwrap().to_owned();
        let (path, kind) = (scene.path.clone(), format!("{:?}", scene.place.kind));
        // As many bytes, too.
        scene.peer.tell(&["store", &kind, &other, "5", "other"]);
        scene.peer.tell(&["replace", &path, &other]);
        scene.reopen_where_it_is_one_file();
        scene.assert_sees(5, "other");
        assert_eq!(scene.loads(), 2, "{kind}");
    }
}

#[test]
fn a_session_made_anew_with_as_many_events_is_seen() {
    for mut scene in Scene::each() {
        let rounds = if std::env::var_os("SESSIONS_FULL").is_some() { 2_000 } else { 50 };
        for round in 0..rounds {
            // As long to the byte as the one before.
            let mark = format!("anew{round:04}");
            scene.tell("anew", &["5", &mark]);
            scene.assert_sees(5, &mark);
        }
        assert_eq!((scene.loads(), scene.cache.stats().sessions), (rounds + 1, 1), "{:?}", scene.place.kind);
    }
}

#[cfg(feature = "sqlite")]
#[test]
fn a_vacuum_causes_no_reading() {
    let mut scene = Scene::of(Kind::Sqlite);
    scene.tell("anew", &["5", "again"]);
    scene.assert_sees(5, "again");
    scene.tell("vacuum", &[]);
    scene.assert_sees(5, "again");
    assert_eq!(scene.loads(), 2);
}

#[test]
fn times_that_are_set_anew_cause_no_reading_of_a_database_and_one_at_most_of_a_file() {
    for mut scene in Scene::each() {
        // Past the granularity of the times of files.
        std::thread::sleep(Duration::from_millis(20));
        let path = scene.path.clone();
        scene.peer.tell(&["touch", &path]);
        for _ in 0..3 {
            scene.assert_sees(5, "first");
        }
        let most = if scene.place.path().is_dir() { 2 } else { 1 };
        assert!((1..=most).contains(&scene.loads()), "{:?}: {}", scene.place.kind, scene.loads());
    }
}

#[test]
fn what_is_seen_while_another_process_writes_is_one_state_and_never_an_older_one() {
    let end = if std::env::var_os("SESSIONS_FULL").is_some() { 1_000 } else { 60 };
    for mut scene in Scene::each() {
        let reader = scene.reader.clone().with_options(ReaderOptions::default().with_max_attempts(1_000_000));
        let cache = scene.cache.clone();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut seen = 5;
                    while seen < end {
                        let session = reader.observe(&id("s")).unwrap();
                        assert!(session.event_count() >= seen, "{seen} events, then {}", session.event_count());
                        seen = session.event_count();
                        assert!(events_of(&session) == plains(0..seen, "first"), "{seen} events");
                    }
                });
            }
            for next in 5..end {
                scene.tell("append", &[&next.to_string(), &(next + 1).to_string(), "first"]);
            }
        });
        let stats = cache.stats();
        assert_eq!((stats.sessions, stats.observed), (1, 0), "{:?}: {stats:?}", scene.place.kind);
    }
}
