//! Checks that every row is read back as it was written.

#![allow(clippy::unwrap_used)]

use crate::generated;

use std::io;

use fonio_core::meta::SCHEMA_VERSION;
use fonio_core::{
    Bio, BlockedCount, BlockedIn, ByteCount, Call, CollectedRows, Content, DeviceId, Diagnostic, File,
    FileFlags, Flags, IoWait, Link, LinkEnd, LinkKind, Mark, Meta, Metric, Nanos, Op, Request, RowSink,
    Sample, Sector, Severity, SqliteWrite, Statement, Thread, Timestamp, Wait, WaitReason, ignore_rows,
};
use fonio_recording::{Recording, Table, Tables, Writer, WriterOptions, is_recording};
use generated::{Checked, Generated};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp)
}

fn device() -> impl Strategy<Value = DeviceId> {
    prop_oneof![Just(DeviceId::new(8, 0)), Just(DeviceId::new(179, 1)), any::<u32>().prop_map(DeviceId)]
}

fn flags() -> impl Strategy<Value = Flags> {
    any::<u32>().prop_map(Flags)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just("fsync".to_owned()), any::<String>()]
}

prop_compose! {
    fn request()(
        request_id: u64,
        device in device(),
        op in select(&Op::ALL[..]),
        (flags, flags_known) in (flags(), flags()),
        sector in of(any::<u64>().prop_map(Sector)),
        bytes in any::<u64>().prop_map(ByteCount),
        times in prop::array::uniform5(of(time())),
        numbers in prop::array::uniform5(of(any::<u32>())),
        content in select(Content::ALL),
        ioprio in of(any::<u16>()),
        error in of(any::<i32>()),
    ) -> Request {
        let [queued, inserted, issued, reissued, completed] = times;
        let [requeues, cpu, tid, cause_tid, file_id] = numbers;
        Request {
            request_id, device, op, flags, flags_known, sector, bytes, queued, inserted, issued, reissued,
            completed, requeues, cpu, tid, cause_tid, file_id, content, ioprio, error,
        }
    }
}

prop_compose! {
    fn bio()(
        bio_id: u64,
        device in device(),
        op in select(&Op::ALL[..]),
        (flags, flags_known) in (flags(), flags()),
        sector in of(any::<u64>().prop_map(Sector)),
        bytes in any::<u64>().prop_map(ByteCount),
        queued in time(),
        completed in of(time()),
        numbers in prop::array::uniform3(of(any::<u32>())),
        request_id: Option<u64>,
    ) -> Bio {
        let [tid, cause_tid, file_id] = numbers;
        Bio {
            bio_id, device, op, flags, flags_known, sector, bytes, queued, completed, tid, cause_tid, file_id,
            request_id,
        }
    }
}

prop_compose! {
    fn link()(
        kind in select(LinkKind::ALL),
        parent_table in select(LinkEnd::ALL),
        parent: u64,
        child_table in select(LinkEnd::ALL),
        child: u64,
    ) -> Link {
        Link { kind, parent_table, parent, child_table, child }
    }
}

prop_compose! {
    fn call()(
        call_id: u64,
        name in text(),
        tid: u32,
        file_id: Option<u32>,
        offset: Option<u64>,
        bytes in of(any::<u64>().prop_map(ByteCount)),
        entered in time(),
        exited in of(time()),
        result: Option<i64>,
        sqlite_write in of(select(SqliteWrite::ALL)),
        file_flags in of(any::<u32>().prop_map(FileFlags)),
    ) -> Call {
        Call { call_id, name, tid, file_id, offset, bytes, entered, exited, result, sqlite_write, file_flags }
    }
}

prop_compose! {
    fn statement()(
        tid: u32,
        connection: Option<u32>,
        entered in time(),
        exited in of(time()),
        steps: u64,
        stepping in any::<u64>().prop_map(Nanos),
        text in of(text()),
    ) -> Statement {
        Statement { tid, connection, entered, exited, steps, stepping, text }
    }
}

prop_compose! {
    fn wait()(
        tid: u32,
        began in time(),
        ended in of(time()),
        reason in select(WaitReason::ALL),
        request_id: Option<u64>,
        waker_tid: Option<u32>,
        blocked_in in of(select(BlockedIn::ALL)),
        file_id: Option<u32>,
        io_wait in of(select(IoWait::ALL)),
        function in of(text()),
    ) -> Wait {
        Wait { tid, began, ended, reason, request_id, waker_tid, blocked_in, file_id, io_wait, function }
    }
}

prop_compose! {
    fn blocked_count()(
        tid: u32,
        blocked_in in select(BlockedIn::ALL),
        reason in select(WaitReason::ALL),
        (from, until) in (time(), time()),
        (below, total) in (any::<u64>().prop_map(Nanos), any::<u64>().prop_map(Nanos)),
        count: u64,
    ) -> BlockedCount {
        BlockedCount { tid, blocked_in, reason, from, until, below, count, total }
    }
}

prop_compose! {
    fn file()(
        file_id: u32,
        from in time(),
        device in of(device()),
        inode: Option<u64>,
        path in of(text()),
        content in select(Content::ALL),
    ) -> File {
        File { file_id, from, device, inode, path, content }
    }
}

prop_compose! {
    fn thread()(
        tid: u32,
        from in time(),
        pid: Option<u32>,
        comm in of(text()),
        cgroup in of(text()),
        uid: Option<u32>,
        parent_pid: Option<u32>,
        unit in of(text()),
    ) -> Thread {
        Thread { tid, from, pid, comm, cgroup, uid, parent_pid, unit }
    }
}

prop_compose! {
    fn sample()(
        time in time(),
        metric in select(Metric::ALL),
        subject in of(text()),
        value: i64,
    ) -> Sample {
        Sample { time, metric, subject, value }
    }
}

prop_compose! {
    fn mark()(at in time(), until in of(time()), name in text(), tid: Option<u32>) -> Mark {
        Mark { at, until, name, tid }
    }
}

prop_compose! {
    fn diagnostic()(
        severity in select(Severity::ALL),
        code in text(),
        message in text(),
        file in of(text()),
        record: Option<u64>,
        offset: Option<u64>,
        count: u64,
    ) -> Diagnostic {
        Diagnostic { severity, code, message, file, record, offset, count }
    }
}

fn some<S: Strategy>(row: S) -> impl Strategy<Value = Vec<S::Value>> {
    prop::collection::vec(row, 0..30)
}

prop_compose! {
    fn rows()(
        requests in some(request()),
        bios in some(bio()),
        links in some(link()),
        calls in some(call()),
        statements in some(statement()),
        waits in some(wait()),
        blocked_counts in some(blocked_count()),
        files in some(file()),
        threads in some(thread()),
        samples in some(sample()),
        marks in some(mark()),
        diagnostics in some(diagnostic()),
    ) -> CollectedRows {
        CollectedRows { began: None, requests, bios, links, calls, statements, waits, blocked_counts, files, threads, samples, marks, diagnostics }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_row_comes_back(mut rows in rows()) {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("recording");
        let mut writer = Writer::create(&dir, WriterOptions::default()).unwrap();
        rows.feed(&mut writer).unwrap();
        let meta = writer.finish(Meta::default()).unwrap();

        let recording = Recording::open(&dir).unwrap();
        prop_assert_eq!(recording.meta(), &meta);
        prop_assert_eq!(recording.rows(Table::Links), rows.links.len() as u64);
        let mut read = CollectedRows::default();
        recording.replay(&mut read, Tables::ALL).unwrap();
        rows.requests.sort_by(Request::order);
        rows.bios.sort_by_key(|row| (row.queued, row.bio_id));
        prop_assert_eq!(read, rows);
    }
}

#[test]
fn files_of_a_recording() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("recording");
    assert!(!is_recording(&dir));
    let mut writer = Writer::create(&dir, WriterOptions::default()).unwrap();
    Generated { requests: 10, ..Generated::default() }.feed(&mut writer).unwrap();
    assert!(!dir.exists());
    let meta = writer.finish(Meta { writer: "test".to_owned(), ..Meta::default() }).unwrap();
    assert_eq!(meta.schema_version, SCHEMA_VERSION);
    assert!(is_recording(&dir));

    let mut names: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "diagnostics.jsonl",
        "files.parquet",
        "marks.parquet",
        "meta.json",
        "requests.parquet",
        "samples.parquet",
        "threads.parquet",
    ];
    assert_eq!(names, expected);
    let rows: Vec<_> = meta.rows.iter().map(|(table, rows)| (table.as_str(), *rows)).collect();
    assert_eq!(rows, [("files", 40), ("marks", 1), ("requests", 10), ("samples", 6), ("threads", 13)]);
}

/// A replay passes the same rows as a sequencer, interleaved in the same way. A replay into a writer creates
/// an identical copy of the recording.
#[test]
fn a_replay_is_the_direct_way() {
    #[derive(Default, PartialEq)]
    struct Order(Vec<(bool, u64)>, bool);
    impl RowSink for Order {
        fn request(&mut self, row: &Request) -> io::Result<()> {
            self.0.push((true, row.request_id));
            Ok(())
        }
        fn bio(&mut self, row: &Bio) -> io::Result<()> {
            self.0.push((false, row.bio_id));
            Ok(())
        }
        ignore_rows! {
            began, link, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic, settled
        }
        fn wants_bios(&self) -> bool {
            !self.1
        }
    }
    let trace = Generated { requests: 30_000, bios: true, ..Generated::default() };
    let mut direct = Order::default();
    let mut sequencer = fonio_recording::Sequencer::new(&mut direct, Default::default());
    trace.feed(&mut sequencer).unwrap();
    sequencer.finish().unwrap();

    let place = tempfile::tempdir().unwrap();
    let (first, second) = (place.path().join("first"), place.path().join("second"));
    let mut writer = Writer::create(&first, WriterOptions::default()).unwrap();
    trace.feed(&mut writer).unwrap();
    writer.finish(Meta::default()).unwrap();
    let first = Recording::open(&first).unwrap();
    let mut writer = Writer::create(&second, WriterOptions::default()).unwrap();
    first.replay(&mut writer, Tables::ALL).unwrap();
    let meta = writer.finish(first.meta().clone()).unwrap();
    assert_eq!(&meta, first.meta());

    for recording in [first, Recording::open(&second).unwrap()] {
        let mut replayed = Order::default();
        recording.replay(&mut replayed, Tables::ALL).unwrap();
        assert!(replayed == direct);

        let mut requests_only = Order(Vec::new(), true);
        recording.replay(&mut requests_only, Tables::ALL).unwrap();
        assert!(requests_only.0.iter().copied().eq(direct.0.iter().copied().filter(|(request, _)| *request)));

        let mut checked = Checked::default();
        recording.replay(&mut checked, Tables::NONE.with(Table::Bios)).unwrap();
        assert_eq!((checked.requests, checked.bios), (0, recording.rows(Table::Bios)));
    }
}

#[test]
fn the_batches_of_a_recording_are_those_of_its_rows() {
    use arrow_array::RecordBatch;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_schema::DataType;
    use fonio_recording::BatchSink;

    /// The values of all columns of 64-bit integers, and the number of rows.
    fn numbers(batches: &[RecordBatch]) -> (Vec<Vec<Option<i64>>>, usize) {
        let column = |at: usize| {
            let values = batches.iter().flat_map(|batch| batch.column(at).as_primitive::<Int64Type>().iter());
            values.collect()
        };
        let Some(first) = batches.first() else { return (Vec::new(), 0) };
        let fields = first.schema_ref().fields().iter().enumerate();
        let integers = fields.filter(|(_, field)| *field.data_type() == DataType::Int64);
        (integers.map(|(at, _)| column(at)).collect(), batches.iter().map(RecordBatch::num_rows).sum())
    }

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("recording");
    let mut writer = Writer::create(&path, WriterOptions::default()).unwrap();
    Generated { requests: 20_000, bios: true, ..Generated::default() }.feed(&mut writer).unwrap();
    writer.finish(Meta::default()).unwrap();
    let recording = Recording::open(&path).unwrap();
    let mut rows = 0;
    for table in Table::ALL {
        let stored = recording.batches(table).unwrap();
        assert_eq!(stored.schema(), table.schema());
        let stored: Vec<RecordBatch> = stored.map(Result::unwrap).collect();
        assert!(stored.iter().all(|batch| batch.schema() == table.schema()), "{table}");
        let mut replayed = Vec::new();
        let mut sink = BatchSink::new(table, |batch| {
            replayed.push(batch);
            Ok(())
        });
        recording.replay(&mut sink, Tables::ALL).unwrap();
        sink.finish().unwrap();
        assert_eq!(numbers(&stored), numbers(&replayed), "{table}");
        assert_eq!(numbers(&stored).1 as u64, recording.rows(table), "{table}");
        rows += recording.rows(table);
    }
    assert!(rows > 20_000, "{rows}");
}
