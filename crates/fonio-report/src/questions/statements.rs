//! Table of the SQL statements in the transactions of SQLite databases.

use fonio_analysis::sqlite::{Database, Sqlite, StatementCost};
use fonio_core::Unit;

use super::count;
use crate::document::{Cell, Column, Table};

/// Maximum number of rows in the table.
const LISTED: usize = 20;
/// The maximum number of characters of a statement in a table and in a sentence.
const TABLE_CHARS: usize = 160;
const SENTENCE_CHARS: usize = 72;
/// A statement is named only if at least this many of its transactions began without a pause after the
/// previous transaction, and if these are at least half of all its transactions. We chose both limits.
const WITHOUT_PAUSE_MIN: u64 = 10;
/// The maximum number of statements that are named because their transactions could be joined.
const JOINABLE_MAX: usize = 3;

/// Returns the statements of all databases, by descending time in calls that sync.
fn all(sqlite: &Sqlite) -> Vec<(&Database, &StatementCost)> {
    let mut all = Vec::new();
    for database in &sqlite.databases {
        all.extend(database.statements.iter().map(|cost| (database, cost)));
    }
    all.sort_by_key(|(_, cost)| std::cmp::Reverse((cost.sync_ns, cost.transactions)));
    all
}

/// Returns the statements of a transaction on one line, cut to `chars` characters.
fn shown(cost: &StatementCost, chars: usize) -> String {
    let more = if cost.more > 0 { format!("; and {} more", count(cost.more)) } else { String::new() };
    let mut text = cost.statements.join("; ");
    if text.chars().count() > chars {
        let short: String = text.chars().take(chars.saturating_sub(1)).collect();
        text = format!("{}…", short.trim_end());
    }
    // The same statement can also form a transaction alone, without BEGIN and COMMIT.
    if cost.is_explicit { format!("BEGIN; {text}{more}; COMMIT") } else { text + &more }
}

/// Returns one sentence on the most expensive statement; `None` if there is no statement.
pub(super) fn answer(sqlite: &Sqlite) -> Option<String> {
    let (_, cost) = *all(sqlite).first()?;
    let mut costs = Vec::new();
    if let (Some(flushes), Some(bytes)) = (cost.mean.flushes, cost.mean.bytes) {
        costs.push(format!(
            "{} flushes and {} each",
            Unit::Number.format(flushes),
            Unit::Bytes.format(bytes)
        ));
    }
    costs.push(format!("{} in calls that sync", cost.sync_ns));
    if let Some(blocked) = cost.blocked_ns {
        costs.push(format!("{} blocked on storage", blocked));
    }
    let transactions = if cost.transactions == 1 { "transaction" } else { "transactions" };
    let what = if cost.is_explicit { "transaction" } else { "statement" };
    Some(format!(
        "The most expensive {what} is {}: {} {transactions}, {}.",
        shown(cost, SENTENCE_CHARS),
        count(cost.transactions),
        costs.join(", ")
    ))
}

pub(super) fn table(sqlite: &Sqlite) -> Table {
    let has_several = sqlite.databases.iter().filter(|database| !database.statements.is_empty()).count() > 1;
    let all = all(sqlite);
    let rows = all.iter().take(LISTED).map(|(database, cost)| {
        let mut row = vec![Cell::Name(shown(cost, TABLE_CHARS))];
        if has_several {
            let name = database.path.rsplit('/').next().unwrap_or_default();
            row.push(Cell::Name(name.to_owned()));
        }
        row.extend([
            Cell::count(cost.transactions, Unit::Count),
            Cell::known(cost.mean.writes, Unit::Number),
            Cell::known(cost.mean.flushes, Unit::Number),
            Cell::known(cost.mean.bytes, Unit::Bytes),
            cost.sync_ns.into(),
            cost.worst_sync_ns.into(),
            cost.blocked_ns.into(),
        ]);
        row
    });
    let mut columns = vec![
        Column::noted(
            "Statements",
            "The statements, with ? instead of values; between BEGIN and COMMIT, the longest-running ones.",
        )
        .wordy(),
    ];
    if has_several {
        columns.push(Column::new("Database"));
    }
    columns.extend([
        Column::new("Transactions"),
        Column::noted("Writes", "Write requests to the device for each transaction.").or_drop(),
        Column::noted("Flushes", "Flush requests for each transaction."),
        Column::noted("On device", "Bytes written to the device for each transaction."),
        Column::noted("In syncs", "Total time of sync calls in all transactions."),
        Column::noted("Longest", "The longest time that one transaction spent in sync calls.").or_drop(),
        Column::noted("Blocked", "Total time the threads of all transactions were blocked on storage.")
            .or_drop(),
    ]);
    Table {
        caption: "The cost of statements, most time in syncs first".into(),
        columns,
        rows: rows.collect(),
        left_out: all.len().saturating_sub(LISTED) as u64,
        ..Table::default()
    }
}

pub(super) fn notes(sqlite: &Sqlite) -> Vec<String> {
    let mut notes = Vec::new();
    let is_joinable = |cost: &&StatementCost| {
        cost.without_pause >= WITHOUT_PAUSE_MIN && cost.without_pause * 2 >= cost.transactions
    };
    let all: Vec<&StatementCost> = all(sqlite).into_iter().map(|(_, cost)| cost).collect();
    for cost in all.iter().copied().filter(is_joinable).take(JOINABLE_MAX) {
        notes.push(format!(
            "{} of the {} transactions of {} began within 1 ms after the previous one of the same thread. If they \
             belong together, join them with BEGIN and COMMIT: one transaction syncs once.",
            count(cost.without_pause),
            count(cost.transactions),
            shown(cost, SENTENCE_CHARS)
        ));
    }
    let unknown: u64 = sqlite.databases.iter().map(|database| database.unknown_statements).sum();
    if unknown > 0 {
        notes.push(format!(
            "The statements of {} are unknown: they ran before fonio found their SQLite library, in a library \
             without symbols, or outside the recording.",
            transactions(unknown)
        ));
    }
    let beyond: u64 = sqlite.databases.iter().map(|database| database.statements_beyond_cap).sum();
    if beyond > 0 {
        notes.push(format!("{} of other statements are not listed.", transactions(beyond)));
    }
    if sqlite.statements_lost > 0 {
        notes.push(format!("{} executions or texts of statements were lost.", count(sqlite.statements_lost)));
    }
    notes
}

fn transactions(number: u64) -> String {
    if number == 1 { "1 transaction".to_owned() } else { format!("{} transactions", count(number)) }
}

#[cfg(test)]
mod tests {
    use fonio_analysis::sqlite::MeanCost;
    use fonio_core::Nanos;

    use super::*;

    fn cost(statements: &[&str], transactions: u64, sync_ns: u64) -> StatementCost {
        StatementCost {
            statements: statements.iter().map(|&text| text.to_owned()).collect(),
            transactions,
            sync_ns: Nanos(sync_ns),
            mean: MeanCost { flushes: Some(4.0), bytes: Some(58_368.0), ..MeanCost::default() },
            ..StatementCost::default()
        }
    }

    fn of(statements: Vec<StatementCost>) -> Sqlite {
        let database = Database { path: "/a.db".to_owned(), statements, ..Database::default() };
        Sqlite { databases: vec![database], has_statements: true, ..Sqlite::default() }
    }

    #[test]
    fn the_most_expensive_statement_is_named() {
        let mut sqlite = of(vec![cost(&["INSERT INTO m VALUES (?)"], 412, 3_100_000_000)]);
        assert_eq!(
            answer(&sqlite).as_deref(),
            Some(
                "The most expensive statement is INSERT INTO m VALUES (?): 412 transactions, 4 flushes and 57 KiB each, 3.1 s in calls that sync."
            )
        );
        sqlite.databases[0].statements[0].blocked_ns = Some(Nanos(2_000_000_000));
        assert!(answer(&sqlite).is_some_and(|text| text.ends_with("sync, 2 s blocked on storage.")));
        assert_eq!(answer(&Sqlite::default()), None);
    }

    #[test]
    fn long_statements_are_shortened_and_more_are_counted() {
        let long = "x".repeat(100);
        let mut of_two = cost(&[&long, "DELETE FROM t"], 1, 1);
        of_two.more = 3;
        assert_eq!(shown(&of_two, 10), "xxxxxxxxx…; and 3 more");
        assert_eq!(shown(&cost(&["a", "b"], 1, 1), 10), "a; b");
        let explicit = StatementCost { is_explicit: true, ..of_two };
        assert_eq!(shown(&explicit, 10), "BEGIN; xxxxxxxxx…; and 3 more; COMMIT");
        let told = answer(&of(vec![StatementCost { is_explicit: true, ..cost(&["a"], 2, 1) }])).unwrap();
        assert!(told.starts_with("The most expensive transaction is BEGIN; a; COMMIT: 2"), "{told}");
    }

    #[test]
    fn rows_fit_the_columns_and_come_by_cost() {
        let mut sqlite = of(vec![cost(&["a"], 1, 1), cost(&["b"], 2, 9)]);
        for databases in 1..3 {
            let table = table(&sqlite);
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
            assert_eq!(table.rows[0][0], Cell::Name("b".to_owned()));
            assert_eq!(table.rows.len(), 2 * databases);
            sqlite.databases.push(sqlite.databases[0].clone());
        }
    }

    #[test]
    fn transactions_without_a_pause_could_be_one() {
        for (without_pause, is_told) in [(9, false), (10, true), (20, true)] {
            let sqlite = of(vec![StatementCost { without_pause, ..cost(&["a"], 20, 1) }]);
            assert_eq!(
                notes(&sqlite).iter().any(|note| note.contains("one transaction syncs once")),
                is_told
            );
        }
        let mut sqlite = of(vec![]);
        sqlite.databases[0].unknown_statements = 1;
        sqlite.databases[0].statements_beyond_cap = 2;
        sqlite.statements_lost = 3;
        let notes = notes(&sqlite);
        assert!(
            notes[0].starts_with("The statements of 1 transaction are unknown") && notes.len() == 3,
            "{notes:?}"
        );
    }
}
