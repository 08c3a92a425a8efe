//! Published numbers, by name. Profiles are fitted to these numbers or compared with them.

use fonio_core::{Access, ByteCount};

use crate::fit::Target;
use crate::measure::{Gives, Order, Protocol};

/// The range of the random test that the study ran with each of the eight cards in the phone. The range of
/// this test is not published; we assume the range of the sequential test.
pub const CARD_RANGE: ByteCount = ByteCount(128 << 20);

/// A card of Kim, Agrawal, Ungureanu (TOS 2012), Table III and Figure 15. The study does not define MB/s;
/// we assume 10⁶ bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// The profile's name.
    pub name: &'static str,
    /// Throughput on a desktop computer with a card reader.
    pub desktop: Four,
    /// Throughput of the card in a phone.
    pub phone: Four,
    /// How random-write throughput depends on the size of the range.
    pub shape: Shape,
}

/// Sequential and random throughput in MB/s.
#[derive(Clone, Copy, Debug)]
pub struct Four {
    /// Throughput of sequential writes.
    pub seq_write: f64,
    /// Throughput of sequential reads.
    pub seq_read: f64,
    /// Throughput of 4 KB random writes.
    pub rand_write: f64,
    /// Throughput of 4 KB random reads.
    pub rand_read: f64,
}

/// The change of throughput as the range of random writes grows (section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Throughput does not fall as the range grows.
    Flat,
    /// Throughput falls as the range grows, but not sharply.
    MildDrop,
    /// Throughput falls twice, at 32 MB and at 1024 MB.
    TwoDrops,
    /// Throughput falls sharply, then stays low.
    HardDrop,
}

const fn four([seq_write, seq_read, rand_write, rand_read]: [f64; 4]) -> Four {
    Four { seq_write, seq_read, rand_write, rand_read }
}

const fn card(name: &'static str, desktop: [f64; 4], phone: [f64; 4], shape: Shape) -> Card {
    Card { name, desktop: four(desktop), phone: four(phone), shape }
}

/// The eight cards. Each row lists the rates of sequential writes and reads, then of random writes and reads,
/// first on the desktop, then on the phone.
pub const CARDS: [Card; 8] = [
    card("transcend", [4.16, 18.03, 1.18, 2.57], [4.35, 13.52, 1.38, 2.92], Shape::Flat),
    card("ridata", [7.93, 16.29, 0.02, 2.15], [5.86, 11.51, 0.03, 2.76], Shape::MildDrop),
    card("sandisk", [5.48, 12.94, 0.68, 1.06], [4.93, 8.44, 0.67, 0.73], Shape::TwoDrops),
    card("kingston", [4.92, 16.93, 0.01, 1.68], [4.56, 9.84, 0.01, 1.94], Shape::HardDrop),
    card("wintec", [15.05, 16.34, 0.01, 3.15], [9.91, 13.38, 0.01, 3.82], Shape::HardDrop),
    card("adata", [10.78, 17.77, 0.01, 2.97], [8.93, 13.49, 0.01, 3.64], Shape::HardDrop),
    card("patriot", [10.54, 17.67, 0.01, 2.96], [8.83, 13.38, 0.01, 3.72], Shape::HardDrop),
    card("pny", [15.31, 17.90, 0.01, 3.56], [10.28, 14.02, 0.01, 3.95], Shape::HardDrop),
];

impl Card {
    /// Returns the name of a number in the tables; `host` is `desktop` or `phone`.
    pub(crate) fn number_name(&self, host: &str, access: Access) -> String {
        format!("kim-t3 {} {host} {}", self.name, access.name())
    }

    /// Returns the four numbers on the phone, in table order.
    pub fn phone_numbers(&self) -> [Target; 4] {
        let number = |access, key, wanted| {
            let protocol = match access {
                Access::SeqRead | Access::SeqWrite => Protocol::kim_sequential(access.op()),
                Access::RandRead | Access::RandWrite => Protocol::kim_random(access.op(), CARD_RANGE),
            };
            Target { key, protocol, wanted, to: self.number_name("phone", access) }
        };
        [
            number(Access::SeqWrite, "flash.t_program", self.phone.seq_write),
            number(Access::SeqRead, "interface.read_rate", self.phone.seq_read),
            number(Access::RandWrite, "map_cache.near_miss", self.phone.rand_write),
            number(Access::RandRead, "interface.read_command", self.phone.rand_read),
        ]
    }
}

/// Returns the numbers of the Samsung Galaxy S5 from Nguyen et al. (MobiSys 2015), sections 4.3 to 4.5:
/// response times of one process, and speedups of several processes.
pub fn samsung_s5() -> Vec<Target> {
    let alone = [
        (Access::SeqRead, 72.0, "interface.read_command"),
        (Access::RandRead, 187.0, "interface.random_read"),
        (Access::SeqWrite, 190.0, "flash.t_program"),
        (Access::RandWrite, 410.0, "interface.random_write"),
    ]
    .map(|(access, wanted, key)| {
        let protocol = Protocol::smartio(access.op(), access.into(), Gives::Response);
        Target { key, protocol, wanted, to: format!("smartio.s5_response_ms {}_alone", access.name()) }
    });
    let speedup = [
        (Access::SeqRead, 2, 1.45, "interface.read_latency"),
        (Access::RandRead, 4, 1.55, "interface.random_read_latency"),
        (Access::SeqWrite, 4, 1.29, "interface.write_latency"),
        (Access::RandWrite, 2, 1.41, "interface.random_write_latency"),
    ]
    .map(|(access, processes, wanted, key)| {
        let to = format!("smartio.concurrency s5_speedup {} at {processes}", access.name());
        Target { key, protocol: Protocol::concurrency(access.op(), access.into(), processes), wanted, to }
    });
    alone.into_iter().chain(speedup).collect()
}

/// Mutual slowdowns of four readers and four writers under CFQ (Nguyen et al., section 7.2).
#[derive(Clone, Copy, Debug)]
pub struct FourByFour {
    /// The device's name.
    pub name: &'static str,
    /// The slowdown factors, in the order of [`Access::ALL`].
    pub slowdowns: [f64; 4],
}

/// The slowdowns of the Samsung Galaxy S5.
pub const S5_4X4: FourByFour =
    FourByFour { name: "smartio.s5_slowdown_4x4", slowdowns: [28.03, 4.21, 19.22, 8.01] };

/// The slowdowns of the Motorola Razr.
pub const RAZR_4X4: FourByFour =
    FourByFour { name: "smartio.razr_slowdown_4x4", slowdowns: [59.4, 7.92, 31.12, 8.01] };

/// Rates stated by manufacturers or standards for a class of devices: sequential MB/s, and random 4 KiB
/// requests per second.
#[derive(Clone, Copy, Debug)]
pub struct DeviceClass {
    /// The profile's name.
    pub name: &'static str,
    /// The source of the numbers.
    pub source: &'static str,
    /// Sequential reads and writes in MB/s; the SD classes state no rate for reads.
    pub seq_mb_s: (Option<f64>, f64),
    /// Random reads and writes per second; `None` if the source states no random rates.
    pub rand_iops: Option<(f64, f64)>,
    /// Number of commands in flight in the random test. The sources do not state this number; we assume the
    /// maximum of the class, but at most 32.
    pub depth: u32,
}

const SAMSUNG: &str = "Samsung's table of its mobile memories (press release, March 2020)";
const A1: &str = "SD Association, application performance class A1";
const A2: &str = "SD Association, application performance class A2";

const fn class(
    name: &'static str,
    source: &'static str,
    seq_mb_s: (Option<f64>, f64),
    rand_iops: Option<(f64, f64)>,
    depth: u32,
) -> DeviceClass {
    DeviceClass { name, source, seq_mb_s, rand_iops, depth }
}

/// The classes that profiles are fitted to. Jeong and Won measured the writes of `galaxy_s3_emmc` on the
/// phone's raw device, below scheduler and file system.
pub const CLASSES: [DeviceClass; 7] = [
    class("galaxy_s3_emmc", SAMSUNG, (Some(140.0), 39.0), Some((7_000.0, 2_000.0)), 1),
    class("nexus5", SAMSUNG, (Some(140.0), 50.0), Some((7_000.0, 2_000.0)), 1),
    class("emmc51", SAMSUNG, (Some(250.0), 125.0), Some((11_000.0, 13_000.0)), 32),
    class("ufs31", SAMSUNG, (Some(2_100.0), 1_200.0), Some((100_000.0, 70_000.0)), 32),
    class("ufs40", "Samsung's announcement of UFS 4.0, May 2022", (Some(4_200.0), 2_800.0), None, 32),
    class("sd_a1", A1, (None, 10.0), Some((1_500.0, 500.0)), 1),
    class("sd_a2", A2, (None, 10.0), Some((4_000.0, 2_000.0)), 32),
];

impl DeviceClass {
    /// Returns the published numbers, each with the profile key that is fitted to it.
    pub fn numbers(&self) -> Vec<Target> {
        let range = ByteCount(256 << 20);
        let sequential = |op| Protocol {
            op,
            order: Order::Sequential,
            request: ByteCount(512 << 10),
            range,
            count: 512,
            // Keep two commands in flight, so that neither the host nor the device waits. If the device has
            // no queue, only one command can be in flight.
            depth: self.depth.min(2),
            prepare: range,
            gives: Gives::Throughput,
        };
        let random = |op| Protocol {
            order: Order::Random,
            request: ByteCount(4096),
            count: 20_000,
            depth: self.depth,
            gives: Gives::Iops,
            ..sequential(op)
        };
        let name = |access: Access| match access {
            Access::SeqWrite if self.name == "galaxy_s3_emmc" => "bfuse.layers_mb_s ics raw_noop".to_owned(),
            _ => format!("{}: {}", self.source, access.name()),
        };
        // If writes go to flash in SLC mode, the interface limits their rate.
        let write_key = if self.name.starts_with("ufs") { "interface.write_rate" } else { "flash.t_program" };
        let (seq_read, seq_write) = self.seq_mb_s;
        let (rand_read, rand_write) = self.rand_iops.unzip();
        [
            (Access::SeqRead, "interface.read_rate", seq_read),
            (Access::SeqWrite, write_key, Some(seq_write)),
            (Access::RandRead, "interface.read_command", rand_read),
            (Access::RandWrite, "interface.write_command", rand_write),
        ]
        .into_iter()
        .filter_map(|(access, key, wanted)| {
            let protocol = if access.is_sequential() { sequential(access.op()) } else { random(access.op()) };
            Some(Target { key, protocol, wanted: wanted?, to: name(access) })
        })
        .collect()
    }
}

/// Returns the numbers to which the shipped profile with this name was fitted, if any.
pub fn targets(name: &str) -> Vec<Target> {
    if let Some(card) = CARDS.iter().find(|card| card.name == name) {
        // A rate that is published with only one digit is too coarse for a fit.
        let is_fitted = |target: &Target| target.key != "map_cache.near_miss" || name == "sandisk";
        return card.phone_numbers().into_iter().filter(is_fitted).collect();
    }
    if name == "samsung_s5" {
        return samsung_s5();
    }
    CLASSES.iter().find(|class| class.name == name).map(DeviceClass::numbers).unwrap_or_default()
}
