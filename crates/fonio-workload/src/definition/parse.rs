//! Parses and checks a workload definition.

use std::path::Path;

use fonio_system::regular;
use serde::Deserialize;
use serde::de::Error as _;

use super::{Step, Workload, check, rows};
use crate::error::WorkloadError;

/// Maximum number of bytes of a definition. The longest shipped definition has some 5 KiB.
const BYTES_MAX: u64 = 4 << 20;

/// A workload shipped with fonio.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// The workload's name.
    pub name: &'static str,
    /// The text of the workload's definition.
    pub text: &'static str,
}

macro_rules! ship {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped { name: $name, text: include_str!(concat!("../../workloads/", $name, ".toml")) }),*]
    };
}

const SHIPPED: &[Shipped] = include!("shipped.in");

/// Returns the shipped workloads, in the order in which they are listed.
#[must_use]
pub fn shipped() -> &'static [Shipped] {
    SHIPPED
}

impl Workload {
    /// Loads a shipped workload by name, or a workload from a file. Fails if no workload has this name, if
    /// the file cannot be read, or if [`Workload::parse`] fails.
    pub fn load(name_or_path: &str) -> Result<Self, WorkloadError> {
        if let Some(shipped) = SHIPPED.iter().find(|shipped| shipped.name == name_or_path) {
            return Workload::parse(shipped.text, shipped.name, None);
        }
        let path = Path::new(name_or_path);
        if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") && !path.exists() {
            let nearest = fonio_core::nearest(name_or_path, SHIPPED.iter().map(|shipped| shipped.name));
            return Err(WorkloadError::Unknown { name: name_or_path.to_owned(), nearest });
        }
        let text = regular::read_text(path, BYTES_MAX)
            .map_err(|source| WorkloadError::Unreadable { path: path.to_owned(), source })?;
        Workload::parse(&text, name_or_path, path.parent())
    }

    /// Parses a definition. Error messages call the definition `origin`. Paths of replayed traces are
    /// relative to `folder`. Fails if the text is not TOML or not a workload, or if a value is invalid. The
    /// error names the key, the value and a remedy.
    pub fn parse(text: &str, origin: &str, folder: Option<&Path>) -> Result<Self, WorkloadError> {
        let toml = |source| WorkloadError::Toml { origin: origin.to_owned(), source: Box::new(source) };
        let document: toml::Table = toml::from_str(text).map_err(toml)?;
        let mut workload: Workload = if document.contains_key("rows") {
            let expanded =
                rows::expand(document).map_err(|problem| toml(toml::de::Error::custom(problem)))?;
            Workload::deserialize(expanded).map_err(toml)?
        } else {
            // Without row templates, parse the text itself, because error messages then show the line.
            toml::from_str(text).map_err(toml)?
        };
        if let Some(folder) = folder {
            let threads = workload.phases.iter_mut().flat_map(|phase| &mut phase.threads);
            for step in workload.prepare.iter_mut().chain(threads.flat_map(|thread| &mut thread.steps)) {
                locate_traces(step, folder);
            }
        }
        check::check(&workload, origin)?;
        Ok(workload)
    }
}

fn locate_traces(step: &mut Step, folder: &Path) {
    match step {
        Step::Replay { trace, .. } if trace.is_relative() => *trace = folder.join(&trace),
        Step::Repeat { steps, .. } | Step::Transaction { steps, .. } => {
            steps.iter_mut().for_each(|step| locate_traces(step, folder));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_shipped_workload_is_valid_and_named_as_its_file() {
        for shipped in shipped() {
            match Workload::load(shipped.name) {
                Ok(workload) => {
                    assert_eq!(workload.name, shipped.name);
                    assert!(!workload.title.is_empty() && !workload.about.is_empty(), "{}", shipped.name);
                }
                Err(error) => panic!("{}: {}", shipped.name, told(&error)),
            }
        }
    }

    #[test]
    fn the_list_and_the_folder_agree() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap().replace(".toml", ""))
            .collect();
        let mut listed: Vec<&str> = shipped().iter().map(|shipped| shipped.name).collect();
        files.sort();
        listed.sort_unstable();
        assert_eq!(files, listed);
    }

    fn told(error: &WorkloadError) -> String {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(source) = cause {
            if !text.contains(source.to_string().trim()) {
                write!(text, ": {source}").unwrap();
            }
            cause = source.source();
        }
        text
    }

    const HEAD: &str = "name = 'own'\ntitle = 'Own'\n[places]\ndata = 'all'\n\
        [files.photo]\nplace = 'data'\nname = 'IMG_{n}.jpg'\n\
        [databases.main]\nplace = 'data'\nfile = 'main.db'\nschema = 'CREATE TABLE t(a, b)'\n";

    #[test]
    fn mistakes_are_told_with_key_value_and_way_out() {
        let mut said = String::new();
        for step in [
            "{ do = 'write', files = 'photo', size = '4KiB' }",
            "{ do = 'write', files = 'foto', size = '4KiB' }",
            "{ do = 'write', files = 'photo', size = '4096' }",
            "{ do = 'wriet', files = 'photo' }",
            "{ do = 'write', files = 'photo', size = '4KiB', cuont = 3 }",
            "{ do = 'sql', database = 'main', statement = 'INSRT INTO t VALUES(1, 2)' }",
            "{ do = 'sql', database = 'main', statement = 'INSERT INTO t VALUES(?, ?)', params = ['int:0..9'] }",
            "{ do = 'sql', database = 'mian', statement = 'SELECT 1' }",
            "{ do = 'think', seconds = -1.0 }",
            "{ do = 'append', files = 'photo', size = '5000B', direct = true }",
            "{ do = 'repeat', times = 0, steps = [] }",
        ] {
            let steps = format!("[[phase]]\nname = 'p'\n[[phase.thread]]\nname = 'main'\nsteps = [{step}]\n");
            let parsed = Workload::parse(&format!("{HEAD}{steps}"), "own.toml", None);
            let outcome = parsed.map_or_else(|error| told(&error), |_| "valid".to_owned());
            writeln!(said, "{step}\n{}", outcome.trim_end()).unwrap();
        }
        expect_test::expect_file!["mistakes.txt"].assert_eq(&said);
    }

    #[test]
    fn an_unknown_name_lists_the_known() {
        let error = Workload::load("webbnech").expect_err("no such workload");
        assert!(error.to_string().contains("webbench"), "{error}");
        let error = Workload::load("./none.toml").expect_err("no such file");
        assert!(matches!(error, WorkloadError::Unreadable { .. }));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z=\\[\\]{}'\" \n0-9.,]{0,200}") {
            let _ = Workload::parse(&text, "text", None);
        }

        /// A shipped definition with a random replacement is accepted or rejected, but never causes a panic.
        #[test]
        fn no_damage_panics(which in 0_usize..SHIPPED.len(), at in any::<prop::sample::Index>(), len in 0_usize..20,
                            with in "[-a-z0-9$\"{}\\[\\]= ]{0,8}") {
            let text = SHIPPED[which].text;
            let mut bytes = text.as_bytes().to_vec();
            let start = at.index(bytes.len());
            let end = (start + len).min(bytes.len());
            bytes.splice(start..end, with.bytes());
            let _ = Workload::parse(&String::from_utf8_lossy(&bytes), "damaged", None);
        }
    }
}
