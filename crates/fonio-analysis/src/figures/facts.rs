//! Collects the figures of an analysis, and the words that are inserted into sentences.
//!
//! Each question declares its figures here: name, label, unit, direction and value.

use std::collections::BTreeMap;

use fonio_core::{Better, Nanos, Unit};

use super::Figure;
use crate::causes::process::Processes;
use crate::device::info::DeviceInfo;
use crate::distribution::Distribution;
use crate::question::ratio::Known;

/// Figures and words of an analysis, by name.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) figures: BTreeMap<String, Figure>,
    /// Words used in sentences, by name: processes, thermal zones or interfaces.
    pub(crate) words: BTreeMap<String, String>,
}

/// The parts of an analysis that several questions need to compute their figures.
pub(crate) struct Frame<'a> {
    pub(crate) devices: &'a [DeviceInfo],
    pub(crate) processes: &'a Processes,
    /// The length of the recording.
    pub(crate) span: Nanos,
    pub(crate) has_loss: bool,
}

impl Frame<'_> {
    pub(crate) fn requests(&self) -> u64 {
        self.devices.iter().map(|device| device.requests).sum()
    }

    /// Returns the name of the device at an index of `devices`.
    pub(crate) fn device(&self, place: u32) -> Option<&str> {
        self.devices.get(place as usize).map(DeviceInfo::shown)
    }
}

impl Facts {
    /// Adds a figure that explains other figures; neither higher nor lower values are better.
    pub(crate) fn put(
        &mut self,
        name: impl Into<String>,
        label: impl Into<String>,
        unit: Unit,
        value: impl Into<Option<f64>>,
    ) {
        self.add(Figure::new(name, label, unit, None, value.into()));
    }

    /// Adds a share; neither higher nor lower values are better.
    pub(crate) fn share(
        &mut self,
        name: impl Into<String>,
        label: impl Into<String>,
        value: impl Into<Option<f64>>,
    ) {
        self.put(name, label, Unit::Share, value);
    }

    /// Adds a size, time or count that may be unknown; neither higher nor lower values are better.
    pub(crate) fn amount<A: Known>(&mut self, name: impl Into<String>, label: impl Into<String>, value: A) {
        self.put(name, label, A::UNIT, value.known().map(|value| value as f64));
    }

    /// Adds a figure that users notice; lower values are better. Service times and rates are not added with
    /// this function, because neither direction is better: with fewer requests, the service time can rise and
    /// the rate can fall.
    pub(crate) fn felt(
        &mut self,
        name: impl Into<String>,
        label: impl Into<String>,
        unit: Unit,
        value: impl Into<Option<f64>>,
    ) {
        self.add(Figure::new(name, label, unit, Some(Better::Lower), value.into()));
    }

    /// Adds a count; neither higher nor lower values are better.
    pub(crate) fn count(
        &mut self,
        name: impl Into<String>,
        label: impl Into<String>,
        value: impl Into<Option<u64>>,
    ) {
        self.amount(name, label, value.into());
    }

    /// Adds each statistic of a distribution; neither higher nor lower values are better.
    pub(crate) fn distribution(&mut self, name: &str, of: &str, unit: Unit, distribution: &Distribution) {
        self.statistics(name, of, unit, None, distribution);
    }

    /// Adds each statistic of a distribution that users notice; lower values are better.
    pub(crate) fn felt_distribution(
        &mut self,
        name: &str,
        of: &str,
        unit: Unit,
        distribution: &Distribution,
    ) {
        self.statistics(name, of, unit, Some(Better::Lower), distribution);
    }

    fn statistics(&mut self, name: &str, of: &str, unit: Unit, better: Option<Better>, d: &Distribution) {
        self.count(format!("{name}.count"), format!("{of}, number"), d.count);
        let known = |value: Option<u64>| value.map(|value| value as f64);
        for (part, label, value) in [
            ("mean", "mean", Some(d.mean)),
            ("min", "minimum", known(Some(d.min))),
            ("p50", "median", known(d.p50)),
            ("p80", "80th percentile", known(d.p80)),
            ("p90", "90th percentile", known(d.p90)),
            ("p95", "95th percentile", known(d.p95)),
            ("p99", "99th percentile", known(d.p99)),
            ("p999", "99.9th percentile", known(d.p999)),
            ("p9999", "99.99th percentile", known(d.p9999)),
            ("max", "maximum", known(d.max)),
            ("sum", "sum", known(Some(d.sum))),
        ] {
            self.add(Figure::new(format!("{name}.{part}"), format!("{of}, {label}"), unit, better, value));
        }
        let over = d.p999.zip(d.p50.filter(|p50| *p50 > 0)).map(|(p999, p50)| p999 as f64 / p50 as f64);
        let label = format!("99.9th percentile over median, {of}");
        self.add(Figure::new(format!("{name}.p999_over_p50"), label, Unit::Ratio, better, over));
    }

    fn add(&mut self, figure: Figure) {
        self.figures.insert(figure.name.clone(), figure);
    }

    pub(crate) fn word(&mut self, name: &str, word: &str) {
        self.words.insert(name.to_owned(), word.to_owned());
    }

    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.figures.get(name)?.value
    }

    /// Returns a figure with its unit, or a word; `None` if it is not known.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let figure = self.figures.get(name).filter(|figure| figure.value.is_some());
        figure.map(|figure| figure.text.as_str()).or_else(|| self.words.get(name).map(String::as_str))
    }
}
