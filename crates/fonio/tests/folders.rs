//! Tests `fonio fix` on folders, with real mounts. Each test is a script in its own mount namespace, with an
//! empty `/run` and `/var/lib`, isolated from the machine.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::{Command, Output};

use fonio_testing::{Need, has, skip};

/// A shell command that creates files of each kind in the folder that the tests put into memory or move.
const FILL: &str =
    "mkdir -p $LOG/sub && echo one >$LOG/app.log && echo two >$LOG/sub/deep && ln $LOG/app.log $LOG/hard &&
    ln -s app.log $LOG/soft && chmod 640 $LOG/app.log && chown 7:8 $LOG/sub && truncate -s 1M $LOG/sparse &&
    setfattr -n trusted.note -v x $LOG/app.log 2>/dev/null || true";

/// A shell function that prints everything that a folder contains.
const TELL: &str = "tell() { (cd $1 && find . -type d -printf '%P %y %m %U:%G %T@\\n' | sort && \
    find . ! -type d -printf '%P %y %m %U:%G %n %s %T@ %l\\n' | sort && \
    find . -type f | sort | xargs -r sha1sum); }";

/// Runs a shell script that stops at the first failing command. Returns `None` if the machine does not
/// support mount namespaces.
#[track_caller]
fn run(script: &str) -> Option<Output> {
    if !has(&[Need::Root]) {
        return None;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let prepare = "mount -t tmpfs none /run && mount -t tmpfs none /var/lib && echo ready >&2";
    let whole = format!("set -e; {prepare}; mkdir $LOG; {TELL}; {FILL}; {script}");
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

/// Runs a shell script that must succeed and print each of the `expected` texts. Returns the script's output.
#[track_caller]
fn says(script: &str, expected: &[&str]) -> Option<String> {
    let said = text(script)?;
    for expected in expected {
        assert!(said.contains(expected), "{expected}:\n{said}");
    }
    Some(said)
}

#[test]
fn a_folder_is_in_memory_and_comes_back_with_what_was_written() {
    says(
        "tell $LOG >$DIR/before
        $FONIO fix apply folder-in-ram=8MiB $LOG --dry-run
        tell $LOG | cmp - $DIR/before
        $FONIO fix apply folder-in-ram=8MiB $LOG
        tell $LOG | cmp - $DIR/before
        findmnt -n -o FSTYPE,SOURCE $LOG
        echo three >>$LOG/app.log; rm $LOG/sub/deep; mv $LOG/sub $LOG/moved; echo new >$LOG/moved/new
        ! $FONIO fix apply folder-in-ram=8MiB $LOG
        $FONIO fix apply folder-in-ram=16MiB $LOG
        $FONIO fix | sed -n '1,/^$/p'
        tell $LOG >$DIR/during
        $FONIO folder write-out $LOG
        $FONIO folder write-out $LOG
        $FONIO fix undo --dry-run
        $FONIO fix undo
        tell $LOG | cmp - $DIR/during
        ! findmnt $LOG
        $FONIO folder write-out $LOG
        ! test -e /run/fonio/settings.json
        echo all is back",
        &[
            "none -> 8MiB",
            "fonio-folder-in-ram\n",
            "this value is already in force",
            "8MiB -> 16MiB",
            "(before: none)",
            ", 2 removed",
            " 0 files and folders changed",
            "16MiB -> none",
            "is not in memory: nothing to write out",
            "systemd does not run here, so nothing writes the folder out",
            "all is back",
        ],
    );
}

#[test]
fn programs_that_use_the_folder_are_named_and_lose_nothing() {
    says(
        "sleep 1000 3>>$LOG/app.log & WRITER=$!; sleep 0.3
        ! $FONIO fix apply folder-in-ram=8MiB $LOG
        ! findmnt $LOG
        $FONIO fix apply folder-in-ram=8MiB $LOG --force
        kill $WRITER; wait $WRITER || true
        sleep 1000 3>>$LOG/new.log & WRITER=$!; sleep 0.3
        echo kept >>$LOG/new.log
        ! $FONIO fix undo
        findmnt -n -o OPTIONS $LOG
        echo writable >>$LOG/new.log
        kill $WRITER; wait $WRITER || true
        (cd $LOG; exec sleep 1000) & READER=$!; sleep 0.3
        ! $FONIO fix undo
        kill $READER; wait $READER || true
        $FONIO fix undo
        cat $LOG/new.log",
        &[
            "programs have files in this folder open for writing",
            "app.log). Stop these programs first (end these programs)",
            "These programs still use the old files",
            "new.log). First end these programs",
            "log). First end these programs",
            "8MiB -> none",
            "kept\nwritable\n",
        ],
    );
}

#[test]
fn folders_that_cannot_be_in_memory_are_refused_with_the_reason() {
    says(
        "refused() { ! $FONIO fix \"$@\"; }
        refused apply folder-in-ram /etc
        refused apply folder-in-ram /var
        refused apply folder-in-ram
        refused apply folder-in-ram=100 $LOG
        refused apply folder-in-ram $LOG --keep
        ! findmnt $LOG
        head -c 3M /dev/urandom >$LOG/large
        refused apply folder-in-ram=2MiB $LOG
        refused apply folder-in-ram=64GiB $LOG
        ln $LOG/large $DIR/outside
        refused apply folder-in-ram $LOG
        rm $DIR/outside $LOG/large
        mkdir $LOG/mnt; mount -t tmpfs none $LOG/mnt
        refused apply folder-in-ram $LOG
        refused apply folder-in-ram $LOG/mnt
        umount $LOG/mnt
        ! test -e /run/fonio/settings.json",
        &[
            "on /etc: the system starts from this folder",
            "is in this folder: name a folder below it",
            "such as `fonio fix apply folder-in-ram /var/log`",
            "write a multiple of 1MiB",
            "a systemd unit is needed, but systemd does not run here",
            "which is more than 2MiB",
            "of memory, but only",
            "a hard link outside the folder",
            "/mnt is mounted in this folder",
            "it is already a mount point",
        ],
    );
}

/// At any moment of a write-out, each file on the disk is complete, in either its old or its new version. The
/// next write-out writes the remaining files.
#[test]
fn a_write_out_that_is_killed_leaves_each_file_whole() {
    says(
        "for n in $(seq 40); do head -c 300000 /dev/zero | tr '\\0' o >$LOG/file$n; done
        $FONIO fix apply folder-in-ram=64MiB $LOG
        mkdir /run/below; mount --bind $DIR /run/below
        whole() { for n in $(seq 40); do tr -s o1-8 <$1/file$n; test $(stat -c %s $1/file$n) = 300000; done; }
        for round in 1 2 3 4 5 6 7 8; do
            for n in $(seq 40); do head -c 300000 /dev/zero | tr '\\0' $round >$LOG/file$n; done
            $FONIO folder write-out $LOG >/dev/null & OUT=$!
            sleep 0.0$round; kill -9 $OUT 2>/dev/null || true; wait $OUT 2>/dev/null || true
            found=$(whole /run/below/log)
            echo \"round $round: $found\"
            test ${#found} = 40
        done
        $FONIO folder write-out $LOG >/dev/null
        tell $LOG >$DIR/memory; tell /run/below/log | cmp - $DIR/memory
        ! ls -A /run/below/log | grep fonio
        umount /run/below",
        &["round 8"],
    );
}

/// If fonio is killed at any moment while it applies or undoes the fix, `fonio fix undo` restores the folder.
#[test]
fn a_killed_process_leaves_what_can_be_undone() {
    says(
        "for n in $(seq 20); do head -c 300000 /dev/urandom >$LOG/file$n; done
        tell $LOG >$DIR/before
        for round in 1 2 3 4 5 6 7 8 9; do
            $FONIO fix apply folder-in-ram=64MiB $LOG >/dev/null & APPLY=$!
            sleep 0.0$round; kill -9 $APPLY 2>/dev/null || true; wait $APPLY 2>/dev/null || true
            tell $LOG | cmp - $DIR/before
            $FONIO fix undo >/dev/null & UNDO=$!
            sleep 0.0$round; kill -9 $UNDO 2>/dev/null || true; wait $UNDO 2>/dev/null || true
            tell $LOG | cmp - $DIR/before
            if test -e /run/fonio/settings.json; then $FONIO fix undo; fi
            tell $LOG | cmp - $DIR/before
            ! findmnt $LOG
            ! test -e /run/fonio/settings.json
        done
        echo each time",
        &["each time"],
    );
}

/// Shell commands that mount a new ext4 file system at `$CARD`, and make `/etc` writable.
const CARD: &str = "CARD=${CARD:-/run/card}; mkdir $CARD; truncate -s 32M $DIR/image; mkfs.ext4 -q -F $DIR/image; mount -o loop $DIR/image $CARD;
    mkdir /run/etc; cp -a /etc/. /run/etc; mount --bind /run/etc /etc; touch /etc/fstab; cp /etc/fstab $DIR/fstab;
    trap 'umount -q $LOG || true; umount $CARD' EXIT";

#[test]
fn a_folder_moves_to_another_device_and_back() {
    if !has(&[Need::Root, Need::Loop, Need::Mkfs]) {
        return;
    }
    let script = "mkdir $CARD/log $CARD/full; touch $CARD/full/file
        tell $LOG >$DIR/before
        ! $FONIO fix apply folder-on $LOG
        ! $FONIO fix apply folder-on=log $LOG
        ! $FONIO fix apply folder-on=$CARD/none $LOG
        ! $FONIO fix apply folder-on=$CARD/full $LOG
        ! $FONIO fix apply folder-on=$DIR $LOG
        $FONIO fix apply folder-on=$CARD/log $LOG --dry-run
        cmp /etc/fstab $DIR/fstab
        $FONIO fix apply folder-on=$CARD/log $LOG
        tell $LOG | cmp - $DIR/before
        tail -n 1 /etc/fstab
        echo three >>$LOG/app.log; rm $LOG/sub/deep; echo new >$LOG/new
        tell $LOG >$DIR/during
        sleep 1000 3>>$LOG/new & WRITER=$!; sleep 0.3
        ! $FONIO fix undo
        kill $WRITER; wait $WRITER || true
        umount $LOG
        ! $FONIO fix undo
        mount $LOG
        $FONIO fix undo --dry-run
        $FONIO fix undo
        tell $LOG | cmp - $DIR/during
        ! findmnt $LOG
        test -z \"$(ls -A $CARD/log)\"
        cmp /etc/fstab $DIR/fstab
        ! ls /etc/fstab.* /var/lib/fonio
        for round in 1 2 3 4 5 6; do
            $FONIO fix apply folder-on=$CARD/log $LOG >/dev/null & APPLY=$!
            sleep 0.0$round; kill -9 $APPLY 2>/dev/null || true; wait $APPLY 2>/dev/null || true
            tell $LOG | cmp - $DIR/during
            $FONIO fix undo >/dev/null & UNDO=$!
            sleep 0.0$round; kill -9 $UNDO 2>/dev/null || true; wait $UNDO 2>/dev/null || true
            $FONIO fix undo || true
            tell $LOG | cmp - $DIR/during
            ! findmnt $LOG
            test -z \"$(ls -A $CARD/log)\"
            cmp /etc/fstab $DIR/fstab
        done
        echo all is back";
    let expected = [
        "name the folder on the other device, such as folder-on=/mnt/ssd/log",
        "write the absolute path of a folder",
        "create it first: mkdir -p /run/card/none",
        "/run/card/full is not empty",
        "none -> bound",
        "/etc/fstab:\n  /run/card/log ",
        "none bind,nofail,x-systemd.requires-mounts-for=/run/card/log",
        "/new). First end these programs",
        "which is not mounted on the folder now: run `mount --bind /run/card/log",
        "Copying the changes back takes at most",
        "all is back",
    ];
    says(&format!("{CARD}; {script}"), &expected);
}

#[test]
fn a_folder_gets_a_write_buffer() {
    if !has(&[Need::Root, Need::Fuse]) {
        return;
    }
    let script = "tell $LOG | grep -v trusted >$DIR/before
        $FONIO fix apply bfuse $LOG --dry-run
        $FONIO fix apply bfuse $LOG
        findmnt -n -o FSTYPE $LOG
        echo three >>$LOG/app.log; rm $LOG/sub/deep; echo new >$LOG/new
        sleep 1000 3>>$LOG/new & WRITER=$!; sleep 0.3
        ! $FONIO fix undo
        kill $WRITER; wait $WRITER || true
        ! $FONIO fix apply bfuse $LOG
        ! $FONIO fix apply bfuse $LOG --keep
        $FONIO fix undo bfuse
        ! findmnt $LOG
        cat $LOG/app.log $LOG/new
        rm $LOG/new
        ! test -e /run/fonio/settings.json
        echo all is back";
    let expected = [
        "none -> mounted",
        "fuse.fonio",
        "/new). First end these programs",
        "this value is already in force",
        "mounted -> none",
        "one\nthree\nnew\n",
        "all is back",
    ];
    let Some(said) = says(script, &expected) else { return };
    assert!(!said.contains("still use the old files"), "{said}");
}

/// All writes to the folder go to one image file on the same device, and undo keeps the written data.
#[test]
fn a_folder_gets_a_range_of_its_device() {
    if !has(&[Need::Root, Need::Loop, Need::Mkfs]) {
        return;
    }
    let script = "HOT=$CARD/app; IMAGES=$CARD/.fonio-hot-range; cp -a $LOG $HOT
        trap 'umount -q $HOT || true; umount $CARD' EXIT
        tell $HOT >$DIR/before
        refused() { ! $FONIO fix \"$@\"; }
        refused apply hot-range $HOT
        refused apply hot-range=4MiB $HOT
        refused apply hot-range=64MiB $HOT
        refused apply hot-range=12MiB $CARD
        refused apply hot-range=12MiB /run/etc
        head -c 9M /dev/urandom >$HOT/large
        refused apply hot-range=12MiB $HOT
        rm $HOT/large; tell $HOT >$DIR/before
        sleep 1000 3>>$HOT/app.log & WRITER=$!; sleep 0.3
        refused apply hot-range=12MiB $HOT
        kill $WRITER; wait $WRITER || true
        chmod o+w $CARD
        refused apply hot-range=12MiB $HOT
        chmod o-w $CARD
        $FONIO fix apply hot-range=12MiB $HOT --dry-run
        ! test -e $IMAGES; cmp /etc/fstab $DIR/fstab
        $FONIO fix apply hot-range=12MiB $HOT
        tell $HOT | cmp - $DIR/before
        findmnt -n -o FSTYPE,SOURCE $HOT; losetup -n -O AUTOCLEAR,DIO,BACK-FILE $(findmnt -n -o SOURCE $HOT)
        stat -c 'image %b of %B, mode %a' $IMAGES/*
        tail -n 1 /etc/fstab; findmnt --verify 2>&1 | grep -A1 app || true
        $FONIO fix | sed -n '1,/^$/p'
        refused apply hot-range=16MiB $HOT
        # The image neither moves nor has parts that are written for the first time.
        filefrag -v $IMAGES/* >$DIR/place
        for at in 7 3 9 1; do dd if=/dev/urandom of=$HOT/spread bs=64k count=1 seek=$at conv=notrunc,fsync status=none; done
        rm $HOT/spread; sync
        filefrag -v $IMAGES/* | cmp - $DIR/place
        echo three >>$HOT/app.log; rm $HOT/sub/deep; mv $HOT/sub $HOT/moved; echo new >$HOT/moved/new
        tell $HOT >$DIR/during
        umount $HOT
        refused undo
        refused apply hot-range=12MiB $HOT
        mount $HOT
        tell $HOT | cmp - $DIR/during
        sleep 1000 3>>$HOT/app.log & WRITER=$!; sleep 0.3
        refused undo
        kill $WRITER; wait $WRITER || true
        $FONIO fix undo --dry-run
        $FONIO fix undo
        tell $HOT | cmp - $DIR/during
        ! findmnt $HOT; ! test -e $IMAGES; cmp /etc/fstab $DIR/fstab
        ! test -e /run/fonio/settings.json; ! losetup -n -O BACK-FILE | grep hot-range
        echo all is back";
    let expected = [
        "write the size of the range, such as hot-range=16MiB: `fonio bench address-range FOLDER` measures",
        "use at least 10MiB",
        "free, but the image needs 64MiB, because the folder keeps its space",
        "it is already a mount point",
        "the system starts from this folder",
        "which needs a range of at least",
        "programs have files in this folder open for writing",
        "users other than root can write to ",
        "none -> 12MiB",
        "ext4   /dev/loop",
        "image 24576 of 512, mode 600",
        "/card/app ext4 loop,nofail,X-fstrim.notrim",
        "the range already has another size",
        "which is not mounted on the folder now: run `mount -o loop ",
        "app.log). First end these programs",
        "Copying the changes back takes at most",
        "12MiB -> none",
        "all is back",
    ];
    says(&format!("CARD=$DIR/card; {CARD}; {script}"), &expected);
}

/// If fonio is killed at any moment while it applies or undoes the fix, the folder keeps its contents, and no
/// loop device remains.
#[test]
fn a_killed_process_loses_nothing_of_a_range() {
    if !has(&[Need::Root, Need::Loop, Need::Mkfs]) {
        return;
    }
    let script = "HOT=$CARD/app; mkdir $HOT
        trap 'umount -q $HOT || true; umount $CARD' EXIT
        for n in $(seq 20); do head -c 60000 /dev/urandom >$HOT/file$n; done
        tell $HOT >$DIR/before
        for round in $(seq 16); do
            timeout -s KILL 0.$(printf %02d $((round * 3))) $FONIO fix apply hot-range=10MiB $HOT >/dev/null || true
            tell $HOT | cmp - $DIR/before
            findmnt $HOT >/dev/null && echo has it || echo has it not
            echo $round >$HOT/number; tell $HOT >$DIR/before
            timeout -s KILL 0.$(printf %02d $((round * 2))) $FONIO fix undo >/dev/null || true
            tell $HOT | cmp - $DIR/before
            if test -e /run/fonio/settings.json || test -e /var/lib/fonio; then $FONIO fix undo >/dev/null || true; fi
            tell $HOT | cmp - $DIR/before
            ! findmnt $HOT; ! test -e $CARD/.fonio-hot-range; cmp /etc/fstab $DIR/fstab
            ! losetup -n -O BACK-FILE | grep hot-range
        done
        echo each time";
    let Some(said) = text(&format!("CARD=$DIR/card; {CARD}; {script}")) else { return };
    assert!(said.contains("each time") && said.contains("has it not"), "{said}");
}

/// Syncing a file in the folder makes the file durable: the sync also flushes the device with the image.
#[test]
fn a_sync_in_a_range_flushes_the_device_below() {
    if !has(&[Need::Root, Need::Loop, Need::Mkfs]) {
        return;
    }
    let script = "HOT=$CARD/app; mkdir $HOT
        trap 'umount -q $HOT || true; umount $CARD' EXIT
        BELOW=$(basename $(findmnt -n -o SOURCE $CARD))
        flushes() { awk '{ print $16 }' /sys/block/$BELOW/stat; }
        $FONIO fix apply hot-range=10MiB $HOT
        sync; sleep 0.2; BEFORE=$(flushes)
        for n in 1 2 3 4; do dd if=/dev/zero of=$HOT/file bs=4k count=1 conv=notrunc,fsync status=none; done
        AFTER=$(flushes)
        echo \"flushes: $BEFORE, then $AFTER\"
        test $((AFTER - BEFORE)) -ge 4
        $FONIO fix undo
        echo flushed";
    says(&format!("CARD=$DIR/card; {CARD}; {script}"), &["flushed"]);
}
