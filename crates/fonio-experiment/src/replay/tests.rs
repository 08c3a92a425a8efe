use fonio_core::meta::Device;
use fonio_core::{
    Bio, Call, Content, DeviceId, File, Flags, Nanos, Op, Request, RowSink, Sector, Thread, Timestamp, Wait,
    WaitReason,
};
use fonio_sim::recorded::CHUNK;
use fonio_testing::in_little_memory;

use super::*;

#[test]
fn hostile_recordings_need_little_memory() {
    in_little_memory("replay::tests::collect_many_bios");
    in_little_memory("replay::tests::collect_many_threads_and_waits");
    in_little_memory("replay::tests::collect_huge_bios");
    in_little_memory("replay::tests::collect_many_calls");
}

fn bio(id: u64, tid: u32) -> Bio {
    Bio {
        bio_id: id,
        device: DeviceId::new(8, 0),
        op: Op::Write,
        flags: Flags(0),
        flags_known: Flags(0),
        // Each access has a chunk of its own.
        sector: Some(Sector(id << 12)),
        bytes: ByteCount(4096),
        queued: Timestamp(id * 1000),
        completed: None,
        tid: Some(tid),
        cause_tid: None,
        file_id: None,
        request_id: Some(id),
    }
}

fn request(id: u64, tid: u32) -> Request {
    Request {
        request_id: id,
        queued: Some(Timestamp(id * 1000)),
        completed: Some(Timestamp(id * 1000 + 500)),
        tid: Some(tid),
        ..Request::new(DeviceId::new(8, 0), Op::Write, ByteCount(4096))
    }
}

fn wait(id: u64, tid: u32, waker: u32) -> Wait {
    Wait {
        tid,
        began: Timestamp(id * 1000),
        // The next access has completed by then.
        ended: Some(Timestamp(id * 1000 + 1700)),
        reason: WaitReason::Thread,
        request_id: None,
        waker_tid: Some(waker),
        blocked_in: None,
        file_id: None,
        io_wait: None,
        function: None,
    }
}

#[test]
#[ignore = "hostile_recordings_need_little_memory starts it, with little memory"]
fn collect_many_bios() {
    // The largest recording that is accepted: each access waits for another thread's access.
    let with = |accesses: u64| {
        let mut collected = blocks::Collected::default();
        for id in 0..accesses {
            let tid = (id % 2) as u32;
            collected.bio(&bio(id, tid)).expect("it only collects");
            collected.request(&request(id, tid)).expect("it only collects");
            collected.wait(&wait(id, tid, 1 - tid)).expect("it only collects");
        }
        collected.sequence()
    };
    let sequence = with(800_000).expect("it is small enough");
    assert_eq!((sequence.len(), sequence.file_bytes), (800_000, ByteCount(800_000 * CHUNK)));
    assert!(sequence.signals > 0);
    drop(sequence);
    assert_eq!(with(880_000), Err(TooLarge::Memory));
    assert_eq!(with(2_000_000), Err(TooLarge::Memory));
}

#[test]
#[ignore = "hostile_recordings_need_little_memory starts it, with little memory"]
fn collect_huge_bios() {
    let with = |rows: Vec<Bio>| {
        let mut collected = blocks::Collected::default();
        rows.iter().for_each(|row| collected.bio(row).expect("it only collects"));
        collected.sequence()
    };
    let huge = |id: u64| Bio { bytes: ByteCount(u32::MAX.into()), ..bio(id << 11, 1) };
    let one = with(vec![huge(1)]).expect("it is small enough");
    assert_eq!((one.len(), one.file_bytes), (1024, ByteCount(4 << 30)));
    assert_eq!(with((0..2000).map(huge).collect()), Err(TooLarge::Memory));
    // No device has these sectors, and the kernel has no such sizes.
    let damaged = [
        Bio { sector: Some(Sector(u64::MAX)), ..bio(1, 1) },
        Bio { bytes: ByteCount(u64::MAX), ..bio(2, 1) },
    ];
    let nothing = with(damaged.to_vec()).expect("it is small enough");
    assert_eq!((nothing.len(), nothing.left_out), (0, 2));
    // Each thread needs a buffer.
    let large = |id: u64| Bio { bytes: ByteCount(4 << 20), queued: Timestamp(1), ..bio(id, id as u32) };
    let more =
        |count| with((0..count).map(large).map(|row| Bio { completed: Some(Timestamp(9)), ..row }).collect());
    assert_eq!(more(32).expect("it is small enough").threads.len(), 32);
    assert_eq!(more(33), Err(TooLarge::Buffers));
}

#[test]
#[ignore = "hostile_recordings_need_little_memory starts it, with little memory"]
fn collect_many_threads_and_waits() {
    let mut collected = blocks::Collected::default();
    for tid in 0..2_000_000 {
        let comm = (tid < 1000).then(|| "n".repeat(64 << 10));
        let row = Thread { tid, pid: Some(1), comm, ..Thread::default() };
        collected.thread(&row).expect("it only collects");
        collected.wait(&wait(u64::from(tid), tid, 7)).expect("it only collects");
    }
    assert_eq!(collected.sequence(), Err(TooLarge::Memory));
    let mut collected = blocks::Collected::default();
    for tid in 0..300_000 {
        let row = Bio { completed: Some(Timestamp(1 << 40)), ..bio(u64::from(tid), tid) };
        collected.bio(&row).expect("it only collects");
    }
    assert_eq!(collected.sequence(), Err(TooLarge::Threads));
}

#[test]
#[ignore = "hostile_recordings_need_little_memory starts it, with little memory"]
fn collect_many_calls() {
    let device = Some(DeviceId::new(8, 1));
    let with = |calls: u64, bytes: u64| {
        let mut collected = calls::Collected::default();
        for file_id in 0..100_000 {
            let (from, path) = (Timestamp(0), Some(format!("/{file_id}")));
            let row = File { file_id, from, device, inode: None, path, content: Content::Data };
            collected.file(&row).expect("it only collects");
        }
        for id in 0..calls {
            let row = Call {
                call_id: id,
                name: "pwrite64".to_owned(),
                tid: (id % 3) as u32,
                file_id: Some((id % 100_000) as u32),
                offset: Some(id << 33),
                bytes: Some(ByteCount(bytes)),
                entered: Timestamp(id * 1000),
                exited: Some(Timestamp(id * 1000 + 400)),
                result: None,
                sqlite_write: None,
                file_flags: None,
            };
            collected.call(&row).expect("it only collects");
        }
        collected.sequence()
    };
    // A call of 2 GiB uses 2048 chunks.
    let sequence = with(800_000, 2 << 30).expect("it is small enough");
    assert_eq!(sequence.len(), 0, "no call transfers 2 GiB");
    let sequence = with(800_000, 0x7fff_f000).expect("it is small enough");
    // Of each file, only the last chunk can end early.
    let room = 700_000 * (2 << 30) + 100_000 * 0x7fff_f000;
    assert_eq!((sequence.len(), sequence.room()), (800_000, ByteCount(room)));
    drop(sequence);
    assert_eq!(with(5_000_000, 10), Err(TooLarge::Memory));
}

#[test]
fn a_replay_without_flushes_on_a_volatile_cache_is_noted() {
    let access = |kind| blocks::Access {
        kind,
        offset: 0,
        bytes: 4096,
        begins: Begins::At(Nanos(0)),
        signal: None,
        tid: 1,
        is_sync: true,
        took: None,
    };
    let on = |cache: &str, watched: &[u32]| {
        let device = |minor: u32, cache: &str| Device {
            id: DeviceId::new(179, minor),
            write_cache: Some(cache.to_owned()),
            ..Device::default()
        };
        Meta {
            devices: vec![device(0, cache), device(8, "write through")],
            watched: watched.iter().map(|minor| DeviceId::new(179, *minor)).collect(),
            ..Meta::default()
        }
    };
    use blocks::Kind::{Flush, Write};
    for (kinds, on, expected) in [
        (&[Write][..], on("write back", &[0]), true),
        (&[Write], on("write back", &[]), true),
        (&[Write], on("write back", &[8]), false),
        (&[Write], on("write through", &[0]), false),
        (&[Write, Flush], on("write back", &[0]), false),
    ] {
        let threads = vec![kinds.iter().map(|kind| access(*kind)).collect()];
        let sequence = Sequence::Blocks(blocks::Sequence { threads, ..blocks::Sequence::default() });
        assert_eq!(sequence.note_on_flushes(&on).is_some(), expected, "{kinds:?} {on:?}");
    }
}
