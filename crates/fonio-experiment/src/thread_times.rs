//! Shows where the time of a workload's threads went, in the report of a series.

use fonio_core::Unit;
use fonio_core::statistics::sample::mean;
use fonio_report::document::{Cell, Column, Table};

use crate::series::{RunFigures, Series, TimesFigures};

/// A table with more marks than this shows only the phases.
const MARKS_SHOWN: usize = 8;
/// A table with more rows than this shows one row for each setup, the sum of its phases.
const PARTS_SHOWN: usize = 24;
/// The name of the sum of all phases.
const ALL_PHASES: &str = "all";

/// Returns the parts of a run that the table shows.
fn shown_parts(run: &RunFigures, setups: usize) -> Vec<TimesFigures> {
    let spans = if run.span_times.len() > MARKS_SHOWN { &[] } else { run.span_times.as_slice() };
    if setups * (run.phase_times.len() + spans.len()) <= PARTS_SHOWN {
        return run.phase_times.iter().chain(spans).cloned().collect();
    }
    TimesFigures::sum(ALL_PHASES, &run.phase_times).into_iter().collect()
}

/// Returns a table of where the time of a workload's threads went; `None` for an app, and if the kernel did not say.
/// `labels` are the short names of the setups.
pub(crate) fn table(series: &Series, labels: &[&str]) -> Option<Table> {
    let setups: Vec<&[RunFigures]> =
        series.variations.iter().map(|variation| variation.runs.as_slice()).collect();
    of_setups(&setups, labels)
}

fn of_setups(setups: &[&[RunFigures]], labels: &[&str]) -> Option<Table> {
    let mut rows = Vec::new();
    for (runs, label) in setups.iter().zip(labels) {
        let runs: Vec<Vec<TimesFigures>> = runs.iter().map(|run| shown_parts(run, setups.len())).collect();
        // All runs of a setup have the same parts.
        for (at, TimesFigures { name, .. }) in runs.first()?.iter().enumerate() {
            let mean_of = |value: fn(&TimesFigures) -> f64| {
                let values: Option<Vec<f64>> = runs.iter().map(|parts| parts.get(at).map(value)).collect();
                Cell::known(values.and_then(|values| mean(&values)), Unit::S)
            };
            rows.push(vec![
                Cell::Name((*label).to_owned()),
                Cell::Name(name.clone()),
                mean_of(|times| times.thread_s),
                mean_of(|times| times.user_s),
                mean_of(|times| times.system_s),
                mean_of(|times| times.queued_s),
                mean_of(|times| times.blocked_s),
                mean_of(|times| times.network_s),
                mean_of(|times| times.paused_s),
            ]);
        }
    }
    (!rows.is_empty()).then(|| Table {
        caption: "Where the time of the threads went".into(),
        columns: vec![
            Column::new("Setup"),
            Column::noted("Part", "A phase of the workload with all its threads, or all spans with a mark."),
            Column::noted("Time", "Summed over the threads or spans; mean of the runs, as in all columns."),
            Column::noted("User", "Processor time in user mode."),
            Column::noted("System", "Processor time in the kernel."),
            Column::noted("Queued", "The threads could run, and waited for a processor."),
            Column::noted(
                "Blocked",
                "The threads slept for storage, or for a lock that another thread held.",
            ),
            Column::noted("Network", "The threads slept in HTTP requests.").or_drop(),
            Column::noted("Pauses", "The threads slept in pauses that the workload defines.").or_drop(),
        ],
        rows,
        ..Table::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, thread_s: f64, later_s: f64) -> TimesFigures {
        TimesFigures {
            name: name.to_owned(),
            count: 1,
            thread_s: thread_s + later_s,
            user_s: 0.25 * thread_s,
            system_s: 0.125 * thread_s,
            queued_s: 0.0,
            network_s: 0.5 * thread_s,
            paused_s: 0.0,
            blocked_s: 0.125 * thread_s + later_s,
        }
    }

    /// Returns the rows of a table with three runs of each setup. The times of later runs are longer.
    fn rows(setups: usize) -> Vec<String> {
        let run = |later_s: f64| RunFigures {
            phase_times: vec![part("open", 1.0, later_s), part("use", 2.0, later_s)],
            span_times: vec![part("page", 0.5, later_s)],
            ..RunFigures::default()
        };
        let runs: Vec<RunFigures> = [0.0, 1.0, 2.0].map(run).into();
        let table = of_setups(&vec![runs.as_slice(); setups], &vec!["card"; setups]);
        let texts = |row: &Vec<Cell>| row.iter().map(Cell::text).collect::<Vec<_>>().join(" | ");
        table.map_or_else(Vec::new, |table| table.rows.iter().map(texts).collect())
    }

    #[test]
    fn the_times_are_means_of_the_runs() {
        assert_eq!(
            rows(1),
            [
                "card | open | 2 s | 250 ms | 125 ms | 0 ns | 1.12 s | 500 ms | 0 ns",
                "card | use | 3 s | 500 ms | 250 ms | 0 ns | 1.25 s | 1 s | 0 ns",
                "card | page | 1.5 s | 125 ms | 62.5 ms | 0 ns | 1.06 s | 250 ms | 0 ns",
            ]
        );
        // With many setups, the phases of each setup are added up.
        let many = rows(9);
        assert_eq!(many.len(), 9);
        assert_eq!(many[8], "card | all | 5 s | 750 ms | 375 ms | 0 ns | 2.38 s | 1.5 s | 0 ns");
        let without = [RunFigures::default()];
        assert_eq!(of_setups(&[&without], &["card"]), None, "the run has no times");
    }
}
