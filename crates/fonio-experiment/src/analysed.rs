//! A recording with its analysis, so that each is analysed once.

use std::path::Path;

use fonio_analysis::{Analyser, Analysis, AnalysisOptions};
use fonio_core::Meta;
use fonio_recording::{Recording, Tables};
use fonio_report::Document;

use crate::error::ExperimentError;

/// What a recording says.
#[derive(Clone, Debug)]
pub struct Analysed {
    /// Its analysis.
    pub analysis: Analysis,
    /// What it says about its source.
    pub meta: Meta,
}

impl Analysed {
    /// Analyses the recording in the directory `path`.
    ///
    /// # Errors
    ///
    /// [`ExperimentError::Recording`].
    pub fn of(path: &Path) -> Result<Analysed, ExperimentError> {
        let recording = Recording::open(path)?;
        let mut analyser = Analyser::new(AnalysisOptions::default());
        recording.replay(&mut analyser, Tables::ALL)?;
        let meta = recording.meta().clone();
        Ok(Analysed { analysis: analyser.finish(&meta), meta })
    }

    /// The report on it.
    pub fn document(&self) -> Document {
        Document::from_analysis(&self.analysis, &self.meta)
    }
}
