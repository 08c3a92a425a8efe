//! The open entries: bios not yet issued and requests not yet completed. They are found by device and sector,
//! and listed by age.
//!
//! The entries are in a slab of [`Entry`] with a free list. Each entry is in two intrusive lists. Its
//! *bucket* contains all entries with the same hash of their [`Key`], in arrival order. The *age list*
//! contains all entries, sorted by [`Entry::order`]. Once the slab has room for the largest number of open
//! entries, neither the slab nor the lists need further allocations. There are at least twice as many buckets
//! as slots, so an entry is nearly always alone in its bucket and found immediately.
//!
//! The entries of a bucket with the same key are that key's *chain*.

use fonio_core::{ByteCount, DeviceId, Flags, Op, Sector, Timestamp};

/// The index that stands for no entry.
pub(super) const NIL: u32 = u32::MAX;
/// Stands for a time that was not recorded; event times are kept below this value.
pub(super) const NEVER: Timestamp = Timestamp(u64::MAX);
/// The sector under which all flushes without data are stored. Some kernels report these requests at sector
/// 0, some at `u64::MAX`, and some at either sector.
pub(super) const FLUSH_SECTOR: Sector = Sector(u64::MAX);
/// The maximum number of entries under one key. No device has this many requests in flight for one sector.
/// Beyond this number, the oldest entries are emitted.
pub(super) const CHAIN_MAX: usize = 256;

/// The key of an entry: the index of its device and its current first sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub sector: Sector,
    pub device: u32,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The entry was queued, allocated or inserted, but not issued.
    Waiting,
    /// A stacked device's bio or request that moved on to the device below.
    Passed,
    /// The request was issued to the driver.
    Flying,
    /// The request was requeued by the driver.
    Returned,
    /// The request is complete, but its repeated issues may still turn out to be separate requests
    /// (`repeat.rs`).
    Held,
}

/// The events and facts recorded for an entry.
pub(super) mod seen {
    /// The entry is a bio and has a row in `bios`.
    pub const BIO: u16 = 1;
    /// The event Q was recorded.
    pub const QUEUE: u16 = 1 << 1;
    /// The event G was recorded.
    pub const GET: u16 = 1 << 2;
    /// The event `block_io_start` was recorded.
    pub const START: u16 = 1 << 3;
    /// The event I was recorded.
    pub const INSERT: u16 = 1 << 4;
    /// If an entry has one of these events, it is a request and not only a bio.
    pub const REQUEST: u16 = GET | START | INSERT;
    /// A completion or issue that fitted this entry was paired with a newer entry.
    pub const PASSED_OVER: u16 = 1 << 5;
    /// The request asked for FUA but was issued without FUA, so the kernel flushes afterwards.
    pub const FUA_BY_FLUSH: u16 = 1 << 6;
    /// The entry is the remainder of a split bio. Old kernels queue the remainder again.
    pub const REST: u16 = 1 << 7;
    /// The entry was merged into the request before or after it.
    pub const MERGED: u16 = 1 << 8;
    /// An equal request was issued while this request was in flight.
    pub const REPEATED: u16 = 1 << 9;
}

/// One open bio or request. A bio that begins a request becomes that request when it is issued.
///
/// The fields that decide whether an event belongs to an entry come first, within one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Entry {
    pub key: Key,
    /// The size; for an entry in flight, the uncompleted size; for a held entry, the size completed last.
    pub bytes: ByteCount,
    /// The time of the last event of this entry.
    pub latest: Timestamp,
    /// A number that is set when the entry is created and when it is issued. It decides among equal
    /// candidates.
    pub serial: u64,
    pub op: Op,
    pub state: State,
    pub seen: u16,
    bucket_next: u32,
    /// The earliest possible sort time of this entry's row: the issue time if known, else the queue time,
    /// else the insertion time.
    pub order: Timestamp,
    older: u32,
    newer: u32,
    /// The size at issue; before that, the size at its first event or its insertion.
    pub issued_bytes: ByteCount,
    pub first_sector: Sector,
    pub queued: Timestamp,
    pub inserted: Timestamp,
    pub issued: Timestamp,
    pub reissued: Timestamp,
    pub bio_id: u64,
    /// The id of the request; 0 until an id is assigned.
    pub request_id: u64,
    pub tid: Option<u32>,
    /// The thread that queued the topmost bio, before all remaps.
    pub root_tid: Option<u32>,
    pub cpu: Option<u32>,
    pub error: Option<i32>,
    pub ioprio: Option<u16>,
    pub requeues: u32,
    /// The number of flush bios that a flush request serves.
    pub waiters: u32,
    pub flags: Flags,
    pub flags_known: Flags,
    pub device: DeviceId,
}

impl Entry {
    /// Returns an entry that has only a device, a sector, an op, a size and a time.
    pub fn new(key: Key, device: DeviceId, op: Op, bytes: ByteCount, time: Timestamp) -> Entry {
        Entry {
            key,
            order: time,
            serial: 0,
            latest: time,
            bytes,
            issued_bytes: bytes,
            first_sector: key.sector,
            queued: NEVER,
            inserted: NEVER,
            issued: NEVER,
            reissued: NEVER,
            bio_id: 0,
            request_id: 0,
            tid: None,
            root_tid: None,
            cpu: None,
            error: None,
            ioprio: None,
            requeues: 0,
            waiters: 0,
            flags: Flags::NONE,
            flags_known: Flags::NONE,
            device,
            op,
            state: State::Waiting,
            seen: 0,
            bucket_next: NIL,
            older: NIL,
            newer: NIL,
        }
    }

    /// Returns whether any bit of `any` is set in `seen`.
    pub fn has(&self, any: u16) -> bool {
        self.seen & any != 0
    }

    /// Returns the time of the entry's last issue; if it was not issued, the time of its queueing or of its
    /// first event.
    pub fn began(&self) -> Timestamp {
        match (self.reissued, self.issued) {
            (NEVER, NEVER) => self.order,
            (NEVER, issued) => issued,
            (reissued, _) => reissued,
        }
    }
}

/// The table of all open entries.
#[derive(Debug)]
pub(super) struct Open {
    slots: Vec<Entry>,
    free: Vec<u32>,
    /// The first entry of each bucket; the number of buckets is a power of two.
    buckets: Vec<u32>,
    oldest: u32,
    newest: u32,
    serial: u64,
    len: usize,
}

/// The initial number of buckets.
const BUCKETS_FIRST: usize = 256;
/// The minimum number of buckets per slot.
const BUCKETS_PER_SLOT: usize = 2;

impl Open {
    pub fn new() -> Open {
        Open {
            slots: Vec::new(),
            free: Vec::new(),
            buckets: vec![NIL; BUCKETS_FIRST],
            oldest: NIL,
            newest: NIL,
            serial: 0,
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn at(&self, index: u32) -> &Entry {
        &self.slots[index as usize]
    }

    /// Returns the entry at `index` if it still has the serial number `serial`.
    pub fn get(&self, index: u32, serial: u64) -> Option<&Entry> {
        self.slots.get(index as usize).filter(|entry| entry.serial == serial)
    }

    #[inline]
    pub fn at_mut(&mut self, index: u32) -> &mut Entry {
        &mut self.slots[index as usize]
    }

    /// Returns the bucket of a key. Sectors are often multiples of powers of two, so the upper half of the
    /// product is folded into the lower half.
    #[inline]
    fn bucket(&self, key: Key) -> usize {
        const MIX_SECTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        const MIX_DEVICE: u64 = 0xbf58_476d_1ce4_e5b9;
        let place = key.sector.0 ^ u64::from(key.device).wrapping_mul(MIX_DEVICE);
        let mixed = u128::from(place) * u128::from(MIX_SECTOR);
        ((mixed >> 64) as u64 ^ mixed as u64) as usize & (self.buckets.len() - 1)
    }

    /// Returns the first entry under `key`, or [`NIL`].
    #[inline]
    pub fn first(&self, key: Key) -> u32 {
        self.chain(key).next().map_or(NIL, |(index, _)| index)
    }

    /// Returns the entry with the earliest [`Entry::order`], or [`NIL`].
    #[inline]
    pub fn oldest(&self) -> u32 {
        self.oldest
    }

    /// Returns the next newer entry after `index`.
    pub fn next_newer(&self, index: u32) -> u32 {
        self.slots[index as usize].newer
    }

    /// Returns the entries under `key` in arrival order.
    #[inline]
    pub fn chain(&self, key: Key) -> impl Iterator<Item = (u32, &Entry)> {
        let mut next = self.buckets[self.bucket(key)];
        std::iter::from_fn(move || {
            loop {
                let entry = self.slots.get(next as usize)?;
                let here = next;
                next = entry.bucket_next;
                if entry.key == key {
                    return Some((here, entry));
                }
            }
        })
    }

    /// Returns the next serial number.
    pub fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Inserts an entry and assigns its serial number. Also returns whether the key of the entry now has more
    /// than [`CHAIN_MAX`] entries.
    #[inline]
    pub fn insert(&mut self, entry: &Entry) -> (u32, bool) {
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = *entry;
                index
            }
            None => {
                if self.slots.len() * BUCKETS_PER_SLOT >= self.buckets.len() {
                    self.double_buckets();
                }
                self.slots.push(*entry);
                (self.slots.len() - 1) as u32
            }
        };
        let serial = self.next_serial();
        self.at_mut(index).serial = serial;
        self.len += 1;
        self.age_link(index);
        (index, self.chain_link(index))
    }

    #[inline]
    pub fn remove(&mut self, index: u32) {
        self.chain_unlink(index);
        self.release(index);
    }

    /// Takes the entry under `key` out of its chain, if it is the only entry there and satisfies `fits`.
    /// Afterwards, the caller must [`release`](Open::release) the entry; this saves a second search.
    #[inline]
    pub fn unchain_only(&mut self, key: Key, fits: impl FnOnce(&Entry) -> bool) -> Option<u32> {
        let bucket = self.bucket(key);
        let (mut only, mut before_only) = (NIL, NIL);
        let (mut before, mut index) = (NIL, self.buckets[bucket]);
        while let Some(entry) = self.slots.get(index as usize) {
            if entry.key == key {
                if only != NIL {
                    return None;
                }
                (only, before_only) = (index, before);
            }
            (before, index) = (index, entry.bucket_next);
        }
        let entry = self.slots.get(only as usize)?;
        if !fits(entry) {
            return None;
        }
        let after = entry.bucket_next;
        self.join_in_bucket(bucket, before_only, after);
        Some(only)
    }

    /// Removes an entry that is in no chain.
    #[inline]
    pub fn release(&mut self, index: u32) {
        assert!(self.at(index).serial != 0, "an entry was closed twice");
        self.age_unlink(index);
        self.at_mut(index).serial = 0;
        self.free.push(index);
        self.len -= 1;
    }

    /// Moves an entry to another sector. Returns whether its new key has more than [`CHAIN_MAX`] entries.
    pub fn rekey(&mut self, index: u32, sector: Sector) -> bool {
        self.chain_unlink(index);
        self.at_mut(index).key.sector = sector;
        self.chain_link(index)
    }

    /// Moves an entry to a later position in the age list.
    #[inline]
    pub fn reorder(&mut self, index: u32, order: Timestamp) {
        self.at_mut(index).order = order;
        let newer = self.at(index).newer;
        if newer == NIL || self.at(newer).order > order {
            return;
        }
        self.age_unlink(index);
        self.age_link(index);
    }

    #[inline]
    fn chain_link(&mut self, index: u32) -> bool {
        let entry = self.at_mut(index);
        entry.bucket_next = NIL;
        let key = entry.key;
        let bucket = self.bucket(key);
        let (mut last, mut next) = (NIL, self.buckets[bucket]);
        let mut of_key = 1;
        while let Some(entry) = self.slots.get(next as usize) {
            of_key += usize::from(entry.key == key);
            (last, next) = (next, entry.bucket_next);
        }
        self.join_in_bucket(bucket, last, index);
        of_key > CHAIN_MAX
    }

    #[inline]
    fn chain_unlink(&mut self, index: u32) {
        let Entry { key, bucket_next: after, .. } = *self.at(index);
        let bucket = self.bucket(key);
        let (mut before, mut here) = (NIL, self.buckets[bucket]);
        while here != index {
            assert!(here != NIL, "an open entry is not in the bucket of its key");
            (before, here) = (here, self.at(here).bucket_next);
        }
        self.join_in_bucket(bucket, before, after);
    }

    /// Makes `after` the successor of `before`. If `before` is [`NIL`], `after` becomes the first entry of
    /// the bucket.
    #[inline]
    fn join_in_bucket(&mut self, bucket: usize, before: u32, after: u32) {
        match before {
            NIL => self.buckets[bucket] = after,
            _ => self.at_mut(before).bucket_next = after,
        }
    }

    /// Doubles the number of buckets. The entries of a key stay in arrival order.
    #[cold]
    fn double_buckets(&mut self) {
        let twice = self.buckets.len() * 2;
        let old = std::mem::replace(&mut self.buckets, vec![NIL; twice]);
        for mut index in old {
            while index != NIL {
                let next = self.at(index).bucket_next;
                self.chain_link(index);
                index = next;
            }
        }
    }

    /// Inserts an entry into the age list. Events are nearly in order, so the position is near the newest
    /// end, or, after a jump back in time, near the oldest end.
    #[inline]
    fn age_link(&mut self, index: u32) {
        let order = self.at(index).order;
        let (mut older, mut newer) = (self.newest, NIL);
        if older != NIL && self.at(older).order > order {
            (older, newer) = self.place_by_age(order);
            assert!(newer == NIL || self.at(newer).order > order, "the age list is not sorted");
        }
        self.join(older, index);
        self.join(index, newer);
    }

    /// Returns the neighbours of a new entry, searching from both ends.
    #[cold]
    fn place_by_age(&self, order: Timestamp) -> (u32, u32) {
        let (mut from_newest, mut from_oldest) = (self.newest, self.oldest);
        loop {
            if from_newest == NIL || self.at(from_newest).order <= order {
                let newer = if from_newest == NIL { self.oldest } else { self.at(from_newest).newer };
                return (from_newest, newer);
            }
            if self.at(from_oldest).order > order {
                return (self.at(from_oldest).older, from_oldest);
            }
            from_newest = self.at(from_newest).older;
            from_oldest = self.at(from_oldest).newer;
        }
    }

    #[inline]
    fn age_unlink(&mut self, index: u32) {
        let Entry { older, newer, .. } = *self.at(index);
        self.join(older, newer);
    }

    #[inline]
    fn join(&mut self, older: u32, newer: u32) {
        match older {
            NIL => self.oldest = newer,
            _ => self.at_mut(older).newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            _ => self.at_mut(newer).older = older,
        }
    }
}
