//! A store in which nothing can be written: looked at like any other, and refused to writers.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use session_persistence::export::jsonl;
use session_persistence::{
    CreateOptions, Encoding, ErrorKind, JsonlOptions, JsonlStore, OpenOptions, SessionPersistence,
};

use super::place::{ENCODINGS, Place, events, header, id, ids, list, read, stat, store};

const ROOT: &str = "SESSIONS_TEST_READ_ONLY_ROOT";

/// A user that owns nothing here.
const NOBODY: u32 = 65_534;

fn allow(path: &Path, folders: u32, files: u32) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| allow(&entry.unwrap().path(), folders, files));
    }
    let mode = if path.is_dir() { folders } else { files };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_store_that_cannot_be_written_is_read_like_any_other_and_refuses_writers() {
    if let Some(root) = std::env::var_os(ROOT) {
        return look_and_try(Path::new(&root));
    }
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let open = place.open();
        for name in ["s", "killed", "without-lock"] {
            store(&open, name, &[&events(0..2), &events(2..3)]);
        }
        fs::write(place.session("killed").join("session.lock"), "{\"process\":7,\"since\":5}\n").unwrap();
        fs::remove_file(place.session("without-lock").join("session.lock")).unwrap();
        allow(place.root(), 0o555, 0o444);
        let before = place.files();
        // To root everything is allowed, whatever the modes say.
        if fs::metadata("/proc/self").map_or(0, |me| me.uid()) == 0 {
            let child = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "read_only::a_store_that_cannot_be_written_is_read_like_any_other_and_refuses_writers",
                ])
                .env(ROOT, place.root())
                .uid(NOBODY)
                .current_dir("/")
                .status();
            match child {
                Ok(status) => assert!(status.success()),
                Err(e) => eprintln!("not tested: no test can run as another user here: {e}"),
            }
        } else {
            look_and_try(place.root());
        }
        assert_eq!(place.files(), before);
        allow(place.root(), 0o700, 0o600);
    }
}

fn look_and_try(root: &Path) {
    let store = JsonlStore::open_with(root, JsonlOptions::default().with_encoding(Encoding::Raw)).unwrap();
    let names = ["killed", "s", "without-lock"];
    assert_eq!(ids(&list(&store)), names);
    for name in names {
        let snapshot = stat(&store, name);
        assert_eq!((snapshot.event_count, snapshot.owner), (Some(3), None));
        assert_eq!(read(&store, name), events(0..3));
        let mut text = Vec::new();
        jsonl(&store, &id(name), &mut text).unwrap();
        assert_eq!(text.iter().filter(|b| **b == b'\n').count(), 4);
        for refused in [
            store.open(&id(name), OpenOptions::write()).map(drop).unwrap_err(),
            store.remove(&id(name)).map(drop).unwrap_err(),
        ] {
            assert_eq!((refused.kind(), refused.session()), (ErrorKind::StorageReadOnly, Some(&id(name))), "{refused}");
            assert!(refused.to_string().contains("check its permissions"), "{refused}");
        }
    }
    let new = store.create(&header("new"), CreateOptions::default()).unwrap();
    assert_eq!(new.append(&events(0..1)).unwrap_err().kind(), ErrorKind::StorageReadOnly);
    assert_eq!(new.flush().unwrap_err().kind(), ErrorKind::StorageReadOnly);
    drop(new);
    store.flush().unwrap();
}
