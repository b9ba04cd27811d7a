//! [`Envelope`]: what a line spells beyond the values of its event.

use std::sync::Arc;

use super::InvalidRecord;

/// The keys of an event's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Type,
    Seq,
    Time,
    Data,
    SourceEventSeqs,
    SurfaceOp,
    Ignorable,
}

impl Key {
    /// The usual order.
    pub(crate) const ALL: [Key; 7] =
        [Key::Type, Key::Seq, Key::Time, Key::Data, Key::SourceEventSeqs, Key::SurfaceOp, Key::Ignorable];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Key::Type => "type",
            Key::Seq => "seq",
            Key::Time => "time",
            Key::Data => "data",
            Key::SourceEventSeqs => "sourceEventSeqs",
            Key::SurfaceOp => "surfaceOp",
            Key::Ignorable => "ignorable",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Key> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }

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

/// What a line spells beyond the values of its event, kept so that the event is exported as the very line it came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Envelope {
    /// The usual key order, no white space, the usual spelling of every value.
    #[default]
    Standard,
    /// The usual spelling in another key order.
    Ordered(Box<[Key]>),
    /// Anything else: the line without its data, and the byte at which the data stands.
    Spelled { line: Arc<str>, data_at: usize },
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
