use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::schema;
use super::*;
use crate::log::{Origin, SessionHeader, SessionId};
use crate::seam::{ListQuery, Position, Revision, Snapshot};

const ORDERS: [ListOrder; 2] = [ListOrder::Activity, ListOrder::Created];

fn context() -> Context<'static> {
    Context::store(std::path::Path::new(":memory:"))
}

fn store() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::create(&mut connection, &context()).unwrap();
    connection
}

/// Sessions of four kinds in equal parts, as far as indexes tell; the rows match no checksum.
fn fill(connection: &Connection, count: u64) {
    connection.execute_batch("DROP TRIGGER sessions_insert; BEGIN").unwrap();
    for n in 0..count {
        let header = SessionHeader::new(id(&format!("s{n:06}")), n / 3).unwrap().with_cwd(format!("/w{}", n % 4));
        let header = match n % 4 {
            0 => header.with_parent_session("p").with_origin(Origin::Subagent).with_version(2),
            _ => header,
        };
        connection
            .execute(
                "INSERT INTO sessions (id, incarnation, created_at, header, header_checksum, inherited_count, \
                 event_count, size_bytes, revision, chain, activity, types_checksum, checksum) \
                 VALUES (?1, 1, ?2, ?3, 0, 0, 0, 0, 0, 0, ?4, 0, 0)",
                (header.id().as_str(), header.created_at(), header.to_line(), n + 1),
            )
            .unwrap();
    }
    connection.execute_batch("COMMIT").unwrap();
}

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn new() -> ListFilter {
    ListFilter::new()
}

/// A place in the middle of a list.
fn place(order: ListOrder) -> Position {
    let told = |name: &str, n| {
        let header = SessionHeader::new(id(name), n).unwrap();
        Snapshot { activity: n, ..Snapshot::new(header, Revision::new("r"), &Vocabulary::default()) }
    };
    let query = ListQuery::default().with_order(order).with_limit(1);
    let next = query.page_of("here", [told("m", 500), told("n", 400)]).unwrap().next.unwrap();
    query.with_cursor(next).position("here").unwrap().unwrap()
}

/// How SQLite runs the statements of a list from a place on, a line a step.
fn plans(connection: &Connection, filter: &ListFilter, order: ListOrder) -> Vec<String> {
    let vocabulary = Vocabulary::default();
    let owned = HashSet::from([1]);
    let after = Some(place(order));
    let wanted = Wanted { filter, order, after, limit: Some(50), vocabulary: &vocabulary, claimed: HashMap::new() };
    let parts = parts(connection, &wanted, (filter.is_owned() == Some(true)).then_some(&owned)).unwrap();
    let statements = parts.iter().flat_map(|part| part.statements(&wanted));
    let explained = statements.map(|(sql, arguments)| {
        assert!(!sql.contains(" events") && !sql.contains("session_types"), "{sql}");
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = statement.query_map(params_from_iter(&arguments), |row| row.get::<_, String>("detail")).unwrap();
        let steps = steps.map(|step| step.unwrap()).filter(|step| {
            !step.starts_with("SCAN store") && !step.contains("SUBQUERY") && !step.contains("json_each")
        });
        steps.collect::<Vec<_>>().join("; ")
    });
    explained.collect()
}

/// How sessions are found: by which index, and whether they have to be sorted.
type Found = (&'static str, bool);

/// Each filter with how its sessions are found in either order.
fn filters() -> Vec<(&'static str, ListFilter, [Found; 2])> {
    let by_activity = ("sqlite_autoindex_sessions_2 (activity<?)", false);
    let by_creation = ("sessions_by_creation (created_at", false);
    vec![
        ("none", new(), [by_activity, by_creation]),
        ("ids", new().with_ids([id("s000001")]), [("sqlite_autoindex_sessions_1 (id=?)", true); 2]),
        ("owned", new().owned(true), [("INTEGER PRIMARY KEY (rowid=?)", true); 2]),
        ("not owned", new().owned(false), [by_activity, by_creation]),
        (
            "cwd",
            new().in_cwds([Some("/w1")]),
            [
                ("sessions_by_cwd (cwd=? AND activity<?)", false),
                ("sessions_by_cwd_and_creation (cwd=? AND created_at", false),
            ],
        ),
        (
            "no cwd",
            new().in_cwds([None::<String>]),
            [
                ("sessions_by_cwd (cwd=? AND activity<?)", false),
                ("sessions_by_cwd_and_creation (cwd=? AND created_at", false),
            ],
        ),
        (
            "cwds",
            new().in_cwds([Some("/w1"), Some("/w2")]),
            [
                ("sessions_by_cwd (cwd=? AND activity<?)", false),
                ("sessions_by_cwd_and_creation (cwd=? AND created_at", false),
            ],
        ),
        (
            "parent",
            new().with_parents([Some("p")]),
            [
                ("sessions_by_parent (parent_session=?)", true),
                ("sessions_by_parent (parent_session=? AND created_at", false),
            ],
        ),
        ("no parent", new().with_parents([None::<String>]), [by_activity, by_creation]),
        (
            "origin",
            new().with_origins([Some(Origin::Subagent)]),
            [("sessions_by_origin (origin=?)", true), ("sessions_by_origin (origin=? AND created_at", false)],
        ),
        (
            "version",
            new().with_versions([2]),
            [("sessions_by_version (version=?)", true), ("sessions_by_version (version=? AND created_at", false)],
        ),
        ("older", new().in_states([StateKind::OlderFormat]), [("sessions_by_version (version<?)", true); 2]),
        ("newer", new().in_states([StateKind::NewerFormat]), [("sessions_by_version (version>?)", true); 2]),
        ("damaged", new().in_states([StateKind::Damaged]), [by_activity, by_creation]),
        ("active", new().active_in([0..=9]).unwrap(), [by_activity, by_creation]),
        (
            "created",
            new().created_in([10..=20]).unwrap(),
            [("sessions_by_creation (created_at>? AND created_at<?)", true), by_creation],
        ),
    ]
}

#[test]
fn every_filter_is_looked_for_in_an_index_in_either_order() {
    let connection = store();
    fill(&connection, 1000);
    for analyzed in [false, true] {
        if analyzed {
            connection.execute_batch("ANALYZE").unwrap();
        }
        for (name, filter, expected) in filters() {
            for (order, (index, is_sorted)) in ORDERS.into_iter().zip(expected) {
                if analyzed && is_sorted {
                    // What is few for us may be so many for SQLite that it reads the table.
                    continue;
                }
                let plans = plans(&connection, &filter, order);
                let what = format!("{name}, {order:?}, analyzed: {analyzed}: {plans:#?}");
                assert!(plans.iter().any(|plan| plan.contains(index)), "{index}: {what}");
                for plan in &plans {
                    // The few that have to be looked at one by one stand in an index of their own.
                    let is_odd = plan.starts_with("SCAN sessions USING INDEX sessions_told_otherwise");
                    assert!(plan.starts_with("SEARCH sessions USING") || is_odd, "{what}");
                    let sorts = plan.contains("TEMP B-TREE");
                    assert!(!sorts || is_sorted || is_odd, "{what}");
                    assert!(!plan.contains("AUTOMATIC"), "{what}");
                }
            }
        }
    }
}

#[test]
fn what_most_sessions_have_is_looked_for_in_the_order_of_the_list() {
    let connection = store();
    fill(&connection, 4 * (FEW as u64 + 1));
    for filter in [
        new().with_parents([Some("p")]),
        new().with_origins([Some(Origin::Subagent)]),
        new().with_versions([3]),
        new().in_states([StateKind::Readable]),
        new().created_in([0..=10_000]).unwrap(),
    ] {
        let plans = plans(&connection, &filter, ListOrder::Activity);
        assert_eq!(plans.len(), 1, "{filter:?}: {plans:#?}");
        assert!(plans[0].contains("sqlite_autoindex_sessions_2 (activity<?)"), "{filter:?}: {plans:#?}");
        assert!(!plans[0].contains("TEMP B-TREE"), "{filter:?}: {plans:#?}");
    }
}

/// The place of the session in the middle of a list, or of the one so far from its end.
fn place_of(connection: &Connection, order: ListOrder, from_end: Option<u64>) -> Position {
    let column = match order {
        ListOrder::Activity => "activity",
        ListOrder::Created => "created_at",
    };
    let count: u64 = connection.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
    let sql = format!("SELECT id, {column} FROM sessions ORDER BY {column} DESC, id LIMIT 1 OFFSET ?1");
    let offset = from_end.map_or(count / 2, |from_end| count - from_end);
    let told = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, u64>(1)?));
    let (name, key) = connection.query_row(&sql, [offset], told).unwrap();
    let behind = |name: &str, key| {
        let header = SessionHeader::new(id(name), key).unwrap();
        Snapshot { activity: key, ..Snapshot::new(header, Revision::new("r"), &Vocabulary::default()) }
    };
    let query = ListQuery::default().with_order(order).with_limit(1);
    let next = query.page_of("here", [behind(&name, key), behind("~", 0)]).unwrap().next.unwrap();
    query.with_cursor(next).position("here").unwrap().unwrap()
}

/// How many sessions a page gives, and how many steps SQLite takes for it.
fn steps(connection: &mut Connection, filter: &ListFilter, order: ListOrder, after: Option<Position>) -> (usize, u64) {
    let vocabulary = Vocabulary::default();
    let wanted = Wanted { filter, order, after, limit: Some(50), vocabulary: &vocabulary, claimed: HashMap::new() };
    let taken = Arc::new(AtomicU64::new(0));
    let count = taken.clone();
    let handler = move || {
        count.fetch_add(1, Ordering::Relaxed);
        false
    };
    let mut listed = 0;
    // At first it is also prepared.
    for _ in 0..2 {
        taken.store(0, Ordering::Relaxed);
        connection.progress_handler(1, Some(handler.clone())).unwrap();
        listed = list(&*connection, &wanted, None, &context(), |_| Ok(true)).unwrap().len();
    }
    connection.progress_handler(0, None::<fn() -> bool>).unwrap();
    (listed, taken.load(Ordering::Relaxed))
}

#[test]
fn a_page_takes_as_many_steps_of_ten_thousand_sessions_as_of_one_thousand() {
    let mut stores = [1_000, 10_000].map(|count| {
        let connection = store();
        fill(&connection, count);
        connection
    });
    for (name, filter) in
        [("all", new()), ("cwd", new().in_cwds([Some("/w1")])), ("cwds", new().in_cwds([Some("/w1"), None]))]
    {
        for order in ORDERS {
            let mut told = Vec::new();
            for place in [None, Some(None), Some(Some(40)), Some(Some(200))] {
                let taken = stores.each_mut().map(|connection| {
                    let after = place.map(|from_end| place_of(&*connection, order, from_end));
                    steps(connection, &filter, order, after)
                });
                assert!(taken[0].0 > 0 && taken[0].1 > 0);
                assert_eq!(taken[0], taken[1], "{name} in order of {order:?} at {place:?}");
                told.push(taken[0]);
            }
            println!("{name}, {order:?}: {told:?}");
        }
    }
}
