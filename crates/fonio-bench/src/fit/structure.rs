//! Lists the possible device structures for a shape: translation layer, page, erase block, log blocks, cached
//! map units.

use fonio_core::{Access, ByteCount};
use fonio_sim::profile::{Profile, ProfileError};

use super::solve::Knob;
use super::{FitError, Observation, Shape};

const KIB: u64 = 1024;
const MIB: u64 = 1 << 20;

/// Candidate sizes of a flash page, summed over all planes.
const PAGES: [u64; 4] = [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB];

/// Candidate sizes of an erase block, summed over all planes.
const ERASE_BLOCKS: [u64; 5] = [512 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB];

const LOG_BLOCKS: [u64; 6] = [1, 2, 3, 4, 8, 16];

/// Candidate amounts of data whose mapping fits into one cached unit of the map.
const PIECES: [u64; 3] = [MIB, 4 * MIB, 16 * MIB];

/// The size of the write buffer of devices that have one. The tests write for so long that the size does not affect
/// them.
const BUFFER: u64 = 256 * KIB;

/// All properties of a device profile except its times and rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Structure {
    layer: Layer,
    page: u64,
    erase_block: u64,
    /// Whether a write is complete when its data are in a buffer, and is programmed while the next write arrives, as in
    /// eMMC. Otherwise, the times of both add up.
    is_buffered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    PageMap,
    CachedMap { reach: u64, piece: u64 },
    Bast { logs: u64 },
    Fast { logs: u64 },
}

pub(super) fn candidates(shape: &Shape) -> Vec<Structure> {
    let mut found = Vec::new();
    let plain = |layer, page, erase_block| Structure { layer, page, erase_block, is_buffered: false };
    for page in PAGES {
        let page_map = plain(Layer::PageMap, page, 128 * page);
        let page_maps = [page_map, Structure { is_buffered: true, ..page_map }];
        match *shape {
            Shape::Flat => found.extend(page_maps),
            Shape::Cliff { before } => {
                // The true range of the cliff lies between two measured ranges.
                for (logs, reach) in
                    LOG_BLOCKS.into_iter().flat_map(|logs| [(logs, before), (logs, before / 2 * 3)])
                {
                    let erase_block = reach / logs;
                    if erase_block % page == 0 && (256 * KIB..=16 * MIB).contains(&erase_block) {
                        found.push(plain(Layer::Bast { logs }, page, erase_block));
                    }
                }
            }
            Shape::Smooth { level_until } => {
                // A disturbed measurement of a device with a flat curve can also have this shape; the other
                // tests decide between the two cases.
                found.extend(page_maps);
                for reach in level_until.into_iter().flat_map(|level| [level, level / 2 * 3]) {
                    for piece in PIECES.into_iter().filter(|piece| *piece <= reach) {
                        let layer = Layer::CachedMap { reach, piece };
                        found.push(plain(layer, page, 128 * page));
                    }
                }
                for logs in LOG_BLOCKS {
                    for erase_block in ERASE_BLOCKS {
                        found.push(plain(Layer::Fast { logs }, page, erase_block));
                    }
                }
            }
        }
    }
    found
}

impl Structure {
    /// Creates an initial profile with its adjustable numbers. Returns `None` if the structure does not fit
    /// the capacity.
    pub(super) fn profile(
        &self,
        name: &str,
        capacity: ByteCount,
        observations: &[Observation],
    ) -> Result<(Option<Profile>, Vec<Knob>), FitError> {
        let needed = Needed::find(observations)?;
        let page_us = |observation: &Observation| {
            observation.micros / observation.test.request_bytes as f64 * self.page as f64
        };
        let seq_read = &observations[needed.seq_read];
        let seq_write = &observations[needed.seq_write];
        let fastest = seq_read.mb_s(seq_read.micros).max(seq_write.mb_s(seq_write.micros));
        // The read time starts at 80 µs plus 25 µs per KiB, as in MLC flash of those years, unless the
        // measured reads are faster.
        let t_read_us = (80.0 + 25.0 * self.page as f64 / 1024.0).min(0.3 * page_us(seq_read));
        let ns = |micros: f64| (micros * 1e3) as u64;
        let text = format!(
            r#"about = "fitted to a benchmark of the device"
[device]
kind = {{ value = "flash", source = "assumed" }}
capacity = {{ value = "{capacity} B", source = "measured", to = "its size" }}
depth = {{ value = 1, source = "assumed", to = "the fit uses tests with one request at a time" }}
command_max = {{ value = "512 KiB", source = "assumed" }}
fua = {{ value = "no", source = "assumed" }}
flush_blocks_all = {{ value = "yes", source = "assumed" }}
[interface]
read_command = {{ value = "{read_command} ns", source = "assumed" }}
write_command = {{ value = "{write_command} ns", source = "assumed" }}
random_read = {{ value = "0 ns", source = "assumed" }}
random_write = {{ value = "0 ns", source = "assumed" }}
read_rate = {{ value = "{read_rate:.3} MB/s", source = "assumed" }}
write_rate = {{ value = "{write_rate:.3} MB/s", source = "assumed", to = "{write_rate_note}" }}
full_duplex = {{ value = "no", source = "assumed" }}
programs_while_receiving = {{ value = "{overlaps}", {overlaps_source} }}
read_streams = {{ value = 1, source = "assumed" }}
write_streams = {{ value = 1, source = "assumed" }}
[flash]
channels = {{ value = 1, source = "assumed" }}
dies_per_channel = {{ value = 1, source = "assumed" }}
planes = {{ value = 1, source = "assumed", to = "`page` is the size of a page across all planes" }}
page = {{ value = "{page} B", source = "fitted", to = "random writes of several sizes" }}
pages_per_block = {{ value = {pages}, source = "fitted", to = "random writes in several ranges" }}
t_read = {{ value = "{t_read} ns", source = "assumed" }}
t_program = {{ value = "{t_program} ns", source = "assumed" }}
t_erase = {{ value = "2.5 ms", source = "assumed" }}
reads_wait_for = {{ value = "queue", source = "assumed" }}
{layer}{buffer}"#,
            capacity = capacity.0,
            read_command = ns(0.5 * observations[needed.seq_read_small].micros),
            write_command = ns(0.2 * observations[needed.rand_write_near].micros),
            read_rate = 1.5 * seq_read.mb_s(seq_read.micros),
            write_rate = 2.0 * fastest,
            write_rate_note =
                "twice the fastest measured rate: request sizes do not separate it from t_program",
            overlaps = if self.is_buffered { "yes" } else { "no" },
            overlaps_source = if self.is_buffered {
                "source = \"fitted\", to = \"random writes of several sizes\""
            } else {
                "source = \"assumed\""
            },
            buffer = if self.is_buffered { buffer() } else { String::new() },
            page = self.page,
            pages = self.erase_block / self.page,
            t_read = ns(t_read_us),
            t_program = ns(0.5 * page_us(seq_write)),
            layer = self.layer.text(),
        );
        let profile = match Profile::parse(name, &text) {
            Ok(profile) => Some(profile),
            // Each value of the structure is valid, but together they do not fit the capacity.
            Err(ProfileError::Contradiction { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        Ok((profile, self.knobs(&needed)))
    }

    fn knobs(&self, needed: &Needed) -> Vec<Knob> {
        let mut knobs = vec![
            Knob::rate("interface.read_rate", Some(needed.seq_read)),
            Knob::time("interface.read_command", 0.0, 1e5, Some(needed.seq_read_small)),
            Knob::time("interface.random_read", 0.0, 1e5, Some(needed.rand_read)),
            Knob::time("flash.t_program", 5.0, 2e4, Some(needed.seq_write)),
            // Only a device with a page map has a cost of random writes of its own.
            Knob::time(
                "interface.write_command",
                0.0,
                1e5,
                Some(match self.layer {
                    Layer::PageMap => needed.seq_write_small,
                    _ => needed.rand_write_near,
                }),
            ),
            Knob::time("flash.t_read", 1.0, 3e3, None),
        ];
        if self.is_buffered {
            knobs.push(Knob::rate("interface.write_rate", Some(needed.rand_write_larger)));
        }
        match self.layer {
            Layer::PageMap => {
                knobs.push(Knob::time("interface.random_write", 0.0, 1e5, Some(needed.rand_write_near)))
            }
            Layer::CachedMap { .. } => {
                knobs.push(Knob::time("map_cache.near_miss", 0.0, 1e5, Some(needed.rand_write_far)));
            }
            Layer::Bast { .. } | Layer::Fast { .. } => {
                knobs.push(Knob::time("flash.t_erase", 500.0, 2e4, Some(needed.rand_write_far)));
            }
        }
        knobs
    }
}

impl Layer {
    fn text(self) -> String {
        let why = "the throughput of random writes by range";
        match self {
            Layer::PageMap => page_map(why),
            Layer::CachedMap { reach, piece } => format!(
                "{}[map_cache]\npiece = {{ value = \"{piece} B\", source = \"fitted\", to = \"{why}\" }}\n\
                 near_reach = {{ value = \"{reach} B\", source = \"fitted\", to = \"{why}\" }}\n\
                 near_miss = {{ value = \"1 ms\", source = \"assumed\" }}\n",
                page_map(why)
            ),
            Layer::Bast { logs } => format!(
                "[ftl]\nkind = {{ value = \"bast\", source = \"fitted\", to = \"{why}\" }}\n\
                 log_blocks = {{ value = {logs}, source = \"fitted\", to = \"the position of the cliff\" }}\n\
                 victim = {{ value = \"lru\", source = \"assumed\" }}\n"
            ),
            Layer::Fast { logs } => format!(
                "[ftl]\nkind = {{ value = \"fast\", source = \"fitted\", to = \"{why}\" }}\n\
                 log_blocks = {{ value = {logs}, source = \"fitted\", to = \"{why}\" }}\n"
            ),
        }
    }
}

fn page_map(why: &str) -> String {
    format!(
        "[ftl]\nkind = {{ value = \"page_map\", source = \"fitted\", to = \"{why}\" }}\n\
         spare = {{ value = \"7 %\", source = \"assumed\" }}\ncollection = {{ value = \"greedy\", source = \"assumed\" }}\n"
    )
}

fn buffer() -> String {
    format!(
        "[buffer]\nsize = {{ value = \"{BUFFER} B\", source = \"assumed\" }}\n\
         gathered_units = {{ value = 0, source = \"assumed\" }}\n"
    )
}

/// Indices of the observations to which individual knobs are adjusted first.
struct Needed {
    seq_read: usize,
    seq_read_small: usize,
    rand_read: usize,
    seq_write: usize,
    seq_write_small: usize,
    rand_write_near: usize,
    rand_write_far: usize,
    /// The next larger random writes.
    rand_write_larger: usize,
}

impl Needed {
    fn find(observations: &[Observation]) -> Result<Needed, FitError> {
        let of = |access: Access, what: &str, set, key: &dyn Fn(&Observation) -> i64| {
            let all = observations.iter().enumerate().filter(|(_, one)| one.test.access == access);
            all.min_by_key(|(_, one)| key(one))
                .map(|(at, _)| at)
                .ok_or_else(|| FitError::NotMeasured { what: what.to_owned(), set })
        };
        let request = |one: &Observation| one.test.request_bytes as i64;
        // Sort small requests first, then by range.
        let near = |one: &Observation| (request(one) << 42) + one.test.range_bytes as i64;
        let far = |one: &Observation| (request(one) << 42) - one.test.range_bytes as i64;
        // Small requests last.
        let larger = |one: &Observation| match request(one) {
            0..=4096 => i64::MAX,
            _ => near(one),
        };
        Ok(Needed {
            seq_read: of(Access::SeqRead, "sequential reads", "four", &|one| -request(one))?,
            seq_read_small: of(Access::SeqRead, "sequential reads", "response", &request)?,
            rand_read: of(Access::RandRead, "random reads", "four", &request)?,
            seq_write: of(Access::SeqWrite, "sequential writes", "four", &|one| -request(one))?,
            seq_write_small: of(Access::SeqWrite, "sequential writes", "response", &request)?,
            rand_write_near: of(Access::RandWrite, "random writes", "address-range", &near)?,
            rand_write_far: of(Access::RandWrite, "random writes", "address-range", &far)?,
            rand_write_larger: of(Access::RandWrite, "random writes of 16 KiB", "fit", &larger)?,
        })
    }
}
