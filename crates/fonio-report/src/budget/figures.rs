//! Finds the figure that the user named in a budget.

use fonio_analysis::Figure;

use super::{Amount, BudgetError};

/// Number of similar names that an error suggests.
const NEAR: usize = 4;
/// Segments, and suffixes for units, that are in paths of the report's JSON but not in the names of figures.
/// A budget may use the path in the JSON instead of the figure's name.
const SILENT: [&str; 5] = ["analysis", "groups", "all", "processes", "share"];
const SUFFIXES: [&str; 6] = ["_ns", "_share", "_ratio", "_millicelsius", "_bytes", "_per_s"];

/// Returns the figure with the given name, or the only figure that the shortened name or path matches.
pub(super) fn resolve<'a>(
    figures: &'a [Figure],
    path: &str,
    limit: &Amount,
) -> Result<&'a Figure, BudgetError> {
    if let Some(figure) = figures.iter().find(|figure| figure.name == path) {
        return Ok(figure);
    }
    let asked = segments(path);
    let mut fitting: Vec<(usize, &Figure)> = figures
        .iter()
        .filter(|figure| limit.in_unit(figure.unit).is_some())
        .filter_map(|figure| Some((skipped(&asked, &segments(&figure.name))?, figure)))
        .collect();
    fitting.sort_by_key(|(skipped, _)| *skipped);
    match fitting.as_slice() {
        [] => Err(unknown(path, &asked, figures)),
        [(_, only)] => Ok(only),
        [(best, figure), (next, _), ..] if best < next => Ok(figure),
        [(best, _), ..] => Err(BudgetError::Ambiguous {
            path: path.to_owned(),
            candidates: fitting
                .iter()
                .take_while(|(skipped, _)| skipped == best)
                .take(NEAR)
                .map(|(_, figure)| figure.name.clone())
                .collect(),
        }),
    }
}

/// Splits the name `a.b[c.d].e` into `a`, `b`, `c.d` and `e`. Omits the segments in `SILENT`.
fn segments(path: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut inside = false;
    for c in path.chars() {
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
    out.retain(|segment| !segment.is_empty() && !SILENT.contains(&segment.as_str()));
    out
}

/// Returns the number of segments of `all` that are missing in `asked`; `None` if `asked` is not a short form
/// of `all`. In a short form, the first and the last segment are the same as in `all`.
fn skipped(asked: &[String], all: &[String]) -> Option<usize> {
    if !fits(asked.first()?, all.first()?) || !fits(asked.last()?, all.last()?) {
        return None;
    }
    let mut rest = all.iter();
    asked.iter().all(|segment| rest.any(|other| fits(segment, other))).then(|| all.len() - asked.len())
}

/// Returns whether two segments are equal, apart from a unit suffix.
fn fits(asked: &str, segment: &str) -> bool {
    let bare = |text: &'_ str| -> String {
        SUFFIXES.iter().find_map(|suffix| text.strip_suffix(suffix)).unwrap_or(text).to_owned()
    };
    asked == segment || bare(asked) == segment || asked == bare(segment) || bare(asked) == bare(segment)
}

fn unknown(path: &str, asked: &[String], all: &[Figure]) -> BudgetError {
    // Equal segments weigh more than equal letters, because in a mistyped path, all segments but one may be
    // correct.
    let likeness = |figure: &Figure| {
        let segments = segments(&figure.name);
        let shared = asked.iter().filter(|segment| segments.iter().any(|other| fits(segment, other))).count();
        shared as f64 + strsim::normalized_levenshtein(path, &figure.name)
    };
    let mut near: Vec<(f64, &Figure)> = all.iter().map(|figure| (likeness(figure), figure)).collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let near = near.into_iter().filter(|(likeness, _)| *likeness >= 0.45).take(NEAR);
    BudgetError::UnknownPath {
        path: path.to_owned(),
        near: near.map(|(_, figure)| figure.name.clone()).collect(),
    }
}
