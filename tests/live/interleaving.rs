//! A live appender, a cold reader and an opener that repairs, in many orders, over every kind of store.

use std::sync::Barrier;
use std::time::Duration;

use serde_json::json;
use session_persistence::session::{
    AppendOptions, LifecycleOptions, LiveError, RouterOptions, Seed, Session, SessionHub, SessionRouter,
};
use session_persistence::{ErrorKind, OpenOptions, SeqRange, SessionEvent, SessionPersistence, Vocabulary, checks};

use super::place::{Kind, Place};
use super::scene::header;

/// How often over each kind of store: what waits for a disk does so a few times by day.
fn rounds(kind: Kind) -> u64 {
    if kind == Kind::Memory || std::env::var_os("SESSIONS_FULL").is_some() { 1_000 } else { 60 }
}

/// Lets the others go first, now and then.
fn pause(chance: &mut fastrand::Rng) {
    (0..chance.u32(..4)).for_each(|_| std::thread::yield_now());
}

/// The log as a reader sees it that knows nothing.
fn read(store: &dyn SessionPersistence, name: &str) -> Vec<SessionEvent> {
    let log = store.open(header(name).id(), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap();
    checks::validate_stored_events(&header(name), &log, &Vocabulary::v3()).unwrap();
    log
}

/// Appends within a turn that it never ends, and closes; what it had appended.
fn live(store: &super::place::Store, name: &str, mut chance: fastrand::Rng, start: &Barrier) -> Vec<SessionEvent> {
    let options = RouterOptions::default().with_window(Duration::from_micros(chance.u64(..300)));
    let router = SessionRouter::new_with(&SessionHub::new(), store.clone(), options).unwrap();
    let begin = |session: &Session| {
        session.append("turn/start", &json!({ "turn": 1 }), AppendOptions::default())?;
        Ok(())
    };
    let session = router.create(header(name), Seed::None, LifecycleOptions::default(), begin).unwrap();
    start.wait();
    for n in 0..chance.u64(..12) {
        session.append("todo/write", &[n], AppendOptions::default()).unwrap();
        pause(&mut chance);
    }
    router.close(session.id()).unwrap();
    session.snapshot(0..u64::MAX)
}

/// Resumes the session as soon as it can be had; how many events ended its turn.
fn repair(store: &super::place::Store, name: &str, mut chance: fastrand::Rng, start: &Barrier) -> usize {
    let router = SessionRouter::new(&SessionHub::new(), store.clone()).unwrap();
    start.wait();
    loop {
        pause(&mut chance);
        match router.resume(header(name).id(), LifecycleOptions::default(), |_| Ok(())) {
            Ok(resumed) => {
                router.close(header(name).id()).unwrap();
                return resumed.closers.len();
            }
            Err(LiveError::Store(e)) if e.kind() == ErrorKind::AlreadyOwned => {}
            Err(other) => panic!("{other}"),
        }
    }
}

fn interleave(kind: Kind) {
    let place = Place::new(kind);
    let (own, other) = (place.open(), place.open());
    for seed in 0..rounds(kind) {
        let mut chance = fastrand::Rng::with_seed(seed);
        let (name, start) = (&*format!("s{seed}"), Barrier::new(3));
        let [mut for_reader, for_live, for_opener] = [chance.fork(), chance.fork(), chance.fork()];
        let ended = std::thread::scope(|scope| {
            let (own, other, start) = (&own, &other, &start);
            let live = scope.spawn(move || live(own, name, for_live, start));
            let reader = scope.spawn(move || {
                start.wait();
                let mut seen = 1;
                for _ in 0..5 {
                    let log = read(&**other, name);
                    assert!(log.len() >= seen, "{} events after {seen}", log.len());
                    seen = log.len();
                    pause(&mut for_reader);
                }
            });
            let opener = scope.spawn(move || repair(other, name, for_opener, start));
            (live.join(), reader.join(), opener.join())
        });
        let what = format!("{kind:?}, seed {seed}");
        let (Ok(appended), Ok(()), Ok(closers)) = ended else { panic!("{what}: a thread failed, as told above") };
        let stored = read(&*own, name);
        assert_eq!(stored[..appended.len()], appended, "{what}: no event is lost");
        let behind: Vec<_> = stored[appended.len()..].iter().map(SessionEvent::event_type).collect();
        assert_eq!((closers, &behind[..]), (1, &["turn/end", "session/end-seed"][..]), "{what}");
    }
}

#[test]
fn no_seq_comes_twice_and_no_event_is_lost_in_memory() {
    interleave(Kind::Memory);
}

#[cfg(feature = "sqlite")]
#[test]
fn no_seq_comes_twice_and_no_event_is_lost_in_sqlite() {
    interleave(Kind::Sqlite);
}

#[cfg(feature = "jsonl")]
#[test]
fn no_seq_comes_twice_and_no_event_is_lost_in_plain_files() {
    interleave(Kind::Raw);
}

#[cfg(feature = "jsonl")]
#[test]
fn no_seq_comes_twice_and_no_event_is_lost_in_compressed_files() {
    interleave(Kind::Zstd);
}
