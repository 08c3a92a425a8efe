//! `cargo xtask bench emulator [CARD…]`: what fio measures on the emulated cards, beside what their model says and what
//! was published.
//!
//! Each number has a device of its own with the preparation that its protocol asks for. fio makes at most as many requests
//! as the protocol, and stops after a while; the model makes as many as fio did.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use fonio_core::{ByteCount, Op};
use fonio_sim::measure::{Gives, Order, Protocol};
use fonio_sim::profile::Profile;
use fonio_sim::published;
use serde_json::Value;

use crate::{process, tools};

/// Large enough for every preparation; the published cards have 16 GB, of which the protocols touch less than this.
const CAPACITY_BYTES: u64 = 2 << 30;

/// Random writes of some cards take 0.4 s each.
const RUNTIME_SECONDS: u32 = 20;

/// Further from the model than this is marked: for the cards and for the phone.
const CARD_TOLERANCE: f64 = 0.05;
const PHONE_TOLERANCE: f64 = 0.10;

const PHONE: &str = "samsung_s5";

/// Runs the benchmark on the cards named, or on all of them and the phone.
pub fn run(cards: &[String]) -> Result<()> {
    if !process::is_root() {
        bail!("emulated block devices need root");
    }
    tools::ensure(&[tools::BUILD, tools::BENCH])?;
    process::run(process::cargo().args(["build", "--release", "--package", "fonio"]))?;
    let mut names: Vec<&str> = published::CARDS.iter().map(|card| card.name).collect();
    names.push(PHONE);
    if let Some(unknown) = cards.iter().find(|card| !names.contains(&card.as_str())) {
        bail!("there is no published card `{unknown}`; there are {}", names.join(", "));
    }
    names.retain(|name| cards.is_empty() || cards.iter().any(|card| card == name));
    println!(
        "{:<44} {:>10} {:>10} {:>10} {:>7} {:>9}",
        "", "published", "model", "measured", "ratio", "requests"
    );
    let mut outside = 0;
    for name in names {
        let tolerance = if name == PHONE { PHONE_TOLERANCE } else { CARD_TOLERANCE };
        for (what, protocol, published) in experiments(name) {
            let (measured, requests) = measure(name, &protocol)?;
            let model = model(name, &Protocol { count: requests, ..protocol })?;
            let ratio = measured / model;
            let mark = if (ratio - 1.0).abs() > tolerance { " *" } else { "" };
            outside += u32::from(!mark.is_empty());
            let unit = if protocol.gives == Gives::Response { "µs" } else { "MB/s" };
            println!(
                "{:<44} {published:>10.3} {model:>10.3} {measured:>10.3} {ratio:>7.3} {requests:>9}{mark}",
                format!("{what} [{unit}]")
            );
        }
    }
    println!(
        "\n{outside} outside {:.0} % of the model ({:.0} % for the phone), marked *.",
        CARD_TOLERANCE * 100.0,
        PHONE_TOLERANCE * 100.0
    );
    Ok(())
}

fn experiments(name: &str) -> Vec<(String, Protocol, f64)> {
    match published::CARDS.iter().find(|card| card.name == name) {
        Some(card) => card.phone_numbers().into(),
        None => {
            let mut all = published::samsung_s5();
            all.retain(|(_, protocol, _)| protocol.gives == Gives::Response);
            all
        }
    }
}

fn model(name: &str, protocol: &Protocol) -> Result<f64> {
    let profile = Profile::shipped(name).context("every published card has a profile")?;
    let capacity = Some(ByteCount(CAPACITY_BYTES));
    Ok(protocol.run_on(|| profile.device(capacity, fonio_sim::measure::SEED))?)
}

/// What fio measures, and with how many requests.
fn measure(name: &str, protocol: &Protocol) -> Result<(f64, u64)> {
    let emulated = Emulated::start(name, protocol.prepare.0)?;
    let direction = match (protocol.order, protocol.op) {
        (Order::Sequential, Op::Read) => "read",
        (Order::Sequential, _) => "write",
        (Order::Random, Op::Read) => "randread",
        (Order::Random, _) => "randwrite",
    };
    // Before all others, as the serving process is: else it is measured how long fio waits for a CPU.
    let mut fio = Command::new("chrt");
    fio.args(["--fifo", "1", "fio"]);
    fio.args(["--name=emulated", "--ioengine=psync", "--direct=1", "--iodepth=1", "--output-format=json"])
        .args(["--norandommap", "--random_generator=tausworthe64"])
        .arg(format!("--filename={}", emulated.device))
        .arg(format!("--rw={direction}"))
        .arg(format!("--bs={}", protocol.request.0))
        .arg(format!("--size={}", protocol.range.0))
        .arg(format!("--number_ios={}", protocol.count))
        .arg(format!("--runtime={RUNTIME_SECONDS}"));
    let out = fio.output().context("cannot start fio")?;
    if !out.status.success() {
        bail!("fio failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    let said: Value = serde_json::from_slice(&out.stdout).context("fio gave no JSON")?;
    let side = &said["jobs"][0][if direction.ends_with("read") { "read" } else { "write" }];
    let requests = side["total_ios"].as_u64().context("fio counts its requests")?;
    let figure = match protocol.gives {
        Gives::Response => side["lat_ns"]["mean"].as_f64().map(|nanos| nanos / 1e3),
        _ => side["bw_bytes"].as_f64().map(|bytes| bytes / 1e6),
    };
    Ok((figure.context("fio gives rate and latency")?, requests))
}

/// A running `fonio device emulate`.
struct Emulated {
    child: Child,
    device: String,
}

impl Emulated {
    fn start(name: &str, prepared: u64) -> Result<Emulated> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| process::root().join("target"), Into::into);
        let fonio: std::path::PathBuf = target.join("release/fonio");
        let mut child = Command::new(&fonio)
            .args(["device", "emulate", name, "--scheduler", "none", "--json"])
            .arg(format!("--size={CAPACITY_BYTES}B"))
            .arg(format!("--written={prepared}B"))
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", fonio.display()))?;
        let mut line = String::new();
        let output = child.stdout.as_mut().context("its output is piped")?;
        BufReader::new(output).read_line(&mut line)?;
        let ready: Value = serde_json::from_str(&line).context("the emulator did not get ready")?;
        let device = ready["ready"]["device"].as_str().context("the emulator names its device")?.to_owned();
        Ok(Emulated { child, device })
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        // Asked to end, it undoes what it made.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}
