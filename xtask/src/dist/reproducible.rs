//! `cargo xtask dist reproducible`: builds the last commit twice, in clones with other names and target
//! directories, and compares the bytes of all files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::sha256;
use crate::process;

/// The names of the folders in which the clones are. Their lengths differ, because paths can move other bytes.
const FOLDERS: [&str; 2] = ["one", "another-folder/below"];

/// Makes the files twice, and fails if a file differs. `arguments` are those of `cargo xtask dist`.
pub fn run(arguments: &[&str]) -> Result<()> {
    process::outlive_signals()?;
    let scratch = tempfile::tempdir_in(process::scratch("dist")?).context("cannot create a folder")?;
    let mut all = Vec::new();
    for name in FOLDERS {
        process::check_signals()?;
        let clone = scratch.path().join(name);
        fs::create_dir_all(&clone).with_context(|| format!("cannot make {}", clone.display()))?;
        process::run(
            Command::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(process::root()).arg(&clone),
        )?;
        let target = scratch.path().join(format!("target-{}", name.len()));
        println!("\nBuilding in {}: cargo xtask dist {}", clone.display(), arguments.join(" "));
        let mut cargo = Command::new("cargo");
        cargo.args(["xtask", "dist"]).args(arguments).current_dir(&clone).env("CARGO_TARGET_DIR", &target);
        // Signatures contain the time.
        cargo.env_remove(super::apt::KEY_VARIABLE);
        process::run(&mut cargo)?;
        all.push(files(&target.join("dist"))?);
        process::remove_folder(&target)?;
    }
    let [first, second] = &all[..] else { unreachable!("there are two folders") };
    ensure!(!first.is_empty(), "no file was made");
    let names: std::collections::BTreeSet<_> = first.keys().chain(second.keys()).collect();
    let mut differing = 0;
    println!();
    for name in names {
        let same = first.get(name) == second.get(name);
        differing += u32::from(!same);
        let sum = first.get(name).map_or("missing", String::as_str);
        println!("{} {} {name}", if same { " " } else { "*" }, sum.get(..16).unwrap_or(sum));
    }
    ensure!(differing == 0, "{differing} files differ between the two builds (marked *)");
    println!("\nBoth builds have the same bytes.");
    Ok(())
}

/// Returns the checksums of the files in a folder, by their paths below it.
fn files(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot list {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                found.insert(name, sha256(&bytes));
            }
        }
    }
    Ok(found)
}
