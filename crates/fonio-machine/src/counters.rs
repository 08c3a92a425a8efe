//! Reads the counters of each disk since boot (`/proc/diskstats`).

use std::collections::BTreeMap;
use std::fs;

use fonio_core::{ByteCount, DeviceId};

use crate::machine::Machine;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskCounters {
    pub read_bytes: ByteCount,
    pub written_bytes: ByteCount,
    pub busy_ms: u64,
}

pub(crate) fn read_disks(machine: &Machine) -> BTreeMap<DeviceId, DiskCounters> {
    disks(&fs::read_to_string(machine.proc("diskstats")).unwrap_or_default())
}

fn disks(text: &str) -> BTreeMap<DeviceId, DiskCounters> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let device = DeviceId::new(words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let numbers: Vec<u64> = words.skip(1).map_while(|word| word.parse().ok()).collect();
            let counters = DiskCounters {
                read_bytes: ByteCount::from_sectors(*numbers.get(2)?),
                written_bytes: ByteCount::from_sectors(*numbers.get(6)?),
                busy_ms: *numbers.get(9)?,
            };
            Some((device, counters))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_counters() {
        let text = " 179 0 mmcblk0 10 0 80 5 20 1 160 9 0 12 14\n 7 0 loop0 1\n";
        let found = disks(text);
        assert_eq!(
            found.get(&DeviceId::new(179, 0)),
            Some(&DiskCounters {
                read_bytes: ByteCount(80 * 512),
                written_bytes: ByteCount(160 * 512),
                busy_ms: 12
            })
        );
        assert_eq!(found.len(), 1);
    }
}
