//! The kinds of events in a table with one event in each row.

use fonio_core::EventKind;

/// What a cell says about the kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An event of this kind.
    Known(EventKind),
    /// A known kind that needs more columns than a table has (remaps, splits), or shows nothing about requests.
    LeftOut,
}

/// Reads blkparse's letters, or the name of a block tracepoint.
pub(super) fn kind(text: &[u8]) -> Option<Kind> {
    let name = text.strip_prefix(b"block:").unwrap_or(text);
    Some(Kind::Known(match name.strip_prefix(b"block_").unwrap_or(name) {
        b"Q" | b"bio_queue" => EventKind::BioQueue,
        b"M" | b"bio_backmerge" => EventKind::BackMerge,
        b"F" | b"bio_frontmerge" => EventKind::FrontMerge,
        b"B" | b"bio_bounce" => EventKind::Bounce,
        b"G" | b"getrq" => EventKind::GetRequest,
        b"S" | b"sleeprq" => EventKind::SleepRequest,
        b"I" | b"rq_insert" => EventKind::Insert,
        b"D" | b"rq_issue" => EventKind::Issue,
        b"R" | b"rq_requeue" => EventKind::Requeue,
        b"C" | b"rq_complete" => EventKind::Complete,
        b"bio_complete" => EventKind::BioComplete,
        b"rq_merge" => EventKind::RequestMerge,
        b"io_start" => EventKind::IoStart,
        b"io_done" => EventKind::IoDone,
        b"A" | b"X" | b"P" | b"U" | b"UT" | b"T" | b"m" | b"bio_remap" | b"split" | b"rq_remap" | b"plug"
        | b"unplug" | b"rq_error" | b"touch_buffer" | b"dirty_buffer" => return Some(Kind::LeftOut),
        _ => return None,
    }))
}
