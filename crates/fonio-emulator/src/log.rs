//! The log of all writes, from which the state after a power cut can be derived.
//!
//! Layout, little-endian: 8 bytes [`MAGIC`], the capacity in bytes (u64), and 1 if the device has a volatile
//! cache, otherwise 0 (u64). The records follow this header. A record has 40 bytes: kind (u8), flags (u8; 1
//! is FUA), 6 zeros, the command's serial number (u64), offset and length in bytes (u64 each), nanoseconds
//! since serving began (u64). The data of a write and the name of a mark follow their record.
//!
//! **The order of the records is authoritative.** The record of a command is appended when the command
//! arrives, and a record [`Kind::Completed`] is appended before the host learns of the completion. So all
//! completions that the host knew when it sent a flush precede the record of this flush. All other
//! completions follow the flush record.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fonio_core::{ByteCount, Nanos};

use crate::error::EmulatorError;

const MAGIC: [u8; 8] = *b"FONIOLG1";
const HEADER_BYTES: u64 = 24;
const RECORD_BYTES: usize = 40;
const FLAG_FUA: u8 = 1;

/// The kind of a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A write arrived; its data follow the record.
    Write,
    /// A flush arrived.
    Flush,
    /// A discard arrived. From then on, the discarded range may read as zeros.
    Discard,
    /// A write of zeros arrived.
    WriteZeroes,
    /// The command with this serial number is complete; the host is notified after this record.
    Completed,
    /// A mark of the owner; its name follows the record.
    Mark,
}

const KINDS: [(u8, Kind); 6] = [
    (1, Kind::Write),
    (2, Kind::Flush),
    (3, Kind::Discard),
    (4, Kind::WriteZeroes),
    (5, Kind::Completed),
    (6, Kind::Mark),
];

/// A log record, without the data or name that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The kind of the record.
    pub kind: Kind,
    /// Whether the write is durable once it is complete.
    pub fua: bool,
    /// The command's serial number. Marks have the number zero.
    pub serial: u64,
    /// Byte offset of the command on the device.
    pub offset: u64,
    /// Length of the command in bytes; for a mark, the length of its name.
    pub bytes: u64,
    /// Time of the record since serving began.
    pub time: Nanos,
    /// Offset in the log of the data or name that follows the record.
    pub data_at: u64,
}

/// Size of each of the two buffers of the log. A buffer has room for the longest command with its data.
const BUFFER_BYTES: usize = 40 << 20;

/// Maximum time for which a command waits for room in the buffer. Then the log is given up, so that a disk
/// that is slow or hangs cannot block the device for good.
const ROOM_WITHIN: Duration = Duration::from_secs(2);

/// Writes the log. The commands of the device only copy their records to a buffer; a thread writes the buffer
/// to the file, because writing can wait for the disk of the log.
#[derive(Debug)]
pub(crate) struct LogWriter {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    /// Is notified when records arrive, when the thread has taken them, and when it has written them.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    records: Vec<u8>,
    is_writing: bool,
    error: Option<(io::ErrorKind, String)>,
    is_closed: bool,
}

impl Shared {
    /// Locks the records, ignoring poison: a panic ends the process.
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, pending: MutexGuard<'a, Pending>) -> MutexGuard<'a, Pending> {
        self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogWriter {
    pub(crate) fn create(path: &Path, capacity: ByteCount, volatile_cache: bool) -> io::Result<LogWriter> {
        let mut file = File::create(path)?;
        file.write_all(&MAGIC)?;
        file.write_all(&capacity.0.to_le_bytes())?;
        file.write_all(&u64::from(volatile_cache).to_le_bytes())?;
        LogWriter::on(file)
    }

    fn on(out: impl Write + Send + 'static) -> io::Result<LogWriter> {
        let shared = Arc::new(Shared::default());
        shared.lock().records = Vec::with_capacity(BUFFER_BYTES);
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("log".to_owned()).spawn(move || write_records(&theirs, out))?;
        Ok(LogWriter { shared })
    }

    /// Appends a record. Fails if an earlier record could not be written, or if the buffer has no room for
    /// this record within [`ROOM_WITHIN`].
    pub(crate) fn append(
        &mut self,
        kind: Kind,
        fua: bool,
        serial: u64,
        (offset, bytes): (u64, u64),
        time: Nanos,
        data: &[u8],
    ) -> io::Result<()> {
        let follows = if matches!(kind, Kind::Write | Kind::Mark) { bytes } else { 0 };
        assert_eq!(data.len() as u64, follows, "the data have the length in the record");
        let code = KINDS.iter().find(|(_, known)| *known == kind).expect("every kind of record has a code").0;
        let mut record = [0; RECORD_BYTES];
        record[0] = code;
        record[1] = if fua { FLAG_FUA } else { 0 };
        record[8..16].copy_from_slice(&serial.to_le_bytes());
        record[16..24].copy_from_slice(&offset.to_le_bytes());
        record[24..32].copy_from_slice(&bytes.to_le_bytes());
        record[32..40].copy_from_slice(&time.0.to_le_bytes());
        let room = RECORD_BYTES + data.len();
        assert!(room <= BUFFER_BYTES, "a command is shorter than the buffer");
        let full =
            |pending: &mut Pending| pending.error.is_none() && pending.records.len() + room > BUFFER_BYTES;
        let (mut pending, waited) = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), ROOM_WITHIN, full)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let text = format!("the disk of the log took longer than {} s to write", ROOM_WITHIN.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        written(&pending)?;
        pending.records.extend_from_slice(&record);
        pending.records.extend_from_slice(data);
        drop(pending);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Returns a function that waits until all records so far are in the file. The function does not need the
    /// log, so that other commands can append records meanwhile.
    pub(crate) fn flush(&self) -> impl FnOnce() -> io::Result<()> + use<> {
        let shared = Arc::clone(&self.shared);
        move || {
            let mut pending = shared.lock();
            while pending.error.is_none() && (pending.is_writing || !pending.records.is_empty()) {
                pending = shared.wait(pending);
            }
            written(&pending)
        }
    }
}

impl Drop for LogWriter {
    /// Makes the thread end after it has written the remaining records.
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

fn written(pending: &Pending) -> io::Result<()> {
    match &pending.error {
        Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
        None => Ok(()),
    }
}

/// Runs the thread that writes the records to `out`.
fn write_records(shared: &Shared, mut out: impl Write) {
    let mut taken = Vec::with_capacity(BUFFER_BYTES);
    let mut pending = shared.lock();
    loop {
        while pending.records.is_empty() {
            if pending.is_closed {
                return;
            }
            pending = shared.wait(pending);
        }
        std::mem::swap(&mut pending.records, &mut taken);
        pending.is_writing = true;
        drop(pending);
        shared.changed.notify_all();
        let outcome = out.write_all(&taken).and_then(|()| out.flush());
        taken.clear();
        pending = shared.lock();
        pending.is_writing = false;
        if let Err(error) = outcome {
            pending.error = Some((error.kind(), error.to_string()));
        }
        shared.changed.notify_all();
        if pending.error.is_some() {
            return;
        }
    }
}

/// A log of commands, with its records and access to the data of writes.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    /// The capacity of the logged device.
    pub capacity: ByteCount,
    /// Whether the device has a volatile cache: a completed write is durable only after a flush.
    pub volatile_cache: bool,
    /// All complete records, in the order of the log.
    pub records: Vec<Record>,
    /// Whether the log ends within a record, for example because the process that wrote the log was killed.
    /// This record is omitted.
    pub cut_short: bool,
}

impl Log {
    /// Reads a log, but leaves the data of writes in the file. Fails with [`EmulatorError::Log`] if the file
    /// is not a valid log, [`EmulatorError::System`] if it cannot be read.
    pub fn open(path: &Path) -> Result<Log, EmulatorError> {
        let file = File::open(path).map_err(EmulatorError::system("open", path))?;
        let length = file.metadata().map_err(EmulatorError::system("look at", path))?.len();
        let mut input = BufReader::with_capacity(1 << 16, file);
        let damaged = |offset, reason| EmulatorError::Log { path: path.to_owned(), offset, reason };
        let mut header = [0; HEADER_BYTES as usize];
        input.read_exact(&mut header).map_err(|_| damaged(0, "this is not a log of an emulated device"))?;
        if header[..8] != MAGIC {
            return Err(damaged(0, "this is not a log of an emulated device"));
        }
        let (capacity, volatile) = (u64_at(&header, 8), u64_at(&header, 16));
        let (mut records, mut at, mut cut_short) = (Vec::new(), HEADER_BYTES, false);
        while at < length {
            let mut bytes = [0; RECORD_BYTES];
            if length - at < RECORD_BYTES as u64 {
                cut_short = true;
                break;
            }
            input.read_exact(&mut bytes).map_err(EmulatorError::system("read", path))?;
            let record =
                parse(&bytes, at + RECORD_BYTES as u64, capacity).map_err(|reason| damaged(at, reason))?;
            let follows = match record.kind {
                Kind::Write | Kind::Mark => record.bytes,
                _ => 0,
            };
            if follows > length - record.data_at {
                cut_short = true;
                break;
            }
            at = record.data_at + follows;
            input.seek_relative(follows.cast_signed()).map_err(EmulatorError::system("read", path))?;
            records.push(record);
        }
        let capacity = ByteCount(capacity);
        let file = input.into_inner();
        Ok(Log { path: path.to_owned(), file, capacity, volatile_cache: volatile != 0, records, cut_short })
    }

    /// Returns the data of a write, or the name of a mark.
    pub fn data(&self, record: &Record) -> Result<Vec<u8>, EmulatorError> {
        let mut data = vec![0; usize::try_from(record.bytes).expect("the data of a record fit in memory")];
        let mut file = &self.file;
        file.seek(SeekFrom::Start(record.data_at))
            .and_then(|_| file.read_exact(&mut data))
            .map_err(EmulatorError::system("read", &self.path))?;
        Ok(data)
    }

    /// Returns the number of records up to and including the mark `name`; `None` if there is no such mark.
    pub fn mark(&self, name: &str) -> Result<Option<usize>, EmulatorError> {
        for (at, record) in self.records.iter().enumerate() {
            if record.kind == Kind::Mark && self.data(record)? == name.as_bytes() {
                return Ok(Some(at + 1));
            }
        }
        Ok(None)
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn parse(bytes: &[u8; RECORD_BYTES], data_at: u64, capacity: u64) -> Result<Record, &'static str> {
    let kind = KINDS.iter().find(|(code, _)| *code == bytes[0]).ok_or("unknown kind of record")?.1;
    let (offset, length) = (u64_at(bytes, 16), u64_at(bytes, 24));
    if kind != Kind::Mark && offset.checked_add(length).is_none_or(|end| end > capacity) {
        return Err("a command reaches beyond the device's end");
    }
    Ok(Record {
        kind,
        fua: bytes[1] & FLAG_FUA != 0,
        serial: u64_at(bytes, 8),
        offset,
        bytes: length,
        time: Nanos(u64_at(bytes, 32)),
        data_at,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(dir: &Path) -> PathBuf {
        let path = dir.join("log");
        let mut log = LogWriter::create(&path, ByteCount(1 << 20), true).expect("create");
        log.append(Kind::Mark, false, 0, (0, 4), Nanos(5), b"here").expect("mark");
        log.append(Kind::Write, true, 1, (4096, 3), Nanos(6), b"abc").expect("write");
        log.append(Kind::Flush, false, 2, (0, 0), Nanos(7), b"").expect("flush");
        log.append(Kind::Completed, false, 1, (0, 0), Nanos(8), b"").expect("completed");
        log.flush()().expect("flush");
        path
    }

    /// A file whose writes wait until the test lets them go on, and then fail if the test says so.
    struct Held(std::sync::mpsc::Receiver<io::Result<()>>);

    impl Write for Held {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().unwrap_or(Ok(())).map(|()| bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_hangs_gives_the_log_up_and_not_the_device() {
        let (go_on, held) = std::sync::mpsc::channel();
        let mut log = LogWriter::on(Held(held)).expect("thread");
        let data = vec![7; 8 << 20];
        // The two buffers have room for at most nine such records.
        let appended =
            (0..12).map(|serial| log.append(Kind::Write, false, serial, (0, 8 << 20), Nanos(0), &data));
        let error = appended.filter_map(Result::err).next().expect("the buffers are full");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        drop(go_on);
        log.flush()().expect("the disk works again");
    }

    #[test]
    fn a_full_disk_is_reported_for_later_records() {
        let (go_on, held) = std::sync::mpsc::channel();
        let mut log = LogWriter::on(Held(held)).expect("thread");
        log.append(Kind::Flush, false, 1, (0, 0), Nanos(0), b"").expect("it is only copied");
        go_on.send(Err(io::ErrorKind::StorageFull.into())).expect("the thread writes");
        let flushed = log.flush()().expect_err("the disk is full");
        let appended = log.append(Kind::Flush, false, 2, (0, 0), Nanos(0), b"").expect_err("and stays full");
        assert_eq!([flushed.kind(), appended.kind()], [io::ErrorKind::StorageFull; 2]);
    }

    #[test]
    fn what_was_appended_is_read() {
        let dir = tempfile::tempdir().expect("dir");
        let log = Log::open(&written(dir.path())).expect("log");
        let kinds: Vec<Kind> = log.records.iter().map(|record| record.kind).collect();
        assert_eq!(kinds, [Kind::Mark, Kind::Write, Kind::Flush, Kind::Completed]);
        let write = &log.records[1];
        assert_eq!((write.serial, write.offset, write.fua, write.time), (1, 4096, true, Nanos(6)));
        assert_eq!(log.data(write).expect("data"), b"abc");
        assert_eq!((log.mark("here").expect("mark"), log.mark("there").expect("mark")), (Some(1), None));
        assert!(!log.cut_short && log.volatile_cache);
    }

    proptest! {
        /// A damaged log gives an error or a shorter log, never a panic or a command beyond the end of the
        /// device.
        #[test]
        fn a_damaged_log_is_refused_or_shorter(cut in 0_usize..211, at in 0_usize..211, byte in any::<u8>()) {
            let dir = tempfile::tempdir().expect("dir");
            let path = written(dir.path());
            let mut bytes = std::fs::read(&path).expect("read");
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(length - cut % length);
            std::fs::write(&path, &bytes).expect("write");
            if let Ok(log) = Log::open(&path) {
                for record in &log.records {
                    prop_assert!(record.kind == Kind::Mark || record.offset + record.bytes <= log.capacity.0);
                }
            }
        }
    }
}
