//! Determines the target of a benchmark: a directory, a block device, or an emulated device that exists only
//! for the benchmark.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use fonio_core::ByteCount;
use fonio_emulator::{Emulated, EmulatorError, Options, ServeConfig, profile};
use fonio_host::{Confirmation, Filesystem, Ledger};
use fonio_sim::profile::SHIPPED;

use crate::cli::EmulatedTarget;
use crate::roles::{device_server, roles};

/// The target of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    Real(&'a Path),
    Profile(&'a str),
}

impl<'a> Subject<'a> {
    /// Determines which kind of target `target` names, before any work begins.
    pub fn of(target: &'a Path, wanted: &EmulatedTarget) -> Result<Subject<'a>> {
        if is_real(target) {
            return Ok(Subject::Real(target));
        }
        let Some(name) = target.to_str() else {
            bail!("{} is neither a directory nor a block device", target.display());
        };
        check_profile(name, ByteCount(wanted.size), 0)?;
        Ok(Subject::Profile(name))
    }
}

/// Checks that `name`, which is neither a directory nor a block device, is a device that can be emulated.
pub fn check_profile(name: &str, capacity: ByteCount, seed: u64) -> Result<()> {
    let Err(error) = profile::device(name, capacity, seed) else { return Ok(()) };
    let reason = match error {
        EmulatorError::Profile { profile, .. } if profile == name && !Path::new(name).exists() => {
            let nearest = fonio_core::nearest(name, SHIPPED.iter().map(|(name, _)| *name));
            format!("no device profile has this name{nearest} (`fonio device list` lists them)")
        }
        EmulatorError::Profile { profile, reason } if profile == name => {
            format!("it is not a device profile: {reason}")
        }
        other => other.to_string(),
    };
    bail!("{name} is neither a directory nor a block device; {reason}")
}

/// Returns whether `place` is a path or device of this machine, which a guest does not have.
pub fn is_real(place: &Path) -> bool {
    let kind = fs::metadata(place).ok().map(|metadata| metadata.file_type());
    place.starts_with("/dev") || kind.is_some_and(|kind| kind.is_dir() || kind.is_block_device())
}

/// Starts a new, empty emulated device, and mounts its file system if it has one.
pub fn start(
    profile: &str,
    wanted: &EmulatedTarget,
    seed: u64,
    filesystem: Option<Filesystem>,
) -> Result<Emulated> {
    if let Some(filesystem) = filesystem {
        filesystem.check_kernel()?;
    }
    fonio_host::check_scheduler(&wanted.scheduler)?;
    // Nobody else uses the device, and a large one may have more bytes than the machine has memory.
    let serve = ServeConfig { is_sparse: true, ..ServeConfig::of(profile, ByteCount(wanted.size), seed) };
    let options = Options {
        filesystem,
        confirmation: Confirmation::NamedTwice,
        mount: filesystem.map(|_| PathBuf::new()),
        scheduler: wanted.scheduler.clone(),
        ..Options::of(serve, Ledger::default_dir())
    };
    Ok(Emulated::start(&options, device_server(&roles()?))?)
}

/// Returns the path of an emulated device's block device.
pub fn node(emulated: &Emulated) -> Result<PathBuf> {
    match emulated.device() {
        Some(device) => Ok(device.to_owned()),
        None => bail!("the emulated device has no block device"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_of_this_machine_or_a_profile() {
        let wanted = EmulatedTarget { size: 64 << 20, scheduler: "none".to_owned(), guest: None };
        let of = |target: &'static str| Subject::of(Path::new(target), &wanted);
        assert_eq!(of("/tmp").expect("it is there"), Subject::Real(Path::new("/tmp")));
        // Opening a missing device reports why it cannot be measured.
        assert_eq!(of("/dev/no-such").expect("it is named"), Subject::Real(Path::new("/dev/no-such")));
        for profile in ["ridata", "raid0:ridata+kingston"] {
            assert_eq!(of(profile).expect("it is shipped"), Subject::Profile(profile));
        }
        let refused = format!("{:#}", of("no-such-card").expect_err("there is none"));
        assert_eq!(
            refused,
            "no-such-card is neither a directory nor a block device; no device profile has this name (`fonio device list` \
             lists them)"
        );
    }
}
