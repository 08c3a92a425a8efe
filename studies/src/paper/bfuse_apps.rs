//! Reproduces Figure 4 of Jeong and Won 2014: the I/O of a camcorder and a gallery on the user partition of a
//! Galaxy S3. In the study, the apps' databases are on another partition. Here, the databases are in memory,
//! because the device contains only the user partition.

use anyhow::Result;
use fonio_analysis::{Analysis, Group};

use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{Named, OfGroup, OfRuns, Runs, Split};
use super::workload::knows;

const PROFILE: &str = "galaxy_s3_emmc";
const DB_IN_RAM: &str = "db-in-ram";
const LARGE: u64 = 256 * 1024;

const SHARE: Quantity = Quantity::new("%", 0, 1.25, 5.0);
const WHY_SIZES: &str = "this kernel merges up to the device's limit of 512 KiB";
const WHY_RANDOM: &str = "reads of the app's many small files are included";
const WHY_SYNC: &str = "here, ext4's journal counts as synchronous and the video as buffered; the study \
    does not define this";
const WHY_DATA: &str = "of the requests; ext4 commits its journal every 5 s with small requests, and the \
    study does not name its file system";

/// What runs on the user partition.
struct App {
    name: &'static str,
    kind: Kind,
    /// Whether it writes pictures or videos, as opposed to reading them.
    writes: bool,
    /// The published share of data among its writes, by name.
    data: Option<&'static str>,
}

/// The study's apps, and a real program that records a video.
const APPS: [App; 4] = [
    App { name: "camcorder", kind: Kind::Imitation, writes: true, data: Some("camcorder") },
    App { name: "camera", kind: Kind::Imitation, writes: true, data: Some("camera") },
    App { name: "app:ffmpeg", kind: Kind::RealProgram, writes: true, data: Some("camcorder") },
    App { name: "gallery", kind: Kind::Imitation, writes: false, data: None },
];

pub(super) fn rows(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let told = |figure: &str| published.number(&format!("bfuse.user_partition_io.{figure}"));
    let mut rows = Vec::new();
    let mut compared: Vec<&str> = Vec::new();
    for App { name, kind, writes, data } in APPS {
        let analysis = measured(runs, name)?;
        let is_real = kind == Kind::RealProgram;
        let what = |what: &str| format!("{name}, {what}");
        let knows = |figure: &str| if is_real { Ok(false) } else { knows(name, figure) };
        // The study gives its bounds once, for all apps.
        let numbers = u32::from(rows.is_empty());
        let above = |of: &str, percent: f64, ours: Measured, why: &str| {
            let shown = |share: f64| format!("{share:.1} %");
            Row::within(what(of), format!("more than {percent} %"), shown, (&ours, percent..=100.0), why)
                .of_numbers(numbers)
        };
        if writes {
            let large = kind.once(percent_above(&analysis, LARGE));
            let published = told("camera_writes_over_256k_percent")?;
            rows.push(
                SHARE.row(what("writes above 256 KiB"), published, &large, WHY_SIZES).of_numbers(numbers),
            );
        }
        // The workloads write a video in order, and read complete pictures; no call bypasses the page cache. Only
        // the journal of those that write makes synchronous requests.
        let by_workload = if is_real { kind } else { Kind::Construction };
        let sequential = by_workload.once(sequential(&analysis));
        rows.push(above("sequential bytes", told("sequential_percent_above")?, sequential, WHY_RANDOM));
        let kind_of_buffered = if writes { kind } else { Kind::Construction };
        let buffered = kind_of_buffered.once(buffered(&analysis)).known(knows("buffered_percent_above")?);
        rows.push(above("buffered requests", told("buffered_percent_above")?, buffered, WHY_SYNC));
        if let Some(data) = data {
            let published = told(&format!("data_write_percent.{data}"))?;
            let ours = kind.once(data_writes(&analysis)).known(knows("data_write_percent")?);
            let is_new = !compared.contains(&data);
            compared.push(data);
            rows.push(
                SHARE.row(what("writes of data"), published, &ours, WHY_DATA).of_numbers(is_new.into()),
            );
        }
    }
    Ok(rows)
}

fn measured(runs: &mut Runs, name: &str) -> Result<Analysis> {
    let app = [name, "--on", PROFILE, "--runs", "1", "--write-back"];
    let (series, variation) = if name.starts_with("app:") {
        (runs.run(&app)?, PROFILE.to_owned())
    } else {
        (runs.run(&[&app[..], &["--fix", DB_IN_RAM]].concat())?, format!("{PROFILE}, {DB_IN_RAM}"))
    };
    let recording = series.named(&variation)?.first()?.recording.clone();
    Ok(runs.report(&recording)?.analysis.clone())
}

fn percent_above(analysis: &Analysis, bytes: u64) -> Option<f64> {
    let row = &analysis.sizes_of(Group::Writes)?.bytes;
    let curve = row.cdf.as_ref()?;
    let at = curve.up_to.partition_point(|value| *value <= bytes);
    let up_to = if at == 0 { 0.0 } else { curve.cumulative[at - 1] as f64 / row.count as f64 };
    Some((1.0 - up_to) * 100.0)
}

fn sequential(analysis: &Analysis) -> Option<f64> {
    let sides = [&analysis.sequentiality.read, &analysis.sequentiality.write];
    let sequential: u64 = sides.iter().map(|side| side.sequential_bytes.0).sum();
    percent(sequential, sides.iter().map(|side| side.bytes()).sum())
}

/// Reads and asynchronous writes.
fn buffered(analysis: &Analysis) -> Option<f64> {
    let count = |group| analysis.sizes_of(group).map_or(0, |row| row.bytes.count);
    percent(count(Group::Reads) + count(Group::WriteAsync), count(Group::Reads) + count(Group::Writes))
}

/// Returns the share of data among the requests of a write-only workload. Kinds of data that are only read
/// are left out, because they are read only when the file system is mounted.
fn data_writes(analysis: &Analysis) -> Option<f64> {
    let written = analysis.files.as_ref()?.contents.iter().filter(|kind| kind.write_bytes.0 > 0);
    let (all, data) = written.fold((0, 0), |(all, data), kind| {
        (all + kind.requests, data + if kind.content == "data" { kind.requests } else { 0 })
    });
    percent(data, all)
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64 * 100.0)
}
