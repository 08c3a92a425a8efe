//! Measures the throughput lost in each layer between a file and a device (Jeong and Won 2014, section 2.3).
//! The same sequential I/O, in records of 512 KiB, goes to the bare device, through the file system, and
//! through FUSE on top of the file system.
//!
//! Each layer is an arm of a [`Design`], compared with the layer below it; each FUSE mode is compared with
//! the file system. Throughput is measured without a recording, so the measurement needs root only if the
//! layer needs root.

mod mounts;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use fonio_analysis::{Answer, Change};
use fonio_bench::place::Place;
use fonio_bench::target::{Target, room_bytes};
use fonio_bench::{BenchError, throughput};
use fonio_core::statistics::sample::median;
use serde::{Deserialize, Serialize};

use self::mounts::Mounts;
use crate::error::ExperimentError;
use crate::rounds::{Arm, Design, Measurement, PILOT_ROUNDS, Rounds, Timed, compare};
use crate::test_bed::Roles;

/// The layers to measure, and the number of repetitions.
#[derive(Clone, Debug)]
pub struct LayersOptions<'a> {
    /// A directory on the device to measure. The test files are created in this directory and removed again.
    pub dir: &'a Path,
    /// Number of bytes that each measurement writes and reads.
    pub bytes: u64,
    /// Number of rounds; each round measures every layer once.
    pub rounds: u32,
    /// A raw device to overwrite, and the user's confirmation. If `None`, the device of `dir` is only read.
    pub erase: Option<(&'a Path, &'a Path)>,
    /// The mount options of each FUSE layer to measure.
    pub modes: &'a [&'a str],
    /// The command lines with which this program starts its own processes.
    pub roles: &'a Roles,
    /// Set by a signal handler so that no further measurement starts.
    pub stop: &'a AtomicBool,
}

/// The results of all layers, from the device upwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layers {
    /// A sentence that names the layer where most throughput is lost.
    pub verdict: String,
    /// The measured directory.
    pub place: Place,
    /// Number of bytes that each measurement writes and reads.
    pub bytes: u64,
    /// Number of times that each layer was measured.
    pub rounds: u32,
    /// The result of each layer.
    pub layers: Vec<LayerResult>,
}

/// The throughput through one layer. Rates are in 10^6 bytes per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerResult {
    /// The name of the layer: `device, scheduler none`, `ext4`, `FUSE, mode=auto`, …
    pub name: String,
    /// The layer with which this layer is compared.
    pub compared_with: Option<String>,
    /// Median over all rounds of the rate of writing and syncing.
    pub write_mb_s: Option<f64>,
    /// Median over all rounds of the rate of reading from the device, not from the page cache.
    pub read_mb_s: Option<f64>,
    /// Rate of writing and syncing in each round; empty if some round did not measure it.
    pub write_rounds_mb_s: Vec<f64>,
    /// Rate of reading in each round; empty if some round did not measure it.
    pub read_rounds_mb_s: Vec<f64>,
    /// The write rate divided by the write rate of the layer `compared_with`, paired by rounds.
    pub write_change: Option<Change>,
    /// The read rate divided by the read rate of the layer `compared_with`, paired by rounds.
    pub read_change: Option<Change>,
    /// A note on what could not be measured in this layer, and why.
    pub note: Option<String>,
}

/// A layer of the I/O path.
#[derive(Clone, Debug)]
pub enum Layer {
    /// The raw device under the file system.
    Device {
        /// The path of the device node.
        path: PathBuf,
        /// The device's name, if its scheduler is set to `none` for the measurement.
        without_scheduler: Option<String>,
        /// Whether the measurement may overwrite the device.
        writes: bool,
    },
    /// The file system, without FUSE.
    Filesystem,
    /// The directory on the file system, mounted through FUSE with these options.
    Fuse(String),
    /// A layer that cannot be measured, with the reason.
    Absent(String),
}

/// The rates that one measurement of a layer found.
#[derive(Clone, Debug, Default)]
struct LayerRun {
    write_mb_s: Option<f64>,
    read_mb_s: Option<f64>,
    note: Option<String>,
}

impl LayerRun {
    fn not_measured(reason: String) -> LayerRun {
        LayerRun { note: Some(reason), ..LayerRun::default() }
    }
}

impl Timed for LayerRun {
    /// Returns the time to transfer 1 MB in each measured direction.
    fn wall_s(&self) -> f64 {
        [self.write_mb_s, self.read_mb_s].iter().flatten().map(|rate| 1.0 / rate).sum()
    }
}

/// Measures the throughput of every layer in rounds. Calls `begins` before each measurement. Fails with
/// [`BenchError::NoRoom`], [`ExperimentError::Interrupted`], or an error if the directory or the device to
/// erase cannot be used. A layer that cannot be measured is not an error; a note gives the reason.
pub fn measure_layers(
    options: &LayersOptions<'_>,
    begins: &mut dyn FnMut(&Measurement<'_, Layer>),
) -> Result<Layers, ExperimentError> {
    let dir = std::fs::canonicalize(options.dir).map_err(ExperimentError::system("find", options.dir))?;
    let place = Place::of(&dir);
    let room = room_bytes(&dir)?;
    if room < options.bytes {
        return Err(BenchError::NoRoom { path: dir, free: room, needed: options.bytes }.into());
    }
    // Keep the device open until the end, so that no other process uses it during the measurement.
    let target = match options.erase {
        Some((device, confirmed)) => Some(Target::open(device, Some(confirmed))?),
        None => None,
    };
    let arms = arms(&place, target.as_ref(), options);
    let mut mounts = Mounts::make(&dir)?;
    let design = Design { arms: &arms, rounds: Rounds::Fixed(options.rounds), seed: 0, stop: options.stop };
    let runs = design.run(begins, &mut |measurement| measure(measurement.setup, &mut mounts, options))?;
    mounts.close()?;
    let layers = results(&arms, &runs);
    Ok(Layers {
        verdict: verdict(&layers, options.rounds),
        place,
        bytes: options.bytes,
        rounds: options.rounds,
        layers,
    })
}

fn arms(place: &Place, target: Option<&Target>, options: &LayersOptions<'_>) -> Vec<Arm<Layer>> {
    let mut arms: Vec<Arm<Layer>> = Vec::new();
    let below = |arms: &[Arm<Layer>]| arms.len().checked_sub(1);
    let device = target.map_or(&place.device, |target| &target.place().device);
    match (device, options.erase) {
        (None, None) => {
            let reason = "the block device of this directory is unknown".to_owned();
            arms.push(Arm { name: "device".to_owned(), compared_with: None, setup: Layer::Absent(reason) });
        }
        (device, erase) => {
            let node = device.as_ref().map(|name| Path::new("/dev").join(name));
            let path = erase.map_or_else(|| node.unwrap_or_default(), |(device, _)| device.to_owned());
            let writes = target.is_some();
            let scheduler = target.map_or(place, Target::place).scheduler.as_deref().unwrap_or("unknown");
            if scheduler != "none"
                && let Some(name) = device
            {
                arms.push(Arm {
                    name: "device, scheduler none".to_owned(),
                    compared_with: None,
                    setup: Layer::Device {
                        path: path.clone(),
                        without_scheduler: Some(name.clone()),
                        writes,
                    },
                });
            }
            arms.push(Arm {
                name: format!("device, scheduler {scheduler}"),
                compared_with: below(&arms),
                setup: Layer::Device { path, without_scheduler: None, writes },
            });
        }
    }
    let name = place.file_system.clone().unwrap_or_else(|| "file system".to_owned());
    arms.push(Arm { name, compared_with: below(&arms), setup: Layer::Filesystem });
    let filesystem = arms.len() - 1;
    arms.extend(options.modes.iter().map(|mode| Arm {
        name: format!("FUSE, {mode}"),
        compared_with: Some(filesystem),
        setup: Layer::Fuse((*mode).to_owned()),
    }));
    arms
}

fn measure(
    layer: &Layer,
    mounts: &mut Mounts,
    options: &LayersOptions<'_>,
) -> Result<LayerRun, ExperimentError> {
    let LayersOptions { bytes, roles, .. } = *options;
    match layer {
        Layer::Absent(reason) => Ok(LayerRun::not_measured(reason.clone())),
        Layer::Device { path, without_scheduler: None, writes } => Ok(on_device(path, *writes, bytes)),
        Layer::Device { path, without_scheduler: Some(device), writes } => {
            mounts.without_scheduler(device, || on_device(path, *writes, bytes))
        }
        Layer::Filesystem => in_directory(mounts.source(), mounts.source(), bytes),
        Layer::Fuse(mode) => {
            mounts.mounted(mode, roles, |mounted, source| in_directory(mounted, source, bytes))
        }
    }
}

fn on_device(path: &Path, writes: bool, bytes: u64) -> LayerRun {
    let mut run = LayerRun::default();
    if writes {
        match throughput::write_device(path, bytes) {
            Ok(rate) => run.write_mb_s = Some(rate),
            Err(error) => run.note = Some(error.to_string()),
        }
    } else {
        run.note = Some("only reads were measured, because the device holds data".to_owned());
    }
    match throughput::read_device(path, bytes) {
        Ok(rate) => run.read_mb_s = Some(rate),
        Err(error) => run.note = Some(error.to_string()),
    }
    run
}

/// Measures the throughput of buffered I/O in `dir`, a mount of `source`.
fn in_directory(dir: &Path, source: &Path, bytes: u64) -> Result<LayerRun, ExperimentError> {
    let path = dir.join("file");
    let failed = || ExperimentError::system("measure in", dir);
    let write = throughput::write_file(&path, bytes).map_err(failed())?;
    let read = throughput::read_file(&path, &source.join("file")).map_err(failed())?;
    std::fs::remove_file(&path).map_err(failed())?;
    Ok(LayerRun { write_mb_s: Some(write), read_mb_s: Some(read), note: None })
}

fn results(arms: &[Arm<Layer>], runs: &[Vec<LayerRun>]) -> Vec<LayerResult> {
    let rates = |of: fn(&LayerRun) -> Option<f64>| -> Vec<Option<Vec<f64>>> {
        // A device smaller than one record has a rate of 0, so there is no ratio.
        let positive = |run: &LayerRun| of(run).filter(|rate| *rate > 0.0);
        runs.iter().map(|runs| runs.iter().map(positive).collect()).collect()
    };
    let (writes, reads) = (rates(|run| run.write_mb_s), rates(|run| run.read_mb_s));
    let changes: Vec<Vec<Option<Change>>> = compare(arms, &[&writes, &reads]);
    let median = |rates: &Option<Vec<f64>>| median(rates.as_deref()?);
    let result = |at: usize| LayerResult {
        name: arms[at].name.clone(),
        compared_with: arms[at].compared_with.map(|with| arms[with].name.clone()),
        write_mb_s: median(&writes[at]),
        read_mb_s: median(&reads[at]),
        write_rounds_mb_s: writes[at].clone().unwrap_or_default(),
        read_rounds_mb_s: reads[at].clone().unwrap_or_default(),
        write_change: changes[0][at].clone(),
        read_change: changes[1][at].clone(),
        note: runs[at].iter().find_map(|run| run.note.clone()),
    };
    let mut layers: Vec<LayerResult> = (0..arms.len()).map(result).collect();
    merge_reasons(arms, &mut layers);
    layers
}

/// If all FUSE modes failed for the same reason, replaces the lines of these modes by one line.
fn merge_reasons(arms: &[Arm<Layer>], layers: &mut Vec<LayerResult>) {
    let Some(first) = arms.iter().position(|arm| matches!(arm.setup, Layer::Fuse(_))) else { return };
    let failed = |layer: &LayerResult| layer.write_mb_s.is_none() && layer.read_mb_s.is_none();
    let same = |layer: &LayerResult| failed(layer) && layer.note == layers[first].note;
    if layers[first].note.is_some() && layers[first..].iter().all(same) {
        layers.truncate(first + 1);
        "FUSE, any mode".clone_into(&mut layers[first].name);
    }
}

/// Returns a sentence that names the layer with the largest relative loss, compared with the layer below it,
/// if a loss was shown.
fn verdict(layers: &[LayerResult], rounds: u32) -> String {
    type Of = fn(&LayerResult) -> Option<&Change>;
    let kinds: [(&str, Of); 2] =
        [("write", |layer| layer.write_change.as_ref()), ("read", |layer| layer.read_change.as_ref())];
    let of_kind = |(what, change): (&'static str, Of)| {
        layers.iter().filter_map(move |layer| Some((what, layer, change(layer)?)))
    };
    let steps: Vec<(&str, &LayerResult, &Change)> = kinds.into_iter().flat_map(of_kind).collect();
    let lost = steps.iter().filter_map(|(what, layer, change)| {
        let (ratio, low, high) = (change.ratio?, change.low?, change.high?);
        (change.answer == Answer::Lower).then_some((what, layer, [1.0 - ratio, 1.0 - high, 1.0 - low]))
    });
    let most = lost.max_by(|(_, _, one), (_, _, other)| one[0].total_cmp(&other[0]));
    match most {
        Some((what, layer, [loss, low, high])) => {
            let below = layer.compared_with.as_deref().unwrap_or("the device");
            let percent = |share: f64| share * 100.0;
            format!(
                "Most {what} throughput is lost at `{}`: {:.0} % ({:.0} to {:.0} %) of the rate of `{below}`.",
                layer.name,
                percent(loss),
                percent(low),
                percent(high)
            )
        }
        None if steps.is_empty() => "Nothing could be compared.".to_owned(),
        None if rounds < PILOT_ROUNDS => {
            format!("Fewer than {PILOT_ROUNDS} rounds cannot show a loss (--runs {PILOT_ROUNDS}).")
        }
        None if steps.iter().all(|(_, _, change)| change.answer != Answer::Unknown) => {
            "No layer was shown to cost more than 5 % of the throughput.".to_owned()
        }
        None => "The rates vary too much to show which layer costs throughput (more --runs help).".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIGHT: [f64; 3] = [1.0, 1.01, 0.99];

    fn measured(rates: &[(&str, Option<f64>)], rounds: usize) -> Vec<LayerResult> {
        let filesystem = rates.iter().position(|(name, _)| *name == "ext4");
        let arm = |(at, (name, _)): (usize, &(&str, Option<f64>))| {
            let fuse = name.starts_with("FUSE");
            Arm {
                name: (*name).to_owned(),
                compared_with: if fuse { filesystem } else { at.checked_sub(1) },
                setup: if fuse { Layer::Fuse((*name).to_owned()) } else { Layer::Filesystem },
            }
        };
        let arms: Vec<_> = rates.iter().enumerate().map(arm).collect();
        let run = |(at, (_, rate)): (usize, &(&str, Option<f64>))| -> Vec<LayerRun> {
            let one = |round: usize| LayerRun {
                write_mb_s: rate.map(|rate| rate * TIGHT[(at + round) % 3]),
                read_mb_s: None,
                note: rate.is_none().then(|| "no root".to_owned()),
            };
            (0..rounds).map(one).collect()
        };
        results(&arms, &rates.iter().enumerate().map(run).collect::<Vec<_>>())
    }

    #[test]
    fn the_layer_that_loses_most_is_named() {
        // These are the rates of the phone in Figure 2 of the study.
        let phone = [
            ("device, scheduler none", Some(39.0)),
            ("device, scheduler cfq", Some(36.3)),
            ("ext4", Some(33.5)),
            ("FUSE, mode=stock", Some(7.0)),
        ];
        let said = verdict(&measured(&phone, 3), 3);
        assert!(said.starts_with("Most write throughput is lost at `FUSE, mode=stock`: 79 % ("), "{said}");
        assert!(said.ends_with(" of the rate of `ext4`."), "{said}");
        assert_eq!(verdict(&measured(&phone, 2), 2), "Fewer than 3 rounds cannot show a loss (--runs 3).");
        let fine =
            [("device, scheduler none", Some(39.0)), ("ext4", Some(38.0)), ("FUSE, mode=auto", Some(38.5))];
        assert_eq!(
            verdict(&measured(&fine, 3), 3),
            "No layer was shown to cost more than 5 % of the throughput."
        );
        assert_eq!(verdict(&measured(&[("ext4", Some(1.0))], 3), 3), "Nothing could be compared.");
    }

    #[test]
    fn one_reason_for_all_modes_is_said_once() {
        let layers =
            measured(&[("ext4", Some(40.0)), ("FUSE, mode=stock", None), ("FUSE, mode=auto", None)], 3);
        let named: Vec<_> = layers.iter().map(|layer| (layer.name.as_str(), layer.note.as_deref())).collect();
        assert_eq!(named, [("ext4", None), ("FUSE, any mode", Some("no root"))]);
        let some =
            measured(&[("ext4", Some(40.0)), ("FUSE, mode=stock", None), ("FUSE, mode=auto", Some(39.0))], 3);
        assert_eq!(some.len(), 3);
    }
}
