//! Writes the report on an invented recording, in order to work on the layout of the report: `cargo run -p fonio-report
//! --example sample_report -- html > /tmp/report.html`.

use std::io::{self, Write as _};

use fonio_report::{Document, TerminalStyle};

#[path = "../tests/sample/mod.rs"]
mod sample;

fn main() -> io::Result<()> {
    let form = std::env::args().nth(1).unwrap_or_default();
    let document = match form.as_str() {
        "million" => {
            let meta = sample::meta();
            Document::from_analysis(&sample::analysed(1_000_000, &meta)?, &meta)
        }
        "compare" => Document::from_comparison(&sample::comparison()),
        _ => Document::from_analysis(&sample::analysis(40_000), &sample::meta()),
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    match form.as_str() {
        "html" | "million" | "compare" => fonio_report::render_html(&document, &mut out)?,
        "markdown" => fonio_report::render_markdown(&document, &mut out)?,
        "terminal" => {
            let style = TerminalStyle { colour: true, ..TerminalStyle::PLAIN };
            fonio_report::render_terminal(&document, style, &mut out)?;
        }
        _ => eprintln!("say which: html, million, compare, markdown, terminal"),
    }
    out.flush()
}
