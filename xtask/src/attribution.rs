//! `cargo xtask bench attribution --lab`: how much fonio attributes rightly in a whole Debian, where the writers are units
//! of systemd and a container of Podman.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use fonio_lab::{Archive, System, SystemOptions};

use crate::{process, tools};

const EXAMPLE: &str = "attribution";
const FILE_SYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];
const PACKAGES: [&str; 3] = ["podman", "xfsprogs", "btrfs-progs"];
const DISK_BYTES: u64 = 1 << 30;
const MEMORY_MIB: u64 = 1536;
/// Makes an image of the program and of the guest's libraries that it needs. No registry of images is reached.
const IMAGE: &str = "set -e; cd /root; chmod +x attribution; mkdir image; cp attribution image; \
    cp --parents --dereference $(ldd attribution | grep -o '/[^ ]*') image; \
    tar -cf image.tar -C image .; podman import --quiet image.tar localhost/attribution";

/// `cargo xtask bench attribution --lab [FILE-SYSTEM…]`.
pub fn run(arguments: &[String]) -> Result<()> {
    if let Some(unknown) = arguments.iter().find(|word| !FILE_SYSTEMS.contains(&word.as_str())) {
        bail!("unknown file system `{unknown}`; use {}", FILE_SYSTEMS.join(", "));
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
        disks: vec![DISK_BYTES],
        ..SystemOptions::default()
    };
    let mut system = System::start(&archive, &options, &announce, &stop)?;
    println!("Linux {}, {}\n", system.release(), system.accelerator().described());
    prepare(&mut system, &program)?;
    let all = FILE_SYSTEMS.map(str::to_owned);
    for fs in if arguments.is_empty() { &all[..] } else { arguments } {
        process::check_signals()?;
        let disk = "/dev/disk/by-id/virtio-disk1";
        let out = system.run(&["/root/attribution", "guest", fs, disk])?;
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
