//! Prints reports and other documents in the requested format.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use fonio_analysis::Analysis;
use fonio_core::Unit;
use fonio_core::{ByteCount, printable, printable_json, printable_line};
pub use fonio_input::Explained;
use fonio_report::budget::{Budget, BudgetError, Outcome};
use fonio_report::json::CheckedBudget;
use fonio_report::terminal::WIDTH_MIN;
use fonio_report::{Document, Fitted, TerminalStyle, json, render_html, render_markdown, render_terminal};
use fonio_system::{Caller, private, say};
use serde::Serialize;

use crate::cli::{Colour, Output};
use crate::exit::{Exit, NotShown};
use crate::offered::offered;

/// Parses the budgets on the command line. Call it before the analysis, so that a typing error costs no time.
pub fn budgets(output: &Output) -> Result<Vec<Budget>> {
    output.budget.iter().map(|text| Ok(Budget::parse(text)?)).collect()
}

/// The part of a report that the terminal shows.
#[derive(Clone, Copy, Debug)]
pub enum Extent<'a> {
    /// The first screen of the report, which ends with these commands for the user.
    FirstScreen(&'a [String]),
    /// The complete report.
    All,
    /// The complete report, with all rows of its tables.
    EveryRow,
}

/// Shows the analysis and checks it against the budgets.
pub fn show(
    explained: &Explained,
    output: &Output,
    budgets: &[Budget],
    extent: Extent<'_>,
    colour: Colour,
) -> Result<Exit> {
    let outcomes = evaluate(&explained.analysis, budgets)?;
    if output.json {
        let mut text = Vec::new();
        json::render_json(&explained.analysis, &checked(&outcomes, None), &mut text)?;
        json_text(&text)?;
    } else {
        let mut document = Document::from_analysis(&explained.analysis, &explained.meta);
        if let Extent::FirstScreen(next) = extent {
            let to_try = offered(&explained.analysis, &explained.meta);
            document.next = to_try.into_iter().chain(next.iter().cloned()).collect();
        }
        show_document(&document, output, extent, colour)?;
    }
    if output.json && output.html.is_some() {
        let document = Document::from_analysis(&explained.analysis, &explained.meta);
        write_html(&document, output.html.as_deref())?;
    }
    judge(explained, &outcomes, None)
}

/// Returns the results of budgets for JSON. `recording` is the name of the recording, if there are several.
pub fn checked(outcomes: &[Outcome], recording: Option<&str>) -> Vec<CheckedBudget> {
    outcomes.iter().map(|outcome| CheckedBudget::of(outcome, recording)).collect()
}

/// Prints the results of budgets, with the name of the recording, and returns the exit code.
pub fn judge(explained: &Explained, outcomes: &[Outcome], name: Option<&str>) -> Result<Exit> {
    for outcome in outcomes {
        let of = name.map(|name| format!(" of {name}")).unwrap_or_default();
        // Standard output may be JSON or Markdown, so budgets go to standard error.
        say!("budget{of}: {}", outcome.sentence);
    }
    Ok(if !explained.analysis.validity.ok {
        Exit::NotValid
    } else if outcomes.iter().any(|outcome| !outcome.passed) {
        Exit::LimitBroken
    } else {
        Exit::Fine
    })
}

/// Checks the budgets for one recording. Fails if the recording does not show a figure.
pub fn evaluate(analysis: &Analysis, budgets: &[Budget]) -> Result<Vec<Outcome>> {
    if budgets.is_empty() {
        return Ok(Vec::new());
    }
    let figures = analysis.figures();
    let evaluate = |budget: &Budget| match budget.evaluate(&figures) {
        Err(error @ BudgetError::NotKnown { .. }) => Err(NotShown(error.to_string()).into()),
        outcome => Ok(outcome?),
    };
    budgets.iter().map(evaluate).collect()
}

/// Shows the document on the terminal, as Markdown or as HTML.
pub fn show_document(document: &Document, output: &Output, extent: Extent<'_>, colour: Colour) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if output.markdown {
        render_markdown(document, &mut out)?;
    } else if output.html.is_some() {
        writeln!(screen(), "{}", printable(&document.verdict.sentence))?;
    } else {
        let first_screen = matches!(extent, Extent::FirstScreen(_));
        let mut style = TerminalStyle { first_screen, ..terminal_style(colour) };
        if matches!(extent, Extent::EveryRow) {
            style.rows = usize::MAX;
        }
        render_terminal(document, style, &mut out)?;
    }
    out.flush()?;
    write_html(document, output.html.as_deref())?;
    if let (Some(path), false) = (&output.html, output.markdown) {
        writeln!(screen(), "The report is in {}.", path.display())?;
    }
    Ok(())
}

/// Shows the document on the terminal, regardless of other outputs.
pub fn show_on_terminal(document: &Document, colour: Colour) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    render_terminal(document, terminal_style(colour), &mut out)?;
    Ok(out.flush()?)
}

/// Writes the HTML report if the user gave a path for it.
pub fn write_html(document: &Document, path: Option<&Path>) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let mut page = Vec::new();
    render_html(document, &mut page)?;
    write_completely(path, &page).with_context(|| {
        format!(
            "{} cannot be written, and is as before; name a file on another file system with --html",
            path.display()
        )
    })
}

/// Writes a file for a result completely, or not at all: if the disk is full, an earlier file stays, and there
/// is no part of the new one.
fn write_completely(path: &Path, content: &[u8]) -> io::Result<()> {
    // A link stays a link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let before = fs::metadata(&target).ok();
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        // A device or a pipe, such as /dev/stdout.
        return private::write_file(path, content);
    }
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = match tempfile::Builder::new().prefix(".fonio-").tempfile_in(folder) {
        // The user may change only the file, not its folder.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && before.is_some() => {
            return private::write_file(path, content);
        }
        file => file?,
    };
    file.write_all(content)?;
    match before {
        Some(before) => file.as_file().set_permissions(before.permissions())?,
        None => {
            if let Some(caller) = Caller::through_sudo() {
                caller.own(file.as_file())?;
            }
        }
    }
    file.persist(&target).map_err(|error| error.error)?;
    Ok(())
}

/// Returns whether to use colours on standard output (<https://no-color.org>).
pub fn wants_colour(colour: Colour) -> bool {
    match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => {
            io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    }
}

fn terminal_style(colour: Colour) -> TerminalStyle {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .unwrap_or_default();
    // Files and pipes always get UTF-8; a terminal gets UTF-8 only if the locale uses it.
    let unicode = !io::stdout().is_terminal() || locale.to_uppercase().replace('-', "").contains("UTF8");
    let plain = TerminalStyle::PLAIN;
    let (width, height) = (columns().unwrap_or(plain.width), lines().unwrap_or(plain.height));
    TerminalStyle { colour: wants_colour(colour), width, height, unicode, ..plain }
}

/// Returns the value of the environment variable `COLUMNS`. If `COLUMNS` is not set, returns the number of
/// columns of the terminal, or `None` if the output is not a terminal.
pub fn columns() -> Option<usize> {
    of_environment("COLUMNS").or_else(|| Some(usize::from(terminal_size::terminal_size()?.0.0)))
}

fn lines() -> Option<usize> {
    of_environment("LINES").or_else(|| Some(usize::from(terminal_size::terminal_size()?.1.0)))
}

fn of_environment(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok().filter(|number| *number > 0)
}

/// Returns a writer that wraps text to the width of the terminal and writes it to standard output.
pub fn screen() -> Fitted<io::StdoutLock<'static>> {
    Fitted::new(io::stdout().lock(), columns().map_or(usize::MAX, |columns| columns.max(WIDTH_MIN)))
}

/// Returns a writer of lines to standard error.
pub fn errors() -> Fitted<io::Stderr> {
    Fitted::new(io::stderr(), usize::MAX)
}

/// Prints a document as JSON on standard output, without wrapping lines.
pub fn json(document: &impl Serialize) -> Result<Exit> {
    json_text(serde_json::to_string_pretty(document)?.as_bytes())?;
    Ok(Exit::Fine)
}

/// Prints JSON on standard output. Characters that could command the terminal are escaped, which does not
/// change the values.
pub fn json_text(text: &[u8]) -> io::Result<()> {
    writeln!(io::stdout(), "{}", printable_json(&String::from_utf8_lossy(text)))
}

/// Prints a text on standard output without wrapping lines. Characters that could command the terminal are
/// escaped.
pub fn text(text: &str) -> io::Result<()> {
    write!(io::stdout(), "{}", printable_line(text))
}

/// Prints a question on standard error, without a line break. Characters that could command the terminal are escaped.
pub fn prompt(question: &str) -> io::Result<()> {
    let mut out = io::stderr();
    write!(out, "{}", printable(question))?;
    out.flush()
}

/// Formats a byte count in the same way as reports.
pub fn bytes(count: ByteCount) -> String {
    Unit::Bytes.format(count.0 as f64)
}

/// Returns a word as a shell needs it, in quotes only if it has letters that are special there. The word may not be the
/// first of a line, where `=` is special.
pub fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=+@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns words as the rest of a line for a shell.
pub fn joined(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_quotes_only_where_a_shell_needs_them() {
        let words = ["fix", "apply", "dirty-limit=16MiB", "/home/a b/x.db", ""].map(str::to_owned);
        assert_eq!(joined(&words), "fix apply dirty-limit=16MiB '/home/a b/x.db' ''");
    }
}
