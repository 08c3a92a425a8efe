//! The devices of this machine on which the study makes its recordings.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fonio_host::{Filesystem, Ledger, LoopDevice, LoopOptions};

use super::card::{PROFILE, slower};
use crate::emulated::{Emulated, Options};

const CARD_BYTES: &str = "256MiB";
const MEMORY_BYTES: u64 = 256 << 20;

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An emulated card. A slower card has the same profile with longer times.
    Card,
    /// A loop device over a file in memory.
    Memory,
    /// The disk that contains the target directory.
    Disk,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Card, Kind::Memory, Kind::Disk];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Card => "card",
            Kind::Memory => "memory",
            Kind::Disk => "disk",
        }
    }

    /// The size of requests without a slowdown, in bytes. In memory, the time of a small request is mostly
    /// the time in which threads wake up, so larger requests are needed to change the device's own part.
    pub fn request_bytes(self) -> u64 {
        match self {
            Kind::Card | Kind::Disk => 4 << 10,
            Kind::Memory => 128 << 10,
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Kind::Card => "emulated card",
            Kind::Memory => "disk in memory",
            Kind::Disk => "the machine's own disk",
        }
    }
}

/// Two folders on a device, one for each side of a comparison. The folders and their devices are removed when
/// this value is dropped. If this process is killed, the next run of fonio removes them.
pub struct Sides {
    pub folders: [PathBuf; 2],
    #[expect(dead_code, reason = "dropping it removes the devices")]
    below: Below,
}

#[expect(dead_code, reason = "the values are only dropped")]
enum Below {
    Cards([Emulated; 2]),
    Memory(Ledger),
    Disk(tempfile::TempDir),
}

/// Where devices put their files.
#[derive(Clone, Copy)]
pub struct Room<'a> {
    pub fonio: &'a Path,
    /// A folder on the machine's own disk.
    pub disk: &'a Path,
    /// A folder in memory.
    pub memory: &'a Path,
}

impl Sides {
    /// Creates the devices of a kind. Two cards have different seeds, and all times of the second card are
    /// multiplied by `slow`. The other kinds have one device for both sides, and ignore `slow`.
    pub fn make(kind: Kind, room: Room<'_>, slow: f64, seed: u64) -> Result<Sides> {
        match kind {
            Kind::Card => Sides::cards(room, slow, seed),
            Kind::Memory => Sides::memory(room),
            Kind::Disk => {
                let folder = tempfile::tempdir_in(room.disk).context("cannot make a folder")?;
                let path = folder.path().to_owned();
                Ok(Sides { folders: [path.clone(), path], below: Below::Disk(folder) })
            }
        }
    }

    fn cards(room: Room<'_>, slow: f64, seed: u64) -> Result<Sides> {
        let card = |side: usize, slow: f64| -> Result<(PathBuf, Emulated)> {
            let profile = room.memory.join(format!("{PROFILE}-{slow}.toml"));
            fs::write(&profile, slower(slow)?.to_toml())?;
            let folder = room.memory.join(format!("card-{side}"));
            fs::create_dir_all(&folder)?;
            let profile = profile.to_str().context("the path of the profile is not Unicode")?;
            let seed = 2 * seed + side as u64 + 1;
            let options =
                Options { mounted: Some(("ext4", &folder)), seed, ..Options::bare(profile, CARD_BYTES) };
            let card = Emulated::start(room.fonio, &options)?;
            Ok((folder, card))
        };
        let (first, other) = (card(0, 1.0)?, card(1, slow)?);
        Ok(Sides { folders: [first.0, other.0], below: Below::Cards([first.1, other.1]) })
    }

    fn memory(room: Room<'_>) -> Result<Sides> {
        let image = room.memory.join("image");
        File::create(&image)?.set_len(MEMORY_BYTES)?;
        let mut ledger = Ledger::open(&Ledger::default_dir())?;
        let device = LoopDevice::attach(&mut ledger, &image, &LoopOptions::default())?;
        Filesystem::Ext4.make(device.path())?;
        let (folder, _) = fonio_host::mount(&mut ledger, device.path(), Filesystem::Ext4, None, "")?;
        Ok(Sides { folders: [folder.clone(), folder], below: Below::Memory(ledger) })
    }
}
