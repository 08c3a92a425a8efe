//! The command line of `fonio device emulate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use fonio_core::quantity::parse_bytes;

/// `fonio device emulate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Faults: error:op=write,range=1M-2M,probability=0.01  delay:op=read,add=50ms,probability=0.1\n\
    vanish:after=10s  vanish:commands=1000  flip:range=0-64M,probability=0.001\n\n\
    Power cuts:\n  fonio device emulate kingston --power-cuts 100 --check 'sqlite3 $FONIO_MOUNT/db \"PRAGMA \
    integrity_check\" | grep -qx ok' -- ./workload.sh"
)]
pub struct Emulate {
    /// The profile: a name from `fonio device list`, or a TOML file.
    #[arg(required_unless_present = "floor")]
    pub profile: Option<String>,
    /// Work in this place, not on this machine.
    ///
    /// PLACE is a guest with one of Debian's kernels (`fonio lab list`): lab:6.12, lab:newest.
    /// Both the device and the command run in the guest.
    #[arg(long = "in", value_name = "PLACE")]
    pub guest: Option<fonio_lab::Wanted>,
    /// Make the emulated device this large.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "2GiB")]
    pub size: u64,
    /// Write this much of the device sequentially before it starts, such as 1GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "0B")]
    pub written: u64,
    /// Keep the data in this file; an existing file must have the size of the device.
    ///
    /// By default, the data are in memory and are lost at the end.
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// Overwrite this device and destroy its data.
    ///
    /// To let --fs overwrite the file of --image, repeat the file's path here.
    #[arg(long, value_name = "DEVICE", requires = "image")]
    pub erase: Option<PathBuf>,
    /// Serve the device through NBD on this Unix socket, for a virtual machine; needs no root.
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["filesystem", "mount", "power_cuts", "floor"])]
    pub nbd: Option<PathBuf>,
    /// Use this driver for the block device.
    ///
    /// Default: ublk if the kernel has it, otherwise loop. ublk has the profile's queue depth and FUA; a loop
    /// device has a queue depth of at least 4.
    #[arg(long, value_enum, value_name = "DRIVER", conflicts_with = "nbd")]
    pub through: Option<Through>,
    /// Make this file system on the device: ext4, ext3, xfs, btrfs, f2fs, nilfs2 or vfat.
    #[arg(long = "fs", value_name = "NAME")]
    pub filesystem: Option<fonio_host::Filesystem>,
    /// Mount the file system on this directory, or on a temporary directory if DIR is omitted.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "", value_parser = any_path)]
    pub mount: Option<PathBuf>,
    /// Mount with these options, separated by commas.
    #[arg(long, value_name = "OPTIONS", default_value = "", hide_default_value = true)]
    pub mount_options: String,
    /// Use this I/O scheduler.
    #[arg(long, value_name = "NAME", default_value = "mq-deadline")]
    pub scheduler: String,
    /// Slow the emulated device down by this factor, if this machine is too slow to emulate it in real time.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_dilation)]
    pub dilate: f64,
    /// Inject a fault into the emulated device, such as vanish:after=10s. Repeatable.
    ///
    /// The faults are listed below.
    #[arg(long, value_name = "KIND:SETTINGS")]
    pub fault: Vec<String>,
    /// Log every write and flush to this file, with the data.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Simulate this many power cuts at random moments of the workload, and run --check after each.
    #[arg(long, value_name = "COUNT", requires_all = ["check", "workload"], conflicts_with = "image")]
    pub power_cuts: Option<u32>,
    /// Run this shell command after each power cut.
    ///
    /// The command must exit with 0 if the file system in $FONIO_MOUNT (image: $FONIO_IMAGE) is intact.
    #[arg(long, value_name = "COMMAND", requires = "power_cuts")]
    pub check: Option<String>,
    /// Mount the file system after each power cut on a device with the model's timing, and report how long
    /// mounting takes.
    #[arg(long, requires = "power_cuts")]
    pub recovery: bool,
    /// Tear unflushed writes at this unit in a power cut.
    #[arg(long, value_enum, default_value_t = Tear::Page, requires = "power_cuts")]
    pub tear: Tear,
    /// Draw all random choices from this seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON.
    ///
    /// Prints one line when the device is ready and one line at the end; docs/emulator.md describes these
    /// lines.
    #[arg(long)]
    pub json: bool,
    /// Measure the shortest latency that this machine can emulate, then exit.
    #[arg(long)]
    pub floor: bool,
    /// Run this command, then remove the device. $FONIO_MOUNT is the mount point, and $FONIO_DEVICE is the
    /// device. Default: keep the device until Ctrl-C.
    #[arg(last = true, value_name = "CMD")]
    pub workload: Vec<String>,
}

/// The drivers of `--through`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Through {
    /// A loop device on a file of a FUSE file system.
    Loop,
    /// A ublk device (`modprobe ublk_drv`, Linux 6.5 or later).
    Ublk,
}

/// The units of `--tear`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tear {
    /// 4 KiB.
    Page,
    /// 512 bytes.
    Sector,
}

/// Accepts the empty path, which means a temporary directory.
fn any_path(text: &str) -> Result<PathBuf, String> {
    Ok(text.into())
}

pub(super) fn parse_dilation(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 1.0);
    factor.ok_or_else(|| "write a number of at least 1".to_owned())
}
