//! Copies of SQLite databases that a command uses in the place of the originals.
//!
//! A first copy of each database is kept next to the database's folder, so all runs start with the same
//! content. Each run gets a fresh copy of it on the same file system, because another disk would have other
//! times. The folder of the database is covered in a [`View`]:
//!
//! - with an overlay, so that changes of all other files in the folder are thrown away too;
//! - if the folder is itself a mount point, nothing of the same file system is outside of it, and an overlay
//!   must not contain its own upper folder. Then a new folder in it gets copies of the files, and an overlay
//!   for each subfolder.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fonio_system::{MountTable, Task, say};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::engine::Engine;
use crate::error::HostError;
use crate::ledger::{Ledger, Step};
use crate::program;
use crate::settings::{journal_mode, set_journal_mode};
use crate::view::{Cover, View, copy_mode};

/// Databases, each with a first copy. Dropping this value removes the copies.
#[derive(Debug)]
pub struct DatabaseCopies {
    folders: Vec<Folder>,
    /// The number of fresh copies so far.
    serial: AtomicU32,
    _ledger: Ledger,
}

/// A folder that contains databases.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// The databases' file names. A database need not exist.
    names: Vec<OsString>,
    /// The folder in which copies are made, on the same file system.
    room: PathBuf,
    /// The folder with the first copies.
    first: PathBuf,
}

/// Fresh copies for one run. The ledger removes them.
#[derive(Debug)]
pub struct FreshCopies {
    covers: Vec<Cover>,
    /// The path of each database, and the path of its copy.
    copies: Vec<(PathBuf, PathBuf)>,
    /// The places of logs and journals of the originals, which a view must not show next to the copies.
    hidden: Vec<PathBuf>,
}

/// How long a copy waits for a database that another program has locked.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);
/// Beginning of the names of the folders with copies.
const ROOM: &str = ".fonio-proof-";

impl DatabaseCopies {
    /// Copies the databases. A path without a file is a database that the command will create. Fails with
    /// [`HostError::DatabaseBusy`] if another program keeps a database locked for ten seconds, and with
    /// [`HostError::System`] or [`HostError::ProgramFailed`] if a database cannot be copied.
    pub fn take(databases: &[PathBuf]) -> Result<DatabaseCopies, HostError> {
        let mut ledger = Ledger::open(&Ledger::default_dir())?;
        let mounts = MountTable::read()?;
        let mut folders: Vec<Folder> = Vec::new();
        for database in databases {
            let (path, name) = place_of(database)?;
            if let Some(known) = folders.iter_mut().find(|folder| folder.path == path) {
                if !known.names.contains(&name) {
                    known.names.push(name);
                }
                continue;
            }
            let room = room_of(&path, &mounts)?;
            let first = room.join(format!("{ROOM}{}-first{}", std::process::id(), folders.len()));
            make_tree(&mut ledger, &first)?;
            folders.push(Folder { path, names: vec![name], room, first });
        }
        // A folder comes before the folders in it.
        folders.sort_by(|one, other| one.path.cmp(&other.path));
        for folder in &folders {
            for name in &folder.names {
                check(&folder.path.join(name))?;
                copy_consistently(&folder.path.join(name), &folder.first)?;
            }
        }
        Ok(DatabaseCopies { folders, serial: AtomicU32::new(0), _ledger: ledger })
    }

    /// Returns the databases' paths without symbolic links.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().flat_map(|folder| folder.names.iter().map(|name| folder.path.join(name)))
    }

    /// Returns the folders of the databases.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(|folder| folder.path.as_path())
    }

    /// Makes a fresh copy of each database. `ledger` removes the copies. Fails with [`HostError::System`] or
    /// [`HostError::ProgramFailed`] if the file system has no room for them.
    pub fn fresh(&self, ledger: &mut Ledger) -> Result<FreshCopies, HostError> {
        let mut fresh = FreshCopies { covers: Vec::new(), copies: Vec::new(), hidden: Vec::new() };
        for folder in &self.folders {
            let serial = self.serial.fetch_add(1, Ordering::Relaxed);
            let room = folder.room.join(format!("{ROOM}{}-run{serial}", std::process::id()));
            make_tree(ledger, &room)?;
            let content = match folder.room == folder.path {
                false => fresh.cover_with_overlay(folder, &room)?,
                true => fresh.cover_with_copies(folder, &room)?,
            };
            for name in &folder.names {
                let (first, copy) = (folder.first.join(name), content.join(name));
                if first.exists() {
                    copy_file(&first, &copy)?;
                }
                fresh.copies.push((folder.path.join(name), copy));
            }
        }
        Ok(fresh)
    }
}

impl FreshCopies {
    fn cover_with_overlay(&mut self, folder: &Folder, room: &Path) -> Result<PathBuf, HostError> {
        let cover = overlay(&folder.path, &folder.path, room, "")?;
        let Cover::Overlay { upper, .. } = &cover else { unreachable!("it is an overlay") };
        let upper = upper.clone();
        self.covers.push(cover);
        for name in &folder.names {
            for ending in ["-wal", "-shm", "-journal"] {
                let part = with_ending(Path::new(name), ending);
                if folder.path.join(&part).exists() {
                    self.hidden.push(upper.join(part));
                }
            }
        }
        Ok(upper)
    }

    fn cover_with_copies(&mut self, folder: &Folder, room: &Path) -> Result<PathBuf, HostError> {
        let content = room.join("content");
        fs::create_dir(&content).map_err(HostError::system("make", &content))?;
        copy_mode(&folder.path, &content)?;
        let mounts = MountTable::read()?;
        let listing = fs::read_dir(&folder.path).map_err(HostError::system("list", &folder.path))?;
        for entry in listing {
            let entry = entry.map_err(HostError::system("list", &folder.path))?;
            let (name, path) = (entry.file_name(), entry.path());
            let copy = content.join(&name);
            let kind = entry.file_type().map_err(HostError::system("look at", &path))?;
            let is_own = name.to_string_lossy().starts_with(ROOM);
            if is_own || name == "lost+found" || folder.is_of_database(&name) {
                continue;
            }
            if !kind.is_dir() {
                copy_file(&path, &copy)?;
                continue;
            }
            fs::create_dir(&copy).map_err(HostError::system("make", &copy))?;
            copy_mode(&path, &copy)?;
            // The view shows the mounts below the folder again.
            if mounts.at(&path).is_none() {
                self.covers.push(overlay(&path, &copy, room, &self.covers.len().to_string())?);
            }
        }
        self.covers.push(Cover::Folder { content: content.clone(), at: folder.path.clone() });
        Ok(content)
    }

    /// Makes a view that shows the copies in the place of the databases. Fails with [`HostError::System`] if
    /// the kernel refuses a mount.
    pub fn view(&self) -> Result<View, HostError> {
        self.hidden
            .iter()
            .filter(|path| fs::symlink_metadata(path).is_err())
            .try_for_each(|path| hide(path))?;
        View::make(&self.covers)
    }

    /// Changes the copies to a write-ahead log or to a rollback journal. Returns the databases that do not exist
    /// yet. Fails with [`HostError::NotSettable`] if SQLite refuses the change.
    pub fn set_journal(&self, is_wal: bool) -> Result<Vec<PathBuf>, HostError> {
        let is_device = |path: &&PathBuf| {
            fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_char_device())
        };
        // Outside of a view, SQLite would take the device for a log.
        for path in self.hidden.iter().filter(is_device) {
            fs::remove_file(path).map_err(HostError::system("remove", path))?;
        }
        let mut missing = Vec::new();
        for (database, copy) in &self.copies {
            match journal_mode(copy)? {
                Some(_) => set_journal_mode(copy, is_wal)?,
                None => missing.push(database.clone()),
            }
        }
        Ok(missing)
    }

    /// Returns each database with whether its copy now has a write-ahead log; `None` if the copy does not exist
    /// or is not a database.
    pub fn journals(&self) -> Result<Vec<(PathBuf, Option<bool>)>, HostError> {
        let mode = |(database, copy): &(PathBuf, PathBuf)| Ok((database.clone(), journal_mode(copy)?));
        self.copies.iter().map(mode).collect()
    }
}

impl Folder {
    /// Returns whether a file belongs to one of the databases.
    fn is_of_database(&self, name: &OsStr) -> bool {
        self.names.iter().any(|database| {
            let rest = name.to_string_lossy().strip_prefix(&*database.to_string_lossy()).map(str::to_owned);
            rest.is_some_and(|rest| ["", "-wal", "-shm", "-journal"].contains(&rest.as_str()))
        })
    }
}

/// Returns the overlay over the folder `lower` that a view shows at `at`.
fn overlay(lower: &Path, at: &Path, room: &Path, number: &str) -> Result<Cover, HostError> {
    let folder = |name: &str| {
        let path = room.join(format!("{name}{number}"));
        fs::create_dir(&path).map_err(HostError::system("make", &path)).map(|()| path)
    };
    let (upper, work) = (folder("upper")?, folder("work")?);
    copy_mode(lower, &upper)?;
    Ok(Cover::Overlay { lower: lower.to_owned(), upper, work, at: at.to_owned() })
}

/// Fails if an existing file is not an SQLite database. An empty file is a database without content.
fn check(path: &Path) -> Result<(), HostError> {
    let is_empty = fs::metadata(path).is_ok_and(|found| found.len() == 0);
    if !path.exists() || is_empty || journal_mode(path)?.is_some() {
        return Ok(());
    }
    let reason = match Engine::at(path, path) {
        Some(engine) => format!("the file belongs to {}. {}", engine.name(), engine.setting()),
        None => "the file is not an SQLite database".to_owned(),
    };
    Err(HostError::NotSettable { setting: "SQLite's settings".to_owned(), path: path.to_owned(), reason })
}

/// Hides a file of the original database from the copy, which has a log or journal of its own. In the upper folder
/// of an overlay, this device stands for a file that was removed.
fn hide(path: &Path) -> Result<(), HostError> {
    let kind = rustix::fs::FileType::CharacterDevice;
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::empty(), 0)
        .map_err(HostError::system("hide", path))
}

/// Returns the folder and the name of a database.
fn place_of(database: &Path) -> Result<(PathBuf, OsString), HostError> {
    let name = database.file_name();
    let parent = database.parent().map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    let (Some(name), Some(parent)) = (name, parent) else {
        return Err(HostError::system("copy", database)(std::io::Error::from(
            std::io::ErrorKind::IsADirectory,
        )));
    };
    // A link leads to the folder in which SQLite keeps the journal.
    if let Ok(found) = fs::canonicalize(database)
        && let (Some(parent), Some(name)) = (found.parent(), found.file_name())
    {
        return Ok((parent.to_owned(), name.to_owned()));
    }
    Ok((fs::canonicalize(parent).map_err(HostError::system("find", parent))?, name.to_owned()))
}

/// Returns the folder for copies: the parent folder, or the folder itself if it is a mount point.
fn room_of(folder: &Path, mounts: &MountTable) -> Result<PathBuf, HostError> {
    let refused = |reason: &str| HostError::NotSettable {
        setting: "copies".to_owned(),
        path: folder.to_owned(),
        reason: reason.to_owned(),
    };
    match folder.parent() {
        None => {
            Err(refused("a database in the root folder cannot be covered; move it to a folder of its own"))
        }
        Some(_) if mounts.at(folder).is_some() => Ok(folder.to_owned()),
        Some(parent) => Ok(parent.to_owned()),
    }
}

fn make_tree(ledger: &mut Ledger, path: &Path) -> Result<(), HostError> {
    ledger.begin(Step::Tree { path: path.to_owned() })?;
    fs::create_dir(path).map_err(HostError::system("make", path))?;
    // Other users must not read the copies.
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(path, private).map_err(HostError::system("set the mode of", path))
}

/// Copies a file with its owner, mode and times, and with blocks of its own.
fn copy_file(from: &Path, to: &Path) -> Result<(), HostError> {
    let options = ["--archive", "--reflink=never", "--no-target-directory", "--"].map(OsStr::new);
    let words = [&options[..], &[from.as_os_str(), to.as_os_str()]].concat();
    program::run("cp", "coreutils", &words).map(drop)
}

/// Copies a database to a folder while no program changes it.
fn copy_consistently(database: &Path, to: &Path) -> Result<(), HostError> {
    let began = Instant::now();
    let mut is_told = false;
    loop {
        let users = users_of(database);
        let is_copied = if users.is_empty() {
            copy_parts(database, to)?;
            users_of(database).is_empty()
        } else {
            copy_locked(database, to)?
        };
        if is_copied {
            return settle(database, &to.join(database.file_name().unwrap_or_default()));
        }
        let by = if users.is_empty() { "a program that has ended meanwhile".to_owned() } else { users };
        if began.elapsed() >= PATIENCE {
            return Err(HostError::DatabaseBusy { path: database.to_owned(), by });
        }
        if !std::mem::replace(&mut is_told, true) {
            say!("{} is locked by {by}; trying again for ten seconds …", database.display());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Copies the database's files, without the index of a write-ahead log, which SQLite makes again.
fn copy_parts(database: &Path, to: &Path) -> Result<(), HostError> {
    for ending in ["", "-wal", "-journal"] {
        let from = with_ending(database, ending);
        let copy = to.join(from.file_name().unwrap_or_default());
        if from.exists() {
            copy_file(&from, &copy)?;
        } else if copy.exists() {
            // It is from an attempt during which another program changed the database.
            fs::remove_file(&copy).map_err(HostError::system("remove", &copy))?;
        }
    }
    Ok(())
}

/// Copies a database that other programs have open, with SQLite's lock of writers. Returns false if another
/// program has this lock.
fn copy_locked(database: &Path, to: &Path) -> Result<bool, HostError> {
    let refused = |error: rusqlite::Error| HostError::NotSettable {
        setting: "a lock".to_owned(),
        path: database.to_owned(),
        reason: error.to_string(),
    };
    let is_busy = |error: &rusqlite::Error| {
        matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).map_err(refused)?;
    // If the other programs end meanwhile, closing this connection must not change the database.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(refused)?;
    connection.busy_timeout(Duration::ZERO).map_err(refused)?;
    match connection.execute_batch("BEGIN IMMEDIATE") {
        // The copying process is another one: this process would lose its locks with the first file that it
        // closes.
        Ok(()) => {
            copy_parts(database, to)?;
            connection.execute_batch("ROLLBACK").map_err(refused)?;
            Ok(true)
        }
        Err(error) if is_busy(&error) => Ok(false),
        Err(error) => Err(refused(error)),
    }
}

/// Puts the content of a copy's log or journal into the copy, so that every run starts with a single file.
fn settle(database: &Path, copy: &Path) -> Result<(), HostError> {
    if !copy.exists() {
        return Ok(());
    }
    let open = || -> rusqlite::Result<()> {
        let connection = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.query_row("PRAGMA schema_version", [], |_| Ok(()))?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    };
    open().map_err(|error| HostError::NotSettable {
        setting: "a copy".to_owned(),
        path: database.to_owned(),
        reason: format!("SQLite cannot read it: {error}"),
    })
}

fn with_ending(database: &Path, ending: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Names the other processes that have the database or its log open; empty if there are none.
fn users_of(database: &Path) -> String {
    let files: Vec<(u64, u64)> = ["", "-wal", "-shm", "-journal"]
        .iter()
        .filter_map(|ending| fs::metadata(with_ending(database, ending)).ok())
        .map(|found| (found.dev(), found.ino()))
        .collect();
    let proc = Path::new("/proc");
    let mut users = Vec::new();
    for pid in Task::all_below(proc).filter(|pid| *pid != std::process::id()) {
        let task = Task::below(proc, pid);
        let descriptors = fs::read_dir(task.file("fd")).into_iter().flatten().flatten();
        let is_it = |entry: fs::DirEntry| {
            let found = fs::metadata(entry.path());
            found.is_ok_and(|found| files.contains(&(found.dev(), found.ino())))
        };
        if descriptors.into_iter().any(is_it) {
            users.push(format!("{} (process {pid})", task.name().unwrap_or_default()));
        }
    }
    users.join(", ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use fonio_testing::skip_without;

    use super::*;

    /// Returns the names and contents of all files below a folder.
    fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry").path()) {
            match entry.is_dir() {
                true => found.extend(contents(&entry)),
                false => found.push((entry.clone(), fs::read(&entry).expect("read"))),
            }
        }
        found.sort();
        found
    }

    fn database(path: &Path, rows: u32) -> Connection {
        let connection = Connection::open(path).expect("a database");
        connection.execute_batch("CREATE TABLE t (x)").expect("a table");
        for row in 0..rows {
            connection.execute("INSERT INTO t VALUES (?)", [row]).expect("a row");
        }
        connection
    }

    fn count(path: &Path) -> u32 {
        let connection = Connection::open(path).expect("a database");
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("a count")
    }

    fn run(view: &View, dir: &Path, script: &str) {
        let mut command = Command::new("sh");
        command.args(["-ec", script]);
        view.enter(&mut command, dir);
        let out = command.output().expect("sh");
        assert!(out.status.success(), "{script}: {}", String::from_utf8_lossy(&out.stderr));
    }

    #[test]
    fn runs_get_fresh_copies_and_the_original_stays() {
        skip_without!(Root);
        let dir = tempfile::tempdir().expect("a folder");
        let app = dir.path().join("app");
        fs::create_dir_all(app.join("sub")).expect("a folder");
        fs::write(app.join("state"), "state").expect("a file");
        let path = app.join("notes.db");
        drop(database(&path, 10));
        let before = contents(dir.path());
        let copies = DatabaseCopies::take(std::slice::from_ref(&path)).expect("copied");
        for _ in 0..2 {
            let mut ledger = Ledger::open(&Ledger::default_dir()).expect("a ledger");
            let fresh = copies.fresh(&mut ledger).expect("copied");
            assert_eq!(fresh.set_journal(true).expect("set"), Vec::<PathBuf>::new());
            let view = fresh.view().expect("a view");
            // The copy has a write-ahead log, and starts without the changes of the run before.
            let script = "test $(dd if=notes.db bs=1 skip=18 count=1 2>/dev/null | od -An -tu1) = 2; \
                          ! test -e new; echo x > new; echo y > sub/new; rm state; echo z >> notes.db";
            run(&view, &app, script);
            assert_eq!(fresh.journals().expect("read"), [(path.clone(), Some(true))]);
            drop(view);
            ledger.close().expect("removed");
        }
        drop(copies);
        assert!(contents(dir.path()) == before, "the folder has changed");
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1, "copies were left behind");
    }

    #[test]
    fn a_database_in_use_is_copied_complete() {
        skip_without!(Root);
        for mode in ["wal", "delete"] {
            let dir = tempfile::tempdir().expect("a folder");
            let app = dir.path().join("app");
            fs::create_dir(&app).expect("a folder");
            let path = app.join("notes.db");
            // Another process has the database open, and its last rows are in the log.
            let script = format!(
                "import sqlite3,sys,time\nd=sqlite3.connect({path:?},isolation_level=None)\n\
                 d.execute('PRAGMA journal_mode={mode}')\nd.execute('CREATE TABLE t (x)')\n\
                 d.execute('INSERT INTO t VALUES (1)')\nd.execute('INSERT INTO t VALUES (2)')\n\
                 print('ready',flush=True)\ntime.sleep(60)\n"
            );
            let Some(mut user) = python(&script) else { return };
            let before = contents(&app);
            let copies = DatabaseCopies::take(std::slice::from_ref(&path)).expect("copied");
            let mut ledger = Ledger::open(&Ledger::default_dir()).expect("a ledger");
            let fresh = copies.fresh(&mut ledger).expect("copied");
            assert_eq!(count(&fresh.copies[0].1), 2, "{mode}");
            // The log of the original is not the log of the copy.
            let view = fresh.view().expect("a view");
            run(
                &view,
                &app,
                "! test -e notes.db-wal; ! test -e notes.db-shm; : > notes.db-wal; rm notes.db-wal",
            );
            drop(view);
            let without_index = |all: Vec<(PathBuf, Vec<u8>)>| {
                all.into_iter()
                    .filter(|(path, _)| !path.to_string_lossy().ends_with("-shm"))
                    .collect::<Vec<_>>()
            };
            assert!(without_index(contents(&app)) == without_index(before), "{mode}: the folder has changed");
            user.kill().expect("killed");
            user.wait().expect("ended");
        }
    }

    #[test]
    fn the_holder_of_a_lock_is_named() {
        skip_without!(Root);
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("notes.db");
        drop(database(&path, 1));
        let script = format!(
            "import sqlite3,time\nd=sqlite3.connect({path:?},isolation_level=None)\n\
             d.execute('BEGIN EXCLUSIVE')\nprint('ready',flush=True)\ntime.sleep(60)\n"
        );
        let Some(mut user) = python(&script) else { return };
        let error = DatabaseCopies::take(std::slice::from_ref(&path))
            .map(drop)
            .expect_err("it is locked")
            .to_string();
        assert!(error.contains(&format!("(process {})", user.id())), "{error}");
        user.kill().expect("killed");
        user.wait().expect("ended");
    }

    /// Starts Python, and waits until it is ready.
    fn python(script: &str) -> Option<std::process::Child> {
        use std::io::BufRead;
        let python =
            Command::new("python3").args(["-c", script]).stdout(std::process::Stdio::piped()).spawn();
        let Ok(mut python) = python else {
            eprintln!("skipped: python3 is not installed");
            return None;
        };
        let mut line = String::new();
        std::io::BufReader::new(python.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        if line.trim() != "ready" {
            eprintln!("skipped: python3 has no module sqlite3");
            let _ = python.wait();
            return None;
        }
        Some(python)
    }
}
