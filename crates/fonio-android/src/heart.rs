//! Tells a script on the phone that its host is still there: a line each second.
//!
//! A script that hears nothing for [`SILENCE`], or whose input ends, has lost its host. A host that was killed, a cable that
//! was unplugged, and a connection through the air that broke all look like this.

use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// Time between two lines. The recorder gives up after eight of them.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(1);
/// Time without a line after which a script counts its host as lost. With the time to end a recording, it is less than the
/// 15 s after which nothing may be left on the phone.
pub(crate) const SILENCE: Duration = Duration::from_secs(8);

/// Writes a line each second, and words in between. When this is dropped, the input of the script ends.
#[derive(Debug)]
pub(crate) struct Heart(Sender<&'static str>);

impl Heart {
    /// Starts to write to the input of a script. A thread writes, because a client that hangs must not keep the caller
    /// waiting.
    pub(crate) fn start(mut input: impl Write + Send + 'static) -> Heart {
        let (sender, words) = mpsc::channel();
        thread::spawn(move || {
            loop {
                let line: &[u8] = match words.recv_timeout(HEARTBEAT) {
                    Ok(word) => &[word, "\n"].concat().into_bytes(),
                    Err(RecvTimeoutError::Timeout) => b"\n",
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                if input.write_all(line).and_then(|()| input.flush()).is_err() {
                    return;
                }
            }
        });
        Heart(sender)
    }

    /// Says a word to the script. A script that has ended hears nothing.
    pub(crate) fn say(&self, word: &'static str) {
        let _ = self.0.send(word);
    }
}

/// Returns lines of a script. They define `listen WORD`, which reads lines until the host says this word, and fails if the
/// host is lost. Android's shell (mksh) limits the time of `read`; in a shell that cannot, only the end of the input tells
/// that the host is lost.
pub(crate) fn listener(silence: Duration) -> String {
    format!(
        "exec 3<&0\n\
         limit=; ( read -r -t 1 word </dev/null ) 2>/dev/null; [ $? = 2 ] || limit='-t {}'\n\
         listen() {{ word=; until [ \"$word\" = \"$1\" ]; do word=; read -r $limit word <&3 || return 1; done; }}\n",
        silence.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_script_hears_words_between_heartbeats() {
        for shell in ["sh", "bash", "mksh"] {
            let script = format!(
                "{}echo begins\nlisten go && echo went\nlisten never || echo lost\n",
                listener(SILENCE)
            );
            let mut command = Command::new(shell);
            command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let Ok(mut child) = command.spawn() else {
                eprintln!("{shell} is not installed, so it is not tried");
                continue;
            };
            let mut said = BufReader::new(child.stdout.take().expect("it is piped")).lines();
            let mut next = || said.next().expect("a line").expect("text");
            let heart = Heart::start(child.stdin.take().expect("it is piped"));
            assert_eq!(next(), "begins", "{shell}");
            thread::sleep(HEARTBEAT * 2);
            heart.say("go");
            assert_eq!(next(), "went", "{shell}");
            drop(heart);
            assert_eq!(next(), "lost", "{shell}");
            assert!(child.wait().expect("it ends").success(), "{shell}");
        }
    }

    #[test]
    fn a_silent_host_is_lost() {
        for shell in ["bash", "mksh"] {
            let script = format!("{}listen never || exit 7\n", listener(Duration::from_secs(1)));
            let mut command = Command::new(shell);
            let Ok(mut child) = command.args(["-c", &script]).stdin(Stdio::piped()).spawn() else {
                eprintln!("{shell} is not installed, so it is not tried");
                continue;
            };
            let input = child.stdin.take();
            let until = Instant::now() + Duration::from_secs(30);
            let status = loop {
                if let Some(status) = child.try_wait().expect("it can be asked") {
                    break status;
                }
                assert!(Instant::now() < until, "{shell} waits for a host that says nothing");
                thread::sleep(Duration::from_millis(20));
            };
            drop(input);
            assert_eq!(status.code(), Some(7), "{shell}");
        }
    }
}
