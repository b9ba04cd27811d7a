//! One log, from end to end, and what the store tells of it.

use std::io;

use super::verify::{Progress, Watch};
use crate::log::{SessionEvent, SessionId};
use crate::paging::Pages;
use crate::seam::{
    Error, ErrorKind, Fault, FaultKind, OpenOptions, Result, SessionHandle, SessionPersistence, SessionState, Snapshot,
    checks,
};

/// How often a session is looked at again because it was written meanwhile.
const TRIES: usize = 3;

/// After so many events in a row that cannot be read the rest of a log is given up: each costs a read of its own.
const MOST_UNREADABLE: u64 = 10_000;

const UNREAD: &str =
    "see to the disk, or whatever else the cause is, and verify again: what is stored there was not seen";

const RESTORE: &str = "restore the session from a backup";

const PERMIT: &str =
    "check the permissions of the file and of the folders that lead to it, and check the session again";

/// Tells of a session whose header cannot be read.
pub(super) fn check_damaged(store: &dyn SessionPersistence, id: &SessionId, reason: &str, watch: &mut Watch<'_>) {
    watch.report.sessions += 1;
    // Opening it may tell the place as well.
    let fault = match store.open(id, OpenOptions::uninterpreted()) {
        Err(error @ Error::Corruption { .. }) => advised(Fault::damage(id, &error)),
        Err(error) if is_forbidden(&error) => of_error(id, &error),
        _ => advised(Fault::new(FaultKind::Damage, reason, "").of(id)),
    };
    watch.fault(&fault);
}

/// Reads the log of a session, and holds what the store tells of it against it.
pub(super) fn check_log(store: &dyn SessionPersistence, id: &SessionId, watch: &mut Watch<'_>) -> Result<()> {
    let mut try_again = TRIES;
    loop {
        try_again -= 1;
        let opened = match Opened::new(store, id) {
            Ok(Some(opened)) => opened,
            // Removed meanwhile, or created and not stored yet.
            Ok(None) => return Ok(()),
            Err(error) => return told(id, error, watch),
        };
        let scan = match Scan::read(&opened, watch) {
            Ok(scan) => scan,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return told(id, error, watch),
        };
        let after = match store.stat(id) {
            Ok(after) => after,
            Err(error) => return told(id, error, watch),
        };
        let is_unchanged = after.as_ref().is_some_and(|after| after.revision == opened.snapshot.revision);
        let differences = if scan.is_damaged { Vec::new() } else { scan.differences(&opened, is_unchanged) };
        // What a writer did meanwhile is no fault: only a difference that stays is one.
        if !differences.is_empty() && !is_unchanged && try_again > 0 {
            continue;
        }
        watch.report.sessions += 1;
        watch.report.events += scan.events;
        differences.iter().for_each(|fault| watch.fault(fault));
        if let Some(tail) = after.filter(|after| after.owner.is_none()).and_then(|after| after.torn_tail) {
            let bytes =
                if tail.bytes == 1 { "1 byte stands".to_owned() } else { format!("{} bytes stand", tail.bytes) };
            let reason = format!("{bytes} behind the last event that are no whole write");
            let advice = "if a writer was stopped while it wrote, nothing needs to be done: they were never acknowledged, \
                          and no reader is given them; if none was, the file was cut short: restore the session from a \
                          backup before anything is appended, which cuts them off";
            watch.fault(&Fault::new(FaultKind::Leftover, reason, advice).of(id).at_seq(tail.seq));
        }
        if scan.is_damaged {
            return Ok(());
        }
        // What a host that interprets the log needs beside it; that it may not interpret it is no fault.
        return match store.open(id, OpenOptions::read()) {
            Err(Error::Corruption { reason, .. }) => {
                watch.fault(&counted(id, format!("the log is sound, but a host cannot open it: {reason}")));
                Ok(())
            }
            Err(Error::NotFound { .. } | Error::FormatUnsupported { .. }) | Ok(_) => Ok(()),
            Err(error) => told(id, error, watch),
        };
    }
}

/// Tells of an error that is one session's; any other stands in the way of the whole check.
fn told(id: &SessionId, error: Error, watch: &mut Watch<'_>) -> Result<()> {
    match error.kind() {
        ErrorKind::Corruption => {
            watch.report.sessions += 1;
            watch.fault(&of_error(id, &error));
            Ok(())
        }
        ErrorKind::Io if !error.is_out_of_files() => {
            watch.report.sessions += 1;
            watch.fault(&of_error(id, &error));
            Ok(())
        }
        _ => Err(error),
    }
}

/// The fault that an error of one session stands for. What cannot be read is not known to be damaged.
fn of_error(id: &SessionId, error: &Error) -> Fault {
    let fault = Fault::damage(id, error);
    match error {
        Error::Io { .. } if is_forbidden(error) => Fault { advice: PERMIT.to_owned(), ..fault },
        Error::Io { .. } => Fault { advice: UNREAD.to_owned(), ..fault },
        _ => advised(fault),
    }
}

/// Whether the system does not let this program read what is stored.
fn is_forbidden(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return false };
    source.downcast_ref::<io::Error>().is_some_and(|failed| failed.kind() == io::ErrorKind::PermissionDenied)
}

fn advised(mut fault: Fault) -> Fault {
    fault.advice = match fault.seq {
        Some(seq) if seq > 0 => {
            let events = if seq == 1 { "1 event".to_owned() } else { format!("{seq} events") };
            format!(
                "salvage the {events} before it into a new session, or {RESTORE}; what stands behind it may still be read \
                 (`show ID --from SEQ`): look before the session is removed"
            )
        }
        _ => RESTORE.to_owned(),
    };
    fault
}

fn counted(id: &SessionId, reason: String) -> Fault {
    let advice = "salvage the log into a new session, which is counted anew, and remove this one";
    Fault::new(FaultKind::Count, reason, advice).of(id)
}

/// A session with what is told of it, both of the same moment where that was to be had.
struct Opened {
    handle: Box<dyn SessionHandle>,
    snapshot: Snapshot,
    is_same_moment: bool,
}

impl Opened {
    fn new(store: &dyn SessionPersistence, id: &SessionId) -> Result<Option<Self>> {
        let mut opened = None;
        for _ in 0..TRIES {
            let Some(snapshot) = store.stat(id)?.filter(|told| told.state != SessionState::Pending) else {
                return Ok(None);
            };
            let handle = match store.open(id, OpenOptions::uninterpreted()) {
                Err(Error::NotFound { .. }) => return Ok(None),
                other => other?,
            };
            let is_same_moment = store.stat(id)?.is_some_and(|after| after.revision == snapshot.revision);
            opened = Some(Self { handle, snapshot, is_same_moment });
            if is_same_moment {
                break;
            }
        }
        Ok(opened)
    }
}

/// What one pass over a log finds.
#[derive(Default)]
struct Scan {
    events: u64,
    last_time: Option<i64>,
    /// The last event that marks the end of an inherited seed.
    mark: Option<u64>,
    is_damaged: bool,
}

impl Scan {
    /// Reads the log as far as it went when it was opened, and tells of every event that cannot be read.
    fn read(opened: &Opened, watch: &mut Watch<'_>) -> Result<Self> {
        let (handle, id) = (&*opened.handle, opened.handle.id());
        let mut pages = Pages::new(handle, &opened.snapshot, 0).wherever_it_ends();
        let mut scan = Self::default();
        let mut unreadable = Unreadable::default();
        loop {
            let at = pages.next_seq();
            match pages.next_page() {
                Ok(page) if page.is_empty() => break,
                Ok(page) => {
                    unreadable.tell(watch);
                    if !scan.take(handle, &page, at, watch) {
                        break;
                    }
                }
                Err(error @ Error::Io { .. }) if !error.is_out_of_files() => {
                    scan.is_damaged = true;
                    watch.fault(&of_error(id, &error).at_seq(at));
                    break;
                }
                Err(error @ Error::Corruption { .. }) => {
                    let is_first = !std::mem::replace(&mut scan.is_damaged, true);
                    let mut fault = Fault::damage(id, &error);
                    // Where the backend cannot read on behind damage it tells of the same again.
                    if fault.seq.is_some_and(|seq| seq < at) {
                        if is_first {
                            watch.fault(&advised(fault));
                        }
                        break;
                    }
                    fault.seq.get_or_insert(at);
                    unreadable.add(fault, watch);
                    if unreadable.in_a_row == MOST_UNREADABLE {
                        unreadable.is_given_up = true;
                        break;
                    }
                    pages.skip();
                }
                Err(error) => return Err(error),
            }
            watch.tell(Progress::Reading { session: id, read: scan.events, of: opened.snapshot.event_count });
        }
        unreadable.tell(watch);
        Ok(scan)
    }

    /// Takes the events that stand from `at` on; whether they do.
    fn take(&mut self, handle: &dyn SessionHandle, page: &[SessionEvent], at: u64, watch: &mut Watch<'_>) -> bool {
        for (event, expected) in page.iter().zip(at..) {
            let found = event.seq().get();
            if found != expected {
                self.is_damaged = true;
                let reason = format!("seq {found} stands where {expected} comes next");
                watch.fault(&advised(Fault::new(FaultKind::Damage, reason, "").of(handle.id()).at_seq(expected)));
                return false;
            }
            self.events += 1;
            self.last_time = Some(event.time());
            if checks::has_seed_mark(handle.header())
                && let Some(mark) = checks::inherited_mark(event)
            {
                self.mark = Some(mark.get());
            }
        }
        true
    }

    /// Where what is told of the log differs from it.
    fn differences(&self, opened: &Opened, is_unchanged: bool) -> Vec<Fault> {
        let Opened { handle, snapshot, is_same_moment } = opened;
        let mut faults = Vec::new();
        let mut differs = |what: String| faults.push(counted(handle.id(), what));
        let events = self.events;
        if let Some(told) = snapshot.event_count.filter(|told| *told != events) {
            differs(format!("the store tells of {told} events, and its log has {events}"));
        } else if let Some(told) = snapshot.last_time.filter(|told| self.last_time != Some(*told))
            && (snapshot.event_count.is_some() || is_unchanged)
        {
            let last = self.last_time.map_or_else(|| "none".to_owned(), |time| time.to_string());
            differs(format!("the store tells of a last event at {told} ms, and the log's is at {last}"));
        }
        let header = handle.header();
        let inherited = match header.seed_length() {
            Some(length) => Some(length),
            None if !header.is_seeded() => Some(0),
            // As long as the log has no mark, what was told when it was created counts.
            None => self.mark,
        };
        let told = handle.inherited_event_count();
        if let Some(inherited) = inherited.filter(|inherited| *inherited != told && *is_same_moment) {
            differs(format!("the store tells of {told} inherited events, and its log of {inherited}"));
        }
        faults
    }
}

/// Events that cannot be read: those in a row for the same reason are told as one fault.
#[derive(Default)]
struct Unreadable {
    run: Option<Fault>,
    length: u64,
    /// How many in a row, for whatever reasons.
    in_a_row: u64,
    is_given_up: bool,
}

impl Unreadable {
    fn add(&mut self, fault: Fault, watch: &mut Watch<'_>) {
        self.in_a_row += 1;
        match &self.run {
            Some(run) if run.reason == fault.reason && run.seq.map(|seq| seq + self.length) == fault.seq => {
                self.length += 1;
            }
            _ => {
                let in_a_row = self.in_a_row;
                self.tell(watch);
                (self.run, self.length, self.in_a_row) = (Some(fault), 1, in_a_row);
            }
        }
    }

    /// Tells of those that were added since.
    fn tell(&mut self, watch: &mut Watch<'_>) {
        let Self { run, length, is_given_up, .. } = std::mem::take(self);
        let Some(mut fault) = run else { return };
        match length {
            0 | 1 => {}
            2 => fault.reason += "; the event behind it as well",
            more => fault.reason += &format!("; the {} events behind it as well", more - 1),
        }
        if is_given_up {
            fault.reason += ", and the rest of the log was not checked";
        }
        watch.fault(&advised(fault));
    }
}
