//! Defines types for numbers with a unit.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// The size of a sector in every kernel interface, whatever the device's logical block size is.
pub const SECTOR_BYTES: u64 = 512;

/// A time on the recording's clock, in nanoseconds since the origin of the clock.
///
/// The name of the clock is stored in the recording's `meta.json`. Timestamps of two recordings cannot be
/// compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A device address in units of [`SECTOR_BYTES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sector(pub u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

impl Timestamp {
    /// The largest timestamp, for intervals without a known end.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// Returns the time from `earlier` to `self`; `None` if `earlier` is later, as in damaged traces.
    pub fn since(self, earlier: Timestamp) -> Option<Nanos> {
        self.0.checked_sub(earlier.0).map(Nanos)
    }
}

impl Add<Nanos> for Timestamp {
    type Output = Timestamp;
    fn add(self, span: Nanos) -> Timestamp {
        Timestamp(self.0.saturating_add(span.0))
    }
}

impl Sub<Nanos> for Timestamp {
    type Output = Timestamp;
    fn sub(self, span: Nanos) -> Timestamp {
        Timestamp(self.0.saturating_sub(span.0))
    }
}

impl Sub for Timestamp {
    type Output = Nanos;
    /// Returns the time from `earlier` to `self`; 0 if `earlier` is later.
    fn sub(self, earlier: Timestamp) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Nanos {
    /// Returns the length in seconds, for display and for rates.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Sector {
    /// Returns the first sector after `bytes` bytes that begin at this sector; a partial sector counts as a
    /// full sector.
    pub fn after(self, bytes: ByteCount) -> Sector {
        Sector(self.0.saturating_add(bytes.0.div_ceil(SECTOR_BYTES)))
    }
}

impl ByteCount {
    /// Returns the size of `sectors` sectors of [`SECTOR_BYTES`] each.
    pub fn from_sectors(sectors: u64) -> ByteCount {
        ByteCount(sectors.saturating_mul(SECTOR_BYTES))
    }
}

macro_rules! sums {
    ($($unit:ty),*) => {$(
        impl Add for $unit {
            type Output = $unit;
            fn add(self, other: $unit) -> $unit {
                Self(self.0.saturating_add(other.0))
            }
        }
        impl AddAssign for $unit {
            fn add_assign(&mut self, other: $unit) {
                *self = *self + other;
            }
        }
        impl Sub for $unit {
            type Output = $unit;
            fn sub(self, other: $unit) -> $unit {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl SubAssign for $unit {
            fn sub_assign(&mut self, other: $unit) {
                *self = *self - other;
            }
        }
        impl Sum for $unit {
            fn sum<I: Iterator<Item = $unit>>(all: I) -> $unit {
                all.fold(Self(0), Add::add)
            }
        }
    )*};
}
sums!(Nanos, ByteCount);

/// In JSON, a number with a unit is a plain number; the name of its field contains the unit.
#[cfg(feature = "schema")]
macro_rules! schemas {
    ($($unit:ty),*) => {$(
        impl schemars::JsonSchema for $unit {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                u64::schema_name()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                u64::json_schema(generator)
            }
        }
    )*};
}
#[cfg(feature = "schema")]
schemas!(Timestamp, Nanos, Sector, ByteCount);

/// A block device, identified by its kernel number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceId(pub u32);

impl DeviceId {
    /// Combines the major and minor number as the kernel's internal `dev_t` does: 12 bits of major number
    /// above 20 bits of minor number.
    pub fn new(major: u32, minor: u32) -> DeviceId {
        DeviceId((major & 0xfff) << 20 | (minor & 0xf_ffff))
    }
    /// Returns the major number of the device.
    pub fn major(self) -> u32 {
        self.0 >> 20
    }
    /// Returns the minor number of the device.
    pub fn minor(self) -> u32 {
        self.0 & 0xf_ffff
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major(), self.minor())
    }
}
