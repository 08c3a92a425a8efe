//! Checks the decisions of the schedulers against vectors, which can also test other implementations.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use fonio_sim::scheduler::vectors::answer;

fn vectors(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(folder);
    let entries = fs::read_dir(&folder).expect("the folder of vectors can be listed");
    let paths = entries.map(|entry| entry.expect("each entry of the folder can be read").path());
    let mut texts: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "txt")).collect();
    texts.sort();
    texts
}

#[test]
fn the_decisions_are_those_of_the_vectors() {
    let paths = vectors("");
    assert!(!paths.is_empty());
    for path in paths {
        let text = fs::read_to_string(&path).expect("each vector can be read");
        let answered = answer(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        expect_file![&path].assert_eq(&answered);
    }
}

/// A kernel's decisions are only compared, never overwritten with the model's decisions.
#[test]
fn the_decisions_are_those_of_running_kernels() {
    for path in vectors("observed") {
        let text = fs::read_to_string(&path).expect("each vector can be read");
        let answered = answer(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(answered == text, "{}: the model decides differently:\n{answered}", path.display());
    }
}
