//! `delay`: commands take longer, by `add`.

use fonio_core::Nanos;
use fonio_sim::Random;

use super::scope::{Settings, parse_duration};
use super::{Asked, Judge, Scope, Verdict};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Delay {
    scope: Scope,
    add: Nanos,
}

impl Delay {
    pub(super) fn parse(settings: &mut Settings<'_>) -> Result<Delay, String> {
        let add = settings.take("add").ok_or("it needs `add`, such as add=50ms")?;
        Ok(Delay { add: parse_duration(add)?, scope: Scope::parse(settings)? })
    }

    pub(super) fn judge(self, random: Random) -> impl Judge {
        At { delay: self, random }
    }
}

struct At {
    delay: Delay,
    random: Random,
}

impl Judge for At {
    fn judge(&mut self, asked: &Asked, verdict: &mut Verdict) {
        if self.delay.scope.strikes(asked, &mut self.random).is_some() {
            verdict.delay += self.delay.add;
        }
    }
}
