//! Counts the calls and the units of work in a recording.

use anyhow::Result;
use fonio_analysis::counts::names::Places;
use fonio_analysis::counts::{CREATED, Counts, CountsTally, SYNCS, TRANSACTIONS};
use fonio_analysis::{Analyser, AnalysisOptions};
use fonio_recording::{Recording, Table, Tables};

use crate::cli::per::{Per, PerCount};

/// Counts the calls in a recording. Files have the names that `places` gives them.
pub fn counts(recording: &Recording, places: Places) -> Result<Counts> {
    let mut tally = CountsTally::new(places);
    recording.replay(&mut tally, Tables::NONE.with(Table::Threads).with(Table::Files).with(Table::Calls))?;
    let mut analyser = Analyser::new(AnalysisOptions::default());
    recording.replay(&mut analyser, Tables::ALL)?;
    let analysis = analyser.finish(recording.meta());
    Ok(tally.finish(analysis.sqlite.as_ref()))
}

/// Returns how many units of work were done according to these counts; `None` if the units are lines of output, which
/// no recording has.
pub fn units(per: &Per, counts: &Counts) -> Option<u64> {
    Some(match &per.count {
        PerCount::Given(count) => *count,
        PerCount::Transactions(pattern) => counts.sum("database", pattern, TRANSACTIONS),
        PerCount::Files(pattern) => counts.sum("file", pattern, CREATED),
        PerCount::Syncs(pattern) => counts.sum("file", pattern, SYNCS),
        PerCount::Lines(_) => return None,
    })
}
