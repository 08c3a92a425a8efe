//! `flip`: a read returns one wrong bit, without an error; the stored data stay correct.

use fonio_sim::Random;

use super::scope::Settings;
use super::{Asked, Judge, Scope, Verdict};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Flip {
    scope: Scope,
}

impl Flip {
    pub(super) fn parse(settings: &mut Settings<'_>) -> Result<Flip, String> {
        Ok(Flip { scope: Scope::of_reads(settings)? })
    }

    pub(super) fn judge(self, random: Random) -> impl Judge {
        At { scope: self.scope, random }
    }
}

struct At {
    scope: Scope,
    random: Random,
}

impl Judge for At {
    fn judge(&mut self, asked: &Asked, verdict: &mut Verdict) {
        let Some(struck) = self.scope.strikes(asked, &mut self.random).filter(|struck| !struck.is_empty())
        else {
            return;
        };
        let bit = self.random.below((struck.end - struck.start) * 8);
        verdict.flips.push((struck.start - asked.offset) * 8 + bit);
    }
}
