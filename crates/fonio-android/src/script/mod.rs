//! A script of actions on a phone: the definition, in TOML.
//!
//! The words are those of workloads (`docs/workloads.md`): `do`, `repeat`, `times`, `think`, `seconds`. `actions.rs` says which
//! line of the phone's shell each step runs, `ui.rs` reads the dump of a screen, `idle.rs` decides when the phone is idle,
//! and `run.rs` runs a script.

mod actions;
mod idle;
mod run;
mod ui;

use std::path::Path;

use fonio_core::printable;
use serde::Deserialize;

pub use run::{Done, ScriptOptions, run};
pub use ui::{Node, clickable};

/// The most steps that a script runs, with its repetitions.
const STEPS_MAX: u64 = 100_000;
/// The deepest nesting of repetitions.
const DEPTH_MAX: usize = 8;

/// A script of actions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// A short name.
    pub name: String,
    /// What the script does.
    #[serde(default)]
    pub title: String,
    /// The package of the app that the steps use, unless they name another.
    pub app: Option<String>,
    /// When the phone counts as idle.
    #[serde(default)]
    pub idle: Idle,
    /// Steps before the recording begins.
    #[serde(default)]
    pub prepare: Vec<Step>,
    /// The steps that are recorded.
    pub steps: Vec<Step>,
}

/// When the phone counts as idle. The defaults are ours: the study that introduced `UntilIdle` gives no numbers.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Idle {
    /// The largest share of the processors' time that is used.
    pub below: f64,
    /// The time for which the share must stay below, in seconds.
    pub seconds: f64,
    /// The longest wait, in seconds.
    pub limit: f64,
}

impl Default for Idle {
    fn default() -> Idle {
        Idle { below: 0.1, seconds: 2.0, limit: 60.0 }
    }
}

/// A step of a script.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Runs its steps several times.
    Repeat {
        /// The number of times.
        times: u32,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Pauses.
    Think {
        /// The time in seconds.
        seconds: f64,
    },
    /// Starts an activity, and waits until it has drawn its first frame.
    Launch {
        /// The activity, such as `com.example/.Main`.
        activity: String,
    },
    /// Stops an app (`am force-stop`).
    ForceStop {
        /// The package.
        app: Option<String>,
    },
    /// Touches a point.
    Tap {
        /// From the left, in pixels.
        x: u32,
        /// From the top, in pixels.
        y: u32,
    },
    /// Moves a finger.
    Swipe {
        /// Where it begins: x, y.
        from: [u32; 2],
        /// Where it ends: x, y.
        to: [u32; 2],
        /// The time in seconds.
        #[serde(default = "swipe_seconds")]
        seconds: f64,
    },
    /// Writes a text.
    Text {
        /// Printable ASCII, which is all that `input text` can write.
        text: String,
    },
    /// Presses a key.
    Key {
        /// The key, such as `BACK`, `HOME` or `KEYCODE_ENTER`.
        key: String,
    },
    /// Sends random events to an app by Android's `monkey`.
    Monkey {
        /// The package.
        app: Option<String>,
        /// The number of events.
        events: u32,
        /// The time between two events in seconds.
        #[serde(default)]
        seconds: f64,
    },
    /// Touches a random clickable element of the screen (UI Automator).
    TapAny {
        /// Only elements of this package.
        app: Option<String>,
    },
    /// Waits until the phone is idle.
    UntilIdle,
}

fn swipe_seconds() -> f64 {
    0.3
}

/// A script that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The text is not a script.
    #[error("{origin} is not a script for a phone: {source}")]
    Toml {
        /// The file.
        origin: String,
        /// The cause, with the line.
        source: Box<toml::de::Error>,
    },
    /// A value cannot be used.
    #[error("{origin}: {problem}")]
    Value {
        /// The file.
        origin: String,
        /// The problem, and the way out.
        problem: String,
    },
}

impl Script {
    /// Parses a script. Error messages call it `origin`.
    ///
    /// # Errors
    /// Fails if the text is not a script, or if a value cannot be used.
    pub fn parse(text: &str, origin: &Path) -> Result<Script, ScriptError> {
        let origin = origin.display().to_string();
        let script: Script = toml::from_str(text)
            .map_err(|source| ScriptError::Toml { origin: origin.clone(), source: Box::new(source) })?;
        script.check().map_err(|problem| ScriptError::Value { origin, problem })?;
        Ok(script)
    }

    fn check(&self) -> Result<(), String> {
        if let Some(app) = &self.app {
            check_package(app)?;
        }
        let Idle { below, seconds, limit } = self.idle;
        if !(below > 0.0 && below <= 1.0) {
            return Err("idle.below is a share between 0 and 1, such as 0.1".to_owned());
        }
        check_seconds(seconds)?;
        check_seconds(limit)?;
        if self.steps.is_empty() {
            return Err("there are no steps; write [[steps]] with do = \"launch\"".to_owned());
        }
        for steps in [&self.prepare, &self.steps] {
            if self.check_steps(steps, 0)? > STEPS_MAX {
                return Err(format!("the script has more than {STEPS_MAX} steps; use fewer repetitions"));
            }
        }
        Ok(())
    }

    /// Checks steps, and returns their number with all repetitions.
    fn check_steps(&self, steps: &[Step], depth: usize) -> Result<u64, String> {
        if depth > DEPTH_MAX {
            return Err(format!("repetitions are nested more than {DEPTH_MAX} times"));
        }
        let mut count = 0_u64;
        for step in steps {
            count = count.saturating_add(match step {
                Step::Repeat { times, steps } => {
                    self.check_steps(steps, depth + 1)?.saturating_mul(u64::from(*times))
                }
                _ => 1,
            });
            match step {
                Step::Think { seconds } | Step::Swipe { seconds, .. } => check_seconds(*seconds)?,
                Step::Launch { activity } => {
                    activity.parse::<crate::launch::Component>().map(|_| ())?;
                }
                Step::Monkey { app, seconds, .. } => {
                    check_seconds(*seconds)?;
                    self.check_app(app.as_deref(), "monkey")?;
                }
                Step::ForceStop { app } => self.check_app(app.as_deref(), "force_stop")?,
                Step::TapAny { app } => self.check_app(app.as_deref(), "tap_any")?,
                Step::Text { text } => {
                    if text.is_empty() || !text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                        return Err("a text has only printable ASCII characters, because `input text` can write no others".to_owned());
                    }
                    if text.contains("%s") {
                        return Err(
                            "a text cannot contain %s, which `input text` writes as a blank".to_owned()
                        );
                    }
                }
                Step::Key { key } => {
                    let is_key = !key.is_empty()
                        && key
                            .bytes()
                            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
                    if !is_key {
                        return Err(format!("{} is not a key; write BACK, HOME or a number", printable(key)));
                    }
                }
                Step::Repeat { .. } | Step::Tap { .. } | Step::UntilIdle => {}
            }
        }
        Ok(count)
    }

    fn check_app(&self, app: Option<&str>, step: &str) -> Result<(), String> {
        match app {
            Some(app) => check_package(app),
            None if self.app.is_some() => Ok(()),
            None => Err(format!(
                "the step {step} needs an app; write app = \"com.example\" at the top, or in the step"
            )),
        }
    }
}

fn check_package(name: &str) -> Result<(), String> {
    let is_one =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._".contains(&byte));
    if is_one {
        Ok(())
    } else {
        Err(format!("{} is not a package; write one such as com.example", printable(name)))
    }
}

fn check_seconds(seconds: f64) -> Result<(), String> {
    if (0.0..=86_400.0).contains(&seconds) {
        Ok(())
    } else {
        Err(format!("{seconds} is not a time; write seconds between 0 and 86400"))
    }
}

#[cfg(test)]
mod tests;
