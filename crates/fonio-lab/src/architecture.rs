//! Describes the processor architectures of guests.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// The processor architecture of a guest, with Debian's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// The architecture x86-64.
    #[default]
    Amd64,
    /// 64-bit ARM, as in phones and single-board computers.
    Arm64,
    /// 32-bit ARM (ARMv7 or later) with a floating-point unit.
    Armhf,
}

impl Architecture {
    /// All architectures that guests support.
    pub const ALL: [Architecture; 3] = [Architecture::Amd64, Architecture::Arm64, Architecture::Armhf];

    /// Returns the architecture of this machine; `None` if guests do not support it.
    pub fn of_this_machine() -> Option<Architecture> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Architecture::Amd64),
            "aarch64" => Some(Architecture::Arm64),
            _ => None,
        }
    }

    pub(crate) fn facts(self) -> &'static Facts {
        match self {
            Architecture::Amd64 => &Facts {
                name: "amd64",
                kernel_flavour: "amd64",
                qemu: "qemu-system-x86_64",
                qemu_package: "qemu-system-x86",
                serial_port: "ttyS0",
            },
            Architecture::Arm64 => &Facts {
                name: "arm64",
                kernel_flavour: "arm64",
                qemu: "qemu-system-aarch64",
                qemu_package: "qemu-system-arm",
                serial_port: "ttyAMA0",
            },
            Architecture::Armhf => &Facts {
                name: "armhf",
                // `armmp` is the kernel for processors of several makers (multi-platform).
                kernel_flavour: "armmp",
                qemu: "qemu-system-arm",
                qemu_package: "qemu-system-arm",
                serial_port: "ttyAMA0",
            },
        }
    }
}

/// The names that depend on a guest's architecture.
pub(crate) struct Facts {
    name: &'static str,
    /// The suffix of the names of Debian's generic kernels.
    pub(crate) kernel_flavour: &'static str,
    pub(crate) qemu: &'static str,
    /// The Debian package with the QEMU program.
    pub(crate) qemu_package: &'static str,
    /// The first serial port in the guest.
    pub(crate) serial_port: &'static str,
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.facts().name)
    }
}

/// The error for an unknown name of a guest architecture.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a guest architecture; write amd64, arm64 or armhf")]
pub struct NotAnArchitecture {
    text: String,
}

impl FromStr for Architecture {
    type Err = NotAnArchitecture;

    /// Parses an architecture by its name in Debian or in the kernel (`uname -m`).
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
            assert_eq!(architecture.to_string().parse::<Architecture>().expect("a name"), architecture);
        }
        assert_eq!("aarch64".parse::<Architecture>().expect("a name"), Architecture::Arm64);
        assert_eq!("armv7l".parse::<Architecture>().expect("a name"), Architecture::Armhf);
        // `armel` is Debian's name for 32-bit ARM without a floating-point unit.
        let error = "armel".parse::<Architecture>().expect_err("not supported").to_string();
        assert!(error.contains("amd64, arm64 or armhf"), "{error}");
    }
}
