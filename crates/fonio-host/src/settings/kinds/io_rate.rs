//! The maximum read rate and maximum write rate on each disk of a unit, another control group, or a process.

use std::path::Path;

use fonio_core::ByteCount;
use fonio_machine::Machine;

use crate::settings::cgroup;
use crate::settings::kind::*;
use crate::settings::rates;

pub(super) struct IoRate;

const FACTS: Facts = Facts {
    of: Some("limit"),
    tag_of_group: Some("group_limit"),
    tag_of_process: Some("process_limit"),
    title: "the I/O limits",
    held: Held::Group(OfGroup {
        // The first name of the fix is still part of the names of its drop-ins, so that they can be undone.
        keys: Keys { are_lists: true, ..Keys::new("io-max", &[rates::READ, rates::WRITE]) },
        property: Property::Rate,
        check: cgroup::check_controller,
        read: rates::read,
        write: rates::write,
    }),
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

    fn remains_to_do(&self, path: &Path) -> Option<String> {
        const COSTS: &str = "Limit only bulk work, such as a copy, which then takes longer; never a server. Other programs can wait for the limited writes: on ext4, a commit of the journal includes them (data=ordered). Buffered writes are limited only on btrfs, ext4, f2fs and xfs.";
        let restart = systemd::restart_if_it_runs(path);
        Some(restart.map_or_else(|| COSTS.to_owned(), |restart| format!("{restart} {COSTS}")))
    }
}
