//! Keeps the ledger, which records the steps to undo.
//!
//! A ledger is a file with one JSON value per line. The first line of a ledger names its owner. A `begin`
//! line is written *before* each step, and an `end` line after the step was undone. So a process killed at
//! any point leaves a ledger that names all steps to undo. A step in the ledger was possibly never executed,
//! so undoing first checks that the object exists and is ours.
//!
//! The steps of a ledger are undone in reverse order. The owner undoes all steps when it drops the ledger,
//! and can undo individual steps earlier. [`Ledger::recover`] undoes the steps of owners that no longer run.
//!
//! This module has no code for devices, mounts or processes. The function that undoes a step ([`undo`]) is
//! passed when a ledger is opened.

mod undo;

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use fonio_system::{ProcessId, chain, state};
use serde::{Deserialize, Serialize};

use crate::error::HostError;
use crate::files::{make_private_folder, remove};
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
    path: PathBuf,
    file: File,
    steps: Vec<Option<Step>>,
    undo: Undo,
}

/// Undoes a step. The function also succeeds if there is nothing to undo.
type Undo = fn(&Step) -> Result<(), HostError>;

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

    fn create(dir: &Path, undo: Undo) -> Result<Ledger, HostError> {
        make_private_folder(dir)?;
        let own = ProcessId::own();
        for serial in 0_u32.. {
            let path = dir.join(format!("{}-{serial}.ledger", own.pid));
            let file = match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(HostError::system("write", path)(error)),
            };
            // Hold the lock while the ledger is open, so that two processes never undo the same ledger.
            file.lock().map_err(HostError::system("lock", &path))?;
            let mut ledger = Ledger { path, file, steps: Vec::new(), undo };
            ledger.write(&Line::Owner(own))?;
            return Ok(ledger);
        }
        unreachable!("a process holds fewer than 2³² ledgers")
    }

    /// Returns the folder of this ledger, for other files of the same run.
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Returns the path of a file that is next to the ledger and that no other run uses. Does not create this
    /// file.
    pub fn own_path(&self, name: &str) -> PathBuf {
        self.path.with_extension(name)
    }

    /// Returns the number of steps that the ledger has recorded so far. Callers use this number in names.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Records `step` before the caller executes the step. Fails with [`HostError::System`]; if so, the
    /// caller must not execute the step.
    pub fn begin(&mut self, step: Step) -> Result<Entry, HostError> {
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
        (self.undo)(step)?;
        self.end(entry)
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
        remove(&self.path)
    }

    fn undo_left(dir: &Path, undo: Undo) -> Result<Recovery, HostError> {
        let mut recovery = Recovery::default();
        Self::undo_once(dir, undo, &mut recovery)?;
        if !recovery.failed.is_empty() && !recovery.undone.is_empty() {
            // Try failed steps again, because another step may have had to be undone first. For example, an
            // array whose server was killed is busy until the requests to its devices fail.
            recovery.failed.clear();
            Self::undo_once(dir, undo, &mut recovery)?;
        }
        Ok(recovery)
    }

    fn undo_once(dir: &Path, undo: Undo, recovery: &mut Recovery) -> Result<(), HostError> {
        let listing = match fs::read_dir(dir) {
            Ok(listing) => listing,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(HostError::system("list", dir)(error)),
        };
        let mut paths = Vec::new();
        for entry in listing {
            let path = entry.map_err(HostError::system("list", dir))?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("ledger") => paths.push(path),
                Some(LOCK) => remove_free_lock(&path),
                _ => {}
            }
        }
        paths.sort();
        paths.into_iter().try_for_each(|path| recover_one(path, undo, recovery))
    }

    /// Writes a line with its newline to the ledger in one call. So if the process is killed, at most the
    /// last line is incomplete.
    fn write(&mut self, line: &Line) -> Result<(), HostError> {
        let mut text = serde_json::to_string(line).expect("fonio's own paths are UTF-8");
        assert!(!text.contains('\n'), "a ledger entry has several lines: {text}");
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(HostError::system("write", &self.path))
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Callers that need the error call `close`. If a step was not undone, the ledger file stays.
        let _ = self.undo_all();
    }
}

fn recover_one(path: PathBuf, undo: Undo, recovery: &mut Recovery) -> Result<(), HostError> {
    let file = match OpenOptions::new().read(true).append(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(HostError::system("open", path)(error)),
    };
    let read = || match fs::read_to_string(&path) {
        Ok(text) => parse(&path, &text).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HostError::system("read", &path)(error)),
    };
    match read()? {
        None => return Ok(()),
        // The file is new, so its owner may be about to write the first line.
        Some((None, _)) if is_young(&file) => return Ok(()),
        Some((owner, _)) if owner.is_some_and(ProcessId::runs) => return Ok(()),
        Some(_) => {}
    }
    // The owner's lock on the ledger ended with the owner's process. Another process may be undoing this
    // ledger; wait until it has finished.
    file.lock().map_err(HostError::system("lock", &path))?;
    let Some((_, steps)) = read()? else { return Ok(()) };
    let mut ledger = Ledger { path, file, steps, undo };
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
fn parse(path: &Path, text: &str) -> Result<(Option<ProcessId>, Vec<Option<Step>>), HostError> {
    let mut owner = None;
    let mut steps = Vec::new();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for (number, line) in whole.lines().enumerate() {
        let line = serde_json::from_str(line).map_err(|source| HostError::Ledger {
            path: path.to_owned(),
            line: number + 1,
            source,
        })?;
        match line {
            Line::Owner(id) => owner = Some(id),
            Line::Begin { at, step } if at == steps.len() => steps.push(Some(step)),
            Line::End { at } if at < steps.len() => steps[at] = None,
            Line::Begin { .. } | Line::End { .. } => {
                let source = serde::de::Error::custom("the step number is out of order");
                return Err(HostError::Ledger { path: path.to_owned(), line: number + 1, source });
            }
        }
    }
    Ok((owner, steps))
}

#[cfg(test)]
mod tests {
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
        let (made, inside) = (dir.path().join("made"), dir.path().join("made/file"));
        let mut ledger = Ledger::open(&state).expect("ledger");
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
        let left = dir.path().join("left");
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
            parse(path, "{\"owner\":{\"pid\":1,\"started_ticks\":2}}\nnonsense\n").expect_err("damaged");
        assert_eq!(error.to_string(), "x.ledger: line 2 is not a ledger entry");
        assert!(parse(path, "{\"end\":{\"at\":3}}\n").is_err());
    }

    proptest! {
        /// Tests that, at whatever byte the writer is killed, the ledger names the steps with a complete
        /// `begin` line and no `end` line.
        #[test]
        fn any_prefix_of_a_ledger_can_be_read(
            ends in prop::collection::vec(any::<bool>(), 0..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut text = String::new();
            for (at, ended) in ends.iter().enumerate() {
                let step = file(format!("/tmp/{at}").into());
                text += &(serde_json::to_string(&Line::Begin { at, step }).expect("JSON") + "\n");
                if *ended {
                    text += &(serde_json::to_string(&Line::End { at }).expect("JSON") + "\n");
                }
            }
            let prefix = &text[..cut.index(text.len() + 1)];
            let (_, steps) = parse(Path::new("x"), prefix).expect("each prefix of a ledger is a ledger");
            let whole = &prefix[..prefix.rfind('\n').map_or(0, |end| end + 1)];
            prop_assert_eq!(steps.len(), whole.matches("begin").count());
            let open = steps.iter().filter(|step| step.is_some()).count();
            prop_assert_eq!(open, steps.len() - whole.matches("end").count());
        }
    }
}
