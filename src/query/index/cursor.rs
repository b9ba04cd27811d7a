//! [`SearchCursor`]: where a page of a search starts.

use std::cmp::Reverse;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;

use super::hit::Rank;
use super::{IndexError, IndexResult};

/// Where a page of a search starts: opaque, to be handed back with the same query. What is stored meanwhile neither doubles nor
/// hides an event that did not change; once the index is made anew, the cursor is refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SearchCursor(String);

impl SearchCursor {
    pub(super) fn behind(index: &str, query: u64, rank: &Rank) -> Self {
        let Rank { matches: Reverse(matches), length, time: Reverse(time), seq: Reverse(seq), session } = rank;
        let text = format!("1:{index}:{query:x}:{matches}:{length}:{time}:{seq}:{session}");
        Self(BASE64URL_NOPAD.encode(text.as_bytes()))
    }

    pub(super) fn rank(&self, index: &str, query: u64) -> IndexResult<Rank> {
        let refused = |reason| IndexError::InvalidCursor { reason };
        let foreign = || refused("it is not one of a search");
        let bytes = BASE64URL_NOPAD.decode(self.0.as_bytes()).map_err(|_| foreign())?;
        let text = String::from_utf8(bytes).map_err(|_| foreign())?;
        let parts: Vec<_> = text.splitn(8, ':').collect();
        let [version, of_index, of_query, matches, length, time, seq, session] = parts[..] else {
            return Err(foreign());
        };
        if version != "1" {
            return Err(foreign());
        }
        if of_index != index {
            return Err(refused("it was given by another index, or by this one before it was made anew"));
        }
        if of_query != format!("{query:x}") {
            return Err(refused("it was given by a search for something else"));
        }
        let number = |text: &str| text.parse().map_err(|_| foreign());
        Ok(Rank {
            matches: Reverse(number(matches)?),
            length: number(length)?,
            time: Reverse(time.parse().map_err(|_| foreign())?),
            seq: Reverse(number(seq)?),
            session: session.to_owned(),
        })
    }
}

impl fmt::Display for SearchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SearchCursor {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}
