//! The fixes that fonio can prove: what each one changes, and what a power cut can lose with it.
//!
//! | fix | study |
//! |---|---|
//! | places in memory, no sync, PCM, RAID-0 | Kim, Agrawal, Ungureanu (TOS 2012), sections 5.1 to 5.5 |
//! | WAL, commit interval, noatime, scheduler, log-structured file systems | common advice, measured here |

use std::ops::RangeInclusive;

use fonio_core::ByteCount;
use fonio_core::quantity::parse_bytes;
use fonio_host::{Filesystem, Setting};
use fonio_workload::definition::{Journal, Synchronous, Workload};

use crate::error::ExperimentError;
use crate::setup::{Medium, Setup, Storage};

/// A change of a setup.
#[derive(Clone, Copy, Debug)]
pub struct Fix {
    /// The fix's name on the command line.
    pub name: &'static str,
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

/// How a fix is made on a real machine.
#[derive(Clone, Copy, Debug)]
pub enum Real {
    /// A setting that fonio can change and restore; the function takes the value after `=`, if there is one.
    Setting(fn(Option<&str>) -> Result<Setting, String>),
    /// A change of the app, or a device to buy: how to do it.
    ByHand(&'static str),
}

impl Real {
    /// Returns the setting with its default value, if the fix is one.
    pub fn setting(self) -> Option<Setting> {
        match self {
            Real::Setting(setting) => setting(None).ok(),
            Real::ByHand(_) => None,
        }
    }
}

/// The setting of a fix without a value.
fn fixed(setting: Setting, value: Option<&str>) -> Result<Setting, String> {
    match value {
        None => Ok(setting),
        Some(_) => Err("it takes no value".to_owned()),
    }
}

/// The largest size that a setting takes: more than any device needs.
const SIZE_MAX: u64 = 64 << 30;

/// A size in steps of `step`, which is also the least.
fn size(value: Option<&str>, default: u64, step: u64) -> Result<ByteCount, String> {
    let bytes = value.map_or(Ok(default), |text| parse_bytes(text).map_err(|error| error.to_string()))?;
    if bytes < step || bytes % step > 0 {
        return Err(format!("write a multiple of {}", ByteCount(step).to_exact_text()));
    }
    if bytes > SIZE_MAX {
        return Err(format!("write at most {}", ByteCount(SIZE_MAX).to_exact_text()));
    }
    Ok(ByteCount(bytes))
}

fn number(value: Option<&str>, default: u32, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number = value.map_or(Some(default), |text| text.parse().ok());
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("write a whole number from {} to {}", range.start(), range.end()))
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

const KIM: &str = "Kim et al. (TOS 2012)";

/// All fixes, in the order of the printed list.
pub const FIXES: &[Fix] = &[
    Fix {
        name: "wal-normal",
        does: "SQLite in WAL mode with synchronous=NORMAL",
        loses: Loss::Recent("A power cut can lose the last transactions, never the database."),
        source: "SQLite's documentation",
        needs_hardware: false,
        real: Real::ByHand(
            "In the app, after each opening of the database: PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL. The file keeps the first setting only.",
        ),
        change: |setup, workload| each_database(setup, workload, Journal::Wal, Synchronous::Normal),
    },
    Fix {
        name: "wal-full",
        does: "SQLite in WAL mode, still synced at every commit",
        loses: Loss::Nothing,
        source: "SQLite's documentation",
        needs_hardware: false,
        real: Real::ByHand(
            "In the app, once for each database: PRAGMA journal_mode=WAL. The file keeps the setting.",
        ),
        change: |setup, workload| each_database(setup, workload, Journal::Wal, Synchronous::Full),
    },
    Fix {
        name: "cache-in-ram",
        does: "keeps the app's cache in memory",
        loses: Loss::Content("A power cut or reboot empties the cache."),
        source: KIM,
        needs_hardware: false,
        real: Real::ByHand(
            "Mount a tmpfs over the cache directory: mount -t tmpfs -o size=64M,uid=USER tmpfs CACHE. Add it to /etc/fstab to keep it after a reboot.",
        ),
        change: |setup, workload| move_place(setup, workload, "cache", Medium::Memory),
    },
    Fix {
        name: "db-in-ram",
        does: "keeps the app's databases in memory",
        loses: Loss::Content(
            "A power cut or reboot loses the databases. Use it only for data that can be fetched again.",
        ),
        source: KIM,
        needs_hardware: false,
        real: Real::ByHand(
            "In the app: open the database on a tmpfs (such as /dev/shm), and fill it again after each boot.",
        ),
        change: |setup, workload| move_place(setup, workload, "database", Medium::Memory),
    },
    Fix {
        name: "all-in-ram",
        does: "keeps everything in memory: shows the largest possible gain",
        loses: Loss::Content("A power cut or reboot loses everything: this is a bound, not a fix."),
        source: KIM,
        needs_hardware: false,
        real: Real::ByHand("This is the upper bound of any storage fix, not a setting."),
        change: |setup, workload| {
            for place in workload.ok_or(OF_PROGRAM)?.places.keys() {
                setup.moved.insert(place.clone(), Medium::Memory);
            }
            Ok(())
        },
    },
    Fix {
        name: "no-sync",
        does: "selective sync: no sync for databases and for files in `cache` and `database`",
        loses: Loss::Content("A power cut can corrupt them. Use it only for data that can be fetched again."),
        source: KIM,
        needs_hardware: false,
        real: Real::ByHand(
            "In the app, for databases that can be fetched again: PRAGMA synchronous=OFF, and delete them after an unclean shutdown.",
        ),
        change: |setup, workload| {
            let workload = workload.ok_or(OF_PROGRAM)?;
            let places = ["cache", "database"].map(str::to_owned);
            setup
                .overrides
                .no_sync_places
                .extend(places.into_iter().filter(|place| workload.places.contains_key(place)));
            setup.overrides.no_sync_databases.extend(workload.databases.keys().cloned());
            Ok(())
        },
    },
    Fix {
        name: "db-on-pcm",
        does: "databases on phase-change memory, as fast as this machine can emulate it",
        loses: Loss::Nothing,
        source: KIM,
        needs_hardware: true,
        real: Real::ByHand("This needs a second, faster device: mount it and open the database there."),
        change: |setup, workload| {
            setup.at_floor = true;
            move_place(setup, workload, "database", Medium::Profile("pcm".to_owned()))
        },
    },
    Fix {
        name: "pcm-buffer",
        does: "a write buffer of 16 MB of phase-change memory, as fast as this machine can emulate it",
        loses: Loss::Nothing,
        source: KIM,
        needs_hardware: true,
        real: Real::ByHand("This needs a device whose write cache survives a power cut."),
        change: |setup, _| {
            setup.at_floor = true;
            another_device(setup, |profile| format!("buffered:pcm+{profile}"))
        },
    },
    Fix {
        name: "raid0",
        does: "striped by 4 KiB over the device and the phone's internal flash",
        loses: Loss::Nothing,
        source: KIM,
        needs_hardware: true,
        real: Real::ByHand(
            "This needs a second device: mdadm --create /dev/md0 --level=0 --chunk=4 --raid-devices=2 DEVICE DEVICE. It destroys the data on both.",
        ),
        change: |setup, _| another_device(setup, |profile| format!("raid0:internal_2010+{profile}")),
    },
    Fix {
        name: "commit-30s",
        does: "ext4 commits its journal every 30 s instead of every 5 s",
        loses: Loss::Recent("A power cut can lose the last 30 s of unsynced data."),
        source: "ext4's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::CommitInterval(30), value)),
        change: |setup, _| {
            let has = |of| matches!(of, Filesystem::Ext4 | Filesystem::Ext3);
            mount_option(setup, "commit=30", has, Setting::CommitInterval(30))
        },
    },
    Fix {
        name: "noatime",
        does: "reading a file does not update its access time",
        loses: Loss::Nothing,
        source: "mount's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::NoAccessTimes, value)),
        change: |setup, _| {
            mount_option(setup, "noatime", Filesystem::has_access_times, Setting::NoAccessTimes)
        },
    },
    Fix {
        name: "bfq",
        does: "the scheduler BFQ",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::Scheduler("bfq".to_owned()), value)),
        change: |setup, _| scheduler(setup, "bfq"),
    },
    Fix {
        name: "mq-deadline",
        does: "the scheduler mq-deadline",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::Scheduler("mq-deadline".to_owned()), value)),
        change: |setup, _| scheduler(setup, "mq-deadline"),
    },
    Fix {
        name: "kyber",
        does: "the scheduler kyber",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::Scheduler("kyber".to_owned()), value)),
        change: |setup, _| scheduler(setup, "kyber"),
    },
    Fix {
        name: "read-ahead",
        does: "the kernel reads files ahead by 512 KiB, or by SIZE with read-ahead=SIZE",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| {
            // The kernel keeps it as a number of pages with 32 bits.
            let size = size(value, 512 << 10, 64 << 10)?;
            if size.0 > 1 << 30 { Err("write at most 1GiB".to_owned()) } else { Ok(Setting::ReadAhead(size)) }
        }),
        change: |setup, _| setting(setup, Setting::ReadAhead(ByteCount(512 << 10))),
    },
    Fix {
        name: "requests",
        does: "the kernel holds 16 requests of a device and direction, or N with requests=N, before it makes programs wait",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| number(value, 16, 4..=1024).map(Setting::QueueRequests)),
        change: |setup, _| setting(setup, Setting::QueueRequests(16)),
    },
    Fix {
        name: "dirty-limit",
        does: "programs wait for write-back at 32 MiB of dirty pages, or at SIZE with dirty-limit=SIZE, on the whole machine",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| size(value, 32 << 20, 1 << 20).map(Setting::DirtyLimit)),
        change: |setup, _| setting(setup, Setting::DirtyLimit(ByteCount(32 << 20))),
    },
    Fix {
        name: "swappiness",
        does: "the kernel drops cached files before it swaps out programs: 10, or N with swappiness=N, on the whole machine",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| number(value, 10, 0..=200).map(Setting::Swappiness)),
        change: |setup, _| setting(setup, Setting::Swappiness(10)),
    },
    Fix {
        name: "f2fs",
        does: "F2FS, a log-structured file system for flash; the device has to be reformatted",
        // fsync_mode=posix, and DEF_CP_INTERVAL of fs/f2fs/f2fs.h: 60 s, and later while the device is busy.
        loses: Loss::Recent(
            "A power cut loses no synced file, but can lose unsynced changes of about the last minute. Unlike on ext4, syncing one file does not make earlier renames of others durable.",
        ),
        source: "F2FS's documentation",
        needs_hardware: false,
        real: Real::ByHand(
            "Reformatting destroys the data on the device. Back them up, unmount the device, run mkfs.f2fs -f DEVICE, write the type f2fs into its line of /etc/fstab, mount it, and restore the data.",
        ),
        change: |setup, _| another_filesystem(setup, Filesystem::F2fs),
    },
    Fix {
        name: "nilfs2",
        does: "NILFS2, a log-structured file system with checkpoints, the device has to be reformatted",
        // A checkpoint every few seconds and at every sync, with order=relaxed and with order=strict; ext4's default
        // keeps unsynced data for longer.
        loses: Loss::Nothing,
        source: "NILFS2's documentation",
        needs_hardware: false,
        real: Real::ByHand(
            "Reformatting destroys the data on the device. Back them up, unmount the device, run mkfs.nilfs2 -f DEVICE, write the type nilfs2 into its line of /etc/fstab, mount it (which starts nilfs_cleanerd, the daemon that frees space), and restore the data.",
        ),
        change: |setup, _| another_filesystem(setup, Filesystem::Nilfs2),
    },
];

impl Fix {
    /// Returns the fix of this name. `device=PROFILE` is not in the list; [`Candidate`] has it.
    pub fn named(name: &str) -> Option<&'static Fix> {
        FIXES.iter().find(|fix| fix.name == name)
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
    /// [`ExperimentError::UnknownFix`], which lists the known fixes, and [`ExperimentError::NotApplicable`] for a value
    /// that the fix does not take.
    pub fn parse(text: &str) -> Result<Candidate, ExperimentError> {
        if let Some(profile) = text.strip_prefix("device=").filter(|profile| !profile.is_empty()) {
            return Ok(Candidate::Device(profile.to_owned()));
        }
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let fix = Fix::named(name).ok_or_else(|| ExperimentError::UnknownFix {
            name: name.to_owned(),
            known: FIXES.iter().map(|fix| fix.name).collect(),
        })?;
        let Some(value) = value else { return Ok(Candidate::Listed(fix)) };
        let setting = match fix.real {
            Real::Setting(setting) => setting(Some(value)),
            Real::ByHand(_) => Err("it takes no value".to_owned()),
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
            Candidate::Listed(fix) => (fix.change)(setup, workload),
            Candidate::WithValue { setting: with_value, .. } => setting(setup, with_value.clone()),
            Candidate::Device(profile) => another_device(setup, |_| profile.clone()),
        };
        changed
            .map_err(|reason| ExperimentError::NotApplicable { fix: self.name(), reason: reason.to_owned() })
    }
}

/// Why a fix cannot be tried with a command.
const OF_PROGRAM: &str = "it changes what a program does; with a command, only settings can be tried";

fn move_place(
    setup: &mut Setup,
    workload: Option<&Workload>,
    place: &str,
    medium: Medium,
) -> Result<(), &'static str> {
    if !workload.ok_or(OF_PROGRAM)?.places.contains_key(place) {
        return Err("the workload has no such directory");
    }
    setup.moved.insert(place.to_owned(), medium);
    Ok(())
}

fn each_database(
    setup: &mut Setup,
    workload: Option<&Workload>,
    journal: Journal,
    synchronous: Synchronous,
) -> Result<(), &'static str> {
    let workload = workload.ok_or(OF_PROGRAM)?;
    if workload.databases.is_empty() {
        return Err("the workload has no database");
    }
    for name in workload.databases.keys() {
        let change = setup.overrides.databases.entry(name.clone()).or_default();
        change.journal = Some(journal);
        change.synchronous = Some(synchronous);
    }
    Ok(())
}

fn another_device(setup: &mut Setup, profile: impl FnOnce(&str) -> String) -> Result<(), &'static str> {
    match &mut setup.storage {
        Storage::Profile(name) => {
            *name = profile(name);
            Ok(())
        }
        _ => Err("only an emulated device can be replaced"),
    }
}

/// Adds a mount option; in a directory, the setting of its mount that does the same.
fn mount_option(
    setup: &mut Setup,
    option: &str,
    has: fn(Filesystem) -> bool,
    same: Setting,
) -> Result<(), &'static str> {
    if !setup.owns_filesystem() {
        return setting(setup, same);
    }
    if !has(setup.filesystem) {
        return Err("the file system does not have this option");
    }
    setup.mount_options.push(option.to_owned());
    Ok(())
}

fn scheduler(setup: &mut Setup, name: &str) -> Result<(), &'static str> {
    if !setup.owns_filesystem() {
        return setting(setup, Setting::Scheduler(name.to_owned()));
    }
    setup.scheduler = Some(name.to_owned());
    Ok(())
}

fn setting(setup: &mut Setup, setting: Setting) -> Result<(), &'static str> {
    setup.settings.push(setting);
    Ok(())
}

fn another_filesystem(setup: &mut Setup, filesystem: Filesystem) -> Result<(), &'static str> {
    if !setup.owns_filesystem() {
        return Err("fonio does not format the device of a directory");
    }
    if !setup.mount_options.is_empty() {
        return Err("the mount options are those of another file system");
    }
    setup.filesystem = filesystem;
    Ok(())
}
