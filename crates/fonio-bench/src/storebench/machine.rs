//! Describes the device and the machine of a run, from sysfs and procfs.
//!
//! Files with serial numbers (`cid`, `serial`, `wwid`, `product_serial`) are never opened, so a description cannot have one.

use std::fs;
use std::path::{Path, PathBuf};

use fonio_storebench_document::check::private;
use fonio_storebench_document::document::{Device, DeviceKind, Machine, TEXT_MAX};

use crate::place::Place;

/// The root of the file systems that describe the machine; another one in tests.
#[derive(Clone, Debug)]
pub struct Sources {
    root: PathBuf,
    /// The machine's own name, which is taken out of every text.
    host_name: String,
}

impl Sources {
    /// Those of this machine.
    pub fn here() -> Sources {
        let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Sources { root: PathBuf::from("/"), host_name }
    }

    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let path = path.as_ref();
        let path = path.strip_prefix("/").unwrap_or(path);
        // Strings of the device tree end with a zero byte.
        let bytes = fs::read(self.root.join(path)).ok()?;
        self.clean(&String::from_utf8_lossy(&bytes))
    }

    /// Takes out what a result must not have: control characters, the machine's name, everything that looks like a path or
    /// a serial number. Returns `None` if nothing is left.
    fn clean(&self, text: &str) -> Option<String> {
        let mut text: String =
            text.trim_matches(['\0', '\n', ' ']).chars().filter(|c| !c.is_control()).collect();
        // A shorter name is likely to be part of a word.
        if self.host_name.len() >= 4 {
            text = text.replace(&self.host_name, "");
        }
        let text: String =
            text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TEXT_MAX).collect();
        (!text.is_empty() && private(&text).is_none()).then_some(text)
    }
}

/// Describes the machine, and the file system of `place`.
pub fn machine(sources: &Sources, place: &Place) -> Machine {
    let cpuinfo = fs::read_to_string(sources.root.join("proc/cpuinfo")).unwrap_or_default();
    let field = |name: &str| {
        let line =
            cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        sources.clean(line.split_once(':')?.1)
    };
    let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let release = fs::read_to_string(sources.root.join("etc/os-release")).unwrap_or_default();
    let distribution = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .and_then(|name| sources.clean(name.trim_matches('"')));
    Machine {
        board: board(sources).or_else(|| field("Model")),
        cpu: field("model name")
            .or_else(|| field("Hardware"))
            .or_else(|| sources.text("proc/device-tree/compatible")),
        cpus: u32::try_from(cpus).ok().filter(|count| *count > 0),
        kernel: sources.clean(&place.kernel).unwrap_or_else(|| "unknown".to_owned()),
        distribution,
        virtual_machine: is_virtual(sources, &cpuinfo),
        mount_options: place.mount_options.iter().filter(|option| changes_speed(option)).cloned().collect(),
        encryption: place.encryption.clone(),
        compression: place.compression.clone(),
        caches_dropped: false,
    }
}

fn board(sources: &Sources) -> Option<String> {
    let of_tree = sources.text("proc/device-tree/model");
    of_tree.or_else(|| {
        let vendor = sources.text("sys/class/dmi/id/sys_vendor");
        let product = sources.text("sys/class/dmi/id/product_name")?;
        let text = vendor.filter(|vendor| !product.starts_with(vendor.as_str()));
        sources.clean(&text.map_or_else(|| product.clone(), |vendor| format!("{vendor} {product}")))
    })
}

/// Makers of virtual machines, as firmware names them.
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

fn is_virtual(sources: &Sources, cpuinfo: &str) -> Option<bool> {
    let says_hypervisor = cpuinfo
        .lines()
        .any(|line| line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor"));
    let firmware = [
        sources.text("sys/class/dmi/id/sys_vendor"),
        sources.text("sys/class/dmi/id/product_name"),
        sources.text("sys/hypervisor/type"),
    ];
    let known = firmware.iter().flatten().any(|text| VIRTUAL.iter().any(|maker| text.contains(maker)));
    // Firmware of x86 sets the flag; on other processors only a device tree speaks of the machine.
    let says_something = cpuinfo.contains("flags") || sources.root.join("proc/device-tree/model").exists();
    (says_hypervisor || known || says_something).then_some(says_hypervisor || known)
}

/// Mount options that change speed. Others can have paths and names.
const OPTIONS: [&str; 32] = [
    "noatime",
    "relatime",
    "nodiratime",
    "lazytime",
    "sync",
    "dirsync",
    "discard",
    "nodiscard",
    "barrier",
    "nobarrier",
    "data",
    "commit",
    "journal_checksum",
    "journal_async_commit",
    "delalloc",
    "nodelalloc",
    "auto_da_alloc",
    "noauto_da_alloc",
    "ssd",
    "nossd",
    "compress",
    "compress-force",
    "compress_algorithm",
    "nodatacow",
    "nodatasum",
    "autodefrag",
    "fsync_mode",
    "active_logs",
    "inline_data",
    "checkpoint_merge",
    "flush",
    "logbsize",
];

fn changes_speed(option: &str) -> bool {
    let name = option.split('=').next().unwrap_or(option);
    OPTIONS.contains(&name) && private(option).is_none() && option.len() <= TEXT_MAX
}

/// Describes the device below `place`.
pub fn device(sources: &Sources, place: &Place) -> Device {
    let mut device = Device {
        kind: DeviceKind::Other,
        model: None,
        manufacturer: None,
        manufacturer_id: None,
        oem_id: None,
        firmware: None,
        hardware: None,
        made: None,
        capacity_bytes: place.size_bytes.max(1),
        bus: None,
        bus_limit_mb_s: None,
        scheduler: place.scheduler.as_deref().and_then(|name| sources.clean(name)),
    };
    let Some(name) = place.device.as_deref() else { return device };
    let Some(dir) = lowest(&sources.root, name) else { return device };
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // sysfs uses units of 512 bytes for all devices.
    if let Some(sectors) =
        read(&dir.join("size")).and_then(|text| text.parse::<u64>().ok()).filter(|size| *size > 0)
    {
        device.capacity_bytes = sectors.saturating_mul(512);
    }
    device.scheduler = read(&dir.join("queue/scheduler"))
        .as_deref()
        .and_then(|line| line.split_once('[')?.1.split_once(']').map(|(word, _)| word.to_owned()))
        .or(device.scheduler);
    let facts = Facts { sources, dir: &dir };
    if name.starts_with("mmcblk") {
        facts.mmc(&mut device);
    } else if name.starts_with("nvme") {
        facts.nvme(&mut device);
    } else if ["vd", "xvd", "ublkb", "loop", "nbd", "zram", "ram"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
    {
        device.kind = DeviceKind::Virtual;
    } else {
        facts.scsi(&mut device);
    }
    device
}

/// Whether the device of `place` is emulated by a program: a ublk device, or a loop device over fonio's image. A model of
/// fonio that is served in another way looks like a device.
pub fn is_emulated(place: &Place) -> bool {
    let Some(name) = place.device.as_deref() else { return false };
    let backing = || read(&Path::new("/sys/class/block").join(name).join("loop/backing_file"));
    name.starts_with("ublkb")
        || (name.starts_with("loop") && backing().is_some_and(|file| file.contains(EMULATED_FOLDER)))
}

/// The images of emulated devices are below a folder of this name.
const EMULATED_FOLDER: &str = "/fonio";

fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Limit of the depth of device-mapper stacks, in case of a loop.
const STACK_MAX: u32 = 8;

/// The folder of the whole device below a stack of devices, if each level has one device below.
fn lowest(root: &Path, name: &str) -> Option<PathBuf> {
    let of = |name: &str| fs::canonicalize(root.join("sys/class/block").join(name)).ok();
    let mut dir = of(name)?;
    for _ in 0..STACK_MAX {
        if dir.join("partition").exists() {
            dir = dir.parent()?.to_owned();
        }
        let below: Vec<_> = fs::read_dir(dir.join("slaves")).ok().into_iter().flatten().flatten().collect();
        match &below[..] {
            [one] => dir = of(&one.file_name().to_string_lossy())?,
            _ => break,
        }
    }
    Some(dir)
}

/// Reads the facts of one device.
struct Facts<'a> {
    sources: &'a Sources,
    dir: &'a Path,
}

impl Facts<'_> {
    fn text(&self, path: &str) -> Option<String> {
        self.sources.clean(&read(&self.dir.join(path))?)
    }

    /// eMMC and SD: the fields of the CID register, without the serial number.
    fn mmc(&self, device: &mut Device) {
        device.kind = match self.text("device/type").as_deref() {
            Some("SD") => DeviceKind::Sd,
            _ => DeviceKind::Emmc,
        };
        device.model = self.text("device/name");
        device.manufacturer_id = self.text("device/manfid");
        device.oem_id = self.text("device/oemid");
        device.firmware = self.text("device/fwrev");
        device.hardware = self.text("device/hwrev");
        device.made = self.text("device/date");
        let host = self.dir.ancestors().find_map(|dir| {
            let name = dir.file_name()?.to_string_lossy().into_owned();
            let digits = name.strip_prefix("mmc")?;
            (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
        });
        let ios =
            host.and_then(|host| read(&self.sources.root.join("sys/kernel/debug").join(host).join("ios")));
        if let Some((bus, limit)) = ios.as_deref().and_then(mmc_bus) {
            device.bus = self.sources.clean(&bus);
            device.bus_limit_mb_s = Some(limit);
        }
    }

    fn nvme(&self, device: &mut Device) {
        device.kind = DeviceKind::Nvme;
        device.model = self.text("device/model");
        device.firmware = self.text("device/firmware_rev");
        let (speed, width) =
            (self.text("device/device/current_link_speed"), self.text("device/device/current_link_width"));
        if let (Some(speed), Some(width)) = (speed, width) {
            let rate: Option<f64> = speed.split_whitespace().next().and_then(|number| number.parse().ok());
            device.bus_limit_mb_s =
                rate.zip(width.parse::<f64>().ok()).map(|(rate, width)| pcie_mb_s(rate) * width);
            device.bus = self.sources.clean(&format!("{} x{width}", speed.replace(" PCIe", "")));
        }
    }

    /// SATA, UFS and USB devices all look like SCSI disks.
    fn scsi(&self, device: &mut Device) {
        let path = self.dir.to_string_lossy().into_owned();
        let usb_speed = self.dir.ancestors().find_map(|dir| {
            dir.join("idVendor").exists().then(|| read(&dir.join("speed"))?.parse::<f64>().ok()).flatten()
        });
        device.kind = if path.contains("ufs") {
            DeviceKind::Ufs
        } else if path.contains("/usb") {
            DeviceKind::Usb
        } else {
            match (self.dir.join("device").exists(), read(&self.dir.join("queue/rotational")).as_deref()) {
                (true, Some("1")) => DeviceKind::HardDisk,
                (true, Some("0")) => DeviceKind::SolidState,
                _ => DeviceKind::Other,
            }
        };
        device.model = self.text("device/model");
        device.manufacturer = self.text("device/vendor").filter(|vendor| vendor != "ATA");
        device.firmware = self.text("device/rev");
        if let Some(speed) = usb_speed {
            device.bus = self.sources.clean(&format!("USB {speed:.0} Mbit/s"));
            device.bus_limit_mb_s = Some(usb_mb_s(speed));
        }
    }
}

/// Bytes per second of one PCIe lane in 10⁶, after its line code: 8b/10b up to 5 GT/s, then 128b/130b.
fn pcie_mb_s(giga_transfers: f64) -> f64 {
    let code = if giga_transfers <= 5.0 { 0.8 } else { 128.0 / 130.0 };
    giga_transfers * 1000.0 / 8.0 * code
}

/// Bytes per second of a USB port in 10⁶: 8b/10b at 5 Gbit/s, 128b/132b above.
fn usb_mb_s(mega_bits: f64) -> f64 {
    let code = match mega_bits {
        _ if mega_bits <= 480.0 => 1.0,
        _ if mega_bits <= 5000.0 => 0.8,
        _ => 128.0 / 132.0,
    };
    mega_bits / 8.0 * code
}

/// The speed mode and the limit, from the `ios` file that the kernel has in debugfs for each MMC host.
fn mmc_bus(ios: &str) -> Option<(String, f64)> {
    let field = |name: &str| {
        let line = ios.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let clock: f64 =
        field("actual clock").or_else(|| field("clock"))?.split_whitespace().next()?.parse().ok()?;
    let timing = field("timing spec")?;
    let mode = timing
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'))
        .map_or(timing.as_str(), |(mode, _)| mode);
    let width = field("bus width")?;
    let bits: f64 = width.split_once('(')?.1.split_whitespace().next()?.parse().ok()?;
    let twice = mode.contains("DDR") || mode.contains("HS400");
    let limit = clock * bits / 8.0 / 1e6 * if twice { 2.0 } else { 1.0 };
    (limit > 0.0).then(|| (format!("{mode}, {bits:.0} bit, {:.0} MHz", clock / 1e6), limit))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }

    /// A machine with a card behind LUKS; its files with serial numbers exist.
    fn card(root: &Path) -> Place {
        let host = root.join("sys/devices/platform/soc/mmc_host/mmc0/mmc0:aaaa");
        let block = host.join("block/mmcblk0");
        for (name, text) in [
            ("type", "SD\n"),
            ("name", "SC32G\n"),
            ("manfid", "0x000003\n"),
            ("oemid", "0x5344\n"),
            ("fwrev", "0x0\n"),
            ("hwrev", "0x8\n"),
            ("date", "05/2023\n"),
            ("serial", "0x12345678\n"),
            ("cid", "03534453433332478012345678017501\n"),
        ] {
            write(host.join(name), text);
        }
        write(block.join("size"), "62333952\n");
        write(block.join("queue/scheduler"), "none [mq-deadline] bfq\n");
        write(block.join("mmcblk0p2/partition"), "2\n");
        symlink(&host, block.join("device")).expect("a link");
        let dm = root.join("sys/devices/virtual/block/dm-0");
        write(dm.join("size"), "1000\n");
        fs::create_dir_all(dm.join("slaves/mmcblk0p2")).expect("it can be made");
        fs::create_dir_all(root.join("sys/class/block")).expect("it can be made");
        for (name, to) in [("mmcblk0", block.clone()), ("mmcblk0p2", block.join("mmcblk0p2")), ("dm-0", dm)] {
            symlink(to, root.join("sys/class/block").join(name)).expect("a link");
        }
        write(
            root.join("sys/kernel/debug/mmc0/ios"),
            "clock:\t\t208000000 Hz\nactual clock:\t200000000 Hz\nbus width:\t2 (4 bits)\ntiming spec:\t6 (sd uhs SDR104)\n",
        );
        write(root.join("proc/device-tree/model"), "Raspberry Pi 4 Model B Rev 1.4\0");
        write(root.join("proc/cpuinfo"), "processor\t: 0\nprocessor\t: 1\nmodel name\t: ARMv7 of annspi\n");
        write(root.join("etc/os-release"), "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
        Place {
            kernel: "6.1.21-v8+".to_owned(),
            device: Some("dm-0".to_owned()),
            size_bytes: 1,
            mount_options: ["rw", "noatime", "commit=30", "usrjquota=/home/aquota", "subvol=/ann"]
                .map(str::to_owned)
                .to_vec(),
            encryption: Some("dm-crypt".to_owned()),
            ..Place::default()
        }
    }

    #[test]
    fn a_card_is_described_without_serial_numbers() {
        let root = tempfile::tempdir().expect("a folder");
        let place = card(root.path());
        let sources = Sources { root: root.path().to_owned(), host_name: "annspi".to_owned() };
        let found = device(&sources, &place);
        assert_eq!((found.kind, found.capacity_bytes), (DeviceKind::Sd, 62333952 * 512));
        assert_eq!(found.model.as_deref(), Some("SC32G"));
        assert_eq!(
            (found.manufacturer_id.as_deref(), found.made.as_deref()),
            (Some("0x000003"), Some("05/2023"))
        );
        assert_eq!(
            (found.bus.as_deref(), found.bus_limit_mb_s),
            (Some("sd uhs SDR104, 4 bit, 200 MHz"), Some(100.0))
        );
        assert_eq!(found.scheduler.as_deref(), Some("mq-deadline"));
        let here = machine(&sources, &place);
        assert_eq!(here.board.as_deref(), Some("Raspberry Pi 4 Model B Rev 1.4"));
        assert_eq!((here.cpu.as_deref(), here.cpus), (Some("ARMv7 of"), Some(2)));
        assert_eq!(here.distribution.as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(here.mount_options, ["noatime", "commit=30"]);
        assert_eq!(here.virtual_machine, Some(false));
        let text = format!("{found:?} {here:?}");
        assert!(!text.contains("12345678") && !text.contains("annspi"), "{text}");
    }

    #[test]
    fn limits_of_buses() {
        assert_eq!(usb_mb_s(480.0), 60.0);
        assert_eq!(usb_mb_s(5000.0), 500.0);
        assert_eq!(pcie_mb_s(5.0), 500.0);
        assert_eq!(pcie_mb_s(8.0).round(), 985.0);
        let hs400 = "clock:\t\t200000000 Hz\nbus width:\t3 (8 bits)\ntiming spec:\t10 (mmc HS400)\n";
        assert_eq!(mmc_bus(hs400), Some(("mmc HS400, 8 bit, 200 MHz".to_owned(), 400.0)));
        assert_eq!(mmc_bus("clock:\t\t0 Hz\n"), None);
    }
}
