//! Expands the setups of a command line: each target with each file system and scheduler.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use fonio_core::ByteCount;
use fonio_emulator::Fault;
use fonio_experiment::{Combination, Matrix, MdRaid0, Setup, Storage, calibrate, processor_limit};
use fonio_host::{Confirmation, Limits};
use fonio_processor::Calibration;
use fonio_system::say;

use crate::cli::run::{Cpu, SetupArgs};
use crate::commands::bench_target::check_profile;
use crate::roles::roles;

/// Returns every combination of target, file system and scheduler, with the name of the combination.
pub fn setups(arguments: &SetupArgs) -> Result<Vec<(String, Setup)>> {
    let mut setups = checked(arguments)?;
    // Measure the processor last, because this takes seconds.
    let (limits, processor) = limits(arguments)?;
    for (_, setup) in &mut setups {
        setup.limits = limits;
        setup.processor.clone_from(&processor);
    }
    Ok(setups)
}

/// Returns the combinations without limits of the processor and the memory. Fails if a target cannot be used.
pub fn checked(arguments: &SetupArgs) -> Result<Vec<(String, Setup)>> {
    let places = arguments.places();
    let matrix =
        Matrix { places: &places, filesystems: &arguments.filesystem, schedulers: &arguments.scheduler };
    let combinations = matrix.combinations()?.into_iter();
    combinations.map(|of| Ok((of.name.clone(), setup(&of, arguments)?))).collect()
}

/// Returns the limits of the workload or command. If the user named the processor of another machine, measures
/// this machine's processor for a few seconds.
pub fn limits(arguments: &SetupArgs) -> Result<(Limits, Option<Calibration>)> {
    let memory = arguments.memory.map(ByteCount);
    Ok(match &arguments.cpu {
        None => (Limits { cpu: None, memory }, None),
        Some(Cpu::Share(share)) => (Limits { cpu: Some((*share).into()), memory }, None),
        Some(Cpu::Named(processor)) => {
            say!("Comparing this machine's processor with {} …", processor.name);
            let calibration = calibrate(processor, &roles()?)?;
            (Limits { cpu: Some(processor_limit(&calibration)?), memory }, Some(calibration))
        }
    })
}

fn setup(of: &Combination<'_>, arguments: &SetupArgs) -> Result<Setup> {
    let place = of.place;
    let path = Path::new(place);
    let kind = fs::metadata(path).ok().map(|metadata| metadata.file_type());
    let storage = match kind {
        Some(kind) if kind.is_dir() => Storage::Directory(path.to_owned()),
        Some(kind) if kind.is_block_device() => {
            let twice = arguments.erase.as_deref() == Some(path);
            let confirmation = if twice { Confirmation::NamedTwice } else { Confirmation::NamedOnce };
            // Check the device before the first run, because each run leaves its file system on the device.
            fonio_host::check_empty(path, confirmation)?;
            Storage::Device { path: path.to_owned(), confirmation: Confirmation::NamedTwice }
        }
        // Report an invalid profile before any work begins.
        _ => match MdRaid0::parse(place).transpose()? {
            Some(array) => {
                for (profile, size) in array.sized(ByteCount(arguments.size)) {
                    fonio_emulator::profile::device(profile, size, arguments.seed)
                        .with_context(|| format!("{place} cannot be made"))?;
                }
                Storage::MdRaid0(array)
            }
            None => {
                check_profile(place, ByteCount(arguments.size), arguments.seed)?;
                Storage::Profile(place.to_owned())
            }
        },
    };
    for text in &arguments.fault {
        text.parse::<Fault>()?;
    }
    let emulated = matches!(storage, Storage::Profile(_) | Storage::MdRaid0(_));
    ensure!(
        emulated || (arguments.fault.is_empty() && arguments.dilate == 1.0),
        "--fault and --dilate need an emulated device; {place} is real"
    );
    let in_folder = matches!(storage, Storage::Directory(_));
    let chosen = !arguments.mount_options.is_empty()
        || of.filesystem.is_some()
        || of.scheduler.is_some()
        || arguments.full.is_some();
    if in_folder && chosen {
        bail!(
            "a directory keeps its file system and device; --fs, --mount-options, --scheduler and --full need a device or a profile"
        );
    }
    let plain = Setup::on(storage);
    Ok(Setup {
        size: ByteCount(arguments.size),
        faults: arguments.fault.clone(),
        filesystem: of.filesystem.unwrap_or(plain.filesystem),
        mount_options: arguments.mount_options.clone(),
        scheduler: of.scheduler.map(str::to_owned),
        link: arguments.link,
        dilate: arguments.dilate,
        full: arguments.full,
        ..plain
    })
}
