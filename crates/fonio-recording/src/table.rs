//! The names of a recording's tables.

use std::fmt;

/// A Parquet table of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Table {
    Requests,
    Bios,
    Links,
    Calls,
    Statements,
    Waits,
    BlockedCounts,
    Files,
    Threads,
    Samples,
    Marks,
}

impl Table {
    /// Every table.
    pub const ALL: [Table; 11] = [
        Table::Requests,
        Table::Bios,
        Table::Links,
        Table::Calls,
        Table::Statements,
        Table::Waits,
        Table::BlockedCounts,
        Table::Files,
        Table::Threads,
        Table::Samples,
        Table::Marks,
    ];

    /// The name in `meta.json`; the file is `NAME.parquet`.
    pub fn name(self) -> &'static str {
        match self {
            Table::Requests => "requests",
            Table::Bios => "bios",
            Table::Links => "links",
            Table::Calls => "calls",
            Table::Statements => "statements",
            Table::Waits => "waits",
            Table::BlockedCounts => "blocked_counts",
            Table::Files => "files",
            Table::Threads => "threads",
            Table::Samples => "samples",
            Table::Marks => "marks",
        }
    }

    /// Returns whether a recording has the table even if it has no rows.
    pub fn always_written(self) -> bool {
        matches!(self, Table::Requests | Table::Files | Table::Threads)
    }

    pub(crate) fn file_name(self) -> String {
        format!("{}.parquet", self.name())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of tables, for [`Recording::replay`](crate::Recording::replay). It can also contain the diagnostics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables(u16);

impl Tables {
    /// No table.
    pub const NONE: Tables = Tables(0);
    /// Every table, and the diagnostics.
    pub const ALL: Tables = Tables(u16::MAX);
    /// Only the diagnostics.
    pub const DIAGNOSTICS: Tables = Tables(1 << 15);

    /// The set with `table` added.
    pub const fn with(self, table: Table) -> Tables {
        Tables(self.0 | 1 << table as u16)
    }

    /// The set without `table`.
    pub const fn without(self, table: Table) -> Tables {
        Tables(self.0 & !(1 << table as u16))
    }

    /// The set with the diagnostics added.
    pub const fn with_diagnostics(self) -> Tables {
        Tables(self.0 | Tables::DIAGNOSTICS.0)
    }

    /// Returns whether the set contains `table`.
    pub const fn contains(self, table: Table) -> bool {
        self.0 & 1 << table as u16 != 0
    }

    /// Returns whether the set contains the diagnostics.
    pub const fn has_diagnostics(self) -> bool {
        self.0 & Tables::DIAGNOSTICS.0 != 0
    }
}
