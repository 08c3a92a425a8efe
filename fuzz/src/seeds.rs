//! Seed inputs of a fuzz target: valid files, and splices of valid files of the same kind.
//!
//! `cargo xtask fuzz` starts a target with [`FOLDER`] in its environment. The target writes its seeds there before
//! libFuzzer reads them. The seeds depend only on the target's code, so they need not be stored.

use std::fs;
use std::path::Path;

use fonio_core::Random;
use serde_json::Value;

/// The environment variable with the folder for the seeds.
const FOLDER: &str = "FONIO_FUZZ_SEEDS";

/// Writes the seeds that `make` returns, if a folder for them was given.
pub fn write(make: impl FnOnce(&mut Random) -> Vec<Vec<u8>>) {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    for (number, seed) in make(&mut Random::new(1)).into_iter().enumerate() {
        fs::write(folder.join(format!("seed-{number}")), seed).expect("the disk has space");
    }
}

/// Returns `valid` and `count` splices of two of them.
pub fn spliced<T: Clone>(
    mut valid: Vec<T>,
    count: usize,
    random: &mut Random,
    splice: impl Fn(&T, &T, &mut Random) -> T,
) -> Vec<T> {
    let known = valid.clone();
    for _ in 0..count {
        let (a, b) = (one(&known, random), one(&known, random));
        valid.push(splice(a, b, random));
    }
    valid
}

/// Returns a random element.
pub fn one<'a, T>(all: &'a [T], random: &mut Random) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}

/// Overwrites a part of `a` with a part of `b` of less than 5000 bytes. Neither may be empty.
pub fn splice_bytes(a: &[u8], b: &[u8], random: &mut Random) -> Vec<u8> {
    let mut all = a.to_vec();
    let place = random.below(a.len() as u64) as usize;
    let from = random.below(b.len() as u64) as usize;
    let count = random.below(5000) as usize;
    let part = &b[from..(from + count).min(b.len())];
    let end = (place + part.len()).min(all.len());
    all.splice(place..end, part.iter().copied());
    all
}

/// Exchanges parts of a text (TOML or lines of JSON): a section that begins with `[`, or a line.
pub fn splice_text(a: &str, b: &str, random: &mut Random) -> String {
    let sections = random.below(2) == 0;
    let cut = |text: &str| -> Vec<String> {
        let mut parts: Vec<String> = vec![String::new()];
        for line in text.split_inclusive('\n') {
            if line.starts_with('[') || !sections {
                parts.push(String::new());
            }
            parts.last_mut().expect("there is one").push_str(line);
        }
        parts
    };
    let (mut parts, others) = (cut(a), cut(b));
    for _ in 0..=random.below(3) {
        let at = random.below(parts.len() as u64) as usize;
        let other = one(&others, random).clone();
        match random.below(3) {
            0 => parts[at] = other,
            1 => parts.insert(at, other),
            _ => drop(parts.remove(at)),
        }
        if parts.is_empty() {
            break;
        }
    }
    parts.concat()
}

/// Replaces a random value in `a` by a random value of `b`.
pub fn splice_json(a: &Value, b: &Value, random: &mut Random) -> Value {
    let (mut result, mut paths, mut others) = (a.clone(), Vec::new(), Vec::new());
    walk(a, String::new(), &mut paths);
    walk(b, String::new(), &mut others);
    for _ in 0..=random.below(3) {
        let other = b.pointer(one::<String>(&others, random)).expect("it was walked").clone();
        if let Some(place) = result.pointer_mut(one::<String>(&paths, random)) {
            *place = other;
        }
    }
    result
}

/// Collects the paths of all values.
fn walk(value: &Value, path: String, paths: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| walk(item, format!("{path}/{at}"), paths));
        }
        Value::Object(map) => {
            for (key, item) in map {
                walk(item, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), paths);
            }
        }
        _ => {}
    }
    paths.push(path);
}
