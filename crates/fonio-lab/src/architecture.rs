//! The processor architectures of guests.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The processor architecture of a guest, with Debian's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// x86-64.
    #[default]
    Amd64,
    /// 64-bit ARM, as in phones and single-board computers.
    Arm64,
    /// 32-bit ARM from ARMv7 on, with a floating-point unit.
    Armhf,
}

impl Architecture {
    /// All architectures.
    pub const ALL: [Architecture; 3] = [Architecture::Amd64, Architecture::Arm64, Architecture::Armhf];

    /// The architecture of this machine; `None` if Debian guests do not support it.
    pub fn of_this_machine() -> Option<Architecture> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Architecture::Amd64),
            "aarch64" => Some(Architecture::Arm64),
            _ => None,
        }
    }

    /// Debian's name.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::Amd64 => "amd64",
            Architecture::Arm64 => "arm64",
            Architecture::Armhf => "armhf",
        }
    }

    /// The end of the names of Debian's generic kernels.
    pub(crate) fn kernel_flavour(self) -> &'static str {
        match self {
            Architecture::Amd64 | Architecture::Arm64 => self.name(),
            // For processors of several makers (multi-platform).
            Architecture::Armhf => "armmp",
        }
    }

    /// The QEMU program that runs guests of this architecture.
    pub(crate) fn qemu(self) -> &'static str {
        match self {
            Architecture::Amd64 => "qemu-system-x86_64",
            Architecture::Arm64 => "qemu-system-aarch64",
            Architecture::Armhf => "qemu-system-arm",
        }
    }

    /// Debian's package with that program.
    pub(crate) fn qemu_package(self) -> &'static str {
        match self {
            Architecture::Amd64 => "qemu-system-x86",
            Architecture::Arm64 | Architecture::Armhf => "qemu-system-arm",
        }
    }

    /// The name of the first serial port in the guest.
    pub(crate) fn serial_port(self) -> &'static str {
        match self {
            Architecture::Amd64 => "ttyS0",
            Architecture::Arm64 | Architecture::Armhf => "ttyAMA0",
        }
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a text that is not the name of an architecture of guests.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not an architecture of guests; write amd64, arm64 or armhf")]
pub struct NotAnArchitecture {
    /// The text.
    text: String,
}

impl FromStr for Architecture {
    type Err = NotAnArchitecture;

    /// Accepts Debian's names and those of the kernel (`uname -m`).
    fn from_str(text: &str) -> Result<Architecture, NotAnArchitecture> {
        match text {
            "amd64" | "x86_64" | "x86-64" => Ok(Architecture::Amd64),
            "arm64" | "aarch64" => Ok(Architecture::Arm64),
            "armhf" | "armv7l" => Ok(Architecture::Armhf),
            _ => Err(NotAnArchitecture { text: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for architecture in Architecture::ALL {
            assert_eq!(architecture.name().parse::<Architecture>().expect("a name"), architecture);
        }
        assert_eq!("aarch64".parse::<Architecture>().expect("a name"), Architecture::Arm64);
        assert_eq!("armv7l".parse::<Architecture>().expect("a name"), Architecture::Armhf);
        // Debian's name of 32-bit ARM without a floating-point unit.
        let error = "armel".parse::<Architecture>().expect_err("not supported").to_string();
        assert!(error.contains("amd64, arm64 or armhf"), "{error}");
    }
}
