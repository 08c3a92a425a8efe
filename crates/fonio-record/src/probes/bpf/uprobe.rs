//! Runs a BPF program at an instruction of an executable file, in every process that maps the file.
//!
//! The kernel sets the probe through a perf event of the PMU `uprobe`. A link attaches the program, and
//! passes a number (the cookie) to the program (Linux 5.15). The crate aya does not support cookies. Closing
//! the descriptors removes the probe.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aya::Ebpf;
use aya::programs::{ProgramFd, UProbe};

use super::Unavailable;

/// The sysfs file that contains the kernel's number of the uprobe PMU.
const PMU: &str = "/sys/bus/event_source/devices/uprobe/type";

/// Version 1 of `struct perf_event_attr` (`PERF_ATTR_SIZE_VER1`, include/uapi/linux/perf_event.h). The kernel
/// treats missing fields as zeros.
#[repr(C)]
#[derive(Debug, Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    /// Bit 0: the probe is at the return of the function.
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    /// The memory address of the string with the file's path.
    uprobe_path: u64,
    probe_offset: u64,
}

/// The part of `union bpf_attr` that `BPF_LINK_CREATE` reads for a perf event.
#[repr(C)]
#[derive(Debug, Default)]
struct LinkAttr {
    program: u32,
    event: u32,
    attach_type: u32,
    flags: u32,
    cookie: u64,
}

const _: () = assert!(size_of::<PerfEventAttr>() == 72 && size_of::<LinkAttr>() == 24);

/// Constants of include/uapi/linux/bpf.h.
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_PERF_EVENT: u32 = 41;
/// A constant of include/uapi/linux/perf_event.h.
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// When a BPF program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The program runs before the instruction.
    Instruction,
    /// The program runs when the function that begins at the instruction returns.
    Return,
}

/// A BPF program attached to an instruction. Dropping this value removes the probe.
#[derive(Debug)]
pub(crate) struct UprobeLink {
    _link: OwnedFd,
    _event: OwnedFd,
}

/// Creates uprobes in executable files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uprobes {
    pmu: u32,
}

impl Uprobes {
    /// Checks that this kernel has uprobes without harmful bugs.
    pub(crate) fn new() -> Result<Uprobes, Unavailable> {
        super::check_returns()?;
        let number = std::fs::read_to_string(PMU).ok().and_then(|text| text.trim().parse().ok());
        number.map(|pmu| Uprobes { pmu }).ok_or(Unavailable::NoUprobes)
    }

    /// Loads a BPF program for uprobes into the kernel.
    pub(crate) fn load(self, loaded: &mut Ebpf, name: &'static str) -> Result<ProgramFd, Unavailable> {
        let failed = |error| Unavailable::from_program(name, error);
        let missing = || Unavailable::Failed { doing: "loaded", why: format!("it has no program {name}") };
        let program: Option<&mut UProbe> =
            loaded.program_mut(name).and_then(|program| program.try_into().ok());
        let program = program.ok_or_else(missing)?;
        program.load().map_err(failed)?;
        let descriptor = program.fd().map_err(failed)?;
        descriptor.try_clone().map_err(|error| failed(error.into()))
    }

    /// Runs the program at the byte `offset` of the file, with the cookie. Returns the system's error, for
    /// example `EINVAL` if no instruction can begin at `offset`.
    pub(crate) fn attach(
        self,
        program: &ProgramFd,
        (path, offset, at): (&Path, u64, At),
        cookie: u64,
    ) -> io::Result<UprobeLink> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let attr = PerfEventAttr {
            kind: self.pmu,
            size: size_of::<PerfEventAttr>() as u32,
            config: u64::from(at == At::Return),
            uprobe_path: path.as_ptr() as u64,
            probe_offset: offset,
            ..PerfEventAttr::default()
        };
        // The event is for every process (-1), on processor 0, in no group (-1). SAFETY: the structure has
        // the stated size, and its path ends with a zero and outlives the call.
        let event = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC)
        };
        let event = owned(event)?;
        let attr = LinkAttr {
            program: program.as_fd().as_raw_fd().cast_unsigned(),
            event: event.as_raw_fd().cast_unsigned(),
            attach_type: BPF_PERF_EVENT,
            flags: 0,
            cookie,
        };
        // SAFETY: the structure outlives the call, and its size is passed with it.
        let link = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                BPF_LINK_CREATE,
                &raw const attr,
                size_of::<LinkAttr>() as libc::c_ulong,
            )
        };
        Ok(UprobeLink { _link: owned(link)?, _event: event })
    }
}

/// Converts the result of a system call to a descriptor or an error.
fn owned(returned: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(returned) {
        // SAFETY: the kernel has just created this descriptor for us.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}
