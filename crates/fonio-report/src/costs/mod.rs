//! Builds the report of `fonio ci`: the cost of a command in counts that repeat exactly, against a baseline.

mod block;

use fonio_analysis::Figure;
use fonio_analysis::counts::approximate::{ApproximatelyCompared, Difference};
use fonio_analysis::counts::baseline::{Baseline, Compared, Judgement, Measured, kind};
use fonio_analysis::counts::{ALL, Counts, SYNCS, WRITES, WRITTEN_BYTES};
use fonio_core::{Better, Unit};

use crate::document::{Cell, Column, Document, Fact, Section, Table, Tone, Verdict};

/// Number of files and statements that pay most.
const PAYERS: usize = 8;
/// Number of names in a sentence.
const NAMED: usize = 5;

/// A run, and what it is compared with.
#[derive(Clone, Debug)]
pub struct Costs<'a> {
    /// The name of the command, for the title.
    pub title: String,
    /// The counts of the run.
    pub measured: &'a Measured,
    /// The baseline and the result of the comparison, if there is a baseline.
    pub compared: Option<(&'a Baseline, &'a Judgement)>,
    /// Block writes and flushes against the baseline; empty if one of the two has none.
    pub approximate: &'a [ApproximatelyCompared],
    /// The results of checking budgets: whether the budget is kept, and a sentence.
    pub budgets: &'a [(bool, String)],
    /// What could not be counted here, one sentence each.
    pub limits: &'a [String],
}

/// Returns the unit of a count.
fn unit(name: &str) -> Unit {
    if kind(name) == WRITTEN_BYTES || kind(name) == "transaction_bytes" { Unit::Bytes } else { Unit::Count }
}

/// Returns the counts as figures, for budgets: the counts themselves and, with a unit of work, the sums per unit:
/// `order.writes`.
pub fn figures(measured: &Measured) -> Vec<Figure> {
    let better = Some(Better::Lower);
    let of_count = |name: &str, count: u64| Figure::new(name, name, unit(name), better, Some(count as f64));
    let mut figures: Vec<Figure> =
        measured.counts.values.iter().map(|(name, count)| of_count(name, *count)).collect();
    for what in [WRITES, WRITTEN_BYTES, SYNCS] {
        let name = format!("{ALL}.{what}");
        if !measured.counts.values.contains_key(&name) {
            figures.push(of_count(&name, 0));
        }
        if let Some(work) = &measured.work {
            let per = measured.counts.value(&name) as f64 / work.count as f64;
            let unit = if what == WRITTEN_BYTES { Unit::Bytes } else { Unit::Number };
            let name = format!("{}.{what}", work.name);
            figures.push(Figure::new(name.clone(), name, unit, better, Some(per)));
        }
    }
    figures
}

/// Returns block writes and flushes as figures for budgets, and the sums per unit of work: `order.block_writes`. With
/// `compared`, the figures are their ratios to the baseline.
pub fn block_figures(measured: &Measured, compared: Option<&[ApproximatelyCompared]>) -> Vec<Figure> {
    let work = measured.work.as_ref().map(|work| (work.name.as_str(), work.count));
    block::figures(measured.approximate.as_ref(), work, compared)
}

/// Returns the count of block writes or flushes that a figure shows; `None` for other figures.
pub fn block_count(figure: &str, measured: &Measured) -> Option<&'static str> {
    block::count_of(figure, measured.work.as_ref().map(|work| work.name.as_str()))
}

/// Returns whether a name has the form of a count, such as `file[./x].syncs`.
pub fn is_count(name: &str) -> bool {
    subject(name).is_some_and(|(of, _)| ["file", "database", "statement"].contains(&of))
        || name.starts_with(&format!("{ALL}."))
}

/// Returns the figure of a count that is not listed, because it is 0.
pub fn zero(name: &str) -> Figure {
    Figure::new(name, name, unit(name), Some(Better::Lower), Some(0.0))
}

impl Document {
    /// Creates the report of a run.
    pub fn from_costs(costs: &Costs<'_>) -> Document {
        let grown = costs.compared.map_or(0, |(_, judgement)| judgement.grown.len());
        let broken = costs.budgets.iter().filter(|(is_kept, _)| !is_kept).count();
        let tone = match costs.compared {
            _ if grown + broken > 0 => Tone::Bad,
            Some(_) => Tone::Good,
            None if !costs.budgets.is_empty() => Tone::Good,
            None => Tone::Plain,
        };
        let sections = [changes(costs), on_disk(costs), payers(costs)];
        Document {
            title: costs.title.clone(),
            verdict: Verdict { tone, sentence: sentence(costs), reasons: reasons(costs) },
            sections: sections.into_iter().flatten().collect(),
            provenance: provenance(costs),
            ..Document::default()
        }
    }
}

/// Returns writes, bytes and syncs of one unit of work, or of the command, as text.
fn amounts(counts: &dyn Fn(&str) -> u64, units: u64) -> [String; 3] {
    [(WRITES, Unit::Number), (WRITTEN_BYTES, Unit::Bytes), (SYNCS, Unit::Number)]
        .map(|(what, unit)| unit.format(counts(&format!("{ALL}.{what}")) as f64 / units as f64))
}

fn sentence(costs: &Costs<'_>) -> String {
    let Measured { work, counts, .. } = costs.measured;
    let who = work.as_ref().map_or("The command".to_owned(), |work| format!("Each {}", work.name));
    let (was_units, is_units) = units_of(costs);
    let [writes, bytes, syncs] = amounts(&|name| counts.value(name), is_units);
    let plural =
        |number: &str, word: &str| format!("{number} {word}{}", if number == "1" { "" } else { "s" });
    let is = format!("{who} costs {}, {bytes} and {}", plural(&writes, "write"), plural(&syncs, "sync"));
    let Some((baseline, judgement)) = costs.compared else { return format!("{is}.") };
    let was = Counts { values: baseline.counts.clone() };
    let is_known = [WRITES, WRITTEN_BYTES, SYNCS]
        .iter()
        .all(|what| !baseline.varying.contains(&format!("{ALL}.{what}")));
    let [was_writes, was_bytes, was_syncs] = amounts(&|name| was.value(name), was_units);
    let is_same = (&writes, &bytes, &syncs) == (&was_writes, &was_bytes, &was_syncs);
    if !is_known {
        return format!("{is}; the baseline has no exact sums.");
    }
    if !is_same {
        return format!("{is}; was {was_writes}, {was_bytes} and {was_syncs}.");
    }
    if judgement.grown.is_empty() && judgement.shrunk.is_empty() {
        format!("{is}, as in the baseline.")
    } else {
        format!("{is}, as in the baseline, but single counts changed.")
    }
}

fn on_disk(costs: &Costs<'_>) -> Option<Section> {
    let approximate = costs.measured.approximate.as_ref()?;
    let (was, is) = units_of(costs);
    let work = costs.measured.work.as_ref().map(|work| (work.name.as_str(), was, is));
    Some(block::section(approximate, costs.approximate, work))
}

fn reasons(costs: &Costs<'_>) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some((_, judgement)) = costs.compared
        && !judgement.grown.is_empty()
    {
        let payer = most_grown(costs, judgement);
        reasons.extend(payer.map(|payer| format!("Most of the growth is in {payer}.")));
    }
    reasons.extend(costs.budgets.iter().map(|(is_kept, sentence)| {
        let mark = if *is_kept { "Budget kept" } else { "Budget exceeded" };
        format!("{mark}: {sentence}.")
    }));
    reasons.extend(costs.approximate.iter().filter(|one| one.difference == Difference::More).map(|one| {
        let of = match one.ratio.is_finite() {
            true => format!("is about {} of the baseline", Unit::Share.format(one.ratio)),
            false => "was 0 in the baseline".to_owned(),
        };
        format!("`{}` {of}: more than the tolerance.", one.name)
    }));
    if let Some((_, judgement)) = costs.compared
        && judgement.grown.is_empty()
        && !judgement.shrunk.is_empty()
    {
        reasons.push("Costs are lower than in the baseline; keep this with `fonio ci --update`.".to_owned());
    }
    reasons
}

/// A file, database or statement with its counts: the inner part of names such as `file[./x].writes`.
fn subject(name: &str) -> Option<(&str, &str)> {
    let (kind_of, rest) = name.split_once('[')?;
    Some((kind_of, rest.rsplit_once("].")?.0))
}

/// Returns the file whose bytes grew most, or whose syncs grew most if no bytes grew, with a statement if one is known.
fn most_grown(costs: &Costs<'_>, judgement: &Judgement) -> Option<String> {
    let rows = || judgement.grown.iter().chain(&judgement.new);
    let growth =
        |row: &Compared| scaled(row.is, units_of(costs).1) - scaled(row.was.unwrap_or(0), units_of(costs).0);
    let most = |subject_kind: &str, what: &str| {
        rows()
            .filter(|row| kind(&row.name) == what)
            .filter_map(|row| {
                Some((subject(&row.name).filter(|(of, _)| *of == subject_kind)?.1, growth(row)))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(name, _)| format!("`{name}`"))
    };
    let any = |of: &str| [WRITTEN_BYTES, WRITES, SYNCS].iter().find_map(|what| most(of, what));
    match (any("statement"), any("file")) {
        (Some(statement), Some(file)) => Some(format!("the statement {statement} and the file {file}")),
        (Some(only), None) => Some(format!("the statement {only}")),
        (None, Some(only)) => Some(format!("the file {only}")),
        (None, None) => None,
    }
}

/// Returns the numbers of units in the baseline and in this run.
fn units_of(costs: &Costs<'_>) -> (u64, u64) {
    let is = costs.measured.work.as_ref().map_or(1, |unit| unit.count);
    let was = costs.compared.and_then(|(baseline, _)| Some(baseline.work.as_ref()?.count)).unwrap_or(1);
    (was, is)
}

fn scaled(count: u64, units: u64) -> f64 {
    count as f64 / units as f64
}

fn column(label: &str) -> Column {
    Column { label: label.to_owned(), ..Column::default() }
}

fn changes(costs: &Costs<'_>) -> Option<Section> {
    let (_, judgement) = costs.compared?;
    let (was_units, is_units) = units_of(costs);
    let per = costs.measured.work.as_ref().map_or(String::new(), |unit| format!(" per {}", unit.name));
    let table = |caption: &str, rows: &[Compared]| Table {
        caption: format!("{caption}{per}"),
        columns: ["Count", "Was", "Now", "Change"].map(column).to_vec(),
        rows: rows
            .iter()
            .map(|row| cells(row, (was_units, is_units), costs.measured.work.is_some()))
            .collect(),
        ..Table::default()
    };
    let Judgement { grown, shrunk, new, others } = judgement;
    let tables = [("Higher", grown), ("Lower", shrunk), ("Not in the baseline", new)]
        .into_iter()
        .filter(|(_, rows)| !rows.is_empty())
        .map(|(caption, rows)| table(caption, rows));
    let others = (!others.is_empty()).then(|| Table {
        caption: "Other counts".to_owned(),
        columns: ["Count", "Was", "Now", "Change"].map(column).to_vec(),
        rows: others.iter().map(|row| cells(row, (1, 1), false)).collect(),
        ..Table::default()
    });
    let tables: Vec<Table> = tables.chain(others).collect();
    (!tables.is_empty()).then(|| Section {
        id: "changes".into(),
        question: "What changed?".into(),
        answer: format!(
            "{} counts are higher, {} are lower, and {} are new.",
            grown.len(),
            shrunk.len(),
            new.len()
        ),
        tables,
        ..Section::default()
    })
}

fn cells(row: &Compared, (was_units, is_units): (u64, u64), is_per_unit: bool) -> Vec<Cell> {
    let unit = match unit(&row.name) {
        Unit::Count if is_per_unit => Unit::Number,
        unit => unit,
    };
    let is = scaled(row.is, is_units);
    let was = row.was.map(|was| scaled(was, was_units));
    vec![
        Cell::Name(row.name.clone()),
        Cell::Number(was.unwrap_or(0.0), unit),
        Cell::Number(is, unit),
        Cell::Change(is - was.unwrap_or(0.0), unit),
    ]
}

/// The files and statements that pay most.
fn payers(costs: &Costs<'_>) -> Option<Section> {
    let counts = &costs.measured.counts;
    let table = |of: &str, heading: &str, caption: &str| {
        let mut names: Vec<&str> = counts
            .values
            .keys()
            .filter_map(|name| subject(name).filter(|(kind_of, _)| *kind_of == of))
            .map(|(_, inner)| inner)
            .collect();
        names.dedup();
        let value = |name: &str, what: &str| counts.value(&format!("{of}[{name}].{what}"));
        names.sort_by_key(|name| {
            std::cmp::Reverse((value(name, WRITTEN_BYTES), value(name, SYNCS), value(name, WRITES)))
        });
        names.dedup();
        let is_statement = of == "statement";
        let row = |name: &&str| {
            let mut row = vec![Cell::Name((*name).to_owned())];
            if is_statement {
                row.push(Cell::Number(value(name, "transactions") as f64, Unit::Count));
            }
            for what in [WRITES, WRITTEN_BYTES, SYNCS] {
                row.push(Cell::Number(value(name, what) as f64, unit(what)));
            }
            row
        };
        let mut columns = vec![Column { wordy: is_statement, ..column(heading) }];
        columns.extend(is_statement.then(|| column("Transactions")));
        columns.extend(["Writes", "Bytes", "Syncs"].map(column));
        Table {
            caption: caption.to_owned(),
            columns,
            rows: names.iter().take(PAYERS).map(row).collect(),
            left_out: names.len().saturating_sub(PAYERS) as u64,
            ..Table::default()
        }
    };
    let tables = [
        table("statement", "Statements", "Statements, most bytes first"),
        table("file", "File", "Files, most bytes first"),
    ];
    let tables: Vec<Table> = tables.into_iter().filter(|table| !table.rows.is_empty()).collect();
    (!tables.is_empty()).then(|| Section {
        id: "payers".into(),
        question: "What costs most?".into(),
        answer: transactions(counts),
        tables,
        ..Section::default()
    })
}

/// Returns a sentence about the transactions of the database with most of them.
fn transactions(counts: &Counts) -> String {
    let most = (counts.values.iter())
        .filter(|(name, _)| kind(name) == "transactions")
        .filter_map(|(name, count)| Some((subject(name).filter(|(of, _)| *of == "database")?.1, *count)))
        .max_by_key(|(_, count)| *count);
    let Some((name, count)) = most else { return String::new() };
    let per = |what: &str, unit: Unit| {
        unit.format(counts.value(&format!("database[{name}].{what}")) as f64 / count as f64)
    };
    format!(
        "Each of the {} transactions of `{name}` makes on average {} writes of {} in total, and {} syncs.",
        Unit::Count.format(count as f64),
        per("transaction_writes", Unit::Number),
        per("transaction_bytes", Unit::Bytes),
        per("transaction_syncs", Unit::Number)
    )
}

fn provenance(costs: &Costs<'_>) -> Vec<Fact> {
    let fact = |label: &str, value: String| Fact {
        label: label.to_owned(),
        value: Cell::Text(value),
        note: String::new(),
    };
    let mut facts = vec![fact("Counted", "the calls of the command and its children".to_owned())];
    if costs.measured.approximate.is_some() {
        facts.push(fact("Counted about", block::COUNTED.to_owned()));
    }
    if let Some(work) = &costs.measured.work {
        facts.push(fact("Units of work", format!("{} times `{}`", work.count, work.name)));
    }
    let varying = &costs.measured.varying;
    if costs.measured.runs > 1 {
        let exact = costs.measured.counts.values.keys().filter(|name| !varying.contains(*name)).count();
        let text = format!("{exact} counts were the same in {} runs", costs.measured.runs);
        facts.push(fact("Repetition", text));
    }
    if !varying.is_empty() {
        let names: Vec<String> = varying.iter().take(NAMED).map(|name| format!("`{name}`")).collect();
        let more = varying.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        facts.push(fact("Not compared, because it differs between runs", names.join(", ") + &more));
    }
    facts.extend(costs.limits.iter().map(|limit| fact("Not counted", limit.clone())));
    facts
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use fonio_analysis::counts::baseline::Work;

    use super::*;
    use crate::markdown::render_markdown;

    fn measured(text: &str, orders: u64) -> Measured {
        let pair = |line: &str| {
            let (name, count) = line.trim().rsplit_once('=').expect("name=count");
            (name.to_owned(), count.parse().expect("a number"))
        };
        let counts = Counts { values: text.trim().lines().map(pair).collect() };
        let work = (orders > 0).then(|| Work { name: "order".to_owned(), count: orders });
        Measured::of(vec![(counts, work)]).expect("one run")
    }

    fn check(was: Option<&Measured>, is: &Measured, expected: &Expect) {
        let baseline = was.map(Measured::baseline);
        let judgement = baseline.as_ref().map(|baseline| is.against(baseline).expect("alike"));
        let costs = Costs {
            title: "Cost of ./test-suite".to_owned(),
            measured: is,
            compared: baseline.as_ref().zip(judgement.as_ref()),
            approximate: &baseline.as_ref().map_or(Vec::new(), |baseline| is.approximately_against(baseline)),
            budgets: &[],
            limits: &[],
        };
        let mut out = Vec::new();
        render_markdown(&Document::from_costs(&costs), &mut out).expect("in memory");
        expected.assert_eq(&String::from_utf8(out).expect("text"));
    }

    const WAL: &str = "all.syncs=10
        all.writes=31
        all.written_bytes=409600
        database[./o.db].transactions=10
        file[./o.db-wal].syncs=10
        file[./o.db-wal].writes=31
        file[./o.db-wal].written_bytes=409600";

    const DELETE: &str = "all.syncs=40
        all.writes=89
        all.written_bytes=880640
        database[./o.db].transaction_bytes=880640
        database[./o.db].transaction_syncs=40
        database[./o.db].transaction_writes=89
        database[./o.db].transactions=10
        file[./o.db].syncs=10
        file[./o.db].writes=29
        file[./o.db].written_bytes=80640
        file[./o.db-journal].syncs=30
        file[./o.db-journal].writes=60
        file[./o.db-journal].written_bytes=800000
        statement[INSERT INTO o VALUES (?)].syncs=40
        statement[INSERT INTO o VALUES (?)].transactions=10
        statement[INSERT INTO o VALUES (?)].writes=89
        statement[INSERT INTO o VALUES (?)].written_bytes=880640";

    #[test]
    fn the_comment_begins_with_the_cost_of_a_unit_and_names_what_pays() {
        check(
            Some(&measured(WAL, 10)),
            &measured(DELETE, 10),
            &expect![[r#"
            # Cost of ./test-suite

            > ❌ **Each order costs 8.9 writes, 86 KiB and 4 syncs; was 3.1, 40 KiB and 1.**
            >
            > Most of the growth is in the statement `INSERT INTO o VALUES (?)` and the file `./o.db-journal`.

            ## What changed?

            3 counts are higher, 3 are lower, and 12 are new.

            **Higher per order**

            | Count | Was | Now | Change |
            | --- | ---: | ---: | ---: |
            | `all.syncs` | 1 | 4 | +3 |
            | `all.writes` | 3.1 | 8.9 | +5.8 |
            | `all.written_bytes` | 40 KiB | 86 KiB | +46 KiB |

            **Lower per order**

            | Count | Was | Now | Change |
            | --- | ---: | ---: | ---: |
            | `file[./o.db-wal].syncs` | 1 | 0 | -1 |
            | `file[./o.db-wal].writes` | 3.1 | 0 | -3.1 |
            | `file[./o.db-wal].written_bytes` | 40 KiB | 0 B | -40 KiB |

            **Not in the baseline per order**

            | Count | Was | Now | Change |
            | --- | ---: | ---: | ---: |
            | `database[./o.db].transaction_bytes` | 0 B | 86 KiB | +86 KiB |
            | `database[./o.db].transaction_syncs` | 0 | 4 | +4 |
            | `database[./o.db].transaction_writes` | 0 | 8.9 | +8.9 |
            | `file[./o.db-journal].syncs` | 0 | 3 | +3 |
            | `file[./o.db-journal].writes` | 0 | 6 | +6 |
            | `file[./o.db-journal].written_bytes` | 0 B | 78.1 KiB | +78.1 KiB |
            | `file[./o.db].syncs` | 0 | 1 | +1 |
            | `file[./o.db].writes` | 0 | 2.9 | +2.9 |
            | `file[./o.db].written_bytes` | 0 B | 7.88 KiB | +7.88 KiB |
            | `statement[INSERT INTO o VALUES (?)].syncs` | 0 | 4 | +4 |
            | `statement[INSERT INTO o VALUES (?)].writes` | 0 | 8.9 | +8.9 |
            | `statement[INSERT INTO o VALUES (?)].written_bytes` | 0 B | 86 KiB | +86 KiB |

            **Other counts**

            | Count | Was | Now | Change |
            | --- | ---: | ---: | ---: |
            | `statement[INSERT INTO o VALUES (?)].transactions` | 0 | 10 | +10 |

            ## What costs most?

            Each of the 10 transactions of `./o.db` makes on average 8.9 writes of 86 KiB in total, and 4 syncs.

            **Statements, most bytes first**

            | Statements | Transactions | Writes | Bytes | Syncs |
            | --- | ---: | ---: | ---: | ---: |
            | `INSERT INTO o VALUES (?)` | 10 | 89 | 860 KiB | 40 |

            **Files, most bytes first**

            | File | Writes | Bytes | Syncs |
            | --- | ---: | ---: | ---: |
            | `./o.db-journal` | 60 | 781 KiB | 30 |
            | `./o.db` | 29 | 78.8 KiB | 10 |

            ## Where the numbers come from

            - Counted: **the calls of the command and its children**
            - Units of work: **10 times `order`**

        "#]],
        );
    }

    #[test]
    fn an_unchanged_cost_is_a_short_comment() {
        check(
            Some(&measured(WAL, 0)),
            &measured(WAL, 0),
            &expect![[r#"
            # Cost of ./test-suite

            > ✅ **The command costs 31 writes, 400 KiB and 10 syncs, as in the baseline.**

            ## What costs most?

            Each of the 10 transactions of `./o.db` makes on average 0 writes of 0 B in total, and 0 syncs.

            **Files, most bytes first**

            | File | Writes | Bytes | Syncs |
            | --- | ---: | ---: | ---: |
            | `./o.db-wal` | 31 | 400 KiB | 10 |

            ## Where the numbers come from

            - Counted: **the calls of the command and its children**

        "#]],
        );
        check(
            None,
            &measured("all.writes=1\nall.written_bytes=10", 0),
            &expect![[r#"
            # Cost of ./test-suite

            > **The command costs 1 write, 10 B and 0 syncs.**

            ## Where the numbers come from

            - Counted: **the calls of the command and its children**

        "#]],
        );
    }

    #[test]
    fn counts_are_figures_for_budgets() {
        let figures = figures(&measured("all.writes=30\nfile[./x].written_bytes=10", 10));
        let found: Vec<_> = figures.iter().map(|figure| format!("{} {}", figure.name, figure.text)).collect();
        assert_eq!(
            found,
            [
                "all.writes 30",
                "file[./x].written_bytes 10 B",
                "order.writes 3",
                "all.written_bytes 0 B",
                "order.written_bytes 0 B",
                "all.syncs 0",
                "order.syncs 0"
            ]
        );
    }
}
