//! Replaces names with tokens to make a recording safe to share.
//!
//! A token is a keyed hash (HMAC-SHA-256) of a name. A name gets the same token in all recordings that are
//! redacted with the same key. Without the key, nobody can find out the name behind a token by trying names.
//! Numbers, times, sizes, device offsets and device models are not changed.

mod names;

use std::io;

use fonio_core::meta::{Host, LATE_FRAME, Mount};
use fonio_core::{
    Diagnostic, File, Mark, Meta, Metric, RowSink, Sample, Statement, Thread, Wait, forward_rows,
};

use names::Names;
pub use names::{Key, KeyError};

/// The diagnostics whose messages contain only fonio's words and numbers. Messages of other diagnostics may
/// quote input.
const HARMLESS: [&str; 25] = [
    "buffer-full",
    "disk-full",
    "few-stacks",
    "files-beyond",
    "lost-blocked-waits",
    "lost-calls",
    "lost-events",
    "lost-statements",
    "lost-waits",
    "lost-waits-for-threads",
    "no-blocked-waits",
    "no-calls",
    "no-stacks",
    "no-symbols",
    "own-requests",
    "refused-events",
    "short-of-write-back",
    "spill-failed",
    "unended-blocked-waits",
    "unknown-loss",
    "unnamed-containers",
    "wait-threshold",
    "waits-beyond",
    "waits-only-counted",
    "waits-without-bpf",
];
/// The names of marks that fonio sets itself.
const OWN_MARKS: [&str; 2] = ["command", "launch"];
/// The beginnings of the names of marks after which only a package follows, and of marks without any name.
const PACKAGE_MARKS: [&str; 1] = ["launching: "];
const LAUNCH_MARK: &str = "launchingActivity#";
const NAMELESS_MARKS: [&str; 4] =
    ["MetricsLogger:launchObserverNotifyIntentStarted", "activityResume", "activityStart", "bindApplication"];
/// The text that replaces a message that may contain names.
const REDACTED: &str = "the message is left out, because it may contain names";

/// The ends of a launch in the mark of Android's system server.
const COMPLETIONS: [&str; 3] = ["completed-cold", "completed-warm", "completed-hot"];

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a text consists of the words by which Android explains a late frame.
fn is_reason(text: &str) -> bool {
    const WORDS: [&str; 19] = [
        "App",
        "Buffer",
        "CPU",
        "Deadline",
        "Display",
        "Dropped",
        "Error",
        "Frame",
        "GPU",
        "HAL",
        "Jank",
        "Missed",
        "Prediction",
        "Scheduling",
        "Stuffing",
        "SurfaceFlinger",
        "Unknown",
        "Late",
        "Present",
    ];
    text.split([' ', ',']).all(|word| word.is_empty() || WORDS.contains(&word))
}

/// A [`RowSink`] that passes rows on with tokens instead of names.
///
/// The redactor replaces paths; users; marks of programs; names in SQL statements; names of threads, units,
/// containers, packages, control groups and network interfaces; and messages that may quote such names.
/// [`redacted_meta`] replaces such names in the metadata.
#[derive(Debug)]
pub struct Redactor<S> {
    names: Names,
    next: S,
}

impl<S> Redactor<S> {
    /// Creates a redactor that passes redacted rows on to `next`.
    pub fn new(key: &Key, next: S) -> Redactor<S> {
        Redactor { names: Names::new(key), next }
    }

    /// Returns the name of a mark with tokens instead of the names of programs and packages.
    fn mark_name(&self, name: &str) -> String {
        let is_harmless = OWN_MARKS.contains(&name) || NAMELESS_MARKS.contains(&name);
        if is_harmless || name.strip_prefix(LATE_FRAME).is_some_and(is_reason) {
            return name.to_owned();
        }
        for begin in PACKAGE_MARKS {
            if let Some(package) = name.strip_prefix(begin) {
                return format!("{begin}{}", self.names.unit(package));
            }
        }
        if let Some(rest) = name.strip_prefix(LAUNCH_MARK) {
            match rest.split_once(':').map_or((rest, None), |(number, rest)| (number, Some(rest))) {
                (number, None) if is_number(number) => return name.to_owned(),
                (number, Some(rest)) if is_number(number) => {
                    if let Some((kind, package)) = rest.split_once(':')
                        && COMPLETIONS.contains(&kind)
                    {
                        return format!("{LAUNCH_MARK}{number}:{kind}:{}", self.names.unit(package));
                    }
                }
                _ => {}
            }
        }
        self.names.token("mark", name)
    }

    /// Returns the sink to which the redactor passed the rows.
    pub fn into_inner(self) -> S {
        self.next
    }
}

/// Returns the metadata with tokens instead of names of the machine, the command, files and mounts.
pub fn redacted_meta(key: &Key, meta: &Meta) -> Meta {
    let names = Names::new(key);
    let mut meta = meta.clone();
    meta.host = Host { name: meta.host.name.map(|name| names.token("host", &name)), ..meta.host };
    for file in &mut meta.source.files {
        *file = names.path(file);
    }
    for word in meta.command.iter_mut().flatten() {
        *word = names.token("word", word);
    }
    for mount in meta.devices.iter_mut().flat_map(|device| &mut device.mounts) {
        let Mount { at, options, .. } = mount;
        *at = names.path(at);
        options.iter_mut().for_each(|option| *option = names.option(option));
    }
    meta
}

impl<S: RowSink> RowSink for Redactor<S> {
    fn file(&mut self, row: &File) -> io::Result<()> {
        let path = row.path.as_ref().map(|path| self.names.path(path));
        self.next.file(&File { path, ..row.clone() })
    }

    fn statement(&mut self, row: &Statement) -> io::Result<()> {
        let text = row.text.as_ref().map(|text| self.names.statement(text));
        self.next.statement(&Statement { text, ..row.clone() })
    }

    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.next.thread(&Thread {
            comm: row.comm.as_ref().map(|comm| self.names.comm(comm)),
            cgroup: row.cgroup.as_ref().map(|cgroup| self.names.cgroup(cgroup)),
            unit: row.unit.as_ref().map(|unit| self.names.unit(unit)),
            // Drop the user id, because it identifies an app on Android.
            uid: None,
            ..row.clone()
        })
    }

    fn sample(&mut self, row: &Sample) -> io::Result<()> {
        let is_interface = matches!(
            row.metric,
            Metric::NetReceiveBytes | Metric::NetTransmitBytes | Metric::NetLinkBytesPerS
        );
        let subject = row.subject.clone();
        let subject =
            if is_interface { subject.map(|name| self.names.token("interface", &name)) } else { subject };
        self.next.sample(&Sample { subject, ..row.clone() })
    }

    fn mark(&mut self, row: &Mark) -> io::Result<()> {
        let name = self.mark_name(&row.name);
        self.next.mark(&Mark { name, ..row.clone() })
    }

    fn diagnostic(&mut self, row: &Diagnostic) -> io::Result<()> {
        let is_harmless = HARMLESS.contains(&row.code.as_str());
        let message = if is_harmless { row.message.clone() } else { REDACTED.to_owned() };
        let file = row.file.as_ref().map(|file| self.names.path(file));
        self.next.diagnostic(&Diagnostic { message, file, ..row.clone() })
    }

    forward_rows!(next: began, request, bio, link, call, wait, blocked_count, settled);

    fn wait_left_out(&mut self, row: &Wait) -> io::Result<()> {
        self.next.wait_left_out(row)
    }

    fn wants_bios(&self) -> bool {
        self.next.wants_bios()
    }
}

#[cfg(test)]
mod tests;
