//! Runs the benchmark program fio.
//!
//! fio runs in its own process group, so Ctrl-C reaches it only through this process. If util-linux's
//! `setpriv` is installed, fio ends together with this process; otherwise the time limit of its job ends it.

pub mod output;

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fonio_core::Access;

use crate::error::BenchError;
use crate::plan::{Set, Test};
use crate::result::Run;

/// The installed program fio.
#[derive(Clone, Debug)]
pub struct Fio {
    program: PathBuf,
    /// The name and version that fio reports, such as `fio-3.33`.
    pub version: String,
    setpriv: Option<PathBuf>,
}

const POLL: Duration = Duration::from_millis(20);

/// A script that starts a program only if its parent is still the process with the given id. A parent that is
/// killed before `setpriv` has asked for the signal would otherwise leave fio behind.
const IF_OUR_CHILD: &str = r#"test "$PPID" = "$0" && exec "$@""#;

/// Averaging interval for the throughput of a sustained write.
pub const RATE_INTERVAL_MS: u64 = 500;

/// Conditions under which fio is stopped early.
#[derive(Clone, Copy, Debug)]
pub struct Limit<'a> {
    /// Set when the user interrupts the benchmark.
    pub stop: &'a AtomicBool,
    /// The time at which fio is stopped.
    pub until: Instant,
}

/// Request size of a preparation; the simulator uses the same size.
const PREPARE_REQUEST_BYTES: u64 = 512 << 10;

impl Fio {
    /// Finds the fio program in `PATH`. Fails with [`BenchError::FioMissing`] if fio is not installed or does
    /// not run.
    pub fn find() -> Result<Fio, BenchError> {
        let program = on_path("fio").ok_or(BenchError::FioMissing)?;
        let out = Command::new(&program).arg("--version").output().map_err(|_| BenchError::FioMissing)?;
        let version = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        Ok(Fio { program, version, setpriv: on_path("setpriv") })
    }

    /// Writes the first `bytes` of `file` sequentially and syncs them. Fails if fio fails, or with
    /// [`BenchError::Interrupted`] or [`BenchError::TimeOver`] if `limit` ended fio.
    pub fn prepare(&self, file: &Path, bytes: u64, limit: Limit<'_>) -> Result<(), BenchError> {
        let mut arguments = shared(file, 0);
        arguments.extend(words(&[
            "--end_fsync=1",
            "--name=prepare",
            "--rw=write",
            &format!("--bs={PREPARE_REQUEST_BYTES}"),
            &format!("--size={}", bytes / PREPARE_REQUEST_BYTES * PREPARE_REQUEST_BYTES),
        ]));
        self.run(arguments, limit).map(drop)
    }

    /// Runs one test once, for at most `time_max`; a sustained write also records its throughput over time.
    pub fn measure(
        &self,
        file: &Path,
        test: &Test,
        time_max: Duration,
        seed: u64,
        limit: Limit<'_>,
    ) -> Result<Run, BenchError> {
        let mut arguments = shared(file, seed);
        let runtime = format!("--runtime={}ms", time_max.as_millis());
        let size = format!("--size={}", test.range_bytes);
        let request = format!("--bs={}", test.request_bytes);
        arguments.extend(words(&[&runtime, &size, &request]));
        let in_rounds = test.set == Set::ConcurrencyParameters;
        // If one fio process ended early, the other processes would run with fewer concurrent requests.
        if test.beside.is_some() || in_rounds {
            arguments.extend(words(&["--exitall"]));
        }
        if test.beside.is_none() {
            arguments.extend(words(&["--group_reporting"]));
        }
        arguments.extend(words(&[
            "--name=measured",
            &rw(test.access),
            &format!("--io_size={}", test.requests * test.request_bytes),
            &format!("--numjobs={}", test.processes),
            &format!("--offset_increment={}", test.range_bytes),
        ]));
        if let Some(other) = test.beside {
            arguments.extend(words(&[
                "--name=beside",
                &rw(other),
                "--time_based",
                &runtime,
                &format!("--numjobs={}", test.processes),
                &format!("--offset={}", u64::from(test.processes) * test.range_bytes),
                &format!("--offset_increment={}", test.range_bytes),
            ]));
        }
        let scratch = scratch()?;
        let rates = test.set == Set::Sustained;
        if rates {
            // With the option `overwrite`, fio would first write the complete file, which would fill the
            // device's fast cache.
            arguments.extend(words(&["--overwrite=0", "--fallocate=native"]));
            let prefix = scratch.path().join("rate");
            arguments.extend(words(&[
                &format!("--write_bw_log={}", prefix.display()),
                &format!("--log_avg_msec={RATE_INTERVAL_MS}"),
            ]));
        }
        let text = self.run(arguments, limit)?;
        let mut run = output::parse(&text, test)?;
        if rates {
            let log = scratch.path().join("rate_bw.1.log");
            let text = fs::read_to_string(&log).map_err(BenchError::system("read", &log))?;
            run.rates_mb_s = output::rates(&text)?;
        }
        Ok(run)
    }

    fn run(&self, arguments: Vec<OsString>, limit: Limit<'_>) -> Result<String, BenchError> {
        let scratch = scratch()?;
        let (out, err) = (scratch.path().join("out"), scratch.path().join("err"));
        let mut command = match &self.setpriv {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--", "sh", "-c", IF_OUR_CHILD]);
                command.arg(std::process::id().to_string()).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        let create = |path: &Path| File::create(path).map_err(BenchError::system("create", path));
        command
            .args(&arguments)
            .current_dir(scratch.path())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(create(&out)?)
            .stderr(create(&err)?);
        let mut child = command.spawn().map_err(BenchError::system("start", &self.program))?;
        let status = loop {
            let ended = child.try_wait().map_err(BenchError::system("wait for", &self.program))?;
            if let Some(status) = ended {
                break status;
            }
            let stopped = limit.stop.load(Ordering::Relaxed);
            if stopped || Instant::now() >= limit.until {
                // `kill` fails if fio has just ended.
                let _ = child.kill();
                child.wait().map_err(BenchError::system("wait for", &self.program))?;
                return Err(if stopped { BenchError::Interrupted } else { BenchError::TimeOver });
            }
            std::thread::sleep(POLL);
        };
        let read = |path: &Path| fs::read(path).map_err(BenchError::system("read", path));
        let text = String::from_utf8_lossy(&read(&out)?).into_owned();
        if !status.success() {
            let said = String::from_utf8_lossy(&read(&err)?).into_owned();
            let said = if said.trim().is_empty() { text } else { said };
            let shown: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
            return Err(BenchError::FioFailed {
                command: format!("fio {}", shown.join(" ")),
                status: status.to_string(),
                output: said.trim().chars().take(500).collect(),
            });
        }
        Ok(text)
    }
}

fn scratch() -> Result<tempfile::TempDir, BenchError> {
    tempfile::tempdir().map_err(BenchError::system("make a folder in", &std::env::temp_dir()))
}

/// Returns the options of all jobs: direct I/O, one request in flight, and random addresses that can repeat,
/// as in the model.
fn shared(file: &Path, seed: u64) -> Vec<OsString> {
    let mut name = OsString::from("--filename=");
    // In fio's syntax, an unescaped colon would end the file name.
    name.push(file.to_string_lossy().replace(':', "\\:"));
    let mut arguments = words(&[
        "--output-format=json",
        "--eta=never",
        "--direct=1",
        "--ioengine=psync",
        "--thread",
        "--norandommap",
        "--overwrite=1",
        "--fallocate=none",
        "--percentile_list=50:99",
        &format!("--randseed={}", seed + 1),
    ]);
    arguments.push(name);
    arguments
}

fn rw(access: Access) -> String {
    let word = match access {
        Access::SeqRead => "read",
        Access::SeqWrite => "write",
        Access::RandRead => "randread",
        Access::RandWrite => "randwrite",
    };
    format!("--rw={word}")
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}
