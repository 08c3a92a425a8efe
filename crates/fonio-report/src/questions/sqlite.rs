//! Section on SQLite: what a transaction costs in each database.

use fonio_analysis::sqlite::{Database, MeanCost, Receipt, Sqlite, UsualCost};
use fonio_core::Unit;

use super::{About, count, listed, statements};
use crate::document::{Cell, Section, Table};

const MOST_FREQUENT: &str = "The most frequent number of syncs, writes and flushes, and how many transactions had \
    exactly these numbers.";
/// Number of databases in a table.
const LISTED: usize = 20;

pub fn section(about: &About<'_>) -> Option<Section> {
    let sqlite = about.analysis.sqlite.as_ref()?;
    // If no calls of SQLite programs were recorded, the report omits this section.
    sqlite.databases.first()?;
    Some(Section {
        id: "sqlite".into(),
        question: "What does an SQLite transaction cost?".into(),
        answer: [answer(sqlite)].into_iter().chain(statements::answer(sqlite)).collect::<Vec<_>>().join(" "),
        tables: ([costs(sqlite), statements::table(sqlite), bytes(sqlite), amplification(sqlite)]
            .into_iter()
            .filter(|table| !table.rows.is_empty()))
        .collect(),
        notes: notes(sqlite),
        ..Section::default()
    })
}

fn number(value: Option<f64>) -> Option<String> {
    value.map(|value| Unit::Number.format(value))
}

fn answer(sqlite: &Sqlite) -> String {
    let Some(first) = sqlite.databases.first() else { return String::new() };
    let Some(mean) = &first.receipt.mean else {
        return format!("No committed transaction of {} was recorded.", first.path);
    };
    let transactions = match first.receipt.transactions {
        1 => "One transaction".to_owned(),
        many => format!("Each of the {} transactions", count(many)),
    };
    let mode = match first.modes.as_slice() {
        [only] => format!(" (journal mode {})", only.mode),
        _ => String::new(),
    };
    let least = if sqlite.is_complete { "" } else { "at least " };
    let (Some(writes), Some(flushes), Some(bytes)) = (number(mean.writes), number(mean.flushes), mean.bytes)
    else {
        let syncs = Unit::Number.format(mean.syncs);
        return format!(
            "{transactions} of {}{mode} made {least}{syncs} calls that sync. The cost on the device was not recorded.",
            first.path
        );
    };
    let on_average = if first.receipt.transactions == 1 { "" } else { " on average" };
    format!(
        "{transactions} of {}{mode} took{on_average} {least}{writes} device writes, {flushes} flushes and {}.",
        first.path,
        Unit::Bytes.format(bytes)
    )
}

fn shown(sqlite: &Sqlite) -> impl Iterator<Item = &Database> {
    sqlite.databases.iter().take(LISTED)
}

fn left_out(sqlite: &Sqlite) -> u64 {
    sqlite.databases.len().saturating_sub(LISTED) as u64 + sqlite.databases_beyond_cap
}

fn costs(sqlite: &Sqlite) -> Table {
    let mean = |database: &Database, cost: fn(&MeanCost) -> Option<f64>, unit: Unit| {
        Cell::known(database.receipt.mean.as_ref().and_then(cost), unit)
    };
    let journal = |database: &Database| {
        let modes: Vec<String> = database.modes.iter().map(|mode| mode.mode.clone()).collect();
        if modes.is_empty() { Cell::Unknown } else { Cell::words(listed(&modes)) }
    };
    let usual = |Receipt { transactions, usual, .. }: &Receipt| {
        let Some(UsualCost { syncs, writes, flushes, transactions: same }) = usual else {
            return Cell::Unknown;
        };
        let (same, all) = (count(*same), count(*transactions));
        Cell::words(format!("{syncs} + {writes} + {flushes} ({same} of {all})"))
    };
    let table = Table::of("The cost of a transaction, on average", shown(sqlite))
        .column("Database", "", |database| Cell::Name(database.path.clone()))
        .column("Journal", "The journal mode, as far as the calls show it.", |database| journal(database))
        .column("Transactions", "", |database| Cell::count(database.receipt.transactions, Unit::Count))
        .column("Syncs", "Calls that sync: fsync, fdatasync, sync_file_range, msync.", |database| {
            mean(database, |mean| Some(mean.syncs), Unit::Number)
        })
        .column("Writes", "Write requests to the device, after merging.", |database| {
            mean(database, |mean| mean.writes, Unit::Number)
        })
        .column("Flushes", "Requests that make the device empty its cache.", |database| {
            mean(database, |mean| mean.flushes, Unit::Number)
        })
        .column("On device", "Bytes written to the device.", |database| {
            mean(database, |mean| mean.bytes, Unit::Bytes)
        })
        .column("Blocked", "Time the threads were blocked on storage.", |database| {
            mean(database, |mean| mean.blocked_ns, Unit::Ns)
        })
        .column("In syncs", "Time in the calls that sync.", |database| {
            mean(database, |mean| Some(mean.sync_ns), Unit::Ns)
        })
        .or_drop()
        .column("Most frequent", MOST_FREQUENT, |database| usual(&database.receipt))
        .or_drop()
        .table;
    Table { left_out: left_out(sqlite), ..table }
}

fn bytes(sqlite: &Sqlite) -> Table {
    let costs = shown(sqlite).filter_map(|database| Some((database, database.receipt.mean.as_ref()?)));
    let bytes = |bytes: Option<f64>| Cell::known(bytes, Unit::Bytes);
    let table = Table::of("Bytes on the device for each transaction", costs)
        .column("Database", "", |(database, _)| Cell::Name(database.path.clone()))
        .column("All", "", |(_, mean)| bytes(mean.bytes))
        .column("Database", "Pages of the database file.", |(_, mean)| bytes(mean.database_bytes))
        .column("Journal, WAL", "The rollback journal, the WAL, and the index of the WAL.", |(_, mean)| {
            bytes(mean.journal_bytes)
        })
        .column("fs journal", "The journal of the file system.", |(_, mean)| bytes(mean.fs_journal_bytes))
        .column("Metadata", "Metadata of the file system, outside its journal.", |(_, mean)| {
            bytes(mean.fs_metadata_bytes)
        })
        .column("Other", "Writes of an unknown kind for the transaction.", |(_, mean)| {
            bytes(mean.other_bytes)
        })
        .or_drop()
        .table;
    Table { left_out: left_out(sqlite), ..table }
}

fn amplification(sqlite: &Sqlite) -> Table {
    let ratio = |ratio: Option<f64>| Cell::known(ratio, Unit::Ratio);
    let table = Table::of(
        "Write amplification: bytes on the device for each byte that SQLite wrote",
        shown(sqlite).map(|database| (database, &database.receipt.amplification)),
    )
    .column("Database", "", |(database, _)| Cell::Name(database.path.clone()))
    .column("Written", "Bytes that calls wrote to the database, its journal and its WAL.", |(_, bytes)| {
        bytes.written_bytes
    })
    .column("On device", "Bytes written to the device for these calls.", |(_, bytes)| bytes.device_bytes)
    .column("Amplification", "Bytes on the device for each byte written.", |(_, bytes)| ratio(bytes.total))
    .column("Data", "The part for database, journal and WAL.", |(_, bytes)| ratio(bytes.data))
    .or_drop()
    .column("Metadata", "The part for the file system's metadata.", |(_, bytes)| ratio(bytes.fs_metadata))
    .or_drop()
    .column("fs journal", "The part for the file system's journal.", |(_, bytes)| ratio(bytes.fs_journal))
    .or_drop()
    .table;
    Table { left_out: left_out(sqlite), detail: true, ..table }
}

fn notes(sqlite: &Sqlite) -> Vec<String> {
    let mut notes = vec![
        "A transaction counts from its first write to the first write of the next one, so a checkpoint counts for the \
         transaction before it. Writes that the kernel makes later, without a call that syncs, count only while the \
         recording lasts."
            .to_owned(),
    ];
    notes.extend(statements::notes(sqlite));
    let checkpoints: u64 = sqlite.databases.iter().map(|database| database.checkpoints).sum();
    if checkpoints > 0 {
        notes.push(format!(
            "Checkpoints (pages of the WAL written into the database): {}.",
            count(checkpoints)
        ));
    }
    if sqlite.all.rollbacks > 0 {
        notes.push(format!(
            "{} transactions were rolled back after they had written to a file; they are not in the averages.",
            count(sqlite.all.rollbacks)
        ));
    }
    if sqlite.journals_unknown > 0 {
        notes.push(format!(
            "{} writes went to journals whose database is unknown, so transactions are missing here, and the figures for \
             budgets are unknown.",
            count(sqlite.journals_unknown)
        ));
    }
    // Writes to a database whose journal is unknown look like writes without a journal.
    let unjournaled = |database: &&Database| database.unjournaled_writes > 0 && sqlite.journals_unknown == 0;
    for database in shown(sqlite).filter(unjournaled) {
        notes.push(format!(
            "{}: {} writes without a journal. With journal_mode OFF or MEMORY, transactions leave no trace in calls and \
             cannot be counted.",
            database.path,
            count(database.unjournaled_writes)
        ));
    }
    for database in shown(sqlite).filter(|database| !database.is_on_recorded_device) {
        notes.push(format!(
            "{}: no request to its device was recorded, so the cost on the device is unknown. Record the device that contains \
             it, or all devices.",
            database.path
        ));
    }
    if sqlite.databases.iter().any(|database| database.is_cut) {
        notes.push("Later transactions were left out: fonio's limit was reached.".to_owned());
    }
    if sqlite.calls_lost > 0 {
        notes.push(format!(
            "{} file-system calls were lost. Each can hide a transaction, so the figures for budgets are unknown.",
            count(sqlite.calls_lost)
        ));
    } else if !sqlite.is_complete && sqlite.journals_unknown == 0 {
        notes.push("Events were lost or filtered out, so the figures for budgets are unknown.".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use fonio_analysis::sqlite::ModeCount;

    use super::*;

    fn database(transactions: u64, writes: Option<f64>) -> Database {
        let mean = MeanCost {
            syncs: 4.0,
            writes,
            flushes: writes.map(|_| 6.0),
            bytes: writes.map(|_| 70_656.0),
            ..MeanCost::default()
        };
        Database {
            path: "/notes.db".to_owned(),
            modes: vec![ModeCount { mode: "truncate".to_owned(), transactions }],
            receipt: Receipt { transactions, mean: (transactions > 0).then_some(mean), ..Receipt::default() },
            is_on_recorded_device: writes.is_some(),
            ..Database::default()
        }
    }

    fn of(database: Database) -> Sqlite {
        Sqlite { databases: vec![database], is_complete: true, ..Sqlite::default() }
    }

    #[test]
    fn the_answer_says_what_is_known() {
        let whole = of(database(1000, Some(8.03)));
        let lossy = Sqlite { calls_lost: 2, is_complete: false, ..whole.clone() };
        for (sqlite, expected) in [
            (
                whole,
                "Each of the 1,000 transactions of /notes.db (journal mode truncate) took on average 8.03 device writes, 6 flushes and 69 KiB.",
            ),
            (
                lossy,
                "Each of the 1,000 transactions of /notes.db (journal mode truncate) took on average at least 8.03 device writes, 6 flushes and 69 KiB.",
            ),
            (
                of(database(1, Some(8.0))),
                "One transaction of /notes.db (journal mode truncate) took 8 device writes, 6 flushes and 69 KiB.",
            ),
            (
                of(database(2, None)),
                "Each of the 2 transactions of /notes.db (journal mode truncate) made 4 calls that sync. The cost on the device was not recorded.",
            ),
            (of(database(0, None)), "No committed transaction of /notes.db was recorded."),
        ] {
            assert_eq!(answer(&sqlite), expected);
        }
    }

    #[test]
    fn tables_have_a_cell_for_each_column_and_notes_name_what_is_missing() {
        let mut sqlite = of(database(3, None));
        sqlite.calls_lost = 5;
        sqlite.is_complete = false;
        sqlite.all.rollbacks = 2;
        sqlite.databases[0].unjournaled_writes = 7;
        sqlite.databases[0].checkpoints = 1;
        for table in [costs(&sqlite), bytes(&sqlite), amplification(&sqlite)] {
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.caption);
        }
        let notes = notes(&sqlite).join("\n");
        for words in [
            "Checkpoints",
            "2 transactions were rolled back",
            "7 writes without a journal",
            "no request",
            "5 file",
        ] {
            assert!(notes.contains(words), "{words}: {notes}");
        }
    }

    #[test]
    fn an_unknown_journal_is_not_called_a_missing_journal() {
        let mut sqlite = of(database(1, None));
        sqlite.databases[0].unjournaled_writes = 7;
        assert!(notes(&sqlite).join("\n").contains("journal_mode OFF"));
        (sqlite.journals_unknown, sqlite.is_complete) = (14, false);
        let notes = notes(&sqlite).join("\n");
        assert!(notes.contains("14 writes went to journals whose database is unknown"), "{notes}");
        assert!(!notes.contains("OFF") && !notes.contains("Events were lost"), "{notes}");
    }
}
