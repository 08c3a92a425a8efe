use fonio_report::document::{Cell, Scale};
use fonio_report::render_html;

use super::super::measured::Kind::{Construction, Imitation, Model, RealProgram};
use super::super::measured::Measured;
use super::super::row::Quantity;
use super::*;

fn papers() -> [Outcome; 1] {
    let quantity = |decimals| Quantity::new("MB", decimals, 1.25, 0.0);
    let row =
        |what, published, decimals, ours: Measured, why| quantity(decimals).row(what, published, &ours, why);
    let rows = vec![
        row("near", 2.0, 1, RealProgram.once(2.2), "").noted("of two"),
        row("far", 12.5, 2, Imitation.once(2.5), "<b>because</b>"),
        row("fitted", 3.0, 1, Model.once(3.0).known(true), ""),
        row("set", 3.0, 1, Construction.once(6.0), ""),
        quantity(1).cannot(Imitation, "not measured", 3.0, "needs root"),
        Row::same("in words", "few", Some("many"), Imitation.into(), ""),
    ];
    let counts = Counts::of(&rows);
    [Outcome {
        id: "a-t1",
        title: "a table".to_owned(),
        published: 7,
        commands: vec!["fonio run a".to_owned()],
        counts,
        rows,
        pictures: Vec::new(),
    }]
}

#[test]
fn numbers_are_drawn_and_everything_is_in_the_table() {
    let page = document(&papers());
    let expected = "Of 7 published numbers, 5 are in rows. On real programs: 1 agrees. On imitations: 2 differ, 1 cannot be \
        had. Not scored: 1 by construction, 1 known to the author.";
    assert_eq!(page.verdict.sentence, expected);
    let section = &page.sections[0];
    assert_eq!(section.answer, expected);
    let figure = &section.figures[0];
    let Scale::Categories(names) = &figure.y.scale else { panic!("the y axis must have categories") };
    assert_eq!(names, &["near", "far", "fitted", "set"]);
    assert_eq!(figure.x.bounds, Some((0.125, 2.0)), "powers of two that hold a fifth and 2");
    let drawn: Vec<_> = figure
        .series
        .iter()
        .map(|series| (series.name.as_str(), series.y.as_slice(), series.low[0]))
        .collect();
    let expected = [("agrees", &[0.0][..], 1.0), ("differs", &[1.0], 0.2), ("not scored", &[2.0, 3.0], 1.0)];
    assert_eq!(drawn, expected);
    let rows: Vec<Vec<String>> =
        section.tables[0].rows.iter().map(|row| row[..6].iter().map(Cell::text).collect()).collect();
    let expected = [
        ["near", "2\u{a0}MB", "2.2\u{a0}MB (of two)", "1.1×", "real program", "agrees"],
        ["far", "12.5\u{a0}MB", "2.50\u{a0}MB", "0.2×", "imitation", "differs"],
        ["fitted", "3\u{a0}MB", "3.0\u{a0}MB", "1×", "model", "agrees, not scored: known to the author"],
        ["set", "3\u{a0}MB", "6.0\u{a0}MB", "2×", "by construction", "differs, not scored: by construction"],
        ["not measured", "3\u{a0}MB", "–", "–", "imitation", "cannot be had"],
        ["in words", "few", "many", "–", "imitation", "differs"],
    ];
    assert_eq!(rows, expected);
}

#[test]
fn the_page_escapes_its_texts() {
    let mut html = Vec::new();
    render_html(&document(&papers()), &mut html).expect("memory takes everything");
    let html = String::from_utf8(html).expect("it is UTF-8");
    assert!(html.contains("&lt;b&gt;because") && !html.contains("<b>because"));
}
