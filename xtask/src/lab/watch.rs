//! The part *watch* of `cargo xtask lab test`: checks that the watch sees requests and their files on
//! Debian's kernels.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{KERNELS, judged, on_kernel};

/// The size of each of the three written files in bytes.
const BYTES: u64 = 4 << 20;

/// A script that runs the watch on the emulated device while files are written through the page cache, with
/// direct I/O, and by the kernel for `sync`.
const SCRIPT: &str = include_str!("watch.sh");

/// Runs the script on each kernel. Returns the number of kernels on which the report lacks a file or bytes.
pub fn run(fonio: &Path) -> Result<u32> {
    println!(
        "dd writes 4 MiB through the page cache, 4 MiB with direct I/O, and 4 MiB for the kernel to write back; on Debian's kernels:\n"
    );
    let mut broken = 0;
    for kernel in KERNELS {
        let text = on_kernel(fonio, kernel, SCRIPT)?;
        let json = text.find('{').context("fonio gave no JSON")?;
        let mut values = serde_json::Deserializer::from_str(&text[json..]).into_iter::<Value>();
        let report = values.next().context("fonio gave no JSON")??;
        let is_right = sees_both(&report["wear"]["devices"][0]);
        let why = if is_right { String::new() } else { format!("\n{report:#}") };
        broken += judged(kernel, is_right, &why);
    }
    println!(
        "\nPromised: the report names the files written through the page cache, and attributes all bytes except the journal's to dd.\n"
    );
    Ok(broken)
}

/// Returns whether the report lists the files on the device, and attributes all bytes to dd.
fn sees_both(device: &Value) -> bool {
    let written = |rows: &str, key: &str, name: &str| {
        let mut rows = device[rows].as_array()?.iter();
        let row = rows.find(|row| row[key].as_str().is_some_and(|found| found.ends_with(name)))?;
        row["written"].as_u64()
    };
    ["/buffered", "/left"].iter().all(|file| written("files", "file", file) == Some(BYTES))
        && written("parties", "party", "dd") >= Some(3 * BYTES)
}
