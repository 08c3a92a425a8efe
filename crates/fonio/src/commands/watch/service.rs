//! Starts and stops the watch: as a service of systemd, or as a separate process on machines without systemd.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fonio_watch::Folders;
use rustix::process::{Pid, Signal, kill_process};

use super::folders;
use crate::cli::watch::Place;
use crate::exit::Exit;
use crate::output;

/// The unit's name, where it is packaged, and where `install` writes it.
const UNIT: &str = "fonio-watch.service";
const PACKAGED: &str = "/usr/lib/systemd/system/fonio-watch.service";
const INSTALLED: &str = "/etc/systemd/system/fonio-watch.service";
/// The unit as it is packaged.
const TEXT: &str = include_str!("../../../fonio-watch.service");
/// The program in it.
const PROGRAM: &str = "/usr/bin/fonio";
/// How long the watch may take to begin, and to end: it writes its last minutes then.
const BEGINS: Duration = Duration::from_secs(10);
const ENDS: Duration = Duration::from_secs(30);

fn has_systemd() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

fn need_root(what: &str) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("this needs root: run `sudo fonio watch {what}`");
    }
    Ok(())
}

fn systemctl(words: &[&str]) -> Result<()> {
    let out = Command::new("systemctl").args(words).output().context("cannot start systemctl")?;
    if !out.status.success() {
        bail!("`systemctl {}` failed: {}", words.join(" "), String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}

/// Makes the watch a service and starts it.
pub fn install(place: &Place) -> Result<Exit> {
    need_root("install")?;
    if !has_systemd() {
        bail!(
            "this machine does not run systemd; start `fonio watch run` from its own init, or use `fonio watch start`"
        );
    }
    if place.run.is_some() {
        bail!("the service keeps its folder in /run; leave --run out");
    }
    // Reports a mistake in the settings now, not in the journal.
    fonio_watch::Settings::read(place.config.as_deref())?;
    let own = std::env::current_exe().context("cannot find the own program")?;
    let is_packaged = Path::new(PACKAGED).exists() && own == Path::new(PROGRAM);
    if !is_packaged || place.config.is_some() || place.state.is_some() {
        let text = unit_text(&own, place)?;
        fs::write(INSTALLED, text).with_context(|| format!("cannot write {INSTALLED}"))?;
    }
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", UNIT])?;
    systemctl(&["restart", UNIT])?;
    wait_until_it_runs(&folders(place)?, "`journalctl -u fonio-watch` says why")?;
    writeln!(output::screen(), "The watch runs, and starts at each boot.")?;
    writeln!(output::screen(), "Next: sudo fonio watch report")?;
    Ok(Exit::Fine)
}

/// The unit with the program and the options of this installation.
fn unit_text(program: &Path, place: &Place) -> Result<String> {
    let mut words = vec![program.to_str().context("the path of the program is not UTF-8")?.to_owned()];
    words.extend(["watch", "run"].map(str::to_owned));
    for (option, path) in [("--config", &place.config), ("--state", &place.state)] {
        let Some(path) = path else { continue };
        let path = std::path::absolute(path)?;
        words.extend([option.to_owned(), path.to_str().context("a path is not UTF-8")?.to_owned()]);
    }
    if words
        .iter()
        .any(|word| word.contains(char::is_whitespace) || word.contains(['"', '\'', '\\', '%', '$']))
    {
        bail!("systemd cannot take these paths: {}; use paths without blanks and quotes", words.join(" "));
    }
    let mut text =
        TEXT.replace(&format!("ExecStart={PROGRAM} watch run"), &format!("ExecStart={}", words.join(" ")));
    if let Some(state) = &place.state {
        let state = std::path::absolute(state)?;
        text = text.replace("ReadWritePaths=", &format!("ReadWritePaths=-{} ", state.display()));
    }
    Ok(text)
}

/// Starts the watch in the background.
pub fn start(place: &Place) -> Result<Exit> {
    if place.state.is_none() {
        need_root("start")?;
    }
    let folders = folders(place)?;
    if let Some(process) = folders.runs() {
        writeln!(output::screen(), "The watch runs already (process {}).", process.pid)?;
        return Ok(Exit::Fine);
    }
    fonio_watch::Settings::read(place.config.as_deref())?;
    let is_usual = place.state.is_none() && place.run.is_none() && place.config.is_none();
    if is_usual && has_systemd() && (Path::new(PACKAGED).exists() || Path::new(INSTALLED).exists()) {
        systemctl(&["start", UNIT])?;
        wait_until_it_runs(&folders, "`journalctl -u fonio-watch` says why")?;
    } else {
        detached(&folders, place)?;
    }
    writeln!(output::screen(), "The watch runs until it is stopped or the machine restarts.")?;
    writeln!(output::screen(), "Next: sudo fonio watch report")?;
    Ok(Exit::Fine)
}

/// Starts a process of its own, which the terminal does not end. Its messages go to a file in memory.
fn detached(folders: &Folders, place: &Place) -> Result<()> {
    fonio_system::state::make(&folders.run)
        .with_context(|| format!("cannot make {}", folders.run.display()))?;
    let log = folders.run.join("log");
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(std::env::current_exe().context("cannot find the own program")?);
    command.args(["watch", "run"]).arg("--state").arg(&folders.state).arg("--run").arg(&folders.run);
    if let Some(config) = &place.config {
        command.arg("--config").arg(std::path::absolute(config)?);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).process_group(0).current_dir("/");
    let mut child = command.spawn().context("cannot start the watch")?;
    let began = Instant::now();
    while began.elapsed() < BEGINS {
        if folders.is_ready().is_some_and(|process| process.pid == child.id()) {
            return Ok(());
        }
        if child.try_wait()?.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = fs::read_to_string(&log).unwrap_or_default();
    bail!("the watch did not begin: {}", said.trim().trim_start_matches("fonio: "))
}

fn wait_until_it_runs(folders: &Folders, otherwise: &str) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < BEGINS {
        if folders.is_ready().is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("the watch did not begin; {otherwise}")
}

/// Stops the watch.
pub fn stop(place: &Place) -> Result<Exit> {
    if place.state.is_none() {
        need_root("stop")?;
    }
    if end(&folders(place)?)? {
        writeln!(
            output::screen(),
            "The watch has stopped. Its history stays; `sudo fonio watch report` shows it."
        )?;
    } else {
        writeln!(output::screen(), "No watch runs.")?;
    }
    Ok(Exit::Fine)
}

/// Ends the watch; returns whether one ran.
fn end(folders: &Folders) -> Result<bool> {
    // A service that was killed comes back by itself, unless it is stopped.
    let is_usual = *folders == Folders::default();
    if is_usual && has_systemd() && is_waiting() {
        systemctl(&["stop", UNIT])?;
        return Ok(true);
    }
    let Some(process) = folders.runs() else { return Ok(false) };
    let cgroups = fonio_system::Task::of(process.pid).cgroups().unwrap_or_default();
    if cgroups.telling().is_some_and(|path| path.ends_with(UNIT)) {
        systemctl(&["stop", UNIT])?;
        return Ok(true);
    }
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).context("a process has a number")?;
    kill_process(pid, Signal::TERM).with_context(|| format!("cannot stop process {}", process.pid))?;
    let began = Instant::now();
    while process.runs() {
        if began.elapsed() > ENDS {
            bail!(
                "process {} does not end; `kill -9 {}` ends it, and the next watch takes over what it has",
                process.pid,
                process.pid
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(true)
}

/// Returns whether the service runs, or waits to be started again.
fn is_waiting() -> bool {
    let state = Command::new("systemctl").args(["is-active", UNIT]).output();
    let state = state.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default();
    matches!(state.as_str(), "active" | "activating" | "reloading" | "deactivating")
}

/// Stops the watch and removes its service.
pub fn uninstall(purge: bool, place: &Place) -> Result<Exit> {
    need_root("uninstall")?;
    let folders = folders(place)?;
    let has_unit = Path::new(INSTALLED).exists() || Path::new(PACKAGED).exists();
    if has_systemd() && has_unit {
        systemctl(&["disable", "--now", UNIT])?;
    }
    end(&folders)?;
    if Path::new(INSTALLED).exists() {
        fs::remove_file(INSTALLED).with_context(|| format!("cannot remove {INSTALLED}"))?;
        if has_systemd() {
            systemctl(&["daemon-reload"])?;
        }
    }
    if purge {
        for folder in [&folders.state, &folders.run] {
            remove(folder)?;
            // The folder of all of fonio's files, such as /var/lib/fonio; it stays if it holds more.
            if let Some(parent) = folder.parent().filter(|parent| parent.ends_with("fonio")) {
                let _ = fs::remove_dir(parent);
            }
        }
    }
    let history = if purge { "Its history is removed." } else { "Its history stays; --purge removes it." };
    writeln!(output::screen(), "The watch is not a service any more. {history}")?;
    Ok(Exit::Fine)
}

/// Removes the files of a watch from a folder, and the folder if nothing else is in it.
fn remove(folder: &Path) -> Result<()> {
    for name in ["rings", "running", "unwritten", "unwritten.new", "log"] {
        match fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", folder.join(name).display()));
            }
            _ => {}
        }
    }
    let kept = folder.join("kept");
    for (path, _) in fonio_watch::folders::kept_in(&kept) {
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    // Files of others stay, and keep the folder.
    let _ = fs::remove_dir(&kept);
    let _ = fs::remove_dir(folder);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_has_the_program_and_options_of_the_installation() {
        let place = Place { config: None, state: Some("/mnt/ssd/watch".into()), run: None };
        let text = unit_text(Path::new("/opt/fonio"), &place).expect("it can be written");
        assert!(text.contains("\nExecStart=/opt/fonio watch run --state /mnt/ssd/watch\n"), "{text}");
        assert!(text.contains("\nReadWritePaths=-/mnt/ssd/watch "), "{text}");
        let usual = Place { config: None, state: None, run: None };
        assert_eq!(unit_text(Path::new(PROGRAM), &usual).expect("it can be written"), TEXT);
        assert!(unit_text(Path::new("/opt/my fonio"), &usual).is_err());
    }
}
