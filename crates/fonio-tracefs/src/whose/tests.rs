use fonio_core::{ByteCount, Nanos, parse_rwbs};

use super::*;

const FS: DeviceId = DeviceId(8 << 20 | 1);
const DISK: DeviceId = DeviceId(8 << 20);
const UNIT: WritebackUnit = WritebackUnit::Disk(DISK);
const WORKER: u32 = 50;
const JOURNAL: u32 = 60;

fn inode(number: u64) -> Inode {
    Inode { fs: FS, number }
}

fn file(number: u64) -> FileKey {
    FileKey { inode: inode(number), after: Timestamp(0) }
}

/// An attribution for tests, in which events are one nanosecond apart.
struct Trace {
    attribution: Attribution,
    now: Timestamp,
}

impl Trace {
    fn new() -> Trace {
        Trace { attribution: Attribution::new([(FS, DISK)]), now: Timestamp(0) }
    }

    fn tick(&mut self) -> Timestamp {
        self.now = self.now + Nanos(1);
        self.now
    }

    fn at(&mut self, tid: u32, event: FileEvent<'_>) {
        let time = self.tick();
        self.attribution.file(time, &FileRecord { tid, in_interrupt: false, event });
    }

    fn in_interrupt(&mut self, tid: u32, event: FileEvent<'_>) {
        let time = self.tick();
        self.attribution.file(time, &FileRecord { tid, in_interrupt: true, event });
    }

    fn block(&mut self, tid: u32, kind: EventKind, rwbs: &str, sector: u64, bytes: u64) -> Timestamp {
        self.block_on(DISK, tid, kind, rwbs, sector, bytes)
    }

    fn block_on(
        &mut self,
        device: DeviceId,
        tid: u32,
        kind: EventKind,
        rwbs: &str,
        sector: u64,
        bytes: u64,
    ) -> Timestamp {
        let time = self.tick();
        let (op, flags) = parse_rwbs(rwbs.as_bytes());
        self.attribution.block(&BlockEvent {
            sector: Sector(sector),
            bytes: ByteCount(bytes),
            op,
            flags,
            flags_known: Flags::KNOWN_FROM_RWBS,
            tid: Some(tid),
            ..BlockEvent::new(time, kind, device)
        });
        time
    }

    /// Queues a bio of 4 KiB at `sector`, and returns its owner: file, cause and content.
    fn bio(&mut self, tid: u32, rwbs: &str, sector: u64) -> (Option<u64>, Option<u32>, Content) {
        let bytes = if rwbs == "F" { 0 } else { 4096 };
        let queued = self.block(tid, EventKind::BioQueue, rwbs, sector, bytes);
        let place = (bytes > 0).then_some(Sector(sector));
        let whose = self.attribution.take(DISK, place, queued);
        assert_eq!(self.attribution.take(DISK, place, queued), BioOwner::default(), "it is taken once");
        (whose.file.map(|file| file.inode.number), whose.cause, whose.content)
    }

    fn dirty(&mut self, tid: u32, number: u64, pages: u64) {
        for index in 0..pages {
            self.at(tid, FileEvent::Dirtied { unit: UNIT, number, index });
        }
    }
}

#[test]
fn write_back_belongs_to_the_thread_that_made_the_pages_dirty() {
    let mut trace = Trace::new();
    trace.dirty(1, 12, 3);
    trace.dirty(2, 13, 1);
    trace.at(WORKER, FileEvent::WriteBegan { inode: inode(12) });
    assert_eq!(trace.bio(WORKER, "W", 8), (Some(12), Some(1), Content::Data));
    // Between the data bios, the thread reads metadata, such as an extent tree.
    assert_eq!(trace.bio(WORKER, "RSM", 800), (None, Some(1), Content::FsMetadata));
    trace.at(WORKER, FileEvent::WriteEnded { inode: inode(12) });
    trace.at(WORKER, FileEvent::WriteBegan { inode: inode(13) });
    assert_eq!(trace.bio(WORKER, "W", 16), (Some(13), Some(2), Content::Data));
    trace.at(WORKER, FileEvent::WriteEnded { inode: inode(13) });
    assert_eq!(trace.bio(WORKER, "W", 24), (None, None, Content::Unknown));
}

#[test]
fn of_several_threads_the_one_with_most_pages_lately() {
    let mut trace = Trace::new();
    let write_back = |trace: &mut Trace| {
        trace.at(WORKER, FileEvent::WriteBegan { inode: inode(12) });
        let (_, cause, _) = trace.bio(WORKER, "W", 8);
        trace.at(WORKER, FileEvent::WriteEnded { inode: inode(12) });
        cause
    };
    assert_eq!(write_back(&mut trace), None, "the writer of a page dirtied before the trace is unknown");
    trace.dirty(1, 12, 4);
    trace.dirty(2, 12, 3);
    assert_eq!(write_back(&mut trace), Some(1));
    trace.dirty(2, 12, 3);
    assert_eq!(write_back(&mut trace), Some(2));
    // The first write-back did not write all dirty pages.
    assert_eq!((write_back(&mut trace), write_back(&mut trace)), (Some(2), Some(2)));
    assert_eq!(write_back(&mut trace), Some(2));
}

#[test]
fn a_commit_belongs_to_the_thread_in_fsync() {
    let mut trace = Trace::new();
    trace.at(3, FileEvent::Changed { fs: FS, transaction: 9, blocks: 40 });
    trace.at(1, FileEvent::SyncBegan { inode: inode(12) });
    trace.at(2, FileEvent::SyncBegan { inode: inode(13) });
    trace.at(JOURNAL, FileEvent::CommitBegan { fs: FS, transaction: 9 });
    assert_eq!(trace.bio(JOURNAL, "WSM", 800), (None, Some(1), Content::FsJournal));
    // The journal thread writes file data that must reach the device before the commit.
    trace.dirty(3, 14, 1);
    trace.at(JOURNAL, FileEvent::WriteBegan { inode: inode(14) });
    assert_eq!(trace.bio(JOURNAL, "WS", 8), (Some(14), Some(3), Content::Data));
    trace.at(JOURNAL, FileEvent::WriteEnded { inode: inode(14) });
    assert_eq!(trace.bio(JOURNAL, "FWFSM", 808), (None, Some(1), Content::FsJournal));
    assert_eq!(trace.bio(JOURNAL, "F", 0), (None, Some(1), Content::FsJournal));
    // The commit makes the block dirty at its final location, and write-back later writes it there.
    trace.at(JOURNAL, FileEvent::Dirtied { unit: UNIT, number: u64::from(FS.0), index: 5 });
    trace.at(JOURNAL, FileEvent::CommitEnded { fs: FS });
    trace.at(1, FileEvent::SyncEnded { inode: inode(12) });
    trace.at(2, FileEvent::SyncEnded { inode: inode(13) });
    let from = EventKind::Remap { from_device: FS, from_sector: Sector(40) };
    trace.block(WORKER, from, "WM", 2088, 4096);
    assert_eq!(trace.bio(WORKER, "WM", 2088), (None, Some(1), Content::FsMetadata));
    assert_eq!(trace.bio(WORKER, "WM", 4000), (None, None, Content::FsMetadata), "dirty before");
}

#[test]
fn the_flush_of_a_commit_has_its_cause_later_too() {
    let mut trace = Trace::new();
    let mut times = Vec::new();
    for (tid, transaction) in [(1, 9), (2, 10)] {
        trace.at(tid, FileEvent::SyncBegan { inode: inode(12) });
        trace.at(JOURNAL, FileEvent::CommitBegan { fs: FS, transaction });
        times.push(trace.now);
        trace.at(JOURNAL, FileEvent::CommitEnded { fs: FS });
        trace.at(tid, FileEvent::SyncEnded { inode: inode(12) });
    }
    let cause =
        |thread, time| trace.attribution.flush_of(thread, time).map(|whose| (whose.cause, whose.content));
    assert_eq!(cause(JOURNAL, times[0]), Some((Some(1), Content::FsJournal)));
    assert_eq!(cause(JOURNAL, trace.now), Some((Some(2), Content::FsJournal)));
    assert_eq!((cause(JOURNAL, Timestamp(0)), cause(1, trace.now)), (None, None));
}

#[test]
fn a_commit_without_fsync_belongs_to_the_thread_that_changed_most() {
    let mut trace = Trace::new();
    trace.dirty(2, 12, 1);
    trace.at(1, FileEvent::Changed { fs: FS, transaction: 9, blocks: 4 });
    trace.at(3, FileEvent::Changed { fs: FS, transaction: 10, blocks: 90 });
    // A worker changes metadata when it writes pages that thread 2 made dirty.
    trace.at(WORKER, FileEvent::WriteBegan { inode: inode(12) });
    trace.at(WORKER, FileEvent::Changed { fs: FS, transaction: 9, blocks: 5 });
    trace.at(WORKER, FileEvent::WriteEnded { inode: inode(12) });
    trace.at(JOURNAL, FileEvent::CommitBegan { fs: FS, transaction: 9 });
    assert_eq!(trace.bio(JOURNAL, "WSM", 800), (None, Some(2), Content::FsJournal));
    trace.at(JOURNAL, FileEvent::CommitBegan { fs: FS, transaction: 11 });
    assert_eq!(trace.bio(JOURNAL, "WSM", 808), (None, None, Content::FsJournal), "an unknown transaction");
}

#[test]
fn reads_belong_to_the_pages_just_added() {
    let mut trace = Trace::new();
    trace.at(1, FileEvent::Cached { inode: inode(12), bytes: 4096 });
    trace.at(1, FileEvent::Cached { inode: inode(12), bytes: 4096 });
    trace.at(2, FileEvent::Cached { inode: inode(13), bytes: 4096 });
    assert_eq!(trace.bio(1, "RA", 8), (Some(12), Some(1), Content::Data));
    assert_eq!(trace.bio(2, "R", 80), (Some(13), Some(2), Content::Data));
    assert_eq!(trace.bio(1, "RM", 800), (None, Some(1), Content::FsMetadata));
    assert_eq!(trace.bio(1, "RA", 24), (Some(12), Some(1), Content::Data));
    assert_eq!(trace.bio(1, "R", 32), (None, None, Content::Unknown), "more than was added");
    // A thread that overwrites a page just added to the page cache does not read it from the device.
    trace.at(1, FileEvent::Cached { inode: inode(12), bytes: 4096 });
    trace.dirty(1, 12, 1);
    assert_eq!(trace.bio(1, "R", 32), (None, None, Content::Unknown));
}

#[test]
fn direct_io_and_fsync() {
    let mut trace = Trace::new();
    trace.at(1, FileEvent::DirectBegan { inode: inode(12) });
    // While the thread runs, an interrupt completes an earlier request of the same file.
    trace.in_interrupt(1, FileEvent::DirectEnded { inode: inode(12) });
    assert_eq!(trace.bio(1, "WS", 8), (Some(12), Some(1), Content::Data));
    assert_eq!(trace.bio(1, "R", 16), (Some(12), Some(1), Content::Data));
    trace.at(1, FileEvent::DirectEnded { inode: inode(12) });
    assert_eq!(trace.bio(1, "WS", 8), (None, None, Content::Unknown));
    trace.at(1, FileEvent::SyncBegan { inode: inode(12) });
    assert_eq!(trace.bio(1, "F", 0), (Some(12), Some(1), Content::Unknown));
    trace.at(1, FileEvent::SyncEnded { inode: inode(12) });
    assert_eq!(trace.bio(1, "F", 0), (None, None, Content::Unknown));
}

#[test]
fn xfs_shows_its_log_and_the_files_that_it_writes() {
    let mut trace = Trace::new();
    let partition = EventKind::Remap { from_device: FS, from_sector: Sector(8) };
    trace.dirty(1, 12, 3);
    trace.at(1, FileEvent::SyncBegan { inode: inode(12) });
    trace.at(1, FileEvent::Writes { inode: inode(12) });
    trace.block(1, partition, "WS", 80, 4096);
    assert_eq!(trace.bio(1, "WS", 80), (Some(12), Some(1), Content::Data));
    trace.at(1, FileEvent::WritesLog { fs: FS });
    assert_eq!(trace.bio(1, "FWFSM", 800), (None, Some(1), Content::FsJournal));
    assert_eq!(trace.bio(1, "WM", 400), (None, None, Content::FsMetadata));
    // A worker writes the log on behalf of an unknown thread.
    trace.at(WORKER, FileEvent::WritesLog { fs: FS });
    assert_eq!(trace.bio(WORKER, "FWFSM", 800), (None, None, Content::FsJournal));
    // The thread's write on another file system is not a log write.
    assert_eq!(trace.bio(1, "W", 4000), (None, None, Content::Unknown));
}

#[test]
fn the_rest_of_a_split_bio_is_the_same_file_s() {
    let mut trace = Trace::new();
    trace.at(1, FileEvent::DirectBegan { inode: inode(12) });
    let queued = trace.block(1, EventKind::BioQueue, "WS", 8, 8192);
    trace.block(1, EventKind::Split { new_sector: Sector(16) }, "WS", 8, 4096);
    for sector in [8, 16] {
        let whose = trace.attribution.take(DISK, Some(Sector(sector)), queued);
        assert_eq!(whose.file, Some(file(12)), "{sector}");
    }
    assert_eq!(trace.attribution.bios_count, 0);
}

#[test]
fn a_bio_below_a_mapped_device_is_that_above() {
    const MAPPED: DeviceId = DeviceId(254 << 20);
    const PARTITION: DeviceId = DeviceId(8 << 20 | 2);
    let mut trace = Trace::new();
    trace.attribution = Attribution::new([(FS, DISK)]).with_mapped([MAPPED]);
    let queue = |trace: &mut Trace, device, tid, rwbs: &str, (kind, sector): (EventKind, u64)| {
        trace.block_on(device, tid, kind, rwbs, sector, if rwbs == "F" { 0 } else { 4096 })
    };
    let from = |from_device, sector| EventKind::Remap { from_device, from_sector: Sector(sector) };
    // Workers pass on the data of two files in a different order. The device below the mapped device is a
    // partition of a disk.
    for (tid, file, sector) in [(1, 12, 8), (2, 13, 16)] {
        trace.at(tid, FileEvent::DirectBegan { inode: Inode { fs: MAPPED, number: file } });
        queue(&mut trace, MAPPED, tid, "WS", (EventKind::BioQueue, sector));
    }
    for (sector, file, cause) in [(16, 13, 2), (8, 12, 1)] {
        queue(&mut trace, PARTITION, WORKER, "WS", (from(MAPPED, sector), 4096 + sector));
        queue(&mut trace, DISK, WORKER, "WS", (from(PARTITION, 4096 + sector), 8192 + sector));
        let expected = (Some(file), Some(cause), Content::Data);
        assert_eq!(trace.bio(WORKER, "WS", 8192 + sector), expected);
    }
    // A worker passes on a flush of the journal thread.
    trace.at(JOURNAL, FileEvent::CommitBegan { fs: MAPPED, transaction: 1 });
    queue(&mut trace, MAPPED, JOURNAL, "F", (EventKind::BioQueue, 0));
    queue(&mut trace, DISK, WORKER, "F", (from(MAPPED, 0), 0));
    assert_eq!(trace.bio(WORKER, "F", 0), (None, None, Content::FsJournal));
    assert_eq!(trace.bio(WORKER, "WS", 80), (None, None, Content::Unknown));
}

#[test]
fn swap_is_known_by_its_place() {
    let mut trace = Trace::new();
    trace.attribution = Attribution::new([(FS, DISK)]).with_swap([(DISK, 800..808), (DISK, 80..96)]);
    trace.at(1, FileEvent::DirectBegan { inode: inode(12) });
    for (sector, expected) in
        [(72, Content::Data), (80, Content::Swap), (88, Content::Swap), (96, Content::Data)]
    {
        let (file, cause, content) = trace.bio(1, "W", sector);
        assert_eq!((file.is_none(), cause, content), (expected == Content::Swap, Some(1), expected));
    }
    assert_eq!(trace.bio(WORKER, "R", 800), (None, Some(WORKER), Content::Swap));
}

#[test]
fn a_new_file_with_the_number_of_a_deleted_one_is_another_file() {
    let mut trace = Trace::new();
    trace.dirty(1, 12, 5);
    trace.at(1, FileEvent::Freed { inode: inode(12) });
    let freed = trace.now;
    trace.at(WORKER, FileEvent::WriteBegan { inode: inode(12) });
    let queued = trace.block(WORKER, EventKind::BioQueue, "W", 8, 4096);
    let whose = trace.attribution.take(DISK, Some(Sector(8)), queued);
    assert_eq!(whose.file, Some(FileKey { inode: inode(12), after: freed }));
    assert_eq!(whose.cause, None, "writers of the old file did not write the new one");
}

#[test]
fn the_same_number_on_two_partitions_is_ambiguous() {
    let other = DeviceId(8 << 20 | 2);
    let mut trace = Trace::new();
    trace.attribution = Attribution::new([(FS, DISK), (other, DISK)]);
    trace.dirty(1, 12, 1);
    for (fs, expected) in [(FS, Some(1)), (other, None), (FS, None)] {
        trace.at(WORKER, FileEvent::WriteBegan { inode: Inode { fs, number: 12 } });
        assert_eq!(trace.bio(WORKER, "W", 8), (Some(12), expected, Content::Data));
    }
}

#[test]
fn after_a_gap_nothing_is_assumed() {
    let mut trace = Trace::new();
    trace.at(1, FileEvent::DirectBegan { inode: inode(12) });
    trace.attribution.lost(&LostEvents { cpu: None, count: None, after: trace.now, before: trace.now });
    assert_eq!(trace.bio(1, "WS", 8), (None, None, Content::Unknown));
}

#[test]
fn a_later_file_system_with_the_device_number_has_its_own_causes() {
    let mut trace = Trace::new();
    let write_back = |trace: &mut Trace| {
        trace.at(WORKER, FileEvent::WriteBegan { inode: inode(12) });
        let (_, cause, _) = trace.bio(WORKER, "W", 8);
        trace.at(WORKER, FileEvent::WriteEnded { inode: inode(12) });
        cause
    };
    let changed = |transaction| FileEvent::Changed { fs: FS, transaction, blocks: 1 };
    trace.at(1, changed(40));
    trace.dirty(1, 12, 100);
    assert_eq!(write_back(&mut trace), Some(1));
    // The commit of a transaction begins after the first changes of the next one.
    trace.at(1, changed(41));
    trace.at(JOURNAL, FileEvent::CommitBegan { fs: FS, transaction: 40 });
    assert_eq!(write_back(&mut trace), Some(1));
    // Another file system is made on the device. Its first file has the same number.
    trace.at(2, changed(2));
    assert_eq!(write_back(&mut trace), None);
    trace.dirty(2, 12, 1);
    assert_eq!(write_back(&mut trace), Some(2));
    trace.at(2, changed(3));
    trace.at(JOURNAL, FileEvent::CommitBegan { fs: FS, transaction: 3 });
    assert_eq!(trace.bio(JOURNAL, "WS", 8000), (None, Some(2), Content::FsJournal));
}

#[test]
fn memory_is_bounded() {
    let mut trace = Trace::new();
    for number in 0..4 * FILES_MAX as u64 {
        trace.dirty(number as u32, number, 1);
        trace.at(1, FileEvent::Freed { inode: inode(number) });
        trace.at(number as u32, FileEvent::SyncBegan { inode: inode(number) });
        let sector = number * 8;
        trace.block(number as u32, EventKind::BioQueue, "W", sector, 4096);
    }
    assert!(trace.attribution.forgotten() > 0);
    assert!(trace.attribution.journals[&FS].syncing.len() <= SYNCING_MAX);
}

#[test]
fn a_btrfs_is_known_by_its_own_numbers() {
    let fs = DeviceId::new(0, 45);
    let btrfs = Btrfs { id: [7; 16], fs, unit: 3, subvolume: Some(5), devices: vec![DISK] };
    let mut trace = Trace::new();
    trace.attribution = Attribution::new([(FS, DISK)]).with_btrfs([&btrfs]);
    let inode = |number| Inode { fs, number };
    let dirty = |trace: &mut Trace, tid, number| {
        trace.at(tid, FileEvent::Dirtied { unit: WritebackUnit::Btrfs(3), number, index: 0 });
    };
    dirty(&mut trace, 1, 257);
    dirty(&mut trace, 2, 258);
    trace.at(WORKER, FileEvent::Writes { inode: inode(257) });
    assert_eq!(trace.bio(WORKER, "W", 8), (Some(257), Some(1), Content::Data));
    trace.at(WORKER, FileEvent::Writes { inode: inode(258) });
    assert_eq!(trace.bio(WORKER, "WM", 800), (None, None, Content::FsMetadata));
    assert_eq!(trace.bio(WORKER, "W", 16), (Some(258), Some(2), Content::Data));
    // fsync writes the log tree, which is metadata.
    trace.at(1, FileEvent::SyncBegan { inode: inode(257) });
    assert_eq!(trace.bio(1, "WSM", 808), (None, Some(1), Content::FsMetadata));
    trace.at(1, FileEvent::DirectBegan { inode: inode(259) });
    assert_eq!(trace.bio(1, "WS", 24), (Some(259), Some(1), Content::Data));
}

/// On f2fs, a bio belongs to the owner of most of its blocks, whichever thread queues it.
#[test]
fn blocks_that_the_file_system_chose() {
    let mut trace = Trace::new();
    let placed = |number, block, is_metadata| FileEvent::Placed { inode: inode(number), block, is_metadata };
    let write = |trace: &mut Trace, tid, rwbs, page: u64, pages: u64| {
        let queued = trace.block(tid, EventKind::BioQueue, rwbs, 2048 + 8 * page, pages * 4096);
        trace.attribution.take(DISK, Some(Sector(2048 + 8 * page)), queued)
    };
    let remapped = |trace: &mut Trace, tid, rwbs, page: u64, pages: u64| {
        let kind = EventKind::Remap { from_device: FS, from_sector: Sector(8 * page) };
        trace.block(tid, kind, rwbs, 2048 + 8 * page, pages * 4096);
        write(trace, tid, rwbs, page, pages)
    };
    trace.dirty(1, 12, 3);
    trace.dirty(2, 13, 1);
    trace.dirty(3, 1, 2);
    for (number, block) in [(12, 100), (12, 101), (13, 102)] {
        trace.at(WORKER, placed(number, block, false));
    }
    trace.at(WORKER, placed(1, 200, true));
    // Another thread queues the bio.
    let data = BioOwner { file: Some(file(12)), cause: Some(1), content: Content::Data };
    assert_eq!(remapped(&mut trace, 9, "W", 100, 3), data);
    let metadata = |cause| BioOwner { file: None, cause: Some(cause), content: Content::FsMetadata };
    assert_eq!(remapped(&mut trace, 9, "WM", 200, 1), metadata(3));
    // Each block was written once. A later write of another file system is not that of the file.
    assert_eq!(remapped(&mut trace, 9, "W", 100, 3), BioOwner::default());
    // A thread in fsync writes its metadata itself.
    trace.at(4, FileEvent::SyncBegan { inode: inode(12) });
    trace.at(4, placed(1, 201, true));
    assert_eq!(remapped(&mut trace, 4, "WSM", 201, 1), metadata(4));
    // The checkpoint thread makes its metadata dirty itself, because another thread waits for it.
    trace.dirty(8, 2, 1);
    trace.at(8, placed(2, 202, true));
    assert_eq!(remapped(&mut trace, 8, "WM", 202, 1), metadata(4));
    trace.at(4, FileEvent::SyncEnded { inode: inode(12) });
    trace.at(8, placed(2, 203, true));
    assert_eq!(remapped(&mut trace, 8, "WM", 203, 1), metadata(8));
    // A block of the same number on the disk itself is another one.
    trace.at(4, placed(12, 300, false));
    assert_eq!(write(&mut trace, 4, "W", 300 - 256, 1), BioOwner::default());
}

/// A log of nilfs2 begins with a page of the device, followed by data of files.
#[test]
fn a_bio_is_metadata_only_if_its_middle_is() {
    let mut trace = Trace::new();
    let number = u64::from(DISK.0);
    trace.at(1, FileEvent::Dirtied { unit: UNIT, number, index: 100 });
    trace.at(1, FileEvent::Dirtied { unit: UNIT, number, index: 101 });
    for (pages, expected) in [(1, Content::FsMetadata), (2, Content::FsMetadata), (4, Content::Unknown)] {
        let queued = trace.block(1, EventKind::BioQueue, "W", 800, pages * 4096);
        assert_eq!(trace.attribution.take(DISK, Some(Sector(800)), queued).content, expected, "{pages}");
    }
}

/// On vfat, only a note shows the file of a bio.
#[test]
fn a_note_shows_the_file_of_a_bio() {
    const MS: u64 = 1_000_000;
    let note = |ms: u64, tid, number, is_metadata| NotedBio {
        queued: Timestamp(ms * MS),
        device: DISK,
        sector: Sector(800),
        tid,
        inode: inode(number),
        is_metadata,
    };
    let notes =
        [note(10, 1, 12, false), note(20, 1, 13, false), note(30, 2, 14, false), note(40, 1, 3, true)];
    let mut trace = Trace::new();
    trace.attribution = Attribution::new([(FS, DISK)]).with_noted(&notes, 5);
    trace.dirty(7, 13, 1);
    trace.dirty(1, 3, 1);
    for (ms, expected) in [
        (20, (Some(13), Some(7), Content::Data)),
        // Another thread queued the bio of the note.
        (30, (None, None, Content::Unknown)),
        (40, (None, None, Content::FsMetadata)),
        (50, (None, None, Content::Unknown)),
    ] {
        trace.now = Timestamp(ms * MS);
        assert_eq!(trace.bio(1, "W", 800), expected, "{ms}");
    }
    assert_eq!(trace.attribution.forgotten(), 5);
}
