//! Finds the units that currently have processes.

use std::collections::{BTreeMap, BTreeSet};

use fonio_system::Task;

use super::lookup::Units;
use crate::machine::Machine;

/// Returns the units that currently have processes. Maps each unit's name, as used in recordings, to the
/// paths of its control groups in the unified hierarchy. Skips processes that end during the call.
pub fn units_now() -> BTreeMap<String, BTreeSet<String>> {
    let machine = Machine::here();
    let mut units = Units::default();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for pid in Task::all_below(&machine.proc("")) {
        let task = machine.task(pid);
        let Some(cgroups) = task.cgroups() else { continue };
        let uid = task.owner().and_then(|owner| owner.user);
        let Some(unit) = units.of(cgroups.telling(), uid) else { continue };
        let paths = found.entry(unit).or_default();
        paths.extend(cgroups.unified().filter(|path| *path != "/").map(str::to_owned));
    }
    found
}
