//! Who a thread is to the file system below. Linux keeps user, group, capabilities and mask per thread; glibc hides
//! that, so the system calls are made directly.

use std::io;

/// Capabilities, by their number in `include/uapi/linux/capability.h`.
const CAP_DAC_OVERRIDE: u32 = 1;
const CAP_DAC_READ_SEARCH: u32 = 2;
const CAP_FSETID: u32 = 4;
const CAP_SYS_RESOURCE: u32 = 24;
const CAP_MKNOD: u32 = 27;

/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// Who made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The one supplementary group that matters: the parent directory's, where the caller is in it.
    pub(crate) group: Option<u32>,
}

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`; the kernel takes two, for capabilities 0 to 31 and 32 to 63.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct CapabilityWords {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The identity of one thread that serves requests. It must stay on the thread that made it.
#[derive(Debug)]
pub(crate) struct Identity {
    /// Nothing can be taken on without privilege: everything is done as the user who mounted.
    is_root: bool,
    /// All that is permitted, without `CAP_SYS_RESOURCE`: quotas hold for what is written through us.
    capabilities: [CapabilityWords; 2],
    /// What of them is in effect now; unknown after the kernel changed it with the user.
    effective: Option<u32>,
    umask: u32,
}

impl Identity {
    /// Makes the calling thread's identity its own.
    ///
    /// # Errors
    /// The kernel's, where the thread cannot leave the shared mask or give up a capability.
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        // SAFETY: no memory is passed; the mask and working directory of this thread become its own.
        if unsafe { libc::unshare(libc::CLONE_FS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: no memory is passed.
        let umask = unsafe { libc::umask(0o022) };
        // SAFETY: as above; this restores what was found.
        unsafe { libc::umask(umask) };
        let mut capabilities = [CapabilityWords::default(); 2];
        let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
        // SAFETY: the kernel reads the header and writes two words sets, as version 3 says.
        if unsafe { libc::syscall(libc::SYS_capget, &raw const header, capabilities.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let is_root = rustix::process::geteuid().is_root();
        let mut identity = Self { is_root, capabilities, effective: None, umask };
        if identity.is_root {
            // Not what is in effect: who started this thread may just have put some of it off.
            for words in &mut identity.capabilities {
                words.effective = words.permitted;
            }
            identity.capabilities[0].effective &= !(1 << CAP_SYS_RESOURCE);
            identity.set_effective(identity.capabilities[0].effective)?;
        }
        Ok(identity)
    }

    /// Does `work` as `caller` with the mask `umask`: what it creates belongs to them, and the directory's default
    /// ACL applies. Access was checked by the kernel already, and whether they may make a device, so it is not checked
    /// again: the caller's other groups and capabilities are not known here.
    ///
    /// # Errors
    /// Those of `work`, and `EPERM` where the identity cannot be taken on.
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

    /// All capabilities that the thread has when it acts for itself; to be called before what needs them.
    ///
    /// # Errors
    /// `EPERM`, which the kernel does not give for what is permitted.
    pub(crate) fn take_back(&mut self) -> rustix::io::Result<()> {
        if self.is_root {
            self.set_effective(self.capabilities[0].effective).map_err(|_| rustix::io::Errno::PERM)?;
        }
        Ok(())
    }

    /// Does `work` without the right to keep set-user-ID bits, and leaves the thread without it (see
    /// [`Identity::take_back`]): a file that is registered as a backing file like
    /// this loses them when it is written, as it does for any user.
    ///
    /// # Errors
    /// Those of `work`, and the kernel's.
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

    /// Nothing is asked of the kernel where nothing changes: most requests need the same.
    fn set_effective(&mut self, effective: u32) -> io::Result<()> {
        if self.effective == Some(effective) {
            return Ok(());
        }
        let mut words = self.capabilities;
        words[0].effective = effective;
        let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
        // SAFETY: the kernel reads the header and two sets of words, as version 3 says.
        if unsafe { libc::syscall(libc::SYS_capset, &raw const header, words.as_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.effective = Some(effective);
        Ok(())
    }
}

/// `CAP_FS_MASK` of `include/linux/capability.h`, lower word: what the kernel takes from a thread whose file-system
/// user is no longer root.
const FILE_SYSTEM_CAPABILITIES: u32 = 0b1_1111 | 1 << 9 | 1 << 27;

fn set_file_system_ids(uid: u32, gid: u32) {
    // These two return the old identity and cannot fail for a thread with CAP_SETUID and CAP_SETGID.
    // SAFETY: no memory is passed. The group goes first: without the user's privilege it could not be set.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
    }
}

fn set_groups(groups: &[u32]) -> rustix::io::Result<()> {
    // SAFETY: the kernel reads `groups.len()` ids. The system call, unlike glibc's function, is of this thread only.
    let outcome = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if outcome == 0 { Ok(()) } else { Err(rustix::io::Errno::PERM) }
}
