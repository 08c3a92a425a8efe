//! Defines the tasks that are measured in the mounted directory.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;

const MIB: u64 = 1 << 20;

/// A task. Each task is one line of the table. `scale` divides the size of the task.
pub struct Work {
    pub name: &'static str,
    /// Prepares the task; this time is not measured.
    pub prepare: fn(&Path, u64) -> Result<()>,
    pub run: fn(&Path, u64) -> Result<()>,
}

/// All tasks, in an order in which each task finds its files.
pub const WORKS: &[Work] = &[
    Work {
        name: "write 512 MiB by 512 KiB",
        prepare: clear,
        run: |dir, scale| stream(dir, "large", 512 * MIB / scale, 512 << 10),
    },
    Work { name: "read 512 MiB by 512 KiB", prepare: nothing, run: read_large },
    Work { name: "read 10,000 of 4 KiB", prepare: nothing, run: read_random },
    Work { name: "write 10,000 of 4 KiB", prepare: nothing, run: write_random },
    Work {
        name: "write 128 MiB by 4 KiB",
        prepare: clear,
        run: |dir, scale| stream(dir, "small", 128 * MIB / scale, 4 << 10),
    },
    Work { name: "write 4 x 32 MiB interleaved", prepare: clear, run: interleave },
    Work { name: "create 10,000", prepare: clear, run: create },
    Work { name: "stat 10,000", prepare: nothing, run: stat },
    Work { name: "list 10,000, ten times", prepare: nothing, run: list },
    Work { name: "unlink 10,000", prepare: nothing, run: unlink },
];

fn nothing(_dir: &Path, _scale: u64) -> Result<()> {
    Ok(())
}

fn clear(dir: &Path, _scale: u64) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        std::fs::remove_file(entry?.path())?;
    }
    Ok(())
}

fn stream(dir: &Path, name: &str, bytes: u64, record: usize) -> Result<()> {
    let data = vec![0x5a; record];
    let mut file = File::create(dir.join(name))?;
    for _ in 0..bytes / record as u64 {
        file.write_all(&data)?;
    }
    Ok(())
}

fn read_large(dir: &Path, _scale: u64) -> Result<()> {
    let mut file = File::open(dir.join("large"))?;
    let mut data = vec![0; 512 << 10];
    while file.read(&mut data)? > 0 {}
    Ok(())
}

/// Returns a file offset that looks random but is the same in every run (Knuth's multiplicative hash).
fn place(number: u64, bytes: u64) -> u64 {
    (number.wrapping_mul(2_654_435_761) % (bytes / 4096)) * 4096
}

fn read_random(dir: &Path, scale: u64) -> Result<()> {
    let file = File::open(dir.join("large"))?;
    let mut data = vec![0; 4096];
    for number in 0..10_000 / scale {
        file.read_exact_at(&mut data, place(number, 512 * MIB / scale))?;
    }
    Ok(())
}

fn write_random(dir: &Path, scale: u64) -> Result<()> {
    let file = File::options().write(true).open(dir.join("large"))?;
    let data = vec![0xa5; 4096];
    for number in 0..10_000 / scale {
        file.write_all_at(&data, place(number, 512 * MIB / scale))?;
    }
    Ok(())
}

fn interleave(dir: &Path, scale: u64) -> Result<()> {
    let data = vec![0x3c; 64 << 10];
    let mut files = Vec::new();
    for number in 0..4 {
        files.push(File::create(dir.join(format!("stream{number}")))?);
    }
    for _ in 0..32 * MIB / scale / data.len() as u64 {
        for file in &mut files {
            file.write_all(&data)?;
        }
    }
    Ok(())
}

fn create(dir: &Path, scale: u64) -> Result<()> {
    for number in 0..10_000 / scale {
        File::create(dir.join(number.to_string()))?;
    }
    Ok(())
}

fn stat(dir: &Path, scale: u64) -> Result<()> {
    for number in 0..10_000 / scale {
        std::fs::metadata(dir.join(number.to_string()))?;
    }
    Ok(())
}

fn list(dir: &Path, _scale: u64) -> Result<()> {
    for _ in 0..10 {
        std::fs::read_dir(dir)?.try_for_each(|entry| entry.map(|_| ()))?;
    }
    Ok(())
}

fn unlink(dir: &Path, scale: u64) -> Result<()> {
    for number in 0..10_000 / scale {
        std::fs::remove_file(dir.join(number.to_string()))?;
    }
    Ok(())
}
