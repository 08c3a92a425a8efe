//! Writes JSON: the analysis in an envelope with the schema version.
//!
//! The schema is published as `docs/report.schema.json`. Within one version of the schema, fields can be
//! added, but not removed or redefined.

use std::io;

use fonio_analysis::{Analysis, Comparison, Figure};
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};

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
    /// The analysis.
    pub analysis: Analysis,
}

/// The report that compares other recordings with the first recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparisonReport {
    /// `fonio.comparison/2`.
    pub schema: String,
    /// Every difference.
    pub comparison: Comparison,
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
    analysis: &'a Analysis,
}

#[derive(Serialize)]
struct ComparisonRef<'a> {
    schema: &'static str,
    comparison: &'a Comparison,
}

/// Writes an analysis as one line of JSON. Returns errors of writing to `out`.
pub fn render_json(analysis: &Analysis, out: &mut dyn io::Write) -> io::Result<()> {
    line(&report(analysis), out)
}

/// Writes a comparison as one line of JSON. Returns errors of writing to `out`.
pub fn render_comparison_json(comparison: &Comparison, out: &mut dyn io::Write) -> io::Result<()> {
    line(&ComparisonRef { schema: COMPARISON_SCHEMA, comparison }, out)
}

fn report(analysis: &Analysis) -> ReportRef<'_> {
    ReportRef { schema: REPORT_SCHEMA, verdict: &analysis.verdict, figures: analysis.figures(), analysis }
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
        let mut out = Vec::new();
        render_json(&analysis, &mut out).expect("memory takes everything");
        let report: Report = serde_json::from_slice(&out).expect("written JSON can be parsed");
        assert_eq!(
            report,
            Report {
                schema: REPORT_SCHEMA.into(),
                verdict: analysis.verdict.clone(),
                figures: analysis.figures(),
                analysis
            }
        );
    }
}
