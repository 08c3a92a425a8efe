//! Writes during reads by the module's policy in user space, on a device that serves both at the same time: a
//! reader and a writer with one request at a time each. All instants are virtual, so the figures are exact.

use fonio_testing::{Need, has};

use super::policy::Driver;

/// Requests of each process.
const REQUESTS: u64 = 1_000;
/// The time from a completion to the process's next request.
const GAP_NS: u64 = 10_000;
/// Service times of reads and writes alone.
const SERVICE_NS: [u64; 2] = [160_000, 40_000];
/// A device that takes many requests.
const SCHEDULER: &str = "scheduler smartio in_flight_max=32";

/// Returns how many times as long as alone reads and writes took on average. A read takes `slower_ns` longer
/// if a write is in flight when it is issued.
fn slowdowns(slower_ns: u64) -> [f64; 2] {
    let mut driver = Driver::start(SCHEDULER);
    let (mut now, mut next) = (0_u64, 0_u64);
    // The time at which each process queues its next request; its request, with arrival and end.
    let mut due = [Some(0_u64); 2];
    let mut requests: [Option<(u64, u64, Option<u64>)>; 2] = [None; 2];
    let (mut done, mut sum) = ([0_u64; 2], [0_u64; 2]);
    while done[0] < REQUESTS {
        for process in 0..2 {
            if due[process].is_some_and(|due| due <= now) {
                due[process] = None;
                let op = ["read", "write"][process];
                let sector = process as u64 * 100_000_000 + next * 16;
                driver.event(&format!(
                    "insert {now} id={next} {op} sync sector={sector} bytes=4096 process={process} be4"
                ));
                requests[process] = Some((next, now, None));
                next += 1;
            }
        }
        let mut timer = None;
        while let Some(answer) = driver.event(&format!("dispatch {now}")) {
            let Ok(id) = answer.parse::<u64>() else {
                timer = driver.event(&format!("timer {now}")).and_then(|timer| timer.parse::<u64>().ok());
                break;
            };
            let is_writing = requests[1].is_some_and(|(_, _, end)| end.is_some());
            let process = usize::from(requests[0].is_none_or(|(read, _, _)| read != id));
            let slower = if process == 0 && is_writing { slower_ns } else { 0 };
            let (_, _, end) = requests[process].as_mut().expect("it waits");
            *end = Some(now + SERVICE_NS[process] + slower);
        }
        let ends = requests.iter().flatten().filter_map(|(_, _, end)| *end);
        now = due.into_iter().flatten().chain(ends).chain(timer).min().expect("something happens").max(now);
        for process in 0..2 {
            if let Some((id, came, Some(end))) = requests[process]
                && end <= now
            {
                driver.event(&format!("complete {now} id={id}"));
                requests[process] = None;
                done[process] += 1;
                sum[process] += now - came;
                due[process] = Some(now + GAP_NS);
            }
        }
    }
    [0, 1].map(|process| sum[process] as f64 / (done[process] * SERVICE_NS[process]) as f64)
}

#[test]
fn writes_go_beside_reads_where_they_cost_little() {
    if !has(&[Need::Cc]) {
        return;
    }
    let mut table = String::new();
    for slower_us in [0, 10, 100, 1_000] {
        let [reads, writes] = slowdowns(slower_us * 1_000);
        table += &format!("reads {slower_us} µs slower: reads {reads:.2} times, writes {writes:.2} times\n");
    }
    expect_test::expect![[r#"
        reads 0 µs slower: reads 1.00 times, writes 1.00 times
        reads 10 µs slower: reads 1.03 times, writes 1.00 times
        reads 100 µs slower: reads 1.20 times, writes 15.35 times
        reads 1000 µs slower: reads 1.59 times, writes 55.30 times
    "#]]
    .assert_eq(&table);
}
