//! Tests the command line as users run it, in one program: each program is linked with everything.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

mod apps;
mod behaviour;
mod bench;
mod ci;
mod cli;
mod compose;
mod cure;
mod emulate;
mod fleet;
mod folders;
mod foreign;
mod hostile;
mod huge;
mod kills;
mod lab;
mod live;
mod mount;
mod phones;
mod prove;
mod run;
mod storebench;
mod sync_policy;
mod watch;

fn trace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fonio-trace/tests/data").join(name)
}

/// Runs fonio with its output in pipes, not on a terminal.
fn fonio<A: AsRef<OsStr>>(words: &[A]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
    command.args(words).stdin(Stdio::null()).env("NO_COLOR", "1").output().expect("fonio starts")
}

fn split(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn lines(table: &str) -> impl Iterator<Item = &str> {
    table.lines().map(str::trim).filter(|line| !line.is_empty())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", text(&out.stderr)))
}

/// Returns the JSON output of a call that must succeed.
#[track_caller]
fn answer(out: &Output) -> Value {
    assert!(out.status.success(), "{}", text(&out.stderr));
    json(out)
}

/// A folder with a trace, a recording and damaged input files.
struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Files {
        let files = Files { dir: tempfile::tempdir().expect("a temporary folder") };
        fs::copy(trace("takeoverjp-sample.blktrace.0"), files.path("trace")).expect("a copy");
        fs::copy(trace("ftrace-6.18.txt"), files.path("ftrace.txt")).expect("a copy");
        let text = fs::read_to_string(files.path("ftrace.txt")).expect("the trace");
        let mut lines: Vec<&str> = text.lines().collect();
        lines.insert(lines.len() / 2, "CPU:0 [LOST 99999 EVENTS]");
        fs::write(files.path("lossy.txt"), lines.join("\n")).expect("a trace with a gap");
        fs::write(files.path("words"), "nothing like a trace\n").expect("a file");
        files.shows("import trace -o recording");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn fonio<A: AsRef<OsStr>>(&self, words: &[A]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
        command.args(words).current_dir(self.dir.path()).stdin(Stdio::null()).env("NO_COLOR", "1");
        command.env_remove("COLUMNS").env_remove("LINES");
        command
    }

    fn run<A: AsRef<OsStr>>(&self, words: &[A]) -> Output {
        self.fonio(words).output().expect("fonio starts")
    }

    #[track_caller]
    fn shows(&self, line: &str) -> String {
        let output = self.run(&split(line));
        assert!(output.status.success(), "{line}: {}{}", text(&output.stderr), text(&output.stdout));
        text(&output.stdout)
    }

    /// Runs a call that must succeed, and returns its JSON output.
    #[track_caller]
    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.shows(line)).unwrap_or_else(|error| panic!("{line}: {error}"))
    }
}
