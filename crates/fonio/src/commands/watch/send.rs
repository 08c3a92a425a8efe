//! Implements `fonio watch send`: sends the complete days of the history to a fleet.

use std::io::Write;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use fonio_core::Random;
use fonio_machine::{Machine, storage_devices};
use fonio_watch::fleet::{Attributes, DayFile, DiskAttributes, Names, days, device_token};

use super::destination::Destination;
use super::history::now;
use super::report::history;
use crate::cli::watch::Send;
use crate::exit::Exit;
use crate::output;

const MACHINE_ID: &str = "/etc/machine-id";

pub fn run(arguments: &Send) -> Result<Exit> {
    let key = arguments.redact.key()?;
    if key.is_some() && arguments.redact.redact_key.is_none() {
        bail!(
            "--redact needs --redact-key FILE here: all devices of a fleet need the same key, or their units cannot be compared"
        );
    }
    let device = device(arguments.device_name.as_deref())?;
    let fleet = Destination::open(&arguments.to, arguments.token_file.as_deref(), &device)?;
    let now = now()?;
    let history = history(&arguments.place.paths().folders()?)?;
    let token = |name: &str| key.as_ref().expect("tokens have a key").unit(name);
    let names = if key.is_some() { Names::Tokens(&token) } else { Names::Services };
    let attributes = attributes();
    let mut random = Random::new(now.unsigned_abs() ^ u64::from(std::process::id()));
    let mut wait = |fixed: Duration, longest: Duration| {
        let ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        thread::sleep(fixed + Duration::from_millis(random.below(ms.max(1))));
    };
    let (mut sent, mut known) = (0, 0);
    for (day, sum) in days(&history, now) {
        if fleet.has(day) {
            known += 1;
            continue;
        }
        let bytes = DayFile::new(&device, day, &sum, &attributes, &names, now).encode()?;
        match fleet.put(day, &bytes, &mut wait) {
            Ok(true) => sent += 1,
            Ok(false) => known += 1,
            Err(error) if sent > 0 => {
                return Err(error.context(format!("{} sent; the others were not", count(sent))));
            }
            Err(error) => return Err(error),
        }
    }
    let before = if known > 0 { format!("; {} sent before", count(known)) } else { String::new() };
    writeln!(
        output::screen(),
        "Sent {} of the device {device} to {}{before}.",
        days_of(sent),
        arguments.to.display()
    )?;
    Ok(Exit::Fine)
}

fn days_of(count: u32) -> String {
    format!("{count} {}", if count == 1 { "day" } else { "days" })
}

fn count(days: u32) -> String {
    format!("{} {}", days_of(days), if days == 1 { "was" } else { "were" })
}

/// Returns the name of this device in the fleet.
fn device(named: Option<&str>) -> Result<String> {
    if let Some(name) = named {
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        ensure!(
            is_plain && !name.is_empty() && name.len() <= 64 && !name.starts_with('.'),
            "`{name}` is not a name for a device; use up to 64 letters, digits, dashes, dots and underscores"
        );
        return Ok(name.to_owned());
    }
    let id = std::fs::read_to_string(MACHINE_ID).unwrap_or_default();
    let id = id.trim();
    ensure!(
        id.len() == 32 && id != "uninitialized",
        "{MACHINE_ID} has no id of this machine; run `systemd-machine-id-setup`, or name the device with --device-name NAME"
    );
    Ok(device_token(id))
}

fn attributes() -> Attributes {
    let machine = Machine::here();
    let (host, hardware) = (machine.host(), machine.hardware());
    let disks = storage_devices().into_iter().filter_map(|device| {
        let identity = machine.identity(device.device.id)?;
        let disk = DiskAttributes {
            kind: device.kind,
            model: device.device.model.clone().or(identity.model),
            firmware: identity.firmware,
            made: identity.made,
        };
        Some((device.device.name?, disk))
    });
    Attributes {
        model: hardware.board.or(host.model),
        kernel: host.kernel,
        os: hardware.distribution,
        disks: disks.collect(),
    }
}
