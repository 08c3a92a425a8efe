//! Runs workloads with `fonio run`, as a user would, and parses the JSON output.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use fonio_analysis::addresses::sequentiality::SequentialShare;
use fonio_analysis::requests::sizes::SizeRow;
use fonio_analysis::{Analysis, Distribution, Group};
use fonio_experiment::{RunFigures, Series, VariationResult};
use fonio_host::Filesystem;
use fonio_report::document::Chart;
use fonio_report::json::Report;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::measured::{Kind, Measured};
use super::row::RUNS_MIN;
use crate::applications::{self, Applications, Load};
use crate::fuse::{Found, Plan};
use crate::{asked, emulated, process, tools};

/// Runs workloads and stores their results, so that each command runs only once.
#[derive(Default)]
pub(super) struct Runs {
    full: bool,
    /// The share of a processor that the workloads get, to imitate a phone's processor.
    cpu: Option<String>,
    /// The processor of the phone of the current study.
    phone: Option<&'static str>,
    /// The only device to measure in addition to the best device; `None` for all devices.
    on: Option<String>,
    /// The guest in which all commands run, such as `lab:6.12`.
    guest: Option<String>,
    /// The path of the program fonio, once it is known.
    program: Option<PathBuf>,
    series: BTreeMap<Vec<String>, Rc<Series>>,
    reports: BTreeMap<PathBuf, Rc<Report>>,
    /// The results of `fonio bench`, by command line.
    benchmarks: BTreeMap<String, Value>,
    /// The commands that ran since the last call of [`Runs::commands`].
    commands: Vec<String>,
    /// The charts of the current paper, beside the chart of its rows.
    pictures: Vec<Chart>,
}

/// The guest for workloads that need a feature missing from this kernel.
const GUEST: &str = "lab:6.12";

/// The machine or guest in which a command runs.
#[derive(Clone, Debug)]
pub(super) struct At {
    /// The guest's kernel; `None` for this machine.
    guest: Option<String>,
    /// The feature that this kernel lacks, if a guest is used for this reason.
    missing: Option<String>,
}

impl At {
    pub(super) fn is_guest(&self) -> bool {
        self.guest.is_some()
    }

    /// Returns a note on the guest in which our number was measured; empty for this machine.
    pub(super) fn noted(&self) -> String {
        match (&self.guest, &self.missing) {
            (None, _) => String::new(),
            (Some(guest), None) => format!("in {guest}"),
            (Some(guest), Some(missing)) => format!("in {guest}, because {missing}"),
        }
    }
}

/// Finds the results of a setup by the setup's name.
pub(super) trait Named {
    fn named(&self, name: &str) -> Result<&VariationResult>;
}

impl Named for Series {
    fn named(&self, name: &str) -> Result<&VariationResult> {
        let found = self.variations.iter().find(|variation| variation.name == name);
        found.with_context(|| format!("the results of `fonio run` lack {name}"))
    }
}

/// Computes figures from the runs of a setup.
pub(super) trait OfRuns {
    fn first(&self) -> Result<&RunFigures>;

    /// Returns a figure of each run. `kind` says what was run.
    fn each(&self, kind: Kind, figure: impl Fn(&RunFigures) -> Option<f64>) -> Measured;

    fn wall_s(&self, kind: Kind) -> Measured {
        self.each(kind, |run| Some(run.wall_s))
    }
}

impl OfRuns for VariationResult {
    fn first(&self) -> Result<&RunFigures> {
        self.runs.first().with_context(|| format!("{} was not run", self.name))
    }

    fn each(&self, kind: Kind, figure: impl Fn(&RunFigures) -> Option<f64>) -> Measured {
        kind.runs(self.runs.iter().map(figure))
    }
}

/// Finds figures of a request group in a report.
pub(super) trait OfGroup {
    /// Returns the sizes of a group's requests; `None` if the group has no requests.
    fn sizes_of(&self, group: Group) -> Option<&SizeRow>;

    /// Returns the latencies of a group's requests; `None` if no request has a known latency.
    fn service_of(&self, group: Group) -> Option<&Distribution>;
}

impl OfGroup for Analysis {
    fn sizes_of(&self, group: Group) -> Option<&SizeRow> {
        self.sizes.groups.iter().find(|row| row.group == group)
    }

    fn service_of(&self, group: Group) -> Option<&Distribution> {
        self.latency.groups.iter().find(|row| row.group == group)?.service_ns.as_ref()
    }
}

/// Splits the bytes of one operation into sequential and random bytes.
pub(super) trait Split {
    fn bytes(&self) -> u64;

    /// Returns the random bytes, counted by pages of 4 KiB: only the first page of a request can be random.
    fn random_page_bytes(&self) -> u64;
}

impl Split for SequentialShare {
    fn bytes(&self) -> u64 {
        (self.sequential_bytes + self.random_bytes).0
    }

    fn random_page_bytes(&self) -> u64 {
        const PAGE: u64 = 4096;
        (self.random_requests * PAGE).min(self.random_bytes.0)
    }
}

/// The value of `--cpu` for this machine's processor.
const FULL: &str = "full";

/// The studies whose phone has a processor that fonio knows.
const PHONES: [(&str, &str); 1] = [("Kim et al. 2012", "nexus-one")];

impl Runs {
    pub(super) fn new(
        full: bool,
        cpu: Option<String>,
        on: Option<String>,
        guest: Option<String>,
        program: Option<PathBuf>,
    ) -> Runs {
        Runs { full, cpu, on, guest, program, ..Runs::default() }
    }

    pub(super) fn applications(&mut self, load: &Load) -> Result<Applications> {
        let found = applications::measure(load, self.program.as_deref())?;
        self.commands.push(found.command.clone());
        Ok(found)
    }

    /// Returns the machine on which workloads that need these file systems run. It is this machine if its
    /// kernel supports all of them and no guest was requested; otherwise, it is a guest.
    pub(super) fn place_for(&self, filesystems: &[Filesystem]) -> At {
        if self.guest.is_some() {
            return At { guest: self.guest.clone(), missing: None };
        }
        let missing = filesystems.iter().find_map(|filesystem| filesystem.check_kernel().err());
        At {
            guest: missing.as_ref().map(|_| GUEST.to_owned()),
            missing: missing.map(|error| error.to_string()),
        }
    }

    /// Returns the requested guest, or else the usual guest, for figures that only a guest can show.
    pub(super) fn guest(&self) -> At {
        At { guest: Some(self.guest.clone().unwrap_or_else(|| GUEST.to_owned())), missing: None }
    }

    pub(super) fn stacks(&mut self, plan: &Plan, at: &At) -> Result<Found> {
        let (found, command) = plan.run(at.guest.as_deref(), self.program.as_deref())?;
        self.commands.extend(command);
        Ok(found)
    }

    pub(super) fn bench<T: DeserializeOwned>(
        &mut self,
        verb: &str,
        arguments: &[&str],
        at: &At,
    ) -> Result<T> {
        let mut words = vec!["bench", verb];
        words.extend_from_slice(arguments);
        words.extend(at.guest.iter().flat_map(|guest| ["--in", guest]));
        let command = format!("fonio {}", words.join(" "));
        if !self.benchmarks.contains_key(&command) {
            self.commands.push(command.clone());
            let answer = self.asked(&words.into_iter().map(OsStr::new).collect::<Vec<_>>())?;
            self.benchmarks.insert(command.clone(), answer);
        }
        Ok(serde_json::from_value(self.benchmarks[&command].clone())?)
    }

    /// Returns the number of runs that is needed to show an effect.
    pub(super) fn repeat() -> String {
        RUNS_MIN.to_string()
    }

    /// Returns the study's best device and the requested device, or `all` if no device was requested.
    pub(super) fn devices(&self, best: &str, all: &str) -> String {
        self.on.as_ref().map_or_else(|| all.to_owned(), |one| format!("{best},{one}"))
    }

    /// Returns a figure of the report on each run. `kind` says what was run.
    pub(super) fn each_report(
        &mut self,
        kind: Kind,
        variation: &VariationResult,
        figure: impl Fn(&Analysis) -> Option<f64>,
    ) -> Result<Measured> {
        let mut figures = Vec::new();
        for run in &variation.runs {
            figures.push(figure(&self.report(&run.recording)?.analysis));
        }
        Ok(kind.runs(figures))
    }

    /// Explains how the processor of the runs differs from the processor of the phone. This difference may
    /// change the share of storage in the run time.
    pub(super) fn processor_why(&self) -> &'static str {
        if self.slowed() {
            "the processor is about as fast as the phone's, but the workloads contain only a part of the apps' \
             computation"
        } else {
            "this machine's processor needs only a small part of the phone's processor time, so storage \
             takes almost all of the run"
        }
    }

    /// Returns whether the workloads run on a share of this machine's processor.
    pub(super) fn slowed(&self) -> bool {
        self.processor(false).is_some()
    }

    /// Sets the phone whose processor the workloads get.
    pub(super) fn on_the_phone_of(&mut self, study: &str) {
        self.phone = PHONES.iter().find(|(of, _)| *of == study).map(|(_, processor)| *processor);
    }

    /// Returns the value of `--cpu` for a run. A guest's processor is about as fast as that of a study's phone.
    fn processor(&self, in_guest: bool) -> Option<&str> {
        match self.cpu.as_deref() {
            Some(FULL) => None,
            Some(share) => Some(share),
            None => self.phone.filter(|_| !in_guest),
        }
    }

    /// Returns whether all comparisons are requested, regardless of time.
    pub(super) fn full(&self) -> bool {
        self.full
    }

    /// Adds a chart to the page of the current paper.
    pub(super) fn picture(&mut self, chart: Chart) {
        self.pictures.push(chart);
    }

    /// Returns the charts that were added since the last call.
    pub(super) fn pictures(&mut self) -> Vec<Chart> {
        std::mem::take(&mut self.pictures)
    }

    /// Returns the commands that ran since the last call.
    pub(super) fn commands(&mut self) -> Vec<String> {
        std::mem::take(&mut self.commands)
    }

    /// Runs a workload in the setup of the first study, in which cards had ext3 under Linux 2.6.35, mounted
    /// with `data=writeback`. All devices are as large as the phone's own flash, so their file systems are
    /// similar.
    pub(super) fn in_the_setup(
        &mut self,
        workload: &str,
        devices: &str,
        link: &str,
        more: &[&str],
    ) -> Result<Rc<Series>> {
        let at = self.place_for(&[]);
        self.in_the_setup_at(&at, workload, devices, link, more)
    }

    pub(super) fn in_the_setup_at(
        &mut self,
        at: &At,
        workload: &str,
        devices: &str,
        link: &str,
        more: &[&str],
    ) -> Result<Rc<Series>> {
        let setup = ["--size", "448MiB", "--fs", "ext3", "--mount-options", "data=writeback", "--link", link];
        self.run_at(at, &[&[workload, "--on", devices], &setup[..], more].concat())
    }

    /// Runs a script in a file system on an emulated card, with the program fonio, a folder and the number of rounds as
    /// its arguments. Returns what it printed. `name` is the script's file beside this one.
    pub(super) fn on_a_card(
        &mut self,
        device: &str,
        name: &str,
        script: &str,
        rounds: usize,
    ) -> Result<String> {
        let fonio = self.program(false)?.to_owned();
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(name);
        std::fs::write(&path, script)?;
        let words = ["device", "emulate", device, "--size", "448MiB", "--fs", "ext4", "--mount"];
        let mut command = process::bound_to_this(&fonio);
        command.args(words).args(["--", "sh"]).arg(&path).arg(&fonio).arg(folder.path());
        self.commands.push(format!("fonio {} -- sh {name} fonio FOLDER {rounds}", words.join(" ")));
        let out = command.arg(rounds.to_string()).stderr(Stdio::inherit()).output()?;
        if !out.status.success() {
            bail!("{} failed: {}", process::shown(&command), out.status);
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    pub(super) fn run(&mut self, arguments: &[&str]) -> Result<Rc<Series>> {
        let at = self.place_for(&[]);
        self.run_at(&at, arguments)
    }

    pub(super) fn run_at(&mut self, at: &At, arguments: &[&str]) -> Result<Rc<Series>> {
        let mut arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        if let Some(share) = self.processor(at.guest.is_some()) {
            arguments.extend(["--cpu".to_owned(), share.to_owned()]);
        }
        if let Some(guest) = &at.guest {
            arguments.extend(["--in".to_owned(), guest.clone()]);
        }
        let folder = format!("{}/", process::root().display());
        self.commands.push(format!("fonio run {}", arguments.join(" ")).replace(&folder, "./"));
        if let Some(known) = self.series.get(&arguments) {
            return Ok(Rc::clone(known));
        }
        let out = process::scratch("paper-runs")?.join(format!("{}", self.series.len()));
        let mut words: Vec<&OsStr> = vec!["run".as_ref()];
        words.extend(arguments.iter().map(OsStr::new));
        if out.exists() {
            std::fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
        }
        words.extend(["--output".as_ref(), out.as_os_str()]);
        let series: Series = self.asked(&words)?;
        let invalid = series.variations.iter().flat_map(|variation| &variation.runs).find(|run| !run.valid);
        if let Some(run) = invalid {
            bail!("the measurement in {} is not valid: {}", run.recording.display(), run.verdict);
        }
        let series = Rc::new(series);
        self.series.insert(arguments, Rc::clone(&series));
        Ok(series)
    }

    pub(super) fn report(&mut self, recording: &Path) -> Result<Rc<Report>> {
        if let Some(known) = self.reports.get(recording) {
            return Ok(Rc::clone(known));
        }
        let report: Rc<Report> = Rc::new(self.asked(&["report".as_ref(), recording.as_os_str()])?);
        self.reports.insert(recording.to_owned(), Rc::clone(&report));
        Ok(report)
    }

    fn asked<T: DeserializeOwned>(&mut self, words: &[&OsStr]) -> Result<T> {
        let in_guest = words.contains(&OsStr::new("--in"));
        asked::answer(self.program(in_guest)?, words)
    }

    /// Returns the program fonio, which is built first if the user named none.
    fn program(&mut self, in_guest: bool) -> Result<&Path> {
        if self.program.is_none() {
            tools::ensure(&[tools::DEMO, tools::PAPER, if in_guest { tools::GUEST } else { &[] }])?;
            // Running in a guest does not need root privileges.
            self.program = Some(if in_guest { process::build_fonio()? } else { emulated::fonio()? });
        }
        self.program.as_deref().context("the program was built")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workloads_of_a_study_get_its_phone_unless_the_user_says_otherwise() {
        let of = |study: &str, cpu: Option<&str>, in_guest| {
            let mut runs = Runs { cpu: cpu.map(str::to_owned), ..Runs::default() };
            runs.on_the_phone_of(study);
            runs.processor(in_guest).map(str::to_owned)
        };
        let kim = "Kim et al. 2012";
        assert_eq!(of(kim, None, false).as_deref(), Some("nexus-one"));
        assert_eq!(of(kim, None, true), None);
        assert_eq!(of(kim, Some("full"), false), None);
        assert_eq!(of(kim, Some("0.1"), true).as_deref(), Some("0.1"));
        assert_eq!(of("Courville, Chen", None, false), None);
    }
}
