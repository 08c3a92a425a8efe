//! Section on files: which files are read and written, and for which programs.

use fonio_analysis::causes::files::{FileUse, Files};

use super::{About, listed};
use crate::document::{Cell, Section, Table};
use fonio_core::{ByteCount, Unit};

/// Maximum number of files in the table.
const LISTED: usize = 40;

/// The name of each kind of data in the report.
const CONTENTS: [(&str, &str); 8] = [
    ("data", "data"),
    ("fs_metadata", "metadata"),
    ("fs_journal", "fs journal"),
    ("sqlite_db", "SQLite database"),
    ("sqlite_journal", "SQLite journal"),
    ("sqlite_wal", "SQLite WAL"),
    ("swap", "swap"),
    ("unknown", "unknown"),
];

pub fn section(about: &About<'_>) -> Option<Section> {
    let files = about.analysis.files.as_ref()?;
    Some(Section {
        id: "files".into(),
        question: "Which files?".into(),
        answer: answer(files),
        tables: std::iter::once(table(files)).chain(packages(files)).collect(),
        notes: notes(files),
        ..Section::default()
    })
}

fn answer(files: &Files) -> String {
    let first = files.files.iter().find(|file| file.path.is_some());
    let Some(first) = first else { return "No file paths are known.".to_owned() };
    let mut did = Vec::new();
    if first.write_bytes > ByteCount(0) {
        did.push(format!("{} written", first.write_bytes));
    }
    if first.read_bytes > ByteCount(0) {
        did.push(format!("{} read", first.read_bytes));
    }
    let path = first.path.as_deref().unwrap_or_default();
    let by = who(first).map(|who| format!(", mostly for {who}")).unwrap_or_default();
    format!("Most bytes belong to {path}: {}{by}.", listed(&did))
}

fn who(file: &FileUse) -> Option<String> {
    let cause = file.cause.as_ref()?;
    Some(match &file.cause_unit {
        Some(unit) => format!("{cause} ({unit})"),
        None => cause.clone(),
    })
}

fn content(name: &str) -> &str {
    CONTENTS.iter().find(|(known, _)| *known == name).map_or(name, |(_, words)| words)
}

fn name(file: &FileUse) -> Cell {
    match (&file.path, file.inode) {
        (Some(path), _) => Cell::Name(path.clone()),
        (None, Some(inode)) => {
            Cell::Name(format!("inode {inode} on {}", file.device.as_deref().unwrap_or("an unknown device")))
        }
        (None, None) => Cell::words("(no file)"),
    }
}

fn table(files: &Files) -> Table {
    let caused_by = "The process that caused most of the bytes, with its systemd unit or container.";
    let table = Table::of("Files", files.files.iter().take(LISTED))
        .column("File", "", |file| name(file))
        .whose()
        .column("Content", "", |file| Cell::words(content(&file.content)))
        .column("Written", "", |file| file.write_bytes)
        .column("Read", "", |file| file.read_bytes)
        .column("Requests", "", |file| Cell::count(file.requests, Unit::Count))
        .or_drop()
        .column("Caused by", caused_by, |file| who(file).map_or(Cell::Unknown, Cell::Name))
        .whose()
        .column("Its share", "The share of the bytes that this process caused.", |file| {
            file.cause_share.map_or(Cell::Unknown, Cell::Bar)
        })
        .or_drop()
        .table;
    let left_out = files.files.len().saturating_sub(LISTED) as u64 + files.files_beyond_cap;
    Table { left_out, ..table }
}

/// Returns the table of Android's packages, if the path of a file names one.
fn packages(files: &Files) -> Option<Table> {
    if files.packages.is_empty() {
        return None;
    }
    let table = Table::of("Files by app", files.packages.iter().take(LISTED))
        .column("App", "The package in whose folders the files are.", |app| Cell::Name(app.package.clone()))
        .whose()
        .column("Written", "", |app| app.write_bytes)
        .column("Read", "", |app| app.read_bytes)
        .column("Requests", "", |app| Cell::count(app.requests, Unit::Count))
        .column("Files", "", |app| Cell::count(app.files, Unit::Count))
        .or_drop()
        .table;
    Some(Table { left_out: files.packages.len().saturating_sub(LISTED) as u64, ..table })
}

fn notes(files: &Files) -> Vec<String> {
    let mut notes = vec![
        "Write-back counts for the thread that wrote into the page cache; a commit of the journal counts for the \
         thread whose fsync waited for the commit."
            .to_owned(),
    ];
    let shares: Vec<String> =
        [(files.unknown_share, "the content"), (files.cause_unknown_share, "the cause")]
            .iter()
            .filter_map(|(share, of)| {
                let share = share.filter(|share| *share > 0.0)?;
                Some(format!("{of} of {} of the bytes", Unit::Share.format(share)))
            })
            .collect();
    if !shares.is_empty() {
        notes.push(format!("Unknown: {}.", listed(&shares)));
    }
    notes
}
