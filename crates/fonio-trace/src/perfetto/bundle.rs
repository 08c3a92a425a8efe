//! Reads a bundle: the events of one processor that the recorder read at once.
//!
//! The numbers of the fields are those of Perfetto's definitions (`protos/perfetto/trace/ftrace/`, Apache-2.0,
//! copyright The Android Open Source Project), which may only grow.
//!
//! A bundle holds three lists, each in the order of time: events, and in columns the compact switches and
//! wake-ups of the scheduler. A column of times holds the first time and then differences.

use fonio_core::{BlockEvent, Timestamp};

use super::files::FileEvent;
use super::unused::Unused;
use super::wire::{Fields, Value, unpack};
use super::{block, files};
use crate::comm::Comm;

/// Maximum number of bytes of a text that a program wrote; the rest is cut off.
const TEXT_BYTES_MAX: usize = 512;

/// Maximum number of processors; no kernel supports more.
pub(super) const CPUS_MAX: u64 = 8192;

/// What happened in an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// Events of this processor were lost between this time and the event's time.
    Gap {
        after: u64,
    },
    /// An event of the block layer, and the name of the running thread.
    Block {
        event: Box<BlockEvent>,
        comm: Comm,
    },
    /// The processor switched from one thread to another.
    Switch {
        /// The thread that stopped, its state and name; `None` if it is the thread of the processor's previous
        /// switch, as in compact switches.
        from: Option<Box<(u32, Comm)>>,
        /// The state in which the thread stopped, in the kernel's bits.
        state: u64,
        to: u32,
        comm: Comm,
    },
    /// A thread was woken.
    Waking {
        tid: u32,
        comm: Comm,
        /// The thread that ran; `None` if it is the thread of the processor's previous switch.
        current: Option<u32>,
        /// Whether an interrupt woke the thread; `None` if the trace does not show it.
        is_interrupt: Option<bool>,
    },
    /// A thread created another one.
    Created {
        tid: u32,
        comm: Comm,
        by: u32,
    },
    /// The kernel's account of the wait of a thread that was just woken.
    BlockedReason {
        tid: u32,
        is_io: bool,
        caller: Option<u64>,
    },
    /// A thread got a name.
    Named {
        tid: u32,
        comm: Comm,
    },
    /// A program wrote a text to `trace_marker`.
    Print {
        tid: u32,
        text: Box<[u8]>,
    },
    /// A sync call reached a file system, or ended there.
    SyncEnter {
        tid: u32,
        is_data: bool,
    },
    SyncExit {
        tid: u32,
        is_data: bool,
        result: i64,
    },
    /// Android's kernel shows a read, write or sync of a file.
    File(Box<FileEvent>),
}

/// An event of one processor. Most events are switches and wake-ups; larger items are in boxes, so that these are small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub time: u64,
    pub cpu: u32,
    /// The data source: a number for each packet sequence with ftrace events.
    pub source: u16,
    pub item: Item,
}

impl Event {
    fn set_cpu(&mut self, cpu: u32) {
        self.cpu = cpu;
        if let Item::Block { event, .. } = &mut self.item {
            event.cpu = Some(cpu);
        }
    }

    /// Returns whether both are records of the same event.
    pub fn is_same(&self, other: &Event) -> bool {
        self.time == other.time
            && self.cpu == other.cpu
            && self.item == other.item
            && !matches!(self.item, Item::Gap { .. })
    }
}

/// The clock of the kernel's trace buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FtraceClock {
    #[default]
    Boot,
    Unknown,
    Global,
    Local,
    MonoRaw,
}

impl FtraceClock {
    fn of(number: u64) -> FtraceClock {
        match number {
            0 => FtraceClock::Boot,
            2 => FtraceClock::Global,
            3 => FtraceClock::Local,
            4 => FtraceClock::MonoRaw,
            _ => FtraceClock::Unknown,
        }
    }

    /// Returns the kernel's name of the clock.
    pub fn name(self) -> &'static str {
        match self {
            FtraceClock::Boot => "boot",
            FtraceClock::Unknown => "unknown",
            FtraceClock::Global => "global",
            FtraceClock::Local => "local",
            FtraceClock::MonoRaw => "mono_raw",
        }
    }
}

/// The contents of a bundle, except the events.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bundle {
    pub cpu: u32,
    pub clock: FtraceClock,
    /// Whether the kernel's buffer lost events before this bundle.
    pub lost: bool,
    /// The end of the bundle that the recorder wrote before this one, if the recorder stored it; 0 in the
    /// first bundle.
    pub previous_end: u64,
    /// The times of the first and last event, including events without an [`Item`].
    pub span: Option<(u64, u64)>,
    /// Number of events whose fields cannot be read.
    pub damaged: u64,
}

impl Bundle {
    fn see(&mut self, time: u64) {
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
    }
}

/// Memory that is reused from bundle to bundle.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    columns: [Vec<u64>; COLUMNS],
    names: Vec<Comm>,
}

/// Number of columns of compact switches and wake-ups, by field number.
const COLUMNS: usize = 13;

/// The columns that are read: of switches, and of wake-ups.
const OF_SWITCHES: [usize; 4] = [1, 2, 3, 6];
const OF_WAKINGS: [usize; 4] = [7, 8, 11, 12];

/// Reads the bundle `message` of the data source `source`, and appends its events to `events`: the list, the compact switches
/// and the compact wake-ups, each in the order of time.
pub(super) fn parse(
    message: &[u8],
    source: u16,
    scratch: &mut Scratch,
    events: &mut Vec<Event>,
    unused: &mut Unused,
) -> Bundle {
    let mut bundle = Bundle::default();
    let begin = events.len();
    let mut fields = Fields::of(message);
    for (number, value) in fields.by_ref() {
        match (number, value) {
            (2, Value::Bytes(event)) => self::event(event, source, &mut bundle, events, unused),
            (1, Value::Varint(cpu)) => {
                bundle.cpu = cpu.min(CPUS_MAX) as u32;
                // It is written before the events, but need not be.
                events[begin..].iter_mut().for_each(|event| event.set_cpu(bundle.cpu));
            }
            (3, Value::Varint(lost)) => bundle.lost = lost != 0,
            (4, Value::Bytes(compact)) => self::compact(compact, source, scratch, &mut bundle, events),
            (5, Value::Varint(clock)) => bundle.clock = FtraceClock::of(clock),
            (10, Value::Varint(end)) => bundle.previous_end = end,
            (11, Value::Bytes(description)) => unused.describe(description),
            _ => {}
        }
    }
    bundle.damaged += u64::from(fields.is_damaged());
    bundle
}

/// Reads one event.
fn event(message: &[u8], source: u16, bundle: &mut Bundle, events: &mut Vec<Event>, unused: &mut Unused) {
    let (mut time, mut tid, mut flags, mut content) = (None, None, None, None);
    let mut fields = Fields::of(message);
    for (number, value) in fields.by_ref() {
        match (number, value) {
            (1, Value::Varint(value)) => time = Some(value),
            (2, Value::Varint(value)) => tid = u32::try_from(value).ok(),
            (5, Value::Varint(value)) => flags = Some(value),
            (_, Value::Bytes(value)) => content = Some((number, value)),
            _ => {}
        }
    }
    let Some(time) = time.filter(|_| !fields.is_damaged()) else {
        bundle.damaged += 1;
        return;
    };
    bundle.see(time);
    let Some((number, content)) = content else { return };
    let item = match number {
        4 | 17 | 18 | 20 | 21 | 235 | 236 => scheduler(number, content, tid, flags),
        3 | 43 | 44 | 255 | 256 => tid.and_then(|tid| of_thread(number, content, tid)),
        431..=436 => files::parse(number, content, tid).map(|event| Item::File(Box::new(event))),
        _ => match block::parse(number, content) {
            block::Parsed::Other => return unused.count(number, content),
            block::Parsed::Damaged => None,
            block::Parsed::Block(mut event, comm) => {
                event.time = Timestamp(time);
                event.cpu = Some(bundle.cpu);
                event.tid = tid;
                Some(Item::Block { event: Box::new(event), comm })
            }
        },
    };
    match item {
        Some(item) => events.push(Event { time, cpu: bundle.cpu, source, item }),
        None => bundle.damaged += 1,
    }
}

/// Reads an event of the scheduler; returns `None` if its fields cannot be read.
fn scheduler(number: u32, message: &[u8], current: Option<u32>, flags: Option<u64>) -> Option<Item> {
    let mut numbers = [None; 8];
    let mut names = [Comm::default(); 8];
    let mut fields = Fields::of(message);
    for (field, value) in fields.by_ref() {
        let Some(place) = usize::try_from(field).ok().filter(|place| *place < 8) else { continue };
        match value {
            Value::Bytes(name) => names[place] = Comm::of(name),
            value => numbers[place] = value.number(),
        }
    }
    if fields.is_damaged() {
        return None;
    }
    // A field with the value 0 may be absent.
    let tid = |place: usize| u32::try_from(numbers[place].unwrap_or(0)).ok();
    Some(match number {
        4 => Item::Switch {
            from: Some(Box::new((tid(2)?, names[1]))),
            state: numbers[4].unwrap_or(0),
            to: tid(6)?,
            comm: names[5],
        },
        18 => Item::BlockedReason { tid: tid(1)?, is_io: numbers[3].unwrap_or(0) != 0, caller: numbers[2] },
        235 => match current {
            Some(by) => Item::Created { tid: tid(1)?, comm: names[2], by },
            None => Item::Named { tid: tid(1)?, comm: names[2] },
        },
        21 => match current {
            Some(by) => Item::Created { tid: tid(2)?, comm: names[1], by },
            None => Item::Named { tid: tid(2)?, comm: names[1] },
        },
        236 => Item::Named { tid: tid(1)?, comm: names[3] },
        // `sched_wakeup` (17) can happen on another processor than the waker's.
        _ => Item::Waking {
            tid: tid(2)?,
            comm: names[1],
            current,
            is_interrupt: flags.filter(|_| number == 20).map(is_interrupt),
        },
    })
}

/// Reads a text that the thread `tid` wrote, or the begin or end of its sync call.
fn of_thread(number: u32, message: &[u8], tid: u32) -> Option<Item> {
    let mut numbers = [0; 8];
    let mut text = None;
    let mut fields = Fields::of(message);
    for (field, value) in fields.by_ref() {
        match value {
            Value::Bytes(bytes) if field == 2 => text = Some(bytes),
            Value::Bytes(_) => {}
            value => {
                if let Some(place) = numbers.get_mut(field as usize) {
                    *place = value.number().unwrap_or(0);
                }
            }
        }
    }
    if fields.is_damaged() {
        return None;
    }
    // Negative numbers have ten bytes; their low 32 bits are the number.
    let result = |place: usize| i64::from(numbers[place] as i32);
    Some(match number {
        3 => {
            let text = text.unwrap_or_default();
            Item::Print { tid, text: text[..text.len().min(TEXT_BYTES_MAX)].into() }
        }
        43 => Item::SyncEnter { tid, is_data: numbers[4] != 0 },
        44 => Item::SyncExit { tid, is_data: false, result: result(3) },
        255 => Item::SyncEnter { tid, is_data: false },
        _ => Item::SyncExit { tid, is_data: numbers[4] != 0, result: result(5) },
    })
}

/// Returns whether the flags of an event show an interrupt: hard (8), soft (16) or not maskable (64).
fn is_interrupt(flags: u64) -> bool {
    flags & 0x58 != 0
}

/// Reads the columns of compact switches and wake-ups.
fn compact(message: &[u8], source: u16, scratch: &mut Scratch, bundle: &mut Bundle, events: &mut Vec<Event>) {
    let mut packed: [&[u8]; COLUMNS] = [&[]; COLUMNS];
    let Scratch { columns, names } = scratch;
    names.clear();
    let mut fields = Fields::of(message);
    for (number, value) in fields.by_ref() {
        let Value::Bytes(bytes) = value else { continue };
        match number {
            5 => names.push(Comm::of(bytes)),
            number => {
                if let Some(column) = packed.get_mut(number as usize) {
                    *column = bytes;
                }
            }
        }
    }
    bundle.damaged += u64::from(fields.is_damaged());
    for place in OF_SWITCHES.into_iter().chain(OF_WAKINGS) {
        unpack(packed[place], &mut columns[place]);
    }
    for place in [OF_SWITCHES[0], OF_WAKINGS[0]] {
        // A first time and then differences.
        let (times, mut time) = (&mut columns[place], 0_u64);
        for step in times.iter_mut() {
            time = time.saturating_add(*step);
            *step = time;
        }
        [times.first(), times.last()].into_iter().flatten().for_each(|time| bundle.see(*time));
    }
    let name = |index: u64| {
        usize::try_from(index).ok().and_then(|index| names.get(index).copied()).unwrap_or_default()
    };
    let cpu = bundle.cpu;
    let [times, states, tids, indices] = OF_SWITCHES.map(|place| &columns[place]);
    events.reserve(times.len() + columns[OF_WAKINGS[0]].len());
    for (((time, state), to), index) in times.iter().zip(states).zip(tids).zip(indices) {
        let Ok(to) = u32::try_from(*to) else { continue };
        let item = Item::Switch { from: None, state: *state, to, comm: name(*index) };
        events.push(Event { time: *time, cpu, source, item });
    }
    let is_whole = [states, tids, indices].iter().all(|column| column.len() == times.len());
    let [times, tids, indices, flags] = OF_WAKINGS.map(|place| &columns[place]);
    for (at, ((time, tid), index)) in times.iter().zip(tids).zip(indices).enumerate() {
        let Ok(tid) = u32::try_from(*tid) else { continue };
        // Older recorders do not write the flags.
        let is_interrupt = flags.get(at).copied().map(is_interrupt);
        let item = Item::Waking { tid, comm: name(*index), current: None, is_interrupt };
        events.push(Event { time: *time, cpu, source, item });
    }
    let is_whole = is_whole && [tids, indices].iter().all(|column| column.len() == times.len());
    bundle.damaged += u64::from(!is_whole);
}
