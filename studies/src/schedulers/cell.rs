//! A cell of the comparison: one part of `kernel/smartio/test/{compare,many,files,pauses}.sh` under one scheduler,
//! on one device, in one guest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use fonio_lab::{Archive, Guest, Initramfs, Shape, Streams, Task};
use serde_json::Value;

use super::KERNEL;
use crate::emulated::in_guest;
use crate::process;
use crate::smartio::Built;

/// A scheduler with settings. The variants are compared with each other.
pub struct Variant {
    /// The variant's name in tables and files.
    pub name: &'static str,
    /// The scheduler's name in the kernel.
    pub scheduler: &'static str,
    /// Settings of the scheduler and the queue, and fio's options for I/O classes, in the format of
    /// `compare.sh`.
    pub words: &'static [&'static str],
    /// Whether the variant is a kernel scheduler with its default settings.
    pub is_stock: bool,
}

impl Variant {
    /// Returns whether SmartIO's reads are compared with this variant's reads. A rival is a kernel scheduler,
    /// tuned or not, with the queue's usual settings. Variants with I/O classes are excluded, because a user
    /// would have to set the classes for each program.
    pub fn is_rival(&self) -> bool {
        self.scheduler != SMARTIO
            && !self.has_small_requests()
            && !self.words.iter().any(|word| CLASSES.contains(word))
    }

    /// Returns whether the queue splits large requests; only the parts `files` and `pauses` have large requests.
    pub fn has_small_requests(&self) -> bool {
        self.words == SMALL
    }
}

const fn stock(name: &'static str) -> Variant {
    Variant { name, scheduler: name, words: &[], is_stock: true }
}

const fn tuned(name: &'static str, scheduler: &'static str, words: &'static [&'static str]) -> Variant {
    Variant { name, scheduler, words, is_stock: false }
}

const CLASSES: [&str; 4] =
    ["reader:--prioclass=1", "reader:--prio=0", "writer:--prioclass=3", "writer:--prio=7"];

/// A setting that limits requests to 64 KiB. It is a setting of the queue, so its file is one folder above
/// the files of the scheduler's settings.
const SMALL: &[&str] = &["../max_sectors_kb=64"];

/// The compared schedulers. Tuned settings follow `Documentation/block` of Linux 6.12: deadline-iosched.rst
/// (`fifo_batch`: "when low latency is the primary concern, smaller is better"; `writes_starved`),
/// kyber-iosched.rst (the target of reads), bfq-iosched.rst (`low_latency` and `slice_idle` off for
/// throughput on flash; `strict_guarantees` if guarantees are more important), ioprio.rst (classes).
pub const VARIANTS: [Variant; 14] = [
    stock("none"),
    stock("mq-deadline"),
    stock("kyber"),
    stock("bfq"),
    tuned("mq-deadline, batch 1, starved 16", "mq-deadline", &["fifo_batch=1", "writes_starved=16"]),
    tuned("kyber, reads 100 µs", "kyber", &["read_lat_nsec=100000"]),
    tuned("bfq, throughput", "bfq", &["low_latency=0", "slice_idle=0"]),
    tuned("bfq, strict", "bfq", &["strict_guarantees=1"]),
    tuned("mq-deadline, ionice", "mq-deadline", &CLASSES),
    tuned(
        "smartio, the study's rules",
        "smartio",
        &[
            "hold_us_max=0",
            "turn_wait_ms_max=0",
            "read_time_percent_max=0",
            "read_time_percent_max_write_back=0",
            "reader_pause_ms_max=0",
            "sync_write_wait_ms_max=100",
            "seq_read_requests_max=2",
            "rand_read_requests_max=4",
            "seq_write_requests_max=4",
            "rand_write_requests_max=2",
        ],
    ),
    tuned(SMARTIO, "smartio", &[]),
    tuned("mq-deadline, requests of 64 KiB", "mq-deadline", SMALL),
    tuned("bfq, requests of 64 KiB", "bfq", SMALL),
    tuned("smartio, requests of 64 KiB", "smartio", SMALL),
];
/// The name of the variant under test.
pub const SMARTIO: &str = "smartio";
/// Returns the options of `fonio device emulate` for a profile. Each option is followed by a space.
///
/// On the first two devices, reads of unwritten data do not access the flash, so they would not conflict with
/// writes on the same die. Therefore, all data is written before the measurement. The guest's processor
/// serves the device and is too slow for UFS 3.1 at full speed, so this device is slowed down; the time
/// limits of the schedulers are not scaled. The Galaxy S5 and the A1 card have one die. They have the options
/// with which the policy was tuned. In the part `pauses`, the eMMC is slowed down too: at full speed, a reader that
/// wakes up beside a copy waits for the processor for longer than for the device.
pub fn emulated(profile: &str, part: &str) -> &'static str {
    match (profile, part) {
        ("ufs31", _) | ("emmc51", "pauses") => "--written 2GiB --dilate 2 ",
        ("emmc51", _) => "--written 2GiB ",
        _ => "",
    }
}

/// Measured values by run and operation, such as `1x1 read` (in µs). There is one value for each start.
pub type Values = BTreeMap<String, Vec<f64>>;

/// A measured part of the comparison, with its device and conditions.
pub struct Cell {
    /// The name of the device's profile. The part `cost` does not use it.
    pub profile: &'static str,
    pub variant: &'static Variant,
    /// The part's name: a part of `compare.sh`, or a separate script.
    pub part: &'static str,
    /// Number of I/Os of each process.
    pub ios: u32,
    /// Number of times that the part is started.
    pub starts: u32,
}

impl Cell {
    pub fn name(&self) -> String {
        format!("{} {} {}", self.profile, self.variant.name, self.part)
    }

    /// Returns the names of the script that measures the part and of its input files.
    pub fn scripts(&self) -> &'static [&'static str] {
        match self.part {
            "many" => &["many.sh", "compare.sh"],
            "files" => &["files.sh", "compare.sh"],
            "pauses" => &["pauses.sh", "compare.sh"],
            _ => &["compare.sh"],
        }
    }

    /// Returns the path of the file with the cell's results. The name of the file depends on the cell's
    /// inputs.
    pub fn file(&self, folder: &Path, versions: &str) -> PathBuf {
        let name: String = self
            .name()
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        folder.join(format!("{name}-{}x{}-{versions}.json", self.ios, self.starts))
    }

    /// Runs the cell in a guest, and returns the measured values.
    pub fn measure(&self, fonio: &Path, folder: &Path, built: &Built) -> Result<Values> {
        let mut words: Vec<String> = vec![self.part.to_owned(), self.variant.scheduler.to_owned()];
        words.extend([self.ios.to_string(), self.starts.to_string()]);
        words.extend(self.variant.words.iter().map(|word| (*word).to_owned()));
        let text = if self.part == "cost" {
            in_memory(&words, folder, built)?
        } else {
            on_profile(self, &words, fonio, folder)?
        };
        values(&text).with_context(|| format!("{}: the guest said:\n{text}", self.name()))
    }
}

fn on_profile(cell: &Cell, words: &[String], fonio: &Path, folder: &Path) -> Result<String> {
    let load = if cell.variant.scheduler == "smartio" { "insmod guest/smartio-iosched.ko && " } else { "" };
    let fs = if super::HAS_LARGE_REQUESTS.contains(&cell.part) { "--fs ext4 --mount " } else { "" };
    let how = emulated(cell.profile, cell.part);
    let script = format!(
        "{load}fonio device emulate {} {how}{fs}--scheduler none -- sh \"$PWD/guest/{}\" \"$@\"",
        cell.profile,
        cell.scripts()[0]
    );
    let mut command = process::bound_to_this(fonio);
    command
        .current_dir(folder)
        .args(["lab", "run", KERNEL, "--copy", "guest", "--", "sh", "-c", &script, "sh"]);
    Ok(in_guest(command.args(words))?.0)
}

fn in_memory(words: &[String], folder: &Path, built: &Built) -> Result<String> {
    let archive = Archive::open()?;
    let announce = |_: &str| ();
    let userland = archive.userland(&["busybox-static", "fio", "mount"], &announce)?;
    let mut files = Initramfs::new(&userland)?;
    files.add_tool("fio")?;
    let place = PathBuf::from("/root/smartio");
    for name in ["smartio-iosched.ko", "compare.sh"] {
        files.add_copy(&folder.join("guest").join(name), &place.join(name))?;
    }
    let guest = Guest {
        kernel: built.files.clone(),
        shape: Shape::Bench,
        memory_mib: 1024,
        modules: vec!["null_blk", "mq-deadline", "kyber-iosched", "bfq"],
        wishes: Vec::new(),
        files,
        disks: Vec::new(),
        programs: None,
        card: None,
    };
    let script = "insmod smartio-iosched.ko && exec sh compare.sh \"$@\"";
    let mut all = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
    all.extend_from_slice(words);
    let task = Task { words: &all, folder: &place, bring: &[], to: Path::new("/") };
    let said = folder.join(format!("{}.said", words[1]));
    let file = || std::fs::File::create(&said).with_context(|| format!("cannot make {}", said.display()));
    let streams = Streams { out: Box::new(file()?), err: Box::new(std::io::stderr()) };
    let stop = process::outlive_signals()?;
    let ended = guest.run_to(&archive, &task, streams, &stop, &announce)?;
    ensure!(ended.code == 0, "the script in the guest failed with code {}", ended.code);
    let text = std::fs::read_to_string(&said)?;
    std::fs::remove_file(&said)?;
    Ok(text)
}

/// Parses the output of the cell's script: fio's JSON objects, and lines `== NAME VALUE`.
fn values(text: &str) -> Result<Values> {
    let mut found = Values::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '=']) {
        rest = &rest[at..];
        if let Some(line) = rest.strip_prefix("== ") {
            let line = line.lines().next().unwrap_or(line);
            let (name, value) = line.split_once(' ').context("a name has no value")?;
            found.entry(name.to_owned()).or_default().push(value.trim().parse()?);
            rest = &rest[3 + line.len()..];
            continue;
        }
        let mut said = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let one = said.next().context("fio gave no JSON")??;
        rest = &rest[said.byte_offset()..];
        for (name, value) in of_jobs(&one) {
            found.entry(name).or_default().push(value);
        }
    }
    ensure!(!found.is_empty(), "there are no results");
    Ok(found)
}

/// Returns the values of one run of fio, by job and operation: the mean and longest response times in µs, the
/// I/Os per second of all processes, and the 99th percentiles in µs. There are percentiles of fsync and, if
/// fio reports them, of the process with the highest value.
fn of_jobs(run: &Value) -> Values1 {
    let mut sums: BTreeMap<String, (f64, f64, f64)> = BTreeMap::new();
    let mut values = Values1::new();
    let longest = |values: &mut Values1, name: String, ns: f64| {
        let value = values.entry(name).or_default();
        *value = value.max(ns / 1e3);
    };
    for job in run["jobs"].as_array().map_or(&[][..], Vec::as_slice) {
        let name = job["jobname"].as_str().unwrap_or_default();
        for op in ["read", "write"] {
            let side = &job[op];
            let number = |field: &Value| field.as_f64().unwrap_or(0.0);
            let count = number(&side["total_ios"]);
            if count > 0.0 {
                let sum = sums.entry(format!("{name} {op}")).or_default();
                sum.0 += count;
                sum.1 += count * number(&side["lat_ns"]["mean"]) / 1e3;
                sum.2 = sum.2.max(number(&side["runtime"]) / 1e3);
                longest(&mut values, format!("{name} {op} max"), number(&side["lat_ns"]["max"]));
                if let Some(p99) = side["clat_ns"]["percentile"]["99.000000"].as_f64() {
                    longest(&mut values, format!("{name} {op} p99"), p99);
                }
            }
        }
        if let Some(p99) = job["sync"]["lat_ns"]["percentile"]["99.000000"].as_f64() {
            values.insert(format!("{name} fsync p99"), p99 / 1e3);
            values.insert(format!("{name} fsyncs"), job["sync"]["total_ios"].as_f64().unwrap_or(0.0));
        }
    }
    for (name, (count, total, seconds)) in sums {
        if seconds > 0.0 {
            values.insert(format!("{name} iops"), count / seconds);
        }
        values.insert(name, total / count);
    }
    values
}

type Values1 = BTreeMap<String, f64>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_script() {
        let text = r#"note: fio says something
            {"jobs": [{"jobname": "1x1", "read": {"total_ios": 2, "runtime": 500, "lat_ns": {"mean": 1000, "max": 2000},
                                     "clat_ns": {"percentile": {"99.000000": 1500}}}},
                      {"jobname": "1x1", "read": {"total_ios": 6, "runtime": 1000, "lat_ns": {"mean": 3000, "max": 9000}},
                       "sync": {"total_ios": 60, "lat_ns": {"percentile": {"99.000000": 7000}}}}]}
            == late_ns 42
            "#;
        let expected = [
            ("1x1 fsync p99", 7.0),
            ("1x1 fsyncs", 60.0),
            ("1x1 read", 2.5),
            ("1x1 read iops", 8.0),
            ("1x1 read max", 9.0),
            ("1x1 read p99", 1.5),
            ("late_ns", 42.0),
        ];
        let expected: Values = expected.map(|(name, value)| (name.to_owned(), vec![value])).into();
        assert_eq!(values(text).expect("values"), expected);
        assert!(values("nothing").is_err());
    }
}
