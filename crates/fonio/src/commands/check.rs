//! Implements `fonio check`, which determines whether storage is the problem.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use fonio_record::{RecordError, RecordOptions, Selector};
use fonio_system::Task;

use crate::cli::{Blocked, Check, Colour};
use crate::commands::{record, report};
use crate::exit::Exit;
use crate::output::{self, Extent};
use crate::signals;

/// Reads the named recording or trace, or records a device or folder for a while; prints the verdict.
pub fn run(arguments: &Check, colour: Colour) -> Result<Exit> {
    let budgets = output::budgets(&arguments.output)?;
    let stop = signals::watch()?;
    let (input, temporary) = match arguments.what.as_deref() {
        Some(what) if !is_to_be_recorded(what) => {
            let extras = &arguments.extras;
            ensure!(
                extras.calls_of.is_empty() && !extras.no_statements && extras.blocked == Blocked::Auto,
                "fonio only reads {}: leave out --calls-of, --no-statements and --blocked, or name a device or a directory",
                what.display()
            );
            (what.to_owned(), None)
        }
        what => {
            let (recording, temporary) = record_it(arguments, what)?;
            (recording, temporary)
        }
    };
    // Until here, Ctrl-C ended only the recording, and the recorded part is analysed. From now on, Ctrl-C
    // ends the analysis, too.
    stop.store(false, Ordering::Relaxed);
    let kept = arguments.out.as_ref().map(|_| input.display().to_string());
    let explained = report::explain(&[input], &arguments.reading, &arguments.filter, &stop, None)?;
    // Remove the temporary recording after the analysis.
    drop(temporary);
    let next = match (kept, arguments.what.as_deref().filter(|what| !is_to_be_recorded(what))) {
        (Some(kept), _) => {
            vec![format!("fonio report {kept} --all"), format!("fonio report {kept} --html report.html")]
        }
        (None, Some(what)) => vec![format!("fonio report {} --all", what.display())],
        (None, None) => vec![
            "fonio check --output recording, then fonio report recording --all".to_owned(),
            "fonio fix (the fixes, and how to measure them)".to_owned(),
        ],
    };
    let extent = if arguments.all { Extent::All } else { Extent::FirstScreen(&next) };
    output::show(&explained, &arguments.output, &budgets, extent, colour)
}

/// Returns whether to record `what`: a device, or a folder that is not a recording and contains no trace.
fn is_to_be_recorded(what: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_device = what.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device());
    is_device || (what.is_dir() && crate::input::Subject::resolve(&[what.to_owned()]).is_err())
}

fn record_it(arguments: &Check, what: Option<&Path>) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    let (out, temporary) = match &arguments.out {
        Some(out) => (out.clone(), None),
        None => {
            sweep();
            let dir = tempfile::Builder::new()
                .prefix(&format!("{PREFIX}{}-", std::process::id()))
                .tempdir()
                .context("cannot create a temporary directory for the recording; name one with --output")?;
            (dir.path().join("recording"), Some(dir))
        }
    };
    let mut options = RecordOptions::new(&out);
    options.duration = Some(arguments.time);
    fonio_recorder::set_extras(&mut options, &arguments.extras);
    options.select = what
        .map(
            |what| {
                if what.is_dir() { Selector::Path(what.to_owned()) } else { Selector::Device(what.into()) }
            },
        )
        .into_iter()
        .collect();
    let summary = match fonio_recorder::capture(&options, record::words) {
        Err(error) if can_be_sampled(arguments, &error) => {
            fonio_recorder::sample(&options, &error, record::words)?
        }
        outcome => outcome?,
    };
    Ok((summary.out, temporary))
}

/// Returns whether samples of `/proc` can replace missing kernel events. Samples can replace neither
/// file-system calls nor a recording method that the user chose.
fn can_be_sampled(arguments: &Check, error: &anyhow::Error) -> bool {
    let extras = &arguments.extras;
    let is_about_tracing = error.downcast_ref::<RecordError>().is_some_and(RecordError::is_about_tracing);
    is_about_tracing && extras.calls_of.is_empty() && extras.blocked == Blocked::Auto
}

/// Prefix of the name of a temporary recording; the id of the recording process follows.
const PREFIX: &str = "fonio-check-";

/// Removes temporary recordings of processes that were killed. Removing a recording fails only if another
/// user owns it or it no longer exists.
fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        if let Some(owner) = owner
            && !Task::of(owner).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
