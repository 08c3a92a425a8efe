//! Implements `fonio sync-policy`, which checks a policy. A service also runs this command at boot and
//! shutdown.

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use fonio_sync_policy::{Boots, Class, Policy, caches_below, network_filesystem};
use fonio_system::regular;
use serde::Serialize;

use crate::cli::SyncPolicy;
use crate::exit::Exit;
use crate::output;

/// Maximum number of bytes of a policy.
const POLICY_BYTES_MAX: u64 = 4 << 20;

pub fn run(command: &SyncPolicy) -> Result<Exit> {
    match command {
        SyncPolicy::Check { policy, databases, json } => check(policy, databases, *json),
        SyncPolicy::Boot { policy } => boot(policy),
        SyncPolicy::Stop => stop(),
    }
}

fn read(path: &Path) -> Result<Policy> {
    let text = regular::read_text(path, POLICY_BYTES_MAX).with_context(|| {
        format!("cannot read the policy {}; docs/sync-policy.md describes the file", path.display())
    })?;
    Ok(Policy::parse(&text, path)?)
}

/// A rule or a database with its durability class, as JSON output.
#[derive(Serialize)]
struct Shown {
    path: String,
    class: &'static str,
    means: String,
    /// The name of the network file system that contains the database; a database on a network file system
    /// stays durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
}

impl Shown {
    fn of(path: impl Display, class: Class) -> Shown {
        Shown { path: path.to_string(), class: name(class), means: about(class), network: None }
    }
}

fn check(path: &Path, databases: &[PathBuf], as_json: bool) -> Result<Exit> {
    let policy = read(path)?;
    let shown: Vec<Shown> = if databases.is_empty() {
        let rules = policy.rules().iter().map(|rule| Shown::of(&rule.path, rule.class));
        rules.chain([Shown::of("all others", Class::Durable)]).collect()
    } else {
        databases.iter().map(|database| of_database(&policy, database)).collect::<Result<_>>()?
    };
    if as_json {
        return output::json(&shown);
    }
    let mut out = output::screen();
    if databases.is_empty() {
        let rules = policy.rules().len();
        writeln!(out, "{}: {rules} rules; the first rule that matches a database applies", path.display())?;
        for Shown { path, means, .. } in shown {
            writeln!(out, "  {path:<40} {means}")?;
        }
        return Ok(Exit::Fine);
    }
    for Shown { path, means, network, .. } in shown {
        match network {
            Some(name) => writeln!(out, "{path}: the database is on {name}, so it stays durable")?,
            None => writeln!(out, "{path}: {means}")?,
        }
    }
    Ok(Exit::Fine)
}

fn of_database(policy: &Policy, database: &Path) -> Result<Shown> {
    // Resolve the path as SQLite does. If the database does not exist yet, at least its folder must exist.
    let found = fs::canonicalize(database).or_else(|_| std::path::absolute(database));
    let database = found.with_context(|| format!("cannot find {}", database.display()))?;
    let class = policy.class(&database);
    let folder = database.parent().unwrap_or(Path::new("/"));
    let network = network_filesystem(folder).with_context(|| format!("cannot find {}", folder.display()))?;
    let heeds = matches!(class, Class::Ordered { .. } | Class::Cache { .. });
    Ok(match network.filter(|_| heeds) {
        Some(name) => {
            Shown { network: Some(name.to_string()), ..Shown::of(database.display(), Class::Durable) }
        }
        None => Shown::of(database.display(), class),
    })
}

fn name(class: Class) -> &'static str {
    match class {
        Class::Durable => "durable",
        Class::Learn => "learn",
        Class::Ordered { .. } => "ordered",
        Class::Cache { .. } => "cache",
    }
}

fn about(class: Class) -> String {
    match class {
        Class::Durable => "durable: synced as its program requests".to_owned(),
        Class::Learn => "learn: synced as its program requests; a class is suggested when the \
            database is closed"
            .to_owned(),
        Class::Ordered { window, to_wal } => format!(
            "ordered: a power cut loses at most the last {} ms of transactions{}",
            window.as_millis(),
            if to_wal {
                "; switched to write-ahead mode when opened"
            } else {
                ", if in write-ahead mode; otherwise durable"
            }
        ),
        Class::Cache { drop_fsync } => format!(
            "cache: never synced; removed after a boot that did not end cleanly{}",
            if drop_fsync { "; its program's own fsync calls are dropped" } else { "" }
        ),
    }
}

/// Removes caches from boots that did not end cleanly.
fn boot(path: &Path) -> Result<Exit> {
    if !path.exists() {
        writeln!(output::screen(), "The policy {} does not exist: nothing to do.", path.display())?;
        return Ok(Exit::Fine);
    }
    let mut boots = Boots::read()?;
    // Programs may write from now on, so this boot counts as not cleanly ended until its shutdown is
    // recorded.
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
                    let files: Vec<_> = removed.iter().map(|file| file.display().to_string()).collect();
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

/// Records that all data written in this boot is on the disks.
fn stop() -> Result<Exit> {
    let asked = Command::new("systemctl").arg("is-system-running").output();
    let state = asked.context("cannot start systemctl")?.stdout;
    let state = String::from_utf8_lossy(&state).trim().to_owned();
    if state != "stopping" {
        writeln!(
            output::screen(),
            "Not recorded as a clean end: this machine is not shutting down (it is {state}), so programs \
             may still write."
        )?;
        return Ok(Exit::Fine);
    }
    rustix::fs::sync();
    Boots::read()?.record(true)?;
    writeln!(output::screen(), "Recorded that this boot ended cleanly.")?;
    Ok(Exit::Fine)
}
