//! Contains all kinds of settings, one file each, and the table of these kinds. A new kind needs a file and a
//! line in the table.

mod access_times;
mod buffered;
mod commit_interval;
mod concurrency;
mod database;
mod dirty_limit;
mod discard_size;
mod folder_in_ram;
mod folder_on;
mod hot_range;
mod io_class;
mod io_cost;
mod io_rate;
mod io_weight;
mod journald_in_ram;
mod journald_sync;
mod lazy_times;
mod read_ahead;
mod request_size;
mod requests;
mod scheduler;
mod swappiness;
mod sync_policy;
mod trim_timer;
mod zram;

pub use self::concurrency::Concurrency;
pub use self::database::is_sqlite;
pub(crate) use self::database::{journal_mode, set_journal_mode};
pub use self::folder_in_ram::{start, write_out};
pub use self::sync_policy::sync_library;
pub use self::trim_timer::{Trim, trim, trim_plan};

use super::kind::{Kind, SettingFix};

/// Former names of fixes with their present names. Commands and configuration files may contain former names.
const RENAMED: [(&str, &str); 1] = [("io-max", "io-rate")];

/// Returns the present name of a fix that may have a former name.
pub fn present_name(name: &str) -> &str {
    RENAMED.iter().find(|(former, _)| *former == name).map_or(name, |(_, present)| present)
}

pub(super) fn fix_named(name: &str) -> Option<(&'static dyn Kind, &'static SettingFix)> {
    let name = present_name(name);
    let mut fixes = KINDS.iter().flat_map(|kind| kind.facts().fixes.iter().map(move |fix| (*kind, fix)));
    fixes.find(|(_, fix)| fix.name == name)
}

/// Returns the kind of setting with this name in records. `of` distinguishes kinds with the same `tag`.
pub(super) fn recorded_as(tag: &str, of: Option<&str>) -> Option<&'static dyn Kind> {
    KINDS.iter().copied().find(|kind| {
        let facts = kind.facts();
        (facts.tag, facts.of) == (tag, of) || [facts.tag_of_group, facts.tag_of_process].contains(&Some(tag))
    })
}

/// All kinds, in the order in which their fixes are listed.
pub(super) static KINDS: &[&dyn Kind] = &[
    &scheduler::Scheduler,
    &concurrency::OfSmartio,
    &io_cost::IoCost,
    &read_ahead::ReadAhead,
    &requests::Requests,
    &request_size::RequestSize,
    &discard_size::DiscardSize,
    &commit_interval::CommitInterval,
    &access_times::AccessTimes,
    &lazy_times::LazyTimes,
    &trim_timer::TrimTimer,
    &folder_on::FolderOn,
    &hot_range::HotRange,
    &buffered::Buffered,
    &dirty_limit::DirtyLimit,
    &swappiness::Swappiness,
    &zram::SwapInRam,
    &journald_in_ram::JournaldInRam,
    &journald_sync::JournaldSync,
    &folder_in_ram::FolderInRam,
    &io_weight::IoWeight,
    &io_rate::IoRate,
    &io_class::IoClass,
    &database::Database,
    &sync_policy::SyncPolicy,
];
