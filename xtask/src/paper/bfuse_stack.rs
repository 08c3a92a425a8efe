//! The figures of Jeong and Won 2014 about writing a file through parts of the stack, on an emulated Galaxy S3. The
//! FUSE daemon's processor is slowed down until `stock` reaches the study's share of the device. Only with `--full`:
//! they take minutes and need root.

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::measured::Measured;
use super::published::Published;
use super::row::{Quantity, RUNS_MIN, Row};
use crate::bench_fuse::{BYTES, Experiment, Once, Setup};

/// A figure for both versions of Android; we compare with the first.
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

/// The rates of the bare device and through FUSE.
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

/// Values by file system, in the order of `filesystems`.
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
/// Linux 5.0 removed CFQ; BFQ was derived from it.
const NO_CFQ: &str = "bfq stands for CFQ, which Linux 5.0 removed";
const EXT4: Setup<'static> = Setup { profile: PROFILE, file_system: "ext4", scheduler: "mq-deadline" };
const STOCK: &str = "mode=stock";
const NO_BUFFER: &str = "mode=extended,io_unit=512K,io_uring=no";
const BUFFERED: &str = "mode=buffered,io_unit=512K,buffer=8M,entry=2M,flush=10ms";
/// The study's buffer sizes in MB, with its thread and without.
const SIZES: [(f64, &str, &str); 6] = [
    (
        2.0,
        "mode=buffered,io_unit=512K,buffer=2M,entry=2M,flush=10ms",
        "mode=buffered,io_unit=512K,buffer=2M,entry=2M,flush=10ms,thread=no",
    ),
    (
        4.0,
        "mode=buffered,io_unit=512K,buffer=4M,entry=2M,flush=10ms",
        "mode=buffered,io_unit=512K,buffer=4M,entry=2M,flush=10ms,thread=no",
    ),
    (STUDY_MB, BUFFERED, "mode=buffered,io_unit=512K,buffer=8M,entry=2M,flush=10ms,thread=no"),
    (
        16.0,
        "mode=buffered,io_unit=512K,buffer=16M,entry=2M,flush=10ms",
        "mode=buffered,io_unit=512K,buffer=16M,entry=2M,flush=10ms,thread=no",
    ),
    (
        32.0,
        "mode=buffered,io_unit=512K,buffer=32M,entry=2M,flush=10ms",
        "mode=buffered,io_unit=512K,buffer=32M,entry=2M,flush=10ms,thread=no",
    ),
    (
        64.0,
        "mode=buffered,io_unit=512K,buffer=64M,entry=2M,flush=10ms",
        "mode=buffered,io_unit=512K,buffer=64M,entry=2M,flush=10ms,thread=no",
    ),
];
const STUDY_MB: f64 = 8.0;
/// Milliseconds between flushes; 10 was the best in the study.
const INTERVALS: [(f64, &str); 4] = [
    (1.0, "mode=buffered,io_unit=512K,buffer=8M,entry=2M,flush=1ms"),
    (STUDY_MS, BUFFERED),
    (100.0, "mode=buffered,io_unit=512K,buffer=8M,entry=2M,flush=100ms"),
    (1000.0, "mode=buffered,io_unit=512K,buffer=8M,entry=2M,flush=1s"),
];
const STUDY_MS: f64 = 10.0;
const WITH_FULL: &str = "measured with --full, as root";

/// Percentage points within which shares of the device count as equal.
const NEAR: f64 = 10.0;
const SHARE: Quantity = Quantity::new("% of raw", 0, 1.0, NEAR);
const RATE: Quantity = Quantity::new("MB/s", 1, 1.1, 0.0);
/// Gains that differ by at most 10 percentage points count as equal.
const TIMES: Quantity = Quantity::new("times", 2, 1.0, NEAR / 100.0);
/// Gains by a factor of several.
const MANY_TIMES: Quantity = Quantity::new("times", 2, 1.25, 0.0);
const CALLS: Quantity = Quantity::new("calls", 0, 1.25, 0.0);
const REQUESTS: Quantity = Quantity::new("requests", 0, 1.25, 0.0);

/// A file system with a scheduler, and the options of the mount on top of it.
type Stack = (Setup<'static>, Option<&'static str>);

/// Writes through every stack in turn, in rounds.
fn in_rounds(experiment: &Experiment, stacks: &[Stack]) -> Result<Vec<Vec<Once>>> {
    let mut found = vec![Vec::new(); stacks.len()];
    for _ in 0..RUNS_MIN {
        for ((setup, options), found) in stacks.iter().zip(&mut found) {
            found.push(experiment.write(setup, *options)?);
        }
    }
    Ok(found)
}

fn each(once: &[Once], figure: impl Fn(&Once) -> Option<f64>) -> Measured {
    Measured::runs(once.iter().map(figure))
}

fn rate(once: &[Once]) -> Measured {
    each(once, |once| Some(once.mb_s))
}

/// Returns the rate of `stock`, marked as used: it reaches the study's share by choice of the processor's share.
fn stock_rate(once: &[Once]) -> Measured {
    rate(once).shaped(true)
}

/// Returns the rate of the bare device, marked as used: the profile was fitted to the study's rate.
fn raw_rate(mb_s: f64) -> Measured {
    Measured::runs([mb_s; RUNS_MIN]).shaped(true)
}

/// Converts a gain in percent into a ratio.
fn times(percent: f64) -> f64 {
    1.0 + percent / 100.0
}

/// Figures 2 and 3, and Table 2: the share of the device's throughput that remains after each layer.
pub(super) fn layers(published: &Published, full: bool) -> Result<Vec<Row>> {
    let told = &published.bfuse.layers_mb_s;
    let raw_told = told.ics.raw_noop;
    let steps = [
        ("BLK: raw device, bfq", 100.0 - told.loss_percent_raw_cfq.ics),
        ("EXT4, bfq", 100.0 - told.loss_percent_ext4.ics),
        ("FUSE: ext4, bfq, 4 KiB unit", 100.0 * told.ics.fuse / raw_told),
    ];
    if !full {
        return Ok(steps.iter().map(|(what, share)| SHARE.cannot(*what, *share, WITH_FULL)).collect());
    }
    let mut experiment = Experiment::new(BYTES)?;
    let raw = experiment.raw(&Setup { scheduler: "none", ..EXT4 })?;
    let bfq = Setup { scheduler: "bfq", ..EXT4 };
    let block = Measured::runs([experiment.raw(&bfq)?, experiment.raw(&bfq)?, experiment.raw(&bfq)?]);
    let ext4 = in_rounds(&experiment, &[(bfq, None)])?;
    let share = experiment.slow_down(&bfq, raw)?;
    let fuse = in_rounds(&experiment, &[(bfq, Some(STOCK))])?;
    let why = format!(
        "{NO_CFQ}; the phone's kernel ran these layers on its slow CPU, only the daemon is slow here"
    );
    let found = [block, rate(&ext4[0]), stock_rate(&fuse[0])];
    let rows = steps.iter().zip(&found).map(|((what, told), found)| {
        let of_raw = found.over(&raw_rate(raw)).times(100.0);
        SHARE.row(*what, *told, &of_raw, &why).noted(format!("raw {raw:.1} MB/s, the study's {raw_told}"))
    });
    let mut rows: Vec<Row> = rows.collect();
    let chosen = format!("the daemon has {:.2} % of a CPU, chosen by this share", share * 100.0);
    let last = rows.pop().map(|last| last.because(chosen));
    rows.extend(last);
    Ok(rows)
}

/// Figures 6 and 7: throughput and context switches against the FUSE I/O unit.
pub(super) fn io_unit(published: &Published, full: bool) -> Result<Vec<Row>> {
    let told = &published.bfuse.io_unit;
    const SWITCHES: &str = "context switches";
    const FEWER: &str = "fewer with larger units";
    const FASTER: &str = "throughput";
    const GROWS: &str = "grows with the unit";
    let rates = [("4 KiB unit", told.unit_4k), ("512 KiB unit", told.unit_512k)];
    if !full {
        let words = [(SWITCHES, FEWER), (FASTER, GROWS)];
        let words = words.map(|(what, told)| Row::cannot(what, told, WITH_FULL));
        return Ok(rates
            .iter()
            .map(|(what, rate)| RATE.cannot(*what, *rate, WITH_FULL))
            .chain(words)
            .collect());
    }
    // The study's units.
    const UNITS: [(&str, &str); 8] = [
        ("4", "mode=extended,io_unit=4K,io_uring=no"),
        ("8", "mode=extended,io_unit=8K,io_uring=no"),
        ("16", "mode=extended,io_unit=16K,io_uring=no"),
        ("32", "mode=extended,io_unit=32K,io_uring=no"),
        ("64", "mode=extended,io_unit=64K,io_uring=no"),
        ("128", "mode=extended,io_unit=128K,io_uring=no"),
        ("256", "mode=extended,io_unit=256K,io_uring=no"),
        ("512", NO_BUFFER),
    ];
    let mut experiment = Experiment::new(BYTES)?;
    let raw = experiment.raw(&EXT4)?;
    experiment.slow_down(&EXT4, raw)?;
    let found = in_rounds(&experiment, &UNITS.map(|(_, options)| (EXT4, Some(options))))?;
    let why = "most of what the daemon's CPU does here is making pages in the page cache below";
    let [smallest, .., largest] = &found[..] else { bail!("there are several units") };
    let of_units = |figure: &dyn Fn(&[Once]) -> Measured| -> Vec<Option<f64>> {
        found.iter().map(|once| figure(once).value()).collect()
    };
    let rates_found = of_units(&rate);
    let switches = of_units(&|once| each(once, |once| Some(once.used.switches as f64)));
    Ok(vec![
        RATE.row(rates[0].0, rates[0].1, &stock_rate(smallest), why),
        RATE.row(rates[1].0, rates[1].1, &rate(largest), why),
        steps(SWITCHES, FEWER, &switches, |before, after| after <= before)
            .noted("of the daemon alone, 4 to 512 KiB"),
        steps(FASTER, GROWS, &rates_found, |before, after| after >= before).noted("MB/s, 4 to 512 KiB"),
    ])
}

/// Returns a row on the direction of a sweep: it agrees if every step goes that way.
fn steps(what: &str, told: &str, values: &[Option<f64>], goes: impl Fn(f64, f64) -> bool) -> Row {
    let pairs: Option<Vec<bool>> = values.windows(2).map(|pair| Some(goes(pair[0]?, pair[1]?))).collect();
    let share = pairs.map(|steps| steps.iter().filter(|step| **step).count() as f64 / steps.len() as f64);
    let shown: Vec<String> = values.iter().map(|value| format!("{:.1}", value.unwrap_or(f64::NAN))).collect();
    Row::within(
        what,
        told,
        |_| shown.join(", "),
        (&Measured::once(share), 1.0..=1.0),
        "not every step goes that way",
    )
}

/// Figure 10: the buffer with and without its thread, for its sizes; and the interval of flushes.
pub(super) fn buffer(published: &Published, full: bool) -> Result<Vec<Row>> {
    const WORDS: [(&str, &str); 3] = [
        ("buffer without its thread", "slower than no buffer"),
        ("the size of the buffer", "8 MB is the study's choice"),
        ("the interval of flushes", "10 ms is the best"),
    ];
    const THREAD: &str = "buffer with its thread over none";
    let gain = times(published.bfuse.design.gain_percent.management_thread);
    if !full {
        let words = WORDS.map(|(what, told)| Row::cannot(what, told, WITH_FULL));
        return Ok([TIMES.cannot(THREAD, gain, WITH_FULL)].into_iter().chain(words).collect());
    }
    let experiment = slowed()?;
    let mut stacks = vec![(EXT4, Some(NO_BUFFER))];
    stacks.extend(SIZES.iter().flat_map(|(_, with, without)| [(EXT4, Some(*with)), (EXT4, Some(*without))]));
    stacks.extend(INTERVALS.iter().map(|(_, options)| (EXT4, Some(*options))));
    let found = in_rounds(&experiment, &stacks)?;
    let none = rate(&found[0]);
    let (sizes, intervals) = found[1..].split_at(2 * SIZES.len());
    let of_size = |at: usize, thread: bool| rate(&sizes[2 * at + usize::from(!thread)]).over(&none);
    let at = SIZES.iter().position(|(mb, ..)| *mb == STUDY_MB).context("the study's size is swept")?;
    let shown = |gains: &[Measured]| {
        let gains = gains.iter().map(|gain| format!("{:.2}", gain.value().unwrap_or(f64::NAN)));
        gains.collect::<Vec<_>>().join(", ")
    };
    let with: Vec<Measured> = (0..SIZES.len()).map(|at| of_size(at, true)).collect();
    let without: Vec<Measured> = (0..SIZES.len()).map(|at| of_size(at, false)).collect();
    let by_interval: Vec<Measured> = intervals.iter().map(|once| rate(once).over(&none)).collect();
    let why = "long streams go past the page cache, which the study's did not";
    let [thread, size, interval] = WORDS;
    Ok(vec![
        TIMES.effect(THREAD, gain, &with[at], why),
        Row::effect(
            thread.0,
            thread.1,
            |ratio| format!("{ratio:.2} times as fast as no buffer"),
            (&without[at], 0.0..=1.0),
            why,
        )
        .noted(format!("2 to 64 MB: {}", shown(&without))),
        Row::effect(
            size.0,
            size.1,
            |ratio| format!("{ratio:.2} times as fast as 2 MB"),
            (&with[at].over(&with[0]), 1.0..=f64::INFINITY),
            why,
        )
        .noted(format!("2 to 64 MB over no buffer: {}", shown(&with))),
        Row::effect(
            interval.0,
            interval.1,
            |ratio| format!("{ratio:.2} times as fast as 1 s"),
            (&by_interval[1].over(&by_interval[3]), 1.0..=f64::INFINITY),
            why,
        )
        .noted(format!("1, 10, 100, 1000 ms over no buffer: {}", shown(&by_interval))),
    ])
}

/// Figures 11 and 12: the requests that reach the device, for the sizes of the buffer.
pub(super) fn reaching(_: &Published, full: bool) -> Result<Vec<Row>> {
    const WORDS: [(&str, &str); 3] = [
        ("f11: random writes", "fewest with the 8 MB buffer"),
        ("f11: random writes", "fewer than without a buffer"),
        ("f12: bytes of a burst", "larger with the buffer"),
    ];
    if !full {
        return Ok(WORDS.map(|(what, told)| Row::cannot(what, told, WITH_FULL)).into());
    }
    let experiment = slowed()?;
    let mut stacks = vec![(EXT4, Some(NO_BUFFER))];
    stacks.extend(SIZES.iter().map(|(_, with, _)| (EXT4, Some(*with))));
    let found = in_rounds(&experiment, &stacks)?;
    let random = |once: &[Once]| each(once, |once| once.random_share);
    let shares: Vec<Measured> = found.iter().map(|once| random(once)).collect();
    let at = 1 + SIZES.iter().position(|(mb, ..)| *mb == STUDY_MB).context("the study's size is swept")?;
    let others = shares.iter().enumerate().filter(|(other, _)| *other > 0 && *other != at);
    let least = others
        .min_by(|(_, a), (_, b)| {
            let of = |share: &Measured| share.value().unwrap_or(f64::INFINITY);
            of(a).total_cmp(&of(b))
        })
        .map(|(_, share)| share)
        .context("other sizes are swept")?;
    let shown: Vec<String> =
        shares.iter().map(|share| format!("{:.1} %", share.value().unwrap_or(f64::NAN) * 100.0)).collect();
    let shown = format!("none, 2 to 64 MB: {}", shown.join(", "));
    let why = "ext4 sorts what its page cache holds, whoever wrote it";
    let burst = |once: &[Once]| each(once, |once| once.burst_bytes);
    let [fewest, fewer, bursts] = WORDS;
    let row = |(what, told): (&str, &str), ratio: &Measured, range, said: &str| {
        Row::effect(what, told, |ratio| format!("{ratio:.2} times {said}"), (ratio, range), why)
    };
    Ok(vec![
        row(fewest, &shares[at].over(least), 0.0..=1.0, "the least of the other sizes").noted(shown),
        row(fewer, &shares[at].over(&shares[0]), 0.0..=1.0, "those without"),
        row(bursts, &burst(&found[at]).over(&burst(&found[0])), 1.0..=f64::INFINITY, "those without"),
    ])
}

/// Returns an experiment whose daemon has the share of a processor with which `stock` reaches the study's share of the
/// device.
fn slowed() -> Result<Experiment> {
    let mut experiment = Experiment::new(BYTES)?;
    let raw = experiment.raw(&EXT4)?;
    experiment.slow_down(&EXT4, raw)?;
    Ok(experiment)
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
            rows.push(calls.row(
                what_calls,
                calls_told,
                &Measured::once(once.used.write_calls.map(|calls| calls as f64)),
                "every 10 ms what has come is flushed, also where an entry is not full",
            ));
            let why = "this kernel merges requests up to the device's limit";
            let row = requests.row(what_requests, requests_told, &Measured::once(once.writes), why);
            rows.push(match once.writes.zip(once.small_share) {
                Some((writes, share)) => row.noted(format!("{:.0} of them below 64 KiB", writes * share)),
                None => row,
            });
        }
    }
    Ok(rows)
}

/// Figures 13, 16 and 17: schedulers, file systems and options together. For btrfs, bFUSE's result is only drawn.
pub(super) fn matrix(published: &Published, full: bool) -> Result<Vec<Row>> {
    let gain = &published.bfuse.design.gain_percent;
    let last = &published.bfuse.last;
    let [ext4, xfs] = [last.share_of_raw_percent.ext4[0], last.share_of_raw_percent.xfs[0]];
    const DEADLINE: &str = "f13: deadline over CFQ";
    const UNIT: &str = "f16: 512 KiB unit over 4 KiB";
    const OVER_STOCK: &str = "f17: bFUSE over stock";
    let on_device = [("f17: bFUSE on ext4", ext4), ("f17: bFUSE on xfs", xfs)];
    let over_stock = times(last.gain_percent_over_stock.ics);
    let (deadline_told, unit_told) = (times(gain.deadline_over_cfq), times(gain.extended_io_unit));
    if !full {
        let mut rows = vec![
            TIMES.cannot(DEADLINE, deadline_told, WITH_FULL),
            MANY_TIMES.cannot(UNIT, unit_told, WITH_FULL),
        ];
        rows.extend(on_device.map(|(what, told)| SHARE.cannot(what, told, WITH_FULL)));
        rows.push(MANY_TIMES.cannot(OVER_STOCK, over_stock, WITH_FULL));
        return Ok(rows);
    }
    let mut experiment = Experiment::new(BYTES)?;
    let raw = experiment.raw(&EXT4)?;
    experiment.slow_down(&EXT4, raw)?;
    let scheduler = |scheduler| Setup { scheduler, ..EXT4 };
    let found = in_rounds(
        &experiment,
        &[
            (EXT4, Some(STOCK)),
            (EXT4, Some(NO_BUFFER)),
            (EXT4, Some(BUFFERED)),
            (scheduler("bfq"), Some(BUFFERED)),
            (scheduler("none"), Some(BUFFERED)),
        ],
    )?;
    let on_xfs = in_rounds(&experiment, &[(Setup { file_system: "xfs", ..EXT4 }, Some(BUFFERED))]);
    let (stock, unit) = (stock_rate(&found[0]), rate(&found[1]));
    let (deadline, bfq, none) = (rate(&found[2]), rate(&found[3]), rate(&found[4]));
    let over_none = deadline.over(&none).value().unwrap_or(f64::NAN);
    let mut rows = vec![
        TIMES
            .effect(DEADLINE, deadline_told, &deadline.over(&bfq), NO_CFQ)
            .noted(format!("over bfq; {over_none:.2} times over none")),
        MANY_TIMES.effect(
            UNIT,
            unit_told,
            &unit.over(&stock),
            "a copy costs the confined daemon as much as before, only its calls are fewer",
        ),
    ];
    let on_xfs = on_xfs.map(|found| rate(&found[0]));
    for ((what, told), rate) in on_device.into_iter().zip([Ok(deadline.clone()), on_xfs]) {
        rows.push(match rate {
            Ok(rate) => SHARE.row(what, told, &rate.over(&raw_rate(raw)).times(100.0), ""),
            Err(error) => SHARE.cannot(what, told, &format!("{error:#}")),
        });
    }
    rows.push(MANY_TIMES.effect(
        OVER_STOCK,
        over_stock,
        &deadline.over(&stock),
        "the share of the CPU was chosen by stock's rate alone",
    ));
    Ok(rows)
}
