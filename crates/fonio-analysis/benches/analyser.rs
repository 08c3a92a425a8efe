//! Measures the analyser's cost per request for workloads of different shape. The items per second in the
//! output are requests per second.

use divan::Bencher;
use divan::counter::ItemsCount;
use fonio_analysis::{Analyser, Analysis, AnalysisOptions};
use fonio_core::{ByteCount, DeviceId, Flags, Meta, Op, Random, Request, RowSink, Sector, Thread, Timestamp};

const REQUESTS: u64 = 5_000_000;

#[derive(Clone, Copy, Debug)]
struct Shape {
    name: &'static str,
    /// Number of device pages that the generated requests touch.
    pages: u64,
    /// Approximate number of generated requests in flight.
    depth: u64,
    /// One request in `flush_every` is a flush.
    flush_every: u64,
    /// Maximum size of a generated request in pages.
    pages_per_request: u64,
    sequential: bool,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

const SHAPES: [Shape; 3] = [
    Shape {
        name: "phone",
        pages: 1 << 20,
        depth: 2,
        flush_every: 12,
        pages_per_request: 16,
        sequential: false,
    },
    Shape {
        name: "random_32_gib",
        pages: 1 << 23,
        depth: 32,
        flush_every: 1 << 60,
        pages_per_request: 1,
        sequential: false,
    },
    Shape {
        name: "sequential_512k",
        pages: 1 << 22,
        depth: 8,
        flush_every: 1 << 60,
        pages_per_request: 128,
        sequential: true,
    },
];

/// Creates the requests one by one, so that the benchmark touches no memory but the analyser's.
struct Maker {
    shape: Shape,
    random: Random,
    now: u64,
    page: u64,
    row: Request,
}

impl Maker {
    fn new(shape: Shape) -> Maker {
        let mut row = Request::new(DeviceId::new(179, 0), Op::Read, ByteCount(0));
        row.flags_known = Flags::KNOWN_FROM_RWBS;
        row.requeues = Some(0);
        Maker { shape, random: Random::new(1), now: 1_000_000_000, page: 0, row }
    }

    #[inline]
    fn make(&mut self, id: u64) -> &Request {
        let draw = self.random.next_u64();
        let shape = self.shape;
        self.now += 20_000 + draw % 160_000;
        let row = &mut self.row;
        row.request_id = id;
        row.op = if id % shape.flush_every == shape.flush_every - 1 {
            Op::Flush
        } else if draw & 3 == 0 {
            Op::Read
        } else {
            Op::Write
        };
        row.flags = match (row.op, draw >> 8 & 3) {
            (Op::Write, 0 | 1) => Flags::SYNC,
            (Op::Read, 0) => Flags::READAHEAD,
            _ => Flags::NONE,
        };
        let pages = if shape.sequential {
            shape.pages_per_request
        } else {
            1 + (draw >> 12) % shape.pages_per_request
        };
        self.page =
            if shape.sequential { (self.page + pages) % shape.pages } else { (draw >> 20) % shape.pages };
        let flush = row.op == Op::Flush;
        row.sector = (!flush).then_some(Sector(self.page * 8));
        row.bytes = ByteCount(if flush { 0 } else { pages * 4096 });
        row.queued = Some(Timestamp(self.now - 2_000 - (draw >> 40) % 30_000));
        row.issued = Some(Timestamp(self.now));
        row.completed = Some(Timestamp(self.now + 50_000 + (draw >> 30) % (shape.depth * 180_000)));
        row.tid = Some(1000 + (draw >> 50) as u32 % 24);
        row
    }
}

fn analyse(shape: Shape) -> Analysis {
    let mut analyser = Analyser::new(AnalysisOptions::default());
    for tid in 1000..1024 {
        let thread = Thread { tid, comm: Some(format!("thread-{}", tid % 7)), ..Thread::default() };
        analyser.thread(&thread).expect("takes every row");
    }
    let mut maker = Maker::new(shape);
    for id in 0..REQUESTS {
        analyser.request(maker.make(id)).expect("takes every row");
    }
    analyser.finish(&Meta::default())
}

/// Measures the cost of creating the requests. This cost must be subtracted from the other results.
#[divan::bench(args = SHAPES, sample_count = 3, sample_size = 1)]
fn making(bencher: Bencher, shape: Shape) {
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| {
        let mut maker = Maker::new(shape);
        for id in 0..REQUESTS {
            divan::black_box(maker.make(id));
        }
    });
}

#[divan::bench(args = SHAPES, sample_count = 3, sample_size = 1)]
fn analysing(bencher: Bencher, shape: Shape) {
    bencher.counter(ItemsCount::new(REQUESTS)).bench_local(|| divan::black_box(analyse(shape)));
}

fn main() {
    divan::main();
}
