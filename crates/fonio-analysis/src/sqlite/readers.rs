//! Lists the processes that kept a write-ahead log of SQLite from being emptied.

use std::cmp::Reverse;

use fonio_core::{ByteCount, Metric, Nanos, Sample, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figures::facts::{Facts, Frame};
use crate::question::context::{Context, Ending};
use crate::question::{Question, Row};

/// Maximum number of readers listed.
const READERS_LISTED: usize = 16;
/// Maximum number of readers kept.
const READERS_MAX: usize = 1 << 10;

/// A process that kept a write-ahead log from being emptied: it had a read transaction open, and a checkpoint
/// cannot go past the part of the log that the transaction has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WalReader {
    /// The program's name, with its unit if it is known.
    pub program: String,
    /// The process.
    pub pid: u32,
    /// The path of the log.
    pub log: String,
    /// Time for which the recording saw the transaction open.
    pub held_ns: Nanos,
    /// The part of the log that could not be emptied.
    pub bytes: ByteCount,
}

#[derive(Debug, Default)]
pub(crate) struct WalReaderTally {
    readers: Vec<WalReader>,
    at: Timestamp,
}

impl WalReaderTally {
    fn sample(&mut self, sample: &Sample) {
        let subject = sample.subject.as_deref().and_then(|subject| subject.split_once(' '));
        let Some((pid, log)) = subject.and_then(|(pid, log)| Some((pid.parse().ok()?, log))) else { return };
        let value = u64::try_from(sample.value).unwrap_or(0);
        self.at = self.at.max(sample.time);
        let place = self.readers.iter().position(|reader| reader.pid == pid && reader.log == log);
        let place = match place {
            Some(place) => place,
            None if self.readers.len() >= READERS_MAX => return,
            None => {
                self.readers.push(WalReader { pid, log: log.to_owned(), ..WalReader::default() });
                self.readers.len() - 1
            }
        };
        let reader = &mut self.readers[place];
        // A process can have several transactions, one after the other.
        match sample.metric {
            Metric::WalHeldNs => reader.held_ns = reader.held_ns.max(Nanos(value)),
            _ => reader.bytes = reader.bytes.max(ByteCount(value)),
        }
    }
}

impl Question for WalReaderTally {
    type Answer = Vec<WalReader>;

    fn row(&mut self, row: Row, _: &mut Context) {
        if let Row::Sample(sample) = row
            && sample.metric.is_of_wal()
        {
            self.sample(sample);
        }
    }

    fn finish(mut self, end: &mut Ending) -> Vec<WalReader> {
        let threads = &mut end.context.threads;
        for reader in &mut self.readers {
            let name = threads.program_at(Some(reader.pid), self.at);
            let unit = threads.unit_at(reader.pid, self.at).map(|unit| threads.unit(unit));
            let name = threads.name(name);
            reader.program = unit.map_or(name.to_owned(), |unit| format!("{name} ({unit})"));
        }
        self.readers.sort_by_key(|reader| (Reverse(reader.bytes), reader.pid));
        self.readers.truncate(READERS_LISTED);
        self.readers
    }

    /// Adds the reader that keeps the most bytes.
    fn figures(readers: &Vec<WalReader>, _: &Frame, facts: &mut Facts) {
        let most = readers.first();
        let label = "part of a write-ahead log that a reader kept from being emptied";
        facts.amount("wal.held_bytes", label, most.map(|most| most.bytes));
        let label = "time for which the reader had a transaction open";
        facts.amount("wal.held_time", label, most.map(|most| most.held_ns));
        let Some(most) = most else { return };
        facts.word("wal.reader", &most.program);
        facts.word("wal.reader_pid", &most.pid.to_string());
        facts.word("wal.log", &most.log);
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{Meta, RowSink, Thread};

    use super::*;
    use crate::analyser::Analyser;
    use crate::question::options::AnalysisOptions;

    #[test]
    fn the_reader_with_the_longest_log_comes_first() {
        let mut analyser = Analyser::new(AnalysisOptions::default());
        for (pid, name) in [(7, "viewer"), (8, "backup")] {
            let thread = Thread { tid: pid, pid: Some(pid), comm: Some(name.into()), ..Thread::default() };
            analyser.thread(&thread).unwrap();
        }
        for (metric, subject, value) in [
            (Metric::WalHeldNs, "7 /app db/x-wal", 5),
            (Metric::WalHeldBytes, "7 /app db/x-wal", 100),
            (Metric::WalHeldNs, "8 /y-wal", 3),
            (Metric::WalHeldBytes, "8 /y-wal", 200),
            (Metric::WalHeldBytes, "damaged", 900),
        ] {
            let subject = Some(subject.to_owned());
            analyser.sample(&Sample { time: Timestamp(9), metric, subject, value }).unwrap();
        }
        let readers = analyser.finish(&Meta::default()).wal_readers;
        let told: Vec<_> =
            readers.iter().map(|row| (row.program.as_str(), row.log.as_str(), row.bytes.0)).collect();
        assert_eq!(told, [("backup", "/y-wal", 200), ("viewer", "/app db/x-wal", 100)]);
        assert_eq!(readers[1].held_ns, Nanos(5));
    }
}
