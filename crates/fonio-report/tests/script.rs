//! Checks that the report's script formats numbers like the rest of fonio.

use std::process::Command;

use fonio_testing::skip_without;

/// The texts that fonio-core's formatter writes, which the script must also write.
const FORMATTED: &str = include_str!("../../fonio-core/src/quantity/formatted.tsv");

#[test]
fn the_script_writes_numbers_as_the_rest_does() {
    skip_without!(Node);
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

/// Runs a JavaScript module that uses the report's script, and returns its output.
fn printed(program: &str) -> String {
    let out =
        Command::new("node").args(["--input-type=module", "--eval", program]).output().expect("it starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("it writes UTF-8")
}

#[test]
fn the_script_writes_the_wall_clock() {
    skip_without!(Node);
    // The clock value is 2026-11-24 00:00:00, and axis values count from that time.
    let program = format!(
        "import {{ clockScale, shown }} from 'file://{}/web/src/format.js';
         const axis = {{ clock: 1795478400, unit: 's' }};
         console.log(shown(7985.4, axis));
         for (const [to, value] of [[86400, 2.5], [86400, 24], [864000, 3], [3600, 15]]) {{
           const {{ factor, tick }} = clockScale({{ ...axis, bounds: [0, to] }});
           console.log(`${{factor}} ${{tick(value)}}`);
         }}",
        env!("CARGO_MANIFEST_DIR")
    );
    let expected = ["2026-11-24 02:13:05", "3600 02:30", "3600 Nov 25", "86400 Nov 27", "60 00:15"];
    assert_eq!(printed(&program).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_filter_finds_units_processes_and_files() {
    skip_without!(Node);
    let rows = [
        ("", "python3", true),
        ("notes", "python3 (notes.service)", true),
        ("NOTES python", "python3 (notes.service)", true),
        ("notes cp", "python3 (notes.service)", false),
        ("notes.db*", "/var/lib/notes.db-wal", true),
        ("*.db", "/var/lib/notes.db-wal", false),
        ("*.db", "/var/lib/notes.db", true),
        ("docker*", "nginx (docker web)", true),
        ("a.b", "axb", false),
        ("a.b*", "axbc", false),
    ];
    let program = format!(
        "import {{ finder }} from 'file://{}/web/src/filter.js';
         for (const [words, name] of {}) console.log(finder(words)([name]));",
        env!("CARGO_MANIFEST_DIR"),
        serde_json::to_string(&rows.map(|(words, name, _)| (words, name))).expect("texts are JSON")
    );
    let expected: Vec<String> = rows.iter().map(|(_, _, is_found)| is_found.to_string()).collect();
    assert_eq!(printed(&program).lines().collect::<Vec<_>>(), expected);
}

#[test]
fn the_filter_leaves_out_lanes() {
    skip_without!(Node);
    let program = format!(
        "import {{ withLanes }} from 'file://{}/web/src/filter.js';
         const series = [{{ x: [1, 2, 3], y: [0, 1, 1], z: [], low: [4, 5, 6], high: [7, 8, 9] }}];
         const kept = withLanes({{ y: {{ categories: ['a', 'b'] }}, series }}, (name) => name === 'b');
         const [one] = kept.series;
         console.log(kept.y.categories.join(), [one.x, one.y, one.low, one.high].map((v) => Array.from(v).join()).join(';'));",
        env!("CARGO_MANIFEST_DIR")
    );
    assert_eq!(printed(&program).trim(), "b 2,3;0,0;5,6;8,9");
}
