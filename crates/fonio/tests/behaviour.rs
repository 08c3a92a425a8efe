//! Tests the behaviour of all commands: exit codes, closed pipes, the width of the output, and progress.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fonio_testing::{Need, has, skip};

use super::{Files, lines, split, text};

/// The expected exit code and the arguments of each call. None of the calls needs root privileges.
const CODES: &str = include_str!("exit_codes.txt");

#[test]
fn every_verb_has_the_exit_codes_of_the_table() {
    let files = Files::new();
    for line in lines(CODES) {
        let mut words = split(line);
        let code: i32 = words.remove(0).parse().expect("a code");
        let output = files.run(&words);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", text(&output.stderr));
        assert!(code == 0 || !output.stderr.is_empty() || !output.stdout.is_empty(), "{line} is silent");
    }
    let help = text(&files.run(&["--help"]).stdout);
    for row in ["0    success", "3    the measurement is not valid", "130  interrupted", "126  the command"] {
        assert!(help.contains(row), "{row}: {help}");
    }
}

const PRINTING: &str = include_str!("printing_calls.txt");

#[test]
fn a_closed_pipe_is_no_error() {
    let files = Files::new();
    fs::write(files.path("policy"), "").expect("a file");
    for line in lines(PRINTING) {
        let mut child = files
            .fonio(&split(line))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{line}");
    }
}

const SCREENS: &str = include_str!("screens.txt");

/// Returns the number of columns of a line. The tested texts contain no wide characters.
fn columns(line: &str) -> usize {
    line.chars().count()
}

#[test]
fn screens_keep_to_the_width_of_the_terminal() {
    let files = Files::new();
    let mut wrong = Vec::new();
    for width in [40, 60, 80, 120] {
        for line in [""].into_iter().chain(lines(SCREENS)) {
            let output =
                files.fonio(&split(line)).env("COLUMNS", width.to_string()).output().expect("it runs");
            for shown in text(&output.stdout).lines().filter(|line| columns(line) > width) {
                // A path or an address that is wider than the terminal is alone on its line.
                if shown.trim_start().contains(' ') {
                    wrong.push(format!("fonio {line}, {width} columns: {shown}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_first_finding_is_on_a_small_screen() {
    let files = Files::new();
    for (width, height) in [(40, 40), (80, 24), (60, 30)] {
        let mut report = files.fonio(&["report", "docs/sample/webbench-on-ridata"]);
        report.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        report.env("COLUMNS", width.to_string()).env("LINES", height.to_string());
        let shown = text(&report.output().expect("it runs").stdout);
        assert!(shown.lines().count() < height, "{width} × {height}:\n{shown}");
        assert!(shown.lines().any(|line| line.contains(" 1. ")), "{width} × {height}:\n{shown}");
    }
}

#[test]
fn long_work_says_that_it_goes_on() {
    let files = Files::new();
    let mut report = files.fonio(&["report", "-"]);
    let mut child =
        report.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let bytes = fs::read(files.path("trace")).expect("the trace");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(&bytes[..bytes.len() / 2]).expect("it is read");
    let mut said = String::new();
    let began = Instant::now();
    BufReader::new(child.stderr.as_mut().expect("it is piped")).read_line(&mut said).expect("a line");
    assert!(began.elapsed() > Duration::from_secs(9), "{said}");
    assert!(said.starts_with("Reading the trace: "), "{said}");
    input.write_all(&bytes[bytes.len() / 2..]).expect("it is read");
    drop(input);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

fn end(mut child: Child, signal: &str) -> Option<i32> {
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(sent.expect("kill starts").success());
    child.wait().expect("it ends").code()
}

/// Returns whether block I/O can be recorded on this machine. `said` is the output of a fonio command.
fn can_record(files: &Files) -> bool {
    if !has(&[Need::Root]) {
        return false;
    }
    let output = files.run(&["record", "-o", "first", "--", "true"]);
    if output.status.code() == Some(0) {
        return true;
    }
    skip(Need::Tracefs, text(&output.stderr));
    false
}

#[test]
fn a_recorded_command_keeps_its_code_and_its_output() {
    let files = Files::new();
    if !can_record(&files) {
        return;
    }
    for (name, content, mode) in
        [("no-first-line", "echo \"$1\"; exit 7\n", 0o755), ("not-executable", "echo\n", 0o644)]
    {
        fs::write(files.path(name), content).expect("a file");
        fs::set_permissions(files.path(name), fs::Permissions::from_mode(mode)).expect("its mode");
    }
    for (code, words) in [
        (0, &["true"][..]),
        (7, &["./no-first-line", "said"]),
        (9, &["sh", "-c", "echo said; exit 9"]),
        (137, &["sh", "-c", "kill -9 $$"]),
        (126, &["./not-executable"]),
        (127, &["no-such-program-anywhere"]),
    ] {
        let own = ["record", "--overwrite", "-o", "of-command", "--blocked", "none", "--"];
        let output = files.run(&[&own[..], words].concat());
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output.stderr));
        assert!(["", "said\n"].contains(&text(&output.stdout).as_str()), "{}", text(&output.stdout));
    }
    assert_eq!(files.run(&["record", "-o", "of-command", "--", "true"]).status.code(), Some(125));
}

#[test]
fn a_signal_decides_the_code_and_leaves_nothing() {
    let files = Files::new();
    if !can_record(&files) {
        return;
    }
    let temporary = files.path("temporary");
    for folder in ["temporary", "source", "mounted"] {
        fs::create_dir(files.path(folder)).expect("a new folder");
    }
    for (words, signal, code) in [
        ("check --for 60s", "INT", 130),
        ("check --for 60s", "TERM", 143),
        ("record --for 60s -o of-signal --overwrite", "INT", 130),
        ("record -o of-signal --overwrite", "TERM", 143),
        ("watch run --state state --run run", "TERM", 143),
        ("watch run --state state --run run", "INT", 130),
        ("storebench . --quick", "INT", 130),
        ("storebench . --quick", "TERM", 143),
        ("mount --foreground source mounted", "INT", 130),
        ("mount --foreground source mounted", "TERM", 143),
    ] {
        let mut call = files.fonio(&split(words));
        if words.starts_with("mount") && !has(&[Need::Fuse]) {
            continue;
        }
        let (reader, writer) = std::io::pipe().expect("a pipe");
        call.env("TMPDIR", &temporary).env("FONIO_LASTING_STATE", files.path("lasting"));
        call.stdout(writer.try_clone().expect("a second writer")).stderr(writer);
        let child = call.spawn().expect("fonio starts");
        // Otherwise, the pipe would have a writer after the child has ended.
        drop(call);
        let mut said = BufReader::new(reader).lines();
        let begins = |line: &str| {
            ["Recording ", "watching; ", "[1/", "Mounted at "].iter().any(|first| line.contains(first))
        };
        assert!(said.any(|line| line.is_ok_and(|line| begins(&line))), "{words} did not begin");
        std::thread::spawn(move || said.for_each(drop));
        assert_eq!(end(child, signal), Some(code), "{words}");
        let left: Vec<_> = fs::read_dir(&temporary).expect("it is there").collect();
        assert!(left.is_empty(), "{words}: {left:?}");
    }
}
