//! Where a session is, while others remove it in one project folder and make it in another.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::Duration;

use super::disk::Stat;
use super::files::Files;
use super::layout::Found;
use crate::log::SessionId;

/// How often it is looked again for what cannot be, or is about to be gone. A search passes from folder to folder, and what
/// it finds was never there at the same time.
pub(super) const LOOKS: usize = 10;

impl Files {
    /// All places of a session. There are several only where all were there at the same time, or as often as it was looked.
    pub(super) fn find_places(&self, id: &SessionId) -> io::Result<Vec<Found>> {
        let mut found = self.layout.find(id)?;
        for _ in 1..LOOKS {
            if found.len() < 2 {
                break;
            }
            let before = self.looks_of(&found)?;
            let again = self.layout.find(id)?;
            if again == found && before.is_some() && self.looks_of(&again)? == before {
                break;
            }
            found = again;
            pause();
        }
        Ok(found)
    }

    /// How what was found looks; nothing where some of it is gone.
    fn looks_of(&self, found: &[Found]) -> io::Result<Option<Vec<Stat>>> {
        let look = |found: &Found| match found {
            Found::One(place) => self.disk.stat(&place.log()),
            Found::Unclear { folder, .. } => self.disk.stat(folder),
        };
        match found.iter().map(look).collect() {
            Ok(looks) => Ok(Some(looks)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Waits for a moment, and not in step with those who change what is looked for.
pub(super) fn pause() {
    std::thread::sleep(Duration::from_micros(50 + RandomState::new().hash_one(0) % 1000));
}
