//! Selects the commands that a fault affects, and parses the keys of faults.

use std::ops::Range;

use fonio_core::quantity::parse_bytes;
use fonio_core::{Nanos, Op, QuantityError};
use fonio_sim::Random;

use super::Asked;

/// The keys of a fault that are not yet parsed.
pub(super) struct Settings<'a> {
    left: Vec<(&'a str, &'a str)>,
}

impl<'a> Settings<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Settings<'a>, String> {
        let pairs = text.split(',').filter(|part| !part.is_empty()).map(|part| {
            part.split_once('=').ok_or_else(|| format!("`{part}` is not a key with a value, such as op=read"))
        });
        Ok(Settings { left: pairs.collect::<Result<_, _>>()? })
    }

    pub(super) fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.left.iter().position(|(name, _)| *name == key)?;
        Some(self.left.remove(at).1)
    }

    pub(super) fn finish(&self) -> Result<(), String> {
        self.left.first().map_or(Ok(()), |(key, _)| Err(format!("unknown key `{key}`")))
    }
}

#[derive(Debug)]
pub(super) struct Scope {
    /// The affected operations; `None` for all operations.
    ops: Option<Vec<Op>>,
    range: Option<Range<u64>>,
    /// Probability that the fault affects a command, in units of 2⁻⁶⁴; `None` for 1.
    threshold: Option<u64>,
}

impl Scope {
    pub(super) fn parse(settings: &mut Settings<'_>) -> Result<Scope, String> {
        let ops = settings.take("op").map(parse_ops).transpose()?;
        Ok(Scope { ops, ..Scope::of_reads(settings)? })
    }

    /// Parses the keys `range` and `probability` of a fault that affects only reads.
    pub(super) fn of_reads(settings: &mut Settings<'_>) -> Result<Scope, String> {
        let range = settings.take("range").map(parse_range).transpose()?;
        let threshold = settings.take("probability").map(parse_probability).transpose()?.flatten();
        Ok(Scope { ops: Some(vec![Op::Read]), range, threshold })
    }

    /// Returns the affected part of the command, as byte offsets on the device; `None` if the fault does not
    /// affect this command.
    pub(super) fn strikes(&self, asked: &Asked, random: &mut Random) -> Option<Range<u64>> {
        if self.ops.as_ref().is_some_and(|ops| !ops.contains(&asked.op)) {
            return None;
        }
        let all = asked.offset..asked.offset + asked.bytes;
        let struck = match &self.range {
            None => all,
            Some(range) => {
                let part = all.start.max(range.start)..all.end.min(range.end);
                if part.is_empty() {
                    return None;
                }
                part
            }
        };
        let drawn = self.threshold.is_none_or(|threshold| random.next_u64() < threshold);
        drawn.then_some(struck)
    }
}

fn parse_ops(text: &str) -> Result<Vec<Op>, String> {
    let op = |name: &str| match name {
        "read" => Ok(Op::Read),
        "write" => Ok(Op::Write),
        "flush" => Ok(Op::Flush),
        "discard" => Ok(Op::Discard),
        _ => Err(format!("unknown op `{name}`; use one of: read, write, flush, discard")),
    };
    text.split('+').map(op).collect()
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text
        .split_once('-')
        .ok_or_else(|| format!("`{text}` is not a range; write a range such as 1MiB-2MiB"))?;
    let bytes = |text: &str| parse_bytes(text).map_err(|error| error.to_string());
    let range = bytes(from)?..bytes(to)?;
    if range.is_empty() { Err(format!("the range `{text}` is empty")) } else { Ok(range) }
}

fn parse_probability(text: &str) -> Result<Option<u64>, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    let number =
        number.ok_or_else(|| format!("`{text}` is not a probability; write a number from 0 to 1"))?;
    Ok((number < 1.0).then_some((number * 2_f64.powi(64)) as u64))
}

pub(super) fn parse_duration(text: &str) -> Result<Nanos, String> {
    text.parse().map_err(|error: QuantityError| error.to_string())
}
