//! Finds the owners of bios on mapped devices: device mapper (LVM, LUKS) and RAID.
//!
//! A mapped device passes on a bio completely or in parts, immediately or much later, and from any thread.
//! For example, dm-crypt's workers encrypt parts of 128 KiB on several processors. The event of each part
//! contains the sector on the upper device. So, for each sector of a mapped device, the last queued bio is
//! stored.

use std::collections::BTreeMap;

use fonio_core::{BlockEvent, DeviceId, SECTOR_BYTES, Sector};
use rustc_hash::FxHashSet;

use super::{Attribution, BioOwner, FLUSH, place};

/// Maximum number of extents per generation. At 60 bytes per extent, both generations take 4 MB.
const PIECES_MAX: usize = 32 * 1024;

/// A bio that moved to a lower device: from a partition to its disk, or from a mapped device.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassedOn {
    pub(super) now: (DeviceId, Sector),
    /// The device and sector at which the bio was first queued.
    pub(super) first: (DeviceId, Sector),
    /// The bio's owner, if it was queued on an upper device.
    pub(super) whose: Option<BioOwner>,
}

/// Non-overlapping bios on mapped devices. The key is the device and first sector; the value contains the
/// end sector (exclusive).
type Pieces = BTreeMap<(DeviceId, u64), (u64, BioOwner)>;

/// The last queued bio for each sector of the mapped devices.
#[derive(Debug, Default)]
pub(super) struct Above {
    pub(super) mapped: FxHashSet<DeviceId>,
    young: Pieces,
    /// The previous generation. When the young generation is full, it becomes the old generation.
    old: Pieces,
}

impl Above {
    pub(super) fn queued(&mut self, event: &BlockEvent, whose: BioOwner) {
        if !self.mapped.contains(&event.device) || event.bytes.0 == 0 {
            return;
        }
        if self.young.len() >= PIECES_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        let (device, first) = (event.device, event.sector.0);
        let end = first.saturating_add(event.bytes.0.div_ceil(SECTOR_BYTES));
        // The new bio replaces overlapping extents. The beginning or end of an older extent may remain.
        while let Some((&(of, begin), &(until, older))) = self.young.range(..(device, end)).next_back()
            && of == device
            && until > first
        {
            self.young.remove(&(device, begin));
            if until > end {
                self.young.insert((device, end), (until, older));
            }
            if begin < first {
                self.young.insert((device, begin), (first, older));
                break;
            }
        }
        self.young.insert((device, first), (end, whose));
    }

    /// Removes all bios, because bios in lost events may overlap them.
    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    fn at(&self, device: DeviceId, sector: u64) -> Option<BioOwner> {
        [&self.young, &self.old].into_iter().find_map(|pieces| {
            let (&(of, _), &(end, whose)) = pieces.range(..=(device, sector)).next_back()?;
            (of == device && sector < end).then_some(whose)
        })
    }
}

impl Attribution {
    /// Returns the bio that a thread passes to a lower device. The bio may pass through several devices, such
    /// as an LVM volume on a partition.
    pub(super) fn pass_on(&mut self, tid: u32, event: &BlockEvent, from: (DeviceId, Sector)) -> PassedOn {
        let before = self.threads.get_mut(tid).and_then(|state| state.passed_on);
        let before = before.filter(|before| before.now == from);
        let above = if place(event) == FLUSH {
            // Use the newest bio, because the older bios have already been passed on and only wait for their
            // rows.
            self.bios.get(&(from.0, FLUSH)).and_then(|waiting| Some(waiting.last()?.1))
        } else {
            self.above.at(from.0, from.1.0)
        };
        PassedOn {
            now: (event.device, event.sector),
            first: before.map_or(from, |before| before.first),
            whose: above.or_else(|| before?.whose),
        }
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{ByteCount, EventKind, Op, Timestamp};

    use super::*;

    /// Compares the extents with an array that has one entry per sector.
    #[test]
    fn each_sector_has_the_last_bio() {
        let devices = [DeviceId::new(254, 0), DeviceId::new(254, 1)];
        let mut above = Above { mapped: devices.into_iter().collect(), ..Above::default() };
        let mut plain = vec![[None; 64]; devices.len()];
        let mut state = 1_u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for cause in 0..2000 {
            let (of, first) = (random(2) as usize, random(56));
            let sectors = 1 + random(8);
            let whose = BioOwner { cause: Some(cause), ..BioOwner::default() };
            let event = BlockEvent {
                sector: Sector(u64::from(first)),
                bytes: ByteCount::from_sectors(u64::from(sectors)),
                op: Op::Write,
                ..BlockEvent::new(Timestamp(0), EventKind::BioQueue, devices[of])
            };
            above.queued(&event, whose);
            plain[of][first as usize..(first + sectors) as usize].fill(Some(whose));
            for (device, plain) in devices.into_iter().zip(&plain) {
                for (sector, expected) in (0..).zip(plain) {
                    assert_eq!(above.at(device, sector), *expected, "{device} {sector}");
                }
            }
        }
    }
}
