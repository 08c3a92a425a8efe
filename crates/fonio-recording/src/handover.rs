//! Passes rows between threads, so that one processor reads a trace while a second processor analyses the
//! rows.

use std::io;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;

use fonio_core::{
    Bio, BlockedCount, Call, Diagnostic, File, Link, Mark, Request, RowSink, Sample, Statement, Thread,
    Timestamp, Wait,
};

/// Number of rows in a batch. A batch has about 360 KiB, and work for 1 ms. Compared with the work on a
/// batch, waking the other thread is cheap: a wake-up takes tens of microseconds in a virtual machine.
const ROWS: usize = 2048;
/// Number of batches that can wait between the threads. More batches would bridge longer pauses, but would
/// not fit into the processor's cache.
const BATCHES: usize = 4;

/// Runs `produce` and passes the rows that it produces to `sink` in order.
///
/// With several processors, `produce` runs on another thread, and `sink` stays on this thread. `produce` can
/// be only a bounded number of rows ahead of `sink`. The sink gets the same rows in the same order as with a
/// single thread, even if `produce` fails after these rows. Returns the error of `produce` or `sink`; if both
/// fail, the error of `sink`.
pub fn hand_over<T, E>(
    sink: &mut dyn RowSink,
    produce: impl FnOnce(&mut dyn RowSink) -> Result<T, E> + Send,
) -> Result<T, E>
where
    T: Send,
    E: From<io::Error> + Send,
{
    if thread::available_parallelism().is_ok_and(|processors| processors > NonZero::<usize>::MIN) {
        on_two_threads(sink, produce)
    } else {
        produce(sink)
    }
}

fn on_two_threads<T, E>(
    sink: &mut dyn RowSink,
    produce: impl FnOnce(&mut dyn RowSink) -> Result<T, E> + Send,
) -> Result<T, E>
where
    T: Send,
    E: From<io::Error> + Send,
{
    let wants_bios = sink.wants_bios();
    thread::scope(|scope| {
        let (full, batches) = mpsc::sync_channel(BATCHES);
        let (used, empty) = mpsc::channel();
        let producer = scope.spawn(move || {
            let mut giver = Giver { rows: Vec::with_capacity(ROWS), full, empty, wants_bios };
            let produced = produce(&mut giver);
            let rest = giver.send();
            let produced = produced?;
            rest?;
            Ok(produced)
        });
        let taken = take(batches, &used, sink);
        let produced = producer.join().unwrap_or_else(|panic| resume_unwind(panic));
        // The sink's error takes precedence, because it may be the cause of the producer's error.
        taken?;
        produced
    })
}

/// Passes batches to the sink until there are no more batches, or the sink fails.
fn take(batches: Receiver<Vec<Row>>, used: &Sender<Vec<Row>>, sink: &mut dyn RowSink) -> io::Result<()> {
    for mut rows in batches {
        rows.iter().try_for_each(|row| row.give(sink))?;
        rows.clear();
        // Returning the batch fails if the producer has ended.
        let _ = used.send(rows);
    }
    Ok(())
}

/// The sink on the producer's thread: gathers rows and sends them in batches.
struct Giver {
    rows: Vec<Row>,
    full: SyncSender<Vec<Row>>,
    /// Empty batches that were returned for reuse.
    empty: Receiver<Vec<Row>>,
    wants_bios: bool,
}

impl Giver {
    #[inline]
    fn put(&mut self, row: Row) -> io::Result<()> {
        self.rows.push(row);
        if self.rows.len() == ROWS { self.send() } else { Ok(()) }
    }

    #[cold]
    fn send(&mut self) -> io::Result<()> {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(ROWS));
        let rows = std::mem::replace(&mut self.rows, next);
        self.full.send(rows).map_err(|_| io::Error::other("the receiving thread has ended"))
    }
}

macro_rules! handed_over {
    ($($method:ident $row:ident,)*) => {
        /// A stored call of a method of [`RowSink`].
        enum Row {
            Began(Timestamp),
            Settled(Timestamp),
            $($row($row),)*
        }

        impl Row {
            #[inline]
            fn give(&self, sink: &mut dyn RowSink) -> io::Result<()> {
                match self {
                    Row::Began(at) => sink.began(*at),
                    Row::Settled(before) => sink.settled(*before),
                    $(Row::$row(row) => sink.$method(row),)*
                }
            }
        }

        impl RowSink for Giver {
            fn began(&mut self, at: Timestamp) -> io::Result<()> {
                self.put(Row::Began(at))
            }
            fn settled(&mut self, before: Timestamp) -> io::Result<()> {
                self.put(Row::Settled(before))
            }
            $(fn $method(&mut self, row: &$row) -> io::Result<()> {
                self.put(Row::$row(row.to_owned()))
            })*
            fn wants_bios(&self) -> bool {
                self.wants_bios
            }
        }
    };
}

handed_over! {
    request Request,
    bio Bio,
    link Link,
    call Call,
    statement Statement,
    wait Wait,
    blocked_count BlockedCount,
    file File,
    thread Thread,
    sample Sample,
    mark Mark,
    diagnostic Diagnostic,
}

#[cfg(test)]
mod tests {
    use fonio_core::ignore_rows;

    use super::*;

    /// A sink that collects marks, and fails at the mark with a given number.
    #[derive(Default)]
    struct Marks {
        seen: Vec<u64>,
        settled: Vec<u64>,
        fails_at: Option<u64>,
    }

    impl RowSink for Marks {
        fn mark(&mut self, row: &Mark) -> io::Result<()> {
            if self.fails_at == Some(row.at.0) {
                return Err(io::Error::other("the disk is full"));
            }
            self.seen.push(row.at.0);
            Ok(())
        }
        fn settled(&mut self, before: Timestamp) -> io::Result<()> {
            self.settled.push(before.0);
            Ok(())
        }
        fn wants_bios(&self) -> bool {
            false
        }
        ignore_rows! {
            began, request, bio, link, call, statement, wait, blocked_count, file, thread, sample, diagnostic
        }
    }

    fn marks(count: u64, sink: &mut dyn RowSink) -> io::Result<u64> {
        assert!(!sink.wants_bios());
        for at in 0..count {
            sink.mark(&Mark { at: Timestamp(at), until: None, name: String::new(), tid: None })?;
            sink.settled(Timestamp(at))?;
        }
        Ok(count)
    }

    #[test]
    fn every_row_comes_once_and_in_order() {
        for count in [0, 1, ROWS as u64 / 2, ROWS as u64 * 20 + 7] {
            let mut sink = Marks::default();
            let made: io::Result<u64> = on_two_threads(&mut sink, |sink| marks(count, sink));
            assert_eq!(made.ok(), Some(count));
            assert!(sink.seen.iter().copied().eq(0..count));
            assert_eq!(sink.seen, sink.settled);
        }
    }

    #[test]
    fn an_error_of_either_side_ends_both() {
        let mut sink = Marks { fails_at: Some(3000), ..Marks::default() };
        let made: io::Result<u64> = on_two_threads(&mut sink, |sink| marks(u64::MAX, sink));
        assert_eq!(made.map_err(|error| error.to_string()), Err("the disk is full".to_owned()));
        assert!(sink.seen.iter().copied().eq(0..3000));

        let mut sink = Marks::default();
        let made: io::Result<u64> = on_two_threads(&mut sink, |sink| {
            marks(3000, sink)?;
            Err(io::Error::other("the trace cannot be read"))
        });
        assert_eq!(made.map_err(|error| error.to_string()), Err("the trace cannot be read".to_owned()));
        assert!(sink.seen.iter().copied().eq(0..3000));
    }

    #[test]
    #[should_panic(expected = "a broken invariant")]
    fn a_panic_of_the_producer_is_not_lost() {
        let _: io::Result<()> = on_two_threads(&mut Marks::default(), |_| panic!("a broken invariant"));
    }
}
