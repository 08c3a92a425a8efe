//! Finds the running processes of the program in the way, which a fix may slow down.

use std::collections::BTreeMap;
use std::io;

use anyhow::{Context, Result};
use fonio_core::{DeviceId, Op, Request, RowSink, Thread, ignore_rows};
use fonio_recording::{Recording, Table, Tables};
use fonio_system::Task;

use super::seen::Seen;

/// A process is slowed down if it caused at least this share of the program's bytes.
const SHARE_LEAST: f64 = 0.05;

/// The processes of the program in the way.
pub(super) struct Slowed {
    /// The running processes.
    pub(super) pids: Vec<u32>,
    /// The bytes that the program read from the disk or wrote to it, whichever is more.
    pub(super) bytes: u64,
}

/// Returns the running processes that caused the requests of the program in the way, according to the recording, or
/// the scripts that started them. Other processes with the same name are left alone. So are this command, the delayed
/// program, and all processes that started them. `disk` is the number of the disk whose bytes are returned.
pub(super) fn processes(seen: &Seen, disk: &str) -> Result<Slowed> {
    let diagnosis = seen.analysis.diagnosis.as_ref().context("no program waited")?;
    let culprit = diagnosis.culprit.as_deref().context("no program was in the way")?;
    let mut rows = Rows { disk: fonio_system::device::parse(disk), ..Rows::default() };
    let tables = Tables::NONE.with(Table::Threads).with(Table::Requests);
    Recording::open(&seen.recording)?.replay(&mut rows, tables)?;
    let delayed = diagnosis.program.as_deref().unwrap_or_default();
    let victims = rows.processes_of(delayed, diagnosis.unit.as_deref());
    let running = victims.into_iter().map(|(pid, _)| pid).chain([std::process::id()]);
    let spared: Vec<u32> =
        running.flat_map(|pid| std::iter::successors(Some(pid), |pid| parent(*pid))).collect();
    let of_program = rows.processes_of(culprit, diagnosis.culprit_unit.as_deref());
    let of_processes: Vec<u32> = of_program.iter().map(|(pid, _)| *pid).collect();
    let all: u64 = of_program.iter().map(|(_, bytes)| *bytes).sum();
    let mut chosen: Vec<u32> = of_program
        .into_iter()
        .filter(|(_, bytes)| *bytes > 0 && *bytes as f64 >= SHARE_LEAST * all as f64)
        .filter_map(|(pid, _)| {
            let is_same = Task::of(pid).name().as_deref() == Some(culprit);
            let started_by = || rows.threads.get(&pid)?.parent.filter(|parent| is_script(*parent));
            if is_same { Some(pid) } else { started_by() }
        })
        .map(|pid| starter(pid, &spared))
        .filter(|pid| !spared.contains(pid))
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    let of_disk = of_processes.iter().filter_map(|pid| rows.of_disk.get(pid));
    let [read, written] =
        of_disk.fold([0_u64; 2], |sum, of| [0, 1].map(|kind| sum[kind].saturating_add(of[kind])));
    Ok(Slowed { pids: chosen, bytes: read.max(written) })
}

/// Returns the shell that runs a program, because it starts the program's next process, such as the next copy of a
/// script; or the program's process itself.
fn starter(pid: u32, spared: &[u32]) -> u32 {
    let mut found = pid;
    while let Some(shell) = parent(found).filter(|shell| is_script(*shell) && !spared.contains(shell)) {
        found = shell;
    }
    found
}

/// Returns whether a process is a shell that runs a script. The shell of a person has no script.
fn is_script(pid: u32) -> bool {
    let task = Task::of(pid);
    let arguments = std::fs::read(task.file("cmdline")).unwrap_or_default();
    let has_script = arguments.split(|byte| *byte == 0).filter(|word| !word.is_empty()).count() > 1;
    task.name().is_some_and(|name| SHELLS.contains(&name.as_str())) && has_script
}

fn parent(pid: u32) -> Option<u32> {
    Task::of(pid).stat().map(|stat| stat.parent).filter(|parent| *parent > 1)
}

/// Programs that run scripts.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "ksh"];
/// The most threads that are remembered.
const THREADS_MAX: usize = 1 << 17;

/// The threads of a recording, and the bytes that each caused.
#[derive(Debug, Default)]
struct Rows {
    threads: BTreeMap<u32, Known>,
    bytes: BTreeMap<u32, u64>,
    /// The bytes that each read from this disk, and wrote to it.
    disk: Option<DeviceId>,
    of_disk: BTreeMap<u32, [u64; 2]>,
}

#[derive(Debug, Default)]
struct Known {
    process: Option<u32>,
    parent: Option<u32>,
    /// The last name.
    name: String,
    unit: Option<String>,
}

impl Rows {
    /// Returns the processes of a program, each with the bytes of the requests that it caused, in the order of their
    /// ids. The name of a process is the name of its first thread.
    fn processes_of(&self, name: &str, unit: Option<&str>) -> Vec<(u32, u64)> {
        let is_of = |known: &Known| known.name == name && (unit.is_none() || known.unit.as_deref() == unit);
        (self.threads.iter())
            .filter(|(tid, known)| known.process.is_none_or(|process| process == **tid) && is_of(known))
            .map(|(pid, _)| (*pid, self.bytes.get(pid).copied().unwrap_or_default()))
            .collect()
    }
}

impl RowSink for Rows {
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        if self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&row.tid) {
            return Ok(());
        }
        let known = self.threads.entry(row.tid).or_default();
        known.process = row.pid.or(known.process);
        known.parent = row.parent_pid.or(known.parent);
        known.name = row.comm.clone().unwrap_or_else(|| std::mem::take(&mut known.name));
        known.unit = row.unit.clone().or_else(|| known.unit.take());
        Ok(())
    }

    fn request(&mut self, row: &Request) -> io::Result<()> {
        let Some(tid) = row.cause_tid.or(row.tid) else { return Ok(()) };
        let process = self.threads.get(&tid).and_then(|known| known.process).unwrap_or(tid);
        if self.bytes.len() < THREADS_MAX || self.bytes.contains_key(&process) {
            let sum = self.bytes.entry(process).or_default();
            *sum = sum.saturating_add(row.bytes.0);
            if self.disk == Some(row.device) {
                let sum = &mut self.of_disk.entry(process).or_default()[usize::from(row.op != Op::Read)];
                *sum = sum.saturating_add(row.bytes.0);
            }
        }
        Ok(())
    }

    ignore_rows! {
        began, bio, link, call, statement, wait, blocked_count, file, sample, mark, diagnostic, settled
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::ByteCount;

    use super::*;

    #[test]
    fn only_the_processes_that_caused_the_requests_are_found() {
        let mut rows = Rows::default();
        for (tid, pid, comm, unit) in [
            (10, 10, "python3", Some("web.service")),
            (20, 20, "python3", Some("backup.service")),
            (21, 20, "worker", Some("backup.service")),
            (30, 30, "python3", Some("backup.service")),
        ] {
            let (comm, unit) = (Some(comm.to_owned()), unit.map(str::to_owned));
            let row = Thread { tid, pid: Some(pid), comm, unit, ..Thread::default() };
            rows.thread(&row).expect("it is kept");
        }
        for (tid, bytes) in [(10, 4096), (20, 1 << 20), (21, 1 << 20)] {
            let row = Request {
                cause_tid: Some(tid),
                ..Request::new(DeviceId::new(8, 0), Op::Write, ByteCount(bytes))
            };
            rows.request(&row).expect("it is counted");
        }
        assert_eq!(rows.processes_of("python3", Some("backup.service")), [(20, 2 << 20), (30, 0)]);
        assert_eq!(rows.processes_of("python3", None), [(10, 4096), (20, 2 << 20), (30, 0)]);
        assert_eq!(rows.processes_of("worker", None), [], "it is a thread");
    }

    #[test]
    fn a_script_is_slowed_down_with_its_programs_but_not_what_started_this_test() {
        let mut script = std::process::Command::new("sh").args(["-c", "sleep 60; true"]).spawn().expect("sh");
        let child = || {
            let mut all = Task::all_below(std::path::Path::new("/proc"));
            all.find(|pid| {
                Task::of(*pid).name().as_deref() == Some("sleep") && parent(*pid) == Some(script.id())
            })
        };
        let sleep = loop {
            match child() {
                Some(sleep) => break sleep,
                None => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        };
        assert_eq!(starter(sleep, &[std::process::id()]), script.id());
        assert_eq!(starter(sleep, &[script.id()]), sleep);
        let pid = rustix::process::Pid::from_raw(sleep.cast_signed()).expect("not zero");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
        script.wait().expect("it ends");
    }
}
