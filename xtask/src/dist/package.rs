//! Creates Debian packages by packing file trees with `dpkg-deb`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::target::Target;
use super::{committed_s, folder};
use crate::process;

/// The version of the workspace and of the packages.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The control fields that are the same in all packages.
const CONTROL: &str = "\
Maintainer: The fonio developers <fonio@localhost>
Priority: optional
Homepage: https://github.com/fonio/fonio
";

/// The control fields of fonio's package. The static program needs no other package. The recommended packages
/// contain programs that fonio starts. The sync-policy library uses the C library of the program that loads
/// it.
const FONIO: Fields = Fields {
    name: "fonio",
    section: "admin",
    relations: "Recommends: e2fsprogs, util-linux\nSuggests: fio, sqlite3, qemu-system-x86, fuse3\n",
    description: "\
Description: shows what uses your flash, what it costs, and which change fixes it
 fonio (phone-io) records what programs read and write on SD cards, eMMC, UFS and
 disks, and which threads wait for it. It says whether storage is the problem, who
 causes it, and which change helps; it applies the change, proves the gain with
 measurements, and undoes it.
",
};

const RECORDER: Fields = Fields {
    name: "fonio-recorder",
    section: "admin",
    relations: "",
    description: "\
Description: records what uses your flash, for fonio on another machine
 fonio-recorder records what programs read and write on SD cards, eMMC, UFS and
 disks, and which threads wait for it. It is small, and explains nothing: `fonio
 report` explains the recording on another machine.
",
};

const RESULTS: Fields = Fields {
    name: "fonio-results",
    section: "net",
    relations: "Suggests: postgresql\n",
    description: "\
Description: receives, ranks and shows results of fonio storebench
 The service stores results that owners of flash storage send with fonio
 storebench submit, ranks those that may be compared, and shows them as pages
 without script. It has an embedded database, or uses PostgreSQL.
",
};

/// The control fields of one package.
struct Fields {
    name: &'static str,
    section: &'static str,
    /// The package's relations to other packages.
    relations: &'static str,
    description: &'static str,
}

/// The shell completions. The program itself prints them. Each entry has the name of the shell, which is the
/// program's argument, and the path of the file.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/fonio"),
    ("zsh", "usr/share/zsh/vendor-completions/_fonio"),
    ("fish", "usr/share/fish/vendor_completions.d/fonio.fish"),
];

/// The systemd units in `usr/lib/systemd/system`. fonio itself starts the units when needed.
const UNITS: &[&str] =
    &["crates/fonio-sqlite-sync/fonio-sync-policy.service", "crates/fonio-watch/fonio-watch.service"];

/// The path of the results service's unit file.
pub const RESULTS_UNIT: &str = "packages/results/fonio-results.service";

/// Creates the package of fonio: the program and, if the target has one, the sync-policy library.
pub fn of_fonio(target: Target, program: &Path, library: Option<&Path>) -> Result<PathBuf> {
    let tree = empty_tree(&FONIO, target)?;
    // The command line is the same on each architecture, so the program for this machine can print these
    // files.
    let is_foreign = target.emulator().is_some();
    let speaking = if is_foreign { process::build_fonio_for_tests()? } else { program.to_owned() };
    install(program, &tree.join("usr/bin/fonio"), 0o755)?;
    if let Some(library) = library {
        install(library, &tree.join("usr/lib/fonio/libfonio_sqlite_sync.so"), 0o644)?;
    }
    for unit in UNITS {
        let unit = process::root().join(unit);
        let name = unit.file_name().context("a unit has no name")?;
        install(&unit, &tree.join("usr/lib/systemd/system").join(name), 0o644)?;
    }
    manual(&speaking, &tree.join("usr/share/man/man1"))?;
    for (shell, path) in COMPLETIONS {
        let text = process::output(Command::new(&speaking).args(["completions", shell]))?;
        write(&tree.join(path), text.as_bytes())?;
    }
    pack(&FONIO, target, &tree)
}

/// Creates the package that contains only the recorder.
pub fn of_recorder(target: Target, program: &Path) -> Result<PathBuf> {
    let tree = empty_tree(&RECORDER, target)?;
    install(program, &tree.join("usr/bin/fonio-recorder"), 0o755)?;
    pack(&RECORDER, target, &tree)
}

/// Creates the package of the results service. The user of the unit exists only while the service runs, so
/// the package needs no script that creates the user. The administrator starts the service.
pub fn of_results(target: Target, program: &Path) -> Result<PathBuf> {
    let tree = empty_tree(&RESULTS, target)?;
    install(program, &tree.join("usr/bin/fonio-results"), 0o755)?;
    let unit = process::root().join(RESULTS_UNIT);
    install(&unit, &tree.join("usr/lib/systemd/system/fonio-results.service"), 0o644)?;
    let manual = process::root().join("docs/results-service.md");
    install(&manual, &tree.join("usr/share/doc/fonio-results/results-service.md"), 0o644)?;
    pack(&RESULTS, target, &tree)
}

/// Creates an empty folder for the files of a package.
fn empty_tree(fields: &Fields, target: Target) -> Result<PathBuf> {
    let tree = process::scratch("dist")?.join(format!("{}-{target}", fields.name));
    process::remove_folder(&tree)?;
    Ok(tree)
}

/// Adds the files that all packages contain, and packs the package.
fn pack(fields: &Fields, target: Target, tree: &Path) -> Result<PathBuf> {
    let documents = tree.join("usr/share/doc").join(fields.name);
    write(&documents.join("copyright"), copyright()?.as_bytes())?;
    let changes = fs::read(process::root().join("CHANGELOG.md")).context("cannot read CHANGELOG.md")?;
    write(&documents.join("changelog.gz"), &gzipped(&changes)?)?;
    let kib = size(tree)?.div_ceil(1024);
    let control = format!(
        "Package: {}\nVersion: {VERSION}\nArchitecture: {}\nInstalled-Size: {kib}\nSection: {}\n{CONTROL}{}{}",
        fields.name, target.debian, fields.section, fields.relations, fields.description
    );
    write(&tree.join("DEBIAN/control"), control.as_bytes())?;
    let package = folder()?.join(format!("{}_{VERSION}_{target}.deb", fields.name));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--build", "--root-owner-group", "-Zxz"]).arg(tree).arg(&package).stdout(Stdio::null());
    // With several threads, the compressed bytes depend on the number of processors.
    pack.env("SOURCE_DATE_EPOCH", committed_s()?.to_string()).env("DPKG_DEB_THREADS_MAX", "1");
    open_folders(tree)?;
    process::run(&mut pack)?;
    Ok(package)
}

/// Writes the program's manual pages, compressed as Debian's policy requires.
fn manual(program: &Path, to: &Path) -> Result<()> {
    let pages = tempfile::tempdir()?;
    process::output(Command::new(program).arg("man").arg(pages.path()))?;
    for entry in fs::read_dir(pages.path())?.flatten() {
        let text = fs::read(entry.path())?;
        write(&to.join(format!("{}.gz", entry.file_name().to_string_lossy())), &gzipped(&text)?)?;
    }
    Ok(())
}

/// Returns the text of both licences.
pub fn copyright() -> Result<String> {
    let read = |name: &str| {
        fs::read_to_string(process::root().join(name)).with_context(|| format!("cannot read {name}"))
    };
    Ok(format!(
        "fonio is licensed under the Apache License 2.0 or the MIT licence, at your option.\n\n{}\n\n{}",
        read("LICENSE-MIT")?,
        read("LICENSE-APACHE")?
    ))
}

/// Compresses bytes with gzip. The result contains no name and no time, so it is reproducible.
pub fn gzipped(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Writes a file that all users may read.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let parent = path.parent().context("a file has no folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o644))?)
}

/// Copies a file and gives the copy the permissions `mode`.
pub fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    write(to, &bytes)?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

/// Gives a folder and the folders in it the usual permissions, whatever the umask was.
pub fn open_folders(folder: &Path) -> Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_folders(&entry.path())?;
        }
    }
    Ok(())
}

/// Returns the total size of the files in `dir`.
fn size(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.metadata()?;
        bytes += if kind.is_dir() { size(&entry.path())? } else { kind.len() };
    }
    Ok(bytes)
}
