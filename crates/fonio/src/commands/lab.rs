//! Implements `fonio lab`, and the option `--in` of other commands: running in guests with Debian's kernels.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use fonio_lab::{
    Accelerator, Architecture, Archive, CommandHere, Needs, OwnProgram, Streams, System, SystemOptions,
    Wanted,
};
use fonio_system::say;
use serde::Serialize;

use crate::cli::emulate::Emulate;
use crate::cli::lab::{Kind, Lab};
use crate::cli::run::SetupArgs;
use crate::commands::app::Packed;
use crate::commands::bench_target;
use crate::exit::Exit;
use crate::{output, results, signals};

pub fn run(command: &Lab) -> Result<Exit> {
    match command {
        Lab::List { all, json } => list(*all, *json)?,
        Lab::Fetch { kernels } => fetch(kernels)?,
        Lab::Shell { kernel, kind } => shell(kernel, kind)?,
        Lab::Run { kernel, kind, copy, json, command, .. } if kind.system => {
            return run_in_system(kernel, kind, copy, *json, command);
        }
        Lab::Run { kernel, copy, bring, json, command, .. } => {
            let needs = Needs::everything();
            let command = CommandHere {
                words: command,
                needs,
                put: copy,
                bring,
                programs: None,
                columns: output::columns(),
            };
            return in_guest(kernel, &command, *json);
        }
    }
    Ok(Exit::Fine)
}

fn announce(text: &str) {
    say!("{text}");
}

#[derive(Serialize)]
struct Listing<'a> {
    folder: &'a Path,
    kernels: &'a [fonio_lab::Kernel],
}

fn list(all: bool, json: bool) -> Result<()> {
    let archive = Archive::open()?;
    let mut kernels = archive.kernels(&announce)?;
    if !all {
        // The archive lists the oldest kernels first.
        kernels.reverse();
        let mut last = String::new();
        kernels.retain(|kernel| {
            let is_newest = kernel.series != last;
            last.clone_from(&kernel.series);
            is_newest || kernel.fetched
        });
        kernels.reverse();
    }
    if json {
        let listing = Listing { folder: archive.folder(), kernels: &kernels };
        return output::json(&listing).map(drop);
    }
    let mut out = output::screen();
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
        writeln!(output::screen(), "Linux {} is on this machine.", kernel.version)?;
    }
    archive.userland(&Needs::everything().packages(), &announce)?;
    writeln!(output::screen(), "The guest programs are on this machine.")?;
    Ok(())
}

fn shell(wanted: &Wanted, kind: &Kind) -> Result<()> {
    ensure!(io::stdin().is_terminal(), "a shell needs a terminal; to run a command, use `fonio lab run`");
    fonio_lab::check_for(kind.arch)?;
    if kind.system {
        let archive = Archive::open()?;
        let stop = signals::watch()?;
        let (options, _own) = system_options(&archive, wanted, kind)?;
        return Ok(fonio_lab::system_shell(&archive, &options, &announce, &stop)?);
    }
    Ok(fonio_lab::shell_here(wanted, &announce)?)
}

#[derive(Serialize)]
struct Ran<'a> {
    architecture: Architecture,
    /// The kernel's release, from `uname -r` in the guest.
    kernel: &'a str,
    /// The accelerator that executed the guest's instructions; `None` for bench guests.
    accelerator: Option<Accelerator>,
    exit_code: u8,
    /// Time from the start of the guest to the start of the command, in seconds.
    boot_s: f64,
    took_s: f64,
    stdout: String,
    stderr: String,
}

/// Returns the options for a guest that includes this program if the architectures match. The program's file
/// must exist until the guest runs.
fn system_options(
    archive: &Archive,
    wanted: &Wanted,
    kind: &Kind,
) -> Result<(SystemOptions, Option<OwnProgram>)> {
    let runs_here = Architecture::of_this_machine() == Some(kind.arch);
    let own = runs_here.then(|| OwnProgram::copied(archive)).transpose()?;
    let files = own.iter().map(|own| (own.path().to_owned(), PathBuf::from("/usr/bin/fonio"))).collect();
    let options = SystemOptions {
        kernel: wanted.clone(),
        architecture: kind.arch,
        packages: kind.packages.clone(),
        memory_mib: kind.memory >> 20,
        disks: Vec::new(),
        served: kind.disk.clone(),
        images: Vec::new(),
        files,
        forwards: kind.forward.clone(),
    };
    Ok((options, own))
}

/// Returns the path that a file gets in the guest's /root.
fn place_of(file: &Path) -> Result<PathBuf> {
    let name = file.file_name().with_context(|| format!("{} has no file name", file.display()))?;
    ensure!(file.is_file(), "{} is not a file", file.display());
    Ok(Path::new("/root").join(name))
}

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
        output::json(&ran)?;
    }
    // The guest need not be shut down, because its state is discarded.
    Ok(Exit::Command(exit_code))
}

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

/// Runs this command line without `--in` in a guest with the kernel `wanted`, and copies the results back. `app` is the app
/// that it runs, if any.
pub(super) fn run_setup(wanted: &Wanted, setup: &SetupArgs, app: Option<&Packed>) -> Result<Exit> {
    for place in setup.places() {
        refuse_real(Path::new(&place), "--on ridata")?;
    }
    let mut words = own_words()?;
    let out = results::results_directory(setup.out.as_deref(), results::RESULTS)?;
    if setup.out.is_none() {
        let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.splice(at..at, ["--output".to_owned(), out.display().to_string()]);
    }
    let mut bring = vec![out.clone()];
    bring.extend(setup.html.clone());
    let result = fonio_in_guest(wanted, &words, &bring, app);
    // The guest's results have replaced this directory. After a failed command, the directory is empty.
    let _ = fs::remove_dir(&out);
    result
}

/// Runs a benchmark of `target` in a guest, and copies the output files `bring` back to this machine.
pub fn run_bench(wanted: &Wanted, target: &Path, bring: &[PathBuf]) -> Result<Exit> {
    refuse_real(target, "ridata")?;
    fonio_in_guest(wanted, &own_words()?, bring, None)
}

/// Rejects a directory or device of this machine, which a guest cannot use.
fn refuse_real(place: &Path, example: &str) -> Result<()> {
    if bench_target::is_real(place) {
        bail!(
            "a guest has no disks of this machine, so {} does not exist there; name an emulated device, for \
             example {example} \
             (`fonio device list`)",
            place.display()
        );
    }
    Ok(())
}

/// Runs `fonio device emulate` with `arguments` in a guest.
pub fn run_emulated(wanted: &Wanted, arguments: &Emulate) -> Result<Exit> {
    if arguments.nbd.is_some() || arguments.image.is_some() {
        bail!(
            "a device in a guest cannot be served to other machines or keep its data in a file; leave out \
             --nbd and --image"
        );
    }
    if arguments.workload.is_empty() && !arguments.floor {
        bail!("a guest needs a command: write it after `--`");
    }
    fonio_in_guest(wanted, &own_words()?, arguments.log.as_slice(), None)
}

fn own_words() -> Result<Vec<String>> {
    let text = |word: OsString| {
        word.into_string().map_err(|word| anyhow::anyhow!("{word:?} is not UTF-8; guests accept only UTF-8"))
    };
    without_in(std::env::args_os().skip(1)).into_iter().map(text).collect()
}

/// Runs fonio with `words` in a guest. Copies the files and directories `bring` back to this machine.
fn fonio_in_guest(
    wanted: &Wanted,
    words: &[String],
    bring: &[PathBuf],
    app: Option<&Packed>,
) -> Result<Exit> {
    let mut command = vec!["fonio".to_owned()];
    command.extend_from_slice(words);
    let needs = Needs::of(words);
    let put = app.and_then(|app| app.folder.as_ref()).map(std::slice::from_ref).unwrap_or_default();
    let programs = app.map(|app| &app.programs);
    let command = CommandHere { words: &command, needs, put, bring, programs, columns: output::columns() };
    in_guest(wanted, &command, false)
}

/// Runs a command in a guest, in this directory. With `json`, prints a JSON document that contains the output
/// of the command; otherwise, prints the output itself.
fn in_guest(wanted: &Wanted, command: &CommandHere<'_>, json: bool) -> Result<Exit> {
    let stop = signals::watch()?;
    let (out, err) = (Collected::default(), Collected::default());
    let streams = if json {
        Streams { out: Box::new(out.clone()), err: Box::new(err.clone()) }
    } else {
        Streams { out: Box::new(io::stdout()), err: Box::new(io::stderr()) }
    };
    let (ended, release) = command.run(wanted, streams, &stop, &announce)?;
    if json {
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
        output::json(&ran)?;
    }
    say!(
        "In a guest with Linux {release}: {:.1} s by the guest's clock; {:.1} s on this machine, including \
         {:.1} s to boot.",
        ended.took_s,
        ended.host_s,
        ended.booted_host_s
    );
    Ok(Exit::Command(ended.code))
}

/// Removes `--in KERNEL` from a command line.
fn without_in(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut words) = (Vec::new(), words);
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word);
            kept.extend(words);
            break;
        } else if word == "--in" {
            // Skip the value of `--in`.
            words.next();
        } else if !word.to_string_lossy().starts_with("--in=") {
            kept.push(word);
        }
    }
    kept
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
            ("launch --in lab -- sh --in x", "launch -- sh --in x"),
        ] {
            let kept = without_in(words(given).into_iter().map(OsString::from));
            assert_eq!(
                kept.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
                expected
            );
        }
    }
}
