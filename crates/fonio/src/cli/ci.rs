//! Defines the arguments of `fonio ci`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use fonio_core::{Quantity, Unit};

use super::per::{Per, parse_per};

/// `fonio ci`.
#[derive(Debug, Args)]
pub struct Ci {
    /// Compare with the counts in this file, which belongs into the repository of the program.
    #[arg(long, value_name = "FILE", default_value = "fonio-baseline.json")]
    pub baseline: PathBuf,
    /// Write the counts into the baseline instead of comparing them.
    ///
    /// Without --runs, runs the command twice. Counts that differ between the runs are listed as varying, and are not
    /// compared later.
    #[arg(long)]
    pub update: bool,
    /// Count units of work: 'order=120', 'order=transactions:*/shop.db', 'order=files:*.pdf', 'order=syncs:*.log', 'order=lines:placed'.
    ///
    /// The result has the costs of each unit. The number of units is given, or is the number of committed transactions
    /// of SQLite databases, of created files, of syncs of files, or of lines on standard output that contain a text. A
    /// path may contain `*`.
    #[arg(long, value_name = "NAME=COUNT", value_parser = parse_per)]
    pub per: Option<Per>,
    /// Do not count files whose path or name matches this pattern. Repeatable.
    ///
    /// `*` stands for any characters, including `/`. Example: '*.log'.
    #[arg(long, value_name = "PATTERN")]
    pub ignore: Vec<String>,
    /// Run each test or setup this many times.
    ///
    /// Counts that differ between the runs are named, and are not compared. Default: 1, or 2 with --update.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..100))]
    pub runs: Option<u16>,
    /// Check that a figure is within a limit: 'totals.requests<=5000'. Repeatable.
    ///
    /// The figures are the counts, such as 'all.syncs<=20' and 'file[./shop.db].writes<=100', and with --per order also
    /// 'order.writes<=9', 'order.written_bytes<=64KiB' and 'order.syncs<=1'. The exit code is 1 if a figure is not within
    /// its limit.
    #[arg(long, value_name = "BUDGET")]
    pub budget: Vec<String>,
    /// Compare block writes and flushes with this tolerance, such as 30%.
    ///
    /// They are counted as root only, and differ a little from run to run. A difference within the tolerance counts as no
    /// difference, and never exceeds a budget such as 'block.writes<=120%'. Default: the tolerance in the baseline, or 20%.
    #[arg(long, value_name = "SHARE", value_parser = parse_tolerance)]
    pub tolerance: Option<f64>,
    /// Write the result to this file as Markdown, for a comment on a change.
    #[arg(long, value_name = "FILE")]
    pub comment: Option<PathBuf>,
    /// Print JSON.
    ///
    /// The command's standard output then goes to standard error.
    #[arg(long)]
    pub json: bool,
    /// Write the result to this path.
    ///
    /// PATH is a new folder for the recording of the last run, for `fonio report`. By default, fonio removes it.
    #[arg(short, long = "output", value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Replace an existing recording.
    #[arg(long)]
    pub overwrite: bool,
    /// The command to run, after `--`.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// The highest tolerance: ten times the count.
const TOLERANCE_MAX: f64 = 9.0;

fn parse_tolerance(text: &str) -> Result<f64, String> {
    let quantity: Quantity = text.parse().map_err(|error: fonio_core::QuantityError| error.to_string())?;
    match quantity.unit {
        Some(Unit::Share) if (0.0..=TOLERANCE_MAX).contains(&quantity.value) => Ok(quantity.value),
        _ => Err("write a share from 0% to 900%, such as 20%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_is_a_share() {
        for (text, expected) in [
            ("20%", Some(0.2)),
            ("0%", Some(0.0)),
            ("900%", Some(9.0)),
            ("901%", None),
            ("-1%", None),
            ("20", None),
            ("2ms", None),
            ("", None),
        ] {
            assert_eq!(parse_tolerance(text).ok(), expected, "{text}");
        }
    }
}
