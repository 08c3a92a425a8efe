//! Which places are written and read again and again (the block-trace study's Figure 6 and section IV.C).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Re-written and re-read places. A place is 4 KiB of a device's address space; a request touches each place it covers
/// wholly or in part once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Locality {
    /// Share of the address space that was followed: 1 means every place. Below that, places were chosen in chunks of
    /// 256 KiB by a hash of their address, counts of places are scaled up by its reciprocal, and the ranking holds
    /// only the places followed.
    pub sampled_share: f64,
    /// Writes.
    pub written: PlaceCounts,
    /// Reads.
    pub read: PlaceCounts,
    /// The most written places, most written first, then by device and sector; at most 300, as in the study.
    pub most_written: Vec<Place>,
}

/// How often places are touched by one op.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceCounts {
    /// Distinct places.
    pub places: u64,
    /// Touches of places in all.
    pub touches: u64,
    /// Places touched more than once.
    pub again_places: u64,
    /// Share of touches that go to a place touched before.
    pub again_share: Option<f64>,
    /// Share of all touches that the 10 most touched places take.
    pub top_10_share: Option<f64>,
    /// The touches of the most touched place. For reads it stops at 255.
    pub most: u64,
    /// Fewest places that together take half of the touches.
    pub covering_50: u64,
    /// Fewest places that together take 90 percent of the touches.
    pub covering_90: u64,
    /// Fewest places that together take 99 percent of the touches.
    pub covering_99: u64,
}

/// One place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// Its first sector.
    pub sector: u64,
    /// How often it was written.
    pub writes: u64,
}
