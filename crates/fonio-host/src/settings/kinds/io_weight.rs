//! The share of busy disks that a unit or another control group gets.

use std::path::Path;

use fonio_machine::Machine;

use crate::settings::cgroup;
use crate::settings::drop_in::DropIn;
use crate::settings::kind::*;

pub(super) struct IoWeight;

const KEYS: Keys = Keys::new("io-weight", &["IOWeight"]);

const FACTS: Facts = Facts {
    of: Some("weight"),
    tag_of_group: Some("group_weight"),
    title: "the I/O weight",
    fixes: &[SettingFix {
        name: KEYS.name,
        changes: Group::Unit,
        does: "a unit gets a smaller share of busy disks: the weight 50, or N with io-weight=N; all others have 100",
        needs: "control groups v2 with the controller io, and the scheduler bfq or io.cost on a disk; a systemd unit, or a control group such as a container's",
        source: "systemd's documentation",
        trial: OF_SERVICES,
        ..SettingFix::DEFAULT
    }],
    ..Facts::OF_UNIT
};

impl Kind for IoWeight {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::number(text, 50, 1..=1000)
    }

    fn object(&self, _wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        if path.is_absolute() {
            return Ok(Object::Group(cgroup::group_at(path)?));
        }
        Ok(Object::Unit(systemd::unit_named(path)?))
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(format!("IOWeight={wanted}"))
    }

    fn check(&self, _wanted: &Wanted<'_>, _on: &Object) -> Result<(), Refusal> {
        Ok(cgroup::check_weight(&Machine::here())?)
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        match on {
            Object::Group(dir) => cgroup::weight(dir),
            unit => DropIn::new(&KEYS, unit).current(),
        }
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        match on {
            Object::Group(dir) => cgroup::set_weight(dir, value),
            unit => DropIn::new(&KEYS, unit).set(value),
        }
    }

    fn release(&self, on: &Object) -> Result<(), HostError> {
        match on {
            Object::Group(_) => Ok(()),
            unit => DropIn::new(&KEYS, unit).take_back(),
        }
    }

    fn kept_as(&self, on: &Object, value: &str, files: &KeptFiles) -> Result<KeptAs, Refusal> {
        match on {
            Object::Group(_) => Err(Refusal::Reason(
                "a control group does not survive a reboot: name its systemd unit, or let the program that creates the group set its weight"
                    .to_owned(),
            )),
            unit => Ok(KeptAs::Files(vec![DropIn::new(&KEYS, unit).kept_file(&files.systemd, value)])),
        }
    }
}
