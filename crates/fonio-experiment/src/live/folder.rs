//! Manages the folder of a test: its plan, its slices with their recordings, and the result so far.
//!
//! | file | contents |
//! |---|---|
//! | `plan.json` | the tested setting and the method ([`LivePlan`]) |
//! | `slice-001.json` | a slice, written when it is complete ([`MeasuredSlice`]) |
//! | `slice-001/` | its recording |
//! | `live.json` | the result so far ([`LiveResult`]) |
//! | `slices.csv` | the slices as a table |
//!
//! Each file of the folder is complete or absent, even after `kill -9`, because fonio writes it under another
//! name and renames it when it is complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fonio_system::private;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{LivePlan, LiveResult, MeasuredSlice};
use crate::error::ExperimentError;

const PLAN: &str = "plan.json";
const RESULT: &str = "live.json";
const TABLE: &str = "slices.csv";

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    plan: LivePlan,
}

impl Folder {
    /// Creates the folder for `plan`, or opens an existing folder of the same test. An existing folder
    /// determines the order of slices.
    pub(super) fn begin(path: &Path, plan: &LivePlan) -> Result<Folder, ExperimentError> {
        private::create_folders(path).map_err(ExperimentError::system("make", path))?;
        let mut folder = Folder { path: path.to_owned(), plan: plan.clone() };
        match Folder::plan_in(path)? {
            None => folder.write(PLAN, &folder.plan)?,
            Some(found) => {
                let asked = LivePlan { order_seed: found.order_seed, ..plan.clone() };
                if let Some(differs) = difference(&found, &asked) {
                    return Err(ExperimentError::OtherTest { folder: path.to_owned(), differs });
                }
                folder.plan = found;
            }
        }
        Ok(folder)
    }

    pub(super) fn plan_in(path: &Path) -> Result<Option<LivePlan>, ExperimentError> {
        read(&path.join(PLAN))
    }

    pub(super) fn plan(&self) -> &LivePlan {
        &self.plan
    }

    pub(super) fn recording(&self, number: u32) -> PathBuf {
        self.path.join(format!("slice-{number:03}"))
    }

    pub(super) fn slices(&self) -> Result<Vec<MeasuredSlice>, ExperimentError> {
        let listing = fs::read_dir(&self.path).map_err(ExperimentError::system("list", &self.path))?;
        let mut slices: Vec<MeasuredSlice> = Vec::new();
        for entry in listing {
            let path = entry.map_err(ExperimentError::system("list", &self.path))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with("slice-") && name.ends_with(".json") {
                slices.extend(read::<MeasuredSlice>(&path)?);
            }
        }
        slices.sort_by_key(|slice| slice.number);
        Ok(slices)
    }

    pub(super) fn write_slice(&self, slice: &MeasuredSlice) -> Result<(), ExperimentError> {
        self.write(&format!("slice-{:03}.json", slice.number), slice)
    }

    pub(super) fn write_result(&self, result: &LiveResult) -> Result<(), ExperimentError> {
        self.write(RESULT, result)?;
        self.replace(TABLE, result.table().as_bytes())
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), ExperimentError> {
        let mut text = serde_json::to_vec_pretty(value).expect("all keys of the value are text");
        text.push(b'\n');
        self.replace(name, &text)
    }

    fn replace(&self, name: &str, text: &[u8]) -> Result<(), ExperimentError> {
        let (path, beside) = (self.path.join(name), self.path.join(format!(".{name}.new")));
        let write = || {
            private::write_file(&beside, text)?;
            fs::rename(&beside, &path)
        };
        write().map_err(ExperimentError::system("write", &path))
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ExperimentError> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|source| ExperimentError::BadSlice { path: path.to_owned(), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ExperimentError::system("read", path)(error)),
    }
}

/// Describes the first difference between the plan of a folder and the requested plan.
fn difference(found: &LivePlan, asked: &LivePlan) -> Option<String> {
    let unit = |plan: &LivePlan| plan.unit.clone().unwrap_or_else(|| "all programs".to_owned());
    let (a, b) = (&found.setting, &asked.setting);
    let parts = [
        ("version", found.version.to_string(), asked.version.to_string()),
        ("fix", found.fix.clone(), asked.fix.clone()),
        ("setting", a.target.to_string(), b.target.to_string()),
        ("value without the fix", a.old.clone(), b.old.clone()),
        ("value with the fix", a.new.clone(), b.new.clone()),
        ("threads of", unit(found), unit(asked)),
        ("slices in seconds", found.slice_s.to_string(), asked.slice_s.to_string()),
        ("carry-over in seconds", found.carry_over_s.to_string(), asked.carry_over_s.to_string()),
    ];
    let (what, found, asked) = parts.into_iter().find(|(_, found, asked)| found != asked)?;
    Some(format!("{what}: {found} in the folder, {asked} now"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{plan, slice};
    use super::*;

    #[test]
    fn a_test_goes_on_with_its_own_slices_and_order_and_no_other() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("test");
        let folder = Folder::begin(&path, &plan()).expect("new");
        assert_eq!(folder.slices().expect("none"), []);
        folder.write_slice(&slice(2, 1, true, 5)).expect("written");
        folder.write_slice(&slice(1, 1, false, 9)).expect("written");
        fs::write(path.join(".slice-003.json.new"), "{").expect("killed while writing");
        let again = Folder::begin(&path, &LivePlan { order_seed: 99, ..plan() }).expect("the same");
        assert_eq!(again.plan().order_seed, plan().order_seed);
        assert_eq!(again.slices().expect("two"), [slice(1, 1, false, 9), slice(2, 1, true, 5)]);
        let error = Folder::begin(&path, &LivePlan { slice_s: 3.0, ..plan() }).expect_err("another");
        let says = "contains the slices of another test (slices in seconds: 40 in the folder, 3 now)";
        assert!(error.to_string().contains(says), "{error}");
        fs::write(path.join("slice-004.json"), "{").expect("damaged");
        let error = again.slices().expect_err("damaged").to_string();
        assert!(error.contains("slice-004.json as a file of a live test"), "{error}");
    }
}
