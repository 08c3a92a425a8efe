//! Chooses how waits are recorded: by BPF, or by scheduler events in tracefs.

use fonio_core::Timestamp;
use fonio_machine::Machine;
use fonio_tracefs::ring_buffer::PageLayout;

use super::traced::TracedProbe;
use super::{BlockedProbe, BlockedWait, FinishedProbe};
use crate::attribution::thread_names::ThreadNames;
use crate::error::RecordError;
use crate::options::BlockedBy;
use crate::probes::bpf::Unavailable;
use crate::tracefs::Tracefs;

/// The probe that records waits, with or without BPF.
#[derive(Debug)]
pub(crate) enum Probe {
    Bpf(Box<BlockedProbe>),
    Tracefs {
        probe: Box<TracedProbe>,
        /// The reason why BPF is not used; `None` if the user chose not to use it.
        instead: Option<Unavailable>,
    },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NotRecorded {
    #[error("{0}; `--blocked tracefs` works without BPF but shows less")]
    Bpf(#[from] Unavailable),
    #[error("{0}")]
    Tracefs(RecordError),
    #[error("{bpf}; and scheduler events cannot replace it here: {tracefs}")]
    Neither { bpf: Unavailable, tracefs: RecordError },
}

impl Probe {
    /// Prepares the recording of waits; `None` if the user does not want them.
    pub(crate) fn load(
        by: BlockedBy,
        machine: &Machine,
        tracefs: &Tracefs,
        (layout, kib_per_cpu): (&PageLayout, u64),
    ) -> Option<Result<Probe, NotRecorded>> {
        let traced = || TracedProbe::load(tracefs, machine, layout, kib_per_cpu).map(Box::new);
        let bpf = || BlockedProbe::load(machine).map(|probe| Probe::Bpf(Box::new(probe)));
        Some(match by {
            BlockedBy::No => return None,
            BlockedBy::Bpf => bpf().map_err(NotRecorded::Bpf),
            BlockedBy::Tracefs => {
                let probe = traced().map_err(NotRecorded::Tracefs);
                probe.map(|probe| Probe::Tracefs { probe, instead: None })
            }
            BlockedBy::Best => bpf().or_else(|unavailable| match traced() {
                Ok(probe) => Ok(Probe::Tracefs { probe, instead: Some(unavailable) }),
                Err(tracefs) => Err(NotRecorded::Neither { bpf: unavailable, tracefs }),
            }),
        })
    }

    pub(super) fn attach(&mut self, began: Timestamp, machine: &Machine) -> Result<(), NotRecorded> {
        match self {
            Probe::Bpf(probe) => probe.attach(began).map_err(NotRecorded::Bpf),
            Probe::Tracefs { probe, .. } => probe.attach(began, machine).map_err(NotRecorded::Tracefs),
        }
    }

    /// Passes the long waits that have ended to `give`.
    pub(super) fn drain(&mut self, now: Timestamp, machine: &Machine, give: &mut dyn FnMut(BlockedWait)) {
        match self {
            Probe::Bpf(probe) => probe.drain(now, give),
            Probe::Tracefs { probe, .. } => probe.drain(now, machine, give),
        }
    }

    /// Counts a wait that cannot have its own row, because all rows are used.
    pub(super) fn count(&mut self, wait: &BlockedWait) {
        match self {
            Probe::Bpf(probe) => probe.count(wait),
            Probe::Tracefs { probe, .. } => probe.count(wait),
        }
    }

    /// Returns the names of the threads that were seen.
    pub(super) fn names(&mut self) -> &mut ThreadNames {
        match self {
            Probe::Bpf(probe) => &mut probe.names,
            Probe::Tracefs { probe, .. } => probe.names(),
        }
    }

    /// Returns the fill level and size of the kernel's buffer in bytes; `None` if the fill level does not
    /// require the recorder to read sooner.
    pub(super) fn filled(&self) -> Option<(u64, u64)> {
        match self {
            Probe::Bpf(_) => None,
            Probe::Tracefs { probe, .. } => Some(probe.filled()),
        }
    }

    /// Ends the probe, and passes on the remaining long waits and the open waits. Also returns why BPF was
    /// not used; `None` if the user chose not to use it.
    pub(super) fn finish(
        self,
        ended: Timestamp,
        machine: &Machine,
        give: &mut dyn FnMut(BlockedWait),
    ) -> (FinishedProbe, Option<Unavailable>) {
        match self {
            Probe::Bpf(probe) => (probe.finish(ended, machine, give), None),
            Probe::Tracefs { probe, instead } => (probe.finish(ended, machine, give), instead),
        }
    }
}
