//! Defines the errors of this crate.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A failure of the adb client, of the connection, or of the phone.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the error messages explain the fields")]
pub enum AndroidError {
    /// The adb client is not installed.
    #[error(
        "the adb client is not installed ({}: {cause}); on Debian: apt-get install --no-install-recommends adb. \
         Another client can be named with ADB=/path/to/adb",
        program.display()
    )]
    NoAdb { program: PathBuf, cause: io::Error },
    /// No phone is connected.
    #[error(
        "adb sees no phone; connect one with a cable, and switch on USB debugging in the phone's developer \
         options. `adb devices -l` must list it"
    )]
    NoPhone,
    /// Several phones are connected.
    #[error("adb sees several phones; name one: {}", serials.iter().map(|serial| format!("--in android:{serial}")).collect::<Vec<_>>().join(", "))]
    SeveralPhones { serials: Vec<String> },
    /// The named phone is not connected.
    #[error("adb sees no phone {serial}; it sees {seen}")]
    OtherPhones { serial: String, seen: String },
    /// A phone is connected but cannot be used.
    #[error("adb cannot use the phone {serial}: it is {state}; {remedy}")]
    NotReady { serial: String, state: String, remedy: &'static str },
    /// The adb client failed.
    #[error("`adb {words}` failed: {complaint}")]
    Failed { words: String, complaint: String },
    /// The adb client did not answer.
    #[error("`adb {words}` did not answer within {} s; is the phone still connected?", limit.as_secs())]
    NoAnswer { words: String, limit: Duration },
    /// The phone cannot record.
    #[error("this phone cannot be recorded: {reason}")]
    CannotRecord { reason: String },
    /// Perfetto on the phone failed.
    #[error("perfetto on the phone ended with exit code {code}{complaint}")]
    Perfetto { code: i32, complaint: String },
    /// The user stopped fonio before the recording had begun.
    #[error("stopped before the recording began")]
    Stopped,
    /// A file of this machine cannot be used.
    #[error("cannot {action} {}: {cause}", path.display())]
    File { action: &'static str, path: PathBuf, cause: io::Error },
}

impl AndroidError {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AndroidError {
        let path = path.to_owned();
        move |cause| AndroidError::File { action, path, cause }
    }
}
