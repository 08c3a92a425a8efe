//! Keeps rows in memory.

use std::io;

use crate::rows::{
    Bio, BlockedCount, Call, Diagnostic, File, Link, Mark, Request, Sample, Statement, Thread, Wait,
};
use crate::sink::RowSink;
use crate::units::Timestamp;

macro_rules! collected {
    ($($rows:ident: $method:ident $row:ident,)*) => {
        /// Stores the rows of a small recording. The rows of each table are in order of arrival.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[allow(missing_docs)]
        pub struct CollectedRows {
            /// The start of the recorded period.
            pub began: Option<Timestamp>,
            $(pub $rows: Vec<$row>,)*
        }

        impl CollectedRows {
            /// Sends the rows to another sink, one table after the other. Returns errors of the sink.
            pub fn feed(&self, sink: &mut dyn RowSink) -> io::Result<()> {
                self.began.map_or(Ok(()), |at| sink.began(at))?;
                $(self.$rows.iter().try_for_each(|row| sink.$method(row))?;)*
                Ok(())
            }
        }

        impl RowSink for CollectedRows {
            $(fn $method(&mut self, row: &$row) -> io::Result<()> {
                self.$rows.push(row.to_owned());
                Ok(())
            })*
            fn began(&mut self, at: Timestamp) -> io::Result<()> {
                self.began = Some(at);
                Ok(())
            }
            fn settled(&mut self, _: Timestamp) -> io::Result<()> {
                Ok(())
            }
        }
    };
}

collected! {
    requests: request Request,
    bios: bio Bio,
    links: link Link,
    calls: call Call,
    statements: statement Statement,
    waits: wait Wait,
    blocked_counts: blocked_count BlockedCount,
    files: file File,
    threads: thread Thread,
    samples: sample Sample,
    marks: mark Mark,
    diagnostics: diagnostic Diagnostic,
}
