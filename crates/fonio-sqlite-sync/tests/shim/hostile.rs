//! Tests that files which are not caches keep their syncs and are never removed, and that other users can
//! neither cause a removal nor hold up a program.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fonio_sync_policy::{Boots, Policy, Removal, caches_below};
use fonio_testing::Need;

use crate::COMMITS;
use crate::bed::{ANOTHER_BOOT, Bed, Loaded, library};

const NOBODY: u32 = 65_534;

/// Writes a policy for all databases of a folder.
fn policy_of_folder(bed: &Bed, folder: &Path, class: &str) {
    let rule = format!("[[database]]\npath = '{}/'\nclass = {class}\n", folder.display());
    fs::write(bed.policy_file(), rule).expect("write");
}

/// Removes stale databases, as `fonio sync-policy boot` does; returns the removed files.
fn boot(bed: &Bed) -> Vec<PathBuf> {
    let policy = Policy::read(&bed.policy_file()).expect("a policy");
    let boots = Boots::read().expect("boots");
    let mut removed = Vec::new();
    for rule in policy.rules() {
        let (caches, errors) = caches_below(&policy, rule);
        assert!(errors.is_empty(), "{errors:?}");
        for cache in caches {
            if let Ok(Removal::Removed(files)) = cache.remove_stale(&boots, Duration::ZERO) {
                removed.extend(files);
            }
        }
    }
    removed.sort();
    removed
}

/// Runs a shell script as the user nobody.
fn as_nobody(script: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script]);
    command
}

fn nobody_runs(script: &str) {
    let out = as_nobody(script).output().expect("setpriv");
    assert!(out.status.success(), "{script}: {out:?}");
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the number of syncs of a file.
fn of_file(syncs: &[String], file: &Path) -> usize {
    syncs.iter().filter(|line| line.contains(&format!("{}>", file.display()))).count()
}

#[test]
fn a_plain_file_in_a_folder_of_caches_keeps_its_syncs_and_is_never_removed() {
    let Some(bed) = Bed::new() else { return };
    let source = include_str!("own_sqlite.c");
    let options = ["-l:libsqlite3.a", "-lpthread", "-ldl", "-lm"];
    let Some(program) = bed.compile("own_sqlite", source, &options) else { return };
    for mode in ["delete", "wal"] {
        let folder = bed.new_folder(mode, 0o755);
        policy_of_folder(&bed, &folder, "'cache'\ndrop-fsync = true");
        let [database, key, wal_of_key] = ["a.db", "key", "key-wal"].map(|name| folder.join(name));
        let texts = [&program, &database, &key, &wal_of_key].map(|path| path.display().to_string());
        let run = || {
            let (syncs, out) = bed.preloaded(&[&texts[0], &texts[1], mode, "20", &texts[2], &texts[3]]);
            assert!(out.status.success(), "{out:?}");
            for plain in [&key, &wal_of_key] {
                assert_eq!(of_file(&syncs, plain), 20, "{mode}: {}", plain.display());
            }
            let of_database =
                ["", "-wal", "-journal"].map(|end| of_file(&syncs, &bed.beside(&database, end)));
            of_database.iter().sum::<usize>()
        };
        // Until the header of a new database is on the disk, it is synced.
        let (first, second) = (run(), run());
        assert!((1..=6).contains(&first), "{mode}: {first} syncs");
        assert!(second <= 2, "{mode}: {second} syncs");
        let marker = bed.beside(&database, "-fonio-boot");
        assert_eq!(fs::metadata(&marker).expect("a marker").mode() & 0o777, 0o600);
        for plain in [&key, &wal_of_key] {
            assert!(!bed.beside(plain, "-fonio-boot").exists(), "{mode}");
        }
        assert_eq!(boot(&bed), Vec::<PathBuf>::new(), "{mode}: it is of this boot");
        bed.mark_as_stale(&database);
        // Not even a marker lets a plain file be removed.
        bed.mark_as_stale(&key);
        assert!(boot(&bed).contains(&database), "{mode}");
        assert!(!database.exists() && !marker.exists(), "{mode}");
        assert_eq!(fs::read_to_string(&key).expect("the key"), "key = 1\n");
        assert!(wal_of_key.exists(), "{mode}");
    }
}

#[test]
fn a_new_cache_is_synced_until_its_header_is_written() {
    let Some(bed) = Bed::new() else { return };
    for loaded in [Loaded::ByPreload, Loaded::AsExtension] {
        let database = bed.new_path();
        bed.policy(Some("class = 'cache'"), &database);
        let marker = bed.beside(&database, "-fonio-boot");
        assert_eq!(bed.said(loaded, &database, "SELECT 1"), ["1"]);
        assert!(!marker.exists(), "an empty file has no marker");
        let (first, _) = bed.complete(loaded, &database, "CREATE TABLE t (x)");
        assert!(marker.exists(), "{loaded:?}");
        assert!(first >= 4, "{first} syncs of a new database, {loaded:?}");
        let empty = bed.syncs(loaded, &database, "SELECT 1");
        let syncs = bed.syncs(loaded, &database, COMMITS) - empty;
        assert_eq!(syncs, 0, "{loaded:?}");
    }
}

#[test]
fn a_file_that_is_not_a_database_stays_when_a_program_opens_it() {
    let Some(bed) = Bed::new() else { return };
    let file = bed.new_path();
    bed.policy(Some("class = 'cache'"), &file);
    fs::write(&file, "key = 1\n".repeat(100)).expect("write");
    bed.mark_as_stale(&file);
    let script = "import sqlite3, sys\ntry:\n    sqlite3.connect(sys.argv[1]).execute('SELECT * FROM t')\n\
                  except sqlite3.DatabaseError as error:\n    print(error)";
    let Some((_, said)) = bed.python(script, &file) else { return };
    assert_eq!(said, ["file is not a database"]);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "key = 1\n".repeat(100));
}

#[test]
fn a_folder_that_others_can_change_keeps_its_databases_durable() {
    let Some(bed) = Bed::new() else { return };
    let folder = bed.new_folder("shared", 0o755);
    policy_of_folder(&bed, &folder, "'cache'");
    let database = folder.join("a.db");
    fs::copy(bed.database("wal"), &database).expect("copy");
    assert!(bed.syncs(Loaded::ByPreload, &database, COMMITS) < 5);
    for mode in [0o1777, 0o777, 0o775] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("chmod");
        let (syncs, said) = bed.complete(Loaded::ByPreload, &database, COMMITS);
        assert!(syncs >= 5, "{mode:o}: {syncs} syncs");
        let expected =
            format!("others than its owner can write to the folder {} (mode {mode:o})", folder.display());
        assert!(said.contains(&expected) && said.lines().count() == 1, "{said}");
        bed.mark_as_stale(&database);
        assert_eq!(boot(&bed), Vec::<PathBuf>::new());
        assert_eq!(bed.said(Loaded::ByPreload, &database, "SELECT count(*) > 0 FROM t"), ["1"]);
    }
    // The marker of the owner counts again as soon as only the owner can change the folder.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("chmod");
    assert_eq!(boot(&bed), [database]);
}

#[test]
fn another_user_cannot_make_root_remove_a_file() {
    let Some(bed) = Bed::new() else { return };
    if !fonio_testing::has(&[Need::Root]) {
        return;
    }
    let sticky = bed.new_folder("sticky", 0o1777);
    policy_of_folder(&bed, bed.folder(), "'cache'");
    let [database, plain] = ["a.db", "shadow"].map(|name| sticky.join(name));
    fs::copy(bed.database("wal"), &database).expect("copy");
    fs::write(&plain, "root:x").expect("write");
    let own = bed.new_folder("own", 0o755);
    std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).expect("chown");
    let (sticky_shown, own_shown) = (sticky.display(), own.display());
    let id = ANOTHER_BOOT.trim();
    nobody_runs(&format!(
        "umask 077; cd {sticky_shown} && for name in a.db shadow; do echo {id} >$name-fonio-boot; done
         cd {own_shown} && sqlite3 c.db 'CREATE TABLE t (x)' && ln -s {sticky_shown}/a.db b.db &&
         ln -s {sticky_shown} below && cp c.db d.db && ln -s {sticky_shown}/shadow d.db-wal &&
         for name in b.db c.db d.db below/a.db; do echo {id} >$name-fonio-boot; done"
    ));
    // Root made this database and this marker, but the owner of the folder can have moved them here.
    fs::copy(bed.database("wal"), own.join("r.db")).expect("copy");
    bed.mark_as_stale(&own.join("r.db"));
    assert_eq!(boot(&bed), [own.join("c.db"), own.join("d.db")]);
    assert!(database.exists() && plain.exists() && own.join("r.db").exists());
    assert!(own.join("d.db-wal").is_symlink());
    // The program of the victim opens its database, and syncs it.
    let (syncs, said) = bed.complete(Loaded::ByPreload, &database, COMMITS);
    assert!(syncs >= 5, "{syncs} syncs, {said}");
}

#[test]
fn the_lock_of_another_user_holds_up_nobody() {
    let Some(bed) = Bed::new() else { return };
    if !fonio_testing::has(&[Need::Root]) {
        return;
    }
    let folder = bed.new_folder("cache", 0o755);
    policy_of_folder(&bed, &folder, "'cache'\ndrop-fsync = true");
    let database = folder.join("a.db");
    fs::copy(bed.database("wal"), &database).expect("copy");
    let script = format!("exec flock --no-fork {} sh -c 'echo locked; exec sleep 600'", folder.display());
    let mut holder = as_nobody(&script).stdout(Stdio::piped()).spawn().expect("setpriv");
    let mut said = std::io::BufReader::new(holder.stdout.take().expect("a pipe"));
    let _holder = Running(holder);
    let mut line = String::new();
    while line.trim() != "locked" {
        line.clear();
        assert_ne!(std::io::BufRead::read_line(&mut said, &mut line).expect("read"), 0, "no lock");
    }
    // The test bed ends a program that hangs.
    let (syncs, said) = bed.complete(Loaded::ByPreload, &database, COMMITS);
    assert!(syncs < 5 && said.is_empty(), "{syncs} syncs, {said}");
    // Nobody else can open the marker, so nobody else can lock it.
    let marker = bed.beside(&database, "-fonio-boot");
    assert!(!as_nobody(&format!("exec cat {}", marker.display())).output().expect("cat").status.success());
    bed.mark_as_stale(&database);
    assert!(boot(&bed).contains(&database));
}

#[test]
fn a_policy_that_others_can_change_and_a_fifo_are_refused() {
    let Some(bed) = Bed::new() else { return };
    let database = bed.database("wal");
    let rule = format!("[[database]]\npath = '{}'\nclass = 'cache'\ndrop-fsync = true\n", database.display());
    let check = |expected: &str| {
        let (syncs, said) = bed.complete(Loaded::ByPreload, &database, COMMITS);
        assert!(syncs >= 5, "{expected}: {syncs} syncs");
        assert!(said.contains(expected) && said.lines().count() == 1, "{expected}: {said}");
        assert!(said.trim_end().ends_with("Every database stays durable."), "{said}");
        assert!(!bed.beside(&database, "-fonio-boot").exists());
    };
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    fs::write(bed.policy_file(), &rule).expect("write");
    mode(&bed.policy_file(), 0o646);
    check("others than its owner can write to it (mode 646)");
    mode(&bed.policy_file(), 0o644);
    mode(bed.folder(), 0o777);
    check("(mode 777)");
    mode(bed.folder(), 0o755);
    fs::remove_file(bed.policy_file()).expect("remove");
    let made = Command::new("mkfifo").arg(bed.policy_file()).status().expect("mkfifo");
    assert!(made.success());
    check("it is not a regular file");
    if fonio_testing::has(&[Need::Root]) {
        fs::remove_file(bed.policy_file()).expect("remove");
        fs::write(bed.policy_file(), &rule).expect("write");
        std::os::unix::fs::chown(bed.policy_file(), Some(NOBODY), None).expect("chown");
        check("belongs to the user 65534");
        std::os::unix::fs::chown(bed.policy_file(), Some(0), None).expect("chown");
        assert!(bed.syncs(Loaded::ByPreload, &database, COMMITS) < 5, "root's policy is obeyed");
    }
}

#[test]
fn a_program_of_another_user_obeys_the_policy_of_root() {
    let Some(bed) = Bed::new() else { return };
    if !fonio_testing::has(&[Need::Root]) {
        return;
    }
    // The library in the target folder may be unreadable for others.
    let copy = bed.folder().join("library.so");
    fs::copy(library(), &copy).expect("copy");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("chmod");
    let own = bed.new_folder("own", 0o755);
    std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).expect("chown");
    policy_of_folder(&bed, bed.folder(), "'cache'");
    if !as_nobody(&format!("test -r {}", copy.display())).status().expect("setpriv").success() {
        return fonio_testing::skip(Need::Root, "other users cannot reach the target folder");
    }
    let open = |database: &Path, sql: &str| {
        let (library, policy) = (copy.display(), bed.policy_file());
        let script = format!(
            "LD_PRELOAD={library} FONIO_SYNC_POLICY={} sqlite3 {} '{sql}'",
            policy.display(),
            database.display()
        );
        let out = as_nobody(&script).output().expect("setpriv");
        (
            String::from_utf8_lossy(&out.stdout).trim().to_owned(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    let database = own.join("a.db");
    assert_eq!(open(&database, "CREATE TABLE t (x)").1, "");
    let marker = bed.beside(&database, "-fonio-boot");
    assert_eq!(fs::metadata(&marker).expect("a marker").uid(), NOBODY);
    fs::write(&marker, ANOTHER_BOOT).expect("write");
    let (rows, said) = open(&database, "SELECT count(*) FROM sqlite_schema");
    assert_eq!(rows, "0");
    assert!(said.contains("removed"), "{said}");
    // A reader without the owner's rights gets a durable database, and changes nothing.
    let of_root = bed.database("wal");
    let (rows, _) = open(&of_root, "SELECT count(*) FROM t");
    assert!(rows.is_empty() || rows == "0", "{rows}");
    assert!(File::open(bed.beside(&of_root, "-fonio-boot")).is_err());
}
