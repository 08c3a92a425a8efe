//! `cargo xtask bench attribution --lab`: how much fonio attributes rightly in a whole Debian, where the writers are units
//! of systemd and a container of Podman.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use fonio_lab::{Archive, System, SystemOptions};

use crate::{process, tools};

const EXAMPLE: &str = "attribution";
const FILE_SYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// The options for what lies between the file system and the disks, and the program's words for them.
const STACKS: [(&str, &str); 3] =
    [("--on-lvm", "lvm"), ("--on-luks", "luks"), ("--on-lvm-on-luks", "lvm-on-luks")];
const PACKAGES: [&str; 5] = ["podman", "xfsprogs", "btrfs-progs", "lvm2", "cryptsetup-bin"];
const DISK_BYTES: u64 = 1 << 30;
const MEMORY_MIB: u64 = 1536;
/// Makes an image of the program and of the guest's libraries that it needs. No registry of images is reached.
const IMAGE: &str = "set -e; cd /root; chmod +x attribution; mkdir image; cp attribution image; \
    cp --parents --dereference $(ldd attribution | grep -o '/[^ ]*') image; \
    tar -cf image.tar -C image .; podman import --quiet image.tar localhost/attribution";

/// `cargo xtask bench attribution --lab [--on-lvm] [--on-luks] [--on-lvm-on-luks] [FILE-SYSTEM…]`.
pub fn run(arguments: &[String]) -> Result<()> {
    let (mut stacks, mut file_systems) = (Vec::new(), Vec::new());
    for word in arguments {
        match STACKS.iter().find(|(option, _)| option == word) {
            Some((_, stack)) => stacks.push(*stack),
            None if FILE_SYSTEMS.contains(&word.as_str()) => file_systems.push(word.as_str()),
            None => bail!("unknown file system `{word}`; use {}", FILE_SYSTEMS.join(", ")),
        }
    }
    if stacks.is_empty() {
        stacks.push("disk");
    }
    if file_systems.is_empty() {
        file_systems.extend(FILE_SYSTEMS);
    }
    tools::ensure(&[tools::BUILD, tools::GUEST, tools::SYSTEM_GUEST])?;
    // No time is measured, so the quicker build serves.
    process::run(process::cargo().args(["build", "--package", "fonio-record", "--example", EXAMPLE]))?;
    let program = process::target().join("debug/examples").join(EXAMPLE);
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
    prepare(&mut system, &program)?;
    for (stack, fs) in stacks.iter().flat_map(|stack| file_systems.iter().map(move |fs| (stack, fs))) {
        process::check_signals()?;
        let [first, second] = [1, 2].map(|number| format!("/dev/disk/by-id/virtio-disk{number}"));
        let out = system.run(&["/root/attribution", "guest", fs, stack, &first, &second])?;
        print!("{}", String::from_utf8_lossy(&out.stdout));
        println!();
        eprint!("{}", String::from_utf8_lossy(&out.stderr));
        ensure!(out.code == 0, "the program failed in the guest with exit code {}", out.code);
    }
    Ok(system.stop()?)
}

fn prepare(system: &mut System<'_>, program: &Path) -> Result<()> {
    system.put(program, "/root/attribution")?;
    let made = system.run(&["sh", "-c", IMAGE])?;
    ensure!(made.code == 0, "no image was made: {}", String::from_utf8_lossy(&made.stderr));
    Ok(())
}
