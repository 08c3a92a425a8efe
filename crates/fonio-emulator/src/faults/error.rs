//! `error`: commands fail with an I/O error after their usual time.

use fonio_sim::Random;

use super::scope::Settings;
use super::{Asked, Judge, Scope, Verdict};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Error {
    scope: Scope,
}

impl Error {
    pub(super) fn parse(settings: &mut Settings<'_>) -> Result<Error, String> {
        Ok(Error { scope: Scope::parse(settings)? })
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
        verdict.fails |= self.scope.strikes(asked, &mut self.random).is_some();
    }
}
