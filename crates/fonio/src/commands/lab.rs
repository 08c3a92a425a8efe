//! `fonio lab`, and the option `--in` of other commands: guests with Debian's kernels.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use fonio_lab::{Archive, Guest, Initramfs, Shape, Task, Wanted, stripped};
use serde::Serialize;

use crate::cli::emulate::Emulate;
use crate::cli::lab::Lab;
use crate::cli::run::SetupArgs;
use crate::commands::{bench_target, run};
use crate::exit::Exit;
use crate::signals;

/// Memory of a guest; all its files, and the data of its emulated devices, are in it.
const MEMORY_MIB: u64 = 3072;
/// Packages of every guest: a shell, and what this program needs.
const BASE: &[&str] = &["busybox-static", "libc6", "libgcc-s1", "mount"];
/// Modules of every guest, if its kernel has them as modules: devices, schedulers, and checksums that file systems ask for
/// by the name of the algorithm.
const MODULES: &[&str] = &[
    "loop",
    "ublk_drv",
    "bfq",
    "kyber-iosched",
    "mq-deadline",
    "crc32c_generic",
    "crc32c_cryptoapi",
    "crc32_generic",
    "ext4",
];

/// What a word of the command line needs in the guest.
struct Needs {
    /// The word: the name of a file system, of a command, or an option. With a colon at its end: the start of a word.
    word: &'static str,
    packages: &'static [&'static str],
    tools: &'static [&'static str],
    modules: &'static [&'static str],
}

const NEEDS: &[Needs] = &[
    Needs { word: "xfs", packages: &["xfsprogs"], tools: &["mkfs.xfs"], modules: &["xfs"] },
    Needs { word: "btrfs", packages: &["btrfs-progs"], tools: &["mkfs.btrfs"], modules: &["btrfs"] },
    Needs { word: "f2fs", packages: &["f2fs-tools"], tools: &["mkfs.f2fs"], modules: &["f2fs"] },
    Needs {
        word: "nilfs2",
        packages: &["nilfs-tools"],
        tools: &["mkfs.nilfs2", "nilfs_cleanerd"],
        modules: &["nilfs2"],
    },
    Needs {
        word: "vfat",
        packages: &["dosfstools"],
        tools: &["mkfs.vfat"],
        modules: &["nls_ascii", "nls_cp437", "nls_iso8859-1", "nls_utf8", "vfat"],
    },
    Needs { word: "--link", packages: &["iproute2"], tools: &["ip", "tc"], modules: &["veth", "sch_tbf"] },
    Needs { word: "sqlite3", packages: &["sqlite3"], tools: &["sqlite3"], modules: &[] },
    // Benchmarks start fio with an option of setpriv that busybox does not have.
    Needs { word: "fio", packages: &["fio", "util-linux"], tools: &["fio", "setpriv"], modules: &[] },
    Needs { word: "md-raid0:", packages: &[], tools: &[], modules: &["md_mod", "raid0"] },
    Needs { word: "mount", packages: &[], tools: &[], modules: &["fuse"] },
];

/// Runs `fonio lab`.
pub fn run(command: &Lab) -> Result<Exit> {
    match command {
        Lab::List { all, json } => list(*all, *json)?,
        Lab::Fetch { kernels } => fetch(kernels)?,
        Lab::Shell { kernel } => shell(kernel)?,
        Lab::Run { kernel, with, bring, command } => {
            let everything = NEEDS.iter().collect();
            return in_guest(kernel, &Guests { words: command, needs: everything, with, bring });
        }
    }
    Ok(Exit::Fine)
}

fn announce(text: &str) {
    eprintln!("{text}");
}

/// `fonio lab list --json`.
#[derive(Serialize)]
struct Listing<'a> {
    /// Where fetched files are.
    folder: &'a Path,
    kernels: &'a [fonio_lab::Kernel],
}

fn list(all: bool, json: bool) -> Result<()> {
    let archive = Archive::open()?;
    let mut kernels = archive.kernels(&announce)?;
    if !all {
        // The oldest come first.
        kernels.reverse();
        let mut last = String::new();
        kernels.retain(|kernel| {
            let is_newest = kernel.series != last;
            last.clone_from(&kernel.series);
            is_newest || kernel.fetched
        });
        kernels.reverse();
    }
    let mut out = io::stdout().lock();
    if json {
        let listing = Listing { folder: archive.folder(), kernels: &kernels };
        return Ok(writeln!(out, "{}", serde_json::to_string_pretty(&listing)?)?);
    }
    writeln!(out, "{:<10} {:<24} {:>12}", "KERNEL", "DEBIAN'S VERSION", "")?;
    for kernel in &kernels {
        let state = match kernel.fetched {
            true => "on this machine".to_owned(),
            false => format!("{} MiB to fetch", kernel.download_bytes >> 20),
        };
        writeln!(out, "lab:{:<6} {:<24} {state:>16}", kernel.series, kernel.version)?;
    }
    writeln!(out, "\nFetched files are in {}.", archive.folder().display())?;
    writeln!(out, "Next: `fonio run webbench --on ridata --in lab:6.12`, or `fonio lab shell`.")?;
    Ok(())
}

fn fetch(kernels: &[Wanted]) -> Result<()> {
    let archive = Archive::open()?;
    for wanted in kernels {
        let (kernel, _) = archive.kernel(wanted, &announce)?;
        println!("Linux {} is on this machine.", kernel.version);
    }
    let mut packages = BASE.to_vec();
    packages.push("e2fsprogs");
    packages.extend(NEEDS.iter().flat_map(|needs| needs.packages));
    archive.userland(&packages, &announce)?;
    println!("The programs of guests are on this machine.");
    Ok(())
}

fn shell(wanted: &Wanted) -> Result<()> {
    ensure!(io::stdin().is_terminal(), "a shell needs a terminal; to run a command in a guest, use --in");
    fonio_lab::check()?;
    let archive = Archive::open()?;
    let everything: Vec<&Needs> = NEEDS.iter().collect();
    let guest = guest(&archive, wanted, Shape::Test, &everything)?;
    Ok(fonio_lab::shell(guest, &archive)?)
}

/// Prepares a guest with this program.
fn guest(archive: &Archive, wanted: &Wanted, shape: Shape, needs: &[&Needs]) -> Result<Guest> {
    let (_, kernel) = archive.kernel(wanted, &announce)?;
    let mut packages = BASE.to_vec();
    packages.push("e2fsprogs");
    packages.extend(needs.iter().flat_map(|needs| needs.packages));
    let userland = archive.userland(&packages, &announce)?;
    let mut files = Initramfs::new(&userland)?;
    let tools = ["mount", "umount", "mkfs.ext4", "mkfs.ext3"].iter();
    for tool in tools.chain(needs.iter().flat_map(|needs| needs.tools)) {
        files.add_tool(tool)?;
    }
    add_own_program(archive, &mut files)?;
    let modules = needs.iter().flat_map(|needs| needs.modules).copied().collect();
    Ok(Guest { kernel, shape, memory_mib: MEMORY_MIB, modules, wishes: MODULES.to_vec(), files })
}

/// Adds this program, without its debug information, which is several times as large as the program.
fn add_own_program(archive: &Archive, files: &mut Initramfs) -> Result<()> {
    let program = std::env::current_exe().context("cannot find the fonio executable")?;
    let modified = fs::metadata(&program)?.modified()?.duration_since(std::time::UNIX_EPOCH)?;
    let copy = archive.folder().join(format!("fonio-{}", modified.as_nanos()));
    if !copy.exists() {
        for old in fs::read_dir(archive.folder())?.flatten() {
            if old.file_name().to_string_lossy().starts_with("fonio-") {
                // Another process may be using it, and may have removed it.
                let _ = fs::remove_file(old.path());
            }
        }
        let scratch = tempfile::Builder::new().prefix("fonio-").tempfile_in(archive.folder())?;
        stripped(&program, scratch.path())?;
        scratch.persist(&copy)?;
    }
    Ok(files.add_program(&copy, Path::new("usr/bin/fonio"))?)
}

/// Runs this command line in a guest with the kernel `wanted`, without its option `--in`; brings the results back.
pub fn run_setup(wanted: &Wanted, setup: &SetupArgs) -> Result<Exit> {
    for place in &setup.on {
        refuse_real(Path::new(place), "--on ridata")?;
    }
    let mut words = own_words()?;
    let out = run::results_directory(setup.out.as_deref())?;
    if setup.out.is_none() {
        let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.splice(at..at, ["--output".to_owned(), out.display().to_string()]);
    }
    let mut bring = vec![out.clone()];
    bring.extend(setup.html.clone());
    let result = fonio_in_guest(wanted, &words, &bring);
    // The directory that the guest's results replace; it is still there, and empty, if the command failed.
    let _ = fs::remove_dir(&out);
    result
}

/// Runs a benchmark of `target` in a guest. It writes the files `bring`.
pub fn run_bench(wanted: &Wanted, target: &Path, bring: &[PathBuf]) -> Result<Exit> {
    refuse_real(target, "ridata")?;
    fonio_in_guest(wanted, &own_words()?, bring)
}

/// Refuses a directory or device of this machine.
fn refuse_real(place: &Path, example: &str) -> Result<()> {
    if bench_target::is_real(place) {
        bail!(
            "a guest has no disk of this machine: {} is not there; name an emulated device, for example {example} \
             (`fonio device list`)",
            place.display()
        );
    }
    Ok(())
}

/// Runs `fonio device emulate` in a guest.
pub fn run_emulated(wanted: &Wanted, arguments: &Emulate) -> Result<Exit> {
    if arguments.nbd.is_some() || !arguments.image.is_empty() {
        bail!(
            "in a guest, a device cannot be served to others, nor keep its data in a file; leave out --nbd and --image"
        );
    }
    if arguments.workload.is_empty() && !arguments.floor {
        bail!("a guest ends with its command: write one after `--`");
    }
    fonio_in_guest(wanted, &own_words()?, arguments.log.as_slice())
}

/// This command line without `--in`.
fn own_words() -> Result<Vec<String>> {
    let text = |word: OsString| {
        word.into_string().map_err(|word| anyhow::anyhow!("{word:?} is not UTF-8, which guests need"))
    };
    without_in(std::env::args_os().skip(1)).into_iter().map(text).collect()
}

/// Runs fonio with `words` in a guest. The files and directories `bring` come back.
fn fonio_in_guest(wanted: &Wanted, words: &[String], bring: &[PathBuf]) -> Result<Exit> {
    let mut command = vec!["fonio".to_owned()];
    command.extend_from_slice(words);
    in_guest(wanted, &Guests { words: &command, needs: needs_of(words), with: &[], bring })
}

/// A command in a guest.
struct Guests<'a> {
    words: &'a [String],
    needs: Vec<&'static Needs>,
    /// Files and directories that are copied into the guest, besides those that `words` name.
    with: &'a [PathBuf],
    /// Files and directories that come back.
    bring: &'a [PathBuf],
}

/// Runs a command in a guest, in this directory.
fn in_guest(wanted: &Wanted, task: &Guests<'_>) -> Result<Exit> {
    let stop = signals::watch()?;
    fonio_lab::check()?;
    let archive = Archive::open()?;
    let here = std::env::current_dir().context("cannot find the current directory")?;
    let mut guest = guest(&archive, wanted, Shape::Bench, &task.needs)?;
    let bring: Vec<PathBuf> = task.bring.iter().map(|path| here.join(path)).collect();
    let named = task.words.iter().flat_map(|word| word.split(',')).map(|word| here.join(word));
    let named = named.filter(|input| input.is_file() && !bring.iter().any(|path| input.starts_with(path)));
    for input in named.chain(task.with.iter().map(|path| here.join(path))) {
        if input.is_file() && is_program(&input)? {
            guest.files.add_program(&input, &input)?;
        } else {
            guest.files.add_copy(&input, &input)?;
        }
    }
    let mut command = vec!["env".to_owned(), format!("COLUMNS={}", columns())];
    command.extend_from_slice(task.words);
    // In the directory of the results, so that they are only renamed, and a killed run leaves nothing elsewhere.
    let staging = match bring.first().filter(|path| path.is_dir()) {
        Some(results) => tempfile::Builder::new().prefix(".guest-").tempdir_in(results),
        None => tempfile::tempdir(),
    };
    let staging = staging.context("cannot create a directory for the files from the guest")?;
    let task = Task { words: &command, folder: &here, bring: &bring, to: staging.path() };
    let release = guest.kernel.release.clone();
    let ended = guest.run(&archive, &task, &stop, &announce)?;
    for path in &bring {
        let brought = staging.path().join(path.strip_prefix("/").unwrap_or(path));
        if !brought.exists() {
            continue;
        }
        if path.is_dir() {
            for entry in
                fs::read_dir(&brought).with_context(|| format!("cannot read {}", brought.display()))?
            {
                let entry = entry?;
                let place = path.join(entry.file_name());
                fs::rename(entry.path(), &place)
                    .with_context(|| format!("cannot write {}", place.display()))?;
            }
        } else {
            fs::copy(&brought, path).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    eprintln!(
        "In a guest with Linux {release}: {:.1} s by its clock; {:.1} s on this machine, of which {:.1} s to boot.",
        ended.took_s, ended.host_s, ended.booted_host_s
    );
    Ok(if ended.code == 0 { Exit::Fine } else { Exit::Command(ended.code) })
}

/// Whether the file is a program for Linux, not a script or data.
fn is_program(path: &Path) -> Result<bool> {
    let mut start = [0; 4];
    let mut file = fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let read =
        io::Read::read(&mut file, &mut start).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(start[..read] == *b"\x7fELF")
}

/// The needs of a command line, by its words and by its command: `fix` without a name tries all fixes, so it needs what
/// they need.
fn needs_of(words: &[String]) -> Vec<&'static Needs> {
    let parts: Vec<&str> = words.iter().flat_map(|word| word.split([',', '=', '+', ' '])).collect();
    let of_command: &[&str] = match parts[..] {
        ["fix", ..] => &["f2fs", "nilfs2"],
        ["bench", "layers", ..] => &["mount"],
        ["bench", ..] | ["device", "fit", ..] => &["fio"],
        _ => &[],
    };
    let names = |part: &&str, needs: &Needs| match needs.word.strip_suffix(':') {
        Some(_) => part.starts_with(needs.word),
        None => *part == needs.word,
    };
    let wants =
        |needs: &&Needs| parts.iter().any(|part| names(part, needs)) || of_command.contains(&needs.word);
    NEEDS.iter().filter(wants).collect()
}

/// The command line without `--in KERNEL`.
fn without_in(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut words) = (Vec::new(), words);
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word);
            kept.extend(words);
            break;
        } else if word == "--in" {
            // Its value.
            words.next();
        } else if !word.to_string_lossy().starts_with("--in=") {
            kept.push(word);
        }
    }
    kept
}

/// The width of this terminal.
fn columns() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_guest_gets_the_command_line_without_the_guest() {
        for (given, expected) in [
            ("run webbench --in lab:6.12 --on ridata", "run webbench --on ridata"),
            ("run --in=lab webbench", "run webbench"),
            ("run --launch --in lab -- sh --in x", "run --launch -- sh --in x"),
        ] {
            let kept = without_in(words(given).into_iter().map(OsString::from));
            assert_eq!(
                kept.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
                expected
            );
        }
    }

    #[test]
    fn a_guest_gets_what_the_command_line_needs() {
        let names = |text: &str| needs_of(&words(text)).iter().map(|needs| needs.word).collect::<Vec<_>>();
        assert_eq!(names("run webbench --fs ext4,nilfs2 --on ridata"), ["nilfs2"]);
        assert_eq!(names("fix --prove webbench --link wifi"), ["f2fs", "nilfs2", "--link"]);
        assert_eq!(names("device emulate ridata -- sh -c fio\u{20}--name=x"), ["fio"]);
        assert_eq!(names("run webbench --fs=vfat"), ["vfat"]);
        assert_eq!(names("bench device ridata"), ["fio"]);
        assert_eq!(names("run webbench --on ridata,md-raid0:ridata+kingston"), ["md-raid0:"]);
        assert_eq!(names("bench layers ridata --fs vfat"), ["vfat", "mount"]);
    }
}
