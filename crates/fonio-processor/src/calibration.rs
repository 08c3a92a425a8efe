//! The share of this machine's processor that is as fast as another processor.
//!
//! Each test with a published result gives a share: the published speed divided by this machine's speed. The
//! shares differ, because processors differ in more than their speed. The share that is used is the
//! geometric mean of the integer and the compression test, whose work is most like a program's. The other
//! tests only widen the range of the error: a share slows computation and memory alike, but the memory of an
//! old machine is not as slow as its processor.

use serde::{Deserialize, Serialize};

use crate::processor::{LeftOut, Processor, ProcessorError, Test};
use crate::speeds::{Rates, Speeds};

/// The smallest share of a processor that control groups can hold (1 ms in 100 ms).
const SHARE_LEAST: f64 = 0.01;
/// A processor that is faster than this machine's by at most this factor is imitated by all of this machine's: the
/// difference is below the error of a share.
const FASTER_AT_MOST: f64 = 1.05;
/// The tests whose geometric mean is the share.
const USED: [Test; 2] = [Test::Integer, Test::Compression];

/// The share that one test gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestShare {
    /// The test.
    pub test: Test,
    /// The published result: the geometric mean if there are several.
    pub published: f64,
    /// The result of this machine.
    pub here: f64,
    /// The unit of both results.
    pub unit: String,
    /// The published speed as a share of this machine's.
    pub share: f64,
    /// The addresses of the published results.
    pub sources: Vec<String>,
}

/// A processor as a share of this machine's processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The name of the processor.
    pub name: String,
    /// The machine and its processor.
    pub machine: String,
    /// The number of cores.
    pub cores: u32,
    /// The share of one processor of this machine that is as fast as one core.
    pub share: f64,
    /// The smallest share that a test gives, divided by `share`, minus 1: zero or less.
    pub error_low: f64,
    /// The largest share that a test gives, divided by `share`, minus 1: zero or more.
    pub error_high: f64,
    /// The share that each test gives.
    pub tests: Vec<TestShare>,
    /// The tests without a published result.
    pub left_out: Vec<LeftOut>,
    /// The speeds of the short tests with a complete processor.
    pub full: Rates,
}

impl Calibration {
    /// Computes the share of a processor from the `speeds` of this machine. A share of 1 to 1.05 becomes 1, and the
    /// difference a part of the error. Fails if the share is not between 0.01 and 1.05.
    pub fn of(processor: &Processor, speeds: &Speeds) -> Result<Calibration, ProcessorError> {
        let tests: Vec<TestShare> =
            Test::ALL.iter().filter_map(|test| test_share(processor, speeds, *test)).collect();
        let used = tests.iter().filter(|of| USED.contains(&of.test)).map(|of| of.share);
        let share = mean(used);
        let name = || processor.name.clone();
        if share > FASTER_AT_MOST {
            return Err(ProcessorError::TooSlow { name: name(), times: share });
        }
        if share < SHARE_LEAST {
            return Err(ProcessorError::TooFast { name: name(), share, least: SHARE_LEAST });
        }
        let share = share.min(1.0);
        let errors = || tests.iter().map(|of| of.share / share - 1.0);
        Ok(Calibration {
            name: name(),
            machine: processor.machine.clone(),
            cores: processor.cores,
            share,
            error_low: errors().fold(0.0, f64::min),
            error_high: errors().fold(0.0, f64::max),
            left_out: processor.left_out.clone(),
            full: speeds.rates,
            tests,
        })
    }

    /// Returns a clause on the share and its error.
    pub fn told(&self) -> String {
        let cores = if self.cores == 1 { "core" } else { "cores" };
        let tests: Vec<String> = self.tests.iter().map(|of| format!("{} {:.2}", of.test, of.share)).collect();
        let missing: Vec<String> = self.left_out.iter().map(|left_out| left_out.test.to_string()).collect();
        let missing = match &missing[..] {
            [] => String::new(),
            missing => format!("; no published result for {}", missing.join(", ")),
        };
        format!(
            "with the processor of a {}: {} {cores} at {:.2} of a processor here; single tests differ from this by {:.0} % \
             to {:+.0} % ({}{missing})",
            self.machine,
            self.cores,
            self.share,
            self.error_low * 100.0,
            self.error_high * 100.0,
            tests.join(", "),
        )
    }
}

fn test_share(processor: &Processor, speeds: &Speeds, test: Test) -> Option<TestShare> {
    let here = speeds.of(test)?;
    let of_test = || processor.published.iter().filter(|published| published.test == test);
    of_test().next()?;
    let published = mean(of_test().map(|published| published.result));
    let ratio = published / here;
    Some(TestShare {
        test,
        published,
        here,
        unit: test.unit().to_owned(),
        share: if test.more_is_faster() { ratio } else { 1.0 / ratio },
        sources: of_test().map(|published| published.source.clone()).collect(),
    })
}

/// Returns the geometric mean of at most a few numbers.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().product::<f64>().powf(1.0 / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;
    use crate::processor::SHIPPED;

    const FULL: Rates = Rates { integer: 4e7, memory: 1e7, sqlite: 2e5 };
    /// A machine that is exactly as fast as the published Raspberry Pi 4 of 2021.
    const PI_4: Speeds =
        Speeds { integer_mips: 2007.0, compression_mips: 1314.0, memory_ns: 142.8, rates: FULL };

    fn speeds(times: f64) -> Speeds {
        Speeds {
            integer_mips: PI_4.integer_mips * times,
            compression_mips: PI_4.compression_mips * times,
            memory_ns: PI_4.memory_ns / times,
            rates: FULL,
        }
    }

    fn of(name: &str, speeds: &Speeds) -> Result<Calibration, ProcessorError> {
        Calibration::of(&name.parse().expect("it is shipped"), speeds)
    }

    #[test]
    fn the_sentence_has_the_share_its_error_and_what_is_missing() {
        let told = |name: &str| of(name, &speeds(2.0)).expect("it is slower").told();
        let all: String = SHIPPED.iter().map(|name| format!("{name}: {}\n", told(name))).collect();
        expect![[r#"
            nexus-one: with the processor of a Google Nexus One (QSD8250, Scorpion, 1 GHz): 1 core at 0.17 of a processor here; single tests differ from this by -3 % to +3 % (integer 0.17, compression 0.16; no published result for memory, SQLite)
            pi-zero: with the processor of a Raspberry Pi Zero (BCM2835, ARM1176, 1 GHz): 1 core at 0.13 of a processor here; single tests differ from this by -11 % to +106 % (integer 0.15, compression 0.12, memory 0.27; no published result for SQLite)
            pi-4: with the processor of a Raspberry Pi 4 B (BCM2711, Cortex-A72, 1.5 GHz): 4 cores at 0.49 of a processor here; single tests differ from this by -2 % to +0 % (integer 0.49, compression 0.49, memory 0.48; no published result for SQLite)
        "#]]
        .assert_eq(&all);
    }

    #[test]
    fn a_machine_that_is_a_little_too_slow_gives_all_of_its_processor() {
        let calibration = of("pi-4", &speeds(0.97)).expect("within the tolerance");
        assert_eq!(calibration.share, 1.0);
        let error = calibration.tests.iter().map(|of| of.share).fold(0.0, f64::max) - 1.0;
        assert!((calibration.error_high - error).abs() < 1e-9 && error > 0.01, "{calibration:?}");
    }

    #[test]
    fn a_machine_that_is_too_slow_or_too_fast_is_refused() {
        let refused = |name: &str, times: f64| of(name, &speeds(times)).expect_err("refused").to_string();
        expect!["this machine cannot imitate pi-4: one of its cores is 1.96 times as fast as a processor here; use a slower one, or leave out --cpu"].assert_eq(&refused("pi-4", 0.5));
        expect!["this machine cannot imitate pi-zero: one of its cores is only 0.0027 of a processor here, and the smallest share is 0.01"].assert_eq(&refused("pi-zero", 100.0));
    }

    proptest! {
        /// A machine that is N times as fast needs an N-th of the share, whatever the errors are.
        #[test]
        fn the_share_is_inverse_to_the_speed(times in 1.1_f64..20.0) {
            for name in SHIPPED {
                let (once, faster) = (of(name, &speeds(1.1)), of(name, &speeds(1.1 * times)));
                let (Ok(once), Ok(faster)) = (once, faster) else { continue };
                if once.share == 1.0 {
                    continue;
                }
                prop_assert!((once.share / faster.share / times - 1.0).abs() < 1e-9);
                prop_assert!((once.error_low - faster.error_low).abs() < 1e-9);
                prop_assert!((once.error_high - faster.error_high).abs() < 1e-9);
            }
        }

        /// The share lies between the shares of the tests that it uses, and the error covers every test.
        #[test]
        fn the_error_covers_every_test(
            integer_mips in 800.0_f64..20_000.0,
            compression_mips in 500.0_f64..20_000.0,
            memory_ns in 20.0_f64..400.0,
        ) {
            let here = Speeds { integer_mips, compression_mips, memory_ns, rates: FULL };
            let Ok(calibration) = of("pi-zero", &here) else { return Ok(()) };
            let used: Vec<f64> = calibration
                .tests
                .iter()
                .filter(|of| USED.contains(&of.test))
                .map(|of| of.share)
                .collect();
            prop_assert_eq!(used.len(), USED.len());
            let within = 1e-9;
            prop_assert!(calibration.share == 1.0 || used.iter().any(|share| *share <= calibration.share * (1.0 + within)));
            prop_assert!(used.iter().any(|share| *share >= calibration.share * (1.0 - within)));
            prop_assert!(calibration.error_low <= 0.0 && calibration.error_high >= 0.0);
            for of in &calibration.tests {
                let deviation = of.share / calibration.share - 1.0;
                prop_assert!(deviation >= calibration.error_low - within, "{of:?}");
                prop_assert!(deviation <= calibration.error_high + within, "{of:?}");
            }
        }
    }
}
