//! Prints messages on standard error, which is the journal of a service or the terminal of a command.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The messages that were printed. Each message is printed only once, even if the program runs for months.
#[derive(Default)]
pub struct Said(Mutex<BTreeSet<String>>);

/// The maximum number of different messages that are printed. The limit is needed because the number of
/// messages depends on the number of the program's databases.
const MOST: usize = 1000;

impl Said {
    /// Prints the message, unless the same message was printed before.
    pub fn once(&self, message: &str) {
        let Ok(mut said) = self.0.lock() else { return };
        if said.len() < MOST && said.insert(message.to_owned()) {
            say(message);
        }
    }
}

/// Records that the error of the policy file is printed; returns false if it was printed before.
pub fn policy_error_is_said() -> bool {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    !IS_SAID.swap(true, Ordering::Relaxed)
}

pub fn say(message: &str) {
    // Write each line in one call, so that lines of several processes do not mix. Errors are ignored, because
    // standard error may be closed.
    let _ = std::io::stderr().write_all(format!("fonio-sqlite-sync: {message}\n").as_bytes());
}
