//! Which file system a database is on: in WAL mode SQLite needs memory that all who use the database share, and on a file
//! system whose files come from elsewhere nobody gives that to them.

use std::path::Path;

use super::failure::Context;
use super::journal::Journal;
use crate::seam::Result;

/// Refuses a place for a database in WAL mode, unless it is to leave that mode; whether it is such a place. The database may
/// be absent yet: then the folder counts in which it would be made.
pub(super) fn remote_wal(path: &Path, wanted: Option<Journal>, context: &Context<'_>) -> Result<bool> {
    // What cannot be asked for says why when it is used.
    let Some(name) = path.ancestors().find_map(|p| remote(p).ok()).flatten() else { return Ok(false) };
    if wanted == Some(Journal::Rollback) {
        return Ok(true);
    }
    Err(context.unsupported(
        format!(
            "it is on a file system of type {name}, where SQLite's WAL mode loses what is stored; keep it on a local disk, \
             or, where one machine alone uses it, in rollback mode (SqliteOptions::journal, sqlite+rollback:PATH in the \
             command)"
        ),
        None,
    ))
}

/// Whether the files below a path come from elsewhere: by which file system.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn remote(path: &Path) -> std::io::Result<Option<&'static str>> {
    #[cfg(test)]
    if let Some(name) = tests::PRETENDED.get() {
        return Ok(Some(name));
    }
    // The low half: some platforms extend the sign of a number that has 32 bits.
    Ok(remote_name(rustix::fs::statfs(path)?.f_type as u64 as u32))
}

/// Elsewhere it is not told.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn remote(_: &Path) -> std::io::Result<Option<&'static str>> {
    Ok(None)
}

/// The name of a file system whose files come from elsewhere, by the number that the kernel gives it. One whose files come
/// from a program of the same machine looks like one whose program gets them from another.
#[cfg(any(target_os = "linux", target_os = "android", test))]
fn remote_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "nfs",
        0xff53_4d42 => "cifs",
        0x0000_517b => "smb",
        0xfe53_4d42 => "smb2",
        0x0102_1997 => "9p",
        0x6573_5546 => "fuse",
        0x5346_414f | 0x6b41_4653 => "afs",
        0x7375_7245 => "coda",
        0x00c3_6400 => "ceph",
        0x0bd0_0bd0 => "lustre",
        0x4750_4653 => "gpfs",
        0x7461_636f => "ocfs2",
        0x0116_1970 => "gfs2",
        0xbacb_acbc => "vmhgfs",
        0x786f_4256 => "vboxsf",
        0x0000_564c => "ncp",
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::super::side_files::beside;
    use super::super::{SqliteOptions, SqliteStore};
    use super::*;
    use crate::log::{SessionHeader, SessionId};
    use crate::seam::{CreateOptions, ErrorKind, ListQuery, SessionPersistence as _};

    thread_local! {
        /// What the tests of this thread take every place to be on.
        pub(in super::super) static PRETENDED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    #[test]
    fn file_systems_whose_files_come_from_elsewhere_are_told_by_their_number() {
        let remote = [
            (0x6969, "nfs"),
            (0xff53_4d42, "cifs"),
            (0x517b, "smb"),
            (0xfe53_4d42, "smb2"),
            (0x0102_1997, "9p"),
            (0x6573_5546, "fuse"),
            (0x5346_414f, "afs"),
            (0x6b41_4653, "afs"),
            (0x7375_7245, "coda"),
            (0x00c3_6400, "ceph"),
            (0x0bd0_0bd0, "lustre"),
            (0x4750_4653, "gpfs"),
            (0x7461_636f, "ocfs2"),
            (0x0116_1970, "gfs2"),
            (0xbacb_acbc, "vmhgfs"),
            (0x786f_4256, "vboxsf"),
            (0x564c, "ncp"),
        ];
        for (magic, name) in remote {
            assert_eq!(remote_name(magic), Some(name), "{magic:#x}");
        }
        // ext4, xfs, btrfs, zfs, tmpfs, overlayfs, f2fs, bcachefs, ramfs, erofs, squashfs, vfat, ntfs3, exfat.
        let local = [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x2fc1_2fc1,
            0x0102_1994,
            0x794c_7630,
            0xf2f5_2010,
            0xca45_1a4e,
            0x8584_58f6,
            0xe0f5_e1e2,
            0x7371_7368,
            0x4d44,
            0x7366_746e,
            0x2011_bab0,
        ];
        for magic in local {
            assert_eq!(remote_name(magic), None, "{magic:#x}");
        }
    }

    #[test]
    fn a_place_on_a_local_disk_is_taken_whether_it_is_there_or_not() {
        let folder = tempfile::tempdir().unwrap();
        if remote(folder.path()).unwrap().is_some() {
            eprintln!("skipped: the folder for temporary files is on a network file system");
            return;
        }
        for path in [folder.path().to_owned(), folder.path().join("absent/too/s.db")] {
            assert!(!remote_wal(&path, None, &Context::store(&path)).unwrap());
        }
    }

    /// A mount whose program is not there is enough: Linux tells its type without asking the program, and lets nobody in.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_mounted_folder_is_refused_with_both_ways_out() {
        let folder = tempfile::tempdir().unwrap();
        let mount = "exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=1,group_id=1 none \"$0\"";
        let mounted = std::process::Command::new("sh").args(["-c", mount]).arg(folder.path()).output();
        if !mounted.as_ref().is_ok_and(|run| run.status.success()) {
            eprintln!("skipped: nothing can be mounted here: {mounted:?}");
            return;
        }
        let path = folder.path().join("absent/s.db");
        let refused = remote_wal(&path, None, &Context::store(&path));
        let leaving = remote_wal(&path, Some(Journal::Rollback), &Context::store(&path));
        assert!(std::process::Command::new("umount").arg(folder.path()).status().unwrap().success());
        assert!(leaving.unwrap());
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnsupportedStore);
        for part in ["type fuse", "rollback", "local disk"] {
            assert!(refused.to_string().contains(part), "{refused}");
        }
    }

    /// Pretends that every place is on a file system whose files come from elsewhere.
    fn elsewhere<T>(work: impl FnOnce() -> T) -> T {
        PRETENDED.set(Some("nfs"));
        let done = work();
        PRETENDED.set(None);
        done
    }

    fn with(journal: Option<Journal>) -> SqliteOptions {
        SqliteOptions { journal, ..SqliteOptions::default() }
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_store_is_made_there_in_rollback_mode_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/s.db");
        for journal in [None, Some(Journal::Wal)] {
            let refused = elsewhere(|| SqliteStore::open_with(&path, with(journal))).map(drop).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::UnsupportedStore);
            assert!(refused.to_string().contains("type nfs"), "{refused}");
            assert!(names(folder.path()).is_empty(), "not even a folder is made");
        }
        elsewhere(|| SqliteStore::open_with(&path, with(Some(Journal::Rollback)))).unwrap();
        elsewhere(|| SqliteStore::open(&path)).unwrap();
        let refused = elsewhere(|| SqliteStore::open_with(&path, with(Some(Journal::Wal)))).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::UnsupportedStore);
        assert_eq!(names(path.parent().unwrap()), ["s.db"]);
    }

    #[test]
    fn a_store_in_wal_mode_is_refused_there_and_can_leave_it() {
        let folder = tempfile::tempdir().unwrap();
        let live = folder.path().join("live.db");
        let store = SqliteStore::open(&live).unwrap();
        let header = SessionHeader::new(SessionId::new("s").unwrap(), 1).unwrap();
        store.create(&header, CreateOptions::default()).unwrap().flush().unwrap();
        // Closed as it should be, and as a killed process leaves it.
        for has_wal in [false, true] {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("s.db");
            for suffix in ["", "-wal"] {
                std::fs::copy(beside(&live, suffix), beside(&path, suffix)).unwrap();
            }
            if !has_wal {
                drop(SqliteStore::open(&path).and_then(|store| store.list(&ListQuery::default())).unwrap());
            }
            let content = || (names(place.path()), std::fs::read(&path).unwrap());
            let before = content();
            assert_eq!(before.0.len(), if has_wal { 2 } else { 1 });
            for journal in [None, Some(Journal::Wal)] {
                let refused = elsewhere(|| SqliteStore::open_with(&path, with(journal))).map(drop).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::UnsupportedStore);
                assert!(content() == before);
            }
            let store = elsewhere(|| SqliteStore::open_with(&path, with(Some(Journal::Rollback)))).unwrap();
            assert_eq!(elsewhere(|| store.list(&ListQuery::default())).unwrap().items.len(), 1);
            assert_eq!(names(place.path()), ["s.db"]);
            drop(store);
            assert_eq!(Journal::of(&rusqlite::Connection::open(&path).unwrap()).unwrap(), Journal::Rollback);
        }
    }
}
