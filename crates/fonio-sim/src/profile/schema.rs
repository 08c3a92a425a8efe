//! Every key that a profile can have: its quantity, its range, its meaning.

use fonio_core::quantity::{Quantity as Amount, Unit};
use fonio_core::{ByteCount, Nanos};

/// The kind of a value, which decides how it is written. The spelling is that of [`fonio_core::quantity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A length of time, such as `"5 us"`. Kept in nanoseconds.
    Duration,
    /// An amount of data, such as `"16 KiB"` or `"16 GB"`. Kept in bytes.
    Size,
    /// A rate, such as `"20 MB/s"`. Kept in bytes per second.
    Rate,
    /// A number of things, such as `4`.
    Count,
    /// A share, such as `"7 %"`. Kept in thousandths of a percent.
    Share,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Table and name, with a dot between.
    pub path: &'static str,
    /// The kind of its value.
    pub quantity: Quantity,
    /// The minimum value, in the unit in which [`Quantity`] keeps it.
    pub min: u64,
    /// The greatest value.
    pub max: u64,
    /// The meaning of the key.
    pub meaning: &'static str,
}

const YES_NO: Quantity = Quantity::Word(&["yes", "no"]);
const SECOND: u64 = 1_000_000_000;
const KIB: u64 = 1024;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const fn key(path: &'static str, quantity: Quantity, min: u64, max: u64, meaning: &'static str) -> Key {
    Key { path, quantity, min, max, meaning }
}

const fn time(path: &'static str, meaning: &'static str) -> Key {
    key(path, Quantity::Duration, 0, 10 * SECOND, meaning)
}

const fn word(path: &'static str, quantity: Quantity, meaning: &'static str) -> Key {
    key(path, quantity, 0, 0, meaning)
}

/// All keys, in the order in which a profile is written.
pub const KEYS: &[Key] = &[
    word("device.kind", Quantity::Word(&["flash", "pcm", "ram"]), "what the device is made of"),
    key("device.capacity", Quantity::Size, 1 << 20, 4 * TIB, "the size that the host sees"),
    key("device.depth", Quantity::Count, 1, 65_536, "commands that it takes at once"),
    key("device.command_max", Quantity::Size, 4 * KIB, GIB, "the largest single command"),
    key(
        "device.discard_granularity",
        Quantity::Size,
        512,
        GIB,
        "the unit of a discard; without it there is no discard",
    ),
    word("device.fua", YES_NO, "it takes writes with forced unit access"),
    word("device.flush_blocks_all", YES_NO, "nothing else proceeds while a flush is under way"),
    time("interface.read_command", "the controller's time for a read"),
    time("interface.write_command", "the controller's time for a write"),
    time("interface.flush_command", "the controller's time for a flush"),
    time("interface.fua_cost", "what a write with forced unit access costs beside being programmed"),
    key("interface.read_rate", Quantity::Rate, 10_000, 1_000_000_000_000, "the interface's rate to the host"),
    key(
        "interface.write_rate",
        Quantity::Rate,
        10_000,
        1_000_000_000_000,
        "the interface's rate from the host",
    ),
    word("interface.full_duplex", YES_NO, "it sends and receives at the same time"),
    word(
        "interface.programs_while_receiving",
        YES_NO,
        "programming begins with the first page that has arrived",
    ),
    time("interface.random_read", "more controller time for a read that continues no stream"),
    time("interface.random_write", "more controller time for a write that continues no stream"),
    time("interface.read_latency", "what a read waits while others proceed"),
    time("interface.write_latency", "what a write waits while others proceed"),
    time("interface.random_read_latency", "more of that for a read that continues no stream"),
    time("interface.random_write_latency", "more of that for a write that continues no stream"),
    key("interface.read_streams", Quantity::Count, 0, 1024, "sequential readers that it can follow"),
    key("interface.write_streams", Quantity::Count, 0, 1024, "sequential writers that it can follow"),
    key("interface.read_ahead", Quantity::Size, 0, GIB, "what it reads ahead for a sequential reader"),
    key("flash.channels", Quantity::Count, 1, 64, "channels"),
    key("flash.dies_per_channel", Quantity::Count, 1, 64, "dies on each channel"),
    key(
        "flash.channel_rate",
        Quantity::Rate,
        10_000,
        1_000_000_000_000,
        "a channel's rate; without it it costs nothing",
    ),
    key("flash.planes", Quantity::Count, 1, 16, "planes of a die, programmed together"),
    key("flash.page", Quantity::Size, 512, 1 << 20, "a page of one plane"),
    key("flash.pages_per_block", Quantity::Count, 2, 16_384, "pages in an erase block"),
    time("flash.t_read", "time to read a page"),
    time("flash.t_program", "time to program a page"),
    time("flash.t_erase", "time to erase an erase block"),
    word(
        "flash.reads_wait_for",
        Quantity::Word(&["queue", "operation", "suspension"]),
        "what a read waits for on a busy die",
    ),
    time("flash.t_suspend", "time to suspend an operation"),
    word("ftl.kind", Quantity::Word(&["page_map", "bast", "fast"]), "the translation layer"),
    key("ftl.unit", Quantity::Size, 512, 1 << 20, "what a page map maps; without it a page of all planes"),
    key("ftl.spare", Quantity::Share, 0, 400_000, "flash beyond the capacity, for a page map"),
    word("ftl.collection", Quantity::Word(&["greedy", "cost_benefit"]), "how garbage collection chooses"),
    key("ftl.log_blocks", Quantity::Count, 1, 65_536, "log blocks; for fast, those for random writes"),
    word("ftl.victim", Quantity::Word(&["lru", "fifo"]), "which log block makes room, for bast"),
    key("map_cache.piece", Quantity::Size, 64 * KIB, 64 * GIB, "data that one piece of the map covers"),
    key("map_cache.near_reach", Quantity::Size, 64 * KIB, TIB, "data that the map in RAM covers"),
    time("map_cache.near_miss", "what a piece that is not there costs"),
    key("map_cache.far_reach", Quantity::Size, 64 * KIB, TIB, "data that the next level of the map covers"),
    time("map_cache.far_miss", "what a piece that is not there either costs more"),
    key("buffer.size", Quantity::Size, 4 * KIB, GIB, "data on their way to flash that its RAM holds"),
    key(
        "buffer.gathered_units",
        Quantity::Count,
        0,
        1024,
        "units that wait there for the rest of their data",
    ),
    key("slc.size", Quantity::Size, 1 << 20, TIB, "data that flash in SLC mode takes"),
    time("slc.t_program", "time to program a page in SLC mode"),
    key("memory.line", Quantity::Size, 1, 1 << 20, "a line of PCM or RAM"),
    time("memory.read_line", "time to read a line"),
    time("memory.write_line", "time to write a line"),
    time("memory.command", "time for a command beside its data"),
];

/// The key of this name.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The key with the most similar name to `path`, if one is similar enough.
pub fn nearest(path: &str) -> Option<&'static str> {
    let name = path.rsplit('.').next().unwrap_or(path);
    KEYS.iter()
        .map(|key| (distance(name, key.path.rsplit('.').next().unwrap_or(key.path)), key.path))
        .min()
        .filter(|(distance, _)| *distance <= 1 + name.len() / 4)
        .map(|(_, path)| path)
}

/// The number of letters to change, add or leave out to get from `left` to `right` (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

/// A unit in which profiles write a value.
pub(super) struct WrittenUnit {
    /// Its name behind a number.
    pub(super) name: &'static str,
    /// The factor from this unit to the unit in which the value is kept.
    pub(super) worth: u64,
    /// Its name as the key of a number, the only way in which profiles were written before: `{ us = 5 }`.
    pub(super) field: &'static str,
}

const fn unit(name: &'static str, worth: u64, field: &'static str) -> WrittenUnit {
    WrittenUnit { name, worth, field }
}

impl Quantity {
    /// The units in which a value is written. The first that suits a value is used for it.
    pub(super) fn units(self) -> &'static [WrittenUnit] {
        const DURATION: &[WrittenUnit] = &[
            unit("s", SECOND, "s"),
            unit("ms", 1_000_000, "ms"),
            unit("us", 1_000, "us"),
            unit("ns", 1, "ns"),
        ];
        const SIZE: &[WrittenUnit] = &[
            unit("GiB", GIB, "gib"),
            unit("MiB", 1 << 20, "mib"),
            unit("KiB", KIB, "kib"),
            unit("GB", 1_000_000_000, "gb"),
            unit("MB", 1_000_000, "mb"),
            unit("B", 1, "bytes"),
        ];
        match self {
            Quantity::Duration => DURATION,
            Quantity::Size => SIZE,
            Quantity::Rate => &const { [unit("MB/s", 1_000_000, "mb_s")] },
            Quantity::Count => &const { [unit("", 1, "count")] },
            Quantity::Share => &const { [unit("%", 1_000, "percent")] },
            Quantity::Word(_) => &[],
        }
    }

    /// Reads a value from a text of the form `5 us`, `16 KiB` or `20 MB/s`; `None` if the text has another
    /// form.
    pub(super) fn read(self, text: &str) -> Option<u64> {
        let amount = |unit: Unit, worth: f64| {
            let amount: Amount = text.parse().ok()?;
            let value = (amount.value * worth).round();
            (amount.unit == Some(unit) && (0.0..=EXACT_MAX).contains(&value)).then_some(value as u64)
        };
        match self {
            Quantity::Duration => text.parse().ok().map(|Nanos(ns)| ns),
            Quantity::Size => text.parse().ok().map(|ByteCount(bytes)| bytes),
            Quantity::Rate => amount(Unit::BytesPerS, 1.0),
            Quantity::Share => amount(Unit::Share, 100_000.0),
            Quantity::Count | Quantity::Word(_) => None,
        }
    }

    /// A value with its unit, for people.
    pub fn show(self, value: u64) -> String {
        self.written(value).replace(" us", " µs")
    }

    /// A value with its unit, exactly as [`Quantity::read`] reads it.
    pub(super) fn written(self, value: u64) -> String {
        let Some(unit) = self.unit_for(value) else { return value.to_string() };
        format!("{} {}", decimal(value, unit.worth), unit.name).trim_end().to_owned()
    }

    /// The most suitable unit for a value: the largest without a fraction for a size, with a digit before the
    /// point for all others.
    fn unit_for(self, value: u64) -> Option<&'static WrittenUnit> {
        let suits = |worth: u64| match self {
            // 16 GB is clearer than 15 625 000 KiB.
            Quantity::Size => value.is_multiple_of(worth) && value / worth < 100_000,
            _ => value >= worth,
        };
        let units = self.units();
        units.iter().find(|unit| value > 0 && suits(unit.worth)).or(units.last())
    }
}

/// A `f64` holds every integer up to here.
pub(super) const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// `value / worth` in decimal, without loss as far as nine digits behind the point go.
fn decimal(value: u64, worth: u64) -> String {
    let whole = value / worth;
    let rest = u128::from(value % worth) * 1_000_000_000 / u128::from(worth);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{rest:09}").trim_end_matches('0').to_owned()
}
