//! The counter of a store, `store.flushes`, which only grows: it makes a commit that waits for the disk where nothing else
//! is to be written, and tells which of two states of a store is the later one.
//!
//! A loss of power can leave a page of the database half written, while the WAL has it whole. Read without the WAL, a number
//! on such a page has bytes of two numbers and may be larger than both. So the counter carries a check of itself in its
//! lowest bits, and one that does not match proves nothing. Earlier builds counted without: theirs proves nothing either,
//! until it is raised.

use rusqlite::Connection;

/// How many bits the check has.
const CHECK: u32 = 16;

/// What the two halves of the count are multiplied with: any odd numbers that keep the products within 63 bits.
const LOW: i64 = 463_829_041;
const HIGH: i64 = 328_412_051;

/// Raises it by so much, in the transaction of the connection or in one of its own.
pub(super) fn raise(connection: &Connection, by: i64) -> Result<(), rusqlite::Error> {
    const RAISE: &str = "\
        UPDATE store SET flushes = (
          SELECT (count << 16) | ((((count & 4294967295) * 463829041 + (count >> 32) * 328412051) >> 13) & 65535)
          FROM (SELECT (flushes >> 16) + ?1 AS count))";
    connection.prepare_cached(RAISE)?.execute([by]).map(drop)
}

/// What it stands at.
pub(super) fn read(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.query_row("SELECT flushes FROM store", [], |row| row.get(0))
}

/// Whether a number that was read as the counter is one that it ever had.
pub(super) fn is_whole(counter: i64) -> bool {
    let count = counter >> CHECK;
    let check = ((count & 0xffff_ffff) * LOW + (count >> 32) * HIGH) >> 13;
    (0..1 << 47).contains(&count) && counter == count << CHECK | check & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter_of(flushes: i64) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(&format!("CREATE TABLE store (flushes INTEGER); INSERT INTO store VALUES ({flushes})"))
            .unwrap();
        connection
    }

    #[test]
    fn it_grows_and_is_whole_whatever_it_is_raised_by() {
        // As an earlier build left it, and as this one starts.
        for start in [0, 1, 255, 65_535, 70_000] {
            let counter = counter_of(start);
            let mut last = start;
            for by in [1, 1, 1, 253, 1, 65_536, 1, 1 << 24, 1 << 32, 1, (1 << 32) - 1, 1 << 40, 1] {
                raise(&counter, by).unwrap();
                let now = read(&counter).unwrap();
                assert!(now > last && is_whole(now), "{last} raised by {by} is {now}");
                last = now;
            }
        }
        assert!(is_whole(0) && !is_whole(5) && !is_whole(-1) && !is_whole(i64::MAX));
    }

    #[test]
    fn one_that_is_half_written_is_never_taken_for_a_later_one() {
        let counter = counter_of(0);
        for by in (1..400).chain([1 << 16, 1, 1 << 20, 3, 1 << 32, 1]) {
            let earlier = read(&counter).unwrap();
            raise(&counter, by).unwrap();
            let later = read(&counter).unwrap();
            for whole in 0..=8 {
                let mut torn = later.to_be_bytes();
                torn[whole..].copy_from_slice(&earlier.to_be_bytes()[whole..]);
                let torn = i64::from_be_bytes(torn);
                assert!(!is_whole(torn) || torn <= later, "{earlier} and {later} torn at {whole}: {torn}");
            }
        }
    }
}
