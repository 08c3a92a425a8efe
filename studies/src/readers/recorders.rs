//! One load, recorded by four recorders at the same time: the readers must give the same requests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fonio_core::{CollectedRows, DeviceId, Diagnostic, Meta, Severity};
use fonio_lab::{Archive, System, SystemOptions};
use xtask::results::{Cell, StudyResult};

use super::rows::{Served, is_equal, of_recording, of_trace};
use crate::{process, tools};

pub const ID: &str = "readers-recorders";
const ID_GUEST: &str = "readers-recorders-guest";
const TITLE: &str = "one load of fio, recorded by four recorders at the same time";
const COLUMNS: [&str; 10] = [
    "load and recorder",
    "requests",
    "bytes",
    "mean",
    "p50",
    "p95",
    "p99",
    "longest",
    "equal to fonio's recording",
    "reported shortfalls",
];
const SCRIPT: &str = include_str!("record.sh");
/// Packages with the recorders that Debian's stable release does not have, or only in old versions.
const PACKAGES: [&str; 3] = ["perfetto", "trace-cmd", "libbpf-tools"];
/// The same recorders, perf and fio in a guest.
const GUEST_PACKAGES: [&str; 5] = ["perfetto", "trace-cmd", "libbpf-tools", "linux-perf", "fio"];
const GUEST_MEMORY_MIB: u64 = 2048;
/// Runs the script in a guest, prints the number of the device, and packs the traces. `$1` is the depth, `$2` the number
/// of requests.
const GUEST_SCRIPT: &str = "set -eu
rm -rf /root/work; mkdir /root/work; head -c 64M /dev/zero >/root/image
DEVICE=$(losetup --direct-io=on --find --show /root/image)
export ROOT=/ WORK=/root/work DEVICE FONIO=/usr/local/bin/fonio DEPTH=$1 REQUESTS=$2
unshare --mount sh /root/record.sh >&2
cat /sys/class/block/${DEVICE#/dev/}/dev
losetup --detach $DEVICE
tar -cf /root/work.tar -C /root/work .";
/// The loads: depth and number of requests.
const LOADS: [(u32, u32); 2] = [(1, 400), (32, 1500)];
const DEVICE_BYTES: usize = 64 << 20;
/// The recorders besides fonio, and their files.
const RECORDERS: [(&str, &str); 3] =
    [("perfetto", "perfetto.trace"), ("trace-cmd", "trace.dat"), ("perf", "perf.data")];
const EQUAL: &str = "Equal: the same issued requests and bytes, and each time at most 1 % or 2 µs different.";
/// A loop device, detached when this value is dropped.
struct Device(String);

impl Device {
    fn over(image: &Path) -> Result<Device> {
        fs::write(image, vec![0; DEVICE_BYTES])?;
        let mut command = Command::new("losetup");
        // The page cache is so fast that the difference between the recorders' clock readings would be large in comparison.
        let options = ["--direct-io=on", "--find", "--show"];
        Ok(Device(process::output(command.args(options).arg(image))?))
    }

    fn id(&self) -> Result<DeviceId> {
        let name = Path::new(&self.0).file_name().context("the loop device has no name")?;
        let path = Path::new("/sys/class/block").join(name).join("dev");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let (major, minor) = text.trim().split_once(':').context("a device has two numbers")?;
        Ok(DeviceId::new(major.parse()?, minor.parse()?))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Err(error) = process::run(Command::new("losetup").args(["--detach", &self.0])) {
            eprintln!("cannot detach {}: {error:#}", self.0);
        }
    }
}

/// What one recorder recorded.
struct Recorded {
    name: &'static str,
    rows: CollectedRows,
    meta: Meta,
}

/// Records the loads, and returns the folder with the traces of the last one.
pub fn run(fonio: &Path, build: &str, command: &str) -> Result<PathBuf> {
    let archive = Archive::open()?;
    let root = archive.folder().join("recorders");
    archive.unpack(&PACKAGES, &root, &|text| eprintln!("{text}"))?;
    let mut result = StudyResult::begin(ID, TITLE, command, &COLUMNS)?;
    let folder = process::scratch("readers")?;
    let mut work = folder.clone();
    for (depth, requests) in LOADS {
        work = folder.join(format!("depth-{depth}"));
        process::remove_folder(&work)?;
        fs::create_dir(&work)?;
        let image = work.join("image");
        let device = Device::over(&image)?;
        let id = device.id()?;
        let mut script = Command::new("unshare");
        script.args(["--mount", "sh", "-c", SCRIPT]).current_dir(&work);
        for (name, value) in [("ROOT", root.as_path()), ("WORK", &work), ("FONIO", fonio)] {
            script.env(name, value);
        }
        script.env("DEVICE", &device.0).env("DEPTH", depth.to_string()).env("REQUESTS", requests.to_string());
        process::run(&mut script)?;
        drop(device);
        fs::remove_file(&image)?;
        add_rows(&mut result, depth, &work, id, &RECORDERS)?;
    }
    let packages = process::output(Command::new("ls").arg(root.join("unpacked")))?;
    let versions: Vec<&str> = packages
        .lines()
        .filter(|file| PACKAGES.iter().any(|package| file.starts_with(&format!("{package}_"))))
        .collect();
    let perf = process::output(Command::new("perf").arg("--version"))?;
    result.remark = format!("{build} of fonio; {}, {perf}. {EQUAL}", versions.join(", "));
    result.keep(true)?;
    Ok(work)
}

/// Records the loads in a guest, where biosnoop works, too.
pub fn run_in_guest(fonio: &Path, build: &str, command: &str) -> Result<()> {
    tools::ensure(&[tools::SYSTEM_GUEST])?;
    let stop = process::outlive_signals()?;
    let archive = Archive::open()?;
    let folder = tempfile::tempdir_in(process::scratch("readers")?)?;
    let options = SystemOptions {
        packages: GUEST_PACKAGES.map(str::to_owned).to_vec(),
        memory_mib: GUEST_MEMORY_MIB,
        ..SystemOptions::default()
    };
    let mut system = System::start(&archive, &options, &|text| eprintln!("{text}"), &stop)?;
    let title = format!("the same loads in Debian with Linux {}", system.release());
    let mut result = StudyResult::begin(ID_GUEST, &title, command, &COLUMNS)?;
    let stripped = fonio_lab::stripped(fonio, &folder.path().join("fonio-program"))?;
    system.put(&stripped, "/usr/local/bin/fonio")?;
    let script = folder.path().join("record.sh");
    fs::write(&script, SCRIPT)?;
    system.put(&script, "/root/record.sh")?;
    for (depth, requests) in LOADS {
        process::check_signals()?;
        let [depth_word, requests] = [depth, requests].map(|number| number.to_string());
        let out = system.run(&["sh", "-c", GUEST_SCRIPT, "sh", &depth_word, &requests])?;
        let complaint = String::from_utf8_lossy(&out.stderr);
        ensure!(out.code == 0, "the recorders failed in the guest with exit code {}:\n{complaint}", out.code);
        let number = String::from_utf8_lossy(&out.stdout);
        let (major, minor) = number.trim().split_once(':').context("a device has two numbers")?;
        let id = DeviceId::new(major.parse()?, minor.parse()?);
        let work = folder.path().join(format!("depth-{depth}"));
        fs::create_dir(&work)?;
        let packed = folder.path().join("work.tar");
        system.get("/root/work.tar", &packed)?;
        process::run(Command::new("tar").arg("-xf").arg(&packed).arg("-C").arg(&work))?;
        let all: Vec<_> = RECORDERS.into_iter().chain([("biosnoop", "biosnoop.txt")]).collect();
        add_rows(&mut result, depth, &work, id, &all)?;
    }
    super::calls::run(&mut system, folder.path(), build, command)?;
    let perf = system.run(&[
        "sh",
        "-c",
        "dpkg-query -W -f '${Package} ${Version}, ' perfetto trace-cmd libbpf-tools linux-perf",
    ])?;
    system.stop()?;
    let versions = String::from_utf8_lossy(&perf.stdout).into_owned();
    result.remark = format!("{build} of fonio; {versions}one simulated processor. {EQUAL}");
    result.keep(true).map(drop)
}

/// Adds a row for each recorder whose traces are in the folder `work`.
fn add_rows(
    result: &mut StudyResult,
    depth: u32,
    work: &Path,
    id: DeviceId,
    recorders: &[(&'static str, &str)],
) -> Result<()> {
    let (rows, meta) = of_recording(&work.join("fonio"))?;
    let mut all = vec![Recorded { name: "fonio", rows, meta }];
    for (name, file) in recorders {
        let (rows, meta) = of_trace(&work.join(file)).with_context(|| {
            let log = fs::read_to_string(work.join(format!("{name}.log"))).unwrap_or_default();
            format!("{name} recorded nothing that can be read: {log}")
        })?;
        all.push(Recorded { name, rows, meta });
    }
    let reference = Served::of(&all[0].rows, id);
    ensure!(!reference.times.is_empty(), "fonio recorded no request of {id}");
    for one in &all {
        // biosnoop names devices, which the reader numbers.
        let named = one
            .meta
            .devices
            .iter()
            .find(|device| device.name.as_deref() == Some(&format!("loop{}", id.minor())));
        let device = if one.name == "biosnoop" { named.map_or(id, |device| device.id) } else { id };
        result.row(format!("depth {depth}, {}", one.name), cells(one, device, &reference));
    }
    Ok(())
}

fn cells(one: &Recorded, device: DeviceId, reference: &Served) -> Vec<Cell> {
    let served = Served::of(&one.rows, device);
    let times = |of: &Served| [of.mean(), of.percentile(50), of.percentile(95), of.percentile(99), of.max()];
    let mut cells = vec![Cell::count(served.requests), Cell::once(served.bytes as f64, "", 0)];
    cells.extend(times(&served).map(|time| Cell::once(time, "µs", 1)));
    cells.push(equal(&served, reference, times).into());
    cells.push(shortfalls(one, &served).into());
    cells
}

/// Returns `yes`, or the first difference.
fn equal(served: &Served, reference: &Served, times: impl Fn(&Served) -> [f64; 5]) -> String {
    if (served.requests, served.bytes) != (reference.requests, reference.bytes) {
        return "**no: other requests**".to_owned();
    }
    match times(served).into_iter().zip(times(reference)).position(|(ours, theirs)| !is_equal(ours, theirs)) {
        None => "yes".to_owned(),
        Some(place) => format!("**no: {}**", COLUMNS[place + 3]),
    }
}

/// Returns what the reader says about missing events.
fn shortfalls(one: &Recorded, served: &Served) -> String {
    // Diagnostics with a file are about the trace itself; the others are about single requests, also of other devices.
    let mut codes: BTreeMap<&str, u64> = BTreeMap::new();
    let of_trace = |row: &&Diagnostic| row.severity != Severity::Note && row.file.is_some();
    for row in one.rows.diagnostics.iter().filter(of_trace) {
        *codes.entry(&row.code).or_default() += row.count;
    }
    let mut all: Vec<String> = codes.iter().map(|(code, count)| format!("{code} ({count})")).collect();
    if one.meta.lost.events > 0 || one.meta.lost.uncounted > 0 {
        all.push(format!("{} lost events", one.meta.lost.events));
    }
    if served.open() > 0 {
        all.push(format!("{} requests without completion", served.open()));
    }
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_shown() {
        let served = |times: &[u64], bytes| Served { requests: times.len(), bytes, times: times.to_vec() };
        let times =
            |of: &Served| [of.mean(), of.percentile(50), of.percentile(95), of.percentile(99), of.max()];
        let reference = served(&[10_000, 1_000_000], 8192);
        assert_eq!(equal(&reference, &reference, times), "yes");
        assert_eq!(equal(&served(&[11_900, 1_008_000], 8192), &reference, times), "yes");
        assert_eq!(equal(&served(&[10_000], 4096), &reference, times), "**no: other requests**");
        assert_eq!(equal(&served(&[20_000, 1_000_000], 8192), &reference, times), "**no: p50**");
    }

    #[test]
    fn percentiles_are_measured_times() {
        let served = Served { requests: 200, bytes: 0, times: (1..=200).map(|time| time * 1000).collect() };
        assert_eq!((served.percentile(50), served.percentile(99), served.max()), (100.0, 198.0, 200.0));
        assert_eq!(served.mean(), 100.5);
    }
}
