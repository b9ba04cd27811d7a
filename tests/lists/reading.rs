//! How much a process reads that has just started and lists.

use std::path::Path;
use std::process::Command;

use session_persistence::{Cursor, ListFilter, ListOrder, ListQuery};

use super::place::{Kind, fill};

const CHILD: &str = "SESSIONS_LISTS_CHILD";

/// A first list may read so many bytes, whatever the logs hold.
const MOST: u64 = 2_000_000;

/// The bytes that this process has read so far, from files and pipes; nothing where the system does not tell.
fn read_so_far() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/self/io").ok()?;
    told.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}

fn query(what: &str) -> ListQuery {
    let query = ListQuery::default();
    match what {
        "all" => query,
        "all by creation" => query.with_order(ListOrder::Created),
        "page" => query.with_limit(50),
        "page by creation" => query.with_limit(50).with_order(ListOrder::Created),
        "page of a cwd" => {
            query.with_limit(50).with_filter(ListFilter::new().in_cwds([Some("/home/somebody/projects/number-3")]))
        }
        other => {
            let (order, cursor) = other.split_once(' ').unwrap();
            let order = if order == "created" { ListOrder::Created } else { ListOrder::Activity };
            query.with_limit(50).with_order(order).with_cursor(cursor.parse::<Cursor>().unwrap())
        }
    }
}

/// What a new process reads to list, in bytes, and how many sessions it gets.
fn read_by_a_child(kind: Kind, folder: &Path, what: &str) -> Option<(u64, usize)> {
    let asked = Command::new(std::env::current_exe().unwrap())
        .args(["reading::the_child_of_a_test_lists", "--exact", "--nocapture"])
        .env(CHILD, format!("{kind:?}\n{what}\n{}", folder.display()))
        .output()
        .unwrap();
    let told = String::from_utf8(asked.stdout).unwrap();
    assert!(asked.status.success(), "{told}\n{}", String::from_utf8_lossy(&asked.stderr));
    let answer = told.lines().find_map(|line| line.strip_prefix("listed ").or_else(|| line.split("listed ").nth(1)))?;
    let (bytes, count) = answer.split_once(' ')?;
    Some((bytes.parse().ok()?, count.parse().ok()?))
}

#[test]
fn the_child_of_a_test_lists() {
    let Ok(asked) = std::env::var(CHILD) else { return };
    let [kind, what, folder] = asked.splitn(3, '\n').collect::<Vec<_>>()[..] else { panic!("{asked}") };
    let Some(before) = read_so_far() else { return };
    let store = Kind::named(kind).open(Path::new(folder));
    let page = store.list(&query(what)).unwrap();
    assert!(page.items.iter().all(|told| told.header.is_some()));
    let read = read_so_far().unwrap() - before;
    println!("listed {read} {}", page.items.len());
}

fn assert_reads_little(kind: Kind) {
    let full = std::env::var_os("SESSIONS_FULL").is_some();
    let bytes = if full { 250_000 } else { 25_000 };
    let folder = tempfile::tempdir().unwrap();
    fill(&*kind.open(folder.path()), 1000, bytes);
    for (what, count) in
        [("page", 50), ("page by creation", 50), ("page of a cwd", 50), ("all", 1000), ("all by creation", 1000)]
    {
        let Some(told) = read_by_a_child(kind, folder.path(), what) else {
            eprintln!("this system does not tell what a process reads");
            return;
        };
        println!("{kind:?}, {what}: {} bytes are read for {} sessions of {bytes} bytes", told.0, told.1);
        assert_eq!(told.1, count);
        assert!(told.0 < MOST, "{kind:?}, {what}: {} bytes", told.0);
    }
}

#[test]
fn the_first_list_of_a_database_reads_metadata_only() {
    assert_reads_little(Kind::Sqlite);
}

#[test]
fn the_first_list_of_text_files_reads_metadata_only() {
    assert_reads_little(Kind::Raw);
}

#[test]
fn the_first_list_of_compressed_files_reads_metadata_only() {
    assert_reads_little(Kind::Zstd);
}

/// What a new process reads for pages of a database of so many sessions: the first, one in the middle and the last.
fn pages_read(sessions: usize) -> Option<Vec<u64>> {
    let folder = tempfile::tempdir().unwrap();
    let store = Kind::Sqlite.open(folder.path());
    fill(&*store, sessions, 200);
    let mut asked = vec!["page".to_owned(), "page by creation".to_owned(), "page of a cwd".to_owned()];
    for (name, order) in [("activity", ListOrder::Activity), ("created", ListOrder::Created)] {
        for before in [sessions / 2, sessions - 50] {
            let query = ListQuery::default().with_order(order).with_limit(before);
            asked.push(format!("{name} {}", store.list(&query).unwrap().next.unwrap()));
        }
    }
    // Closed, so that nothing has to be read from what lies beside the database.
    drop(store);
    let told = asked.iter().map(|what| read_by_a_child(Kind::Sqlite, folder.path(), what));
    told.map(|told| told.map(|(bytes, count)| if count == 50 { bytes } else { panic!("{count} sessions") })).collect()
}

#[test]
fn a_page_of_ten_thousand_sessions_reads_what_one_of_a_thousand_does_wherever_it_lies() {
    let (Some(few), Some(many)) = (pages_read(1_000), pages_read(10_000)) else {
        eprintln!("this system does not tell what a process reads");
        return;
    };
    println!("of 1,000 sessions {few:?} bytes, of 10,000 {many:?}");
    // Sessions that were made one after another do not lie side by side: each may stand on a page of its own. Trees of ten
    // times as many rows are one level deeper at most.
    let (page, deeper) = (8192, 4);
    assert!(many[0] <= few[0] + deeper * page, "{few:?} and {many:?} bytes");
    assert!(many.iter().all(|many| *many <= few[0] + (50 + deeper) * page), "{few:?} and {many:?} bytes");
}
