//! Runs systemctl to query units and to reload changed files.

use std::path::Path;

use crate::error::HostError;
use crate::program::run;

/// The folder that exists if systemd is the init system (`sd_booted(3)`).
pub(super) const RUNS: &str = "/run/systemd/system";

const KINDS: [&str; 6] = ["service", "slice", "scope", "socket", "mount", "swap"];

pub(super) fn check() -> Result<(), String> {
    let runs = Path::new(RUNS).exists();
    if runs { Ok(()) } else { Err("systemd is needed, but does not run here".to_owned()) }
}

pub(super) fn systemctl(arguments: &[&str]) -> Result<String, HostError> {
    let said = run("systemctl", "systemd", arguments)?;
    Ok(said.trim_end().to_owned())
}

/// Restarts a service. systemd refuses to start a service that was started several times within seconds, and leaves it
/// stopped; in this case, its count of starts begins anew, and the service is started.
pub(super) fn restart_service(service: &str) -> Result<(), HostError> {
    let restarted = systemctl(&["restart", "--", service]);
    if restarted.is_ok() {
        return Ok(());
    }
    let again = || systemctl(&["restart", "--", service]);
    systemctl(&["reset-failed", "--", service]).and_then(|_| again()).or(restarted).map(drop)
}

/// Returns the value of a unit's property, such as `LoadState`; empty if the unit has no such property.
pub(super) fn property(unit: &str, name: &str) -> Result<String, HostError> {
    systemctl(&["show", &format!("--property={name}"), "--value", "--", unit])
}

/// Returns the full name of the unit that `word` abbreviates; the error is the reason why no unit matches.
pub(super) fn unit_named(word: &Path) -> Result<String, String> {
    check()?;
    let word = word.to_string_lossy();
    let kind = word.rsplit_once('.').map(|(_, kind)| kind);
    let unit = if kind.is_some_and(|kind| KINDS.contains(&kind)) {
        word.into_owned()
    } else {
        format!("{word}.service")
    };
    if unit.contains('/') {
        return Err("write the name of a systemd unit, such as backup.service".to_owned());
    }
    match property(&unit, "LoadState").map_err(|error| error.to_string())?.as_str() {
        "loaded" => Ok(unit),
        "masked" => Err("this unit is masked".to_owned()),
        _ => Err(format!("systemd has no unit {unit}; `systemctl list-units` lists them")),
    }
}

/// Returns a sentence that tells the user to restart a unit, because systemd sets the limits of a unit's control group
/// when it starts the unit; `None` if the path is a control group or does not name a unit.
pub(super) fn restart_if_it_runs(path: &Path) -> Option<String> {
    let unit = unit_named(path).ok()?;
    Some(if unit.ends_with(".scope") {
        format!("{unit} cannot be restarted, so the setting does not apply to its running processes.")
    } else {
        format!("If {unit} runs, the setting applies after `systemctl restart {unit}`.")
    })
}

/// Returns a sentence that tells the user to restart a unit, because its setting applies only to new
/// processes.
pub(super) fn restart(unit: &Path) -> String {
    let unit = unit.display();
    format!("The setting applies only to new processes of the unit: run `systemctl restart {unit}`.")
}
