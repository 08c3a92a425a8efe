//! Events and rows as text, one per line.
//!
//! An event begins with its letter and its time. The values that differ from the defaults follow in any
//! order: `8:0` is the device, `W` is the letters of rwbs, `0+8` is the first sector and the number of
//! sectors, `t7` is the thread, `e-5` is the error, `/4` is the new sector of a split, and `<8:1,64` is the
//! source of a remap. `L 50-60` is a gap. A blank line ends a batch.

use std::fmt::{self, Write as _};
use std::io;

use fonio_core::event::LostEvents;
use fonio_core::{
    Batch, Bio, BlockEvent, ByteCount, DeviceId, EventKind, Flags, Link, LinkEnd, Nanos, Op, Request,
    RowSink, SECTOR_BYTES, Sector, Timestamp, ignore_rows, parse_rwbs,
};

use crate::assembler::AssemblerOptions;
use crate::assembler::oracle::compare::assemble;

const DISK: DeviceId = DeviceId(8 << 20);

fn device(text: &str) -> DeviceId {
    let (major, minor) = text.split_once(':').expect("a device is major:minor");
    DeviceId::new(major.parse().unwrap(), minor.parse().unwrap())
}

fn event(line: &str) -> BlockEvent {
    let mut words = line.split_whitespace();
    let letter = words.next().expect("each event begins with a letter");
    let time = Timestamp(words.next().expect("each event has a timestamp").parse().unwrap());
    let mut event = BlockEvent {
        bytes: ByteCount(8 * SECTOR_BYTES),
        op: Op::Write,
        flags_known: Flags::KNOWN_FROM_RWBS,
        ..BlockEvent::new(time, EventKind::Plug, DISK)
    };
    let mut new_sector = Sector(0);
    let mut from = (DeviceId(0), Sector(0));
    for word in words {
        if let Some(tid) = word.strip_prefix('t') {
            event.tid = Some(tid.parse().unwrap());
        } else if let Some(error) = word.strip_prefix('e') {
            event.error = Some(error.parse().unwrap());
        } else if let Some(sector) = word.strip_prefix('/') {
            new_sector = Sector(sector.parse().unwrap());
        } else if let Some(place) = word.strip_prefix('<') {
            let (upper, sector) = place.split_once(',').unwrap();
            from = (device(upper), Sector(sector.parse().unwrap()));
        } else if let Some((sector, sectors)) = word.split_once('+') {
            event.sector = Sector(if sector == "max" { u64::MAX } else { sector.parse().unwrap() });
            event.bytes = ByteCount::from_sectors(sectors.parse().unwrap());
        } else if word.contains(':') {
            event.device = device(word);
        } else {
            (event.op, event.flags) = parse_rwbs(word.as_bytes());
        }
    }
    event.kind = match letter {
        "Q" => EventKind::BioQueue,
        "M" => EventKind::BackMerge,
        "F" => EventKind::FrontMerge,
        "G" => EventKind::GetRequest,
        "START" => EventKind::IoStart,
        "RM" => EventKind::RequestMerge,
        "I" => EventKind::Insert,
        "D" => EventKind::Issue,
        "R" => EventKind::Requeue,
        "C" => EventKind::Complete,
        "BIOC" => EventKind::BioComplete,
        "DONE" => EventKind::IoDone,
        "X" => EventKind::Split { new_sector },
        "A" => EventKind::Remap { from_device: from.0, from_sector: from.1 },
        "RA" => EventKind::RequestRemap { from_device: from.0, from_sector: from.1 },
        other => panic!("{other} is not an event"),
    };
    event
}

/// Parses batches of events.
fn batches(text: &str) -> Vec<Batch> {
    let mut batches = vec![Batch::default()];
    for line in text.trim().lines().map(str::trim) {
        let batch = batches.last_mut().expect("`batches` is never empty");
        if line.is_empty() {
            batches.push(Batch::default());
        } else if let Some(gap) = line.strip_prefix("L ") {
            let (after, before) = gap.split_once('-').unwrap();
            let instant = |text: &str| Timestamp(text.parse().unwrap());
            let (after, before) = (instant(after), instant(before));
            batch.lost.push(LostEvents { cpu: None, count: None, after, before });
        } else {
            batch.events.push(event(line));
        }
    }
    batches
}

/// Formats rows as text.
#[derive(Default)]
struct Text {
    text: String,
    settled: bool,
}

fn place(
    f: &mut String,
    device: DeviceId,
    op: Op,
    flags: Flags,
    sector: Option<Sector>,
    bytes: ByteCount,
) -> fmt::Result {
    if device != DISK {
        write!(f, " {device}")?;
    }
    write!(f, " {}", op.name())?;
    for (flag, name) in Flags::NAMES {
        if flags.contains(flag) {
            write!(f, " {name}")?;
        }
    }
    match sector {
        Some(sector) => write!(f, " {}+{}", sector.0, bytes.0 / SECTOR_BYTES),
        None => Ok(()),
    }
}

fn optional(f: &mut String, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {name}{value}"))
}

fn instant(f: &mut String, name: &str, time: Option<Timestamp>) -> fmt::Result {
    optional(f, name, time.map(|time| time.0))
}

fn request(f: &mut String, row: &Request) -> fmt::Result {
    write!(f, "request {}:", row.request_id)?;
    place(f, row.device, row.op, row.flags, row.sector, row.bytes)?;
    instant(f, "Q", row.queued)?;
    instant(f, "I", row.inserted)?;
    instant(f, "D", row.issued)?;
    instant(f, "again", row.reissued)?;
    instant(f, "C", row.completed)?;
    optional(f, "requeues", row.requeues)?;
    optional(f, "t", row.tid)?;
    optional(f, "cause", row.cause_tid)?;
    optional(f, "e", row.error)?;
    writeln!(f)
}

fn bio(f: &mut String, row: &Bio) -> fmt::Result {
    write!(f, "bio {}:", row.bio_id)?;
    place(f, row.device, row.op, row.flags, row.sector, row.bytes)?;
    instant(f, "Q", Some(row.queued))?;
    instant(f, "C", row.completed)?;
    optional(f, "t", row.tid)?;
    optional(f, "cause", row.cause_tid)?;
    optional(f, "in request ", row.request_id)?;
    writeln!(f)
}

fn link(f: &mut String, row: &Link) -> fmt::Result {
    let end = |end: LinkEnd| end.name();
    writeln!(
        f,
        "{}: {} {} > {} {}",
        row.kind.name(),
        end(row.parent_table),
        row.parent,
        end(row.child_table),
        row.child
    )
}

impl RowSink for Text {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        request(&mut self.text, row).map_err(io::Error::other)
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        bio(&mut self.text, row).map_err(io::Error::other)
    }
    fn link(&mut self, row: &Link) -> io::Result<()> {
        link(&mut self.text, row).map_err(io::Error::other)
    }
    fn settled(&mut self, before: Timestamp) -> io::Result<()> {
        if self.settled {
            writeln!(self.text, "settled {}", before.0).map_err(io::Error::other)?;
        }
        Ok(())
    }
    ignore_rows!(began, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic);
}

/// Assembles events, after an optional line of `options`, and formats the rows and counts. If there are
/// options, the text also contains the settled times.
pub(super) fn show(case: &str) -> String {
    let mut options = AssemblerOptions::default();
    let mut sink = Text::default();
    let mut events = case;
    if let Some((given, rest)) = case.strip_prefix("options ").and_then(|given| given.split_once('\n')) {
        for (name, value) in given.split(' ').map(|option| option.split_once('=').unwrap()) {
            match name {
                "horizon" => options.horizon = Nanos(value.parse().unwrap()),
                "disorder" => options.disorder = Nanos(value.parse().unwrap()),
                "open_max" => options.open_max = value.parse().unwrap(),
                other => panic!("{other} is not an option"),
            }
        }
        sink.settled = true;
        events = rest;
    }
    let counts = assemble(&batches(events), options, &mut sink).unwrap();
    for (name, count) in counts {
        writeln!(sink.text, "{name} {count}").unwrap();
    }
    sink.text
}

/// Formats an event for failing property tests.
pub(super) fn describe(event: &BlockEvent) -> String {
    let (letter, more) = match event.kind {
        EventKind::BioQueue => ("Q", String::new()),
        EventKind::BackMerge => ("M", String::new()),
        EventKind::FrontMerge => ("F", String::new()),
        EventKind::RequestMerge => ("RM", String::new()),
        EventKind::GetRequest => ("G", String::new()),
        EventKind::IoStart => ("START", String::new()),
        EventKind::Insert => ("I", String::new()),
        EventKind::Issue => ("D", String::new()),
        EventKind::Requeue => ("R", String::new()),
        EventKind::Complete => ("C", String::new()),
        EventKind::BioComplete => ("BIOC", String::new()),
        EventKind::IoDone => ("DONE", String::new()),
        EventKind::Split { new_sector } => ("X", format!("/{}", new_sector.0)),
        EventKind::Remap { from_device, from_sector } => ("A", format!("<{from_device},{}", from_sector.0)),
        EventKind::RequestRemap { from_device, from_sector } => {
            ("RA", format!("<{from_device},{}", from_sector.0))
        }
        _ => ("-", String::new()),
    };
    let mut line = format!("{letter} {}", event.time.0);
    place(&mut line, event.device, event.op, event.flags, Some(event.sector), event.bytes).unwrap();
    if event.flags_known == Flags::KNOWN_FROM_RWBS {
        line += " known";
    }
    optional(&mut line, "t", event.tid).unwrap();
    optional(&mut line, "e", event.error).unwrap();
    format!("{line} {more}")
}
