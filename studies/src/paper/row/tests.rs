use super::*;
use Kind::{Construction, Imitation, Model, RealProgram};
use Verdict::{Agrees, Cannot, Differs, NotShown};

const MB: Quantity = Quantity::new("MB", 1, 1.5, 0.1);
const TIMES: Quantity = Quantity::new("times", 2, 1.5, 0.0);

fn verdict(row: &Row) -> Verdict {
    row.standing.verdict
}

fn text(value: f64) -> String {
    value.to_string()
}

#[test]
fn tolerances() {
    for (published, ours, expected) in [
        (10.0, 15.0, Agrees),
        (10.0, 15.1, Differs),
        (15.0, 10.0, Agrees),
        (15.1, 10.0, Differs),
        (0.0, 0.1, Agrees),
        (0.0, 0.2, Differs),
        (0.05, 0.15, Agrees),
        (10.0, 0.0, Differs),
        (10.0, f64::NAN, Cannot),
        (10.0, f64::INFINITY, Cannot),
    ] {
        let row = MB.row("a", published, &Imitation.once(ours), "");
        assert_eq!(verdict(&row), expected, "{published} and {ours}");
    }
}

/// A form of the published number: its name, how its row is made, and the words for the standing of a free number.
type Form<'a> = (&'a str, &'a dyn Fn(&Measured) -> Row, &'a str);

/// The rules for scoring: the kind of our number, whether a published number influenced it, and the form of the
/// published number decide; the verdict does not.
#[test]
fn only_free_numbers_with_two_bounds_are_scored() {
    const OPEN: f64 = f64::INFINITY;
    let of = |kind: Kind, is_known: bool| kind.runs([2.0; RUNS_MIN]).known(is_known);
    let number = |ours: &Measured| MB.row("a", 2.0, ours, "");
    let effect = |ours: &Measured| TIMES.effect("a", 2.0, ours, "");
    let within = |ours: &Measured| Row::within("a", "from 1 to 3", text, (ours, 1.0..=3.0), "");
    let up_to = |ours: &Measured| Row::within("a", "at most 3", text, (ours, 0.0..=3.0), "");
    let more_than = |ours: &Measured| Row::within("a", "more than 1", text, (ours, 1.0..=OPEN), "");
    let gain = |ours: &Measured| Row::effect("a", "a gain of more than 1.2", text, (ours, 1.2..=OPEN), "");
    let slower = |ours: &Measured| Row::effect("a", "slower", text, (ours, 0.0..=0.9), "");
    let between = |ours: &Measured| Row::effect("a", "between 1.5 and 3", text, (ours, 1.5..=3.0), "");
    let none = |ours: &Measured| Row::no_effect("a", "none", text, (ours, 1.1), "");
    let same = |ours: &Measured| Row::same("a", "flat", Some("flat"), ours.origin(), "");
    let rows: [Form<'_>; 10] = [
        ("number", &number, "agrees"),
        ("effect", &effect, "agrees"),
        ("within", &within, "agrees"),
        ("up to", &up_to, "agrees"),
        ("more than", &more_than, "agrees, not scored: bound without an upper end"),
        ("gain", &gain, "agrees, not scored: bound without an upper end"),
        ("slower", &slower, "differs, not scored: bound without an upper end"),
        ("between", &between, "agrees"),
        ("none", &none, "differs"),
        ("same", &same, "agrees"),
    ];
    for (form, row, free) in rows {
        let word = free.split(',').next().expect("a verdict");
        for kind in [RealProgram, Imitation, Model] {
            assert_eq!(row(&of(kind, false)).standing.words(), (kind.name().into(), free.into()), "{form}");
            let known = format!("{word}, not scored: known to the author");
            assert_eq!(row(&of(kind, true)).standing.words(), (kind.name().into(), known), "{form}");
        }
        for is_known in [false, true] {
            let constructed = format!("{word}, not scored: by construction");
            let found = row(&of(Construction, is_known)).standing.words();
            assert_eq!(found, ("by construction".into(), constructed), "{form}");
        }
    }
}

#[test]
fn a_constructed_or_known_part_is_not_scored() {
    let (free, known) = (Imitation.once(2.0), Imitation.once(2.0).known(true));
    for (ours, unscored) in [
        (free.clone(), None),
        (free.over(&known), Some(Unscored::Known)),
        (known.over(&free).times(3.0), Some(Unscored::Known)),
        (free.over(&Construction.once(1.0)), Some(Unscored::Construction)),
        (known.over(&Construction.once(1.0)), Some(Unscored::Construction)),
    ] {
        assert_eq!(MB.row("a", 1.0, &ours, "").standing.unscored, unscored, "{ours:?}");
    }
}

#[test]
fn a_missing_value_cannot_be_compared() {
    let missing = Imitation.once(None);
    let row = MB.row("a", 1.0, &missing, "because");
    assert_eq!((verdict(&row), row.why(), row.ours().as_str()), (Cannot, "it was not measured", "-"));
    assert_eq!(verdict(&Row::within("a", "few", text, (&missing, 0.0..=1.0), "")), Cannot);
    assert_eq!(verdict(&Row::same("a", "flat", None, Imitation.into(), "")), Cannot);
    let one_is_missing = Imitation.runs([Some(2.0), None, Some(2.0), Some(2.0), Some(2.0)]);
    assert_eq!(verdict(&TIMES.effect("a", 2.0, &one_is_missing, "")), Cannot);
    assert_eq!(verdict(&Row::no_effect("a", "none", text, (&one_is_missing, 3.0), "")), Cannot);
}

#[test]
fn an_effect_needs_runs_and_must_exceed_its_spread() {
    for (published, runs, expected) in [
        (2.0, vec![2.0, 2.0, 2.1, 2.1], NotShown),
        (2.0, vec![2.0, 2.0, 2.1, 2.1, 2.2], Agrees),
        // The value is within the tolerance, but it does not differ from "no effect".
        (2.0, vec![0.9, 2.0, 2.0, 2.0, 2.2], NotShown),
        (1.2, vec![1.1, 1.2, 1.2, 1.2, 1.4], NotShown),
        (1.2, vec![1.18, 1.2, 1.2, 1.2, 1.22], Agrees),
        // The first value exceeds the tolerance by more than the spread; the second value exceeds it by
        // less.
        (2.0, vec![4.0, 4.2, 4.2, 4.2, 4.4], Differs),
        (2.0, vec![2.5, 3.1, 3.1, 3.1, 4.0], NotShown),
        // The effect is in the opposite direction.
        (2.0, vec![0.5; 5], Differs),
        (0.5, vec![0.5, 0.5, 0.5, 0.5, 0.51], Agrees),
        // The runs show no effect, although an effect is published.
        (2.0, vec![0.99, 1.0, 1.0, 1.0, 1.01], Differs),
    ] {
        let row = TIMES.effect("a", published, &Imitation.runs(runs.clone()), "");
        assert_eq!(verdict(&row), expected, "{runs:?}");
    }
    let row = TIMES.effect("a", 2.0, &Imitation.runs([2.0, 2.1]), "because");
    assert_eq!((row.why(), row.ours().as_str()), ("not shown (n = 2)", "2.05 times (2.00 to 2.10, n = 2)"));
}

#[test]
fn effects_in_words() {
    for (runs, expected) in [
        ([2.0, 2.0, 2.1, 2.1, 2.2], Agrees),
        ([0.8, 0.9, 0.9, 0.9, 0.9], Differs),
        ([1.0, 1.3, 1.3, 1.4, 2.0], NotShown),
    ] {
        let row = Row::effect("a", "a gain", text, (&Imitation.runs(runs), 1.2..=f64::INFINITY), "");
        assert_eq!(verdict(&row), expected, "{runs:?}");
    }
    for (runs, expected) in [
        (&[0.95, 1.0, 1.0, 1.0, 1.1][..], Agrees),
        (&[1.9, 2.0, 2.0, 2.0, 2.1], Differs),
        (&[0.9, 1.1, 1.1, 1.1, 1.6], NotShown),
        (&[1.0; 4], NotShown),
    ] {
        let row = Row::no_effect("a", "no gain", text, (&Imitation.runs(runs.to_vec()), 1.25), "");
        assert_eq!(verdict(&row), expected, "{runs:?}");
    }
}

#[test]
fn of_a_total_and_its_parts_the_last_follows() {
    let unscored = |total: Measured| {
        let ours = Imitation.once(1.0);
        let part =
            |what: &str, ours| Part { quantity: MB, what: what.to_owned(), published: 1.0, ours, why: "" };
        Quantity::total_and_parts(part("total", &total), [part("first", &ours), part("last", &ours)])
            .map(|row| row.standing.unscored)
    };
    assert_eq!(unscored(Imitation.once(2.0)), [None, None, Some(Unscored::Follows)]);
    let known = Imitation.once(2.0).known(true);
    assert_eq!(unscored(known), [Some(Unscored::Known), None, Some(Unscored::Follows)]);
}

#[test]
fn a_reason_is_given_only_where_it_is_needed() {
    let row = MB.row("a", 2.0, &Imitation.once(2.04), "because").noted("of two");
    assert_eq!((row.published().as_str(), row.ours().as_str()), ("2 MB", "2.0 MB (of two)"));
    assert_eq!((verdict(&row), row.why()), (Agrees, ""));
    let row = MB.row("a", 2.0, &Imitation.once(4.0), "because");
    assert_eq!((verdict(&row), row.why()), (Differs, "because"));
    assert_eq!(row.because("MB: 4").why(), "MB: 4; because");
}

#[test]
fn numbers_stay_numbers_in_json() {
    let number = serde_json::to_value(MB.cannot(Imitation, "a", 20.0, "no")).unwrap();
    let expected = serde_json::json!({
        "what": "a", "form": "number", "published": 20.0, "ours": null, "unit": "MB", "decimals": 1, "note": "",
        "kind": "imitation", "unscored": null, "verdict": "cannot", "numbers": 1, "why": "no",
    });
    assert_eq!(number, expected);
    let row = Row::same("a", "few", Some("many"), Origin::from(Model).known(true), "no");
    let expected = serde_json::json!({
        "what": "a", "form": "statement", "published": "few", "ours": "many",
        "kind": "model", "unscored": "known", "verdict": "differs", "numbers": 0, "why": "no",
    });
    assert_eq!(serde_json::to_value(row).unwrap(), expected);
}

#[test]
fn a_result_file_contains_the_standing() {
    let row = TIMES.effect("a", 2.0, &Construction.runs([2.0, 2.1]), "because").of_numbers(3);
    let kept = row.kept();
    assert_eq!(kept.cells.len() + 1, COLUMNS.len());
    let cells: Vec<String> = kept.cells.iter().map(Cell::shown).collect();
    let expected = [
        "2 times",
        "2.05 times (2.00 to 2.10, n = 2)",
        "2.05 times",
        "by construction",
        "not shown, not scored: by construction",
        "3",
        "not shown (n = 2)",
    ];
    assert_eq!(cells, expected);
    let at = |column| COLUMNS.iter().position(|name| *name == column).expect("a column") - 1;
    assert_eq!(Standing::parse(&cells[at(KIND)], &cells[at(VERDICT)]), Some(row.standing()));
}
