//! `cargo xtask dist`: builds programs that need no libraries, and their Debian packages and container
//! images. `cargo xtask dist all` makes all files of a release.
//!
//! The sync-policy library is linked with glibc (`library.rs`). All other programs are static (`program.rs`).

mod apt;
mod arm;
pub mod arm_types;
mod check;
mod container;
mod engine;
mod home_assistant;
mod installer;
mod library;
mod notes;
mod package;
mod path;
mod program;
mod publish;
mod reproducible;
mod results;
mod sbom;
mod source;
mod target;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use fonio_lab::Architecture;
use sha2::{Digest, Sha256};

use self::program::{FONIO, RECORDER, RESULTS};
use self::publish::Forge;
use self::target::{TARGETS, Target};
use crate::{process, site, tools};

/// The options of `cargo xtask dist`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    all: Architectures,
}

#[derive(Subcommand)]
enum What {
    /// Make all files of a release: those of `cargo xtask dist`, wheels, the source archive, bills of materials,
    /// the notes, and with a key a repository for apt.
    ///
    /// Removes the files of earlier builds. On a commit with a tag, the tag must name the version, and the changelog
    /// must have a section for it.
    All(All),
    /// Make only the recorder and its package.
    Recorder(Architectures),
    /// Make a repository for apt from the packages in target/dist.
    Apt {
        #[command(subcommand)]
        test: Option<AptTest>,
        /// Sign with the secret key in this file. Default: the key in $FONIO_SIGNING_KEY
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Make only the wheels of the Python package, for 64-bit processors, and compare what they simulate.
    Wheels(Architectures),
    /// Write the notes of the release: the changelog's section for the version.
    Notes,
    /// Build the container of the Home Assistant add-on with podman, and run it with a stand-in for the Supervisor.
    ///
    /// Uses the program for amd64 in target/dist.
    #[command(name = "home-assistant")]
    HomeAssistant,
    /// Make the files twice, in other folders, and compare their bytes. Without wheels, unless they are asked for.
    Reproducible {
        /// Compare only the recorder and its package, which takes less time.
        #[arg(long)]
        recorder: bool,
        /// Compare only the wheels of the Python package.
        #[arg(long, conflicts_with = "recorder")]
        wheels: bool,
        #[command(flatten)]
        architectures: Architectures,
    },
    /// Make the pages for a web server in target/pages: the documentation, and the repository for apt in target/dist.
    Pages,
    /// Make the release of the version on a forge, with the files in target/dist.
    Publish {
        /// The forge. GitHub needs the program `gh`, and GitLab needs `glab`.
        #[arg(long, value_enum, default_value = "github")]
        on: Forge,
        /// Only print the command.
        #[arg(long)]
        dry_run: bool,
    },
    /// Make everything; test the programs with QEMU, and the packages in a new Debian of each architecture.
    Test(Architectures),
    /// Make everything, and record from the image with podman in a guest.
    Container(Architectures),
    /// Make everything, and follow a user's steps in a guest with a slow card.
    ///
    /// Installs fonio, runs `fonio check`, measures a fix while units run, keeps the fix, reboots, and undoes
    /// the fix. Takes 15 minutes for each architecture.
    Path(Architectures),
    /// Make the results service instead: a program, a package and a folder for a container.
    Results {
        #[command(subcommand)]
        test: Option<ResultsTest>,
        #[command(flatten)]
        architectures: Architectures,
    },
}

/// The options of `cargo xtask dist all`.
#[derive(Args)]
struct All {
    /// Sign the repository for apt with the secret key in this file. Default: the key in $FONIO_SIGNING_KEY
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Make no wheels of the Python package.
    #[arg(long)]
    no_wheel: bool,
    #[command(flatten)]
    architectures: Architectures,
}

#[derive(Subcommand)]
enum AptTest {
    /// Instead, install fonio in a clean Debian from a repository with a new key on a local web server.
    Test,
}

#[derive(Subcommand)]
enum ResultsTest {
    /// Also install the service in a guest, submit a result, and run its image with podman.
    Test(Architectures),
}

/// Names of targets.
#[derive(Args)]
struct Architectures {
    /// For these architectures.
    #[arg(value_parser = PossibleValuesParser::new(TARGETS.map(|target| target.name)))]
    architectures: Vec<String>,
}

impl Architectures {
    /// Returns the targets named on the command line, or the default targets.
    fn or(&self, default: &[Target]) -> Vec<Target> {
        let is_named = |target: &Target| self.architectures.iter().any(|name| name == target.name);
        if self.architectures.is_empty() {
            default.to_vec()
        } else {
            TARGETS.into_iter().filter(is_named).collect()
        }
    }
}

/// The programs, packages and image that are distributed for a target.
struct Made {
    target: Target,
    /// The paths of the static programs. `program` is fonio, and `recorder` is the recorder alone.
    program: PathBuf,
    recorder: PathBuf,
    /// The paths of the Debian packages of these programs.
    package: PathBuf,
    recorder_package: PathBuf,
    /// The path of the archive with the container image.
    container: PathBuf,
}

/// Builds the recorder for tests on this architecture, as a program that needs no libraries.
pub fn recorder_for_tests(architecture: Architecture) -> Result<PathBuf> {
    tools::ensure(&[tools::BUILD, tools::DIST])?;
    let target = TARGETS.into_iter().find(|target| target.debian == architecture);
    program::recorder_for_tests(target.with_context(|| format!("there is no recorder for {architecture}"))?)
}

/// Creates the files to distribute, and tests them if requested.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.what {
        None => make(&arguments.all).map(drop),
        Some(What::All(all)) => whole(all),
        Some(What::Recorder(named)) => recorder(named),
        Some(What::Apt { test: Some(AptTest::Test), .. }) => apt::test(),
        Some(What::Apt { test: None, key }) => {
            let key = apt::Key::given(key.as_deref())?.with_context(|| {
                format!("give the secret key with `--key FILE`, or in ${}", apt::KEY_VARIABLE)
            })?;
            apt::make(&key).map(drop)
        }
        Some(What::Wheels(named)) => {
            wheels(named)?;
            sums()
        }
        Some(What::Notes) => notes::make().map(|path| println!("{}", within(&path))),
        Some(What::HomeAssistant) => home_assistant::test(),
        Some(What::Reproducible { recorder, wheels, architectures }) => {
            let mut words = match (recorder, wheels) {
                (true, _) => vec!["recorder"],
                (_, true) => vec!["wheels"],
                _ => vec!["all", "--no-wheel"],
            };
            words.extend(architectures.architectures.iter().map(String::as_str));
            reproducible::run(&words)
        }
        Some(What::Pages) => pages(),
        Some(What::Publish { on, dry_run }) => publish::run(*on, *dry_run),
        Some(What::Test(named)) => check::run(&make(named)?),
        Some(What::Container(named)) => engine::run(&make(named)?),
        Some(What::Path(named)) => path::run(&make(named)?),
        Some(What::Results { test: None, architectures }) => results_service(architectures, false),
        Some(What::Results { test: Some(ResultsTest::Test(named)), .. }) => results_service(named, true),
    }
}

/// Builds the programs, packages and images of the named targets.
fn make(named: &Architectures) -> Result<Vec<Made>> {
    tools::ensure(&[tools::BUILD, tools::DIST])?;
    let mut all = Vec::new();
    for target in named.or(&TARGETS) {
        let program = program::build(target, FONIO)?;
        let recorder = program::build(target, RECORDER)?;
        let library = library::build(target)?;
        let package = package::of_fonio(target, &program, library.as_deref())?;
        let recorder_package = package::of_recorder(target, &recorder)?;
        let container = container::make(target, &program)?;
        all.push(Made { target, program, recorder, package, recorder_package, container });
    }
    sums()?;
    for made in &all {
        let files = [&made.program, &made.package, &made.recorder, &made.recorder_package, &made.container];
        for file in files {
            let bytes = fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?.len();
            println!("{:<6} {:>7.2} MB  {}", made.target.name, bytes as f64 / 1e6, within(file));
        }
    }
    Ok(all)
}

/// Makes all files of a release.
fn whole(all: &All) -> Result<()> {
    // Find mistakes before the programs are built, which takes long.
    let key = apt::Key::given(all.key.as_deref())?;
    process::remove_folder(&folder()?)?;
    let mut files = vec![notes::make()?, source::make()?, installer::make()?];
    for target in all.architectures.or(&TARGETS) {
        for program in [FONIO, RECORDER] {
            files.push(sbom::make(target.rust, program.name)?);
        }
    }
    make(&all.architectures)?;
    if all.no_wheel {
        println!("No wheels were made, as requested.");
    } else {
        files.extend(wheels(&all.architectures)?);
    }
    match key {
        Some(key) => apt::make(&key).map(drop)?,
        None => println!(
            "No repository for apt was made: give a secret key with `--key FILE`, or in ${}.",
            apt::KEY_VARIABLE
        ),
    }
    sums()?;
    for file in &files {
        let bytes = fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?.len();
        println!("{:<6} {:>7.2} MB  {}", "all", bytes as f64 / 1e6, within(file));
    }
    Ok(())
}

/// Makes the wheels, and compares what they simulate.
fn wheels(named: &Architectures) -> Result<Vec<PathBuf>> {
    let mut simulated: Option<(Target, String)> = None;
    let mut files = Vec::new();
    for target in named.or(&TARGETS) {
        let Some(wheel) = wheel::make(target)? else {
            println!("{target}: no wheel, because PyPI has no pyarrow, DuckDB or pandas for this processor");
            continue;
        };
        let text = wheel::simulate(target, &wheel)?;
        let how = target.emulator().map(|emulator| format!(", executed by {emulator}")).unwrap_or_default();
        println!("{target}: the wheel works{how}");
        if let Some((first, expected)) = &simulated {
            ensure!(
                *expected == text,
                "the wheels for {first} and {target} simulate differently:\n{expected}\n{text}"
            );
            println!("{target}: it simulates the same as the wheel for {first}");
        } else {
            simulated = Some((target, text));
        }
        files.push(wheel);
    }
    Ok(files)
}

/// Builds the documentation, and adds the repository for apt.
fn pages() -> Result<()> {
    let site = site::check()?.context("the documentation was not built")?;
    let pages = process::target().join("pages");
    process::remove_folder(&pages)?;
    process::run(Command::new("cp").arg("-r").args([&site, &pages]))?;
    let apt = folder()?.join("apt");
    if apt.exists() {
        process::run(Command::new("cp").arg("-r").arg(&apt).arg(pages.join("apt")))?;
    } else {
        println!("There is no repository for apt, because `cargo xtask dist all` had no key.");
    }
    println!("{}", within(&pages));
    Ok(())
}

/// Builds the recorder and its package for the named targets.
fn recorder(named: &Architectures) -> Result<()> {
    tools::ensure(&[tools::BUILD, tools::DIST])?;
    for target in named.or(&TARGETS) {
        let program = program::build(target, RECORDER)?;
        println!("{}", within(&package::of_recorder(target, &program)?));
    }
    sums()
}

/// Builds the results service, by default for amd64, and tests it if requested.
fn results_service(named: &Architectures, is_tested: bool) -> Result<()> {
    tools::ensure(&[tools::BUILD, tools::DIST])?;
    for target in named.or(&TARGETS[..1]) {
        let program = program::build(target, RESULTS)?;
        let package = package::of_results(target, &program)?;
        let container = results::container(&program)?;
        println!("{}: {}", target.name, within(&program));
        println!("{}: {}", target.name, within(&package));
        println!("{}: {}, for podman build", target.name, within(&container));
        if is_tested {
            let fonio = program::build(target, FONIO)?;
            let files = results::Files { package: &package, program: &program, fonio: &fonio };
            results::test(target, &files)?;
        }
    }
    if let Some(exposure) = results::exposure() {
        println!("{exposure}");
    }
    sums()
}

/// Returns the folder of the files to distribute.
fn folder() -> Result<PathBuf> {
    let folder = process::target().join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Returns the time of the last commit in seconds since 1970, or `SOURCE_DATE_EPOCH` if it is set. With this time,
/// the same sources give the same bytes.
fn committed_s() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => process::output(
            Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(process::root()),
        )
        .context("outside of a git repository, set SOURCE_DATE_EPOCH to the time of the release")?,
    };
    text.trim().parse().with_context(|| format!("`{text}` is not a time in seconds since 1970"))
}

/// Formats a time in seconds since 1970 as RFC 3339.
fn rfc_3339(seconds: u64) -> Result<String> {
    process::output(Command::new("date").args([
        "--utc",
        &format!("--date=@{seconds}"),
        "+%Y-%m-%dT%H:%M:%SZ",
    ]))
}

fn within(path: &Path) -> String {
    path.strip_prefix(process::root()).unwrap_or(path).display().to_string()
}

fn sysroot() -> Result<PathBuf> {
    let text =
        process::output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(process::root()))?;
    Ok(PathBuf::from(text))
}

/// Returns the folder in which cargo keeps the sources of dependencies.
fn cargo_home() -> Result<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    set.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).context("neither CARGO_HOME nor HOME is set")
}

/// Returns the path of the linker that comes with Rust.
fn linker(sysroot: &Path) -> Result<PathBuf> {
    let libraries = sysroot.join("lib/rustlib");
    let entries = fs::read_dir(&libraries).with_context(|| format!("cannot list {}", libraries.display()))?;
    let mut found =
        entries.flatten().map(|entry| entry.path().join("bin/rust-lld")).filter(|path| path.exists());
    found.next().with_context(|| format!("this Rust has no rust-lld below {}", libraries.display()))
}

/// Writes the checksums of all files to distribute.
fn sums() -> Result<()> {
    const NAME: &str = "SHA256SUMS";
    let folder = folder()?;
    let mut lines = Vec::new();
    for entry in fs::read_dir(&folder)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == NAME || !entry.path().is_file() {
            continue;
        }
        let bytes = fs::read(entry.path()).with_context(|| format!("cannot read {name}"))?;
        lines.push(format!("{}  {name}\n", sha256(&bytes)));
    }
    lines.sort_by(|a, b| a[66..].cmp(&b[66..]));
    Ok(fs::write(folder.join(NAME), lines.concat())?)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
