//! Finds kernel modules and the order in which they must be loaded.
//!
//! Debian's packages contain no dependency index, because `depmod` creates it when a kernel is installed. So
//! the dependencies are read from the module files.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use lzma_rust2::XzReader;

use crate::error::LabError;
use crate::kernel::KernelFiles;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Modules {
    release: String,
    files: BTreeMap<String, PathBuf>,
    builtin: Vec<String>,
}

impl Modules {
    pub(crate) fn of(kernel: &KernelFiles) -> Result<Modules, LabError> {
        let mut files = BTreeMap::new();
        gather(&kernel.modules.join("kernel"), &mut files)?;
        let list = kernel.modules.join("modules.builtin");
        let list = fs::read_to_string(&list).map_err(LabError::system("read", &list))?;
        let builtin = list.lines().filter_map(|line| name_of(Path::new(line))).collect();
        Ok(Modules { release: kernel.release.clone(), files, builtin })
    }

    /// Returns the modules to load for `wanted` and `wishes`, each after its dependencies. Skips modules
    /// that are built into the kernel, and modules in `wishes` that the kernel lacks.
    pub(crate) fn for_all(&self, wanted: &[&str], wishes: &[&str]) -> Result<Vec<Module>, LabError> {
        let mut order = Vec::new();
        for name in wishes {
            match self.add(name, &mut order) {
                Ok(()) | Err(LabError::NoModule { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        wanted.iter().try_for_each(|name| self.add(name, &mut order))?;
        Ok(order)
    }

    fn add(&self, name: &str, order: &mut Vec<Module>) -> Result<(), LabError> {
        let name = name.replace('-', "_");
        if self.builtin.contains(&name) || order.iter().any(|module| module.name == name) {
            return Ok(());
        }
        let Some(file) = self.files.get(&name) else {
            return Err(LabError::NoModule { kernel: self.release.clone(), module: name });
        };
        let bytes = uncompressed(file)?;
        let bad = |reason: &str| LabError::BadModule { path: file.clone(), reason: reason.to_owned() };
        let needs = field(&bytes, "depends").ok_or_else(|| bad("the module lists no dependencies"))?;
        for needed in needs.split(',').filter(|needed| !needed.is_empty()) {
            self.add(needed, order)?;
        }
        // For example, btrfs and f2fs request checksums by algorithm name. Several modules can provide an
        // algorithm such as `crc32c`, so there may be no module file with this name.
        for hint in fields(&bytes, "softdep").filter_map(|hint| hint.strip_prefix("pre: ")) {
            for needed in hint.split_whitespace() {
                let _ = self.add(needed, order);
            }
        }
        order.push(Module { name, bytes });
        Ok(())
    }
}

/// Returns the module name of a file: `nilfs2` for `fs/nilfs2/nilfs2.ko.xz`.
fn name_of(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let (name, _) = name.split_once(".ko")?;
    Some(name.replace('-', "_"))
}

fn gather(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), LabError> {
    for entry in fs::read_dir(folder).map_err(LabError::system("read", folder))? {
        let path = entry.map_err(LabError::system("read", folder))?.path();
        if path.is_dir() {
            gather(&path, files)?;
        } else if let Some(name) = name_of(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

fn uncompressed(file: &Path) -> Result<Vec<u8>, LabError> {
    if file.extension().is_none_or(|extension| extension != "xz") {
        return fs::read(file).map_err(LabError::system("read", file));
    }
    let compressed = fs::File::open(file).map_err(LabError::system("read", file))?;
    let mut bytes = Vec::new();
    XzReader::new(BufReader::new(compressed), false)
        .read_to_end(&mut bytes)
        .map_err(|error| LabError::BadModule { path: file.to_owned(), reason: error.to_string() })?;
    Ok(bytes)
}

/// Returns the first value of a field in the module's description, a list of `name=value`, each ended by a
/// zero byte.
fn field<'a>(module: &'a [u8], name: &str) -> Option<&'a str> {
    fields(module, name).next()
}

fn fields<'a>(module: &'a [u8], name: &str) -> impl Iterator<Item = &'a str> {
    module.split(|byte| *byte == 0).filter_map(move |text| {
        let value = text.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        std::str::from_utf8(value).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(dir: &Path, files: &[(&str, &str)]) -> Modules {
        let mut found = BTreeMap::new();
        for (name, info) in files {
            let path = dir.join(format!("{name}.ko"));
            let mut bytes = b"\x7fELF\0".to_vec();
            bytes.extend_from_slice(info.replace(';', "\0").as_bytes());
            fs::write(&path, bytes).expect("a file");
            found.insert(name_of(&path).expect("a name"), path);
        }
        Modules { release: "6.12".to_owned(), files: found, builtin: vec!["crc16".to_owned()] }
    }

    #[test]
    fn each_module_comes_after_those_that_it_needs() {
        let dir = tempfile::tempdir().expect("a folder");
        let modules = modules(
            dir.path(),
            &[
                ("ext4", "license=GPL;depends=jbd2,mbcache,crc16;softdep=pre: crc32c;name=ext4;"),
                ("jbd2", "depends=;"),
                ("mbcache", "depends=;"),
                ("crc32c-intel", "depends=;alias=crc32c;"),
                ("fuse", "license=GPL;"),
            ],
        );
        let names = |wanted: &[&str]| {
            modules
                .for_all(wanted, &["no_such_module"])
                .map(|all| all.into_iter().map(|module| module.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["ext4", "jbd2"]).expect("modules"), ["jbd2", "mbcache", "ext4"]);
        assert_eq!(names(&["crc32c-intel", "crc16"]).expect("modules"), ["crc32c_intel"]);
        let missing = names(&["nilfs2"]).expect_err("it is missing").to_string();
        assert!(missing.starts_with("Linux 6.12 of Debian has no module nilfs2"), "{missing}");
        assert!(matches!(names(&["fuse"]), Err(LabError::BadModule { .. })));
    }
}
