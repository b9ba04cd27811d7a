//! Cases of [`list`](crate::SessionPersistence::list): the order, the pages, and that every session stands there once.

use super::fixture::{Fixture, reopened};
use super::sample::{at_time, events, header_created_at, id};
use super::steps::{
    append, close, create, create_with, done, ids, listed, listed_ids, store_session, store_with, writer,
};
use crate::seam::{
    CreateOptions, Cursor, Error, ErrorKind, ListOrder, ListQuery, Page, SessionPersistence, SessionState, Snapshot,
};

pub(super) const ORDERS: [ListOrder; 2] = [ListOrder::Activity, ListOrder::Created];

#[track_caller]
pub(super) fn page(store: &dyn SessionPersistence, query: &ListQuery) -> Page<Snapshot> {
    done(store.list(query), format_args!("listing by {query:?}"))
}

fn whole(order: ListOrder) -> ListQuery {
    ListQuery::default().with_order(order)
}

#[track_caller]
fn ids_in(store: &dyn SessionPersistence, order: ListOrder) -> Vec<String> {
    let page = page(store, &whole(order));
    assert_eq!(page.next, None, "a list without a limit is one page");
    ids(&page.items)
}

#[track_caller]
fn cursor(text: &str) -> Cursor {
    match text.parse() {
        Ok(cursor) => cursor,
        Err(never) => match never {},
    }
}

#[track_caller]
pub(super) fn assert_refused(store: &dyn SessionPersistence, query: &ListQuery) {
    match store.list(query) {
        Err(Error::InvalidArgument { session: None, .. }) => {}
        Err(other) => panic!("{query:?} has to give {}, and gave: {other}", ErrorKind::InvalidArgument),
        Ok(page) => panic!("{query:?} has to be refused, and gave {:?}", ids(&page.items)),
    }
}

/// All sessions, page by page; `between` runs after each page but the last.
#[track_caller]
pub(super) fn paged(
    store: &dyn SessionPersistence,
    query: ListQuery,
    size: usize,
    mut between: impl FnMut(usize),
) -> Vec<Vec<String>> {
    let mut query = query.with_limit(size);
    let mut pages = Vec::new();
    loop {
        let Page { items, next, .. } = page(store, &query);
        assert!(items.len() <= size, "a page of {} where {size} is the most", items.len());
        pages.push(ids(&items));
        assert!(pages.len() < 100, "the pages do not end");
        match next {
            None => return pages,
            Some(next) => query = query.with_cursor(next),
        }
        between(pages.len());
    }
}

/// Seven sessions whose order of creation, of activity and of ids differ; two of them were created at the same time.
fn store_seven(store: &dyn SessionPersistence) {
    for (name, created) in [("d", 30), ("a", 10), ("f", 20), ("b", 50), ("g", 20), ("c", 40), ("e", 60)] {
        store_with(store, &header_created_at(name, created), CreateOptions::default(), &events(0..1));
    }
}

pub fn an_empty_store_lists_nothing_in_one_page(fixture: &dyn Fixture) {
    let store = fixture.store();
    for order in ORDERS {
        for query in [whole(order), whole(order).with_limit(1)] {
            let page = page(&*store, &query);
            assert_eq!((page.items, page.next), (vec![], None));
        }
    }
}

pub fn the_most_recently_written_session_stands_first(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    let order = ["e", "c", "g", "b", "f", "a", "d"];
    assert_eq!(listed_ids(&*store), order);
    assert_eq!(ids_in(&*store, ListOrder::Activity), order);
    reopened(fixture, store, |store| assert_eq!(listed_ids(store), order));
}

pub fn an_append_moves_a_session_to_the_front_however_old_its_events(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    append(&*writer(&*store, "b"), &[at_time(1, -1_000_000)]);
    assert_eq!(listed_ids(&*store), ["b", "e", "c", "g", "f", "a", "d"]);
    append(&*writer(&*store, "d"), &[at_time(1, 0)]);
    assert_eq!(listed_ids(&*store), ["d", "b", "e", "c", "g", "f", "a"]);
    reopened(fixture, store, |store| assert_eq!(listed_ids(store), ["d", "b", "e", "c", "g", "f", "a"]));
}

pub fn a_clock_that_was_wrong_once_pins_no_session_to_the_front(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_session(&*store, "a", &[at_time(0, (1 << 53) - 1)]);
    store_session(&*store, "b", &[at_time(0, 0)]);
    assert_eq!(listed_ids(&*store), ["b", "a"]);
}

pub fn the_order_of_activity_is_that_of_the_told_activities(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    append(&*writer(&*store, "f"), &events(1..2));
    let listed = listed(&*store);
    assert_eq!(listed.len(), 7);
    assert!(listed.is_sorted_by(|a, b| a.activity > b.activity), "{listed:?}");
}

pub fn by_creation_the_newest_stands_first_and_ties_stand_by_id(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    append(&*writer(&*store, "a"), &events(1..2));
    let order = ["e", "b", "c", "d", "f", "g", "a"];
    assert_eq!(ids_in(&*store, ListOrder::Created), order);
    reopened(fixture, store, |store| assert_eq!(ids_in(store, ListOrder::Created), order));
}

pub fn ties_stand_in_the_order_of_ids_as_text_of_any_script(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut names = ["b", "B", "a", "é", "Z", "\u{ff5e}", "😀", "ab", "-", "10", "9"];
    for name in names {
        store_session(&*store, name, &events(0..1));
    }
    names.sort_by_key(|name| id(name));
    assert_eq!(ids_in(&*store, ListOrder::Created), names);
    for size in 1..=names.len() {
        assert_eq!(paged(&*store, whole(ListOrder::Created), size, |_| ()).concat(), names, "pages of {size}");
    }
}

pub fn pages_of_every_size_give_every_session_once_in_order(fixture: &dyn Fixture) {
    let check = |store: &dyn SessionPersistence| {
        for order in ORDERS {
            let all = ids_in(store, order);
            assert_eq!(all.len(), 7);
            for size in 1..=8 {
                let pages = paged(store, whole(order), size, |_| ());
                let expected: Vec<_> = all.chunks(size).map(<[String]>::to_vec).collect();
                assert_eq!(pages, expected, "pages of {size} in order of {order:?}");
            }
            assert_eq!(paged(store, whole(order), usize::MAX, |_| ()), [all]);
        }
    };
    let store = fixture.store();
    store_seven(&*store);
    check(&*store);
    reopened(fixture, store, check);
}

pub fn a_page_gives_the_same_snapshots_as_the_whole_list(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    for order in ORDERS {
        let all = page(&*store, &whole(order)).items;
        let first = page(&*store, &whole(order).with_limit(3));
        assert_eq!(first.items, all[..3]);
        let second = page(&*store, &whole(order).with_limit(4).with_cursor(first.next.expect("four are left")));
        assert_eq!((second.items, second.next), (all[3..].to_vec(), None));
    }
}

pub fn a_cursor_can_be_kept_as_text(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    for order in ORDERS {
        let first = page(&*store, &whole(order).with_limit(2));
        let kept = first.next.expect("five are left").to_string();
        let rest = page(&*store, &whole(order).with_cursor(cursor(&kept)));
        assert_eq!([ids(&first.items), ids(&rest.items)].concat(), ids_in(&*store, order));
    }
}

pub fn a_text_that_is_no_cursor_is_refused(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    let before = listed(&*store);
    for text in ["", "0", "not a cursor", "\u{1f600}", "MWE", "AAAA", "%00", "' OR 1=1 --"] {
        for order in ORDERS {
            assert_refused(&*store, &whole(order).with_cursor(cursor(text)));
        }
    }
    assert_eq!(listed(&*store), before);
}

pub fn a_cursor_of_another_order_is_refused(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    for (order, other) in [(ListOrder::Activity, ListOrder::Created), (ListOrder::Created, ListOrder::Activity)] {
        let next = page(&*store, &whole(order).with_limit(2)).next.expect("five are left");
        assert_refused(&*store, &whole(other).with_cursor(next.clone()));
        assert_eq!(page(&*store, &whole(order).with_cursor(next)).items.len(), 5);
    }
}

pub fn a_cursor_of_another_store_is_refused(fixture: &dyn Fixture) {
    let (store, elsewhere) = (fixture.store(), fixture.elsewhere());
    store_seven(&*store);
    store_seven(&*elsewhere);
    for order in ORDERS {
        let next = page(&*elsewhere, &whole(order).with_limit(2)).next.expect("five are left");
        assert_refused(&*store, &whole(order).with_cursor(next.clone()));
        assert_eq!(page(&*elsewhere, &whole(order).with_cursor(next)).items.len(), 5);
    }
}

pub fn a_cursor_can_be_used_when_its_store_was_reopened(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    let order = ListOrder::Created;
    let first = page(&*store, &whole(order).with_limit(2));
    let next = first.next.expect("five are left");
    assert_eq!(page(&*store, &whole(order).with_cursor(next.clone())).items.len(), 5);
    reopened(fixture, store, |store| {
        let rest = page(store, &whole(order).with_cursor(next));
        assert_eq!(ids(&rest.items), ["c", "d", "f", "g", "a"]);
    });
}

pub fn a_limit_of_zero_is_refused(fixture: &dyn Fixture) {
    let store = fixture.store();
    for order in ORDERS {
        assert_refused(&*store, &whole(order).with_limit(0));
    }
    store_seven(&*store);
    for order in ORDERS {
        assert_refused(&*store, &whole(order).with_limit(0));
    }
}

pub fn a_pending_session_stands_in_every_list_once(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    let pending = [("p", 25), ("q", 20), ("r", 99)];
    let writers = pending
        .map(|(name, created)| create_with(&*store, &header_created_at(name, created), CreateOptions::default()));
    let by_creation = ["r", "e", "b", "c", "d", "p", "f", "g", "q", "a"];
    let check = || {
        assert_eq!(ids_in(&*store, ListOrder::Created), by_creation);
        for order in ORDERS {
            let all = ids_in(&*store, order);
            assert_eq!(all.len(), 10);
            for size in 1..=11 {
                assert_eq!(paged(&*store, whole(order), size, |_| ()).concat(), all, "pages of {size}");
            }
        }
    };
    check();
    assert_eq!(listed(&*store).iter().filter(|s| s.state == SessionState::Pending).count(), 3);
    append(&*writers[0], &events(0..1));
    check();
    assert_eq!(listed(&*store).iter().filter(|s| s.state == SessionState::Pending).count(), 2);
    close(&*writers[1]);
    assert_eq!(ids_in(&*store, ListOrder::Created), ["r", "e", "b", "c", "d", "p", "f", "g", "a"]);
}

pub fn a_session_is_listed_once_when_it_is_stored_between_two_pages(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    let writer = create_with(&*store, &header_created_at("p", 25), CreateOptions::default());
    let pages = paged(&*store, whole(ListOrder::Created), 2, |page| {
        if page == 1 {
            append(&*writer, &events(0..1));
        }
    });
    assert_eq!(pages.concat(), ["e", "b", "c", "d", "p", "f", "g", "a"]);
}

pub fn a_list_goes_on_behind_a_session_that_was_removed_meanwhile(fixture: &dyn Fixture) {
    for (order, store) in ORDERS.into_iter().zip([fixture.store(), fixture.elsewhere()]) {
        store_seven(&*store);
        let all = ids_in(&*store, order);
        let pages = paged(&*store, whole(order), 2, |page| {
            if page == 1 {
                assert!(done(store.remove(&id(&all[1])), "removing the session that the cursor names"));
                assert!(done(store.remove(&id(&all[2])), "removing the session behind it"));
            }
        });
        assert_eq!(pages.concat(), [&all[..2], &all[3..]].concat(), "in order of {order:?}");
    }
}

pub fn a_list_by_creation_is_whole_whatever_is_written_meanwhile(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    let writers = ["a", "e", "g"].map(|name| writer(&*store, name));
    let mut next = 1;
    let pages = paged(&*store, whole(ListOrder::Created), 1, |_| {
        for writer in &writers {
            append(&**writer, &events(next..next + 1));
        }
        next += 1;
    });
    assert_eq!(pages.concat(), ["e", "b", "c", "d", "f", "g", "a"]);
}

pub fn a_session_that_is_created_meanwhile_disturbs_no_list(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    for order in ORDERS {
        let all = ids_in(&*store, order);
        let pages = paged(&*store, whole(order), 3, |page| {
            if page == 1 {
                append(&*create(&*store, &format!("new {order:?}")), &events(0..1));
            }
        });
        let seen: Vec<_> = pages.concat().into_iter().filter(|name| all.contains(name)).collect();
        assert_eq!(seen, all, "in order of {order:?}");
    }
}

pub fn a_list_by_creation_shows_what_stays_once_while_others_write_create_and_remove(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    let writers = ["a", "g"].map(|name| writer(&*store, name));
    let mut next = 1;
    let pages = paged(&*store, whole(ListOrder::Created), 1, |page| {
        for writer in &writers {
            append(&**writer, &events(next..next + 1));
        }
        next += 1;
        match page {
            1 => assert!(done(store.remove(&id("e")), "removing what was shown")),
            2 => assert!(done(store.remove(&id("d")), "removing what is still to come")),
            _ => {}
        }
        store_with(&*store, &header_created_at(&format!("new {page}"), 15), CreateOptions::default(), &events(0..1));
    });
    let stayed: Vec<_> = pages.concat().into_iter().filter(|name| !name.starts_with("new") && name != "d").collect();
    assert_eq!(stayed, ["e", "b", "c", "f", "g", "a"]);
}

pub fn a_list_by_activity_shows_none_twice_and_all_that_are_not_written_meanwhile(fixture: &dyn Fixture) {
    let store = fixture.store();
    store_seven(&*store);
    // One that was shown by then, and one that is still to come.
    let writers = ["e", "a"].map(|name| writer(&*store, name));
    let mut next = 1;
    let pages = paged(&*store, whole(ListOrder::Activity), 1, |page| {
        for writer in &writers {
            append(&**writer, &events(next..next + 1));
        }
        next += 1;
        if page == 3 {
            assert!(done(store.remove(&id("c")), "removing what was shown"));
            append(&*create(&*store, "c"), &events(0..1));
        }
    });
    assert_eq!(pages.concat(), ["e", "c", "g", "b", "f", "d"]);
}

pub fn a_pending_session_is_shown_once_when_it_is_stored_while_the_pages_are_turned(fixture: &dyn Fixture) {
    for order in ORDERS {
        let store = fixture.elsewhere();
        store_seven(&*store);
        let writers =
            ["p", "q"].map(|name| create_with(&*store, &header_created_at(name, 99), CreateOptions::default()));
        let all = ids_in(&*store, order);
        let shown = all.iter().find(|name| ["p", "q"].contains(&&***name)).cloned();
        let pages = paged(&*store, whole(order), 1, |page| {
            if page == 1 {
                let writer = &writers[usize::from(shown.as_deref() == Some("q"))];
                append(&**writer, &events(0..1));
            }
        });
        assert_eq!(pages.concat(), all, "in order of {order:?}");
    }
}
