//! What a search index that is damaged, locked or of a newer build is to the other commands: nothing.

use std::fs;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::folder::{Folder, event, header, objects};

const STORES: [(&str, &str); 3] = [
    ("sessions.db", "sessions.db.index"),
    ("jsonl:root", "root/.sessions.index"),
    ("jsonl+raw:root", "root/.sessions.index"),
];

fn said(id: &str, count: u64) -> String {
    let says = |seq| {
        let text = format!("needle {seq} of {id} {}", "hay ".repeat(100));
        let data = format!(
            r#"{{"id":"m{seq}","role":"user","content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"user"}}}}"#
        );
        event("user/message", seq, &data)
    };
    header(id) + &(0..count).map(says).collect::<String>()
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
    let (mut count, mut cursor) = (0, None::<String>);
    loop {
        let mut arguments = vec!["--store", store, "search", "needle", "--json", "--limit", "100"];
        if let Some(cursor) = &cursor {
            arguments.extend(["--cursor", cursor]);
        }
        let found = objects(&folder.run(&arguments).done());
        let next = found.iter().find_map(|line| Some(line.get("cursor")?.as_str()?.to_owned()));
        count += found.len() - usize::from(next.is_some());
        match next {
            Some(next) => cursor = Some(next),
            None => return count,
        }
    }
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
    for (store, index) in STORES {
        let folder = filled(store);
        let path = folder.path(index);
        let whole = fs::read(&path).unwrap();
        let mut noise = whole.clone();
        fastrand::Rng::with_seed(7).fill(&mut noise);
        let mut half = noise.clone();
        half[..4096].copy_from_slice(&whole[..4096]);
        let damages = [
            (None, &[][..]),
            (Some(&whole[..whole.len() / 2]), &["index"][..]),
            (Some(&whole[..5000]), &["index"]),
            (Some(&half[..]), &["index"]),
            (Some(&noise[..]), &["index"]),
        ];
        for (damaged, told) in damages {
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
    for (store, index) in STORES {
        for change in ["PRAGMA user_version = 99", "PRAGMA application_id = 1"] {
            let folder = filled(store);
            let other = Connection::open(folder.path(index)).unwrap();
            other.execute_batch(change).unwrap();
            other.close().unwrap();
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

#[test]
fn a_locked_index_keeps_nobody_from_the_store() {
    for (store, index) in STORES {
        let folder = filled(store);
        let other = Connection::open(folder.path(index)).unwrap();
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
