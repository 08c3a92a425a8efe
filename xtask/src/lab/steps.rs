//! Runs the steps of a check in a complete Debian. Each step has a promise.

use anyhow::{Context, Result, ensure};
use fonio_lab::{Archive, System, SystemOptions};

use crate::{process, tools};

/// A step: a command, the text that its output must contain, and the behaviour that this text proves.
pub type Step<'a> = (&'a str, &'a str, &'a str);

/// A guest in which steps run, and the number of broken promises.
pub struct Steps<'s, 'a> {
    pub system: &'s mut System<'a>,
    pub broken: u32,
}

/// Starts a new Debian guest and runs steps in it. Returns the number of broken promises.
pub fn in_debian(
    title: &str,
    options: &SystemOptions,
    steps: impl FnOnce(&mut Steps<'_, '_>) -> Result<()>,
) -> Result<u32> {
    tools::ensure(&[tools::SYSTEM_GUEST])?;
    let stop = process::outlive_signals()?;
    let archive = Archive::open()?;
    let mut system = System::start(&archive, options, &|text| eprintln!("{text}"), &stop)?;
    println!("\n{title}, in Debian on {} with Linux {}:\n", options.architecture, system.release());
    let mut guest = Steps { system: &mut system, broken: 0 };
    steps(&mut guest)?;
    Ok(guest.broken)
}

/// Fails if at least one promise was broken.
pub fn all_kept(broken: u32) -> Result<()> {
    ensure!(broken == 0, "{broken} steps did not keep their promise (marked *)");
    println!("\nAll steps kept their promise.");
    Ok(())
}

impl Steps<'_, '_> {
    /// Prints whether a promise was kept. If it was broken, also prints the output.
    pub fn promise(&mut self, what: &str, holds: bool, found: &str) {
        self.broken += u32::from(!shown(what, holds, found));
    }

    /// Runs the script of a step. Its output must contain the wanted text.
    pub fn step(&mut self, (script, wanted, what): Step<'_>) {
        let (holds, found) = contains(text(self.system, script), wanted);
        self.promise(what, holds, &format!("$ {script}\n{found}"));
    }

    /// Prints a command line and runs it as a user would do. Returns the exit code and the output.
    pub fn line(&mut self, line: &str) -> Result<(u8, String)> {
        process::check_signals()?;
        println!("\n$ {line}");
        let out = self.system.run(&["sh", "-c", &format!("{line} 2>&1")])?;
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        print!("{said}");
        Ok((out.code, said))
    }

    /// Reboots the guest, and waits until all units have started.
    pub fn reboot(&mut self) -> Result<()> {
        println!("\n$ reboot");
        self.system.reboot()?;
        ok(self.system, "systemctl is-system-running --wait; udevadm settle; sleep 2")
    }
}

/// Reads a list of steps, separated by empty lines. A step is a line `# BEHAVIOUR`, the command, and a line
/// `=> TEXT` with the text that the output must contain.
pub fn steps_of(list: &str) -> impl Iterator<Item = Step<'_>> {
    list.split("\n\n").map(|step| {
        let (behaviour, rest) = step.trim().split_once('\n').expect("a step has three lines");
        let (script, wanted) = rest.rsplit_once("\n=>").expect("a step ends with `=>`");
        (script, wanted.trim(), behaviour.trim_start_matches("# "))
    })
}

/// Prints whether a promise was kept. If it was broken, also prints the output.
pub fn shown(what: &str, holds: bool, found: &str) -> bool {
    println!("{what:<52} {}", if holds { "yes" } else { "NO *" });
    if !holds {
        println!("{found}");
    }
    holds
}

/// Returns whether the output of a program contains the wanted text. Also returns the output or the error.
pub fn contains(output: Result<String>, wanted: &str) -> (bool, String) {
    match output {
        Ok(text) => (text.contains(wanted), text),
        Err(error) => (false, format!("{error:#}")),
    }
}

/// Runs a script, which must succeed. Returns the output of the script without the final newline.
pub fn text(system: &mut System<'_>, script: &str) -> Result<String> {
    process::check_signals()?;
    let out = system.run(&["sh", "-c", script])?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.code == 0, "`{script}` failed with exit code {}:\n{said}", out.code);
    let text = String::from_utf8(out.stdout).with_context(|| format!("the output of `{script}`"))?;
    Ok(text.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n"))
}

/// Runs a script, which must succeed.
pub fn ok(system: &mut System<'_>, script: &str) -> Result<()> {
    text(system, script).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_steps_are_read() {
        let list = "# it counts\nprintf '1\n'\nprintf '2\n'\n=> 2\n\n# it is silent\ntrue\n=>\n";
        let expected = [("printf '1\n'\nprintf '2\n'", "2", "it counts"), ("true", "", "it is silent")];
        assert_eq!(steps_of(list).collect::<Vec<_>>(), expected);
        for (list, count) in [
            (include_str!("../dist/packages.steps"), 22),
            (include_str!("../dist/container.steps"), 13),
            (include_str!("../dist/results.steps"), 17),
        ] {
            assert_eq!(steps_of(list).count(), count);
        }
    }
}
