use std::fs::OpenOptions;

use fonio_core::{BlockedIn, Content, Nanos};
use fonio_record::observer::{Party, PartyKind};
use proptest::prelude::*;

use super::*;
use crate::histogram::Histogram;
use crate::summary::{BlockedFigures, DeviceFigures, FileFigures, PartyFigures, Stall, Target, Traffic, Why};

fn party(name: String) -> Party {
    Party { name, kind: PartyKind::Unit }
}

/// Returns the summary of a minute in which `units` units wrote.
fn minute(number: i64, units: u64) -> Summary {
    let mut writes = Histogram::default();
    (1..40).for_each(|n: u64| writes.add(Nanos(n * n * (1000 + number as u64 * 37))));
    let row = |unit: u64| PartyFigures {
        party: party(format!("unit-{unit}-{}.service", unit.wrapping_mul(0x9e37_79b9))),
        device: "mmcblk0".into(),
        traffic: Traffic {
            reads: writes.clone(),
            writes: writes.clone(),
            read_bytes: ByteCount(number as u64 * 7777),
            written_bytes: ByteCount(4096 * unit),
            ..Traffic::default()
        },
    };
    let file = |unit: u64| FileFigures {
        target: Target::File(format!("/var/lib/unit-{unit}/data-{}", unit.wrapping_mul(0x85eb_ca6b))),
        content: Content::Data,
        party: party(format!("unit-{unit}.service")),
        device: "mmcblk0".into(),
        written_bytes: ByteCount(4096 * unit + number as u64),
    };
    Summary {
        began: number * 60,
        ended: number * 60 + 60,
        watched_s: 60,
        devices: vec![DeviceFigures {
            name: "mmcblk0".into(),
            traffic: Traffic { written_bytes: ByteCount(1 << 20), ..Traffic::default() },
            ..DeviceFigures::default()
        }],
        blocked: vec![BlockedFigures { party: party("a".into()), device: None, waits: writes.clone() }],
        parties: (1..=units).map(row).collect(),
        files: (1..=units).map(file).collect(),
        ..Summary::default()
    }
}

fn written(history: &[Summary]) -> u64 {
    history.iter().flat_map(|row| &row.devices).map(|device| device.traffic.written_bytes.0).sum()
}

#[test]
fn a_year_fits_and_the_newest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rings");
    let mut rings = Rings::open(&path).unwrap();
    let hours = 370 * 24;
    for hour in 0..hours {
        // Occasional restarts of the watch do not change the history.
        if hour % 1000 == 777 {
            rings = Rings::open(&path).unwrap();
        }
        let minutes: Vec<Summary> = (0..4).map(|quarter| minute(hour * 60 + quarter * 15, 3)).collect();
        rings.append(&minutes).unwrap();
    }
    let length = path.metadata().unwrap().len();
    assert!(length <= FILE_BYTES_MAX, "{length}");
    let history = History::read(&path).unwrap();
    assert_eq!((history.minutes.len(), history.hours.len(), history.days.len()), (26 * 4, 170, 367));
    assert_eq!(history.minutes.last().unwrap().began, (hours * 60 - 15) * 60);
    assert!(history.minutes.is_sorted_by_key(|row| row.began));
    assert!(
        history.days.iter().all(|day| day.devices[0].traffic.written_bytes == ByteCount(96 << 20)),
        "{:?}",
        history.days[5]
    );
    assert_eq!(history.damaged, 0);
}

#[test]
fn a_busy_hour_is_made_to_fit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rings");
    let mut rings = Rings::open(&path).unwrap();
    let minutes: Vec<Summary> = (0..60).map(|number| minute(number, 60)).collect();
    let bytes = rings.append(&minutes).unwrap();
    assert!(bytes.0 <= 4 * PAGE + PAGE + PAGE, "{bytes:?}");
    let history = History::read(&path).unwrap();
    assert_eq!((written(&history.minutes), written(&history.hours)), (60 << 20, 60 << 20));
    let parties: u64 = history.hours[0].parties.iter().map(|row| row.traffic.written_bytes.0).sum();
    assert_eq!(parties, 60 * (1..=60).map(|unit| 4096 * unit).sum::<u64>());
}

#[test]
fn endless_rows_of_one_span_are_cut_in_the_end() {
    let mut summary = minute(1, 1);
    summary.devices =
        (0..5000).map(|n| DeviceFigures { name: format!("sd{n:x}"), ..DeviceFigures::default() }).collect();
    let slot = slot::fitting(&[summary], HOUR_BOUNDS, WEEK.slot_bytes, 1);
    assert!(slot.len() as u64 <= WEEK.slot_bytes);
    assert_eq!(decode(&slot).unwrap().0, 1);
}

#[test]
fn a_torn_slot_is_left_out_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rings");
    let mut rings = Rings::open(&path).unwrap();
    for number in 0..3 {
        rings.append(&[minute(number, 2)]).unwrap();
    }
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xff; 64], DAY.at + DAY.slot_bytes + 40).unwrap();
    let history = History::read(&path).unwrap();
    let began: Vec<i64> = history.minutes.iter().map(|row| row.began).collect();
    assert_eq!((began, history.damaged), (vec![0, 120], 1));
    // The torn slot is overwritten when its turn comes, like every other slot.
    Rings::open(&path).unwrap().append(&[minute(3, 2)]).unwrap();
    assert_eq!(History::read(&path).unwrap().minutes.len(), 3);
}

#[test]
fn other_files_are_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rings");
    for (contents, expected) in [
        (b"my precious diary, page 1".to_vec(), "is not the history of a watch"),
        (b"short".to_vec(), "is not the history of a watch"),
        (
            [&MAGIC[..], &9_u32.to_le_bytes()].concat(),
            "was written by a newer fonio (format 9; this version reads 1)",
        ),
    ] {
        std::fs::write(&path, &contents).unwrap();
        for error in [Rings::open(&path).unwrap_err(), History::read(&path).unwrap_err()] {
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert_eq!(std::fs::read(&path).unwrap(), contents);
    }
    assert_eq!(History::read(&dir.path().join("none")).unwrap(), History::default());
}

fn stall(seconds: i64) -> Stall {
    Stall {
        began: seconds,
        lasted_ms: 1500,
        goes_on: false,
        party: party("x.service".into()),
        thread: "x".into(),
        blocked_in: BlockedIn::Fsync,
        file: None,
        device: None,
        others: Vec::new(),
        why: Why::Unknown,
        kept: None,
    }
}

proptest! {
    #[test]
    fn damage_never_panics(at in 0_usize..6000, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut summary = minute(4, 5);
        summary.stalls.push(stall(9));
        let mut slot = encode(&[summary.clone()], 77);
        prop_assert_eq!(decode(&slot), Some((77, vec![summary])));
        let end = (at + bytes.len()).min(slot.len());
        if at < end {
            slot[at..end].copy_from_slice(&bytes[..end - at]);
        }
        let _ = decode(&slot);
        let _ = decode(&bytes);
    }
}
