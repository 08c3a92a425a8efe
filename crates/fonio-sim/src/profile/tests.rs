use expect_test::{Expect, expect};

use fonio_core::{Op, Sector, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::device::Command;

const RAM: &str = r#"
[device]
kind = { is = "ram", source = "assumed" }
capacity = { mib = 64, source = "assumed" }
depth = { count = 1, source = "assumed" }
command_max = { mib = 1, source = "assumed" }

[memory]
line = { bytes = 64, source = "assumed" }
read_line = { ns = 5, source = "assumed" }
write_line = { ns = 5, source = "assumed" }
command = { us = 1.5, source = "measured", to = "a loop" }
"#;

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

fn check(from: &str, to: &str, want: Expect) {
    let text = RAM.replace(from, to);
    assert_ne!(text, RAM, "`{from}` is not there");
    let error = Profile::parse("x.toml", &text).expect_err("it is wrong");
    want.assert_eq(&error.to_string());
}

#[test]
fn errors_say_what_is_wrong_where() {
    check("[device]", "[device", expect!["x.toml: not TOML"]);
    check("depth", "dept", expect!["x.toml: there is no key `device.dept`; did you mean `device.depth`?"]);
    check(
        "[memory]",
        "[storage]",
        expect!["x.toml: there is no key `storage.command`; did you mean `memory.command`?"],
    );
    check(
        "line = { bytes = 64, source = \"assumed\" }\nread",
        "read",
        expect!["x.toml: `memory.line` is missing: a line of PCM or RAM"],
    );
    check(
        "mib = 64,",
        "mib = 0,",
        expect!["x.toml: `device.capacity` is 0 bytes, but must lie between 1 MiB and 4096 GiB"],
    );
    check(
        "{ mib = 64, source = \"assumed\" }",
        "64",
        expect![[
            r#"x.toml: `device.capacity` is `64`, but it must say its unit and source, as in { mib = 1, source = "assumed" } (gib, mib, kib, gb, mb, bytes)"#
        ]],
    );
    check(
        "mib = 64",
        "tib = 64",
        expect![[
            r#"x.toml: `device.capacity` is `{ source = "assumed", tib = 64 }`, but `tib = 64` is not understood; write it as in { mib = 1, source = "assumed" } (gib, mib, kib, gb, mb, bytes)"#
        ]],
    );
    check(
        "mib = 64, source = \"assumed\"",
        "mib = 64",
        expect![
            "x.toml: `device.capacity` is `{ mib = 64 }`, but `source` is missing: published, fitted, chosen, measured or assumed"
        ],
    );
    check(
        ", to = \"a loop\"",
        "",
        expect![[
            r#"x.toml: `memory.command` is `{ source = "measured", us = 1.5 }`, but `to` is missing: what measured means here"#
        ]],
    );
    check(
        "\"ram\"",
        "\"rom\"",
        expect![[
            r#"x.toml: `device.kind` is `{ is = "rom", source = "assumed" }`, but `is = "rom"` is not understood; write it as in { is = "flash", source = "assumed" } (flash, pcm, ram)"#
        ]],
    );
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

/// A number for a key that lies within its range and gives a device that fits into a test.
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
            // A word takes no number.
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
        // Either it still is a profile, or it says what is wrong; it never panics.
        if let Err(error) = Profile::parse("damaged", &String::from_utf8_lossy(&text)) {
            prop_assert!(error.to_string().starts_with("damaged: "));
        }
    }
}
