//! Tests the program `fonio-recorder`.

use assert_cmd::Command;
use assert_cmd::cargo::cargo_bin_cmd;
use fonio_testing::{Need, skip, skip_without};

fn recorder() -> Command {
    cargo_bin_cmd!("fonio-recorder")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn its_help_has_the_options_of_fonio_record() {
    let out = recorder().arg("--help").assert().success();
    let help = text(&out.get_output().stdout);
    for option in
        ["--device", "--path", "--for", "--output", "--buffer", "--spill-to", "--blocked", "--redact"]
    {
        assert!(help.contains(option), "{option}:\n{help}");
    }
    assert!(help.contains("fonio report"), "{help}");
}

#[test]
fn wrong_arguments_are_explained() {
    let out = recorder().args(["--for", "0s"]).assert().code(2);
    let said = text(&out.get_output().stderr);
    assert!(said.contains("write a time above 0"), "{said}");
    let out = recorder().args(["--redact-key", "/no/such/file", "--redact", "--for", "1s"]).assert().code(2);
    let said = text(&out.get_output().stderr);
    assert!(said.contains("/no/such/file"), "{said}");
}

#[test]
fn a_command_is_recorded() {
    skip_without!(Root);
    let dir = tempfile::tempdir().expect("a folder");
    let recording = dir.path().join("recording");
    let file = dir.path().join("file");
    let mut command = recorder();
    command.arg("-o").arg(&recording).args(["--blocked", "none", "--buffer", "16MiB", "--", "sh", "-c"]);
    command.arg(format!("head -c 100000 /dev/zero >{} && sync {0} && exit 7", file.display()));
    let out = command.output().expect("it runs");
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    if out.status.code() == Some(125) && stderr.contains("tracefs") {
        skip(Need::Tracefs, stderr);
        return;
    }
    assert_eq!(out.status.code(), Some(7), "{stdout}{stderr}");
    assert!(stderr.contains("the command ended with exit code 7"), "{stderr}");
    assert!(stderr.contains("Next: fonio report"), "{stderr}");
    assert_eq!(stdout, "", "fonio wrote to the command's standard output");
    assert!(recording.join("requests.parquet").exists());
}

/// A recorder that does not end in time starts itself again, without its open files.
#[test]
fn instances_of_the_same_process_are_removed_after_exec() {
    skip_without!(Root, Tracefs, Namespace);
    let mut unshare = std::process::Command::new("unshare");
    unshare.args(["-m", "sh", "-c", include_str!("clean_up.sh"), "sh"]);
    let out = unshare.arg(assert_cmd::cargo::cargo_bin!("fonio-recorder")).output().expect("unshare runs");
    let said = text(&out.stdout) + &text(&out.stderr);
    assert!(said.contains("the host was lost"), "{said}");
    let instance = |what: &str| said.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_default();
    let (kept, removed) = (instance("kept "), instance("removed "));
    assert!(kept.starts_with("fonio-") && removed.starts_with("fonio-"), "{said}");
    let left: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("left ")).collect();
    assert!(left.contains(&kept) && !left.contains(&removed), "{said}");
}
