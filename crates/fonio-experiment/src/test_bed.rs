//! Creates a test bed: the devices, file systems, directories, link and server of a setup. Dropping the test
//! bed undoes all changes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use fonio_core::ByteCount;
use fonio_emulator::{Emulated, Options, ServeConfig};
use fonio_emulator::{EmulatorError, ServeReport};
use fonio_host::{
    Cleaner, Confirmation, Entry, Filesystem, HostError, Ledger, Link, MdArray, OnlyChanger, Scope, Step,
};
use fonio_record::Selector;
use fonio_system::{ProcessId, say};

use crate::error::ExperimentError;
use crate::filling::{Space, fill};
use crate::setup::{Background, MdRaid0, Medium, Setup, Storage};
use crate::work::Work;

/// Maximum size of a folder in memory. No workload writes this much, and only written data use memory.
const MEMORY_PLACE: u64 = 1 << 30;

/// Partitions begin and end at multiples of this, as those of fdisk do.
const PARTITION_ALIGNMENT: u64 = 1 << 20;

/// How this program starts itself in another role: its program file, and the arguments of each role.
#[derive(Clone, Debug)]
pub struct Roles {
    /// The path of the program file.
    pub program: PathBuf,
    /// The arguments of the role that only calls [`fonio_emulator::serve`].
    pub serve_device: Vec<String>,
    /// The arguments of the role that calls [`crate::serve_http`]. An address follows these arguments.
    pub serve_http: Vec<String>,
    /// The arguments of the role that calls [`crate::do_task`]. A file name follows these arguments.
    pub do_task: Vec<String>,
    /// The arguments of the role that calls [`crate::start_task`]. A socket name follows these arguments.
    pub start_task: Vec<String>,
    /// The arguments of the role that calls [`crate::measure_speed`]. What to measure follows these arguments.
    pub measure_speed: Vec<String>,
    /// The arguments of the role that calls [`crate::replay::Sequence::replay`]. A recording, a file or
    /// folder, and optionally `--layer calls` and `--fast` follow.
    pub replay: Vec<String>,
    /// The arguments of the role that serves a FUSE mount in the foreground, and prints a line when the mount
    /// is ready. `--mount-options` with the options, the source directory and the mount point follow.
    pub mount: Vec<String>,
}

struct NewDevice<'a> {
    profile: &'a str,
    size: ByteCount,
    seed: u64,
    faults: &'a [String],
}

#[derive(Debug)]
pub(crate) struct TestBed {
    // The server is stopped first, because it uses the other parts.
    server: Option<Child>,
    /// The cleaners of mounted NILFS2 file systems.
    cleaners: Vec<Cleaner>,
    /// The root of the workload's new file system, and the number of bytes that files can use on this file
    /// system.
    made: Option<(PathBuf, ByteCount)>,
    /// The ledger of an array, or of the mounts of partitions, which use the devices. It was opened before the
    /// devices' ledgers, so a later process that cleans up also undoes this ledger first.
    array: Option<Ledger>,
    /// The root of the file system on the device's second partition.
    beside: Option<PathBuf>,
    devices: Vec<(String, Emulated)>,
    /// The ledger of the test bed; `None` after the test bed is closed.
    ledger: Option<Ledger>,
    /// The locks of borrowed settings, released after the ledger has restored the settings.
    changes: Vec<OnlyChanger>,
    /// The ledger entries for settings of the workload's folder. The mounts of these settings are on the
    /// devices.
    of_folder: Vec<Entry>,
    /// The folder for each directory that the workload uses, by name.
    pub(crate) places: BTreeMap<String, PathBuf>,
    /// The folder of the concurrent workload.
    pub(crate) background_top: Option<PathBuf>,
    /// The folder for each directory that the concurrent workload uses, by name.
    pub(crate) background_places: BTreeMap<String, PathBuf>,
    /// The devices whose I/O the recorder records.
    pub(crate) watched: Vec<Selector>,
    /// The address on which the workload's server listens.
    pub(crate) http: Option<SocketAddr>,
    /// A folder for the run's own small files. This folder is not on the device under test.
    pub(crate) scratch: PathBuf,
}

impl TestBed {
    /// Creates the test bed of `setup` for `work` and the concurrent workload.
    pub fn make(
        setup: &Setup,
        work: Work<'_>,
        background: Option<Background<'_>>,
        seed: u64,
        roles: &Roles,
    ) -> Result<TestBed, ExperimentError> {
        let mut bed = TestBed::bare()?;
        let base = bed.base(setup, seed, roles)?;
        let base = bed.borrow_settings(setup, base)?;
        for place in work.places() {
            let parent = match setup.moved.get(place) {
                None => base.clone(),
                Some(medium) => bed.medium(medium, setup, seed, roles)?,
            };
            let dir = parent.join(place);
            std::fs::create_dir(&dir).map_err(ExperimentError::system("make", &dir))?;
            bed.places.insert(place.to_owned(), dir);
        }
        if let Some(background) = background {
            let top = base.join("background.d");
            std::fs::create_dir(&top).map_err(ExperimentError::system("make", &top))?;
            bed.background_top = Some(top.clone());
            for place in background.workload.places.keys() {
                let dir = top.join(place);
                std::fs::create_dir(&dir).map_err(ExperimentError::system("make", &dir))?;
                bed.background_places.insert(place.clone(), dir);
            }
        }
        if work.needs_http() || background.is_some_and(|background| background.workload.needs_http()) {
            bed.start_server(setup, roles)?;
        }
        Ok(bed)
    }

    /// Creates the test bed of `setup` for any command. If the setup names a folder, this folder is used
    /// unchanged. The files in `with` are copied to a device that is formatted for the command. If the setup
    /// has a network link, a server runs behind this link. The command has a single folder, which is named
    /// `dir`.
    pub fn for_command(
        setup: &Setup,
        with: &[PathBuf],
        seed: u64,
        roles: &Roles,
        stop: &AtomicBool,
    ) -> Result<TestBed, ExperimentError> {
        let mut bed = TestBed::bare()?;
        let dir = match &setup.storage {
            Storage::Directory(dir) => {
                std::fs::canonicalize(dir).map_err(ExperimentError::system("find", dir))?
            }
            _ => {
                let dir = bed.base(setup, seed, roles)?;
                bed.unpace()?;
                let how: &[&str] = if setup.filesystem.has_unix_files() {
                    &["-a"]
                } else {
                    // The owners of files are not preserved. Symbolic links are replaced with copies of the
                    // links' targets.
                    &["-rL", "--preserve=timestamps"]
                };
                for path in with {
                    let mut words: Vec<&OsStr> = how.iter().map(OsStr::new).collect();
                    words.extend([OsStr::new("--"), path.as_os_str(), dir.as_os_str()]);
                    fonio_host::run("cp", "coreutils", &words)?;
                }
                if let Some(share) = setup.full {
                    bed.fill(share, seed, stop)?;
                }
                dir
            }
        };
        let dir = bed.borrow_settings(setup, dir)?;
        bed.places.insert("dir".to_owned(), dir);
        if setup.link.is_some() {
            bed.start_server(setup, roles)?;
        }
        Ok(bed)
    }

    /// Applies temporary settings of the setup to the device and the mount of `dir`, until the ledger is
    /// closed. Settings of a folder apply to a new folder in `dir`, until the devices stop. Returns the
    /// folder that the workload must use.
    fn borrow_settings(&mut self, setup: &Setup, dir: PathBuf) -> Result<PathBuf, ExperimentError> {
        for setting in setup.settings.iter().filter(|setting| setting.scope() != Scope::Folder) {
            let (_, only) = fonio_host::borrow_setting(setting, &dir, self.ledger())?;
            self.changes.push(only);
        }
        if setup.settings_of_folder().next().is_none() {
            return Ok(dir);
        }
        let folder = dir.join("folder.d");
        std::fs::create_dir(&folder).map_err(ExperimentError::system("make", &folder))?;
        self.unpace()?;
        for setting in setup.settings_of_folder() {
            let (entry, only) = fonio_host::borrow_setting(setting, &folder, self.ledger())?;
            self.of_folder.push(entry);
            self.changes.push(only);
        }
        self.pace()?;
        Ok(folder)
    }

    /// Restores the settings of the workload's folder while the emulated devices are unpaced.
    fn restore_folder(&mut self) -> Result<(), ExperimentError> {
        let entries = std::mem::take(&mut self.of_folder);
        if entries.is_empty() {
            return Ok(());
        }
        // Ignore the error if a device's process has ended, because the error of restoring the settings is
        // more helpful.
        let _ = self.unpace();
        Ok(entries.into_iter().rev().try_for_each(|entry| self.ledger().undo(entry))?)
    }

    /// Creates a test bed that has only a ledger and a folder for small files.
    fn bare() -> Result<TestBed, ExperimentError> {
        let state = Ledger::default_dir();
        Ledger::recover(&state)?;
        let mut ledger = Ledger::open(&state)?;
        let scratch = ledger.own_path("run");
        make_tree(&mut ledger, &scratch)?;
        Ok(TestBed {
            server: None,
            cleaners: Vec::new(),
            made: None,
            array: None,
            beside: None,
            devices: Vec::new(),
            ledger: Some(ledger),
            changes: Vec::new(),
            of_folder: Vec::new(),
            places: BTreeMap::new(),
            background_top: None,
            background_places: BTreeMap::new(),
            watched: Vec::new(),
            http: None,
            scratch,
        })
    }

    /// Returns the number of bytes that files could use on the workload's new file system when the file
    /// system was empty; `None` in a directory.
    pub fn usable(&self) -> Option<ByteCount> {
        self.made.as_ref().map(|(_, bytes)| *bytes)
    }

    /// Fills the workload's new file system until the share `share` is used. The emulated devices should be
    /// unpaced ([`TestBed::unpace`]). Fails with an [`ExperimentError`] if a file cannot be written or
    /// removed, or if `stop` becomes true.
    pub fn fill(&self, share: f64, seed: u64, stop: &AtomicBool) -> Result<(), ExperimentError> {
        match &self.made {
            Some((root, _)) => fill(root, share, seed, stop),
            None => Ok(()),
        }
    }

    /// Returns the ledger, for processes that must not outlive the test bed.
    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        self.ledger.as_mut().expect("the ledger exists until the bed is closed")
    }

    /// Makes the emulated devices complete requests immediately, so that a run is prepared quickly.
    pub fn unpace(&mut self) -> Result<(), ExperimentError> {
        self.devices.iter_mut().try_for_each(|(_, device)| Ok(device.unpace()?))
    }

    /// Makes the emulated devices complete requests at the model's times again.
    pub fn pace(&mut self) -> Result<(), ExperimentError> {
        self.devices.iter_mut().try_for_each(|(_, device)| Ok(device.pace()?))
    }

    /// Writes back the dirty data of the directories and drops the directories' data from the page cache, so
    /// that the run starts with a cold cache. Other files stay cached.
    pub fn forget_caches(&self) -> Result<(), ExperimentError> {
        for dir in self.places.values().chain(self.background_places.values()) {
            forget(dir)?;
        }
        Ok(())
    }

    /// Returns the report of each emulated device so far, with its profile.
    pub fn reports(&mut self) -> Result<Vec<(String, ServeReport)>, ExperimentError> {
        let report = |(profile, device): &mut (String, Emulated)| Ok((profile.clone(), device.report()?));
        self.devices.iter_mut().map(report).collect()
    }

    /// Undoes all changes of the test bed, and returns an error if a change could not be undone. Fails with
    /// an [`ExperimentError`] if steps could not be undone; the ledgers keep them for the next start.
    pub fn close(mut self) -> Result<(), ExperimentError> {
        self.stop_server();
        self.cleaners.clear();
        self.restore_folder()?;
        self.stop_array()?;
        for (_, device) in std::mem::take(&mut self.devices) {
            device.stop()?;
        }
        match self.ledger.take() {
            Some(ledger) => Ok(ledger.close()?),
            None => Ok(()),
        }
    }

    /// Undoes all changes of the test bed after a complete measurement. If another program still uses a
    /// device, the measurement stays valid: a note names the program, and the next start removes the device.
    /// Fails with an [`ExperimentError`] for every other change that could not be undone.
    pub fn close_measured(self) -> Result<(), ExperimentError> {
        match self.close() {
            Err(
                ExperimentError::Host(in_use @ HostError::InUse { .. })
                | ExperimentError::Emulator(EmulatorError::Host(in_use @ HostError::InUse { .. })),
            ) => {
                say!("note: {in_use}. fonio removes it at its first start after that program ends.");
                Ok(())
            }
            closed => closed,
        }
    }

    fn base(&mut self, setup: &Setup, seed: u64, roles: &Roles) -> Result<PathBuf, ExperimentError> {
        match &setup.storage {
            Storage::Directory(dir) => {
                let name = format!("fonio-run-{}", std::process::id());
                let own =
                    std::fs::canonicalize(dir).map_err(ExperimentError::system("find", dir))?.join(name);
                make_tree(self.ledger(), &own)?;
                self.watched.push(Selector::Path(own.clone()));
                Ok(own)
            }
            Storage::Device { path, confirmation } => {
                fonio_host::check_empty(path, *confirmation)?;
                if let Some(scheduler) = &setup.scheduler {
                    fonio_host::borrow_scheduler(path, scheduler, self.ledger())?;
                }
                setup.filesystem.make(path)?;
                let options = setup.mount_options.join(",");
                let (dir, _) = fonio_host::mount(self.ledger(), path, setup.filesystem, None, &options)?;
                self.watched.push(Selector::Device(path.clone().into()));
                self.is_made(setup, path, &dir)?;
                Ok(dir)
            }
            Storage::Profile(profile) => {
                let device = NewDevice { profile, size: setup.size, seed, faults: &setup.faults };
                if let Some(filesystem) = setup.partition() {
                    return self.divided(&device, filesystem, setup, roles);
                }
                let options = setup.mount_options.join(",");
                let dir = self.emulate_mounted(&device, setup.filesystem, &options, setup, roles)?;
                let node = self.devices.last().and_then(|(_, device)| device.device());
                let node = node.expect("the emulated device is a block device").to_owned();
                self.is_made(setup, &node, &dir)?;
                Ok(dir)
            }
            Storage::MdRaid0(array) => self.array(array, setup, seed, roles),
        }
    }

    /// Records that the file system on `device` was created and mounted on `dir`, and starts the cleaner of
    /// NILFS2.
    fn is_made(&mut self, setup: &Setup, device: &Path, dir: &Path) -> Result<(), ExperimentError> {
        self.made = Some((dir.to_owned(), Space::of(dir)?.free));
        self.clean(setup.filesystem, device, dir)
    }

    /// Starts the cleaner of a mounted file system if it has one.
    fn clean(&mut self, filesystem: Filesystem, device: &Path, dir: &Path) -> Result<(), ExperimentError> {
        if filesystem == Filesystem::Nilfs2 {
            let settings = self.scratch.join(format!("nilfs_cleanerd-{}.conf", self.cleaners.len()));
            let cleaner = Cleaner::start(self.ledger(), device, dir, &settings)?;
            self.cleaners.push(cleaner);
        }
        Ok(())
    }

    /// Starts an emulated device with two partitions: the first one with the file system of the setup, and the second one
    /// with `filesystem`. Returns the root of the first one.
    fn divided(
        &mut self,
        device: &NewDevice<'_>,
        filesystem: Filesystem,
        setup: &Setup,
        roles: &Roles,
    ) -> Result<PathBuf, ExperimentError> {
        self.array = Some(Ledger::open(&Ledger::default_dir())?);
        let node = self.emulate(device, None, "", setup, roles)?;
        self.unpace()?;
        let second = device.size.0 / 3 / PARTITION_ALIGNMENT * PARTITION_ALIGNMENT;
        let start = device.size.0 / PARTITION_ALIGNMENT * PARTITION_ALIGNMENT - second;
        let parts = [
            (1, PARTITION_ALIGNMENT, start, setup.filesystem, setup.mount_options.join(",")),
            (2, start, start + second, filesystem, String::new()),
        ];
        let mut roots = Vec::new();
        for (number, begin, end, filesystem, options) in parts {
            let part = fonio_host::add_partition(&node, number, ByteCount(begin), ByteCount(end - begin))?;
            filesystem.make(&part)?;
            let ledger = self.array.as_mut().expect("it was opened above");
            let (dir, _) = fonio_host::mount(ledger, &part, filesystem, None, &options)?;
            if roots.is_empty() {
                self.is_made(setup, &part, &dir)?;
            } else {
                self.clean(filesystem, &part, &dir)?;
            }
            roots.push(dir);
        }
        self.beside = roots.pop();
        self.pace()?;
        Ok(roots.remove(0))
    }

    fn medium(
        &mut self,
        medium: &Medium,
        setup: &Setup,
        seed: u64,
        roles: &Roles,
    ) -> Result<PathBuf, ExperimentError> {
        match medium {
            Medium::Memory => Ok(fonio_host::mount_tmpfs(self.ledger(), MEMORY_PLACE)?.0),
            Medium::Partition(_) => Ok(self.beside.clone().expect("the device was divided")),
            Medium::Profile(profile) => {
                let known = fonio_emulator::profile::load(profile)?;
                let size = known.limits(None).map_or(setup.size, |limits| limits.capacity);
                let size = ByteCount(size.0.min(setup.size.0));
                let device = NewDevice { profile, size, seed, faults: &[] };
                self.emulate_mounted(&device, Filesystem::Ext4, "", setup, roles)
            }
        }
    }

    /// Starts the devices of an array, and mounts a file system on the array.
    fn array(
        &mut self,
        array: &MdRaid0,
        setup: &Setup,
        seed: u64,
        roles: &Roles,
    ) -> Result<PathBuf, ExperimentError> {
        self.array = Some(Ledger::open(&Ledger::default_dir())?);
        let (mut nodes, last) = (Vec::new(), array.members.len() - 1);
        for (at, (profile, size)) in array.sized(setup.size).enumerate() {
            // Use different seeds, because two cards of the same kind make different random choices.
            let seed = seed ^ (at as u64) << 32;
            let faults = if at == last { &setup.faults[..] } else { &[] };
            nodes.push(self.emulate(&NewDevice { profile, size, seed, faults }, None, "", setup, roles)?);
        }
        self.unpace()?;
        let ledger = self.array.as_mut().expect("it was opened above");
        let striped = MdArray::striped(ledger, &nodes, MdRaid0::CHUNK)?;
        setup.filesystem.make(striped.path())?;
        let options = setup.mount_options.join(",");
        let (dir, _) = fonio_host::mount(ledger, striped.path(), setup.filesystem, None, &options)?;
        let node = striped.path().to_owned();
        self.is_made(setup, &node, &dir)?;
        self.watched = vec![Selector::Device(node.into())];
        self.pace()?;
        Ok(dir)
    }

    /// Unmounts and stops the RAID array. Meanwhile, the emulated devices complete requests immediately, so
    /// that data still in memory are written fast.
    fn stop_array(&mut self) -> Result<(), ExperimentError> {
        let Some(array) = self.array.take() else { return Ok(()) };
        // Ignore the error: the array is stopped even if a device's process has ended.
        let _ = self.unpace();
        Ok(array.close()?)
    }

    /// Starts an emulated device with a file system, and returns the directory on which it is mounted.
    fn emulate_mounted(
        &mut self,
        device: &NewDevice<'_>,
        filesystem: Filesystem,
        mount_options: &str,
        setup: &Setup,
        roles: &Roles,
    ) -> Result<PathBuf, ExperimentError> {
        self.emulate(device, Some(filesystem), mount_options, setup, roles)?;
        let (_, device) = self.devices.last().expect("it was started");
        Ok(device.mount_dir().expect("a mount was requested").to_owned())
    }

    /// Starts an emulated device, mounts its file system if it has one, and returns the path of its node.
    fn emulate(
        &mut self,
        device: &NewDevice<'_>,
        filesystem: Option<Filesystem>,
        mount_options: &str,
        setup: &Setup,
        roles: &Roles,
    ) -> Result<PathBuf, ExperimentError> {
        let profile = device.profile.to_owned();
        let serve = ServeConfig {
            // Write the complete device before the run, because every part of a used card has been written.
            written: device.size,
            dilate: setup.dilate,
            faults: device.faults.to_vec(),
            // Nobody else uses the device, and it may have more bytes than the machine has memory.
            is_sparse: true,
            ..ServeConfig::of(profile.clone(), device.size, device.seed)
        };
        let plain = Options::of(serve, Ledger::default_dir());
        let options = Options {
            filesystem,
            confirmation: Confirmation::NamedTwice,
            mount: filesystem.map(|_| PathBuf::new()),
            mount_options: mount_options.to_owned(),
            scheduler: setup.scheduler.clone().unwrap_or(plain.scheduler),
            at_floor: setup.at_floor,
            ..plain
        };
        let mut command = Command::new(&roles.program);
        command.args(&roles.serve_device);
        let device = Emulated::start(&options, command)?;
        let node = device.device().expect("the emulated device is a block device").to_owned();
        self.watched.push(Selector::Device(node.clone().into()));
        self.devices.push((profile, device));
        Ok(node)
    }

    fn start_server(&mut self, setup: &Setup, roles: &Roles) -> Result<(), ExperimentError> {
        let mut command = match setup.link {
            None => {
                let mut command = Command::new(&roles.program);
                command.args(&roles.serve_http).arg("127.0.0.1:0");
                command
            }
            Some(rates) => {
                let link = Link::make(self.ledger(), rates)?;
                let mut command = link.command(&roles.program);
                command.args(&roles.serve_http).arg(format!("{}:0", link.server()));
                command
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let spawned = command.spawn();
        let mut child = spawned.map_err(ExperimentError::system("start", &roles.program))?;
        enter_process(self.ledger(), &child)?;
        let mut line = String::new();
        let out = child.stdout.take().expect("its output is piped");
        let read = BufReader::new(out).read_line(&mut line);
        self.server = Some(child);
        let failed = |complaint: String| ExperimentError::TaskFailed {
            status: "the server did not start".to_owned(),
            complaint,
        };
        read.map_err(|error| failed(error.to_string()))?;
        let address = line.trim().strip_prefix("listening ").and_then(|address| address.parse().ok());
        self.http = Some(address.ok_or_else(|| failed(format!("the server printed {:?}", line.trim())))?);
        Ok(())
    }

    fn stop_server(&mut self) {
        if let Some(mut server) = self.server.take() {
            // The server should end when its standard input closes; a server that does not end is killed.
            drop(server.stdin.take());
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl Drop for TestBed {
    fn drop(&mut self) {
        self.stop_server();
        self.cleaners.clear();
        // Steps that cannot be undone stay in the ledger.
        let _ = if self.ledger.is_some() { self.restore_folder() } else { Ok(()) };
        let _ = self.stop_array();
    }
}

/// Enters a process into the ledger, so that it is ended even if this program is killed. Returns `None` if
/// the process has already ended.
pub(crate) fn enter_process(ledger: &mut Ledger, child: &Child) -> Result<Option<Entry>, ExperimentError> {
    let Some(id) = ProcessId::of(child.id()) else { return Ok(None) };
    Ok(Some(ledger.begin(Step::Process { id, leads_group: false })?))
}

fn make_tree(ledger: &mut Ledger, path: &Path) -> Result<(), ExperimentError> {
    if path.exists() {
        let exists = std::io::ErrorKind::AlreadyExists.into();
        return Err(ExperimentError::system("make", path)(exists));
    }
    ledger.begin(Step::Tree { path: path.to_owned() })?;
    std::fs::create_dir(path).map_err(ExperimentError::system("make", path))
}

/// Drops the cached pages of all files in a folder. Files that a program removes meanwhile are left out.
fn forget(dir: &Path) -> Result<(), ExperimentError> {
    let listing = std::fs::read_dir(dir).map_err(ExperimentError::system("list", dir))?;
    for entry in listing {
        let path = entry.map_err(ExperimentError::system("list", dir))?.path();
        forget_entry(&path).or_else(|error| if is_of_missing_file(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

fn forget_entry(path: &Path) -> Result<(), ExperimentError> {
    let metadata = path.symlink_metadata().map_err(ExperimentError::system("look at", path))?;
    if metadata.is_dir() {
        forget(path)?;
    } else if metadata.is_file() {
        fonio_host::drop_file_cache(path)?;
    }
    Ok(())
}

fn is_of_missing_file(error: &ExperimentError) -> bool {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    let mut system = causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    system.any(|error| error.kind() == std::io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn the_cache_of_a_folder_in_use_is_dropped() {
        let dir = tempfile::tempdir().expect("a folder");
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let path = dir.path().join("short-lived");
                    std::fs::write(&path, b"x").and_then(|()| std::fs::remove_file(&path)).expect("a file");
                }
            });
            let forgotten = (0..200).try_for_each(|_| forget(dir.path()));
            is_done.store(true, Ordering::Relaxed);
            forgotten.expect("removed files are skipped");
        });
        let error = forget(&dir.path().join("missing")).expect_err("the folder is missing").to_string();
        assert!(error.contains("cannot list "), "{error}");
    }
}
