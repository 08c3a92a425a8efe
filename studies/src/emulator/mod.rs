//! `cargo studies emulator`: compares fio's measurements of emulated cards with published numbers, and with
//! the model's time for the same requests.
//!
//! Each published number is measured on a separate device, which is prepared according to the protocol of
//! this number. fio issues at most as many requests as the protocol prescribes, and stops after a time limit.
//! The comparison with published numbers tests the fit, the model, the small number of random addresses, and
//! the clock. The comparison with the model's time tests only the clock.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use fonio_core::Op;
use fonio_sim::fit::Target;
use fonio_sim::measure::{Gives, Order, Protocol};
use fonio_sim::published;
use serde_json::Value;
use xtask::results::{Cell, StudyResult};

use crate::emulated::{self, Emulated, Options};

/// The size of an emulated card. The published cards have 16 GB, but the protocols use less than 2 GiB.
const CAPACITY: &str = "2GiB";

/// The time limit of fio. Random writes of some cards take 0.4 s each.
const RUNTIME_SECONDS: u32 = 20;

/// Limits for relative differences from the published number, one for cards and one for the phone. Larger
/// differences are marked in the output.
const CARD_TOLERANCE: f64 = 0.05;
const PHONE_TOLERANCE: f64 = 0.10;

/// The rounding error of the published numbers of cards. They have two decimals, so 0.01 means 0.005 to
/// 0.015.
const CARD_ROUNDING: f64 = 0.005;

const PHONE: &str = "samsung_s5";

#[derive(Args)]
pub struct Arguments {
    /// Measure these cards (default: all, and the phone).
    #[arg(value_name = "CARD")]
    cards: Vec<String>,
}

/// Measures the named cards. If no card is named, measures all cards and the phone.
pub fn run(Arguments { cards }: &Arguments) -> Result<()> {
    let mut names = names();
    if let Some(unknown) = cards.iter().find(|card| !names.contains(&card.as_str())) {
        bail!("there is no published card `{unknown}`; use one of {}", names.join(", "));
    }
    names.retain(|name| cards.is_empty() || cards.iter().any(|card| card == name));
    let fonio = emulated::fonio()?;
    let columns = ["", "published", "fio", "fio over published", "model", "fio over model", "requests", ""];
    let title = "fio on emulated devices, compared with published numbers and the model";
    let mut result = StudyResult::begin("emulator", title, "cargo studies emulator", &columns)?;
    result.seed = Some(1);
    let mut outside = 0;
    for name in names {
        for Target { to: what, protocol, wanted: published, .. } in experiments(name) {
            let Measured { figure: measured, model, requests } = measure(&fonio, name, &protocol)?;
            let near = is_near(name, published, measured);
            outside += u32::from(!near);
            let unit = if protocol.gives == Gives::Response { "µs" } else { "MB/s" };
            let cells = vec![
                Cell::once(published, unit, 3),
                Cell::once(measured, unit, 3),
                Cell::once(measured / published, "", 3),
                Cell::once(model, unit, 3),
                Cell::once(measured / model, "", 3),
                Cell::count(requests),
                (if near { "" } else { "*" }).into(),
            ];
            result.row(what, cells);
        }
    }
    result.keep(cards.is_empty())?;
    println!(
        "\n{outside} differ by more than {:.0} % or rounding from the published number ({:.0} % for the \
         phone), marked *.",
        CARD_TOLERANCE * 100.0,
        PHONE_TOLERANCE * 100.0
    );
    Ok(())
}

/// Returns the names of the published cards and of the phone.
pub fn names() -> Vec<&'static str> {
    published::CARDS.iter().map(|card| card.name).chain([PHONE]).collect()
}

fn is_near(name: &str, published: f64, measured: f64) -> bool {
    let off = (measured - published).abs();
    match name {
        PHONE => off <= PHONE_TOLERANCE * published,
        _ => off <= (CARD_TOLERANCE * published).max(CARD_ROUNDING),
    }
}

/// Returns the published experiments with the named device.
pub fn experiments(name: &str) -> Vec<Target> {
    match published::CARDS.iter().find(|card| card.name == name) {
        Some(card) => card.phone_numbers().into(),
        None => {
            let mut all = published::samsung_s5();
            all.retain(|target| target.protocol.gives == Gives::Response);
            all
        }
    }
}

/// The results of an experiment.
pub struct Measured {
    /// The result of the experiment by fio's clock, in the experiment's unit.
    pub figure: f64,
    /// The result of the experiment by the model's clock, for the same requests.
    pub model: f64,
    pub requests: u64,
}

fn measure(fonio: &Path, name: &str, protocol: &Protocol) -> Result<Measured> {
    let options = Options { written: Some(protocol.prepare.0), ..Options::bare(name, CAPACITY) };
    let emulated = Emulated::start(fonio, &options)?;
    let mut fio = emulated::before_all_others(Path::new("fio"));
    fio.arg(format!("--filename={}", emulated.device)).args(fio_arguments(protocol));
    let out = fio.output().context("cannot start fio")?;
    if !out.status.success() {
        bail!("fio failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    let said: Value = serde_json::from_slice(&out.stdout).context("fio gave no JSON")?;
    figures(protocol, &said, emulated.busy_ns()?)
}

fn direction(protocol: &Protocol) -> &'static str {
    match (protocol.order, protocol.op) {
        (Order::Sequential, Op::Read) => "read",
        (Order::Sequential, _) => "write",
        (Order::Random, Op::Read) => "randread",
        (Order::Random, _) => "randwrite",
    }
}

/// Returns fio's arguments for an experiment, without the device.
pub fn fio_arguments(protocol: &Protocol) -> Vec<String> {
    let fixed = [
        "--name=emulated",
        "--ioengine=psync",
        "--direct=1",
        "--iodepth=1",
        "--output-format=json",
        "--norandommap",
        "--random_generator=tausworthe64",
    ];
    let mut arguments: Vec<String> = fixed.map(str::to_owned).into();
    arguments.push(format!("--rw={}", direction(protocol)));
    arguments.push(format!("--bs={}", protocol.request.0));
    arguments.push(format!("--size={}", protocol.range.0));
    arguments.push(format!("--number_ios={}", protocol.count));
    arguments.push(format!("--runtime={RUNTIME_SECONDS}"));
    arguments
}

/// Computes the result from fio's output and the model's busy time.
pub fn figures(protocol: &Protocol, said: &Value, busy_ns: u64) -> Result<Measured> {
    let side = &said["jobs"][0][if direction(protocol).ends_with("read") { "read" } else { "write" }];
    let requests = side["total_ios"].as_u64().context("fio counts its requests")?;
    let bytes = side["io_bytes"].as_u64().context("fio counts its bytes")? as f64;
    let busy_ns = busy_ns as f64;
    let (figure, model) = match protocol.gives {
        Gives::Response => {
            (side["lat_ns"]["mean"].as_f64().map(|nanos| nanos / 1e3), busy_ns / 1e3 / requests as f64)
        }
        _ => (side["bw_bytes"].as_f64().map(|bytes| bytes / 1e6), bytes * 1e3 / busy_ns),
    };
    Ok(Measured { figure: figure.context("fio gave no rate or latency")?, model, requests })
}
