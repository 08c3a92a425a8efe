//! The targets for which programs are built.

use fonio_lab::Architecture;

/// A kind of processor.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name in the files that users get.
    pub name: &'static str,
    /// The architecture of Debian in which its packages are installed.
    pub debian: Architecture,
    /// Rust's name of it with musl.
    pub rust: &'static str,
    /// The triple that clang uses, and Debian for musl's headers.
    pub triple: &'static str,
    /// Options of clang for the processor; the same processor as that of Rust's target.
    pub processor: &'static [&'static str],
    /// Rust's name of it with glibc, the folder of its libraries in Debian, and its dynamic linker. `None` if Debian has no glibc
    /// for the processor.
    pub glibc: Option<(&'static str, &'static str, &'static str)>,
    /// The platform in the words of container images (`GOARCH` and the variant).
    pub container: (&'static str, Option<&'static str>),
    /// The program of QEMU that executes its programs on another processor.
    emulator: &'static str,
    /// The processor that this program of QEMU emulates: the minimum for the target.
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

/// All targets.
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
    // From ARMv7 on.
    ARMHF,
    // The ARM1176 of Raspberry Pi Zero and 1. Raspberry Pi OS calls it armhf, too.
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
    /// Returns whether Rust's library is compiled here, and the C library too: Rust offers no complete one
    /// for these, or not everywhere.
    pub fn is_built_from_source(self) -> bool {
        self.debian == Architecture::Armhf
    }

    /// The program of QEMU that executes its programs on this machine; `None` if this machine's processor does.
    pub fn emulator(self) -> Option<&'static str> {
        (Architecture::of_this_machine() != Some(self.debian)).then_some(self.emulator)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
