//! The index of the WAL, in the `-shm` file, cannot grow: SQLite notices after it wrote a whole commit.

use rusqlite::{Connection, ffi};
use session_persistence::ErrorKind;

use super::fault::{Effect, Fault, Kind};
use super::is_full;
use super::ledger::chain;
use super::sample::Mode;
use super::scene::{Call, Scene};

#[test]
fn a_batch_whose_commit_the_index_had_no_room_for_never_comes_back() {
    let modes = [Mode::OnFlush, Mode::EveryAppend];
    for mode in modes.into_iter().take(if is_full() { 2 } else { 1 }) {
        let mut scene = Scene::before(Call::Append, mode);
        // While somebody reads, what others write stays in the WAL. A part of the index has room for 4062 pages.
        let reading = Connection::open(scene.disk.store()).unwrap();
        reading.execute_batch("BEGIN; SELECT count(*) FROM sessions").unwrap();
        let writing = Connection::open(scene.disk.store()).unwrap();
        writing.execute_batch("CREATE TABLE mine (x); INSERT INTO mine VALUES (zeroblob(4000 * 8192))").unwrap();
        scene.disk.inject(Fault::new(Kind::Map, Effect::Fail(ffi::SQLITE_IOERR_SHMSIZE)).lasting());
        let full = loop {
            match scene.append(3) {
                Ok(()) => assert!(scene.ledger.length("a") < 1000, "the index never grew"),
                Err(e) => break e,
            }
        };
        let what = format!("{mode:?}, no room for the index");
        assert!(full.kind() == ErrorKind::StorageFull, "{what}: {}", chain(&full));
        scene.check_left(&what);
        scene.disk.mend();
        scene.check_shown(&what);
        drop((reading, writing));
        scene.append(3).unwrap();
        scene.go_on(&what);
    }
}
