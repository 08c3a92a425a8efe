//! Parses system-call traces in the format of Mobibench's tool mobigen: one call per line,
//!
//! ```text
//! THREAD MICROSECONDS open "PATH" FLAGS DESCRIPTOR
//! THREAD MICROSECONDS read|write DESCRIPTOR BYTES
//! THREAD MICROSECONDS pread|pwrite DESCRIPTOR OFFSET BYTES
//! THREAD MICROSECONDS fsync|fdatasync|close|fstat64 DESCRIPTOR RESULT
//! THREAD MICROSECONDS stat64|lstat64|access|unlink "PATH" RESULT
//! THREAD MICROSECONDS rename "PATH" "PATH" RESULT
//! THREAD MICROSECONDS ftruncate DESCRIPTOR BYTES
//! ```
//!
//! A path without quotes means that mobigen did not know the path: the call is on an unnamed file.

use std::path::{Component, Path};

use crate::definition::{Phase, Step, Thread, Workload};
use crate::error::WorkloadError;

/// A system call with its thread and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) thread: u64,
    pub(crate) at_us: u64,
    pub(crate) call: Call,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A file with this relative path, which has no leading slash and no `..`.
    Named(String),
    Unnamed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFlags {
    /// Whether the flags say that the call creates or truncates the file: `O_CREAT` with `O_EXCL` or
    /// `O_TRUNC`.
    pub(crate) makes: bool,
    pub(crate) truncate: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    // A negative descriptor means that the call failed.
    Open { target: Target, flags: OpenFlags, descriptor: i64 },
    Close { descriptor: i64 },
    // Without an offset, the transfer is at the descriptor's position.
    Transfer { descriptor: i64, offset: Option<u64>, bytes: u64, is_write: bool },
    Sync { descriptor: i64, data_only: bool },
    Truncate { descriptor: i64, bytes: u64 },
    StatDescriptor { descriptor: i64 },
    Stat { path: String, found: bool },
    Access { path: String, found: bool },
    Unlink { path: String, done: bool },
    Rename { from: String, to: String, done: bool },
    // A read or write that failed.
    Failed,
}

/// The maximum number of bytes transferred by one call. Larger values mean that the line is damaged.
const CALL_BYTES_MAX: u64 = 1 << 30;
/// The maximum offset in a file. A larger offset in a damaged line could fill the device.
const OFFSET_MAX: u64 = 1 << 36;

/// Returns the workload that replays a system-call trace.
#[must_use]
pub fn workload(trace: &Path) -> Workload {
    let step = Step::Replay { trace: trace.to_owned(), place: "data".to_owned() };
    Workload {
        name: "mobigen".to_owned(),
        title: format!("replay of {}", trace.display()),
        about:
            "Replays system calls recorded on a phone with the same number of threads, at the recorded times."
                .to_owned(),
        places: [("data".to_owned(), "all files of the trace".to_owned())].into(),
        phases: vec![Phase {
            name: "replay".to_owned(),
            threads: vec![Thread { name: "replay".to_owned(), instances: 1, steps: vec![step] }],
        }],
        ..Workload::default()
    }
}

/// Parses a system-call trace. Skips empty lines. Fails if a line is not a known call, or if the trace is
/// empty.
pub(crate) fn parse(text: &str, origin: &str) -> Result<Vec<Line>, WorkloadError> {
    if text.trim().is_empty() {
        return Err(WorkloadError::Trace {
            origin: origin.to_owned(),
            line: 1,
            text: String::new(),
            problem: "the trace is empty; record again".to_owned(),
        });
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            parse_line(line).map_err(|problem| WorkloadError::Trace {
                origin: origin.to_owned(),
                line: index + 1,
                text: line.chars().take(100).collect(),
                problem,
            })
        })
        .collect()
}

fn parse_line(line: &str) -> Result<Line, String> {
    let mut words = Words(line);
    let thread = words.number("a thread")?;
    let at_us = words.number("microseconds")?;
    let name = words.word("a call")?;
    let call = match name {
        "open" => {
            let target = words.target()?;
            let flags = words.word("flags")?;
            let has = |flag: &str| flags.split('|').any(|word| word == flag);
            let flags = OpenFlags {
                makes: has("O_CREAT") && (has("O_EXCL") || has("O_TRUNC")),
                truncate: has("O_TRUNC"),
            };
            Call::Open { target, flags, descriptor: words.number("a descriptor")? }
        }
        "close" => Call::Close { descriptor: words.number("a descriptor")? },
        "read" | "write" | "pread" | "pwrite" | "pread64" | "pwrite64" => {
            let descriptor = words.number("a descriptor")?;
            let offset =
                if name.starts_with('p') { Some(words.bounded("an offset", OFFSET_MAX)?) } else { None };
            let Some(bytes) = words.moved()? else {
                return Ok(Line { thread, at_us, call: Call::Failed });
            };
            Call::Transfer { descriptor, offset, bytes, is_write: name.contains("write") }
        }
        "fsync" => Call::Sync { descriptor: words.number("a descriptor")?, data_only: false },
        "fdatasync" => Call::Sync { descriptor: words.number("a descriptor")?, data_only: true },
        "ftruncate" | "ftruncate64" => Call::Truncate {
            descriptor: words.number("a descriptor")?,
            bytes: words.bounded("bytes", OFFSET_MAX)?,
        },
        "fstat" | "fstat64" => Call::StatDescriptor { descriptor: words.number("a descriptor")? },
        "stat" | "stat64" | "lstat" | "lstat64" => {
            Call::Stat { path: words.path()?, found: words.succeeded()? }
        }
        "access" => Call::Access { path: words.path()?, found: words.succeeded()? },
        "unlink" => Call::Unlink { path: words.path()?, done: words.succeeded()? },
        "rename" => Call::Rename { from: words.path()?, to: words.path()?, done: words.succeeded()? },
        other => return Err(format!("`{other}` is not a call that can be replayed")),
    };
    Ok(Line { thread, at_us, call })
}

struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn word(&mut self, expected: &str) -> Result<&'a str, String> {
        let rest = self.0.trim_start();
        let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        self.0 = rest;
        if word.is_empty() { Err(format!("{expected} is missing")) } else { Ok(word) }
    }

    fn number<T: std::str::FromStr>(&mut self, expected: &str) -> Result<T, String> {
        let word = self.word(expected)?;
        word.parse().map_err(|_| format!("expected {expected}, found `{word}`"))
    }

    fn bounded(&mut self, expected: &str, most: u64) -> Result<u64, String> {
        let number = self.number(expected)?;
        if number > most {
            return Err(format!("{number} is too large for {expected}; the maximum is {most}"));
        }
        Ok(number)
    }

    /// Parses the number of transferred bytes; `None` if the call failed.
    fn moved(&mut self) -> Result<Option<u64>, String> {
        let bytes: i64 = self.number("bytes")?;
        match u64::try_from(bytes) {
            Err(_) => Ok(None),
            Ok(bytes) if bytes <= CALL_BYTES_MAX => Ok(Some(bytes)),
            Ok(bytes) => Err(format!("{bytes} bytes are too many; the maximum is {CALL_BYTES_MAX}")),
        }
    }

    fn succeeded(&mut self) -> Result<bool, String> {
        Ok(self.number::<i64>("a result")? >= 0)
    }

    fn target(&mut self) -> Result<Target, String> {
        let rest = self.0.trim_start();
        if let Some(quoted) = rest.strip_prefix('"') {
            let (path, rest) = quoted.split_once('"').ok_or("a path's closing quote is missing")?;
            self.0 = rest;
            return Ok(Target::Named(relative(path)?));
        }
        let word = self.word("a path")?;
        // mobigen truncated the beginning of some paths; the rest of such a path still ends with a quote.
        match word.strip_suffix('"') {
            Some(path) => Ok(Target::Named(relative(path)?)),
            None => Ok(Target::Unnamed),
        }
    }

    fn path(&mut self) -> Result<String, String> {
        match self.target()? {
            Target::Named(path) => Ok(path),
            Target::Unnamed => Err("a path in quotes is missing".to_owned()),
        }
    }
}

/// Makes a path relative. Fails if the path leaves the place of the replay.
fn relative(path: &str) -> Result<String, String> {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str().ok_or("the path is not UTF-8")?),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir if !parts.is_empty() => {
                parts.pop();
            }
            Component::ParentDir | Component::Prefix(_) => {
                return Err(format!("`{path}` leaves its place"));
            }
        }
    }
    if path.is_empty() || path.contains('\0') {
        return Err(format!("`{path}` is not the path of a file"));
    }
    if parts.is_empty() {
        parts.push(".");
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::{Options, Overrides, Places, Runner};

    fn fixture() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/notes.mobigen")
    }

    #[test]
    fn lines_are_read() {
        let at = |call| Ok(Line { thread: 3, at_us: 50, call });
        let named = |path: &str| Target::Named(path.to_owned());
        let flags = OpenFlags { makes: true, truncate: false };
        for (text, expected) in [
            (
                "3 50 pread 27 18740699 30",
                at(Call::Transfer { descriptor: 27, offset: Some(18_740_699), bytes: 30, is_write: false }),
            ),
            (
                "3 50 write 36 4",
                at(Call::Transfer { descriptor: 36, offset: None, bytes: 4, is_write: true }),
            ),
            (
                "3 50 open \"/a b/c\" O_RDWR|O_CREAT|O_EXCL 7",
                at(Call::Open { target: named("a b/c"), flags, descriptor: 7 }),
            ),
            (
                "3 50 open /data/data O_RDWR|O_CREAT|O_EXCL 7",
                at(Call::Open { target: Target::Unnamed, flags, descriptor: 7 }),
            ),
            (
                "3 50 open ev/x\" O_RDWR|O_CREAT|O_EXCL 7",
                at(Call::Open { target: named("ev/x"), flags, descriptor: 7 }),
            ),
            ("3 50 access \"/a\" -1", at(Call::Access { path: "a".to_owned(), found: false })),
            ("3 50 fsync 5 0", at(Call::Sync { descriptor: 5, data_only: false })),
            ("3 50 read 173 -1", at(Call::Failed)),
            ("3 50 stat64 \"/a/b/..\" 0", at(Call::Stat { path: "a".to_owned(), found: true })),
            ("3 50 ioctl 5 0", Err("`ioctl` is not a call that can be replayed")),
            ("3 50 read 5", Err("bytes is missing")),
            ("3 x read 5 1", Err("expected microseconds, found `x`")),
            ("3 50 unlink \"/a/../../b\" 0", Err("`/a/../../b` leaves its place")),
            ("3 50 unlink \"/a", Err("a path's closing quote is missing")),
            ("3 50 write 5 99999999999", Err("99999999999 bytes are too many; the maximum is 1073741824")),
        ] {
            assert_eq!(
                parse_line(text).as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|text: &&str| *text),
                "{text}"
            );
        }
        let error = parse("1 0 write 36 4\n\n1 0 nap 5\n", "x.txt").expect_err("no such call").to_string();
        assert_eq!(error, "x.txt, line 3: `1 0 nap 5`: `nap` is not a call that can be replayed");
        assert!(parse("\n", "x.txt").is_err(), "nothing to replay");
    }

    #[test]
    fn a_trace_is_replayed_call_by_call() {
        for no_sync in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let mut options = Options { pace: 0.0, ..Options::default() };
            if no_sync {
                options.overrides =
                    Overrides { no_sync_places: ["*".to_owned()].into(), ..Overrides::default() };
            }
            let mut runner =
                Runner::new(&workload(&fixture()), &Places::under(directory.path()), options).unwrap();
            runner.prepare(&mut ()).unwrap();
            let amounts = runner.run(&mut ()).unwrap().amounts;
            assert_eq!((amounts.syncs, amounts.syncs_skipped), if no_sync { (0, 3) } else { (3, 0) });
            assert_eq!(amounts.file_bytes_written, 4 + 512 + 4 + 4096 + 1);
            assert_eq!(amounts.file_bytes_read, 30 + 4096 + 16);
            // Four calls on /proc and /dev, and the failed open, are not replayed.
            assert_eq!((amounts.calls_replayed, amounts.calls_left_out), (24, 5));
            assert_eq!(amounts.files_deleted, 1);
            let data = directory.path().join("data/data/data/org.example.notes");
            assert!(data.join("files/a").exists() && !data.join("files/a.tmp").exists());
            assert_eq!(std::fs::metadata(data.join("databases/notes.db")).unwrap().len(), 8192);
        }
    }

    #[test]
    fn a_phones_trace_is_replayed() {
        fonio_testing::skip_without!(PhoneTrace);
        let trace = PathBuf::from(std::env::var_os("FONIO_MOBIGEN_TRACE").unwrap());
        let text = std::fs::read_to_string(&trace).unwrap();
        let lines = parse(&text, "trace").unwrap().len() as u64;
        let directory = tempfile::tempdir().unwrap();
        let options = Options { pace: 0.0, scale: 0.2, ..Options::default() };
        let mut runner = Runner::new(&workload(&trace), &Places::under(directory.path()), options).unwrap();
        runner.prepare(&mut ()).unwrap();
        let amounts = runner.run(&mut ()).unwrap().amounts;
        assert_eq!(amounts.calls_replayed + amounts.calls_left_out, crate::scale::scaled(lines, 0.2));
        assert!(amounts.calls_replayed > amounts.calls_left_out, "{amounts:?}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([0-9]{1,3} [0-9]{1,5} (open|read|pwrite|rename|stat64|x) [\"/a-z.0-9 |-]{0,20}\n){0,8}") {
            let _ = parse(&text, "text");
        }
    }
}
