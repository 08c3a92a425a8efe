//! Decodes the scheduler's tracepoints. They show when and why a thread leaves its processor, how long it
//! ran, and when threads are woken and created. Also decodes the kernel stack that may be recorded with an
//! event.

use super::block::Number;
use super::{ByteOrder, EventFormat, Field, FieldKind};

/// The tracepoints of the `sched` system that are always needed.
pub const SCHED_EVENTS: [&str; 4] =
    ["sched_switch", "sched_waking", "sched_wakeup_new", "sched_process_fork"];

/// The tracepoint of the `sched` system that shows the run times of threads. Some kernels lack it.
pub const RUNTIME_EVENT: &str = "sched_stat_runtime";

/// The tracepoints of the `sched` system for uninterruptibly blocked threads. Only Android's kernels have
/// `sched_blocked_reason`.
pub const BLOCKED_EVENTS: [&str; 4] =
    ["sched_switch", "sched_waking", "sched_wakeup", "sched_blocked_reason"];

/// The record of the `ftrace` system with the kernel stack of the previous event on the same processor.
pub const STACK_EVENT: &str = "kernel_stack";

/// Bits of `common_flags` (`include/linux/trace_events.h`) for events in a hard or soft interrupt.
const FLAG_HARD_INTERRUPT: u64 = 0x08;
const FLAG_SOFT_INTERRUPT: u64 = 0x10;
/// The state bits of `prev_state`. Higher bits show that the thread was preempted, or how it can be woken.
const STATES: u64 = 0xff;
/// The bits for dead threads and zombies, in all kernels since 3.4.
const STATES_ENDED: u64 = 0x10 | 0x20 | 0x40;
const STATE_UNINTERRUPTIBLE: u64 = 0x02;
/// The bit for a kernel thread without work. Linux before 4.14 shows its state as uninterruptible, with this
/// additional bit. Later versions show a separate idle state.
const STATE_IDLE: u64 = 0x400;

/// A scheduler event with the fields common to all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedRecord<'r> {
    /// The thread that was running when the event happened.
    pub current: u32,
    /// The interrupt in which the event happened, if any. If `Some`, the running thread did not cause the
    /// event.
    pub interrupt: Option<Interrupt>,
    /// The event itself.
    pub event: SchedEvent<'r>,
}

/// The kinds of interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// An interrupt from a device or a timer. It can also interrupt a soft interrupt.
    Hard,
    /// The deferred work of a hard interrupt, such as the handling of network packets and block-device
    /// completions.
    Soft,
}

impl Interrupt {
    fn of_flags(flags: u64) -> Option<Interrupt> {
        if flags & FLAG_HARD_INTERRUPT != 0 {
            Some(Interrupt::Hard)
        } else {
            (flags & FLAG_SOFT_INTERRUPT != 0).then_some(Interrupt::Soft)
        }
    }
}

/// An action of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SchedEvent<'r> {
    /// A processor switched from one thread to another.
    Switch { prev: u32, prev_comm: &'r [u8], left: Left, next: u32 },
    /// The current thread or an interrupt is waking a blocked thread.
    Waking { tid: u32 },
    /// A blocked thread is now runnable. The event may happen on another processor than the waker's. Unlike
    /// `Waking`, `Woken` never precedes the event that shows that the thread left its processor.
    Woken { tid: u32 },
    /// The kernel address at which a woken thread was blocked uninterruptibly, and whether it waited for
    /// I/O.
    BlockedReason { tid: u32, caller: u64, is_io: bool },
    /// A thread on a processor, often the current processor, ran for `ns` nanoseconds since it got the
    /// processor or since the last `Ran` event. The kernel emits such an event at each timer tick and just
    /// before the thread leaves the processor.
    Ran { tid: u32, ns: u64 },
    /// The current thread created another thread.
    Fork { parent: u32, child: u32 },
    /// The kernel stack of the previous event on the same processor.
    Stack(Stack<'r>),
}

/// How a thread left its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Left {
    /// The thread was preempted and is ready to run.
    Preempted,
    /// The thread blocked to wait for something.
    Blocked { uninterruptible: bool },
    /// The thread has ended.
    Ended,
}

/// A kernel stack: its return addresses, the innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'r> {
    bytes: &'r [u8],
    word: usize,
    order: ByteOrder,
}

impl Stack<'_> {
    /// Returns the return addresses, the innermost first.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.bytes.len() / self.word)
            .filter_map(|at| self.order.unsigned(self.bytes, at * self.word, self.word))
    }
}

#[derive(Clone, Debug)]
enum Layout {
    Switch { prev: Number, prev_comm: Option<Field>, state: Number, next: Number },
    Waking { tid: Number },
    Woken { tid: Number },
    BlockedReason { tid: Number, caller: Number, is_io: Number },
    Ran { tid: Number, ns: Number },
    Fork { parent: Number, child: Number },
    Stack { count: Option<Number>, at: usize, word: usize },
}

/// Decodes the records of [`SCHED_EVENTS`], [`BLOCKED_EVENTS`], [`RUNTIME_EVENT`] and [`STACK_EVENT`].
#[derive(Clone, Debug)]
pub struct SchedDecoder {
    order: ByteOrder,
    /// The layouts of the decoded events, with their event ids.
    layouts: Vec<(u16, Layout)>,
    id: Number,
    flags: Number,
    pid: Number,
}

impl SchedDecoder {
    /// Creates a decoder for the supported `formats`; other formats are skipped. Returns `None` if
    /// `sched_switch` is missing.
    pub fn new<'f>(
        formats: impl IntoIterator<Item = &'f EventFormat>,
        order: ByteOrder,
    ) -> Option<SchedDecoder> {
        let mut common = None;
        let mut layouts = Vec::new();
        let mut has_switch = false;
        for format in formats {
            let number = |name| Number::of(format, name);
            let layout = match format.name.as_str() {
                "sched_switch" => {
                    common = Some((number("common_type")?, number("common_flags")?, number("common_pid")?));
                    has_switch = true;
                    Layout::Switch {
                        prev: number("prev_pid")?,
                        prev_comm: format.field("prev_comm").cloned(),
                        state: number("prev_state")?,
                        next: number("next_pid")?,
                    }
                }
                "sched_waking" | "sched_wakeup_new" => Layout::Waking { tid: number("pid")? },
                "sched_wakeup" => Layout::Woken { tid: number("pid")? },
                "sched_blocked_reason" => Layout::BlockedReason {
                    tid: number("pid")?,
                    caller: number("caller")?,
                    is_io: number("io_wait")?,
                },
                RUNTIME_EVENT => Layout::Ran { tid: number("pid")?, ns: number("runtime")? },
                "sched_process_fork" => {
                    Layout::Fork { parent: number("parent_pid")?, child: number("child_pid")? }
                }
                STACK_EVENT => {
                    let caller = format.field("caller")?;
                    // The format file always declares an array of eight addresses, regardless of the actual
                    // number of addresses.
                    let word = if caller.kind == FieldKind::Array { caller.size / 8 } else { 0 };
                    if word != 4 && word != 8 {
                        return None;
                    }
                    Layout::Stack { count: number("size"), at: caller.offset, word }
                }
                _ => continue,
            };
            layouts.push((format.id, layout));
        }
        let (id, flags, pid) = common?;
        has_switch.then_some(SchedDecoder { order, layouts, id, flags, pid })
    }

    /// Decodes one record; `None` if the record is too short or is another event.
    pub fn decode<'r>(&self, record: &'r [u8]) -> Option<SchedRecord<'r>> {
        let get = |number: Number| number.get(record, self.order);
        let tid = |number: Number| get(number).map(|tid| tid as u32);
        let id = get(self.id)?;
        let (_, layout) = self.layouts.iter().find(|(known, _)| u64::from(*known) == id)?;
        let event = match layout {
            Layout::Switch { prev, prev_comm, state, next } => {
                let state = get(*state)?;
                let left = match state & STATES {
                    0 => Left::Preempted,
                    ended if ended & STATES_ENDED != 0 => Left::Ended,
                    _ => Left::Blocked {
                        uninterruptible: state & (STATE_UNINTERRUPTIBLE | STATE_IDLE)
                            == STATE_UNINTERRUPTIBLE,
                    },
                };
                let comm = prev_comm.as_ref().and_then(|field| field.text(record, self.order));
                SchedEvent::Switch {
                    prev: tid(*prev)?,
                    prev_comm: comm.unwrap_or_default(),
                    left,
                    next: tid(*next)?,
                }
            }
            Layout::Waking { tid: woken } => SchedEvent::Waking { tid: tid(*woken)? },
            Layout::Woken { tid: woken } => SchedEvent::Woken { tid: tid(*woken)? },
            Layout::BlockedReason { tid: woken, caller, is_io } => SchedEvent::BlockedReason {
                tid: tid(*woken)?,
                caller: get(*caller)?,
                is_io: get(*is_io)? != 0,
            },
            Layout::Ran { tid: ran, ns } => SchedEvent::Ran { tid: tid(*ran)?, ns: get(*ns)? },
            Layout::Fork { parent, child } => SchedEvent::Fork { parent: tid(*parent)?, child: tid(*child)? },
            Layout::Stack { count, at, word } => {
                let bytes = record.get(*at..)?;
                let words = bytes.len() / word;
                let count = count.and_then(get).map_or(words, |count| words.min(count as usize));
                SchedEvent::Stack(Stack { bytes: &bytes[..count * word], word: *word, order: self.order })
            }
        };
        let interrupt = Interrupt::of_flags(get(self.flags)?);
        Some(SchedRecord { current: tid(self.pid)?, interrupt, event })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The formats of Linux 6.18 on x86-64, without unused fields. `sched_blocked_reason` is from Android's
    /// Linux 5.15.
    const FORMATS: [&str; 7] = [
        "name: sched_switch\nID: 372\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
         \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
         \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
         \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
         \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n",
        "name: sched_waking\nID: 375\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n",
        "name: sched_process_fork\nID: 366\n\tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
         \tfield:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;\n",
        "name: kernel_stack\nID: 4\n\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n\
         \tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;\n",
        "name: sched_stat_runtime\nID: 363\n\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n\
         \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\tfield:u64 runtime;\toffset:16;\tsize:8;\tsigned:0;\n",
        "name: sched_wakeup\nID: 374\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n",
        "name: sched_blocked_reason\nID: 361\n\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n\
         \tfield:void* caller;\toffset:16;\tsize:8;\tsigned:0;\n\
         \tfield:bool io_wait;\toffset:24;\tsize:1;\tsigned:0;\n",
    ];

    fn decoder() -> SchedDecoder {
        let formats = FORMATS.map(|text| EventFormat::parse(text).unwrap());
        SchedDecoder::new(&formats, ByteOrder::Little).unwrap()
    }

    /// Builds a record of event `id` by thread 7, with 4-byte numbers at the given offsets.
    fn record(id: u16, flags: u8, numbers: &[(usize, u32)]) -> Vec<u8> {
        let mut record = vec![0; 64];
        record[..2].copy_from_slice(&id.to_le_bytes());
        record[2] = flags;
        record[4] = 7;
        for (at, number) in numbers {
            record[*at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        record
    }

    #[test]
    fn how_a_thread_left_its_processor() {
        let decoder = decoder();
        for (state, left) in [
            (0, Left::Preempted),
            (0x100, Left::Preempted),
            (1, Left::Blocked { uninterruptible: false }),
            (2, Left::Blocked { uninterruptible: true }),
            // The state of a thread that waits until it is woken or gets a fatal signal, in the encoding of
            // old kernels.
            (0x82, Left::Blocked { uninterruptible: true }),
            // The state of a kernel thread without work, in the encodings of old and new kernels.
            (0x402, Left::Blocked { uninterruptible: false }),
            (0x80, Left::Blocked { uninterruptible: false }),
            (0x10, Left::Ended),
            (0x20, Left::Ended),
        ] {
            let mut bytes = record(372, 0, &[(24, 7), (32, state), (56, 9)]);
            bytes[8..11].copy_from_slice(b"cat");
            let expected = SchedEvent::Switch { prev: 7, prev_comm: b"cat", left, next: 9 };
            assert_eq!(decoder.decode(&bytes).unwrap().event, expected, "{state:x}");
        }
    }

    #[test]
    fn wakings_forks_and_runtimes() {
        let decoder = decoder();
        for (flags, interrupt) in [
            (0, None),
            (0x04, None),
            (0x08, Some(Interrupt::Hard)),
            (0x11, Some(Interrupt::Soft)),
            (0x18, Some(Interrupt::Hard)),
        ] {
            let bytes = record(375, flags, &[(24, 9)]);
            let expected = SchedRecord { current: 7, interrupt, event: SchedEvent::Waking { tid: 9 } };
            assert_eq!(decoder.decode(&bytes), Some(expected));
        }
        let bytes = record(366, 0, &[(12, 7), (20, 8)]);
        assert_eq!(decoder.decode(&bytes).unwrap().event, SchedEvent::Fork { parent: 7, child: 8 });
        // An interrupt reports a run time of 2 s and 5 ns for a thread other than the current thread.
        let bytes = record(363, 0x08, &[(12, 9), (16, 2_000_000_005)]);
        let ran = decoder.decode(&bytes).unwrap();
        assert_eq!((ran.current, ran.event), (7, SchedEvent::Ran { tid: 9, ns: 2_000_000_005 }));
        let bytes = record(374, 0x08, &[(24, 9)]);
        assert_eq!(decoder.decode(&bytes).unwrap().event, SchedEvent::Woken { tid: 9 });
        let bytes = record(361, 0, &[(8, 9), (16, 0x1234), (24, 1)]);
        let reason = SchedEvent::BlockedReason { tid: 9, caller: 0x1234, is_io: true };
        assert_eq!(decoder.decode(&bytes).unwrap().event, reason);
        assert_eq!(decoder.decode(&record(1, 0, &[])), None);
    }

    #[test]
    fn a_stack_has_as_many_addresses_as_it_says() {
        let decoder = decoder();
        for (count, expected) in [(2, vec![0x11, 0x22]), (0, vec![])] {
            let bytes = record(4, 0, &[(8, count), (16, 0x11), (24, 0x22), (32, 0x33)]);
            let SchedEvent::Stack(stack) = decoder.decode(&bytes).unwrap().event else { panic!() };
            assert_eq!(stack.addresses().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn without_a_switch_there_is_no_decoder() {
        let waking = EventFormat::parse(FORMATS[1]).unwrap();
        assert!(SchedDecoder::new([&waking], ByteOrder::Little).is_none());
    }

    proptest! {
        /// No input makes the decoder panic.
        #[test]
        fn any_bytes(id in prop::sample::select(vec![372_u16, 375, 366, 363, 4, 374, 361]), mut bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if bytes.len() >= 2 {
                bytes[..2].copy_from_slice(&id.to_le_bytes());
            }
            if let Some(SchedRecord { event: SchedEvent::Stack(stack), .. }) = decoder().decode(&bytes) {
                prop_assert!(stack.addresses().count() <= bytes.len() / 8);
            }
        }
    }
}
