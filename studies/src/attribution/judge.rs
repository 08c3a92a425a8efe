//! Compares the attributions in a recording with the known writers.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use fonio_core::{
    Bio, ByteCount, Content, DeviceId, Op, Request, RowSink, SECTOR_BYTES, Sector, Thread, Timestamp,
    ignore_rows, unit_name,
};
use fonio_system::{Cgroups, Task};
use xtask::results::Cell;

use super::stack::Places;
use super::truth::Truth;
use super::writers::{Place, WRITERS};

/// Target shares of bytes: data with a right attribution, data with a wrong attribution, and metadata and
/// journal with a right attribution.
const DATA_RIGHT: f64 = 0.95;
const DATA_WRONG: f64 = 0.01;
const REST_RIGHT: f64 = 0.8;

/// The rows of a recording whose attributions are judged.
pub struct Judge {
    place: Place,
    /// The mapping from the file system's device to the disks. Only bios on these disks are judged.
    places: Places,
    /// The unit in which this process runs.
    own_unit: Option<String>,
    requests: Vec<Request>,
    bios: Vec<Bio>,
    paths: HashMap<u32, PathBuf>,
    /// The rows of each thread, sorted by time.
    threads: HashMap<u32, Vec<Thread>>,
    /// The number of bytes not attributed to the right unit, by unit and file.
    misses: std::cell::RefCell<BTreeMap<(String, String), u64>>,
}

impl RowSink for Judge {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        self.requests.push(row.clone());
        Ok(())
    }
    fn bio(&mut self, row: &Bio) -> io::Result<()> {
        self.bios.push(row.clone());
        Ok(())
    }
    fn file(&mut self, row: &fonio_core::File) -> io::Result<()> {
        if let Some(path) = &row.path {
            self.paths.insert(row.file_id, path.into());
        }
        Ok(())
    }
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        let rows = self.threads.entry(row.tid).or_default();
        rows.push(row.clone());
        rows.sort_by_key(|row| row.from);
        Ok(())
    }
    ignore_rows!(began, link, call, statement, wait, blocked_count, sample, mark, diagnostic, settled);
}

/// Numbers of bytes, by the correctness of their attribution.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    right: u64,
    wrong: u64,
    unknown: u64,
    cause_known: u64,
    unit_right: u64,
    unit_wrong: u64,
}

/// The attribution of a bio or request in a recording.
struct Said<'a> {
    content: Content,
    path: Option<&'a Path>,
    cause: Option<&'a Thread>,
}

impl Judge {
    pub fn new(place: Place, places: Places) -> Judge {
        let groups = Task::of(std::process::id()).cgroups();
        Judge {
            place,
            places,
            own_unit: groups.as_ref().and_then(Cgroups::telling).and_then(unit_name),
            requests: Vec::new(),
            bios: Vec::new(),
            paths: HashMap::new(),
            threads: HashMap::new(),
            misses: std::cell::RefCell::default(),
        }
    }

    pub fn tallies(&self, truth: &Truth) -> [(&'static str, Tally); 4] {
        let [mut by_request, mut metadata, mut journal, mut by_bio] = [Tally::default(); 4];
        let contents: HashMap<u64, Content> =
            self.requests.iter().map(|row| (row.request_id, row.content)).collect();
        for row in self.requests.iter().filter(|row| row.op == Op::Write) {
            let Some(sector) = row.sector else { continue };
            let at = row.queued.unwrap_or(row.order_time());
            let said = self.said(row.content, row.file_id, row.cause_tid, at);
            for sector in self.sectors(row.device, sector, row.bytes) {
                match truth.at(sector) {
                    Some(file) if file.as_os_str().is_empty() => {
                        journal.add(&said, Content::FsJournal, Some(true), self.is_of_a_writer(&said));
                    }
                    Some(file) => {
                        by_request.add(
                            &said,
                            Content::Data,
                            is_of(&said, file),
                            self.is_in_unit(&said, file),
                        );
                    }
                    None => metadata.add(&said, Content::FsMetadata, Some(true), self.is_of_a_writer(&said)),
                }
            }
        }
        for row in self.bios.iter().filter(|row| row.op == Op::Write) {
            let Some(sector) = row.sector else { continue };
            let content = row.request_id.and_then(|id| contents.get(&id)).copied().unwrap_or_default();
            let said = self.said(content, row.file_id, row.cause_tid, row.queued);
            for sector in self.sectors(row.device, sector, row.bytes) {
                if let Some(file) = truth.at(sector).filter(|file| !file.as_os_str().is_empty()) {
                    let in_unit = self.is_in_unit(&said, file);
                    if in_unit != Some(true) {
                        let unit = said.unit().unwrap_or_else(|| "no unit".to_owned());
                        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
                        *self.misses.borrow_mut().entry((unit, name.unwrap_or_default())).or_default() +=
                            SECTOR_BYTES;
                    }
                    by_bio.add(&said, Content::Data, is_of(&said, file), in_unit);
                }
            }
        }
        [
            ("data, by bios", by_bio),
            ("data, by requests", by_request),
            ("metadata", metadata),
            ("journal", journal),
        ]
    }

    /// Returns the sectors of the file system's device that are stored in the given sectors of a disk.
    fn sectors(&self, disk: DeviceId, first: Sector, bytes: ByteCount) -> impl Iterator<Item = u64> {
        let sectors = (0..bytes.0 / SECTOR_BYTES).map(move |step| first.0 + step);
        sectors.filter_map(move |sector| self.places.at(disk, sector))
    }

    /// Returns the data that was attributed to a wrong unit or to no unit. Each entry has the unit, the file
    /// and the number of bytes.
    pub fn misses(&self) -> Vec<(String, String, u64)> {
        let misses = self.misses.borrow();
        misses.iter().map(|((unit, file), bytes)| (unit.clone(), file.clone(), *bytes)).collect()
    }

    fn said(&self, content: Content, file: Option<u32>, cause: Option<u32>, at: Timestamp) -> Said<'_> {
        let rows = cause.and_then(|tid| self.threads.get(&tid));
        // As in reports, the first row of a thread also applies to the time before that row.
        let cause = rows.and_then(|rows| rows.iter().rev().find(|row| row.from <= at).or(rows.first()));
        let path = file.and_then(|id| self.paths.get(&id)).map(PathBuf::as_path);
        Said { content, path, cause }
    }

    /// Returns whether the attributed unit is the unit of the file's writer; `None` if the unit is unknown.
    fn is_in_unit(&self, said: &Said<'_>, file: &Path) -> Option<bool> {
        let unit = said.unit()?;
        let name = file.file_name()?.to_string_lossy();
        let writer = WRITERS.iter().find(|kind| name.starts_with(**kind))?;
        Some(unit == self.place.unit(writer))
    }

    /// Returns whether the attributed unit belongs to a writer or to this process, which deletes a file. The
    /// address of a metadata block does not show which process caused the write.
    fn is_of_a_writer(&self, said: &Said<'_>) -> Option<bool> {
        let unit = said.unit()?;
        Some(
            self.own_unit.as_ref() == Some(&unit) || WRITERS.iter().any(|kind| unit == self.place.unit(kind)),
        )
    }
}

impl Said<'_> {
    fn unit(&self) -> Option<String> {
        let cause = self.cause?;
        cause.unit.clone().or_else(|| unit_name(cause.cgroup.as_deref()?))
    }
}

/// Returns whether a request or bio is attributed to the file and its writer; `None` if the attribution is
/// unknown.
fn is_of(said: &Said<'_>, file: &Path) -> Option<bool> {
    let name = said.cause.and_then(|thread| thread.comm.as_deref());
    let is_path = said.path.map(|path| path == file);
    let is_name = name.map(|name| file.file_name().is_some_and(|of| of.to_string_lossy().starts_with(name)));
    match (is_path, is_name) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

impl Tally {
    /// Counts one sector by the correctness of its attribution. `verdict` says whether the file and the
    /// process are right, and `in_unit` says whether the unit is right.
    fn add(&mut self, said: &Said<'_>, expected: Content, verdict: Option<bool>, in_unit: Option<bool>) {
        let place = match verdict {
            _ if said.content == Content::Unknown => &mut self.unknown,
            _ if said.content != expected => &mut self.wrong,
            None => &mut self.unknown,
            Some(true) => &mut self.right,
            Some(false) => &mut self.wrong,
        };
        *place += SECTOR_BYTES;
        let bytes = |is: bool| if is { SECTOR_BYTES } else { 0 };
        self.cause_known += bytes(said.cause.is_some());
        self.unit_right += bytes(in_unit == Some(true));
        self.unit_wrong += bytes(in_unit == Some(false));
    }

    /// Returns the cells for [`super::COLUMNS`].
    pub fn cells(&self, is_data: bool) -> Vec<Cell> {
        let total = self.right + self.wrong + self.unknown;
        let share = |part: u64| part as f64 / total as f64;
        let least = if is_data { DATA_RIGHT } else { REST_RIGHT };
        let is_missed = total > 0
            && (share(self.right) < least
                || is_data && share(self.unit_right) < least
                || is_data && share(self.wrong.max(self.unit_wrong)) > DATA_WRONG);
        let parts =
            [self.right, self.wrong, self.unknown, self.cause_known, self.unit_right, self.unit_wrong];
        let parts = parts.map(|part| Cell::once(share(part) * 100.0, "%", 1));
        let written = Cell::once(total as f64 / 1024.0, "KiB", 0);
        let target = if is_missed { "missed" } else { "" }.into();
        [written].into_iter().chain(parts).chain([target]).collect()
    }
}
