//! Parses the text of block tracepoints.
//!
//! Kernel source: `TP_printk` in `include/trace/events/block.h` from 3.4 to 6.18. The format changed as follows:
//!
//! - Up to 4.x, `bytes` is 0 except for passthrough commands, whose bytes are in parentheses (`cmd`).
//! - From 6.11, request events have the I/O priority (`be,0,4`: class, hint, level) after the size.
//! - Up to 4.12, the `errors` value of a completion is the driver's own status, positive or negative.

use fonio_core::{ByteCount, DeviceId, EventKind, Op, Sector, parse_rwbs};
use memchr::{memchr, memrchr};

use super::keyed;
use super::line::number;

/// The contents of an event's text. The text follows the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block<'a> {
    pub kind: EventKind,
    pub device: DeviceId,
    pub op: Op,
    pub flags: fonio_core::Flags,
    pub sector: Sector,
    pub bytes: ByteCount,
    pub ioprio: Option<u16>,
    pub error: Option<i32>,
    /// The name of the thread that was running.
    pub comm: Option<&'a [u8]>,
}

/// The format of a tracepoint's fields, with an example of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// For example, `8,0 WS 4096 () 1024 + 8 [comm]`; newer kernels print the priority before the comm.
    Request,
    /// For example, `8,0 WS () 1024 + 8 [0]`; newer kernels print the priority before the error.
    RequestEnd,
    /// For example, `8,0 WS 1024 + 8 [comm]`.
    Bio,
    /// For example, `8,0 WS 1024 + 8 [0]`.
    BioEnd,
    /// For example, `8,0 WS 1024 / 1032 [comm]`.
    Split,
    /// For example, `8,0 WS 3072 + 8 <- (8,1) 1024`.
    BioRemap,
    /// For example, `8,0 WS 3072 + 8 <- (8,1) 1024 1`; the last number is the number of bios, which old
    /// kernels omit.
    RequestRemap,
    /// For example, `[comm]`.
    Plug,
    /// For example, `[comm] 3`.
    Unplug,
}

/// Returns the layout of a tracepoint and the event's kind. The fields of the kind are set later, from the
/// text.
fn layout(event: &[u8]) -> Option<(Layout, EventKind)> {
    let at = Sector(0);
    Some(match event {
        b"block_bio_queue" => (Layout::Bio, EventKind::BioQueue),
        b"block_bio_backmerge" => (Layout::Bio, EventKind::BackMerge),
        b"block_bio_frontmerge" => (Layout::Bio, EventKind::FrontMerge),
        b"block_bio_bounce" => (Layout::Bio, EventKind::Bounce),
        b"block_bio_complete" => (Layout::BioEnd, EventKind::BioComplete),
        b"block_bio_remap" => {
            (Layout::BioRemap, EventKind::Remap { from_device: DeviceId::default(), from_sector: at })
        }
        b"block_getrq" => (Layout::Bio, EventKind::GetRequest),
        b"block_sleeprq" => (Layout::Bio, EventKind::SleepRequest),
        b"block_split" => (Layout::Split, EventKind::Split { new_sector: at }),
        b"block_rq_insert" => (Layout::Request, EventKind::Insert),
        b"block_rq_issue" => (Layout::Request, EventKind::Issue),
        b"block_rq_merge" => (Layout::Request, EventKind::RequestMerge),
        b"block_io_start" => (Layout::Request, EventKind::IoStart),
        b"block_io_done" => (Layout::Request, EventKind::IoDone),
        b"block_rq_complete" => (Layout::RequestEnd, EventKind::Complete),
        b"block_rq_requeue" => (Layout::RequestEnd, EventKind::Requeue),
        b"block_rq_remap" => (
            Layout::RequestRemap,
            EventKind::RequestRemap { from_device: DeviceId::default(), from_sector: at },
        ),
        b"block_plug" => (Layout::Plug, EventKind::Plug),
        b"block_unplug" | b"block_unplug_io" | b"block_unplug_timer" => {
            (Layout::Unplug, EventKind::Unplug { count: 0 })
        }
        _ => return None,
    })
}

/// The result of reading an event's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// A tracepoint that is not needed to follow a request: `block_rq_error` (the completion shows the error
    /// too), `block_rq_abort` (a completion follows it) and the buffer events.
    Ignored,
    /// A tracepoint that is needed to follow a request, in a format that no known kernel writes.
    Unreadable,
    Block(Block<'a>),
}

/// Reads the text of one event.
pub(super) fn parse<'a>(event: &[u8], payload: &'a [u8]) -> Parsed<'a> {
    match layout(event) {
        None => Parsed::Ignored,
        Some((layout, kind)) => fields(layout, kind, payload).map_or(Parsed::Unreadable, Parsed::Block),
    }
}

fn fields(layout: Layout, kind: EventKind, payload: &[u8]) -> Option<Block<'_>> {
    let mut text = Text(payload);
    let mut block = Block {
        kind,
        device: DeviceId::default(),
        op: Op::Other,
        flags: fonio_core::Flags::NONE,
        sector: Sector(0),
        bytes: ByteCount(0),
        ioprio: None,
        error: None,
        comm: None,
    };
    if keyed::is_keyed(payload) {
        return keyed_fields(layout, block, keyed::parse(payload));
    }
    if matches!(layout, Layout::Plug | Layout::Unplug) {
        block.comm = text.comm();
        if layout == Layout::Unplug {
            block.kind = EventKind::Unplug { count: u32::try_from(text.number()?).ok()? };
        }
        return Some(block);
    }

    block.device = text.device()?;
    text.literal(b" ")?;
    (block.op, block.flags) = parse_rwbs(text.word());
    text.literal(b" ")?;
    let mut bytes = 0;
    if layout == Layout::Request {
        bytes = text.number()?;
        text.literal(b" ")?;
    }
    if matches!(layout, Layout::Request | Layout::RequestEnd) {
        text.literal(b"(")?;
        let command = text.until(b')')?;
        if !command.trim_ascii().is_empty() {
            block.op = Op::Other;
        }
        text.literal(b" ")?;
    }
    block.sector = Sector(text.number()?);
    if layout == Layout::Split {
        text.literal(b" / ")?;
        block.kind = EventKind::Split { new_sector: Sector(text.number()?) };
    } else {
        text.literal(b" + ")?;
        let sectors = text.number()?;
        // Old kernels print a size of 0 bytes for all requests except passthrough commands.
        block.bytes = if bytes > 0 { ByteCount(bytes) } else { ByteCount::from_sectors(sectors) };
    }
    match layout {
        Layout::BioRemap | Layout::RequestRemap => {
            text.literal(b" <- (")?;
            let from_device = text.device()?;
            text.literal(b") ")?;
            let from_sector = Sector(text.number()?);
            block.kind = match kind {
                EventKind::RequestRemap { .. } => EventKind::RequestRemap { from_device, from_sector },
                _ => EventKind::Remap { from_device, from_sector },
            };
        }
        Layout::RequestEnd | Layout::BioEnd => {
            block.ioprio = text.priority();
            text.literal(b" [")?;
            block.error = Some(errno(text.signed()?));
            text.literal(b"]")?;
        }
        Layout::Request | Layout::Bio | Layout::Split => {
            block.ioprio = text.priority();
            block.comm = text.comm();
        }
        Layout::Plug | Layout::Unplug => {}
    }
    Some(block)
}

fn keyed_fields<'a>(layout: Layout, mut block: Block<'a>, fields: keyed::Fields<'a>) -> Option<Block<'a>> {
    block.comm = fields.comm;
    if let EventKind::Unplug { count } = &mut block.kind {
        *count = u32::try_from(fields.nr_rq?).ok()?;
    }
    if matches!(layout, Layout::Plug | Layout::Unplug) {
        return Some(block);
    }
    block.device = keyed::device(fields.dev?);
    (block.op, block.flags) = parse_rwbs(fields.rwbs);
    if !fields.cmd.is_empty() {
        block.op = Op::Other;
    }
    block.sector = fields.sector?;
    match &mut block.kind {
        EventKind::Split { new_sector } => *new_sector = fields.new_sector?,
        EventKind::Remap { from_device, from_sector }
        | EventKind::RequestRemap { from_device, from_sector } => {
            *from_device = keyed::device(fields.old_dev?);
            *from_sector = fields.old_sector?;
        }
        _ => {}
    }
    if layout != Layout::Split {
        let bytes = fields.bytes.filter(|bytes| *bytes > ByteCount(0));
        block.bytes = bytes.or(fields.nr_sector.map(ByteCount::from_sectors))?;
    }
    if matches!(layout, Layout::RequestEnd | Layout::BioEnd) {
        block.error = fields.error.and_then(|error| i32::try_from(error).ok()).map(errno);
    }
    Some(block)
}

/// Returns a completion's status as 0 or a negative errno. A positive status is specific to the driver; the
/// block layer of kernels that have such a status converts it to `EIO`.
fn errno(status: i32) -> i32 {
    const EIO: i32 = 5;
    if status > 0 { -EIO } else { status }
}

/// The part of an event's text that is not yet parsed.
struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    fn literal(&mut self, literal: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(literal)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let (value, rest) = number(self.0)?;
        self.0 = rest;
        Some(value)
    }

    fn signed(&mut self) -> Option<i32> {
        let negative = self.literal(b"-").is_some();
        let size = i32::try_from(self.number()?).ok()?;
        Some(if negative { -size } else { size })
    }

    /// Reads up to the next space; returns nothing if the next character is a space.
    fn word(&mut self) -> &'a [u8] {
        let (word, rest) = self.0.split_at(memchr(b' ', self.0).unwrap_or(self.0.len()));
        self.0 = rest;
        word
    }

    /// Reads up to the next byte `end`, and skips this byte.
    fn until(&mut self, end: u8) -> Option<&'a [u8]> {
        let at = memchr(end, self.0)?;
        let found = &self.0[..at];
        self.0 = &self.0[at + 1..];
        Some(found)
    }

    fn device(&mut self) -> Option<DeviceId> {
        let major = u32::try_from(self.number()?).ok()?;
        self.literal(b",")?;
        Some(DeviceId::new(major, u32::try_from(self.number()?).ok()?))
    }

    /// Reads ` be,0,4` (`IOPRIO_CLASS_*`, hint and level) into the kernel's 16-bit priority. trace-cmd and perf
    /// print the class as a number: ` 0x2,0,4`.
    fn priority(&mut self) -> Option<u16> {
        let mut text = Text(self.0.strip_prefix(b" ")?);
        let class = match text.until(b',')? {
            b"none" | b"0" => 0,
            b"rt" => 1,
            b"be" => 2,
            b"idle" => 3,
            b"invalid" => 7,
            [b'0', b'x', class @ b'0'..=b'7'] => u16::from(class - b'0'),
            _ => return None,
        };
        let hint = text.number().filter(|hint| *hint < 1 << 10)?;
        text.literal(b",")?;
        let level = text.number().filter(|level| *level < 1 << 3)?;
        self.0 = text.0;
        Some(class << 13 | (hint as u16) << 3 | level as u16)
    }

    /// Reads `[comm]`; the name may contain brackets, so it ends at the last bracket.
    fn comm(&mut self) -> Option<&'a [u8]> {
        let begin = self.0.iter().position(|byte| *byte != b' ')?;
        let text = self.0[begin..].strip_prefix(b"[")?;
        let end = memrchr(b']', text)?;
        self.0 = text[end + 1..].trim_ascii_start();
        Some(&text[..end])
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;
    use fonio_testing::cases::lines;

    use super::*;

    fn show(line: &str) -> String {
        let (event, payload) = line.split_once(' ').expect("each line has an event and its text");
        match parse(event.as_bytes(), payload.as_bytes()) {
            Parsed::Block(block) => format!(
                "{:?} {} {} {:#x} sector {} bytes {} ioprio {:x?} error {:?} comm {:?}",
                block.kind,
                block.device,
                block.op.name(),
                block.flags.0,
                block.sector.0,
                block.bytes.0,
                block.ioprio,
                block.error,
                block.comm.map(String::from_utf8_lossy),
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn texts_of_many_kernels() {
        let file = expect_file!["blocks.txt"];
        file.assert_eq(&lines(&file.data(), show));
        for damaged in ["", "8,0 "] {
            assert_eq!(parse(b"block_rq_complete", damaged.as_bytes()), Parsed::Unreadable);
        }
    }
}
