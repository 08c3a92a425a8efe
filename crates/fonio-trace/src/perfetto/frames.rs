//! Reads the frame timeline: the frames of Android's apps, and why a frame was shown late.
//!
//! Android's compositor writes a packet when it knows how a frame ended, with the time at which the work on the frame
//! began, and a second packet with the time at which it ended. Both have the same cookie. Source:
//! `protos/perfetto/trace/android/frame_timeline_event.proto`.

use fonio_core::meta::LATE_FRAME;
use fonio_core::{Mark, Timestamp};
use rustc_hash::FxHashMap;

use super::wire::Fields;

/// Maximum number of late frames whose end was not read.
const OPEN_MAX: usize = 4096;

/// The field of an app's frame, and of the end of any frame.
const ACTUAL_SURFACE_FRAME: u32 = 4;
const FRAME_END: u32 = 5;

/// The bit of a frame that was on time.
const ON_TIME: u64 = 1;

/// The reasons by which a frame was late: their bits, and their names in Perfetto's `trace_processor`.
const REASONS: [(u64, &str); 10] = [
    (2, "SurfaceFlinger Scheduling"),
    (4, "Prediction Error"),
    (8, "Display HAL"),
    (16, "SurfaceFlinger CPU Deadline Missed"),
    (32, "SurfaceFlinger GPU Deadline Missed"),
    (64, "App Deadline Missed"),
    (128, "Buffer Stuffing"),
    (256, "Unknown Jank"),
    (512, "SurfaceFlinger Stuffing"),
    (1024, "Dropped Frame"),
];

/// The late frames that have not ended.
#[derive(Debug, Default)]
pub(super) struct Frames {
    open: FxHashMap<u64, (Timestamp, u32, String)>,
}

impl Frames {
    /// Reads an event of the frame timeline; returns a mark if it ends a late frame of an app.
    pub fn event(&mut self, message: &[u8], at: Timestamp) -> Option<Mark> {
        for (number, value) in Fields::of(message) {
            let Some(content) = value.bytes() else { continue };
            let (mut cookie, mut pid, mut reasons) = (0, 0, 0);
            for (number, value) in Fields::of(content) {
                let Some(value) = value.number() else { continue };
                match number {
                    1 => cookie = value,
                    4 => pid = value as u32,
                    9 => reasons = value,
                    _ => {}
                }
            }
            match number {
                ACTUAL_SURFACE_FRAME if reasons & !ON_TIME != 0 && self.open.len() < OPEN_MAX => {
                    let names = REASONS.iter().filter(|(bit, _)| reasons & bit != 0);
                    let names: Vec<&str> = names.map(|(_, name)| *name).collect();
                    let name = if names.is_empty() { "Unknown Jank".to_owned() } else { names.join(", ") };
                    self.open.insert(cookie, (at, pid, name));
                }
                FRAME_END => {
                    let (began, pid, name) = self.open.remove(&cookie)?;
                    return Some(Mark {
                        at: began,
                        until: Some(at.max(began)),
                        name: format!("{LATE_FRAME}{name}"),
                        tid: Some(pid),
                    });
                }
                _ => {}
            }
        }
        None
    }
}
