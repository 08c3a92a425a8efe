//! The share of busy disks that a unit, another control group, or a process gets.

use std::path::Path;

use fonio_machine::Machine;

use crate::settings::cgroup;
use crate::settings::drop_in::DropIn;
use crate::settings::kind::*;
use crate::settings::own_group::{self, Property};
use crate::settings::systemd;

pub(super) struct IoWeight;

const KEYS: Keys = Keys::new("io-weight", &["IOWeight"]);

const FACTS: Facts = Facts {
    of: Some("weight"),
    tag_of_group: Some("group_weight"),
    tag_of_process: Some("process_weight"),
    title: "the I/O weight",
    fixes: &[SettingFix {
        name: KEYS.name,
        changes: Group::Unit,
        does: "a unit, a control group, or a process with its descendants gets a smaller share of busy disks: the weight 50, or N with io-weight=N; all others have 100",
        needs: "control groups v2 with the controller io, and the scheduler bfq or io.cost on a disk; a systemd unit, a control group such as a container's, a process (--pid) or a command",
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
        own_group::object_at(path)
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(format!("IOWeight={wanted}"))
    }

    fn check(&self, wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        match on {
            Object::Process(id) => own_group::check(*id, Property::Weight, &wanted.value.to_string()),
            _ => Ok(cgroup::check_weight(&Machine::here())?),
        }
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        match on {
            Object::Group(dir) => cgroup::weight(dir),
            Object::Process(id) => own_group::current(*id, Property::Weight),
            unit => DropIn::new(&KEYS, unit).current(),
        }
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        match on {
            Object::Group(dir) => cgroup::set_weight(dir, value),
            Object::Process(id) => own_group::set(*id, Property::Weight, value),
            unit => DropIn::new(&KEYS, unit).set(value),
        }
    }

    fn release(&self, on: &Object) -> Result<(), HostError> {
        match on {
            Object::Group(_) => Ok(()),
            Object::Process(id) => {
                own_group::remove_if_empty(*id);
                Ok(())
            }
            unit => DropIn::new(&KEYS, unit).take_back(),
        }
    }

    fn kept_as(&self, on: &Object, value: &str, files: &KeptFiles) -> Result<KeptAs, Refusal> {
        match on {
            Object::Group(_) | Object::Process(_) => Err(Refusal::Reason(own_group::IS_NOT_KEPT.to_owned())),
            unit => Ok(KeptAs::Files(vec![DropIn::new(&KEYS, unit).kept_file(&files.systemd, value)])),
        }
    }

    fn remains_to_do(&self, path: &Path) -> Option<String> {
        systemd::restart_if_it_runs(path)
    }

    fn of_processes(&self) -> Option<Property> {
        Some(Property::Weight)
    }
}
