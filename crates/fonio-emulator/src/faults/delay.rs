//! The fault `delay`: commands take longer by the time `add`.

use fonio_core::Nanos;
use fonio_sim::Random;

use super::scope::{Settings, parse_duration};
use super::{Asked, Judge, Scope, Verdict};

#[derive(Debug)]
struct Delay {
    scope: Scope,
    add: Nanos,
}

pub(super) fn parse(settings: &mut Settings<'_>) -> Result<Box<dyn Judge>, String> {
    let add = settings.take("add").ok_or("`add` is missing; write add=50ms")?;
    Ok(Box::new(Delay { add: parse_duration(add)?, scope: Scope::parse(settings)? }))
}

impl Judge for Delay {
    fn judge(&mut self, asked: &Asked, random: &mut Random, verdict: &mut Verdict) {
        if self.scope.strikes(asked, random).is_some() {
            verdict.delay += self.add;
        }
    }
}
