//! What the cases do, step by step: each step fails its case with a message when the store answers otherwise.

use std::fmt;

use super::sample;
use crate::log::{SessionEvent, SessionHeader};
use crate::seam::{
    Access, CreateOptions, Error, ErrorKind, FormatProblem, ListQuery, OpenOptions, Result, SeqRange, SessionHandle,
    SessionPersistence, Snapshot,
};

/// Every way to open a session.
pub(super) const WAYS: [OpenOptions; 3] = [OpenOptions::read(), OpenOptions::write(), OpenOptions::uninterpreted()];

/// What a call gave that has to succeed.
#[track_caller]
pub(super) fn done<T>(result: Result<T>, call: impl fmt::Display) -> T {
    match result {
        Ok(value) => value,
        Err(e) => panic!("{call} has to succeed, and gave {}: {e}", e.kind()),
    }
}

/// The error of a call that has to be refused, about the session `id`.
#[track_caller]
pub(super) fn refused<T>(result: Result<T>, id: &str, kind: ErrorKind) -> Error {
    match result {
        Ok(_) => panic!("session {id:?}: the call has to give {kind}, and succeeded"),
        Err(e) => {
            assert_eq!(e.kind(), kind, "{e}");
            assert_eq!(e.session(), Some(&sample::id(id)), "{e}");
            e
        }
    }
}

#[track_caller]
pub(super) fn create(store: &dyn SessionPersistence, id: &str) -> Box<dyn SessionHandle> {
    create_with(store, &sample::header(id), CreateOptions::default())
}

#[track_caller]
pub(super) fn create_with(
    store: &dyn SessionPersistence,
    header: &SessionHeader,
    options: CreateOptions,
) -> Box<dyn SessionHandle> {
    done(store.create(header, options), format_args!("creating {header:?}"))
}

/// Stores a session and leaves it without a writer.
#[track_caller]
pub(super) fn store_session(store: &dyn SessionPersistence, id: &str, events: &[SessionEvent]) {
    store_with(store, &sample::header(id), CreateOptions::default(), events);
}

#[track_caller]
pub(super) fn store_with(
    store: &dyn SessionPersistence,
    header: &SessionHeader,
    options: CreateOptions,
    events: &[SessionEvent],
) {
    let writer = create_with(store, header, options);
    append(&*writer, events);
    flush(&*writer);
    close(&*writer);
}

#[track_caller]
pub(super) fn open(store: &dyn SessionPersistence, id: &str, options: OpenOptions) -> Box<dyn SessionHandle> {
    done(store.open(&sample::id(id), options), format_args!("opening {id:?} as {options:?}"))
}

#[track_caller]
pub(super) fn reader(store: &dyn SessionPersistence, id: &str) -> Box<dyn SessionHandle> {
    let reader = open(store, id, OpenOptions::read());
    assert_eq!(reader.access(), Access::Read);
    reader
}

#[track_caller]
pub(super) fn writer(store: &dyn SessionPersistence, id: &str) -> Box<dyn SessionHandle> {
    let writer = open(store, id, OpenOptions::write());
    assert_eq!(writer.access(), Access::Write);
    writer
}

#[track_caller]
pub(super) fn append(handle: &dyn SessionHandle, events: &[SessionEvent]) {
    done(handle.append(events), format_args!("appending {} events to {:?}", events.len(), handle.id()));
}

#[track_caller]
pub(super) fn flush(handle: &dyn SessionHandle) {
    done(handle.flush(), format_args!("flushing {:?}", handle.id()));
}

#[track_caller]
pub(super) fn close(handle: &dyn SessionHandle) {
    done(handle.close(), format_args!("closing {:?}", handle.id()));
}

#[track_caller]
pub(super) fn read(handle: &dyn SessionHandle, range: impl Into<SeqRange>) -> Vec<SessionEvent> {
    let range = range.into();
    done(handle.read(range), format_args!("reading {range:?} of {:?}", handle.id()))
}

/// The whole log, through a handle that is opened for this.
#[track_caller]
pub(super) fn log_of(store: &dyn SessionPersistence, id: &str) -> Vec<SessionEvent> {
    read(&*reader(store, id), ..)
}

/// The whole log as it is stored, through a handle that is opened for this.
#[track_caller]
pub(super) fn uninterpreted_log_of(store: &dyn SessionPersistence, id: &str) -> Vec<SessionEvent> {
    read(&*open(store, id, OpenOptions::uninterpreted()), ..)
}

#[track_caller]
pub(super) fn snapshot(store: &dyn SessionPersistence, id: &str) -> Snapshot {
    let snapshot = done(store.stat(&sample::id(id)), format_args!("stat of {id:?}"));
    let Some(snapshot) = snapshot else { panic!("session {id:?} has to be there, and stat tells of none") };
    assert_eq!(snapshot.id.as_str(), id);
    snapshot
}

/// All sessions in one page, the most recently active first.
#[track_caller]
pub(super) fn listed(store: &dyn SessionPersistence) -> Vec<Snapshot> {
    let page = done(store.list(&ListQuery::default()), "listing all sessions");
    assert_eq!(page.next, None, "a list without a limit is one page");
    page.items
}

#[track_caller]
pub(super) fn listed_ids(store: &dyn SessionPersistence) -> Vec<String> {
    ids(&listed(store))
}

pub(super) fn ids(snapshots: &[Snapshot]) -> Vec<String> {
    snapshots.iter().map(|s| s.id.as_str().to_owned()).collect()
}

/// Checks that stat and list tell the same of a session, and gives it.
#[track_caller]
pub(super) fn told(store: &dyn SessionPersistence, id: &str) -> Snapshot {
    let snapshot = snapshot(store, id);
    let listed: Vec<_> = listed(store).into_iter().filter(|s| s.id.as_str() == id).collect();
    assert_eq!(listed, std::slice::from_ref(&snapshot), "stat and list have to tell the same of {id:?}");
    snapshot
}

/// Checks that there is no trace of a session.
#[track_caller]
pub(super) fn assert_absent(store: &dyn SessionPersistence, id: &str) {
    assert_eq!(done(store.stat(&sample::id(id)), "stat of an absent session"), None);
    let ids = listed_ids(store);
    assert!(!ids.iter().any(|listed| listed == id), "{id:?} has to be absent, and is in {ids:?}");
    for way in WAYS {
        refused(store.open(&sample::id(id), way), id, ErrorKind::NotFound);
    }
}

/// Checks that an append is refused because the batch does not continue the log.
#[track_caller]
pub(super) fn assert_not_contiguous(
    handle: &dyn SessionHandle,
    batch: &[SessionEvent],
    at_index: usize,
    expected_seq: u64,
) {
    match handle.append(batch) {
        Err(Error::NotContiguous { session, index, expected, found }) => {
            assert_eq!(&session, handle.id());
            assert_eq!((index, expected), (at_index, expected_seq));
            assert_eq!(found, batch[at_index].seq().get());
        }
        Err(other) => panic!("the batch has to be refused as not contiguous, and was with: {other}"),
        Ok(()) => panic!("the batch has to be refused as not contiguous, and was stored"),
    }
}

/// Checks that a call is refused because of an event of unknown type.
#[track_caller]
pub(super) fn assert_unknown<T>(result: Result<T>, id: &str, seq: u64, event_type: &str) {
    assert_problem(result, id, |problem| match problem {
        FormatProblem::UnknownEvent { seq: s, event_type: t } => (s.get(), t.as_str()) == (seq, event_type),
        _ => false,
    });
}

/// Checks that a call is refused because the log cannot be interpreted, and why.
#[track_caller]
pub(super) fn assert_problem<T>(result: Result<T>, id: &str, is_the_problem: impl FnOnce(&FormatProblem) -> bool) {
    match refused(result, id, ErrorKind::FormatUnsupported) {
        Error::FormatUnsupported { problem, .. } => assert!(is_the_problem(&problem), "the log {problem}"),
        other => panic!("an error of another kind than it tells: {other}"),
    }
}
