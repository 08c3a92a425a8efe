//! Gives files names that are the same in every run: folders of this machine and temporary parts are replaced.
//!
//! | part of a path | becomes |
//! |---|---|
//! | the current folder, the folder for temporary files, the home folder at the beginning | `.`, `$TMP`, `~` |
//! | a UUID; 16 or more hexadecimal digits; 5 or more digits | `*` |
//! | the id of a process that used the file, or of its ancestors, after `-`, `.` or `_` | `*` |
//! | the id of any recorded process, if it has 3 or more digits | `*` |
//! | the folder and name of a git object | `*/*` |
//! | the random end of a name by `mktemp`, Python, SQLite, git or Rust (`tmp.Xa3…`, `tmpabc_123`, `etilqs_…`) | `*` |
//! | a name of 8 lower-case letters, digits and `_` in the folder for temporary files, as Python's `tempfile` makes them | `*` |
//! | the number in `pytest-3`, and the user in `pytest-of-alice` | `*` |

use rustc_hash::FxHashSet;
use wildmatch::WildMatch;

/// Files that are not on a disk, files by which tools only remember earlier runs, and pytest's lock, which contains a
/// process id.
pub const IGNORED: [&str; 7] =
    ["/proc/*", "/sys/*", "/dev/*", "/memfd:*", "*/__pycache__/*", "*/.pytest_cache/*", "*/pytest-*/.lock"];

/// Beginnings of random names. At least [`RANDOM_MIN`] random characters follow.
const RANDOM_AFTER: [&str; 10] =
    ["tmp_obj_", "tmp_pack_", "tmp_idx_", "packs_", "refs_", "etilqs_", ".tmp-", "tmp.", ".tmp", "tmp"];
const RANDOM_MIN: usize = 6;
/// The name of the folder for temporary files in counts.
pub const TEMPORARY: &str = "$TMP";
/// Length of the random names by which Python tests whether it can write to the folder for temporary files.
const PYTHON_RANDOM: usize = 8;
const HEX_MIN: usize = 16;
const DIGITS_MIN: usize = 5;
const PROCESS_DIGITS_MIN: usize = 3;

/// The folders of this machine and the processes of a run, which have other names in another run.
#[derive(Debug, Default)]
pub struct Places {
    /// Pairs of a folder and its name in counts, the longest folder first.
    folders: Vec<(String, &'static str)>,
    processes: FxHashSet<u32>,
    ignored: Vec<WildMatch>,
}

impl Places {
    /// Creates the rules for these folders. Files that match one of `ignored` do not count; `*` stands for any
    /// characters.
    pub fn new<'a>(
        folders: impl IntoIterator<Item = (String, &'static str)>,
        ignored: impl IntoIterator<Item = &'a str>,
    ) -> Places {
        let mut folders: Vec<_> = (folders.into_iter())
            .map(|(folder, name)| (folder.trim_end_matches('/').to_owned(), name))
            .filter(|(folder, _)| !folder.is_empty())
            .collect();
        folders.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
        let ignored = IGNORED.into_iter().chain(ignored).map(WildMatch::new).collect();
        Places { folders, processes: FxHashSet::default(), ignored }
    }

    /// Notes the id of a recorded process.
    pub(super) fn process(&mut self, pid: u32) {
        self.processes.insert(pid);
    }

    /// Returns the name of the file at `path`, which these processes used; `None` if it does not count.
    pub fn name(&self, path: &str, users: &FxHashSet<u32>) -> Option<String> {
        let is_ignored = |path: &str| self.ignored.iter().any(|pattern| pattern.matches(path));
        if is_ignored(path) {
            return None;
        }
        let below = |(folder, name): &(String, &'static str)| {
            let rest = path.strip_prefix(folder.as_str())?;
            (rest.is_empty() || rest.starts_with('/')).then(|| (*name, rest.to_owned()))
        };
        let (start, rest) = self.folders.iter().find_map(below).unwrap_or(("", path.to_owned()));
        let parts: Vec<&str> = rest.split('/').collect();
        if let ["", only] = parts[..]
            && start == TEMPORARY
            && only.len() == PYTHON_RANDOM
            && only.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_')
        {
            return Some(format!("{start}/*"));
        }
        let mut named: Vec<String> = Vec::with_capacity(parts.len());
        for part in &parts {
            let is_object = [38, 62].contains(&part.len()) && part.bytes().all(|c| c.is_ascii_hexdigit());
            if let Some(before) = named.last_mut().filter(|_| is_object)
                && before.len() == 2
                && before.bytes().all(|c| c.is_ascii_hexdigit())
            {
                "*".clone_into(before);
            }
            named.push(self.part(part, users));
        }
        // A folder whose name is the first byte of a git object can also hold a file that is being written.
        for at in 1..named.len() {
            let is_short = named[at - 1].len() == 2 && named[at - 1].bytes().all(|c| c.is_ascii_hexdigit());
            if is_short && at >= 2 && named[at - 2] == "objects" {
                "*".clone_into(&mut named[at - 1]);
            }
        }
        let name = format!("{start}{}", named.join("/"));
        (!is_ignored(&name)).then_some(name)
    }

    /// Replaces the temporary parts of one component of a path.
    fn part(&self, part: &str, users: &FxHashSet<u32>) -> String {
        if let Some(rest) = part.strip_prefix("pytest-") {
            if rest.starts_with("of-") {
                return "pytest-of-*".to_owned();
            }
            if !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()) {
                return "pytest-*".to_owned();
            }
        }
        let is_random = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for start in RANDOM_AFTER {
            let Some(rest) = part.strip_prefix(start) else { continue };
            let random = rest.find(|c| !is_random(c)).unwrap_or(rest.len());
            let ends = rest[random..].is_empty() || rest[random..].starts_with(['.', '-']);
            if random >= RANDOM_MIN && ends {
                return format!("{start}*{}", self.without_numbers(&rest[random..], users));
            }
        }
        self.without_numbers(part, users)
    }

    /// Replaces UUIDs, long numbers and ids of processes.
    fn without_numbers(&self, part: &str, users: &FxHashSet<u32>) -> String {
        let mut out = String::new();
        let mut rest = part;
        while let Some(first) = rest.chars().next() {
            if let Some(length) = uuid(rest) {
                out.push('*');
                rest = &rest[length..];
                continue;
            }
            let hex = length_of(rest, |c| c.is_ascii_hexdigit());
            let is_hash = hex >= HEX_MIN && rest[..hex].bytes().any(|c| c.is_ascii_digit());
            if is_hash && !out.ends_with(|c: char| c.is_ascii_alphanumeric()) {
                out.push('*');
                rest = &rest[hex..];
                continue;
            }
            let digits = length_of(rest, |c| c.is_ascii_digit());
            if digits > 0 {
                let number = &rest[..digits];
                let is_of = |processes: &FxHashSet<u32>| {
                    number.parse().is_ok_and(|pid: u32| processes.contains(&pid))
                };
                let is_process = (out.ends_with(['-', '.', '_']) && is_of(users))
                    || (digits >= PROCESS_DIGITS_MIN && is_of(&self.processes));
                out.push_str(if digits >= DIGITS_MIN || is_process { "*" } else { number });
                rest = &rest[digits..];
                continue;
            }
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
        out
    }
}

fn length_of(text: &str, is_part: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|c| is_part(*c)).count()
}

/// Returns the length of the UUID at the beginning.
fn uuid(text: &str) -> Option<usize> {
    const LENGTH: usize = 36;
    let bytes = text.as_bytes().get(..LENGTH)?;
    let is_uuid = bytes.iter().enumerate().all(|(at, c)| match at {
        8 | 13 | 18 | 23 => *c == b'-',
        _ => c.is_ascii_hexdigit(),
    });
    is_uuid.then_some(LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_parts_are_replaced() {
        let folders = [("/work/app", "."), ("/tmp", "$TMP"), ("/home/alice/", "~"), ("", "?")];
        let folders = folders.map(|(folder, name)| (folder.to_owned(), name));
        let mut places = Places::new(folders, ["*/log/*"]);
        places.process(4711);
        places.process(42);
        let users = FxHashSet::from_iter([7]);
        for (path, expected) in [
            ("/work/app/orders.db-wal", "./orders.db-wal"),
            ("/work/app", "."),
            ("/work/application/x", "/work/application/x"),
            ("/home/alice/.cache/x", "~/.cache/x"),
            ("/tmp/pytest-of-alice/pytest-12/test_order0/x.db", "$TMP/pytest-of-*/pytest-*/test_order0/x.db"),
            ("/tmp/tmpab_3x9q1/x.db", "$TMP/tmp*/x.db"),
            ("/tmp/tmp.Xk3p9QwLmN", "$TMP/tmp.*"),
            ("/tmp/.tmpAbC123/x", "$TMP/.tmp*/x"),
            ("/tmp/an_w4pk_", "$TMP/*"),
            ("/tmp/an_w4pk_/x", "$TMP/an_w4pk_/x"),
            ("/tmp/tmpfile", "$TMP/tmpfile"),
            ("/tmp/tmp-orders", "$TMP/tmp-orders"),
            ("/var/tmp/etilqs_0a1b2c3d4e5f", "/var/tmp/etilqs_*"),
            ("/x/app-4711.pid", "/x/app-*.pid"),
            ("/x/app-42.pid", "/x/app-42.pid"),
            ("/x/app-7.pid", "/x/app-*.pid"),
            ("/x/7.db", "/x/7.db"),
            ("/x/log.7", "/x/log.*"),
            ("/x/.git/info/refs_X1y2Z3", "/x/.git/info/refs_*"),
            ("/x/1732650000.log", "/x/*.log"),
            ("/x/v1.2024.log", "/x/v1.2024.log"),
            ("/x/123e4567-e89b-12d3-a456-426614174000.json", "/x/*.json"),
            ("/x/sha256-0123456789abcdef0123", "/x/sha256-*"),
            ("/x/.git/objects/ab/0123456789abcdef0123456789abcdef012345", "/x/.git/objects/*/*"),
            ("/x/.git/objects/ab/tmp_obj_Ab12Cd", "/x/.git/objects/*/tmp_obj_*"),
            ("/x/facade/deadbeef", "/x/facade/deadbeef"),
        ] {
            assert_eq!(places.name(path, &users).as_deref(), Some(expected), "{path}");
        }
        for ignored in
            ["/proc/self/comm", "/dev/shm/x", "/memfd:x", "/x/__pycache__/a.pyc", "/work/app/log/today"]
        {
            assert_eq!(places.name(ignored, &users), None, "{ignored}");
        }
    }
}
