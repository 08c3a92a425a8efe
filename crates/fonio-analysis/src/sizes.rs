//! How large: request sizes by op, sync and async (the block-trace study's Figure 2, left).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Distribution, Group};

/// Sizes of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// Each group that has requests with data.
    pub groups: Vec<SizeRow>,
}

/// Sizes of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeRow {
    /// The group.
    pub group: Group,
    /// Request sizes in bytes. Exact up to 1 MiB where they are whole sectors.
    pub bytes: Distribution,
    /// Share of requests of 4 KiB or less.
    pub up_to_4k_share: f64,
    /// Share of requests below 16 KiB.
    pub below_16k_share: f64,
    /// Share of requests below 64 KiB.
    pub below_64k_share: f64,
}
