//! `vanish`: the device disappears, like a card that is pulled out, and does not come back.

use fonio_core::Nanos;

use super::scope::{Settings, parse_duration};
use super::{Asked, Judge, Verdict};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Vanish {
    After(Nanos),
    Commands(u64),
}

impl Vanish {
    pub(super) fn parse(settings: &mut Settings<'_>) -> Result<Vanish, String> {
        if let Some(after) = settings.take("after") {
            return Ok(Vanish::After(parse_duration(after)?));
        }
        let commands = settings.take("commands").and_then(|text| text.parse().ok());
        commands
            .map(Vanish::Commands)
            .ok_or("it needs `after` (a duration) or `commands` (a number)".to_owned())
    }

    pub(super) fn judge(self) -> impl Judge {
        Counting { vanish: self, seen: 0 }
    }
}

struct Counting {
    vanish: Vanish,
    seen: u64,
}

impl Judge for Counting {
    fn judge(&mut self, asked: &Asked, verdict: &mut Verdict) {
        verdict.vanished |= match self.vanish {
            Vanish::After(after) => asked.elapsed >= after,
            Vanish::Commands(commands) => self.seen >= commands,
        };
        self.seen += 1;
    }
}
