//! Converts the filter options of the command line to filters for the analysis.

use anyhow::{Result, bail};
use fonio_analysis::filter::{Filter, FilterOptions};
use fonio_core::{Meta, Nanos, RowSink};
use fonio_input::InputError;

use crate::cli::{FilterArgs, Reading};
use crate::input::Subject;

/// Returns the filter that `arguments` describe; `None` if there are no filter options. Devices must be named
/// as in `subject`.
pub fn options(arguments: &FilterArgs, subject: &Subject) -> Result<Option<FilterOptions>> {
    let nanos = |time: std::time::Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let (tids, comms): (Vec<_>, Vec<_>) = arguments
        .process
        .iter()
        .cloned()
        .partition(|name| name.bytes().all(|letter| letter.is_ascii_digit()));
    let options = FilterOptions {
        devices: arguments.device.iter().map(|name| device(name, subject)).collect::<Result<_>>()?,
        comms,
        units: arguments.unit.clone(),
        files: arguments.file.clone(),
        tids: tids.iter().filter_map(|tid| tid.parse().ok()).collect(),
        ops: arguments.op.iter().map(|op| op.name().to_owned()).collect(),
        from_ns: arguments.since.map(nanos),
        until_ns: arguments.until.map(nanos),
    };
    Ok((options != FilterOptions::default()).then_some(options))
}

/// Returns `major:minor` of the device with the given name.
fn device(name: &str, subject: &Subject) -> Result<String> {
    let is_number = name.split_once(':').is_some_and(|(major, minor)| {
        [major, minor]
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|letter| letter.is_ascii_digit()))
    });
    if is_number {
        return Ok(name.to_owned());
    }
    let short = name.strip_prefix("/dev/").unwrap_or(name);
    let Subject::Recording(recording) = subject else {
        bail!("a trace contains device numbers only: use `--device major:minor`, such as 179:0, not {name}");
    };
    let devices = &recording.meta().devices;
    if let Some(found) = devices.iter().find(|device| device.name.as_deref() == Some(short)) {
        return Ok(found.id.to_string());
    }
    let known: Vec<String> =
        devices.iter().map(|device| device.name.clone().unwrap_or_else(|| device.id.to_string())).collect();
    bail!("the recording has no device {name}; it has {}", known.join(", "))
}

/// Passes the rows of `subject` through the filter to `sink`. The sink sorts the rows itself.
pub fn pour_unordered(
    subject: &Subject,
    reading: &Reading,
    arguments: &FilterArgs,
    sink: &mut dyn RowSink,
) -> Result<Meta> {
    let meta = match options(arguments, subject)? {
        None => subject.pour_unordered(&reading.settings(), sink),
        Some(options) => subject.pour_unordered(&reading.settings(), &mut Filter::new(options, sink)?),
    };
    meta.map_err(of_io)
}

/// Passes the rows of `subject` through the filter to `sink`, in table order.
pub fn pour(
    subject: &Subject,
    reading: &Reading,
    arguments: &FilterArgs,
    sink: &mut dyn RowSink,
) -> Result<Meta> {
    let meta = match options(arguments, subject)? {
        None => subject.pour(&reading.settings(), sink),
        Some(options) => subject.pour(&reading.settings(), &mut Filter::new(options, sink)?),
    };
    meta.map_err(of_io)
}

/// Returns the error of an input. An I/O error stays one, because a closed pipe of the output is no error of the
/// command (`exit::end`).
fn of_io(error: InputError) -> anyhow::Error {
    match error {
        InputError::Io(error) => error.into(),
        other => other.into(),
    }
}
