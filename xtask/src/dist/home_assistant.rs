//! `cargo xtask dist home-assistant`: builds the container of the Home Assistant add-on with podman, as the
//! Supervisor would, and runs it with a stand-in for the Supervisor's API.
//!
//! The base image of Home Assistant is not pulled: a shell (busybox) is enough for the add-on.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::apt::Server;
use super::program::FONIO;
use super::target::TARGETS;
use super::{folder, installer, package, sha256};
use crate::lab::steps::{all_kept, shown};
use crate::{process, tools};

/// The folder of the add-on.
const ADD_ON: &str = "packages/home-assistant/fonio";
const BASE: &str = "localhost/fonio-test-base";
const IMAGE: &str = "localhost/fonio-test-add-on";
const TOKEN: &str = "a-token-of-the-test";
/// The path to which the add-on sends its notification.
const PATH: &str = "/core/api/services/persistent_notification/create";
/// The add-on shows its verdict at the beginning of a minute, which is at least this far away when it starts. The watch
/// has nothing to report before its first minute.
const START_S: u64 = 130;
const WAIT: Duration = Duration::from_secs(360);

/// A request that the stand-in received.
struct Request {
    line: String,
    token: String,
    body: String,
}

/// podman, with its storage in a folder of its own.
struct Podman(PathBuf);

impl Podman {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut podman = Command::new("podman");
        podman.arg("--root").arg(self.0.join("storage")).arg("--runroot").arg(self.0.join("run"));
        podman.args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "file"]);
        // Unlike crun, runc also runs where both versions of control groups are mounted.
        podman.args(["--runtime", "runc"]).args(arguments);
        podman
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // Containers can be left after an error. Mounts of containers would keep the folder.
        let _ = process::output(&mut self.command(&["rm", "--all", "--force", "--time", "5"]));
    }
}

/// Builds and runs the container with the program for this machine in `target/dist`.
pub fn test() -> Result<()> {
    tools::ensure(&[tools::PODMAN])?;
    ensure!(process::is_root(), "the add-on records the machine; run this test as root");
    process::outlive_signals()?;
    let program = folder()?.join(FONIO.file(TARGETS[0]));
    ensure!(program.exists(), "{} does not exist; run `cargo xtask dist amd64` first", program.display());
    let scratch = tempfile::tempdir().context("cannot create a folder")?;
    let release = scratch.path().join("release");
    lay_out_release(&program, &release)?;
    let server = Server::start(&release)?;
    let podman = Podman(scratch.path().join("podman"));
    base(&podman, &scratch.path().join("base"))?;
    let arguments = [format!("BUILD_FROM={BASE}"), format!("FONIO_FROM={}", server.address)];
    let mut build =
        podman.command(&["build", "--quiet", "--isolation", "chroot", "--network", "host", "--tag", IMAGE]);
    build.args(arguments.iter().flat_map(|argument| ["--build-arg", argument]));
    process::run(build.arg(process::root().join(ADD_ON))).context("the container cannot be built")?;
    drop(server);
    println!("\nThe add-on in a container, with a stand-in for the Supervisor:\n");

    let (sender, requests) = mpsc::channel();
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    let supervisor = format!("FONIO_SUPERVISOR=http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if let Ok(request) = receive(stream)
                && sender.send(request).is_err()
            {
                return;
            }
        }
    });
    let at = process::output(Command::new("date").args([
        "--utc",
        &format!("--date=+{} seconds", START_S + 60),
        "+%H:%M",
    ]))?;
    for (name, has_token) in [("fonio-test-with", true), ("fonio-test-without", false)] {
        let data = scratch.path().join(name);
        package::write(&data.join("options.json"), format!(r#"{{"at": "{at}", "stall": "1s"}}"#).as_bytes())?;
        let mut run = podman.command(&["run", "--detach", "--name", name, "--pid=host", "--network", "host"]);
        run.args(["--security-opt", "apparmor=unconfined", "--env", &supervisor]);
        // In a virtual machine or container, podman's own limits can be above those of this process.
        run.args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]);
        for privilege in privileges()? {
            run.args(["--cap-add", &privilege]);
        }
        if has_token {
            run.args(["--env", &format!("SUPERVISOR_TOKEN={TOKEN}")]);
        }
        run.arg("--volume").arg(format!("{}:/data", data.display())).arg(IMAGE);
        process::output(&mut run).context("the container cannot be started")?;
    }
    let log = |name: &str| {
        let output = podman.command(&["logs", name]).output();
        output.map_or_else(
            |error| error.to_string(),
            |output| {
                format!(
                    "{}{}",
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                )
            },
        )
    };
    let mut broken = 0;
    let mut promise = |what: &str, holds: bool, found: &str| broken += u32::from(!shown(what, holds, found));
    let is_running = || {
        let mut inspect = podman.command(&["inspect", "--format", "{{.State.Running}}", "fonio-test-with"]);
        process::output(&mut inspect).is_ok_and(|text| text == "true")
    };
    let request = wait_for(&requests, &is_running);
    let text = request.as_ref().map_or_else(|error| format!("{error:#}"), |request| request.body.clone());
    let found = format!("{text}\n{}", log("fonio-test-with"));
    let request = request.ok();
    let is = |test: &dyn Fn(&Request) -> bool| request.as_ref().is_some_and(test);
    promise("a notification arrives", request.is_some(), &found);
    promise(
        "it goes to the API of Home Assistant",
        is(&|it| it.line.starts_with(&format!("POST {PATH} "))),
        &found,
    );
    promise("it has the token of the Supervisor", is(&|it| it.token == format!("Bearer {TOKEN}")), &found);
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    promise("it replaces the one of the day before", body["notification_id"] == "fonio", &found);
    let message = body["message"].as_str().unwrap_or_default();
    promise(
        "it has the report of the watch",
        message.contains("stall") && message.lines().count() > 2,
        &found,
    );
    println!("\n{}\n{message}\n", body["title"].as_str().unwrap_or_default());
    std::thread::sleep(Duration::from_secs(5));
    let without = log("fonio-test-without");
    promise(
        "without a Supervisor, the verdict is in the log",
        without.contains("there is no Supervisor") && without.contains("stall"),
        &without,
    );
    promise("no other request was sent", requests.try_recv().is_err(), "");
    for name in ["fonio-test-with", "fonio-test-without"] {
        process::output(&mut podman.command(&["stop", "--time", "20", name]))?;
        let code =
            process::output(&mut podman.command(&["inspect", "--format", "{{.State.ExitCode}}", name]))?;
        promise("the container ends when it is stopped", code == "0", &format!("{code}\n{}", log(name)));
    }
    let state = scratch.path().join("fonio-test-with/watch");
    let kept = fs::read_dir(&state).map_or(0, Iterator::count);
    promise("its history is in the folder of the add-on", kept > 0, &state.display().to_string());
    all_kept(broken)
}

/// Writes the files of a release that the container downloads.
fn lay_out_release(program: &Path, release: &Path) -> Result<()> {
    let name = FONIO.file(TARGETS[0]);
    package::install(program, &release.join(&name), 0o755)?;
    package::install(&process::root().join(installer::SCRIPT), &release.join("install.sh"), 0o755)?;
    let sum = sha256(&fs::read(program).with_context(|| format!("cannot read {}", program.display()))?);
    package::write(&release.join("SHA256SUMS"), format!("{sum}  {name}\n").as_bytes())
}

/// Builds an image with busybox, in place of Home Assistant's base image.
fn base(podman: &Podman, context: &Path) -> Result<()> {
    let busybox = fonio_testing::find_program("busybox").context("there is no busybox")?;
    package::install(&busybox, &context.join("root/bin/busybox"), 0o755)?;
    let applets = process::output(Command::new(&busybox).arg("--list"))?;
    for applet in applets.lines().filter(|applet| *applet != "busybox") {
        std::os::unix::fs::symlink("busybox", context.join("root/bin").join(applet))?;
    }
    for folder in ["tmp", "run", "etc", "usr/bin", "data"] {
        fs::create_dir_all(context.join("root").join(folder))?;
    }
    package::write(&context.join("Containerfile"), b"FROM scratch\nCOPY root/ /\nENV PATH=/usr/bin:/bin\n")?;
    let mut build = podman.command(&["build", "--quiet", "--tag", BASE]);
    process::run(build.arg(context)).context("the base image cannot be built")
}

/// Returns the capabilities in the configuration of the add-on.
fn privileges() -> Result<Vec<String>> {
    let path = process::root().join(ADD_ON).join("config.yaml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (_, list) = text.split_once("privileged:\n").context("config.yaml has no list `privileged`")?;
    Ok(list.lines().map_while(|line| line.strip_prefix("  - ").map(str::to_owned)).collect())
}

/// Receives a request, and answers it as Home Assistant does.
fn receive(mut stream: TcpStream) -> Result<Request> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let (mut token, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "authorization" => value.trim().clone_into(&mut token),
            "content-length" => length = value.trim().parse()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")?;
    Ok(Request { line, token, body: String::from_utf8(body)? })
}

fn wait_for(requests: &mpsc::Receiver<Request>, is_running: &dyn Fn() -> bool) -> Result<Request> {
    let began = Instant::now();
    while began.elapsed() < WAIT {
        process::check_signals()?;
        match requests.recv_timeout(Duration::from_secs(1)) {
            Ok(request) => return Ok(request),
            Err(mpsc::RecvTimeoutError::Timeout) => ensure!(is_running(), "the container ended"),
            Err(error) => return Err(error.into()),
        }
    }
    bail!("no notification came within {} s", WAIT.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_add_on_has_the_version_of_the_workspace_and_the_documented_privileges() {
        let folder = process::root().join(ADD_ON);
        let config = fs::read_to_string(folder.join("config.yaml")).expect("a configuration");
        assert!(config.contains(&format!("version: \"{}\"", package::VERSION)), "{config}");
        let dockerfile = fs::read_to_string(folder.join("Dockerfile")).expect("a Dockerfile");
        assert!(dockerfile.contains(&format!("ARG BUILD_VERSION={}\n", package::VERSION)), "{dockerfile}");
        assert_eq!(privileges().expect("a list"), ["SYS_ADMIN", "SYS_PTRACE", "DAC_READ_SEARCH", "SYSLOG"]);
    }
}
