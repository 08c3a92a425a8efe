//! Lists Debian's kernels and finds their files.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;

use crate::architecture::Architecture;
use crate::error::LabError;
use crate::version;

/// A generic kernel in Debian's archive; not a cloud kernel, which lacks file systems, nor a real-time
/// kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// The kernel's series: `6.12`.
    pub series: String,
    /// Debian's version number: `6.12.117-1~deb12u1`.
    pub version: String,
    /// The name of the kernel's main package.
    pub package: String,
    /// Packages that contain the kernel's files. From Linux 6.19 on, the main package only depends on these
    /// packages.
    pub parts: Vec<String>,
    /// Download size of the kernel's packages in bytes.
    pub download_bytes: u64,
    /// Whether the kernel's files are already on this machine.
    pub fetched: bool,
}

/// The kernel that the user requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The newest kernel in the archive.
    Newest,
    /// The newest kernel of a series, or a version: `6.12`, `6.12.117`.
    Version(String),
}

impl FromStr for Wanted {
    type Err = LabError;

    /// Accepts `lab:6.12`, `6.12`, `6.12.117`, `newest` and `lab`, which means the default kernel.
    fn from_str(text: &str) -> Result<Wanted, LabError> {
        let name = text.strip_prefix("lab:").unwrap_or(text);
        let is_version = name.split('.').count() >= 2
            && name.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        match name {
            "lab" => Ok(Wanted::default()),
            "newest" => Ok(Wanted::Newest),
            _ if is_version => Ok(Wanted::Version(name.to_owned())),
            _ => Err(LabError::NotAKernel { text: text.to_owned() }),
        }
    }
}

impl Default for Wanted {
    /// Returns Linux 6.12, Debian 13's kernel: Debian's oldest kernel with ublk.
    fn default() -> Wanted {
        Wanted::Version("6.12".to_owned())
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Newest => f.write_str("newest"),
            Wanted::Version(version) => f.write_str(version),
        }
    }
}

impl Wanted {
    /// Returns the newest matching kernel of `kernels`.
    pub(crate) fn choose<'a>(&self, kernels: &'a [Kernel]) -> Option<&'a Kernel> {
        let meant = |kernel: &&Kernel| match self {
            Wanted::Newest => true,
            Wanted::Version(wanted) => {
                let upstream = kernel.version.split('-').next().unwrap_or_default();
                upstream == wanted
                    || upstream.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.starts_with('.'))
            }
        };
        kernels.iter().filter(meant).max_by(|a, b| newer(a, b))
    }
}

fn newer(a: &Kernel, b: &Kernel) -> Ordering {
    version::compare(&a.version, &b.version)
}

/// Returns the kernels in the output of `apt-cache dumpavail` whose names end with `flavour`, oldest first.
/// Skips packages that only depend on the newest kernel of a series.
pub(crate) fn listed(text: &str, flavour: &str) -> Vec<Kernel> {
    let paragraphs = || text.split("\n\n").map(Paragraph).filter(|paragraph| paragraph.has_part_of_kernel());
    let sizes: BTreeMap<(&str, &str), u64> = paragraphs()
        .filter_map(|paragraph| {
            let size = paragraph.field("Size")?.parse().ok()?;
            Some(((paragraph.field("Package")?, paragraph.field("Version")?), size))
        })
        .collect();
    let mut kernels: Vec<Kernel> =
        paragraphs().filter_map(|paragraph| paragraph.kernel(flavour, &sizes)).collect();
    kernels.sort_by(newer);
    kernels.dedup();
    kernels
}

/// A package's paragraph in apt's package list.
#[derive(Clone, Copy)]
struct Paragraph<'a>(&'a str);

impl<'a> Paragraph<'a> {
    fn has_part_of_kernel(self) -> bool {
        self.0.trim_start().starts_with("Package: linux-")
    }

    fn field(self, name: &str) -> Option<&'a str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::trim))
    }

    fn kernel(self, flavour: &str, sizes: &BTreeMap<(&str, &str), u64>) -> Option<Kernel> {
        let package = self.field("Package")?;
        let release = package.strip_prefix("linux-image-")?.strip_suffix(flavour)?.strip_suffix('-')?;
        let flavours = ["cloud", "rt", "unsigned", "dbg"];
        let is_generic = !release.split('-').any(|part| flavours.contains(&part));
        let version = self.field("Version")?;
        let mut numbers = version.split('-').next()?.split('.');
        let series = format!("{}.{}", numbers.next()?, numbers.next()?);
        // `linux-image-6.12-amd64` is a metapackage that only depends on the newest kernel of the 6.12
        // series.
        let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_generic || release.split(['.', '-', '+']).take_while(is_number).count() < 3 {
            return None;
        }
        let depends = self.field("Depends").unwrap_or_default().split(", ");
        let names = depends.filter_map(|depends| depends.split(' ').next());
        let parts: Vec<String> = names
            .filter(|name| name.starts_with("linux-") && name.ends_with(&format!("-{release}-{flavour}")))
            .map(str::to_owned)
            .collect();
        let all = parts.iter().map(String::as_str).chain([package]);
        let download_bytes = all.filter_map(|name| sizes.get(&(name, version))).sum();
        Some(Kernel {
            series,
            version: version.to_owned(),
            package: package.to_owned(),
            parts,
            download_bytes,
            fetched: false,
        })
    }
}

/// The files of a downloaded kernel on this machine.
#[derive(Clone, Debug)]
pub struct KernelFiles {
    /// The architecture for which the kernel was built.
    pub architecture: Architecture,
    /// The output of `uname -r` in the guest.
    pub release: String,
    /// The path of the compressed kernel image.
    pub image: PathBuf,
    /// The folder with the kernel's modules.
    pub modules: PathBuf,
}

impl KernelFiles {
    /// Finds the kernel's files in an unpacked package.
    pub(crate) fn in_package(files: &Path, architecture: Architecture) -> Result<KernelFiles, LabError> {
        let folder = files.join("lib/modules");
        // From Debian 13 on, modules are below /usr.
        let folder = if folder.exists() { folder } else { files.join("usr/lib/modules") };
        let mut entries = fs::read_dir(&folder).map_err(LabError::system("read", &folder))?;
        let entry = entries.next().transpose().map_err(LabError::system("read", &folder))?;
        let entry = entry.ok_or_else(|| {
            LabError::system("find modules in", &folder)(std::io::ErrorKind::NotFound.into())
        })?;
        let release = entry.file_name().to_string_lossy().into_owned();
        let modules = folder.join(&release);
        let image = files.join(format!("boot/vmlinuz-{release}"));
        let image = if image.exists() { image } else { modules.join("vmlinuz") };
        Ok(KernelFiles { architecture, release, image, modules })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVAILABLE: &str = "Package: linux-image-6.12-amd64\nVersion: 6.12.117-1~deb12u1\nSize: 1480\n\n\
        Package: linux-image-6.12.94+deb13-amd64\nVersion: 6.12.94-1\nSize: 100\n\n\
        Package: linux-image-6.12.117+deb12-amd64\nSize: 107179464\nVersion: 6.12.117-1~deb12u1\n\n\
        Package: linux-image-6.12.117+deb12-cloud-amd64\nVersion: 6.12.117-1~deb12u1\nSize: 100\n\n\
        Package: linux-image-6.1.0-56-amd64\nVersion: 6.1.192-2\nSize: 100\n\n\
        Package: linux-image-6.1.0-56-rt-amd64\nVersion: 6.1.192-2\nSize: 100\n\n\
        Package: linux-image-7.3.4+deb13-amd64\nVersion: 7.3.4-1~bpo13+1\nSize: 1900\n\
        Depends: dracut | initramfs-tools (>= 0.120), linux-binary-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1), \
        linux-modules-7.3.4+deb13-amd64 (= 7.3.4-1~bpo13+1)\n\n\
        Package: linux-binary-7.3.4+deb13-amd64\nVersion: 7.3.4-1~bpo13+1\nSize: 20000\n\n\
        Package: linux-modules-7.3.4+deb13-amd64\nVersion: 7.3.4-1~bpo13+1\nSize: 300000\n\n\
        Package: linux-image-amd64\nVersion: 6.1.192-2\nSize: 100\n\nPackage: linuxlogo\nVersion: 6.12-1\n";

    #[test]
    fn only_generic_kernels_in_order() {
        let kernels = listed(AVAILABLE, "amd64");
        let names: Vec<_> =
            kernels.iter().map(|kernel| (kernel.series.as_str(), kernel.package.as_str())).collect();
        assert_eq!(
            names,
            [
                ("6.1", "linux-image-6.1.0-56-amd64"),
                ("6.12", "linux-image-6.12.94+deb13-amd64"),
                ("6.12", "linux-image-6.12.117+deb12-amd64"),
                ("7.3", "linux-image-7.3.4+deb13-amd64"),
            ]
        );
        assert_eq!((kernels[2].download_bytes, kernels[2].parts.len()), (107_179_464, 0));
        assert_eq!((kernels[3].download_bytes, kernels[3].parts.len()), (321_900, 2));
    }

    #[test]
    fn the_newest_that_is_meant() {
        let kernels = listed(AVAILABLE, "amd64");
        for (text, version) in [
            ("lab:6.12", Some("6.12.117-1~deb12u1")),
            ("lab", Some("6.12.117-1~deb12u1")),
            ("6.12.94", Some("6.12.94-1")),
            ("lab:6.1", Some("6.1.192-2")),
            ("newest", Some("7.3.4-1~bpo13+1")),
            ("6.11", None),
        ] {
            let wanted: Wanted = text.parse().expect(text);
            assert_eq!(wanted.choose(&kernels).map(|kernel| kernel.version.as_str()), version, "{text}");
        }
        for text in ["", "lab:", "6", "6.", "6.12-rc1", "bookworm"] {
            assert!(text.parse::<Wanted>().is_err(), "{text}");
        }
    }
}
