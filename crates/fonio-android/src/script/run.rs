//! Runs the steps of a script, one after the other.
//!
//! Deterministic: equal seeds give equal actions on equal screens. Each step that chooses draws one number, whatever the
//! screen shows, so that a different screen changes only its own step.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fonio_core::random::Random;

use super::actions::{self, line};
use super::idle::{Source, UntilIdle, Verdict};
use super::ui::clickable;
use super::{Script, Step};
use crate::adb::{Adb, Answer, failed};
use crate::error::AndroidError;

/// Time between two looks at the processors.
const IDLE_EVERY: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(50);
/// UI Automator waits for a screen that does not change, and gives up after 10 s.
const DUMPS: usize = 3;
const DUMP_LIMIT: Duration = Duration::from_secs(60);
/// The folder of a dump on the phone, whose file is removed at once.
const SCREENS: &str = "/data/local/tmp";

/// How a script is run.
#[derive(Clone, Copy, Debug)]
pub struct ScriptOptions<'a> {
    /// All random choices come from this number.
    pub seed: u64,
    /// Factor of the pauses.
    pub pace: f64,
    /// Ends the script when it becomes true.
    pub stop: &'a AtomicBool,
}

/// An action that was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// The time since the script began.
    pub at: Duration,
    /// How long the action took.
    pub took: Duration,
    /// The line of the phone's shell, or what fonio did itself.
    pub action: String,
    /// What else is known, such as the touched element.
    pub note: Option<String>,
}

/// Runs steps of a script: those of `prepare`, or the others. `tell` hears of each action when it is done.
///
/// # Errors
/// Fails if an action fails, or if the phone does not answer.
pub fn run(
    adb: &Adb,
    script: &Script,
    steps: &[Step],
    options: ScriptOptions<'_>,
    tell: &mut dyn FnMut(&Done),
) -> Result<Vec<Done>, AndroidError> {
    run_in(adb, script, steps, options, SCREENS, tell)
}

/// Runs as [`run`] does; dumps of screens are written to the folder `screens` on the phone.
pub(super) fn run_in(
    adb: &Adb,
    script: &Script,
    steps: &[Step],
    options: ScriptOptions<'_>,
    screens: &str,
    tell: &mut dyn FnMut(&Done),
) -> Result<Vec<Done>, AndroidError> {
    let mut run = Run {
        adb,
        script,
        options,
        screens,
        random: Random::labelled(options.seed, "script"),
        began: Instant::now(),
        source: None,
        done: Vec::new(),
        tell,
    };
    run.steps(steps)?;
    Ok(run.done)
}

struct Run<'a> {
    adb: &'a Adb,
    script: &'a Script,
    options: ScriptOptions<'a>,
    screens: &'a str,
    random: Random,
    began: Instant,
    /// Where the phone shows its processor time, once that is known.
    source: Option<Source>,
    done: Vec<Done>,
    tell: &'a mut dyn FnMut(&Done),
}

impl Run<'_> {
    fn steps(&mut self, steps: &[Step]) -> Result<(), AndroidError> {
        for step in steps {
            if self.is_stopped() {
                return Ok(());
            }
            self.step(step)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), AndroidError> {
        let at = self.began.elapsed();
        let (action, note) = match step {
            Step::Repeat { times, steps } => {
                for _ in 0..*times {
                    self.steps(steps)?;
                }
                return Ok(());
            }
            Step::Think { seconds } => {
                let seconds = seconds * self.options.pace;
                self.sleep(Duration::from_secs_f64(seconds.clamp(0.0, 1e6)));
                (format!("think {seconds} s"), None)
            }
            Step::UntilIdle => ("until idle".to_owned(), Some(self.until_idle()?)),
            Step::TapAny { app } => {
                let app = app.as_deref().or(self.script.app.as_deref());
                let nodes = clickable(&self.dump()?, app);
                let drawn = self.random.next_u64();
                match nodes.len() as u64 {
                    0 => (
                        "tap any".to_owned(),
                        Some("the screen shows nothing that can be touched".to_owned()),
                    ),
                    count => {
                        let node = &nodes[Random::new(drawn).below(count) as usize];
                        let line = actions::tap(node.at);
                        self.shell(&line, DUMP_LIMIT)?;
                        (line, Some(format!("{}, 1 of {count}", node.name)))
                    }
                }
            }
            _ => {
                let line = line(self.script, step, &mut self.random);
                let line = line.expect("the steps without a line are above");
                self.shell(&line.line, line.limit)?;
                (line.shown, None)
            }
        };
        let done = Done { at, took: self.began.elapsed().saturating_sub(at), action, note };
        (self.tell)(&done);
        self.done.push(done);
        Ok(())
    }

    fn shell(&self, line: &str, limit: Duration) -> Result<Answer, AndroidError> {
        let answer = self.adb.shell_for(line, limit)?;
        // Some of Android's programs say an error and end with 0.
        let complains = |text: &str| {
            text.lines().any(|line| line.starts_with("Error") || line.starts_with("** Monkey aborted"))
        };
        if answer.code != 0 || complains(&answer.out) || complains(&answer.errors) {
            return Err(failed(&["shell", line], &answer));
        }
        Ok(answer)
    }

    /// Returns the dump of the screen.
    fn dump(&self) -> Result<String, AndroidError> {
        let file = format!("{}/fonio-screen-{}.xml", self.screens, std::process::id());
        let line = format!("uiautomator dump {file} >&2 && cat {file}; code=$?; rm -f {file}; exit $code");
        let mut last = Answer { code: 0, out: String::new(), errors: String::new() };
        for _ in 0..DUMPS {
            last = self.adb.shell_for(&line, DUMP_LIMIT)?;
            if last.out.contains("<hierarchy") {
                return Ok(last.out);
            }
            if self.is_stopped() {
                return Err(AndroidError::Stopped);
            }
        }
        Err(failed(&["shell", "uiautomator dump"], &last))
    }

    /// Waits until the phone is idle, and says how that went.
    fn until_idle(&mut self) -> Result<String, AndroidError> {
        let source = match self.source {
            Some(source) => source,
            None => *self.source.insert(self.find_source()?),
        };
        let began = Instant::now();
        let mut wait = UntilIdle::new(self.script.idle);
        loop {
            let answer = self.adb.shell_for(source.line(), DUMP_LIMIT)?;
            let Some(reading) = source.read(&answer.out) else {
                return Err(failed(&["shell", source.line()], &answer));
            };
            match wait.note(reading, began.elapsed()) {
                Verdict::Wait if self.is_stopped() => return Ok("stopped".to_owned()),
                Verdict::Wait => self.sleep(IDLE_EVERY),
                Verdict::IsIdle => return Ok("idle".to_owned()),
                Verdict::TooLong => return Ok(format!("not idle within {} s", self.script.idle.limit)),
            }
        }
    }

    /// Finds out where the phone shows its processor time.
    fn find_source(&self) -> Result<Source, AndroidError> {
        let mut last = None;
        for source in Source::ALL {
            let answer = self.adb.shell_for(source.line(), DUMP_LIMIT)?;
            if source.read(&answer.out).is_some() {
                return Ok(source);
            }
            last = Some((source, answer));
        }
        let (source, answer) = last.expect("there are sources");
        Err(failed(&["shell", source.line()], &answer))
    }

    fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && !self.is_stopped() {
            thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
    }

    fn is_stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed)
    }
}
