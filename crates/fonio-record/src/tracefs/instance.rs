//! Finds or mounts tracefs, creates our instance, and removes the instances of killed runs.
//!
//! An instance is a directory under `instances/` with its own buffers and switches. Using an instance does
//! not change the settings of the machine or of other tracers. The kernel keeps an instance until the
//! instance is removed, even if its creator is killed. Therefore, the name of an instance contains the
//! creator's process id and start time, and the next run removes instances whose creator no longer exists.
//!
//! Files of an instance are opened through a descriptor of its directory. So if somebody unmounts tracefs during
//! a recording (`umount --lazy`), the recording goes on, and the instance is still removed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use fonio_machine::{Machine, read_text};
use fonio_system::ProcessId;
use fonio_tracefs::ring_buffer::{
    BLOCKED_EVENTS, BlockDecoder, ByteOrder, EventFormat, FILE_EVENTS, FileDecoder, PageLayout,
    RUNTIME_EVENT, SCHED_EVENTS, STACK_EVENT, SchedDecoder,
};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, UnmountFlags, fsconfig_create, fsmount, fsopen,
    mount, unmount,
};

use crate::error::RecordError;
use crate::tracefs::disks::Watched;
use crate::tracefs::filesystems::FileScope;

/// The usual mount point of tracefs.
const USUAL_MOUNT: &str = "/sys/kernel/tracing";
const INSTANCE_PREFIX: &str = "fonio-";

/// The enabled events. `block_getrq`, `block_io_start` and `block_io_done` are omitted: these events occur
/// together with the queueing, insertion and completion of the same request, and would raise the cost by
/// half. `block_plug` and `block_unplug` do not describe a request.
const EVENTS: [&str; 12] = [
    "block_bio_queue",
    "block_bio_backmerge",
    "block_bio_frontmerge",
    "block_bio_complete",
    "block_bio_remap",
    "block_split",
    "block_rq_insert",
    "block_rq_issue",
    "block_rq_requeue",
    "block_rq_complete",
    "block_rq_merge",
    "block_rq_remap",
];
/// The events that are required, because without them no requests can be recorded.
const NEEDED_EVENTS: [&str; 2] = ["block_rq_issue", "block_rq_complete"];

/// Filter for threads that are blocked uninterruptibly when they leave their processor.
const LEFT_BLOCKED: &str = "prev_state & 2";

#[derive(Debug)]
pub(crate) struct Tracefs {
    root: PathBuf,
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// A mount that another process made.
    Found,
    /// A mount that only this process sees, and that disappears when the process ends.
    Private(#[allow(dead_code, reason = "keeps the mount")] OwnedFd),
    /// A public mount that we made, because kernels before 5.2 have no private mounts.
    Mounted,
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if matches!(self.held, Held::Mounted) {
            // EBUSY means that another tracer now uses the mount, so the mount stays.
            let _ = unmount(&self.root, UnmountFlags::empty());
        }
    }
}

pub(crate) fn file_error(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> RecordError {
    let path = path.to_owned();
    move |source| RecordError::File { path, doing, source }
}

impl Tracefs {
    /// Finds tracefs, or mounts it for this process only. Calls `note` if tracefs had to be mounted for the
    /// whole machine.
    pub(crate) fn open(machine: &Machine, note: &mut dyn FnMut(String)) -> Result<Tracefs, RecordError> {
        let tracefs = Tracefs::find_or_mount(machine, note)?;
        let instances = tracefs.root.join("instances");
        if let Err(error) = fs::read_dir(tracefs.root.join("events")) {
            return Err(refusal(machine, &tracefs.root, error, "listing"));
        }
        if !tracefs.root.join("events/block").exists() {
            return Err(RecordError::NoBlockEvents);
        }
        if !instances.exists() {
            return Err(RecordError::NoInstances);
        }
        Ok(tracefs)
    }

    fn find_or_mount(machine: &Machine, note: &mut dyn FnMut(String)) -> Result<Tracefs, RecordError> {
        let found = |root: PathBuf| Ok(Tracefs { root, held: Held::Found });
        let mounts = machine.mounts();
        // A later mount on the same directory hides an earlier mount.
        let mounted = |filesystem: &str| Some(mounts.of_kind(filesystem).next_back()?.dir.clone());
        if let Some(root) = mounted("tracefs") {
            return found(root);
        }
        if let Some(root) = mounted("debugfs")
            .map(|debugfs| debugfs.join("tracing"))
            .filter(|root| root.join("events").exists())
        {
            return found(root);
        }
        if !rustix::process::geteuid().is_root() {
            return Err(RecordError::NotRoot);
        }
        let known = fs::read_to_string(machine.proc("filesystems")).unwrap_or_default();
        if !known.lines().any(|line| line.split_whitespace().last() == Some("tracefs")) {
            return Err(RecordError::NoTracefs);
        }
        let private = match mount_private() {
            Ok(fd) => {
                let root = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
                return Ok(Tracefs { root, held: Held::Private(fd) });
            }
            Err(errno) => errno,
        };
        let refused = |source: io::Error| match lockdown(machine) {
            Some(mode) if source.kind() == io::ErrorKind::PermissionDenied => RecordError::Lockdown { mode },
            _ => RecordError::Mount { source },
        };
        if private != Errno::NOSYS {
            return Err(refused(private.into()));
        }
        mount("nodev", USUAL_MOUNT, "tracefs", MountFlags::empty(), None)
            .map_err(|errno| refused(errno.into()))?;
        note(format!("tracefs was mounted at {USUAL_MOUNT} for the recording"));
        Ok(Tracefs { root: USUAL_MOUNT.into(), held: Held::Mounted })
    }

    /// Removes the tracefs instances of killed runs, and returns their names.
    pub(crate) fn remove_leftovers(&self) -> Vec<String> {
        let mut removed = Vec::new();
        for entry in fs::read_dir(self.root.join("instances")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(id) = name.strip_prefix(INSTANCE_PREFIX).and_then(maker) else { continue };
            if id.runs() {
                continue;
            }
            // The kernel refuses to remove an instance while a process reads its buffers. This process may be
            // a recorder in another process namespace, whose process id differs here. If so, that recorder
            // disables its events itself.
            if fs::remove_dir(entry.path()).is_ok() {
                removed.push(name);
            }
        }
        removed
    }

    /// Removes the instances of this process, whose files it has closed.
    pub(crate) fn remove_own(&self) {
        let own = ProcessId::of(std::process::id());
        for entry in fs::read_dir(self.root.join("instances")).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let id = name.strip_prefix(INSTANCE_PREFIX).and_then(maker);
            if id.is_some() && id == own {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }

    /// Creates a disabled instance with the clock, block events and file events of a recording.
    pub(crate) fn instance(
        &self,
        machine: &Machine,
        watched: &Watched,
        files: Option<(&FileScope, &FileDecoder)>,
        kib_per_cpu: u64,
    ) -> Result<Instance, RecordError> {
        let mut instance = self.bare_instance(machine, kib_per_cpu)?;
        instance.enable(watched)?;
        if let Some((scope, decoder)) = files {
            instance.enable_files(scope, decoder)?;
        }
        instance.open_cpus()?;
        Ok(instance)
    }

    /// Creates a disabled instance with the scheduler events of the followed threads.
    ///
    /// The instance for scheduler events is separate, because following threads filters all events of an
    /// instance, whereas a request may complete while any thread runs.
    pub(crate) fn waits_instance(
        &self,
        machine: &Machine,
        kib_per_cpu: u64,
    ) -> Result<Instance, RecordError> {
        let mut instance = self.bare_instance(machine, kib_per_cpu)?;
        instance.enable_waits()?;
        instance.open_cpus()?;
        Ok(instance)
    }

    /// Creates a disabled instance with the events of uninterruptibly blocked threads.
    pub(crate) fn blocked_instance(
        &self,
        machine: &Machine,
        kib_per_cpu: u64,
    ) -> Result<Instance, RecordError> {
        let mut instance = self.bare_instance(machine, kib_per_cpu)?;
        instance.enable_blocked()?;
        instance.open_cpus()?;
        Ok(instance)
    }

    fn bare_instance(&self, machine: &Machine, kib_per_cpu: u64) -> Result<Instance, RecordError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let maker = ProcessId::of(std::process::id()).ok_or_else(|| RecordError::File {
            path: machine.proc("self/stat"),
            doing: "reading",
            source: io::ErrorKind::InvalidData.into(),
        })?;
        // A process may run two recordings at once, at least in tests.
        let name = format!(
            "{INSTANCE_PREFIX}{}-{}-{}",
            maker.pid,
            maker.started_ticks,
            MADE.fetch_add(1, Ordering::Relaxed)
        );
        let all = self.root.join("instances");
        let shown = all.join(&name);
        let all = open_dir(&all)?;
        let made = rustix::fs::mkdirat(&all, &name, Mode::RWXU);
        made.map_err(|errno| refusal(machine, &shown, errno.into(), "making the directory"))?;
        let own = open_dir(&shown).inspect_err(|_| {
            let _ = rustix::fs::unlinkat(&all, &name, AtFlags::REMOVEDIR);
        })?;
        // From here on, dropping the instance removes the directory.
        let dir = PathBuf::from(format!("/proc/self/fd/{}", own.as_raw_fd()));
        let instance = Instance { all, name, shown, _own: own, dir, cpus: Vec::new(), buffers: Vec::new() };
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono").map_err(|error| match error {
            RecordError::File { source, .. }
                if source.raw_os_error() == Some(Errno::INVAL.raw_os_error()) =>
            {
                RecordError::NoMonotonicClock
            }
            other => other,
        })?;
        instance.write("buffer_size_kb", &kib_per_cpu.to_string())?;
        // A page header counts overwritten events, but not events that did not fit.
        instance.write("options/overwrite", "1")?;
        Ok(instance)
    }

    /// Reads the layouts of ring-buffer pages and block events in this kernel.
    pub(crate) fn layouts(&self) -> Result<(PageLayout, BlockDecoder), RecordError> {
        let order = ByteOrder::NATIVE;
        let path = self.root.join("events/header_page");
        let text = read_whole(&path)?;
        let layout = PageLayout::parse(&text, order)
            .map_err(|error| RecordError::Format { path, problem: error.to_string() })?;
        let decoder = BlockDecoder::new(&self.formats("block", &EVENTS)?, order);
        Ok((layout, decoder.ok_or(RecordError::NoBlockEvents)?))
    }

    /// Reads the layouts of the events that show whose data bios carry; `None` if this kernel has none of
    /// these events.
    pub(crate) fn file_layouts(&self) -> Result<Option<FileDecoder>, RecordError> {
        let mut formats = Vec::new();
        for (system, event) in FILE_EVENTS {
            formats.extend(self.formats(system, &[event])?);
        }
        Ok(FileDecoder::new(&formats, ByteOrder::NATIVE))
    }

    /// Reads the layouts of the scheduler events in this kernel.
    pub(crate) fn sched_layouts(&self) -> Result<SchedDecoder, RecordError> {
        let mut formats = self.formats("sched", &SCHED_EVENTS)?;
        formats.extend(self.formats("sched", &[RUNTIME_EVENT])?);
        formats.extend(self.formats("ftrace", &[STACK_EVENT])?);
        SchedDecoder::new(&formats, ByteOrder::NATIVE).ok_or(RecordError::NoSchedulerEvents)
    }

    /// Reads the layouts of the events that show which threads are blocked.
    pub(crate) fn blocked_layouts(&self) -> Result<SchedDecoder, RecordError> {
        let mut formats = self.formats("sched", &BLOCKED_EVENTS)?;
        formats.extend(self.formats("ftrace", &[STACK_EVENT])?);
        SchedDecoder::new(&formats, ByteOrder::NATIVE).ok_or(RecordError::NoSwitchEvents)
    }

    /// Reads the formats of the `events` that this kernel has.
    fn formats(&self, system: &str, events: &[&str]) -> Result<Vec<EventFormat>, RecordError> {
        let mut formats = Vec::new();
        for name in events {
            let path = self.root.join("events").join(system).join(name).join("format");
            if !path.exists() {
                continue;
            }
            let parsed = EventFormat::parse(&read_whole(&path)?);
            formats.push(parsed.map_err(|error| RecordError::Format { path, problem: error.to_string() })?);
        }
        Ok(formats)
    }
}

/// Reads a text with one call, because only the first read of `header_page` returns data, even if that read
/// is short.
fn read_whole(path: &Path) -> Result<String, RecordError> {
    let mut file = File::open(path).map_err(file_error(path, "opening"))?;
    let mut text = vec![0; 64 << 10];
    let mut length = 0;
    while length < text.len() {
        match file.read(&mut text[length..]).map_err(file_error(path, "reading"))? {
            0 => break,
            read => length += read,
        }
    }
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

/// Opens a directory only to open its entries.
fn open_dir(path: &Path) -> Result<OwnedFd, RecordError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    opened.map_err(|errno| file_error(path, "opening")(errno.into()))
}

fn mount_private() -> Result<OwnedFd, Errno> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Returns the error that explains why the kernel refused access to `path`.
fn refusal(machine: &Machine, path: &Path, error: io::Error, doing: &'static str) -> RecordError {
    match Errno::from_io_error(&error) {
        Some(Errno::ROFS) => {
            let mounts = machine.mounts();
            let mount = mounts.holding(path).map_or_else(|| USUAL_MOUNT.into(), |mount| mount.dir.clone());
            RecordError::ReadOnly { path: path.to_owned(), mount }
        }
        Some(Errno::ACCESS | Errno::PERM) => match lockdown(machine) {
            Some(mode) if rustix::process::geteuid().is_root() => RecordError::Lockdown { mode },
            _ => RecordError::NotRoot,
        },
        _ => RecordError::File { path: path.to_owned(), doing, source: error },
    }
}

/// Returns the kernel's lockdown mode if it is on, from a text such as `none [integrity] confidentiality`.
fn lockdown(machine: &Machine) -> Option<String> {
    let text = read_text(&machine.sys("kernel/security/lockdown"))?;
    let mode = text.split('[').nth(1)?.split(']').next()?;
    (mode != "none").then(|| mode.to_owned())
}

/// Parses the creator from an instance name without its prefix, such as `4711-123456-0`: process id, then
/// start time.
fn maker(name: &str) -> Option<ProcessId> {
    let mut parts = name.split('-');
    Some(ProcessId { pid: parts.next()?.parse().ok()?, started_ticks: parts.next()?.parse().ok()? })
}

/// The kernel's statistics about one processor's ring buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuStats {
    /// Number of events overwritten before they were read.
    pub overrun: u64,
    /// Number of events that the kernel refused to record: the writer was interrupted too often, or overtook
    /// itself.
    pub refused: u64,
}

/// A tracefs instance of this process. Dropping this value removes the instance.
#[derive(Debug)]
pub(crate) struct Instance {
    /// The directory of all instances, and the name of this one there.
    all: OwnedFd,
    name: String,
    /// The path of the directory for messages.
    shown: PathBuf,
    /// The open directory of the instance.
    _own: OwnedFd,
    /// The path of the open directory, which stays valid when tracefs is unmounted.
    dir: PathBuf,
    /// The processors of the instance, sorted by number.
    pub cpus: Vec<u32>,
    /// The raw buffers, until [`Instance::take_buffers`] takes them.
    buffers: Vec<(u32, File)>,
}

impl Instance {
    fn write(&self, name: &str, value: &str) -> Result<(), RecordError> {
        fs::write(self.dir.join(name), value).map_err(file_error(&self.shown.join(name), "writing"))
    }

    fn enable(&self, watched: &Watched) -> Result<(), RecordError> {
        for name in EVENTS {
            let dir = format!("events/block/{name}");
            if !self.dir.join(&dir).exists() {
                if NEEDED_EVENTS.contains(&name) {
                    return Err(RecordError::NoBlockEvents);
                }
                continue;
            }
            if let Some(filter) = watched.event_filter() {
                self.write(&format!("{dir}/filter"), &filter)?;
            }
            self.write(&format!("{dir}/enable"), "1")?;
        }
        Ok(())
    }

    fn enable_files(&self, scope: &FileScope, decoder: &FileDecoder) -> Result<(), RecordError> {
        for (system, event) in FILE_EVENTS {
            let dir = format!("events/{system}/{event}");
            if !decoder.decodes(event) || !self.dir.join(&dir).exists() {
                continue;
            }
            if let Some(filter) = scope.event_filter(event) {
                // Without the filter, more events are recorded than needed, but the result is the same.
                let _ = self.write(&format!("{dir}/filter"), &filter);
            }
            self.write(&format!("{dir}/enable"), "1")?;
        }
        Ok(())
    }

    fn enable_waits(&self) -> Result<(), RecordError> {
        // Threads that a followed thread creates are also followed.
        self.write("options/event-fork", "1")?;
        for name in SCHED_EVENTS {
            let dir = format!("events/sched/{name}");
            if !self.dir.join(&dir).exists() {
                return Err(RecordError::NoSchedulerEvents);
            }
            // Stacks are recorded only when a thread blocks or is woken. Without stacks, the reasons of some
            // waits stay unknown; the reader detects missing stacks.
            let stack = match name {
                "sched_switch" => Some("stacktrace if prev_state & 255"),
                "sched_waking" => Some("stacktrace"),
                _ => None,
            };
            if let Some(stack) = stack {
                let _ = self.write(&format!("{dir}/trigger"), stack);
            }
            self.write(&format!("{dir}/enable"), "1")?;
        }
        // Without the runtime event, the time at which a thread replaces an untraced idle thread is unknown.
        let runtime = format!("events/sched/{RUNTIME_EVENT}");
        if self.dir.join(&runtime).exists() {
            self.write(&format!("{runtime}/enable"), "1")?;
        }
        Ok(())
    }

    fn enable_blocked(&self) -> Result<(), RecordError> {
        for name in BLOCKED_EVENTS {
            let dir = format!("events/sched/{name}");
            if !self.dir.join(&dir).exists() {
                // Without the second event, the waking thread is unknown. Only some kernels have the last
                // event.
                if matches!(name, "sched_switch" | "sched_wakeup") {
                    return Err(RecordError::NoSwitchEvents);
                }
                continue;
            }
            if name == "sched_switch" {
                self.write(&format!("{dir}/filter"), LEFT_BLOCKED)?;
            }
            self.write(&format!("{dir}/enable"), "1")?;
        }
        Ok(())
    }

    /// Makes the kernel record the stack for the next `count` events in which a blocked thread leaves its
    /// processor.
    pub(crate) fn take_stacks(&self, count: u64) -> Result<(), RecordError> {
        let trigger = "events/sched/sched_switch/trigger";
        // This write fails at the first call, because there is no trigger yet.
        let _ = self.write(trigger, "!stacktrace");
        self.write(trigger, &format!("stacktrace:{count} if {LEFT_BLOCKED}"))
    }

    /// Follows the thread `tid` and all threads that it creates, instead of the threads followed before.
    pub(crate) fn follow(&self, tid: u32) -> Result<(), RecordError> {
        self.write("set_event_pid", &tid.to_string())
    }

    /// Returns the followed threads that are alive.
    pub(crate) fn followed(&self) -> Vec<u32> {
        let text = read_text(&self.dir.join("set_event_pid")).unwrap_or_default();
        text.split_whitespace().filter_map(|tid| tid.parse().ok()).collect()
    }

    fn open_cpus(&mut self) -> Result<(), RecordError> {
        let per_cpu = self.dir.join("per_cpu");
        for entry in fs::read_dir(&per_cpu).map_err(file_error(&per_cpu, "listing"))?.flatten() {
            let name = entry.file_name();
            let Some(cpu) = name.to_string_lossy().strip_prefix("cpu").and_then(|cpu| cpu.parse().ok())
            else {
                continue;
            };
            let path = entry.path().join("trace_pipe_raw");
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let fd = rustix::fs::open(&path, flags, Mode::empty())
                .map_err(|errno| file_error(&path, "opening")(errno.into()))?;
            self.cpus.push(cpu);
            self.buffers.push((cpu, File::from(fd)));
        }
        self.cpus.sort_unstable();
        self.buffers.sort_unstable_by_key(|(cpu, _)| *cpu);
        Ok(())
    }

    /// Takes each processor's `trace_pipe_raw`, opened without blocking. These files must be closed before
    /// the instance is removed.
    pub(crate) fn take_buffers(&mut self) -> Vec<(u32, File)> {
        std::mem::take(&mut self.buffers)
    }

    /// Makes the kernel start or stop writing events into the buffers.
    pub(crate) fn switch(&self, on: bool) -> Result<(), RecordError> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    /// Returns the size that the kernel has given each processor's buffer.
    pub(crate) fn bytes_per_cpu(&self) -> Option<u64> {
        let text = read_text(&self.dir.join("buffer_size_kb"))?;
        Some(text.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    }

    /// Reads the number of events that the kernel lost on one processor; `None` if the kernel does not count
    /// lost events.
    pub(crate) fn stats(&self, cpu: u32) -> Option<CpuStats> {
        CpuStats::parse(&read_text(&self.dir.join(format!("per_cpu/cpu{cpu}/stats")))?)
    }
}

impl CpuStats {
    fn parse(text: &str) -> Option<CpuStats> {
        let number = |name: &str| -> Option<u64> {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.trim().parse().ok()
        };
        Some(CpuStats {
            overrun: number("overrun")?,
            refused: number("commit overrun")? + number("dropped events")?,
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.switch(false);
        let _ = self.write("events/enable", "0");
        self.buffers.clear();
        // If removal fails now, the next run removes the instance.
        let _ = rustix::fs::unlinkat(&self.all, &self.name, AtFlags::REMOVEDIR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_say_is_unknown() {
        let text = "entries: 3\noverrun: 7\ncommit overrun: 1\nbytes: 164\nnow ts: 5\ndropped events: 2\nread events: 9\n";
        assert_eq!(CpuStats::parse(text), Some(CpuStats { overrun: 7, refused: 3 }));
        assert_eq!(CpuStats::parse("entries: 3\ncommit overrun: 1\ndropped events: 2\n"), None);
        assert_eq!(CpuStats::parse(""), None);
    }

    #[test]
    fn makers() {
        assert_eq!(maker("4711-123456-0"), Some(ProcessId { pid: 4711, started_ticks: 123_456 }));
        for wrong in ["", "4711", "4711-", "x-1-0"] {
            assert_eq!(maker(wrong), None, "{wrong}");
        }
    }
}
