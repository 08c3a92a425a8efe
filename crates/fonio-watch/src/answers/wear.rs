//! Answers which parties wear a device out, and when it will be worn out.
//!
//! The write rate comes from the kernel's counters. The endurance comes from the best available source, which
//! the answer names: the maker's statement (in the user's settings), the device's own wear report, or an
//! assumption with a wide range.

use std::collections::BTreeMap;

use fonio_core::quantity::Unit;
use fonio_core::{ByteCount, Content};
use serde::Serialize;

use super::names::party_name;
use super::stalls::notes;
use crate::rings::History;
use crate::summary::{DeviceFigures, HealthReading, Summary, Target, UnixSeconds};
use crate::times;

const DAY_S: f64 = 86_400.0;
const YEAR_S: f64 = 365.25 * DAY_S;
/// Minimum watched time for computing a write rate; a shorter time does not represent a usual day.
const WATCHED_MIN_S: u64 = 3600;
/// Assumed endurance as a multiple of the device's size, if no source for the endurance exists. Cells endure
/// 500 to 3000 program cycles (TLC to good MLC), and write amplification is 1 to 5. So a device endures
/// writes of 100 to 3000 times its size.
const ASSUMED_TIMES_SIZE: (f64, f64) = (100.0, 3000.0);
/// Step size of the wear that devices report, in percent.
const STEP: f64 = 10.0;
/// Maximum number of years that is still a useful prediction of a device's life.
const YEARS_MAX: f64 = 100.0;
const ROWS_MAX: usize = 12;

/// The wear of the devices, and the parties that cause it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WearAnswer {
    /// The answer, with one sentence for each device.
    pub verdict: String,
    /// Start of the period for which the wear was requested.
    pub since: UnixSeconds,
    /// Number of seconds since `since` in which the watch was running.
    pub watched_s: u64,
    /// The devices to which data was written.
    pub devices: Vec<WornDevice>,
    /// Remarks for the user on the answer.
    pub notes: Vec<String>,
}

/// The wear of one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct WornDevice {
    pub name: String,
    pub model: Option<String>,
    pub size: Option<ByteCount>,
    pub written: ByteCount,
    /// Bytes written per day; `None` if the watched time is too short.
    pub written_per_day: Option<ByteCount>,
    pub health: Option<HealthReading>,
    /// The parties that wrote to the device, most bytes first.
    pub parties: Vec<PartyShare>,
    /// The files written on the device, most bytes first.
    pub files: Vec<FileShare>,
    /// Share of all attributed bytes that are file system journals or metadata.
    pub file_system_share: f64,
    /// Estimated remaining life; `None` if the watched time is too short or the endurance is unknown.
    pub estimate: Option<Estimate>,
}

/// A party's share of the written bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct PartyShare {
    pub party: String,
    pub written: ByteCount,
    pub share: f64,
}

/// A file's share of the written bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct FileShare {
    pub file: String,
    pub party: String,
    pub written: ByteCount,
    pub share: f64,
}

/// Estimated remaining life of a device, in years at the present write rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Lower bound of the remaining years.
    pub years_at_least: f64,
    /// Upper bound of the remaining years; `None` if there is no upper bound.
    pub years_at_most: Option<f64>,
    /// The source of the device's endurance.
    pub basis: Basis,
}

/// The source of the endurance in an estimate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Basis {
    /// The endurance as stated by the maker, from the settings.
    Stated { endurance: ByteCount },
    /// The increase of the device's reported wear during the watch.
    Observed { from_percent: u32, to_percent: u32, seconds: u64 },
    /// The device's reported wear, and its month of manufacture.
    Age { used_percent: u32, made: String },
    /// The device's size, with the endurance of typical flash.
    Assumed { size: ByteCount },
}

/// Returns the wear of each device since `since`, and the parties that caused it.
pub fn wear(history: &History, since: UnixSeconds, endurance: &BTreeMap<String, ByteCount>) -> WearAnswer {
    let sum = history.sum_since(since);
    let mut notes = notes(&sum, history.damaged);
    let mut devices: Vec<WornDevice> = Vec::new();
    for device in sum.devices.iter().filter(|device| device.traffic.written_bytes.0 > 0) {
        let per_day = (sum.watched_s >= WATCHED_MIN_S).then(|| {
            ByteCount((device.traffic.written_bytes.0 as f64 * DAY_S / sum.watched_s as f64) as u64)
        });
        // The history keeps only the device's name with a party and with a file. The kernel gives the name of
        // a removed disk to the next disk, so these figures can belong to several disks.
        let is_alone = sum.devices.iter().filter(|other| other.name == device.name).count() == 1;
        let (parties, attributed) = if is_alone { parties(&sum, &device.name) } else { (Vec::new(), 0) };
        let note = format!(
            "Several disks had the name {} one after the other, so it is unknown who wrote to each of them.",
            device.name
        );
        if !is_alone && !notes.contains(&note) {
            notes.push(note);
        }
        devices.push(WornDevice {
            name: device.name.clone(),
            model: device.model.clone(),
            size: device.size,
            written: device.traffic.written_bytes,
            written_per_day: per_day,
            health: device.health.clone(),
            parties,
            files: if is_alone { files(&sum, &device.name) } else { Vec::new() },
            file_system_share: match is_alone {
                true => file_system_share(&sum, &device.name, attributed),
                false => 0.0,
            },
            estimate: per_day
                .and_then(|per_day| estimate(history, device, per_day, endurance.get(&device.name).copied())),
        });
    }
    devices.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| a.name.cmp(&b.name)));
    let verdict = match devices.as_slice() {
        [] if sum.watched_s == 0 => format!("Nothing was watched since {}.", times::shown(since)),
        [] => format!("Nothing was written since {}.", times::shown(since)),
        devices => devices.iter().map(wear_sentence).collect::<Vec<_>>().join("\n"),
    };
    WearAnswer { verdict, since, watched_s: sum.watched_s, devices, notes }
}

fn parties(sum: &Summary, device: &str) -> (Vec<PartyShare>, u64) {
    let mut written: BTreeMap<String, u64> = BTreeMap::new();
    for row in sum.parties.iter().filter(|row| row.device == device && row.traffic.written_bytes.0 > 0) {
        *written.entry(party_name(&row.party)).or_default() += row.traffic.written_bytes.0;
    }
    let total: u64 = written.values().sum();
    let mut rows: Vec<PartyShare> = written
        .into_iter()
        .map(|(party, bytes)| PartyShare {
            party,
            written: ByteCount(bytes),
            share: bytes as f64 / total.max(1) as f64,
        })
        .collect();
    rows.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| a.party.cmp(&b.party)));
    rows.truncate(ROWS_MAX);
    (rows, total)
}

fn files(sum: &Summary, device: &str) -> Vec<FileShare> {
    let of_device = || sum.files.iter().filter(|row| row.device == device);
    let total: u64 = of_device().map(|row| row.written_bytes.0).sum();
    let mut rows: Vec<FileShare> = of_device()
        .map(|row| FileShare {
            file: target(&row.target),
            party: party_name(&row.party),
            written: row.written_bytes,
            share: row.written_bytes.0 as f64 / total.max(1) as f64,
        })
        .collect();
    rows.sort_by(|a, b| b.written.cmp(&a.written).then_with(|| a.file.cmp(&b.file)));
    rows.truncate(ROWS_MAX);
    rows
}

fn target(target: &Target) -> String {
    match target {
        Target::File(path) => path.clone(),
        Target::Unnamed => "(files of unknown name)".to_owned(),
        Target::Journal => "(file system journal)".to_owned(),
        Target::Metadata => "(file system metadata)".to_owned(),
        Target::Swap => "(swap)".to_owned(),
        Target::Direct => "(direct I/O, unknown file)".to_owned(),
    }
}

fn file_system_share(sum: &Summary, device: &str, attributed: u64) -> f64 {
    let of_fs = sum.files.iter().filter(|row| {
        row.device == device && matches!(row.content, Content::FsJournal | Content::FsMetadata)
    });
    of_fs.map(|row| row.written_bytes.0).sum::<u64>() as f64 / attributed.max(1) as f64
}

fn estimate(
    history: &History,
    device: &DeviceFigures,
    per_day: ByteCount,
    stated: Option<ByteCount>,
) -> Option<Estimate> {
    let per_year = per_day.0 as f64 * YEAR_S / DAY_S;
    let years = |bytes: f64| bytes / per_year.max(1.0);
    let readings = readings(history, device);
    let used = readings.last().and_then(|(_, health)| used_percent(health));
    // Devices report the upper end of a 10 % step as their wear.
    let left = |used: f64| (100.0 - used).max(0.0) / 100.0;
    if let Some(endurance) = stated {
        let (least, most) = used.map_or((1.0, 1.0), |used| (left(used), left((used - STEP).max(0.0))));
        let all = years(endurance.0 as f64);
        return Some(Estimate {
            years_at_least: all * least,
            years_at_most: Some(all * most),
            basis: Basis::Stated { endurance },
        });
    }
    if let Some(used) = used {
        return by_register(&readings, used);
    }
    let size = device.size?;
    Some(Estimate {
        years_at_least: years(size.0 as f64 * ASSUMED_TIMES_SIZE.0),
        years_at_most: Some(years(size.0 as f64 * ASSUMED_TIMES_SIZE.1)),
        basis: Basis::Assumed { size },
    })
}

/// Estimates the remaining life from the reported wear: from its increase during the watch, otherwise from
/// the device's age.
fn by_register(readings: &[(UnixSeconds, &HealthReading)], used: f64) -> Option<Estimate> {
    let (first_at, first) = readings.first().and_then(|(at, health)| Some((*at, used_percent(health)?)))?;
    let (last_at, last) = readings.last()?;
    let seconds = u64::try_from(last_at - first_at).unwrap_or(0);
    if used > first && seconds > 0 {
        // The true increase differs from the reported increase by at most one step.
        let rate = |percent: f64| percent / (seconds as f64 / YEAR_S);
        let (fast, slow) = (rate(used - first + STEP), rate((used - first - STEP).max(0.0)));
        return Some(Estimate {
            years_at_least: (100.0 - used).max(0.0) / fast,
            years_at_most: (slow > 0.0).then(|| (100.0 - used + STEP) / slow),
            basis: Basis::Observed { from_percent: first as u32, to_percent: used as u32, seconds },
        });
    }
    let made = last.made.clone()?;
    let age = age_years(&made, *last_at)?;
    let until_worn = |used: f64| age * (100.0 - used).max(0.0) / used;
    Some(Estimate {
        years_at_least: until_worn(used),
        years_at_most: (used > STEP).then(|| until_worn(used - STEP)),
        basis: Basis::Age { used_percent: used as u32, made },
    })
}

/// Returns the age in years of a device made in `MM/YYYY`; at least one month.
fn age_years(made: &str, at: UnixSeconds) -> Option<f64> {
    let (month, year) = made.split_once('/')?;
    let (month, year): (f64, f64) = (month.parse().ok()?, year.parse().ok()?);
    let now = 1970.0 + at as f64 / YEAR_S;
    let age = now - (year + (month - 1.0) / 12.0);
    (age > 0.0).then(|| age.max(1.0 / 12.0))
}

fn used_percent(health: &HealthReading) -> Option<f64> {
    health.used_percent().map(f64::from)
}

/// Returns the health readings of a device. Another disk can have had its name before it.
fn readings<'h>(history: &'h History, of: &DeviceFigures) -> Vec<(UnixSeconds, &'h HealthReading)> {
    let all = history.since(UnixSeconds::MIN).into_iter();
    let found = all.flat_map(|row| row.devices.iter().map(move |device| (row.ended, device)));
    let of_device = found.filter(|(_, device)| device.name == of.name && device.model == of.model);
    of_device.filter_map(|(at, device)| Some((at, device.health.as_ref()?))).collect()
}

/// Returns a sentence with the bytes written to a device, the main writer, and the time until the device is
/// worn out.
pub fn wear_sentence(device: &WornDevice) -> String {
    let bytes = |bytes: ByteCount| Unit::Bytes.format(bytes.0 as f64);
    let written = match device.written_per_day {
        Some(per_day) => format!("{} a day are written to {}", bytes(per_day), device.name),
        None => format!("{} were written to {}", bytes(device.written), device.name),
    };
    let who = device
        .parties
        .first()
        .map(|first| format!("; {} writes most of it ({})", first.party, Unit::Share.format(first.share)));
    let when = match (&device.estimate, device.written_per_day) {
        (Some(estimate), _) => years(estimate),
        (None, None) => " Watch at least an hour to estimate when the device will be worn out.".to_owned(),
        (None, Some(_)) => " The time until the device is worn out is unknown.".to_owned(),
    };
    format!("{written}{}.{when}", who.unwrap_or_default())
}

/// Returns a device's health report as phrases.
pub fn health_facts(health: &HealthReading) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(health.used_percent().map(|used| format!("life used: up to {used} %")));
    facts.extend(health.reserved_blocks.as_ref().map(|state| format!("reserved blocks: {state}")));
    let degrees = health.temperature_millicelsius.map(|t| Unit::Millicelsius.format(t as f64));
    facts.extend(degrees.map(|degrees| format!("temperature: {degrees}")));
    facts
}

fn years(estimate: &Estimate) -> String {
    let span = |years: f64| match (years * 12.0).round() {
        months if months < 1.0 => "less than a month".to_owned(),
        1.0 => "1 month".to_owned(),
        months if months < 24.0 => format!("{} months", Unit::Number.format(months)),
        _ => format!("{} years", Unit::Number.format((years * 2.0).round() / 2.0)),
    };
    let least = estimate.years_at_least;
    let when = match estimate.years_at_most {
        _ if least >= YEARS_MAX => format!("in more than {}", span(YEARS_MAX)),
        Some(most) if most >= YEARS_MAX => format!("in {} or later", span(least)),
        Some(most) if span(most) != span(least) => format!("in {} to {}", span(least), span(most)),
        Some(_) => format!("in {}", span(least)),
        None => format!("in {} or later", span(least)),
    };
    let basis = match &estimate.basis {
        Basis::Stated { endurance } => {
            format!("by its stated endurance of {}", Unit::Bytes.format(endurance.0 as f64))
        }
        Basis::Observed { from_percent, to_percent, .. } => {
            format!("because its reported wear rose from {from_percent} to {to_percent} %")
        }
        Basis::Age { used_percent, made } => {
            format!("because it reports up to {used_percent} % of its life used since {made}")
        }
        Basis::Assumed { .. } => {
            "assuming an endurance of 100 to 3000 times its size, because it reports no wear".to_owned()
        }
    };
    format!(" At this rate, the device will be worn out {when}, {basis}.")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fonio_record::observer::{Party, PartyKind};

    use super::*;
    use crate::summary::{FileFigures, PartyFigures, Traffic};

    const DAY: i64 = 86_400;

    fn day(number: i64, used: Option<u32>) -> Summary {
        let party = |name: &str| Party { name: name.into(), kind: PartyKind::Unit };
        let row = |name: &str, gib: u64| PartyFigures {
            party: party(name),
            device: "mmcblk0".into(),
            traffic: Traffic { written_bytes: ByteCount(gib << 30), ..Traffic::default() },
        };
        let file = |target: Target, content: Content, gib: u64| FileFigures {
            target,
            content,
            party: party("influxdb.service"),
            device: "mmcblk0".into(),
            written_bytes: ByteCount(gib << 30),
        };
        Summary {
            began: number * DAY,
            ended: (number + 1) * DAY,
            watched_s: DAY as u64,
            devices: vec![DeviceFigures {
                name: "mmcblk0".into(),
                size: Some(ByteCount(32 << 30)),
                traffic: Traffic { written_bytes: ByteCount(10 << 30), ..Traffic::default() },
                health: used.map(|used| HealthReading {
                    life_used_percent: Some(used),
                    made: Some("01/2021".into()),
                    ..HealthReading::default()
                }),
                ..DeviceFigures::default()
            }],
            parties: vec![row("influxdb.service", 7), row("cron.service", 3)],
            files: vec![
                file(Target::File("/var/lib/influxdb/wal".into()), Content::Data, 6),
                file(Target::Journal, Content::FsJournal, 4),
            ],
            ..Summary::default()
        }
    }

    fn check(days: Vec<Summary>, endurance: &[(&str, u64)], expected: Expect) {
        let history = History { days, ..History::default() };
        let endurance =
            endurance.iter().map(|(name, bytes)| ((*name).to_owned(), ByteCount(*bytes))).collect();
        let answer = wear(&history, 0, &endurance);
        expected.assert_eq(&answer.verdict);
    }

    #[test]
    fn the_verdict_says_who_and_when() {
        let first = 20_454; // 2026-01-01
        check(
            vec![day(first, None)],
            &[],
            expect![
                "10 GiB a day are written to mmcblk0; influxdb.service writes most of it (70 %). At this rate, the device will be worn out in 11 months to 26.5 years, assuming an endurance of 100 to 3000 times its size, because it reports no wear."
            ],
        );
        check(
            vec![day(first, None)],
            &[("mmcblk0", 30_000_000_000_000)],
            expect![
                "10 GiB a day are written to mmcblk0; influxdb.service writes most of it (70 %). At this rate, the device will be worn out in 7.5 years, by its stated endurance of 27.3 TiB."
            ],
        );
        check(
            vec![day(first, Some(30))],
            &[],
            expect![
                "10 GiB a day are written to mmcblk0; influxdb.service writes most of it (70 %). At this rate, the device will be worn out in 11.5 years to 20 years, because it reports up to 30 % of its life used since 01/2021."
            ],
        );
        check(
            vec![day(first, Some(10)), day(first + 100, Some(40))],
            &[],
            expect![
                "10 GiB a day are written to mmcblk0; influxdb.service writes most of it (70 %). At this rate, the device will be worn out in 5 months to 11 months, because its reported wear rose from 10 to 40 %."
            ],
        );
        let mut short = day(first, None);
        short.watched_s = 60;
        check(
            vec![short],
            &[],
            expect![
                "10 GiB were written to mmcblk0; influxdb.service writes most of it (70 %). Watch at least an hour to estimate when the device will be worn out."
            ],
        );
        check(vec![], &[], expect!["Nothing was watched since 1970-01-01 00:00:00."]);
    }

    #[test]
    fn a_later_disk_with_the_name_has_its_own_wear() {
        let with = |number, used, model: &str| {
            let mut day = day(number, Some(used));
            day.devices[0].model = Some(model.into());
            day
        };
        let days = vec![with(20_454, 80, "old"), with(20_554, 10, "new"), with(20_654, 20, "new")];
        let answer = wear(&History { days, ..History::default() }, 0, &BTreeMap::new());
        let told = |model: &str| {
            let device = answer.devices.iter().find(|device| device.model.as_deref() == Some(model)).unwrap();
            (device.estimate.clone().unwrap().basis, device.parties.len(), device.files.len())
        };
        let observed = Basis::Observed { from_percent: 10, to_percent: 20, seconds: 100 * DAY as u64 };
        assert_eq!(told("new"), (observed, 0, 0), "the parties are unknown");
        assert_eq!(told("old"), (Basis::Age { used_percent: 80, made: "01/2021".into() }, 0, 0));
        let notes = answer.notes.iter().filter(|note| note.starts_with("Several disks had the name mmcblk0"));
        assert_eq!(notes.count(), 1);
    }

    #[test]
    fn files_and_the_file_system_have_their_shares() {
        let history = History { days: vec![day(1, None)], ..History::default() };
        let answer = wear(&history, 0, &BTreeMap::new());
        let device = &answer.devices[0];
        let files: Vec<_> = device.files.iter().map(|row| (row.file.as_str(), row.share)).collect();
        assert_eq!(files, [("/var/lib/influxdb/wal", 0.6), ("(file system journal)", 0.4)]);
        assert!((device.file_system_share - 0.4).abs() < 1e-9);
    }
}
