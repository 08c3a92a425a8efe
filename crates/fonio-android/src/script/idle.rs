//! Decides when the phone is idle, from the processor time that it reports: Android's own counters, or `top`, or
//! `dumpsys cpuinfo`. This is the `UntilIdle` of the phone study (Kim, Agrawal, Ungureanu 2012, section 3.4).

use std::time::Duration;

use super::Idle;

/// A line of the phone's shell that shows the processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// `/proc/stat`: counters, so two readings give a share.
    Counters,
    /// `top`: the share since the reading before it.
    Top,
    /// `dumpsys cpuinfo`: the share of the last minutes, at worst.
    CpuInfo,
}

impl Source {
    pub(super) const ALL: [Source; 3] = [Source::Counters, Source::Top, Source::CpuInfo];

    pub(super) fn line(self) -> &'static str {
        match self {
            Source::Counters => "read -r line < /proc/stat && echo \"$line\"",
            Source::Top => "top -b -n 2 -d 1 -m 1",
            Source::CpuInfo => "dumpsys cpuinfo",
        }
    }

    /// Returns what the phone's answer says; `None` if it says nothing about the processors.
    pub(super) fn read(self, text: &str) -> Option<Reading> {
        match self {
            Source::Counters => counters(text),
            Source::Top => top(text),
            Source::CpuInfo => cpuinfo(text),
        }
    }
}

/// The processor time of a phone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reading {
    /// Ticks since the start of the phone: of work, and of all.
    Ticks { busy: u64, all: u64 },
    /// The used share of the processors.
    Share(f64),
}

/// Parses the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. Waiting for storage is
/// idle for the processor, as in the study.
fn counters(text: &str) -> Option<Reading> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
    let idle = ticks.get(3)?.saturating_add(*ticks.get(4)?);
    let all = ticks.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
    Some(Reading::Ticks { busy: all.saturating_sub(idle), all })
}

/// Parses the last head of toybox's top: `800%cpu  12%user   0%nice  20%sys 760%idle   8%iow   0%irq …`.
fn top(text: &str) -> Option<Reading> {
    let line = text.lines().rfind(|line| line.contains("%cpu") && line.contains("%idle"))?;
    let share = |name: &str| {
        let word = line.split_whitespace().find_map(|word| word.strip_suffix(name))?;
        word.trim_end_matches('%').parse::<f64>().ok().filter(|share| share.is_finite())
    };
    let (all, idle, waiting) = (share("cpu")?, share("idle")?, share("iow").unwrap_or(0.0));
    (all > 0.0).then(|| Reading::Share(((all - idle - waiting) / all).clamp(0.0, 1.0)))
}

/// Parses the last line of `dumpsys cpuinfo`: `7.3% TOTAL: 4.1% user + 2.9% kernel + 0.1% iowait`.
fn cpuinfo(text: &str) -> Option<Reading> {
    let line = text.lines().find(|line| line.contains("% TOTAL:"))?;
    let share: f64 = line.split_once('%')?.0.trim().trim_start_matches('+').parse().ok()?;
    let waiting = line.split(" + ").find_map(|part| part.trim().strip_suffix("% iowait"));
    let waiting: f64 = waiting.and_then(|share| share.parse().ok()).unwrap_or(0.0);
    let share = (share - waiting) / 100.0;
    share.is_finite().then(|| Reading::Share(share.clamp(0.0, 1.0)))
}

/// Follows the readings until the phone has been idle for long enough.
#[derive(Clone, Debug)]
pub(super) struct UntilIdle {
    idle: Idle,
    before: Option<(u64, u64)>,
    /// Since when the share has been below the limit.
    since: Option<Duration>,
}

/// The state of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Wait,
    IsIdle,
    TooLong,
}

impl UntilIdle {
    pub(super) fn new(idle: Idle) -> UntilIdle {
        UntilIdle { idle, before: None, since: None }
    }

    /// Notes a reading at a time since the wait began.
    pub(super) fn note(&mut self, reading: Reading, at: Duration) -> Verdict {
        let share = match reading {
            Reading::Share(share) => Some(share),
            Reading::Ticks { busy, all } => {
                let before = self.before.replace((busy, all));
                before.and_then(|(busy_before, all_before)| {
                    let (busy, all) = (busy.checked_sub(busy_before)?, all.checked_sub(all_before)?);
                    (all > 0).then(|| busy as f64 / all as f64)
                })
            }
        };
        match share {
            Some(share) if share <= self.idle.below => {
                let since = *self.since.get_or_insert(at);
                if (at - since).as_secs_f64() >= self.idle.seconds {
                    return Verdict::IsIdle;
                }
            }
            Some(_) => self.since = None,
            None => {}
        }
        if at.as_secs_f64() >= self.idle.limit { Verdict::TooLong } else { Verdict::Wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_times_are_read() {
        // The texts are those of Linux, toybox and AOSP's ProcessCpuTracker.
        let stat = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3\n";
        assert_eq!(Source::Counters.read(stat), Some(Reading::Ticks { busy: 150, all: 1000 }));
        let top = "Tasks: 1 total\n800%cpu 400%user 0%nice 0%sys 400%idle 0%iow\n  PID\n\
                   800%cpu  20%user   0%nice  20%sys 720%idle  40%iow   0%irq   0%sirq   0%host\n";
        assert_eq!(Source::Top.read(top), Some(Reading::Share(0.05)));
        let info = "Load: 1.0 / 1.0 / 1.0\n  3.1% 1234/system_server: 2% user + 1.1% kernel\n\
                    7.5% TOTAL: 4% user + 3% kernel + 0.5% iowait\n";
        assert_eq!(Source::CpuInfo.read(info), Some(Reading::Share(0.07)));
        for source in Source::ALL {
            for text in ["", "Permission denied", "cpu ", "%cpu %idle", "x% TOTAL:", "NaN% TOTAL: 1"] {
                assert_eq!(source.read(text), None, "{text}");
            }
        }
    }

    #[test]
    fn idle_is_a_low_share_for_a_while() {
        let idle = Idle { below: 0.1, seconds: 1.0, limit: 5.0 };
        let mut wait = UntilIdle::new(idle);
        let at = |half_seconds: u64| Duration::from_millis(half_seconds * 500);
        let shares = [0.5, 0.05, 0.2, 0.05, 0.09, 0.01];
        let verdicts: Vec<Verdict> =
            (0..).zip(shares).map(|(number, share)| wait.note(Reading::Share(share), at(number))).collect();
        assert_eq!(verdicts[..5], [Verdict::Wait; 5]);
        assert_eq!(verdicts[5], Verdict::IsIdle);
        let mut wait = UntilIdle::new(idle);
        assert_eq!(wait.note(Reading::Share(1.0), at(10)), Verdict::TooLong);
        // Counters need two readings; the first ones say nothing.
        let mut wait = UntilIdle::new(idle);
        assert_eq!(wait.note(Reading::Ticks { busy: 0, all: 1000 }, at(0)), Verdict::Wait);
        assert_eq!(wait.note(Reading::Ticks { busy: 1, all: 1100 }, at(1)), Verdict::Wait);
        assert_eq!(wait.note(Reading::Ticks { busy: 2, all: 1200 }, at(3)), Verdict::IsIdle);
    }
}
