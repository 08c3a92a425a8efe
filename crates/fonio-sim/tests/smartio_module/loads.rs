//! Simulates programs on a device in virtual time, with the policy of the SmartIO module running in user
//! space. All times are virtual, so the figures are exact.

use std::collections::BTreeMap;

use fonio_testing::skip_without;

use super::policy::Driver;

/// The time from the completion of a request to the next request of its program.
const GAP_NS: u64 = 10_000;
/// The distance between the first sectors of two programs.
const PROGRAM_SECTORS: u64 = 100_000_000;
/// The distance in sectors between successive 4 KiB requests, for sequential I/O and for random I/O.
const SEQUENTIAL: u64 = 8;
const RANDOM: u64 = 16;

/// A program that queues its next request when one of its requests completes.
#[derive(Clone, Copy)]
struct Program {
    is_write: bool,
    level: u64,
    stride: u64,
    /// Number of the program's requests that are in flight or waiting.
    at_once: u64,
    /// Number of the program's requests. A run ends when all programs with a limit have ended.
    count: u64,
}

const READER: Program = Program { is_write: false, level: 4, stride: RANDOM, at_once: 1, count: u64::MAX };
const WRITER: Program = Program { is_write: true, ..READER };

/// A completed request.
struct Done {
    program: usize,
    came: u64,
    ended: u64,
}

impl Done {
    fn response_ns(&self) -> u64 {
        self.ended - self.came
    }
}

/// A run of several programs. `depth` is the device's queue depth.
struct Run<'a> {
    driver: &'a mut Driver,
    depth: usize,
    begin: u64,
    end: u64,
    first_id: u64,
}

impl Run<'_> {
    /// Runs the programs, and returns the completed requests. `service` returns the service time of a
    /// request. Its arguments are the program of the request, and the programs of the other requests in
    /// flight.
    fn run(self, programs: &[Program], mut service: impl FnMut(usize, &[usize]) -> u64) -> Vec<Done> {
        let Run { driver, depth, begin: mut now, end, first_id: mut next } = self;
        let mut due: Vec<(u64, usize)> = programs
            .iter()
            .enumerate()
            .flat_map(|(program, facts)| (0..facts.at_once).map(move |_| (now, program)))
            .collect();
        let mut queued = vec![0; programs.len()];
        let mut requests = BTreeMap::new();
        // For each request in flight: its completion time, its program, and its number.
        let mut in_flight: Vec<(u64, usize, u64)> = Vec::new();
        let mut done: Vec<Done> = Vec::new();
        let limited: u64 =
            programs.iter().map(|program| program.count).filter(|count| *count < u64::MAX).sum();
        let mut limited_left = limited;
        while now < end && (limited == 0 || limited_left > 0) {
            let (ready, later): (Vec<_>, Vec<_>) = due.into_iter().partition(|(due, _)| *due <= now);
            due = later;
            for (_, program) in ready {
                let Program { is_write, level, stride, .. } = programs[program];
                let op = if is_write { "write" } else { "read" };
                let sector = program as u64 * PROGRAM_SECTORS + queued[program] * stride;
                queued[program] += 1;
                driver.event(&format!(
                    "insert {now} id={next} {op} sync sector={sector} bytes=4096 process={program} be{level}"
                ));
                requests.insert(next, (program, now));
                next += 1;
            }
            let mut timer = None;
            while in_flight.len() < depth {
                let answer = driver.event(&format!("dispatch {now}")).expect("an answer");
                let Ok(id) = answer.parse::<u64>() else {
                    timer = driver.event(&format!("timer {now}")).and_then(|timer| timer.parse::<u64>().ok());
                    break;
                };
                let program = requests[&id].0;
                let others: Vec<usize> = in_flight.iter().map(|(_, program, _)| *program).collect();
                in_flight.push((now + service(program, &others), program, id));
                in_flight.sort_unstable();
            }
            let ends = in_flight.iter().map(|(end, ..)| *end);
            let Some(event) = due.iter().map(|(due, _)| *due).chain(ends).chain(timer).min() else { break };
            now = event.max(now);
            while let Some((_, program, id)) = in_flight.first().copied().filter(|(end, ..)| *end <= now) {
                in_flight.remove(0);
                driver.event(&format!("complete {now} id={id}"));
                let (_, came) = requests.remove(&id).expect("it was queued");
                done.push(Done { program, came, ended: now });
                if queued[program] < programs[program].count {
                    due.push((now + GAP_NS, program));
                }
                limited_left = limited_left.saturating_sub(u64::from(programs[program].count < u64::MAX));
            }
        }
        done
    }
}

/// Simulates a new run of several programs.
fn run(
    scheduler: &str,
    (depth, end): (usize, u64),
    programs: &[Program],
    service: impl FnMut(usize, &[usize]) -> u64,
) -> Vec<Done> {
    let mut driver = Driver::start(scheduler);
    Run { driver: &mut driver, depth, begin: 0, end, first_id: 0 }.run(programs, service)
}

/// Measures concurrent reads and writes on a device that serves them in parallel. A read issued while a write
/// is in flight takes `slower_ns` longer. Returns the mean slowdown of reads and writes relative to running
/// alone.
fn deep_slowdowns(slower_ns: u64) -> [f64; 2] {
    const SERVICE_NS: [u64; 2] = [160_000, 40_000];
    let programs = [Program { count: 1_000, ..READER }, WRITER];
    let scheduler = "scheduler smartio in_flight_max=32";
    let done = run(scheduler, (32, u64::MAX), &programs, |program, others| {
        SERVICE_NS[program] + if program == 0 && others.contains(&1) { slower_ns } else { 0 }
    });
    [0, 1].map(|program| {
        let of_program = done.iter().filter(|done| done.program == program);
        let sum: u64 = of_program.clone().map(Done::response_ns).sum();
        sum as f64 / (of_program.count() as u64 * SERVICE_NS[program]) as f64
    })
}

#[test]
fn writes_go_with_reads_where_they_cost_little() {
    skip_without!(Cc);
    let mut table = String::new();
    for slower_us in [0, 10, 100, 1_000] {
        let [reads, writes] = deep_slowdowns(slower_us * 1_000);
        table += &format!("reads {slower_us} µs slower: reads {reads:.2} times, writes {writes:.2} times\n");
    }
    expect_test::expect![[r#"
        reads 0 µs slower: reads 1.00 times, writes 1.00 times
        reads 10 µs slower: reads 1.03 times, writes 1.00 times
        reads 100 µs slower: reads 1.20 times, writes 15.35 times
        reads 1000 µs slower: reads 1.39 times, writes 66.40 times
    "#]]
    .assert_eq(&table);
}

/// Measures a reader and a writer on a device that serves one request at a time. Returns the slowdowns of
/// reads and writes according to the study's protocol: there are as many reads as writes, and the measured
/// time ends when the last request completes.
fn serial_slowdowns(scheduler: &str, service_ns: [u64; 2]) -> [f64; 2] {
    const REQUESTS: u64 = 2_000;
    let programs = [READER, WRITER].map(|program| Program { stride: SEQUENTIAL, count: REQUESTS, ..program });
    let done = run(scheduler, (1, u64::MAX), &programs, |program, _| service_ns[program]);
    [0, 1].map(|program| {
        let ended = done.iter().filter(|done| done.program == program).map(|done| done.ended).max();
        ended.unwrap_or_default() as f64 / (REQUESTS * (service_ns[program] + GAP_NS)) as f64
    })
}

#[test]
fn slowdowns_on_a_serial_device() {
    skip_without!(Cc);
    // The service times of the device in the study's Galaxy S5, with 10 µs of overhead.
    let cases = [("sequential", [72_000, 190_000]), ("random", [187_000, 410_000])];
    let policies = [
        ("the study alone", "scheduler smartio study in_flight_max=1"),
        ("with anticipation, without budget", "scheduler smartio in_flight_max=1 read_percent=0"),
        ("as it comes", "scheduler smartio in_flight_max=1"),
    ];
    let mut table = String::new();
    for (name, scheduler) in policies {
        for (what, service_ns) in cases {
            let [reads, writes] = serial_slowdowns(scheduler, service_ns);
            table += &format!("{name:<36} {what:<10}  reads {reads:.2}  writes {writes:.2}\n");
        }
    }
    expect_test::expect![[r#"
        the study alone                      sequential  reads 3.19  writes 1.31
        the study alone                      random      reads 3.03  writes 1.42
        with anticipation, without budget    sequential  reads 1.01  writes 1.41
        with anticipation, without budget    random      reads 1.02  writes 1.47
        as it comes                          sequential  reads 1.18  writes 1.40
        as it comes                          random      reads 1.19  writes 1.46
    "#]]
    .assert_eq(&table);
}

#[test]
fn levels_have_shares() {
    skip_without!(Cc);
    /// A group of programs: the priority level, the number of programs, and the number of reads in flight per
    /// program.
    type Group = (u64, usize, u64);
    let cases: [(&str, &[Group]); 5] = [
        ("one reader and four", &[(4, 1, 1), (4, 4, 1)]),
        ("one reader and four, three levels lower", &[(4, 1, 1), (7, 4, 1)]),
        ("two continuous readers, one level apart", &[(4, 1, 4), (5, 1, 4)]),
        ("two continuous readers, three levels apart", &[(1, 1, 4), (4, 1, 4)]),
        ("three levels", &[(3, 1, 4), (4, 1, 4), (5, 1, 4)]),
    ];
    let mut table = String::new();
    for (what, groups) in cases {
        for (how, settings) in [("shares", ""), ("slices", " has_level_slices=1")] {
            table += &format!("{what}, {how}\n");
            let mut programs = Vec::new();
            for (level, count, at_once) in groups {
                programs.extend(vec![Program { level: *level, at_once: *at_once, ..READER }; *count]);
            }
            let scheduler = format!("scheduler smartio in_flight_max=1{settings}");
            let done = run(&scheduler, (1, 1_000_000_000), &programs, |_, _| 150_000);
            let mut first = 0;
            for (level, programs, _) in groups {
                let group = first..first + programs;
                first = group.end;
                let responses =
                    done.iter().filter(|done| group.contains(&done.program)).map(Done::response_ns);
                let count = responses.clone().count() as u64;
                let mean = responses.clone().sum::<u64>() / count.max(1) / 1000;
                let longest = responses.max().unwrap_or_default() / 1000;
                table += &format!(
                    "  level {level}: {count:>6} reads, {mean:>6} µs mean, {longest:>6} µs maximum\n"
                );
            }
        }
    }
    expect_test::expect_file!["shares.txt"].assert_eq(&table);
}

/// Measures four readers that never end, on a device that is faster for its two most recent streams. Returns
/// the total reads per second and the longest response time in µs. Rate and response time are measured after
/// each reader has had its first turn.
fn endless(scheduler: &str, continued_ns: u64, stride: u64) -> (u64, u64) {
    const END_NS: u64 = 400_000_000;
    const SETTLED_NS: u64 = 200_000_000;
    let mut latest = [usize::MAX; 2];
    let reads = run(scheduler, (1, END_NS), &[Program { stride, ..READER }; 4], |stream, _| {
        let is_known = latest.contains(&stream);
        if latest[0] != stream {
            latest = [stream, latest[0]];
        }
        if is_known { continued_ns } else { 150_000 }
    });
    let late = reads.iter().filter(|read| read.ended >= SETTLED_NS);
    let longest = late.clone().map(Done::response_ns).max().unwrap_or_default();
    (late.count() as u64 * 1_000_000_000 / (END_NS - SETTLED_NS), longest / 1_000)
}

#[test]
fn turns_go_on_where_they_gain() {
    skip_without!(Cc);
    let cases = [
        ("sequential, faster if continued", 80_000, SEQUENTIAL),
        ("sequential, as fast if interrupted", 150_000, SEQUENTIAL),
        ("random", 150_000, RANDOM),
    ];
    let mut table = String::new();
    for (what, continued_ns, stride) in cases {
        for (how, settings) in [("turns", ""), ("none", " turn_wait_ns=0")] {
            let scheduler = format!("scheduler smartio in_flight_max=1{settings}");
            let (reads, longest) = endless(&scheduler, continued_ns, stride);
            table += &format!("{what:<36} {how:<6} {reads:>6} reads per second, {longest:>6} µs maximum\n");
        }
    }
    expect_test::expect![[r#"
        sequential, faster if continued      turns   12295 reads per second,  24750 µs maximum
        sequential, faster if continued      none     6670 reads per second,    590 µs maximum
        sequential, as fast if interrupted   turns    6670 reads per second,    590 µs maximum
        sequential, as fast if interrupted   none     6670 reads per second,    590 µs maximum
        random                               turns    6670 reads per second,    590 µs maximum
        random                               none     6670 reads per second,    590 µs maximum
    "#]]
    .assert_eq(&table);
}

/// Measures four programs with 50 random reads each. Returns the mean slowdown of a read relative to running
/// alone, and the longest response time in ms.
fn fifty(settings: &str, read_ns: u64) -> (f64, u64) {
    let mut driver = Driver::start(&format!("scheduler smartio in_flight_max=1{settings}"));
    let (mut now, mut next) = (0_u64, 0_u64);
    // At first, only one program reads. From its reads, the policy learns the service time of reads.
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
    let begin = now + 1_000_000_000;
    let reads = Run { driver: &mut driver, depth: 1, begin, end: u64::MAX, first_id: next }
        .run(&[Program { count: 50, ..READER }; 4], |_, _| read_ns);
    let responses = reads.iter().map(Done::response_ns);
    let (sum, longest): (u64, u64) = (responses.clone().sum(), responses.max().unwrap_or_default());
    (sum as f64 / (reads.len() as u64 * read_ns) as f64, longest / 1_000_000)
}

#[test]
fn turns_have_room_for_reads_on_slow_devices() {
    skip_without!(Cc);
    let mut table = String::new();
    for read_us in [150, 600, 3_000] {
        for (how, settings) in
            [("as it comes", ""), ("by time alone", " turn_reads=0"), ("no turns", " turn_wait_ns=0")]
        {
            let (times, longest) = fifty(settings, read_us * 1_000);
            table += &format!("{read_us} µs, {how}: {times:.2} times, {longest:>3} ms maximum\n");
        }
    }
    expect_test::expect![[r#"
        150 µs, as it comes: 2.94 times,  14 ms maximum
        150 µs, by time alone: 2.94 times,  14 ms maximum
        150 µs, no turns: 3.90 times,   0 ms maximum
        600 µs, as it comes: 2.99 times,  59 ms maximum
        600 µs, by time alone: 3.95 times,  23 ms maximum
        600 µs, no turns: 3.95 times,   2 ms maximum
        3000 µs, as it comes: 3.71 times,  95 ms maximum
        3000 µs, by time alone: 3.96 times,  20 ms maximum
        3000 µs, no turns: 3.97 times,  12 ms maximum
    "#]]
    .assert_eq(&table);
}
