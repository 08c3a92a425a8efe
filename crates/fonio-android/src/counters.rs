//! Reads counters of a phone that lets fonio record no events: those of its disks, and those of its apps.
//!
//! `/proc/diskstats` counts by device (`Documentation/admin-guide/iostats.rst`), `/proc/uid_io/stats` by the user id that
//! an app has (`drivers/misc/uid_sys_stats.c` of Android's kernels).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fonio_core::{ByteCount, printable};

use crate::adb::{Adb, failed};
use crate::error::AndroidError;
use crate::root::Root;

/// Time between two copies of the counters.
const INTERVAL: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);
const DISKS: &str = "cat /proc/diskstats";
const APPS: &str = "cat /proc/uid_io/stats";

/// The counters that a phone lets fonio read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readable {
    /// `/proc/diskstats`.
    pub disks: bool,
    /// `/proc/uid_io/stats`.
    pub apps: bool,
}

/// What an app read, wrote and synced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppIo {
    /// The user id.
    pub uid: u32,
    /// The packages with this user id, if the phone names them.
    pub packages: Vec<String>,
    /// Bytes that went to and came from storage.
    pub read: ByteCount,
    /// Bytes that the app made dirty and that storage had to write.
    pub written: ByteCount,
    /// Calls of fsync.
    pub syncs: u64,
}

/// Reads counters again and again, for a watch.
#[derive(Clone, Debug)]
pub struct CounterReader {
    root: Option<Root>,
    source: AppSource,
    names: Packages,
}

/// Where the phone shows what its apps do.
#[derive(Clone, Debug)]
enum AppSource {
    /// `/proc/uid_io/stats`, with the counters of the reading before.
    Kernel(Option<Apps>),
    /// `dumpsys storaged`, with the end of the last record that was read (seconds since 1970).
    Storaged(Option<u64>),
    None,
}

/// Counters at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountersNow {
    /// Tells starts of the phone apart.
    pub boot: String,
    /// What apps did since the reading before this.
    pub apps: Vec<AppIo>,
}

impl CounterReader {
    /// Asks the phone what it lets fonio read. The inner error is the reason why it is nothing.
    ///
    /// # Errors
    /// Fails if the phone does not answer.
    pub fn new(adb: &Adb, root: Option<Root>) -> Result<Result<CounterReader, String>, AndroidError> {
        let found = readable(adb, root)?;
        let source = match &found {
            Ok(Readable { apps: true, .. }) => AppSource::Kernel(None),
            _ if storaged(&adb.shell(STORAGED)?.out, 0).is_some() => AppSource::Storaged(None),
            _ => AppSource::None,
        };
        Ok(match (found, source) {
            (Err(reason), AppSource::None) => Err(reason),
            (_, source) => Ok(CounterReader { root, source, names: Packages::new() }),
        })
    }

    /// Returns a sentence about what is read.
    pub fn shows(&self) -> &'static str {
        match self.source {
            AppSource::Kernel(_) => {
                "The phone shows what each app reads, writes and syncs (/proc/uid_io/stats)."
            }
            AppSource::Storaged(_) => "The phone shows what each app reads and writes (dumpsys storaged).",
            AppSource::None => "The phone does not show what each app writes.",
        }
    }

    /// Reads the counters. Those of the devices are written into the folder, as its `proc/diskstats`.
    ///
    /// # Errors
    /// Fails if the phone does not answer, or if the folder cannot be written.
    pub fn read(&mut self, adb: &Adb, folder: &Path) -> Result<CountersNow, AndroidError> {
        let answer = adb.shell(&as_root(self.root, NOW))?;
        let (boot, disks) = answer.out.split_once('\n').unwrap_or((&answer.out, ""));
        let file = folder.join("proc/diskstats");
        std::fs::write(&file, disks).map_err(AndroidError::file("write", &file))?;
        let mut apps = match &mut self.source {
            AppSource::Kernel(before) => {
                let now = apps(adb, self.root)?;
                let before = before.replace(now.clone());
                before.map(|before| since(&before, &now)).unwrap_or_default()
            }
            AppSource::Storaged(last) => {
                let text = adb.shell(STORAGED)?.out;
                let (end, apps) = storaged(&text, last.unwrap_or(0)).unwrap_or_default();
                let is_first = last.replace(last.unwrap_or(0).max(end)).is_none();
                if is_first { Vec::new() } else { apps }
            }
            AppSource::None => Vec::new(),
        };
        let is_unknown = |app: &AppIo| app.packages.is_empty() && !self.names.contains_key(&app.uid);
        if self.names.is_empty() && apps.iter().any(is_unknown) {
            self.names = packages(adb)?;
        }
        apps.iter_mut().for_each(|app| name(app, &self.names));
        Ok(CountersNow { boot: printable(boot.trim()).into_owned(), apps })
    }

    /// Forgets the names of the packages, so that new ones are found.
    pub fn forget_names(&mut self) {
        self.names.clear();
    }
}

/// Prints the start of the phone and the counters of its devices. Without an id of the start, its time stands for it.
const NOW: &str = "boot=; { read -r boot < /proc/sys/kernel/random/boot_id; } 2>/dev/null; \
    [ -n \"$boot\" ] || boot=$(uptime -s 2>/dev/null); echo \"$boot\"; cat /proc/diskstats 2>/dev/null; true";
const STORAGED: &str = "dumpsys storaged";

/// Parses `dumpsys storaged`: a line `START,END` for a span, in seconds since 1970 (START is left out if it is the END
/// before), and a line for each app: its name, and the bytes read and written in the foreground and in the background,
/// each without and with the charger (AOSP, `storaged_service.cpp`). Returns the end of the last span and the sums of the
/// spans that ended after `after`; `None` if there is no span.
pub(crate) fn storaged(text: &str, after: u64) -> Option<(u64, Vec<AppIo>)> {
    let mut sums: BTreeMap<String, AppIo> = BTreeMap::new();
    let (mut last, mut is_new) = (None, false);
    for line in text.lines() {
        if let Some((_, end)) = line.split_once(',')
            && let Ok(end) = end.trim().parse::<u64>()
        {
            is_new = end > after;
            last = last.max(Some(end));
            continue;
        }
        let mut words = line.split_whitespace();
        let Some(name) = words.next().filter(|_| is_new) else { continue };
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let [read_a, written_a, read_b, written_b, read_c, written_c, read_d, written_d] = numbers[..] else {
            continue;
        };
        let add = |numbers: [u64; 4]| numbers.into_iter().fold(0_u64, u64::saturating_add);
        let name = printable(name).into_owned();
        let app =
            sums.entry(name.clone()).or_insert_with(|| AppIo { packages: vec![name], ..AppIo::default() });
        app.read.0 = app.read.0.saturating_add(add([read_a, read_b, read_c, read_d]));
        app.written.0 = app.written.0.saturating_add(add([written_a, written_b, written_c, written_d]));
    }
    Some((last?, sums.into_values().collect()))
}

/// Names an app by its user id.
fn name(app: &mut AppIo, names: &Packages) {
    // A user of the phone has the ids from 100,000 times its number.
    let found = names.get(&app.uid).or_else(|| names.get(&(app.uid % 100_000)));
    if let Some(found) = found.filter(|_| app.packages.is_empty()) {
        app.packages.clone_from(found);
    }
}

/// Asks the phone which counters it lets fonio read. The inner error is the reason why there are none.
pub(crate) fn readable(adb: &Adb, root: Option<Root>) -> Result<Result<Readable, String>, AndroidError> {
    let disks = adb.shell(&as_root(root, DISKS))?;
    let apps = adb.shell(&as_root(root, APPS))?;
    let found = Readable {
        disks: disks.code == 0 && !disks.out.trim().is_empty(),
        apps: apps.code == 0 && !parse(&apps.out).is_empty(),
    };
    if found.disks || found.apps {
        return Ok(Ok(found));
    }
    let why = |text: &str| printable(text.lines().next().unwrap_or("empty").trim()).into_owned();
    Ok(Err(format!(
        "it lets the shell read neither /proc/diskstats nor /proc/uid_io/stats ({}; {})",
        why(&disks.errors),
        why(&apps.errors)
    )))
}

/// Copies the counters of the disks into the file `to` for this time. Returns what apps did meanwhile, and whether the
/// user ended the recording before its time.
pub(crate) fn record(
    adb: &Adb,
    root: Option<Root>,
    readable: Readable,
    duration: Duration,
    to: &Path,
    stop: &AtomicBool,
) -> Result<(Vec<AppIo>, bool), AndroidError> {
    let mut file = File::create(to).map_err(AndroidError::file("write", to))?;
    let before = if readable.apps { apps(adb, root)? } else { BTreeMap::new() };
    let until = Instant::now() + duration;
    let mut next = Instant::now();
    loop {
        if readable.disks {
            let answer = adb.shell(&as_root(root, &format!("date +%s; {DISKS}")))?;
            if answer.code != 0 {
                return Err(failed(&["shell", DISKS], &answer));
            }
            file.write_all(answer.out.as_bytes()).map_err(AndroidError::file("write", to))?;
        }
        if Instant::now() >= until || stop.load(Ordering::Relaxed) {
            break;
        }
        next += INTERVAL;
        while Instant::now() < next.min(until) && !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
    }
    let was_stopped = Instant::now() < until;
    let mut did = if readable.apps { since(&before, &apps(adb, root)?) } else { Vec::new() };
    let names = if did.is_empty() { Packages::new() } else { packages(adb)? };
    did.iter_mut().for_each(|app| name(app, &names));
    Ok((did, was_stopped))
}

fn as_root(root: Option<Root>, line: &str) -> String {
    root.map_or_else(|| line.to_owned(), |root| root.line(line))
}

/// The counters of each user id: bytes read, bytes written, syncs.
pub(crate) type Apps = BTreeMap<u32, [u64; 3]>;

fn apps(adb: &Adb, root: Option<Root>) -> Result<Apps, AndroidError> {
    let answer = adb.shell(&as_root(root, APPS))?;
    if answer.code != 0 {
        return Err(failed(&["shell", APPS], &answer));
    }
    Ok(parse(&answer.out))
}

/// Parses `/proc/uid_io/stats`: the user id; then for the foreground, and for the background, the characters read and
/// written and the bytes read and written; then the syncs of both.
pub(crate) fn parse(text: &str) -> Apps {
    let mut apps = Apps::new();
    for line in text.lines() {
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [uid, _, _, fg_read, fg_written, _, _, bg_read, bg_written, fg_syncs, bg_syncs] = numbers[..]
        else {
            // Lines of tasks, which some kernels add.
            continue;
        };
        let Ok(uid) = u32::try_from(uid) else { continue };
        let sum = [
            fg_read.saturating_add(bg_read),
            fg_written.saturating_add(bg_written),
            fg_syncs.saturating_add(bg_syncs),
        ];
        apps.insert(uid, sum);
    }
    apps
}

/// Returns what each app did between two copies, those with the most bytes first.
pub(crate) fn since(before: &Apps, after: &Apps) -> Vec<AppIo> {
    let mut did: Vec<AppIo> = after
        .iter()
        .map(|(uid, now)| {
            // A new user id began at zero.
            let then = before.get(uid).copied().unwrap_or_default();
            let [read, written, syncs] = std::array::from_fn(|at| now[at].saturating_sub(then[at]));
            AppIo {
                uid: *uid,
                packages: Vec::new(),
                read: ByteCount(read),
                written: ByteCount(written),
                syncs,
            }
        })
        .filter(|app| app.read.0 > 0 || app.written.0 > 0 || app.syncs > 0)
        .collect();
    did.sort_by_key(|app| (std::cmp::Reverse(app.read.0.saturating_add(app.written.0)), app.uid));
    did
}

/// Asks the phone for the packages of each user id.
fn packages(adb: &Adb) -> Result<Packages, AndroidError> {
    let answer = adb.shell("cmd package list packages -U 2>/dev/null || pm list packages -U")?;
    Ok(packages_of(&answer.out))
}

/// The packages of each user id.
pub(crate) type Packages = BTreeMap<u32, Vec<String>>;

/// Parses lines such as `package:com.example uid:10001,1010001`.
pub(crate) fn packages_of(text: &str) -> Packages {
    let mut names = Packages::new();
    for line in text.lines() {
        let Some((name, uids)) =
            line.trim().strip_prefix("package:").and_then(|rest| rest.split_once(" uid:"))
        else {
            continue;
        };
        for uid in uids.split(',').filter_map(|uid| uid.trim().parse().ok()) {
            names.entry(uid).or_default().push(printable(name).into_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_storaged_are_summed() {
        let text = "1000,2000\ncom.a 1 2 4 8 16 32 64 128\nroot 0 0 0 1 0 0 0 0\n,3000\ncom.a 1 0 0 0 0 0 0 0\n\
                    ,4000\ncom.a 0 5 0 0 0 0 0 0\nbroken 1 2\n";
        let sums = |after| {
            let (end, apps) = storaged(text, after).expect("there are spans");
            let shown = apps.iter().map(|app| (app.packages[0].clone(), app.read.0, app.written.0));
            (end, shown.collect::<Vec<_>>())
        };
        let app = |name: &str, read, written| (name.to_owned(), read, written);
        assert_eq!(sums(0), (4000, vec![app("com.a", 86, 175), app("root", 0, 1)]));
        assert_eq!(sums(3000), (4000, vec![app("com.a", 0, 5)]));
        assert_eq!(sums(4000), (4000, vec![]));
        assert_eq!(storaged("Can't find service: storaged\n", 0), None);
        let huge = format!("1,2\na {0} {0} {0} {0} {0} {0} {0} {0}\n", u64::MAX);
        assert_eq!(storaged(&huge, 0).expect("a span").1[0].read, ByteCount(u64::MAX));
    }

    #[test]
    fn packages_have_user_ids() {
        // The text is that of AOSP's PackageManagerShellCommand; an app of two users has two ids.
        let text = "package:com.example.notes uid:10101\npackage:com.example.maps uid:10102,1010102\n\
                    package:android uid:1000\npackage:com.android.shell uid:1000\npackage:broken\npackage:x uid:y\n";
        let found = packages_of(text);
        let names = |uid: u32| found.get(&uid).map(|names| names.join(" ")).unwrap_or_default();
        assert_eq!(names(10101), "com.example.notes");
        assert_eq!((names(10102), names(1_010_102)), (names(10102), "com.example.maps".to_owned()));
        assert_eq!(names(1000), "android com.android.shell");
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn apps_are_compared_with_before() {
        let before = parse("0 1 1 4096 0 0 0 0 0 1 0\n10001 9 9 100 200 9 9 10 20 3 4\n");
        let after = parse(
            "0 1 1 4096 0 0 0 0 0 1 0\n10001 9 9 1100 200 9 9 10 30 3 9\n10002 0 0 0 0 0 0 0 512 0 0\n\
             task,app,10002,1,2,3\n",
        );
        let expected = [
            AppIo { uid: 10001, read: ByteCount(1000), written: ByteCount(10), syncs: 5, ..AppIo::default() },
            AppIo { uid: 10002, written: ByteCount(512), ..AppIo::default() },
        ];
        assert_eq!(since(&before, &after), expected);
        // Counters that went back count as nothing, and numbers that are too large do not overflow.
        assert_eq!(since(&after, &before), []);
        let huge = parse(&format!("1 0 0 {0} {0} 0 0 {0} {0} {0} {0}\n", u64::MAX));
        assert_eq!(since(&Apps::new(), &huge)[0].read, ByteCount(u64::MAX));
    }
}
