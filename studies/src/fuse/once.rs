//! Measures one write of a file through one stack, and the work of the daemon and the device for it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use fonio_core::{Op, Request, RowSink, SECTOR_BYTES, Sector, Timestamp, ignore_rows};
use fonio_host::Ledger;
use fonio_recording::{Recording, Table, Tables};
use serde::{Deserialize, Serialize};

use super::on_device::{MIB, as_slow_as_the_studys};
use super::{Confined, Daemon, Mounted, Place, Programs, Setup, Used, median};
use crate::{process, tools};

/// The measurements of writing a file once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Once {
    /// Write rate in 10^6 bytes per second, including fsync.
    pub mb_s: f64,
    pub used: Used,
    /// Number of write requests sent to the device.
    pub writes: Option<f64>,
    /// Share of the device's write requests that do not begin at the end of the previous request.
    pub random_share: Option<f64>,
    /// Share of the device's write requests below 64 KiB. The data of the file arrives in larger requests.
    pub small_share: Option<f64>,
    /// Mean number of bytes in a sequential run of requests.
    pub burst_bytes: Option<f64>,
    /// Number of write requests for the journal and metadata; `None` if the kind of data is unknown for some
    /// requests.
    pub own_writes: Option<f64>,
    /// The device's write requests in the order in which they were issued; at most [`PATTERN_MAX`], evenly chosen.
    pub pattern: Vec<Written>,
}

/// A write request to the device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// The time since the first write request, in seconds.
    pub s: f64,
    /// The address on the device, in bytes.
    pub at: u64,
}

/// The largest number of requests in [`Once::pattern`].
const PATTERN_MAX: usize = 800;

/// A file system with a scheduler, and the options of a mount on top of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stack {
    pub setup: Setup,
    /// The mount options; `None` to use the file system without a mount.
    pub options: Option<String>,
}

/// The study's experiment: writes one file in records of 512 KiB to bare devices and through stacks. Each
/// round measures each device and each stack once, on new emulated devices with the seed of the round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub bytes: u64,
    pub rounds: u64,
    /// Whether to slow the daemons' processor down until the rate of `stock` has the same ratio to the rate
    /// of the first device of `raw` as in the study.
    pub slow_daemons: bool,
    /// The devices that are written without a file system.
    pub raw: Vec<Setup>,
    pub stacks: Vec<Stack>,
}

/// The results of a plan, in the order of the plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Write rates of the bare devices in each round, in 10^6 bytes per second.
    pub raw_mb_s: Vec<Vec<f64>>,
    /// The share of a processor that the daemons got.
    pub cpu_share: Option<f64>,
    /// The measurements of each stack in each round.
    pub writes: Vec<Vec<Once>>,
}

/// The number of plans that this process has started.
static PLANS: AtomicU32 = AtomicU32::new(0);

impl Plan {
    /// Runs the plan on this machine, or in a guest with the kernel `guest`. Also returns fonio's command
    /// line if the plan is run by fonio. `program` is fonio; by default, it is built. Returns the error of the first
    /// failed measurement.
    pub fn run(&self, guest: Option<&str>, program: Option<&Path>) -> Result<(Found, Option<String>)> {
        let folder = process::scratch("paper-bfuse")?;
        process::outlive_signals()?;
        let Some(kernel) = guest else {
            Ledger::recover(&Ledger::default_dir())?;
            let fonio = program.map_or_else(crate::emulated::fonio, |program| Ok(program.to_owned()))?;
            return Ok((Experiment::new(folder, fonio).run(self)?, None));
        };
        tools::ensure(&[tools::BUILD, tools::GUEST])?;
        let fonio = program.map_or_else(process::build_fonio, |program| Ok(program.to_owned()))?;
        let number = PLANS.fetch_add(1, Ordering::Relaxed);
        let of = |name: &str| folder.join(format!("{name}-{number}.json"));
        let (plan, found) = (of("plan"), of("found"));
        std::fs::write(&plan, serde_json::to_vec_pretty(self)?)?;
        let own = fonio_lab::stripped(&std::env::current_exe()?, &folder.join("studies"))?;
        let mut command = process::bound_to_this(&fonio);
        let kernel = kernel.trim_start_matches("lab:");
        command.args(["lab", "run", kernel, "--bring"]).arg(&found).arg("--");
        command.arg(&own).arg(STACKS).args([&plan, &found]).stdout(Stdio::null());
        let shown = [
            "fonio lab run",
            kernel,
            "--bring",
            &within(&found),
            "--",
            &within(&own),
            STACKS,
            &within(&plan),
            &within(&found),
        ];
        let shown = shown.join(" ");
        process::run(&mut command)?;
        let text = std::fs::read(&found).with_context(|| format!("cannot read {}", found.display()))?;
        Ok((serde_json::from_slice(&text)?, Some(shown)))
    }
}

fn within(path: &Path) -> String {
    path.strip_prefix(process::root()).unwrap_or(path).display().to_string()
}

/// The name under which this program runs a plan in a guest, or writes a file.
pub const STACKS: &str = "stacks";

/// Runs a plan for [`Plan::run`] (`PLAN RESULT`), or writes a file (`--write FILE BYTES`).
pub fn run_in_guest(arguments: &[String]) -> Result<()> {
    let [plan, found] = match arguments {
        [write, path, bytes] if write == WRITE => return write_file(path, bytes),
        [plan, found] => [plan, found],
        _ => bail!("only `cargo studies paper` runs this command"),
    };
    process::outlive_signals()?;
    let folder = PathBuf::from("/tmp/paper-bfuse");
    std::fs::create_dir_all(&folder)?;
    let plan: Plan = serde_json::from_slice(&std::fs::read(plan)?)?;
    let result = Experiment::new(folder, "/usr/bin/fonio".into()).run(&plan)?;
    Ok(std::fs::write(found, serde_json::to_vec_pretty(&result)?)?)
}

struct Experiment {
    folder: PathBuf,
    programs: Programs,
    confined: Option<Confined>,
}

impl Experiment {
    fn new(folder: PathBuf, fonio: PathBuf) -> Self {
        Self { folder, programs: Programs::only_fonio(fonio), confined: None }
    }

    fn run(mut self, plan: &Plan) -> Result<Found> {
        let mut found = Found {
            raw_mb_s: vec![Vec::new(); plan.raw.len()],
            cpu_share: None,
            writes: vec![Vec::new(); plan.stacks.len()],
        };
        for round in 1..=plan.rounds {
            for (setup, rates) in plan.raw.iter().zip(&mut found.raw_mb_s) {
                let setup = Setup { seed: round, ..setup.clone() };
                rates.push(setup.raw_write(&self.programs.fonio, plan.bytes)? / 1e6);
            }
        }
        if plan.slow_daemons {
            let setup = plan.raw.first().context("slowing the daemons down needs a raw device")?;
            let raw = median(&found.raw_mb_s[0], |rate| *rate) * 1e6;
            let share = as_slow_as_the_studys(&self.folder, &self.programs, setup, (raw, plan.bytes))?;
            self.confined = Some(Confined::new(share)?);
            found.cpu_share = Some(share.value());
        }
        for round in 1..=plan.rounds {
            for (at, stack) in plan.stacks.iter().enumerate() {
                eprintln!(
                    "round {round} of {}: {}, {}, {}",
                    plan.rounds,
                    stack.setup.file_system,
                    stack.setup.scheduler,
                    stack.options.as_deref().unwrap_or("no mount")
                );
                let setup = Setup { seed: round, ..stack.setup.clone() };
                let once = self.write(&setup, stack.options.as_deref(), plan.bytes);
                found.writes[at].push(once.with_context(|| format!("{stack:?} failed"))?);
            }
        }
        Ok(found)
    }

    /// Writes a file to the file system, through a mount if there are `options`.
    fn write(&self, setup: &Setup, options: Option<&str>, bytes: u64) -> Result<Once> {
        process::check_signals()?;
        let place = Place::emulated(&self.folder, &self.programs.fonio, setup)?;
        let daemon = options.map_or(Daemon::None, Daemon::Fonio);
        let mounted =
            Mounted::start(daemon, &self.programs, &place.source, &place.dir, self.confined.as_ref())?;
        let recording = self.folder.join("recording");
        let before = mounted.used();
        let mut record = Command::new(&self.programs.fonio);
        record.arg("record").arg("--path").arg(&place.source).arg("--overwrite").arg("-o").arg(&recording);
        record.arg("--").arg(std::env::current_exe()?).args([STACKS, WRITE]).arg(mounted.dir.join("file"));
        let output = record.arg(bytes.to_string()).stdout(Stdio::null()).output();
        let output = output.context("cannot start fonio record")?;
        ensure!(output.status.success(), "fonio record: {}", String::from_utf8_lossy(&output.stderr));
        let used = mounted.used().since(before);
        drop(mounted);
        let figures = self.figures(&recording)?;
        let figure = |name: &str| figures.get(name).copied();
        let said = String::from_utf8_lossy(&output.stderr);
        let seconds = said.lines().find_map(written_in).context("the writer printed no time")?;
        let writes = figure("latency.writes.service.count");
        let random_share = figure("sequentiality.write.random_requests_share");
        Ok(Once {
            mb_s: bytes as f64 / seconds / 1e6,
            used,
            writes,
            random_share,
            small_share: figure("sizes.writes.below_64k_share"),
            burst_bytes: writes
                .zip(random_share)
                .map(|(writes, share)| bytes as f64 / (writes * share).max(1.0)),
            own_writes: figure("files.journal_writes")
                .zip(figure("files.metadata_writes"))
                .map(|(journal, metadata)| journal + metadata)
                .filter(|_| figure("files.unknown_writes") == Some(0.0)),
            pattern: Pattern::of(&recording)?,
        })
    }

    fn figures(&self, recording: &Path) -> Result<std::collections::BTreeMap<String, f64>> {
        let said = crate::asked::report(&self.programs.fonio, recording)?;
        let figures = said["figures"].as_array().context("the report has no figures")?;
        let pairs = figures
            .iter()
            .filter_map(|figure| Some((figure["name"].as_str()?.to_owned(), figure["value"].as_f64()?)));
        Ok(pairs.collect())
    }
}

/// Collects the write requests of a recording.
#[derive(Default)]
struct Pattern(Vec<(Timestamp, Sector)>);

impl Pattern {
    fn of(recording: &Path) -> Result<Vec<Written>> {
        let mut pattern = Pattern::default();
        Recording::open(recording)?.replay(&mut pattern, Tables::NONE.with(Table::Requests))?;
        Ok(pattern.chosen())
    }

    /// Returns the requests in the order of issue, or an even choice of them.
    fn chosen(self) -> Vec<Written> {
        let Pattern(mut all) = self;
        all.sort_unstable();
        let Some(&(first, _)) = all.first() else { return Vec::new() };
        let every = all.len().div_ceil(PATTERN_MAX);
        let written = |&(issued, sector): &(Timestamp, Sector)| Written {
            s: (issued - first).as_secs_f64(),
            at: sector.0 * SECTOR_BYTES,
        };
        all.iter().step_by(every).map(written).collect()
    }
}

impl RowSink for Pattern {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        let written = row.issued.zip(row.sector).filter(|_| row.op == Op::Write);
        self.0.extend(written);
        Ok(())
    }

    ignore_rows! {
        began, bio, link, thread, call, statement, wait, blocked_count, file, mark, sample, diagnostic, settled
    }
}

/// The argument with which this program writes a file under `fonio record`.
const WRITE: &str = "--write";
const RECORD_BYTES: usize = 512 << 10;

/// Writes a file of `bytes` bytes in records of 512 KiB, syncs it, and prints the time in seconds.
fn write_file(path: &str, bytes: &str) -> Result<()> {
    let bytes: u64 = bytes.parse().context("the size is not a number")?;
    let data = vec![0; RECORD_BYTES];
    let started = Instant::now();
    let mut file = File::create(path).with_context(|| format!("cannot write {path}"))?;
    for _ in 0..bytes / RECORD_BYTES as u64 {
        file.write_all(&data)?;
    }
    file.sync_all()?;
    eprintln!("written in {} s", started.elapsed().as_secs_f64());
    Ok(())
}

fn written_in(line: &str) -> Option<f64> {
    line.strip_prefix("written in ")?.strip_suffix(" s")?.parse().ok()
}

/// Size of the written file. It is large enough for a stable rate at 39 MB/s, and small enough to measure a
/// dozen stacks in minutes.
pub const BYTES: u64 = 128 * MIB;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_the_writes_in_order_of_issue() {
        let at = |issued: u64, sector| (Timestamp(issued), Sector(sector));
        let pattern = Pattern(vec![at(3_000_000_000, 16), at(1_000_000_000, 8)]);
        let written = |s, at| Written { s, at };
        assert_eq!(pattern.chosen(), [written(0.0, 4096), written(2.0, 8192)]);

        let many = Pattern((0..2000).map(|at| (Timestamp(at), Sector(8))).collect());
        assert_eq!(many.chosen().len(), 667);
        assert_eq!(Pattern::default().chosen(), []);
    }

    #[test]
    fn the_writer_is_understood() {
        assert_eq!(written_in("written in 3.25 s"), Some(3.25));
        assert_eq!(written_in("note: nothing was lost"), None);
    }
}
