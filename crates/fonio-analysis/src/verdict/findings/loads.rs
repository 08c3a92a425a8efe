//! Tests verdicts and findings of complete loads: requests and samples from `findings_fixtures.toml` are
//! analysed.

use fonio_core::meta::{Device, Source};
use fonio_core::{Content, DeviceId, File, Meta, Metric, Request, RowSink, Sample, Thread, Timestamp};
use serde::Deserialize;

use super::tests::fixtures;
use crate::analyser::tests::{request, wait};
use crate::analyser::{Analyser, Analysis};
use crate::filter::{Filter, FilterOptions};
use crate::question::options::AnalysisOptions;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    name: String,
    repeat: u64,
    every_us: u64,
    /// Number of times that each line is repeated, at consecutive sector ranges.
    #[serde(default = "one")]
    copies: u64,
    #[serde(default)]
    lines: Vec<String>,
    /// Time by which each copy of a line completes later than the previous copy.
    #[serde(default)]
    serve_us: u64,
    #[serde(default)]
    scatter: bool,
    #[serde(default)]
    device: Option<String>,
    #[serde(default)]
    rotational: Option<bool>,
    /// Samples of the load: metric, subject, and the increase of a counter per repetition or the value of a
    /// gauge.
    #[serde(default)]
    samples: Vec<(String, String, i64)>,
    #[serde(default)]
    op_filter: Option<String>,
    /// The devices to which the recording is limited.
    #[serde(default)]
    watched: Vec<String>,
    /// Process id of the recorded command; in these loads, each thread is a separate process.
    #[serde(default)]
    command_pid: Option<u32>,
    /// Waits of threads; each occurs once, not once per repetition.
    #[serde(default)]
    waits: Vec<String>,
    /// Threads of the load: number, name and unit.
    #[serde(default)]
    threads: Vec<String>,
    /// Paths of the load's files; the first file has number 1.
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    line_files: Vec<u32>,
    /// The thread that caused the requests of each line; 0: the one that issued them.
    #[serde(default)]
    line_causes: Vec<u32>,
    /// The kinds of data in the files, as in the recording.
    #[serde(default)]
    contents: Vec<String>,
    /// The format of the source.
    #[serde(default = "live")]
    format: String,
    /// Processor time of the command.
    #[serde(default)]
    command_cpu_us: u64,
    /// Words that the fixes must contain.
    #[serde(default)]
    fixes: Vec<String>,
    /// Words that the verdict must contain.
    #[serde(default)]
    said: Vec<String>,
    verdict: String,
    #[serde(default)]
    fires: Vec<String>,
    #[serde(default)]
    silent: Vec<String>,
    /// Words that must not occur in any sentence, consequence or fix.
    #[serde(default)]
    words_absent: Vec<String>,
}

fn device_id(text: &str) -> DeviceId {
    let (major, minor) = text.split_once(':').unwrap();
    DeviceId::new(major.parse().unwrap(), minor.parse().unwrap())
}

fn one() -> u64 {
    1
}

fn live() -> String {
    "tracefs".to_owned()
}

impl Load {
    fn device(&self) -> DeviceId {
        let text = self.device.as_deref().unwrap_or("179:0");
        device_id(text)
    }

    fn rows(&self) -> Vec<Request> {
        let mut rows = Vec::new();
        for repetition in 0..self.repeat {
            for (at, line) in self.lines.iter().enumerate() {
                for copy in 0..self.copies {
                    let id = rows.len() as u64;
                    let mut row = request(id, line);
                    let later = |time: Timestamp, more: u64| {
                        Timestamp(time.0 + (repetition * self.every_us + more) * 1000)
                    };
                    if !line.contains(" dev") {
                        row.device = self.device();
                    }
                    row.file_id = self.line_files.get(at).copied();
                    row.cause_tid = self.line_causes.get(at).copied().filter(|tid| *tid != 0);
                    let place = if self.scatter { id * 7919 % 50_000 } else { copy };
                    row.sector = row.sector.map(|sector| fonio_core::Sector(sector.0 + 8 * place));
                    row.queued = row.queued.map(|time| later(time, 0));
                    row.issued = row.issued.map(|time| later(time, 0));
                    row.completed = row.completed.map(|time| later(time, copy * self.serve_us));
                    rows.push(row);
                }
            }
        }
        rows.sort_by_key(|row| (row.issued, row.request_id));
        rows
    }

    fn samples(&self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for repetition in 0..=self.repeat {
            for (metric, subject, value) in &self.samples {
                let metric = Metric::from_name(metric).unwrap_or_else(|| panic!("{metric}"));
                let gauges = [
                    Metric::NetLinkBytesPerS,
                    Metric::MemoryAvailableBytes,
                    Metric::MemoryTotalBytes,
                    Metric::TemperatureMillicelsius,
                ];
                let counter = !(gauges.contains(&metric) || metric.is_of_process() || metric.is_of_wal());
                samples.push(Sample {
                    time: Timestamp(repetition * self.every_us * 1000),
                    metric,
                    subject: (!subject.is_empty()).then(|| subject.clone()),
                    value: if counter { value * repetition as i64 } else { *value },
                });
            }
        }
        samples
    }

    fn thread_rows(&self) -> Vec<Thread> {
        let row = |text: &String| {
            let words: Vec<&str> = text.split_whitespace().collect();
            Thread {
                tid: words[0].parse().unwrap(),
                pid: words[0].parse().ok(),
                parent_pid: Some(0),
                comm: Some(words[1].to_owned()),
                cgroup: words.get(2).map(|unit| format!("/system.slice/{unit}")),
                ..Thread::default()
            }
        };
        self.threads.iter().map(row).collect()
    }

    fn file_rows(&self) -> Vec<File> {
        let row = |(at, path): (usize, &String)| File {
            file_id: at as u32 + 1,
            from: Timestamp(0),
            device: None,
            inode: None,
            path: Some(path.clone()),
            content: self.contents.get(at).map_or(Content::Data, |name| Content::from_name(name).unwrap()),
        };
        self.files.iter().enumerate().map(row).collect()
    }

    fn analysis(&self) -> Analysis {
        let ends = Timestamp(self.every_us * self.repeat.max(1) * 1000);
        let meta = Meta {
            began: Some(Timestamp(0)),
            ended: Some(ends),
            command: self.command_pid.map(|_| vec!["command".to_owned()]),
            command_pid: self.command_pid,
            source: Source { format: self.format.clone(), ..Source::default() },
            watched: self.watched.iter().map(|text| device_id(text)).collect(),
            devices: vec![Device { id: self.device(), rotational: self.rotational, ..Device::default() }],
            command_user_ns: self.command_pid.map(|_| self.command_cpu_us * 1000),
            command_system_ns: self.command_pid.map(|_| 0),
            ..Meta::default()
        };
        let filter =
            self.op_filter.clone().map(|op| FilterOptions { ops: vec![op], ..FilterOptions::default() });
        let options = AnalysisOptions { filter: filter.clone(), ..AnalysisOptions::default() };
        let mut sink = Filter::new(filter.unwrap_or_default(), Analyser::new(options)).unwrap();
        sink.began(Timestamp(0)).unwrap();
        self.samples().iter().for_each(|sample| sink.sample(sample).unwrap());
        self.thread_rows().iter().for_each(|row| sink.thread(row).unwrap());
        self.file_rows().iter().for_each(|row| sink.file(row).unwrap());
        self.waits.iter().for_each(|text| sink.wait(&wait(text)).unwrap());
        self.rows().iter().for_each(|row| sink.request(row).unwrap());
        sink.into_inner().finish(&meta)
    }
}

#[test]
fn loads_are_judged_as_they_are() {
    for load in fixtures().load {
        let analysis = load.analysis();
        let fired: Vec<&str> = analysis.findings.iter().map(|finding| finding.id.as_str()).collect();
        let said = format!("{}: {} {fired:?}", load.name, analysis.verdict);
        assert_eq!(analysis.verdict_id, load.verdict, "{said}");
        let is_good = analysis.verdict_severity == crate::verdict::Severity::Note;
        let good = load.verdict.starts_with("not-storage")
            || ["filtered-light", "only-bulk-work"].contains(&load.verdict.as_str());
        assert_eq!(is_good, good, "{said}");
        for words in &load.said {
            assert!(analysis.verdict.contains(words.as_str()), "the verdict lacks {words:?}: {said}");
        }
        for id in &load.fires {
            assert!(fired.contains(&id.as_str()), "the rule {id} does not fire: {said}");
        }
        for id in &load.silent {
            assert!(!fired.contains(&id.as_str()), "{id} fires: {said}");
        }
        let fixes: Vec<&str> =
            analysis.findings.iter().flat_map(|finding| &finding.fixes).map(String::as_str).collect();
        for words in &load.fixes {
            assert!(
                fixes.iter().any(|fix| fix.contains(words.as_str())),
                "no fix has {words:?}: {said} {fixes:?}"
            );
        }
        for finding in &analysis.findings {
            let texts = [&finding.sentence, &finding.consequence].into_iter().chain(&finding.fixes);
            for text in texts {
                for word in &load.words_absent {
                    assert!(!text.contains(word.as_str()), "{text:?} of {said}");
                }
            }
        }
    }
}
