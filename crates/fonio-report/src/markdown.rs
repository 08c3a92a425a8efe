//! Renders a report as Markdown in GitHub's dialect, for issues, pull requests and notes.

use std::fmt::Write as _;
use std::io;

use fonio_core::printable;

use crate::document::{Card, Cell, Document, Fact, Plot, Scale, Section, Table, Tone};
use crate::terminal::sparkline;

/// Maximum number of rows of each table; other formats have all rows.
const ROWS: usize = 20;
/// Number of characters in a sparkline.
const COURSE: usize = 60;

/// Writes the document as Markdown. Returns errors of writing to `out`.
pub fn render_markdown(document: &Document, out: &mut dyn io::Write) -> io::Result<()> {
    let Document { title, subtitle, verdict, facts, opening, findings, sections, terms, provenance, next: _ } =
        document;
    writeln!(out, "# {}\n", escaped(title))?;
    if !subtitle.is_empty() {
        writeln!(out, "{}\n", escaped(subtitle))?;
    }
    writeln!(out, "> {}**{}**", symbol(verdict.tone), escaped(&verdict.sentence))?;
    for reason in &verdict.reasons {
        writeln!(out, ">\n> {}", escaped(reason))?;
    }
    writeln!(out)?;
    list(out, facts)?;
    for section in opening {
        question(out, section)?;
    }
    if !findings.is_empty() {
        writeln!(out, "## What was found\n")?;
        for (at, card) in findings.iter().enumerate() {
            finding(out, at + 1, card)?;
        }
    }
    for section in sections {
        question(out, section)?;
    }
    if !terms.is_empty() {
        writeln!(out, "## Definitions\n")?;
        for term in terms {
            writeln!(out, "- **{}**: {}", escaped(&term.name), escaped(&term.definition))?;
        }
        writeln!(out)?;
    }
    if !provenance.is_empty() {
        writeln!(out, "## Where the numbers come from\n")?;
        list(out, provenance)?;
    }
    Ok(())
}

fn list(out: &mut dyn io::Write, facts: &[Fact]) -> io::Result<()> {
    for Fact { label, value, note } in facts {
        let note = if note.is_empty() { String::new() } else { format!(" ({})", escaped(note)) };
        writeln!(out, "- {}: **{}**{note}", escaped(label), escaped(&value.text()))?;
    }
    if facts.is_empty() { Ok(()) } else { writeln!(out) }
}

fn finding(out: &mut dyn io::Write, rank: usize, card: &Card) -> io::Result<()> {
    writeln!(out, "{rank}. {}**{}**", symbol(card.tone), escaped(&card.headline))?;
    if !card.consequence.is_empty() {
        writeln!(out, "   {}", escaped(&card.consequence))?;
    }
    for Fact { label, value, .. } in &card.evidence {
        writeln!(out, "   - {}: {}", escaped(label), escaped(&value.text()))?;
    }
    for remedy in &card.remedies {
        writeln!(out, "   - → {}", escaped(remedy))?;
    }
    writeln!(out)
}

fn question(out: &mut dyn io::Write, section: &Section) -> io::Result<()> {
    writeln!(out, "## {}\n", escaped(&section.question))?;
    if !section.answer.is_empty() {
        writeln!(out, "{}\n", escaped(&section.answer))?;
    }
    for figure in &section.figures {
        if figure.x.scale != Scale::Time || !matches!(figure.plot, Plot::Line | Plot::StackedArea) {
            continue;
        }
        writeln!(out, "{} over time:\n", escaped(&figure.title))?;
        for series in figure.series.iter().filter(|series| series.y.iter().any(|y| *y > 0.0)) {
            let most = series.y.iter().copied().filter(|y| y.is_finite()).fold(0.0, f64::max);
            let course = sparkline(&series.y, COURSE);
            writeln!(out, "- `{course}` {}, max {}", escaped(&series.name), figure.y.unit.format(most))?;
        }
        writeln!(out)?;
    }
    for each in section.tables.iter().filter(|table| !table.detail) {
        table(out, each)?;
    }
    for note in &section.notes {
        writeln!(out, "- {}", escaped(note))?;
    }
    if section.notes.is_empty() { Ok(()) } else { writeln!(out) }
}

fn table(out: &mut dyn io::Write, table: &Table) -> io::Result<()> {
    if !table.caption.is_empty() {
        writeln!(out, "**{}**\n", escaped(&table.caption))?;
    }
    let (mut head, mut rule) = (String::from("|"), String::from("|"));
    for (at, column) in table.columns.iter().enumerate() {
        let _ = write!(head, " {} |", escaped(&column.label));
        rule.push_str(if table.is_numeric(at) { " ---: |" } else { " --- |" });
    }
    writeln!(out, "{head}\n{rule}")?;
    for row in table.rows.iter().take(ROWS) {
        let mut line = String::from("|");
        for cell in row {
            let text = cell.text();
            let _ = match cell {
                Cell::Name(name) => write!(line, " {} |", code(name)),
                _ => write!(line, " {} |", escaped(&text)),
            };
        }
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    let hidden = table.rows.len().saturating_sub(ROWS) as u64 + table.left_out;
    if hidden > 0 {
        writeln!(out, "and {} more\n", fonio_core::Unit::Count.format(hidden as f64))?;
    }
    Ok(())
}

fn symbol(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "✅ ",
        Tone::Plain => "",
        Tone::Notice => "⚠️ ",
        Tone::Bad => "❌ ",
    }
}

/// Escapes text that could become a tag, a link, a mention, emphasis or a table column.
///
/// Text between backticks is not changed.
fn escaped(text: &str) -> String {
    let text = printable(text);
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest: &str = &text;
    while let Some((before, (name, after))) =
        rest.split_once('`').and_then(|(before, tail)| Some((before, tail.split_once('`')?)))
    {
        escape_words(&mut out, before);
        out.push_str(&code(name));
        rest = after;
    }
    escape_words(&mut out, rest);
    out
}

fn escape_words(out: &mut String, text: &str) {
    let mut before = ' ';
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            // A character reference does not start a mention or an issue reference.
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            // An underscore can mark emphasis, but not in the middle of a word.
            '_' if before.is_alphanumeric() => out.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        before = c;
    }
}

/// Formats a name as code. The fence is longer than any run of backticks in the name. Even in code, a pipe
/// must be escaped, because GitHub splits a row into cells before it looks for code.
fn code(name: &str) -> String {
    let name = printable(name).replace('|', "\\|");
    let longest = name.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let gap = if longest > 0 { " " } else { "" };
    if name.trim().is_empty() { "(empty)".to_owned() } else { format!("{fence}{gap}{name}{gap}{fence}") }
}
