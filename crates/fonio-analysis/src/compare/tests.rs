use fonio_core::Meta;

use super::*;
use crate::analyser::tests::{analyse_rows, request};
use crate::compare::interval::Answer;

/// Generates one synchronous write per millisecond for four seconds. Each write takes `base` to `base` + 100
/// microseconds.
fn writer(base: u64, seed: u64) -> Analysis {
    let mut draw = seed;
    let mut noise = move || {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % 101
    };
    let rows: Vec<_> = (0..4000u64)
        .map(|id| {
            let at = id * 1000;
            request(id, &format!("WS {}+8 q{at} d{at} c{}", id * 8, at + base + noise()))
        })
        .collect();
    analyse_rows(&rows, &Meta::default())
}

fn sides<'a>(first: &[&'a Analysis], other: &[&'a Analysis]) -> [Named<Vec<Named<&'a Analysis>>>; 2] {
    [("before", first), ("after", other)].map(|(name, analyses)| Named {
        name: name.to_owned(),
        value: analyses
            .iter()
            .enumerate()
            .map(|(at, value)| Named { name: format!("{name}-{at}"), value: *value })
            .collect(),
    })
}

fn answers(first: &[&Analysis], other: &[&Analysis]) -> Vec<(String, Answer)> {
    let rows = compare(&sides(first, other)).rows;
    rows.into_iter().map(|row| (row.figure, row.changes[0].answer)).collect()
}

fn answer(answers: &[(String, Answer)], figure: &str) -> Answer {
    answers.iter().find(|(name, _)| name == figure).unwrap_or_else(|| panic!("no {figure} in {answers:?}")).1
}

#[test]
fn slower_faster_and_no_difference() {
    let (short, long, again) = (writer(300, 1), writer(400, 2), writer(300, 3));
    let slower = answers(&[&short], &[&long]);
    let faster = answers(&[&long], &[&short]);
    let same = answers(&[&short], &[&again]);
    for figure in
        ["latency.write_sync.response.mean", "latency.write_sync.service.p50", "io_share.latency_sum"]
    {
        assert_eq!(answer(&slower, figure), Answer::Higher, "{figure}");
        assert_eq!(answer(&faster, figure), Answer::Lower, "{figure}");
        assert_eq!(answer(&same, figure), Answer::NoDifference, "{figure}");
    }
    assert_eq!(answer(&slower, "totals.requests_per_s"), Answer::NoDifference);
    assert_eq!(answer(&slower, "latency.write_sync.response.max"), Answer::Unknown, "one value in each");
    assert!(slower.iter().all(|(figure, _)| !figure.starts_with("latency.reads")), "unknown in both");
}

#[test]
fn with_itself_there_is_no_difference() {
    let analysis = writer(300, 1);
    for row in compare(&sides(&[&analysis], &[&analysis])).rows {
        let change = &row.changes[0];
        assert!(!change.is_claimed(), "{}", row.figure);
        assert!(change.ratio.is_none_or(|ratio| ratio == 1.0), "{}", row.figure);
    }
}

#[test]
fn too_short_for_an_interval() {
    let short = analyse_rows(&[request(0, "R 0+8 q0 d0 c10")], &Meta::default());
    for (figure, answer) in answers(&[&short], &[&short]) {
        assert_eq!(answer, Answer::Unknown, "{figure}");
    }
}

#[test]
fn several_recordings_are_the_unit() {
    // Each recording is precise, but recordings of the same side vary by 20 percent.
    let before: Vec<Analysis> = [300, 360, 420].map(|base| writer(base, base)).into();
    let after: Vec<Analysis> = [310, 350, 440].map(|base| writer(base, base + 1)).into();
    let slow: Vec<Analysis> = [3000, 3600, 4200].map(|base| writer(base, base)).into();
    let of = |analyses: &'static [Analysis]| -> Vec<&'static Analysis> { analyses.iter().collect() };
    let [before, after, slow] = [before, after, slow].map(|analyses| of(analyses.leak()));
    let figure = "latency.write_sync.response.p50";
    assert_eq!(answer(&answers(&before[..1], &before[2..]), figure), Answer::Higher, "slices alone");
    assert!(!matches!(answer(&answers(&before, &after), figure), Answer::Higher | Answer::Lower));
    assert_eq!(answer(&answers(&before, &slow), figure), Answer::Higher);
    assert_eq!(answer(&answers(&before, &slow), "latency.write_sync.response.max"), Answer::Higher);
    assert_eq!(answer(&answers(&before[..2], &slow), figure), Answer::Unknown, "two are too few");
}

#[test]
fn what_no_side_can_show_takes_no_share_of_the_level() {
    let (short, long) = (writer(300, 1), writer(400, 2));
    let comparison = compare(&sides(&[&short], &[&long]));
    let claimed: Vec<f64> = comparison
        .rows
        .iter()
        .filter(|row| row.changes[0].is_claimed())
        .filter_map(|row| row.changes[0].confidence)
        .collect();
    assert!(
        !claimed.is_empty() && claimed.iter().all(|confidence| (0.95..1.0).contains(confidence)),
        "{claimed:?}"
    );
}
