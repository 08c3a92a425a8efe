//! What does a transaction of an SQLite database cost?

use fonio_analysis::sqlite::{Amplification, Database, MeanCost, Receipt, Sqlite};
use fonio_core::Unit;

use super::{About, count, listed, statements};
use crate::document::{Cell, Column, Section, Table};

/// Number of databases in a table.
const LISTED: usize = 20;

pub fn section(about: &About<'_>) -> Option<Section> {
    let sqlite = about.analysis.sqlite.as_ref()?;
    // A recording with calls only of programs without SQLite has no answer here.
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
        return format!("No transaction of {} was seen to be committed.", first.path);
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
            "{transactions} of {}{mode} made {least}{syncs} calls that sync. What they cost on the device was not recorded.",
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
    let rows = shown(sqlite).map(|database| {
        let Receipt { transactions, mean, usual, .. } = &database.receipt;
        let per = |cost: fn(&MeanCost) -> Option<f64>| mean.as_ref().and_then(cost);
        let modes: Vec<String> = database.modes.iter().map(|mode| mode.mode.clone()).collect();
        vec![
            Cell::Name(database.path.clone()),
            if modes.is_empty() { Cell::Unknown } else { Cell::words(listed(&modes)) },
            Cell::count(*transactions, Unit::Count),
            Cell::known(per(|mean| Some(mean.syncs)), Unit::Number),
            Cell::known(per(|mean| mean.writes), Unit::Number),
            Cell::known(per(|mean| mean.flushes), Unit::Number),
            Cell::known(per(|mean| mean.bytes), Unit::Bytes),
            Cell::known(per(|mean| mean.blocked_ns), Unit::Ns),
            Cell::known(per(|mean| Some(mean.sync_ns)), Unit::Ns),
            usual.as_ref().map_or(Cell::Unknown, |usual| {
                Cell::words(format!(
                    "{} + {} + {} ({} of {})",
                    usual.syncs,
                    usual.writes,
                    usual.flushes,
                    count(usual.transactions),
                    count(*transactions)
                ))
            }),
        ]
    });
    Table {
        caption: "The cost of a transaction, on average".into(),
        columns: vec![
            Column::new("Database"),
            Column::noted("Journal", "The journal mode, as far as the calls show it."),
            Column::new("Transactions"),
            Column::noted("Syncs", "Calls that sync: fsync, fdatasync, sync_file_range, msync."),
            Column::noted("Writes", "Write requests to the device, after merging."),
            Column::noted("Flushes", "Requests that make the device empty its cache."),
            Column::noted("On device", "Bytes written to the device."),
            Column::noted("Blocked", "Time for which the threads were blocked on storage."),
            Column::noted("In syncs", "Time in the calls that sync.").or_drop(),
            Column::noted(
                "Most frequent",
                "The most frequent number of syncs, writes and flushes, and how many transactions had exactly these.",
            )
            .or_drop(),
        ],
        rows: rows.collect(),
        left_out: left_out(sqlite),
        ..Table::default()
    }
}

fn bytes(sqlite: &Sqlite) -> Table {
    let rows = shown(sqlite).filter_map(|database| {
        let mean = database.receipt.mean.as_ref()?;
        let mut row = vec![Cell::Name(database.path.clone())];
        row.extend(
            [
                mean.bytes,
                mean.database_bytes,
                mean.journal_bytes,
                mean.fs_journal_bytes,
                mean.fs_metadata_bytes,
                mean.other_bytes,
            ]
            .map(|bytes| Cell::known(bytes, Unit::Bytes)),
        );
        Some(row)
    });
    Table {
        caption: "Bytes on the device for each transaction".into(),
        columns: vec![
            Column::new("Database"),
            Column::new("All"),
            Column::noted("Database", "Pages of the database file."),
            Column::noted("Journal, WAL", "The rollback journal, the WAL, and the index of the WAL."),
            Column::noted("fs journal", "The journal of the file system."),
            Column::noted("Metadata", "Metadata of the file system, outside its journal."),
            Column::noted("Other", "Writes for the transaction whose kind is unknown.").or_drop(),
        ],
        rows: rows.collect(),
        left_out: left_out(sqlite),
        ..Table::default()
    }
}

fn amplification(sqlite: &Sqlite) -> Table {
    let rows = shown(sqlite).map(|database| {
        let Amplification { written_bytes, device_bytes, total, data, fs_metadata, fs_journal } =
            &database.receipt.amplification;
        vec![
            Cell::Name(database.path.clone()),
            Cell::count(*written_bytes, Unit::Bytes),
            device_bytes.map_or(Cell::Unknown, |bytes| Cell::count(bytes, Unit::Bytes)),
            Cell::known(*total, Unit::Ratio),
            Cell::known(*data, Unit::Ratio),
            Cell::known(*fs_metadata, Unit::Ratio),
            Cell::known(*fs_journal, Unit::Ratio),
        ]
    });
    Table {
        caption: "Write amplification: bytes on the device for each byte that SQLite wrote".into(),
        columns: vec![
            Column::new("Database"),
            Column::noted("Written", "Bytes that calls wrote to the database, its journal and its WAL."),
            Column::noted("On device", "Bytes written to the device for them."),
            Column::noted("Amplification", "Bytes on the device for each byte written."),
            Column::noted("Data", "The part of database, journal and WAL.").or_drop(),
            Column::noted("Metadata", "The part of the file system's metadata.").or_drop(),
            Column::noted("fs journal", "The part of the file system's journal.").or_drop(),
        ],
        rows: rows.collect(),
        left_out: left_out(sqlite),
        detail: true,
        ..Table::default()
    }
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
    for database in shown(sqlite).filter(|database| database.unjournaled_writes > 0) {
        notes.push(format!(
            "{}: {} writes without a journal. With journal_mode OFF or MEMORY, transactions leave no trace in calls and \
             cannot be counted.",
            database.path,
            count(database.unjournaled_writes)
        ));
    }
    for database in shown(sqlite).filter(|database| !database.is_on_recorded_device) {
        notes.push(format!(
            "{}: no request to its device was recorded, so the cost on the device is unknown. Record the device that holds \
             it, or all devices.",
            database.path
        ));
    }
    if sqlite.databases.iter().any(|database| database.is_cut) {
        notes.push("Later transactions were left out, because there were more than fonio keeps.".to_owned());
    }
    if sqlite.calls_lost > 0 {
        notes.push(format!(
            "{} file-system calls were lost, each of which can hide a transaction. The figures for budgets are therefore \
             unknown.",
            count(sqlite.calls_lost)
        ));
    } else if !sqlite.is_complete {
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
                "Each of the 2 transactions of /notes.db (journal mode truncate) made 4 calls that sync. What they cost on the device was not recorded.",
            ),
            (of(database(0, None)), "No transaction of /notes.db was seen to be committed."),
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
}
