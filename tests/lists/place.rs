//! Stores with many sessions.

use std::path::Path;
use std::sync::Arc;

use session_persistence::{
    CreateOptions, Encoding, Json, JsonlOptions, JsonlStore, SessionEvent, SessionHeader, SessionId,
    SessionPersistence, SqliteStore,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Raw,
    Zstd,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Sqlite, Self::Raw, Self::Zstd];

    pub(crate) fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| format!("{kind:?}") == name).unwrap()
    }

    pub(crate) fn open(self, folder: &Path) -> Arc<dyn SessionPersistence> {
        let root = folder.join(format!("{self:?}"));
        let files = |encoding| JsonlStore::open_with(&root, JsonlOptions::default().with_encoding(encoding)).unwrap();
        match self {
            Self::Sqlite => Arc::new(SqliteStore::open(folder.join("sessions.db")).unwrap()),
            Self::Raw => Arc::new(files(Encoding::Raw)),
            Self::Zstd => Arc::new(files(Encoding::Zstd)),
        }
    }
}

/// Stores sessions of turns: a message of a few kilobytes between short events, some of which no compression makes small.
pub(crate) fn fill(store: &dyn SessionPersistence, sessions: usize, bytes: usize) {
    let mut random = fastrand::Rng::with_seed(7);
    let noise: String = std::iter::repeat_with(|| random.alphanumeric()).take(1 << 20).collect();
    for n in 0..sessions {
        let id = SessionId::new(format!("0196b3c2-{n:04}-7a7a-8c8c-0123456789ab")).unwrap();
        let header = SessionHeader::new(id, 1_700_000_000_000 + (n as u64 * 7919) % 100_000).unwrap();
        let header = header.with_cwd(format!("/home/somebody/projects/number-{}", n % 20));
        let header = if n % 3 == 0 { header.with_parent_session("0196b3c2") } else { header };
        let handle = store.create(&header, CreateOptions::default()).unwrap();
        let mut batch = Vec::new();
        let mut size = 0;
        let mut seq = 0;
        while size < bytes {
            let text = &noise[random.usize(..noise.len() - 2_000)..][..2_000];
            let short = |event_type: &str, data: &str, seq| {
                SessionEvent::new(event_type, seq, 1_700_000_000_000, Json::parse(data).unwrap()).unwrap()
            };
            batch.push(short("turn/start", r#"{"turn":1}"#, seq));
            batch.push(short(
                "user/message",
                &format!(r#"{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}"#),
                seq + 1,
            ));
            batch.push(short("turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#, seq + 2));
            seq += 3;
            size += 2_300;
            if batch.len() >= 30 {
                handle.append(&std::mem::take(&mut batch)).unwrap();
            }
        }
        if !batch.is_empty() {
            handle.append(&batch).unwrap();
        }
        handle.close().unwrap();
    }
}
