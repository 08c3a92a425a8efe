//! Chooses the part of a recording that is recreated.

use std::io;
use std::path::Path;
use std::time::Duration;

use fonio_core::{ByteCount, Call, DeviceId, File, Nanos, Request, RowSink, Thread, Timestamp, ignore_rows};
use fonio_recording::{Recording, Table, Tables};
use rustc_hash::FxHashMap;

use super::written_back::{self, Burst, WrittenBack};
use crate::error::ExperimentError;
use crate::replay::calls::{Act, Collected, Felt, Recorded, Sequence};
use crate::replay::has_all_calls;

/// A program by its name and unit, as an analysis names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program<'a> {
    /// The name of the process.
    pub name: &'a str,
    /// The systemd unit or container, if known.
    pub unit: Option<&'a str>,
}

/// The most that one run of a scene may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SceneLimits {
    /// The longest part of the recording.
    pub span: Duration,
    /// The number of bytes written in a run: by both programs, and for files that must exist before.
    pub bytes: ByteCount,
    /// The part begins at this time of the recording, or later.
    pub from: Duration,
}

impl SceneLimits {
    /// The limits for a proof of about a minute on a card that writes 10 MB/s.
    pub const DEFAULT: SceneLimits =
        SceneLimits { span: Duration::from_secs(5), bytes: ByteCount(256 << 20), from: Duration::ZERO };
}

/// A part of a recording with a stall: the calls of the delayed program, and of the program in its way.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The time from the beginning of the recording to the beginning of the part.
    pub begins: Duration,
    /// The length of the part.
    pub span: Duration,
    /// The number of bytes that a run writes at most.
    pub bytes: ByteCount,
    /// What the delayed program felt in this part of the recording.
    pub recorded: Felt,
    /// The file system on which the programs worked.
    pub filesystem: DeviceId,
    /// The calls of the delayed program, and of the program in its way if there is one.
    pub(super) parts: Vec<Sequence>,
    /// The write-back of data of the program in the way.
    pub(super) written_back: Vec<Burst>,
}

/// A scene may begin at each of these steps.
const STEP: Duration = Duration::from_millis(250);
/// The spans that are tried, as shares of the longest one. A shorter part writes less.
const SHARES: [f64; 3] = [1.0, 0.6, 0.35];

impl Scene {
    /// Finds the part of the recording in `dir` in which `victim` spent most time in its calls, with the calls of
    /// `culprit`. Fails with [`ExperimentError::NotRecreated`] if the recording has no such calls, or if each part
    /// exceeds the limits.
    pub fn of_recording(
        dir: &Path,
        victim: Program<'_>,
        culprit: Option<Program<'_>>,
        limits: SceneLimits,
    ) -> Result<Scene, ExperimentError> {
        let mut rows = Rows::default();
        let tables = [Table::Threads, Table::Calls, Table::Files, Table::Requests];
        let tables = tables.into_iter().fold(Tables::NONE, Tables::with);
        let recording = Recording::open(dir)?;
        recording.replay(&mut rows, tables)?;
        let too_large = |why| ExperimentError::TooLarge { recording: dir.to_owned(), why };
        rows.calls.check().map_err(too_large)?;
        let not = |reason: String| ExperimentError::NotRecreated { reason };
        let own: Vec<&Recorded> =
            rows.calls.calls().iter().filter(|call| rows.is_of(call.tid, victim)).collect();
        if own.is_empty() {
            return Err(not(format!("the recording has no calls of {}", victim.name)));
        }
        if !has_all_calls(recording.meta()) {
            return Err(not("the recording has only some calls, from a trace of another program".to_owned()));
        }
        let filesystem = rows
            .slowest_filesystem(&own)
            .ok_or_else(|| not(format!("the recording does not show the files of {}", victim.name)))?;
        let began = rows.began.or(own.first().map(|call| call.entered)).unwrap_or_default();
        let ended = own.iter().filter_map(|call| call.exited).max().unwrap_or(began);
        let mut least = None;
        for share in SHARES {
            let span = limits.span.mul_f64(share);
            let from = busiest(&own, after(began, limits.from), ended, span);
            let until = after(from, span);
            let chosen = |program: Program<'_>| {
                rows.calls.part(from, filesystem, |call| {
                    call.entered >= from && call.entered < until && rows.is_of(call.tid, program)
                })
            };
            let mut parts = vec![chosen(victim).map_err(too_large)?];
            if let Some(culprit) = culprit {
                parts.extend(Some(chosen(culprit).map_err(too_large)?).filter(|part| !part.is_empty()));
            }
            let written_back = culprit.map_or_else(Vec::new, |culprit| {
                let is_victim = |tid| rows.is_of(tid, victim);
                rows.written_back.bursts(from, until, is_victim, |tid| rows.is_of(tid, culprit))
            });
            let by_calls = parts.iter().map(written).fold(0, u64::saturating_add);
            let bytes = ByteCount(by_calls.saturating_add(written_back::bytes(&written_back)));
            if bytes <= limits.bytes && !parts[0].is_empty() {
                return Ok(Scene {
                    begins: length(from.since(began)),
                    span,
                    bytes,
                    recorded: felt(&own, from, until),
                    filesystem,
                    parts,
                    written_back,
                });
            }
            least = Some(bytes);
        }
        let wanted = least.unwrap_or_default();
        Err(not(format!(
            "even a part of {:.1} s would write {}, and the limit is {}",
            limits.span.mul_f64(SHARES[SHARES.len() - 1]).as_secs_f64(),
            wanted.to_exact_text(),
            limits.bytes.to_exact_text()
        )))
    }

    /// Returns the number of bytes that the kernel writes back for the program in the way.
    pub fn written_back(&self) -> ByteCount {
        ByteCount(written_back::bytes(&self.written_back))
    }

    /// Returns whether the scene has calls of a program in the way.
    pub fn has_culprit(&self) -> bool {
        self.parts.len() > 1
    }
}

fn after(from: Timestamp, span: Duration) -> Timestamp {
    Timestamp(from.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}

fn length(time: Option<Nanos>) -> Duration {
    Duration::from_nanos(time.unwrap_or_default().0)
}

fn took(call: &Recorded) -> Duration {
    length(call.exited.and_then(|exited| exited.since(call.entered)))
}

/// Returns where a part of this length must begin so that the calls in it take longest.
fn busiest(calls: &[&Recorded], began: Timestamp, ended: Timestamp, span: Duration) -> Timestamp {
    let within = |from: Timestamp| -> Duration {
        let until = after(from, span);
        calls.iter().filter(|call| call.entered >= from && call.entered < until).map(|call| took(call)).sum()
    };
    let last = length(ended.since(began)).saturating_sub(span);
    let steps = u32::try_from(last.as_nanos() / STEP.as_nanos()).unwrap_or(u32::MAX);
    let begins = (0..=steps.min(2000)).map(|step| after(began, STEP * step));
    // Of equal parts, the first one.
    begins.rev().max_by_key(|from| within(*from)).unwrap_or(began)
}

fn felt(calls: &[&Recorded], from: Timestamp, until: Timestamp) -> Felt {
    let mut felt = Felt::default();
    for call in calls.iter().filter(|call| call.entered >= from && call.entered < until) {
        felt.calls += 1;
        felt.bytes.0 += call.result.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default();
        felt.in_calls += took(call);
        felt.longest = felt.longest.max(took(call));
        let ended = call.exited.unwrap_or(call.entered);
        felt.took = felt.took.max(length(ended.since(from)));
    }
    felt
}

/// Returns the number of bytes that a sequence writes, with the files that must exist before.
fn written(sequence: &Sequence) -> u64 {
    let calls = sequence.threads.iter().flatten().map(|call| match call.act {
        Act::Write { bytes, .. } | Act::Allocate { bytes, .. } => bytes,
        _ => 0,
    });
    let before = sequence.files.iter().filter(|file| file.is_there).map(|file| {
        let chunks = file.chunks.ranges().map(|range| range.end - range.start).sum::<u64>();
        file.bytes.min(chunks.saturating_mul(1 << 20))
    });
    calls.chain(before).fold(0, u64::saturating_add)
}

/// The calls of a recording with the names of their threads.
#[derive(Debug, Default)]
struct Rows {
    began: Option<Timestamp>,
    calls: Collected,
    threads: FxHashMap<u32, Named>,
    written_back: WrittenBack,
}

#[derive(Debug, Default)]
struct Named {
    process: Option<u32>,
    /// All names that the thread had.
    names: Vec<String>,
    unit: Option<String>,
}

impl Rows {
    /// Returns whether a thread belongs to a program. The name of a process is the name of its first thread.
    fn is_of(&self, tid: u32, program: Program<'_>) -> bool {
        let Some(thread) = self.threads.get(&tid) else { return false };
        let first = thread.process.and_then(|process| self.threads.get(&process)).unwrap_or(thread);
        let is_unit = program.unit.is_none() || thread.unit.as_deref() == program.unit;
        is_unit && first.names.iter().any(|name| name == program.name)
    }

    /// Returns the file system on which the calls took longest.
    fn slowest_filesystem(&self, calls: &[&Recorded]) -> Option<DeviceId> {
        let mut times: Vec<(DeviceId, Duration)> = Vec::new();
        for call in calls {
            let Some(on) = call.file_id.and_then(|id| self.calls.filesystem_of(id)) else { continue };
            match times.iter_mut().find(|(known, _)| *known == on) {
                Some((_, time)) => *time += took(call),
                None => times.push((on, took(call))),
            }
        }
        times.into_iter().max_by_key(|(_, time)| *time).map(|(on, _)| on)
    }
}

impl RowSink for Rows {
    fn began(&mut self, at: Timestamp) -> io::Result<()> {
        self.began = Some(at);
        self.calls.began(at)
    }

    fn call(&mut self, row: &Call) -> io::Result<()> {
        self.calls.call(row)
    }

    fn file(&mut self, row: &File) -> io::Result<()> {
        self.calls.file(row)
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        let thread = self.threads.entry(row.tid).or_default();
        thread.process = row.pid.or(thread.process);
        thread.names.extend(row.comm.clone().filter(|name| !thread.names.contains(name)));
        thread.unit = row.unit.clone().or(thread.unit.take());
        Ok(())
    }

    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.written_back.request(row);
        Ok(())
    }

    ignore_rows! {
        bio, link, statement, wait, blocked_count, sample, mark, diagnostic, settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn rows(calls: &[(u32, &str, u64, u64)]) -> Rows {
        let mut rows = Rows::default();
        rows.began(Timestamp(0)).expect("kept");
        for (tid, pid, comm) in [(10, 10, "notes"), (11, 10, "worker"), (20, 20, "cp")] {
            let row = Thread {
                tid,
                from: Timestamp(0),
                pid: Some(pid),
                comm: Some(comm.to_owned()),
                cgroup: None,
                uid: None,
                parent_pid: None,
                unit: None,
            };
            rows.thread(&row).expect("kept");
        }
        for (number, (tid, name, at, took)) in calls.iter().enumerate() {
            let call = Call {
                call_id: number as u64,
                name: (*name).to_owned(),
                tid: *tid,
                file_id: Some(*tid),
                offset: Some(0),
                bytes: Some(ByteCount(1 << 20)),
                entered: Timestamp(at * MS),
                exited: Some(Timestamp((at + took) * MS)),
                result: Some(1 << 20),
                sqlite_write: None,
                file_flags: None,
            };
            rows.call(&call).expect("kept");
        }
        rows
    }

    #[test]
    fn threads_belong_to_the_program_of_their_process() {
        let rows = rows(&[]);
        let program = |name| Program { name, unit: None };
        assert!(rows.is_of(10, program("notes")) && rows.is_of(11, program("notes")));
        assert!(!rows.is_of(11, program("worker")) && !rows.is_of(20, program("notes")));
        assert!(!rows.is_of(10, Program { name: "notes", unit: Some("notes.service") }));
    }

    #[test]
    fn the_busiest_part_is_found() {
        let rows = rows(&[
            (10, "fsync", 1_000, 100),
            (10, "fsync", 9_000, 2_000),
            (11, "fsync", 9_500, 1_500),
            (10, "fsync", 30_000, 1_000),
        ]);
        let own: Vec<&Recorded> = rows.calls.calls().iter().collect();
        let span = Duration::from_secs(4);
        let from = busiest(&own, Timestamp(0), Timestamp(31_000 * MS), span);
        let found = felt(&own, from, after(from, span));
        assert_eq!(
            (found.calls, found.in_calls, found.longest),
            (2, Duration::from_millis(3500), Duration::from_secs(2))
        );
    }
}
