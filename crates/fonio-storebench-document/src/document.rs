//! Defines the JSON document of a StoreBench result. The results service stores and ranks these documents.
//!
//! The schema is published as `docs/storebench.schema.json`. Within a version of [`SCHEMA`], keys can be
//! added, but never removed or redefined. Unknown keys are refused. No field is for serial numbers, host
//! names or paths, and [`Document::check`] refuses texts that look like these.
//! [`Submission`](crate::Submission) is the part of a document that leaves the machine.

use std::collections::BTreeMap;
use std::fmt;

use fonio_core::{DeviceIdentity, Unit};
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};

use crate::figures::{CatalogueFigure, UnitOfFigure};

/// The schema of [`Document`].
pub const SCHEMA: &str = "fonio.storebench/1";

/// The version of the test. It is raised when the measurement of a figure changes. Results of different
/// versions are not compared.
pub const TEST_VERSION: u32 = 1;

/// Maximum size of a document in JSON, in bytes.
pub const JSON_BYTES_MAX: usize = 64 << 10;

/// Maximum number of points of a document's curve.
pub const CURVE_POINTS_MAX: usize = 600;

/// Maximum number of launched apps in a document.
pub const APPS_MAX: usize = 64;

/// Maximum length of a text, in characters.
pub const TEXT_MAX: usize = 64;

/// Maximum length of a sentence, in characters.
pub const SENTENCE_MAX: usize = 400;

/// A result of StoreBench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "fonio storebench result")]
pub struct Document {
    /// `fonio.storebench/1`.
    pub schema: String,
    /// The program that created the result: `fonio 0.1.0`.
    pub tool: String,
    /// The program that issued the requests: `fio-3.33`; for a model, `model`.
    pub engine: String,
    /// The start time, in seconds since 1970.
    pub began_unix_s: u64,
    /// The duration of the run in seconds, including its continuations.
    pub took_s: f64,
    /// The measured object: a device, an emulated device or a model.
    pub origin: Origin,
    /// The comparison key; only results with equal keys are compared.
    pub key: Key,
    /// The device.
    pub device: DeviceIdentity,
    /// The machine.
    pub machine: Machine,
    /// All figures of the catalogue, by name. Figures that were not measured have a reason.
    pub figures: BTreeMap<String, Measure>,
    /// The rate of the sustained write over time.
    pub sustained_curve: Option<Curve>,
    /// The launch of each app.
    pub launches: Vec<Launch>,
    /// Whether the device has its stated capacity.
    pub capacity_check: CapacityCheck,
    /// SD classes by name: A1, A2, V6, V10, V30, V60, V90.
    pub classes: BTreeMap<String, ClassVerdict>,
    /// The wear that the device reports; absent if the device does not report it.
    pub health: Option<Health>,
    /// Bytes that the run wrote to the device.
    pub written_bytes: u64,
    /// The verdict, in sentences.
    pub verdict: String,
    /// Remarks on the run. The remarks stay on the machine; a [`Submission`](crate::Submission) has none.
    #[schemars(description = "Remarks on the run. They stay on the machine; a [`Submission`] has none.")]
    pub notes: Vec<String>,
}

/// The origin of a result. Generated results are never mixed with measured results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A device.
    Measured,
    /// An emulated device: a device model, served in real time as a block device.
    Emulated,
    /// A device model in virtual time.
    Model,
}

/// The comparison key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// [`TEST_VERSION`].
    pub test_version: u32,
    /// The effort of the run; figures of a quick run are less certain.
    pub effort: Effort,
    /// A directory or a raw device.
    pub mode: Mode,
    /// The file system, such as `ext4`; `none` for a raw device.
    pub file_system: String,
    /// The upper limit of the device's size class, in 10⁹ bytes: 1, 2, 4, 8, … 65536.
    pub size_class_gb: u32,
}

/// The thoroughness of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Each figure was measured repeatedly until it was stable or the time limit was reached.
    Full,
    /// Each figure was measured once, for a short time.
    Quick,
}

/// The kind of target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A directory of a mounted file system.
    Directory,
    /// A raw device that was only read.
    DeviceReadOnly,
    /// A raw device that was overwritten.
    Device,
}

impl fmt::Display for Key {
    /// Formats the key as one word: `v1.full.directory.ext4.32gb`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effort = match self.effort {
            Effort::Full => "full",
            Effort::Quick => "quick",
        };
        let mode = match self.mode {
            Mode::Directory => "directory",
            Mode::DeviceReadOnly => "device_read_only",
            Mode::Device => "device",
        };
        write!(f, "v{}.{effort}.{mode}.{}.{}gb", self.test_version, self.file_system, self.size_class_gb)
    }
}

/// The largest size class, in 10⁹ bytes.
pub const SIZE_CLASS_MAX_GB: u32 = 65536;

/// Returns the size class of a device: its size in 10⁹ bytes, rounded up to a power of two. A device may
/// exceed its class by up to 8 %, because some manufacturers count in 2³⁰ bytes.
pub fn size_class_gb(capacity_bytes: u64) -> u32 {
    let mut class = 1;
    while class < SIZE_CLASS_MAX_GB && capacity_bytes as f64 > f64::from(class) * 1.08e9 {
        class *= 2;
    }
    class
}

/// The machine of a run, without its host name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The board or product: `Raspberry Pi 4 Model B Rev 1.4`.
    pub board: Option<String>,
    /// The processor's model.
    pub cpu: Option<String>,
    /// The number of processors.
    pub cpus: Option<u32>,
    /// The release of the kernel.
    pub kernel: String,
    /// The distribution: `Debian GNU/Linux 12 (bookworm)`.
    pub distribution: Option<String>,
    /// Whether the machine is a virtual machine; absent if unknown.
    pub virtual_machine: Option<bool>,
    /// The mount options that affect speed, without options that contain paths or names.
    pub mount_options: Vec<String>,
    /// The encryption layer below the file system: `dm-crypt`.
    pub encryption: Option<String>,
    /// The compression of the file system: `zstd:3`.
    pub compression: Option<String>,
    /// Whether cached pages were dropped before the parts that could use them.
    pub caches_dropped: bool,
}

/// The value of a figure, or why it is missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Measure {
    /// It was measured.
    Measured(Value),
    /// The figure was not measured, for this reason.
    NotMeasured(String),
}

/// A measured value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// The mean over the runs, or the value of a concurrency parameter.
    pub value: f64,
    /// The unit from the catalogue.
    #[schemars(with = "UnitOfFigure")]
    pub unit: Unit,
    /// The number of runs.
    pub runs: u32,
    /// The lower end of the 95 % confidence interval; for a single run, the value.
    pub low: f64,
    /// The upper end of the 95 % confidence interval; for a single run, the value.
    pub high: f64,
    /// Whether the value was precise enough when the repetitions ended.
    pub stable: bool,
}

/// Rounds to six significant digits, which are finer than any measurement.
fn rounded(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

impl Measure {
    /// Rounds to six significant digits, and cuts the interval at the limits of the figure: a share is at
    /// most 100 %. The value stays within its interval, because rounding preserves the order.
    pub fn put_in_order(&mut self, figure: &CatalogueFigure) {
        if let Measure::Measured(value) = self {
            (value.value, value.low, value.high) =
                (rounded(value.value), rounded(value.low), rounded(value.high));
            value.low = value.low.max(figure.min).min(value.value);
            value.high = value.high.min(figure.max).max(value.value);
        }
    }

    /// Returns the figure's value if it was measured.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Measure::Measured(value) => Some(value),
            Measure::NotMeasured(_) => None,
        }
    }
}

/// A rate over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The time between two points, in seconds.
    pub interval_s: f64,
    /// The mean rates in the intervals, in 10⁶ bytes per second; at most 600 rates.
    pub mb_s: Vec<f64>,
}

/// The launch times of one app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The app's name in the workload, such as `angry_birds`.
    pub app: String,
    /// The median launch time without cached files, in milliseconds.
    pub cold_ms: f64,
    /// The median launch time with cached files, in milliseconds.
    pub warm_ms: f64,
}

/// Whether a device has its stated capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "verdict", deny_unknown_fields)]
pub enum CapacityCheck {
    /// All written data were read back.
    Genuine {
        /// Bytes that were written and read back.
        checked_bytes: u64,
        /// Whether the checked regions are spread over the complete device.
        complete: bool,
    },
    /// The device returned wrong data twice, without reporting an error.
    Fake {
        /// The finding as a sentence.
        reason: String,
        /// Bytes that were written.
        checked_bytes: u64,
        /// Bytes that were not read back.
        lost_bytes: u64,
    },
    /// The capacity was not checked, or the check ended without a verdict.
    NotChecked {
        /// The reason as a sentence.
        reason: String,
    },
}

/// Whether a result meets the limits of an SD class. Only the figures are compared; the official tests use
/// another queue depth and a fresh card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClassVerdict {
    /// Every limit is met.
    Met,
    /// A limit is missed. The text gives the limit and the value.
    NotMet(String),
    /// A required figure was not measured. The text names the figure.
    NotMeasured(String),
}

/// The wear that a device reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Upper bound of the used share of the device's lifetime, in steps of 10 %.
    pub life_used_percent: Option<u8>,
    /// Upper bound of the used share of the lifetime of the device's second type of flash, in steps of 10 %.
    pub life_used_b_percent: Option<u8>,
    /// The state of the device's reserved blocks: `normal`, `warning`, `urgent`.
    pub reserved_blocks: Option<String>,
}

impl Document {
    /// Returns the value of a figure if it was measured.
    pub fn value(&self, figure: &str) -> Option<&Value> {
        self.figures.get(figure)?.value()
    }
}

/// Returns the schema of [`Document`] (JSON Schema 2020-12).
pub fn schema() -> Schema {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Document>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_up_to_date() {
        let text = serde_json::to_string_pretty(&schema()).expect("a schema is JSON") + "\n";
        expect_test::expect_file!["../../../docs/storebench.schema.json"].assert_eq(&text);
    }

    #[test]
    fn intervals_end_at_the_limits_of_the_figure() {
        let figure = crate::figures::find("cpu.active").expect("cpu.active is in the catalogue");
        let value = Value {
            value: 99.969_412_3,
            unit: Unit::Percent,
            runs: 3,
            low: 99.837_934_5,
            high: 100.101,
            stable: true,
        };
        let mut measure = Measure::Measured(value);
        measure.put_in_order(&figure);
        let found = measure.value().expect("it was measured");
        assert_eq!((found.low, found.value, found.high), (99.8379, 99.9694, 100.0));
    }

    #[test]
    fn classes_of_sizes_are_those_of_the_makers() {
        for (bytes, class) in [
            (1, 1),
            (2_000_000_000, 2),
            (7_948_206_080, 8),
            (31_914_983_424, 32),
            (34_359_738_368, 32),
            (63_864_569_856, 64),
            (120_000_000_000, 128),
            (1_000_204_886_016, 1024),
            (u64::MAX, SIZE_CLASS_MAX_GB),
        ] {
            assert_eq!(size_class_gb(bytes), class, "{bytes}");
        }
    }
}
