//! The setting for swap in compressed memory: a zram device whose swap area has fonio's label.
//!
//! If fonio is killed between setting the device's size and writing the label, an unused zram device remains,
//! which uses no memory.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fonio_core::ByteCount;
use fonio_machine::{Machine, read_number};

use crate::program::run;
use crate::settings::folder::units::{Units, lines};
use crate::settings::kept::own::OwnFile;
use crate::settings::kind::*;

/// The values are the size of the swap area, and `none`.
pub(super) struct SwapInRam;

const FACTS: Facts = Facts {
    tag: "swap_in_ram",
    scope: Scope::Machine,
    title: "swap in compressed memory",
    of_machine: "/dev/zram",
    kept_in: "the unit `fonio-swap-in-ram.service`",
    cannot_switch: Some("each change reads back all swapped-out pages"),
    fixes: &[SettingFix {
        name: "swap-in-ram",
        changes: Group::Memory,
        does: "swaps to compressed memory (zram) first: half of the memory, or SIZE with swap-in-ram=SIZE",
        needs: "the kernel's module zram; to keep it, systemd",
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

impl Kind for SwapInRam {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        match text {
            None => Ok(Value::Size(default_size())),
            text => value::size(text, 0, 1 << 20),
        }
    }

    fn check(&self, _wanted: &Wanted<'_>, _on: &Object) -> Result<(), Refusal> {
        Ok(check()?)
    }

    fn current(&self, _on: &Object) -> Result<Option<String>, HostError> {
        let own = devices()?.into_iter().find(|device| device.is_ours && device.is_swap);
        Ok(Some(own.map_or(NONE.to_owned(), |device| device.size.to_exact_text())))
    }

    /// Creates the swap in memory with this size, or removes the swap.
    fn set(&self, _on: &Object, value: &str) -> Result<(), HostError> {
        for own in devices()?.iter().filter(|device| device.is_ours) {
            remove(own)?;
        }
        if value == NONE {
            return Ok(());
        }
        let size: ByteCount = value.parse().map_err(|_| HostError::NotSettable {
            setting: value.to_owned(),
            path: "/dev/zram".into(),
            reason: "the value is not a size".to_owned(),
        })?;
        if !Path::new("/sys/class/zram-control").exists() {
            run("modprobe", "kmod", &["zram"])?;
        }
        let before = devices()?;
        let node = find(size)?;
        let node = node.trim();
        let was_there = before.iter().any(|device| device.node() == Path::new(node));
        let label = if was_there { LABEL } else { LABEL_ADDED };
        let use_it = || {
            run("mkswap", "util-linux", &["--label", label, node])?;
            run("swapon", "mount", &["--priority", PRIORITY, node])
        };
        match use_it() {
            Ok(_) => Ok(()),
            Err(error) => {
                let name = node.trim_start_matches("/dev/").to_owned();
                remove(&Zram { name, is_ours: true, is_added: !was_there, is_swap: false, size })?;
                Err(error)
            }
        }
    }

    fn kept_as(&self, _on: &Object, value: &str, files: &KeptFiles) -> Result<KeptAs, Refusal> {
        files.check_systemd()?;
        Ok(KeptAs::Files(kept_files(&files.systemd, value)))
    }
}

/// The label of the swap area if the zram device already existed and was unused.
const LABEL: &str = "fonio-zram";
/// The label of the swap area if fonio added the zram device for this swap area. Such a device is removed
/// together with its swap area. A label has at most 15 bytes.
const LABEL_ADDED: &str = "fonio-zram-new";
/// The offset of the label in a swap area (`union swap_header` of linux/swap.h).
const LABEL_AT: u64 = 1052;
/// Priority of the swap area: above disk swap, whose default priority is negative.
const PRIORITY: &str = "100";
/// The value if fonio has no zram device.
const NONE: &str = "none";
/// The unit that creates the swap at each boot.
const UNIT: &str = "fonio-swap-in-ram.service";

/// Number of attempts to resize or reset a device that udev still reads, and the pause between them.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

struct Zram {
    name: String,
    is_ours: bool,
    /// Whether the zram device was added for fonio's swap area.
    is_added: bool,
    is_swap: bool,
    size: ByteCount,
}

impl Zram {
    fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    fn attribute(&self, name: &str) -> PathBuf {
        Path::new("/sys/block").join(&self.name).join(name)
    }
}

fn devices() -> Result<Vec<Zram>, HostError> {
    let swaps = Machine::here().swap_areas();
    let names = fs::read_dir("/sys/block").map_err(HostError::system("list", "/sys/block"))?.flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let device = |name: String| {
        let mut device = Zram { name, is_ours: false, is_added: false, is_swap: false, size: ByteCount(0) };
        device.size = ByteCount(read_number(&device.attribute("disksize")).unwrap_or(0));
        let label = if device.size.0 > 0 { label(&device.node()) } else { String::new() };
        device.is_added = label == LABEL_ADDED;
        device.is_ours = device.is_added || label == LABEL;
        device.is_swap = swaps.iter().any(|area| area.path == device.node());
        device
    };
    Ok(names.filter(|name| name.starts_with("zram")).map(device).collect())
}

/// Returns the label of a swap area; empty if the device has no label.
fn label(node: &Path) -> String {
    let mut label = [0; 16];
    let read = File::open(node).and_then(|file| file.read_exact_at(&mut label, LABEL_AT));
    let end = label.iter().position(|byte| *byte == 0).unwrap_or(label.len());
    if read.is_ok() { String::from_utf8_lossy(&label[..end]).into_owned() } else { String::new() }
}

/// Returns half of this machine's memory, rounded to MiB.
fn default_size() -> ByteCount {
    let total = Machine::here().host().memory_bytes.map_or(0, |total| total.0);
    ByteCount(((total / 2) >> 20).max(1) << 20)
}

fn check() -> Result<(), String> {
    let of_others = |device: &Zram| device.is_swap && !device.is_ours;
    if let Some(other) = devices().map_err(|error| error.to_string())?.iter().find(|device| of_others(device))
    {
        return Err(format!("swap is already in memory, on {}", other.node().display()));
    }
    let has = Path::new("/sys/class/zram-control").exists();
    if has || run("modprobe", "kmod", &["--dry-run", "--quiet", "zram"]).is_ok() {
        return Ok(());
    }
    Err("this kernel has no zram module".to_owned())
}

/// Creates a zram device of this size. Several attempts can be needed, because udev opens new devices and the
/// kernel cannot resize an open device.
fn find(size: ByteCount) -> Result<String, HostError> {
    for _ in 0..TRIES {
        match run("zramctl", "util-linux", &["--find", "--size", &size.0.to_string()]) {
            Err(HostError::ProgramFailed { output, .. }) if output.contains("busy") => {
                std::thread::sleep(PAUSE);
            }
            found => return found,
        }
    }
    run("zramctl", "util-linux", &["--find", "--size", &size.0.to_string()])
}

fn remove(own: &Zram) -> Result<(), HostError> {
    let node = own.node();
    if own.is_swap {
        run("swapoff", "mount", &[&node])?;
    }
    let reset = own.attribute("reset");
    for tries in 0.. {
        match fs::write(&reset, "1") {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && tries < TRIES => {
                std::thread::sleep(PAUSE);
            }
            outcome => {
                outcome.map_err(HostError::system("reset", &node))?;
                break;
            }
        }
    }
    if !own.is_added {
        return Ok(());
    }
    let number = own.name.trim_start_matches("zram");
    let control = "/sys/class/zram-control/hot_remove";
    fs::write(control, number).map_err(HostError::system("remove", &node))
}

/// Returns the unit files that create the swap area at each boot.
fn kept_files(systemd: &Path, value: &str) -> Vec<OwnFile> {
    let size = value.parse().map_or(0, |ByteCount(bytes)| bytes);
    // systemd expands `$`, so `$$` passes a single `$` to the shell.
    let script = format!(
        "modprobe zram && node=$$(zramctl --find --size {size}) && mkswap --label {LABEL} $$node && swapon --priority {PRIORITY} $$node"
    );
    let unit = lines(&[
        "[Unit]",
        "Description=Swap in compressed memory, by fonio",
        "DefaultDependencies=no",
        "After=systemd-modules-load.service",
        "Before=swap.target",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        &format!("ExecStart=/bin/sh -c '{script}'"),
    ]);
    Units::new(vec![(UNIT.to_owned(), unit)], "swap.target").kept_files(systemd)
}
