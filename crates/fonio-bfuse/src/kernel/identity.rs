//! Sets the identity with which a thread executes operations on the source. In Linux, each thread has its own
//! user, group, capabilities and umask, but glibc changes these for the whole process. So this module calls
//! the kernel directly.

use std::io;

use super::process::checked;

/// Numbers of capabilities, from `include/uapi/linux/capability.h`.
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_FSETID: u32 = 4;
const CAP_SYS_RESOURCE: u32 = 24;
const CAP_MKNOD: u32 = 27;

/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The group of the parent directory, if it is a supplementary group of the caller.
    pub(crate) group: Option<u32>,
}

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`; the kernel uses two of these, for capabilities 0 to 31 and 32 to 63.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct CapabilityWords {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The identity of a thread that serves requests. The value must not be moved to another thread.
#[derive(Debug)]
pub(crate) struct Identity {
    /// Whether the thread can change its identity; a thread that cannot change its identity acts as the
    /// mounting user.
    is_root: bool,
    /// All permitted capabilities except `CAP_SYS_RESOURCE`: quotas must apply to the daemon's writes.
    capabilities: [CapabilityWords; 2],
    /// The effective capabilities; unknown after a change of the user, because this change also changes the
    /// capabilities.
    effective: Option<u32>,
    umask: u32,
}

impl Identity {
    /// Gives the calling thread an identity separate from other threads. Returns errors of the kernel, if the
    /// thread cannot have its own umask or drop a capability.
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        // SAFETY: no memory is passed; the thread gets its own umask and working directory.
        checked(unsafe { libc::unshare(libc::CLONE_FS) })?;
        // SAFETY: the call passes no memory.
        let umask = unsafe { libc::umask(0o022) };
        // SAFETY: the call passes no memory; it restores the previous umask.
        unsafe { libc::umask(umask) };
        let mut capabilities = [CapabilityWords::default(); 2];
        let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
        // SAFETY: the kernel reads the header and writes two sets of words, as in version 3.
        checked(unsafe { libc::syscall(libc::SYS_capget, &raw const header, capabilities.as_mut_ptr()) })?;
        let is_root = rustix::process::geteuid().is_root();
        let mut identity = Self { is_root, capabilities, effective: None, umask };
        if identity.is_root {
            // Start from the permitted set, because the parent thread may have reduced its effective set.
            for words in &mut identity.capabilities {
                words.effective = words.permitted;
            }
            identity.capabilities[0].effective &= !(1 << CAP_SYS_RESOURCE);
            identity.set_effective(identity.capabilities[0].effective)?;
        }
        Ok(identity)
    }

    /// Runs `work` as `caller` with the umask `umask`: new files belong to the caller, and the directory's
    /// default ACL applies. The source file system does not check permissions again: the kernel has already
    /// checked them, and the daemon does not know the caller's other groups and capabilities. Returns errors
    /// of `work`, and `EPERM` if the thread cannot take the identity.
    pub(crate) fn act_as<T>(
        &mut self,
        caller: Caller,
        umask: u32,
        work: impl FnOnce() -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        if umask != self.umask {
            // SAFETY: no memory is passed; the mask is this thread's own.
            unsafe { libc::umask(umask) };
            self.umask = umask;
        }
        if !self.is_root {
            return work();
        }
        if caller.uid == 0 && caller.gid == 0 {
            return work();
        }
        let groups: &[u32] = caller.group.as_slice();
        if !groups.is_empty() {
            set_groups(groups)?;
        }
        set_file_system_ids(caller.uid, caller.gid);
        let outcome = if caller.uid == 0 {
            work()
        } else {
            self.effective = None;
            let keeps = self.capabilities[0].effective
                & !(1 << CAP_FSETID)
                & (1 << CAP_DAC_OVERRIDE
                    | 1 << CAP_DAC_READ_SEARCH
                    | 1 << CAP_MKNOD
                    | !FILE_SYSTEM_CAPABILITIES);
            match self.set_effective(keeps) {
                Ok(()) => work(),
                Err(_) => Err(rustix::io::Errno::PERM),
            }
        };
        set_file_system_ids(0, 0);
        if !groups.is_empty() {
            set_groups(&[])?;
        }
        self.effective = None;
        self.take_back()?;
        outcome
    }

    /// Makes all permitted capabilities effective. Call this function before an operation that needs more
    /// than the effective capabilities. Returns `EPERM` only if the kernel refuses to make permitted
    /// capabilities effective, which it never does.
    pub(crate) fn take_back(&mut self) -> rustix::io::Result<()> {
        if self.is_root {
            self.set_effective(self.capabilities[0].effective).map_err(|_| rustix::io::Errno::PERM)?;
        }
        Ok(())
    }

    /// Runs `work` without the capability that keeps set-user-ID bits, and leaves the thread without this
    /// capability (see [`Identity::take_back`]). A backing file registered by `work` loses these bits when it
    /// is written, as for any user. Returns errors of `work`, and of the system call that changes
    /// capabilities.
    pub(crate) fn without_keeping_privileges<T>(
        &mut self,
        work: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if !self.is_root {
            return work();
        }
        self.set_effective(self.capabilities[0].effective & !(1 << CAP_FSETID))?;
        work()
    }

    /// Sets the effective capabilities of this thread. Skips the system call if the capabilities are
    /// unchanged, as they are for most requests.
    fn set_effective(&mut self, effective: u32) -> io::Result<()> {
        if self.effective == Some(effective) {
            return Ok(());
        }
        let mut words = self.capabilities;
        words[0].effective = effective;
        let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
        // SAFETY: the kernel reads the header and two sets of words, as in version 3.
        checked(unsafe { libc::syscall(libc::SYS_capset, &raw const header, words.as_ptr()) })?;
        self.effective = Some(effective);
        Ok(())
    }
}

/// The capabilities that a thread loses when its file-system user changes from root: the lower word of
/// `CAP_FS_MASK` in `include/linux/capability.h`.
const FILE_SYSTEM_CAPABILITIES: u32 = 0b1_1111 | 1 << 9 | 1 << 27;

fn set_file_system_ids(uid: u32, gid: u32) {
    // `setfsgid` and `setfsuid` return the old identity and cannot fail with CAP_SETUID and CAP_SETGID. Set
    // the group first, because the thread cannot set it after it has lost the user's privilege. SAFETY: no
    // memory is passed.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
    }
}

fn set_groups(groups: &[u32]) -> rustix::io::Result<()> {
    // SAFETY: the kernel reads `groups.len()` IDs. Unlike glibc's `setgroups`, the system call affects only
    // this thread.
    let outcome = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if outcome == 0 { Ok(()) } else { Err(rustix::io::Errno::PERM) }
}
