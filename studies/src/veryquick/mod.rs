//! `cargo studies veryquick`: runs SQLite's own tests without and with the sync-policy library.
//!
//! apt fetches the sources of Debian's SQLite into the target folder, with separate package lists, and
//! installs nothing. The test program contains SQLite, so it loads the library through `SQLITE_EXTRA_INIT`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use xtask::results::{Cell, StudyResult};

use crate::{debian_sources, process};

/// C code that calls the library's initialisation if the environment names the library. Therefore, all runs
/// can use the same test program.
const EXTRA: &str = include_str!("extra.c");

const CLASSES: [&str; 4] = ["durable", "learn", "ordered", "cache"];

/// The user as which the tests run, because SQLite's tests refuse to run as root.
const USER: &str = "nobody";

#[derive(Args)]
pub struct Arguments {
    /// Test these classes of a sync policy (default: all).
    #[arg(value_name = "CLASS", value_parser = CLASSES)]
    classes: Vec<String>,
}

/// Runs SQLite's tests without the library and under each class.
pub fn run(Arguments { classes }: &Arguments) -> Result<()> {
    ensure!(
        Path::new("/usr/include/tcl8.6/tcl.h").exists(),
        "the tests need Tcl's headers: apt-get install tcl-dev"
    );
    let library = process::build_sync_library()?;
    let folder = process::scratch("veryquick")?;
    let sources = debian_sources::fetch("sqlite3", &folder, "test/veryquick.test")?;
    let fixture = fixture(&folder, &sources)?;
    // The user without privileges must be able to access the folder of the run and the library.
    let place = tempfile::tempdir()?;
    fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let own = place.path().join("library.so");
    fs::copy(&library, &own)?;
    let test = sources.join("test/veryquick.test");
    let without = run_once(place.path(), None, &own, &fixture, &test)?;
    let title = "failures of SQLite's own tests under a sync policy";
    let mut result =
        StudyResult::begin("veryquick", title, "cargo studies veryquick", &["class", "tests", "failures"])?;
    let cells = |run: &Said| vec![Cell::count(run.tests), Cell::count(run.failed.len())];
    result.row("without the library", cells(&without));
    let mut is_worse = false;
    for class in
        CLASSES.into_iter().filter(|class| classes.is_empty() || classes.iter().any(|word| word == class))
    {
        let with = run_once(place.path(), Some(class), &own, &fixture, &test)?;
        result.row(format!("`{class}`"), cells(&with));
        for name in with.failed.difference(&without.failed) {
            eprintln!("  {name} fails only with the library");
            is_worse |= class == "durable";
        }
        for name in without.failed.difference(&with.failed) {
            eprintln!("  {name} fails only without the library");
        }
    }
    result.keep(classes.is_empty())?;
    ensure!(!is_worse, "the class durable fails tests that pass without the library");
    Ok(())
}

struct Said {
    tests: u64,
    failed: BTreeSet<String>,
}

fn run_once(place: &Path, class: Option<&str>, library: &Path, fixture: &Path, test: &Path) -> Result<Said> {
    let name = class.unwrap_or("none");
    let folder = place.join(name);
    fs::create_dir(&folder)?;
    let policy = place.join(format!("{name}.toml"));
    let mut tests = if process::is_root() {
        process::run(Command::new("chown").arg(USER).arg(&folder))?;
        let mut tests = Command::new("setpriv");
        tests.args(["--reuid", USER, "--regid", "nogroup", "--clear-groups"]).arg(fixture);
        tests
    } else {
        Command::new(fixture)
    };
    if let Some(class) = class {
        fs::write(&policy, format!("[[database]]\npath = '{}'\nclass = '{class}'\n", folder.display()))?;
        tests.env("FONIO_SYNC_LIBRARY", library).env("FONIO_SYNC_POLICY", &policy);
    }
    tests.arg(test).env("HOME", &folder).current_dir(&folder).stdin(Stdio::null());
    let out = tests.output().context("cannot start the tests")?;
    let text = String::from_utf8_lossy(&out.stdout);
    let last = process::scratch("veryquick")?.join(format!("{name}.txt"));
    fs::write(&last, text.as_bytes())?;
    let total = text.lines().find_map(|line| line.split_once(" errors out of "));
    let Some((_, rest)) = total else {
        bail!("the tests ended early ({}); see {}", out.status, last.display());
    };
    let tests =
        rest.split(' ').next().and_then(|number| number.parse().ok()).context("no number of tests")?;
    let failed = text
        .lines()
        .filter_map(|line| line.strip_prefix("!Failures on these tests: "))
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect();
    Ok(Said { tests, failed })
}

/// Returns the path of the test program. It is built once.
fn fixture(folder: &Path, sources: &Path) -> Result<PathBuf> {
    let build = folder.join("build");
    let fixture = build.join("testfixture");
    if fixture.exists() {
        return Ok(fixture);
    }
    fs::create_dir_all(&build)?;
    fs::write(build.join("extra.c"), EXTRA)?;
    let script = format!(
        "set -e
        {}/configure --enable-all --enable-load-extension CFLAGS=-O1
        cc -c extra.c -o extra.o
        make testfixture OPTS=-DSQLITE_EXTRA_INIT=fonio_test_extra_init LIBS='-Wl,-E extra.o -lm -ldl -lz -lpthread'",
        sources.display()
    );
    println!("building SQLite's tests in {}", build.display());
    let log = fs::File::create(build.join("log"))?;
    let made = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&build)
        .stdout(log.try_clone()?)
        .stderr(log)
        .status()?;
    ensure!(made.success(), "cannot build SQLite's tests; see {}", build.join("log").display());
    Ok(fixture)
}
