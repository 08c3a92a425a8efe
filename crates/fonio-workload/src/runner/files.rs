//! Executes steps on files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, OFlags, fadvise};

use super::file_error;
use super::groups::{Call, Entry};
use super::worker::Worker;
use crate::definition::{Bytes, Order, Sizes, SyncPolicy};
use crate::error::WorkloadError;

/// A file that stays open while a step runs.
struct Open {
    number: u64,
    path: PathBuf,
    file: File,
    dirty: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    Create,
}

impl Worker<'_, '_> {
    pub(super) fn write(
        &mut self,
        files: &str,
        size: &Sizes,
        request: Bytes,
        sync: SyncPolicy,
    ) -> Result<(), WorkloadError> {
        let bytes = size.draw(&mut self.random);
        let entry = self.new_entry(files, bytes);
        let path = self.path(files, entry.number);
        self.write_new(files, &path, entry, request.0, sync)?;
        self.group(files, |group| group.add(entry));
        Ok(())
    }

    /// Creates a file with the data that the thread last fetched.
    pub(super) fn store(
        &mut self,
        files: &str,
        request: Bytes,
        sync: SyncPolicy,
    ) -> Result<(), WorkloadError> {
        let body = std::mem::take(&mut self.last);
        let entry = self.new_entry(files, body.len() as u64);
        let path = self.path(files, entry.number);
        let mut open = self.open(files, entry.number, Access::Create, sync, false)?;
        for (piece, chunk) in body.chunks(request.0 as usize).enumerate() {
            open.file.write_all_at(chunk, piece as u64 * request.0).map_err(file_error("write", &path))?;
            self.wrote(&mut open, files, chunk.len() as u64, sync)?;
        }
        self.end(open, files, sync)?;
        self.last = body;
        self.amounts.files_created += 1;
        self.group(files, |group| group.add(entry));
        Ok(())
    }

    pub(super) fn append(
        &mut self,
        files: &str,
        count: u64,
        size: &Sizes,
        sync: SyncPolicy,
        direct: bool,
    ) -> Result<(), WorkloadError> {
        if count == 0 {
            return Ok(());
        }
        let newest = self.group(files, |group| group.entries.back().copied());
        let mut entry = match newest {
            Some(entry) => entry,
            None => {
                let entry = self.new_entry(files, 0);
                self.open(files, entry.number, Access::Create, SyncPolicy::None, false)?;
                self.amounts.files_created += 1;
                self.group(files, |group| group.add(entry));
                entry
            }
        };
        let mut open = self.open(files, entry.number, Access::Write, sync, direct)?;
        self.each(count, |worker| {
            let bytes = size.draw(&mut worker.random);
            worker.write_call(&mut open, files, Call { entry, offset: entry.bytes, bytes }, sync)?;
            entry.bytes += bytes;
            Ok(())
        })?;
        self.group(files, |group| group.grow(entry.number, entry.bytes));
        self.end(open, files, sync)
    }

    pub(super) fn overwrite(
        &mut self,
        files: &str,
        count: u64,
        size: &Sizes,
        order: Order,
        sync: SyncPolicy,
        direct: bool,
    ) -> Result<(), WorkloadError> {
        let mut open: Option<Open> = None;
        self.each(count, |worker| {
            let bytes = size.draw(&mut worker.random);
            let call = worker.call(files, bytes, order, "overwrite")?;
            if open.as_ref().is_none_or(|open| open.number != call.entry.number) {
                if let Some(before) = open.take() {
                    worker.end(before, files, sync)?;
                }
                open = Some(worker.open(files, call.entry.number, Access::Write, sync, direct)?);
            }
            let file = open.as_mut().expect("opened above");
            worker.write_call(file, files, call, sync)
        })?;
        open.map_or(Ok(()), |open| self.end(open, files, sync))
    }

    pub(super) fn read(
        &mut self,
        files: &str,
        count: u64,
        size: Bytes,
        order: Order,
        direct: bool,
    ) -> Result<(), WorkloadError> {
        if order == Order::Whole {
            return self.each(count, |worker| {
                let entry = worker.any(files, "read")?;
                let open = worker.open(files, entry.number, Access::Read, SyncPolicy::None, direct)?;
                let mut offset = 0;
                while offset < entry.bytes {
                    let bytes = size.0.min(entry.bytes - offset);
                    worker.read_call(&open, Call { entry, offset, bytes })?;
                    offset += bytes;
                }
                Ok(())
            });
        }
        let mut open: Option<Open> = None;
        self.each(count, |worker| {
            let call = worker.call(files, size.0, order, "read")?;
            if open.as_ref().is_none_or(|open| open.number != call.entry.number) {
                open = Some(worker.open(files, call.entry.number, Access::Read, SyncPolicy::None, direct)?);
            }
            worker.read_call(open.as_ref().expect("opened above"), call)
        })
    }

    /// Writes a new version of a file and renames it over the old version.
    pub(super) fn replace(
        &mut self,
        files: &str,
        size: &Sizes,
        sync: SyncPolicy,
    ) -> Result<(), WorkloadError> {
        let bytes = size.draw(&mut self.random);
        let seed = self.random.next_u64();
        // Replace the files in rotation: the group's oldest file becomes its newest file.
        let number = match self.group(files, |group| group.take_oldest()) {
            Some(entry) => entry.number,
            None => self.group(files, |group| group.number()),
        };
        let entry = Entry { number, bytes, seed };
        let path = self.path(files, number);
        let mut new = path.clone().into_os_string();
        new.push(".new");
        let new = PathBuf::from(new);
        self.write_new(files, &new, entry, 8192, sync)?;
        fs::rename(&new, &path).map_err(file_error("rename a file to", &path))?;
        self.group(files, |group| group.add(entry));
        Ok(())
    }

    pub(super) fn rename(&mut self, files: &str, to: &str) -> Result<(), WorkloadError> {
        let entry = self.oldest(files, "rename")?;
        let number = self.group(to, |group| group.number());
        let (from_path, to_path) = (self.path(files, entry.number), self.path(to, number));
        match fs::rename(&from_path, &to_path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_parent(&to_path)?;
                fs::rename(&from_path, &to_path)
            }
            done => done,
        }
        .map_err(file_error("rename a file to", &to_path))?;
        self.group(to, |group| group.add(Entry { number, ..entry }));
        Ok(())
    }

    pub(super) fn delete(&mut self, files: &str) -> Result<(), WorkloadError> {
        let entry = self.oldest(files, "delete")?;
        self.remove(files, entry)
    }

    pub(super) fn trim(&mut self, files: &str, keep: u64) -> Result<(), WorkloadError> {
        while self.group(files, |group| group.entries.len() as u64) > keep {
            let entry = self.oldest(files, "delete")?;
            self.remove(files, entry)?;
        }
        Ok(())
    }

    fn remove(&mut self, files: &str, entry: Entry) -> Result<(), WorkloadError> {
        let path = self.path(files, entry.number);
        fs::remove_file(&path).map_err(file_error("delete", &path))?;
        self.amounts.files_deleted += 1;
        Ok(())
    }

    pub(super) fn evict(&mut self, files: &str) -> Result<(), WorkloadError> {
        self.each(1, |worker| {
            for entry in worker.group(files, |group| group.entries.clone()) {
                let open = worker.open(files, entry.number, Access::Read, SyncPolicy::None, false)?;
                fadvise(&open.file, 0, None, Advice::DontNeed)
                    .map_err(|source| file_error("evict", &open.path)(source.into()))?;
            }
            Ok(())
        })
    }

    fn new_entry(&mut self, files: &str, bytes: u64) -> Entry {
        let seed = self.random.next_u64();
        Entry { number: self.group(files, |group| group.number()), bytes, seed }
    }

    fn oldest(&self, files: &str, operation: &'static str) -> Result<Entry, WorkloadError> {
        self.group(files, |group| group.take_oldest()).ok_or_else(|| self.no_file(files, operation))
    }

    fn any(&mut self, files: &str, operation: &'static str) -> Result<Entry, WorkloadError> {
        let count = self.group(files, |group| group.entries.len() as u64);
        if count == 0 {
            return Err(self.no_file(files, operation));
        }
        let at = self.random.below(count) as usize;
        // Another thread may have deleted a file since the files were counted.
        self.group(files, |group| group.entries.get(at).or(group.entries.back()).copied())
            .ok_or_else(|| self.no_file(files, operation))
    }

    fn call(
        &mut self,
        files: &str,
        bytes: u64,
        order: Order,
        operation: &'static str,
    ) -> Result<Call, WorkloadError> {
        match order {
            Order::Sequential => self
                .group(files, |group| group.sequential(bytes))
                .ok_or_else(|| self.no_file(files, operation)),
            Order::Random | Order::Whole => {
                let entry = self.any(files, operation)?;
                let bytes = if order == Order::Whole { entry.bytes } else { bytes.min(entry.bytes) };
                if bytes == 0 {
                    return Err(self.no_file(files, operation));
                }
                let offset = self.random.below(entry.bytes / bytes) * bytes;
                Ok(Call { entry, offset, bytes })
            }
        }
    }

    fn no_file(&self, files: &str, operation: &'static str) -> WorkloadError {
        WorkloadError::NoFile { key: self.key.clone(), files: files.to_owned(), operation }
    }

    fn path(&self, files: &str, number: u64) -> PathBuf {
        let runner = self.shared.runner;
        let group = &runner.workload.files[files];
        runner.place(&group.place).join(group.name.replace("{n}", &number.to_string()))
    }

    fn open(
        &self,
        files: &str,
        number: u64,
        access: Access,
        sync: SyncPolicy,
        direct: bool,
    ) -> Result<Open, WorkloadError> {
        let path = self.path(files, number);
        let file = self.open_path(files, &path, access, sync, direct)?;
        Ok(Open { number, path, file, dirty: false })
    }

    fn open_path(
        &self,
        files: &str,
        path: &Path,
        access: Access,
        sync: SyncPolicy,
        direct: bool,
    ) -> Result<File, WorkloadError> {
        let mut flags = OFlags::empty();
        if sync == SyncPolicy::Open && self.syncs(files) {
            flags |= OFlags::SYNC;
        }
        if direct {
            flags |= OFlags::DIRECT;
        }
        let mut options = OpenOptions::new();
        options
            .read(access == Access::Read)
            .write(access != Access::Read)
            .create(access == Access::Create)
            .truncate(access == Access::Create)
            .custom_flags(flags.bits() as i32);
        match options.open(path) {
            Err(error) if access == Access::Create && error.kind() == io::ErrorKind::NotFound => {
                make_parent(path)?;
                options.open(path)
            }
            opened => opened,
        }
        .map_err(file_error("open", path))
    }

    fn write_new(
        &mut self,
        files: &str,
        path: &Path,
        entry: Entry,
        request: u64,
        sync: SyncPolicy,
    ) -> Result<(), WorkloadError> {
        let file = self.open_path(files, path, Access::Create, sync, false)?;
        let mut open = Open { number: entry.number, path: path.to_owned(), file, dirty: false };
        let mut offset = 0;
        while offset < entry.bytes {
            let bytes = request.min(entry.bytes - offset);
            self.write_call(&mut open, files, Call { entry, offset, bytes }, sync)?;
            offset += bytes;
        }
        self.amounts.files_created += 1;
        self.end(open, files, sync)
    }

    fn write_call(
        &mut self,
        open: &mut Open,
        files: &str,
        call: Call,
        sync: SyncPolicy,
    ) -> Result<(), WorkloadError> {
        let content = self.shared.runner.workload.files[files].content;
        let buffer = self.buffer.get(call.bytes);
        content.fill(call.entry.seed, call.offset & !7, buffer);
        open.file.write_all_at(buffer, call.offset).map_err(file_error("write", &open.path))?;
        self.wrote(open, files, call.bytes, sync)
    }

    fn wrote(
        &mut self,
        open: &mut Open,
        files: &str,
        bytes: u64,
        sync: SyncPolicy,
    ) -> Result<(), WorkloadError> {
        self.amounts.file_writes += 1;
        self.amounts.file_bytes_written += bytes;
        open.dirty = true;
        match sync {
            SyncPolicy::Each => self.sync(open, files, false),
            SyncPolicy::DataEach => self.sync(open, files, true),
            SyncPolicy::Open if !self.syncs(files) => {
                self.amounts.syncs_skipped += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, mut open: Open, files: &str, sync: SyncPolicy) -> Result<(), WorkloadError> {
        match sync {
            SyncPolicy::End if open.dirty => self.sync(&mut open, files, false),
            SyncPolicy::DataEnd if open.dirty => self.sync(&mut open, files, true),
            _ => Ok(()),
        }
    }

    fn sync(&mut self, open: &mut Open, files: &str, data_only: bool) -> Result<(), WorkloadError> {
        open.dirty = false;
        if !self.syncs(files) {
            self.amounts.syncs_skipped += 1;
            return Ok(());
        }
        self.amounts.syncs += 1;
        let done = if data_only { open.file.sync_data() } else { open.file.sync_all() };
        done.map_err(file_error("sync", &open.path))
    }

    fn syncs(&self, files: &str) -> bool {
        let runner = self.shared.runner;
        runner.options.overrides.syncs_place(&runner.workload.files[files].place)
    }

    fn read_call(&mut self, open: &Open, call: Call) -> Result<(), WorkloadError> {
        let buffer = self.buffer.get(call.bytes);
        let got = open.file.read_at(buffer, call.offset).map_err(file_error("read", &open.path))?;
        self.last.clear();
        self.last.extend_from_slice(&buffer[..got]);
        self.amounts.file_reads += 1;
        self.amounts.file_bytes_read += got as u64;
        Ok(())
    }
}

fn make_parent(path: &Path) -> Result<(), WorkloadError> {
    path.parent().map_or(Ok(()), super::make)
}
