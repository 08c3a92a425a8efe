//! A report before it is rendered.
//!
//! A document is built once and passed to a renderer. Each section answers a question in the user's words.
//! Its charts always come with a table, so that no information depends on colour alone.

use fonio_core::Unit;

/// A report: the verdict, the first questions, the findings, then all other questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The subject: the name of the recording, or the command that was recorded.
    pub title: String,
    /// One line below the title: machine, device, duration.
    pub subtitle: String,
    /// The answer to "is storage my problem?".
    pub verdict: Verdict,
    /// The most important numbers.
    pub facts: Vec<Fact>,
    /// Sections before the findings; in a report on fixes, which of them helped.
    pub opening: Vec<Section>,
    /// The findings, the costliest first.
    pub findings: Vec<Card>,
    /// All other sections.
    pub sections: Vec<Section>,
    /// Terms of the report with their definitions.
    pub terms: Vec<Term>,
    /// The origin of the numbers: machine, kernel, source, lost events.
    pub provenance: Vec<Fact>,
    /// The next commands, for the first screen of a terminal.
    pub next: Vec<String>,
}

/// How good or bad a statement is. It determines a colour and a symbol, never the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing to do.
    Good,
    /// Neither good nor bad.
    #[default]
    Plain,
    /// Deserves attention.
    Notice,
    /// Costs the user something.
    Bad,
}

/// The report in one sentence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// How good it is.
    pub tone: Tone,
    /// The sentence.
    pub sentence: String,
    /// Further sentences about it.
    pub reasons: Vec<String>,
}

/// A named value.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The name of the value.
    pub label: String,
    /// The value.
    pub value: Cell,
    /// How to read it; empty if the label is sufficient.
    pub note: String,
}

/// A finding: evidence, consequence, remedies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Card {
    /// Stable name, for links.
    pub id: String,
    /// How bad it is.
    pub tone: Tone,
    /// The finding in one sentence.
    pub headline: String,
    /// The numbers that show it.
    pub evidence: Vec<Fact>,
    /// The cost for the user.
    pub consequence: String,
    /// The remedies, one sentence each.
    pub remedies: Vec<String>,
    /// The study, specification or kernel file behind the rule; empty if the rule is our own.
    pub source: String,
}

/// A question and its answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Stable name, for links.
    pub id: String,
    /// The question as users ask it: "Which I/O costs the time?"
    pub question: String,
    /// The answer in one sentence.
    pub answer: String,
    /// The charts.
    pub figures: Vec<Chart>,
    /// The tables.
    pub tables: Vec<Table>,
    /// How to read charts and tables, and what they do not show.
    pub notes: Vec<String>,
    /// How to use an interactive page.
    pub hints: Vec<String>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The caption.
    pub caption: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; each has a cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// Number of further rows that the analysis left out.
    pub left_out: u64,
    /// Whether it only contains details; renderers that cannot fold it omit it.
    pub detail: bool,
    /// Whether all rows are shown even in short reports.
    pub whole: bool,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// The heading.
    pub label: String,
    /// The meaning, if the heading is not sufficient.
    pub note: String,
    /// Whether renderers may omit it for lack of space.
    pub optional: bool,
    /// Whether it says whose the row is: its unit, process or file. A page can show only some of them.
    pub whose: bool,
    /// Whether it has sentences, such as SQL statements: their beginning says most, and needs more space.
    pub wordy: bool,
}

/// The content of a cell or a fact.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// The source does not show it.
    #[default]
    Unknown,
    /// Text of fonio.
    Text(String),
    /// A name from the recording: a path, a thread, a device. It is untrusted, so every renderer escapes it.
    Name(String),
    /// A number.
    Number(f64, Unit),
    /// A lower bound: the true number may be greater.
    AtLeast(f64, Unit),
    /// A change, shown with its sign.
    Change(f64, Unit),
    /// A share of the total of the column, which may be drawn as a bar.
    Bar(f64),
    /// An interval, and the point estimate if there is one.
    Range {
        /// Lower end.
        low: f64,
        /// Best estimate.
        point: Option<f64>,
        /// Upper end.
        high: f64,
        /// The unit of all three.
        unit: Unit,
        /// Whether it is a change, shown with signs.
        change: bool,
    },
    /// A word with a judgement: "faster", "no difference".
    Judgement(Tone, String),
}

/// A word and its definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Term {
    /// The word.
    pub name: String,
    /// The meaning of the word here.
    pub definition: String,
}

/// A chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    /// Stable name, unique in the document.
    pub id: String,
    /// The title.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// The kind of chart.
    pub plot: Plot,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The axis of the third number of a heat scatter.
    pub z: Option<Axis>,
    /// The data.
    pub series: Vec<Series>,
    /// Marked instants, spans and levels.
    pub marks: Vec<Mark>,
}

/// The kind of a chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plot {
    /// A line for each series.
    #[default]
    Line,
    /// Stacked areas.
    StackedArea,
    /// Steps: each value is valid until the next one. For distributions and counters.
    Step,
    /// Stacked bars, one bar for each category of the x axis.
    StackedBar,
    /// Bars side by side.
    GroupedBar,
    /// A dot for each point, up to about ten thousand.
    Scatter,
    /// A dot for each point, coloured by a third number (the series' `z`).
    HeatScatter,
    /// Intervals with their points, a row for each category of the **y** axis: `x` is the point, `low` and `high` the ends.
    Interval,
    /// Spans of time, a row for each category of the **y** axis: `x` is the length, `low` and `high` the ends.
    Timeline,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The quantity.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// Its scale.
    pub scale: Scale,
    /// The ends of the axis; `None` derives them from the data.
    pub bounds: Option<(f64, f64)>,
}

/// The scale of an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic.
    Log,
    /// Linear, with the time of the recording: these axes zoom together.
    Time,
    /// The same, shown as the wall clock. The number is the clock at 0: seconds since 1970, as if its time zone was UTC.
    Clock(i64),
    /// Categories, in this order.
    Categories(Vec<String>),
}

/// A series of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The meaning of the series, which determines its colour.
    pub role: Role,
    /// The x values; for categories, their indexes.
    pub x: Vec<f64>,
    /// The y values, one for each of `x`. Not a number if there is no value.
    pub y: Vec<f64>,
    /// The third number of a heat scatter; otherwise empty.
    pub z: Vec<f64>,
    /// The lower ends of intervals, one for each of `x`; otherwise empty.
    pub low: Vec<f64>,
    /// The upper ends of intervals, like `low`.
    pub high: Vec<f64>,
}

/// The meaning of a series. The same meaning has the same colour throughout the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Reads.
    Read,
    /// Readahead.
    Readahead,
    /// Writes, and synchronous ones.
    Write,
    /// Write-back.
    WriteAsync,
    /// Flushes.
    Flush,
    /// Discards.
    Discard,
    /// All together.
    #[default]
    All,
    /// Everything except the named ones.
    Rest,
    /// One of several series of equal rank, by number.
    Category(usize),
    /// The first side of a comparison.
    Before,
    /// The other side of a comparison.
    After,
}

/// A mark in a chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// An instant, or a value on the x axis.
    AtX {
        /// The value.
        x: f64,
        /// The label.
        label: String,
    },
    /// A span of the x axis.
    SpanX {
        /// The start.
        from: f64,
        /// The end.
        to: f64,
        /// The label.
        label: String,
    },
    /// A level of the y axis.
    AtY {
        /// The value.
        y: f64,
        /// The label.
        label: String,
    },
}

impl Cell {
    /// The text of the cell, the same in every renderer.
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

    /// The sort key of the cell, if it is a number.
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

    /// A cell with text of fonio.
    pub fn words(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// A number that may be unknown.
    pub fn known<N: Into<f64>>(value: Option<N>, unit: Unit) -> Cell {
        value.map_or(Cell::Unknown, |value| Cell::Number(value.into(), unit))
    }

    /// A count or a length of 64 bits, which has no lossless conversion to `f64`.
    pub fn count(value: u64, unit: Unit) -> Cell {
        Cell::Number(value as f64, unit)
    }
}

/// A table to which columns are added, with a row for each item.
#[derive(Clone, Debug)]
pub struct Filled<T> {
    /// The table so far.
    pub table: Table,
    items: Vec<T>,
}

impl<T> Filled<T> {
    /// Adds a column with its note, which can be empty. `cell` gives the cell of an item.
    pub fn column(mut self, label: &str, note: &str, cell: impl Fn(&T) -> Cell) -> Filled<T> {
        self.table.columns.push(Column::noted(label, note));
        self.table.rows.iter_mut().zip(&self.items).for_each(|(row, item)| row.push(cell(item)));
        self
    }

    /// Renderers may omit the last column for lack of space.
    pub fn or_drop(self) -> Filled<T> {
        self.changed(Column::or_drop)
    }

    /// The last column says whose the row is.
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
    /// A table with a row for each item, without columns.
    pub fn of<T>(caption: &str, items: impl IntoIterator<Item = T>) -> Filled<T> {
        let items: Vec<T> = items.into_iter().collect();
        let rows = vec![Vec::new(); items.len()];
        Filled { table: Table { caption: caption.to_owned(), rows, ..Table::default() }, items }
    }

    /// Returns whether the column contains numbers: at least one, and no other known cell.
    pub fn is_numeric(&self, column: usize) -> bool {
        let mut known =
            self.rows.iter().map(|row| &row[column]).filter(|cell| **cell != Cell::Unknown).peekable();
        known.peek().is_some() && known.all(Cell::is_numeric)
    }
}

impl Column {
    /// A column whose heading is sufficient.
    pub fn new(label: &str) -> Column {
        Column { label: label.to_owned(), ..Column::default() }
    }

    /// A column with a definition.
    pub fn noted(label: &str, note: &str) -> Column {
        Column { label: label.to_owned(), note: note.to_owned(), ..Column::default() }
    }

    /// The same column, which renderers may omit for lack of space.
    pub fn or_drop(self) -> Column {
        Column { optional: true, ..self }
    }

    /// The same column, which has sentences.
    pub fn wordy(self) -> Column {
        Column { wordy: true, ..self }
    }

    /// The same column, which says whose the row is.
    pub fn whose(self) -> Column {
        Column { whose: true, ..self }
    }
}

impl Fact {
    /// A named value.
    pub fn new(label: &str, value: Cell) -> Fact {
        Fact { label: label.to_owned(), value, note: String::new() }
    }

    /// The same value, with an explanation.
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
    /// A linear axis.
    pub fn linear(label: &str, unit: Unit) -> Axis {
        Axis { label: label.to_owned(), unit, scale: Scale::Linear, bounds: None }
    }

    /// A logarithmic axis.
    pub fn log(label: &str, unit: Unit) -> Axis {
        Axis { scale: Scale::Log, ..Axis::linear(label, unit) }
    }

    /// The recording's time in seconds since its beginning.
    pub fn time(length_s: f64) -> Axis {
        Axis { scale: Scale::Time, bounds: Some((0.0, length_s)), ..Axis::linear("Time", Unit::S) }
    }

    /// The wall clock: from one time to another in seconds since 1970, as if its time zone was UTC. Values are seconds since
    /// [`Axis::clock_zero`] of the first one.
    pub fn clock(from: i64, to: i64) -> Axis {
        let zero = Axis::clock_zero(from);
        let bounds = ((from - zero) as f64, (to - zero) as f64);
        Axis { scale: Scale::Clock(zero), bounds: Some(bounds), ..Axis::linear("Time", Unit::S) }
    }

    /// Returns the 0 of a clock axis that begins at this time: midnight, which puts the ticks at full hours.
    pub fn clock_zero(from: i64) -> i64 {
        from - from.rem_euclid(86_400)
    }

    /// An axis with one position for each name.
    pub fn categories(label: &str, names: Vec<String>) -> Axis {
        Axis { scale: Scale::Categories(names), ..Axis::linear(label, Unit::Number) }
    }
}
