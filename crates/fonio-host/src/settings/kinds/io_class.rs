//! The setting for the I/O class of a unit (`ioprio_set(2)`).

use std::path::Path;

use fonio_machine::Machine;

use crate::settings::cgroup;
use crate::settings::kind::*;

pub(super) struct IoClass;

/// The class of a process that was given none: its niceness decides. Only for running processes.
const NO_CLASS: &str = "none";

const FACTS: Facts = Facts {
    of: Some("class"),
    title: "the I/O class",
    held: Held::DropIn(Keys::new("io-class", &["IOSchedulingClass"])),
    cannot_switch: Some("the unit must be restarted for each change"),
    fixes: &[SettingFix {
        name: "io-class",
        changes: Group::Unit,
        does: "gives a unit the I/O class idle, so its I/O waits until no other process has I/O; io-class=best-effort gives it the usual class, and io-class=none takes the class from a running process (--pid)",
        needs: "systemd, and the scheduler bfq, mq-deadline or smartio on a disk; a restart of the unit",
        source: "systemd's documentation",
        trial: OF_SERVICES,
        ..SettingFix::DEFAULT
    }],
    ..Facts::OF_UNIT
};

impl Kind for IoClass {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::one_of(text, &["idle", "best-effort", NO_CLASS])
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        let class = wanted.to_string();
        if class == NO_CLASS {
            let reason = "a unit has no class if `fonio fix undo io-class` removes it";
            return Err(Refusal::Reason(reason.to_owned()));
        }
        Ok(format!("IOSchedulingClass={class}"))
    }

    fn check(&self, _wanted: &Wanted<'_>, _on: &Object) -> Result<(), Refusal> {
        Ok(cgroup::check_class(&Machine::here())?)
    }

    fn remains_to_do(&self, path: &Path) -> Option<String> {
        Some(systemd::restart(path))
    }
}
