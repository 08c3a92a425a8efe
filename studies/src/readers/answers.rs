//! Compares the readers with the answers of other programs: Perfetto's `trace_processor`, and biosnoop.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fonio_core::meta::LATE_FRAME;
use fonio_core::{BlockEvent, CollectedRows, DeviceId, EventKind, IoWait, Mark, Op, Request, Sector};
use xtask::results::{Cell, StudyResult};

use super::rows::{events_of, of_recording, of_trace};

pub const ID: &str = "readers-answers";
const TITLE: &str = "answers of fonio's readers, compared with those of other programs";
const COLUMNS: [&str; 5] = ["trace", "figure", "by the other program", "by fonio", "equal"];
const SYNTHETIC: &str = "synthetic-android-startup.pftrace";
const GUEST: &str = "guest-6.12/guest-f2fs.pftrace";
/// The app of the synthetic trace, and its main thread.
const APP: &str = "com.example.app";
const APP_TID: u32 = 3000;
/// Maximum difference of the mean latencies of biosnoop and fonio. biosnoop stamps the events itself, which takes some µs, and
/// tens of µs in a guest without hardware virtualization.
const BIOSNOOP_SHARE_MAX: f64 = 0.05;

/// Compares the answers. `samples` has traces and the answers of `trace_processor`, which are too large for the repository, and
/// `live` has the traces of a load on this machine.
pub fn run(samples: &Path, live: Option<&Path>, command: &str) -> Result<()> {
    let mut result = StudyResult::begin(ID, TITLE, command, &COLUMNS)?;
    if samples.is_dir() {
        perfetto(samples, &mut result)?;
        let folder = samples.join("guest-6.12");
        let (text, recording) = (folder.join("biosnoop-libbpf.txt"), folder.join("rec-biosnoop-libbpf"));
        biosnoop("biosnoop of libbpf-tools, in a guest", &text, &recording, &mut result)?;
    } else {
        println!(
            "skipped: the samples with the answers of trace_processor ({} does not exist)",
            samples.display()
        );
    }
    if let Some(live) = live {
        let text = live.join("biosnoop.txt");
        let has_lines = fs::read_to_string(&text).is_ok_and(|text| text.lines().count() > 1);
        if has_lines {
            biosnoop("biosnoop of libbpf-tools, on this machine", &text, &live.join("fonio"), &mut result)?;
        } else {
            let why = fs::read_to_string(live.join("biosnoop.log")).unwrap_or_default();
            let why = why.lines().last().unwrap_or("it printed nothing").to_owned();
            println!("skipped: biosnoop does not run on this kernel ({why})");
        }
    }
    ensure!(!result.rows.is_empty(), "nothing could be compared");
    result.remark = "The answers of trace_processor are those of version 58.2.".to_owned();
    result.keep(samples.is_dir())?;
    Ok(())
}

fn add(result: &mut StudyResult, trace: &str, figure: &str, theirs: &str, ours: &str) {
    let equal = if theirs == ours { "yes" } else { "**no**" };
    let cells = [figure, theirs, ours, equal].map(Cell::from);
    result.row(trace, cells.to_vec());
}

/// Returns the rows of a table of answers, as cells without quotes.
fn table(samples: &Path, trace: &str, name: &str) -> Result<Vec<Vec<String>>> {
    let path = samples.join(format!("expected/{}.{name}.csv", trace.replace('/', "_")));
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows = text.lines().skip(1).filter(|line| !line.is_empty());
    Ok(rows.map(|line| line.split(',').map(|cell| cell.trim_matches('"').to_owned()).collect()).collect())
}

fn perfetto(samples: &Path, result: &mut StudyResult) -> Result<()> {
    let pairs = pairs(&events_of(&samples.join(GUEST))?);
    for row in table(samples, GUEST, "pairs")? {
        let [major, minor, count, mean, _, _, max, bytes] = &row[..] else { continue };
        let device = DeviceId::new(major.parse()?, minor.parse()?);
        let shown = |count: u64, bytes: u64, mean: f64, max: f64| {
            format!("{count}; {bytes}; {mean:.1} µs; {max:.1} µs")
        };
        let theirs = shown(count.parse()?, bytes.parse()?, mean.parse()?, max.parse()?);
        let found = pairs.get(&device).copied().unwrap_or_default();
        let mean = found.sum_ns as f64 / found.count.max(1) as f64 / 1e3;
        let ours = shown(found.count, found.bytes, mean, found.longest_ns as f64 / 1e3);
        let figure = format!("{device}: requests; bytes; mean; longest");
        add(result, "Perfetto, in a guest", &figure, &theirs, &ours);
    }
    let (rows, _) = of_trace(&samples.join(SYNTHETIC))?;
    let trace = "Perfetto, synthetic launch";
    let startup = table(samples, SYNTHETIC, "startup")?;
    let launch = startup.first().context("there is a launch")?;
    let name = format!("launchingActivity#{}", launch[0]);
    let mark = rows.marks.iter().find(|mark| mark.name == name).context("fonio found no launch")?;
    add(result, trace, "launch", &micros(launch[4].parse()?), &micros(length(mark)));
    let io = startup.iter().find(|row| row[0] == "io").context("the time of I/O is answered")?;
    let ours = waits(&rows, IoWait::Yes, Some(mark));
    add(result, trace, "I/O in the launch", &micros(io[1].parse()?), &micros(ours));
    for row in table(samples, SYNTHETIC, "dstate")? {
        let (account, figure) = match row[3].as_str() {
            "1" => (IoWait::Yes, "state D, counted as I/O"),
            "0" => (IoWait::No, "state D, not counted as I/O"),
            _ => continue,
        };
        let theirs = row[6].parse::<u64>()? * 1000;
        add(result, trace, figure, &micros(theirs), &micros(waits(&rows, account, None)));
    }
    let frame = startup.iter().find(|row| row.last().is_some_and(|name| name == APP));
    let frame = frame.context("the app has a late frame")?;
    let mark = rows.marks.iter().find(|mark| mark.name == format!("{LATE_FRAME}{}", frame[2]));
    let ours = mark.map_or_else(|| "none".to_owned(), |mark| micros(length(mark)));
    add(result, trace, "late frame", &micros(frame[1].parse()?), &ours);
    Ok(())
}

/// The pairs of issue and completion of a device.
#[derive(Clone, Copy, Debug, Default)]
struct Pairs {
    count: u64,
    bytes: u64,
    sum_ns: u64,
    longest_ns: u64,
}

/// Pairs events by the rule of the SQL (`pairs.sql`): the next event of the same device and sector is the completion. This rule
/// finds fewer requests than fonio's own, because flushes without data have no sector.
fn pairs(events: &[BlockEvent]) -> BTreeMap<DeviceId, Pairs> {
    let mut last: BTreeMap<(DeviceId, Sector), &BlockEvent> = BTreeMap::new();
    let mut pairs: BTreeMap<DeviceId, Pairs> = BTreeMap::new();
    for event in events.iter().filter(|event| matches!(event.kind, EventKind::Issue | EventKind::Complete)) {
        if let Some(before) = last.insert((event.device, event.sector), event)
            && (before.kind, event.kind) == (EventKind::Issue, EventKind::Complete)
        {
            let pair = pairs.entry(event.device).or_default();
            let time = event.time.0 - before.time.0;
            pair.count += 1;
            pair.bytes += before.bytes.0;
            pair.sum_ns += time;
            pair.longest_ns = pair.longest_ns.max(time);
        }
    }
    pairs
}

fn micros(ns: u64) -> String {
    format!("{} µs", ns / 1000)
}

fn length(mark: &Mark) -> u64 {
    mark.until.map_or(0, |until| until.0 - mark.at.0)
}

/// Returns the time of the app's main thread in state D of this kind, within a mark if one is given.
fn waits(rows: &CollectedRows, account: IoWait, within: Option<&Mark>) -> u64 {
    let waits = rows.waits.iter().filter(|wait| wait.tid == APP_TID && wait.io_wait == Some(account));
    let time = |wait: &fonio_core::Wait| {
        let (mut began, mut ended) = (wait.began.0, wait.ended.unwrap_or(wait.began).0);
        if let Some(mark) = within {
            began = began.max(mark.at.0);
            ended = ended.min(mark.until.unwrap_or(mark.at).0);
        }
        ended.saturating_sub(began)
    };
    waits.map(time).sum()
}

/// Finds for each request of biosnoop the one of fonio with the same place and size, in the order of time.
fn biosnoop(trace: &str, text: &Path, recording: &Path, result: &mut StudyResult) -> Result<()> {
    let (theirs, _) = of_trace(text)?;
    let (ours, meta) = of_recording(recording)?;
    // biosnoop names devices, and its numbers of devices are not those of the machine. So compare one loop device.
    let loops: Vec<DeviceId> =
        meta.devices.iter().map(|device| device.id).filter(|id| id.major() == 7).collect();
    let [device] = loops[..] else { anyhow::bail!("{} loop devices were recorded", loops.len()) };
    let mut known: BTreeMap<(u64, u64), Vec<&Request>> = BTreeMap::new();
    let with_data = |row: &&Request| matches!(row.op, Op::Read | Op::Write) && row.bytes.0 > 0;
    for row in ours.requests.iter().filter(|row| row.device == device).filter(with_data) {
        known.entry((row.sector.unwrap_or_default().0, row.bytes.0)).or_default().push(row);
    }
    known.values_mut().for_each(|all| all.sort_by_key(|row| std::cmp::Reverse(row.issued)));
    let names: Vec<DeviceId> = theirs_of_loops(&theirs, &known);
    let mut requests: Vec<&Request> =
        theirs.requests.iter().filter(|row| names.contains(&row.device)).filter(with_data).collect();
    requests.sort_by_key(|row| row.issued);
    let (mut found, mut theirs_ns, mut ours_ns) = (0, 0, 0);
    for row in &requests {
        let key = (row.sector.unwrap_or_default().0, row.bytes.0);
        let Some(other) = known.get_mut(&key).and_then(Vec::pop) else { continue };
        if let (Some(theirs), Some(ours)) = (row.service(), other.service()) {
            found += 1;
            theirs_ns += theirs.0;
            ours_ns += ours.0;
        }
    }
    let count = requests.len();
    add(result, trace, "requests with the same place and size", &count.to_string(), &found.to_string());
    let mean = |ns: u64| ns as f64 / f64::from(found.max(1)) / 1e3;
    let (theirs, ours) = (mean(theirs_ns), mean(ours_ns));
    let share = (theirs - ours).abs() / theirs.max(1.0);
    let equal = if share <= BIOSNOOP_SHARE_MAX { "to" } else { "**no**, to" };
    let cells = [
        "their mean latency".to_owned(),
        format!("{theirs:.1} µs"),
        format!("{ours:.1} µs"),
        format!("{equal} {:.1} %", share * 100.0),
    ];
    result.row(trace, cells.map(Cell::from).to_vec());
    Ok(())
}

/// Returns the device of biosnoop that has most of the known requests.
fn theirs_of_loops(theirs: &CollectedRows, known: &BTreeMap<(u64, u64), Vec<&Request>>) -> Vec<DeviceId> {
    let mut counts: BTreeMap<DeviceId, usize> = BTreeMap::new();
    for row in &theirs.requests {
        let key = (row.sector.unwrap_or_default().0, row.bytes.0);
        *counts.entry(row.device).or_default() += usize::from(known.contains_key(&key));
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(device, _)| device).into_iter().collect()
}
