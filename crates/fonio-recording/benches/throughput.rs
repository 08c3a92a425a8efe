//! Measures the time per request of sorting, writing and reading rows.
//!
//! The benchmark `nothing` measures only the cost of passing rows to a sink. The figures of the other
//! benchmarks include this cost.

#![allow(clippy::unwrap_used)]

#[path = "../tests/generated/mod.rs"]
mod generated;

use divan::counter::ItemsCount;
use fonio_core::{Meta, Request, RowSink, Timestamp, ignore_rows};
use fonio_recording::{Recording, Sequencer, SequencerOptions, Tables, Writer, WriterOptions};
use generated::Generated;

fn main() {
    divan::main();
}

const REQUESTS: u64 = 1 << 20;

/// One recorded step of a producer. A short sequence of rows is repeated, so the rows come from the
/// processor's cache, as they do from a real producer.
enum Step {
    Request(Request),
    Settled(Timestamp),
}

struct Steps {
    steps: Vec<Step>,
    /// The time that is added to the recorded rows in this repetition.
    shift: u64,
}

const PIECE: u64 = 4096;

impl RowSink for Steps {
    fn request(&mut self, row: &Request) -> std::io::Result<()> {
        self.steps.push(Step::Request(row.clone()));
        Ok(())
    }
    fn settled(&mut self, before: Timestamp) -> std::io::Result<()> {
        self.steps.push(Step::Settled(before));
        Ok(())
    }
    ignore_rows! {
        began, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic
    }
}

impl Steps {
    fn made() -> Steps {
        let mut steps = Steps { steps: Vec::new(), shift: 0 };
        Generated { requests: PIECE, ..Generated::default() }.feed(&mut steps).unwrap();
        steps
    }

    fn feed(&mut self, sink: &mut dyn RowSink) {
        const LENGTH: u64 = 100_000_000;
        for _ in 0..REQUESTS / PIECE {
            self.shift += LENGTH;
            for step in &mut self.steps {
                match step {
                    Step::Request(row) => {
                        row.request_id += PIECE;
                        for time in [&mut row.queued, &mut row.inserted, &mut row.issued, &mut row.completed]
                        {
                            time.iter_mut().for_each(|time| time.0 += LENGTH);
                        }
                        sink.request(row).unwrap();
                    }
                    Step::Settled(before) => sink.settled(Timestamp(before.0 + self.shift)).unwrap(),
                }
            }
        }
    }
}

struct Nothing(u64);

impl RowSink for Nothing {
    fn request(&mut self, row: &Request) -> std::io::Result<()> {
        self.0 = self.0.wrapping_add(divan::black_box(row).bytes.0);
        Ok(())
    }
    ignore_rows! {
        began, bio, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic,
        settled
    }
}

#[divan::bench(sample_count = 10)]
fn nothing(bencher: divan::Bencher) {
    let mut steps = Steps::made();
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let mut sink = Nothing(0);
        steps.feed(&mut sink);
        sink.0
    });
}

#[divan::bench(sample_count = 10)]
fn sequence(bencher: divan::Bencher) {
    let mut steps = Steps::made();
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let mut sink = Nothing(0);
        let mut sequencer = Sequencer::new(&mut sink, SequencerOptions::default());
        steps.feed(&mut sequencer);
        sequencer.finish().unwrap();
        sink.0
    });
}

#[divan::bench(sample_count = 5)]
fn write(bencher: divan::Bencher) {
    let mut steps = Steps::made();
    let place = tempfile::tempdir().unwrap();
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let options = WriterOptions { overwrite: true, ..WriterOptions::default() };
        let mut writer = Writer::create(&place.path().join("run"), options).unwrap();
        steps.feed(&mut writer);
        writer.finish(Meta::default()).unwrap();
    });
}

#[divan::bench(sample_count = 5)]
fn read(bencher: divan::Bencher) {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("run");
    let mut writer = Writer::create(&dir, WriterOptions::default()).unwrap();
    Steps::made().feed(&mut writer);
    writer.finish(Meta::default()).unwrap();
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let mut sink = Nothing(0);
        Recording::open(&dir).unwrap().replay(&mut sink, Tables::ALL).unwrap();
        sink.0
    });
}
