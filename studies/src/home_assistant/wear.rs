//! What a recording writes in each minute, and how much flash a card programs for it.
//!
//! The emulated card of a run is new, and a run is too short for its garbage collection to begin. Therefore, the recorded
//! commands also run in virtual time on the card's model, after all of its addresses have been written, and repeatedly, until
//! the model has programmed as much flash as the card holds. The last repetition counts.

use std::io;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fonio_core::{
    ByteCount, Flags, Mark, Op, Request, RowSink, SECTOR_BYTES, Sector, Timestamp, ignore_rows,
};
use fonio_recording::{Recording, Table, Tables};
use fonio_sim::device::{Command, Device};
use fonio_sim::profile::Profile;

const SECONDS_PER_DAY: f64 = 86_400.0;
const DAYS_PER_YEAR: f64 = 365.25;
/// A limit of the repetitions, for a recording that writes next to nothing.
const PASSES_MAX: u32 = 100_000;
/// The seed of the model.
const SEED: u64 = 1;

/// The commands of a recording, and its minutes.
#[derive(Debug, Default)]
pub struct Recorded {
    commands: Vec<(Timestamp, Command)>,
    marks: Vec<Mark>,
}

/// The bytes of a minute, extrapolated to a day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerDay {
    /// Bytes that the host wrote to the card.
    pub written: f64,
    /// Bytes that the card programmed into flash.
    pub programmed: f64,
}

impl RowSink for Recorded {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        if let Some(at) = row.issued.filter(|_| matches!(row.op, Op::Write | Op::Flush | Op::Discard)) {
            self.commands.push((
                at,
                Command {
                    op: row.op,
                    sector: row.sector.unwrap_or(Sector(0)),
                    bytes: row.bytes,
                    fua: row.flags.contains(Flags::FUA),
                },
            ));
        }
        Ok(())
    }

    fn mark(&mut self, row: &Mark) -> io::Result<()> {
        self.marks.push(row.clone());
        Ok(())
    }

    ignore_rows! {
        began, bio, link, thread, call, statement, wait, blocked_count, file, sample, diagnostic, settled
    }
}

impl Recorded {
    /// Reads a recording.
    pub fn open(recording: &Path) -> Result<Recorded> {
        let mut recorded = Recorded::default();
        let tables = Tables::NONE.with(Table::Requests).with(Table::Marks);
        Recording::open(recording)?.replay(&mut recorded, tables)?;
        recorded.commands.sort_by_key(|(at, _)| *at);
        Ok(recorded)
    }

    /// Returns the figures of each named minute on a card of `profile` that holds `size`. Fails if a minute is missing, or if
    /// the recording does not fit on the card.
    pub fn per_day(&self, profile: &str, size: ByteCount, minutes: &[String]) -> Result<Vec<PerDay>> {
        let spans = minutes.iter().map(|name| self.span(name)).collect::<Result<Vec<_>>>()?;
        let profile =
            Profile::shipped(profile).with_context(|| format!("no profile is called `{profile}`"))?;
        let mut device = profile.device(Some(size), SEED)?;
        let end = self.commands.iter().map(|(_, command)| command.sector.after(command.bytes).0).max();
        ensure!(
            end.is_some_and(|end| end <= size.0 / SECTOR_BYTES),
            "the recording has no writes, or writes beyond the end of the card"
        );
        let mut now = fill(device.as_mut());
        device.reset_counters();
        let mut passes = 0;
        while device.counters().programmed < size {
            now = self.pass(device.as_mut(), now, &[]).0;
            passes += 1;
            ensure!(passes < PASSES_MAX, "the recording writes too little to wear the card");
        }
        let (_, programmed) = self.pass(device.as_mut(), now, &spans);
        let figures = spans.iter().zip(programmed).map(|(span, programmed)| {
            let written =
                self.commands.iter().filter(|(at, command)| command.op == Op::Write && span.has(*at));
            let written: u64 = written.map(|(_, command)| command.bytes.0).sum();
            PerDay { written: span.per_day(written), programmed: span.per_day(programmed) }
        });
        Ok(figures.collect())
    }

    fn span(&self, name: &str) -> Result<Span> {
        let mark = self.marks.iter().find(|mark| mark.name == name);
        let mark = mark.with_context(|| format!("the recording does not mark `{name}`"))?;
        let until = mark.until.filter(|until| *until > mark.at);
        Ok(Span { from: mark.at, until: until.with_context(|| format!("`{name}` has no length"))? })
    }

    /// Runs all commands once, from `from` on. Returns the time of the last completion, and the bytes that were programmed
    /// in each span.
    fn pass(&self, device: &mut dyn Device, from: Timestamp, spans: &[Span]) -> (Timestamp, Vec<u64>) {
        let mut programmed = vec![0; spans.len()];
        let (mut now, mut end) = (from, from);
        let began = self.commands.first().map_or(Timestamp(0), |(at, _)| *at);
        let has_fua = device.limits().fua;
        for (at, command) in &self.commands {
            now = now.max(Timestamp(from.0 + (at.0 - began.0)));
            let before = device.counters().programmed.0;
            let command_max = device.limits().command_max.0;
            let mut rest = command.bytes.0;
            let mut sector = command.sector;
            // A merged request can be larger than a command of another card.
            loop {
                let bytes = ByteCount(if command.op == Op::Write { rest.min(command_max) } else { rest });
                let part = Command { sector, bytes, fua: command.fua && has_fua, ..*command };
                end = end.max(device.submit(&part, now));
                rest -= bytes.0;
                sector = sector.after(bytes);
                if rest == 0 {
                    break;
                }
            }
            if let Some(place) = spans.iter().position(|span| span.has(*at)) {
                programmed[place] += device.counters().programmed.0 - before;
            }
        }
        (end.max(now), programmed)
    }
}

/// A part of a recording.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Timestamp,
    until: Timestamp,
}

impl Span {
    fn has(self, at: Timestamp) -> bool {
        (self.from..self.until).contains(&at)
    }

    fn per_day(self, bytes: u64) -> f64 {
        bytes as f64 * SECONDS_PER_DAY / ((self.until.0 - self.from.0) as f64 / 1e9)
    }
}

/// Writes the complete device in order. Returns the time at which this is done.
fn fill(device: &mut dyn Device) -> Timestamp {
    let (capacity, step) = (device.limits().capacity.0, device.limits().command_max.0);
    let mut now = Timestamp(0);
    let mut at = 0;
    while at < capacity {
        let bytes = step.min(capacity - at);
        let command =
            Command { op: Op::Write, sector: Sector(at / SECTOR_BYTES), bytes: ByteCount(bytes), fua: false };
        now = device.submit(&command, now);
        at += bytes;
    }
    now
}

/// Returns the years until each cell of a card with `capacity` bytes was programmed `cycles` times, if the card spreads its
/// writes evenly and programs `programmed` bytes a day.
pub fn years(capacity: f64, cycles: f64, programmed: f64) -> f64 {
    capacity * cycles / programmed / DAYS_PER_YEAR
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: ByteCount = ByteCount(64 << 20);

    /// Two minutes: in the first one a write of `bytes` each second, in the second one twice as many.
    fn recorded(bytes: u64, address: impl Fn(u64) -> u64) -> Recorded {
        let second = |at: u64| Timestamp(at * 1_000_000_000);
        let mark = |name: &str, from, until| Mark {
            at: second(from),
            until: Some(second(until)),
            name: name.to_owned(),
            tid: None,
        };
        let mut commands = Vec::new();
        for at in 0..120 {
            for turn in 0..=at / 60 {
                let sector = Sector(address(at + turn * 1000) / SECTOR_BYTES);
                let command = Command { op: Op::Write, sector, bytes: ByteCount(bytes), fua: false };
                commands.push((second(at), command));
            }
        }
        Recorded { commands, marks: vec![mark("minute 1", 0, 60), mark("minute 2", 60, 120)] }
    }

    fn minutes() -> [String; 2] {
        ["minute 1".to_owned(), "minute 2".to_owned()]
    }

    #[test]
    fn a_minute_is_extrapolated_to_a_day() {
        let found = recorded(4096, |at| at % 100 * 4096).per_day("sd_a1", SIZE, &minutes()).expect("fits");
        // 60 and 120 writes of 4 KiB a minute.
        assert_eq!(
            [found[0].written, found[1].written],
            [60.0, 120.0].map(|writes| writes * 4096.0 * 1440.0)
        );
        assert!(found.iter().all(|minute| minute.programmed >= minute.written), "{found:?}");
    }

    #[test]
    fn scattered_writes_wear_a_card_with_log_blocks_more_than_sequential_ones() {
        let spread = |at: u64| at * 7919 % 15_000 * 4096;
        let of = |recorded: Recorded| {
            let found = recorded.per_day("kingston", SIZE, &minutes()).expect("fits");
            found[0].programmed / found[0].written
        };
        let (scattered, in_order) =
            (of(recorded(4096, spread)), of(recorded(512 << 10, |at| at % 100 * (512 << 10))));
        assert!(scattered > 10.0 * in_order, "{scattered} {in_order}");
    }

    #[test]
    fn a_recording_without_its_minutes_or_beyond_the_card_is_refused() {
        let told = |recorded: Recorded, names: &[String]| {
            recorded.per_day("sd_a1", SIZE, names).expect_err("refused").to_string()
        };
        assert!(told(recorded(4096, |_| 0), &["minute 9".to_owned()]).contains("does not mark `minute 9`"));
        assert!(told(recorded(4096, |_| SIZE.0), &minutes()).contains("beyond the end"));
    }

    #[test]
    fn years_by_hand() {
        // 32 GB with 1000 cycles are 32 TB; at 32 GB a day, this is 1000 days.
        assert!((years(32e9, 1000.0, 32e9) - 1000.0 / 365.25).abs() < 1e-9);
    }
}
