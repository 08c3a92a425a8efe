//! Connects the owner to a serving process.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use fonio_core::Nanos;
use fonio_host::{Entry, Ledger, Step};
use fonio_sim::device::Limits;
use fonio_system::ProcessId;
use serde::Serialize;

use crate::error::EmulatorError;
use crate::memory::MemoryReport;
use crate::report::ServeReport;
use crate::serve::{Answer, Order, ServeConfig};

#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    entry: Entry,
    pub(crate) limits: Limits,
    pub(crate) fastest: Nanos,
    pub(crate) cpus_awake: bool,
    pub(crate) memory: MemoryReport,
}

impl Server {
    /// Starts `command`, which must call [`crate::serve()`], and waits until the device is ready.
    pub(crate) fn start(
        ledger: &mut Ledger,
        mut command: Command,
        config: &ServeConfig,
    ) -> Result<Server, EmulatorError> {
        let name = command.get_program().to_string_lossy().into_owned();
        // The server gets its own process group, because Ctrl-C must reach only the owner, which stops the
        // server once the device is unused.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(EmulatorError::system("start", name))?;
        let mut orders = child.stdin.take().expect("its input is piped");
        let mut answers = BufReader::new(child.stdout.take().expect("its output is piped"));
        let id = ProcessId::of(child.id()).ok_or(EmulatorError::ServerGone)?;
        let entry = ledger.begin(Step::Process { id, leads_group: true })?;
        say(&mut orders, config)?;
        match hear(&mut answers)? {
            Answer::Ready { limits, fastest_ns: fastest, cpus_awake, memory } => Ok(Server {
                child,
                orders: Some(orders),
                answers,
                entry,
                limits,
                fastest,
                cpus_awake,
                memory,
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends an order and waits until the order is in effect.
    pub(crate) fn order(&mut self, order: &Order) -> Result<(), EmulatorError> {
        match self.ask(order)? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes the server write out its log, and returns its statistics.
    pub(crate) fn report(&mut self) -> Result<ServeReport, EmulatorError> {
        match self.ask(&Order::Report)? {
            Answer::Report(report) => Ok(*report),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the serving process. The served device must no longer be in use.
    pub(crate) fn stop(mut self, ledger: &mut Ledger) -> Result<(), EmulatorError> {
        self.orders = None;
        ledger.undo(self.entry)?;
        let _ = self.child.wait();
        Ok(())
    }

    fn ask(&mut self, order: &Order) -> Result<Answer, EmulatorError> {
        say(self.orders.as_mut().expect("the order pipe is open until the server is stopped"), order)?;
        hear(&mut self.answers)
    }
}

fn say(orders: &mut ChildStdin, order: &impl Serialize) -> Result<(), EmulatorError> {
    let text = serde_json::to_string(order).expect("orders are plain data, and their paths are UTF-8");
    orders.write_all(format!("{text}\n").as_bytes()).map_err(|_| EmulatorError::ServerGone)
}

fn hear(answers: &mut BufReader<ChildStdout>) -> Result<Answer, EmulatorError> {
    let mut line = String::new();
    let read = answers.read_line(&mut line).unwrap_or(0);
    match serde_json::from_str(&line) {
        Ok(Answer::Failed(reason)) => Err(EmulatorError::Server { reason }),
        Ok(answer) => Ok(answer),
        Err(_) if read == 0 => Err(EmulatorError::ServerGone),
        Err(error) => Err(EmulatorError::Server { reason: format!("bad reply {:?}: {error}", line.trim()) }),
    }
}

fn unexpected(answer: &Answer) -> EmulatorError {
    EmulatorError::Server { reason: format!("unexpected reply: {answer:?}") }
}
