//! Numbers of the studies that profiles are fitted to or checked against, with what they were called.

use fonio_core::{ByteCount, Op};

use crate::fit::Target;
use crate::measure::{Gives, Order, Protocol};

/// The range of the phone's random test on the eight cards. It is not published; the sequential test covers as much.
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
    /// It stays.
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

/// What the shipped profile of this name was fitted to; empty where nothing was.
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
        // Where the rate is rounded to one digit there is nothing to fit to.
        if card.name == "sandisk" {
            targets.push(target("map_cache.near_miss", &numbers[2]));
        }
        return targets;
    }
    if name == "samsung_s5" {
        let numbers = samsung_s5();
        let keys = [
            "interface.read_command",
            "flash.t_read",
            "flash.t_program",
            "interface.random_write",
            "interface.read_latency",
            "interface.random_read_latency",
            "interface.write_latency",
            "interface.random_write_latency",
        ];
        return keys.into_iter().zip(&numbers).map(|(key, number)| target(key, number)).collect();
    }
    Vec::new()
}
