//! A slow processor, for the daemon alone.

use anyhow::Result;
use fonio_host::{ConfinedCpu, CpuShare, Ledger};

/// A control group with a share of one CPU, until this is dropped.
pub struct Confined {
    cpu: ConfinedCpu,
    #[expect(dead_code, reason = "the group goes with it")]
    ledger: Ledger,
}

impl Confined {
    /// Makes one.
    pub fn new(share: CpuShare) -> Result<Self> {
        let mut ledger = Ledger::open(&Ledger::default_dir())?;
        Ok(Self { cpu: ConfinedCpu::make(&mut ledger, share)?, ledger })
    }

    /// Puts a process in, with its threads.
    pub fn take_in(&self, process: u32) -> Result<()> {
        Ok(self.cpu.add(process)?)
    }
}
