//! Tests of the assembler's rules as events and rows, and comparisons with the oracle.

mod oracle;
mod text;

use expect_test::expect_file;

/// Assembles each case of a file in this folder and compares the rows with the file. A case has its name
/// after `#`, then the events, and after `->` the rows and counts. `UPDATE_EXPECT=1` rewrites the file.
fn check(name: &str) {
    let file = expect_file![name];
    let shown: Vec<String> = (file.data().split("\n# "))
        .map(|case| match case.split_once("->\n") {
            Some((events, _)) => format!("{events}->\n{}", text::show(events)),
            None => case.to_owned(),
        })
        .collect();
    file.assert_eq(&shown.join("\n# "));
}

#[test]
fn pairing_of_bios_issues_and_completions() {
    check("pairing.txt");
}

#[test]
fn flushes() {
    check("flush.txt");
}

#[test]
fn repeated_and_missing_issues() {
    check("repeat.txt");
}

#[test]
fn stacked_devices() {
    check("stacking.txt");
}
