//! A backend of one's own: sessions in a key-value store, as an embedded database gives one, written against the public
//! seam and held to its promises by the contract suite.
//!
//! `cargo run --example third_party_backend --features contract` runs every case and tells how many passed; under
//! `cargo test` each case is a test of its own.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use session_persistence::contract::{CASES, Capabilities, Fixture, Unsupported};
use session_persistence::{
    Access, CreateOptions, Error, Holder, ListQuery, OpenOptions, Page, Removal, Result, Revision, Seq, SeqRange,
    SessionEvent, SessionHandle, SessionHeader, SessionId, SessionPersistence, SessionState, Snapshot, Vocabulary,
    checks, payload, text,
};

/// Numbers the places and the stores of this process.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Where sessions are kept: ordered maps, and one lock that makes a transaction of every call.
struct Place {
    number: u64,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    /// Every event as its line.
    lines: BTreeMap<(SessionId, u64), String>,
    /// What is known of each stored session without reading its lines.
    sessions: BTreeMap<SessionId, Row>,
    /// The writers, of whatever store over this place.
    writers: BTreeMap<SessionId, Writer>,
    /// The last number that was given: to a session, or to a write.
    last_number: u64,
}

#[derive(Clone)]
struct Row {
    /// Which session of its id it is: one that is removed and made anew has another number.
    number: u64,
    header: SessionHeader,
    inherited: u64,
    count: u64,
    size_bytes: u64,
    last_time: Option<i64>,
    last_write: u64,
    /// Each type, and the first event of it that no reader may pass over.
    required: BTreeMap<String, Seq>,
}

struct Writer {
    store: u64,
    number: u64,
    holder: Holder,
    /// What is to be stored with the first batch; nothing once it is.
    pending: Option<(SessionHeader, u64)>,
}

impl Place {
    fn new() -> Arc<Self> {
        Arc::new(Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed), tables: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The writer of a session as a store sees it: what another one has created and not stored is not there for it.
    fn writer(&self, id: &SessionId, store: u64) -> Option<&Writer> {
        self.writers.get(id).filter(|writer| writer.pending.is_none() || writer.store == store)
    }

    fn check_free(&self, id: &SessionId, store: u64) -> Result<()> {
        match self.writer(id, store) {
            Some(writer) => Err(Error::AlreadyOwned { session: id.clone(), holder: writer.holder.clone() }),
            None => Ok(()),
        }
    }

    fn row(&self, id: &SessionId) -> Result<&Row> {
        self.sessions.get(id).ok_or_else(|| Error::NotFound { session: id.clone() })
    }

    fn remove(&mut self, id: &SessionId) -> bool {
        self.lines.retain(|(session, _), _| session != id);
        self.sessions.remove(id).is_some()
    }

    /// Stores the header of a session that was created.
    fn store_header(&mut self, id: &SessionId) {
        let Some(writer) = self.writers.get_mut(id) else { return };
        let (number, Some((header, inherited))) = (writer.number, writer.pending.take()) else { return };
        let size_bytes = header.to_line().len() as u64 + 1;
        let last_write = self.next_number();
        let row = Row {
            number,
            header,
            inherited,
            count: 0,
            size_bytes,
            last_time: None,
            last_write,
            required: BTreeMap::new(),
        };
        self.sessions.insert(id.clone(), row);
    }

    fn store_events(&mut self, id: &SessionId, events: &[SessionEvent]) {
        let write = self.next_number();
        let Some(row) = self.sessions.get_mut(id) else { return };
        row.last_write = write;
        for event in events {
            let line = event.to_line();
            row.count += 1;
            row.size_bytes += line.len() as u64 + 1;
            row.last_time = Some(event.time());
            if row.header.is_seeded() && row.header.seed_length().is_none() && ends_inherited_seed(event) {
                row.inherited = event.seq().get();
            }
            if !event.is_ignorable() && !row.required.contains_key(event.event_type()) {
                row.required.insert(event.event_type().to_owned(), event.seq());
            }
            self.lines.insert((id.clone(), event.seq().get()), line);
        }
    }
}

fn ends_inherited_seed(event: &SessionEvent) -> bool {
    event.event_type() == "session/end-seed" && event.data_as::<payload::EndSeed>().is_ok_and(|data| data.inherited)
}

impl Row {
    fn check_interpretable(&self, vocabulary: &Vocabulary) -> Result<()> {
        let id = self.header.id();
        checks::check_version(id, self.header.version(), vocabulary)?;
        checks::check_types(id, self.required.iter().map(|(name, seq)| (&**name, *seq)), vocabulary)
    }
}

/// A store over a place; several may be open at once.
struct KeyValueStore {
    shared: Arc<Shared>,
}

struct Shared {
    place: Arc<Place>,
    number: u64,
    vocabulary: Vocabulary,
}

impl KeyValueStore {
    fn open(place: &Arc<Place>) -> Arc<dyn SessionPersistence> {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let shared = Shared { place: place.clone(), number, vocabulary: Vocabulary::v3() };
        Arc::new(Self { shared: Arc::new(shared) })
    }

    fn handle(
        &self,
        number: u64,
        header: SessionHeader,
        inherited: u64,
        options: OpenOptions,
    ) -> Box<dyn SessionHandle> {
        let shared = self.shared.clone();
        Box::new(Handle { shared, number, header, inherited, options, is_closed: AtomicBool::new(false) })
    }
}

impl Shared {
    fn claim(&self, tables: &mut Tables, id: &SessionId, number: u64, pending: Option<(SessionHeader, u64)>) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64);
        let holder = Holder::new(std::process::id(), "", since);
        tables.writers.insert(id.clone(), Writer { store: self.number, number, holder, pending });
    }

    fn told(&self, tables: &Tables, row: &Row) -> Snapshot {
        // Equal logs of other places, or of another session of this id, have other revisions.
        let revision = format!("{}:{}:{}:{}", std::process::id(), self.place.number, row.number, row.last_write);
        let mut snapshot = Snapshot::new(row.header.clone(), Revision::new(revision), &self.vocabulary);
        snapshot.event_count = Some(row.count);
        snapshot.size_bytes = Some(row.size_bytes);
        snapshot.last_time = row.last_time;
        snapshot.activity = row.last_write;
        snapshot.owner = tables.writer(row.header.id(), self.number).map(|writer| writer.holder.clone());
        snapshot
    }

    /// A session that was created through this store and is not stored yet.
    fn told_pending(&self, writer: &Writer) -> Option<Snapshot> {
        let (header, _) = writer.pending.as_ref().filter(|_| writer.store == self.number)?;
        let revision = format!("{}:{}:{}:pending", std::process::id(), self.place.number, writer.number);
        let mut snapshot = Snapshot::new(header.clone(), Revision::new(revision), &self.vocabulary);
        snapshot.state = SessionState::Pending;
        snapshot.event_count = Some(0);
        // Before all that is stored.
        snapshot.activity = Snapshot::PENDING_ACTIVITY + writer.number;
        snapshot.owner = Some(writer.holder.clone());
        Some(snapshot)
    }
}

impl SessionPersistence for KeyValueStore {
    fn create(&self, header: &SessionHeader, options: CreateOptions) -> Result<Box<dyn SessionHandle>> {
        let inherited = checks::check_create(header, options)?;
        let mut tables = self.shared.place.lock();
        let id = header.id();
        if tables.writers.contains_key(id) || tables.sessions.contains_key(id) {
            return Err(Error::AlreadyExists { session: id.clone() });
        }
        let number = tables.next_number();
        self.shared.claim(&mut tables, id, number, Some((header.clone(), inherited)));
        Ok(self.handle(number, header.clone(), inherited, OpenOptions::write()))
    }

    fn open(&self, id: &SessionId, options: OpenOptions) -> Result<Box<dyn SessionHandle>> {
        let mut tables = self.shared.place.lock();
        if options.access() == Access::Write {
            tables.check_free(id, self.shared.number)?;
        } else if let Some(writer) = tables.writer(id, self.shared.number)
            && let Some((header, inherited)) = &writer.pending
        {
            return Ok(self.handle(writer.number, header.clone(), *inherited, options));
        }
        let row = tables.row(id)?.clone();
        if !options.is_uninterpreted() {
            row.check_interpretable(&self.shared.vocabulary)?;
        }
        if options.access() == Access::Write {
            self.shared.claim(&mut tables, id, row.number, None);
        }
        Ok(self.handle(row.number, row.header, row.inherited, options))
    }

    fn stat(&self, id: &SessionId) -> Result<Option<Snapshot>> {
        let tables = self.shared.place.lock();
        let pending = tables.writer(id, self.shared.number).and_then(|writer| self.shared.told_pending(writer));
        Ok(pending.or_else(|| tables.sessions.get(id).map(|row| self.shared.told(&tables, row))))
    }

    fn list(&self, query: &ListQuery) -> Result<Page<Snapshot>> {
        let tables = self.shared.place.lock();
        let stored = tables.sessions.values().map(|row| self.shared.told(&tables, row));
        let pending = tables.writers.values().filter_map(|writer| self.shared.told_pending(writer));
        // A backend with many sessions asks its storage for those behind `query.position` only.
        let name = format!("{}:{}", std::process::id(), self.shared.place.number);
        query.page_of(&name, stored.chain(pending))
    }

    fn flush(&self) -> Result<()> {
        let mut tables = self.shared.place.lock();
        let own = tables.writers.iter().filter(|(_, writer)| writer.store == self.shared.number);
        let ids: Vec<_> = own.map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| tables.store_header(id));
        Ok(())
    }

    fn remove(&self, id: &SessionId) -> Result<bool> {
        let mut tables = self.shared.place.lock();
        tables.check_free(id, self.shared.number)?;
        Ok(tables.remove(id))
    }

    fn remove_if_unchanged(&self, id: &SessionId, revision: &Revision) -> Result<Removal> {
        let mut tables = self.shared.place.lock();
        tables.check_free(id, self.shared.number)?;
        let row = tables.sessions.get(id);
        let is_unchanged = row.map(|row| self.shared.told(&tables, row).revision == *revision);
        Ok(match is_unchanged {
            Some(true) if tables.remove(id) => Removal::Removed,
            Some(false) => Removal::Changed,
            _ => Removal::Absent,
        })
    }
}

/// An open session.
struct Handle {
    shared: Arc<Shared>,
    number: u64,
    header: SessionHeader,
    inherited: u64,
    options: OpenOptions,
    /// Changed and looked at with the tables locked.
    is_closed: AtomicBool,
}

impl Handle {
    fn tables(&self, operation: &'static str) -> Result<MutexGuard<'_, Tables>> {
        let tables = self.shared.place.lock();
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::HandleClosed { session: self.id().clone(), operation });
        }
        Ok(tables)
    }

    fn writing(&self, operation: &'static str) -> Result<MutexGuard<'_, Tables>> {
        let tables = self.tables(operation)?;
        if self.options.access() == Access::Read {
            return Err(Error::ReadOnly { session: self.id().clone(), operation });
        }
        Ok(tables)
    }
}

impl SessionHandle for Handle {
    fn id(&self) -> &SessionId {
        self.header.id()
    }

    fn header(&self) -> &SessionHeader {
        &self.header
    }

    fn inherited_event_count(&self) -> u64 {
        self.inherited
    }

    fn access(&self) -> Access {
        self.options.access()
    }

    fn read(&self, range: SeqRange) -> Result<Vec<SessionEvent>> {
        let tables = self.tables("read")?;
        let id = self.id();
        let row = match tables.row(id) {
            Ok(row) if row.number == self.number => row,
            _ if tables.writers.get(id).is_some_and(|writer| writer.number == self.number) => return Ok(Vec::new()),
            _ => return Err(Error::NotFound { session: id.clone() }),
        };
        if !self.options.is_uninterpreted() {
            row.check_interpretable(&self.shared.vocabulary)?;
        }
        let wanted = range.within(row.count);
        let lines = tables.lines.range((id.clone(), wanted.start)..(id.clone(), wanted.end));
        lines
            .map(|((_, seq), line)| {
                text::parse_event(line.as_bytes()).map_err(|e| {
                    let (session, reason) = (id.clone(), e.to_string());
                    Error::Corruption { session, seq: Seq::new(*seq), offset: None, reason }
                })
            })
            .collect()
    }

    fn append(&self, events: &[SessionEvent]) -> Result<()> {
        let mut tables = self.writing("append")?;
        if events.is_empty() {
            return Ok(());
        }
        let id = self.id();
        checks::check_contiguous(id, tables.sessions.get(id).map_or(0, |row| row.count), events)?;
        tables.store_header(id);
        tables.store_events(id, events);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.writing("flush")?.store_header(self.id());
        Ok(())
    }

    fn close(&self) -> Result<()> {
        let mut tables = self.shared.place.lock();
        if !self.is_closed.swap(true, Ordering::Relaxed) && self.options.access() == Access::Write {
            tables.writers.remove(self.id());
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Err(e) = self.close() {
            eprintln!("closing session {:?}: {e}", self.id());
        }
    }
}

/// A place as the suite wants it. A batch is one transaction, so that no log has a torn end.
struct KeyValueFixture {
    place: Arc<Place>,
}

impl KeyValueFixture {
    fn new() -> Self {
        Self { place: Place::new() }
    }
}

impl Fixture for KeyValueFixture {
    fn capabilities(&self) -> Capabilities {
        Capabilities { reopen: true, cross_process: true, tear_tail: false }
    }

    fn store(&self) -> Arc<dyn SessionPersistence> {
        KeyValueStore::open(&self.place)
    }

    fn elsewhere(&self) -> Arc<dyn SessionPersistence> {
        KeyValueStore::open(&Place::new())
    }

    fn reopen(&self) -> Result<Arc<dyn SessionPersistence>, Unsupported> {
        Ok(self.store())
    }

    fn beside(&self) -> Result<Arc<dyn SessionPersistence>, Unsupported> {
        Ok(self.store())
    }

    fn tear_tail(&self, _: &SessionId) -> Result<(), Unsupported> {
        Err(Unsupported)
    }
}

session_persistence::contract_tests!(KeyValueFixture::new());

fn main() -> ExitCode {
    let has_failed = |run: fn(&dyn Fixture)| catch_unwind(AssertUnwindSafe(|| run(&KeyValueFixture::new()))).is_err();
    let failed: Vec<_> = CASES.iter().filter(|case| has_failed(case.run)).collect();
    failed.iter().for_each(|case| println!("failed: {}::{}", case.verb, case.name));
    println!("{} of {} cases passed", CASES.len() - failed.len(), CASES.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
