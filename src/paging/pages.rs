//! [`Pages`]: the events of an open session, a bounded part at a time.

use crate::log::{Seq, SessionEvent};
use crate::seam::{Error, Result, SeqRange, SessionHandle, Snapshot};

/// How many bytes of events a page aims at.
const PAGE_BYTES: u64 = 4 << 20;
/// The most events a page, however small they are.
const PAGE_EVENTS: u64 = 4096;
/// What an event costs beside its data.
const ENVELOPE_BYTES: u64 = 128;

/// The events of an open session, a page of a few megabytes at a time and never less than one event. It ends where the
/// log ended when it was made, so that a log that grows meanwhile ends too.
pub(crate) struct Pages<'a> {
    handle: &'a dyn SessionHandle,
    next: u64,
    /// Unknown for a backend that would have to read the log to count it.
    end: Option<u64>,
    length: u64,
    /// How many more events are wanted.
    left: u64,
    done: bool,
}

impl<'a> Pages<'a> {
    /// The events from `start` on. The snapshot is of the same session and not older than the wanted end.
    pub(crate) fn new(handle: &'a dyn SessionHandle, snapshot: &Snapshot, start: u64) -> Self {
        // Without this guess the first page of a log of a few huge events would hold all of them.
        let length = match (snapshot.size_bytes, snapshot.event_count) {
            (Some(bytes), Some(count)) if count > 0 => fitting(bytes / count + ENVELOPE_BYTES),
            _ => 16,
        };
        Self { handle, next: start, end: snapshot.event_count, length, left: u64::MAX, done: false }
    }

    /// The same pages, of `count` events in all at most.
    pub(crate) fn up_to(mut self, count: u64) -> Self {
        self.left = count;
        self
    }

    /// The same pages, where a log that ends before the count that the store tells is no error.
    pub(crate) fn wherever_it_ends(mut self) -> Self {
        if let Some(end) = self.end.take() {
            self.left = self.left.min(end.saturating_sub(self.next));
        }
        self
    }

    /// The first event that was not given yet.
    pub(crate) fn next_seq(&self) -> u64 {
        self.next
    }

    /// Passes over the next event, which could not be read.
    pub(crate) fn skip(&mut self) {
        self.next += 1;
        self.left = self.left.saturating_sub(1);
    }

    /// The next page; empty at the end. Where an event is damaged, what stands before it comes first.
    ///
    /// # Errors
    ///
    /// As [`SessionHandle::read`]; `Corruption` also when the log ends before the count that the store tells.
    pub(crate) fn next_page(&mut self) -> Result<Vec<SessionEvent>> {
        while !self.done {
            let left = self.end.map_or(u64::MAX, |end| end.saturating_sub(self.next));
            let length = self.length.min(left).min(self.left);
            if length == 0 {
                break;
            }
            match self.handle.read(SeqRange::new(self.next, Some(length))) {
                Ok(events) => return self.accept(events, length),
                Err(Error::Corruption { .. }) if length > 1 => self.length = length / 2,
                Err(error) => return Err(error),
            }
        }
        self.done = true;
        Ok(Vec::new())
    }

    fn accept(&mut self, events: Vec<SessionEvent>, asked: u64) -> Result<Vec<SessionEvent>> {
        let found = events.len() as u64;
        self.next += found;
        self.left = self.left.saturating_sub(found);
        match self.end {
            None => self.done = found < asked,
            Some(end) if found == 0 => {
                return Err(Error::Corruption {
                    session: self.handle.id().clone(),
                    seq: Seq::new(self.next),
                    offset: None,
                    reason: format!("the store tells of seq {}, its log ends before this one", end - 1),
                });
            }
            Some(_) => {}
        }
        let bytes: u64 = events.iter().map(|e| e.data().as_str().len() as u64 + ENVELOPE_BYTES).sum();
        if let Some(mean) = bytes.checked_div(found) {
            // A page of small events says little of the next: growing by steps keeps a jump in size affordable.
            self.length = fitting(mean).min(asked.saturating_mul(4));
        }
        Ok(events)
    }
}

fn fitting(event_bytes: u64) -> u64 {
    (PAGE_BYTES / event_bytes.max(1)).clamp(1, PAGE_EVENTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Json, SessionHeader, SessionId, Vocabulary};
    use crate::seam::{Access, Revision};

    /// A log of `count` events, of which one cannot be read.
    struct Damaged {
        header: SessionHeader,
        count: u64,
        damaged: u64,
    }

    impl SessionHandle for Damaged {
        fn id(&self) -> &SessionId {
            self.header.id()
        }
        fn header(&self) -> &SessionHeader {
            &self.header
        }
        fn inherited_event_count(&self) -> u64 {
            0
        }
        fn access(&self) -> Access {
            Access::Read
        }
        fn read(&self, range: SeqRange) -> Result<Vec<SessionEvent>> {
            let range = range.within(self.count);
            if range.contains(&self.damaged) {
                let session = self.id().clone();
                let seq = Seq::new(self.damaged);
                return Err(Error::Corruption { session, seq, offset: None, reason: "bits".into() });
            }
            let data = Json::parse("{}").unwrap();
            Ok(range.map(|seq| SessionEvent::new("x", seq, 0, data.clone()).unwrap()).collect())
        }
        fn append(&self, _: &[SessionEvent]) -> Result<()> {
            Ok(())
        }
        fn flush(&self) -> Result<()> {
            Ok(())
        }
        fn close(&self) -> Result<()> {
            Ok(())
        }
    }

    fn read(handle: &Damaged, told: Option<u64>, start: u64) -> (u64, Result<()>) {
        let mut snapshot = Snapshot::new(handle.header.clone(), Revision::new("1"), &Vocabulary::v3());
        snapshot.event_count = told;
        let mut pages = Pages::new(handle, &snapshot, start);
        let mut next = start;
        loop {
            match pages.next_page() {
                Ok(page) if page.is_empty() => return (next, Ok(())),
                Ok(page) => {
                    assert_eq!(page[0].seq().get(), next);
                    next += page.len() as u64;
                }
                Err(error) => return (next, Err(error)),
            }
        }
    }

    fn log(count: u64, damaged: u64) -> Damaged {
        Damaged { header: SessionHeader::new(SessionId::new("s").unwrap(), 0).unwrap(), count, damaged }
    }

    #[test]
    fn everything_before_a_damaged_event_comes_before_the_error() {
        for (damaged, start) in [(0, 0), (1, 0), (15, 0), (16, 3), (5001, 0), (9999, 9000)] {
            let (next, result) = read(&log(10_000, damaged), Some(10_000), start);
            assert_eq!(next, damaged);
            assert!(matches!(result, Err(Error::Corruption { seq: Some(seq), .. }) if seq.get() == damaged));
        }
    }

    #[test]
    fn a_log_is_read_to_the_count_that_was_told_or_wherever_it_ends() {
        let sound = log(10_000, u64::MAX);
        for (told, end) in [(Some(10_000), 10_000), (Some(7_000), 7_000), (Some(0), 0), (None, 10_000)] {
            let (next, result) = read(&sound, told, 0);
            result.unwrap();
            assert_eq!(next, end);
        }
        assert_eq!(read(&sound, Some(10_000), 20_000).0, 20_000);
    }

    #[test]
    fn a_log_shorter_than_the_store_tells_is_damaged() {
        let (next, result) = read(&log(10_000, u64::MAX), Some(10_001), 0);
        assert_eq!(next, 10_000);
        assert!(matches!(result, Err(Error::Corruption { seq: Some(seq), .. }) if seq.get() == 10_000));
    }

    #[test]
    fn no_more_events_are_read_than_are_wanted_whether_their_count_is_known_or_not() {
        let sound = log(10_000, u64::MAX);
        for told in [Some(10_000), None] {
            let mut snapshot = Snapshot::new(sound.header.clone(), Revision::new("r"), &Vocabulary::v3());
            snapshot.event_count = told;
            let mut pages = Pages::new(&sound, &snapshot, 100).up_to(300);
            let mut read = 0;
            loop {
                match pages.next_page().unwrap().len() {
                    0 => break,
                    found => read += found,
                }
            }
            assert_eq!(read, 300, "{told:?}");
        }
    }
}
