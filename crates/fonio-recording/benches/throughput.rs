//! Time per request of putting in order, writing and reading.
//!
//! `nothing` is the cost of handing the rows over, which the others include.

#[path = "../tests/generated/mod.rs"]
mod generated;

use divan::counter::ItemsCount;
use fonio_core::{Meta, Request, RowSink};
use fonio_recording::{Recording, Sequencer, SequencerOptions, Tables, Writer, WriterOptions};
use generated::Generated;

fn main() {
    divan::main();
}

const REQUESTS: u64 = 1_000_000;

fn trace() -> Generated {
    Generated { requests: REQUESTS, ..Generated::default() }
}

/// What a producer does, kept.
enum Step {
    Request(Box<Request>),
    Settled(fonio_core::Timestamp),
}

struct Steps(Vec<Step>);

impl RowSink for Steps {
    fn request(&mut self, row: &Request) -> std::io::Result<()> {
        self.0.push(Step::Request(Box::new(row.clone())));
        Ok(())
    }
    fn settled(&mut self, before: fonio_core::Timestamp) -> std::io::Result<()> {
        self.0.push(Step::Settled(before));
        Ok(())
    }
}

impl Steps {
    fn made() -> Steps {
        let mut steps = Steps(Vec::new());
        trace().feed(&mut steps).unwrap();
        steps
    }
    fn feed(&self, sink: &mut dyn RowSink) {
        for step in &self.0 {
            match step {
                Step::Request(row) => sink.request(row).unwrap(),
                Step::Settled(before) => sink.settled(*before).unwrap(),
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
}

#[divan::bench(sample_count = 10)]
fn nothing(bencher: divan::Bencher) {
    let steps = Steps::made();
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let mut sink = Nothing(0);
        steps.feed(&mut sink);
        sink.0
    });
}

#[divan::bench(sample_count = 10)]
fn sequence(bencher: divan::Bencher) {
    let steps = Steps::made();
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
    let steps = Steps::made();
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
    trace().feed(&mut writer).unwrap();
    writer.finish(Meta::default()).unwrap();
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let mut sink = Nothing(0);
        Recording::open(&dir).unwrap().replay(&mut sink, Tables::ALL).unwrap();
        sink.0
    });
}
