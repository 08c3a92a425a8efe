//! The figures of a report by their paths.

use std::collections::BTreeSet;

use fonio_analysis::Figure;
use serde::Deserialize;
use serde_json::Value;

use super::{Amount, BudgetError};
use fonio_core::Unit;

/// Fields that name the elements of an array, the first that is there and differs between all elements.
const NAMES: [&str; 11] =
    ["name", "group", "class", "op", "device", "id", "figure", "resource", "zone", "interface", "subject"];
/// Elements that have no name are listed up to this many; others can still be asked for by index.
const UNNAMED: usize = 16;
/// Parts of the analysis that are there to be drawn or read.
const DRAWN: [&str; 7] = ["findings", "points", "series", "slices", "spatial", "cdf", "cumulative"];
/// How many near matches an error names.
const NEAR: usize = 4;

/// A figure of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct FigurePath {
    /// Its path; elements of arrays stand in brackets by name or index.
    pub path: String,
    /// Its value in the unit of its name; `None` where the recording does not show it.
    pub value: Option<f64>,
    /// What it is counted in, by the unit in its name.
    pub unit: Unit,
    segments: Vec<String>,
}

/// Every figure of a report's JSON (the envelope, or the analysis alone), in the order of the JSON.
///
/// Unknown ones are there too. What only serves drawing (time series, samples, curves) is left out.
pub fn figures(report: &Value) -> Vec<FigurePath> {
    let mut out = named(report);
    let mut seen: BTreeSet<String> = out.iter().map(|figure| figure.path.clone()).collect();
    let mut walked = Vec::new();
    walk(root(report), &mut Vec::new(), &mut walked);
    out.extend(walked.into_iter().filter(|figure| seen.insert(figure.path.clone())));
    out
}

/// The envelope's figures with names of their own, which findings use.
fn named(report: &Value) -> Vec<FigurePath> {
    let listed = report.get("figures").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let figures = listed.iter().filter_map(|figure| Figure::deserialize(figure).ok());
    figures
        .map(|figure| FigurePath {
            segments: segments(&figure.name),
            value: Some(figure.value),
            unit: figure.unit,
            path: figure.name,
        })
        .collect()
}

fn root(report: &Value) -> &Value {
    report.get("analysis").filter(|analysis| analysis.is_object()).unwrap_or(report)
}

/// A segment of a path: a field, or an element of an array.
#[derive(Clone)]
enum Step {
    Field(String),
    Element(String),
}

impl Step {
    fn text(&self) -> &str {
        match self {
            Step::Field(text) | Step::Element(text) => text,
        }
    }
}

fn walk(value: &Value, steps: &mut Vec<Step>, out: &mut Vec<FigurePath>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if DRAWN.contains(&name.as_str()) {
                    continue;
                }
                steps.push(Step::Field(name.clone()));
                walk(value, steps, out);
                steps.pop();
            }
        }
        Value::Array(elements) if elements.iter().all(Value::is_object) => {
            let names = element_names(elements);
            if names.is_none() && elements.len() > UNNAMED {
                return;
            }
            for (at, element) in elements.iter().enumerate() {
                let name = names.as_ref().map_or_else(|| at.to_string(), |names| names[at].clone());
                steps.push(Step::Element(name));
                walk(element, steps, out);
                steps.pop();
            }
        }
        Value::Number(number) => out.push(figure(steps, number.as_f64())),
        // Null may stand for an absent part as well as for an absent number; a unit in its name tells them apart.
        Value::Null
            if steps
                .last()
                .is_some_and(|step| suffix_unit(step.text()).is_some() || is_statistic(step.text())) =>
        {
            out.push(figure(steps, None));
        }
        _ => {}
    }
}

fn element_names(elements: &[Value]) -> Option<Vec<String>> {
    NAMES.iter().find_map(|field| {
        let names: Option<Vec<String>> =
            elements.iter().map(|element| Some(element.get(field)?.as_str()?.to_owned())).collect();
        names.filter(|names| names.iter().collect::<BTreeSet<_>>().len() == names.len() && !names.is_empty())
    })
}

fn figure(steps: &[Step], value: Option<f64>) -> FigurePath {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Field(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Step::Element(name) => {
                path.push('[');
                path.push_str(name);
                path.push(']');
            }
        }
    }
    let unit = unit_of(steps);
    FigurePath { path, value, unit, segments: steps.iter().map(|step| step.text().to_owned()).collect() }
}

/// Statistics take the unit of what they are of: `service_ns.p99`.
fn is_statistic(name: &str) -> bool {
    matches!(name, "min" | "max" | "sum" | "mean") || quantile(name)
}

fn quantile(name: &str) -> bool {
    name.strip_prefix('p')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn unit_of(steps: &[Step]) -> Unit {
    let fields: Vec<&str> = steps
        .iter()
        .filter_map(|step| if let Step::Field(name) = step { Some(name.as_str()) } else { None })
        .collect();
    let Some((last, before)) = fields.split_last() else { return Unit::Number };
    if let Some(unit) = suffix_unit(last) {
        return unit;
    }
    match before.last() {
        Some(parent) if is_statistic(last) => suffix_unit(parent).unwrap_or(Unit::Count),
        Some(parent) if parent.ends_with("shares") => Unit::Share,
        _ => Unit::Count,
    }
}

fn suffix_unit(name: &str) -> Option<Unit> {
    let unit = match name {
        _ if name.ends_with("_ns") => Unit::Ns,
        _ if name.ends_with("bytes_per_s") => Unit::BytesPerS,
        _ if name.ends_with("_per_s") => Unit::PerS,
        _ if name == "bytes" || name.ends_with("_bytes") || name.ends_with("bytes_per_flush") => Unit::Bytes,
        _ if name.ends_with("_share") || name == "relative_error" || name == "relative" => Unit::Share,
        _ if name.ends_with("_ratio") || name.ends_with("_slowdown") => Unit::Ratio,
        _ if name.ends_with("_millicelsius") => Unit::Millicelsius,
        _ if name.contains("_per_") || name.starts_with("mean_") => Unit::Number,
        _ => return None,
    };
    Some(unit)
}

/// The figure that `path` names.
pub(super) fn resolve(report: &Value, path: &str, limit: &Amount) -> Result<FigurePath, BudgetError> {
    if let Some(figure) = named(report).into_iter().find(|figure| figure.path == path) {
        return Ok(figure);
    }
    let asked = segments(path);
    if let Some(figure) = direct(root(report), &asked) {
        return Ok(figure);
    }
    let all = figures(report);
    // A shortened path: the same segments in the same order, others between them. The fewer between, the better.
    let mut fitting: Vec<(usize, &FigurePath)> = all
        .iter()
        .filter(|figure| limit.in_unit(figure.unit).is_some())
        .filter_map(|figure| Some((skipped(&asked, &figure.segments)?, figure)))
        .collect();
    fitting.sort_by_key(|(skipped, _)| *skipped);
    match fitting.as_slice() {
        [] => Err(unknown(path, &asked, &all)),
        [(_, only)] => Ok((*only).clone()),
        [(best, figure), (next, _), ..] if best < next => Ok((*figure).clone()),
        [(best, _), ..] => Err(BudgetError::Ambiguous {
            path: path.to_owned(),
            candidates: fitting
                .iter()
                .take_while(|(skipped, _)| skipped == best)
                .take(NEAR)
                .map(|(_, figure)| figure.path.clone())
                .collect(),
        }),
    }
}

/// `a.b[c.d].e` as `a`, `b`, `c.d`, `e`.
fn segments(path: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut inside = false;
    for c in path.strip_prefix("analysis.").unwrap_or(path).chars() {
        let current = out.last_mut().expect("there is always a segment");
        match c {
            '[' if !inside => {
                inside = true;
                out.push(String::new());
            }
            ']' if inside => inside = false,
            '.' if !inside => out.push(String::new()),
            c => current.push(c),
        }
    }
    out.retain(|segment| !segment.is_empty());
    out
}

/// The figure at exactly these segments, listed or not.
fn direct(mut value: &Value, asked: &[String]) -> Option<FigurePath> {
    let mut steps = Vec::new();
    for segment in asked {
        match value {
            Value::Object(fields) => {
                value = fields.get(segment)?;
                steps.push(Step::Field(segment.clone()));
            }
            Value::Array(elements) => {
                let named =
                    element_names(elements).and_then(|names| names.iter().position(|name| name == segment));
                value = elements.get(named.or_else(|| segment.parse().ok())?)?;
                steps.push(Step::Element(segment.clone()));
            }
            _ => return None,
        }
    }
    match value {
        Value::Number(number) => Some(figure(&steps, number.as_f64())),
        Value::Null if !steps.is_empty() => Some(figure(&steps, None)),
        _ => None,
    }
}

/// How many of `all` are left out by `asked`; `None` where `asked` is not a shortened form. Both begin and end alike.
fn skipped(asked: &[String], all: &[String]) -> Option<usize> {
    if !fits(asked.first()?, all.first()?) || !fits(asked.last()?, all.last()?) {
        return None;
    }
    let mut rest = all.iter();
    asked.iter().all(|segment| rest.any(|other| fits(segment, other))).then(|| all.len() - asked.len())
}

/// Whether a segment is the other, perhaps without its unit.
fn fits(asked: &str, segment: &str) -> bool {
    const SUFFIXES: [&str; 6] = ["_ns", "_bytes", "_share", "_ratio", "_per_s", "_millicelsius"];
    asked == segment || SUFFIXES.iter().any(|suffix| segment.strip_suffix(suffix) == Some(asked))
}

fn unknown(path: &str, asked: &[String], all: &[FigurePath]) -> BudgetError {
    // Shared words say more than shared letters: a path may have every segment right but one.
    let likeness = |figure: &FigurePath| {
        let shared =
            asked.iter().filter(|segment| figure.segments.iter().any(|other| fits(segment, other))).count();
        shared as f64 + strsim::normalized_levenshtein(path, &figure.path)
    };
    let mut near: Vec<(f64, &FigurePath)> = all.iter().map(|figure| (likeness(figure), figure)).collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let near = near.into_iter().filter(|(likeness, _)| *likeness >= 0.45).take(NEAR);
    BudgetError::UnknownPath {
        path: path.to_owned(),
        near: near.map(|(_, figure)| figure.path.clone()).collect(),
    }
}
