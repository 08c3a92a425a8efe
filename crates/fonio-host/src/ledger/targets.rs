//! Checks that a step names something that fonio itself makes.
//!
//! The check looks at names and numbers only. [`undo`](super::undo) then checks the object itself, for example
//! that a device is bound to the recorded file.
//!
//! | step | names that fonio makes |
//! |---|---|
//! | folder, file | next to the ledger, with the ledger's name; in a folder of the user: [`TREES`] and [`FILES`] |
//! | process | any process that started after the ledger's owner |
//! | device | fonio's own numbers; ublk devices with the owner's tag |
//! | mount | on a folder next to the ledger, or of one of fonio's own devices |
//! | setting | the scheduler of a disk, and the settings of fixes that can be tried |
//! | I/O class | any process, with a class that any user may set |
//! | control group, namespace | the owner's process id is in the name |

use std::ffi::OsStr;
use std::path::{Component, Path};

use super::{Maker, Step};
use crate::{link, numbered, ublk};

/// Names of folders that fonio makes in folders of the user. `PID` stands for the owner's process id, and a
/// final `*` for a random part.
const TREES: [&str; 6] = [
    "fonio-run-PID",
    ".fonio-layers-PID",
    ".fonio-recreate-PID",
    "fonio-replay",
    "fonio-scratch-PID-*",
    ".fonio-proof-PID-*",
];
/// Names of files that fonio makes in folders of the user. The last three are from earlier builds.
const FILES: [&str; 4] = ["fonio-replay.dat", "fonio-PID-base", "fonio-PID-cut", "fonio-PID-log"];

type Checked = Result<(), &'static str>;

pub(super) fn check(step: &Step, maker: &Maker<'_>) -> Checked {
    match step {
        Step::Directory { path } => {
            maker.makes(path, &[], "fonio makes such folders only next to the ledger")
        }
        Step::Tree { path } => maker.makes(path, &TREES, "the name is not one of fonio's folders"),
        Step::File { path } => maker.makes(path, &FILES, "the name is not one of fonio's files"),
        Step::Socket { path } => so(is_plain(path), "the path is not absolute"),
        Step::Process { id, .. } => so(
            id.started_ticks >= maker.owner.started_ticks && id.pid > 1 && *id != maker.owner,
            "the process started before the owner of the ledger",
        ),
        Step::Loop { number, .. } => check_number(*number),
        Step::Ublk { number, tag } => {
            check_number(*number)?;
            so(*tag == ublk::tag_of(maker.owner), "the device has another owner")
        }
        Step::Md { number, devices } => {
            check_number(*number)?;
            so(devices.iter().all(|name| is_own_device(name)), "its devices are not fonio's")
        }
        Step::Mount { dir, source } => so(
            is_plain(dir)
                && (maker.is_next(dir)
                    || maker.is_layer(dir)
                    || source.strip_prefix("/dev/").is_some_and(is_own_device)),
            "neither the folder nor the device is fonio's",
        ),
        Step::Cgroup { path } => so(
            is_plain(path)
                && name_of(path).is_some_and(|name| {
                    let number = name.strip_prefix(&format!("fonio-{}-", maker.owner.pid));
                    number.is_some_and(|number| number.parse::<usize>().is_ok())
                }),
            "the name is not one of fonio's control groups",
        ),
        Step::Setting { path, was } => {
            so(is_scheduler(path) && is_word(was), "it is not the scheduler of a disk")
        }
        Step::Borrowed { setting } => setting.check_borrowed(),
        Step::IoClass { was, set_to, .. } => {
            so(was.is_unprivileged() && set_to.is_unprivileged(), "the class is not one that fonio sets")
        }
        Step::Namespace { name } => {
            so(*name == link::namespace_of(maker.owner.pid), "the name is not one of fonio's namespaces")
        }
    }
}

impl Maker<'_> {
    /// Checks that the path is next to the ledger, or ends in one of these names.
    fn makes(&self, path: &Path, names: &[&str], reason: &'static str) -> Checked {
        let pid = self.owner.pid.to_string();
        let is_named = |name: &str| {
            names.iter().map(|known| known.replace("PID", &pid)).any(|known| match known.strip_suffix('*') {
                Some(begin) => name.strip_prefix(begin).is_some_and(is_word),
                None => name == known,
            })
        };
        so(is_plain(path) && (self.is_next(path) || name_of(path).is_some_and(is_named)), reason)
    }

    /// Returns whether the path is next to the ledger, with the name of the ledger and an own extension.
    fn is_next(&self, path: &Path) -> bool {
        path.parent() == Some(self.folder)
            && path.file_stem() == Some(self.stem)
            && path.extension().is_some_and(|extension| extension != "ledger")
    }

    /// Returns whether the path is the mount point of a layer measurement.
    fn is_layer(&self, path: &Path) -> bool {
        let folder = format!(".fonio-layers-{}", self.owner.pid);
        path.ends_with(Path::new(&folder).join("mounted"))
    }
}

fn so(holds: bool, reason: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(reason) }
}

fn check_number(number: u32) -> Checked {
    so(numbered::is_own(number), "the number is not one of fonio's devices")
}

/// Returns whether a path is absolute and has no `..`.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|component| component != Component::ParentDir)
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name().and_then(OsStr::to_str)
}

/// Returns whether a device's name, such as `ublkb700`, has one of fonio's numbers.
fn is_own_device(name: &str) -> bool {
    let number = ["loop", "ublkb", "md"].iter().find_map(|kind| name.strip_prefix(kind));
    number.and_then(|number| number.parse().ok()).is_some_and(numbered::is_own)
}

fn is_scheduler(path: &Path) -> bool {
    let rest = path.strip_prefix("/sys/block").ok();
    let names = rest.map(|rest| rest.components().collect::<Vec<_>>());
    matches!(
        names.as_deref(),
        Some([Component::Normal(_), Component::Normal(queue), Component::Normal(file)])
            if *queue == "queue" && *file == "scheduler"
    )
}

/// Returns whether a text has only letters, digits, hyphens and underscores, and at least one of them.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
}

#[cfg(test)]
mod tests {
    use fonio_system::ProcessId;

    use super::*;

    const OWNER: ProcessId = ProcessId { pid: 7, started_ticks: 900 };

    fn check_all(steps: &str) -> Vec<bool> {
        let maker = Maker { owner: OWNER, folder: Path::new("/run/fonio"), stem: OsStr::new("7-0") };
        let steps = steps.lines().map(|line| serde_json::from_str::<Step>(line).expect(line));
        steps.map(|step| check(&step, &maker).is_ok()).collect()
    }

    #[test]
    fn steps_of_fonio_are_known() {
        let tag = ublk::tag_of(OWNER);
        let steps = format!(
            r#"{{"kind":"directory","path":"/run/fonio/7-0.mount1"}}
{{"kind":"tree","path":"/run/fonio/7-0.run"}}
{{"kind":"tree","path":"/mnt/card/fonio-run-7"}}
{{"kind":"tree","path":"/mnt/card/.fonio-layers-7"}}
{{"kind":"tree","path":"/mnt/card/fonio-replay"}}
{{"kind":"tree","path":"/dev/shm/fonio-scratch-7-0123abcd"}}
{{"kind":"tree","path":"/home/u/.fonio-proof-7-run3"}}
{{"kind":"file","path":"/mnt/card/fonio-replay.dat"}}
{{"kind":"file","path":"/dev/shm/fonio-7-log"}}
{{"kind":"socket","path":"/tmp/disk"}}
{{"kind":"process","id":{{"pid":8,"started_ticks":900}},"leads_group":true}}
{{"kind":"loop","number":700,"backing":"/home/u/disk"}}
{{"kind":"ublk","number":1699,"tag":{tag}}}
{{"kind":"md","number":700,"devices":["ublkb700","loop701"]}}
{{"kind":"mount","dir":"/run/fonio/7-0.mount1","source":"/dev/sdb1"}}
{{"kind":"mount","dir":"/mnt/card","source":"/dev/ublkb700"}}
{{"kind":"mount","dir":"/mnt/card/.fonio-layers-7/mounted","source":"/mnt/card/.fonio-layers-7/source"}}
{{"kind":"cgroup","path":"/sys/fs/cgroup/memory/fonio-7-12"}}
{{"kind":"setting","path":"/sys/block/sda/queue/scheduler","was":"mq-deadline"}}
{{"kind":"namespace","name":"fonio-7"}}
{{"kind":"borrowed","setting":{{"target":{{"kind":"scheduler","device":"mmcblk0"}},"old":"none","new":"bfq"}}}}
{{"kind":"borrowed","setting":{{"target":{{"kind":"swappiness"}},"old":"60","new":"10"}}}}
{{"kind":"borrowed","setting":{{"target":{{"kind":"unit","unit":"a.service","of":"limit"}},"old":"IOReadBandwidthMax=/dev/sda 5, IOWriteBandwidthMax=/dev/sda 5","new":"unset"}}}}
{{"kind":"borrowed","setting":{{"target":{{"kind":"unit","unit":"a.service","of":"weight"}},"old":"unset","new":"IOWeight=50"}}}}
{{"kind":"borrowed","setting":{{"target":{{"kind":"process_limit","pid":"9","started_ticks":"8"}},"old":"in /user.slice/session-1.scope","new":"IOReadBandwidthMax=/dev/sda 5"}}}}
{{"kind":"borrowed","setting":{{"target":{{"kind":"group_limit","dir":"/sys/fs/cgroup/a"}},"old":"unset","new":"IOReadBandwidthMax=/dev/sda 5"}}}}"#
        );
        let found = check_all(&steps);
        let wrong: Vec<&str> =
            steps.lines().zip(&found).filter(|(_, known)| !**known).map(|(line, _)| line).collect();
        assert!(wrong.is_empty() && found.len() == 26, "{wrong:#?}");
    }

    #[test]
    fn forged_steps_are_refused() {
        let steps = r#"{"kind":"directory","path":"/home/u"}
{"kind":"directory","path":"/run/fonio/7-1.mount1"}
{"kind":"tree","path":"/home/u"}
{"kind":"tree","path":"/run/fonio/7-0.ledger"}
{"kind":"tree","path":"/run/fonio/7-0.x/../../../home"}
{"kind":"tree","path":"/dev/shm/fonio-scratch-7-"}
{"kind":"tree","path":"/dev/shm/fonio-scratch-7-a/../b"}
{"kind":"tree","path":"fonio-replay"}
{"kind":"tree","path":"/home/u/.fonio-proof-8-run3"}
{"kind":"tree","path":"/mnt/card/fonio-run-8"}
{"kind":"file","path":"/etc/passwd"}
{"kind":"file","path":"/run/fonio/settings.json"}
{"kind":"file","path":"/run/fonio/7-0"}
{"kind":"file","path":"/dev/shm/fonio-8-log"}
{"kind":"socket","path":"../x"}
{"kind":"process","id":{"pid":8,"started_ticks":899},"leads_group":false}
{"kind":"process","id":{"pid":1,"started_ticks":900},"leads_group":true}
{"kind":"process","id":{"pid":7,"started_ticks":900},"leads_group":true}
{"kind":"loop","number":0,"backing":"/"}
{"kind":"loop","number":1700,"backing":"/"}
{"kind":"ublk","number":700,"tag":1}
{"kind":"ublk","number":3,"tag":3865470566407}
{"kind":"md","number":127,"devices":[]}
{"kind":"md","number":700,"devices":["sda"]}
{"kind":"mount","dir":"/","source":"/dev/sda1"}
{"kind":"mount","dir":"/home","source":"/dev/loop7"}
{"kind":"mount","dir":"/run/fonio/../../home","source":"/dev/loop700"}
{"kind":"mount","dir":"/home","source":"loop700"}
{"kind":"cgroup","path":"/sys/fs/cgroup/system.slice"}
{"kind":"cgroup","path":"/sys/fs/cgroup/fonio-7-0/../x/fonio-7-1"}
{"kind":"setting","path":"/etc/passwd","was":"root::0:0"}
{"kind":"setting","path":"/sys/block/sda/queue/nr_requests","was":"4"}
{"kind":"setting","path":"/sys/block/../../home/u/queue/scheduler","was":"x"}
{"kind":"setting","path":"/sys/block/sda/queue/scheduler","was":"a b"}
{"kind":"namespace","name":"fonio-8"}
{"kind":"borrowed","setting":{"target":{"kind":"scheduler","device":"../../home/u"},"old":"x","new":"y"}}
{"kind":"borrowed","setting":{"target":{"kind":"scheduler","device":".."},"old":"x","new":"y"}}
{"kind":"borrowed","setting":{"target":{"kind":"database","path":"/home/u/x.db"},"old":"wal","new":"rollback"}}
{"kind":"borrowed","setting":{"target":{"kind":"folder_on","dir":"/a","to":"/b"},"old":"none","new":"bound"}}
{"kind":"borrowed","setting":{"target":{"kind":"hot_range","dir":"/a","image":"/etc/passwd"},"old":"none","new":"16MiB"}}
{"kind":"borrowed","setting":{"target":{"kind":"unit","unit":"a.service","of":"limit"},"old":"ExecStart=/x","new":""}}
{"kind":"borrowed","setting":{"target":{"kind":"unit","unit":"a.service","of":"weight"},"old":"IOWeight=1\nExecStart=/x","new":""}}
{"kind":"borrowed","setting":{"target":{"kind":"unit","unit":"../x.service","of":"limit"},"old":"unset","new":""}}
{"kind":"borrowed","setting":{"target":{"kind":"group_weight","dir":"/home/u"},"old":"IOWeight=1","new":""}}
{"kind":"borrowed","setting":{"target":{"kind":"process_limit","pid":"9","started_ticks":"8"},"old":"in /a/../../home/u","new":""}}
{"kind":"borrowed","setting":{"target":{"kind":"process_weight","pid":"9","started_ticks":"8"},"old":"ExecStart=/x","new":""}}
{"kind":"borrowed","setting":{"target":{"kind":"group_limit","dir":"/home/u"},"old":"unset","new":""}}
{"kind":"borrowed","setting":{"target":{"kind":"dirty_limits"},"old":"kernel.core_pattern=x vm.dirty_bytes=1","new":""}}"#;
        let found = check_all(steps);
        let wrong: Vec<&str> =
            steps.lines().zip(&found).filter(|(_, known)| **known).map(|(line, _)| line).collect();
        assert!(wrong.is_empty() && found.len() == 48, "{wrong:#?}");
    }
}
