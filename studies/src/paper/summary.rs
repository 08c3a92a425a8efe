//! The table of all studies and the headline of each table and figure, from result files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use xtask::results::StudyResult;

use super::counts::Counts;
use super::numbers::Numbers;

/// A study: its name, its name in ids, and its ids.
pub(super) type Study = (&'static str, &'static str, Vec<&'static str>);

const HEAD: [&str; 10] = [
    "study",
    "published numbers",
    "in rows",
    "on real programs",
    "on imitations",
    "on models",
    "by construction",
    "known to the author",
    "one bound, or follows",
    "not run under these rules",
];

/// The counts of a study, or of all studies.
#[derive(Default)]
struct Line {
    published: u32,
    counts: Counts,
    /// The tables and figures that were not run under these rules, and their published numbers.
    not_run: u32,
    numbers_not_run: u32,
}

impl Line {
    fn add(&mut self, other: &Line) {
        self.published += other.published;
        self.counts.add(&other.counts);
        self.not_run += other.not_run;
        self.numbers_not_run += other.numbers_not_run;
    }

    fn cells(&self) -> Vec<String> {
        let Line { published, counts, not_run, numbers_not_run } = self;
        let not_run = match not_run {
            0 => "–".to_owned(),
            _ => format!("{not_run} ({numbers_not_run} numbers)"),
        };
        let mut cells = vec![published.to_string(), counts.numbers().to_string()];
        cells.extend(counts.scored().map(|(_, scored)| scored.cell()));
        cells.extend(
            [counts.by_construction(), counts.known(), counts.one_bound_or_following()]
                .map(|count| count.to_string()),
        );
        cells.push(not_run);
        cells
    }
}

/// Returns the table of the studies, with a line for each study and one for their sum.
pub(super) fn table(studies: &[Study], results: &BTreeMap<String, StudyResult>) -> Result<String> {
    let numbers = Numbers::read()?;
    let mut text = format!("| {} |\n|{}\n", HEAD.join(" | "), "---|".repeat(HEAD.len()));
    let mut sum = Line::default();
    for (name, key, ids) in studies {
        let mut line = Line { published: numbers.without(key).len() as u32, ..Line::default() };
        for id in ids {
            let published = numbers.of(id);
            line.published += published;
            let result = results.get(&format!("paper-{id}"));
            match result.map(Counts::read).transpose()?.flatten() {
                Some(counts) => line.counts.add(&counts),
                None => {
                    line.not_run += 1;
                    line.numbers_not_run += published;
                }
            }
        }
        let _ = writeln!(text, "| {name} | {} |", line.cells().join(" | "));
        sum.add(&line);
    }
    let _ = writeln!(text, "| all | {} |", sum.cells().join(" | "));
    Ok(text)
}

/// Returns what a document says about the result of a table or figure, before the result's remark.
pub(super) fn headline(id: &str, result: &StudyResult) -> Result<String> {
    let published = Numbers::read()?.of(id);
    Ok(match Counts::read(result)? {
        Some(counts) => counts.headline(published),
        None => format!(
            "Not run under these rules ({published} published number{}). By earlier ones:",
            if published == 1 { "" } else { "s" }
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::measured::Kind::{Construction, Imitation};
    use super::super::row::{COLUMNS, Quantity, Row};
    use super::*;

    fn results() -> BTreeMap<String, StudyResult> {
        let text = r#"{ "schema": 1, "id": "", "title": "a", "command": "c", "origin": { "measured": { "commit": "0",
            "changed": false, "date": "2026-11-28", "machine": { "kind": "x86_64, virtual", "processors": 2,
            "memory_bytes": 1, "kernel": "6.18" } } }, "columns": [], "rows": [] }"#;
        let empty: StudyResult = serde_json::from_str(text).expect("a result");
        let mb = Quantity::new("MB", 1, 1.5, 0.1);
        let rows =
            [mb.row("a", 2.0, &Construction.once(2.0), ""), mb.row("b", 2.0, &Imitation.once(9.0), "")];
        let f4 = StudyResult {
            id: "paper-kim-f4".to_owned(),
            columns: COLUMNS.map(str::to_owned).to_vec(),
            rows: rows.iter().map(Row::kept).collect(),
            ..empty.clone()
        };
        let text = r#"{ "transcribed": { "commit": "0", "file": "docs/papers.md" } }"#;
        let origin = serde_json::from_str(text).expect("an origin");
        let old = StudyResult { id: "paper-kim-f5".to_owned(), origin, ..empty };
        [f4, old].into_iter().map(|result| (result.id.clone(), result)).collect()
    }

    #[test]
    fn the_table_has_a_line_for_each_study_and_their_sum() {
        let studies = [("One", "one", vec!["kim-f4", "kim-f5"]), ("Two", "kim", vec!["kim-f10"])];
        let expected = "\
| study | published numbers | in rows | on real programs | on imitations | on models | by construction | known to the author | one bound, or follows | not run under these rules |
|---|---|---|---|---|---|---|---|---|---|
| One | 16 | 2 | – | 0 / 1 / 0 / 0 | – | 1 | 0 | 0 | 1 (12 numbers) |
| Two | 3 | 0 | – | – | – | 0 | 0 | 0 | 1 (2 numbers) |
| all | 19 | 2 | – | 0 / 1 / 0 / 0 | – | 1 | 0 | 0 | 2 (14 numbers) |
";
        assert_eq!(table(&studies, &results()).expect("a table"), expected);
    }

    #[test]
    fn the_headline_says_whether_the_rows_were_measured_by_these_rules() {
        let results = results();
        let expected =
            "Of 4 published numbers, 2 are in rows. On imitations: 1 differs. Not scored: 1 by construction.";
        assert_eq!(headline("kim-f4", &results["paper-kim-f4"]).expect("a headline"), expected);
        let expected = "Not run under these rules (12 published numbers). By earlier ones:";
        assert_eq!(headline("kim-f5", &results["paper-kim-f5"]).expect("a headline"), expected);
    }
}
