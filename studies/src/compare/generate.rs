//! Generates series of requests. The true difference of two series is known: if they have equal settings and
//! different seeds, they differ only by chance.

use fonio_analysis::{Analyser, Analysis, AnalysisOptions};
use fonio_core::random::seed_for;
use fonio_core::{ByteCount, DeviceId, Flags, Meta, Op, Random, Request, RowSink, Sector, Timestamp};

/// How the latencies of a series depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Independent latencies: requests arrive at random times, each with its own random latency.
    Independent,
    /// Latencies that depend on the transaction: all reads, writes and flushes of a transaction are either
    /// fast or slow.
    Transactional,
    /// Latencies that depend on stalls: every 1.5 s on average, garbage collection delays all requests by 50
    /// to 400 ms.
    Stalls,
    /// Latencies that depend on the recent past: the speed of the device varies by a third, with a
    /// correlation time of 0.1 s (30 requests).
    Autocorrelated,
    /// Latencies as in `Autocorrelated`, but the speed varies by half, with a correlation time of 0.2 s.
    Wandering,
    /// Latencies as in `Wandering`, with less variation and a correlation time of 3 s, so that a series of 10
    /// s contains almost no information about the mean speed.
    Drifting,
}

impl Kind {
    pub const ALL: [Kind; 6] = [
        Kind::Independent,
        Kind::Transactional,
        Kind::Stalls,
        Kind::Autocorrelated,
        Kind::Wandering,
        Kind::Drifting,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Independent => "independent",
            Kind::Transactional => "transactional",
            Kind::Stalls => "stalls",
            Kind::Autocorrelated => "autocorrelated",
            Kind::Wandering => "wandering",
            Kind::Drifting => "drifting",
        }
    }

    /// Returns whether the comparison must find a slower device. For the last two kinds, two runs of one
    /// device differ as much as the runs of a fast and a slow device, so the comparison must only not call
    /// equal devices different.
    pub fn can_tell(self) -> bool {
        !matches!(self, Kind::Wandering | Kind::Drifting)
    }
}

/// The settings of a generated series.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub kind: Kind,
    pub seconds: u32,
    /// The factor by which every service time is multiplied.
    pub slow: f64,
    pub seed: u64,
}

/// Generates the requests of a series and analyses them.
pub fn analyse(plan: Plan) -> Analysis {
    let mut made = Made { random: Random::new(seed_for(0x7a31_c9e5, plan.seed)), rows: Vec::new() };
    match plan.kind {
        Kind::Independent => open(&mut made, plan, |_, _| 1.0),
        Kind::Autocorrelated => {
            let mut wander = Wander::new(0.1, 0.3);
            open(&mut made, plan, move |made, at| wander.factor(made, at));
        }
        Kind::Wandering => {
            let mut wander = Wander::new(0.2, 0.4);
            open(&mut made, plan, move |made, at| wander.factor(made, at));
        }
        Kind::Drifting => {
            let mut wander = Wander::new(3.0, 0.3);
            open(&mut made, plan, move |made, at| wander.factor(made, at));
        }
        Kind::Stalls => stalls(&mut made, plan),
        Kind::Transactional => transactions(&mut made, plan),
    }
    let end = u64::from(plan.seconds) * 1_000_000_000;
    let meta = Meta { began: Some(Timestamp(0)), ended: Some(Timestamp(end)), ..Meta::default() };
    let mut analyser = Analyser::new(AnalysisOptions { sample_points: 100, ..AnalysisOptions::default() });
    analyser.began(Timestamp(0)).expect("it takes every row");
    made.rows.sort_by_key(|row| row.issued);
    for (id, row) in made.rows.iter_mut().enumerate() {
        row.request_id = id as u64;
        if row.completed.is_some_and(|completed| completed.0 <= end) {
            analyser.request(row).expect("it takes every row");
        }
    }
    analyser.finish(&meta)
}

/// The requests generated so far, and the random number generators for the next requests.
struct Made {
    random: Random,
    rows: Vec<Request>,
}

impl Made {
    fn uniform(&mut self) -> f64 {
        self.random.uniform()
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn log_normal(&mut self, spread: f64) -> f64 {
        (spread * self.normal()).exp()
    }

    fn push(&mut self, op: Op, queued_s: f64, issued_s: f64, completed_s: f64) {
        let ns = |seconds: f64| Timestamp((seconds * 1e9) as u64);
        let mut row =
            Request::new(DeviceId::new(179, 0), op, ByteCount(if op == Op::Flush { 0 } else { 4096 }));
        row.flags = if op == Op::Write { Flags::SYNC } else { Flags::NONE };
        row.flags_known = Flags::KNOWN_FROM_RWBS;
        row.sector = (op != Op::Flush).then(|| Sector((self.uniform() * 1e6) as u64 * 8));
        (row.queued, row.issued, row.completed) =
            (Some(ns(queued_s)), Some(ns(issued_s)), Some(ns(completed_s)));
        self.rows.push(row);
    }
}

/// Returns the base service time of an operation: 1 ms for reads, 3 ms for synchronous writes.
fn base(op: Op) -> f64 {
    if op == Op::Read { 1e-3 } else { 3e-3 }
}

/// Generates requests at random times, 300 per second. `factor` returns the factor by which the device is
/// slowed down at a given time.
fn open(made: &mut Made, plan: Plan, mut factor: impl FnMut(&mut Made, f64) -> f64) {
    let mut at = 0.0;
    while at < f64::from(plan.seconds) {
        at += made.exponential(1.0 / 300.0);
        let op = if made.uniform() < 0.5 { Op::Read } else { Op::Write };
        let service = base(op) * plan.slow * factor(made, at) * made.log_normal(0.5);
        let wait = made.exponential(50e-6);
        made.push(op, at, at + wait, at + wait + service);
    }
}

/// The varying speed of a device. The logarithm of the speed is an Ornstein-Uhlenbeck process.
struct Wander {
    memory_s: f64,
    spread: f64,
    now: Option<(f64, f64)>,
}

impl Wander {
    fn new(memory_s: f64, spread: f64) -> Wander {
        Wander { memory_s, spread, now: None }
    }

    fn factor(&mut self, made: &mut Made, at: f64) -> f64 {
        let value = match self.now {
            None => self.spread * made.normal(),
            Some((before, value)) => {
                let keep = (-(at - before) / self.memory_s).exp();
                keep * value + (1.0 - keep * keep).sqrt() * self.spread * made.normal()
            }
        };
        self.now = Some((at, value));
        value.exp()
    }
}

/// Generates 150 requests per second. The device serves one request at a time, and none during a stall.
fn stalls(made: &mut Made, plan: Plan) {
    let (mut at, mut free) = (0.0, 0.0f64);
    let mut stall = made.exponential(1.5);
    while at < f64::from(plan.seconds) {
        at += made.exponential(1.0 / 150.0);
        let op = if made.uniform() < 0.5 { Op::Read } else { Op::Write };
        let issued = free.max(at);
        let mut service = base(op) * 0.5 * plan.slow * made.log_normal(0.3);
        while issued + service > stall {
            let length = 0.05 + 0.35 * made.uniform();
            service += length * plan.slow;
            stall += length * plan.slow + made.exponential(1.5);
        }
        free = issued + service;
        made.push(op, at, issued, free);
    }
}

/// Generates the requests of one thread, which thinks for 20 ms on average and then commits.
fn transactions(made: &mut Made, plan: Plan) {
    let mut at = 0.0;
    while at < f64::from(plan.seconds) {
        at += made.exponential(0.02);
        let pace = plan.slow * made.log_normal(0.6);
        let mut ops = vec![Op::Read];
        ops.extend(std::iter::repeat_n(Op::Write, 1 + (made.uniform() * 6.0) as usize));
        ops.push(Op::Flush);
        for op in ops {
            let end = at + 20e-6 + base(op) * pace * made.log_normal(0.3);
            made.push(op, at, at + 20e-6, end);
            at = end;
        }
    }
}
