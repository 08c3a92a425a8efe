//! Converts rows to Arrow record batches, for programs that read tables without a recording on disk.

use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use fonio_core::{
    Bio, BlockedCount, Call, File, Link, Mark, Request, RowSink, Sample, Statement, Thread, Wait, ignore_rows,
};

use crate::schema::{self, Row};
use crate::table::{Table, with_tables};

/// Number of rows in a batch: enough to make the cost per batch small, and little memory.
const BATCH_ROWS: usize = 8192;
/// Number of bytes of texts from which a batch is complete, because rows of strangers can have long texts.
const BATCH_TEXT_BYTES: usize = 4 << 20;

macro_rules! batch_sink {
    ($($rows:ident: $table:ident $row:ident $method:ident,)*) => {
        impl Table {
            /// Returns the columns of the table, as [`BatchSink`] and [`Recording::batches`](crate::Recording::batches)
            /// give them.
            pub fn schema(self) -> SchemaRef {
                match self { $(Table::$table => schema::arrow_schema::<$row>(),)* }
            }
        }

        /// A [`RowSink`] that gathers the rows of one table and passes them on as record batches. Rows of other
        /// tables are ignored.
        pub struct BatchSink<G> {
            table: Table,
            schema: SchemaRef,
            give: G,
            $($rows: Gathered<$row>,)*
        }

        impl<G: FnMut(RecordBatch) -> io::Result<()>> BatchSink<G> {
            /// Creates a sink that passes the batches of `table` to `give`.
            pub fn new(table: Table, give: G) -> BatchSink<G> {
                BatchSink { table, schema: table.schema(), give, $($rows: Gathered::default(),)* }
            }

            /// Passes on the remaining rows. Without this call, these rows are lost. Returns errors of `give`.
            pub fn finish(mut self) -> io::Result<()> {
                match self.table {
                    $(Table::$table => match self.$rows.take(&self.schema) {
                        Some(batch) => (self.give)(batch),
                        None => Ok(()),
                    },)*
                }
            }
        }

        impl<G: FnMut(RecordBatch) -> io::Result<()>> RowSink for BatchSink<G> {
            $(fn $method(&mut self, row: &$row) -> io::Result<()> {
                if self.table == Table::$table && self.$rows.is_full_with(row) {
                    let batch = self.$rows.take(&self.schema).expect("there is at least this row");
                    return (self.give)(batch);
                }
                Ok(())
            })*

            ignore_rows!(began, diagnostic, settled);

            fn wants_bios(&self) -> bool {
                matches!(self.table, Table::Bios | Table::Links)
            }
        }
    };
}
with_tables!(batch_sink);

/// The rows of the next batch.
struct Gathered<R> {
    rows: Vec<R>,
    text_bytes: usize,
}

impl<R> Default for Gathered<R> {
    fn default() -> Gathered<R> {
        Gathered { rows: Vec::new(), text_bytes: 0 }
    }
}

impl<R: Row> Gathered<R> {
    /// Adds a row. Returns whether the batch is complete.
    fn is_full_with(&mut self, row: &R) -> bool {
        self.text_bytes += row.text_bytes();
        self.rows.push(row.clone());
        self.rows.len() >= BATCH_ROWS || self.text_bytes >= BATCH_TEXT_BYTES
    }

    /// Removes the gathered rows and converts them to columns; `None` if there are no rows.
    fn take(&mut self, schema: &SchemaRef) -> Option<RecordBatch> {
        if self.rows.is_empty() {
            return None;
        }
        let batch = RecordBatch::try_new(Arc::clone(schema), R::encode(&self.rows));
        self.rows.clear();
        self.text_bytes = 0;
        Some(batch.expect("the arrays of the rows match the schema"))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use fonio_core::{ByteCount, DeviceId, Op, Timestamp};

    use super::*;

    fn request(request_id: u64) -> Request {
        Request { request_id, ..Request::new(DeviceId::default(), Op::Read, ByteCount(4096)) }
    }

    #[test]
    fn the_rows_of_one_table_arrive_in_order_and_in_batches() {
        let mut batches = Vec::new();
        let mut sink = BatchSink::new(Table::Requests, |batch| {
            batches.push(batch);
            Ok(())
        });
        let rows = BATCH_ROWS as u64 + 5;
        for id in 0..rows {
            sink.request(&request(id)).expect("memory takes everything");
            sink.mark(&Mark { at: Timestamp(id), until: None, name: "other".into(), tid: None })
                .expect("it is ignored");
        }
        sink.finish().expect("memory takes everything");
        let sizes: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(sizes, [BATCH_ROWS, 5]);
        let ids: Vec<i64> = batches
            .iter()
            .flat_map(|batch| batch["request_id"].as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert_eq!(ids, (0..rows as i64).collect::<Vec<_>>());
        assert!(batches.iter().all(|batch| batch.schema() == Table::Requests.schema()));
    }
}
