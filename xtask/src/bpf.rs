//! Compiles the BPF programs of the recorder, for `cargo xtask assets`.
//!
//! The compiled objects are committed to the repository, so compiling fonio does not need clang. The bytes of
//! the objects depend on clang's version, so the command always uses clang 14.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// The folder of the BPF sources and objects, relative to the root folder of the repository.
pub const FOLDER: &str = "crates/fonio-record/bpf";

/// The names of the BPF programs: `NAME.bpf.c` is compiled to `NAME.bpf.o`.
const PROGRAMS: [&str; 4] = ["bios", "blocked", "calls", "requests"];

/// The compiler, and the program that removes debug information but keeps type information (BTF).
const CLANG: &str = "clang-14";
const STRIP: &str = "llvm-strip-14";

/// Compiles the BPF programs. Returns the names and contents of the objects.
pub fn compile() -> Result<Vec<(String, Vec<u8>)>> {
    let folder = tempfile::tempdir_in(process::scratch("bpf")?).context("cannot create a folder")?;
    PROGRAMS.iter().map(|program| compile_one(program, folder.path())).collect()
}

fn compile_one(program: &str, folder: &Path) -> Result<(String, Vec<u8>)> {
    let (source, object) = (format!("{program}.bpf.c"), format!("{program}.bpf.o"));
    let made = folder.join(&object);
    // Run clang in the source folder. Otherwise, the object would contain paths of this machine.
    let mut clang = Command::new(CLANG);
    clang.args(["--target=bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
    clang.args(["-fdebug-compilation-dir=.", "-c", &source, "-o"]).arg(&made);
    process::output(clang.current_dir(process::root().join(FOLDER)))?;
    process::output(Command::new(STRIP).arg("-g").arg(&made))?;
    let bytes = fs::read(&made).with_context(|| format!("cannot read {}", made.display()))?;
    Ok((object, bytes))
}

#[cfg(test)]
mod tests {
    use fonio_testing::skip_without;

    use super::*;

    #[test]
    fn the_objects_are_made_from_their_sources() {
        skip_without!(Clang);
        for (name, bytes) in compile().unwrap_or_else(|error| panic!("{error:#}")) {
            let kept = fs::read(process::root().join(FOLDER).join(&name)).unwrap_or_default();
            assert!(kept == bytes, "{FOLDER}/{name} is out of date: run `cargo xtask assets bpf`");
            let path = process::root().display().to_string();
            assert!(!bytes.windows(path.len()).any(|part| part == path.as_bytes()), "{name} names {path}");
        }
    }
}
