//! Cases of filtered lists: what each part of a [`ListFilter`] lets through, and how parts and pages go together.

use super::fixture::{Fixture, reopened};
use super::list::{ORDERS, assert_refused, page, paged};
use super::sample::{at_time, events, header_created_at, id, parsed_header};
use super::steps::{append, close, create_with, done, ids, listed, store_with, writer};
use crate::log::{Origin, SessionHeader};
use crate::seam::{CreateOptions, ListFilter, ListOrder, ListQuery, SessionPersistence, Snapshot, StateKind};

fn new() -> ListFilter {
    ListFilter::new()
}

fn filtered(filter: &ListFilter, order: ListOrder) -> ListQuery {
    ListQuery::default().with_filter(filter.clone()).with_order(order)
}

#[track_caller]
fn checked(filter: crate::seam::Result<ListFilter>) -> ListFilter {
    done(filter, "making a filter")
}

/// Checks that a filter lets these sessions through, by their names, in either order.
#[track_caller]
fn assert_found(store: &dyn SessionPersistence, filter: &ListFilter, names: &[&str]) {
    for order in ORDERS {
        let page = page(store, &filtered(filter, order));
        let mut found = ids(&page.items);
        found.sort_unstable();
        assert_eq!(found, names, "{filter:?} in order of {order:?}");
        assert_eq!(page.next, None, "a list without a limit is one page");
    }
}

#[track_caller]
fn store(store: &dyn SessionPersistence, header: &SessionHeader) {
    store_with(store, header, CreateOptions::default(), &events(0..1));
}

/// Sessions that differ in what their headers say, some of formats that this build does not read.
#[track_caller]
fn store_family(at: &dyn SessionPersistence) {
    let made = header_created_at;
    let child = |name, created: u64, parent: &str| {
        made(name, created).with_parent_session(parent).with_origin(Origin::Subagent)
    };
    for header in [
        made("a", 10).with_cwd("/w"),
        made("b", 40).with_cwd("/w/x"),
        child("c", 20, "a").with_cwd("/w"),
        child("d", 20, "c"),
        made("e", 30).with_parent_session("gone").with_cwd(""),
        made("f", 50).with_version(2).with_cwd("/w"),
        made("g", 60).with_version(4),
    ] {
        store(at, &header);
    }
}

pub fn each_part_of_a_filter_lets_through_what_it_asks_for(fixture: &dyn Fixture) {
    let check = |store: &dyn SessionPersistence| {
        let found = |filter: ListFilter, names: &[&str]| assert_found(store, &filter, names);
        found(new(), &["a", "b", "c", "d", "e", "f", "g"]);
        found(new().with_ids([id("d"), id("a"), id("none")]), &["a", "d"]);
        found(new().in_cwds([Some("/w")]), &["a", "c", "f"]);
        found(new().in_cwds([Some("/w/x"), Some("")]), &["b", "e"]);
        found(new().in_cwds([None, Some("/w/x")]), &["b", "d", "g"]);
        found(new().with_parents([Some("a"), Some("gone")]), &["c", "e"]);
        found(new().with_parents([None::<String>]), &["a", "b", "f", "g"]);
        found(new().with_origins([Some(Origin::Subagent)]), &["c", "d"]);
        found(new().with_origins([None]), &["a", "b", "e", "f", "g"]);
        found(checked(new().created_in([20..=20, 45..=50])), &["c", "d", "f"]);
        found(checked(new().created_in([0..=10, 60..=u64::MAX])), &["a", "g"]);
        found(new().with_versions([2, 4, 9]), &["f", "g"]);
        found(new().in_states([StateKind::Readable]), &["a", "b", "c", "d", "e"]);
        found(new().in_states([StateKind::OlderFormat]), &["f"]);
        found(new().in_states([StateKind::NewerFormat, StateKind::Damaged]), &["g"]);
        found(new().in_states([StateKind::Damaged, StateKind::Pending]), &[]);
        found(new().owned(false), &["a", "b", "c", "d", "e", "f", "g"]);
        found(new().owned(true), &[]);
    };
    let store = fixture.store();
    store_family(&*store);
    check(&*store);
    reopened(fixture, store, check);
}

pub fn sessions_are_found_by_when_they_were_last_active(fixture: &dyn Fixture) {
    let at = fixture.store();
    for (name, time) in [("a", 5), ("b", 7), ("c", -3)] {
        store_with(&*at, &header_created_at(name, 0), CreateOptions::default(), &[at_time(0, time)]);
    }
    let all = listed(&*at);
    let active = |told: &Snapshot| told.written_at.or(told.last_time);
    for told in &all {
        let Some(time) = active(told) else { continue };
        let filter = checked(new().active_in([time..=time]));
        let mut names = ids(&all.iter().filter(|other| active(other) == Some(time)).cloned().collect::<Vec<_>>());
        names.sort_unstable();
        assert_found(&*at, &filter, &names.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let known = all.iter().filter(|told| active(told).is_some()).count();
    let ever = page(&*at, &filtered(&checked(new().active_in([i64::MIN..=i64::MAX])), ListOrder::Activity));
    assert_eq!(ever.items.len(), known);
    assert_found(&*at, &checked(new().active_in([i64::MIN..=-1_000_000])), &[]);
}

pub fn a_session_must_be_let_through_by_every_part(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_family(&*store);
    let found = |filter: ListFilter, names: &[&str]| assert_found(&*store, &filter, names);
    found(new().in_cwds([Some("/w")]).with_parents([None::<String>]), &["a", "f"]);
    found(new().in_cwds([Some("/w")]).with_parents([None::<String>]).with_versions([3]), &["a"]);
    found(new().with_origins([Some(Origin::Subagent)]).in_cwds([None::<String>]), &["d"]);
    found(checked(new().with_origins([None]).created_in([10..=40])), &["a", "b", "e"]);
    found(new().with_ids([id("a"), id("b")]).in_cwds([Some("/w"), Some("/v")]), &["a"]);
    found(new().with_parents([Some("a"), Some("c")]).owned(false).in_states([StateKind::Readable]), &["c", "d"]);
    found(new().with_parents([Some("a")]).owned(true), &[]);
}

pub fn a_part_without_values_lets_nothing_through(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_family(&*store);
    for filter in [
        new().with_ids([]),
        new().in_cwds::<String>([]),
        new().with_parents::<String>([]),
        new().with_origins([]),
        checked(new().created_in([])),
        checked(new().active_in([])),
        new().with_versions([]),
        new().in_states([]),
        new().in_cwds([Some("/w")]).with_versions([]),
    ] {
        assert_found(&*store, &filter, &[]);
    }
}

pub fn filtered_pages_of_every_size_give_every_session_once_in_order(fixture: &dyn Fixture) {
    let check = |store: &dyn SessionPersistence| {
        for filter in [
            new().in_cwds([Some("/w")]),
            new().in_cwds([Some("/w"), Some("/w/x"), None]),
            new().with_parents([Some("a"), Some("c"), Some("gone")]),
            new().with_parents([None::<String>]),
            new().with_origins([Some(Origin::Subagent)]),
            new().with_ids([id("a"), id("c"), id("g")]),
            new().in_states([StateKind::Readable]),
            new().with_versions([2, 3]),
            checked(new().created_in([10..=20, 50..=60])),
        ] {
            for order in ORDERS {
                let unfiltered = page(store, &ListQuery::default().with_order(order)).items;
                let all = ids(&unfiltered.into_iter().filter(|told| filter.matches(told)).collect::<Vec<_>>());
                for size in 1..=all.len() + 1 {
                    let pages = paged(store, filtered(&filter, order), size, |_| ());
                    let expected: Vec<_> = all.chunks(size).map(<[String]>::to_vec).collect();
                    assert_eq!(pages, expected, "pages of {size} of {filter:?} in order of {order:?}");
                }
            }
        }
    };
    let store = fixture.store();
    store_family(&*store);
    append(&*writer(&*store, "a"), &events(1..2));
    check(&*store);
    reopened(fixture, store, check);
}

pub fn sessions_that_are_being_written_are_found_and_those_that_are_not(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_family(&*store);
    let found = |filter: ListFilter, names: &[&str]| assert_found(&*store, &filter, names);
    let held = writer(&*store, "b");
    let pending = create_with(&*store, &header_created_at("p", 15).with_cwd("/w"), CreateOptions::default());
    found(new().owned(true), &["b", "p"]);
    found(new().owned(false), &["a", "c", "d", "e", "f", "g"]);
    found(new().in_states([StateKind::Pending]), &["p"]);
    found(new().in_cwds([Some("/w")]), &["a", "c", "f", "p"]);
    found(new().in_cwds([Some("/w")]).owned(true), &["p"]);
    found(checked(new().created_in([15..=15])), &["p"]);
    for owned in [true, false] {
        let told = page(&*store, &filtered(&new().owned(owned), ListOrder::Created)).items;
        assert!(told.iter().all(|told| told.owner.is_some() == owned), "{told:?}");
    }
    append(&*pending, &events(0..1));
    found(new().in_states([StateKind::Pending]), &[]);
    found(new().owned(true).in_states([StateKind::Readable]), &["b", "p"]);
    close(&*held);
    close(&*pending);
    found(new().owned(true), &[]);
}

pub fn texts_of_every_kind_are_found_however_they_are_spelled(fixture: &dyn Fixture) {
    let check = |store: &dyn SessionPersistence| {
        let found = |cwd: &str, names: &[&str]| assert_found(store, &new().in_cwds([Some(cwd)]), names);
        found("/w", &["deep", "escaped key", "escaped value", "half a pair", "plain"]);
        found("/w\0/x", &["null"]);
        found("/w\0/y", &[]);
        found("/😀", &["face", "pair"]);
        found("it's \"50%\" _", &["quoted"]);
        assert_found(store, &new().with_parents([Some("p\0q")]), &["null"]);
        assert_found(store, &new().with_parents([Some("p")]), &["plain"]);
        assert_found(store, &new().with_origins([Some(Origin::Subagent)]), &["null"]);
        let newer = ["deep", "half a pair", "moon"];
        assert_found(store, &new().with_versions([9]), &newer);
        assert_found(store, &new().in_states([StateKind::NewerFormat]), &newer);
        assert_found(store, &new().with_origins([None]).with_versions([9]), &newer);
    };
    let at = fixture.store();
    let rest = r#""createdAt":1,"isSeeded":false,"delegationDepth":0}"#;
    let line = |name: &str, told: &str| format!(r#"{{"type":"session","version":3,"id":"{name}",{told},{rest}"#);
    let nested = format!("{}1{}", "[".repeat(1500), "]".repeat(1500));
    for line in [
        line("plain", r#""cwd":"/w","parentSession":"p""#),
        line("escaped key", r#""c\u0077d":"/w""#),
        line("escaped value", r#""cwd":"\/\u0077""#),
        line("null", r#""cwd":"/w\u0000/x","parentSession":"p\u0000q","origin":"subagent""#),
        line("face", r#""cwd":"/😀""#),
        line("pair", r#""cwd":"/\uD83D\ude00""#),
        line("quoted", r#""cwd":"it's \"50%\" _""#),
        format!(r#"{{"type":"session","version":9,"id":"deep","createdAt":1,"cwd":"/w","x":{nested}}}"#),
        r#"{"type":"session","version":9,"id":"half a pair","createdAt":1,"cwd":"/w","x":"\ud83d"}"#.to_owned(),
        r#"{"type":"session","version":9,"id":"moon","createdAt":1,"origin":"moon"}"#.to_owned(),
    ] {
        store(&*at, &parsed_header(&line));
    }
    check(&*at);
    reopened(fixture, at, check);
}

pub fn a_cursor_of_another_filter_is_refused(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_family(&*store);
    let filters = [new(), new().in_cwds([Some("/w")]), new().with_parents([Some("/w")]), new().with_origins([None])];
    for order in ORDERS {
        for filter in filters.iter().filter(|filter| filter.parents().is_none()) {
            let next = page(&*store, &filtered(filter, order).with_limit(1)).next.expect("more are left");
            for other in filters.iter().filter(|other| *other != filter) {
                assert_refused(&*store, &filtered(other, order).with_cursor(next.clone()));
            }
            assert!(!page(&*store, &filtered(filter, order).with_cursor(next)).items.is_empty());
        }
    }
}
