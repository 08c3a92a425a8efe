//! Finds the files of a trace: the per-CPU files of blktrace, and the folders of LTTng.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::InputError;

/// The file of a CTF trace that describes its streams.
pub(crate) const METADATA: &str = "metadata";
/// Maximum depth of the folder of a CTF trace: a session of LTTng has `ust/uid/1000/64-bit`.
const CTF_DEPTH_MAX: u32 = 5;

/// Returns the files of the CTF trace in `dir`, the description first; `None` if there is none. A session of LTTng can have
/// several traces; if one is of the kernel, this one is returned.
pub(crate) fn ctf_files(dir: &Path) -> Result<Option<Vec<PathBuf>>, InputError> {
    let mut found = Vec::new();
    ctf_folders(dir, 0, &mut found);
    found.sort();
    let of_kernel: Vec<&PathBuf> =
        found.iter().filter(|path| path.file_name() == Some("kernel".as_ref())).collect();
    let folder = match (&found[..], &of_kernel[..]) {
        ([], _) => return Ok(None),
        ([only], _) => only,
        (_, [kernel]) => *kernel,
        (several, _) => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            return Err(InputError::Several { path: dir.to_owned(), kind: "CTF ", names: names.join(", ") });
        }
    };
    let mut streams = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unlistable(folder))? {
        let path = entry.map_err(unlistable(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or(".");
        if name != METADATA && !name.starts_with('.') && path.is_file() {
            streams.push(path);
        }
    }
    streams.sort();
    Ok(Some(std::iter::once(folder.join(METADATA)).chain(streams).collect()))
}

/// Returns a closure for `map_err` of errors in listing `dir`.
pub(crate) fn unlistable(dir: &Path) -> impl FnOnce(io::Error) -> InputError {
    let path = dir.to_owned();
    move |source| InputError::List { path, source }
}

/// Adds the folders with a description of a CTF trace in `dir`.
fn ctf_folders(dir: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    let metadata = dir.join(METADATA);
    let is_ctf = metadata.is_file()
        && File::open(&metadata).is_ok_and(|file| {
            let mut head = Vec::new();
            file.take(64).read_to_end(&mut head).is_ok() && fonio_trace::ctf::recognise(&head)
        });
    if is_ctf {
        return found.push(dir.to_owned());
    }
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if depth < CTF_DEPTH_MAX && path.is_dir() && !path.is_symlink() {
            ctf_folders(&path, depth + 1, found);
        }
    }
}

/// Returns the common prefix of per-CPU trace files: `X` for `X.blktrace.3`.
pub(crate) fn per_cpu_prefix(path: &Path) -> Option<PathBuf> {
    let (prefix, cpu) = path.to_str()?.rsplit_once(".blktrace.")?;
    (!cpu.is_empty() && cpu.bytes().all(|letter| letter.is_ascii_digit())).then(|| prefix.into())
}

/// Returns all files of the trace of which `path` is a per-CPU file; `None` if it is the only one.
pub(crate) fn whole_set(path: &Path) -> Result<Option<Vec<PathBuf>>, InputError> {
    let Some(prefix) = per_cpu_prefix(path) else { return Ok(None) };
    let set = per_cpu_files(&prefix)?;
    Ok(Some(set).filter(|set| set.len() > 1))
}

/// Returns the per-CPU trace files `X.blktrace.0`, `X.blktrace.1`, … for the prefix `X`, ordered by number.
pub(crate) fn per_cpu_files(prefix: &Path) -> Result<Vec<PathBuf>, InputError> {
    let dir = match prefix.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(unlistable(dir))?.file_name();
        let candidate = dir.join(&name);
        let Some(candidate_prefix) = per_cpu_prefix(&candidate) else { continue };
        if candidate_prefix.file_name() != prefix.file_name() {
            continue;
        }
        let cpu: Option<u32> =
            candidate.extension().and_then(|number| number.to_str()).and_then(|number| number.parse().ok());
        found.extend(cpu.map(|cpu| (cpu, candidate)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cpu_names() {
        assert_eq!(per_cpu_prefix(Path::new("a/x.blktrace.10")), Some("a/x".into()));
        assert_eq!(per_cpu_prefix(Path::new("a/x.blktrace.")), None);
        assert_eq!(per_cpu_prefix(Path::new("a/x.blktrace.gz")), None);
    }

    #[test]
    fn the_folder_of_a_session_of_lttng() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        write("ust/uid/0/64-bit/metadata", "/* CTF 1.8 */");
        write("ust/uid/0/64-bit/c_1", "");
        write("ust/uid/0/64-bit/index/c_1.idx", "");
        write("other/metadata", "x");
        let names = || {
            let files = ctf_files(dir.path()).expect("they are listed").expect("a trace");
            let relative =
                |path: &PathBuf| path.strip_prefix(dir.path()).expect("within it").display().to_string();
            files.iter().map(relative).collect::<Vec<_>>()
        };
        assert_eq!(names(), ["ust/uid/0/64-bit/metadata", "ust/uid/0/64-bit/c_1"]);
        write("kernel/metadata", "\x57\x1d");
        assert_eq!(names().len(), 2);
        std::fs::write(dir.path().join("kernel/metadata"), [0x57, 0x1d, 0xd1, 0x75]).expect("a file");
        assert_eq!(names(), ["kernel/metadata"]);
        assert_eq!(ctf_files(&dir.path().join("other")).expect("it is listed"), None);
    }

    #[test]
    fn a_prefix_names_the_set_in_order_of_number() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for name in ["x.blktrace.10", "x.blktrace.2", "x.blktrace.0", "xy.blktrace.1", "x.blktrace.zip"] {
            std::fs::write(dir.path().join(name), b"").expect("a file");
        }
        let names: Vec<String> = per_cpu_files(&dir.path().join("x"))
            .expect("a list")
            .iter()
            .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["x.blktrace.0", "x.blktrace.2", "x.blktrace.10"]);

        let whole = |name: &str| whole_set(&dir.path().join(name)).expect("a list").map(|set| set.len());
        assert_eq!(whole("x.blktrace.2"), Some(3));
        assert_eq!(whole("xy.blktrace.1"), None);
        assert_eq!(whole("x.blktrace.zip"), None);
    }
}
