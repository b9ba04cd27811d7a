//! Who writes a session: told to everybody, and checked by every append.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use super::machine::{Fault, Machine, Which};
use super::power_loss::{self, root};
use super::watch::Call;
use super::{ENCODINGS, Place, create, events, id, log_of, read};
use crate::backend::jsonl::lock::LOCK;
use crate::backend::jsonl::{Encoding, JsonlStore};
use crate::backend::runtime::write_record;
use crate::seam::{
    Durability, Error, ErrorKind, Holder, ListOrder, ListQuery, OpenOptions, SeqRange, SessionHandle,
    SessionPersistence,
};

fn lock_of(place: &Place) -> PathBuf {
    log_of(place).with_file_name(LOCK)
}

fn writer(store: &JsonlStore) -> Box<dyn SessionHandle> {
    store.open(&id("s"), OpenOptions::write()).unwrap()
}

fn owner(store: &JsonlStore) -> Option<Holder> {
    let told = store.stat(&id("s")).unwrap().unwrap();
    let listed = store.list(&ListQuery::default()).unwrap().items;
    assert_eq!(listed.iter().find(|snapshot| snapshot.id == id("s")), Some(&told));
    told.owner
}

fn kind(result: Result<(), Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn a_fenced_writer_stores_nothing_and_cuts_nothing() {
    for encoding in ENCODINGS {
        for has_leftovers in [false, true] {
            let place = Place::new(encoding);
            let (first, second, third) = (place.open(64 << 20), place.open(0), place.open(0));
            let fenced = create(&first, "s");
            fenced.append(&events(0..3)).unwrap();
            if has_leftovers {
                place.watch.partial.store(20, Ordering::Relaxed);
                place.watch.fail(Call::Write, 0, 1, std::io::ErrorKind::StorageFull);
                place.watch.fail(Call::SetLen, 0, 1, std::io::ErrorKind::Other);
                fenced.append(&events(3..9)).unwrap_err();
                assert!(place.watch.heal());
            }
            // A program that goes by the lock file alone takes the session over by force.
            let added = bytes_of(&place, 3..5);
            fs::remove_file(lock_of(&place)).unwrap();
            let record = write_record(&Holder::new(7, "elsewhere", 5)).into_bytes();
            fs::write(lock_of(&place), &record).unwrap();
            let other = fs::File::open(lock_of(&place)).unwrap();
            other.lock().unwrap();
            let stored = fs::read(log_of(&place)).unwrap();
            let whole = stored.len() - if has_leftovers { 20 } else { 0 };
            fs::write(log_of(&place), [&stored[..whole], &added].concat()).unwrap();
            let bytes = fs::read(log_of(&place)).unwrap();
            for batch in [events(3..4), events(5..6), events(3..4)] {
                assert_eq!(kind(fenced.append(&batch)), ErrorKind::OwnershipLost, "{encoding:?} {has_leftovers}");
            }
            assert!(fs::read(log_of(&place)).unwrap() == bytes);
            fenced.close().unwrap();
            assert!(fs::read(log_of(&place)).unwrap() == bytes);
            assert!(fs::read(lock_of(&place)).unwrap() == record);
            assert_eq!(owner(&third).unwrap().process, 7);
            assert_eq!(kind(third.open(&id("s"), OpenOptions::write()).map(drop)), ErrorKind::AlreadyOwned);
            // Explicitly: a process that another test starts may hold a copy for a moment.
            other.unlock().unwrap();
            assert_eq!(owner(&third), None);
            writer(&second).append(&events(5..6)).unwrap();
            writer(&first).append(&events(6..7)).unwrap();
            assert_eq!(read(&third, "s"), events(0..7));
        }
    }
}

/// The bytes of a batch as they stand in a log.
fn bytes_of(place: &Place, range: std::ops::Range<u64>) -> Vec<u8> {
    let other = Place::new(place.encoding);
    let handle = create(&other.open(0), "s");
    handle.append(&events(0..range.start)).unwrap();
    let before = fs::read(log_of(&other)).unwrap().len();
    handle.append(&events(range)).unwrap();
    fs::read(log_of(&other)).unwrap().split_off(before)
}

#[test]
fn removing_the_lock_file_takes_no_session_from_a_writer_that_lives() {
    for encoding in ENCODINGS {
        for is_new in [true, false] {
            let place = Place::new(encoding);
            let (first, second) = (place.open(64 << 20), place.open(0));
            let mut handle = create(&first, "s");
            handle.append(&events(0..3)).unwrap();
            if !is_new {
                drop(handle);
                handle = writer(&first);
            }
            for seq in 3..6 {
                fs::remove_file(lock_of(&place)).unwrap();
                let bytes = fs::read(log_of(&place)).unwrap();
                let refusals =
                    [second.open(&id("s"), OpenOptions::write()).map(drop), second.remove(&id("s")).map(drop)];
                for refused in refusals {
                    match refused.unwrap_err() {
                        Error::AlreadyOwned { holder, .. } if cfg!(target_os = "linux") => {
                            assert_eq!(holder.process, std::process::id());
                        }
                        Error::AlreadyOwned { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
                assert!(!lock_of(&place).exists(), "a refusal changes nothing");
                assert!(fs::read(log_of(&place)).unwrap() == bytes);
                handle.append(&events(seq..seq + 1)).unwrap();
                assert_eq!(owner(&second).unwrap().process, std::process::id(), "the lock file is there again");
            }
            fs::remove_file(lock_of(&place)).unwrap();
            handle.close().unwrap();
            writer(&second).append(&events(6..7)).unwrap();
            assert_eq!(read(&first, "s"), events(0..7));
            fs::remove_file(lock_of(&place)).unwrap();
            assert!(second.remove(&id("s")).unwrap());
        }
    }
}

#[test]
fn an_append_costs_no_lock() {
    let place = Place::new(Encoding::Raw);
    let store = place.open(0);
    let handle = create(&store, "s");
    handle.append(&events(0..1)).unwrap();
    let locks = Arc::new(AtomicUsize::new(0));
    let counted = locks.clone();
    *place.watch.at.lock().unwrap() = Some((
        Call::Lock,
        Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        }),
    ));
    for seq in 1..50 {
        handle.append(&events(seq..seq + 1)).unwrap();
    }
    assert_eq!(locks.load(Ordering::Relaxed), 0);
    handle.close().unwrap();
    drop(writer(&store));
    assert_eq!(locks.load(Ordering::Relaxed), 2, "the log, and the file beside it");
}

#[test]
fn a_writer_whose_record_was_written_over_is_fenced_for_good() {
    for encoding in ENCODINGS {
        let place = Place::new(encoding);
        let store = place.open(0);
        let fenced = create(&store, "s");
        fenced.append(&events(0..3)).unwrap();
        let own = fs::read(lock_of(&place)).unwrap();
        let bytes = fs::read(log_of(&place)).unwrap();
        for other in [&b"{\"process\":7,\"since\":5}\n"[..], b""] {
            fs::write(lock_of(&place), other).unwrap();
            assert_eq!(kind(fenced.append(&events(3..4))), ErrorKind::OwnershipLost);
        }
        fs::write(lock_of(&place), &own).unwrap();
        assert_eq!(kind(fenced.append(&events(3..4))), ErrorKind::OwnershipLost);
        assert!(fs::read(log_of(&place)).unwrap() == bytes);
        fs::write(lock_of(&place), "somebody else's").unwrap();
        drop(fenced);
        assert_eq!(fs::read(lock_of(&place)).unwrap(), b"somebody else's");
        writer(&store).append(&events(3..4)).unwrap();
        assert_eq!(read(&place.open(0), "s"), events(0..4));
    }
}

#[test]
fn what_another_program_appended_is_never_cut_off() {
    for encoding in ENCODINGS {
        for opened_torn in [false, true] {
            let place = Place::new(encoding);
            create(&place.open(0), "s").append(&events(0..3)).unwrap();
            let whole = fs::read(log_of(&place)).unwrap();
            writer(&place.open(0)).append(&events(3..4)).unwrap();
            let longer = fs::read(log_of(&place)).unwrap();
            // What was torn when the lease began is cut off, and what somebody adds to it is not.
            let seen = if opened_torn { whole.len() + 5 } else { whole.len() };
            fs::write(log_of(&place), &longer[..seen]).unwrap();
            let store = place.open(0);
            let handle = writer(&store);
            let half = &longer[..seen + 7];
            fs::write(log_of(&place), half).unwrap();
            for _ in 0..2 {
                assert_eq!(kind(handle.append(&events(3..4))), ErrorKind::OwnershipLost);
                assert!(fs::read(log_of(&place)).unwrap() == half);
            }
            fs::write(log_of(&place), &longer).unwrap();
            match handle.append(&events(3..4)).unwrap_err() {
                Error::NotContiguous { expected: 4, found: 3, .. } => {}
                other => panic!("{other:?}"),
            }
            assert!(fs::read(log_of(&place)).unwrap() == longer);
            assert_eq!(handle.read(SeqRange::ALL).unwrap(), events(0..4));
            handle.append(&events(4..5)).unwrap();
            assert_eq!(read(&place.open(0), "s"), events(0..5));
            drop(handle);
            // Whoever opens it with such a tail finds it torn.
            let bytes = fs::read(log_of(&place)).unwrap();
            fs::write(log_of(&place), [&bytes, &longer[whole.len()..whole.len() + 7]].concat()).unwrap();
            writer(&store).append(&events(5..6)).unwrap();
            assert_eq!(read(&place.open(0), "s"), events(0..6));
        }
    }
}

#[test]
fn a_full_disk_keeps_no_writer_from_a_session_and_its_record_follows_later() {
    for encoding in ENCODINGS {
        let machine = Machine::with_folder(&root());
        let open = || power_loss::open(&machine, encoding, Durability::OnFlush).unwrap();
        create(&open(), "s").append(&events(0..3)).unwrap();
        let (store, others) = (open(), open());
        machine.fail(Fault { which: Which::Every(Call::Write), errno: 28, is_short: true });
        let handle = writer(&store);
        assert_eq!(kind(handle.append(&events(3..4))), ErrorKind::StorageFull);
        assert_eq!(kind(others.open(&id("s"), OpenOptions::write()).map(drop)), ErrorKind::AlreadyOwned);
        machine.heal();
        handle.append(&events(3..4)).unwrap();
        assert_eq!(owner(&others).unwrap().process, std::process::id());
        handle.close().unwrap();
        assert_eq!(owner(&others), None);
        assert_eq!(read(&others, "s"), events(0..4));
    }
}

#[test]
fn a_record_without_a_lock_is_nobodys_and_a_lock_without_a_record_is_not_looked_for() {
    let place = Place::new(Encoding::Raw);
    let store = place.open(0);
    create(&store, "s").append(&events(0..3)).unwrap();
    assert_eq!(fs::read(lock_of(&place)).unwrap(), b"{}\n", "given up");
    let lock = fs::File::options().write(true).open(lock_of(&place)).unwrap();
    lock.lock().unwrap();
    assert_eq!(owner(&store), None);
    let refused = store.open(&id("s"), OpenOptions::write()).map(drop).unwrap_err();
    assert!(matches!(&refused, Error::AlreadyOwned { holder, .. } if holder.process == 0), "{refused}");
    // A record of an earlier release, which has no token.
    fs::write(lock_of(&place), "{\"process\":7,\"since\":5}\n").unwrap();
    assert_eq!(owner(&store), Some(Holder::new(7, "", 5)));
    fs::write(lock_of(&place), "no record\n").unwrap();
    assert_eq!(owner(&store), Some(Holder::new(0, "", 0)));
    if Path::new("/proc/self").exists() {
        // That of a writer that was killed on this machine: somebody else has the lock now.
        fs::write(lock_of(&place), write_record(&Holder { process: u32::MAX, ..Holder::this_process() })).unwrap();
        assert_eq!(owner(&store), Some(Holder::new(0, "", 0)));
    }
    fs::write(lock_of(&place), "{\"process\":7,\"since\":5}\n").unwrap();
    lock.unlock().unwrap();
    let modified = fs::metadata(lock_of(&place)).unwrap().modified().unwrap();
    assert_eq!(owner(&store), None, "a writer that was killed leaves its record");
    assert_eq!(fs::metadata(lock_of(&place)).unwrap().modified().unwrap(), modified);
    fs::remove_file(lock_of(&place)).unwrap();
    assert_eq!(owner(&store), None);
    assert!(!lock_of(&place).exists(), "looking makes no file");
}

#[test]
fn a_list_looks_once_more_at_each_session_on_its_page_and_opens_nothing_for_it() {
    const SESSIONS: usize = 200;
    let place = Place::new(Encoding::Zstd);
    let store = place.open(0);
    for n in 0..SESSIONS {
        create(&store, &format!("s{n:04}")).append(&events(0..2)).unwrap();
    }
    let store = place.open(0);
    let count = |query: &ListQuery| {
        place.reset();
        place.watch.looked.store(0, Ordering::Relaxed);
        let listed = store.list(query).unwrap().items;
        assert!(listed.iter().all(|snapshot| snapshot.owner.is_none()));
        (listed.len(), place.watch.looked.load(Ordering::Relaxed), place.opened())
    };
    let page = ListQuery::default().with_limit(20);
    // Every session once for the order, those on the page, and the one behind it, once for what they are and once for
    // their writer.
    assert_eq!(count(&page), (20, SESSIONS + 2 * 21, 21));
    assert_eq!(count(&ListQuery::default()), (SESSIONS, 3 * SESSIONS, SESSIONS - 21));
    assert_eq!(count(&ListQuery::default()), (SESSIONS, 3 * SESSIONS, 0));
    assert_eq!(count(&page.with_order(ListOrder::Created)), (20, SESSIONS + 21, 0));
    // A writer that was killed costs one file that is opened.
    fs::write(place.folder.path().join("--w--/s0007").join(LOCK), "{\"process\":7,\"since\":5}\n").unwrap();
    assert_eq!(count(&ListQuery::default()), (SESSIONS, 3 * SESSIONS, 1));
}

#[test]
fn looking_for_a_writer_keeps_no_writer_out() {
    let place = Place::new(Encoding::Raw);
    create(&place.open(0), "s").append(&events(0..1)).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lookers = [(); 3].map(|()| {
            let (store, is_over) = (place.open(0), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    store.stat(&id("s")).unwrap();
                }
            })
        });
        let (store, others) = (place.open(0), place.open(0));
        let mut refused = Vec::new();
        for _ in 0..300 {
            // As a writer leaves it that is killed: whoever looks has to try the lock.
            fs::write(lock_of(&place), "{\"process\":7,\"since\":5}\n").unwrap();
            match store.open(&id("s"), OpenOptions::write()) {
                Ok(handle) => {
                    assert_eq!(kind(others.open(&id("s"), OpenOptions::write()).map(drop)), ErrorKind::AlreadyOwned);
                    handle.close().unwrap();
                }
                Err(e) => refused.push(e),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        lookers.into_iter().for_each(|looker| looker.join().unwrap());
        assert!(refused.is_empty(), "{refused:?}");
    });
}

#[test]
fn a_writer_waits_for_those_who_look_and_not_for_ever() {
    let place = Place::new(Encoding::Raw);
    let store = place.open(0);
    create(&store, "s").append(&events(0..1)).unwrap();
    let looker = fs::File::open(lock_of(&place)).unwrap();
    looker.lock_shared().unwrap();
    assert_eq!(kind(store.open(&id("s"), OpenOptions::write()).map(drop)), ErrorKind::StoreBusy);
    let (tries, looker) = (AtomicUsize::new(0), looker);
    let goes = move || {
        if tries.fetch_add(1, Ordering::Relaxed) == 6 {
            looker.unlock().unwrap();
        }
    };
    *place.watch.at.lock().unwrap() = Some((Call::Lock, Arc::new(goes)));
    writer(&store).append(&events(1..2)).unwrap();
    assert_eq!(read(&store, "s"), events(0..2));
}

#[test]
fn nobody_who_reads_waits_for_a_sync() {
    for durability in power_loss::DURABILITIES {
        let place = Place::new(Encoding::Zstd);
        let store = place.open_with(|options| options.with_durability(durability));
        let (first, second) = (create(&store, "s"), create(&store, "t"));
        first.append(&events(0..3)).unwrap();
        second.append(&events(0..3)).unwrap();
        let (begin, begun) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let ended = Mutex::new(ended);
        let slow = move || {
            begin.send(()).unwrap();
            ended.lock().unwrap().recv().unwrap();
        };
        *place.watch.at.lock().unwrap() = Some((Call::Sync, Arc::new(slow)));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                first.append(&events(3..4)).unwrap();
                first.flush().unwrap();
            });
            begun.recv().unwrap();
            // The sync goes on for as long as it takes all these.
            assert!(first.read(SeqRange::ALL).unwrap().len() >= 3);
            assert_eq!(read(&store, "t"), events(0..3));
            assert_eq!(store.list(&ListQuery::default()).unwrap().items.len(), 2);
            assert!(store.stat(&id("s")).unwrap().unwrap().owner.is_some());
            if durability == Durability::OnFlush {
                second.append(&events(3..4)).unwrap();
            }
            *place.watch.at.lock().unwrap() = None;
            end.send(()).unwrap();
            waits.join().unwrap();
        });
    }
}
