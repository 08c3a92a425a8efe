//! The share of busy disks that a unit, another control group, or a process gets.

use std::path::Path;

use crate::settings::cgroup;
use crate::settings::kind::*;

pub(super) struct IoWeight;

const FACTS: Facts = Facts {
    of: Some("weight"),
    tag_of_group: Some("group_weight"),
    tag_of_process: Some("process_weight"),
    title: "the I/O weight",
    held: Held::Group(OfGroup {
        keys: Keys::new("io-weight", &["IOWeight"]),
        property: Property::Weight,
        check: cgroup::check_weight,
        read: cgroup::weight,
        write: cgroup::set_weight,
    }),
    fixes: &[SettingFix {
        name: "io-weight",
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

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(format!("IOWeight={wanted}"))
    }

    fn remains_to_do(&self, path: &Path) -> Option<String> {
        systemd::restart_if_it_runs(path)
    }
}
