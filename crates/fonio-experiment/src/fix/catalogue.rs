//! Lists all fixes. Each setting is described in its own file of `fonio-host`; the other fixes are described
//! here.

use std::sync::LazyLock;

use fonio_host::{Filesystem, Group, Loss, Setting, SettingFix, Trial};
use fonio_workload::definition::{Journal, Synchronous};

use super::changes::{OF_PROGRAM, another_device, another_filesystem, each_database, move_place};
use super::{Change, Fix, Measured, Pragma, Real};
use crate::setup::{Medium, Storage};

/// What a power cut can lose with synchronous=NORMAL in any journal mode.
pub(super) const OF_NORMAL: Loss = Loss::Content(
    "With a write-ahead log, a power cut can lose the last transactions, never the database. With a rollback journal, it can in rare cases also corrupt the database.",
);
/// What a power cut can lose without a journal on the disk.
pub(super) const OF_NO_JOURNAL: Loss = Loss::Content(
    "A power cut or a killed program can corrupt the database. Use it only for data that can be fetched again.",
);
/// What a power cut can lose without syncs.
pub(super) const OF_NO_SYNC: Loss =
    Loss::Content("A power cut can corrupt these files. Use it only for data that can be fetched again.");

const KIM: &str = "Kim et al. (TOS 2012)";

/// All fixes, in the order in which they are listed to the user.
pub static FIXES: LazyLock<Vec<Fix>> =
    LazyLock::new(|| Setting::fixes().map(of_setting).chain(OTHERS.iter().copied()).collect());

fn of_setting(fix: &'static SettingFix) -> Fix {
    let SettingFix { name, changes, does, loses, source, trial, .. } = *fix;
    let real = if matches!(trial, Trial::Once(_)) { Real::Trim } else { Real::Setting(fix) };
    Fix { name, changes, does, loses, source, real, change: Change::Setting(trial) }
}

/// All fixes that do not change settings of this machine.
const OTHERS: &[Fix] = &[
    Fix {
        name: "wal-normal",
        changes: Group::Application,
        does: "runs SQLite in WAL mode with synchronous=NORMAL",
        loses: Loss::Recent("A power cut can lose the last transactions, never the database."),
        source: "SQLite's documentation",
        real: Real::ByHand(
            "In the app, after each opening of the database: PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL. `fonio fix apply wal-full DATABASE` sets the journal mode, which stays in the file; each connection must set `synchronous` itself.",
        ),
        change: Change::Databases(
            |change| {
                change.journal = Some(Journal::Wal);
                change.synchronous = Some(Synchronous::Normal);
            },
            None,
        ),
    },
    Fix {
        name: "journal-mode",
        changes: Group::Application,
        does: "SQLite keeps the file of its rollback journal and overwrites its header at each commit (PERSIST), or uses another mode with journal-mode=MODE",
        loses: Loss::Nothing,
        source: "SQLite's documentation",
        real: Real::ByHand(
            "In the app, after each opening of the database: PRAGMA journal_mode=PERSIST (or another mode). The file keeps only WAL, which `fonio fix apply wal-full DATABASE` sets.",
        ),
        change: Change::Databases(
            |change| change.journal = Some(Journal::Persist),
            Some(Pragma::JournalMode),
        ),
    },
    Fix {
        name: "synchronous",
        changes: Group::Application,
        does: "runs SQLite with synchronous=NORMAL in its present journal mode, or with another level with synchronous=LEVEL",
        loses: OF_NORMAL,
        source: "SQLite's documentation",
        real: Real::ByHand(
            "In the app, after each opening of the database: PRAGMA synchronous=NORMAL (or another level). The file does not keep this setting.",
        ),
        change: Change::Databases(
            |change| change.synchronous = Some(Synchronous::Normal),
            Some(Pragma::Synchronous),
        ),
    },
    Fix {
        name: "autocheckpoint",
        changes: Group::Application,
        does: "lets SQLite's write-ahead log grow to 4000 pages instead of 1000 before a checkpoint, or to N with autocheckpoint=N; the log becomes that much larger",
        loses: Loss::Nothing,
        source: "SQLite's documentation",
        real: Real::ByHand(
            "In the app, after each opening of the database: PRAGMA wal_autocheckpoint=4000 (or another number of pages). The file does not keep this setting, and it has no effect without a write-ahead log.",
        ),
        change: Change::Databases(|change| change.autocheckpoint = Some(4000), Some(Pragma::Autocheckpoint)),
    },
    Fix {
        name: "cache-in-ram",
        changes: Group::Application,
        does: "keeps the app's cache in memory",
        loses: Loss::Content("A power cut or reboot empties the cache."),
        source: KIM,
        real: Real::ByHand(
            "`fonio fix apply folder-in-ram CACHE --keep` keeps the cache directory in memory and saves it to storage from time to time. For a cache that is empty after each boot: mount -t tmpfs -o size=64M,uid=USER tmpfs CACHE, and the same in /etc/fstab.",
        ),
        change: Change::Setup(|setup, measured| move_place(setup, measured, "cache", Medium::Memory)),
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
        change: Change::Setup(|setup, measured| move_place(setup, measured, "database", Medium::Memory)),
    },
    Fix {
        name: "all-in-ram",
        changes: Group::Application,
        does: "keeps everything in memory, to show the largest possible gain",
        loses: Loss::Content("A power cut or reboot loses everything. This shows a limit; it is not a fix."),
        source: KIM,
        real: Real::ByHand("This shows the most that any storage fix can gain; there is nothing to set."),
        change: Change::Setup(|setup, measured| {
            for place in measured.workload().ok_or(OF_PROGRAM)?.places.keys() {
                setup.moved.insert(place.clone(), Medium::Memory);
            }
            Ok(())
        }),
    },
    Fix {
        name: "no-sync",
        changes: Group::Application,
        does: "skips all syncs of databases and of files in `cache` and `database`",
        loses: OF_NO_SYNC,
        source: KIM,
        real: Real::ByHand(
            "In the app, for databases that can be fetched again: PRAGMA synchronous=OFF, and delete them after an unclean shutdown.",
        ),
        change: Change::Setup(|setup, measured| {
            let Measured::Workload(workload) = measured else {
                return each_database(setup, measured, &|change| change.synchronous = Some(Synchronous::Off));
            };
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
        does: "puts databases on phase-change memory, emulated as fast as this machine can",
        loses: Loss::Nothing,
        source: KIM,
        real: Real::ByHand(
            "This needs a second, faster device: mount it, and move the folder of the database there (`fonio fix apply folder-on=DIR FOLDER`).",
        ),
        change: Change::Setup(|setup, measured| {
            setup.at_floor = true;
            move_place(setup, measured, "database", Medium::Profile("pcm".to_owned()))
        }),
    },
    Fix {
        name: "db-on-nilfs2",
        changes: Group::Filesystem,
        does: "puts databases on a partition of the same device with NILFS2, a log-structured file system",
        loses: Loss::Nothing,
        source: KIM,
        real: Real::ByHand(
            "This needs a free partition, whose data are destroyed: run mkfs.nilfs2 -f PARTITION, mount it (which starts nilfs_cleanerd, the daemon that frees space), and move the folder of the database there (`fonio fix apply folder-on=DIR FOLDER`).",
        ),
        change: Change::Setup(|setup, measured| {
            if !matches!(setup.storage, Storage::Profile(_)) {
                return Err("only an emulated device can be divided into partitions");
            }
            move_place(setup, measured, "database", Medium::Partition(Filesystem::Nilfs2))
        }),
    },
    Fix {
        name: "pcm-buffer",
        changes: Group::Device,
        does: "adds a 16 MB write buffer of phase-change memory, emulated as fast as this machine can",
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
        does: "stripes data over the device and the phone's internal flash, 4 KiB at a time; all data are lost if either fails, about twice the risk",
        loses: Loss::Nothing,
        source: KIM,
        real: Real::ByHand(
            "If either device fails, all data on both are lost. That is about twice the risk of one device: keep a backup. The second device should be as fast as the first: the slower one limits the array (`docs/runs-reference.md`). Back up the data and unmount both devices; mdadm --create /dev/md0 --level=0 --chunk=4 --raid-devices=2 DEVICE DEVICE destroys the data on both.",
        ),
        change: Change::Setup(|setup, _| {
            another_device(setup, |profile| format!("raid0:internal_2010+{profile}"))
        }),
    },
    Fix {
        name: "f2fs",
        changes: Group::Filesystem,
        does: "uses F2FS, a log-structured file system for flash; reformats the device",
        // This loss applies with fsync_mode=posix. DEF_CP_INTERVAL in fs/f2fs/f2fs.h is 60 s; while the
        // device is busy, F2FS delays checkpoints further.
        loses: Loss::Recent(
            "A power cut loses no synced file, but can lose about the last minute of unsynced changes. Unlike on ext4, syncing one file does not make earlier renames of other files durable.",
        ),
        source: "F2FS's documentation",
        real: Real::ByHand(
            "Reformatting destroys the data on the device. Back them up, unmount the device, run mkfs.f2fs -f DEVICE, set the type f2fs in its line of /etc/fstab, mount it, and restore the data.",
        ),
        change: Change::Setup(|setup, _| another_filesystem(setup, Filesystem::F2fs)),
    },
    Fix {
        name: "nilfs2",
        changes: Group::Filesystem,
        does: "uses NILFS2, a log-structured file system with checkpoints; reformats the device",
        // NILFS2 writes a checkpoint every few seconds and at every sync, with order=relaxed or order=strict.
        // By default, ext4 keeps unsynced data in memory longer.
        loses: Loss::Nothing,
        source: "NILFS2's documentation",
        real: Real::ByHand(
            "Reformatting destroys the data on the device. Back them up, unmount the device, run mkfs.nilfs2 -f DEVICE, set the type nilfs2 in its line of /etc/fstab, mount it (which starts nilfs_cleanerd, the daemon that frees space), and restore the data.",
        ),
        change: Change::Setup(|setup, _| another_filesystem(setup, Filesystem::Nilfs2)),
    },
];
