//! Drops the fsync calls of programs in which this library cannot find SQLite's functions, because the
//! programs are linked statically with SQLite.
//!
//! Fsync calls are dropped only for databases of rules with `drop-fsync`. The sync of a commit looks like the
//! sync of a checkpoint, so either all syncs of a database are dropped, or none. Before programs start, the
//! systemd unit (`fonio sync-policy boot`) removes stale databases.
//!
//! A file is dropped only if it begins with SQLite's header, or if it is the journal or log of such a file.
//! All other files of the folder keep their syncs. The first sync of a database happens: it writes the
//! header to the disk. Then this library writes the marker, and later syncs are dropped.
//!
//! fsync(2) is async-signal-safe, and so are the functions of this file: they allocate no memory and take no
//! lock, not even to read the policy. `begin` reads the policy when the library is loaded.

use std::ffi::c_int;
use std::fmt::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use fonio_sync_policy::{
    Boots, COMPANIONS, Class, HEADER, Identity, PATH_BYTES_MAX, Policy, is_marked, mark,
    network_filesystem_of,
};
use rustix::fs::Stat;

use crate::guarded;
use crate::known::{Key, Known};
use crate::pins::Pins;
use crate::say;
use crate::world::policy_file;

/// The state of the program's start, which decides about its fsync calls.
struct Start {
    policy: Policy,
    boots: Boots,
    /// The root folder. A path in another root folder does not mean the same file as in the policy.
    root: Stat,
}

/// Null if the policy has no rule with `drop-fsync`.
static START: AtomicPtr<Start> = AtomicPtr::new(ptr::null_mut());
/// Why the policy could not be read; null if it could be, or if this was said.
static POLICY_ERROR: AtomicPtr<String> = AtomicPtr::new(ptr::null_mut());
/// The databases that are not synced, with their markers.
static NOT_SYNCED: Known = Known::new();
/// The databases of which this library said why they are synced.
static SAID: Known = Known::new();

/// The descriptors among which the library looks for a database whose log is synced.
const DESCRIPTORS: c_int = 1024;

/// Makes the dynamic linker call [`begin`].
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// Reads the policy when the library is loaded. At this time, no signal handler has interrupted the program.
extern "C" fn begin() {
    let read = || match Policy::read(&policy_file()) {
        // A proof measures the given settings alone.
        _ if !Pins::of_environment().is_empty() => {}
        Ok(policy) if policy.drops_fsync() => {
            let (Ok(boots), Ok(root)) = (Boots::read(), rustix::fs::stat("/")) else { return };
            let start = Box::new(Start { policy, boots, root });
            START.store(Box::into_raw(start), Ordering::Release);
        }
        Ok(_) => {}
        Err(error) => {
            let said = Box::new(format!("{error}. Every database stays durable."));
            POLICY_ERROR.store(Box::into_raw(said), Ordering::Release);
        }
    };
    guarded(read, || ());
}

/// Replaces `fsync` of the C library.
///
/// # Safety
///
/// Every call is safe: the kernel checks the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    synced(fd, libc::SYS_fsync)
}

/// Replaces `fdatasync` of the C library.
///
/// # Safety
///
/// Every call is safe: the kernel checks the descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    synced(fd, libc::SYS_fdatasync)
}

fn synced(fd: c_int, call: libc::c_long) -> c_int {
    let mut path = [0; PATH_BYTES_MAX];
    let room = &mut path;
    let candidate = guarded(move || Candidate::of(fd, room), || None);
    if let Some(candidate) = &candidate
        && guarded(|| candidate.is_not_synced(), || false)
    {
        return 0;
    }
    // SAFETY: the kernel checks the descriptor.
    let result = unsafe { libc::syscall(call, fd) as c_int };
    if let Some(candidate) = candidate.filter(|_| result == 0) {
        guarded(|| candidate.stop_syncing(), || ());
    }
    result
}

/// A file of a database that a rule with `drop-fsync` names.
struct Candidate<'p> {
    start: &'static Start,
    fd: BorrowedFd<'p>,
    database: &'p Path,
    key: Key,
    identity: Identity,
    is_main: bool,
}

impl<'p> Candidate<'p> {
    fn of(fd: c_int, path: &'p mut [u8; PATH_BYTES_MAX]) -> Option<Candidate<'p>> {
        say_policy_error();
        // SAFETY: the pointer is null, or points to memory that is never freed.
        let start = unsafe { START.load(Ordering::Acquire).as_ref() }?;
        if fd < 0 {
            return None;
        }
        // SAFETY: the descriptor is borrowed only during the call, and the kernel checks it.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let file = Identity::of_open(fd)?;
        let path = path_of(fd, path)?;
        let database = COMPANIONS.iter().find_map(|end| path.strip_suffix(end.as_bytes()));
        let is_main = database.is_none();
        let database = Path::new(std::ffi::OsStr::from_bytes(database.unwrap_or(path)));
        // The rules compare text. Other paths would need memory.
        database.to_str()?;
        if start.policy.class(database) != (Class::Cache { drop_fsync: true }) {
            return None;
        }
        let identity = Identity::of(database)?;
        // The program may have removed or renamed the file.
        if is_main && identity != file {
            return None;
        }
        Some(Candidate { start, fd, database, key: Key::new(identity, database), identity, is_main })
    }

    fn is_not_synced(&self) -> bool {
        NOT_SYNCED.has(self.key, |marker| is_marked(self.database, marker))
            && (!self.is_main || has_header(self.fd))
    }

    /// Writes the marker after a successful sync, so that later syncs can be dropped.
    fn stop_syncing(&self) {
        let same_root = rustix::fs::stat(c"/")
            .is_ok_and(|root| root.st_dev == self.start.root.st_dev && root.st_ino == self.start.root.st_ino);
        let Some(main) = self.main_file().filter(|_| same_root) else { return };
        match network_filesystem_of(main) {
            Ok(None) => {}
            Ok(Some(name)) => {
                return self.say(format_args!("{} is on {name}", self.database.display()));
            }
            Err(_) => return,
        }
        // The header must be on the disk before the marker.
        if !self.is_main && rustix::fs::fdatasync(main).is_err() {
            return;
        }
        match mark(self.database, &self.start.boots) {
            Ok(marker) => {
                NOT_SYNCED.add(self.key, marker);
            }
            Err(fault) => self.say(format_args!("{}", fault.about(self.database))),
        }
    }

    /// Returns the program's descriptor of the database, if the file is a database. This library opens no
    /// descriptor of its own, because closing it would drop SQLite's locks.
    fn main_file(&self) -> Option<BorrowedFd<'p>> {
        if self.is_main {
            return Some(self.fd).filter(|fd| has_header(*fd));
        }
        (0..DESCRIPTORS).find_map(|fd| {
            // SAFETY: the kernel checks the descriptor, and the library does not close it. If the program
            // closes it, the following calls fail or concern another file of the program, which is then
            // synced once more.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            (Identity::of_open(fd) == Some(self.identity) && has_header(fd)).then_some(fd)
        })
    }

    /// Prints once why the database is synced.
    fn say(&self, why: fmt::Arguments<'_>) {
        if !SAID.has(self.key, |_| true) && SAID.add(self.key, self.identity) {
            let mut line = Line::new();
            let _ = write!(line, "fonio-sqlite-sync: {why}. {} stays durable.", self.database.display());
            line.print();
        }
    }
}

fn has_header(fd: BorrowedFd<'_>) -> bool {
    let mut header = [0; HEADER.len()];
    rustix::io::pread(fd, &mut header[..], 0).is_ok_and(|length| header[..length] == HEADER[..])
}

/// Returns the path of an open file.
fn path_of<'p>(fd: BorrowedFd<'_>, path: &'p mut [u8; PATH_BYTES_MAX]) -> Option<&'p [u8]> {
    let mut link = Line::new();
    write!(link, "/proc/self/fd/{}", fd.as_raw_fd()).ok()?;
    // SAFETY: the link's text ends with a zero, and the buffer has the given length.
    let length = unsafe { libc::readlink(link.text().as_ptr(), path.as_mut_ptr().cast(), path.len()) };
    // A path that fills the buffer may be cut off.
    let length = usize::try_from(length).ok().filter(|length| *length < path.len())?;
    Some(&path[..length])
}

fn say_policy_error() {
    if POLICY_ERROR.load(Ordering::Relaxed).is_null() {
        return;
    }
    // SAFETY: the pointer is null, or points to memory that is never freed.
    let error = unsafe { POLICY_ERROR.swap(ptr::null_mut(), Ordering::AcqRel).as_ref() };
    if let Some(error) = error.filter(|_| say::policy_error_is_said()) {
        let mut line = Line::new();
        let _ = write!(line, "fonio-sqlite-sync: {error}");
        line.print();
    }
}

/// A text in memory on the stack; longer texts are cut off. At least one zero follows the text.
struct Line {
    bytes: [u8; 2048],
    length: usize,
}

impl Line {
    fn new() -> Line {
        Line { bytes: [0; 2048], length: 0 }
    }

    fn text(&self) -> &std::ffi::CStr {
        std::ffi::CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// Prints the line on standard error. Errors are ignored, because standard error may be closed.
    fn print(mut self) {
        self.bytes[self.length] = b'\n';
        // SAFETY: the buffer has the given length.
        unsafe { libc::write(libc::STDERR_FILENO, self.bytes.as_ptr().cast(), self.length + 1) };
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - 2 - self.length;
        let text = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text);
        self.length += text.len();
        Ok(())
    }
}
