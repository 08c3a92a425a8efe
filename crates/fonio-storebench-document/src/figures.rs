//! Defines the catalogue of the figures in a result. Each figure has a name, a label, a unit, a direction and
//! a range of possible values. Runs, the terminal, comparisons and the results service use this catalogue.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::LazyLock;

use fonio_core::{Access, Better, Figure, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The units in a document. This type is used only for the schema; the [`Unit`] of a value has one of these
/// names.
#[derive(JsonSchema)]
#[schemars(rename = "Unit", description = "The unit of a figure.")]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) enum UnitOfFigure {
    /// 10⁶ bytes per second.
    #[serde(rename = "MB/s")]
    MbPerS,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Ms,
    /// Seconds.
    #[serde(rename = "s")]
    S,
    /// A ratio of two values.
    #[serde(rename = "ratio")]
    Ratio,
    /// A count.
    #[serde(rename = "count")]
    Count,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Percent.
    #[serde(rename = "%")]
    Percent,
}

/// The parts of a run in their order. A part is measured without interruption; a continued run repeats only
/// unfinished parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Sequential and random bandwidth, and response times by size.
    Sizes,
    /// Slowdown of concurrent reads and writes.
    Slowdown,
    /// Small synchronous writes.
    Sync,
    /// A long sequential write.
    Sustained,
    /// The launches of forty apps, and their processor time.
    Launch,
    /// Speedup by concurrency and the four parameters.
    Concurrency,
    /// Whether the device has its stated capacity.
    Capacity,
}

impl Part {
    /// All parts of a run.
    pub const ALL: [Part; 7] = [
        Part::Sizes,
        Part::Slowdown,
        Part::Sync,
        Part::Sustained,
        Part::Launch,
        Part::Concurrency,
        Part::Capacity,
    ];

    /// Returns the part's label for people.
    pub fn label(self) -> &'static str {
        match self {
            Part::Sizes => "bandwidth and response times",
            Part::Slowdown => "slowdown of concurrent reads and writes",
            Part::Sync => "synchronous writes",
            Part::Sustained => "sustained write",
            Part::Launch => "launch of forty apps",
            Part::Concurrency => "concurrency",
            Part::Capacity => "capacity check",
        }
    }
}

/// A figure of the catalogue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CatalogueFigure {
    /// The figure's name, label, unit and direction.
    #[serde(flatten)]
    pub figure: Figure,
    /// The smallest possible value of the figure.
    pub min: f64,
    /// The largest plausible value of the figure.
    pub max: f64,
    /// The part of the run that measures the figure.
    pub part: Part,
}

impl Deref for CatalogueFigure {
    type Target = Figure;

    fn deref(&self) -> &Figure {
        &self.figure
    }
}

/// Request sizes, in bytes, for which response times are measured.
pub const SIZES: [u64; 3] = [4 << 10, 64 << 10, 512 << 10];

/// Numbers of concurrent requests for which the speedup is measured.
pub const AT_ONCE: [u32; 5] = [2, 4, 8, 16, 32];

/// Numbers of concurrent readers that run together with the same number of writers.
pub const BESIDE: [u32; 2] = [1, 4];

/// Returns every figure, in the order of the parts.
pub fn catalogue() -> Vec<CatalogueFigure> {
    let mut all = Vec::new();
    bandwidth(&mut all);
    response(&mut all);
    slowdown(&mut all);
    sync(&mut all);
    sustained(&mut all);
    launch(&mut all);
    concurrency(&mut all);
    all
}

static BY_NAME: LazyLock<BTreeMap<String, CatalogueFigure>> =
    LazyLock::new(|| catalogue().into_iter().map(|figure| (figure.name.clone(), figure)).collect());

/// Returns all figures of the catalogue by their names.
pub fn by_name() -> &'static BTreeMap<String, CatalogueFigure> {
    &BY_NAME
}

/// Returns the figure with this name.
pub fn find(name: &str) -> Option<CatalogueFigure> {
    by_name().get(name).cloned()
}

/// Formats a size for the name of a figure: `4k`.
pub fn size_name(bytes: u64) -> String {
    format!("{}k", bytes >> 10)
}

/// Maximum throughput in MB/s: that of a PCIe 6 device with four lanes, the fastest bus of flash storage.
const MB_S_MAX: f64 = 32_000.0;
/// Maximum response time in milliseconds: ten minutes, because a run is not longer.
const MS_MAX: f64 = 600_000.0;

fn figure(
    part: Part,
    name: String,
    label: String,
    unit: Unit,
    better: Option<Better>,
    max: f64,
) -> CatalogueFigure {
    CatalogueFigure { figure: Figure { name, label, unit, better }, min: 0.0, max, part }
}

const HIGHER: Option<Better> = Some(Better::Higher);
const LOWER: Option<Better> = Some(Better::Lower);

fn bandwidth(all: &mut Vec<CatalogueFigure>) {
    for access in Access::ALL {
        let size = if access.is_sequential() { "512 KiB" } else { "4 KiB" };
        let (name, label) = (format!("bandwidth.{}", access.name()), format!("{}, {size}", access.words()));
        all.push(figure(Part::Sizes, name, label, Unit::MbPerS, HIGHER, MB_S_MAX));
    }
    // Figure 6 of Nguyen et al. 2015 ranks phone models by this sum.
    let (name, label) = ("bandwidth.total".to_owned(), "sum of the four bandwidths".to_owned());
    all.push(figure(Part::Sizes, name, label, Unit::MbPerS, HIGHER, 4.0 * MB_S_MAX));
}

fn response(all: &mut Vec<CatalogueFigure>) {
    for access in Access::ALL {
        for bytes in SIZES {
            for (statistic, words) in
                [("mean", "mean time"), ("p50", "median time"), ("p99", "99th percentile")]
            {
                let name = format!("response.{}.{}.{statistic}", access.name(), size_name(bytes));
                let label = format!("{} {} KiB, {words}", access.word(), bytes >> 10);
                all.push(figure(Part::Sizes, name, label, Unit::Ms, LOWER, MS_MAX));
            }
        }
    }
}

fn slowdown(all: &mut Vec<CatalogueFigure>) {
    for count in BESIDE {
        for access in Access::ALL {
            let other = if access.writes() { "reader" } else { "writer" };
            let plural = if count == 1 { "" } else { "s" };
            let name = format!("slowdown.{}.{count}x{count}", access.name());
            let label = format!("{} beside {count} {other}{plural}", access.word());
            all.push(figure(Part::Slowdown, name, label, Unit::Ratio, LOWER, 1e6));
        }
    }
}

fn sync(all: &mut Vec<CatalogueFigure>) {
    for (statistic, words) in [("p50", "median time"), ("p99", "99th percentile")] {
        let name = format!("sync.write.4k.{statistic}");
        let label = format!("write of 4 KiB and fdatasync, {words}");
        all.push(figure(Part::Sync, name, label, Unit::Ms, LOWER, MS_MAX));
    }
}

fn sustained(all: &mut Vec<CatalogueFigure>) {
    for (name, label, unit, max) in [
        ("first", "long write, at first", Unit::MbPerS, MB_S_MAX),
        ("last", "long write, at the end", Unit::MbPerS, MB_S_MAX),
        ("fast_bytes", "long write, until the rate fell", Unit::Bytes, 1e13),
    ] {
        all.push(figure(Part::Sustained, format!("sustained.{name}"), label.to_owned(), unit, HIGHER, max));
    }
}

fn launch(all: &mut Vec<CatalogueFigure>) {
    for cache in ["cold", "warm"] {
        for (name, apps) in [("total", "forty apps"), ("worst", "slowest app")] {
            let (name, label) = (format!("launch.{cache}.{name}"), format!("{apps}, {cache}"));
            all.push(figure(Part::Launch, name, label, Unit::S, LOWER, 3600.0));
        }
    }
    for (name, label, better) in
        [("cpu.active", "processors active", None), ("cpu.iowait", "iowait of active time", LOWER)]
    {
        all.push(figure(Part::Launch, name.to_owned(), label.to_owned(), Unit::Percent, better, 100.0));
    }
}

fn concurrency(all: &mut Vec<CatalogueFigure>) {
    for access in Access::ALL {
        for count in AT_ONCE {
            let name = format!("speedup.{}.{count}", access.name());
            let label = format!("speedup of {count} {}", access.words());
            all.push(figure(Part::Concurrency, name, label, Unit::Ratio, HIGHER, 1e4));
        }
        let name = format!("concurrency.{}", access.name());
        let label = format!("{} at once that suffice", access.words());
        let parameter = figure(Part::Concurrency, name, label, Unit::Count, None, 32.0);
        all.push(CatalogueFigure { min: 1.0, ..parameter });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_and_labels_are_unique_and_short() {
        let all = catalogue();
        let names: BTreeSet<&str> = all.iter().map(|figure| figure.name.as_str()).collect();
        let labels: BTreeSet<&str> = all.iter().map(|figure| figure.label.as_str()).collect();
        assert_eq!((names.len(), labels.len()), (all.len(), all.len()));
        for figure in &all {
            assert!(figure.min < figure.max && figure.name.len() <= 64, "{figure:?}");
            assert_eq!(find(&figure.name).as_ref(), Some(figure));
        }
        assert_eq!(all.len(), 5 + 36 + 8 + 2 + 3 + 6 + 24);
    }

    #[test]
    fn units_are_those_of_the_schema() {
        let schema = schemars::schema_for!(UnitOfFigure).to_value().to_string();
        for figure in catalogue() {
            let name = serde_json::to_string(&figure.unit).expect("each unit serializes to its name");
            assert!(schema.contains(&name), "{name}");
        }
    }
}
