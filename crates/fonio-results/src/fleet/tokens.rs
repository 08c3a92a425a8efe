//! The file with the tokens of devices.
//!
//! Each line has a token, and may have the last day (UTC) on which it is valid: `TOKEN 2027-06-30`. Empty lines and
//! lines that begin with `#` are left out.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use jiff::civil::Date;
use thiserror::Error;

use crate::token;

const TOKEN_BYTES_MIN: usize = 32;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a token, or the file with the tokens, is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenProblem {
    /// The file cannot be read.
    #[error("the file with the tokens cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// Other users can read or write the file.
    #[error("other users can read or change the file with the tokens; run `chmod 600` on it")]
    Open,
    /// The path is not a regular file of a usual size.
    #[error("the file with the tokens is not a regular file of at most 1 MiB")]
    Kind,
    /// A line is not a token.
    #[error(
        "line {line} is not a token; a token has at least {TOKEN_BYTES_MIN} letters and digits, and may be followed by a day such as 2027-06-30; `openssl rand -hex 32` makes one"
    )]
    Line {
        /// The number of the line, from 1.
        line: usize,
    },
    /// The file has no token.
    #[error("the file has no token; `openssl rand -hex 32` makes one")]
    Empty,
    /// The token is in no line.
    #[error("the fleet does not know this token; ask its operator for a token")]
    Unknown,
    /// The token's last day is over.
    #[error("the token expired after {0}; ask the operator of the fleet for a new one")]
    Expired(Date),
}

/// The tokens of a fleet, as hashes.
#[derive(Debug)]
pub struct Tokens(Vec<(Vec<u8>, Option<Date>)>);

impl Tokens {
    /// Reads the tokens of a file that only its owner can read.
    ///
    /// # Errors
    /// Returns the reason why the file cannot be used.
    pub fn read(path: &Path) -> Result<Tokens, TokenProblem> {
        // Opening a FIFO without the flag would wait for its writer.
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, rustix::fs::Mode::empty());
        let mut file = File::from(opened.map_err(|error| TokenProblem::Unreadable(error.into()))?);
        let about = file.metadata().map_err(TokenProblem::Unreadable)?;
        if !about.is_file() || about.len() > FILE_BYTES_MAX {
            return Err(TokenProblem::Kind);
        }
        if about.mode() & 0o077 != 0 {
            return Err(TokenProblem::Open);
        }
        let mut text = String::new();
        file.by_ref().take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(TokenProblem::Unreadable)?;
        Tokens::parse(&text)
    }

    fn parse(text: &str) -> Result<Tokens, TokenProblem> {
        let lines = text.lines().map(str::trim).enumerate();
        let used = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let tokens: Vec<_> = used
            .map(|(number, line)| token_of(line).ok_or(TokenProblem::Line { line: number + 1 }))
            .collect::<Result<_, _>>()?;
        if tokens.is_empty() { Err(TokenProblem::Empty) } else { Ok(Tokens(tokens)) }
    }

    /// Checks a token that a device sent on the day `today` (UTC).
    ///
    /// # Errors
    /// Returns [`TokenProblem::Unknown`] or [`TokenProblem::Expired`].
    pub fn admit(&self, given: &str, today: Date) -> Result<(), TokenProblem> {
        let mut expired = None;
        // All lines are compared, so that the time does not depend on the token.
        let matching: Vec<_> = self.0.iter().filter(|(stored, _)| token::matches(given, stored)).collect();
        for (_, last) in matching {
            match last {
                Some(last) if *last < today => expired = expired.max(Some(*last)),
                _ => return Ok(()),
            }
        }
        Err(expired.map_or(TokenProblem::Unknown, TokenProblem::Expired))
    }
}

fn token_of(line: &str) -> Option<(Vec<u8>, Option<Date>)> {
    let mut words = line.split_whitespace();
    let token = words.next()?;
    let last = words.next().map(str::parse).transpose().ok()?;
    let is_token = token.len() >= TOKEN_BYTES_MIN && token.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_token && words.next().is_none()).then(|| (token::hash(token), last))
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    pub fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn tokens_are_valid_through_their_last_day() {
        let (one, two) = ("a".repeat(32), "b".repeat(64));
        let tokens = Tokens::parse(&format!("# kitchen\n{one}\n\n {two} 2026-11-30 \n")).unwrap();
        let day = |text: &str| text.parse().unwrap();
        assert!(tokens.admit(&one, day("2100-01-01")).is_ok());
        assert!(tokens.admit(&two, day("2026-11-30")).is_ok());
        assert!(
            matches!(tokens.admit(&two, day("2026-12-01")), Err(TokenProblem::Expired(last)) if last == day("2026-11-30"))
        );
        assert!(matches!(tokens.admit("", day("2026-12-01")), Err(TokenProblem::Unknown)));
        for (text, line) in [
            ("short".to_owned(), 1),
            (format!("{one}\n{two} tomorrow"), 2),
            (format!("#\n\n{two} 2026-01-01 x"), 3),
            (format!("{}ä", one), 1),
        ] {
            match Tokens::parse(&text) {
                Err(TokenProblem::Line { line: found }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(matches!(Tokens::parse("# none\n"), Err(TokenProblem::Empty)));
    }

    #[test]
    fn the_file_must_be_private_and_regular() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        assert!(matches!(Tokens::read(&path), Err(TokenProblem::Unreadable(_))));
        write(&path, &"a".repeat(32));
        assert!(Tokens::read(&path).is_ok());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Tokens::read(&path), Err(TokenProblem::Open)));
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
        assert!(matches!(Tokens::read(&fifo), Err(TokenProblem::Kind)));
    }
}
