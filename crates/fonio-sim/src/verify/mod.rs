//! Compares a profile with published numbers.
//!
//! Each check has an [`Origin`], the origin of its number. Only predicted numbers are scored as agreeing or
//! differing. For numbers that a fit used, or that follow from such numbers, the report shows only the
//! deviation.

mod origin;

use fonio_core::statistics::sample::median;
use fonio_core::{Access, ByteCount, Op};

pub use origin::{Class, Derivation, Origin};

use crate::device::Device;
use crate::device::raid0::{Raid0, STRIPE};
use crate::fit::Target;
use crate::measure::{Gives, Order, Protocol, SEED};
use crate::profile::{Profile, ProfileError};
use crate::published::{
    CARD_RANGE, CARDS, CLASSES, Card, Four, FourByFour, RAZR_4X4, S5_4X4, Shape, samsung_s5,
};
use crate::scheduler::Policy;
use crate::study::Setup;

/// A published number or statement and the model's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The name of the measured quantity.
    pub what: String,
    /// The published number or statement, with its unit.
    pub published: String,
    /// The result that the model gives.
    pub given: String,
    /// The published number and the model's number; `None` if they do not have the same unit.
    pub numbers: Option<(f64, f64)>,
    /// The origin of the published number.
    pub origin: Origin,
    /// Whether the model's result is within the tolerance.
    pub within: bool,
    /// The maximum allowed deviation and, if relevant, how the number was measured.
    pub tolerance: String,
}

impl Check {
    /// Returns the model's number divided by the published number, if both are numbers.
    pub fn ratio(&self) -> Option<f64> {
        self.numbers.map(|(published, given)| given / published)
    }

    /// Returns the result of the check for the profile.
    pub fn outcome(&self) -> Outcome {
        match (self.origin, self.within) {
            (Origin::Predicted, true) => Outcome::Agrees,
            (Origin::Predicted, false) => Outcome::Differs,
            (Origin::Fitted, _) => Outcome::Fitted,
            (Origin::Derived(_), _) => Outcome::Derived,
        }
    }
}

/// The result of a check for a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The model agrees with a predicted number.
    Agrees,
    /// The model disagrees with a predicted number.
    Differs,
    /// The fit used the number.
    Fitted,
    /// The number follows from other numbers, or the profile's author knew it when choosing the profile's
    /// numbers.
    Derived,
}

impl Outcome {
    /// Returns the outcome's name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Agrees => "agrees",
            Outcome::Differs => "differs",
            Outcome::Fitted => "fitted",
            Outcome::Derived => "derived",
        }
    }
}

/// Numbers of checks in a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of all checks in the class.
    pub checks: usize,
    /// Number of checks in which the model's result is within the tolerance.
    pub within: usize,
}

impl Tally {
    /// Counts the checks of a class.
    pub fn of<'a>(class: Class, checks: impl IntoIterator<Item = &'a Check>) -> Tally {
        let mut tally = Tally::default();
        for check in checks.into_iter().filter(|check| check.origin.class() == class) {
            tally.checks += 1;
            tally.within += usize::from(check.within);
        }
        tally
    }
}

/// The largest allowed deviation. Published numbers have three digits, and runs on one card differ by a few
/// percent.
const TOLERANCE: f64 = 0.05;

/// The tolerance for a number that also depends on a scheduler.
const SCHEDULER_TOLERANCE: f64 = 0.15;

/// The ratio of desktop throughput to phone throughput varies between the cards by about this share.
const HOST_TOLERANCE: f64 = 0.25;

/// A published 0.01 can mean 0.005 to 0.015.
const ROUNDING_MB_S: f64 = 0.005;

/// Published rates below this rate have one significant digit.
const ONE_DIGIT_MB_S: f64 = 0.1;

/// Compares a profile with all published numbers of its device, if there are any. Fails if no device can be
/// made from the profile.
pub fn verify(profile: &Profile) -> Result<Vec<Check>, ProfileError> {
    let mut checks = Vec::new();
    if let Some(card) = CARDS.iter().find(|card| card.name == profile.name()) {
        numbers(profile, card.phone_numbers(), &mut checks)?;
        shape(profile, card, &mut checks)?;
        raid(profile, card, &mut checks)?;
        desktop(profile, card, &mut checks)?;
    }
    if profile.name() == "samsung_s5" {
        numbers(profile, samsung_s5(), &mut checks)?;
        interference(profile, &mut checks)?;
        four_by_four(profile, &S5_4X4, &mut checks)?;
        peaks(profile, "smartio.concurrency s5", [2, 4, 4, 2], &mut checks)?;
    }
    if profile.name() == "razr" {
        peaks(profile, "smartio.concurrency razr", [2, 2, 2, 2], &mut checks)?;
        four_by_four(profile, &RAZR_4X4, &mut checks)?;
    }
    for class in CLASSES.iter().filter(|class| class.name == profile.name()) {
        numbers(profile, class.numbers(), &mut checks)?;
    }
    Ok(checks)
}

fn unit(gives: Gives) -> &'static str {
    match gives {
        Gives::Throughput => "MB/s",
        Gives::Iops => "/s",
        Gives::Response | Gives::ResponseDuring(_) => "µs",
        Gives::Speedup(_) => "×",
    }
}

/// Compares numbers that the profile may have been fitted to.
fn numbers(
    profile: &Profile,
    targets: impl IntoIterator<Item = Target>,
    checks: &mut Vec<Check>,
) -> Result<(), ProfileError> {
    for Target { protocol, wanted, to, .. } in targets {
        let given = protocol.run(profile)?;
        let origin = Origin::by_profile(profile, &to);
        checks.push(compared(to, (wanted, given), unit(protocol.gives), origin, TOLERANCE));
    }
    Ok(())
}

/// Compares two numbers with the same unit; `tolerance` is a share of the published number.
fn compared(
    what: String,
    (published, given): (f64, f64),
    unit: &str,
    origin: Origin,
    tolerance: f64,
) -> Check {
    let rounded = unit == "MB/s" && published < ONE_DIGIT_MB_S;
    let (within, tolerance) = if rounded {
        let within = (given - published).abs() <= ROUNDING_MB_S;
        (within, format!("the published number has one digit: ± {ROUNDING_MB_S} MB/s"))
    } else {
        ((given / published - 1.0).abs() <= tolerance, format!("± {:.0} %", tolerance * 100.0))
    };
    Check {
        what,
        published: format!("{published} {unit}"),
        given: format!("{} {unit}", digits(given)),
        numbers: Some((published, given)),
        origin,
        within,
        tolerance,
    }
}

/// Compares the model with a published statement that contains no number.
fn stated(
    what: String,
    published: &str,
    given: String,
    origin: Origin,
    within: bool,
    tolerance: &str,
) -> Check {
    let (published, tolerance) = (published.to_owned(), tolerance.to_owned());
    Check { what, published, given, numbers: None, origin, within, tolerance }
}

/// Formats a number with three or four digits, as published.
fn digits(number: f64) -> String {
    match number {
        large if large >= 1000.0 => format!("{large:.0}"),
        large if large >= 100.0 => format!("{large:.1}"),
        middle if middle >= 1.0 => format!("{middle:.2}"),
        small => format!("{small:.4}"),
    }
}

/// Checks the numbers on the desktop. A card's profile does not include the desktop as a host. The desktop's
/// effect is estimated from the other seven cards: for each of them, the published desktop throughput is
/// divided by the published phone throughput, and the median of these ratios is taken. Since the card's
/// number on the phone was fitted, multiplying that number by the median gives the number on the desktop
/// without the simulator.
fn desktop(profile: &Profile, card: &Card, checks: &mut Vec<Check>) -> Result<(), ProfileError> {
    let all = |four: Four| [four.seq_write, four.seq_read, four.rand_write, four.rand_read];
    let accesses = [Access::SeqWrite, Access::SeqRead, Access::RandWrite, Access::RandRead];
    for (at, (number, access)) in card.phone_numbers().into_iter().zip(accesses).enumerate() {
        let others = CARDS.iter().filter(|other| other.name != card.name);
        let ratios: Vec<f64> = others.map(|other| all(other.desktop)[at] / all(other.phone)[at]).collect();
        let host = median(&ratios).expect("there are other cards");
        let given = number.protocol.run(profile)? * host;
        let origin = Origin::Derived(Derivation::TableRatio);
        let what = card.number_name("desktop", access);
        let check = compared(what, (all(card.desktop)[at], given), "MB/s", origin, HOST_TOLERANCE);
        let tolerance = format!(
            "{}; on the other seven cards, the card reader reaches {host:.2} of the phone's rate",
            check.tolerance
        );
        checks.push(Check { tolerance, ..check });
    }
    Ok(())
}

/// Returns the throughput of 4 KiB random writes in MB/s for each range, after 1 GB was written sequentially.
/// Fails if no device can be made from the profile.
pub fn address_range(profile: &Profile, ranges: &[ByteCount]) -> Result<Vec<f64>, ProfileError> {
    ranges.iter().map(|range| Protocol::kim_random(Op::Write, *range).run(profile)).collect()
}

/// Returns the ranges over which a shape is determined: the powers of two from 1 MiB to 4 GiB. The study
/// shows its ranges only in a figure.
pub fn ranges() -> Vec<ByteCount> {
    (20..=32).map(|power| ByteCount(1 << power)).collect()
}

/// A doubling of the range counts as a drop if less than this share of the throughput remains.
const DROP: f64 = 0.9;

/// A single doubling of the range is a hard drop if less than this share of the throughput remains.
const HARD: f64 = 0.35;

/// Returns the shape of a curve, from the share of the throughput that remains after each doubling of the
/// range.
pub fn shape_of(ranges: &[ByteCount], throughput: &[f64]) -> Option<Shape> {
    let kept: Vec<f64> = throughput.windows(2).map(|pair| pair[1] / pair[0]).collect();
    let worst = kept.iter().copied().fold(1.0, f64::min);
    let lowest = throughput.iter().copied().fold(f64::MAX, f64::min);
    let last = throughput.last().copied()?;
    if lowest / throughput.first()? >= DROP {
        return Some(Shape::Flat);
    }
    if worst < HARD {
        // For a hard drop, the end of the curve must be low and flat.
        return (last / lowest < 1.1 && kept.last().is_some_and(|kept| *kept > DROP))
            .then_some(Shape::HardDrop);
    }
    // The throughput has two drops with a flat part between them: the first above 32 MiB, the second above 1
    // GiB.
    let level = |from: u64, to: u64| {
        let within = ranges.iter().zip(throughput).filter(|(range, _)| (from..=to).contains(&range.0));
        let values: Vec<f64> = within.map(|(_, value)| *value).collect();
        values.iter().copied().fold(f64::MAX, f64::min) / values.iter().copied().fold(0.0, f64::max)
    };
    let first_of = |range: u64| ranges.iter().position(|of| of.0 == range).map(|at| throughput[at]);
    let (start, middle) = (first_of(32 << 20)?, first_of(1 << 30)?);
    let two = level(1 << 20, 32 << 20) > DROP
        && level(256 << 20, 1 << 30) > DROP
        && middle / start < DROP
        && last / middle < DROP;
    Some(if two { Shape::TwoDrops } else { Shape::MildDrop })
}

fn shape(profile: &Profile, card: &Card, checks: &mut Vec<Check>) -> Result<(), ProfileError> {
    let ranges = ranges();
    let throughput = address_range(profile, &ranges)?;
    let given = shape_of(&ranges, &throughput);
    let agrees = given == Some(card.shape);
    let ends = format!(
        "{} MB/s over 1 MiB, {} over 32 MiB, {} over 1 GiB, {} over 4 GiB",
        digits(throughput[0]),
        digits(throughput[5]),
        digits(throughput[10]),
        digits(throughput[12]),
    );
    let what = format!("kim-f15 {} random writes over a growing range", card.name);
    let origin = Origin::by_profile(profile, &what);
    let (published, given) = (shape_name(Some(card.shape)), format!("{}: {ends}", shape_name(given)));
    checks.push(stated(what, published, given, origin, agrees, "the study only describes the shape"));
    Ok(())
}

fn shape_name(shape: Option<Shape>) -> &'static str {
    match shape {
        Some(Shape::Flat) => "flat",
        Some(Shape::MildDrop) => "mild drop",
        Some(Shape::TwoDrops) => "two drops, at 32 MB and 1024 MB",
        Some(Shape::HardDrop) => "hard drop, then flat",
        None => "none of the published shapes",
    }
}

/// Returns the gain of RAID-0 with two devices of this profile, for 4 KiB random writes over `range` with
/// `depth` requests in flight. Fails if no device can be made from the profile.
pub fn raid_gain(profile: &Profile, range: ByteCount, depth: u32) -> Result<f64, ProfileError> {
    let protocol = Protocol { depth, ..Protocol::kim_random(Op::Write, range) };
    let alone = protocol.run(profile)?;
    let raid = protocol.run_on(|| -> Result<Box<dyn Device>, ProfileError> {
        let members = vec![profile.device(None, SEED)?, profile.device(None, SEED + 1)?];
        Ok(Box::new(Raid0::new(members, STRIPE)))
    })?;
    Ok(raid / alone)
}

fn raid(profile: &Profile, card: &Card, checks: &mut Vec<Check>) -> Result<(), ProfileError> {
    // At depth 1, only one device works at a time, so the gain comes only from the halved range.
    let mut best = (0.0, ByteCount(0));
    for range in ranges().into_iter().take(8) {
        let gain = raid_gain(profile, range, 1)?;
        if gain > best.0 {
            best = (gain, range);
        }
    }
    let (gain, range) = best;
    let given = format!("{} × at most, over {} MiB", digits(gain), range.0 >> 20);
    let what =
        format!("kim 5.3 {} RAID-0 of two, one write at a time: gain from the halved range", card.name);
    let (published, agrees) = match card.shape {
        Shape::HardDrop => ("above 2 for some cards, because each device has half the range", gain > 2.0),
        Shape::Flat => ("the range does not matter (kim-f15)", gain < 1.1),
        _ => ("some gain, because each device has half the range", gain > 1.05),
    };
    let origin = Origin::Derived(Derivation::Shape);
    checks.push(stated(what, published, given, origin, agrees, "no number is published"));
    if matches!(card.name, "kingston" | "ridata") {
        let gain = raid_gain(profile, CARD_RANGE, 2)?;
        let what = format!("kim-f14 {} RAID-0 of two, two writes at a time over 128 MiB", card.name);
        let tolerance = "the published runs are WebBench and Facebook over internal flash and a card";
        let (given, agrees) = (format!("{} ×", digits(gain)), gain > 1.0 && gain < 2.0);
        checks.push(stated(what, "above 1, below 2", given, origin, agrees, tolerance));
    }
    Ok(())
}

fn interference(profile: &Profile, checks: &mut Vec<Check>) -> Result<(), ProfileError> {
    for (what, order, wanted) in
        [("seq_read_with_write", Order::Sequential, 445.0), ("rand_read_with_write", Order::Random, 595.0)]
    {
        let gives = Gives::ResponseDuring(Op::Write);
        let given = Protocol::smartio(Op::Read, order, gives).run(profile)?;
        let (what, origin) = (format!("smartio.s5 {what}"), Origin::Derived(Derivation::Restated));
        checks.push(compared(what, (wanted, given), unit(gives), origin, TOLERANCE));
    }
    let name = |access: &str| format!("smartio.s5 cfq {access} slowdown");
    under_cfq(profile, 1, name, [6.15, 1.13, 3.18, 1.60], checks)
}

/// Checks the mutual slowdowns of four readers and four writers.
fn four_by_four(profile: &Profile, study: &FourByFour, checks: &mut Vec<Check>) -> Result<(), ProfileError> {
    under_cfq(profile, 4, |access| format!("{} cfq {access}", study.name), study.slowdowns, checks)
}

/// Checks slowdowns under the CFQ model, in the order of [`Access::ALL`].
fn under_cfq(
    profile: &Profile,
    processes: u32,
    name: impl Fn(&str) -> String,
    published: [f64; 4],
    checks: &mut Vec<Check>,
) -> Result<(), ProfileError> {
    let setup = Setup { profile, scheduler: &|| Policy::Cfq.scheduler(), seed: SEED };
    let sequential = setup.slowdown(Order::Sequential, processes)?;
    let random = setup.slowdown(Order::Random, processes)?;
    let given = [sequential.read, sequential.write, random.read, random.write];
    for ((access, wanted), given) in Access::ALL.into_iter().zip(published).zip(given) {
        let what = name(access.name());
        let origin = Origin::by_profile(profile, &what).or_derived(Derivation::StudyInView);
        checks.push(compared(what, (wanted, given), "×", origin, SCHEDULER_TOLERANCE));
    }
    Ok(())
}

/// A speedup of at least this share of the maximum speedup counts as the best speedup. The study's runs
/// differ by about 3 %.
const SAME_SPEEDUP: f64 = 0.99;

/// Checks the best number of concurrent processes, in the order of [`Access::ALL`].
fn peaks(
    profile: &Profile,
    name: &str,
    published: [u32; 4],
    checks: &mut Vec<Check>,
) -> Result<(), ProfileError> {
    for (access, published) in Access::ALL.into_iter().zip(published) {
        let tried = [2, 4, 8, 16, 32];
        let mut speedups = Vec::new();
        for processes in tried {
            // A quarter of the study's 32 MB per process is enough to show the peak.
            let full = Protocol::concurrency(access.op(), access.into(), processes);
            let shorter = Protocol { count: full.count / 4, ..full };
            speedups.push(shorter.run(profile)?);
        }
        let best = speedups.iter().copied().fold(0.0, f64::max);
        let at = tried.into_iter().zip(&speedups).find(|(_, speedup)| **speedup >= best * SAME_SPEEDUP);
        let given = at.map_or(0, |(processes, _)| processes);
        let shown: Vec<String> = speedups.iter().map(|speedup| digits(*speedup)).collect();
        let what = format!("{name} {}: processes with the best speedup", access.name());
        let origin = Origin::by_profile(profile, &what).or_derived(Derivation::Plateau);
        checks.push(Check {
            published: published.to_string(),
            given: format!("{given} (2 to 32: {})", shown.join(", ")),
            numbers: Some((f64::from(published), f64::from(given))),
            origin,
            what,
            // If concurrency brings no gain, there is no best number of processes.
            within: given == published && best > 1.05,
            tolerance: "the smallest number of processes within 1 % of the best".to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
