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
//! The steps of a ledger are undone in reverse order. The owner undoes all steps when it drops the ledger,
//! and can undo individual steps earlier. [`Ledger::recover`] undoes the steps of owners that no longer run.
//!
//! This module has no code for devices, mounts or processes. The functions that check and undo a step
//! ([`Kinds`]) are passed when a ledger is opened.

mod targets;
mod undo;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fonio_system::{ProcessId, TrustedFolder, chain, lock, read_from, state};
use serde::{Deserialize, Serialize};

use crate::error::HostError;
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
}

/// The ledger of a process: its steps that are not yet undone.
#[derive(Debug)]
pub struct Ledger {
    folder: TrustedFolder,
    name: OsString,
    file: File,
    owner: ProcessId,
    steps: Vec<Option<Step>>,
    kinds: Kinds,
}

/// Checks and undoes the steps of each kind.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    /// Returns the reason why fonio never makes the object of a step.
    check: fn(&Step, &Maker<'_>) -> Result<(), &'static str>,
    /// Undoes a step. The function also succeeds if there is nothing to undo.
    undo: fn(&Step) -> Result<(), HostError>,
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
/// Maximum time for which a start waits for other processes that undo ledgers.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Owner(ProcessId),
    Begin { at: usize, step: Step },
    End { at: usize },
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
            let mut ledger = Ledger { folder, name, file, owner, steps: Vec::new(), kinds };
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
        let is_open = self.steps.iter().flatten().any(|open| *open == step);
        assert!(!is_open, "{step} is already in the ledger, and would be undone twice");
        self.write(&Line::Begin { at, step: step.clone() })?;
        self.steps.push(Some(step));
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
        let Some(step) = &self.steps[entry.0] else { return Ok(()) };
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
        self.undo_all()
    }

    fn undo_all(&mut self) -> Result<(), HostError> {
        let mut failures = Vec::new();
        for at in (0..self.steps.len()).rev() {
            if let Err(error) = self.undo(Entry(at)) {
                failures.push(chain(&error));
            }
        }
        if !failures.is_empty() {
            return Err(HostError::NotUndone { failures });
        }
        assert!(self.steps.iter().all(Option::is_none), "a ledger is removed only when it is empty");
        Ok(self.folder.remove(&self.name)?)
    }

    fn undo_left(dir: &Path, kinds: Kinds) -> Result<Recovery, HostError> {
        let mut recovery = Recovery::default();
        let deadline = Instant::now() + PATIENCE;
        Self::undo_once(dir, kinds, deadline, &mut recovery)?;
        if !recovery.failed.is_empty() && !recovery.undone.is_empty() {
            // Try failed steps again, because another step may have had to be undone first. For example, an
            // array whose server was killed is busy until the requests to its devices fail.
            recovery.failed.clear();
            Self::undo_once(dir, kinds, deadline, &mut recovery)?;
        }
        Ok(recovery)
    }

    fn undo_once(
        dir: &Path,
        kinds: Kinds,
        deadline: Instant,
        recovery: &mut Recovery,
    ) -> Result<(), HostError> {
        let Some(folder) = TrustedFolder::open(dir)? else { return Ok(()) };
        for name in folder.names()? {
            match Path::new(&name).extension().and_then(OsStr::to_str) {
                Some("ledger") => recover_one(dir, &name, kinds, deadline, recovery)?,
                Some(LOCK) => remove_free_lock(&folder, &name),
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes a line with its newline to the ledger in one call. So if the process is killed, at most the
    /// last line is incomplete.
    fn write(&mut self, line: &Line) -> Result<(), HostError> {
        let mut text = serde_json::to_string(line).expect("fonio's own paths are UTF-8");
        assert!(!text.contains('\n'), "a ledger entry has several lines: {text}");
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(HostError::system("write", self.path()))
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Callers that need the error call `close`. If a step was not undone, the ledger file stays.
        let _ = self.undo_all();
    }
}

fn recover_one(
    dir: &Path,
    name: &OsStr,
    kinds: Kinds,
    deadline: Instant,
    recovery: &mut Recovery,
) -> Result<(), HostError> {
    let Some(folder) = TrustedFolder::open(dir)? else { return Ok(()) };
    let Some(file) = folder.open_for_append(name)? else { return Ok(()) };
    let path = folder.path().join(name);
    let read = || parse(&path, &read_from(&file, &path, LEDGER_BYTES_MAX)?);
    match read()? {
        // The file is new, so its owner may be about to write the first line.
        (None, _) if is_young(&file) => return Ok(()),
        (Some(owner), _) if owner.runs() => return Ok(()),
        _ => {}
    }
    // The owner's lock on the ledger ended with the owner's process. Another process may be undoing this
    // ledger. If that takes long, this process continues without waiting for it.
    match lock::wait(&file, &path, deadline.saturating_duration_since(Instant::now())) {
        Err(error) if error.source.kind() == ErrorKind::TimedOut => {
            recovery.failed.push(chain(&error));
            return Ok(());
        }
        locked => locked?,
    }
    if file.metadata().is_ok_and(|metadata| metadata.nlink() == 0) {
        return Ok(());
    }
    let (Some(owner), steps) = read()? else { return Ok(folder.remove(name)?) };
    let mut ledger = Ledger { folder, name: name.to_owned(), file, owner, steps, kinds };
    for at in (0..ledger.steps.len()).rev() {
        let Some(step) = ledger.steps[at].clone() else { continue };
        match ledger.undo(Entry(at)) {
            Ok(()) => recovery.undone.push(step.to_string()),
            Err(error) => recovery.failed.push(chain(&error)),
        }
    }
    // Dropping the ledger removes its file unless steps remain.
    drop(ledger);
    Ok(())
}

/// Returns whether the ledger file was modified within the last minute.
fn is_young(file: &File) -> bool {
    let changed = file.metadata().and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age.as_secs() < 60))
}

/// Returns the owner and the steps that have not been undone. Ignores an incomplete last line.
fn parse(path: &Path, text: &[u8]) -> Result<(Option<ProcessId>, Vec<Option<Step>>), HostError> {
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
            Line::Begin { at, step } if at == steps.len() && owner.is_some() => steps.push(Some(step)),
            Line::End { at } if at < steps.len() => steps[at] = None,
            Line::Begin { .. } | Line::End { .. } => {
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
        let mut recovery = Recovery::default();
        let kinds = Kinds { check: |_, _| Ok(()), undo: |_| Ok(()) };
        Ledger::undo_once(dir.path(), kinds, Instant::now(), &mut recovery).expect("it goes on");
        let begin = format!("cannot lock {}: process {} (", ledger.display(), std::process::id());
        assert!(recovery.failed[0].starts_with(&begin), "{recovery:?}");
        drop(holder);
        Ledger::undo_once(dir.path(), kinds, Instant::now(), &mut recovery).expect("it is free");
        assert!(recovery.undone.len() == 1 && !ledger.exists());
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
