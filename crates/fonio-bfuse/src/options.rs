//! Parses the mount options after `-o`, in the format of fstab and mount(8).

use std::net::SocketAddr;
use std::time::Duration;

use fonio_core::quantity::{parse_bytes, parse_duration};
use rustix::mount::MountFlags as Flags;

use crate::modes::Mode;

/// The kernel's maximum request size with the default `max_pages_limit` of 256.
const IO_BYTES_MAX: u32 = 1 << 20;
const PAGE_BYTES: u32 = 4096;
/// Minimum limit of open files: with a lower limit, the daemon would need most descriptors for itself.
const FILES_MIN: u64 = 256;
/// The largest value that the kernel accepts for `fs.nr_open`.
const FILES_MAX: u64 = (1 << 30) - 8;

/// Options of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The mode in which files are served.
    pub mode: Mode,
    /// Maximum request size, a multiple of 4 KiB up to 1 MiB; `None` means the default of the mode.
    pub io_bytes: Option<u32>,
    /// Options of the write buffer.
    pub buffer: BufferOptions,
    /// Whether to start the write-back of long passed-through streams while they are written.
    pub write_behind: bool,
    /// Whether the daemon may hold file handles instead of descriptors when descriptors become scarce.
    pub file_handles: bool,
    /// Whether requests come through io_uring.
    pub io_uring: IoUring,
    /// Maximum number of requests served at the same time; `None` means the default, 8.
    pub threads: Option<usize>,
    /// Maximum number of file descriptors of the daemon; `None` means the kernel's limit. Each open file needs
    /// a descriptor. Each inode in the kernel's cache needs one too, unless the daemon holds its file handle.
    pub files: Option<u64>,
    /// Whether the daemon reports the birth times of files. The kernel does not accept birth times in a
    /// lookup reply, so they cost one more request per file.
    pub birth_times: bool,
    /// How long the kernel caches names and attributes. Changes made directly in the source become
    /// visible after this time.
    pub timeout: Duration,
    /// Whether other users may access the mount. If a user other than root mounts, `/etc/fuse.conf` must
    /// contain `user_allow_other`.
    pub allow_other: bool,
    /// Whether the kernel checks permissions even if other users have no access. With `allow_other`, it always does.
    pub default_permissions: bool,
    /// Address at which Prometheus can read the metrics, such as `127.0.0.1:9464`.
    pub prometheus: Option<SocketAddr>,
    /// The source shown in `/proc/self/mountinfo`; `None` means the path of the source.
    pub name: Option<String>,
    /// Whether to change the flags of an existing mount.
    pub remount: bool,
    /// Flags of the mount, such as `ro` and `noexec`.
    pub flags: MountFlags,
}

/// Whether requests come through io_uring instead of `/dev/fuse`. io_uring saves system calls, and each
/// request is served on its caller's CPU. FUSE over io_uring needs Linux 6.14. A mount by root enables the
/// kernel parameter `fuse.enable_uring` while it mounts; a mount by another user depends on the parameter's
/// current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoUring {
    /// Use io_uring if it is available.
    Auto,
    /// Use io_uring; the mount fails if it is not available.
    Yes,
    /// Never use io_uring.
    No,
}

/// Options of the write buffer. The default values come from the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferOptions {
    /// Total size of all buffer entries in bytes.
    pub bytes: usize,
    /// Size of one buffer entry in bytes.
    pub entry_bytes: usize,
    /// Maximum time for which data stay in the buffer.
    pub flush: Duration,
    /// Whether separate threads flush the buffer; otherwise the writing threads flush it.
    pub thread: bool,
    /// Whether a stream bypasses the page cache of the source file system after its first entry.
    pub direct: bool,
}

impl BufferOptions {
    /// Returns the number of buffer entries, at least one.
    pub(crate) fn entries(&self) -> usize {
        (self.bytes / self.entry_bytes).max(1)
    }
}

impl Default for BufferOptions {
    fn default() -> Self {
        Self {
            bytes: 8 << 20,
            entry_bytes: 2 << 20,
            flush: Duration::from_millis(10),
            thread: true,
            direct: true,
        }
    }
}

/// Flags of a mount, as in `mount(8)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountFlags(Flags);

/// The option words, each with its flag; the last field is true if the word sets the flag, and false if the
/// word clears the flag.
const FLAGS: [(&str, Flags, bool); 24] = [
    ("ro", Flags::RDONLY, true),
    ("rw", Flags::RDONLY, false),
    ("nosuid", Flags::NOSUID, true),
    ("suid", Flags::NOSUID, false),
    ("nodev", Flags::NODEV, true),
    ("dev", Flags::NODEV, false),
    ("noexec", Flags::NOEXEC, true),
    ("exec", Flags::NOEXEC, false),
    ("noatime", Flags::NOATIME, true),
    ("atime", Flags::NOATIME, false),
    ("nodiratime", Flags::NODIRATIME, true),
    ("diratime", Flags::NODIRATIME, false),
    ("relatime", Flags::RELATIME, true),
    ("norelatime", Flags::RELATIME, false),
    ("strictatime", Flags::STRICTATIME, true),
    ("nostrictatime", Flags::STRICTATIME, false),
    ("lazytime", Flags::LAZYTIME, true),
    ("nolazytime", Flags::LAZYTIME, false),
    ("sync", Flags::SYNCHRONOUS, true),
    ("async", Flags::SYNCHRONOUS, false),
    ("dirsync", Flags::DIRSYNC, true),
    ("nosymfollow", Flags::NOSYMFOLLOW, true),
    ("symfollow", Flags::NOSYMFOLLOW, false),
    ("silent", Flags::SILENT, true),
];

/// Flags that fusermount3 accepts from users. fusermount3 sets the flags for set-user-ID bits and devices
/// itself.
const USERS: [&str; 6] = ["ro", "noexec", "noatime", "nodiratime", "sync", "dirsync"];

impl MountFlags {
    pub(crate) fn bits(self) -> Flags {
        self.0
    }

    pub(crate) fn users_words(self) -> impl Iterator<Item = &'static str> {
        let is_set = move |word: &str| {
            FLAGS.iter().any(|(known, flag, sets)| *known == word && *sets && self.0.contains(*flag))
        };
        USERS.into_iter().filter(move |word| is_set(word))
    }

    /// Applies an option word. Returns false if the word is not a flag.
    fn apply(&mut self, word: &str) -> bool {
        let found = FLAGS.iter().find(|(known, _, _)| *known == word);
        if let Some((_, flag, sets)) = found {
            self.0.set(*flag, *sets);
        }
        found.is_some()
    }
}

impl Default for MountFlags {
    /// Returns the default flags of FUSE: ignore set-user-ID bits and device files.
    fn default() -> Self {
        Self(Flags::NOSUID | Flags::NODEV)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            io_bytes: None,
            buffer: BufferOptions::default(),
            write_behind: true,
            file_handles: true,
            io_uring: IoUring::Auto,
            threads: None,
            files: None,
            birth_times: false,
            timeout: Duration::from_secs(1),
            allow_other: rustix::process::geteuid().is_root(),
            default_permissions: false,
            prometheus: None,
            name: None,
            remount: false,
            flags: MountFlags::default(),
        }
    }
}

/// The reason why a mount option is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// There is no option with this name.
    #[error("there is no option `{name}`; `fonio mount --help` lists them")]
    Unknown {
        /// The name that was given.
        name: String,
    },
    /// The value of an option is invalid.
    #[error("`{name}={value}` is not valid; use {wants}")]
    Value {
        /// The name of the option.
        name: String,
        /// The value that was given.
        value: String,
        /// The values that the option accepts.
        wants: &'static str,
    },
}

impl Options {
    /// Parses comma-separated options as `mount -o` does; later options take precedence. Options that only
    /// concern mount(8) are ignored (`auto`, `noauto`, `user`, `nofail`, `_netdev`, `x-…`, `defaults`).
    /// Because `auto` is one of these options, the mode `auto` must be written as `mode=auto`. Fails if an
    /// option is unknown or has an invalid value; reports the first such option.
    pub fn parse<'a>(lists: impl IntoIterator<Item = &'a str>) -> Result<Self, OptionError> {
        let mut options = Self::default();
        for word in lists.into_iter().flat_map(|list| list.split(',')).filter(|word| !word.is_empty()) {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            options.apply(name, value)?;
        }
        if options.buffer.entry_bytes > options.buffer.bytes {
            return Err(OptionError::Value {
                name: "entry".to_owned(),
                value: options.buffer.entry_bytes.to_string(),
                wants: "at most the size of the buffer",
            });
        }
        Ok(options)
    }

    /// Returns whether the kernel checks permissions.
    pub(crate) fn has_kernel_checks(&self) -> bool {
        self.allow_other || self.default_permissions
    }

    fn apply(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        let refuse = |wants| OptionError::Value {
            name: name.to_owned(),
            value: value.unwrap_or_default().to_owned(),
            wants,
        };
        let yes_or_no = || value.and_then(yes_or_no).ok_or_else(|| refuse("yes or no"));
        let memory = || {
            let bytes = value.and_then(size).filter(|bytes| (PAGE_BYTES as usize..=1 << 30).contains(bytes));
            bytes.ok_or_else(|| refuse("a size from 4K to 1G"))
        };
        match (name, value) {
            ("mode", Some(text)) => {
                let wants = "one of auto, stock, extended, buffered, writeback, passthrough";
                self.mode = Mode::from_name(text).ok_or_else(|| refuse(wants))?;
            }
            ("io_unit", Some(text)) => {
                let bytes = size(text).and_then(|bytes| u32::try_from(bytes).ok());
                let fits = |bytes: &u32| {
                    (PAGE_BYTES..=IO_BYTES_MAX).contains(bytes) && bytes.is_multiple_of(PAGE_BYTES)
                };
                let bytes = bytes.filter(fits);
                self.io_bytes = Some(bytes.ok_or_else(|| refuse("a multiple of 4K, from 4K to 1M"))?);
            }
            ("buffer", Some(_)) => self.buffer.bytes = memory()?,
            ("entry", Some(_)) => self.buffer.entry_bytes = memory()?,
            ("flush", Some(text)) => {
                let time = duration(text).filter(|time| !time.is_zero());
                self.buffer.flush = time.ok_or_else(|| refuse("a time with its unit, such as 10ms"))?;
            }
            ("thread", Some(_)) => self.buffer.thread = yes_or_no()?,
            ("direct", Some(_)) => self.buffer.direct = yes_or_no()?,
            ("file_handles", Some(_)) => self.file_handles = yes_or_no()?,
            ("write_behind", Some(_)) => self.write_behind = yes_or_no()?,
            ("threads", Some(text)) => {
                let count = text.parse().ok().filter(|count| (1..=256).contains(count));
                self.threads = Some(count.ok_or_else(|| refuse("a number from 1 to 256"))?);
            }
            ("files", Some(text)) => {
                let count = text.parse().ok().filter(|count| (FILES_MIN..=FILES_MAX).contains(count));
                self.files = Some(count.ok_or_else(|| refuse("a number from 256 to 1073741816"))?);
            }
            ("io_uring", Some(text)) => {
                self.io_uring = match (text, yes_or_no()) {
                    ("auto", _) => IoUring::Auto,
                    (_, Ok(true)) => IoUring::Yes,
                    (_, Ok(false)) => IoUring::No,
                    _ => return Err(refuse("auto, yes or no")),
                };
            }
            ("btime", None) => self.birth_times = true,
            ("timeout", Some(text)) => {
                let time = duration(text);
                self.timeout = time.ok_or_else(|| refuse("a time with its unit, such as 1s or 0s"))?;
            }
            ("prometheus", Some(text)) => {
                let address = text.parse().ok();
                self.prometheus = Some(address.ok_or_else(|| refuse("an address and port, 127.0.0.1:9464"))?);
            }
            ("fsname", Some(text)) => self.name = Some(text.to_owned()),
            ("allow_other", None) => self.allow_other = true,
            ("noallow_other", None) => self.allow_other = false,
            ("remount", None) => self.remount = true,
            ("default_permissions", None) => self.default_permissions = true,
            // mount(8) passes these options when it remounts.
            ("user_id" | "group_id", Some(_)) => {}
            (
                "defaults" | "auto" | "noauto" | "user" | "nouser" | "users" | "owner" | "nofail" | "_netdev",
                None,
            ) => {}
            (word, None) if self.flags.apply(word) => {}
            (comment, _) if comment.starts_with("x-") || comment == "comment" => {}
            (mode, None) if Mode::from_name(mode).is_some() => {
                self.mode = Mode::from_name(mode).unwrap_or(self.mode);
            }
            _ => {
                let name = value.map_or_else(|| name.to_owned(), |value| format!("{name}={value}"));
                return Err(OptionError::Unknown { name });
            }
        }
        Ok(())
    }
}

fn size(text: &str) -> Option<usize> {
    parse_bytes(text).ok()?.try_into().ok()
}

fn duration(text: &str) -> Option<Duration> {
    parse_duration(text).ok()
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" | "on" | "1" => Some(true),
        "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, expected: &str) {
        let said = match Options::parse([list]) {
            Ok(options) => format!("{:?} {:?} {:?}", options.mode, options.io_bytes, options.buffer),
            Err(error) => error.to_string(),
        };
        assert_eq!(said, expected, "{list}");
    }

    #[test]
    fn what_fstab_and_people_write() {
        let buffer =
            "BufferOptions { bytes: 8388608, entry_bytes: 2097152, flush: 10ms, thread: true, direct: true }";
        check("", &format!("Auto None {buffer}"));
        check("mode=extended,io_unit=512K", &format!("Extended Some(524288) {buffer}"));
        check(
            "rw,noauto,x-systemd.automount,buffered,buffer=16M,entry=1M,flush=5ms,thread=no",
            "Buffered None BufferOptions { bytes: 16777216, entry_bytes: 1048576, flush: 5ms, thread: false, direct: true }",
        );
    }

    #[test]
    fn flags_are_those_of_mount_8_and_later_words_win() {
        let flags = |list: &str| Options::parse([list]).expect("all options are known").flags;
        assert_eq!(flags("").bits(), Flags::NOSUID | Flags::NODEV);
        let all = flags("suid,dev,ro,nodiratime,strictatime,sync,exec,noatime,atime,lazytime,nolazytime");
        assert_eq!(all.bits(), Flags::RDONLY | Flags::NODIRATIME | Flags::STRICTATIME | Flags::SYNCHRONOUS);
        assert_eq!(all.users_words().collect::<Vec<_>>(), ["ro", "nodiratime", "sync"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_way_out() {
        for (list, wants) in [
            ("io_unit=5000", "a multiple of 4K, from 4K to 1M"),
            ("io_unit=2M", "a multiple of 4K, from 4K to 1M"),
            ("buffer=2G", "a size from 4K to 1G"),
            ("direct=maybe", "yes or no"),
            ("io_uring=maybe", "auto, yes or no"),
            ("flush=10", "a time with its unit, such as 10ms"),
            ("mode=fast", "one of auto, stock, extended, buffered, writeback, passthrough"),
            ("files=100", "a number from 256 to 1073741816"),
        ] {
            check(list, &format!("`{list}` is not valid; use {wants}"));
        }
        check("bufer=8M", "there is no option `bufer=8M`; `fonio mount --help` lists them");
        check("buffer=1M", "`entry=2097152` is not valid; use at most the size of the buffer");
    }
}
