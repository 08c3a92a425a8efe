//! The setting for the I/O class of a unit (`ioprio_set(2)`).

use std::path::Path;

use fonio_machine::Machine;

use crate::settings::cgroup;
use crate::settings::kind::*;

pub(super) struct IoClass;

const FACTS: Facts = Facts {
    of: Some("class"),
    title: "the I/O class",
    held: Held::DropIn(Keys::new("io-class", &["IOSchedulingClass"])),
    cannot_switch: Some("the unit must be restarted for each change"),
    fixes: &[SettingFix {
        name: "io-class",
        changes: Group::Unit,
        does: "gives a unit the I/O class idle, so its I/O waits until no other process has I/O; io-class=best-effort gives it the usual class",
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
        value::one_of(text, &["idle", "best-effort"])
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(format!("IOSchedulingClass={wanted}"))
    }

    fn check(&self, _wanted: &Wanted<'_>, _on: &Object) -> Result<(), Refusal> {
        Ok(cgroup::check_class(&Machine::here())?)
    }

    fn remains_to_do(&self, path: &Path) -> Option<String> {
        Some(systemd::restart(path))
    }
}
