//! Runs fonio on a recording of a stranger that has far more names than memory. Every command must end with less
//! than 512 MiB, with a result or with a sentence.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use fonio_core::{ByteCount, Content, DeviceId, File, Meta, Op, Request, RowSink, Sector, Thread, Timestamp};
use fonio_core::{Wait, WaitReason};
use fonio_recording::{Writer, WriterOptions};

use super::text;

/// All paths together have 480 MB.
const FILES: u32 = 120_000;
const PATH_BYTES: usize = 4000;
const THREADS: u32 = 30_000;
const REQUESTS: u64 = 150_000;
const DEVICES: u32 = 400;
const WAITS: u32 = 100_000;

fn record(folder: &Path) {
    let mut writer = Writer::create(folder, WriterOptions::default()).expect("a new recording");
    let sink: &mut dyn RowSink = &mut writer;
    sink.began(Timestamp(0)).expect("a start");
    let padding = "a".repeat(PATH_BYTES);
    for file_id in 0..FILES {
        let path = Some(format!("/{file_id}/{padding}"));
        let (from, device, inode) = (Timestamp(0), Some(DeviceId::new(8, 0)), Some(u64::from(file_id)));
        sink.file(&File { file_id, from, device, inode, path, content: Content::Data }).expect("a file");
    }
    for tid in 1..=THREADS {
        let name = Some(format!("{tid}{}", &padding[..500]));
        let thread = Thread { tid, pid: Some(tid), comm: name.clone(), unit: name, ..Thread::default() };
        sink.thread(&thread).expect("a thread");
    }
    for request_id in 0..REQUESTS {
        let at = |later: u64| Some(Timestamp(1000 * request_id + later));
        let number = request_id as u32;
        let device = DeviceId::new(8, number % DEVICES);
        let row = Request {
            request_id,
            sector: Some(Sector(8 * request_id)),
            queued: at(1),
            inserted: at(2),
            issued: at(3),
            completed: at(900),
            tid: Some(1 + number % THREADS),
            file_id: Some(number % FILES),
            content: Content::Data,
            ..Request::new(device, Op::Write, ByteCount(4096))
        };
        sink.request(&row).expect("a request");
    }
    for number in 0..WAITS {
        let began = 1000 * u64::from(number);
        let wait = Wait {
            tid: 1 + number % THREADS,
            began: Timestamp(began + 3),
            ended: Some(Timestamp(began + 900)),
            reason: WaitReason::Storage,
            request_id: Some(u64::from(number)),
            waker_tid: Some(1),
            blocked_in: None,
            file_id: None,
            io_wait: None,
            function: None,
        };
        sink.wait(&wait).expect("a wait");
    }
    writer.finish(Meta::default()).expect("a recording");
}

/// Runs fonio with at most 512 MiB for its data, as the kernel counts them (`RLIMIT_DATA`).
fn in_little_memory(words: &str, folder: &Path) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -d 524288; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_fonio")]);
    command.args(words.split(' ')).current_dir(folder).stdin(Stdio::null()).env("NO_COLOR", "1");
    command.output().expect("sh runs")
}

#[test]
fn a_recording_with_more_names_than_memory_is_read() {
    let dir = tempfile::tempdir().expect("a folder");
    record(&dir.path().join("run"));
    for words in [
        "report run",
        "report run --json --all",
        "report run --html report.html",
        "report run --redact",
        "report run --file /7/*",
        "compare run run",
        "export run --format perfetto -o trace.pftrace",
        "export run --format perfetto-json -o trace.json",
        "export run --format iolog -o iolog",
        "export run --format csv -o csv",
        "export run --format recording -o copy",
        "export run --format recording --redact -o redacted",
    ] {
        let out = in_little_memory(words, dir.path());
        let errors = text(&out.stderr);
        assert_eq!(out.status.code(), Some(0), "{words}: {}", &errors[..errors.len().min(2000)]);
    }
}
