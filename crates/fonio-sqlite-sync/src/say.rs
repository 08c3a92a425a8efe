//! Messages, on standard error: the journal of a service, the terminal of a command.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;

/// The messages that were printed. A program that runs for months prints each once.
#[derive(Default)]
pub struct Said(Mutex<BTreeSet<String>>);

/// The maximum number of different messages. It is bounded because the program determines how many there are.
const MOST: usize = 1000;

impl Said {
    /// Prints the message, unless it was printed before.
    pub fn once(&self, message: &str) {
        let Ok(mut said) = self.0.lock() else { return };
        if said.len() < MOST && said.insert(message.to_owned()) {
            say(message);
        }
    }
}

/// Says it.
pub fn say(message: &str) {
    // In one call, so that lines of several processes do not mix. An error is ignored: standard error may be
    // closed.
    let _ = std::io::stderr().write_all(format!("fonio-sqlite-sync: {message}\n").as_bytes());
}
