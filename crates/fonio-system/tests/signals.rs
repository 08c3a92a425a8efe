//! Tests the effect of signals on a process before, during and after listening.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::Ordering;

use fonio_system::signals::{ENDING, Listener, Signal, exit_code, wake_on, watch};
use signal_hook::low_level::raise;

/// The helper process of the tests below. An environment variable selects what the process does.
#[test]
fn as_a_process() {
    let Ok(part) = std::env::var("FONIO_TEST_PART") else { return };
    // `raise` sends the signal to this thread. So the handler has already run when `raise` returns.
    let send = |signal: Signal| raise(signal.as_raw()).expect("it is sent");
    let listen = || Listener::begin(&[Signal::INT, Signal::TERM]).expect("it listens");
    match part.as_str() {
        "listen once" => {
            let listener = listen();
            send(Signal::INT);
            assert_eq!(listener.count(Signal::INT), 1);
            drop(listener);
        }
        "listen, then not" => {
            drop(listen());
            send(Signal::INT);
        }
        "listen again" => {
            drop(listen());
            let listener = listen();
            send(Signal::TERM);
            assert_eq!(listener.count(Signal::TERM), 1);
        }
        "one of two still listens" => {
            let first = listen();
            drop(listen());
            send(Signal::TERM);
            assert_eq!(first.count(Signal::TERM), 1);
        }
        "watch, listen, then not" => {
            let stop = watch(&ENDING).expect("it watches");
            let listener = listen();
            send(Signal::INT);
            assert_eq!((listener.count(Signal::INT), stop.load(Ordering::Relaxed)), (1, true));
            drop(listener);
            send(Signal::TERM);
            assert_eq!(exit_code(), Some(143));
        }
        "listen, watch, then not" => {
            drop(listen());
            assert_eq!(exit_code(), None);
            watch(&ENDING).expect("it watches");
            send(Signal::INT);
            assert_eq!(exit_code(), Some(130));
        }
        "wake" => {
            let mut wakes = wake_on(&ENDING).expect("it waits");
            send(Signal::HUP);
            wakes.read_exact(&mut [0]).expect("a byte was written");
        }
        other => panic!("unknown part {other:?}"),
    }
    std::process::exit(7);
}

/// Starts a helper process that does `part`, and returns its exit code and signal. With `ignores_interrupts`,
/// the process ignores SIGINT from its start.
fn play(part: &str, ignores_interrupts: bool) -> (Option<i32>, Option<i32>) {
    let program = std::env::current_exe().expect("the path of the test program is known");
    // Set the effect of SIGINT explicitly, because a test in a background job of a script inherits that
    // SIGINT is ignored.
    let interrupts = if ignores_interrupts { "--ignore-signal=INT" } else { "--default-signal=INT" };
    let out = Command::new("env")
        .args(["--default-signal=HUP,TERM", interrupts])
        .arg(program)
        .args(["--exact", "as_a_process"])
        .env("FONIO_TEST_PART", part)
        .output()
        .expect("env of coreutils starts");
    (out.status.code(), out.status.signal())
}

#[test]
fn a_signal_ends_the_process_only_while_nothing_listens() {
    for part in [
        "listen once",
        "listen again",
        "one of two still listens",
        "watch, listen, then not",
        "listen, watch, then not",
        "wake",
    ] {
        assert_eq!(play(part, false), (Some(7), None), "{part}");
    }
    assert_eq!(play("listen, then not", false), (None, Some(Signal::INT.as_raw())));
}

#[test]
fn a_signal_that_was_ignored_from_the_start_is_heard_and_then_ignored_again() {
    for part in ["listen once", "listen, then not", "watch, listen, then not"] {
        assert_eq!(play(part, true), (Some(7), None), "{part}");
    }
}
