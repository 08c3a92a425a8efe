//! Describes a stall with its parties and its reason, and keeps the requests of the minute before it.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use fonio_core::{BlockedCount, BlockedIn, ByteCount, Content, DeviceId, Request, SeenFile, Timestamp, Wait};
use fonio_machine::Machine;
use fonio_record::observer::{ObservedRequest, ObservedWait, Observer, Party, PartyId, PartyKind};
use fonio_system::TrustedFolder;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::clock::WallClock;
use crate::devices::Devices;
use crate::error::WatchError;
use crate::folders::{Folders, kept_in};
use crate::own_file;
use crate::recent::Recent;
use crate::stall_file::{self, Head, KeptFile, KeptThread};
use crate::stalls::{FoundStall, lasted};
use crate::summary::{Stall, Why};
use crate::tally::{Tally, shortened};
use crate::why::device_and_why;

/// Maximum number of paths that are looked up for a kept stall: the paths of the files with the most bytes.
const PATHS_MAX: usize = 200;

/// A described stall, with all the data to keep except the requests.
#[derive(Debug)]
pub struct Told {
    /// The described stall.
    pub stall: Stall,
    head: Head,
    files: Files,
}

/// Describes a stall: the blocked party, its operation, and the reason.
pub fn tell(
    found: &FoundStall,
    (wall, now): (WallClock, Timestamp),
    recent: &Recent,
    observer: &mut Observer,
    (devices, tally): (&Devices, &mut Tally),
) -> Told {
    let files = files_of(recent, found, observer);
    let waits = found.others.iter().chain([&found.worst]);
    let networks: Vec<DeviceId> = waits.filter_map(|wait| tally.network(wait.file?)).collect();
    let stall = stall(found, wall, (recent, observer), (devices, tally, &networks), &files);
    let head = head(found, &stall, (wall, now), (recent, observer), &files);
    Told { stall, head, files }
}

#[derive(Debug)]
struct Files {
    rows: Vec<KeptFile>,
    places: FxHashMap<SeenFile, u32>,
}

impl Files {
    /// Lists files, each with its path and the kind of its data.
    fn named(files: impl Iterator<Item = (SeenFile, Option<(String, Content)>)>) -> Files {
        let mut listed = Files { rows: Vec::new(), places: FxHashMap::default() };
        for (place, (file, path)) in (0..).zip(files) {
            let (path, content) = path.map_or((None, Content::Data), |(path, content)| (Some(path), content));
            let (device, inode) = (file.inode.fs, file.inode.number);
            listed.rows.push(KeptFile { device, inode, path, content });
            listed.places.insert(file, place);
        }
        listed
    }

    fn place(&self, file: Option<SeenFile>) -> Option<u32> {
        self.places.get(&file?).copied()
    }

    fn path(&self, file: Option<SeenFile>) -> Option<&str> {
        self.rows.get(self.place(file)? as usize)?.path.as_deref()
    }
}

fn files_of(recent: &Recent, found: &FoundStall, observer: &mut Observer) -> Files {
    let mut bytes: FxHashMap<SeenFile, u64> = FxHashMap::default();
    for request in recent.requests() {
        if let Some(file) = request.file {
            *bytes.entry(file).or_default() += request.row.bytes.0;
        }
    }
    let mut files: Vec<(SeenFile, u64)> = bytes.into_iter().collect();
    files.sort_by_key(|(file, bytes)| (std::cmp::Reverse(*bytes), *file));
    let mut seen = FxHashSet::default();
    let of_stall = found.others.iter().filter_map(|wait| wait.file);
    let waited =
        found.worst.file.into_iter().chain(of_stall).chain(recent.waits().filter_map(|wait| wait.file));
    let by_bytes = files.into_iter().map(|(file, _)| file);
    let chosen: Vec<SeenFile> =
        waited.chain(by_bytes).filter(|file| seen.insert(*file)).take(PATHS_MAX).collect();
    let paths = observer.paths(&chosen);
    Files::named(chosen.into_iter().zip(paths))
}

fn stall(
    found: &FoundStall,
    wall: WallClock,
    (recent, observer): (&Recent, &Observer),
    (devices, tally, networks): (&Devices, &Tally, &[DeviceId]),
    files: &Files,
) -> Stall {
    let name = |id| observer.party(id).clone();
    let judge = |wait: &ObservedWait| {
        let span = (wait.row.began, wait.row.ended.unwrap_or(found.ended));
        let disk_of = |file: SeenFile| {
            // A file system on the network has requests on no disk.
            let of_network = networks.iter().copied().find(|network| *network == file.inode.fs);
            of_network.or_else(|| observer.disk_of(file.inode.fs)).or_else(|| tally.disk_of(file))
        };
        let (device, why) = device_and_why(recent.requests(), wait, span, wait.file.and_then(disk_of), &name);
        // Without BPF, no requests are observed. The requests at the start of a long wait are no longer stored.
        let is_known = observer.limited_because().is_none() && span.0 >= recent.complete_since(span.1);
        (device, if is_known { why } else { Why::Unknown })
    };
    let Felt { wait: worst, device, why } = felt(found, &name, &judge);
    let span = (worst.row.began, worst.row.ended.unwrap_or(found.ended));
    let others = found.others.iter().chain([&found.worst]).map(|wait| wait.party);
    Stall {
        began: wall.of(found.began),
        lasted_ms: span.1.since(span.0).unwrap_or_default().0 / 1_000_000,
        goes_on: found.goes_on,
        party: name(worst.party),
        thread: worst.comm.clone(),
        blocked_in: worst.row.blocked_in.unwrap_or(BlockedIn::Unknown),
        file: files.path(worst.file).map(shortened),
        device: device.and_then(|device| device_name(device, devices)),
        others: others.filter(|party| *party != worst.party).map(name).collect(),
        why,
        kept: None,
    }
}

/// The wait after which a stall is named, with its device and reason.
struct Felt<'a> {
    wait: &'a ObservedWait,
    device: Option<DeviceId>,
    why: Why,
}

/// A party that moves at least this much during its own wait works in bulk, such as a copy.
const BULK: ByteCount = ByteCount(8 << 20);

/// Returns the longest wait. If it is a copy's wait for its own data, and another party waited behind this copy, returns
/// the longest wait of such a party instead: it is what a person notices.
fn felt<'a>(
    found: &'a FoundStall,
    name: &dyn Fn(PartyId) -> Party,
    judge: &dyn Fn(&ObservedWait) -> (Option<DeviceId>, Why),
) -> Felt<'a> {
    let (device, why) = judge(&found.worst);
    if matches!(why, Why::Own { bytes, .. } if bytes >= BULK) {
        let copy = name(found.worst.party);
        let mut others: Vec<&ObservedWait> = found.others.iter().collect();
        others.sort_by_key(|wait| std::cmp::Reverse(lasted(wait, found.ended)));
        for wait in others {
            let (device, why) = judge(wait);
            if matches!(&why, Why::Behind { party, .. } if *party == copy) {
                return Felt { wait, device, why };
            }
        }
    }
    Felt { wait: &found.worst, device, why }
}

fn head(
    found: &FoundStall,
    stall: &Stall,
    (wall, now): (WallClock, Timestamp),
    (recent, observer): (&Recent, &Observer),
    files: &Files,
) -> Head {
    let machine = Machine::here();
    let mut meta =
        stall_file::meta(machine.host(), wall.unix_ns_at_zero(), observer.limited_because().is_some());
    let began = recent.complete_since(now);
    (meta.began, meta.ended) = (Some(began), Some(now));
    let ids: FxHashSet<DeviceId> = recent.requests().map(|request| request.row.device).collect();
    let mut ids: Vec<DeviceId> = ids.into_iter().collect();
    ids.sort_unstable();
    meta.devices = ids.into_iter().filter_map(|id| machine.device(id)).collect();
    let mut tids: Vec<u32> = Vec::new();
    for request in recent.requests() {
        tids.extend([request.row.tid, request.row.cause_tid].into_iter().flatten());
    }
    for wait in recent.waits().chain([&found.worst]).chain(&found.others) {
        tids.extend([Some(wait.row.tid), wait.row.waker_tid].into_iter().flatten());
    }
    tids.extend(recent.counts().map(|count| count.row.tid));
    tids.sort_unstable();
    tids.dedup();
    let mut waits: Vec<Wait> = recent.waits().map(|wait| wait_in(wait, files)).collect();
    let worst = wait_in(&found.worst, files);
    if !waits.contains(&worst) {
        waits.push(worst);
    }
    let unobserved = observer.unobserved();
    Head {
        meta: serde_json::to_string(&meta).unwrap_or_default(),
        stall: Some(stall.clone()),
        began,
        stall_began: found.began,
        stall_ended: found.ended,
        threads: tids.into_iter().filter_map(|tid| kept_thread(tid, observer)).collect(),
        files: files.rows.clone(),
        waits,
        counts: recent
            .counts()
            .map(|count| BlockedCount { from: count.row.from.max(began), ..count.row })
            .collect(),
        unobserved: unobserved.requests,
        limited: observer.limited_because().map(str::to_owned),
    }
}

/// Returns the name of a device, even if the device is not watched (such as a loop device). For a network file
/// system, returns its type.
fn device_name(device: DeviceId, devices: &Devices) -> Option<String> {
    let machine = Machine::here();
    let name = devices.name(device).map(str::to_owned).or_else(|| machine.device(device)?.name);
    name.or_else(|| devices.unwatched(device, &machine))
}

fn kept_thread(tid: u32, observer: &Observer) -> Option<KeptThread> {
    let thread = observer.thread(tid)?;
    let party = observer.party(thread.party);
    Some(KeptThread {
        tid,
        pid: thread.pid,
        comm: thread.comm,
        cgroup: thread.cgroup,
        unit: (party.kind == PartyKind::Unit).then(|| party.name.clone()),
    })
}

fn wait_in(wait: &ObservedWait, files: &Files) -> Wait {
    Wait { file_id: files.place(wait.file), ..wait.row.clone() }
}

fn request_in(request: ObservedRequest, files: &Files) -> Request {
    let file_id = files.place(request.file);
    let content = file_id.and_then(|file| files.rows.get(file as usize)).map(|file| file.content);
    Request { file_id, content: content.unwrap_or(request.row.content), ..request.row }
}

/// Stores a stall with the requests of the preceding minute in a folder. Returns the file name, which starts
/// with the stall's time, so that names sort by age.
///
/// # Errors
/// Returns errors of the file system. After an error, no file is left in the folder.
pub fn store(told: &Told, recent: &Recent, folder: &Path) -> io::Result<String> {
    let name = free_name(told.stall.began, folder);
    let (new, path) = (folder.join(".new"), folder.join(&name));
    let requests = recent.requests().map(|request| request_in(request, &told.files));
    let written = own_file::create(folder, ".new")
        .and_then(|file| stall_file::write(&told.head, requests, BufWriter::new(file)))
        .and_then(|()| new.metadata())
        .and_then(|metadata| {
            Folders::make_room(folder, metadata.len());
            fs::rename(&new, &path)
        });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.map(|()| name)
}

fn free_name(began: i64, folder: &Path) -> String {
    let time = crate::times::in_file_name(began);
    let names = (1..).map(|n| if n == 1 { format!("{time}.stall") } else { format!("{time}-{n}.stall") });
    names.take(1000).find(|name| !folder.join(name).exists()).unwrap_or_else(|| format!("{time}.stall"))
}

/// Copies a kept stall from the folder in memory to the folder on the medium.
///
/// # Errors
/// Returns [`WatchError::File`]. After an error, no file is left in the folder.
pub fn copy(from: &Path, folder: &Path, name: &str) -> Result<(), WatchError> {
    TrustedFolder::make(folder).map_err(WatchError::used(folder, "made"))?;
    let bytes = fs::read(from).map_err(WatchError::file(from, "read"))?;
    Folders::make_room(folder, bytes.len() as u64);
    let new_name = format!(".{name}.new");
    let (new, path) = (folder.join(&new_name), folder.join(name));
    let mut written = own_file::create(folder, &new_name).and_then(|file| {
        let mut file = BufWriter::new(file);
        file.write_all(&bytes)?;
        file.flush()
    });
    if written.is_ok() {
        written = fs::rename(&new, &path);
    }
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.map_err(WatchError::file(&path, "written"))
}

/// Returns the file names of the kept stalls in a folder, oldest first.
pub fn names_in(folder: &Path) -> Vec<String> {
    let name = |path: PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    let mut names: Vec<String> = kept_in(folder).into_iter().filter_map(|(path, _)| name(path)).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use fonio_core::Op;

    use super::*;
    use crate::recent::tests::seen;
    use crate::stalls::tests::wait;

    #[test]
    fn a_stall_is_named_after_the_program_behind_a_copy() {
        let name = |id: PartyId| Party { name: format!("unit{}", id.0), kind: PartyKind::Unit };
        let own = |mib: u64| Why::Own { op: Op::Write, bytes: ByteCount(mib << 20), requests: 50 };
        let behind = |party: u32| Why::Behind {
            party: name(PartyId(party)),
            op: Op::Write,
            bytes: ByteCount(24 << 20),
            share_thousandths: 900,
        };
        // Party 1 waits longest, then party 3, then party 2.
        let found = FoundStall {
            began: Timestamp(0),
            ended: Timestamp(9_000_000_000),
            worst: wait(1, 0, 9000),
            others: vec![wait(2, 0, 2000), wait(3, 0, 3000)],
            goes_on: false,
        };
        let chosen = |first: Why, second: Why, third: Why| {
            let judge = |wait: &ObservedWait| {
                let why = [&first, &second, &third][wait.party.0 as usize - 1].clone();
                (None, why)
            };
            felt(&found, &name, &judge).wait.party.0
        };
        assert_eq!(chosen(own(24), behind(1), behind(1)), 3, "the longest wait behind the copy");
        assert_eq!(chosen(own(24), behind(1), own(1)), 2);
        assert_eq!(chosen(own(24), behind(3), Why::Unknown), 1, "nobody waited behind the copy");
        assert_eq!(chosen(own(1), behind(1), behind(1)), 1, "small writes are no copy");
        assert_eq!(chosen(behind(3), behind(1), behind(1)), 1);
    }

    #[test]
    fn the_name_of_a_later_file_is_not_the_name_of_an_earlier_one() {
        let (journal, clip) = (seen(12, 1), seen(12, 2));
        let named = |path: &str| Some((path.to_owned(), Content::Data));
        let files = Files::named([(journal, None), (clip, named("/clip.mp4"))].into_iter());
        assert_eq!((files.path(Some(journal)), files.path(Some(clip))), (None, Some("/clip.mp4")));
        let of_journal = ObservedWait { file: Some(journal), ..wait(1, 1000, 2000) };
        assert_eq!(wait_in(&of_journal, &files).file_id, Some(0));
        assert_eq!(files.rows[0].path, None);
    }
}
