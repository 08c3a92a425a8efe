//! `flip`: a read returns one wrong bit, without an error; the stored data stay correct.

use fonio_sim::Random;

use super::scope::Settings;
use super::{Asked, Judge, Scope, Verdict};

#[derive(Debug)]
struct Flip(Scope);

pub(super) fn parse(settings: &mut Settings<'_>) -> Result<Box<dyn Judge>, String> {
    Ok(Box::new(Flip(Scope::of_reads(settings)?)))
}

impl Judge for Flip {
    fn judge(&mut self, asked: &Asked, random: &mut Random, verdict: &mut Verdict) {
        if let Some(struck) = self.0.strikes(asked, random).filter(|struck| !struck.is_empty()) {
            let bit = random.below((struck.end - struck.start) * 8);
            verdict.flips.push((struck.start - asked.offset) * 8 + bit);
        }
    }
}
