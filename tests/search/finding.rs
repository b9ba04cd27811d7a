//! What a search finds.

use std::cmp::Reverse;

use proptest::prelude::*;
use session_persistence::query::LiteralText;
use session_persistence::query::index::{IndexError, SearchQuery};
use session_persistence::{MemoryStore, searchable_text};

use crate::sample::{all_say, append, found, fresh, id, says, store_session};

#[test]
fn plain_text_is_plain_text_whatever_its_punctuation() {
    let texts = [
        "don't",
        "multi-agent",
        "src/a.rs",
        "x@example.org",
        "61.2%",
        "a\"b",
        "AND",
        "NEAR(",
        "*",
        "col:val",
        "(",
        "%",
        "_",
        "字",
        "検索エンジン",
        "\\",
        "''",
        "\"\"\"",
        "--",
        "a\0b-c",
        "NOT x",
        "^start",
        "{a b}: c",
        "+",
    ];
    let store = MemoryStore::new();
    let said: Vec<_> = texts.iter().map(|text| format!("before{text}behind")).collect();
    let said: Vec<_> = said.iter().map(String::as_str).collect();
    store_session(&store, "s", &all_say(0, &said));
    let (_folder, index) = fresh();
    index.update(&store).unwrap();
    for (seq, text) in texts.iter().enumerate() {
        let mut expected: Vec<_> =
            (0..).zip(&said).filter(|(_, said)| said.contains(text)).map(|(seq, _)| seq).collect();
        let mut seqs: Vec<u64> = found(&index, text).into_iter().map(|(_, seq)| seq).collect();
        seqs.sort_unstable();
        expected.sort_unstable();
        assert!(seqs.contains(&(seq as u64)) && seqs == expected, "{text:?} {seqs:?}");
    }
}

#[test]
fn what_cannot_be_looked_for_is_an_error_and_no_empty_page() {
    let (_folder, index) = fresh();
    for text in ["", " \n\u{feff}", "x".repeat(10_000).as_str()] {
        assert!(matches!(index.search(&SearchQuery::new(text)), Err(IndexError::InvalidQuery { .. })));
    }
    for limit in [0, 101] {
        let query = SearchQuery::new("a").with_limit(limit);
        assert!(matches!(index.search(&query), Err(IndexError::InvalidQuery { .. })));
    }
    let longest = SearchQuery::new("字".repeat(1000));
    assert!(matches!(index.search(&longest), Err(IndexError::NotFilled { .. })));
    index.update(&MemoryStore::new()).unwrap();
    assert_eq!(index.search(&longest).unwrap().total, 0);
}

#[test]
fn the_best_come_first_in_one_order_on_all_pages() {
    let store = MemoryStore::new();
    store_session(&store, "b", &all_say(0, &["needle", "needle needle", "a needle", "needle", "hay"]));
    store_session(&store, "a", &all_say(0, &["needle"]));
    let (_folder, index) = fresh();
    index.update(&store).unwrap();
    let places = found(&index, "Needle");
    let places: Vec<_> = places.iter().map(|(session, seq)| (session.as_str(), *seq)).collect();
    assert_eq!(places, [("b", 1), ("b", 3), ("a", 0), ("b", 0), ("b", 2)]);
    let page = index.search(&SearchQuery::new("needle").in_session(id("a"))).unwrap();
    assert_eq!((page.total, page.hits[0].matches), (1, 1));
    assert_eq!(page.hits[0].snippet.text, "needle");
}

#[test]
fn a_cursor_of_another_search_or_index_is_refused() {
    let store = MemoryStore::new();
    store_session(&store, "s", &all_say(0, &["needle", "needle", "needle"]));
    let (_folder, index) = fresh();
    let (_other_folder, other) = fresh();
    index.update(&store).unwrap();
    other.update(&store).unwrap();
    let query = SearchQuery::new("needle").with_limit(1);
    let next = index.search(&query).unwrap().next.unwrap();
    append(&store, "s", &[says(3, "needle")]);
    index.update(&store).unwrap();
    let page = index.search(&query.clone().with_cursor(next.clone())).unwrap();
    assert_eq!((page.hits[0].seq, page.total), (1, 4));
    let is_refused = |result| matches!(result, Err(IndexError::InvalidCursor { .. }));
    assert!(is_refused(index.search(&SearchQuery::new("needl").with_cursor(next.clone()))));
    assert!(is_refused(index.search(&query.clone().in_session(id("s")).with_cursor(next.clone()))));
    assert!(is_refused(other.search(&query.clone().with_cursor(next))));
    for text in ["", "x", "MTpi"] {
        assert!(is_refused(index.search(&query.clone().with_cursor(text.parse().unwrap()))));
    }
}

/// Pieces that search engines trip over.
fn text() -> impl Strategy<Value = String> {
    let pieces = [
        "a",
        "B",
        "ab",
        "Abc",
        "é",
        "e\u{301}",
        "É",
        "ſ",
        "K",
        "\u{212a}",
        "ß",
        "ẞ",
        "İ",
        "ı",
        "Σ",
        "ς",
        "字",
        "検索",
        "한",
        "\u{1112}\u{1161}",
        " ",
        "  ",
        "\n",
        "\u{a0}",
        "'",
        "\"",
        "-",
        "/",
        ".",
        "@",
        "%",
        "_",
        "*",
        "(",
        ")",
        ":",
        "\\",
        "\0",
        "\u{fffd}",
        "\u{ffff}",
        "👩\u{200d}💻",
        "src/a.rs",
        "x@example.org",
        "AND",
        "NEAR",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 1..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        if std::env::var_os("SESSIONS_FULL").is_some() { 1000 } else { 40 }
    ))]

    #[test]
    fn a_search_finds_what_a_reader_of_every_event_finds(
        texts in prop::collection::vec(text(), 1..20),
        others in prop::collection::vec(text(), 1..8),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1usize..6), 12),
    ) {
        let store = MemoryStore::new();
        let events: Vec<_> = (0..).zip(&texts).map(|(seq, text)| says(seq, text)).collect();
        store_session(&store, "s", &events);
        let (_folder, index) = fresh();
        index.update(&store).unwrap();
        let cuts = cuts.iter().map(|(which, start, length)| {
            let letters: Vec<char> = which.get(&texts).chars().collect();
            letters.iter().skip(start.index(letters.len())).take(*length).collect::<String>()
        });
        for text in others.iter().cloned().chain(cuts) {
            let Ok(literal) = LiteralText::new(&text) else { continue };
            let mut expected: Vec<_> = events
                .iter()
                .map(|event| (event, searchable_text(event)))
                .filter(|(_, said)| literal.is_in(said))
                .map(|(event, _)| event.seq().get())
                .collect();
            expected.sort_by_key(|seq| Reverse(*seq));
            let mut seqs: Vec<_> = found(&index, &text).into_iter().map(|(_, seq)| seq).collect();
            seqs.sort_by_key(|seq| Reverse(*seq));
            prop_assert_eq!(seqs, expected, "{:?}", text);
        }
    }
}
