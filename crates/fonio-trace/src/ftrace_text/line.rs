//! Parses the columns before every ftrace event.
//!
//! ```text
//!  qemu-system-x86-3377    [000] ...1.  1995.629370: block_rq_insert: 254,0 RA 4096 () 20677408 + 8 be,0,4 [qemu-system-x86]
//!           mmcqd/0-95    (   95) [000] d..2   123.456789: …       with the record-tgid (or Android's print-tgid) option
//!            <...>-1234 (-----) [001]   50260.647576: …            with the irq-info option off
//! ```
//!
//! Kernel source: `print_trace_line` in `kernel/trace/trace.c`, `trace_print_context` in
//! `kernel/trace/trace_output.c`. The name may contain any characters, even brackets and dashes. Therefore,
//! the parser starts at the only fixed point of the line: the processor in brackets, between a number and a
//! time.

use fonio_core::Timestamp;
use memchr::{memchr, memchr_iter, memrchr};

/// The columns of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// The name that the kernel saved for the thread. It may be `<...>`.
    pub comm: &'a [u8],
    pub tid: u32,
    /// The process, if the line contains it and the kernel knew it.
    pub pid: Option<u32>,
    pub cpu: u32,
    /// Whether an interrupt caused the event; `None` if the line does not show it.
    pub is_interrupt: Option<bool>,
    pub time: Timestamp,
    /// Whether the time has no fraction. If there is no fraction, the trace clock was a counter, and the
    /// value is not a time in nanoseconds.
    pub counter: bool,
    /// The event's name; empty if the line has no name (function tracer).
    pub event: &'a [u8],
    pub payload: &'a [u8],
}

/// Reads the columns of a line; `None` if the line is not an event.
pub(super) fn parse(line: &[u8]) -> Option<Head<'_>> {
    memchr_iter(b'[', line).find_map(|bracket| {
        let (comm, tid, pid) = task(&line[..bracket])?;
        let (cpu, rest) = number(&line[bracket + 1..])?;
        let rest = skip_spaces(rest.strip_prefix(b"] ")?);
        let (is_interrupt, (time, counter, rest)) = match timestamp(rest) {
            Some(found) => (None, found),
            None => {
                let (flags, rest) = rest.split_at(memchr(b' ', rest)?);
                (is_interrupt(flags), timestamp(skip_spaces(rest))?)
            }
        };
        let (event, payload) = event(skip_spaces(rest));
        Some(Head {
            comm,
            tid,
            pid,
            cpu: u32::try_from(cpu).ok()?,
            is_interrupt,
            time,
            counter,
            event,
            payload,
        })
    })
}

/// Reads the columns of a line of `perf script`, which has blanks before the thread's id, and the event's system
/// before its name; `None` if the line is not an event.
///
/// ```text
///              fio 30163 [000] 71513.874586:   block:block_rq_issue: 254,0 RS …
///  qemu-system-x86 11451/11462 [001] 71513.300365911:  1 block:block_rq_complete: 254,0 RM …      with -F pid,tid,period
/// ```
pub(super) fn parse_perf(line: &[u8]) -> Option<Head<'_>> {
    memchr_iter(b'[', line).find_map(|bracket| {
        let before = line[..bracket].trim_ascii();
        let (comm, ids) = before.split_at(memrchr(b' ', before)?);
        let (first, rest) = number(&ids[1..])?;
        let (pid, tid) = match rest.strip_prefix(b"/").map(number) {
            Some(Some((tid, b""))) => (Some(first), tid),
            None if rest.is_empty() => (None, first),
            _ => return None,
        };
        let (cpu, rest) = number(&line[bracket + 1..])?;
        let rest = skip_spaces(rest.strip_prefix(b"] ")?);
        let (time, counter, rest) = timestamp(rest)?;
        let (event, payload) = event(skip_spaces(rest));
        let event = &event[memrchr(b' ', event).map_or(0, |blank| blank + 1)..];
        let event = &event[memchr(b':', event).map_or(0, |colon| colon + 1)..];
        Some(Head {
            comm: comm.trim_ascii(),
            tid: u32::try_from(tid).ok()?,
            pid: pid.and_then(|pid| u32::try_from(pid).ok()),
            cpu: u32::try_from(cpu).ok()?,
            is_interrupt: None,
            time,
            counter,
            event,
            payload,
        })
    })
}

/// Reads the third of the flags such as `d.h1.`: the interrupt in which the event happened.
fn is_interrupt(flags: &[u8]) -> Option<bool> {
    match flags.get(2)? {
        b'.' => Some(false),
        b'h' | b'H' | b's' | b'z' | b'Z' => Some(true),
        _ => None,
    }
}

/// Reads `comm-tid` or `comm-tid (pid)` with spaces around it.
fn task(text: &[u8]) -> Option<(&[u8], u32, Option<u32>)> {
    let text = text.trim_ascii();
    let (text, pid) = match text.strip_suffix(b")") {
        Some(inside) => {
            let open = memrchr(b'(', inside)?;
            let column = inside[open + 1..].trim_ascii();
            let pid = match number(column) {
                Some((pid, b"")) => Some(u32::try_from(pid).ok()?),
                _ if !column.is_empty() && column.iter().all(|byte| *byte == b'-') => None,
                _ => return None,
            };
            (inside[..open].trim_ascii_end(), pid)
        }
        None => (text, None),
    };
    let dash = memrchr(b'-', text)?;
    match number(&text[dash + 1..])? {
        (tid, b"") => Some((&text[..dash], u32::try_from(tid).ok()?, pid)),
        _ => None,
    }
}

/// Reads a time such as `1995.629370:`, `1995.629370123:` or `123456:`.
fn timestamp(text: &[u8]) -> Option<(Timestamp, bool, &[u8])> {
    let (whole, rest) = number(text)?;
    if let Some(rest) = rest.strip_prefix(b":") {
        return Some((Timestamp(whole), true, rest));
    }
    let rest = rest.strip_prefix(b".")?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    if digits == 0 || rest[digits] != b':' {
        return None;
    }
    let nanos = (0..9).fold(0, |sum, at| sum * 10 + if at < digits { u64::from(rest[at] - b'0') } else { 0 });
    let time = whole.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    Some((Timestamp(time), false, &rest[digits + 1..]))
}

/// Returns the name before the first colon followed by a space or the line's end, and the text after it.
fn event(text: &[u8]) -> (&[u8], &[u8]) {
    for colon in memchr_iter(b':', text) {
        match text.get(colon + 1) {
            None => return (&text[..colon], b""),
            Some(b' ') => return (&text[..colon], skip_spaces(&text[colon + 1..])),
            Some(_) => {}
        }
    }
    (b"", text)
}

/// Reads decimal digits at the start; also returns the text after them. Returns `None` if there are no
/// digits, or if the number needs more than 64 bits.
pub(super) fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    let mut digits = 0;
    for byte in text {
        if !byte.is_ascii_digit() {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
        digits += 1;
    }
    (digits > 0).then(|| (value, &text[digits..]))
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    text.trim_ascii_start()
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;
    use fonio_testing::cases::lines;

    use super::*;

    fn show(line: &str) -> String {
        match parse(line.as_bytes()) {
            None => "no event".to_owned(),
            Some(head) => format!(
                "{:?} tid {} pid {:?} cpu {} at {}{}: {:?} {:?}",
                String::from_utf8_lossy(head.comm),
                head.tid,
                head.pid,
                head.cpu,
                head.time.0,
                if head.counter { " (counter)" } else { "" },
                String::from_utf8_lossy(head.event),
                String::from_utf8_lossy(head.payload),
            ),
        }
    }

    #[test]
    fn the_flags_show_interrupts() {
        for (flags, expected) in [
            ("d..2.", Some(false)),
            ("d.h1.", Some(true)),
            ("d.s3.", Some(true)),
            ("dNH2", Some(true)),
            ("", None),
            ("d...", Some(false)),
        ] {
            let line = format!("a-1 [000] {flags} 1.000000: sched_waking: comm=b pid=2");
            assert_eq!(parse(line.as_bytes()).unwrap().is_interrupt, expected, "{flags}");
        }
    }

    #[test]
    fn columns_of_perf() {
        let show = |line: &str| match parse_perf(line.as_bytes()) {
            None => "no event".to_owned(),
            Some(head) => format!(
                "{:?} tid {} pid {:?} cpu {} at {}: {:?} {:?}",
                String::from_utf8_lossy(head.comm),
                head.tid,
                head.pid,
                head.cpu,
                head.time.0,
                String::from_utf8_lossy(head.event),
                String::from_utf8_lossy(head.payload),
            ),
        };
        let file = expect_file!["perf_lines.txt"];
        file.assert_eq(&lines(&file.data(), show));
    }

    #[test]
    fn columns_of_many_kernels() {
        let file = expect_file!["lines.txt"];
        file.assert_eq(&lines(&file.data(), show));
        assert!(parse(b"").is_none());
    }
}
