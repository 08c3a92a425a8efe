//! Records the SQL statements that the followed processes execute with SQLite.
//!
//! Two BPF programs (`bpf/statements.bpf.h`) run at the entry and the return of `sqlite3_step`, in every copy
//! of SQLite that has this symbol. The programs are part of the object for file-system calls, and follow the
//! same processes. The life cycle of a probe:
//!
//! 1. [`StatementsProbe::load`] creates the maps, lets the kernel verify the programs, and checks for
//!    uprobes.
//! 2. [`StatementsProbe::begin`] sets the probes in the libraries that are known before the command starts.
//! 3. [`StatementsCapture::drain`], called at each wake-up, takes rows and texts, and looks for more copies
//!    of SQLite.
//! 4. [`StatementsCapture::finish`] removes the probes, and takes the last statement of each thread.
//!
//! A text is normalised as soon as it arrives ([`fonio_core::sql`]), and its values are dropped.

mod layout;
mod libraries;
pub(crate) mod library;
mod recorded;

use std::ffi::OsStr;

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, RingBuf};
use fonio_core::Timestamp;
use fonio_machine::Machine;

use crate::probes::bpf::uprobe::Uprobes;
use crate::probes::bpf::{self, Unavailable};
use layout::{Counters, RING_BYTES, Record, Stepping};
use libraries::{Libraries, Programs};
use recorded::Kept;
pub(crate) use recorded::{CapturedStatements, NO_STATEMENTS, WithSqlite};

/// The BPF maps that the programs fill.
struct Maps {
    counters: Array<MapData, Counters>,
    threads: HashMap<MapData, u32, Stepping>,
    statements: RingBuf<MapData>,
}

impl std::fmt::Debug for Maps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maps").finish_non_exhaustive()
    }
}

/// The BPF programs, which are loaded into the kernel.
#[derive(Debug)]
pub(crate) struct StatementsProbe {
    programs: Programs,
    maps: Maps,
}

impl StatementsProbe {
    /// Loads the programs of the object into the kernel without setting probes.
    pub(crate) fn load(object: &mut Ebpf) -> Result<StatementsProbe, Unavailable> {
        let uprobes = Uprobes::new()?;
        let stepped = uprobes.load(object, "stepped")?;
        let returned = uprobes.load(object, "returned")?;
        let maps = Maps {
            counters: bpf::map(object, "statement_counters", Array::try_from)?,
            threads: bpf::map(object, "threads_stepping", HashMap::try_from)?,
            statements: bpf::map(object, "statements", RingBuf::try_from)?,
        };
        Ok(StatementsProbe { programs: Programs { uprobes, stepped, returned }, maps })
    }

    /// Sets probes in the libraries in the usual folders, in the program of the command, and in the files of
    /// these processes.
    pub(crate) fn begin(
        self,
        machine: &Machine,
        command: Option<&OsStr>,
        processes: &[u32],
    ) -> StatementsCapture {
        let mut libraries = Libraries::new(self.programs, command);
        libraries.look_at_processes(machine, processes, None);
        StatementsCapture { maps: self.maps, libraries, kept: Kept::default() }
    }
}

/// A running probe, with the statements that it has recorded so far.
#[derive(Debug)]
pub(crate) struct StatementsCapture {
    maps: Maps,
    libraries: Libraries,
    kept: Kept,
}

impl StatementsCapture {
    /// Takes the rows and texts since the last call, and looks for copies of SQLite in processes that have
    /// opened files. Returns the bytes taken from the ring buffer, and the size of the buffer.
    pub(crate) fn drain(&mut self, now: Timestamp, machine: &Machine, opening: &[u32]) -> (u64, u64) {
        self.libraries.look_at_processes(machine, opening, Some(now));
        let mut taken = 0;
        while let Some(record) = self.maps.statements.next() {
            taken += record.len() as u64 + bpf::RING_HEADER_BYTES;
            match Record::read(&record) {
                Some(Record::Statement(row)) => {
                    self.kept.add(&row, (row.exited_ns > 0).then_some(row.exited_ns))
                }
                Some(Record::Text { hash, text, is_cut }) => self.kept.add_text(hash, &text, is_cut),
                None => {}
            }
        }
        (taken, RING_BYTES)
    }

    /// Removes the probes, and takes the remaining rows and texts of statements.
    pub(crate) fn finish(
        mut self,
        (began, ended): (Timestamp, Timestamp),
        machine: &Machine,
    ) -> CapturedStatements {
        self.libraries.detach();
        self.drain(ended, machine, &[]);
        let threads: Vec<Stepping> =
            self.maps.threads.iter().filter_map(Result::ok).map(|(_, thread)| thread).collect();
        for thread in threads.iter().filter(|thread| thread.last.steps > 0) {
            let exited = (thread.stack == 0).then_some(thread.last.exited_ns);
            self.kept.add(&thread.last, exited);
        }
        let counters = self.maps.counters.get(&0, 0).unwrap_or_default();
        let Libraries { refused, late, .. } = self.libraries;
        self.kept.finish((began, ended), counters, refused, late)
    }
}
