//! [`Archive`]: ZIP archives byte by byte, with anything wrong in them.

use std::io::Write as _;

/// An entry of an archive. What the local record tells is what the directory tells, unless it is changed.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) local_name: Vec<u8>,
    pub(crate) packed: Vec<u8>,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    pub(crate) size: u32,
    pub(crate) checksum: u32,
    pub(crate) attributes: u32,
    /// The place of another entry, whose bytes this one has in the directory.
    pub(crate) shares: Option<usize>,
}

/// An archive of stored entries.
#[derive(Clone, Default)]
pub(crate) struct Archive {
    pub(crate) before: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
    /// Bytes behind each entry.
    pub(crate) between: Vec<u8>,
    pub(crate) comment: Vec<u8>,
    pub(crate) after: Vec<u8>,
}

impl Entry {
    pub(crate) fn stored(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Self {
        let content = content.as_ref().to_vec();
        let mut crc = flate2::Crc::new();
        crc.update(&content);
        Self {
            name: name.as_ref().to_vec(),
            local_name: name.as_ref().to_vec(),
            size: content.len() as u32,
            checksum: crc.sum(),
            packed: content,
            method: 0,
            flags: 0,
            attributes: 0o100_600 << 16,
            shares: None,
        }
    }

    pub(crate) fn deflated(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Self {
        let mut entry = Self::stored(name, content);
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(9));
        encoder.write_all(&entry.packed).unwrap();
        entry.packed = encoder.finish().unwrap();
        entry.method = 8;
        entry
    }

    fn fields(&self, out: &mut Vec<u8>) {
        for field in [20, self.flags, self.method, 0, 0x21] {
            out.extend(field.to_le_bytes());
        }
        for field in [self.checksum, self.packed.len() as u32, self.size] {
            out.extend(field.to_le_bytes());
        }
    }
}

impl Archive {
    pub(crate) fn of(entries: impl IntoIterator<Item = Entry>) -> Self {
        Self { entries: entries.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = self.before.clone();
        let mut starts = Vec::new();
        for entry in &self.entries {
            starts.push(entry.shares.map_or(out.len(), |other| starts[other]));
            if entry.shares.is_some() {
                continue;
            }
            out.extend(b"PK\x03\x04");
            entry.fields(&mut out);
            out.extend((entry.local_name.len() as u16).to_le_bytes());
            out.extend([0, 0]);
            out.extend(&entry.local_name);
            out.extend(&entry.packed);
            out.extend(&self.between);
        }
        let directory = out.len();
        for (entry, start) in self.entries.iter().zip(&starts) {
            out.extend(b"PK\x01\x02\x14\x03");
            entry.fields(&mut out);
            out.extend((entry.name.len() as u16).to_le_bytes());
            out.extend([0; 8]);
            out.extend(entry.attributes.to_le_bytes());
            out.extend((*start as u32).to_le_bytes());
            out.extend(&entry.name);
        }
        let size = out.len() - directory;
        out.extend(b"PK\x05\x06\0\0\0\0");
        for _ in 0..2 {
            out.extend((self.entries.len() as u16).to_le_bytes());
        }
        out.extend((size as u32).to_le_bytes());
        out.extend((directory as u32).to_le_bytes());
        out.extend((self.comment.len() as u16).to_le_bytes());
        out.extend(&self.comment);
        out.extend(&self.after);
        out
    }
}
