//! Keeps the ledger, which records the steps to undo.
//!
//! A ledger is a file with one JSON value per line. The first line of a ledger names its owner. A `begin`
//! line is written *before* each step, and an `end` line after the step was undone. So a process killed at
//! any point leaves a ledger that names all steps to undo. A step in the ledger was possibly never executed,
//! so undoing first checks that the object exists and is ours.
//!
//! A ledger is read only from a folder that no other user can change ([`TrustedFolder`]). Even so, a step is
//! executed and undone only if it names something that fonio itself makes, such as a file next to the ledger
//! or a device with one of fonio's numbers. So a forged ledger cannot remove or write other files.
//!
//! A step that a later process cannot undo is noted with the users of its device ([`leftovers`]), and tried again
//! only when they have changed.
//!
//! The steps of a ledger are undone in reverse order. The owner undoes all steps when it drops the ledger,
//! and can undo individual steps earlier. [`Ledger::recover`] undoes the steps of owners that no longer run.
//!
//! This module has no code for devices, mounts or processes. The functions that check and undo a step
//! ([`Kinds`]) are passed when a ledger is opened.

mod leftovers;
mod targets;
mod undo;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fonio_system::{ProcessId, TrustedFolder, chain, lock, read_from, state};
use serde::{Deserialize, Serialize};

use self::leftovers::{BLIND_PAUSE, Holder};
use crate::error::HostError;
use crate::io_class::Encoded;
use crate::settings::{Applied, LOCK, remove_free_lock};

/// A change that remains after the process that made the change has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "kind")]
#[allow(missing_docs, reason = "the comments on the variants explain the fields")]
pub enum Step {
    /// A folder was created. Undoing removes the folder if it is empty.
    Directory { path: PathBuf },
    /// A folder was created, and all its contents are fonio's. Undoing removes the folder with its contents,
    /// but fails if a file system is mounted in it.
    Tree { path: PathBuf },
    /// A file was created. Undoing removes the file.
    File { path: PathBuf },
    /// A Unix socket was created at a path that the user chose. Undoing removes the socket, but no other kind
    /// of file.
    Socket { path: PathBuf },
    /// A process was started that must end when this process ends. If the started process leads a process
    /// group, the whole group is killed.
    Process { id: ProcessId, leads_group: bool },
    /// The device `/dev/loopN` was added. Sysfs shows its backing file as `backing` (`loop/backing_file`).
    Loop { number: u32, backing: PathBuf },
    /// The device `/dev/ublkbN` was added. The kernel stores `tag` with the device, as proof of ownership.
    Ublk { number: u32, tag: u64 },
    /// The array `/dev/mdN` was added. The names of the array's devices, such as `ublkb700`, identify the
    /// array as ours.
    Md { number: u32, devices: Vec<String> },
    /// A file system was mounted on `dir`, from `source` as shown in `/proc/self/mountinfo`.
    Mount { dir: PathBuf, source: String },
    /// A control group was created. Undoing moves its remaining processes to the parent group.
    Cgroup { path: PathBuf },
    /// A kernel setting in sysfs was changed. `was` is the old value of the setting.
    Setting { path: PathBuf, was: String },
    /// A setting of the user's device, mount or machine was changed. Undoing restores its old value, unless
    /// the device is gone or another program has changed the setting since.
    Borrowed { setting: Applied },
    /// A network namespace was created with this name in `/run/netns`.
    Namespace { name: String },
    /// The I/O class of a process and its descendants was changed. Undoing restores it in those threads that still have
    /// the class that fonio set.
    IoClass { id: ProcessId, was: Encoded, set_to: Encoded },
}

/// The index of a step in its ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(usize);

/// The steps that [`Ledger::recover`] undid or failed to undo.
#[derive(Debug, Default)]
pub struct Recovery {
    /// One sentence for each step that was undone.
    pub undone: Vec<String>,
    /// One sentence for each step that could not be undone. These steps stay in their ledgers.
    pub failed: Vec<String>,
    /// One sentence for each step that failed before, and was not tried now because the same programs still
    /// use its device.
    pub left: Vec<String>,
}

/// The result of going through the ledgers once. Failed and left steps are pairs of the step, and the error or
/// the users of the step's device.
#[derive(Debug, Default)]
struct Found {
    undone: Vec<String>,
    failed: Vec<(String, String)>,
    left: Vec<(String, String)>,
}

/// The ledger of a process: its steps that are not yet undone.
#[derive(Debug)]
pub struct Ledger {
    folder: TrustedFolder,
    name: OsString,
    file: File,
    owner: ProcessId,
    steps: Vec<Option<Open>>,
    /// Whether the remaining steps stay for a later process.
    is_left: bool,
    kinds: Kinds,
}

/// A step that is not yet undone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    step: Step,
    /// What kept the step's device in use when the step could not be undone.
    holder: Option<Holder>,
}

/// Checks and undoes the steps of each kind.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    /// Returns the reason why fonio never makes the object of a step.
    check: fn(&Step, &Maker<'_>) -> Result<(), &'static str>,
    /// Undoes a step. The function also succeeds if there is nothing to undo.
    undo: fn(&Step) -> Result<(), HostError>,
    /// Returns what uses the device of a step; `None` if the step has no device.
    holder: fn(&Step) -> Option<Holder>,
}

/// The process that made the steps of a ledger, and the file of this ledger.
struct Maker<'l> {
    owner: ProcessId,
    folder: &'l Path,
    /// The name of the ledger's file without the extension.
    stem: &'l OsStr,
}

/// Maximum size of a ledger: a run with 10,000 power cuts writes about 10 MB.
const LEDGER_BYTES_MAX: u64 = 64 << 20;
/// Age up to which a ledger without an owner is new.
const YOUNG: Duration = Duration::from_secs(60);
/// Maximum time for which a start waits for other processes that undo ledgers.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Owner(ProcessId),
    Begin {
        at: usize,
        step: Step,
    },
    End {
        at: usize,
    },
    /// The step could not be undone.
    Left {
        at: usize,
        holder: Holder,
    },
}

impl Ledger {
    /// Returns the default folder of ledgers: fonio's state folder. A reboot empties this folder, but the
    /// reboot also undoes all steps.
    pub fn default_dir() -> PathBuf {
        state::folder()
    }

    fn create(dir: &Path, kinds: Kinds) -> Result<Ledger, HostError> {
        let folder = TrustedFolder::make(dir)?;
        let owner = ProcessId::own();
        for serial in 0_u32.. {
            let name = OsString::from(format!("{}-{serial}.ledger", owner.pid));
            let file = match folder.create_new(&name) {
                Err(error) if error.source.kind() == ErrorKind::AlreadyExists => continue,
                created => created?,
            };
            // Hold the lock while the ledger is open, so that two processes never undo the same ledger.
            lock::wait(&file, &folder.path().join(&name), PATIENCE)?;
            let mut ledger = Ledger { folder, name, file, owner, steps: Vec::new(), is_left: false, kinds };
            ledger.write(&Line::Owner(owner))?;
            return Ok(ledger);
        }
        unreachable!("a process holds fewer than 2³² ledgers")
    }

    /// Returns the folder of this ledger, for other files of the same run.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of a file that is next to the ledger and that no other run uses. Does not create this
    /// file.
    pub fn own_path(&self, name: &str) -> PathBuf {
        self.path().with_extension(name)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Returns the number of steps that the ledger has recorded so far. Callers use this number in names.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Records `step` before the caller executes the step. Fails with [`HostError::NotMade`] if the step does
    /// not name something that fonio makes, or [`HostError::System`]; if so, the caller must not execute the
    /// step.
    pub fn begin(&mut self, step: Step) -> Result<Entry, HostError> {
        self.check(&step)?;
        let at = self.steps.len();
        let is_open = self.steps.iter().flatten().any(|open| open.step == step);
        assert!(!is_open, "{step} is already in the ledger, and would be undone twice");
        self.write(&Line::Begin { at, step: step.clone() })?;
        self.steps.push(Some(Open { step, holder: None }));
        Ok(Entry(at))
    }

    /// Records `step` and executes it. A failed step is not undone later. Returns the errors of
    /// [`Ledger::begin`] and of `act`.
    pub(crate) fn perform(
        &mut self,
        step: Step,
        act: impl FnOnce() -> Result<(), HostError>,
    ) -> Result<Entry, HostError> {
        let entry = self.begin(step)?;
        match act() {
            Ok(()) => Ok(entry),
            Err(error) => self.end(entry).and(Err(error)),
        }
    }

    /// Records that the step was not executed, or that the caller has undone the step.
    pub fn end(&mut self, entry: Entry) -> Result<(), HostError> {
        assert!(entry.0 < self.steps.len(), "step {} belongs to another ledger", entry.0);
        if self.steps[entry.0].take().is_some() {
            self.write(&Line::End { at: entry.0 })?;
        }
        Ok(())
    }

    /// Undoes one step unless the step is already undone. Fails if the step cannot be undone. The step then
    /// stays in the ledger.
    pub fn undo(&mut self, entry: Entry) -> Result<(), HostError> {
        let Some(Open { step, .. }) = &self.steps[entry.0] else { return Ok(()) };
        self.check(step)?;
        (self.kinds.undo)(step)?;
        self.end(entry)
    }

    fn check(&self, step: &Step) -> Result<(), HostError> {
        let stem = Path::new(&self.name).file_stem().unwrap_or_default();
        let maker = Maker { owner: self.owner, folder: self.folder.path(), stem };
        (self.kinds.check)(step, &maker).map_err(|reason| HostError::NotMade {
            ledger: self.path(),
            step: step.to_string(),
            reason,
        })
    }

    /// Undoes the remaining steps in reverse order and removes the ledger. Fails with
    /// [`HostError::NotUndone`] if some steps could not be undone. The ledger keeps only these steps.
    pub fn close(mut self) -> Result<(), HostError> {
        let closed = self.undo_all();
        self.is_left = closed.is_err();
        closed
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        let mut failures = Vec::new();
        for at in (0..self.steps.len()).rev() {
            if let Err(error) = self.undo(Entry(at)) {
                failures.push(chain(&error));
            }
        }
        if self.steps.iter().any(Option::is_some) {
            return Err(HostError::NotUndone { failures });
        }
        // On a full file system, the ends of the steps could not be recorded. Removing the ledger needs no space.
        Ok(self.folder.remove(&self.name)?)
    }

    fn undo_left(dir: &Path, kinds: Kinds) -> Result<Recovery, HostError> {
        let deadline = Instant::now() + PATIENCE;
        let mut found = Found::default();
        Self::undo_once(dir, kinds, deadline, &mut found)?;
        if !found.failed.is_empty() && !found.undone.is_empty() {
            // Try failed steps again, because another step may have had to be undone first. For example, an
            // array whose server was killed is busy until the requests to its devices fail.
            let mut again = Found::default();
            Self::undo_once(dir, kinds, deadline, &mut again)?;
            found.undone.append(&mut again.undone);
            // A step whose users have not changed since its failure is not tried again.
            let is_left = |step: &str| again.left.iter().any(|(left, _)| left == step);
            found.failed.retain(|(step, _)| is_left(step));
            let is_new = |step: &str| !found.failed.iter().any(|(failed, _)| failed == step);
            found.left = again.left.iter().filter(|(step, _)| is_new(step)).cloned().collect();
            found.failed.append(&mut again.failed);
        }
        let sentence =
            |(step, holder): &(String, String)| format!("{step} stays until this changes: {holder}");
        Ok(Recovery {
            undone: found.undone,
            left: found.left.iter().map(sentence).collect(),
            failed: found.failed.into_iter().map(|(_, error)| error).collect(),
        })
    }

    fn undo_once(dir: &Path, kinds: Kinds, deadline: Instant, found: &mut Found) -> Result<(), HostError> {
        let Some(folder) = TrustedFolder::open(dir)? else { return Ok(()) };
        for name in folder.names()? {
            match Path::new(&name).extension().and_then(OsStr::to_str) {
                Some("ledger") => recover_one(dir, &name, kinds, deadline, found)?,
                Some(LOCK) => remove_free_lock(&folder, &name),
                _ => {}
            }
        }
        Ok(())
    }

    /// Records what keeps the device of a step in use.
    fn note_holder(&mut self, at: usize) -> Result<(), HostError> {
        let Some(open) = &self.steps[at] else { return Ok(()) };
        match (self.kinds.holder)(&open.step) {
            Some(holder) => self.write(&Line::Left { at, holder }),
            None => Ok(()),
        }
    }

    /// Removes the ledger if all steps are undone, and does not try the others again.
    fn leave(mut self) -> Result<(), HostError> {
        self.is_left = self.steps.iter().any(Option::is_some);
        if self.is_left { Ok(()) } else { self.undo_all() }
    }

    /// Writes a line with its newline to the ledger in one call. So if the process is killed, at most the
    /// last line is incomplete. If the file system is full, no part of the line stays, so that later lines are
    /// complete.
    fn write(&mut self, line: &Line) -> Result<(), HostError> {
        let mut text = serde_json::to_string(line).expect("fonio's own paths are UTF-8");
        assert!(!text.contains('\n'), "a ledger entry has several lines: {text}");
        text.push('\n');
        let mut write = || {
            let before = self.file.seek(SeekFrom::End(0))?;
            self.file.write_all(text.as_bytes()).inspect_err(|_| {
                // Report the first error rather than an error of this call.
                let _ = self.file.set_len(before);
            })
        };
        write().map_err(HostError::system("write", self.path()))
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if !self.is_left {
            // Callers that need the error call `close`. If a step was not undone, the ledger file stays.
            let _ = self.undo_all();
        }
    }
}

fn recover_one(
    dir: &Path,
    name: &OsStr,
    kinds: Kinds,
    deadline: Instant,
    found: &mut Found,
) -> Result<(), HostError> {
    let Some(folder) = TrustedFolder::open(dir)? else { return Ok(()) };
    let Some(file) = folder.open_for_append(name)? else { return Ok(()) };
    let path = folder.path().join(name);
    let read = || parse(&path, &read_from(&file, &path, LEDGER_BYTES_MAX)?);
    let (owner, steps) = read()?;
    match owner {
        // The file is new, so its owner may be about to write the first line.
        None if age(&file).is_some_and(|age| age < YOUNG) => return Ok(()),
        Some(owner) if owner.runs() => return Ok(()),
        _ => {}
    }
    let is_left = |open: &Open| still_held(open, &file, kinds);
    let left = |steps: &[Option<Open>]| -> Vec<(String, String)> {
        let left = steps.iter().flatten().filter(|open| is_left(open));
        left.filter_map(|open| Some((open.step.to_string(), open.holder.as_ref()?.named.clone()))).collect()
    };
    let still_left = left(&steps);
    if !still_left.is_empty() && still_left.len() == steps.iter().flatten().count() {
        found.left.extend(still_left);
        return Ok(());
    }
    // The owner's lock on the ledger ended with the owner's process. Another process may be undoing this
    // ledger. If that takes long, this process continues without waiting for it. It does not wait at all for
    // another try of a step that failed before.
    let was_tried = steps.iter().flatten().any(|open| open.holder.is_some());
    let patience =
        if was_tried { Duration::ZERO } else { deadline.saturating_duration_since(Instant::now()) };
    match lock::wait(&file, &path, patience) {
        Err(error) if error.source.kind() == ErrorKind::TimedOut => {
            found.failed.push((path.display().to_string(), chain(&error)));
            return Ok(());
        }
        locked => locked?,
    }
    if file.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
        return Ok(());
    }
    let (Some(owner), steps) = read()? else { return Ok(folder.remove(name)?) };
    remove_incomplete_line(&file, &path)?;
    found.left.extend(left(&steps));
    let held: Vec<bool> = steps.iter().map(|open| open.as_ref().is_some_and(is_left)).collect();
    let file = file.try_clone().map_err(HostError::system("open", &path))?;
    let mut ledger = Ledger { folder, name: name.to_owned(), file, owner, steps, is_left: false, kinds };
    for at in (0..ledger.steps.len()).rev().filter(|at| !held[*at]) {
        let Some(Open { step, .. }) = ledger.steps[at].clone() else { continue };
        match ledger.undo(Entry(at)) {
            Ok(()) => found.undone.push(step.to_string()),
            Err(error) => {
                found.failed.push((step.to_string(), chain(&error)));
                // Without the note, the next start only tries once more.
                let _ = ledger.note_holder(at);
            }
        }
    }
    ledger.leave()
}

/// Removes an incomplete last line, so that another line can follow.
fn remove_incomplete_line(file: &File, path: &Path) -> Result<(), HostError> {
    let text = read_from(file, path, LEDGER_BYTES_MAX)?;
    let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if complete == text.len() {
        return Ok(());
    }
    file.set_len(complete as u64).map_err(HostError::system("write", path))
}

/// Returns whether a step failed before, and the same users still have its device.
fn still_held(open: &Open, ledger: &File, kinds: Kinds) -> bool {
    let Some(noted) = &open.holder else { return false };
    // Invisible users may have changed, but trying at each start would take too long.
    let is_recent = || age(ledger).is_some_and(|age| age < BLIND_PAUSE);
    (kinds.holder)(&open.step).is_some_and(|now| now.identity == noted.identity)
        && (!noted.identity.is_empty() || is_recent())
}

/// Returns the time since the ledger file was written.
fn age(file: &File) -> Option<Duration> {
    file.metadata().and_then(|metadata| metadata.modified()).ok()?.elapsed().ok()
}

/// Returns the owner and the steps that have not been undone. Ignores an incomplete last line.
fn parse(path: &Path, text: &[u8]) -> Result<(Option<ProcessId>, Vec<Option<Open>>), HostError> {
    let mut owner = None;
    let mut steps = Vec::new();
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(&[][..], |end| &text[..end]);
    let lines = whole.split(|byte| *byte == b'\n').filter(|_| !whole.is_empty());
    for (number, line) in lines.enumerate() {
        let line = serde_json::from_slice(line).map_err(|source| HostError::Ledger {
            path: path.to_owned(),
            line: number + 1,
            source,
        })?;
        match line {
            Line::Owner(id) => owner = Some(id),
            Line::Begin { at, step } if at == steps.len() && owner.is_some() => {
                steps.push(Some(Open { step, holder: None }));
            }
            Line::End { at } if at < steps.len() => steps[at] = None,
            Line::Left { at, holder } if at < steps.len() => {
                if let Some(open) = &mut steps[at] {
                    open.holder = Some(holder);
                }
            }
            Line::Begin { .. } | Line::End { .. } | Line::Left { .. } => {
                let source = serde::de::Error::custom("the step has no owner, or its number is out of order");
                return Err(HostError::Ledger { path: path.to_owned(), line: number + 1, source });
            }
        }
    }
    Ok((owner, steps))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;

    fn file(path: PathBuf) -> Step {
        Step::File { path }
    }

    #[test]
    fn a_ledger_reads_like_this() {
        let text = [
            Line::Owner(ProcessId { pid: 7, started_ticks: 9 }),
            Line::Begin {
                at: 0,
                step: Step::Loop { number: 300, backing: "/run/fonio/7-0.disk/disk".into() },
            },
            Line::End { at: 0 },
            Line::Begin { at: 1, step: Step::Ublk { number: 700, tag: 38_654_705_671 } },
        ]
        .map(|line| serde_json::to_string(&line).expect("JSON"))
        .join("\n");
        expect![[r#"
            {"owner":{"pid":7,"started_ticks":9}}
            {"begin":{"at":0,"step":{"kind":"loop","number":300,"backing":"/run/fonio/7-0.disk/disk"}}}
            {"end":{"at":0}}
            {"begin":{"at":1,"step":{"kind":"ublk","number":700,"tag":38654705671}}}"#]]
        .assert_eq(&text);
    }

    #[test]
    fn dropping_undoes_the_latest_first() {
        let dir = tempfile::tempdir().expect("dir");
        let state = dir.path().join("state");
        let mut ledger = Ledger::open(&state).expect("ledger");
        let made = ledger.own_path("made");
        let inside = made.join("fonio-replay.dat");
        ledger.begin(Step::Directory { path: made.clone() }).expect("begin");
        fs::create_dir(&made).expect("mkdir");
        ledger.begin(file(inside.clone())).expect("begin");
        fs::write(&inside, "x").expect("write");
        drop(ledger);
        assert!(!made.exists());
        assert_eq!(fs::read_dir(&state).expect("state").count(), 0);
    }

    #[test]
    fn a_dead_owner_is_cleaned_up_after_and_a_living_one_left_alone() {
        let dir = tempfile::tempdir().expect("dir");
        let left = dir.path().join("1-0.left");
        fs::write(&left, "x").expect("write");
        let step = serde_json::to_string(&Line::Begin { at: 0, step: file(left.clone()) }).expect("JSON");
        let ledger = dir.path().join("1-0.ledger");
        let write = |owner: ProcessId| {
            let owner = serde_json::to_string(&Line::Owner(owner)).expect("JSON");
            fs::write(&ledger, format!("{owner}\n{step}\n{{\"begin\":{{\"at\":1,")).expect("write");
        };
        write(ProcessId::own());
        assert!(Ledger::recover(dir.path()).expect("recover").undone.is_empty());
        assert!(left.exists());
        write(ProcessId { pid: ProcessId::own().pid, started_ticks: 0 });
        assert_eq!(Ledger::recover(dir.path()).expect("recover").undone.len(), 1);
        assert!(!left.exists() && !ledger.exists());
    }

    #[test]
    fn a_damaged_ledger_is_refused_with_its_line() {
        let path = Path::new("x.ledger");
        let error =
            parse(path, b"{\"owner\":{\"pid\":1,\"started_ticks\":2}}\nnonsense\n").expect_err("damaged");
        assert_eq!(error.to_string(), "x.ledger: line 2 is not a ledger entry");
        assert!(parse(path, b"{\"end\":{\"at\":3}}\n").is_err());
        let step = serde_json::to_string(&Line::Begin { at: 0, step: file("/x".into()) }).expect("JSON");
        assert!(parse(path, format!("{step}\n").as_bytes()).is_err(), "it has no owner");
    }

    /// Leaves a ledger of a process that has ended, with one step.
    fn left(dir: &Path, step: Step) -> PathBuf {
        let owner = ProcessId { pid: ProcessId::own().pid, started_ticks: 0 };
        let lines = [Line::Owner(owner), Line::Begin { at: 0, step }];
        let lines = lines.map(|line| serde_json::to_string(&line).expect("JSON") + "\n");
        let ledger = dir.join("1-0.ledger");
        fs::write(&ledger, lines.concat()).expect("write");
        ledger
    }

    #[test]
    fn a_forged_step_is_not_undone() {
        let dir = tempfile::tempdir().expect("dir");
        let foreign = dir.path().join("foreign");
        fs::write(&foreign, "x").expect("write");
        let ledger = left(dir.path(), file(foreign.clone()));
        let recovery = Ledger::recover(dir.path()).expect("recover");
        let expected = format!(
            "{}: fonio does not make file {} (the name is not one of fonio's files), so nothing was undone; \
             check what it is, then remove this ledger",
            ledger.display(),
            foreign.display()
        );
        assert_eq!((recovery.undone.len(), recovery.failed), (0, vec![expected]));
        assert!(foreign.exists() && ledger.exists());
        let mut own = Ledger::open(dir.path()).expect("ledger");
        assert!(matches!(own.begin(file(foreign)), Err(HostError::NotMade { .. })));
    }

    #[test]
    fn a_held_ledger_does_not_stop_a_start() {
        let dir = tempfile::tempdir().expect("dir");
        let ledger = left(dir.path(), file(dir.path().join("1-0.left")));
        let holder = File::open(&ledger).expect("it is there");
        holder.lock().expect("nobody has it");
        let mut found = Found::default();
        let kinds = Kinds { check: |_, _| Ok(()), undo: |_| Ok(()), holder: |_| None };
        Ledger::undo_once(dir.path(), kinds, Instant::now(), &mut found).expect("it goes on");
        let begin = format!("cannot lock {}: process {} (", ledger.display(), std::process::id());
        assert!(found.failed[0].1.starts_with(&begin), "{found:?}");
        drop(holder);
        Ledger::undo_once(dir.path(), kinds, Instant::now(), &mut found).expect("it is free");
        assert!(found.undone.len() == 1 && !ledger.exists());
    }

    /// A device that cannot be removed is tried once, and again only when its users have changed. Meanwhile, its
    /// ledger needs no lock.
    #[test]
    fn what_cannot_be_undone_is_tried_once() {
        static TRIES: AtomicU32 = AtomicU32::new(0);
        static USERS: Mutex<&str> = Mutex::new("process 1");
        let users = |text| *USERS.lock().expect("own lock") = text;
        let undo = |step: &Step| match step {
            Step::Loop { .. } if *USERS.lock().expect("own lock") != "nobody" => {
                TRIES.fetch_add(1, Ordering::Relaxed);
                Err(HostError::InUse { path: "/dev/loop700".into(), by: "a test".to_owned() })
            }
            _ => Ok(()),
        };
        let holder = |step: &Step| {
            let identity = (*USERS.lock().expect("own lock")).to_owned();
            let named = format!("{identity} has it open");
            matches!(step, Step::Loop { .. }).then_some(Holder { named, identity })
        };
        let kinds = Kinds { check: |_, _| Ok(()), undo, holder };
        let dir = tempfile::tempdir().expect("dir");
        let ledger = left(dir.path(), Step::Loop { number: 700, backing: "/x".into() });
        let other = Line::Begin { at: 1, step: file(dir.path().join("1-0.x")) };
        let text = fs::read_to_string(&ledger).expect("ledger");
        fs::write(&ledger, format!("{text}{}\n", serde_json::to_string(&other).expect("JSON")))
            .expect("write");
        let recover = || Ledger::undo_left(dir.path(), kinds).expect("recover");
        let tries = || TRIES.load(Ordering::Relaxed);

        let first = recover();
        assert_eq!((first.failed.len(), first.undone.len()), (1, 1));
        let tried = tries();
        for _ in 0..3 {
            let holder = File::open(&ledger).expect("it is there");
            holder.lock().expect("nobody has it");
            let again = recover();
            let expected = ["/dev/loop700 stays until this changes: process 1 has it open"];
            assert_eq!((again.left.as_slice(), again.failed.len()), (&expected.map(str::to_owned)[..], 0));
            assert_eq!(tries(), tried);
        }
        users("process 2");
        assert_eq!((recover().failed.len(), tries()), (1, tried + 1));
        assert_eq!((recover().left.len(), tries()), (1, tried + 1));
        // Without a visible user, the device is tried again, but not at each start.
        users("");
        assert_eq!((recover().failed.len(), tries()), (1, tried + 2));
        assert_eq!((recover().left.len(), tries()), (1, tried + 2));
        let long_ago = std::time::SystemTime::now() - 2 * BLIND_PAUSE;
        File::options()
            .append(true)
            .open(&ledger)
            .and_then(|file| file.set_modified(long_ago))
            .expect("own file");
        assert_eq!((recover().failed.len(), tries()), (1, tried + 3));
        users("nobody");
        assert_eq!(recover().undone, ["/dev/loop700"]);
        assert!(!ledger.exists());
    }

    proptest! {
        /// Tests that, at whatever byte the writer is killed, the ledger names the steps with a complete
        /// `begin` line and no `end` line.
        #[test]
        fn any_prefix_of_a_ledger_can_be_read(
            ends in prop::collection::vec(any::<bool>(), 0..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let owner = serde_json::to_string(&Line::Owner(ProcessId::own())).expect("JSON") + "\n";
            let mut text = owner.clone();
            for (at, ended) in ends.iter().enumerate() {
                let step = file(format!("/tmp/{at}").into());
                text += &(serde_json::to_string(&Line::Begin { at, step }).expect("JSON") + "\n");
                if *ended {
                    text += &(serde_json::to_string(&Line::End { at }).expect("JSON") + "\n");
                }
            }
            let prefix = &text[..cut.index(text.len() + 1)];
            let (_, steps) = parse(Path::new("x"), prefix.as_bytes()).expect("each prefix of a ledger is a ledger");
            let whole = &prefix[..prefix.rfind('\n').map_or(0, |end| end + 1)];
            prop_assert_eq!(steps.len(), whole.matches("begin").count());
            let open = steps.iter().filter(|step| step.is_some()).count();
            prop_assert_eq!(open, steps.len() - whole.matches("end").count());
        }
    }
}
