//! Reads the time until the kernel writes back dirty pages.

use std::time::Duration;

use super::sysctl;
use crate::error::HostError;

/// The timing of the kernel's write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// The age at which a dirty page is written back (`vm.dirty_expire_centisecs`).
    pub expiry: Duration,
    /// The time between two wake-ups of the write-back threads (`vm.dirty_writeback_centisecs`).
    pub interval: Duration,
}

impl WriteBack {
    /// Reads the write-back timing of this machine.
    pub fn of_machine() -> Result<WriteBack, HostError> {
        let time = |name: &str| {
            let text = sysctl::read(name)?;
            let centiseconds: u64 = text.parse().map_err(|error| {
                let error = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
                HostError::system("understand", format!("/proc/sys/{}", name.replace('.', "/")))(error)
            })?;
            Ok::<Duration, HostError>(Duration::from_millis(10 * centiseconds))
        };
        Ok(WriteBack {
            expiry: time("vm.dirty_expire_centisecs")?,
            interval: time("vm.dirty_writeback_centisecs")?,
        })
    }

    /// Returns the maximum time for which a page stays dirty, if nothing forces its write-back earlier.
    pub fn longest(self) -> Duration {
        self.expiry + self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_has_these_times() {
        let times = WriteBack::of_machine().expect("procfs");
        assert!(times.longest() >= times.interval, "{times:?}");
    }
}
