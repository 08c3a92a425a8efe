//! The owner's connection to a serving process.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use fonio_core::Nanos;
use fonio_host::{Entry, Ledger, Step};
use fonio_sim::device::Limits;
use fonio_system::ProcessId;

use crate::error::EmulatorError;
use crate::report::ServeReport;
use crate::serve::{Answer, Order, ServeConfig};

/// A serving process that this process has started.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    entry: Entry,
    pub(crate) limits: Limits,
    pub(crate) fastest: Nanos,
    pub(crate) cpus_awake: bool,
}

impl Server {
    /// Starts `command`, which must call [`crate::serve()`], and waits until it is ready.
    pub(crate) fn start(
        ledger: &mut Ledger,
        mut command: Command,
        config: &ServeConfig,
    ) -> Result<Server, EmulatorError> {
        let name = command.get_program().to_string_lossy().into_owned();
        // In its own process group, because Ctrl-C is for the owner, which stops the server when the device is no longer
        // used.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(EmulatorError::system("start", name))?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let answers = BufReader::new(answers.expect("its output is piped"));
        let entry = match ProcessId::of(child.id()) {
            Some(id) => ledger.begin(Step::Process { id, leads_group: true })?,
            None => return Err(gone()),
        };
        let limits = Limits {
            capacity: config.capacity,
            depth: 0,
            command_max: config.capacity,
            discard_granularity: None,
            fua: false,
            volatile_cache: false,
            flush_blocks_all: false,
        };
        let mut server =
            Server { child, orders, answers, entry, limits, fastest: Nanos(0), cpus_awake: false };
        server.say(&serde_json::to_string(config).expect("paths of ours are UTF-8"))?;
        match server.hear()? {
            Answer::Ready { limits, fastest_ns, cpus_awake } => {
                server.limits = limits;
                server.fastest = fastest_ns;
                server.cpus_awake = cpus_awake;
                Ok(server)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Sends an order and waits until it is in effect.
    pub(crate) fn order(&mut self, order: &Order) -> Result<(), EmulatorError> {
        match self.ask(order)? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the statistics; the log has then been passed to the kernel.
    pub(crate) fn report(&mut self) -> Result<ServeReport, EmulatorError> {
        match self.ask(&Order::Report)? {
            Answer::Report(report) => Ok(*report),
            other => Err(unexpected(&other)),
        }
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process. The device must not be in use any more.
    pub(crate) fn stop(mut self, ledger: &mut Ledger) -> Result<(), EmulatorError> {
        self.orders = None;
        ledger.undo(self.entry)?;
        // The process has ended; this removes its entry from the process table.
        let _ = self.child.wait();
        Ok(())
    }

    fn ask(&mut self, order: &Order) -> Result<Answer, EmulatorError> {
        self.say(&serde_json::to_string(order).expect("orders are plain data"))?;
        self.hear()
    }

    fn say(&mut self, text: &str) -> Result<(), EmulatorError> {
        let orders = self.orders.as_mut().expect("orders are given until it is stopped");
        orders.write_all(format!("{text}\n").as_bytes()).map_err(|_| gone())
    }

    fn hear(&mut self) -> Result<Answer, EmulatorError> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).unwrap_or(0);
        let answer = serde_json::from_str(&line);
        match answer {
            Ok(Answer::Failed(reason)) => Err(EmulatorError::Server { reason }),
            Ok(answer) => Ok(answer),
            Err(_) if read == 0 => Err(gone()),
            Err(error) => {
                Err(EmulatorError::Server { reason: format!("it said {:?}: {error}", line.trim()) })
            }
        }
    }
}

fn gone() -> EmulatorError {
    EmulatorError::ServerGone { complaint: String::new() }
}

fn unexpected(answer: &Answer) -> EmulatorError {
    EmulatorError::Server { reason: format!("it gave an unexpected answer: {answer:?}") }
}
