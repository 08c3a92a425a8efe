//! The contract of a consumer of rows, and two macros for the kinds of rows that it does not need.

use std::io;

use crate::rows::{
    Bio, BlockedCount, Call, Diagnostic, File, Link, Mark, Request, Sample, Statement, Thread, Wait,
};
use crate::units::Timestamp;

/// Takes the rows of a recording. The recording writer, the analysis and the filters implement it.
///
/// Rows of each table arrive in that table's order, unless a producer documents otherwise. Tables are interleaved
/// freely, but a row to which others refer by time (a thread, a file) comes before them. An error is a failure of the
/// sink itself (a full disk) and ends the producer.
///
/// A sink handles every kind of row explicitly, so that none is forgotten: [`ignore_rows!`](crate::ignore_rows) names
/// the kinds that it does not need, and [`forward_rows!`](crate::forward_rows) those that it passes on unchanged.
///
/// ```
/// use std::io;
///
/// use fonio_core::{Mark, RowSink, ignore_rows};
///
/// struct MarkNames(Vec<String>);
///
/// impl RowSink for MarkNames {
///     fn mark(&mut self, row: &Mark) -> io::Result<()> {
///         self.0.push(row.name.clone());
///         Ok(())
///     }
///     ignore_rows!(began, request, bio, link, call, statement, wait, blocked_count, file, thread, sample, diagnostic, settled);
/// }
/// ```
#[allow(missing_docs)]
pub trait RowSink {
    /// Called once, before any row, with the first instant covered, if there is one. Times that a user states count
    /// from it.
    fn began(&mut self, at: Timestamp) -> io::Result<()>;
    fn request(&mut self, row: &Request) -> io::Result<()>;
    fn bio(&mut self, row: &Bio) -> io::Result<()>;
    fn link(&mut self, row: &Link) -> io::Result<()>;
    fn call(&mut self, row: &Call) -> io::Result<()>;
    fn statement(&mut self, row: &Statement) -> io::Result<()>;
    fn wait(&mut self, row: &Wait) -> io::Result<()>;
    fn blocked_count(&mut self, row: &BlockedCount) -> io::Result<()>;
    fn file(&mut self, row: &File) -> io::Result<()>;
    fn thread(&mut self, row: &Thread) -> io::Result<()>;
    fn sample(&mut self, row: &Sample) -> io::Result<()>;
    fn mark(&mut self, row: &Mark) -> io::Result<()>;
    fn diagnostic(&mut self, row: &Diagnostic) -> io::Result<()>;
    /// Promises that no more requests or bios ordered before `before` will come. A producer whose rows are out of order
    /// calls this, so that a sink that sorts them need not hold them all.
    fn settled(&mut self, before: Timestamp) -> io::Result<()>;
    /// Takes a wait that a filter leaves out. The wait counts only for threads that pass the filter and
    /// waited for this one.
    fn wait_left_out(&mut self, _: &Wait) -> io::Result<()> {
        Ok(())
    }
    /// Whether the sink needs bios and links; if not, a producer may leave them out.
    fn wants_bios(&self) -> bool {
        true
    }
}

/// Implements the named methods of a [`RowSink`] as methods that do nothing: `ignore_rows!(bio, link);`.
#[macro_export]
macro_rules! ignore_rows {
    ($($method:ident),+ $(,)?) => {$(
        fn $method(&mut self, _: $crate::__argument_of_row_sink!($method)) -> ::std::io::Result<()> {
            Ok(())
        }
    )+};
}

/// Implements the named methods of a [`RowSink`] as calls of the same method of the sink in a field,
/// `forward_rows!(inner: bio, link);`, of the sink that a method gives, `forward_rows!(sink(): bio, link);`, or of the sink
/// that a reference points to, `forward_rows!(*: bio, link);`.
#[macro_export]
macro_rules! forward_rows {
    (*: $($method:ident),+ $(,)?) => {$(
        fn $method(&mut self, row: $crate::__argument_of_row_sink!($method)) -> ::std::io::Result<()> {
            (**self).$method(row)
        }
    )+};
    ($field:ident: $($method:ident),+ $(,)?) => {$(
        fn $method(&mut self, row: $crate::__argument_of_row_sink!($method)) -> ::std::io::Result<()> {
            self.$field.$method(row)
        }
    )+};
    ($next:ident(): $($method:ident),+ $(,)?) => {$(
        fn $method(&mut self, row: $crate::__argument_of_row_sink!($method)) -> ::std::io::Result<()> {
            self.$next().$method(row)
        }
    )+};
}

/// The type of the argument of a [`RowSink`]'s method.
#[doc(hidden)]
#[macro_export]
macro_rules! __argument_of_row_sink {
    (began) => {
        $crate::units::Timestamp
    };
    (request) => {
        &$crate::rows::Request
    };
    (bio) => {
        &$crate::rows::Bio
    };
    (link) => {
        &$crate::rows::Link
    };
    (call) => {
        &$crate::rows::Call
    };
    (statement) => {
        &$crate::rows::Statement
    };
    (wait) => {
        &$crate::rows::Wait
    };
    (wait_left_out) => {
        &$crate::rows::Wait
    };
    (blocked_count) => {
        &$crate::rows::BlockedCount
    };
    (file) => {
        &$crate::rows::File
    };
    (thread) => {
        &$crate::rows::Thread
    };
    (sample) => {
        &$crate::rows::Sample
    };
    (mark) => {
        &$crate::rows::Mark
    };
    (diagnostic) => {
        &$crate::rows::Diagnostic
    };
    (settled) => {
        $crate::units::Timestamp
    };
}

impl<S: RowSink + ?Sized> RowSink for &mut S {
    forward_rows! {
        *: began, request, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic,
        settled, wait_left_out
    }

    fn wants_bios(&self) -> bool {
        (**self).wants_bios()
    }
}
