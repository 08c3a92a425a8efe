//! The fixes that fonio can prove: what each one changes, and what a power cut can lose with it.
//!
//! | fix | study |
//! |---|---|
//! | places in memory, no sync, PCM, RAID-0 | Kim, Agrawal, Ungureanu (TOS 2012), sections 5.1 to 5.5 |
//! | WAL, commit interval, noatime, scheduler, log-structured file systems | common advice, measured here |

mod catalogue;
mod changes;
mod values;

use fonio_host::Setting;
use fonio_workload::definition::Workload;

use self::changes::{OF_PROGRAM, OF_RANGE, another_device, check_values, setting};
use crate::error::ExperimentError;
use crate::setup::{Setup, Storage};
pub use catalogue::FIXES;

/// A change of a setup.
#[derive(Clone, Copy, Debug)]
pub struct Fix {
    /// The fix's name on the command line.
    pub name: &'static str,
    /// What kind of thing the fix changes.
    pub changes: Group,
    /// One line on what the fix does.
    pub does: &'static str,
    /// What a power cut can lose with the fix that it could not lose without it.
    pub loses: Loss,
    /// The study of the fix, or a note that we measure it ourselves.
    pub source: &'static str,
    /// Whether the fix needs a device that this machine does not have.
    pub needs_hardware: bool,
    /// How the fix is made on a real machine.
    pub real: Real,
    /// Without a workload, a command runs, whose work cannot be changed.
    change: fn(&mut Setup, Option<&Workload>) -> Result<(), &'static str>,
}

/// What fixes change, in the order of the printed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The scheduler or the queue of a disk.
    Scheduler,
    /// The file system or its mount.
    Filesystem,
    /// The page cache and swap.
    Memory,
    /// The system's logs.
    Logs,
    /// A unit of systemd, or a container.
    Unit,
    /// An application and its files.
    Application,
    /// The device itself.
    Device,
}

impl Group {
    /// All groups.
    pub const ALL: [Group; 7] = [
        Group::Scheduler,
        Group::Filesystem,
        Group::Memory,
        Group::Logs,
        Group::Unit,
        Group::Application,
        Group::Device,
    ];

    /// The heading above its fixes.
    pub fn heading(self) -> &'static str {
        match self {
            Group::Scheduler => "Scheduler and queue",
            Group::Filesystem => "File system",
            Group::Memory => "Memory and swap",
            Group::Logs => "Logs",
            Group::Unit => "Units and containers",
            Group::Application => "Applications",
            Group::Device => "Devices",
        }
    }

    /// Returns its fixes.
    pub fn fixes(self) -> impl Iterator<Item = &'static Fix> {
        FIXES.iter().filter(move |fix| fix.changes == self)
    }
}

/// What can measure the gain of a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredWith {
    /// A workload or a command.
    WorkloadOrCommand,
    /// A workload, in a directory or on an emulated device.
    Workload,
    /// A workload on an emulated device.
    Emulated,
    /// Neither, for this reason.
    Neither(&'static str),
}

/// How a fix is made on a real machine.
#[derive(Clone, Copy, Debug)]
pub enum Real {
    /// A setting that fonio can change and restore; the function takes the value after `=`, if there is one.
    Setting(fn(Option<&str>) -> Result<Setting, String>),
    /// Trims a file system once, which cannot be undone; kept, it is the setting [`Setting::TrimTimer`].
    Trim,
    /// A change of the app, or a device to buy: how to do it.
    ByHand(&'static str),
}

impl Real {
    /// Returns the setting with its default value, if the fix is one.
    pub fn setting(self) -> Option<Setting> {
        match self {
            Real::Setting(setting) => setting(None).ok(),
            Real::Trim => Some(Setting::TrimTimer),
            Real::ByHand(_) => None,
        }
    }
}

/// What a power cut can lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing more than before.
    Nothing,
    /// The last seconds of writes; the older data are intact. The text says how many seconds.
    Recent(&'static str),
    /// Data that were moved or are no longer synced: for caches only. The text says which.
    Content(&'static str),
}

impl Loss {
    /// Returns the loss as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Loss::Nothing => "A power cut loses no more data than without the fix.",
            Loss::Recent(text) | Loss::Content(text) => text,
        }
    }

    /// Returns whether all data reported as durable to an app survive, or only recent writes are lost and the rest is
    /// intact.
    pub fn is_safe(self) -> bool {
        !matches!(self, Loss::Content(_))
    }
}

impl Fix {
    /// Returns the fix of this name. `device=PROFILE` is not in the list; [`Candidate`] has it.
    pub fn named(name: &str) -> Option<&'static Fix> {
        FIXES.iter().find(|fix| fix.name == name)
    }

    /// Returns what can measure the fix: tries it on a setup of a directory, with a command.
    pub fn measured_with(&self) -> MeasuredWith {
        let mut setup = Setup::on(Storage::Directory("/".into()));
        match ((self.change)(&mut setup, None), self.real) {
            (Ok(()), _) => MeasuredWith::WorkloadOrCommand,
            (Err(OF_PROGRAM | OF_RANGE), _) => MeasuredWith::Workload,
            (Err(_), Real::ByHand(_)) => MeasuredWith::Emulated,
            (Err(reason), Real::Setting(_) | Real::Trim) => MeasuredWith::Neither(reason),
        }
    }
}

/// A change to try on a setup: a listed fix, or another device.
#[derive(Clone, Debug)]
pub enum Candidate {
    /// A fix of [`FIXES`].
    Listed(&'static Fix),
    /// A setting with a value that the user chose, such as `read-ahead=1MiB`.
    WithValue {
        /// The fix.
        fix: &'static Fix,
        /// The text of the value.
        value: String,
        /// The setting with the value.
        setting: Setting,
    },
    /// The same setup on the device of another profile.
    Device(String),
}

impl Candidate {
    /// Parses `wal-normal`, `read-ahead=1MiB` or `device=kingston`.
    ///
    /// # Errors
    ///
    /// [`ExperimentError::UnknownFix`] with the nearest name, and [`ExperimentError::NotApplicable`] for a value
    /// that the fix does not take.
    pub fn parse(text: &str) -> Result<Candidate, ExperimentError> {
        if let Some(profile) = text.strip_prefix("device=").filter(|profile| !profile.is_empty()) {
            return Ok(Candidate::Device(profile.to_owned()));
        }
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let fix = Fix::named(name).ok_or_else(|| ExperimentError::UnknownFix {
            name: name.to_owned(),
            nearest: fonio_core::nearest(name, FIXES.iter().map(|fix| fix.name)),
        })?;
        let Some(value) = value else { return Ok(Candidate::Listed(fix)) };
        let setting = match fix.real {
            Real::Setting(setting) => setting(Some(value)),
            Real::ByHand(_) | Real::Trim => Err("it takes no value".to_owned()),
        };
        match setting {
            Ok(setting) => Ok(Candidate::WithValue { fix, value: value.to_owned(), setting }),
            Err(reason) => Err(ExperimentError::NotApplicable { fix: text.to_owned(), reason }),
        }
    }

    /// Returns the candidate's name.
    pub fn name(&self) -> String {
        match self {
            Candidate::Listed(fix) => fix.name.to_owned(),
            Candidate::WithValue { fix, value, .. } => format!("{}={value}", fix.name),
            Candidate::Device(profile) => format!("device={profile}"),
        }
    }

    /// Returns the fix, unless the candidate is another device.
    pub fn fix(&self) -> Option<&'static Fix> {
        match self {
            Candidate::Listed(fix) | Candidate::WithValue { fix, .. } => Some(fix),
            Candidate::Device(_) => None,
        }
    }

    /// Returns the setting with its value, if the candidate is one.
    pub fn setting(&self) -> Option<Setting> {
        match self {
            Candidate::Listed(fix) => fix.real.setting(),
            Candidate::WithValue { setting, .. } => Some(setting.clone()),
            Candidate::Device(_) => None,
        }
    }

    /// Returns what a power cut can lose with the candidate.
    pub fn loses(&self) -> Loss {
        self.fix().map_or(Loss::Nothing, |fix| fix.loses)
    }

    /// Applies the candidate to `setup`, and to `workload` as far as the fix changes that. A command has no workload, so only
    /// fixes of its setup apply.
    ///
    /// # Errors
    ///
    /// [`ExperimentError::NotApplicable`] with the reason.
    pub fn apply(&self, setup: &mut Setup, workload: Option<&Workload>) -> Result<(), ExperimentError> {
        let changed = match self {
            Candidate::Listed(fix) => (fix.change)(setup, workload).and_then(|()| check_values(setup)),
            Candidate::WithValue { setting: with_value, fix, .. } => {
                // A fix that cannot be tried has the same reason with every value.
                (fix.change)(&mut setup.clone(), workload).and_then(|()| setting(setup, with_value.clone()))
            }
            Candidate::Device(profile) => another_device(setup, |_| profile.clone()),
        };
        changed
            .map_err(|reason| ExperimentError::NotApplicable { fix: self.name(), reason: reason.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use fonio_host::Scope;

    use super::*;

    /// A row of the table in `docs/fixes.md`.
    fn row(fix: &Fix) -> String {
        let Fix { name, does, loses, real, .. } = fix;
        let (needs, kept, undone) = match real {
            Real::Setting(_) | Real::Trim => {
                let setting = real.setting().expect("each has a default value");
                let undone = match real {
                    Real::Trim => "the timer gets its former state; what was trimmed stays so",
                    Real::Setting(_) if matches!(setting, Setting::Buffered) => "it is unmounted",
                    Real::Setting(_) if setting.scope() == Scope::Folder => "the content is copied back",
                    _ => "the former value",
                };
                (setting.needs(), setting.kept_in(), undone)
            }
            Real::ByHand(_) if fix.needs_hardware => ("another device", "–", "by hand"),
            Real::ByHand(_) => ("a change by hand, which `fonio fix NAME` describes", "–", "by hand"),
        };
        format!("| `{name}` | {does} | {needs} | {} | {kept} | {undone} |\n", loses.sentence())
    }

    /// Checks the tables in `docs/fixes.md`; `UPDATE_EXPECT=1 cargo test` regenerates them. The text around them is written by
    /// hand.
    #[test]
    fn the_document_has_every_fix() {
        let known = include_str!("../../../../docs/fixes.md");
        let begin = known.find("## Scheduler").expect("the first table");
        let end = known.find("## Notes").expect("the text after the tables");
        let mut text = known[..begin].to_owned();
        for group in Group::ALL {
            text.push_str(&format!("## {}\n\n", group.heading()));
            text.push_str("| fix | what it does | needs | a power cut | kept in | undone |\n|---|---|---|---|---|---|\n");
            text.extend(group.fixes().map(row));
            text.push('\n');
        }
        text.push_str(&known[end..]);
        expect_test::expect_file!["../../../../docs/fixes.md"].assert_eq(&text);
    }

    #[test]
    fn every_setting_has_a_value_without_one_written_and_refuses_nonsense() {
        for fix in FIXES {
            if let Real::Setting(setting) = fix.real {
                assert!(setting(None).is_ok(), "{}", fix.name);
                assert!(setting(Some("nonsense")).is_err(), "{}", fix.name);
            }
        }
    }

    #[test]
    fn what_can_measure_a_fix_is_known() {
        let with = |name| Fix::named(name).expect("listed").measured_with();
        for (name, expected) in [
            ("bfq", MeasuredWith::WorkloadOrCommand),
            ("discard-size", MeasuredWith::WorkloadOrCommand),
            ("wal-full", MeasuredWith::Workload),
            ("hot-range", MeasuredWith::Workload),
            ("db-on-pcm", MeasuredWith::Workload),
            ("raid0", MeasuredWith::Emulated),
            ("f2fs", MeasuredWith::Emulated),
            ("folder-in-ram", MeasuredWith::Neither(changes::OF_FOLDERS)),
        ] {
            assert_eq!(with(name), expected, "{name}");
        }
        assert!(matches!(with("fstrim"), MeasuredWith::Neither(_)));
    }

    #[test]
    fn a_fix_of_services_is_not_tried_with_any_value() {
        for name in ["io-weight", "io-weight=20", "journald-in-ram=8MiB"] {
            let mut setup = Setup::on(Storage::Directory("/".into()));
            let error = Candidate::parse(name).expect("listed").apply(&mut setup, None).expect_err("refused");
            assert!(error.to_string().contains("services of the machine"), "{error}");
        }
    }
}
