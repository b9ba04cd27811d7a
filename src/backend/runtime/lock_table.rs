//! The system's own table of file locks, which tells who is in the way of a writer, whatever program that is. A hint for
//! the message of those who waited in vain: nothing is decided by it.

use std::ops::Range;
use std::path::Path;

/// The system puts the table together piece by piece: where others lock and unlock meanwhile a line may be left out.
const LOOKS: usize = 8;

/// The process that holds a lock for writing on some of these bytes of a file, where the system tells that: Linux does,
/// of the processes that the caller may see.
pub(crate) fn writer_of(path: &Path, bytes: Range<u64>) -> Option<u32> {
    let name = name_of(path)?;
    (0..LOOKS).find_map(|_| {
        let table = std::fs::read_to_string("/proc/locks").ok()?;
        table.lines().find_map(|line| holder(line, &name, &bytes))
    })
}

/// The name that a file has in the table.
#[cfg(target_os = "linux")]
fn name_of(path: &Path) -> Option<String> {
    use std::os::linux::fs::MetadataExt as _;
    let file = std::fs::metadata(path).ok()?;
    let device = file.st_dev();
    // As the C library takes a device apart.
    let major = (device >> 8) & 0xfff | (device >> 32) & 0xffff_f000;
    let minor = device & 0xff | (device >> 12) & 0xffff_ff00;
    Some(format!("{major:02x}:{minor:02x}:{}", file.st_ino()))
}

#[cfg(not(target_os = "linux"))]
fn name_of(_: &Path) -> Option<String> {
    None
}

/// Who holds the lock of a line, if it is one for writing on the bytes of that file. A line of somebody who waits for a lock
/// has an arrow more. Process 0 is one that the caller does not see, and below it stand the locks of no process.
fn holder(line: &str, name: &str, bytes: &Range<u64>) -> Option<u32> {
    let [_, _, _, "WRITE", process, file, first, last] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        return None;
    };
    let first: u64 = first.parse().ok()?;
    let is_met = first < bytes.end && (last == "EOF" || last.parse().is_ok_and(|last: u64| last >= bytes.start));
    if file == name && is_met { process.parse().ok().filter(|process| *process > 0) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_who_holds_a_lock_for_writing_on_the_bytes_of_a_file() {
        let told = |line: &str| holder(line, "00:1b:28", &(120..123));
        assert_eq!(told("2: POSIX  ADVISORY  WRITE 9094 00:1b:28 120 120"), Some(9094));
        assert_eq!(told("2: POSIX  ADVISORY  WRITE 9094 00:1b:28 0 EOF"), Some(9094));
        assert_eq!(told("2: FLOCK  ADVISORY  WRITE 9094 00:1b:28 122 130"), Some(9094));
        for other in [
            "2: POSIX  ADVISORY  READ 9094 00:1b:28 120 120",
            "2: -> POSIX  ADVISORY  WRITE 9094 00:1b:28 120 120",
            "2: POSIX  ADVISORY  WRITE 9094 00:1b:29 120 120",
            "2: POSIX  ADVISORY  WRITE 9094 00:1b:28 123 124",
            "2: POSIX  ADVISORY  WRITE 9094 00:1b:28 100 119",
            "2: OFDLCK ADVISORY  WRITE -1 00:1b:28 0 EOF",
            "2: POSIX  ADVISORY  WRITE 0 00:1b:28 120 120",
            "",
        ] {
            assert_eq!(told(other), None, "{other}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_table_of_the_system_tells_of_a_lock_while_it_is_held() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(writer_of(file.path(), 0..1), None);
        file.as_file().lock().unwrap();
        assert_eq!(writer_of(file.path(), 0..1), Some(std::process::id()));
        file.as_file().unlock().unwrap();
        assert_eq!(writer_of(file.path(), 0..1), None);
    }
}
