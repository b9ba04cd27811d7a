//! Logs that are too large to be held while they are imported.

use session_persistence::export::{self, ImportError, ImportOptions, Imported};
use session_persistence::{OpenOptions, SessionPersistence};

use crate::logs::{Header, event, id, import, stores, text};

/// More than is held of a log while it is read, in bytes.
const LARGE: usize = 9 << 19;

/// The lines of a seeded log from its start or from a seq on, so many bytes of them, spelled in all kinds of ways; and the seq
/// behind them.
fn lines(from: u64, bytes: usize) -> (String, u64) {
    let mut lines = String::new();
    let mut seq = from;
    if from == 0 {
        lines = Header { id: "large", created_at: 9, parent: Some("p"), is_seeded: true }.line();
    }
    while lines.len() < bytes {
        lines += &event("turn/start", seq, &format!(r#"{{"turn":1.0,"k":1,"k":"{}"}}"#, "é\\u0041 ".repeat(3000)));
        lines +=
            &format!(" {{\"data\":[ 1e400 , -0.0 ],\"time\":-5,\"seq\":{}, \"type\" : \"user/message\"}}\n", seq + 1);
        lines += &event("session/end-seed", seq + 2, r#"{"inherited":true}"#);
        lines += &event("tool/result", seq + 3, r#"null,"surfaceOp":{"op":"replace","startSeq":0,"endSeq":1}"#);
        seq += 4;
    }
    (lines, seq)
}

fn inherited(store: &dyn SessionPersistence) -> u64 {
    store.open(&id("large"), OpenOptions::uninterpreted()).unwrap().inherited_event_count()
}

#[test]
fn a_large_log_comes_in_whole_and_is_compared_and_extended_whole() {
    let (log, count) = lines(0, LARGE);
    let (more, end) = lines(count, LARGE / 50);
    let whole = log.clone() + &more;
    for (name, store) in stores() {
        let told = import(&*store, &log);
        assert_eq!(told, Imported::Created { session: id("large"), events: count }, "{name}");
        assert!(text(&*store, &id("large")) == log, "{name}");
        assert_eq!(inherited(&*store), count - 2, "{name}: the last mark counts");
        assert_eq!(import(&*store, &log), Imported::Unchanged { session: id("large"), events: count }, "{name}");
        let options = ImportOptions::extending();
        let told = export::import_reader(&*store, "log", whole.as_bytes(), options).unwrap();
        assert_eq!(told, Imported::Extended { session: id("large"), events: end, added: end - count }, "{name}");
        assert!(text(&*store, &id("large")) == whole, "{name}");
        assert_eq!(inherited(&*store), end - 2, "{name}: the last mark counts");
    }
}

#[test]
fn a_large_log_that_is_cut_at_its_end_stores_nothing() {
    let (log, count) = lines(0, LARGE);
    let (more, _) = lines(count, LARGE / 50);
    let whole = log.clone() + &more;
    let options = ImportOptions::extending();
    // What is refused was never brought before a store.
    for (name, store) in stores().into_iter().filter(|(name, _)| ["sqlite", "zstd files"].contains(name)) {
        let cut = |text: &str| export::import_reader(&*store, "log", &text.as_bytes()[..text.len() - 2], options);
        let refused = cut(&log).unwrap_err();
        assert!(matches!(refused, ImportError::Refused { .. }), "{name}: {refused}");
        assert_eq!(store.stat(&id("large")).unwrap(), None, "{name}");
        import(&*store, &log);
        let before = store.stat(&id("large")).unwrap();
        let refused = cut(&whole).unwrap_err();
        assert!(matches!(refused, ImportError::Refused { .. }), "{name}: {refused}");
        assert_eq!(store.stat(&id("large")).unwrap(), before, "{name}");
        assert!(text(&*store, &id("large")) == log, "{name}");
    }
}
