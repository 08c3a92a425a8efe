//! The part *phone* of `cargo xtask lab test`: a complete Debian stands for a phone. Its /data is f2fs on an
//! encrypted disk, its apps have users of their own, and Debian's adbd and perfetto record it with `fonio record --in
//! android`, as on a phone without root; then fonio's recorder does, as on a phone with root. Meanwhile, fonio in the guest
//! records the same load. No phone is touched.
//!
//! On another processor than that of this machine, the guest has no fonio. The program `fonio-recorder` then records there;
//! it has the command `fonio record` alone.

use std::net::TcpListener;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fonio_lab::{Architecture, Forward, SystemOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use xtask::results::{Cell, Row, StudyResult, folder};

use crate::lab::steps::{Steps, in_debian, ok, text};
use crate::{dist, process, tools};

const DISK_BYTES: u64 = 512 << 20;
/// The port of adbd.
const ADBD: NonZero<u16> = NonZero::new(5555).expect("it is not 0");
const PACKAGES: [&str; 6] = ["adbd", "perfetto", "cryptsetup-bin", "f2fs-tools", "fio", "mksh"];
/// The scripts of the guest, and their names.
const SCRIPTS: [(&str, &str); 4] = [
    ("prepare.sh", include_str!("phone_prepare.sh")),
    ("load.sh", include_str!("phone_load.sh")),
    ("began.sh", include_str!("phone_began.sh")),
    ("left.sh", include_str!("phone_left.sh")),
];
/// The program of the guest that records beside the phone's recording. It begins before the other, and is ended after it.
const BESIDE: &str = "/usr/local/bin/beside";
/// Minimum number of requests of the load: the synchronous writes of one app and the reads of the other.
const REQUESTS_MIN: usize = 260;
/// Time within which nothing is left on a phone that was left alone.
const LEFT_ALONE: Duration = Duration::from_secs(15);
/// Time for which the test waits for the end of a recording.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

/// The files of the results.
const COMPARED: &str = "lab-phone";
const LEFT: &str = "lab-phone-left";
const COMMAND: &str = "cargo xtask lab test phone --arch amd64,arm64";
const NO_PHONE: &str = "The phone is a stand-in in a guest of the lab: no phone was touched.";

/// The adb client of this test, with a server and keys of its own.
struct Client<'a> {
    serial: &'a str,
    server: NonZero<u16>,
    home: &'a Path,
}

impl Client<'_> {
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("ANDROID_ADB_SERVER_PORT", self.server.to_string()).env("HOME", self.home);
        // A killed fonio leaves its temporary folder.
        command.env("TMPDIR", self.home);
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    fn connect(&self) -> Result<()> {
        for _ in 0..60 {
            process::check_signals()?;
            let said =
                process::output(self.command("adb").args(["connect", self.serial]).stderr(Stdio::null()))?;
            // The client may believe for a moment that the old connection still exists.
            if said.contains("connected to")
                && self.command("adb").args(["-s", self.serial, "shell", "true"]).status()?.success()
            {
                return Ok(());
            }
            thread::sleep(Duration::from_secs(2));
        }
        anyhow::bail!("adb cannot connect to the guest")
    }

    /// Returns the process of the server.
    fn server(&self) -> Result<Pid> {
        let pattern = format!("tcp:([^ ]*:)?{} fork-server", self.server);
        let found = process::output(Command::new("pgrep").args(["-f", &pattern]))?;
        let pid = found.lines().next().and_then(|pid| pid.trim().parse().ok());
        pid.and_then(Pid::from_raw).context("adb has no server")
    }

    fn fonio(&self, fonio: &Path, words: &[&str]) -> Command {
        let mut command = self.command(fonio);
        let place = format!("android:{}", self.serial);
        command.args(words).args(["--in", &place]);
        command
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        let _ = self.command("adb").arg("kill-server").stderr(Stdio::null()).status();
    }
}

/// A program that runs beside the test, and is killed if the test fails.
struct Beside(Child);

impl Beside {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Waits for its end.
    fn end(&mut self) -> Result<ExitStatus> {
        let until = Instant::now() + ENDS_WITHIN;
        loop {
            process::check_signals()?;
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            if Instant::now() >= until {
                bail!("a program did not end within {} s", ENDS_WITHIN.as_secs());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A way of recording a phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Perfetto,
    Recorder,
}

impl Way {
    const ALL: [Way; 2] = [Way::Perfetto, Way::Recorder];

    /// Returns what `fonio record --in android` says when it takes this way.
    fn said(self) -> &'static str {
        match self {
            Way::Perfetto => "By perfetto.",
            Way::Recorder => "By fonio's recorder.",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Way::Perfetto => "perfetto",
            Way::Recorder => "fonio's recorder, as root",
        }
    }
}

/// The end of a recording by something that happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Interrupted,
    FonioKilled,
    FonioStopped,
    ClientKilled,
    ServerKilled,
    DaemonKilled,
    AllKilled,
}

impl Loss {
    const ALL: [(Loss, &str); 7] = [
        (Loss::Interrupted, "Ctrl-C, from the end of fonio on"),
        (Loss::FonioKilled, "`kill -9` of fonio"),
        (Loss::FonioStopped, "`kill -STOP` of fonio"),
        (Loss::ClientKilled, "`kill -9` of the adb client"),
        (Loss::ServerKilled, "`kill -9` of the adb server"),
        (Loss::DaemonKilled, "`kill -9` of adbd, and `TERM` for its commands"),
        (Loss::AllKilled, "`kill -9` of adbd and all its commands, then the next recording"),
    ];
}

/// The programs and folders of a test.
struct Test<'a> {
    architecture: Architecture,
    client: Client<'a>,
    fonio: &'a Path,
    /// The recorder for the processor of the guest.
    recorder: &'a Path,
    folder: &'a Path,
}

/// Runs all checks on each architecture. Returns the number of broken promises.
pub fn run(architectures: &[Architecture]) -> Result<u32> {
    tools::ensure(&[tools::SYSTEM_GUEST, tools::PHONE])?;
    let built = process::build_fonio_for_tests()?;
    let mut broken = 0;
    for architecture in architectures {
        let recorder = if Architecture::of_this_machine() == Some(*architecture) {
            process::build_recorder_for_tests()?
        } else {
            dist::recorder_for_tests(*architecture)?
        };
        broken += on(&built, &recorder, *architecture)?;
    }
    println!("\nPromised: all of these. {NO_PHONE}\n");
    Ok(broken)
}

fn on(fonio: &Path, recorder: &Path, architecture: Architecture) -> Result<u32> {
    let folder = tempfile::tempdir()?;
    let [port, server] = [free_port()?, free_port()?];
    let serial = format!("127.0.0.1:{port}");
    let options = SystemOptions {
        architecture,
        packages: PACKAGES.map(str::to_owned).to_vec(),
        disks: vec![DISK_BYTES],
        forwards: vec![Forward { here: port, guest: ADBD }],
        ..SystemOptions::default()
    };
    in_debian("A stand-in for a phone", &options, |steps| {
        for (name, text) in SCRIPTS {
            let file = folder.path().join(name);
            std::fs::write(&file, text)?;
            steps.system.put(&file, &format!("/root/{name}"))?;
        }
        let recorder = fonio_lab::stripped(recorder, &folder.path().join("fonio-recorder"))?;
        let is_own = Architecture::of_this_machine() == Some(architecture);
        let beside =
            if is_own { fonio_lab::stripped(fonio, &folder.path().join("fonio"))? } else { recorder.clone() };
        steps.system.put(&beside, BESIDE)?;
        ok(steps.system, "sh -x /root/prepare.sh")?;
        let client = Client { serial: &serial, server, home: folder.path() };
        client.connect()?;
        let test = Test { architecture, client, fonio, recorder: &recorder, folder: folder.path() };
        let beside = if is_own { "record" } else { "" };
        for way in Way::ALL {
            test.set_root(steps, way)?;
            test.compare(steps, way, beside)?;
        }
        test.set_root(steps, Way::Perfetto)?;
        test.check_and_launch(steps)?;
        let mut times = Vec::new();
        for way in Way::ALL {
            test.set_root(steps, way)?;
            times.push(test.leave(steps, way)?);
        }
        let rows = Loss::ALL.iter().enumerate().map(|(place, (_, what))| Row {
            name: format!("{architecture}: {what}"),
            cells: times.iter().map(|times| Cell::once(times[place], "s", 1)).collect(),
        });
        let title = "time until nothing is left on a stand-in for a phone: no files, no processes, no tracefs instances";
        let columns = ["what happens to a recording", "perfetto", "fonio's recorder, as root"];
        keep(LEFT, title, &columns, rows.collect(), times.iter().flatten().any(Option::is_none))
    })
}

impl Test<'_> {
    /// Makes adb's shell root, or not.
    fn set_root(&self, steps: &mut Steps<'_, '_>, way: Way) -> Result<()> {
        let line = if way == Way::Recorder { "touch /run/rooted" } else { "rm -f /run/rooted" };
        ok(steps.system, line)
    }

    /// Starts `fonio record --in android` until Ctrl-C, and waits until the phone records. Its messages go to a file.
    fn record(&self, steps: &mut Steps<'_, '_>, name: &str) -> Result<Beside> {
        let log = std::fs::File::create(self.log(name))?;
        let recording = self.path(name);
        let mut command = self.client.fonio(self.fonio, &["record", "--overwrite"]);
        command.arg("--recorder").arg(self.recorder).arg("-o").arg(recording);
        let mut record = Beside(command.stdout(Stdio::null()).stderr(log).spawn()?);
        self.begins(steps, name, &mut record)?;
        Ok(record)
    }

    /// Waits until fonio says that the recording begins, and until perfetto has written to its file.
    fn begins(&self, steps: &mut Steps<'_, '_>, name: &str, record: &mut Beside) -> Result<()> {
        let until = Instant::now() + ENDS_WITHIN;
        loop {
            process::check_signals()?;
            let said = std::fs::read_to_string(self.log(name))?;
            if said.contains("The recording begins.") {
                if said.contains(Way::Perfetto.said()) {
                    ok(steps.system, "sh /root/began.sh").context("perfetto writes nothing")?;
                }
                return Ok(());
            }
            if Instant::now() >= until || record.0.try_wait()?.is_some() {
                bail!("the recording did not begin: {said}");
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// Checks that both recordings of a load have the same requests, and that apps have their names.
    fn compare(&self, steps: &mut Steps<'_, '_>, way: Way, beside: &str) -> Result<()> {
        println!("\nBy {}:", way.name());
        let disk =
            text(steps.system, "cat /sys/block/$(basename $(readlink -f /dev/disk/by-id/virtio-disk1))/dev")?;
        ok(
            steps.system,
            &format!(
                "rm -rf /root/beside*; systemd-run --collect --unit beside -p StandardError=file:/root/beside.log \
                 {BESIDE} {beside} --device {disk} -o /root/beside; \
                 for try in $(seq 600); do grep -q ^Recording /root/beside.log && exit 0; sleep 0.5; done; \
                 cat /root/beside.log >&2; exit 1"
            ),
        )
        .context("fonio in the guest does not record")?;
        let name = format!("phone-{way:?}");
        let mut record = self.record(steps, &name)?;
        let said = text(steps.system, "sh /root/load.sh && ls -A /data/data")?;
        steps.promise("two apps wrote and read", said.contains("com.example.notes"), &said);
        kill_process(record.pid(), Signal::INT)?;
        let status = record.end()?;
        let log = std::fs::read_to_string(self.log(&name))?;
        steps.promise("Ctrl-C ends the recording", status.code() == Some(130), &format!("{status}: {log}"));
        steps.promise("the recording is made in this way", log.contains(way.said()), &log);
        ok(
            steps.system,
            "systemctl kill -s INT beside; while systemctl is-active -q beside; do sleep 1; done; \
             tar -cf /root/beside.tar -C /root beside",
        )?;
        let packed = self.path("beside.tar");
        steps.system.get("/root/beside.tar", &packed)?;
        process::remove_folder(&self.path("beside"))?;
        process::run(Command::new("tar").arg("-xf").arg(&packed).arg("-C").arg(self.folder))?;
        let here = self.table(&self.path(&name), &disk)?;
        let there = self.table(&self.path("beside"), &disk)?;
        let enough = here.len() >= REQUESTS_MIN;
        steps.promise("it has requests of both apps", enough, &here.len().to_string());
        println!("  {} requests; {} in the guest, during a longer time", here.len(), there.len());
        let found = there.windows(here.len().max(1)).position(|some| some == here);
        steps.promise(
            "fonio in the guest recorded the same requests in this order",
            found.is_some(),
            &difference(&here, &there),
        );
        let [of_here, of_there] = [&name, "beside"].map(|name| self.apps(&self.path(name), &disk));
        let (of_here, of_there) = (of_here?, of_there?);
        let shown = format!("{of_here:?} and {of_there:?}");
        steps.promise("each app has the same bytes in both", of_here == of_there && of_here[0] > 0.0, &shown);
        if way == Way::Perfetto {
            let report =
                process::output(Command::new(self.fonio).arg("report").arg(self.path(&name)).arg("--all"))?;
            for app in ["com.example.notes", "com.example.maps"] {
                steps.promise(&format!("the report names {app}"), report.contains(app), &report);
            }
        }
        self.nothing_left(steps, "nothing is left", None, Duration::from_secs(5))?;
        let same = found.map(|begin| &there[begin..begin + here.len()]).unwrap_or_default();
        let equal = if found.is_some() { "yes" } else { "**no**" };
        let row = |title: String, requests: &[Done], apps: [f64; 2], equal: &str| {
            let bytes = |op: &str| {
                let of_op = requests.iter().filter(|request| request.op == op);
                Cell::once(of_op.map(|request| request.bytes).sum::<u64>() as f64, "", 0)
            };
            let mut cells = vec![Cell::count(requests.len()), bytes("read"), bytes("write")];
            cells.extend(apps.map(|bytes| Cell::once(bytes, "", 0)));
            cells.push(equal.into());
            Row { name: format!("{}, load {}: {title}", self.architecture, 1 + way as u32), cells }
        };
        let program = if beside.is_empty() { "`fonio-recorder`" } else { "`fonio record`" };
        let rows = vec![
            row(format!("{program} in the guest"), same, of_there, ""),
            row(format!("`record --in android`, by {}", way.name()), &here, of_here, equal),
        ];
        let columns = [
            "recording",
            "requests",
            "bytes read",
            "bytes written",
            "written by com.example.notes",
            "read by com.example.maps",
            "the same requests in the same order",
        ];
        let title = "the same load, recorded on a stand-in for a phone and from outside";
        keep(COMPARED, title, &columns, rows, found.is_none())
    }

    /// Returns the requests of a disk in the order of their issue.
    fn table(&self, recording: &Path, disk: &str) -> Result<Vec<Done>> {
        let mut command = Command::new(self.fonio);
        command.arg("export").arg(recording).args(["--device", disk, "--format", "csv"]);
        requests(&process::output(&mut command)?)
    }

    /// Returns the bytes that the one app wrote, and those that the other app read.
    fn apps(&self, recording: &Path, disk: &str) -> Result<[f64; 2]> {
        let mut command = Command::new(self.fonio);
        command.arg("report").arg(recording).args(["--device", disk, "--json"]);
        let report: Value = serde_json::from_str(&process::output(&mut command)?)?;
        Ok(["process[notes].write_bytes", "process[maps].read_bytes"]
            .map(|name| figure(&report, name).unwrap_or_default()))
    }

    /// Checks `fonio check --in android PACKAGE` and `fonio launch --in android`.
    fn check_and_launch(&self, steps: &mut Steps<'_, '_>) -> Result<()> {
        println!("\n`check` and `launch`:");
        let (json, log) = (self.path("check.json"), self.log("check"));
        let mut command = self.client.fonio(self.fonio, &["check", "com.example.maps", "--json"]);
        command.args(["--for", "60s"]).arg("-o").arg(self.path("checked"));
        command.stdout(std::fs::File::create(&json)?).stderr(std::fs::File::create(&log)?);
        let mut check = Beside(command.spawn()?);
        self.begins(steps, "check", &mut check)?;
        ok(steps.system, "sh /root/load.sh")?;
        let status = check.end()?;
        let said = std::fs::read_to_string(&log)?;
        steps.promise("`check` ends", status.success(), &format!("{status}: {said}"));
        let report: Value = serde_json::from_str(&std::fs::read_to_string(&json)?).unwrap_or_default();
        let [reads, bytes, written] = ["totals.read_requests", "totals.read_bytes", "totals.write_bytes"]
            .map(|name| figure(&report, name));
        let shown = format!("{reads:?} {bytes:?} {written:?}: {said}");
        let is_app = bytes.is_some_and(|bytes| bytes >= 200.0 * 16384.0) && written == Some(0.0);
        steps.promise("it reports the requests of this app alone", is_app, &shown);
        let mut command = self.client.fonio(self.fonio, &["launch", "--runs", "2", "--json"]);
        command.arg("-o").arg(self.path("launches")).args(["--", "com.example.maps/.Main"]);
        let log = self.path("launch.log");
        command.stderr(std::fs::File::create(&log)?);
        let launches: Value = serde_json::from_str(&process::output(&mut command)?)?;
        let all = launches["launches"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_right = |launch: &Value| {
            let ms = |name: &str| launch[name].as_f64();
            let waits = ["io_ms", "other_ms", "unknown_ms"].map(ms);
            let blocked: f64 = waits.iter().flatten().sum();
            launch["total_ms"] == 312.0
                && launch["state"] == "COLD"
                && launch["dropped_caches"] == true
                && ms("traced_ms").is_some_and(|traced| blocked > 0.0 && blocked <= traced)
        };
        let shown = format!("{launches}: {}", std::fs::read_to_string(&log)?);
        steps.promise("two launches", all.len() == 2, &shown);
        steps.promise("each shows how long its UI thread was blocked", all.iter().all(is_right), &shown);
        println!("{launches:#}");
        self.nothing_left(steps, "nothing is left", None, Duration::from_secs(5)).map(drop)
    }

    /// Checks that nothing is left, whatever ends a recording. Returns the seconds until then.
    fn leave(&self, steps: &mut Steps<'_, '_>, way: Way) -> Result<Vec<Option<f64>>> {
        println!("\nThe end of recordings by {}:", way.name());
        let mut times = Vec::new();
        for (loss, what) in Loss::ALL {
            let mut record = self.record(steps, "lost")?;
            let mut began = Some(now(steps)?);
            let expected = match loss {
                Loss::Interrupted => {
                    kill_process(record.pid(), Signal::INT)?;
                    Some(130)
                }
                Loss::FonioKilled => {
                    kill_process(record.pid(), Signal::KILL)?;
                    None
                }
                Loss::FonioStopped => {
                    kill_process(record.pid(), Signal::STOP)?;
                    Some(2)
                }
                Loss::ClientKilled => {
                    let fonio = record.0.id().to_string();
                    process::run(Command::new("pkill").args(["-9", "-P", &fonio]))?;
                    Some(2)
                }
                Loss::ServerKilled => {
                    kill_process(self.client.server()?, Signal::KILL)?;
                    Some(2)
                }
                Loss::DaemonKilled => {
                    // Systemd then ends the commands of the phone's shell, too.
                    ok(steps.system, "pkill -9 -x adbd; systemctl start adbd")?;
                    Some(2)
                }
                Loss::AllKilled => {
                    // Android's init does this if adbd fails.
                    ok(steps.system, "systemctl kill -s KILL adbd; systemctl start adbd")?;
                    Some(2)
                }
            };
            if loss == Loss::Interrupted {
                // The recording is read first, which takes its time.
                record.end()?;
                began = None;
            }
            if loss == Loss::AllKilled {
                record.end()?;
                self.client.connect()?;
                let mut next = self.client.fonio(self.fonio, &["record", "--for", "5s", "--overwrite"]);
                next.arg("--recorder").arg(self.recorder).arg("-o").arg(self.path("next"));
                process::run(next.stderr(Stdio::null()))?;
                began = None;
            }
            times.push(self.nothing_left(steps, what, began, LEFT_ALONE)?);
            if loss == Loss::FonioStopped {
                kill_process(record.pid(), Signal::CONT)?;
            }
            let status = record.end()?;
            let said = std::fs::read_to_string(self.log("lost"))?;
            let error = said.lines().rfind(|line| line.starts_with("fonio: ")).unwrap_or_default();
            let is_expected = status.code() == expected;
            steps.promise(
                "  its exit code",
                is_expected,
                &format!("{status}, expected {expected:?}: {said}"),
            );
            println!("  {error}");
            if [Loss::ServerKilled, Loss::DaemonKilled, Loss::AllKilled].contains(&loss) {
                self.client.connect()?;
            }
        }
        Ok(times)
    }

    /// Checks that no file, process or instance is left within this time since `began`, by the clock of the guest. Without
    /// `began`, the time begins now. Returns the seconds; `None` if something is left.
    fn nothing_left(
        &self,
        steps: &mut Steps<'_, '_>,
        what: &str,
        began: Option<f64>,
        within: Duration,
    ) -> Result<Option<f64>> {
        let began = began.map_or_else(|| now(steps), Ok)?;
        let left = text(steps.system, &format!("sh /root/left.sh {} {began:.0}", within.as_secs()))?;
        let (at, left) = left.split_once(' ').context("the guest's time is missing")?;
        let seconds = at.parse::<f64>()? - began;
        let is_gone = left == "none" && seconds <= within.as_secs_f64();
        steps.promise(what, is_gone, &format!("{left} after {seconds:.1} s"));
        println!("  after {seconds:.1} s");
        Ok(is_gone.then_some(seconds))
    }
}

/// Returns the time since the start of the guest in seconds.
fn now(steps: &mut Steps<'_, '_>) -> Result<f64> {
    let uptime = text(steps.system, "cat /proc/uptime")?;
    Ok(uptime.split(' ').next().unwrap_or_default().parse()?)
}

/// Returns a figure of a report.
fn figure(report: &Value, name: &str) -> Option<f64> {
    let figures = report["figures"].as_array()?;
    figures.iter().find(|figure| figure["name"] == name)?["value"].as_f64()
}

/// Replaces the rows with the names of these in a result file, or adds them. Rows of a broken promise go to the folder of
/// generated files.
fn keep(id: &str, title: &str, columns: &[&str], rows: Vec<Row>, is_broken: bool) -> Result<()> {
    let mut result = StudyResult::begin(id, title, COMMAND, columns)?;
    result.remark = NO_PHONE.to_owned();
    let path = folder().join(id).with_extension("json");
    if path.exists() {
        result.rows = StudyResult::read(&path)?.rows;
    }
    for row in rows {
        match result.rows.iter_mut().find(|known| known.name == row.name) {
            Some(known) => *known = row,
            None => result.rows.push(row),
        }
    }
    result.rows.sort_by(|a, b| a.name.cmp(&b.name));
    result.keep(!is_broken).map(drop)
}

/// A request, without its times.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    op: String,
    sector: String,
    bytes: u64,
}

/// Returns the first difference of a table from a part of a longer one. The part begins where most requests are equal.
fn difference(here: &[Done], there: &[Done]) -> String {
    let equal = |begin: &usize| here.iter().zip(&there[*begin..]).take_while(|(a, b)| a == b).count();
    let begin = (0..there.len()).max_by_key(equal).unwrap_or_default();
    let place = there.get(begin..).map_or(0, |_| equal(&begin));
    let part = |of: &[Done], at: usize| format!("{:?}", of.iter().skip(at).take(5).collect::<Vec<_>>());
    format!(
        "after {place} equal requests: {}\n in the guest: {}",
        part(here, place),
        part(there, begin + place)
    )
}

/// Reads the requests of a table by `fonio export --format csv`, in the order of their issue.
fn requests(csv: &str) -> Result<Vec<Done>> {
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().context("the table is empty")?.split(',').collect();
    let place =
        |name| header.iter().position(|column| *column == name).with_context(|| format!("no column {name}"));
    let [op, sector, bytes, issued] = [place("op")?, place("sector")?, place("bytes")?, place("issued_ns")?];
    let mut all = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let cell = |place: usize| {
            cells.get(place).copied().with_context(|| format!("a cell is missing in `{line}`"))
        };
        // A request that was issued before the recording began has no time of issue.
        let Ok(at) = cell(issued)?.parse::<u64>() else { continue };
        let done =
            Done { op: cell(op)?.to_owned(), sector: cell(sector)?.to_owned(), bytes: cell(bytes)?.parse()? };
        all.push((at, done));
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, done)| done).collect())
}

/// Returns a port that no program of this machine uses now.
fn free_port() -> Result<NonZero<u16>> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    NonZero::new(port).context("the kernel gave port 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_shown() {
        let done = |sector: u64| Done { op: "read".to_owned(), sector: sector.to_string(), bytes: 512 };
        let of = |sectors: &[u64]| sectors.iter().map(|sector| done(*sector)).collect::<Vec<_>>();
        let shown = difference(&of(&[1, 2, 9]), &of(&[5, 1, 2, 3]));
        assert!(shown.starts_with("after 2 equal requests: [Done { op: \"read\", sector: \"9\""), "{shown}");
        assert!(shown.contains("in the guest: [Done { op: \"read\", sector: \"3\""), "{shown}");
        assert!(difference(&of(&[1]), &[]).starts_with("after 0 equal"));
    }

    #[test]
    fn requests_are_in_the_order_of_issue() {
        let csv = "op,sector,issued_ns,bytes\nread,8,30,512\nwrite,16,20,4096\nflush,,,0\n";
        let all = requests(csv).expect("the table is valid");
        let shown: Vec<String> =
            all.iter().map(|one| format!("{} {} {}", one.op, one.sector, one.bytes)).collect();
        assert_eq!(shown, ["write 16 4096", "read 8 512"]);
        assert!(requests("op,sector\n").is_err());
    }
}
