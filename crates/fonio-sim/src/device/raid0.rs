//! RAID-0 over several devices, as in the driver of Kim et al., section 5.3, with 4 KB stripes.

use fonio_core::{ByteCount, Nanos, Op, SECTOR_BYTES, Sector, Timestamp};

use super::{Command, Counters, Device, Limits};

/// Stripe size in the study of Kim et al.
pub const STRIPE: ByteCount = ByteCount(4096);

/// A RAID-0 device. Each command is split: every affected member gets one command for all its stripes, which
/// are adjacent on the member.
pub struct Raid0 {
    members: Vec<Box<dyn Device>>,
    stripe: u64,
    limits: Limits,
    last_submit: u64,
    busy_until: u64,
    busy: Nanos,
}

impl Raid0 {
    /// Makes a RAID-0 of `members`. Each member is used up to the capacity of the smallest member. Panics if
    /// there is no member, or if the stripe is larger than a member or not a multiple of the sector size.
    pub fn new(members: Vec<Box<dyn Device>>, stripe: ByteCount) -> Raid0 {
        assert!(stripe.0 > 0 && stripe.0.is_multiple_of(SECTOR_BYTES), "a stripe consists of full sectors");
        let all = || members.iter().map(|member| member.limits());
        let smallest = all().map(|limits| limits.capacity.0).min().expect("a RAID has at least one member");
        assert!(smallest >= stripe.0, "each member holds at least one stripe");
        let count = members.len() as u64;
        let limits = Limits {
            capacity: ByteCount(smallest / stripe.0 * stripe.0 * count),
            depth: all().map(|limits| limits.depth).sum(),
            command_max: ByteCount(all().map(|limits| limits.command_max.0).min().unwrap_or(0) * count),
            discard_granularity: all()
                .map(|limits| limits.discard_granularity)
                .collect::<Option<Vec<_>>>()
                .and_then(|granularities| granularities.into_iter().max()),
            fua: all().all(|limits| limits.fua),
            volatile_cache: all().any(|limits| limits.volatile_cache),
            // A flush goes to all members, so one blocked member delays the flush.
            flush_blocks_all: all().any(|limits| limits.flush_blocks_all),
        };
        Raid0 { members, stripe: stripe.0, limits, last_submit: 0, busy_until: 0, busy: Nanos(0) }
    }

    /// Returns the part of the bytes `start..end` that is on one member, as byte offsets on this member.
    fn part(&self, member: u64, start: u64, end: u64) -> Option<(u64, u64)> {
        let count = self.members.len() as u64;
        // Number of the member's bytes before an address of the array.
        let before = |address: u64| {
            let (row, within) = (address / (self.stripe * count), address % (self.stripe * count));
            row * self.stripe + within.saturating_sub(member * self.stripe).min(self.stripe)
        };
        let (from, to) = (before(start), before(end));
        (to > from).then_some((from, to))
    }
}

impl Device for Raid0 {
    fn submit(&mut self, command: &Command, now: Timestamp) -> Timestamp {
        super::assert_fits(command, now, self.last_submit, &self.limits);
        self.last_submit = now.0;
        let start = command.sector.0 * SECTOR_BYTES;
        let end = start + command.bytes.0;
        let mut done = now;
        for member in 0..self.members.len() {
            let part =
                if command.op == Op::Flush { Some((0, 0)) } else { self.part(member as u64, start, end) };
            let Some((from, to)) = part else { continue };
            let of = Command { sector: Sector(from / SECTOR_BYTES), bytes: ByteCount(to - from), ..*command };
            done = done.max(self.members[member].submit(&of, now));
        }
        self.busy += Nanos(done.0.saturating_sub(now.0.max(self.busy_until)));
        self.busy_until = self.busy_until.max(done.0);
        done
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn counters(&self) -> Counters {
        let mut sum = Counters { busy: self.busy, ..Counters::default() };
        for member in &self.members {
            let of = member.counters();
            sum.host_written += of.host_written;
            sum.host_read += of.host_read;
            sum.programmed += of.programmed;
            sum.erases += of.erases;
            sum.switch_merges += of.switch_merges;
            sum.partial_merges += of.partial_merges;
            sum.full_merges += of.full_merges;
            sum.pages_copied += of.pages_copied;
        }
        sum
    }

    fn reset_counters(&mut self) {
        self.busy = Nanos(0);
        self.members.iter_mut().for_each(|member| member.reset_counters());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::Profile;

    fn raid(members: usize) -> Raid0 {
        let ram = Profile::shipped("ram").unwrap();
        let member = || ram.device(Some(ByteCount(1 << 20)), 1).unwrap();
        Raid0::new((0..members).map(|_| member()).collect(), STRIPE)
    }

    proptest! {
        #[test]
        fn every_byte_lies_on_one_member(members in 1usize..5, start in 0u64..100, length in 1u64..100) {
            let raid = raid(members);
            let (start, end) = (start * 512, (start + length) * 512);
            let mut naive = vec![Vec::new(); members];
            for sector in start / 512..end / 512 {
                let stripe = sector / 8;
                let member = stripe as usize % members;
                naive[member].push(stripe / members as u64 * 8 + sector % 8);
            }
            for (member, sectors) in naive.iter().enumerate() {
                let part = raid.part(member as u64, start, end);
                prop_assert_eq!(part.is_some(), !sectors.is_empty());
                if let Some((from, to)) = part {
                    let of: Vec<u64> = (from / 512..to / 512).collect();
                    prop_assert_eq!(&of, sectors);
                }
            }
        }
    }

    #[test]
    fn what_is_striped_goes_at_the_rate_of_both() {
        let span = |members| {
            let mut raid = raid(members);
            let command = Command { op: Op::Write, sector: Sector(0), bytes: ByteCount(1 << 20), fua: false };
            raid.submit(&command, Timestamp(0)).0
        };
        // A single member transfers 256 lines of 4 KiB at 1 µs each, plus 1 µs for the command. Two members
        // transfer half of the lines each.
        assert_eq!((span(1), span(2)), (257_000, 129_000));
    }
}
