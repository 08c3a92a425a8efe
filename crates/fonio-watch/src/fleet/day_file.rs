//! The file of one device and day: JSON Lines, compressed with gzip.
//!
//! | line | contents |
//! |---|---|
//! | first | `"kind": "device"`: the version of the schema, the device, the day, and the device's attributes |
//! | `disk` | one for each disk: counts, sums and histograms of requests, stalls, wear |
//! | `unit` | one for each unit and disk |
//! | `stall` | one for each disk, blocked unit and cause of stalls |
//! | last | `"kind": "end"`, with the number of lines, so that a half-written file is recognised |
//!
//! An unknown value is `null`. The fields are the columns of the fleet's tables (`python/fonio/fleet/schema.py`).

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::days::Day;
use super::identity::{Attributes, Names};
use crate::answers::{CauseKind, groups};
use crate::histogram::Histogram;
use crate::summary::{DeviceFigures, Summary, UnixSeconds};

/// The version of the fleet's schema.
const SCHEMA: u32 = 1;
/// A request is slow from this duration: the beginning of a class of the histograms.
const SLOW_US: u64 = 1 << 17;
/// Attributes are those at the time of sending. They are given to a day only if it ended at most this long before,
/// because nothing shows what an earlier day had.
const ATTRIBUTES_VALID_S: i64 = 36 * 3600;

/// The contents of a file, before it is encoded.
#[derive(Debug)]
pub struct DayFile {
    lines: Vec<Line>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Device {
        schema: u32,
        device: String,
        day: String,
        source: &'static str,
        writer: &'static str,
        model: Option<String>,
        kernel: Option<String>,
        os: Option<String>,
    },
    Disk(Box<Disk>),
    Unit {
        disk: String,
        unit: String,
        written_bytes: u64,
        read_bytes: u64,
        blocked_us: u64,
    },
    Stall {
        disk: Option<String>,
        unit: String,
        cause: CauseKind,
        culprit: Option<String>,
        stalls: u64,
        stalled_ms: u64,
        longest_ms: u64,
    },
    End {
        lines: usize,
    },
}

#[derive(Debug, Default, Serialize)]
struct Disk {
    disk: String,
    disk_kind: Option<String>,
    disk_model: Option<String>,
    disk_firmware: Option<String>,
    disk_made: Option<String>,
    disk_bytes: Option<u64>,
    watched_s: u64,
    limited_s: u64,
    unobserved: u64,
    reads: Option<u64>,
    read_us: Option<u64>,
    slow_reads: Option<u64>,
    read_classes: Option<Vec<u64>>,
    writes: Option<u64>,
    write_us: Option<u64>,
    slow_writes: Option<u64>,
    write_classes: Option<Vec<u64>>,
    flushes: Option<u64>,
    flush_us: Option<u64>,
    slow_flushes: Option<u64>,
    flush_classes: Option<Vec<u64>>,
    read_bytes: u64,
    written_bytes: u64,
    busy_ms: u64,
    stalls: u64,
    stalled_ms: u64,
    life_used_percent: Option<u32>,
    reserved_blocks: Option<String>,
}

impl DayFile {
    /// Makes the file of a day. `device` is the name of the device in the fleet, and `now` the time of sending.
    pub fn new(
        device: &str,
        day: Day,
        sum: &Summary,
        attributes: &Attributes,
        names: &Names<'_>,
        now: UnixSeconds,
    ) -> DayFile {
        let unknown = Attributes { model: attributes.model.clone(), ..Attributes::default() };
        let attributes = if now - day.end() <= ATTRIBUTES_VALID_S { attributes } else { &unknown };
        let mut lines = vec![Line::Device {
            schema: SCHEMA,
            device: device.to_owned(),
            day: day.name(),
            source: "watch",
            writer: concat!("fonio ", env!("CARGO_PKG_VERSION")),
            model: attributes.model.clone(),
            kernel: attributes.kernel.clone(),
            os: attributes.os.clone(),
        }];
        let only_disk = match &sum.devices[..] {
            [device] => Some(device.name.as_str()),
            _ => None,
        };
        lines.extend(
            sum.devices.iter().map(|of| Line::Disk(Box::new(disk(of, sum, attributes, only_disk.is_some())))),
        );
        lines.extend(units(sum, names));
        lines.extend(stalls(sum, names, only_disk));
        let count = lines.len() + 1;
        lines.push(Line::End { lines: count });
        DayFile { lines }
    }

    /// Encodes the file. The same contents give the same bytes.
    ///
    /// # Errors
    /// Never fails, because the memory grows as needed.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        for line in &self.lines {
            serde_json::to_writer(&mut gzip, line)?;
            gzip.write_all(b"\n")?;
        }
        gzip.finish()
    }
}

fn disk(of: &DeviceFigures, sum: &Summary, attributes: &Attributes, is_only: bool) -> Disk {
    // Another disk can have had the name on this day.
    let known = attributes.disks.get(&of.name).filter(|disk| of.model.is_none() || disk.model == of.model);
    let made = of.health.as_ref().and_then(|health| health.made.clone());
    // Without BPF, the watch sees no requests: their number is unknown, not zero.
    let sees_requests = sum.limited_s < sum.watched_s;
    let ops = [&of.traffic.reads, &of.traffic.writes, &of.traffic.flushes];
    let [reads, writes, flushes] = ops.map(|times| sees_requests.then_some(times));
    let listed: Vec<_> =
        sum.stalls.iter().filter(|stall| is_only || stall.device.as_deref() == Some(&of.name)).collect();
    // A summary lists only the longest stalls, but it counts all of them.
    let stalls = if is_only { sum.stalls_in_all } else { listed.len() as u64 };
    Disk {
        disk: of.name.clone(),
        disk_kind: known.and_then(|disk| match serde_json::to_value(disk.kind) {
            Ok(serde_json::Value::String(kind)) => Some(kind),
            _ => None,
        }),
        disk_model: of.model.clone().or_else(|| known.and_then(|disk| disk.model.clone())),
        disk_firmware: known.and_then(|disk| disk.firmware.clone()),
        disk_made: made.or_else(|| known.and_then(|disk| disk.made.clone())),
        disk_bytes: of.size.map(|size| size.0),
        watched_s: sum.watched_s,
        limited_s: sum.limited_s,
        unobserved: sum.unobserved,
        reads: reads.map(Histogram::count),
        read_us: reads.map(total_us),
        slow_reads: reads.map(slow),
        read_classes: reads.map(classes),
        writes: writes.map(Histogram::count),
        write_us: writes.map(total_us),
        slow_writes: writes.map(slow),
        write_classes: writes.map(classes),
        flushes: flushes.map(Histogram::count),
        flush_us: flushes.map(total_us),
        slow_flushes: flushes.map(slow),
        flush_classes: flushes.map(classes),
        read_bytes: of.traffic.read_bytes.0,
        written_bytes: of.traffic.written_bytes.0,
        busy_ms: of.busy_ms,
        stalls,
        stalled_ms: listed.iter().map(|stall| stall.lasted_ms).sum(),
        life_used_percent: of.health.as_ref().and_then(|health| health.used_percent()),
        reserved_blocks: of.health.as_ref().and_then(|health| health.reserved_blocks.clone()),
    }
}

fn total_us(times: &Histogram) -> u64 {
    times.total().0 / 1000
}

fn slow(times: &Histogram) -> u64 {
    times.upper_bounds().filter(|(end, _)| end.0 / 1000 > SLOW_US).map(|(_, count)| count).sum()
}

/// Returns the counts of the classes, without the empty classes at the end.
fn classes(times: &Histogram) -> Vec<u64> {
    let mut counts: Vec<u64> = times.upper_bounds().map(|(_, count)| count).collect();
    counts.truncate(counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1));
    counts
}

fn units(sum: &Summary, names: &Names<'_>) -> Vec<Line> {
    // Several parties can share a name: their figures are added up.
    let mut rows: BTreeMap<(String, String), [u64; 3]> = BTreeMap::new();
    for row in &sum.parties {
        let total = rows.entry((row.device.clone(), names.of(&row.party))).or_default();
        total[0] += row.traffic.written_bytes.0;
        total[1] += row.traffic.read_bytes.0;
    }
    for row in &sum.blocked {
        let Some(device) = &row.device else { continue };
        rows.entry((device.clone(), names.of(&row.party))).or_default()[2] += total_us(&row.waits);
    }
    rows.into_iter()
        .map(|((disk, unit), [written_bytes, read_bytes, blocked_us])| Line::Unit {
            disk,
            unit,
            written_bytes,
            read_bytes,
            blocked_us,
        })
        .collect()
}

fn stalls(sum: &Summary, names: &Names<'_>, only_disk: Option<&str>) -> Vec<Line> {
    let mut rows: BTreeMap<_, [u64; 3]> = BTreeMap::new();
    for stall in &sum.stalls {
        let disk = stall.device.clone().or_else(|| only_disk.map(str::to_owned));
        for group in groups(std::slice::from_ref(stall)) {
            let culprit = group.culprit.as_ref().map(|party| names.of(party));
            let total: &mut [u64; 3] =
                rows.entry((disk.clone(), names.of(&group.party), group.cause, culprit)).or_default();
            total[0] += 1;
            total[1] += stall.lasted_ms;
            total[2] = total[2].max(stall.lasted_ms);
        }
    }
    rows.into_iter()
        .map(|((disk, unit, cause, culprit), [stalls, stalled_ms, longest_ms])| Line::Stall {
            disk,
            unit,
            cause,
            culprit,
            stalls,
            stalled_ms,
            longest_ms,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use expect_test::expect;
    use flate2::read::GzDecoder;
    use fonio_core::{BlockedIn, ByteCount, DeviceKind, Nanos, Op};
    use fonio_record::observer::{Party, PartyKind};

    use super::*;
    use crate::fleet::identity::DiskAttributes;
    use crate::summary::{PartyFigures, Stall, Traffic, Why};

    fn party(kind: PartyKind, name: &str) -> Party {
        Party { name: name.to_owned(), kind }
    }

    fn sum() -> Summary {
        let mut writes = Histogram::default();
        for us in [0, 900, 131_071, 131_072] {
            writes.add(Nanos(us * 1000));
        }
        let traffic = Traffic { writes, written_bytes: ByteCount(8192), ..Traffic::default() };
        Summary {
            watched_s: 86_000,
            devices: vec![DeviceFigures {
                name: "mmcblk0".into(),
                model: Some("EM32".into()),
                traffic: traffic.clone(),
                ..DeviceFigures::default()
            }],
            parties: ["diary.sh", "photos.sh"]
                .map(|name| PartyFigures {
                    party: party(PartyKind::Program, name),
                    device: "mmcblk0".into(),
                    traffic: Traffic { written_bytes: ByteCount(4096), ..Traffic::default() },
                })
                .into(),
            stalls: vec![Stall {
                began: 100,
                lasted_ms: 1500,
                goes_on: false,
                party: party(PartyKind::Unit, "notes.service"),
                thread: "anna".into(),
                blocked_in: BlockedIn::Fsync,
                file: Some("/home/anna/diary".into()),
                device: None,
                others: Vec::new(),
                why: Why::Behind {
                    party: party(PartyKind::Program, "diary.sh"),
                    op: Op::Write,
                    bytes: ByteCount(1),
                    share_thousandths: 900,
                },
                kept: None,
            }],
            stalls_in_all: 5,
            ..Summary::default()
        }
    }

    fn text(now: UnixSeconds, sum: &Summary) -> String {
        let disk = DiskAttributes {
            kind: DeviceKind::Emmc,
            model: Some("EM32".into()),
            firmware: Some("1.7".into()),
            made: Some("05/2024".into()),
        };
        let attributes = Attributes {
            model: Some("Pi".into()),
            kernel: Some("6.12".into()),
            os: Some("Debian 12".into()),
            disks: [("mmcblk0".to_owned(), disk)].into(),
        };
        let file = DayFile::new("d1", Day(20_000), sum, &attributes, &Names::Services, now);
        let bytes = file.encode().unwrap();
        assert_eq!(bytes, file.encode().unwrap());
        let mut text = String::new();
        GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_day_has_its_figures_and_no_names_of_people() {
        let shown = text(Day(20_000).end() + 60, &sum());
        expect![[r#"
            {"kind":"device","schema":1,"device":"d1","day":"2024-10-04","source":"watch","writer":"fonio 0.1.0","model":"Pi","kernel":"6.12","os":"Debian 12"}
            {"kind":"disk","disk":"mmcblk0","disk_kind":"emmc","disk_model":"EM32","disk_firmware":"1.7","disk_made":"05/2024","disk_bytes":null,"watched_s":86000,"limited_s":0,"unobserved":0,"reads":0,"read_us":0,"slow_reads":0,"read_classes":[],"writes":4,"write_us":263043,"slow_writes":1,"write_classes":[1,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,1,1],"flushes":0,"flush_us":0,"slow_flushes":0,"flush_classes":[],"read_bytes":0,"written_bytes":8192,"busy_ms":0,"stalls":5,"stalled_ms":1500,"life_used_percent":null,"reserved_blocks":null}
            {"kind":"unit","disk":"mmcblk0","unit":"(programs)","written_bytes":8192,"read_bytes":0,"blocked_us":0}
            {"kind":"stall","disk":"mmcblk0","unit":"notes.service","cause":"behind","culprit":"(programs)","stalls":1,"stalled_ms":1500,"longest_ms":1500}
            {"kind":"end","lines":5}
        "#]].assert_eq(&shown);
        for name in ["anna", "diary", "photos"] {
            assert!(!shown.contains(name), "{name} left the device");
        }
    }

    #[test]
    fn what_an_old_day_had_is_unknown_and_requests_that_nobody_saw_too() {
        let late = text(Day(20_000).end() + ATTRIBUTES_VALID_S + 1, &sum());
        assert!(
            late.contains(r#""kernel":null,"os":null"#) && late.contains(r#""disk_firmware":null"#),
            "{late}"
        );
        let unseen = Summary { limited_s: 86_000, ..sum() };
        let unseen = text(Day(20_000).end(), &unseen);
        assert!(unseen.contains(r#""writes":null,"write_us":null,"slow_writes":null"#), "{unseen}");
    }
}
