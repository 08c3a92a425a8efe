//! Provides a document for tests and benchmarks. It describes an SD card, in the format of StoreBench's first
//! version.

use std::collections::BTreeMap;

use fonio_core::{DeviceIdentity, DeviceKind, Unit};

use crate::classes::CLASSES;
use crate::document::{
    self, CapacityCheck, ClassVerdict, Curve, Document, Effort, Key, Launch, Machine, Measure, Mode, Origin,
    Value,
};
use crate::figures::{self, CatalogueFigure};

/// The time at which the sample's run began: 2026-01-01.
pub const BEGAN_UNIX_S: u64 = 1_767_225_600;

/// Returns a complete, valid document in which all figures are measured.
pub fn document() -> Document {
    scaled(1.0)
}

/// Creates the document of a card that is faster by the factor `speed`.
pub fn scaled(speed: f64) -> Document {
    let figures: BTreeMap<String, Measure> = figures::catalogue()
        .into_iter()
        .map(|figure| (figure.name.clone(), measure(&figure, speed)))
        .collect();
    Document {
        schema: document::SCHEMA.to_owned(),
        tool: "fonio 0.1.0".to_owned(),
        engine: "fio-3.33".to_owned(),
        began_unix_s: BEGAN_UNIX_S,
        took_s: 412.5,
        origin: Origin::Measured,
        key: Key {
            test_version: document::TEST_VERSION,
            effort: Effort::Full,
            mode: Mode::Directory,
            file_system: "ext4".to_owned(),
            size_class_gb: 32,
        },
        device: DeviceIdentity {
            kind: DeviceKind::Sd,
            model: Some("SC32G".to_owned()),
            manufacturer: Some("SanDisk".to_owned()),
            manufacturer_id: Some("0x000003".to_owned()),
            oem_id: Some("0x5344".to_owned()),
            firmware: Some("0x0".to_owned()),
            hardware: Some("0x8".to_owned()),
            made: Some("05/2023".to_owned()),
            capacity_bytes: 31_914_983_424,
            bus: Some("SDR104".to_owned()),
            bus_limit_mb_s: Some(104.0),
            scheduler: Some("mq-deadline".to_owned()),
        },
        machine: Machine {
            board: Some("Raspberry Pi 4 Model B Rev 1.4".to_owned()),
            cpu: Some("Cortex-A72".to_owned()),
            cpus: Some(4),
            kernel: "6.12.25+rpt-rpi-v8".to_owned(),
            distribution: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
            virtual_machine: Some(false),
            mount_options: vec!["rw".to_owned(), "noatime".to_owned()],
            encryption: None,
            compression: None,
            caches_dropped: true,
        },
        figures,
        sustained_curve: Some(Curve { interval_s: 1.0, mb_s: vec![24.5, 24.25, 18.0] }),
        launches: vec![Launch { app: "angry_birds".to_owned(), cold_ms: 1820.5, warm_ms: 402.25 }],
        capacity_check: CapacityCheck::NotChecked { reason: "there was no time left".to_owned() },
        classes: CLASSES.iter().map(|class| (class.name.to_owned(), ClassVerdict::Met)).collect(),
        health: None,
        written_bytes: 3_221_225_472,
        verdict: "Random writes are the weak point: 2.9 MB/s.".to_owned(),
        notes: Vec::new(),
    }
}

/// Returns a plausible value of a card's figure. The values are round numbers, not measurements.
fn measure(figure: &CatalogueFigure, speed: f64) -> Measure {
    let value = match figure.unit {
        Unit::MbPerS => {
            speed
                * match figure.name.as_str() {
                    "bandwidth.seq_read" => 44.0,
                    "bandwidth.seq_write" | "sustained.first" => 24.5,
                    "bandwidth.rand_read" => 9.25,
                    "bandwidth.rand_write" => 2.75,
                    "bandwidth.total" => 80.5,
                    _ => 18.0,
                }
        }
        Unit::Ms => {
            let (op, rate) = if figure.name.contains("write") { (2.5, 20.0) } else { (0.75, 40.0) };
            let kib = [4.0, 64.0, 512.0].into_iter().find(|kib| figure.name.contains(&format!(".{kib}k.")));
            // 1 KiB at 1 MB/s takes 1.024 ms.
            let tail = if figure.name.ends_with("p99") { 2.0 } else { 1.0 };
            (op + kib.unwrap_or(4.0) * 1.024 / rate) * tail / speed
        }
        Unit::S => 60.0 / speed,
        Unit::Ratio => 2.0,
        Unit::Count => 4.0,
        Unit::Bytes => 1_073_741_824.0,
        Unit::Percent => (25.0 / speed).min(90.0),
        other => panic!("{other:?} is not a unit of the catalogue"),
    };
    let (low, high) = (value * 0.96875, (value * 1.03125).min(figure.max));
    Measure::Measured(Value { value, unit: figure.unit, runs: 5, low, high, stable: true })
}

/// Replaces the text at position `left` of a JSON value with `text`, and counts `left` down. Returns false if the
/// value has fewer texts.
pub fn replace_text(value: &mut serde_json::Value, left: &mut usize, text: &str) -> bool {
    use serde_json::Value;
    match value {
        Value::String(old) if *left == 0 => {
            text.clone_into(old);
            true
        }
        Value::String(_) => {
            *left -= 1;
            false
        }
        Value::Array(values) => values.iter_mut().any(|value| replace_text(value, left, text)),
        Value::Object(map) => map.values_mut().any(|value| replace_text(value, left, text)),
        _ => false,
    }
}
