//! Reproduces Figures 13 to 17 of Jeong and Won 2014: five file systems, three schedulers, and the steps from
//! the phone's stack to bFUSE. All measurements run on the same kernel; otherwise, they could not be
//! compared.

use std::collections::BTreeMap;

use anyhow::Result;
use fonio_host::Filesystem;

use super::bfuse_stack::{
    BFQ, BUFFERED, DEADLINE, MANY_TIMES, NO_BUFFER, NO_CFQ, SHARE, STOCK, TIMES, WITH_FULL, each, on, rate,
    raw_rate, slowed, stack, stock_rate, times,
};
use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::Runs;
use crate::fuse::{Once, Stack};

/// The study's file systems, by their names in the kernel. The phone uses the first of these file systems.
const FILE_SYSTEMS: [&str; 5] = ["ext4", "xfs", "f2fs", "btrfs", "nilfs2"];
const NONE: &str = "none";
const SCHEDULERS: [&str; 3] = [BFQ, DEADLINE, NONE];
/// Our limit for "significantly worse": at most this share of the better throughput.
const CLEARLY_WORSE: f64 = 0.9;
/// Our limit for a sequential pattern: the maximum share of writes that do not continue the previous write.
const RANDOM_MOST: f64 = 0.1;
const WHY_COPY: &str = "the confined daemon makes fewer calls, but a copy still costs the same";
const WHY_STOCK: &str = "the CPU share was chosen to match only the rate of stock";
const WHY_FILE_SYSTEM: &str =
    "the file systems are twelve years newer; a simulated or confined processor hides their differences";

struct Told {
    what: String,
    quantity: Quantity,
    number: f64,
    /// How many published numbers the row compares; 0 if an earlier row compares its number.
    numbers: u32,
}

fn told(published: &Published) -> Result<Vec<Told>> {
    let gain = published.numbers("bfuse.design.gain_percent")?;
    let over = |file_system| published.number(&format!("bfuse.filesystem_over_ext4_percent.{file_system}"));
    // The study has two versions of Android; compare with the first version.
    let share = |file_system| -> Result<f64> {
        let shares = published.at::<[f64; 2]>(&format!("bfuse.final.share_of_raw_percent.{file_system}"))?;
        Ok(shares[0])
    };
    let mut told = Vec::new();
    let mut add = |what: &str, quantity, number| {
        // The study gives one gain of the I/O unit for all file systems.
        let numbers = u32::from(!what.starts_with("f16: ") || what.ends_with(FILE_SYSTEMS[0]));
        told.push(Told { what: what.to_owned(), quantity, number, numbers });
    };
    add("f13: deadline over CFQ", TIMES, times(gain["deadline_over_cfq"]));
    add("f13: bFUSE, deadline over CFQ", TIMES, times(gain["buffer_and_deadline_over_cfq"]));
    add("f14: xfs over ext4", TIMES, times(over("xfs")?));
    add("f14: f2fs over ext4", TIMES, times(over("f2fs")?));
    add("f14: btrfs over ext4", TIMES, times(over("btrfs.ics")?));
    for name in &FILE_SYSTEMS[..4] {
        add(&format!("f16: 512 KiB unit over 4 KiB, {name}"), MANY_TIMES, times(gain["extended_io_unit"]));
    }
    add("f17: bFUSE on ext4", SHARE, share("ext4")?);
    add("f17: bFUSE on xfs", SHARE, share("xfs")?);
    add(
        "f17: bFUSE over stock",
        MANY_TIMES,
        times(published.number("bfuse.final.gain_percent_over_stock.ics")?),
    );
    Ok(told)
}

const WORSE: (&str, &str) = ("f14: nilfs2", "significantly worse than the rest");
const COINCIDES: (&str, &str) = ("f14: throughput", "correlates with the share of sequential requests");
const SEQUENTIAL: (&str, &str) = ("f15: writes to the device", "sequential in all file systems");

/// The measured writes through each stack, by file system, scheduler and options.
type ByStack = BTreeMap<(&'static str, &'static str, &'static str), Vec<Once>>;

/// Returns the rows of Figures 13 to 17. For Btrfs, F2FS and NILFS2, the study shows bFUSE's result only in a
/// drawing.
pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let told = told(published)?;
    if !runs.full() {
        let cannot = |told: Told| {
            let row = told.quantity.cannot(Kind::Imitation, told.what, told.number, WITH_FULL);
            row.of_numbers(told.numbers)
        };
        let numbers = told.into_iter().map(cannot);
        let words = [WORSE, COINCIDES, SEQUENTIAL]
            .map(|(what, told)| Row::cannot(Kind::Imitation, what, told, WITH_FULL));
        return Ok(numbers.chain(words).collect());
    }
    let filesystems: Vec<Filesystem> =
        FILE_SYSTEMS.iter().map(|name| name.parse().map_err(anyhow::Error::msg)).collect::<Result<_>>()?;
    let at = runs.place_for(&filesystems);
    let keys: Vec<(&str, &str, &str)> = FILE_SYSTEMS
        .iter()
        .flat_map(|name| {
            let buffered = SCHEDULERS.map(|scheduler| (*name, scheduler, BUFFERED));
            let steps = [(*name, BFQ, STOCK), (*name, BFQ, NO_BUFFER), (*name, DEADLINE, NO_BUFFER)];
            steps.into_iter().chain(buffered)
        })
        .collect();
    let stacks: Vec<Stack> =
        keys.iter().map(|(name, scheduler, options)| stack(on(name, scheduler), Some(options))).collect();
    let found = runs.stacks(&slowed(vec![on("ext4", DEADLINE)], stacks), &at)?;
    let raw = raw_rate(&found.raw_mb_s[0]);
    let by_stack: ByStack = keys.into_iter().zip(found.writes).collect();
    let of = |name, scheduler, options| rate(&by_stack[&(name, scheduler, options)]);
    let stock = |name| stock_rate(&by_stack[&(name, BFQ, STOCK)]);
    let unit = |name| of(name, BFQ, NO_BUFFER);
    let mut rows = Vec::new();
    for Told { what, quantity, number, numbers } in told {
        let subject = |start: &str| {
            what.strip_prefix(start).and_then(|name| FILE_SYSTEMS.iter().find(|of| name.starts_with(**of)))
        };
        let row = if let Some(name) = subject("f14: ") {
            quantity.effect(&what, number, &unit(name).over(&unit("ext4")), WHY_FILE_SYSTEM)
        } else if let Some(name) = subject("f16: 512 KiB unit over 4 KiB, ") {
            quantity.effect(&what, number, &unit(name).over(&stock(name)), WHY_COPY)
        } else if let Some(name) = subject("f17: bFUSE on ") {
            quantity.row(
                &what,
                number,
                &of(name, DEADLINE, BUFFERED).over(&raw).times(100.0),
                WHY_FILE_SYSTEM,
            )
        } else if what.starts_with("f17: bFUSE over stock") {
            quantity.effect(&what, number, &of("ext4", DEADLINE, BUFFERED).over(&stock("ext4")), WHY_STOCK)
        } else if what.starts_with("f13: bFUSE") {
            quantity.effect(&what, number, &of("ext4", DEADLINE, BUFFERED).over(&unit("ext4")), NO_CFQ)
        } else {
            let gain = of("ext4", DEADLINE, NO_BUFFER).over(&unit("ext4"));
            quantity.effect(&what, number, &gain, NO_CFQ).because(NO_CFQ)
        };
        rows.push(row.of_numbers(numbers));
    }
    rows.extend(in_words(&by_stack));
    for name in FILE_SYSTEMS {
        let rates = SCHEDULERS.map(|scheduler| {
            let rate = of(name, scheduler, BUFFERED).over(&raw).value().unwrap_or(f64::NAN) * 100.0;
            format!("{scheduler} {rate:.0} %")
        });
        let why = "the study only plots this rate, as a share of the bare device";
        rows.push(Row::ours_alone(Kind::Imitation, format!("f17: bFUSE on {name}"), rates.join(", "), why));
    }
    Ok(rows.into_iter().map(|row| row.noted(at.noted())).collect())
}

/// Returns the rows with statements about mounts without a buffer.
fn in_words(by_stack: &ByStack) -> [Row; 3] {
    let unbuffered = |name| &by_stack[&(name, BFQ, NO_BUFFER)][..];
    let rates = FILE_SYSTEMS.map(|name| rate(unbuffered(name)));
    let random = FILE_SYSTEMS.map(|name| each(unbuffered(name), |once| once.random_share).value());
    let (nilfs2, others) = (&rates[4], &rates[..4]);
    let value = |rate: &Measured| rate.value().unwrap_or(f64::NAN);
    let slowest = others.iter().min_by(|a, b| value(a).total_cmp(&value(b))).unwrap_or(nilfs2);
    let list = |values: [f64; 5], digits: usize, unit: &str| {
        let named =
            FILE_SYSTEMS.iter().zip(values).map(|(name, value)| format!("{name} {value:.digits$}{unit}"));
        named.collect::<Vec<_>>().join(", ")
    };
    // Compute the share of pairs of file systems in which the faster file system has the larger share of
    // sequential requests.
    let pairs = (0..5).flat_map(|a| (0..a).map(move |b| (a, b)));
    let same_way = |(a, b): (usize, usize)| {
        let faster = rates[a].value()? - rates[b].value()?;
        let less_random = random[b]? - random[a]?;
        Some(faster * less_random >= 0.0)
    };
    let pairs: Option<Vec<bool>> = pairs.map(same_way).collect();
    let agreeing = pairs.map(|pairs| pairs.iter().filter(|same| **same).count() as f64 / pairs.len() as f64);
    let sequential = random.map(|share| (1.0 - share.unwrap_or(f64::NAN)) * 100.0);
    let most = random.iter().copied().collect::<Option<Vec<f64>>>();
    let most = most.and_then(|shares| shares.into_iter().max_by(f64::total_cmp));
    let rates_shown = list(rates.each_ref().map(value), 1, "");
    [
        Row::effect(
            WORSE.0,
            WORSE.1,
            |ratio| format!("{ratio:.2} times the slowest of the others"),
            (&nilfs2.over(slowest), 0.0..=CLEARLY_WORSE),
            WHY_FILE_SYSTEM,
        )
        .noted(format!("MB/s: {rates_shown}")),
        Row::within(
            COINCIDES.0,
            COINCIDES.1,
            |share| format!("in {:.0} % of the pairs of file systems", share * 100.0),
            (&Kind::Imitation.once(agreeing), 1.0..=1.0),
            WHY_FILE_SYSTEM,
        ),
        Row::within(
            SEQUENTIAL.0,
            SEQUENTIAL.1,
            |_| list(sequential, 0, " %"),
            (&Kind::Imitation.once(most), 0.0..=RANDOM_MOST),
            "journals, nodes and checkpoints are written between the data",
        ),
    ]
}
