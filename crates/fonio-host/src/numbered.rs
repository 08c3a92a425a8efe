//! Adds devices with numbers from fonio's own range: loop devices, ublk devices and md arrays.

use std::path::PathBuf;

use rustix::io::Errno;

use crate::error::HostError;
use crate::ledger::{Entry, Ledger, Step};

/// The first number of fonio's devices. `losetup` and `mdadm` take the lowest free number, so they never
/// reach this number on ordinary machines.
const FIRST: u32 = 700;
const LAST: u32 = 1699;

/// Returns whether a number is one of fonio's own.
pub(crate) fn is_own(number: u32) -> bool {
    (FIRST..=LAST).contains(&number)
}

/// Calls `add` with a free number: a number whose folder, given by `sysfs`, does not exist. Records the
/// device's `step` first. `through` is the path of the kernel file that `add` uses.
pub(crate) fn add(
    ledger: &mut Ledger,
    device: &'static str,
    through: &'static str,
    sysfs: fn(u32) -> PathBuf,
    step: impl Fn(u32) -> Step,
    mut add: impl FnMut(u32) -> Result<(), Errno>,
) -> Result<(u32, Entry), HostError> {
    for number in (FIRST..=LAST).filter(|number| !sysfs(*number).exists()) {
        let entry = ledger.begin(step(number))?;
        match add(number) {
            Ok(()) => return Ok((number, entry)),
            Err(error) => {
                ledger.end(entry)?;
                if error != Errno::EXIST {
                    return Err(HostError::system("add a device through", through)(error));
                }
            }
        }
    }
    Err(HostError::NoNumber { device, from: FIRST, to: LAST })
}
