//! Checks that the policy of the SmartIO module with the study's settings makes the same decisions as the
//! model of the study in `fonio-sim`. Where the study leaves a choice open (docs/scheduler.md), the policy
//! and the model differ. The inputs of these tests do not reach such choices.

use fonio_core::Random;
use fonio_sim::scheduler::vectors;
use fonio_testing::skip_without;

use super::policy::Driver;

/// Number of random inputs, and number of events in each input.
const INPUTS: u64 = 40;
const EVENTS: u64 = 1_000;

/// The kinds of random inputs.
#[derive(Clone, Copy, Debug)]
enum Family {
    /// Requests of one priority, on any sectors. The concurrency limits are so high that no input reaches
    /// them, because the policy and the model recognise sequential requests differently.
    OnePriority,
    /// Requests of one priority, with small limits; each process reads sequentially and writes randomly.
    Limits,
    /// Real-time reads during best-effort reads and writes, with one level each.
    TwoClasses,
}

fn request(random: &mut Random, family: Family, ends: &mut [u64; 3]) -> String {
    let process = random.below(3) as usize;
    let is_write = random.below(2) == 0;
    let sectors = 8 << random.below(4);
    let is_sequential = match family {
        Family::OnePriority => random.below(2) == 0,
        Family::Limits => !is_write,
        Family::TwoClasses => false,
    };
    let sector = if is_sequential { ends[process] } else { (1 << 34) + random.below(1 << 30) * 8 };
    if is_sequential {
        ends[process] += sectors;
    }
    let is_real_time = matches!(family, Family::TwoClasses) && process == 0 && !is_write;
    format!(
        "{} {} sector={sector} bytes={} process={process} {}",
        if is_write { "write" } else { "read" },
        if !is_write || random.below(2) == 0 { "sync" } else { "async" },
        sectors * 512,
        if is_real_time { "rt4" } else { "be4" }
    )
}

/// Runs random inputs through the policy and through the model. Returns the number of dispatched requests.
fn same_decisions(family: Family, seed: u64) -> usize {
    let mut random = Random::new(seed);
    let limit =
        |random: &mut Random| if matches!(family, Family::Limits) { 1 + random.below(4) } else { 1_000_000 };
    let settings = format!(
        "seq_read={} rand_read={} seq_write={} rand_write={} quantum=1000000",
        limit(&mut random),
        limit(&mut random),
        limit(&mut random),
        limit(&mut random)
    );
    let mut policy = Driver::start(&format!("scheduler smartio study {settings}"));
    let mut in_flight: Vec<String> = Vec::new();
    let (mut now, mut next, mut went) = (0_u64, 0_u64, 0);
    let mut ends = [1_000_000, 2_000_000, 3_000_000];
    for _ in 0..EVENTS {
        match random.below(8) {
            0..=2 => {
                let request = request(&mut random, family, &mut ends);
                policy.event(&format!("insert {now} id={next} {request}"));
                next += 1;
            }
            3..=4 => {
                let answer = policy.event(&format!("dispatch {now}")).expect("an answer");
                if answer != "none" {
                    in_flight.push(answer);
                    went += 1;
                }
            }
            5..=6 if !in_flight.is_empty() => {
                let at = random.below(in_flight.len() as u64) as usize;
                let id = in_flight.remove(at);
                policy.event(&format!("complete {now} id={id}"));
            }
            // With steps of this size, the complete input ends within a slice of 100 ms.
            _ => now += random.below(90_000),
        }
    }
    assert!(now < 100_000_000);
    policy.said[0] = format!("scheduler smartio {settings}");
    let inputs: String = policy.said.iter().map(|line| format!("{line}\n")).collect();
    let model =
        vectors::answer(&inputs).unwrap_or_else(|error| panic!("{family:?}, seed {seed}: {error}\n{inputs}"));
    if let Some((at, (policy, model))) =
        inputs.lines().zip(model.lines()).enumerate().find(|(_, (one, other))| one != other)
    {
        panic!(
            "{family:?}, seed {seed}, line {}: the policy says `{policy}`, the model `{model}`\n{inputs}",
            at + 1
        );
    }
    went
}

#[test]
fn the_policy_decides_as_the_model_of_the_study() {
    skip_without!(Cc);
    for family in [Family::OnePriority, Family::Limits, Family::TwoClasses] {
        let went: usize = (0..INPUTS).map(|seed| same_decisions(family, seed)).sum();
        assert!(went > 5_000, "{family:?}: only {went} requests were dispatched");
    }
}
