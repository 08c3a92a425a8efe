//! Records with progress on standard error, and says in one sentence what was recorded.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use fonio_core::{BlockedIn, ByteCount, Unit};
use fonio_record::{
    BlockedBy, BlockedSoFar, Progress, RecordError, RecordOptions, RecordSummary, Selector, StopReason,
};

use crate::arguments::{Blocked, Extras, Record};

/// The exit codes before `-- COMMAND`, as in `env` and `timeout`: the recorder itself failed, the command cannot be run, or it
/// does not exist.
const FAILED: u8 = 125;
/// See [`FAILED`].
const CANNOT_RUN: u8 = 126;
/// See [`FAILED`].
const NOT_FOUND: u8 = 127;

/// Says where a thread was blocked: `in fsync`.
pub type Words = fn(BlockedIn) -> String;

/// Records, and prints a summary of the recording and the next command. Returns the exit code of the recorded command, so that
/// a script can put `fonio record --` before any command.
///
/// # Errors
///
/// If the recording fails; with a command, the error is printed, and the exit code tells it.
pub fn run(arguments: &Record, words: Words) -> Result<u8> {
    match record_as_told(arguments, words) {
        Err(error) if !arguments.command.is_empty() => {
            writeln!(io::stderr(), "fonio: {error:#}")?;
            Ok(exit_code(&error))
        }
        outcome => outcome,
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<RecordError>() {
        Some(RecordError::Command { source, .. }) if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
        Some(RecordError::Command { .. }) => CANNOT_RUN,
        _ => FAILED,
    }
}

fn record_as_told(arguments: &Record, words: Words) -> Result<u8> {
    let mut options = RecordOptions::new(&arguments.out);
    options.select = arguments
        .device
        .iter()
        .map(|name| Selector::Device(name.into()))
        .chain(arguments.path.iter().cloned().map(Selector::Path))
        .collect();
    options.duration = arguments.time;
    options.buffer = ByteCount(arguments.buffer);
    options.spill_to.clone_from(&arguments.spill);
    options.sample_interval = Some(arguments.interval);
    options.command = (!arguments.command.is_empty()).then(|| arguments.command.clone());
    options.waits = arguments.waits;
    options.calls = arguments.calls;
    set_extras(&mut options, &arguments.extras);
    options.overwrite = arguments.overwrite;
    options.kernel_buffer_per_cpu = arguments.kernel_buffer.map(ByteCount);
    options.redact = arguments.redact.key()?;
    let summary = capture(&options, words)?;
    writeln!(io::stdout(), "{}", sentence(&summary))?;
    writeln!(io::stdout(), "Next: fonio report {}", summary.out.display())?;
    Ok(match (summary.command_exit, summary.command_signal, summary.stopped_by) {
        (Some(code), ..) => code as u8,
        (None, Some(signal), _) => 128 + signal as u8,
        // A recording without a time limit normally ends with Ctrl-C, which is not an error then.
        (None, None, StopReason::Interrupted) if arguments.time.is_some() => 130,
        (None, None, StopReason::Terminated) => 143,
        _ => 0,
    })
}

/// Sets what is recorded besides requests.
pub fn set_extras(options: &mut RecordOptions, extras: &Extras) {
    options.blocked = match extras.blocked {
        Blocked::Auto => BlockedBy::Best,
        Blocked::Bpf => BlockedBy::Bpf,
        Blocked::Tracefs => BlockedBy::Tracefs,
        Blocked::None => BlockedBy::No,
    };
    options.calls_of.clone_from(&extras.calls_of);
    options.statements = !extras.no_statements;
}

/// Records with progress on standard error.
///
/// # Errors
///
/// Those of [`fonio_record::record()`].
pub fn capture(options: &RecordOptions, words: Words) -> Result<RecordSummary> {
    with_progress(options, words, |progress| Ok(fonio_record::record(options, progress)?))
}

/// Samples who is blocked, with progress on standard error. `instead` is the error of [`capture`].
///
/// # Errors
///
/// Those of [`fonio_record::record_sampled()`].
pub fn sample(options: &RecordOptions, instead: &anyhow::Error, words: Words) -> Result<RecordSummary> {
    let Some(instead) = instead.downcast_ref::<RecordError>() else {
        anyhow::bail!("{instead:#}");
    };
    with_progress(options, words, |progress| Ok(fonio_record::record_sampled(options, instead, progress)?))
}

fn with_progress(
    options: &RecordOptions,
    words: Words,
    record: impl FnOnce(&mut dyn FnMut(Progress<'_>)) -> Result<RecordSummary>,
) -> Result<RecordSummary> {
    let terminal = std::io::stderr().is_terminal();
    // A recorded command may use the terminal itself, so the progress line is not shown then.
    let live = terminal && options.command.is_none();
    let summary = record(&mut |progress| match progress {
        Progress::Note(note) => eprintln!("{}{note}", if live { "\r\x1b[Knote: " } else { "note: " }),
        Progress::Started { devices } if terminal => {
            let names: Vec<&str> = devices.iter().filter_map(|device| device.name.as_deref()).collect();
            let what = if names.is_empty() { "every block device".to_owned() } else { names.join(", ") };
            eprintln!(
                "Recording {what}{} …",
                if options.duration.is_none() && options.command.is_none() { " until Ctrl-C" } else { "" }
            );
        }
        Progress::Running { elapsed, trace_bytes, blocked, .. } if live => {
            let of = options.duration.map(|all| format!(" of {}", all.as_secs())).unwrap_or_default();
            let blocked = blocked.as_ref().map(|blocked| blocked_so_far(blocked, words)).unwrap_or_default();
            let trace = match trace_bytes.0 {
                0 => String::new(),
                bytes => format!(", {:.1} MiB of trace", mib(bytes)),
            };
            let line = format!("{}{of} s{trace}{blocked}", elapsed.as_secs());
            // A line that wraps could not be replaced by the next one.
            let columns =
                terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| usize::from(width.0));
            let shown: String = line.chars().take(columns.saturating_sub(1)).collect();
            eprint!("\r\x1b[K{shown}");
        }
        Progress::Writing { trace_bytes, trace_bytes_total, .. } if live => {
            eprint!(
                "\r\x1b[KWriting the recording, {:.1} of {:.1} MiB of trace",
                mib(trace_bytes.0),
                mib(trace_bytes_total.0)
            );
        }
        _ => {}
    })?;
    if live {
        eprint!("\r\x1b[K");
    }
    Ok(summary)
}

/// The first finding while it records.
fn blocked_so_far(blocked: &BlockedSoFar, words: Words) -> String {
    let time = Unit::Ns.format(blocked.time.0 as f64);
    let doing = words(blocked.blocked_in);
    format!("; {} blocked for {time} so far, mostly {doing}", blocked.name)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn sentence(summary: &RecordSummary) -> String {
    let seconds = summary.ended.since(summary.began).unwrap_or_default().as_secs_f64();
    let requests = summary.rows.get("requests").copied().unwrap_or(0);
    let mut text = format!("Recorded {requests} requests in {seconds:.1} s to {}", summary.out.display());
    match summary.stopped_by {
        StopReason::Interrupted => text.push_str("; interrupted, valid up to that point"),
        StopReason::Terminated => text.push_str("; terminated, valid up to that point"),
        StopReason::BufferFull => {
            text.push_str("; it ended early because the buffer was full (--buffer, or --spill-to DIR)");
        }
        _ => {}
    }
    match (summary.lost.total(), summary.lost.events) {
        (Some(0), _) => {}
        (Some(events), _) => text.push_str(&format!("; {events} events were lost, see the report")),
        (None, 0) => text.push_str("; an unknown number of events was lost, see the report"),
        (None, events) => text.push_str(&format!("; more than {events} events were lost, see the report")),
    }
    match (summary.command_exit, summary.command_signal) {
        (Some(code), _) if code != 0 => text.push_str(&format!("; the command ended with exit code {code}")),
        (_, Some(signal)) => text.push_str(&format!("; signal {signal} ended the command")),
        _ => {}
    }
    text.push('.');
    text
}
