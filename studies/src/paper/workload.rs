//! Reads what a shipped workload says about published numbers.

use anyhow::{Context, Result};
use toml::Value;

use crate::process;

/// Returns whether the author of the workload knew a published figure: the workload was adjusted to it, or the
/// workload's file contains it.
pub(super) fn knows(workload: &str, figure: &str) -> Result<bool> {
    let path = process::root().join("crates/fonio-workload/workloads").join(format!("{workload}.toml"));
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let definition: toml::Table =
        toml::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))?;
    let published = definition.get("published");
    let used = published.and_then(|published| published.get("used_in_fit")).and_then(Value::as_array);
    let is_used = used.is_some_and(|names| names.iter().any(|name| name.as_str() == Some(figure)));
    let figures = published.and_then(|published| published.get("figures"));
    Ok(is_used || figures.is_some_and(|figures| figures.get(figure).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_say_what_their_authors_knew() {
        for (workload, figure, is_known) in [
            // Named in `used_in_fit` only, in `figures` only, in both, and in neither.
            ("webbench", "write_mb", true),
            ("rlbench", "seq_write_mb", true),
            ("camera", "writes", true),
            ("camera", "flush_gap_p90_kb", true),
            ("rlbench", "write_mb", false),
            ("gallery", "sequential_percent_above", false),
            ("facebook", "cold_launch_razr_s", false),
            ("facebook", "cold_launch_samsung_s5_s", true),
        ] {
            assert_eq!(knows(workload, figure).unwrap(), is_known, "{workload}, {figure}");
        }
        assert!(knows("no such workload", "write_mb").is_err());
    }
}
