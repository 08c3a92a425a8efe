//! Finds out whether fonio may be root on the phone, and how.

use fonio_core::printable;

use crate::adb::Adb;
use crate::error::AndroidError;
use crate::phone::Phone;

/// How a line is run as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// adb's shell itself is root.
    Shell,
    /// `su 0 sh -c LINE`: the program of Android's own `userdebug` builds.
    SuUser,
    /// `su -c LINE`: Magisk and SuperSU.
    SuCommand,
}

impl Root {
    /// Asks the phone whether fonio may be root. The inner error says why not. The phone can ask its user first.
    ///
    /// # Errors
    /// Fails if the phone does not answer.
    pub fn ask(adb: &Adb, phone: &Phone) -> Result<Result<Root, String>, AndroidError> {
        if phone.is_root {
            return Ok(Ok(Root::Shell));
        }
        if !phone.has_su {
            return Ok(Err("adb's shell is not root, and the phone has no program su".to_owned()));
        }
        let mut refusal = String::new();
        for root in [Root::SuUser, Root::SuCommand] {
            let answer = match adb.shell(&root.line("id -u")) {
                // It may wait for its user.
                Err(AndroidError::NoAnswer { limit, .. }) => {
                    refusal = format!(": it did not answer within {} s", limit.as_secs());
                    continue;
                }
                answer => answer?,
            };
            if answer.code == 0 && answer.out.trim() == "0" {
                return Ok(Ok(root));
            }
            let said = [answer.errors, answer.out].concat();
            if let Some(line) = said.lines().map(str::trim).find(|line| !line.is_empty()) {
                refusal = format!(": {}", printable(line));
            }
        }
        Ok(Err(format!("adb's shell is not root, and su refuses{refusal}")))
    }

    /// Returns a line of the shell that runs this line as root.
    pub(crate) fn line(self, line: &str) -> String {
        let quoted = format!("'{}'", line.replace('\'', r"'\''"));
        match self {
            Root::Shell => line.to_owned(),
            Root::SuUser => format!("su 0 sh -c {quoted}"),
            Root::SuCommand => format!("su -c {quoted}"),
        }
    }
}
