//! The keys of profiles: quantity, range, and meaning.

use fonio_core::quantity::{Quantity as Amount, Unit};
use fonio_core::{ByteCount, Nanos};

/// The kind of a value, which determines its syntax; see [`fonio_core::quantity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A duration, such as `"5 us"`, stored in nanoseconds.
    Duration,
    /// An amount of data, such as `"16 KiB"` or `"16 GB"`, stored in bytes.
    Size,
    /// A rate, such as `"20 MB/s"`, stored in bytes per second.
    Rate,
    /// A count, such as `4`.
    Count,
    /// A share, such as `"7 %"`, stored in thousandths of a percent.
    Share,
    /// One of a list of words.
    Word(&'static [&'static str]),
}

/// A key of device profiles.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key, as `table.name`.
    pub path: &'static str,
    /// The kind of the key's value.
    pub quantity: Quantity,
    /// The minimum value, in the storage unit of [`Quantity`].
    pub min: u64,
    /// The maximum value, in the storage unit of [`Quantity`].
    pub max: u64,
    /// The meaning of the key.
    pub meaning: &'static str,
}

const YES_NO: &[&str] = &["yes", "no"];
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

const fn rate(path: &'static str, meaning: &'static str) -> Key {
    key(path, Quantity::Rate, 10_000, 1_000_000_000_000, meaning)
}

const fn size(path: &'static str, min: u64, max: u64, meaning: &'static str) -> Key {
    key(path, Quantity::Size, min, max, meaning)
}

const fn count(path: &'static str, min: u64, max: u64, meaning: &'static str) -> Key {
    key(path, Quantity::Count, min, max, meaning)
}

const fn word(path: &'static str, words: &'static [&'static str], meaning: &'static str) -> Key {
    key(path, Quantity::Word(words), 0, 0, meaning)
}

/// All keys, in the order in which a profile is written.
pub const KEYS: &[Key] = &[
    word("device.kind", &["flash", "pcm", "ram"], "the kind of memory"),
    size("device.capacity", 1 << 20, 4 * TIB, "the size that the host sees"),
    count("device.depth", 1, 65_536, "commands in flight (queue depth)"),
    size("device.command_max", 4 * KIB, GIB, "the largest single command"),
    size(
        "device.discard_granularity",
        512,
        GIB,
        "the unit of a discard; without it, discard is not supported",
    ),
    word("device.fua", YES_NO, "supports writes with forced unit access"),
    word("device.flush_blocks_all", YES_NO, "a flush blocks all other commands"),
    time("interface.read_command", "the controller's time for a read"),
    time("interface.write_command", "the controller's time for a write"),
    time("interface.flush_command", "the controller's time for a flush"),
    time("interface.fua_cost", "additional time of a write with forced unit access"),
    rate("interface.read_rate", "the interface's rate to the host"),
    rate("interface.write_rate", "the interface's rate from the host"),
    word("interface.full_duplex", YES_NO, "the interface sends and receives at the same time"),
    word("interface.programs_while_receiving", YES_NO, "programming begins when the first page has arrived"),
    time("interface.random_read", "additional controller time for a read that continues no stream"),
    time("interface.random_write", "additional controller time for a write that continues no stream"),
    time("interface.read_latency", "delay of a read that does not block other commands"),
    time("interface.write_latency", "delay of a write that does not block other commands"),
    time("interface.random_read_latency", "additional delay of a read that continues no stream"),
    time("interface.random_write_latency", "additional delay of a write that continues no stream"),
    count("interface.read_streams", 0, 1024, "sequential readers that the device can track"),
    count("interface.write_streams", 0, 1024, "sequential writers that the device can track"),
    size("interface.read_ahead", 0, GIB, "data read ahead for a sequential reader"),
    count("flash.channels", 1, 64, "channels"),
    count("flash.dies_per_channel", 1, 64, "dies on each channel"),
    rate("flash.channel_rate", "a channel's transfer rate; if absent, transfers take no time"),
    count("flash.planes", 1, 16, "planes of a die that are programmed together"),
    size("flash.page", 512, 1 << 20, "a page of one plane"),
    count("flash.pages_per_block", 2, 16_384, "pages in an erase block"),
    time("flash.t_read", "time to read a page"),
    time("flash.t_program", "time to program a page"),
    time("flash.t_erase", "time to erase an erase block"),
    word(
        "flash.reads_wait_for",
        &["queue", "operation", "suspension"],
        "the operations that a read waits for on a busy die",
    ),
    time("flash.t_suspend", "time to suspend an operation"),
    word("ftl.kind", &["page_map", "bast", "fast"], "the translation layer"),
    size("ftl.unit", 512, 1 << 20, "the unit of a page map; if absent, one page of each plane"),
    key("ftl.spare", Quantity::Share, 0, 400_000, "spare flash relative to the capacity, for a page map"),
    word("ftl.collection", &["greedy", "cost_benefit"], "how garbage collection chooses the victim"),
    count("ftl.log_blocks", 1, 65_536, "number of log blocks; for fast, only those for random writes"),
    word("ftl.victim", &["lru", "fifo"], "the order in which bast merges its log blocks"),
    size("map_cache.piece", 64 * KIB, 64 * GIB, "data covered by one segment of the map"),
    size("map_cache.near_reach", 64 * KIB, TIB, "data covered by the map in RAM"),
    time("map_cache.near_miss", "time to fetch a missing segment"),
    size("map_cache.far_reach", 64 * KIB, TIB, "data covered by the next level of the map"),
    time("map_cache.far_miss", "additional time to fetch a segment that the next level lacks too"),
    size("buffer.size", 4 * KIB, GIB, "RAM for data on the way to flash"),
    count(
        "buffer.gathered_units",
        0,
        1024,
        "partly written units that wait in the buffer for the rest of their data",
    ),
    size("slc.size", 1 << 20, TIB, "capacity of the flash in SLC mode"),
    time("slc.t_program", "time to program a page in SLC mode"),
    size("memory.line", 1, 1 << 20, "a line of PCM or RAM"),
    time("memory.read_line", "time to read a line"),
    time("memory.write_line", "time to write a line"),
    time("memory.command", "time for a command without its data"),
];

/// Returns the key with this name.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Returns a suggestion of the key most similar to `path`, from [`fonio_core::nearest`].
pub(super) fn nearest(path: &str) -> String {
    fonio_core::nearest(path, KEYS.iter().map(|key| key.path))
}

impl Quantity {
    /// Returns the units in which a value can be written, each with its size in the unit in which the value
    /// is stored. The first suitable unit is used.
    fn units(self) -> &'static [(&'static str, u64)] {
        match self {
            Quantity::Duration => &[("s", SECOND), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)],
            Quantity::Size => &[
                ("GiB", GIB),
                ("MiB", 1 << 20),
                ("KiB", KIB),
                ("GB", 1_000_000_000),
                ("MB", 1_000_000),
                ("B", 1),
            ],
            Quantity::Rate => &[("MB/s", 1_000_000)],
            Quantity::Share => &[("%", 1_000)],
            Quantity::Count | Quantity::Word(_) => &[],
        }
    }

    /// Parses a value such as `5 us`, `16 KiB` or `20 MB/s`; `None` if the text has another form.
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

    /// Formats a value with its unit, rounded for people.
    pub fn show(self, value: u64) -> String {
        self.written(value).replace(" us", " µs")
    }

    /// Formats a value with its unit, exact for [`Quantity::read`]. A size is written in the largest unit
    /// in which it is an integer. A value other than a size is written in the largest unit in which it is at
    /// least 1.
    pub(super) fn written(self, value: u64) -> String {
        let suits = |worth: u64| match self {
            // 16 GB is clearer than 15 625 000 KiB.
            Quantity::Size => value.is_multiple_of(worth) && value / worth < 100_000,
            _ => value >= worth,
        };
        let units = self.units();
        match units.iter().find(|(_, worth)| value > 0 && suits(*worth)).or(units.last()) {
            Some((name, worth)) => format!("{} {name}", decimal(value, *worth)),
            None => value.to_string(),
        }
    }
}

/// The largest integer up to which an `f64` represents every integer exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Formats `value / worth` in decimal, with at most nine digits after the point.
fn decimal(value: u64, worth: u64) -> String {
    let whole = value / worth;
    let rest = u128::from(value % worth) * 1_000_000_000 / u128::from(worth);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{rest:09}").trim_end_matches('0').to_owned()
}
