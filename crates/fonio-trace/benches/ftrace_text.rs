//! Measures the time to read a line of ftrace text. Of four lines, three are events of one request, and one
//! is a scheduler event, from which only the names are used.

use std::io::Cursor;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use fonio_core::{Batch, TraceReader};
use fonio_trace::ftrace_text::FtraceReader;
use fonio_trace::input::Input;

fn main() {
    divan::main();
}

const REQUESTS: u64 = 100_000;

fn trace() -> Vec<u8> {
    let mut text = String::new();
    for request in 0..REQUESTS {
        let (seconds, micros, sector) = (request / 10_000, request % 10_000 * 100, request * 8);
        text += &format!(
            "  kworker/{}:1H-{:<7} [00{}] ...1. {seconds:>5}.{micros:06}: block_rq_insert: 179,0 WS 4096 () {sector} + 8 be,0,4 [kworker/0:1H]\n\
             \x20 kworker/{}:1H-{:<7} [00{}] ..... {seconds:>5}.{:06}: block_rq_issue: 179,0 WS 4096 () {sector} + 8 be,0,4 [kworker/0:1H]\n\
             \x20         <idle>-0       [000] ..s1. {seconds:>5}.{:06}: block_rq_complete: 179,0 WS () {sector} + 8 be,0,4 [0]\n\
             \x20         <idle>-0       [000] d..2. {seconds:>5}.{:06}: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=kworker/0:1H next_pid=44 next_prio=100\n",
            request % 4,
            40 + request % 4,
            request % 4,
            request % 4,
            40 + request % 4,
            request % 4,
            micros + 10,
            micros + 80,
            micros + 90,
        );
    }
    text.into_bytes()
}

#[divan::bench]
fn lines(bencher: Bencher) {
    let text = trace();
    bencher
        .counter(ItemsCount::new(REQUESTS * 4))
        .counter(BytesCount::new(text.len()))
        .with_inputs(|| Input::new("trace", Box::new(Cursor::new(text.clone()))))
        .bench_values(|input| {
            let mut reader = FtraceReader::new(input);
            let mut batch = Batch::default();
            let mut events = 0;
            while reader.next_batch(&mut batch).expect("memory reads") {
                events += batch.events.len();
            }
            events + batch.events.len()
        });
}
