//! Defines the results of studies and benchmarks. Commands write them to `studies/results/ID.json`, and
//! documents show them.
//!
//! A result is one table with its raw values, the time, the commit and the kind of machine. Figures that were
//! published in documents before there were result files are *transcribed*: they name only the commit and the
//! file from which they were copied. Transcribed figures are replaced when the study runs again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::process;

/// The version of the file format. The version is incremented for changes that older readers would
/// misunderstand.
///
/// Version 1 has the fields of [`StudyResult`].
pub const SCHEMA: u32 = 1;

/// A table of figures with its raw values and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyResult {
    /// The value of [`SCHEMA`] in the program that wrote the result.
    pub schema: u32,
    /// Name of the result's file, without its extension.
    pub id: String,
    /// The table's title: a phrase that says what the table shows.
    pub title: String,
    /// The command line that measures the result.
    pub command: String,
    /// The time and place of the measurement.
    pub origin: Origin,
    /// Seed of the study's first round, if the study has a seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Number of times each row was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// Titles of the columns; the first column contains the names of the rows.
    pub columns: Vec<String>,
    /// The rows of the table, each with a cell for every column except the first.
    pub rows: Vec<Row>,
    /// A remark about the result, in sentences; empty if the table needs no remark.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remark: String,
}

/// The origin of a result: the time and place of its measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Origin {
    /// The result was measured by the command.
    Measured {
        /// The commit of the measured sources.
        commit: String,
        /// Whether the measured sources had uncommitted changes.
        changed: bool,
        /// The day of the measurement, as YYYY-MM-DD in UTC.
        date: String,
        /// The machine on which the result was measured.
        machine: Machine,
    },
    /// The result was copied from a document that is older than result files.
    Transcribed {
        /// The commit that contains the document.
        commit: String,
        /// The document's path in the repository.
        file: String,
    },
}

/// A kind of machine, described without a host name or a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Processor architecture, and whether the machine is virtual.
    pub kind: String,
    /// Number of the machine's processors.
    pub processors: u32,
    /// Size of the machine's memory in bytes.
    pub memory_bytes: u64,
    /// Release of the machine's kernel.
    pub kernel: String,
}

/// A row of a result's table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The name of the measurement in this row.
    pub name: String,
    /// The row's figures, in the order of the columns.
    pub cells: Vec<Cell>,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A quantity. Tables show the median of its values.
    Quantity(Quantity),
    /// A text cell: a word, or a figure that is not a single quantity.
    Text(String),
}

/// The measured values of a figure, with unit and format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The measured values by round; `None` if a round has no value.
    pub values: Vec<Option<f64>>,
    /// The unit that tables show after the value; empty for a count.
    pub unit: String,
    /// Number of decimals that tables show.
    pub decimals: usize,
    /// Whether tables also show the smallest and the largest value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub range: bool,
}

impl Cell {
    /// Creates the cell of a figure that was measured once.
    pub fn once(value: impl Into<Option<f64>>, unit: &str, decimals: usize) -> Cell {
        Cell::rounds([value], unit, decimals)
    }

    /// Creates the cell of a figure with one value per round. Values that are not finite are missing.
    pub fn rounds(
        values: impl IntoIterator<Item = impl Into<Option<f64>>>,
        unit: &str,
        decimals: usize,
    ) -> Cell {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let values = values.into_iter().map(|value| finite(value.into())).collect();
        Cell::Quantity(Quantity { values, unit: unit.to_owned(), decimals, range: false })
    }

    /// Returns the cell with the setting that tables also show the smallest and the largest value.
    #[must_use]
    pub fn with_range(self) -> Cell {
        match self {
            Cell::Quantity(quantity) => Cell::Quantity(Quantity { range: true, ..quantity }),
            Cell::Text(_) => self,
        }
    }

    /// Creates the cell of a count.
    pub fn count(count: impl TryInto<u32>) -> Cell {
        Cell::once(count.try_into().ok().map(f64::from), "", 0)
    }

    /// Formats the cell for tables; a missing value is a dash.
    pub fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Quantity(Quantity { values, unit, decimals, range }) => {
                let Some([low, median, high]) = points(values) else { return "–".to_owned() };
                let number = |value: f64| grouped(&format!("{value:.decimals$}"));
                let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
                let range =
                    if *range { format!(" ({} to {})", number(low), number(high)) } else { String::new() };
                number(median) + &unit + &range
            }
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

/// Returns the smallest value, the median and the largest value; `None` if a round has no value.
fn points(values: &[Option<f64>]) -> Option<[f64; 3]> {
    let mut sorted: Vec<f64> = values.iter().copied().collect::<Option<_>>()?;
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some([sorted[0], f64::midpoint(sorted[last / 2], sorted[sorted.len() / 2]), sorted[last]])
}

/// Separates the thousands of a number with commas.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut text = String::new();
    for (at, digit) in whole.char_indices() {
        let is_boundary = (whole.len() - at).is_multiple_of(3);
        if is_boundary && text.ends_with(|c: char| c.is_ascii_digit()) {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}

impl StudyResult {
    /// Starts a result with the current time and the description of this machine. Fails if git does not name
    /// the commit, or if the machine cannot be described.
    pub fn begin(id: &str, title: &str, command: &str, columns: &[&str]) -> Result<StudyResult> {
        let git =
            |words: &[&str]| process::output(Command::new("git").args(words).current_dir(process::root()));
        let origin = Origin::Measured {
            commit: git(&["rev-parse", "HEAD"])?,
            // Results are not measured sources: a study in shares writes its result several times.
            changed: !git(&[
                "status",
                "--porcelain",
                "--untracked-files=no",
                "--",
                ".",
                ":!studies/results",
            ])?
            .is_empty(),
            date: process::output(Command::new("date").args(["--utc", "+%F"]))?,
            machine: Machine::this()?,
        };
        Ok(StudyResult {
            schema: SCHEMA,
            id: id.to_owned(),
            title: title.to_owned(),
            command: command.to_owned(),
            origin,
            seed: None,
            rounds: None,
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: Vec::new(),
            remark: String::new(),
        })
    }

    /// Adds a row to the table, and prints the row. Panics if the row does not have one cell for each column
    /// except the first.
    pub fn row(&mut self, name: impl Into<String>, cells: Vec<Cell>) {
        assert_eq!(cells.len() + 1, self.columns.len(), "{}: each column needs a cell", self.id);
        if self.rows.is_empty() {
            print!("{}", self.head());
        }
        let row = Row { name: name.into(), cells };
        println!("{}", row.line());
        self.rows.push(row);
    }

    /// Returns the table in Markdown format.
    pub fn table(&self) -> String {
        let lines = self.rows.iter().map(|row| row.line() + "\n");
        lines.fold(self.head(), |text, line| text + &line)
    }

    fn head(&self) -> String {
        format!("{}\n|{}\n", line(&self.columns), "---|".repeat(self.columns.len()))
    }

    /// Writes the result and returns the path of its file. A partial result is written to the folder of
    /// generated files, because it must not replace a complete result. Fails if the file cannot be written.
    pub fn keep(&self, is_complete: bool) -> Result<PathBuf> {
        let folder = if is_complete { folder() } else { process::scratch("results")? };
        let path = self.file(&folder);
        fs::write(&path, self.text()?).with_context(|| format!("cannot write {}", path.display()))?;
        println!("\nThe result is in {}.", path.display());
        Ok(path)
    }

    /// Replaces the file at `path` by this result, in one step: an interrupted command leaves the earlier result. Fails if the
    /// file cannot be written.
    pub fn replace(&self, path: &Path) -> Result<()> {
        let new = path.with_extension("json.new");
        fs::write(&new, self.text()?).with_context(|| format!("cannot write {}", new.display()))?;
        fs::rename(&new, path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns the path of the result's file in a folder. The id can contain a dot, so its end is not an extension.
    fn file(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{}.json", self.id))
    }

    /// Returns the text of the result's file, with one line per row. Fails if the result cannot be
    /// serialized.
    pub fn text(&self) -> Result<String> {
        let head = StudyResult { rows: Vec::new(), ..self.clone() };
        let rows = self.rows.iter().map(|row| Ok(format!("\n    {}", serde_json::to_string(row)?)));
        let rows = rows.collect::<Result<Vec<_>>>()?.join(",");
        let end = if rows.is_empty() { "]" } else { "\n  ]" };
        let text = serde_json::to_string_pretty(&head)? + "\n";
        Ok(text.replacen("\"rows\": []", &format!("\"rows\": [{rows}{end}"), 1))
    }

    /// Returns a result with only the named columns, in the given order. Fails if the result does not have
    /// one of the columns.
    pub fn with_columns(&self, titles: &[&str]) -> Result<StudyResult> {
        let find = |title: &&str| {
            let at = self.columns.iter().skip(1).position(|column| column == title);
            at.with_context(|| format!("the result `{}` has no column `{title}`", self.id))
        };
        let places = titles.iter().map(find).collect::<Result<Vec<_>>>()?;
        let columns = self.columns.iter().take(1).cloned();
        let chosen = |row: &Row| Row {
            name: row.name.clone(),
            cells: places.iter().map(|at| row.cells[*at].clone()).collect(),
        };
        Ok(StudyResult {
            columns: columns.chain(titles.iter().map(|title| (*title).to_owned())).collect(),
            rows: self.rows.iter().map(chosen).collect(),
            ..self.clone()
        })
    }

    /// Reads a result from its file. Fails if the file cannot be read, has another version, or is damaged.
    pub fn read(path: &Path) -> Result<StudyResult> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        parse(&text).with_context(|| format!("{} is not a result", path.display()))
    }

    /// Reads all results in the folder of results, sorted by name. Returns the error of the first result that
    /// cannot be read.
    pub fn all() -> Result<Vec<StudyResult>> {
        let folder = folder();
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.sort();
        paths.iter().map(|path| StudyResult::read(path)).collect()
    }
}

impl Row {
    fn line(&self) -> String {
        let cells = self.cells.iter().map(Cell::shown);
        line(&[self.name.clone()].into_iter().chain(cells).collect::<Vec<_>>())
    }
}

fn line(cells: &[String]) -> String {
    let cells = cells.iter().map(|cell| if cell.is_empty() { "| ".to_owned() } else { format!("| {cell} ") });
    cells.collect::<String>() + "|"
}

impl Machine {
    fn this() -> Result<Machine> {
        let read = |path: &str| fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
        let memory = read("/proc/meminfo")?;
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
        let kib: u64 = total.and_then(|word| word.parse().ok()).context("/proc/meminfo has no MemTotal")?;
        let is_virtual = read("/proc/cpuinfo")?.contains(" hypervisor");
        Ok(Machine {
            kind: format!("{}, {}", std::env::consts::ARCH, if is_virtual { "virtual" } else { "physical" }),
            processors: u32::try_from(std::thread::available_parallelism()?.get())?,
            memory_bytes: kib * 1024,
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        })
    }
}

/// Returns the folder of complete results.
pub fn folder() -> PathBuf {
    process::root().join("studies/results")
}

fn parse(text: &str) -> Result<StudyResult> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    // Check the version first, because other fields may have changed.
    let Version { schema } = serde_json::from_str(text)?;
    ensure!(schema == SCHEMA, "the file has format version {schema}; this program reads version {SCHEMA}");
    let result: StudyResult = serde_json::from_str(text)?;
    let cells = result.columns.len().saturating_sub(1);
    let wrong = result.rows.iter().find(|row| row.cells.len() != cells);
    ensure!(wrong.is_none(), "the row `{}` does not have {cells} cells", wrong.map_or("", |row| &row.name));
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> StudyResult {
        StudyResult {
            schema: SCHEMA,
            id: "sample".to_owned(),
            title: "a sample".to_owned(),
            command: "cargo studies sample".to_owned(),
            origin: Origin::Transcribed { commit: "abc".to_owned(), file: "README.md".to_owned() },
            seed: Some(1),
            rounds: Some(3),
            columns: ["", "rate", "verdict"].map(str::to_owned).into(),
            rows: vec![Row {
                name: "one".to_owned(),
                cells: vec![Cell::rounds([3.0, 1234.5, 2000.0], "MB/s", 1), "agrees".into()],
            }],
            remark: String::new(),
        }
    }

    #[test]
    fn a_result_is_read_as_it_was_written() {
        let result = sample();
        assert_eq!(parse(&result.text().unwrap()).unwrap(), result);
        let empty = StudyResult { rows: Vec::new(), ..sample() };
        assert_eq!(parse(&empty.text().unwrap()).unwrap(), empty);
        assert_eq!(result.table(), "| | rate | verdict |\n|---|---|---|\n| one | 1,234.5 MB/s | agrees |\n");
    }

    #[test]
    fn a_file_is_named_after_its_result() {
        for id in ["sample", "algorithm-6.1"] {
            let result = StudyResult { id: id.to_owned(), ..sample() };
            assert_eq!(result.file(Path::new("results")), Path::new("results").join(format!("{id}.json")));
        }
    }

    #[test]
    fn columns_are_chosen_by_their_titles() {
        let one = sample().with_columns(&["verdict"]).unwrap();
        assert_eq!(one.table(), "| | verdict |\n|---|---|\n| one | agrees |\n");
        sample().with_columns(&["speed"]).unwrap_err();
    }

    #[test]
    fn other_versions_and_damaged_results_are_refused() {
        let text = serde_json::to_string(&sample()).unwrap();
        for (from, to, why) in [
            ("\"schema\":1", "\"schema\":2,\"new\":0", "version 2"),
            ("\"id\"", "\"unknown\":0,\"id\"", "unknown field"),
            (",\"agrees\"", "", "does not have 2 cells"),
            ("\"rows\"", "\"lines\"", "unknown field"),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            let error = format!("{:#}", parse(&changed).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn figures_are_shown_with_their_unit() {
        for (cell, shown) in [
            (Cell::once(0.27, "%", 2), "0.27 %"),
            (Cell::once(1_234_567.0, "", 0), "1,234,567"),
            (Cell::once(-1234.5, "s", 1), "-1,234.5 s"),
            (Cell::once(-123.0, "", 0), "-123"),
            (Cell::rounds([1.0, 4.0], "", 1), "2.5"),
            (Cell::rounds([4.0, 1.0, 2.0], "s", 0).with_range(), "2 s (1 to 4)"),
            (Cell::rounds([Some(1.0), None], "s", 1), "–"),
            (Cell::once(f64::NAN, "s", 1), "–"),
        ] {
            assert_eq!(cell.shown(), shown);
        }
    }

    #[test]
    fn this_machine_is_described_without_a_name() {
        let machine = Machine::this().expect("/proc can be read");
        assert!(machine.processors > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
        assert!(!machine.kind.contains('/'));
    }
}
