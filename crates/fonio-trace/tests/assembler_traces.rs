//! Checks the assembler's results for real traces, one table per trace.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use fonio_core::{CollectedRows, Op, Request};
use fonio_trace::assemble::assemble;
use fonio_trace::assembler::AssemblerOptions;
use fonio_trace::input::Input;
use fonio_trace::recognise::{ReadOptions, open};

/// Formats the median and maximum of `values` in microseconds.
fn spread(mut values: Vec<u64>) -> String {
    values.sort_unstable();
    match values.as_slice() {
        [] => "-".to_owned(),
        values => format!("{} {}", values[values.len() / 2] / 1000, values[values.len() - 1] / 1000),
    }
}

fn check(path: &Path, expected: Expect) {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) => {
            return fonio_testing::skip(
                fonio_testing::Need::Shared,
                format!("cannot read {}: {error}", path.display()),
            );
        }
    };
    let input = Input::new(path.display().to_string(), Box::new(file));
    let mut reader = open(vec![input], &ReadOptions::default()).expect("the format is known");
    let mut rows = CollectedRows::default();
    let meta = assemble(&mut *reader, AssemblerOptions::default(), &mut rows).expect("a readable trace");
    let mut text = format!("{} bios, {} links\n", rows.bios.len(), rows.links.len());
    text += "device op: requests, complete; queue us: median max; service us: median max\n";
    for device in &meta.devices {
        for op in Op::ALL {
            let requests: Vec<_> =
                rows.requests.iter().filter(|row| row.device == device.id && row.op == op).collect();
            if requests.is_empty() {
                continue;
            }
            let complete = requests.iter().filter(|row| row.completed.is_some()).count();
            let queue = requests.iter().filter_map(|row| Some(row.queue()?.0)).collect();
            let service = requests.iter().filter_map(|row| Some(row.service()?.0)).collect();
            text += &format!(
                "{} {}: {}, {complete}; {}; {}\n",
                device.id,
                op.name(),
                requests.len(),
                spread(queue),
                spread(service)
            );
        }
    }
    for (name, count) in &meta.assembly {
        text += &format!("{name} {count}\n");
    }
    expected.assert_eq(&text);
}

#[test]
fn partition_reads_one_by_one() {
    check(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/takeoverjp-sample.blktrace.0"),
        expect![[r#"
            1926 bios, 963 links
            device op: requests, complete; queue us: median max; service us: median max
            259:0 read: 963, 963; 0 2; 54 102
        "#]],
    );
}

#[test]
fn sqlite_commits_on_ext4_during_other_jobs() {
    let path: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/ftrace-6.18-block.txt");
    check(
        &path,
        expect![[r#"
            0 bios, 33 links
            device op: requests, complete; queue us: median max; service us: median max
            7:3 read: 548, 548; 1 28; 291 2922
            7:3 write: 74, 74; 15 4196; 41 4619
            7:3 flush: 52, 52; 17 3884; 11 4165
            254:0 read: 72, 72; 3 21; 181 961
            254:0 write: 460, 460; 4 113; 46 3858
            254:0 flush: 246, 246; 8 3654; 32 272
            254:0 discard: 263, 263; 10 12309; 93 4660
            flush_sequence_ends 290
            queued_from_allocation 1681
        "#]],
    );
}

/// 220 threads read a virtio disk with queue depth 85. If the ring was full, the kernel issued the request
/// again later, from a kblockd worker or from another of the reading threads. atrace records only issues and
/// completions.
#[test]
fn requests_handed_over_are_the_same_without_requeues() {
    const TRACE: &str = include_str!("data/handed-over-6.18.txt");
    let read = |text: String| {
        let mut reader = open(vec![Input::of("x", text)], &ReadOptions::default()).expect("it is ftrace");
        let mut rows = CollectedRows::default();
        let meta =
            assemble(&mut *reader, AssemblerOptions::default(), &mut rows).expect("the sink does not fail");
        rows.requests.sort_by_key(|row| row.request_id);
        (rows.requests, meta)
    };
    let (shown, meta) = read(TRACE.to_owned());
    let lines = TRACE.lines().filter(|line| !line.contains("block_rq_requeue"));
    let (not_shown, meta_of_atrace) = read(lines.map(|line| format!("{line}\n")).collect());
    let requeued: u32 = shown.iter().filter_map(|row| row.requeues).sum();
    assert_eq!((shown.len(), requeued), (654, 7));
    // In one case, two threads read the same block at the same time, so there are two issues and two
    // completions.
    let mut counts =
        BTreeMap::from(["ambiguous_completions", "duplicate_issues"].map(|name| (name.to_owned(), 1)));
    assert_eq!(meta.assembly, counts);
    counts.insert("repeated_issues".to_owned(), 7);
    assert_eq!(meta_of_atrace.assembly, counts);
    assert!(not_shown.iter().all(|row| row.requeues.is_none() && row.completed.is_some()));
    let without = |row: &Request| Request { requeues: None, ..row.clone() };
    assert!(shown.iter().map(without).eq(not_shown));
}
