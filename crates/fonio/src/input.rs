//! Opens the inputs that the user named.

use std::path::PathBuf;

use anyhow::Result;
pub use fonio_input::Subject;
use fonio_system::say;

use crate::last;

/// Determines whether `paths` are one recording, one kept stall, or the files of one trace. The path `last` is the
/// newest kept recording.
pub fn resolve(paths: &[PathBuf]) -> Result<Subject> {
    let [path] = paths else { return Ok(Subject::resolve(paths)?) };
    let paths = [last::resolve(path)?];
    let subject = Subject::resolve(&paths)?;
    if let Some(files) = subject.files_beyond(&paths) {
        say!(
            "{} is one of {files} files, one for each processor; fonio reads all of them.",
            paths[0].display()
        );
    }
    Ok(subject)
}
