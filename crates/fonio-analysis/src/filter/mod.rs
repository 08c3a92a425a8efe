//! Filters rows by device, process, unit, file, op and time range.
//!
//! A [`Filter`] passes only the matching rows to another sink. The sink computes values such as requests in
//! flight, gaps between flushes and sequential requests only from requests that passed the filter.

mod pattern;

use std::io;

use fonio_core::meta::SLOW_CALLS;
use fonio_core::{
    Bio, BlockedCount, Call, DeviceId, File, Mark, Nanos, Op, Request, RowSink, Sample, Statement, Thread,
    Timestamp, Wait, forward_rows,
};
use rustc_hash::FxHashSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::question::threads::Threads;

/// Criteria of a filter. An empty list or an absent bound lets every row pass. A row must match one entry of
/// each other list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilterOptions {
    /// Devices, as `major:minor`.
    pub devices: Vec<String>,
    /// Names of processes or threads (their `comm` at the time of the request). A name that ends with `*`
    /// matches every name with that prefix. All kernel workers are called `kworker`.
    pub comms: Vec<String>,
    /// Threads by id. A request passes if its thread matches `comms` or `tids`.
    pub tids: Vec<u32>,
    /// Units and containers, with their kind (`notes.service`, `docker web`) or without it (`notes`, `web`).
    /// `*` stands for any text, `?` for any character. Requests of unknown units do not pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<String>,
    /// Files: a name (`notes.db*`), or a path that includes the files below it (`/var/lib/notes`). `*` stands
    /// for any text, `?` for any character. Requests of unknown files do not pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Ops by name: `read`, `write`, `flush`, …
    pub ops: Vec<String>,
    /// The start of the time range, inclusive, in nanoseconds since the recording began.
    pub from_ns: Option<Nanos>,
    /// The end of the time range, exclusive, in nanoseconds since the recording began.
    pub until_ns: Option<Nanos>,
}

/// The reason why a filter is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// A device of the filter is not in the form `major:minor`.
    #[error("{device:?} is not a device number; use major:minor, 179:0 for example")]
    Device {
        /// The device as given by the user.
        device: String,
    },
    /// The filter contains an unknown op.
    #[error("{op:?} is not an op; the ops are {}", Op::ALL.map(Op::name).join(", "))]
    Op {
        /// The op as given by the user.
        op: String,
    },
    /// The time range of the filter ends before it begins.
    #[error("the time range ends at {} ns, before it begins at {} ns", .until_ns.0, .from_ns.0)]
    EmptyRange {
        /// The start of the range in nanoseconds since the recording began.
        from_ns: Nanos,
        /// The end of the range in nanoseconds since the recording began.
        until_ns: Nanos,
    },
}

impl FilterOptions {
    /// Whether the filter passes every row.
    pub fn is_empty(&self) -> bool {
        *self == FilterOptions::default()
    }

    /// Whether the filter drops requests within the time range.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial_on_device() || !self.devices.is_empty()
    }

    /// Whether the filter drops requests of the devices that it passes, within the time range.
    pub(crate) fn is_partial_on_device(&self) -> bool {
        let FilterOptions { devices: _, comms, tids, units, files, ops, from_ns: _, until_ns: _ } = self;
        !(comms.is_empty() && tids.is_empty() && units.is_empty() && files.is_empty() && ops.is_empty())
    }

    pub(crate) fn has_range(&self) -> bool {
        self.from_ns.is_some() || self.until_ns.is_some()
    }

    /// Returns the time range on the recording's clock, for a recording that began at `began`.
    pub(crate) fn range(&self, began: Timestamp) -> (Timestamp, Timestamp) {
        let until = self.until_ns.map_or(Timestamp::MAX, |until| began + until);
        (began + self.from_ns.unwrap_or_default(), until)
    }
}

/// Passes the rows that match a filter to the next sink.
///
/// Requests and bios are filtered by device, process, unit, file, op and time (a request's time in the table,
/// a bio's queue time). Calls are filtered by process, unit, file and begin time. Waits are filtered by
/// process, unit and file, and must overlap the time range. Marks and samples are filtered by time. Threads,
/// files, links and diagnostics always pass, because other rows refer to them. Counts of short waits do not
/// name files, so a filter by file drops these counts.
#[derive(Debug)]
pub struct Filter<S> {
    options: FilterOptions,
    devices: Vec<DeviceId>,
    ops: Vec<Op>,
    /// For each number of a process name: whether the name passes; `None` if the name was not checked yet.
    names: Vec<Option<bool>>,
    /// For each number of a unit: whether the unit passes; `None` if the unit was not checked yet.
    units: Vec<Option<bool>>,
    /// Files that have had at least one name that matches the filter.
    files: FxHashSet<u32>,
    threads: Threads,
    /// The filter's time range; `None` before the recording has begun.
    range: Option<(Timestamp, Timestamp)>,
    next: S,
}

impl<S: RowSink> Filter<S> {
    /// Creates a filter that passes matching rows to `next`.
    ///
    /// # Errors
    /// If a device is not `major:minor`, an op is unknown, or a range ends before it begins.
    pub fn new(options: FilterOptions, next: S) -> Result<Filter<S>, FilterError> {
        let device = |device: &String| {
            let number = || {
                let (major, minor) = device.split_once(':')?;
                Some(DeviceId::new(major.parse().ok()?, minor.parse().ok()?))
            };
            number().ok_or_else(|| FilterError::Device { device: device.clone() })
        };
        let op = |op: &String| Op::from_name(op).ok_or_else(|| FilterError::Op { op: op.clone() });
        if let (Some(from_ns), Some(until_ns)) = (options.from_ns, options.until_ns)
            && until_ns < from_ns
        {
            return Err(FilterError::EmptyRange { from_ns, until_ns });
        }
        Ok(Filter {
            devices: options.devices.iter().map(device).collect::<Result<_, _>>()?,
            ops: options.ops.iter().map(op).collect::<Result<_, _>>()?,
            names: Vec::new(),
            units: Vec::new(),
            files: FxHashSet::default(),
            threads: Threads::default(),
            range: None,
            options,
            next,
        })
    }

    /// Returns the options of the filter.
    pub fn options(&self) -> &FilterOptions {
        &self.options
    }

    /// Returns the sink to which the filter passes rows.
    pub fn into_inner(self) -> S {
        self.next
    }

    fn in_range(&mut self, time: Timestamp) -> bool {
        if !self.options.has_range() {
            return true;
        }
        let (from, until) = *self.range.get_or_insert_with(|| self.options.range(time));
        (from..until).contains(&time)
    }

    /// Whether an interval overlaps the time range. `ended` is `None` for an interval that has not ended.
    fn overlaps_range(&mut self, began: Timestamp, ended: Option<Timestamp>) -> bool {
        self.in_range(began)
            || self.range.is_some_and(|(from, until)| began < until && ended.is_none_or(|ended| ended > from))
    }

    fn process_passes(&mut self, tids: [Option<u32>; 2], time: Timestamp) -> bool {
        let FilterOptions { comms, tids: wanted, .. } = &self.options;
        if comms.is_empty() && wanted.is_empty() {
            return true;
        }
        if tids.iter().flatten().any(|tid| wanted.contains(tid)) {
            return true;
        }
        if comms.is_empty() {
            return false;
        }
        // The analysis assigns the request to this thread.
        let tid = tids[0].or(tids[1]);
        let numbers = [self.threads.program_at(tid, time), self.threads.name_at(tid, time)];
        numbers.into_iter().any(|number| {
            let name = self.threads.name(number);
            *crate::question::ratio::at(&mut self.names, number as usize).get_or_insert_with(|| {
                comms.iter().any(|comm| match comm.strip_suffix('*') {
                    Some(start) => name.starts_with(start),
                    None => name == comm,
                })
            })
        })
    }

    fn unit_passes(&mut self, tids: [Option<u32>; 2], time: Timestamp) -> bool {
        let wanted = &self.options.units;
        if wanted.is_empty() {
            return true;
        }
        let Some(number) = tids[0].or(tids[1]).and_then(|tid| self.threads.unit_at(tid, time)) else {
            return false;
        };
        let unit = self.threads.unit(number);
        *crate::question::ratio::at(&mut self.units, number as usize)
            .get_or_insert_with(|| wanted.iter().any(|wanted| pattern::matches_unit(wanted, unit)))
    }

    fn file_passes(&self, file: Option<u32>) -> bool {
        self.options.files.is_empty() || file.is_some_and(|file| self.files.contains(&file))
    }

    /// Whether rows of these threads and this file pass the thread, unit and file filters.
    fn whose_passes(&mut self, tids: [Option<u32>; 2], file: Option<u32>, time: Timestamp) -> bool {
        self.file_passes(file) && self.process_passes(tids, time) && self.unit_passes(tids, time)
    }

    fn passes(&self, device: DeviceId, op: Op) -> bool {
        (self.devices.is_empty() || self.devices.contains(&device))
            && (self.ops.is_empty() || self.ops.contains(&op))
    }
}

impl<S: RowSink> RowSink for Filter<S> {
    fn began(&mut self, at: Timestamp) -> io::Result<()> {
        self.range = Some(self.options.range(at));
        self.next.began(at)
    }

    fn request(&mut self, row: &Request) -> io::Result<()> {
        let time = row.order_time();
        let named = row.queued.unwrap_or(time);
        let threads = [row.cause_tid, row.tid];
        if self.in_range(time)
            && self.passes(row.device, row.op)
            && self.whose_passes(threads, row.file_id, named)
        {
            return self.next.request(row);
        }
        Ok(())
    }

    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        let threads = [row.cause_tid, row.tid];
        if self.in_range(row.queued)
            && self.passes(row.device, row.op)
            && self.whose_passes(threads, row.file_id, row.queued)
        {
            return self.next.bio(row);
        }
        Ok(())
    }

    fn call(&mut self, row: &Call) -> io::Result<()> {
        if self.in_range(row.entered) && self.whose_passes([Some(row.tid), None], row.file_id, row.entered) {
            return self.next.call(row);
        }
        Ok(())
    }

    fn statement(&mut self, row: &Statement) -> io::Result<()> {
        // A row can span a long time, with transactions anywhere within it.
        if self.overlaps_range(row.entered, row.exited)
            && self.whose_passes([Some(row.tid), None], None, row.entered)
        {
            return self.next.statement(row);
        }
        Ok(())
    }

    fn wait(&mut self, row: &Wait) -> io::Result<()> {
        // The analysis counts only the part of a wait inside the range.
        if !self.overlaps_range(row.began, row.ended) {
            return Ok(());
        }
        if self.whose_passes([Some(row.tid), None], row.file_id, row.began) {
            return self.next.wait(row);
        }
        self.next.wait_left_out(row)
    }

    fn wait_left_out(&mut self, row: &Wait) -> io::Result<()> {
        self.next.wait_left_out(row)
    }

    fn blocked_count(&mut self, row: &BlockedCount) -> io::Result<()> {
        if self.in_range(row.from) && self.whose_passes([Some(row.tid), None], None, row.from) {
            return self.next.blocked_count(row);
        }
        Ok(())
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        if !self.options.comms.is_empty() || !self.options.units.is_empty() {
            self.threads.add(row);
        }
        self.next.thread(row)
    }

    fn file(&mut self, row: &File) -> io::Result<()> {
        let matches =
            |path: &String| self.options.files.iter().any(|wanted| pattern::matches_file(wanted, path));
        if row.path.as_ref().is_some_and(matches) {
            self.files.insert(row.file_id);
        }
        self.next.file(row)
    }

    fn sample(&mut self, row: &Sample) -> io::Result<()> {
        if self.in_range(row.time) {
            return self.next.sample(row);
        }
        Ok(())
    }

    fn mark(&mut self, row: &Mark) -> io::Result<()> {
        // This mark is about the complete trace.
        if self.in_range(row.at) || row.name.starts_with(SLOW_CALLS) {
            return self.next.mark(row);
        }
        Ok(())
    }

    forward_rows!(next: link, diagnostic, settled);

    fn wants_bios(&self) -> bool {
        self.next.wants_bios()
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{Content, ignore_rows};

    use super::*;
    use crate::analyser::tests::rows;

    #[derive(Default)]
    struct Passed(Vec<u64>);
    impl RowSink for Passed {
        fn request(&mut self, row: &Request) -> io::Result<()> {
            self.0.push(row.request_id);
            Ok(())
        }
        ignore_rows! {
            began, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic,
            settled
        }
    }

    fn passed(options: FilterOptions) -> Vec<u64> {
        let mut filter = Filter::new(options, Passed::default()).unwrap();
        filter.began(Timestamp(1000)).unwrap();
        for (tid, from, comm) in [(1, 0, "fio"), (2, 0, "sh"), (2, 25_000, "sqlite3"), (3, 0, "kworker/u8:1")]
        {
            let comm = Some(comm.to_owned());
            let unit = (tid == 2 && from > 0).then(|| "docker web".to_owned());
            filter.thread(&Thread { tid, from: Timestamp(from), comm, unit, ..Thread::default() }).unwrap();
        }
        for (file_id, path) in [(1, "/data/notes.tmp"), (1, "/data/notes.db"), (2, "/data/notes.db-wal")] {
            let (path, content) = (Some(path.to_owned()), Content::Data);
            let file = File { file_id, from: Timestamp(0), device: None, inode: None, path, content };
            filter.file(&file).unwrap();
        }
        let mut requests = rows(&[
            "R 0+8 q9 d10 c20 t1",
            "WS 0+8 dev1 q18 d20 c30 t2",
            "WS 0+8 q28 d30 c40 t2",
            "FF d40 c50 t3",
            "R 0+8 d50 c60",
        ]);
        (requests[0].file_id, requests[1].file_id) = (Some(1), Some(2));
        requests.iter().for_each(|row| filter.request(row).unwrap());
        filter.into_inner().0
    }

    #[test]
    fn a_name_selects_a_process_or_a_thread() {
        for (comm, ids) in [("chromium", &[0, 1][..]), ("Thread*", &[1]), ("fio", &[])] {
            let options = FilterOptions { comms: vec![comm.to_owned()], ..FilterOptions::default() };
            let mut filter = Filter::new(options, Passed::default()).unwrap();
            for (tid, comm) in [(5, "chromium"), (7, "ThreadPoolForeg")] {
                let comm = Some(comm.to_owned());
                filter.thread(&Thread { tid, pid: Some(5), comm, ..Thread::default() }).unwrap();
            }
            rows(&["R 0+8 d0 c10 t5", "R 0+8 d10 c20 t7"])
                .iter()
                .for_each(|row| filter.request(row).unwrap());
            assert_eq!(filter.into_inner().0, ids, "{comm}");
        }
    }

    #[test]
    fn by_device_process_unit_file_op_and_time() {
        let some = |name: &str| vec![name.to_owned()];
        let base = FilterOptions::default;
        for (options, ids) in [
            (base(), &[0, 1, 2, 3, 4][..]),
            (FilterOptions { devices: some("179:1"), ..base() }, &[1]),
            (FilterOptions { comms: some("sqlite3"), ..base() }, &[2]),
            (FilterOptions { comms: some("s*"), ..base() }, &[1, 2]),
            (FilterOptions { comms: some("kworker"), ..base() }, &[3]),
            (FilterOptions { tids: vec![1, 3], ..base() }, &[0, 3]),
            (FilterOptions { comms: some("fio"), tids: vec![3], ..base() }, &[0, 3]),
            // Before the first row of a thread, its first known unit is used.
            (FilterOptions { units: some("web"), ..base() }, &[1, 2]),
            (FilterOptions { units: some("docker *"), comms: some("sqlite3"), ..base() }, &[2]),
            (FilterOptions { units: some("mail"), ..base() }, &[]),
            (FilterOptions { files: some("notes.db*"), ..base() }, &[0, 1]),
            (FilterOptions { files: some("*.tmp"), ..base() }, &[0]),
            (FilterOptions { files: some("/data"), ops: some("write"), ..base() }, &[1]),
            (FilterOptions { ops: some("write"), ..base() }, &[1, 2]),
            (
                FilterOptions { from_ns: Some(Nanos(19_000)), until_ns: Some(Nanos(39_000)), ..base() },
                &[1, 2],
            ),
            (FilterOptions { ops: some("read"), from_ns: Some(Nanos(10_000)), ..base() }, &[4]),
        ] {
            assert_eq!(passed(options.clone()), ids, "{options:?}");
        }
    }

    #[test]
    fn what_means_nothing_is_said() {
        let error = |options| Filter::new(options, Passed::default()).err().unwrap().to_string();
        let base = FilterOptions::default;
        assert_eq!(
            error(FilterOptions { devices: vec!["mmcblk0".to_owned()], ..base() }),
            "\"mmcblk0\" is not a device number; use major:minor, 179:0 for example"
        );
        assert!(
            error(FilterOptions { ops: vec!["wriet".to_owned()], ..base() })
                .contains("the ops are read, write,")
        );
        assert!(
            error(FilterOptions { from_ns: Some(Nanos(2)), until_ns: Some(Nanos(1)), ..base() })
                .contains("before it begins")
        );
    }
}
