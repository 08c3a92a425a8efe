//! `fonio sync-policy`: checks a policy, and does what the unit fonio-sync-policy.service does at each start and shutdown.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use fonio_sync_policy::{Boots, Class, DEFAULT, Policy, VARIABLE, caches_below, network_filesystem};

use crate::cli::SyncPolicy;
use crate::exit::Exit;
use crate::output;

/// Checks a policy, or does a part of the unit's work.
pub fn run(command: &SyncPolicy) -> Result<Exit> {
    match command {
        SyncPolicy::Check { policy, databases } => check(policy, databases),
        SyncPolicy::Boot { policy } => boot(policy),
        SyncPolicy::Stop => stop(),
    }
}

fn read(path: &Path) -> Result<Policy> {
    let text = fs::read_to_string(path).with_context(|| {
        format!("cannot read the policy {}; docs/sync-policy.md says what to write there", path.display())
    })?;
    Ok(Policy::parse(&text, path)?)
}

/// Prints the rules, or the classes of some databases.
fn check(path: &Path, databases: &[PathBuf]) -> Result<Exit> {
    let policy = read(path)?;
    let mut out = output::screen();
    if databases.is_empty() {
        writeln!(
            out,
            "{}: {} rules; the first one that matches a database counts",
            path.display(),
            policy.rules().len()
        )?;
        for rule in policy.rules() {
            writeln!(out, "  {:<40} {}", rule.path, about(rule.class))?;
        }
        writeln!(out, "  {:<40} {}", "all others", about(Class::Durable))?;
    }
    for database in databases {
        // As SQLite finds it; one that is not there yet has a folder.
        let found = fs::canonicalize(database).or_else(|_| std::path::absolute(database));
        let database = found.with_context(|| format!("cannot find {}", database.display()))?;
        let class = policy.class(&database);
        let folder = database.parent().unwrap_or(Path::new("/"));
        let network =
            network_filesystem(folder).with_context(|| format!("cannot find {}", folder.display()))?;
        match network {
            Some(name) if matches!(class, Class::Ordered { .. } | Class::Cache { .. }) => {
                writeln!(out, "{}: it is on {name}, so it stays durable", database.display())?;
            }
            _ => writeln!(out, "{}: {}", database.display(), about(class))?,
        }
    }
    Ok(Exit::Fine)
}

/// What a class means, in words.
fn about(class: Class) -> String {
    match class {
        Class::Durable => "durable: synced as its program asks for".to_owned(),
        Class::Learn => "learn: as its program asks for; a class is suggested when it is closed".to_owned(),
        Class::Ordered { window, to_wal } => format!(
            "ordered: a power cut loses at most the transactions of {} ms{}",
            window.as_millis(),
            if to_wal {
                "; changed to write-ahead mode when opened"
            } else {
                ", in write-ahead mode; else durable"
            }
        ),
        Class::Cache { drop_fsync } => format!(
            "cache: never synced; removed after a boot that did not end cleanly{}",
            if drop_fsync { "; its program's own fsync calls are dropped" } else { "" }
        ),
    }
}

/// Removes the caches of boots that did not end cleanly.
fn boot(path: &Path) -> Result<Exit> {
    if !path.exists() {
        writeln!(output::screen(), "There is no policy {}: nothing to do.", path.display())?;
        return Ok(Exit::Fine);
    }
    let mut boots = Boots::read()?;
    // Programs may write again, so this boot has not ended.
    boots.record(false)?;
    let policy = read(path)?;
    let mut failures = Vec::new();
    for rule in policy.rules().iter().filter(|rule| matches!(rule.class, Class::Cache { .. })) {
        let (caches, errors) = caches_below(&policy, rule);
        failures.extend(errors);
        for cache in caches {
            match cache.remove_stale(&boots) {
                Ok(None) => {}
                Ok(Some(removed)) => {
                    let files: Vec<_> = removed.files.iter().map(|file| file.display().to_string()).collect();
                    writeln!(
                        output::screen(),
                        "{} is a cache from a boot that did not end cleanly: removed {}.",
                        cache.path().display(),
                        if files.is_empty() { "its marker".to_owned() } else { files.join(", ") }
                    )?;
                }
                Err(error) => failures.push(error),
            }
        }
    }
    if failures.is_empty() {
        return Ok(Exit::Fine);
    }
    let failures: Vec<_> = failures.iter().map(ToString::to_string).collect();
    bail!("{}", failures.join("; "))
}

/// Records that everything of this boot is on the disks.
fn stop() -> Result<Exit> {
    let asked = Command::new("systemctl").arg("is-system-running").output();
    let state = asked.context("cannot start systemctl")?.stdout;
    let state = String::from_utf8_lossy(&state).trim().to_owned();
    if state != "stopping" {
        writeln!(
            output::screen(),
            "This machine does not shut down (it is {state}), so programs may go on writing: not recorded as a clean end."
        )?;
        return Ok(Exit::Fine);
    }
    rustix::fs::sync();
    Boots::read()?.record(true)?;
    writeln!(output::screen(), "Recorded that this boot ended cleanly.")?;
    Ok(Exit::Fine)
}

/// The policy's file, if none is named.
pub const POLICY: &str = DEFAULT;

/// The policy that programs follow which this shell starts.
pub fn of_shell() -> PathBuf {
    std::env::var_os(VARIABLE).map_or_else(|| PathBuf::from(POLICY), PathBuf::from)
}
