//! Checks that the HTML report is well formed, executes no untrusted text, and sends no requests.

use fonio_core::Unit;
use fonio_report::document::{Axis, Chart, Column, Plot, Series, Term};
use fonio_report::document::{Card, Cell, Fact, Section, Table, Verdict};
use fonio_report::{Document, render_html};

use crate::sample;

fn html(document: &Document) -> String {
    let mut out = Vec::new();
    render_html(document, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("a report is UTF-8")
}

/// HTML elements that have no end tag.
const VOID: [&str; 2] = ["meta", "br"];
/// HTML elements whose content up to the end tag is plain text.
const RAW: [&str; 3] = ["script", "style", "title"];

/// Returns the names of all elements, after checking that they are properly nested. Supports only the subset
/// of HTML that the report uses.
fn elements(html: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = html.strip_prefix("<!doctype html>").expect("the page begins with the doctype");
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        assert!(!text.contains('>'), "a bare > in {text:?}");
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        assert!(!tag.contains('<'), "a tag inside a tag: {tag:?}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "elements are closed out of order");
            continue;
        }
        let name = tag.split_whitespace().next().expect("a tag has a name").to_owned();
        assert_eq!(tag.matches('"').count() % 2, 0, "attributes are quoted: {tag:?}");
        if RAW.contains(&name.as_str()) {
            let close = format!("</{name}>");
            let length = rest.find(&close).expect("a raw element ends");
            rest = &rest[length + close.len()..];
        } else if !VOID.contains(&name.as_str()) {
            open.push(name.clone());
        }
        all.push(name);
    }
    assert!(open.is_empty(), "left open: {open:?}");
    all
}

#[test]
fn every_element_is_closed_and_every_id_is_single() {
    for document in [
        Document::from_analysis(&sample::analysis(3000), &sample::meta()),
        Document::from_comparison(&sample::comparison()),
        Document::default(),
    ] {
        let html = html(&document);
        elements(&html);
        let body = html.split("<body>").nth(1).expect("there is a body");
        let mut ids: Vec<&str> = body
            .split(" id=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            // The page's script is one long string with arbitrary content, which may look like ids.
            .filter(|id| id.len() < 40)
            .collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "ids are unique");
    }
}

#[test]
fn foreign_text_stays_text() {
    let evil = "</script><img src=x onerror=alert(1)>\"'&<!--\u{1b}]0;\u{202e}";
    let text = || evil.to_owned();
    let document = Document {
        title: text(),
        subtitle: text(),
        verdict: Verdict { sentence: text(), reasons: vec![text()], ..Verdict::default() },
        facts: vec![Fact::new(evil, Cell::Name(text())).note(evil)],
        findings: vec![Card {
            id: text(),
            headline: text(),
            evidence: vec![Fact::new(evil, Cell::Text(text()))],
            consequence: text(),
            remedies: vec![text(), format!("`{evil}`")],
            source: text(),
            ..Card::default()
        }],
        opening: Vec::new(),
        sections: vec![Section {
            id: "s".into(),
            question: text(),
            answer: text(),
            figures: vec![Chart {
                id: text(),
                title: text(),
                caption: text(),
                plot: Plot::StackedBar,
                x: Axis::linear(evil, Unit::Count),
                y: Axis::categories(evil, vec![text()]),
                z: None,
                series: vec![Series { name: text(), x: vec![1.0], y: vec![0.0], ..Series::default() }],
                marks: Vec::new(),
            }],
            tables: vec![Table {
                caption: text(),
                columns: vec![Column::noted(evil, evil)],
                rows: vec![vec![Cell::Name(text())]],
                ..Table::default()
            }],
            notes: vec![text()],
            hints: vec![text()],
        }],
        terms: vec![Term { name: text(), definition: text() }],
        provenance: vec![Fact::new(evil, Cell::Name(text())).note(evil)],
        next: vec![text()],
    };
    let html = html(&document);
    let elements = elements(&html);
    assert!(!elements.iter().any(|name| name == "img" || name == "!--"), "no foreign element");
    // The two scripts contain the chart's data and the report's data.
    assert_eq!(elements.iter().filter(|name| *name == "script").count(), 2);
    assert!(!html.contains('\u{1b}') && !html.contains('\u{202e}'), "no control character");
    let data = html.split("application/json\">").nth(1).and_then(|rest| rest.split("</script>").next());
    let data: serde_json::Value = serde_json::from_str(data.expect("a figure has data")).expect("it is JSON");
    assert!(data["series"][0]["name"].as_str().expect("a name").starts_with("</script><img"));
}

#[test]
fn nothing_is_asked_of_the_network() {
    let html = html(&Document::from_analysis(&sample::analysis(500), &sample::meta()));
    assert!(html.contains("content=\"default-src 'none';"));
    let (before, _) = html.rsplit_once("<script>").expect("the report's script");
    for sign in [" src=", "<link", "url(", "@import", "http:", "https:", "<iframe", "<base"] {
        assert!(!before.contains(sign), "{sign} in the page");
    }
    for link in before.split("href=\"").skip(1) {
        assert!(link.starts_with('#'), "a link leads out of the page");
    }
}

#[test]
fn a_page_with_many_points_stays_small() {
    let html = html(&Document::from_analysis(&sample::analysis(40_000), &sample::meta()));
    assert!(html.len() < 5_000_000, "{} bytes", html.len());
}
