//! Defines every table of a recording with one line per column. Each line has the field of the row, the type
//! of the field, the name of the column, and the layout of the column. A column marked `added` is missing in
//! recordings of older versions; in such a recording, the column is read as null.
//!
//! Changing the name, the stored type or the meaning of a column changes the schema: raise `SCHEMA_VERSION`
//! and describe the change in `docs/recording-reference.md`. Text columns with and without a dictionary have
//! the same stored type.

use arrow_array::ArrayRef;
use fonio_core::{
    Bio, BlockedCount, BlockedIn, ByteCount, Call, Content, DeviceId, File, FileFlags, Flags, IoWait, Link,
    LinkEnd, LinkKind, Mark, Metric, Nanos, Op, Request, Sample, Sector, SqliteWrite, Statement, Thread,
    Timestamp, Wait, WaitReason,
};

use super::cell::{self, Cell};
use super::{BadCell, Column, Layout, Row};
use crate::table::Table;

macro_rules! is_added {
    () => {
        false
    };
    (added) => {
        true
    };
}

macro_rules! tables {
    ($($row:ident => $table:ident { $($field:ident: $cell:ty => $name:literal $layout:ident $($added:ident)?,)* })*) => {$(
        impl Row for $row {
            const TABLE: Table = Table::$table;

            fn columns() -> Vec<Column> {
                vec![$(Column {
                    name: $name,
                    data_type: <$cell as Cell>::data_type(),
                    nullable: <$cell as Cell>::NULLABLE,
                    layout: Layout::$layout,
                    is_added: is_added!($($added)?),
                }),*]
            }

            fn encode(rows: &[$row]) -> Vec<ArrayRef> {
                vec![$(cell::encode::<$row, $cell>(rows, |row| &row.$field)),*]
            }

            fn text_bytes(&self) -> usize {
                0 $(+ Cell::text_bytes(&self.$field))*
            }

            fn decode(columns: &[ArrayRef], count: usize, rows: &mut Vec<$row>) -> Result<(), BadCell> {
                let mut columns = columns.iter();
                $(let mut $field = cell::open::<$cell>($name, columns.next());)*
                rows.reserve(count);
                for row in 0..count {
                    rows.push($row { $($field: $field.at(row)?),* });
                }
                Ok(())
            }
        }
    )*};
}

tables! {
    Request => Requests {
        request_id: u64 => "request_id" Near,
        device: DeviceId => "device" Few,
        op: Op => "op" Few,
        flags: Flags => "flags" Few,
        flags_known: Flags => "flags_known" Few,
        sector: Option<Sector> => "sector" Near,
        bytes: ByteCount => "bytes" Few,
        queued: Option<Timestamp> => "queued_ns" Near,
        inserted: Option<Timestamp> => "inserted_ns" Near,
        issued: Option<Timestamp> => "issued_ns" Near,
        reissued: Option<Timestamp> => "reissued_ns" Near,
        completed: Option<Timestamp> => "completed_ns" Near,
        requeues: Option<u32> => "requeues" Few,
        cpu: Option<u32> => "cpu" Few,
        tid: Option<u32> => "tid" Few,
        cause_tid: Option<u32> => "cause_tid" Few,
        file_id: Option<u32> => "file_id" Few,
        content: Content => "content" Few,
        ioprio: Option<u16> => "ioprio" Few,
        error: Option<i32> => "error" Few,
    }
    Bio => Bios {
        bio_id: u64 => "bio_id" Near,
        device: DeviceId => "device" Few,
        op: Op => "op" Few,
        flags: Flags => "flags" Few,
        flags_known: Flags => "flags_known" Few,
        sector: Option<Sector> => "sector" Near,
        bytes: ByteCount => "bytes" Few,
        queued: Timestamp => "queued_ns" Near,
        completed: Option<Timestamp> => "completed_ns" Near,
        tid: Option<u32> => "tid" Few,
        cause_tid: Option<u32> => "cause_tid" Few,
        file_id: Option<u32> => "file_id" Few,
        request_id: Option<u64> => "request_id" Near,
    }
    Link => Links {
        kind: LinkKind => "kind" Few,
        parent_table: LinkEnd => "parent_table" Few,
        parent: u64 => "parent" Near,
        child_table: LinkEnd => "child_table" Few,
        child: u64 => "child" Near,
    }
    Call => Calls {
        call_id: u64 => "call_id" Near,
        name: String => "name" Few,
        tid: u32 => "tid" Few,
        file_id: Option<u32> => "file_id" Few,
        offset: Option<u64> => "offset" Near,
        bytes: Option<ByteCount> => "bytes" Few,
        entered: Timestamp => "entered_ns" Near,
        exited: Option<Timestamp> => "exited_ns" Near,
        result: Option<i64> => "result" Few,
        sqlite_write: Option<SqliteWrite> => "sqlite_write" Few added,
        file_flags: Option<FileFlags> => "file_flags" Few added,
    }
    Statement => Statements {
        tid: u32 => "tid" Few,
        connection: Option<u32> => "connection" Few,
        entered: Timestamp => "entered_ns" Near,
        exited: Option<Timestamp> => "exited_ns" Near,
        steps: u64 => "steps" Few,
        stepping: Nanos => "stepping_ns" Near,
        text: Option<String> => "text" Few,
    }
    Wait => Waits {
        tid: u32 => "tid" Few,
        began: Timestamp => "began_ns" Near,
        ended: Option<Timestamp> => "ended_ns" Near,
        reason: WaitReason => "reason" Few,
        request_id: Option<u64> => "request_id" Near,
        waker_tid: Option<u32> => "waker_tid" Few,
        blocked_in: Option<BlockedIn> => "blocked_in" Few added,
        file_id: Option<u32> => "file_id" Few added,
        io_wait: Option<IoWait> => "io_wait" Few added,
        function: Option<String> => "function" Few added,
    }
    BlockedCount => BlockedCounts {
        tid: u32 => "tid" Few,
        blocked_in: BlockedIn => "blocked_in" Few,
        reason: WaitReason => "reason" Few,
        from: Timestamp => "from_ns" Near,
        until: Timestamp => "until_ns" Near,
        below: Nanos => "below_ns" Few,
        count: u64 => "count" Few,
        total: Nanos => "total_ns" Near,
    }
    File => Files {
        file_id: u32 => "file_id" Near,
        from: Timestamp => "from_ns" Near,
        device: Option<DeviceId> => "device" Few,
        inode: Option<u64> => "inode" Near,
        path: Option<String> => "path" Few,
        content: Content => "content" Few,
    }
    Thread => Threads {
        tid: u32 => "tid" Few,
        from: Timestamp => "from_ns" Near,
        pid: Option<u32> => "pid" Few,
        comm: Option<String> => "comm" Few,
        cgroup: Option<String> => "cgroup" Few,
        uid: Option<u32> => "uid" Few,
        parent_pid: Option<u32> => "parent_pid" Few added,
        unit: Option<String> => "unit" Few added,
    }
    Sample => Samples {
        time: Timestamp => "time_ns" Near,
        metric: Metric => "metric" Few,
        subject: Option<String> => "subject" Few,
        value: i64 => "value" Few,
    }
    Mark => Marks {
        at: Timestamp => "at_ns" Near,
        until: Option<Timestamp> => "until_ns" Near,
        name: String => "name" Few,
        tid: Option<u32> => "tid" Few,
    }
}
