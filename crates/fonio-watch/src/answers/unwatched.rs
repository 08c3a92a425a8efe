//! Answers how often programs waited for disks that are not watched.

use std::collections::BTreeMap;

use fonio_core::Nanos;
use fonio_core::quantity::Unit;
use serde::Serialize;

use crate::summary::Summary;

/// Maximum number of disks that the sentence names.
const NAMED: usize = 4;

/// Waits on a disk that is not watched, or on a network file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnwatchedDisk {
    /// The name of the disk, or the type of the network file system.
    pub name: String,
    /// Number of waits.
    pub waits: u64,
    /// Their total time, summed over all threads.
    pub total_ms: u64,
}

/// Returns the disks that are not watched, on which threads waited, most time first.
pub fn unwatched(sum: &Summary) -> Vec<UnwatchedDisk> {
    let mut disks: BTreeMap<&str, (u64, Nanos)> = BTreeMap::new();
    for row in &sum.blocked {
        let Some(device) = row.device.as_deref() else { continue };
        if sum.devices.iter().all(|watched| watched.name != device) {
            let (waits, total) = disks.entry(device).or_default();
            *waits += row.waits.count();
            *total += row.waits.total();
        }
    }
    let disk = |(name, (waits, total)): (&str, (u64, Nanos))| UnwatchedDisk {
        name: name.to_owned(),
        waits,
        total_ms: total.0 / 1_000_000,
    };
    let mut disks: Vec<UnwatchedDisk> = disks.into_iter().map(disk).collect();
    disks.sort_by(|a, b| b.total_ms.cmp(&a.total_ms).then_with(|| a.name.cmp(&b.name)));
    disks
}

/// Returns a sentence on the waits on disks that are not watched; `None` if there are none.
pub fn unwatched_sentence(disks: &[UnwatchedDisk]) -> Option<String> {
    if disks.is_empty() {
        return None;
    }
    let waits: u64 = disks.iter().map(|disk| disk.waits).sum();
    let total: u64 = disks.iter().map(|disk| disk.total_ms).sum();
    let mut names: Vec<String> = disks
        .iter()
        .take(NAMED)
        .map(|disk| format!("{} {}", disk.name, Unit::S.format(disk.total_ms as f64 / 1000.0)))
        .collect();
    if disks.len() > NAMED {
        names.push(format!("and {} more", disks.len() - NAMED));
    }
    Some(format!(
        "{} {} on disks that are not watched ({}), {} in all threads; they count for no watched disk.",
        Unit::Count.format(waits as f64),
        if waits == 1 { "wait" } else { "waits" },
        names.join(", "),
        Unit::S.format(total as f64 / 1000.0)
    ))
}

#[cfg(test)]
mod tests {
    use fonio_record::observer::{Party, PartyKind};

    use super::*;
    use crate::histogram::Histogram;
    use crate::summary::{BlockedFigures, DeviceFigures};

    #[test]
    fn waits_on_disks_that_are_not_watched_are_told() {
        let blocked = |party: &str, device: Option<&str>, ms: &[u64]| {
            let mut waits = Histogram::default();
            ms.iter().for_each(|ms| waits.add(Nanos(ms * 1_000_000)));
            let party = Party { name: party.to_owned(), kind: PartyKind::Program };
            BlockedFigures { party, device: device.map(str::to_owned), waits }
        };
        let mut sum = Summary {
            devices: vec![DeviceFigures { name: "mmcblk0".into(), ..DeviceFigures::default() }],
            blocked: vec![blocked("a", Some("mmcblk0"), &[900]), blocked("a", None, &[500])],
            ..Summary::default()
        };
        assert_eq!(unwatched_sentence(&unwatched(&sum)), None);
        sum.blocked.push(blocked("a", Some("sdb"), &[100, 200]));
        sum.blocked.push(blocked("b", Some("sdb"), &[300]));
        sum.blocked.push(blocked("b", Some("nfs4"), &[1400]));
        let found = unwatched(&sum);
        let figures: Vec<_> =
            found.iter().map(|disk| (disk.name.as_str(), disk.waits, disk.total_ms)).collect();
        assert_eq!(figures, [("nfs4", 1, 1400), ("sdb", 3, 600)]);
        assert_eq!(
            unwatched_sentence(&found).expect("a sentence"),
            "4 waits on disks that are not watched (nfs4 1.4 s, sdb 600 ms), 2 s in all threads; they count for no \
             watched disk."
        );
    }
}
