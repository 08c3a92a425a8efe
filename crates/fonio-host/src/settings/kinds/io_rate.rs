//! The maximum read rate and maximum write rate on each disk of a unit, another control group, or a process.

use std::path::Path;

use fonio_core::ByteCount;
use fonio_machine::Machine;

use crate::settings::cgroup;
use crate::settings::drop_in::DropIn;
use crate::settings::kind::*;
use crate::settings::own_group::{self, Property};
use crate::settings::{rates, systemd};

pub(super) struct IoRate;

/// The first name of the fix is still part of the names of its drop-ins, so that they can be undone.
const KEYS: Keys = Keys { are_lists: true, ..Keys::new("io-max", &[rates::READ, rates::WRITE]) };

const FACTS: Facts = Facts {
    of: Some("limit"),
    tag_of_group: Some("group_limit"),
    tag_of_process: Some("process_limit"),
    title: "the I/O limits",
    fixes: &[SettingFix {
        name: "io-rate",
        changes: Group::Unit,
        does: "a unit, a control group, or a process with its descendants reads and writes at most 10 MiB/s on each disk, or SIZE per second with io-rate=SIZE; only for bulk work, which takes longer: other programs can wait for its limited writes",
        needs: "control groups v2 with the controller io; a systemd unit, a control group such as a container's, a process (--pid) or a command",
        source: "systemd's documentation",
        trial: OF_SERVICES,
        ..SettingFix::DEFAULT
    }],
    ..Facts::OF_UNIT
};

impl Kind for IoRate {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::rate(text, ByteCount(10 << 20))
    }

    fn object(&self, _wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        own_group::object_at(path)
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        let Value::Rate { per_s, disk } = wanted else { panic!("{wanted:?} is not a rate") };
        let mut disks: Vec<String> = match disk {
            Some(disk) => vec![disk.clone()],
            None => Machine::here().disks().into_iter().filter_map(|disk| disk.name).collect(),
        };
        disks.sort_unstable();
        if disks.is_empty() {
            return Err(Refusal::Reason("this machine has no disk".to_owned()));
        }
        Ok(rates::assignments(&disks, *per_s))
    }

    fn check(&self, wanted: &Wanted<'_>, on: &Object) -> Result<(), Refusal> {
        match on {
            Object::Process(id) => own_group::check(*id, Property::Rate, &wanted.value.to_string()),
            _ => Ok(cgroup::check_controller(&Machine::here())?),
        }
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        match on {
            Object::Group(dir) => rates::read(dir),
            Object::Process(id) => own_group::current(*id, Property::Rate),
            unit => DropIn::new(&KEYS, unit).current(),
        }
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        match on {
            Object::Group(dir) => rates::write(dir, value),
            Object::Process(id) => own_group::set(*id, Property::Rate, value),
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

    fn of_processes(&self) -> Option<Property> {
        Some(Property::Rate)
    }

    fn remains_to_do(&self, path: &Path) -> Option<String> {
        const COSTS: &str = "Limit only bulk work, such as a copy, which then takes longer; never a server. Other programs can wait for the limited writes: on ext4, a commit of the journal includes them (data=ordered). Buffered writes are limited only on btrfs, ext4, f2fs and xfs.";
        let restart = systemd::restart_if_it_runs(path);
        Some(restart.map_or_else(|| COSTS.to_owned(), |restart| format!("{restart} {COSTS}")))
    }
}
