//! Tests of the command line as its users run it. One program, because each program is linked with everything.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

mod behaviour;
mod bench;
mod cli;
mod emulate;
mod folders;
mod lab;
mod live;
mod mount;
mod run;
mod storebench;
mod watch;

/// A real trace that is shipped with the readers' tests.
fn trace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fonio-trace/tests/data").join(name)
}

/// Runs fonio without a terminal.
fn fonio<A: AsRef<OsStr>>(words: &[A]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fonio"));
    command.args(words).stdin(Stdio::null()).env("NO_COLOR", "1").output().expect("fonio starts")
}

fn split(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The JSON that a program printed.
#[track_caller]
fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", text(&out.stderr)))
}

/// The JSON of a call that must succeed.
#[track_caller]
fn answer(out: &Output) -> Value {
    assert!(out.status.success(), "{}", text(&out.stderr));
    json(out)
}
