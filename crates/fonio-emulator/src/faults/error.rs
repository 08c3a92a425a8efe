//! `error`: commands fail with an I/O error after their usual time.

use fonio_sim::Random;

use super::scope::Settings;
use super::{Asked, Judge, Scope, Verdict};

#[derive(Debug)]
struct Error(Scope);

pub(super) fn parse(settings: &mut Settings<'_>) -> Result<Box<dyn Judge>, String> {
    Ok(Box::new(Error(Scope::parse(settings)?)))
}

impl Judge for Error {
    fn judge(&mut self, asked: &Asked, random: &mut Random, verdict: &mut Verdict) {
        verdict.fails |= self.0.strikes(asked, random).is_some();
    }
}
