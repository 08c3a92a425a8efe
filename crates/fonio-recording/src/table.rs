//! Lists the tables of a recording.

use std::fmt;

/// Calls a macro with a line for each table. The line has the table's field, its name, its row type, and the
/// [`RowSink`](fonio_core::RowSink) method for its rows.
macro_rules! with_tables {
    ($then:ident) => {
        $then! {
            requests: Requests Request request,
            bios: Bios Bio bio,
            links: Links Link link,
            calls: Calls Call call,
            statements: Statements Statement statement,
            waits: Waits Wait wait,
            blocked_counts: BlockedCounts BlockedCount blocked_count,
            files: Files File file,
            threads: Threads Thread thread,
            samples: Samples Sample sample,
            marks: Marks Mark mark,
        }
    };
}
pub(crate) use with_tables;

macro_rules! declare_tables {
    ($($rows:ident: $table:ident $row:ident $method:ident,)*) => {
        /// A Parquet table of a recording.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)]
        pub enum Table {
            $($table,)*
        }

        impl Table {
            /// All tables of a recording.
            pub const ALL: [Table; 11] = [$(Table::$table,)*];

            /// Returns the table's name in `meta.json`. The table's file is `NAME.parquet`.
            pub fn name(self) -> &'static str {
                match self { $(Table::$table => stringify!($rows),)* }
            }
        }
    };
}
with_tables!(declare_tables);

impl Table {
    /// Returns whether every recording has the table, even if the table has no rows.
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

/// A set of tables, with or without the diagnostics, for [`Recording::replay`](crate::Recording::replay).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables(u16);

impl Tables {
    /// The empty set.
    pub const NONE: Tables = Tables(0);
    /// The set of all tables, with the diagnostics.
    pub const ALL: Tables = Tables(u16::MAX);
    /// The set that contains only the diagnostics.
    pub const DIAGNOSTICS: Tables = Tables(1 << 15);

    /// Returns the set with `table` added.
    pub const fn with(self, table: Table) -> Tables {
        Tables(self.0 | 1 << table as u16)
    }

    /// Returns the set with `table` removed.
    pub const fn without(self, table: Table) -> Tables {
        Tables(self.0 & !(1 << table as u16))
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
