//! `vanish`: the device disappears for good, like a card that is pulled out.

use fonio_core::Nanos;
use fonio_sim::Random;

use super::scope::{Settings, parse_duration};
use super::{Asked, Judge, Verdict};

#[derive(Debug)]
enum Vanish {
    After(Nanos),
    Commands(u64),
}

pub(super) fn parse(settings: &mut Settings<'_>) -> Result<Box<dyn Judge>, String> {
    let vanish = match settings.take("after") {
        Some(after) => Vanish::After(parse_duration(after)?),
        None => {
            let commands = settings.take("commands").and_then(|text| text.parse().ok());
            Vanish::Commands(commands.ok_or("`after` (a duration) or `commands` (a number) is missing")?)
        }
    };
    Ok(Box::new(vanish))
}

impl Judge for Vanish {
    fn judge(&mut self, asked: &Asked, _: &mut Random, verdict: &mut Verdict) {
        verdict.vanished |= match self {
            Vanish::After(after) => asked.elapsed >= *after,
            Vanish::Commands(0) => true,
            Vanish::Commands(left) => {
                *left -= 1;
                false
            }
        };
    }
}
