//! Lists who waited in slow calls of a file system, from a trace that has only such calls (ext4slower and similar programs).
//!
//! The trace shows neither requests nor devices, and fast calls are missing. So there are sums and maxima, but no percentiles
//! and no shares.

use std::cmp::Reverse;

use fonio_core::meta::{SHOWS_SLOW_CALLS, SLOW_CALLS};
use fonio_core::{ByteCount, Call, Nanos, Timestamp};
use rustc_hash::FxHashMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figures::facts::{Facts, Frame};
use crate::question::context::{Context, Ending};
use crate::question::{Question, Row};

/// Maximum number of combinations of a program, a file and an operation.
const GROUPS_MAX: usize = 1 << 16;
/// Maximum number of different operations. The programs print five.
const OPERATIONS_MAX: usize = 16;
/// Maximum number of rows of each list.
const LISTED: usize = 64;

/// Slow calls of a file system. Present if the recording comes from a trace that has only such calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowCalls {
    /// The calls that the trace has, such as `ext4 operations slower than 10 ms`.
    pub which: String,
    /// All calls.
    pub all: CallTimes,
    /// By program, the longest time first.
    pub programs: Vec<ProgramCalls>,
    /// By program, file and operation, the longest time first.
    pub files: Vec<FileCalls>,
    /// Number of programs that are not listed.
    #[serde(default)]
    pub programs_beyond_cap: u64,
    /// Number of combinations of program, file and operation that are not listed.
    #[serde(default)]
    pub files_beyond_cap: u64,
    /// The longest calls, the longest first.
    pub longest: Vec<LongCall>,
}

/// Number and times of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTimes {
    /// Number of calls.
    pub calls: u64,
    /// Their total time. Calls of several threads overlap.
    pub time_ns: Nanos,
    /// The longest call.
    pub longest_ns: Nanos,
}

/// The slow calls of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramCalls {
    /// The name of the program.
    pub program: String,
    /// Its calls.
    pub times: CallTimes,
    /// The file with most of the time, if the trace names it.
    pub file: Option<String>,
}

/// The slow calls of a program on a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileCalls {
    /// The name of the program.
    pub program: String,
    /// The file; absent if the trace does not name it.
    pub file: Option<String>,
    /// The operation: `read`, `write`, `open`, `fsync`.
    pub operation: String,
    /// The calls.
    pub times: CallTimes,
    /// Bytes read or written; absent if the trace does not show the bytes of one of the calls.
    pub bytes: Option<ByteCount>,
}

/// A slow call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LongCall {
    /// When it began, since the beginning of the span.
    pub at_ns: Nanos,
    /// The name of the program.
    pub program: String,
    /// The process or thread, as the trace shows it.
    pub tid: u32,
    /// The operation.
    pub operation: String,
    /// The file; absent if the trace does not name it.
    pub file: Option<String>,
    /// Bytes read or written.
    pub bytes: Option<ByteCount>,
    /// Its duration.
    pub took_ns: Nanos,
}

impl CallTimes {
    fn add(&mut self, took: Nanos) {
        self.add_all(CallTimes { calls: 1, time_ns: took, longest_ns: took });
    }

    fn add_all(&mut self, other: CallTimes) {
        self.calls += other.calls;
        self.time_ns += other.time_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Returns the key by which lists are sorted.
    fn rank(&self) -> Reverse<(Nanos, u64)> {
        Reverse((self.time_ns, self.calls))
    }

    /// Returns the calls and their time in words: `297 ms in 18 calls, the longest 32.9 ms`.
    pub fn in_words(&self) -> String {
        match self.calls {
            1 => format!("{} in 1 call", self.time_ns),
            calls => format!("{} in {calls} calls, the longest {}", self.time_ns, self.longest_ns),
        }
    }
}

/// Calls of a program on a file: the numbers of the program, the file and the operation.
type Key = (u32, Option<u32>, usize);

#[derive(Clone, Copy, Debug)]
struct Group {
    times: CallTimes,
    bytes: Option<ByteCount>,
}

/// One of the longest calls: its duration, and its number in the trace in reverse order.
#[derive(Clone, Copy, Debug)]
struct Kept {
    key: Key,
    tid: u32,
    entered: Timestamp,
    took: Nanos,
    bytes: Option<ByteCount>,
}

#[derive(Debug, Default)]
pub(crate) struct SlowCallTally {
    /// Present from the mark on, which comes before the calls. Recordings with all calls have no such mark.
    which: Option<String>,
    operations: Vec<String>,
    groups: FxHashMap<Key, Group>,
    all: CallTimes,
    /// Calls in further groups.
    beyond: u64,
    /// The longest calls so far; sorted and cut when twice as many are kept as will be listed.
    longest: Vec<Kept>,
}

impl SlowCallTally {
    fn call(&mut self, row: &Call, context: &mut Context) {
        let Some(exited) = row.exited else { return };
        let took = exited - row.entered;
        self.all.add(took);
        let known = self.operations.iter().position(|name| *name == row.name);
        let operation = known.unwrap_or_else(|| {
            if self.operations.len() < OPERATIONS_MAX {
                self.operations.push(row.name.clone());
            }
            self.operations.len() - 1
        });
        let program = context.threads.program_at(Some(row.tid), row.entered);
        let key = (program, row.file_id, operation);
        if self.groups.len() < GROUPS_MAX || self.groups.contains_key(&key) {
            let none = Group { times: CallTimes::default(), bytes: Some(ByteCount(0)) };
            let group = self.groups.entry(key).or_insert(none);
            group.times.add(took);
            group.bytes = group.bytes.zip(row.bytes).map(|(sum, more)| sum + more);
        } else {
            self.beyond += 1;
        }
        self.longest.push(Kept { key, tid: row.tid, entered: row.entered, took, bytes: row.bytes });
        if self.longest.len() >= 2 * LISTED {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.longest.sort_by_key(|call| (Reverse(call.took), call.entered));
        self.longest.truncate(LISTED);
    }
}

impl Question for SlowCallTally {
    type Answer = Option<SlowCalls>;

    fn row(&mut self, row: Row, context: &mut Context) {
        match row {
            Row::Mark(row) => {
                if let Some(which) = row.name.strip_prefix(SLOW_CALLS) {
                    self.which.get_or_insert_with(|| which.to_owned());
                }
            }
            Row::Call(row) if self.which.is_some() => self.call(row, context),
            _ => {}
        }
    }

    fn finish(mut self, end: &mut Ending) -> Option<SlowCalls> {
        if !end.meta.source.shows.iter().any(|shown| shown == SHOWS_SLOW_CALLS) {
            return None;
        }
        self.cut();
        let began = end.began();
        let Context { threads, files, .. } = &end.context;
        let file = |number: Option<u32>| number.and_then(|number| files.path(number));
        let program = |number: u32| threads.name(number).to_owned();
        let mut groups: Vec<(Key, Group)> = self.groups.into_iter().collect();
        groups.sort_unstable_by_key(|(key, group)| (group.times.rank(), *key));
        let mut programs: Vec<(u32, CallTimes, Option<u32>)> = Vec::new();
        let mut places: FxHashMap<u32, usize> = FxHashMap::default();
        // The first group of a program has its longest time on one file in one operation.
        for ((number, file, _), group) in &groups {
            let place = *places.entry(*number).or_insert_with(|| {
                programs.push((*number, CallTimes::default(), *file));
                programs.len() - 1
            });
            programs[place].1.add_all(group.times);
        }
        programs.sort_by_key(|(number, times, _)| (times.rank(), *number));
        let beyond = |count: usize| count.saturating_sub(LISTED) as u64;
        Some(SlowCalls {
            which: self.which.unwrap_or_default(),
            all: self.all,
            programs_beyond_cap: beyond(programs.len()),
            files_beyond_cap: beyond(groups.len()) + self.beyond,
            programs: (programs.into_iter().take(LISTED))
                .map(|(number, times, of)| ProgramCalls { program: program(number), times, file: file(of) })
                .collect(),
            files: (groups.into_iter().take(LISTED))
                .map(|((number, of, operation), group)| FileCalls {
                    program: program(number),
                    file: file(of),
                    operation: self.operations[operation].clone(),
                    times: group.times,
                    bytes: group.bytes,
                })
                .collect(),
            longest: (self.longest.into_iter())
                .map(|call| LongCall {
                    at_ns: call.entered - began,
                    program: program(call.key.0),
                    tid: call.tid,
                    operation: self.operations[call.key.2].clone(),
                    file: file(call.key.1),
                    bytes: call.bytes,
                    took_ns: call.took,
                })
                .collect(),
        })
    }

    fn figures(answer: &Option<SlowCalls>, _: &Frame, facts: &mut Facts) {
        let known = u64::from(answer.is_some());
        facts.count("source.slow_calls", "the source has only slow calls of a file system", known);
        let all = answer.as_ref().map(|answer| answer.all);
        facts.count("slow_calls.calls", "slow calls of a file system", all.map(|all| all.calls));
        facts.amount("slow_calls.time", "total time of slow calls", all.map(|all| all.time_ns));
        facts.amount("slow_calls.longest", "longest slow call", all.map(|all| all.longest_ns));
        let Some(answer) = answer else { return };
        facts.word("slow_calls.which", &answer.which);
        if let Some(first) = answer.programs.first() {
            facts.word("slow_calls.program", &first.program);
            facts.word("slow_calls.times", &first.times.in_words());
            if let Some(file) = &first.file {
                facts.word("slow_calls.file", file);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use fonio_trace::assemble::assemble;
    use fonio_trace::input::Input;
    use fonio_trace::recognise::{ReadOptions, open};

    use super::*;
    use crate::analyser::{Analyser, Analysis};
    use crate::filter::{Filter, FilterOptions};
    use crate::question::options::AnalysisOptions;

    const TEXT: &str = "\
Tracing ext4 operations slower than 10 ms
TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME
06:35:01 cron           16464  R 1249    0          16.05 common-auth
06:35:01 sqlite         7      W 4096    0          12.00 a.db
06:35:02 sqlite         7      S 0       0         120.00 a.db
06:35:03 sqlite         7      S 0       0          20.00 a.db
06:35:03 sqlite         7      S 0       0          10.00 b.db
06:35:04 cron           16465  R 1000    0          40.00 common-auth
";

    fn analysed(options: Option<FilterOptions>) -> Analysis {
        let mut reader = open(vec![Input::of("t", TEXT)], &ReadOptions::default()).expect("it is recognised");
        let analyser = Analyser::new(AnalysisOptions::default());
        let mut filter = Filter::new(options.unwrap_or_default(), analyser).expect("a valid filter");
        let meta = assemble(&mut *reader, Default::default(), &mut filter).expect("memory reads");
        filter.into_inner().finish(&meta)
    }

    /// The analysis of a trace with slow calls.
    pub(crate) fn example() -> Analysis {
        analysed(None)
    }

    #[test]
    fn who_waited_in_the_calls_of_which_file() {
        let analysis = example();
        let answer = analysis.slow_calls.as_ref().expect("it has slow calls");
        assert_eq!(answer.which, "ext4 operations slower than 10 ms");
        let ms = |time: Nanos| time.0 as f64 / 1e6;
        let programs: Vec<_> = (answer.programs.iter())
            .map(|row| (row.program.as_str(), row.times.calls, ms(row.times.time_ns), row.file.as_deref()))
            .collect();
        assert_eq!(programs, [("sqlite", 4, 162.0, Some("a.db")), ("cron", 2, 56.05, Some("common-auth"))]);
        let files: Vec<_> = (answer.files.iter())
            .map(|row| {
                let name = row.file.as_deref().unwrap_or_default();
                (
                    row.operation.as_str(),
                    name,
                    row.times.calls,
                    ms(row.times.longest_ns),
                    row.bytes.map(|b| b.0),
                )
            })
            .collect();
        assert_eq!(
            files,
            [
                ("fsync", "a.db", 2, 120.0, None),
                ("read", "common-auth", 2, 40.0, Some(2249)),
                ("write", "a.db", 1, 12.0, Some(4096)),
                ("fsync", "b.db", 1, 10.0, None),
            ]
        );
        let longest = &answer.longest[0];
        assert_eq!((longest.tid, ms(longest.took_ns), ms(longest.at_ns)), (7, 120.0, 896.05));
        assert!(analysis.validity.ok);
        assert_eq!(analysis.verdict_id, "slow-calls");
        assert!(analysis.findings.is_empty() && analysis.sqlite.is_none(), "{:?}", analysis.findings);
        let expected = "sqlite spent the most time in slow calls of files: 162 ms in 4 calls, the longest 120 ms, mostly on a.db.";
        assert!(analysis.verdict.contains(expected), "{}", analysis.verdict);
    }

    #[test]
    fn a_range_leaves_calls_out() {
        let from_ns = Nanos(2_500_000_000);
        let options = FilterOptions { from_ns: Some(from_ns), ..FilterOptions::default() };
        let answer = analysed(Some(options)).slow_calls.expect("it has slow calls");
        assert_eq!(answer.all.calls, 1);
    }
}
