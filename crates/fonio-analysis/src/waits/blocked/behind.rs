//! Finds the owners of requests that were outstanding while a thread waited.

use std::cmp::Reverse;

use fonio_core::{Content, Nanos, Timestamp};
use rustc_hash::FxHashMap;

use super::Behind;
use super::count::Kept;
use crate::question::threads::Threads;

/// Maximum number of owners per wait, and of files per owner. For further owners and files, time is only
/// added to the sum.
const OWNERS_MAX: usize = 64;
const FILES_MAX: usize = 8;
const LISTED: usize = 5;
/// A file is named only if at least this share of the owner's requests belongs to it.
const FILE_FROM: f64 = 0.5;

/// The process that caused a request, by the numbers of its name and unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner {
    pub(crate) process: u32,
    pub(crate) unit: Option<u32>,
    pub(crate) is_own: bool,
}

/// The data of a request: its file, and the kind of data.
pub(crate) type FileContent = (Option<u32>, Content);

/// Request time of each owner in a wait, before normalisation.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    known: FxHashMap<Owner, Part>,
    /// Total request time of owners that exceed the maximum number.
    beyond: f64,
}

#[derive(Clone, Debug, Default)]
struct Part {
    time: f64,
    /// Time of the requests that another process issued for the owner.
    issued_for_it: f64,
    /// Time by file and kind of data, in order of their first requests.
    files: Vec<(FileContent, f64)>,
}

impl Part {
    fn add(&mut self, of: FileContent, time: f64, issued_for_it: f64) {
        self.time += time;
        self.issued_for_it += issued_for_it;
        if let Some((_, sum)) = self.files.iter_mut().find(|(known, _)| *known == of) {
            *sum += time;
        } else if self.files.len() < FILES_MAX {
            self.files.push((of, time));
        }
    }

    /// Returns the file and kind of data with the most time; if several have the same time, returns the
    /// first.
    fn most(&self) -> Option<(FileContent, f64)> {
        self.files.iter().copied().reduce(|most, next| if next.1 > most.1 { next } else { most })
    }
}

impl Owners {
    #[cfg(test)]
    pub(super) fn by_process(&self) -> std::collections::BTreeMap<u32, [u64; 2]> {
        let times = |part: &Part| [part.time as u64, part.issued_for_it as u64];
        self.known.iter().map(|(owner, part)| (owner.process, times(part))).collect()
    }

    /// Adds the time of requests for a file, and the part of it that another process issued for the owner.
    fn add(&mut self, owner: Owner, of: FileContent, time: f64, issued_for_it: f64) {
        if self.known.len() < OWNERS_MAX || self.known.contains_key(&owner) {
            self.known.entry(owner).or_default().add(of, time, issued_for_it);
        } else {
            self.beyond += time;
        }
    }

    /// Returns the owners in a fixed order, because floating-point sums depend on the order.
    fn sorted(&self) -> Vec<(&Owner, &Part)> {
        let mut sorted: Vec<(&Owner, &Part)> = self.known.iter().collect();
        sorted.sort_by_key(|(owner, _)| **owner);
        sorted
    }

    fn sum(&self) -> f64 {
        self.sorted().iter().map(|(_, part)| part.time).sum::<f64>() + self.beyond
    }

    /// Adds the shares of `other`, weighted by the length of its wait.
    pub(super) fn absorb(&mut self, other: &Owners, wait: Nanos) {
        let sum = other.sum();
        if sum <= 0.0 {
            return;
        }
        let weight = wait.0 as f64 / sum;
        for (owner, part) in other.sorted() {
            let of_files: f64 = part.files.iter().map(|(_, time)| time).sum();
            for (of, time) in &part.files {
                self.add(*owner, *of, time * weight, 0.0);
            }
            let rest = (part.time - of_files).max(0.0) * weight;
            if rest > 0.0 || part.issued_for_it > 0.0 {
                self.add(*owner, (None, Content::Unknown), rest, part.issued_for_it * weight);
            }
        }
        self.beyond += other.beyond * weight;
    }

    /// Returns the share of the request time of a program.
    pub(super) fn share_of(&self, process: u32, unit: Option<u32>) -> f64 {
        let is_it = |owner: &Owner| owner.process == process && owner.unit == unit;
        let time: f64 =
            self.sorted().iter().filter(|(owner, _)| is_it(owner)).map(|(_, part)| part.time).sum();
        let sum = self.sum();
        if sum > 0.0 { time / sum } else { 0.0 }
    }

    /// Lists the owners with the largest shares, with their names.
    pub(super) fn told(&self, threads: &Threads, path: &dyn Fn(u32) -> Option<String>) -> Vec<Behind> {
        let sum = self.sum();
        if sum <= 0.0 {
            return Vec::new();
        }
        let mut sorted = self.sorted();
        sorted.sort_by(|(_, a), (_, b)| b.time.total_cmp(&a.time));
        let told = |(owner, part): (&Owner, &Part)| {
            let most = part.most().filter(|(_, time)| *time >= FILE_FROM * part.time);
            Behind {
                process: threads.name(owner.process).to_owned(),
                unit: owner.unit.map(|unit| threads.unit(unit).to_owned()),
                file: most.and_then(|((file, _), _)| path(file?)),
                content: most.map_or(Content::Unknown, |((_, content), _)| content).name().to_owned(),
                is_own: owner.is_own,
                share: part.time / sum,
                issued_for_it: part.issued_for_it / sum,
            }
        };
        sorted.into_iter().take(LISTED).map(told).collect()
    }
}

/// The waits during which requests are counted.
#[derive(Debug, Default)]
pub(super) struct Watch {
    waits: Vec<Watched>,
    /// For each wait, the latest end time of this wait and all earlier waits.
    latest: Vec<Timestamp>,
    is_ready: bool,
}

#[derive(Debug)]
struct Watched {
    /// Numbers that identify the waiting thread: its id and its name.
    key: (u32, u32),
    pid: u32,
    wait: Kept,
    devices: Vec<OnDevice>,
}

/// The requests that were outstanding on one device during a wait.
#[derive(Debug, Default)]
struct OnDevice {
    device: usize,
    owners: Owners,
    /// Request time of the waiting process, and of the thread that ended its wait (the journal's thread, for
    /// example).
    own: f64,
}

/// The origin of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Source {
    /// The process that caused the request.
    pub(super) pid: Option<u32>,
    /// The thread that issued the request, possibly for another thread.
    pub(super) tid: Option<u32>,
    /// Whether that thread belongs to another process.
    pub(super) is_issued_for_it: bool,
}

impl Watch {
    /// Maximum number of threads for whose waits the outstanding requests are computed. A thread is in at
    /// most one wait at a time, so the number of threads bounds the work for each request.
    pub(super) const THREADS_MAX: usize = 64;

    pub(super) fn new(waits: Vec<((u32, u32), u32, Kept)>) -> Watch {
        let mut waits: Vec<Watched> = waits
            .into_iter()
            .map(|(key, pid, wait)| Watched { key, pid, wait, devices: Vec::new() })
            .collect();
        waits.sort_unstable_by_key(|watched| (watched.wait.began, watched.key));
        let latest = waits.iter().scan(Timestamp(0), |latest, watched| {
            *latest = watched.wait.ended.max(*latest);
            Some(*latest)
        });
        let latest: Vec<Timestamp> = latest.collect();
        assert!(latest.is_sorted(), "the latest end does not decrease from wait to wait");
        Watch { latest, waits, is_ready: true }
    }

    /// Returns the threads for whose waits the outstanding requests are computed.
    pub(super) fn threads(&self) -> impl Iterator<Item = (u32, u32)> {
        self.waits.iter().map(|watched| watched.key)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Adds a request that was outstanding on a device in the interval `(start, end)`.
    #[inline]
    pub(super) fn request(
        &mut self,
        (start, end): (Timestamp, Timestamp),
        device: usize,
        Source { pid, tid, is_issued_for_it }: Source,
        (owner, of): (Owner, FileContent),
    ) {
        let later = self.waits.partition_point(|watched| watched.wait.began < end);
        for at in (0..later).rev() {
            if self.latest[at] <= start {
                break;
            }
            let watched = &mut self.waits[at];
            let overlap = end.min(watched.wait.ended) - start.max(watched.wait.began);
            if overlap > Nanos(0) {
                let is_own = pid == Some(watched.pid);
                let is_for_it = is_own || (tid.is_some() && tid == watched.wait.waker);
                let issued_for_it = if is_issued_for_it { overlap } else { Nanos(0) };
                watched.add(device, (Owner { is_own, ..owner }, of), [overlap, issued_for_it], is_for_it);
            }
        }
    }

    /// Returns the device for which a thread waited in the wait that began at `began`, and the owners of the
    /// requests that were outstanding on it; `None` if the device is unknown.
    ///
    /// This is the device on which the waiting process, or the thread that ended the wait, had requests.
    /// Without such requests, the thread may have waited for a device that was not recorded.
    pub(super) fn behind(&self, key: (u32, u32), began: Timestamp) -> Option<(usize, Owners)> {
        let from = self.waits.partition_point(|watched| (watched.wait.began, watched.key) < (began, key));
        let watched = self.waits.get(from).filter(|found| found.key == key && found.wait.began == began)?;
        let own = watched.devices.iter().filter(|on| on.own > 0.0);
        let on =
            own.max_by(|a, b| a.own.total_cmp(&b.own).then(Reverse(a.device).cmp(&Reverse(b.device))))?;
        Some((on.device, on.owners.clone()))
    }
}

impl Watched {
    fn add(
        &mut self,
        device: usize,
        (owner, of): (Owner, FileContent),
        [time, issued_for_it]: [Nanos; 2],
        is_for_it: bool,
    ) {
        let known = self.devices.iter().position(|on| on.device == device);
        let place = known.unwrap_or_else(|| {
            self.devices.push(OnDevice { device, ..OnDevice::default() });
            self.devices.len() - 1
        });
        let on = &mut self.devices[place];
        on.owners.add(owner, of, time.0 as f64, issued_for_it.0 as f64);
        if is_for_it {
            on.own += time.0 as f64;
        }
    }
}
