//! Runs fonio and returns its JSON output.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;
use xtask::process;

/// Runs `fonio report` on a recording, and returns its JSON output.
pub fn report(fonio: &Path, recording: &Path) -> Result<Value> {
    answer(fonio, &["report".as_ref(), recording.as_os_str()])
}

/// Runs fonio with the arguments `words` and `--json`. The JSON is also used if the command fails because of
/// its findings. If this process is killed, fonio ends and undoes its changes.
pub fn answer<T: DeserializeOwned>(fonio: &Path, words: &[&OsStr]) -> Result<T> {
    let mut command = process::bound_to_this(fonio);
    let output = command.args(words).arg("--json").stderr(Stdio::inherit()).output();
    let output = output.context("cannot start fonio")?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{} gave no JSON ({})", process::shown(&command), output.status))
}
