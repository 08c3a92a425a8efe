//! What the cells measured, by profile.

use anyhow::{Context, Result};

use super::cell::VARIANTS;
use super::figures::{median, slowdown};
use super::{Options, Results};
use crate::kernel::points;

/// Prints the tables of a profile.
pub(super) fn show(profile: &str, results: &Results, options: &Options) -> Result<()> {
    println!(
        "\n{profile}: readers beside writers (direct, {} I/Os of each process, a quarter of that in 4x4, 16 starts with think times from 1 to 16 µs)",
        options.ios
    );
    println!(
        "mean response in µs, median of the starts (least to most); slowdown: response over that of one process alone"
    );
    println!(
        "{:<36} {:<5} {:<4} {:>26} {:>9} {:>28} {:>9}",
        "", "", "", "read", "slowdown", "write", "slowdown"
    );
    for (part, run) in [("seq", "1x1"), ("seq", "4x4"), ("rand", "1x1"), ("rand", "4x4")] {
        for variant in &VARIANTS {
            let Some(values) = results.get(&(profile, variant.name, part)) else { continue };
            let mut line = format!("{:<36} {part:<5} {run:<4}", variant.name);
            for op in ["read", "write"] {
                let name = format!("{run} {op}");
                let [least, middle, most] = values
                    .get(&name)
                    .and_then(|of_starts| points(of_starts))
                    .with_context(|| format!("there is no {name}"))?;
                let [_, times, _] = slowdown(values, &name, &format!("{op}-alone {op}"))
                    .with_context(|| format!("there is no {op} alone"))?;
                line += &format!(" {middle:>9.0} ({least:>6.0} to {most:>6.0}) {times:>9.2}");
            }
            println!("{line}");
        }
        println!();
    }
    println!(
        "{profile}: a random reader beside a writer with 32 requests at a time; both alone with 32; a reader with 8 that never ends"
    );
    println!(
        "beside one writer; a reader with pauses of 1 ms beside an fsync each second, and beside a copy (ext4)"
    );
    println!(
        "{:<36} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "",
        "read",
        "slowdown",
        "writes/s",
        "reads/s",
        "writes/s",
        "endless:",
        "",
        "fsync:",
        "copy:",
        "p99 of",
        "copied"
    );
    println!(
        "{:<36} {:>9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "",
        "µs",
        "",
        "beside",
        "alone",
        "alone",
        "writes/s",
        "late ms",
        "slowdown",
        "slowdown",
        "fsync ms",
        "MiB/s"
    );
    for variant in &VARIANTS {
        let value =
            |part: &'static str, name: &str| median(results.get(&(profile, variant.name, part))?, name);
        let times =
            |part: &'static str, beside: &str, alone: &str| Some(value(part, beside)? / value(part, alone)?);
        let cells = [
            (value("deep", "beside read"), 0),
            (times("deep", "beside read", "one-alone read"), 2),
            (value("deep", "beside write iops"), 0),
            (value("deep", "reads read iops"), 0),
            (value("deep", "writes write iops"), 0),
            (value("deep", "endless write iops"), 0),
            (value("deep", "late_ns").map(|late| late / 1e6), 3),
            (times("files", "fsync read", "paced read"), 2),
            (times("files", "copy read", "paced read"), 2),
            (value("files", "copy fsync p99").map(|p99| p99 / 1e3), 1),
            (value("files", "copy_mib_s"), 1),
        ];
        if cells.iter().all(|(value, _)| value.is_none()) {
            continue;
        }
        let mut line = format!("{:<36}", variant.name);
        for (at, (value, decimals)) in cells.into_iter().enumerate() {
            let width = [9, 8, 9, 9, 9, 9, 8, 8, 8, 9, 9][at];
            line += &value
                .map_or_else(|| format!(" {:>width$}", "-"), |value| format!(" {value:>width$.decimals$}"));
        }
        println!("{line}");
    }
    println!(
        "The bound of a sync write is 25 ms under smartio: one writer has at least 40 writes/s beside readers that never end. Late: how\n\
         long after its bound a write went at most, which is at least the rest of the request that the device was serving."
    );
    show_many(profile, results);
    Ok(())
}

/// The load that never ends: what turns of readers cost and gain.
fn show_many(profile: &str, results: &Results) {
    println!(
        "\n{profile}: four readers beside four writers for a second: reads a second, their longest 99th percentile of a reader and\n\
         longest response in ms, writes a second; a program that reads 20 times each 100 ms beside four random readers: mean in µs"
    );
    println!(
        "{:<36} {:>11} {:>7} {:>8} {:>8} {:>12} {:>7} {:>8} {:>8} {:>7}",
        "", "seq reads/s", "p99", "max", "writes/s", "rand reads/s", "p99", "max", "writes/s", "short"
    );
    for variant in &VARIANTS {
        let Some(values) = results.get(&(profile, variant.name, "many")) else { continue };
        let mut line = format!("{:<36}", variant.name);
        let mut add = |name: &str, per: f64, width: usize, decimals: usize| {
            line += &median(values, name).map_or_else(
                || format!(" {:>width$}", "-"),
                |value| format!(" {:>width$.decimals$}", value / per),
            );
        };
        for order in ["seq", "rand"] {
            add(&format!("many-{order} read iops"), 1.0, if order == "seq" { 11 } else { 12 }, 0);
            add(&format!("many-{order} read p99"), 1e3, 7, 2);
            add(&format!("many-{order} read max"), 1e3, 8, 1);
            add(&format!("many-{order} write iops"), 1.0, 8, 0);
        }
        add("short read", 1.0, 7, 0);
        println!("{line}");
    }
}
