//! Determines the reason for a stall from the requests during it.

use fonio_core::{ByteCount, DeviceId, Op, Timestamp};
use fonio_record::observer::{ObservedRequest, Party, PartyId};
use rustc_hash::FxHashMap;

use crate::summary::Why;

/// A single request is the reason for a stall if it was in the device for at least this share of the stall.
const ONE_REQUEST_PERCENT: u64 = 50;
/// The device is not the reason for a stall if requests were in flight for less than this share of the stall.
const IN_FLIGHT_PERCENT: u64 = 20;
/// Other parties are the reason for a stall if they moved at least this share of the bytes.
const OTHERS_THOUSANDTHS: u64 = 500;

/// Returns the device whose requests were in flight for the longest total time between two times.
pub fn busiest(
    requests: impl Iterator<Item = ObservedRequest>,
    began: Timestamp,
    ended: Timestamp,
) -> Option<DeviceId> {
    let mut times: FxHashMap<DeviceId, u64> = FxHashMap::default();
    for request in requests {
        *times.entry(request.row.device).or_default() += overlap(&request, began, ended);
    }
    times
        .into_iter()
        .filter(|(_, time)| *time > 0)
        .max_by_key(|(device, time)| (*time, *device))
        .map(|(device, _)| device)
}

/// Returns the reason why `party` was blocked between two times; `requests` are its device's requests.
pub fn why(
    requests: &[ObservedRequest],
    (began, ended): (Timestamp, Timestamp),
    party: PartyId,
    name: &dyn Fn(PartyId) -> Party,
) -> Why {
    let span = ended.0.saturating_sub(began.0).max(1);
    let met: Vec<&ObservedRequest> =
        requests.iter().filter(|request| overlap(request, began, ended) > 0).collect();
    if in_flight(&met, began, ended) * 100 < span * IN_FLIGHT_PERCENT {
        return Why::NoRequest;
    }
    // Count only the time in the device, not the time in a queue before the device.
    let in_device = |request: &ObservedRequest| {
        let (queued, completed) = request.span();
        let from = request.row.issued.unwrap_or(queued).max(began);
        completed.min(ended).0.saturating_sub(from.0)
    };
    let longest = met.iter().max_by_key(|request| in_device(request));
    if let Some(longest) = longest.filter(|request| in_device(request) * 100 >= span * ONE_REQUEST_PERCENT) {
        let (queued, completed) = longest.span();
        let took = completed.0.saturating_sub(longest.row.issued.unwrap_or(queued).0);
        return Why::OneRequest {
            op: longest.row.op,
            bytes: longest.row.bytes,
            took_ms: took / 1_000_000,
            party: longest.party.map(name),
        };
    }
    let total: u64 = met.iter().map(|request| request.row.bytes.0).sum();
    let mut moved: FxHashMap<(PartyId, Op), u64> = FxHashMap::default();
    for request in met.iter().filter(|request| request.party.is_some_and(|by| by != party)) {
        *moved.entry((request.party.unwrap_or(PartyId(0)), request.row.op)).or_default() +=
            request.row.bytes.0;
    }
    let others: u64 = moved.values().sum();
    let most =
        moved.into_iter().max_by_key(|((party, op), bytes)| (*bytes, std::cmp::Reverse((*party, *op))));
    if let Some(((by, op), bytes)) = most.filter(|_| others * 1000 >= total.max(1) * OTHERS_THOUSANDTHS) {
        let share_thousandths = bytes * 1000 / total.max(1);
        return Why::Behind { party: name(by), op, bytes: ByteCount(bytes), share_thousandths };
    }
    let own = |op: Op| -> (u64, u64) {
        let of_op = met.iter().filter(|request| request.row.op == op);
        of_op.fold((0, 0), |(bytes, count), request| (bytes + request.row.bytes.0, count + 1))
    };
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Discard];
    let op = ops.into_iter().max_by_key(|op| own(*op)).unwrap_or(Op::Write);
    let (bytes, requests) = own(op);
    Why::Own { op, bytes: ByteCount(bytes), requests }
}

fn overlap(request: &ObservedRequest, began: Timestamp, ended: Timestamp) -> u64 {
    let (queued, completed) = request.span();
    completed.min(ended).0.saturating_sub(queued.max(began).0)
}

/// Returns the time in which at least one request was in flight.
fn in_flight(requests: &[&ObservedRequest], began: Timestamp, ended: Timestamp) -> u64 {
    let mut spans: Vec<(u64, u64)> = requests
        .iter()
        .map(|request| request.span())
        .map(|(queued, completed)| (queued.max(began).0, completed.min(ended).0))
        .collect();
    spans.sort_unstable();
    let (mut time, mut until) = (0, began.0);
    for (from, to) in spans {
        time += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    time
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fonio_core::Request;
    use fonio_record::observer::PartyKind;

    use super::*;
    use crate::recent::tests::request;

    fn one(
        party: u32,
        op: Op,
        kib: u64,
        queued_ms: u64,
        issued_ms: u64,
        completed_ms: u64,
    ) -> ObservedRequest {
        let mut one = request(1);
        one.party = Some(PartyId(party));
        one.row = Request {
            op,
            bytes: ByteCount(kib << 10),
            queued: Some(Timestamp(queued_ms * 1_000_000)),
            issued: Some(Timestamp(issued_ms * 1_000_000)),
            completed: Some(Timestamp(completed_ms * 1_000_000)),
            ..one.row
        };
        one
    }

    fn check(requests: &[ObservedRequest], expected: Expect) {
        let name = |id: PartyId| Party { name: format!("unit{}", id.0), kind: PartyKind::Unit };
        let span = (Timestamp(1_000_000_000), Timestamp(3_000_000_000));
        expected.assert_eq(&format!("{:?}", why(requests, span, PartyId(1), &name)));
    }

    #[test]
    fn the_reason_is_in_the_requests() {
        check(&[], expect!["NoRequest"]);
        check(&[one(2, Op::Write, 512, 0, 0, 1200)], expect!["NoRequest"]);
        check(
            &[one(1, Op::Write, 4, 1000, 1010, 2900), one(2, Op::Write, 512, 1000, 1000, 1500)],
            expect![[
                r#"OneRequest { op: Write, bytes: ByteCount(4096), took_ms: 1890, party: Some(Party { name: "unit1", kind: Unit }) }"#
            ]],
        );
        // The long request waited in the queue for most of the time, so it is not the reason.
        let copy: Vec<_> =
            (0..40).map(|n| one(2, Op::Write, 512, 1000, 1000 + n * 50, 1050 + n * 50)).collect();
        let behind = [&copy[..], &[one(1, Op::Write, 4, 1000, 2950, 3000)]].concat();
        check(
            &behind,
            expect![[
                r#"Behind { party: Party { name: "unit2", kind: Unit }, op: Write, bytes: ByteCount(20971520), share_thousandths: 999 }"#
            ]],
        );
        let own: Vec<_> =
            (0..40).map(|n| one(1, Op::Read, 8, 1000 + n * 50, 1000 + n * 50, 1050 + n * 50)).collect();
        check(&own, expect!["Own { op: Read, bytes: ByteCount(327680), requests: 40 }"]);
    }

    #[test]
    fn the_busiest_device_counts() {
        let mut other = one(1, Op::Read, 4, 1000, 1000, 1400);
        other.row.device = DeviceId::new(8, 0);
        let requests = [one(1, Op::Read, 4, 0, 0, 1300), other];
        let (began, ended) = (Timestamp(1_000_000_000), Timestamp(2_000_000_000));
        assert_eq!(busiest(requests.into_iter(), began, ended), Some(DeviceId::new(8, 0)));
        assert_eq!(busiest(std::iter::empty(), began, ended), None);
    }
}
