//! Implements `fonio run`, which runs workloads on devices, with and without fixes.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fonio_experiment::replay::Sequence;
use fonio_experiment::{
    Analysed, Arm, Background, Candidate, CommandOptions, ExperimentError, KNOWN_WITHIN, Measured,
    ProofOptions, ProofPlan, Rounds, RunOptions, Series, Setup, Variation, Work, document, fastest,
    run_command_series, run_series, variations,
};
use fonio_recording::Recording;
use fonio_report::Document;
use fonio_system::{Caller, say};
use fonio_workload::definition::{Workload, shipped};
use serde::Serialize;

use crate::cli::run::{Run, Runs, SetupArgs, WorkArgs};
use crate::cli::{Colour, Place};
use crate::commands::{android, app, compose, kernel, lab, model};
use crate::exit::Exit;
use crate::output;
use crate::progress::Estimate;
use crate::results::{RESULTS, is_kept, page, proof_directory, results_directory, summarise};
use crate::roles::roles;
use crate::setups::{checked, setups};
use crate::signals::begin;

const MOBIBENCH: &str = "mobibench";

pub fn run(arguments: &Run, colour: Colour) -> Result<Exit> {
    let is_app = arguments.workload.as_deref().is_some_and(|name| name.starts_with(app::PREFIX));
    if let Some(Place::Phone(phone)) = &arguments.setup.place {
        if is_app {
            bail!("an app's programs are Debian's, and do not run on a phone: leave out --in");
        }
        if arguments.stack.compose.is_some() {
            bail!("containers do not run on a phone: leave out --in");
        }
        return android::script::run(phone, arguments);
    }
    if let Some(kernel) = arguments.setup.guest()? {
        if arguments.stack.compose.is_some() {
            bail!("the containers of a Compose file run on this machine only: leave out --in");
        }
        if arguments.workload.is_none() && arguments.mobigen.is_none() {
            return list_workloads(arguments.setup.json);
        }
        // Report a misspelt name now, and not only after the guest has booted.
        let workload = arguments.workload.iter().filter(|name| !is_app && *name != MOBIBENCH);
        for name in workload.chain(&arguments.work.background) {
            Workload::load(name)?;
        }
        let app = arguments.workload.as_deref().filter(|_| is_app);
        let packed = app.map(|name| app::packed(name, arguments)).transpose()?;
        return lab::run_setup(kernel, &arguments.setup, packed.as_ref());
    }
    if let Some(place) = arguments.setup.on.iter().find(|place| place.starts_with(model::PREFIX)) {
        bail!(
            "{place} is a model, in which only recordings are replayed: `fonio replay RECORDING --on {place}`"
        );
    }
    if let Some(path) = &arguments.stack.compose {
        // As for apps: first what is checked at once.
        checked(&arguments.setup)?;
        arguments.work.background.as_deref().map(Workload::load).transpose()?;
        let (app, _images) = compose::prepared(path, arguments)?;
        return measure(Work::App(&app), &arguments.setup, &arguments.work, &tried(arguments), colour);
    }
    let mut setup = Cow::Borrowed(&arguments.setup);
    let workload = match (&arguments.mobigen, arguments.workload.as_deref()) {
        (Some(trace), _) => {
            let trace = std::fs::canonicalize(trace)
                .with_context(|| format!("cannot find the trace {}", trace.display()))?;
            fonio_workload::mobigen::workload(&trace)
        }
        (None, None) => return list_workloads(setup.json),
        (None, Some(MOBIBENCH)) => {
            let words: Vec<_> = arguments.arguments.iter().map(|word| word.to_string_lossy()).collect();
            let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
            let parsed = fonio_workload::mobibench::parse(&words)?;
            if let Some(directory) = parsed.directory {
                if !setup.on.is_empty() {
                    bail!("both -p and --on set Mobibench's directory; use only one of them");
                }
                setup.to_mut().on = vec![directory];
            }
            parsed.workload
        }
        (None, Some(name)) if is_app => {
            // Check the rest of the command line first, because installing packages can take minutes.
            checked(&setup)?;
            arguments.work.background.as_deref().map(Workload::load).transpose()?;
            let app = app::prepared(name, arguments)?;
            return measure(Work::App(&app), &setup, &arguments.work, &tried(arguments), colour);
        }
        (None, Some(name)) => Workload::load(name)?,
    };
    if !arguments.arguments.is_empty() && arguments.workload.as_deref() != Some(MOBIBENCH) {
        bail!(
            "only the workload {MOBIBENCH} takes arguments after `--`; to run a command, use `fonio launch -- CMD`"
        );
    }
    measure(Work::Workload(&workload), &setup, &arguments.work, &tried(arguments), colour)
}

/// Returns the fixes that the user named.
fn tried(arguments: &Run) -> Tried<'_> {
    let candidates = arguments.fix.as_ref().map_or(&[][..], |fixes| &fixes.0);
    Tried { candidates, refusal: Refusal::Error, best: None, verbose: false }
}

/// Runs a series of commands and shows the series' results.
pub(super) fn run_and_publish(
    arms: &[Arm<Variation>],
    options: &CommandOptions<'_>,
    at: &SetupArgs,
    colour: Colour,
) -> Result<Exit> {
    let out = results_directory(at.out.as_deref(), RESULTS)?;
    let mut estimate = Estimate::new();
    let series =
        run_command_series(arms, rounds(at.runs.unwrap_or_default()), options, &out, &mut |measurement| {
            estimate.announce(measurement, measurement.name);
        });
    let (mut series, first) = series.inspect_err(|_| {
        // Remove the results folder if no run ended. If the folder contains a recording, removing it fails,
        // and the folder stays.
        let _ = fs::remove_dir(&out);
    })?;
    if let Some(replay) = &options.replay {
        series.notes.extend(note_on_flushes(&series, replay.sequence)?);
    }
    publish(&series, &first, at, &out, colour)
}

/// Returns the note on a replay without flushes, with the names of the setups for which it holds.
fn note_on_flushes(series: &Series, sequence: &Sequence) -> Result<Option<String>> {
    let mut notes: Vec<(&str, Option<&str>)> = Vec::new();
    for variation in &series.variations {
        if let Some(run) = variation.runs.first() {
            let note = sequence.note_on_flushes(Recording::open(&run.recording)?.meta());
            notes.push((&variation.name, note));
        }
    }
    Ok(with_setups(&notes))
}

/// Returns a note that some setups have, with their names if not all setups have it.
fn with_setups(notes: &[(&str, Option<&str>)]) -> Option<String> {
    let note = notes.iter().find_map(|(_, note)| *note)?;
    let noted: Vec<&str> = notes.iter().filter(|(_, note)| note.is_some()).map(|(name, _)| *name).collect();
    Some(if noted.len() == notes.len() { note.to_owned() } else { format!("{}: {note}", noted.join(", ")) })
}

/// Runs a proof with a command and shows its results.
pub(super) fn run_proof(plan: &ProofPlan<'_>, at: &SetupArgs, colour: Colour) -> Result<Exit> {
    let out = proof_directory(at.out.as_deref())?;
    let mut estimate = Estimate::new();
    let proof = plan.run(&out, &mut |measurement| estimate.announce(measurement, measurement.name));
    let proof = proof.inspect_err(|_| {
        // Remove the results folder if no run ended. If the folder contains a recording, removing it fails,
        // and the folder stays.
        let _ = fs::remove_dir(&out);
    })?;
    publish(&proof.series, &proof.first, at, &out, colour)
}

/// The fixes to compare with the plain setup.
pub(super) struct Tried<'a> {
    pub candidates: &'a [Candidate],
    pub refusal: Refusal,
    /// The number of fixes to measure, fastest first; `None` means all fixes.
    pub best: Option<usize>,
    /// Whether to name each fix that is left out, with the reason.
    pub verbose: bool,
}

impl Tried<'_> {
    /// Returns each setup without a fix, and with each fix that can be tested on it. Prints the fixes that
    /// are left out.
    pub fn arms(&self, setups: &[(String, Setup)], measured: Measured<'_>) -> Result<Vec<Arm<Variation>>> {
        let planned = self
            .telling(|refused| variations(setups, self.candidates, measured, &Setup::check_kernel, refused));
        planned.map_err(|error| kernel::explain(error, setups.iter().map(|(_, setup)| setup)))
    }

    /// Plans a proof with a command. Prints the fixes that are left out.
    pub fn proof<'p>(&self, options: ProofOptions<'p>) -> Result<ProofPlan<'p>> {
        let setups = options.setups;
        let planned = self.telling(|refused| ProofPlan::of(options, refused));
        planned.map_err(|error| kernel::explain(error, setups.iter().map(|(_, setup)| setup)))
    }

    /// Plans with a function that is called for each refused fix, and prints the fixes that are left out.
    fn telling<T>(
        &self,
        plan: impl FnOnce(
            &mut dyn FnMut(ExperimentError) -> Result<(), ExperimentError>,
        ) -> Result<T, ExperimentError>,
    ) -> Result<T, ExperimentError> {
        let mut left_out = LeftOut::default();
        let mut refused = |error| match self.refusal {
            Refusal::Error => Err(error),
            Refusal::LeaveOut => {
                left_out.add(error);
                Ok(())
            }
        };
        let planned = plan(&mut refused);
        left_out.tell(self.verbose);
        planned
    }
}

/// How fonio handles a fix that does not apply to a setup.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Error,
    LeaveOut,
}

#[derive(Default)]
struct LeftOut(Vec<(String, Vec<String>)>);

impl LeftOut {
    fn add(&mut self, error: ExperimentError) {
        let (reason, fix) = match error {
            ExperimentError::NotApplicable { fix, reason } => (reason, Some(fix)),
            other => (other.to_string(), None),
        };
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, fixes)) => fixes.extend(fix),
            None => self.0.push((reason, fix.into_iter().collect())),
        }
    }

    fn tell(&self, verbose: bool) {
        if verbose {
            for (reason, fixes) in &self.0 {
                let colon = if fixes.is_empty() { "" } else { ": " };
                say!("left out: {}{colon}{reason}", fixes.join(", "));
            }
        } else if !self.0.is_empty() {
            let fixes: BTreeSet<&String> = self.0.iter().flat_map(|(_, fixes)| fixes).collect();
            say!("{} fixes cannot be tested here; -v lists the reasons", fixes.len());
        }
    }
}

/// Measures a workload or an app in each setup, once without a fix and once with each fix.
pub(super) fn measure(
    work: Work<'_>,
    arguments: &SetupArgs,
    how: &WorkArgs,
    tried: &Tried<'_>,
    colour: Colour,
) -> Result<Exit> {
    let stop = begin()?;
    let mut arms = tried.arms(
        &setups(arguments)?,
        match work {
            Work::Workload(workload) => Measured::Workload(workload),
            // A fix cannot change what an app does, only the storage below it.
            Work::App(_) => Measured::Replay,
        },
    )?;
    let roles = roles()?;
    let other = how.background.as_deref().map(Workload::load).transpose()?;
    let background = other.as_ref().map(|workload| Background { workload, scale: how.background_scale });
    let options = RunOptions {
        work,
        scale: how.scale,
        background,
        pace: how.pace,
        write_back: how.write_back,
        seed: arguments.seed,
        roles: &roles,
        stop: &stop,
    };
    let name = work.name();
    let out = results_directory(arguments.out.as_deref(), RESULTS)?;
    let run = |arms: &[Arm<Variation>], rounds: Rounds, out: &Path| {
        let mut estimate = Estimate::new();
        run_series(arms, rounds, &options, out, &mut |measurement| {
            estimate.announce(measurement, &format!("{name} on {}", measurement.name));
        })
    };
    let runs = arguments.runs.unwrap_or_default();
    let rounds = rounds(runs);
    if let Some(best) = tried.best {
        say!("Running every fix once to find the {best} fastest:");
        let (once, _) = run(&arms, Rounds::Fixed(1), &out.join("once"))?;
        arms = fastest(&arms, &once, best);
        match runs {
            Runs::Number(number) => say!("Measuring the fastest, {number} times each:"),
            Runs::Auto(_) => say!("Measuring the fastest, at first three times each:"),
        }
    }
    let (series, first) = run(&arms, rounds, &out).inspect_err(|_| {
        // Remove the results folder if no run began. If the folder contains a recording, removing it fails,
        // and the folder stays.
        let _ = fs::remove_dir(&out);
    })?;
    publish(&series, &first, arguments, &out, colour)
}

pub(super) fn rounds(runs: Runs) -> Rounds {
    match runs {
        Runs::Number(number) => Rounds::Fixed(number),
        Runs::Auto(budget) => Rounds::Pilot { factor: KNOWN_WITHIN, budget },
    }
}

/// Writes the summary and the report of a series of runs, and shows the report.
fn publish(
    series: &Series,
    first: &Analysed,
    arguments: &SetupArgs,
    out: &Path,
    colour: Colour,
) -> Result<Exit> {
    let text = summarise(series, out)?;
    let page = page(arguments, out);
    let explained = first.document();
    // The terminal shows only the findings and the fixes; the HTML page also contains the other sections.
    let short = Document { sections: Vec::new(), provenance: Vec::new(), ..explained.clone() };
    // The result is shown first: the page may not fit on the disk.
    if arguments.json {
        output::json_text(text.as_bytes())?;
    } else {
        output::show_on_terminal(&document(series, Some(short)), colour)?;
    }
    output::write_html(&document(series, Some(explained)), Some(&page))?;
    if !arguments.json {
        // Only root can read the state folder.
        let is_of_root = Caller::through_sudo().is_some() && is_kept(out);
        let how =
            if is_of_root { " (read it with sudo, or name a place with --output or --html)" } else { "" };
        writeln!(output::screen(), "\nFull report with charts: {}{how}", page.display())?;
        if arguments.html.is_some() {
            writeln!(output::screen(), "Recordings: {}", out.display())?;
        }
    }
    let valid = series.variations.iter().flat_map(|variation| &variation.runs).all(|run| run.valid);
    Ok(if valid { Exit::Fine } else { Exit::NotValid })
}

/// A workload in the list of workloads, as JSON output.
#[derive(Serialize)]
struct Listed {
    name: String,
    title: String,
}

fn list_workloads(as_json: bool) -> Result<Exit> {
    let named = |name: &str| Ok(Listed { name: name.to_owned(), title: Workload::load(name)?.title });
    let mut workloads: Vec<Listed> =
        shipped().iter().map(|workload| named(workload.name)).collect::<Result<_>>()?;
    let title = "Mobibench, with its own options after `--`".to_owned();
    workloads.push(Listed { name: MOBIBENCH.to_owned(), title });
    let apps = app::listed()?;
    if as_json {
        workloads.extend(apps.into_iter().map(|app| Listed { name: app.name, title: app.title }));
        return output::json(&workloads);
    }
    let mut out = output::screen();
    for Listed { name, title } in workloads {
        writeln!(out, "{name:<18} {title}")?;
    }
    writeln!(out, "\nReal programs, installed when they first run (docs/apps.md):")?;
    for app in apps {
        writeln!(out, "{:<18} {} ({})", app.name, app.title, app.detail)?;
    }
    writeln!(out, "\nNext: `fonio run NAME --on FOLDER`, or `--on PROFILE` (`fonio device list`) as root.")?;
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_its_setups_if_others_lack_it() {
        let note = Some("no flushes");
        for (notes, expected) in [
            (&[("sd_a1", None), ("sd_a2", None)][..], None),
            (&[("sd_a1", None), ("sd_a2", note), ("ridata", note)], Some("sd_a2, ridata: no flushes")),
            (&[("sd_a2", note)], Some("no flushes")),
        ] {
            assert_eq!(with_setups(notes).as_deref(), expected);
        }
    }
}
