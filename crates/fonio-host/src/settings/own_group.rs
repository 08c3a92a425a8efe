//! Puts a process and its descendants into a control group of their own, which limits or weights their I/O.
//!
//! With systemd, the group is a transient scope in the slice of the process; it ends with its last process.
//! Without systemd, the group is a folder in [`GROUPS`], which undoing removes.
//!
//! A process of a service never leaves the service's group, because systemd would lose track of it: it could
//! neither stop the process nor count its memory. The same holds for containers. Processes of a login session
//! and jobs of cron can move.
//!
//! The value of a setting on a process is either the group that the process came from, such as
//! `in /user.slice/user-0.slice/session-1.scope`, or the value of the own group. If a second setting is applied
//! to the process, only the group's value changes: the first setting must be undone last.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use fonio_machine::{Machine, read_text};
use fonio_system::{ProcessId, Task, say};

use super::cgroup::{self, GROUPS};
use super::drop_in::{COMMA, UNSET};
use super::object::Object;
use super::refusal::Refusal;
use super::{rates, systemd};
use crate::error::HostError;
use crate::io_class::processes_of_tree;
use crate::program::run;

/// The begin of the names of fonio's own groups.
const PREFIX: &str = "fonio-io-";
/// The begin of a value that names the group in which a process was before.
const ORIGIN: &str = "in ";
/// The weight of a group whose weight was not set.
const USUAL_WEIGHT: &str = "IOWeight=100";
/// The units of programs that start jobs of users. systemd does not need the jobs, only the program itself.
const STARTERS: [&str; 5] =
    ["cron.service", "crond.service", "cronie.service", "anacron.service", "atd.service"];
/// Parts of the names of groups in which container engines keep containers, if systemd does not.
const CONTAINERS: [&str; 7] = ["docker", "libpod", "podman", "lxc", "kubepods", "containerd", "buildkit"];

/// The reason why a value of a control group or process cannot be kept.
pub(super) const IS_NOT_KEPT: &str = "neither a control group nor a process survives a reboot: name its systemd unit, or let the program that creates the group set the value";

/// Number of attempts to move processes that start others meanwhile, and to wait for systemd.
const TRIES: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);

/// The value of a control group that a setting changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Property {
    Rate,
    Weight,
}

impl Property {
    fn fix(self) -> &'static str {
        match self {
            Property::Rate => "io-rate",
            Property::Weight => "io-weight",
        }
    }

    fn other(self) -> Property {
        match self {
            Property::Rate => Property::Weight,
            Property::Weight => Property::Rate,
        }
    }

    /// Returns the value of a group in which this property was not set.
    pub(super) fn usual(self) -> &'static str {
        match self {
            Property::Rate => UNSET,
            Property::Weight => USUAL_WEIGHT,
        }
    }

    /// Checks that groups can have this property here; the error is the reason why they cannot.
    pub(super) fn check(self) -> Result<(), String> {
        match self {
            Property::Rate => cgroup::check_controller(&Machine::here()),
            Property::Weight => cgroup::check_weight(&Machine::here()),
        }
    }

    pub(super) fn write(self, group: &Path, value: &str) -> Result<(), HostError> {
        match self {
            Property::Rate => rates::write(group, value),
            Property::Weight => cgroup::set_weight(group, value),
        }
    }

    /// Returns the words after `systemctl set-property --runtime UNIT` for a value.
    fn words(self, value: &str) -> Vec<String> {
        let assigned = value.split(COMMA).filter(|assignment| *assignment != UNSET).map(str::to_owned);
        match self {
            // An empty assignment removes the limits of all disks.
            Property::Rate => {
                [rates::READ, rates::WRITE].map(|key| format!("{key}=")).into_iter().chain(assigned).collect()
            }
            Property::Weight => assigned.collect(),
        }
    }
}

/// Returns the unit, group or process that a path names. A relative path is the name of a unit.
pub(super) fn object_at(path: &Path) -> Result<Object, Refusal> {
    if !path.is_absolute() {
        return Ok(Object::Unit(systemd::unit_named(path)?));
    }
    let Some(pid) = process_at(path) else { return Ok(Object::Group(cgroup::group_at(path)?)) };
    // Without the unified hierarchy, a process has no group in it.
    cgroup::check_controller(&Machine::here())?;
    let id = ProcessId::of(pid).ok_or_else(|| format!("no process has the id {pid}"))?;
    Ok(Object::Process(id))
}

/// Returns the process id in a path such as `/proc/4711`.
fn process_at(path: &Path) -> Option<u32> {
    path.strip_prefix("/proc").ok()?.to_str()?.parse().ok()
}

/// Returns whether a value names the group in which a process was before.
pub(super) fn is_origin(value: &str) -> bool {
    value.strip_prefix(ORIGIN).is_some_and(|group| {
        let mut parts = Path::new(group).components();
        group.starts_with('/') && !group.contains('\n') && parts.all(|part| part != Component::ParentDir)
    })
}

/// Checks that a process can move to a group of its own. `value` is the wanted value, for the way out.
pub(super) fn check(id: ProcessId, property: Property, value: &str) -> Result<(), Refusal> {
    property.check()?;
    let own = OwnGroup::of(id);
    let origin = own.group_of_process()?;
    if own.is_member(&origin) {
        return Ok(());
    }
    if fs::read_link(format!("/proc/{}/exe", id.pid)).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    {
        return Err("it is a thread of the kernel".to_owned().into());
    }
    let is_main =
        |unit: &str| systemd::property(unit, "MainPID").is_ok_and(|main| main == id.pid.to_string());
    let fix = format!("{}={value}", property.fix());
    check_place(&origin, is_systemd(), &fix, is_main)?;
    let all = fs::read_to_string(in_groups(&origin).join("cgroup.procs")).unwrap_or_default();
    if is_systemd() && !leaves_some(&all, &own.left_in(&origin)) {
        let unit = origin.rsplit('/').next().unwrap_or_default();
        return Err(Refusal::Reason(format!(
            "its unit {unit} has no other processes, so systemd would end the unit; {}",
            way_out(unit, &origin, &fix)
        )));
    }
    Ok(check_own_folder()?)
}

/// Returns whether a group, whose processes are the lines of `all`, keeps a process if others move away.
fn leaves_some(all: &str, moved: &[u32]) -> bool {
    all.lines().filter_map(|line| line.parse::<u32>().ok()).any(|pid| !moved.contains(&pid))
}

/// Checks that a process in this group may leave the group; the error is the reason why it may not. `is_main`
/// returns whether the process is the main process of a unit.
fn check_place(
    group: &str,
    is_systemd: bool,
    fix: &str,
    is_main: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let unit = group.split('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"));
    let Some(unit) = unit.filter(|_| is_systemd) else {
        let is_containers =
            |part: &str| part.starts_with("openrc.") || CONTAINERS.iter().any(|name| part.starts_with(name));
        return match group.split('/').any(is_containers) {
            true => Err(format!(
                "its control group belongs to a service or a container, which would lose track of it; apply the fix to the group: `fonio fix apply {fix} {GROUPS}{group}`"
            )),
            false => Ok(()),
        };
    };
    let is_last = group.ends_with(&format!("/{unit}"));
    let is_free = (unit.starts_with("session-") && unit.ends_with(".scope"))
        || (STARTERS.contains(&unit) && !is_main(unit));
    if is_last && is_free {
        return Ok(());
    }
    if let Some(owner) = unit.strip_prefix(PREFIX) {
        let owner = owner.split('-').next().unwrap_or_default();
        return Err(format!(
            "it is in the control group that fonio made for process {owner}; change that process: `fonio fix apply {fix} --pid {owner}`"
        ));
    }
    Err(format!(
        "it belongs to the unit {unit}, and systemd would lose track of it; {}",
        way_out(unit, group, fix)
    ))
}

/// Returns how to apply a fix to the unit of a process in this group. A drop-in has no effect on a scope that runs,
/// such as a container's, and nothing can restart a scope.
fn way_out(unit: &str, group: &str, fix: &str) -> String {
    match unit.ends_with(".scope") {
        true => format!("apply the fix to its control group: `fonio fix apply {fix} {GROUPS}{group}`"),
        false => format!("apply the fix to the unit: `fonio fix apply {fix} {unit}`"),
    }
}

fn is_systemd() -> bool {
    systemd::check().is_ok()
}

/// Checks that the groups directly below the root control I/O, which only matters without systemd.
pub(super) fn check_own_folder() -> Result<(), String> {
    let file = Path::new(GROUPS).join("cgroup.subtree_control");
    let controlled = read_text(&file).unwrap_or_default();
    if is_systemd() || controlled.split_whitespace().any(|name| name == "io") {
        return Ok(());
    }
    let file = file.display();
    Err(format!("the controller io is off; to switch it on until the next boot, run `echo +io > {file}`"))
}

/// Returns the value of a process: its group, or the value of its own group. Returns `None` if the process and all
/// its descendants have ended.
pub(super) fn current(id: ProcessId, property: Property) -> Result<Option<String>, HostError> {
    let own = OwnGroup::of(id);
    if !id.runs() {
        return own.dir()?.map(|dir| own.value(&dir, property)).transpose();
    }
    let group = own.group_of_process()?;
    match own.is_member(&group) {
        true => own.value(&in_groups(&group), property).map(Some),
        false => Ok(Some(format!("{ORIGIN}{group}"))),
    }
}

/// Moves a process and its descendants to a group of its own with this value, or back to the group that the value
/// names.
pub(super) fn set(id: ProcessId, property: Property, value: &str) -> Result<(), HostError> {
    let own = OwnGroup::of(id);
    match (value.strip_prefix(ORIGIN), own.dir()?) {
        (Some(_), None) => Ok(()),
        (Some(origin), Some(dir)) => own.move_back(&dir, property, origin),
        (None, Some(dir)) => {
            own.assign(&dir, property, value)?;
            let group = own.group_of_process()?;
            if own.is_member(&group) { Ok(()) } else { own.gather(&dir, &group) }
        }
        (None, None) => own.make(property, value),
    }
}

/// Removes the own group of a process if the group is empty.
pub(super) fn remove_if_empty(id: ProcessId) {
    if !is_systemd() {
        // The call fails if the group does not exist, or if it has processes.
        let _ = fs::remove_dir(Path::new(GROUPS).join(OwnGroup::of(id).name()));
    }
}

/// Removes the limits of the rates of this process's control group, if it is one that fonio made.
pub fn lift_own_rates() {
    let group = group_of(std::process::id()).unwrap_or_default();
    if group.rsplit('/').next().is_some_and(|name| name.starts_with("fonio-")) {
        // The group ends with this process, and its limits with it.
        let _ = rates::write(&in_groups(&group), UNSET);
    }
}

/// Returns whether a process is in a control group that controls I/O. Some schedulers share a disk between such groups.
pub fn is_io_group(pid: u32) -> bool {
    group_of(pid).is_some_and(|group| in_groups(&group).join("io.max").exists())
}

fn in_groups(group: &str) -> PathBuf {
    Path::new(GROUPS).join(group.trim_start_matches('/'))
}

/// Returns the slice in which the unit of a group is.
pub(super) fn slice_of(group: &str) -> &str {
    let parts = group.trim_start_matches('/').split('/');
    parts.take_while(|part| part.ends_with(".slice")).last().unwrap_or("system.slice")
}

/// Returns the name of the scope of a process.
pub(super) fn unit_of(id: ProcessId) -> String {
    OwnGroup::of(id).unit()
}

/// The own control group of a process, which may not exist.
struct OwnGroup {
    id: ProcessId,
}

impl OwnGroup {
    fn of(id: ProcessId) -> OwnGroup {
        OwnGroup { id }
    }

    fn name(&self) -> String {
        let ProcessId { pid, started_ticks } = self.id;
        format!("{PREFIX}{pid}-{started_ticks}")
    }

    fn unit(&self) -> String {
        format!("{}.scope", self.name())
    }

    /// Returns the group of the process in the unified hierarchy.
    fn group_of_process(&self) -> Result<String, HostError> {
        group_of(self.id.pid).ok_or_else(|| {
            let path = format!("/proc/{}/cgroup", self.id.pid);
            HostError::system("find the control group in", path)(ErrorKind::NotFound)
        })
    }

    /// Returns whether `group` is the own group of the process.
    fn is_member(&self, group: &str) -> bool {
        let last = group.rsplit('/').next();
        last == Some(&self.unit()) || last == Some(&self.name())
    }

    /// Returns the folder of the group, if it exists.
    fn dir(&self) -> Result<Option<PathBuf>, HostError> {
        if let Some(group) = group_of(self.id.pid).filter(|group| self.id.runs() && self.is_member(group)) {
            return Ok(Some(in_groups(&group)));
        }
        let dir = if is_systemd() {
            let group = systemd::property(&self.unit(), "ControlGroup")?;
            if group.is_empty() {
                return Ok(None);
            }
            in_groups(&group)
        } else {
            Path::new(GROUPS).join(self.name())
        };
        Ok(dir.exists().then_some(dir))
    }

    fn value(&self, dir: &Path, property: Property) -> Result<String, HostError> {
        let found = match property {
            Property::Rate => rates::read(dir)?,
            // systemd converts weights for bfq, so the kernel's file can have another number.
            Property::Weight if is_systemd() => {
                let weight = systemd::property(&self.unit(), "IOWeight")?;
                weight.parse::<u16>().ok().map(|weight| format!("IOWeight={weight}"))
            }
            Property::Weight => cgroup::weight(dir)?,
        };
        Ok(found.unwrap_or_else(|| property.usual().to_owned()))
    }

    fn assign(&self, dir: &Path, property: Property, value: &str) -> Result<(), HostError> {
        if !is_systemd() {
            return property.write(dir, value);
        }
        let unit = self.unit();
        let words = property.words(value);
        let first = ["set-property", "--runtime", &unit].into_iter();
        systemd::systemctl(&first.chain(words.iter().map(String::as_str)).collect::<Vec<_>>()).map(drop)
    }

    /// Creates the group, and moves the process and its descendants into it.
    fn make(&self, property: Property, value: &str) -> Result<(), HostError> {
        let origin = self.group_of_process()?;
        if is_systemd() {
            let unit = self.unit();
            let words = start_words(&unit, slice_of(&origin), self.id.pid, value);
            // systemd would refuse the call if a descendant had ended meanwhile, so it moves only the process.
            run("busctl", "systemd", &words)?;
            // systemd moves the process in a job, which follows.
            for _ in 0..TRIES {
                let group = group_of(self.id.pid);
                if let Some(group) = group.filter(|group| self.is_member(group)) {
                    return self.gather(&in_groups(&group), &origin);
                }
                std::thread::sleep(PAUSE);
            }
            return Err(HostError::system("wait for", unit)(ErrorKind::TimedOut));
        }
        let dir = Path::new(GROUPS).join(self.name());
        fs::create_dir(&dir).map_err(HostError::system("make", &dir))?;
        let made = property.write(&dir, value).and_then(|()| self.gather(&dir, &origin));
        made.inspect_err(|_| remove_if_empty(self.id))
    }

    /// Returns the process and its descendants that are in the group `origin`. Descendants in other groups, such as
    /// containers, stay there.
    fn left_in(&self, origin: &str) -> Vec<u32> {
        let mut all = processes_of_tree(self.id.pid);
        // A zombie cannot move.
        all.retain(|pid| ProcessId::of(*pid).is_some() && group_of(*pid).as_deref() == Some(origin));
        all
    }

    /// Moves the process and its descendants from the group `origin` to the own group. Processes that they start
    /// meanwhile may still be in the old group, so this is repeated.
    fn gather(&self, dir: &Path, origin: &str) -> Result<(), HostError> {
        for _ in 0..TRIES {
            let left = self.left_in(origin);
            if left.is_empty() {
                return Ok(());
            }
            left.iter().try_for_each(|pid| move_to(dir, *pid))?;
        }
        Err(HostError::system("move the processes to", dir)(ErrorKind::ResourceBusy))
    }

    fn move_back(&self, dir: &Path, property: Property, origin: &str) -> Result<(), HostError> {
        let other = property.other();
        if self.value(dir, other)? != other.usual() {
            return Err(HostError::NotSettable {
                setting: format!("the group {origin}"),
                path: format!("/proc/{}", self.id.pid).into(),
                reason: format!(
                    "{} also applies to this process; undo it first: `fonio fix undo {} /proc/{}`",
                    other.fix(),
                    other.fix(),
                    self.id.pid
                ),
            });
        }
        let mut to = in_groups(origin);
        if !to.join("cgroup.procs").exists() {
            self.assign(dir, property, property.usual())?;
            say!(
                "note: process {} came from the control group {origin}, which no longer exists; it has no limit any more",
                self.id.pid
            );
            if is_systemd() {
                // The scope ends with its last process.
                return Ok(());
            }
            to = PathBuf::from(GROUPS);
        }
        for _ in 0..TRIES {
            match fs::read_to_string(dir.join("cgroup.procs")) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                // The group is being removed (ENODEV).
                Err(_) if !dir.exists() => return Ok(()),
                text => {
                    let text = text.map_err(HostError::system("read", dir))?;
                    let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
                    pids.into_iter().try_for_each(|pid| move_to(&to, pid))?;
                    if text.trim().is_empty() && !is_systemd() && fs::remove_dir(dir).is_ok() {
                        return Ok(());
                    }
                    if text.trim().is_empty() {
                        std::thread::sleep(PAUSE);
                    }
                }
            }
        }
        Err(HostError::system("remove", dir)(ErrorKind::ResourceBusy))
    }
}

pub(super) fn group_of(pid: u32) -> Option<String> {
    Task::of(pid).cgroups()?.unified().map(str::to_owned)
}

/// Moves a process with all its threads to a group. A process that has ended is left out.
pub(super) fn move_to(dir: &Path, pid: u32) -> Result<(), HostError> {
    let file = dir.join("cgroup.procs");
    match fs::write(&file, pid.to_string()) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
            Err(HostError::system("write", file)(error))
        }
        _ => Ok(()),
    }
}

/// Returns the words after `busctl` that make systemd move a process to a new scope with these values.
fn start_words(unit: &str, slice: &str, pid: u32, value: &str) -> Vec<String> {
    let mut properties: Vec<Vec<String>> = vec![
        vec!["Description".to_owned(), "s".to_owned(), "I/O limit by fonio fix apply".to_owned()],
        vec!["Slice".to_owned(), "s".to_owned(), slice.to_owned()],
        vec!["CollectMode".to_owned(), "s".to_owned(), "inactive-or-failed".to_owned()],
    ];
    properties.push(vec!["PIDs".to_owned(), "au".to_owned(), "1".to_owned(), pid.to_string()]);
    for assignment in value.split(COMMA) {
        let Some((key, value)) = assignment.split_once('=') else { continue };
        let words = match value.split_once(' ') {
            Some((disk, limit)) => vec![key, "a(st)", "1", disk, limit],
            None => vec![key, "t", value],
        };
        properties.push(words.into_iter().map(str::to_owned).collect());
    }
    const CALL: [&str; 6] = [
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
    ];
    let mut words: Vec<String> = CALL.map(str::to_owned).to_vec();
    words.extend([unit.to_owned(), "fail".to_owned(), properties.len().to_string()]);
    words.extend(properties.into_iter().flatten());
    // No further units.
    words.push("0".to_owned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_that_nobody_tracks_may_leave_their_group() {
        let unit = |name: &str| {
            Err(format!(
                "it belongs to the unit {name}, and systemd would lose track of it; apply the fix to the unit: `fonio fix apply io-rate=10MB {name}`"
            ))
        };
        let scope = |name: &str, path: &str| {
            Err(format!(
                "it belongs to the unit {name}, and systemd would lose track of it; apply the fix to its control group: `fonio fix apply io-rate=10MB /sys/fs/cgroup{path}`"
            ))
        };
        let group = |path: &str| {
            Err(format!(
                "its control group belongs to a service or a container, which would lose track of it; apply the fix to the group: `fonio fix apply io-rate=10MB /sys/fs/cgroup{path}`"
            ))
        };
        for (path, is_systemd, expected) in [
            ("/user.slice/user-0.slice/session-1.scope", true, Ok(())),
            ("/system.slice/backup.service", true, unit("backup.service")),
            ("/system.slice/backup.service/worker", true, unit("backup.service")),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope",
                true,
                unit("user@1000.service"),
            ),
            ("/system.slice/docker-0123.scope", true, scope("docker-0123.scope", "/system.slice/docker-0123.scope")),
            ("/machine.slice/libpod-0123.scope/container", true, scope("libpod-0123.scope", "/machine.slice/libpod-0123.scope/container")),
            ("/init.scope", true, scope("init.scope", "/init.scope")),
            // The unit's main process is the daemon itself, which the test calls the main process.
            ("/system.slice/cron.service", true, Ok(())),
            ("/system.slice/atd.service", true, unit("atd.service")),
            (
                "/user.slice/fonio-io-12-99.scope",
                true,
                Err("it is in the control group that fonio made for process 12; change that process: `fonio fix apply io-rate=10MB --pid 12`".to_owned()),
            ),
            ("/docker/0123", true, group("/docker/0123")),
            ("/docker/0123", false, group("/docker/0123")),
            ("/openrc.sshd", false, group("/openrc.sshd")),
            ("/", false, Ok(())),
            ("/1", false, Ok(())),
        ] {
            let is_main = |unit: &str| unit == "atd.service";
            assert_eq!(check_place(path, is_systemd, "io-rate=10MB", is_main), expected, "{path}");
        }
    }

    #[test]
    fn the_last_process_of_a_unit_stays() {
        for (all, moved, expected) in [
            ("12\n13\n14\n", &[12, 13][..], true),
            ("12\n13\n", &[12, 13], false),
            ("12\n", &[12, 13], false),
            ("", &[12], false),
        ] {
            assert_eq!(leaves_some(all, moved), expected, "{all:?} {moved:?}");
        }
    }

    #[test]
    fn a_scope_stays_in_the_slice_of_the_process() {
        for (group, expected) in [
            ("/user.slice/user-1000.slice/session-3.scope", "user-1000.slice"),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope", "user-1000.slice"),
            ("/system.slice/cron.service", "system.slice"),
            ("/init.scope", "system.slice"),
            ("/", "system.slice"),
        ] {
            assert_eq!(slice_of(group), expected, "{group}");
        }
    }

    #[test]
    fn systemd_is_asked_for_a_scope_with_the_values() {
        let value = "IOReadBandwidthMax=/dev/sda 5, IOWriteBandwidthMax=/dev/sda 5";
        assert_eq!(
            start_words("fonio-io-12-99.scope", "user-0.slice", 12, value)[5..].join("|"),
            "ssa(sv)a(sa(sv))|fonio-io-12-99.scope|fail|6|Description|s|I/O limit by fonio fix apply|Slice|s|user-0.slice|CollectMode|s|inactive-or-failed|PIDs|au|1|12|IOReadBandwidthMax|a(st)|1|/dev/sda|5|IOWriteBandwidthMax|a(st)|1|/dev/sda|5|0"
        );
        let words = start_words("x.scope", "system.slice", 12, "IOWeight=50");
        assert!(words.join("|").ends_with("|PIDs|au|1|12|IOWeight|t|50|0"), "{words:?}");
        assert_eq!(
            Property::Rate.words(value).join("|"),
            "IOReadBandwidthMax=|IOWriteBandwidthMax=|IOReadBandwidthMax=/dev/sda 5|IOWriteBandwidthMax=/dev/sda 5"
        );
        assert_eq!(Property::Rate.words(UNSET), ["IOReadBandwidthMax=", "IOWriteBandwidthMax="]);
        assert_eq!(Property::Weight.words("IOWeight=100"), ["IOWeight=100"]);
    }

    #[test]
    fn a_process_is_named_by_its_folder() {
        for (path, expected) in [
            ("/proc/4711", Some(4711)),
            ("/proc/4711/", Some(4711)),
            ("/proc/self", None),
            ("/proc/4711/task", None),
            ("/proc", None),
            ("/sys/fs/cgroup/4711", None),
        ] {
            assert_eq!(process_at(Path::new(path)), expected, "{path}");
        }
        for (value, expected) in [
            ("in /user.slice/session-1.scope", true),
            ("in /", true),
            ("in user.slice", false),
            ("in /a/../../etc", false),
            ("in /a\nb", false),
            ("IOWeight=50", false),
        ] {
            assert_eq!(is_origin(value), expected, "{value}");
        }
    }
}
