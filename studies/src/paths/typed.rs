//! The commands of a person: they are typed one after the other, and everything on the screen is read.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::process;

/// What a typed command left on the screen.
pub struct Said {
    pub code: i32,
    pub text: String,
}

impl Said {
    /// Returns the text with single spaces, so that a sentence is found although its lines are broken.
    pub fn flowing(&self) -> String {
        self.text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Runs one line of shell, and returns its exit code and its output on the screen.
pub type Runs<'a> = dyn FnMut(&str) -> Result<Said> + 'a;

/// A person who types commands. The clock begins with the first command.
pub struct Person<'a> {
    runs: Box<Runs<'a>>,
    began: Option<Instant>,
    pub typed: u32,
    pub words: usize,
}

impl<'a> Person<'a> {
    pub fn new(runs: impl FnMut(&str) -> Result<Said> + 'a) -> Person<'a> {
        Person { runs: Box::new(runs), began: None, typed: 0, words: 0 }
    }

    /// Types a command and reads its output.
    pub fn types(&mut self, line: &str) -> Result<Said> {
        process::check_signals()?;
        println!("  $ {line}");
        self.began.get_or_insert_with(Instant::now);
        let said = (self.runs)(line)?;
        process::check_signals()?;
        self.typed += 1;
        self.words += said.text.split_whitespace().count();
        for line in said.text.lines() {
            println!("    {line}");
        }
        Ok(said)
    }

    /// Returns the time since the first command.
    pub fn passed(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }
}

/// Runs a line in a folder of this machine, with `fonio` from the folder `programs`.
pub fn here(line: &str, folder: &Path, programs: &Path) -> Result<Said> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("exec 2>&1\n{line}")]).current_dir(folder).stdin(Stdio::null());
    finish(command.env("PATH", format!("{}:{path}", programs.display())))
}

/// Runs a command to its end. Its standard error must go to its standard output.
pub fn finish(command: &mut Command) -> Result<Said> {
    let out = command.output().with_context(|| format!("cannot start {}", process::shown(command)))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    Ok(Said { code: out.status.code().unwrap_or(-1), text })
}
