//! Runs a command in a guest as if it ran on this machine: in the current directory, with this program, and
//! with the files named on the command line. Moves the command's result files to their paths on this machine.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::archive::Archive;
use crate::error::LabError;
use crate::guest::{self, Ended, Guest, Shape, Streams, Task};
use crate::initramfs::Initramfs;
use crate::kernel::Wanted;
use crate::machine::check;
use crate::needs::{MODULES, Needs};
use crate::own_program::OwnProgram;
use crate::program_root::{self, ProgramRoot};

/// Memory of a guest. The guest's files and the data of its emulated devices are also in this memory.
const MEMORY_MIB: u64 = 3072;

/// A command to run in a guest as if it ran on this machine.
#[derive(Debug)]
pub struct CommandHere<'a> {
    /// The command and its arguments. Files named by these words are copied into the guest.
    pub words: &'a [String],
    /// Packages, programs and modules that the command needs in the guest.
    pub needs: Needs,
    /// Additional files and directories to copy into the guest.
    pub put: &'a [PathBuf],
    /// Files and directories to copy from the guest after the command.
    pub bring: &'a [PathBuf],
    /// The programs of an app that the command runs.
    pub programs: Option<&'a ProgramRoot>,
    /// Width of the terminal in columns; `None` if the output does not go to a terminal.
    pub columns: Option<usize>,
}

impl CommandHere<'_> {
    /// Runs the command in a guest with the kernel `wanted`. Returns the command's result and the kernel
    /// release. Fails if the guest cannot be started, if it ends before the command does, if `stop` becomes
    /// true, or if a result cannot be written.
    pub fn run(
        &self,
        wanted: &Wanted,
        streams: Streams,
        stop: &AtomicBool,
        announce: &dyn Fn(&str),
    ) -> Result<(Ended, String), LabError> {
        check()?;
        let archive = Archive::open()?;
        let here = std::env::current_dir().map_err(LabError::system("find", "the current directory"))?;
        let own = OwnProgram::copied(&archive)?;
        let mut guest = prepare(&archive, &own, wanted, Shape::Bench, &self.needs, announce)?;
        let bring: Vec<PathBuf> = self.bring.iter().map(|path| here.join(path)).collect();
        let named = self.words.iter().flat_map(|word| word.split(',')).map(|word| here.join(word));
        let named =
            named.filter(|input| input.is_file() && !bring.iter().any(|path| input.starts_with(path)));
        for input in named.chain(self.put.iter().map(|path| here.join(path))) {
            if input.is_file() && is_program(&input)? {
                guest.files.add_program(&input, &input)?;
            } else {
                guest.files.add_copy(&input, &input)?;
            }
        }
        let mut command = self.words.to_vec();
        if let Some(programs) = self.programs {
            guest.programs = Some(programs.disk(announce)?);
            let place = format!("{}={}", program_root::PLACE, programs.place().display());
            command.splice(0..0, ["env".to_owned(), place]);
        }
        if let Some(columns) = self.columns {
            command.splice(0..0, ["env".to_owned(), format!("COLUMNS={columns}")]);
        }
        // Stage the results in their final directory, so that they are only renamed at the end and a killed
        // run leaves no files elsewhere.
        let staging = match bring.first().filter(|path| path.is_dir()) {
            Some(results) => tempfile::Builder::new().prefix(".guest-").tempdir_in(results),
            None => tempfile::tempdir(),
        };
        let staging =
            staging.map_err(LabError::system("create", "a directory for the files from the guest"))?;
        let task = Task { words: &command, folder: &here, bring: &bring, to: staging.path() };
        let release = guest.kernel.release.clone();
        let ended = guest.run_to(&archive, &task, streams, stop, announce)?;
        for path in &bring {
            let brought = staging.path().join(path.strip_prefix("/").unwrap_or(path));
            if brought.exists() {
                put(&brought, path)?;
            }
        }
        Ok((ended, release))
    }
}

/// Starts a shell on this terminal, in a guest with this program and with the packages, programs and modules
/// that any of its commands needs. Fails if the guest cannot be started.
pub fn shell_here(wanted: &Wanted, announce: &dyn Fn(&str)) -> Result<(), LabError> {
    let archive = Archive::open()?;
    let own = OwnProgram::copied(&archive)?;
    let guest = prepare(&archive, &own, wanted, Shape::Test, &Needs::everything(), announce)?;
    guest::shell(guest, &archive, announce)
}

/// Prepares a guest that contains the running program.
fn prepare(
    archive: &Archive,
    own: &OwnProgram,
    wanted: &Wanted,
    shape: Shape,
    needs: &Needs,
    announce: &dyn Fn(&str),
) -> Result<Guest, LabError> {
    let (_, kernel) = archive.kernel(wanted, announce)?;
    let userland = archive.userland(&needs.packages(), announce)?;
    let mut files = Initramfs::new(&userland)?;
    for tool in needs.tools() {
        files.add_tool(tool)?;
    }
    files.add_program(own.path(), Path::new("usr/bin/fonio"))?;
    Ok(Guest {
        kernel,
        shape,
        memory_mib: MEMORY_MIB,
        modules: needs.modules(),
        wishes: MODULES.to_vec(),
        files,
        disks: Vec::new(),
        programs: None,
        card: None,
    })
}

/// Moves a file or folder to `to`. If `to` is an existing folder, its other entries stay.
fn put(from: &Path, to: &Path) -> Result<(), LabError> {
    if from.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        fs::create_dir_all(to).map_err(LabError::system("write", to))?;
        for entry in fs::read_dir(from).map_err(LabError::system("read", from))? {
            let entry = entry.map_err(LabError::system("read", from))?;
            put(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    let renamed = match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => fs::copy(from, to).map(drop),
        done => done,
    };
    renamed.map_err(LabError::system("write", to))
}

/// Returns whether the file is an ELF program, not a script or data.
fn is_program(path: &Path) -> Result<bool, LabError> {
    let mut start = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read(&mut start));
    Ok(start[..read.map_err(LabError::system("read", path))?] == *b"\x7fELF")
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
}
