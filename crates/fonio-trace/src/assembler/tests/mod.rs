//! Tests the assembler's rules with events and the expected rows, and compares the assembler with the oracle.

mod oracle;
mod text;

use expect_test::expect_file;
use fonio_testing::cases::cases;

/// Assembles each case of a file in this folder and compares the rows and counts with the expected values in
/// the file.
fn check(name: &str) {
    let file = expect_file![name];
    file.assert_eq(&cases(&file.data(), text::show));
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
