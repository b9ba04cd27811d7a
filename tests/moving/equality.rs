//! The same log is the same bytes from every store, however often it moved.

use proptest::prelude::*;

use session_persistence::export::{self, ImportOptions, Imported};
use session_persistence::{
    CreateOptions, Error, ErrorKind, ListQuery, MemoryStore, OpenOptions, Page, Result, SessionHandle, SessionHeader,
    SessionId, SessionPersistence, Snapshot,
};

use crate::logs::{self, Reports, all, content, id, id_of, import, stores, text, zip};

/// A store of which one session cannot be opened.
pub(crate) struct Failing {
    pub(crate) inner: MemoryStore,
    pub(crate) session: SessionId,
}

impl SessionPersistence for Failing {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        self.inner.create(header, options)
    }
    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        if *id == self.session {
            return Err(Error::Corruption { session: id.clone(), seq: None, offset: None, reason: "bits".to_owned() });
        }
        self.inner.open(id, options)
    }
    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        self.inner.stat(id)
    }
    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        self.inner.list(query)
    }
    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }
    fn remove(&self, id: &SessionId) -> Result<bool> {
        self.inner.remove(id)
    }
}

fn copy(source: &dyn SessionPersistence, target: &dyn SessionPersistence, options: ImportOptions) -> Reports {
    let mut reports = Reports::default();
    let tally = export::copy(source, "the source", target, None, options, &mut reports.take()).unwrap();
    assert_eq!(tally.stored() + tally.failed, reports.0.len() as u64);
    reports
}

#[test]
fn text_and_archive_are_the_same_bytes_after_every_hop_through_every_store() {
    for (first_name, first) in stores() {
        for log in all() {
            import(&*first, &log);
        }
        let expected = content(&*first);
        for log in all() {
            assert_eq!(text(&*first, &id_of(&log)), log, "{first_name}");
        }
        let archives: Vec<_> = expected.iter().map(|(id, _)| zip(&*first, id, true)).collect();
        for (second_name, second) in stores() {
            let reports = copy(&*first, &*second, ImportOptions::default());
            assert_eq!(reports.letters(), "C".repeat(expected.len()), "{first_name} to {second_name}");
            for (third_name, third) in stores() {
                let hops = format!("{first_name} to {second_name} to {third_name}");
                copy(&*second, &*third, ImportOptions::default());
                assert_eq!(content(&*third), expected, "{hops}");
                for ((id, _), archive) in expected.iter().zip(&archives) {
                    assert!(zip(&*third, id, true) == *archive, "{hops}: {id:?}");
                }
            }
        }
    }
}

#[test]
fn a_copy_can_be_repeated_and_is_extended_on_request_only() {
    for (name, target) in stores() {
        let source = MemoryStore::new();
        import(&source, &logs::plain("grows", 3));
        import(&source, &logs::plain("stays", 3));
        assert_eq!(copy(&source, &*target, ImportOptions::default()).letters(), "CC", "{name}");
        let before = target.list(&ListQuery::default()).unwrap();
        assert_eq!(copy(&source, &*target, ImportOptions::extending()).letters(), "UU", "{name}");
        assert_eq!(target.list(&ListQuery::default()).unwrap(), before, "{name}");

        export::import_reader(&source, "log", logs::plain("grows", 5).as_bytes(), ImportOptions::extending()).unwrap();
        let reports = copy(&source, &*target, ImportOptions::default());
        assert_eq!(reports.letters(), "UF", "{name}");
        let error = reports.error().to_string();
        assert!(error.contains("the source: session \"grows\" is stored up to seq 3"), "{error}");
        assert_eq!(copy(&source, &*target, ImportOptions::extending()).letters(), "UE", "{name}");
        assert_eq!(text(&*target, &id("grows")), logs::plain("grows", 5), "{name}");
        assert_eq!(copy(&*target, &source, ImportOptions::extending()).letters(), "UU", "{name}");

        let other = MemoryStore::new();
        import(&other, &logs::interrupted("grows"));
        import(&other, &logs::plain("stays", 2));
        let before = content(&*target);
        assert_eq!(copy(&other, &*target, ImportOptions::extending()).letters(), "FF", "{name}");
        assert_eq!(content(&*target), before, "{name}");
    }
}

#[test]
fn the_list_of_a_copy_has_the_order_of_its_source() {
    let order = |store: &dyn SessionPersistence| -> Vec<_> {
        store.list(&ListQuery::default()).unwrap().items.into_iter().map(|snapshot| snapshot.id).collect()
    };
    for (name, target) in stores() {
        let source = MemoryStore::new();
        for log in all() {
            import(&source, &log);
        }
        copy(&source, &*target, ImportOptions::default());
        assert_eq!(order(&*target), order(&source), "{name}");
    }
}

#[test]
fn sessions_that_cannot_be_read_do_not_keep_the_others_back() {
    for (name, target) in stores() {
        let source = Failing { inner: MemoryStore::new(), session: id("b") };
        for text in ["a", "b", "c"] {
            import(&source, &logs::plain(text, 2));
        }
        let sessions = ["c", "absent", "b", "a"].map(id);
        let mut reports = Reports::default();
        let options = ImportOptions::default();
        let tally = export::copy(&source, "x.db", &*target, Some(&sessions), options, &mut reports.take()).unwrap();
        assert_eq!(reports.letters(), "CFFC", "{name}");
        assert_eq!((tally.created, tally.failed), (2, 2), "{name}");
        let texts: Vec<_> = reports.0.iter().filter_map(|r| r.as_ref().err()).map(ToString::to_string).collect();
        assert!(texts[0].contains("\"absent\"") && texts[1].contains("\"b\""), "{texts:?}");
        assert!(texts.iter().all(|t| t.starts_with("x.db: ") && t.ends_with("nothing of it was stored")), "{texts:?}");
        assert_eq!(content(&*target).len(), 2, "{name}");
    }
}

#[test]
fn a_copy_into_a_session_that_is_being_written_fails_alone() {
    let source = MemoryStore::new();
    for text in ["a", "b"] {
        import(&source, &logs::plain(text, 3));
    }
    for (name, target) in stores() {
        import(&*target, &logs::plain("a", 2));
        let writer = target.open(&id("a"), OpenOptions::write()).unwrap();
        let reports = copy(&source, &*target, ImportOptions::extending());
        assert_eq!(reports.letters(), "FC", "{name}");
        let error = reports.error();
        assert!(
            matches!(&error, export::ImportError::Store { source, .. } if source.kind() == ErrorKind::AlreadyOwned),
            "{name}: {error}"
        );
        drop(writer);
        assert_eq!(copy(&source, &*target, ImportOptions::extending()).letters(), "EU", "{name}");
    }
}

#[test]
fn logs_that_cannot_be_interpreted_are_copied() {
    let old = r#"{"type":"session","version":1,"id":"old","createdAt":0,"seedLength":1,"delegationDepth":0}"#;
    let newer = r#"{"type":"session","version":9,"id":"newer","createdAt":0,"future":[1]}"#;
    let unknown = logs::header("unknown") + &logs::event("acme/pulse", 0, "{}");
    let event = logs::event("turn/start", 0, "{}");
    let source = MemoryStore::new();
    for log in [format!("{old}\n{event}"), format!("{newer}\n{event}"), unknown] {
        import(&source, &log);
    }
    for (name, target) in stores() {
        assert_eq!(copy(&source, &*target, ImportOptions::default()).letters(), "CCC", "{name}");
        assert_eq!(content(&*target), content(&source), "{name}");
        let inherited = target.open(&id("old"), OpenOptions::uninterpreted()).unwrap().inherited_event_count();
        assert_eq!(inherited, 1, "{name}");
    }
}

#[test]
fn an_event_of_fifty_megabytes_moves_through_stores_and_archives() {
    let mut big = String::with_capacity(51 << 20);
    let mut state = 1_u64;
    while big.len() < 50 << 20 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        big.push_str(&format!("{:x} ", state >> 40));
    }
    let log = logs::header("big")
        + &logs::event("turn/start", 0, &format!("\"{big}\""))
        + &logs::event("turn/start", 1, "{}");
    let mut before: Option<Vec<u8>> = None;
    for (name, store) in stores() {
        assert!(matches!(import(&*store, &log), Imported::Created { events: 2, .. }), "{name}");
        assert!(text(&*store, &id("big")) == log, "{name}");
        let archive = zip(&*store, &id("big"), false);
        assert!(before.as_ref().is_none_or(|other| *other == archive), "{name}");
        before = Some(archive);
    }
    let (target, mut reports) = (MemoryStore::new(), Reports::default());
    let archive = std::io::Cursor::new(before.unwrap());
    let tally = export::import_archive(&target, "big.zip", archive, ImportOptions::default(), &mut reports.take());
    assert_eq!(tally.created, 1);
    assert!(text(&target, &id("big")) == log);
}

/// Any JSON text of one line, in any spelling.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("-0.0".to_owned()),
        Just("9007199254740993".to_owned()),
        Just(r#""\ud83d \/""#.to_owned()),
        any::<f32>().prop_filter("JSON has neither", |n| n.is_finite()).prop_map(|n| format!("{n:?}")),
        ".{0,12}".prop_map(|text| serde_json::to_string(&text).expect("text")),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(" ,"))),
            prop::collection::vec(("[a-c0-2]{0,2}", inner), 0..4).prop_map(|entries| {
                let entries: Vec<_> = entries.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
                format!("{{{}}}", entries.join(","))
            }),
        ]
    })
}

/// The keys of an event's line in any order, with any of those that may be absent.
fn events() -> impl Strategy<Value = Vec<String>> {
    let event = (json(), -9_999_i64..9_999, any::<bool>(), any::<bool>(), any::<prop::sample::Index>());
    prop::collection::vec(event, 0..12).prop_map(|events| {
        let line =
            |(seq, (data, time, ignorable, cites, turn)): (usize, (String, i64, bool, bool, prop::sample::Index))| {
                let mut keys = vec![
                    format!("\"type\":\"{}\"", if ignorable { "acme/x" } else { "turn/start" }),
                    format!("\"seq\":{seq}"),
                    format!("\"time\":{time}"),
                    format!("\"data\":{data}"),
                ];
                keys.extend(ignorable.then(|| "\"ignorable\":true".to_owned()));
                keys.extend((cites && seq > 0).then(|| format!("\"sourceEventSeqs\":[{}]", seq - 1)));
                let count = keys.len();
                keys.rotate_left(turn.index(count));
                format!("{{{}}}\n", keys.join(","))
            };
        events.into_iter().enumerate().map(line).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_log_is_the_same_bytes_from_every_store_and_from_an_archive(events in events()) {
        let log = logs::header("s") + &events.concat();
        let mut archives = Vec::new();
        for (_, store) in stores() {
            import(&*store, &log);
            prop_assert_eq!(&text(&*store, &id("s")), &log);
            archives.push(zip(&*store, &id("s"), true));
            for (_, other) in stores() {
                prop_assert_eq!(copy(&*store, &*other, ImportOptions::default()).letters(), "C");
                prop_assert_eq!(&text(&*other, &id("s")), &log);
            }
        }
        prop_assert!(archives.windows(2).all(|pair| pair[0] == pair[1]));
        let target = MemoryStore::new();
        let archive = std::io::Cursor::new(archives.remove(0));
        let tally = export::import_archive(&target, "x.zip", archive, ImportOptions::default(), &mut |_| {});
        prop_assert_eq!(tally.created, 1);
        prop_assert_eq!(&text(&target, &id("s")), &log);
    }
}
