//! Events as the values of a row, and back.

use super::envelope::{Envelope, Key};
use super::event::Rare;
use super::text::{source_event_seqs, surface_op};
use super::{InvalidRecord, Json, SessionEvent, SurfaceOp};

impl SessionEvent {
    /// Whether the line has a spelling of its own beyond the order of its keys.
    pub(crate) fn is_spelled(&self) -> bool {
        matches!(self.envelope(), Envelope::Spelled { .. })
    }

    /// A bound of the bytes of the line, cheaper than the line itself.
    pub(crate) fn line_bound(&self) -> usize {
        // Six bytes for a character of the type that is escaped, 17 for a seq, and room for all keys and numbers.
        let spelled = match self.envelope() {
            Envelope::Spelled { line, .. } => line.len(),
            _ => 0,
        };
        let opaque = match self.surface_op() {
            Some(SurfaceOp::Opaque(json)) => json.as_str().len(),
            _ => 0,
        };
        let seqs = self.source_event_seqs().map_or(0, <[_]>::len);
        self.data().as_str().len() + 6 * self.event_type().len() + 17 * seqs + opaque + spelled + 256
    }
}

/// The values of an event as a store holds them beside its seq, time and data.
#[derive(Debug, Default)]
pub(crate) struct StoredValues<'a> {
    pub(crate) source_event_seqs: Option<&'a str>,
    pub(crate) surface_op: Option<&'a str>,
    pub(crate) ignorable: bool,
    pub(crate) envelope: Option<&'a str>,
}

/// Rebuilds an event from stored values.
pub(crate) fn stored_event(
    event_type: &str,
    seq: u64,
    time: i64,
    data: &str,
    rest: &StoredValues<'_>,
) -> Result<SessionEvent, InvalidRecord> {
    let mut event = SessionEvent::new(event_type, seq, time, Json::trusted(data))?;
    if rest.source_event_seqs.is_some() || rest.surface_op.is_some() || rest.ignorable || rest.envelope.is_some() {
        event.rare = Some(
            Rare {
                source_event_seqs: match rest.source_event_seqs {
                    Some(text) => Some(source_event_seqs(text, event.seq)?.0),
                    None => None,
                },
                surface_op: match rest.surface_op {
                    Some(text) => Some(surface_op(text, rest.ignorable)?),
                    None => None,
                },
                ignorable: rest.ignorable,
                envelope: Envelope::from_code(rest.envelope)?,
            }
            .into(),
        );
    }
    Ok(event)
}

impl Key {
    fn letter(self) -> char {
        match self {
            Key::Type => 't',
            Key::Seq => 's',
            Key::Time => 'm',
            Key::Data => 'd',
            Key::SourceEventSeqs => 'c',
            Key::SurfaceOp => 'o',
            Key::Ignorable => 'i',
        }
    }
}

impl Envelope {
    /// A short code to store beside the values: nothing for the usual order, a letter a key for another order, and for
    /// another spelling the place of the data, a colon and the line without it.
    pub(crate) fn to_code(&self) -> Option<String> {
        match self {
            Self::Standard => None,
            Self::Ordered(keys) => Some(keys.iter().map(|k| k.letter()).collect()),
            Self::Spelled { line, data_at } => Some(format!("{data_at}:{line}")),
        }
    }

    /// The envelope of a stored code.
    pub(crate) fn from_code(code: Option<&str>) -> Result<Self, InvalidRecord> {
        let Some(code) = code else { return Ok(Self::Standard) };
        let invalid = || InvalidRecord::new(format!("the envelope code {code:?} is not one"));
        if let Some((at, line)) = code.split_once(':') {
            let data_at = at.parse().map_err(|_| invalid())?;
            if !line.is_char_boundary(data_at) {
                return Err(invalid());
            }
            return Ok(Self::Spelled { line: line.into(), data_at });
        }
        let keys = code.chars().map(|c| Key::ALL.into_iter().find(|k| k.letter() == c));
        keys.collect::<Option<Box<[Key]>>>().map(Self::Ordered).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_envelope_survives_its_code() {
        let spelled = Envelope::Spelled { line: r#"{"data": , "type":"é:"}"#.into(), data_at: 9 };
        for envelope in [Envelope::Standard, Envelope::Ordered(Box::new([Key::Data, Key::Type])), spelled] {
            let code = envelope.to_code();
            assert_eq!(Envelope::from_code(code.as_deref()).unwrap(), envelope);
        }
        for bad in ["x", "9:{}", "a:{}", "1:é"] {
            Envelope::from_code(Some(bad)).expect_err(bad);
        }
    }
}
