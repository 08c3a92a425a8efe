use expect_test::{Expect, expect};
use fonio_analysis::{Analyser, AnalysisOptions, Figure};
use fonio_core::{
    ByteCount, DeviceId, Flags, Meta, Metric, Op, Request, RowSink, Sample, Sector, Thread, Timestamp,
};

use super::Budget;

/// The figures of 10 reads of 1 ms and 20 synchronous writes of 30 ms, one of which waited 10 ms before it was issued.
fn figures() -> Vec<Figure> {
    let mut analyser = Analyser::new(AnalysisOptions::default());
    for (tid, comm) in [(1, "kworker/0:1.a"), (2, "a<b")] {
        analyser
            .thread(&Thread { tid, comm: Some(comm.into()), ..Thread::default() })
            .expect("it takes rows");
    }
    let sample = Sample {
        time: Timestamp(0),
        metric: Metric::TemperatureMillicelsius,
        subject: Some("cpu".into()),
        value: 61_500,
    };
    analyser.sample(&sample).expect("it takes rows");
    for at in 0..30u64 {
        let (op, tid, service) = if at < 10 { (Op::Read, 1, 1_000_000) } else { (Op::Write, 2, 30_000_000) };
        let queued = at * 100_000_000;
        let issued = queued + if at == 29 { 10_000_000 } else { 0 };
        let row = Request {
            request_id: at + 1,
            sector: Some(Sector(at * 8)),
            flags: Flags::SYNC,
            flags_known: Flags::KNOWN_FROM_RWBS,
            queued: Some(Timestamp(queued)),
            issued: Some(Timestamp(issued)),
            completed: Some(Timestamp(issued + service)),
            tid: Some(tid),
            ..Request::new(DeviceId::new(179, 0), op, ByteCount(4096))
        };
        analyser.request(&row).expect("it takes rows");
    }
    analyser.finish(&Meta::default()).figures()
}

fn check(budget: &str, expected: Expect) {
    let said = match Budget::parse(budget).and_then(|budget| budget.evaluate(&figures())) {
        Ok(outcome) => format!("{}: {}", if outcome.passed { "kept" } else { "broken" }, outcome.sentence),
        Err(error) => format!("error: {error}"),
    };
    expected.assert_eq(&said);
}

#[test]
fn names() {
    check(
        "latency.writes.service.p50<=20ms",
        expect!["broken: latency.writes.service.p50 is 30 ms, outside the budget of <= 20 ms"],
    );
    check(
        "latency.reads.response.max < 0.04 s",
        expect!["kept: latency.reads.response.max is 1 ms, within the budget of < 40 ms"],
    );
    check(
        "process[kworker/0:1.a].requests>=11",
        expect![[
            r#"error: the report has no figure "process[kworker/0:1.a].requests"; did you mean process[kworker].requests or process[a<b].requests or process.requests or process[kworker].reads?"#
        ]],
    );
    check("process[a<b].requests>3", expect!["kept: process[a<b].requests is 20, within the budget of > 3"]);
    check(
        "totals.write_bytes_per_s>=1MiB/s",
        expect!["broken: totals.write_bytes_per_s is 27.2 KiB/s, outside the budget of >= 1 MiB/s"],
    );
    check(
        "totals.read_bytes<=4kB",
        expect!["broken: totals.read_bytes is 40 KiB, outside the budget of <= 3.91 KiB"],
    );
    check(
        "temperature[cpu].max<=60 °C",
        expect!["broken: temperature[cpu].max is 61.5 °C, outside the budget of <= 60 °C"],
    );
    check(
        "io_share.busy_union<=20%",
        expect!["broken: io_share.busy_union is 20.8 %, outside the budget of <= 20 %"],
    );
    check(
        "io_share.busy_time<=5s",
        expect!["kept: io_share.busy_time is 610 ms, within the budget of <= 5 s"],
    );
}

/// Paths of the report's JSON, which budgets used before figures had names.
#[test]
fn paths() {
    check(
        "latency.groups[writes].service_ns.p50<=20ms",
        expect!["broken: latency.writes.service.p50 is 30 ms, outside the budget of <= 20 ms"],
    );
    check(
        "analysis.latency.groups.writes.response_ns.max < 0.04 s",
        expect!["broken: latency.writes.response.max is 40 ms, outside the budget of < 40 ms"],
    );
    check(
        "processes.processes[a<b].requests>3",
        expect![[
            r#"error: the report has no figure "processes.processes[a<b].requests"; did you mean process[a<b].requests or process[kworker].requests or process.requests or process[a<b].reads?"#
        ]],
    );
    check(
        "io_share.all.busy_union_share<=20%",
        expect!["broken: io_share.busy_union is 20.8 %, outside the budget of <= 20 %"],
    );
    check(
        "flushes.flushes_per_s<2/s",
        expect![[
            r#"error: the report has no figure "flushes.flushes_per_s"; did you mean flushes.writes_per_flush or flushes.per_s or flushes.fua_writes or flushes.write_bytes_per_flush?"#
        ]],
    );
    check(
        "machine.temperature[cpu].max_millicelsius<=60",
        expect![[
            r#"error: the report has no figure "machine.temperature[cpu].max_millicelsius"; did you mean temperature[cpu].max or temperature.max or machine.samples or wait.write_sync.max?"#
        ]],
    );
}

#[test]
fn shortened_names() {
    check("sizes.reads.p50<=4KiB", expect!["kept: sizes.reads.p50 is 4 KiB, within the budget of <= 4 KiB"]);
    check(
        "latency.writes.p50<=2ms",
        expect![[
            r#"error: "latency.writes.p50" could be several figures: latency.writes.response.p50, latency.writes.service.p50"#
        ]],
    );
}

#[test]
fn what_cannot_be_held() {
    check(
        "latency.writes.p99_ns<=20ms",
        expect![[
            r#"error: "latency.writes.p99_ns" could be several figures: latency.writes.response.p99, latency.writes.service.p99"#
        ]],
    );
    check(
        "latency.writes.service.p50<=20",
        expect!["error: latency.writes.service.p50 is a duration; 20 cannot be compared with it"],
    );
    check(
        "io_share.busy_union<=5s",
        expect!["error: io_share.busy_union is a share; 5s cannot be compared with it"],
    );
    check(
        "totals.requests<=20ms",
        expect!["error: totals.requests is a count; 20ms cannot be compared with it"],
    );
    check(
        "latency.reads.service.p999<=1s",
        expect!["error: latency.reads.service.p999 is unknown in this recording"],
    );
    check(
        "nonsense<1",
        expect![[r#"error: the report has no figure "nonsense"; `fonio report --figures` lists them all"#]],
    );
    check(
        "totals.read_bytes<=4 potatoes",
        expect![
            "error: `4 potatoes` ends in `potatoes`; write a number with a unit, such as 20ms, 4KiB, 1.5MB/s, 12%, 10/s, 2x or 60°C, or a number alone"
        ],
    );
    check(
        "totals.read_bytes",
        expect![[
            r#"error: "totals.read_bytes" is not a budget: write FIGURE<=LIMIT, with one of <, <=, >, >=, =="#
        ]],
    );
    check(
        "a=3",
        expect![[r#"error: "a=3" is not a budget: write FIGURE<=LIMIT, with one of <, <=, >, >=, =="#]],
    );
    check(
        "<3",
        expect![[r#"error: "<3" is not a budget: write FIGURE<=LIMIT, with one of <, <=, >, >=, =="#]],
    );
    check(
        "totals.read_bytes<nan",
        expect![
            "error: `nan` does not begin with a number; write a number with a unit, such as 20ms, 4KiB, 1.5MB/s, 12%, 10/s, 2x or 60°C, or a number alone"
        ],
    );
}

#[test]
fn every_figure_is_found_by_its_name() {
    let figures = figures();
    assert!(figures.len() > 150, "{} figures", figures.len());
    for figure in &figures {
        let limit = super::Amount::parse("1").expect("a number");
        let found = super::figures::resolve(&figures, &figure.name, &limit).expect("it is there");
        assert_eq!(found, figure);
    }
}
