//! Pairs the events at the begin and end of a sync call in a file system: `ext4_sync_file_enter` and
//! `ext4_sync_file_exit`, and those of f2fs.

use fonio_core::{Call, Nanos, Timestamp};
use fonio_tracefs::ring_buffer::{ByteOrder, EventFormat};
use rustc_hash::FxHashMap;

use crate::event_formats::{is_of, number, thread};

/// Maximum number of sync calls that have not ended.
const OPEN_MAX: usize = 64 << 10;

/// Maximum time between the events of the file system and of Android at the begin of one call.
const SAME_CALL_WITHIN: Nanos = Nanos(1_000_000);

/// The sync calls that have not ended, by thread.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    open: FxHashMap<u32, Open>,
}

/// A sync call that has not ended.
#[derive(Clone, Copy, Debug)]
struct Open {
    at: Timestamp,
    is_data: bool,
    file_id: Option<u32>,
}

impl Syncs {
    /// Handles the begin of a sync call. `is_data` says whether it is fdatasync; f2fs says it only at the end.
    pub fn enter(&mut self, tid: u32, at: Timestamp, is_data: bool) {
        self.enter_file(tid, at, is_data, None);
    }

    /// Handles the begin of a sync call of the file `file_id`, if the event shows the file. If one event of a call shows the
    /// file and another one does not, both are the begin of this call.
    pub fn enter_file(&mut self, tid: u32, at: Timestamp, is_data: bool, file_id: Option<u32>) {
        let mut new = Open { at, is_data, file_id };
        let open = self.open.get(&tid);
        if let Some(open) = open
            .filter(|open| open.file_id.is_some() != file_id.is_some() && at - open.at <= SAME_CALL_WITHIN)
        {
            let file_id = open.file_id.or(file_id);
            new = Open { at: open.at.min(at), is_data: open.is_data || is_data, file_id };
        }
        if open.is_some() || self.open.len() < OPEN_MAX {
            self.open.insert(tid, new);
        }
    }

    /// Handles the end of a sync call; returns the call, unless its begin was not seen.
    pub fn exit(&mut self, tid: u32, at: Timestamp, is_data: bool, result: Option<i64>) -> Option<Call> {
        let Open { at: entered, is_data: was_data, file_id } = self.open.remove(&tid)?;
        Some(Call {
            call_id: 0,
            name: if is_data || was_data { "fdatasync" } else { "fsync" }.to_owned(),
            tid,
            file_id,
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

/// Returns whether an event is the begin (true) or the end (false) of a sync call, and `None` for other events.
pub(crate) fn sync_event(name: &str) -> Option<bool> {
    match name {
        "ext4_sync_file_enter" | "f2fs_sync_file_enter" => Some(true),
        "ext4_sync_file_exit" | "f2fs_sync_file_exit" => Some(false),
        _ => None,
    }
}

/// The formats of the events at the begin and end of a sync call.
#[derive(Debug)]
pub(crate) struct SyncFormats(Vec<(bool, EventFormat)>);

/// An event at the begin or end of a sync call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncEvent {
    pub is_begin: bool,
    pub tid: Option<u32>,
    pub is_data: bool,
    pub result: Option<i64>,
}

impl SyncFormats {
    pub fn of(formats: &[EventFormat]) -> SyncFormats {
        let known = |format: &EventFormat| Some((sync_event(&format.name)?, format.clone()));
        SyncFormats(formats.iter().filter_map(known).collect())
    }

    /// Decodes a record; `None` if it is another event.
    pub fn decode(&self, record: &[u8], order: ByteOrder) -> Option<SyncEvent> {
        let (is_begin, format) = self.0.iter().find(|(_, format)| is_of(format, record, order))?;
        Some(SyncEvent {
            is_begin: *is_begin,
            tid: thread(format, record, order),
            is_data: number(format, "datasync", record, order).is_some_and(|value| value != 0),
            result: number(format, "ret", record, order),
        })
    }
}
