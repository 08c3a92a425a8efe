//! Section on the machine: what the rest of the machine did.

use fonio_analysis::machine::MetricSeries;

use super::{About, bin_times, maybe};
use crate::document::{Axis, Cell, Chart, Column, Fact, Plot, Role, Section, Series, Table};
use fonio_core::Unit;

pub fn section(about: &About<'_>) -> Option<Section> {
    let machine = &about.analysis.machine;
    if machine.samples == 0 {
        return None;
    }
    let mut parts = Vec::new();
    let share = |share: f64| Unit::Share.format(share);
    if let Some(cpu) = &machine.cpu {
        let busiest = cpu
            .busiest_share
            .map_or_else(String::new, |busiest| format!(" (the busiest one at a time: {})", share(busiest)));
        parts.extend(
            cpu.active_share
                .map(|active| format!("processors were active {} of the time{busiest}", share(active))),
        );
        parts.extend(
            cpu.iowait_share
                .map(|iowait| format!("idle with I/O outstanding {} (iowait, all devices)", share(iowait))),
        );
    }
    if let Some(memory) = &machine.memory {
        parts.extend(
            memory
                .available_min_share
                .map(|least| format!("at least {} of memory was available", share(least))),
        );
    }
    let answer = if parts.is_empty() {
        format!("{} samples were taken.", Unit::Count.format(machine.samples as f64))
    } else {
        format!("{}.", super::sentence_case(&super::listed(&parts)))
    };
    Some(Section {
        id: "machine".into(),
        question: "What did the rest of the machine do?".into(),
        answer,
        figures: figures(about),
        tables: vec![table(about)],
        ..Section::default()
    })
}

/// Returns a table of metrics of different kinds.
fn table(about: &About<'_>) -> Table {
    let machine = &about.analysis.machine;
    let mut facts: Vec<Fact> = Vec::new();
    let mut fact = |label: &str, value: Cell, note: &str| {
        if value != Cell::Unknown {
            facts.push(Fact::new(label, value).note(note));
        }
    };
    let share = |value: Option<f64>| Cell::known(value, Unit::Share);
    if let Some(cpu) = &machine.cpu {
        fact("Processors active", share(cpu.active_share), "of all processor time");
        fact("Processors in iowait (all devices)", share(cpu.iowait_share), "of all processor time");
        fact(
            "Busiest processor active",
            share(cpu.busiest_share),
            "of the time; the busiest of each interval between samples",
        );
        fact("Iowait, of busy and iowait time", share(cpu.iowait_of_not_idle_share), "");
    }
    if let Some(memory) = &machine.memory {
        fact("Memory", memory.total_bytes.into(), "installed");
        fact("Least memory available", memory.available_min_bytes.into(), "");
        fact("Most dirty page cache", memory.dirty_max_bytes.into(), "written later");
        fact("Most under write-back", memory.writeback_max_bytes.into(), "");
        fact("Pages swapped in", maybe(memory.swap_in_pages, Unit::Count), "");
        fact("Pages swapped out", maybe(memory.swap_out_pages, Unit::Count), "");
        fact(
            "Major faults",
            maybe(memory.major_faults, Unit::Count),
            "pages read because a program touched them",
        );
    }
    for pressure in &machine.pressure {
        let name = pressure.resource.as_str();
        fact(&format!("Pressure, {name}, some"), share(pressure.some_share), "some task stalled");
        fact(&format!("Pressure, {name}, full"), share(pressure.full_share), "every task stalled");
    }
    for zone in &machine.temperature {
        let hottest = Cell::Number(zone.max_millicelsius as f64, Unit::Millicelsius);
        fact(&format!("Hottest, {}", zone.zone), hottest, "");
    }
    if let Some(frequency) = &machine.frequency {
        fact("Frequency limit lowered to", share(frequency.capped_to_share), "of the greatest limit");
    }
    for network in &machine.network {
        fact(&format!("Received, {}", network.interface), network.receive_bytes.into(), "");
        fact(&format!("Sent, {}", network.interface), network.transmit_bytes.into(), "");
        fact(
            &format!("Link used, {}", network.interface),
            share(network.link_share),
            "of the link's speed, in the busier direction",
        );
    }
    for disk in &machine.disks {
        if disk.busy_share.is_some() {
            fact(
                &format!("Busy, {}", disk.name),
                share(disk.busy_share),
                "busy time as the kernel counts it",
            );
        }
        // Phones have dozens of partitions, most of them idle.
        let has_moved = [disk.read_bytes, disk.write_bytes].into_iter().flatten().any(|bytes| bytes.0 > 0);
        if disk.busy_share.is_none() && disk.requests.is_none() && has_moved {
            fact(&format!("Read, {}", disk.name), disk.read_bytes.into(), "");
            fact(&format!("Written, {}", disk.name), disk.write_bytes.into(), "");
        }
        if let Some(requests) = disk.requests {
            let number = |value: Option<f64>, unit: Unit| Cell::known(value, unit).text();
            let moved = format!(
                "{} read, {} written",
                Cell::from(disk.read_bytes).text(),
                Cell::from(disk.write_bytes).text()
            );
            let note = format!("{}; {moved}", number(disk.requests_per_s, Unit::PerS));
            fact(&format!("Requests, {}", disk.name), Cell::count(requests, Unit::Count), &note);
            if disk.mean_bytes.is_some() {
                let size = Cell::known(disk.mean_bytes, Unit::Bytes);
                fact(&format!("Mean size, {}", disk.name), size, "read and written bytes for each request");
            }
            if disk.mean_response_ns.is_some() {
                let time = Cell::known(disk.mean_response_ns, Unit::Ns);
                fact(&format!("Mean response time, {}", disk.name), time, "with the time in the queue");
            }
        }
    }
    Table {
        caption: "Samples of the machine".into(),
        columns: ["What", "How much", ""].map(Column::new).into(),
        rows: facts
            .into_iter()
            .map(|fact| vec![Cell::Text(fact.label), fact.value, Cell::Text(fact.note)])
            .collect(),
        ..Table::default()
    }
}

/// A chart of related metrics: title, unit, whether it is stacked, and each metric with its name and colour.
struct Panel {
    id: &'static str,
    title: &'static str,
    unit: Unit,
    plot: Plot,
    metrics: &'static [(&'static str, &'static str, Role)],
}

const PANELS: [Panel; 5] = [
    Panel {
        id: "cpu",
        title: "Processors",
        unit: Unit::Share,
        plot: Plot::StackedArea,
        metrics: &[
            ("cpu_active_ticks", "active", Role::Category(2)),
            ("cpu_iowait_ticks", "waiting for I/O", Role::Write),
            ("cpu_idle_ticks", "idle", Role::Rest),
        ],
    },
    Panel {
        id: "memory",
        title: "Memory available",
        unit: Unit::Bytes,
        plot: Plot::Line,
        metrics: &[("memory_available_bytes", "available", Role::Category(5))],
    },
    Panel {
        id: "dirty",
        title: "Dirty page cache",
        unit: Unit::Bytes,
        plot: Plot::Line,
        metrics: &[
            ("memory_dirty_bytes", "dirty", Role::WriteAsync),
            ("memory_writeback_bytes", "under write-back", Role::Write),
        ],
    },
    Panel {
        id: "network",
        title: "Network",
        unit: Unit::BytesPerS,
        plot: Plot::Line,
        metrics: &[
            ("net_receive_bytes", "received", Role::Read),
            ("net_transmit_bytes", "sent", Role::Write),
        ],
    },
    Panel {
        id: "temperature",
        title: "Temperature",
        unit: Unit::Millicelsius,
        plot: Plot::Line,
        metrics: &[("temperature_millicelsius", "", Role::Category(3))],
    },
];

fn figures(about: &About<'_>) -> Vec<Chart> {
    PANELS.iter().filter_map(|panel| figure(about, panel)).collect()
}

fn figure(about: &About<'_>, panel: &Panel) -> Option<Chart> {
    let course = &about.analysis.machine.series;
    let found: Vec<(&MetricSeries, &str, Role)> = panel
        .metrics
        .iter()
        .flat_map(|(metric, name, role)| {
            course
                .metrics
                .iter()
                .filter(move |series| series.metric == *metric)
                .map(move |series| (series, *name, *role))
        })
        .collect();
    if found.is_empty() {
        return None;
    }
    let several = found.iter().any(|(series, name, _)| {
        found.iter().any(|(other, other_name, _)| other_name == name && other.subject != series.subject)
    });
    // CPU ticks are shown as shares of all ticks in the same bin, so they do not depend on the number of
    // processors.
    let whole: Option<Vec<f64>> = (panel.unit == Unit::Share).then(|| {
        (0..found[0].0.values.len())
            .map(|bin| {
                found.iter().filter_map(|(series, ..)| series.values.get(bin).copied().flatten()).sum()
            })
            .collect()
    });
    let bin_s = course.bin_ns.as_secs_f64();
    let series = found.iter().enumerate().take(8).map(|(at, (metric, name, role))| {
        let scale = |bin: usize, value: f64| match (&whole, panel.unit) {
            (Some(whole), _) if whole[bin] > 0.0 => value / whole[bin],
            (Some(_), _) => f64::NAN,
            (None, Unit::BytesPerS) => value / bin_s,
            (None, _) => value,
        };
        let y: Vec<f64> = metric
            .values
            .iter()
            .enumerate()
            .map(|(bin, value)| value.map_or(f64::NAN, |value| scale(bin, value)))
            .collect();
        let name = match &metric.subject {
            Some(subject) if name.is_empty() => subject.clone(),
            Some(subject) if several => format!("{subject} {name}"),
            _ => (*name).to_owned(),
        };
        Series {
            name,
            role: if several { Role::Category(at) } else { *role },
            x: bin_times(course.start_ns as f64, course.bin_ns, y.len()),
            y,
            ..Series::default()
        }
    });
    let mut y = Axis::linear("", panel.unit);
    if panel.unit == Unit::Share {
        y.bounds = Some((0.0, 1.0));
    }
    Some(Chart {
        id: panel.id.into(),
        title: panel.title.into(),
        plot: panel.plot,
        x: Axis::time(about.length_s()),
        y,
        series: series.collect(),
        ..Chart::default()
    })
}
