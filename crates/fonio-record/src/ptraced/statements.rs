//! Notes the SQL statements of traced programs, by a breakpoint at `sqlite3_step`.
//!
//! When a program maps a copy of SQLite with symbols, the tracer replaces the first byte of `sqlite3_step` by a
//! breakpoint instruction, in the memory of this program only. A thread that reaches it stops; the tracer reads the
//! statement's text, and does the work of the replaced instruction itself, so the breakpoint stays and other threads
//! cannot miss it. Only x86-64 has breakpoints, because on other processors the first instruction may depend on keys
//! that only the processor knows.
//!
//! Consecutive steps of one thread with the same text and connection form one row, as with BPF. A step has no stop at
//! its return, so a row ends with the last file-system call of its statement. SQLite itself steps statements inside a
//! step, for example to read the schema or in full-text search; these are part of the outer step. A step is inside
//! another one if it has no text, or if it is on the same connection, deeper in the stack, and the return address of
//! the other step is still in its place.

use std::fs::File;
use std::io;

use fonio_core::{Nanos, RowSink, Statement, Timestamp, sql};
use rustc_hash::{FxHashMap, FxHashSet};

use super::kernel::{self, Registers};
use crate::probes::statements::library::{self, Library};

/// Maximum number of rows: 42 MB at 80 bytes each.
const ROWS_MAX: usize = 1 << 19;
/// Maximum number of different normalised texts.
const TEXTS_MAX: usize = 4096;
/// Maximum number of different original texts.
const ORIGINALS_MAX: usize = 1 << 18;
/// Maximum number of connections that get their own number.
const CONNECTIONS_MAX: usize = 1 << 16;
/// Maximum size of a text in bytes, as with BPF.
const SQL_MAX: usize = 512;

/// Whether this processor has breakpoints.
pub(super) const ARE_POSSIBLE: bool = cfg!(target_arch = "x86_64");

/// The breakpoint instruction of x86-64, `int3`.
const BREAKPOINT: u8 = 0xcc;

/// The first instruction of a function, which the tracer carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    /// An instruction of this length without an effect: `endbr64`.
    Nothing(u64),
    /// `push` of the register with this number; the instruction has this length.
    Push(u8, u64),
}

impl First {
    fn of(code: &[u8]) -> Option<First> {
        match code {
            [0xf3, 0x0f, 0x1e, 0xfa, ..] => Some(First::Nothing(4)),
            [register @ 0x50..=0x57, ..] => Some(First::Push(register - 0x50, 1)),
            [0x41, register @ 0x50..=0x57, ..] => Some(First::Push(register - 0x50 + 8, 2)),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Breakpoint {
    library: Library,
    first: First,
}

/// Consecutive steps of a thread with one statement.
#[derive(Clone, Copy, Debug)]
struct Run {
    text: Option<u32>,
    connection: Option<u32>,
    entered: Timestamp,
    exited: Timestamp,
    steps: u64,
    /// The stack pointer at the entry of the last step, and the return address that it points to.
    stack: u64,
    returns_to: u64,
}

/// The statements of a command and of its descendants.
#[derive(Debug, Default)]
pub(super) struct Statements {
    is_wanted: bool,
    /// The copy of SQLite in each examined file, by device and inode.
    libraries: FxHashMap<(u64, u64), Option<Library>>,
    /// The breakpoints of each process, by address.
    breakpoints: FxHashMap<u32, FxHashMap<u64, Breakpoint>>,
    runs: FxHashMap<i32, Run>,
    rows: Vec<(i32, Run)>,
    texts: Vec<String>,
    numbers: FxHashMap<String, u32>,
    originals: FxHashMap<Vec<u8>, u32>,
    connections: FxHashMap<(u32, u64), u32>,
    /// The processes that executed statements.
    pub(super) processes: FxHashSet<u32>,
    /// The number of rows and texts that did not fit into memory.
    pub(super) beyond: u64,
    /// Files whose first instruction of `sqlite3_step` is not known, or whose statements have no known text.
    pub(super) refused: FxHashSet<String>,
}

impl Statements {
    pub(super) fn new(is_wanted: bool) -> Statements {
        Statements { is_wanted: is_wanted && ARE_POSSIBLE, ..Statements::default() }
    }

    pub(super) fn are_shown(&self) -> bool {
        self.is_wanted
    }

    /// Sets breakpoints in the program of a process, after exec.
    pub(super) fn executed(&mut self, process: u32) {
        self.breakpoints.remove(&process);
        self.end_run(process as i32);
        if !self.is_wanted {
            return;
        }
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{process}/maps")) else { return };
        let Ok(program) = std::fs::read_link(format!("/proc/{process}/exe")) else { return };
        let name = program.to_string_lossy();
        for line in maps.lines() {
            let mut fields = line.split_whitespace();
            let (Some(range), Some(rights), Some(offset)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if rights.contains('x') && line.ends_with(&*name) {
                let hex = |text: &str| u64::from_str_radix(text, 16).ok();
                let range = range.split_once('-').and_then(|(from, to)| Some((hex(from)?, hex(to)?)));
                let (Some((from, to)), Some(offset)) = (range, hex(offset)) else { continue };
                self.mapped(process as i32, process, "exe", (from, to - from, offset));
            }
        }
    }

    /// Sets a breakpoint if an executable mapping contains `sqlite3_step`. `link` is the link of the file below
    /// `/proc/TID`; the mapping has an address, a length and an offset in the file.
    pub(super) fn mapped(&mut self, tid: i32, process: u32, link: &str, mapping: (u64, u64, u64)) {
        let (address, length, offset) = mapping;
        if let Some(breakpoints) = self.breakpoints.get_mut(&process) {
            breakpoints.retain(|at, _| !(address..address.saturating_add(length)).contains(at));
        }
        let link = format!("/proc/{tid}/{link}");
        let Some(library) = self.library(tid, &link) else { return };
        let Some(within) = library.step.checked_sub(offset).filter(|within| *within < length) else { return };
        let at = address + within;
        let mut code = [0; 8];
        if kernel::read(tid, at, &mut code) < code.len() {
            return;
        }
        let path = || std::fs::read_link(&link).unwrap_or_default().to_string_lossy().into_owned();
        let Some(first) = First::of(&code).filter(|_| library.text.is_some()) else {
            self.refused.insert(path());
            return;
        };
        code[0] = BREAKPOINT;
        if kernel::write_word(tid, at, u64::from_ne_bytes(code)).is_ok() {
            self.breakpoints.entry(process).or_default().insert(at, Breakpoint { library, first });
        }
    }

    /// Returns the copy of SQLite in a file.
    fn library(&mut self, tid: i32, link: &str) -> Option<Library> {
        use std::os::unix::fs::MetadataExt;
        // A file system in user space may be served by a program that is stopped now.
        if super::files::is_served_by_program(tid, link) {
            return None;
        }
        let file = File::open(link).ok()?;
        let found = file.metadata().ok()?;
        let key = (found.dev(), found.ino());
        if let Some(known) = self.libraries.get(&key) {
            return *known;
        }
        let library = library::find(file).ok().flatten();
        self.libraries.insert(key, library);
        library
    }

    /// Copies the breakpoints of a process to its child, whose memory is a copy.
    pub(super) fn forked(&mut self, parent: u32, child: u32) {
        if parent != child
            && let Some(breakpoints) = self.breakpoints.get(&parent).cloned()
        {
            self.breakpoints.insert(child, breakpoints);
        }
    }

    /// Handles SIGTRAP. Returns false if no breakpoint of ours caused it.
    pub(super) fn trapped(&mut self, tid: i32, process: u32, now: Timestamp) -> bool {
        let Some(breakpoints) = self.breakpoints.get(&process) else { return false };
        let Ok(mut registers) = Registers::of(tid) else { return false };
        let at = registers.instruction().wrapping_sub(1);
        let Some(breakpoint) = breakpoints.get(&at).copied() else { return false };
        self.stepped((tid, process), &registers, &breakpoint.library, now);
        let length = match breakpoint.first {
            First::Nothing(length) => length,
            First::Push(register, length) => {
                if registers.push(tid, register).is_err() {
                    return false;
                }
                length
            }
        };
        registers.set_instruction(at + length);
        registers.write(tid).is_ok()
    }

    /// Notes a step of a thread that has just entered `sqlite3_step`.
    fn stepped(
        &mut self,
        (tid, process): (i32, u32),
        registers: &Registers,
        library: &Library,
        now: Timestamp,
    ) {
        let word = |address: u64| {
            let mut word = [0; 8];
            (kernel::read(tid, address, &mut word) == word.len()).then(|| u64::from_ne_bytes(word))
        };
        let (handle, stack) = (registers.first_argument(), registers.stack());
        let text = library.text.and_then(|offset| word(handle.checked_add(offset.into())?));
        let text = text.filter(|text| *text != 0).and_then(|text| self.text(tid, text));
        let connection = library.connection.and_then(|offset| word(handle.checked_add(offset.into())?));
        let connection = connection.and_then(|connection| self.connection(process, connection));
        let returns_to = word(stack).unwrap_or(0);
        self.processes.insert(process);
        if let Some(run) = self.runs.get_mut(&tid) {
            let is_inside = || {
                run.connection == connection && stack < run.stack && word(run.stack) == Some(run.returns_to)
            };
            if text.is_none() || is_inside() {
                return;
            }
            if (run.text, run.connection) == (text, connection) {
                (run.steps, run.stack, run.returns_to) = (run.steps + 1, stack, returns_to);
                return;
            }
        }
        self.end_run(tid);
        let run = Run { text, connection, entered: now, exited: now, steps: 1, stack, returns_to };
        self.runs.insert(tid, run);
    }

    fn text(&mut self, tid: i32, address: u64) -> Option<u32> {
        let mut original = vec![0; SQL_MAX];
        let length = kernel::read(tid, address, &mut original);
        original.truncate(length);
        let end = original.iter().position(|byte| *byte == 0);
        original.truncate(end.unwrap_or(length));
        if let Some(number) = self.originals.get(&original) {
            return Some(*number);
        }
        let text = sql::normalised(&original, end.is_none());
        let known = self.numbers.get(&text).copied();
        if known.is_none() && self.texts.len() >= TEXTS_MAX {
            self.beyond += 1;
            return None;
        }
        let number = known.unwrap_or_else(|| {
            let number = self.texts.len() as u32;
            self.numbers.insert(text.clone(), number);
            self.texts.push(text);
            number
        });
        if self.originals.len() < ORIGINALS_MAX {
            self.originals.insert(original, number);
        }
        Some(number)
    }

    fn connection(&mut self, process: u32, address: u64) -> Option<u32> {
        let next = self.connections.len() as u32;
        let is_full = self.connections.len() >= CONNECTIONS_MAX;
        let known = self.connections.get(&(process, address)).copied();
        known.or_else(|| {
            (!is_full && address != 0).then(|| *self.connections.entry((process, address)).or_insert(next))
        })
    }

    /// Extends the statement of a thread to the end of a file-system call.
    pub(super) fn called(&mut self, tid: i32, exited: Timestamp) {
        if let Some(run) = self.runs.get_mut(&tid) {
            run.exited = exited;
        }
    }

    /// Handles the end of a thread.
    pub(super) fn end_run(&mut self, tid: i32) {
        let Some(run) = self.runs.remove(&tid) else { return };
        if self.rows.len() < ROWS_MAX {
            self.rows.push((tid, run));
        } else {
            self.beyond += 1;
        }
    }

    /// Handles the end of a process.
    pub(super) fn end_process(&mut self, process: u32) {
        self.breakpoints.remove(&process);
    }

    pub(super) fn write(&mut self, sink: &mut dyn RowSink) -> io::Result<()> {
        let tids: Vec<i32> = self.runs.keys().copied().collect();
        tids.into_iter().for_each(|tid| self.end_run(tid));
        self.rows.sort_unstable_by_key(|(tid, run)| (run.entered, *tid));
        for (tid, run) in &self.rows {
            sink.statement(&Statement {
                tid: *tid as u32,
                connection: run.connection,
                entered: run.entered,
                exited: Some(run.exited),
                steps: run.steps,
                stepping: run.exited.since(run.entered).unwrap_or(Nanos(0)),
                text: run.text.map(|text| self.texts[text as usize].clone()),
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_instruction_is_known_or_refused() {
        for (code, expected) in [
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x55][..], Some(First::Nothing(4))),
            (&[0x55, 0x48][..], Some(First::Push(5, 1))),
            (&[0x41, 0x57][..], Some(First::Push(15, 2))),
            (&[0x48, 0x85, 0xff][..], None),
            (&[0x41, 0x89][..], None),
            (&[][..], None),
        ] {
            assert_eq!(First::of(code), expected, "{code:x?}");
        }
    }
}
