use expect_test::expect_file;
use fonio_analysis::{Analyser, AnalysisOptions, Figure};
use fonio_core::{
    ByteCount, DeviceId, Flags, Meta, Metric, Op, Request, RowSink, Sample, Sector, Thread, Timestamp,
};

use super::{Budget, Outcome};

/// Returns the figures of 10 reads of 1 ms and 20 synchronous writes of 30 ms, one of which was queued for 10
/// ms.
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

/// Checks the results in `answers.txt`; `UPDATE_EXPECT=1 cargo test` writes the results of new budgets to the
/// file.
#[test]
fn budgets_have_their_answers() {
    let figures = figures();
    let mut told = String::new();
    for line in include_str!("answers.txt").lines().filter(|line| !line.starts_with("    ")) {
        told += &format!("{line}\n");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        told += &match Budget::parse(line).and_then(|budget| budget.evaluate(&figures)) {
            Ok(Outcome { passed: true, sentence, .. }) => format!("    kept: {sentence}\n"),
            Ok(Outcome { sentence, .. }) => format!("    broken: {sentence}\n"),
            Err(error) => format!("    error: {error}\n"),
        };
    }
    expect_file!["answers.txt"].assert_eq(&told);
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
