use std::path::PathBuf;

use expect_test::{Expect, expect};
use fonio_core::meta::Lost;
use fonio_core::{CollectedRows, Nanos};
use fonio_testing::{Need, skip};

use super::*;
use crate::assemble::assemble;
use crate::assembler::AssemblerOptions;
use crate::recognise::{Format, ReadOptions, open};

fn check(text: &str, expected: Expect) {
    assert!(recognise(text.as_bytes()));
    let mut reader = BiosnoopReader::new(Input::of("t", text));
    let all = reader.read_all().expect("memory reads");
    let mut shown = format!("shows {:?}, disks {:?}\n", reader.source().shows, reader.device_names());
    for one in &all.requests {
        let time = |time: Option<Timestamp>| time.map_or("-".to_owned(), |time| time.0.to_string());
        shown += &format!(
            "{} {} {:#x}/{:#x} sector {:?} bytes {} Q{} D{} C{} tid {:?}\n",
            one.device,
            one.op.name(),
            one.flags.0,
            one.flags_known.0,
            one.sector.map(|sector| sector.0),
            one.bytes.0,
            time(one.queued),
            time(one.issued),
            time(one.completed),
            one.tid,
        );
    }
    for one in &all.threads {
        shown += &format!("thread {} {:?} {:?}\n", one.tid, one.pid, one.comm);
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
fn bcc() {
    check(
        "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  QUE(ms) LAT(ms)\n\
         0.000000    kworker/u72:1  13379  nvme1n1 W 1142400    4096      0.01    0.55\n\
         -0.000004   tokio run time 22177  nvme0n1 R 41963894   3072      0.11    0.47\n\
         0.000771    ?              0              R 0          0         0.00    0.20\n\
         0.000772    sync           22177  nvme1n1 W many       3072      0.11    0.47\n\
         ^C\n",
        expect![[r#"
            shows ["queue", "issue", "complete"], disks [(DeviceId(1), "nvme0n1"), (DeviceId(0), "nvme1n1"), (DeviceId(2), "unknown disk")]
            0:0 write 0x0/0x0 sector Some(1142400) bytes 4096 Q999999440000 D999999450000 C1000000000000 tid Some(13379)
            0:1 read 0x0/0x0 sector Some(41963894) bytes 3072 Q999999416000 D999999526000 C999999996000 tid Some(22177)
            0:2 flush 0x0/0x0 sector None bytes 0 Q1000000571000 D1000000571000 C1000000771000 tid None
            thread 13379 Some(13379) Some("kworker/u72:1")
            thread 22177 Some(22177) Some("tokio run time")
            Note coarse-latencies line None: The latencies have a resolution of 10 µs; smaller differences cannot be seen.
            Warning unreadable-row line Some(5): The sector cannot be read; the line was skipped.
            Note no-event line Some(6): The line has too few columns for a request; it was skipped.
        "#]],
    );
}

#[test]
fn libbpf() {
    check(
        "TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)\n\
         0.000000    jbd2/vd        153     vda     WSM  17160792   40960    -1.000   2.069\n\
         0.013062    ?              0       vda     FF   -1         0         0.003   7.570\n\
         lost 12 events on CPU #1\n\
         18446744073.709547 cat     9       Unknown R    8          512       0.003   0.001\n",
        expect![[r#"
            shows ["queue", "issue", "complete"], disks [(DeviceId(1), "Unknown"), (DeviceId(0), "vda")]
            0:0 write 0x3/0x1f sector Some(17160792) bytes 40960 Q- D999997931000 C1000000000000 tid Some(153)
            0:0 flush 0x8/0x1f sector None bytes 0 Q1000005489000 D1000005492000 C1000013062000 tid None
            0:1 read 0x0/0x1f sector Some(8) bytes 512 Q999999991384 D999999994384 C999999995384 tid Some(9)
            thread 153 Some(153) Some("jbd2/vd")
            thread 9 Some(9) Some("cat")
            lost Some(12) on Some(1) 1000013062000-1000013062000
            Note coarse-latencies line None: The latencies have a resolution of 1 µs; smaller differences cannot be seen.
        "#]],
    );
}

#[test]
fn iosnoop() {
    check(
        "Tracing block I/O. Ctrl-C to end.\n\
         STARTs         ENDs           COMM             PID    TYPE DEV      BLOCK        BYTES     LATms\n\
         13462733.960512 13462733.961090 java           30603  WS   202,16   4895936      4096       0.58\n\
         13462733.961090 13462733.960512 java           30603  WS   202,16   4895936      4096       0.58\n",
        expect![[r#"
            shows ["issue", "complete"], disks []
            202:16 write 0x1/0x1f sector Some(4895936) bytes 4096 Q- D13462733960512000 C13462733961090000 tid Some(30603)
            thread 30603 Some(30603) Some("java")
            Note coarse-latencies line None: The latencies have a resolution of 1 µs; smaller differences cannot be seen.
            Warning unreadable-row line Some(4): The request ends before it starts; the line was skipped.
        "#]],
    );
}

#[test]
fn two_runs_have_no_common_time() {
    let run = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n1.5 dd 7 sda W 8 4096 0.5\n";
    check(
        &run.repeat(2),
        expect![[r#"
            shows ["issue", "complete"], disks [(DeviceId(0), "sda")]
            0:0 write 0x0/0x0 sector Some(8) bytes 4096 Q- D1001499500000 C1001500000000 tid Some(7)
            thread 7 Some(7) Some("dd")
            Note coarse-latencies line None: The latencies have a resolution of 100 µs; smaller differences cannot be seen.
            Warning second-run line Some(3): Another run begins with this header. Its times have another beginning, so it was not read; put it into a file of its own.
        "#]],
    );
    let no_times = "COMM             PID    TYPE DEV      BLOCK        BYTES     LATms\n";
    assert!(!recognise(no_times.as_bytes()));
}

#[test]
fn no_request_is_an_error() {
    check(
        "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n1.5 dd 7 sda W\n",
        expect![[r#"
        shows ["issue", "complete"], disks []
        Note no-event line Some(2): The line has too few columns for a request; it was skipped.
        Error no-records line None: The text has no request after a header such as `TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)`.
    "#]],
    );
}

/// The median latency in fonio's recording of the sample.
const MEDIAN_NS: u64 = 647_000;

/// The sample was recorded in a guest while fonio recorded one of its devices, `loop0`.
#[test]
fn a_sample_is_what_fonio_recorded() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/phones/guest-6.12");
    if !folder.is_dir() {
        return skip(Need::Shared, format!("{} does not exist", folder.display()));
    }
    let text = std::fs::read(folder.join("biosnoop-libbpf.txt")).expect("the sample is there");
    let mut reader = open(vec![Input::of("s", text)], &ReadOptions::default()).expect("it is recognised");
    assert_eq!(reader.source().format, Format::Biosnoop.name());
    let mut rows = CollectedRows::default();
    let meta = assemble(reader.as_mut(), AssemblerOptions::default(), &mut rows).expect("memory reads");
    assert_eq!(meta.lost, Lost::default());
    let device = meta.devices.iter().find(|device| device.name.as_deref() == Some("loop0")).expect("loop0");
    let mut found: Vec<&Request> = rows.requests.iter().filter(|row| row.device == device.id).collect();
    found.sort_by_key(|row| row.issued);
    let total: u64 = found.iter().map(|row| row.bytes.0).sum();
    let mut latencies: Vec<Nanos> =
        found.iter().filter_map(|row| row.completed?.since(row.issued?)).collect();
    latencies.sort();
    // fonio recorded 284 requests of 2 154 496 bytes, with a median latency of 647 µs, in the table
    // `rec-biosnoop-libbpf/requests.parquet`. biosnoop measures at other places in the kernel.
    assert_eq!((found.len(), latencies.len(), total), (284, 284, 2_154_496));
    let median = latencies[latencies.len() / 2].0;
    assert!(median.abs_diff(MEDIAN_NS) < MEDIAN_NS / 10, "{median}");
}
