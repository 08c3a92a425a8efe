//! `cargo xtask dist test`: installs the packages in a new Debian of each architecture, uses the programs, and removes them.
//!
//! Before that, QEMU executes the programs for foreign processors here, with the minimum processor for each:
//! a guest has a newer one, which would also execute instructions that an old board lacks.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use fonio_lab::{Architecture, SystemOptions};

use super::Made;
use crate::lab::steps::{self, Step, Steps, all_kept, in_debian, text};
use crate::{process, tools};

/// A trace of the repository, which the programs explain.
const TRACE: &str = "crates/fonio-trace/tests/data/ftrace-6.18.txt";
/// The places of the files in a guest.
const FONIO: &str = "/root/fonio.deb";
const RECORDER: &str = "/root/fonio-recorder.deb";
const TRACE_THERE: &str = "/root/trace.txt";
/// Lists the files that a package could leave behind: all files except those in memory, and those of dpkg and
/// systemd.
const FILES: &str = "find / -xdev \\( -path /proc -o -path /sys -o -path /run -o -path /tmp -o -path /root -o -path /var/log \
    -o -path /var/cache -o -path /var/tmp -o -path /var/lib/dpkg -o -path /var/lib/systemd \\) -prune -o -print | sort";

const STEPS: [Step<'_>; 20] = [
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
    ("fonio report /root/trace.txt", "torage", "a trace of another machine is explained"),
    (
        "fonio import /root/trace.txt -o /root/imported && fonio report /root/imported",
        "torage",
        "the trace becomes a recording",
    ),
    (
        "fonio record -o /root/rec -- dd if=/dev/zero of=/root/file bs=64k count=64 oflag=sync 2>&1",
        "",
        "a recording",
    ),
    ("fonio report /root/rec", "torage", "a report with a verdict"),
    ("fonio export --format csv /root/rec | grep -c ,write,", "", "the recording has the writes"),
    ("fonio fix apply swappiness=10 --keep && fonio fix undo", "-> 60", "a setting is kept and undone"),
    ("fonio watch install", "The watch runs", "the watch is a service"),
    (REPORT_OF_WATCH, "/root/watched", "it says which file was written"),
    (
        "fonio watch uninstall --purge && ! systemctl is-active fonio-watch && echo gone",
        "gone",
        "it is removed with its history",
    ),
    ("dpkg -i /root/fonio-recorder.deb", "Setting up fonio-recorder", "the recorder is installed"),
    ("fonio-recorder --help", "--spill-to", "the recorder runs"),
    (
        "fonio-recorder -o /root/small -- dd if=/dev/zero of=/root/file bs=64k count=64 oflag=sync 2>&1",
        "Recorded",
        "a recording of the recorder alone",
    ),
    ("fonio report /root/small", "torage", "fonio explains it"),
    (
        "dpkg --purge fonio fonio-recorder && ! ls /usr/bin/fonio* 2>/dev/null && echo gone",
        "gone",
        "the packages are removed",
    ),
    ("diff /root/before /root/after && echo same || true", "same", "nothing is left behind"),
];

const REPORT_OF_WATCH: &str =
    "dd if=/dev/zero of=/root/watched bs=1M count=8 conv=fsync 2>/dev/null; sleep 65; fonio watch report";
/// A part of the watch's report on 32-bit ARM instead.
pub const WATCH_OF_32_BITS: &str = "only long waits are seen";

/// A further step on 32-bit ARM, while the package is installed.
const STEP_OF_32_BITS: Step<'_> = (
    "fonio record --for 2s -o /root/no-bpf 2>&1; fonio report --all /root/no-bpf",
    "BPF programs for x86-64 and 64-bit ARM only",
    "the recording says why it is without BPF",
);

/// Runs all steps: of each program that QEMU executes here, and of each package in a guest.
pub fn run(all: &[Made]) -> Result<()> {
    process::outlive_signals()?;
    let mut broken = 0;
    for made in all {
        broken += emulated(made)?;
    }
    for made in all {
        let options = SystemOptions { architecture: made.target.debian, ..SystemOptions::default() };
        let title = format!("The packages for {}", made.target);
        broken += in_debian(&title, &options, |steps| packages(steps, made))?;
    }
    all_kept(broken)
}

fn packages(steps: &mut Steps<'_, '_>, made: &Made) -> Result<()> {
    let trace = process::root().join(TRACE);
    for (file, place) in [
        (made.package.as_path(), FONIO),
        (made.recorder_package.as_path(), RECORDER),
        (trace.as_path(), TRACE_THERE),
    ] {
        steps.system.put(file, place)?;
    }
    text(steps.system, &format!("{FILES} >/root/before"))?;
    let is_32_bits = made.target.debian == Architecture::Armhf;
    // This runs before the recorder is installed and both are removed.
    let (before, after) = STEPS.split_at(STEPS.len() - 6);
    let further = is_32_bits.then_some(STEP_OF_32_BITS);
    for (script, wanted, what) in before.iter().copied().chain(further).chain(after.iter().copied()) {
        if wanted == "same" {
            text(steps.system, &format!("{FILES} >/root/after"))?;
        }
        let wanted = if is_32_bits && script == REPORT_OF_WATCH { WATCH_OF_32_BITS } else { wanted };
        steps.step((script, wanted, what));
    }
    Ok(())
}

/// Runs the programs with QEMU's emulation of the target's minimum processor. Returns how many steps failed.
fn emulated(made: &Made) -> Result<u32> {
    let Some(emulator) = made.target.emulator() else { return Ok(0) };
    tools::ensure(&[tools::EMULATED])?;
    let processor = made.target.emulated;
    println!(
        "\nThe programs for {}, executed by {emulator}{}:\n",
        made.target,
        processor.map(|name| format!(" as a {name}")).unwrap_or_default()
    );
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    let imported = folder.path().join("imported").display().to_string();
    let trace = process::root().join(TRACE).display().to_string();
    let run = |program: &Path, words: &[&str]| {
        let mut command = Command::new(emulator);
        command.args(processor.map(|name| ["-cpu", name]).into_iter().flatten());
        super::output(command.arg(program).args(words).stdin(Stdio::null()))
    };
    let mut broken = 0;
    for (program, words, wanted, what) in [
        (&made.program, &["--version"][..], "fonio ", "the program runs"),
        (&made.program, &[], "", "the status card is printed"),
        (&made.program, &["report", &trace], "torage", "a trace of another machine is explained"),
        (&made.program, &["import", &trace, "-o", &imported], "", "the trace becomes a recording"),
        (&made.program, &["report", &imported], "torage", "the recording is explained"),
        (&made.program, &["device", "verify"], "", "the device models run"),
        (&made.recorder, &["--help"], "--spill-to", "the recorder runs"),
    ] {
        process::check_signals()?;
        let (holds, found) = steps::contains(run(program, words), wanted);
        let script = format!("$ {} {}", program.display(), words.join(" "));
        broken += u32::from(!steps::shown(what, holds, &format!("{script}\n{found}")));
    }
    // The same input gives the same answer, to the byte, as on this machine's own processor.
    let own = process::target().join("debug/fonio");
    if own.exists() {
        let words = ["report", "--json", &trace];
        let (here, there) = (super::output(Command::new(&own).args(words))?, run(&made.program, &words)?);
        broken += u32::from(!steps::shown("the answer is that of this machine", here == there, &there));
    }
    Ok(broken)
}
