//! Runs the BPF programs on this machine. The observed threads run in other processes, because a probe
//! ignores its own process. Each observed process runs this test program again, in one of the [`ROLES`].

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use fonio_core::{BlockedCount, CollectedRows};
use fonio_system::device;
use fonio_testing::{Need, has, skip};

use super::*;
use crate::clock::now;

/// Environment variable that contains the role and its argument.
const ROLE: &str = "FONIO_BLOCKED_ROLE";
/// Prefix of each line that a process in a role prints.
const SAYS: &str = "says: ";
/// How long a test waits for another process before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

type Play = fn(&str);

/// The roles: each has a name and a function.
const ROLES: &[(&str, Play)] = &[
    ("fsync", play_fsync),
    ("blocked", play_blocked),
    ("blocks", play_blocks),
    ("talks", play_talks),
    ("locks", play_locks),
    ("records", play_records),
];

fn say(words: &str) {
    println!("{SAYS}{words}");
}

/// Plays a role in a process that another test started. Does nothing if run as an ordinary test.
#[test]
fn other_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (name, argument) = role.split_once(' ').unwrap_or((&role, ""));
    let (_, play) = ROLES.iter().find(|(known, _)| *known == name).expect("a role");
    play(argument);
}

/// Repeatedly writes to a file and calls fsync; prints the beginning and the end of each fsync, and how often
/// the thread slept in it.
fn play_fsync(path: &str) {
    let file = File::create(path).unwrap();
    for round in 0..100 {
        file.write_all_at(&[round; 4096], u64::from(round) * 4096).unwrap();
        let (slept, began) = (times_slept(), now());
        file.sync_all().unwrap();
        let ended = now();
        say(&format!("{} {} {}", began.0, ended.0, times_slept() - slept));
    }
}

/// How often this thread has gone to sleep, which excludes the times when another thread took its processor.
fn times_slept() -> u64 {
    // SAFETY: all bytes of `usage` may be 0, and the call writes to `usage` only.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage
    };
    usage.ru_nvcsw.try_into().unwrap()
}

/// Blocks until the process's standard input ends.
fn play_blocked(_: &str) {
    let is_child = block_while(|| {
        let mut byte = 0_u8;
        // SAFETY: `byte` has room for one byte.
        unsafe { libc::read(0, (&raw mut byte).cast(), 1) };
    });
    assert!(!is_child);
    say("over");
}

fn play_blocks(times: &str) {
    for _ in 0..times.parse::<u32>().unwrap() {
        block_while(|| {});
    }
    say("over");
}

/// For how long a thread is blocked while another thread waits for it.
const BLOCKED_FOR: Duration = Duration::from_millis(60);

fn block_for_a_while() {
    let is_child = block_while(|| {
        let time = libc::timespec { tv_sec: 0, tv_nsec: i64::from(BLOCKED_FOR.subsec_nanos()) };
        // SAFETY: `time` is a valid time, and the remaining time is not requested.
        unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
    });
    assert!(!is_child);
}

fn tid() -> i32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::gettid() }
}

/// Lets one thread ask another through pipes. With `asked`, the other thread blocks and then replies. With
/// `idle`, the asking thread blocks before it asks, and the other thread replies immediately. Prints the ids
/// of the asking thread and of the other thread.
fn play_talks(who_is_blocked: &str) {
    let is_asked = who_is_blocked == "asked";
    let (mut question, mut to_other) = std::io::pipe().unwrap();
    let (mut answer, mut to_first) = std::io::pipe().unwrap();
    let mut byte = [0];
    let other = std::thread::spawn(move || {
        let mut byte = [0];
        while question.read_exact(&mut byte).is_ok() {
            if is_asked {
                block_for_a_while();
            }
            to_first.write_all(&tid().to_le_bytes()).unwrap();
        }
    });
    for _ in 0..3 {
        if !is_asked {
            block_for_a_while();
        }
        // Wait until the other thread sleeps; otherwise, the probe does not see the question.
        std::thread::sleep(BLOCKED_FOR);
        to_other.write_all(&byte).unwrap();
        let mut number = [0; 4];
        answer.read_exact(&mut number).unwrap();
        say(&format!("{} {}", tid(), i32::from_le_bytes(number)));
        byte[0] += 1;
    }
    drop(to_other);
    other.join().unwrap();
}

/// Lets one thread block while it holds a lock for which another thread waits. Prints the ids of the waiting
/// thread and of the other thread.
fn play_locks(_: &str) {
    let lock = std::sync::Arc::new(std::sync::Mutex::new(0));
    let is_held = std::sync::Arc::new(std::sync::Barrier::new(2));
    let other = std::thread::spawn({
        let (lock, is_held) = (lock.clone(), is_held.clone());
        move || {
            let mut held = lock.lock().unwrap();
            is_held.wait();
            block_for_a_while();
            *held = tid();
        }
    });
    is_held.wait();
    let held_by = *lock.lock().unwrap();
    say(&format!("{} {held_by}", tid()));
    other.join().unwrap();
}

/// Blocks this thread uninterruptibly while a copy of the process performs `activity`.
fn block_while(activity: impl FnOnce()) -> bool {
    // SAFETY: without CLONE_VM the child has its own memory, as after fork. The child only calls
    // async-signal-safe functions.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, libc::CLONE_VFORK | libc::SIGCHLD, 0_usize, 0_usize, 0_usize, 0_usize)
    };
    assert!(pid >= 0);
    if pid == 0 {
        activity();
        // SAFETY: the call ends the child immediately.
        unsafe { libc::_exit(0) };
    }
    // SAFETY: waits for the child created above.
    unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), 0) };
    pid == 0
}

/// Loads and attaches the programs, and prints their ids or the error; runs until it is killed.
fn play_records(_: &str) {
    let mut probe = match BlockedProbe::load(&Machine::here()) {
        Ok(probe) => probe,
        Err(error) => return say(&error.to_string()),
    };
    probe.attach(now()).unwrap();
    let id = |name| probe.programs.program(name).unwrap().info().unwrap().id().to_string();
    say(&PROGRAMS.map(|(name, _)| id(name)).join(" "));
    std::thread::sleep(PATIENCE * 2);
}

/// Another process that plays a role. Dropping this value kills the process and waits for it.
struct Other {
    child: Child,
    input: Option<ChildStdin>,
}

impl Other {
    fn command(role: &str) -> Command {
        // Another user may lack access to the folder of this program.
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", "probes::blocked::tests::other_process", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn start(mut command: Command) -> Other {
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        Other { child, input }
    }

    fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        let lines = BufReader::new(self.child.stdout.take().unwrap()).lines().map(Result::unwrap);
        lines.filter_map(|line| Some(line.split_once(SAYS)?.1.to_owned()))
    }

    /// Waits until the thread that plays the role is blocked, and returns its id.
    fn blocked_thread(&self) -> u32 {
        let began = Instant::now();
        let tasks = format!("/proc/{}/task", self.child.id());
        loop {
            let threads = std::fs::read_dir(&tasks).unwrap().flatten();
            let mut tids = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            if let Some(tid) = tids.find(|tid| open::is_blocked(&Machine::here(), *tid)) {
                return tid;
            }
            assert!(began.elapsed() < PATIENCE, "no thread of the other process is blocked");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a process that plays a role, and waits until it ends.
fn run(role: &str) {
    let mut other = Other::start(Other::command(role));
    assert_eq!(other.lines().last().as_deref(), Some("over"));
}

/// Loads the programs. Returns `None` if the test must be skipped.
fn loaded() -> Option<BlockedProbe> {
    if !has(&[Need::Root, Need::Bpf]) {
        return None;
    }
    match BlockedProbe::load(&Machine::here()) {
        Ok(probe) => Some(probe),
        Err(error @ (Unavailable::Refused { .. } | Unavailable::Failed { .. })) => panic!("{error}"),
        Err(error) => {
            skip(Need::Bpf, error.to_string());
            None
        }
    }
}

/// Sets the threshold to 0, which makes every wait a long wait.
fn without_threshold(probe: &mut BlockedProbe) {
    probe.now_set.threshold_ns = 0;
    probe.set().unwrap();
}

fn counts(finished: &FinishedProbe) -> Vec<BlockedCount> {
    let mut rows = CollectedRows::default();
    finished.short.write(now(), &mut rows).unwrap();
    rows.blocked_counts
}

#[test]
fn every_long_fsync_has_its_waits() {
    let Some(mut probe) = loaded() else { return };
    probe.attach(now()).unwrap();
    without_threshold(&mut probe);
    let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = dir.path().join("data");
    let mut other = Other::start(Other::command(&format!("fsync {}", path.display())));
    let parse = |line: String| {
        let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        (Timestamp(next()), Timestamp(next()), next())
    };
    let calls: Vec<(Timestamp, Timestamp, u64)> = other.lines().map(parse).collect();
    assert_eq!(calls.len(), 100);
    let mut waits = Vec::new();
    let finished = probe.finish(now(), &Machine::here(), &mut |wait| waits.push(wait));
    assert_eq!(finished.lost.missing, 0);
    let file = path.metadata().unwrap();
    let inode = Inode { fs: device::from_dev(file.dev()), number: file.ino() };
    let of_file: Vec<&BlockedWait> =
        waits.iter().filter(|wait| wait.file.is_some_and(|file| file.inode == inode)).collect();
    let fsyncs: Vec<&&BlockedWait> =
        of_file.iter().filter(|wait| wait.blocked_in == BlockedIn::Fsync).collect();
    // Each wait is within a call, so the sum of the waits is at most the time that the program measured.
    for wait in &fsyncs {
        let ended = wait.ended.unwrap();
        let within = calls.iter().any(|(from, until, _)| *from <= wait.began && ended <= *until);
        assert!(within, "{wait:?} is in no recorded call");
        assert_eq!(fsyncs[0].tid, wait.tid);
    }
    // A busy machine can delay a call until the disk is ready, so only calls that slept have waits. fsync does
    // not block on a file system in memory, and a FUSE file system lets it sleep interruptibly.
    if !fsyncs.is_empty() {
        for (from, until, _) in calls.iter().filter(|(.., slept)| *slept > 0) {
            let mut overlapping =
                fsyncs.iter().filter(|wait| wait.began < *until && wait.ended.unwrap() > *from);
            assert!(overlapping.next().is_some(), "no wait from {from:?} to {until:?}");
        }
    }
    if rustix::fs::statfs(dir.path()).unwrap().f_type == 0xef53 {
        assert!(!fsyncs.is_empty(), "on ext4, no fsync call waited for the disk");
    }
}

/// Fills all slots for open waits with a nonexistent thread.
fn take_slots(probe: &mut BlockedProbe) {
    for at in 0..probe.open_slots.len() {
        probe.open_slots.set(at, Slot { tid: u32::MAX, ..Slot::default() }, 0).unwrap();
    }
}

#[test]
fn waits_before_the_beginning_and_after_the_end_are_marked() {
    let Some(probe) = loaded() else { return };
    see_waits_at_both_ends(probe);
}

#[test]
fn waits_whose_slot_is_taken_are_seen() {
    let Some(mut probe) = loaded() else { return };
    take_slots(&mut probe);
    see_waits_at_both_ends(probe);
    let Some(mut probe) = loaded() else { return };
    take_slots(&mut probe);
    probe.attach(now()).unwrap();
    without_threshold(&mut probe);
    run("blocks 50");
    assert!(probe.counters().long_waits >= 50);
    let mut given = 0;
    let finished = probe.finish(now(), &Machine::here(), &mut |_| given += 1);
    assert!(given >= 50 && finished.lost.missing == 0, "{given} given, {:?}", finished.lost);
}

fn see_waits_at_both_ends(mut probe: BlockedProbe) {
    let start = || {
        let other = Other::start(Other::command("blocked"));
        let tid = other.blocked_thread();
        (other, tid)
    };
    let (mut ends, ends_tid) = start();
    let (_stays, stays_tid) = start();
    let began = now();
    probe.attach(began).unwrap();
    let (_begins, begins_tid) = start();
    ends.input = None;
    assert_eq!(ends.lines().last().as_deref(), Some("over"));
    let mut waits = Vec::new();
    probe.finish(now(), &Machine::here(), &mut |wait| waits.push(wait));
    let of = |tid| {
        let mut all = waits.iter().filter(|wait| wait.tid == tid && wait.blocked_in == BlockedIn::Other);
        let wait = all.next().unwrap_or_else(|| panic!("no wait of thread {tid} in {waits:?}"));
        assert_eq!(all.next(), None);
        wait
    };
    let (ended, stayed, begun) = (of(ends_tid), of(stays_tid), of(begins_tid));
    assert_eq!((ended.began, ended.began_before, ended.ended.is_some()), (began, true, true));
    assert_eq!((stayed.began, stayed.began_before, stayed.ended), (began, true, None));
    assert_eq!((begun.began > began, begun.began_before, begun.ended), (true, false, None));
    // The kernel function `wait_for_vfork_done` shows that the threads waited for another process.
    for wait in [ended, stayed, begun] {
        assert_eq!(wait.reason, WaitReason::Thread, "{wait:?}");
    }
}

#[test]
fn each_wait_is_given_or_counted() {
    let Some(mut probe) = loaded() else { return };
    probe.attach(now()).unwrap();
    without_threshold(&mut probe);
    // The number of waits exceeds the ring buffer.
    run("blocks 6000");
    let long_waits = probe.counters().long_waits;
    assert!(long_waits >= 6000, "{long_waits}");
    let mut given = 0;
    let finished =
        probe.finish(now(), &Machine::here(), &mut |wait| given += u64::from(wait.ended.is_some()));
    let Lost { missing, only_counted, .. } = finished.lost;
    assert!(only_counted > 0 && missing == 0, "{:?}", finished.lost);
    let counted: u64 = counts(&finished).iter().map(|row| row.count).sum();
    // Some long sleeps of other programs were not waits for a blocked thread.
    assert!(given + counted >= 6000, "{given} waits given, {counted} counted, {long_waits} long waits");
}

/// A thread waits for another thread only after a request to that thread, or for a lock that the other thread
/// holds.
#[test]
fn waits_for_a_blocked_thread_are_seen() {
    for (role, reason, rounds) in [
        ("talks asked", Some(WaitReason::Thread), 3),
        ("talks idle", None, 0),
        ("locks", Some(WaitReason::Lock), 1),
    ] {
        let Some(mut probe) = loaded() else { return };
        probe.attach(now()).unwrap();
        let mut other = Other::start(Other::command(role));
        let lines: Vec<String> = other.lines().collect();
        let said: Vec<(u32, u32)> = (lines.iter())
            .map(|line| line.split_once(' ').unwrap())
            .map(|(waiter, blocked)| (waiter.parse().unwrap(), blocked.parse().unwrap()))
            .collect();
        let (waiter, blocked) = said[0];
        let mut waits = Vec::new();
        probe.finish(now(), &Machine::here(), &mut |wait| waits.push(wait));
        let for_thread = |wait: &&BlockedWait| {
            wait.blocked_in == BlockedIn::OtherThread && [waiter, blocked].contains(&wait.tid)
        };
        let found: Vec<&BlockedWait> = waits.iter().filter(for_thread).collect();
        assert_eq!(found.len(), rounds, "{role}: {found:?}");
        for wait in found {
            assert_eq!(
                (wait.tid, wait.waker_tid, Some(wait.reason)),
                (waiter, Some(blocked), reason),
                "{role}"
            );
            let (began, ended) = (wait.began, wait.ended.unwrap());
            let during = |other: &&BlockedWait| {
                other.tid == blocked && other.began < ended && other.ended.is_some_and(|at| at > began)
            };
            let during = waits.iter().any(|other| during(&other));
            assert!(during, "{role}: no wait of the other thread during {wait:?}, {waits:?}");
        }
    }
}

#[test]
fn counts_come_by_period() {
    let Some(mut probe) = loaded() else { return };
    probe.attach(now()).unwrap();
    let mut given = 0;
    for _ in 0..2 {
        run("blocks 50");
        // A period ends at the first call of `drain` that is at least a second after the beginning of the
        // period. The next call of `drain` takes the counts of that period.
        probe.period_began = Timestamp(0);
        probe.drain(now(), &mut |_| given += 1);
    }
    let finished = probe.finish(now(), &Machine::here(), &mut |_| given += 1);
    let counted = counts(&finished);
    assert!(given + counted.iter().map(|row| row.count).sum::<u64>() >= 100);
    let mut periods: Vec<(Timestamp, Timestamp)> = counted.iter().map(|row| (row.from, row.until)).collect();
    periods.dedup();
    assert!(periods.len() >= 2, "{periods:?}");
    assert!(periods.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{periods:?}");
}

#[test]
fn nothing_remains_after_kill_9() {
    if loaded().is_none() {
        return;
    }
    let mut other = Other::start(Other::command("records"));
    let ids = other.lines().next().expect("the other process records");
    let ids: Vec<u32> = ids.split(' ').map(|id| id.parse().unwrap()).collect();
    let remaining = || {
        let loaded = aya::programs::loaded_programs().filter_map(Result::ok);
        loaded.filter(|program| ids.contains(&program.id())).count()
    };
    assert_eq!(remaining(), PROGRAMS.len());
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    // The kernel frees the programs a moment after the process has ended.
    let began = Instant::now();
    while remaining() > 0 {
        assert!(began.elapsed() < PATIENCE, "programs are still loaded");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn without_permission_it_says_so() {
    if loaded().is_none() {
        return;
    }
    let mut command = Other::command("records");
    command.uid(65534).current_dir("/");
    if !Path::new("/proc/sys/kernel/unprivileged_bpf_disabled").exists() {
        return skip(Need::Bpf, "this kernel allows BPF to every user");
    }
    let Ok(child) = command.spawn() else {
        return skip(Need::Root, "another user cannot start this test program");
    };
    let mut other = Other { child, input: None };
    let said = other.lines().last().expect("the other process reports the reason");
    assert!(
        said.starts_with("the kernel does not allow BPF programs here (Operation not permitted"),
        "{said}"
    );
}
