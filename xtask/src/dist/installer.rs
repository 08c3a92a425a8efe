//! `install.sh`: downloads the program for a processor and checks its checksum. `tests` runs it with the shells of
//! Debian and of small systems.

use std::path::PathBuf;

use anyhow::Result;

use super::{folder, package};
use crate::process;

/// The script in the repository.
pub const SCRIPT: &str = "packages/install.sh";

/// Copies the script to the files of a release.
pub fn make() -> Result<PathBuf> {
    let copy = folder()?.join("install.sh");
    package::install(&process::root().join(SCRIPT), &copy, 0o755)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::{Command, Output};

    use fonio_testing::{copy_program, find_program, write_program};

    use super::*;
    use crate::dist::apt::Server;
    use crate::dist::program::{FONIO, RECORDER};
    use crate::dist::sha256;
    use crate::dist::target::TARGETS;

    /// A release with small programs, a folder to install into, and the programs that the script may use.
    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Place {
            let folder = tempfile::tempdir().expect("a folder");
            let release = folder.path().join("release");
            fs::create_dir(&release).expect("a folder");
            let mut sums = String::new();
            for target in TARGETS {
                for program in [FONIO, RECORDER] {
                    let name = program.file(target);
                    let text = format!("#!/bin/sh\necho {name}\n");
                    sums += &format!("{}  {name}\n", sha256(text.as_bytes()));
                    fs::write(release.join(name), text).expect("a file");
                }
            }
            fs::write(release.join("SHA256SUMS"), sums).expect("a file");
            Place { folder }
        }

        fn release(&self) -> PathBuf {
            self.folder.path().join("release")
        }

        fn to(&self) -> PathBuf {
            self.folder.path().join("to")
        }

        /// Makes the folder of `PATH`, with a `uname` of this machine and without the programs in `missing`.
        fn programs(&self, machine: &str, missing: &[&str]) -> PathBuf {
            let programs = self.folder.path().join("programs");
            let _ = fs::remove_dir_all(&programs);
            fs::create_dir(&programs).expect("a folder");
            let wanted = [
                "sh",
                "cat",
                "chmod",
                "cp",
                "curl",
                "grep",
                "id",
                "mkdir",
                "mktemp",
                "mv",
                "rm",
                "sed",
                "sha256sum",
                "wget",
            ];
            for name in wanted.into_iter().filter(|name| !missing.contains(name)) {
                if let Some(found) = find_program(name) {
                    std::os::unix::fs::symlink(found, programs.join(name)).expect("a link");
                }
            }
            write_program(&programs.join("uname"), format!("#!/bin/sh\necho {machine}\n"));
            programs
        }

        fn run(&self, shell: &[&str], from: &str, programs: &Path, arguments: &[&str]) -> Output {
            let temporary = self.folder.path().join("temporary");
            fs::create_dir_all(&temporary).expect("a folder");
            let mut command = Command::new(find_program(shell[0]).expect("a shell"));
            command.args(&shell[1..]).arg(process::root().join(SCRIPT)).args(arguments);
            command.env("PATH", programs).env("TMPDIR", &temporary).env("HOME", self.folder.path());
            command.env("FONIO_FROM", from).env("FONIO_TO", self.to());
            let output = command.output().expect("the script runs");
            assert_eq!(fs::read_dir(&temporary).expect("a folder").count(), 0, "a temporary file remains");
            output
        }
    }

    /// The shells that run the script.
    fn shells() -> Vec<Vec<&'static str>> {
        let all: [&[&str]; 3] = [&["dash"], &["busybox", "sh"], &["bash"]];
        let found: Vec<_> =
            all.into_iter().filter(|shell| find_program(shell[0]).is_some()).map(<[_]>::to_vec).collect();
        assert!(!found.is_empty(), "this machine has no shell");
        found
    }

    /// Returns whether a shell ignores programs in `PATH` that it has itself, such as `uname` and `wget`.
    fn has_own_programs(shell: &[&str]) -> bool {
        shell[0] == "busybox"
    }

    /// Returns the only line that a failed run wrote to standard error.
    fn error(output: &Output) -> String {
        assert!(!output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    }

    #[test]
    fn each_processor_gets_its_program_over_http_and_from_a_folder() {
        let place = Place::new();
        let server = Server::start(&place.release()).expect("a server");
        let folder = place.release().display().to_string();
        let cases = [
            ("x86_64", "x86_64-unknown-linux-musl"),
            ("aarch64", "aarch64-unknown-linux-musl"),
            ("armv7l", "armv7-unknown-linux-musleabihf"),
            ("armv6l", "arm-unknown-linux-musleabihf"),
        ];
        for shell in shells() {
            for (machine, rust) in cases {
                if has_own_programs(&shell) && machine != std::env::consts::ARCH {
                    continue;
                }
                for (from, missing) in
                    [(&server.address, "wget"), (&server.address, "curl"), (&folder, "curl")]
                {
                    let programs = place.programs(machine, &[missing]);
                    let output = place.run(&shell, from, &programs, &[]);
                    assert!(output.status.success(), "{shell:?} {machine} {from}: {output:?}");
                    let said = Command::new(place.to().join("fonio")).output().expect("it runs").stdout;
                    assert!(String::from_utf8_lossy(&said).contains(rust), "{shell:?} {machine}");
                    fs::remove_dir_all(place.to()).expect("it was made");
                }
            }
        }
        let programs = place.programs("armv6l", &[]);
        let output = place.run(&["dash"], &folder, &programs, &["fonio-recorder"]);
        assert!(output.status.success(), "{output:?}");
        assert!(place.to().join("fonio-recorder").exists());
    }

    #[test]
    fn each_mistake_is_one_sentence_and_leaves_nothing() {
        let place = Place::new();
        let server = Server::start(&place.release()).expect("a server");
        let (web, folder) = (server.address.as_str(), place.release().display().to_string());
        let file = place.release().join(FONIO.file(TARGETS[0]));
        let good = fs::read(&file).expect("a file");
        for shell in shells() {
            let check = |from: &str, machine: &str, missing: &[&str], wanted: &str| {
                if has_own_programs(&shell)
                    && (machine != std::env::consts::ARCH || missing.len() > 1 || missing == ["sha256sum"])
                {
                    return;
                }
                let programs = place.programs(machine, missing);
                let said = error(&place.run(&shell, from, &programs, &[]));
                assert!(said.contains(wanted), "{shell:?}: {said}");
                assert!(!place.to().exists(), "{shell:?}: {said}");
            };
            check(web, "riscv64", &[], "no program for the processor riscv64");
            check(web, "x86_64", &["curl", "wget"], "needs curl or wget");
            check(web, "x86_64", &["sha256sum"], "needs sha256sum");
            check("http://127.0.0.1:9", "x86_64", &["wget"], "cannot download http://127.0.0.1:9/SHA256SUMS");
            check("http://127.0.0.1:9", "x86_64", &["curl"], "cannot download http://127.0.0.1:9/SHA256SUMS");
            check("/nowhere", "x86_64", &[], "cannot copy /nowhere/SHA256SUMS");
            fs::write(&file, "damaged").expect("a file");
            check(web, "x86_64", &[], "has the wrong checksum");
            check(&folder, "x86_64", &[], "has the wrong checksum");
            fs::write(&file, &good).expect("a file");
        }
        let sums = place.release().join("SHA256SUMS");
        let programs = place.programs("x86_64", &[]);
        let text = fs::read_to_string(&sums).expect("a file");
        fs::write(&sums, text.replace(package::VERSION, "0.0.1-rc.1") + &text).expect("a file");
        let said = error(&place.run(&["dash"], &folder, &programs, &[]));
        assert!(said.contains("names several programs"), "{said}");
        fs::write(&sums, "").expect("a file");
        let said = error(&place.run(&["dash"], &folder, &programs, &[]));
        assert!(said.contains("names no program for x86_64-unknown-linux-musl"), "{said}");
        let said = error(&place.run(&["dash"], &folder, &programs, &["fonio-results"]));
        assert!(said.contains("fonio-results"), "{said}");
    }

    #[test]
    fn a_folder_without_permission_is_one_sentence() {
        let place = Place::new();
        // A file in place of the folder refuses root too.
        fs::write(place.to(), "").expect("a file");
        let programs = place.programs("x86_64", &[]);
        for shell in shells() {
            let said = error(&place.run(&shell, &place.release().display().to_string(), &programs, &[]));
            assert!(said.contains("cannot write to") && said.contains("FONIO_TO"), "{said}");
        }
    }

    #[test]
    fn an_earlier_program_stays_until_the_new_one_is_checked() {
        let place = Place::new();
        fs::create_dir(place.to()).expect("a folder");
        copy_program("/bin/true", &place.to().join("fonio"));
        let before = fs::read(place.to().join("fonio")).expect("a program");
        let folder = place.release().display().to_string();
        fs::write(place.release().join(FONIO.file(TARGETS[0])), "damaged").expect("a file");
        let programs = place.programs("x86_64", &[]);
        error(&place.run(&["dash"], &folder, &programs, &[]));
        assert!(fs::read(place.to().join("fonio")).expect("a program") == before);
        assert_eq!(fs::read_dir(place.to()).expect("a folder").count(), 1);
    }

    #[test]
    fn the_script_has_no_finding_of_shellcheck() {
        if find_program("shellcheck").is_none() {
            println!("skipped: this machine has no shellcheck");
            return;
        }
        for script in [SCRIPT, "packages/home-assistant/fonio/run.sh"] {
            let said = process::output(
                Command::new("shellcheck").args(["--shell=sh"]).arg(process::root().join(script)),
            );
            said.expect("shellcheck finds nothing");
        }
    }

    /// `cargo binstall` finds the files of a release by a template in the manifests.
    #[test]
    fn binstall_looks_for_the_names_of_the_distributed_files() {
        for program in [FONIO, RECORDER] {
            let path = process::root().join("crates").join(program.name).join("Cargo.toml");
            let manifest: toml::Table =
                toml::from_str(&fs::read_to_string(path).expect("a manifest")).expect("TOML");
            let of_binstall = &manifest["package"]["metadata"]["binstall"];
            assert_eq!(of_binstall["pkg-fmt"].as_str(), Some("bin"));
            let template = of_binstall["pkg-url"].as_str().expect("a template");
            for target in TARGETS {
                let url = template
                    .replace("{ repo }", env!("CARGO_PKG_REPOSITORY"))
                    .replace("{ name }", program.name)
                    .replace("{ version }", package::VERSION)
                    .replace("{ target }", target.rust);
                let wanted = format!(
                    "https://github.com/fonio/fonio/releases/download/v{}/{}",
                    package::VERSION,
                    program.file(target)
                );
                assert_eq!(url, wanted);
            }
        }
    }
}
