//! Names the parts of a command, and measures their times.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result};

/// The environment variable that names a file to which each part appends a line with its duration in seconds
/// and its name.
pub const PARTS: &str = "FONIO_PARTS";

/// Runs a part of a command. Prints the part's name before the run, and its time afterwards.
pub fn part<T>(name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    println!("== {name}");
    let result = body()?;
    let seconds = began.elapsed().as_secs_f64();
    println!("== {name}: fine, {seconds:.0} s");
    if let Some(file) = std::env::var_os(PARTS) {
        let mut parts = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&file)
            .with_context(|| format!("cannot open {}", file.display()))?;
        writeln!(parts, "{seconds:.1}\t{name}")?;
    }
    Ok(result)
}
