//! Runs a script of an app: starts services, waits until they are ready, and runs commands.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fonio_system::command::Failure;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal as Sent, kill_process, pidfd_open};

use super::definition::{App, Ready, Script, Service, Signal, Step};
use super::outside::{Outside, Waiting, log_path};
use super::responses;
use super::root::{self, User, failed};
use crate::clock::monotonic_ns;
use crate::error::WorkloadError;
use crate::observer::{Mark, Observer};
use crate::outcome::{Amounts, Outcome, PhaseOutcome, StepOutcome};
use crate::scale::scaled;

/// How often a service is asked whether it is ready.
const POLL: Duration = Duration::from_millis(10);
/// How much of a program's output an error message shows at most, in bytes.
const SAID_BYTES: u64 = 1500;

/// The folders of a run.
#[derive(Clone, Debug)]
pub struct AppPlaces<'a> {
    /// The folder of the app's data, on the device under test.
    pub data: &'a Path,
    /// The root directory of the programs; `None` for the root directory of this machine.
    pub root: Option<&'a Path>,
    /// An empty folder, in which a file system in memory is mounted.
    pub scratch: &'a Path,
    /// Further folders that this process needs.
    pub needed: &'a [&'a Path],
    /// The far end of the link of the run; `None` if the run has no link.
    pub far: Option<FarEnd>,
    /// Further files and folders of this machine that the app needs.
    pub outside: &'a Outside,
}

/// The far end of a link, which begins in the network namespace of this process.
#[derive(Clone, Copy, Debug)]
pub struct FarEnd {
    /// The address of the far end.
    pub address: Ipv4Addr,
    /// The file that names its network namespace, for this process and all that it starts.
    pub namespace: &'static str,
}

/// Runs a script of an app once.
#[derive(Debug)]
pub struct AppRunner {
    app: App,
    script_name: String,
    script: Script,
    scale: f64,
    data: PathBuf,
    /// The folder for sockets and outputs, in memory.
    run: PathBuf,
    own_files: PathBuf,
    has_root: bool,
    far: Option<FarEnd>,
    running: Vec<Running>,
    /// The commands outside of the root directory that did not begin yet.
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Running {
    name: String,
    child: Child,
    ended: OwnedFd,
    log: PathBuf,
}

impl AppRunner {
    /// Enters the root directory of the app, for the whole process. The process must be alone in its mount namespace, and
    /// have one thread. `scale` multiplies the units of work. Fails if the app has no such script, or if a mount fails.
    pub fn enter(
        app: App,
        script: Option<&str>,
        scale: f64,
        places: &AppPlaces<'_>,
    ) -> Result<AppRunner, WorkloadError> {
        let (script_name, script) =
            app.script(script).map(|(name, script)| (name.to_owned(), script.clone()))?;
        root::keep_mounts()?;
        places.outside.copy(&app, places.data)?;
        let mut waiting = Vec::new();
        for step in app.prepare.iter().chain(&script.before).chain(&script.steps).filter(|step| step.outside)
        {
            waiting.push(Waiting::of(&app, step, scale)?);
        }
        let (run, own_files) = match places.root {
            Some(root) => {
                let further = places.outside.folders.iter().map(PathBuf::as_path);
                let shared: Vec<&Path> =
                    [places.data].into_iter().chain(places.needed.iter().copied()).chain(further).collect();
                root::enter(root, &shared, places.scratch)?;
                (PathBuf::from("/run/app"), PathBuf::from("/run/app-files"))
            }
            None => {
                root::mount_memory(places.scratch)?;
                (places.scratch.join("run"), places.scratch.join("files"))
            }
        };
        let runner = AppRunner {
            script_name,
            script,
            scale,
            data: places.data.to_owned(),
            run,
            own_files,
            has_root: places.root.is_some(),
            far: places.far,
            running: Vec::new(),
            waiting,
            app,
        };
        runner.make_folders()?;
        Ok(runner)
    }

    fn make_folders(&self) -> Result<(), WorkloadError> {
        let user = self.user(None)?;
        let home = self.run.join("home");
        for folder in [&self.run, &home, &self.own_files] {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        for folder in [&self.run, &home, &self.data] {
            std::os::unix::fs::chown(folder, Some(user.uid), Some(user.gid))
                .map_err(failed("change", folder))?;
        }
        for (name, text) in &self.app.files {
            let path = self.own_files.join(name);
            fs::write(&path, text).map_err(failed("write", &path))?;
            root::set_mode(&path, 0o755)?;
        }
        Ok(())
    }

    /// Makes the initial data, and runs the steps before the clock starts. Fails if a step fails.
    pub fn prepare(&mut self) -> Result<(), WorkloadError> {
        let steps: Vec<Step> = self.app.prepare.iter().chain(&self.script.before).cloned().collect();
        steps.iter().try_for_each(|step| self.step(step))
    }

    /// Runs the measured steps. Fails if a step fails or a service ends.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<Outcome, WorkloadError> {
        let start_ns = monotonic_ns();
        let (mut phases, mut steps) = (Vec::new(), Vec::new());
        for (at, step) in self.script.steps.clone().iter().enumerate() {
            let began = monotonic_ns();
            self.step(step)?;
            let ended = monotonic_ns();
            let (name, wall_ns) = (step.told(), ended - began);
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            let mark =
                Mark { name: name.clone(), round: 0, thread: None, tid, start_ns: began, end_ns: ended };
            observer.mark(&mark);
            phases.push(PhaseOutcome {
                name: name.clone(),
                start_ns: began,
                wall_ns,
                amounts: Amounts::default(),
                times: None,
            });
            let units = step.units.map_or(0, |_| self.units(step) * self.times(step));
            let responses = match &step.responses {
                Some(file) => responses::read(Path::new(&self.expand(file, 1)))
                    .map_err(|problem| self.problem(&name, problem, None))?,
                None => Vec::new(),
            };
            steps.push(StepOutcome {
                key: format!("{}/{}", self.script_name, at + 1),
                kind: self.app.unit.clone().unwrap_or_else(|| "unit".to_owned()),
                count: units,
                total_ns: wall_ns,
                longest_ns: wall_ns,
                responses,
            });
        }
        Ok(Outcome {
            workload: self.app.name.clone(),
            scale: self.scale,
            seed: 0,
            sqlite_version: String::new(),
            start_ns,
            wall_ns: monotonic_ns() - start_ns,
            amounts: Amounts::default(),
            phases,
            spans: BTreeMap::new(),
            steps,
            databases: BTreeMap::new(),
            files: BTreeMap::new(),
        })
    }

    /// Writes back the dirty pages of the file system with the data. Fails if syncfs(2) fails.
    pub fn write_back(&self) -> Result<(), WorkloadError> {
        let folder = File::open(&self.data).map_err(failed("open", &self.data))?;
        rustix::fs::syncfs(folder).map_err(failed("sync", &self.data))
    }

    /// Stops the services that still run, the last one first. Fails if one does not end.
    pub fn end(&mut self) -> Result<(), WorkloadError> {
        while let Some(name) = self.running.last().map(|running| running.name.clone()) {
            self.stop(&name)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), WorkloadError> {
        if let Some(name) = &step.start {
            return self.start(name);
        }
        if let Some(name) = &step.stop {
            return self.stop(name);
        }
        (0..self.times(step)).try_for_each(|_| self.command(step))
    }

    /// Returns how many units of work a step does each time.
    fn units(&self, step: &Step) -> u64 {
        step.scaled_units(self.scale)
    }

    /// Returns how often a step runs. Repetitions are scaled if the step has no units. A step without both runs once.
    fn times(&self, step: &Step) -> u64 {
        match (step.times, step.units) {
            (Some(times), None) => scaled(times, self.scale),
            (times, _) => times.unwrap_or(1),
        }
    }

    fn start(&mut self, name: &str) -> Result<(), WorkloadError> {
        let service = self.app.services[name].clone();
        if self.running.iter().any(|running| running.name == name) {
            return Err(self.problem(name, "it is running already".to_owned(), None));
        }
        let log = self.run.join(format!("{name}.log"));
        // What it said before it was stopped does not tell that it is ready now.
        let _ = fs::remove_file(&log);
        let far = self.far.filter(|_| service.behind_link);
        let child = self.spawn(&service.run, service.user.as_deref(), far, 1, &log, name)?;
        let ended = ended_fd(&child).map_err(failed("watch", &log))?;
        self.running.push(Running { name: name.to_owned(), child, ended, log: log.clone() });
        let began = Instant::now();
        let within = Duration::from_secs_f64(service.within_s);
        while !self.is_ready(&service, &log)? {
            self.check_services()?;
            if !self.running.iter().any(|running| running.name == name) {
                // It did its work and ended.
                return Ok(());
            }
            if began.elapsed() > within {
                let problem = format!("it was not ready within {} s", service.within_s);
                return Err(self.problem(name, problem, Some(&log)));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn is_ready(&self, service: &Service, log: &Path) -> Result<bool, WorkloadError> {
        Ok(match &service.ready {
            Ready::Port(port) => {
                let host = if service.behind_link { self.server() } else { Ipv4Addr::LOCALHOST };
                let address = SocketAddr::from((host, *port));
                TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
            }
            Ready::Socket(path) => UnixStream::connect(self.expand(path, 1)).is_ok(),
            Ready::File(path) => Path::new(&self.expand(path, 1)).exists(),
            Ready::Log(text) => fs::read(log).is_ok_and(|said| String::from_utf8_lossy(&said).contains(text)),
            Ready::Run(words) => {
                let said = self.run.join("ready.log");
                let mut child = self.spawn(words, service.user.as_deref(), None, 1, &said, "ready")?;
                child.wait().map_err(failed("wait for the program of", &said))?.success()
            }
        })
    }

    fn stop(&mut self, name: &str) -> Result<(), WorkloadError> {
        let Some(at) = self.running.iter().position(|running| running.name == name) else {
            return Err(self.problem(name, "it is not running".to_owned(), None));
        };
        let service = &self.app.services[name];
        let (within, sent) = (Duration::from_secs_f64(service.within_s), sent(service.signal));
        let mut running = self.running.remove(at);
        if let Some(pid) = Pid::from_raw(running.child.id().cast_signed()) {
            let _ = kill_process(pid, sent);
        }
        let began = Instant::now();
        loop {
            match running.child.try_wait().map_err(failed("wait for the program of", &running.log))? {
                Some(_) => return Ok(()),
                None if began.elapsed() > within => {
                    let _ = running.child.kill();
                    let _ = running.child.wait();
                    let problem = format!("it did not stop within {} s", within.as_secs_f64());
                    return Err(self.problem(name, problem, Some(&running.log)));
                }
                None => thread::sleep(POLL / 5),
            }
        }
    }

    fn command(&mut self, step: &Step) -> Result<(), WorkloadError> {
        let words = step.run.as_deref().unwrap_or_default();
        let told = step.told();
        let log = self.run.join("step.log");
        let _ = fs::remove_file(&log);
        // Its output is read as long as this file is open.
        let mut output = None;
        let (mut child, log) = if step.outside {
            let (child, file) =
                self.waiting.remove(0).begin().map_err(failed("write to the program of", &log))?;
            let log = log_path(output.insert(file));
            (child, log)
        } else {
            (self.spawn(words, step.user.as_deref(), None, self.units(step), &log, &told)?, log)
        };
        let ended = ended_fd(&child).map_err(failed("watch", &log))?;
        while !self.wait_for(&ended, &log)? {
            // A service ended while the command ran.
            if let Err(error) = self.check_services() {
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        }
        let status = child.wait().map_err(failed("wait for the program of", &log))?;
        if status.success() {
            return Ok(());
        }
        // The end of a service explains more than the complaint of its client.
        self.check_services()?;
        Err(self.problem(&told, format!("it failed ({})", described(status)), Some(&log)))
    }

    /// Waits until `ended` becomes readable, or a service ends. Returns whether `ended` is readable.
    fn wait_for(&self, ended: &OwnedFd, log: &Path) -> Result<bool, WorkloadError> {
        let mut watched: Vec<PollFd<'_>> = vec![PollFd::new(ended, PollFlags::IN)];
        watched.extend(self.running.iter().map(|running| PollFd::new(&running.ended, PollFlags::IN)));
        loop {
            match poll(&mut watched, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(failed("watch", log)(error)),
                Ok(_) => return Ok(!watched[0].revents().is_empty()),
            }
        }
    }

    fn spawn(
        &self,
        words: &[String],
        user: Option<&str>,
        far: Option<FarEnd>,
        units: u64,
        log: &Path,
        name: &str,
    ) -> Result<Child, WorkloadError> {
        let user = self.user(user)?;
        let words: Vec<String> = words.iter().map(|word| self.expand(word, units)).collect();
        let out = File::options().create(true).append(true).open(log).map_err(failed("create", log))?;
        let err = out.try_clone().map_err(failed("create", log))?;
        let mut command = match far {
            Some(far) => {
                // The user may not enter the namespace, so nsenter changes the user after it did.
                let mut command = Command::new("nsenter");
                command.arg(format!("--net={}", far.namespace));
                command.args([format!("--setuid={}", user.uid), format!("--setgid={}", user.gid)]);
                command.arg("--").arg(&words[0]);
                command
            }
            None => Command::new(&words[0]),
        };
        if self.has_root {
            command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
            command.env("LANG", "C.UTF-8").env("TZ", "UTC");
        }
        command.env("HOME", self.run.join("home"));
        for (key, value) in &self.app.environment {
            command.env(key, self.expand(value, units));
        }
        command.args(&words[1..]).current_dir(&self.data);
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        if user.uid != 0 && far.is_none() {
            command.uid(user.uid).gid(user.gid);
        }
        command.spawn().map_err(|error| {
            let problem = match error.kind() {
                std::io::ErrorKind::NotFound if self.has_root => {
                    format!("its packages do not contain the program {}", words[0])
                }
                std::io::ErrorKind::NotFound => {
                    format!("this machine does not have the program {}", words[0])
                }
                _ => format!("{} cannot be started: {error}", words[0]),
            };
            self.problem(name, problem, None)
        })
    }

    fn user(&self, name: Option<&str>) -> Result<User, WorkloadError> {
        match name.unwrap_or(&self.app.user) {
            "root" => Ok(User { uid: 0, gid: 0 }),
            name => User::named(&self.app.name, name),
        }
    }

    /// Replaces the variables in a word of a command.
    fn expand(&self, text: &str, units: u64) -> String {
        text.replace("$DATA", &self.data.to_string_lossy())
            .replace("$RUN", &self.run.to_string_lossy())
            .replace("$FILES", &self.own_files.to_string_lossy())
            .replace("$SERVER", &self.server().to_string())
            .replace("$UNITS", &units.to_string())
    }

    /// Returns the address of the services behind the link.
    fn server(&self) -> Ipv4Addr {
        self.far.map_or(Ipv4Addr::LOCALHOST, |far| far.address)
    }

    /// Forgets services that have ended and may do so. Fails if another one has ended.
    fn check_services(&mut self) -> Result<(), WorkloadError> {
        let mut at = 0;
        while let Some(running) = self.running.get_mut(at) {
            let Ok(Some(status)) = running.child.try_wait() else {
                at += 1;
                continue;
            };
            let running = self.running.remove(at);
            if status.success() && self.app.services[&running.name].may_end {
                continue;
            }
            let problem = format!("it ended too early ({})", described(status));
            return Err(self.problem(&running.name, problem, Some(&running.log)));
        }
        Ok(())
    }

    fn problem(&self, part: &str, problem: String, log: Option<&Path>) -> WorkloadError {
        let said = log.and_then(last_bytes).filter(|said| !said.is_empty());
        // A program may have removed what it could not write completely.
        let complains = |said: &String| said.to_lowercase().contains("no space left on device");
        let full = root::is_full(&self.data) || said.as_ref().is_some_and(complains);
        let hint = if full { "; the device is full: use a larger one, or --scale below 1" } else { "" };
        let said = said.map_or_else(String::new, |said| format!(". Its last output:\n{said}"));
        WorkloadError::AppFailed {
            app: self.app.told(),
            part: part.to_owned(),
            problem: format!("{problem}{hint}{said}"),
        }
    }
}

impl Drop for AppRunner {
    fn drop(&mut self) {
        for running in &mut self.running {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

fn sent(signal: Signal) -> Sent {
    match signal {
        Signal::Term => Sent::TERM,
        Signal::Int => Sent::INT,
        Signal::Quit => Sent::QUIT,
        Signal::Kill => Sent::KILL,
    }
}

/// Returns a descriptor that becomes readable when the process has ended.
fn ended_fd(child: &Child) -> std::io::Result<OwnedFd> {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process has a number above 0");
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Returns how a program ended, in words.
fn described(status: ExitStatus) -> String {
    let failure = Failure::of(status.code(), status.signal());
    failure.map_or_else(|| "exit code 0".to_owned(), |failure| failure.to_string())
}

/// Returns the end of a program's output.
fn last_bytes(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(SAID_BYTES))).ok()?;
    let mut said = Vec::new();
    file.read_to_end(&mut said).ok()?;
    Some(String::from_utf8_lossy(&said).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_not_ready_because_of_what_it_said_before() {
        let dir = tempfile::tempdir().expect("a folder can be made");
        let definition = "name = \"a\"\ntitle = \"\"\nabout = \"\"\n[services.s]\n\
             run = [\"sh\", \"-c\", \"[ -e once ] || { touch once; echo ready; }; exec sleep 60\"]\n\
             ready = { log = \"ready\" }\nwithin_s = 5\n\
             [scripts.session]\ntitle = \"\"\nsteps = [{ start = \"s\" }]\n";
        let app = App::parse(definition, "a test").expect("it is right");
        let mut runner = AppRunner {
            script_name: "session".to_owned(),
            script: app.scripts["session"].clone(),
            scale: 1.0,
            data: dir.path().to_owned(),
            run: dir.path().to_owned(),
            own_files: dir.path().to_owned(),
            has_root: false,
            far: None,
            running: Vec::new(),
            waiting: Vec::new(),
            app,
        };
        runner.start("s").expect("it says that it is ready");
        runner.stop("s").expect("it ends");
        let error = runner.start("s").expect_err("it says nothing");
        assert!(error.to_string().contains("it was not ready within 5 s"), "{error}");
    }
}
