//! The file with the tokens of devices.
//!
//! Each line has a token. After it, in any order, may be the last day (UTC) on which it is valid, and the devices that
//! may use it: `TOKEN 2027-06-30 device=kitchen`. Empty lines and lines that begin with `#` are left out.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use jiff::civil::Date;
use thiserror::Error;

use super::Device;
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
        "line {line} is not a token; a token has at least {TOKEN_BYTES_MIN} letters and digits, and may be followed by a day such as 2027-06-30 and by device=NAME; `openssl rand -hex 32` makes one"
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
    /// The token is for other devices.
    #[error("this token is for another device; ask the operator of the fleet for a token of this device")]
    Device,
}

/// The tokens of a fleet.
#[derive(Debug)]
pub struct Tokens(Vec<Token>);

#[derive(Debug)]
struct Token {
    hash: Vec<u8>,
    /// The last day on which the token is valid.
    last: Option<Date>,
    /// The devices that may use the token; all if it is empty.
    devices: Vec<Device>,
}

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
    /// Returns [`TokenProblem::Unknown`], [`TokenProblem::Expired`] or [`TokenProblem::Device`].
    pub fn admit(&self, given: &str, device: &Device, today: Date) -> Result<(), TokenProblem> {
        // All lines are compared, so that the time does not depend on the token.
        let matching: Vec<_> = self.0.iter().filter(|token| token::matches(given, &token.hash)).collect();
        let mut reason = TokenProblem::Unknown;
        for Token { last, devices, .. } in matching {
            match last {
                _ if !devices.is_empty() && !devices.contains(device) => reason = TokenProblem::Device,
                Some(last) if *last < today => reason = TokenProblem::Expired(*last),
                _ => return Ok(()),
            }
        }
        Err(reason)
    }
}

fn token_of(line: &str) -> Option<Token> {
    let mut words = line.split_whitespace();
    let token = words.next()?;
    let is_token = token.len() >= TOKEN_BYTES_MIN && token.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let mut read = is_token.then(|| Token { hash: token::hash(token), last: None, devices: Vec::new() })?;
    for word in words {
        match word.strip_prefix("device=") {
            Some(name) => read.devices.push(Device::named(name)?),
            None if read.last.is_none() => read.last = Some(word.parse().ok()?),
            None => return None,
        }
    }
    Some(read)
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn device(name: &str) -> Device {
        Device::named(name).unwrap()
    }

    pub fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn tokens_are_valid_through_their_last_day() {
        let (one, two) = ("a".repeat(32), "b".repeat(64));
        let tokens = Tokens::parse(&format!("# kitchen\n{one}\n\n {two} 2026-11-30 \n")).unwrap();
        let day = |text: &str| text.parse().unwrap();
        let admit = |token: &str, today| tokens.admit(token, &device("d1"), day(today));
        assert!(admit(&one, "2100-01-01").is_ok());
        assert!(admit(&two, "2026-11-30").is_ok());
        assert!(
            matches!(admit(&two, "2026-12-01"), Err(TokenProblem::Expired(last)) if last == day("2026-11-30"))
        );
        assert!(matches!(admit("", "2026-12-01"), Err(TokenProblem::Unknown)));
        for (text, line) in [
            ("short".to_owned(), 1),
            (format!("{one}\n{two} tomorrow"), 2),
            (format!("#\n\n{two} 2026-01-01 x"), 3),
            (format!("{}ä", one), 1),
            (format!("{one} 2026-01-01 2026-01-02"), 1),
            (format!("{one} device="), 1),
            (format!("{one} device=../d1"), 1),
        ] {
            match Tokens::parse(&text) {
                Err(TokenProblem::Line { line: found }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(matches!(Tokens::parse("# none\n"), Err(TokenProblem::Empty)));
    }

    #[test]
    fn a_token_can_be_for_some_devices_only() {
        let (one, two) = ("a".repeat(32), "b".repeat(32));
        let text = format!(
            "{one} device=d1 2026-11-30 device=d2\n{two}\n{two} device=d1 2026-01-01\n{one} device=d3\n"
        );
        let tokens = Tokens::parse(&text).unwrap();
        let cases = [
            (&one, "d1", "2026-11-30", None),
            (&one, "d2", "2026-11-30", None),
            (&one, "d3", "2026-12-01", None),
            (&one, "d4", "2026-11-30", Some("another device")),
            (&two, "d1", "2026-11-30", None),
            (&two, "d4", "2026-11-30", None),
        ];
        for (token, name, day, problem) in cases {
            let result = tokens.admit(token, &device(name), day.parse().unwrap());
            match problem {
                None => assert!(result.is_ok(), "{name} {day}: {result:?}"),
                Some(words) => assert!(result.unwrap_err().to_string().contains(words), "{name} {day}"),
            }
        }
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
