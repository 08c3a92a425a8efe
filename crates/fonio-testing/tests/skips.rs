//! Tests how skips work with libtest: this test program starts itself again with other settings.

use std::path::Path;
use std::process::Command;

use fonio_testing::{Need, REQUIRE, SKIPS, Skip, find_program, has, skip, skip_part};

const LACKING: &str = "FONIO_TEST_LACKING";

/// A test that lacks its need. The tests below start it in another process.
fn lack(what: &str) {
    match what {
        "seen" => assert!(!has(&[Need::PhoneTrace]), "it went on"),
        "tried" => skip(Need::Cgroup, "no group\ncan be made"),
        "in_part" => {
            skip_part(Need::Fio, "fio is not installed");
            skip_part(Need::Fio, "fio is not installed");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_skip_is_a_line_and_fails_where_it_is_required() {
    if let Ok(what) = std::env::var(LACKING) {
        return lack(&what);
    }
    for (lacking, need, whole, why) in [
        ("seen", Need::PhoneTrace, true, "FONIO_MOBIGEN_TRACE is not set"),
        ("tried", Need::Cgroup, true, "no group can be made"),
        ("in_part", Need::Fio, false, "fio is not installed"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let skips = folder.path().join("skips");
        let run = |require: &str, skips: &Path| {
            let mut program = Command::new(std::env::current_exe().expect("this test"));
            program.args(["--exact", "a_skip_is_a_line_and_fails_where_it_is_required"]);
            program.env(LACKING, lacking).env(REQUIRE, require).env(SKIPS, skips);
            program.env_remove("FONIO_MOBIGEN_TRACE").output().expect("it starts")
        };
        let skipped = run("qemu", &skips);
        assert!(skipped.status.success(), "{skipped:?}");
        let text = std::fs::read_to_string(&skips).expect("the file of skips can be read");
        for line in text.lines() {
            let skip = Skip::from_line(line).expect("each line is a skip");
            assert_eq!((skip.need, skip.whole, skip.why.as_str()), (need, whole, why));
            assert_eq!(skip.file, "crates/fonio-testing/tests/skips.rs");
            assert_eq!(skip.test, "a_skip_is_a_line_and_fails_where_it_is_required");
        }
        assert_eq!(text.lines().count(), if whole { 1 } else { 2 });

        for (require, says) in [
            (format!("qemu,{}", need.name()), format!("but it is missing: {why}")),
            ("qemuu".to_owned(), "unknown need `qemuu` in FONIO_REQUIRE; use some of: root, ".to_owned()),
        ] {
            let failed = run(&require, &folder.path().join("none"));
            let said = String::from_utf8_lossy(&failed.stdout);
            assert!(!failed.status.success() && said.contains(&says), "{said}");
        }
        assert!(!folder.path().join("none").exists(), "a failed test was recorded as skipped");
    }
}

#[test]
fn programs_are_found_and_who_needs_nothing_goes_on() {
    // Every Linux machine has the first program; every machine that builds fonio has the second.
    assert!(find_program("sh").is_some() && find_program("no-such-program").is_none());
    assert!(has(&[]));
}
