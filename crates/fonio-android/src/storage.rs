//! Copies the files in which the phone's kernel describes its storage, so that they can be read as this machine's are.
//!
//! The phone prints lines: `disk PATH`, `link FROM TO`, `file PATH VALUE`, `refused PATH`, `mount LINE`,
//! `counters LINE` (`/proc/diskstats`), `boot ID`. Only files below `/sys` are copied, and the links of the copy stay inside it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fonio_core::printable;

use crate::adb::Adb;
use crate::error::AndroidError;
use crate::root::Root;

/// Prints the description. `read` is part of the shell, so it starts no process for each of some hundred files.
const SCRIPT: &str = r#"
value() {
    v=; { read -r v < $1; } 2>/dev/null
    if [ -n "$v" ]; then echo "file $1 $v"; elif [ -e $1 ] && ! cat $1 >/dev/null 2>&1; then echo "refused $1"; fi
}
ls /sys/block >/dev/null 2>&1 || echo "refused /sys/block"
for b in /sys/block/*; do
    case $b in */loop*|*/ram*|*/'*') continue ;; esac
    d=$(cd -P $b 2>/dev/null && pwd -P) || { echo "refused $b"; continue; }
    echo "disk $d"
    n=${b##*/}
    for f in dev size removable diskseq dm/name dm/uuid queue/rotational queue/scheduler queue/nr_requests \
        queue/max_sectors_kb queue/read_ahead_kb queue/logical_block_size queue/physical_block_size \
        queue/discard_granularity queue/fua queue/write_cache; do value $d/$f; done
    to=$(cd -P $d/device 2>/dev/null && pwd -P) && {
        echo "link $d/device $to"
        for f in type name vendor model queue_depth manfid date life_time pre_eol_info; do value $to/$f; done
    }
    for s in $d/slaves/*; do
        to=$(cd -P $s 2>/dev/null && pwd -P) && echo "link $s $to"
    done
    for p in $d/$n*; do
        [ -d $p ] && for f in dev partition size; do value $p/$f; done
    done
done
for h in /sys/devices/platform/*ufs* /sys/devices/platform/*/*ufs* /sys/devices/platform/*/*/*ufs* \
    /sys/bus/platform/drivers/ufshcd*/*; do
    case $h in *'*') continue ;; esac
    h=$(cd -P $h 2>/dev/null && pwd -P) || continue
    for f in health_descriptor/eol_info health_descriptor/life_time_estimation_a health_descriptor/life_time_estimation_b \
        string_descriptors/manufacturer_name; do value $h/$f; done
done
while read -r line; do echo "mount $line"; done < /proc/self/mountinfo
{ while read -r line; do echo "counters $line"; done < /proc/diskstats; } 2>/dev/null
read -r boot < /proc/sys/kernel/random/boot_id && echo "boot $boot"
true
"#;
/// The most lines that are read, and the longest path.
const LINES_MAX: usize = 20_000;
const PATH_MAX: usize = 400;

/// What the phone did not let fonio read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// The files and folders that the phone refused.
    pub refused: Vec<String>,
    /// Whether the phone showed a block device.
    pub has_disks: bool,
    /// Whether the phone showed the counters of its devices.
    pub has_counters: bool,
    /// Tells starts of the phone apart; `None` if it does not say it.
    pub boot: Option<String>,
}

/// Copies the description of the phone's storage into a folder, which then has the folders `sys` and `proc`.
///
/// # Errors
/// Fails if the phone does not answer, or if the folder cannot be written.
pub fn describe_storage(adb: &Adb, root: Option<Root>, folder: &Path) -> Result<Storage, AndroidError> {
    let script = root.map_or_else(|| SCRIPT.to_owned(), |root| root.line(SCRIPT));
    let answer = adb.shell(&script)?;
    copy(&answer.out, folder).map_err(AndroidError::file("write", folder))
}

pub(crate) fn copy(text: &str, folder: &Path) -> std::io::Result<Storage> {
    let mut storage = Storage::default();
    let (mut mounts, mut counters) = (String::new(), String::new());
    let inside = |path: &str| {
        let is_plain = path.strip_prefix("/sys/").is_some_and(|rest| {
            path.len() <= PATH_MAX && rest.split('/').all(|part| !["", ".", ".."].contains(&part))
        });
        is_plain.then(|| folder.join(&path[1..]))
    };
    for line in text.lines().take(LINES_MAX).map(|line| line.trim_end_matches('\r')) {
        let Some((word, rest)) = line.split_once(' ') else { continue };
        match word {
            "disk" => {
                let Some(disk) = inside(rest) else { continue };
                fs::create_dir_all(&disk)?;
                storage.has_disks = true;
                if let Some(name) = disk.file_name() {
                    link(&disk, &folder.join("sys/block").join(name))?;
                }
            }
            "link" => {
                let Some((from, to)) = rest.split_once(' ') else { continue };
                if let (Some(from), Some(to)) = (inside(from), inside(to)) {
                    fs::create_dir_all(&to)?;
                    link(&to, &from)?;
                }
            }
            "file" => {
                let Some((path, value)) = rest.split_once(' ') else { continue };
                let Some(file) = inside(path) else { continue };
                write(&file, value)?;
                if let (Some(owner), true) = (file.parent(), path.ends_with("/dev"))
                    && value.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
                {
                    link(owner, &folder.join("sys/dev/block").join(value))?;
                }
            }
            "refused" => storage.refused.push(printable(rest).into_owned()),
            "counters" => {
                counters.push_str(rest);
                counters.push('\n');
            }
            "boot" => storage.boot = Some(printable(rest).into_owned()),
            "mount" => {
                mounts.push_str(rest);
                mounts.push('\n');
            }
            _ => {}
        }
    }
    write(&folder.join("proc/self/mountinfo"), &mounts)?;
    write(&folder.join("proc/diskstats"), &counters)?;
    storage.has_counters = !counters.is_empty();
    Ok(storage)
}

/// Makes a link, unless there is something already: the phone may repeat itself.
fn link(to: &Path, from: &Path) -> std::io::Result<()> {
    if fs::symlink_metadata(from).is_ok() {
        return Ok(());
    }
    create_parent(from)?;
    symlink(to, from)
}

fn write(file: &Path, value: &str) -> std::io::Result<()> {
    create_parent(file)?;
    // A folder stands there already if the phone names a file and a folder alike.
    if file.is_dir() { Ok(()) } else { fs::write(file, format!("{value}\n")) }
}

fn create_parent(path: &Path) -> std::io::Result<()> {
    let parent: PathBuf = path.parent().unwrap_or(path).to_owned();
    match fs::create_dir_all(&parent) {
        // A file stands there.
        Err(_) if fs::symlink_metadata(&parent).is_ok() => Err(std::io::ErrorKind::NotADirectory.into()),
        created => created,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the script with another folder in place of `/sys`.
    #[test]
    fn the_script_describes_a_phone() {
        let dir = tempfile::tempdir().expect("a folder");
        let sys = dir.path().join("sys");
        let soc = sys.join("devices/platform/soc/1d84000.ufshc");
        let disk = soc.join("host0/block/sda");
        for (file, value) in [
            ("host0/block/sda/dev", "8:0"),
            ("host0/block/sda/size", "1000"),
            ("host0/block/sda/queue/scheduler", "[none] bfq"),
            ("host0/block/sda/sda1/dev", "8:1"),
            ("host0/block/sda/sda1/partition", "1"),
            ("host0/model", "KLUDG8V1EE"),
            ("health_descriptor/life_time_estimation_a", "0x02"),
            ("health_descriptor/eol_info", "0x01"),
        ] {
            write(&soc.join(file), value).expect("written");
        }
        let mapped = sys.join("devices/virtual/block/dm-0");
        write(&mapped.join("dev"), "252:0").expect("written");
        write(&mapped.join("dm/name"), "userdata").expect("written");
        link(&disk.join("sda1"), &mapped.join("slaves/sda1")).expect("linked");
        link(&soc.join("host0"), &disk.join("device")).expect("linked");
        link(&disk, &sys.join("block/sda")).expect("linked");
        link(&mapped, &sys.join("block/dm-0")).expect("linked");
        let script = SCRIPT.replace("/sys/", &format!("{}/", sys.display()));
        let script = script.replace(&format!("/proc{}/", sys.display()), "/proc/sys/");
        for shell in ["sh", "bash", "mksh"] {
            let Ok(output) = std::process::Command::new(shell).args(["-c", &script]).output() else {
                eprintln!("{shell} is not installed, so it is not tried");
                continue;
            };
            let said = String::from_utf8(output.stdout).expect("text");
            let said = said.replace(&sys.display().to_string(), "/sys");
            let folder = dir.path().join(format!("copy-{shell}"));
            let storage = copy(&said, &folder).expect("copied");
            assert!(storage.has_disks && storage.refused.is_empty(), "{shell}: {said}");
            assert!(storage.boot.is_some_and(|boot| boot.len() == 36), "{shell}: {said}");
            for (path, value) in [
                ("sys/block/sda/queue/scheduler", "[none] bfq"),
                ("sys/block/sda/device/model", "KLUDG8V1EE"),
                ("sys/dev/block/8:1/partition", "1"),
                ("sys/block/dm-0/slaves/sda1/dev", "8:1"),
                ("sys/dev/block/252:0/dm/name", "userdata"),
                ("sys/devices/platform/soc/1d84000.ufshc/health_descriptor/eol_info", "0x01"),
            ] {
                let found = fs::read_to_string(folder.join(path)).unwrap_or_default();
                assert_eq!(found.trim(), value, "{shell}: {path} in {said}");
            }
        }
    }

    #[test]
    fn the_copy_stays_in_its_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).expect("created");
        let folder = dir.path().join("copy");
        let text = format!(
            "disk /sys/devices/platform/soc/1d84000.ufshc/host0/block/sda\n\
             file /sys/devices/platform/soc/1d84000.ufshc/host0/block/sda/dev 8:0\n\
             file /sys/devices/platform/soc/1d84000.ufshc/health_descriptor/eol_info 0x01\n\
             refused /sys/block/dm-0ESC\n\
             disk /sys/../{0}/a\nlink /sys/x {0}\nfile /sys/x/y 1\nfile {0}/z 1\nfile /sys/a/../../../../{0}/z 1\n\
             file /sys/q/dev ../../../outside\nlink /sys/l\ndisk\n\
             mount 1 0 8:0 / /data rw - f2fs /dev/block/sda rw\n",
            outside.display()
        );
        let storage = copy(&text.replace("ESC", "\u{1b}"), &folder).expect("copied");
        assert!(storage.has_disks && storage.refused[0].starts_with("/sys/block/dm-0"), "{storage:?}");
        assert!(!storage.refused[0].contains('\u{1b}'));
        assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0);
        let value = |path: &str| fs::read_to_string(folder.join(path)).expect(path);
        assert_eq!(value("sys/block/sda/dev"), "8:0\n");
        assert_eq!(value("sys/dev/block/8:0/dev"), "8:0\n");
        assert_eq!(value("sys/devices/platform/soc/1d84000.ufshc/health_descriptor/eol_info"), "0x01\n");
        assert!(value("proc/self/mountinfo").contains("/data"));
        // A file where a folder is, and a folder where a file is, are errors, not panics.
        let _ = copy("file /sys/f 1\nfile /sys/f/g 1\ndisk /sys/h\nfile /sys/h 1\n", &folder);
    }
}
