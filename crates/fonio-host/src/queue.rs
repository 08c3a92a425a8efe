//! Reads and sets properties of a block device's queue: scheduler, depth and maximum request size.

use std::fs;
use std::path::PathBuf;

use fonio_machine::{chosen, scheduler_names};

use crate::error::HostError;
use crate::kernel;

/// Minimum depth of a queue with a scheduler (`BLKDEV_MIN_RQ` of `include/linux/blkdev.h`). This minimum also
/// applies to loop devices.
pub(crate) const DEPTH_MIN: u32 = 4;

/// Maximum queue depth: the depth of the loop driver (`hw_queue_depth`).
pub(crate) const DEPTH_MAX: u32 = 128;

/// A block device's queue, as shown in sysfs. Used only for fonio's own devices, except for settings that a
/// user requests.
#[derive(Clone, Debug)]
pub struct Queue {
    device: String,
}

impl Queue {
    /// Returns the queue of the device `name`, such as `loop300`.
    pub fn of(name: &str) -> Queue {
        Queue { device: name.to_owned() }
    }

    pub(crate) fn path(&self, attribute: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/{}/queue/{attribute}", self.device))
    }

    pub(crate) fn read(&self, attribute: &str) -> Result<String, HostError> {
        let path = self.path(attribute);
        let text = fs::read_to_string(&path).map_err(HostError::system("read", path))?;
        Ok(text.trim().to_owned())
    }

    pub(crate) fn write(&self, attribute: &str, value: &str) -> Result<(), HostError> {
        let path = self.path(attribute);
        fs::write(&path, value).map_err(HostError::system("write", path))
    }

    /// Returns the queue's current scheduler and all available schedulers.
    pub fn schedulers(&self) -> Result<(String, Vec<String>), HostError> {
        let list = self.read("scheduler")?;
        Ok((chosen(&list).to_owned(), scheduler_names(&list).map(str::to_owned).collect()))
    }

    /// Sets the scheduler of the queue. Fails with [`HostError::NoScheduler`] or [`HostError::System`].
    pub fn set_scheduler(&self, name: &str) -> Result<(), HostError> {
        let has = |offered: &[String]| offered.iter().any(|offered| offered == name);
        let mut offered = self.schedulers()?.1;
        if !has(&offered) {
            kernel::load_scheduler(name);
            offered = self.schedulers()?.1;
        }
        if !has(&offered) {
            let device = self.device.clone();
            return Err(HostError::NoScheduler { device, wanted: name.to_owned(), offered });
        }
        self.write("scheduler", name)
    }

    /// Sets the queue depth of the driver, and the scheduler.
    ///
    /// Without a scheduler, `nr_requests` sets the depth of the driver. With a scheduler, `nr_requests` sets
    /// the maximum number of requests in the scheduler. Therefore, the scheduler is removed before the depth
    /// is set. Fails with [`HostError::Depth`] for a depth outside 4 to 128, or with the errors of
    /// [`Queue::set_scheduler`].
    pub fn set_depth(&self, depth: u32, scheduler: &str) -> Result<(), HostError> {
        if !(DEPTH_MIN..=DEPTH_MAX).contains(&depth) {
            let device = self.device.clone();
            return Err(HostError::Depth { device, wanted: depth, min: DEPTH_MIN, max: DEPTH_MAX });
        }
        self.set_scheduler("none")?;
        self.write("nr_requests", &depth.to_string())?;
        self.set_scheduler(scheduler)
    }

    /// Sets the maximum request size in KiB, capped by the driver's limit, and returns the resulting size.
    pub fn set_request_max_kib(&self, kib: u64) -> Result<u64, HostError> {
        let most = self.read("max_hw_sectors_kb")?.parse().unwrap_or(kib);
        let least = 4;
        let kib = kib.min(most).max(least);
        self.write("max_sectors_kb", &kib.to_string())?;
        Ok(kib)
    }

    /// Declares the write cache volatile or non-volatile. For a non-volatile cache, the kernel sends no
    /// flushes.
    pub fn set_volatile_cache(&self, volatile: bool) -> Result<(), HostError> {
        self.write("write_cache", if volatile { "write back" } else { "write through" })
    }

    /// Sets the maximum discard size in bytes; zero disables discards.
    pub fn set_discard_max(&self, bytes: u64) -> Result<(), HostError> {
        self.write("discard_max_bytes", &bytes.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_depth_that_the_loop_driver_cannot_have_is_refused() {
        let error = Queue::of("loop9").set_depth(1, "none").expect_err("too shallow");
        assert_eq!(error.to_string(), "loop9 cannot have a depth of 1: loop devices allow 4 to 128");
    }
}
