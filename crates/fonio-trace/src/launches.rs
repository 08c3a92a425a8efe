//! Follows the launches of Android apps by the texts of the system server, while a trace is read.
//!
//! The analysis finds the launches by their marks, which are complete only at their end. This module tells the reader
//! earlier that a launch is under way. The texts are those of `waits/uninterruptible/spans.rs` of the analysis.

use fonio_core::{Nanos, Timestamp};

/// The begins of the names of a launch's spans, in Android 13 and before.
const SPANS: [&[u8]; 2] = [b"launchingActivity#", b"launching: "];

/// The text before the span in Android 10 to 12.
const INTENT: &[u8] = b"|MetricsLogger:launchObserverNotifyIntentStarted";

/// Maximum length of a launch: the end of its span is missing in a trace that ends earlier or lost events.
const LAUNCH_MAX: Nanos = Nanos(60 * 1_000_000_000);

/// The launches so far.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    /// Number of open spans, and when the last span or intent began.
    open: u32,
    began: Option<Timestamp>,
    /// The latest time at which a launch was under way, as far as it is known.
    latest: Option<Timestamp>,
}

impl Launches {
    /// Handles a text that a program wrote.
    pub fn wrote(&mut self, text: &[u8], at: Timestamp) {
        if self.began.is_some_and(|began| at - began > LAUNCH_MAX) {
            (self.open, self.began) = (0, None);
        }
        if text.ends_with(INTENT) && self.open == 0 {
            self.began = Some(at);
        }
        let Some((letter, rest)) = text.split_first().filter(|(letter, _)| b"SF".contains(letter)) else {
            return;
        };
        let name = rest.strip_prefix(b"|").and_then(|rest| rest.splitn(2, |byte| *byte == b'|').nth(1));
        if !name.is_some_and(|name| SPANS.iter().any(|span| name.starts_with(span))) {
            return;
        }
        if *letter == b'S' {
            self.open += 1;
            self.began = Some(at);
        } else if self.open > 0 {
            self.open -= 1;
            if self.open == 0 {
                self.began = None;
            }
            self.latest = Some(at);
        }
    }

    /// Returns whether an interval that began at this time and ends now is part of a launch.
    pub fn overlaps(&self, began: Timestamp) -> bool {
        self.began.is_some() || self.latest.is_some_and(|latest| began < latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_begins_and_ends_with_its_span() {
        const SECOND: u64 = 1_000_000_000;
        for (texts, at, expected) in [
            (&[][..], 5, false),
            (&[(1, "S|9|launchingActivity#7|0")][..], 5, true),
            (&[(1, "S|9|launching: com.example|0")], 5, true),
            (&[(1, "I|9|MetricsLogger:launchObserverNotifyIntentStarted")], 5, true),
            (&[(1, "S|9|other|0"), (2, "launching: com.example")], 5, false),
            (&[(1, "S|9|launchingActivity#7|0"), (6, "F|9|launchingActivity#7|0")], 5, true),
            (&[(1, "S|9|launchingActivity#7|0"), (6, "F|9|launchingActivity#7|0")], 6, false),
            // Both spans of Android 13.
            (
                &[(1, "S|9|launchingActivity#7|0"), (2, "S|9|launching: a|0"), (3, "F|9|launching: a|0")],
                5,
                true,
            ),
            // The end is missing.
            (&[(1, "S|9|launchingActivity#7|0"), (90, "B|9|doFrame")], 5, false),
            (&[(5, "F|9|launchingActivity#7|0")], 5, false),
        ] {
            let mut launches = Launches::default();
            for (at, text) in texts {
                launches.wrote(text.as_bytes(), Timestamp(at * SECOND));
            }
            assert_eq!(launches.overlaps(Timestamp(at * SECOND)), expected, "{texts:?}");
        }
    }
}
