//! Creates devices between the file system and the disks (LVM and LUKS), and maps their sectors to the disks.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use fonio_core::DeviceId;
use fonio_system::device;

use super::ran;

const NAME: &str = "attribution";
/// The size of a volume's part on the first disk. It is smaller than a file, so files are on both disks.
const FIRST_DISK: &str = "32M";

/// The layers between the file system and the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    Nothing,
    /// A linear LVM volume on two disks.
    Lvm,
    /// A device encrypted with LUKS.
    Luks,
    /// A linear LVM volume on an encrypted device, as Debian's installer creates it, and on a second disk.
    LvmOnLuks,
}

/// The top device of a stack of devices. Dropping this value removes the stack.
pub struct Stacked {
    pub path: String,
    /// Commands that remove the stack.
    undo: Vec<Vec<String>>,
}

impl Stack {
    pub fn of(word: &str) -> Result<Stack> {
        let all = [Stack::Nothing, Stack::Lvm, Stack::Luks, Stack::LvmOnLuks];
        let stack = all.into_iter().find(|stack| stack.word() == word);
        stack.with_context(|| format!("{word} is not a stack of devices"))
    }

    pub fn word(self) -> &'static str {
        match self {
            Stack::Nothing => "disk",
            Stack::Lvm => "lvm",
            Stack::Luks => "luks",
            Stack::LvmOnLuks => "lvm-on-luks",
        }
    }

    /// Creates this stack on two disks, and overwrites their data.
    pub fn make(self, disks: [&str; 2], scratch: &Path) -> Result<Stacked> {
        let [first, second] = disks;
        let mut made =
            Stacked { path: fs::canonicalize(first)?.to_string_lossy().into_owned(), undo: Vec::new() };
        if matches!(self, Stack::Luks | Stack::LvmOnLuks) {
            made.encrypt(scratch)?;
        }
        if matches!(self, Stack::Lvm | Stack::LvmOnLuks) {
            made.volume(second)?;
        }
        Ok(made)
    }
}

impl Stacked {
    fn encrypt(&mut self, scratch: &Path) -> Result<()> {
        let key = scratch.join("key");
        fs::write(&key, "not a secret")?;
        let key = key.to_string_lossy().into_owned();
        // Use few rounds of key derivation, because a simulated processor is slow and the key is not a
        // secret.
        let rounds = ["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000"];
        let format = ["--batch-mode", "luksFormat", "--type", "luks2", "--key-file", &key, &self.path];
        ran("cryptsetup", Command::new("cryptsetup").args(rounds).args(format))?;
        let open = ["open", "--key-file", &key, &self.path, NAME];
        ran("cryptsetup", Command::new("cryptsetup").args(open))?;
        self.undo.push(["cryptsetup", "close", NAME].map(str::to_owned).to_vec());
        self.path = format!("/dev/mapper/{NAME}");
        Ok(())
    }

    fn volume(&mut self, second: &str) -> Result<()> {
        let group = format!("{NAME}-group");
        let volume = format!("{group}/volume");
        let first = self.path.clone();
        for words in [
            &["pvcreate", "-ff", "-y", &first, second][..],
            &["vgcreate", &group, &first, second],
            &["lvcreate", "-y", "-n", "volume", "-L", FIRST_DISK, &group, &first],
            &["lvextend", "-y", "-l", "+100%PVS", &volume, second],
        ] {
            ran(words[0], Command::new(words[0]).args(&words[1..]))?;
        }
        self.undo.push(["vgremove", "-ff", "-y", &group].map(str::to_owned).to_vec());
        self.path = format!("/dev/{volume}");
        Ok(())
    }
}

impl Drop for Stacked {
    fn drop(&mut self) {
        for words in self.undo.iter().rev() {
            if let Err(error) = ran(&words[0], Command::new(&words[0]).args(&words[1..])) {
                eprintln!("note: {error}");
            }
        }
    }
}

/// A part of the file system's device and its position on a disk, in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    first: u64,
    sectors: u64,
    disk: DeviceId,
    on_disk: u64,
}

/// The mapping of the sectors of the file system's device to the disks.
pub struct Places(Vec<Part>);

impl Places {
    /// Reads the mapping from device mapper. A disk maps to itself.
    pub fn of(path: &str) -> Result<Places> {
        let id = device::from_dev(fs::metadata(path)?.rdev());
        Ok(Places(parts(id, 0, u64::MAX)?))
    }

    /// Returns the sector of the file system's device that is stored in sector `sector` of a disk.
    pub fn at(&self, disk: DeviceId, sector: u64) -> Option<u64> {
        let holds = |part: &&Part| {
            part.disk == disk && (part.on_disk..part.on_disk.saturating_add(part.sectors)).contains(&sector)
        };
        self.0.iter().find(holds).map(|part| part.first + (sector - part.on_disk))
    }
}

/// Returns where `sectors` sectors of a device, starting at sector `first`, are stored on the disks.
fn parts(id: DeviceId, first: u64, sectors: u64) -> Result<Vec<Part>> {
    if !Path::new(&format!("/sys/dev/block/{id}/dm")).exists() {
        return Ok(vec![Part { first: 0, sectors, disk: id, on_disk: first }]);
    }
    let mut command = Command::new("dmsetup");
    command.args(["table", "-j", &id.major().to_string(), "-m", &id.minor().to_string()]);
    let mut found = Vec::new();
    for (begin, length, below, offset) in ran("dmsetup", &mut command)?.lines().filter_map(segment) {
        let from = begin.max(first);
        let until = (begin + length).min(first.saturating_add(sectors));
        if from < until {
            let lower = parts(below, offset + (from - begin), until - from)?;
            found.extend(lower.iter().map(|part| Part { first: part.first + (from - first), ..*part }));
        }
    }
    Ok(found)
}

/// Parses a line of a device-mapper table, such as `0 65536 linear 254:16 2048` or `0 2064384 crypt
/// aes-xts-plain64 :64:logon:… 0 254:16 32768 …`. Returns the first sector, the length, the lower device, and
/// the first sector on the lower device.
fn segment(line: &str) -> Option<(u64, u64, DeviceId, u64)> {
    let words: Vec<&str> = line.split(' ').collect();
    let (begin, length) = (words.first()?.parse().ok()?, words.get(1)?.parse().ok()?);
    let at = match *words.get(2)? {
        "linear" => 3,
        "crypt" => 6,
        _ => return None,
    };
    Some((begin, length, device::parse(words.get(at)?)?, words.get(at + 1)?.parse().ok()?))
}
