//! Maps the bytes read and written by address and time, for each device (the block-trace study's Figure 4).

use fonio_core::{ByteCount, Nanos, Request, Sector, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maps of the bytes transferred by time and address, for the first 16 devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spatial {
    /// The maps.
    pub devices: Vec<SpatialMap>,
}

/// Bytes transferred by time and address. A request is counted at its first sector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpatialMap {
    /// Index into `devices` of the analysis.
    pub device: u32,
    /// Start of the first column, in nanoseconds since the span began.
    pub start_ns: Nanos,
    /// Width of a column in nanoseconds.
    pub column_ns: Nanos,
    /// Height of a row in sectors of 512 bytes; the first row begins at sector 0.
    pub row_sectors: u64,
    /// The number of columns.
    pub columns: u32,
    /// The number of rows.
    pub rows: u32,
    /// First sector accessed.
    pub first_sector: Option<Sector>,
    /// Sector after the last accessed sector.
    pub end_sector: Option<Sector>,
    /// Bytes read: `columns` values for each row, from the lowest address.
    pub read_bytes: Vec<u64>,
    /// Bytes written, in the order of `read_bytes`.
    pub write_bytes: Vec<u64>,
}

use crate::question::Question;
use crate::question::context::Ending;
use crate::question::ratio::at;
use crate::question::seen::Seen;

/// Maximum number of columns of an address map. The maximum number of rows is the same.
const COLUMNS: usize = 64;
const ROWS: usize = 64;
/// Maximum number of devices with a map; each map takes 64 KiB.
const DEVICES: usize = 16;
/// Initial width of a column: 2^20 ns (about 1 ms). The initial height of a row is 2^11 sectors (1 MiB).
const FIRST_COLUMN_SHIFT: u32 = 20;
const FIRST_ROW_SHIFT: u32 = 11;

#[derive(Debug, Default)]
pub(crate) struct MapTally {
    began: Option<Timestamp>,
    devices: Vec<Option<Map>>,
}

#[derive(Debug)]
struct Map {
    origin: Timestamp,
    column_shift: u32,
    row_shift: u32,
    columns: usize,
    rows: usize,
    first_sector: Sector,
    end_sector: Sector,
    /// Bytes read and written in each cell of the map, row by row.
    cells: Vec<[ByteCount; 2]>,
}

impl Question for MapTally {
    type Answer = Spatial;

    fn begin_at(&mut self, origin: Timestamp) {
        self.began = Some(origin);
    }

    #[inline]
    fn request(&mut self, _: &Request, seen: &Seen) {
        let Some(sector) = seen.sector else { return };
        if seen.device < DEVICES && seen.has_data() {
            let began = self.began.unwrap_or(seen.at);
            at(&mut self.devices, seen.device).get_or_insert_with(|| Map::new(began)).add(
                seen.at,
                sector,
                seen.bytes,
                seen.class.is_write(),
            );
        }
    }

    fn finish(self, end: &mut Ending) -> Spatial {
        let maps = self.devices.iter().enumerate();
        Spatial {
            devices: maps
                .filter_map(|(device, map)| Some(map.as_ref()?.finish(device as u32, end.began())))
                .collect(),
        }
    }
}

impl Map {
    fn new(origin: Timestamp) -> Map {
        Map {
            origin,
            column_shift: FIRST_COLUMN_SHIFT,
            row_shift: FIRST_ROW_SHIFT,
            columns: 0,
            rows: 0,
            first_sector: Sector(u64::MAX),
            end_sector: Sector(0),
            cells: vec![[ByteCount(0); 2]; COLUMNS * ROWS],
        }
    }

    #[inline]
    fn add(&mut self, time: Timestamp, sector: Sector, bytes: ByteCount, write: bool) {
        let offset = (time - self.origin).0;
        while offset >> self.column_shift >= COLUMNS as u64 {
            self.fold(|row, column| (row, column / 2));
            self.column_shift += 1;
            self.columns = self.columns.div_ceil(2);
        }
        while sector.0 >> self.row_shift >= ROWS as u64 {
            self.fold(|row, column| (row / 2, column));
            self.row_shift += 1;
            self.rows = self.rows.div_ceil(2);
        }
        let column = (offset >> self.column_shift) as usize;
        let row = (sector.0 >> self.row_shift) as usize;
        self.columns = self.columns.max(column + 1);
        self.rows = self.rows.max(row + 1);
        self.first_sector = self.first_sector.min(sector);
        self.end_sector = self.end_sector.max(sector.after(bytes));
        let cell = &mut self.cells[row * COLUMNS + column][usize::from(write)];
        *cell += bytes;
    }

    fn fold(&mut self, to: impl Fn(usize, usize) -> (usize, usize)) {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let moved = std::mem::take(&mut self.cells[row * COLUMNS + column]);
                let (row, column) = to(row, column);
                for (cell, bytes) in self.cells[row * COLUMNS + column].iter_mut().zip(moved) {
                    *cell += bytes;
                }
            }
        }
    }

    fn finish(&self, device: u32, began: Timestamp) -> SpatialMap {
        let side = |side: usize| {
            (0..self.rows)
                .flat_map(|row| {
                    (0..self.columns).map(move |column| self.cells[row * COLUMNS + column][side].0)
                })
                .collect()
        };
        SpatialMap {
            device,
            start_ns: self.origin - began,
            column_ns: Nanos(1 << self.column_shift),
            row_sectors: 1 << self.row_shift,
            columns: self.columns as u32,
            rows: self.rows as u32,
            first_sector: Some(self.first_sector),
            end_sector: Some(self.end_sector),
            read_bytes: side(0),
            write_bytes: side(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{Nanos, Sector};

    use crate::analyser::tests::analyse;

    #[test]
    fn rows_and_columns_grow_and_keep_every_byte() {
        let lines =
            ["W 0+8 d0 c1", "R 2047+8 d1000 c1001", "W 2048+8 d2000 c2001", "W 1000000+8 d900000 c900001"];
        let analysis = analyse(&lines);
        let map = &analysis.spatial.devices[0];
        // The map covers 900 ms in columns of 2^24 ns, and a million sectors in rows of 2^14 sectors.
        assert_eq!((map.column_ns, map.row_sectors), (Nanos(1 << 24), 1 << 14));
        assert_eq!((map.columns, map.rows), (54, 62));
        assert_eq!((map.first_sector, map.end_sector), (Some(Sector(0)), Some(Sector(1_000_008))));
        assert_eq!((map.read_bytes[0], map.write_bytes[0]), (4096, 8192));
        assert_eq!(map.write_bytes.iter().sum::<u64>(), analysis.totals.write_bytes.0);
        assert_eq!(map.write_bytes.last(), Some(&4096));
    }
}
