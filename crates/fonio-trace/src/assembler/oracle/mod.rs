//! A slow implementation of the assembler's rules: for every event, the oracle searches one list of all open
//! items from the start.
//!
//! Tests and the fuzz target compare the assembler with this oracle, by rows and counts.

pub mod compare;
mod flush;
mod queue;
mod repeat;
mod service;

use std::collections::BTreeMap;
use std::io;

use fonio_core::event::LostEvents;
use fonio_core::{
    Batch, Bio, BlockEvent, ByteCount, DeviceId, EventKind, Flags, Op, Request, RowSink, Sector, Timestamp,
};

use super::AssemblerOptions;

const FLUSH: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Passed,
    Flying,
    Returned,
    Held,
}

#[derive(Clone, Debug)]
struct Item {
    /// The item's number, which is set when the item is created and when it is issued.
    number: u64,
    /// At the end of the trace, and when a limit is exceeded, items are emitted in the order of (`order`,
    /// `aged`).
    order: u64,
    aged: u64,
    latest: u64,
    stage: Stage,
    is_bio: bool,
    was_queued: bool,
    is_rest: bool,
    got: bool,
    started: bool,
    inserted_seen: bool,
    passed_over: bool,
    flush_after: bool,
    merged: bool,
    /// The repeated issues while the item was in flight, and the time of the last recorded reissue before
    /// these issues.
    repeats: Vec<Repeat>,
    reissued_before: Option<Timestamp>,
    left: u64,
    at: u64,
    row: Request,
    bio_id: u64,
    root: Option<u32>,
    requeues: u32,
    waiters: u64,
    error: Option<i32>,
}

impl Item {
    fn is_request(&self) -> bool {
        self.got || self.started || self.inserted_seen
    }
    fn began(&self) -> u64 {
        self.row.reissued.or(self.row.issued).map_or(self.order, |time| time.0)
    }
    fn cause(&self) -> Option<u32> {
        if self.root == self.row.tid { None } else { self.root }
    }
}

/// A repeated issue of an item in flight: time, insertion, thread, processor.
type Repeat = (u64, Option<Timestamp>, Option<u32>, Option<u32>);

#[derive(Default)]
struct Shown {
    queue: bool,
    issue: bool,
    completion: bool,
    done: bool,
    bio_completion: bool,
    flush_completion: bool,
    passed: u64,
    service: BTreeMap<Op, u64>,
    wait: u64,
    longest: u64,
    before_data: Vec<u64>,
    after_data: Vec<(u64, u64, Option<u32>)>,
    ends_due: u64,
    ends_of_inferred: u64,
    parts: Vec<(u64, u64, Op, u64)>,
    discards: Vec<u64>,
}

/// An event with the device and sector under which it is paired.
#[derive(Clone)]
struct Now<'a> {
    event: &'a BlockEvent,
    device: DeviceId,
    at: u64,
    op: Op,
    bytes: u64,
    time: u64,
}

/// Id, topmost thread and flags of a bio that moved on.
type Upper = (u64, Option<u32>, Flags, Flags);

struct Naive<'a> {
    options: AssemblerOptions,
    items: Vec<Item>,
    devices: BTreeMap<DeviceId, Shown>,
    counts: BTreeMap<String, u64>,
    number: u64,
    request_id: u64,
    bio_id: u64,
    latest: u64,
    settled: u64,
    latest_whole: Option<u64>,
    gaps: Vec<LostEvents>,
    gap_echo: u64,
    orphans: Vec<(DeviceId, u64, Op, u64, u64, Option<i32>)>,
    /// Completion time and number of each held item.
    held: Vec<(u64, u64)>,
    /// Device, end and number of each front-merged bio.
    fronts: Vec<(DeviceId, u64, u64)>,
    /// Device and sector to which each item moved in the current event.
    moved: Vec<(DeviceId, u64)>,
    requeues_shown: bool,
    sink: &'a mut dyn RowSink,
}

/// Emits the same rows as [`Assembler`](super::Assembler) for these batches, computed naively. Fails if the
/// sink fails.
pub fn assemble_naively(
    batches: &[Batch],
    options: AssemblerOptions,
    sink: &mut dyn RowSink,
) -> io::Result<BTreeMap<String, u64>> {
    let mut naive = Naive {
        options,
        items: Vec::new(),
        devices: BTreeMap::new(),
        counts: BTreeMap::new(),
        number: 0,
        request_id: 0,
        bio_id: 0,
        latest: 0,
        settled: 0,
        latest_whole: None,
        gaps: Vec::new(),
        gap_echo: 0,
        orphans: Vec::new(),
        held: Vec::new(),
        fronts: Vec::new(),
        moved: Vec::new(),
        requeues_shown: false,
        sink,
    };
    for batch in batches {
        naive.batch(batch)?;
    }
    naive.gaps.sort_by_key(|gap| gap.before);
    for gap in std::mem::take(&mut naive.gaps) {
        naive.gap(&gap)?;
    }
    while let Some(oldest) = naive.oldest() {
        naive.cut(oldest, "requests_open_at_end")?;
    }
    naive.counts.retain(|_, count| *count > 0);
    Ok(naive.counts)
}

fn after(sector: u64, bytes: u64) -> u64 {
    Sector(sector).after(ByteCount(bytes)).0
}

fn is_data_free_flush(op: Op, flags: Flags, bytes: u64) -> bool {
    bytes == 0 && (op == Op::Flush || op == Op::Write && flags.contains(Flags::PREFLUSH))
}

fn move_median(median: &mut u64, value: u64) {
    let step = (*median / 16).max(1);
    if *median == 0 {
        *median = value;
    } else if value > *median {
        *median += step;
    } else if value < *median {
        *median -= step;
    }
}

impl Naive<'_> {
    fn count(&mut self, name: &str) {
        *self.counts.entry(name.to_owned()).or_default() += 1;
    }

    fn shown(&mut self, device: DeviceId) -> &mut Shown {
        self.devices.entry(device).or_default()
    }

    fn batch(&mut self, batch: &Batch) -> io::Result<()> {
        for gap in &batch.lost {
            if gap.before.0 <= self.latest { self.gap(gap)? } else { self.gaps.push(*gap) }
        }
        for request in &batch.requests {
            if request.order_time().0 < self.settled {
                self.count("events_before_settled");
                continue;
            }
            self.request_id += 1;
            self.latest_whole = self.latest_whole.max(Some(request.order_time().0));
            self.sink.request(&Request { request_id: self.request_id, ..request.clone() })?;
        }
        let mut events = batch.events.clone();
        for pair in batch.events.windows(2) {
            if pair[1].time < pair[0].time {
                self.count("events_out_of_order");
            }
        }
        events.sort_by_key(|event| event.time);
        for event in &events {
            self.event(event)?;
            self.thin_out()?;
        }
        self.give_held_long()?;
        let limit = self.latest.saturating_sub(self.options.horizon.0);
        while let Some(oldest) = self.oldest().filter(|&oldest| self.items[oldest].order < limit) {
            self.cut(oldest, "requests_beyond_horizon")?;
        }
        let mut before = self.latest.saturating_sub(self.options.disorder.0);
        if let Some(whole) = self.latest_whole {
            let whole = whole.saturating_sub(self.options.horizon.0);
            before = if self.latest == 0 { whole } else { before.min(whole) };
        }
        before = self.items.iter().map(|item| item.order).min().map_or(before, |order| before.min(order));
        if before > self.settled {
            self.settled = before;
            self.sink.settled(Timestamp(before))?;
        }
        Ok(())
    }

    fn gap(&mut self, gap: &LostEvents) -> io::Result<()> {
        self.count("gaps_of_lost_events");
        self.gap_echo = self.gap_echo.max(gap.before.0.saturating_add(self.options.horizon.0));
        self.orphans.clear();
        for shown in self.devices.values_mut() {
            shown.before_data.clear();
            shown.after_data.clear();
            shown.ends_due = 0;
            shown.ends_of_inferred = 0;
            shown.parts.clear();
            shown.discards.clear();
        }
        while let Some(oldest) = self.oldest().filter(|&oldest| self.items[oldest].order < gap.before.0) {
            self.cut(oldest, "requests_cut_by_lost_events")?;
        }
        Ok(())
    }

    fn oldest(&self) -> Option<usize> {
        (0..self.items.len()).min_by_key(|&place| (self.items[place].order, self.items[place].aged))
    }

    fn event(&mut self, event: &BlockEvent) -> io::Result<()> {
        let time = event.time.0.min(u64::MAX - 1);
        self.gaps.sort_by_key(|gap| gap.before);
        while self.gaps.first().is_some_and(|gap| gap.before.0 <= time) {
            let gap = self.gaps.remove(0);
            self.gap(&gap)?;
        }
        if time < self.latest {
            self.count("events_out_of_order");
            if time < self.settled {
                self.count("events_before_settled");
                return Ok(());
            }
        }
        self.latest = self.latest.max(time);
        let flush = is_data_free_flush(event.op, event.flags, event.bytes.0);
        let at = match (flush, event.op, event.sector.0) {
            (true, ..) => FLUSH,
            (_, Op::Other, u64::MAX) => 0,
            (.., sector) => sector,
        };
        let op = if flush { Op::Flush } else { event.op };
        let now = Now { event, device: event.device, at, op, bytes: event.bytes.0, time };
        self.shown(event.device);
        match event.kind {
            EventKind::BioQueue => self.queue(&now),
            EventKind::GetRequest | EventKind::IoStart | EventKind::Insert => self.allocate(&now),
            EventKind::BackMerge | EventKind::FrontMerge | EventKind::RequestMerge => {
                self.merge(&now);
                Ok(())
            }
            EventKind::Issue => self.issue(&now),
            EventKind::Requeue => {
                self.requeue(&now);
                Ok(())
            }
            EventKind::Complete => self.complete(&now),
            EventKind::BioComplete => self.complete_bio(&now),
            EventKind::IoDone => self.io_done(&now),
            EventKind::Split { new_sector } => {
                let front = new_sector.0.saturating_sub(at).saturating_mul(512);
                match self.newest(&now, |item| item.stage == Stage::Waiting && splittable(item, front)) {
                    Some(place) => {
                        self.touch(place, &now);
                        self.cleave(place, front)?;
                    }
                    None => self.count("splits_without_bio"),
                }
                Ok(())
            }
            EventKind::Remap { from_device, from_sector } => self.remap(&now, from_device, from_sector.0),
            EventKind::RequestRemap { from_device, from_sector } => {
                self.remap_request(&now, from_device, from_sector.0)
            }
            _ => Ok(()),
        }
    }

    /// Returns the indexes of the items to which the event may belong and that satisfy `fits`.
    fn all(&self, now: &Now<'_>, fits: impl Fn(&Item) -> bool) -> Vec<usize> {
        let same = |item: &Item| item.row.device == now.device && item.at == now.at && item.row.op == now.op;
        (0..self.items.len())
            .filter(|&place| {
                let item = &self.items[place];
                same(item) && item.latest <= now.time && fits(item)
            })
            .collect()
    }

    fn newest(&self, now: &Now<'_>, fits: impl Fn(&Item) -> bool) -> Option<usize> {
        self.all(now, fits).into_iter().max_by_key(|&place| self.items[place].number)
    }

    fn oldest_of(&self, places: &[usize]) -> Option<usize> {
        places.iter().copied().min_by_key(|&place| (self.items[place].began(), self.items[place].number))
    }

    /// Chooses the item that began first, but skips items that are probably stale.
    fn pick(&mut self, mut places: Vec<usize>, now: u64, typical: u64) -> usize {
        places.sort_by_key(|&place| (self.items[place].began(), self.items[place].number));
        let mut places = places.into_iter().peekable();
        loop {
            let place = places.next().expect("there is a candidate");
            let Some(&next) = places.peek() else { return place };
            let older = u128::from(now - self.items[place].began());
            let newer = u128::from(now - self.items[next].began());
            let typical = u128::from(typical);
            if older / 4 <= newer || older * newer <= typical * typical {
                return place;
            }
            self.items[place].passed_over = true;
        }
    }

    fn touch(&mut self, place: usize, now: &Now<'_>) {
        let item = &mut self.items[place];
        item.row.flags |= now.event.flags;
        item.row.flags_known |= now.event.flags_known;
        item.row.ioprio = item.row.ioprio.or(now.event.ioprio);
        item.latest = item.latest.max(now.time);
    }

    fn fresh(&self, now: &Now<'_>) -> Item {
        Item {
            number: 0,
            order: now.time,
            aged: 0,
            latest: now.time,
            stage: Stage::Waiting,
            is_bio: false,
            was_queued: false,
            is_rest: false,
            got: false,
            started: false,
            inserted_seen: false,
            passed_over: false,
            flush_after: false,
            merged: false,
            repeats: Vec::new(),
            reissued_before: None,
            left: now.bytes,
            at: now.at,
            row: Request::new(now.device, now.op, ByteCount(now.bytes)),
            bio_id: 0,
            root: None,
            requeues: 0,
            waiters: 0,
            error: None,
        }
    }

    /// Adds an item, after making room for it, and returns its number.
    fn add(&mut self, item: Item) -> io::Result<u64> {
        while self.items.len() >= self.options.open_max.max(1) {
            let oldest = self.oldest().expect("something is open");
            self.cut(oldest, "requests_beyond_open_limit")?;
        }
        Ok(self.push(item))
    }

    fn push(&mut self, mut item: Item) -> u64 {
        self.number += 1;
        item.number = self.number;
        item.aged = self.number;
        let number = self.number;
        self.moved.push((item.row.device, item.at));
        self.items.push(item);
        number
    }

    /// After an event, emits the oldest items of each sector that has too many items.
    fn thin_out(&mut self) -> io::Result<()> {
        while let Some((device, at)) = self.moved.pop() {
            loop {
                let same: Vec<usize> = (0..self.items.len())
                    .filter(|&place| self.items[place].row.device == device && self.items[place].at == at)
                    .collect();
                if same.len() <= 256 {
                    break;
                }
                self.cut(same[0], "requests_beyond_open_limit")?;
            }
        }
        Ok(())
    }

    fn place(&self, number: u64) -> usize {
        self.items.iter().position(|item| item.number == number).expect("the item is open")
    }

    /// Adds a waiting item for an event.
    fn wait(&mut self, now: &Now<'_>, is_bio: bool) -> io::Result<usize> {
        let mut item = self.fresh(now);
        item.row.flags = now.event.flags;
        item.row.flags_known = now.event.flags_known;
        item.row.ioprio = now.event.ioprio;
        item.row.tid = now.event.tid;
        item.row.cpu = now.event.cpu;
        item.is_bio = is_bio;
        if is_bio {
            self.bio_id += 1;
            item.bio_id = self.bio_id;
        }
        self.retire(now, false)?;
        let number = self.add(item)?;
        if now.event.flags.contains(Flags::PREFLUSH) && now.at != FLUSH {
            let before = &mut self.shown(now.device).before_data;
            before.push(number);
            let excess = before.len().saturating_sub(256);
            before.drain(..excess);
        }
        if is_bio && now.op == Op::Discard {
            let open: Vec<u64> = self.items.iter().map(|item| item.number).collect();
            let discards = &mut self.shown(now.device).discards;
            if discards.len() == 256 {
                discards.remove(0);
            }
            discards.push(number);
            discards.retain(|number| open.contains(number));
        }
        Ok(self.place(number))
    }

    fn retire(&mut self, now: &Now<'_>, flying: bool) -> io::Result<()> {
        while let Some(place) = self.items.iter().position(|item| {
            item.row.device == now.device
                && item.at == now.at
                && item.passed_over
                && (item.stage == Stage::Flying) == flying
        }) {
            self.cut(place, "superseded")?;
        }
        Ok(())
    }

    fn request_id(&mut self, place: usize) -> u64 {
        if self.items[place].row.request_id == 0 {
            self.request_id += 1;
            self.items[place].row.request_id = self.request_id;
        }
        self.items[place].row.request_id
    }

    fn request(&mut self, place: usize, completed: Option<(u64, Option<i32>)>) -> io::Result<()> {
        self.request_id(place);
        self.unite(place);
        let item = self.items.remove(place);
        let no_data = item.row.op == Op::Flush && item.at == FLUSH;
        let mut row = item.row.clone();
        row.sector = row.sector.or(Some(Sector(item.at))).filter(|_| !no_data);
        row.completed = completed.map(|(time, _)| Timestamp(time));
        row.error = completed.and_then(|(_, error)| joined(item.error, error));
        row.requeues = (item.requeues > 0 || self.requeues_shown).then_some(item.requeues);
        row.cause_tid = item.cause();
        self.sink.request(&row)
    }

    fn bio(&mut self, place: usize, request_id: Option<u64>, completed: Option<u64>) -> io::Result<()> {
        let item = self.items[place].clone();
        self.give_bio(&item, request_id, completed)
    }

    fn give_bio(&mut self, item: &Item, request_id: Option<u64>, completed: Option<u64>) -> io::Result<()> {
        if !item.is_bio || !self.sink.wants_bios() {
            return Ok(());
        }
        let no_data = item.row.op == Op::Flush && item.at == FLUSH;
        self.sink.bio(&Bio {
            bio_id: item.bio_id,
            device: item.row.device,
            op: item.row.op,
            flags: item.row.flags,
            flags_known: item.row.flags_known,
            sector: (!no_data).then_some(Sector(item.at)),
            bytes: ByteCount(item.left),
            queued: item.row.queued.expect("a bio was queued"),
            completed: completed.map(Timestamp),
            tid: item.row.tid,
            cause_tid: item.cause(),
            file_id: None,
            request_id,
        })
    }

    fn cut(&mut self, place: usize, why: &str) -> io::Result<()> {
        let item = self.items[place].clone();
        if item.stage == Stage::Held {
            return self.request(place, Some((item.latest, None)));
        }
        let issued = matches!(item.stage, Stage::Flying | Stage::Returned);
        let is_request = issued || item.stage == Stage::Waiting && item.is_request();
        if item.stage == Stage::Passed && !item.is_bio {
            self.items.remove(place);
            return Ok(());
        }
        match (why, is_request, item.stage) {
            ("superseded", true, Stage::Flying | Stage::Returned) => self.count("superseded_issues"),
            ("superseded", ..) => self.count("superseded_bios"),
            (_, false, Stage::Passed) => self.count("bios_without_completion"),
            (_, false, _) => self.count("bios_without_request"),
            ("requests_open_at_end" | "requests_beyond_horizon", _, Stage::Waiting) => {
                self.count("requests_never_issued");
            }
            ("requests_open_at_end", ..) => {
                let longest = self.shown(item.row.device).longest.max(super::give::PAUSE_MAX.0);
                let overdue = self.latest.saturating_sub(item.began()) > longest;
                self.count(if overdue { "requests_without_completion" } else { why });
            }
            (why, true, _) => self.count(why),
        }
        if !is_request {
            self.bio(place, None, None)?;
            self.items.remove(place);
            return Ok(());
        }
        if !issued {
            let request_id = self.request_id(place);
            self.bio(place, Some(request_id), None)?;
            self.gather_unissued(item.number)?;
            return self.request(self.place(item.number), None);
        }
        let shown = self.shown(item.row.device);
        if !item.repeats.is_empty() && !shown.completion && !shown.done {
            let place = self.give_first(place, None)?;
            return self.cut(place, why);
        }
        self.request(place, None)
    }
}

fn splittable(item: &Item, bytes: u64) -> bool {
    item.is_bio && !item.is_request() && bytes > 0 && item.left > bytes && bytes.is_multiple_of(512)
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

fn joined(one: Option<i32>, other: Option<i32>) -> Option<i32> {
    match one {
        None | Some(0) => other.or(one),
        error => error,
    }
}
