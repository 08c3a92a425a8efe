//! Numbers of the studies that profiles are fitted to or compared with, each with its name.

use fonio_core::{ByteCount, Op};

use crate::fit::Target;
use crate::measure::{Gives, Order, Protocol};

/// The range of the phone's random test on the eight cards. It is not published; it is assumed to be that of
/// the sequential test.
pub const CARD_RANGE: ByteCount = ByteCount(128 << 20);

/// One card of Kim, Agrawal, Ungureanu (TOS 2012), Table III, in MB/s of 10⁶ bytes (the study does not say which), and
/// what it says about Figure 15.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// The profile's name.
    pub name: &'static str,
    /// On a desktop computer, through a card reader.
    pub desktop: Four,
    /// On the phone.
    pub phone: Four,
    /// Throughput of random writes against the range that is written.
    pub shape: Shape,
}

/// Sequential and random throughput in MB/s.
#[derive(Clone, Copy, Debug)]
pub struct Four {
    /// Sequential writes.
    pub seq_write: f64,
    /// Sequential reads.
    pub seq_read: f64,
    /// 4 KB random writes.
    pub rand_write: f64,
    /// 4 KB random reads.
    pub rand_read: f64,
}

/// How throughput falls as the range of random writes grows (section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It does not fall.
    Flat,
    /// It falls, but not sharply.
    MildDrop,
    /// It falls twice, at 32 MB and at 1024 MB.
    TwoDrops,
    /// It falls sharply, then stays low.
    HardDrop,
}

const fn four(seq_write: f64, seq_read: f64, rand_write: f64, rand_read: f64) -> Four {
    Four { seq_write, seq_read, rand_write, rand_read }
}

/// The eight cards.
pub const CARDS: [Card; 8] = [
    Card {
        name: "transcend",
        desktop: four(4.16, 18.03, 1.18, 2.57),
        phone: four(4.35, 13.52, 1.38, 2.92),
        shape: Shape::Flat,
    },
    Card {
        name: "ridata",
        desktop: four(7.93, 16.29, 0.02, 2.15),
        phone: four(5.86, 11.51, 0.03, 2.76),
        shape: Shape::MildDrop,
    },
    Card {
        name: "sandisk",
        desktop: four(5.48, 12.94, 0.68, 1.06),
        phone: four(4.93, 8.44, 0.67, 0.73),
        shape: Shape::TwoDrops,
    },
    Card {
        name: "kingston",
        desktop: four(4.92, 16.93, 0.01, 1.68),
        phone: four(4.56, 9.84, 0.01, 1.94),
        shape: Shape::HardDrop,
    },
    Card {
        name: "wintec",
        desktop: four(15.05, 16.34, 0.01, 3.15),
        phone: four(9.91, 13.38, 0.01, 3.82),
        shape: Shape::HardDrop,
    },
    Card {
        name: "adata",
        desktop: four(10.78, 17.77, 0.01, 2.97),
        phone: four(8.93, 13.49, 0.01, 3.64),
        shape: Shape::HardDrop,
    },
    Card {
        name: "patriot",
        desktop: four(10.54, 17.67, 0.01, 2.96),
        phone: four(8.83, 13.38, 0.01, 3.72),
        shape: Shape::HardDrop,
    },
    Card {
        name: "pny",
        desktop: four(15.31, 17.90, 0.01, 3.56),
        phone: four(10.28, 14.02, 0.01, 3.95),
        shape: Shape::HardDrop,
    },
];

impl Card {
    /// The names of the four numbers on the desktop, in the order of [`Card::phone_numbers`].
    pub fn desktop_names(&self) -> [String; 4] {
        ["seq_write", "seq_read", "rand_write", "rand_read"]
            .map(|what| format!("kim-t3 {} desktop {what}", self.name))
    }

    /// The four experiments on the phone with the number that each gave, and its name in a profile's `to`.
    pub fn phone_numbers(&self) -> [(String, Protocol, f64); 4] {
        let name = |what| format!("kim-t3 {} phone {what}", self.name);
        [
            (name("seq_write"), Protocol::kim_sequential(Op::Write), self.phone.seq_write),
            (name("seq_read"), Protocol::kim_sequential(Op::Read), self.phone.seq_read),
            (name("rand_write"), Protocol::kim_random(Op::Write, CARD_RANGE), self.phone.rand_write),
            (name("rand_read"), Protocol::kim_random(Op::Read, CARD_RANGE), self.phone.rand_read),
        ]
    }
}

/// Samsung Galaxy S5, Nguyen et al. (MobiSys 2015), sections 4.3 to 4.5. Experiment, number, name.
pub fn samsung_s5() -> Vec<(String, Protocol, f64)> {
    let alone = [
        ("seq_read_alone", Op::Read, Order::Sequential, 72.0),
        ("rand_read_alone", Op::Read, Order::Random, 187.0),
        ("seq_write_alone", Op::Write, Order::Sequential, 190.0),
        ("rand_write_alone", Op::Write, Order::Random, 410.0),
    ]
    .map(|(what, op, order, wanted)| {
        (format!("smartio.s5_response_ms {what}"), Protocol::smartio(op, order, Gives::Response), wanted)
    });
    let speedup = [
        ("seq_read", Op::Read, Order::Sequential, 2, 1.45),
        ("rand_read", Op::Read, Order::Random, 4, 1.55),
        ("seq_write", Op::Write, Order::Sequential, 4, 1.29),
        ("rand_write", Op::Write, Order::Random, 2, 1.41),
    ]
    .map(|(what, op, order, processes, wanted)| {
        (
            format!("smartio.concurrency s5_speedup {what} at {processes}"),
            Protocol::concurrency(op, order, processes),
            wanted,
        )
    });
    alone.into_iter().chain(speedup).collect()
}

/// Slowdowns of four readers by four writers, and the other way round, under CFQ (Nguyen et al., section 7.2).
#[derive(Clone, Copy, Debug)]
pub struct FourByFour {
    /// The device's name.
    pub name: &'static str,
    /// The op that is slowed down, the op that slows it down, and the factor.
    pub slowdowns: [(&'static str, Op, Order, Op, f64); 4],
}

const fn four_by_four(name: &'static str, slowdowns: [f64; 4]) -> FourByFour {
    let [seq_read, seq_write, rand_read, rand_write] = slowdowns;
    FourByFour {
        name,
        slowdowns: [
            ("seq_read", Op::Read, Order::Sequential, Op::Write, seq_read),
            ("seq_write", Op::Write, Order::Sequential, Op::Read, seq_write),
            ("rand_read", Op::Read, Order::Random, Op::Write, rand_read),
            ("rand_write", Op::Write, Order::Random, Op::Read, rand_write),
        ],
    }
}

/// Samsung Galaxy S5.
pub const S5_4X4: FourByFour = four_by_four("smartio.s5_slowdown_4x4", [28.03, 4.21, 19.22, 8.01]);

/// Motorola Razr.
pub const RAZR_4X4: FourByFour = four_by_four("smartio.razr_slowdown_4x4", [59.4, 7.92, 31.12, 8.01]);

/// The rates that makers or standards state for a class of devices: sequential MB/s, and random 4 KiB requests per
/// second.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// The profile's name.
    pub name: &'static str,
    /// The source of the numbers.
    pub source: &'static str,
    /// Sequential reads and writes in MB/s; the SD classes state no rate for reads.
    pub seq_mb_s: (Option<f64>, f64),
    /// Random reads and writes per second; `None` if none are stated.
    pub rand_iops: Option<(f64, f64)>,
    /// Commands in flight in the random test. The sources do not state it; assumed is the class's maximum, up to 32.
    pub depth: u32,
}

const SAMSUNG: &str = "Samsung's table of its mobile memories (press release, March 2020)";

/// The classes that profiles are fitted to.
pub const CLASSES: [Class; 7] = [
    Class {
        name: "galaxy_s3_emmc",
        source: SAMSUNG,
        // The writes are the phone's own, measured by Jeong and Won below scheduler and file system.
        seq_mb_s: (Some(140.0), 39.0),
        rand_iops: Some((7_000.0, 2_000.0)),
        depth: 1,
    },
    Class {
        name: "nexus5",
        source: SAMSUNG,
        seq_mb_s: (Some(140.0), 50.0),
        rand_iops: Some((7_000.0, 2_000.0)),
        depth: 1,
    },
    Class {
        name: "emmc51",
        source: SAMSUNG,
        seq_mb_s: (Some(250.0), 125.0),
        rand_iops: Some((11_000.0, 13_000.0)),
        depth: 32,
    },
    Class {
        name: "ufs31",
        source: SAMSUNG,
        seq_mb_s: (Some(2_100.0), 1_200.0),
        rand_iops: Some((100_000.0, 70_000.0)),
        depth: 32,
    },
    Class {
        name: "ufs40",
        source: "Samsung's announcement of UFS 4.0, May 2022",
        seq_mb_s: (Some(4_200.0), 2_800.0),
        rand_iops: None,
        depth: 32,
    },
    Class {
        name: "sd_a1",
        source: "SD Association, application performance class A1",
        seq_mb_s: (None, 10.0),
        rand_iops: Some((1_500.0, 500.0)),
        depth: 1,
    },
    Class {
        name: "sd_a2",
        source: "SD Association, application performance class A2",
        seq_mb_s: (None, 10.0),
        rand_iops: Some((4_000.0, 2_000.0)),
        depth: 32,
    },
];

impl Class {
    /// The key that each experiment settles, the experiment, the number that it should give, and its name in a
    /// profile's
    /// `to`.
    pub fn numbers(&self) -> Vec<(&'static str, String, Protocol, f64)> {
        let range = ByteCount(256 << 20);
        let sequential = |op| Protocol {
            op,
            order: Order::Sequential,
            request: ByteCount(512 << 10),
            range,
            count: 512,
            // Two commands, so that neither side waits for the other; one if the device takes one.
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
        let name = |what: &str| format!("{}: {what}", self.source);
        let write_name = if self.name == "galaxy_s3_emmc" {
            "bfuse.layers_mb_s ics raw_noop".to_owned()
        } else {
            name("seq_write")
        };
        // If flash in SLC mode takes the writes, the interface limits their rate.
        let write_key = if self.name.starts_with("ufs") { "interface.write_rate" } else { "flash.t_program" };
        let mut numbers = Vec::new();
        if let Some(read) = self.seq_mb_s.0 {
            numbers.push(("interface.read_rate", name("seq_read"), sequential(Op::Read), read));
        }
        numbers.push((write_key, write_name, sequential(Op::Write), self.seq_mb_s.1));
        if let Some((read, write)) = self.rand_iops {
            numbers.push(("interface.read_command", name("rand_read"), random(Op::Read), read));
            numbers.push(("interface.write_command", name("rand_write"), random(Op::Write), write));
        }
        numbers
    }
}

/// The numbers that the shipped profile of this name was fitted to; empty if there are none.
pub fn targets(name: &str) -> Vec<Target> {
    let target = |key, (to, protocol, wanted): &(String, Protocol, f64)| Target {
        key,
        protocol: *protocol,
        wanted: *wanted,
        to: to.clone(),
    };
    if let Some(card) = CARDS.iter().find(|card| card.name == name) {
        let numbers = card.phone_numbers();
        let mut targets = vec![
            target("flash.t_program", &numbers[0]),
            target("interface.read_rate", &numbers[1]),
            target("interface.read_command", &numbers[3]),
        ];
        // A rate that is rounded to one digit is too coarse for a fit.
        if card.name == "sandisk" {
            targets.push(target("map_cache.near_miss", &numbers[2]));
        }
        return targets;
    }
    if name == "samsung_s5" {
        let numbers = samsung_s5();
        let keys = [
            "interface.read_command",
            "interface.random_read",
            "flash.t_program",
            "interface.random_write",
            "interface.read_latency",
            "interface.random_read_latency",
            "interface.write_latency",
            "interface.random_write_latency",
        ];
        return keys.into_iter().zip(&numbers).map(|(key, number)| target(key, number)).collect();
    }
    if let Some(class) = CLASSES.iter().find(|class| class.name == name) {
        return class
            .numbers()
            .into_iter()
            .map(|(key, to, protocol, wanted)| Target { key, protocol, wanted, to })
            .collect();
    }
    Vec::new()
}
