//! The list of fixes.

use fonio_core::ByteCount;
use fonio_host::{Concurrency, Filesystem, SMARTIO, Setting};
use fonio_workload::definition::{Journal, Synchronous};

use super::changes::*;
use super::values::{class, fixed, hot_range, number, seconds, size};
use super::{Fix, Group, Loss, Real};
use crate::setup::Medium;

const KIM: &str = "Kim et al. (TOS 2012)";

/// Android's `system/core/rootdir/init.rc` sets it for internal flash, "to avoid long IO latency".
const DISCARD: ByteCount = ByteCount(128 << 20);

/// All fixes, in the order of the printed list.
pub const FIXES: &[Fix] = &[
    Fix {
        name: "wal-normal",
        changes: Group::Application,
        does: "SQLite in WAL mode with synchronous=NORMAL",
        loses: Loss::Recent("A power cut can lose the last transactions, never the database."),
        source: "SQLite's documentation",
        needs_hardware: false,
        real: Real::ByHand(
            "In the app, after each opening of the database: PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL. The file keeps the first setting only, which `fonio fix wal-full --apply DATABASE` makes; the second is each connection's own.",
        ),
        change: |setup, workload| each_database(setup, workload, Journal::Wal, Synchronous::Normal),
    },
    Fix {
        name: "wal-full",
        changes: Group::Application,
        does: "SQLite in WAL mode, still synced at every commit",
        loses: Loss::Nothing,
        source: "SQLite's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::WriteAheadLog, value)),
        change: |setup, workload| each_database(setup, workload, Journal::Wal, Synchronous::Full),
    },
    Fix {
        name: "cache-in-ram",
        changes: Group::Application,
        does: "keeps the app's cache in memory",
        loses: Loss::Content("A power cut or reboot empties the cache."),
        source: KIM,
        needs_hardware: false,
        real: Real::ByHand(
            "`fonio fix folder-in-ram --keep CACHE` keeps the cache directory in memory and writes it out now and then. To lose it at each boot instead: mount -t tmpfs -o size=64M,uid=USER tmpfs CACHE, and the same in /etc/fstab.",
        ),
        change: |setup, workload| move_place(setup, workload, "cache", Medium::Memory),
    },
    Fix {
        name: "db-in-ram",
        changes: Group::Application,
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
        changes: Group::Application,
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
        changes: Group::Application,
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
        name: "sync-policy",
        changes: Group::Application,
        does: "syncs a unit's databases of SQLite as the policy in /etc/fonio/sync-policy.toml says, without changing its programs: each is durable, ordered or a cache (`docs/sync-policy.md`)",
        loses: Loss::Content(
            "A power cut loses what the policy allows: of ordered databases the transactions of one window, caches entirely, of durable ones nothing.",
        ),
        source: KIM,
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::SyncPolicy, value)),
        change: |_, _| Err(OF_SERVICES),
    },
    Fix {
        name: "db-on-pcm",
        changes: Group::Device,
        does: "databases on phase-change memory, as fast as this machine can emulate it",
        loses: Loss::Nothing,
        source: KIM,
        needs_hardware: true,
        real: Real::ByHand(
            "This needs a second, faster device: mount it, and move the folder of the database there (`fonio fix folder-on=DIR --apply FOLDER`).",
        ),
        change: |setup, workload| {
            setup.at_floor = true;
            move_place(setup, workload, "database", Medium::Profile("pcm".to_owned()))
        },
    },
    Fix {
        name: "pcm-buffer",
        changes: Group::Device,
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
        changes: Group::Device,
        does: "striped by 4 KiB over the device and the phone's internal flash; about twice the risk, as all data are lost if one of the two fails",
        loses: Loss::Nothing,
        source: KIM,
        needs_hardware: true,
        real: Real::ByHand(
            "If one of the two devices fails, all data on both are lost, so the risk is about twice that of one device: keep a backup. The second device should be as fast as the first, because the slower one decides how fast the array is (`docs/runs.md`). Back the data up, and unmount both devices; mdadm --create /dev/md0 --level=0 --chunk=4 --raid-devices=2 DEVICE DEVICE destroys the data on both.",
        ),
        change: |setup, _| another_device(setup, |profile| format!("raid0:internal_2010+{profile}")),
    },
    Fix {
        name: "commit-30s",
        changes: Group::Filesystem,
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
        changes: Group::Filesystem,
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
        name: "smartio",
        changes: Group::Scheduler,
        does: "the scheduler SmartIO, a module that comes with fonio's sources: reads go before writes, and writes wait for a bounded time",
        loses: Loss::Nothing,
        source: "Nguyen et al. (MobiSys 2015)",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::Scheduler(SMARTIO.to_owned()), value)),
        change: |setup, _| scheduler(setup, SMARTIO),
    },
    Fix {
        name: "concurrency",
        changes: Group::Scheduler,
        does: "limits how many requests of each kind the scheduler SmartIO has in flight: `concurrency=2,4,4,2` for sequential reads, random reads, sequential writes and random writes; `fonio bench concurrency` finds the numbers, and without them there is no limit",
        loses: Loss::Nothing,
        source: "Nguyen et al. (MobiSys 2015)",
        needs_hardware: false,
        real: Real::Setting(|value| {
            value.map_or(Ok(Concurrency::UNLIMITED), str::parse).map(Setting::Concurrency)
        }),
        change: |setup, _| concurrency(setup),
    },
    Fix {
        name: "bfq",
        changes: Group::Scheduler,
        does: "the scheduler BFQ",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::Scheduler("bfq".to_owned()), value)),
        change: |setup, _| scheduler(setup, "bfq"),
    },
    Fix {
        name: "mq-deadline",
        changes: Group::Scheduler,
        does: "the scheduler mq-deadline",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::Scheduler("mq-deadline".to_owned()), value)),
        change: |setup, _| scheduler(setup, "mq-deadline"),
    },
    Fix {
        name: "kyber",
        changes: Group::Scheduler,
        does: "the scheduler kyber",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::Scheduler("kyber".to_owned()), value)),
        change: |setup, _| scheduler(setup, "kyber"),
    },
    Fix {
        name: "io-cost",
        changes: Group::Scheduler,
        does: "switches on the kernel's controller io.cost for a disk, so that I/O weights (`io-weight`) act under every scheduler; its model of the disk is the kernel's own",
        loses: Loss::Nothing,
        source: "the kernel's documentation (cgroup-v2)",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::IoCost, value)),
        change: |_, _| Err(OF_WEIGHTS),
    },
    Fix {
        name: "read-ahead",
        changes: Group::Scheduler,
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
        changes: Group::Scheduler,
        does: "the kernel holds 16 requests of a device and direction, or N with requests=N, before it makes programs wait",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| number(value, 16, 4..=1024).map(Setting::QueueRequests)),
        change: |setup, _| setting(setup, Setting::QueueRequests(16)),
    },
    Fix {
        name: "request-size",
        changes: Group::Scheduler,
        does: "the kernel makes requests of at most 64 KiB, or of SIZE with request-size=SIZE: a read waits less for a large write before it, and bulk copies are somewhat slower",
        loses: Loss::Nothing,
        source: "ours: docs/scheduler.md, \"Where it does not help\"",
        needs_hardware: false,
        real: Real::Setting(|value| size(value, 64 << 10, 4 << 10).map(Setting::RequestSize)),
        change: |setup, _| setting(setup, Setting::RequestSize(ByteCount(64 << 10))),
    },
    Fix {
        name: "discard-size",
        changes: Group::Scheduler,
        does: "the kernel discards at most 128 MiB at once, or SIZE with discard-size=SIZE, so that reads and writes wait less for a discard",
        loses: Loss::Nothing,
        source: "the kernel's documentation (discard_max_bytes); the size is that of Android's init.rc",
        needs_hardware: false,
        real: Real::Setting(|value| size(value, DISCARD.0, 4 << 10).map(Setting::DiscardSize)),
        change: |setup, _| discards(setup, Setting::DiscardSize(DISCARD)),
    },
    Fix {
        name: "dirty-limit",
        changes: Group::Memory,
        does: "programs wait for write-back at 32 MiB of dirty pages, or at SIZE with dirty-limit=SIZE, on the whole machine",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| size(value, 32 << 20, 1 << 20).map(Setting::DirtyLimit)),
        change: |setup, _| setting(setup, Setting::DirtyLimit(ByteCount(32 << 20))),
    },
    Fix {
        name: "swappiness",
        changes: Group::Memory,
        does: "the kernel drops cached files before it swaps out programs: 10, or N with swappiness=N, on the whole machine",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| number(value, 10, 0..=200).map(Setting::Swappiness)),
        change: |setup, _| setting(setup, Setting::Swappiness(10)),
    },
    Fix {
        name: "lazytime",
        changes: Group::Filesystem,
        does: "changed times of a file stay in memory until it is synced, at most for a day",
        loses: Loss::Recent(
            "A power cut can lose the access and change times of the last day; the data are as safe as before.",
        ),
        source: "mount's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::LazyTimes, value)),
        change: |setup, _| mount_option(setup, "lazytime", |_| true, Setting::LazyTimes),
    },
    Fix {
        name: "fstrim",
        changes: Group::Filesystem,
        does: "tells the device which blocks the file system does not use: --apply once, --keep weekly",
        loses: Loss::Nothing,
        source: "util-linux's documentation",
        needs_hardware: false,
        real: Real::Trim,
        change: |_, _| {
            Err("it changes the device, which cannot be undone, so runs without it could not follow")
        },
    },
    Fix {
        name: "journald-in-ram",
        changes: Group::Logs,
        does: "journald keeps its logs in memory, in at most 64 MiB, or SIZE with journald-in-ram=SIZE",
        loses: Loss::Recent("A power cut or reboot loses the logs since boot; earlier ones stay on disk."),
        source: "systemd's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| size(value, 64 << 20, 1 << 20).map(Setting::JournalInRam)),
        change: |_, _| Err(OF_SERVICES),
    },
    Fix {
        name: "journald-sync",
        changes: Group::Logs,
        does: "journald syncs its logs every 30 minutes instead of every 5, or every TIME with journald-sync=TIME",
        loses: Loss::Recent(
            "A power cut can lose the logs of that time; journald still syncs at once after critical ones.",
        ),
        source: "systemd's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| seconds(value, 1800, 1..=86_400).map(Setting::JournalSync)),
        change: |_, _| Err(OF_SERVICES),
    },
    Fix {
        name: "folder-in-ram",
        changes: Group::Logs,
        does: "keeps a folder such as /var/log in at most 64 MiB of memory, or SIZE with folder-in-ram=SIZE; written out to the disk every hour, at shutdown and on --undo",
        loses: Loss::Recent(
            "A power cut loses what was written to the folder since the last write-out, synced or not; each file on the disk is as it was then.",
        ),
        source: "log2ram",
        needs_hardware: false,
        real: Real::Setting(|value| {
            size(value, 64 << 20, 1 << 20).map(|size| Setting::FolderInRam { size, despite_writers: false })
        }),
        change: |_, _| Err(OF_FOLDERS),
    },
    Fix {
        name: "folder-on",
        changes: Group::Filesystem,
        does: "moves a folder's content to an empty folder on another device: `folder-on=/mnt/ssd/app`; --undo copies it back",
        loses: Loss::Nothing,
        source: "mount's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| {
            let to = value.map(std::path::PathBuf::from);
            match to {
                Some(to) if !to.is_absolute() => Err("write the complete path of a folder".to_owned()),
                to => Ok(Setting::FolderOn { to, despite_writers: false }),
            }
        }),
        change: |_, _| Err(OF_FOLDERS),
    },
    Fix {
        name: "hot-range",
        changes: Group::Filesystem,
        does: "moves a folder's content to an image file of SIZE on its own device, `hot-range=16MiB`, so that writes to its files and their metadata stay within one range; each sync then writes the journal of the file system below, too; `fonio bench address-range` measures over which range a card is fast; --undo copies the content back",
        loses: Loss::Nothing,
        source: KIM,
        needs_hardware: false,
        real: Real::Setting(hot_range),
        change: range,
    },
    Fix {
        name: "bfuse",
        changes: Group::Filesystem,
        does: "mounts fonio's FUSE file system over a folder, whose write buffer merges small writes (`docs/bfuse.md`)",
        loses: Loss::Recent(
            "A power cut loses no synced data, and of others as much as before; a crash of its process loses unsynced data of the last 10 ms, or of the time while the device was busy, at most 8 MiB.",
        ),
        source: "Jeong and Won (2014)",
        needs_hardware: false,
        real: Real::Setting(|value| fixed(Setting::Buffered, value)),
        change: |_, _| Err(OF_FOLDERS),
    },
    Fix {
        name: "io-weight",
        changes: Group::Unit,
        does: "a unit gets a smaller share of busy disks: the weight 50, or N with io-weight=N; all others have 100",
        loses: Loss::Nothing,
        source: "systemd's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| number(value, 50, 1..=1000).map(Setting::IoWeight)),
        change: |_, _| Err(OF_SERVICES),
    },
    Fix {
        name: "io-max",
        changes: Group::Unit,
        does: "a unit reads and writes at most 10 MiB/s on each disk, or SIZE per second with io-max=SIZE",
        loses: Loss::Nothing,
        source: "systemd's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| size(value, 10 << 20, 64 << 10).map(Setting::IoLimit)),
        change: |_, _| Err(OF_SERVICES),
    },
    Fix {
        name: "io-class",
        changes: Group::Unit,
        does: "a unit's I/O waits until nobody else has any: the class idle; or the usual one with io-class=best-effort",
        loses: Loss::Nothing,
        source: "systemd's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| class(value).map(Setting::IoClass)),
        change: |_, _| Err(OF_SERVICES),
    },
    Fix {
        name: "swap-in-ram",
        changes: Group::Memory,
        does: "swaps to compressed memory (zram) first: half of the memory, or SIZE with swap-in-ram=SIZE",
        loses: Loss::Nothing,
        source: "the kernel's documentation",
        needs_hardware: false,
        real: Real::Setting(|value| {
            let size = value.map(|_| size(value, 0, 1 << 20)).transpose()?;
            Ok(Setting::SwapInRam(size))
        }),
        change: |setup, _| setting(setup, Setting::SwapInRam(None)),
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
        needs_hardware: false,
        real: Real::ByHand(
            "Reformatting destroys the data on the device. Back them up, unmount the device, run mkfs.f2fs -f DEVICE, write the type f2fs into its line of /etc/fstab, mount it, and restore the data.",
        ),
        change: |setup, _| another_filesystem(setup, Filesystem::F2fs),
    },
    Fix {
        name: "nilfs2",
        changes: Group::Filesystem,
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
