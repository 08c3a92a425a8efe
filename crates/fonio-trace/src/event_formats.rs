//! Reads the formats of events from a file of trace-cmd or perf. Both describe the events of the kernel in the same way:
//!
//! ```text
//! u32 number of systems | for each: name, NUL, u32 number of events | for each: u64 size, text of the `format` file
//! ```

use fonio_tracefs::ring_buffer::{ByteOrder, EventFormat};

use crate::random_access::Place;
use crate::refusal::Refusal;

/// Maximum size of the text of one event. The longest one of Linux 6.18 has 12 KiB.
const FORMAT_BYTES_MAX: u64 = 1 << 20;

/// Number of systems of which the names are kept for a message.
const SYSTEMS_NAMED: usize = 64;

/// Returns a number of a record in this format.
pub(crate) fn number(format: &EventFormat, name: &str, record: &[u8], order: ByteOrder) -> Option<i64> {
    format.field(name)?.number(record, order)
}

/// Returns whether a record has this format.
pub(crate) fn is_of(format: &EventFormat, record: &[u8], order: ByteOrder) -> bool {
    number(format, "common_type", record, order) == Some(format.id.into())
}

/// Returns the thread that a record in this format belongs to.
pub(crate) fn thread(format: &EventFormat, record: &[u8], order: ByteOrder) -> Option<u32> {
    number(format, "common_pid", record, order).and_then(|tid| u32::try_from(tid).ok())
}

/// The formats of events, and the systems to which the recorded events belong.
#[derive(Debug, Default)]
pub(crate) struct EventFormats {
    pub formats: Vec<EventFormat>,
    pub systems: Vec<String>,
}

impl EventFormats {
    /// Maximum number of events and systems.
    pub const COUNT_MAX: u64 = 1 << 16;

    /// Reads the list at `place`. Keeps the formats for which `is_wanted` returns true for the system and the name.
    pub fn read(
        &mut self,
        place: &mut Place<'_>,
        is_wanted: impl Fn(&str, &str) -> bool,
    ) -> Result<(), Refusal> {
        let systems = place.number(4, "the number of event systems")?;
        let mut left = EventFormats::COUNT_MAX;
        for _ in 0..systems {
            let system = place.text("the name of an event system")?;
            let count = place.number(4, "the number of a system's events")?;
            for _ in 0..count {
                left = left.checked_sub(1).ok_or_else(|| place.damaged("the number of events"))?;
                let size = place.number(8, "the size of a format")?;
                if size > FORMAT_BYTES_MAX {
                    place.skip(size, "a format")?;
                    continue;
                }
                let text = place.bytes(size, FORMAT_BYTES_MAX, "a format")?;
                let text = String::from_utf8_lossy(&text);
                let name = text.lines().find_map(|line| line.trim().strip_prefix("name:"));
                if !name.is_some_and(|name| is_wanted(&system, name.trim())) {
                    continue;
                }
                let Ok(format) = EventFormat::parse(&text) else { continue };
                if self.formats.iter().all(|known| known.name != format.name) {
                    self.formats.push(format);
                }
            }
            left = left.checked_sub(1).ok_or_else(|| place.damaged("the number of event systems"))?;
            if !self.systems.contains(&system) && self.systems.len() < SYSTEMS_NAMED {
                self.systems.push(system);
            }
        }
        Ok(())
    }
}
