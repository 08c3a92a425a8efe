//! Keeps the analysis of each recording, so that each recording is analysed only once.

use std::path::Path;

use fonio_analysis::{Analyser, Analysis, AnalysisOptions};
use fonio_core::Meta;
use fonio_recording::{Recording, Tables};
use fonio_report::Document;

use crate::error::ExperimentError;

/// A recording's analysis and metadata.
#[derive(Clone, Debug)]
pub struct Analysed {
    /// The analysis of the recording.
    pub analysis: Analysis,
    /// The metadata of the recording.
    pub meta: Meta,
}

impl Analysed {
    /// Reads and analyses the recording in the directory `path`.
    pub fn of(path: &Path) -> Result<Analysed, ExperimentError> {
        let recording = Recording::open(path)?;
        let mut analyser = Analyser::new(AnalysisOptions::default());
        recording.replay(&mut analyser, Tables::ALL)?;
        let meta = recording.meta().clone();
        Ok(Analysed { analysis: analyser.finish(&meta), meta })
    }

    /// Creates the report on the recording.
    pub fn document(&self) -> Document {
        Document::from_analysis(&self.analysis, &self.meta)
    }
}
