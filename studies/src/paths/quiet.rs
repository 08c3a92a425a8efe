//! The path of a machine without a problem: a complete Debian guest in which nothing runs.
//!
//! `fonio check` and `fonio cure --dry-run` must say that storage is not the problem, record for at most 40 s, offer
//! no fix, and change no setting and no file besides the recordings that they name.

use std::time::Duration;

use anyhow::{Result, ensure};
use fonio_lab::{Archive, System, SystemOptions};

use super::typed::{Person, Said};
use super::{Answer, Outcome, Walk, Walked, wrong};
use crate::{process, tools};

const STATE: &str = include_str!("quiet.sh");
/// Lets the boot and the timers after it end.
const SETTLE: &str = "systemctl is-system-running --wait >/dev/null; chmod +x /usr/local/bin/fonio; sleep 60";
/// The time for which fonio may record.
const RECORDED_MAX: Duration = Duration::from_secs(40);
const VERDICT: &str = "Storage is not the problem";

pub fn walk(walk: &Walk<'_>) -> Result<Outcome> {
    tools::ensure(&[tools::SYSTEM_GUEST])?;
    let stop = process::outlive_signals()?;
    let archive = Archive::open()?;
    let options = SystemOptions::default();
    let mut system = System::start(&archive, &options, &|text| eprintln!("{text}"), &stop)?;
    let stripped = fonio_lab::stripped(walk.fonio, &walk.folder("needs")?.join("fonio"))?;
    system.put(&stripped, "/usr/local/bin/fonio")?;
    let mut run = |line: &str| {
        let out = system.run(&["sh", "-c", &format!("exec 2>&1\ncd /root\n{line}")])?;
        Ok(Said { code: i32::from(out.code), text: String::from_utf8_lossy(&out.stdout).into_owned() })
    };
    run(SETTLE)?;
    let before = run(STATE)?;
    let mut person = Person::new(&mut run);
    let check = person.types("fonio check")?;
    let cure = person.types("fonio cure --dry-run")?;
    let (ended, typed, words) = (person.passed(), person.typed, person.words);
    drop(person);
    let after = run(STATE)?;
    for said in [&before, &after] {
        ensure!(said.code == 0 && said.text.contains("/proc/sys/vm/"), "no state: {}", said.text);
    }
    let is_right = is_quiet(&check, &cure);
    let kernel = system.release().to_owned();
    system.stop()?;
    Ok(Outcome::Walked(Walked {
        ended,
        fixed: None,
        typed,
        words,
        verdict: Some(is_right),
        fix: None,
        as_before: same(&before.text, &after.text),
        shown: format!("nothing is wrong; no fix was offered (a guest, Linux {kernel})"),
    }))
}

fn is_quiet(check: &Said, cure: &Said) -> Answer {
    for (name, said) in [("check", check), ("cure --dry-run", cure)] {
        if said.code != 0 {
            return wrong(&format!("`{name}` ended with exit code {}", said.code));
        }
        let text = said.flowing();
        if !text.contains(VERDICT) {
            return wrong(&format!("`{name}` does not say that storage is not the problem"));
        }
        if text.contains("fix apply") || text.contains("fix trial") {
            return wrong(&format!("`{name}` offers a fix"));
        }
    }
    match recorded(&check.flowing()) {
        Some(time) if time <= RECORDED_MAX => Ok(()),
        Some(time) => wrong(&format!("`check` recorded for {} s", time.as_secs())),
        None => wrong("`check` does not say how long it recorded"),
    }
}

/// Returns the length of the recording from the line `Recorded 40 s · …`.
fn recorded(text: &str) -> Option<Duration> {
    let (_, rest) = text.split_once("Recorded ")?;
    let seconds: f64 = rest.split_once(" s ")?.0.parse().ok()?;
    // The figure is rounded.
    Some(Duration::from_secs_f64(seconds.floor()))
}

/// Compares two states; names the first line that only one of them has.
pub(super) fn same(before: &str, after: &str) -> Answer {
    let changed = |one: &str, other: &str| -> Option<String> {
        let lines: std::collections::HashSet<&str> = other.lines().collect();
        one.lines().find(|line| !lines.contains(line)).map(str::to_owned)
    };
    match changed(before, after)
        .map(|line| format!("gone: {line}"))
        .or_else(|| changed(after, before).map(|line| format!("new: {line}")))
    {
        None => Ok(()),
        Some(difference) => wrong(&difference),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said { code: 0, text: text.to_owned() }
    }

    #[test]
    fn a_quiet_machine_has_no_problem_and_no_fix() {
        let check = "✓ Storage is not the problem: no program was\n blocked.\nRecorded 40 s · Requests 211";
        let cure = "Storage is not the\n problem. Nothing was changed.";
        assert_eq!(is_quiet(&said(check), &said(cure)), Ok(()));
        let long = check.replace("40 s", "75 s");
        let other = "Storage is your problem";
        let fix = format!("{cure} fonio fix apply bfq");
        for (check, cure) in [(check, other), (long.as_str(), cure), (check, fix.as_str()), (cure, cure)] {
            assert!(is_quiet(&said(check), &said(cure)).is_err(), "{check} {cure}");
        }
    }

    #[test]
    fn a_changed_line_is_named() {
        assert_eq!(same("a 1\nb 2\n", "a 1\nb 2\n"), Ok(()));
        assert_eq!(same("a 1\nb 2\n", "a 1\nb 3\n"), wrong("gone: b 2"));
        assert_eq!(same("a 1\n", "a 1\nloop0\n"), wrong("new: loop0"));
    }

    #[test]
    fn the_script_is_valid_shell_and_prints_settings() {
        let out = std::process::Command::new("sh").args(["-n", "-c", STATE]).output().expect("sh");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}
