//! Slows the processor down for the daemon of a mount only.

use anyhow::Result;
use fonio_host::{Confined as Groups, CpuShare, Ledger, Limits};

/// A control group that limits its processes to a share of one CPU. Dropping this value removes the group.
pub struct Confined {
    groups: Groups,
    #[expect(dead_code, reason = "dropping it removes the group")]
    ledger: Ledger,
}

impl Confined {
    pub fn new(share: CpuShare) -> Result<Self> {
        let mut ledger = Ledger::open(&Ledger::default_dir())?;
        let limits = Limits { cpu: Some(share.into()), memory: None };
        Ok(Self { groups: Groups::make(&mut ledger, limits)?, ledger })
    }

    /// Moves a process with all its threads into the control group.
    pub fn take_in(&self, process: u32) -> Result<()> {
        Ok(self.groups.add(process)?)
    }
}
