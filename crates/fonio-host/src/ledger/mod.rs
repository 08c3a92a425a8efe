//! The ledger: what has to be undone.
//!
//! A ledger is a file with one JSON value a line. The first names the owner; then a line goes in *before* a step is
//! done (`begin`) and one after it was undone (`end`). So a process that is killed at any point leaves a ledger that
//! names at least what it left behind, and every undoing first looks whether there is something of ours to undo.
//!
//! Steps are undone in the opposite order. The owner does so when the ledger is dropped, or earlier and one by one;
//! for an owner that runs no more, [`Ledger::recover`] does.

mod undo;

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use fonio_system::{ProcessId, state};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::HostError;

/// Something that outlives the process that did it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Step {
    /// A folder was made; it is removed if it is empty by then.
    Directory {
        /// The folder.
        path: PathBuf,
    },
    /// A folder was made that is ours with all that is in it; it is removed whole. File systems mounted below it are not
    /// entered.
    Tree {
        /// The folder.
        path: PathBuf,
    },
    /// A file was made.
    File {
        /// The file.
        path: PathBuf,
    },
    /// A process was started that must not outlive us.
    Process {
        /// The process.
        id: ProcessId,
        /// It leads a process group, which is ended with it.
        leads_group: bool,
    },
    /// A loop device was added.
    Loop {
        /// Its number: N of `/dev/loopN`.
        number: u32,
        /// The file that it is bound to, as the kernel shows it in `loop/backing_file`.
        backing: PathBuf,
    },
    /// A file system was mounted.
    Mount {
        /// Where.
        dir: PathBuf,
        /// What: the source as `/proc/self/mountinfo` shows it.
        source: String,
    },
    /// A control group was made; processes that are still in it go up to its parent.
    Cgroup {
        /// Its folder.
        path: PathBuf,
    },
    /// A setting of the kernel was changed.
    Setting {
        /// Its file in sysfs.
        path: PathBuf,
        /// What it was.
        was: String,
    },
    /// A network namespace was made.
    Namespace {
        /// Its name in `/run/netns`.
        name: String,
    },
}

/// The place of a step in its ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(usize);

/// What [`Ledger::recover`] did.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Steps undone, one sentence each.
    pub undone: Vec<String>,
    /// What could not be undone, one sentence each; it stays in its ledger.
    pub failed: Vec<String>,
}

/// The steps of this process that are not undone yet.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    steps: Vec<Option<Step>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Owner(ProcessId),
    Begin { at: usize, step: Step },
    End { at: usize },
}

impl Ledger {
    /// Names the folder where ledgers are kept: the state folder, which is empty after a reboot, as the machine is.
    pub fn default_dir() -> PathBuf {
        state::folder()
    }

    /// Begins a ledger of this process in `dir`, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// [`HostError::System`] where it cannot be written.
    pub fn open(dir: &Path) -> Result<Ledger, HostError> {
        make_private_dir(dir)?;
        let own = ProcessId::own();
        for serial in 0_u32.. {
            let path = dir.join(format!("{}-{serial}.ledger", own.pid));
            let file = match OpenOptions::new().append(true).create_new(true).open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(HostError::system("write", path)(error)),
            };
            // Held as long as the ledger is open: two processes never undo the same one.
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
                .map_err(|error| HostError::system("lock", &path)(error.into()))?;
            let mut ledger = Ledger { path, file, steps: Vec::new() };
            ledger.write(&Line::Owner(own))?;
            return Ok(ledger);
        }
        unreachable!("a process does not hold four thousand million ledgers")
    }

    /// The folder that this ledger is in, for files that belong to the same run.
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// A path beside the ledger that no other run uses. Nothing is made.
    pub fn own_path(&self, name: &str) -> PathBuf {
        self.path.with_extension(name)
    }

    /// How many steps were ever begun; a number to name things by.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Notes `step`, which the caller is about to do.
    ///
    /// # Errors
    ///
    /// [`HostError::System`]; the caller must not do the step then.
    pub fn begin(&mut self, step: Step) -> Result<Entry, HostError> {
        let at = self.steps.len();
        self.write(&Line::Begin { at, step: step.clone() })?;
        self.steps.push(Some(step));
        Ok(Entry(at))
    }

    /// Notes that the step was not done after all, or that the caller has undone it.
    ///
    /// # Errors
    ///
    /// [`HostError::System`].
    pub fn end(&mut self, entry: Entry) -> Result<(), HostError> {
        if self.steps[entry.0].take().is_some() {
            self.write(&Line::End { at: entry.0 })?;
        }
        Ok(())
    }

    /// Undoes one step. Nothing happens where it is undone already.
    ///
    /// # Errors
    ///
    /// Why it could not be undone; it stays in the ledger.
    pub fn undo(&mut self, entry: Entry) -> Result<(), HostError> {
        let Some(step) = &self.steps[entry.0] else { return Ok(()) };
        undo::undo(step)?;
        self.end(entry)
    }

    /// Undoes what is left, the latest first, and removes the ledger.
    ///
    /// # Errors
    ///
    /// [`HostError::NotUndone`]; what could be undone was, and the ledger stays for the rest.
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
        if failures.is_empty() { remove_file(&self.path) } else { Err(HostError::NotUndone { failures }) }
    }

    /// Undoes what processes that run no more have left behind in `dir`.
    ///
    /// # Errors
    ///
    /// [`HostError::Ledger`] where a ledger is damaged, and [`HostError::System`] where `dir` cannot be read.
    pub fn recover(dir: &Path) -> Result<Recovery, HostError> {
        let mut recovery = Recovery::default();
        let listing = match fs::read_dir(dir) {
            Ok(listing) => listing,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(recovery),
            Err(error) => return Err(HostError::system("list", dir)(error)),
        };
        let mut paths = Vec::new();
        for entry in listing {
            let path = entry.map_err(HostError::system("list", dir))?.path();
            if path.extension().is_some_and(|extension| extension == "ledger") {
                paths.push(path);
            }
        }
        paths.sort();
        for path in paths {
            recover_one(path, &mut recovery)?;
        }
        Ok(recovery)
    }

    /// One write for a line and its end: a killed writer leaves a whole line or a last one without an end.
    fn write(&mut self, line: &Line) -> Result<(), HostError> {
        let mut text = serde_json::to_string(line).expect("paths of ours are UTF-8");
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(HostError::system("write", &self.path))
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`; the ledger's file stays where something was not undone.
        let _ = self.undo_all();
    }
}

fn recover_one(path: PathBuf, recovery: &mut Recovery) -> Result<(), HostError> {
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
        // Its owner is about to write its first line.
        Some((None, _)) if is_young(&file) => return Ok(()),
        Some((owner, _)) if owner.is_some_and(ProcessId::runs) => return Ok(()),
        Some(_) => {}
    }
    // The owner's lock went with it; another process that undoes this ledger is waited for.
    rustix::fs::flock(&file, FlockOperation::LockExclusive)
        .map_err(|error| HostError::system("lock", &path)(error.into()))?;
    let Some((_, steps)) = read()? else { return Ok(()) };
    let mut ledger = Ledger { path, file, steps };
    for at in (0..ledger.steps.len()).rev() {
        let Some(step) = ledger.steps[at].clone() else { continue };
        match ledger.undo(Entry(at)) {
            Ok(()) => recovery.undone.push(step.to_string()),
            Err(error) => recovery.failed.push(chain(&error)),
        }
    }
    // Dropping it removes the file, or keeps it for what is left.
    drop(ledger);
    Ok(())
}

/// Whether the file was changed within the last minute.
fn is_young(file: &File) -> bool {
    let changed = file.metadata().and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age.as_secs() < 60))
}

/// The owner and the steps that are not undone. A last line without an end is a step that was never begun.
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
                let source = serde::de::Error::custom("its number is out of order");
                return Err(HostError::Ledger { path: path.to_owned(), line: number + 1, source });
            }
        }
    }
    Ok((owner, steps))
}

/// A folder that nobody else can write to: what it says is done as root.
pub(crate) fn make_private_dir(dir: &Path) -> Result<(), HostError> {
    use std::os::unix::fs::MetadataExt;
    state::make(dir).map_err(HostError::system("make", dir))?;
    let metadata = fs::metadata(dir).map_err(HostError::system("look at", dir))?;
    let foreign = metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o022 != 0;
    if foreign {
        let source = std::io::Error::new(ErrorKind::PermissionDenied, "others can write to it");
        return Err(HostError::system("keep a ledger in", dir)(source));
    }
    Ok(())
}

pub(crate) fn remove_file(path: &Path) -> Result<(), HostError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(HostError::system("remove", path)(error)),
        _ => Ok(()),
    }
}

/// An error and its causes in one sentence.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
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
        ]
        .map(|line| serde_json::to_string(&line).expect("JSON"))
        .join("\n");
        expect![[r#"
            {"owner":{"pid":7,"started_ticks":9}}
            {"begin":{"at":0,"step":{"kind":"loop","number":300,"backing":"/run/fonio/7-0.disk/disk"}}}
            {"end":{"at":0}}"#]]
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
        assert_eq!(error.to_string(), "x.ledger: line 2 is not an entry of a ledger");
        assert!(parse(path, "{\"end\":{\"at\":3}}\n").is_err());
    }

    proptest! {
            /// Wherever the writer is killed, the steps named are those begun in whole lines and not ended.
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
                let (_, steps) = parse(Path::new("x"), prefix).expect("a prefix is a ledger");
    let whole = &prefix[..prefix.rfind('\n').map_or(0, |end| end + 1)];
                prop_assert_eq!(steps.len(), whole.matches("begin").count());
                let open = steps.iter().filter(|step| step.is_some()).count();
                prop_assert_eq!(open, steps.len() - whole.matches("end").count());
            }
        }
}
