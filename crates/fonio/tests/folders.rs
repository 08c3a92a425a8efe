//! Tests `fonio fix` on folders, with real mounts. Each test is a script in its own mount namespace, with an
//! empty `/run` and `/var/lib`, isolated from the machine.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Output};

use fonio_testing::{Need, has, skip, skip_without};

/// A shell command that creates files of each kind in the folder that the tests put into memory or move.
const FILL: &str =
    "mkdir -p $LOG/sub && echo one >$LOG/app.log && echo two >$LOG/sub/deep && ln $LOG/app.log $LOG/hard &&
    ln -s app.log $LOG/soft && chmod 640 $LOG/app.log && chown 7:8 $LOG/sub && truncate -s 1M $LOG/sparse &&
    setfattr -n trusted.note -v x $LOG/app.log 2>/dev/null || true";

/// A shell function that prints everything that a folder contains.
const TELL: &str = "tell() { (cd $1 && find . -type d -printf '%P %y %m %U:%G %T@\\n' | sort && \
    find . ! -type d -printf '%P %y %m %U:%G %n %s %T@ %l\\n' | sort && \
    find . -type f | sort | xargs -r sha1sum); }";

/// A shell function that ends the script if a command succeeds. (With `set -e`, a command after `!` never ends it.)
const FAILS: &str = "fails() { if \"$@\"; then echo \"this must fail: $*\" >&2; exit 1; fi; }";

/// Runs a shell script that stops at the first failing command. Returns `None` if the machine does not
/// support mount namespaces.
#[track_caller]
fn run(script: &str) -> Option<Output> {
    if !has(&[Need::Root]) {
        return None;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let prepare = "mount -t tmpfs none /run && mount -t tmpfs none /var/lib && echo ready >&2";
    let whole = format!("set -e; {prepare}; mkdir $LOG; {TELL}; {FAILS}; {FILL}; {script}");
    let out = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--", "bash", "-c", &whole])
        .env("FONIO", assert_cmd::cargo::cargo_bin!("fonio"))
        .env("DIR", dir.path())
        .env("LOG", dir.path().join("log"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    if !said.contains("ready") {
        skip(Need::Namespace, said);
        return None;
    }
    Some(out)
}

#[track_caller]
fn text(script: &str) -> Option<String> {
    let out = run(script)?;
    let [said, errors] = [&out.stdout, &out.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(out.status.success(), "{said}\n{errors}");
    Some(said + &errors)
}

/// Runs a shell script after the commands `before`. The script must succeed, and print the texts of its lines
/// `#= TEXT`. Returns the script's output.
#[track_caller]
fn says(before: &str, script: &str) -> Option<String> {
    let said = text(&format!("{before}{script}"))?;
    for expected in script.lines().filter_map(|line| line.strip_prefix("#= ")) {
        assert!(said.contains(&expected.replace("\\n", "\n")), "{expected}:\n{said}");
    }
    Some(said)
}

#[test]
fn a_folder_is_in_memory_and_comes_back_with_what_was_written() {
    says("", include_str!("folders/in_ram.sh"));
}

#[test]
fn programs_that_use_the_folder_are_named_and_lose_nothing() {
    says("", include_str!("folders/in_use.sh"));
}

#[test]
fn folders_that_cannot_be_in_memory_are_refused_with_the_reason() {
    says("", include_str!("folders/refused.sh"));
}

/// At any moment of a write-out, each file on the disk is complete, in either its old or its new version. The
/// next write-out writes the remaining files.
#[test]
fn a_write_out_that_is_killed_leaves_each_file_whole() {
    says("", include_str!("folders/killed_write_out.sh"));
}

/// If fonio is killed at any moment while it applies or undoes the fix, `fonio fix undo` restores the folder.
#[test]
fn a_killed_process_leaves_what_can_be_undone() {
    says("", include_str!("folders/killed_in_ram.sh"));
}

/// Shell commands that mount a new ext4 file system at `$CARD`, and make `/etc` writable.
const CARD: &str = "CARD=${CARD:-/run/card}; mkdir $CARD; truncate -s 32M $DIR/image; mkfs.ext4 -q -F $DIR/image; mount -o loop $DIR/image $CARD;
    mkdir /run/etc; cp -a /etc/. /run/etc; mount --bind /run/etc /etc; touch /etc/fstab; cp /etc/fstab $DIR/fstab;
    trap 'umount -q $LOG || true; umount $CARD' EXIT";

#[test]
fn a_folder_moves_to_another_device_and_back() {
    skip_without!(Root, Loop, Mkfs);
    let script = include_str!("folders/on_device.sh");
    says(&format!("{CARD}; "), script);
}

#[test]
fn a_folder_gets_a_write_buffer() {
    skip_without!(Root, Fuse);
    let script = include_str!("folders/buffer.sh");
    let Some(said) = says("", script) else { return };
    assert!(!said.contains("still use the old files"), "{said}");
}

/// All writes to the folder go to one image file on the same device, and undo keeps the written data.
#[test]
fn a_folder_gets_a_range_of_its_device() {
    skip_without!(Root, Loop, Mkfs);
    let script = include_str!("folders/range.sh");
    says(&format!("CARD=$DIR/card; {CARD}; "), script);
}

/// If fonio is killed at any moment while it applies or undoes the fix, the folder keeps its contents, and no
/// loop device remains.
#[test]
fn a_killed_process_loses_nothing_of_a_range() {
    skip_without!(Root, Loop, Mkfs);
    let script = include_str!("folders/killed_range.sh");
    let Some(said) = text(&format!("CARD=$DIR/card; {CARD}; {script}")) else { return };
    assert!(said.contains("each time") && said.contains("has it not"), "{said}");
}

/// Syncing a file in the folder makes the file durable: the sync also flushes the device with the image.
#[test]
fn a_sync_in_a_range_flushes_the_device_below() {
    skip_without!(Root, Loop, Mkfs);
    let script = include_str!("folders/range_sync.sh");
    says(&format!("CARD=$DIR/card; {CARD}; "), script);
}
