//! Keeps the CPUs from sleeping while a device is served.
//!
//! A sleeping CPU handles an interrupt late, especially in a virtual machine, because the host has given the
//! CPU to other tasks. Each command wakes several CPUs in sequence; together, these wake-ups take as long as
//! a read from a phone's flash. The kernel's power management lets a process request short wake-up times
//! while the process holds a file open. With such a request, the CPUs still count as idle, and waiting for
//! I/O still counts as iowait.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// The file of the kernel's PM QoS interface for CPU wake-up latency.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// A request for short wake-up times. While the request exists, idle CPUs poll if the kernel supports this.
#[derive(Debug)]
pub(crate) struct Awake {
    _request: File,
}

impl Awake {
    /// Requests wake-up times of 0 µs, which needs root.
    pub(crate) fn ask() -> io::Result<Awake> {
        Awake::ask_at(Path::new(LATENCY))
    }

    fn ask_at(path: &Path) -> io::Result<Awake> {
        let mut request = OpenOptions::new().write(true).open(path)?;
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Awake { _request: request })
    }
}

#[cfg(test)]
mod tests {
    use fonio_testing::skip_without;

    use super::*;

    #[test]
    fn the_request_holds_until_it_is_dropped() {
        skip_without!(Root, WakeUp);
        let wanted = || {
            let bytes = std::fs::read(LATENCY).expect("it can be read");
            i32::from_ne_bytes(bytes[..4].try_into().expect("it gives a number"))
        };
        // Other processes may have requested short wake-up times too. The kernel drops a request when the
        // last descriptor of its file is closed.
        let requests = || {
            let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc is there").flatten();
            descriptors
                .filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == Path::new(LATENCY)))
                .count()
        };
        let awake = Awake::ask().expect("root may");
        assert_eq!((wanted(), requests()), (0, 1));
        drop(awake);
        assert_eq!(requests(), 0);
    }
}
