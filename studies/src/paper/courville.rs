//! Reproduces Tables I to III and Figures 2 to 7 of the study by Courville and Chen on an emulated Nexus 5.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Context, Result};
use fonio_analysis::addresses::locality::PlaceCounts;
use fonio_analysis::device::flushes::FlushGaps;
use fonio_analysis::requests::size_latency::SizeLatencyRow;
use fonio_analysis::{Analysis, Group};
use fonio_report::json::Report;

use super::measured::{Kind, Measured};
use super::published::{CourvilleWorkload, Published};
use super::row::{Quantity, Row};
use super::runs::{Named, OfGroup, Runs};
use super::workload::knows;

const DEVICE: &str = "nexus5";

/// The maximum length in milliseconds of workloads that run without `--full`.
const SHORT_MS: f64 = 8_000.0;

const REQUESTS: Quantity = Quantity::new("requests", 0, 1.25, 0.0);
const RATIO: Quantity = Quantity::new("reads to a write", 2, 1.25, 0.05);
const SECONDS: Quantity = Quantity::new("s", 2, 1.25, 0.0);
const PERCENT: Quantity = Quantity::new("% of the time", 1, 1.5, 1.0);
const GAP_REQUESTS: Quantity = Quantity::new("requests", 0, 2.0, 1.0);
const GAP_KB: Quantity = Quantity::new("kB", 0, 2.0, 4.0);
const GAP_SECONDS: Quantity = Quantity::new("s", 3, 2.0, 0.01);

const SIZE_SHARE: Quantity = Quantity::new("%", 1, 1.25, 5.0);
const LATENCY: Quantity = Quantity::new("ms", 2, 1.5, 0.1);
const PLACES: Quantity = Quantity::new("", 0, 1.5, 0.0);

/// Published numbers by workload and request group.
type ByWorkload = BTreeMap<String, BTreeMap<String, f64>>;

const SCATTERED: [&str; 4] = ["angry_birds", "app_removal", "camera", "mp3_streaming"];

/// The study calls a load of less than 9 percent light. We call a load of 15 percent or more heavy. This
/// limit lies between the study's groups.
const LIGHT_BELOW: f64 = 9.0;
const HEAVY_FROM: f64 = 15.0;

const WHY_COUNTS: &str = "the app's calls are not published; ours were chosen to match the counts without \
    readahead and write-back";
const WHY_GAPS: &str = "here each commit makes five or six separate flushes; on the study's phone, other \
    services read and wrote between them, which the workload does not include";
const WHY_SIZES: &str = "the sizes of the app's calls are not published, and this kernel merges requests up to the device's limit";
const WHY_PLACES: &str = "the addresses that an app rewrites are not published";
const WHY_SHARE: &str = "the workload does not include the writes of the phone's other services, and the \
    profile's write times are partly assumed";

/// The reports on the runs of a workload or an app.
struct Ran {
    name: String,
    reports: Vec<Rc<Report>>,
}

impl Ran {
    /// Returns a figure of each run.
    fn figure(&self, kind: Kind, of: impl Fn(&Analysis) -> Option<f64>) -> Measured {
        kind.runs(self.reports.iter().map(|report| of(&report.analysis)))
    }

    /// Returns a figure of each run, marked as known if the author of the workload knew it.
    fn chosen(&self, name: &str, of: impl Fn(&Analysis) -> Option<f64>) -> Result<Measured> {
        Ok(self.figure(Kind::Imitation, of).known(knows(&self.name, name)?))
    }
}

fn each(
    published: &Published,
    runs: &mut Runs,
    mut row: impl FnMut(&CourvilleWorkload, &Ran) -> Result<Vec<Row>>,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for workload in &published.at::<Vec<CourvilleWorkload>>("courville.workload")? {
        if !runs.full() && workload.duration_ms > SHORT_MS {
            continue;
        }
        rows.extend(row(workload, &measured(runs, &workload.name, &[])?)?);
    }
    Ok(rows)
}

/// Runs a workload or an app as often as the study did: five times.
fn measured(runs: &mut Runs, name: &str, more: &[&str]) -> Result<Ran> {
    let repeat = Runs::repeat();
    let words = [&[name, "--on", DEVICE, "--scheduler", "bfq", "--runs", &repeat], more].concat();
    let series = runs.run(&words)?;
    let of_runs = &series.named(DEVICE)?.runs;
    let reports = of_runs.iter().map(|run| runs.report(&run.recording)).collect::<Result<_>>()?;
    Ok(Ran { name: name.to_owned(), reports })
}

pub(super) fn ratios(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    each(published, runs, |workload, ran| {
        let ours = ran.chosen("read_write_ratio", |analysis| {
            let totals = &analysis.totals;
            (totals.writes > 0).then(|| totals.reads as f64 / totals.writes as f64)
        })?;
        Ok(vec![RATIO.row(&workload.name, workload.read_write_ratio, &ours, WHY_COUNTS)])
    })
}

/// Returns the rows of Table II.
pub(super) fn flush_gaps(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    each(published, runs, |workload, ran| {
        let (name, told) = (&workload.name, workload.flush_gap_p90);
        let row =
            |quantity: Quantity, what: &str, published: f64, unit: f64, of: fn(&FlushGaps) -> Option<u64>| {
                let ours = ran.chosen(&format!("flush_gap_p90_{what}"), |analysis| {
                    Some(of(analysis.flushes.gaps.as_ref()?)? as f64 * unit)
                })?;
                Ok::<_, anyhow::Error>(quantity.row(format!("{name}, {what}"), published, &ours, WHY_GAPS))
            };
        Ok(vec![
            row(GAP_REQUESTS, "requests", told.requests, 1.0, |gaps| gaps.requests.p90)?,
            row(GAP_KB, "kb", told.kb, 1e-3, |gaps| gaps.bytes.p90)?,
            row(GAP_SECONDS, "s", told.seconds, 1e-9, |gaps| gaps.time_ns.p90)?,
        ])
    })
}

/// Returns the rows of Table III.
pub(super) fn requests(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    each(published, runs, |workload, ran| {
        let what = |what: &str| format!("{}, {what}", workload.name);
        let reads = ran.chosen("reads", |analysis| Some(analysis.totals.reads as f64))?;
        let writes = ran.chosen("writes", |analysis| Some(analysis.totals.writes as f64))?;
        let told = workload.io_latency_percent;
        Ok(vec![
            REQUESTS.row(what("reads"), workload.reads, &reads, WHY_COUNTS),
            REQUESTS.row(what("writes"), workload.writes, &writes, WHY_COUNTS),
            SECONDS.row(what("duration"), workload.duration_ms / 1e3, &duration_s(ran)?, WHY_COUNTS),
            PERCENT.row(what("latency"), told, &share_percent(ran)?, WHY_SHARE),
        ])
    })
}

/// Returns the run times, marked as known because the workload's pauses were adjusted to the published
/// duration.
fn duration_s(ran: &Ran) -> Result<Measured> {
    ran.chosen("duration_ms", |analysis| Some(analysis.span.duration_ns.as_secs_f64()))
}

/// Returns the sums of latencies divided by the run times, as the study computes them. If the run times are marked
/// as known, the shares are marked too.
fn share_percent(ran: &Ran) -> Result<Measured> {
    let origin = duration_s(ran)?.origin();
    let share = ran.chosen("io_latency_percent", |analysis| {
        Some(analysis.io_share.all.as_ref()?.latency_sum_share * 100.0)
    })?;
    Ok(share.known(origin.is_known()))
}

fn group(percent: f64) -> &'static str {
    match percent {
        percent if percent < LIGHT_BELOW => "light",
        percent if percent < HEAVY_FROM => "moderate",
        _ => "heavy",
    }
}

/// Returns the rows of Figure 7.
pub(super) fn groups(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    each(published, runs, |workload, ran| {
        let ours = share_percent(ran)?;
        let theirs = workload.io_latency_percent;
        let row = Row::same(&workload.name, group(theirs), ours.value().map(group), ours.origin(), WHY_SHARE);
        let shown = ours.value().map_or_else(|| "-".to_owned(), |ours| format!("{ours:.1} %"));
        Ok(vec![row.noted(format!("{shown}, published {theirs:.1} %"))])
    })
}

/// Returns the rows of Figure 2: the shares of requests below a size, and the time within which 80 percent of
/// the requests complete. Statements that more than half of the requests take longer than a given time are
/// compared with the median.
pub(super) fn sizes_and_latencies(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let size_shares: ByWorkload = published.at("courville.size_share")?;
    let latencies: ByWorkload = published.at("courville.latency_p80_ms")?;
    each(published, runs, |workload, ran| {
        let name = &workload.name;
        let mut rows = Vec::new();
        for (key, told) in size_shares.get(name).into_iter().flatten() {
            let what = format!("{name}, {}", key.replace('_', " "));
            rows.push(match key.split_once('_').context("a share's key lacks a size")?.1 {
                size @ ("4k" | "below_16k" | "below_64k") => {
                    let group = group_of(key)?;
                    // The workload sets the sizes of its calls, and the numbers of large and small ones.
                    let share = ran.figure(Kind::Construction, |analysis| {
                        let sizes = analysis.sizes_of(group)?;
                        Some(match size {
                            "4k" => sizes.up_to_4k_share,
                            "below_16k" => sizes.below_16k_share,
                            _ => sizes.below_64k_share,
                        })
                    });
                    SIZE_SHARE.row(what, told * 100.0, &share.times(100.0), WHY_SIZES)
                }
                _ => {
                    let (group, over_ms) = over(key)?;
                    let median = ran.figure(Kind::Imitation, |analysis| {
                        analysis.service_of(group)?.p50.map(|ns| ns as f64 * 1e-6)
                    });
                    Row::within(
                        what,
                        format!("{:.1} % take more than {over_ms} ms", told * 100.0),
                        |ms| format!("half of these requests take more than {ms:.2} ms"),
                        (&median, over_ms..=f64::INFINITY),
                        WHY_SHARE,
                    )
                    .of_numbers(1)
                }
            });
        }
        for (group, told) in latencies.get(name).into_iter().flatten() {
            let group = if group == "all" { Group::All } else { plural(group) };
            let ours = ran.figure(Kind::Imitation, |analysis| {
                analysis.service_of(group)?.p80.map(|ns| ns as f64 * 1e-6)
            });
            rows.push(LATENCY.row(format!("{name}, 80 % of {}", group.name()), *told, &ours, WHY_SHARE));
        }
        Ok(rows)
    })
}

fn plural(group: &str) -> Group {
    if group == "read" { Group::Reads } else { Group::Writes }
}

/// Returns the request group of the report for a key such as `writes_below_16k`.
fn group_of(key: &str) -> Result<Group> {
    [Group::Reads, Group::Writes, Group::All]
        .into_iter()
        .find(|group| key.starts_with(group.name()))
        .with_context(|| format!("{key} does not begin with a group of requests"))
}

/// Returns the group and the number of milliseconds of a key such as `async_writes_over_4ms`.
fn over(key: &str) -> Result<(Group, f64)> {
    let (requests, time) = key.split_once("_over_").with_context(|| format!("cannot parse the key {key}"))?;
    let group = if requests == "async_writes" { Group::WriteAsync } else { group_of(requests)? };
    let ms = time.strip_suffix("ms").and_then(|ms| ms.parse().ok());
    Ok((group, ms.with_context(|| format!("{key} names no milliseconds"))?))
}

/// Returns the rows of Figure 3: larger reads take longer, and the latencies of writes of one size vary
/// widely.
pub(super) fn latency_by_size(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    each(published, runs, |workload, ran| {
        if !SCATTERED.contains(&workload.name.as_str()) {
            return Ok(Vec::new());
        }
        // In the model of the device, a read takes a fixed time and a time for each byte.
        let rising = ran.figure(Kind::Construction, |analysis| {
            let medians = of_group(analysis, Group::Reads);
            let medians: Vec<u64> = medians.iter().filter_map(|row| row.service_ns.p50).collect();
            let pairs = medians.windows(2);
            let rising = pairs.clone().filter(|pair| pair[0] <= pair[1]).count();
            (pairs.len() > 0).then(|| rising as f64 / pairs.len() as f64)
        });
        // The range is measured in the size class with the most requests.
        let range = |group| {
            ran.figure(Kind::Imitation, |analysis| {
                let most = of_group(analysis, group).into_iter().max_by_key(|row| row.service_ns.count)?;
                Some(most.service_ns.max? as f64 / most.service_ns.min as f64)
            })
        };
        Ok(vec![
            Row::within(
                format!("{}, reads", workload.name),
                "nearly linear: larger ones take longer",
                |share| format!("{:.0} % of the steps to the next size class take longer", share * 100.0),
                (&rising, 0.75..=1.0),
                "few reads of a size",
            ),
            Row::within(
                format!("{}, writes", workload.name),
                "writes of one size vary more than reads do",
                |ratio| format!("the longest-to-shortest ratio is {ratio:.1} times that of reads"),
                (&range(Group::Writes).over(&range(Group::Reads)), 1.0..=f64::INFINITY),
                "the model's writes take nearly the same time",
            ),
        ])
    })
}

fn of_group(analysis: &Analysis, group: Group) -> Vec<&SizeLatencyRow> {
    analysis.size_latency.rows.iter().filter(|row| row.group == group).collect()
}

/// Returns the rows of Figure 4: device addresses over time. The text of the study describes two of its
/// drawings.
pub(super) fn places_over_time(_: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    // The workloads set these: one video is read again and again in calls of 128 KiB, and most of the camera's
    // writes are those of small transactions.
    let set = Kind::Construction;
    let playback = measured(runs, "video_playback", &[])?;
    let in_one_row = playback.figure(set, |analysis| {
        let map = analysis.spatial.devices.first()?;
        let columns = usize::try_from(map.columns).ok().filter(|columns| *columns > 0)?;
        let rows: Vec<u64> = map.read_bytes.chunks(columns).map(|row| row.iter().sum()).collect();
        let all = rows.iter().sum::<u64>();
        (all > 0).then(|| rows.iter().max().map_or(0.0, |most| *most as f64 / all as f64))
    });
    let median = |ran: &Ran, group: Group| {
        ran.figure(set, |analysis| Some(analysis.sizes_of(group)?.bytes.p50? as f64))
    };
    let large = median(&playback, Group::Reads);
    let small = median(&measured(runs, "camera", &[])?, Group::Writes);
    Ok(vec![
        Row::within(
            "video_playback, reads",
            "a band at one address",
            |share| format!("{:.0} % of the bytes in one row of the map", share * 100.0),
            (&in_one_row, 0.5..=1.0),
            "the video lies across several rows of the map",
        ),
        Quantity::new("kB", 0, 1.25, 0.0)
            .row(
                "video_playback, a read",
                131.072,
                &large.times(1e-3),
                "here, readahead requests have other sizes",
            )
            .of_numbers(0),
        Row::within(
            "camera, writes",
            "in small chunks",
            |kib| format!("half of the writes have at most {kib:.0} KiB"),
            (&small.times(1.0 / 1024.0), 0.0..=16.0),
            "this kernel merges more",
        ),
    ])
}

/// Returns the rows of Figure 5: one limit for all workloads. The numbers that are also in Table II are
/// with Table II.
pub(super) fn requests_between_flushes(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let tables: Vec<CourvilleWorkload> = published.at("courville.workload")?;
    let most = tables.iter().map(|workload| workload.flush_gap_p90.requests).fold(0.0, f64::max);
    each(published, runs, |workload, ran| {
        let p90 = ran.chosen("flush_gap_p90_requests", |analysis| {
            Some(analysis.flushes.gaps.as_ref()?.requests.p90? as f64)
        })?;
        Ok(vec![Row::within(
            &workload.name,
            format!("at most {most:.0} requests between flushes in 90 % of cases"),
            |requests| format!("{requests:.0}"),
            (&p90, 0.0..=most),
            WHY_GAPS,
        )])
    })
}

/// Returns the rows of Figure 6 and section IV.C about blocks of 4 KiB that are written or read again. Those about writes
/// follow from the workload's numbers of files and transactions: each transaction writes the same few blocks again. Whether
/// reads are repeated is seen on real programs, with all memory and with little.
pub(super) fn rewritten_places(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let told = |figure: &str| published.number(&format!("courville.locality.{figure}"));
    let row = |ran: &Ran, what: &str, told: f64, of: fn(&PlaceCounts) -> Option<f64>| {
        let ours = ran.figure(Kind::Construction, |analysis| of(&analysis.locality.written));
        PLACES.row(format!("{}, {what}", ran.name), told, &ours, WHY_PLACES)
    };
    let burst = measured(runs, "burst_mode_camera", &[])?;
    let camera = measured(runs, "camera", &[])?;
    let dropbox = measured(runs, "dropbox_sync", &[])?;
    let top =
        burst.figure(Kind::Construction, |analysis| analysis.locality.written.top_10_share).times(100.0);
    let mut rows = vec![
        row(&burst, "places", told("burst_mode_camera.unique_blocks")?, |written| {
            Some(written.places as f64)
        }),
        row(&burst, "places that cover 99 %", told("burst_covering_blocks")?, |written| {
            (written.touches > 0).then_some(written.covering_99 as f64)
        }),
        SIZE_SHARE.row(
            "burst_mode_camera, the ten most rewritten blocks",
            told("burst_mode_camera.top_10_share")? * 100.0,
            &top,
            WHY_PLACES,
        ),
        row(&camera, "places", told("camera.unique_blocks")?, |written| Some(written.places as f64)),
        row(&camera, "writes of the most rewritten block", told("camera.most_written_block")?, |written| {
            Some(written.most as f64)
        }),
        row(&dropbox, "places written again", told("dropbox_rewritten_blocks")?, |written| {
            Some(written.again_places as f64)
        }),
    ];
    for app in READING {
        let again = read_again(&measured(runs, app, &[])?);
        rows.push(
            Row::within(
                format!("{app}, reads"),
                "each block is read once",
                |share| format!("{:.1} % of the reads of blocks are repeated", share * 100.0),
                (&again, 0.0..=READ_AGAIN_MAX),
                "the program reads files again that the page cache has dropped",
            )
            .of_numbers(0),
        );
    }
    let (app, memory) = IN_LITTLE_MEMORY;
    let again = read_again(&measured(runs, app, &["--memory", memory])?);
    let shown = again.value().map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0));
    rows.push(Row::ours_alone(
        Kind::RealProgram,
        format!("{app}, reads with {memory} of memory"),
        format!("{shown} of the reads of blocks are repeated"),
        "the study only says that its phone's memory held everything",
    ));
    Ok(rows)
}

/// Returns the share of the reads of blocks whose block was read before, of each run of an app.
fn read_again(ran: &Ran) -> Measured {
    ran.figure(Kind::RealProgram, |analysis| analysis.locality.read.again_share)
}

/// Real programs that read much, in place of the study's apps.
const READING: [&str; 4] = ["app:chromium:cold", "app:map:cold", "app:thumbnails", "app:git:long"];
/// The largest share of repeated reads that we call "read once".
const READ_AGAIN_MAX: f64 = 0.01;
/// A program that works with more data than this much memory holds.
const IN_LITTLE_MEMORY: (&str, &str) = ("app:git:long", "16MiB");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_the_studys() {
        for (percent, name) in [(8.16, "light"), (9.0, "moderate"), (13.38, "moderate"), (16.79, "heavy")] {
            assert_eq!(group(percent), name);
        }
    }

    #[test]
    fn every_share_of_the_study_is_understood() {
        let shares: ByWorkload = Published::read().unwrap().at("courville.size_share").unwrap();
        for key in shares.values().flat_map(|shares| shares.keys()) {
            assert!(group_of(key).is_ok() || over(key).is_ok(), "{key}");
        }
        assert_eq!(over("async_writes_over_4ms").unwrap(), (Group::WriteAsync, 4.0));
        assert!(over("writes_below_16k").is_err());
    }
}
