//! [`SessionEvent`]: one fact of a session, with its envelope.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::envelope::{Envelope, Key};
use super::{Json, NotLossless, Seq, text};

/// The types that files of older formats use for rows that pack several events; never the type of one event.
pub(crate) const PACKED_ROW_TYPES: [&str; 3] = ["text-chunks", "reasoning-chunks", "tool-call-chunks"];

/// The largest `time`, and with its sign changed the smallest: 2^53 - 1 milliseconds.
pub(crate) const MAX_TIME: i64 = (1 << 53) - 1;

/// One event of a session log: never changed once made, cheap to clone.
///
/// Two events are equal when their exported lines are equal, byte for byte.
///
/// ```
/// use serde::Serialize;
/// use session_persistence::{SessionEvent, SurfaceOp};
///
/// #[derive(Serialize)]
/// struct Turn { turn: u64 }
///
/// let event = SessionEvent::of("turn/start", 0, 1_700_000_000_000, &Turn { turn: 1 })?;
/// assert_eq!(event.to_line(), r#"{"type":"turn/start","seq":0,"time":1700000000000,"data":{"turn":1}}"#);
/// # Ok::<(), session_persistence::InvalidRecord>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SessionEvent {
    pub(super) event_type: Arc<str>,
    pub(super) seq: Seq,
    pub(super) time: i64,
    pub(super) data: Json,
    /// Most events carry none of these; an allocation only for those that do.
    pub(super) rare: Option<Arc<Rare>>,
}

/// What few events carry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rare {
    pub(super) source_event_seqs: Option<Vec<Seq>>,
    pub(super) surface_op: Option<SurfaceOp>,
    pub(super) ignorable: bool,
    pub(super) envelope: Envelope,
}

/// How an event changes what the model sees.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SurfaceOp {
    /// The event joins the surface at its end.
    Append,
    /// The event stands in the place of the surface nodes from `start_seq` to `end_seq`, both included (format 3).
    Replace {
        /// The first node that is replaced.
        start_seq: Seq,
        /// The last node that is replaced.
        end_seq: Seq,
    },
    /// The same in the spelling of the formats 0 to 2, whose keys are `start` and `end`.
    LegacyReplace {
        /// The first node that is replaced.
        start: Seq,
        /// The last node that is replaced.
        end: Seq,
    },
    /// Something that this crate does not interpret. Only an event that is marked ignorable may carry it.
    Opaque(Json),
}

impl SessionEvent {
    /// An event from data that is JSON text already. `time` is in milliseconds since 1970, may be negative and need not
    /// grow.
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`] when `seq` or `time` is beyond 2^53 - 1, or `event_type` is a name that marks packed rows.
    pub fn new(event_type: &str, seq: u64, time: i64, data: Json) -> Result<Self, InvalidRecord> {
        let place = Seq::new(seq).ok_or_else(|| InvalidRecord::new(format!("seq {seq} is beyond {}", Seq::MAX)))?;
        if !(-MAX_TIME..=MAX_TIME).contains(&time) {
            return Err(InvalidRecord::new(format!("time {time} is beyond {MAX_TIME} milliseconds")));
        }
        if PACKED_ROW_TYPES.contains(&event_type) {
            return Err(InvalidRecord::new(format!(
                "type {event_type:?} marks a row that packs several events and cannot be the type of one"
            )));
        }
        Ok(Self { event_type: super::vocabulary::shared_name(event_type), seq: place, time, data, rare: None })
    }

    /// An event from a Rust value; the same as [`Json::of`] and [`SessionEvent::new`].
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`] as in [`SessionEvent::new`], or with a [`NotLossless`] inside whose path starts at `data`.
    pub fn of<T: Serialize + ?Sized>(event_type: &str, seq: u64, time: i64, data: &T) -> Result<Self, InvalidRecord> {
        Self::new(event_type, seq, time, Json::of(data).map_err(|e| e.within("data"))?)
    }

    /// The same event, citing earlier events.
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`] when one of them is not earlier than this event.
    pub fn with_source_event_seqs(mut self, seqs: impl IntoIterator<Item = u64>) -> Result<Self, InvalidRecord> {
        let seqs = seqs.into_iter().map(|s| earlier(s, self.seq)).collect::<Result<_, _>>()?;
        self.rare_mut().source_event_seqs = Some(seqs);
        Ok(self)
    }

    /// The same event with a surface operation.
    ///
    /// # Errors
    ///
    /// [`InvalidRecord`] for [`SurfaceOp::Opaque`] on an event that is not marked ignorable.
    pub fn with_surface_op(mut self, op: SurfaceOp) -> Result<Self, InvalidRecord> {
        if matches!(op, SurfaceOp::Opaque(_)) && !self.is_ignorable() {
            return Err(InvalidRecord::new("surfaceOp is neither \"append\" nor a replacement of a range of seqs"));
        }
        // Text that is one of the known operations is that operation.
        let op = match &op {
            SurfaceOp::Opaque(json) => text::surface_op(json.as_str(), true)?,
            _ => op,
        };
        self.rare_mut().surface_op = Some(op);
        Ok(self)
    }

    /// The same event, marked `ignorable: true`: a reader that does not know its type may pass over it.
    #[must_use]
    pub fn into_ignorable(mut self) -> Self {
        self.rare_mut().ignorable = true;
        self
    }

    fn rare_mut(&mut self) -> &mut Rare {
        let rare = Arc::make_mut(self.rare.get_or_insert_default());
        rare.envelope = Envelope::Standard;
        rare
    }

    /// Its type, as in `tool/call`.
    pub fn event_type(&self) -> &str {
        &self.event_type
    }

    /// Its place in the log.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// When it happened, in milliseconds since 1970.
    pub fn time(&self) -> i64 {
        self.time
    }

    /// Its data, as text.
    pub fn data(&self) -> &Json {
        &self.data
    }

    /// Its data as a Rust value, as in `event.data_as::<payload::ToolCall>()`.
    ///
    /// # Errors
    ///
    /// As [`Json::to`].
    pub fn data_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.data.to()
    }

    /// The earlier events that it cites; nothing where it has no such list, which is not the same as an empty one.
    pub fn source_event_seqs(&self) -> Option<&[Seq]> {
        self.rare.as_ref()?.source_event_seqs.as_deref()
    }

    /// Its surface operation.
    pub fn surface_op(&self) -> Option<&SurfaceOp> {
        self.rare.as_ref()?.surface_op.as_ref()
    }

    /// Whether it is marked `ignorable: true`.
    pub fn is_ignorable(&self) -> bool {
        self.rare.as_ref().is_some_and(|r| r.ignorable)
    }

    /// The same event, its line with its keys in another order than the usual one. `keys` are all that it has.
    pub(super) fn in_key_order(mut self, keys: impl Into<Box<[Key]>>) -> Self {
        self.rare_mut().envelope = Envelope::Ordered(keys.into());
        self
    }

    /// How the line spells what the values do not tell: key order, white space, escapes.
    pub(crate) fn envelope(&self) -> &Envelope {
        self.rare.as_ref().map_or(&Envelope::Standard, |r| &r.envelope)
    }

    /// Its line in an exported log, without the line feed.
    pub fn to_line(&self) -> String {
        let mut line = String::with_capacity(self.data.as_str().len() + 128);
        text::write_event(&mut line, self);
        line
    }
}

pub(super) fn earlier(source: u64, seq: Seq) -> Result<Seq, InvalidRecord> {
    match Seq::new(source) {
        Some(s) if s < seq => Ok(s),
        _ => Err(InvalidRecord::new(format!("sourceEventSeqs names {source}, which is not earlier than seq {seq}"))),
    }
}

impl fmt::Debug for SessionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_line())
    }
}

/// A header or an event that breaks a rule of the format, or a line of text that is neither.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InvalidRecord {
    reason: String,
    not_lossless: Option<NotLossless>,
}

impl InvalidRecord {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), not_lossless: None }
    }

    /// Which rule, and what was found.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The value that JSON cannot carry, where that is the reason.
    pub fn not_lossless(&self) -> Option<&NotLossless> {
        self.not_lossless.as_ref()
    }
}

impl From<NotLossless> for InvalidRecord {
    fn from(e: NotLossless) -> Self {
        Self { reason: e.to_string(), not_lossless: Some(e) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_value_that_json_cannot_carry_starts_at_data() {
        let error = SessionEvent::of("x", 0, 0, &[[f64::NAN]]).unwrap_err();
        assert_eq!(error.not_lossless().unwrap().path(), "data[0][0]");
        let error = SessionEvent::of("x", 0, 0, &std::collections::BTreeMap::from([("k", -0.0)])).unwrap_err();
        assert_eq!(error.not_lossless().unwrap().path(), "data.k");
    }

    #[test]
    fn places_and_times_stay_inside_what_a_double_holds() {
        let null = Json::parse("null").unwrap();
        SessionEvent::new("x", 1 << 53, 0, null.clone()).unwrap_err();
        SessionEvent::new("x", 0, 1 << 53, null.clone()).unwrap_err();
        SessionEvent::new("x", 0, -(1 << 53), null.clone()).unwrap_err();
        SessionEvent::new("x", (1 << 53) - 1, -MAX_TIME, null).unwrap();
    }

    #[test]
    fn names_of_packed_rows_are_no_event_types() {
        for name in PACKED_ROW_TYPES {
            SessionEvent::new(name, 0, 0, Json::parse("{}").unwrap()).unwrap_err();
        }
    }

    #[test]
    fn a_citation_must_be_earlier_and_an_opaque_operation_ignorable() {
        let event = SessionEvent::new("x", 2, 0, Json::parse("1").unwrap()).unwrap();
        event.clone().with_source_event_seqs([0, 2]).unwrap_err();
        let opaque = SurfaceOp::Opaque(Json::parse("[1]").unwrap());
        event.clone().with_surface_op(opaque.clone()).unwrap_err();
        let event = event.into_ignorable().with_surface_op(opaque).unwrap();
        assert_eq!(event.to_line(), r#"{"type":"x","seq":2,"time":0,"data":1,"surfaceOp":[1],"ignorable":true}"#);
    }
}
