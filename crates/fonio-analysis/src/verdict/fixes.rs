//! Provides the words for fixes: the command that applies a change on the recorded machine, or advice if no
//! command is known. A word is absent if its change is already in force (scheduler, read-ahead, commit
//! interval, access times, discards). Words for a unit are absent if the recorded scheduler ignores units'
//! I/O settings.

use fonio_core::Content;

use super::advice;
use crate::analyser::questions::Analysis;
use crate::device::info::DeviceInfo;
use crate::figures::facts::Facts;
use crate::over_time::series::Series;

/// Schedulers that put reads before writes, or limit writes that nobody waits for.
const PREFER_READS: [&str; 3] = ["bfq", "mq-deadline", "kyber"];
/// The scheduler that puts synchronous writes before write-back. Others tell only reads from writes.
const PREFERS_SYNC: &str = "bfq";
/// A scheduler that prefers reads and also delays writes briefly after a read, because another read often
/// follows. This scheduler is not part of Linux, so it is offered only if the recorded machine has it.
const ISOLATES_READS: &str = "smartio";
/// Schedulers that respect a unit's I/O class, and the scheduler that respects a unit's weight.
const HEED_CLASSES: [&str; 3] = ["bfq", "mq-deadline", ISOLATES_READS];
const HEEDS_WEIGHTS: &str = "bfq";
/// The advice for a device with an unknown scheduler.
const HEEDED: &str = "`ionice -c idle`, which the schedulers bfq and mq-deadline heed";
/// Maximum read-ahead that a fix sets; a larger read-ahead hardly helps.
const READ_AHEAD_KB: u32 = 512;
/// Minimum share of the evidence on one device for a fix to name this device.
const EVIDENCE_FROM: f64 = 0.9;
const SECOND_NS: u64 = 1_000_000_000;
/// Dirty-page limit in MiB if the device's write rate is unknown, and the bounds of the limit. With a lower
/// limit, write-back cannot combine writes; a higher limit does not help with 1 GiB of memory.
const DIRTY_MIB_DEFAULT: u64 = 32;
const DIRTY_MIB: (u64, u64) = (8, 256);
const JOURNAL: &str = "-journal";
/// Advice for a database that already has a write-ahead log.
const WAL_SYNC: &str = "If `PRAGMA synchronous` is FULL, set it to NORMAL: SQLite then syncs the write-ahead log only at \
                        checkpoints. A power cut may lose the last transactions.";

pub(super) fn put(facts: &mut Facts, analysis: &Analysis) {
    let devices = Devices(&analysis.devices);
    schedulers(facts, &devices.waited_for(facts));
    let read = devices.with_most(|device| device.read_bytes.0);
    match (node(&read), read.read_ahead_kb) {
        (_, Some(READ_AHEAD_KB..)) => {}
        (Some(node), Some(now)) => {
            facts.word("fix.read_ahead", &format!("{} (now {now} KiB)", command("read-ahead=512KiB", &node)));
        }
        _ => facts.word("fix.read_ahead", "512 KiB or more in /sys/block/DEVICE/queue/read_ahead_kb"),
    }
    match node(&devices.with_most(|device| device.requests)) {
        Some(node) => facts.word("fix.requests", &command("requests=16", &node)),
        None => facts.word("fix.requests", "a smaller /sys/block/DEVICE/queue/nr_requests"),
    }
    let is_zram = |device: &DeviceInfo| device.name.as_ref().is_some_and(|name| name.starts_with("zram"));
    if !analysis.devices.iter().any(is_zram) {
        facts.word("fix.swap", "`fonio fix apply swap-in-ram`");
    }
    facts.word("fix.dirty_limit", &dirty_limit(&analysis.series));
    mounts(facts, &devices.with_most(|device| device.write_bytes.0));
    if let Some(folder) = facts.words.get("files.log_folder").cloned() {
        facts.word("fix.log_folder", &command("folder-in-ram", &folder));
    }
    if !facts.words.contains_key("victim.program") {
        facts.word("fix.find_writer", "see the process table");
    }
    if let Some(dir) = facts.words.get("victim.mount").cloned() {
        facts.word("fix.victim_noatime", &command("noatime", &dir));
    }
    // A write-ahead log needs shared memory, which a FUSE file system may lack.
    let is_through_fuse = facts.value("victim.through_fuse").is_some_and(|is| is > 0.0);
    let database = Database::of(facts, analysis).filter(|_| !is_through_fuse);
    let is_database = database.is_some();
    if let Some(database) = database {
        facts.word("fix.transactions", "Commit several changes in one transaction.");
        match database {
            Database::Rollback(Some(path)) if !is_on_test_bed(&path) => {
                facts.word("fix.database", &command("wal-full", &path));
            }
            Database::Wal => facts.word("fix.wal_sync", WAL_SYNC),
            Database::Rollback(_) => {
                facts.word("fix.database", "`PRAGMA journal_mode = WAL` in each database");
            }
            Database::Unknown => {}
        }
    }
    // Advice for the program replaces the general advice, which would be wrong for umount, for example.
    let advice = advice::for_program(facts);
    if advice.is_empty() && !is_database {
        facts.word("fix.sync_less", "Sync less often where losing the last seconds is acceptable.");
    }
    if advice.is_empty() {
        facts.word("fix.write_more", "Write more at once.");
        facts.word(
            "fix.leave_to_kernel",
            "Leave the writing to the kernel where the last seconds may be lost: without O_SYNC, O_DIRECT or the mount \
             option `sync`.",
        );
    }
    for (kind, text) in advice {
        facts.word(advice::word(*kind), text);
    }
}

/// The devices of the recording. Each fix is for the device to which the evidence for this fix belongs.
struct Devices<'a>(&'a [DeviceInfo]);

impl Devices<'_> {
    /// Returns the device to which at least nine tenths of `amount` belong, or, without such a device, a
    /// device about which nothing is known.
    fn with_most(&self, amount: fn(&DeviceInfo) -> u64) -> DeviceInfo {
        // In a hostile recording, this sum and those below can exceed 64 bits.
        let all = self.0.iter().map(amount).fold(0, u64::saturating_add);
        if all == 0 && self.0.len() == 1 {
            return self.0[0].clone();
        }
        let most =
            self.0.iter().find(|device| all > 0 && amount(device) as f64 >= EVIDENCE_FROM * all as f64);
        most.cloned().unwrap_or_default()
    }

    /// Returns the device for which the blocked program waited. If this device is unknown, returns the device
    /// to which nearly all requests went.
    fn waited_for(&self, facts: &Facts) -> DeviceInfo {
        match facts.words.get("victim.device") {
            Some(name) => self.0.iter().find(|device| device.shown() == name).cloned().unwrap_or_default(),
            None => self.with_most(|device| device.requests),
        }
    }
}

/// Returns the device file, if the device's name is known.
fn node(device: &DeviceInfo) -> Option<String> {
    device.name.as_ref().map(|name| format!("/dev/{name}"))
}

/// Returns whether a file is on a device that fonio mounts for a run only, such as `/run/fonio/812-1.mount4`. No
/// command can change this file later.
fn is_on_test_bed(path: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // The folder that stands for the data of a real program (`fonio run app:NAME`).
    path.starts_with("/run/fonio/data/")
        || path.split('/').any(|part| {
            let Some((owner, number)) = part.split_once(".mount") else { return false };
            is_number(number)
                && owner.split_once('-').is_some_and(|(process, step)| is_number(process) && is_number(step))
        })
}

fn command(fix: &str, of: &str) -> String {
    format!("`fonio fix apply {fix} {}`", quoted(of))
}

/// Adds the fixes that depend on a device's scheduler.
fn schedulers(facts: &mut Facts, device: &DeviceInfo) {
    let can_have =
        |name: &&&str| device.schedulers.is_empty() || device.schedulers.iter().any(|has| has == **name);
    let best = PREFER_READS.iter().find(can_have);
    let node = node(device);
    let another = |name: &str| match (&node, device.scheduler.as_deref()) {
        (Some(node), Some(now)) => format!("{} (it has {now} now)", command(name, node)),
        _ => "bfq or mq-deadline".to_owned(),
    };
    let now = device.scheduler.as_deref();
    let scheduler = match (now, best) {
        (Some(now), _) if PREFER_READS.contains(&now) || now == ISOLATES_READS => None,
        (_, best) => best.map(|best| another(best)),
    };
    if let Some(words) = &scheduler {
        facts.word("fix.scheduler", words);
    }
    if now.is_none_or(|now| ![PREFERS_SYNC, ISOLATES_READS].contains(&now)) && can_have(&&PREFERS_SYNC) {
        let is_named = node.is_some() && now.is_some();
        let words = if is_named { another(PREFERS_SYNC) } else { PREFERS_SYNC.to_owned() };
        facts.word("fix.sync_scheduler", &words);
    }
    let isolates = device.schedulers.iter().any(|name| name == ISOLATES_READS);
    match now {
        Some(ISOLATES_READS) => {}
        Some(_) if isolates && node.is_some() => facts.word("fix.read_scheduler", &another(ISOLATES_READS)),
        _ => {
            if let Some(words) = &scheduler {
                facts.word("fix.read_scheduler", words);
            }
            writers_class(facts, now, best.copied());
        }
    }
    match now {
        Some(name) if HEED_CLASSES.contains(&name) => facts.word("fix.ionice", "`ionice -c idle`"),
        Some(_) => {}
        None => facts.word("fix.ionice", HEEDED),
    }
    // The unit whose requests delayed the program, if that unit may be slowed down.
    let Some(unit) =
        facts.words.get("victim.culprit_unit").filter(|unit| unit.ends_with(".service")).cloned()
    else {
        return;
    };
    if now.is_some_and(|name| HEED_CLASSES.contains(&name)) {
        facts.word("fix.unit_class", &command("io-class=idle", &unit));
    }
    if now == Some(HEEDS_WEIGHTS) {
        facts.word("fix.unit_weight", &command("io-weight=50", &unit));
    }
}

/// Adds the fixes for file systems on the device to which most data was written.
fn mounts(facts: &mut Facts, device: &DeviceInfo) {
    if let Some(dir) = &device.commits_often {
        facts.word("fix.commit", &command("commit-30s", dir));
    }
    if let Some(dir) = &device.writes_access_times {
        facts.word(
            "fix.access_times",
            &format!("{} or {}", command("noatime", dir), command("lazytime", dir)),
        );
    }
    if let Some(dir) = &device.without_discard {
        facts.word("fix.trim", &command("fstrim", dir));
    }
}

/// An SQLite database for which the program waited, or to which most synchronous writes went, by its journal
/// mode.
enum Database {
    /// A mode with a rollback journal, with the database's path if it is known.
    Rollback(Option<String>),
    Wal,
    Unknown,
}

impl Database {
    /// Returns `None` if nothing shows that the data belongs to SQLite.
    fn of(facts: &Facts, analysis: &Analysis) -> Option<Database> {
        let word = |name: &str| facts.words.get(name).map(String::as_str);
        if word("victim.program").is_none() {
            return Database::of_writes(analysis);
        }
        let content = word("victim.file_content").and_then(Content::from_name).unwrap_or_default();
        let journal = word("victim.journal").or_else(|| {
            let has_any_kind = matches!(content, Content::Unknown | Content::SqliteJournal);
            word("victim.file").filter(|path| path.ends_with(JOURNAL) && has_any_kind)
        });
        // A transaction in a rollback mode syncs its journal and then the database.
        if let Some(database) = journal.and_then(|path| path.strip_suffix(JOURNAL)) {
            return Some(Database::Rollback(Some(database.to_owned())));
        }
        match content {
            _ if word("victim.wal").is_some() => Some(Database::Wal),
            Content::SqliteWal => Some(Database::Wal),
            Content::SqliteJournal => Some(Database::Rollback(None)),
            Content::SqliteDb => Some(Database::Unknown),
            _ => match word("victim.sqlite")? {
                "rollback" => Some(Database::Rollback(None)),
                "wal" => Some(Database::Wal),
                _ => Some(Database::Unknown),
            },
        }
    }

    /// Judges by the written bytes. The recording does not show who waits.
    fn of_writes(analysis: &Analysis) -> Option<Database> {
        let files = analysis.files.as_ref()?;
        let written = |content: Content| {
            files
                .contents
                .iter()
                .filter(|row| row.content == content.name())
                .map(|row| row.write_bytes.0)
                .fold(0, u64::saturating_add)
        };
        let of = [Content::SqliteDb, Content::SqliteJournal, Content::SqliteWal].map(written);
        let of_database = of.iter().copied().fold(0, u64::saturating_add);
        if of_database.saturating_mul(2) < analysis.totals.write_bytes.0.max(1) {
            return None;
        }
        match of {
            [_, journal, 0] if journal > 0 => Some(Database::Rollback(None)),
            [_, 0, wal] if wal > 0 => Some(Database::Wal),
            _ => Some(Database::Unknown),
        }
    }
}

/// Returns the dirty-page limit for about a second of writes at the highest recorded rate. A sync that writes
/// all dirty pages then takes about a second.
fn dirty_limit(series: &Series) -> String {
    let bins = usize::try_from(SECOND_NS.div_ceil(series.bin_ns.0.max(1))).unwrap_or(usize::MAX);
    let sum = |second: &[u64]| second.iter().copied().fold(0, u64::saturating_add);
    let most = series.write_bytes.windows(bins).map(sum).max().unwrap_or_default();
    let command = |mib: u64| format!("`fonio fix apply dirty-limit={mib}MiB`");
    if most == 0 {
        return command(DIRTY_MIB_DEFAULT);
    }
    let rate = most as f64 / (bins as f64 * series.bin_ns.0 as f64 / SECOND_NS as f64);
    let mib = (rate / f64::from(1 << 20)).round() as u64;
    let limit = mib.clamp(DIRTY_MIB.0, DIRTY_MIB.1).next_power_of_two();
    format!("{} (at most {} MiB/s were written here)", command(limit), mib.max(1))
}

/// Adds advice on the I/O class of programs that write. With schedulers other than [`ISOLATES_READS`], only
/// the I/O class prevents these programs' writes from delaying reads. `now` is the current scheduler, and
/// `best` is the offered scheduler.
fn writers_class(facts: &mut Facts, now: Option<&str>, best: Option<&str>) {
    let heeds = |name: &str| HEED_CLASSES.contains(&name);
    match now {
        Some(now) if heeds(now) => facts.word("fix.writers_class", "`ionice -c idle`"),
        Some(now) if !PREFER_READS.contains(&now) && best.is_some_and(heeds) => {
            facts.word("fix.writers_class", "`ionice -c idle`, after the change of the scheduler");
        }
        Some(_) => {}
        None => facts.word("fix.writers_class", HEEDED),
    }
}

fn quoted(path: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/-_.,:@+".contains(letter);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use fonio_core::Nanos;

    use super::*;

    fn words(device: DeviceInfo, file: &str) -> Vec<(String, String)> {
        let mut analysis = Analysis { devices: vec![device], ..Analysis::default() };
        analysis.totals.requests = 1;
        let mut facts = Facts::default();
        facts.word("victim.program", "notes");
        facts.word("victim.file", file);
        put(&mut facts, &analysis);
        facts.words.into_iter().filter(|(name, _)| name.starts_with("fix.")).collect()
    }

    #[test]
    fn fixes_of_units_and_mounts_are_offered_where_they_have_an_effect() {
        let named = |scheduler: &str, unit: &str, device: DeviceInfo| {
            let scheduler = Some(scheduler.to_owned());
            let mut analysis = Analysis {
                devices: vec![DeviceInfo { scheduler, requests: 1, ..device }],
                ..Analysis::default()
            };
            analysis.totals.requests = 1;
            let mut facts = Facts::default();
            facts.word("victim.culprit_unit", unit);
            put(&mut facts, &analysis);
            let names = ["unit_class", "unit_weight", "access_times", "trim"];
            let word = |name: &str| facts.words.get(&format!("fix.{name}")).cloned();
            names.iter().filter_map(|name| word(name)).collect::<Vec<_>>()
        };
        let plain = DeviceInfo::default;
        let class = "`fonio fix apply io-class=idle backup.service`".to_owned();
        let weight = "`fonio fix apply io-weight=50 backup.service`".to_owned();
        assert_eq!(named("bfq", "backup.service", plain()), [class.clone(), weight]);
        assert_eq!(named("mq-deadline", "backup.service", plain()), [class]);
        assert!(named("none", "backup.service", plain()).is_empty());
        assert!(named("bfq", "docker-0123.scope", plain()).is_empty());
        let mounted = DeviceInfo {
            writes_access_times: Some("/data".to_owned()),
            without_discard: Some("/".to_owned()),
            ..plain()
        };
        assert_eq!(
            named("none", "x", mounted),
            [
                "`fonio fix apply noatime /data` or `fonio fix apply lazytime /data`",
                "`fonio fix apply fstrim /`"
            ]
        );
    }

    #[test]
    fn a_scheduler_is_offered_only_if_the_kernel_has_it() {
        let offered = |schedulers: &[&str], now: &str| {
            let device = DeviceInfo {
                name: Some("sda".to_owned()),
                scheduler: Some(now.to_owned()),
                schedulers: schedulers.iter().map(|name| (*name).to_owned()).collect(),
                requests: 1,
                ..DeviceInfo::default()
            };
            let words = words(device, "x");
            ["fix.scheduler", "fix.sync_scheduler"]
                .map(|wanted| words.iter().find(|(name, _)| name == wanted).map(|(_, word)| word.clone()))
        };
        let best = |name: &str| Some(format!("`fonio fix apply {name} /dev/sda` (it has none now)"));
        let after = |name: &str| Some(format!("`fonio fix apply bfq /dev/sda` (it has {name} now)"));
        assert_eq!(offered(&["none", "mq-deadline", "bfq"], "none"), [best("bfq"), best("bfq")]);
        assert_eq!(offered(&["none", "mq-deadline", "kyber"], "none"), [best("mq-deadline"), None]);
        assert_eq!(offered(&["none", "kyber"], "none"), [best("kyber"), None]);
        assert_eq!(offered(&["none"], "none"), [None, None]);
        assert_eq!(offered(&["none", "bfq", "kyber"], "kyber"), [None, after("kyber")]);
        assert_eq!(offered(&["mq-deadline", "bfq"], "mq-deadline"), [None, after("mq-deadline")]);
        assert_eq!(offered(&["mq-deadline", "bfq"], "bfq"), [None, None]);
        // Old recordings do not list a device's schedulers.
        assert_eq!(offered(&[], "none"), [best("bfq"), best("bfq")]);
    }

    #[test]
    fn smartio_is_offered_where_the_kernel_has_it_and_else_the_class_of_writers() {
        let told = |schedulers: &[&str], now: Option<&str>| {
            let device = DeviceInfo {
                name: Some("sda".to_owned()),
                scheduler: now.map(str::to_owned),
                schedulers: schedulers.iter().map(|name| (*name).to_owned()).collect(),
                requests: 1,
                ..DeviceInfo::default()
            };
            let words = words(device, "x");
            ["fix.read_scheduler", "fix.writers_class"]
                .map(|wanted| words.iter().find(|(name, _)| name == wanted).map(|(_, word)| word.clone()))
        };
        let fix =
            |name: &str, now: &str| Some(format!("`fonio fix apply {name} /dev/sda` (it has {now} now)"));
        let class = |after: &str| Some(format!("`ionice -c idle`{after}"));
        assert_eq!(told(&["none", "bfq", "smartio"], Some("none")), [fix("smartio", "none"), None]);
        assert_eq!(told(&["none", "bfq", "smartio"], Some("bfq")), [fix("smartio", "bfq"), None]);
        assert_eq!(told(&["none", "bfq", "smartio"], Some("smartio")), [None, None]);
        let after = class(", after the change of the scheduler");
        assert_eq!(told(&["none", "bfq"], Some("none")), [fix("bfq", "none"), after.clone()]);
        assert_eq!(told(&[], Some("none")), [fix("bfq", "none"), after]);
        assert_eq!(told(&["none", "bfq"], Some("mq-deadline")), [None, class("")]);
        assert_eq!(told(&["none", "kyber"], Some("none")), [fix("kyber", "none"), None]);
        assert_eq!(told(&["none", "bfq", "kyber"], Some("kyber")), [None, None]);
        assert_eq!(told(&["none"], Some("none")), [None, None]);
        let heeded = class(", which the schedulers bfq and mq-deadline heed");
        assert_eq!(told(&["none", "smartio"], None), [None, heeded]);
    }

    #[test]
    fn the_dirty_limit_follows_the_rate_of_writes() {
        let told = |bin_ns: u64, write_mib: &[u64]| {
            let write_bytes = write_mib.iter().map(|mib| mib << 20).collect();
            dirty_limit(&Series { bin_ns: Nanos(bin_ns), write_bytes, ..Series::default() })
        };
        let seen = |limit: u64, rate: u64| {
            format!("`fonio fix apply dirty-limit={limit}MiB` (at most {rate} MiB/s were written here)")
        };
        assert_eq!(told(SECOND_NS, &[1, 20, 3]), seen(32, 20));
        assert_eq!(told(SECOND_NS / 2, &[1, 20, 30, 3]), seen(64, 50));
        assert_eq!(told(4 * SECOND_NS, &[4, 8]), seen(8, 2));
        assert_eq!(told(SECOND_NS, &[2000]), seen(256, 2000));
        // A hostile recording can have requests of any length.
        let huge = Series { bin_ns: Nanos(1), write_bytes: vec![u64::MAX; 1 << 20], ..Series::default() };
        assert!(dirty_limit(&huge).contains("=32MiB"), "the recording is shorter than a second");
        let huge = Series { bin_ns: Nanos(SECOND_NS / 2), ..huge };
        assert_eq!(dirty_limit(&huge), seen(256, 1 << 44));
        // In the following cases, nothing was written, or the recording is shorter than a second.
        for series in [&[0, 0][..], &[]] {
            assert_eq!(told(SECOND_NS, series), "`fonio fix apply dirty-limit=32MiB`");
        }
        assert_eq!(told(SECOND_NS / 4, &[5, 5]), "`fonio fix apply dirty-limit=32MiB`");
    }

    #[test]
    fn no_command_names_a_database_that_is_gone_after_the_run() {
        for (path, expected) in [
            ("/run/fonio/19981-1.mount4/database/webview.db-journal", true),
            ("/tmp/fonio-1000/7-0.mount0/a.db", true),
            ("/run/fonio/data/app.db", true),
            ("/srv/a.mount/b-1.mount2/c-d.mount3/1-2.mounted/x.db", false),
            ("/data/notes.db", false),
        ] {
            assert_eq!(is_on_test_bed(path), expected, "{path}");
        }
        let found = words(DeviceInfo::default(), "/run/fonio/19981-1.mount4/app.db-journal");
        assert!(
            found.contains(&("fix.database".into(), "`PRAGMA journal_mode = WAL` in each database".into()))
        );
    }

    #[test]
    fn commands_name_the_device_the_mount_and_the_database() {
        let card = DeviceInfo {
            name: Some("mmcblk0".to_owned()),
            scheduler: Some("none".to_owned()),
            read_ahead_kb: Some(128),
            commits_often: Some("/data".to_owned()),
            requests: 1,
            ..DeviceInfo::default()
        };
        let tuned = DeviceInfo {
            scheduler: Some("bfq".to_owned()),
            read_ahead_kb: Some(512),
            commits_often: None,
            ..card.clone()
        };
        let told = |words: &[(&str, &str)]| -> Vec<(String, String)> {
            words.iter().map(|(name, word)| (format!("fix.{name}"), (*word).to_owned())).collect()
        };
        let limit = ("dirty_limit", "`fonio fix apply dirty-limit=32MiB`");
        let swap = ("swap", "`fonio fix apply swap-in-ram`");
        // The general advice for writes, because no program is known.
        let leave = (
            "leave_to_kernel",
            "Leave the writing to the kernel where the last seconds may be lost: without O_SYNC, O_DIRECT or the mount option \
             `sync`.",
        );
        let more = ("write_more", "Write more at once.");
        assert_eq!(
            words(card, "/data/notes.db-journal"),
            told(&[
                ("commit", "`fonio fix apply commit-30s /data`"),
                ("database", "`fonio fix apply wal-full /data/notes.db`"),
                limit,
                leave,
                ("read_ahead", "`fonio fix apply read-ahead=512KiB /dev/mmcblk0` (now 128 KiB)"),
                ("read_scheduler", "`fonio fix apply bfq /dev/mmcblk0` (it has none now)"),
                ("requests", "`fonio fix apply requests=16 /dev/mmcblk0`"),
                ("scheduler", "`fonio fix apply bfq /dev/mmcblk0` (it has none now)"),
                swap,
                ("sync_scheduler", "`fonio fix apply bfq /dev/mmcblk0` (it has none now)"),
                ("transactions", "Commit several changes in one transaction."),
                more,
                ("writers_class", "`ionice -c idle`, after the change of the scheduler"),
            ])
        );
        let cases = [("/data", "/data"), ("/media/My Card", "'/media/My Card'"), ("/a';x", "'/a'\\'';x'")];
        assert!(cases.iter().all(|(path, word)| quoted(path) == *word));
        // A fix that is already in force is not offered.
        assert_eq!(
            words(tuned, "/data/notes.db-wal"),
            told(&[
                limit,
                ("ionice", "`ionice -c idle`"),
                leave,
                ("requests", "`fonio fix apply requests=16 /dev/mmcblk0`"),
                swap,
                ("sync_less", "Sync less often where losing the last seconds is acceptable."),
                more,
                ("writers_class", "`ionice -c idle`"),
            ])
        );
        let zram = DeviceInfo { name: Some("zram0".to_owned()), requests: 1, ..DeviceInfo::default() };
        assert!(!words(zram, "x").iter().any(|(name, _)| name == "fix.swap"));
        // Traces of other tools do not contain device names.
        assert_eq!(
            words(DeviceInfo { requests: 1, ..DeviceInfo::default() }, "x"),
            told(&[
                limit,
                ("ionice", "`ionice -c idle`, which the schedulers bfq and mq-deadline heed"),
                leave,
                ("read_ahead", "512 KiB or more in /sys/block/DEVICE/queue/read_ahead_kb"),
                ("read_scheduler", "bfq or mq-deadline"),
                ("requests", "a smaller /sys/block/DEVICE/queue/nr_requests"),
                ("scheduler", "bfq or mq-deadline"),
                swap,
                ("sync_less", "Sync less often where losing the last seconds is acceptable."),
                ("sync_scheduler", "bfq"),
                more,
                ("writers_class", "`ionice -c idle`, which the schedulers bfq and mq-deadline heed"),
            ])
        );
    }
}
