//! What a search index that is damaged, locked or of a newer build is to the other commands: nothing.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::folder::{Folder, STORES, index_of, objects, talk};

fn said(id: &str, count: u64) -> String {
    let texts: Vec<_> = (0..count).map(|seq| format!("needle {seq} of {id} {}", "hay ".repeat(100))).collect();
    talk(id, &texts)
}

fn filled(store: &str) -> Folder {
    let folder = Folder::new();
    for name in ["a", "b"] {
        folder.write("log.jsonl", said(name, 40));
        folder.run(&["--store", store, "import", "log.jsonl"]).done();
    }
    assert_eq!(hits(&folder, store), 80);
    folder
}

fn hits(folder: &Folder, store: &str) -> usize {
    folder.pages(&["--store", store, "search", "needle", "--json", "--limit", "100"]).len()
}

/// Everything but the index does what it always does.
#[track_caller]
fn goes_on(folder: &Folder, store: &str) {
    let run = |arguments: &[&str]| folder.run(&[&["--store", store], arguments].concat());
    assert_eq!(run(&["list"]).done().lines().count(), 3);
    assert_eq!(objects(&run(&["list", "--json"]).done()).len(), 2);
    assert_eq!(run(&["export", "a"]).done(), said("a", 40));
    assert_eq!(run(&["show", "b", "--json"]).done().lines().count(), 40);
    folder.write("more.jsonl", said("more", 3));
    run(&["import", "more.jsonl"]).done();
    assert_eq!(run(&["export", "more"]).done(), said("more", 3));
    run(&["remove", "more"]).done();
}

/// What `verify` tells, by kind.
fn kinds(folder: &Folder, store: &str) -> Vec<String> {
    let told = objects(&folder.run(&["--store", store, "verify", "--json"]).out);
    let mut kinds: Vec<_> = told.iter().map(|fault| fault["kind"].as_str().unwrap().to_owned()).collect();
    kinds.dedup();
    kinds
}

#[test]
fn an_index_that_is_gone_cut_or_full_of_noise_keeps_nobody_from_the_store_and_is_made_anew_by_the_next_search() {
    for store in STORES {
        let folder = filled(store);
        let path = folder.path(index_of(store));
        let whole = fs::read(&path).unwrap();
        let mut noise = whole.clone();
        fastrand::Rng::with_seed(7).fill(&mut noise[4096..]);
        let damages = [
            (Some(&noise[..]), &["index"][..]),
            (Some(&whole[..whole.len() / 2]), &["index"]),
            (Some(&whole[..5000]), &["index"]),
            (None, &[]),
        ];
        // What is damaged in which way does not go by the kind of the store.
        let number = if store == STORES[0] { damages.len() } else { 1 };
        for (damaged, told) in damages.into_iter().take(number) {
            fs::remove_file(&path).unwrap();
            if let Some(bytes) = damaged {
                fs::write(&path, bytes).unwrap();
            }
            assert_eq!(kinds(&folder, store), told, "{store}");
            goes_on(&folder, store);
            if let Some(bytes) = damaged {
                assert!(fs::read(&path).unwrap() == bytes, "only a search or the statistics make it anew");
            }
            assert_eq!(hits(&folder, store), 80, "{store}");
            assert_eq!(kinds(&folder, store), [""; 0], "{store}");
        }
    }
}

#[test]
fn an_index_of_a_newer_build_or_another_program_stays_and_is_told() {
    let changes: [fn(&Path); 3] = [
        |index| run_sql(index, "PRAGMA user_version = 99"),
        |index| run_sql(index, "PRAGMA application_id = 1"),
        |index| fs::write(index, "Notes of last week. ".repeat(5000)).unwrap(),
    ];
    for store in STORES {
        let number = if store == STORES[0] { changes.len() } else { 1 };
        for change in &changes[..number] {
            let folder = filled(store);
            let index = index_of(store);
            change(&folder.path(index));
            let before = fs::read(folder.path(index)).unwrap();
            for arguments in [&["search", "needle"][..], &["stats"]] {
                let run = folder.run(&[&["--store", store], arguments].concat());
                assert_eq!((run.code, run.out.as_str()), (1, ""));
                assert!(run.err.contains(index) && run.err.contains("name another file"), "{}", run.err);
            }
            goes_on(&folder, store);
            assert_eq!(kinds(&folder, store), ["index"], "{store}");
            assert!(fs::read(folder.path(index)).unwrap() == before);
            let elsewhere = folder.run(&["--store", store, "search", "needle", "--index", "other.index", "--json"]);
            assert_eq!(objects(&elsewhere.done()).len(), 21);
        }
    }
}

fn run_sql(index: &Path, sql: &str) {
    let other = Connection::open(index).unwrap();
    other.execute_batch(sql).unwrap();
    other.close().unwrap();
}

#[test]
fn a_locked_index_keeps_nobody_from_the_store() {
    for store in STORES {
        let folder = filled(store);
        let other = Connection::open(folder.path(index_of(store))).unwrap();
        other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
        goes_on(&folder, store);
        drop(other);
        assert_eq!(hits(&folder, store), 80);
    }
}

#[test]
fn damage_of_the_store_is_none_of_the_index_and_the_other_way_round() {
    let folder = filled("sessions.db");
    let change = |file: &str, sql: &str| {
        let other = Connection::open(folder.path(file)).unwrap();
        other.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
        other.execute_batch(sql).unwrap();
    };
    change("sessions.db.index", "UPDATE document SET text = 'another' WHERE seq = 3 AND session = 1");
    assert_eq!(kinds(&folder, "sessions.db"), ["index"]);
    change("sessions.db", "UPDATE events SET data = '{}' WHERE seq = 3 AND session = 2");
    assert_eq!(kinds(&folder, "sessions.db"), ["damage", "index"]);
    fs::remove_file(folder.path("sessions.db.index")).unwrap();
    assert_eq!(kinds(&folder, "sessions.db"), ["damage"]);
    let told = folder.run(&["verify"]);
    assert!(told.out.starts_with("damage     session \"b\" seq 3"), "{}", told.out);
}
