//! Many who open a store that is not there yet, and some that are killed meanwhile.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use session_persistence::SqliteStore;

use super::place::{counts, names, open, put};

/// What a child process is asked to do, and where.
const CHILD: &str = "SESSIONS_OPENING_CHILD";

/// Makes stores in a folder, one after another, until it is killed.
#[test]
#[ignore = "run by other tests as a process of its own"]
fn child_that_makes_stores() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    for number in 0.. {
        drop(SqliteStore::open(Path::new(&folder).join(format!("{number}.db"))).unwrap());
    }
}

#[test]
fn what_a_killed_process_leaves_of_a_new_store_is_removed_by_the_next_one() {
    let rounds = if std::env::var_os("SESSIONS_FULL").is_some() { 100 } else { 12 };
    let mut left = 0;
    for round in 0..rounds {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "first_open::child_that_makes_stores"])
            .env(CHILD, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while names(folder.path()).is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(round * 977 % 9000));
        child.kill().unwrap();
        child.wait().unwrap();
        let made = names(folder.path());
        left += usize::from(made.iter().any(|name| name.starts_with(".sessions-")));
        let stores: Vec<_> = made.into_iter().filter(|name| name.ends_with(".db")).collect();
        put(&SqliteStore::open(folder.path().join("last.db")).unwrap(), "s", 1, 10);
        let mut expected = stores.clone();
        expected.push("last.db".to_owned());
        expected.sort();
        // A whole store that its killed process had open keeps what SQLite put beside it, for the next one that opens it.
        let beside_whole = |name: &String| {
            let store = name.strip_suffix("-wal").or_else(|| name.strip_suffix("-shm"));
            store.is_some_and(|store| stores.iter().any(|whole| whole == store))
        };
        let found: Vec<_> = names(folder.path()).into_iter().filter(|name| !beside_whole(name)).collect();
        assert_eq!(found, expected, "round {round}");
        for store in &stores {
            assert!(counts(&open(&folder.path().join(store))).unwrap().is_empty(), "{store} is whole");
        }
    }
    eprintln!("{left} of {rounds} killed processes left half a store");
}

#[test]
fn twenty_threads_that_open_a_fresh_path_at_once_all_store_their_session() {
    for round in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/down/s.db");
        let start = std::sync::Barrier::new(20);
        std::thread::scope(|scope| {
            for thread in 0..20 {
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    start.wait();
                    put(&SqliteStore::open(path).unwrap(), &format!("s{thread}"), 5, 100);
                });
            }
        });
        let stored = counts(&open(&path)).unwrap();
        assert!(stored.len() == 20 && stored.values().all(|count| *count == 5), "round {round}: {stored:?}");
        assert_eq!(names(path.parent().unwrap()), ["s.db"], "round {round}");
    }
}
