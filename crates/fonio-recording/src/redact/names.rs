//! Computes tokens for names, as pure functions of a key and a name.

use std::path::Path;

use fonio_core::{Engine, sql};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Number of hexadecimal digits in a token. With 12 digits, the probability that any two of a million names
/// get the same token is 1 in 500.
const DIGITS: usize = 12;
/// Minimum length of a key in bytes. A shorter key could be found by trying all keys.
const KEY_BYTES_MIN: usize = 16;

/// Suffixes of file names that show the kind of the file.
const SUFFIXES: [&str; 10] =
    [".db", ".sqlite", ".sqlite3", ".db3", ".wal", ".journal", ".log", ".tmp", ".sst", ".ldb"];
/// Suffixes that SQLite appends to the file name of a database.
const BESIDE: [&str; 3] = ["-wal", "-journal", "-shm"];
/// Suffixes of systemd unit names.
const KINDS: [&str; 8] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap", ".timer", ".target"];
/// Components of control-group paths that exist on every machine.
const COMMON: [&str; 10] = [
    "system.slice",
    "user.slice",
    "machine.slice",
    "app.slice",
    "session.slice",
    "init.scope",
    "docker",
    "kubepods",
    "kubepods.slice",
    "lxc",
];
/// Words that come before the name of a container or add-on in the name of a unit.
const UNIT_KINDS: [&str; 4] = ["nerdctl", "pod", "add-on", "Home Assistant"];
/// The first parts of the names of kernel threads that matter for I/O. The full name of a thread continues
/// with the number of a processor or device.
const KERNEL_THREADS: [&str; 13] = [
    "kworker",
    "jbd2",
    "kswapd",
    "xfsaild",
    "btrfs",
    "ksoftirqd",
    "kcompactd",
    "khugepaged",
    "loop",
    "md",
    "dmcrypt_write",
    "mmcqd",
    "<idle>",
];

/// A secret key from which the tokens are computed.
#[derive(Clone)]
pub struct Key(Vec<u8>);

/// The reason why a redaction key could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file with the key cannot be read.
    #[error("the key cannot be read from {path}")]
    Read {
        /// The path of the key file.
        path: std::path::PathBuf,
        /// Why the key file cannot be read.
        source: std::io::Error,
    },
    /// The key in the file is too short.
    #[error(
        "the key in {path} has {bytes} bytes; use at least {KEY_BYTES_MIN}, for example: head -c 32 /dev/urandom > {path}"
    )]
    TooShort {
        /// The path of the key file.
        path: std::path::PathBuf,
        /// The length of the key in bytes.
        bytes: usize,
    },
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// Creates a random secret key. Fails with [`KeyError::Read`] if the system's random numbers are not
    /// available.
    pub fn random() -> Result<Key, KeyError> {
        let path = Path::new("/dev/urandom");
        let mut bytes = [0; 32];
        let read =
            std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
        read.map_err(|source| KeyError::Read { path: path.to_owned(), source })?;
        Ok(Key(bytes.to_vec()))
    }

    /// Reads a key from a file. Recordings redacted with the same key have the same tokens for the same
    /// names. Fails if the file cannot be read, or if it is too short.
    pub fn from_file(path: &Path) -> Result<Key, KeyError> {
        let bytes = std::fs::read(path).map_err(|source| KeyError::Read { path: path.to_owned(), source })?;
        if bytes.len() < KEY_BYTES_MIN {
            return Err(KeyError::TooShort { path: path.to_owned(), bytes: bytes.len() });
        }
        Ok(Key(bytes))
    }

    /// Returns the token of the name of a unit, container, add-on or package, as in a redacted recording.
    pub fn unit(&self, unit: &str) -> String {
        Names::new(self).unit(unit)
    }

    #[cfg(test)]
    pub(super) fn of(bytes: &[u8]) -> Key {
        Key(bytes.to_vec())
    }
}

/// Computes the tokens that replace names.
#[derive(Debug)]
pub(super) struct Names {
    keyed: Hmac<Sha256>,
}

impl Names {
    pub(super) fn new(key: &Key) -> Names {
        let keyed = Hmac::new_from_slice(&key.0).expect("HMAC accepts keys of any length");
        Names { keyed }
    }

    /// Returns the token of a name: `KIND-0123456789ab`. The hexadecimal digits do not depend on the kind.
    pub(super) fn token(&self, kind: &str, name: &str) -> String {
        let mut keyed = self.keyed.clone();
        keyed.update(name.as_bytes());
        let digest = keyed.finalize().into_bytes();
        let mut token = format!("{kind}-");
        for byte in &digest[..DIGITS / 2] {
            token.push_str(&format!("{byte:02x}"));
        }
        token
    }

    /// Redacts each component of a path. Files in one folder are still in one folder afterwards.
    pub(super) fn path(&self, path: &str) -> String {
        let part = |part: &str| if part.is_empty() { String::new() } else { self.file_name(part) };
        path.split('/').map(part).collect::<Vec<_>>().join("/")
    }

    /// Redacts a file name but keeps its suffix. Therefore, a database and its journal get the same token.
    fn file_name(&self, name: &str) -> String {
        if matches!(name, "." | "..") {
            return name.to_owned();
        }
        let beside = BESIDE.iter().find(|beside| name.ends_with(**beside)).copied().unwrap_or_default();
        let stem = &name[..name.len() - beside.len()];
        let suffix = SUFFIXES.iter().find(|suffix| stem.ends_with(**suffix)).copied().unwrap_or_default();
        let stem = &stem[..stem.len() - suffix.len()];
        let token = if stem.is_empty() { String::new() } else { self.token("f", stem) };
        format!("{token}{suffix}{beside}")
    }

    /// Redacts the name of a thread. For a kernel thread, only the part that differs between threads of the
    /// same kind is removed.
    pub(super) fn comm(&self, comm: &str) -> String {
        let rest = |name: &&&str| {
            let rest = comm.strip_prefix(**name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '-']) || is_number(rest))
        };
        match KERNEL_THREADS.iter().find(rest) {
            // Analyses recognise the name of a kernel worker by its slash.
            Some(&"kworker") => "kworker/0:0".to_owned(),
            Some(name) => (*name).to_owned(),
            None => self.token("p", comm),
        }
    }

    /// Redacts the path of a control group, except components that exist on every machine.
    pub(super) fn cgroup(&self, cgroup: &str) -> String {
        let part = |part: &str| if part.is_empty() { String::new() } else { self.group(part) };
        cgroup.split('/').map(part).collect::<Vec<_>>().join("/")
    }

    fn group(&self, part: &str) -> String {
        if COMMON.contains(&part) {
            return part.to_owned();
        }
        let kind = KINDS.iter().find(|kind| part.ends_with(**kind)).copied().unwrap_or_default();
        format!("{}{kind}", self.token("u", &part[..part.len() - kind.len()]))
    }

    /// Redacts the name of a unit, container, add-on or package, but keeps its kind.
    pub(super) fn unit(&self, unit: &str) -> String {
        let engines = [
            Engine::Docker,
            Engine::Podman,
            Engine::Containerd,
            Engine::CriO,
            Engine::Buildkit,
            Engine::Lxc,
            Engine::Unknown,
        ];
        let mut kinds = engines.iter().map(|engine| engine.name()).chain(UNIT_KINDS);
        let kind = kinds.find_map(|kind| Some((kind, unit.strip_prefix(kind)?.strip_prefix(' ')?)));
        match kind {
            Some((kind, name)) => {
                // The part after the slash is a unit inside a container, or a container in a pod.
                let parts: Vec<String> = name.split('/').map(|part| self.group(part)).collect();
                format!("{kind} {}", parts.join("/"))
            }
            None => self.group(unit),
        }
    }

    /// Redacts an SQL statement: every word that is not an SQL keyword becomes a token. The token does not
    /// depend on the word's case.
    pub(super) fn statement(&self, text: &str) -> String {
        sql::with_names(text, |name| self.token("n", &name.to_ascii_lowercase()))
    }

    /// Redacts a mount option: a path or name becomes a token; a number is kept.
    pub(super) fn option(&self, option: &str) -> String {
        match option.split_once('=') {
            Some((name, value)) if !is_number(value) => format!("{name}={}", self.path(value)),
            _ => option.to_owned(),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replaces the digits of tokens. The resulting text can be compared with an expected text.
    fn shape(text: &str) -> String {
        let mut shape = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('-') {
            let (before, after) = rest.split_at(at + 1);
            shape.push_str(before);
            let is_token =
                after.len() >= DIGITS && after.as_bytes()[..DIGITS].iter().all(u8::is_ascii_hexdigit);
            rest = if is_token { &after[DIGITS..] } else { after };
        }
        shape + rest
    }

    #[test]
    fn what_stays_of_each_kind_of_name() {
        let names = Names::new(&Key::of(b"0123456789abcdef"));
        let redacted = |line: &str| {
            let (kind, name) = line.split_once(' ').expect("a kind and a name");
            shape(&match kind {
                "path" => names.path(name),
                "comm" => names.comm(name),
                "cgroup" => names.cgroup(name),
                "unit" => names.unit(name),
                _ => names.option(name),
            })
        };
        let file = expect_test::expect_file!["names.txt"];
        file.assert_eq(&fonio_testing::cases::lines(&file.data(), redacted));
    }

    #[test]
    fn one_token_for_each_name_and_key() {
        let names = Names::new(&Key::of(b"0123456789abcdef"));
        let (wal, database) = (names.path("/a/notes.db-wal"), names.path("/b/notes.db"));
        let name = |path: &str| path.rsplit('/').next().unwrap().split('.').next().unwrap().to_owned();
        assert_eq!(name(&wal), name(&database));
        assert_ne!(names.token("f", "a"), names.token("f", "b"));
        assert_eq!(names.token("f", "a")[1..], names.token("p", "a")[1..]);
        let others = Names::new(&Key::of(b"0123456789abcdeg"));
        assert_ne!(names.token("f", "a"), others.token("f", "a"));
        assert_eq!(
            names.cgroup("/system.slice/notes.service").rsplit('/').next(),
            Some(&*names.unit("notes.service"))
        );
    }

    #[test]
    fn a_short_key_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "short").unwrap();
        let error = Key::from_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("has 5 bytes; use at least 16"), "{error}");
        assert_ne!(Key::random().unwrap().0, Key::random().unwrap().0);
        assert_eq!(format!("{:?}", Key::of(b"secret")), "Key(…)");
    }
}
