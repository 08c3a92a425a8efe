//! Loads and attaches the BPF programs of the recorder.
//!
//! The programs are compiled BPF objects (`bpf/*.bpf.o`). Loading adapts these objects to the running kernel.
//! The kernel removes programs, links and maps when their last descriptor is closed, so nothing remains after
//! `kill -9`.

mod unavailable;
pub(crate) mod uprobe;

use aya::maps::{Map, MapError};
use aya::programs::BtfTracePoint;
use aya::programs::tp_btf::BtfTracePointLink;
use aya::{Btf, Ebpf, EbpfLoader, Pod};

pub(crate) use unavailable::Unavailable;

/// Size of the header of each record in a BPF ring buffer (`BPF_RINGBUF_HDR_SZ`).
pub(crate) const RING_HEADER_BYTES: u64 = 8;

/// The names of a BPF program and its tracepoint.
pub(crate) type Program = (&'static str, &'static str);

/// A map and its number of entries, or a ring buffer and its size in bytes.
pub(crate) type Size = (&'static str, u32);

/// Loads a BPF object with the given constants into the kernel. The object's programs do not run yet.
pub(crate) fn load(
    object: &[u8],
    programs: &[Program],
    constants: &[(&'static str, u8)],
) -> Result<Ebpf, Unavailable> {
    load_sized(object, programs, constants, &[])
}

/// Loads an object as [`load`] does, but with other sizes for some maps.
pub(crate) fn load_sized(
    object: &[u8],
    programs: &[Program],
    constants: &[(&'static str, u8)],
    sizes: &[Size],
) -> Result<Ebpf, Unavailable> {
    let uname = rustix::system::uname();
    unavailable::check_processor(std::env::consts::ARCH, &uname.machine().to_string_lossy())?;
    unavailable::check_release(&release())?;
    if !std::path::Path::new(unavailable::BTF).exists() {
        return Err(Unavailable::NoTypes);
    }
    // A new loader reads the kernel's types, which take much memory. (From aya 0.15 on, which needs a newer
    // Rust, a new loader does not read the types.) This copy of the types is freed before the types are read
    // again below.
    let mut loader = EbpfLoader::new();
    loader.btf(None);
    let btf = Btf::from_sys_fs().map_err(|error| Unavailable::from_types(&error))?;
    loader.btf(Some(&btf));
    for (name, value) in constants {
        loader.set_global(name, value, true);
    }
    for (name, entries) in sizes {
        loader.set_max_entries(name, *entries);
    }
    let mut loaded = loader.load(object).map_err(|error| Unavailable::from_object(&error))?;
    for (name, tracepoint) in programs {
        program(&mut loaded, name)?
            .load(tracepoint, &btf)
            .map_err(|error| Unavailable::from_program(name, error))?;
    }
    Ok(loaded)
}

/// Attaches programs in the given order. Dropping the returned links detaches the programs.
pub(crate) fn attach(loaded: &mut Ebpf, programs: &[Program]) -> Result<Vec<BtfTracePointLink>, Unavailable> {
    let mut links = Vec::new();
    for (name, _) in programs {
        let program = program(loaded, name)?;
        let link = program.attach().and_then(|id| program.take_link(id));
        links.push(link.map_err(|error| Unavailable::from_program(name, error))?);
    }
    Ok(links)
}

/// Takes a map out of a loaded BPF object.
pub(crate) fn map<M>(
    loaded: &mut Ebpf,
    name: &'static str,
    open: impl FnOnce(Map) -> Result<M, MapError>,
) -> Result<M, Unavailable> {
    let missing = || Unavailable::Failed { doing: "loaded", why: format!("the object lacks {name}") };
    open(loaded.take_map(name).ok_or_else(missing)?).map_err(|error| Unavailable::from_map(&error))
}

/// Reads a record of a ring buffer; `None` if the record has another size.
pub(crate) fn read_record<T: Pod>(bytes: &[u8]) -> Option<T> {
    if bytes.len() != size_of::<T>() {
        return None;
    }
    // SAFETY: the size matches, every byte sequence is a valid `Pod`, and the read needs no alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Returns whether this kernel passes the state of the previous thread to `sched_switch`.
pub(crate) fn switch_has_state() -> bool {
    unavailable::switch_has_state(&release())
}

/// Returns an error if return probes are harmful on this kernel.
pub(crate) fn check_returns() -> Result<(), Unavailable> {
    let release = release();
    if unavailable::ends_sandboxes(&release) { Err(Unavailable::EndsSandboxes(release)) } else { Ok(()) }
}

fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn program<'p>(loaded: &'p mut Ebpf, name: &'static str) -> Result<&'p mut BtfTracePoint, Unavailable> {
    let missing = || Unavailable::Failed { doing: "loaded", why: format!("the object lacks {name}") };
    loaded.program_mut(name).and_then(|program| program.try_into().ok()).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_size_is_refused() {
        assert_eq!(read_record::<u32>(&[1, 0, 0, 0]), Some(u32::from_ne_bytes([1, 0, 0, 0])));
        for length in [0, 3, 5] {
            assert_eq!(read_record::<u32>(&[0; 8][..length]), None);
        }
    }
}
