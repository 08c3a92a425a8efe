//! Checks that the report's script formats numbers like the rest of fonio.

use std::process::Command;

use fonio_testing::Need;

/// The expected texts of fonio-core's formatter.
const FORMATTED: &str = include_str!("../../fonio-core/src/quantity/formatted.tsv");

#[test]
fn the_script_writes_numbers_as_the_rest_does() {
    if !fonio_testing::has(&[Need::Node]) {
        return;
    }
    let rows: Vec<Vec<&str>> = FORMATTED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
        .collect();
    let program = format!(
        "import {{ format }} from 'file://{}/web/src/format.js';
         for (const [unit, value] of {}) console.log(format(Number(value), unit));",
        env!("CARGO_MANIFEST_DIR"),
        serde_json::to_string(&rows).expect("texts are JSON")
    );
    let out =
        Command::new("node").args(["--input-type=module", "--eval", &program]).output().expect("it starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let written = String::from_utf8(out.stdout).expect("it writes UTF-8");
    let expected: Vec<&str> = rows.iter().map(|row| row[2]).collect();
    assert_eq!(written.lines().collect::<Vec<_>>(), expected);
}
