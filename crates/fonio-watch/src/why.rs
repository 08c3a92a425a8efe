//! Determines the reason for a stall from the requests during it.

use fonio_core::{ByteCount, DeviceId, Op, Request, Timestamp};
use fonio_record::observer::{ObservedRequest, ObservedWait, Party, PartyId};
use rustc_hash::FxHashMap;

use crate::summary::Why;

/// A single request is the reason for a stall if it was in the device for at least this share of the stall.
const ONE_REQUEST_PERCENT: u64 = 50;
/// Devices are not the reason for a stall if requests were in flight for less than this share of the stall.
const IN_FLIGHT_PERCENT: u64 = 20;
/// Other parties are the reason for a stall if they moved at least this share of the bytes.
const OTHERS_THOUSANDTHS: u64 = 500;
/// Maximum number of requests examined to find the reason for a stall. Each request needs 150 bytes.
const REASONS_MAX: usize = 10_000;

/// Returns the device on which a thread was blocked, and the reason; `requests` contains the requests of all
/// devices, in the order of completion.
///
/// The device is the disk of the file, `of_file`. If this disk is unknown, the device is the device on which
/// the thread, or the thread that woke it, had requests, because the requests of other threads do not show
/// that the thread waited for them.
pub fn device_and_why(
    requests: impl Iterator<Item = ObservedRequest> + Clone,
    wait: &ObservedWait,
    (began, ended): (Timestamp, Timestamp),
    of_file: Option<DeviceId>,
    name: &dyn Fn(PartyId) -> Party,
) -> (Option<DeviceId>, Why) {
    let met = requests.filter(|request| overlap(request, began, ended) > 0);
    let own = |tid_of: fn(&Request) -> Option<u32>| {
        let is_own = |tid| tid == wait.row.tid || Some(tid) == wait.row.waker_tid;
        busiest(met.clone().filter(|request| tid_of(&request.row).is_some_and(is_own)), began, ended)
    };
    // Requests that the thread did not queue itself can be write-back of earlier writes.
    let device = of_file.or_else(|| own(|row| row.tid)).or_else(|| own(|row| row.cause_tid));
    let reason = device.map_or(Why::NoRequest, |device| {
        let met = met.clone().filter(|request| request.row.device == device);
        // On a busy device, the last requests are enough to show the load.
        let skipped = met.clone().count().saturating_sub(REASONS_MAX);
        let met: Vec<ObservedRequest> = met.skip(skipped).collect();
        let from = met.first().filter(|_| skipped > 0).map_or(began, |first| first.span().0.max(began));
        why(&met, (from, ended), wait.party, name)
    });
    // The thread can also have waited for a device below or next to the known device.
    if reason == Why::NoRequest && !is_idle(met, began, ended) {
        (device, Why::Unknown)
    } else {
        (device, reason)
    }
}

/// Returns whether the devices had requests in flight for only a small share of the time.
fn is_idle(met: impl Iterator<Item = ObservedRequest>, began: Timestamp, ended: Timestamp) -> bool {
    let met: Vec<ObservedRequest> = met.take(REASONS_MAX + 1).collect();
    let span = ended.0.saturating_sub(began.0).max(1);
    met.len() <= REASONS_MAX && in_flight(met.iter(), began, ended) * 100 < span * IN_FLIGHT_PERCENT
}

/// Returns the device whose requests were in flight for the longest total time between two times.
fn busiest(
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

/// Returns the reason why `party` was blocked between two times; `requests` contains the requests of the
/// party's device.
fn why(
    requests: &[ObservedRequest],
    (began, ended): (Timestamp, Timestamp),
    party: PartyId,
    name: &dyn Fn(PartyId) -> Party,
) -> Why {
    let span = ended.0.saturating_sub(began.0).max(1);
    let met: Vec<&ObservedRequest> =
        requests.iter().filter(|request| overlap(request, began, ended) > 0).collect();
    if in_flight(met.iter().copied(), began, ended) * 100 < span * IN_FLIGHT_PERCENT {
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
fn in_flight<'r>(
    requests: impl Iterator<Item = &'r ObservedRequest>,
    began: Timestamp,
    ended: Timestamp,
) -> u64 {
    let mut spans: Vec<(u64, u64)> = requests
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
    use fonio_record::observer::PartyKind;

    use super::*;
    use crate::recent::tests::request;
    use crate::stalls::tests::wait;

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

    const A: DeviceId = DeviceId(179 << 20);
    const B: DeviceId = DeviceId(8 << 20);

    /// A request of a thread, in flight between 1 s and `until_ms`.
    fn of_thread(device: DeviceId, tid: u32, until_ms: u64) -> ObservedRequest {
        let mut one = one(1, Op::Read, 4, 1000, 1000, until_ms);
        (one.row.device, one.row.tid) = (device, Some(tid));
        one
    }

    /// Returns the device and the reason for a wait of thread 101 from 1 s to 2 s. Thread 9 ended this wait.
    fn device_of(requests: &[ObservedRequest], of_file: Option<DeviceId>) -> (Option<DeviceId>, Why) {
        let mut wait = wait(1, 1000, 2000);
        wait.row.waker_tid = Some(9);
        let name = |id: PartyId| Party { name: format!("unit{}", id.0), kind: PartyKind::Unit };
        let span = (wait.row.began, wait.row.ended.unwrap());
        device_and_why(requests.iter().cloned(), &wait, span, of_file, &name)
    }

    #[test]
    fn a_stall_is_on_the_device_of_its_own_thread() {
        let busy = of_thread(B, 5, 1900);
        assert_eq!(device_of(std::slice::from_ref(&busy), None), (None, Why::Unknown));
        assert_eq!(device_of(&[], None), (None, Why::NoRequest));
        // The thread's own device was idle most of the time.
        let own = of_thread(A, 101, 1010);
        assert_eq!(device_of(&[busy.clone(), own.clone()], None), (Some(A), Why::Unknown));
        assert_eq!(device_of(std::slice::from_ref(&own), None), (Some(A), Why::NoRequest));
        let mut written_back = of_thread(A, 3, 1600);
        written_back.row.cause_tid = Some(101);
        for own in [of_thread(A, 101, 1600), of_thread(A, 9, 1600), written_back] {
            let (device, why) = device_of(&[own, busy.clone()], None);
            assert_eq!(device, Some(A));
            assert!(matches!(why, Why::OneRequest { took_ms: 600, .. }), "{why:?}");
        }
        // The file's disk is known, but does not explain the stall.
        assert_eq!(device_of(&[busy], Some(A)), (Some(A), Why::Unknown));
        assert_eq!(device_of(&[], Some(A)), (Some(A), Why::NoRequest));
    }

    #[test]
    fn the_busiest_of_its_devices_counts() {
        let mut written_back = of_thread(A, 3, 1950);
        written_back.row.cause_tid = Some(101);
        let requests =
            [of_thread(A, 101, 1300), of_thread(B, 101, 1400), of_thread(A, 5, 1900), written_back];
        assert_eq!(device_of(&requests, None).0, Some(B));
    }
}
