//! Builds and runs test programs, and counts their passed, failed and skipped tests.
//!
//! libtest counts each program separately and counts skipped tests as passed; `fonio-testing` writes skips to
//! a file.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::fs;
use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use fonio_testing::Skip;
use serde::Deserialize;

use xtask::process;

/// Runs the tests with their own output, and returns a summary. `scope` contains the `cargo test` options
/// that select tests; if it is empty, all tests of the workspace run.
///
/// # Errors
///
/// Fails if a test failed, a test program ended without a result, or the tests did not compile.
pub fn run(scope: &[&str]) -> Result<String> {
    let skips = process::scratch("tests")?.join("skips");
    fs::write(&skips, "").with_context(|| format!("cannot write {}", skips.display()))?;
    let mut command = process::cargo();
    command
        .arg("test")
        .args(if scope.is_empty() { &process::WHOLE_WORKSPACE } else { scope })
        .arg("--no-fail-fast")
        .env(fonio_testing::SKIPS, &skips);
    // Use one pipe for both streams, which keeps the order of cargo's and the tests' lines.
    let (output, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().context("cannot start cargo")?;
    // The command holds the write end of the pipe, which must be closed when cargo ends.
    drop(command);
    let mut tally = Tally::default();
    let mut stdout = std::io::stdout();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        stdout.write_all(&line)?;
        stdout.write_all(b"\n")?;
        tally.line(&String::from_utf8_lossy(&line));
    }
    for (_, command) in &mut runs {
        command.env(fonio_testing::SKIPS, &skips);
    }
    let runs = Mutex::new(runs);
    let mut tally = Tally::default();
    let mut failed = None;
    thread::scope(|scope| -> Result<()> {
        let (sender, ended) = mpsc::channel();
        for _ in 0..WORKERS {
            let (runs, sender) = (&runs, sender.clone());
            scope.spawn(move || {
                let next = || runs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                // If the receiver is gone, an error ended the tests.
                while let Some((head, command)) = next() {
                    if sender.send(output(head, command)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut stdout = std::io::stdout();
        for ended in ended {
            let (output, status) = ended?;
            stdout.write_all(&output)?;
            output.lines().try_for_each(|line| line.map(|line| tally.line(&line)))?;
            tally.end_program();
            if !status.success() {
                failed = Some(status);
            }
        }
        Ok(())
    })?;
    let text = fs::read_to_string(&skips)?;
    for line in text.lines() {
        tally.skips.insert(Skip::from_line(line).with_context(|| format!("not a skip: {line}"))?);
    }
    if let Some(status) = failed {
        bail!("{status}\n\n{tally}");
    }
    Ok(tally.to_string())
}

/// The results of the test programs that have run so far.
#[derive(Debug, Default)]
struct Tally {
    programs: u64,
    /// Number of passed tests reported by libtest, including skipped tests.
    passed: u64,
    ignored: u64,
    failed: u64,
    failed_names: Vec<String>,
    /// The name of the current test program, and whether it has printed its result.
    current: Option<(String, bool)>,
    /// Names of test programs that crashed: they ended without printing a result.
    crashed: Vec<String>,
    skips: BTreeSet<Skip>,
}

impl Tally {
    fn line(&mut self, line: &str) {
        let trimmed = line.trim_start();
        let program = trimmed.strip_prefix("Running ").or_else(|| trimmed.strip_prefix("Doc-tests "));
        if let Some(program) = program.filter(|_| line.starts_with(' ')) {
            self.end_program();
            self.programs += 1;
            self.current = Some((program.to_owned(), false));
        } else if let Some(counts) = line.strip_prefix("test result: ") {
            let count = |word: &str| -> u64 {
                let part = counts.split([';', '.']).find_map(|part| part.trim().strip_suffix(word));
                part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
            };
            self.passed += count(" passed");
            self.failed += count(" failed");
            self.ignored += count(" ignored");
            if let Some((_, has_result)) = &mut self.current {
                *has_result = true;
            }
        } else if let Some(test) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            let program = self.current.as_ref().map_or("?", |(program, _)| program.as_str());
            self.failed_names.push(format!("{test} in {program}"));
        }
    }

    fn end_program(&mut self) {
        if let Some((program, false)) = self.current.take() {
            self.crashed.push(program);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons: BTreeMap<_, Vec<&Skip>> = BTreeMap::new();
        for skip in &self.skips {
            reasons.entry((skip.need, &skip.why)).or_default().push(skip);
        }
        for ((need, why), skips) in reasons {
            writeln!(f, "Skipped without `{}`: {why}", need.name())?;
            for skip in skips {
                let part = if skip.whole { "" } else { ", one of its cases" };
                writeln!(f, "    {}: {}{part}", skip.file, skip.test)?;
            }
        }
        for name in &self.failed_names {
            writeln!(f, "Failed: {name}")?;
        }
        for program in &self.crashed {
            writeln!(f, "Ended without a result: {program}")?;
        }
        let whole: BTreeSet<_> =
            self.skips.iter().filter(|skip| skip.whole).map(|skip| (&skip.file, &skip.test)).collect();
        let skipped = whole.len() as u64;
        write!(
            f,
            "All {} test programs: {} passed, {} failed, {} skipped",
            self.programs,
            self.passed.saturating_sub(skipped),
            self.failed,
            skipped + self.ignored
        )
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn programs_are_added_up_and_skips_taken_from_what_passed() {
        let mut tally = Tally::default();
        for line in "   Compiling fonio v0.1.0
     Running unittests src/lib.rs (target/debug/deps/fonio_core-1)

running 3 tests
test a ... ok
test rows::b ... FAILED
test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/live.rs (target/debug/deps/live-1)
test c ... ok
     Running tests/run.rs (target/debug/deps/run-1)
test result: ok. 10 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 12.50s
   Doc-tests fonio_core
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s"
            .lines()
        {
            tally.line(line);
        }
        tally.end_program();
        for line in [
            "fio\twhole\ttests/run.rs\tfirst\tfio is not installed",
            "fio\twhole\ttests/run.rs\tsecond\tfio is not installed",
            "root\tpart\ttests/run.rs\tthird\tthe tests do not run as root",
            "root\tpart\ttests/run.rs\tthird\tthe tests do not run as root",
        ] {
            tally.skips.insert(Skip::from_line(line).expect("a skip"));
        }
        expect![[r#"
            Skipped without `root`: the tests do not run as root
                tests/run.rs: third, one of its cases
            Skipped without `fio`: fio is not installed
                tests/run.rs: first
                tests/run.rs: second
            Failed: rows::b in unittests src/lib.rs (target/debug/deps/fonio_core-1)
            Ended without a result: tests/live.rs (target/debug/deps/live-1)
            All 4 test programs: 14 passed, 1 failed, 3 skipped"#]]
        .assert_eq(&tally.to_string());
    }
}
