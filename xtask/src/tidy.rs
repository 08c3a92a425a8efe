//! Checks that `cargo metadata` and the sources agree with the invariants of the architecture
//! (`ARCHITECTURE.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::circles;
use xtask::process;

/// The workspace crates on which each crate may depend. The names are without `fonio-`, and the first name of
/// a line is the crate itself.
const LAYERS: &[&str] = &[
    "core:",
    "trace: core tracefs",
    "tracefs: core",
    "export: core",
    "analysis: core",
    "recording: core system",
    "system: core",
    "machine: core system",
    "record: core machine recording system trace tracefs",
    "watch: core machine record report system",
    "recorder: core record recording system",
    "processor: core",
    "report: analysis core",
    "sim: core",
    "host: core machine sync-policy system",
    "lab: core",
    "android: core",
    "sync-policy:",
    "sqlite-sync: sync-policy",
    "workload: core system",
    "bfuse: core system",
    "emulator: core host sim system",
    "storebench-document: core",
    "bench: core host machine sim storebench-document system workload",
    "experiment: analysis bench core emulator host machine processor record recording report sim system workload",
    "input: analysis core recording system trace watch",
    "python: analysis core input recording report sim system trace",
    "fonio: analysis android bench bfuse core emulator experiment export host input lab machine processor record recorder recording report sim \
     storebench-document sync-policy system trace watch workload",
    "results: core storebench-document",
    "testing:",
    "studies: analysis bench core emulator experiment host lab record recording report sim storebench-document system testing trace \
     xtask",
    "xtask: core lab system testing",
];

/// Returns each crate with the crates on which it may depend.
fn layers() -> BTreeMap<String, BTreeSet<String>> {
    let full = |name: &str| match name {
        "fonio" | "xtask" => name.to_owned(),
        name => format!("fonio-{name}"),
    };
    let layer = |line: &&str| {
        let (name, below) = line.split_once(':').expect("each line has a name and a colon");
        (full(name), below.split_whitespace().map(full).collect())
    };
    LAYERS.iter().map(layer).collect()
}

/// Crates that do I/O only through `Read` and `Write` arguments, and do not read a clock.
const PURE: &[&str] = &[
    "fonio-core",
    "fonio-trace",
    "fonio-tracefs",
    "fonio-export",
    "fonio-analysis",
    "fonio-sim",
    "fonio-storebench-document",
];

/// Allowed dependencies of pure crates: parsers, containers and derive macros that do no I/O.
const PURE_DEPENDENCIES: &[&str] = &[
    "base64",
    "bzip2",
    "csv-core",
    "flate2",
    "libm",
    "lzma-rust2",
    "memchr",
    "rustc-hash",
    "schemars",
    "serde",
    "serde_json",
    "strsim",
    "thiserror",
    "toml",
    "wildmatch",
    "zstd",
];

/// Texts that must not occur in pure crates, each with the reason.
const IMPURE: &[(&str, &str)] = &[
    ("std::fs", "does I/O"),
    ("File::open", "does I/O"),
    ("std::net", "does I/O"),
    ("std::process", "starts processes"),
    ("std::env", "reads the environment"),
    ("std::thread", "starts threads"),
    ("Instant::now", "reads a clock"),
    ("SystemTime", "reads a clock"),
    ("println!", "prints"),
    ("eprintln!", "prints"),
    ("collections::HashMap", "has an order that differs from run to run"),
    ("collections::HashSet", "has an order that differs from run to run"),
    (".ln()", "differs between platforms"),
    (".log2()", "differs between platforms"),
    (".log10()", "differs between platforms"),
    (".exp()", "differs between platforms"),
    (".powf(", "differs between platforms"),
    (".sin()", "differs between platforms"),
    (".cos()", "differs between platforms"),
];

/// Crates that may contain `unsafe`, because they call the kernel, are called by C programs, map files, or
/// exchange tables with Python.
const MAY_HOLD_UNSAFE: &[&str] = &[
    "fonio-record",
    "fonio-host",
    "fonio-emulator",
    "fonio-bfuse",
    "fonio-python",
    "fonio-sqlite-sync",
    "fonio-studies",
];

/// Texts that print. Names from strangers must not reach a terminal raw, so only the files below print, and they
/// escape what they print (`fonio_core::untrusted`).
const PRINTS: &[&str] = &["println!", "eprintln!", "print!(", "eprint!(", "io::stdout()", "io::stderr()"];

/// Crates that only developers run, on their own data.
const DEVELOPERS_ONLY: &[&str] = &["fonio-studies", "fonio-testing"];

/// The files that may print, each with the reason.
const MAY_PRINT: &[(&str, &str)] = &[
    ("crates/fonio-system/src/progress.rs", "escapes sentences and progress"),
    ("crates/fonio/src/output.rs", "escapes everything else"),
    ("crates/fonio/src/commands/ci/mod.rs", "passes on what the command prints"),
    ("crates/fonio/src/commands/export.rs", "writes a file format to standard output"),
    ("crates/fonio/src/commands/lab.rs", "passes on what a guest prints"),
    ("crates/fonio/src/commands/manual.rs", "prints a script for a shell"),
    ("crates/fonio/src/commands/storebench/submit.rs", "asks a question"),
    ("crates/fonio-recorder/src/attached.rs", "sends a recording to its host"),
    ("crates/fonio-recorder/src/capture.rs", "escapes its summary"),
    ("crates/fonio-record/src/capture/command.rs", "connects the command"),
    ("crates/fonio-experiment/src/command.rs", "connects the command"),
    ("crates/fonio-experiment/src/proof/first_run.rs", "connects the command"),
    ("crates/fonio-experiment/src/layers/mounts.rs", "passes on what a mount prints"),
    ("crates/fonio-experiment/src/held.rs", "tells its parent process the speed"),
    ("crates/fonio-experiment/src/lib.rs", "tells its parent process an address"),
    ("crates/fonio-experiment/src/task.rs", "tells its parent process the progress"),
    ("crates/fonio-emulator/src/serve.rs", "answers its parent process"),
    ("crates/fonio-emulator/src/workload.rs", "connects the command"),
    ("crates/fonio-lab/src/archive.rs", "connects apt"),
    ("crates/fonio-lab/src/guest.rs", "passes on what a guest prints"),
    ("crates/fonio-sqlite-sync/src/say.rs", "is linked into other programs"),
    ("crates/fonio-results/src/main.rs", "is another program"),
    ("crates/fonio-results/src/problem.rs", "is another program"),
    ("crates/fonio-results/src/serve.rs", "is another program"),
    ("crates/fonio-results/src/store/write.rs", "is another program"),
];

/// Maximum number of lines of a source file, without exceptions.
const LINES_MAX: usize = 1000;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    /// Kinds of the cargo target, such as `lib`, `bin`, `test` and `custom-build`.
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// Kind of the dependency: `null` for an ordinary dependency, otherwise `dev` or `build`.
    kind: Option<String>,
}

/// Checks all invariants. Fails with a list of all violations, one per line.
pub fn run() -> Result<()> {
    let breaches = breaches()?;
    if !breaches.is_empty() {
        bail!("{} violations of the architecture:\n  {}", breaches.len(), breaches.join("\n  "));
    }
    Ok(())
}

fn breaches() -> Result<Vec<String>> {
    let options = ["metadata", "--format-version=1", "--no-deps", "--offline"];
    let metadata = process::output(process::cargo().args(options))?;
    let metadata: Metadata =
        serde_json::from_str(&metadata).context("cannot read the JSON of cargo metadata")?;
    let layers = layers();
    let architecture = fs::read_to_string(process::root().join("ARCHITECTURE.md")).unwrap_or_default();
    let manifest =
        fs::read_to_string(process::root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let small = compiled_for_size(&manifest)?;
    let mut found = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some(allowed) = layers.get(name) else {
            found.push(format!("{name}: add this crate to `LAYERS` in xtask/src/tidy.rs"));
            continue;
        };
        if !architecture.contains(&format!("`{name}`")) {
            found.push(format!("{name}: describe this crate in ARCHITECTURE.md"));
        }
        for dependency in package.dependencies.iter().filter(|dependency| dependency.kind.is_none()) {
            let wanted = dependency.name.as_str();
            if layers.contains_key(wanted) && !allowed.contains(wanted) {
                found.push(format!("{name}: must not depend on {wanted}"));
            }
            if PURE.contains(&name) && !layers.contains_key(wanted) && !PURE_DEPENDENCIES.contains(&wanted) {
                found.push(format!("{name}: does no I/O, so it must not depend on {wanted}"));
            }
        }
        if package.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "custom-build")) {
            found.push(format!(
                "{name}: has a build script; compiling it must need only Rust and a C compiler"
            ));
        }
        let is_program = package.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "bin"));
        if is_program && small.contains(name) {
            found.push(format!(
                "{name}: remove this program from `profile.release.package` in Cargo.toml: at link time, its level is used for all crates"
            ));
        }
        let folder = package.manifest_path.parent().context("a manifest has no folder")?;
        check_sources(name, folder, &mut found)?;
    }
    found.extend(crate::documents::breaches()?);
    found.extend(crate::workflows::breaches()?);
    found.extend(circles::breaches()?);
    Ok(found)
}

/// Returns the packages that a release compiles for size, from the manifest of the workspace.
fn compiled_for_size(manifest: &str) -> Result<BTreeSet<String>> {
    let manifest: toml::Table = manifest.parse().context("cannot read Cargo.toml")?;
    let levels = ["profile", "release", "package"]
        .iter()
        .try_fold(&manifest, |table, key| table.get(*key)?.as_table())
        .context("Cargo.toml has no `profile.release.package`")?;
    let is_small = |level: &toml::Value| level.get("opt-level").is_some_and(toml::Value::is_str);
    Ok(levels.iter().filter(|(_, level)| is_small(level)).map(|(name, _)| name.clone()).collect())
}

fn check_sources(package: &str, folder: &Path, found: &mut Vec<String>) -> Result<()> {
    let mut files = Vec::new();
    circles::collect_sources(folder, &mut files)?;
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let shown = file.strip_prefix(process::root()).unwrap_or(&file).display().to_string();
        let lines = text.lines().count();
        if lines > LINES_MAX {
            found.push(format!("{shown}: the file has {lines} lines; split it"));
        }
        let in_library = file.starts_with(folder.join("src"));
        // Skip xtask, because its sources contain the forbidden words.
        if package == "xtask" {
            continue;
        }
        for (number, line) in production_lines(&text) {
            if !MAY_HOLD_UNSAFE.contains(&package) && holds_unsafe(line) {
                found.push(format!(
                    "{shown}:{number}: only {} may contain `unsafe`",
                    MAY_HOLD_UNSAFE.join(", ")
                ));
            }
            if !in_library || is_test_file(&file) {
                continue;
            }
            let may_print =
                DEVELOPERS_ONLY.contains(&package) || MAY_PRINT.iter().any(|(file, _)| *file == shown);
            if let Some(word) = PRINTS.iter().find(|word| line.contains(**word) && !may_print) {
                found.push(format!("{shown}:{number}: `{word}` prints; use `say!`, or `output` in fonio"));
            }
            if !PURE.contains(&package) {
                continue;
            }
            for (word, why) in IMPURE {
                if line.contains(word) {
                    found.push(format!("{shown}:{number}: `{word}` {why}"));
                }
            }
        }
    }
    Ok(())
}

/// Returns the numbered lines of a file up to its test module, without comments.
fn production_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut lines = text.lines().enumerate().peekable();
    std::iter::from_fn(move || {
        loop {
            let (at, line) = lines.next()?;
            let ends = line.trim() == "#[cfg(test)]"
                && lines.peek().is_some_and(|(_, next)| next.starts_with("mod ") && next.ends_with('{'));
            if ends {
                return None;
            }
            let code = line.split("//").next().unwrap_or("");
            if !code.trim().is_empty() {
                return Some((at + 1, code));
            }
        }
    })
}

fn is_test_file(file: &Path) -> bool {
    file.file_stem().is_some_and(|stem| stem == "tests" || stem == "oracle")
        || file.components().any(|part| part.as_os_str() == "tests")
}

/// Returns whether a line of code contains the keyword `unsafe`. In a string such as a content security
/// policy, the word does not count.
fn holds_unsafe(line: &str) -> bool {
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait", "unsafe extern", "#[unsafe("]
        .iter()
        .any(|form| line.contains(form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_holds() {
        assert_eq!(breaches().expect("cargo metadata and the sources can be read"), Vec::<String>::new());
    }

    #[test]
    fn the_test_module_and_comments_are_left_out() {
        let text = "use a;\n// std::fs\nlet b; // unsafe\n#[cfg(test)]\nmod tests {\nunsafe\n";
        let lines: Vec<_> = production_lines(text).collect();
        assert_eq!(lines, [(1, "use a;"), (3, "let b; ")]);
    }

    #[test]
    fn packages_compiled_for_size_have_a_letter_as_level() {
        let manifest = "[profile.release.package]\nsmall = { opt-level = \"s\" }\nfast = { opt-level = 2 }\n";
        assert_eq!(compiled_for_size(manifest).expect("it is TOML"), BTreeSet::from(["small".to_owned()]));
    }

    #[test]
    fn unsafe_is_found_where_it_is_code() {
        assert!(holds_unsafe("pub unsafe fn x()"));
        assert!(holds_unsafe("let y = unsafe { z };"));
        assert!(!holds_unsafe("const POLICY: &str = \"script-src 'unsafe-inline'\";"));
    }
}
