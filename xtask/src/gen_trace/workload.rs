//! The disk and the processes of the trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use fonio_core::Random;

use super::Options;
use super::record::*;

/// The disk's size is 64 GiB.
const SECTORS: u64 = 128 << 20;
/// The number of requests that the disk accepts at once.
const DEPTH: usize = 32;
/// The first record's time on the monotonic clock.
const BEGINS_NS: u64 = 1_000_000_000_000;
/// A process queues no more bios while its bios wait longer than this for the disk.
const BACKLOG_NS: u64 = 10_000_000;

/// The I/O of a process.
struct Process {
    comm: &'static str,
    pid: u32,
    /// Share of all I/Os, in 256ths.
    share: u64,
    /// Categories of its ordinary I/O.
    rwbs: u32,
    /// Smallest size, and the number of doublings by which it varies.
    sectors: u64,
    doublings: u64,
    /// I/Os in 256 that do not continue where the last one ended.
    jumps: u64,
    /// I/Os in 256 with bios that are merged.
    merges: u64,
    /// I/Os in 256 that are followed by a flush.
    flushes: u64,
}

const PROCESSES: [Process; 8] = [
    process("cp", 811, 44, TC_READ | TC_AHEAD, 256, 0, 4, 20, 0),
    process("postgres", 902, 72, TC_READ, 16, 0, 250, 0, 0),
    process("postgres: wal", 903, 24, TC_WRITE | TC_SYNC, 16, 3, 6, 10, 64),
    process("sqlite3", 1044, 24, TC_WRITE | TC_SYNC, 8, 1, 120, 0, 96),
    process("kworker/u4:1", 37, 64, TC_WRITE, 8, 6, 40, 40, 0),
    process("jbd2/sda1-8", 214, 12, TC_WRITE | TC_SYNC | TC_META | TC_FUA, 8, 4, 2, 30, 8),
    process("find", 1300, 14, TC_READ | TC_META, 8, 0, 220, 0, 0),
    process("fstrim", 1377, 2, TC_WRITE | TC_SYNC | TC_DISCARD, 2048, 4, 30, 0, 0),
];

#[allow(clippy::too_many_arguments)]
const fn process(
    comm: &'static str,
    pid: u32,
    share: u64,
    rwbs: u32,
    sectors: u64,
    doublings: u64,
    jumps: u64,
    merges: u64,
    flushes: u64,
) -> Process {
    Process { comm, pid, share, rwbs, sectors, doublings, jumps, merges, flushes }
}

/// The state of a process that changes while it runs.
#[derive(Clone, Copy)]
struct State {
    cpu: u64,
    next_sector: u64,
    named: bool,
}

/// One planned request.
#[derive(Clone, Copy)]
struct Io {
    pid: u32,
    cpu: u64,
    rwbs: u32,
    sector: u64,
    sectors: u64,
}

/// Plans the trace and writes it in order of time.
pub struct Generator<W> {
    /// The file of each processor.
    pub files: Vec<W>,
    sequences: Vec<u32>,
    random: Random,
    cpus: u64,
    now: u64,
    /// Records that are planned and not yet written.
    planned: BinaryHeap<Reverse<Record>>,
    order: u64,
    /// The time when each of the disk's slots is free again, and the sectors in it until then.
    places: [(u64, u64, u64); DEPTH],
    /// The time when the last flush is done.
    flushed: u64,
    processes: [State; PROCESSES.len()],
    /// Number of records by which the plan falls short of five for each I/O; negative if it exceeds this.
    saved: i64,
    counts: Counts,
}

impl<W: Write> Generator<W> {
    /// Creates a generator at the beginning of the trace, with one file for each processor.
    pub fn new(options: &Options, files: Vec<W>) -> Generator<W> {
        let mut random = Random::new(options.seed);
        let processes = std::array::from_fn(|_| State {
            cpu: random.below(options.cpus),
            next_sector: random.below(SECTORS / 8) * 8,
            named: false,
        });
        Generator {
            sequences: vec![0; files.len()],
            files,
            random,
            cpus: options.cpus,
            now: BEGINS_NS,
            planned: BinaryHeap::new(),
            order: 0,
            places: [(BEGINS_NS, 0, 0); DEPTH],
            flushed: BEGINS_NS,
            processes,
            saved: 0,
            counts: Counts::default(),
        }
    }

    /// Writes the complete trace.
    pub fn run(&mut self, ios: u64) -> io::Result<Counts> {
        self.note(self.now, 0, NOTE_CLOCK, 0, Payload::Clock);
        let mut left = ios;
        while left > 0 {
            left -= self.step(left);
            self.write_until(self.now)?;
        }
        self.write_until(u64::MAX - 1)?;
        while self.saved > 0 {
            self.note(self.now, 0, NOTE_MESSAGE, 0, Payload::Message);
        }
        self.write_until(u64::MAX)?;
        Ok(self.counts)
    }

    /// Plans the next request with its merged bios, and perhaps a flush; returns the number of these I/Os.
    fn step(&mut self, left: u64) -> u64 {
        let mut at = 0;
        let mut draw = self.random.below(256);
        while draw >= PROCESSES[at].share {
            draw -= PROCESSES[at].share;
            at += 1;
        }
        let process = &PROCESSES[at];
        if self.random.below(512) == 0 {
            self.processes[at].cpu = self.random.below(self.cpus);
        }
        let cpu = self.processes[at].cpu;
        if !self.processes[at].named {
            self.processes[at].named = true;
            self.note(self.now, cpu, NOTE_PROCESS, process.pid, Payload::Name(process.comm));
        }
        let sectors = process.sectors << self.random.below(process.doublings + 1);
        // The last I/Os have no merges, so that enough I/Os remain to save the records that merges add.
        let merge = left > 200 && self.random.below(256) < process.merges;
        let merged = if merge { 1 + self.random.below(4) } else { 0 };
        let all = sectors * (1 + merged);
        let mut sector = self.processes[at].next_sector;
        while self.random.below(256) < process.jumps || sector + all > SECTORS || self.in_flight(sector, all)
        {
            sector = self.random.below((SECTORS - all) / 8) * 8;
        }
        self.processes[at].next_sector = sector + all;
        let io = Io { pid: process.pid, cpu, rwbs: process.rwbs, sector, sectors };
        let waited = self.request(io, merged);
        let mut ios = 1;
        if ios < left && self.random.below(256) < process.flushes {
            self.flush(io);
            ios += 1;
        }
        self.now += self.think(waited);
        ios
    }

    /// Returns whether a request on those sectors is in flight; the kernel's page lock would delay another one.
    fn in_flight(&self, sector: u64, sectors: u64) -> bool {
        self.places
            .iter()
            .any(|(until, from, to)| *until >= self.now && sector < *to && *from < sector + sectors)
    }

    /// Plans one request; returns how long it waited for the disk.
    fn request(&mut self, io: Io, merged: u64) -> u64 {
        let mut time = self.now;
        let plugged = if merged > 0 { self.random.below(8) != 0 } else { self.saved >= 2 };
        let inserted = self.saved >= 0;
        // A front merge puts the bio before the request.
        let front = merged == 1 && self.random.below(16) == 0;
        let first = if front { io.sector + io.sectors } else { io.sector };
        let whole = Io { sectors: io.sectors * (1 + merged), ..io };
        let bio = |sector| Io { sector, ..io };

        self.event(time, QUEUE, bio(first));
        time += 200 + self.random.below(400);
        self.event(time, GET_REQUEST, bio(first));
        if plugged {
            time += 60 + self.random.below(100);
            self.event(time, PLUG, Io { rwbs: TC_READ, sector: 0, sectors: 0, ..io });
        } else if inserted {
            time += 200 + self.random.below(300);
            self.event(time, INSERT, bio(first));
        }
        for part in 1..=merged {
            let sector = if front { io.sector } else { io.sector + part * io.sectors };
            time += 300 + self.random.below(900);
            self.event(time, QUEUE, bio(sector));
            time += 100 + self.random.below(200);
            self.event(time, if front { FRONT_MERGE } else { BACK_MERGE }, bio(sector));
        }
        if plugged {
            time += 100 + self.random.below(300);
            let unplug = Io { rwbs: TC_READ, sector: 0, sectors: 0, ..io };
            self.plan(time, UNPLUG, unplug, Payload::Unplug(1));
            if inserted {
                time += 100 + self.random.below(200);
                self.event(time, INSERT, whole);
            }
        }
        self.saved += 5;
        let ready = time + 300 + self.random.below(700);
        let (mut issue, place) = self.place(ready);
        self.event(issue, ISSUE, whole);
        if merged > 0 && self.random.below(2_000) == 0 {
            let back = issue + 20_000 + self.random.below(20_000);
            self.event(back, REQUEUE, whole);
            issue = back + 3_000_000 + self.random.below(1_000_000);
            self.event(issue, ISSUE, whole);
        }
        let done = issue + self.service(whole);
        self.places[place] = (done, whole.sector, whole.sector + whole.sectors);
        self.complete(done, whole);
        issue - time
    }

    /// Plans a flush: the bio that asks for it is an empty write; the flush request is issued.
    fn flush(&mut self, after: Io) {
        let asked = Io { rwbs: TC_WRITE | TC_FLUSH | TC_SYNC, sector: 0, sectors: 0, ..after };
        let flush = Io { rwbs: TC_READ | TC_FLUSH, ..asked };
        // The flush is requested when the write before it is done.
        let asked_at = self.places.iter().map(|place| place.0).fold(self.flushed, u64::max);
        self.event(asked_at, QUEUE, asked);
        let time = asked_at + 200 + self.random.below(300);
        self.event(time, GET_REQUEST, asked);
        let time = time + 200 + self.random.below(300);
        self.event(time, ISSUE, flush);
        let done = time + 400_000 + tail(&mut self.random, 600_000);
        let cpu = self.complete(done, flush);
        // The kernel has only one flush in flight at a time.
        self.flushed = done + 1_000;
        self.plan(done + 500, COMPLETE, Io { cpu, pid: 0, ..asked }, Payload::None);
        self.saved += 5;
    }

    /// Returns the earliest time from `time` on at which the disk accepts a request, and its slot.
    fn place(&mut self, time: u64) -> (u64, usize) {
        let mut best = 0;
        for (at, place) in self.places.iter().enumerate() {
            if place.0 < self.places[best].0 {
                best = at;
            }
        }
        (time.max(self.places[best].0 + 2_000), best)
    }

    /// Plans the completion, half the time on another processor; returns the processor.
    fn complete(&mut self, time: u64, io: Io) -> u64 {
        let cpu = if self.random.below(2) == 0 { self.random.below(self.cpus) } else { io.cpu };
        let pid = if self.random.below(4) == 0 { io.pid } else { 0 };
        self.plan(time, COMPLETE, Io { cpu, pid, ..io }, Payload::None);
        cpu
    }

    /// Returns the disk's time for a request: a flash read or write, the transfer, and occasionally a long pause.
    fn service(&mut self, io: Io) -> u64 {
        let base = match io.rwbs {
            rwbs if rwbs & TC_DISCARD != 0 => 300_000,
            rwbs if rwbs & TC_WRITE != 0 => 30_000 + tail(&mut self.random, 20_000),
            _ => 80_000 + tail(&mut self.random, 30_000),
        };
        let transfer = if io.rwbs & TC_DISCARD != 0 { 0 } else { io.sectors * 1_100 };
        let pause = if self.random.below(1000) == 0 { self.random.below(20_000_000) } else { 0 };
        base + transfer + pause
    }

    /// Returns the time until the next I/O.
    fn think(&mut self, waited: u64) -> u64 {
        if waited > BACKLOG_NS {
            return waited;
        }
        match self.random.below(1024) {
            0 => 5_000_000 + self.random.below(20_000_000),
            1..700 => 1_000 + self.random.below(20_000),
            _ => 20_000 + tail(&mut self.random, 60_000),
        }
    }

    fn event(&mut self, time: u64, action: u32, io: Io) {
        self.plan(time, action, io, Payload::None);
    }

    fn note(&mut self, time: u64, cpu: u64, action: u32, pid: u32, payload: Payload) {
        let io = Io { pid, cpu, rwbs: 0, sector: 0, sectors: 0 };
        self.plan(time, action, io, payload);
    }

    fn plan(&mut self, time: u64, action: u32, io: Io, payload: Payload) {
        let is_note = action & TC_NOTIFY != 0;
        self.order += 1;
        self.saved -= 1;
        self.planned.push(Reverse(Record {
            time,
            order: self.order,
            cpu: io.cpu,
            sector: io.sector,
            bytes: (io.sectors * 512) as u32,
            action: action | if is_note { 0 } else { io.rwbs | TC_FS },
            pid: io.pid,
            payload,
        }));
    }

    fn write_until(&mut self, time: u64) -> io::Result<()> {
        while let Some(Reverse(record)) = self.planned.peek() {
            if record.time >= time {
                break;
            }
            let record = *record;
            self.planned.pop();
            self.now = self.now.max(record.time);
            self.write(&record)?;
        }
        Ok(())
    }

    fn write(&mut self, record: &Record) -> io::Result<()> {
        let cpu = record.cpu as usize;
        let mut sequence = 0;
        if !record.is_note() {
            self.sequences[cpu] = self.sequences[cpu].wrapping_add(1);
            sequence = self.sequences[cpu];
        }
        let bytes = record.write(sequence, &mut self.files[cpu])?;
        self.counts.add(record, bytes);
        Ok(())
    }
}

/// Draws a value mostly below `scale`, with a long tail: half of the values of each doubling go to the next.
fn tail(random: &mut Random, scale: u64) -> u64 {
    let doublings = random.next_u64().leading_zeros().min(10);
    random.below(scale << doublings)
}
