//! Sums up the events of a minute by id; names are looked up at the end of the minute.

use fonio_core::{BlockedIn, ByteCount, Content, DeviceId, Op, SeenFile, Timestamp};
use fonio_machine::Machine;
use fonio_record::observer::{Observed, ObservedRequest, ObservedWait, Observer, Party, PartyId};
use rustc_hash::FxHashMap;

use crate::devices::{Devices, network_file_systems};
use crate::histogram::Histogram;
use crate::own_disks::OwnDisks;
use crate::summary::{BlockedFigures, DeviceFigures, FileFigures, PartyFigures, Summary, Target, Traffic};

/// Maximum number of files counted in a minute, and maximum number of files whose paths are looked up.
const FILES_MAX: usize = 4096;
const PATHS_MAX: usize = 20;
/// Maximum length of a stored path, in bytes. The middle of a longer path is cut.
const PATH_BYTES_MAX: usize = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    File(SeenFile),
    Unnamed,
    Journal,
    Metadata,
    Swap,
    Direct,
}

impl Place {
    fn file(&self) -> Option<SeenFile> {
        if let Place::File(file) = self { Some(*file) } else { None }
    }
}

/// Sums over the events of a minute, by id.
#[derive(Debug, Default)]
pub struct Tally {
    parties: FxHashMap<(PartyId, DeviceId), Traffic>,
    /// Blocked times by party and disk, including disks that are not watched and network file systems; `None` if
    /// the disk is unknown.
    blocked: FxHashMap<(PartyId, Option<DeviceId>), Histogram>,
    files: FxHashMap<(Place, PartyId, DeviceId), u64>,
    /// Disk of each file system, learned from the requests of this minute, and of the minute before it. Later file
    /// systems can have the same device number.
    disks: FxHashMap<DeviceId, DeviceId>,
    disks_before: FxHashMap<DeviceId, DeviceId>,
    /// Disks of the threads, across minutes.
    own_disks: OwnDisks,
    /// The network file systems in this minute; `None` until a wait needs them.
    networks: Option<Vec<DeviceId>>,
}

impl Tally {
    /// Adds an observed row to the sums of the minute. Requests to devices that are not watched are only used
    /// to learn the disks of files and threads. Rows must be added in the order of [`sort_by_end`].
    pub fn add(&mut self, observed: &Observed, devices: &Devices) {
        match observed {
            Observed::Request(request) => {
                self.note_disk(request);
                self.own_disks.note(&request.row);
                if devices.name(request.row.device).is_some() {
                    self.request(request);
                }
            }
            Observed::Wait(wait) => {
                if wait.is_for_storage()
                    && let Some(lasted) = wait.row.ended.and_then(|ended| ended.since(wait.row.began))
                {
                    let device = self.disk_of_wait(wait);
                    self.blocked.entry((wait.party, device)).or_default().add(lasted);
                }
            }
            Observed::Count(count) => {
                let row = &count.row;
                let is_kernel = row.blocked_in == BlockedIn::KernelThread;
                if !is_kernel && row.blocked_in.is_for_storage(row.reason) {
                    let device = self.own_disks.only_one_since(row.tid, row.from);
                    let sums = self.blocked.entry((count.party, device)).or_default();
                    sums.add_counted(row.below, row.count, row.total);
                }
            }
        }
    }

    /// Records which disk stores the file system of a request's file.
    fn note_disk(&mut self, request: &ObservedRequest) {
        if let Some(file) = request.file
            && (self.disks.len() < FILES_MAX || self.disks.contains_key(&file.inode.fs))
        {
            self.disks.insert(file.inode.fs, request.row.device);
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

    /// Returns the disk on which a thread waited: the disk of the file, or of the thread's own request. A wait for a
    /// file on a network file system has the device number of this file system, so that it counts for no disk.
    fn disk_of_wait(&mut self, wait: &ObservedWait) -> Option<DeviceId> {
        let of_file = wait.file.and_then(|file| self.network(file).or_else(|| self.disk_of(file)));
        of_file.or_else(|| {
            let tids = [Some(wait.row.tid), wait.row.waker_tid].into_iter().flatten();
            self.own_disks.of_wait(tids, (wait.row.began, wait.row.ended?))
        })
    }

    /// Returns the disk that holds a file, if a recent request has shown this disk.
    pub fn disk_of(&self, file: SeenFile) -> Option<DeviceId> {
        self.disks.get(&file.inode.fs).or_else(|| self.disks_before.get(&file.inode.fs)).copied()
    }

    /// Returns the device number of a file's file system if this is a network file system.
    pub fn network(&mut self, file: SeenFile) -> Option<DeviceId> {
        let fs = file.inode.fs;
        if fs.major() != 0 {
            return None;
        }
        let networks = self.networks.get_or_insert_with(|| network_file_systems(&Machine::here()));
        networks.contains(&fs).then_some(fs)
    }

    /// Ends the minute, looks up the names for the minute's rows, and begins a new minute.
    pub fn finish(&mut self, summary: &mut Summary, observer: &mut Observer, devices: &Devices) {
        let name = |id: DeviceId| devices.name(id).map(str::to_owned);
        for ((party, device), traffic) in std::mem::take(&mut self.parties) {
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
        let machine = Machine::here();
        let mut unwatched: FxHashMap<DeviceId, Option<String>> = FxHashMap::default();
        for ((party, device), waits) in std::mem::take(&mut self.blocked) {
            let device = device.and_then(|id| {
                let unwatched = unwatched.entry(id);
                name(id).or_else(|| unwatched.or_insert_with(|| devices.unwatched(id, &machine)).clone())
            });
            let party = observer.party(party).clone();
            let rows =
                Summary { blocked: vec![BlockedFigures { party, device, waits }], ..Summary::default() };
            summary.blocked_rows(&rows);
        }
        self.disks_before = std::mem::take(&mut self.disks);
        self.networks = None;
        let files = self.take_files();
        let mut largest: Vec<SeenFile> = files.iter().filter_map(|((place, ..), _)| place.file()).collect();
        largest.truncate(PATHS_MAX);
        observer.paths(&largest);
        let path_of = |file| observer.known_path(file).cloned();
        add_files(files, &path_of, &|id| observer.party(id).clone(), devices, summary);
    }

    /// Returns the files of the minute with their bytes, the largest first.
    fn take_files(&mut self) -> Vec<((Place, PartyId, DeviceId), u64)> {
        let mut files: Vec<((Place, PartyId, DeviceId), u64)> =
            std::mem::take(&mut self.files).into_iter().collect();
        files.sort_by_key(|((place, party, device), bytes)| {
            (std::cmp::Reverse(*bytes), *party, *device, place.file())
        });
        files
    }
}

/// Adds rows for the files of a minute; `path_of` knows the path of a file and the kind of its data.
fn add_files(
    files: Vec<((Place, PartyId, DeviceId), u64)>,
    path_of: &dyn Fn(SeenFile) -> Option<(String, Content)>,
    party_of: &dyn Fn(PartyId) -> Party,
    devices: &Devices,
    summary: &mut Summary,
) {
    for ((place, party, device), bytes) in files {
        let Some(device) = devices.name(device) else { continue };
        let (target, content) = target(place, path_of);
        summary.file(&FileFigures {
            target,
            content,
            party: party_of(party),
            device: device.to_owned(),
            written_bytes: ByteCount(bytes),
        });
    }
}

fn target(place: Place, path_of: &dyn Fn(SeenFile) -> Option<(String, Content)>) -> (Target, Content) {
    match place {
        Place::File(file) => match path_of(file) {
            Some((path, content)) => (Target::File(shortened(&path)), content),
            None => (Target::Unnamed, Content::Data),
        },
        Place::Unnamed => (Target::Unnamed, Content::Unknown),
        Place::Journal => (Target::Journal, Content::FsJournal),
        Place::Metadata => (Target::Metadata, Content::FsMetadata),
        Place::Swap => (Target::Swap, Content::Swap),
        Place::Direct => (Target::Direct, Content::Unknown),
    }
}

/// Sorts observed rows by their ends. A wait then follows the request that ended it, and precedes the later
/// requests of its thread.
pub fn sort_by_end(rows: &mut [Observed]) {
    rows.sort_by_key(|observed| match observed {
        Observed::Request(request) => request.row.completed.unwrap_or(Timestamp(0)),
        Observed::Wait(wait) => wait.row.ended.unwrap_or(wait.row.began),
        Observed::Count(count) => count.row.until,
    });
}

fn place(request: &ObservedRequest) -> Place {
    match (request.file, request.row.content) {
        (Some(file), _) => Place::File(file),
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
    use fonio_core::{BlockedCount, Nanos, WaitReason};
    use fonio_record::observer::ObservedCount;

    use super::*;
    use crate::recent::tests::{request, seen};
    use crate::stalls::tests::wait;

    const A: DeviceId = DeviceId(8 << 20);
    const B: DeviceId = DeviceId(8 << 20 | 16);

    /// A request of thread 101.
    fn own_request(device: DeviceId, completed_ms: u64) -> Observed {
        let mut own = request(completed_ms);
        (own.row.device, own.row.tid, own.file) = (device, Some(101), None);
        Observed::Request(own)
    }

    /// Short waits of thread 101.
    fn own_count(from_ms: u64, until_ms: u64) -> Observed {
        let row = BlockedCount {
            tid: 101,
            blocked_in: BlockedIn::Read,
            reason: WaitReason::Storage,
            from: Timestamp(from_ms * 1_000_000),
            until: Timestamp(until_ms * 1_000_000),
            below: Nanos(1_024_000),
            count: 5,
            total: Nanos(4_000_000),
        };
        Observed::Count(ObservedCount { row, party: PartyId(1) })
    }

    /// Checks the disks on which party 1 was blocked, with the number of the party's waits on each disk.
    #[track_caller]
    fn check(mut rows: Vec<Observed>, expected: &[(Option<DeviceId>, u64)]) {
        let mut tally = Tally::default();
        sort_by_end(&mut rows);
        rows.iter().for_each(|row| tally.add(row, &Devices::default()));
        let mut blocked: Vec<_> =
            tally.blocked.iter().map(|((_, device), waits)| (*device, waits.count())).collect();
        blocked.sort_unstable();
        assert_eq!(blocked, expected);
    }

    #[test]
    fn a_wait_is_on_the_disk_of_its_own_thread() {
        let waited = |began, ended| Observed::Wait(wait(1, began, ended));
        let other = Observed::Request(request(61_500));
        // The party used disk A a minute earlier. Another thread keeps a disk busy.
        let earlier = [own_request(A, 1000), other];
        let rows = |more: Vec<Observed>| [&earlier[..], &more].concat();
        check(rows(vec![waited(61_000, 62_000), own_count(60_000, 70_000)]), &[(None, 6)]);
        check(
            rows(vec![own_request(B, 61_990), waited(61_000, 62_000), own_count(60_000, 70_000)]),
            &[(Some(B), 6)],
        );
        // If several waits end within one second, each wait is attributed to the disk of the request that
        // ended that wait.
        let several = [(A, 61_100), (B, 61_200), (A, 61_300)];
        let requests = several.map(|(device, ms)| own_request(device, ms));
        let waits = several.map(|(_, ms)| waited(ms - 50, ms));
        check(
            [&requests[..], &waits, &[own_count(60_000, 70_000)]].concat(),
            &[(None, 5), (Some(A), 2), (Some(B), 1)],
        );
    }

    #[test]
    fn a_wait_is_on_the_disk_of_its_file_or_its_waker() {
        let mut of_waker = wait(1, 61_000, 62_000);
        of_waker.row.waker_tid = Some(7);
        let rows = vec![Observed::Request(request(61_990)), Observed::Wait(of_waker)];
        check(rows, &[(Some(DeviceId::new(179, 0)), 1)]);
        let mut of_file = wait(1, 61_000, 62_000);
        of_file.file = Some(seen(1, 5));
        let rows = vec![Observed::Request(request(1000)), own_request(A, 61_990), Observed::Wait(of_file)];
        check(rows, &[(Some(DeviceId::new(179, 0)), 1)]);
    }

    #[test]
    fn a_wait_for_a_network_file_system_is_on_no_disk() {
        let network = DeviceId::new(0, 44);
        let mut tally = Tally { networks: Some(vec![network]), ..Tally::default() };
        let mut rows = Vec::new();
        for fs in [network, DeviceId::new(0, 45)] {
            let mut of_file = wait(1, 61_000, 62_000);
            let file = seen(1, 5);
            of_file.file = Some(SeenFile { inode: fonio_core::Inode { fs, ..file.inode }, ..file });
            rows.push(Observed::Wait(of_file));
        }
        // The thread also read from a disk during the wait.
        rows.insert(0, own_request(A, 61_990));
        rows.iter().for_each(|row| tally.add(row, &Devices::default()));
        let mut blocked: Vec<_> = tally.blocked.keys().map(|(_, device)| *device).collect();
        blocked.sort_unstable();
        assert_eq!(blocked, [Some(network), Some(A)]);
    }

    #[test]
    fn bytes_of_an_earlier_file_are_not_those_of_a_later_one() {
        let mut tally = Tally::default();
        for (generation, bytes) in [(1, 60 << 20), (2, 4096)] {
            let mut write = request(1000);
            (write.file, write.row.bytes) = (Some(seen(12, generation)), ByteCount(bytes));
            tally.request(&write);
        }
        let files = tally.take_files();
        let listed: Vec<_> = files.iter().map(|((place, ..), bytes)| (place.file(), *bytes)).collect();
        assert_eq!(listed, [(Some(seen(12, 1)), 60 << 20), (Some(seen(12, 2)), 4096)]);
        let path_of = |file| (file == seen(12, 2)).then(|| ("/app.db-journal".to_owned(), Content::Data));
        let targets = files.iter().map(|((place, ..), bytes)| (target(*place, &path_of).0, *bytes));
        let journal = Target::File("/app.db-journal".to_owned());
        assert_eq!(targets.collect::<Vec<_>>(), [(Target::Unnamed, 60 << 20), (journal, 4096)]);
    }

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
