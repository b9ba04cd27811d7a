//! The record that a writer leaves in the file it locks: for the message of those who are refused. Nothing is decided by
//! it; the lock is the kernel's and dies with its process.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;

use crate::seam::Holder;

/// The most bytes that a record has.
pub(crate) const MAX_RECORD: usize = 512;

/// A record of a holder, a line of JSON. No two are the same, so that a writer knows its own again whoever wrote over it.
pub(crate) fn write_record(holder: &Holder) -> String {
    // A name that is long beyond all rules is left out, and never cut.
    let host = if holder.host.len() <= 64 { &*holder.host } else { "" };
    let token = format!("{:016x}", RandomState::new().build_hasher().finish());
    let record = serde_json::json!({ "process": holder.process, "host": host, "since": holder.since, "token": token });
    format!("{record}\n")
}

/// The holder of a record, or process 0 where it cannot be read: another program may lock without one.
pub(crate) fn read_record(record: &[u8]) -> Holder {
    #[derive(serde::Deserialize)]
    struct Record {
        process: u32,
        #[serde(default)]
        host: String,
        since: i64,
    }
    let line = record.split(|b| *b == b'\n').next().unwrap_or_default();
    serde_json::from_slice::<Record>(line).map_or(Holder::unknown(), |r| Holder::new(r.process, r.host, r.since))
}

/// Whether a record of a lock that is held may be that of its holder: one that has just locked it has not said yet who it
/// is, and a writer that was killed left its own behind.
pub(crate) fn may_be_of_holder(holder: &Holder) -> bool {
    let is_here = || holder.host == Holder::this_process().host && Path::new("/proc/self").exists();
    let is_gone = || is_here() && !Path::new(&format!("/proc/{}", holder.process)).exists();
    holder.process != 0 && !is_gone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_back_its_holder_and_anything_else_gives_process_0() {
        let holder = Holder::new(u32::MAX, "\u{1}".repeat(64), i64::MIN);
        let record = write_record(&holder);
        assert!(record.len() <= MAX_RECORD);
        assert_eq!(read_record(record.as_bytes()), holder);
        assert_ne!(write_record(&holder), record, "each has a token of its own");
        assert_eq!(read_record(b"{\"process\":7,\"since\":5}\n"), Holder::new(7, "", 5), "older ones have none");
        for other in [&b""[..], b"{}", b"\xff\n", b"{\"process\":-1,\"since\":0}"] {
            assert_eq!(read_record(other), Holder::unknown());
        }
    }

    #[test]
    fn a_record_of_nobody_or_of_a_process_that_is_gone_is_none_of_a_holder() {
        assert!(may_be_of_holder(&Holder::this_process()));
        assert!(!may_be_of_holder(&Holder::unknown()));
        let gone = Holder { process: u32::MAX, ..Holder::this_process() };
        assert_eq!(may_be_of_holder(&gone), !Path::new("/proc/self").exists());
        assert!(may_be_of_holder(&Holder { host: "elsewhere".to_owned(), ..gone }));
    }
}
