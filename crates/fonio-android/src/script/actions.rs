//! Says which line of the phone's shell each step runs.

use std::time::Duration;

use fonio_core::random::Random;

use super::{Script, Step};

/// Time in addition to that of the action itself, in which the phone must have run it.
const SLACK: Duration = Duration::from_secs(60);

/// A line of the phone's shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// What the user reads.
    pub(super) shown: String,
    /// What the phone runs.
    pub(super) line: String,
    pub(super) limit: Duration,
}

/// Returns the line of a step. Steps that need more than a line have none: repetitions, pauses, waits, and touches of an
/// element, for which [`tap`] is. A step with `monkey` draws its seed.
pub(super) fn line(script: &Script, step: &Step, random: &mut Random) -> Option<Line> {
    let app = |app: &Option<String>| app.clone().or_else(|| script.app.clone()).unwrap_or_default();
    let plain = |line: String| Line { shown: line.clone(), line, limit: SLACK };
    Some(match step {
        Step::Repeat { .. } | Step::Think { .. } | Step::TapAny { .. } | Step::UntilIdle => return None,
        Step::Launch { activity } => plain(format!("am start -W -n '{activity}'")),
        Step::ForceStop { app: named } => plain(format!("am force-stop {}", app(named))),
        Step::Tap { x, y } => plain(tap((*x, *y))),
        Step::Swipe { from, to, seconds } => {
            let ms = milliseconds(*seconds);
            let line = format!("input swipe {} {} {} {} {ms}", from[0], from[1], to[0], to[1]);
            Line { limit: SLACK + Duration::from_millis(ms), ..plain(line) }
        }
        Step::Text { text } => {
            // `input text` writes %s as a blank.
            plain(format!("input text '{}'", text.replace(' ', "%s").replace('\'', r"'\''")))
        }
        Step::Key { key } => plain(format!("input keyevent {key}")),
        Step::Monkey { app: named, events, seconds } => {
            let (seed, ms) = (random.next_u64() >> 33, milliseconds(*seconds));
            let line = format!("monkey -p {} -s {seed} --throttle {ms} {events}", app(named));
            let time = Duration::from_millis(ms.saturating_mul(u64::from(*events)));
            // Without a pause, an event takes some milliseconds.
            let limit = SLACK + time * 2 + Duration::from_millis(20) * *events;
            Line { limit, ..plain(line) }
        }
    })
}

/// Returns the line that touches a point.
pub(super) fn tap((x, y): (u32, u32)) -> String {
    format!("input tap {x} {y}")
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round() as u64
}
