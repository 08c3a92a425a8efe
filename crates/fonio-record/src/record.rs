//! Creates one recording from beginning to end.

use std::path::Path;

use fonio_core::meta::Device;
use fonio_core::{ByteCount, DeviceId};
use fonio_machine::Machine;
use fonio_recording::Room;
use fonio_system::signals::{Listener, Signal};
use fonio_system::{ProcessId, Task};

use crate::attribution::swap;
use crate::capture::{Capture, Feed, Probes};
use crate::error::RecordError;
use crate::options::{OtherRows, Progress, RecordOptions, RecordSummary};
use crate::probes::bios::BiosProbe;
use crate::probes::blocked::Probe;
use crate::probes::bpf::Unavailable;
use crate::probes::calls::CallsProbe;
use crate::tracefs::disks::{self, Watched};
use crate::tracefs::filesystems::FileScope;
use crate::tracefs::pages::{PageStore, Pages};
use crate::tracefs::spill::Spill;
use crate::tracefs::{Instance, Tracefs};
use crate::write::finish::FinishedCapture;
use crate::write::writer;

/// Maximum default size of the kernel's buffers of all processors: in bytes, and as a part of the memory.
const KERNEL_BUFFERS: u64 = 64 << 20;
const KERNEL_BUFFERS_OF_MEMORY: u64 = 32;
/// Minimum and maximum default size of one processor's ring buffer. At 64 bytes per event, 8 MiB contain
/// 131,000 events. This is the number of events that 160,000 requests per second cause between two wake-ups.
const KERNEL_BUFFER_PER_CPU: std::ops::RangeInclusive<u64> = 1 << 20..=8 << 20;

/// Records block I/O according to `options`, and writes a recording.
///
/// SIGINT and SIGTERM end a capture cleanly; a second SIGINT aborts it. The terminal sends SIGINT to the
/// command too; the recorder forwards SIGTERM. The only change to the machine is the recorder's tracefs
/// instance. The instance is removed at the end, together with the instances of killed runs. Returns a
/// [`RecordError`], which explains in one sentence what is missing or failed.
pub fn record(
    options: &RecordOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RecordSummary, RecordError> {
    record_with(options, &mut |_| Ok(()), progress)
}

/// Removes the tracefs instances that this process made before it called exec(2), which closed their files.
///
/// # Errors
/// Fails if tracefs cannot be reached.
pub fn remove_own_instances() -> Result<(), RecordError> {
    Tracefs::open(&Machine::here(), &mut |_| ())?.remove_own();
    Ok(())
}

/// Does the same as [`record`], and adds the caller's rows, such as the phases of the command. `other_rows`
/// is called once, after the capture. The caller may add marks, calls, waits, files and samples, with times
/// of `CLOCK_MONOTONIC`. Returns the errors of [`record`]. An error of `other_rows` becomes
/// [`RecordError::Write`].
pub fn record_with(
    options: &RecordOptions,
    other_rows: &mut OtherRows<'_>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RecordSummary, RecordError> {
    let prepared = Prepared::new(options, progress)?;
    let (finished, pages) = prepared.capture(progress)?;
    finished.write(pages, other_rows, progress)
}

/// A capture that is prepared but has not begun.
struct Prepared<'a> {
    capture: Capture<'a>,
    watched: Watched,
    block: (Instance, PageStore),
    /// The tracefs instance and page store for waits, if waits are recorded.
    waits: Option<(Instance, PageStore)>,
    probes: Probes,
    room: Room,
    /// Dropped after the tracefs instances, which must be removed before tracefs is unmounted.
    tracefs: Tracefs,
}

impl<'a> Prepared<'a> {
    /// Finds the devices to watch, and creates the tracefs instances.
    fn new(
        options: &'a RecordOptions,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Prepared<'a>, RecordError> {
        let machine = Machine::here();
        if options.command.as_ref().is_some_and(Vec::is_empty) {
            return Err(RecordError::EmptyCommand);
        }
        let room = writer::hold_place(&options.out, options.overwrite)?;
        let watched = disks::resolve(&machine, &options.select)?;
        let mut notes = Vec::new();
        if let Watched::AllBut(left_out) = &watched
            && !left_out.is_empty()
        {
            notes.push(left_out_note(&machine, left_out));
        }
        let tracefs = Tracefs::open(&machine, &mut |note| notes.push(note))?;
        for name in tracefs.remove_leftovers() {
            notes.push(format!("removed the tracefs instance {name} of an earlier run that was killed"));
        }
        for note in &notes {
            progress(Progress::Note(note));
        }
        let signals = Listener::begin(&[Signal::INT, Signal::TERM]).map_err(|source| RecordError::File {
            path: "signal handlers".into(),
            doing: "setting",
            source,
        })?;
        let (layout, decoder) = tracefs.layouts()?;
        let spill = options
            .spill_to
            .as_ref()
            .map(|dir| Spill::create(dir).map_err(|source| RecordError::Spill { dir: dir.clone(), source }));
        let spill = spill.transpose()?;
        let kib_per_cpu = kernel_buffer(&machine, options).0 / 1024;
        let store = |instance: &mut Instance, spill| {
            PageStore::new(layout.clone(), instance.take_buffers(), options.buffer, spill)
        };
        let files = match options.files {
            true => tracefs.file_layouts()?.map(|decoder| {
                let scope = FileScope::of(&machine, &watched);
                let decoder = decoder.with_btrfs(scope.btrfs.clone());
                (scope, decoder)
            }),
            false => None,
        };
        let followed = files.as_ref().map(|(scope, decoder)| (scope, decoder));
        let mut instance = tracefs.instance(&machine, &watched, followed, kib_per_cpu)?;
        let pages = store(&mut instance, spill);
        let block = (instance, pages);
        let (waits, sched) = if options.waits || options.until_idle.is_some() {
            let mut instance = tracefs.waits_instance(&machine, kib_per_cpu)?;
            let decoder = tracefs.sched_layouts()?;
            let pages = store(&mut instance, None);
            (Some((instance, pages)), Some(decoder))
        } else {
            (None, None)
        };
        let has_calls = options.calls || options.calls_of_all || !options.calls_of.is_empty();
        let mut processes = followed_processes(&machine, &options.calls_of)?;
        if options.calls_of_all {
            processes.extend(running_programs(&machine));
        }
        let bios = match &files {
            Some((scope, _)) if !scope.without_events.is_empty() => {
                match BiosProbe::begin(&scope.without_events) {
                    Ok(probe) => Some(probe),
                    Err(why) => {
                        notes.push(without_files(&machine, &scope.without_events, &why));
                        notes.last().into_iter().for_each(|note| progress(Progress::Note(note)));
                        None
                    }
                }
            }
            _ => None,
        };
        let probes = Probes {
            blocked: match waits {
                Some(_) => None,
                None => Probe::load(options.blocked, &machine, &tracefs, (&layout, kib_per_cpu)),
            },
            calls: has_calls.then(|| CallsProbe::load(options.statements)),
            processes,
            bios,
        };
        let capture = Capture { options, machine, notes, signals, layout, decoder, files, sched };
        Ok(Prepared { capture, watched, block, waits, probes, room, tracefs })
    }

    /// Captures until there is a reason to stop, and then removes the tracefs instances.
    fn capture(
        self,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(FinishedCapture<'a>, Pages), RecordError> {
        let Prepared { capture, watched, block: (instance, store), waits, probes, room, tracefs } = self;
        let machine = &capture.machine;
        let devices: Vec<Device> = watched.named().iter().filter_map(|&id| machine.device(id)).collect();
        let (waits_instance, waits_store) = waits.unzip();
        let swap = swap::areas(machine);
        let waits_feed = waits_instance.as_ref().zip(waits_store);
        let waits_feed = waits_feed.map(|(instance, store)| Feed { instance, store });
        let (captured, pages, waits) =
            capture.run(Feed { instance: &instance, store }, waits_feed, probes, &devices, progress)?;
        drop(instance);
        drop(waits_instance);
        drop(tracefs);
        Ok((FinishedCapture { capture, captured, waits, swap, room }, pages))
    }
}

/// Returns the processes of these threads; fails if one of the threads does not exist.
fn followed_processes(machine: &Machine, pids: &[u32]) -> Result<Vec<ProcessId>, RecordError> {
    let process = |pid: &u32| {
        let process = machine.task(*pid).owner().and_then(|owner| owner.pid);
        process.and_then(|process| machine.process(process)).ok_or(RecordError::NoProcess { pid: *pid })
    };
    pids.iter().map(process).collect()
}

/// Returns all running processes except this one and kernel threads, which have no program.
fn running_programs(machine: &Machine) -> Vec<ProcessId> {
    let own = std::process::id();
    let is_program = |pid: &u32| *pid != own && std::fs::read_link(Task::of(*pid).file("exe")).is_ok();
    let pids = Task::all_below(Path::new("/proc")).filter(is_program);
    // A process may end meanwhile.
    pids.filter_map(|pid| machine.process(pid)).collect()
}

fn left_out_note(machine: &Machine, left_out: &[DeviceId]) -> String {
    let named = left_out.iter().filter_map(|id| machine.device(*id)?.name);
    let names: Vec<String> = named.collect();
    format!(
        "{} {} on another disk, where the same I/O is recorded; `--device {}` records such a device itself",
        names.join(", "),
        if names.len() == 1 { "is a file" } else { "are files" },
        names.first().map_or("loop0", String::as_str)
    )
}

/// Returns a note on file systems whose files only BPF can show.
fn without_files(machine: &Machine, filesystems: &[DeviceId], why: &Unavailable) -> String {
    let mounts = machine.mounts();
    let mounts = mounts.iter().filter(|mount| filesystems.contains(&mount.device));
    let names: Vec<String> =
        mounts.map(|mount| format!("{} ({})", mount.dir.display(), mount.filesystem)).collect();
    format!("the files of writes to {} stay unknown, because only BPF shows them: {why}", names.join(", "))
}

fn kernel_buffer(machine: &Machine, options: &RecordOptions) -> ByteCount {
    if let Some(bytes) = options.kernel_buffer_per_cpu {
        return bytes;
    }
    let host = machine.host();
    let processors = u64::from(host.processors.unwrap_or(1)).max(1);
    let memory = host.memory_bytes.map_or(u64::MAX, |bytes| bytes.0);
    let share = KERNEL_BUFFERS.min(memory / KERNEL_BUFFERS_OF_MEMORY) / processors;
    ByteCount(share.clamp(*KERNEL_BUFFER_PER_CPU.start(), *KERNEL_BUFFER_PER_CPU.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_machine_gets_the_least_kernel_buffer() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/meminfo"), "MemTotal:  16384 kB\n").unwrap();
        let options = RecordOptions::new("recording");
        assert_eq!(kernel_buffer(&Machine::at(root.path()), &options), ByteCount(1 << 20));
        let asked = RecordOptions { kernel_buffer_per_cpu: Some(ByteCount(4096)), ..options };
        assert_eq!(kernel_buffer(&Machine::at(root.path()), &asked), ByteCount(4096));
    }
}
