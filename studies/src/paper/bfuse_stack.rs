//! Reproduces the figures of Jeong and Won 2014 about writing a file through parts of the stack, on an
//! emulated Galaxy S3. The FUSE daemon's processor is slowed down until `stock` reaches the study's share of
//! the device. The measurements run only with `--full`, because they take minutes and need root or a guest.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use fonio_core::Unit;
use fonio_experiment::Layers as Measurements;
use fonio_host::Filesystem;
use fonio_report::document::{Axis, Chart, Plot, Role, Series};
use serde::Deserialize;

use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::{Quantity, RUNS_MIN, Row};
use super::runs::{At, Runs};
use crate::fuse::{BYTES, Found, Once, Plan, Setup, Stack};

/// The study's numbers of calls and requests, one for each file system, in the order of `filesystems`.
#[derive(Deserialize)]
struct Calls {
    filesystems: Vec<String>,
    kb_written: f64,
    pwrite_fuse: Vec<f64>,
    pwrite_nobuf: Vec<f64>,
    pwrite_bfuse: Vec<f64>,
    io_fuse: Vec<f64>,
    io_nobuf: Vec<f64>,
    io_bfuse: Vec<f64>,
    meta_journal_fuse: Vec<f64>,
    meta_journal_nobuf: Vec<f64>,
    meta_journal_bfuse: Vec<f64>,
}

const PROFILE: &str = "galaxy_s3_emmc";
/// The remark on rows for which the study used CFQ. Linux 5.0 removed CFQ; BFQ was derived from it.
pub(super) const NO_CFQ: &str = "bfq replaces CFQ, which Linux 5.0 removed";
pub(super) const STOCK: &str = "mode=stock";
pub(super) const NO_BUFFER: &str = "mode=extended,io_unit=512K,io_uring=no";
pub(super) const BUFFERED: &str = "mode=buffered,io_unit=512K,buffer=8M,entry=2M,flush=10ms";
/// The study's buffer sizes in MB; the study chose 8 MB.
const SIZES_MB: [u32; 6] = [2, 4, 8, 16, 32, 64];
const STUDYS_SIZE: usize = 2;
/// The intervals between flushes; in the study, the second interval was best.
const INTERVALS: [&str; 4] = ["1ms", "10ms", "100ms", "1s"];
pub(super) const WITH_FULL: &str = "measured with --full, as root";

/// Shares of the device's throughput count as equal if they differ by at most this many percentage points.
const NEAR: f64 = 10.0;
pub(super) const SHARE: Quantity = Quantity::new("% of raw", 0, 1.0, NEAR);
const RATE: Quantity = Quantity::new("MB/s", 1, 1.1, 0.0);
/// The quantity of gains. Gains that differ by at most 10 percentage points count as equal.
pub(super) const TIMES: Quantity = Quantity::new("times", 2, 1.0, NEAR / 100.0);
/// A layer's part of the throughput that is lost between the bare device and the mount.
const LOSS: Quantity = Quantity::new("% of the loss", 0, 1.0, NEAR);
pub(super) const MANY_TIMES: Quantity = Quantity::new("times", 2, 1.25, 0.0);
const CALLS: Quantity = Quantity::new("calls", 0, 1.25, 0.0);
const REQUESTS: Quantity = Quantity::new("requests", 0, 1.25, 0.0);
/// The share of requests that the file system issues for itself. The number of these requests cannot be
/// compared, because our file has another size.
const OWN: Quantity = Quantity::new("% of requests", 1, 1.25, 1.0);

fn buffered(mb: u32, flush: &str) -> String {
    format!("mode=buffered,io_unit=512K,buffer={mb}M,entry=2M,flush={flush}")
}

pub(super) const fn on(file_system: &'static str, scheduler: &'static str) -> Setup {
    Setup {
        profile: Cow::Borrowed(PROFILE),
        file_system: Cow::Borrowed(file_system),
        scheduler: Cow::Borrowed(scheduler),
        seed: 1,
    }
}

/// The file system of the study's phone, with its best scheduler.
const EXT4: Setup = on("ext4", DEADLINE);
pub(super) const DEADLINE: &str = "mq-deadline";
pub(super) const BFQ: &str = "bfq";

/// Returns a stack of a mount with these options on a file system. Without options, returns the file system
/// itself.
pub(super) fn stack(setup: Setup, options: Option<&str>) -> Stack {
    Stack { setup, options: options.map(str::to_owned) }
}

/// Returns a plan with enough rounds to show an effect, and with daemons slowed down to the study's speed.
pub(super) fn slowed(raw: Vec<Setup>, stacks: Vec<Stack>) -> Plan {
    Plan { bytes: BYTES, rounds: RUNS_MIN as u64, slow_daemons: true, raw, stacks }
}

fn on_ext4(runs: &mut Runs, options: impl IntoIterator<Item = String>) -> Result<Found> {
    let stacks = options.into_iter().map(|options| stack(EXT4, Some(&options))).collect();
    let at = runs.place_for(&[]);
    runs.stacks(&slowed(vec![EXT4], stacks), &at)
}

pub(super) fn each(once: &[Once], figure: impl Fn(&Once) -> Option<f64>) -> Measured {
    Kind::Imitation.runs(once.iter().map(figure))
}

pub(super) fn rate(once: &[Once]) -> Measured {
    each(once, |once| Some(once.mb_s))
}

/// Returns the rate of `stock`, marked as known, because the daemons' share of the processor was chosen to
/// reach this rate.
pub(super) fn stock_rate(once: &[Once]) -> Measured {
    rate(once).known(true)
}

/// Returns the rate of the bare device, marked as known, because the profile was fitted to the study's rate.
pub(super) fn raw_rate(mb_s: &[f64]) -> Measured {
    Kind::Imitation.runs(mb_s.iter().copied()).known(true)
}

pub(super) fn times(percent: f64) -> f64 {
    1.0 + percent / 100.0
}

/// The published numbers of the layers.
struct Told {
    /// The rate of the bare device, in MB/s.
    raw: f64,
    /// The layers of Figure 2, each with the share of this rate that remains, in percent.
    steps: [(&'static str, f64); 3],
    /// The parts of the loss, in the order of [`LOSERS`], in percent.
    lost: [f64; 3],
}

/// Returns the rows of Figures 2, 3 and Table 2: the share of throughput that remains after each layer.
pub(super) fn layers(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    // The study has two versions of Android; compare with the first version.
    let told = |figure: &str| published.number(&format!("bfuse.layers_mb_s.{figure}"));
    let raw = told("ics.raw_noop")?;
    const INSTEAD: &str = "FUSE on ext4 instead of VFAT";
    let instead = 1.0 - told("fuse_instead_of_vfat_loss_percent")? / 100.0;
    let layers = Told {
        raw,
        steps: [
            ("BLK: raw device, bfq", 100.0 - told("loss_percent_raw_cfq.ics")?),
            ("EXT4, bfq", 100.0 - told("loss_percent_ext4.ics")?),
            ("FUSE: ext4, bfq, 4 KiB unit", 100.0 * told("ics.fuse")? / raw),
        ],
        // The parts of the loss are published for the second version only.
        lost: [
            told("share_of_loss_percent_jb.fuse")?,
            told("share_of_loss_percent_jb.ext4")?,
            told("share_of_loss_percent_jb.io_scheduler")?,
        ],
    };
    if !runs.full() {
        let cannot = |quantity: Quantity, what: &str, told: f64| {
            quantity.cannot(Kind::Imitation, what, told, WITH_FULL)
        };
        let steps = layers.steps.iter().map(|(what, share)| cannot(SHARE, what, *share));
        let lost = LOSERS.iter().zip(layers.lost).map(|(what, told)| cannot(LOSS, what, told));
        return Ok(steps.chain([cannot(TIMES, INSTEAD, instead)]).chain(lost).collect());
    }
    let at = runs.place_for(&[]);
    let mut rows =
        if at.is_guest() { layers_in_guest(&layers, runs, &at)? } else { layers_here(&layers, runs, &at)? };
    // In the guest, the stock daemon is not slowed down, so no value depends on a published rate.
    let at = runs.place_for(&[Filesystem::Vfat]);
    let (on_vfat, on_ext4) = (bench_layers(runs, "vfat", &at)?, bench_layers(runs, "ext4", &at)?);
    let (vfat, fuse) = (of_layer(&on_vfat, "vfat")?, of_layer(&on_ext4, FUSE)?);
    let shown = |measured: &Measured| measured.value().unwrap_or(f64::NAN);
    let rates = format!("{:.1} and {:.1} MB/s", shown(&fuse), shown(&vfat));
    let row = TIMES.effect(INSTEAD, instead, &fuse.over(&vfat), GUESTS_PROCESSOR);
    rows.push(row.noted(rates).noted(at.noted()));
    Ok(rows)
}

const FUSE: &str = "FUSE, mode=stock";
const GUESTS_PROCESSOR: &str = "the daemon runs at the full speed of the guest's simulated processor, one \
    instruction per nanosecond; the phone's was slower";

fn bench_layers(runs: &mut Runs, file_system: &str, at: &At) -> Result<Measurements> {
    let (size, rounds) = (format!("{}MiB", BYTES >> 20), Runs::repeat());
    let fixed = ["--scheduler", BFQ, "--mode", STOCK, "--range", &size, "--runs", &rounds];
    runs.bench("layers", &[&[PROFILE, "--fs", file_system], &fixed[..]].concat(), at)
}

/// Returns the rate of writing through the named layer in each round.
fn of_layer(found: &Measurements, name: &str) -> Result<Measured> {
    let layer = found.layers.iter().find(|layer| layer.name == name);
    let layer = layer.with_context(|| format!("`fonio bench layers` did not measure {name}"))?;
    Ok(Kind::Imitation.runs(layer.write_rounds_mb_s.iter().copied()))
}

/// The layers between the device and the mount, of Figure 3, in the order of `share_of_loss_percent_jb`.
const LOSERS: [&str; 3] =
    ["the loss, by FUSE", "the loss, by the file system", "the loss, by the I/O scheduler"];

/// Returns the rows of Figure 3: which part of the loss each layer has. The rates are those of the bare device, the device
/// with a scheduler, the file system, and the mount. The parts add up to the whole, so the last one follows.
fn losses(lost: [f64; 3], [raw, block, file_system, mount]: [&Measured; 4], why: &str) -> Vec<Row> {
    let all = raw.minus(mount);
    let parts = [file_system.minus(mount), block.minus(file_system), raw.minus(block)];
    let row = |((what, told), part): ((&&str, f64), &Measured)| {
        LOSS.row(*what, told, &part.over(&all).times(100.0), why)
    };
    let mut rows: Vec<Row> = LOSERS.iter().zip(lost).zip(&parts).map(row).collect();
    let last = rows.pop().map(Row::following);
    rows.extend(last);
    rows
}

/// Returns the rows of the layers measured in a guest. The processor of the guest is slow for all layers.
fn layers_in_guest(told: &Told, runs: &mut Runs, at: &At) -> Result<Vec<Row>> {
    let found = bench_layers(runs, "ext4", at)?;
    let raw = of_layer(&found, "device, scheduler none")?.known(true);
    let note = format!("raw {:.1} MB/s, the study's {}", raw.value().unwrap_or(f64::NAN), told.raw);
    let names = ["device, scheduler bfq", "ext4", FUSE];
    let why = format!("{NO_CFQ}; {GUESTS_PROCESSOR}");
    let layers = names.map(|name| of_layer(&found, name));
    let [block, file_system, mount] = layers;
    let (block, file_system, mount) = (block?, file_system?, mount?);
    let rows = told.steps.iter().zip([&block, &file_system, &mount]).map(|((what, share), layer)| {
        let of_raw = layer.over(&raw).times(100.0);
        SHARE.row(*what, *share, &of_raw, &why).noted(note.clone()).noted(at.noted())
    });
    let of_loss = losses(told.lost, [&raw, &block, &file_system, &mount], &why);
    Ok(rows.chain(of_loss.into_iter().map(|row| row.noted(at.noted()))).collect())
}

/// Returns the rows of the layers measured on this machine. Here, the processor is slow only for the daemon.
fn layers_here(told: &Told, runs: &mut Runs, at: &At) -> Result<Vec<Row>> {
    let bfq = || on("ext4", BFQ);
    let stacks = vec![stack(bfq(), None), stack(bfq(), Some(STOCK))];
    let found = runs.stacks(&slowed(vec![on("ext4", "none"), bfq()], stacks), at)?;
    let [raw, block] = &found.raw_mb_s[..] else { bail!("expected the rates of two devices") };
    let why =
        format!("{NO_CFQ}; on the phone, these layers ran on the slow CPU; here, only the daemon is slow");
    let raw = raw_rate(raw);
    let note = format!("raw {:.1} MB/s, the study's {}", raw.value().unwrap_or(f64::NAN), told.raw);
    let measured =
        [Kind::Imitation.runs(block.iter().copied()), rate(&found.writes[0]), stock_rate(&found.writes[1])];
    let rows = told.steps.iter().zip(&measured).map(|((what, share), measured)| {
        let of_raw = measured.over(&raw).times(100.0);
        SHARE.row(*what, *share, &of_raw, &why).noted(note.clone())
    });
    let mut rows: Vec<Row> = rows.collect();
    let share = found.cpu_share.unwrap_or(f64::NAN) * 100.0;
    let chosen = format!("the daemon has {share:.2} % of a CPU, chosen by this share");
    let last = rows.pop().map(|last| last.because(chosen));
    rows.extend(last);
    let [block, file_system, mount] = &measured;
    rows.extend(losses(told.lost, [&raw, block, file_system, mount], &why));
    Ok(rows)
}

/// Returns the rows of Figures 6 and 7: how throughput and context switches depend on the FUSE I/O unit.
pub(super) fn io_unit(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    const SWITCHES: &str = "context switches";
    const FEWER: &str = "fewer with larger units";
    const FASTER: &str = "throughput";
    const GROWS: &str = "grows with the unit";
    let rates = [
        ("4 KiB unit", published.number("bfuse.io_unit.unit_4k")?),
        ("512 KiB unit", published.number("bfuse.io_unit.unit_512k")?),
    ];
    if !runs.full() {
        let words = [(SWITCHES, FEWER), (FASTER, GROWS)];
        let words = words.map(|(what, told)| Row::cannot(Kind::Imitation, what, told, WITH_FULL));
        return Ok(rates
            .iter()
            .map(|(what, rate)| RATE.cannot(Kind::Imitation, *what, *rate, WITH_FULL))
            .chain(words)
            .collect());
    }
    // The study's I/O units, from 4 KiB to 512 KiB.
    let units = (2..=9).map(|power| format!("mode=extended,io_unit={}K,io_uring=no", 1 << power));
    let found = on_ext4(runs, units)?.writes;
    let why = "here, the daemon's CPU mostly creates pages in the page cache of the file system below";
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

/// Returns the row of a statement about the direction in which a series of values changes. It agrees if every
/// step has this direction.
fn steps(what: &str, told: &str, values: &[Option<f64>], goes: impl Fn(f64, f64) -> bool) -> Row {
    let pairs: Option<Vec<bool>> = values.windows(2).map(|pair| Some(goes(pair[0]?, pair[1]?))).collect();
    let share = pairs.map(|steps| steps.iter().filter(|step| **step).count() as f64 / steps.len() as f64);
    let shown: Vec<String> = values.iter().map(|value| format!("{:.1}", value.unwrap_or(f64::NAN))).collect();
    Row::within(
        what,
        told,
        |_| shown.join(", "),
        (&Kind::Imitation.once(share), 1.0..=1.0),
        "not every step has this direction",
    )
}

/// Returns the rows of Figure 10: the buffer with and without its thread, by its size, and the flush
/// interval.
pub(super) fn buffer(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    const WORDS: [(&str, &str); 3] = [
        ("buffer without its thread", "slower than no buffer"),
        ("the size of the buffer", "8 MB is the study's choice"),
        ("the interval of flushes", "10 ms is the best"),
    ];
    const THREAD: &str = "buffer with its thread, over no buffer";
    let gain = times(published.number("bfuse.design.gain_percent.management_thread")?);
    if !runs.full() {
        let words = WORDS.map(|(what, told)| Row::cannot(Kind::Imitation, what, told, WITH_FULL));
        return Ok([TIMES.cannot(Kind::Imitation, THREAD, gain, WITH_FULL)]
            .into_iter()
            .chain(words)
            .collect());
    }
    let mut options = vec![NO_BUFFER.to_owned()];
    let sizes = SIZES_MB.map(|mb| buffered(mb, "10ms"));
    options.extend(sizes.into_iter().flat_map(|with| [with.clone(), with + ",thread=no"]));
    options.extend(INTERVALS.map(|flush| buffered(8, flush)));
    let found = on_ext4(runs, options)?.writes;
    let none = rate(&found[0]);
    let (sizes, intervals) = found[1..].split_at(2 * SIZES_MB.len());
    let of_size = |at: usize, thread: bool| rate(&sizes[2 * at + usize::from(!thread)]).over(&none);
    let shown = |gains: &[Measured]| {
        let gains = gains.iter().map(|gain| format!("{:.2}", gain.value().unwrap_or(f64::NAN)));
        gains.collect::<Vec<_>>().join(", ")
    };
    let with: Vec<Measured> = (0..SIZES_MB.len()).map(|at| of_size(at, true)).collect();
    let without: Vec<Measured> = (0..SIZES_MB.len()).map(|at| of_size(at, false)).collect();
    let by_interval: Vec<Measured> = intervals.iter().map(|once| rate(once).over(&none)).collect();
    let why = "long streams bypass the page cache, unlike in the study";
    let [thread, size, interval] = WORDS;
    Ok(vec![
        TIMES.effect(THREAD, gain, &with[STUDYS_SIZE], why),
        Row::effect(
            thread.0,
            thread.1,
            |ratio| format!("{ratio:.2} times as fast as no buffer"),
            (&without[STUDYS_SIZE], 0.0..=1.0),
            why,
        )
        .noted(format!("2 to 64 MB: {}", shown(&without))),
        Row::effect(
            size.0,
            size.1,
            |ratio| format!("{ratio:.2} times as fast as 2 MB"),
            (&with[STUDYS_SIZE].over(&with[0]), 1.0..=f64::INFINITY),
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

/// Returns the rows of Figures 11 and 12: the requests that reach the device, by buffer size.
pub(super) fn reaching(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    const WORDS: [(&str, &str); 3] = [
        ("f11: random writes", "fewest with the 8 MB buffer"),
        ("f11: random writes", "fewer than without a buffer"),
        ("f12: bytes of a burst", "larger with the buffer"),
    ];
    if !runs.full() {
        return Ok(WORDS.map(|(what, told)| Row::cannot(Kind::Imitation, what, told, WITH_FULL)).into());
    }
    let sizes = SIZES_MB.map(|mb| buffered(mb, "10ms"));
    let found = on_ext4(runs, [NO_BUFFER.to_owned()].into_iter().chain(sizes))?.writes;
    for (at, what) in [(0, "without a buffer"), (1 + STUDYS_SIZE, "with the study's buffer of 8 MB")] {
        runs.picture(pattern(at, what, found.get(at).and_then(|once| once.first())));
    }
    let random = |once: &[Once]| each(once, |once| once.random_share);
    let shares: Vec<Measured> = found.iter().map(|once| random(once)).collect();
    let at = 1 + STUDYS_SIZE;
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
    let why = "ext4 sorts all pages in the page cache, regardless of the writer";
    let burst = |once: &[Once]| each(once, |once| once.burst_bytes);
    let [fewest, fewer, bursts] = WORDS;
    let row = |(what, told): (&str, &str), ratio: &Measured, range, said: &str| {
        Row::effect(what, told, |ratio| format!("{ratio:.2} times {said}"), (ratio, range), why)
    };
    Ok(vec![
        row(fewest, &shares[at].over(least), 0.0..=1.0, "the minimum of the other sizes").noted(shown),
        row(fewer, &shares[at].over(&shares[0]), 0.0..=1.0, "those without"),
        row(bursts, &burst(&found[at]).over(&burst(&found[0])), 1.0..=f64::INFINITY, "those without"),
    ])
}

/// Draws where the requests of the first round were written.
fn pattern(at: usize, what: &str, once: Option<&Once>) -> Chart {
    let written = once.map(|once| &once.pattern[..]).unwrap_or_default();
    let length_s = written.iter().map(|request| request.s).fold(0.0, f64::max);
    Chart {
        id: format!("bfuse-pattern-{at}"),
        title: format!("Written addresses {what}"),
        caption:
            "Each dot is the address of a write request to the device, over the time since the first one."
                .into(),
        plot: Plot::Scatter,
        x: Axis::time(length_s),
        y: Axis::linear("Address", Unit::Bytes),
        z: None,
        series: vec![Series {
            name: "write requests".into(),
            role: Role::Write,
            x: written.iter().map(|request| request.s).collect(),
            y: written.iter().map(|request| request.at as f64).collect(),
            ..Series::default()
        }],
        marks: Vec::new(),
    }
}

/// The file system that the sdcard partition of phones had before FUSE. The study's table does not contain
/// it.
const VFAT: &str = "vfat";

/// Returns the rows of Table 3: write calls and device requests, scaled from 512,000 KiB to our file size.
pub(super) fn calls(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let told: Calls = published.at("bfuse.calls")?;
    let scale = BYTES as f64 / 1024.0 / told.kb_written;
    let ways = [
        ("FUSE", STOCK, [&told.pwrite_fuse, &told.io_fuse, &told.meta_journal_fuse]),
        ("no buffer", NO_BUFFER, [&told.pwrite_nobuf, &told.io_nobuf, &told.meta_journal_nobuf]),
        ("bFUSE", BUFFERED, [&told.pwrite_bfuse, &told.io_bfuse, &told.meta_journal_bfuse]),
    ];
    let names: Vec<&str> = told.filesystems.iter().map(String::as_str).chain([VFAT]).collect();
    let found = if runs.full() {
        counts(&names, ways.map(|(_, options, _)| options), runs)?
    } else {
        BTreeMap::new()
    };
    let mut rows = Vec::new();
    for (at, name) in names.into_iter().enumerate() {
        let found = found.get(name);
        for (number, (way, _, told)) in ways.iter().enumerate() {
            let once = found.map(|(writes, place)| (&writes[number], place));
            let what = |of: &str| format!("{name}, {way}, {of}");
            let [calls, requests, own] = told.map(|of| of.get(at).copied());
            let told = calls.zip(requests).zip(own).map(|((calls, requests), own)| Counted {
                calls: calls * scale,
                requests: requests * scale,
                own_percent: own / requests * 100.0,
            });
            match (told, once) {
                (Some(told), Some((once, place))) => rows.extend(counted(told, what, once, place)),
                (Some(told), None) => {
                    rows.push(CALLS.cannot(Kind::Construction, what("calls"), told.calls, WITH_FULL));
                    rows.push(REQUESTS.cannot(
                        Kind::Construction,
                        what("requests"),
                        told.requests,
                        WITH_FULL,
                    ));
                    rows.push(OWN.cannot(Kind::Imitation, what(OWN_WRITES), told.own_percent, WITH_FULL));
                }
                (None, Some((once, place))) => {
                    let shown = |count: Option<f64>| {
                        count.map_or("an unknown number of".to_owned(), |count| format!("{count:.0}"))
                    };
                    let calls = shown(once.used.write_calls.map(|calls| calls as f64));
                    let own = match once.own_writes {
                        Some(own) => format!(", {own:.0} of journal and metadata"),
                        None => String::new(),
                    };
                    let ours = format!("{calls} calls, {} requests{own}", shown(once.writes));
                    let why = "the study has no numbers for this file system, which phones used on SD cards";
                    rows.push(
                        Row::ours_alone(Kind::Imitation, format!("{name}, {way}"), ours, why)
                            .noted(place.noted()),
                    );
                }
                (None, None) => {}
            }
        }
    }
    Ok(rows)
}

/// For each file system and each of `options`, writes a file once through a mount. One plan covers the file
/// systems that this kernel supports, and one guest covers the other file systems.
fn counts<'a>(
    names: &[&'a str],
    options: [&str; 3],
    runs: &mut Runs,
) -> Result<BTreeMap<&'a str, (Vec<Once>, At)>> {
    let mut places = Vec::new();
    for name in names {
        places.push((*name, runs.place_for(&[name.parse().map_err(anyhow::Error::msg)?])));
    }
    let (guests, here): (Vec<_>, Vec<_>) = places.into_iter().partition(|(_, place)| place.is_guest());
    let mut found = BTreeMap::new();
    for places in [here, guests] {
        let Some((_, place)) = places.first() else { continue };
        let on_each = |name: &str| {
            let setup = Setup { file_system: name.to_owned().into(), ..EXT4 };
            options.map(|options| stack(setup.clone(), Some(options)))
        };
        let stacks = places.iter().flat_map(|(name, _)| on_each(name)).collect();
        let plan = Plan { bytes: BYTES, rounds: 1, slow_daemons: false, raw: Vec::new(), stacks };
        let writes: Vec<Once> = runs.stacks(&plan, place)?.writes.into_iter().flatten().collect();
        for ((name, place), writes) in places.into_iter().zip(writes.chunks(options.len())) {
            found.insert(name, (writes.to_vec(), place));
        }
    }
    Ok(found)
}

const OWN_WRITES: &str = "journal and metadata";

/// The study's numbers for one write, scaled to the size of our file.
struct Counted {
    calls: f64,
    requests: f64,
    /// Number of requests for journal and metadata, as a percentage of all requests.
    own_percent: f64,
}

/// Returns the rows of one write: the number of the daemon's write calls, of requests to the device, and of
/// the file system's own requests.
fn counted(told: Counted, what: impl Fn(&str) -> String, once: &Once, place: &At) -> [Row; 3] {
    // The number of calls is the file's size over the unit or the entry, which the mount options set; the number
    // of requests is at least the file's size over the largest request, which the profile sets.
    let called = Kind::Construction.once(once.used.write_calls.map(|calls| calls as f64));
    let why = "the buffer is flushed every 10 ms, even if an entry is not full";
    let calls = CALLS.row(what("calls"), told.calls, &called, why).noted(place.noted());
    let why = "this kernel merges requests up to the device's limit";
    let mut row = REQUESTS.row(what("requests"), told.requests, &Kind::Construction.once(once.writes), why);
    if let Some((writes, share)) = once.writes.zip(once.small_share) {
        row = row.noted(format!("{:.0} of them below 64 KiB", writes * share));
    }
    let percent = once.own_writes.zip(once.writes).map(|(own, all)| own / all * 100.0);
    let own = if percent.is_none() {
        OWN.cannot(
            Kind::Imitation,
            what(OWN_WRITES),
            told.own_percent,
            "for this file system, recordings show the kind of some data only",
        )
    } else {
        let why = "the file systems are twelve years newer, and our file has a quarter of the size";
        let own = OWN.row(what(OWN_WRITES), told.own_percent, &Kind::Imitation.once(percent), why);
        own.noted(format!("{:.0} of them", once.own_writes.unwrap_or(f64::NAN)))
    };
    [calls, row.noted(place.noted()), own.noted(place.noted())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_is_divided_among_the_layers() {
        let rate = |mb_s: f64| Kind::Imitation.runs([mb_s; 5]);
        let rates = [rate(40.0), rate(38.0), rate(33.0), rate(7.0)];
        let rows = losses([79.0, 16.0, 5.0], [&rates[0], &rates[1], &rates[2], &rates[3]], "");
        let shown: Vec<String> = rows.iter().map(Row::ours).collect();
        assert!(
            shown[0].starts_with("79 ") && shown[1].starts_with("15 ") && shown[2].starts_with("6 "),
            "{shown:?}"
        );
    }
}
