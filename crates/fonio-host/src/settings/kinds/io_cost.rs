//! The setting for the kernel's controller io.cost, which makes I/O weights effective under every scheduler.
//!
//! The root control group's file `io.cost.qos` enables the controller, with one line per disk
//! (Documentation/admin-guide/cgroup-v2.rst). The kernel's default cost model applies, unless a user has
//! written another model to `io.cost.model`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use fonio_machine::Machine;

use crate::settings::kind::*;
use crate::settings::places::disk_of;

/// The root group's file with the parameters of io.cost for each disk.
const QOS: &str = "/sys/fs/cgroup/io.cost.qos";
const ON: &str = "on";
const OFF: &str = "off";

pub(super) struct IoCost;

const FACTS: Facts = Facts {
    tag: "io_cost",
    only_value: Some(ON),
    title: "io.cost",
    fixes: &[SettingFix {
        name: "io-cost",
        does: "switches on the kernel's controller io.cost for a disk, so I/O weights (`io-weight`) work with every scheduler; it uses the kernel's default model of the disk",
        needs: "a disk, control groups v2, and a kernel with io.cost (CONFIG_BLK_CGROUP_IOCOST)",
        source: "the kernel's documentation (cgroup-v2)",
        trial: Trial::None(
            "it affects only units that have weights (io-weight); record them with `fonio record` before and after applying it, then run `fonio compare`",
        ),
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

impl Kind for IoCost {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn object(&self, _wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        let device = disk_of(path)?;
        if Path::new(QOS).exists() {
            return Ok(Object::Disk(device));
        }
        Err(Refusal::Reason(if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            "this kernel has no io.cost controller (CONFIG_BLK_CGROUP_IOCOST)".to_owned()
        } else {
            "control groups v2 must be mounted on /sys/fs/cgroup".to_owned()
        }))
    }

    /// Returns the setting's value; `None` also if the running kernel has no io.cost.
    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        let Some(number) = Machine::here().device_named(on.disk().as_ref()) else { return Ok(None) };
        match fs::read_to_string(QOS) {
            Ok(text) => Ok(Some(if is_on(&text, &number.to_string()) { ON } else { OFF }.to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(HostError::system("read", QOS)(error)),
        }
    }

    /// Switches io.cost on or off; the other parameters of the disk stay unchanged.
    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        let Some(number) = Machine::here().device_named(on.disk().as_ref()) else { return Ok(()) };
        let line = format!("{number} enable={}", u8::from(value == ON));
        fs::write(QOS, line).map_err(HostError::system("write", QOS))
    }

    fn kept_as(&self, _on: &Object, _value: &str, _files: &KeptFiles) -> Result<KeptAs, Refusal> {
        Ok(KeptAs::Rules(vec![format!("RUN+=\"/bin/sh -c 'echo %M:%m enable=1 >{QOS}'\"")]))
    }
}

fn is_on(text: &str, number: &str) -> bool {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.any(|mut words| words.next() == Some(number) && words.any(|word| word == "enable=1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_disk_has_a_line() {
        let text = "8:0 enable=0 ctrl=auto rpct=0.00\n8:16 enable=1 ctrl=auto rpct=0.00\n";
        let found: Vec<bool> = ["8:0", "8:16", "8:1", "18:16"].map(|number| is_on(text, number)).into();
        assert_eq!(found, [false, true, false, false]);
        assert!(!is_on("", "8:0"));
    }
}
