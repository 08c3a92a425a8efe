//! Long studies that run in shares: each run tries more cases and adds its counts to the study's result file.
//!
//! The result file is the only state of such a study. It is replaced atomically after every few cases, so an
//! interrupted run loses only the cases since then. A row's number of tried cases gives the seed of its next
//! cases, so no share repeats the cases of an earlier share.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use xtask::results::{Cell, StudyResult, folder};

/// A column of counts.
pub struct Column {
    pub title: &'static str,
    pub unit: &'static str,
    pub decimals: usize,
    pub joins: Joins,
}

/// How the values of two shares become one value.
#[derive(Clone, Copy)]
pub enum Joins {
    Sum,
    Most,
}

/// Creates a column whose values are summed.
pub const fn sum(title: &'static str) -> Column {
    Column { title, unit: "", decimals: 0, joins: Joins::Sum }
}

/// Creates a column with the largest value of all shares.
pub const fn most(title: &'static str, unit: &'static str, decimals: usize) -> Column {
    Column { title, unit, decimals, joins: Joins::Most }
}

/// Identifies a study in shares. The first column counts the tried cases, the second one the failed cases.
pub struct Study {
    pub id: &'static str,
    pub title: &'static str,
    pub command: &'static str,
    /// Title of the column with the names of the rows.
    pub rows: &'static str,
    pub columns: &'static [Column],
}

/// The counts of a study so far.
pub struct Shares {
    study: &'static Study,
    path: PathBuf,
    rows: Vec<(String, Vec<f64>)>,
    remark: String,
}

impl Shares {
    /// Reads the result file of the study, or starts with empty rows if there is none. Fails if the file has
    /// other columns or rows, because its counts would then mean something else.
    pub fn open(study: &'static Study, rows: &[&str]) -> Result<Shares> {
        Shares::open_at(study, rows, folder().join(study.id).with_extension("json"))
    }

    fn open_at(study: &'static Study, rows: &[&str], path: PathBuf) -> Result<Shares> {
        let empty = |name: &&str| ((*name).to_owned(), vec![0.0; study.columns.len()]);
        let mut shares =
            Shares { study, rows: rows.iter().map(empty).collect(), remark: String::new(), path };
        if !shares.path.exists() {
            return Ok(shares);
        }
        let found = StudyResult::read(&shares.path)?;
        let remedy = || format!("remove {} to start the study again", shares.path.display());
        ensure!(found.columns == shares.titles(), "the study has other columns now; {}", remedy());
        for row in &found.rows {
            let known = shares.rows.iter().position(|(name, _)| *name == row.name);
            let at =
                known.with_context(|| format!("the study has no row `{}` now; {}", row.name, remedy()))?;
            let values = row.cells.iter().map(value).collect::<Option<Vec<f64>>>();
            shares.rows[at].1 =
                values.with_context(|| format!("the row `{}` has no counts; {}", row.name, remedy()))?;
        }
        shares.remark = found.remark;
        Ok(shares)
    }

    fn titles(&self) -> Vec<&str> {
        [self.study.rows].into_iter().chain(self.study.columns.iter().map(|column| column.title)).collect()
    }

    /// Returns the number of cases tried in a row. Panics if there is no such row.
    pub fn tried(&self, row: &str) -> u64 {
        self.row(row)[0] as u64
    }

    /// Returns the number of failed cases in a row. Panics if there is no such row.
    pub fn failed(&self, row: &str) -> u64 {
        self.row(row)[1] as u64
    }

    fn row(&self, row: &str) -> &[f64] {
        &self.rows.iter().find(|(name, _)| name == row).expect("the study has this row").1
    }

    /// Adds the counts of new cases to a row. Panics if there is no such row, or if the number of values
    /// differs from the number of columns.
    pub fn add(&mut self, row: &str, values: &[f64]) {
        assert_eq!(values.len(), self.study.columns.len(), "each column needs a value");
        let (_, row) = self.rows.iter_mut().find(|(name, _)| name == row).expect("the study has this row");
        for ((sum, value), column) in row.iter_mut().zip(values).zip(self.study.columns) {
            *sum = match column.joins {
                Joins::Sum => *sum + value,
                Joins::Most => sum.max(*value),
            };
        }
    }

    /// Adds a sentence to the remark of the result, unless the remark already contains it.
    pub fn note(&mut self, sentence: &str) {
        if !self.remark.contains(sentence) {
            self.remark = format!("{} {sentence}", self.remark).trim().to_owned();
        }
    }

    /// Replaces the result file by the counts so far.
    pub fn write(&self) -> Result<()> {
        self.result()?.replace(&self.path)
    }

    /// Prints the table of the counts so far.
    pub fn print(&self) -> Result<()> {
        println!("\n{}\n{}", self.result()?.table(), self.remark);
        println!("The result is in {}; the same command adds to it.", self.path.display());
        Ok(())
    }

    fn result(&self) -> Result<StudyResult> {
        let mut result =
            StudyResult::begin(self.study.id, self.study.title, self.study.command, &self.titles())?;
        result.remark.clone_from(&self.remark);
        for (name, values) in self.rows.iter().filter(|(_, values)| values[0] > 0.0) {
            let cells = values.iter().zip(self.study.columns);
            let cells = cells.map(|(value, column)| Cell::once(*value, column.unit, column.decimals));
            result.rows.push(xtask::results::Row { name: name.clone(), cells: cells.collect() });
        }
        Ok(result)
    }
}

fn value(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Quantity(quantity) => quantity.values.first().copied().flatten(),
        Cell::Text(_) => None,
    }
}

/// Returns the folder in which a study keeps its failed cases.
pub fn failures(id: &str) -> Result<PathBuf> {
    xtask::process::scratch(id)
}

/// Copies the log of a failed case to the folder of failures, and returns the path of the copy.
pub fn keep_log(id: &str, name: &str, log: &Path) -> Result<PathBuf> {
    let kept = failures(id)?.join(format!("{name}.log"));
    if !kept.exists() {
        fs::copy(log, &kept).with_context(|| format!("cannot copy {}", log.display()))?;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    static STUDY: Study = Study {
        id: "sample",
        title: "a sample",
        command: "cargo studies sample",
        rows: "mode",
        columns: &[sum("tried"), sum("failed"), most("span", "ms", 1)],
    };

    #[test]
    fn a_share_adds_to_the_file_of_the_shares_before() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("sample.json");
        for share in 1..=3_u32 {
            let mut shares = Shares::open_at(&STUDY, &["a", "b"], path.clone()).expect("open");
            assert_eq!(shares.tried("a"), u64::from(share - 1) * 10);
            shares.add("a", &[10.0, 1.0, f64::from(5 - share)]);
            shares.note("Debug build.");
            shares.write().expect("write");
        }
        let shares = Shares::open_at(&STUDY, &["a", "b"], path.clone()).expect("open");
        assert_eq!(shares.row("a"), [30.0, 3.0, 4.0]);
        assert_eq!((shares.tried("b"), shares.failed("a")), (0, 3));
        assert_eq!(shares.remark, "Debug build.");
        let names: Vec<_> =
            fs::read_dir(dir.path()).expect("list").map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["sample.json"]);
    }

    #[test]
    fn counts_of_another_study_are_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("sample.json");
        let mut shares = Shares::open_at(&STUDY, &["a"], path.clone()).expect("open");
        shares.add("a", &[1.0, 0.0, 0.0]);
        shares.write().expect("write");
        static OTHER: Study = Study { columns: &[sum("tried"), sum("lost")], ..STUDY };
        for (study, rows, why) in [(&OTHER, ["a"], "other columns"), (&STUDY, ["b"], "no row `a`")] {
            let error = Shares::open_at(study, &rows, path.clone()).err().expect("it is refused").to_string();
            assert!(error.contains(why) && error.contains("remove"), "{error}");
        }
    }
}
