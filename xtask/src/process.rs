//! Runs other programs and reports their failures.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fonio_system::signals::{self, Signal};
use wait4::Wait4;

/// Returns the path of the root folder of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}

/// Returns the path of cargo's target directory.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds fonio in the release configuration and returns the path of the program.
pub fn build_fonio() -> Result<PathBuf> {
    run(cargo().args(["build", "--release", "--workspace", "--bin", "fonio"]))?;
    Ok(target().join("release/fonio"))
}

/// Builds fonio in the configuration of the tests, and returns the path of the program. This is faster than a
/// release build.
pub fn build_fonio_for_tests() -> Result<PathBuf> {
    run(cargo().args(["build", "--workspace", "--bin", "fonio"]))?;
    Ok(target().join("debug/fonio"))
}

/// Builds the program `fonio-recorder` in the configuration of the tests, and returns its path.
pub fn build_recorder_for_tests() -> Result<PathBuf> {
    run(cargo().args(["build", "--workspace", "--bin", "fonio-recorder"]))?;
    Ok(target().join("debug/fonio-recorder"))
}

/// Returns the path of the fonio program of a study, and the name of its configuration for results: `program`
/// if it is set, otherwise a new build for tests.
pub fn fonio_of_study(program: Option<&Path>) -> Result<(PathBuf, &'static str)> {
    let Some(program) = program else { return Ok((build_fonio_for_tests()?, "Debug build")) };
    let program = program.canonicalize().with_context(|| format!("cannot find {}", program.display()))?;
    let text = |name: Option<&OsStr>| name.and_then(OsStr::to_str).unwrap_or_default().to_owned();
    let (name, folder) = (text(program.file_name()), text(program.parent().and_then(Path::file_name)));
    let build = match folder.as_str() {
        // `cargo xtask dist` gives its programs the name of their target.
        _ if name.contains("-linux-musl") => "Static release build",
        "debug" => "Debug build",
        "release" => "Release build",
        _ => "Build of an unknown configuration",
    };
    Ok((program, build))
}

/// Returns a folder for generated files. It is in the target directory, so `cargo clean` removes it.
pub fn scratch(name: &str) -> Result<PathBuf> {
    let dir = target().join("xtask").join(name);
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir)
}

/// Returns whether this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns a cargo command that runs in the root folder of the repository.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The options with which cargo checks or tests the complete workspace.
pub const WHOLE_WORKSPACE: [&str; 1] = ["--workspace"];

/// Builds the sync-policy library and returns the library's path.
pub fn build_sync_library() -> Result<PathBuf> {
    run(cargo().args(["build", "--package", "fonio-sqlite-sync"]))?;
    let library = target().join("debug/libfonio_sqlite_sync.so");
    // The loader ignores a missing library, and then the programs would sync as without a policy.
    ensure!(library.exists(), "cargo did not build {}", library.display());
    Ok(library)
}

/// Returns a command for `program` that receives SIGTERM when this process ends for any reason.
pub fn bound_to_this(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]).arg(program);
    command
}

/// Whether Ctrl-C or SIGTERM was received since [`outlive_signals`].
static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Prevents Ctrl-C and SIGTERM from ending this process, because it has changes to undo. After such a signal,
/// [`check_signals`] fails. Ctrl-C also reaches the programs that this process runs. Returns a flag that
/// shows whether a signal was received.
pub fn outlive_signals() -> Result<Arc<AtomicBool>> {
    if let Some(stop) = INTERRUPTED.get() {
        return Ok(Arc::clone(stop));
    }
    let stop = signals::watch(&[Signal::INT, Signal::TERM]).context("cannot handle signals")?;
    Ok(Arc::clone(INTERRUPTED.get_or_init(|| stop)))
}

/// Fails if Ctrl-C or SIGTERM was received since [`outlive_signals`].
pub fn check_signals() -> Result<()> {
    if INTERRUPTED.get().is_some_and(|stop| stop.load(Ordering::Relaxed)) {
        bail!("interrupted");
    }
    Ok(())
}

/// Runs a command that writes to the output of this process. An exit code other than 0 is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{} failed: {status}", shown(command));
    }
    Ok(())
}

/// Returns a command's output without the last newline; an exit code other than 0 is an error.
pub fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !out.status.success() {
        bail!("{} failed: {}\n{}", shown(command), out.status, String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim_end().to_owned())
}

/// Removes a folder with its contents, if it exists.
pub fn remove_folder(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The resources that a process used.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Processor time in user and kernel mode.
    pub cpu: Duration,
    /// Elapsed time from the start to the end of the process.
    pub wall: Duration,
    /// Largest resident set size in bytes.
    pub peak_bytes: u64,
}

/// Runs a command, discards its output, and measures its resource use.
pub fn measure(command: &mut Command) -> Result<Usage> {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let used = child.wait4().context("cannot wait for a child process")?;
    let wall = began.elapsed();
    if !used.status.success() {
        bail!("{} failed: {}", shown(command), used.status);
    }
    Ok(Usage { cpu: used.rusage.utime + used.rusage.stime, wall, peak_bytes: used.rusage.maxrss })
}

/// Returns the processor time that a running process has used, in user and kernel mode.
pub fn processor_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The process name, in parentheses, can contain spaces. Of the fields after the name, the 12th is the
    // user time, and the 13th is the system time.
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    let ticks: Vec<u64> =
        behind.split_whitespace().skip(11).take(2).filter_map(|word| word.parse().ok()).collect();
    let [user, system] = ticks[..] else { bail!("{path} has no processor time") };
    Ok(Duration::from_secs(user + system) / rustix::param::clock_ticks_per_second() as u32)
}

/// Formats a command as a user would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    format!("`{}`", words.join(" "))
}
