//! The files of results, of unfinished runs and of delete tokens, in the state folder that outlives a reboot.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fonio_bench::storebench::run::Kept;
use fonio_storebench_document::document::Document;
use fonio_system::state;

/// The folder of results, which is made if it is missing.
pub fn folder() -> Result<PathBuf> {
    let folder = state::lasting_folder()
        .context("there is no state folder, because neither HOME nor XDG_STATE_HOME is set; use -o FILE")?
        .join("storebench");
    state::make(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// A new name for a result, by its time.
pub fn new_file(document: &Document) -> Result<PathBuf> {
    let folder = folder()?;
    let name = |number: u32| {
        let more = if number == 0 { String::new() } else { format!("-{number}") };
        folder.join(format!("storebench-{}{more}.json", document.began_unix_s))
    };
    (0..1000).map(name).find(|path| !path.exists()).context("a thousand results began in this second")
}

/// Writes a result.
pub fn write(document: &Document, path: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(document)? + "\n";
    replace(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file completely or not at all, for this user alone.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(new);
    let written = private(&new).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
        // What cannot be written can mostly be removed.
        let _ = fs::remove_file(&new);
    })
}

fn private(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Reads and checks a result.
pub fn read(path: &Path) -> Result<Document> {
    let json = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    anyhow::ensure!(!json.is_empty(), "{} is empty; name a result of fonio storebench", path.display());
    Document::parse(&json).map_err(|problems| {
        let shown: Vec<String> = problems.iter().take(3).map(ToString::to_string).collect();
        anyhow::anyhow!("{} is not a result of fonio storebench: {}", path.display(), shown.join("; "))
    })
}

/// The file of an unfinished run on this target.
pub struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    /// The file for a target; it may not exist.
    pub fn of(target: &Path) -> Result<Unfinished> {
        let name = format!("unfinished-{:016x}.json", number_of(target.as_os_str().as_bytes()));
        Ok(Unfinished { path: folder()?.join(name) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The unfinished run. One that cannot be read was made by another version, and is not continued.
    pub fn read(&self) -> Option<Kept> {
        serde_json::from_slice(&fs::read(&self.path).ok()?).ok()
    }

    /// Keeps a run.
    pub fn save(&self, kept: &Kept) -> std::io::Result<()> {
        replace(&self.path, &serde_json::to_vec(kept)?)
    }

    /// Forgets the run.
    pub fn remove(&self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// The file of the token of a result on a server.
fn token_file(server: &str, id: &str) -> Result<PathBuf> {
    // The id comes from a server and becomes a file name.
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if id.is_empty() || id.len() > 128 || !id.chars().all(is_safe) {
        bail!("`{}` is not an id of a result: it has up to 128 letters, digits, - and _", id.escape_debug());
    }
    let folder = folder()?.join("tokens");
    state::make(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.join(format!("{:016x}-{id}", number_of(server.as_bytes()))))
}

/// The number by which a file is named after a path or an address: FNV-1a, which every version of fonio computes alike.
fn number_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |number, byte| {
        (number ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Keeps the delete token of a result. Returns its file.
pub fn keep_token(server: &str, id: &str, token: &str) -> Result<PathBuf> {
    let path = token_file(server, id)?;
    replace(&path, token.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The kept delete token of a result.
pub fn token(server: &str, id: &str) -> Result<Option<String>> {
    let path = token_file(server, id)?;
    match fs::read_to_string(&path) {
        Ok(token) => Ok(Some(token.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Forgets the token of a deleted result.
pub fn forget_token(server: &str, id: &str) -> Result<()> {
    let path = token_file(server, id)?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}
