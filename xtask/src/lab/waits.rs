//! The part *waits* of `cargo xtask lab test`: checks that blocked threads are recorded on Debian's kernels,
//! with and without BPF.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{KERNELS, judged, on_kernel};

/// A script that records a shell. The shell waits for a series of programs, each blocked in fsync. The
/// recording ends when the shell ends.
const SCRIPT: &str = "cat >/tmp/script <<'END'\nat=0; while test $at -lt 40; do dd if=/dev/zero of=$FONIO_MOUNT/log \
    bs=4k count=1 conv=fsync,notrunc 2>/dev/null; at=$((at + 1)); done\nEND\n\
    fonio record --blocked $BLOCKED -o /tmp/recording -- sh /tmp/script >&2 && fonio report /tmp/recording --json";

/// Records blocked threads on each kernel. Returns the number of kernels with a wrong verdict.
pub fn run(fonio: &Path) -> Result<u32> {
    println!("A shell that runs 40 programs, each blocked in fsync, recorded on Debian's kernels:\n");
    let mut broken = 0;
    for kernel in KERNELS {
        for (how, is_right) in [("bpf", by_bpf as fn(&Value) -> bool), ("tracefs", by_tracefs)] {
            let text = on_kernel(fonio, kernel, &format!("BLOCKED={how}; {SCRIPT}"))?;
            let report =
                text.lines().find(|line| line.starts_with("{\"schema\"")).context("fonio gave no JSON")?;
            let report: Value = serde_json::from_str(report)?;
            let analysis = &report["analysis"];
            let verdict = analysis["verdict"].as_str().context("the report has no verdict")?;
            let why = format!("\n             {verdict}");
            broken += judged(&format!("{kernel:<12} {how}"), is_right(analysis), &why);
        }
    }
    println!(
        "\nPromised: each verdict with BPF names the blocked program and the call, and the report names the shell \
         that waits for that program. Without BPF, the report names the program and the call.\n"
    );
    Ok(broken)
}

/// Returns whether the verdict names the programs that are blocked, and the report the shell that waits for
/// each of them.
fn by_bpf(analysis: &Value) -> bool {
    let verdict = analysis["verdict"].as_str().unwrap_or_default();
    let mut programs = analysis["blocked"]["programs"].as_array().into_iter().flatten();
    let shell = programs.find(|program| program["name"] == "sh").unwrap_or(&Value::Null);
    let (through, mostly) = (&shell["through"], &shell["operations"][0]);
    analysis["verdict_id"] == "blocked"
        && ["dd was blocked on it", "waiting for dd, which was blocked"]
            .iter()
            .any(|one| verdict.contains(one))
        && verdict.contains("in fsync of")
        && shell["is_problem"] == true
        && (&through["name"], &through["blocked_in"]) == (&json!("dd"), &json!("fsync"))
        && mostly["blocked_in"] == "other_thread"
        && mostly["waits"].as_u64() >= Some(40)
}

/// Returns whether the program that was blocked longest was blocked in its own fsync.
fn by_tracefs(analysis: &Value) -> bool {
    let first = &analysis["blocked"]["programs"][0];
    let mostly = &first["operations"][0];
    first["name"] == "dd" && mostly["blocked_in"] == "fsync" && mostly["waits"].as_u64() >= Some(40)
}
