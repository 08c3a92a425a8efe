//! Changes settings of the machine's own devices and file systems when a user asks for it, and restores them.
//!
//! | step | where |
//! |---|---|
//! | a kind of setting, complete: fixes, values, how it is read, set, kept and restored | [`kinds`], a file each |
//! | what a user asks for: a kind with a value | [`Setting`] |
//! | a kind on its device, mount, unit, … | [`Target`] |
//! | a change of that | [`Applied`] |
//! | changes until the next boot | [`Settings`], a record next to the ledgers |
//! | changes that outlast it | [`Keeper`] |
//! | the order of both records, of locks and of changes | [`Changes`] |
//!
//! The record is not a ledger: these settings are restored only on request. A ledger borrows them ([`borrow_setting`]).

mod applied;
mod cgroup;
mod change;
mod drop_in;
mod files;
mod folder;
mod kept;
mod kind;
mod kinds;
mod object;
mod only;
mod places;
mod record;
mod refusal;
mod setting;
mod sysctl;
mod systemd;
mod target;
mod value;
mod write_back;

use std::path::Path;

pub use self::applied::{Applied, Undone};
pub use self::change::{Changes, Made, Planned, Undoing};
pub use self::folder::mirror::Mirrored;
pub use self::kept::files::KeptFiles;
pub use self::kept::{Keeper, Kept};
pub use self::kind::{Group, Loss, SettingFix, Trial};
pub use self::kinds::{
    Concurrency, Trim, start as start_folder_in_ram, trim, trim_plan, write_out as write_out_folder,
};
pub use self::object::Scope;
pub use self::only::OnlyChanger;
pub(crate) use self::only::{LOCK, remove_free_lock};
pub use self::record::Settings;
pub use self::setting::Setting;
pub use self::target::Target;
pub use self::write_back::WriteBack;
use crate::{Entry, HostError, Ledger, Queue};

/// Applies a setting to `path` until the ledger undoes it, which restores the previous value. The lock, in
/// the ledger's folder, must last until then.
///
/// # Errors
///
/// Those of [`Setting::plan`], [`OnlyChanger::begin`] and [`Applied::borrow`].
pub fn borrow_setting(
    setting: &Setting,
    path: &Path,
    ledger: &mut Ledger,
) -> Result<(Entry, OnlyChanger), HostError> {
    let only = OnlyChanger::begin(ledger.dir(), &setting.target(path)?)?;
    let entry = setting.plan(path)?.borrow(ledger)?;
    Ok((entry, only))
}

/// Sets the scheduler of the disk whose node or partition `path` is, and notes the old one in the ledger; undoing the
/// entry restores it.
///
/// # Errors
///
/// [`HostError::NotSettable`] if `path` is not on a disk with a scheduler; otherwise those of [`Queue::set_scheduler`].
pub fn borrow_scheduler(path: &Path, name: &str, ledger: &mut Ledger) -> Result<Entry, HostError> {
    let disk = places::disk_of(path).map_err(|refusal| refusal.of(name, path))?;
    Queue::of(&disk).borrow_scheduler(name, ledger)
}
