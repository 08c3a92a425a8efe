//! `cargo studies guests`: tests whether measurements in guests are repeatable and agree with the model.
//!
//! The part *repeatable* runs the same jobs on an idle machine and while two other processes run busy loops.
//! *Mixed* starts a reader and two writers with sixteen different think times. *Model* compares fio's figures
//! of emulated cards in a guest with the figures of the model. *Equal* compares equal devices, which should
//! not differ.

use std::path::Path;
use std::process::{Child, Command};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_core::statistics::sample::mean;
use fonio_sim::fit::Target;
use fonio_sim::measure::Gives;
use serde_json::Value;
use xtask::results::{Cell, StudyResult};

use crate::emulated::in_guest;
use crate::emulator::{self, Measured};
use crate::schedulers::points;
use crate::{process, tools};

const RUNS: usize = 5;
/// The promised limit for relative differences of run times by the guest's clock.
const REPEATABLE_WITHIN: f64 = 0.01;
/// The promised limit for relative differences between fio's figures and the model's figures.
const MODEL_WITHIN: f64 = 0.05;
/// The promised limit for the time until a guest runs its command, in seconds of this machine's clock.
const BOOT_S: f64 = 20.0;
const STARTS: u32 = 16;
/// The device for the jobs. Its profile has the write times that vary most.
const CARD: &str = "ridata";
const KERNEL: &str = "lab:6.12";

const FIO_JOB: &str = "fio --name=job --output-format=json --ioengine=psync --direct=1 --filename=$FONIO_DEVICE \
    --rw=randwrite --bs=4k --size=64m --number_ios=300 --randseed=1";

/// Number of plans that compare equal devices, and how many of these plans may claim a difference. A plan
/// claims a difference with a probability of at most 5 %; more than 3 of 20 plans do so with a probability of
/// at most 1.6 %.
const EQUAL_PLANS: u64 = 20;
const EQUAL_CLAIMS: u32 = 3;
const EQUALS: [&str; 4] = ["a", "b", "c", "d"];

const PARTS: [&str; 4] = ["repeatable", "mixed", "model", "equal"];

#[derive(Args)]
pub struct Arguments {
    /// Measure these parts (default: all).
    #[arg(value_name = "PART", value_parser = PARTS)]
    parts: Vec<String>,
}

/// Measures the named parts of the study. Fails if a result exceeds a promised limit.
pub fn run(Arguments { parts }: &Arguments) -> Result<()> {
    tools::ensure(&[tools::BUILD, tools::GUEST])?;
    let fonio = process::build_fonio()?;
    process::outlive_signals()?;
    process::run(Command::new(&fonio).args(["lab", "fetch"]))?;
    let mut broken = 0;
    for part in PARTS.into_iter().filter(|part| parts.is_empty() || parts.iter().any(|wanted| wanted == part))
    {
        broken += match part {
            "repeatable" => repeatable(&fonio)?,
            "mixed" => mixed(&fonio)?,
            "model" => model(&fonio)?,
            _ => equal(&fonio)?,
        };
    }
    ensure!(broken == 0, "{broken} results exceed a promised limit (marked *)");
    Ok(())
}

/// Busy loops that run during a guest's job. The loops end when this value is dropped.
struct BusyLoops(Vec<Child>);

impl BusyLoops {
    fn start() -> Result<BusyLoops> {
        let spin = || {
            let mut shell = process::bound_to_this(Path::new("sh"));
            shell.args(["-c", "while :; do :; done"]).spawn().context("cannot start a busy loop")
        };
        Ok(BusyLoops(vec![spin()?, spin()?]))
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs jobs on an idle machine and next to busy loops. Returns the number of exceeded limits.
fn repeatable(fonio: &Path) -> Result<u32> {
    println!(
        "The same jobs, {RUNS} times without and {RUNS} times with two busy loops, by the guest's clock:\n"
    );
    let title = "the same jobs in guests, repeated on an idle machine and next to busy loops";
    let columns = ["", "median (least to most)", ""];
    let mut result =
        StudyResult::begin("guests-repeatable", title, "cargo studies guests repeatable", &columns)?;
    result.rounds = Some(2 * RUNS as u64);
    let mut boots = [Vec::new(), Vec::new()];
    let (mut jobs, mut workloads) = (Vec::new(), Vec::new());
    for (at, boots) in boots.iter_mut().enumerate() {
        let _busy = (at == 1).then(BusyLoops::start).transpose()?;
        for _ in 0..RUNS {
            process::check_signals()?;
            let (text, boot) = emulated(fonio, CARD, 0, FIO_JOB)?;
            let (_, fio) = parts_of(&text)?;
            jobs.push(
                fio[0]["jobs"][0]["write"]["lat_ns"]["mean"].as_f64().context("fio gave no latency")? / 1e3,
            );
            boots.push(boot);
            workloads.push(workload(fonio)?);
        }
    }
    let mut broken = 0;
    for (name, unit, values) in
        [("fio, 4 KiB random writes", "µs", jobs), ("webbench, a tenth of it", "s", workloads)]
    {
        let is_broken = spread(&values).share > REPEATABLE_WITHIN;
        broken += u32::from(is_broken);
        result.row(name, vec![Cell::rounds(values, unit, 3).with_range(), mark(is_broken).into()]);
    }
    for (name, boots) in ["a boot, idle machine", "a boot, next to busy loops"].into_iter().zip(boots) {
        let [_, median, _] = spread(&boots).points;
        let is_broken = name.contains("idle") && median > BOOT_S;
        broken += u32::from(is_broken);
        result.row(name, vec![Cell::rounds(boots, "s", 1).with_range(), mark(is_broken).into()]);
    }
    result.keep(true)?;
    println!(
        "\nPromised: run times within {:.0} %, a boot in {BOOT_S:.0} s on an idle machine.\n",
        REPEATABLE_WITHIN * 100.0
    );
    Ok(broken)
}

/// Measures a reader and two concurrent writers at queue depth 1, sixteen times with different think times.
fn mixed(fonio: &Path) -> Result<u32> {
    println!(
        "A reader during two writers on {CARD}, {STARTS} starts with different random think times (mean \
         response, ms):\n"
    );
    let title = "mean response of a reader and two writers in a guest, over starts";
    let columns = ["scheduler", "reader (least to most)", "writers (least to most)"];
    let mut result = StudyResult::begin("guests-mixed", title, "cargo studies guests mixed", &columns)?;
    result.rounds = Some(STARTS.into());
    for scheduler in ["none", "mq-deadline", "kyber", "bfq"] {
        process::check_signals()?;
        let script = format!(
            "echo {scheduler} >/sys/block/$(basename $FONIO_DEVICE)/queue/scheduler; seed=0; \
             while test $seed -lt {STARTS}; do seed=$((seed + 1)); \
             fio --output-format=json --randseed=$seed --filename=$FONIO_DEVICE --ioengine=psync --direct=1 --bs=4k \
             --size=64m --runtime=3 --time_based --rate_process=poisson \
             --name=reader --rw=randread --rate_iops=100 \
             --name=writer --rw=write --offset=64m --rate_iops=20 --numjobs=2; done"
        );
        let (text, _) = emulated(fonio, CARD, 256 << 20, &script)?;
        let (_, fio) = parts_of(&text)?;
        ensure!(fio.len() == STARTS as usize, "only {} of {STARTS} starts gave a result", fio.len());
        let cell = |(job, side): (&str, &str)| {
            let of_start = |start: &Value| {
                let jobs = start["jobs"].as_array().map_or(&[][..], Vec::as_slice);
                let means = jobs.iter().filter(|one| one["jobname"] == job);
                let means: Vec<f64> = means.filter_map(|one| one[side]["clat_ns"]["mean"].as_f64()).collect();
                mean(&means).unwrap_or(f64::NAN) / 1e6
            };
            Cell::rounds(fio.iter().map(of_start), "ms", 1).with_range()
        };
        result.row(scheduler, [("reader", "read"), ("writer", "write")].map(cell).into());
    }
    result.keep(true)?;
    println!("\nThe load causes this spread, not the guest: a comparison of schedulers must cover it.\n");
    Ok(0)
}

/// Runs the published experiments of each card in a guest. Returns the number of exceeded limits.
fn model(fonio: &Path) -> Result<u32> {
    println!("fio in a guest and the model, for the same requests:\n");
    let columns = ["", "model", "fio", "fio over model", "requests", "server, µs a request", ""];
    let title = "fio on emulated devices in a guest, compared with the model";
    let mut result = StudyResult::begin("guests-model", title, "cargo studies guests model", &columns)?;
    let mut broken = 0;
    for name in emulator::names() {
        for Target { to: what, protocol, .. } in emulator::experiments(name) {
            process::check_signals()?;
            let words = emulator::fio_arguments(&protocol).join(" ");
            let script = format!("fio --filename=$FONIO_DEVICE {words}");
            let (text, _) = emulated(fonio, name, protocol.prepare.0, &script)?;
            let (report, fio) = parts_of(&text)?;
            let busy_ns = report["busy_ns"].as_u64().context("the report has no busy time")?;
            let cpu_ns = report["cpu_ns"].as_f64().context("the report has no processor time")?;
            let Measured { figure, model, requests } =
                emulator::figures(&protocol, &fio[0], busy_ns).with_context(|| what.clone())?;
            let is_broken = (figure / model - 1.0).abs() > MODEL_WITHIN;
            broken += u32::from(is_broken);
            let unit = if protocol.gives == Gives::Response { "µs" } else { "MB/s" };
            let cells = vec![
                Cell::once(model, unit, 3),
                Cell::once(figure, unit, 3),
                Cell::once(figure / model, "", 3),
                Cell::count(requests),
                Cell::once(cpu_ns / 1e3 / requests as f64, "", 1),
                mark(is_broken).into(),
            ];
            result.row(what, cells);
        }
    }
    result.keep(true)?;
    println!(
        "\nPromised: within {:.0} %. The guest's processor also serves the device, which takes time for \
         each request.\n",
        MODEL_WITHIN * 100.0
    );
    Ok(broken)
}

/// Compares copies of the same device many times. Returns the number of exceeded limits.
fn equal(fonio: &Path) -> Result<u32> {
    println!(
        "webbench at a scale of 1/20 on {} equal devices, {EQUAL_PLANS} plans of three rounds:\n",
        EQUALS.len()
    );
    let columns = ["device", "plans", "with a claim", "largest difference"];
    let title = "claims of comparisons of equal devices in guests";
    let mut result = StudyResult::begin("guests-equal", title, "cargo studies guests equal", &columns)?;
    result.seed = Some(1);
    let mut claims = 0;
    for (at, card) in [CARD, "transcend"].into_iter().enumerate() {
        let plans = (0..EQUAL_PLANS).filter(|plan| *plan as usize % 2 == at);
        let (mut of_card, mut count, mut largest) = (0_u32, 0_u32, 0.0_f64);
        for plan in plans {
            process::check_signals()?;
            // Each of a plan's rounds increments the seed.
            let answers = plan_of_equals(fonio, card, 1 + plan * 100)?;
            count += 1;
            of_card += u32::from(answers.iter().any(|(claimed, _)| *claimed));
            largest = answers.iter().map(|(_, ratio)| ratio.ln().abs()).fold(largest, f64::max);
        }
        let largest = Cell::once((largest.exp() - 1.0) * 100.0, "%", 2);
        result.row(card, vec![Cell::count(count), Cell::count(of_card), largest]);
        claims += of_card;
    }
    result.keep(true)?;
    let is_broken = claims > EQUAL_CLAIMS;
    println!(
        "\nPromised: at most {EQUAL_CLAIMS} of {EQUAL_PLANS} plans claim a difference.{}\n",
        mark(is_broken)
    );
    Ok(u32::from(is_broken))
}

/// Compares copies of a device. Returns, for each copy except the first, whether fonio claimed a difference,
/// and the ratio of run times.
fn plan_of_equals(fonio: &Path, card: &str, seed: u64) -> Result<Vec<(bool, f64)>> {
    let folder = tempfile::tempdir_in(process::scratch("lab")?)?;
    let shown = Command::new(fonio).args(["device", "show", card, "--toml"]).output()?;
    ensure!(shown.status.success(), "fonio cannot show {card}");
    let files = EQUALS.map(|name| format!("{name}.toml"));
    for file in &files {
        std::fs::write(folder.path().join(file), &shown.stdout)?;
    }
    let mut command = process::bound_to_this(fonio);
    command.current_dir(folder.path()).args(["run", "webbench", "--in", KERNEL, "--on", &files.join(",")]);
    let (text, _) = in_guest(command.args(["--scale", "0.05", "--seed", &seed.to_string(), "--json"]))?;
    let said: Value = serde_json::from_str(&text).context("fonio gave no JSON")?;
    let variations = said["variations"].as_array().context("the plan has no setups")?;
    let answer = |variation: &Value| {
        let change = &variation["change"];
        let answer = change["answer"].as_str().context("a comparison has no answer")?;
        Ok((["lower", "higher"].contains(&answer), change["ratio"].as_f64().context("no ratio")?))
    };
    variations.iter().skip(1).map(answer).collect()
}

fn mark(is_broken: bool) -> &'static str {
    if is_broken { "*" } else { "" }
}

/// Runs `script` on an emulated device in a guest. Returns the output of the script, and the time in seconds
/// until the script began.
fn emulated(fonio: &Path, profile: &str, written: u64, script: &str) -> Result<(String, f64)> {
    let mut command = process::bound_to_this(fonio);
    command.args(["device", "emulate", profile, "--json", "--in", KERNEL, &format!("--written={written}B")]);
    in_guest(command.args(["--", "sh", "-c", script]))
}

fn workload(fonio: &Path) -> Result<f64> {
    let folder = tempfile::tempdir_in(process::scratch("lab")?)?;
    let mut command = process::bound_to_this(fonio);
    command.current_dir(folder.path()).args(["run", "webbench", "--on", CARD, "--in", KERNEL]);
    let (text, _) = in_guest(command.args(["--scale", "0.1", "--runs", "1", "--json"]))?;
    let said: Value = serde_json::from_str(&text).context("fonio gave no JSON")?;
    said["variations"][0]["runs"][0]["wall_s"].as_f64().context("the run has no run time")
}

/// Extracts the device's report and fio's output from the output of `fonio device emulate --json`.
fn parts_of(text: &str) -> Result<(Value, Vec<Value>)> {
    let (own, fio): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.starts_with("{\"ready\"") || line.starts_with("{\"end\""));
    let end = own.last().context("the device printed no final report")?;
    let end: Value = serde_json::from_str(end)?;
    let fio = fio.join("\n");
    let fio = serde_json::Deserializer::from_str(&fio).into_iter().collect::<Result<Vec<Value>, _>>();
    Ok((end["end"]["report"].clone(), fio.context("fio gave no JSON")?))
}

/// The minimum, median and maximum of some values, and the range divided by the median.
struct Spread {
    points: [f64; 3],
    share: f64,
}

fn spread(values: &[f64]) -> Spread {
    let points @ [least, median, most] = points(values).expect("there are values");
    Spread { points, share: (most - least) / median }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fio_between_the_devices_lines() {
        let text = "{\"ready\":{}}\n{\n  \"jobs\": []\n}\n{\n  \"jobs\": [1]\n}\n{\"end\":{\"report\":{\"busy_ns\":7}}}\n";
        let (report, fio) = parts_of(text).expect("parts");
        assert_eq!((report["busy_ns"].as_u64(), fio.len()), (Some(7), 2));
        assert!(parts_of("").is_err());
    }

    #[test]
    fn spreads() {
        let spread = spread(&[3.0, 1.0, 2.0, 2.0]);
        assert_eq!((spread.points, spread.share), ([1.0, 2.0, 3.0], 1.0));
    }
}
