//! Finds the program `fonio-recorder` for the processor of a phone.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use fonio_core::printable;

/// The name of the program, and of its file in a package for the phone's own processor.
const NAME: &str = "fonio-recorder";

/// A kind of processor: Android's name, the name of Rust's target, and its number in ELF files (`e_machine`).
const KINDS: [(&str, &str, u16); 4] = [
    ("arm64-v8a", "aarch64-unknown-linux-musl", 183),
    ("armeabi-v7a", "armv7-unknown-linux-musleabihf", 40),
    ("armeabi", "armv7-unknown-linux-musleabihf", 40),
    ("x86_64", "x86_64-unknown-linux-musl", 62),
];

/// Finds the recorder for a processor that Android calls `abi`: the file `named` by the user, or a file in one of the
/// folders. The error says why there is none, and how to get one.
///
/// # Errors
/// Fails if there is no such program, or if it is for another processor.
pub fn find_recorder(named: Option<&Path>, folders: &[PathBuf], abi: &str) -> Result<PathBuf, String> {
    let Some((_, target, machine)) = KINDS.into_iter().find(|(name, ..)| *name == abi) else {
        return Err(format!(
            "fonio has no recorder for its processor ({})",
            if abi.is_empty() { "of an unknown kind".to_owned() } else { printable(abi).into_owned() }
        ));
    };
    if let Some(named) = named {
        return match machine_of(named) {
            Ok(Some(found)) if found == machine => Ok(named.to_owned()),
            Ok(_) => Err(format!("{} is not a program for {abi} ({target})", named.display())),
            Err(error) => Err(format!("cannot read {}: {error}", named.display())),
        };
    }
    let version = env!("CARGO_PKG_VERSION");
    let names = [format!("{NAME}-{version}-{target}"), NAME.to_owned()];
    let is_one = |path: &PathBuf| machine_of(path).is_ok_and(|found| found == Some(machine));
    let mut paths = folders.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    paths.find(is_one).ok_or_else(|| {
        format!(
            "no recorder for {abi} was found; name the file {}, which comes with fonio's releases, with --recorder FILE, or \
             put it next to the program fonio",
            names[0]
        )
    })
}

/// Returns the kind of processor of a program; `None` if the file is not a program.
fn machine_of(path: &Path) -> std::io::Result<Option<u16>> {
    let mut head = [0; 20];
    let file = File::open(path)?;
    if !file.metadata()?.is_file() || (&file).read_exact(&mut head).is_err() {
        return Ok(None);
    }
    let is_little_endian = head.starts_with(b"\x7fELF") && head[5] == 1;
    Ok(is_little_endian.then(|| u16::from_le_bytes([head[18], head[19]])))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_recorder_is_for_the_processor_of_the_phone() {
        let dir = tempfile::tempdir().expect("a folder");
        let folders = [dir.path().join("none"), dir.path().to_owned()];
        let program = |name: &str, machine: u16| {
            let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
            bytes.resize(18, 0);
            bytes.extend(machine.to_le_bytes());
            let path = dir.path().join(name);
            fs::write(&path, bytes).expect("written");
            path
        };
        let find = |abi: &str| find_recorder(None, &folders, abi);
        let own = program("fonio-recorder", 62);
        assert_eq!(find("x86_64"), Ok(own.clone()));
        let missing = find("arm64-v8a").expect_err("none");
        assert!(
            missing.contains("aarch64-unknown-linux-musl") && missing.contains("--recorder FILE"),
            "{missing}"
        );
        let name = format!("fonio-recorder-{}-aarch64-unknown-linux-musl", env!("CARGO_PKG_VERSION"));
        let arm = program(&name, 183);
        assert_eq!(find("arm64-v8a"), Ok(arm.clone()));
        assert!(find("mips").expect_err("none").contains("(mips)"));
        for (file, expected) in [
            (own, "is not a program for arm64-v8a"),
            (dir.path().to_owned(), "is not a program"),
            (dir.path().join("absent"), "cannot read"),
        ] {
            let error = find_recorder(Some(&file), &folders, "arm64-v8a").expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(find_recorder(Some(&arm), &[], "arm64-v8a"), Ok(arm));
    }
}
