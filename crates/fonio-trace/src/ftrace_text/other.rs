//! Reads names, marks and samples from events outside the block layer.

use fonio_core::{Metric, Timestamp};
use fonio_tracefs::ring_buffer::Left;
use memchr::{memchr, memchr_iter, memmem};

use super::line::number;

/// A thread's id, the id of its process if known, and its name.
type Name<'a> = (u32, Option<u32>, &'a [u8]);

/// The contents of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other<'a> {
    Nothing,
    /// Text that a program wrote to `trace_marker`.
    Mark(&'a [u8]),
    /// Current names of threads.
    Names([Option<Name<'a>>; 2]),
    /// The processor switched from one thread to another.
    Switch {
        from: Name<'a>,
        to: Name<'a>,
        left: Left,
    },
    /// A thread is being woken. `is_by_waker` says whether the event happened on the processor of the waker.
    Waking {
        woken: Name<'a>,
        is_by_waker: bool,
    },
    /// The running thread created a thread.
    Created(Name<'a>),
    /// The kernel's account of the wait of a thread that was just woken.
    BlockedReason {
        tid: u32,
        is_io: bool,
        function: Option<&'a [u8]>,
    },
    /// A sync call reached a file system.
    SyncEnter {
        is_data: bool,
    },
    /// A sync call ended in a file system.
    SyncExit {
        is_data: bool,
        result: Option<i64>,
    },
    /// A sample: the metric, its subject and its value.
    Sample(Metric, &'a [u8], i64),
}

/// Parses the text of one event.
pub(super) fn parse<'a>(event: &[u8], payload: &'a [u8]) -> Other<'a> {
    match event {
        // Kernels before 3.0 print a number instead of this event's name.
        b"tracing_mark_write" | b"print" | b"0" => Other::Mark(payload),
        b"sched_switch" => {
            let next = memchr_iter(b'>', payload)
                .find(|at| payload[..*at].ends_with(b" =="))
                .and_then(|at| payload.get(at + 2..))
                .unwrap_or_default();
            let before = &payload[..payload.len() - next.len()];
            let names =
                [name(payload, b"prev_comm=", b" prev_pid="), name(next, b"next_comm=", b" next_pid=")];
            match names {
                [Some(from), Some(to)] => Other::Switch { from, to, left: left(before) },
                [None, None] => short_switch(before, next).unwrap_or(Other::Names(names)),
                names => Other::Names(names),
            }
        }
        b"sched_waking" | b"sched_wakeup" => {
            let is_by_waker = event == b"sched_waking";
            let woken = name(payload, b"comm=", b" pid=").or_else(|| Some(short_task(payload)?.0));
            woken.map_or(Other::Nothing, |woken| Other::Waking { woken, is_by_waker })
        }
        b"sched_wakeup_new" => {
            let new = name(payload, b"comm=", b" pid=").or_else(|| Some(short_task(payload)?.0));
            new.map_or(Other::Nothing, Other::Created)
        }
        b"sched_blocked_reason" => blocked_reason(payload).unwrap_or(Other::Nothing),
        b"ext4_sync_file_enter" | b"f2fs_sync_file_enter" => Other::SyncEnter { is_data: is_data(payload) },
        b"ext4_sync_file_exit" | b"f2fs_sync_file_exit" => {
            let result = value(payload, b" ret ").or_else(|| value(payload, b" ret = "));
            let result = result.or_else(|| value(payload, b" ret="));
            Other::SyncExit { is_data: is_data(payload), result: result.map(|(result, _)| result) }
        }
        b"task_newtask" => pid_first(payload, b" comm=").map_or(Other::Nothing, Other::Created),
        b"task_rename" => Other::Names([pid_first(payload, b" newcomm="), None]),
        b"cpu_frequency" => match (value(payload, b"state="), value(payload, b"cpu_id=")) {
            (Some((state, _)), Some((_, cpu))) => Other::Sample(Metric::CpuFrequencyKhz, cpu, state),
            _ => Other::Nothing,
        },
        b"thermal_temperature" => {
            let zone = after(payload, b"thermal_zone=").map(|rest| {
                &rest[..memmem::find(rest, b" id=").or_else(|| memchr(b' ', rest)).unwrap_or(rest.len())]
            });
            match (zone, value(payload, b" temp=")) {
                (Some(zone), Some((temperature, _))) => {
                    Other::Sample(Metric::TemperatureMillicelsius, zone, temperature)
                }
                _ => Other::Nothing,
            }
        }
        _ => Other::Nothing,
    }
}

/// Returns how the thread of the first part of a switch left the processor.
fn left(switch: &[u8]) -> Left {
    let Some(at) = memmem::rfind(switch, b" prev_state=") else { return Left::Preempted };
    let state = &switch[at + b" prev_state=".len()..];
    of_state(&state[..memchr(b' ', state).unwrap_or(state.len())])
}

/// Reads the letters of a state. State D is `D`, `DK`, or in kernels before 4.14 `D|W` and the like. `N` means that the
/// sleep does not count as load: these kernels show idle workers as `D|N`.
fn of_state(state: &[u8]) -> Left {
    match state.first() {
        None | Some(b'R') => Left::Preempted,
        Some(b'X' | b'Z') => Left::Ended,
        _ => Left::Blocked { uninterruptible: state.contains(&b'D') && !state.contains(&b'N') },
    }
}

/// Reads the short text that trace-cmd writes: `fio:1234 [120] D ==> swapper/0:0 [120]`.
fn short_switch<'a>(from: &'a [u8], to: &'a [u8]) -> Option<Other<'a>> {
    let (from, rest) = short_task(from)?;
    let (to, _) = short_task(to)?;
    let state = rest.trim_ascii();
    let state = &state[..memchr(b' ', state).unwrap_or(state.len())];
    Some(Other::Switch { from, to, left: of_state(state) })
}

/// Reads `fio:1234 [120]`; the priority may be missing. Also returns the text after it. The name may contain colons.
fn short_task(text: &[u8]) -> Option<(Name<'_>, &[u8])> {
    let text = text.trim_ascii();
    memchr_iter(b':', text).find_map(|colon| {
        let (tid, rest) = number(&text[colon + 1..])?;
        let rest = match rest.strip_prefix(b" [") {
            Some(priority) => &priority[memchr(b']', priority)? + 1..],
            None if rest.is_empty() || rest.starts_with(b" ") => rest,
            None => return None,
        };
        Some(((u32::try_from(tid).ok()?, None, &text[..colon]), rest))
    })
}

/// Reads `pid=30235 iowait=0 caller=get_user_pages+0x34/0x70`; Perfetto writes `io_wait=`.
fn blocked_reason<'a>(payload: &'a [u8]) -> Option<Other<'a>> {
    let (tid, _) = number(after(payload, b"pid=")?)?;
    let (is_io, _) = number(after(payload, b" iowait=").or_else(|| after(payload, b" io_wait="))?)?;
    let function = after(payload, b" caller=").and_then(|caller| {
        let end = caller.iter().position(|byte| matches!(byte, b'+' | b' ' | b'/')).unwrap_or(caller.len());
        let name = &caller[..end];
        let digits = name.strip_prefix(b"0x").unwrap_or(name);
        // Without the kernel's symbols, the text is an address: at least eight digits.
        let is_address = digits.len() >= 8 && digits.iter().all(u8::is_ascii_hexdigit);
        Some(name).filter(|_| !is_address && !name.is_empty())
    });
    Some(Other::BlockedReason { tid: u32::try_from(tid).ok()?, is_io: is_io != 0, function })
}

/// Returns whether the event of a sync call shows fdatasync.
fn is_data(payload: &[u8]) -> bool {
    [b"datasync ".as_slice(), b"datasync = ", b"datasync="]
        .iter()
        .any(|key| value(payload, key).is_some_and(|(is_data, _)| is_data != 0))
}

/// Reads `trace_event_clock_sync: realtime_ts=1510000000000` (Unix time in milliseconds), written at `at`;
/// returns the Unix time at trace time 0.
pub(super) fn unix_ns_at_zero(text: &[u8], at: Timestamp) -> Option<i64> {
    let rest = text.trim_ascii_start().strip_prefix(b"trace_event_clock_sync:")?;
    let (millis, _) = number(after(rest, b"realtime_ts=")?)?;
    let unix = i64::try_from(millis).ok()?.checked_mul(1_000_000)?;
    unix.checked_sub(i64::try_from(at.0).ok()?)
}

fn after<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    memmem::find(text, key).map(|at| &text[at + key.len()..])
}

/// If `payload` starts with `key`, returns the text between `key` and `pid_key`, and the number after
/// `pid_key`.
fn name<'a>(payload: &'a [u8], key: &[u8], pid_key: &[u8]) -> Option<Name<'a>> {
    let rest = payload.strip_prefix(key)?;
    // Names are short, so setting up a searcher costs more than scanning the bytes.
    let end = memchr_iter(b' ', rest).find(|at| rest[*at..].starts_with(pid_key))?;
    let (tid, _) = number(&rest[end + pid_key.len()..])?;
    Some((u32::try_from(tid).ok()?, None, &rest[..end]))
}

/// Reads `pid=12 … comm=name …`: the name ends at ` clone_flags=` or ` oom_score_adj=`.
fn pid_first<'a>(payload: &'a [u8], key: &[u8]) -> Option<Name<'a>> {
    let (tid, _) = number(after(payload, b"pid=")?)?;
    let rest = after(payload, key)?;
    let end = [b" clone_flags=".as_slice(), b" oom_score_adj="]
        .into_iter()
        .find_map(|next| memmem::find(rest, next))
        .unwrap_or(rest.len());
    Some((u32::try_from(tid).ok()?, None, &rest[..end]))
}

/// Reads the number after `key`, which may be negative; also returns its digits.
fn value<'a>(payload: &'a [u8], key: &[u8]) -> Option<(i64, &'a [u8])> {
    let text = after(payload, key)?;
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let (size, rest) = number(unsigned)?;
    let size = i64::try_from(size).ok()?;
    let digits = &text[..text.len() - rest.len()];
    Some((if unsigned.len() < text.len() { -size } else { size }, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_samples() {
        let cases: &[(&str, &str, Other<'_>)] = &[
            (
                "sched_switch",
                "prev_comm=a b=c prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
                Other::Switch {
                    from: (12, None, b"a b=c"),
                    to: (0, None, b"swapper/1"),
                    left: Left::Blocked { uninterruptible: false },
                },
            ),
            (
                "sched_wakeup",
                "comm=mmcqd/0 pid=95 prio=120 success=1 target_cpu=000",
                Other::Waking { woken: (95, None, b"mmcqd/0"), is_by_waker: false },
            ),
            (
                "sched_wakeup_new",
                "comm=mmcqd/0 pid=95 prio=120 success=1 target_cpu=000",
                Other::Created((95, None, b"mmcqd/0")),
            ),
            (
                "sched_blocked_reason",
                "pid=30235 iowait=1 caller=wait_on_page_bit+0x34/0x70",
                Other::BlockedReason { tid: 30_235, is_io: true, function: Some(b"wait_on_page_bit") },
            ),
            (
                "sched_blocked_reason",
                "pid=5 io_wait=0 caller=0xffffffa81d1c4b5c",
                Other::BlockedReason { tid: 5, is_io: false, function: None },
            ),
            (
                "sched_blocked_reason",
                "pid=5 iowait=0 caller=ffffffa81d1c4b5c",
                Other::BlockedReason { tid: 5, is_io: false, function: None },
            ),
            ("sched_blocked_reason", "pid=5 caller=f", Other::Nothing),
            (
                "ext4_sync_file_enter",
                "dev 259,23 ino 12 parent 2 datasync 1 ",
                Other::SyncEnter { is_data: true },
            ),
            (
                "ext4_sync_file_exit",
                "dev 259,23 ino 12 ret -5",
                Other::SyncExit { is_data: false, result: Some(-5) },
            ),
            (
                "f2fs_sync_file_enter",
                "dev = (259,23), ino = 12, pino = 3, i_mode = 0x81b0, i_size = 4096",
                Other::SyncEnter { is_data: false },
            ),
            (
                "f2fs_sync_file_exit",
                "dev = (259,23), ino = 12, cp_reason: no needed, datasync = 1, ret = 0",
                Other::SyncExit { is_data: true, result: Some(0) },
            ),
            (
                "task_rename",
                "pid=7 oldcomm=sh newcomm=my app oom_score_adj=0",
                Other::Names([Some((7, None, b"my app")), None]),
            ),
            (
                "task_newtask",
                "pid=8 comm=my app clone_flags=3d0f00 oom_score_adj=0",
                Other::Created((8, None, b"my app")),
            ),
            (
                "cpu_frequency",
                "state=1200000 cpu_id=3",
                Other::Sample(Metric::CpuFrequencyKhz, b"3", 1_200_000),
            ),
            (
                "thermal_temperature",
                "thermal_zone=cpu-thermal id=0 temp_prev=40000 temp=-1500",
                Other::Sample(Metric::TemperatureMillicelsius, b"cpu-thermal", -1500),
            ),
            ("tracing_mark_write", "B|1|x", Other::Mark(b"B|1|x")),
            ("sched_switch", "prev_comm=a prev_pid=", Other::Names([None, None])),
            (
                "sched_switch",
                "fio:7 [120] D ==> swapper/0:0 [120]",
                Other::Switch {
                    from: (7, None, b"fio"),
                    to: (0, None, b"swapper/0"),
                    left: Left::Blocked { uninterruptible: true },
                },
            ),
            (
                "sched_switch",
                "kworker/u8:3:55 [-51] R ==> a:b:9 [120]",
                Other::Switch {
                    from: (55, None, b"kworker/u8:3"),
                    to: (9, None, b"a:b"),
                    left: Left::Preempted,
                },
            ),
            ("sched_switch", "fio:7 [120] D", Other::Names([None, None])),
            (
                "sched_wakeup",
                "fio:7 [120] success=1 CPU:001",
                Other::Waking { woken: (7, None, b"fio"), is_by_waker: false },
            ),
            ("sched_wakeup_new", "fio:8 [120] CPU:001", Other::Created((8, None, b"fio"))),
            ("cpu_frequency", "state=", Other::Nothing),
            ("irq_handler_entry", "irq=1", Other::Nothing),
        ];
        for (event, payload, expected) in cases {
            assert_eq!(parse(event.as_bytes(), payload.as_bytes()), *expected, "{event}: {payload}");
        }
    }

    #[test]
    fn states_of_each_kernel() {
        let blocked = |uninterruptible| Left::Blocked { uninterruptible };
        for (state, expected) in [
            ("D", blocked(true)),
            ("DK", blocked(true)),
            ("D|K", blocked(true)),
            ("D|W", blocked(true)),
            ("D+", blocked(true)),
            ("D|N", blocked(false)),
            ("S", blocked(false)),
            ("I", blocked(false)),
            ("R+", Left::Preempted),
            ("", Left::Preempted),
            ("X", Left::Ended),
            ("Z", Left::Ended),
        ] {
            let line = format!(
                "prev_comm=D prev_state=D prev_pid=1 prev_prio=120 prev_state={state} ==> next_comm=D next_pid=2 next_prio=1"
            );
            let Other::Switch { from, to, left } = parse(b"sched_switch", line.as_bytes()) else {
                panic!("{line}")
            };
            assert_eq!((from.0, to.0, left), (1, 2, expected), "{state}");
        }
    }

    #[test]
    fn clock_sync() {
        let at = Timestamp(2_000_000_000);
        assert_eq!(
            unix_ns_at_zero(b"trace_event_clock_sync: realtime_ts=1510000000000", at),
            Some(1_509_999_998_000_000_000)
        );
        assert_eq!(unix_ns_at_zero(b"trace_event_clock_sync: parent_ts=12.5", at), None);
        assert_eq!(unix_ns_at_zero(b"trace_event_clock_sync: realtime_ts=99999999999999999999", at), None);
    }
}
