use super::*;
use crate::fit::fit;
use crate::profile::{Provenance, SHIPPED, Source};
use crate::published::targets;

#[test]
fn shipped_numbers_are_what_the_fit_gives() {
    for (name, _) in SHIPPED {
        let profile = Profile::shipped(name).unwrap();
        for target in targets(name) {
            let given = target.protocol.run(&profile).unwrap();
            let off = given / target.wanted - 1.0;
            assert!(off.abs() < 0.002, "{name}: {} must be {}, but is {given}", target.to, target.wanted);
            let origin = Origin::by_profile(&profile, &target.to);
            assert_eq!(origin, Origin::Fitted, "{name}: {} is not marked as fitted", target.to);
        }
    }
}

#[test]
fn a_fit_from_elsewhere_ends_in_the_same_place() {
    for name in ["ridata", "sandisk"] {
        let shipped = Profile::shipped(name).unwrap();
        let mut other = shipped.clone();
        for target in targets(name) {
            let number = shipped.number(target.key).unwrap();
            other.set(target.key, number * 3 / 2, Source::Assumed, "").unwrap();
        }
        let (fitted, met) = fit(&other, &targets(name)).unwrap();
        assert!(met.iter().all(|met| met.error() < 0.002), "{met:?}");
        for target in targets(name) {
            let (a, b) = (fitted.number(target.key).unwrap(), shipped.number(target.key).unwrap());
            assert!((a as f64 / b as f64 - 1.0).abs() < 0.02, "{name} {}: {a}, not {b}", target.key);
        }
    }
}

fn all_checks() -> Vec<Check> {
    let of = |name: &str| verify(&Profile::shipped(name).unwrap()).unwrap();
    SHIPPED.iter().flat_map(|(name, _)| of(name)).collect()
}

/// If these counts change, read each check before you accept the change.
#[test]
fn what_the_models_are_worth() {
    let checks = all_checks();
    let mut lines: Vec<String> = Class::ALL
        .map(|class| {
            let Tally { checks, within } = Tally::of(class, &checks);
            format!("{}: {within} of {checks} within the tolerance", class.name())
        })
        .into();
    let names = |wanted: &dyn Fn(&Check) -> bool| -> Vec<String> {
        checks.iter().filter(|check| wanted(check)).map(|check| format!("  {}", check.what)).collect()
    };
    lines.push("predicted:".to_owned());
    lines.extend(names(&|check| check.origin.class() == Class::Predicted));
    lines.push("fitted or derived, and yet outside the tolerance:".to_owned());
    lines.extend(names(&|check| check.origin.class() != Class::Predicted && !check.within));
    expect_test::expect_file!["classes.txt"].assert_eq(&lines.join("\n"));
}

/// The authors of the scheduler models knew the slowdowns.
#[test]
fn no_slowdown_under_a_scheduler_is_scored() {
    let checks = all_checks();
    let slowdowns: Vec<&Check> = checks.iter().filter(|check| check.what.contains("cfq")).collect();
    assert_eq!(slowdowns.len(), 12);
    for check in slowdowns {
        assert_eq!(check.origin, Origin::Derived(Derivation::StudyInView), "{}", check.what);
    }
}

/// A number that the profile does not mark as used counts as predicted, and only predicted numbers are
/// scored.
#[test]
fn a_number_is_scored_where_the_profile_does_not_name_it() {
    let what = "kim-t3 kingston phone seq_write";
    let outcome = |profile: &Profile| {
        let checks = verify(profile).unwrap();
        checks.into_iter().find(|check| check.what == what).unwrap().outcome()
    };
    let mut profile = Profile::shipped("kingston").unwrap();
    assert_eq!(outcome(&profile), Outcome::Fitted);
    let fitted = profile.number("flash.t_program").unwrap();
    profile.set("flash.t_program", fitted, Source::Chosen, what).unwrap();
    assert_eq!(outcome(&profile), Outcome::Derived);
    profile.set("flash.t_program", fitted, Source::Assumed, "").unwrap();
    assert_eq!(outcome(&profile), Outcome::Agrees);
    profile.set("flash.t_program", 2 * fitted, Source::Assumed, "").unwrap();
    assert_eq!(outcome(&profile), Outcome::Differs);
}

/// If a name in `to` had no check, the number to which the profile was fitted would count as predicted.
#[test]
fn what_cards_and_phones_are_fitted_to_is_the_name_of_a_check() {
    for (name, _) in SHIPPED {
        let profile = Profile::shipped(name).unwrap();
        let checks = verify(&profile).unwrap();
        let used = |number: &&Provenance| matches!(number.source, Source::Fitted | Source::Chosen);
        for number in profile.provenance().iter().filter(used) {
            assert!(
                checks.iter().any(|check| check.what == number.to),
                "{name} {}: {}",
                number.key,
                number.to
            );
        }
    }
}

#[test]
fn shapes_are_told_apart() {
    let ranges = ranges();
    let shape = |throughput: &dyn Fn(u64) -> f64| {
        let values: Vec<f64> = ranges.iter().map(|range| throughput(range.0)).collect();
        shape_of(&ranges, &values)
    };
    assert_eq!(shape(&|_| 1.4), Some(Shape::Flat));
    assert_eq!(shape(&|range| if range > 4 << 20 { 0.01 } else { 1.0 }), Some(Shape::HardDrop));
    assert_eq!(shape(&|range| if range > 2 << 30 { 0.01 } else { 1.0 }), None);
    assert_eq!(shape(&|range| 1.0 / (1.0 + (range >> 20) as f64)), Some(Shape::MildDrop));
    let steps = |range: u64| match range {
        0..=33_554_432 => 1.2,
        33_554_433..=1_073_741_824 => 0.7,
        _ => 0.4,
    };
    assert_eq!(shape(&steps), Some(Shape::TwoDrops));
}
