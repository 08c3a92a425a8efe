//! The parts of a file that describe its pages: formats, names, clocks, and where the pages are.
//!
//! ```text
//! both:      17 08 44 "tracing" | version, NUL | u8 byte order | u8 size of a long | u32 page size
//! version 6: header info | ftrace events | event formats | kallsyms | printk | names | u32 processors |
//!            "options  " NUL (u16 id, u32 size, data)… u16 0 | "flyrecord" NUL (u64 offset, u64 size)… | clock
//! version 7: name of the packing, NUL | its version, NUL | u64 offset of the options | sections in any order
//! section:   u16 id | u16 flags | u32 text | u64 size | data, or u32 packed size, u32 unpacked size, packed data
//! ```
//!
//! In version 7, the options (section 0) say where the other sections are, and the last one where more options
//! are. The sections contain what version 6 has in their place. The manual pages trace-cmd.dat.v6(5) and
//! trace-cmd.dat.v7(5) describe both versions.

use fonio_tracefs::ring_buffer::{
    BLOCK_EVENTS, BLOCKED_EVENTS, ByteOrder, EventFormat, PageLayout, SCHED_EVENTS,
};

use super::packing::Packing;
use super::symbols::Symbols;
use crate::event_formats::EventFormats;
use crate::random_access::{FileKind, Place, RandomAccess};
use crate::refusal::Refusal;
use crate::syncs::sync_event;

/// The first bytes of every file.
pub(super) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The kind of the file.
pub(super) const KIND: &FileKind = &FileKind {
    name: "a trace.dat of trace-cmd",
    record_again: "Record again, and let trace-cmd end by itself or with Ctrl-C",
};

/// Maximum sizes. A section with the formats of all events of Linux 6.18 has about 4 MiB.
const SECTION_BYTES_MAX: u64 = 32 << 20;
const FORMAT_BYTES_MAX: u64 = 1 << 20;
const OPTION_BYTES_MAX: u64 = 1 << 20;
const OPTIONS_MAX: usize = 1 << 14;
const OPTION_SECTIONS_MAX: usize = 64;
const BUFFERS_MAX: usize = 256;
const CPUS_MAX: u64 = 1024;
const NAMES_MAX: usize = 1 << 16;

/// A flag of a section: its data is packed.
const PACKED: u64 = 1;

/// The ids of options.
const DONE: u64 = 0;
const BUFFER: u64 = 3;
const CLOCK: u64 = 4;
const HEADER_INFO: u64 = 16;
const FTRACE_FORMATS: u64 = 17;
const EVENT_FORMATS: u64 = 18;
const SYMBOLS: u64 = 19;
const NAMES: u64 = 21;

/// One buffer of the kernel: the main buffer, whose name is empty, or that of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    pub name: String,
    pub clock: Option<String>,
    pub page_bytes: usize,
    /// The number of each processor, and the offset and size of its pages in the file.
    pub cpus: Vec<(u32, u64, u64)>,
}

impl Buffer {
    /// Returns the size of the buffer in the file.
    pub fn size(&self) -> u64 {
        self.cpus.iter().fold(0, |sum, (_, _, size)| sum.saturating_add(*size))
    }
}

/// What a file says about its pages.
#[derive(Debug)]
pub(super) struct Description {
    pub order: ByteOrder,
    pub packing: Packing,
    pub layout: PageLayout,
    /// The formats of the events of the block layer, the scheduler and sync calls, as far as the file has them.
    pub formats: Vec<EventFormat>,
    /// The format of the texts that programs write to `trace_marker`.
    pub print: Option<EventFormat>,
    /// The systems of the recorded events.
    pub systems: Vec<String>,
    /// Names of threads at the end of the recording.
    pub names: Vec<(u32, String)>,
    /// The functions of the kernel, if an event names a function by its address.
    pub symbols: Symbols,
    pub buffers: Vec<Buffer>,
    /// The clock that the file names for all buffers, if it names one.
    pub clock: Option<String>,
}

/// The parts that are found in any order.
#[derive(Default)]
struct Parts {
    layout: Option<PageLayout>,
    print: Option<EventFormat>,
    formats: EventFormats,
    names: Vec<(u32, String)>,
    symbols: Symbols,
    buffers: Vec<Buffer>,
    clock: Option<String>,
}

impl Description {
    /// Reads the description of a file.
    pub fn read(file: &RandomAccess) -> Result<Description, Refusal> {
        let mut place = Place::of_file(file, 0, ByteOrder::Little);
        if place.bytes(MAGIC.len() as u64, MAGIC.len() as u64, "its beginning").ok().as_deref() != Some(MAGIC)
        {
            return Err(Refusal::is("it is not a trace.dat of trace-cmd".into(), "Choose another format"));
        }
        let version = place.text("the version")?;
        let order = match place.number(1, "the byte order")? {
            0 => ByteOrder::Little,
            _ => ByteOrder::Big,
        };
        place.set_order(order);
        place.number(1, "the size of a long")?;
        let page_bytes = place.number(4, "the page size")?;
        let page_bytes = usize::try_from(page_bytes).unwrap_or(usize::MAX);
        let mut parts = Parts::default();
        let packing = match version.as_str() {
            "6" => {
                parts.version_6(&mut place, file, order, page_bytes)?;
                Packing::None
            }
            "7" => parts.version_7(&mut place, file, order)?,
            _ => {
                return Err(Refusal::is(
                    format!("it is a trace.dat of trace-cmd in version {}", version.escape_debug()),
                    "fonio reads versions 6 and 7: `trace-cmd convert -i trace.dat -o new.dat --file-version 7`",
                ));
            }
        };
        let layout = parts.layout.ok_or_else(|| place.damaged("the format of its pages"))?;
        Ok(Description {
            order,
            packing,
            layout,
            formats: parts.formats.formats,
            print: parts.print,
            systems: parts.formats.systems,
            names: parts.names,
            symbols: parts.symbols,
            buffers: parts.buffers,
            clock: parts.clock,
        })
    }
}

impl Parts {
    fn version_6(
        &mut self,
        place: &mut Place<'_>,
        file: &RandomAccess,
        order: ByteOrder,
        page_bytes: usize,
    ) -> Result<(), Refusal> {
        self.header_info(place, order)?;
        self.ftrace_formats(place)?;
        self.event_formats(place)?;
        let size = place.number(4, "the size of the kernel's symbols")?;
        self.symbols(place, size)?;
        let size = place.number(4, "the size of the kernel's texts")?;
        place.skip(size, "the size of the kernel's texts")?;
        self.thread_names(place)?;
        let cpus = place.number(4, "the number of processors")?;
        if cpus > CPUS_MAX {
            return Err(place.damaged("the number of processors"));
        }
        let mut instances = Vec::new();
        let mut has_clock = false;
        loop {
            let kind = place.bytes(10, 10, "the kind of the data")?;
            match kind.as_slice() {
                b"options  \0" => {
                    for _ in 0..OPTIONS_MAX {
                        let id = place.number(2, "an option")?;
                        if id == DONE {
                            break;
                        }
                        let size = place.number(4, "the size of an option")?;
                        let end = place.at.saturating_add(size);
                        if id == BUFFER && instances.len() < BUFFERS_MAX {
                            let offset = place.number(8, "the offset of a buffer")?;
                            instances.push((offset, place.text("the name of a buffer")?));
                        }
                        has_clock |= id == CLOCK;
                        place.at = end;
                    }
                }
                b"flyrecord\0" => break,
                b"latency  \0" => {
                    return Err(Refusal::is(
                        "it is a trace.dat of a latency tracer, which has text in place of events".into(),
                        "Record events: `trace-cmd record -e block -C mono`",
                    ));
                }
                _ => return Err(place.damaged("the kind of the data")),
            }
        }
        let main = Self::buffer_6(place, String::new(), cpus, page_bytes, has_clock)?;
        self.clock = main.clock.clone();
        self.buffers.push(main);
        for (offset, name) in instances {
            let mut place = Place::of_file(file, offset, order);
            if place.bytes(10, 10, "the data of an instance")?.as_slice() != b"flyrecord\0" {
                return Err(place.damaged("the data of an instance"));
            }
            self.buffers.push(Self::buffer_6(&mut place, name, cpus, page_bytes, has_clock)?);
        }
        Ok(())
    }

    fn buffer_6(
        place: &mut Place<'_>,
        name: String,
        cpus: u64,
        page_bytes: usize,
        has_clock: bool,
    ) -> Result<Buffer, Refusal> {
        let mut buffer = Buffer { name, clock: None, page_bytes, cpus: Vec::new() };
        for cpu in 0..cpus {
            let offset = place.number(8, "the offset of a processor's pages")?;
            let size = place.number(8, "the size of a processor's pages")?;
            buffer.cpus.push((cpu as u32, offset, size));
        }
        if has_clock {
            let size = place.number(8, "the size of the clock's name")?;
            buffer.clock = chosen(&place.bytes(size, 4096, "the clock's name")?);
        }
        Ok(buffer)
    }

    fn version_7(
        &mut self,
        place: &mut Place<'_>,
        file: &RandomAccess,
        order: ByteOrder,
    ) -> Result<Packing, Refusal> {
        let name = place.text("the name of the compression")?;
        place.text("the version of the compression")?;
        let packing = Packing::named(&name).ok_or_else(|| {
            Refusal::is(
                format!("it is a trace.dat of trace-cmd that is compressed with {}", name.escape_debug()),
                "fonio unpacks zstd and zlib: `trace-cmd convert -i trace.dat -o new.dat --compression none`",
            )
        })?;
        let mut next = place.number(8, "the offset of the options")?;
        let (mut left, mut sections, mut read) = (OPTIONS_MAX, 0, Vec::new());
        while next != 0 {
            sections += 1;
            if sections > OPTION_SECTIONS_MAX {
                return Err(place.damaged("the list of options"));
            }
            let mut options = section(&mut Place::of_file(file, next, order), packing, order)?;
            next = loop {
                left = left.checked_sub(1).ok_or_else(|| options.damaged("the list of options"))?;
                let id = options.number(2, "an option")?;
                let size = options.number(4, "the size of an option")?;
                let data = options.bytes(size, OPTION_BYTES_MAX, "an option")?;
                let mut data = Place::of_memory(data, order, KIND);
                let mut part = || -> Result<Place<'_>, Refusal> {
                    let offset = data.number(8, "the offset of a section")?;
                    section(&mut Place::of_file(file, offset, order), packing, order)
                };
                // Each of these sections exists once. A crafted file can name a large one many times.
                if [HEADER_INFO, FTRACE_FORMATS, EVENT_FORMATS, SYMBOLS, NAMES].contains(&id) {
                    if read.contains(&id) {
                        continue;
                    }
                    read.push(id);
                }
                match id {
                    DONE => break data.number(8, "the offset of more options")?,
                    HEADER_INFO => self.header_info(&mut part()?, order)?,
                    FTRACE_FORMATS => self.ftrace_formats(&mut part()?)?,
                    EVENT_FORMATS => self.event_formats(&mut part()?)?,
                    SYMBOLS => {
                        let mut part = part()?;
                        let size = part.number(4, "the size of the kernel's symbols")?;
                        self.symbols(&mut part, size)?;
                    }
                    NAMES => self.thread_names(&mut part()?)?,
                    CLOCK => {
                        let text = data.bytes(size, OPTION_BYTES_MAX, "the clock's name")?;
                        self.clock = chosen(&text);
                    }
                    BUFFER if self.buffers.len() < BUFFERS_MAX => self.buffer_7(&mut data)?,
                    _ => {}
                }
            };
        }
        Ok(packing)
    }

    fn buffer_7(&mut self, data: &mut Place<'_>) -> Result<(), Refusal> {
        data.number(8, "the offset of a buffer")?;
        let name = data.text("the name of a buffer")?;
        let clock = Some(data.text("the clock of a buffer")?).filter(|clock| !clock.is_empty());
        let page_bytes = data.number(4, "the page size of a buffer")?;
        let page_bytes = usize::try_from(page_bytes).unwrap_or(usize::MAX);
        let count = data.number(4, "the number of processors")?;
        if count > CPUS_MAX {
            return Err(data.damaged("the number of processors"));
        }
        let mut cpus = Vec::new();
        for _ in 0..count {
            let cpu = data.number(4, "the number of a processor")?;
            let offset = data.number(8, "the offset of a processor's pages")?;
            let size = data.number(8, "the size of a processor's pages")?;
            cpus.push((cpu as u32, offset, size));
        }
        self.buffers.push(Buffer { name, clock, page_bytes, cpus });
        Ok(())
    }

    fn header_info(&mut self, place: &mut Place<'_>, order: ByteOrder) -> Result<(), Refusal> {
        if place.text("the header of its pages")? != "header_page" {
            return Err(place.damaged("the header of its pages"));
        }
        let size = place.number(8, "the header of its pages")?;
        let text = place.bytes(size, FORMAT_BYTES_MAX, "the header of its pages")?;
        let layout = PageLayout::parse(&String::from_utf8_lossy(&text), order);
        self.layout = Some(layout.map_err(|_| place.damaged("the header of its pages"))?);
        if place.text("the header of its events")? != "header_event" {
            return Err(place.damaged("the header of its events"));
        }
        let size = place.number(8, "the header of its events")?;
        place.skip(size, "the header of its events")
    }

    /// Reads the formats of ftrace's own events, of which `print` is the text of a program.
    fn ftrace_formats(&mut self, place: &mut Place<'_>) -> Result<(), Refusal> {
        let count = place.number(4, "the number of ftrace's events")?;
        for _ in 0..count.min(EventFormats::COUNT_MAX) {
            let size = place.number(8, "the size of a format")?;
            if size > FORMAT_BYTES_MAX {
                place.skip(size, "a format")?;
                continue;
            }
            let text = place.bytes(size, FORMAT_BYTES_MAX, "a format")?;
            let format = EventFormat::parse(&String::from_utf8_lossy(&text)).ok();
            self.print = self.print.take().or(format.filter(|format| format.name == "print"));
        }
        Ok(())
    }

    fn event_formats(&mut self, place: &mut Place<'_>) -> Result<(), Refusal> {
        self.formats.read(place, |system, name| match system {
            "block" => BLOCK_EVENTS.contains(&name),
            "sched" => SCHED_EVENTS.contains(&name) || BLOCKED_EVENTS.contains(&name),
            "ext4" | "f2fs" => sync_event(name).is_some(),
            _ => false,
        })
    }

    /// Reads the functions of the kernel. Only `sched_blocked_reason` needs them, whose format comes before.
    fn symbols(&mut self, place: &mut Place<'_>, size: u64) -> Result<(), Refusal> {
        const WHAT: &str = "the kernel's symbols";
        if self.formats.formats.iter().all(|format| format.name != "sched_blocked_reason") {
            return place.skip(size, WHAT);
        }
        self.symbols =
            Symbols::from_kallsyms(&String::from_utf8_lossy(&place.bytes(size, SECTION_BYTES_MAX, WHAT)?));
        Ok(())
    }

    /// Reads the list of threads: lines of a thread's id and its name.
    fn thread_names(&mut self, place: &mut Place<'_>) -> Result<(), Refusal> {
        let size = place.number(8, "the size of the list of threads")?;
        let text = place.bytes(size, SECTION_BYTES_MAX, "the list of threads")?;
        for line in String::from_utf8_lossy(&text).lines().take(NAMES_MAX) {
            if let Some((tid, name)) = line.trim_start().split_once(' ')
                && let Ok(tid) = tid.parse()
            {
                self.names.push((tid, name.to_owned()));
            }
        }
        Ok(())
    }
}

/// Returns the data of the section at `place`.
fn section<'f>(place: &mut Place<'f>, packing: Packing, order: ByteOrder) -> Result<Place<'f>, Refusal> {
    place.number(2, "the id of a section")?;
    let flags = place.number(2, "the flags of a section")?;
    place.number(4, "the name of a section")?;
    let size = place.number(8, "the size of a section")?;
    let data = if flags & PACKED == 0 {
        place.bytes(size, SECTION_BYTES_MAX, "a section")?
    } else {
        let packed = place.number(4, "the size of a section")?;
        let unpacked = place.number(4, "the unpacked size of a section")?;
        let data = place.bytes(packed, SECTION_BYTES_MAX, "a section")?;
        let unpacked = usize::try_from(unpacked.min(SECTION_BYTES_MAX)).unwrap_or(usize::MAX);
        packing.unpack(&data, unpacked).ok_or_else(|| place.damaged("a section"))?
    };
    Ok(Place::of_memory(data, order, KIND))
}

/// Returns the clock that is in brackets in a list such as `local global [mono]`, or the only one in it.
fn chosen(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace());
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(clock, _)| clock);
    let name = bracketed.or((!text.is_empty() && !text.contains(' ')).then_some(text))?;
    Some(name.chars().take(32).collect())
}
