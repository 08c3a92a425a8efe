use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::*;
use crate::stand_in::StandIn;

fn captured(phone: &StandIn, stop: &AtomicBool) -> Result<(Captured, Vec<u8>), AndroidError> {
    let adb = Adb::connect_by(phone.dir.path().join("adb"), None, Duration::from_secs(2))?;
    let asked = Phone::ask(&adb)?;
    assert_eq!((asked.sdk, asked.model.as_str()), (34, "Stand-in"));
    let to = phone.dir.path().join("here");
    remove_left_in(&adb, &phone.folder())?;
    let captured = capture_in(&adb, &asked, &phone.folder(), Duration::from_secs(1), &to, stop)?;
    Ok((captured, fs::read(to).expect("the trace is here")))
}

fn config() -> Vec<u8> {
    Config { duration: Duration::from_secs(1), size_max: SIZE_MAX }.bytes()
}

#[test]
fn a_trace_is_read_and_removed() {
    let phone = StandIn::new(&["short"]);
    // The file of an earlier recording that was lost.
    fs::write(phone.dir.path().join("traces/fonio-1.pftrace"), "old").expect("written");
    let (captured, trace) = captured(&phone, &AtomicBool::new(false)).expect("it is captured");
    assert_eq!(trace, config(), "perfetto receives each byte of its configuration");
    assert_eq!(captured, Captured { bytes: ByteCount(trace.len() as u64), was_stopped: false });
    assert_eq!(phone.left(), [] as [PathBuf; 0]);
}

#[test]
fn stopping_keeps_what_was_recorded() {
    let phone = StandIn::new(&[]);
    let stop = AtomicBool::new(false);
    let (captured, trace) = thread::scope(|scope| {
        let capturing = scope.spawn(|| captured(&phone, &stop));
        let until = Instant::now() + Duration::from_secs(30);
        while phone.left().is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        capturing.join().expect("it ends").expect("it is captured")
    });
    assert!(captured.was_stopped && trace == [&config()[..], b"stopped\n"].concat());
    assert_eq!(phone.left(), [] as [PathBuf; 0]);
}

#[test]
fn failures_name_their_cause() {
    for (mark, expected) in [
        ("refuse", "perfetto on the phone ended with exit code 3: traced is not running"),
        ("stall", "`adb devices -l` did not answer within 2 s"),
    ] {
        let phone = StandIn::new(&[mark]);
        let error = captured(&phone, &AtomicBool::new(false)).expect_err(mark).to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(phone.left(), [] as [PathBuf; 0]);
    }
    let error = Adb::connect_by("/nonexistent/adb".into(), None, SHORT).expect_err("no adb").to_string();
    assert!(error.contains("apt-get install --no-install-recommends adb"), "{error}");
}

/// Android's shell is mksh, Debian's is dash.
#[test]
fn the_script_ends_and_cleans_up_without_its_host() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Loss {
        /// The connection ends.
        Connection,
        /// The service manager ends the commands of adbd.
        Asked,
        /// The host says nothing more.
        Silence,
        /// adbd is killed, and the service manager ends all its commands.
        Daemon,
    }
    for shell in ["sh", "bash", "mksh"] {
        for loss in [Loss::Connection, Loss::Asked, Loss::Silence, Loss::Daemon] {
            if loss == Loss::Silence && shell == "sh" {
                // dash cannot limit the time of a read.
                continue;
            }
            let phone = StandIn::new(&[]);
            let file = format!("{}/fonio-7.pftrace", phone.folder());
            let path = format!("{}:/usr/bin:/bin", phone.dir.path().display());
            let mut command = Command::new(shell);
            command.args(["-c", &script(&config(), &file, Duration::from_secs(2))]).env("PATH", path);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
            let Ok(mut script) = command.spawn() else {
                eprintln!("{shell} is not installed, so it is not tried");
                continue;
            };
            let until = Instant::now() + Duration::from_secs(30);
            while !Path::new(&file).exists() && Instant::now() < until {
                thread::sleep(Duration::from_millis(20));
            }
            assert!(Path::new(&file).exists(), "{shell} starts the recording");
            let mut input = script.stdin.take();
            let number = script.id();
            let kill = |target: &str| {
                let kill = format!("kill -TERM {target}{number}");
                assert!(Command::new("sh").args(["-c", &kill]).status().is_ok_and(|kill| kill.success()));
            };
            match loss {
                Loss::Connection => input = None,
                Loss::Asked => kill(""),
                Loss::Silence => {}
                Loss::Daemon => {
                    drop((input.take(), script.stdout.take()));
                    kill("-");
                }
            }
            script.wait().expect("it ends");
            assert_eq!(phone.left(), [] as [PathBuf; 0], "{shell}: {loss:?}");
            drop(input);
        }
    }
}
