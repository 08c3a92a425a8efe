//! Defines the arguments of `fonio ci`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

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
    /// Count costs per unit of work: 'order=120', 'order=transactions:*/shop.db', 'order=files:*.pdf', 'order=lines:placed'.
    ///
    /// The number of units is given, or is the number of committed transactions of SQLite databases, of created files, or
    /// of lines on standard output that contain a text. A path may contain `*`.
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

/// A unit of work, and how it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Per {
    /// The name of one unit.
    pub name: String,
    pub count: PerCount,
}

/// How units of work are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PerCount {
    /// The user gave the number.
    Given(u64),
    /// Committed transactions of the databases that match a pattern.
    Transactions(String),
    /// Created files that match a pattern.
    Files(String),
    /// Lines on standard output that contain a text.
    Lines(String),
}

fn parse_per(text: &str) -> Result<Per, String> {
    let wrong = || {
        format!(
            "{text:?} is not a unit of work: write NAME=N, NAME=transactions, NAME=transactions:PATTERN, \
             NAME=files:PATTERN or NAME=lines:TEXT"
        )
    };
    let (name, count) = text.split_once('=').ok_or_else(wrong)?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(wrong());
    }
    let (kind, pattern) = count.split_once(':').unwrap_or((count, ""));
    let count = match (kind, pattern) {
        ("transactions", "") => PerCount::Transactions("*".to_owned()),
        ("transactions", pattern) => PerCount::Transactions(pattern.to_owned()),
        ("files" | "lines", "") => return Err(wrong()),
        ("files", pattern) => PerCount::Files(pattern.to_owned()),
        ("lines", text) => PerCount::Lines(text.to_owned()),
        _ => PerCount::Given(count.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?),
    };
    Ok(Per { name: name.to_owned(), count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_of_work_has_a_name_and_a_way_to_count() {
        let count =
            |text| parse_per(text).map(|per| per.count).map_err(|error| error.contains("is not a unit"));
        assert_eq!(count("order=120"), Ok(PerCount::Given(120)));
        assert_eq!(count("order=transactions"), Ok(PerCount::Transactions("*".to_owned())));
        assert_eq!(count("order=transactions:*/a.db"), Ok(PerCount::Transactions("*/a.db".to_owned())));
        assert_eq!(count("order=files:*.pdf"), Ok(PerCount::Files("*.pdf".to_owned())));
        assert_eq!(count("order=lines:a:b=c"), Ok(PerCount::Lines("a:b=c".to_owned())));
        for wrong in ["order", "order=0", "order=x", "=3", "order=lines:", "a.b=3", "order=files"] {
            assert_eq!(count(wrong), Err(true), "{wrong}");
        }
    }
}
