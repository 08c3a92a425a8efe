//! Changes a setting, and undoes the change.

use serde::{Deserialize, Serialize};

use super::target::Target;
use crate::error::HostError;

/// A change of a setting, either applied or planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The changed setting and its object.
    pub target: Target,
    /// The setting's value before the change.
    pub old: String,
    /// The setting's value after the change.
    pub new: String,
}

impl Applied {
    /// Returns whether the new value differs from the old value.
    pub fn is_new(&self) -> bool {
        self.old != self.new
    }

    /// Returns the result that [`Applied::undo`] would have.
    pub fn would_undo(&self) -> Result<Undone, HostError> {
        Ok(match self.target.current()? {
            Some(now) if now == self.old => Undone::NothingLeft,
            Some(now) if now == self.new => Undone::Restored,
            Some(now) if self.target.is_half_set(&now, &self.old, &self.new) => Undone::Restored,
            Some(now) => Undone::ChangedSince(now),
            None => Undone::NothingLeft,
        })
    }

    /// Checks that undoing would lose no data, for example by unmounting a file system in use. Fails with
    /// [`HostError::InUse`] with the programs that use the file system.
    pub fn check_undo(&self) -> Result<(), HostError> {
        self.target.check_restore()
    }

    /// Checks that the setting's new value is in force. The new value must stay in force from
    /// [`Applied::borrow`] until the ledger is undone. Fails with [`HostError::NotSettable`] if another
    /// program has changed the setting, or if the device or mount no longer exists.
    pub fn expect_new(&self) -> Result<(), HostError> {
        self.target.expect_still(&self.new, &self.new)
    }

    /// Checks that the setting's old value is in force. Returns the errors of [`Applied::expect_new`].
    pub fn expect_old(&self) -> Result<(), HostError> {
        self.target.expect_still(&self.old, &self.new)
    }

    /// Restores the setting's old value if the new value is in force.
    pub fn undo(&self) -> Result<Undone, HostError> {
        let undone = self.would_undo()?;
        self.finish(&undone)?;
        Ok(undone)
    }

    /// Checks that a trial can have made this change; the error is the reason why no trial makes it. A ledger
    /// with another change is damaged or forged.
    pub(crate) fn check_borrowed(&self) -> Result<(), &'static str> {
        self.target.check_borrowed(&self.old)
    }

    /// Restores the old value, unless `found` ([`Applied::would_undo`]) shows a change by another program.
    pub(super) fn finish(&self, found: &Undone) -> Result<(), HostError> {
        match found {
            Undone::ChangedSince(_) => Ok(()),
            Undone::Restored | Undone::NothingLeft => self.target.restore(&self.old),
        }
    }
}

/// The result of restoring a setting's old value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The setting's old value is in force again.
    Restored,
    /// Nothing had to be restored: the old value was in force, or the device or mount no longer exists.
    NothingLeft,
    /// Another program has changed the setting to this value, so it was not restored and stays on record.
    ChangedSince(String),
}
