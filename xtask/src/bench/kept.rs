//! `cargo xtask bench --all` runs the short form of every benchmark and writes their results into one file.
//! `cargo xtask bench --against FILE` compares such a file with the present build.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use xtask::results::{Cell, StudyResult};

use super::{instructions, programs, readers, report, start, sync_policy};
use crate::process;

/// The columns that are compared: the id of the result, the title of the column, whether less is better, and the
/// part by which a value may be worse. Instructions hardly vary. Ratios of times in one run do.
const COMPARED: [(&str, &str, Better, f64); 3] = [
    (instructions::ID, instructions::INSTRUCTIONS, Better::Less, 0.05),
    (readers::ID, readers::TIMES_WC, Better::Less, 0.25),
    (report::ID, report::FASTER, Better::More, 0.25),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Less,
    More,
}

/// Runs the short form of every benchmark, and writes all results into one file.
///
/// Users other than root get a message that the cost of recording was not measured. The comparisons of two builds
/// (`against`, `probes`), and the benchmarks of the watch and of the results service, which take hours or gigabytes,
/// have no short form.
pub fn all() -> Result<()> {
    let mut results = vec![
        instructions::measure()?.1,
        readers::run(&readers::Arguments { megabytes: 20, rounds: 3 })?,
        report::run(&report::Arguments { ios: 500_000, runs: 3 })?,
        start::run(&start::Arguments { rounds: 3, share: None })?,
        programs::DEVICES.run(&[("rounds", 1, 3)])?,
    ];
    let sync_policy = sync_policy::measure()?;
    sync_policy.keep(false)?;
    results.push(sync_policy);
    if process::is_root() {
        results.push(programs::RECORD.run(&[("rounds", 1, 5), ("seconds", 1, 3)])?);
        results.push(programs::BLOCKED.run(&[("rounds", 1, 3), ("seconds", 1, 5)])?);
        results.push(programs::STATEMENTS.run(&[("rounds", 1, 10), ("rows", 10_000, 100_000)])?);
    } else {
        println!("The cost of recording was not measured, because recording needs root.");
    }
    let path = process::scratch("results")?.join("bench-all.json");
    write(&path, &results)?;
    println!(
        "\nAll results are in {}. Compare with it later: cargo xtask bench --against FILE",
        path.display()
    );
    Ok(())
}

/// Measures again what can be compared, and prints what got slower than in the file. Fails if anything did.
pub fn against(file: &Path) -> Result<()> {
    let before = read(file)?;
    let has = |id: &str| before.iter().any(|result| result.id == id);
    let mut now = Vec::new();
    if has(instructions::ID) {
        now.push(instructions::measure()?.1);
    }
    if has(readers::ID) {
        now.push(readers::run(&readers::Arguments { megabytes: 20, rounds: 3 })?);
    }
    if has(report::ID) {
        now.push(report::run(&report::Arguments { ios: 500_000, runs: 3 })?);
    }
    let (compared, worse) = compare(&before, &now);
    if compared == 0 {
        bail!(
            "{} has no result that can be compared; make one with `cargo xtask bench --all`",
            file.display()
        );
    }
    if worse.is_empty() {
        println!("\nNone of {compared} figures got slower than in {}.", file.display());
        return Ok(());
    }
    bail!(
        "{} of {compared} figures got slower than in {}:\n{}",
        worse.len(),
        file.display(),
        worse.join("\n")
    )
}

fn write(path: &Path, results: &[StudyResult]) -> Result<()> {
    fs::write(path, serde_json::to_string_pretty(results)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))
}

fn read(path: &Path) -> Result<Vec<StudyResult>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not a file of `cargo xtask bench --all`", path.display()))
}

/// Returns the number of compared figures, and a sentence for each figure that is worse than before.
fn compare(before: &[StudyResult], now: &[StudyResult]) -> (usize, Vec<String>) {
    let (mut compared, mut worse) = (0, Vec::new());
    for (id, column, better, limit) in COMPARED {
        let of = |results: &[StudyResult]| {
            let result = results.iter().find(|result| result.id == id);
            result.map_or_else(Vec::new, |result| column_of(result, column))
        };
        let now = of(now);
        for (name, before) in of(before) {
            let Some((_, now)) = now.iter().find(|(known, _)| *known == name) else { continue };
            compared += 1;
            let factor = if better == Better::Less { now / before } else { before / now };
            if factor > 1.0 + limit {
                let title = column.replace('`', "");
                worse.push(format!(
                    "{name}, {title}: {now:.4} instead of {before:.4} ({:.0} % worse)",
                    100.0 * (factor - 1.0)
                ));
            }
        }
    }
    (compared, worse)
}

/// Returns the names and the medians of the rows of a column that have values.
fn column_of(result: &StudyResult, column: &str) -> Vec<(String, f64)> {
    let Some(at) = result.columns.iter().skip(1).position(|title| title == column) else { return Vec::new() };
    let median = |cell: &Cell| match cell {
        Cell::Quantity(quantity) => {
            let mut values: Vec<f64> = quantity.values.iter().copied().collect::<Option<_>>()?;
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        }
        Cell::Text(_) => None,
    };
    let rows = result.rows.iter();
    rows.filter_map(|row| Some((row.name.clone(), median(row.cells.get(at)?)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(instructions: f64, faster: f64) -> Vec<StudyResult> {
        let mut all = Vec::new();
        for (id, column, value) in [
            (instructions::ID, instructions::INSTRUCTIONS, instructions),
            (report::ID, report::FASTER, faster),
        ] {
            let mut result =
                StudyResult::begin(id, "", "", &["", column]).expect("this machine is described");
            result.row("a", vec![Cell::rounds([value, value, 9e9], "", 0)]);
            result.row("b", vec!["".into()]);
            all.push(result);
        }
        all
    }

    #[test]
    fn what_got_slower_is_named() {
        let before = results(1000.0, 10.0);
        assert_eq!(compare(&before, &results(1050.0, 8.0)), (2, vec![]));
        let (compared, worse) = compare(&before, &results(1051.0, 7.9));
        let expected = [
            "a, instructions: 1051.0000 instead of 1000.0000 (5 % worse)".to_owned(),
            format!("a, {}: 7.9000 instead of 10.0000 (27 % worse)", report::FASTER),
        ];
        assert_eq!((compared, worse), (2, expected.to_vec()));
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("all.json");
        let all = results(1.0, 2.0);
        write(&path, &all).expect("it is written");
        assert_eq!(read(&path).expect("it is read"), all);
        fs::write(&path, "{}").expect("it is written");
        assert!(
            read(&path)
                .expect_err("it is no list")
                .to_string()
                .ends_with("is not a file of `cargo xtask bench --all`")
        );
    }
}
