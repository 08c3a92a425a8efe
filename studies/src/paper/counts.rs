//! Counts rows by their standing, and the published numbers that they compare.
//!
//! The same counts are made from the rows of a run and from the rows of a result file.

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use xtask::results::{Origin, StudyResult};

use super::measured::Kind;
use super::row::{COLUMNS, KIND, NUMBERS, Row, VERDICT};
use super::standing::{Standing, Unscored, Verdict};

/// The number of scored rows with each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Scored {
    agree: u32,
    differ: u32,
    not_shown: u32,
    cannot: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    real_program: Scored,
    imitation: Scored,
    model: Scored,
    /// Rows that are shown, but not scored.
    by_construction: u32,
    known: u32,
    one_bound: u32,
    follow: u32,
    /// Numbers of ours without a published number.
    not_published: u32,
    /// How many published numbers the rows compare.
    numbers: u32,
}

impl Scored {
    /// The words for one row, and for several.
    const WORDS: [[&str; 2]; 4] =
        [["agrees", "agree"], ["differs", "differ"], ["not shown"; 2], ["cannot be had"; 2]];

    fn each(self) -> [u32; 4] {
        [self.agree, self.differ, self.not_shown, self.cannot]
    }

    /// Returns the counts for a table, such as "3 / 1 / 0 / 2"; a dash if there are no rows.
    pub(super) fn cell(self) -> String {
        if self == Scored::default() {
            return "–".to_owned();
        }
        self.each().map(|count| count.to_string()).join(" / ")
    }

    fn sentence(self) -> Option<String> {
        let words = |(count, [one, several]): (u32, [&'static str; 2])| {
            (count, if count == 1 { one } else { several })
        };
        listed(self.each().into_iter().zip(Scored::WORDS).map(words))
    }

    fn add(&mut self, other: Scored) {
        self.agree += other.agree;
        self.differ += other.differ;
        self.not_shown += other.not_shown;
        self.cannot += other.cannot;
    }
}

/// Returns the counts above 0 with their words; `None` if all are 0.
fn listed(counts: impl IntoIterator<Item = (u32, &'static str)>) -> Option<String> {
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let listed: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    (!listed.is_empty()).then(|| listed.join(", "))
}

impl Counts {
    pub(super) fn of(rows: &[Row]) -> Counts {
        let mut counts = Counts::default();
        for row in rows {
            counts.count(row.standing(), row.numbers());
        }
        counts
    }

    /// Counts the rows of a result file. `None` for a file without rows of these rules: its figures were copied
    /// from a document, or measured before there were kinds.
    pub(super) fn read(result: &StudyResult) -> Result<Option<Counts>> {
        if matches!(result.origin, Origin::Transcribed { .. }) || result.columns != COLUMNS {
            ensure!(result.rows.is_empty(), "{}: the rows have other columns", result.id);
            return Ok(None);
        }
        let mut counts = Counts::default();
        for row in &result.with_columns(&[KIND, VERDICT, NUMBERS])?.rows {
            let [kind, verdict, numbers] = [0, 1, 2].map(|at| row.cells[at].shown());
            let unknown =
                || format!("{}: the row {} has an unknown kind, verdict or count", result.id, row.name);
            let standing = Standing::parse(&kind, &verdict).with_context(unknown)?;
            counts.count(standing, numbers.parse().with_context(unknown)?);
        }
        Ok(Some(counts))
    }

    fn count(&mut self, standing: Standing, numbers: u32) {
        let Standing { kind, unscored, verdict } = standing;
        self.numbers += numbers;
        let scored = match (unscored, kind) {
            _ if verdict == Verdict::NotPublished => {
                self.not_published += 1;
                return;
            }
            (Some(Unscored::Construction), _) | (None, Kind::Construction) => {
                self.by_construction += 1;
                return;
            }
            (Some(Unscored::Known), _) => {
                self.known += 1;
                return;
            }
            (Some(Unscored::OneBound), _) => {
                self.one_bound += 1;
                return;
            }
            (Some(Unscored::Follows), _) => {
                self.follow += 1;
                return;
            }
            (None, Kind::RealProgram) => &mut self.real_program,
            (None, Kind::Imitation) => &mut self.imitation,
            (None, Kind::Model) => &mut self.model,
        };
        match verdict {
            Verdict::Agrees => scored.agree += 1,
            Verdict::Differs => scored.differ += 1,
            Verdict::NotShown => scored.not_shown += 1,
            Verdict::Cannot | Verdict::NotPublished => scored.cannot += 1,
        }
    }

    pub(super) fn add(&mut self, other: &Counts) {
        self.real_program.add(other.real_program);
        self.imitation.add(other.imitation);
        self.model.add(other.model);
        self.by_construction += other.by_construction;
        self.known += other.known;
        self.one_bound += other.one_bound;
        self.follow += other.follow;
        self.not_published += other.not_published;
        self.numbers += other.numbers;
    }

    pub(super) fn scored(&self) -> [(Kind, Scored); 3] {
        [(Kind::RealProgram, self.real_program), (Kind::Imitation, self.imitation), (Kind::Model, self.model)]
    }

    /// Returns how many published numbers the rows compare.
    pub(super) fn numbers(&self) -> u32 {
        self.numbers
    }

    pub(super) fn by_construction(&self) -> u32 {
        self.by_construction
    }

    pub(super) fn known(&self) -> u32 {
        self.known
    }

    /// Returns the number of rows with a bound without an upper end, and of rows that follow from other rows.
    pub(super) fn one_bound_or_following(&self) -> u32 {
        self.one_bound + self.follow
    }

    /// Returns the headline of a table or figure that has `published` numbers: "Of 4 published numbers, 2 are in
    /// rows. On imitations: 1 agrees, 1 differs. Not scored: 2 by construction."
    pub(super) fn headline(&self, published: u32) -> String {
        let mut sentences = vec![of_published(published, self.numbers)];
        for (kind, scored) in self.scored() {
            let kind = match kind {
                Kind::RealProgram => "On real programs",
                Kind::Imitation => "On imitations",
                Kind::Model | Kind::Construction => "On models",
            };
            sentences.extend(scored.sentence().map(|counts| format!("{kind}: {counts}.")));
        }
        let unscored = listed([
            (self.by_construction, Unscored::Construction.name()),
            (self.known, Unscored::Known.name()),
            (self.one_bound, Unscored::OneBound.name()),
            (self.follow, Unscored::Follows.name()),
        ]);
        sentences.extend(unscored.map(|counts| format!("Not scored: {counts}.")));
        sentences.join(" ")
    }
}

fn of_published(published: u32, in_rows: u32) -> String {
    match (published, in_rows) {
        (0, _) => "The study gives no numbers.".to_owned(),
        (1, 1) => "The published number is in a row.".to_owned(),
        (1, _) => "The published number is in no row.".to_owned(),
        (_, 0) => format!("None of {published} published numbers is in a row."),
        (_, 1) => format!("Of {published} published numbers, 1 is in a row."),
        _ if published == in_rows => format!("All {published} published numbers are in rows."),
        _ => format!("Of {published} published numbers, {in_rows} are in rows."),
    }
}

#[cfg(test)]
mod tests {
    use super::super::measured::Kind::{Construction, Imitation, Model, RealProgram};
    use super::super::row::Quantity;
    use super::*;

    const MB: Quantity = Quantity::new("MB", 1, 1.5, 0.1);

    fn rows() -> Vec<Row> {
        let row = |ours| MB.row("a", 2.0, &ours, "");
        let more = |value: f64| {
            Row::within(
                "a",
                "more than 1",
                |value| value.to_string(),
                (&Imitation.once(value), 1.0..=f64::INFINITY),
                "",
            )
        };
        vec![
            row(RealProgram.once(2.0)),
            row(Imitation.once(2.0)),
            row(Imitation.once(9.0)),
            MB.effect("a", 2.0, &Imitation.runs([2.0; 3]), ""),
            MB.cannot(Imitation, "a", 2.0, "it needs root"),
            row(Model.once(9.0)),
            row(Model.once(2.0).known(true)).of_numbers(4),
            row(Construction.once(2.0)),
            MB.cannot(Construction, "a", 2.0, "it needs root"),
            more(2.0),
            Row::ours_alone(Imitation, "a", "2", ""),
        ]
    }

    #[test]
    fn rows_are_counted_by_their_standing() {
        let counts = Counts::of(&rows());
        let expected = "Of 20 published numbers, 12 are in rows. On real programs: 1 agrees. On imitations: 1 agrees, \
            1 differs, 1 not shown, 1 cannot be had. On models: 1 differs. Not scored: 2 by construction, 1 known to \
            the author, 1 bound without an upper end.";
        assert_eq!(counts.headline(20), expected);
        let cells = counts.scored().map(|(_, scored)| scored.cell());
        assert_eq!(cells, ["1 / 0 / 0 / 0", "1 / 1 / 1 / 1", "0 / 1 / 0 / 0"]);
        let mut twice = counts;
        twice.add(&counts);
        let expected = "Of 40 published numbers, 24 are in rows. On real programs: 2 agree. On imitations: 2 agree, 2 \
            differ, 2 not shown, 2 cannot be had. On models: 2 differ. Not scored: 4 by construction, 2 known to the \
            author, 2 bound without an upper end.";
        assert_eq!(twice.headline(40), expected);
    }

    #[test]
    fn a_headline_names_the_denominator() {
        for (published, in_rows, sentence) in [
            (0, 0, "The study gives no numbers."),
            (1, 0, "The published number is in no row."),
            (1, 1, "The published number is in a row."),
            (4, 0, "None of 4 published numbers is in a row."),
            (4, 1, "Of 4 published numbers, 1 is in a row."),
            (4, 2, "Of 4 published numbers, 2 are in rows."),
            (4, 4, "All 4 published numbers are in rows."),
        ] {
            assert_eq!(of_published(published, in_rows), sentence);
        }
    }

    fn result(columns: &[&str], rows: &[Row], origin: Origin) -> StudyResult {
        let text = r#"{ "schema": 1, "id": "paper-a", "title": "a", "command": "c", "origin":
            { "transcribed": { "commit": "0", "file": "README.md" } }, "columns": [], "rows": [] }"#;
        let empty: StudyResult = serde_json::from_str(text).expect("a result");
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        StudyResult { columns, rows: rows.iter().map(Row::kept).collect(), origin, ..empty }
    }

    fn measured() -> Origin {
        let text = r#"{ "measured": { "commit": "0", "changed": false, "date": "2026-11-28", "machine":
            { "kind": "x86_64, virtual", "processors": 2, "memory_bytes": 1, "kernel": "6.18" } } }"#;
        serde_json::from_str(text).expect("an origin")
    }

    #[test]
    fn a_result_file_gives_the_same_counts() {
        let rows = rows();
        let read = Counts::read(&result(&COLUMNS, &rows, measured())).expect("it can be read");
        assert_eq!(read, Some(Counts::of(&rows)));
    }

    #[test]
    fn other_result_files_are_not_counted_or_refused() {
        let old = ["", "published", "ours", "each run", "verdict", "why"];
        let transcribed = Origin::Transcribed { commit: "0".to_owned(), file: "docs/papers.md".to_owned() };
        assert_eq!(Counts::read(&result(&COLUMNS, &[], transcribed.clone())).expect("no rows"), None);
        assert_eq!(Counts::read(&result(&old, &[], measured())).expect("no rows"), None);
        Counts::read(&result(&COLUMNS, &rows(), transcribed)).expect_err("copied rows");
        Counts::read(&result(&old, &rows(), measured())).expect_err("other columns");
        let mut wrong = result(&COLUMNS, &rows(), measured());
        wrong.rows[0].cells[4] = "agreed".into();
        let error = Counts::read(&wrong).expect_err("an unknown verdict").to_string();
        assert!(error.contains("unknown kind, verdict or count"), "{error}");
    }
}
