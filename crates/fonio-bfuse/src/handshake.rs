//! Negotiates the FUSE features of a mount with the kernel.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock, statfs};

use crate::error::MountError;
use crate::kernel;
use crate::modes::{ChosenMode, Offers, XATTR_BYTES_MAX};
use crate::options::{IoUring, Options};
use crate::protocol::{HEADER_IN, HEADER_OUT, MAJOR, MINOR, Opcode, Record, Request, init};
use crate::session::queues;

/// The first minor version of the protocol with all records that the daemon writes.
const MINOR_MIN: u32 = 23;
/// Features requested in all modes, if the kernel offers them. `FUSE_ASYNC_DIO` is excluded: with this flag,
/// the kernel does not invalidate pages that are read during a direct write, and readers would keep seeing
/// old data.
const ALWAYS: u64 = init::ASYNC_READ
    | init::ATOMIC_O_TRUNC
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::PARALLEL_DIROPS
    | init::MAX_PAGES
    | init::HANDLE_KILLPRIV_V2
    | init::SETXATTR_EXT
    | init::INIT_EXT
    | init::CREATE_SUPP_GROUP;
/// Maximum number of background requests (write-back, readahead) in flight. The kernel's default of 12
/// starves the write-back of large files.
const BACKGROUND_MAX: u16 = 64;
const PAGE_BYTES: u32 = 4096;
/// Stacked file systems: `OVERLAYFS_SUPER_MAGIC`, `FUSE_SUPER_MAGIC`, `ECRYPTFS_SUPER_MAGIC`.
const STACKED: [u64; 3] = [0x794c_7630, 0x6573_5546, 0xf15f];

const NO_RINGS: &str = "requests through io_uring need Linux 6.14, the parameter fuse.enable_uring (root's mounts enable it), \
     io_uring itself, and io_unit above 64K; use io_uring=auto";

pub(crate) struct Agreed {
    pub(crate) chosen: ChosenMode,
    pub(crate) over_ring: bool,
    /// Minor version of the kernel's protocol; the major version is 7.
    pub(crate) minor: u32,
}

/// Waits for the kernel's `FUSE_INIT`, chooses the features, and replies.
pub(crate) fn shake_hands(
    device: &OwnedFd,
    source: &OwnedFd,
    dir: &Path,
    options: &Options,
) -> Result<Agreed, MountError> {
    let lost = |errno: rustix::io::Errno| MountError::system("negotiate with the kernel about", dir)(errno);
    let mut bytes = vec![0; 1 << 16];
    let length = rustix::io::read(device, &mut bytes).map_err(lost)?;
    let malformed = |_| lost(rustix::io::Errno::PROTO);
    let request = Request::split(bytes.get(..length).unwrap_or(&[])).map_err(malformed)?;
    assert!(request.opcode == Opcode::Init, "a connection begins with FUSE_INIT");
    let mut fields = request.payload_fields();
    let mut next = || fields.u32();
    let (major, minor) = (next().map_err(malformed)?, next().map_err(malformed)?);
    if major != MAJOR || minor < MINOR_MIN {
        return Err(MountError::Protocol { major, minor });
    }
    let (readahead, flags) = (next().map_err(malformed)?, next().map_err(malformed)?);
    let flags2 = if u64::from(flags) & init::INIT_EXT != 0 { next().map_err(malformed)? } else { 0 };
    let offered = u64::from(flags) | u64::from(flags2) << 32;

    let below = statfs_type(source).map_err(lost)?;
    let offers = Offers {
        passthrough: offered & init::PASSTHROUGH != 0 && rustix::process::geteuid().is_root(),
        source_is_stacked: STACKED.contains(&below),
    };
    let chosen = options.mode.choose(options.io_bytes, offers).and_then(|chosen| {
        let has_rings = offered & init::OVER_IO_URING != 0 && takes_rings(options, &chosen);
        if options.io_uring == IoUring::Yes && !has_rings { Err(NO_RINGS) } else { Ok(chosen) }
    });
    let mut answer = [0; HEADER_OUT + 64];
    let chosen = match chosen {
        Ok(chosen) => chosen,
        Err(reason) => {
            let header = &mut answer[..HEADER_OUT];
            Record::new(header).u32(16).u32((-libc::ENOSYS).cast_unsigned()).u64(request.header.unique);
            rustix::io::write(device, header).map_err(lost)?;
            return Err(MountError::Mode { reason });
        }
    };
    let mut wanted = ALWAYS;
    if options.has_kernel_checks() {
        // With this flag, the kernel checks permissions, also by ACLs. So after each change of a directory, it asks for
        // the directory's attributes again.
        wanted |= init::POSIX_ACL;
    }
    if chosen.writeback() {
        wanted |= init::WRITEBACK_CACHE;
    } else {
        wanted |= init::AUTO_INVAL_DATA;
    }
    if chosen.passthrough {
        wanted |= init::PASSTHROUGH;
    }
    if takes_rings(options, &chosen) {
        wanted |= init::OVER_IO_URING;
    }
    let agreed = wanted & offered;
    let halves = [agreed as u32, (agreed >> 32) as u32];
    let length = answer.len() as u32;
    let mut record = Record::new(&mut answer);
    record.u32(length).u32(0).u64(request.header.unique);
    record.u32(MAJOR).u32(MINOR).u32(readahead).u32(halves[0]);
    record.u16(BACKGROUND_MAX).u16(BACKGROUND_MAX / 4 * 3).u32(chosen.io_bytes).u32(1);
    record.u16((chosen.io_bytes / PAGE_BYTES) as u16).u16(0).u32(halves[1]);
    // The source files must not be on a stacked file system.
    record.u32(u32::from(chosen.passthrough)).zeros(24);
    assert!(record.length() == HEADER_OUT + 64 && HEADER_IN == 40, "struct fuse_init_out has 64 bytes");
    rustix::io::write(device, &answer).map_err(lost)?;
    Ok(Agreed { chosen, over_ring: agreed & init::OVER_IO_URING != 0, minor })
}

/// The kernel parameter that enables io_uring for new connections.
const ALLOWS_RINGS: &str = "/sys/module/fuse/parameters/enable_uring";

/// Maximum time for which a mount operation waits for other mount operations in progress.
const OTHERS_MAX: Duration = Duration::from_secs(2);

/// Enables io_uring for new connections until this value is dropped. Existing connections that use io_uring
/// continue to do so.
pub(crate) struct RingsAllowed {
    /// The kernel parameter's file, locked against changes by other mounts.
    setting: Option<File>,
    was_allowed: bool,
}

impl RingsAllowed {
    /// Sets the kernel parameter, if this process has the permission.
    pub(crate) fn now() -> Self {
        // Older kernels do not have the parameter, and only root may change it.
        let setting = OpenOptions::new().read(true).write(true).open(ALLOWS_RINGS).ok();
        let Some(mut file) = setting else { return Self { setting: None, was_allowed: false } };
        let started = Instant::now();
        // Any process can lock the file, so the wait is limited.
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
            && started.elapsed() < OTHERS_MAX
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut text = String::new();
        let was_allowed = file.read_to_string(&mut text).is_ok() && text.trim() == "Y";
        if !was_allowed {
            // If the parameter cannot be set, requests come through `/dev/fuse`.
            let _ = file.write_at(b"Y", 0);
        }
        Self { setting: Some(file), was_allowed }
    }
}

impl Drop for RingsAllowed {
    fn drop(&mut self) {
        if let Some(setting) = self.setting.as_ref().filter(|_| !self.was_allowed) {
            let _ = setting.write_at(b"N", 0);
        }
    }
}

/// Returns whether to use io_uring if the kernel offers it. The kernel copies at most the maximum write size
/// per request, and extended attributes must fit too.
fn takes_rings(options: &Options, chosen: &ChosenMode) -> bool {
    options.io_uring != IoUring::No
        && chosen.io_bytes as usize > XATTR_BYTES_MAX
        && kernel::has_rings()
        && queues().is_some()
}

fn statfs_type(source: impl AsFd) -> rustix::io::Result<u64> {
    // Open the source through /proc, because `statfs` does not accept an `O_PATH` descriptor. The width of
    // `f_type` depends on the processor.
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}/.", source.as_fd().as_raw_fd());
    statfs(path).map(|below| below.f_type as u64)
}
