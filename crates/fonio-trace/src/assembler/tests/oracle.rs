//! Compares the assembler with its oracle, and tests properties that hold for any events.

use std::collections::BTreeSet;
use std::fmt;

use fonio_core::{Batch, Bio, EventKind, Nanos, Request};
use proptest::prelude::*;

use super::text::describe;
use crate::assembler::AssemblerOptions;
use crate::assembler::oracle::compare::{Row, Rows, assemble, assert_same, decode};

/// Batches whose debug output has one event per line.
struct Batches(Vec<Batch>);

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for batch in &self.0 {
            writeln!(f)?;
            for gap in &batch.lost {
                writeln!(f, "L {}-{}", gap.after.0, gap.before.0)?;
            }
            for event in &batch.events {
                writeln!(f, "{}", describe(event))?;
            }
        }
        Ok(())
    }
}

fn batches() -> impl Strategy<Value = Batches> {
    prop::collection::vec(any::<u8>(), 0..6 * 360).prop_map(|bytes| Batches(decode(&bytes)))
}

fn options() -> impl Strategy<Value = AssemblerOptions> {
    let small = (50u64..2000, 1usize..12, 0u64..100).prop_map(|(horizon, open_max, disorder)| {
        AssemblerOptions { horizon: Nanos(horizon), open_max, disorder: Nanos(disorder) }
    });
    prop_oneof![3 => Just(AssemblerOptions::default()), 1 => small]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_oracle_agrees(batches in batches(), options in options(), no_bios: bool) {
        assert_same(&batches.0, &options, no_bios);
    }

    #[test]
    fn nothing_is_lost_or_made_up(batches in batches()) {
        let mut sink = Rows::default();
        let counts = assemble(&batches.0, AssemblerOptions::default(), &mut sink).unwrap();
        let count = |name: &str| counts.get(name).copied().unwrap_or(0);
        let events = || batches.0.iter().flat_map(|batch| &batch.events);
        let of_kind = |kind: EventKind| events().filter(|event| event.kind == kind).count() as u64;
        let requests: Vec<&Request> =
            sink.rows.iter().filter_map(|row| if let Row::Request(row) = row { Some(row) } else { None }).collect();
        let bios: Vec<&Bio> =
            sink.rows.iter().filter_map(|row| if let Row::Bio(row) = row { Some(row) } else { None }).collect();

        let ids: BTreeSet<u64> = requests.iter().map(|row| row.request_id).collect();
        prop_assert_eq!(ids.len(), requests.len());
        let bio_ids: BTreeSet<u64> = bios.iter().map(|row| row.bio_id).collect();
        prop_assert_eq!(bio_ids.len(), bios.len());
        for row in &requests {
            let times = [row.queued.min(row.issued), row.issued, row.reissued, row.completed];
            prop_assert!(times.iter().flatten().is_sorted(), "{:?}", row);
        }
        for bio in &bios {
            prop_assert!(bio.request_id.is_none_or(|id| ids.contains(&id)), "{:?}", bio);
        }
        let remapped_requests = events()
            .any(|event| matches!(event.kind, EventKind::RequestRemap { .. }));
        let issued = requests.iter().filter(|row| row.issued.is_some()).count() as u64;
        let reissued: u64 = of_kind(EventKind::Issue) - issued.min(of_kind(EventKind::Issue));
        let again = of_kind(EventKind::Requeue) + count("repeated_issues");
        prop_assert!(reissued <= again || remapped_requests);

        // Each bio was queued, remapped, split off, or taken by a partition.
        let remaps = events().filter(|event| matches!(event.kind, EventKind::Remap { .. })).count() as u64;
        let splits = events().filter(|event| matches!(event.kind, EventKind::Split { .. })).count() as u64;
        let made = of_kind(EventKind::BioQueue) + 2 * remaps + splits + count("splits_inferred");
        prop_assert!(bios.len() as u64 <= made);
        prop_assert!(bios.len() as u64 >= of_kind(EventKind::BioQueue).saturating_sub(remaps + splits
            + count("splits_inferred")));
        if remaps == 0 && splits == 0 && count("splits_inferred") == 0 {
            let queued: u64 = events()
                .filter(|event| event.kind == EventKind::BioQueue)
                .map(|event| event.bytes.0)
                .sum();
            prop_assert_eq!(bios.iter().map(|bio| bio.bytes.0).sum::<u64>(), queued);
        }
    }
}
