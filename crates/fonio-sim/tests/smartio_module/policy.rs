//! Tests the policy of the SmartIO module in user space. `kernel/smartio/policy.c` and the driver
//! `test/drive.c` are compiled with sanitizers. The tests compare the decisions with test vectors, and check
//! rules that apply to every sequence of events.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use fonio_core::Random;
use fonio_testing::skip_without;

/// The folder of the module's sources.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/smartio");

/// Compiles the driver program once for all tests.
pub fn driver() -> &'static Path {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    DRIVER.get_or_init(|| {
        // Several test processes may compile at the same time, so each of them uses a different file name.
        let program =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("smartio-drive-{}", std::process::id()));
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Wextra", "-Werror", "-g", "-O1", "-fsanitize=address,undefined"]);
        cc.arg("-fno-sanitize-recover=all").arg("-o").arg(&program);
        let out = cc.args(["policy.c", "test/drive.c"]).current_dir(SOURCES).output().expect("cc starts");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        program
    })
}

/// A process that runs the policy. The process reads one line per event and writes one line per reply.
pub struct Driver {
    child: Child,
    events: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The events sent and the replies received so far.
    pub said: Vec<String>,
}

impl Driver {
    pub fn start(scheduler: &str) -> Driver {
        let mut command = Command::new(driver());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the driver starts");
        let events = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut started = Driver { child, events, answers, said: Vec::new() };
        started.event(scheduler);
        started
    }

    /// Sends an event to the policy and returns the reply.
    pub fn event(&mut self, event: &str) -> Option<String> {
        writeln!(self.events.as_mut().expect("open"), "{event}").expect("the driver reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the driver answers");
        self.said.push(line.trim_end().to_owned());
        assert!(line.starts_with(event), "the driver ended:\n{}", self.tail());
        line.trim_end().split_once(" -> ").map(|(_, answer)| answer.to_owned())
    }

    fn tail(&self) -> String {
        self.said[self.said.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.events.take());
        let status = self.child.wait().expect("the driver ends");
        assert!(status.success() || std::thread::panicking(), "the driver failed: {status}\n{}", self.tail());
    }
}

#[test]
fn vectors_give_their_answers() {
    skip_without!(Cc);
    let folder = Path::new(SOURCES).join("test/vectors");
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(&folder).expect("vectors").map(|entry| entry.expect("a file").path()).collect();
    names.sort();
    assert!(!names.is_empty());
    for path in names {
        let vector = File::open(&path).expect("a vector");
        let out = Command::new(driver()).stdin(vector).output().expect("the driver runs");
        assert!(out.status.success(), "{}: the driver failed", path.display());
        expect_test::expect_file![&path].assert_eq(&String::from_utf8(out.stdout).expect("text"));
    }
}

/// The properties of a request that the rules use.
#[derive(Clone, Copy, Debug)]
struct Request {
    came: u64,
    is_write: bool,
    is_sync: bool,
    class: usize,
    level: u64,
    sector: u64,
    sectors: u64,
    kind: usize,
    process: u64,
}

impl Request {
    /// Returns the list in which the request is kept in the order of insertion. If reads have turns, there is
    /// one list of reads per process.
    fn list(&self, has_turns: bool) -> (usize, u64, usize, bool, u64) {
        let process = if has_turns && !self.is_write { self.process } else { 0 };
        let level = if self.class == 2 { 0 } else { self.level };
        (self.class, level, self.kind, self.is_write && self.is_sync, process)
    }
}

/// The settings of the policy in a sequence of events, in the form that the rules need.
struct Rules {
    line: String,
    limits: [u64; 4],
    in_flight_max: u64,
    quantum: u64,
    slice: u64,
    sync_bound: u64,
    turn_wait: u64,
    is_study: bool,
}

fn rules(random: &mut Random) -> Rules {
    let is_study = random.below(3) == 0;
    // The limit 0 means no limit.
    let limits = [0; 4].map(|_| random.below(6));
    let in_flight_max = [0, 1, 2, 8][random.below(4) as usize];
    let quantum = 1 + random.below(8);
    let (slice, sync_bound) = (
        [1_000_000, 10_000_000, 100_000_000][random.below(3) as usize],
        1_000_000 + random.below(25_000_000),
    );
    let sync_bound = if is_study { slice } else { sync_bound };
    let mut line = format!(
        "scheduler smartio {}seq_read={} rand_read={} seq_write={} rand_write={} in_flight_max={in_flight_max} \
         quantum={quantum} slice_ns={slice} sync_bound_ns={sync_bound}",
        if is_study { "study " } else { "" },
        limits[0],
        limits[1],
        limits[2],
        limits[3]
    );
    let mut turn_wait = 0;
    if !is_study {
        turn_wait = [0, 1_000_000, 25_000_000][random.below(3) as usize];
        let turn_reads = [0, 160][random.below(2) as usize];
        line += &format!(
            " hold_max_ns={} read_percent={} turn_wait_ns={turn_wait} turn_reads={turn_reads}",
            random.below(2_000_000),
            100 + random.below(200)
        );
        // On a slow device, a turn may be up to four times longer.
        turn_wait *= if turn_reads > 0 { 4 } else { 1 };
    }
    Rules { line, limits, in_flight_max, quantum, slice, sync_bound, turn_wait, is_study }
}

/// A naive model. It consists of the requests that wait or are in flight and, for each class and list, the
/// time since which its oldest write has been the oldest.
struct Model {
    rules: Rules,
    waiting: BTreeMap<u64, Request>,
    in_flight: BTreeMap<u64, Request>,
    ends: [Vec<u64>; 2],
    /// Time at which a write was last dispatched, by class and by whether the write is sync.
    served: [[u64; 2]; 3],
}

impl Model {
    /// Returns the kind of a request. It depends on whether the request continues one of the last eight
    /// streams of its direction.
    fn kind(&mut self, is_write: bool, sector: u64, sectors: u64) -> usize {
        let direction = usize::from(is_write);
        let ends = &mut self.ends[direction];
        let known = ends.iter().position(|end| *end == sector);
        ends.remove(known.unwrap_or(0));
        ends.push(sector + sectors);
        direction * 2 + usize::from(known.is_none())
    }

    fn of_kind(&self, kind: usize) -> u64 {
        self.in_flight.values().filter(|request| request.kind == kind).count() as u64
    }

    /// Checks that the rules allow the policy to dispatch a request now.
    fn check_dispatch(&self, id: u64, now: u64) -> Result<(), String> {
        let request = self.waiting.get(&id).ok_or("it does not wait")?;
        let rules = &self.rules;
        let limit = rules.limits[request.kind];
        if limit > 0 && self.of_kind(request.kind) >= limit {
            return Err("the limit for requests of its kind is reached".to_owned());
        }
        if rules.in_flight_max > 0 && self.in_flight.len() as u64 >= rules.in_flight_max {
            return Err("the device is full".to_owned());
        }
        let same_queue = |other: &Request| {
            other.class == request.class && (other.class == 2 || other.level == request.level)
        };
        let of_queue = self.in_flight.values().filter(|other| same_queue(other)).count() as u64;
        let is_alone = self.waiting.values().filter(|other| same_queue(other)).count() == self.waiting.len();
        if of_queue >= rules.quantum && !is_alone {
            return Err("the quantum is used up".to_owned());
        }
        let has_turns = rules.turn_wait > 0;
        let list = request.list(has_turns);
        if let Some((first, _)) = self.waiting.iter().find(|(_, other)| other.list(has_turns) == list)
            && *first != id
        {
            return Err(format!("request {first} of the same list was inserted earlier"));
        }
        // When a queue's oldest read has waited for twice the length of a turn, the turn ends, and this read
        // is dispatched first.
        let is_free = |other: &Request| {
            let limit = rules.limits[other.kind];
            limit == 0 || self.of_kind(other.kind) < limit
        };
        let mut reads = self.waiting.iter().filter(|(_, other)| !other.is_write && is_free(other));
        if let Some((first, oldest)) = reads.find(|(_, other)| same_queue(other))
            && !request.is_write
            && *first != id
            && now >= oldest.came + 2 * rules.turn_wait
        {
            return Err(format!("read {first} has waited too long for its turn"));
        }
        let reads = self.waiting.values().any(|other| !other.is_write && other.class == request.class);
        if rules.is_study && request.is_write && reads {
            let bound = if request.is_sync { rules.sync_bound } else { rules.slice };
            let since = self.head_since(request.class, request.is_sync);
            if since.is_none_or(|since| now < since + bound) {
                return Err("a read of the same class waits, and the write is not due".to_owned());
            }
        }
        let higher =
            self.waiting.values().chain(self.in_flight.values()).any(|other| other.class < request.class);
        // The oldest write has waited for its bound. If a limit prevents its dispatch, another write can be
        // dispatched instead.
        let first = self.waiting.values().find(|other| other.class == request.class).expect("this one");
        if request.class == 2 && higher && now < first.came + 1_000_000_000 {
            return Err("the idle class is served although other classes use the device".to_owned());
        }
        Ok(())
    }

    /// Returns the time since which the oldest write of a class and list has been the oldest.
    fn head_since(&self, class: usize, is_sync: bool) -> Option<u64> {
        let mut writes = self
            .waiting
            .values()
            .filter(|request| request.is_write && request.class == class && request.is_sync == is_sync);
        writes.next().map(|first| first.came.max(self.served[class][usize::from(is_sync)]))
    }

    /// Checks that no request may be dispatched now. `timer` is the policy's next timer.
    fn check_none(&self, now: u64, timer: Option<u64>) -> Result<(), String> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        if let Some(timer) = timer
            && timer <= now
        {
            return Err("the next timer is in the past".to_owned());
        }
        if self.in_flight.is_empty() && timer.is_none() {
            return Err("requests wait for nothing".to_owned());
        }
        if !self.in_flight.is_empty() {
            return Ok(());
        }
        // Nothing is in flight, so no limit applies, and reads and due writes must be dispatched. Only the
        // idle class must wait for all other classes.
        let others = self.waiting.values().any(|request| request.class < 2);
        if self.waiting.values().any(|request| !request.is_write && (request.class < 2 || !others)) {
            return Err("a read waits although nothing is in flight".to_owned());
        }
        for class in 0..3 {
            for (is_sync, bound) in [(true, self.rules.sync_bound), (false, self.rules.slice)] {
                let higher = self.waiting.values().any(|request| request.class < class);
                if self.head_since(class, is_sync).is_some_and(|since| now >= since + bound) && !higher {
                    return Err(format!("a write waits beyond its bound of {bound} ns"));
                }
            }
        }
        Ok(())
    }
}

/// Sends random events to the policy until all requests have completed. Returns the number of requests.
fn sequence(seed: u64, events: u64) -> u64 {
    let mut random = Random::new(seed);
    let rules = rules(&mut random);
    let mut driver = Driver::start(&rules.line);
    let mut model = Model {
        rules,
        waiting: BTreeMap::new(),
        in_flight: BTreeMap::new(),
        ends: [vec![u64::MAX; 8], vec![u64::MAX; 8]],
        served: [[0; 2]; 3],
    };
    let (mut now, mut next, mut event) = (0_u64, 0_u64, 0_u64);
    let classes = [1, 1, 1, 1, 0, 2];
    let mut streams = [1_000_u64, 2_000_000, 3_000_000];
    while event < events || !model.waiting.is_empty() || !model.in_flight.is_empty() {
        event += 1;
        assert!(event < events * 50, "seed {seed}: requests remain\n{}", driver.tail());
        let is_over = event >= events;
        match random.below(10) {
            0..=3 if !is_over => {
                let is_write = random.below(2) == 0;
                let is_sync = !is_write || random.below(2) == 0;
                let class = classes[random.below(6) as usize];
                let sectors = 8 << random.below(6);
                let stream = random.below(6) as usize;
                let sector = streams.get(stream).copied().unwrap_or_else(|| random.below(1 << 30) * 8);
                if let Some(end) = streams.get_mut(stream) {
                    *end += sectors;
                }
                let level = random.below(8);
                let process = random.below(5);
                let kind = model.kind(is_write, sector, sectors);
                // Sync writes without their own bound are treated like other writes.
                let is_apart = !is_write || is_sync && model.rules.sync_bound < model.rules.slice;
                let request = Request {
                    came: now,
                    is_write,
                    is_sync: is_sync && is_apart,
                    class,
                    level,
                    sector,
                    sectors,
                    kind,
                    process,
                };
                let priority = [format!("rt{level}"), format!("be{level}"), "idle".to_owned()][class].clone();
                driver.event(&format!(
                    "insert {now} id={next} {} {} sector={} bytes={} process={process} {priority}",
                    if is_write { "write" } else { "read" },
                    if is_sync { "sync" } else { "async" },
                    request.sector,
                    request.sectors * 512
                ));
                model.waiting.insert(next, request);
                next += 1;
            }
            4..=6 => {
                // If no request is dispatched, the timer may have expired too early. It must not expire too
                // late, because no other event would run the queue.
                let next =
                    driver.event(&format!("next {now}")).expect("an answer").parse().unwrap_or(u64::MAX);
                let answer = driver.event(&format!("dispatch {now}")).expect("an answer");
                let timer: Option<u64> =
                    driver.event(&format!("timer {now}")).expect("an answer").parse().ok();
                let is_late = match answer.parse::<u64>() {
                    Ok(_) => next > now,
                    Err(_) => timer.is_some_and(|timer| next > timer),
                };
                assert!(!is_late, "seed {seed}: `next` is too late\n{}", driver.tail());
                let fail = |what: String| panic!("seed {seed}: {what}\n{}", driver.tail());
                let Ok(id) = answer.parse::<u64>() else {
                    model.check_none(now, timer).unwrap_or_else(fail);
                    // The policy dispatches the next request only after its timer has expired.
                    if model.in_flight.is_empty()
                        && let Some(timer) = timer
                    {
                        now = now.max(timer);
                    }
                    continue;
                };
                model.check_dispatch(id, now).unwrap_or_else(fail);
                let request = model.waiting.remove(&id).expect("checked");
                if request.is_write {
                    model.served[request.class][usize::from(request.is_sync)] = now;
                }
                model.in_flight.insert(id, request);
            }
            7..=8 => {
                let at = random.below(model.in_flight.len().max(1) as u64) as usize;
                let Some(id) = model.in_flight.keys().nth(at).copied() else { continue };
                model.in_flight.remove(&id);
                let verb = if random.below(20) == 0 { "withdraw" } else { "complete" };
                driver.event(&format!("{verb} {now} id={id}"));
            }
            _ if random.below(20) == 0 => {
                let at = random.below(model.waiting.len().max(1) as u64) as usize;
                let Some(id) = model.waiting.keys().nth(at).copied() else { continue };
                model.waiting.remove(&id);
                driver.event(&format!("remove {now} id={id}"));
            }
            _ => now += 1 << random.below(26),
        }
    }
    next
}

#[test]
fn random_sequences_keep_the_rules() {
    skip_without!(Cc);
    let requests: u64 = (0..60).map(|seed| sequence(seed, 2_000)).sum();
    assert!(requests > 10_000, "only {requests} requests");
}
