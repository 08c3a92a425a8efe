//! The analysis of an input, and the comparison of several analyses.

use std::sync::atomic::Ordering;

use fonio_analysis::compare::interval::RUNS_MIN;
use fonio_analysis::compare::{Named, compare as compare_analyses};
use fonio_analysis::{Analyser, AnalysisOptions};
use fonio_core::{Meta, RowSink};
use fonio_report::{Document, TerminalStyle, json, render_html, render_terminal};
use pyo3::prelude::*;

use crate::arrow::from_object;
use crate::error::{refused, wrong};
use crate::interrupt::interruptible;
use crate::requests::read_rows;

/// The analysis of an input, with its metadata.
#[pyclass(frozen, module = "fonio._fonio")]
pub struct Explained {
    inner: fonio_input::Explained,
}

impl Explained {
    pub fn new(inner: fonio_input::Explained) -> Explained {
        Explained { inner }
    }
}

#[pymethods]
impl Explained {
    /// The name of the input.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// The report as JSON, as `fonio report --json` writes it (`docs/report.schema.json`).
    fn json(&self) -> String {
        let mut out = Vec::new();
        json::render_json(&self.inner.analysis, &[], &mut out).expect("memory takes everything");
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    /// The metadata as JSON.
    fn meta(&self) -> String {
        serde_json::to_string(&self.inner.meta).expect("metadata is JSON")
    }

    /// The report as an HTML page without references to other files.
    fn html(&self) -> String {
        let document = Document::from_analysis(&self.inner.analysis, &self.inner.meta);
        let mut out = Vec::new();
        render_html(&document, &mut out).expect("memory takes everything");
        String::from_utf8(out).expect("the page is UTF-8")
    }

    /// The report as text, as a terminal shows it.
    fn text(&self) -> String {
        let document = Document::from_analysis(&self.inner.analysis, &self.inner.meta);
        let mut out = Vec::new();
        render_terminal(
            &document,
            TerminalStyle { width: 100, rows: usize::MAX, ..TerminalStyle::PLAIN },
            &mut out,
        )
        .expect("memory takes everything");
        String::from_utf8(out).expect("the text is UTF-8")
    }
}

/// Compares each further side with the first side, and returns the comparison as JSON, as `fonio compare --json` writes
/// it.
#[pyfunction]
pub fn compare(sides: Vec<(String, Vec<Bound<'_, Explained>>)>) -> PyResult<String> {
    let runs = sides.iter().map(|(_, side)| side.len());
    let (most, least) = (runs.clone().max().unwrap_or(0), runs.min().unwrap_or(0));
    if sides.len() < 2 || least == 0 {
        return Err(wrong("a comparison needs at least two sides with a recording each"));
    }
    if most > 1 && least < RUNS_MIN {
        return Err(wrong(format!(
            "one side has {least} and another {most} recordings: give at least {RUNS_MIN} recordings on each side, or one \
             on each"
        )));
    }
    let named: Vec<_> = sides
        .iter()
        .map(|(name, side)| Named {
            // A side that has only one recording gets the recording's name.
            name: if let [only] = side.as_slice() { only.get().inner.name.clone() } else { name.clone() },
            value: side
                .iter()
                .map(|one| Named { name: one.get().inner.name.clone(), value: &one.get().inner.analysis })
                .collect(),
        })
        .collect();
    let comparison = compare_analyses(&named);
    let mut out = Vec::new();
    json::render_comparison_json(&comparison, &[], &mut out).expect("memory takes everything");
    Ok(String::from_utf8(out).expect("JSON is UTF-8"))
}

/// Analyses a table of requests, such as the result of a simulation or a table of another tool. The table needs the
/// columns `op` and `bytes`, and should have the times of the table `requests` of recordings.
#[pyfunction]
pub fn analyse_requests(py: Python<'_>, name: String, requests: &Bound<'_, PyAny>) -> PyResult<Explained> {
    let reader = from_object(requests, "requests")?;
    let analysis = interruptible(py, move |stop| -> PyResult<_> {
        let mut rows = Vec::new();
        read_rows(reader, |row| {
            rows.push(row);
            if stop.load(Ordering::Relaxed) { Err(wrong("interrupted")) } else { Ok(()) }
        })?;
        rows.sort_by(fonio_core::Request::order);
        let mut analyser = Analyser::new(AnalysisOptions::default());
        for row in &rows {
            analyser.request(row).map_err(refused)?;
        }
        Ok(analyser.finish(&Meta::default()))
    })??;
    Ok(Explained::new(fonio_input::Explained { name, analysis, meta: Meta::default() }))
}
