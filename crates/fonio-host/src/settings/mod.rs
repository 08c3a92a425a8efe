//! Changes settings of the machine's own devices and file systems on request, and restores the old values.
//!
//! | step | where |
//! |---|---|
//! | a kind of setting: fixes, values, and how to read, set, keep and restore them | [`kinds`], a file each |
//! | a requested setting: a kind with a value | [`Setting`] |
//! | a kind on its device, mount, unit, … | [`Target`] |
//! | a change of a target | [`Applied`] |
//! | changes until the next boot | [`Settings`], a record next to the ledgers |
//! | changes that survive reboots | [`Keeper`] |
//! | the order of records, locks and changes | [`Changes`] |
//!
//! The record [`Settings`] is not a ledger: the settings in this record are restored only on request. For
//! temporary changes, use a ledger ([`borrow_setting`]).

mod applied;
mod borrow;
mod cgroup;
mod change;
mod drop_in;
mod folder;
mod kept;
mod kind;
mod kinds;
mod object;
mod of_command;
mod only;
mod own_group;
mod places;
mod rates;
mod record;
mod refusal;
mod setting;
mod sysctl;
mod systemd;
mod target;
mod value;
mod write_back;

pub use self::applied::{Applied, Undone};
pub use self::borrow::{borrow_scheduler, borrow_setting};
pub use self::change::{Changes, Made, Planned, Undoing};
pub use self::folder::mirror::Mirrored;
pub use self::kept::files::KeptFiles;
pub use self::kept::{Keeper, Kept};
pub use self::kind::{Group, Loss, SettingFix, Trial};
pub use self::kinds::{
    Concurrency, Trim, is_sqlite, present_name, start as start_folder_in_ram, sync_library, trim, trim_plan,
    write_out as write_out_folder,
};
pub(crate) use self::kinds::{journal_mode, set_journal_mode};
pub use self::object::Scope;
pub use self::of_command::{GroupOfCommand, InGroup, OfCommand};
pub use self::only::OnlyChanger;
pub(crate) use self::only::{LOCK, remove_free_lock};
pub use self::own_group::{is_io_group, lift_own_rates};
pub use self::record::Settings;
pub use self::setting::Setting;
pub use self::target::Target;
pub use self::write_back::WriteBack;
