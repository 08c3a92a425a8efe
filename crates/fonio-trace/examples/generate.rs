//! Generates a blktrace capture of any size for `cargo xtask gen-trace`, in the format of `blktrace`: one file
//! per processor, version 7, little-endian. Arguments: the prefix of the files, the number of requests, the
//! seed, and the number of processors.
//!
//! The trace shows one disk used by several processes: sequential and random runs, reads, writes, readahead,
//! synchronous and journal writes, flushes, discards, merges, plugs, a rare requeue, and completions on other
//! processors. The simulated disk accepts 32 requests at a time. The generated trace depends only on the
//! arguments.
//!
//! Each request has five records (Q, G, I, D, C). A merged bio adds two records (Q, M), the plug of a merged
//! bio adds two (P, U), and a requeue adds two (R, D).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use fonio_core::Random;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [prefix, ios, seed, cpus] = &words[..] else { return Err("write PREFIX REQUESTS SEED CPUS".into()) };
    let file = |cpu: u64| {
        let file = File::create(format!("{prefix}.blktrace.{cpu}"))?;
        Ok(BufWriter::with_capacity(1 << 20, file))
    };
    let cpus: u64 = cpus.parse()?;
    let mut generator = Generator::new(seed.parse()?, (0..cpus).map(file).collect::<io::Result<Vec<_>>>()?);
    generator.run(ios.parse()?)?;
    for file in &mut generator.files {
        file.flush()?;
    }
    println!("{prefix}.blktrace.0 to .{}: {} records", cpus - 1, generator.order);
    Ok(())
}

// Categories and actions of `include/uapi/linux/blktrace_api.h`.
const TC_READ: u32 = 1 << 16;
const TC_WRITE: u32 = 1 << 17;
const TC_FLUSH: u32 = 1 << 18;
const TC_SYNC: u32 = 1 << 19;
const TC_QUEUE: u32 = 1 << 20;
const TC_FS: u32 = 1 << 24;
const TC_NOTIFY: u32 = 1 << 26;
const TC_AHEAD: u32 = 1 << 27;
const TC_META: u32 = 1 << 28;
const TC_DISCARD: u32 = 1 << 29;
const TC_FUA: u32 = 1 << 31;

const QUEUE: u32 = 1 | TC_QUEUE;
const BACK_MERGE: u32 = 2 | TC_QUEUE;
const FRONT_MERGE: u32 = 3 | TC_QUEUE;
const GET_REQUEST: u32 = 4 | TC_QUEUE;
const REQUEUE: u32 = 6 | 1 << 21;
const ISSUE: u32 = 7 | 1 << 22;
const COMPLETE: u32 = 8 | 1 << 23;
const PLUG: u32 = 9 | TC_QUEUE;
const UNPLUG: u32 = 10 | TC_QUEUE;
const INSERT: u32 = 12 | TC_QUEUE;
const NOTE_PROCESS: u32 = TC_NOTIFY;
const NOTE_CLOCK: u32 = 1 | TC_NOTIFY;

/// The number of requests in an unplug record, big-endian.
const ONE: &[u8] = &1_u64.to_be_bytes();
/// The wall-clock time of the first record: 2023-11-14, in seconds since 1970, and 0 ns.
const WALL_CLOCK: &[u8] = &1_700_000_000_u64.to_le_bytes();

/// A trace record: `struct blk_io_trace`. Records are ordered by time, then by position in the plan.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Record {
    time: u64,
    order: u64,
    action: u32,
    io: Io,
    payload: &'static [u8],
}

/// A planned bio or request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Io {
    pid: u32,
    cpu: u64,
    /// The request's categories.
    rwbs: u32,
    sector: u64,
    sectors: u64,
}

impl Record {
    fn write(&self, sequence: u32, out: &mut impl Write) -> io::Result<()> {
        /// The device number of the traced disk: 8,0.
        const DEVICE: u32 = 8 << 20;
        out.write_all(&0x6561_7407_u32.to_le_bytes())?;
        out.write_all(&sequence.to_le_bytes())?;
        out.write_all(&self.time.to_le_bytes())?;
        out.write_all(&self.io.sector.to_le_bytes())?;
        for word in [self.io.sectors as u32 * 512, self.action, self.io.pid, DEVICE, self.io.cpu as u32] {
            out.write_all(&word.to_le_bytes())?;
        }
        // The record's error code is 0.
        out.write_all(&0_u16.to_le_bytes())?;
        out.write_all(&(self.payload.len() as u16).to_le_bytes())?;
        out.write_all(self.payload)
    }
}

/// The I/O pattern of a process.
struct Process {
    /// The process name, which ends with a NUL.
    comm: &'static [u8],
    pid: u32,
    /// The process's share of all requests, in 256ths.
    share: u64,
    /// Categories of the process's reads or writes.
    rwbs: u32,
    /// Smallest request size in sectors, and the maximum number of times that this size is doubled.
    sectors: (u64, u64),
    /// Number of requests, out of 256, that do not continue where the last request ended.
    jumps: u64,
    /// Number of requests, out of 256, whose bios are merged.
    merges: u64,
    /// Number of requests, out of 256, that are followed by a flush.
    flushes: u64,
}

impl Process {
    const fn new(
        comm: &'static [u8],
        pid: u32,
        share: u64,
        rwbs: u32,
        sectors: (u64, u64),
        [jumps, merges, flushes]: [u64; 3],
    ) -> Self {
        Process { comm, pid, share, rwbs, sectors, jumps, merges, flushes }
    }
}

const PROCESSES: [Process; 8] = [
    Process::new(b"cp\0", 811, 44, TC_READ | TC_AHEAD, (256, 0), [4, 20, 0]),
    Process::new(b"postgres\0", 902, 72, TC_READ, (16, 0), [250, 0, 0]),
    Process::new(b"postgres: wal\0", 903, 24, TC_WRITE | TC_SYNC, (16, 3), [6, 10, 64]),
    Process::new(b"sqlite3\0", 1044, 24, TC_WRITE | TC_SYNC, (8, 1), [120, 0, 96]),
    Process::new(b"kworker/u4:1\0", 37, 64, TC_WRITE, (8, 6), [40, 40, 0]),
    Process::new(b"jbd2/sda1-8\0", 214, 12, TC_WRITE | TC_SYNC | TC_META | TC_FUA, (8, 4), [2, 30, 8]),
    Process::new(b"find\0", 1300, 14, TC_READ | TC_META, (8, 0), [220, 0, 0]),
    Process::new(b"fstrim\0", 1377, 2, TC_WRITE | TC_SYNC | TC_DISCARD, (2048, 4), [30, 0, 0]),
];

/// The size of the disk in sectors: 64 GiB.
const SECTORS: u64 = 128 << 20;
/// Maximum number of requests in flight on the disk.
const DEPTH: usize = 32;
/// The first record's time on the monotonic clock.
const BEGINS_NS: u64 = 1_000_000_000_000;
/// If a process's bios wait longer than this for the disk, the process queues no new bios meanwhile.
const BACKLOG_NS: u64 = 10_000_000;

/// Plans a trace and writes it in time order.
struct Generator<W> {
    /// The output file of each processor.
    files: Vec<W>,
    sequences: Vec<u32>,
    random: Random,
    now: u64,
    /// Planned records that are not written yet.
    planned: BinaryHeap<Reverse<Record>>,
    order: u64,
    /// For each slot of the disk: the time at which the slot becomes free, and the sectors in use until then.
    slots: [(u64, u64, u64); DEPTH],
    /// Time at which the last flush completes.
    flushed: u64,
    /// For each process: its processor, and the first sector after the end of its last request.
    processes: [(u64, u64); PROCESSES.len()],
}

impl<W: Write> Generator<W> {
    fn new(seed: u64, files: Vec<W>) -> Generator<W> {
        let mut random = Random::new(seed);
        let cpus = files.len() as u64;
        Generator {
            sequences: vec![0; files.len()],
            files,
            now: BEGINS_NS,
            planned: BinaryHeap::new(),
            order: 0,
            slots: [(BEGINS_NS, 0, 0); DEPTH],
            flushed: BEGINS_NS,
            processes: std::array::from_fn(|_| (random.below(cpus), random.below(SECTORS / 8) * 8)),
            random,
        }
    }

    fn run(&mut self, ios: u64) -> io::Result<()> {
        let note = Io { pid: 0, cpu: 0, rwbs: 0, sector: 0, sectors: 0 };
        self.plan(BEGINS_NS, NOTE_CLOCK, note, WALL_CLOCK);
        for process in &PROCESSES {
            self.plan(BEGINS_NS, NOTE_PROCESS, Io { pid: process.pid, ..note }, process.comm);
        }
        for _ in 0..ios {
            self.step();
            self.write_until(self.now)?;
        }
        self.write_until(u64::MAX)
    }

    /// Plans the next request with its merged bios, and sometimes a flush.
    fn step(&mut self) {
        let mut at = 0;
        let mut draw = self.random.below(256);
        while draw >= PROCESSES[at].share {
            draw -= PROCESSES[at].share;
            at += 1;
        }
        let process = &PROCESSES[at];
        if self.random.below(512) == 0 {
            self.processes[at].0 = self.random.below(self.files.len() as u64);
        }
        let (cpu, mut sector) = self.processes[at];
        let sectors = process.sectors.0 << self.random.below(process.sectors.1 + 1);
        let merged = if self.random.below(256) < process.merges { 1 + self.random.below(4) } else { 0 };
        let all = sectors * (1 + merged);
        while self.random.below(256) < process.jumps || sector + all > SECTORS || self.in_flight(sector, all)
        {
            sector = self.random.below((SECTORS - all) / 8) * 8;
        }
        self.processes[at].1 = sector + all;
        let io = Io { pid: process.pid, cpu, rwbs: process.rwbs, sector, sectors };
        let waited = self.request(io, merged);
        if self.random.below(256) < process.flushes {
            self.flush(io);
        }
        self.now += match self.random.below(1024) {
            _ if waited > BACKLOG_NS => waited,
            0 => 5_000_000 + self.random.below(20_000_000),
            1..700 => 1_000 + self.random.below(20_000),
            _ => 20_000 + tail(&mut self.random, 60_000),
        };
    }

    /// Returns whether a request on these sectors is in flight. If so, the kernel's page lock would delay
    /// another request.
    fn in_flight(&self, sector: u64, sectors: u64) -> bool {
        let mut slots = self.slots.iter();
        slots.any(|(until, from, to)| *until >= self.now && sector < *to && *from < sector + sectors)
    }

    /// Plans one request. Returns how long the request waited for the disk.
    fn request(&mut self, io: Io, merged: u64) -> u64 {
        // A front merge prepends the bio to the request.
        let front = merged == 1 && self.random.below(16) == 0;
        let first = if front { io.sector + io.sectors } else { io.sector };
        let whole = Io { sectors: io.sectors * (1 + merged), ..io };
        let empty = Io { rwbs: TC_READ, sector: 0, sectors: 0, ..io };
        let bio = |sector| Io { sector, ..io };

        let mut time = self.now;
        self.plan(time, QUEUE, bio(first), b"");
        time += 200 + self.random.below(400);
        self.plan(time, GET_REQUEST, bio(first), b"");
        if merged > 0 {
            time += 60 + self.random.below(100);
            self.plan(time, PLUG, empty, b"");
        }
        for part in 1..=merged {
            let sector = if front { io.sector } else { io.sector + part * io.sectors };
            time += 300 + self.random.below(900);
            self.plan(time, QUEUE, bio(sector), b"");
            time += 100 + self.random.below(200);
            self.plan(time, if front { FRONT_MERGE } else { BACK_MERGE }, bio(sector), b"");
        }
        if merged > 0 {
            time += 100 + self.random.below(300);
            self.plan(time, UNPLUG, empty, ONE);
        }
        time += 100 + self.random.below(200);
        self.plan(time, INSERT, whole, b"");
        let ready = time + 300 + self.random.below(700);
        // Choose the slot that becomes free first.
        let slot = (0..DEPTH).min_by_key(|slot| self.slots[*slot].0).unwrap_or(0);
        let mut issue = ready.max(self.slots[slot].0 + 2_000);
        self.plan(issue, ISSUE, whole, b"");
        if merged > 0 && self.random.below(2_000) == 0 {
            let back = issue + 20_000 + self.random.below(20_000);
            self.plan(back, REQUEUE, whole, b"");
            issue = back + 3_000_000 + self.random.below(1_000_000);
            self.plan(issue, ISSUE, whole, b"");
        }
        let done = issue + self.service(whole);
        self.slots[slot] = (done, whole.sector, whole.sector + whole.sectors);
        self.complete(done, whole);
        issue - time
    }

    /// Plans a flush: an empty write bio requests it, and the flush request is issued.
    fn flush(&mut self, after: Io) {
        let asked = Io { rwbs: TC_WRITE | TC_FLUSH | TC_SYNC, sector: 0, sectors: 0, ..after };
        let flush = Io { rwbs: TC_READ | TC_FLUSH, ..asked };
        // The flush is requested when the preceding write completes.
        let asked_at = self.slots.iter().map(|slot| slot.0).fold(self.flushed, u64::max);
        self.plan(asked_at, QUEUE, asked, b"");
        let time = asked_at + 200 + self.random.below(300);
        self.plan(time, GET_REQUEST, asked, b"");
        let time = time + 200 + self.random.below(300);
        self.plan(time, ISSUE, flush, b"");
        let done = time + 400_000 + tail(&mut self.random, 600_000);
        let cpu = self.complete(done, flush);
        // The kernel has at most one flush in flight.
        self.flushed = done + 1_000;
        self.plan(done + 500, COMPLETE, Io { cpu, pid: 0, ..asked }, b"");
    }

    /// Plans the completion of a request, in half of the cases on another processor. Returns the processor on
    /// which the request completes.
    fn complete(&mut self, time: u64, io: Io) -> u64 {
        let is_moved = self.random.below(2) == 0;
        let cpu = if is_moved { self.random.below(self.files.len() as u64) } else { io.cpu };
        let pid = if self.random.below(4) == 0 { io.pid } else { 0 };
        self.plan(time, COMPLETE, Io { cpu, pid, ..io }, b"");
        cpu
    }

    /// Returns a request's service time: a flash read or write, the transfer, and sometimes a long pause.
    fn service(&mut self, io: Io) -> u64 {
        let pause = if self.random.below(1000) == 0 { self.random.below(20_000_000) } else { 0 };
        pause
            + match io.rwbs {
                rwbs if rwbs & TC_DISCARD != 0 => 300_000,
                rwbs if rwbs & TC_WRITE != 0 => 30_000 + tail(&mut self.random, 20_000) + io.sectors * 1_100,
                _ => 80_000 + tail(&mut self.random, 30_000) + io.sectors * 1_100,
            }
    }

    fn plan(&mut self, time: u64, action: u32, io: Io, payload: &'static [u8]) {
        let action = if action & TC_NOTIFY != 0 { action } else { action | io.rwbs | TC_FS };
        self.order += 1;
        self.planned.push(Reverse(Record { time, order: self.order, action, io, payload }));
    }

    fn write_until(&mut self, time: u64) -> io::Result<()> {
        while let Some(Reverse(record)) = self.planned.peek()
            && record.time < time
        {
            let cpu = record.io.cpu as usize;
            // Notes, unlike event records, have no sequence number.
            let is_event = record.action & TC_NOTIFY == 0;
            self.sequences[cpu] = self.sequences[cpu].wrapping_add(u32::from(is_event));
            record.write(if is_event { self.sequences[cpu] } else { 0 }, &mut self.files[cpu])?;
            self.planned.pop();
        }
        Ok(())
    }
}

/// Draws a value that is mostly below `scale`, with a long tail: each doubling of the range is half as likely
/// as the previous one.
fn tail(random: &mut Random, scale: u64) -> u64 {
    let doublings = random.next_u64().leading_zeros().min(10);
    random.below(scale << doublings)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn in_memory(ios: u64, seed: u64, cpus: usize) -> Vec<Vec<u8>> {
        let mut generator = Generator::new(seed, vec![Vec::new(); cpus]);
        generator.run(ios).expect("memory does not fail");
        generator.files
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        assert!(in_memory(5000, 9, 3) == in_memory(5000, 9, 3));
        assert!(in_memory(5000, 9, 3) != in_memory(5000, 10, 3));
    }

    #[test]
    fn blkparse_and_btt_accept_it() {
        fonio_testing::skip_without!(Blktrace);
        const IOS: usize = 10_000;
        let dir = tempfile::tempdir().expect("a directory for the test");
        for (cpu, bytes) in in_memory(IOS as u64, 1, 2).iter().enumerate() {
            std::fs::write(dir.path().join(format!("small.blktrace.{cpu}")), bytes).expect("written");
        }
        let run = |program: &str, arguments: &[&str]| {
            let out = Command::new(program).args(arguments).current_dir(&dir).output().expect("it runs");
            assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{program} {arguments:?}");
            String::from_utf8_lossy(&out.stdout).into_owned()
        };
        let text = run("blkparse", &["-i", "small"]);
        run("blkparse", &["-i", "small", "-d", "small.bin", "-O"]);
        run("btt", &["-i", "small.bin"]);
        let count = |letter: &str| {
            let lines = text.lines().filter(|line| {
                let mut words = line.split_ascii_whitespace();
                words.nth(1).is_some_and(|cpu| cpu.parse::<u32>().is_ok())
                    && words.nth(3).is_some_and(|action| action == letter)
            });
            lines.count()
        };
        // Each bio starts a request or is merged, and each flush has two completions.
        let merged = count("M") + count("F");
        let requests = count("Q") - merged;
        let flushes = requests - IOS;
        assert!(merged > IOS / 20 && flushes > IOS / 50, "{merged} merged, {flushes} flushes");
        assert_eq!((count("G"), count("I"), count("D") - count("R")), (requests, IOS, requests));
        assert_eq!(count("C"), requests + flushes);
        assert!(text.contains("Skips: 0 forward"));
    }
}
