//! Receives name changes of files from the kernel while the recorder runs (fanotify, Linux 5.17 and later).
//!
//! A file that is deleted soon after its creation no longer has a name when the recorder looks up the name.
//! For each creation, move and deletion on the marked file systems, the kernel reports the folder, the name,
//! and the inode number with its generation. With these marks, the kernel does not report reads and writes,
//! so the cost is one event for each file that is created or deleted. If the kernel lacks or forbids
//! fanotify, short-lived files have no path.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use fonio_core::lives::Generation;
use fonio_core::{DeviceId, Inode};
use fonio_system::{MountPoint, device};
use rustix::fs::{Mode, OFlags};

use super::find::subvolume;
use super::folders::FolderId;
use super::handle::{Numbers, numbers, word};

/// The kernel queues at most 16,384 events of about 100 bytes, and reports dropped events.
const BUFFER_BYTES: usize = 256 << 10;
/// Maximum number of name events read per wake-up. Reading more would delay reading the trace.
const EVENTS_PER_READ: usize = 16_384;
/// `FAN_EVENT_METADATA_LEN`: the size of the fixed part of an event in bytes.
const METADATA_BYTES: usize = 24;
/// The fixed part of a handle's record: its header, the file system, and the header of the handle.
const RECORD_BYTES: usize = 20;

/// How an event changes a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Created,
    MovedTo,
    Deleted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameEvent {
    /// If the kernel combined several changes of one name into one event, the changes happened in the order
    /// of this list.
    pub changes: Vec<Change>,
    pub is_folder: bool,
    pub inode: Inode,
    pub generation: Option<Generation>,
    pub folder: FolderId,
    pub name: Vec<u8>,
}

/// A file system whose name events are read.
#[derive(Clone, Copy, Debug)]
struct Marked {
    id: [u8; 8],
    device: DeviceId,
    /// On btrfs, the subvolume whose files are followed.
    subvolume: Option<u64>,
}

/// Watches marked file systems. The kernel removes the marks when this value is dropped or the recorder is
/// killed.
pub(super) struct Watch {
    fd: OwnedFd,
    marked: Vec<Marked>,
    buffer: Vec<u8>,
}

impl Watch {
    /// Watches the file systems of these mounts; returns `None` if the kernel supports none of these file
    /// systems.
    pub(super) fn over<'m>(mounts: impl IntoIterator<Item = &'m MountPoint>) -> Option<Watch> {
        let flags = libc::FAN_CLASS_NOTIF
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            | libc::FAN_REPORT_FID
            | libc::FAN_REPORT_DIR_FID
            | libc::FAN_REPORT_NAME
            | libc::FAN_REPORT_TARGET_FID;
        // SAFETY: the call takes two numbers and no pointers.
        let fd = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as u32) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the kernel returned a new descriptor, which no other code owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut watch = Watch { fd, marked: Vec::new(), buffer: vec![0; BUFFER_BYTES] };
        for mount in mounts {
            if watch.marked.iter().all(|marked| marked.device != mount.device) {
                watch.marked.extend(watch.mark(mount));
            }
        }
        // A file system and its copy have the same id, so their files cannot be told apart.
        let ids: Vec<[u8; 8]> = watch.marked.iter().map(|marked| marked.id).collect();
        watch.marked.retain(|marked| ids.iter().filter(|id| **id == marked.id).count() == 1);
        (!watch.marked.is_empty()).then_some(watch)
    }

    fn mark(&self, mount: &MountPoint) -> Option<Marked> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&mount.dir, flags, Mode::empty()).ok()?;
        let id = file_system_id(&folder)?;
        let subvolume = subvolume(mount);
        // Another file system may be mounted over this file system. Files in a btrfs subvolume have their own
        // device number.
        let seen = device::from_dev(rustix::fs::fstat(&folder).ok()?.st_dev);
        if seen != mount.device && subvolume.is_none() {
            return None;
        }
        let mask = libc::FAN_CREATE | libc::FAN_MOVED_TO | libc::FAN_DELETE | libc::FAN_ONDIR;
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
        let (fd, folder) = (self.fd.as_raw_fd(), folder.as_raw_fd());
        // SAFETY: without a path, the call takes descriptors and numbers only.
        let marked = unsafe { libc::fanotify_mark(fd, flags, mask, folder, std::ptr::null()) };
        (marked == 0).then_some(Marked { id, device: mount.device, subvolume })
    }

    /// Returns the events since the last call in order, and whether these are all events.
    pub(super) fn take(&mut self) -> (Vec<NameEvent>, bool) {
        let mut events = Vec::new();
        while events.len() < EVENTS_PER_READ {
            match rustix::io::read(&self.fd, &mut self.buffer[..]) {
                Ok(read) if read > 0 => parse(&self.buffer[..read], &self.marked, &mut events),
                Err(rustix::io::Errno::INTR) => {}
                _ => return (events, true),
            }
        }
        (events, false)
    }
}

/// Returns the id of a file system in fanotify events: `f_fsid` of statfs.
fn file_system_id(folder: &OwnedFd) -> Option<[u8; 8]> {
    let mut stat = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `stat` has room for the structure that the call writes.
    let asked = unsafe { libc::fstatfs(folder.as_raw_fd(), stat.as_mut_ptr()) };
    // SAFETY: zeros are a valid `statfs`, which the call has filled in if it succeeded.
    let stat = unsafe { stat.assume_init() };
    const { assert!(size_of::<libc::fsid_t>() == 8) }
    // SAFETY: `fsid_t` is two numbers of 32 bits, whose names differ between C libraries.
    let id = unsafe { std::mem::transmute::<libc::fsid_t, [u8; 8]>(stat.f_fsid) };
    (asked == 0 && id != [0; 8]).then_some(id)
}

/// Adds the events in `bytes` to `events`. The bytes have the layout of `struct fanotify_event_metadata` in
/// `include/uapi/linux/fanotify.h`.
fn parse(mut bytes: &[u8], marked: &[Marked], events: &mut Vec<NameEvent>) {
    while let Some(length) = word(bytes, 0) {
        let length = length as usize;
        if length < METADATA_BYTES || length > bytes.len() {
            return;
        }
        let (event, rest) = bytes.split_at(length);
        bytes = rest;
        events.extend(name_event(event, marked));
    }
}

fn name_event(event: &[u8], marked: &[Marked]) -> Option<NameEvent> {
    let mask = u64::from(word(event, 8)?) | u64::from(word(event, 12)?) << 32;
    let mut records = event.get(usize::from(half(event, 6)?)..)?;
    let (mut target, mut folder) = (None, None);
    while let Some(length) = half(records, 2).map(usize::from) {
        if length < RECORD_BYTES || length > records.len() {
            return None;
        }
        let (record, rest) = records.split_at(length);
        records = rest;
        let marked = marked.iter().find(|marked| record[4..12] == marked.id)?;
        let handle_bytes = word(record, 12)? as usize;
        let handle = record.get(RECORD_BYTES..RECORD_BYTES.checked_add(handle_bytes)?)?;
        let file = file_of(word(record, 16)?, handle, marked)?;
        match record[0] {
            libc::FAN_EVENT_INFO_TYPE_FID => target = Some(file),
            libc::FAN_EVENT_INFO_TYPE_DFID_NAME => {
                let name = &record[RECORD_BYTES + handle_bytes..];
                let end = name.iter().position(|byte| *byte == 0)?;
                folder = Some((file, name[..end].to_vec()));
            }
            _ => {}
        }
    }
    let ((inode, generation), ((folder, of_folder), name)) = (target?, folder?);
    let folder = FolderId { inode: folder, generation: of_folder };
    let changes = [
        (libc::FAN_CREATE, Change::Created),
        (libc::FAN_MOVED_TO, Change::MovedTo),
        (libc::FAN_DELETE, Change::Deleted),
    ];
    let changes = changes.into_iter().filter(|(bit, _)| mask & bit != 0).map(|(_, change)| change).collect();
    Some(NameEvent { changes, is_folder: mask & libc::FAN_ONDIR != 0, inode, generation, folder, name })
}

/// Returns the file to which a handle belongs; `None` for other handle types and other subvolumes.
fn file_of(kind: u32, handle: &[u8], marked: &Marked) -> Option<(Inode, Option<Generation>)> {
    let Numbers { inode: number, subvolume, generation } = numbers(kind, handle)?;
    let is_followed = subvolume.is_none() || subvolume == marked.subvolume;
    is_followed.then_some((Inode { fs: marked.device, number }, generation))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

    fn record(kind: u8, handle_kind: u32, handle: &[u8], name: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind, 0, 0, 0];
        bytes.extend(ID);
        bytes.extend((handle.len() as u32).to_ne_bytes());
        bytes.extend(handle_kind.to_ne_bytes());
        bytes.extend(handle);
        bytes.extend(name);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let length = (bytes.len() as u16).to_ne_bytes();
        bytes[2..4].copy_from_slice(&length);
        bytes
    }

    fn event(mask: u64, records: &[Vec<u8>]) -> Vec<u8> {
        let records = records.concat();
        let mut bytes = ((METADATA_BYTES + records.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend([3, 0]);
        bytes.extend((METADATA_BYTES as u16).to_ne_bytes());
        bytes.extend(mask.to_ne_bytes());
        bytes.extend([0xff; 8]);
        bytes.extend(records);
        bytes
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn events_tell_folder_name_and_file() {
        let device = DeviceId::new(8, 1);
        let marked = [Marked { id: ID, device, subvolume: Some(5) }];
        let of = |handle_kind, folder: &[u32], file: &[u32]| {
            let folder = record(2, handle_kind, &words(folder), b"notes.db-journal\0");
            event(libc::FAN_CREATE | libc::FAN_DELETE, &[folder, record(1, handle_kind, &words(file), b"")])
        };
        let expected = NameEvent {
            changes: vec![Change::Created, Change::Deleted],
            is_folder: false,
            inode: Inode { fs: device, number: 12 },
            generation: Generation::new(77),
            folder: FolderId { inode: Inode { fs: device, number: 2 }, generation: Generation::new(9) },
            name: b"notes.db-journal".to_vec(),
        };
        let all = [
            of(1, &[2, 9], &[12, 77]),
            of(0x81, &[2, 0, 9], &[12, 0, 77]),
            of(0x4d, &[2, 0, 5, 0, 9], &[12, 0, 5, 0, 77]),
        ];
        for bytes in &all {
            let mut events = Vec::new();
            parse(bytes, &marked, &mut events);
            assert_eq!(events, std::slice::from_ref(&expected));
            let other = [Marked { id: [0; 8], ..marked[0] }];
            events.clear();
            parse(bytes, &other, &mut events);
            assert_eq!(events, [], "events of an unmarked file system");
        }
        let other_subvolume = of(0x4d, &[2, 0, 256, 0, 9], &[12, 0, 256, 0, 77]);
        let mut events = Vec::new();
        parse(
            &[all.concat(), other_subvolume, event(libc::FAN_Q_OVERFLOW, &[])].concat(),
            &marked,
            &mut events,
        );
        assert_eq!(events.len(), 3);
        // Damaged events are skipped.
        for length in 0..all[0].len() {
            events.clear();
            parse(&all[0][..length], &marked, &mut events);
            assert_eq!(events, []);
        }
    }
}
