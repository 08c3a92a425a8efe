//! Tests what `fonio sync-policy boot` removes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use fonio_testing::{Need, has};

use super::text;

const OWNER: u32 = 12_345;
const DATABASE: &[u8] = b"SQLite format 3\0 and pages";
const ANOTHER_BOOT: &str = "00000000-0000-0000-0000-000000000000\n";

#[test]
fn boot_removes_only_stale_databases_and_waits_for_nobody() {
    if !has(&[Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let dir = fs::canonicalize(dir.path()).expect("its path");
    for (folder, mode, owner) in [("own", 0o755, OWNER), ("sticky", 0o1777, 0)] {
        fs::create_dir(dir.join(folder)).expect("a folder");
        fs::set_permissions(dir.join(folder), Permissions::from_mode(mode)).expect("permissions");
        chown(dir.join(folder), Some(owner), None).expect("an owner");
    }
    for (name, content, owner, of_marker) in [
        ("own/a.db", DATABASE, OWNER, OWNER),
        ("own/key", b"key = 1", OWNER, OWNER),
        ("own/roots.db", DATABASE, 0, OWNER),
        ("own/locked.db", DATABASE, OWNER, OWNER),
        ("sticky/b.db", DATABASE, 0, OWNER),
        ("sticky/c.db", DATABASE, 0, 0),
    ] {
        let marker = dir.join(format!("{name}-fonio-boot"));
        fs::write(dir.join(name), content).expect("a file");
        fs::write(&marker, ANOTHER_BOOT).expect("a marker");
        fs::set_permissions(&marker, Permissions::from_mode(0o600)).expect("permissions");
        chown(dir.join(name), Some(owner), None).expect("an owner");
        chown(&marker, Some(of_marker), None).expect("an owner");
    }
    let policy = dir.join("policy.toml");
    let rule = format!("[[database]]\npath = '{}/'\nclass = 'cache'\n", dir.display());
    fs::write(&policy, rule).expect("a policy");
    let boot = || {
        // The record of clean boots of this machine stays as it is. Somebody holds the locks of all folders.
        let script = r#"mount -t tmpfs none /var/lib && cd "$DIR" &&
            exec flock own flock sticky flock own/locked.db-fonio-boot timeout 60 "$FONIO" sync-policy boot --policy policy.toml"#;
        Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .env("DIR", &dir)
            .env("FONIO", env!("CARGO_BIN_EXE_fonio"))
            .output()
            .expect("unshare")
    };
    let out = boot();
    let (said, failed) = (text(&out.stdout), text(&out.stderr));
    assert!(!out.status.success(), "{said}{failed}");
    assert!(failed.contains("own/locked.db") && failed.contains("holds the lock of its marker"), "{failed}");
    let removed: Vec<&str> = said.lines().filter(|line| line.contains(": removed ")).collect();
    assert!(removed.len() == 1 && removed[0].contains("own/a.db"), "{said}");
    for (name, why) in [
        ("own/key", "is not a database of SQLite"),
        ("own/roots.db", "belongs to the user 12345, but the database belongs to the user 0"),
        ("sticky/b.db", "can write to the folder"),
        ("sticky/c.db", "can write to the folder"),
    ] {
        let line = said.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line.starts_with("Nothing removed: ") && line.contains(why), "{name}: {said}");
        assert!(dir.join(name).exists(), "{name}");
    }
    assert!(!dir.join("own/a.db").exists() && !dir.join("own/a.db-fonio-boot").exists());
    // A policy that another user can change removes nothing.
    fs::set_permissions(&policy, Permissions::from_mode(0o666)).expect("permissions");
    let out = boot();
    let failed = text(&out.stderr);
    assert!(!out.status.success() && failed.contains("can write to it (mode 666)"), "{failed}");
    fs::remove_file(&policy).expect("removed");
    assert!(Command::new("mkfifo").arg(&policy).status().expect("mkfifo").success());
    let out = boot();
    let failed = text(&out.stderr);
    assert!(!out.status.success() && failed.contains("it is not a regular file"), "{failed}");
}
