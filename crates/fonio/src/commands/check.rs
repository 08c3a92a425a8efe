//! Implements `fonio check`, which determines whether storage is the problem.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use fonio_record::{RecordError, RecordOptions, Selector};
use fonio_system::say;

use crate::cli::{Blocked, Check, Colour};
use crate::commands::{android, record, report};
use crate::exit::{Exit, NotShown};
use crate::last::{self, LAST};
use crate::output::{self, Extent};
use crate::{signals, temporary};

/// Reads the named recording or trace, or records a device or folder for a while; prints the verdict.
pub fn run(arguments: &Check, colour: Colour) -> Result<Exit> {
    let budgets = output::budgets(&arguments.output)?;
    let stop = signals::watch()?;
    let mut filter = arguments.filter.clone();
    let what = match (&arguments.place, arguments.what.as_deref()) {
        (Some(_), package) => {
            filter.unit.extend(package.map(|package| package.display().to_string()));
            None
        }
        (None, what) => what.map(last::resolve).transpose()?,
    };
    let is_recorded = what.as_deref().is_none_or(is_to_be_recorded);
    let (input, temporary) = match what.as_deref() {
        Some(what) if !is_recorded => {
            let extras = &arguments.extras;
            ensure!(
                extras.calls_of.is_empty() && !extras.no_statements && extras.blocked == Blocked::Auto,
                "fonio only reads {}: leave out --calls-of, --no-statements and --blocked, or name a device or a directory",
                what.display()
            );
            (what.to_owned(), None)
        }
        what => {
            let (recording, temporary) = record_it(arguments, what, &stop)?;
            (recording, temporary)
        }
    };
    // Until here, Ctrl-C ended only the recording, and the recorded part is analysed. From now on, Ctrl-C
    // ends the analysis, too.
    stop.store(false, Ordering::Relaxed);
    let is_kept = is_recorded && temporary.is_none() && arguments.out.is_none();
    let explained = report::explain(std::slice::from_ref(&input), &arguments.reading, &filter, &stop, None)?;
    let mut next = next(arguments, &input, is_recorded, temporary.is_none());
    let waits = explained.analysis.diagnosis.as_ref().is_some_and(|diagnosis| diagnosis.is_storage);
    if is_recorded
        && arguments.place.is_none()
        && arguments.out.is_none()
        && waits
        && explained.analysis.verdict_id != "not-storage"
    {
        next.push("sudo fonio cure (tries the fixes for the cause, and keeps the one that helps)".to_owned());
    }
    // Remove the temporary recording after the analysis.
    drop(temporary);
    let extent = if arguments.all { Extent::EveryRow } else { Extent::FirstScreen(&next) };
    let exit = output::show(&explained, &arguments.output, &budgets, extent, colour);
    let shows_next = matches!(extent, Extent::FirstScreen(_)) && arguments.output.is_for_screen();
    // The recording is also kept if the report cannot be written.
    if is_kept && (!shows_next || exit.is_err()) {
        say!("The recording is kept: `{LAST}` is {}.", input.display());
    }
    exit
}

/// Returns the commands to run after this check.
fn next(arguments: &Check, input: &Path, is_recorded: bool, is_kept: bool) -> Vec<String> {
    let is_named = arguments.out.is_some();
    // Only root can read the folder that fonio chooses for root.
    let is_sudo = rustix::process::geteuid().is_root() && std::env::var_os("SUDO_UID").is_some();
    let sudo = if is_recorded && !is_named && is_sudo { "sudo " } else { "" };
    // The name on the command line is shorter than the path for which it stands.
    let is_last = arguments.what.as_deref() == Some(Path::new(LAST)) || is_recorded && !is_named;
    let shown = if is_last { LAST.to_owned() } else { input.display().to_string() };
    let report = format!("{sudo}fonio report {shown}");
    match (is_recorded, is_kept) {
        (false, _) => vec![format!("{report} --all")],
        (true, true) if is_last => {
            vec![
                format!("{report} --all (`{LAST}` is {})", input.display()),
                format!("{report} --html report.html"),
            ]
        }
        (true, true) => vec![format!("{report} --all"), format!("{report} --html report.html")],
        (true, false) => vec!["fonio check --output recording, then fonio report recording --all".to_owned()],
    }
}

/// Returns whether to record `what`: a device, or a folder that is not a recording and contains no trace.
fn is_to_be_recorded(what: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_device = what.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device());
    is_device || (what.is_dir() && crate::input::resolve(&[what.to_owned()]).is_err())
}

/// Creates a temporary folder for a recording that cannot be kept.
fn temporary_folder() -> Result<tempfile::TempDir> {
    temporary::folder("fonio-check")
        .context("cannot create a temporary directory for the recording; name one with --output")
}

fn record_it(
    arguments: &Check,
    what: Option<&Path>,
    stop: &AtomicBool,
) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    let (out, temporary) = match arguments.out.clone().map_or_else(last::place, Ok) {
        Ok(out) => (out, None),
        Err(error) => {
            say!("The recording will be removed after the report (keep it with --output): {error:#}");
            let dir = temporary_folder()?;
            (dir.path().join("recording"), Some(dir))
        }
    };
    if let Some(place) = &arguments.place {
        let wish = android::Wish {
            duration: Some(arguments.time),
            recorder: arguments.recorder.as_deref(),
            overwrite: false,
        };
        let recorded = android::record(place, wish, &out, stop)?;
        return recorded.map(|_| (out, temporary)).ok_or_else(|| {
            NotShown("the phone shows only sums of its apps, so a verdict is not possible".to_owned()).into()
        });
    }
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
