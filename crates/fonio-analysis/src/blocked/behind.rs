//! Whose requests were outstanding while a thread waited.

use std::cmp::Reverse;

use fonio_core::Content;
use rustc_hash::FxHashMap;

use super::Behind;
use super::tally::Kept;
use crate::threads::Threads;

/// The most owners of the requests during one wait that are told apart.
const OWNERS_MAX: usize = 64;
/// The most owners listed.
const LISTED: usize = 5;

/// Whose requests: the number of the process's name and unit, the file, and the kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner {
    pub(crate) process: u32,
    pub(crate) unit: Option<u32>,
    pub(crate) file: Option<u32>,
    pub(crate) content: Content,
    /// Whether the waiting process is the owner.
    pub(crate) is_own: bool,
}

/// Request time by owner, in parts that sum to any number.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners(FxHashMap<Owner, f64>);

impl Owners {
    #[cfg(test)]
    pub(super) fn by_process(&self) -> std::collections::BTreeMap<u32, u64> {
        self.0.iter().map(|(owner, time)| (owner.process, *time as u64)).collect()
    }

    fn add(&mut self, owner: Owner, time: f64) {
        if self.0.len() < OWNERS_MAX || self.0.contains_key(&owner) {
            *self.0.entry(owner).or_default() += time;
        }
    }

    fn sum(&self) -> f64 {
        // In a fixed order, because sums of floats depend on it.
        let mut times: Vec<f64> = self.0.values().copied().collect();
        times.sort_by(f64::total_cmp);
        times.iter().sum()
    }

    /// Adds the shares of `other`, weighted by the length of its wait.
    pub(super) fn absorb(&mut self, other: &Owners, wait_ns: u64) {
        let sum = other.sum();
        if sum <= 0.0 {
            return;
        }
        let mut sorted: Vec<(&Owner, &f64)> = other.0.iter().collect();
        sorted.sort_by_key(|(owner, _)| **owner);
        for (owner, time) in sorted {
            self.add(*owner, time / sum * wait_ns as f64);
        }
    }

    /// The largest shares, with names.
    pub(super) fn told(&self, threads: &Threads, path: &dyn Fn(u32) -> Option<String>) -> Vec<Behind> {
        let sum = self.sum();
        if sum <= 0.0 {
            return Vec::new();
        }
        let mut sorted: Vec<(&Owner, f64)> = self.0.iter().map(|(owner, time)| (owner, *time)).collect();
        sorted.sort_by(|(a, of_a), (b, of_b)| of_b.total_cmp(of_a).then(a.cmp(b)));
        let told = |(owner, time): (&Owner, f64)| Behind {
            process: threads.name(owner.process).to_owned(),
            unit: owner.unit.map(|unit| threads.unit(unit).to_owned()),
            file: owner.file.and_then(path),
            content: owner.content.name().to_owned(),
            is_own: owner.is_own,
            share: time / sum,
        };
        sorted.into_iter().take(LISTED).map(told).collect()
    }
}

/// The waits during which requests are counted.
#[derive(Debug, Default)]
pub(super) struct Watch {
    waits: Vec<Watched>,
    /// For each wait, the latest end of it and of all waits that began earlier.
    latest: Vec<u64>,
    is_ready: bool,
}

#[derive(Debug)]
struct Watched {
    /// The thread's number and that of its name.
    key: (u32, u32),
    pid: u32,
    wait: Kept,
    /// Request time by device.
    devices: Vec<(usize, Owners)>,
}

impl Watch {
    /// The most threads whose waits are watched. A thread is in one wait at a time, so this bounds the work for each
    /// request.
    pub(super) const THREADS_MAX: usize = 64;

    pub(super) fn new(waits: Vec<((u32, u32), u32, Kept)>) -> Watch {
        let mut waits: Vec<Watched> = waits
            .into_iter()
            .map(|(key, pid, wait)| Watched { key, pid, wait, devices: Vec::new() })
            .collect();
        waits.sort_unstable_by_key(|watched| (watched.wait.began, watched.key));
        let latest = waits.iter().scan(0, |latest, watched| {
            *latest = watched.wait.ended.max(*latest);
            Some(*latest)
        });
        Watch { latest: latest.collect(), waits, is_ready: true }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Adds a request that was outstanding in `(start, end)` on the device with this index.
    #[inline]
    pub(super) fn request(
        &mut self,
        (start, end): (u64, u64),
        device: usize,
        pid: Option<u32>,
        owner: Owner,
    ) {
        let later = self.waits.partition_point(|watched| watched.wait.began < end);
        for at in (0..later).rev() {
            if self.latest[at] <= start {
                break;
            }
            let watched = &mut self.waits[at];
            let overlap = end.min(watched.wait.ended).saturating_sub(start.max(watched.wait.began));
            if overlap > 0 {
                watched.add(device, Owner { is_own: pid == Some(watched.pid), ..owner }, overlap);
            }
        }
    }

    /// Whose requests were outstanding during the wait of a thread that began then; `None` if it is unknown for which
    /// device it waited.
    ///
    /// It waited for the device on which its own process had requests. Without these, only a single device is certain.
    pub(super) fn behind(&self, key: (u32, u32), began: u64) -> Option<Owners> {
        let from = self.waits.partition_point(|watched| (watched.wait.began, watched.key) < (began, key));
        let watched = self.waits.get(from).filter(|found| found.key == key && found.wait.began == began)?;
        let own = |owners: &Owners| {
            let mut own = Owners::default();
            owners
                .0
                .iter()
                .filter(|(owner, _)| owner.is_own)
                .for_each(|(owner, time)| own.add(*owner, *time));
            own.sum()
        };
        let most = watched.devices.iter().map(|(device, owners)| (own(owners), Reverse(*device), owners));
        let (time, _, owners) = most.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
        (time > 0.0 || watched.devices.len() == 1).then(|| owners.clone())
    }
}

impl Watched {
    fn add(&mut self, device: usize, owner: Owner, time: u64) {
        let known = self.devices.iter().position(|(known, _)| *known == device);
        let place = known.unwrap_or_else(|| {
            self.devices.push((device, Owners::default()));
            self.devices.len() - 1
        });
        self.devices[place].1.add(owner, time as f64);
    }
}
