use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::recognise::{Format, ReadOptions, open};

/// Shows the increase of each counter of each device, with the times of its first and last sample in seconds, and the codes of
/// the diagnostics.
fn check(text: &str, expect: Expect) {
    let mut reader = open(vec![Input::of("t", text)], &ReadOptions::default()).expect("it is read");
    assert_eq!(reader.source().format, Format::Totals.name());
    let all = reader.read_all().expect("memory reads");
    assert!(all.requests.is_empty() && all.events.is_empty());
    let mut shown = String::new();
    let mut known: Vec<(Option<String>, Metric)> = Vec::new();
    for sample in &all.samples {
        let key = (sample.subject.clone(), sample.metric);
        if known.contains(&key) {
            continue;
        }
        let same: Vec<&Sample> =
            all.samples.iter().filter(|other| (&other.subject, other.metric) == (&key.0, key.1)).collect();
        let (first, last) = (same[0], same[same.len() - 1]);
        assert!(same.is_sorted_by_key(|sample| (sample.time, sample.value)));
        let seconds = |sample: &Sample| sample.time.0 as f64 / 1e9;
        shown += &format!(
            "{} {} {} from {} to {}\n",
            key.0.clone().unwrap_or_default(),
            key.1.name(),
            last.value - first.value,
            seconds(first),
            seconds(last)
        );
        known.push(key);
    }
    let codes: Vec<&str> = all.diagnostics.iter().map(|one| one.code.as_str()).collect();
    expect.assert_eq(&format!("{shown}{}\n", codes.join(" ")));
}

#[test]
fn iostat_with_times() {
    check(
        "Linux 6.1.0-18-amd64 (host) \t11/27/26 \t_x86_64_\t(2 CPU)\n\n\
         11/27/26 23:59:55\n\
         avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n\
         \x20          0.12    0.00    0.12    0.00    0.00   99.75\n\n\
         Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n\
         sda            900.00  99999.00     0.00   0.00    1.00     9.00    9.00      9.00     9.00   9.00    9.00     9.00    9.00      9.00     9.00   9.00    9.00     9.00    9.00    9.00    9.00  99.00\n\n\
         11/28/26 00:00:05\n\
         Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n\
         sda             10.00     40.00     0.00   0.00    2.00     4.00   20.00    160.00     0.00   0.00    3.00     8.00    0.00      0.00     0.00   0.00    0.00     0.00    1.00    5.00    0.08  12,50\n\
         ram0             0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    0.00   0.00\n\n\
         11/28/26 00:00:15\n\
         Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n\
         sda             10.00     40.00     0.00   0.00    2.00     4.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00      0.00     0.00   0.00    0.00     0.00    0.00    0.00    0.02  87.50\n",
        expect![[r#"
            sda disk_requests 410 from 86395 to 86415
            sda disk_read_bytes 819200 from 86395 to 86415
            sda disk_write_bytes 1638400 from 86395 to 86415
            sda disk_busy_ms 10000 from 86395 to 86415
            sda disk_wait_ms 1050 from 86395 to 86415
            only-totals since-boot
        "#]],
    );
}

#[test]
fn iostat_without_times_and_in_older_columns() {
    check(
        "Linux 3.16.0 (host) \t11/27/2014 \t_x86_64_\t(2 CPU)\n\n\
         Device:         rrqm/s   wrqm/s     r/s     w/s    rsec/s    wsec/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util\n\
         sda               0.00     0.00    1.00    3.00      8.00     16.00    10.00     0.01    2.00    2.00    2.00   0.50   5.00\n",
        expect![[r#"
            sda disk_requests 4 from 0 to 1
            sda disk_read_bytes 4096 from 0 to 1
            sda disk_write_bytes 8192 from 0 to 1
            sda disk_busy_ms 50 from 0 to 1
            sda disk_wait_ms 8 from 0 to 1
            only-totals unknown-interval
        "#]],
    );
    let report = "Device             tps    MB_read/s    MB_wrtn/s    MB_dscd/s    MB_read    MB_wrtn    MB_dscd\n\
                  nvme0n1         100.00         1.00         2.00         0.00          1          2          0\n\n";
    check(
        &report.repeat(3),
        expect![[r#"
            nvme0n1 disk_requests 200 from 1 to 3
            nvme0n1 disk_read_bytes 2097152 from 1 to 3
            nvme0n1 disk_write_bytes 4194304 from 1 to 3
            only-totals unknown-interval since-boot
        "#]],
    );
}

#[test]
fn sar_with_other_tables() {
    check(
        "Linux 6.1.0 (host) \t04/18/19 \t_x86_64_\t(9 CPU)\n\n\
         11:50:00 PM       tps      rtps      wtps   bread/s   bwrtn/s\n\
         12:00:00 AM      9.00      9.00      9.00      9.00      9.00\n\n\
         11:50:00 PM       DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util\n\
         12:00:00 AM       sda      2.00      1.5k      4.00      0.00      2.00      0.01     10.00      1.5%\n\
         12:00:00 AM       sdb      0.00      0.00      0.00      0.00      0.00      0.00      0.00      0.0%\n\
         12:10:00 AM       sda      4.00      1.5k      4.00      0.00      2.00      0.01      5.00      0.5%\n\
         Average:          sda      9.00      9.00      9.00      9.00      9.00      9.00      9.00      9.00\n\n\
         11:50:00 PM     IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil\n\
         12:00:00 AM      eth0      9.00      9.00      9.00      9.00      9.00      9.00      9.00      9.00\n",
        expect![[r#"
            sda disk_requests 3600 from 85800 to 87000
            sda disk_read_bytes 1843200 from 85800 to 87000
            sda disk_write_bytes 4915200 from 85800 to 87000
            sda disk_busy_ms 12000 from 85800 to 87000
            sda disk_wait_ms 24000 from 85800 to 87000
            only-totals
        "#]],
    );
}

#[test]
fn copies_of_diskstats() {
    let copy = |reads: u64, busy: u64| {
        format!(
            "   8       0 sda {reads} 0 {} 40 20 1 160 60 0 {busy} 100 0 0 0 0 3 9\n   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n",
            reads * 8
        )
    };
    check(
        &format!("1764258000\n{}1764258010.5\n{}", copy(100, 50), copy(310, 4250)),
        expect![[r#"
            sda disk_requests 210 from 1764258000 to 1764258010.5
            sda disk_read_bytes 860160 from 1764258000 to 1764258010.5
            sda disk_write_bytes 0 from 1764258000 to 1764258010.5
            sda disk_busy_ms 4200 from 1764258000 to 1764258010.5
            sda disk_wait_ms 0 from 1764258000 to 1764258010.5
            only-totals
        "#]],
    );
    check(
        &[copy(100, 50), copy(100, 50), copy(5, 5)].concat(),
        expect![[r#"
            only-totals unknown-interval idle-devices
        "#]],
    );
    // Times after the copies; a copy in the same second as the copy before is left out.
    let after = [
        copy(100, 50) + "1764258000\n",
        copy(200, 60) + "1764258000\n",
        copy(300, 70) + "1764258001\n",
        copy(500, 80) + "1764258002\n",
    ];
    check(
        &after.concat(),
        expect![[r#"
            sda disk_requests 400 from 1764258000 to 1764258002
            sda disk_read_bytes 1638400 from 1764258000 to 1764258002
            sda disk_write_bytes 0 from 1764258000 to 1764258002
            sda disk_busy_ms 30 from 1764258000 to 1764258002
            sda disk_wait_ms 0 from 1764258000 to 1764258002
            only-totals
        "#]],
    );
    let same = format!("1764258000\n{}", copy(1, 1));
    check(
        &same.repeat(3),
        expect![[r#"
            only-totals no-interval
        "#]],
    );
    // One copy has no interval.
    assert!(!recognise(copy(1, 1).as_bytes()));
}

/// `iostat -z` leaves idle devices out, and an idle time at the beginning or end counts, too.
#[test]
fn the_time_of_a_device_is_that_of_the_text() {
    let report = |second: u32, rows: &str| {
        format!("11/27/26 12:00:{second:02}\nDevice tps kB_read/s kB_wrtn/s\n{rows}")
    };
    let text = [
        report(0, "sda 9 9 9\nsdb 9 9 9\n"),
        report(10, "sdb 1 0 0\n"),
        report(20, "sda 5 1 0\nsdb 1 0 0\n"),
        report(30, "sdb 1 0 0\n"),
    ];
    check(
        &text.concat(),
        expect![[r#"
            sdb disk_requests 30 from 43200 to 43230
            sdb disk_read_bytes 0 from 43200 to 43230
            sdb disk_write_bytes 0 from 43200 to 43230
            sda disk_requests 50 from 43200 to 43230
            sda disk_read_bytes 10240 from 43200 to 43230
            sda disk_write_bytes 0 from 43200 to 43230
            only-totals since-boot
        "#]],
    );
    let idle = [report(0, "sda 9 9 9\n"), report(10, "sda 0 0 0\n")].concat();
    let mut batch = Batch::default();
    let mut reader = TotalsReader::new(Input::of("t", idle.clone()), idle.as_bytes());
    assert!(!reader.next_batch(&mut batch).expect("memory reads"));
    let runs = batch.instants.runs();
    assert_eq!(
        runs.iter().map(|run| run.last - run.first).collect::<Vec<_>>(),
        [fonio_core::Nanos(10_000_000_000)]
    );
}

/// Shows the samples of a histogram, and the diagnostics.
fn check_histogram(text: &str, expect: Expect) {
    let mut reader = open(vec![Input::of("t", text)], &ReadOptions::default()).expect("it is read");
    assert_eq!(reader.source().format, Format::Totals.name());
    let all = reader.read_all().expect("memory reads");
    let mut shown = String::new();
    for sample in &all.samples {
        assert_eq!(sample.metric, Metric::LatencyRequests);
        let subject = sample.subject.as_deref().unwrap_or_default();
        shown += &format!("{} at {}: {}\n", subject, sample.time.0 / 1_000_000_000, sample.value);
    }
    let codes: Vec<&str> = all.diagnostics.iter().map(|one| one.code.as_str()).collect();
    expect.assert_eq(&format!("{shown}{}\n", codes.join(" ")));
}

#[test]
fn histograms_of_biolatency() {
    // libbpf-tools, with -D and -F.
    check_histogram(
        "Tracing block device I/O... Hit Ctrl-C to end.\n\n\
         disk = vda\tflags = Sync-Write\n\
         \x20    usecs               : count    distribution\n\
         \x20        0 -> 1          : 2        |      |\n\
         \x20      256 -> 511        : 77       |******|\n\
         \x20      512 -> 1023       : 0        |      |\n\n\
         disk = Unknown\tflags = Read\n\
         \x20    usecs               : count    distribution\n\
         \x20      256 -> 511        : 1        |******|\n",
        expect![[r#"
            0 2000 vda Sync-Write at 0: 2
            256000 512000 vda Sync-Write at 0: 77
            256000 512000 Unknown Read at 0: 1
            only-totals
        "#]],
    );
    // bcc, with -m, -T and -D; and the day ends.
    check_histogram(
        "Tracing block device I/O... Hit Ctrl-C to end.\n\n23:59:59\n\n\
         Bucket disk = 'xvdb'\n\
         \x20    msecs               : count     distribution\n\
         \x20        2 -> 3          : 5        |   |\n\n\
         disk = b'xvdc'\n\
         \x20    msecs               : count     distribution\n\
         \x20        2 -> 3          : many     |   |\n\
         \x20        4 -> 3          : 6        |   |\n\
         \x20        9 -> 18446744073709551615 : 6        |   |\n\
         \x20        4 -> 7          : 6        |   |\n\n\
         00:00:00\n\
         \x20    msecs               : count     distribution\n\
         \x20        8 -> 15         : 7        |   |\n",
        expect![[r#"
            2000000 4000000 xvdb at 86399: 5
            4000000 8000000 xvdc at 86399: 6
            8000000 16000000  at 86400: 7
            only-totals
        "#]],
    );
    check_histogram(
        "Tracing block device I/O... Hit Ctrl-C to end.\n     usecs : count distribution\n",
        expect![[r#"
        no-counts only-totals
    "#]],
    );
    assert!(!recognise(b"     usecs               : count    distribution\n"));
}

#[test]
fn dictionaries_of_biolatency() {
    // bcc, with -j and -D; and the day ends.
    check_histogram(
        "\n{'ts': '2026-11-27 23:59:59', 'val_type': 'usecs', 'data': [{'interval-start': 0, 'interval-end': 1, 'count': 0}, \
         {'interval-start': 2, 'interval-end': 3, 'count': 12}], 'disk': b'vdb'}\n\
         {'ts': '2026-11-28 00:00:00', 'val_type': 'usecs', 'data': [{'interval-start': 2, 'interval-end': 3, 'count': 5}, \
         {'interval-start': 9, 'interval-end': 18446744073709551615, 'count': 5}, \
         {'interval-start': 4, 'interval-end': 7, 'count': -1}], 'disk': 'vdb'}\n\
         {'ts': 'now', 'val_type': 'operations', 'data': [{'interval-start': 2, 'interval-end': 3, 'count': 5}]}\n",
        expect![[r#"
            2000 4000 vdb at 86399: 12
            2000 4000 vdb at 86400: 5
            only-totals
        "#]],
    );
    // With -j, -m, -F and -T.
    check_histogram(
        "\n00:00:07\n{'ts': '2026-11-28 00:00:07', 'val_type': 'msecs', 'data': [{'interval-start': 2, 'interval-end': 3, \
         'count': 1}], 'flags': 'Sync-Write'}\n",
        expect![[r#"
            2000000 4000000 Sync-Write at 7: 1
            only-totals
        "#]],
    );
    // Without a disk, it could be a histogram of cpudist.
    assert!(!recognise(b"{'ts': '2026-11-27 23:59:59', 'val_type': 'usecs', 'data': []}\n"));
}

#[test]
fn the_sample_of_sysstat_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces/public/sysstat-sar.txt");
    let Ok(bytes) = std::fs::read(path) else {
        fonio_testing::skip(fonio_testing::Need::Shared, format!("{path} does not exist"));
        return;
    };
    let mut reader = open(vec![Input::of("t", bytes)], &ReadOptions::default()).expect("it is read");
    let all = reader.read_all().expect("memory reads");
    let last = |metric| {
        let mut of_sda = all.samples.iter().filter(|sample| sample.metric == metric);
        of_sda.rfind(|sample| sample.subject.as_deref() == Some("sda")).expect("it is there").value
    };
    // The sums of the intervals of 10 s before the restart, and of those after it.
    assert!(last(Metric::DiskRequests) > 16_000 && last(Metric::DiskBusyMs) > 8_500);
}

#[test]
fn numbers_with_units() {
    for (word, value) in [
        ("40.5M", Some(40.5 * 1_048_576.0)),
        ("85,4%", Some(85.4)),
        ("1.5k", Some(1536.0)),
        ("x", None),
        ("", None),
        ("k", None),
    ] {
        assert_eq!(number(word), value, "{word}");
    }
}

proptest! {
    #[test]
    fn any_lines(lines in prop::collection::vec(prop::sample::select(vec![
        "Device tps kB_read/s kB_wrtn/s", "sda 1 2 3", "sda 1e300 1e300 1e300", "13:20:09 DEV tps rkB/s await %util",
        "13:20:19 sda 1 2 3 4", "01:00:00 sda 1 2 3 4", "11/27/26 12:00:00", "99999999999", "1764258000", "Average: sda 1 2 3 4",
        "8 0 sda 1 0 8 4 2 1 16 6 0 5 10", "8 0 sda 18446744073709551615 0 8 4 2 1 16 6 0 5 10", "", "-1 -1",
        "Tracing block device I/O", "disk = vda", "flags = Read", "usecs : count", "msecs : count", "2 -> 3 : 4 |", "01:00:00",
        "{'ts': '2026-11-28 00:00:07', 'val_type': 'msecs', 'data': [{'interval-start': 2, 'interval-end': 3, 'count': 1}], 'disk': b'a'}",
    ]), 0..30)) {
        let text = lines.join("\n");
        recognise(text.as_bytes());
        let mut reader = TotalsReader::new(Input::of("t", text.clone()), text.as_bytes());
        let all = reader.read_all().expect("memory reads");
        prop_assert!(all.samples.iter().all(|sample| sample.value >= 0));
    }
}
