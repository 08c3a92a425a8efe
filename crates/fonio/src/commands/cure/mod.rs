//! Implements `fonio cure`: records a stall, says its cause, tries the fixes for this cause on the stall, and keeps
//! the fix that helps.
//!
//! Each step is also a command that a person can run alone: `fonio check`, `fonio fix show`, `fonio fix trial`,
//! `fonio fix prove`, `fonio fix apply` and `fonio fix undo`. The steps print these commands.

mod attempt;
mod choices;
mod evidence;
mod keep;
mod said;
mod seen;
mod slowed;
mod trials;
mod unit_of_work;

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::Serialize;

use crate::cli::cure::Cure;
use crate::exit::Exit;
use crate::{output, signals};
use attempt::{Attempt, Way};
use choices::{Choices, Listed};
use keep::Kept;
use said::Said;
use seen::Seen;
use trials::Trial;

/// Everything that a cure did, as JSON output.
#[derive(Serialize)]
struct Document<'a> {
    /// The recording with the stall.
    recording: String,
    #[serde(flatten)]
    said: &'a Said,
    #[serde(flatten)]
    choices: Listed<'a>,
    attempts: &'a [Attempt],
    kept: Option<Kept>,
    /// One sentence on the result.
    outcome: String,
}

/// The largest number of fixes that are tried.
const ATTEMPTS_MAX: usize = 3;

pub fn run(arguments: &Cure) -> Result<Exit> {
    let is_root = rustix::process::geteuid().is_root();
    ensure!(
        is_root || arguments.dry_run,
        "recording and changing settings need root: run it with sudo; with --dry-run and --from, any user can run it"
    );
    unit_of_work::check(arguments.per.as_ref())?;
    let stop = if is_root { signals::begin()? } else { signals::watch()? };
    // The unit of a recording need not run here.
    let unit = match &arguments.unit {
        Some(named) if arguments.from.is_none() => Some(seen::running_unit(named)?),
        named => named.clone(),
    };
    let arguments = &Cure { unit, ..arguments.clone() };
    let teller = Teller { is_json: arguments.json };
    let seen = Seen::of(arguments, &stop)?;
    let said = Said::of(&seen, arguments)?;
    teller.screen(1, "What was seen", &said.lines(&seen))?;
    let choices = Choices::of(&seen, &said, arguments);
    let end = |attempts: &[Attempt], kept: Option<Kept>, outcome: &str, exit: Exit| -> Result<Exit> {
        if arguments.json {
            output::json(&Document {
                recording: seen.recording.display().to_string(),
                said: &said,
                choices: choices.listed(),
                attempts,
                kept,
                outcome: outcome.to_owned(),
            })?;
        } else {
            teller.lines(&[outcome.to_owned()])?;
        }
        Ok(exit)
    };
    if !seen.is_valid() {
        return end(&[], None, "The recording cannot be trusted, so nothing is tried.", Exit::NotValid);
    }
    if !said.is_problem {
        return end(&[], None, "Nothing was changed.", Exit::Fine);
    }
    if seen.is_interrupted {
        return end(&[], None, "Interrupted: nothing was tried or changed.", Exit::Fine);
    }
    teller.screen(2, "Fixes for this cause", &choices.lines())?;
    if choices.to_try.is_empty() {
        return end(&[], None, "fonio has no setting for this cause here. Nothing was changed.", Exit::Fine);
    }
    let mut attempts: Vec<Attempt> = Vec::new();
    for (number, choice) in choices.to_try.iter().take(ATTEMPTS_MAX).enumerate() {
        let way = Way::of(&seen, choice, arguments)?;
        teller.screen(3, &format!("Trying fix {}", number + 1), &way.lines(choice))?;
        if arguments.dry_run {
            return end(&attempts, None, "Nothing was changed (--dry-run).", Exit::Fine);
        }
        if !way.can_be_tried() {
            continue;
        }
        if !arguments.yes && !confirmed("Try it?", &stop)? {
            return end(&attempts, None, "Nothing was changed.", Exit::Fine);
        }
        let mut attempt = way.perform(choice, &stop)?;
        let unit = said.unit_of_work.as_ref();
        attempt.lines.extend(attempt.calls_ratio.and_then(|ratio| unit?.with(ratio)));
        check(&stop)?;
        teller.screen(4, "What it changed", &attempt.lines)?;
        let helps = attempt.helps;
        attempts.push(attempt);
        let attempt = attempts.last().expect("it was just added");
        let Attempt { way, ratio, low, high, .. } = *attempt;
        // Without a ratio, nothing was compared.
        if ratio.is_some() {
            trials::remember(&seen, &said, Trial { fix: &choice.name, way, ratio, low, high });
        }
        if !helps {
            continue;
        }
        let question = choice.question();
        teller.screen(5, "Keep it?", &choice.keep_lines())?;
        let is_kept = if arguments.yes { choice.is_kept_with_yes() } else { confirmed(&question, &stop)? };
        if !is_kept {
            return end(&attempts, None, "Everything is as before.", Exit::Fine);
        }
        let kept = keep::keep(choice, teller.is_json)?;
        let outcome = format!("Kept. `{}` undoes it.", kept.undo);
        return end(&attempts, Some(kept), &outcome, Exit::Fine);
    }
    let outcome = if attempts.is_empty() {
        "None of the fixes can be tried here. Nothing was changed."
    } else if attempts.iter().any(|attempt| attempt.ratio.is_none()) {
        "No fix was shown to help, and at least one could not be judged. Everything is as before. To judge a fix in daily \
         use: `fonio check`, then the command of the fix, then `fonio check` again."
    } else {
        "No fix was shown to help. Everything is as before."
    };
    end(&attempts, None, outcome, Exit::Fine)
}

fn check(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted; everything is as before");
    }
    Ok(())
}

/// Prints the screens of a cure: on standard output or, with --json, on standard error.
#[derive(Clone, Copy)]
struct Teller {
    is_json: bool,
}

impl Teller {
    fn screen(self, number: u32, title: &str, lines: &[String]) -> Result<()> {
        if number > 1 {
            self.lines(&[String::new()])?;
        }
        self.lines(&[format!("{number}. {title}")])?;
        self.lines(&lines.iter().map(|line| format!("   {line}")).collect::<Vec<_>>())
    }

    fn lines(self, lines: &[String]) -> Result<()> {
        let mut errors = output::errors();
        let mut screen = output::screen();
        let out: &mut dyn Write = if self.is_json { &mut errors } else { &mut screen };
        for line in lines {
            writeln!(out, "{}", fonio_core::printable(line))?;
        }
        Ok(out.flush()?)
    }
}

/// The time between two looks whether the user has pressed Ctrl-C.
const LOOK_MS: i64 = 100;

/// Asks a question on the terminal. Without a terminal, the answer is no. Fails after Ctrl-C.
fn confirmed(question: &str, stop: &AtomicBool) -> Result<bool> {
    if !io::stdin().is_terminal() {
        fonio_system::say!("{question} No: there is no terminal to ask on; --yes goes on without asking.");
        return Ok(false);
    }
    output::prompt(&format!("   {question} [y/N] "))?;
    // Reading goes on after a signal, so wait for the answer first.
    let stdin = io::stdin();
    let wait = Timespec { tv_sec: 0, tv_nsec: LOOK_MS * 1_000_000 };
    while let Ok(0) | Err(Errno::INTR) = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&wait)) {
        check(stop)?;
    }
    check(stop)?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
