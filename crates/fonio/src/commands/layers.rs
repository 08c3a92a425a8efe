//! `fonio bench layers`.

use std::io::{self, Write};

use anyhow::Result;
use fonio_analysis::{Answer, Change};
use fonio_core::ByteCount;
use fonio_experiment::{Layer, LayerResult, Layers, LayersOptions, Trial, measure_layers};

use crate::cli::{BenchLayers, Colour};
use crate::commands::run::{begin, roles};
use crate::exit::Exit;
use crate::output;
use crate::progress::Estimate;

/// From the study's baseline to the default of `fonio mount`.
const MODES: [&str; 5] = ["mode=stock", "mode=extended", "mode=buffered", "mode=writeback", "mode=auto"];

/// Measures each layer and names the one that loses most.
pub fn run(arguments: &BenchLayers, colour: Colour) -> Result<Exit> {
    let stop = begin()?;
    let roles = roles()?;
    let options = LayersOptions {
        dir: &arguments.dir,
        bytes: arguments.size,
        rounds: u32::from(arguments.rounds),
        erase: arguments.device.as_deref().zip(arguments.erase.as_deref()),
        modes: &MODES,
        roles: &roles,
        stop: &stop,
    };
    let mut estimate = Estimate::new();
    let found =
        measure_layers(&options, &mut |trial: &Trial<'_, Layer>| estimate.announce(trial, trial.name))?;
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &found)?;
        writeln!(out)?;
    } else {
        show(&found, output::wants_colour(colour), &mut out)?;
    }
    Ok(Exit::Fine)
}

fn show(found: &Layers, colour: bool, out: &mut impl Write) -> io::Result<()> {
    let (bold, dim, plain) = if colour { ("\x1b[1m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    writeln!(out, "{bold}{}{plain}\n", found.verdict)?;
    writeln!(
        out,
        "{dim}{:<30} {:>28} {:>28}{plain}",
        "layer", "write MB/s, of the one below", "read MB/s, of the one below"
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
        "\n{dim}{} in records of 512 KiB, medians of {} rounds; kernel {}. Modes of FUSE are compared with the file system.{plain}",
        output::bytes(ByteCount(found.bytes)),
        found.rounds,
        found.place.kernel
    )
}

/// Formats a rate as a share of the rate of the layer below, with the interval if there is one.
fn share(change: &Change) -> String {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    match (change.ratio, change.low.zip(change.high)) {
        (Some(ratio), _) if change.answer == Answer::Unknown => format!("{} % (not shown)", percent(ratio)),
        (Some(ratio), Some((low, high))) => {
            format!("{} % ({}-{})", percent(ratio), percent(low), percent(high))
        }
        (Some(ratio), None) => format!("{} %", percent(ratio)),
        (None, _) => String::new(),
    }
}
