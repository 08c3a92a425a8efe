//! Requests that begin at a multiple of 4 KiB.

use fonio_core::{Request, SECTOR_BYTES, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figures::facts::{Facts, Frame};
use crate::question::Question;
use crate::question::context::Ending;
use crate::question::ratio::ratio;
use crate::question::seen::Seen;

/// Aligned requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aligned {
    /// Requests with an address.
    pub requests: u64,
    /// Of those, requests that begin at a multiple of 4 KiB.
    pub aligned: u64,
}

/// Counts aligned requests.
#[derive(Debug, Default)]
pub(crate) struct AlignedTally(Aligned);

impl Question for AlignedTally {
    type Answer = Aligned;

    #[inline]
    fn request(&mut self, request: &Request, _: &Seen) {
        if let Some(sector) = request.sector {
            self.0.requests += 1;
            self.0.aligned += u64::from(sector.0.is_multiple_of(4096 / SECTOR_BYTES));
        }
    }

    fn finish(self, _: &mut Ending) -> Aligned {
        self.0
    }

    fn figures(aligned: &Aligned, _: &Frame, facts: &mut Facts) {
        let share = ratio(aligned.aligned, aligned.requests);
        facts.put("aligned.share", "share of requests aligned to 4 KiB", Unit::Share, share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyser::tests::analyse;

    #[test]
    fn starts_at_4_kib() {
        let aligned = analyse(&["W 0+8 d0 c1", "W 8+8 d1 c2", "R 3+8 d2 c3"]).aligned;
        assert_eq!(aligned, Aligned { requests: 3, aligned: 2 });
    }
}
