//! Who may read what is stored: nobody but its owner, whatever the mask of the process that makes it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::end::End;
use super::peer::Peer;
use super::place::{Kind, Place};

/// The modes of everything that stood below a folder at any time while `work` ran, with what it was: drafts come and go.
fn modes_while(place: &Place, work: impl FnOnce()) -> BTreeMap<PathBuf, u32> {
    let end = End::default();
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut modes = BTreeMap::new();
            loop {
                let is_last = end.is_told();
                for path in place.entries() {
                    if let Ok(found) = std::fs::symlink_metadata(&path) {
                        modes.entry(path).or_insert(found.permissions().mode());
                    }
                }
                if is_last {
                    return modes;
                }
            }
        });
        let told = end.told_by_drop();
        work();
        drop(told);
        watcher.join().unwrap()
    })
}

fn assert_private(modes: &BTreeMap<PathBuf, u32>, what: &str) {
    const FOLDER: u32 = 0o040_000;
    const FILE: u32 = 0o100_000;
    for (path, mode) in modes {
        let wanted = if mode & FOLDER == FOLDER { FOLDER | 0o700 } else { FILE | 0o600 };
        assert_eq!(*mode, wanted, "{what}: {} has mode {mode:o}", path.display());
    }
}

/// The names that were seen, without what is random in them.
fn seen(modes: &BTreeMap<PathBuf, u32>, end: &str) -> usize {
    modes.keys().filter(|path| path.to_str().unwrap().ends_with(end)).count()
}

/// What a store of a kind makes, by the ends of its names.
fn ends(kind: Kind) -> Vec<&'static str> {
    match kind {
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => vec![".db", "-wal", "-shm", "-locks", ".lock", ".new"],
        #[cfg(feature = "jsonl")]
        Kind::Raw => vec![".jsonl", "--w--", ".lock", ".tmp"],
        #[cfg(feature = "jsonl")]
        _ => vec![".zstd", "--w--", ".lock", ".tmp"],
    }
}

#[test]
fn all_that_is_made_is_private_whatever_the_mask() {
    for kind in Kind::ALL {
        for mask in ["000", "022"] {
            let what = format!("{kind:?}, umask {mask}");
            let mut modes = BTreeMap::new();
            let mut unseen = ends(*kind);
            // A draft is there for so short a time that not every look finds one.
            for _ in 0..20 {
                let place = Place::new(*kind);
                modes.extend(modes_while(&place, || {
                    let mut writer = Peer::at(&place);
                    writer.tell(&format!("umask {mask}")).done();
                    for number in 0..20 {
                        writer.tell(&format!("create s{number}")).done();
                        writer.tell(&format!("append s{number} 0 3")).done();
                        writer.tell(&format!("flush s{number}")).done();
                    }
                    writer.tell("close s0").done();
                    writer.tell("look s0 3").done();
                    // All that stands there while sessions are being written has been made: one more look at it.
                    let entries = place.entries();
                    assert!(
                        entries.iter().any(|path| path.to_str().unwrap().ends_with(".lock")),
                        "{what}: {entries:?}"
                    );
                    writer.end();
                }));
                assert_private(&modes, &what);
                unseen.retain(|end| seen(&modes, end) == 0);
                if unseen.is_empty() {
                    break;
                }
            }
            assert!(unseen.is_empty(), "{what}: {unseen:?} was never seen: {modes:?}");
        }
    }
}

#[test]
fn what_stood_there_before_keeps_its_mode() {
    for kind in Kind::ALL {
        let place = Place::new(*kind);
        let mut writer = Peer::at(&place);
        writer.tell("create s").done();
        writer.tell("append s 0 3").done();
        writer.end();
        let file = place.expected(&["s".to_owned()]).into_iter().find(|p| !p.ends_with("session.lock")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let mut writer = Peer::at(&place);
        writer.tell("umask 000").done();
        writer.tell("open s").done();
        writer.tell("append s 3 5").done();
        writer.tell("flush s").done();
        for path in place.entries() {
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            eprintln!("{kind:?}: {mode:o} {}", path.display());
        }
        writer.end();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644, "{kind:?}");
    }
}

#[cfg(feature = "cli")]
#[test]
fn what_is_exported_to_a_file_is_private_whatever_the_mask() {
    for kind in Kind::ALL {
        for mask in ["000", "022"] {
            let what = format!("{kind:?}, umask {mask}");
            let place = Place::new(*kind);
            let mut writer = Peer::at(&place);
            writer.tell("create s").done();
            writer.tell("append s 0 3").done();
            writer.end();
            let out = Place::new(*kind);
            let export = |rest: &str| {
                let script = format!("umask {mask}; exec \"$0\" --store \"$1\" export s {rest}");
                let status = std::process::Command::new("sh")
                    .args(["-c", &script, env!("CARGO_BIN_EXE_sessions")])
                    .arg(place.path())
                    .current_dir(out.folder())
                    .stderr(std::process::Stdio::null())
                    .status()
                    .unwrap();
                assert!(status.success(), "{what}: {rest}");
            };
            let modes = modes_while(&out, || {
                for rest in ["-o s.jsonl", "-o logs/", "--format zip -o s.zip", "--format zip --descendants -o zips/"] {
                    (0..5).for_each(|_| export(rest));
                }
            });
            assert_private(&modes, &what);
            for path in ["s.jsonl", "logs/s.jsonl", "s.zip", "zips/s.zip"] {
                assert!(modes.contains_key(&out.folder().join(path)), "{what}: {path}");
            }
        }
    }
}
