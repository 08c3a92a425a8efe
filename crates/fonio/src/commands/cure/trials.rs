//! Remembers the results of trials, so that the next cure begins with the fix that helped.

use std::time::{SystemTime, UNIX_EPOCH};

use fonio_core::Unit;
use fonio_system::{TrustedFolder, say, state};
use fonio_watch::times;
use serde::{Deserialize, Serialize};

use super::said::Said;
use super::seen::Seen;

/// The file with the results of trials, in the folder that survives a reboot.
const FILE: &str = "trials.json";
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The newest results that are kept.
const RESULTS_MAX: usize = 200;

/// The result of an earlier trial of a fix on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    fix: String,
    mechanism: String,
    device: String,
    way: String,
    date: String,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

impl Known {
    /// Returns whether the trial showed a difference.
    pub(super) fn is_shown(&self) -> bool {
        self.high.is_some_and(|high| high < 1.0) || self.low.is_some_and(|low| low > 1.0)
    }

    /// Returns the ratio if the trial showed a difference, otherwise 1. The fix with the smallest one comes first.
    pub(super) fn rank(&self) -> f64 {
        self.ratio.filter(|_| self.is_shown()).unwrap_or(1.0)
    }

    pub(super) fn sentence(&self) -> String {
        let Known { date, ratio, low, high, .. } = self;
        let interval = match (low, high) {
            (Some(low), Some(high)) => format!(" ({low:.2} to {high:.2} times as long)"),
            _ => String::new(),
        };
        match ratio {
            Some(_) if !self.is_shown() => {
                format!("A trial here on {date} did not show whether it helps{interval}.")
            }
            Some(ratio) => {
                format!(
                    "A trial here on {date}: the waits took {} of their time{interval}.",
                    Unit::Share.format(*ratio)
                )
            }
            None => format!("A trial here on {date} showed nothing."),
        }
    }
}

/// Returns the newest result of a fix for the same cause on the same device.
pub(super) fn known(seen: &Seen, said: &Said, fix: &str) -> Option<Known> {
    let folder = TrustedFolder::open(&state::lasting_folder()?).ok()??;
    let (mechanism, device) = of(seen, said)?;
    let all = read(&folder);
    all.into_iter()
        .rev()
        .find(|known| known.fix == fix && known.mechanism == mechanism && known.device == device)
}

/// The result of a trial.
pub(super) struct Trial<'a> {
    pub(super) fix: &'a str,
    pub(super) way: &'a str,
    pub(super) ratio: Option<f64>,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
}

/// Remembers a result. If that is not possible, the next cure knows less, which a note says.
pub(super) fn remember(seen: &Seen, said: &Said, result: Trial<'_>) {
    let Some((mechanism, device)) = of(seen, said) else { return };
    let Some(place) = state::lasting_folder() else { return };
    let written = TrustedFolder::make(&place).and_then(|folder| {
        let mut all = read(&folder);
        all.push(Known {
            fix: result.fix.to_owned(),
            mechanism,
            device,
            way: result.way.to_owned(),
            date: times::day(now()),
            ratio: result.ratio,
            low: result.low,
            high: result.high,
        });
        let from = all.len().saturating_sub(RESULTS_MAX);
        folder.replace(FILE, &serde_json::to_vec_pretty(&all[from..]).expect("the results are JSON"))
    });
    if let Err(error) = written {
        say!("note: the result of this trial is not remembered: {error}");
    }
}

fn read(folder: &TrustedFolder) -> Vec<Known> {
    let Ok(Some(text)) = folder.read(FILE, FILE_BYTES_MAX) else { return Vec::new() };
    serde_json::from_slice(&text).unwrap_or_else(|error| {
        let path = folder.path().join(FILE);
        say!("note: {} cannot be understood and is written anew: {error}", path.display());
        Vec::new()
    })
}

fn now() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX)
}

/// Returns the mechanism and the device of a stall. The device is named by its model, because numbers change.
fn of(seen: &Seen, said: &Said) -> Option<(String, String)> {
    let name = seen.analysis.diagnosis.as_ref()?.device.as_deref()?;
    let device = seen.analysis.devices.iter().find(|device| device.shown() == name);
    let model = device.and_then(|device| device.model.clone()).unwrap_or_else(|| name.to_owned());
    Some((said.mechanism.clone()?, model))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_difference_that_was_shown_changes_the_order() {
        let rank = |ratio, low, high| {
            let text = String::new;
            Known {
                fix: text(),
                mechanism: text(),
                device: text(),
                way: text(),
                date: text(),
                ratio,
                low,
                high,
            }
            .rank()
        };
        for (ratio, low, high, expected) in [
            (Some(0.4), Some(0.3), Some(0.6), 0.4),
            (Some(0.6), Some(0.3), Some(1.1), 1.0),
            (Some(1.5), Some(1.2), Some(1.9), 1.5),
            (Some(1.5), Some(0.8), None, 1.0),
            (None, None, None, 1.0),
        ] {
            assert!((rank(ratio, low, high) - expected).abs() < 1e-9, "{ratio:?} {low:?} {high:?}");
        }
    }
}
