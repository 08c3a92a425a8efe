//! Reads traces of system calls in the format that Mobibench's tool mobigen writes: one call a line,
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
//! A path without quotes is one that the tool did not know: the call is on an unnamed file.

use std::path::{Component, Path};

use crate::definition::{Phase, Step, Thread, Workload};
use crate::error::WorkloadError;

/// A call with its thread and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) thread: u64,
    pub(crate) at_us: u64,
    pub(crate) call: Call,
}

/// What is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A path, relative: without the leading slash, without `..`.
    Named(String),
    Unnamed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenFlags {
    pub(crate) create: bool,
    pub(crate) truncate: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A negative descriptor is a failed call.
    Open {
        target: Target,
        flags: OpenFlags,
        descriptor: i64,
    },
    Close {
        descriptor: i64,
    },
    /// Without an offset it is at the descriptor's position.
    Read {
        descriptor: i64,
        offset: Option<u64>,
        bytes: u64,
    },
    Write {
        descriptor: i64,
        offset: Option<u64>,
        bytes: u64,
    },
    Sync {
        descriptor: i64,
        data_only: bool,
    },
    Truncate {
        descriptor: i64,
        bytes: u64,
    },
    StatDescriptor {
        descriptor: i64,
    },
    Stat {
        path: String,
        found: bool,
    },
    Access {
        path: String,
        found: bool,
    },
    Unlink {
        path: String,
        done: bool,
    },
    Rename {
        from: String,
        to: String,
        done: bool,
    },
}

/// More in one call is damage, not an app.
const CALL_BYTES_MAX: u64 = 1 << 30;
/// Files on a phone are not longer; a damaged offset would fill the device.
const OFFSET_MAX: u64 = 1 << 36;

/// The workload that replays a trace.
#[must_use]
pub fn workload(trace: &Path) -> Workload {
    let step = Step::Replay { trace: trace.to_owned(), place: "data".to_owned() };
    Workload {
        name: "mobigen".to_owned(),
        title: format!("replay of {}", trace.display()),
        about: "System calls recorded on a phone, replayed by as many threads at the recorded times."
            .to_owned(),
        places: [("data".to_owned(), "every file of the trace".to_owned())].into(),
        databases: Default::default(),
        files: Default::default(),
        prepare: Vec::new(),
        phases: vec![Phase {
            name: "replay".to_owned(),
            threads: vec![Thread { name: "replay".to_owned(), instances: 1, steps: vec![step] }],
        }],
        published: None,
    }
}

/// Reads a whole trace. Empty lines are passed over.
///
/// # Errors
/// The first line that is none of the above.
pub(crate) fn parse(text: &str, origin: &str) -> Result<Vec<Line>, WorkloadError> {
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
            let flags = OpenFlags { create: has("O_CREAT"), truncate: has("O_TRUNC") };
            Call::Open { target, flags, descriptor: words.number("a descriptor")? }
        }
        "close" => Call::Close { descriptor: words.number("a descriptor")? },
        "read" | "write" | "pread" | "pwrite" | "pread64" | "pwrite64" => {
            let descriptor = words.number("a descriptor")?;
            let offset =
                if name.starts_with('p') { Some(words.bounded("an offset", OFFSET_MAX)?) } else { None };
            let bytes = words.bounded("bytes", CALL_BYTES_MAX)?;
            if name.contains("read") {
                Call::Read { descriptor, offset, bytes }
            } else {
                Call::Write { descriptor, offset, bytes }
            }
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
        other => return Err(format!("no call that can be replayed is called `{other}`")),
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
        word.parse().map_err(|_| format!("`{word}` stands where {expected} should be"))
    }

    fn bounded(&mut self, expected: &str, most: u64) -> Result<u64, String> {
        let number = self.number(expected)?;
        if number > most {
            return Err(format!("{number} is more than {expected} can be ({most})"));
        }
        Ok(number)
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
        // The tool cut the first letters of some paths; what is left still ends with a quote.
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

/// No trace may lead out of the place it is replayed in.
fn relative(path: &str) -> Result<String, String> {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str().ok_or("a path that is no text")?),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(format!("`{path}` leads out of its place"));
            }
        }
    }
    if parts.is_empty() || path.contains('\0') {
        return Err(format!("`{path}` names no file"));
    }
    Ok(parts.join("/"))
}
