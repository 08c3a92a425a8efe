//! Writes JSON: the analysis in an envelope with the schema version.
//!
//! The schema is published as `docs/report.schema.json`. Within one version of the schema, fields can be
//! added, but not removed or redefined.

use std::io;

use fonio_analysis::{Analysis, Comparison, Figure};
use fonio_core::Unit;
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};

use crate::budget::Outcome;

/// The name and version of the schema of [`Report`].
pub const REPORT_SCHEMA: &str = "fonio.report/2";
/// The name and version of the schema of [`ComparisonReport`].
pub const COMPARISON_SCHEMA: &str = "fonio.comparison/2";

/// The report on one recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `fonio.report/2`.
    pub schema: String,
    /// The report in one sentence.
    pub verdict: String,
    /// All figures for findings and budgets; docs/figures.md lists the names.
    pub figures: Vec<Figure>,
    /// The budgets of the call, with their results; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<CheckedBudget>,
    /// The analysis.
    pub analysis: Analysis,
}

/// The report that compares other recordings with the first recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonReport {
    /// `fonio.comparison/2`.
    pub schema: String,
    /// The budgets of the call, with their results for each recording; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<CheckedBudget>,
    /// Every difference.
    pub comparison: Comparison,
}

/// A budget and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedBudget {
    /// The name of the recording; absent if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
    /// The budget of the call: `FIGURE<=LIMIT`.
    pub budget: String,
    /// The complete name of the figure.
    pub figure: String,
    /// The unit of `actual` and `limit`.
    pub unit: Unit,
    /// The value of the figure.
    pub actual: f64,
    /// The threshold.
    pub limit: f64,
    /// Whether the figure is within the budget.
    pub passed: bool,
    /// The result in one sentence.
    pub sentence: String,
}

impl CheckedBudget {
    /// Creates the JSON of a checked budget. `recording` is the name of the recording, if there are several.
    pub fn of(outcome: &Outcome, recording: Option<&str>) -> CheckedBudget {
        let Outcome { passed, path, budget, unit, actual, limit, sentence } = outcome.clone();
        let recording = recording.map(str::to_owned);
        CheckedBudget { recording, budget, figure: path, unit, actual, limit, passed, sentence }
    }
}

/// What `--json` may print.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(title = "fonio report")]
#[expect(dead_code, reason = "only the schema uses this type")]
enum Published {
    /// Of one recording.
    Report(Box<Report>),
    /// Of several.
    Comparison(ComparisonReport),
}

#[derive(Serialize)]
struct ReportRef<'a> {
    schema: &'static str,
    verdict: &'a str,
    figures: Vec<Figure>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    budgets: &'a [CheckedBudget],
    analysis: &'a Analysis,
}

#[derive(Serialize)]
struct ComparisonRef<'a> {
    schema: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    budgets: &'a [CheckedBudget],
    comparison: &'a Comparison,
}

/// Writes an analysis as one line of JSON, with the results of budgets. Returns errors of writing to `out`.
pub fn render_json(
    analysis: &Analysis,
    budgets: &[CheckedBudget],
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let (verdict, figures) = (&analysis.verdict, analysis.figures());
    line(&ReportRef { schema: REPORT_SCHEMA, verdict, figures, budgets, analysis }, out)
}

/// Writes a comparison as one line of JSON, with the results of budgets. Returns errors of writing to `out`.
pub fn render_comparison_json(
    comparison: &Comparison,
    budgets: &[CheckedBudget],
    out: &mut dyn io::Write,
) -> io::Result<()> {
    line(&ComparisonRef { schema: COMPARISON_SCHEMA, budgets, comparison }, out)
}

fn line(value: &impl Serialize, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Returns the schema of the JSON reports (JSON Schema 2020-12).
pub fn schema() -> Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Published>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_up_to_date() {
        let text = serde_json::to_string_pretty(&schema()).expect("a schema is JSON") + "\n";
        expect_test::expect_file!["../../../docs/report.schema.json"].assert_eq(&text);
    }

    #[test]
    fn the_envelope_comes_back() {
        let analysis = Analysis { verdict: "Storage is not the problem.".into(), ..Analysis::default() };
        let budgets = [CheckedBudget {
            recording: None,
            budget: "totals.requests<=5".into(),
            figure: "totals.requests".into(),
            unit: Unit::Count,
            actual: 7.0,
            limit: 5.0,
            passed: false,
            sentence: "totals.requests is 7, outside the budget of <= 5".into(),
        }];
        let mut out = Vec::new();
        render_json(&analysis, &budgets, &mut out).expect("memory takes everything");
        let report: Report = serde_json::from_slice(&out).expect("written JSON can be parsed");
        assert_eq!(
            report,
            Report {
                schema: REPORT_SCHEMA.into(),
                verdict: analysis.verdict.clone(),
                figures: analysis.figures(),
                budgets: budgets.into(),
                analysis
            }
        );
    }
}
