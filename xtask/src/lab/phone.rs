//! The part *phone* of `cargo xtask lab test`: a complete Debian stands for a phone. Its /data is f2fs on an
//! encrypted disk, its apps have users of their own, and Debian's adbd and perfetto record it with `fonio record --in
//! android`. `fonio record` in the guest records the same load. No phone is touched.

use std::net::TcpListener;
use std::num::NonZero;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use fonio_lab::{Architecture, Forward, SystemOptions};

use crate::lab::steps::{Steps, in_debian, ok, text};
use crate::{process, tools};

const DISK_BYTES: u64 = 512 << 20;
/// The port of adbd.
const ADBD: NonZero<u16> = NonZero::new(5555).expect("it is not 0");
const PACKAGES: [&str; 5] = ["adbd", "perfetto", "cryptsetup-bin", "f2fs-tools", "fio"];
const PREPARE: &str = include_str!("phone_prepare.sh");
const LOAD: &str = include_str!("phone_load.sh");
/// The folder in which perfetto writes.
const TRACES: &str = "/data/misc/perfetto-traces";
/// Duration of the recording. A simulated processor needs most of it to start the load.
const RECORDED: &str = "40s";
/// The recording in the guest begins before the other, and is ended after it.
const BESIDE: &str = "1h";
/// Minimum number of requests of the load: the synchronous writes of one app and the reads of the other.
const REQUESTS_MIN: usize = 260;
/// Time within which nothing is left on a phone that was left alone.
const LEFT_ALONE: Duration = Duration::from_secs(15);

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
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    fn connect(&self) -> Result<()> {
        for _ in 0..60 {
            process::check_signals()?;
            let said = process::output(self.command("adb").args(["connect", self.serial]))?;
            if said.contains("connected to") {
                return Ok(());
            }
            thread::sleep(Duration::from_secs(2));
        }
        anyhow::bail!("adb cannot connect to the guest")
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

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs all checks on each architecture. Returns the number of broken promises.
pub fn run(architectures: &[Architecture]) -> Result<u32> {
    tools::ensure(&[tools::SYSTEM_GUEST, tools::PHONE])?;
    let built = process::build_fonio_for_tests()?;
    let mut broken = 0;
    for architecture in architectures {
        broken += on(&built, *architecture)?;
    }
    println!("\nPromised: all of these. The phone is a stand-in: no phone was touched.\n");
    Ok(broken)
}

fn on(fonio: &Path, architecture: Architecture) -> Result<u32> {
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
        for (name, text) in [("phone_prepare.sh", PREPARE), ("phone_load.sh", LOAD)] {
            let file = folder.path().join(name);
            std::fs::write(&file, text)?;
            steps.system.put(&file, &format!("/root/{name}"))?;
        }
        let records_beside = Architecture::of_this_machine() == Some(architecture);
        if records_beside {
            let stripped = fonio_lab::stripped(fonio, &folder.path().join("fonio"))?;
            steps.system.put(&stripped, "/usr/local/bin/fonio")?;
        }
        ok(steps.system, "sh -x /root/phone_prepare.sh")?;
        let client = Client { serial: &serial, server, home: folder.path() };
        client.connect()?;
        compare(steps, &client, fonio, folder.path(), records_beside)?;
        leave(steps, &client, fonio, folder.path())
    })
}

/// Checks that both recordings of a load have the same requests, and that apps have their names.
fn compare(
    steps: &mut Steps<'_, '_>,
    client: &Client<'_>,
    fonio: &Path,
    folder: &Path,
    records_beside: bool,
) -> Result<()> {
    let disk =
        text(steps.system, "cat /sys/block/$(basename $(readlink -f /dev/disk/by-id/virtio-disk1))/dev")?;
    if records_beside {
        ok(
            steps.system,
            &format!(
                "systemd-run --unit beside fonio record --for {BESIDE} --device {disk} -o /root/beside; sleep 10"
            ),
        )?;
    }
    let recording = folder.join("phone");
    let words = ["record", "--for", RECORDED, "-o", recording.to_str().context("the folder is no text")?];
    let mut record = Beside(client.fonio(fonio, &words).spawn()?);
    recording_began(steps)?;
    let said = text(steps.system, "sh /root/phone_load.sh && ls -A /data/data")?;
    steps.promise("two apps wrote and read", said.contains("com.example.notes"), &said);
    let status = record.0.wait()?;
    steps.promise("`fonio record --in android` ends", status.success(), &status.to_string());
    let csv = ["--device", &disk, "--format", "csv"];
    let phone = requests(&process::output(Command::new(fonio).arg("export").arg(&recording).args(csv))?)?;
    let bytes: u64 = phone.iter().map(|request| request.bytes).sum();
    println!("  recorded: {} requests, {bytes} bytes", phone.len());
    let enough = phone.len() >= REQUESTS_MIN;
    steps.promise("it has requests of both apps", enough, &phone.len().to_string());
    if records_beside {
        let script = format!(
            "systemctl kill -s INT beside; while systemctl is-active -q beside; do sleep 1; done; \
             fonio export /root/beside {}",
            csv.join(" ")
        );
        let beside = requests(&text(steps.system, &script)?)?;
        println!("  recorded in the guest: {} requests, during a longer time", beside.len());
        let same = beside.windows(phone.len()).any(|some| some == phone);
        steps.promise(
            "`fonio record` in the guest has the same, in this order",
            same,
            &format!("{beside:?}"),
        );
    }
    let shown = process::output(Command::new(fonio).arg("report").arg(&recording).arg("--all"))?;
    for app in ["com.example.notes", "com.example.maps"] {
        steps.promise(&format!("the report names {app}"), shown.contains(app), &shown);
    }
    nothing_left(steps, "nothing is left of it", Duration::from_secs(1))
}

/// Checks that nothing is left if fonio or the phone's daemon is killed.
fn leave(steps: &mut Steps<'_, '_>, client: &Client<'_>, fonio: &Path, folder: &Path) -> Result<()> {
    let recording = folder.join("killed");
    let words = ["record", "--for", "100s", "-o", recording.to_str().context("the folder is no text")?];
    let mut record = Beside(client.fonio(fonio, &words).stderr(Stdio::null()).spawn()?);
    recording_began(steps)?;
    record.0.kill()?;
    record.0.wait()?;
    nothing_left(steps, "nothing is left after kill -9 of fonio", LEFT_ALONE)?;
    let mut record = Beside(client.fonio(fonio, &words).stderr(Stdio::null()).spawn()?);
    recording_began(steps)?;
    // Systemd then ends the commands of the phone's shell, too.
    ok(steps.system, "pkill -9 -x adbd; systemctl start adbd")?;
    nothing_left(steps, "nothing is left after kill -9 of adbd", LEFT_ALONE)?;
    let status = record.0.wait()?;
    steps.promise("the recording then ends with an error", status.code() == Some(2), &status.to_string());
    client.connect()?;
    let mut record = Beside(client.fonio(fonio, &words).stderr(Stdio::null()).spawn()?);
    recording_began(steps)?;
    // Android's init does this if adbd fails.
    ok(steps.system, "systemctl kill -s KILL adbd; systemctl start adbd")?;
    record.0.wait()?;
    client.connect()?;
    let again = folder.join("again");
    let words = ["record", "--for", "5s", "-o", again.to_str().context("the folder is no text")?];
    process::run(&mut client.fonio(fonio, &words))?;
    nothing_left(steps, "the next recording removes what kill -9 of all left", Duration::from_secs(1))
}

fn recording_began(steps: &mut Steps<'_, '_>) -> Result<()> {
    ok(
        steps.system,
        &format!("for try in $(seq 600); do [ -s {TRACES}/fonio-* ] && exit 0; sleep 0.2; done; exit 1"),
    )
    .context("the recording did not begin")
}

/// Checks that no trace and no recorder is left within this time.
fn nothing_left(steps: &mut Steps<'_, '_>, what: &str, within: Duration) -> Result<()> {
    let seconds = within.as_secs();
    let script = format!(
        "for second in $(seq {seconds}); do [ -n \"$(ls {TRACES}; pgrep -f 'perfetto -c' | grep -v $$)\" ] || break; \
         sleep 1; done; ls {TRACES}; ps ax -o args | grep '^perfetto -c' || true"
    );
    let left = text(steps.system, &script)?;
    steps.promise(what, left.is_empty(), &left);
    Ok(())
}

/// A request, without its times.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    op: String,
    sector: String,
    bytes: u64,
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
    fn requests_are_in_the_order_of_issue() {
        let csv = "op,sector,issued_ns,bytes\nread,8,30,512\nwrite,16,20,4096\nflush,,,0\n";
        let all = requests(csv).expect("the table is valid");
        let shown: Vec<String> =
            all.iter().map(|one| format!("{} {} {}", one.op, one.sector, one.bytes)).collect();
        assert_eq!(shown, ["write 16 4096", "read 8 512"]);
        assert!(requests("op,sector\n").is_err());
    }
}
