//! Sessions to index.

use std::path::Path;

use serde_json::{Value, json};
use session_persistence::query::index::{IndexOptions, SearchIndex, SearchQuery};
use session_persistence::{CreateOptions, SessionEvent, SessionHeader, SessionId, SessionPersistence};
use tempfile::TempDir;

pub(crate) const TIME: i64 = 1_700_000_000_000;

pub(crate) fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(crate) fn header(name: &str) -> SessionHeader {
    SessionHeader::new(id(name), TIME as u64).unwrap()
}

pub(crate) fn event(event_type: &str, seq: u64, data: &Value) -> SessionEvent {
    SessionEvent::of(event_type, seq, TIME + seq as i64, data).unwrap()
}

pub(crate) fn says(seq: u64, text: &str) -> SessionEvent {
    let content = json!([{ "type": "text", "text": text }]);
    let data = json!({ "id": format!("m{seq}"), "role": "user", "content": content, "source": { "kind": "user" } });
    event("user/message", seq, &data)
}

pub(crate) fn all_say(start: u64, texts: &[&str]) -> Vec<SessionEvent> {
    (start..).zip(texts).map(|(seq, text)| says(seq, text)).collect()
}

pub(crate) fn store_session(store: &dyn SessionPersistence, name: &str, events: &[SessionEvent]) {
    let writer = store.create(&header(name), CreateOptions::default()).unwrap();
    writer.append(events).unwrap();
    writer.flush().unwrap();
    writer.close().unwrap();
}

pub(crate) fn append(store: &dyn SessionPersistence, name: &str, events: &[SessionEvent]) {
    let writer = store.open(&id(name), session_persistence::OpenOptions::write()).unwrap();
    writer.append(events).unwrap();
    writer.close().unwrap();
}

pub(crate) fn fresh() -> (TempDir, SearchIndex) {
    let folder = tempfile::tempdir().unwrap();
    let index = SearchIndex::open(folder.path().join("s.index")).unwrap();
    (folder, index)
}

/// The places of all that is found, page by page.
pub(crate) fn found(index: &SearchIndex, text: &str) -> Vec<(String, u64)> {
    let (mut all, mut query) = (Vec::new(), SearchQuery::new(text).with_limit(3));
    loop {
        let page = index.search(&query).unwrap_or_else(|e| panic!("{text:?}: {e}"));
        all.extend(page.hits.iter().map(|hit| (hit.session.as_str().to_owned(), hit.seq)));
        match page.next {
            Some(next) => query = query.with_cursor(next),
            None => {
                assert_eq!(all.len() as u64, page.total, "{text:?}");
                return all;
            }
        }
    }
}

/// What a check of the index tells, a line a fault.
pub(crate) fn faults(path: &Path, store: &dyn SessionPersistence) -> Vec<String> {
    let mut told = Vec::new();
    SearchIndex::check(path, IndexOptions::default(), store, |fault| told.push(fault.to_string())).unwrap();
    told
}
