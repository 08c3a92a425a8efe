//! Starts and ends the process of a workload. The process ends at the latest when the test bed is dropped.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use fonio_host::{Entry, LinkRates, PrivateLink};

use crate::error::ExperimentError;
use crate::rounds::check_stop;
use crate::task::{PREPARED, Task, TaskWork};
use crate::test_bed::{Roles, TestBed, enter_process};

/// The longest time in which a process that failed ends by itself, and how often it is asked.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

pub(crate) struct Worker {
    child: Child,
    entry: Option<Entry>,
    /// The file to which the process of an app writes why it failed.
    complaint: PathBuf,
}

impl Worker {
    pub(crate) fn prepare(
        bed: &mut TestBed,
        name: &str,
        task: &Task,
        roles: &Roles,
        stop: &AtomicBool,
    ) -> Result<Worker, ExperimentError> {
        let path = bed.scratch.join(format!("{name}.json"));
        let text = serde_json::to_vec(task).expect("a parsed workload can be written as JSON");
        std::fs::write(&path, text).map_err(ExperimentError::system("write", &path))?;
        let mut command = match task.work {
            TaskWork::Workload { .. } => {
                let mut command = Command::new(&roles.program);
                command.stdin(Stdio::null());
                command
            }
            TaskWork::App { link, .. } => {
                let mut command = alone(link);
                // The pipe closes when this process ends, however it ends.
                command.arg(&roles.program).stdin(Stdio::piped());
                command
            }
        };
        command.args(&roles.do_task).arg(&path).stdout(Stdio::piped());
        let program = Path::new(command.get_program()).to_owned();
        let mut child = command.spawn().map_err(ExperimentError::system("start", &program))?;
        let entry = enter_process(bed.ledger(), &child)?;
        let mut line = String::new();
        let out = child.stdout.take().expect("its output is piped");
        BufReader::new(out).read_line(&mut line).map_err(ExperimentError::system("read from", &program))?;
        let mut worker = Worker { child, entry, complaint: task.complaint() };
        check_stop(stop)?;
        if line.trim() == PREPARED { Ok(worker) } else { Err(worker.failure()) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the process and all that it started.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let mut found = vec![self.pid()];
        let mut at = 0;
        while let Some(pid) = found.get(at) {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let children =
                tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
            let children: Vec<u32> = children
                .flat_map(|text| {
                    text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>()
                })
                .collect();
            found.extend(children);
            at += 1;
        }
        found
    }

    /// Returns the error for a process that wrote no result, but wrote the reason into a file or printed it on standard error.
    pub(crate) fn failure(&mut self) -> ExperimentError {
        // It tells the reason after its last answer, and ends then.
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < ENDS_WITHIN {
            thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        if let Ok(complaint) = std::fs::read_to_string(&self.complaint) {
            return ExperimentError::AppFailed { complaint };
        }
        ExperimentError::TaskFailed { status, complaint: "the workload printed its error above".to_owned() }
    }

    pub(crate) fn end(&mut self, bed: &mut TestBed) -> Result<(), ExperimentError> {
        let waited = self.child.wait();
        waited.map_err(ExperimentError::system("wait for", "the workload's process"))?;
        match self.entry.take() {
            Some(entry) => Ok(bed.ledger().end(entry)?),
            None => Ok(()),
        }
    }
}

/// Returns a command that starts another one in namespaces of its own: its mounts, processes and ports are not those of
/// this machine, and end with it. With a link, the started command is at the near end.
fn alone(link: Option<LinkRates>) -> Command {
    let mut command = Command::new("unshare");
    // What is unmounted outside is unmounted here too, so that no device of another run stays in use.
    command.args(["--mount", "--propagation", "slave"]);
    command.args(["--pid", "--net", "--ipc", "--fork", "--kill-child", "--"]);
    // A new network namespace has a loopback device that is down.
    let plain = || "ip link set lo up && exec \"$@\"".to_owned();
    command.args(["sh", "-c", &link.map_or_else(plain, PrivateLink::script), "sh"]);
    command
}
