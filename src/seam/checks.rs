//! The rules that every backend applies in the same way: pure functions over values.

use super::{CreateOptions, Error, FormatProblem, Result};
use crate::log::payload::EndSeed;
use crate::log::{Seq, SessionEvent, SessionHeader, SessionId, Vocabulary};

/// The event that marks the end of a seed.
pub(crate) const END_SEED: &str = "session/end-seed";

/// The inherited event count of a session that is created with `options`.
///
/// # Errors
///
/// `InvalidArgument` when header and options contradict each other.
pub fn check_create(header: &SessionHeader, options: CreateOptions) -> Result<u64> {
    let refuse = |reason: String| Err(Error::InvalidArgument { session: Some(header.id().clone()), reason });
    let given = options.inherited_event_count;
    if given.is_some_and(|n| n > Seq::MAX.get()) {
        return refuse(format!("an inherited event count is at most {}", Seq::MAX));
    }
    if let Some(length) = header.seed_length() {
        return match given {
            None => Ok(length),
            Some(n) if n == length => Ok(n),
            Some(n) => refuse(format!("the header's seed length is {length}, the inherited event count {n}")),
        };
    }
    match (header.is_seeded(), given) {
        (true, Some(n)) => Ok(n),
        (true, None) => refuse("a seeded header needs an inherited event count".to_owned()),
        (false, None | Some(0)) => Ok(0),
        (false, Some(n)) => refuse(format!("the header is not seeded, so {n} events cannot be inherited")),
    }
}

/// Checks that `events` continue a log whose next seq is `expected`, without a gap inside.
///
/// # Errors
///
/// `NotContiguous` with the first event that does not.
pub fn check_contiguous(session: &SessionId, expected: u64, events: &[SessionEvent]) -> Result<()> {
    for (index, event) in events.iter().enumerate() {
        let expected = expected + index as u64;
        let found = event.seq().get();
        if found != expected {
            return Err(Error::NotContiguous { session: session.clone(), index, expected, found });
        }
    }
    Ok(())
}

/// Checks that a log of format `version` can be interpreted.
///
/// # Errors
///
/// `FormatUnsupported` that says which way the versions differ.
pub fn check_version(session: &SessionId, version: u32, vocabulary: &Vocabulary) -> Result<()> {
    let known = vocabulary.version();
    let problem = match version.cmp(&known) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Less => FormatProblem::OlderFormat { found: version, known },
        std::cmp::Ordering::Greater => FormatProblem::NewerFormat { found: version, known },
    };
    Err(Error::FormatUnsupported { session: session.clone(), problem })
}

/// Checks the types of a log, given for each type the first event that is not marked ignorable.
///
/// # Errors
///
/// `FormatUnsupported` with the earliest event of unknown type.
pub fn check_types<'a>(
    session: &SessionId,
    first_required: impl IntoIterator<Item = (&'a str, Seq)>,
    vocabulary: &Vocabulary,
) -> Result<()> {
    let unknown = first_required.into_iter().filter(|(t, _)| !vocabulary.knows(t)).min_by_key(|(_, seq)| *seq);
    match unknown {
        None => Ok(()),
        Some((event_type, seq)) => Err(Error::FormatUnsupported {
            session: session.clone(),
            problem: FormatProblem::UnknownEvent { seq, event_type: event_type.to_owned() },
        }),
    }
}

/// Checks a whole stored log in the order in which its problems count: its version, then the types of all its events,
/// and only then that it is dense from 0, so that a log of a newer program is never taken for a damaged one.
///
/// # Errors
///
/// `FormatUnsupported`, then `Corruption`.
pub fn validate_stored_events(header: &SessionHeader, events: &[SessionEvent], vocabulary: &Vocabulary) -> Result<()> {
    let session = header.id();
    check_version(session, header.version(), vocabulary)?;
    let required = events.iter().filter(|e| !e.is_ignorable());
    check_types(session, required.map(|e| (e.event_type(), e.seq())), vocabulary)?;
    match check_contiguous(session, 0, events) {
        Err(Error::NotContiguous { expected, found, .. }) => Err(Error::Corruption {
            session: session.clone(),
            seq: Seq::new(expected),
            offset: None,
            reason: format!("the stored log goes on with seq {found}"),
        }),
        other => other,
    }
}

/// The inherited event count that a log itself tells: its seed length in formats 0 and 1, later the seq of the last
/// event that marks the end of an inherited seed.
pub fn inherited_event_count<'a>(header: &SessionHeader, events: impl IntoIterator<Item = &'a SessionEvent>) -> u64 {
    match header.seed_length() {
        Some(length) => length,
        None if has_seed_mark(header) => events.into_iter().filter_map(inherited_mark).last().map_or(0, Seq::get),
        None => 0,
    }
}

/// Whether the log of such a header marks the end of its inherited seed by an event.
pub(crate) fn has_seed_mark(header: &SessionHeader) -> bool {
    header.is_seeded() && header.seed_length().is_none()
}

/// The seq of an event that marks the end of an inherited seed, in a log that [has such marks](has_seed_mark).
pub(crate) fn inherited_mark(event: &SessionEvent) -> Option<Seq> {
    let marks = event.event_type() == END_SEED && event.data_as::<EndSeed>().is_ok_and(|d| d.inherited);
    marks.then(|| event.seq())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Json;
    use crate::seam::ErrorKind;

    fn event(event_type: &str, seq: u64) -> SessionEvent {
        SessionEvent::new(event_type, seq, 0, Json::parse("{}").unwrap()).unwrap()
    }

    fn header() -> SessionHeader {
        SessionHeader::new(SessionId::new("s").unwrap(), 0).unwrap()
    }

    #[test]
    fn a_seed_and_its_count_must_agree() {
        assert_eq!(check_create(&header(), CreateOptions::default()).unwrap(), 0);
        assert_eq!(check_create(&header(), CreateOptions::inheriting(0)).unwrap(), 0);
        check_create(&header(), CreateOptions::inheriting(1)).unwrap_err();
        let seeded = header().with_seed();
        check_create(&seeded, CreateOptions::default()).unwrap_err();
        assert_eq!(check_create(&seeded, CreateOptions::inheriting(3)).unwrap(), 3);
        check_create(&seeded, CreateOptions::inheriting(1 << 53)).unwrap_err();
        let old = r#"{"type":"session","version":0,"id":"s","createdAt":0,"seedLength":2}"#;
        let old = SessionHeader::parse(old.as_bytes()).unwrap();
        assert_eq!(check_create(&old, CreateOptions::default()).unwrap(), 2);
        check_create(&old, CreateOptions::inheriting(3)).unwrap_err();
    }

    #[test]
    fn refusal_outranks_corruption_and_the_version_outranks_the_types() {
        let v3 = Vocabulary::v3();
        let broken = [event("turn/start", 0), event("turn/end", 5), event("acme/pulse", 9)];
        let error = validate_stored_events(&header(), &broken, &v3).unwrap_err();
        assert!(error.to_string().contains("acme/pulse") && error.to_string().contains("seq 9"), "{error}");
        let error = validate_stored_events(&header(), &broken[..2], &v3).unwrap_err();
        assert!(matches!(error, Error::Corruption { seq: Some(seq), .. } if seq.get() == 1), "{error}");
        let newer = header().with_version(4);
        let error = validate_stored_events(&newer, &broken, &v3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FormatUnsupported);
        assert!(error.to_string().contains("format 4"), "{error}");
        let marked = [event("turn/start", 0), event("acme/pulse", 1).into_ignorable()];
        validate_stored_events(&header(), &marked, &v3).unwrap();
    }

    #[test]
    fn the_last_inherited_mark_counts() {
        let mark = |seq, data: &str| SessionEvent::new(END_SEED, seq, 0, Json::parse(data).unwrap()).unwrap();
        let events = [mark(0, r#"{"inherited":true}"#), mark(1, "{}"), mark(2, r#"{"inherited":true}"#), mark(3, "{}")];
        assert_eq!(inherited_event_count(&header().with_seed(), &events), 2);
        assert_eq!(inherited_event_count(&header(), &events), 0, "no seed, so no mark counts");
        let old = SessionHeader::parse(br#"{"type":"session","version":0,"id":"s","createdAt":0,"seedLength":1}"#);
        assert_eq!(inherited_event_count(&old.unwrap(), &events), 1, "the header tells");
    }
}
