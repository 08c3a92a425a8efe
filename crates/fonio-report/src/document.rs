//! Defines a report before it is rendered.
//!
//! A document is built once and passed to a renderer. Each section answers a question in the user's words.
//! Each chart comes with a table, so no information depends only on colour.

use fonio_core::{ByteCount, Nanos, Unit};

/// A report: the verdict, the first questions, the findings, then all other questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The title: the name of the recording, or the recorded command.
    pub title: String,
    /// The line below the title: machine, device, duration.
    pub subtitle: String,
    /// The answer to the question "is storage my problem?".
    pub verdict: Verdict,
    /// The most important numbers of the report.
    pub facts: Vec<Fact>,
    /// The sections before the findings. In a report on fixes, these sections show the effect of each fix.
    pub opening: Vec<Section>,
    /// The findings, with the costliest one first.
    pub findings: Vec<Card>,
    /// The sections after the findings.
    pub sections: Vec<Section>,
    /// Terms that the report uses, with their definitions.
    pub terms: Vec<Term>,
    /// Where the numbers come from: machine, kernel, source, lost events.
    pub provenance: Vec<Fact>,
    /// Commands to run next, for the first screen of a terminal.
    pub next: Vec<String>,
}

/// The severity of a statement. The severity determines the colour and the symbol, but never the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Good: there is nothing to do.
    Good,
    /// Neutral: neither good nor bad.
    #[default]
    Plain,
    /// Notice: it deserves attention.
    Notice,
    /// Bad: it costs the user something.
    Bad,
}

/// The result of the report in one sentence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The severity of the result.
    pub tone: Tone,
    /// The sentence that states the result.
    pub sentence: String,
    /// Further sentences about the result.
    pub reasons: Vec<String>,
}

/// A value with a label and an explanation.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The label of the value.
    pub label: String,
    /// The value of the fact.
    pub value: Cell,
    /// An explanation of the value; empty if the label is sufficient.
    pub note: String,
}

/// A finding, with its evidence, its consequence and its remedies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Card {
    /// A stable name for links to the finding.
    pub id: String,
    /// The severity of the finding.
    pub tone: Tone,
    /// The statement of the finding in one sentence.
    pub headline: String,
    /// The numbers that support the finding.
    pub evidence: Vec<Fact>,
    /// What the finding costs the user.
    pub consequence: String,
    /// The remedies for the finding, one sentence each.
    pub remedies: Vec<String>,
    /// The study, specification or kernel file behind the rule; empty if the rule is our own.
    pub source: String,
}

/// A section of the report: a question and its answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// A stable name for links to the section.
    pub id: String,
    /// The question of the section, in the user's words.
    pub question: String,
    /// The answer to the question, in one sentence.
    pub answer: String,
    /// The charts of the section.
    pub figures: Vec<Chart>,
    /// The tables of the section.
    pub tables: Vec<Table>,
    /// Explanations of the section's charts and tables, and their limits.
    pub notes: Vec<String>,
    /// Hints for using the section in an interactive page.
    pub hints: Vec<String>,
}

/// A table of a section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The caption above the table.
    pub caption: String,
    /// The columns of the table.
    pub columns: Vec<Column>,
    /// The rows of the table. Each row has a cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Number of further rows that the analysis left out.
    pub left_out: u64,
    /// Whether the table contains only details. Renderers that cannot fold a table omit it.
    pub detail: bool,
    /// Whether short reports also show all rows of the table.
    pub whole: bool,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// The heading of the column.
    pub label: String,
    /// An explanation of the column; empty if the heading is sufficient.
    pub note: String,
    /// Whether renderers can omit the column if space is short.
    pub optional: bool,
    /// Whether this column names the row's owner: a unit, process or file. An HTML page can show the rows of
    /// a single owner.
    pub whose: bool,
    /// Whether the column has long text, such as SQL statements. The start of the text matters most and needs
    /// more space.
    pub wordy: bool,
}

/// The content of a table cell or of a fact.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// An unknown value, because the trace does not show it.
    #[default]
    Unknown,
    /// Text that fonio has written.
    Text(String),
    /// A name from the recording: a path, a thread, a device. The name is untrusted, so every renderer
    /// escapes it.
    Name(String),
    /// A number with its unit.
    Number(f64, Unit),
    /// A lower bound: the true number may be greater.
    AtLeast(f64, Unit),
    /// A change of a value, shown with its sign.
    Change(f64, Unit),
    /// A share of the column's total; it can be drawn as a bar.
    Bar(f64),
    /// An interval, with a point estimate if there is one.
    Range {
        /// The lower end of the interval.
        low: f64,
        /// The best estimate, if there is one.
        point: Option<f64>,
        /// The upper end of the interval.
        high: f64,
        /// The unit of the limits and of the point estimate.
        unit: Unit,
        /// Whether the values are changes, shown with signs.
        change: bool,
    },
    /// A rating in words: "faster", "no difference".
    Judgement(Tone, String),
}

/// A term of the report and its definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Term {
    /// The word that is defined.
    pub name: String,
    /// What the term means in this report.
    pub definition: String,
}

/// A chart of a section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// The chart's stable name, which is unique in the document.
    pub id: String,
    /// The title of the chart.
    pub title: String,
    /// A sentence on how to read the chart.
    pub caption: String,
    /// How the chart draws its series.
    pub plot: Plot,
    /// The horizontal axis of the chart.
    pub x: Axis,
    /// The vertical axis of the chart.
    pub y: Axis,
    /// The axis for the colour (`z`) of a heat scatter.
    pub z: Option<Axis>,
    /// The data of the chart.
    pub series: Vec<Series>,
    /// Points, spans and levels that are marked in the chart.
    pub marks: Vec<Mark>,
}

/// How a chart draws its series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plot {
    /// A line through the points of each series.
    #[default]
    Line,
    /// Areas that are stacked on each other.
    StackedArea,
    /// Steps: each value is valid until the next value. This plot is used for distributions and counters.
    Step,
    /// Stacked bars, one bar for each category of the x axis.
    StackedBar,
    /// For each category, bars side by side.
    GroupedBar,
    /// Dots, for up to about ten thousand points.
    Scatter,
    /// Dots whose colour shows a third number (the series' `z`).
    HeatScatter,
    /// Intervals, one row for each category of the **y** axis: `x` is the point estimate; `low` and `high`
    /// are the ends.
    Interval,
    /// Spans of time, one row for each category of the **y** axis: `x` is the length; `low` and `high` are
    /// the ends.
    Timeline,
}

/// An axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity that the axis shows.
    pub label: String,
    /// The unit of the axis.
    pub unit: Unit,
    /// The scale of the axis.
    pub scale: Scale,
    /// The lower and upper end of the axis; if `None`, they are derived from the data.
    pub bounds: Option<(f64, f64)>,
}

/// How an axis maps values to positions.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Scale {
    /// A linear scale.
    #[default]
    Linear,
    /// A logarithmic scale.
    Log,
    /// Recording time on a linear scale. All axes with this scale zoom together.
    Time,
    /// Recording time like `Time`, shown as wall-clock time. The number is the wall-clock time at the axis
    /// value 0, in seconds since 1970, as if the local time zone were UTC.
    Clock(i64),
    /// Categories in the given order.
    Categories(Vec<String>),
}

/// A series of points in a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The name of the series in the legend.
    pub name: String,
    /// What the series represents, which determines its colour.
    pub role: Role,
    /// The x values of the points, or their indexes into the categories.
    pub x: Vec<f64>,
    /// The y values of the points, one for each value of `x`. Missing values are NaN.
    pub y: Vec<f64>,
    /// The third number of each point in a heat scatter; otherwise empty.
    pub z: Vec<f64>,
    /// The lower ends of intervals, one for each value of `x`; empty for other plots.
    pub low: Vec<f64>,
    /// The upper ends of the intervals around the points; `low` has the lower ends.
    pub high: Vec<f64>,
}

/// What a series represents. Series with the same role have the same colour throughout the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Read requests.
    Read,
    /// Readahead requests.
    Readahead,
    /// Synchronous writes, or all writes.
    Write,
    /// Write-back of the page cache.
    WriteAsync,
    /// Flush requests.
    Flush,
    /// Discard requests.
    Discard,
    /// All requests together.
    #[default]
    All,
    /// Everything that no other series covers.
    Rest,
    /// The series with this number among several series of equal rank.
    Category(usize),
    /// The first recording of a comparison.
    Before,
    /// The other recording of a comparison.
    After,
}

/// A mark that is drawn in a chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A marked point on the x axis.
    AtX {
        /// The position on the x axis.
        x: f64,
        /// The label of the point.
        label: String,
    },
    /// A marked span of the x axis.
    SpanX {
        /// The start of the span.
        from: f64,
        /// The end of the span.
        to: f64,
        /// The label of the span.
        label: String,
    },
    /// A marked level of the y axis.
    AtY {
        /// The position on the y axis.
        y: f64,
        /// The label of the level.
        label: String,
    },
}

impl Cell {
    /// Returns the text of the cell, which is the same in every renderer.
    pub fn text(&self) -> String {
        match self {
            Cell::Unknown => "–".to_owned(),
            Cell::Text(text) | Cell::Name(text) | Cell::Judgement(_, text) => text.clone(),
            Cell::Number(value, unit) => unit.format(*value),
            Cell::AtLeast(value, unit) => format!("at least {}", unit.format(*value)),
            Cell::Change(value, unit) => unit.format_change(*value),
            Cell::Bar(share) => Unit::Share.format(*share),
            Cell::Range { low, point, high, unit, change } => {
                let write = |value: f64| if *change { unit.format_change(value) } else { unit.format(value) };
                match point {
                    Some(point) => format!("{} ({} … {})", write(*point), write(*low), write(*high)),
                    None => format!("{} … {}", write(*low), write(*high)),
                }
            }
        }
    }

    /// Returns the sort key of the cell, if it is a number.
    pub fn sort_key(&self) -> Option<f64> {
        match self {
            Cell::Number(value, _) | Cell::AtLeast(value, _) | Cell::Change(value, _) | Cell::Bar(value) => {
                Some(*value)
            }
            Cell::Range { low, point, high, .. } => Some(point.unwrap_or((low + high) / 2.0)),
            Cell::Unknown | Cell::Text(_) | Cell::Name(_) | Cell::Judgement(..) => None,
        }
    }

    /// Returns whether the cell is aligned right, like numbers.
    pub fn is_numeric(&self) -> bool {
        self.sort_key().is_some()
    }

    /// Creates a cell with text that fonio has written.
    pub fn words(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// Creates a cell with a number that may be unknown.
    pub fn known<N: Into<f64>>(value: Option<N>, unit: Unit) -> Cell {
        value.map_or(Cell::Unknown, |value| Cell::Number(value.into(), unit))
    }

    /// Creates a cell with a 64-bit count or length, which is rounded to `f64`.
    pub fn count(value: u64, unit: Unit) -> Cell {
        Cell::Number(value as f64, unit)
    }
}

impl From<Nanos> for Cell {
    fn from(time: Nanos) -> Cell {
        Cell::count(time.0, Unit::Ns)
    }
}

impl From<ByteCount> for Cell {
    fn from(size: ByteCount) -> Cell {
        Cell::count(size.0, Unit::Bytes)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Unknown, T::into)
    }
}

/// A table with one row for each item, to which columns are added.
#[derive(Clone, Debug)]
pub struct Filled<T> {
    /// The table with the columns added so far.
    pub table: Table,
    items: Vec<T>,
}

impl<T> Filled<T> {
    /// Adds a column with its note, which can be empty. `cell` returns the column's cell for an item.
    pub fn column<C: Into<Cell>>(mut self, label: &str, note: &str, cell: impl Fn(&T) -> C) -> Filled<T> {
        self.table.columns.push(Column::noted(label, note));
        self.table.rows.iter_mut().zip(&self.items).for_each(|(row, item)| row.push(cell(item).into()));
        self
    }

    /// Marks the last column as one that renderers may omit for lack of space.
    pub fn or_drop(self) -> Filled<T> {
        self.changed(Column::or_drop)
    }

    /// Marks the last column as the one that names the row's owner.
    pub fn whose(self) -> Filled<T> {
        self.changed(Column::whose)
    }

    fn changed(mut self, change: fn(Column) -> Column) -> Filled<T> {
        let last = self.table.columns.pop().expect("a column was added");
        self.table.columns.push(change(last));
        self
    }
}

impl Table {
    /// Creates a table with a row for each item, but without columns.
    pub fn of<T>(caption: &str, items: impl IntoIterator<Item = T>) -> Filled<T> {
        let items: Vec<T> = items.into_iter().collect();
        let rows = vec![Vec::new(); items.len()];
        Filled { table: Table { caption: caption.to_owned(), rows, ..Table::default() }, items }
    }

    /// Returns whether the column is numeric: at least one cell is a number, and all cells without a number
    /// are unknown.
    pub fn is_numeric(&self, column: usize) -> bool {
        let mut known =
            self.rows.iter().map(|row| &row[column]).filter(|cell| **cell != Cell::Unknown).peekable();
        known.peek().is_some() && known.all(Cell::is_numeric)
    }
}

impl Column {
    /// Creates a column without an explanation.
    pub fn new(label: &str) -> Column {
        Column { label: label.to_owned(), ..Column::default() }
    }

    /// Creates a column with an explanation.
    pub fn noted(label: &str, note: &str) -> Column {
        Column { label: label.to_owned(), note: note.to_owned(), ..Column::default() }
    }

    /// Marks the column as one that renderers may omit if space is short.
    pub fn or_drop(self) -> Column {
        Column { optional: true, ..self }
    }

    /// Marks the column as one with long text.
    pub fn wordy(self) -> Column {
        Column { wordy: true, ..self }
    }

    /// Marks the column as the one that names the row's owner.
    pub fn whose(self) -> Column {
        Column { whose: true, ..self }
    }
}

impl Fact {
    /// Creates a value with a label and without an explanation.
    pub fn new(label: &str, value: impl Into<Cell>) -> Fact {
        Fact { label: label.to_owned(), value: value.into(), note: String::new() }
    }

    /// Adds an explanation to the value.
    pub fn note(self, note: impl Into<String>) -> Fact {
        Fact { note: note.into(), ..self }
    }
}

impl Default for Axis {
    fn default() -> Axis {
        Axis::linear("", Unit::Number)
    }
}

impl Axis {
    /// Creates a linear axis.
    pub fn linear(label: &str, unit: Unit) -> Axis {
        Axis { label: label.to_owned(), unit, scale: Scale::Linear, bounds: None }
    }

    /// Creates a logarithmic axis.
    pub fn log(label: &str, unit: Unit) -> Axis {
        Axis { scale: Scale::Log, ..Axis::linear(label, unit) }
    }

    /// Creates an axis of recording time, in seconds since the recording began.
    pub fn time(length_s: f64) -> Axis {
        Axis { scale: Scale::Time, bounds: Some((0.0, length_s)), ..Axis::linear("Time", Unit::S) }
    }

    /// Creates a wall-clock axis between two times, in seconds since 1970, as if the local time zone were
    /// UTC. Axis values are seconds since [`Axis::clock_zero`] of `from`.
    pub fn clock(from: i64, to: i64) -> Axis {
        let zero = Axis::clock_zero(from);
        let bounds = ((from - zero) as f64, (to - zero) as f64);
        Axis { scale: Scale::Clock(zero), bounds: Some(bounds), ..Axis::linear("Time", Unit::S) }
    }

    /// Returns the wall-clock time at the value 0 of an axis that begins at `from`: the midnight before
    /// `from`, so that ticks fall on full hours.
    pub fn clock_zero(from: i64) -> i64 {
        from - from.rem_euclid(86_400)
    }

    /// Creates an axis with these categories.
    pub fn categories(label: &str, names: Vec<String>) -> Axis {
        Axis { scale: Scale::Categories(names), ..Axis::linear(label, Unit::Number) }
    }
}
