//! Defines the contract of a consumer of rows, and two macros that help to implement it.

use std::io;

use crate::rows::{
    Bio, BlockedCount, Call, Diagnostic, File, Link, Mark, Request, Sample, Statement, Thread, Wait,
};
use crate::units::Timestamp;

/// Receives the rows of a recording. The recording writer, the analysis and the filters are row sinks.
///
/// Rows of each table arrive in that table's order, unless a producer documents otherwise. Rows of different
/// tables can be interleaved, but a thread or file comes before the rows that refer to it. An error means
/// that the sink itself failed (for example, disk full); the producer stops.
///
/// A sink must handle every kind of row explicitly. [`ignore_rows!`](crate::ignore_rows) lists the kinds that
/// the sink ignores, and [`forward_rows!`](crate::forward_rows) lists the kinds that it forwards unchanged.
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
    /// Receives the start of the recorded period, if it is known. This method is called once, before any row.
    /// Times in user input are relative to this start.
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
    /// Promises that the sort time of every later request or bio is `before` or later. Producers with
    /// unordered rows call this method, so a sink that sorts rows can release the earlier rows.
    fn settled(&mut self, before: Timestamp) -> io::Result<()>;
    /// Receives a wait of a thread that the filter excludes. The sink may need this wait, because a thread
    /// that passed the filter can have waited for the excluded thread.
    fn wait_left_out(&mut self, _: &Wait) -> io::Result<()> {
        Ok(())
    }
    /// Whether the sink needs bios and links. If it does not, a producer may omit these rows.
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

/// Implements the named methods of a [`RowSink`] by forwarding to another sink. The other sink can be a field
/// (`forward_rows!(inner: bio, link);`), the result of a method (`forward_rows!(sink(): bio, link);`), or the
/// target of a reference (`forward_rows!(*: bio, link);`).
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

/// The argument type of a method of [`RowSink`].
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
