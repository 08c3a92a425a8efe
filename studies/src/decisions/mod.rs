//! `cargo studies decisions`: compares the decisions of the kernel's schedulers in a guest with the decisions
//! of their models in `fonio-sim`.
//!
//! The observed device has a queue depth of 1. As soon as a request is issued, the kernel dispatches the next
//! request from the scheduler and keeps it until the device is free. If the scheduler returns no request, the
//! kernel asks again at the next insertion or completion. So the scheduler decides at these times, and the
//! event `block_rq_issue` comes later.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use fonio_sim::scheduler::vectors::answer;
use xtask::results::{Cell, StudyResult};

use crate::smartio::sources;
use crate::{process, schedulers, tools};

const KERNEL: &str = "6.12";
const DEVICE: &str = "samsung_s5";
/// The length of the kernel's tick, and the step size of the search for the phase of the tick.
const TICK_NS: u64 = 4_000_000;
const TICK_STEP_NS: usize = 20_000;

/// The loads under which schedulers are observed, in the format of `decisions.sh`.
const LOADS: &str = include_str!("loads.txt");

struct Load {
    /// The base name of the load's files. It consists of the names of the scheduler and of the load.
    file: &'static str,
    scheduler: &'static str,
    /// Scheduler settings with the kernel's names and units; other settings keep their defaults.
    settings: &'static str,
}

impl Load {
    fn name(&self) -> &'static str {
        self.file[self.scheduler.len()..].trim_start_matches('-')
    }
}

fn loads() -> impl Iterator<Item = Load> {
    LOADS.lines().map(|line| {
        let mut fields = line.split('|');
        let mut next = || fields.next().expect("a load has four fields");
        Load { file: next(), scheduler: next(), settings: next() }
    })
}

#[derive(Clone, Debug)]
struct Request {
    id: u64,
    inserted: u64,
    issued: u64,
    completed: u64,
    /// The rest of the request's line in a test vector.
    text: String,
}

#[derive(Args)]
pub struct Arguments {
    /// Use this build of fonio instead of building it.
    #[arg(long, value_name = "PROGRAM")]
    fonio: Option<PathBuf>,
}

/// Records decisions of the kernel, and saves the decisions that the models also make as test vectors.
pub fn run(arguments: &Arguments) -> Result<()> {
    tools::ensure(&[tools::BUILD, tools::GUEST])?;
    process::outlive_signals()?;
    let fonio = schedulers::fonio(arguments.fonio.as_deref())?;
    let folder = process::scratch("kernel/decisions")?;
    std::fs::create_dir_all(folder.join("guest"))?;
    std::fs::copy(sources().join("test/decisions.sh"), folder.join("guest/decisions.sh"))?;
    std::fs::write(folder.join("guest/loads"), LOADS)?;
    let names: Vec<String> = loads().map(|load| format!("{}.csv", load.file)).collect();
    let script =
        format!("fonio device emulate {DEVICE} --scheduler none -- sh guest/decisions.sh guest/loads");
    let mut guest = process::bound_to_this(&fonio);
    guest.args(["lab", "run", KERNEL, "--copy", "guest", "--bring", &names.join(",")]);
    guest.args(["--", "sh", "-c", &script]);
    process::run(guest.current_dir(&folder))?;
    compare_all(&folder)
}

fn compare_all(folder: &Path) -> Result<()> {
    let title = "decisions of the kernel's schedulers that their models make too";
    let columns = ["scheduler", "load", "settings", "decisions", "equal before the first difference"];
    let mut result = StudyResult::begin("decisions", title, "cargo studies decisions", &columns)?;
    let observed = process::root().join("crates/fonio-sim/tests/vectors/observed");
    for load in loads() {
        let file = folder.join(load.file).with_extension("csv");
        let csv =
            std::fs::read_to_string(&file).with_context(|| format!("there is no {}", file.display()))?;
        let Beside { vector, issued, equal, .. } = best(&load, &requests(&csv)?)?;
        let all = issued.len();
        let cells = vec![load.name().into(), load.settings.into(), Cell::count(all), Cell::count(equal)];
        result.row(format!("`{}`", load.scheduler), cells);
        let kept = observed.join(format!("{}-{KERNEL}.txt", load.file));
        if equal == all {
            std::fs::write(&kept, &vector).with_context(|| format!("cannot write {}", kept.display()))?;
        } else {
            let other = issued.get(equal).map_or_else(|| "nothing".to_owned(), u64::to_string);
            eprintln!(
                "  the model decided: {}; the kernel issued {other}",
                vector.lines().last().unwrap_or_default()
            );
            if kept.exists() {
                eprintln!("  {} is an older observation", kept.display());
            }
        }
    }
    result.keep(true)?;
    Ok(())
}

/// Compares the decisions for several phases of the kernel's tick, and returns the comparison with the most
/// equal decisions. The recording does not show the phase. It matters only for limits of a few ticks.
fn best(load: &Load, requests: &[Request]) -> Result<Beside> {
    let head = format!("scheduler {} {}", load.scheduler, load.settings);
    let phases = if load.settings.contains("prio_aging_expire") { TICK_NS } else { 1 };
    let mut best: Option<Beside> = None;
    for phase in (0..phases).step_by(TICK_STEP_NS) {
        let found = compare(head.trim_end(), requests, phase)?;
        if best.as_ref().is_none_or(|best| best.equal < found.equal) {
            best = Some(found);
        }
    }
    best.context("there are no phases")
}

fn requests(csv: &str) -> Result<Vec<Request>> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().context("the table is empty")?.split(',').collect();
    let mut found = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |name: &str| {
            let at = names.iter().position(|known| *known == name);
            at.and_then(|at| fields.get(at).copied())
                .with_context(|| format!("a request has no {name}: {line}"))
        };
        let number = |name: &str| -> Result<u64> {
            field(name)?.parse().with_context(|| format!("{name} is not a number: {line}"))
        };
        let class = match number("ioprio")? {
            of if of >> 13 == 1 => format!("rt{}", of & 7),
            of if of >> 13 == 3 => "idle".to_owned(),
            of if of >> 13 == 2 => format!("be{}", of & 7),
            _ => "be4".to_owned(),
        };
        let op = field("op")?;
        let is_sync = op == "read" || field("flags")?.split('|').any(|flag| flag == "sync");
        found.push(Request {
            id: number("request_id")?,
            inserted: number("inserted_ns")?,
            issued: number("issued_ns")?,
            completed: number("completed_ns")?,
            text: format!(
                "{op} {} sector={} bytes={} process={} {class}",
                if is_sync { "sync" } else { "async" },
                number("sector")?,
                number("bytes")?,
                number("tid")?
            ),
        });
    }
    ensure!(!found.is_empty(), "the table has no requests");
    Ok(found)
}

/// A scheduler model that receives the same requests as the kernel's scheduler.
struct Beside {
    /// The test vector: the model's inputs, with its decisions.
    vector: String,
    /// The requests that the kernel issued, in order of issue.
    issued: Vec<u64>,
    /// The number of issued requests that the model chose too.
    equal: usize,
    /// The number of inserted requests that the model has not dispatched yet.
    waiting: usize,
    /// The dispatched request that the kernel keeps until the device is free.
    held: Option<u64>,
}

impl Beside {
    /// Asks the model for a decision when the kernel asks its scheduler. Returns whether the kernel's
    /// scheduler may have made the same decision.
    fn ask(&mut self, now: u64) -> Result<bool> {
        if self.held.is_some() || self.waiting == 0 {
            return Ok(true);
        }
        self.vector = answer(&format!("{}dispatch {now}\n", self.vector))?;
        let said = self.vector.trim_end().rsplit(' ').next().and_then(|word| word.parse().ok());
        let Some(id) = said else { return Ok(true) };
        self.held = Some(id);
        self.waiting -= 1;
        let is_equal = self.issued.get(self.equal) == Some(&id);
        self.equal += usize::from(is_equal);
        Ok(is_equal)
    }
}

/// Asks the model whenever the kernel could ask its scheduler, and compares the decisions with the issued
/// requests, up to the first difference. The recording does not show when the kernel's scheduler delayed
/// requests. If the model delays requests, this function asks it again at the next event, or when the kernel
/// issued a request if this is earlier.
///
/// `head` is the first line of the test vector, which begins at the time `start`.
fn compare(head: &str, requests: &[Request], start: u64) -> Result<Beside> {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Insert,
        Complete,
        Issue,
    }
    let mut events: Vec<(u64, Event, usize)> = Vec::new();
    for (at, request) in requests.iter().enumerate() {
        events.push((request.inserted, Event::Insert, at));
        events.push((request.issued, Event::Issue, at));
        events.push((request.completed, Event::Complete, at));
    }
    events.sort_unstable();
    let began = events.first().map_or(0, |(time, ..)| *time);
    let issues = events.iter().filter(|(_, event, _)| *event == Event::Issue);
    let issued = issues.map(|(.., at)| requests[*at].id).collect();
    let vector = format!("{head}\n");
    let mut beside = Beside { vector, issued, equal: 0, waiting: 0, held: None };
    for (time, event, at) in events {
        let (now, request) = (time - began + start, &requests[at]);
        match event {
            Event::Insert => {
                let _ = writeln!(beside.vector, "insert {now} id={} {}", request.id, request.text);
                beside.waiting += 1;
            }
            Event::Complete => {
                let _ = writeln!(beside.vector, "complete {now} id={}", request.id);
            }
            Event::Issue => {
                if !beside.ask(now)? || beside.held.take() != Some(request.id) {
                    break;
                }
            }
        }
        if !beside.ask(now)? {
            break;
        }
    }
    Ok(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
request_id,op,flags,sector,bytes,inserted_ns,issued_ns,completed_ns,tid,ioprio
1,read,,80,4096,100,110,200,7,16388
2,write,sync,16,4096,120,210,300,8,24576
3,read,,8,4096,130,310,400,7,8194
";

    #[test]
    fn the_model_is_asked_when_the_kernel_asks() {
        let requests = requests(TABLE).expect("a table");
        let vector = "\
scheduler noop
insert 0 id=1 read sync sector=80 bytes=4096 process=7 be4
dispatch 0 -> 1
insert 20 id=2 write sync sector=16 bytes=4096 process=8 idle
dispatch 20 -> 2
insert 30 id=3 read sync sector=8 bytes=4096 process=7 rt2
complete 100 id=1
dispatch 110 -> 3
complete 200 id=2
complete 300 id=3
";
        let found = compare("scheduler noop", &requests, 0).expect("a vector");
        assert_eq!((found.vector.as_str(), found.equal), (vector, 3));
        // Requests of the idle class wait for the other classes, so the real-time request is dispatched
        // first.
        let found = compare("scheduler mq-deadline", &requests, 0).expect("a vector");
        assert_eq!(found.equal, 1);
        assert!(found.vector.ends_with("dispatch 30 -> 3\n"), "{}", found.vector);
    }

    #[test]
    fn an_incomplete_table_is_named() {
        let error = requests("request_id,op\n1,read\n").expect_err("no instants");
        assert!(error.to_string().contains("has no ioprio"), "{error}");
    }
}
