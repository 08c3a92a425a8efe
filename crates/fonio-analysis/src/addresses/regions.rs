//! Finds the number of a region of a device's address space, for each request.
//!
//! The first regions of the first devices are looked up in a list, which takes a few instructions. All others
//! are in a hash map, so that an address far behind the others needs no long list.

use rustc_hash::FxHashMap;

/// Number of low bits of a key that contain the region; the bits above contain the device.
pub(super) const DEVICE_SHIFT: u32 = 42;
/// Maximum number of regions in the list of a device. Regions of 16 MiB cover 1 TiB.
const LISTED_REGIONS: u64 = 1 << 16;
/// Maximum number of devices with a list. A list takes up to 256 KiB.
const LISTED_DEVICES: u64 = 8;
/// The entry of a list for a region without a number.
const NO_NUMBER: u32 = u32::MAX;

/// The numbers of the regions that have one.
#[derive(Debug, Default)]
pub(super) struct Regions {
    lists: Vec<Vec<u32>>,
    others: FxHashMap<u64, u32>,
}

/// Returns the places of a key in the lists, if it is listed there.
#[inline]
fn places(key: u64) -> Option<(usize, usize)> {
    let (device, region) = (key >> DEVICE_SHIFT, key & ((1 << DEVICE_SHIFT) - 1));
    (device < LISTED_DEVICES && region < LISTED_REGIONS).then_some((device as usize, region as usize))
}

impl Regions {
    /// Returns the number of a region.
    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<u32> {
        match places(key) {
            Some((device, region)) => {
                let number = *self.lists.get(device)?.get(region)?;
                (number != NO_NUMBER).then_some(number)
            }
            None => self.others.get(&key).copied(),
        }
    }

    /// Assigns a number to a region that has none.
    pub(super) fn insert(&mut self, key: u64, number: u32) {
        assert!(number != NO_NUMBER, "the highest number stands for no number");
        let Some((device, region)) = places(key) else {
            self.others.insert(key, number);
            return;
        };
        if device >= self.lists.len() {
            self.lists.resize_with(device + 1, Vec::new);
        }
        let list = &mut self.lists[device];
        if region >= list.len() {
            list.resize(region + 1, NO_NUMBER);
        }
        list[region] = number;
    }

    /// Removes all numbers.
    pub(super) fn clear(&mut self) {
        self.lists.clear();
        self.others.clear();
    }

    /// Returns the regions with their numbers, by key.
    pub(super) fn sorted(&self) -> Vec<(u64, u32)> {
        let listed = self.lists.iter().enumerate().flat_map(|(device, list)| {
            let device = (device as u64) << DEVICE_SHIFT;
            let numbers = list.iter().enumerate().filter(|(_, number)| **number != NO_NUMBER);
            numbers.map(move |(region, number)| (device | region as u64, *number))
        });
        let others = self.others.iter().map(|(key, number)| (*key, *number));
        let mut all: Vec<(u64, u32)> = listed.chain(others).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_a_map(keys in prop::collection::vec(
            (0u64..12, prop_oneof![0u64..50, LISTED_REGIONS - 2..LISTED_REGIONS + 2, 0u64..1 << DEVICE_SHIFT]),
            0..60,
        )) {
            let (mut regions, mut map) = (Regions::default(), BTreeMap::new());
            for (at, (device, region)) in keys.iter().enumerate() {
                let key = device << DEVICE_SHIFT | region;
                prop_assert_eq!(regions.get(key), map.get(&key).copied());
                if regions.get(key).is_none() {
                    regions.insert(key, at as u32);
                    map.insert(key, at as u32);
                }
            }
            prop_assert_eq!(regions.sorted(), map.into_iter().collect::<Vec<_>>());
            regions.clear();
            prop_assert_eq!(regions.sorted(), []);
        }
    }
}
