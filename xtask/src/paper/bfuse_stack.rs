//! The figures of Jeong and Won 2014 that show a file being written through parts of the stack, on an emulated Galaxy S3 with
//! a processor for the FUSE daemon that is as slow as gives `stock` the study's share of the device. With `--full` only:
//! they take minutes and root.

use anyhow::Result;
use serde::Deserialize;

use super::published::Published;
use super::row::{Quantity, Row};
use crate::bench_fuse::{BYTES, Experiment, Once, Setup};

/// A figure on both versions of Android; the comparisons are with the first.
#[derive(Deserialize)]
pub(super) struct Versions<T> {
    ics: T,
}

#[derive(Deserialize)]
pub(super) struct Layers {
    ics: Ends,
    loss_percent_raw_cfq: Versions<f64>,
    loss_percent_ext4: Versions<f64>,
}

/// The bare device, and through FUSE.
#[derive(Deserialize)]
struct Ends {
    raw_noop: f64,
    fuse: f64,
}

#[derive(Deserialize)]
pub(super) struct IoUnit {
    unit_4k: f64,
    unit_512k: f64,
}

#[derive(Deserialize)]
pub(super) struct Design {
    gain_percent: Gain,
}

#[derive(Deserialize)]
struct Gain {
    management_thread: f64,
    deadline_over_cfq: f64,
    extended_io_unit: f64,
}

/// By file system, in the order of `filesystems`.
#[derive(Deserialize)]
pub(super) struct Calls {
    filesystems: Vec<String>,
    kb_written: f64,
    pwrite_fuse: Vec<f64>,
    pwrite_nobuf: Vec<f64>,
    pwrite_bfuse: Vec<f64>,
    io_fuse: Vec<f64>,
    io_nobuf: Vec<f64>,
    io_bfuse: Vec<f64>,
}

#[derive(Deserialize)]
pub(super) struct Last {
    share_of_raw_percent: Shares,
    gain_percent_over_stock: Versions<f64>,
}

#[derive(Deserialize)]
struct Shares {
    ext4: Vec<f64>,
    xfs: Vec<f64>,
}

const PROFILE: &str = "galaxy_s3_emmc";
/// CFQ left the kernel with Linux 5.0; bfq came from it.
const NO_CFQ: &str = "bfq stands for CFQ, which Linux 5.0 removed";
const EXT4: Setup<'static> = Setup { profile: PROFILE, file_system: "ext4", scheduler: "mq-deadline" };
const STOCK: &str = "mode=stock";
const NO_BUFFER: &str = "mode=extended,io_unit=512K,io_uring=no";
const BUFFERED: &str = "mode=buffered,io_unit=512K,buffer=8M,entry=2M,flush=10ms";
const WITH_FULL: &str = "measured with --full, as root";

/// Percentage points within which shares of the device are called the same.
const NEAR: f64 = 10.0;
const SHARE: Quantity = Quantity::new("% of raw", 0, 1.0, NEAR);
const RATE: Quantity = Quantity::new("MB/s", 1, 1.1, 0.0);
const GAIN: Quantity = Quantity::new("% more", 0, 1.0, NEAR);
const CALLS: Quantity = Quantity::new("calls", 0, 1.25, 0.0);
const REQUESTS: Quantity = Quantity::new("requests", 0, 1.25, 0.0);

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

/// By how many percent `one` is above `other`.
fn more(one: f64, other: f64) -> f64 {
    100.0 * (one / other - 1.0)
}

/// Figures 2 and 3, and Table 2: what each layer leaves of the device.
pub(super) fn layers(published: &Published, full: bool) -> Result<Vec<Row>> {
    let told = &published.bfuse.layers_mb_s;
    let raw_told = told.ics.raw_noop;
    let steps = [
        ("BLK: raw device, bfq", 100.0 - told.loss_percent_raw_cfq.ics),
        ("EXT4, bfq", 100.0 - told.loss_percent_ext4.ics),
        ("FUSE: ext4, bfq, 4 KiB unit", percent(told.ics.fuse, raw_told)),
    ];
    if !full {
        return Ok(steps.iter().map(|(what, share)| SHARE.cannot(*what, *share, WITH_FULL)).collect());
    }
    let mut experiment = Experiment::new(BYTES)?;
    let raw = experiment.raw(&Setup { scheduler: "none", ..EXT4 })?;
    let bfq = Setup { scheduler: "bfq", ..EXT4 };
    let block = experiment.raw(&bfq)?;
    let ext4 = experiment.write(&bfq, None)?.mb_s;
    let share = experiment.slow_down(&bfq, raw)?;
    let fuse = experiment.write(&bfq, Some(STOCK))?.mb_s;
    let why = format!(
        "{NO_CFQ}; the phone's kernel ran these layers on its slow CPU, only the daemon is slow here"
    );
    Ok(steps
        .iter()
        .zip([block, ext4, fuse])
        .enumerate()
        .map(|(at, ((what, told), found))| {
            let row = SHARE
                .row(*what, *told, percent(found, raw), at == 2, &why)
                .noted(format!("raw {raw:.1} MB/s, the study's {raw_told}"));
            if at != 2 {
                return row;
            }
            row.why(format!("the daemon has {:.2} % of a CPU, chosen by this share", share * 100.0))
        })
        .collect())
}

/// Figures 6 and 7: throughput and context switches against the FUSE I/O unit.
pub(super) fn io_unit(published: &Published, full: bool) -> Result<Vec<Row>> {
    let told = &published.bfuse.io_unit;
    const SWITCHES: &str = "context switches";
    const FEWER: &str = "fewer with larger units";
    let rates = [("4 KiB unit", told.unit_4k), ("512 KiB unit", told.unit_512k)];
    if !full {
        return Ok(rates
            .iter()
            .map(|(what, rate)| RATE.cannot(*what, *rate, WITH_FULL))
            .chain([Row::cannot(SWITCHES, FEWER, "-", WITH_FULL)])
            .collect());
    }
    const UNITS: [&str; 4] = [
        "mode=extended,io_unit=4K,io_uring=no",
        "mode=extended,io_unit=16K,io_uring=no",
        "mode=extended,io_unit=64K,io_uring=no",
        NO_BUFFER,
    ];
    let mut experiment = Experiment::new(BYTES)?;
    let raw = experiment.raw(&EXT4)?;
    experiment.slow_down(&EXT4, raw)?;
    let found: Vec<Once> =
        UNITS.iter().map(|options| experiment.write(&EXT4, Some(options))).collect::<Result<_>>()?;
    let mut rows: Vec<Row> = rates
        .iter()
        .zip([found[0], found[3]])
        .map(|((what, told), found)| {
            let why = "most of what the daemon's CPU does here is making pages in the page cache below";
            RATE.row(*what, *told, found.mb_s, false, why)
        })
        .collect();
    rows[0].used_in_fit = true;
    let switches: Vec<String> = found.iter().map(|once| once.used.switches.to_string()).collect();
    let falls = found.windows(2).all(|pair| pair[1].used.switches <= pair[0].used.switches);
    rows.push(Row::statement(
        SWITCHES,
        FEWER,
        format!("4, 16, 64, 512 KiB: {}", switches.join(", ")),
        falls,
        "of the daemon alone",
    ));
    Ok(rows)
}

/// Figures 10, 11 and 12: the buffer with and without its thread, and what reaches the device.
pub(super) fn buffer(published: &Published, full: bool) -> Result<Vec<Row>> {
    const THREAD: &str = "f10: buffer with its thread over none";
    const WORDS: [(&str, &str); 3] = [
        ("f10: buffer without", "slower than no buffer"),
        ("f11: random writes", "fewest with the 8 MB buffer"),
        ("f12: bytes of a burst", "larger with the buffer"),
    ];
    let gain = published.bfuse.design.gain_percent.management_thread;
    if !full {
        let words = WORDS.map(|(what, told)| Row::cannot(what, told, "-", WITH_FULL));
        return Ok([GAIN.cannot(THREAD, gain, WITH_FULL)].into_iter().chain(words).collect());
    }
    let mut experiment = Experiment::new(BYTES)?;
    let raw = experiment.raw(&EXT4)?;
    experiment.slow_down(&EXT4, raw)?;
    let none = experiment.write(&EXT4, Some(NO_BUFFER))?;
    let with = experiment.write(&EXT4, Some(BUFFERED))?;
    let without = experiment
        .write(&EXT4, Some("mode=buffered,io_unit=512K,buffer=8M,entry=2M,flush=10ms,thread=no"))?;
    let more = |once: &Once| more(once.mb_s, none.mb_s);
    let of = |once: &Once| format!("{:.1} of {:.1} MB/s", once.mb_s, none.mb_s);
    let random = |once: &Once| format!("{:.1} %", once.random_share * 100.0);
    let kib = |once: &Once| once.burst_bytes / 1024.0;
    let why = "long streams go past the page cache, which the study's did not";
    let mut rows = vec![GAIN.row(THREAD, gain, more(&with), false, why).noted(of(&with))];
    let ours = [
        (
            format!("{:+.0} % ({})", more(&without), of(&without)),
            more(&without) < 0.0,
            "the buffer spares calls, and long streams go past the page cache",
        ),
        (
            format!("{} with, {} without", random(&with), random(&none)),
            with.random_share <= none.random_share,
            "ext4 sorts what its page cache holds, whoever wrote it",
        ),
        (
            format!("{:.0} KiB with, {:.0} KiB without", kib(&with), kib(&none)),
            with.burst_bytes >= none.burst_bytes,
            "ext4 sorts what its page cache holds, whoever wrote it",
        ),
    ];
    let words = WORDS.into_iter().zip(ours);
    rows.extend(
        words.map(|((what, told), (found, agrees, why))| Row::statement(what, told, found, agrees, why)),
    );
    Ok(rows)
}

/// Table 3: write calls and device requests for the study's 512,000 KiB, scaled to our file.
pub(super) fn calls(published: &Published, full: bool) -> Result<Vec<Row>> {
    let told = &published.bfuse.calls;
    let scale = BYTES as f64 / 1024.0 / told.kb_written;
    let ways = [
        ("FUSE", STOCK, &told.pwrite_fuse, &told.io_fuse),
        ("no buffer", NO_BUFFER, &told.pwrite_nobuf, &told.io_nobuf),
        ("bFUSE", BUFFERED, &told.pwrite_bfuse, &told.io_bfuse),
    ];
    let mut rows = Vec::new();
    let experiment = if full { Some(Experiment::new(BYTES)?) } else { None };
    for (at, file_system) in told.filesystems.iter().enumerate() {
        for (way, options, calls, requests) in &ways {
            let told = [
                (CALLS, format!("{file_system}, {way}, calls"), calls[at] * scale),
                (REQUESTS, format!("{file_system}, {way}, requests"), requests[at] * scale),
            ];
            let once = match &experiment {
                None => Err(WITH_FULL.to_owned()),
                Some(experiment) => {
                    match ["ext4", "xfs", "btrfs"].into_iter().find(|known| known == file_system) {
                        None => Err("this kernel and the emulator have no such file system".to_owned()),
                        Some(name) => experiment
                            .write(&Setup { file_system: name, ..EXT4 }, Some(options))
                            .map_err(|error| format!("{error:#}")),
                    }
                }
            };
            let once = match once {
                Ok(once) => once,
                Err(why) => {
                    rows.extend(told.map(|(quantity, what, told)| quantity.cannot(what, told, &why)));
                    continue;
                }
            };
            let [(calls, what_calls, calls_told), (requests, what_requests, requests_told)] = told;
            let own = once.used.write_calls.unwrap_or(0) as f64;
            rows.push(calls.row(
                what_calls,
                calls_told,
                own,
                false,
                "every 10 ms what has come is flushed, also where an entry is not full",
            ));
            let small = format!("{:.0} of them below 64 KiB", once.writes * once.small_share);
            let why = "this kernel merges requests up to the device's limit";
            rows.push(requests.row(what_requests, requests_told, once.writes, false, why).noted(small));
        }
    }
    Ok(rows)
}

/// Figures 13, 16 and 17: schedulers, file systems and options together.
pub(super) fn matrix(published: &Published, full: bool) -> Result<Vec<Row>> {
    let gain = &published.bfuse.design.gain_percent;
    let last = &published.bfuse.last;
    let [ext4, xfs] = [last.share_of_raw_percent.ext4[0], last.share_of_raw_percent.xfs[0]];
    const DEADLINE: &str = "f13: deadline over CFQ";
    const UNIT: &str = "f16: 512 KiB unit over 4 KiB";
    const OVER_STOCK: &str = "f17: gain over stock";
    const ON_BTRFS: [&str; 2] = ["f17: bFUSE on btrfs", "drawn only"];
    let on_device = [("f17: bFUSE on ext4", ext4), ("f17: bFUSE on xfs", xfs)];
    let over_stock = last.gain_percent_over_stock.ics;
    if !full {
        let mut rows = vec![
            GAIN.cannot(DEADLINE, gain.deadline_over_cfq, WITH_FULL),
            GAIN.cannot(UNIT, gain.extended_io_unit, WITH_FULL),
        ];
        rows.extend(on_device.map(|(what, told)| SHARE.cannot(what, told, WITH_FULL)));
        rows.push(Row::cannot(ON_BTRFS[0], ON_BTRFS[1], "-", WITH_FULL));
        rows.push(GAIN.cannot(OVER_STOCK, over_stock, WITH_FULL));
        return Ok(rows);
    }
    let mut experiment = Experiment::new(BYTES)?;
    let raw = experiment.raw(&EXT4)?;
    experiment.slow_down(&EXT4, raw)?;
    let stock = experiment.write(&EXT4, Some(STOCK))?.mb_s;
    let unit = experiment.write(&EXT4, Some(NO_BUFFER))?.mb_s;
    let on = |file_system: &'static str, scheduler: &'static str| {
        experiment.write(&Setup { file_system, scheduler, ..EXT4 }, Some(BUFFERED)).map(|once| once.mb_s)
    };
    let deadline = on("ext4", "mq-deadline")?;
    let bfq = on("ext4", "bfq")?;
    let none = on("ext4", "none")?;
    let gained = more(unit, stock);
    let mut rows = vec![
        GAIN.row(DEADLINE, gain.deadline_over_cfq, more(deadline, bfq), false, NO_CFQ)
            .noted(format!("over bfq; {:+.0} % over none", more(deadline, none))),
        GAIN.judged(
            UNIT,
            gain.extended_io_unit,
            gained,
            gained >= gain.extended_io_unit * 0.75,
            "a copy costs the confined daemon as much as before, only its calls are fewer",
        )
        .noted(format!("{unit:.1} over {stock:.1} MB/s")),
    ];
    for ((what, told), rate) in on_device.into_iter().zip([Ok(deadline), on("xfs", "mq-deadline")]) {
        rows.push(match rate {
            Ok(rate) => SHARE.row(what, told, percent(rate, raw), false, "").noted(format!("{rate:.1} MB/s")),
            Err(error) => SHARE.cannot(what, told, &format!("{error:#}")),
        });
    }
    let (ours, why) = match on("btrfs", "mq-deadline") {
        Ok(rate) => (format!("{:.0} % of raw ({rate:.1} MB/s)", percent(rate, raw)), String::new()),
        Err(error) => ("-".to_owned(), format!("{error:#}")),
    };
    rows.push(Row::cannot(ON_BTRFS[0], ON_BTRFS[1], ours, &why));
    let gained = more(deadline, stock);
    rows.push(GAIN.judged(
        OVER_STOCK,
        over_stock,
        gained,
        (gained / over_stock - 1.0).abs() <= 0.2,
        "the share of the CPU was chosen by stock's rate alone",
    ));
    Ok(rows)
}
