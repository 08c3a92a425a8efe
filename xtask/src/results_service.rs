//! Runs a results service for a benchmark or a demo on a free port of 127.0.0.1.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process;

/// Builds the results service, and the program that seeds its database and generates load.
pub fn build() -> Result<()> {
    let mut build = process::cargo();
    process::run(build.args(["build", "--release", "--package", "fonio-results", "--bins", "--examples"]))
}

/// Returns the path of the program that seeds the database of the service and generates load
/// (`crates/fonio-results/examples/load`).
pub fn load() -> PathBuf {
    process::target().join("release/examples/load")
}

/// A running results service. The service is killed when this value is dropped or when this process ends.
pub struct Service {
    child: Child,
    pub port: u16,
}

impl Service {
    /// Starts the service without limits per client. The service runs on the processor `processor`, or on all
    /// processors if this is `None`.
    pub fn start(folder: &Path, processor: Option<u32>) -> Result<Service> {
        let program = process::target().join("release/fonio-results");
        let mut command = match processor {
            Some(processor) => {
                let mut command = process::bound_to_this(Path::new("taskset"));
                command.args(["--cpu-list", &processor.to_string()]).arg(&program);
                command
            }
            None => process::bound_to_this(&program),
        };
        // The benchmarks and the demo send texts that nobody reviews, such as the board of this machine.
        command.args(["serve", "--listen", "127.0.0.1:0", "--no-review"]);
        command.args(["--requests-per-second", "1000000", "--submissions-per-minute", "10000000", "--data"]);
        let mut child =
            command.arg(folder).stdout(Stdio::piped()).spawn().context("cannot start the service")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut line)?;
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next()?.parse().ok());
        match port {
            Some(port) => Ok(Service { child, port }),
            None => {
                let _ = child.kill();
                child.wait()?;
                bail!("the service did not start; its message is above")
            }
        }
    }

    /// Returns the processor time that the service has used.
    pub fn processor_time(&self) -> Result<Duration> {
        process::processor_time(self.child.id())
    }

    /// Returns whether the service has ended unexpectedly.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Sends a GET request, and returns the body of the response, which must have the status 200.
    pub fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).context("cannot reach the service")?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).with_context(|| format!("cannot read the response to {path}"))?;
        let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("{path} has no answer"))?;
        let status = head.lines().next().unwrap_or_default();
        if !status.starts_with("HTTP/1.1 200 ") {
            bail!("the service responds `{status}` to {path}: {body}");
        }
        Ok(body.to_owned())
    }

    /// Kills the service with SIGKILL. The service cannot clean up.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
