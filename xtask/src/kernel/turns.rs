//! Turns of readers, by the module's policy in user space: four readers that never end, on devices that take one request. All
//! instants are virtual, so the figures are exact.

use std::collections::BTreeMap;

use fonio_testing::{Need, has};

use super::policy::Driver;

const READERS: usize = 4;
/// From a completion to the reader's next read.
const GAP_NS: u64 = 10_000;
const END_NS: u64 = 400_000_000;
/// After that, each reader has read through a turn.
const SETTLED_NS: u64 = 200_000_000;

/// A device that is faster for a stream which is one of its latest two.
struct Device {
    continued_ns: u64,
    switched_ns: u64,
    latest: [usize; 2],
}

impl Device {
    fn serve(&mut self, stream: usize) -> u64 {
        let is_known = self.latest.contains(&stream);
        if self.latest[0] != stream {
            self.latest = [stream, self.latest[0]];
        }
        if is_known { self.continued_ns } else { self.switched_ns }
    }
}

/// Returns the reads of all readers a second, and the longest response in µs, both after `SETTLED_NS`.
fn endless(scheduler: &str, mut device: Device, is_sequential: bool) -> (u64, u64) {
    let mut driver = Driver::start(scheduler);
    let (mut now, mut next, mut reads, mut longest) = (0_u64, 0_u64, 0, 0);
    let mut due = [Some(0_u64); READERS];
    let mut ends = [0_u64; READERS];
    let mut came = BTreeMap::new();
    let mut serving: Option<(u64, usize, u64)> = None;
    while now < END_NS {
        for reader in 0..READERS {
            if due[reader].is_some_and(|due| due <= now) {
                due[reader] = None;
                let stride = if is_sequential { 8 } else { 16 };
                let sector = reader as u64 * 100_000_000 + ends[reader];
                ends[reader] += stride;
                driver.event(&format!(
                    "insert {now} id={next} read sync sector={sector} bytes=4096 process={reader} be4"
                ));
                came.insert(next, (reader, now));
                next += 1;
            }
        }
        if serving.is_none() {
            let answer = driver.event(&format!("dispatch {now}")).expect("an answer");
            if let Ok(id) = answer.parse::<u64>() {
                let (reader, _) = came[&id];
                serving = Some((id, reader, now + device.serve(reader)));
            }
        }
        let end = serving.map(|(_, _, end)| end);
        now = due.into_iter().flatten().chain(end).min().expect("something happens").max(now);
        if let Some((id, reader, end)) = serving
            && end <= now
        {
            driver.event(&format!("complete {now} id={id}"));
            serving = None;
            let (_, came) = came.remove(&id).expect("it came");
            if now >= SETTLED_NS {
                reads += 1;
                longest = longest.max(now - came);
            }
            due[reader] = Some(now + GAP_NS);
        }
    }
    (reads * 1_000_000_000 / (END_NS - SETTLED_NS), longest / 1_000)
}

#[test]
fn turns_go_on_where_they_gain() {
    if !has(&[Need::Cc]) {
        return;
    }
    let cases = [
        ("sequential, faster if continued", 80_000, true),
        ("sequential, as fast if interrupted", 150_000, true),
        ("random", 150_000, false),
    ];
    let mut table = String::new();
    for (what, continued_ns, is_sequential) in cases {
        for (how, settings) in [("turns", ""), ("none", " turn_wait_ns=0")] {
            let device = Device { continued_ns, switched_ns: 150_000, latest: [usize::MAX; 2] };
            let (reads, longest) =
                endless(&format!("scheduler smartio in_flight_max=1{settings}"), device, is_sequential);
            table += &format!("{what:<36} {how:<6} {reads:>6} reads a second, {longest:>6} µs at most\n");
        }
    }
    expect_test::expect![[r#"
        sequential, faster if continued      turns   12295 reads a second,  24750 µs at most
        sequential, faster if continued      none     6670 reads a second,    590 µs at most
        sequential, as fast if interrupted   turns    6670 reads a second,    590 µs at most
        sequential, as fast if interrupted   none     6670 reads a second,    590 µs at most
        random                               turns    6670 reads a second,    590 µs at most
        random                               none     6670 reads a second,    590 µs at most
    "#]]
    .assert_eq(&table);
}
