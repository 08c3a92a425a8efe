//! Finds the transactions of one database in the calls on its files.
//!
//! A commit is visible in the calls whatever the value of `synchronous`. A commit deletes the journal
//! (DELETE), truncates it to 0 (TRUNCATE), or zeroes its header (PERSIST); in WAL mode, it writes a frame
//! with the size of the database. A rollback ends a rollback journal in the same way as a commit, but before
//! the end of the journal, either the database was not written, or the journal was read back into the
//! database. In WAL mode, the frames of a transaction that was rolled back are overwritten by the next
//! transaction. SQLite's locks allow one writer at a time, so the calls of all threads and processes form one
//! sequence per database.
//!
//! With `journal_mode=OFF` or `MEMORY`, only writes to the database are visible. Such writes are counted, but
//! cannot be assigned to transactions.

use fonio_core::{ByteCount, SqliteWrite};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Role {
    Database,
    Journal,
    Wal,
    /// The index of the WAL, shared by all processes that use the database.
    Shm,
    /// The folder of the database, which SQLite syncs after it creates a journal.
    Folder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Read,
    Write(Option<SqliteWrite>),
    Sync,
    /// The file was truncated to this length.
    Truncate(u64),
    Delete,
    Other,
}

/// A successful call on a file of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub role: Role,
    pub act: Act,
    pub offset: u64,
    /// Number of bytes that the call read or wrote.
    pub bytes: ByteCount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mode {
    Delete,
    Truncate,
    Persist,
    Wal,
}

impl Mode {
    pub(super) const ALL: [Mode; 4] = [Mode::Delete, Mode::Truncate, Mode::Persist, Mode::Wal];

    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Delete => "delete",
            Mode::Truncate => "truncate",
            Mode::Persist => "persist",
            Mode::Wal => "wal",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A transaction begins to write. If another transaction is still open, it was rolled back.
    Begin,
    Commit(Mode),
    Rollback,
    /// A checkpoint begins to write WAL pages into the database.
    Checkpoint,
    /// The database was written without a journal.
    Unjournaled,
}

/// Minimum size of a journal read that reads a database page. SQLite reads headers and numbers in smaller
/// units.
const PAGE_MIN: ByteCount = ByteCount(512);

/// Finds transactions in the calls on the files of one database.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Finder {
    /// Whether a transaction has written to its journal or WAL and has not ended.
    is_open: bool,
    is_wal: bool,
    in_checkpoint: bool,
    /// Whether the open transaction has written the database, and whether journal pages were read after the
    /// journal was written.
    has_written: bool,
    has_read_journal: bool,
    /// Offsets of the open transaction's last frame, and of the last committed frame.
    last_frame: Option<u64>,
    last_commit: Option<u64>,
}

impl Finder {
    /// Processes a call on the database, and passes the resulting events to `give`, in order.
    pub(super) fn step(&mut self, step: &Step, give: &mut dyn FnMut(Event)) {
        match step.role {
            Role::Journal => self.journal(step, give),
            Role::Wal => self.wal(step, give),
            Role::Database => self.database(step, give),
            Role::Shm | Role::Folder => {}
        }
    }

    fn begin(&mut self, give: &mut dyn FnMut(Event)) {
        *self = Finder {
            is_open: true,
            in_checkpoint: false,
            has_written: false,
            has_read_journal: false,
            last_frame: None,
            ..*self
        };
        give(Event::Begin);
    }

    fn journal(&mut self, step: &Step, give: &mut dyn FnMut(Event)) {
        match step.act {
            Act::Write(Some(SqliteWrite::JournalEnd)) => self.end_journal(Mode::Persist, give),
            Act::Write(_) => {
                if !self.is_open || self.is_wal {
                    (self.is_wal, self.last_commit) = (false, None);
                    self.begin(give);
                }
                self.has_read_journal = false;
            }
            Act::Read => self.has_read_journal |= step.bytes >= PAGE_MIN,
            Act::Truncate(0) => self.end_journal(Mode::Truncate, give),
            Act::Delete => self.end_journal(Mode::Delete, give),
            Act::Sync | Act::Truncate(_) | Act::Other => {}
        }
    }

    fn end_journal(&mut self, mode: Mode, give: &mut dyn FnMut(Event)) {
        // If a journal is deleted because the journal mode changes or the connection closes, its last
        // transaction had already ended.
        if !std::mem::take(&mut self.is_open) || self.is_wal {
            return;
        }
        let is_commit = self.has_written && !self.has_read_journal;
        give(if is_commit { Event::Commit(mode) } else { Event::Rollback });
    }

    fn database(&mut self, step: &Step, give: &mut dyn FnMut(Event)) {
        if !matches!(step.act, Act::Write(_)) {
            return;
        }
        if self.is_wal {
            if !std::mem::replace(&mut self.in_checkpoint, true) {
                give(Event::Checkpoint);
            }
        } else if self.is_open {
            self.has_written = true;
        } else {
            give(Event::Unjournaled);
        }
    }

    fn wal(&mut self, step: &Step, give: &mut dyn FnMut(Event)) {
        match step.act {
            Act::Write(Some(SqliteWrite::WalHeader)) => {
                // SQLite restarts the WAL from its beginning.
                self.last_commit = None;
                self.is_wal = true;
                self.begin(give);
            }
            Act::Write(Some(SqliteWrite::WalFrame)) => self.frame(step.offset, false, give),
            Act::Write(Some(SqliteWrite::WalCommit)) => self.frame(step.offset, true, give),
            // A frame consists of a header and a page, which SQLite writes after the header.
            Act::Write(_) => self.is_wal = true,
            Act::Read => self.is_wal = true,
            // The last connection runs a checkpoint, then deletes the WAL.
            Act::Delete => *self = Finder::default(),
            Act::Sync | Act::Truncate(_) | Act::Other => {}
        }
    }

    fn frame(&mut self, offset: u64, is_commit: bool, give: &mut dyn FnMut(Event)) {
        self.is_wal = true;
        // At the end of a transaction, SQLite may rewrite the headers of earlier frames with new checksums.
        if !self.is_open && self.last_commit.is_some_and(|last| offset <= last) {
            return;
        }
        // A write of the WAL header also begins a transaction, whose first frame follows.
        let is_back = self.last_frame.is_some_and(|last| offset <= last);
        if !self.is_open || is_back {
            if is_back && self.is_open {
                give(Event::Rollback);
            }
            self.begin(give);
        }
        self.last_frame = Some(offset);
        if is_commit {
            (self.is_open, self.last_commit) = (false, Some(offset));
            give(Event::Commit(Mode::Wal));
        }
    }
}
