//! Exports the operations of a device as fio's iolog, version 2 or 3, for a replay with `fio --read_iolog`.
//!
//! - The log lists requests in order of issue. Version 3 has timestamps in microseconds. Version 2 has no
//!   times, so fio replays it as fast as its depth allows. (Its `wait` is documented in microseconds, but fio
//!   3.33 reads milliseconds since its start.)
//! - fio ignores the delay after a line with time 0, so times begin at 1.
//! - A flush becomes a `datasync`. fio can set neither PREFLUSH nor FUA, so a `datasync` before a write
//!   replaces PREFLUSH, and a `datasync` after the write replaces FUA. The replay has the same durability as
//!   the recording, but on a device with FUA, it has more flushes.
//! - A discard becomes a `trim`, as in fio's manual. fio 3.33 skips `trim` lines with `bad ddir: 2`; later
//!   versions replay them. fio allocates a buffer as long as the longest line, so long requests become
//!   several lines.
//! - Operations that fio lacks (write zeroes, secure erase, zones, passthrough) are omitted and counted.
//! - Requests of a length or at a place that no device can have come from damaged recordings. They are omitted
//!   and counted too, because one of them could become 10^11 lines.
//! - Requests of more devices than a machine has are omitted and counted in the same way.
//! - A recording can come from a stranger, and fio opens the paths in the log as root. Therefore a device name
//!   becomes a path only if it has the form of a kernel's name.
//!
//! Sources: fio's `iolog.c` and its manual, "Trace file format".

use std::collections::BTreeMap;
use std::io::{self, Write};

use fonio_core::meta::Device;
use fonio_core::{DeviceId, Flags, Op, Request, RowSink, SECTOR_BYTES, Timestamp, ignore_rows};

/// Maximum number of bytes per line of the log. Longer requests become several lines.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Maximum number of bytes of a request: the kernel counts them with 32 bits (`bi_size` in `struct bvec_iter`,
/// `__data_len` in `struct request`).
const REQUEST_BYTES_MAX: u64 = 1 << 32;

/// Maximum number of devices in a log.
const DEVICES_MAX: usize = 4096;

/// Maximum number of characters of a device name, `DISK_NAME_LEN` of the kernel.
const NAME_CHARS_MAX: usize = 32;

/// The version of the iolog format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 2, without times; for fio 1.17 and later.
    V2,
    /// Version 3, with times; for fio 3.31 and later.
    V3,
}

/// Counts the requests that were written and omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of requests written to the log.
    pub requests: u64,
    /// Number of requests omitted because fio has no action for their operation, by operation.
    pub left_out: BTreeMap<Op, u64>,
    /// Number of requests omitted because no device can have requests of their length or at their place, or
    /// because there are too many devices.
    pub impossible: u64,
}

/// Writes requests as fio's iolog.
pub struct FioIolog<W> {
    to: W,
    version: Version,
    /// The names of the devices, which fio opens.
    names: BTreeMap<DeviceId, String>,
    opened: Vec<DeviceId>,
    first: Option<Timestamp>,
    last_us: u64,
    written: Written,
}

impl<W: Write> FioIolog<W> {
    /// Creates an export to `to` and writes its first line. fio opens devices named in `devices` under
    /// `/dev`, and others by number under `/dev/block`, also devices whose name is not a kernel's name. With `--replay_redirect`, fio opens another device
    /// instead. Returns errors of writing to `to`.
    pub fn new(mut to: W, version: Version, devices: &[Device]) -> io::Result<FioIolog<W>> {
        let number = if version == Version::V2 { 2 } else { 3 };
        writeln!(to, "fio version {number} iolog")?;
        let names = devices
            .iter()
            .filter_map(|device| Some((device.id, device.name.clone()?)))
            .filter(|(_, name)| is_kernel_name(name))
            .map(|(id, name)| (id, format!("/dev/{name}")))
            .collect();
        Ok(FioIolog {
            to,
            version,
            names,
            opened: Vec::new(),
            first: None,
            last_us: 1,
            written: Written::default(),
        })
    }

    /// Writes the lines that close the devices, and returns the number of written requests. Returns errors of
    /// writing to the output.
    pub fn finish(mut self) -> io::Result<Written> {
        for device in std::mem::take(&mut self.opened) {
            self.line(device, "close")?;
        }
        self.to.flush()?;
        Ok(self.written)
    }

    /// Writes one line with the time of the latest request.
    fn line(&mut self, device: DeviceId, action: &str) -> io::Result<()> {
        if self.version == Version::V3 {
            write!(self.to, "{} ", self.last_us)?;
        }
        match self.names.get(&device) {
            Some(name) => write!(self.to, "{name}")?,
            None => write!(self.to, "/dev/block/{device}")?,
        }
        writeln!(self.to, " {action}")
    }

    fn pieces(&mut self, row: &Request, action: &str, sector: u64) -> io::Result<()> {
        let (mut offset, mut left) = (sector.saturating_mul(SECTOR_BYTES), row.bytes.0);
        while left > 0 {
            let piece = left.min(LINE_BYTES_MAX);
            self.line(row.device, &format!("{action} {offset} {piece}"))?;
            offset = offset.saturating_add(piece);
            left -= piece;
        }
        Ok(())
    }
}

impl<W: Write> RowSink for FioIolog<W> {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        let action = match (row.op, row.sector) {
            (Op::Flush, _) => "datasync 0 0",
            (Op::Read, Some(_)) if row.bytes.0 > 0 => "read",
            (Op::Write, Some(_)) if row.bytes.0 > 0 => "write",
            (Op::Discard, Some(_)) if row.bytes.0 > 0 => "trim",
            _ => {
                *self.written.left_out.entry(row.op).or_default() += 1;
                return Ok(());
            }
        };
        let begin = row.sector.map_or(0, |sector| sector.0.saturating_mul(SECTOR_BYTES));
        let is_possible = row.bytes.0 <= REQUEST_BYTES_MAX && begin <= i64::MAX as u64 - REQUEST_BYTES_MAX;
        if row.op != Op::Flush && !is_possible {
            self.written.impossible += 1;
            return Ok(());
        }
        let is_new = !self.opened.contains(&row.device);
        if is_new && self.opened.len() == DEVICES_MAX {
            self.written.impossible += 1;
            return Ok(());
        }
        let at = row.order_time();
        let first = *self.first.get_or_insert(at);
        // Times never decrease, because fio would treat a decrease as no delay, and base all later delays on
        // the decreased time.
        self.last_us = self.last_us.max(1 + at.0.saturating_sub(first.0) / 1000);
        if is_new {
            self.opened.push(row.device);
            self.line(row.device, "add")?;
            self.line(row.device, "open")?;
        }
        match row.sector {
            Some(sector) if row.op != Op::Flush => {
                let writes = row.op == Op::Write;
                if writes && row.flags.contains(Flags::PREFLUSH) {
                    self.line(row.device, "datasync 0 0")?;
                }
                self.pieces(row, action, sector.0)?;
                if writes && row.flags.contains(Flags::FUA) {
                    self.line(row.device, "datasync 0 0")?;
                }
            }
            _ => self.line(row.device, action)?,
        }
        self.written.requests += 1;
        Ok(())
    }

    ignore_rows! {
        began, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic,
        settled
    }

    fn wants_bios(&self) -> bool {
        false
    }
}

/// Returns whether a name can be the kernel's name of a block device, such as `mmcblk0p1` or `dm-0`.
fn is_kernel_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '!');
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() < NAME_CHARS_MAX
        && name.chars().all(is_allowed)
}
