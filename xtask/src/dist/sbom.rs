//! Makes a bill of materials (SBOM) for each program and wheel: the crates of which it is built, as CycloneDX 1.5.
//!
//! `cargo tree` selects the crates of one program for one target, with the features that are in use. Build
//! scripts and procedural macros run on the machine that builds, and are left out. The checksums are those of
//! `Cargo.lock`. The same commit gives the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::package::VERSION;
use super::{committed_s, folder, rfc_3339, sha256};
use crate::process;

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

/// A package in `Cargo.lock`.
#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// A crate of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
    licence: String,
    repository: String,
}

impl Crate {
    /// Returns the package URL, which also identifies the crate in the document.
    fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// Creates the document of a package of this workspace for a target, by cargo's and rustc's names.
pub fn make(target: &str, package: &str) -> Result<PathBuf> {
    let mut cargo = process::cargo();
    cargo.args(["tree", "--locked", "--package", package, "--target", target]);
    cargo.args(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "|{p}|{l}|{r}"]);
    let tree = process::output(&mut cargo)?;
    let lock = process::root().join("Cargo.lock");
    let lock = fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let lock: Lock = toml::from_str(&lock).context("cannot read Cargo.lock")?;
    let sums: BTreeMap<_, _> = lock
        .package
        .into_iter()
        .filter_map(|package| Some(((package.name, package.version), package.checksum?)))
        .collect();
    let document = document(&tree, &sums, target, &rfc_3339(committed_s()?)?)?;
    let path = folder()?.join(format!("{package}-{VERSION}-{target}.cdx.json"));
    fs::write(&path, serde_json::to_string_pretty(&document)? + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Returns the document for a tree of crates, with the checksums of `Cargo.lock` by name and version.
fn document(
    tree: &str,
    sums: &BTreeMap<(String, String), String>,
    target: &str,
    time: &str,
) -> Result<Value> {
    let (root, edges) = graph(tree)?;
    let component = |one: &Crate| {
        let kind = if *one == root { "application" } else { "library" };
        let mut value = json!({
            "type": kind,
            "bom-ref": one.url(),
            "name": one.name,
            "version": one.version,
            "purl": one.url(),
            // Old crates separate licences by a slash.
            "licenses": [{ "expression": one.licence.replace('/', " OR ") }],
        });
        if let Some(sum) = sums.get(&(one.name.clone(), one.version.clone())) {
            value["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        if !one.repository.is_empty() {
            value["externalReferences"] = json!([{ "type": "vcs", "url": one.repository }]);
        }
        value
    };
    let others: Vec<Value> = edges.keys().filter(|one| **one != root).map(component).collect();
    let dependencies: Vec<Value> = edges
        .iter()
        .map(
            |(of, on)| json!({ "ref": of.url(), "dependsOn": on.iter().map(Crate::url).collect::<Vec<_>>() }),
        )
        .collect();
    let mut document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist", "version": VERSION }] },
            "component": component(&root),
            "properties": [{ "name": "fonio:target", "value": target }],
        },
        "components": others,
        "dependencies": dependencies,
    });
    // The number depends on the contents, so it needs no random numbers.
    let sum = sha256(document.to_string().as_bytes());
    document["serialNumber"] = format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        &sum[..8],
        &sum[8..12],
        &sum[13..16],
        &sum[17..20],
        &sum[20..32]
    )
    .into();
    Ok(document)
}

/// Reads the output of `cargo tree` with depths. Returns the first crate, and the crates on which each crate
/// depends.
fn graph(tree: &str) -> Result<(Crate, BTreeMap<Crate, BTreeSet<Crate>>)> {
    let mut edges: BTreeMap<Crate, BTreeSet<Crate>> = BTreeMap::new();
    let mut above: Vec<Crate> = Vec::new();
    for line in tree.lines() {
        let parsed = || {
            let mut parts = line.split('|');
            let depth: usize = parts.next()?.parse().ok()?;
            let mut words = parts.next()?.split(' ');
            let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
            let licence = parts.next()?;
            // `cargo tree` marks a crate whose dependencies it has already printed.
            let repository = parts.next()?.trim_end_matches(" (*)");
            let [name, version, licence, repository] =
                [name, version, licence, repository].map(|text| text.trim().to_owned());
            Some((depth, Crate { name, version, licence, repository }))
        };
        let (depth, one) =
            parsed().with_context(|| format!("cannot read the line `{line}` of cargo tree"))?;
        above.truncate(depth);
        if let Some(parent) = above.last() {
            edges.entry(parent.clone()).or_default().insert(one.clone());
        }
        edges.entry(one.clone()).or_default();
        above.push(one);
    }
    let root = above.into_iter().next().context("cargo tree printed nothing")?;
    Ok((root, edges))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "0|fonio v0.1.0 (/x)|MIT|https://f\n1|a v1.0.0|MIT/Apache-2.0|https://a\n2|b v2.0.0|MIT|\n1|b v2.0.0|MIT| (*)\n";

    #[test]
    fn the_document_has_each_crate_once_with_its_dependencies() {
        let sums = BTreeMap::from([(("a".to_owned(), "1.0.0".to_owned()), "abc".to_owned())]);
        let document = document(TREE, &sums, "t", "2026-01-01T00:00:00Z").expect("a document");
        let names: Vec<_> = document["components"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(document["metadata"]["component"]["name"], "fonio");
        assert_eq!(document["components"][0]["hashes"][0]["content"], "abc");
        assert_eq!(document["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(document["components"][1].get("hashes"), None);
        let of_fonio = &document["dependencies"][2];
        assert_eq!(of_fonio["ref"], "pkg:cargo/fonio@0.1.0");
        assert_eq!(of_fonio["dependsOn"], json!(["pkg:cargo/a@1.0.0", "pkg:cargo/b@2.0.0"]));
    }

    #[test]
    fn a_foreign_line_is_refused() {
        assert!(graph("warning: something\n").is_err());
        assert!(graph("").is_err());
    }
}
