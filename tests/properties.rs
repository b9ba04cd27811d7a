//! Properties over random input: every store answers as the reference model does, and JSON comes back to the byte.

use std::collections::HashMap;

use proptest::prelude::*;
use session_persistence::{
    CreateOptions, ErrorKind, Json, ListOrder, ListQuery, MemoryStore, OpenOptions, Page, Result, SeqRange,
    SessionEvent, SessionHandle, SessionHeader, SessionId, SessionPersistence, Snapshot, SqliteStore, text,
};
#[cfg(feature = "jsonl")]
use session_persistence::{Encoding, JsonlOptions, JsonlStore};

const NAMES: [&str; 3] = ["a", "A", "../b"];
const TYPES: [&str; 3] = ["turn/start", "todo/write", "acme/pulse"];

/// One call on a store. Handles are named by a slot, so that both stores get the same calls.
#[derive(Debug, Clone)]
enum Call {
    Create { slot: usize, name: usize, created: u64, version: u32 },
    Open { slot: usize, name: usize, how: usize },
    Append { slot: usize, from: i64, types: Vec<(usize, bool)> },
    Read { slot: usize, start: u64, length: Option<u64> },
    Flush { slot: usize },
    FlushAll,
    Close { slot: usize },
    Drop { slot: usize },
    Stat { name: usize },
    List { created: bool, limit: Option<usize> },
    Remove { name: usize },
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let slot = 0..4usize;
    let name = 0..NAMES.len();
    let call = prop_oneof![
        3 => (slot.clone(), name.clone(), 0..3u64, prop_oneof![9 => Just(3), 1 => Just(2), 1 => Just(4)])
            .prop_map(|(slot, name, created, version)| Call::Create { slot, name, created, version }),
        3 => (slot.clone(), name.clone(), 0..3usize).prop_map(|(slot, name, how)| Call::Open { slot, name, how }),
        6 => (slot.clone(), prop_oneof![9 => Just(0i64), 1 => -2..3i64],
              prop::collection::vec((prop_oneof![20 => 0..2usize, 1 => Just(2usize)], prop::bool::weighted(0.1)), 0..4))
            .prop_map(|(slot, from, types)| Call::Append { slot, from, types }),
        4 => (slot.clone(), 0..8u64, prop::option::of(0..5u64))
            .prop_map(|(slot, start, length)| Call::Read { slot, start, length }),
        1 => slot.clone().prop_map(|slot| Call::Flush { slot }),
        1 => Just(Call::FlushAll),
        1 => slot.clone().prop_map(|slot| Call::Close { slot }),
        2 => slot.prop_map(|slot| Call::Drop { slot }),
        2 => name.clone().prop_map(|name| Call::Stat { name }),
        2 => (any::<bool>(), prop::option::of(1..3usize)).prop_map(|(created, limit)| Call::List { created, limit }),
        1 => name.prop_map(|name| Call::Remove { name }),
    ];
    prop::collection::vec(call, 1..60)
}

/// A store with the handles that the calls have opened on it.
struct Driven<S> {
    store: S,
    handles: HashMap<usize, Box<dyn SessionHandle>>,
    /// Whether sizes are those of the exported text.
    compares_sizes: bool,
}

impl<S: SessionPersistence> Driven<S> {
    fn new(store: S, compares_sizes: bool) -> Self {
        Self { store, handles: HashMap::new(), compares_sizes }
    }

    fn known(&self, s: &Snapshot) -> String {
        format!(
            "{} {:?} {} {:?} {:?} {:?} {}",
            s.id,
            s.header,
            s.state,
            s.event_count,
            s.size_bytes.filter(|_| self.compares_sizes),
            s.last_time,
            s.owner.is_some()
        )
    }

    /// What a call answers, in words that do not tell the stores apart. `lengths` is the model's length of each log.
    fn answer(&mut self, call: &Call, next: u64) -> String {
        let id = |name: usize| SessionId::new(NAMES[name]).unwrap();
        let handle = |slot: &usize| self.handles.get(slot);
        match call {
            Call::Create { slot, name, created, version } => {
                let header = SessionHeader::new(id(*name), *created).unwrap().with_version(*version);
                let made = self.store.create(&header, CreateOptions::default());
                self.keep(*slot, made)
            }
            Call::Open { slot, name, how } => {
                let options = [OpenOptions::read(), OpenOptions::write(), OpenOptions::uninterpreted()][*how];
                let opened = self.store.open(&id(*name), options);
                self.keep(*slot, opened)
            }
            Call::Append { slot, from, types } => {
                let first = next.saturating_add_signed(*from);
                let batch: Vec<_> =
                    types.iter().zip(first..).map(|((t, mark), seq)| event(TYPES[*t], seq, *mark)).collect();
                told(handle(slot).map(|h| h.append(&batch)))
            }
            Call::Read { slot, start, length } => {
                told(handle(slot).map(|h| h.read(SeqRange::new(*start, *length)).map(|e| format!("{e:?}"))))
            }
            Call::Flush { slot } => told(handle(slot).map(|h| h.flush())),
            Call::FlushAll => told(Some(self.store.flush())),
            Call::Close { slot } => told(handle(slot).map(|h| h.close())),
            Call::Drop { slot } => format!("{:?}", self.handles.remove(slot).is_some()),
            Call::Stat { name } => told(Some(self.store.stat(&id(*name)).map(|s| s.map(|s| self.known(&s))))),
            Call::List { created, limit } => {
                let order = if *created { ListOrder::Created } else { ListOrder::Activity };
                let mut query = ListQuery::default().with_order(order);
                query.limit = *limit;
                let mut pages = Vec::new();
                loop {
                    let Page { items, next, .. } = self.store.list(&query).unwrap();
                    pages.push(items.iter().map(|s| self.known(s)).collect::<Vec<_>>());
                    let Some(cursor) = next else { break };
                    query = query.with_cursor(cursor);
                }
                format!("{pages:?}")
            }
            Call::Remove { name } => told(Some(self.store.remove(&id(*name)))),
        }
    }

    fn keep(&mut self, slot: usize, opened: Result<Box<dyn SessionHandle>>) -> String {
        match opened {
            Ok(handle) => {
                let seen = format!("{:?} {:?} {}", handle.header(), handle.access(), handle.inherited_event_count());
                self.handles.insert(slot, handle);
                seen
            }
            Err(e) => format!("{:?} {:?}", e.kind(), e.session()),
        }
    }
}

fn event(event_type: &str, seq: u64, ignorable: bool) -> SessionEvent {
    let event = SessionEvent::new(event_type, seq, 9 - seq as i64, Json::parse(&format!("[{seq}]")).unwrap()).unwrap();
    if ignorable { event.into_ignorable() } else { event }
}

fn told<T: std::fmt::Debug>(answer: Option<Result<T>>) -> String {
    match answer {
        None => "no handle".to_owned(),
        Some(Ok(value)) => format!("{value:?}"),
        // The holder and the place of the store differ, the rest of the words must not.
        Some(Err(e)) if e.kind() == ErrorKind::AlreadyOwned => format!("{:?}", e.kind()),
        Some(Err(e)) => e.to_string(),
    }
}

fn run_both(
    tried: impl SessionPersistence,
    compares_sizes: bool,
    calls: &[Call],
) -> std::result::Result<(), TestCaseError> {
    let mut model = Driven::new(MemoryStore::new(), compares_sizes);
    let mut tried = Driven::new(tried, compares_sizes);
    for call in calls {
        let next = match call {
            Call::Append { slot, .. } => model.handles.get(slot).map_or(0, |handle| {
                let open = model.store.open(handle.id(), OpenOptions::uninterpreted());
                open.and_then(|h| h.read(SeqRange::ALL)).map_or(0, |e| e.len() as u64)
            }),
            _ => 0,
        };
        prop_assert_eq!(tried.answer(call, next), model.answer(call, next), "{:?}", call);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_in_memory_answers_any_sequence_of_calls_as_the_reference_model_does(calls in calls()) {
        run_both(SqliteStore::in_memory().unwrap(), true, &calls)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_in_a_file_answers_any_sequence_of_calls_as_the_reference_model_does(calls in calls()) {
        let folder = tempfile::tempdir().unwrap();
        run_both(SqliteStore::open(folder.path().join("s.db")).unwrap(), true, &calls)?;
    }

    #[cfg(feature = "jsonl")]
    #[test]
    fn files_answer_any_sequence_of_calls_as_the_reference_model_does(calls in calls()) {
        for encoding in [Encoding::Raw, Encoding::Zstd] {
            let folder = tempfile::tempdir().unwrap();
            run_both(files(folder.path(), encoding), encoding == Encoding::Raw, &calls)?;
        }
    }

    #[cfg(feature = "jsonl")]
    #[test]
    fn any_json_value_survives_files_byte_for_byte(values in prop::collection::vec(json(), 1..8)) {
        for encoding in [Encoding::Raw, Encoding::Zstd] {
            let folder = tempfile::tempdir().unwrap();
            let header = SessionHeader::new(SessionId::new("s").unwrap(), 1).unwrap();
            let made = |(value, seq): (&String, u64)| {
                SessionEvent::new("todo/write", seq, 0, Json::parse(value).unwrap()).unwrap()
            };
            let events: Vec<_> = values.iter().zip(0..).map(made).collect();
            files(folder.path(), encoding).create(&header, CreateOptions::default()).unwrap().append(&events).unwrap();
            let handle = files(folder.path(), encoding).open(header.id(), OpenOptions::read()).unwrap();
            prop_assert_eq!(handle.read(SeqRange::ALL).unwrap(), events);
        }
    }

    #[test]
    fn any_json_value_survives_append_read_and_reopen_byte_for_byte(values in prop::collection::vec(json(), 1..8)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.db");
        let header = SessionHeader::new(SessionId::new("s").unwrap(), 1).unwrap();
        let events: Vec<_> = values
            .iter()
            .zip(0..)
            .map(|(value, seq)| SessionEvent::new("todo/write", seq, 0, Json::parse(value).unwrap()).unwrap())
            .collect();
        {
            let store = SqliteStore::open(&path).unwrap();
            let handle = store.create(&header, CreateOptions::default()).unwrap();
            handle.append(&events).unwrap();
            let read = handle.read(SeqRange::ALL).unwrap();
            prop_assert_eq!(read.iter().map(|e| e.data().as_str()).collect::<Vec<_>>(), values.clone());
        }
        let store = SqliteStore::open(&path).unwrap();
        let read = store.open(header.id(), OpenOptions::read()).unwrap().read(SeqRange::ALL).unwrap();
        for (event, value) in read.iter().zip(&values) {
            prop_assert_eq!(event.data().as_str(), value);
            prop_assert_eq!(&text::parse_event(event.to_line().as_bytes()).unwrap(), event);
        }
    }
}

#[cfg(feature = "jsonl")]
fn files(root: &std::path::Path, encoding: Encoding) -> JsonlStore {
    let mut options = JsonlOptions::default();
    options.encoding = encoding;
    JsonlStore::open_with(root, options).unwrap()
}

/// JSON text with what stores like to change: number spellings, escapes, lone surrogates, duplicate keys, white space.
fn json() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("JSON has no other", |f| f.is_finite()).prop_map(|f| format!("{f:e}")),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?",
    ];
    let string = prop::collection::vec(
        prop_oneof![
            any::<char>().prop_map(|c| {
                let quoted = serde_json::to_string(&c).unwrap();
                quoted[1..quoted.len() - 1].to_owned()
            }),
            "\\\\u[0-9a-fA-F]{4}",
            Just("\\/".to_owned()),
            Just("\\\"".to_owned()),
        ]
        .prop_filter("a quote ends the string", |s| !s.is_empty()),
        0..8,
    )
    .prop_map(|parts| format!("\"{}\"", parts.concat()));
    let leaf = prop_oneof![number, string.clone(), Just("null".to_owned()), Just("true".to_owned())];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        let space = "[ \t\r]{0,2}";
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..6), space)
                .prop_map(|(v, s)| format!("[{s}{}{s}]", v.join(&format!("{s},")))),
            (prop::collection::vec((string.clone(), inner), 0..6), space).prop_map(|(v, s)| {
                let entries: Vec<_> = v.into_iter().map(|(k, v)| format!("{k}{s}:{v}")).collect();
                format!("{{{s}{}}}", entries.join(","))
            }),
        ]
    })
}
