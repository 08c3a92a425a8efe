//! Reads the text that programs write to `trace_marker`: instants, and Android's atrace spans.
//!
//! atrace writes `B|pid|name` and `E|pid` around a span of one thread, `S|pid|name|cookie` and
//! `F|pid|name|cookie` around a span that may change threads (or `G` and `H`, with the name of a track). For
//! an instant, atrace writes `I|pid|name` or `N|pid|track|name`; for a counter, `C|pid|name|value`. Source:
//! Android's `frameworks/native/libs/atrace` and `system/core/libcutils/include/cutils/trace.h`. Any other
//! text counts as an instant.

use fonio_core::{Mark, Timestamp};
use rustc_hash::FxHashMap;

use super::line::number;

/// Maximum number of open spans per thread; deeper spans are dropped.
const DEPTH_MAX: usize = 64;

/// Maximum number of threads with open spans, and maximum number of open spans that may change threads;
/// further spans are dropped.
const OPEN_MAX: usize = 4096;

/// Maximum length of a stored name in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Spans that have begun and not yet ended.
#[derive(Default)]
pub(crate) struct Marks {
    /// For each thread, its open spans, innermost last. The depth counts dropped spans too.
    nested: FxHashMap<u32, (usize, Vec<(Timestamp, String)>)>,
    /// Spans that may change threads. The key is the process and a text of track or name and cookie.
    free: FxHashMap<(u64, String), (Timestamp, String, u32)>,
}

impl Marks {
    /// Handles a text from thread `tid`; returns a mark if the text is an instant or ends a span.
    pub fn wrote(&mut self, text: &[u8], tid: u32, at: Timestamp) -> Option<Mark> {
        let text = text.trim_ascii();
        if text.is_empty() || text.starts_with(b"trace_event_clock_sync:") {
            return None;
        }
        let Some(atrace) = Atrace::parse(text) else {
            return Some(Mark { at, until: None, name: name(text), tid: Some(tid) });
        };
        match atrace.letter {
            b'B' => {
                if self.nested.len() < OPEN_MAX || self.nested.contains_key(&tid) {
                    let (depth, spans) = self.nested.entry(tid).or_default();
                    *depth += 1;
                    if spans.len() < DEPTH_MAX {
                        spans.push((at, name(atrace.rest)));
                    }
                }
                None
            }
            b'E' => {
                let (depth, spans) = self.nested.get_mut(&tid)?;
                *depth -= 1;
                let ended = if *depth < spans.len() { spans.pop() } else { None };
                if *depth == 0 {
                    self.nested.remove(&tid);
                }
                ended.map(|(began, name)| Mark {
                    at: began,
                    until: Some(at.max(began)),
                    name,
                    tid: Some(tid),
                })
            }
            b'S' | b'G' => {
                if self.free.len() < OPEN_MAX {
                    let (key, name) = atrace.free()?;
                    self.free.insert(key, (at, name, tid));
                }
                None
            }
            b'F' | b'H' => {
                let (began, name, tid) = self.free.remove(&atrace.free()?.0)?;
                Some(Mark { at: began, until: Some(at.max(began)), name, tid: Some(tid) })
            }
            b'C' => None,
            _ => Some(Mark { at, until: None, name: name(atrace.rest), tid: Some(tid) }),
        }
    }

    /// Returns the spans that are still open at the end of the trace. They are returned as instants, in time
    /// order.
    pub fn finish(&mut self) -> Vec<Mark> {
        let nested = std::mem::take(&mut self.nested).into_iter().flat_map(|(tid, (_, spans))| {
            spans.into_iter().map(move |(at, name)| Mark { at, until: None, name, tid: Some(tid) })
        });
        let free = std::mem::take(&mut self.free).into_values().map(|(at, name, tid)| Mark {
            at,
            until: None,
            name,
            tid: Some(tid),
        });
        let mut marks: Vec<Mark> = nested.chain(free).collect();
        marks.sort_by(|a, b| (a.at, a.tid, &a.name).cmp(&(b.at, b.tid, &b.name)));
        marks
    }
}

/// Splits an atrace line, `letter|pid|rest`; pid and rest may be missing after an `E`.
struct Atrace<'a> {
    letter: u8,
    pid: u64,
    rest: &'a [u8],
}

impl Atrace<'_> {
    fn parse(text: &[u8]) -> Option<Atrace<'_>> {
        let (letter, rest) = text.split_first()?;
        if *letter == b'E' && rest.is_empty() {
            return Some(Atrace { letter: b'E', pid: 0, rest });
        }
        if !b"BESFGHINC".contains(letter) {
            return None;
        }
        let (pid, rest) = number(rest.strip_prefix(b"|")?)?;
        match rest.strip_prefix(b"|") {
            Some(rest) => Some(Atrace { letter: *letter, pid, rest }),
            None if rest.is_empty() => Some(Atrace { letter: *letter, pid, rest }),
            None => None,
        }
    }

    /// Returns the key and name of a span that may change threads. `S` and `F` have `name|cookie`, `G` has
    /// `track|name|cookie`, and `H` has only `track|cookie`.
    fn free(&self) -> Option<((u64, String), String)> {
        let bar = memchr::memrchr(b'|', self.rest)?;
        let (label, cookie) = (&self.rest[..bar], &self.rest[bar + 1..]);
        let (track, shown) = match memchr::memchr(b'|', label) {
            Some(at) if self.letter == b'G' => (&label[..at], &label[at + 1..]),
            _ => (label, label),
        };
        Some(((self.pid, format!("{}|{}", name(track), name(cookie))), name(shown)))
    }
}

fn name(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(NAME_BYTES_MAX)]).into_owned()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(lines: &[(u32, &str)], expected: Expect) {
        let mut marks = Marks::default();
        let mut out: Vec<Mark> = lines
            .iter()
            .enumerate()
            .filter_map(|(at, (tid, text))| marks.wrote(text.as_bytes(), *tid, Timestamp(at as u64)))
            .collect();
        out.extend(marks.finish());
        let shown: String = out
            .iter()
            .map(|mark| {
                format!("{} {:?} {} {:?}\n", mark.at.0, mark.until.map(|until| until.0), mark.name, mark.tid)
            })
            .collect();
        expected.assert_eq(&shown);
    }

    #[test]
    fn spans_and_instants() {
        check(
            &[
                (1, "B|1|outer"),
                (1, "B|1|inner|with bar"),
                (2, "phase two begins"),
                (2, "E|2"),
                (1, "E|1"),
                (1, "S|1|launch: com.example|7"),
                (2, "C|1|counter|12"),
                (1, "E"),
                (3, "F|1|launch: com.example|7"),
                (3, "G|1|track|slice|9"),
                (3, "H|1|track|9"),
                (3, "I|1|now"),
                (3, "B|1|never ended"),
                (3, "Beginning | not atrace"),
                (3, "trace_event_clock_sync: parent_ts=12.0"),
            ],
            expect![[r#"
                2 None phase two begins Some(2)
                1 Some(4) inner|with bar Some(1)
                0 Some(7) outer Some(1)
                5 Some(8) launch: com.example Some(1)
                9 Some(10) slice Some(3)
                11 None now Some(3)
                13 None Beginning | not atrace Some(3)
                12 None never ended Some(3)
            "#]],
        );
    }

    #[test]
    fn depth_beyond_the_limit_is_counted_but_not_kept() {
        let mut marks = Marks::default();
        for at in 0..1000 {
            assert_eq!(marks.wrote(b"B|1|x", 1, Timestamp(at)), None);
        }
        let ended: Vec<u64> = (0..1000)
            .filter_map(|at| marks.wrote(b"E|1", 1, Timestamp(1000 + at)))
            .map(|mark| mark.at.0)
            .collect();
        assert_eq!(ended, (0..DEPTH_MAX as u64).rev().collect::<Vec<_>>());
        assert_eq!(marks.nested.len(), 0);
    }
}
