//! Exchanges JSON messages, one per line, with QEMU (its machine protocol, QMP) and with the agent in a
//! guest.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::LabError;
use crate::machine::POLL;

/// First byte of the agent's answer to `guest-sync-delimited`; this byte never occurs in JSON.
const DELIMITER: u8 = 0xff;

/// Time limit of a request without a check.
const TELL_WITHIN: Duration = Duration::from_secs(60);

/// Number of checks whether QEMU has ended, after QEMU closed the connection.
const GONE_POLLS: u32 = 100;

/// A connection to QEMU or to the guest's agent.
#[derive(Debug)]
pub(crate) struct Talk {
    /// The name of the other program, for error messages.
    with: &'static str,
    stream: UnixStream,
    /// Received bytes that have not been parsed yet.
    rest: Vec<u8>,
}

/// A check that is called repeatedly while waiting for a reply. An error from the check ends the wait.
pub(crate) type Check<'a> = &'a mut dyn FnMut() -> Result<(), LabError>;

impl Talk {
    pub(crate) fn new(with: &'static str, stream: UnixStream) -> Result<Talk, LabError> {
        // With these limits, the checks also run while a guest neither writes nor reads.
        stream.set_read_timeout(Some(POLL)).map_err(LabError::system("talk to", with))?;
        stream.set_write_timeout(Some(POLL)).map_err(LabError::system("talk to", with))?;
        Ok(Talk { with, stream, rest: Vec::new() })
    }

    pub(crate) fn ask(
        &mut self,
        request: &str,
        arguments: &Value,
        check: Check<'_>,
    ) -> Result<Value, LabError> {
        self.send(&json!({ "execute": request, "arguments": arguments }).to_string().into_bytes(), check)?;
        loop {
            let answer = self.receive(check)?;
            if let Some(answer) = answer.get("return") {
                return Ok(answer.clone());
            }
            if let Some(error) = answer.get("error") {
                let reason = error["desc"].as_str().map_or_else(|| error.to_string(), str::to_owned);
                return Err(LabError::refused(self.with, request, reason));
            }
            // Skip QEMU's greeting and its events.
        }
    }

    /// Sends a request that has no reply on success.
    pub(crate) fn tell(&mut self, request: &str, arguments: &Value) -> Result<(), LabError> {
        let began = Instant::now();
        let with = self.with;
        self.send(
            &json!({ "execute": request, "arguments": arguments }).to_string().into_bytes(),
            &mut || match began.elapsed() {
                elapsed if elapsed < TELL_WITHIN => Ok(()),
                _ => Err(LabError::system("write to", with)(ErrorKind::TimedOut.into())),
            },
        )
    }

    /// Asks the agent for a response and drops everything that the agent sent before the response.
    pub(crate) fn synchronise(&mut self, number: u32, check: Check<'_>) -> Result<(), LabError> {
        let ask = json!({ "execute": "guest-sync-delimited", "arguments": { "id": number } }).to_string();
        // The delimiter also makes the agent discard a message that the agent has received only in part.
        self.send(&[&[DELIMITER], ask.as_bytes()].concat(), check)?;
        loop {
            let line = self.line(check)?;
            let from = line.iter().rposition(|byte| *byte == DELIMITER).map_or(0, |at| at + 1);
            let answer = serde_json::from_slice::<Value>(&line[from..]);
            if answer.is_ok_and(|answer| answer["return"].as_u64() == Some(u64::from(number))) {
                return Ok(());
            }
        }
    }

    fn send(&mut self, message: &[u8], check: Check<'_>) -> Result<(), LabError> {
        let message = [message, b"\n"].concat();
        let mut rest = message.as_slice();
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // On a busy machine, a guest on a simulated processor takes minutes to read a request.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => check()?,
                Err(error) => {
                    if is_gone(error.kind()) {
                        // The next checks notice that QEMU has ended, and return the reason.
                        for _ in 0..GONE_POLLS {
                            check()?;
                            std::thread::sleep(POLL);
                        }
                    }
                    return Err(LabError::system("write to", self.with)(error));
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, check: Check<'_>) -> Result<Value, LabError> {
        let line = self.line(check)?;
        let not_json = |error| format!("the reply is not JSON: {error}");
        serde_json::from_slice(&line)
            .map_err(|error| LabError::refused(self.with, "a request", not_json(error)))
    }

    fn line(&mut self, check: Check<'_>) -> Result<Vec<u8>, LabError> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.rest[searched..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.rest.drain(..=searched + end).collect();
                line.pop();
                if line.iter().all(u8::is_ascii_whitespace) {
                    searched = 0;
                    continue;
                }
                return Ok(line);
            }
            searched = self.rest.len();
            let mut bytes = [0; 65536];
            match self.stream.read(&mut bytes) {
                Ok(0) => {
                    // The other side has ended or is about to end; the check notices the end.
                    check()?;
                    std::thread::sleep(POLL);
                }
                Ok(count) => self.rest.extend_from_slice(&bytes[..count]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => check()?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_gone(error.kind()) => {
                    check()?;
                    std::thread::sleep(POLL);
                }
                Err(error) => return Err(LabError::system("read from", self.with)(error)),
            }
        }
    }
}

/// Returns whether the error means that QEMU closed the connection or was killed.
fn is_gone(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a connection whose other side has sent `text`.
    fn with(text: &[u8]) -> (Talk, UnixStream) {
        let (own, mut other) = UnixStream::pair().expect("sockets");
        other.write_all(text).expect("a write");
        (Talk::new("the other side", own).expect("a conversation"), other)
    }

    fn closed() -> Result<(), LabError> {
        Err(LabError::GuestOff)
    }

    #[test]
    fn answers_among_events_and_empty_lines() {
        let text = b"{\"QMP\":{}}\n\n{\"event\":\"RESET\"}\r\n{\"return\":{\"a\":1}}\n{\"error\":{\"desc\":\"no\"}}\n";
        let (mut talk, _other) = with(text);
        assert_eq!(talk.ask("x", &json!({}), &mut closed).expect("an answer")["a"], 1);
        let error = talk.ask("y", &json!({}), &mut closed).expect_err("refused").to_string();
        assert_eq!(error, "the other side refused `y`: no");
    }

    #[test]
    fn an_agent_that_was_interrupted() {
        let (mut talk, _other) = with(b"{\"return\": {\"half\n\xff{\"return\": 6}\n\xff{\"return\": 7}\n");
        talk.synchronise(7, &mut closed).expect("an answer");
    }

    #[test]
    fn a_wait_ends_with_the_check() {
        let (own, _other) = UnixStream::pair().expect("sockets");
        let mut talk = Talk::new("the other side", own).expect("a conversation");
        assert!(matches!(talk.ask("x", &json!({}), &mut closed), Err(LabError::GuestOff)));
    }

    #[test]
    fn a_request_to_a_slow_reader_arrives_complete_while_the_checks_run() {
        let (own, mut other) = UnixStream::pair().expect("sockets");
        let mut talk = Talk::new("the other side", own).expect("a conversation");
        let text = "x".repeat(4 << 20);
        let (looked_enough, begin) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            begin.recv().expect("the checks run");
            let mut request = Vec::new();
            let mut bytes = [0; 65536];
            while !request.ends_with(b"\n") {
                let count = other.read(&mut bytes).expect("a read");
                request.extend_from_slice(&bytes[..count]);
            }
            other.write_all(b"{\"return\":{}}\n").expect("an answer");
            request.len()
        });
        let mut looked = 0;
        let mut check = || {
            looked += 1;
            if looked == 3 {
                looked_enough.send(()).expect("the reader waits");
            }
            Ok(())
        };
        talk.ask("x", &json!({ "text": text }), &mut check).expect("an answer");
        assert!(reader.join().expect("the reader") > text.len());
    }

    /// A panicking guest closes its end of the connection before the check notices that the guest has ended.
    #[test]
    fn a_request_to_a_side_that_is_gone_ends_with_the_check() {
        let (mut talk, other) = with(b"");
        drop(other);
        let mut looked = 0;
        let mut check = || {
            looked += 1;
            if looked < 3 { Ok(()) } else { Err(LabError::GuestOff) }
        };
        assert!(matches!(talk.ask("x", &json!({}), &mut check), Err(LabError::GuestOff)));
        assert!(matches!(talk.tell("x", &json!({})), Err(LabError::System { .. })));
    }
}
