//! Records, shows the progress on standard error, and prints a summary of one sentence.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use fonio_core::{BlockedIn, ByteCount, Unit, printable_line};
use fonio_record::{
    BlockedBy, BlockedSoFar, Progress, RecordError, RecordOptions, RecordSummary, Selector, StopReason,
};
use fonio_system::command::Failure;
use fonio_system::progress::{self as show, Done};
use fonio_system::say;

use crate::arguments::{Blocked, Extras, Record};
use crate::exit::Exit;

/// Returns words for the operation in which a thread was blocked, such as `in fsync`.
pub type Words = fn(BlockedIn) -> String;

/// Records, and prints a summary of the recording and the next command. Returns the exit status of the
/// recorded command. Therefore, a script can put `fonio record --` before any command. Fails if the recording
/// fails.
pub fn run(arguments: &Record, words: Words) -> Result<Exit> {
    let options = options(arguments)?;
    let summary = capture(&options, words)?;
    let next = format!("Next: fonio report {}", summary.out.display());
    if arguments.command.is_empty() {
        let text = format!("{}\n{next}", sentence(&summary));
        writeln!(io::stdout(), "{}", printable_line(&text))?;
        return Ok(Exit::Fine);
    }
    // Write to standard error, because standard output belongs to the command.
    say!("{}\n{next}", sentence(&summary));
    Ok(match summary.command_exit {
        // The command handled the signal itself and succeeded, so its exit code is returned.
        Some(0) => Exit::Command(0),
        _ => Exit::of_command(failure(&summary)),
    })
}

/// Returns the options of a recording with these arguments. Fails if the key for tokens cannot be read.
pub(crate) fn options(arguments: &Record) -> Result<RecordOptions> {
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
    Ok(options)
}

fn failure(summary: &RecordSummary) -> Option<Failure> {
    Failure::of(summary.command_exit, summary.command_signal)
}

/// Sets in `options` which data are recorded in addition to requests.
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

/// Creates a recording, with progress messages on standard error. Returns errors of
/// [`fonio_record::record()`].
pub fn capture(options: &RecordOptions, words: Words) -> Result<RecordSummary> {
    with_progress(options, words, |progress| Ok(fonio_record::record(options, progress)?))
}

/// Samples the blocked threads, with progress messages on standard error. `instead` is the error of
/// [`capture`]. Returns errors of [`fonio_record::record_sampled()`].
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
    // A recorded command may also write to standard error.
    let is_alone = options.command.is_none();
    let written = Arc::new(AtomicU64::new(0));
    let shown = is_alone.then(|| show::Progress::phase("Preparing the recording"));
    record(&mut |progress| match progress {
        Progress::Note(note) => say!("note: {note}"),
        Progress::Started { devices } if is_alone => {
            let names: Vec<&str> = devices.iter().filter_map(|device| device.name.as_deref()).collect();
            let what = if names.is_empty() { "every block device".to_owned() } else { names.join(", ") };
            say!("Recording {what}{} …", if options.duration.is_none() { " until Ctrl-C" } else { "" });
        }
        Progress::Running { trace_bytes, blocked, .. } => {
            let Some(shown) = &shown else { return };
            let trace = match trace_bytes.0 {
                0 => String::new(),
                bytes => format!(", {} of trace", Unit::Bytes.format(bytes as f64)),
            };
            let blocked = blocked.as_ref().map(|blocked| blocked_so_far(blocked, words)).unwrap_or_default();
            let done = options.duration.map_or(Done::Unknown, Done::Lasting);
            shown.set(format!("Recording{trace}{blocked}"), done);
        }
        Progress::Writing { trace_bytes, trace_bytes_total, .. } => {
            let Some(shown) = &shown else { return };
            written.store(trace_bytes.0, Ordering::Relaxed);
            let done = Done::Bytes(Arc::clone(&written), Some(trace_bytes_total.0));
            shown.set("Writing the recording", done);
        }
        _ => {}
    })
}

/// Returns a part of a sentence about the program that has been blocked longest so far.
fn blocked_so_far(blocked: &BlockedSoFar, words: Words) -> String {
    let time = Unit::Ns.format(blocked.time.0 as f64);
    let doing = words(blocked.blocked_in);
    let threads = match blocked.threads {
        0 | 1 => String::new(),
        threads => format!(" in {threads} threads"),
    };
    format!("; {} blocked for {time} so far{threads}, mostly {doing}", blocked.name)
}

fn sentence(summary: &RecordSummary) -> String {
    // Written as in the report.
    let length = summary.ended.since(summary.began).unwrap_or_default();
    let requests = summary.rows.get("requests").copied().unwrap_or(0);
    let mut text = format!("Recorded {requests} requests in {length} to {}", summary.out.display());
    match summary.stopped_by {
        StopReason::Interrupted => text.push_str("; interrupted, but valid up to that point"),
        StopReason::Terminated => text.push_str("; terminated, but valid up to that point"),
        StopReason::BufferFull => {
            text.push_str("; the recording ended early: the buffer was full (--buffer, or --spill-to DIR)");
        }
        _ => {}
    }
    match (summary.lost.total(), summary.lost.events) {
        (Some(0), _) => {}
        (Some(events), _) => text.push_str(&format!("; {events} events were lost, see the report")),
        (None, 0) => text.push_str("; an unknown number of events was lost, see the report"),
        (None, events) => text.push_str(&format!("; more than {events} events were lost, see the report")),
    }
    match failure(summary) {
        Some(Failure::Code(code)) => text.push_str(&format!("; the command ended with exit code {code}")),
        Some(Failure::Signal(signal)) => text.push_str(&format!("; signal {signal} ended the command")),
        None => {}
    }
    text.push('.');
    text
}
