//! Pairs the events at the begin and end of a sync call in a file system: `ext4_sync_file_enter` and
//! `ext4_sync_file_exit`, and those of f2fs.

use fonio_core::{Call, Timestamp};
use rustc_hash::FxHashMap;

/// Maximum number of sync calls that have not ended.
const OPEN_MAX: usize = 64 << 10;

/// The sync calls that have not ended, by thread.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    open: FxHashMap<u32, (Timestamp, bool)>,
}

impl Syncs {
    /// Handles the begin of a sync call. `is_data` says whether it is fdatasync; f2fs says it only at the end.
    pub fn enter(&mut self, tid: u32, at: Timestamp, is_data: bool) {
        if self.open.len() < OPEN_MAX || self.open.contains_key(&tid) {
            self.open.insert(tid, (at, is_data));
        }
    }

    /// Handles the end of a sync call; returns the call, unless its begin was not seen.
    pub fn exit(&mut self, tid: u32, at: Timestamp, is_data: bool, result: Option<i64>) -> Option<Call> {
        let (entered, was_data) = self.open.remove(&tid)?;
        Some(Call {
            call_id: 0,
            name: if is_data || was_data { "fdatasync" } else { "fsync" }.to_owned(),
            tid,
            file_id: None,
            offset: None,
            bytes: None,
            entered,
            exited: Some(at.max(entered)),
            result,
            sqlite_write: None,
            file_flags: None,
        })
    }

    /// Returns whether a thread is in a sync call.
    pub fn is_in(&self, tid: u32) -> bool {
        self.open.contains_key(&tid)
    }

    /// Forgets all calls, because events were lost.
    pub fn forget(&mut self) {
        self.open.clear();
    }
}
