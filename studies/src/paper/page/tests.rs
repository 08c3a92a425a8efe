use fonio_report::document::{Cell, Scale};
use fonio_report::render_html;

use super::super::measured::Measured;
use super::super::row::Quantity;
use super::*;

fn papers() -> [Outcome; 1] {
    let quantity = |decimals| Quantity::new("MB", decimals, 1.25, 0.0);
    let row =
        |what, published, decimals, ours: Measured, why| quantity(decimals).row(what, published, &ours, why);
    let rows = vec![
        row("near", 2.0, 1, Measured::once(2.2), "").noted("of two"),
        row("far", 12.5, 2, Measured::once(2.5), "<b>because</b>"),
        row("fitted", 3.0, 1, Measured::once(3.0).shaped(true), ""),
        quantity(1).cannot("not measured", 3.0, "needs root"),
        Row::same("in words", "few", Some("many"), false, ""),
    ];
    let counts = Counts::of(&rows);
    [Outcome {
        id: "a-t1",
        title: "a table".to_owned(),
        commands: vec!["fonio run a".to_owned()],
        counts,
        rows,
    }]
}

#[test]
fn numbers_are_drawn_and_everything_is_in_the_table() {
    let page = document(&papers());
    let expected = "Of rows not used in a fit, 1 agree, 2 differ, 1 cannot be measured here; 1 were used in \
        a fit.";
    assert_eq!(page.verdict.sentence, expected);
    let section = &page.sections[0];
    let figure = &section.figures[0];
    let Scale::Categories(names) = &figure.y.scale else { panic!("the y axis must have categories") };
    assert_eq!(names, &["near", "far", "fitted"]);
    assert_eq!(figure.x.bounds, Some((0.125, 2.0)), "powers of two that hold a fifth and 1.1");
    let drawn: Vec<_> =
        figure.series.iter().map(|series| (series.name.as_str(), series.y[0], series.low[0])).collect();
    assert_eq!(drawn, [("agrees", 0.0, 1.0), ("differs", 1.0, 0.2), ("used in a fit", 2.0, 1.0)]);
    let rows: Vec<Vec<String>> =
        section.tables[0].rows.iter().map(|row| row[..4].iter().map(Cell::text).collect()).collect();
    let expected = [
        ["near", "2\u{a0}MB", "2.2\u{a0}MB (of two)", "1.1×"],
        ["far", "12.5\u{a0}MB", "2.50\u{a0}MB", "0.2×"],
        ["fitted", "3\u{a0}MB", "3.0\u{a0}MB", "1×"],
        ["not measured", "3\u{a0}MB", "–", "–"],
        ["in words", "few", "many", "–"],
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
