//! Who may read what a store makes, even what only a crash leaves.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::watch::{Call, Watch, WatchedDisk};
use super::{ENCODINGS, Place, create, events, id, log_of};
use crate::backend::jsonl::{JsonlOptions, JsonlStore};
use crate::seam::{Fault, ListQuery, SessionPersistence, SessionState};
use crate::upkeep::{Progress, verify};

/// Where the process of its own works: the umask is one for all threads.
const ROOT: &str = "SESSIONS_TEST_DRAFTS_ROOT";

fn all_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { [vec![path.clone()], all_in(&path)].concat() } else { vec![path] })
        .collect()
}

#[test]
fn all_that_a_store_makes_is_private_whatever_the_umask() {
    if let Some(root) = std::env::var_os(ROOT) {
        let watch = Arc::<Watch>::default();
        let disk = Arc::new(WatchedDisk(watch.clone()));
        let store = JsonlStore::over(disk, root.into(), JsonlOptions::default()).unwrap();
        create(&store, "s").append(&events(0..2)).unwrap();
        // A draft that nothing removes, as a crash leaves it.
        watch.fail(Call::Unlink, 0, 1, std::io::ErrorKind::Other);
        create(&store, "t").append(&events(0..2)).unwrap();
        return;
    }
    for umask in ["000", "022"] {
        let folder = tempfile::tempdir().unwrap();
        let status = Command::new("sh")
            .arg("-c")
            .arg(format!(
                "umask {umask}; exec \"$0\" --exact \
                 backend::jsonl::tests::permissions::all_that_a_store_makes_is_private_whatever_the_umask"
            ))
            .arg(std::env::current_exe().unwrap())
            .env(ROOT, folder.path())
            .status()
            .unwrap();
        assert!(status.success());
        let made = all_in(folder.path());
        assert_eq!(made.len(), 8, "a project, two sessions with a log and a lock each, and a draft: {made:?}");
        assert!(made.iter().any(|path| path.extension().is_some_and(|suffix| suffix == "tmp")));
        for path in made {
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "umask {umask}: {}", path.display());
        }
    }
}

#[test]
fn a_log_that_may_not_be_read_is_told_with_its_permissions_and_not_as_one_to_restore() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        create(&place.open(0), "s").append(&events(0..2)).unwrap();
        place.watch.fail(Call::Open, 0, usize::MAX, std::io::ErrorKind::PermissionDenied);
        let path = log_of(&place).display().to_string();
        let store = place.open(0);
        let listed = store.list(&ListQuery::default()).unwrap().items;
        let SessionState::Damaged { reason } = &listed[0].state else { panic!("{listed:?}") };
        assert!(reason.contains(&path) && reason.contains("permissions"), "{reason}");
        for sessions in [None, Some(&[id("s")][..])] {
            let mut faults = Vec::new();
            let report = verify(&store, sessions, &mut |progress| {
                if let Progress::Fault(fault) = progress {
                    faults.push(fault.clone());
                }
            });
            assert!(!report.unwrap().is_sound());
            assert_eq!(faults.len(), 1, "{faults:?}");
            let Fault { reason, advice, .. } = &faults[0];
            assert!(reason.contains(&path) && advice.contains("permissions"), "{faults:?}");
            assert!(!advice.contains("restore"), "{advice}");
        }
    }
}
