//! Renders a report for a terminal: verdict, findings, then a short table for each question.
//!
//! The output fits the given width: columns that do not fit on a narrow terminal are omitted instead of
//! wrapped, and a line below the table names them. The caller states whether the terminal supports colour and block characters ([`TerminalStyle`]).

use std::io;

use fonio_core::{printable, printable_line};

use crate::document::{Card, Cell, Chart, Document, Fact, Plot, Scale, Section, Series, Table, Tone};
use crate::text::{shorten, shorten_all, width, wrap};

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalStyle {
    /// Whether to use colour: only on a terminal, and only if `NO_COLOR` is not set.
    pub colour: bool,
    /// Width in columns. A width below [`WIDTH_MIN`] is raised to [`WIDTH_MIN`].
    pub width: usize,
    /// Number of lines; the first screen leaves one line for the prompt.
    pub height: usize,
    /// Whether to use characters beyond ASCII.
    pub unicode: bool,
    /// Maximum number of rows of each table.
    pub rows: usize,
    /// Whether to write only the first screen: the verdict, the main findings and the next commands.
    pub first_screen: bool,
}

/// Minimum width of the layout in columns.
pub const WIDTH_MIN: usize = 40;
/// Minimum height of the first screen in lines.
const HEIGHT_MIN: usize = 16;
/// Maximum height of the first screen in lines, because a longer screen is not an overview.
const HEIGHT_MAX: usize = 41;
/// Maximum number of findings on the first screen.
const SCREEN_FINDINGS: usize = 5;

impl TerminalStyle {
    /// The style for output to a file or a pipe.
    pub const PLAIN: TerminalStyle =
        TerminalStyle { colour: false, width: 100, height: 31, unicode: true, rows: 10, first_screen: false };
}

/// Writes the document for a terminal. Returns errors of writing to `out`.
pub fn render_terminal(document: &Document, style: TerminalStyle, out: &mut dyn io::Write) -> io::Result<()> {
    let style = TerminalStyle { width: style.width.max(WIDTH_MIN), ..style };
    let mut terminal = Terminal { style, out };
    if style.first_screen { terminal.screen(document) } else { terminal.document(document) }
}

#[derive(Clone, Copy)]
enum Ink {
    Strong,
    Faint,
    Tone(Tone),
}

struct Terminal<'a> {
    style: TerminalStyle,
    out: &'a mut dyn io::Write,
}

impl Terminal<'_> {
    fn document(&mut self, document: &Document) -> io::Result<()> {
        let Document { title, subtitle, verdict, facts, opening, findings, sections, provenance, .. } =
            document;
        let symbol = self.symbol(verdict.tone);
        self.paragraph(Some(Ink::Tone(verdict.tone)), &format!("{symbol} "), &verdict.sentence)?;
        for reason in &verdict.reasons {
            self.paragraph(None, "  ", reason)?;
        }
        let title = printable(title);
        let title = if subtitle.is_empty() {
            title.into_owned()
        } else {
            format!("{title} · {}", printable(subtitle))
        };
        self.paragraph(Some(Ink::Faint), "", &self.ascii(&title))?;
        if !facts.is_empty() {
            self.line("")?;
            self.facts(facts)?;
        }
        for section in opening {
            self.section(section)?;
        }
        if !findings.is_empty() {
            self.heading("What was found")?;
            for (at, card) in findings.iter().enumerate() {
                self.card(at + 1, card)?;
            }
        }
        for section in sections {
            self.section(section)?;
        }
        if !provenance.is_empty() {
            self.heading("Where the numbers come from")?;
            self.facts(provenance)?;
        }
        Ok(())
    }

    /// Prints the verdict, the main numbers, the findings that fit, and the next commands. If the first
    /// finding does not fit, the numbers, the title, the reasons and the further commands are dropped in this
    /// order.
    fn screen(&mut self, document: &Document) -> io::Result<()> {
        let Document { title, subtitle, verdict, facts, findings, next, .. } = document;
        let mut head = self.lines(|terminal| {
            let symbol = terminal.symbol(verdict.tone);
            terminal.paragraph(Some(Ink::Tone(verdict.tone)), &format!("{symbol} "), &verdict.sentence)
        })?;
        let mut reasons = self.lines(|terminal| {
            verdict.reasons.iter().try_for_each(|reason| terminal.paragraph(None, "  ", reason))
        })?;
        let mut about = self.lines(|terminal| {
            let about: Vec<&str> =
                [title.as_str(), subtitle].into_iter().filter(|text| !text.is_empty()).collect();
            terminal.paragraph(Some(Ink::Faint), "", &about.join(" · "))
        })?;
        let mut numbers = self.lines(|terminal| {
            let facts: Vec<String> =
                facts.iter().map(|fact| format!("{} {}", fact.label, fact.value.text())).collect();
            terminal.paragraph(Some(Ink::Faint), "", &facts.join(" · "))
        })?;
        let command = |at: usize, command: &String| {
            self.lines(|terminal| {
                terminal.paragraph(None, if at == 0 { "Next: " } else { "      " }, command)
            })
        };
        let mut foot =
            next.iter().enumerate().map(|(at, line)| command(at, line)).collect::<io::Result<Vec<_>>>()?;
        let cards = findings.iter().take(SCREEN_FINDINGS).enumerate();
        let cards = cards.map(|(at, card)| self.lines(|terminal| terminal.finding(at + 1, card)));
        let cards = cards.collect::<io::Result<Vec<_>>>()?;
        // Subtract the prompt, the blank lines before the findings and before the foot, and the line with the
        // number of further findings.
        let height = self.style.height.clamp(HEIGHT_MIN, HEIGHT_MAX) - 4;
        let needed = cards.first().map_or(0, Vec::len);
        let room = |parts: [&Vec<String>; 4], foot: &[Vec<String>]| {
            let used = parts.iter().map(|part| part.len()).chain(foot.iter().map(Vec::len)).sum();
            height.checked_sub(used).filter(|room| *room >= needed)
        };
        for step in 0.. {
            if room([&head, &reasons, &about, &numbers], &foot).is_some() {
                break;
            }
            match step {
                0 => numbers.clear(),
                1 => about.clear(),
                2 => reasons.clear(),
                _ if foot.len() > 1 => drop(foot.pop()),
                _ => break,
            }
        }
        // The first finding is shown even if it does not fit.
        let mut room = room([&head, &reasons, &about, &numbers], &foot).unwrap_or(needed);
        head.extend([reasons, about, numbers].concat());
        let mut shown = 0;
        for lines in cards {
            if lines.len() > room {
                break;
            }
            room -= lines.len();
            if shown == 0 {
                head.push(String::new());
            }
            head.extend(lines);
            shown += 1;
        }
        if shown < findings.len() {
            head.push(format!("  and {} more", findings.len() - shown));
        }
        if !foot.is_empty() {
            head.push(String::new());
        }
        head.iter().chain(foot.iter().flatten()).try_for_each(|line| self.line(line))
    }

    /// Prints a finding on the first screen: the headline and the first remedy.
    fn finding(&mut self, rank: usize, card: &Card) -> io::Result<()> {
        let symbol = self.symbol(card.tone);
        self.paragraph(Some(Ink::Tone(card.tone)), &format!("{symbol} {rank}. "), &card.headline)?;
        let arrow = if self.style.unicode { "   → " } else { "   > " };
        card.remedies.first().map_or(Ok(()), |remedy| self.paragraph(None, arrow, remedy))
    }

    fn lines(&self, write: impl FnOnce(&mut Terminal<'_>) -> io::Result<()>) -> io::Result<Vec<String>> {
        let mut out = Vec::new();
        write(&mut Terminal { style: self.style, out: &mut out })?;
        Ok(String::from_utf8_lossy(&out).lines().map(str::to_owned).collect())
    }

    fn facts(&mut self, facts: &[Fact]) -> io::Result<()> {
        let widest = facts.iter().map(|fact| width(&fact.label)).max().unwrap_or(0);
        for Fact { label, value, note } in facts {
            let value = printable(&value.text()).into_owned();
            let text = if note.is_empty() { value } else { format!("{value}  ({})", printable(note)) };
            if widest + 4 > self.style.width / 2 {
                self.paragraph(None, "  ", label)?;
                self.paragraph(None, "    ", &text)?;
            } else {
                let lead = format!("  {label}{}  ", " ".repeat(widest - width(label)));
                self.paragraph(None, &lead, &text)?;
            }
        }
        Ok(())
    }

    fn card(&mut self, rank: usize, card: &Card) -> io::Result<()> {
        let symbol = self.symbol(card.tone);
        self.paragraph(Some(Ink::Tone(card.tone)), &format!("{symbol} {rank}. "), &card.headline)?;
        if !card.evidence.is_empty() {
            let evidence: Vec<String> =
                card.evidence.iter().map(|fact| format!("{} {}", fact.label, fact.value.text())).collect();
            self.paragraph(Some(Ink::Faint), "     ", &evidence.join("; "))?;
        }
        self.paragraph(None, "     ", &card.consequence)?;
        let arrow = if self.style.unicode { "   → " } else { "   > " };
        for remedy in &card.remedies {
            self.paragraph(None, arrow, remedy)?;
        }
        Ok(())
    }

    fn section(&mut self, section: &Section) -> io::Result<()> {
        self.heading(&section.question)?;
        self.paragraph(None, "", &section.answer)?;
        for figure in &section.figures {
            self.figure(figure)?;
        }
        for table in section.tables.iter().filter(|table| !table.detail) {
            self.line("")?;
            self.table(table)?;
        }
        for note in &section.notes {
            self.paragraph(Some(Ink::Faint), "  ", note)?;
        }
        Ok(())
    }

    /// Draws each series over time as a sparkline. Other charts are not drawn, because their tables show the
    /// same numbers.
    fn figure(&mut self, figure: &Chart) -> io::Result<()> {
        let over_time =
            figure.x.scale == Scale::Time && matches!(figure.plot, Plot::Line | Plot::StackedArea);
        if !over_time || !self.style.unicode {
            return Ok(());
        }
        let named: Vec<&Series> =
            figure.series.iter().filter(|series| series.y.iter().any(|y| *y > 0.0)).collect();
        if named.is_empty() {
            return Ok(());
        }
        self.line("")?;
        self.paragraph(Some(Ink::Strong), "", &format!("{} over time", figure.title))?;
        let label = named.iter().map(|series| width(&series.name)).max().unwrap_or(0);
        let label = label.min(24).min(self.style.width / 4);
        // A line consists of the name, two spaces, the sparkline, two spaces, and a text such as "max 123
        // MiB/s".
        let columns = self.style.width.saturating_sub(label + 22).clamp(8, 100);
        for series in named {
            let name = shorten(&printable(&series.name), label, self.ellipsis());
            let most = series.y.iter().copied().filter(|y| y.is_finite()).fold(0.0, f64::max);
            let pad = " ".repeat(label - width(&name));
            let spark = sparkline(&series.y, columns);
            self.line(&format!("  {name}{pad}  {spark}  max {}", figure.y.unit.format(most)))?;
        }
        Ok(())
    }

    fn table(&mut self, table: &Table) -> io::Result<()> {
        if !table.caption.is_empty() {
            self.paragraph(Some(Ink::Strong), "", &table.caption)?;
        }
        let most = if table.whole { table.rows.len() } else { self.style.rows };
        let shown = &table.rows[..table.rows.len().min(most)];
        let text: Vec<Vec<String>> =
            shown.iter().map(|row| row.iter().map(|cell| self.cell(cell)).collect()).collect();
        let labels: Vec<String> = table.columns.iter().map(|column| self.ascii(&column.label)).collect();
        let mut columns: Vec<usize> = (0..table.columns.len()).collect();
        let natural = |column: usize| {
            let cells = text.iter().map(|row| width(&row[column])).max().unwrap_or(0);
            cells.max(width(&labels[column]))
        };
        // First shorten long headings of numbers, then the longest column as far as it stays readable, then omit
        // optional columns.
        const LEAST: usize = 14;
        const LEAST_OF_PATHS: usize = 28;
        const LEAST_OF_SENTENCES: usize = 36;
        let least = |column: usize| {
            if table.is_numeric(column) {
                let cells = text.iter().map(|row| width(&row[column])).max().unwrap_or(0);
                return cells.max(LEAST);
            }
            if table.columns[column].wordy {
                return LEAST_OF_SENTENCES;
            }
            if text.iter().any(|row| row[column].starts_with('/')) { LEAST_OF_PATHS } else { LEAST }
        };
        let room = self.style.width - 2;
        let mut omitted: Vec<usize> = Vec::new();
        let mut widths: Vec<usize>;
        loop {
            widths = columns.iter().map(|&column| natural(column)).collect();
            let mut excess =
                (widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)).saturating_sub(room);
            while excess > 0 {
                let flexible = columns.iter().enumerate().filter(|&(at, &column)| widths[at] > least(column));
                let Some((at, _)) = flexible.max_by_key(|&(at, _)| widths[at]) else { break };
                widths[at] -= 1;
                excess -= 1;
            }
            if excess == 0 {
                break;
            }
            match columns.iter().rposition(|&column| table.columns[column].optional) {
                Some(at) => omitted.push(columns.remove(at)),
                None if columns.len() > 2 => omitted.extend(columns.pop()),
                None => {
                    // If two columns are too long, only the longer column is shortened.
                    while excess > 0 {
                        let Some(longest) = widths.iter_mut().max() else { break };
                        *longest = longest.saturating_sub(1);
                        excess -= 1;
                    }
                    break;
                }
            }
        }
        let ellipsis = self.ellipsis();
        let all_labels: Vec<&str> = columns.iter().map(|&column| labels[column].as_str()).collect();
        let narrowest = |texts: &[&str], at: usize| {
            // Headings that differ in different columns must stay different, too.
            shorten_all(texts, widths[at], ellipsis, false)[at].clone()
        };
        let heads: Vec<String> = (0..columns.len()).map(|at| narrowest(&all_labels, at)).collect();
        let cells: Vec<Vec<String>> = columns
            .iter()
            .zip(&widths)
            .map(|(&column, &width)| {
                let cells: Vec<&str> = text.iter().map(|row| row[column].as_str()).collect();
                shorten_all(&cells, width, ellipsis, table.columns[column].wordy)
            })
            .collect();
        let set = |text: &str, at: usize, column: usize| {
            let pad = " ".repeat(widths[at] - width(text));
            if table.is_numeric(column) { format!("{pad}{text}") } else { format!("{text}{pad}") }
        };
        let head: Vec<String> =
            columns.iter().enumerate().map(|(at, &column)| set(&heads[at], at, column)).collect();
        let head = self.inked(Some(Ink::Faint), head.join("  ").trim_end());
        self.line(&format!("  {head}"))?;
        for (row, of_row) in shown.iter().enumerate() {
            let mut line = Vec::new();
            for (at, &column) in columns.iter().enumerate() {
                let set = set(&cells[at][row], at, column);
                line.push(match &of_row[column] {
                    Cell::Judgement(tone, _) => self.inked(Some(Ink::Tone(*tone)), &set),
                    Cell::Unknown => self.inked(Some(Ink::Faint), &set),
                    _ => set,
                });
            }
            self.line(format!("  {}", line.join("  ")).trim_end())?;
        }
        let hidden = (table.rows.len() - shown.len()) as u64 + table.left_out;
        if hidden > 0 {
            self.paragraph(
                Some(Ink::Faint),
                "  ",
                &format!("and {} more", fonio_core::Unit::Count.format(hidden as f64)),
            )?;
        }
        if !omitted.is_empty() {
            omitted.sort_unstable();
            let names: Vec<&str> = omitted.iter().map(|&column| labels[column].as_str()).collect();
            let said = format!("Too narrow for: {}", names.join(", "));
            self.paragraph(Some(Ink::Faint), "  ", &said)?;
        }
        Ok(())
    }

    fn heading(&mut self, text: &str) -> io::Result<()> {
        self.line("")?;
        self.paragraph(Some(Ink::Strong), "", text)
    }

    /// Wraps text after `lead`; continuation lines are indented like the first line.
    fn paragraph(&mut self, ink: Option<Ink>, lead: &str, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let indent = width(lead);
        for (at, line) in wrap(&self.ascii(&printable(text)), self.style.width.saturating_sub(indent).max(20))
            .iter()
            .enumerate()
        {
            let before = if at == 0 { lead.to_owned() } else { " ".repeat(indent) };
            // A verdict or a finding starts with a coloured symbol.
            let line = self.inked(ink, line);
            let before = if at == 0 {
                self.inked(ink.filter(|ink| matches!(ink, Ink::Tone(_))), &before)
            } else {
                before
            };
            self.line(format!("{before}{line}").trim_end())?;
        }
        Ok(())
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", printable_line(text))
    }

    fn inked(&self, ink: Option<Ink>, text: &str) -> String {
        let code = match ink {
            Some(Ink::Strong) => "1",
            Some(Ink::Faint) => "2",
            Some(Ink::Tone(Tone::Good)) => "1;32",
            Some(Ink::Tone(Tone::Plain)) => "1",
            Some(Ink::Tone(Tone::Notice)) => "1;33",
            Some(Ink::Tone(Tone::Bad)) => "1;31",
            None => return text.to_owned(),
        };
        if !self.style.colour || text.trim().is_empty() {
            return text.to_owned();
        }
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Returns the text of a cell. If the terminal can draw bars, a share has a bar before its number.
    fn cell(&self, cell: &Cell) -> String {
        let text = self.ascii(&printable(&cell.text()));
        match cell {
            Cell::Bar(share) if self.style.unicode => format!("{} {text:>6}", bar(*share)),
            _ => text,
        }
    }

    fn ellipsis(&self) -> char {
        if self.style.unicode { '…' } else { '~' }
    }

    fn symbol(&self, tone: Tone) -> &'static str {
        match (tone, self.style.unicode) {
            (Tone::Good, true) => "✓",
            (Tone::Plain, true) => "•",
            (Tone::Notice, true) => "▲",
            (Tone::Bad, true) => "✗",
            (Tone::Good, false) => "+",
            (Tone::Plain, false) => "-",
            (Tone::Notice, false) => "!",
            (Tone::Bad, false) => "X",
        }
    }

    /// Replaces fonio's typographic characters with ASCII if the terminal requires it. Names from the
    /// recording are not changed.
    fn ascii(&self, text: &str) -> String {
        if self.style.unicode {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '–' | '—' => out.push('-'),
                '…' => out.push_str("..."),
                'µ' => out.push('u'),
                '×' => out.push('x'),
                '·' => out.push('|'),
                '→' => out.push_str("->"),
                '≤' => out.push_str("<="),
                '≥' => out.push_str(">="),
                '°' => {}
                '’' => out.push('\''),
                c => out.push(c),
            }
        }
        out
    }
}

/// Draws a share as a bar of eight characters, each divided into eight steps.
fn bar(share: f64) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * 64.0).round() as usize;
    let mut out = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        out.push(PARTS[eighths % 8]);
    }
    let drawn = eighths.div_ceil(8);
    out + &" ".repeat(8 - drawn)
}

/// Draws `values` as a sparkline: `columns` characters of eight heights. If several values share a character,
/// the character shows their maximum, because peaks matter.
pub(crate) fn sparkline(values: &[f64], columns: usize) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let columns = columns.min(values.len());
    (0..columns)
        .map(|at| {
            let part = &values[at * values.len() / columns..(at + 1) * values.len() / columns];
            let peak = part.iter().copied().filter(|value| value.is_finite()).fold(f64::NAN, f64::max);
            if peak.is_nan() {
                ' '
            } else if most <= 0.0 || peak <= 0.0 {
                HEIGHTS[0]
            } else {
                // A value above zero is drawn at least one step high.
                HEIGHTS[((peak / most * 7.0).round() as usize).clamp(1, 7)]
            }
        })
        .collect()
}
