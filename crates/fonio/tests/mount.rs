//! Tests `fonio mount` as started by mount(8), fstab and users.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use fonio_testing::{Need, skip, skip_without};

const FONIO: &str = env!("CARGO_BIN_EXE_fonio");

/// The exit code of a script if the machine lacks something that the script needs.
const SKIPPED: i32 = 77;

#[track_caller]
fn check(output: &Output, need: Need, expected: &str) {
    if output.status.code() == Some(SKIPPED) {
        return skip(need, String::from_utf8_lossy(&output.stderr));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{said}");
}

/// mount(8) looks for its helpers in /sbin. The test adds the helpers to /sbin in its own mount namespace.
#[test]
fn fstab_mounts_us() {
    skip_without!(Root, Fuse);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for dir in ["source", "mounted", "other", "sbin", "work"] {
        std::fs::create_dir(folder.path().join(dir)).expect("it is empty");
    }
    let fstab = format!(
        "{0}/source {0}/mounted fuse.fonio mode=extended,noatime,nofail 0 0\n\
         {0}/source {0}/other fonio noauto,ro,nosuid 0 0\n",
        folder.path().display()
    );
    std::fs::write(folder.path().join("fstab"), fstab).expect("it is writable");
    let script = r#"
        cd "$1" && mount --make-rprivate / && mount -t tmpfs none work && mkdir work/upper work/work &&
        mount -t overlay -o lowerdir=/usr/sbin,upperdir=work/upper,workdir=work/work none sbin || exit 77
        ln -s "$2" sbin/mount.fuse.fonio && ln -s "$2" sbin/mount.fonio && mount --bind sbin /usr/sbin || exit 77
        lacks_suid() { grep " $PWD/$1 " /proc/self/mountinfo | grep -q nosuid; }
        mount -f -T fstab "$PWD/mounted" && ! test -e mounted/file && mount -a -T fstab && ! lacks_suid mounted && echo through > mounted/file && cat source/file && mount -T fstab "$1/other" &&
        lacks_suid other && cat other/file && ! { echo x > other/file; } 2>/dev/null && umount other &&
        mount -T fstab -o remount,ro mounted && ! { echo x > mounted/file; } 2>/dev/null &&
        mount -o remount,rw mounted && ! lacks_suid mounted && echo again > mounted/file && cat source/file && umount mounted && ! test -e mounted/file
    "#;
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(FONIO)
        .output()
        .expect("unshare is there");
    check(&output, Need::Namespace, "through\nthrough\nagain\n");
}

/// Debian's fusermount3 is set-user-ID root and mounts for users.
#[test]
fn a_user_mounts_with_fusermount3() {
    skip_without!(Root, Fuse, Fusermount);
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The user may be unable to read cargo's output folder, so copy the program.
    fonio_testing::copy_program(FONIO, &folder.path().join("program"));
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o1777)).expect("it is ours");
    let script = r#"
        test -w /dev/fuse || { echo "users may not open /dev/fuse" >&2; exit 77; }
        test -e /etc/mtab || { echo "fusermount3 needs /etc/mtab, which does not exist" >&2; exit 77; }
        cd "$1" || exit 1
        mkdir mine mounted && ./program mount mine mounted >&2 && echo private > mounted/file && cat mine/file &&
        mkdir mounted/sub && chmod 500 mounted/sub && ! { echo x > mounted/sub/no; } 2>/dev/null && ! test -w mounted/sub &&
        test -x mounted/sub && chmod 700 mounted/sub && rm -r mounted/sub &&
        ./program mount stats mounted | head -c 5 && fusermount3 -u mounted && ! test -e mounted/file
    "#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(folder.path()).uid(65534).gid(65534);
    let output = shell.env("XDG_RUNTIME_DIR", folder.path()).output().expect("there is a shell");
    check(&output, Need::Fusermount, "private\nmode ");
}
