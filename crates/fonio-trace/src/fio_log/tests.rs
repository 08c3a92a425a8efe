use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::recognise::{Format, OpenError, ReadOptions, open};

/// Shows the rows of a log with this file name, and the codes of the diagnostics.
fn check(name: &str, text: &str, expected: Expect) {
    let options = ReadOptions { format: Some(Format::FioLog), ..ReadOptions::default() };
    let mut reader = open(vec![Input::of(name, text)], &options).expect("it is read");
    assert_eq!(reader.source().format, Format::FioLog.name());
    let all = reader.read_all().expect("memory reads");
    let mut shown = format!("shows {:?}, clock {:?}\n", reader.source().shows, reader.clock());
    for one in &all.requests {
        let time = |time: Option<Timestamp>| time.map_or("-".to_owned(), |time| time.0.to_string());
        shown += &format!(
            "{} sector {:?} bytes {} Q{} D{} C{} {:?}\n",
            one.op.name(),
            one.sector.map(|sector| sector.0),
            one.bytes.0,
            time(one.queued),
            time(one.issued),
            time(one.completed),
            one.ioprio,
        );
    }
    for one in &all.samples {
        shown += &format!("{} at {} ms: {}\n", one.metric.name(), one.time.0 / MS, one.value);
    }
    let codes: Vec<&str> = all.diagnostics.iter().map(|one| one.code.as_str()).collect();
    expected.assert_eq(&format!("{shown}{}\n", codes.join(" ")));
}

#[test]
fn latencies_of_calls() {
    check(
        "dir/log_clat.1.log",
        "9, 9620329, 0, 4096, 0\n10, 774347, 1, 4096, 0\n10, 777162, 2, 4096, 1\n",
        expect![[r#"
        shows ["issue", "complete"], clock Clock { name: "unknown", unix_ns_at_zero: None }
        read sector None bytes 4096 Q- D999999879671 C1000009500000 None
        write sector None bytes 4096 Q- D1000009475653 C1000010250000 None
        discard sector None bytes 4096 Q- D1000009972838 C1000010750000 None
        calls-of-fio
    "#]],
    );
    check(
        "log_clat.log",
        "9, 9620329, 0, 4096, 1011712, 0x4002\n9, 100, 3, 0, 0, 0x0000\nx, 1\n",
        expect![[r#"
        shows ["issue", "complete"], clock Clock { name: "unknown", unix_ns_at_zero: None }
        read sector Some(1976) bytes 4096 Q- D999999629671 C1000009250000 Some(16386)
        flush sector None bytes 0 Q- D1000009749900 C1000009750000 Some(0)
        unreadable-line calls-of-fio
    "#]],
    );
    check(
        "log_lat.12.log.gz",
        "1795808298235, 670091, 0, 4096, 1011712, 0\n",
        expect![[r#"
        shows ["queue", "complete"], clock Clock { name: "wall", unix_ns_at_zero: Some(0) }
        read sector Some(1976) bytes 4096 Q1795808298234829909 D- C1795808298235500000 None
        calls-of-fio
    "#]],
    );
    // A time of issue without offsets, and a latency that is too long.
    check(
        "log_clat.1.log",
        "9, 5, 0, 4096, 0, 123456789\n9, 18446744073709551615, 0, 4096, 0, 123456790\n",
        expect![[r#"
            shows ["issue", "complete"], clock Clock { name: "unknown", unix_ns_at_zero: None }
            read sector None bytes 4096 Q- D1000009249995 C1000009250000 None
            absurd-latency calls-of-fio
        "#]],
    );
}

#[test]
fn sums_of_calls() {
    let text = "10, 425, 0, 4096, 0\n10, 419, 1, 8192, 0\n12, 1, 2, 4096, 0\n";
    check(
        "log_bw.1.log",
        text,
        expect![[r#"
        shows ["totals"], clock Clock { name: "unknown", unix_ns_at_zero: None }
        disk_requests at 1000000 ms: 0
        disk_requests at 1000010 ms: 2
        disk_read_bytes at 1000000 ms: 0
        disk_read_bytes at 1000010 ms: 4096
        disk_write_bytes at 1000000 ms: 0
        disk_write_bytes at 1000010 ms: 8192
        disk_requests at 1000012 ms: 3
        disk_read_bytes at 1000012 ms: 4096
        disk_write_bytes at 1000012 ms: 8192

    "#]],
    );
    check(
        "log_iops.1.log",
        "1795808298235, 1, 1, 512, 0\n1795808299235, 1, 1, 512, 0\n",
        expect![[r#"
        shows ["totals"], clock Clock { name: "wall", unix_ns_at_zero: Some(0) }
        disk_requests at 1795808298235 ms: 0
        disk_requests at 1795808298235 ms: 1
        disk_read_bytes at 1795808298235 ms: 0
        disk_read_bytes at 1795808298235 ms: 0
        disk_write_bytes at 1795808298235 ms: 0
        disk_write_bytes at 1795808298235 ms: 512
        disk_requests at 1795808299235 ms: 2
        disk_read_bytes at 1795808299235 ms: 0
        disk_write_bytes at 1795808299235 ms: 1024

    "#]],
    );
}

#[test]
fn averages() {
    let text = "500, 1000, 0, 0, 0\n500, 2000, 1, 0, 0\n1000, 3000, 0, 0, 0\n";
    check(
        "log_bw.1.log",
        text,
        expect![[r#"
        shows ["totals"], clock Clock { name: "unknown", unix_ns_at_zero: None }
        disk_read_bytes at 1000000 ms: 0
        disk_read_bytes at 1000500 ms: 512000
        disk_write_bytes at 1000000 ms: 0
        disk_write_bytes at 1000500 ms: 1024000
        disk_read_bytes at 1001000 ms: 2048000
        disk_write_bytes at 1001000 ms: 1024000

    "#]],
    );
    check(
        "log_iops.1.log",
        text,
        expect![[r#"
        shows ["totals"], clock Clock { name: "unknown", unix_ns_at_zero: None }
        disk_requests at 1000000 ms: 0
        disk_requests at 1000500 ms: 1500
        disk_requests at 1001000 ms: 3000

    "#]],
    );
}

#[test]
fn logs_that_cannot_be_read() {
    let refused = |name: &str, text: &str| match open(vec![Input::of(name, text)], &ReadOptions::default()) {
        Err(OpenError::Foreign { found, .. }) => found,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{name} is read"),
    };
    let line = "9, 9620329, 0, 4096, 0\n";
    assert!(refused("log_slat.1.log", line).contains("submission"));
    assert!(refused("data.txt", line).contains("its name does not say"));
    assert!(refused("log_clat.1.log", "103, 378722, 0, 0, 0\n").contains("averages"));
    let histogram = format!("103, 0, 4096, {}0\n", "0, ".repeat(1215));
    assert!(refused("log_clat_hist.1.log", &histogram).contains("histogram log"));
    assert!(recognise(line.as_bytes()) && recognise(line.repeat(5000).as_bytes()));
    for other in ["1,2,0,3,4\n", "1, 2, 7, 4096\n", "time, value\n", "1, 2, 0, 4096\nx\ny\n"] {
        assert!(!recognise(other.as_bytes()), "{other}");
    }
}

#[test]
fn names() {
    for (name, kind) in [
        ("a/b_clat.1.log", Some(Kind::Completion)),
        ("lat.log", Some(Kind::Total)),
        ("x_slat.3.log.zst", Some(Kind::Submission)),
        ("bw_x.log", None),
        ("x_bw.log", Some(Kind::Bandwidth)),
        ("x_iops.2.log", Some(Kind::Iops)),
        ("x_clat.1.txt", None),
        ("x_clat_hist.1.log", None),
        ("standard input", None),
    ] {
        assert_eq!(Kind::of(name), kind, "{name}");
    }
}

proptest! {
    #[test]
    fn calls_end_after_they_begin_and_in_order(
        lines in prop::collection::vec((0_u64..5, 0_u64..3_000_000, 0_u8..3), 1..40)
    ) {
        let mut lines = lines;
        lines.sort_by_key(|line| line.0);
        let text: String = lines.iter().map(|(ms, ns, op)| format!("{ms}, {ns}, {op}, 4096, 0\n")).collect();
        let mut reader = FioLogReader::open(Input::of("a_clat.log", text.clone()), text.as_bytes()).expect("it is read");
        let all = reader.read_all().expect("memory reads");
        prop_assert_eq!(all.requests.len(), lines.len());
        prop_assert!(all.requests.is_sorted_by(|a, b| a.completed < b.completed));
        for (row, (ms, ns, _)) in all.requests.iter().zip(&lines) {
            let completed = row.completed.expect("it has an end").0;
            prop_assert_eq!(completed / MS, ms + BEGINNING_MS);
            prop_assert_eq!(row.service().map(|time| time.0), Some(*ns));
        }
    }
}
