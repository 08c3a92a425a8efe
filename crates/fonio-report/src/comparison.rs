//! Converts a comparison into a document: the differences with their sizes, and the figures without a
//! difference.

use fonio_analysis::compare::interval::{self, LEAST_EFFECT};
use fonio_analysis::{Answer, Change, Comparison, ComparisonRow, Side, Unknown};

use crate::document::{
    Axis, Cell, Chart, Column, Document, Fact, Mark, Plot, Role, Section, Series, Table, Tone, Verdict,
};
use crate::questions::listed;
use fonio_core::{Better, Unit};

/// Why fonio does not judge a difference between two single recordings: two runs of the same work differ too.
const ONE_EACH: &str = "one recording on a side cannot show that the change is the cause: make at least three recordings on \
each side, and pass them with --before and --after";

/// A figure and its change between the compared recordings.
#[derive(Clone, Copy)]
struct Changed<'a> {
    row: &'a ComparisonRow,
    change: &'a Change,
    /// Whether the change is an improvement; `None` if there is no difference, if neither direction is
    /// better, or if there are too few recordings to judge.
    better: Option<bool>,
}

impl Document {
    /// Creates the report that compares recordings.
    pub fn from_comparison(comparison: &Comparison) -> Document {
        // The title has the complete paths.
        let sides = with_short_names(&comparison.sides);
        let Some((first, others)) = sides.split_first() else {
            return Document { title: "Nothing to compare".into(), ..Document::default() };
        };
        let names: Vec<String> = comparison.sides.iter().map(|side| side.name.clone()).collect();
        Document {
            title: listed(&names),
            subtitle: format!("compared with {}", comparison.sides[0].name),
            verdict: verdict(comparison, first, others),
            sections: others
                .iter()
                .enumerate()
                .map(|(at, side)| section(comparison, at, first, side))
                .collect(),
            provenance: vec![Fact::new("Intervals", Cell::Text(comparison.method.clone()))],
            ..Document::default()
        }
    }
}

/// Returns the sides with names without the folders that all of them have in common.
fn with_short_names(sides: &[Side]) -> Vec<Side> {
    let mut common = sides.first().map_or("", |side| side.name.as_str());
    for side in sides {
        let same = common.bytes().zip(side.name.bytes()).take_while(|(one, other)| one == other).count();
        let slash = common.as_bytes()[..same].iter().rposition(|byte| *byte == b'/');
        common = slash.map_or("", |slash| &common[..=slash]);
    }
    if sides.iter().any(|side| side.name.len() == common.len()) {
        return sides.to_vec();
    }
    let short = |side: &Side| Side { name: side.name[common.len()..].to_owned(), ..side.clone() };
    sides.iter().map(short).collect()
}

/// Returns whether a change is an improvement; `None` if there is no difference, or if neither higher nor
/// lower values are better.
fn better(row: &ComparisonRow, change: &Change) -> Option<bool> {
    let lower = match change.answer {
        Answer::Lower => true,
        Answer::Higher => false,
        Answer::NoDifference | Answer::Unknown => return None,
    };
    row.better.map(|better| lower == (better == Better::Lower))
}

/// Returns the rows of one compared recording. `at` is 0 for the second recording.
fn changed(comparison: &Comparison, at: usize) -> Vec<Changed<'_>> {
    let is_judged = comparison.is_judged();
    let rows = comparison.rows.iter().filter_map(|row| Some((row, row.changes.get(at)?)));
    let changed = |(row, change)| Changed { row, change, better: better(row, change).filter(|_| is_judged) };
    rows.map(changed).collect()
}

fn verdict(comparison: &Comparison, first: &Side, others: &[Side]) -> Verdict {
    let mut tones = Vec::new();
    let mut sentences = Vec::new();
    for (at, side) in others.iter().enumerate() {
        let invalid: Vec<String> = first.invalid.iter().chain(&side.invalid).cloned().collect();
        if !invalid.is_empty() {
            tones.push(Tone::Notice);
            sentences.push(format!(
                "{} cannot be compared with {}: {} {} valid (see `fonio report`).",
                side.name,
                first.name,
                listed(&invalid),
                if invalid.len() == 1 { "is not" } else { "are not" }
            ));
            continue;
        }
        let (tone, sentence, more) = pair(comparison, at, first, side);
        tones.push(tone);
        sentences.push(sentence);
        sentences.extend(more);
    }
    let tone = match tones.as_slice() {
        [] => Tone::Plain,
        [one, rest @ ..] if rest.iter().all(|tone| tone == one) => *one,
        _ => Tone::Notice,
    };
    let mut sentences = sentences.into_iter();
    let sentence =
        sentences.next().unwrap_or_else(|| "A comparison needs at least two recordings.".to_owned());
    Verdict { tone, sentence, reasons: sentences.collect() }
}

/// Returns the statement about one side, based on its run time or, if the run time shows nothing, on the
/// response times of requests that programs wait for.
fn pair(comparison: &Comparison, at: usize, first: &Side, side: &Side) -> (Tone, String, Option<String>) {
    let rows = &changed(comparison, at);
    let is_judged = comparison.is_judged();
    let differ =
        |said: &str| (Tone::Plain, format!("{} and {} differ{said}; {ONE_EACH}.", side.name, first.name));
    let against = |said: &str| format!("{} against {}: {said}.", side.name, first.name);
    let responses = by_responses(rows, is_judged);
    let work = rows.iter().find(|of| of.row.felt && says_something(of.change));
    let Some(Changed { row, change, .. }) = work else {
        let (tone, sentence) = match responses {
            Some((_, said)) if !is_judged => differ(&format!(" {said}")),
            Some((tone, said)) => (tone, against(&said)),
            None => (Tone::Plain, against("no response time was shown to differ")),
        };
        return (tone, sentence, None);
    };
    let value = |at: usize| row.texts.get(at).cloned().flatten().unwrap_or_else(|| "unknown".to_owned());
    let values = format!("{} {}, before {}", row.label, value(at + 1), value(0));
    let little = |found: interval::Side| {
        let word = match (found.is_little, found.is_higher) {
            (true, false) => "a little faster than",
            (true, true) => "a little slower than",
            (false, false) => "faster, by an unclear amount, than",
            (false, true) => "slower, by an unclear amount, than",
        };
        let range = relative(change).map(|range| format!("; {range}")).unwrap_or_default();
        match is_judged {
            true => (Tone::Plain, format!("{} is {word} {}: {values}{range}.", side.name, first.name)),
            false => differ(&format!(": {values}{range}")),
        }
    };
    let (tone, sentence) = change.side().map(little).unwrap_or_else(|| match change.answer {
        Answer::Lower | Answer::Higher if !is_judged => differ(&format!(": {values}")),
        Answer::Lower => (Tone::Good, format!("{} is faster than {}: {values}.", side.name, first.name)),
        Answer::Higher => (Tone::Bad, format!("{} is slower than {}: {values}.", side.name, first.name)),
        Answer::NoDifference => (Tone::Plain, against(&format!("no difference was shown in {}", row.label))),
        Answer::Unknown => match change.unknown {
            Some(Unknown::OneValueEach) => differ(&format!(": {values}")),
            Some(Unknown::TooFewRuns) => {
                let why = "at least three runs on each side are needed to show a difference";
                (Tone::Plain, against(&format!("{values}; {why}")))
            }
            _ => (Tone::Plain, against(&format!("{values}; the runs vary too much to tell"))),
        },
    });
    // The recordings may contain different requests, so the response times do not show which run was faster.
    let more = responses.map(|(_, said)| match is_judged {
        true => format!("By request: {said}."),
        false => format!("By request: they differ {said}."),
    });
    (tone, sentence, more)
}

/// Returns the interval of a change in percent: "+1.2 % to +4.0 %".
fn relative(change: &Change) -> Option<String> {
    let percent = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    Some(format!(
        "{} to {}",
        percent(change.low?),
        change.high.map_or_else(|| "any change".to_owned(), percent)
    ))
}

/// Returns whether the first sentence states the change in run time. Nearly equal run times are often fixed
/// by the workload: a load of ten seconds takes ten seconds.
fn says_something(change: &Change) -> bool {
    match change.unknown {
        Some(Unknown::NotMeasured) => false,
        Some(Unknown::OneValueEach) => {
            change.ratio.is_some_and(|ratio| !(1.0 / LEAST_EFFECT..=LEAST_EFFECT).contains(&ratio))
        }
        _ => true,
    }
}

/// Returns the tone of the verdict, and a clause about response times. Without a judgement, the clause only
/// lists the response times that differ.
fn by_responses(rows: &[Changed<'_>], is_judged: bool) -> Option<(Tone, String)> {
    let named = |is_wanted: &dyn Fn(&Changed<'_>) -> bool| -> Vec<&str> {
        let hits = rows.iter().filter(|of| !of.row.felt && is_wanted(of));
        hits.map(|of| of.row.label.as_str()).collect()
    };
    // Name only one group, because the labels contain commas.
    let part = |labels: &[&str]| match labels {
        [] => None,
        [one] => Some(format!("in {one}")),
        [first, rest @ ..] => Some(format!("in {first}, and in {} more", rest.len())),
    };
    if !is_judged {
        let differ = named(&|of| better(of.row, of.change).is_some());
        return Some((Tone::Plain, part(&differ)?));
    }
    let (gains, losses) = (named(&|of| of.better == Some(true)), named(&|of| of.better == Some(false)));
    let tone = match (gains.is_empty(), losses.is_empty()) {
        (true, true) => return None,
        (false, true) => Tone::Good,
        (true, false) => Tone::Bad,
        (false, false) => Tone::Notice,
    };
    let said = [("better", part(&gains)), ("worse", part(&losses))];
    let said: Vec<String> =
        said.into_iter().filter_map(|(word, part)| Some(format!("{word} {}", part?))).collect();
    Some((tone, said.join("; ")))
}

fn section(comparison: &Comparison, at: usize, first: &Side, side: &Side) -> Section {
    let rows = changed(comparison, at);
    let of = |wanted: fn(&Change) -> bool| -> Vec<Changed<'_>> {
        rows.iter().copied().filter(|of| wanted(of.change)).collect()
    };
    let differ = of(Change::is_claimed);
    let little = of(|change| change.side().is_some());
    let same = of(|change| change.answer == Answer::NoDifference && change.side().is_none());
    let counted = of(|change| change.unknown == Some(Unknown::Counted));
    let unknown = of(|change| {
        change.answer == Answer::Unknown
            && change.side().is_none()
            && change.unknown != Some(Unknown::Counted)
    });
    let answer = format!(
        "{} differ{}, {}{} {} no difference, {}{} cannot be determined.",
        Unit::Count.format(differ.len() as f64),
        if differ.len() == 1 { "s" } else { "" },
        match little.len() {
            0 => String::new(),
            1 => "1 differs a little or by an unclear amount, ".to_owned(),
            many => format!("{} differ a little or by an unclear amount, ", Unit::Count.format(many as f64)),
        },
        Unit::Count.format(same.len() as f64),
        if same.len() == 1 { "shows" } else { "show" },
        match counted.len() {
            0 => String::new(),
            1 => "1 is an exact count, ".to_owned(),
            many => format!("{} are exact counts, ", Unit::Count.format(many as f64)),
        },
        Unit::Count.format(unknown.len() as f64),
    );
    let tables = [
        ("What differs", differ, true),
        ("What differs a little, or by an unclear amount", little, true),
        ("No difference was shown", same, false),
        ("Exact counts of these recordings, not tested", counted, true),
        ("Cannot be told", unknown, false),
    ];
    Section {
        id: format!("against-{}", at + 1),
        question: format!("How does {} differ from {}?", side.name, first.name),
        answer: format!("Of {} figures, {answer}", rows.len()),
        figures: intervals(&rows, at).into_iter().collect(),
        tables: tables
            .into_iter()
            .filter(|(_, rows, _)| !rows.is_empty())
            .map(|(caption, rows, whole)| table(caption, &rows, at, [first, side], whole))
            .collect(),
        hints: Vec::new(),
        notes: vec![
            "A figure differs if the complete interval of its change lies beyond 5 % in one direction. It \
             differs a little if the interval excludes 0 %, but not 5 %. \"No difference\" rules out a doubling \
             and a halving, not a small difference."
                .into(),
        ],
    }
}

fn value(row: &ComparisonRow, at: usize) -> Cell {
    Cell::known(row.values.get(at).copied().flatten(), row.unit)
}

fn table(caption: &str, rows: &[Changed<'_>], at: usize, [first, side]: [&Side; 2], whole: bool) -> Table {
    let line = |of: &Changed<'_>| {
        let Changed { row, change, .. } = of;
        let interval = match (change.low, change.high) {
            (Some(low), Some(high)) => {
                Cell::Range { low: low - 1.0, point: None, high: high - 1.0, unit: Unit::Share, change: true }
            }
            _ => Cell::Unknown,
        };
        let relative = change.ratio.map_or(Cell::Unknown, |ratio| Cell::Change(ratio - 1.0, Unit::Share));
        vec![
            Cell::words(row.label.as_str()),
            value(row, 0),
            value(row, at + 1),
            relative,
            interval,
            answer(of),
        ]
    };
    Table {
        caption: caption.into(),
        columns: vec![
            Column::new("Figure"),
            Column::new(&first.name),
            Column::new(&side.name),
            Column::new("Change"),
            Column::noted(
                "Interval",
                "Interval of the change. It is wider than a 95 % interval, so that at most 5 % of comparisons contain a wrong interval.",
            ),
            Column::new("Answer"),
        ],
        rows: rows.iter().map(line).collect(),
        whole,
        ..Table::default()
    }
}

fn answer(of: &Changed<'_>) -> Cell {
    let change = of.change;
    if let Some(side) = change.side() {
        return Cell::Judgement(Tone::Plain, side.words("lower", "higher"));
    }
    let word = match (change.answer, change.unknown) {
        (Answer::Lower, _) => "lower",
        (Answer::Higher, _) => "higher",
        (Answer::NoDifference, _) => "no difference",
        (Answer::Unknown, Some(why)) => why.words(),
        (Answer::Unknown, None) => return Cell::Unknown,
    };
    match of.better {
        Some(true) => Cell::Judgement(Tone::Good, format!("{word}, better")),
        Some(false) => Cell::Judgement(Tone::Bad, format!("{word}, worse")),
        None => Cell::Judgement(Tone::Plain, word.to_owned()),
    }
}

/// Maximum ratio that the interval chart shows, in both directions. Larger changes would compress the other
/// intervals.
const WIDEST: f64 = 16.0;

/// Returns the intervals of the ratios on a logarithmic axis, where half and double have the same distance
/// from 1.
fn intervals(rows: &[Changed<'_>], at: usize) -> Option<Chart> {
    let mut names = Vec::new();
    let mut is_cut = false;
    let kinds = [
        ("better", Role::Discard),
        ("worse", Role::Flush),
        ("differs", Role::All),
        ("no difference", Role::Rest),
    ];
    let mut series = kinds.map(|(name, role)| Series { name: name.into(), role, ..Series::default() });
    // Omit inconclusive figures, because their wide intervals would hide the others.
    for Changed { row, change, better } in rows.iter().filter(|of| of.change.answer != Answer::Unknown) {
        let (Some(ratio), Some(low), Some(high)) = (change.ratio, change.low, change.high) else { continue };
        let series = &mut series[match better {
            Some(true) => 0,
            Some(false) => 1,
            None if change.answer == Answer::NoDifference && change.side().is_none() => 3,
            None => 2,
        }];
        let shown = |ratio: f64| ratio.clamp(1.0 / WIDEST, WIDEST);
        series.x.push(shown(ratio));
        series.y.push(names.len() as f64);
        series.low.push(shown(low));
        series.high.push(shown(high));
        is_cut |= low < 1.0 / WIDEST || high > WIDEST;
        names.push(row.label.clone());
    }
    let series: Vec<Series> = series.into_iter().filter(|series| !series.x.is_empty()).collect();
    if series.is_empty() {
        return None;
    }
    let ends = series.iter().flat_map(|series| series.low.iter().chain(&series.high));
    let end = ends.map(|end| end.max(1.0 / end)).fold(1.0, f64::max);
    // The limit of the axis is a power of two, like its ticks.
    let mut widest = 2.0;
    while widest < end {
        widest *= 2.0;
    }
    let cut = if is_cut { " Interval ends beyond 1/16× or 16× are drawn at 1/16× or 16×." } else { "" };
    Some(Chart {
        id: format!("intervals-{}", at + 1),
        title: "Ratio, with its interval".into(),
        caption: format!(
            "An interval that crosses 1× shows no difference. All intervals together hold with 95 % confidence.{cut}"
        ),
        plot: Plot::Interval,
        x: Axis { bounds: Some((1.0 / widest, widest)), ..Axis::log("Ratio", Unit::Ratio) },
        y: Axis::categories("Figure", names),
        z: None,
        series,
        marks: vec![Mark::AtX { x: 1.0, label: "equal".into() }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sides_lose_their_common_folders() {
        let short = |names: &[&str]| -> Vec<String> {
            let side = |name: &&str| Side { name: (*name).to_owned(), ..Side::default() };
            let sides: Vec<Side> = names.iter().map(side).collect();
            with_short_names(&sides).into_iter().map(|side| side.name).collect()
        };
        for (names, expected) in [
            (&["/srv/runs/before-1", "/srv/runs/before-2"][..], &["before-1", "before-2"][..]),
            (&["/srv/ä/x", "/srv/ö/x"], &["ä/x", "ö/x"]),
            (&["before", "after"], &["before", "after"]),
            (&["/srv/a", "/srv/a"], &["a", "a"]),
            (&["/srv/", "/srv/a"], &["/srv/", "/srv/a"]),
            (&[], &[]),
        ] {
            assert_eq!(short(names), expected);
        }
    }
}
