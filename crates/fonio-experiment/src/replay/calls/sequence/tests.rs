use fonio_core::{ByteCount, Content, Nanos};

use super::*;

/// The device 8:1, in the encoding of `DeviceId::new`.
const DISK: DeviceId = DeviceId(8 << 20 | 1);

fn row(tid: u32, name: &str, file_id: u32, offset: u64, bytes: u64, at_us: u64) -> fonio_core::Call {
    fonio_core::Call {
        call_id: at_us,
        name: name.to_owned(),
        tid,
        file_id: Some(file_id),
        offset: Some(offset),
        bytes: Some(ByteCount(bytes)),
        entered: Timestamp(at_us * 1000),
        exited: Some(Timestamp(at_us * 1000 + 4000)),
        result: Some(bytes as i64),
        sqlite_write: None,
        file_flags: None,
    }
}

fn sequence_of(rows: Vec<fonio_core::Call>) -> Sequence {
    collected_with(Collected::default(), rows)
}

fn collected_with(mut collected: Collected, rows: Vec<fonio_core::Call>) -> Sequence {
    collected.began(Timestamp(0)).expect("it only collects");
    for file_id in 0..10 {
        let (device, path) = match file_id {
            8 => (DeviceId::new(0, 20), "/tmp/x".to_owned()),
            9 => (DISK, "/proc/meminfo".to_owned()),
            _ => (DISK, format!("/home/{file_id}")),
        };
        let (device, path) = (Some(device), Some(path));
        let row = File { file_id, from: Timestamp(0), device, inode: None, path, content: Content::Data };
        collected.file(&row).expect("it only collects");
    }
    rows.iter().for_each(|row| collected.call(row).expect("it only collects"));
    collected.sequence().expect("it is small")
}

fn open(file_id: u32, made: bool, length: u64, at_us: u64) -> fonio_core::Call {
    let flags = if made { FileFlags::MADE } else { FileFlags::NONE };
    fonio_core::Call {
        file_flags: Some(flags),
        result: Some(3),
        ..row(1, "openat", file_id, length, 0, at_us)
    }
}

#[test]
fn files_are_there_before_if_the_calls_found_them() {
    let sequence = sequence_of(vec![
        // This call opens an existing file of 9000 bytes.
        open(0, false, 9000, 10),
        row(1, "pread64", 0, 4096, 4096, 20),
        // This call creates its file.
        open(1, true, 0, 30),
        row(1, "write", 1, 0, 100, 40),
        row(1, "read", 1, 0, 100, 50),
        // These files were opened before the recording, and are read, overwritten and appended to.
        row(1, "read", 2, 3 << 20, 10, 60),
        row(1, "pwrite64", 3, 500, 10, 70),
        row(1, "read", 3, 500, 10, 80),
        // This file is only deleted.
        fonio_core::Call { result: Some(0), ..row(1, "unlink", 4, 0, 0, 90) },
    ]);
    let before: Vec<(bool, u64)> = sequence.files.iter().map(|file| (file.is_there, file.bytes)).collect();
    assert_eq!(before, [(true, 9000), (false, 0), (true, (3 << 20) + 10), (true, 500), (true, 0)]);
    let chunks: Vec<Vec<u64>> =
        sequence.files.iter().map(|file| file.chunks.ranges().flatten().collect()).collect();
    assert_eq!(chunks, [vec![0], vec![0], vec![3], vec![0], vec![]]);
    assert_eq!(sequence.room(), ByteCount(9000 + 100 + 10 + 510));
}

#[test]
fn what_is_left_out_is_counted_by_reason() {
    let sequence = sequence_of(vec![
        row(1, "write", 0, 0, 10, 10),
        fonio_core::Call { result: Some(-28), ..row(1, "write", 0, 10, 10, 20) },
        row(1, "write", 8, 0, 10, 30),
        row(1, "read", 9, 0, 10, 40),
        row(1, "msync", 0, 0, 10, 50),
        fonio_core::Call { file_id: None, ..row(1, "unlink", 0, 0, 0, 60) },
        fonio_core::Call { offset: None, ..row(1, "read", 0, 0, 1, 70) },
        fonio_core::Call { file_id: None, result: Some(0), ..row(1, "sync", 0, 0, 0, 80) },
        // No call can write 2^62 bytes, so the row is damaged.
        row(1, "write", 0, 0, 1 << 62, 90),
    ]);
    let acts: Vec<Act> = sequence.threads.iter().flatten().map(|call| call.act).collect();
    assert_eq!(acts, [Act::Write { offset: 0, bytes: 10 }, Act::SyncFilesystem]);
    let left_out: Vec<(LeftOut, u64)> = sequence.left_out.into_iter().collect();
    assert_eq!(
        left_out,
        [(LeftOut::Failed, 1), (LeftOut::Elsewhere, 2), (LeftOut::Unknown, 3), (LeftOut::Kind, 1)]
    );
}

#[test]
fn a_thread_goes_on_after_what_it_had_waited_for() {
    let sequence = sequence_of(vec![
        row(1, "write", 0, 0, 10, 10),
        row(1, "write", 0, 0, 10, 100),
        // This call runs at the same time as a call of thread 1.
        row(2, "write", 1, 0, 10, 50),
        // This write comes after both other writes, but the recording shows no wait for them.
        row(3, "write", 2, 0, 10, 200),
    ]);
    let us = |us: u64| Nanos(us * 1000);
    let begins: Vec<Vec<Begins>> =
        sequence.threads.iter().map(|calls| calls.iter().map(|call| call.begins).collect()).collect();
    assert_eq!(
        begins,
        [vec![Begins::At(us(10)), Begins::AfterEnd(us(86)), Begins::At(us(200))], vec![Begins::At(us(50))],]
    );
}

#[test]
fn a_shell_goes_on_when_its_command_has_ended() {
    let mut collected = Collected::default();
    let child = Thread { tid: 2, pid: Some(2), parent_pid: Some(1), ..Thread::default() };
    collected.thread(&child).expect("it only collects");
    let wait = Wait {
        tid: 1,
        began: Timestamp(15_000),
        ended: Some(Timestamp(60_000)),
        reason: fonio_core::WaitReason::Thread,
        request_id: None,
        waker_tid: Some(2),
        blocked_in: None,
        file_id: None,
        io_wait: None,
        function: None,
    };
    collected.wait(&wait).expect("it only collects");
    let sequence = collected_with(
        collected,
        vec![row(1, "write", 0, 0, 10, 10), row(2, "write", 1, 0, 10, 50), row(1, "write", 0, 0, 10, 100)],
    );
    let us = |us: u64| Nanos(us * 1000);
    let found: Vec<Vec<(Begins, Option<u32>)>> = sequence
        .threads
        .iter()
        .map(|calls| calls.iter().map(|call| (call.begins, call.signal)).collect())
        .collect();
    let after = |signal, pause| Begins::AfterOther { signal, pause: us(pause) };
    assert_eq!(
        found,
        [vec![(Begins::At(us(10)), Some(0)), (after(1, 46), None)], vec![(after(0, 36), Some(1))]]
    );
    assert_eq!(sequence.signals, 2);
}
