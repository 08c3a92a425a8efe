//! What can be said to `fonio device emulate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use fonio_core::quantity::parse_bytes;

/// `fonio device emulate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Faults: error:op=write,range=1M-2M,probability=0.01  delay:op=read,add=50ms,probability=0.1\n\
    vanish:after=10s  vanish:commands=1000  flip:range=0-64M,probability=0.001\n\n\
    Power cuts: fonio device emulate kingston --power-cuts 100 --check 'sqlite3 $FONIO_MOUNT/db \"PRAGMA \
    integrity_check\" | grep -qx ok' -- ./workload.sh\n\n\
    Exit codes: 0 fine, 1 a power cut was not survived, 2 usage or an error, 3 the workload failed."
)]
pub struct Emulate {
    /// The device: a shipped profile (`fonio device list`) or a profile's file.
    #[arg(required_unless_present = "floor")]
    pub profile: Option<String>,
    /// The device's size, such as 2GiB.
    #[arg(long, value_parser = parse_bytes, default_value = "2GiB")]
    pub size: u64,
    /// Begin with a device on which this much was written in order, such as 1GiB: one in use has no unwritten part.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "0B")]
    pub written: u64,
    /// Keep the data in this file, which may exist and have just this size; else they are in memory and go with the
    /// device. Give it twice to let --fs overwrite what it holds.
    #[arg(long, value_name = "FILE")]
    pub image: Vec<PathBuf>,
    /// Serve a virtual machine through NBD on this Unix socket, instead of making a block device; needs no root.
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["filesystem", "mount", "power_cuts", "floor"])]
    pub nbd: Option<PathBuf>,
    /// Make this file system on it: ext4, ext3, xfs, btrfs.
    #[arg(long = "fs", value_name = "NAME")]
    pub filesystem: Option<fonio_host::Filesystem>,
    /// Mount it on this folder. Without a folder, on one of its own.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "", value_parser = any_path)]
    pub mount: Option<PathBuf>,
    /// Mount options, separated by commas.
    #[arg(long, value_name = "OPTIONS", default_value = "", hide_default_value = true)]
    pub mount_options: String,
    /// The block device's scheduler.
    #[arg(long, value_name = "NAME", default_value = "mq-deadline")]
    pub scheduler: String,
    /// Let this many seconds pass for one of the device's, where this machine is too slow for it.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_dilation)]
    pub dilate: f64,
    /// A fault; can be given several times.
    #[arg(long, value_name = "KIND:SETTINGS")]
    pub fault: Vec<String>,
    /// Log every write and flush with its data.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// After the workload, cut the power at this many random moments of it, and check each time what is left.
    #[arg(long, value_name = "COUNT", requires_all = ["check", "workload"], conflicts_with = "image")]
    pub power_cuts: Option<u32>,
    /// A shell command that looks at the file system in $FONIO_MOUNT (the image is $FONIO_IMAGE) and exits with 0
    /// where it is as it should be.
    #[arg(long, value_name = "COMMAND", requires = "power_cuts")]
    pub check: Option<String>,
    /// Into which units unflushed writes tear.
    #[arg(long, value_enum, default_value_t = Tear::Page, requires = "power_cuts")]
    pub tear: Tear,
    /// For everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// JSON on standard output: a line when the device is ready and one at the end; docs/emulator.md describes them.
    #[arg(long)]
    pub json: bool,
    /// Only measure the least time in which this machine can answer, and say it.
    #[arg(long)]
    pub floor: bool,
    /// Run this on the device and stop when it ends; it finds the mount in $FONIO_MOUNT and the device in
    /// $FONIO_DEVICE. Without it the device is there until Ctrl-C.
    #[arg(last = true, value_name = "WORKLOAD")]
    pub workload: Vec<String>,
}

/// The units of `--tear`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tear {
    /// 4 KiB.
    Page,
    /// 512 bytes.
    Sector,
}

/// Also the empty one, which stands for a folder of its own.
fn any_path(text: &str) -> Result<PathBuf, String> {
    Ok(text.into())
}

fn parse_dilation(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 1.0);
    factor.ok_or_else(|| "a dilation is a number that is at least 1".to_owned())
}
