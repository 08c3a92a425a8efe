//! The list of fixes: the settings, each with its words in its own file of `fonio-host`, and the others here.

use std::sync::LazyLock;

use fonio_host::{Filesystem, Group, Loss, Setting, SettingFix, Trial};
use fonio_workload::definition::{Journal, Synchronous};

use super::changes::{OF_PROGRAM, another_device, another_filesystem, each_database, move_place};
use super::{Change, Fix, Real};
use crate::setup::Medium;

const KIM: &str = "Kim et al. (TOS 2012)";

/// All fixes, in the order of the printed list.
pub static FIXES: LazyLock<Vec<Fix>> =
    LazyLock::new(|| Setting::fixes().map(of_setting).chain(OTHERS.iter().copied()).collect());

fn of_setting(fix: &'static SettingFix) -> Fix {
    let SettingFix { name, changes, does, loses, source, trial, .. } = *fix;
    let real = if matches!(trial, Trial::Once(_)) { Real::Trim } else { Real::Setting(fix) };
    Fix { name, changes, does, loses, source, real, change: Change::Setting(trial) }
}

/// The fixes that are not settings of this machine.
const OTHERS: &[Fix] = &[
    Fix {
        name: "wal-normal",
        changes: Group::Application,
        does: "SQLite in WAL mode with synchronous=NORMAL",
        loses: Loss::Recent("A power cut can lose the last transactions, never the database."),
        source: "SQLite's documentation",
        real: Real::ByHand(
            "In the app, after each opening of the database: PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL. The file keeps the first setting only, which `fonio fix apply wal-full DATABASE` makes; the second is each connection's own.",
        ),
        change: Change::Setup(|setup, workload| {
            each_database(setup, workload, Journal::Wal, Synchronous::Normal)
        }),
    },
    Fix {
        name: "cache-in-ram",
        changes: Group::Application,
        does: "keeps the app's cache in memory",
        loses: Loss::Content("A power cut or reboot empties the cache."),
        source: KIM,
        real: Real::ByHand(
            "`fonio fix apply folder-in-ram CACHE --keep` keeps the cache directory in memory and writes it out now and then. To lose it at each boot instead: mount -t tmpfs -o size=64M,uid=USER tmpfs CACHE, and the same in /etc/fstab.",
        ),
        change: Change::Setup(|setup, workload| move_place(setup, workload, "cache", Medium::Memory)),
    },
    Fix {
        name: "db-in-ram",
        changes: Group::Application,
        does: "keeps the app's databases in memory",
        loses: Loss::Content(
            "A power cut or reboot loses the databases. Use it only for data that can be fetched again.",
        ),
        source: KIM,
        real: Real::ByHand(
            "In the app: open the database on a tmpfs (such as /dev/shm), and fill it again after each boot.",
        ),
        change: Change::Setup(|setup, workload| move_place(setup, workload, "database", Medium::Memory)),
    },
    Fix {
        name: "all-in-ram",
        changes: Group::Application,
        does: "keeps everything in memory: shows the largest possible gain",
        loses: Loss::Content("A power cut or reboot loses everything: this is a bound, not a fix."),
        source: KIM,
        real: Real::ByHand("This is the upper bound of any storage fix, not a setting."),
        change: Change::Setup(|setup, workload| {
            for place in workload.ok_or(OF_PROGRAM)?.places.keys() {
                setup.moved.insert(place.clone(), Medium::Memory);
            }
            Ok(())
        }),
    },
    Fix {
        name: "no-sync",
        changes: Group::Application,
        does: "selective sync: no sync for databases and for files in `cache` and `database`",
        loses: Loss::Content("A power cut can corrupt them. Use it only for data that can be fetched again."),
        source: KIM,
        real: Real::ByHand(
            "In the app, for databases that can be fetched again: PRAGMA synchronous=OFF, and delete them after an unclean shutdown.",
        ),
        change: Change::Setup(|setup, workload| {
            let workload = workload.ok_or(OF_PROGRAM)?;
            let places = ["cache", "database"].map(str::to_owned);
            setup
                .overrides
                .no_sync_places
                .extend(places.into_iter().filter(|place| workload.places.contains_key(place)));
            setup.overrides.no_sync_databases.extend(workload.databases.keys().cloned());
            Ok(())
        }),
    },
    Fix {
        name: "db-on-pcm",
        changes: Group::Device,
        does: "databases on phase-change memory, as fast as this machine can emulate it",
        loses: Loss::Nothing,
        source: KIM,
        real: Real::ByHand(
            "This needs a second, faster device: mount it, and move the folder of the database there (`fonio fix apply folder-on=DIR FOLDER`).",
        ),
        change: Change::Setup(|setup, workload| {
            setup.at_floor = true;
            move_place(setup, workload, "database", Medium::Profile("pcm".to_owned()))
        }),
    },
    Fix {
        name: "pcm-buffer",
        changes: Group::Device,
        does: "a write buffer of 16 MB of phase-change memory, as fast as this machine can emulate it",
        loses: Loss::Nothing,
        source: KIM,
        real: Real::ByHand("This needs a device whose write cache survives a power cut."),
        change: Change::Setup(|setup, _| {
            setup.at_floor = true;
            another_device(setup, |profile| format!("buffered:pcm+{profile}"))
        }),
    },
    Fix {
        name: "raid0",
        changes: Group::Device,
        does: "striped by 4 KiB over the device and the phone's internal flash; about twice the risk, as all data are lost if one of the two fails",
        loses: Loss::Nothing,
        source: KIM,
        real: Real::ByHand(
            "If one of the two devices fails, all data on both are lost, so the risk is about twice that of one device: keep a backup. The second device should be as fast as the first, because the slower one decides how fast the array is (`docs/runs-reference.md`). Back the data up, and unmount both devices; mdadm --create /dev/md0 --level=0 --chunk=4 --raid-devices=2 DEVICE DEVICE destroys the data on both.",
        ),
        change: Change::Setup(|setup, _| {
            another_device(setup, |profile| format!("raid0:internal_2010+{profile}"))
        }),
    },
    Fix {
        name: "f2fs",
        changes: Group::Filesystem,
        does: "F2FS, a log-structured file system for flash; the device has to be reformatted",
        // fsync_mode=posix, and DEF_CP_INTERVAL of fs/f2fs/f2fs.h: 60 s, and later while the device is busy.
        loses: Loss::Recent(
            "A power cut loses no synced file, but can lose unsynced changes of about the last minute. Unlike on ext4, syncing one file does not make earlier renames of others durable.",
        ),
        source: "F2FS's documentation",
        real: Real::ByHand(
            "Reformatting destroys the data on the device. Back them up, unmount the device, run mkfs.f2fs -f DEVICE, write the type f2fs into its line of /etc/fstab, mount it, and restore the data.",
        ),
        change: Change::Setup(|setup, _| another_filesystem(setup, Filesystem::F2fs)),
    },
    Fix {
        name: "nilfs2",
        changes: Group::Filesystem,
        does: "NILFS2, a log-structured file system with checkpoints, the device has to be reformatted",
        // A checkpoint every few seconds and at every sync, with order=relaxed and with order=strict; ext4's default
        // keeps unsynced data for longer.
        loses: Loss::Nothing,
        source: "NILFS2's documentation",
        real: Real::ByHand(
            "Reformatting destroys the data on the device. Back them up, unmount the device, run mkfs.nilfs2 -f DEVICE, write the type nilfs2 into its line of /etc/fstab, mount it (which starts nilfs_cleanerd, the daemon that frees space), and restore the data.",
        ),
        change: Change::Setup(|setup, _| another_filesystem(setup, Filesystem::Nilfs2)),
    },
];
