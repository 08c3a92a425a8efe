use std::path::PathBuf;

use expect_test::{Expect, expect};
use fonio_core::CollectedRows;
use fonio_testing::{Need, skip};

use super::*;
use crate::assemble::assemble;
use crate::assembler::AssemblerOptions;
use crate::recognise::{Format, ReadOptions, open};

fn check(text: &str, expected: Expect) {
    assert!(recognise(text.as_bytes()));
    let mut reader = FsSlowerReader::new(Input::of("t", text));
    let all = reader.read_all().expect("memory reads");
    assert!(all.requests.is_empty() && all.events.is_empty());
    let mut shown = format!("clock {}\n", reader.clock().name);
    for one in &all.marks {
        shown += &format!("mark {} {}\n", one.at.0, one.name);
    }
    for one in &all.calls {
        shown += &format!(
            "{} of {} on {:?} offset {:?} bytes {:?} {}-{} result {:?}\n",
            one.name,
            one.tid,
            one.file_id,
            one.offset,
            one.bytes.map(|bytes| bytes.0),
            one.entered.0,
            one.exited.expect("each has an end").0,
            one.result,
        );
    }
    for one in &all.threads {
        shown += &format!("thread {} {:?} {:?} from {}\n", one.tid, one.pid, one.comm, one.from.0);
    }
    for one in &all.files {
        shown += &format!("file {} {:?}\n", one.file_id, one.path);
    }
    for one in &all.lost {
        shown += &format!("lost {:?} on {:?} {}-{}\n", one.count, one.cpu, one.after.0, one.before.0);
    }
    for one in &all.diagnostics {
        shown += &format!("{:?} {} line {:?}: {}\n", one.severity, one.code, one.record, one.message);
    }
    expected.assert_eq(&shown);
}

#[test]
fn ext4slower_of_bcc() {
    check(
        "Tracing ext4 operations slower than 10 ms\n\
         TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME\n\
         23:59:59 cron           16464  R 1249    0          16.05 common-auth\n\
         00:00:01 my program 7 R 16464  W 4096    12         10.50 a file, with 7 R 1 2 3.5 blanks\n\
         00:00:01 thread         16464  S 0       0          30.00 common-auth\n\
         00:00:01 cron           16464  R 4294967285 0       11.00 common-auth\n\
         Possibly lost 3 samples\n\
         00:00:00 cron           16465  O 0       0          12.00 \n\
         [...]\n\
         00:00:61 cron           16465  O 0       0          12.00 x\n\
         00:00:00 cron           16465  O 0       0          1e300.0 x\n\
         00:00:00 cron           16465  O 0       0          99999999.0 x\n",
        expect![[r#"
            clock unknown
            mark 172798983950000 slow calls: ext4 operations slower than 10 ms
            read of 16464 on Some(0) offset None bytes Some(1249) 172798983950000-172799000000000 result Some(1249)
            write of 16464 on Some(1) offset None bytes Some(4096) 172800989500000-172801000000000 result Some(4096)
            fsync of 16464 on Some(0) offset None bytes None 172800970000000-172801000000000 result None
            read of 16464 on Some(0) offset None bytes None 172800989000000-172801000000000 result Some(-11)
            open of 16465 on None offset None bytes None 172799988000000-172800000000000 result None
            open of 16465 on Some(2) offset None bytes None 72800001000000-172800000000000 result None
            thread 16464 Some(16464) Some("cron") from 172798983950000
            thread 16464 Some(16464) Some("my program 7 R") from 172800989500000
            thread 16464 Some(16464) Some("thread") from 172800970000000
            thread 16464 Some(16464) Some("cron") from 172800989000000
            thread 16465 Some(16465) Some("cron") from 172799988000000
            file 0 Some("common-auth")
            file 1 Some("a file, with 7 R 1 2 3.5 blanks")
            file 2 Some("x")
            lost Some(3) on None 172801000000000-172801000000000
            Note no-call line Some(9): The line does not have the columns of a call; it was skipped.
            Warning unreadable-row line Some(10): The time cannot be read; the line was skipped.
            Note no-call line Some(11): The line does not have the columns of a call; it was skipped.
        "#]],
    );
}

#[test]
fn fsslower_of_libbpf() {
    check(
        "Tracing xfs operations... Hit Ctrl-C to end.\n\
         TIME     COMM             PID     T BYTES   OFF_KB   LAT(ms) FILENAME\n\
         lost 2 events on CPU #1\n\
         08:00:18 bash             577     F LL_MAX  0           0.49 sleep\n\
         08:00:18 bash             577     R -5      0           0.25 sleep\n",
        expect![[r#"
            clock unknown
            mark 115217999510000 slow calls: xfs operations
            fsync of 577 on Some(0) offset None bytes None 115217999510000-115218000000000 result None
            read of 577 on Some(0) offset None bytes None 115217999750000-115218000000000 result Some(-5)
            thread 577 Some(577) Some("bash") from 115217999510000
            file 0 Some("sleep")
            lost Some(2) on Some(1) 0-115218000000000
        "#]],
    );
}

#[test]
fn tables_with_commas() {
    check(
        "ENDTIME_us,TASK,PID,TYPE,BYTES,OFFSET_b,LATENCY_us,FILE\n\
         6137363776,run,12297,R,104,512,8,a,b \"c\"\n\
         6137364026,x,7,R,y,12297,O,0,0,9,run\n\
         5,run,12297,R,104,0,8,x\n",
        expect![[r#"
            clock mono
            mark 6137363768000 slow calls: calls slower than an unknown limit
            read of 12297 on Some(0) offset Some(512) bytes Some(104) 6137363768000-6137363776000 result Some(104)
            open of 12297 on Some(1) offset None bytes None 6137364017000-6137364026000 result None
            thread 12297 Some(12297) Some("run") from 6137363768000
            thread 12297 Some(12297) Some("x,7,R,y") from 6137364017000
            file 0 Some("a,b \"c\"")
            file 1 Some("run")
            Warning unreadable-row line Some(4): The latency cannot be read; the line was skipped.
        "#]],
    );
    check(
        "ENDTIME_ns,TASK,PID,TYPE,BYTES,OFFSET_b,LATENCY_us,FILE\n6137363776,run,3,F,LL_MAX,0,8,x\n",
        expect![[r#"
            clock mono
            mark 6137355776 slow calls: calls slower than an unknown limit
            fsync of 3 on Some(0) offset None bytes None 6137355776-6137363776 result None
            thread 3 Some(3) Some("run") from 6137355776
            file 0 Some("x")
        "#]],
    );
}

#[test]
fn fileslower() {
    check(
        "Tracing sync read/writes slower than 10 ms\n\
         TIME(s)  COMM           TID    D BYTES   LAT(ms) FILENAME\n\
         0.013    randread.pl    4762   R 8192      12.70 data1\n\
         8.850    run time 1     23    W 4294967295 21.00 .\n",
        expect![[r#"
            clock unknown
            mark 86400000300000 slow calls: sync read/writes slower than 10 ms
            read of 4762 on Some(0) offset None bytes Some(8192) 86400000300000-86400013000000 result None
            write of 23 on Some(1) offset None bytes Some(4294967295) 86408829000000-86408850000000 result None
            thread 4762 None Some("randread.pl") from 86400000300000
            thread 23 None Some("run time 1") from 86408829000000
            file 0 Some("data1")
            file 1 Some(".")
        "#]],
    );
}

#[test]
fn a_second_run_and_an_empty_one() {
    let run = "TIME(s)  COMM TID D BYTES LAT(ms) FILENAME\n1.5 dd 7 W 4096 0.5 x\n";
    check(
        &run.repeat(2),
        expect![[r#"
        clock unknown
        mark 86401499500000 slow calls: sync read/writes slower than an unknown limit
        write of 7 on Some(0) offset None bytes Some(4096) 86401499500000-86401500000000 result None
        thread 7 None Some("dd") from 86401499500000
        file 0 Some("x")
        Warning second-run line Some(3): Another run begins with this header. Its limit and its times can differ, so it was not read; put it into a file of its own.
    "#]],
    );
    check(
        "TIME     COMM PID    T BYTES   OFF_KB   LAT(ms) FILENAME\n",
        expect![[r#"
        clock unknown
        Error no-calls line None: The text has no call after a header such as `TIME COMM PID T BYTES OFF_KB LAT(ms) FILENAME`.
    "#]],
    );
    assert!(!recognise(b"TIME COMM PID T BYTES OFF_KB LAT(ms)\n"));
}

/// The first run in the examples of bcc's documentation.
#[test]
fn the_example_of_bcc_is_read() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/traces/public/bcc-ext4slower_example.txt");
    let Ok(text) = std::fs::read(&path) else {
        return skip(Need::Shared, format!("{} does not exist", path.display()));
    };
    let mut reader = open(vec![Input::of("s", text)], &ReadOptions::default()).expect("it is recognised");
    assert_eq!(reader.source().format, Format::FsSlower.name());
    let mut rows = CollectedRows::default();
    assemble(reader.as_mut(), AssemblerOptions::default(), &mut rows).expect("memory reads");
    assert_eq!((rows.calls.len(), rows.requests.len()), (18, 0));
    let total: u64 = (rows.calls.iter()).map(|call| (call.exited.expect("an end") - call.entered).0).sum();
    assert_eq!(total, 276_730_000);
    assert_eq!(rows.files.len(), 12);
}

#[test]
fn calls_lost_at_the_end_have_a_place() {
    let text = "TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME\n\
        00:00:01 cron           16464  S 0       0         11.00 a\n\
        Possibly lost 3 samples\n";
    let all = FsSlowerReader::new(Input::of("t", text)).read_all().expect("memory reads");
    assert!(
        matches!(&all.lost[..], [gap] if gap.count == Some(3) && gap.before >= gap.after),
        "{:?}",
        all.lost
    );
}

#[test]
fn a_time_of_day_is_read_within_its_range() {
    assert_eq!(line::time_of_day(b"23:59:60"), Some(86_400));
    for text in ["24:00:00", "12:60:00", "12:00:61", "18446744073709551615:00:00", "1:18446744073709551615:0"]
    {
        assert_eq!(line::time_of_day(text.as_bytes()), None, "{text}");
    }
}
