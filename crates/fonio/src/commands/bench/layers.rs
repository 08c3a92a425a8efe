//! Implements `fonio bench layers`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use fonio_analysis::{Answer, Change};
use fonio_core::ByteCount;
use fonio_emulator::Emulated;
use fonio_experiment::{Layer, LayerResult, Layers, LayersOptions, Measurement, measure_layers};

use crate::cli::{BenchLayers, Colour};
use crate::commands::bench_target::{self, Subject};
use crate::commands::lab;
use crate::exit::Exit;
use crate::output;
use crate::progress::Estimate;
use crate::roles::roles;
use crate::signals::begin;

/// The measured modes, from the baseline of the study to the default of `fonio mount`.
const MODES: [&str; 5] = ["mode=stock", "mode=extended", "mode=buffered", "mode=writeback", "mode=auto"];

const SEED: u64 = 1;

/// Measures the throughput of each layer and names the layer that loses most.
pub fn run(arguments: &BenchLayers, colour: Colour) -> Result<Exit> {
    if let Some(kernel) = &arguments.emulated.guest {
        return lab::run_bench(kernel, &arguments.dir, &[]);
    }
    let stop = begin()?;
    let roles = roles()?;
    let emulated = match Subject::of(&arguments.dir, &arguments.emulated)? {
        Subject::Real(_) => None,
        Subject::Profile(profile) => {
            ensure!(
                arguments.erase.is_none(),
                "an emulated device has its own raw device; leave out --erase"
            );
            Some(OnProfile::start(profile, arguments)?)
        }
    };
    let given = arguments.erase.as_deref().map(|device| (device, device));
    let modes: Vec<&str> = arguments.modes.iter().map(String::as_str).collect();
    let options = LayersOptions {
        dir: emulated.as_ref().map_or(&arguments.dir, |emulated| &emulated.dir),
        bytes: arguments.range,
        rounds: u32::from(arguments.runs),
        erase: emulated.as_ref().map(|emulated| (emulated.raw.as_path(), emulated.raw.as_path())).or(given),
        modes: if modes.is_empty() { &MODES } else { &modes },
        roles: &roles,
        stop: &stop,
    };
    let mut estimate = Estimate::new();
    let found = measure_layers(&options, &mut |measurement: &Measurement<'_, Layer>| {
        estimate.announce(measurement, measurement.name)
    })?;
    if let Some(emulated) = emulated {
        emulated.stop()?;
    }
    if arguments.json {
        return output::json(&found);
    }
    show(&found, output::wants_colour(colour), &mut output::screen())?;
    Ok(Exit::Fine)
}

/// Two emulated devices of one profile: one with a file system, and one whose blocks are overwritten.
struct OnProfile {
    mounted: Emulated,
    dir: PathBuf,
    bare: Emulated,
    raw: PathBuf,
}

impl OnProfile {
    fn start(profile: &str, arguments: &BenchLayers) -> Result<OnProfile> {
        let BenchLayers { emulated, filesystem, .. } = arguments;
        let mounted = bench_target::start(profile, emulated, SEED, Some(*filesystem))?;
        let dir = mounted.mount_dir().map(Path::to_owned).unwrap_or_default();
        let bare = bench_target::start(profile, emulated, SEED, None)?;
        let raw = bench_target::node(&bare)?;
        Ok(OnProfile { mounted, dir, bare, raw })
    }

    fn stop(self) -> Result<()> {
        self.bare.stop()?;
        self.mounted.stop()?;
        Ok(())
    }
}

fn show(found: &Layers, colour: bool, out: &mut impl Write) -> io::Result<()> {
    let (bold, dim, plain) = if colour { ("\x1b[1m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    writeln!(out, "{bold}{}{plain}\n", found.verdict)?;
    writeln!(
        out,
        "{dim}{:<30} {:>28} {:>28}{plain}",
        "layer", "write MB/s, share of the layer below", "read MB/s, share of the layer below"
    )?;
    for layer in &found.layers {
        let LayerResult { name, write_mb_s, read_mb_s, write_change, read_change, note, .. } = layer;
        let column = |mb_s: &Option<f64>, change: &Option<Change>| {
            format!("{:>8} {:>19}", rate(*mb_s), change.as_ref().map(share).unwrap_or_default())
        };
        let line = format!(
            "{name:<30} {} {}  {}",
            column(write_mb_s, write_change),
            column(read_mb_s, read_change),
            note.as_deref().unwrap_or_default()
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    writeln!(
        out,
        "\n{dim}{} in records of 512 KiB, medians of {} rounds; kernel {}. FUSE modes are compared with the \
         file system.{plain}",
        output::bytes(ByteCount(found.bytes)),
        found.rounds,
        found.place.kernel
    )
}

/// Formats a rate as a share of the rate of the layer below, with the confidence interval of the share, if
/// known.
fn share(change: &Change) -> String {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    match (change.ratio, change.low.zip(change.high)) {
        (Some(ratio), _) if change.answer == Answer::Unknown && change.side().is_none() => {
            format!("{} % (not shown)", percent(ratio))
        }
        (Some(ratio), Some((low, high))) => {
            format!("{} % ({}-{})", percent(ratio), percent(low), percent(high))
        }
        (Some(ratio), None) => format!("{} %", percent(ratio)),
        (None, _) => String::new(),
    }
}
