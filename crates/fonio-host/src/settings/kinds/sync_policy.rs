//! Applies the sync policy to a systemd unit's SQLite databases, with a drop-in that loads fonio's library
//! into the unit's programs.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fonio_sync_policy::{Class, DEFAULT, Policy, VARIABLE};

use crate::settings::kind::*;

pub(super) struct SyncPolicy;

const FACTS: Facts = Facts {
    of: Some("sync_policy"),
    title: "the sync policy",
    held: Held::DropIn(Keys {
        // Other variables of the unit do not belong to the setting.
        only_with: LIBRARY,
        // fonio's boot unit starts before the changed unit and stops after it.
        more: &["[Unit]", "Wants=fonio-sync-policy.service", "After=fonio-sync-policy.service"],
        ..Keys::new("sync-policy", &["Environment"])
    }),
    cannot_switch: Some("the unit must be restarted for each change"),
    fixes: &[SettingFix {
        name: "sync-policy",
        changes: Group::Application,
        does: "syncs a unit's SQLite databases according to the policy in /etc/fonio/sync-policy.toml, without changing its programs: each database is durable, ordered or a cache (`docs/sync-policy.md`)",
        needs: "systemd, the policy `/etc/fonio/sync-policy.toml`, and programs that load SQLite as a library; a restart of the unit",
        loses: Loss::Content(
            "A power cut loses the transactions of one window in ordered databases, all data in caches, and nothing in durable databases.",
        ),
        source: "Kim et al. (TOS 2012)",
        trial: OF_SERVICES,
    }],
    ..Facts::OF_UNIT
};

impl Kind for SyncPolicy {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn value(&self, _wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(format!("Environment=LD_PRELOAD={} {VARIABLE}={DEFAULT}", library().display()))
    }

    fn check(&self, _wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        Ok(check(on.unit())?)
    }

    fn remains_to_do(&self, path: &Path) -> Option<String> {
        Some(systemd::restart(path))
    }
}

const LIBRARY: &str = "libfonio_sqlite_sync.so";
/// The folder in which fonio's package installs the library.
const PLACE: &str = "/usr/lib/fonio";
/// The unit that removes databases of class `cache` after an unclean shutdown.
const BOOT_UNIT: &str = "fonio-sync-policy.service";

/// Returns the path of the library that intercepts SQLite, with the place in which it was found; `None` if it is
/// neither in the folder of fonio's package nor in this program's folder.
pub fn sync_library() -> Option<PathBuf> {
    Some(library()).filter(|path| path.is_file())
}

/// Returns the path of the library: in the folder of fonio's package, or in this program's folder.
fn library() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(LIBRARY));
    let package = Path::new(PLACE).join(LIBRARY);
    match beside {
        Some(beside) if beside.exists() && !package.exists() => beside,
        _ => package,
    }
}

/// Checks that the library works in the unit's programs; the error is the reason why it does not. Does not
/// change anything.
fn check(unit: &str) -> Result<(), String> {
    check_library(&library())?;
    let policy = read_policy(Path::new(DEFAULT))?;
    let has_caches = policy.rules().iter().any(|rule| matches!(rule.class, Class::Cache { .. }));
    let property = |name| systemd::property(unit, name).map_err(|error: HostError| error.to_string());
    if has_caches && systemd::property(BOOT_UNIT, "LoadState").map_err(|error| error.to_string())? != "loaded"
    {
        return Err(format!(
            "{DEFAULT} has rules of the class cache, but the systemd unit {BOOT_UNIT}, which removes stale caches before programs start, is missing: install fonio's Debian package"
        ));
    }
    if let Some(other) = other_preload(&property("Environment")?) {
        return Err(format!(
            "the unit already sets LD_PRELOAD={other}, which the drop-in would replace: add {} to that variable yourself",
            library().display()
        ));
    }
    let start = property("ExecStart")?;
    match program_of(&start) {
        Some(program) => check_program(&program),
        None => Err("the unit starts no program of its own".to_owned()),
    }
}

fn check_library(library: &Path) -> Result<(), String> {
    let shown = library.display();
    let stat = fs::metadata(library).map_err(|error| {
        format!("the library {shown} is missing ({error}): install fonio's Debian package")
    })?;
    if shown.to_string().contains([' ', '"', '\\', '%', '$', ':']) {
        return Err(format!("the path of the library, {shown}, cannot be written into LD_PRELOAD"));
    }
    let passing = ["/tmp", "/run", "/dev", "/home"].iter().any(|dir| library.starts_with(dir));
    if passing || stat.uid() != 0 || stat.mode() & 0o022 != 0 {
        return Err(format!(
            "the unit's programs would load {shown}, but others can change or remove that file: install fonio's Debian package"
        ));
    }
    Ok(())
}

fn read_policy(path: &Path) -> Result<Policy, String> {
    let policy = Policy::read(path)
        .map_err(|error| format!("{error}; docs/sync-policy.md describes the policy's file"))?;
    if policy.rules().is_empty() {
        return Err(format!(
            "the policy {} has no rules, so every database would stay durable",
            path.display()
        ));
    }
    Ok(policy)
}

/// Returns the value of LD_PRELOAD in a unit's environment, if it is not fonio's library.
fn other_preload(environment: &str) -> Option<&str> {
    let words = environment.split_whitespace().map(|word| word.trim_matches('"'));
    words.filter_map(|word| word.strip_prefix("LD_PRELOAD=")).find(|value| !value.contains(LIBRARY))
}

/// Returns the program in the value of `ExecStart`, as `systemctl show` prints it.
fn program_of(start: &str) -> Option<PathBuf> {
    let (_, rest) = start.split_once("path=")?;
    let path = rest.split(" ;").next()?.trim();
    (!path.is_empty()).then(|| path.into())
}

/// Rejects a program that ignores LD_PRELOAD.
fn check_program(program: &Path) -> Result<(), String> {
    let shown = program.display();
    let stat = fs::metadata(program).map_err(|error| format!("{shown}: {error}"))?;
    let mut head = vec![0; 4096];
    let length = File::open(program)
        .and_then(|mut file| file.read(&mut head))
        .map_err(|error| format!("{shown}: {error}"))?;
    head.truncate(length);
    if let Some(rest) = head.strip_prefix(b"#!") {
        let line = String::from_utf8_lossy(rest.split(|byte| *byte == b'\n').next().unwrap_or_default());
        let mut words = line.split_whitespace();
        let interpreter = words.next().ok_or_else(|| format!("{shown} names no interpreter"))?;
        // A line such as `#!/usr/bin/env python3` names the interpreter as an argument.
        if interpreter.ends_with("/env") {
            return Ok(());
        }
        return check_program(Path::new(interpreter));
    }
    if stat.mode() & 0o6000 != 0 {
        return Err(format!(
            "{shown} is a set-user-ID program, so the dynamic linker loads no library into it"
        ));
    }
    let mut buffer = [0; 64];
    if rustix::fs::getxattr(program, "security.capability", &mut buffer).is_ok() {
        return Err(format!("{shown} has file capabilities, so the dynamic linker loads no library into it"));
    }
    match is_dynamic(&head) {
        Some(true) => Ok(()),
        Some(false) => Err(format!(
            "{shown} is statically linked, so no library can be loaded into it; PRAGMA journal_mode=WAL and PRAGMA synchronous=NORMAL in its code have the effect of the class ordered"
        )),
        None => Err(format!("{shown} is not a program for this machine's dynamic linker")),
    }
}

/// Returns whether the ELF header (elf(5)) names a dynamic linker; `None` if the file is not an ELF file of
/// this machine's byte order.
fn is_dynamic(head: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    let is_64 = match head.strip_prefix(b"\x7fELF")?.first()? {
        1 => false,
        2 => true,
        _ => return None,
    };
    if (head[5] == 1) != cfg!(target_endian = "little") {
        return None;
    }
    let half = |at: usize| Some(u16::from_ne_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_ne_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let (start, size, count) = if is_64 {
        let start = u64::from_ne_bytes(head.get(32..40)?.try_into().ok()?);
        (usize::try_from(start).ok()?, half(54)?, half(56)?)
    } else {
        (word(28)? as usize, half(42)?, half(44)?)
    };
    for number in 0..usize::from(count) {
        if word(start.checked_add(number * usize::from(size))?)? == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn programs_that_load_no_library_are_refused() {
        let dir = tempfile::tempdir().expect("dir");
        // This test program is dynamically linked.
        let own = std::env::current_exe().expect("path");
        assert_eq!(check_program(&own), Ok(()));
        let script = dir.path().join("script");
        fs::write(&script, format!("#! {} -x\nrest", own.display())).expect("write");
        assert_eq!(check_program(&script), Ok(()));
        let set_user_id = dir.path().join("suid");
        fs::copy(&own, &set_user_id).expect("copy");
        fs::set_permissions(&set_user_id, fs::Permissions::from_mode(0o4755)).expect("chmod");
        assert!(check_program(&set_user_id).expect_err("refused").contains("is a set-user-ID program"));
        // In a copy of this program, remove the entry that names the dynamic linker.
        let mut bytes = fs::read(&own).expect("read");
        let count_at = if bytes[4] == 2 { 56 } else { 44 };
        bytes[count_at..count_at + 2].copy_from_slice(&[0, 0]);
        let static_one = dir.path().join("static");
        fs::write(&static_one, bytes).expect("write");
        assert!(check_program(&static_one).expect_err("refused").contains("is statically linked"));
        let text = dir.path().join("text");
        fs::write(&text, "hello").expect("write");
        assert!(check_program(&text).expect_err("refused").contains("is not a program"));
    }

    #[test]
    fn what_systemd_prints_is_understood() {
        let start = "{ path=/usr/bin/app ; argv[]=/usr/bin/app --x ; ignore_errors=no ; start_time=[n/a] }";
        assert_eq!(program_of(start), Some("/usr/bin/app".into()));
        assert_eq!(program_of(""), None);
        assert_eq!(other_preload("A=b \"LD_PRELOAD=/x/jemalloc.so\""), Some("/x/jemalloc.so"));
        assert_eq!(other_preload("LD_PRELOAD=/usr/lib/fonio/libfonio_sqlite_sync.so A=b"), None);
    }

    #[test]
    fn a_policy_that_does_nothing_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("policy.toml");
        assert!(
            read_policy(&file)
                .expect_err("refused")
                .contains("docs/sync-policy.md describes the policy's file")
        );
        fs::write(&file, "").expect("write");
        assert!(read_policy(&file).expect_err("refused").contains("has no rules"));
        fs::write(&file, "[[database]]\npath = '/a'\nclass = 'fast'").expect("write");
        assert!(read_policy(&file).expect_err("refused").contains("unknown class `fast`"));
    }
}
