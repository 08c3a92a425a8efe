//! Builds a device from a profile's numbers.

use fonio_core::{ByteCount, Nanos, SECTOR_BYTES};

use super::{Profile, ProfileError, schema, text};
use crate::device::flash::{Buffer, Direction, Flash, FlashDevice, Interface, MapReach, Slc};
use crate::device::memory::{Memory, MemoryDevice};
use crate::device::{Device, Limits, ReadsWaitFor};
use crate::ftl::bast::{Bast, Victim};
use crate::ftl::fast::Fast;
use crate::ftl::page_map::{Collection, PageMap, SPARE_BLOCKS_MIN};
use crate::ftl::{Ftl, Geometry, Watch};

/// The minimum number of erase blocks of a device.
const BLOCKS_MIN: u64 = 2;

/// The minimum number of superblocks of a page-mapped device that is smaller than its profile says. If a
/// device has at least this number of superblocks, the superblocks reserved for garbage collection are a
/// small part of it.
const SUPERBLOCKS_MIN: u64 = 128;

/// The design of a device, as described by a profile.
#[expect(clippy::large_enum_variant, reason = "only one value exists at a time, on the stack")]
enum Design {
    Memory(Memory),
    Flash(Flash, Geometry, Layer),
}

enum Layer {
    PageMap { spare_blocks: u32, collection: Collection },
    Bast { logs: u32, victim: Victim },
    Fast { logs: u32 },
}

/// If building the device would fail, returns the error.
pub(super) fn check(profile: &Profile) -> Result<(), ProfileError> {
    design(profile, &limits(profile, None)?).map(drop)
}

pub(super) fn limits(profile: &Profile, capacity: Option<ByteCount>) -> Result<Limits, ProfileError> {
    let capacity = match capacity {
        Some(capacity) => capacity.0,
        None => profile.required("device.capacity")?,
    };
    if capacity == 0 || capacity % SECTOR_BYTES != 0 {
        return Err(profile.contradiction(format!(
            "a capacity of {capacity} bytes is not a whole number of {SECTOR_BYTES}-byte sectors"
        )));
    }
    Ok(Limits {
        capacity: ByteCount(capacity),
        depth: profile.required("device.depth")? as u32,
        command_max: ByteCount(profile.required("device.command_max")?),
        discard_granularity: profile.number("device.discard_granularity").map(ByteCount),
        fua: profile.yes("device.fua"),
        volatile_cache: profile.number("buffer.size").is_some(),
        flush_blocks_all: profile.yes("device.flush_blocks_all"),
    })
}

/// Builds a device whose translation layer reports its operations to `watch`.
pub(super) fn device<W: Watch + 'static>(
    profile: &Profile,
    capacity: Option<ByteCount>,
    seed: u64,
    watch: W,
) -> Result<Box<dyn Device>, ProfileError> {
    let limits = limits(profile, capacity)?;
    Ok(match design(profile, &limits)? {
        Design::Memory(memory) => Box::new(MemoryDevice::new(memory, limits)),
        Design::Flash(flash, geometry, layer) => match layer {
            Layer::PageMap { spare_blocks, collection } => {
                boxed(flash, limits, PageMap::new(geometry, spare_blocks, collection, seed, watch))
            }
            Layer::Bast { logs, victim } => {
                boxed(flash, limits, Bast::new(geometry, logs, victim, seed, watch))
            }
            Layer::Fast { logs } => boxed(flash, limits, Fast::new(geometry, logs, seed, watch)),
        },
    })
}

/// Builds a device with a translation layer of the caller.
pub(super) fn device_with<F: Ftl + 'static>(
    profile: &Profile,
    capacity: Option<ByteCount>,
    make: impl FnOnce(Geometry) -> F,
) -> Result<Box<dyn Device>, ProfileError> {
    let limits = limits(profile, capacity)?;
    match design(profile, &limits)? {
        Design::Memory(_) => {
            Err(profile.contradiction("a device without flash has no translation layer".to_owned()))
        }
        Design::Flash(flash, geometry, _) => Ok(boxed(flash, limits, make(geometry))),
    }
}

fn boxed<F: Ftl + 'static>(flash: Flash, limits: Limits, ftl: F) -> Box<dyn Device> {
    Box::new(FlashDevice::new(flash, limits, ftl))
}

fn design(profile: &Profile, limits: &Limits) -> Result<Design, ProfileError> {
    if profile.required_word("device.kind")? != "flash" {
        return memory(profile).map(Design::Memory);
    }
    let flash = flash(profile)?;
    let kind = profile.required_word("ftl.kind")?;
    let geometry = geometry(profile, &flash, limits.capacity.0)?;
    let blocks = u64::from(geometry.logical_blocks());
    let (layer, more_blocks, units_max) = if kind == "page_map" {
        let thousandths = profile.required("ftl.spare")?;
        let spare = (blocks * thousandths).div_ceil(100_000).max(u64::from(SPARE_BLOCKS_MIN));
        let collection = match profile.required_word("ftl.collection")? {
            "cost_benefit" => Collection::CostBenefit,
            _ => Collection::Greedy,
        };
        (Layer::PageMap { spare_blocks: spare as u32, collection }, spare, 1 << 31)
    } else {
        if flash.unit_bytes != flash.page_bytes {
            return Err(profile.contradiction(format!("`ftl.unit` applies to a page map, not to {kind}")));
        }
        let logs = profile.required("ftl.log_blocks")? as u32;
        let layer = match kind {
            "fast" => Layer::Fast { logs },
            _ if profile.required_word("ftl.victim")? == "fifo" => Layer::Bast { logs, victim: Victim::Fifo },
            _ => Layer::Bast { logs, victim: Victim::Lru },
        };
        // In addition to data and log blocks, each of the two layers needs one or two erase blocks.
        (layer, u64::from(logs) + 2, 1 << 32)
    };
    if (blocks + more_blocks) * u64::from(geometry.units_per_block) >= units_max {
        return Err(too_large(profile, limits.capacity));
    }
    Ok(Design::Flash(flash, geometry, layer))
}

fn too_large(profile: &Profile, capacity: ByteCount) -> ProfileError {
    profile.contradiction(format!(
        "{} bytes are too many for units of this size; the model supports up to 2³¹ units",
        capacity.0
    ))
}

fn geometry(profile: &Profile, flash: &Flash, capacity: u64) -> Result<Geometry, ProfileError> {
    let mut pages = profile.required("flash.pages_per_block")?;
    let units_per_page = flash.page_bytes / flash.unit_bytes;
    let logical_units = capacity.div_ceil(flash.unit_bytes);
    // A page map writes across all dies; a log-block layer writes individual erase blocks.
    let mut across = 1;
    if profile.required_word("ftl.kind")? == "page_map" {
        across = u64::from(flash.dies);
        while pages > 2 && logical_units < SUPERBLOCKS_MIN * pages * units_per_page * across {
            pages /= 2;
        }
    }
    let units_per_block = pages * units_per_page * across;
    if logical_units.div_ceil(units_per_block) < BLOCKS_MIN {
        return Err(profile.contradiction(format!(
            "a capacity of {capacity} bytes is less than {BLOCKS_MIN} erase blocks of {} bytes",
            units_per_block * flash.unit_bytes
        )));
    }
    // Physical units, including spare blocks, are numbered with 32 bits; the limit for logical units is half
    // of this range.
    if logical_units >= 1 << 31 {
        return Err(too_large(profile, ByteCount(capacity)));
    }
    Ok(Geometry {
        logical_units: logical_units as u32,
        units_per_block: units_per_block as u32,
        units_per_page: units_per_page as u32,
        dies: flash.dies,
    })
}

fn flash(profile: &Profile) -> Result<Flash, ProfileError> {
    let page_bytes = profile.required("flash.page")? * profile.required("flash.planes")?;
    let unit_bytes = profile.number("ftl.unit").unwrap_or(page_bytes);
    if page_bytes % unit_bytes != 0 || !unit_bytes.is_multiple_of(SECTOR_BYTES) {
        return Err(profile.contradiction(format!(
            "`ftl.unit` of {unit_bytes} bytes does not divide `flash.page` × `flash.planes` = {page_bytes} bytes into sectors"
        )));
    }
    let channels = profile.required("flash.channels")?;
    let dies = channels * profile.required("flash.dies_per_channel")?;
    if !dies.is_power_of_two() || !(page_bytes / unit_bytes).is_power_of_two() {
        return Err(profile.contradiction(format!(
            "{dies} dies with {} units in a page: both must be powers of two",
            page_bytes / unit_bytes
        )));
    }
    let reads_wait_for = match profile.required_word("flash.reads_wait_for")? {
        "suspension" => ReadsWaitFor::Suspension(profile.duration("flash.t_suspend")?),
        "operation" => ReadsWaitFor::Operation,
        _ => ReadsWaitFor::Queue,
    };
    let buffer = match profile.number("buffer.size") {
        Some(size) if size < page_bytes => {
            return Err(profile.contradiction(format!(
                "`buffer.size` of {size} bytes is less than one page of {page_bytes} bytes"
            )));
        }
        Some(size) => Some(Buffer {
            pages: (size / page_bytes) as u32,
            gathered_units: profile.number("buffer.gathered_units").unwrap_or(0) as u32,
        }),
        None => None,
    };
    let slc = match profile.number("slc.size") {
        Some(size) => Some(Slc { pages: size / page_bytes, t_program: profile.duration("slc.t_program")? }),
        None => None,
    };
    Ok(Flash {
        unit_bytes,
        page_bytes,
        dies: dies as u32,
        channels: channels as u32,
        channel_rate: profile.number("flash.channel_rate"),
        t_read: profile.duration("flash.t_read")?,
        t_program: profile.duration("flash.t_program")?,
        t_erase: profile.duration("flash.t_erase")?,
        reads_wait_for,
        interface: interface(profile)?,
        buffer,
        slc,
        read_ahead_bytes: profile.number("interface.read_ahead").unwrap_or(0),
        map_levels: map_levels(profile)?,
    })
}

fn interface(profile: &Profile) -> Result<Interface, ProfileError> {
    let optional = |key| Nanos(profile.number(key).unwrap_or(0));
    Ok(Interface {
        read: Direction {
            rate: profile.required("interface.read_rate")?,
            command: profile.duration("interface.read_command")?,
            random: optional("interface.random_read"),
            latency: optional("interface.read_latency"),
            random_latency: optional("interface.random_read_latency"),
            streams: profile.number("interface.read_streams").unwrap_or(0) as u32,
        },
        write: Direction {
            rate: profile.required("interface.write_rate")?,
            command: profile.duration("interface.write_command")?,
            random: optional("interface.random_write"),
            latency: optional("interface.write_latency"),
            random_latency: optional("interface.random_write_latency"),
            streams: profile.number("interface.write_streams").unwrap_or(0) as u32,
        },
        full_duplex: profile.yes("interface.full_duplex"),
        flush_command: optional("interface.flush_command"),
        fua: optional("interface.fua_cost"),
        programs_while_receiving: profile.yes("interface.programs_while_receiving"),
    })
}

fn map_levels(profile: &Profile) -> Result<Vec<MapReach>, ProfileError> {
    let Some(piece_bytes) = profile.number("map_cache.piece") else { return Ok(Vec::new()) };
    let mut levels = vec![MapReach {
        piece_bytes,
        reach_bytes: profile.required("map_cache.near_reach")?,
        miss: profile.duration("map_cache.near_miss")?,
    }];
    if let Some(reach_bytes) = profile.number("map_cache.far_reach") {
        levels.push(MapReach { piece_bytes, reach_bytes, miss: profile.duration("map_cache.far_miss")? });
    }
    Ok(levels)
}

fn memory(profile: &Profile) -> Result<Memory, ProfileError> {
    Ok(Memory {
        line_bytes: profile.required("memory.line")?,
        read_line: profile.duration("memory.read_line")?,
        write_line: profile.duration("memory.write_line")?,
        command: profile.duration("memory.command")?,
    })
}

impl Profile {
    fn required(&self, key: &'static str) -> Result<u64, ProfileError> {
        self.number(key).ok_or_else(|| self.missing(key))
    }

    fn required_word(&self, key: &'static str) -> Result<&'static str, ProfileError> {
        self.word(key).ok_or_else(|| self.missing(key))
    }

    fn duration(&self, key: &'static str) -> Result<Nanos, ProfileError> {
        self.required(key).map(Nanos)
    }

    /// Returns whether a key has the value `yes`; false if the profile does not have the key.
    fn yes(&self, key: &str) -> bool {
        self.word(key) == Some("yes")
    }

    fn missing(&self, key: &'static str) -> ProfileError {
        let known = schema::find(key).expect("devices are built from known keys");
        let (meaning, example) = (known.meaning, text::example(known));
        ProfileError::Missing { profile: self.name.clone(), key, meaning, example }
    }

    fn contradiction(&self, what: String) -> ProfileError {
        ProfileError::Contradiction { profile: self.name.clone(), what }
    }
}
