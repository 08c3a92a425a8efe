//! Analyses an input.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fonio_analysis::{Analyser, Analysis, AnalysisOptions, Filter, FilterOptions};
use fonio_core::{Meta, RowSink};
use fonio_recording::{Key, Redactor, redacted_meta};
use fonio_system::MountTable;

use crate::error::InputError;
use crate::stop::UntilStopped;
use crate::subject::Subject;
use crate::trace::Reading;

/// The name, analysis and metadata of one recording or trace.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The name of the recording or trace, as given by the user.
    pub name: String,
    /// The analysis of the rows.
    pub analysis: Analysis,
    /// The metadata of the recording or trace.
    pub meta: Meta,
}

/// The title of a redacted report, because the path of the input is also a name.
pub const REDACTED: &str = "redacted recording";

/// Analyses an input until `stop` is set. Only rows that pass the filter count. A `key` replaces names by tokens.
///
/// # Errors
/// Returns errors of the input, of the filter, and an error if `stop` was set.
pub fn explain(
    subject: &Subject,
    reading: &Reading,
    filter: Option<FilterOptions>,
    stop: &AtomicBool,
    key: Option<&Key>,
) -> Result<Explained, InputError> {
    let name = if key.is_some() { REDACTED.to_owned() } else { subject.name() };
    let mut shown = filter.clone();
    // The rows are filtered before names are replaced, but the report shows the filter, so redact the filter.
    for filter in shown.iter_mut().filter(|_| key.is_some()) {
        for names in [&mut filter.comms, &mut filter.units, &mut filter.files] {
            names.iter_mut().for_each(|name| *name = "redacted".to_owned());
        }
    }
    let mut analyser = Analyser::new(AnalysisOptions { filter: shown, ..AnalysisOptions::default() });
    let mut sink = UntilStopped::new(&mut analyser, stop);
    let pour = |sink: &mut dyn RowSink| match filter {
        None => subject.pour(reading, sink),
        Some(filter) => subject.pour(reading, &mut Filter::new(filter, sink)?),
    };
    let meta = match key {
        None => pour(&mut sink)?,
        Some(key) => redacted_meta(key, &pour(&mut Redactor::new(key, &mut sink))?),
    };
    let mut analysis = analyser.finish(&meta);
    replace_missing_targets(&mut analysis, &meta);
    Ok(Explained { name, analysis, meta })
}

/// Returns whether a recording was made on this machine.
pub fn is_of_this_machine(meta: &Meta) -> bool {
    meta.host.name.as_deref() == rustix::system::uname().nodename().to_str().ok()
}

/// Removes devices, files and mounts that are gone from the advice, if the recording is from this machine.
fn replace_missing_targets(analysis: &mut Analysis, meta: &Meta) {
    if !is_of_this_machine(meta) {
        return;
    }
    let mounts = MountTable::read().unwrap_or_default();
    let recorded = meta.devices.iter().flat_map(|device| &device.mounts);
    analysis.replace_missing_targets(|path| {
        let path = Path::new(path);
        // Without its mount, the folder is part of another file system.
        let was_mount = recorded.clone().any(|mount| Path::new(&mount.at) == path);
        path.exists() && (!was_mount || mounts.at(path).is_some())
    });
}
