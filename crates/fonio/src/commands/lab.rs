//! `fonio lab`, and the option `--in` of other commands: guests with Debian's kernels.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use fonio_lab::{
    Accelerator, Architecture, Archive, Guest, Initramfs, Shape, Streams, System, SystemOptions, Task,
    Wanted, stripped,
};
use serde::Serialize;

use crate::cli::emulate::Emulate;
use crate::cli::lab::{Kind, Lab};
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
    // Without ublk, emulated devices are served through FUSE and the loop driver.
    "fuse",
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
];

/// Runs `fonio lab`.
pub fn run(command: &Lab) -> Result<Exit> {
    match command {
        Lab::List { all, json } => list(*all, *json)?,
        Lab::Fetch { kernels } => fetch(kernels)?,
        Lab::Shell { kernel, kind } => shell(kernel, kind)?,
        Lab::Run { kernel, kind, copy, json, command, .. } if kind.system => {
            return run_in_system(kernel, kind, copy, *json, command);
        }
        Lab::Run { kernel, copy, bring, json, command, .. } => {
            let needs = NEEDS.iter().collect();
            return in_guest(kernel, &Guests { words: command, needs, put: copy, bring, json: *json });
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
    writeln!(out, "{:<10} {:<24} {:>16}", "KERNEL", "DEBIAN'S VERSION", "STATE")?;
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

fn shell(wanted: &Wanted, kind: &Kind) -> Result<()> {
    ensure!(io::stdin().is_terminal(), "a shell needs a terminal; to run a command, use `fonio lab run`");
    fonio_lab::check_for(kind.arch)?;
    let archive = Archive::open()?;
    if kind.system {
        let stop = signals::watch()?;
        let (options, _own) = system_options(&archive, wanted, kind)?;
        return Ok(fonio_lab::system_shell(&archive, &options, &announce, &stop)?);
    }
    let everything: Vec<&Needs> = NEEDS.iter().collect();
    let own = OwnProgram::copied(&archive)?;
    let guest = guest(&archive, &own, wanted, Shape::Test, &everything)?;
    Ok(fonio_lab::shell(guest, &archive, &announce)?)
}

/// `fonio lab run --json`.
#[derive(Serialize)]
struct Ran<'a> {
    architecture: Architecture,
    /// What `uname -r` prints in the guest.
    kernel: &'a str,
    /// What executed its instructions.
    accelerator: Option<Accelerator>,
    exit_code: u8,
    /// Seconds from the start of the guest to the command.
    boot_s: f64,
    /// Seconds that the command took.
    took_s: f64,
    stdout: String,
    stderr: String,
}

/// Options for a guest with this program, if it has this machine's architecture. The program must exist until the guest runs.
fn system_options(
    archive: &Archive,
    wanted: &Wanted,
    kind: &Kind,
) -> Result<(SystemOptions, Option<OwnProgram>)> {
    let runs_here = Architecture::of_this_machine() == Some(kind.arch);
    let own = runs_here.then(|| OwnProgram::copied(archive)).transpose()?;
    let files = own.iter().map(|own| (own.path.clone(), PathBuf::from("/usr/bin/fonio"))).collect();
    let options = SystemOptions {
        kernel: wanted.clone(),
        architecture: kind.arch,
        packages: kind.packages.clone(),
        memory_mib: kind.memory >> 20,
        disks: Vec::new(),
        served: kind.disk.clone(),
        files,
    };
    Ok((options, own))
}

/// The name of a file in the guest's /root.
fn place_of(file: &Path) -> Result<PathBuf> {
    let name = file.file_name().with_context(|| format!("{} has no file name", file.display()))?;
    ensure!(file.is_file(), "{} is not a file", file.display());
    Ok(Path::new("/root").join(name))
}

/// `fonio lab run --system`.
fn run_in_system(
    wanted: &Wanted,
    kind: &Kind,
    put: &[PathBuf],
    json: bool,
    command: &[String],
) -> Result<Exit> {
    let stop = signals::watch()?;
    fonio_lab::check_for(kind.arch)?;
    let archive = Archive::open()?;
    let (mut options, _own) = system_options(&archive, wanted, kind)?;
    for file in put {
        options.files.push((file.clone(), place_of(file)?));
    }
    let mut system = System::start(&archive, &options, &announce, &stop)?;
    let began = Instant::now();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let exit_code = match json {
        true => system.run_to(command, &mut stdout, &mut stderr)?,
        false => system.run_to(command, &mut io::stdout(), &mut io::stderr())?,
    };
    if json {
        let ran = Ran {
            architecture: kind.arch,
            kernel: system.release(),
            accelerator: Some(system.accelerator()),
            exit_code,
            boot_s: system.booted().as_secs_f64(),
            took_s: began.elapsed().as_secs_f64(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        };
        writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&ran)?)?;
    }
    // Nothing of the guest is kept, so that it need not shut down.
    Ok(if exit_code == 0 { Exit::Fine } else { Exit::Command(exit_code) })
}

/// Collects the output of a command.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<u8>>>);

impl Write for Collected {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Collected {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

/// Prepares a guest with this program.
fn guest(
    archive: &Archive,
    own: &OwnProgram,
    wanted: &Wanted,
    shape: Shape,
    needs: &[&Needs],
) -> Result<Guest> {
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
    files.add_program(&own.path, Path::new("usr/bin/fonio"))?;
    let modules = needs.iter().flat_map(|needs| needs.modules).copied().collect();
    Ok(Guest {
        kernel,
        shape,
        memory_mib: MEMORY_MIB,
        modules,
        wishes: MODULES.to_vec(),
        files,
        disks: Vec::new(),
        card: None,
    })
}

/// A copy of this program without its debug information, which is several times as large as the program.
struct OwnProgram {
    path: PathBuf,
    /// Locked while this exists, so that no other process removes the file.
    _file: fs::File,
}

impl OwnProgram {
    /// Makes the copy if there is none, and removes those of earlier versions of this program.
    fn copied(archive: &Archive) -> Result<OwnProgram> {
        let program = std::env::current_exe().context("cannot find the fonio executable")?;
        let modified = fs::metadata(&program)?.modified()?.duration_since(std::time::UNIX_EPOCH)?;
        let path = archive.folder().join(format!("fonio-{}", modified.as_nanos()));
        loop {
            if let Ok(file) = fs::File::open(&path) {
                file.lock_shared().with_context(|| format!("cannot lock {}", path.display()))?;
                // It may have been removed before it was locked.
                if path.exists() {
                    return Ok(OwnProgram { path, _file: file });
                }
            }
            for old in fs::read_dir(archive.folder())?.flatten() {
                let is_free = || fs::File::open(old.path()).is_ok_and(|file| file.try_lock().is_ok());
                if old.file_name().to_string_lossy().starts_with("fonio-") && is_free() {
                    // Another process may have removed it.
                    let _ = fs::remove_file(old.path());
                }
            }
            let scratch = tempfile::Builder::new().prefix("fonio-").tempfile_in(archive.folder())?;
            // Another process that looks for earlier versions must not remove it.
            scratch.as_file().lock().with_context(|| format!("cannot lock {}", scratch.path().display()))?;
            stripped(&program, scratch.path())?;
            scratch.persist(&path)?;
        }
    }
}

/// Runs this command line in a guest with the kernel `wanted`, without its option `--in`; brings the results back.
pub fn run_setup(wanted: &Wanted, setup: &SetupArgs) -> Result<Exit> {
    for place in setup.places() {
        refuse_real(Path::new(&place), "--on ridata")?;
    }
    let mut words = own_words()?;
    let out = run::results_directory(setup.out.as_deref(), run::RESULTS)?;
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
    if arguments.nbd.is_some() || arguments.image.is_some() {
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
    in_guest(wanted, &Guests { words: &command, needs: needs_of(words), put: &[], bring, json: false })
}

/// A command in a guest.
struct Guests<'a> {
    words: &'a [String],
    needs: Vec<&'static Needs>,
    /// Files and directories that are copied into the guest, besides those that `words` name.
    put: &'a [PathBuf],
    /// Files and directories that come back.
    bring: &'a [PathBuf],
    /// Print JSON with the output of the command, instead of passing it on.
    json: bool,
}

/// Runs a command in a guest, in this directory.
fn in_guest(wanted: &Wanted, task: &Guests<'_>) -> Result<Exit> {
    let stop = signals::watch()?;
    fonio_lab::check()?;
    let archive = Archive::open()?;
    let here = std::env::current_dir().context("cannot find the current directory")?;
    let own = OwnProgram::copied(&archive)?;
    let mut guest = guest(&archive, &own, wanted, Shape::Bench, &task.needs)?;
    let bring: Vec<PathBuf> = task.bring.iter().map(|path| here.join(path)).collect();
    let named = task.words.iter().flat_map(|word| word.split(',')).map(|word| here.join(word));
    let named = named.filter(|input| input.is_file() && !bring.iter().any(|path| input.starts_with(path)));
    for input in named.chain(task.put.iter().map(|path| here.join(path))) {
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
    let as_json = task.json;
    let task = Task { words: &command, folder: &here, bring: &bring, to: staging.path() };
    let release = guest.kernel.release.clone();
    let ended = if as_json {
        let (out, err) = (Collected::default(), Collected::default());
        let streams = Streams { out: Box::new(out.clone()), err: Box::new(err.clone()) };
        let ended = guest.run_to(&archive, &task, streams, &stop, &announce)?;
        let ran = Ran {
            architecture: Architecture::Amd64,
            kernel: &release,
            accelerator: ended.accelerator,
            exit_code: ended.code,
            boot_s: ended.booted_host_s,
            took_s: ended.took_s,
            stdout: out.text(),
            stderr: err.text(),
        };
        writeln!(io::stdout(), "{}", serde_json::to_string_pretty(&ran)?)?;
        ended
    } else {
        guest.run(&archive, &task, &stop, &announce)?
    };
    for path in &bring {
        let brought = staging.path().join(path.strip_prefix("/").unwrap_or(path));
        if !brought.exists() {
            continue;
        }
        put(&brought, path)?;
    }
    eprintln!(
        "In a guest with Linux {release}: {:.1} s by its clock; {:.1} s on this machine, of which {:.1} s to boot.",
        ended.took_s, ended.host_s, ended.booted_host_s
    );
    Ok(if ended.code == 0 { Exit::Fine } else { Exit::Command(ended.code) })
}

/// Moves a file or a folder to its place; a folder there keeps its other entries.
fn put(from: &Path, to: &Path) -> Result<()> {
    let cannot = || format!("cannot write {}", to.display());
    if from.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        fs::create_dir_all(to).with_context(cannot)?;
        for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
            let entry = entry?;
            put(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            fs::copy(from, to).map(drop).with_context(cannot)
        }
        done => done.with_context(cannot),
    }
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
    // A word may be a script, with programs in it.
    let separates = |letter: char| !letter.is_alphanumeric() && !"-_.:".contains(letter);
    let parts: Vec<&str> = words.iter().flat_map(|word| word.split(separates)).collect();
    let of_command: &[&str] = match parts[..] {
        ["fix", ..] => &["f2fs", "nilfs2"],
        ["bench", "layers", ..] => &[],
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

    #[test]
    fn what_comes_back_keeps_what_is_there() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |path: &str| dir.path().join(path);
        for file in ["guest/results/a/new", "guest/results/b", "here/a/old", "here/b"] {
            fs::create_dir_all(at(file).parent().expect("it has one")).expect("a folder");
            fs::write(at(file), file).expect("a file");
        }
        put(&at("guest/results"), &at("here")).expect("it is moved");
        let text = |path: &str| fs::read_to_string(at(path)).expect("it is there");
        assert_eq!(text("here/a/new"), "guest/results/a/new");
        assert_eq!(text("here/a/old"), "here/a/old");
        assert_eq!(text("here/b"), "guest/results/b");
        put(&at("here"), &at("not/there")).expect("a new folder");
        assert_eq!(text("not/there/a/old"), "here/a/old");
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_guest_gets_the_command_line_without_the_guest() {
        for (given, expected) in [
            ("run webbench --in lab:6.12 --on ridata", "run webbench --on ridata"),
            ("run --in=lab webbench", "run webbench"),
            ("launch --in lab -- sh --in x", "launch -- sh --in x"),
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
        assert_eq!(names("fix prove --safe webbench --link wifi"), ["f2fs", "nilfs2", "--link"]);
        assert_eq!(names("device emulate ridata -- sh -c fio\u{20}--name=x"), ["fio"]);
        assert_eq!(names("run webbench --fs=vfat"), ["vfat"]);
        assert_eq!(names("device emulate ridata -- sh -c test\u{20}$(sqlite3\u{20}db)"), ["sqlite3"]);
        assert_eq!(names("bench device ridata"), ["fio"]);
        assert_eq!(names("run webbench --on ridata,md-raid0:ridata+kingston"), ["md-raid0:"]);
        assert_eq!(names("bench layers ridata --fs vfat"), ["vfat"]);
    }
}
