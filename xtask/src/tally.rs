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
pub fn run(programs: &[Program], with_documentation: bool) -> Result<String> {
    let skips = process::scratch("tests")?.join("skips");
    fs::write(&skips, "").with_context(|| format!("cannot write {}", skips.display()))?;
    let mut runs: VecDeque<(String, Command)> = programs.iter().map(Program::run).collect();
    if with_documentation {
        let mut examples = process::cargo();
        examples.args(["test", "--doc", "--no-fail-fast"]).args(process::WHOLE_WORKSPACE);
        runs.push_back((String::new(), examples));
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

impl Program {
    /// Returns a line about the program, as cargo prints it, and the command that runs the program as cargo
    /// does.
    fn run(&self) -> (String, Command) {
        let path = self.executable.strip_prefix(process::root()).unwrap_or(&self.executable);
        let unit = if self.source.starts_with("src") { "unittests " } else { "" };
        let head = format!("     Running {unit}{} ({})\n", self.source.display(), path.display());
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        (head, command)
    }
}

/// The results of the test programs so far.
#[derive(Debug, Default)]
struct Tally {
    programs: u64,
    /// Number of passed tests reported by libtest, including skipped tests.
    passed: u64,
    ignored: u64,
    failed: u64,
    failed_names: Vec<String>,
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
