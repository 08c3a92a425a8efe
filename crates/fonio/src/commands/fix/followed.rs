//! Remembers when fixes were kept, so that the watch can follow them.
//!
//! `/var/lib/fonio/watch/followed.json` lists the command and the time of each kept fix. An entry is valid as long as the
//! record of kept settings has its target. Without a watch, nothing is remembered, because nothing could be compared.

use std::time::{SystemTime, UNIX_EPOCH};

use fonio_host::{Applied, Keeper, KeptFiles};
use fonio_system::{SystemError, TrustedFolder, say, state};
use serde::{Deserialize, Serialize};

const FILE: &str = "followed.json";
const FILE_BYTES_MAX: u64 = 1 << 20;
const ENTRIES_MAX: usize = 100;

/// A fix that was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The fix with its target, such as `io-class=idle backup.service`.
    pub fix: String,
    /// When it was kept, in seconds since 1970.
    pub at: i64,
    /// The target, as errors name it.
    target: String,
}

/// Notes that a fix is kept from now on. A fix that was kept before keeps its time. If that cannot be noted, the fix is
/// not followed, which a note says.
pub(super) fn begin(fix: &str, applied: &Applied) {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX);
    let noted = of_watch().and_then(|folder| {
        let Some(folder) = folder else { return Ok(()) };
        let mut entries = of_folder(&folder);
        let target = applied.target.to_string();
        if entries.iter().any(|entry| entry.fix == fix && entry.target == target) {
            return Ok(());
        }
        entries.retain(|entry| entry.target != target);
        entries.push(Entry { fix: fix.to_owned(), at, target });
        let from = entries.len().saturating_sub(ENTRIES_MAX);
        folder.replace(FILE, &serde_json::to_vec_pretty(&entries[from..]).expect("entries are JSON"))
    });
    if let Err(error) = noted {
        say!("note: the watch cannot follow this fix: {error}");
    }
}

/// Returns the fixes that are still kept, oldest first.
pub fn kept() -> Vec<Entry> {
    let Ok(Some(folder)) = of_watch() else { return Vec::new() };
    let Ok(on_record) = Keeper::on_record(&KeptFiles::of_machine()) else { return Vec::new() };
    let targets: Vec<String> = on_record.iter().map(|kept| kept.applied.target.to_string()).collect();
    let mut entries = of_folder(&folder);
    entries.retain(|entry| targets.contains(&entry.target));
    entries
}

/// Returns the watch's folder on the disk; `None` if no watch has run here.
fn of_watch() -> Result<Option<TrustedFolder>, SystemError> {
    let place = state::lasting_folder().map(|folder| folder.join("watch"));
    place.map_or(Ok(None), |place| TrustedFolder::open(&place))
}

fn of_folder(folder: &TrustedFolder) -> Vec<Entry> {
    let text = folder.read(FILE, FILE_BYTES_MAX).ok().flatten();
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}
