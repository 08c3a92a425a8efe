//! Finds the addresses of each file's data and of the journal on the device. Addresses of files come from
//! `filefrag`, and addresses of the journal from `debugfs` or `xfs_db`. Btrfs has no journal. On Btrfs,
//! `filefrag` prints logical addresses, and `btrfs inspect-internal` maps them to the device.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::ran;

const SECTOR: u64 = 512;

pub struct Truth {
    /// The first sector, number of sectors and file of each extent, sorted by sector. The journal has an
    /// empty path.
    extents: Vec<(u64, u64, PathBuf)>,
}

impl Truth {
    pub fn read(path: &Path, device: &str, fs: &str) -> Result<Truth> {
        let mut extents = Vec::new();
        for line in fs::read_to_string(path)?.lines() {
            let mut words = line.splitn(3, ' ');
            let mut next = || words.next().context("the list of extents is damaged");
            extents.push((next()?.parse()?, next()?.parse()?, PathBuf::from(next()?)));
        }
        match fs {
            "xfs" => extents.push(log_of_xfs(device)?),
            "btrfs" => {
                let dump = ["inspect-internal", "dump-tree", "-t", "chunk", device];
                let chunks = chunks(&ran("btrfs", Command::new("btrfs").args(dump))?);
                for (first, sectors, file) in &mut extents {
                    let holds = |&&(logical, length, _): &&(u64, u64, u64)| {
                        (logical..logical + length).contains(&(*first * SECTOR))
                    };
                    let (logical, length, place) = chunks
                        .iter()
                        .find(holds)
                        .with_context(|| format!("{} is in no chunk", file.display()))?;
                    let ends = (*first + *sectors) * SECTOR;
                    ensure!(ends <= logical + length, "an extent of {} is in two chunks", file.display());
                    *first = *first + place / SECTOR - logical / SECTOR;
                }
            }
            _ => {
                let blocks = ran("debugfs", Command::new("debugfs").args(["-R", "blocks <8>", device]))?;
                for block in blocks.split_whitespace() {
                    extents.push((block.parse::<u64>()? * 8, 8, PathBuf::new()));
                }
            }
        }
        extents.sort();
        Ok(Truth { extents })
    }

    /// Returns the file that is stored at a sector; an empty path for the journal, and `None` for metadata.
    pub fn at(&self, sector: u64) -> Option<&Path> {
        let at = self.extents.partition_point(|(first, ..)| *first <= sector).checked_sub(1)?;
        let (first, sectors, file) = &self.extents[at];
        (sector < first + sectors).then_some(file.as_path())
    }
}

/// Parses an extent's sector and length from a line of filefrag:
/// `   0:        0..    2047:     278528..    280575:   2048:   last`.
pub fn extent(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split(':');
    fields.next()?.trim().parse::<u64>().ok()?;
    let first = fields.nth(1)?.split("..").next()?.trim().parse().ok()?;
    Some((first, fields.next()?.trim().parse().ok()?))
}

fn log_of_xfs(device: &str) -> Result<(u64, u64, PathBuf)> {
    let ask = |commands: &[&str]| ran("xfs_db", Command::new("xfs_db").arg("-r").args(commands).arg(device));
    let told = ask(&["-c", "sb 0", "-c", "print logstart logblocks"])?;
    let numbers: Vec<&str> = told.lines().filter_map(|line| Some(line.split_once('=')?.1.trim())).collect();
    let [start, blocks] = numbers[..] else { bail!("xfs_db printed {told:?}") };
    // xfs_db prints the address as, for example, `0x64032 (409650)`.
    let place = ask(&["-c", &format!("convert fsblock {start} daddr")])?;
    let first = place.split(['(', ')']).nth(1).context("xfs_db did not convert the log's address")?;
    Ok((first.parse()?, blocks.parse::<u64>()? * 8, PathBuf::new()))
}

/// Returns the logical address, length and device address of each Btrfs chunk, in bytes. The dump of a chunk
/// has these lines, among others:
///
/// ```text
/// item 1 key (FIRST_CHUNK_TREE CHUNK_ITEM 13631488) itemoff 16105 itemsize 80
///         length 8388608 owner 2 stripe_len 65536 type DATA|single
///                 stripe 0 devid 1 offset 13631488
/// ```
fn chunks(dump: &str) -> Vec<(u64, u64, u64)> {
    let (mut chunks, mut logical, mut length) = (Vec::new(), None, None);
    for line in dump.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word.trim_end_matches(')').parse::<u64>().ok();
        match words[..] {
            [.., "CHUNK_ITEM", address, _, _, _, _] => logical = number(address),
            ["length", bytes, ..] => length = number(bytes),
            ["stripe", "0", "devid", "1", "offset", place] => {
                chunks.extend(logical.zip(length).zip(number(place)).map(|((a, b), c)| (a, b, c)));
            }
            _ => {}
        }
    }
    chunks
}
