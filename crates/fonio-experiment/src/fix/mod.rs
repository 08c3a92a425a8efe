//! Describes the fixes that fonio can prove: the changes that each fix makes, and the data that a power cut
//! can lose with this fix.
//!
//! | fix | study |
//! |---|---|
//! | folders in memory, no sync, PCM, RAID-0 | Kim, Agrawal, Ungureanu (TOS 2012), sections 5.1 to 5.5 |
//! | WAL, commit interval, noatime, scheduler, log-structured file systems | common advice, measured here |

mod catalogue;
mod changes;

use fonio_host::{Group, Loss, Setting, SettingFix, Trial, present_name};
use fonio_workload::DatabaseOverride;
use fonio_workload::definition::{Journal, Synchronous, Workload};

use self::changes::{OF_FOLDER, OF_PROGRAM, another_device, each_database, merge, try_setting};
use crate::error::ExperimentError;
use crate::setup::{Setup, Storage};
pub use catalogue::FIXES;

/// A change that can make a setup faster.
#[derive(Clone, Copy, Debug)]
pub struct Fix {
    /// The fix's name on the command line.
    pub name: &'static str,
    /// The part of the setup that the fix changes.
    pub changes: Group,
    /// One line on what the fix does.
    pub does: &'static str,
    /// The additional data that a power cut can lose with the fix.
    pub loses: Loss,
    /// The study that measured the fix, or a note that only fonio measures it.
    pub source: &'static str,
    /// How to apply the fix on a real machine.
    pub real: Real,
    change: Change,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    /// A trial applies the fix in the way in which it applies a setting of the machine.
    Setting(Trial),
    /// The fix is tried by a function that changes the setup and the measured program.
    Setup(fn(&mut Setup, Measured<'_>) -> Result<(), &'static str>),
    /// The fix is tried by a function that changes the settings of SQLite databases. With a value, other
    /// settings are tried.
    Databases(fn(&mut DatabaseOverride), Option<Pragma>),
}

/// A setting of SQLite whose value the user can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pragma {
    JournalMode,
    Synchronous,
    Autocheckpoint,
}

/// The program that an experiment measures.
#[derive(Clone, Copy, Debug)]
pub enum Measured<'a> {
    /// A workload, whose parameters a fix can change.
    Workload(&'a Workload),
    /// A user's command. A fix can change the SQLite databases that it uses.
    Command,
    /// The recorded I/O of a program, which no fix changes.
    Replay,
}

impl<'a> Measured<'a> {
    /// Returns the workload, if it is one.
    pub fn workload(self) -> Option<&'a Workload> {
        match self {
            Measured::Workload(workload) => Some(workload),
            Measured::Command | Measured::Replay => None,
        }
    }
}

/// The kinds of experiment that can measure a fix's gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredWith {
    /// The gain can be measured with a workload or a command.
    WorkloadOrCommand,
    /// The gain can be measured with a workload, or with the databases of a command.
    WorkloadOrDatabases,
    /// The gain can be measured with a workload, in a directory or on an emulated device.
    Workload,
    /// The gain can be measured only with a workload on an emulated device.
    Emulated,
    /// The gain cannot be measured, for this reason.
    Neither(&'static str),
}

/// How to apply a fix on a real machine.
#[derive(Clone, Copy, Debug)]
pub enum Real {
    /// The fix is a setting that fonio can change and restore.
    Setting(&'static SettingFix),
    /// The fix trims a file system once, which cannot be undone. With `--keep`, regular trimming is a
    /// setting.
    Trim,
    /// The user changes the app or buys a device, following these instructions.
    ByHand(&'static str),
}

impl Pragma {
    /// Parses a value. Returns the settings of the databases, and the data that a power cut can lose.
    fn parse(self, text: &str) -> Result<(DatabaseOverride, Loss), String> {
        let plain = DatabaseOverride::default();
        match self {
            Pragma::JournalMode => {
                let (journal, loses) = match text.to_ascii_lowercase().as_str() {
                    "wal" => (Journal::Wal, Loss::Nothing),
                    "delete" => (Journal::Delete, Loss::Nothing),
                    "truncate" => (Journal::Truncate, Loss::Nothing),
                    "persist" => (Journal::Persist, Loss::Nothing),
                    "memory" => (Journal::Memory, catalogue::OF_NO_JOURNAL),
                    "off" => (Journal::Off, catalogue::OF_NO_JOURNAL),
                    _ => return Err("write WAL, DELETE, TRUNCATE, PERSIST, MEMORY or OFF".to_owned()),
                };
                Ok((DatabaseOverride { journal: Some(journal), ..plain }, loses))
            }
            Pragma::Synchronous => {
                let (level, loses) = match text.to_ascii_lowercase().as_str() {
                    "extra" | "3" => (Synchronous::Extra, Loss::Nothing),
                    "full" | "2" => (Synchronous::Full, Loss::Nothing),
                    "normal" | "1" => (Synchronous::Normal, catalogue::OF_NORMAL),
                    "off" | "0" => (Synchronous::Off, catalogue::OF_NO_SYNC),
                    _ => return Err("write EXTRA, FULL, NORMAL or OFF".to_owned()),
                };
                Ok((DatabaseOverride { synchronous: Some(level), ..plain }, loses))
            }
            Pragma::Autocheckpoint => {
                let pages = text.parse().ok().filter(|pages| (1..=1_000_000).contains(pages));
                let pages = pages.ok_or("write a number of pages from 1 to 1,000,000")?;
                Ok((DatabaseOverride { autocheckpoint: Some(pages), ..plain }, Loss::Nothing))
            }
        }
    }
}

impl Fix {
    /// Returns the listed fix with this name. Another device (`device=PROFILE`) is only a [`Candidate`].
    pub fn named(name: &str) -> Option<&'static Fix> {
        let name = present_name(name);
        FIXES.iter().find(|fix| fix.name == name)
    }

    /// Returns all fixes that change this part of a setup.
    pub fn of_group(group: Group) -> impl Iterator<Item = &'static Fix> {
        FIXES.iter().filter(move |fix| fix.changes == group)
    }

    /// Returns whether the fix needs a device that this machine does not have.
    pub fn needs_hardware(&self) -> bool {
        self.changes == Group::Device
    }

    /// Returns the setting with its default value; `None` if the fix is not a setting.
    pub fn setting(&self) -> Option<Setting> {
        match self.real {
            Real::Setting(_) | Real::Trim => {
                Some(Setting::parse(self.name).expect("every setting has a default value"))
            }
            Real::ByHand(_) => None,
        }
    }

    /// Changes `setup` as the fix requires; `setting` is the setting with its value if the fix is a setting.
    fn try_on(
        &self,
        setting: Option<Setting>,
        setup: &mut Setup,
        measured: Measured<'_>,
    ) -> Result<(), &'static str> {
        match (self.change, setting) {
            (Change::Setting(trial), Some(setting)) => try_setting(trial, setting, setup, measured),
            (Change::Setting(_), None) => unreachable!("a fix that is tried as a setting has a setting"),
            (Change::Setup(change), _) => change(setup, measured),
            (Change::Databases(change, _), _) => each_database(setup, measured, &change),
        }
    }

    /// Returns which kinds of experiment can measure the fix. To find out, the method applies the fix to a
    /// setup.
    pub fn measured_with(&self) -> MeasuredWith {
        let mut setup = Setup::on(Storage::Directory("/".into()));
        match (self.try_on(self.setting(), &mut setup, Measured::Command), self.real) {
            (Ok(()), _) if setup.of_command != DatabaseOverride::default() => {
                MeasuredWith::WorkloadOrDatabases
            }
            (Ok(()), _) => MeasuredWith::WorkloadOrCommand,
            (Err(OF_PROGRAM | OF_FOLDER), _) => MeasuredWith::Workload,
            (Err(_), Real::ByHand(_)) => MeasuredWith::Emulated,
            (Err(reason), Real::Setting(_) | Real::Trim) => MeasuredWith::Neither(reason),
        }
    }
}

/// A change to try on a setup: a listed fix, or another device.
#[derive(Clone, Debug)]
pub enum Candidate {
    /// A fix in the list [`FIXES`].
    Listed(&'static Fix),
    /// A listed setting with the user's own value, such as `read-ahead=1MiB`.
    WithValue {
        /// The listed fix.
        fix: &'static Fix,
        /// The value as the user wrote it.
        value: String,
        /// The setting with the parsed value.
        setting: Setting,
    },
    /// A listed setting of SQLite with the user's own value, such as `synchronous=NORMAL`.
    WithPragma {
        /// The listed fix.
        fix: &'static Fix,
        /// The value as the user wrote it.
        value: String,
        /// The settings of the databases.
        databases: DatabaseOverride,
        /// The data that a power cut can lose with this value.
        loses: Loss,
    },
    /// The same setup on an emulated device with another profile.
    Device(String),
}

impl Candidate {
    /// Parses a candidate such as `wal-normal`, `read-ahead=1MiB` or `device=kingston`. Fails with
    /// [`ExperimentError::UnknownFix`] with the most similar name, and [`ExperimentError::NotApplicable`] for
    /// a value that the fix does not accept.
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
        if let Change::Databases(_, Some(pragma)) = fix.change {
            let (databases, loses) = pragma
                .parse(value)
                .map_err(|reason| ExperimentError::NotApplicable { fix: text.to_owned(), reason })?;
            return Ok(Candidate::WithPragma { fix, value: value.to_owned(), databases, loses });
        }
        let setting = match fix.real {
            Real::Setting(_) => Setting::parse(text),
            Real::ByHand(_) | Real::Trim => Err("this fix takes no value".to_owned()),
        };
        match setting {
            Ok(setting) => Ok(Candidate::WithValue { fix, value: value.to_owned(), setting }),
            Err(reason) => Err(ExperimentError::NotApplicable { fix: text.to_owned(), reason }),
        }
    }

    /// Returns the name of the candidate on the command line.
    pub fn name(&self) -> String {
        match self {
            Candidate::Listed(fix) => fix.name.to_owned(),
            Candidate::WithValue { fix, value, .. } | Candidate::WithPragma { fix, value, .. } => {
                format!("{}={value}", fix.name)
            }
            Candidate::Device(profile) => format!("device={profile}"),
        }
    }

    /// Returns the candidate's fix; `None` if the candidate is another device.
    pub fn fix(&self) -> Option<&'static Fix> {
        match self {
            Candidate::Listed(fix) | Candidate::WithValue { fix, .. } | Candidate::WithPragma { fix, .. } => {
                Some(fix)
            }
            Candidate::Device(_) => None,
        }
    }

    /// Returns the candidate's setting with its value; `None` if the candidate is not a setting.
    pub fn setting(&self) -> Option<Setting> {
        match self {
            Candidate::Listed(fix) => fix.setting(),
            Candidate::WithValue { setting, .. } => Some(setting.clone()),
            Candidate::WithPragma { .. } | Candidate::Device(_) => None,
        }
    }

    /// Returns the data that a power cut can lose with the candidate.
    pub fn loses(&self) -> Loss {
        match self {
            Candidate::WithPragma { loses, .. } => *loses,
            _ => self.fix().map_or(Loss::Nothing, |fix| fix.loses),
        }
    }

    /// Applies the candidate to `setup`, which also has the changes of the measured program.
    pub fn apply(&self, setup: &mut Setup, measured: Measured<'_>) -> Result<(), ExperimentError> {
        let changed = match self {
            Candidate::Listed(fix) | Candidate::WithValue { fix, .. } => {
                fix.try_on(self.setting(), setup, measured)
            }
            Candidate::WithPragma { databases, .. } => {
                each_database(setup, measured, &|change| merge(change, databases))
            }
            Candidate::Device(profile) => another_device(setup, |_| profile.clone()),
        };
        changed
            .map_err(|reason| ExperimentError::NotApplicable { fix: self.name(), reason: reason.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fix: &Fix) -> String {
        let Fix { name, does, loses, .. } = fix;
        let (needs, kept, undone) = match fix.setting() {
            Some(setting) => (setting.fix().needs, setting.kept_in(), setting.undone()),
            None if fix.needs_hardware() => ("another device", "–", "by hand"),
            None => ("a change by hand, which `fonio fix show NAME` describes", "–", "by hand"),
        };
        format!("| `{name}` | {does} | {needs} | {} | {kept} | {undone} |\n", loses.sentence())
    }

    /// Checks the tables in `docs/fixes.md`; `UPDATE_EXPECT=1 cargo test` regenerates these tables.
    #[test]
    fn the_document_has_every_fix() {
        let known = include_str!("../../../../docs/fixes.md");
        let begin = known.find("## Scheduler").expect("the first table");
        let end = known.find("## Notes").expect("a heading after the tables");
        let mut text = known[..begin].to_owned();
        for group in Group::ALL {
            text.push_str(&format!("## {}\n\n", group.heading()));
            text.push_str("| fix | what it does | needs | a power cut | kept in | undone |\n|---|---|---|---|---|---|\n");
            text.extend(Fix::of_group(group).map(row));
            text.push('\n');
        }
        text.push_str(&known[end..]);
        expect_test::expect_file!["../../../../docs/fixes.md"].assert_eq(&text);
    }

    #[test]
    fn what_can_measure_a_fix_is_known() {
        let with = |name| Fix::named(name).expect("listed").measured_with();
        for (name, expected) in [
            ("bfq", MeasuredWith::WorkloadOrCommand),
            ("discard-size", MeasuredWith::WorkloadOrCommand),
            ("wal-full", MeasuredWith::WorkloadOrDatabases),
            ("synchronous", MeasuredWith::WorkloadOrDatabases),
            ("hot-range", MeasuredWith::Workload),
            ("db-on-pcm", MeasuredWith::Workload),
            ("raid0", MeasuredWith::Emulated),
            ("f2fs", MeasuredWith::Emulated),
        ] {
            assert_eq!(with(name), expected, "{name}");
        }
        for name in ["fstrim", "folder-in-ram", "io-weight"] {
            assert!(matches!(with(name), MeasuredWith::Neither(_)), "{name}");
        }
    }

    #[test]
    fn a_fix_of_services_is_not_tried_with_any_value() {
        for name in ["io-weight", "io-weight=20", "io-rate=10MB", "io-max", "journald-in-ram=8MiB"] {
            let mut setup = Setup::on(Storage::Directory("/".into()));
            let error = Candidate::parse(name)
                .expect("listed")
                .apply(&mut setup, Measured::Command)
                .expect_err("refused");
            assert!(error.to_string().contains("system services"), "{error}");
        }
    }
}
