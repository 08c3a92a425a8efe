use fonio_core::{Op, Sector, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::device::Command;

const RAM: &str = include_str!("ram.toml");

#[test]
fn values_are_spelled_as_everywhere_in_fonio() {
    let number = |key: &str, value: &str| {
        let known = schema::find(key).unwrap();
        known.quantity.read(value)
    };
    assert_eq!(number("flash.t_read", "70us"), Some(70_000));
    assert_eq!(number("flash.t_read", "1.5 ms"), Some(1_500_000));
    assert_eq!(number("flash.t_read", "70 µs"), Some(70_000));
    assert_eq!(number("flash.page", "16KiB"), Some(16 << 10));
    assert_eq!(number("flash.page", "4096"), Some(4096));
    assert_eq!(number("interface.read_rate", "1.5 GB/s"), Some(1_500_000_000));
    assert_eq!(number("interface.read_rate", "400 KiB/s"), Some(400 << 10));
    assert_eq!(number("ftl.spare", "7.5%"), Some(7_500));
    for (key, wrong) in [
        ("flash.t_read", "70"),
        ("flash.t_read", "70 KiB"),
        ("flash.page", "16 KiB/s"),
        ("interface.read_rate", "20 MB"),
        ("interface.read_rate", "-20 MB/s"),
        ("ftl.spare", "7"),
    ] {
        assert_eq!(number(key, wrong), None, "{key} = {wrong}");
    }
}

#[test]
fn every_shipped_profile_is_in_order_and_survives_being_written() {
    for (name, about) in SHIPPED {
        let text = shipped::text(name).expect("it is shipped");
        let profile = Profile::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(profile.about(), *about, "{name}");
        assert_eq!(Profile::parse(name, &profile.to_toml()).unwrap(), profile, "{name}");
        let small = profile.device(Some(ByteCount(64 << 20)), 1).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(small.limits().capacity, ByteCount(64 << 20));
    }
}

#[test]
fn errors_say_what_is_wrong_where() {
    let mut said = String::new();
    for (from, to) in [
        ("[device]", "[device"),
        ("depth", "dept"),
        ("[memory]", "[storage]"),
        ("line = { value = \"64 B\", source = \"assumed\" }\nread", "read"),
        ("64 MiB", "0 B"),
        ("{ value = \"64 MiB\", source = \"assumed\" }", "64"),
        ("64 MiB", "64 potatoes"),
        ("\"64 MiB\"", "64"),
        ("value = \"64 MiB\"", "mib = 64"),
        ("value = \"64 MiB\", ", ""),
        ("value = \"64 MiB\", source = \"assumed\"", "value = \"64 MiB\""),
        ("\"measured\"", "\"guessed\""),
        (", to = \"a loop\"", ""),
        ("\"ram\"", "\"rom\""),
        ("value = 1,", "value = \"one\","),
        ("value = 1,", "value = -1,"),
        ("1.5 us", "1.5"),
    ] {
        assert!(RAM.contains(from), "`{from}` is not in the profile");
        let error = Profile::parse("x.toml", &RAM.replace(from, to)).expect_err(to);
        said.push_str(&format!("{from:?} -> {to:?}\n    {error}\n"));
    }
    expect_test::expect_file!["errors.txt"].assert_eq(&said);
}

#[test]
fn a_profile_says_where_its_numbers_come_from() {
    let profile = Profile::parse("x", RAM).unwrap();
    let last = profile.provenance().pop().unwrap();
    assert_eq!((last.key, last.value.as_str(), last.source), ("memory.command", "1.5 µs", Source::Measured));
    assert_eq!(last.to, "a loop");
}

#[test]
fn a_number_can_be_set_within_its_range() {
    let mut profile = Profile::parse("x", RAM).unwrap();
    profile.set("memory.command", 2_000, Source::Assumed, "").unwrap();
    assert_eq!(profile.number("memory.command"), Some(2_000));
    assert!(matches!(profile.set("memory.line", 0, Source::Assumed, ""), Err(ProfileError::Range { .. })));
    assert!(matches!(
        profile.set("memory.lime", 0, Source::Assumed, ""),
        Err(ProfileError::UnknownKey { .. })
    ));
    assert!(matches!(profile.set("device.kind", 0, Source::Assumed, ""), Err(ProfileError::Form { .. })));
}

/// Generates a number that is in the range of a key and keeps the device small enough for a test.
fn modest(key: &Key) -> impl Strategy<Value = u64> + use<> {
    let max =
        if key.quantity == Quantity::Size { key.max.min(64 << 20) } else { key.max.min(key.min + 5_000) };
    key.min..=max.max(key.min)
}

proptest! {
    #[test]
    fn a_changed_profile_is_refused_or_gives_a_device(
        which in 0..SHIPPED.len(),
        changes in prop::collection::vec(
            (0..schema::KEYS.len()).prop_flat_map(|key| (Just(key), modest(&schema::KEYS[key]))), 0..6,
        ),
    ) {
        let mut profile = Profile::shipped(SHIPPED[which].0).unwrap();
        for (key, number) in changes {
            let key = &schema::KEYS[key];
            // A key with a word cannot be set to a number.
            let set = profile.set(key.path, number, Source::Assumed, "");
            prop_assert_eq!(set.is_ok(), !matches!(key.quantity, Quantity::Word(_)));
        }
        let text = profile.to_toml();
        let Ok(read) = Profile::parse("changed", &text) else { return Ok(()) };
        prop_assert_eq!(&read.entries, &profile.entries);
        let Ok(mut device) = read.device(Some(ByteCount(64 << 20)), 1) else { return Ok(()) };
        let mut now = Timestamp(0);
        for number in 0..200u64 {
            let op = if number % 3 == 0 { Op::Read } else { Op::Write };
            let sector = Sector(number * 7919 * 8 % ((64 << 20) / 512 - 8));
            now = device.submit(&Command { op, sector, bytes: ByteCount(4096), fua: number % 5 == 0 }, now);
        }
    }

    #[test]
    fn damaged_text_is_an_error(at in 0usize..2000, byte in any::<u8>(), cut in any::<bool>()) {
        let mut text = shipped::text("sandisk").unwrap().as_bytes().to_vec();
        let at = at % text.len();
        if cut { text.truncate(at) } else { text[at] = byte }
        // The changed text is still a profile, or the parser returns an error. It never panics.
        if let Err(error) = Profile::parse("damaged", &String::from_utf8_lossy(&text)) {
            let text = error.to_string();
            prop_assert!(text.starts_with("damaged: ") || text.starts_with("damaged, line "), "{text}");
        }
    }
}

#[test]
fn a_value_is_set_from_its_text() {
    let mut profile = Profile::shipped("sd_a1").expect("it is shipped");
    for name in SHIPPED.iter().map(|(name, _)| *name) {
        let original = Profile::shipped(name).expect("it is shipped");
        let mut copy = Profile::empty(name, original.about());
        for key in original.keys() {
            let text = original.text(key.path).expect("the profile has this key");
            copy.set_text(key.path, &text, Source::Assumed, "").unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(copy.number(key.path), original.number(key.path), "{name}: {}", key.path);
            assert_eq!(copy.word(key.path), original.word(key.path), "{name}: {}", key.path);
        }
        copy.check().unwrap_or_else(|error| panic!("{error}"));
    }
    let mut refused = |key: &str, value: &str| {
        let error = profile.set_text(key, value, Source::Chosen, "by hand").expect_err("it does not fit");
        error.to_string()
    };
    let said = [
        refused("flash.tprogram", "1 ms"),
        refused("flash.t_program", "fast"),
        refused("flash.t_program", "11 s"),
        refused("device.depth", "0"),
        refused("ftl.kind", "pagemap"),
    ];
    expect_test::expect![[r#"
        sd_a1: there is no key `flash.tprogram`; the nearest name is `flash.t_program`
        sd_a1: `flash.t_program`: `fast` is not a time in ns, us, ms or s; write 5 us
        sd_a1: `flash.t_program` is 11 s, but must be between 0 ns and 10 s
        sd_a1: `device.depth` is 0, but must be between 1 and 65536
        sd_a1: `ftl.kind`: `pagemap` is not one of page_map, bast, fast; write page_map"#]]
    .assert_eq(&said.join("\n"));
    assert!(profile.remove("flash.page").expect("it is a key"));
    assert!(profile.check().expect_err("a page is needed").to_string().contains("`flash.page` is missing"));
    assert_eq!(Profile::shipped("sd_a1").expect("it is shipped").remove("slc.size").ok(), Some(false));
}

#[test]
fn a_wearing_device_counts_every_erasure() {
    for (name, blocks_per_erase) in [("sd_a1", 1), ("ridata", 1), ("ufs31", 0)] {
        let profile = Profile::shipped(name).expect("it is shipped");
        let mut device = profile.wearing_device(Some(ByteCount(32 << 20)), 1).expect("a small device");
        let mut plain = profile.device(Some(ByteCount(32 << 20)), 1).expect("a small device");
        let mut now = Timestamp(0);
        for number in 0..20_000u64 {
            let sector = Sector(number * 7919 * 8 % ((32 << 20) / 512 - 8));
            let command = Command { op: Op::Write, sector, bytes: ByteCount(4096), fua: false };
            let done = device.submit(&command, now);
            assert_eq!(plain.submit(&command, now), done, "counting erasures changes no time");
            now = done;
        }
        let counted: u64 = device.erase_counts().iter().map(|count| u64::from(*count)).sum();
        let erases = device.counters().erases;
        assert!(counted > 0 && plain.erase_counts().is_empty(), "{name}");
        if blocks_per_erase == 1 {
            assert_eq!(counted, erases, "{name}");
        } else {
            // A superblock has an erase block on each die.
            assert_eq!(erases % counted, 0, "{name}");
        }
        let census = device.census().expect("it has a translation layer");
        assert!(device.erase_counts().len() <= census.total as usize);
    }
}
