//! Measures the rates of false claims and of found effects, for series with a known effect and for recorded
//! slices.

use fonio_core::Random;
use proptest::prelude::*;

use super::*;

const LEVEL: f64 = 0.05;
const SERIES: u64 = 1000;
/// Number of pairs in the longest series: ten minutes of slices of 5 s, or an hour of slices of 30 s.
const PAIRS: usize = 60;

/// Generates the time blocked per second in 2 × [`PAIRS`] successive slices of a load.
type Load = fn(&mut Random) -> Vec<f64>;

/// Time blocked per second in successive slices that were recorded while no setting was changed. `cargo
/// studies live --slices` prints a list in this format.
const RECORDED: &str = include_str!("recorded.txt");

/// Returns randomly chosen blocks of successive recorded slices of one load. Each block preserves the
/// recorded autocorrelation.
fn recorded(random: &mut Random, load: &str) -> Vec<f64> {
    const BLOCK: usize = 6;
    let of_load = |line: &'static str| line.strip_prefix(load);
    let tests: Vec<Vec<f64>> = RECORDED
        .lines()
        .filter_map(of_load)
        .map(|line| line.split_whitespace().map(|word| word.parse().expect("a number")).collect())
        .collect();
    let mut series = Vec::new();
    while series.len() < 2 * PAIRS {
        let test = &tests[random.below(tests.len() as u64) as usize];
        let from = random.below((test.len() - BLOCK) as u64 + 1) as usize;
        series.extend(&test[from..from + BLOCK]);
    }
    series
}

fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0
}

/// Each slice depends on the previous one, because a busy load stays busy for some time.
fn wandering(random: &mut Random, memory: f64) -> Vec<f64> {
    let mut at = 0.0;
    let step = |_| {
        at = memory * at + normal(random);
        0.1 * libm::exp(0.5 * at)
    };
    (0..2 * PAIRS).map(step).collect()
}

const LOADS: [(&str, Load); 9] = [
    ("recorded, calm", |random| recorded(random, "calm")),
    ("recorded, in bursts", |random| recorded(random, "bursts")),
    ("independent", |random| wandering(random, 0.0)),
    ("autocorrelated", |random| wandering(random, 0.9)),
    ("a random walk", |random| wandering(random, 1.0)),
    // The reciprocal of a uniform number has no mean.
    ("heavy tails", |random| (0..2 * PAIRS).map(|_| 0.01 / (1.0 - random.uniform())).collect()),
    ("rare stalls", |random| {
        (0..2 * PAIRS).map(|_| if random.below(10) == 0 { 2.0 } else { 1e-3 * random.uniform() }).collect()
    }),
    ("a trend", |random| {
        (0..2 * PAIRS).map(|at| 0.01 * (1.0 + at as f64) * libm::exp(0.1 * normal(random))).collect()
    }),
    // Every second slice is busy. If the order within a pair were fixed, this would look like an effect.
    ("as periodic as the slices", |_| (0..2 * PAIRS).map(|at| if at % 2 == 0 { 0.1 } else { 0.2 }).collect()),
];

/// Returns the number of pairs after which a difference is claimed, if the setting multiplies times by
/// `factor`.
fn claimed(series: &[f64], factor: f64, random: &mut Random) -> Option<usize> {
    let mut capital = Capital::new();
    series.chunks_exact(2).position(|pair| {
        let (without, with) = if random.below(2) == 0 { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
        capital.bet(libm::log((factor * with + 1e-4) / (without + 1e-4)));
        capital.total() >= 1.0 / LEVEL
    })
}

#[test]
fn a_setting_without_effect_is_called_different_in_at_most_5_percent_of_series() {
    for (name, load) in LOADS {
        let claims = (0..SERIES)
            .filter(|seed| {
                let mut random = Random::labelled(*seed, name);
                claimed(&load(&mut random), 1.0, &mut random).is_some()
            })
            .count();
        println!("{name}: {claims} false claims in {SERIES} series");
        assert!(claims as f64 <= LEVEL * SERIES as f64, "{name}: {claims} false claims in {SERIES} series");
    }
}

#[test]
fn an_effect_of_20_percent_is_found_in_as_many_pairs_as_said() {
    for deviation in [0.05, 0.15, 0.3, 0.5] {
        let said = needed(libm::log(0.8), deviation, LEVEL, 1000).expect("fewer than 1000");
        let is_found = |seed: u64| {
            let mut random = Random::labelled(seed, "power");
            let mut capital = Capital::new();
            (0..said).any(|_| {
                capital.bet(libm::log(0.8) + deviation * normal(&mut random));
                capital.total() >= 1.0 / LEVEL
            })
        };
        let found = (0..SERIES).filter(|seed| is_found(*seed)).count();
        println!("deviation {deviation}: difference found within {said} pairs in {found} of {SERIES} series");
        assert!((740..=1000).contains(&found), "{deviation}: found in {found} of {SERIES}, {said} pairs");
    }
}

/// A steady load shows an effect of 20 percent in minutes. A bursty load rarely shows an effect of this size,
/// as `needed` predicts.
#[test]
fn an_effect_of_20_percent_on_recorded_slices() {
    for (load, least) in [("calm", 950), ("bursts", 300)] {
        let mut pairs: Vec<usize> = (0..SERIES)
            .filter_map(|seed| {
                let mut random = Random::labelled(seed, "effect");
                claimed(&recorded(&mut random, load), 0.8, &mut random).map(|at| at + 1)
            })
            .collect();
        pairs.sort_unstable();
        let median = pairs[pairs.len() / 2];
        println!(
            "{load}: difference found in {} of {SERIES} series of {PAIRS} pairs, after a median of {median} pairs",
            pairs.len()
        );
        assert!(pairs.len() >= least, "{load}: {} of {SERIES}", pairs.len());
    }
}

#[test]
fn six_equal_signs_are_the_least() {
    let after = |count: usize| {
        let mut capital = Capital::new();
        (0..count).for_each(|_| capital.bet(-0.3));
        capital.total() >= 1.0 / LEVEL
    };
    assert!(!after(5) && after(6));
}

/// Enumerates all sequences of signs for some magnitudes. The capital reaches 20 in at most one of twenty
/// sequences.
#[test]
fn of_all_sequences_of_signs_at_most_one_in_twenty_wins() {
    for magnitudes in [
        [1.0; 12],
        std::array::from_fn(|at| 1.0 + at as f64),
        std::array::from_fn(|at| if at == 7 { 99.0 } else { 0.5 }),
    ] {
        let wins = (0..1_u32 << 12)
            .filter(|signs| {
                let mut capital = Capital::new();
                magnitudes.iter().enumerate().any(|(at, magnitude)| {
                    capital.bet(if signs >> at & 1 == 0 { *magnitude } else { -magnitude });
                    capital.total() >= 1.0 / LEVEL
                })
            })
            .count();
        assert!(wins * 20 <= 1 << 12, "{wins} of {} for {magnitudes:?}", 1 << 12);
        assert!(wins > 0, "some sequence wins");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A search over a fine grid finds the same interval, which consists of the centres against which no
    /// gambler wins.
    #[test]
    fn the_interval_holds_what_is_not_refuted(
        values in prop::collection::vec(-2.0..2.0_f64, 1..25),
        centre in -3.0..3.0_f64,
    ) {
        let Interval { low, value, high } = interval(&values, LEVEL);
        prop_assert!(low <= value && value <= high);
        // Near an end of the interval, the search may miss a gap or an island that is narrower than a step.
        let step = 12.0 / f64::from(STEPS);
        if against(&values, centre) < 1.0 / LEVEL {
            prop_assert!(low - step <= centre && centre <= high + step, "{} not in {} to {}", centre, low, high);
        }
    }

    /// Scaling the values or exchanging the two sides does not change the answer.
    #[test]
    fn exchange_and_shift(values in prop::collection::vec(-2.0..2.0_f64, 1..20)) {
        let found = interval(&values, LEVEL);
        let exchanged = interval(&values.iter().map(|value| -value).collect::<Vec<f64>>(), LEVEL);
        let near = |a: f64, b: f64| a == b || (a - b).abs() < 0.01;
        prop_assert!(near(found.low, -exchanged.high) && near(found.high, -exchanged.low), "{:?} {:?}", found, exchanged);
        let shifted = interval(&values.iter().map(|value| value + 1.0).collect::<Vec<f64>>(), LEVEL);
        prop_assert!(near(found.low + 1.0, shifted.low) && near(found.high + 1.0, shifted.high), "{:?} {:?}", found, shifted);
    }
}
