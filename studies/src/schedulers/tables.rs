//! Prints and stores the tables of a profile. Each table is a result with the value of each start.

use anyhow::Result;
use xtask::results::{Cell, StudyResult};

use super::cell::{SMARTIO, VARIANTS};
use super::figures::slowdowns as over_alone;
use super::{Results, TUNED_ON};

/// A column of a table: its title, the part of the comparison, the name of the values, the divisor of the
/// values, and the number of decimals.
struct Column(&'static str, &'static str, &'static str, Per, usize);

#[derive(Clone, Copy)]
enum Per {
    /// The values are divided by this number.
    Unit(f64),
    /// The values are divided by the values with this name, which are those of one process alone.
    Alone(&'static str),
}

use Per::{Alone, Unit};

/// Response times of concurrent reads and writes, in multiples of the response time alone.
const SLOWDOWNS: [Column; 10] = [
    Column("one of each, sequential: read", "seq", "1x1 read", Alone("read-alone read"), 2),
    Column("write", "seq", "1x1 write", Alone("write-alone write"), 2),
    Column("random: read", "rand", "1x1 read", Alone("read-alone read"), 2),
    Column("write", "rand", "1x1 write", Alone("write-alone write"), 2),
    Column("four of each, sequential: read", "seq", "4x4 read", Alone("read-alone read"), 2),
    Column("write", "seq", "4x4 write", Alone("write-alone write"), 2),
    Column("random: read", "rand", "4x4 read", Alone("read-alone read"), 2),
    Column("write", "rand", "4x4 write", Alone("write-alone write"), 2),
    Column("a read and 32 writes: read", "deep", "beside read", Alone("one-alone read"), 2),
    Column("writes/s", "deep", "beside write iops", Unit(1.0), 0),
];

/// Four readers and four writers for a second, and loads at queue depth 32. "Late" is the maximum time by
/// which a write exceeds its time limit. This limit is 25 ms for a synchronous write under smartio.
const RATES: [Column; 13] = [
    Column("sequential: reads/s", "many", "many-seq read iops", Unit(1.0), 0),
    Column("p99, ms", "many", "many-seq read p99", Unit(1e3), 2),
    Column("longest, ms", "many", "many-seq read max", Unit(1e3), 1),
    Column("writes/s", "many", "many-seq write iops", Unit(1.0), 0),
    Column("random: reads/s", "many", "many-rand read iops", Unit(1.0), 0),
    Column("p99, ms", "many", "many-rand read p99", Unit(1e3), 2),
    Column("longest, ms", "many", "many-rand read max", Unit(1e3), 1),
    Column("writes/s", "many", "many-rand write iops", Unit(1.0), 0),
    Column("short program, µs", "many", "short read", Unit(1.0), 0),
    Column("reads alone/s", "deep", "reads read iops", Unit(1.0), 0),
    Column("writes alone/s", "deep", "writes write iops", Unit(1.0), 0),
    Column("endless reads: writes/s", "deep", "endless write iops", Unit(1.0), 0),
    Column("late, ms", "deep", "late_ns", Unit(1e6), 3),
];

/// A reader with pauses of 1 ms, during one fsync per second and during a copy (ext4).
const FILES: [Column; 4] = [
    Column("reads during fsync, times as long as alone", "files", "fsync read", Alone("paced read"), 2),
    Column("reads during a copy", "files", "copy read", Alone("paced read"), 2),
    Column("p99 of fsync, ms", "files", "copy fsync p99", Unit(1e3), 1),
    Column("copied, MiB/s", "files", "copy_mib_s", Unit(1.0), 1),
];

/// Readers with pauses of 0.1 to 20 ms (ext4): reads beside the write-back of a copy, the rate of this copy as a
/// share of its rate alone, and reads beside fsyncs and beside discards.
const PAUSES: [Column; 16] = [
    Column("copy 0.1 ms", "pauses", "copy-100 read", Alone("alone-100 read"), 2),
    Column("copied 0.1 ms", "pauses", "copy-100_mib_s", Alone("copy-alone_mib_s"), 2),
    Column("fsyncs 0.1 ms", "pauses", "commits-100 read", Alone("alone-100 read"), 2),
    Column("discards 0.1 ms", "pauses", "discards-100 read", Alone("alone-100 read"), 2),
    Column("copy 1 ms", "pauses", "copy-1000 read", Alone("alone-1000 read"), 2),
    Column("copied 1 ms", "pauses", "copy-1000_mib_s", Alone("copy-alone_mib_s"), 2),
    Column("fsyncs 1 ms", "pauses", "commits-1000 read", Alone("alone-1000 read"), 2),
    Column("discards 1 ms", "pauses", "discards-1000 read", Alone("alone-1000 read"), 2),
    Column("copy 5 ms", "pauses", "copy-5000 read", Alone("alone-5000 read"), 2),
    Column("copied 5 ms", "pauses", "copy-5000_mib_s", Alone("copy-alone_mib_s"), 2),
    Column("fsyncs 5 ms", "pauses", "commits-5000 read", Alone("alone-5000 read"), 2),
    Column("discards 5 ms", "pauses", "discards-5000 read", Alone("alone-5000 read"), 2),
    Column("copy 20 ms", "pauses", "copy-20000 read", Alone("alone-20000 read"), 2),
    Column("copied 20 ms", "pauses", "copy-20000_mib_s", Alone("copy-alone_mib_s"), 2),
    Column("fsyncs 20 ms", "pauses", "commits-20000 read", Alone("alone-20000 read"), 2),
    Column("discards 20 ms", "pauses", "discards-20000 read", Alone("alone-20000 read"), 2),
];

/// Prints and saves the tables of a profile. The documents show all tables of the profile on which the policy
/// was tuned, and the slowdowns of the other profiles.
pub(super) fn show(profile: &str, results: &Results, command: &str, is_complete: bool) -> Result<()> {
    let is_tuned = profile == TUNED_ON;
    let (slowdowns, rates) = (format!("schedulers-{profile}"), format!("schedulers-{profile}-rates"));
    let files = if is_tuned { "schedulers-files".to_owned() } else { format!("schedulers-{profile}-files") };
    let pauses = format!("schedulers-{profile}-pauses");
    for (id, what, columns, is_shown) in [
        (slowdowns, "response of reads and writes together over that alone", &SLOWDOWNS[..], true),
        (rates, "rates and percentiles of reads and writes", &RATES, is_tuned),
        (files, "reads with pauses during fsync and a copy", &FILES, is_tuned),
        (pauses, "reads with pauses beside a copy, fsyncs and discards", &PAUSES, true),
    ] {
        let titles: Vec<&str> =
            ["scheduler"].into_iter().chain(columns.iter().map(|column| column.0)).collect();
        println!("\n{profile}: {what}; medians of the starts\n");
        let mut result = StudyResult::begin(&id, &format!("{what}, on {profile}"), command, &titles)?;
        for variant in &VARIANTS {
            let of = |Column(_, part, name, per, decimals): &Column| {
                let values = results.get(&(profile, variant.name, *part))?;
                let values = match per {
                    Alone(alone) => over_alone(values, name, alone)?,
                    Unit(per) => values.get(*name)?.iter().map(|value| value / per).collect(),
                };
                Some(Cell::rounds(values, "", *decimals))
            };
            let cells: Vec<Option<Cell>> = columns.iter().map(of).collect();
            if cells.iter().any(Option::is_some) {
                result.row(variant.name, cells.into_iter().map(|cell| cell.unwrap_or("–".into())).collect());
            }
        }
        if !result.rows.is_empty() {
            let measured = |name: &str| {
                result.rows.iter().any(|row| row.name == name && !row.cells.contains(&Cell::from("–")))
            };
            // The longest part may be measured for the most important schedulers only.
            let has_all = columns.iter().all(|column| column.1 == "pauses")
                && [SMARTIO, "mq-deadline", "bfq"].into_iter().all(measured);
            result.keep((is_complete || has_all) && is_shown)?;
        }
    }
    Ok(())
}
