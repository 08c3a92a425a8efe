//! Changes settings temporarily; a ledger undoes the changes.

use std::path::Path;

use super::applied::Applied;
use super::only::OnlyChanger;
use super::places::disk_of;
use super::setting::Setting;
use crate::error::HostError;
use crate::ledger::{Entry, Ledger, Step};
use crate::queue::Queue;

impl Applied {
    /// Makes a planned change, which the ledger undoes later. Restores the old value if the kernel refuses or
    /// alters the new one. Fails with [`HostError::System`], or [`HostError::NotSettable`] if the kernel set
    /// another value or the old value is no longer in force. After an error, the change is undone if
    /// possible; otherwise, the ledger keeps it.
    pub fn borrow(&self, ledger: &mut Ledger) -> Result<Entry, HostError> {
        let Applied { target, old, new } = self;
        target.expect_still(old, new)?;
        let entry = ledger.begin(Step::Borrowed { setting: self.clone() })?;
        if let Err(error) = target.set(new).and_then(|()| target.expect(new)) {
            // If restoring fails too, the ledger keeps the step.
            target.restore(old)?;
            ledger.end(entry)?;
            return Err(error);
        }
        Ok(entry)
    }
}

/// Applies a setting to `path` until the ledger restores the old value. Until then, the caller must keep the
/// returned lock, which is a file in the ledger's folder. Returns the errors of [`Setting::plan`],
/// [`OnlyChanger::begin`] and [`Applied::borrow`].
pub fn borrow_setting(
    setting: &Setting,
    path: &Path,
    ledger: &mut Ledger,
) -> Result<(Entry, OnlyChanger), HostError> {
    let only = OnlyChanger::begin(ledger.dir(), &setting.target(path)?)?;
    let entry = setting.plan(path)?.borrow(ledger)?;
    Ok((entry, only))
}

/// Sets the scheduler of the disk at `path` (its node or a partition) and records the old scheduler in the
/// ledger. Undoing the entry restores the old scheduler. Fails with [`HostError::NotSettable`] if `path` is
/// not on a disk with a scheduler; otherwise with the errors of [`Queue::set_scheduler`].
pub fn borrow_scheduler(path: &Path, name: &str, ledger: &mut Ledger) -> Result<Entry, HostError> {
    let queue = Queue::of(&disk_of(path).map_err(|refusal| refusal.of(name, path))?);
    let (was, _) = queue.schedulers()?;
    ledger.perform(Step::Setting { path: queue.path("scheduler"), was }, || queue.set_scheduler(name))
}
