//! Sections on addresses: I/O over time, sequential or random I/O, and rewritten data.

use fonio_analysis::addresses::sequentiality::SequentialShare;
use fonio_core::units::SECTOR_BYTES;

use super::{About, by_class};
use crate::document::{Axis, Cell, Chart, Plot, Role, Section, Series, Table};
use fonio_core::{ByteCount, Sector, Unit};

/// Maximum number of devices that get their own chart.
const DEVICES: u32 = 3;

pub fn section(about: &About<'_>) -> Option<Section> {
    let sequentiality = &about.analysis.sequentiality;
    let (read, write) = (&sequentiality.read, &sequentiality.write);
    let requests = |share: &SequentialShare| share.sequential_requests + share.random_requests;
    if requests(read) + requests(write) == 0 {
        return None;
    }
    let parts: Vec<String> = [("read", read), ("written", write)]
        .iter()
        .filter_map(|(what, share)| {
            let sequential = share.sequential_bytes_share?;
            Some(format!("{} of the bytes {what} are sequential", Unit::Share.format(sequential)))
        })
        .collect();
    let mut figures = Vec::new();
    for device in 0..DEVICES {
        figures.extend(addresses(about, device).into_iter().flatten());
    }
    figures.extend(cumulative(about));
    let table = Table::of("Sequential and random", [("reads", read), ("writes", write)])
        .column("", "", |(name, _)| Cell::words(*name))
        .column("Sequential", "", |(_, share)| Cell::count(share.sequential_requests, Unit::Count))
        .column("Random", "", |(_, share)| Cell::count(share.random_requests, Unit::Count))
        .column("Sequential bytes", "", |(_, share)| share.sequential_bytes)
        .column("Random bytes", "", |(_, share)| share.random_bytes)
        .column("Sequential, of bytes", "Share of the bytes that are sequential.", |(_, share)| {
            share.sequential_bytes_share.map_or(Cell::Unknown, Cell::Bar)
        })
        .table;
    Some(Section {
        id: "place".into(),
        question: "Which addresses are accessed, and in what order?".into(),
        answer: if parts.is_empty() { String::new() } else { format!("{}.", super::listed(&parts)) },
        figures,
        tables: vec![table],
        hints: Vec::new(),
        notes: vec![match sequentiality.window {
            1 => "Sequential: starts where the last request of the same op on the same device ended."
                .to_owned(),
            window => format!(
                "Sequential: starts where one of the last {window} requests of the same op on the same device ended."
            ),
        }],
    })
}

/// Returns two charts of a device's sampled requests by time and address: one shows the kind of each request,
/// the other its duration.
fn addresses(about: &About<'_>, device: u32) -> Option<[Chart; 2]> {
    let sample: Vec<_> = about
        .analysis
        .points
        .sample
        .iter()
        .filter(|point| point.device == device && point.bytes > ByteCount(0))
        .cloned()
        .collect();
    let address = |sector: Sector| sector.0 as f64 * SECTOR_BYTES as f64;
    let series = by_class(&sample, |point| point.sector.map(address));
    if series.is_empty() {
        return None;
    }
    let name = about.device(device);
    let figure =
        |id: &str, title: String, caption: String, plot: Plot, z: Option<Axis>, series: Vec<Series>| Chart {
            id: format!("{id}-{device}"),
            title,
            caption,
            plot,
            x: Axis::time(about.length_s()),
            y: Axis::linear("Address", Unit::Bytes),
            z,
            series,
            marks: Vec::new(),
        };
    let mut heat = Series { name: "service time".into(), ..Series::default() };
    for point in &sample {
        if let (Some(sector), Some(service)) = (point.sector, point.service_ns) {
            heat.x.push(point.at_ns.as_secs_f64());
            heat.y.push(address(sector));
            heat.z.push(service.0 as f64);
        }
    }
    Some([
        figure(
            "address",
            format!("Accesses by address on {name}"),
            about.sample_note(),
            Plot::Scatter,
            None,
            series,
        ),
        figure(
            "address-heat",
            format!("Service time by address on {name}"),
            "Coloured by the time from issue to completion.".to_owned(),
            Plot::HeatScatter,
            Some(Axis::log("Service", Unit::Ns)),
            vec![heat],
        ),
    ])
}

fn cumulative(about: &About<'_>) -> Option<Chart> {
    let curves = &about.analysis.sequentiality.cumulative;
    let all = [
        ("sequential reads", Role::Read, &curves.sequential_read_bytes),
        ("random reads", Role::Readahead, &curves.random_read_bytes),
        ("sequential writes", Role::Write, &curves.sequential_write_bytes),
        ("random writes", Role::WriteAsync, &curves.random_write_bytes),
    ];
    let series: Vec<Series> = all
        .into_iter()
        .filter(|(_, _, bytes)| bytes.last().is_some_and(|last| *last > 0))
        .map(|(name, role, bytes)| Series {
            name: name.into(),
            role,
            // Each cumulative value is valid at the end of its bin.
            x: (1..=bytes.len())
                .map(|at| curves.start_ns.as_secs_f64() + at as f64 * curves.bin_ns.as_secs_f64())
                .collect(),
            y: bytes.iter().map(|bytes| *bytes as f64).collect(),
            ..Series::default()
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    Some(Chart {
        id: "cumulative".into(),
        title: "Bytes so far".into(),
        plot: Plot::Step,
        x: Axis::time(about.length_s()),
        y: Axis::linear("Since the beginning", Unit::Bytes),
        series,
        ..Chart::default()
    })
}

/// Returns the section on repeated writes to the same sectors of the device.
pub fn again(about: &About<'_>) -> Option<Section> {
    let locality = &about.analysis.locality;
    if locality.written.touches == 0 && locality.read.touches == 0 {
        return None;
    }
    let answer = match locality.written.again_share {
        Some(share) => {
            let mut answer = format!(
                "{} of the writes to 4 KiB pages rewrite a page that was written before",
                Unit::Share.format(share)
            );
            if let Some(top) = locality.written.top_10_share {
                answer +=
                    &format!("; the ten most written pages take {} of the writes", Unit::Share.format(top));
            }
            answer + "."
        }
        None => "Nothing was written.".to_owned(),
    };
    let count = |value: u64| Cell::count(value, Unit::Count);
    let mut tables = vec![
        Table::of("Pages of 4 KiB", [("writes", &locality.written), ("reads", &locality.read)])
            .column("", "", |(name, _)| Cell::words(*name))
            .column("Touches", "A request counts once for each page that it covers.", |(_, counts)| {
                count(counts.touches)
            })
            .column("Places", "Distinct places.", |(_, counts)| count(counts.places))
            .column("More than once", "Pages accessed more than once.", |(_, counts)| {
                count(counts.again_places)
            })
            .or_drop()
            .column("Again", "Share of the accesses that go to a page accessed before.", |(_, counts)| {
                counts.again_share.map_or(Cell::Unknown, Cell::Bar)
            })
            .column(
                "Top ten",
                "Share of the accesses that go to the ten most accessed pages.",
                |(_, counts)| Cell::known(counts.top_10_share, Unit::Share),
            )
            .column("Most", "Accesses to the most accessed page.", |(_, counts)| count(counts.most))
            .or_drop()
            .column("Half", "Smallest number of pages that take half of the accesses.", |(_, counts)| {
                count(counts.covering_50)
            })
            .column("90 %", "Smallest number of pages that take 90 % of the accesses.", |(_, counts)| {
                count(counts.covering_90)
            })
            .or_drop()
            .table,
    ];
    let places = &locality.most_written;
    if !places.is_empty() {
        let table = Table::of("Most written places", places.iter().take(100))
            .column("Device", "", |place| Cell::Name(about.device(place.device)))
            .column("Sector", "In units of 512 bytes.", |place| count(place.sector.0))
            .column("Writes", "", |place| count(place.writes))
            .table;
        let left_out = places.len().saturating_sub(100) as u64;
        tables.push(Table { left_out, detail: true, ..table });
    }
    let ranks = (places.len() > 1).then(|| Chart {
        id: "rank".into(),
        title: "Writes to the most written pages, by rank".into(),
        caption: "A steep fall means that few pages take most of the writes.".into(),
        plot: Plot::Line,
        x: Axis::log("Rank", Unit::Count),
        y: Axis::log("Writes", Unit::Count),
        series: vec![Series {
            name: "writes".into(),
            role: Role::Write,
            x: (1..=places.len()).map(|rank| rank as f64).collect(),
            y: places.iter().map(|place| place.writes as f64).collect(),
            ..Series::default()
        }],
        ..Chart::default()
    });
    let mut notes = Vec::new();
    if locality.sampled_share < 1.0 {
        notes.push(format!(
            "Only {} of the address space was counted. Numbers of pages are scaled up; the ranking covers the counted \
             part only.",
            Unit::Share.format(locality.sampled_share)
        ));
    }
    Some(Section {
        id: "again".into(),
        question: "Are the same pages rewritten?".into(),
        answer,
        figures: ranks.into_iter().collect(),
        tables,
        notes,
        hints: Vec::new(),
    })
}
