//! Builds and runs test programs, and counts their passed, failed and skipped tests.
//!
//! libtest counts the tests of each program separately, and counts skipped tests as passed. `fonio-testing`
//! writes the skips to a file.

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

/// Number of test programs that run at the same time. Many tests wait for a device or a guest, so one program
/// alone leaves the processors idle.
const WORKERS: usize = 2;

/// The largest number of failed tests that run again. If more tests fail, the cause is a change, not the machine's load.
const TRIED_AGAIN: usize = 4;

/// A test program.
#[derive(Debug)]
pub struct Program {
    /// The program's source file, relative to the folder of its crate.
    source: PathBuf,
    /// The folder of the crate.
    folder: PathBuf,
    /// The program file.
    pub executable: PathBuf,
}

/// Builds the test programs of the workspace. `scope` contains further options of `cargo test`, such as
/// `--lib`.
pub fn build(scope: &[&str]) -> Result<Vec<Program>> {
    /// A line of cargo's output. Only some lines name a test program.
    #[derive(Deserialize)]
    struct Line {
        executable: Option<PathBuf>,
        manifest_path: Option<PathBuf>,
        target: Option<Target>,
        profile: Option<Profile>,
    }
    #[derive(Deserialize)]
    struct Target {
        src_path: PathBuf,
    }
    #[derive(Deserialize)]
    struct Profile {
        test: bool,
    }
    let mut command = process::cargo();
    command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    command.args(process::WHOLE_WORKSPACE).args(scope).stderr(Stdio::inherit());
    let out = command.output().context("cannot start cargo")?;
    ensure!(out.status.success(), "{} failed: {}", process::shown(&command), out.status);
    let mut programs = Vec::new();
    for line in out.stdout.split(|byte| *byte == b'\n') {
        let Ok(Line {
            executable: Some(executable),
            manifest_path: Some(manifest),
            target: Some(target),
            profile: Some(Profile { test: true }),
        }) = serde_json::from_slice(line)
        else {
            continue;
        };
        let folder = manifest.parent().context("a manifest is in a folder")?.to_owned();
        let source = target.src_path.strip_prefix(&folder).unwrap_or(&target.src_path).to_owned();
        programs.push(Program { source, folder, executable });
    }
    Ok(programs)
}

/// Runs the programs, shows the output of each program when it ends, and returns the tally. With
/// `with_documentation`, also runs the examples in the documentation. Fails if a test failed, or a test
/// program ended without a result.
///
/// The tests of real devices and guests share the machine with each other. So a failed test runs once more after all
/// others have ended, with the machine to itself. If it passes then, it counts as passed, and the tally names it.
pub fn run(programs: &[Program], with_documentation: bool) -> Result<String> {
    let skips = process::scratch("tests")?.join("skips");
    fs::write(&skips, "").with_context(|| format!("cannot write {}", skips.display()))?;
    let mut runs: VecDeque<Run> = programs.iter().map(Program::run).collect();
    if with_documentation {
        let mut examples = process::cargo();
        examples.args(["test", "--doc", "--no-fail-fast"]).args(process::WHOLE_WORKSPACE);
        runs.push_back(Run { program: None, head: String::new(), command: examples });
    }
    for run in &mut runs {
        run.command.env(fonio_testing::SKIPS, &skips);
    }
    let runs = Mutex::new(runs);
    let mut tally = Tally::default();
    let (mut again, mut unexplained) = (Vec::new(), None);
    thread::scope(|scope| -> Result<()> {
        let (sender, ended) = mpsc::channel();
        for _ in 0..WORKERS {
            let (runs, sender) = (&runs, sender.clone());
            scope.spawn(move || {
                let next = || runs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                // If the receiver is gone, an error ended the tests.
                while let Some(Run { program, head, command }) = next() {
                    if sender.send((program, output(head, command))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut stdout = std::io::stdout();
        for (program, ended) in ended {
            let (output, status) = ended?;
            stdout.write_all(&output)?;
            let failed_before = tally.failures.len();
            output.lines().try_for_each(|line| line.map(|line| tally.line(&line)))?;
            tally.end_program();
            let failed_here = failed_before..tally.failures.len();
            if !status.success() && (failed_here.is_empty() || program.is_none()) {
                unexplained = Some(status);
            }
            again.extend(
                program.into_iter().flat_map(|program| failed_here.clone().map(move |at| (program, at))),
            );
        }
        Ok(())
    })?;
    if again.len() <= TRIED_AGAIN {
        for (program, at) in again {
            let test = tally.failures[at].test.clone();
            println!("\n{test} failed. It runs again, alone:");
            let mut command = program.run().command;
            command.args(["--exact", &test]).env(fonio_testing::SKIPS, &skips);
            let (output, status) = output(String::new(), command)?;
            std::io::stdout().write_all(&output)?;
            let has_run = String::from_utf8_lossy(&output).contains("test result: ok. 1 passed;");
            tally.failures[at].passed_alone = status.success() && has_run;
        }
    }
    let text = fs::read_to_string(&skips)?;
    for line in text.lines() {
        tally.skips.insert(Skip::from_line(line).with_context(|| format!("not a skip: {line}"))?);
    }
    if let Some(status) = unexplained {
        bail!("{status}\n\n{tally}");
    }
    ensure!(tally.failed() == 0 && tally.crashed.is_empty(), "some tests failed\n\n{tally}");
    Ok(tally.to_string())
}

/// Runs the command. Returns `head` followed by the output of the command, and the status with which the
/// command ended.
fn output(head: String, mut command: Command) -> Result<(Vec<u8>, ExitStatus)> {
    // A single pipe for standard output and standard error keeps their lines in order.
    let (mut reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    // Drop the command, because it has the write end of the pipe open. Otherwise, the pipe would not be
    // closed when the child ends.
    drop(command);
    let mut output = head.into_bytes();
    reader.read_to_end(&mut output)?;
    // Tests may print bytes that are not UTF-8.
    Ok((String::from_utf8_lossy(&output).into_owned().into_bytes(), child.wait()?))
}

/// A run of test programs.
struct Run<'a> {
    /// The program, or `None` for the examples in the documentation, whose programs cargo runs.
    program: Option<&'a Program>,
    /// The line that precedes the output.
    head: String,
    command: Command,
}

impl Program {
    /// Returns a line about the program, as cargo prints it, and the command that runs the program as cargo
    /// does.
    fn run(&self) -> Run<'_> {
        let path = self.executable.strip_prefix(process::root()).unwrap_or(&self.executable);
        let unit = if self.source.starts_with("src") { "unittests " } else { "" };
        let head = format!("     Running {unit}{} ({})\n", self.source.display(), path.display());
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        Run { program: Some(self), head, command }
    }
}

/// A failed test.
#[derive(Debug)]
struct Failure {
    /// The name that libtest takes.
    test: String,
    /// The program, as its line says.
    program: String,
    /// Whether the test passed when it ran again, alone.
    passed_alone: bool,
}

/// The results of the test programs so far.
#[derive(Debug, Default)]
struct Tally {
    programs: u64,
    /// Number of passed tests reported by libtest, including skipped tests.
    passed: u64,
    ignored: u64,
    /// Number of failed tests reported by libtest, including those that passed when they ran again.
    failed: u64,
    failures: Vec<Failure>,
    /// The current program, and whether it has printed its result.
    current: Option<(String, bool)>,
    /// The programs that crashed: they ended without printing a result.
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
            let test = test.strip_suffix(" - should panic").unwrap_or(test);
            let failure = Failure { test: test.to_owned(), program: program.to_owned(), passed_alone: false };
            self.failures.push(failure);
        }
    }

    /// Returns the number of tests that passed only when they ran again, alone.
    fn passed_alone(&self) -> u64 {
        self.failures.iter().filter(|failure| failure.passed_alone).count() as u64
    }

    /// Returns the number of tests that failed for good.
    fn failed(&self) -> u64 {
        self.failed.saturating_sub(self.passed_alone())
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
        for Failure { test, program, passed_alone } in &self.failures {
            let what = if *passed_alone { "Failed beside others, passed alone" } else { "Failed" };
            writeln!(f, "{what}: {test} in {program}")?;
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
            (self.passed + self.passed_alone()).saturating_sub(skipped),
            self.failed(),
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

        tally.failures[0].passed_alone = true;
        assert_eq!(tally.failed(), 0);
        let told = tally.to_string();
        let alone = "\nFailed beside others, passed alone: rows::b in unittests src/lib.rs";
        assert!(told.contains(alone) && told.ends_with("15 passed, 0 failed, 3 skipped"), "{told}");
    }
}
