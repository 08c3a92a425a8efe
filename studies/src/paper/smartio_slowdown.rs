//! Reproduces Figure 4, and parts (b) and (d) of Figure 11: how much reads and writes slow each other down on
//! emulated phones in a guest. The study's phones used CFQ.

use anyhow::Result;
use fonio_bench::result::{Benchmark, Run, Slowdown, TestResult};
use fonio_sim::scheduler::Policy;

use super::bfuse_stack::{BFQ, NO_CFQ};
use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::Runs;
use super::smartio_schedulers::{SLOWDOWNS, slowdowns};

/// The unit and tolerance of a slowdown. A slowdown is the ratio of two response times that vary from run to
/// run.
const TIMES: Quantity = Quantity::new("times", 2, 1.25, 0.0);
/// Number of bytes to read or write: as many as eight processes of the study with 128 MB each.
const FULL_SIZE: &str = "1GiB";
const SIZE: &str = "256MiB";
const WHY: &str = "in the model, reads wait for at most one write, and writes for one read";

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (device, processes, table) in SLOWDOWNS {
        let told = published.numbers(&format!("{table}.cfq"))?;
        let modelled = slowdowns(device, Policy::Cfq, processes)?;
        let at = runs.guest();
        let size = if runs.full() { FULL_SIZE } else { SIZE };
        let found: Benchmark = runs.bench(
            "interference",
            &[device, "--scheduler", BFQ, "--range", size, "--runs", &Runs::repeat()],
            &at,
        )?;
        for slowdown in found.slowdowns.iter().filter(|of| of.processes == processes) {
            let name = slowdown.access.name();
            let Some(times) = told.get(name) else { continue };
            let what = format!("{device}, {processes} of each, {name}");
            let row = TIMES.effect(what, *times, &each(&found, slowdown), WHY);
            let row = row.noted(shown(slowdown)).noted(at.noted());
            let modelled = modelled.get(name).and_then(Measured::value);
            let modelled = modelled.map_or(String::new(), |times| format!("{times:.2} under a model of CFQ"));
            rows.push(row.noted(modelled).because(NO_CFQ));
        }
    }
    Ok(rows)
}

/// Returns the slowdown of each run. The response time without concurrent I/O is marked as known, because the
/// profile was fitted to the published response time.
///
/// A test whose runs are equal ends earlier than others, so only the runs that both tests have are compared.
fn each(found: &Benchmark, slowdown: &Slowdown) -> Measured {
    let with = |beside| {
        let is_it = |result: &&TestResult| {
            result.test.access == slowdown.access
                && result.test.beside == beside
                && (beside.is_none() || result.test.processes == slowdown.processes)
        };
        found.tests.iter().find(is_it).map_or(&[][..], |result| &result.runs)
    };
    let (beside, alone) = (with(Some(slowdown.beside)), with(None));
    let both = beside.len().min(alone.len());
    if both == 0 {
        return Kind::Imitation.once(None);
    }
    let of =
        |runs: &[Run]| Kind::Imitation.runs(runs[..both].iter().map(|run| Some(run.response_mean_ns as f64)));
    of(beside).over(&of(alone).known(true))
}

fn shown(slowdown: &Slowdown) -> String {
    format!("{:.2} ms instead of {:.2}", slowdown.beside_ms, slowdown.alone_ms)
}
