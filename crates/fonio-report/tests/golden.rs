//! Compares the complete report in each format with a golden file.

use expect_test::expect_file;
use fonio_analysis::waits::uninterruptible::Uninterruptible;
use fonio_analysis::{Answer, Comparison};
use fonio_report::{Document, TerminalStyle};

use crate::sample;

fn document() -> Document {
    Document::from_analysis(&sample::analysis(500), &sample::meta())
}

fn terminal(document: &Document, style: TerminalStyle) -> String {
    let mut out = Vec::new();
    fonio_report::render_terminal(document, style, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("a report is UTF-8")
}

#[test]
fn terminal_as_a_pipe_gets_it() {
    expect_file!["golden/terminal.txt"].assert_eq(&terminal(&document(), TerminalStyle::PLAIN));
}

#[test]
fn terminal_that_is_narrow_and_knows_only_ascii() {
    let style = TerminalStyle { width: 60, unicode: false, rows: 4, ..TerminalStyle::PLAIN };
    let text = terminal(&document(), style);
    expect_file!["golden/terminal-narrow.txt"].assert_eq(&text);
    assert!(text.is_ascii(), "the plain style has non-ASCII characters");
    for line in text.lines() {
        assert!(line.len() <= 60, "{line:?} is wider than the terminal");
    }
}

#[test]
fn the_first_screen() {
    let next =
        ["fonio report home.fonio --all", "fonio report home.fonio --html report.html"].map(str::to_owned);
    let mut document = Document { next: next.into(), ..document() };
    let style = TerminalStyle { width: 80, first_screen: true, ..TerminalStyle::PLAIN };
    expect_file!["golden/first-screen.txt"].assert_eq(&terminal(&document, style));
    // The screen fits for any number of findings, and on narrow terminals.
    document.findings.extend(document.findings.clone());
    for width in 60..=200 {
        let text = terminal(&document, TerminalStyle { width, ..style });
        assert!(text.lines().count() <= 30, "{width} columns:\n{text}");
        assert!(text.contains("more") && text.contains("--html"), "{width} columns:\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width} columns:\n{text}");
    }
}

#[test]
fn terminal_with_colour_says_the_same() {
    let coloured = terminal(&document(), TerminalStyle { colour: true, ..TerminalStyle::PLAIN });
    assert!(coloured.contains("\x1b[1;31m"));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        rest = after.split_once('m').expect("a colour ends with m").1;
    }
    plain.push_str(rest);
    assert_eq!(plain, terminal(&document(), TerminalStyle::PLAIN));
}

#[test]
fn markdown() {
    let mut out = Vec::new();
    fonio_report::render_markdown(&document(), &mut out).expect("memory takes everything");
    expect_file!["golden/report.md"].assert_eq(&String::from_utf8(out).expect("a report is UTF-8"));
}

/// A trace without block events: who was blocked, in three times, and nothing about requests.
#[test]
fn a_trace_of_the_scheduler() {
    let analysis = sample::of_scheduler();
    let document = Document::from_analysis(&analysis, &sample::meta());
    let sections: Vec<&str> = document.sections.iter().map(|section| section.id.as_str()).collect();
    assert_eq!(sections, ["uninterruptible", "trust"]);
    let text = terminal(&document, TerminalStyle { width: 120, ..TerminalStyle::PLAIN });
    expect_file!["golden/scheduler.txt"].assert_eq(&text);
    let mut html = Vec::new();
    fonio_report::render_html(&document, &mut html).expect("memory takes everything");
    let html = String::from_utf8(html).expect("a report is UTF-8");
    for word in ["Who was blocked in the kernel?", "folio_wait_bit_common", "Not I/O", "Late frames of apps"]
    {
        assert!(html.contains(word), "{word}");
    }
    // With block events, the sections about requests are there, too.
    let mut both = sample::analysis(500);
    both.uninterruptible =
        analysis.uninterruptible.map(|answer| Uninterruptible { has_block_events: true, ..answer });
    let with = Document::from_analysis(&both, &sample::meta());
    assert_eq!(
        with.sections.len(),
        Document::from_analysis(&sample::analysis(500), &sample::meta()).sections.len() + 1
    );
}

#[test]
fn comparison() {
    let document = Document::from_comparison(&sample::comparison());
    let text = terminal(&document, TerminalStyle::PLAIN);
    expect_file!["golden/comparison.txt"].assert_eq(&text);
    // One recording per side shows differences, and does not show which side is better.
    for judgement in ["better", "worse", "faster", "slower"] {
        assert!(!text.contains(judgement), "{judgement}:\n{text}");
    }
}

#[test]
fn three_recordings_per_side_are_judged() {
    let mut comparison = sample::comparison();
    for side in &mut comparison.sides {
        side.recordings = vec![side.name.clone(); 3];
    }
    let text = |comparison: &Comparison| {
        let text = terminal(&Document::from_comparison(comparison), TerminalStyle::PLAIN);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    comparison.rows[0].changes[0].answer = Answer::Lower;
    let judged = text(&comparison);
    for words in [
        "wal is faster than before: run time 2.2 s, before 6.4 s.",
        "By request: better in sync write response, 99th percentile.",
        "lower, better",
    ] {
        assert!(judged.contains(words), "{words}:\n{judged}");
    }
    // With one recording on either side, the same differences are named without a judgement.
    for side in 0..2 {
        let mut comparison = comparison.clone();
        comparison.sides[side].recordings.truncate(1);
        let text = text(&comparison);
        assert!(text.contains("wal and before differ: run time 2.2 s, before 6.4 s;"), "{text}");
        assert!(!text.contains("faster") && !text.contains("better"), "{text}");
    }
    // Without run times, the response times that differ are named.
    comparison.rows.remove(0);
    assert!(text(&comparison).contains("wal against before: better in sync write response"));
    comparison.sides[0].recordings.truncate(1);
    let unjudged = text(&comparison);
    assert!(
        unjudged.contains("wal and before differ in sync write response, 99th percentile; one recording")
    );
}

/// An interval that excludes 1, but not a difference of 5 %, is not "no difference".
#[test]
fn a_small_difference_is_called_small() {
    let mut comparison = sample::comparison();
    for side in &mut comparison.sides {
        side.recordings = vec![side.name.clone(); 3];
    }
    for (low, high, expected) in [
        (1.01, 1.04, "wal is a little slower than before: run time 2.2 s, before 6.4 s; +1.0 % to +4.0 %."),
        (0.93, 0.99, "wal is a little faster than before: run time 2.2 s, before 6.4 s; -7.0 % to -1.0 %."),
        (1.04, 1.9, "wal is slower, by an unclear amount, than before: run time 2.2 s"),
        (0.99, 1.04, "wal against before: no difference was shown in run time."),
    ] {
        let change = &mut comparison.rows[0].changes[0];
        (change.low, change.high, change.answer, change.unknown) =
            (Some(low), Some(high), Answer::NoDifference, None);
        let text = terminal(&Document::from_comparison(&comparison), TerminalStyle::PLAIN);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(expected), "{expected}:\n{text}");
        let is_small = low > 1.0 || high < 1.0;
        assert_eq!(text.contains("1 differs a little or by an unclear amount"), is_small, "{text}");
    }
}

#[test]
fn what_is_unknown_leaves_no_section_that_lies() {
    let nothing = Document::from_analysis(&fonio_analysis::Analysis::default(), &fonio_core::Meta::default());
    expect_file!["golden/nothing.txt"].assert_eq(&terminal(&nothing, TerminalStyle::PLAIN));
}
