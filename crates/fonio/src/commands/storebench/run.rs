//! Runs StoreBench: announces the planned writes, continues an interrupted run, measures, saves and shows the
//! result.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use fonio_bench::BenchError;
use fonio_bench::fio::Fio;
use fonio_bench::storebench::machine::{self, Began};
use fonio_bench::storebench::parts::NO_TIME;
use fonio_bench::storebench::results::{self, Unfinished};
use fonio_bench::storebench::run::{Kept, Session, Step};
use fonio_bench::storebench::schedule::{Schedule, Settings, TIME_MAX, Work};
use fonio_bench::target::{Target, room_bytes};
use fonio_core::ByteCount;
use fonio_host::Filesystem;
use fonio_storebench_document::document::{Document, Effort, Mode};
use fonio_storebench_document::figures::Part;
use fonio_system::say;

use super::show;
use crate::cli::Colour;
use crate::cli::storebench::StoreBenchRun;
use crate::commands::bench_target::{self, Subject};
use crate::exit::Exit;
use crate::output;
use crate::progress::{Done, Progress, rounded};
use crate::signals::{self, begin};

/// The seed for the offsets of random requests. The seed is fixed, so that results can be compared.
const SEED: u64 = 1;

pub fn run(arguments: &StoreBenchRun, colour: Colour) -> Result<Exit> {
    if arguments.time > TIME_MAX {
        bail!(
            "a run takes at most 10min, because longer runs would not be comparable; give --for 10min or less"
        );
    }
    if arguments.emulated.guest.is_some() {
        bail!("storebench does not run in guests; `fonio bench device --in lab:KERNEL` does");
    }
    let subject = Subject::of(&arguments.target, &arguments.emulated)?;
    let mode = mode(arguments, &subject)?;
    let settings = Settings {
        effort: if arguments.quick { Effort::Quick } else { Effort::Full },
        mode,
        time_max: arguments.time,
        write_max: arguments.max_write,
        seed: SEED,
    };
    let room = match subject {
        Subject::Real(path) => room_bytes(path)?,
        // The file system itself needs the remaining tenth of the device.
        Subject::Profile(_) => arguments.emulated.size / 10 * 9,
    };
    let schedule = Schedule::within(&settings, room);
    let announced = announcement(arguments, &schedule, room);
    if arguments.dry_run {
        writeln!(output::screen(), "{announced}")?;
        return Ok(Exit::Fine);
    }
    let fio = Fio::find()?;
    say!("{announced}");
    let (stop, emulated) = match subject {
        Subject::Real(_) => (signals::watch()?, None),
        Subject::Profile(profile) => {
            let stop = begin()?;
            let made = bench_target::start(profile, &arguments.emulated, SEED, Some(Filesystem::Ext4))?;
            (stop, Some((profile, made)))
        }
    };
    let path = match &emulated {
        None => arguments.target.clone(),
        Some((_, made)) => made.mount_dir().context("the emulated device is not mounted")?.to_owned(),
    };
    let target = match mode {
        Mode::Directory => Target::open(&path, None)?,
        Mode::Device => Target::open(&path, arguments.erase.as_deref())?,
        Mode::DeviceReadOnly => Target::read_only(&path)?,
    };
    if let Some(kind @ ("tmpfs" | "ramfs")) = target.place().file_system.as_deref() {
        bail!(
            "{} is in memory ({kind}), so it is not on a device; name a directory on the device",
            path.display()
        );
    }
    let name = match &emulated {
        None => std::fs::canonicalize(&path).unwrap_or(path),
        Some((profile, _)) => PathBuf::from(profile),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970; set it")?;
    let began = Began { tool: format!("fonio {}", env!("CARGO_PKG_VERSION")), unix_s: now.as_secs() };
    let profile = emulated.as_ref().map(|made| made.0);
    let kept = Kept::new(machine::circumstances(name, settings, began, &fio, target.place(), profile));
    let (kept, ended) =
        measure(arguments, kept, &Session { fio: &fio, target: &target, schedule: &schedule, stop: &stop })?;
    drop(target);
    let stopped = emulated.map_or(Ok(()), |(_, made)| made.stop().map(drop));
    let exit = finish(arguments, &kept, ended, colour)?;
    stopped?;
    Ok(exit)
}

fn mode(arguments: &StoreBenchRun, subject: &Subject<'_>) -> Result<Mode> {
    let Subject::Real(path) = subject else { return Ok(Mode::Directory) };
    let is_device = !path.is_dir();
    match &arguments.erase {
        Some(named) if !is_device => {
            bail!("--erase is for a raw device, and {} is a directory; leave it out", named.display())
        }
        Some(named) if named != path => bail!(
            "--erase names {}, but the device to measure is {}; name the same device twice",
            named.display(),
            path.display()
        ),
        Some(_) => Ok(Mode::Device),
        None if is_device => Ok(Mode::DeviceReadOnly),
        None => Ok(Mode::Directory),
    }
}

fn announcement(arguments: &StoreBenchRun, schedule: &Schedule, room: u64) -> String {
    let bytes = |count| output::bytes(ByteCount(count));
    let target = arguments.target.display();
    let minutes = arguments.time.as_secs().div_ceil(60);
    let measured = schedule.measured().count();
    let mut text = match schedule.writes_max() {
        0 => format!("StoreBench only reads {target}: it writes nothing, and takes at most {minutes} min."),
        most => format!(
            "StoreBench writes at most {} to {target} ({} free) in {measured} parts, and takes at most {minutes} min.",
            bytes(most),
            bytes(room)
        ),
    };
    for part in &schedule.parts {
        text += &match &part.work {
            Work::LeftOut(reason) => format!("\n  not measured: {} ({reason})", part.part.label()),
            _ => format!("\n  {}: at most {}", part.part.label(), bytes(part.writes_max)),
        };
    }
    text
}

/// Measures the parts that are missing in a result. Returns the parts, and the error that ended the run.
fn measure(
    arguments: &StoreBenchRun,
    new: Kept,
    session: &Session<'_>,
) -> Result<(Kept, Option<BenchError>)> {
    let unfinished = Unfinished::of(&new.of.target)?;
    let mut kept = match unfinished.read() {
        Some(old) if !arguments.restart && old.can_continue(&new) => {
            let labels: Vec<&str> = old.parts.iter().map(|part| part.part.label()).collect();
            if !labels.is_empty() {
                say!(
                    "Continues an interrupted run, which measured: {}. (--restart starts again)",
                    labels.join(", ")
                );
            }
            old
        }
        _ => new,
    };
    kept.notes = machine::notes(session.target.place());
    let mut save = |kept: &Kept| unfinished.save(kept);
    let progress = Progress::phase("Preparing");
    let mut announced = 0;
    let ended = session.run(&mut kept, &mut save, &mut |step| tell(&progress, step, &mut announced)).err();
    drop(progress);
    if ended.is_none() {
        unfinished.remove()?;
    } else {
        // Save an interrupted run even if no part is finished, to keep its start time.
        save(&kept)?;
    }
    Ok((kept, ended))
}

fn finish(arguments: &StoreBenchRun, kept: &Kept, ended: Option<BenchError>, colour: Colour) -> Result<Exit> {
    let missing = match &ended {
        None => NO_TIME,
        Some(BenchError::Interrupted) => "the run was interrupted",
        Some(BenchError::Gone { .. }) => "the device stopped responding",
        Some(BenchError::Full { .. }) => "the file system became full",
        Some(_) => "the run ended with an error",
    };
    if let Some(error) = &ended {
        say!("fonio: {error}");
        if kept.parts.is_empty() {
            return Ok(Exit::NotValid);
        }
        say!(
            "{} of {} parts are finished and saved; the same command measures the other parts.",
            kept.parts.len(),
            Part::ALL.len()
        );
    }
    let document = kept.document(missing);
    let file = match &arguments.out {
        Some(file) => file.clone(),
        None => results::new_file(&document)?,
    };
    results::write(&document, &file)?;
    let problems = document.check();
    for problem in &problems {
        say!("warning: the result is not valid: {problem}");
    }
    shown(arguments, &document, &file, colour)?;
    Ok(if ended.is_some() || !problems.is_empty() { Exit::NotValid } else { Exit::Fine })
}

fn shown(arguments: &StoreBenchRun, document: &Document, file: &Path, colour: Colour) -> Result<()> {
    if arguments.json {
        return output::json(document).map(drop);
    }
    output::show_on_terminal(&show::document(document, &show::Others::models(document), false), colour)?;
    let file = file.display();
    writeln!(
        output::screen(),
        "\nThe result is in {file}.\nEvery figure, and a page with charts: fonio storebench show {file} --all --html storebench.html"
    )?;
    Ok(())
}

/// Shows the current test and the remaining time, and prints a line when a part of the benchmark begins.
fn tell(progress: &Progress, step: &Step<'_>, announced: &mut usize) {
    let Step { part, number, parts, test, run, left_max } = step;
    if *announced != *number {
        *announced = *number;
        say!("[{number}/{parts}] {}; at most {} left", part.label(), rounded(left_max.as_secs_f64()));
    }
    progress.set(format!("[{number}/{parts}] {}: {test}, run {run}", part.label()), Done::Unknown);
    progress.ends_within(*left_max);
}
