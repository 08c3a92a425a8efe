//! Issues the accesses of a sequence.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use fonio_bench::aligned::Buffer;
use fonio_core::ByteCount;
use fonio_sim::engine::Begins;
use fonio_sim::recorded::POOL;
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;

use super::super::{Replayed, Shared};
use super::{Access, Kind, Sequence};

const STACK_BYTES: usize = 256 << 10;

pub(in crate::replay) fn play(sequence: &Sequence, path: &Path, fast: bool) -> io::Result<Replayed> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).expect("flags are an int");
    let file = OpenOptions::new().read(true).write(true).custom_flags(direct).open(path)?;
    let player = Player { file: &file, shared: Shared::new(sequence.signals, fast) };
    let (give, take) = sync_channel::<Access>(POOL);
    let take = Mutex::new(take);
    thread::scope(|scope| {
        for _ in 0..POOL {
            scope.spawn(|| player.serve(&take));
        }
        for accesses in &sequence.threads {
            let give = give.clone();
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            if let Err(error) = thread.spawn_scoped(scope, || player.follow(accesses, give)) {
                player.shared.fail(error);
            }
        }
        // The pool of threads ends when the last thread has dropped its sender.
        drop(give);
    });
    if let Some(error) = player.shared.into_failure() {
        return Err(error);
    }
    let bytes = sequence.threads.iter().flatten().map(|access| access.bytes).sum();
    Ok(Replayed {
        accesses: sequence.len() as u64,
        bytes: ByteCount(bytes),
        short_reads: 0,
        ..Replayed::default()
    })
}

struct Player<'a> {
    file: &'a File,
    shared: Shared,
}

impl Player<'_> {
    /// Issues the accesses of one recorded thread.
    fn follow(&self, accesses: &[Access], give: SyncSender<Access>) {
        let mut buffer = Buffer::default();
        let (mut previous_began, mut previous_ended) = (self.shared.began, self.shared.began);
        for (at, access) in accesses.iter().enumerate() {
            if !self.shared.wait(access.begins, (previous_began, previous_ended)) {
                return;
            }
            previous_began = Instant::now();
            let is_waited_for = accesses
                .get(at + 1)
                .is_none_or(|next| !matches!(next.begins, Begins::At(_) | Begins::AfterBegin(_)));
            if is_waited_for {
                self.make(access, &mut buffer);
            } else if give.send(*access).is_err() {
                return;
            }
            previous_ended = Instant::now();
        }
    }

    /// Issues the accesses for which no thread waits.
    fn serve(&self, take: &Mutex<Receiver<Access>>) {
        let mut buffer = Buffer::default();
        loop {
            let next = take.lock().unwrap_or_else(PoisonError::into_inner).recv();
            match next {
                Ok(access) => self.make(&access, &mut buffer),
                Err(_) => return,
            }
        }
    }

    fn make(&self, access: &Access, buffer: &mut Buffer) {
        if self.shared.has_failed() {
            return;
        }
        if let Err(error) = self.try_make(access, buffer) {
            self.shared.fail(error);
        }
        self.shared.signals.set(access.signal);
    }

    fn try_make(&self, access: &Access, buffer: &mut Buffer) -> io::Result<()> {
        match access.kind {
            Kind::Flush => self.file.sync_data(),
            Kind::Read => self.file.read_exact_at(buffer.of(access.bytes), access.offset),
            Kind::Write => self.file.write_all_at(buffer.of(access.bytes), access.offset),
            Kind::DurableWrite => {
                let (data, mut done) = (buffer.of(access.bytes), 0);
                while done < data.len() {
                    let slices = [IoSlice::new(&data[done..])];
                    let at = access.offset + done as u64;
                    done += rustix::io::pwritev2(self.file, &slices, at, ReadWriteFlags::DSYNC)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fonio_core::Nanos;
    use fonio_testing::skip_without;

    use super::super::prepare;
    use super::*;

    #[test]
    fn accesses_are_made_and_pauses_are_kept_or_left_out() {
        skip_without!(DirectIo);
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("file");
        let access = |kind, offset, begins| Access {
            kind,
            offset,
            bytes: 8192,
            begins,
            signal: None,
            tid: 1,
            is_sync: true,
            took: None,
        };
        let pause = Nanos(40_000_000);
        let sequence = Sequence {
            threads: vec![
                vec![
                    access(Kind::Write, 0, Begins::At(Nanos(0))),
                    access(Kind::DurableWrite, 8192, Begins::AfterEnd(pause)),
                    Access { bytes: 0, ..access(Kind::Flush, 0, Begins::AfterEnd(Nanos(0))) },
                ],
                vec![
                    access(Kind::Read, 1 << 20, Begins::At(pause)),
                    access(Kind::Write, 1 << 20, Begins::AfterBegin(Nanos(0))),
                ],
            ],
            file_bytes: ByteCount(2 << 20),
            ..Sequence::default()
        };
        prepare(&sequence, &file).expect("there is room");
        let before = std::fs::read(&file).expect("it is there");
        let began = Instant::now();
        let done = play(&sequence, &file, false).expect("it replays");
        assert!(began.elapsed() >= Duration::from_nanos(pause.0), "no access begins early");
        assert_eq!(
            done,
            Replayed { accesses: 5, bytes: ByteCount(4 * 8192), short_reads: 0, ..Replayed::default() }
        );
        let after = std::fs::read(&file).expect("it is there");
        let changed: Vec<usize> = (0..after.len() / 4096)
            .filter(|block| before[block * 4096..][..4096] != after[block * 4096..][..4096])
            .collect();
        assert_eq!(changed, [0, 1, 2, 3, 256, 257]);
        play(&sequence, &file, true).expect("it replays without pauses");
        let beyond = Sequence {
            threads: vec![vec![access(Kind::Read, 4 << 20, Begins::At(Nanos(0)))]],
            ..Sequence::default()
        };
        play(&beyond, &file, true).expect_err("there is no data at that offset");
    }
}
