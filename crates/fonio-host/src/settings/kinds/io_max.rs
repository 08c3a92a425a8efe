//! The maximum read rate and maximum write rate of a unit on each disk.

use fonio_core::ByteCount;
use fonio_machine::Machine;

use crate::settings::cgroup;
use crate::settings::kind::*;

pub(super) struct IoMax;

const FACTS: Facts = Facts {
    of: Some("limit"),
    title: "the I/O limits",
    held: Held::DropIn(Keys {
        are_lists: true,
        ..Keys::new("io-max", &["IOReadBandwidthMax", "IOWriteBandwidthMax"])
    }),
    fixes: &[SettingFix {
        name: "io-max",
        changes: Group::Unit,
        does: "a unit reads and writes at most 10 MiB/s on each disk, or SIZE per second with io-max=SIZE",
        needs: "systemd, and control groups v2 with the controller io",
        source: "systemd's documentation",
        trial: OF_SERVICES,
        ..SettingFix::DEFAULT
    }],
    ..Facts::OF_UNIT
};

impl Kind for IoMax {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::size(text, 10 << 20, 64 << 10)
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        let disks: Vec<String> = Machine::here().disks().into_iter().filter_map(|disk| disk.name).collect();
        Ok(limits(&disks, wanted.size()))
    }

    fn check(&self, _wanted: &Wanted<'_>, _on: &Object) -> Result<(), Refusal> {
        Ok(cgroup::check_controller(&Machine::here())?)
    }
}

/// Returns the assignments that limit a unit's reads and writes on each disk.
fn limits(disks: &[String], rate: ByteCount) -> String {
    let of = |key: &'static str| disks.iter().map(move |disk| format!("{key}=/dev/{disk} {}", rate.0));
    of("IOReadBandwidthMax").chain(of("IOWriteBandwidthMax")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_for_each_disk_and_direction() {
        assert_eq!(
            limits(&["sda".to_owned(), "sdb".to_owned()], ByteCount(5)),
            "IOReadBandwidthMax=/dev/sda 5, IOReadBandwidthMax=/dev/sdb 5, IOWriteBandwidthMax=/dev/sda 5, IOWriteBandwidthMax=/dev/sdb 5"
        );
    }
}
