//! Records the file-system calls of a command by `ptrace`, without privileges.
//!
//! A container for continuous integration has neither BPF nor tracefs, but a process may trace its own children. The
//! recording has calls, files, threads and, on x86-64, SQL statements, as with BPF, but no requests or waits. Three kinds of writes
//! are not seen: through shared mappings, through io_uring, and by 32-bit programs. Each kind that occurs has a
//! diagnostic.
//!
//! The parts, in order of a recording: [`start`] runs the command under a seccomp [`filter`]; the [`tracer`] follows
//! its threads from stop to stop with the calls in [`kernel`], and notes [`files`] and [`statements`]; an [`Overseer`] ends the command
//! on request, because the tracer waits for the kernel only. The kernel kills all traced processes if fonio ends.

mod files;
mod filter;
mod kernel;
mod start;
mod statements;
mod sync;
mod tracer;

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fonio_core::meta::{
    Clock, LOST_CALLS, LOST_STATEMENTS, MAPPED_WRITES, SCHEMA_VERSION, SHOWS_CALLS, SHOWS_STATEMENTS,
    SOURCE_PTRACE, Source, UNSEEN_RINGS,
};
use fonio_core::{ByteCount, Diagnostic, Meta, RowSink, Severity, Timestamp};
use fonio_machine::Machine;
use fonio_system::signals::{Listener, Signal};
use rustix::process::{Pid, kill_process};
use rustix::time::ClockId;

use crate::capture::stop::{Decision, Seen, StopPolicy};
use crate::clock::{after, clock, cpu_time, now};
use crate::error::RecordError;
use crate::options::{Progress, RecordOptions, RecordSummary, StopReason};
use crate::probes::statements::NO_STATEMENTS;
use crate::write::writer::{RecordingWriter, hold_place, not_written};
use kernel::Change;
use tracer::{Running, Tracer};

/// Time between two looks for signals.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long processes may run on after the command has ended. They cannot be released, because the calls that the
/// filter stops at fail without a tracer.
const LEFT_BEHIND: Duration = Duration::from_secs(2);
/// Number of names in a message.
const NAMED_MAX: usize = 5;

/// Records the file-system calls of the command in `options` by `ptrace`. Options that concern requests
/// and waits have no effect.
///
/// Ctrl-C, SIGTERM and the duration end the command as in [`record`](crate::record()). Processes that the command
/// leaves behind are ended two seconds later. Fails with [`RecordError`] if the command cannot be started or traced,
/// or the recording cannot be written.
pub fn record_by_ptrace(
    options: &RecordOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RecordSummary, RecordError> {
    if !filter::IS_POSSIBLE {
        return Err(RecordError::OtherProcessor(std::env::consts::ARCH));
    }
    let machine = Machine::here();
    let words = options.command.as_deref().unwrap_or_default();
    if words.is_empty() {
        return Err(RecordError::EmptyCommand);
    }
    let room = hold_place(&options.out, options.overwrite)?;
    let signals = Listener::begin(&[Signal::INT, Signal::TERM]).map_err(|source| RecordError::File {
        path: "signal handlers".into(),
        doing: "setting",
        source,
    })?;
    let running = Running::default();
    let mut tracer = Tracer::new(running.clone(), options.statements);
    let (began, cpu_began) = (now(), cpu_time());
    let command = start::start_traced(words, tracer.filter(), |command| options.setting.prepare(command))?;
    progress(Progress::CommandStarted { pid: command as u32 });
    let policy = StopPolicy::new(options.duration.map(|duration| after(began, duration)));
    let overseer = Overseer::new(command, running);
    let mut status = None;
    let outcome = std::thread::scope(|scope| {
        let oversees =
            scope.spawn(|| overseer.oversee(policy.with_command(!options.setting.own_group), &signals));
        tracer.begin(command);
        tracer.follow(command, |change| {
            status = Some(change);
            overseer.command_ended.store(true, Ordering::Release);
        });
        overseer.all_ended.store(true, Ordering::Release);
        oversees.join().map_err(|_| RecordError::Aborted)
    })?;
    let Overseen::Ended { reason, killed } = outcome else { return Err(RecordError::Aborted) };
    let ended = now();
    let unsynced =
        if options.sync_changed { sync::sync(&machine, tracer.changed_folders()) } else { Vec::new() };
    let capture_cpu = cpu_time().saturating_sub(cpu_began);
    let write_began = cpu_time();
    let mut out = RecordingWriter::create(options, room)?;
    let mut notes = Vec::new();
    let written = out.began(began).and_then(|()| tracer.write(&mut out)).and_then(|()| {
        for (code, message, count) in remarks(&tracer, &killed).into_iter().chain(unsynced) {
            progress(Progress::Note(&message));
            notes.push(message.clone());
            out.diagnostic(&diagnostic(code, message, count))?;
        }
        Ok(())
    });
    written.map_err(|source| not_written(&options.out, source))?;
    let (exit, signal) = match status {
        Some(Change::Ended(code)) => (Some(code), None),
        Some(Change::Killed(signal)) => (None, Some(signal)),
        _ => (None, None),
    };
    let mut meta = meta(options, &machine, (began, ended), (command as u32, exit));
    if tracer.statements.are_shown() {
        meta.source.shows.push(SHOWS_STATEMENTS.to_owned());
    }
    let finished = out.install(meta, &options.out, &mut |note| {
        progress(Progress::Note(&note));
        notes.push(note);
    })?;
    Ok(RecordSummary {
        out: finished.path,
        began,
        ended,
        stopped_by: reason,
        command_exit: exit,
        command_signal: signal,
        events: 0,
        trace_bytes: ByteCount(0),
        rows: finished.meta.rows,
        own_rows: 0,
        lost: finished.meta.lost,
        capture_cpu,
        write_cpu: cpu_time().saturating_sub(write_began),
        notes,
    })
}

/// Ends the command when the user asks for it, and the processes that it leaves behind.
struct Overseer {
    command: u32,
    running: Running,
    command_ended: AtomicBool,
    all_ended: AtomicBool,
}

/// How the capture ended.
enum Overseen {
    Ended {
        reason: StopReason,
        /// The names of the processes that were killed, because they ran on after the command had ended.
        killed: Vec<String>,
    },
    Aborted,
}

impl Overseer {
    fn new(command: i32, running: Running) -> Overseer {
        Overseer {
            command: command as u32,
            running,
            command_ended: AtomicBool::new(false),
            all_ended: AtomicBool::new(false),
        }
    }

    /// Looks for signals until all processes have ended.
    fn oversee(&self, mut policy: StopPolicy, signals: &Listener) -> Overseen {
        let (mut reason, mut killed, mut left_since) = (StopReason::CommandEnded, Vec::new(), None);
        let (mut is_decided, mut is_killing, mut is_aborted) = (false, false, false);
        while !self.all_ended.load(Ordering::Acquire) {
            std::thread::sleep(LOOK_EVERY);
            let command_ended = self.command_ended.load(Ordering::Acquire);
            if command_ended && !is_killing {
                let since = *left_since.get_or_insert_with(Instant::now);
                if since.elapsed() > LEFT_BEHIND {
                    killed = self.kill_all();
                    is_killing = true;
                }
            }
            if is_killing {
                // A process may have started another one just before it was killed.
                self.kill_all();
            }
            let seen = Seen {
                now: now(),
                interrupts: signals.count(Signal::INT),
                terminations: signals.count(Signal::TERM),
                command_ended,
                ..Seen::default()
            };
            if is_decided {
                continue;
            }
            match policy.decide(&seen) {
                Decision::Continue => {}
                Decision::Terminate => self.send(self.command, Signal::TERM),
                Decision::Stop { reason: stopped_by, .. } => {
                    (reason, is_decided) = (stopped_by, true);
                    is_killing |= !command_ended;
                }
                Decision::GiveUp => (is_decided, is_killing, is_aborted) = (true, true, true),
            }
        }
        if is_aborted {
            return Overseen::Aborted;
        }
        // The command may have ended since the last look.
        if !is_decided && policy.is_ending() {
            let seen = Seen { now: now(), command_ended: true, ..Seen::default() };
            if let Decision::Stop { reason: stopped_by, .. } = policy.decide(&seen) {
                reason = stopped_by;
            }
        }
        Overseen::Ended { reason, killed }
    }

    /// Kills all traced processes, and returns their names.
    fn kill_all(&self) -> Vec<String> {
        let running: Vec<u32> =
            self.running.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let name = |process: &u32| {
            let comm = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            comm.trim_end().to_owned()
        };
        let mut names: Vec<String> = running.iter().map(name).filter(|name| !name.is_empty()).collect();
        running.iter().for_each(|process| self.send(*process, Signal::KILL));
        names.sort_unstable();
        names
    }

    /// Sends a signal to a traced process, unless it has ended.
    fn send(&self, process: u32, signal: Signal) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = Pid::from_raw(process as i32).filter(|_| running.contains(&process)) {
            // The process may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }
}

/// A remark on a recording: a stable name, a sentence, and how often it applies.
type Remark = (&'static str, String, u64);

fn remarks(tracer: &Tracer, killed: &[String]) -> Vec<Remark> {
    let mut remarks = Vec::new();
    if tracer.lost() > 0 {
        let message = format!(
            "{} file-system calls were not recorded, because the tables were full; record a shorter command",
            tracer.lost()
        );
        remarks.push((LOST_CALLS, message, tracer.lost()));
    }
    if tracer.compat > 0 {
        let message = format!(
            "{} system calls of 32-bit programs are missing; fonio records file-system calls of 64-bit programs only",
            tracer.compat
        );
        remarks.push((LOST_CALLS, message, tracer.compat));
    }
    if tracer.rings > 0 {
        let message = format!(
            "programs set up io_uring {} times; ptrace does not show the reads, writes and syncs of io_uring",
            tracer.rings
        );
        remarks.push((UNSEEN_RINGS, message, tracer.rings));
    }
    if !tracer.mapped.is_empty() {
        let mut names: Vec<&str> = tracer.mapped.iter().map(String::as_str).collect();
        names.sort_unstable();
        let message = format!(
            "programs mapped {} files for shared writing; ptrace does not show writes through a mapping: {}",
            names.len(),
            listed(&names)
        );
        remarks.push((MAPPED_WRITES, message, names.len() as u64));
    }
    if tracer.statements.beyond > 0 {
        let message = format!(
            "{} executions or texts of SQL statements were not recorded, because the tables were full",
            tracer.statements.beyond
        );
        remarks.push((LOST_STATEMENTS, message, tracer.statements.beyond));
    }
    let without = tracer.without_statements();
    if tracer.statements.are_shown() && without > 0 {
        let mut refused: Vec<&str> = tracer.statements.refused.iter().map(String::as_str).collect();
        refused.sort_unstable();
        let why = if refused.is_empty() {
            "none of their files has the symbol sqlite3_step; use SQLite's shared library, or a build that is not stripped"
                .to_owned()
        } else {
            format!("fonio does not know how to stop in {}", listed(&refused))
        };
        let message = format!("the SQL statements of {without} processes are not recorded: {why}");
        remarks.push((NO_STATEMENTS, message, without));
    }
    if !killed.is_empty() {
        let names: Vec<&str> = killed.iter().map(String::as_str).collect();
        let message = format!(
            "{} processes still ran {} s after the command had ended, and were killed: {}",
            names.len(),
            LEFT_BEHIND.as_secs(),
            listed(&names)
        );
        remarks.push(("killed-processes", message, names.len() as u64));
    }
    remarks
}

/// Returns the first names of a list, and the number of the others.
fn listed(names: &[&str]) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let first = names[..names.len() - more].join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

fn diagnostic(code: &str, message: String, count: u64) -> Diagnostic {
    Diagnostic {
        severity: Severity::Warning,
        code: code.to_owned(),
        message,
        file: None,
        record: None,
        offset: None,
        count,
    }
}

fn meta(
    options: &RecordOptions,
    machine: &Machine,
    (began, ended): (Timestamp, Timestamp),
    (pid, exit): (u32, Option<i32>),
) -> Meta {
    let ran = options.command.as_ref();
    let ran = ran.map(|words| words.iter().map(|word| word.to_string_lossy().into_owned()).collect());
    let unix_ns = i64::try_from(clock(ClockId::Realtime)).unwrap_or(0) - now().0 as i64;
    Meta {
        schema_version: SCHEMA_VERSION,
        writer: concat!("fonio ", env!("CARGO_PKG_VERSION")).to_owned(),
        source: Source {
            format: SOURCE_PTRACE.to_owned(),
            files: Vec::new(),
            shows: vec![SHOWS_CALLS.to_owned()],
        },
        clock: Clock { name: "mono".to_owned(), unix_ns_at_zero: Some(unix_ns) },
        began: Some(began),
        ended: Some(ended),
        command: options.told_command.clone().or(ran),
        command_pid: Some(pid),
        command_exit: exit,
        host: machine.host(),
        ..Meta::default()
    }
}
