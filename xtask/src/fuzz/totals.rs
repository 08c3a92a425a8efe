//! Adds up what all calls of `cargo xtask fuzz --hours` did, in `studies/results/fuzz.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use xtask::results::{self, Cell, Quantity, Row, StudyResult};

use super::program::Run;

const ID: &str = "fuzz";
const COLUMNS: [&str; 5] = ["fuzz target", "processor time", "executed inputs", "covered edges", "findings"];
/// The name of the row with the sums.
const ALL: &str = "all";

/// The sum of all runs of a fuzz target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Total {
    pub processor: Duration,
    pub executions: u64,
    /// Number of edges between basic blocks that the latest run covered. It changes with the code.
    pub coverage: u64,
    /// Number of failures in all runs, also of those that were repaired.
    pub findings: u64,
    /// The inputs that make the target fail now.
    pub open: Vec<PathBuf>,
}

impl Total {
    pub fn add(&mut self, run: Run) {
        self.processor += run.processor;
        self.executions += run.executions;
        self.coverage = self.coverage.max(run.coverage);
        self.findings += u64::from(run.finding.is_some());
        self.open.extend(run.finding);
    }

    fn cells(&self) -> Vec<Cell> {
        let count = |count: u64| Cell::once(count as f64, "", 0);
        vec![
            Cell::once(self.processor.as_secs_f64() / 3600.0, "h", 2),
            count(self.executions),
            count(self.coverage),
            count(self.findings),
        ]
    }

    fn from_row(row: &Row) -> Result<Total> {
        let number = |at: usize| match &row.cells[at] {
            Cell::Quantity(Quantity { values, .. }) => values.first().copied().flatten(),
            Cell::Text(_) => None,
        };
        let missing = || format!("the row `{}` of the result `{ID}` has no number", row.name);
        let numbers = (0..COLUMNS.len() - 1).map(|at| number(at).with_context(missing));
        let numbers = numbers.collect::<Result<Vec<f64>>>()?;
        ensure!(numbers.iter().all(|number| (0.0..1e15).contains(number)), missing());
        Ok(Total {
            processor: Duration::from_secs_f64(numbers[0] * 3600.0),
            executions: numbers[1] as u64,
            coverage: numbers[2] as u64,
            findings: numbers[3] as u64,
            open: Vec::new(),
        })
    }
}

/// The sums of all fuzz targets.
pub struct Totals(BTreeMap<String, Total>);

impl Totals {
    /// Reads the sums of earlier calls, and adds empty sums for new targets.
    pub fn read(targets: &[String]) -> Result<Totals> {
        let path = results::folder().join(ID).with_extension("json");
        let mut totals = BTreeMap::new();
        if path.exists() {
            let rows = StudyResult::read(&path)?.rows;
            for row in rows.iter().filter(|row| row.name != ALL) {
                totals.insert(row.name.trim_matches('`').to_owned(), Total::from_row(row)?);
            }
        }
        for target in targets {
            totals.entry(target.clone()).or_default();
        }
        Ok(Totals(totals))
    }

    /// Returns the sum of a target.
    pub fn of(&mut self, target: &str) -> &mut Total {
        self.0.entry(target.to_owned()).or_default()
    }

    /// Returns the processor times of some targets.
    pub fn times(&self, targets: &[String]) -> Vec<Duration> {
        targets
            .iter()
            .map(|target| self.0.get(target).map_or(Duration::ZERO, |total| total.processor))
            .collect()
    }

    fn result(&self) -> Result<StudyResult> {
        let mut result =
            StudyResult::begin(ID, "the runs of the fuzz targets", "cargo xtask fuzz --hours 24", &COLUMNS)?;
        let mut all = Total::default();
        for (name, total) in &self.0 {
            all.processor += total.processor;
            all.executions += total.executions;
            all.coverage += total.coverage;
            all.findings += total.findings;
            result.rows.push(Row { name: format!("`{name}`"), cells: total.cells() });
        }
        result.rows.push(Row { name: ALL.to_owned(), cells: all.cells() });
        Ok(result)
    }

    /// Writes the sums for the next call.
    pub fn write(&self) -> Result<()> {
        let path = results::folder().join(ID).with_extension("json");
        // A call can end at any moment, so the file is replaced at once.
        let draft = path.with_extension("json.new");
        let write = || std::fs::write(&draft, self.result()?.text()?).map_err(anyhow::Error::from);
        write()
            .and_then(|()| Ok(std::fs::rename(&draft, &path)?))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Prints the table.
    pub fn show(&self) {
        match self.result() {
            Ok(result) => print!("\n{}", result.table()),
            Err(error) => println!("The table cannot be shown: {error:#}"),
        }
    }

    /// Returns a command for each input that makes a target fail.
    pub fn open(&self) -> Vec<String> {
        let commands = self.0.iter().flat_map(|(name, total)| {
            total
                .open
                .iter()
                .map(move |file| format!("    cargo xtask fuzz {name} --input {}", file.display()))
        });
        commands.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_survive_their_file() {
        let run = |seconds, finding| Run {
            processor: Duration::from_secs(seconds),
            executions: 5_000_000_000,
            coverage: 70,
            finding,
        };
        let mut total = Total::default();
        total.add(run(90, None));
        total.add(run(30, Some(PathBuf::from("crash-1"))));
        let row = Row { name: "`csv`".to_owned(), cells: total.cells() };
        let text = serde_json::to_string(&row).expect("it is JSON");
        let again =
            Total::from_row(&serde_json::from_str(&text).expect("it was written")).expect("it has numbers");
        assert_eq!(again, Total { open: Vec::new(), ..total });
        assert_eq!((again.executions, again.findings, again.processor.as_secs()), (10_000_000_000, 1, 120));
        let text = Row { name: "`csv`".to_owned(), cells: vec!["–".into(); 4] };
        assert!(Total::from_row(&text).is_err());
    }
}
