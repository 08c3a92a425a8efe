//! Implements `fonio device emulate`, which runs a device until the user stops it or the workload ends.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fonio_core::statistics::sample::median;
use fonio_core::{ByteCount, Nanos};
use fonio_emulator::{
    Emulated, Fault, Front, Log, Options, PowerCutOptions, PowerCuts, RecoveryDevice, ServeConfig,
    ServeReport, Tear, Through, WorkloadEnd, profile,
};
use fonio_host::{Confirmation, Filesystem, Ledger, private_folder};
use fonio_system::command::Failure;
use serde_json::json;

use crate::cli::emulate::{self as arguments, Emulate};
use crate::commands::lab;
use crate::exit::Exit;
use crate::roles::{device_server, roles};
use crate::{output, signals};

/// Interval at which fonio checks whether the user has stopped the device or the serving process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs the hidden command that serves a device.
pub fn serve() -> Result<Exit> {
    fonio_emulator::serve()?;
    Ok(Exit::Fine)
}

/// Emulates a device until the workload ends or the user stops it.
pub fn run(arguments: &Emulate) -> Result<Exit> {
    if let Some(kernel) = &arguments.guest {
        return lab::run_emulated(kernel, arguments);
    }
    let stop = signals::begin()?;
    let stopped = || stop.load(Ordering::Relaxed);
    let state_dir = Ledger::default_dir();
    let mut ledger = Ledger::open(&state_dir)?;
    let options = options(arguments, state_dir, &mut ledger)?;
    let roles = roles()?;
    let mut emulated = Emulated::start(&options, device_server(&roles))?;
    if arguments.floor {
        return tell_floor(arguments, emulated);
    }
    let started = Instant::now();
    tell_ready(arguments, &options, &emulated)?;
    let end = if arguments.workload.is_empty() {
        while !stopped() && emulated.runs() {
            thread::sleep(LOOK_EVERY);
        }
        None
    } else {
        Some(emulated.run_workload(&arguments.workload, arguments.json, &stopped)?)
    };
    let served = started.elapsed();
    let report = emulated.stop()?;
    if let Some(why) = &report.log_error {
        bail!("the log of writes is incomplete: {why}");
    }
    let cuts = match (arguments.power_cuts, &options.serve.log) {
        (Some(count), Some(log)) if !stopped() => {
            Some(cut(arguments, count, log, &options, &mut ledger, &stopped)?)
        }
        _ => None,
    };
    ledger.close()?;
    tell_end(arguments, &report, served, end, cuts.as_ref())?;
    let of_workload = match end {
        Some(WorkloadEnd::Exited(status)) => Exit::of_command(Failure::of(status.code(), status.signal())),
        _ => Exit::Fine,
    };
    let is_broken = cuts.is_some_and(|cuts| !cuts.failures.is_empty());
    Ok(of_workload.worse(if is_broken { Exit::LimitBroken } else { Exit::Fine }))
}

fn options(arguments: &Emulate, state_dir: PathBuf, ledger: &mut Ledger) -> Result<Options> {
    // Without a profile, only the I/O path is measured, so any profile works. The profile `kingston` is slow
    // enough for every machine.
    let profile = arguments.profile.clone().unwrap_or_else(|| "kingston".to_owned());
    // Report an invalid profile before any work begins.
    profile::device(&profile, ByteCount(arguments.size), arguments.seed)?;
    for text in &arguments.fault {
        text.parse::<Fault>()?;
    }
    let image = arguments.image.clone();
    let confirmation = match &arguments.erase {
        None => Confirmation::NamedOnce,
        Some(named) if Some(named) == image.as_ref() => Confirmation::NamedTwice,
        Some(named) => bail!("--erase names {}, which is not the file of --image", named.display()),
    };
    let cutting = arguments.power_cuts.is_some();
    if let Some(filesystem) = arguments.filesystem.filter(|_| cutting || arguments.mount.is_some()) {
        filesystem.check_kernel()?;
    }
    let capacity = ByteCount(arguments.size);
    let log = match &arguments.log {
        None if cutting => Some(private_folder(ledger, &fonio_emulator::scratch(capacity.0))?.join("log")),
        log => log.clone(),
    };
    // The process that serves the device has another working directory, so this process needs absolute paths.
    let whole = |path: Option<PathBuf>| path.map(std::path::absolute).transpose();
    Ok(Options {
        serve: ServeConfig {
            profile,
            capacity,
            seed: arguments.seed,
            written: ByteCount(arguments.written),
            dilate: arguments.dilate,
            image: whole(image)?,
            is_sparse: false,
            log: whole(log)?,
            faults: arguments.fault.clone(),
            front: Front::Fuse(PathBuf::new()),
        },
        nbd: arguments.nbd.clone(),
        through: arguments.through.map(|through| match through {
            arguments::Through::Loop => Through::Loop,
            arguments::Through::Ublk => Through::Ublk,
        }),
        filesystem: arguments.filesystem.or(cutting.then_some(Filesystem::Ext4)),
        confirmation,
        mount: arguments.mount.clone().or(cutting.then(PathBuf::new)),
        mount_options: arguments.mount_options.clone(),
        scheduler: arguments.scheduler.clone(),
        at_floor: false,
        state_dir,
    })
}

fn cut(
    arguments: &Emulate,
    count: u32,
    log: &Path,
    device: &Options,
    ledger: &mut Ledger,
    stopped: &dyn Fn() -> bool,
) -> Result<PowerCuts> {
    let log = Log::open(log)?;
    let roles = roles()?;
    let server = || device_server(&roles);
    let options = PowerCutOptions {
        count,
        seed: arguments.seed,
        tear: match arguments.tear {
            arguments::Tear::Page => Tear::Page,
            arguments::Tear::Sector => Tear::Sector,
        },
        filesystem: arguments.filesystem.unwrap_or(Filesystem::Ext4),
        check: arguments.check.clone().unwrap_or_default(),
        scratch: fonio_emulator::scratch(log.capacity.0),
        recovery: arguments.recovery.then_some(RecoveryDevice { options: device, server: &server }),
    };
    Ok(PowerCuts::run(ledger, &log, &options, stopped)?)
}

fn micros(nanos: Nanos) -> String {
    format!("{:.0} µs", nanos.0 as f64 / 1e3)
}

fn tell_floor(arguments: &Emulate, emulated: Emulated) -> Result<Exit> {
    let floor = emulated.floor().copied().unwrap_or_default();
    let through = emulated.through();
    emulated.stop()?;
    let mut out = output::screen();
    if arguments.json {
        writeln!(
            out,
            "{}",
            json!({ "floor": floor, "through": through, "ublk": fonio_emulator::has_ublk() })
        )?;
        return Ok(Exit::Fine);
    }
    writeln!(out, "Shortest latency that this machine can emulate at queue depth 1 (median):")?;
    for (what, nanos) in [
        ("4 KiB read", floor.read_4k_median_ns),
        ("4 KiB write", floor.write_4k_median_ns),
        ("512 KiB read", floor.read_512k_median_ns),
        ("512 KiB write", floor.write_512k_median_ns),
        ("flush", floor.flush_median_ns),
    ] {
        writeln!(out, "  {what:<14} {:>9}", micros(nanos))?;
    }
    writeln!(out, "99th percentile of 4 KiB reads: {}.", micros(floor.read_4k_p99_ns))?;
    let path = match through {
        Some(Through::Ublk) => "a ublk device",
        _ if fonio_emulator::has_ublk() => {
            "a loop device over FUSE; this kernel also has ublk, which is faster"
        }
        _ => "a loop device over FUSE; a kernel with ublk (`modprobe ublk_drv`) is faster",
    };
    writeln!(out, "The I/O path is {path}.")?;
    Ok(Exit::Fine)
}

/// Returns the stream for messages about the device: standard error if the workload uses standard output.
fn words(arguments: &Emulate) -> Box<dyn Write> {
    if arguments.json || arguments.workload.is_empty() {
        Box::new(output::screen())
    } else {
        Box::new(output::errors())
    }
}

fn tell_ready(arguments: &Emulate, options: &Options, emulated: &Emulated) -> Result<()> {
    let mut out = words(arguments);
    if arguments.json {
        let ready = json!({
            "profile": options.serve.profile,
            "device": emulated.device(),
            "through": emulated.through(),
            "nbd": options.nbd,
            "mount": emulated.mount_dir(),
            "bytes": options.serve.capacity,
            "depth": emulated.depth(),
            "limits": emulated.limits(),
            "floor": emulated.floor(),
            "taken_off": emulated.overheads(),
            "cpus_awake": emulated.cpus_awake(),
            "memory": emulated.memory(),
            "dilate": options.serve.dilate,
            "seed": options.serve.seed,
            "pid": std::process::id(),
            "server_pid": emulated.server_pid(),
        });
        writeln!(out, "{}", json!({ "ready": ready }))?;
        return Ok(out.flush()?);
    }
    // Arrays of several emulated devices have no description.
    let about = profile::load(&options.serve.profile)
        .map_or_else(|_| options.serve.profile.clone(), |profile| profile.about().to_owned());
    let place = match (emulated.device(), &options.nbd) {
        (Some(device), _) => device.display().to_string(),
        (None, Some(socket)) => format!("nbd+unix:///?socket={}", socket.display()),
        (None, None) => String::new(),
    };
    writeln!(out, "{place}: {about}")?;
    let limits = emulated.limits();
    let yes = |yes| if yes { "yes" } else { "no" };
    writeln!(
        out,
        "  {} bytes; queue depth {}, commands of at most {} KiB; volatile cache: {}; seed {}",
        limits.capacity.0,
        emulated.depth(),
        limits.command_max.0 >> 10,
        yes(limits.volatile_cache),
        options.serve.seed,
    )?;
    if emulated.device().is_some() && emulated.depth() != limits.depth {
        writeln!(
            out,
            "  (a loop device has a queue depth between 4 and 128; the model serves {} and queues the rest)",
            limits.depth
        )?;
    }
    if let Some(overheads) = emulated.overheads() {
        writeln!(
            out,
            "  this machine adds {} to a 4 KiB read and {} to a write (slow requests: {} and {}); the \
             emulator subtracts this from the model's times",
            micros(overheads.short.read.at(4096)),
            micros(overheads.short.write.at(4096)),
            micros(overheads.long.read.at(4096)),
            micros(overheads.long.write.at(4096))
        )?;
    }
    let memory = emulated.memory();
    match &memory.not_locked {
        Some(why) => writeln!(out, "  the server's memory can be swapped out: {why}")?,
        None => writeln!(
            out,
            "  {} MiB of memory are locked{}",
            memory.locked_bytes.0 >> 20,
            if memory.is_sparse {
                "; the data take memory as they are written: put no swap on this device"
            } else {
                ""
            }
        )?,
    }
    if let Some(why) = &memory.may_wait {
        writeln!(
            out,
            "  if memory is short, the server may have to wait for write-back: {why} (needs CAP_SYS_RESOURCE)"
        )?;
    }
    if !emulated.cpus_awake() {
        writeln!(
            out,
            "  idle CPUs may sleep, which delays completions by their wake-up time; root can prevent this on kernels with \
             /dev/cpu_dma_latency"
        )?;
    }
    if options.serve.dilate > 1.0 {
        writeln!(
            out,
            "  the device runs {} times slower than the model (--dilate); divide measured times by this factor",
            options.serve.dilate
        )?;
    }
    if let Some(dir) = emulated.mount_dir() {
        writeln!(out, "  mounted on {}", dir.display())?;
    }
    match (arguments.workload.is_empty(), emulated.device(), &options.nbd) {
        (false, ..) => {}
        (true, Some(device), _) if emulated.mount_dir().is_none() => {
            writeln!(out, "Use it:  mkfs.ext4 {0} && mount {0} /mnt", device.display())?;
        }
        (true, None, Some(_)) => {
            writeln!(out, "Use it:  qemu-system-… -drive file={place},format=raw,if=virtio")?
        }
        _ => {}
    }
    if arguments.workload.is_empty() {
        writeln!(out, "Stop it: Ctrl-C, or kill {}", std::process::id())?;
    }
    Ok(out.flush()?)
}

fn tell_end(
    arguments: &Emulate,
    report: &ServeReport,
    served: Duration,
    end: Option<WorkloadEnd>,
    cuts: Option<&PowerCuts>,
) -> Result<()> {
    let mut out = words(arguments);
    let exit_code = match end {
        Some(WorkloadEnd::Exited(status)) => status.code(),
        _ => None,
    };
    if arguments.json {
        let end = json!({
            "served_s": served.as_secs_f64(),
            "report": report,
            "workload_exit_code": exit_code,
            "power_cuts": cuts,
        });
        writeln!(out, "{}", json!({ "end": end }))?;
        return Ok(());
    }
    if let Some(why) = &report.image_error {
        writeln!(out, "Commands failed because the device's data could not be read or written: {why}.")?;
    }
    let cpu_s = report.cpu_ns.as_secs_f64();
    let late = &report.lateness;
    writeln!(
        out,
        "Served {} commands in {:.1} s: {} bytes written, {} bytes read, {} injected errors.",
        late.commands,
        served.as_secs_f64(),
        report.host_written.0,
        report.host_read.0,
        report.failed
    )?;
    if report.host_written.0 > 0 {
        let amplification = report.programmed.0 as f64 / report.host_written.0 as f64;
        writeln!(out, "Write amplification: {amplification:.2}, with {} erases.", report.erases)?;
    }
    writeln!(
        out,
        "On average, commands completed {} later than in the model (99th percentile {}). Serving used \
         {cpu_s:.2} s of processor time.",
        micros(late.mean_ns),
        micros(late.p99_ns)
    )?;
    if let Some(code) = exit_code.filter(|code| *code != 0) {
        writeln!(out, "The workload failed with exit code {code}.")?;
    }
    let Some(cuts) = cuts else { return Ok(()) };
    writeln!(out, "Power cuts survived: {} of {} (seed {}).", cuts.survived, cuts.cuts, cuts.seed)?;
    let mut recovery_s = cuts.recovery_s.clone();
    recovery_s.sort_by(f64::total_cmp);
    if let (Some(shortest), Some(longest)) = (recovery_s.first(), recovery_s.last()) {
        let median = median(&recovery_s).unwrap_or(*longest);
        writeln!(
            out,
            "Mounting after a power cut took {:.0} ms (median; {:.0} to {:.0} ms).",
            median * 1e3,
            shortest * 1e3,
            longest * 1e3
        )?;
    }
    for failure in &cuts.failures {
        let what = match (failure.mounted, failure.exit_code) {
            (false, _) => "not mountable".to_owned(),
            (true, Some(code)) => format!("check exited with {code}"),
            (true, None) => "check was killed".to_owned(),
        };
        let said = failure.said.lines().next().unwrap_or_default();
        writeln!(out, "  cut after record {}, seed {}: {what}: {said}", failure.cut.at, failure.cut.seed)?;
    }
    Ok(())
}
