//! Compares fonio's answers with the expected answers of a case.

use anyhow::{Context, Result};
use serde_json::Value;

use super::case::{Case, Expected};

/// The parts of an answer, in the order of the table.
pub const PARTS: [&str; 8] = [
    "whether storage is the problem",
    "the program",
    "its operation",
    "its file",
    "the program in the way",
    "the mechanism",
    "a right remedy",
    "no wrong remedy",
];

/// Whether each part of an answer is right; `None` if the case has no such part.
pub struct Judgement {
    pub parts: [Option<bool>; PARTS.len()],
    /// fonio's answer in words.
    pub said: String,
}

/// Kinds of remedies that have other names in the cases.
const KINDS: [(&str, &str); 4] = [
    ("trim", "nodiscard-fstrim"),
    ("end-reader", "checkpoint-or-reader"),
    ("read-less", "index-or-query"),
    ("batch", "batch-files"),
];

/// Judges a report.
pub fn judge(case: &Case, report: &Value) -> Result<Judgement> {
    let analysis = report.get("analysis").unwrap_or(report);
    let verdict = analysis["verdict"].as_str().context("the report has no verdict")?;
    let said = &analysis["diagnosis"];
    // A report without a diagnosis, for example of a measurement that is not valid, names nothing.
    if !said.is_object() {
        return Ok(Judgement { parts: unknown(case), said: verdict.to_owned() });
    }
    let text = |name: &str| said[name].as_str();
    let Expected { storage, victim, operation, file, culprit, mechanism, right, acceptable, wrong } =
        &case.expected;
    let is_storage = said["is_storage"] == Value::Bool(true);
    let is_among = |said: Option<&str>, accepted: &[String]| match said {
        Some(said) => accepted.iter().any(|accepted| accepted == said),
        None => accepted.is_empty(),
    };
    // Without storage, the recording has no program, file or culprit to judge.
    let of_storage = |is_right: &dyn Fn() -> bool| storage.then(|| is_storage && is_right());
    let is_file = || match text("file") {
        Some(said) => file.iter().any(|part| said.contains(part.as_str())),
        None => file.is_empty(),
    };
    let is_operation = || {
        let said = text("operation").map(|said| operation_word(said, text("program")));
        said.is_some_and(|said| said.iter().any(|word| operation.iter().any(|accepted| accepted == word)))
    };
    let kinds: Vec<&str> = (analysis["findings"].as_array().into_iter().flatten())
        .flat_map(|finding| finding["fix_kinds"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .map(|kind| KINDS.iter().find(|(own, _)| *own == kind).map_or(kind, |(_, name)| name))
        .collect();
    let has = |list: &[String]| list.iter().any(|kind| kinds.contains(&kind.as_str()));
    let mechanism_said = text("mechanism").map(mechanism_word);
    let is_mechanism = match mechanism_said {
        Some(said) => mechanism.iter().any(|accepted| accepted == said),
        None => mechanism.iter().any(|accepted| ["nothing", "none"].contains(&accepted.as_str())),
    };
    let mut shown: Vec<&str> = kinds.iter().copied().filter(|kind| *kind != "look").collect();
    shown.sort_unstable();
    shown.dedup();
    // The author accepts that no remedy is given; acceptable ones may be.
    let may_be_silent = right.iter().any(|kind| kind == "nothing")
        && shown.iter().all(|kind| acceptable.iter().any(|accepted| accepted == kind));
    Ok(Judgement {
        parts: [
            Some(is_storage == *storage),
            of_storage(&|| is_among(text("program"), victim)),
            of_storage(&is_operation),
            of_storage(&is_file),
            of_storage(&|| is_among(text("culprit"), culprit)),
            Some(is_storage == *storage && is_mechanism),
            Some(is_storage == *storage && (may_be_silent || has(right))),
            Some(!has(wrong)),
        ],
        said: format!(
            "{verdict}\n      {}; remedies: {}",
            mechanism_said.unwrap_or("no mechanism"),
            shown.join(", ")
        ),
    })
}

/// Returns the judgement of an answer that names nothing.
fn unknown(case: &Case) -> [Option<bool>; PARTS.len()] {
    let of_storage = case.expected.storage.then_some(false);
    [Some(false), of_storage, of_storage, of_storage, of_storage, Some(false), Some(false), Some(true)]
}

/// Returns the words of the cases for an operation in a recording.
fn operation_word(said: &str, program: Option<&str>) -> Vec<&'static str> {
    let mut words = match said {
        "fsync" | "journal" => vec!["fsync"],
        "read" | "async_read" => vec!["read"],
        "page_fault" => vec!["page-fault"],
        "metadata" => vec!["metadata"],
        "write" | "async_write" => vec!["write"],
        "dirty_limit" => vec!["dirty-limit", "write"],
        "swap_in" => vec!["swap-in"],
        _ => vec!["none"],
    };
    if program == Some("umount") {
        words.push("unmount");
    }
    words
}

fn mechanism_word(said: &str) -> &str {
    match said {
        "behind-earlier-writes" => "behind-queue",
        _ => said,
    }
}
