//! The targets for which programs are built.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, Result, bail};
use fonio_lab::Architecture;

/// A kind of processor, with the name in the files that users get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// x86-64.
    Amd64,
    /// 64-bit ARM.
    Arm64,
    /// 32-bit ARM from ARMv7 on: Debian's armhf.
    Armhf,
    /// 32-bit ARM with the ARM1176: Raspberry Pi Zero and 1. Raspberry Pi OS calls it armhf, too.
    Armv6,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 4] = [Target::Amd64, Target::Arm64, Target::Armhf, Target::Armv6];

    /// The name in the files that users get.
    pub fn name(self) -> &'static str {
        match self {
            Target::Amd64 => "amd64",
            Target::Arm64 => "arm64",
            Target::Armhf => "armhf",
            Target::Armv6 => "armv6",
        }
    }

    /// The architecture of Debian in which its packages are installed.
    pub fn debian(self) -> Architecture {
        match self {
            Target::Amd64 => Architecture::Amd64,
            Target::Arm64 => Architecture::Arm64,
            Target::Armhf | Target::Armv6 => Architecture::Armhf,
        }
    }

    /// Rust's name of it with musl.
    pub fn rust(self) -> &'static str {
        match self {
            Target::Amd64 => "x86_64-unknown-linux-musl",
            Target::Arm64 => "aarch64-unknown-linux-musl",
            Target::Armhf => "armv7-unknown-linux-musleabihf",
            Target::Armv6 => "arm-unknown-linux-musleabihf",
        }
    }

    /// The triple that clang uses, and Debian for musl's headers.
    pub fn triple(self) -> &'static str {
        match self {
            Target::Amd64 => "x86_64-linux-musl",
            Target::Arm64 => "aarch64-linux-musl",
            Target::Armhf | Target::Armv6 => "arm-linux-musleabihf",
        }
    }

    /// Options of clang for the processor; the same processor as that of Rust's target.
    pub fn processor(self) -> &'static [&'static str] {
        match self {
            Target::Amd64 | Target::Arm64 => &[],
            Target::Armhf => &["-march=armv7-a", "-mfpu=vfpv3-d16", "-mfloat-abi=hard"],
            Target::Armv6 => &["-march=armv6", "-mfpu=vfp", "-mfloat-abi=hard"],
        }
    }

    /// Returns whether Rust's library is compiled here, and the C library too: Rust offers no complete one
    /// for these, or not everywhere.
    pub fn is_built_from_source(self) -> bool {
        matches!(self, Target::Armhf | Target::Armv6)
    }

    /// The platform in the words of container images (`GOARCH` and the variant).
    pub fn container(self) -> (&'static str, Option<&'static str>) {
        match self {
            Target::Amd64 => ("amd64", None),
            Target::Arm64 => ("arm64", None),
            Target::Armhf => ("arm", Some("v7")),
            Target::Armv6 => ("arm", Some("v6")),
        }
    }

    /// The program of QEMU that executes its programs on this machine; `None` if this machine's processor does.
    pub fn emulator(self) -> Option<&'static str> {
        if Architecture::of_this_machine() == Some(self.debian()) {
            return None;
        }
        Some(match self {
            Target::Amd64 => "qemu-x86_64-static",
            Target::Arm64 => "qemu-aarch64-static",
            Target::Armhf | Target::Armv6 => "qemu-arm-static",
        })
    }

    /// Returns the processor that this program of QEMU emulates: the minimum for the target.
    pub fn emulated(self) -> Option<&'static str> {
        match self {
            Target::Amd64 | Target::Arm64 => None,
            Target::Armhf => Some("cortex-a8"),
            Target::Armv6 => Some("arm1176"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Target> {
        match Target::ALL.into_iter().find(|target| target.name() == text) {
            Some(target) => Ok(target),
            None => bail!("`{text}` is not an architecture; write amd64, arm64, armhf or armv6"),
        }
    }
}
