//! Scheduler decisions as text, to test that the same input gives the same decisions.
//!
//! A vector is a list of inputs, one per line, with the scheduler's results after `->`:
//!
//! ```text
//! # a comment
//! scheduler smartio seq_read=2 rand_read=4 seq_write=4 rand_write=2
//! insert 0 id=0 read sync sector=0 bytes=4096 process=1 be4
//! dispatch 0 -> 0
//! dispatch 0 -> none
//! complete 72000 id=0
//! timer 72000 -> none
//! ```
//!
//! Times are in nanoseconds and must not decrease. The result of `dispatch` is a request ID or `none`; the
//! result of `timer` is a time or `none`. Dispatched requests are in flight until their completion.
//! [`answer`] fills in the results. To test an implementation in another language, give it the same inputs
//! and compare the results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::str::FromStr;

use fonio_core::{ByteCount, Nanos, Op, Sector, Timestamp};
use thiserror::Error;

use super::bfq::{self, Bfq};
use super::mq_deadline::{self, MqDeadline};
use super::smartio::{self, SmartIo};
use super::{Class, Policy, Priority, ProcessId, Request, RequestId, Scheduler};

/// Maximum value of a setting in milliseconds: one day, which does not overflow when converted to
/// nanoseconds.
const MILLIS_MAX: u64 = 86_400_000;

/// A line that is not a valid input.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct VectorError {
    /// The line number, counted from 1.
    pub line: usize,
    /// The error and the expected form.
    pub what: String,
}

/// Runs the inputs of a vector and returns the vector with the scheduler's results. Fails if a line is not a
/// valid input.
pub fn answer(text: &str) -> Result<String, VectorError> {
    let mut state = State { scheduler: None, now: 0, waiting: BTreeMap::new(), issued: BTreeMap::new() };
    let mut answered = String::new();
    for (at, line) in text.lines().enumerate() {
        let input = line.split("->").next().unwrap_or(line).trim_end();
        let answer = state.take(input).map_err(|what| VectorError { line: at + 1, what })?;
        let _ = match answer {
            Some(answer) => writeln!(answered, "{input} -> {answer}"),
            None => writeln!(answered, "{input}"),
        };
    }
    Ok(answered)
}

struct State {
    scheduler: Option<Box<dyn Scheduler>>,
    now: u64,
    waiting: BTreeMap<RequestId, Request>,
    issued: BTreeMap<RequestId, (Request, Timestamp)>,
}

impl State {
    fn take(&mut self, input: &str) -> Result<Option<String>, String> {
        let mut words = input.split_whitespace();
        let Some(verb) = words.next().filter(|word| !word.starts_with('#')) else { return Ok(None) };
        if verb == "scheduler" {
            if self.scheduler.is_some() {
                return Err("`scheduler` must occur only once".to_owned());
            }
            self.scheduler = Some(scheduler(words)?);
            return Ok(None);
        }
        let scheduler = self.scheduler.as_mut().ok_or("the first input must be `scheduler NAME`")?;
        let now: u64 = parsed(words.next(), "a time in nanoseconds")?;
        if now < self.now {
            return Err(format!("time {now} is before {}, the time of the previous input", self.now));
        }
        self.now = now;
        let now = Timestamp(now);
        match verb {
            "insert" => {
                let request = request(words)?;
                if self.waiting.contains_key(&request.id) || self.issued.contains_key(&request.id) {
                    return Err(format!("request {} was already inserted", request.id.0));
                }
                self.waiting.insert(request.id, request);
                scheduler.insert(request, now);
                Ok(None)
            }
            "dispatch" => {
                let in_flight = self.issued.len() as u32;
                let Some(gone) = scheduler.dispatch(now, in_flight) else {
                    return Ok(Some("none".to_owned()));
                };
                let was_waiting = self.waiting.remove(&gone.id).is_some();
                assert!(was_waiting, "the scheduler dispatched a request that was not waiting");
                self.issued.insert(gone.id, (gone, now));
                Ok(Some(gone.id.0.to_string()))
            }
            "complete" => {
                let id = RequestId(valued(words.next(), "id")?);
                let not_in_flight = || format!("request {} is not in flight", id.0);
                let (request, issued) = self.issued.remove(&id).ok_or_else(not_in_flight)?;
                scheduler.complete(&request, issued, now);
                Ok(None)
            }
            "timer" => {
                let next = scheduler.next_timer(now);
                Ok(Some(next.map_or_else(|| "none".to_owned(), |at| at.0.to_string())))
            }
            _ => Err(format!("`{verb}` is not an input; use insert, dispatch, complete or timer")),
        }
    }
}

/// Parses `NAME` and the settings that differ from the defaults (for SmartIO, the settings of the S5).
fn scheduler<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Box<dyn Scheduler>, String> {
    let name = words.next().unwrap_or_default();
    let names = Policy::ALL.map(Policy::name).join(", ");
    let policy =
        Policy::named(name).ok_or_else(|| format!("unknown scheduler `{name}`; use one of {names}"))?;
    match policy {
        Policy::SmartIo => smartio(words),
        Policy::MqDeadline => mq_deadline(words),
        Policy::Bfq => bfq(words),
        _ => match words.next() {
            Some(word) => Err(format!("vectors cannot change settings of {name}; remove `{word}`")),
            None => Ok(policy.scheduler()),
        },
    }
}

/// Parses `NAME=NUMBER` settings; `set` returns `None` for unknown names and numbers out of range.
fn settings<'a>(
    words: impl Iterator<Item = &'a str>,
    policy: Policy,
    mut set: impl FnMut(&str, u64) -> Option<()>,
) -> Result<(), String> {
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}` is not NAME=NUMBER"))?;
        let refused = || format!("`{word}` is not a setting of {}", policy.name());
        set(key, parsed(Some(value), "a number")?).ok_or_else(refused)?;
    }
    Ok(())
}

fn narrow(value: u64) -> Option<u32> {
    u32::try_from(value).ok()
}

/// Converts a limit to `u32`; `None` if the limit is 0 or does not fit.
fn limit(value: u64) -> Option<u32> {
    narrow(value).filter(|limit| *limit > 0)
}

fn millis(value: u64) -> Option<Nanos> {
    (value <= MILLIS_MAX).then_some(Nanos(value * 1_000_000))
}

/// Parses settings with the kernel's names and units.
fn mq_deadline<'a>(words: impl Iterator<Item = &'a str>) -> Result<Box<dyn Scheduler>, String> {
    let mut tunables = mq_deadline::Tunables::DEFAULT;
    settings(words, Policy::MqDeadline, |key, value| {
        match key {
            "fifo_batch" => tunables.lists.fifo_batch = narrow(value)?,
            "writes_starved" => tunables.lists.writes_starved = narrow(value)?,
            "prio_aging_expire" => tunables.prio_aging_expire = millis(value)?,
            _ => return None,
        }
        Some(())
    })?;
    Ok(Box::new(MqDeadline::new(tunables)))
}

/// Parses settings with the kernel's names and units. Accepts only `low_latency=0`: the model never raises
/// weights.
fn bfq<'a>(words: impl Iterator<Item = &'a str>) -> Result<Box<dyn Scheduler>, String> {
    let mut tunables = bfq::Tunables::DEFAULT;
    settings(words, Policy::Bfq, |key, value| {
        match (key, value) {
            ("low_latency", 0) => {}
            ("slice_idle", _) => tunables.slice_idle = millis(value)?,
            ("max_budget", _) => tunables.max_budget = limit(value)?.into(),
            ("strict_guarantees", 0 | 1) => tunables.strict_guarantees = value == 1,
            _ => return None,
        }
        Some(())
    })?;
    Ok(Box::new(Bfq::new(tunables)))
}

fn smartio<'a>(words: impl Iterator<Item = &'a str>) -> Result<Box<dyn Scheduler>, String> {
    let mut tunables = smartio::Tunables::SAMSUNG_S5;
    settings(words, Policy::SmartIo, |key, value| {
        match key {
            "slice_ns" => tunables.slice = Nanos(value),
            "hold_ns" => tunables.hold = Nanos(value),
            "quantum" => tunables.quantum = limit(value)?,
            _ => {
                let kind = smartio::Kind::ALL.into_iter().find(|kind| kind.name() == key)?;
                tunables.limits[kind as usize] = limit(value)?;
            }
        }
        Some(())
    })?;
    Ok(Box::new(SmartIo::new(tunables)))
}

/// Parses `id=N OP sync|async sector=N bytes=N process=N CLASS[LEVEL]`.
fn request<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Request, String> {
    let id = RequestId(valued(words.next(), "id")?);
    let op = words.next().unwrap_or_default();
    let known = Op::ALL.into_iter().find(|known| known.name() == op && *known != Op::Flush);
    let op = known.ok_or_else(|| format!("`{op}` is not an operation for schedulers"))?;
    let is_sync = match words.next() {
        Some("sync") => true,
        Some("async") => false,
        other => return Err(format!("`{}` is neither sync nor async", other.unwrap_or_default())),
    };
    let sector = Sector(valued(words.next(), "sector")?);
    let bytes = ByteCount(valued(words.next(), "bytes")?);
    let process = valued::<u32>(words.next(), "process")?;
    let priority = priority(words.next().unwrap_or_default())?;
    match words.next() {
        Some(word) => Err(format!("unexpected `{word}` at the end of the line")),
        None => Ok(Request { id, op, is_sync, sector, bytes, process: ProcessId(process), priority }),
    }
}

fn priority(word: &str) -> Result<Priority, String> {
    let wrong = || format!("`{word}` is not a priority such as rt0, be4 or idle");
    if word == Class::Idle.name() {
        return Ok(Priority { class: Class::Idle, level: Priority::LEVEL_MAX });
    }
    let class = Class::ALL.into_iter().find(|class| word.starts_with(class.name())).ok_or_else(wrong)?;
    let level: u8 = word[class.name().len()..].parse().map_err(|_| wrong())?;
    if level > Priority::LEVEL_MAX || class == Class::Idle {
        return Err(wrong());
    }
    Ok(Priority { class, level })
}

fn valued<T: FromStr>(word: Option<&str>, name: &str) -> Result<T, String> {
    let word = word.unwrap_or_default();
    let value = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
    parsed(value, "").map_err(|_| format!("`{word}` is not {name}=NUMBER"))
}

fn parsed<T: FromStr>(word: Option<&str>, what: &str) -> Result<T, String> {
    let word = word.unwrap_or_default();
    word.parse().map_err(|_| format!("`{word}` is not {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        let error = |text: &str| answer(text).expect_err(text).to_string();
        let file = expect_test::expect_file!["vector_errors.txt"];
        file.assert_eq(&fonio_testing::cases::cases(&file.data(), |text| error(text) + "\n"));
        assert!(error("# why\nscheduler x").starts_with("line 2: unknown scheduler `x`"));
    }

    #[test]
    fn answers_replace_what_was_there() {
        let text = "scheduler noop\ninsert 5 id=7 write async sector=8 bytes=512 process=1 idle\ndispatch 5 -> 3\ntimer 5\n";
        let expected = "scheduler noop\ninsert 5 id=7 write async sector=8 bytes=512 process=1 idle\ndispatch 5 -> 7\ntimer 5 -> none\n";
        assert_eq!(answer(text).as_deref(), Ok(expected));
        assert_eq!(answer(expected).as_deref(), Ok(expected));
    }
}
