//! The columns of biosnoop and iosnoop, which their header names.

/// A column that the reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// When the request completed, in seconds.
    Completed,
    /// When the request was issued, in seconds.
    Issued,
    Comm,
    Pid,
    Disk,
    Op,
    Sector,
    Bytes,
    /// Milliseconds from the request's allocation to its issue.
    Queued,
    /// Milliseconds from issue to completion.
    Latency,
    /// A column without use for fonio: `P` (sequential or random) and `PATTERN`.
    Unused,
}

const NAMES: [(&[u8], Column); 18] = [
    (b"TIME(s)", Column::Completed),
    (b"ENDs", Column::Completed),
    (b"STARTs", Column::Issued),
    (b"COMM", Column::Comm),
    (b"PID", Column::Pid),
    (b"DISK", Column::Disk),
    (b"DEV", Column::Disk),
    (b"T", Column::Op),
    (b"TYPE", Column::Op),
    (b"SECTOR", Column::Sector),
    (b"BLOCK", Column::Sector),
    (b"BYTES", Column::Bytes),
    (b"QUE(ms)", Column::Queued),
    (b"LAT(ms)", Column::Latency),
    (b"LATms", Column::Latency),
    (b"P", Column::Unused),
    (b"PATTERN", Column::Unused),
    (b"FLAGS", Column::Unused),
];

/// A header: the columns of the lines after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    columns: Vec<Column>,
    /// The index of the thread's name, the only column that can contain blanks.
    comm: usize,
    /// Whether the column of the operation has the kernel's letters, such as `WSM`. The programs that print
    /// only `R` or `W` also print `R` for flushes and discards.
    pub has_rwbs: bool,
    /// Whether the times are on the kernel's clock; otherwise, they are relative to the first line.
    pub is_iosnoop: bool,
}

/// The cells of one line.
pub(super) struct Cells<'h, 'l> {
    header: &'h Header,
    line: &'l [u8],
    words: Vec<(usize, usize)>,
}

impl Header {
    /// Reads a header. Returns `None` if the line is another text, or if a column is missing without which
    /// there are no requests.
    pub fn parse(line: &[u8]) -> Option<Header> {
        // All names begin with a capital letter, which the times at the beginning of other lines do not.
        if !line.trim_ascii_start().first()?.is_ascii_uppercase() {
            return None;
        }
        let columns: Option<Vec<Column>> = words(line, NAMES.len())
            .into_iter()
            .map(|(begin, end)| {
                NAMES.iter().find(|(name, _)| *name == &line[begin..end]).map(|(_, column)| *column)
            })
            .collect();
        let columns = columns?;
        let has = |column| columns.iter().filter(|found| **found == column).count() == 1;
        let needed = [
            Column::Comm,
            Column::Pid,
            Column::Disk,
            Column::Op,
            Column::Sector,
            Column::Bytes,
            Column::Latency,
        ];
        let timed = has(Column::Completed) || has(Column::Issued);
        if !timed || !needed.into_iter().all(has) {
            return None;
        }
        let comm = columns.iter().position(|column| *column == Column::Comm)?;
        // biosnoop with the kernel's letters reserves four characters for them, and the other one reserves a
        // single character.
        let wide = memchr::memmem::find(line, b" T    ").is_some();
        let is_iosnoop = line.starts_with(b"STARTs") || line.starts_with(b"ENDs");
        Some(Header { has_rwbs: wide || is_iosnoop, is_iosnoop, columns, comm })
    }

    /// Returns whether the lines have this column.
    pub fn has(&self, column: Column) -> bool {
        self.columns.contains(&column)
    }

    /// Splits a line into its cells; `None` if it has too few.
    pub fn split<'h, 'l>(&'h self, line: &'l [u8]) -> Option<Cells<'h, 'l>> {
        let mut found = words(line, self.columns.len() + WORDS_MORE);
        // The program prints an empty disk for a request whose allocation it did not see.
        let is_unknown = found.get(self.comm).is_some_and(|(begin, end)| &line[*begin..*end] == b"?");
        if found.len() + 1 == self.columns.len() && is_unknown {
            let disk = self.columns.iter().position(|column| *column == Column::Disk)?;
            found.insert(disk.min(found.len()), (0, 0));
        }
        let extra = found.len().checked_sub(self.columns.len())?;
        if extra > 0 {
            let end = found[self.comm + extra].1;
            found[self.comm].1 = end;
            found.drain(self.comm + 1..=self.comm + extra);
        }
        Some(Cells { header: self, line, words: found })
    }
}

impl<'l> Cells<'_, 'l> {
    /// Returns a cell; empty if the line does not have the column, or has nothing in it.
    pub fn get(&self, column: Column) -> &'l [u8] {
        let at = self.header.columns.iter().position(|found| *found == column);
        at.map_or(&[], |at| &self.line[self.words[at].0..self.words[at].1])
    }
}

/// Number of words of a thread's name for which a line has room without another allocation.
const WORDS_MORE: usize = 4;

/// Returns the places of the words of a line, which has about `expected` words.
fn words(line: &[u8], expected: usize) -> Vec<(usize, usize)> {
    let mut words = Vec::with_capacity(expected);
    let mut begin = None;
    for (at, byte) in line.iter().chain([&b' ']).enumerate() {
        match (byte.is_ascii_whitespace(), begin) {
            (false, None) => begin = Some(at),
            (true, Some(first)) => {
                words.push((first, at));
                begin = None;
            }
            _ => {}
        }
    }
    words
}
