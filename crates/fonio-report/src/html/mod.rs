//! Renders a report as HTML: one file that opens anywhere, sends no network requests, and is readable without
//! its script.
//!
//! Untrusted text (thread names, paths, devices) is escaped by one type, `escape::Escaped`. The data of the
//! charts are in `application/json` blocks that never contain `<`. In case an escape is missing, the page's
//! content security policy also forbids all requests.

mod escape;
mod figure;
mod prose;

use std::fmt;
use std::io;

use crate::document::{Card, Cell, Document, Fact, Section, Table, Tone};
use escape::Escaped;
use prose::Prose;

const SCRIPT: &str = include_str!("../../web/dist/report.js");
const STYLE: &str = include_str!("../../web/dist/report.css");

/// Forbids requests, frames and forms, but allows the page's inline script and style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; \
                      base-uri 'none'; form-action 'none'";

/// Writes the document as one self-contained HTML file. Returns errors of writing to `out`.
pub fn render_html(document: &Document, out: &mut dyn io::Write) -> io::Result<()> {
    write!(out, "{}", Page { document, prose: Prose::new(&document.terms) })
}

struct Page<'a> {
    document: &'a Document,
    prose: Prose<'a>,
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Document { title, subtitle, opening, findings, sections, .. } = self.document;
        write!(
            f,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n\
             <title>{} – fonio</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#main\">Skip to the verdict</a>\n",
            Escaped(title)
        )?;
        write!(
            f,
            "<header class=\"top\"><span class=\"brand\">fonio</span><span class=\"what\">{}{}{}</span>\
             <button id=\"unzoom\" type=\"button\" hidden>Show all of the time</button>\
             <button id=\"theme\" type=\"button\" hidden>◐</button></header>\n<div class=\"page\">\n",
            Escaped(title),
            if subtitle.is_empty() { "" } else { " · " },
            Escaped(subtitle)
        )?;
        self.contents(f)?;
        f.write_str("<main id=\"main\">\n")?;
        self.verdict(f)?;
        for section in opening {
            self.section(f, section)?;
        }
        if !findings.is_empty() {
            f.write_str("<section class=\"findings\" id=\"findings\"><h2>What was found</h2>\n")?;
            for (at, card) in findings.iter().enumerate() {
                self.card(f, at + 1, card)?;
            }
            f.write_str("</section>\n")?;
        }
        for section in sections {
            self.section(f, section)?;
        }
        self.reference(f)?;
        f.write_str("</main>\n</div>\n<script>")?;
        f.write_str(SCRIPT)?;
        f.write_str("</script>\n</body>\n</html>\n")
    }
}

impl Page<'_> {
    fn contents(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<nav class=\"contents\" aria-label=\"Contents\"><p>Questions</p><ol>")?;
        let entry = |f: &mut fmt::Formatter<'_>, id: &str, label: &str| {
            write!(f, "<li><a href=\"#{}\">{}</a></li>", Escaped(id), Escaped(label))
        };
        entry(f, "verdict", "Verdict")?;
        for section in &self.document.opening {
            entry(f, &section.id, &section.question)?;
        }
        if !self.document.findings.is_empty() {
            entry(f, "findings", "What was found")?;
        }
        for section in &self.document.sections {
            entry(f, &section.id, &section.question)?;
        }
        if !self.document.terms.is_empty() {
            entry(f, "terms", "Definitions")?;
        }
        if !self.document.provenance.is_empty() {
            entry(f, "provenance", "Where the numbers come from")?;
        }
        f.write_str("</ol></nav>\n")
    }

    fn verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = &self.document.verdict;
        writeln!(
            f,
            "<section class=\"verdict\" id=\"verdict\" data-tone=\"{}\"><p class=\"kicker\">{}</p><h1>{}</h1>",
            tone_name(verdict.tone),
            match verdict.tone {
                Tone::Good => "Nothing to do",
                Tone::Plain => "Verdict",
                Tone::Notice => "Worth a look",
                Tone::Bad => "Needs attention",
            },
            self.prose.plain(&verdict.sentence)
        )?;
        self.list(f, "", &verdict.reasons)?;
        f.write_str("</section>\n")?;
        if !self.document.facts.is_empty() {
            f.write_str("<dl class=\"facts\">")?;
            for fact in &self.document.facts {
                write!(
                    f,
                    "<div><dt>{}</dt><dd>{}</dd>",
                    self.prose.marked(&fact.label),
                    Escaped(&fact.value.text())
                )?;
                if !fact.note.is_empty() {
                    write!(f, "<dd class=\"note\">{}</dd>", Escaped(&fact.note))?;
                }
                f.write_str("</div>")?;
            }
            f.write_str("</dl>\n")?;
        }
        f.write_str(
            "<noscript><p class=\"noscript\">The charts need the page's own script, which is switched off here. \
             Every number is in the tables too.</p></noscript>\n",
        )
    }

    fn card(&self, f: &mut fmt::Formatter<'_>, rank: usize, card: &Card) -> fmt::Result {
        write!(
            f,
            "<article class=\"card\" id=\"finding-{}\" data-tone=\"{}\"><h3><span class=\"rank\">{rank}</span>{}</h3>\
             <div class=\"parts\"><div><h4>Evidence</h4>",
            Escaped(&card.id),
            tone_name(card.tone),
            self.prose.plain(&card.headline)
        )?;
        if card.evidence.is_empty() {
            f.write_str("<p>–</p>")?;
        } else {
            f.write_str("<dl>")?;
            for Fact { label, value, .. } in &card.evidence {
                write!(
                    f,
                    "<div><dt>{}</dt><dd>{}</dd></div>",
                    self.prose.plain(label),
                    Escaped(&value.text())
                )?;
            }
            f.write_str("</dl>")?;
        }
        write!(f, "</div><div><h4>What it costs</h4><p>{}</p></div>", self.prose.marked(&card.consequence))?;
        if !card.remedies.is_empty() {
            f.write_str("<div><h4>What to do</h4>")?;
            self.list(f, "", &card.remedies)?;
            f.write_str("</div>")?;
        }
        f.write_str("</div>")?;
        if !card.source.is_empty() {
            write!(f, "<p class=\"source\">Rests on {}</p>", Escaped(&card.source))?;
        }
        f.write_str("</article>\n")
    }

    fn section(&self, f: &mut fmt::Formatter<'_>, section: &Section) -> fmt::Result {
        let id = Escaped(&section.id);
        writeln!(
            f,
            "<section class=\"question\" id=\"{id}\"><h2><a href=\"#{id}\">{}</a></h2><p class=\"answer\">{}</p>",
            Escaped(&section.question),
            self.prose.marked(&section.answer)
        )?;
        if !section.figures.is_empty() {
            f.write_str("<div class=\"figures\">\n")?;
            for figure in &section.figures {
                figure::write(f, figure)?;
            }
            f.write_str("</div>\n")?;
        }
        for table in &section.tables {
            self.table(f, table)?;
        }
        self.list(f, "notes", &section.notes)?;
        self.list(f, "notes hints", &section.hints)?;
        f.write_str("</section>\n")
    }

    fn table(&self, f: &mut fmt::Formatter<'_>, table: &Table) -> fmt::Result {
        write!(
            f,
            "<div class=\"tabled\"><div class=\"scroll\"><table class=\"data\"><caption>{}</caption><thead><tr>",
            Escaped(&table.caption)
        )?;
        let numeric: Vec<bool> = (0..table.columns.len()).map(|column| table.is_numeric(column)).collect();
        for (column, numeric) in table.columns.iter().zip(&numeric) {
            let class = if *numeric { " class=\"num\"" } else { "" };
            let class = if column.whose { format!("{class} data-whose") } else { class.to_owned() };
            if column.note.is_empty() {
                write!(f, "<th scope=\"col\"{class}>{}</th>", self.prose.marked(&column.label))?;
            } else {
                write!(
                    f,
                    "<th scope=\"col\"{class}><span class=\"term\" title=\"{}\">{}</span></th>",
                    Escaped(&column.note),
                    Escaped(&column.label)
                )?;
            }
        }
        f.write_str("</tr></thead><tbody>\n")?;
        for row in &table.rows {
            f.write_str("<tr>")?;
            for (cell, numeric) in row.iter().zip(&numeric) {
                write_cell(f, cell, *numeric)?;
            }
            f.write_str("</tr>\n")?;
        }
        f.write_str("</tbody></table></div>")?;
        if table.left_out > 0 {
            write!(f, "<p class=\"more\">{} more rows are left out here.</p>", table.left_out)?;
        }
        f.write_str("</div>\n")
    }

    fn reference(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.document.terms.is_empty() {
            f.write_str("<section class=\"reference\" id=\"terms\"><h2>Definitions</h2><dl>")?;
            for term in &self.document.terms {
                write!(f, "<dt>{}</dt><dd>{}</dd>", Escaped(&term.name), Escaped(&term.definition))?;
            }
            f.write_str("</dl></section>\n")?;
        }
        if !self.document.provenance.is_empty() {
            f.write_str(
                "<section class=\"reference\" id=\"provenance\"><h2>Where the numbers come from</h2><dl>",
            )?;
            for Fact { label, value, note } in &self.document.provenance {
                write!(f, "<dt>{}</dt><dd>{}", Escaped(label), Escaped(&value.text()))?;
                if !note.is_empty() {
                    write!(f, " <span class=\"note\">{}</span>", Escaped(note))?;
                }
                f.write_str("</dd>")?;
            }
            f.write_str("</dl></section>\n")?;
        }
        Ok(())
    }

    fn list(&self, f: &mut fmt::Formatter<'_>, class: &str, sentences: &[String]) -> fmt::Result {
        if sentences.is_empty() {
            return Ok(());
        }
        match class {
            "" => f.write_str("<ul>")?,
            class => write!(f, "<ul class=\"{class}\">")?,
        }
        for sentence in sentences {
            write!(f, "<li>{}</li>", self.prose.marked(sentence))?;
        }
        f.write_str("</ul>\n")
    }
}

/// Cells of at least this many bytes get a minimum width. Without a minimum width, a long cell in a narrow
/// column would make its row higher than the screen.
const PROSE_FROM: usize = 48;

fn write_cell(f: &mut fmt::Formatter<'_>, cell: &Cell, numeric: bool) -> fmt::Result {
    let class = match (cell, numeric) {
        (Cell::Unknown, true) => "num unknown",
        (Cell::Unknown, false) => "unknown",
        (Cell::Bar(_), _) => "num bar",
        (Cell::Name(_), _) => "name",
        (Cell::Text(text), false) if text.len() >= PROSE_FROM => "prose",
        (_, true) => "num",
        (_, false) => "",
    };
    f.write_str("<td")?;
    if !class.is_empty() {
        write!(f, " class=\"{class}\"")?;
    }
    if let Some(key) = cell.sort_key().filter(|key| key.is_finite()) {
        write!(f, " data-v=\"{key}\"")?;
    }
    if let Cell::Bar(share) = cell {
        write!(f, " style=\"--w:{:.1}%\"", (share * 100.0).clamp(0.0, 100.0))?;
    }
    match cell {
        Cell::Unknown => f.write_str(" aria-label=\"unknown\">–</td>"),
        Cell::Judgement(tone, text) => {
            write!(
                f,
                " data-tone=\"{}\"><span class=\"judge\">{}</span></td>",
                tone_name(*tone),
                Escaped(text)
            )
        }
        cell => write!(f, ">{}</td>", Escaped(&cell.text())),
    }
}

fn tone_name(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Plain => "plain",
        Tone::Notice => "notice",
        Tone::Bad => "bad",
    }
}
