//! Records events through probes, which are BPF programs in the kernel, or replacements that do without BPF.

pub(crate) mod bios;
pub(crate) mod blocked;
pub(crate) mod bpf;
pub(crate) mod calls;
pub(crate) mod requests;
pub(crate) mod statements;
