//! Describes the device and the machine on which StoreBench runs.
//!
//! A description contains no serial numbers, because `fonio-machine` never opens files with serial numbers.

use std::ffi::OsStr;
use std::path::PathBuf;

use fonio_core::untrusted::is_foreign;
use fonio_core::{DeviceId, DeviceIdentity};
use fonio_machine::{Machine as Here, read_text, storage_devices};
use fonio_storebench_document::check::private;
use fonio_storebench_document::document::{Health, Machine, Mode, Origin, TEXT_MAX};

use super::models;
use super::run::Circumstances;
use super::schedule::Settings;
use crate::fio::Fio;
use crate::place::Place;

#[derive(Clone, Debug)]
struct Sources {
    machine: Here,
    /// The host name, which is removed from all texts of the document.
    host_name: String,
}

impl Sources {
    fn here() -> Sources {
        let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Sources { machine: Here::here(), host_name }
    }

    /// Removes control characters, the host name, and everything that looks like a path or a serial number.
    /// Returns `None` if no text is left.
    fn clean(&self, text: &str) -> Option<String> {
        let mut text: String =
            text.trim_matches(['\0', '\n', ' ']).chars().filter(|c| !is_foreign(*c)).collect();
        // A shorter host name may also occur as part of a word.
        if self.host_name.len() >= 4 {
            text = text.replace(&self.host_name, "");
        }
        let text: String =
            text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TEXT_MAX).collect();
        (!text.is_empty() && private(&text).is_none()).then_some(text)
    }
}

/// The name of the measuring program, and its start time.
#[derive(Clone, Debug)]
pub struct Began {
    /// The word `fonio` with the version.
    pub tool: String,
    /// Start time in seconds since 1970.
    pub unix_s: u64,
}

/// Describes the circumstances of a run at `place`. `profile` is the device profile that an emulated device
/// uses, if any.
pub fn circumstances(
    target: PathBuf,
    settings: Settings,
    began: Began,
    fio: &Fio,
    place: &Place,
    profile: Option<&str>,
) -> Circumstances {
    let sources = Sources::here();
    let mut device = device(&sources, place);
    if let Some(profile) = profile {
        let scheduler = device.scheduler.take();
        device = DeviceIdentity { scheduler, ..models::modelled(profile, device.capacity_bytes) };
    }
    let is_emulated = profile.is_some() || is_emulated(&sources, place);
    let file_system = match settings.mode {
        Mode::Directory => file_system_word(place.file_system.as_deref().unwrap_or("unknown")),
        Mode::Device | Mode::DeviceReadOnly => "none".to_owned(),
    };
    Circumstances {
        target,
        settings,
        tool: began.tool,
        engine: fio.version.clone(),
        began_unix_s: began.unix_s,
        origin: if is_emulated { Origin::Emulated } else { Origin::Measured },
        file_system,
        machine: machine(&sources, place),
        health: health(place),
        device,
    }
}

/// Converts the name of a file system to a part of a key: `fuse.sshfs` becomes `fuse_sshfs`.
fn file_system_word(name: &str) -> String {
    let word = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
    name.chars().take(16).map(word).collect()
}

/// Returns warnings about the results of a run at `place`. An emulated device gets no warnings, because its
/// loop device is expected.
pub fn notes(place: &Place) -> Vec<String> {
    if is_emulated(&Sources::here(), place) { Vec::new() } else { place.warnings() }
}

fn health(place: &Place) -> Option<Health> {
    let name = place.device.as_deref()?;
    let devices = storage_devices();
    let found = devices.iter().find(|device| device.device.name.as_deref() == Some(name))?;
    let health = found.health.as_ref()?;
    let percent = |life: Option<u32>| life.and_then(|life| u8::try_from(life).ok());
    let health = Health {
        life_used_percent: percent(health.life_used_percent),
        life_used_b_percent: percent(health.life_used_b_percent),
        reserved_blocks: health.reserved_blocks.clone(),
    };
    (health != Health::default()).then_some(health)
}

fn machine(sources: &Sources, place: &Place) -> Machine {
    let hardware = sources.machine.hardware();
    let clean = |text: Option<String>| sources.clean(&text?);
    Machine {
        board: clean(hardware.board),
        cpu: clean(hardware.cpu),
        cpus: hardware.cpus,
        kernel: sources.clean(&place.kernel).unwrap_or_else(|| "unknown".to_owned()),
        distribution: clean(hardware.distribution),
        virtual_machine: hardware.is_virtual,
        mount_options: place.mount_options.iter().filter(|option| changes_speed(option)).cloned().collect(),
        encryption: place.encryption.clone(),
        compression: place.compression.clone(),
        caches_dropped: false,
    }
}

fn device(sources: &Sources, place: &Place) -> DeviceIdentity {
    let identity = device_of(&sources.machine, place).and_then(|id| sources.machine.identity(id));
    let unknown = DeviceIdentity { capacity_bytes: place.size_bytes.max(1), ..DeviceIdentity::default() };
    let mut found = identity.unwrap_or(unknown);
    found.scheduler = found.scheduler.or_else(|| place.scheduler.clone());
    for text in found.texts() {
        *text = text.take().and_then(|text| sources.clean(&text));
    }
    found
}

fn device_of(machine: &Here, place: &Place) -> Option<DeviceId> {
    machine.device_named(OsStr::new(place.device.as_deref()?))
}

/// Mount options that affect speed. Other mount options can contain paths and names, so the document omits
/// them.
const OPTIONS: &str = "noatime relatime nodiratime lazytime sync dirsync discard nodiscard barrier nobarrier data commit \
    journal_checksum journal_async_commit delalloc nodelalloc auto_da_alloc noauto_da_alloc ssd nossd compress \
    compress-force compress_algorithm nodatacow nodatasum autodefrag fsync_mode active_logs inline_data \
    checkpoint_merge flush logbsize";

fn changes_speed(option: &str) -> bool {
    let name = option.split('=').next().unwrap_or(option);
    OPTIONS.split(' ').any(|known| known == name) && private(option).is_none() && option.len() <= TEXT_MAX
}

/// Whether the device of `place` is emulated: a ublk device, or a loop device over fonio's image. A fonio
/// model that is served by other means looks like a real device.
fn is_emulated(sources: &Sources, place: &Place) -> bool {
    let machine = &sources.machine;
    let backing = || read_text(&machine.device_dir(device_of(machine, place)?).join("loop/backing_file"));
    place.device.as_deref().is_some_and(|name| name.starts_with("ublkb"))
        || backing().is_some_and(|file| file.contains(EMULATED_FOLDER))
}

/// Name of the folder that contains the folders of emulated devices' images.
const EMULATED_FOLDER: &str = "/fonio";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use fonio_core::DeviceKind;

    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }

    /// Creates a machine with a card behind LUKS, including files with serial numbers.
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
        for (name, dir, id) in [
            ("mmcblk0", block.clone(), "179:0"),
            ("mmcblk0p2", block.join("mmcblk0p2"), "179:2"),
            ("dm-0", dm.clone(), "252:0"),
        ] {
            write(dir.join("dev"), id);
            for link in [root.join("sys/class/block").join(name), root.join("sys/dev/block").join(id)] {
                fs::create_dir_all(link.parent().expect("a parent")).expect("it can be made");
                symlink(&dir, link).expect("a link");
            }
        }
        fs::create_dir(dm.join("slaves")).expect("it can be made");
        symlink(block.join("mmcblk0p2"), dm.join("slaves/mmcblk0p2")).expect("a link");
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
        let sources = Sources { machine: Here::at(root.path()), host_name: "annspi".to_owned() };
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
}
