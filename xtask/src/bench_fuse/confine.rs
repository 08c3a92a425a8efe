//! A slow processor for the daemon only.

use anyhow::Result;
use fonio_host::{ConfinedCpu, CpuShare, Ledger};

/// A control group with a share of one CPU; it is removed when this is dropped.
pub struct Confined {
    cpu: ConfinedCpu,
    #[expect(dead_code, reason = "the group goes with it")]
    ledger: Ledger,
}

impl Confined {
    /// Creates the control group.
    pub fn new(share: CpuShare) -> Result<Self> {
        let mut ledger = Ledger::open(&Ledger::default_dir())?;
        Ok(Self { cpu: ConfinedCpu::make(&mut ledger, share)?, ledger })
    }

    /// Moves a process with its threads into the group.
    pub fn take_in(&self, process: u32) -> Result<()> {
        Ok(self.cpu.add(process)?)
    }
}
