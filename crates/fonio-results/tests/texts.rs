//! Counts the identifying texts that the service would publish without review, and the real models that it
//! would not. `tests/texts/README.md` describes the files.

#![allow(clippy::unwrap_used)] // A test may fail.

use std::path::{Path, PathBuf};

use fonio_results::submission;
use fonio_results::texts::Accepted;
use fonio_storebench_document::document::{CapacityCheck, Health};
use fonio_storebench_document::sample;
use serde_json::{Value, json};

/// A line of a file: where the text belongs, and the text.
struct Line {
    file: PathBuf,
    field: String,
    /// The kind of the device; that of the sample if it is absent.
    kind: Option<String>,
    text: String,
}

fn lines(folder: &str) -> Vec<Line> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/texts").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension != "md"))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        for (at, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let place = || format!("{} line {}", file.display(), at + 1);
            let (field, text) =
                line.split_once('\t').unwrap_or_else(|| panic!("{} has no tab: {line}", place()));
            let (field, kind) = match field.split_once(' ') {
                Some((field, kind)) => (field, Some(kind.to_owned())),
                None => (field, None),
            };
            all.push(Line { file: file.clone(), field: field.to_owned(), kind, text: text.to_owned() });
        }
    }
    all
}

/// What the service does with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Published,
    Held,
    Refused,
}

/// Puts a text into a field of a valid document, and reads the document as the service does.
fn fate(line: &Line, kind: &str) -> Fate {
    let mut document = sample::document();
    document.health = Some(Health { reserved_blocks: Some("normal".to_owned()), ..Health::default() });
    if line.field == "capacity_check.reason" {
        document.capacity_check = CapacityCheck::NotChecked { reason: String::new() };
    }
    let mut value = serde_json::to_value(document).unwrap();
    value["device"]["kind"] = kind.into();
    value["device"]["bus_limit_mb_s"] = Value::Null;
    if kind != "sd" {
        // These fields of the sample are those of a card.
        for name in ["model", "firmware", "hardware", "manufacturer_id", "oem_id", "made"] {
            value["device"][name] = Value::Null;
        }
    }
    put(&mut value, &line.field, &line.text);
    match submission::read(&serde_json::to_vec(&value).unwrap(), sample::BEGAN_UNIX_S, &Accepted::default()) {
        Ok(read) if read.unknown.is_empty() => Fate::Published,
        Ok(_) => Fate::Held,
        Err(problem) => {
            assert!(!problem.sentence.is_empty());
            Fate::Refused
        }
    }
}

/// Sets the text of a field: `machine.board`, `machine.mount_options`, `figures.cpu.active`. A field that the
/// document does not have is added, so that the service refuses it.
fn put(document: &mut Value, field: &str, text: &str) {
    let field = field.split('[').next().unwrap();
    match field.split_once('.') {
        Some(("figures", name)) => {
            let name = name.trim_end_matches(".not_measured");
            document["figures"][name] = json!({ "not_measured": text });
        }
        Some(("classes", name)) => document["classes"][name] = json!({ "not_met": text }),
        Some(("machine", "mount_options")) => document["machine"]["mount_options"] = json!(["rw", text]),
        Some(("launches", _)) => document["launches"][0]["app"] = text.into(),
        Some(("capacity_check", _)) => document["capacity_check"]["reason"] = text.into(),
        Some((object, name)) => document[object][name] = text.into(),
        None if field == "notes" => document["notes"] = json!([text]),
        None => document[field] = text.into(),
    }
}

/// Every kind of device with a list of models of its own. Without a kind, a text is tried as each of them,
/// because its author cannot know which rules a kind has.
const KINDS: [&str; 8] = ["sd", "emmc", "nvme", "solid_state", "usb", "ufs", "hard_disk", "other"];

fn is_published(line: &Line) -> bool {
    match &line.kind {
        Some(kind) => fate(line, kind) == Fate::Published,
        None if line.field.starts_with("device.") => {
            KINDS.iter().any(|kind| fate(line, kind) == Fate::Published)
        }
        None => fate(line, "sd") == Fate::Published,
    }
}

#[test]
fn texts_that_identify_are_not_published_without_review() {
    for (folder, share_max) in [("development", 0.0), ("identifying", 0.03)] {
        let all = lines(folder);
        if all.is_empty() {
            println!("texts: tests/texts/{folder} has no files yet, so nothing was counted");
            continue;
        }
        let published: Vec<&Line> = all.iter().filter(|line| is_published(line)).collect();
        println!("texts: {} of {} in {folder} are published without review", published.len(), all.len());
        for line in &published {
            println!("  {}: {}", line.field, line.text);
        }
        let most = (all.len() as f64 * share_max).floor() as usize;
        assert!(published.len() <= most, "{folder}: {} published, at most {most} may be", published.len());
    }
}

#[test]
fn texts_of_real_devices_are_published_without_review() {
    let all = lines("models");
    let unpublished: Vec<&Line> = all
        .iter()
        .filter(|line| fate(line, line.kind.as_deref().unwrap_or("sd")) != Fate::Published)
        .collect();
    println!("texts: {} of {} of real devices need review", unpublished.len(), all.len());
    for line in &unpublished {
        let name = line.file.file_name().unwrap().to_string_lossy();
        println!("  {name}: {} {}: {}", line.field, line.kind.as_deref().unwrap_or(""), line.text);
    }
    assert!(all.len() > 500, "{}", all.len());
    // Nearly all: a text that is in no list costs its sender only the time until a person has looked at it.
    assert!(unpublished.len() * 20 <= all.len(), "{} of {}", unpublished.len(), all.len());
}
