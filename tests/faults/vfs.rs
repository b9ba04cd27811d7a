//! The VFS of this process: the platform's own one, below which the [`Disk`] of a folder has a say in every operation.
//!
//! It is the default one, so that a store uses it without knowing. What lies in a folder without a disk is left to the
//! platform alone.

#![allow(unsafe_code, reason = "SQLite takes a VFS through its C interface only")]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::slice;
use std::sync::{Arc, Once, OnceLock};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods, sqlite3_vfs};

use super::disk::Disk;
use super::fault::{Kind, Part};
use super::outage::FileId;

/// Makes this the VFS of every connection that is opened later.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: SQLite initialises itself; a VFS that is registered is never changed or freed.
        unsafe {
            let platform = ffi::sqlite3_vfs_find(std::ptr::null());
            PLATFORM.set(Platform(platform)).unwrap_or_else(|_| unreachable!("this runs once"));
            // What is not named here works on the platform's own data, which the copy shares.
            let vfs = Box::leak(Box::new(sqlite3_vfs {
                szOsFile: size_of::<File>() as c_int + (*platform).szOsFile,
                pNext: null_mut(),
                zName: c"faults".as_ptr(),
                xOpen: Some(open),
                xDelete: Some(delete),
                xAccess: Some(access),
                ..*platform
            }));
            assert!(ffi::sqlite3_vfs_register(vfs, 1) == ffi::SQLITE_OK);
        }
    });
}

/// The VFS of the platform.
struct Platform(*mut sqlite3_vfs);

// SAFETY: SQLite itself uses it from every thread.
unsafe impl Send for Platform {}
// SAFETY: as above.
unsafe impl Sync for Platform {}

static PLATFORM: OnceLock<Platform> = OnceLock::new();

fn platform() -> *mut sqlite3_vfs {
    PLATFORM.get().expect("it was found before this VFS was registered").0
}

/// A file of a folder with a disk. The platform's own file stands behind it in memory.
#[repr(C)]
struct File {
    sqlite: sqlite3_file,
    opened: *mut Opened,
}

struct Opened {
    disk: Arc<Disk>,
    file: FileId,
    part: Part,
}

/// # Safety
///
/// `file` must be one that [`open`] opened on a disk, and that is not closed yet.
unsafe fn opened<'a>(file: *mut sqlite3_file) -> &'a Opened {
    // SAFETY: as promised; the box lives until the file is closed.
    unsafe { &*(*file.cast::<File>()).opened }
}

/// The platform's own file behind one of ours.
///
/// # Safety
///
/// `file` must have room for both.
unsafe fn behind(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: as promised.
    unsafe { file.cast::<File>().add(1).cast() }
}

/// Calls a method of the platform's own file.
macro_rules! platform {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let file = behind($file);
        (*(*file).pMethods).$method.expect("the platform's files have it")(file $(, $argument)*)
    }};
}

/// The disk on which a name lies, with the name of the file there.
///
/// # Safety
///
/// `name` must be null or a C string.
unsafe fn disk_of(name: *const c_char) -> Option<(Arc<Disk>, String)> {
    if name.is_null() {
        return None;
    }
    // SAFETY: as promised.
    let name = unsafe { CStr::from_ptr(name) };
    Disk::of(Path::new(OsStr::from_bytes(name.to_bytes())))
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives a valid name, and room for the size that this VFS told.
    unsafe {
        let open = (*platform()).xOpen.expect("every VFS opens files");
        let Some((disk, short)) = disk_of(name) else {
            return open(platform(), name, file, flags, out_flags);
        };
        (*file).pMethods = std::ptr::null();
        match disk.open(&short, || open(platform(), name, behind(file), flags, out_flags)) {
            Ok(number) => {
                let methods = if disk.gives_shared_memory() { &METHODS } else { &METHODS_WITHOUT_SHARED_MEMORY };
                let opened = Box::into_raw(Box::new(Opened { disk, file: number, part: Part::of(&short) }));
                file.cast::<File>().write(File { sqlite: sqlite3_file { pMethods: methods }, opened });
                ffi::SQLITE_OK
            }
            Err(code) => code,
        }
    }
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    // SAFETY: SQLite gives a valid name.
    unsafe {
        let delete = || (*platform()).xDelete.expect("every VFS deletes files")(platform(), name, sync_folder);
        match disk_of(name) {
            Some((disk, short)) => disk.delete(&short, sync_folder != 0, delete),
            None => delete(),
        }
    }
}

unsafe extern "C" fn access(_: *mut sqlite3_vfs, name: *const c_char, flags: c_int, found: *mut c_int) -> c_int {
    // SAFETY: SQLite gives a valid name and a place for the answer.
    unsafe {
        if let Some((disk, short)) = disk_of(name)
            && let Err(effect) = disk.start(Kind::Access, Part::of(&short))
        {
            return effect.code();
        }
        (*platform()).xAccess.expect("every VFS looks for files")(platform(), name, flags, found)
    }
}

const METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(map),
    xShmLock: Some(lock_memory),
    xShmBarrier: Some(barrier),
    xShmUnmap: Some(unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

const METHODS_WITHOUT_SHARED_MEMORY: sqlite3_io_methods = sqlite3_io_methods { iVersion: 1, ..METHODS };

/// Ends a call that the disk does not let start.
macro_rules! start {
    ($file:expr, $kind:expr) => {{
        let opened = opened($file);
        if let Err(effect) = opened.disk.start($kind, opened.part) {
            return effect.code();
        }
    }};
}

// SAFETY, for all that follow: SQLite calls them with a file that `open` gave it and that is not closed yet, and with
// buffers as long as it says.

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    unsafe {
        let opened = Box::from_raw((*file.cast::<File>()).opened);
        opened.disk.close(opened.file);
        platform!(file, xClose)
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, buffer: *mut c_void, length: c_int, at: i64) -> c_int {
    unsafe {
        start!(file, Kind::Read);
        platform!(file, xRead, buffer, length, at)
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, buffer: *const c_void, length: c_int, at: i64) -> c_int {
    unsafe {
        let opened = opened(file);
        let bytes = slice::from_raw_parts(buffer.cast::<u8>(), length as usize);
        let write = |bytes: &[u8]| platform!(file, xWrite, bytes.as_ptr().cast(), bytes.len() as c_int, at);
        opened.disk.write(opened.file, opened.part, at as u64, bytes, write)
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: i64) -> c_int {
    unsafe {
        let opened = opened(file);
        opened.disk.truncate(opened.file, opened.part, length as u64, || platform!(file, xTruncate, length))
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _: c_int) -> c_int {
    unsafe {
        let opened = opened(file);
        opened.disk.sync(opened.file, opened.part)
    }
}

unsafe extern "C" fn size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    unsafe {
        start!(file, Kind::Size);
        platform!(file, xFileSize, size)
    }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    unsafe {
        start!(file, Kind::Lock);
        platform!(file, xLock, level)
    }
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    unsafe { platform!(file, xUnlock, level) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, found: *mut c_int) -> c_int {
    unsafe { platform!(file, xCheckReservedLock, found) }
}

unsafe extern "C" fn control(file: *mut sqlite3_file, operation: c_int, argument: *mut c_void) -> c_int {
    unsafe { platform!(file, xFileControl, operation, argument) }
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    unsafe { platform!(file, xSectorSize) }
}

unsafe extern "C" fn characteristics(file: *mut sqlite3_file) -> c_int {
    unsafe { platform!(file, xDeviceCharacteristics) }
}

unsafe extern "C" fn map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    mapped: *mut *mut c_void,
) -> c_int {
    unsafe {
        *mapped = null_mut();
        start!(file, Kind::Map);
        platform!(file, xShmMap, region, size, extend, mapped)
    }
}

unsafe extern "C" fn lock_memory(file: *mut sqlite3_file, offset: c_int, count: c_int, flags: c_int) -> c_int {
    unsafe { platform!(file, xShmLock, offset, count, flags) }
}

unsafe extern "C" fn barrier(file: *mut sqlite3_file) {
    unsafe { platform!(file, xShmBarrier) }
}

unsafe extern "C" fn unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    unsafe { platform!(file, xShmUnmap, delete) }
}

/// Gives no part of the file as memory, so that every read is seen.
unsafe extern "C" fn fetch(_: *mut sqlite3_file, _: i64, _: c_int, memory: *mut *mut c_void) -> c_int {
    unsafe {
        *memory = null_mut();
        ffi::SQLITE_OK
    }
}

unsafe extern "C" fn unfetch(_: *mut sqlite3_file, _: i64, _: *mut c_void) -> c_int {
    ffi::SQLITE_OK
}
