//! Reads the published numbers of the studies from `studies/published.toml`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(super) const TEXT: &str = include_str!("../../published.toml");

/// The published numbers, by path of keys such as `kim.background.network_rx_mb`.
pub(super) struct Published(toml::Value);

impl Published {
    pub(super) fn read() -> Result<Published> {
        Ok(Published(toml::from_str(TEXT).context("cannot parse studies/published.toml")?))
    }

    pub(super) fn at<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let found = path.split('.').try_fold(&self.0, |table, key| table.get(key));
        let found = found.with_context(|| format!("studies/published.toml has no {path}"))?;
        found.clone().try_into().with_context(|| format!("studies/published.toml: cannot parse {path}"))
    }

    pub(super) fn number(&self, path: &str) -> Result<f64> {
        self.at(path)
    }

    pub(super) fn numbers(&self, path: &str) -> Result<BTreeMap<String, f64>> {
        self.at(path)
    }
}

#[derive(Deserialize)]
pub(super) struct Card {
    pub(super) name: String,
    pub(super) desktop_mb_s: Four,
    pub(super) phone_mb_s: Four,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct Four {
    pub(super) seq_write: f64,
    pub(super) seq_read: f64,
    pub(super) rand_write: f64,
    pub(super) rand_read: f64,
}

#[derive(Clone, Deserialize)]
pub(super) struct CourvilleWorkload {
    pub(super) name: String,
    pub(super) read_write_ratio: f64,
    pub(super) flush_gap_p90: FlushGap,
    pub(super) reads: f64,
    pub(super) writes: f64,
    pub(super) duration_ms: f64,
    pub(super) io_latency_percent: f64,
}

#[derive(Clone, Copy, Deserialize)]
pub(super) struct FlushGap {
    pub(super) requests: f64,
    pub(super) kb: f64,
    pub(super) seconds: f64,
}
