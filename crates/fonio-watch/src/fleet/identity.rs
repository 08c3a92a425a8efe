//! Names of a device, its attributes and its units, as a fleet gets them.

use std::collections::BTreeMap;

use fonio_core::DeviceKind;
use fonio_record::observer::{Party, PartyKind};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The attributes of a device at the time of sending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The model of the board or machine.
    pub model: Option<String>,
    /// The release of the running kernel.
    pub kernel: Option<String>,
    /// The operating system and its version.
    pub os: Option<String>,
    /// The disks by name.
    pub disks: BTreeMap<String, DiskAttributes>,
}

/// The attributes of a disk at the time of sending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DiskAttributes {
    pub kind: DeviceKind,
    pub model: Option<String>,
    pub firmware: Option<String>,
    /// Month and year of manufacture, `MM/YYYY`.
    pub made: Option<String>,
}

/// Returns the name of this device in a fleet, from the contents of `/etc/machine-id`. The name stays the same, and the
/// machine id cannot be computed from it (an application-specific id, as machine-id(5) recommends).
pub fn device_token(machine_id: &str) -> String {
    let mut keyed = Hmac::<Sha256>::new_from_slice(machine_id.trim().as_bytes())
        .expect("HMAC accepts keys of any length");
    keyed.update(b"fonio fleet");
    keyed.finalize().into_bytes()[..12].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// How a fleet gets the names of units.
pub enum Names<'a> {
    /// Only names of system services and of the kernel; other parties share a name of their kind.
    Services,
    /// Tokens of all names.
    Tokens(&'a dyn Fn(&str) -> String),
}

impl std::fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Names::Services => "Services",
            Names::Tokens(_) => "Tokens",
        })
    }
}

impl Names<'_> {
    /// Returns the name of a party for a fleet.
    pub fn of(&self, party: &Party) -> String {
        match (party.kind, self) {
            (_, _) if party.name == crate::summary::OTHERS => "(others)".to_owned(),
            (PartyKind::Kernel, _) => "(kernel)".to_owned(),
            (_, Names::Tokens(token)) => token(&party.name),
            (PartyKind::Program, Names::Services) => "(programs)".to_owned(),
            (PartyKind::Unit, Names::Services) => service(&party.name),
        }
    }
}

/// Returns the name of a system service without its instance, which can be the name of a user or a file. Containers,
/// packages and users' units have names that their users chose.
fn service(name: &str) -> String {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@:\\".contains(&byte));
    match name.strip_suffix(".service") {
        Some(stem) if is_plain => match stem.split_once('@') {
            Some((template, _)) => format!("{template}@.service"),
            None => name.to_owned(),
        },
        _ => "(other units)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_people_do_not_leave_the_device() {
        let named = |kind, name: &str| Names::Services.of(&Party { kind, name: name.to_owned() });
        for (kind, name, expected) in [
            (PartyKind::Unit, "influxdb.service", "influxdb.service"),
            (PartyKind::Unit, "user@1000.service", "user@.service"),
            (PartyKind::Unit, "backup@anna.service", "backup@.service"),
            (PartyKind::Unit, "session-3.scope", "(other units)"),
            (PartyKind::Unit, "docker annas-photos", "(other units)"),
            (PartyKind::Unit, "docker annas photos.service", "(other units)"),
            (PartyKind::Program, "diary.sh", "(programs)"),
            (PartyKind::Program, "others", "(others)"),
            (PartyKind::Kernel, "jbd2", "(kernel)"),
        ] {
            assert_eq!(named(kind, name), expected);
        }
        let token = |name: &str| format!("u-{}", name.len());
        let party = Party { kind: PartyKind::Program, name: "diary.sh".to_owned() };
        assert_eq!(Names::Tokens(&token).of(&party), "u-8");
    }

    #[test]
    fn a_token_stays_and_does_not_show_the_machine_id() {
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(device_token(id), device_token(&format!("{id}\n")));
        assert_eq!(device_token(id).len(), 24);
        assert_ne!(device_token(id), device_token("1123456789abcdef0123456789abcdef"));
    }
}
