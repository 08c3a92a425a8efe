//! Shares of the levels of a class, by the module's policy in user space, on a device that takes one request and serves a read
//! in 150 µs. All instants are virtual, so the figures are exact.

use std::collections::BTreeMap;

use fonio_testing::{Need, has};

use super::policy::Driver;

const READ_NS: u64 = 150_000;
/// The time from a completion to the next read of a program.
const GAP_NS: u64 = 10_000;
const END_NS: u64 = 1_000_000_000;

/// Programs of one level, each with `reads` random reads at a time.
struct Programs {
    level: u64,
    programs: u64,
    reads: u64,
}

/// Returns for each level the reads of all its programs, and the mean and the longest response in µs.
fn run(settings: &str, load: &[Programs]) -> Vec<(u64, u64, u64)> {
    let mut driver = Driver::start(&format!("scheduler smartio in_flight_max=1{settings}"));
    // By instant: who queues a read.
    let mut due: Vec<(u64, usize, u64)> = Vec::new();
    for (at, group) in load.iter().enumerate() {
        for process in 0..group.programs {
            due.extend((0..group.reads).map(|_| (0, at, process + at as u64 * 10)));
        }
    }
    let (mut now, mut next) = (0_u64, 0_u64);
    let mut waiting = BTreeMap::new();
    let mut serving: Option<(u64, u64)> = None;
    let mut results = vec![(0_u64, 0_u64, 0_u64); load.len()];
    while now < END_NS {
        let (ready, later): (Vec<_>, Vec<_>) = due.into_iter().partition(|(due, ..)| *due <= now);
        due = later;
        for (_, at, process) in ready {
            driver.event(&format!(
                "insert {now} id={next} read sync sector={} bytes=4096 process={process} be{}",
                next * 16,
                load[at].level
            ));
            waiting.insert(next, (now, at, process));
            next += 1;
        }
        if serving.is_none() {
            let answer = driver.event(&format!("dispatch {now}")).expect("an answer");
            serving = answer.parse().ok().map(|id| (id, now + READ_NS));
        }
        let end = serving.map(|(_, end)| end);
        now = due.iter().map(|(due, ..)| *due).chain(end).min().expect("something happens").max(now);
        if let Some((id, end)) = serving
            && end <= now
        {
            driver.event(&format!("complete {now} id={id}"));
            serving = None;
            let (came, at, process) = waiting.remove(&id).expect("it came");
            let (count, sum, longest) = &mut results[at];
            *count += 1;
            *sum += now - came;
            *longest = (*longest).max(now - came);
            due.push((now + GAP_NS, at, process));
        }
    }
    results
        .into_iter()
        .map(|(count, sum, longest)| (count, sum / count.max(1) / 1000, longest / 1000))
        .collect()
}

#[test]
fn levels_have_shares() {
    if !has(&[Need::Cc]) {
        return;
    }
    let one = |level| Programs { level, programs: 1, reads: 1 };
    let four = |level| Programs { level, programs: 4, reads: 1 };
    let busy = |level| Programs { level, programs: 1, reads: 4 };
    let cases = [
        ("one reader beside four", vec![one(4), four(4)]),
        ("one reader beside four, three levels lower", vec![one(4), four(7)]),
        ("two, always with reads, one level apart", vec![busy(4), busy(5)]),
        ("two, always with reads, three levels apart", vec![busy(1), busy(4)]),
        ("three levels", vec![busy(3), busy(4), busy(5)]),
    ];
    let mut table = String::new();
    for (what, load) in cases {
        for (how, settings) in [("shares", ""), ("slices", " has_level_slices=1")] {
            table += &format!("{what}, {how}\n");
            for (group, (count, mean, longest)) in load.iter().zip(run(settings, &load)) {
                table += &format!(
                    "  level {}: {count:>6} reads, {mean:>6} µs on average, {longest:>6} at most\n",
                    group.level
                );
            }
        }
    }
    expect_test::expect![[r#"
        one reader beside four, shares
          level 4:   1348 reads,    731 µs on average,  24890 at most
          level 4:   5319 reads,    741 µs on average,  28490 at most
        one reader beside four, slices
          level 4:   1348 reads,    731 µs on average,  24890 at most
          level 4:   5319 reads,    741 µs on average,  28490 at most
        one reader beside four, three levels lower, shares
          level 4:   3334 reads,    289 µs on average,    290 at most
          level 7:   3333 reads,   1189 µs on average,  28190 at most
        one reader beside four, three levels lower, slices
          level 4:     10 reads,  90186 µs on average, 100190 at most
          level 7:   6657 reads,    590 µs on average,  25190 at most
        two, always with reads, one level apart, shares
          level 4:   4445 reads,    889 µs on average,    900 at most
          level 5:   2222 reads,   1788 µs on average,   1790 at most
        two, always with reads, one level apart, slices
          level 4:   3335 reads,   1069 µs on average, 100640 at most
          level 5:   3332 reads,   1190 µs on average, 100650 at most
        two, always with reads, three levels apart, shares
          level 1:   5926 reads,    664 µs on average,    750 at most
          level 4:    741 reads,   5373 µs on average,   5390 at most
        two, always with reads, three levels apart, slices
          level 1:   3335 reads,   1069 µs on average, 100640 at most
          level 4:   3332 reads,   1190 µs on average, 100650 at most
        three levels, shares
          level 3:   3809 reads,   1039 µs on average,   1050 at most
          level 4:   1905 reads,   2087 µs on average,   2090 at most
          level 5:    953 reads,   4180 µs on average,   4190 at most
        three levels, slices
          level 3:   3335 reads,   1069 µs on average, 100640 at most
          level 4:   3332 reads,   1190 µs on average, 100650 at most
          level 5:      0 reads,      0 µs on average,      0 at most
    "#]]
    .assert_eq(&table);
}
