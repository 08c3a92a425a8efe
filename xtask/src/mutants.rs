//! `cargo xtask mutants`: checks that the tests detect errors in the code.
//!
//! cargo-mutants makes small faults one by one and runs the tests. A fault that no test detects is a surviving mutant.
//! It gets a test; or, if the change cannot be observed, a reason in `mutants.toml`.
//!
//! Each area is sampled. A mutant is drawn by a hash of the seed and of its name without line numbers, so that the same
//! seed draws the same mutants after other code has changed. The unit tests run first on the drawn mutants. All tests
//! of the crate, which take longer, run only on the survivors, unless those tests cannot help.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use fonio_core::random::{mix, seed_for};
use serde::Deserialize;

use crate::process;

/// Code that is mutated together, and the crate whose tests must detect the mutants.
struct Area {
    name: &'static str,
    package: &'static str,
    /// Patterns of cargo-mutants for paths from the top of the repository.
    files: &'static [&'static str],
    /// Whether the crate's other tests run on mutants that survive the unit tests. The tests of mounts take minutes,
    /// and fail without a fault on a busy machine.
    has_other_tests: bool,
}

const AREAS: &[Area] = &[
    Area {
        name: "assembler",
        package: "fonio-trace",
        files: &["crates/fonio-trace/src/assembler/**/*.rs"],
        has_other_tests: true,
    },
    Area {
        name: "recorder",
        package: "fonio-record",
        files: &["crates/fonio-record/src/**/*.rs"],
        has_other_tests: true,
    },
    Area {
        name: "statistics",
        package: "fonio-analysis",
        files: &[
            "crates/fonio-analysis/src/compare/**/*.rs",
            "crates/fonio-analysis/src/compare/interval.rs",
            "crates/fonio-analysis/src/compare/statistics/**/*.rs",
        ],
        has_other_tests: false,
    },
    Area {
        name: "buffer",
        package: "fonio-bfuse",
        files: &["crates/fonio-bfuse/src/buffer/**/*.rs"],
        has_other_tests: false,
    },
];

/// Tests, including the naive oracles of fast structures.
const TESTS: &[&str] = &["**/tests.rs", "**/tests/**", "**/oracle.rs", "**/oracle/**"];

/// Path of the reasons for mutants that may survive, from the top of the repository.
const REASONS: &str = "mutants.toml";

/// A test counts as hanging if it takes this many times as long as without a mutant: the machine may be busy.
const PATIENCE: &str = "10";
/// The minimum time in seconds after which a test counts as hanging.
const PATIENCE_SECONDS_MIN: &str = "60";

/// The exit codes of cargo-mutants when mutants survived and when tests hung.
const MISSED_OR_TIMEOUT: [i32; 2] = [2, 3];

/// `cargo xtask mutants [AREA…] [--seed N] [--sample N]`.
pub fn run(arguments: &[String]) -> Result<()> {
    let (mut seed, mut sample, mut chosen) = (1_u64, 25_u64, Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let number = words.next().and_then(|number| number.parse().ok());
            number.with_context(|| format!("{word} takes a whole number, 25 say"))
        };
        match word.as_str() {
            "--seed" => seed = number()?,
            "--sample" => sample = number()?,
            name => {
                let names: Vec<&str> = AREAS.iter().map(|area| area.name).collect();
                let area = AREAS.iter().find(|area| area.name == name);
                chosen.push(area.with_context(|| {
                    format!(
                        "`{name}` is not an area; there are {}, and --seed N, --sample N",
                        names.join(", ")
                    )
                })?);
            }
        }
    }
    if chosen.is_empty() {
        chosen.extend(AREAS);
    }
    let path = process::root().join(REASONS);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let reasons: Reasons =
        toml::from_str(&text).with_context(|| format!("cannot read {}", path.display()))?;
    let program = installed()?;

    let mut all = BTreeMap::new();
    for area in AREAS {
        all.insert(area.name, list(&program, area)?);
    }
    let names: BTreeSet<String> = all.values().flatten().map(Mutant::without_place).collect();
    let stale: Vec<&str> =
        reasons.mutants.keys().map(String::as_str).filter(|name| !names.contains(*name)).collect();
    ensure!(
        stale.is_empty(),
        "{REASONS} has reasons for mutants that there are not any more; delete them:\n  {}",
        stale.join("\n  ")
    );

    let mut outcomes = Vec::new();
    for area in chosen {
        let all = &all[area.name];
        let drawn = draw(all, seed, sample as usize);
        println!("== {}: {} of {} mutants, seed {seed}", area.name, drawn.len(), all.len());
        outcomes.extend(test(&program, area, &drawn)?);
    }
    let verdict = Verdict::new(outcomes, &reasons);
    println!("\n{verdict}");
    ensure!(verdict.is_good(), "write a test for each that survived, or a reason into {REASONS}");
    Ok(())
}

/// The reasons why mutants may survive, by their names without line numbers.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reasons {
    mutants: BTreeMap<String, String>,
}

/// A mutant as cargo-mutants describes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Mutant {
    /// `FILE:LINE:COLUMN: WHAT`.
    name: String,
}

impl Mutant {
    /// Returns `FILE: WHAT`, which stays the same when lines are added above the mutant.
    fn without_place(&self) -> String {
        let (place, what) = self.name.split_once(": ").unwrap_or((&self.name, ""));
        let file = place.split(':').next().unwrap_or(place);
        format!("{file}: {what}")
    }

    /// Returns a regular expression that matches only this name.
    fn pattern(&self) -> String {
        let mut pattern = "^".to_owned();
        for letter in self.name.chars() {
            if r"\.+*?()|[]{}^$#&-~".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        pattern + "$"
    }
}

/// Returns the `sample` mutants with the lowest hashes, or all.
fn draw(all: &[Mutant], seed: u64, sample: usize) -> Vec<Mutant> {
    // Equal changes in one function differ only in their positions; each gets its own number.
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut hashed: Vec<(u64, &Mutant)> = all
        .iter()
        .map(|mutant| {
            let name = mutant.without_place();
            let number = seen.entry(name.clone()).or_default();
            *number += 1;
            (hash(seed, &format!("{name} {number}")), mutant)
        })
        .collect();
    hashed.sort();
    let mut drawn: Vec<Mutant> = hashed.into_iter().take(sample).map(|(_, mutant)| mutant.clone()).collect();
    drawn.sort();
    drawn
}

/// FNV-1a with extra mixing, because names differ in only a few letters.
fn hash(seed: u64, text: &str) -> u64 {
    let mut state = seed_for(0xcbf2_9ce4_8422_2325, seed);
    for byte in text.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    mix(state)
}

/// Returns the path of cargo-mutants; installs it below the target directory if it is missing.
fn installed() -> Result<PathBuf> {
    if let Some(found) = fonio_testing::find_program("cargo-mutants") {
        return Ok(found);
    }
    let root = process::target().join("tools");
    let program = root.join("bin/cargo-mutants");
    if !program.is_file() {
        println!("cargo-mutants is missing; installing it in {} (some minutes, once)", root.display());
        process::run(process::cargo().args(["install", "--locked", "cargo-mutants", "--root"]).arg(&root))?;
    }
    Ok(program)
}

/// Returns a cargo-mutants command for the files of an area.
fn cargo_mutants(program: &Path, area: &Area) -> Command {
    let mut command = Command::new(program);
    command.current_dir(process::root()).args(["mutants", "--package", area.package, "--no-config"]);
    for file in area.files {
        command.args(["--file", file]);
    }
    for tests in TESTS {
        command.args(["--exclude", tests]);
    }
    command
}

fn list(program: &Path, area: &Area) -> Result<Vec<Mutant>> {
    let mut command = cargo_mutants(program, area);
    let output = command.args(["--list", "--json"]).output().context("cannot start cargo-mutants")?;
    ensure!(
        output.status.success(),
        "{} failed: {}\n{}",
        process::shown(&command),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let mutants: Vec<Mutant> =
        serde_json::from_slice(&output.stdout).context("cargo-mutants gave no JSON that we know")?;
    ensure!(!mutants.is_empty(), "no file matches the area `{}`", area.name);
    Ok(mutants)
}

/// Returns the outcome of each mutant: of the unit tests if they detect it or are the only ones, otherwise of all
/// tests.
fn test(program: &Path, area: &Area, drawn: &[Mutant]) -> Result<Vec<(Mutant, Outcome)>> {
    let mut outcomes = test_with(program, area, drawn, "unit", &["--lib"])?;
    if !area.has_other_tests {
        return Ok(outcomes);
    }
    let survivors: Vec<Mutant> = outcomes
        .extract_if(.., |(_, outcome)| *outcome == Outcome::MissedMutant)
        .map(|(mutant, _)| mutant)
        .collect();
    outcomes.extend(test_with(program, area, &survivors, "all", &[])?);
    outcomes.sort();
    Ok(outcomes)
}

fn test_with(
    program: &Path,
    area: &Area,
    mutants: &[Mutant],
    stage: &str,
    cargo_test: &[&str],
) -> Result<Vec<(Mutant, Outcome)>> {
    if mutants.is_empty() {
        return Ok(Vec::new());
    }
    let scratch = process::scratch("mutants")?;
    let folder = scratch.join(format!("{}-{stage}", area.name));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let mut command = cargo_mutants(program, area);
    command.args(["--gitignore=true", "--no-shuffle", "--colors=never", "--jobserver=false"]);
    command.args(["--timeout-multiplier", PATIENCE, "--minimum-test-timeout", PATIENCE_SECONDS_MIN]);
    command.arg("--output").arg(&folder);
    for argument in cargo_test {
        command.args(["--cargo-test-arg", argument]);
    }
    for mutant in mutants {
        command.args(["--re", &mutant.pattern()]);
    }
    // It tests a copy of the sources; the build directory of the copy is kept for the next time. Each mutant is
    // compiled for one run of the tests, so compiling time matters more than running time.
    command.env("CARGO_TARGET_DIR", scratch.join("build")).env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env_remove(fonio_testing::SKIPS);
    let status = command.status().context("cannot start cargo-mutants")?;
    if !status.success() && !status.code().is_some_and(|code| MISSED_OR_TIMEOUT.contains(&code)) {
        bail!("cargo-mutants failed on the area `{}`: {status}", area.name);
    }
    let path = folder.join("mutants.out/outcomes.json");
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let tested: Outcomes =
        serde_json::from_slice(&text).with_context(|| format!("cannot read {}", path.display()))?;
    let mut outcomes: Vec<_> = tested.outcomes.into_iter().filter_map(Tested::of_mutant).collect();
    // Version 27.1 also tests each mutant that deletes a field, regardless of the requested names.
    outcomes.retain(|(mutant, _)| mutants.contains(mutant));
    ensure!(outcomes.len() == mutants.len(), "{} of {} mutants were tested", outcomes.len(), mutants.len());
    Ok(outcomes)
}

/// `outcomes.json` of cargo-mutants.
#[derive(Deserialize)]
struct Outcomes {
    outcomes: Vec<Tested>,
}

#[derive(Deserialize)]
struct Tested {
    scenario: Scenario,
    summary: Outcome,
}

#[derive(Deserialize)]
enum Scenario {
    Baseline,
    Mutant(Mutant),
}

impl Tested {
    fn of_mutant(self) -> Option<(Mutant, Outcome)> {
        match self.scenario {
            Scenario::Baseline => None,
            Scenario::Mutant(mutant) => Some((mutant, self.summary)),
        }
    }
}

/// The outcomes, with the names of cargo-mutants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum Outcome {
    /// The tests of the unchanged code passed.
    Success,
    /// A test failed.
    CaughtMutant,
    /// No test failed.
    MissedMutant,
    /// The tests did not end: detected, but slowly.
    Timeout,
    /// The mutant does not compile.
    Unviable,
    /// The tests of the unchanged code failed.
    Failure,
}

/// The results of all areas.
struct Verdict {
    outcomes: Vec<(Mutant, Outcome)>,
    /// Survived without a reason.
    missed: Vec<Mutant>,
    /// The mutants that survived as expected, each with its reason.
    allowed: Vec<(Mutant, String)>,
    /// The mutants that have a reason although a test detects them.
    needless: Vec<Mutant>,
}

impl Verdict {
    fn new(outcomes: Vec<(Mutant, Outcome)>, reasons: &Reasons) -> Verdict {
        let (mut missed, mut allowed, mut needless) = (Vec::new(), Vec::new(), Vec::new());
        // Several mutants can have one name; a reason is needless only if all of them are detected.
        let survived: BTreeSet<String> = outcomes
            .iter()
            .filter(|(_, outcome)| *outcome == Outcome::MissedMutant)
            .map(|(mutant, _)| mutant.without_place())
            .collect();
        for (mutant, outcome) in &outcomes {
            let name = mutant.without_place();
            match (outcome, reasons.mutants.get(&name)) {
                (Outcome::MissedMutant, None) => missed.push(mutant.clone()),
                (Outcome::MissedMutant, Some(reason)) => allowed.push((mutant.clone(), reason.clone())),
                (Outcome::CaughtMutant, Some(_)) if !survived.contains(&name) => {
                    needless.push(mutant.clone())
                }
                _ => {}
            }
        }
        Verdict { outcomes, missed, allowed, needless }
    }

    fn is_good(&self) -> bool {
        self.missed.is_empty() && self.needless.is_empty()
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.outcomes.iter().filter(|(_, found)| *found == outcome).count()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (mutant, reason) in &self.allowed {
            writeln!(f, "Survived, as it may: {}\n    {reason}", mutant.name)?;
        }
        for (mutant, _) in self.outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Timeout) {
            writeln!(f, "Timeout: {}", mutant.name)?;
        }
        for mutant in &self.needless {
            writeln!(f, "Caught, so that its reason in {REASONS} can go: {}", mutant.name)?;
        }
        for mutant in &self.missed {
            writeln!(f, "Missed: {}", mutant.name)?;
        }
        write!(
            f,
            "{} mutants: {} caught, {} missed, {} missed with a reason, {} timeout, {} unviable",
            self.outcomes.len(),
            self.count(Outcome::CaughtMutant),
            self.missed.len(),
            self.allowed.len(),
            self.count(Outcome::Timeout),
            self.count(Outcome::Unviable)
        )
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn mutant(name: &str) -> Mutant {
        Mutant { name: name.to_owned() }
    }

    fn numbered(lines: std::ops::Range<u32>, first: u32) -> Vec<Mutant> {
        lines.map(|n| mutant(&format!("a/b.rs:{}:5: replace f{n} -> u8 with 0", first + n))).collect()
    }

    #[test]
    fn the_same_seed_draws_the_same_mutants_wherever_they_stand() {
        let names = |drawn: Vec<Mutant>| drawn.iter().map(Mutant::without_place).collect::<BTreeSet<_>>();
        let drawn = draw(&numbered(0..100, 10), 1, 25);
        assert_eq!(drawn.len(), 25);
        assert_eq!(names(drawn.clone()), names(draw(&numbered(0..100, 700), 1, 25)));
        assert_ne!(drawn, draw(&numbered(0..100, 10), 2, 25));
        // Without ten of the mutants, at most ten of the drawn ones change.
        let kept = names(draw(&numbered(0..90, 10), 1, 25));
        let gone = names(drawn).difference(&kept).count();
        assert!(gone <= 10, "{gone}");
        assert_eq!(draw(&numbered(0..3, 1), 1, 25).len(), 3);
        // Two equal changes in one function are two mutants.
        let twins = ["a.rs:1:5: replace + with - in f", "a.rs:1:9: replace + with - in f"].map(mutant);
        assert_eq!(draw(&twins, 1, 2), twins);
    }

    #[test]
    fn names_are_matched_to_the_letter() {
        let mutant = mutant("crates/a/src/b.rs:33:9: replace <impl A for B>::f -> Vec<(u8, i8)> with vec![]");
        assert_eq!(
            mutant.without_place(),
            "crates/a/src/b.rs: replace <impl A for B>::f -> Vec<(u8, i8)> with vec![]"
        );
        assert_eq!(
            mutant.pattern(),
            r"^crates/a/src/b\.rs:33:9: replace <impl A for B>::f \-> Vec<\(u8, i8\)> with vec!\[\]$"
        );
    }

    #[test]
    fn survivors_need_reasons_and_reasons_need_survivors() {
        let text = r#"{"outcomes": [
            {"scenario": "Baseline", "summary": "Success"},
            {"scenario": {"Mutant": {"name": "a.rs:1:2: caught", "genre": "FnValue"}}, "summary": "CaughtMutant"},
            {"scenario": {"Mutant": {"name": "a.rs:2:2: missed"}}, "summary": "MissedMutant"},
            {"scenario": {"Mutant": {"name": "a.rs:3:2: equal"}}, "summary": "MissedMutant"},
            {"scenario": {"Mutant": {"name": "a.rs:3:9: equal"}}, "summary": "CaughtMutant"},
            {"scenario": {"Mutant": {"name": "a.rs:4:2: tested since"}}, "summary": "CaughtMutant"},
            {"scenario": {"Mutant": {"name": "a.rs:5:2: hangs"}}, "summary": "Timeout"},
            {"scenario": {"Mutant": {"name": "a.rs:6:2: no type"}}, "summary": "Unviable"}]}"#;
        let outcomes: Outcomes = serde_json::from_str(text).expect("as cargo-mutants writes it");
        let outcomes: Vec<_> = outcomes.outcomes.into_iter().filter_map(Tested::of_mutant).collect();
        let reasons: Reasons = toml::from_str(
            "[mutants]\n\"a.rs: equal\" = \"Both give the same.\"\n\"a.rs: tested since\" = \"No test.\"",
        )
        .expect("reasons");
        let verdict = Verdict::new(outcomes, &reasons);
        assert!(!verdict.is_good());
        expect![[r#"
            Survived, as it may: a.rs:3:2: equal
                Both give the same.
            Timeout: a.rs:5:2: hangs
            Caught, so that its reason in mutants.toml can go: a.rs:4:2: tested since
            Missed: a.rs:2:2: missed
            7 mutants: 3 caught, 1 missed, 1 missed with a reason, 1 timeout, 1 unviable"#]]
        .assert_eq(&verdict.to_string());
        assert!(Verdict::new(Vec::new(), &Reasons::default()).is_good());
    }
}
