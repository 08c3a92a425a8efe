//! `cargo xtask dist test`: installs the packages in a new Debian of each architecture, uses the program, and removes it.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use fonio_lab::{Architecture, Archive, System, SystemOptions};

use crate::lab_system::text;
use crate::process;

/// What is done, what its output must contain, and what is wrong otherwise.
const STEPS: [(&str, &str, &str); 9] = [
    ("dpkg -i /root/fonio.deb", "Setting up fonio", "the package is installed"),
    ("fonio --version", "fonio ", "the program runs"),
    ("fonio", "", "the status card is printed"),
    (
        "test -s /usr/share/man/man1/fonio-check.1.gz && zcat /usr/share/man/man1/fonio.1.gz | head -3",
        "fonio",
        "manual pages",
    ),
    (
        "bash -c '. /usr/share/bash-completion/completions/fonio && complete -p fonio'",
        "fonio",
        "completions of bash",
    ),
    (
        "fonio record -o /root/rec -- dd if=/dev/zero of=/root/file bs=64k count=64 oflag=sync 2>&1",
        "",
        "a recording",
    ),
    ("fonio report /root/rec", "torage", "a report with a verdict"),
    ("fonio fix swappiness=10 --keep && fonio fix --undo", "-> 60", "a setting is kept and undone"),
    ("dpkg --purge fonio && ! ls /usr/bin/fonio 2>/dev/null && echo gone", "gone", "the package is removed"),
];

/// Runs all steps in a guest of each architecture.
pub fn run(packages: &[(Architecture, PathBuf)]) -> Result<()> {
    let stop = process::outlive_signals()?;
    let archive = Archive::open()?;
    let mut broken = 0;
    for (architecture, package) in packages {
        let options = SystemOptions { architecture: *architecture, ..SystemOptions::default() };
        let mut system = System::start(&archive, &options, &|text| eprintln!("{text}"), &stop)?;
        println!("\nIn Debian on {architecture}, with Linux {}:\n", system.release());
        broken += steps(&mut system, package)?;
    }
    if broken > 0 {
        bail!("{broken} steps failed");
    }
    Ok(())
}

fn steps(system: &mut System<'_>, package: &Path) -> Result<u32> {
    system.put(package, "/root/fonio.deb")?;
    let mut broken = 0;
    for (script, wanted, what) in STEPS {
        process::check_signals()?;
        let found = text(system, script);
        let holds = found.as_ref().is_ok_and(|text| text.contains(wanted));
        println!("{what:<32} {}", if holds { "yes" } else { "NO *" });
        if !holds {
            broken += 1;
            println!("$ {script}\n{}", found.unwrap_or_else(|error| format!("{error:#}")));
        }
    }
    Ok(broken)
}
