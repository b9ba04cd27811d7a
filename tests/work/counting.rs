//! What a piece of work takes, counted for the thread that does it: other tests run beside it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ops::Sub;
use std::sync::Once;

use rusqlite::ffi;

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// How often memory was asked for, and for how many bytes together.
    pub(crate) allocations: u64,
    pub(crate) allocated: u64,
    /// How many bytes were held at once at most, beyond those that were held before.
    pub(crate) held: u64,
    /// Statements of SQLite that were started, and rows that they gave.
    pub(crate) statements: u64,
    pub(crate) rows: u64,
    /// Calls that read and that write, and their bytes, where the system counts them.
    pub(crate) system: Option<Calls>,
}

/// Calls of the system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Calls {
    pub(crate) reads: u64,
    pub(crate) read: u64,
    pub(crate) writes: u64,
    pub(crate) written: u64,
}

thread_local! {
    static ASKED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    /// What the thread has asked for and not given back, in bytes, and the most of it since a count began.
    static HELD: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
    static RUN: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// What `work` takes. What it gives is dropped outside the count.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> Work {
    count_statements();
    let system = Calls::now();
    let (asked, run) = (ASKED.get(), RUN.get());
    let (held, _) = HELD.get();
    HELD.set((held, held));
    let done = work();
    let (_, most_held) = HELD.get();
    let (asked_now, run_now) = (ASKED.get(), RUN.get());
    let system = Calls::now().zip(system).map(|(after, before)| after - before);
    drop(done);
    Work {
        allocations: asked_now.0 - asked.0,
        allocated: asked_now.1 - asked.1,
        held: (most_held - held).unsigned_abs(),
        statements: run_now.0 - run.0,
        rows: run_now.1 - run.1,
        system,
    }
}

impl Calls {
    fn now() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        let count = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        // That these counts were read themselves is in the next ones: two calls and some bytes.
        Some(Self {
            reads: count("syscr:")?,
            read: count("rchar:")?,
            writes: count("syscw:")?,
            written: count("wchar:")?,
        })
    }
}

impl Sub for Calls {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            read: self.read - before.read,
            writes: self.writes - before.writes,
            written: self.written - before.written,
        }
    }
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn asked(bytes: usize) {
    let (times, all) = ASKED.get();
    ASKED.set((times + 1, all + bytes as u64));
}

/// Notes that the thread holds so many bytes more, or less: what another thread had asked for may be given back here.
fn holds(bytes: i64) {
    let (held, most) = HELD.get();
    let held = held + bytes;
    HELD.set((held, most.max(held)));
}

// SAFETY: every call is handed on to the allocator of the system as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        asked(layout.size());
        holds(layout.size() as i64);
        // SAFETY: the caller keeps the rules of this very call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        holds(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        asked(size);
        holds(size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Has every connection that is opened from now on count what it runs. Call it before a store is opened.
pub(crate) fn count_statements() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        // SAFETY: the hook opens and closes nothing.
        unsafe { rusqlite::auto_extension::register_auto_extension(hook) }.unwrap();
    });
}

unsafe extern "C" fn hook(
    connection: *mut ffi::sqlite3,
    _: *mut *mut c_char,
    _: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite calls this with a connection that it has just opened; `ran` keeps nothing.
    unsafe {
        let what = ffi::SQLITE_TRACE_STMT | ffi::SQLITE_TRACE_ROW;
        ffi::sqlite3_trace_v2(connection, what, Some(ran), std::ptr::null_mut())
    }
}

unsafe extern "C" fn ran(what: c_uint, _: *mut c_void, _: *mut c_void, _: *mut c_void) -> c_int {
    let (statements, rows) = RUN.get();
    RUN.set(match what {
        ffi::SQLITE_TRACE_STMT => (statements + 1, rows),
        _ => (statements, rows + 1),
    });
    0
}
