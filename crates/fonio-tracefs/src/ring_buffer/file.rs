//! Decodes the file-system, page-cache and write-back events that show whose data a bio carries.
//!
//! The available events depend on the kernel. An event is left out if the kernel lacks the event or a field
//! needed from it. The facts that the event would show then stay unknown.

use std::str;

use fonio_core::{DeviceId, Inode};

use super::block::Number;
use super::{Btrfs, ByteOrder, EventFormat, Field};

/// The supported tracepoints, each as system and event name.
pub const FILE_EVENTS: [(&str, &str); 33] = [
    ("writeback", "writeback_dirty_folio"),
    // The name of `writeback_dirty_folio` before Linux 5.18.
    ("writeback", "writeback_dirty_page"),
    ("filemap", "mm_filemap_add_to_page_cache"),
    ("ext4", "ext4_writepages"),
    ("ext4", "ext4_writepages_result"),
    ("ext4", "ext4_sync_file_enter"),
    ("ext4", "ext4_sync_file_exit"),
    ("ext4", "ext4_free_inode"),
    // Events of direct I/O before Linux 5.5.
    ("ext4", "ext4_direct_IO_enter"),
    ("ext4", "ext4_direct_IO_exit"),
    // Events of Linux 6.6 and later.
    ("iomap", "iomap_dio_rw_begin"),
    ("iomap", "iomap_dio_rw_queued"),
    ("iomap", "iomap_dio_complete"),
    ("jbd2", "jbd2_start_commit"),
    ("jbd2", "jbd2_end_commit"),
    ("jbd2", "jbd2_handle_stats"),
    ("xfs", "xfs_map_blocks_found"),
    ("xfs", "xfs_map_blocks_alloc"),
    ("xfs", "xfs_file_fsync"),
    ("xfs", "xlog_iclog_write"),
    // An event of Linux 5.15 and later.
    ("xfs", "xfs_inode_inactivating"),
    ("btrfs", "extent_writepage"),
    // Older kernels use this name for `extent_writepage`.
    ("btrfs", "__extent_writepage"),
    ("btrfs", "btrfs_sync_file"),
    ("f2fs", "f2fs_submit_folio_write"),
    ("f2fs", "f2fs_submit_folio_bio"),
    // The names of the two events before Linux 6.16.
    ("f2fs", "f2fs_submit_page_write"),
    ("f2fs", "f2fs_submit_page_bio"),
    ("f2fs", "f2fs_sync_file_enter"),
    ("f2fs", "f2fs_sync_file_exit"),
    ("f2fs", "f2fs_evict_inode"),
    ("task", "task_rename"),
    ("sched", "sched_process_exit"),
];

/// The bits of `common_flags` (`include/linux/trace_events.h`) for events in a hard or soft interrupt.
const FLAGS_INTERRUPT: u64 = 0x08 | 0x10;
/// The page size of x86-64. On machines with larger pages, only a part of each read is attributed.
const PAGE_BYTES: u64 = 4096;
/// The maximum order of a folio in any kernel (`MAX_PAGECACHE_ORDER`).
const ORDER_MAX: u64 = 20;
/// The kind of pages with data of files (`enum page_type` of `fs/f2fs/f2fs.h`). Other kinds are metadata.
const F2FS_DATA: u64 = 0;
/// The write operation of the kernel (`enum req_op`).
const OP_WRITE: u64 = 1;

/// An event with the fields common to all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRecord<'r> {
    /// The thread that was running when the event happened.
    pub tid: u32,
    /// Whether the event happened in an interrupt. If so, the running thread did not cause the event.
    pub in_interrupt: bool,
    /// The event itself.
    pub event: FileEvent<'r>,
}

/// The write-back unit (`struct backing_dev_info`): a disk, with all file systems on its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WritebackUnit {
    /// A disk, such as `8:0`.
    Disk(DeviceId),
    /// A btrfs, possibly on several disks, such as `btrfs-1`.
    Btrfs(u32),
}

/// An action of a file system, the page cache or write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FileEvent<'r> {
    /// The thread made a folio of unknown size dirty. The metadata of a file system is in the page cache of
    /// its device, under the device's number as inode number.
    Dirtied {
        unit: WritebackUnit,
        number: u64,
        index: u64,
    },
    /// The thread added pages to the page cache, for reading or overwriting.
    Cached {
        inode: Inode,
        bytes: u64,
    },
    /// Until [`WriteEnded`](FileEvent::WriteEnded), the thread writes dirty pages of this file.
    WriteBegan {
        inode: Inode,
    },
    WriteEnded {
        inode: Inode,
    },
    /// The thread writes dirty pages of this file until it begins to write pages of another file. The events
    /// of xfs and btrfs do not show when the thread ends writing this file.
    Writes {
        inode: Inode,
    },
    /// The thread has chosen a block of the device `inode.fs` for a page of this file, and will write the page there or hand it to
    /// another thread that does. The files of metadata are internal ones of the file system.
    Placed {
        inode: Inode,
        block: u64,
        is_metadata: bool,
    },
    /// The thread has entered fsync or a similar call. The events of xfs and btrfs do not show the end of the
    /// call.
    SyncBegan {
        inode: Inode,
    },
    SyncEnded {
        inode: Inode,
    },
    /// The thread begins direct I/O on this file.
    DirectBegan {
        inode: Inode,
    },
    DirectEnded {
        inode: Inode,
    },
    /// The thread begins to write a transaction to ext4's journal.
    CommitBegan {
        fs: DeviceId,
        transaction: u32,
    },
    CommitEnded {
        fs: DeviceId,
    },
    /// The thread's next write goes to xfs's log.
    WritesLog {
        fs: DeviceId,
    },
    /// The thread has changed metadata in a transaction.
    Changed {
        fs: DeviceId,
        transaction: u32,
        blocks: u32,
    },
    /// The file was deleted, and no process has it open any longer.
    Freed {
        inode: Inode,
    },
    /// A thread got another name, because it executed another program or renamed itself.
    Renamed {
        tid: u32,
        comm: &'r [u8],
    },
    /// The thread ended.
    Exited {
        tid: u32,
        comm: &'r [u8],
    },
}

#[derive(Clone, Debug)]
enum Layout {
    Renamed { tid: Number, comm: Field },
    WritesLog { fs: Number },
    Dirtied { unit: Field, number: Number, index: Number },
    Cached { fs: Number, number: Number, order: Option<Number> },
    OfInode { kind: OfInode, fs: Number, number: Number },
    Evicted { fs: Number, number: Number, links: Number },
    Placed { fs: Number, number: Number, block: Number, op: Number, kind: Number },
    OfBtrfs { kind: OfInode, id: usize, number: Number, subvolume: Number },
    CommitBegan { fs: Number, transaction: Number },
    CommitEnded { fs: Number },
    Changed { fs: Number, transaction: Number, blocks: Number },
    Exited { tid: Number, comm: Field },
}

#[derive(Clone, Copy, Debug)]
enum OfInode {
    WriteBegan,
    WriteEnded,
    Writes,
    SyncBegan,
    SyncEnded,
    DirectBegan,
    DirectEnded,
    Freed,
}

impl Layout {
    fn of(format: &EventFormat) -> Option<Layout> {
        let number = |name| Number::of(format, name);
        let of_inode = |kind| Some(Layout::OfInode { kind, fs: number("dev")?, number: number("ino")? });
        match format.name.as_str() {
            "writeback_dirty_folio" | "writeback_dirty_page" => Some(Layout::Dirtied {
                unit: format.field("name")?.clone(),
                number: number("ino")?,
                index: number("index")?,
            }),
            "mm_filemap_add_to_page_cache" => Some(Layout::Cached {
                fs: number("s_dev")?,
                number: number("i_ino")?,
                order: number("order"),
            }),
            "extent_writepage" | "__extent_writepage" => Layout::of_btrfs(format, OfInode::Writes),
            "btrfs_sync_file" => Layout::of_btrfs(format, OfInode::SyncBegan),
            "ext4_writepages" => of_inode(OfInode::WriteBegan),
            "ext4_writepages_result" => of_inode(OfInode::WriteEnded),
            "xfs_map_blocks_found" | "xfs_map_blocks_alloc" => of_inode(OfInode::Writes),
            "f2fs_submit_folio_write"
            | "f2fs_submit_folio_bio"
            | "f2fs_submit_page_write"
            | "f2fs_submit_page_bio" => Some(Layout::Placed {
                fs: number("dev")?,
                number: number("ino")?,
                block: number("new_blkaddr")?,
                op: number("op")?,
                kind: number("type")?,
            }),
            "ext4_sync_file_enter" | "xfs_file_fsync" | "f2fs_sync_file_enter" => {
                of_inode(OfInode::SyncBegan)
            }
            "ext4_sync_file_exit" | "f2fs_sync_file_exit" => of_inode(OfInode::SyncEnded),
            "f2fs_evict_inode" => {
                Some(Layout::Evicted { fs: number("dev")?, number: number("ino")?, links: number("nlink")? })
            }
            // xfs also emits this event when it evicts the inode of a file that has blocks beyond its end.
            // Such a file still exists, and the next lookup finds it.
            "ext4_free_inode" | "xfs_inode_inactivating" => of_inode(OfInode::Freed),
            "ext4_direct_IO_enter" | "iomap_dio_rw_begin" => of_inode(OfInode::DirectBegan),
            "ext4_direct_IO_exit" | "iomap_dio_rw_queued" | "iomap_dio_complete" => {
                of_inode(OfInode::DirectEnded)
            }
            "jbd2_start_commit" => {
                Some(Layout::CommitBegan { fs: number("dev")?, transaction: number("transaction")? })
            }
            "xlog_iclog_write" => Some(Layout::WritesLog { fs: number("dev")? }),
            "jbd2_end_commit" => Some(Layout::CommitEnded { fs: number("dev")? }),
            "jbd2_handle_stats" => Some(Layout::Changed {
                fs: number("dev")?,
                transaction: number("tid")?,
                blocks: number("dirtied_blocks")?,
            }),
            "task_rename" => {
                Some(Layout::Renamed { tid: number("pid")?, comm: format.field("newcomm")?.clone() })
            }
            "sched_process_exit" => {
                Some(Layout::Exited { tid: number("pid")?, comm: format.field("comm")?.clone() })
            }
            _ => None,
        }
    }

    fn of_btrfs(format: &EventFormat, kind: OfInode) -> Option<Layout> {
        let number = |name| Number::of(format, name);
        let id = format.field("fsid").filter(|id| id.size == 16)?.offset;
        Some(Layout::OfBtrfs { kind, id, number: number("ino")?, subvolume: number("root_objectid")? })
    }
}

impl OfInode {
    fn event<'r>(self, inode: Inode) -> FileEvent<'r> {
        match self {
            OfInode::WriteBegan => FileEvent::WriteBegan { inode },
            OfInode::WriteEnded => FileEvent::WriteEnded { inode },
            OfInode::Writes => FileEvent::Writes { inode },
            OfInode::SyncBegan => FileEvent::SyncBegan { inode },
            OfInode::SyncEnded => FileEvent::SyncEnded { inode },
            OfInode::DirectBegan => FileEvent::DirectBegan { inode },
            OfInode::DirectEnded => FileEvent::DirectEnded { inode },
            OfInode::Freed => FileEvent::Freed { inode },
        }
    }
}

/// Decodes the records of [`FILE_EVENTS`].
#[derive(Clone, Debug)]
pub struct FileDecoder {
    order: ByteOrder,
    layouts: Vec<Layout>,
    /// For each event id, the index into `layouts`.
    by_id: Vec<Option<u8>>,
    id: Number,
    flags: Number,
    pid: Number,
    /// The names of the events that this decoder supports.
    names: Vec<String>,
    btrfs: Vec<Btrfs>,
}

impl FileDecoder {
    /// Creates a decoder for the supported `formats`; other formats are skipped. Returns `None` if no format
    /// is supported.
    pub fn new<'f>(
        formats: impl IntoIterator<Item = &'f EventFormat>,
        order: ByteOrder,
    ) -> Option<FileDecoder> {
        let mut decoder: Option<FileDecoder> = None;
        for format in formats {
            let Some(layout) = Layout::of(format) else { continue };
            let number = |name| Number::of(format, name);
            let decoder = match &mut decoder {
                Some(decoder) => decoder,
                none => none.insert(FileDecoder {
                    order,
                    layouts: Vec::new(),
                    by_id: Vec::new(),
                    id: number("common_type")?,
                    flags: number("common_flags")?,
                    pid: number("common_pid")?,
                    names: Vec::new(),
                    btrfs: Vec::new(),
                }),
            };
            let index = u8::try_from(decoder.layouts.len()).ok()?;
            decoder.layouts.push(layout);
            decoder.names.push(format.name.clone());
            let id = usize::from(format.id);
            if decoder.by_id.len() <= id {
                decoder.by_id.resize(id + 1, None);
            }
            decoder.by_id[id] = Some(index);
        }
        decoder
    }

    /// Also decodes the events of these btrfs file systems.
    #[must_use]
    pub fn with_btrfs(self, btrfs: Vec<Btrfs>) -> FileDecoder {
        FileDecoder { btrfs, ..self }
    }

    /// Returns whether this decoder decodes the event `name`.
    pub fn decodes(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Decodes one record; returns `None` if the record is too short or is another event.
    #[inline]
    pub fn decode<'r>(&self, record: &'r [u8]) -> Option<FileRecord<'r>> {
        let get = |number: Number| number.get(record, self.order);
        let id = usize::try_from(get(self.id)?).ok()?;
        let layout = &self.layouts[usize::from((*self.by_id.get(id)?)?)];
        let device = |number: Number| Some(DeviceId(get(number)? as u32));
        let event = match layout {
            Layout::Dirtied { unit, number, index } => FileEvent::Dirtied {
                unit: WritebackUnit::parse(unit.text(record, self.order)?)?,
                number: get(*number)?,
                index: get(*index)?,
            },
            Layout::Cached { fs, number, order } => FileEvent::Cached {
                inode: Inode { fs: device(*fs)?, number: get(*number)? },
                bytes: PAGE_BYTES << order.and_then(get).unwrap_or(0).min(ORDER_MAX),
            },
            Layout::OfInode { kind, fs, number } => {
                kind.event(Inode { fs: device(*fs)?, number: get(*number)? })
            }
            // Inodes in memory are also evicted if their files still exist.
            Layout::Evicted { fs, number, links } => {
                let is_deleted = get(*links)? == 0;
                FileEvent::Freed {
                    inode: is_deleted.then_some(Inode { fs: device(*fs)?, number: get(*number)? })?,
                }
            }
            Layout::Placed { fs, number, block, op, kind } => {
                let is_write = get(*op)? == OP_WRITE;
                FileEvent::Placed {
                    inode: is_write.then_some(Inode { fs: device(*fs)?, number: get(*number)? })?,
                    block: get(*block)?,
                    is_metadata: get(*kind)? != F2FS_DATA,
                }
            }
            Layout::OfBtrfs { kind, id, number, subvolume } => {
                let id = record.get(*id..*id + 16)?;
                let subvolume = get(*subvolume)?;
                let is_it = |known: &&Btrfs| known.id == id && known.subvolume == Some(subvolume);
                let known = self.btrfs.iter().find(is_it)?;
                kind.event(Inode { fs: known.fs, number: get(*number)? })
            }
            Layout::CommitBegan { fs, transaction } => {
                FileEvent::CommitBegan { fs: device(*fs)?, transaction: get(*transaction)? as u32 }
            }
            Layout::WritesLog { fs } => FileEvent::WritesLog { fs: device(*fs)? },
            Layout::CommitEnded { fs } => FileEvent::CommitEnded { fs: device(*fs)? },
            Layout::Changed { fs, transaction, blocks } => FileEvent::Changed {
                fs: device(*fs)?,
                transaction: get(*transaction)? as u32,
                blocks: get(*blocks)? as u32,
            },
            Layout::Renamed { tid, comm } => {
                FileEvent::Renamed { tid: get(*tid)? as u32, comm: comm.text(record, self.order)? }
            }
            Layout::Exited { tid, comm } => {
                FileEvent::Exited { tid: get(*tid)? as u32, comm: comm.text(record, self.order)? }
            }
        };
        let in_interrupt = get(self.flags)? & FLAGS_INTERRUPT != 0;
        Some(FileRecord { tid: get(self.pid)? as u32, in_interrupt, event })
    }
}

impl WritebackUnit {
    /// Parses a name such as `8:0` or `btrfs-1`; `None` for units without a disk, such as network file
    /// systems.
    fn parse(name: &[u8]) -> Option<WritebackUnit> {
        let name = str::from_utf8(name).ok()?;
        if let Some(number) = name.strip_prefix("btrfs-") {
            return Some(WritebackUnit::Btrfs(number.parse().ok()?));
        }
        let (major, minor) = name.split_once(':')?;
        Some(WritebackUnit::Disk(DeviceId::new(major.parse().ok()?, minor.parse().ok()?)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The formats of Linux 6.18 on x86-64, without unused fields.
    const FORMATS: [&str; 7] = [
        "name: writeback_dirty_folio\nID: 501\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
         \tfield:char name[32];\toffset:8;\tsize:32;\tsigned:0;\n\
         \tfield:ino_t ino;\toffset:40;\tsize:8;\tsigned:0;\n\
         \tfield:unsigned long index;\toffset:48;\tsize:8;\tsigned:0;\n",
        "name: mm_filemap_add_to_page_cache\nID: 502\n\
         \tfield:unsigned long i_ino;\toffset:16;\tsize:8;\tsigned:0;\n\
         \tfield:dev_t s_dev;\toffset:32;\tsize:4;\tsigned:0;\n\
         \tfield:unsigned char order;\toffset:36;\tsize:1;\tsigned:0;\n",
        "name: ext4_writepages\nID: 503\n\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
         \tfield:ino_t ino;\toffset:16;\tsize:8;\tsigned:0;\n",
        "name: jbd2_handle_stats\nID: 504\n\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\
         \tfield:tid_t tid;\toffset:12;\tsize:4;\tsigned:0;\n\
         \tfield:int dirtied_blocks;\toffset:36;\tsize:4;\tsigned:1;\n",
        "name: sched_process_exit\nID: 505\n\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
         \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n",
        "name: extent_writepage\nID: 507\n\tfield:u8 fsid[16];\toffset:8;\tsize:16;\tsigned:0;\n\
         \tfield:u64 ino;\toffset:24;\tsize:8;\tsigned:0;\n\
         \tfield:u64 root_objectid;\toffset:32;\tsize:8;\tsigned:0;\n",
        // The following format lacks a needed field.
        "name: jbd2_start_commit\nID: 506\n\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n",
    ];

    fn decoder() -> FileDecoder {
        let formats = FORMATS.map(|text| EventFormat::parse(text).unwrap());
        FileDecoder::new(&formats, ByteOrder::Little).unwrap()
    }

    /// Builds a record of event `id` by thread 7, with a text at offset 8 and 4-byte numbers at the given
    /// offsets.
    fn record(id: u16, flags: u8, text: &[u8], numbers: &[(usize, u32)]) -> Vec<u8> {
        let mut record = vec![0; 64];
        record[..2].copy_from_slice(&id.to_le_bytes());
        record[2] = flags;
        record[4] = 7;
        record[8..8 + text.len()].copy_from_slice(text);
        for (at, number) in numbers {
            record[*at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        record
    }

    #[test]
    fn each_kind_of_event() {
        let decoder = decoder();
        let fs = DeviceId::new(8, 1);
        let inode = |number| Inode { fs, number };
        let disk = WritebackUnit::Disk(DeviceId::new(8, 0));
        for (record, expected) in [
            (
                record(501, 0, b"8:0", &[(40, 12), (48, 64)]),
                Some(FileEvent::Dirtied { unit: disk, number: 12, index: 64 }),
            ),
            (
                record(501, 0, b"btrfs-3", &[(40, 257)]),
                Some(FileEvent::Dirtied { unit: WritebackUnit::Btrfs(3), number: 257, index: 0 }),
            ),
            (record(501, 0, b"fuse-1", &[(40, 1)]), None),
            (
                record(502, 0, b"", &[(16, 12), (32, fs.0), (36, 3)]),
                Some(FileEvent::Cached { inode: inode(12), bytes: 32 << 10 }),
            ),
            (record(503, 0, b"", &[(8, fs.0), (16, 12)]), Some(FileEvent::WriteBegan { inode: inode(12) })),
            (
                record(504, 0, b"", &[(8, fs.0), (12, 9), (36, 4)]),
                Some(FileEvent::Changed { fs, transaction: 9, blocks: 4 }),
            ),
            (record(505, 0, b"cat", &[(24, 11)]), Some(FileEvent::Exited { tid: 11, comm: b"cat" })),
            (record(506, 0, b"", &[(8, fs.0)]), None),
        ] {
            let decoded = decoder.decode(&record);
            assert_eq!(decoded.map(|decoded| decoded.event), expected);
            assert!(decoded.is_none_or(|decoded| decoded.tid == 7));
        }
        assert!(decoder.decodes("ext4_writepages") && !decoder.decodes("jbd2_start_commit"));
    }

    #[test]
    fn events_of_a_btrfs() {
        let volume = Btrfs {
            id: *b"0123456789abcdef",
            fs: DeviceId::new(0, 45),
            unit: 1,
            subvolume: Some(5),
            devices: vec![DeviceId::new(7, 0)],
        };
        let decoder = decoder().with_btrfs(vec![volume.clone()]);
        let inode = Inode { fs: volume.fs, number: 257 };
        for (id, subvolume, expected) in [
            (b"0123456789abcdef", 5, Some(FileEvent::Writes { inode })),
            // Another subvolume may have a file with the same inode number.
            (b"0123456789abcdef", 256, None),
            (b"another one     ", 5, None),
        ] {
            let record = record(507, 0, id, &[(24, 257), (32, subvolume)]);
            assert_eq!(decoder.decode(&record).map(|decoded| decoded.event), expected, "{subvolume}");
        }
    }

    #[test]
    fn an_interrupt_is_not_the_thread() {
        for (flags, in_interrupt) in [(0, false), (0x04, false), (0x08, true), (0x11, true)] {
            let record = record(505, flags, b"cat", &[(24, 11)]);
            assert_eq!(decoder().decode(&record).unwrap().in_interrupt, in_interrupt);
        }
    }

    /// The decoder supports all events of real kernels.
    #[test]
    fn real_kernels() {
        let is_f2fs = |event: &(&str, &str)| event.0 == "f2fs";
        for (texts, of_f2fs, missing) in [
            (
                include_str!("../../tests/data/linux-6.18-x86_64/file_formats"),
                false,
                &[
                    "writeback_dirty_page",
                    "ext4_direct_IO_enter",
                    "ext4_direct_IO_exit",
                    "__extent_writepage",
                ][..],
            ),
            (
                include_str!("../../tests/data/linux-6.12-f2fs/file_formats"),
                true,
                &["f2fs_submit_folio_write", "f2fs_submit_folio_bio"],
            ),
            (
                include_str!("../../tests/data/linux-7.3-f2fs/file_formats"),
                true,
                &["f2fs_submit_page_write", "f2fs_submit_page_bio"],
            ),
        ] {
            let texts = texts.split("name: ").skip(1);
            let formats: Vec<_> =
                texts.map(|text| EventFormat::parse(&format!("name: {text}")).unwrap()).collect();
            let decoder = FileDecoder::new(&formats, ByteOrder::Little).unwrap();
            let expected = FILE_EVENTS.iter().filter(|event| is_f2fs(event) == of_f2fs);
            let lacking = expected.map(|(_, event)| *event).filter(|event| !decoder.decodes(event));
            assert_eq!(lacking.collect::<Vec<_>>(), missing);
        }
    }

    #[test]
    fn pages_of_f2fs() {
        let fs = DeviceId::new(8, 1);
        let inode = Inode { fs, number: 12 };
        let texts = include_str!("../../tests/data/linux-6.12-f2fs/file_formats").split("name: ").skip(1);
        let formats: Vec<_> =
            texts.map(|text| EventFormat::parse(&format!("name: {text}")).unwrap()).collect();
        let id = |name: &str| formats.iter().find(|format| format.name == name).unwrap().id;
        let decoder = FileDecoder::new(&formats, ByteOrder::Little).unwrap();
        let placed = |is_metadata| Some(FileEvent::Placed { inode, block: 600, is_metadata });
        for (event, numbers, expected) in [
            ("f2fs_submit_page_write", &[(36, 600), (40, 1), (52, 0)][..], placed(false)),
            ("f2fs_submit_page_bio", &[(36, 600), (40, 1), (52, 1)], placed(true)),
            // A read.
            ("f2fs_submit_page_bio", &[(36, 600), (40, 0), (52, 0)], None),
            ("f2fs_sync_file_enter", &[], Some(FileEvent::SyncBegan { inode })),
            ("f2fs_evict_inode", &[(48, 1)], None),
            ("f2fs_evict_inode", &[(48, 0)], Some(FileEvent::Freed { inode })),
        ] {
            let mut record = record(id(event), 0, b"", &[(8, fs.0), (16, 12)]);
            for (at, number) in numbers {
                record[*at..at + 4].copy_from_slice(&u32::to_le_bytes(*number));
            }
            assert_eq!(decoder.decode(&record).map(|decoded| decoded.event), expected, "{event}");
        }
    }

    #[test]
    fn without_a_known_event_there_is_no_decoder() {
        let format = EventFormat::parse("name: ext4_journal_start\nID: 9\n").unwrap();
        assert!(FileDecoder::new([&format], ByteOrder::Little).is_none());
    }

    proptest! {
        /// No input makes the decoder panic.
        #[test]
        fn any_bytes(id in 501_u16..508, mut bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if bytes.len() >= 2 {
                bytes[..2].copy_from_slice(&id.to_le_bytes());
            }
            let _ = decoder().decode(&bytes);
        }
    }
}
