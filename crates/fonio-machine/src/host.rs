//! Describes the machine itself: its name, model, kernel, processors and memory.

use std::fs;

use fonio_core::meta::Host;
use fonio_system::procfs::memory;

use crate::machine::Machine;
use crate::sysfs::read_text;

/// The hardware and the distribution of a machine, without its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hardware {
    /// The board or product: `Raspberry Pi 4 Model B Rev 1.4`.
    pub board: Option<String>,
    /// The model name of the processor.
    pub cpu: Option<String>,
    /// The number of logical processors.
    pub cpus: Option<u32>,
    /// The name and version of the Linux distribution.
    pub distribution: Option<String>,
    /// Whether the machine is a virtual machine.
    pub is_virtual: Option<bool>,
}

/// Vendor names that firmware reports on virtual machines.
const VIRTUAL: [&str; 10] = [
    "QEMU",
    "VMware",
    "VirtualBox",
    "innotek",
    "Xen",
    "Microsoft Corporation",
    "Google",
    "Amazon EC2",
    "Parallels",
    "KVM",
];

impl Machine {
    /// Returns the machine's name, model, kernel, processors and memory.
    pub fn host(&self) -> Host {
        let uname = rustix::system::uname();
        let text = |value: &std::ffi::CStr| Some(value.to_string_lossy().into_owned());
        let stat = fs::read_to_string(self.proc("stat")).unwrap_or_default();
        let processors = stat
            .lines()
            .filter(|line| {
                line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            })
            .count();
        let model = ["firmware/devicetree/base/model", "class/dmi/id/product_name"]
            .iter()
            .find_map(|place| read_text(&self.sys(place)));
        Host {
            name: text(uname.nodename()),
            model,
            kernel: text(uname.release()),
            architecture: text(uname.machine()),
            processors: u32::try_from(processors).ok().filter(|&count| count > 0),
            memory_bytes: memory(&fs::read_to_string(self.proc("meminfo")).unwrap_or_default(), "MemTotal"),
        }
    }

    /// Returns the machine's hardware and distribution.
    pub fn hardware(&self) -> Hardware {
        let cpuinfo = fs::read_to_string(self.proc("cpuinfo")).unwrap_or_default();
        let field = |name: &str| {
            let (_, value) = cpuinfo
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| key.trim() == name)?;
            Some(value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
        let release = fs::read_to_string(self.file("etc/os-release")).unwrap_or_default();
        let distribution = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        Hardware {
            board: self.board().or_else(|| field("Model")),
            cpu: field("model name")
                .or_else(|| field("Hardware"))
                .or_else(|| read_text(&self.proc("device-tree/compatible"))),
            cpus: u32::try_from(cpus).ok().filter(|count| *count > 0),
            distribution: distribution.map(|name| name.trim_matches('"').to_owned()),
            is_virtual: self.is_virtual(&cpuinfo),
        }
    }

    fn board(&self) -> Option<String> {
        read_text(&self.proc("device-tree/model")).or_else(|| {
            let vendor = read_text(&self.sys("class/dmi/id/sys_vendor"));
            let product = read_text(&self.sys("class/dmi/id/product_name"))?;
            let vendor = vendor.filter(|vendor| !product.starts_with(vendor.as_str()));
            Some(vendor.map_or_else(|| product.clone(), |vendor| format!("{vendor} {product}")))
        })
    }

    fn is_virtual(&self, cpuinfo: &str) -> Option<bool> {
        let flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
        let says_hypervisor = flags.flat_map(str::split_whitespace).any(|flag| flag == "hypervisor");
        let firmware = ["class/dmi/id/sys_vendor", "class/dmi/id/product_name", "hypervisor/type"]
            .map(|file| read_text(&self.sys(file)));
        let is_known = firmware.iter().flatten().any(|text| VIRTUAL.iter().any(|maker| text.contains(maker)));
        // Without a sign of a hypervisor, the machine is known to be real only if it has processor flags (on
        // x86, they would show a hypervisor) or a device tree.
        let says_something = cpuinfo.contains("flags") || self.proc("device-tree/model").exists();
        (says_hypervisor || is_known || says_something).then_some(says_hypervisor || is_known)
    }
}
