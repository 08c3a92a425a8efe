use super::*;
use crate::fit::fit;
use crate::profile::SHIPPED;
use crate::published::targets;

#[test]
fn shipped_numbers_are_what_the_fit_gives() {
    for (name, _) in SHIPPED {
        let profile = Profile::shipped(name).unwrap();
        for target in targets(name) {
            let given = target.protocol.run(&profile).unwrap();
            let off = given / target.wanted - 1.0;
            assert!(off.abs() < 0.002, "{name}: {} should be {}, is {given}", target.to, target.wanted);
            assert!(is_fitted(&profile, &target.to), "{name}: {} is not said to be fitted", target.to);
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
            other.set(target.key, number * 3 / 2, crate::profile::Source::Assumed, "").unwrap();
        }
        let (fitted, met) = fit(&other, &targets(name)).unwrap();
        assert!(met.iter().all(|met| met.error() < 0.002), "{met:?}");
        for target in targets(name) {
            let (a, b) = (fitted.number(target.key).unwrap(), shipped.number(target.key).unwrap());
            assert!((a as f64 / b as f64 - 1.0).abs() < 0.02, "{name} {}: {a}, not {b}", target.key);
        }
    }
}

#[test]
fn the_cards_agree_with_what_they_were_not_fitted_to() {
    for card in CARDS {
        let checks = verify(&Profile::shipped(card.name).unwrap()).unwrap();
        for check in checks.iter().filter(|check| !check.what.contains("desktop")) {
            assert_ne!(check.outcome, Outcome::Differs, "{check:#?}");
        }
        assert!(checks.iter().any(|check| check.outcome == Outcome::Agrees), "{}", card.name);
    }
}

/// A card reader is not part of the models, so not all of these can agree; which do is worth a look when it changes.
#[test]
fn the_cards_through_a_card_reader() {
    let of = |card: &Card| verify(&Profile::shipped(card.name).unwrap()).unwrap();
    let checks = CARDS.iter().flat_map(of).filter(|check| check.what.contains("desktop"));
    let differ: Vec<String> =
        checks.filter(|check| check.outcome == Outcome::Differs).map(|check| check.what).collect();
    expect_test::expect![[r#"
        kim-t3 transcend desktop seq_write
        kim-t3 ridata desktop rand_write
        kim-t3 sandisk desktop rand_read"#]]
    .assert_eq(&differ.join("\n"));
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
