//! Reads names, marks and samples from events outside the block layer.

use fonio_core::{Metric, Timestamp};
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
            Other::Names([
                name(payload, b"prev_comm=", b" prev_pid="),
                name(next, b"next_comm=", b" next_pid="),
            ])
        }
        b"sched_waking" | b"sched_wakeup" | b"sched_wakeup_new" => {
            Other::Names([name(payload, b"comm=", b" pid="), None])
        }
        b"task_newtask" => Other::Names([pid_first(payload, b" comm="), None]),
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
                Other::Names([Some((12, None, b"a b=c")), Some((0, None, b"swapper/1"))]),
            ),
            (
                "sched_wakeup",
                "comm=mmcqd/0 pid=95 prio=120 success=1 target_cpu=000",
                Other::Names([Some((95, None, b"mmcqd/0")), None]),
            ),
            (
                "task_rename",
                "pid=7 oldcomm=sh newcomm=my app oom_score_adj=0",
                Other::Names([Some((7, None, b"my app")), None]),
            ),
            (
                "task_newtask",
                "pid=8 comm=my app clone_flags=3d0f00 oom_score_adj=0",
                Other::Names([Some((8, None, b"my app")), None]),
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
            ("cpu_frequency", "state=", Other::Nothing),
            ("irq_handler_entry", "irq=1", Other::Nothing),
        ];
        for (event, payload, expected) in cases {
            assert_eq!(parse(event.as_bytes(), payload.as_bytes()), *expected, "{event}: {payload}");
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
