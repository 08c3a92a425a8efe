//! Turns of readers, by the module's policy in user space: four readers that never end, on devices that take one request. All
//! instants are virtual, so the figures are exact.

use std::collections::BTreeMap;

use fonio_testing::{Need, has};

use super::policy::Driver;

const READERS: usize = 4;
/// The time from a completion to the reader's next read.
const GAP_NS: u64 = 10_000;
const END_NS: u64 = 400_000_000;
/// The reads of a program that ends.
const FIFTY: u64 = 50;
/// After that, each reader has read through a turn.
const SETTLED_NS: u64 = 200_000_000;

/// A device that serves a stream faster if it is one of its latest two.
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

/// A read of a reader.
struct Read {
    came: u64,
    completed: u64,
}

/// Readers on a device that takes one request.
struct Load {
    /// When they begin, and the number of their first read.
    begin: u64,
    first: u64,
    /// The distance from the beginning of one read of a reader to that of its next, in sectors.
    stride: u64,
    /// The reads of each.
    reads: u64,
    /// When nothing is done any more.
    end: u64,
}

impl Load {
    /// Returns the completed reads. `service` is how long the device takes for a read of this reader.
    fn run(&self, driver: &mut Driver, mut service: impl FnMut(usize) -> u64) -> Vec<Read> {
        let (mut now, mut next) = (self.begin, self.first);
        let mut due = [Some(now); READERS];
        let (mut begun, mut came) = ([0_u64; READERS], BTreeMap::new());
        let mut serving: Option<(u64, u64)> = None;
        let mut done = Vec::new();
        while now < self.end {
            for reader in 0..READERS {
                if due[reader].is_some_and(|due| due <= now) {
                    due[reader] = None;
                    let sector = reader as u64 * 100_000_000 + begun[reader] * self.stride;
                    begun[reader] += 1;
                    driver.event(&format!(
                        "insert {now} id={next} read sync sector={sector} bytes=4096 process={reader} be4"
                    ));
                    came.insert(next, (reader, now));
                    next += 1;
                }
            }
            if serving.is_none() {
                let answer = driver.event(&format!("dispatch {now}")).expect("an answer");
                serving = answer.parse().ok().map(|id| (id, now + service(came[&id].0)));
            }
            let end = serving.map(|(_, end)| end);
            let Some(event) = due.into_iter().flatten().chain(end).min() else { break };
            now = event.max(now);
            if let Some((id, end)) = serving
                && end <= now
            {
                driver.event(&format!("complete {now} id={id}"));
                serving = None;
                let (reader, came) = came.remove(&id).expect("it came");
                due[reader] = (begun[reader] < self.reads).then_some(now + GAP_NS);
                done.push(Read { came, completed: now });
            }
        }
        done
    }
}

/// Returns the reads of all readers a second, and the longest response in µs, both after `SETTLED_NS`.
fn endless(scheduler: &str, mut device: Device, is_sequential: bool) -> (u64, u64) {
    let stride = if is_sequential { 8 } else { 16 };
    let load = Load { begin: 0, first: 0, stride, reads: u64::MAX, end: END_NS };
    let reads = load.run(&mut Driver::start(scheduler), |reader| device.serve(reader));
    let late = reads.iter().filter(|read| read.completed >= SETTLED_NS);
    let longest = late.clone().map(|read| read.completed - read.came).max().unwrap_or_default();
    (late.count() as u64 * 1_000_000_000 / (END_NS - SETTLED_NS), longest / 1_000)
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

/// Four programs with 50 random reads each. Returns how many times as long as alone a read took on average, and the longest
/// response in ms.
fn fifty(settings: &str, read_ns: u64) -> (f64, u64) {
    let mut driver = Driver::start(&format!("scheduler smartio in_flight_max=1{settings}"));
    let (mut now, mut next) = (0_u64, 0_u64);
    // The policy learns how long reads take while one program reads.
    for _ in 0..20 {
        driver.event(&format!(
            "insert {now} id={next} read sync sector={} bytes=4096 process=9 be4",
            (1 << 40) + next * 16
        ));
        assert_eq!(driver.event(&format!("dispatch {now}")), Some(next.to_string()));
        now += read_ns;
        driver.event(&format!("complete {now} id={next}"));
        next += 1;
    }
    let load = Load { begin: now + 1_000_000_000, first: next, stride: 16, reads: FIFTY, end: u64::MAX };
    let reads = load.run(&mut driver, |_| read_ns);
    let responses = reads.iter().map(|read| read.completed - read.came);
    let (sum, longest): (u64, u64) = (responses.clone().sum(), responses.max().unwrap_or_default());
    (sum as f64 / (reads.len() as u64 * read_ns) as f64, longest / 1_000_000)
}

#[test]
fn turns_have_room_for_reads_on_slow_devices() {
    if !has(&[Need::Cc]) {
        return;
    }
    let mut table = String::new();
    for read_us in [150, 600, 3_000] {
        for (how, settings) in
            [("as it comes", ""), ("by time alone", " turn_reads=0"), ("no turns", " turn_wait_ns=0")]
        {
            let (times, longest) = fifty(settings, read_us * 1_000);
            table += &format!("{read_us} µs, {how}: {times:.2} times, {longest:>3} ms at most\n");
        }
    }
    expect_test::expect![[r#"
        150 µs, as it comes: 2.94 times,  14 ms at most
        150 µs, by time alone: 2.94 times,  14 ms at most
        150 µs, no turns: 3.90 times,   0 ms at most
        600 µs, as it comes: 2.99 times,  59 ms at most
        600 µs, by time alone: 3.95 times,  23 ms at most
        600 µs, no turns: 3.95 times,   2 ms at most
        3000 µs, as it comes: 3.71 times,  95 ms at most
        3000 µs, by time alone: 3.96 times,  20 ms at most
        3000 µs, no turns: 3.97 times,  12 ms at most
    "#]]
    .assert_eq(&table);
}
