//! Keeps the names that threads had over time.

use fonio_core::{Thread, Timestamp, unit_name};
use rustc_hash::FxHashMap;

/// Maximum number of distinct thread names. A phone has a few hundred.
pub(crate) const NAMES_MAX: usize = 1024;
/// Maximum number of name rows kept. Later renames are ignored, so a thread keeps its last known name.
const ROWS_MAX: usize = 1 << 20;
/// Number of slots in the cache of recently looked-up names.
const SLOTS: usize = 256;

/// Number that stands for a missing thread name.
pub(crate) const UNKNOWN: u32 = 0;
/// Process name of requests whose thread is unknown.
pub(crate) const UNKNOWN_NAME: &str = "(unknown)";
/// Number that stands for all names beyond [`NAMES_MAX`].
pub(crate) const OTHER: u32 = 1;

/// The thread names and units of a recording over time.
#[derive(Debug)]
pub(crate) struct Threads {
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
    pub(crate) beyond_cap: u64,
    /// For each thread, the start time and number of each of its names, in time order.
    rows: FxHashMap<u32, Vec<(Timestamp, u32)>>,
    row_count: usize,
    units: Vec<String>,
    in_units: FxHashMap<u32, Vec<(Timestamp, u32)>>,
    slots: Box<[Slot; SLOTS]>,
}

/// A cached lookup: thread `tid` has the name from `from` until `until`.
#[derive(Clone, Copy, Debug)]
struct Slot {
    tid: u32,
    from: Timestamp,
    until: Timestamp,
    name: u32,
}

const EMPTY: Slot = Slot { tid: 0, from: Timestamp(1), until: Timestamp(0), name: UNKNOWN };

impl Default for Threads {
    fn default() -> Threads {
        Threads {
            names: vec![UNKNOWN_NAME.to_owned(), "(other)".to_owned()],
            numbers: FxHashMap::default(),
            beyond_cap: 0,
            rows: FxHashMap::default(),
            row_count: 0,
            units: Vec::new(),
            in_units: FxHashMap::default(),
            slots: Box::new([EMPTY; SLOTS]),
        }
    }
}

impl Threads {
    pub(crate) fn add(&mut self, row: &Thread) {
        self.add_unit(row);
        let Some(comm) = &row.comm else { return };
        if self.row_count >= ROWS_MAX {
            return;
        }
        // The name of a kernel worker changes with every work item: kworker/0:1-events,
        // kworker/u8:3-flush-179:0.
        let name = if comm.starts_with("kworker/") { "kworker" } else { comm };
        let number = self.number(name);
        let rows = self.rows.entry(row.tid).or_default();
        let at = rows.partition_point(|(from, _)| *from <= row.from);
        if at > 0 && rows[at - 1].1 == number {
            return;
        }
        rows.insert(at, (row.from, number));
        self.row_count += 1;
        self.slots[row.tid as usize % SLOTS] = EMPTY;
    }

    fn add_unit(&mut self, row: &Thread) {
        // Older recordings contain only the thread's cgroup, not its unit.
        let by_cgroup = || row.cgroup.as_deref().and_then(unit_name);
        let Some(unit) = row.unit.clone().or_else(by_cgroup) else { return };
        let known = self.units.iter().position(|known| *known == unit);
        if (known.is_none() && self.units.len() >= NAMES_MAX) || self.row_count >= ROWS_MAX {
            return;
        }
        let number = known.unwrap_or_else(|| {
            self.units.push(unit);
            self.units.len() - 1
        }) as u32;
        let rows = self.in_units.entry(row.tid).or_default();
        let at = rows.partition_point(|(from, _)| *from <= row.from);
        if at > 0 && rows[at - 1].1 == number {
            return;
        }
        rows.insert(at, (row.from, number));
        self.row_count += 1;
    }

    /// Returns the number of the thread's unit at `time`, if known. Before the thread's first row, the first
    /// row's unit is used.
    pub(crate) fn unit_at(&self, tid: u32, time: Timestamp) -> Option<u32> {
        let rows = self.in_units.get(&tid)?;
        let next = rows.partition_point(|(from, _)| *from <= time);
        Some(rows[next.saturating_sub(1)].1)
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
        if slot.tid == tid && slot.from <= time && time < slot.until {
            return slot.name;
        }
        let slot = self.look_up(tid, time);
        self.slots[tid as usize % SLOTS] = slot;
        slot.name
    }

    fn look_up(&mut self, tid: u32, time: Timestamp) -> Slot {
        if !self.rows.contains_key(&tid) {
            let number = self.number(&format!("tid {tid}"));
            if self.row_count < ROWS_MAX {
                self.row_count += 1;
                self.rows.insert(tid, vec![(Timestamp(0), number)]);
            }
            return Slot { tid, from: Timestamp(0), until: Timestamp::MAX, name: number };
        }
        let rows = &self.rows[&tid];
        let next = rows.partition_point(|(from, _)| *from <= time);
        Slot {
            tid,
            from: if next <= 1 { Timestamp(0) } else { rows[next - 1].0 },
            until: rows.get(next.max(1)).map_or(Timestamp::MAX, |(from, _)| *from),
            name: rows[next.saturating_sub(1)].1,
        }
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
    fn names_beyond_the_cap_are_counted_together() {
        let mut threads = Threads::default();
        for tid in 0..2000 {
            threads.add(&row(tid, 0, &format!("p{tid}")));
        }
        assert_eq!(threads.name_at(Some(1999), Timestamp(0)), OTHER);
        assert_eq!(threads.beyond_cap, 2000 - (NAMES_MAX as u64 - 2));
    }
}
