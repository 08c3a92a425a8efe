//! Keeps the names that threads and their programs had over time.

use std::collections::BTreeMap;
use std::ops::Bound;

use fonio_core::{Thread, Timestamp, unit_name};
use rustc_hash::FxHashMap;

/// Maximum number of distinct thread names. A phone has a few hundred.
pub(crate) const NAMES_MAX: usize = 1024;
/// Maximum number of name rows kept. Later renames are ignored, so a thread keeps its last known name.
const ROWS_MAX: usize = 1 << 20;
/// Number of slots in the cache of recently looked-up names.
const SLOTS: usize = 256;

/// Programs whose threads act for other programs, and have the names of these other programs: the workloads
/// of `fonio run`.
const PROXIES: [&str; 1] = ["fonio"];

/// Fonio's own servers: the beginnings of the names of their threads, and the name of the server as a program.
const SERVERS: [(&str, &str); 10] = [
    ("fonio-fuse", MOUNT),
    ("fonio-flush", MOUNT),
    ("fonio-behind", MOUNT),
    ("fonio-place", MOUNT),
    ("fonio-forget", MOUNT),
    ("fonio-report", MOUNT),
    ("fuser-", EMULATOR),
    ("pacer", EMULATOR),
    ("ublk", EMULATOR),
    ("nbd", EMULATOR),
];
/// The program name of the FUSE server of `fonio mount`.
pub(crate) const MOUNT: &str = "fonio-mount";
/// The program name of an emulated device.
pub(crate) const EMULATOR: &str = "fonio-emulator";

/// The name, as the kernel truncates it, of the process that runs a workload in the background of a measured one.
/// Its threads are one program, so that nobody takes their waits for those of the measured program.
const BACKGROUND_PROCESS: &str = "fonio-backgroun";
/// The program name of the workload in the background.
pub(crate) const BACKGROUND: &str = "the background workload";

/// Number that stands for a missing thread name.
pub(crate) const UNKNOWN: u32 = 0;
/// Process name of requests whose thread is unknown.
pub(crate) const UNKNOWN_NAME: &str = "(unknown)";
/// Number that stands for all names beyond [`NAMES_MAX`].
pub(crate) const OTHER: u32 = 1;

/// The values of threads over time: for each thread id, the values with the times from which they apply. One map
/// for all threads, because the rows of one thread may come in any order, and a recording can have many threads.
type Rows = BTreeMap<(u32, Timestamp), u32>;

/// The thread names, processes and units of a recording over time.
#[derive(Debug)]
pub(crate) struct Threads {
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
    pub(crate) beyond_cap: u64,
    /// The number that stands for each thread's name.
    rows: Rows,
    /// Numbers that stand for the missing names of threads.
    unnamed: FxHashMap<u32, u32>,
    /// The process of each thread.
    pids: Rows,
    row_count: usize,
    units: Vec<String>,
    in_units: Rows,
    /// Recent look-ups of threads, and of the programs of threads.
    slots: Box<[Slot; SLOTS]>,
    programs: Box<[Slot; SLOTS]>,
}

/// A cached look-up: thread `tid` or its program has the name from `from` until `until`.
#[derive(Clone, Copy, Debug)]
struct Slot {
    tid: u32,
    from: Timestamp,
    until: Timestamp,
    value: u32,
}

const EMPTY: Slot = Slot { tid: 0, from: Timestamp(1), until: Timestamp(0), value: UNKNOWN };

impl Slot {
    /// Looks up the value of the thread `tid` at `time`; `None` if the thread has no rows. Before its first row,
    /// the first row's value is used.
    fn at(rows: &Rows, tid: u32, time: Timestamp) -> Option<Slot> {
        let mut until_now = rows.range((tid, Timestamp(0))..=(tid, time));
        let mut later = rows.range((Bound::Excluded((tid, time)), Bound::Included((tid, Timestamp::MAX))));
        let (from, value) = match until_now.next_back() {
            Some(((_, from), value)) => (*from, *value),
            None => (Timestamp(0), *later.next()?.1),
        };
        let is_first = until_now.next_back().is_none();
        Some(Slot {
            tid,
            from: if is_first { Timestamp(0) } else { from },
            until: later.next().map_or(Timestamp::MAX, |((_, from), _)| *from),
            value,
        })
    }

    fn is_for(&self, tid: u32, time: Timestamp) -> bool {
        self.tid == tid && self.from <= time && time < self.until
    }
}

/// Inserts a value of the row's thread, and returns whether the value differs from the thread's previous
/// value.
fn insert(all: &mut Rows, row: &Thread, value: u32) -> bool {
    let mut until_now = all.range((row.tid, Timestamp(0))..=(row.tid, row.from));
    let is_new = until_now.next_back().is_none_or(|(_, previous)| *previous != value);
    if is_new {
        all.insert((row.tid, row.from), value);
    }
    is_new
}

impl Default for Threads {
    fn default() -> Threads {
        Threads {
            names: vec![UNKNOWN_NAME.to_owned(), "(other)".to_owned()],
            numbers: FxHashMap::default(),
            beyond_cap: 0,
            rows: Rows::new(),
            unnamed: FxHashMap::default(),
            pids: Rows::new(),
            row_count: 0,
            units: Vec::new(),
            in_units: Rows::new(),
            slots: Box::new([EMPTY; SLOTS]),
            programs: Box::new([EMPTY; SLOTS]),
        }
    }
}

impl Threads {
    pub(crate) fn add(&mut self, row: &Thread) {
        if self.row_count >= ROWS_MAX {
            return;
        }
        self.add_unit(row);
        if let Some(pid) = row.pid
            && insert(&mut self.pids, row, pid)
        {
            self.row_count += 1;
            self.programs.fill(EMPTY);
        }
        let Some(comm) = &row.comm else { return };
        // The name of a kernel worker changes with every work item: kworker/0:1-events,
        // kworker/u8:3-flush-179:0.
        let name = if comm.starts_with("kworker/") { "kworker" } else { comm };
        let number = self.number(name);
        if insert(&mut self.rows, row, number) {
            self.row_count += 1;
            self.slots[row.tid as usize % SLOTS] = EMPTY;
            self.programs.fill(EMPTY);
        }
    }

    fn add_unit(&mut self, row: &Thread) {
        // Older recordings contain only the thread's cgroup, not its unit.
        let by_cgroup = || row.cgroup.as_deref().and_then(unit_name);
        let Some(unit) = row.unit.clone().or_else(by_cgroup) else { return };
        let known = self.units.iter().position(|known| *known == unit);
        if known.is_none() && self.units.len() >= NAMES_MAX {
            return;
        }
        let number = known.unwrap_or_else(|| {
            self.units.push(unit);
            self.units.len() - 1
        }) as u32;
        self.row_count += usize::from(insert(&mut self.in_units, row, number));
    }

    /// Returns the number of the thread's unit at `time`, if known. Before the thread's first row, the first
    /// row's unit is used.
    pub(crate) fn unit_at(&self, tid: u32, time: Timestamp) -> Option<u32> {
        // Most traces show no units, and this is called for each request.
        if self.in_units.is_empty() {
            return None;
        }
        Some(Slot::at(&self.in_units, tid, time)?.value)
    }

    pub(crate) fn unit(&self, number: u32) -> &str {
        &self.units[number as usize]
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        if self.names.len() >= NAMES_MAX {
            self.beyond_cap += 1;
            return OTHER;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Returns the number of the thread's name at `time`. For times before the thread's first row, its first
    /// name is used.
    #[inline]
    pub(crate) fn name_at(&mut self, tid: Option<u32>, time: Timestamp) -> u32 {
        let Some(tid) = tid else { return UNKNOWN };
        let slot = self.slots[tid as usize % SLOTS];
        if slot.is_for(tid, time) {
            return slot.value;
        }
        let slot = self.look_up(tid, time);
        self.slots[tid as usize % SLOTS] = slot;
        slot.value
    }

    /// Returns the number that stands for the name of the thread's program at `time`. This is the name of the
    /// process's first thread, whose id is the process id. If this name is unknown, the thread's own name is
    /// used.
    #[inline]
    pub(crate) fn program_at(&mut self, tid: Option<u32>, time: Timestamp) -> u32 {
        let Some(tid) = tid else { return UNKNOWN };
        let slot = self.programs[tid as usize % SLOTS];
        if slot.is_for(tid, time) {
            return slot.value;
        }
        let slot = self.look_up_program(tid, time);
        self.programs[tid as usize % SLOTS] = slot;
        slot.value
    }

    fn look_up(&mut self, tid: u32, time: Timestamp) -> Slot {
        if let Some(slot) = Slot::at(&self.rows, tid, time) {
            return slot;
        }
        let known = self.unnamed.get(&tid).copied();
        let value = known.unwrap_or_else(|| self.number(&format!("tid {tid}")));
        if known.is_none() && self.row_count < ROWS_MAX {
            self.row_count += 1;
            self.unnamed.insert(tid, value);
        }
        Slot { tid, from: Timestamp(0), until: Timestamp::MAX, value }
    }

    fn look_up_program(&mut self, tid: u32, time: Timestamp) -> Slot {
        let Some(pid) = Slot::at(&self.pids, tid, time) else { return self.look_up(tid, time) };
        let first_thread = Slot::at(&self.rows, pid.value, time).map(|slot| Slot { tid, ..slot });
        let is_named = |slot: &Slot| !PROXIES.contains(&self.names[slot.value as usize].as_str());
        let is_proxy = first_thread.is_some_and(|slot| !is_named(&slot));
        let mut name = first_thread.filter(is_named).unwrap_or_else(|| self.look_up(tid, time));
        if self.name(name.value) == BACKGROUND_PROCESS {
            name.value = self.number(BACKGROUND);
        }
        let own = self.name(name.value);
        if is_proxy && let Some((_, server)) = SERVERS.iter().find(|(begin, _)| own.starts_with(begin)) {
            name.value = self.number(server);
        }
        Slot { from: name.from.max(pid.from), until: name.until.min(pid.until), ..name }
    }

    pub(crate) fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tid: u32, from: u64, comm: &str) -> Thread {
        Thread { tid, from: Timestamp(from), comm: Some(comm.to_owned()), ..Thread::default() }
    }

    #[test]
    fn names_change_over_time() {
        let mut threads = Threads::default();
        for thread in [
            row(7, 10, "sh"),
            row(7, 20, "fio"),
            row(7, 30, "fio"),
            row(8, 0, "kworker/0:1"),
            row(8, 5, "kworker/u8:3-flush-179:0"),
        ] {
            threads.add(&thread);
        }
        for (tid, time, name) in [
            (Some(7), 5, "sh"),
            (Some(7), 10, "sh"),
            (Some(7), 19, "sh"),
            (Some(7), 20, "fio"),
            (Some(7), 99, "fio"),
            (Some(8), 99, "kworker"),
            (Some(9), 1, "tid 9"),
            (Some(9), 1, "tid 9"),
            (None, 1, "(unknown)"),
        ] {
            let number = threads.name_at(tid, Timestamp(time));
            assert_eq!(threads.name(number), name, "{tid:?} at {time}");
        }
        let in_unit = |from, unit: &str| Thread {
            cgroup: Some(format!("/system.slice/{unit}")),
            ..row(7, from, "fio")
        };
        threads.add(&in_unit(20, "a.service"));
        threads.add(&in_unit(30, "b.service"));
        let unit = |tid, time| threads.unit_at(tid, Timestamp(time)).map(|unit| threads.unit(unit));
        assert_eq!(
            (unit(7, 5), unit(7, 29), unit(7, 30)),
            (Some("a.service"), Some("a.service"), Some("b.service"))
        );
        assert_eq!(unit(8, 5), None);
        threads.add(&row(7, 15, "make"));
        let number = threads.name_at(Some(7), Timestamp(19));
        assert_eq!(threads.name(number), "make");
    }

    #[test]
    fn rows_may_come_in_any_order() {
        // The rows of one thread, the last one first: inserting each before all others took minutes.
        let rows: Vec<Thread> =
            (0..300_000).map(|at| row(7, 10 * at, ["sh", "fio", "make"][at as usize % 3])).collect();
        let (mut forwards, mut backwards) = (Threads::default(), Threads::default());
        rows.iter().for_each(|row| forwards.add(row));
        rows.iter().rev().for_each(|row| backwards.add(row));
        for at in [0, 5, 10, 1_500_007, 2_999_980, 2_999_999] {
            let name = |threads: &mut Threads| {
                let number = threads.name_at(Some(7), Timestamp(at));
                threads.name(number).to_owned()
            };
            assert_eq!(name(&mut forwards), name(&mut backwards), "{at}");
        }
    }

    #[test]
    fn a_thread_belongs_to_the_program_of_its_process() {
        let of = |pid, row| Thread { pid: Some(pid), ..row };
        let mut threads = Threads::default();
        // Thread 8 has a process without a row, and thread 9 has no process.
        let pool = of(5, row(7, 0, "ThreadPoolForeg"));
        for thread in [pool, of(6, row(8, 0, "worker")), row(9, 0, "fio")] {
            threads.add(&thread);
        }
        let programs = |threads: &mut Threads, cases: &[(u32, u64, &str)]| {
            for (tid, time, program) in cases {
                let number = threads.program_at(Some(*tid), Timestamp(*time));
                assert_eq!(threads.name(number), *program, "{tid} at {time}");
            }
        };
        let unknown = [(5, 0, "tid 5"), (7, 0, "ThreadPoolForeg"), (8, 0, "worker"), (9, 0, "fio")];
        programs(&mut threads, &unknown);
        // The process executes another program, and later its id belongs to a thread of another process.
        for thread in [
            of(5, row(5, 0, "sh")),
            of(5, row(5, 20, "chromium")),
            of(4, row(7, 40, "pool")),
            row(4, 0, "mysqld"),
        ] {
            threads.add(&thread);
        }
        let at = |time, program| (7, time, program);
        programs(&mut threads, &[at(0, "sh"), at(19, "sh"), at(20, "chromium"), at(39, "chromium")]);
        programs(&mut threads, &[at(40, "mysqld"), at(99, "mysqld"), at(0, "sh"), (5, 30, "chromium")]);
        // A workload of fonio has the name of the app that it imitates.
        for (tid, name) in [(2, "fonio"), (3, "webcore"), (10, "fonio-fuse"), (11, "fuser-0")] {
            threads.add(&of(2, row(tid, 0, name)));
        }
        programs(&mut threads, &[(3, 0, "webcore"), (2, 0, "fonio"), (10, 0, MOUNT), (11, 0, EMULATOR)]);
        // The writers of a workload in the background are one program.
        for (tid, name) in [(20, "fonio-backgroun"), (21, "recorder")] {
            threads.add(&of(20, row(tid, 0, name)));
        }
        programs(&mut threads, &[(20, 0, BACKGROUND), (21, 0, BACKGROUND)]);
        // The name of the thread is still known.
        let number = threads.name_at(Some(7), Timestamp(0));
        assert_eq!(threads.name(number), "ThreadPoolForeg");
    }

    #[test]
    fn names_beyond_the_cap_are_counted_together() {
        let mut threads = Threads::default();
        for tid in 0..2000 {
            threads.add(&row(tid, 0, &format!("p{tid}")));
        }
        assert_eq!(threads.name_at(Some(1999), Timestamp(0)), OTHER);
        assert_eq!(threads.beyond_cap, 2000 - (NAMES_MAX as u64 - 2));
    }
}
