//! Defines the targets for which programs are built.

use fonio_lab::Architecture;

/// A target. It is a kind of processor, with its names in different tools.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The target's name in the names of distributed files.
    pub name: &'static str,
    /// The Debian architecture of the target's packages.
    pub debian: Architecture,
    /// Rust's name for the target with musl.
    pub rust: &'static str,
    /// The target triple that clang and Debian's musl headers use.
    pub triple: &'static str,
    /// The options of clang for the processor. They match the options of Rust's target.
    pub processor: &'static [&'static str],
    /// Rust's name for the target with glibc, Debian's library folder, and the dynamic linker; `None` if
    /// Debian has no glibc for the processor.
    pub glibc: Option<(&'static str, &'static str, &'static str)>,
    /// The target's platform in container images (`GOARCH` and the variant).
    pub container: (&'static str, Option<&'static str>),
    /// The QEMU program that executes programs of the target on other processors.
    emulator: &'static str,
    /// The name of the processor that QEMU emulates: the oldest processor that the target supports.
    pub emulated: Option<&'static str>,
}

const ARMHF: Target = Target {
    name: "armhf",
    debian: Architecture::Armhf,
    rust: "armv7-unknown-linux-musleabihf",
    triple: "arm-linux-musleabihf",
    processor: &["-march=armv7-a", "-mfpu=vfpv3-d16", "-mfloat-abi=hard"],
    glibc: Some(("armv7-unknown-linux-gnueabihf", "arm-linux-gnueabihf", "ld-linux-armhf.so.3")),
    container: ("arm", Some("v7")),
    emulator: "qemu-arm-static",
    emulated: Some("cortex-a8"),
};

/// All targets for which programs are built.
pub const TARGETS: [Target; 4] = [
    Target {
        name: "amd64",
        debian: Architecture::Amd64,
        rust: "x86_64-unknown-linux-musl",
        triple: "x86_64-linux-musl",
        processor: &[],
        glibc: Some(("x86_64-unknown-linux-gnu", "x86_64-linux-gnu", "ld-linux-x86-64.so.2")),
        container: ("amd64", None),
        emulator: "qemu-x86_64-static",
        emulated: None,
    },
    Target {
        name: "arm64",
        debian: Architecture::Arm64,
        rust: "aarch64-unknown-linux-musl",
        triple: "aarch64-linux-musl",
        processor: &[],
        glibc: Some(("aarch64-unknown-linux-gnu", "aarch64-linux-gnu", "ld-linux-aarch64.so.1")),
        container: ("arm64", None),
        emulator: "qemu-aarch64-static",
        emulated: None,
    },
    // armhf: ARMv7 and later.
    ARMHF,
    // armv6: the ARM1176 of the Raspberry Pi Zero and 1. Raspberry Pi OS calls this architecture armhf, too.
    Target {
        name: "armv6",
        rust: "arm-unknown-linux-musleabihf",
        processor: &["-march=armv6", "-mfpu=vfp", "-mfloat-abi=hard"],
        glibc: None,
        container: ("arm", Some("v6")),
        emulated: Some("arm1176"),
        ..ARMHF
    },
];

impl Target {
    /// Returns whether Rust's standard library and the C library are compiled from source for the target.
    /// They are if not every Rust installation has complete libraries for it.
    pub fn is_built_from_source(self) -> bool {
        self.debian == Architecture::Armhf
    }

    /// Returns the QEMU program that executes programs of the target on this machine; `None` if the processor
    /// of this machine can execute them.
    pub fn emulator(self) -> Option<&'static str> {
        (Architecture::of_this_machine() != Some(self.debian)).then_some(self.emulator)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
