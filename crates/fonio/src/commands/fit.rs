//! Implements `fonio device fit`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use fonio_bench::fit::{self, Fitted, Prediction};
use fonio_bench::plan::Set;
use fonio_bench::result::{Benchmark, SCHEMA};
use fonio_bench::verdict::rate;
use fonio_sim::profile::Profile;
use fonio_system::{regular, say};
use serde_json::json;

use crate::cli::Fit;
use crate::commands::{bench, lab};
use crate::exit::Exit;
use crate::output;
use crate::profiles;
use crate::progress::{Done, Progress};
use crate::signals;

/// If a fitted profile misses one of the tests of the fit by more than this percentage, the profile does not
/// describe the device. Blind fits of four cards predicted even the held-back tests to within 12 %
/// (docs/devices.md).
const GOOD_PERCENT: f64 = 20.0;

/// Maximum number of bytes of a profile or a measurement. A measurement has some 100 KiB.
const FILE_BYTES_MAX: u64 = 16 << 20;

const SETS: [Set; 4] = [Set::Four, Set::Response, Set::AddressRange, Set::Fit];

/// Fits a profile to a device or to the benchmark of a device, or compares a profile with a benchmark.
pub fn run(arguments: &Fit) -> Result<Exit> {
    if let Some(kernel) = &arguments.bench.emulated.guest {
        ensure!(arguments.profile.is_none(), "with --profile, nothing is measured; leave out --in");
        let made = [Some(arguments.to.clone()), arguments.save_measurement.clone()];
        let made: Vec<PathBuf> = made.into_iter().flatten().collect();
        return lab::run_bench(kernel, &arguments.bench.target, &made);
    }
    let mut screen = output::screen();
    let against = arguments.against.as_deref().map(read).transpose()?;
    if let Some(path) = &arguments.profile {
        let text = regular::read_text(path, FILE_BYTES_MAX)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let profile = Profile::parse(&path.to_string_lossy(), &text)?;
        let seen = read(&arguments.bench.target)?;
        let predictions = fit::predict(&profile, &seen)?;
        show_predictions(&predictions, arguments.bench.json, &mut screen)?;
        return Ok(Exit::Fine);
    }
    let is_file = fs::metadata(&arguments.bench.target).is_ok_and(|metadata| metadata.is_file());
    let is_measured_here = !is_file;
    let benchmark = if is_file {
        read(&arguments.bench.target)?
    } else {
        match bench::measure(&arguments.bench, &SETS, arguments.save_measurement.as_deref())? {
            Some(benchmark) => benchmark,
            None => return Ok(Exit::Fine),
        }
    };
    let out = &arguments.to;
    let name = out.file_stem().map_or_else(|| "fitted".into(), |stem| stem.to_string_lossy().into_owned());
    let progress = Progress::phase("Fitting");
    let fitted = fit::fit(&benchmark, &name, arguments.resamples, |what| {
        // The signal handlers stay installed after the measurement. The fit itself has nothing to clean up.
        if let Some(code) = signals::exit_code() {
            std::process::exit(code.into());
        }
        progress.set(format!("Fitting: {what}"), Done::Unknown);
    });
    drop(progress);
    let fitted = fitted?;
    fs::write(out, fitted.profile.to_toml()).with_context(|| format!("cannot write {}", out.display()))?;
    if is_measured_here && fits(&fitted) {
        keep(&benchmark, &fitted.profile);
    }
    let predictions = against.map(|against| fit::predict(&fitted.profile, &against)).transpose()?;
    show(&fitted, predictions.as_deref(), arguments, &mut screen)?;
    // A profile that misses its own tests answers nothing.
    Ok(if fits(&fitted) { Exit::Fine } else { Exit::NotValid })
}

/// Keeps the profile as the model of this kind of disk. An emulated device has one already.
fn keep(benchmark: &Benchmark, profile: &Profile) {
    let Some(model) = benchmark.place.as_ref().and_then(|place| place.model.as_deref()) else { return };
    if !rustix::process::geteuid().is_root()
        || profiles::of_model(model).is_some_and(|found| found.is_relative())
    {
        return;
    }
    match profiles::keep(model, profile) {
        Ok(path) => say!("Kept as the model of {model}, for `fonio cure`: {}", path.display()),
        Err(error) => say!("note: not kept as the model of {model} for `fonio cure`: {error:#}"),
    }
}

fn fits(fitted: &Fitted) -> bool {
    !fitted.used.iter().any(is_missed)
}

/// Returns whether a profile misses a test by too much.
fn is_missed(one: &Prediction) -> bool {
    100.0 * one.error().abs() > GOOD_PERCENT
}

fn read(path: &Path) -> Result<Benchmark> {
    let text =
        regular::read(path, FILE_BYTES_MAX).with_context(|| format!("cannot read {}", path.display()))?;
    let benchmark: Benchmark = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not a measurement of `fonio bench device -o`", path.display()))?;
    if benchmark.schema != SCHEMA {
        bail!("{} has schema {}; this fonio reads {SCHEMA}", path.display(), benchmark.schema);
    }
    Ok(benchmark)
}

fn show(
    fitted: &Fitted,
    predictions: Option<&[Prediction]>,
    arguments: &Fit,
    out: &mut impl Write,
) -> Result<()> {
    if arguments.bench.json {
        let value = json!({
            "shape": fitted.shape.to_string(),
            "structures": fitted.structures,
            "intervals": fitted.intervals,
            "fits": fits(fitted),
            "used": fitted.used,
            "held_back": predictions,
            "notes": fitted.notes,
            "profile": arguments.to,
        });
        return output::json(&value).map(drop);
    }
    let worst = worst(&fitted.used);
    if fits(fitted) {
        writeln!(
            out,
            "The profile reproduces all {} tests that it was fitted to within {worst:.0} %.\n",
            fitted.used.len()
        )?;
    } else {
        writeln!(
            out,
            "The profile does not describe this device: of the {} tests that it was fitted to, the worst is off by \
             {worst:.0} %. Measure again on an idle machine; if the result stays, no model in fonio fits.\n\n\
             Tests that the profile misses by more than {GOOD_PERCENT:.0} %:\n",
            fitted.used.len()
        )?;
        show_rows(fitted.used.iter().filter(|one| is_missed(one)), out)?;
        writeln!(out)?;
    }
    writeln!(
        out,
        "Random writes over growing ranges: {} ({} structures tried).",
        fitted.shape, fitted.structures
    )?;
    for interval in &fitted.intervals {
        writeln!(
            out,
            "  {:<26} {:>12}   90 %: {} to {}",
            interval.key, interval.value, interval.low, interval.high
        )?;
    }
    for note in &fitted.notes {
        writeln!(out, "note: {note}")?;
    }
    if let Some(predictions) = predictions {
        writeln!(out)?;
        show_predictions(predictions, false, out)?;
    }
    let to = arguments.to.display();
    writeln!(out, "\nWrote the profile: {to}")?;
    if predictions.is_none() {
        writeln!(
            out,
            "Next: test the profile on measurements that it was not fitted to: \
             `fonio bench device … --set held-back -o held.json`, then `fonio device fit held.json --profile {to}`."
        )?;
    }
    Ok(())
}

fn show_predictions(predictions: &[Prediction], as_json: bool, out: &mut impl Write) -> Result<()> {
    if as_json {
        return output::json(&predictions).map(drop);
    }
    writeln!(
        out,
        "The profile predicts tests that were not used in the fit to within {:.0} %.\n",
        worst(predictions)
    )?;
    show_rows(predictions, out)
}

fn show_rows<'a>(rows: impl IntoIterator<Item = &'a Prediction>, out: &mut impl Write) -> Result<()> {
    writeln!(out, "{:<32} {:>12} {:>12} {:>8}", "test", "measured", "predicted", "off by")?;
    for one in rows {
        writeln!(
            out,
            "{:<32} {:>12} {:>12} {:>+7.1} %",
            one.test,
            rate(one.measured_mb_s),
            rate(one.predicted_mb_s),
            100.0 * one.error()
        )?;
    }
    Ok(())
}

fn worst(predictions: &[Prediction]) -> f64 {
    predictions.iter().map(|one| 100.0 * one.error().abs()).fold(0.0, f64::max)
}
