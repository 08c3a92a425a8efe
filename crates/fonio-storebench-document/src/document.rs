//! The JSON document of a StoreBench result, which the results service stores and ranks.
//!
//! The schema is published as `docs/storebench.schema.json`. A key may be added within a version of [`SCHEMA`], never removed
//! or given another meaning; unknown keys are refused. No field can hold a serial number, a host name or a path, and
//! [`Document::check`] refuses texts that look like one. [`Submission`](crate::Submission) is the part of a document that leaves the machine.

use std::collections::BTreeMap;
use std::fmt;

use fonio_core::{DeviceIdentity, Unit};
use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};

use crate::figures::{CatalogueFigure, UnitOfFigure};

/// The schema of [`Document`].
pub const SCHEMA: &str = "fonio.storebench/1";

/// The version of the test. Results of different versions are not compared: it is raised when a figure is measured in
/// another way.
pub const TEST_VERSION: u32 = 1;

/// Largest size of a document in JSON, in bytes.
pub const JSON_BYTES_MAX: usize = 64 << 10;

/// Largest number of points of a curve.
pub const CURVE_POINTS_MAX: usize = 600;

/// Largest number of launched apps.
pub const APPS_MAX: usize = 64;

/// Largest length of a text, in characters.
pub const TEXT_MAX: usize = 64;

/// Largest length of a sentence, in characters.
pub const SENTENCE_MAX: usize = 400;

/// A result of StoreBench.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "fonio storebench result")]
pub struct Document {
    /// `fonio.storebench/1`.
    pub schema: String,
    /// The program that measured: `fonio 0.1.0`.
    pub tool: String,
    /// The measuring program below it: `fio-3.33`; for a model, `model`.
    pub engine: String,
    /// The beginning, in seconds since 1970.
    pub began_unix_s: u64,
    /// The length of the run in seconds, together with its continuations.
    pub took_s: f64,
    /// What was measured: a device, an emulated device or a model.
    pub origin: Origin,
    /// Results are compared only if their keys are equal.
    pub key: Key,
    /// The device.
    pub device: DeviceIdentity,
    /// The machine.
    pub machine: Machine,
    /// Every figure of the catalogue by its name. Figures that were not measured say why.
    pub figures: BTreeMap<String, Measure>,
    /// The rate of the sustained write over time.
    pub sustained_curve: Option<Curve>,
    /// The launch of each app.
    pub launches: Vec<Launch>,
    /// Whether the device stores as much as it says.
    pub capacity_check: CapacityCheck,
    /// SD classes by name: A1, A2, V6, V10, V30, V60, V90.
    pub classes: BTreeMap<String, ClassVerdict>,
    /// The wear that the device reports; absent if it reports none.
    pub health: Option<Health>,
    /// Bytes that the run wrote to the device.
    pub written_bytes: u64,
    /// The verdict, in sentences.
    pub verdict: String,
    /// Remarks on the run. They stay on the machine: a [`Submission`](crate::Submission) has none.
    #[schemars(description = "Remarks on the run. They stay on the machine: a [`Submission`] has none.")]
    pub notes: Vec<String>,
}

/// What a result was measured on. Generated results are never mixed with measured ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A device.
    Measured,
    /// A model of a device that is served in real time as a block device.
    Emulated,
    /// A model of a device in virtual time.
    Model,
}

/// The comparison key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// [`TEST_VERSION`].
    pub test_version: u32,
    /// Whether it was a quick run, whose figures are less certain.
    pub effort: Effort,
    /// A directory or a raw device.
    pub mode: Mode,
    /// The file system, such as `ext4`; `none` for a raw device.
    pub file_system: String,
    /// The upper limit of the class of the device's size, in 10⁹ bytes: 1, 2, 4, 8, … 65536.
    pub size_class_gb: u32,
}

/// How thoroughly a run measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Each figure was repeated until it was stable, or the time was over.
    Full,
    /// Each figure was measured once, for a short time.
    Quick,
}

/// Where a run measured.
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
    /// Writes the key in one word: `v1.full.directory.ext4.32gb`.
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

/// The largest class of sizes, in 10⁹ bytes.
pub const SIZE_CLASS_MAX_GB: u32 = 65536;

/// The class of a device's size: the smallest power of two in 10⁹ bytes that is not below it. A device may be up to 8 %
/// above the class, because some makers count in 2³⁰ bytes.
pub fn size_class_gb(capacity_bytes: u64) -> u32 {
    let mut class = 1;
    while class < SIZE_CLASS_MAX_GB && capacity_bytes as f64 > f64::from(class) * 1.08e9 {
        class *= 2;
    }
    class
}

/// The machine of a run, without its name.
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
    /// Whether it is a virtual machine; absent if that is not known.
    pub virtual_machine: Option<bool>,
    /// The mount options that change speed; options with paths or names are left out.
    pub mount_options: Vec<String>,
    /// The encryption below the file system: `dm-crypt`.
    pub encryption: Option<String>,
    /// The compression of the file system: `zstd:3`.
    pub compression: Option<String>,
    /// Whether cached pages were dropped before parts that could use them.
    pub caches_dropped: bool,
}

/// The value of a figure, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Measure {
    /// It was measured.
    Measured(Value),
    /// It was not measured; the text says why.
    NotMeasured(String),
}

/// A measured value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// The mean over the runs; for a concurrency parameter, the parameter.
    pub value: f64,
    /// The unit, the same as in the catalogue.
    #[schemars(with = "UnitOfFigure")]
    pub unit: Unit,
    /// The number of runs.
    pub runs: u32,
    /// The lower end of the interval of 95 %; of a single run, the value.
    pub low: f64,
    /// The upper end of the interval of 95 %; of a single run, the value.
    pub high: f64,
    /// Whether the value was known precisely enough when the repetitions ended.
    pub stable: bool,
}

/// Six significant digits are finer than any measurement.
fn rounded(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

impl Measure {
    /// Rounds to six significant digits, and ends the interval at the limits of the figure: a share has at most 100 %. The
    /// value stays inside of its interval, because the order of numbers stays.
    pub fn put_in_order(&mut self, figure: &CatalogueFigure) {
        if let Measure::Measured(value) = self {
            (value.value, value.low, value.high) =
                (rounded(value.value), rounded(value.low), rounded(value.high));
            value.low = value.low.max(figure.min).min(value.value);
            value.high = value.high.min(figure.max).max(value.value);
        }
    }

    /// The value, if it was measured.
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
    /// The distance of two points in seconds.
    pub interval_s: f64,
    /// The mean rates in the intervals, in 10⁶ bytes per second; at most 600.
    pub mb_s: Vec<f64>,
}

/// The launch of one app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// The app's name in the workload, such as `angry_birds`.
    pub app: String,
    /// The median time of a launch without cached files, in milliseconds.
    pub cold_ms: f64,
    /// The median time of a launch with cached files, in milliseconds.
    pub warm_ms: f64,
}

/// Whether a device stores as much as it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "verdict", deny_unknown_fields)]
pub enum CapacityCheck {
    /// Everything that was written was read back.
    Genuine {
        /// Bytes that were written and read back.
        checked_bytes: u64,
        /// Whether the places that were checked are spread over the complete device.
        complete: bool,
    },
    /// The device returned other data than was written, twice, without reporting an error.
    Fake {
        /// The finding in a sentence.
        reason: String,
        /// Bytes that were written.
        checked_bytes: u64,
        /// Bytes that were not read back.
        lost_bytes: u64,
    },
    /// It was not checked, or the check ended without a verdict.
    NotChecked {
        /// The reason in a sentence.
        reason: String,
    },
}

/// Whether the limits of an SD class are met. Only the figures are compared; the tests of the classes have their own queue
/// depth and a fresh card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ClassVerdict {
    /// Every limit is met.
    Met,
    /// A limit is missed; the text says which, and by how much.
    NotMet(String),
    /// A figure that it needs was not measured; the text says which.
    NotMeasured(String),
}

/// The wear that a device reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// The used part of the device's life, in steps of 10 %, at most.
    pub life_used_percent: Option<u8>,
    /// The same of its second kind of flash.
    pub life_used_b_percent: Option<u8>,
    /// The state of its reserved blocks: `normal`, `warning`, `urgent`.
    pub reserved_blocks: Option<String>,
}

impl Document {
    /// The value of a figure, if it was measured.
    pub fn value(&self, figure: &str) -> Option<&Value> {
        self.figures.get(figure)?.value()
    }
}

/// The schema of [`Document`] (JSON Schema 2020-12).
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
        let figure = crate::figures::find("cpu.active").expect("it is in the catalogue");
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
