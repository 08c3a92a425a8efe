//! Adds to each bio and request the owner of its data: the file, the kind of data, and the causing thread.

use std::cell::RefCell;
use std::io;

use fonio_core::lives::{Generation, Life, Told};
use fonio_core::{
    Batch, Bio, Content, File, FileLife, Inode, Link, LinkEnd, LinkKind, Op, Request, RowSink, Thread,
    Timestamp, forward_rows,
};
use fonio_tracefs::ring_buffer::{FileDecoder, FileEvent};
use fonio_tracefs::whose::{Attribution, BioOwner};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::attribution::files::{Files, is_cause};
use crate::attribution::threads::Threads;

/// Maximum number of files with a row in the recording.
const FILES_MAX: usize = 1 << 20;
/// Maximum number of threads that have a row because they caused I/O of other threads.
const CAUSES_MAX: usize = 100_000;
/// Maximum number of owners distinguished in one request; the bytes of further owners count for the first
/// owner.
const OWNERS_MAX: usize = 16;

/// Follows file events while the pages of a capture are read.
pub(crate) struct Follower<'a> {
    decoder: &'a FileDecoder,
    attribution: &'a RefCell<Attribution>,
    /// The threads that have a row because they can be a cause.
    causes: FxHashSet<u32>,
    /// The new names of renamed threads, which may have been renamed after their look-up.
    renamed: FxHashMap<u32, String>,
    rows: Vec<Thread>,
}

impl<'a> Follower<'a> {
    pub(crate) fn new(decoder: &'a FileDecoder, attribution: &'a RefCell<Attribution>) -> Follower<'a> {
        Follower {
            decoder,
            attribution,
            causes: FxHashSet::default(),
            renamed: FxHashMap::default(),
            rows: Vec::new(),
        }
    }

    /// Processes a trace record; `block` is its content if the record is a block event.
    pub(crate) fn record(
        &mut self,
        record: fonio_tracefs::ring_buffer::Record<'_>,
        block: Option<&fonio_core::BlockEvent>,
    ) {
        if let Some(event) = block {
            self.attribution.borrow_mut().block(event);
            return;
        }
        let Some(file) = self.decoder.decode(record.data) else { return };
        let time = record.time;
        self.attribution.borrow_mut().file(time, &file);
        let thread = |tid, comm| Thread { tid, from: time, comm, ..Thread::default() };
        match file.event {
            FileEvent::Renamed { tid, comm } => {
                let comm = String::from_utf8_lossy(comm).into_owned();
                if self.causes.contains(&tid) {
                    self.rows.push(thread(tid, Some(comm.clone())));
                }
                if self.renamed.len() < CAUSES_MAX || self.renamed.contains_key(&tid) {
                    self.renamed.insert(tid, comm);
                }
            }
            FileEvent::Exited { tid, comm } if self.causes.remove(&tid) => {
                self.rows.push(thread(tid, Some(String::from_utf8_lossy(comm).into_owned())));
            }
            ref event if is_cause(event) && !file.in_interrupt => self.add_cause(file.tid, time),
            _ => {}
        }
    }

    /// Adds a row for a thread, with the thread's name if an event contained it.
    fn add_cause(&mut self, tid: u32, from: Timestamp) {
        if self.causes.len() < CAUSES_MAX && self.causes.insert(tid) {
            self.rows.push(Thread { tid, from, comm: self.renamed.get(&tid).cloned(), ..Thread::default() });
        }
    }

    /// Adds the thread rows to a batch, and notes the gaps of the batch.
    pub(crate) fn finish_batch(&mut self, batch: &mut Batch, threads: &Threads) {
        for gap in &batch.lost {
            self.attribution.borrow_mut().lost(gap);
        }
        for mut row in self.rows.drain(..) {
            threads.complete(&mut row);
            // The exit event names a thread that could not be looked up.
            if row.comm.is_some() {
                batch.threads.push(row);
            }
        }
    }
}

/// The owner of the data in a request or bio, with the file's number in the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owner {
    file_id: Option<u32>,
    cause: Option<u32>,
    content: Content,
}

/// A file that has a row in the recording.
#[derive(Clone, Copy, Debug)]
struct Listed {
    id: u32,
    content: Content,
}

/// Fills in `file_id`, `cause_tid` and `content`, and adds the rows of `files`.
///
/// A request gets the owner of most of its bytes. If two owners have the same number of bytes, the request
/// gets the owner of the earlier bio.
pub(crate) struct WithFiles<'a> {
    inner: &'a mut dyn RowSink,
    attribution: &'a RefCell<Attribution>,
    files: &'a Files,
    began: Timestamp,
    listed: FxHashMap<FileLife, Listed>,
    /// The bytes of each open request by owner, in the order of its bios.
    requests: FxHashMap<u64, Vec<(Owner, u64)>>,
    /// Number of requests with bios of different files or threads.
    pub mixed: u64,
    /// Number of files that have no row, because the maximum number of rows was reached.
    files_beyond: u64,
}

impl<'a> WithFiles<'a> {
    pub(crate) fn new(
        inner: &'a mut dyn RowSink,
        attribution: &'a RefCell<Attribution>,
        files: &'a Files,
        began: Timestamp,
    ) -> WithFiles<'a> {
        WithFiles {
            inner,
            attribution,
            files,
            began,
            listed: FxHashMap::default(),
            requests: FxHashMap::default(),
            mixed: 0,
            files_beyond: 0,
        }
    }

    /// Returns a remark on entries that did not fit into the fixed-size tables: a stable name, a sentence,
    /// and the count.
    pub(crate) fn beyond(&self) -> Option<(&'static str, String, u64)> {
        let count = self.attribution.borrow().forgotten() + self.files_beyond;
        (count > 0).then(|| {
            let message = format!(
                "fonio's tables were full: the owners of the requests of {count} files, threads or bios may be unknown"
            );
            ("files-beyond", message, count)
        })
    }

    /// Returns the owner of a bio that was queued at `at`.
    fn owner(&mut self, whose: &BioOwner, at: Timestamp) -> io::Result<Owner> {
        let life = whose.file.and_then(|file| self.files.life_of(&file, at));
        let listed = life.map(|file| self.listed(&file)).transpose()?.flatten();
        let content = match (whose.content, listed) {
            (Content::Data, Some(listed)) => listed.content,
            (content, _) => content,
        };
        Ok(Owner { file_id: listed.map(|listed| listed.id), cause: whose.cause, content })
    }

    /// Returns the recording's file id for the file that had this inode number at the time `at`, and this
    /// generation, if it is known. At the first use, writes the file's rows.
    pub(crate) fn file_at(
        &mut self,
        inode: Inode,
        generation: Option<Generation>,
        at: Timestamp,
    ) -> io::Result<Option<u32>> {
        let life = match (self.files.below_overlay(inode, at), generation) {
            (Some(below), _) => self.files.life(below, at),
            (None, Some(generation)) => {
                let life = self.files.life(inode, at);
                let life = life.filter(|life| life.told.generation() == Some(generation));
                life.or(Some(Life { number: inode, told: Told::By(generation) }))
            }
            (None, None) => self.files.life(inode, at),
        };
        let Some(life) = life else { return Ok(None) };
        Ok(self.listed(&life)?.map(|listed| listed.id))
    }

    /// Returns the recording's file id of a file. At the first use, writes the file's rows.
    fn listed(&mut self, file: &FileLife) -> io::Result<Option<Listed>> {
        if let Some(listed) = self.listed.get(file) {
            return Ok(Some(*listed));
        }
        if self.listed.len() >= FILES_MAX {
            self.files_beyond += 1;
            return Ok(None);
        }
        let id = self.listed.len() as u32 + 1;
        let names = self.files.names(file);
        let row = |from, path: Option<String>, content| File {
            file_id: id,
            from,
            device: Some(file.number.fs),
            inode: Some(file.number.number),
            path,
            content,
        };
        let from = match file.told {
            Told::After(after) => self.began.max(after),
            Told::By(_) | Told::Again(..) => self.began,
        };
        // The first known name of a file is also the best guess for earlier times.
        for (at, named) in names.iter().enumerate() {
            let from = if at == 0 { from } else { named.at };
            self.inner.file(&row(from, Some(self.files.told(&named.path)), named.content))?;
        }
        // The kind of data may become known late, because a database gets its first page only at the end of
        // the first transaction.
        let content = names.iter().rev().map(|named| named.content).find(|content| *content != Content::Data);
        let listed = Listed { id, content: content.unwrap_or(Content::Data) };
        if names.is_empty() {
            self.inner.file(&row(from, None, Content::Data))?;
        }
        self.listed.insert(*file, listed);
        Ok(Some(listed))
    }
}

impl RowSink for WithFiles<'_> {
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        let whose = self.attribution.borrow_mut().take(row.device, row.sector, row.queued);
        let owner = self.owner(&whose, row.queued)?;
        if let Some(request_id) = row.request_id {
            let shares = self.requests.entry(request_id).or_default();
            let known = shares.iter().position(|(known, _)| *known == owner);
            match known.or_else(|| (shares.len() >= OWNERS_MAX).then_some(0)) {
                Some(at) => shares[at].1 = shares[at].1.saturating_add(row.bytes.0),
                None => shares.push((owner, row.bytes.0)),
            }
        }
        let cause_tid = owner.cause.or(row.cause_tid);
        self.inner.bio(&Bio { file_id: owner.file_id, cause_tid, ..row.clone() })
    }

    fn request(&mut self, row: &Request) -> io::Result<()> {
        let shares = self.requests.remove(&row.request_id).unwrap_or_default();
        self.mixed += u64::from(shares.len() > 1);
        let mut owner = most(&shares);
        // If a write needs a preceding flush, the flush has the bio of the write; this bio is queued again
        // after the flush.
        if row.op == Op::Flush
            && owner.cause.is_none()
            && let Some(thread) = row.cause_tid.or(row.tid)
            && let Some(whose) = self.attribution.borrow().flush_of(thread, row.order_time())
        {
            (owner.cause, owner.content) = (whose.cause, whose.content);
        }
        self.inner.request(&Request {
            file_id: owner.file_id,
            cause_tid: owner.cause.or(row.cause_tid),
            content: owner.content,
            ..row.clone()
        })
    }

    fn link(&mut self, row: &Link) -> io::Result<()> {
        let of_requests = (row.parent_table, row.child_table) == (LinkEnd::Request, LinkEnd::Request);
        // A flush before a write has the cause of the write.
        if row.kind == LinkKind::Flush
            && of_requests
            && let Some(parent) = self.requests.get(&row.parent)
        {
            let owner = most(parent);
            let shares = self.requests.entry(row.child).or_default();
            if shares.is_empty() {
                shares.push((owner, 0));
            }
        }
        self.inner.link(row)
    }

    forward_rows!(inner: began, call, statement, wait, blocked_count, file, thread, sample, mark, diagnostic, settled);
    fn wants_bios(&self) -> bool {
        true
    }
}

/// Returns the owner of most bytes; if several owners have the same number of bytes, the first of these
/// owners.
fn most(shares: &[(Owner, u64)]) -> Owner {
    let mut best: Option<(Owner, u64)> = None;
    for &(owner, bytes) in shares {
        if best.is_none_or(|(_, most)| bytes > most) {
            best = Some((owner, bytes));
        }
    }
    best.map(|(owner, _)| owner).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_belongs_to_the_owner_of_most_bytes() {
        let owner = |file_id| Owner { file_id: Some(file_id), ..Owner::default() };
        for (shares, expected) in [
            (vec![], Owner::default()),
            (vec![(owner(1), 4096), (owner(2), 8192)], owner(2)),
            (vec![(owner(2), 4096), (owner(1), 4096)], owner(2)),
            (vec![(owner(1), 0)], owner(1)),
        ] {
            assert_eq!(most(&shares), expected);
        }
    }
}
