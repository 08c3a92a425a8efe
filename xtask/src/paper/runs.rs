//! Running workloads with `fonio run`, as a user would, and reading what it says.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::measured::Measured;
use super::row::RUNS_MIN;
use crate::{emulated, process, tools};

/// Runs workloads; what was run once in the same way is not run again.
#[derive(Default)]
pub(super) struct Runs {
    full: bool,
    /// The share of a processor that the workloads get, as a phone's would be.
    cpu: Option<String>,
    /// The one device that is wanted beside the best, where not all are.
    on: Option<String>,
    program: Option<PathBuf>,
    series: BTreeMap<Vec<String>, Rc<Series>>,
    reports: BTreeMap<PathBuf, Rc<Report>>,
    /// What was run since [`Runs::commands`] was asked for last.
    commands: Vec<String>,
}

/// What `fonio run --json` prints, as far as it is needed.
#[derive(Deserialize)]
pub(super) struct Series {
    pub(super) variations: Vec<Variation>,
}

/// One setup.
#[derive(Deserialize)]
pub(super) struct Variation {
    pub(super) name: String,
    runs: Vec<Run>,
}

/// One run of it.
#[derive(Clone, Deserialize)]
pub(super) struct Run {
    pub(super) recording: PathBuf,
    pub(super) wall_s: f64,
    pub(super) valid: bool,
    pub(super) verdict: String,
    pub(super) write_bytes: u64,
    pub(super) phases_s: BTreeMap<String, f64>,
    pub(super) spans_s: BTreeMap<String, f64>,
    pub(super) files: BTreeMap<String, Files>,
    pub(super) database_bytes: BTreeMap<String, u64>,
    pub(super) fetched_bytes: u64,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Files {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

/// What `fonio report --json` says about a recording, as far as it is needed.
#[derive(Deserialize)]
pub(super) struct Report {
    pub(super) analysis: Analysis,
}

#[derive(Deserialize)]
pub(super) struct Analysis {
    pub(super) sizes: Sizes,
    pub(super) latency: Latency,
    pub(super) size_latency: SizeLatency,
    pub(super) spatial: Spatial,
    pub(super) span: Span,
    pub(super) totals: Totals,
    pub(super) sequentiality: Sequentiality,
    pub(super) flushes: Flushes,
    pub(super) locality: Locality,
    pub(super) io_share: IoShare,
    pub(super) machine: Machine,
}

#[derive(Deserialize)]
pub(super) struct Sizes {
    pub(super) groups: Vec<SizeGroup>,
}

/// Request sizes of one group of requests.
#[derive(Deserialize)]
pub(super) struct SizeGroup {
    pub(super) group: String,
    pub(super) bytes: SizeQuantiles,
    pub(super) up_to_4k_share: f64,
    pub(super) below_16k_share: f64,
    pub(super) below_64k_share: f64,
}

#[derive(Deserialize)]
pub(super) struct SizeQuantiles {
    pub(super) p50: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct SizeLatency {
    pub(super) rows: Vec<SizeLatencyRow>,
}

/// Latencies of one size class of one group.
#[derive(Deserialize)]
pub(super) struct SizeLatencyRow {
    pub(super) group: String,
    pub(super) service_ns: Service,
}

#[derive(Deserialize)]
pub(super) struct Spatial {
    pub(super) devices: Vec<SpatialMap>,
}

/// Bytes by time and place; `columns` values for each row of places.
#[derive(Deserialize)]
pub(super) struct SpatialMap {
    pub(super) columns: u32,
    pub(super) read_bytes: Vec<u64>,
}

#[derive(Deserialize)]
pub(super) struct Latency {
    pub(super) groups: Vec<LatencyGroup>,
}

/// Latencies of one group of requests.
#[derive(Deserialize)]
pub(super) struct LatencyGroup {
    pub(super) group: String,
    pub(super) service_ns: Option<Service>,
}

/// From issue to completion.
#[derive(Deserialize)]
pub(super) struct Service {
    pub(super) count: u64,
    pub(super) min: f64,
    /// `None` where events were lost.
    pub(super) max: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p80: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Span {
    pub(super) duration_ns: u64,
}

#[derive(Deserialize)]
pub(super) struct Totals {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
}

#[derive(Deserialize)]
pub(super) struct Sequentiality {
    pub(super) read: Split,
    pub(super) write: Split,
    pub(super) cumulative: Cumulative,
}

/// Sequential and random bytes of one op.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Split {
    pub(super) sequential_bytes: u64,
    pub(super) random_bytes: u64,
    pub(super) random_requests: u64,
}

#[derive(Deserialize)]
pub(super) struct Cumulative {
    pub(super) sequential_read_bytes: Vec<u64>,
    pub(super) random_read_bytes: Vec<u64>,
}

#[derive(Deserialize)]
pub(super) struct Flushes {
    pub(super) gaps: Option<Gaps>,
}

#[derive(Deserialize)]
pub(super) struct Gaps {
    pub(super) requests: Quantiles,
    pub(super) bytes: Quantiles,
    pub(super) time_ns: Quantiles,
}

#[derive(Deserialize)]
pub(super) struct Quantiles {
    /// `None` of fewer than ten.
    pub(super) p90: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct Locality {
    pub(super) written: Written,
}

#[derive(Deserialize)]
pub(super) struct Written {
    pub(super) places: u64,
    pub(super) touches: u64,
    pub(super) again_places: u64,
    pub(super) again_share: Option<f64>,
    pub(super) top_10_share: Option<f64>,
    pub(super) most: u64,
    pub(super) covering_99: u64,
}

#[derive(Deserialize)]
pub(super) struct IoShare {
    pub(super) all: Option<Share>,
}

#[derive(Deserialize)]
pub(super) struct Share {
    pub(super) latency_sum_share: f64,
}

#[derive(Deserialize)]
pub(super) struct Machine {
    pub(super) cpu: Option<Cpu>,
}

/// Ticks of 10 ms, of all processors.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Cpu {
    pub(super) active_ticks: u64,
    pub(super) iowait_ticks: u64,
}

impl Cpu {
    /// iowait as a share of the time in which there was something to do; `None` where there was no such time.
    pub(super) fn iowait_share(self) -> Option<f64> {
        let busy = self.active_ticks + self.iowait_ticks;
        (busy > 0).then(|| self.iowait_ticks as f64 / busy as f64)
    }
}

impl Split {
    /// The same bytes counted by pages of 4 KiB: of a request only the first page can be random.
    pub(super) fn random_page_bytes(self) -> u64 {
        const PAGE: u64 = 4096;
        (self.random_requests * PAGE).min(self.random_bytes)
    }

    pub(super) fn bytes(self) -> u64 {
        self.sequential_bytes + self.random_bytes
    }
}

impl Analysis {
    /// The sizes of a group; `None` where it has no requests.
    pub(super) fn sizes_of(&self, group: &str) -> Option<&SizeGroup> {
        self.sizes.groups.iter().find(|row| row.group == group)
    }

    /// The latencies of a group; `None` where it has no requests whose latency is known.
    pub(super) fn service_of(&self, group: &str) -> Option<&Service> {
        self.latency.groups.iter().find(|row| row.group == group)?.service_ns.as_ref()
    }
}

impl Series {
    /// The setup of this name.
    pub(super) fn named(&self, name: &str) -> Result<&Variation> {
        let found = self.variations.iter().find(|variation| variation.name == name);
        found.with_context(|| format!("`fonio run` has not run {name}"))
    }
}

impl Variation {
    /// The first of its runs.
    pub(super) fn first(&self) -> Result<&Run> {
        self.runs.first().with_context(|| format!("{} was not run", self.name))
    }

    /// A figure of each of its runs.
    pub(super) fn each(&self, figure: impl Fn(&Run) -> Option<f64>) -> Measured {
        Measured::runs(self.runs.iter().map(figure))
    }

    /// Seconds of each of its runs.
    pub(super) fn wall_s(&self) -> Measured {
        self.each(|run| Some(run.wall_s))
    }
}

impl Runs {
    pub(super) fn new(full: bool, cpu: Option<String>, on: Option<String>) -> Runs {
        Runs { full, cpu, on, ..Runs::default() }
    }

    /// How often a setup is run where an effect is wanted: fewer runs show none.
    pub(super) fn repeat() -> String {
        RUNS_MIN.to_string()
    }

    /// The best device of the study and the one that is wanted, where one is; else `all`.
    pub(super) fn devices(&self, best: &str, all: &str) -> String {
        self.on.as_ref().map_or_else(|| all.to_owned(), |one| format!("{best},{one}"))
    }

    /// A figure of the report of each of a setup's runs.
    pub(super) fn each_report(
        &mut self,
        variation: &Variation,
        figure: impl Fn(&Analysis) -> Option<f64>,
    ) -> Result<Measured> {
        let mut figures = Vec::new();
        for run in &variation.runs {
            figures.push(figure(&self.report(&run.recording)?.analysis));
        }
        Ok(Measured::runs(figures))
    }

    /// How the processor of the runs differs from the phone's: why storage may be more, or less, of a run.
    pub(super) fn processor_why(&self) -> &'static str {
        if self.slowed() {
            "one share of a processor stands for all apps, of which some had the phone's work more than others"
        } else {
            "this machine's processor takes a small part of the time that the phone's took, so that storage is nearly all of the run"
        }
    }

    /// Whether the workloads run on less than this machine's processor.
    pub(super) fn slowed(&self) -> bool {
        self.cpu.is_some()
    }

    /// Whether everything is wanted, however long it takes.
    pub(super) fn full(&self) -> bool {
        self.full
    }

    /// The command lines since the last time.
    pub(super) fn commands(&mut self) -> Vec<String> {
        std::mem::take(&mut self.commands)
    }

    /// A workload in the setup of the first study: its cards held ext3 under Linux 2.6.35, which mounted it with
    /// `data=writeback`. All devices are as large as the phone's own flash, so that their file systems are alike.
    pub(super) fn in_the_setup(
        &mut self,
        workload: &str,
        devices: &str,
        link: &str,
        more: &[&str],
    ) -> Result<Rc<Series>> {
        let setup = ["--size", "448MiB", "--fs", "ext3", "--mount-options", "data=writeback", "--link", link];
        self.run(&[&[workload, "--on", devices], &setup[..], more].concat())
    }

    /// `fonio run` with these arguments.
    pub(super) fn run(&mut self, arguments: &[&str]) -> Result<Rc<Series>> {
        let mut arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        if let Some(share) = &self.cpu {
            arguments.extend(["--cpu".to_owned(), share.clone()]);
        }
        self.commands.push(format!("fonio run {}", arguments.join(" ")));
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

    /// `fonio report` on a recording.
    pub(super) fn report(&mut self, recording: &Path) -> Result<Rc<Report>> {
        if let Some(known) = self.reports.get(recording) {
            return Ok(Rc::clone(known));
        }
        let report: Rc<Report> = Rc::new(self.asked(&["report".as_ref(), recording.as_os_str()])?);
        self.reports.insert(recording.to_owned(), Rc::clone(&report));
        Ok(report)
    }

    /// What fonio says to these words, and `--json`.
    fn asked<T: DeserializeOwned>(&mut self, words: &[&OsStr]) -> Result<T> {
        let program = match &self.program {
            Some(program) => program,
            None => {
                tools::ensure(&[tools::DEMO, tools::PAPER])?;
                self.program.insert(emulated::fonio()?)
            }
        };
        let mut command = Command::new(program);
        command.args(words).arg("--json").stderr(Stdio::inherit());
        let output = command.output().context("cannot start fonio")?;
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("{} gave no result ({})", process::shown(&command), output.status))
    }
}
