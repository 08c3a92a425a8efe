//! The same rules, slowly: one list of everything open, searched from its beginning for every event.
//!
//! Tests and the fuzz target compare the assembler with this, row by row and count by count.

use std::collections::BTreeMap;
use std::io;

use fonio_core::event::LostEvents;
use fonio_core::{
    Batch, Bio, BlockEvent, ByteCount, DeviceId, EventKind, Flags, Link, LinkEnd, LinkKind, Op, Request,
    RowSink, Sector, Timestamp,
};

use super::AssemblerOptions;

const FLUSH: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Passed,
    Flying,
    Returned,
}

#[derive(Clone, Debug)]
struct Item {
    /// Changes whenever the item is created or issued.
    number: u64,
    /// Ends of the trace and limits give out by (`order`, `aged`).
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

#[derive(Default)]
struct Shown {
    queue: bool,
    issue: bool,
    completion: bool,
    bio_completion: bool,
    flush_completion: bool,
    passed: u64,
    service: BTreeMap<Op, u64>,
    wait: u64,
    before_data: Vec<u64>,
    after_data: Vec<(u64, u64, Option<u32>)>,
    ends_due: u64,
    ends_of_inferred: u64,
    parts: Vec<(u64, u64, Op, u64)>,
    discards: Vec<u64>,
}

/// One event with its place worked out.
#[derive(Clone)]
struct Now<'a> {
    event: &'a BlockEvent,
    device: DeviceId,
    at: u64,
    op: Op,
    bytes: u64,
    time: u64,
}

/// Id, topmost thread and flags of a bio that went on.
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
    requeues_shown: bool,
    sink: &'a mut dyn RowSink,
}

/// What [`Assembler`](super::Assembler) gives for these batches, worked out naively.
///
/// # Errors
/// What the sink reports.
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
        }
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
            if event.time.0 < self.settled {
                self.count("events_before_settled");
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

    /// Places of the items that the event may belong to, and that `fits`.
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

    /// First in, first out, but for those that are probably stale.
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

    /// Makes room and takes an item in; gives its number.
    fn add(&mut self, item: Item) -> io::Result<u64> {
        while self.items.len() >= self.options.open_max.max(1) {
            let oldest = self.oldest().expect("something is open");
            self.cut(oldest, "requests_beyond_open_limit")?;
        }
        self.push(item, None)
    }

    /// Takes an item in, and gives out the first of its sector if there are too many, unless that is `but`.
    fn push(&mut self, mut item: Item, but: Option<u64>) -> io::Result<u64> {
        self.number += 1;
        item.number = self.number;
        item.aged = self.number;
        let number = self.number;
        let (device, at) = (item.row.device, item.at);
        self.items.push(item);
        self.limit(device, at, but)?;
        Ok(number)
    }

    fn limit(&mut self, device: DeviceId, at: u64, but: Option<u64>) -> io::Result<()> {
        let same: Vec<usize> = (0..self.items.len())
            .filter(|&place| self.items[place].row.device == device && self.items[place].at == at)
            .collect();
        if same.len() > 256 && Some(self.items[same[0]].number) != but {
            self.cut(same[0], "requests_beyond_open_limit")?;
        }
        Ok(())
    }

    fn place(&self, number: u64) -> usize {
        self.items.iter().position(|item| item.number == number).expect("the item is open")
    }

    /// A new waiting item for an event.
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
        let number = self.add(item)?;
        self.retire(now, false)?;
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

    fn queue(&mut self, now: &Now<'_>) -> io::Result<()> {
        self.shown(now.device).queue = true;
        let made = self.newest(now, |item| {
            item.stage == Stage::Waiting
                && item.left == now.bytes
                && item.is_bio
                && (!item.was_queued || item.is_rest)
        });
        let Some(place) = made else {
            let place = self.wait(now, true)?;
            self.items[place].was_queued = true;
            self.items[place].row.queued = Some(Timestamp(now.time));
            return Ok(());
        };
        self.touch(place, now);
        let item = &mut self.items[place];
        if !item.is_rest {
            item.row.queued = Some(Timestamp(now.time));
        }
        item.was_queued = true;
        item.is_rest = false;
        item.row.tid = now.event.tid.or(item.row.tid);
        item.row.cpu = now.event.cpu.or(item.row.cpu);
        Ok(())
    }

    /// G, `block_io_start` and I.
    fn allocate(&mut self, now: &Now<'_>) -> io::Result<()> {
        let kind = now.event.kind;
        let is_insert = kind == EventKind::Insert;
        let returned = |item: &Item| item.stage == Stage::Returned && item.left == now.bytes;
        let same = |item: &&Item| item.row.device == now.device && item.at == now.at && item.row.op == now.op;
        if is_insert && self.items.iter().filter(same).any(returned) {
            return Ok(());
        }
        let free = |item: &Item| {
            item.stage == Stage::Waiting
                && !match kind {
                    EventKind::GetRequest => item.got,
                    EventKind::IoStart => item.started,
                    _ => item.inserted_seen,
                }
        };
        let mut found = self.newest(now, |item| free(item) && item.left == now.bytes);
        if found.is_none() && is_insert {
            found = self.newest(now, |item| free(item) && item.left < now.bytes);
        }
        if found.is_none() {
            found = self.newest(now, |item| free(item) && splittable(item, now.bytes));
            if let Some(place) = found {
                self.count("splits_inferred");
                found = Some(self.cleave(place, now.bytes)?);
            }
        }
        let place = match found {
            Some(place) => {
                self.touch(place, now);
                place
            }
            None => {
                let place = self.wait(now, false)?;
                if !is_insert {
                    self.items[place].row.queued = Some(Timestamp(now.time));
                    self.count("queued_from_allocation");
                }
                place
            }
        };
        let item = &mut self.items[place];
        match kind {
            EventKind::GetRequest => item.got = true,
            EventKind::IoStart => item.started = true,
            _ => {
                item.inserted_seen = true;
                item.row.inserted = earlier(item.row.inserted, Some(Timestamp(now.time)));
            }
        }
        Ok(())
    }

    /// Shortens a bio to `front` bytes and makes another of the rest; gives the place of the first.
    fn cleave(&mut self, place: usize, front: u64) -> io::Result<usize> {
        self.bio_id += 1;
        let mut rest = self.items[place].clone();
        let parent = &mut self.items[place];
        parent.left = front;
        parent.row.bytes = ByteCount(front);
        let (parent_id, number) = (parent.bio_id, parent.number);
        rest.at = after(rest.at, front);
        rest.left -= front;
        rest.row.bytes = ByteCount(rest.left);
        rest.bio_id = self.bio_id;
        rest.row.request_id = 0;
        rest.row.inserted = None;
        rest.got = false;
        rest.started = false;
        rest.inserted_seen = false;
        rest.passed_over = false;
        rest.is_rest = true;
        self.link(LinkKind::Split, (LinkEnd::Bio, parent_id), (LinkEnd::Bio, self.bio_id))?;
        self.push(rest, Some(number))?;
        Ok(self.place(number))
    }

    fn link(
        &mut self,
        kind: LinkKind,
        (parent_table, parent): (LinkEnd, u64),
        (child_table, child): (LinkEnd, u64),
    ) -> io::Result<()> {
        if self.sink.wants_bios() {
            self.sink.link(&Link { kind, parent_table, parent, child_table, child })?;
        }
        Ok(())
    }

    fn remap(&mut self, now: &Now<'_>, from_device: DeviceId, from_sector: u64) -> io::Result<()> {
        self.shown(from_device);
        let at = if now.at == FLUSH && now.op == Op::Flush { FLUSH } else { from_sector };
        // A data event at the last sector is not told from a flush by its place.
        let at = if now.at == FLUSH { FLUSH } else { at };
        let from = Now { device: from_device, at, ..now.clone() };
        let (parent, root, flags, known) = match self.pass_on(&from)? {
            Some(parent) => parent,
            None if self.shown(from_device).queue => {
                self.count("remaps_without_bio");
                (0, None, Flags::NONE, Flags::NONE)
            }
            None => {
                let mut item = self.fresh(&from);
                item.is_bio = true;
                self.bio_id += 1;
                item.bio_id = self.bio_id;
                item.row.queued = Some(Timestamp(now.time));
                item.row.tid = now.event.tid;
                item.row.flags = now.event.flags;
                item.row.flags_known = now.event.flags_known;
                self.give_bio(&item, None, None)?;
                (self.bio_id, now.event.tid, now.event.flags, now.event.flags_known)
            }
        };
        let place = self.wait(now, true)?;
        let child = &mut self.items[place];
        child.row.queued = Some(Timestamp(now.time));
        child.root = root;
        child.row.flags |= flags;
        child.row.flags_known |= known;
        let child = child.bio_id;
        if parent != 0 {
            self.link(LinkKind::Remap, (LinkEnd::Bio, parent), (LinkEnd::Bio, child))?;
        }
        Ok(())
    }

    fn pass_on(&mut self, from: &Now<'_>) -> io::Result<Option<Upper>> {
        let waiting = |item: &Item| item.is_bio && item.stage == Stage::Waiting;
        let found = self
            .newest(from, |item| waiting(item) && item.left == from.bytes)
            .or_else(|| {
                self.newest(from, |item| {
                    item.is_bio && item.stage == Stage::Passed && item.left == from.bytes
                })
            })
            .or_else(|| self.newest(from, |item| waiting(item) && item.left > from.bytes))
            .or_else(|| self.part(from));
        let Some(place) = found else { return Ok(None) };
        self.items[place].latest = from.time;
        let parent = self.items[place].clone();
        let facts = (parent.bio_id, parent.root.or(parent.row.tid), parent.row.flags, parent.row.flags_known);
        if parent.stage == Stage::Passed {
            return Ok(Some(facts));
        }
        self.items[place].stage = Stage::Passed;
        let shown = self.shown(from.device);
        if parent.left > from.bytes {
            if shown.parts.len() == 64 {
                shown.parts.remove(0);
            }
            let next = after(from.at, from.bytes);
            shown.parts.push((parent.number, next, from.op, parent.left - from.bytes));
        }
        shown.passed += 1;
        let hopeless = !shown.bio_completion && shown.passed > 1024;
        if !parent.was_queued && parent.left == from.bytes {
            self.bio(place, None, None)?;
            self.items.remove(place);
        } else if hopeless {
            let mut all: Vec<_> = self
                .items
                .iter()
                .filter(|item| item.stage == Stage::Passed && item.is_bio && item.row.device == from.device)
                .map(|item| (item.order, item.aged, item.number))
                .collect();
            all.sort_unstable();
            for (.., number) in all {
                self.cut(self.place(number), "")?;
            }
        }
        Ok(Some(facts))
    }

    fn part(&mut self, from: &Now<'_>) -> Option<usize> {
        let items = &self.items;
        let parts = &mut self.devices.get_mut(&from.device)?.parts;
        parts.retain(|part| items.iter().any(|item| item.number == part.0 && item.stage == Stage::Passed));
        let part = parts
            .iter_mut()
            .rev()
            .find(|part| part.1 == from.at && part.2 == from.op && part.3 >= from.bytes)?;
        part.1 = after(from.at, from.bytes);
        part.3 -= from.bytes;
        let number = part.0;
        let empty = parts.iter().rposition(|part| part.0 == number && part.3 == 0);
        if let Some(empty) = empty {
            parts.remove(empty);
        }
        Some(self.place(number))
    }

    fn remap_request(&mut self, now: &Now<'_>, from_device: DeviceId, from_sector: u64) -> io::Result<()> {
        self.shown(from_device);
        let at = if now.at == FLUSH { FLUSH } else { from_sector };
        let from = Now { device: from_device, at, ..now.clone() };
        let found = self.newest(&from, |item| item.stage == Stage::Flying && item.left == now.bytes);
        let Some(place) = found else {
            self.count("request_remaps_without_request");
            return Ok(());
        };
        let parent = &mut self.items[place];
        parent.stage = Stage::Passed;
        parent.is_bio = false;
        parent.was_queued = false;
        parent.is_rest = false;
        parent.got = false;
        parent.started = false;
        parent.inserted_seen = false;
        parent.passed_over = false;
        parent.flush_after = false;
        let parent = parent.clone();
        let mut child = self.fresh(now);
        child.order = parent.row.queued.map_or(now.time, |queued| queued.0.min(now.time));
        child.row.request_id = parent.row.request_id;
        child.row.queued = parent.row.queued;
        child.row.inserted = parent.row.inserted;
        child.row.flags = parent.row.flags | now.event.flags;
        child.row.flags_known = parent.row.flags_known | now.event.flags_known;
        child.row.ioprio = parent.row.ioprio.or(now.event.ioprio);
        child.row.tid = parent.row.tid;
        child.row.cpu = parent.row.cpu;
        child.root = parent.root;
        child.got = true;
        self.add(child)?;
        Ok(())
    }

    fn issue(&mut self, now: &Now<'_>) -> io::Result<()> {
        self.shown(now.device).issue = true;
        let is_flush = now.at == FLUSH && now.op == Op::Flush;
        let exact = |item: &Item| item.left == now.bytes;
        let waiting = |item: &Item| item.stage == Stage::Waiting;
        let returned = self.all(now, |item| item.stage == Stage::Returned && exact(item));
        if let Some(&place) = returned.first() {
            if returned.len() > 1 {
                self.count("ambiguous_issues");
            }
            self.reissue(place, now);
            return Ok(());
        }
        if is_flush {
            return self.issue_flush(now);
        }
        let mut equal = self.all(now, |item| waiting(item) && exact(item));
        if equal.iter().any(|&place| self.items[place].inserted_seen) {
            equal.retain(|&place| self.items[place].inserted_seen);
        }
        let numbers: Vec<u64> = equal.iter().map(|&place| self.items[place].number).collect();
        if !self.all(now, |item| item.stage == Stage::Flying && exact(item)).is_empty() {
            self.count("duplicate_issues");
            self.retire(now, true)?;
        }
        let equal: Vec<usize> = numbers.into_iter().map(|number| self.place(number)).collect();
        let head = match equal.len() {
            0 => {
                if let Some(place) = self.newest(now, |item| waiting(item) && item.left < now.bytes) {
                    Some(place)
                } else if let Some(place) =
                    self.newest(now, |item| waiting(item) && splittable(item, now.bytes))
                {
                    self.count("splits_inferred");
                    Some(self.cleave(place, now.bytes)?)
                } else if let Some(place) =
                    self.newest(now, |item| item.stage == Stage::Returned && item.left < now.bytes)
                {
                    self.reissue(place, now);
                    return Ok(());
                } else {
                    None
                }
            }
            1 => {
                if let Some(queued) = self.items[equal[0]].row.queued {
                    move_median(&mut self.shown(now.device).wait, now.time - queued.0);
                }
                Some(equal[0])
            }
            _ => {
                self.count("ambiguous_issues");
                let typical = self.shown(now.device).wait;
                Some(self.pick(equal, now.time, typical))
            }
        };
        let place = match head {
            Some(place) => self.gather(place, now)?,
            None => {
                let mut item = self.fresh(now);
                item.row.tid = now.event.tid;
                let number = self.add(item)?;
                self.place(number)
            }
        };
        let number = self.launch(place, now);
        if now.time < self.latest {
            let found = self.orphans.iter().position(|orphan| {
                (orphan.0, orphan.1, orphan.2, orphan.3) == (now.device, now.at, now.op, now.bytes)
                    && orphan.4 >= now.time
            });
            if let Some(found) = found {
                let orphan = self.orphans.remove(found);
                if let Some(count) = self.counts.get_mut("completions_without_issue") {
                    *count = count.saturating_sub(1);
                }
                let place = self.place(number);
                self.request(place, Some((orphan.4, orphan.5)))?;
            }
        }
        Ok(())
    }

    fn gather(&mut self, head: usize, now: &Now<'_>) -> io::Result<usize> {
        let number = self.items[head].number;
        if self.sink.wants_bios() && self.items[head].is_bio || self.items[head].left < now.bytes {
            let request_id = self.request_id(head);
            self.bio(head, Some(request_id), None)?;
        }
        let mut left = now.bytes - self.items[head].left;
        let mut at = after(now.at, self.items[head].left);
        let mut first = self.items[head].bio_id;
        while left > 0 {
            let tile = Now { at, ..now.clone() };
            let Some(place) = self.newest(&tile, |item| {
                let fits = item.left > 0 && item.left <= left && item.at != FLUSH;
                item.stage == Stage::Waiting && fits && item.row.request_id == 0
            }) else {
                break;
            };
            left -= self.items[place].left;
            at = after(at, self.items[place].left);
            self.take_in(number, self.items[place].number, &mut first)?;
        }
        if left == 0 {
            return Ok(self.place(number));
        }
        let mut ranges = Vec::new();
        if let (Op::Discard, Some(began)) = (now.op, self.items[self.place(number)].row.queued) {
            for &range in &self.devices[&now.device].discards {
                let Some(item) = self.items.iter().find(|item| item.number == range) else { continue };
                let in_time = item.row.queued >= Some(began) && item.latest <= now.time;
                let free = item.stage == Stage::Waiting && !item.is_request() && item.row.request_id == 0;
                if range != number && in_time && free && item.left > 0 && item.left <= left {
                    ranges.push(range);
                    left -= item.left;
                }
            }
        }
        if left == 0 {
            self.count("discard_merges_inferred");
            for range in ranges {
                self.take_in(number, range, &mut first)?;
            }
        } else if self.shown(now.device).queue {
            self.count("merges_missing");
        }
        Ok(self.place(number))
    }

    /// Makes an item a part of a request.
    fn take_in(&mut self, head: u64, part: u64, first: &mut u64) -> io::Result<()> {
        let request_id = self.items[self.place(head)].row.request_id;
        let place = self.place(part);
        self.bio(place, Some(request_id), None)?;
        let part = self.items.remove(place);
        let head = self.place(head);
        let item = &mut self.items[head];
        let is_first = part.row.queued.is_some_and(|part| item.row.queued.is_none_or(|own| part < own));
        let mut merged = part.bio_id;
        if is_first {
            item.row.queued = part.row.queued;
            item.row.tid = part.row.tid.or(item.row.tid);
            item.row.cpu = part.row.cpu.or(item.row.cpu);
            item.root = part.root;
            std::mem::swap(&mut merged, first);
        }
        item.row.inserted = earlier(item.row.inserted, part.row.inserted);
        item.row.flags |= part.row.flags;
        item.row.flags_known |= part.row.flags_known;
        item.row.ioprio = item.row.ioprio.or(part.row.ioprio);
        if merged != 0 {
            self.link(LinkKind::Merge, (LinkEnd::Bio, merged), (LinkEnd::Request, request_id))?;
        }
        Ok(())
    }

    fn launch(&mut self, place: usize, now: &Now<'_>) -> u64 {
        self.request_id(place);
        self.number += 1;
        let (number, fua) = (self.number, Flags::FUA);
        let item = &mut self.items[place];
        if item.row.flags.contains(fua)
            && now.event.flags_known.contains(fua)
            && !now.event.flags.contains(fua)
        {
            item.flush_after = true;
        }
        item.stage = Stage::Flying;
        item.passed_over = false;
        item.number = number;
        item.aged = number;
        item.order = now.time;
        item.left = now.bytes;
        item.row.issued = Some(Timestamp(now.time));
        item.row.bytes = ByteCount(now.bytes);
        item.row.sector = Some(Sector(now.at));
        item.row.cpu = now.event.cpu.or(item.row.cpu);
        item.row.tid = item.row.tid.or(now.event.tid);
        self.touch(place, now);
        number
    }

    fn reissue(&mut self, place: usize, now: &Now<'_>) {
        self.number += 1;
        let number = self.number;
        self.touch(place, now);
        let item = &mut self.items[place];
        item.stage = Stage::Flying;
        item.number = number;
        item.row.reissued = Some(Timestamp(now.time));
        item.row.bytes = ByteCount(item.row.bytes.0 + now.bytes - item.left);
        item.left = now.bytes;
    }

    fn issue_flush(&mut self, now: &Now<'_>) -> io::Result<()> {
        let mut waiters = self.all(now, |item| item.stage == Stage::Waiting);
        waiters.sort_by_key(|&place| {
            let item = &self.items[place];
            (item.row.request_id == 0, item.began(), item.number)
        });
        let head = waiters.first().copied();
        waiters.retain(|&place| Some(place) == head || self.items[place].row.request_id == 0);
        let waiters: Vec<u64> = waiters.into_iter().map(|place| self.items[place].number).collect();
        self.retire(now, true)?;
        let number = match waiters.first() {
            Some(&number) => number,
            None => {
                let item = self.fresh(now);
                self.add(item)?
            }
        };
        let place = self.place(number);
        let request_id = self.request_id(place);
        for &waiter in &waiters {
            let place = self.place(waiter);
            self.bio(place, Some(request_id), None)?;
            let item = self.items[place].clone();
            if item.is_bio {
                self.link(LinkKind::Flush, (LinkEnd::Bio, item.bio_id), (LinkEnd::Request, request_id))?;
            }
            if waiter != number {
                self.items.remove(place);
                let place = self.place(number);
                let request = &mut self.items[place].row;
                request.flags |= item.row.flags;
                request.flags_known |= item.row.flags_known;
                request.inserted = earlier(request.inserted, item.row.inserted);
            }
        }
        let count = waiters.len() as u64;
        let place = self.place(number);
        self.items[place].waiters = count;
        let shown = self.shown(now.device);
        shown.ends_due += count;
        let (before, after) = (std::mem::take(&mut shown.before_data), std::mem::take(&mut shown.after_data));
        let mut cause = None;
        let mut parents = Vec::new();
        for parent in before {
            let place =
                self.items.iter().position(|item| item.number == parent && item.stage == Stage::Waiting);
            if let Some(place) = place {
                let id = self.request_id(place);
                parents.push((id, self.items[place].root.or(self.items[place].row.tid)));
            }
        }
        parents.extend(after.into_iter().map(|(id, _, tid)| (id, tid)));
        for (id, tid) in parents {
            cause = cause.or(tid);
            self.link(LinkKind::Flush, (LinkEnd::Request, id), (LinkEnd::Request, request_id))?;
        }
        let item = &mut self.items[place];
        item.root = item.root.or(item.row.tid).or(cause);
        self.launch(place, now);
        Ok(())
    }

    fn requeue(&mut self, now: &Now<'_>) {
        self.requeues_shown = true;
        let mut places = self.all(now, |item| item.stage == Stage::Flying && item.left == now.bytes);
        if places.is_empty() {
            places = self.all(now, |item| item.stage == Stage::Flying);
        }
        let Some(place) = self.oldest_of(&places) else {
            return self.count("requeues_without_issue");
        };
        if places.len() > 1 {
            self.count("ambiguous_requeues");
        }
        let item = &mut self.items[place];
        item.stage = Stage::Returned;
        item.requeues += 1;
        item.latest = now.time;
    }

    fn complete(&mut self, now: &Now<'_>) -> io::Result<()> {
        let shown = self.shown(now.device);
        shown.completion = true;
        if now.at == FLUSH && now.event.op == Op::Flush {
            shown.flush_completion = true;
        }
        let typical = shown.service.get(&now.op).copied().unwrap_or(0);
        let exact = |item: &Item| item.left == now.bytes;
        let flying = |item: &Item| item.stage == Stage::Flying;
        let equal = self.all(now, |item| flying(item) && exact(item));
        if !equal.is_empty() {
            let place = if equal.len() == 1 {
                let service = now.time - self.items[equal[0]].began();
                move_median(self.shown(now.device).service.entry(now.op).or_default(), service);
                equal[0]
            } else {
                self.count("ambiguous_completions");
                self.pick(equal, now.time, typical)
            };
            return self.end(place, now);
        }
        let larger = self.all(now, |item| flying(item) && now.bytes > 0 && item.left > now.bytes);
        if !larger.is_empty() {
            let place = if larger.len() == 1 {
                larger[0]
            } else {
                self.count("ambiguous_completions");
                self.pick(larger, now.time, typical)
            };
            // It goes to the end of the line at its new sector.
            let mut item = self.items.remove(place);
            item.error = joined(item.error, now.event.error);
            item.left -= now.bytes;
            item.latest = now.time;
            item.at = after(item.at, now.bytes);
            let (device, at) = (item.row.device, item.at);
            self.items.push(item);
            return self.limit(device, at, None);
        }
        let returned = self.all(now, |item| item.stage == Stage::Returned && exact(item));
        if let Some(&place) = returned.first() {
            self.count("completions_of_requeued");
            return self.end(place, now);
        }
        let passed = self.all(now, |item| item.stage == Stage::Passed && exact(item));
        if !passed.is_empty() {
            return self.end_passed(&passed, now);
        }
        if self.end_waiting(now, false)? {
            return Ok(());
        }
        if let (Op::Other, Some(&place)) = (now.op, self.all(now, flying).first()) {
            return self.end(place, now);
        }
        if now.event.bytes.0 == 0 && now.event.op == Op::Write {
            return self.end_flush_sequence(now);
        }
        if self.orphans.len() == 64 {
            self.orphans.remove(0);
        }
        self.orphans.push((now.device, now.at, now.op, now.bytes, now.time, now.event.error));
        self.count(if now.time <= self.gap_echo {
            "completions_after_lost_events"
        } else {
            "completions_without_issue"
        });
        Ok(())
    }

    fn end(&mut self, place: usize, now: &Now<'_>) -> io::Result<()> {
        if self.items[place].flush_after {
            let id = self.request_id(place);
            let item = &self.items[place];
            let after = (id, item.at, item.root.or(item.row.tid));
            let waiting = &mut self.shown(now.device).after_data;
            waiting.push(after);
            let excess = waiting.len().saturating_sub(256);
            waiting.drain(..excess);
        }
        self.request(place, Some((now.time, now.event.error)))
    }

    fn end_passed(&mut self, passed: &[usize], now: &Now<'_>) -> io::Result<()> {
        if passed.len() > 1 {
            self.count("ambiguous_completions");
        }
        self.end_bio(passed[0], now)
    }

    fn end_bio(&mut self, place: usize, now: &Now<'_>) -> io::Result<()> {
        if self.items[place].is_bio {
            self.shown(now.device).bio_completion = true;
        }
        self.bio(place, None, Some(now.time))?;
        self.items.remove(place);
        Ok(())
    }

    fn end_waiting(&mut self, now: &Now<'_>, is_bio: bool) -> io::Result<bool> {
        let found = self.newest(now, |item| {
            item.stage == Stage::Waiting && item.left == now.bytes && !(is_bio && item.is_request())
        });
        let Some(place) = found else { return Ok(false) };
        if is_bio || !self.items[place].is_request() && !self.shown(now.device).issue {
            self.end_bio(place, now)?;
        } else {
            self.count("completions_of_unissued");
            self.end_unissued(place, now)?;
        }
        Ok(true)
    }

    fn end_unissued(&mut self, place: usize, now: &Now<'_>) -> io::Result<()> {
        let request_id = self.request_id(place);
        self.bio(place, Some(request_id), None)?;
        self.items[place].row.bytes = ByteCount(self.items[place].left);
        self.end(place, now)
    }

    fn complete_bio(&mut self, now: &Now<'_>) -> io::Result<()> {
        self.shown(now.device).bio_completion = true;
        let passed = self.all(now, |item| item.stage == Stage::Passed && item.left == now.bytes);
        if !passed.is_empty() {
            return self.end_passed(&passed, now);
        }
        if !self.end_waiting(now, true)? {
            self.count("bio_completions_without_bio");
        }
        Ok(())
    }

    fn end_flush_sequence(&mut self, now: &Now<'_>) -> io::Result<()> {
        self.count("flush_sequence_ends");
        let sector = now.event.sector.0;
        let shown = self.shown(now.device);
        shown.after_data.retain(|parent| parent.1 != sector);
        let was_due = shown.ends_due > 0;
        shown.ends_due = shown.ends_due.saturating_sub(1);
        let flush = Now { at: FLUSH, op: Op::Flush, bytes: 0, ..now.clone() };
        if !shown.flush_completion {
            if shown.ends_of_inferred > 0 {
                shown.ends_of_inferred -= 1;
                return Ok(());
            }
            let flying = self.all(&flush, |item| item.stage == Stage::Flying);
            if !flying.is_empty() {
                self.count("flush_completions_inferred");
                let place = self.pick(flying, now.time, 0);
                let (service, waiters) = (now.time - self.items[place].began(), self.items[place].waiters);
                let shown = self.shown(now.device);
                shown.ends_of_inferred = waiters.saturating_sub(1);
                move_median(shown.service.entry(Op::Flush).or_default(), service);
                return self.end(place, &flush);
            }
        }
        if was_due || sector != 0 && sector != u64::MAX {
            return Ok(());
        }
        match self.all(&flush, |item| item.stage == Stage::Waiting).first() {
            Some(&place) => self.end_unissued(place, &flush),
            None => Ok(()),
        }
    }

    fn io_done(&mut self, now: &Now<'_>) -> io::Result<()> {
        if self.shown(now.device).completion {
            return Ok(());
        }
        let flying = self.all(now, |item| item.stage == Stage::Flying);
        if let Some(place) = self.oldest_of(&flying) {
            return self.end(place, now);
        }
        let waiting = |item: &Item| item.stage == Stage::Waiting && item.is_request();
        let mut places = self.all(now, waiting);
        if places.is_empty() && now.op == Op::Write && matches!(now.event.sector.0, 0 | u64::MAX) {
            places = self.all(&Now { at: FLUSH, op: Op::Flush, ..now.clone() }, waiting);
        }
        if let Some(place) = self.oldest_of(&places) {
            self.count("completions_of_unissued");
            return self.end_unissued(place, now);
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
            (why, true, _) => self.count(why),
        }
        if !is_request {
            self.bio(place, None, None)?;
            self.items.remove(place);
            return Ok(());
        }
        if !issued {
            self.count("requests_never_issued");
            let request_id = self.request_id(place);
            self.bio(place, Some(request_id), None)?;
            self.items[place].row.bytes = ByteCount(item.left);
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
