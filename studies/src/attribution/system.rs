//! Runs the writers in a complete Debian. There, the writers are systemd units and a Podman container.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use fonio_lab::{Archive, System, SystemOptions};
use xtask::results::{Row, StudyResult};

use super::FILE_SYSTEMS;
use crate::{process, tools};

/// The supported layers between the file system and the disks.
pub const LAYERS: [&str; 3] = ["lvm", "luks", "lvm-on-luks"];
const PACKAGES: [&str; 5] = ["podman", "xfsprogs", "btrfs-progs", "lvm2", "cryptsetup-bin"];
const DISK_BYTES: u64 = 1 << 30;
const MEMORY_MIB: u64 = 1536;
/// A script that creates a container image from this program and its libraries, without a registry.
const IMAGE: &str = "set -e; cd /root; chmod +x attribution; mkdir image; cp attribution image; \
    cp --parents --dereference $(ldd attribution | grep -o '/[^ ]*') image; \
    tar -cf image.tar -C image .; podman import --quiet image.tar localhost/attribution";

/// Records the writers on each combination of file system and layer.
pub fn run(file_systems: &[String], layers: &[String]) -> Result<()> {
    let words = |given: &[String], default: &[&str]| -> Vec<String> {
        if given.is_empty() {
            default.iter().map(|word| (*word).to_owned()).collect()
        } else {
            given.to_vec()
        }
    };
    let (file_systems, layers) = (words(file_systems, &FILE_SYSTEMS), words(layers, &["disk"]));
    tools::ensure(&[tools::BUILD, tools::GUEST, tools::SYSTEM_GUEST])?;
    let folder = tempfile::tempdir_in(process::scratch("attribution")?)?;
    let program = fonio_lab::stripped(&std::env::current_exe()?, &folder.path().join("attribution"))?;
    let stop = process::outlive_signals()?;
    let archive = Archive::open()?;
    let announce = |text: &str| eprintln!("{text}");
    let options = SystemOptions {
        packages: PACKAGES.map(str::to_owned).to_vec(),
        memory_mib: MEMORY_MIB,
        disks: vec![DISK_BYTES; 2],
        ..SystemOptions::default()
    };
    let mut system = System::start(&archive, &options, &announce, &stop)?;
    println!("Linux {}, {}\n", system.release(), system.accelerator().described());
    let is_mapped = layers != ["disk"];
    let id = if is_mapped { "attribution-mapped" } else { "attribution-lab" };
    let on = if is_mapped { format!(" --on {}", layers.join(",")) } else { String::new() };
    let command = format!("cargo studies attribution {} --lab{on}", file_systems.join(" "));
    let title = format!("correctly attributed bytes in a complete Debian with Linux {}", system.release());
    let mut result = StudyResult::begin(id, &title, &command, &super::COLUMNS)?;
    prepare(&mut system, &program)?;
    for (layer, fs) in layers.iter().flat_map(|layer| file_systems.iter().map(move |fs| (layer, fs))) {
        process::check_signals()?;
        let [first, second] = [1, 2].map(|number| format!("/dev/disk/by-id/virtio-disk{number}"));
        let out = system.run(&["/root/attribution", super::ROLE, "guest", fs, layer, &first, &second])?;
        eprint!("{}", String::from_utf8_lossy(&out.stderr));
        ensure!(out.code == 0, "the program failed in the guest with exit code {}", out.code);
        for line in String::from_utf8_lossy(&out.stdout).lines() {
            let row: Row = serde_json::from_str(line).with_context(|| format!("`{line}` is not a row"))?;
            result.row(row.name, row.cells);
        }
    }
    let file_systems_wanted = if is_mapped { 2 } else { FILE_SYSTEMS.len() };
    let is_complete =
        file_systems.len() >= file_systems_wanted && (!is_mapped || layers.len() == LAYERS.len());
    result.keep(is_complete)?;
    Ok(system.stop()?)
}

fn prepare(system: &mut System<'_>, program: &Path) -> Result<()> {
    system.put(program, "/root/attribution")?;
    let made = system.run(&["sh", "-c", IMAGE])?;
    ensure!(made.code == 0, "no image was made: {}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}
