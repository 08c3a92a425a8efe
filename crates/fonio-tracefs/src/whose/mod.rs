//! Finds whose data each bio carries: the file, the kind of data, and the thread that caused the bio.
//!
//! The thread that queues a bio often works on behalf of another thread. For example, a kernel worker writes
//! back pages that a program made dirty, and ext4's journal thread writes metadata that programs changed.
//! [`Attribution`] follows page-cache and file-system events, and attributes each bio when it is queued:
//!
//! - A bio of a thread that writes dirty pages of a file is that file's data. On ext4, the thread writes
//!   dirty pages from `ext4_writepages` to `ext4_writepages_result`; on xfs, after `xfs_map_blocks_*`; on
//!   btrfs, after `extent_writepage`. The cause of the bio is the thread that recently made most of the
//!   file's pages dirty.
//! - On f2fs, each page gets a new block (`f2fs_submit_*`) before its bio is queued, perhaps by another thread.
//!   So a bio is data of the file, or metadata, for which most of its blocks were chosen. The cause of
//!   metadata is the thread itself, if it is in fsync, or another thread that recently made most of the
//!   metadata dirty. If the thread itself made it dirty, the cause is the thread that has been in fsync for
//!   the longest time.
//! - A bio of a thread that does direct I/O on a file is data of that file, caused by the thread itself.
//! - Other bios of ext4's journal thread belong to the journal. The cause of these bios is the cause of the
//!   commit: the thread that has been in fsync for the longest time or, if no thread is in fsync, the thread
//!   that changed the most blocks in the transaction.
//! - The first write after `xlog_iclog_write` belongs to xfs's log. The write's cause is the thread itself,
//!   if it has called fsync.
//! - A bio with the flag *meta* is metadata. The cause of a metadata read is the thread itself. The cause of
//!   a metadata write is the cause of the commit after which the block became dirty; on btrfs, it is the
//!   thread itself, if it has called fsync.
//! - A read by a thread that has just added pages of a file to the page cache is data of that file, caused by
//!   the thread itself.
//! - On file systems without such events, a bio belongs to the file whose page it has ([`NotedBio`]).
//! - A flush by a thread in fsync belongs to the file that the thread syncs.
//! - A bio in a swap area is swap. Its cause is the thread itself, because this thread needs the page or
//!   needs free memory.
//! - A bio from an upper device (device mapper, RAID) gets the attribution of the upper bio, regardless of
//!   the thread that passes it on. For example, dm-crypt's workers pass bios on after they have encrypted
//!   the data.
//!
//! A file or a cause that the events do not show stays unknown. Tables have a fixed size and evict the least
//! recently used entries; [`Attribution::forgotten`] counts the evicted entries.

mod above;
mod journal;
mod recent;
#[cfg(test)]
mod tests;

use std::ops::Range;

use fonio_core::{
    BlockEvent, Content, DeviceId, EventKind, Flags, Inode, LostEvents, Nanos, Op, Sector, Timestamp,
};
use rustc_hash::FxHashMap;

use crate::ring_buffer::{Btrfs, FileEvent, FileRecord, WritebackUnit};
use above::{Above, PassedOn};
use journal::Journal;
use recent::Recent;

/// Maximum number of files with dirty pages per generation. At 60 bytes per file, both generations take 4 MB.
const FILES_MAX: usize = 32 * 1024;
/// Maximum number of dirty metadata pages per generation. ext4's largest journal has 262,144 blocks.
const PLACES_MAX: usize = 128 * 1024;
/// Maximum number of threads per generation.
const THREADS_MAX: usize = 16 * 1024;
/// Maximum number of bios that wait for the row of their request. The assembler has the same maximum of open
/// bios.
const BIOS_MAX: usize = 1 << 20;
/// Maximum number of pages of a bio whose owners are looked up. f2fs writes at most 256 pages with a bio.
const BIO_PAGES_MAX: usize = 1024;
/// Maximum number of threads distinguished for one file or transaction.
const WRITERS_MAX: usize = 8;
/// Maximum number of file systems with a journal, and maximum number of threads that are simultaneously in
/// fsync on one file system.
const JOURNALS_MAX: usize = 256;
const SYNCING_MAX: usize = 1024;
/// The page-cache unit of a file system's metadata, in sectors.
const PAGE_SECTORS: u64 = 8;

/// Maximum time between the trace event of a bio and its note, which come from the same function of the kernel.
const NOTE_NEAR: Nanos = Nanos(1_000_000);

/// The key of flushes without data that wait for their row. It replaces the sector.
const FLUSH: u64 = u64::MAX;

/// A file, identified by its inode number and the last earlier deletion of a file with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    /// The inode. Other files can have it before and after this file.
    pub inode: Inode,
    /// The time when the last earlier file with this inode number was deleted; 0 if no deletion was seen.
    pub after: Timestamp,
}

/// The owner of the data in a bio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BioOwner {
    /// The file to which the data belong, if any.
    pub file: Option<FileKey>,
    /// The thread that caused the bio.
    pub cause: Option<u32>,
    /// The kind of data: unknown, data, metadata, journal or swap.
    pub content: Content,
}

/// A bio that was queued, with the file of one of its pages. Another source than the trace shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NotedBio {
    pub queued: Timestamp,
    /// The device in the bio, which is that of the trace event.
    pub device: DeviceId,
    pub sector: Sector,
    /// The thread that queued the bio.
    pub tid: u32,
    pub inode: Inode,
    /// Whether the file is one of the file system itself.
    pub is_metadata: bool,
}

/// Threads, each with the amount that this thread contributed. The thread added last is the last entry.
#[derive(Clone, Debug, Default)]
struct Contributors(Vec<(u32, u64)>);

impl Contributors {
    fn add(&mut self, tid: u32, amount: u64) {
        if let Some((_, sum)) = self.0.iter_mut().find(|(known, _)| *known == tid) {
            *sum += amount;
            return;
        }
        if self.0.len() == WRITERS_MAX {
            let least = (0..self.0.len()).min_by_key(|at| self.0[*at].1).unwrap_or(0);
            self.0.remove(least);
        }
        self.0.push((tid, amount));
    }

    /// Returns the thread that contributed most; if several threads contributed equally, returns the first of
    /// them.
    fn first(&self) -> Option<u32> {
        let mut best: Option<(u32, u64)> = None;
        for &(tid, amount) in &self.0 {
            if best.is_none_or(|(_, most)| amount > most) {
                best = Some((tid, amount));
            }
        }
        best.map(|(tid, _)| tid)
    }

    /// Halves the amounts to make later contributions count more than earlier contributions.
    fn age(&mut self) {
        self.0.iter_mut().for_each(|(_, amount)| *amount /= 2);
        // If all amounts became 0, the last known contributor stays, because pages may still be dirty.
        if self.0.iter().any(|(_, amount)| *amount > 0) {
            self.0.retain(|(_, amount)| *amount > 0);
        }
    }
}

/// The threads that dirtied pages of a file. The events show the file's disk, but not its file system.
#[derive(Clone, Debug, Default)]
struct Writers {
    by: Contributors,
    /// The file system on which the file was first written back.
    fs: Option<DeviceId>,
    /// Whether several file systems of the disk have written back files with this inode number. If so, the
    /// writers of these files are unknown.
    is_ambiguous: bool,
}

/// The I/O activity in which a thread currently is.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadState {
    /// The file whose dirty pages the thread writes.
    writes: Option<FileKey>,
    /// The file whose dirty pages the thread wrote last, if the file system does not show when the thread
    /// ended writing them.
    maps: Option<FileKey>,
    /// The file for which the thread has chosen a block last.
    places: Option<FileKey>,
    /// The file system with the log to which the thread's next write belongs.
    log: Option<DeviceId>,
    /// The file on which the thread does direct I/O.
    direct: Option<FileKey>,
    /// The file that the thread syncs.
    syncs: Option<FileKey>,
    /// The file whose pages the thread last added to the page cache, and how many bytes of these pages the
    /// thread has not yet read from the device.
    cached: Option<(FileKey, u64)>,
    /// The file system whose journal the thread writes.
    journal: Option<DeviceId>,
    /// The bio that the thread last passed on.
    passed_on: Option<PassedOn>,
}

/// The bios of one device and sector that wait for their row, each with the time at which it was queued.
type WaitingBios = Vec<(Timestamp, BioOwner)>;

/// Attributes each bio to a file, a kind of data and the thread that caused it.
#[derive(Debug)]
pub struct Attribution {
    /// The disk of each partition.
    disks: FxHashMap<DeviceId, DeviceId>,
    /// Maps the device number in the events of a btrfs to the write-back unit of the btrfs.
    units: FxHashMap<DeviceId, WritebackUnit>,
    /// The swap areas of each disk, sorted by start sector.
    swap: FxHashMap<DeviceId, Vec<Range<u64>>>,
    /// Maps the number of a file system's device to the device number in the events of the file system, if
    /// the two numbers differ.
    file_systems: FxHashMap<DeviceId, DeviceId>,
    threads: Recent<u32, ThreadState>,
    writers: Recent<(WritebackUnit, u64), Writers>,
    /// The thread that caused the metadata in a page of a device's page cache.
    places: Recent<(DeviceId, u64), u32>,
    /// The owners of pages that are not yet written, by the blocks of a device that the file system chose for them.
    placed: Recent<(DeviceId, u64), BioOwner>,
    journals: FxHashMap<DeviceId, Journal>,
    /// Time of the last deletion of a file with this inode.
    freed: Recent<Inode, Timestamp>,
    above: Above,
    /// The noted bios, sorted by device, sector and time.
    noted: Vec<NotedBio>,
    /// Number of bios of which notes are missing.
    noted_missing: u64,
    bios: FxHashMap<(DeviceId, u64), WaitingBios>,
    bios_count: usize,
    bios_forgotten: u64,
}

impl Attribution {
    /// Creates an attribution; `disks` gives the disk of each partition.
    pub fn new(disks: impl IntoIterator<Item = (DeviceId, DeviceId)>) -> Attribution {
        Attribution {
            disks: disks.into_iter().collect(),
            units: FxHashMap::default(),
            swap: FxHashMap::default(),
            file_systems: FxHashMap::default(),
            threads: Recent::new(THREADS_MAX),
            writers: Recent::new(FILES_MAX),
            places: Recent::new(PLACES_MAX),
            placed: Recent::new(PLACES_MAX),
            journals: FxHashMap::default(),
            freed: Recent::new(FILES_MAX),
            above: Above::default(),
            noted: Vec::new(),
            noted_missing: 0,
            bios: FxHashMap::default(),
            bios_count: 0,
            bios_forgotten: 0,
        }
    }

    /// Also attributes bios of these btrfs file systems.
    #[must_use]
    pub fn with_btrfs<'b>(mut self, file_systems: impl IntoIterator<Item = &'b Btrfs>) -> Attribution {
        for btrfs in file_systems {
            self.units.insert(btrfs.fs, WritebackUnit::Btrfs(btrfs.unit));
            self.file_systems.extend(btrfs.devices.iter().map(|device| (*device, btrfs.fs)));
        }
        self
    }

    /// Follows bios from these mapped devices (device mapper, RAID) to the lower devices.
    #[must_use]
    pub fn with_mapped(mut self, devices: impl IntoIterator<Item = DeviceId>) -> Attribution {
        self.above.mapped.extend(devices);
        self
    }

    /// Treats bios in these sectors of disks as swap, because the trace does not mark swap.
    #[must_use]
    pub fn with_swap(mut self, areas: impl IntoIterator<Item = (DeviceId, Range<u64>)>) -> Attribution {
        for (disk, sectors) in areas {
            self.swap.entry(disk).or_default().push(sectors);
        }
        for areas in self.swap.values_mut() {
            areas.sort_unstable_by_key(|sectors| (sectors.start, sectors.end));
            areas.dedup();
        }
        self
    }

    /// Also uses these notes for bios whose file no event shows. `missing` more notes were lost.
    #[must_use]
    pub fn with_noted(mut self, bios: &[NotedBio], missing: u64) -> Attribution {
        self.noted = bios.to_vec();
        self.noted.sort_unstable_by_key(|bio| (bio.device, bio.sector, bio.queued));
        self.noted_missing = missing;
        self
    }

    /// Processes an event of a file system, the page cache or write-back.
    pub fn file(&mut self, time: Timestamp, record: &FileRecord<'_>) {
        let tid = record.tid;
        match record.event {
            FileEvent::Dirtied { unit, number, index } => self.dirtied(tid, unit, number, index),
            // Ignore events in interrupts: an interrupt can complete the direct I/O of a thread that is not
            // running.
            _ if record.in_interrupt => {}
            FileEvent::Cached { inode, bytes } => {
                let file = self.key(inode);
                let cached = &mut self.threads.entry(tid).cached;
                let before = cached.filter(|(known, _)| *known == file).map_or(0, |(_, bytes)| bytes);
                *cached = Some((file, before.saturating_add(bytes)));
            }
            FileEvent::WriteBegan { inode } => {
                let file = self.key(inode);
                self.threads.entry(tid).writes = Some(file);
            }
            FileEvent::WriteEnded { inode } => {
                self.threads.entry(tid).writes = None;
                if let Some(writers) = self.writers.get_mut(self.writers_key(inode)) {
                    writers.by.age();
                }
            }
            FileEvent::Writes { inode } => {
                let file = self.key(inode);
                let before = self.threads.entry(tid).maps.replace(file);
                self.age_after(before, file);
            }
            FileEvent::Placed { inode, block, is_metadata } => {
                let file = self.key(inode);
                let before = self.threads.entry(tid).places.replace(file);
                self.age_after(before, file);
                let writer = self.writer(file);
                let is_in_sync = self.threads.get_mut(tid).is_some_and(|state| state.syncs.is_some());
                let syncs = is_in_sync.then_some(tid);
                let owner = if is_metadata {
                    // The checkpoint thread makes metadata dirty for the threads in fsync that wait for it.
                    let waiting =
                        self.journals.get(&inode.fs).and_then(|journal| journal.syncing.first().copied());
                    let for_another = writer.filter(|writer| *writer != tid).or(waiting);
                    let cause = syncs.or(for_another).or(writer);
                    BioOwner { cause, content: Content::FsMetadata, file: None }
                } else {
                    BioOwner { cause: writer.or(syncs), content: Content::Data, file: Some(file) }
                };
                self.placed.insert((inode.fs, block), owner);
            }
            FileEvent::WritesLog { fs } => self.threads.entry(tid).log = Some(fs),
            FileEvent::DirectBegan { inode } => {
                let file = self.key(inode);
                self.threads.entry(tid).direct = Some(file);
            }
            FileEvent::DirectEnded { inode } => {
                let direct = &mut self.threads.entry(tid).direct;
                // The event's thread may be a kernel worker that completes another thread's direct I/O.
                if direct.is_some_and(|file| file.inode == inode) {
                    *direct = None;
                }
            }
            FileEvent::SyncBegan { inode } => {
                let file = self.key(inode);
                self.threads.entry(tid).syncs = Some(file);
                if let Some(journal) = self.journal(inode.fs) {
                    journal.syncing.retain(|known| *known != tid);
                    if journal.syncing.len() < SYNCING_MAX {
                        journal.syncing.push(tid);
                    }
                }
            }
            FileEvent::SyncEnded { inode } => {
                self.threads.entry(tid).syncs = None;
                if let Some(journal) = self.journal(inode.fs) {
                    journal.syncing.retain(|known| *known != tid);
                }
            }
            FileEvent::CommitBegan { fs, transaction } => {
                self.note_transaction(fs, transaction);
                self.threads.entry(tid).journal = Some(fs);
                if let Some(journal) = self.journal(fs) {
                    journal.commit(time, tid, transaction);
                }
            }
            // Do not clear the state: the thread's remaining bios, such as the journal's superblock, also
            // belong to the journal.
            FileEvent::CommitEnded { .. } => {}
            FileEvent::Changed { fs, transaction, blocks } => {
                self.note_transaction(fs, transaction);
                let cause = self.behind(tid);
                if let (Some(cause), Some(journal)) = (cause, self.journal(fs)) {
                    journal.changed(transaction, cause, u64::from(blocks));
                }
            }
            FileEvent::Freed { inode } => {
                self.freed.insert(inode, time);
                let key = self.writers_key(inode);
                self.writers.remove(key);
            }
            FileEvent::Renamed { .. } => {}
            FileEvent::Exited { tid, .. } => {
                self.threads.remove(tid);
            }
        }
    }

    /// Processes a block event. A bio is attributed when it is queued.
    pub fn block(&mut self, event: &BlockEvent) {
        match event.kind {
            EventKind::Remap { from_device, from_sector } => {
                if let Some(tid) = event.tid {
                    let passed_on = self.pass_on(tid, event, (from_device, from_sector));
                    self.threads.entry(tid).passed_on = Some(passed_on);
                }
            }
            EventKind::BioQueue => {
                let whose = self.whose(event);
                self.above.queued(event, whose);
                self.wait(event.device, place(event), event.time, whose);
            }
            EventKind::Split { new_sector } => {
                let waiting = self.bios.get(&(event.device, event.sector.0));
                if let Some(&(queued, whose)) = waiting.and_then(|waiting| waiting.last()) {
                    self.wait(event.device, new_sector.0, queued, whose);
                }
            }
            _ => {}
        }
    }

    /// Processes a gap in the trace. The activities of the threads in the gap are unknown, and activities
    /// that began before the gap may have ended.
    pub fn lost(&mut self, _gap: &LostEvents) {
        self.threads.clear();
        self.above.clear();
        self.journals.values_mut().for_each(|journal| journal.syncing.clear());
    }

    /// Removes and returns the owner of the data in the bio that was queued on this device, at this sector,
    /// at this time.
    pub fn take(&mut self, device: DeviceId, sector: Option<Sector>, queued: Timestamp) -> BioOwner {
        let key = (device, sector.map_or(FLUSH, |sector| sector.0));
        let Some(waiting) = self.bios.get_mut(&key) else { return BioOwner::default() };
        let exact = waiting.iter().position(|(time, _)| *time == queued);
        // Old kernels queue the rest of a split bio again, but the row of this rest has the queue time of the
        // complete bio.
        let at = exact.or_else(|| waiting.iter().position(|(time, _)| *time > queued));
        let Some(at) = at else { return BioOwner::default() };
        let (_, whose) = waiting.remove(at);
        if waiting.is_empty() {
            self.bios.remove(&key);
        }
        self.bios_count -= 1;
        whose
    }

    /// Returns the owner of a flush that `thread` needed at `time`. If the thread was writing a commit, the
    /// owner is the journal.
    pub fn flush_of(&self, thread: u32, time: Timestamp) -> Option<BioOwner> {
        let journal = self.journals.values().find(|journal| journal.thread == thread)?;
        let at = journal.commits.partition_point(|(began, _)| *began <= time).checked_sub(1)?;
        Some(BioOwner { cause: journal.commits[at].1, content: Content::FsJournal, file: None })
    }

    /// Returns the number of entries (files, metadata pages, threads and bios) that did not fit into the
    /// tables. Owners that depend on these entries are unknown.
    pub fn forgotten(&self) -> u64 {
        let tables =
            self.writers.forgotten + self.places.forgotten + self.placed.forgotten + self.threads.forgotten;
        tables + self.freed.forgotten + self.bios_forgotten + self.noted_missing
    }

    /// Makes the writers of the file `before` count less, if a thread that wrote its pages now writes those of `file`.
    fn age_after(&mut self, before: Option<FileKey>, file: FileKey) {
        if let Some(before) = before.filter(|before| *before != file)
            && let Some(writers) = self.writers.get_mut(self.writers_key(before.inode))
        {
            writers.by.age();
        }
    }

    fn key(&mut self, inode: Inode) -> FileKey {
        FileKey { inode, after: self.freed.get_mut(inode).map_or(Timestamp(0), |after| *after) }
    }

    fn disk_of(&self, device: DeviceId) -> DeviceId {
        self.disks.get(&device).copied().unwrap_or(device)
    }

    fn writers_key(&self, inode: Inode) -> (WritebackUnit, u64) {
        let unit = self.units.get(&inode.fs).copied();
        (unit.unwrap_or_else(|| WritebackUnit::Disk(self.disk_of(inode.fs))), inode.number)
    }

    fn journal(&mut self, fs: DeviceId) -> Option<&mut Journal> {
        let is_new = !self.journals.contains_key(&fs);
        if is_new && self.journals.len() >= JOURNALS_MAX {
            return None;
        }
        Some(self.journals.entry(fs).or_default())
    }

    /// Notes a transaction of a file system. If another file system now has the device number, its files can
    /// have the inode numbers of files of the earlier one. So the threads that made files and blocks of the
    /// earlier one dirty are forgotten. Unmounting shows no deletions, but it writes all dirty pages.
    fn note_transaction(&mut self, fs: DeviceId, transaction: u32) {
        if self.journal(fs).is_some_and(|journal| journal.is_of_another(transaction)) {
            self.writers.retain(|_, writers| writers.fs != Some(fs));
            self.places.retain(|(device, _), _| *device != fs);
        }
    }

    /// Returns the thread on whose behalf the thread `tid` works. This is `tid` itself, unless the thread
    /// writes back pages of other threads or writes the journal.
    fn behind(&mut self, tid: u32) -> Option<u32> {
        let state = self.threads.get_mut(tid).copied().unwrap_or_default();
        if let Some(file) = state.writes {
            return self.writer(file).or(state.syncs.map(|_| tid));
        }
        match state.journal {
            Some(fs) => self.journals.get(&fs)?.cause,
            None => Some(tid),
        }
    }

    /// Returns the thread that recently made most of the file's pages dirty.
    fn writer(&mut self, file: FileKey) -> Option<u32> {
        let key = self.writers_key(file.inode);
        let writers = self.writers.get_mut(key)?;
        writers.is_ambiguous |= *writers.fs.get_or_insert(file.inode.fs) != file.inode.fs;
        writers.by.first().filter(|_| !writers.is_ambiguous)
    }

    fn dirtied(&mut self, tid: u32, unit: WritebackUnit, number: u64, index: u64) {
        let device = DeviceId(number as u32);
        let is_device = u64::from(device.0) == number
            && matches!(unit, WritebackUnit::Disk(disk) if self.disk_of(device) == disk);
        if is_device {
            match self.behind(tid) {
                Some(cause) => self.places.insert((device, index), cause),
                None => drop(self.places.remove((device, index))),
            }
            return;
        }
        self.writers.entry((unit, number)).by.add(tid, 1);
        if let Some(state) = self.threads.get_mut(tid)
            && let Some((file, bytes)) = &mut state.cached
            && file.inode.number == number
        {
            // The thread overwrites the page, so it does not read the page from the device.
            *bytes = 0;
        }
    }

    fn whose(&mut self, event: &BlockEvent) -> BioOwner {
        let Some(tid) = event.tid else { return BioOwner::default() };
        let state = self.threads.get_mut(tid).copied().unwrap_or_default();
        let here = (event.device, event.sector);
        if let Some(whose) = state.passed_on.filter(|passed_on| passed_on.now == here).and_then(|it| it.whose)
        {
            return whose;
        }
        let is_read = event.op == Op::Read;
        if event.flags.contains(Flags::SWAP) || self.is_swap(event) {
            return BioOwner { cause: Some(tid), content: Content::Swap, file: None };
        }
        let is_meta = event.flags.contains(Flags::META);
        if place(event) == FLUSH {
            return self.whose_flush(tid, &state);
        }
        if !is_read && !matches!(event.op, Op::Write | Op::WriteZeroes | Op::ZoneAppend) {
            return BioOwner { cause: self.behind(tid), ..BioOwner::default() };
        }
        if !is_read && let Some(owner) = self.take_placed(event, &state) {
            return owner;
        }
        if let Some(file) = state.writes.filter(|_| !is_meta && !is_read) {
            let cause = self.writer(file).or(state.syncs.map(|_| tid));
            return BioOwner { file: Some(file), cause, content: Content::Data };
        }
        if let Some(fs) = state.log.filter(|_| !is_read) {
            self.threads.entry(tid).log = None;
            let cause = state.syncs.filter(|file| file.inode.fs == fs).map(|_| tid);
            return BioOwner { cause, content: Content::FsJournal, file: None };
        }
        if let Some(file) = state.direct.filter(|_| !is_meta) {
            return BioOwner { file: Some(file), cause: Some(tid), content: Content::Data };
        }
        if let Some(fs) = state.journal.filter(|_| !is_read) {
            let cause = self.journals.get(&fs).and_then(|journal| journal.cause);
            return BioOwner { cause, content: Content::FsJournal, file: None };
        }
        if is_read {
            return self.whose_read(tid, event, is_meta);
        }
        let (device, pages) = self.origin(event, &state);
        // The log of nilfs2 begins and may end with pages of the device, and has data of files between them.
        let place = (device, pages.start + (pages.end - pages.start) / 2);
        let fs = self.file_systems.get(&place.0).copied().unwrap_or(place.0);
        if let Some(file) = state.maps.filter(|file| !is_meta && file.inode.fs == fs) {
            let cause = self.writer(file).or(state.syncs.map(|_| tid));
            return BioOwner { file: Some(file), cause, content: Content::Data };
        }
        let cause = self.places.get_mut(place).map(|cause| *cause);
        let in_fsync = || state.syncs.filter(|file| is_meta && file.inode.fs == fs).map(|_| tid);
        let cause = cause.or_else(in_fsync);
        if is_meta || cause.is_some() {
            return BioOwner { cause, content: Content::FsMetadata, file: None };
        }
        let Some(noted) = self.note_of(event, tid) else { return BioOwner::default() };
        let file = self.key(noted.inode);
        // The log writer of nilfs2 makes metadata dirty itself, on behalf of an unknown thread.
        let cause = self.writer(file).filter(|writer| *writer != tid || !noted.is_metadata);
        match noted.is_metadata {
            true => BioOwner { cause, content: Content::FsMetadata, file: None },
            false => BioOwner { cause, content: Content::Data, file: Some(file) },
        }
    }

    /// Returns the note of a bio that `tid` queues.
    fn note_of(&self, event: &BlockEvent, tid: u32) -> Option<NotedBio> {
        let from = Timestamp(event.time.0.saturating_sub(NOTE_NEAR.0));
        let key = |note: &NotedBio| (note.device, note.sector, note.queued);
        let first = self.noted.partition_point(|note| key(note) < (event.device, event.sector, from));
        let until = (event.device, event.sector, event.time + NOTE_NEAR);
        self.noted[first..].iter().take_while(|note| key(note) <= until).find(|note| note.tid == tid).copied()
    }

    fn is_swap(&self, event: &BlockEvent) -> bool {
        let Some(areas) = self.swap.get(&event.device).filter(|_| place(event) != FLUSH) else {
            return false;
        };
        let last = areas.partition_point(|area| area.start <= event.sector.0).checked_sub(1);
        last.is_some_and(|last| areas[last].contains(&event.sector.0))
    }

    fn whose_flush(&mut self, tid: u32, state: &ThreadState) -> BioOwner {
        match state.journal {
            Some(_) => BioOwner { cause: self.behind(tid), content: Content::FsJournal, file: None },
            None => {
                BioOwner { file: state.syncs, cause: state.syncs.map(|_| tid), content: Content::Unknown }
            }
        }
    }

    fn whose_read(&mut self, tid: u32, event: &BlockEvent, is_meta: bool) -> BioOwner {
        if is_meta {
            return BioOwner { cause: self.behind(tid), content: Content::FsMetadata, file: None };
        }
        let Some(state) = self.threads.get_mut(tid) else { return BioOwner::default() };
        let Some((file, bytes)) = state.cached.as_mut().filter(|(_, bytes)| *bytes > 0) else {
            return BioOwner::default();
        };
        *bytes = bytes.saturating_sub(event.bytes.0);
        BioOwner { file: Some(*file), cause: Some(tid), content: Content::Data }
    }

    /// Returns the owner of most blocks of a bio, if the file system chose the blocks for pages.
    fn take_placed(&mut self, event: &BlockEvent, state: &ThreadState) -> Option<BioOwner> {
        if self.placed.is_empty() {
            return None;
        }
        let (device, pages) = self.origin(event, state);
        let mut owners: Vec<(BioOwner, u64)> = Vec::new();
        for page in pages.take(BIO_PAGES_MAX) {
            let Some(owner) = self.placed.remove((device, page)) else { continue };
            match owners.iter_mut().find(|(known, _)| *known == owner) {
                Some((_, count)) => *count += 1,
                None => owners.push((owner, 1)),
            }
        }
        owners.into_iter().rev().max_by_key(|(_, count)| *count).map(|(owner, _)| owner)
    }

    /// Returns the device of the bio, and the pages of its page cache with the bio's data. If the bio came from a
    /// partition, returns the partition and the pages in the partition's page cache.
    fn origin(&self, event: &BlockEvent, state: &ThreadState) -> (DeviceId, Range<u64>) {
        let here = (event.device, event.sector);
        let passed_on = state.passed_on.filter(|passed_on| passed_on.now == here);
        let (device, sector) = passed_on.map_or(here, |passed_on| passed_on.first);
        let (first, end) = (sector.0 / PAGE_SECTORS, sector.after(event.bytes).0.div_ceil(PAGE_SECTORS));
        (device, first..end.max(first + 1))
    }

    fn wait(&mut self, device: DeviceId, sector: u64, queued: Timestamp, whose: BioOwner) {
        if self.bios_count >= BIOS_MAX {
            self.bios_forgotten += self.bios_count as u64;
            self.bios.clear();
            self.bios_count = 0;
        }
        self.bios_count += 1;
        self.bios.entry((device, sector)).or_default().push((queued, whose));
    }
}

/// Returns the sector key under which a queued bio waits for its row.
fn place(event: &BlockEvent) -> u64 {
    let flush = event.op == Op::Flush || event.flags.contains(Flags::PREFLUSH);
    if event.bytes.0 == 0 && flush { FLUSH } else { event.sector.0 }
}
