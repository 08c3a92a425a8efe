//! Records through probes: BPF programs in the kernel, or replacements without BPF.

pub(crate) mod blocked;
pub(crate) mod bpf;
pub(crate) mod calls;
pub(crate) mod requests;
pub(crate) mod statements;
