//! Decodes ring-buffer pages from a real kernel, and compares the events with the text that the kernel
//! printed for them. Also tests the event layouts of old Android kernels.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use expect_test::{expect, expect_file};
use fonio_core::meta::{Clock, Source};
use fonio_core::{
    Batch, BlockEvent, ByteCount, DeviceId, EventKind, Flags, Op, Sector, Timestamp, TraceReader, parse_rwbs,
};
use fonio_tracefs::ring_buffer::{
    BLOCK_EVENTS, BlockDecoder, ByteOrder, EventFormat, FieldKind, PageLayout, PageSource, Record,
    RingBufferReader,
};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn formats(text: &str) -> Vec<EventFormat> {
    let mut starts: Vec<usize> = text.match_indices("name: ").map(|(at, _)| at).collect();
    starts.push(text.len());
    starts.windows(2).map(|range| EventFormat::parse(&text[range[0]..range[1]]).unwrap()).collect()
}

/// Consecutive ring-buffer pages of 4 KiB.
struct Pages {
    bytes: Vec<u8>,
    at: usize,
}

impl PageSource for Pages {
    fn next_page(&mut self, page: &mut Vec<u8>) -> io::Result<Option<u64>> {
        page.clear();
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        if rest.is_empty() {
            return Ok(None);
        }
        page.extend(&rest[..rest.len().min(4096)]);
        self.at += 4096;
        Ok(Some(self.at as u64 - 4096))
    }
}

fn read_all(streams: Vec<(u32, Vec<u8>)>) -> Batch {
    let dir = data("linux-6.18-x86_64");
    let layout =
        PageLayout::parse(&fs::read_to_string(dir.join("header_page")).unwrap(), ByteOrder::Little).unwrap();
    let formats = formats(&fs::read_to_string(dir.join("formats")).unwrap());
    let decoder = BlockDecoder::new(&formats, ByteOrder::Little).unwrap();
    let streams = streams.into_iter().map(|(cpu, bytes)| (cpu, format!("cpu{cpu}"), Pages { bytes, at: 0 }));
    let mut reader = RingBufferReader::new(
        layout,
        decoder,
        streams,
        Source::default(),
        Clock::default(),
        Timestamp(3_563_000_000_000),
    );
    let (mut all, mut batch) = (Batch::default(), Batch::default());
    loop {
        let more = reader.next_batch(&mut batch).unwrap();
        all.events.append(&mut batch.events);
        all.threads.append(&mut batch.threads);
        all.lost.append(&mut batch.lost);
        all.diagnostics.append(&mut batch.diagnostics);
        if !more {
            return all;
        }
    }
}

/// The fields that exist both in `trace.txt` and in a [`BlockEvent`].
#[derive(Debug, PartialEq)]
struct Line {
    cpu: u32,
    micros: u64,
    tid: u32,
    event: String,
    rest: String,
}

fn device(text: &str) -> DeviceId {
    let (major, minor) = text.split_once(',').unwrap();
    DeviceId::new(major.parse().unwrap(), minor.parse().unwrap())
}

/// Parses one line of the kernel's text. Supports only the line formats that occur in `trace.txt`.
fn from_text(line: &str) -> Line {
    let cpu_at = line.find(" [0").unwrap();
    let tid = line[..cpu_at].trim().rsplit('-').next().unwrap().parse().unwrap();
    let rest: Vec<&str> = line[cpu_at..].split_whitespace().collect();
    let [cpu, _, time, event, fields @ ..] = rest.as_slice() else { panic!("{line}") };
    let (seconds, micros) = time.trim_end_matches(':').split_once('.').unwrap();
    let event = event.trim_end_matches(':');
    let sectors = || {
        ByteCount::from_sectors(fields[fields.iter().position(|f| *f == "+").unwrap() + 1].parse().unwrap())
    };
    let rest = match event {
        "block_plug" => String::new(),
        "block_unplug" => fields.last().unwrap().to_string(),
        "block_split" => {
            format!(
                "{:?} {:?} {} / {}",
                device(fields[0]),
                parse_rwbs(fields[1].as_bytes()),
                fields[2],
                fields[4]
            )
        }
        _ => {
            let plus = fields.iter().position(|f| *f == "+").unwrap();
            let mut rest = format!(
                "{:?} {:?} {} {:?}",
                device(fields[0]),
                parse_rwbs(fields[1].as_bytes()),
                fields[plus - 1],
                sectors()
            );
            if event == "block_bio_remap" {
                let from = fields[plus + 3].trim_matches(['(', ')']);
                rest += &format!(" <- {:?} {}", device(from), fields[plus + 4]);
            }
            if let Some(ioprio) = fields.get(plus + 2).filter(|_| event.starts_with("block_rq")) {
                rest += &format!(" {ioprio}");
            }
            if event == "block_rq_complete" {
                rest += &format!(" {}", fields.last().unwrap());
            }
            rest
        }
    };
    Line {
        cpu: cpu.trim_matches(['[', ']']).parse().unwrap(),
        micros: seconds.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap(),
        tid,
        event: event.to_owned(),
        rest,
    }
}

fn from_event(event: &BlockEvent) -> Line {
    let name = match event.kind {
        EventKind::BioQueue => "block_bio_queue",
        EventKind::BackMerge => "block_bio_backmerge",
        EventKind::GetRequest => "block_getrq",
        EventKind::IoStart => "block_io_start",
        EventKind::IoDone => "block_io_done",
        EventKind::Insert => "block_rq_insert",
        EventKind::Issue => "block_rq_issue",
        EventKind::Complete => "block_rq_complete",
        EventKind::Plug => "block_plug",
        EventKind::Split { .. } => "block_split",
        EventKind::Remap { .. } => "block_bio_remap",
        EventKind::Unplug { .. } => "block_unplug",
        other => panic!("{other:?} is not in this trace"),
    };
    let what = (event.op, event.flags);
    let rest = match event.kind {
        EventKind::Plug => String::new(),
        EventKind::Unplug { count } => count.to_string(),
        EventKind::Split { new_sector } => {
            format!("{:?} {what:?} {} / {}", event.device, event.sector.0, new_sector.0)
        }
        _ => {
            let mut rest = format!("{:?} {what:?} {} {:?}", event.device, event.sector.0, event.bytes);
            if let EventKind::Remap { from_device, from_sector } = event.kind {
                rest += &format!(" <- {from_device:?} {}", from_sector.0);
            }
            if let Some(ioprio) = event.ioprio.filter(|_| name.starts_with("block_rq")) {
                let class = ["none", "rt", "be", "idle"][usize::from(ioprio >> 13)];
                rest += &format!(" {class},{},{}", ioprio >> 3 & 0x3ff, ioprio & 7);
            }
            if let Some(error) = event.error {
                rest += &format!(" [{error}]");
            }
            rest
        }
    };
    Line {
        cpu: event.cpu.unwrap(),
        // The kernel's text rounds timestamps to the nearest microsecond.
        micros: (event.time.0 + 500) / 1000,
        tid: event.tid.unwrap(),
        event: name.to_owned(),
        rest,
    }
}

#[test]
fn pages_give_what_the_kernel_prints() {
    let dir = data("linux-6.18-x86_64");
    let pages = |cpu: u32| (cpu, fs::read(dir.join(format!("cpu{cpu}.pages"))).unwrap());
    let batch = read_all(vec![pages(0), pages(1)]);
    let text = fs::read_to_string(dir.join("trace.txt")).unwrap();
    let expected: Vec<Line> = text.lines().filter(|line| !line.starts_with('#')).map(from_text).collect();
    assert_eq!(batch.events.len(), expected.len());
    for (event, line) in batch.events.iter().zip(&expected) {
        assert_eq!(&from_event(event), line);
    }
    assert!(batch.events.is_sorted_by_key(|event| event.time));
    assert!(batch.lost.is_empty());
    assert!(batch.diagnostics.is_empty());
    let names: Vec<String> = batch
        .threads
        .iter()
        .map(|thread| format!("{} {}", thread.tid, thread.comm.as_deref().unwrap()))
        .collect();
    expect_file!["ring_buffer_events.txt"].assert_eq(&names.join("\n"));
}

#[test]
fn lost_events_are_found_with_their_number() {
    let batch = read_all(vec![(0, fs::read(data("linux-6.18-x86_64").join("lost.pages")).unwrap())]);
    // The first read returned 20 events. Afterwards, 315 events were overwritten, and 280 events remained.
    assert_eq!(batch.events.len(), 20 + 280);
    expect![[r#"
        [
            LostEvents {
                cpu: Some(
                    0,
                ),
                count: Some(
                    315,
                ),
                after: Timestamp(
                    3563473560840,
                ),
                before: Timestamp(
                    3563476983560,
                ),
            },
        ]
    "#]]
    .assert_debug_eq(&batch.lost);
    let gap = batch.lost[0];
    assert!(batch.events.iter().all(|event| event.time <= gap.after || event.time >= gap.before));
}

#[test]
fn a_damaged_page_costs_that_page_only() {
    let dir = data("linux-6.18-x86_64");
    let mut bytes = fs::read(dir.join("cpu1.pages")).unwrap();
    let whole = read_all(vec![(1, bytes.clone())]).events.len();
    // Damage two pages: a record claims to be larger than its page, and a page claims to be larger than the
    // file.
    bytes[4096 + 16..4096 + 20].fill(0);
    bytes[4096 + 20..4096 + 24].fill(0xff);
    bytes.truncate(3 * 4096 - 1000);
    let damaged = read_all(vec![(1, bytes)]);
    assert!(!damaged.events.is_empty() && damaged.events.len() < whole);
    // The damage lost an unknown number of events, at a known time.
    assert_eq!(damaged.lost.iter().map(|gap| (gap.cpu, gap.count)).collect::<Vec<_>>(), [(Some(1), None)]);
    assert!(damaged.lost.iter().all(|gap| gap.after <= gap.before));
    let told: Vec<String> =
        damaged.diagnostics.iter().map(|d| format!("{:?} {:?} {}", d.record, d.offset, d.message)).collect();
    expect![[r#"
        Some(2) Some(4096) the record at byte 16 of the page reaches beyond the 4060 used bytes; the rest of the page was skipped
        Some(3) Some(8192) the page has 3096 bytes but needs 4044; the rest of the page was skipped"#]].assert_eq(&told.join("\n"));
}

/// Writes a record as a kernel with this event layout would.
fn record(format: &EventFormat, values: &BTreeMap<&str, i64>, texts: &BTreeMap<&str, &str>) -> Vec<u8> {
    let end = format.fields.iter().map(|field| field.offset + field.size).max().unwrap();
    let mut bytes = vec![0; end];
    for field in &format.fields {
        match field.kind {
            FieldKind::Plain => {
                let value = values.get(field.name.as_str()).copied().unwrap_or(0);
                bytes[field.offset..field.offset + field.size]
                    .copy_from_slice(&value.to_le_bytes()[..field.size]);
            }
            FieldKind::Array => {
                let text = texts.get(field.name.as_str()).copied().unwrap_or("").as_bytes();
                bytes[field.offset..field.offset + text.len()].copy_from_slice(text);
            }
            FieldKind::DataLoc | FieldKind::RelLoc => {}
        }
    }
    bytes
}

#[test]
fn layouts_of_android_kernels() {
    let mut shown = Vec::new();
    let mut devices: Vec<PathBuf> =
        fs::read_dir(data("android")).unwrap().map(|e| e.unwrap().path()).collect();
    devices.retain(|path| path.is_dir());
    devices.sort();
    for dir in devices {
        let mut formats = Vec::new();
        let mut files: Vec<PathBuf> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        for file in files {
            formats.push(EventFormat::parse(&fs::read_to_string(&file).unwrap()).unwrap());
        }
        let decoder = BlockDecoder::new(&formats, ByteOrder::Little).unwrap();
        for format in formats.iter().filter(|format| BLOCK_EVENTS.contains(&format.name.as_str())) {
            let values = BTreeMap::from([
                ("common_type", i64::from(format.id)),
                ("common_pid", 4711),
                ("dev", i64::from(DeviceId::new(179, 0).0)),
                ("sector", 0x1_2345_6789),
                ("nr_sector", 8),
                ("error", -5),
                ("errors", -5),
            ]);
            let texts = BTreeMap::from([("rwbs", "FWFS"), ("comm", "mmcqd/0")]);
            let data = record(format, &values, &texts);
            let event = decoder.decode(Record { time: Timestamp(99), data: &data }, Some(3)).unwrap();
            assert_eq!(event.time, Timestamp(99));
            assert_eq!(event.device, DeviceId::new(179, 0));
            assert_eq!(event.sector, Sector(0x1_2345_6789));
            assert_eq!(event.bytes, ByteCount(4096));
            assert_eq!(event.op, Op::Write);
            assert_eq!(event.flags, Flags::PREFLUSH | Flags::FUA | Flags::SYNC);
            assert_eq!(event.tid, Some(4711));
            assert_eq!(decoder.decode(Record { time: Timestamp(99), data: &data[..20] }, None), None);
            let device = dir.file_name().unwrap().to_string_lossy();
            let named = decoder.decode_named(Record { time: Timestamp(99), data: &data }, None);
            let comm = named.and_then(|(_, comm)| comm).map(String::from_utf8_lossy);
            shown.push(format!("{device} {:?} error={:?} comm={comm:?}", event.kind, event.error));
        }
    }
    expect_file!["ring_buffer_errors.txt"].assert_eq(&shown.join("\n"));
}
