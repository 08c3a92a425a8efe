//! The figures of Jeong and Won 2014 that show a file being written through parts of the stack, on an emulated Galaxy S3 with
//! a processor for the FUSE daemon that is as slow as gives `stock` the study's share of the device. With `--full` only:
//! they take minutes and root.

use anyhow::Result;
use serde::Deserialize;

use super::published::Published;
use super::row::{Row, Verdict};
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
/// Percentage points within which shares of the device are called the same.
const NEAR: f64 = 10.0;

fn measured_with_full(what: &str, published: String) -> Row {
    Row {
        what: what.to_owned(),
        published,
        ours: "-".to_owned(),
        used_in_fit: false,
        verdict: Verdict::Cannot,
        why: "measured with --full, as root".to_owned(),
    }
}

fn row(what: &str, published: String, ours: String, agrees: bool, why: &str) -> Row {
    Row {
        what: what.to_owned(),
        published,
        ours,
        used_in_fit: false,
        verdict: Verdict::of(agrees),
        why: if agrees { String::new() } else { why.to_owned() },
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
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
        return Ok(steps
            .iter()
            .map(|(what, share)| measured_with_full(what, format!("{share:.0} % of raw ({raw_told} MB/s)")))
            .collect());
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
            let ours = percent(found, raw);
            let mut row = row(
                what,
                format!("{told:.0} % of raw ({raw_told} MB/s)"),
                format!("{ours:.0} % of raw ({raw:.1} MB/s)"),
                (ours - told).abs() <= NEAR,
                &why,
            );
            if at == 2 {
                row.used_in_fit = true;
                row.why = format!("the daemon has {:.2} % of a CPU, chosen by this share", share * 100.0);
            }
            row
        })
        .collect())
}

/// Figures 6 and 7: throughput and context switches against the FUSE I/O unit.
pub(super) fn io_unit(published: &Published, full: bool) -> Result<Vec<Row>> {
    let told = &published.bfuse.io_unit;
    let rates = [("4 KiB unit", told.unit_4k), ("512 KiB unit", told.unit_512k)];
    if !full {
        return Ok(rates
            .iter()
            .map(|(what, rate)| measured_with_full(what, format!("{rate} MB/s")))
            .chain([measured_with_full("context switches", "fewer with larger units".to_owned())])
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
            let agrees = (found.mb_s / told - 1.0).abs() <= NEAR / 100.0;
            let why = "most of what the daemon's CPU does here is making pages in the page cache below";
            row(what, format!("{told} MB/s"), format!("{:.1} MB/s", found.mb_s), agrees, why)
        })
        .collect();
    rows[0].used_in_fit = true;
    let switches: Vec<String> = found.iter().map(|once| once.used.switches.to_string()).collect();
    let falls = found.windows(2).all(|pair| pair[1].used.switches <= pair[0].used.switches);
    rows.push(row(
        "context switches",
        "fewer with larger units".to_owned(),
        format!("4, 16, 64, 512 KiB: {}", switches.join(", ")),
        falls,
        "of the daemon alone",
    ));
    Ok(rows)
}

/// Figures 10, 11 and 12: the buffer with and without its thread, and what reaches the device.
pub(super) fn buffer(published: &Published, full: bool) -> Result<Vec<Row>> {
    let gain = published.bfuse.design.gain_percent.management_thread;
    let whats = [
        ("f10: buffer with its thread", format!("{gain} % over no buffer")),
        ("f10: buffer without", "slower than no buffer".to_owned()),
        ("f11: random writes", "fewest with the 8 MB buffer".to_owned()),
        ("f12: bytes of a burst", "larger with the buffer".to_owned()),
    ];
    if !full {
        return Ok(whats.into_iter().map(|(what, told)| measured_with_full(what, told)).collect());
    }
    let mut experiment = Experiment::new(BYTES)?;
    let raw = experiment.raw(&EXT4)?;
    experiment.slow_down(&EXT4, raw)?;
    let none = experiment.write(&EXT4, Some(NO_BUFFER))?;
    let with = experiment.write(&EXT4, Some(BUFFERED))?;
    let without = experiment
        .write(&EXT4, Some("mode=buffered,io_unit=512K,buffer=8M,entry=2M,flush=10ms,thread=no"))?;
    let more = |once: &Once| 100.0 * (once.mb_s / none.mb_s - 1.0);
    let says = |once: &Once| format!("{:+.0} % ({:.1} of {:.1} MB/s)", more(once), once.mb_s, none.mb_s);
    let random = |once: &Once| format!("{:.1} %", once.random_share * 100.0);
    let ours = [
        (
            says(&with),
            (more(&with) - gain).abs() <= NEAR,
            "long streams go past the page cache, which the study's did not",
        ),
        (
            says(&without),
            more(&without) < 0.0,
            "the buffer spares calls, and long streams go past the page cache",
        ),
        (
            format!("{} with, {} without", random(&with), random(&none)),
            with.random_share <= none.random_share,
            "ext4 sorts what its page cache holds, whoever wrote it",
        ),
        (
            format!(
                "{:.0} KiB with, {:.0} KiB without",
                with.burst_bytes / 1024.0,
                none.burst_bytes / 1024.0
            ),
            with.burst_bytes >= none.burst_bytes,
            "ext4 sorts what its page cache holds, whoever wrote it",
        ),
    ];
    Ok(whats
        .into_iter()
        .zip(ours)
        .map(|((what, told), (found, agrees, why))| row(what, told, found, agrees, why))
        .collect())
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
            let what = format!("{file_system}, {way}");
            let (calls, requests) = (calls[at] * scale, requests[at] * scale);
            let published = format!("{calls:.0} calls, {requests:.0} requests (scaled)");
            let Some(experiment) = &experiment else {
                rows.push(measured_with_full(&what, published));
                continue;
            };
            let Some(name) = ["ext4", "xfs", "btrfs"].into_iter().find(|known| known == file_system) else {
                rows.push(Row {
                    why: "this kernel and the emulator have no such file system".to_owned(),
                    ..measured_with_full(&what, published)
                });
                continue;
            };
            let once = match experiment.write(&Setup { file_system: name, ..EXT4 }, Some(options)) {
                Ok(once) => once,
                Err(error) => {
                    rows.push(Row { why: format!("{error:#}"), ..measured_with_full(&what, published) });
                    continue;
                }
            };
            let own = once.used.write_calls.unwrap_or(0) as f64;
            let near = |found: f64, told: f64| (found / told - 1.0).abs() <= 0.25;
            rows.push(row(
                &what,
                published,
                format!(
                    "{own:.0} calls, {:.0} requests, {:.0} of them below 64 KiB",
                    once.writes,
                    once.writes * once.small_share
                ),
                near(own, calls) && near(once.writes, requests),
                "every 10 ms what has come is flushed, also where an entry is not full; this kernel merges requests \
                 up to the device's limit",
            ));
        }
    }
    Ok(rows)
}

/// Figures 13, 16 and 17: schedulers, file systems and options together.
pub(super) fn matrix(published: &Published, full: bool) -> Result<Vec<Row>> {
    let gain = &published.bfuse.design.gain_percent;
    let last = &published.bfuse.last;
    let [ext4, xfs] = [last.share_of_raw_percent.ext4[0], last.share_of_raw_percent.xfs[0]];
    let whats = [
        ("f13: deadline over CFQ".to_owned(), format!("{} % more", gain.deadline_over_cfq)),
        ("f16: 512 KiB unit over 4 KiB".to_owned(), format!("{} % more", gain.extended_io_unit)),
        ("f17: bFUSE on ext4".to_owned(), format!("{ext4} % of raw")),
        ("f17: bFUSE on xfs".to_owned(), format!("{xfs} % of raw")),
        ("f17: bFUSE on btrfs".to_owned(), "drawn only".to_owned()),
        ("f17: gain over stock".to_owned(), format!("{} % more", last.gain_percent_over_stock.ics)),
    ];
    if !full {
        return Ok(whats.into_iter().map(|(what, told)| measured_with_full(&what, told)).collect());
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
    let more = |one: f64, other: f64| 100.0 * (one / other - 1.0);
    let share = |rate: &Result<f64>, told: f64| match rate {
        Ok(rate) => {
            let share = percent(*rate, raw);
            (format!("{share:.0} % ({rate:.1} MB/s)"), (share - told).abs() <= NEAR, String::new())
        }
        Err(error) => ("-".to_owned(), false, format!("{error:#}")),
    };
    let (on_xfs, on_btrfs) = (on("xfs", "mq-deadline"), on("btrfs", "mq-deadline"));
    let ours = [
        (
            format!("{:+.0} % over bfq, {:+.0} % over none", more(deadline, bfq), more(deadline, none)),
            (more(deadline, bfq) - gain.deadline_over_cfq).abs() <= NEAR,
            NO_CFQ.to_owned(),
        ),
        (
            format!("{:+.0} % ({unit:.1} over {stock:.1} MB/s)", more(unit, stock)),
            more(unit, stock) >= gain.extended_io_unit * 0.75,
            "a copy costs the confined daemon as much as before, only its calls are fewer".to_owned(),
        ),
        share(&Ok(deadline), ext4),
        share(&on_xfs, xfs),
        share(&on_btrfs, f64::NAN),
        (
            format!("{:+.0} %", more(deadline, stock)),
            (more(deadline, stock) / last.gain_percent_over_stock.ics - 1.0).abs() <= 0.2,
            "the share of the CPU was chosen by stock's rate alone".to_owned(),
        ),
    ];
    Ok(whats
        .into_iter()
        .zip(ours)
        .map(|((what, told), (found, agrees, why))| row(&what, told, found, agrees, &why))
        .collect())
}
