use fonio_core::Batch;
use fonio_trace::blktrace::BlktraceReader;
use fonio_trace::reader::{Input, TraceReader};
fn main() {
    let t = std::time::Instant::now();
    let inputs = std::env::args()
        .skip(1)
        .map(|n| Input { bytes: Box::new(std::fs::File::open(&n).unwrap()), name: n })
        .collect();
    let mut r = BlktraceReader::new(inputs);
    let mut b = Batch::default();
    let (mut n, mut x, mut lost, mut last, mut bad) = (0u64, 0u64, 0, 0, 0);
    loop {
        let more = r.next_batch(&mut b).unwrap();
        n += b.events.len() as u64;
        for e in &b.events {
            x = x.wrapping_add(e.sector.0 ^ e.time.0);
            if e.time.0 < last {
                bad += 1
            }
            last = e.time.0;
        }
        lost += b.lost.len();
        for d in &b.diagnostics {
            println!("{d:?}");
        }
        for d in &b.threads {
            println!("{d:?}");
        }
        for d in &b.marks {
            println!("{d:?}");
        }
        if !more {
            break;
        }
    }
    println!("{n} events {x:x} lost {lost} bad {bad} {:?} {:?}", r.clock(), r.source());
    println!("{:.1} ns/record", t.elapsed().as_nanos() as f64 / n as f64);
}
