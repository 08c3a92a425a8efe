//! The page of `cargo studies paper --html`.

use fonio_report::document::{Cell, Scale};
use fonio_report::render_html;

const PAPERS: &str = r#"[{
  "id": "a-t1", "title": "a table", "commands": ["fonio run a"],
  "counts": { "agree": 1, "differ": 1, "cannot": 2, "used_in_fit": 1 },
  "rows": [
    { "what": "near", "kind": "number", "published": 2.0, "ours": 2.2, "unit": "MB", "decimals": 1, "note": "of two",
      "used_in_fit": false, "verdict": "agrees", "why": "" },
    { "what": "far", "kind": "number", "published": 12.5, "ours": 2.5, "unit": "MB", "decimals": 2, "note": "",
      "used_in_fit": false, "verdict": "differs", "why": "<b>because</b>" },
    { "what": "fitted", "kind": "number", "published": 3.0, "ours": 3.0, "unit": "MB", "decimals": 1, "note": "",
      "used_in_fit": true, "verdict": "agrees", "why": "" },
    { "what": "not measured", "kind": "number", "published": 3.0, "ours": null, "unit": "MB", "decimals": 1, "note": "",
      "used_in_fit": false, "verdict": "cannot", "why": "needs root" },
    { "what": "in words", "kind": "statement", "published": "few", "ours": "many",
      "used_in_fit": false, "verdict": "cannot", "why": "" }
  ]
}]"#;

#[test]
fn numbers_are_drawn_and_everything_is_in_the_table() {
    let papers: Vec<super::Paper> = serde_json::from_str(PAPERS).expect("it is a list of papers");
    let page = super::document(&papers);
    let expected = "Of what no fit used, 1 agree, 1 differ, 2 cannot be had here; 1 were used in a fit.";
    assert_eq!(page.verdict.sentence, expected);
    let section = &page.sections[0];
    let figure = &section.figures[0];
    let Scale::Categories(names) = &figure.y.scale else { panic!("a row for each number") };
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
fn the_page_escapes_what_it_is_told() {
    let papers: Vec<super::Paper> = serde_json::from_str(PAPERS).expect("it is a list of papers");
    let mut html = Vec::new();
    render_html(&super::document(&papers), &mut html).expect("memory takes everything");
    let html = String::from_utf8(html).expect("it is UTF-8");
    assert!(html.contains("&lt;b&gt;because") && !html.contains("<b>because"));
}
