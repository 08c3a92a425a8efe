//! What a report says, before it is known how it is drawn.
//!
//! A document is built once and handed to a renderer. Every section stands under the question it answers, in the words
//! of the person who asks; its figures always have a table beside them, so that nothing is said in colour alone.

use fonio_analysis::{Analysis, Comparison};
use fonio_core::Meta;

use fonio_core::Unit;

/// A report: the verdict, the questions that it answers, the findings, then all other questions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// What the report is about: the recording's name or the command that was watched.
    pub title: String,
    /// One line below the title: machine, device, length.
    pub subtitle: String,
    /// The answer to "is storage my problem?".
    pub verdict: Verdict,
    /// The handful of numbers worth remembering.
    pub facts: Vec<Fact>,
    /// Questions before the findings: in a report on fixes, which of them helped.
    pub opening: Vec<Section>,
    /// What was found, the costliest first.
    pub findings: Vec<Card>,
    /// All other questions.
    pub sections: Vec<Section>,
    /// Words of the report with their definitions.
    pub terms: Vec<Term>,
    /// Where the numbers come from: machine, kernel, source, lost events.
    pub provenance: Vec<Fact>,
    /// Commands to run next, for the first screen of a terminal.
    pub next: Vec<String>,
}

/// How good or bad a statement is; decides a colour and a symbol, never the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing to do.
    Good,
    /// Neither good nor bad.
    #[default]
    Plain,
    /// Worth a look.
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
    /// What else belongs to it, a sentence each.
    pub reasons: Vec<String>,
}

/// A named value.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What it is.
    pub label: String,
    /// How much.
    pub value: Cell,
    /// How it is to be read; empty where the label says it.
    pub note: String,
}

/// One finding: evidence, what follows from it, what to do.
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
    /// What it costs the user.
    pub consequence: String,
    /// What can be done about it, a sentence each.
    pub remedies: Vec<String>,
    /// The study, specification or kernel file it rests on; empty where the rule is our own.
    pub source: String,
}

/// A question and its answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Stable name, for links.
    pub id: String,
    /// As people ask: "Which I/O costs the time?"
    pub question: String,
    /// One sentence.
    pub answer: String,
    /// The pictures.
    pub figures: Vec<Figure>,
    /// The numbers.
    pub tables: Vec<Table>,
    /// How to read them, and what they do not show.
    pub notes: Vec<String>,
    /// How to use the page; only for forms that can be used.
    pub hints: Vec<String>,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What the rows are.
    pub caption: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; each has a cell for every column.
    pub rows: Vec<Vec<Cell>>,
    /// How many further rows the analysis left out.
    pub left_out: u64,
    /// Whether it is only for readers who look closer: forms without folding leave it out.
    pub detail: bool,
    /// Whether every row is shown, however short the form is.
    pub whole: bool,
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// The heading.
    pub label: String,
    /// What it means, where the heading does not say it.
    pub note: String,
    /// Shown by renderers that have the room; others may drop it.
    pub optional: bool,
}

/// The content of a cell or a fact.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// The source does not show it.
    #[default]
    Unknown,
    /// Words of ours.
    Text(String),
    /// A name from outside: a path, a thread, a device. Foreign, so every renderer escapes it.
    Name(String),
    /// A number.
    Number(f64, Unit),
    /// A number that the true one may exceed.
    AtLeast(f64, Unit),
    /// A change, with its sign.
    Change(f64, Unit),
    /// A share of the column's whole, which may be drawn as a bar.
    Bar(f64),
    /// An interval, and the point in it where there is one.
    Range {
        /// Lower end.
        low: f64,
        /// Best estimate.
        point: Option<f64>,
        /// Upper end.
        high: f64,
        /// Of all three.
        unit: Unit,
        /// Whether it is a change and needs its signs.
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
    /// What it means here.
    pub definition: String,
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Stable name, unique in the document.
    pub id: String,
    /// What is shown.
    pub title: String,
    /// What to look for in it.
    pub caption: String,
    /// How it is drawn.
    pub plot: Plot,
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// The third number of a heat scatter.
    pub z: Option<Axis>,
    /// The data.
    pub series: Vec<Series>,
    /// Instants, spans and levels worth a line in the picture.
    pub marks: Vec<Mark>,
}

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plot {
    /// A line for each series.
    Line,
    /// Areas on top of each other.
    StackedArea,
    /// Steps: each value holds until the next. For distributions and for counters.
    Step,
    /// Bars on top of each other, a bar for each category of the x axis.
    StackedBar,
    /// Bars beside each other.
    GroupedBar,
    /// A dot for each point, up to some ten thousand.
    Scatter,
    /// A dot for each point, coloured by a third number (the series' `z`).
    HeatScatter,
    /// Intervals with their points, a row for each category of the **y** axis: `x` is the point, `low` and `high` the ends.
    Interval,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// In which unit.
    pub unit: Unit,
    /// How values are laid out.
    pub scale: Scale,
    /// Where the axis begins and ends; `None` leaves it to the data.
    pub bounds: Option<(f64, f64)>,
}

/// How values lie along an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By their logarithm.
    Log,
    /// Evenly, and the axis is the recording's time: such axes zoom together.
    Time,
    /// One place for each name, in this order.
    Categories(Vec<String>),
}

/// One curve, cloud or colour of a figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// What it is, for the colour.
    pub role: Role,
    /// Across; for categories the index of the category.
    pub x: Vec<f64>,
    /// Up; as long as `x`. Not a number where there is no value.
    pub y: Vec<f64>,
    /// The third number of a heat scatter; else empty.
    pub z: Vec<f64>,
    /// Ends of intervals, as long as `x`; else empty.
    pub low: Vec<f64>,
    /// See `low`.
    pub high: Vec<f64>,
}

/// What a series stands for. The same thing has the same colour throughout a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Reads.
    Read,
    /// Reads ahead of need.
    Readahead,
    /// Writes, and synchronous ones.
    Write,
    /// Write-back.
    WriteAsync,
    /// Flushes.
    Flush,
    /// Discards.
    Discard,
    /// Everything in one.
    #[default]
    All,
    /// What is left after the named ones.
    Rest,
    /// The n-th of several equals.
    Category(usize),
    /// The side compared against.
    Before,
    /// The side compared.
    After,
}

/// Something worth pointing at in a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// An instant or value on the x axis.
    AtX {
        /// Where.
        x: f64,
        /// What.
        label: String,
    },
    /// A span of the x axis.
    SpanX {
        /// From.
        from: f64,
        /// To.
        to: f64,
        /// What.
        label: String,
    },
    /// A level of the y axis.
    AtY {
        /// Where.
        y: f64,
        /// What.
        label: String,
    },
}

impl Document {
    /// The report on an analysis.
    pub fn from_analysis(analysis: &Analysis, meta: &Meta) -> Document {
        crate::questions::document(analysis, meta)
    }

    /// The report on a comparison.
    pub fn from_comparison(comparison: &Comparison) -> Document {
        crate::comparison::document(comparison)
    }
}

impl Cell {
    /// The cell in words, the same in every renderer.
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

    /// What the cell is sorted by, where it is a number.
    pub fn sort_key(&self) -> Option<f64> {
        match self {
            Cell::Number(value, _) | Cell::AtLeast(value, _) | Cell::Change(value, _) | Cell::Bar(value) => {
                Some(*value)
            }
            Cell::Range { low, point, high, .. } => Some(point.unwrap_or((low + high) / 2.0)),
            Cell::Unknown | Cell::Text(_) | Cell::Name(_) | Cell::Judgement(..) => None,
        }
    }

    /// Whether the cell is set flush right, as numbers are.
    pub fn is_numeric(&self) -> bool {
        self.sort_key().is_some()
    }

    /// Words of ours.
    pub fn words(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// A number that may be unknown.
    pub fn known<N: Into<f64>>(value: Option<N>, unit: Unit) -> Cell {
        value.map_or(Cell::Unknown, |value| Cell::Number(value.into(), unit))
    }

    /// A count or a length too large for an `f64`'s lossless conversion trait.
    pub fn count(value: u64, unit: Unit) -> Cell {
        Cell::Number(value as f64, unit)
    }
}

impl Table {
    /// Whether the column holds numbers: those it knows are all numeric, and there is one.
    pub fn is_numeric(&self, column: usize) -> bool {
        let mut known =
            self.rows.iter().map(|row| &row[column]).filter(|cell| **cell != Cell::Unknown).peekable();
        known.peek().is_some() && known.all(Cell::is_numeric)
    }
}

impl Column {
    /// A column whose heading says what it is.
    pub fn new(label: &str) -> Column {
        Column { label: label.to_owned(), note: String::new(), optional: false }
    }

    /// A column with a definition.
    pub fn noted(label: &str, note: &str) -> Column {
        Column { label: label.to_owned(), note: note.to_owned(), optional: false }
    }

    /// The same column, dropped where there is no room.
    pub fn or_drop(self) -> Column {
        Column { optional: true, ..self }
    }
}

impl Fact {
    /// A named value.
    pub fn new(label: &str, value: Cell) -> Fact {
        Fact { label: label.to_owned(), value, note: String::new() }
    }

    /// The same, with a word on how to read it.
    pub fn note(self, note: impl Into<String>) -> Fact {
        Fact { note: note.into(), ..self }
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

    /// A place for each name.
    pub fn categories(label: &str, names: Vec<String>) -> Axis {
        Axis { scale: Scale::Categories(names), ..Axis::linear(label, Unit::Number) }
    }
}
