//! Sums up the events of a minute by id; names are looked up at the end of the minute.

use fonio_core::{ByteCount, Content, DeviceId, Op};
use fonio_record::observer::{Inode, Observed, ObservedRequest, Observer, PartyId};
use rustc_hash::FxHashMap;

use crate::devices::Devices;
use crate::histogram::Histogram;
use crate::summary::{BlockedFigures, DeviceFigures, FileFigures, PartyFigures, Summary, Target, Traffic};

/// Maximum number of files counted in a minute, and maximum number of files whose paths are looked up.
const FILES_MAX: usize = 4096;
const PATHS_MAX: usize = 20;
/// Maximum length of a stored path, in bytes. The middle of a longer path is cut.
const PATH_BYTES_MAX: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    File(Inode),
    Unnamed,
    Journal,
    Metadata,
    Swap,
    Direct,
}

/// Sums over the events of a minute, by id.
#[derive(Debug, Default)]
pub struct Tally {
    parties: FxHashMap<(PartyId, DeviceId), Traffic>,
    blocked: FxHashMap<(PartyId, Option<DeviceId>), Histogram>,
    files: FxHashMap<(Place, PartyId, DeviceId), u64>,
    /// Disk of each file system, learned from requests.
    disks: FxHashMap<DeviceId, DeviceId>,
}

impl Tally {
    /// Adds the observed rows to the sums of the minute. Ignores requests of devices that are not watched.
    pub fn add(&mut self, observed: &Observed, devices: &Devices) {
        match observed {
            Observed::Request(request) => {
                self.note_disk(request);
                if devices.name(request.row.device).is_some() {
                    self.request(request);
                }
            }
            Observed::Wait(wait) => {
                if wait.is_for_storage()
                    && let Some(lasted) = wait.row.ended.and_then(|ended| ended.since(wait.row.began))
                {
                    let device = wait.file.and_then(|file| self.disk_of(file));
                    self.blocked.entry((wait.party, device)).or_default().add(lasted);
                }
            }
            Observed::Count(count) => {
                let row = &count.row;
                let is_kernel = row.blocked_in == fonio_core::BlockedIn::KernelThread;
                if !is_kernel && row.blocked_in.is_for_storage(row.reason) {
                    let sums = self.blocked.entry((count.party, None)).or_default();
                    sums.add_counted(row.below, row.count, row.total);
                }
            }
        }
    }

    /// Records which disk stores the file system of a request's file.
    fn note_disk(&mut self, request: &ObservedRequest) {
        if let Some(file) = request.file
            && (self.disks.len() < FILES_MAX || self.disks.contains_key(&file.fs))
        {
            self.disks.insert(file.fs, request.row.device);
        }
    }

    fn request(&mut self, request: &ObservedRequest) {
        let row = &request.row;
        let party = request.party.unwrap_or(PartyId(0));
        let sums = self.parties.entry((party, row.device)).or_default();
        let response = row.response().unwrap_or_default();
        match row.op {
            Op::Read => {
                sums.reads.add(response);
                sums.read_bytes.0 += row.bytes.0;
            }
            Op::Write | Op::WriteZeroes | Op::ZoneAppend => {
                sums.writes.add(response);
                sums.written_bytes.0 += row.bytes.0;
                let mut key = (place(request), party, row.device);
                if self.files.len() >= FILES_MAX && !self.files.contains_key(&key) {
                    key.0 = Place::Unnamed;
                }
                *self.files.entry(key).or_default() += row.bytes.0;
            }
            Op::Flush => sums.flushes.add(response),
            _ => {}
        }
    }

    /// Returns the disk that holds a file, if a request has shown this disk.
    pub fn disk_of(&self, file: Inode) -> Option<DeviceId> {
        self.disks.get(&file.fs).copied()
    }

    /// Ends the minute, looks up the names for the minute's rows, and begins a new minute.
    pub fn finish(&mut self, summary: &mut Summary, observer: &mut Observer, devices: &Devices) {
        let name = |id: DeviceId| devices.name(id).map(str::to_owned);
        let mut disks_of: FxHashMap<PartyId, Vec<DeviceId>> = FxHashMap::default();
        for ((party, device), traffic) in std::mem::take(&mut self.parties) {
            disks_of.entry(party).or_default().push(device);
            // A device that was removed during the minute no longer has a name.
            let Some(device) = name(device) else { continue };
            summary.device(&DeviceFigures {
                name: device.clone(),
                model: summary
                    .devices
                    .iter()
                    .find(|row| row.name == device)
                    .and_then(|row| row.model.clone()),
                // The kernel's counters supply the byte counts.
                traffic: Traffic { read_bytes: ByteCount(0), written_bytes: ByteCount(0), ..traffic.clone() },
                ..DeviceFigures::default()
            });
            summary.party(&PartyFigures { party: observer.party(party).clone(), device, traffic });
        }
        for ((party, device), waits) in std::mem::take(&mut self.blocked) {
            // A party that used only one device waited for that device.
            let only = disks_of.get(&party).filter(|disks| disks.len() == 1).map(|disks| disks[0]);
            let device = device.or(only).and_then(name);
            let party = observer.party(party).clone();
            let rows =
                Summary { blocked: vec![BlockedFigures { party, device, waits }], ..Summary::default() };
            summary.blocked_rows(&rows);
        }
        self.name_files(summary, observer, devices);
    }

    fn name_files(&mut self, summary: &mut Summary, observer: &mut Observer, devices: &Devices) {
        let mut files: Vec<((Place, PartyId, DeviceId), u64)> =
            std::mem::take(&mut self.files).into_iter().collect();
        files.sort_by_key(|((place, party, device), bytes)| {
            let number = if let Place::File(inode) = place { inode.number } else { 0 };
            (std::cmp::Reverse(*bytes), *party, *device, number)
        });
        let inode = |place: &Place| if let Place::File(inode) = place { Some(*inode) } else { None };
        let mut inodes: Vec<Inode> = files.iter().filter_map(|((place, ..), _)| inode(place)).collect();
        inodes.truncate(PATHS_MAX);
        let paths: FxHashMap<Inode, Option<(String, Content)>> =
            inodes.iter().copied().zip(observer.paths(&inodes)).collect();
        for ((place, party, device), bytes) in files {
            let Some(device) = devices.name(device) else { continue };
            let found = inode(&place).and_then(|inode| paths.get(&inode).cloned().flatten());
            let content = match (place, &found) {
                (_, Some((_, content))) => *content,
                (Place::Journal, _) => Content::FsJournal,
                (Place::Metadata, _) => Content::FsMetadata,
                (Place::Swap, _) => Content::Swap,
                (Place::File(_), None) => Content::Data,
                _ => Content::Unknown,
            };
            let target = match (place, found) {
                (_, Some((path, _))) => Target::File(shortened(&path)),
                (Place::Journal, _) => Target::Journal,
                (Place::Metadata, _) => Target::Metadata,
                (Place::Swap, _) => Target::Swap,
                (Place::Direct, _) => Target::Direct,
                (Place::File(_) | Place::Unnamed, None) => Target::Unnamed,
            };
            summary.file(&FileFigures {
                target,
                content,
                party: observer.party(party).clone(),
                device: device.to_owned(),
                written_bytes: ByteCount(bytes),
            });
        }
    }
}

fn place(request: &ObservedRequest) -> Place {
    match (request.file, request.row.content) {
        (Some(inode), _) => Place::File(inode),
        (None, Content::FsJournal) => Place::Journal,
        (None, Content::FsMetadata) => Place::Metadata,
        (None, Content::Swap) => Place::Swap,
        (None, _) => Place::Direct,
    }
}

/// Shortens a path to a bounded length by cutting its middle.
pub fn shortened(path: &str) -> String {
    if path.len() <= PATH_BYTES_MAX {
        return path.to_owned();
    }
    let half = PATH_BYTES_MAX / 2;
    let first = (0..=half).rev().find(|at| path.is_char_boundary(*at)).unwrap_or(0);
    let last = (path.len() - half..path.len()).find(|at| path.is_char_boundary(*at)).unwrap_or(path.len());
    format!("{}…{}", &path[..first], &path[last..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_keep_their_ends() {
        let long = format!("/a/{}/é/{}.db", "ö".repeat(90), "x".repeat(75));
        let short = shortened(&long);
        assert!(
            short.starts_with("/a/ö") && short.ends_with("x.db") && short.len() <= PATH_BYTES_MAX + 3,
            "{short}"
        );
        assert_eq!(shortened("/var/lib/x"), "/var/lib/x");
    }
}
