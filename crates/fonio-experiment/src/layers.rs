//! Where throughput is lost on the way from a file to a device (Jeong and Won 2014, section 2.3): sequential I/O by
//! 512 KiB to the bare device, through the file system, and through FUSE on top of it.
//!
//! Who calls says how to mount and how to switch the scheduler, and undoes it: this crate changes no machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Advice, OFlags, fadvise};
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::place::Place;
use crate::target::{Target, room_bytes};

/// The study's record.
const RECORD_BYTES: usize = 512 << 10;
/// What direct I/O may want memory and places to be a multiple of.
const ALIGNMENT: usize = 4096;
/// A layer that takes less than this of what the one below gives costs nothing that could be told from chance.
const SLIGHT: f64 = 0.05;

/// One step of the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// What is measured: `device, scheduler none`, `ext4`, `FUSE, mode=auto`.
    pub name: String,
    /// 10^6 bytes per second, written and made durable; the median of the rounds.
    pub write_mb_s: Option<f64>,
    /// 10^6 bytes per second, read from the device and not from the page cache; the median of the rounds.
    pub read_mb_s: Option<f64>,
    /// What could not be measured, and why.
    pub note: Option<String>,
}

/// All of them, from the device upwards.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Layers {
    /// Where most is lost, in a sentence.
    pub verdict: String,
    /// The folder.
    pub place: Place,
    /// Bytes of each write and each read.
    pub bytes: u64,
    /// How often each was measured.
    pub rounds: usize,
    /// From below.
    pub layers: Vec<Layer>,
}

/// How the way is measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A folder.
    pub dir: PathBuf,
    /// What is written and read at a time.
    pub bytes: u64,
    /// How often; odd.
    pub rounds: usize,
    /// A device that may be overwritten, named twice.
    pub destroy: Option<(PathBuf, PathBuf)>,
    /// Options of FUSE mounts, each a layer.
    pub modes: Vec<String>,
}

/// A mount, folder or setting that holds until it is dropped.
pub type Held = Box<dyn std::any::Any>;

/// What the machine lets be changed.
pub struct Machine<'a> {
    /// Makes a folder, for as long as what is returned is held.
    pub folder: &'a mut dyn FnMut(&Path) -> io::Result<Held>,
    /// Mounts a folder on another with options.
    pub mount: &'a mut dyn FnMut(&Path, &Path, &str) -> Result<Held, String>,
    /// Gives the device of this name no scheduler.
    pub without_scheduler: &'a mut dyn FnMut(&str) -> Result<Held, String>,
    /// Told what is measured now; false ends it.
    pub progress: &'a mut dyn FnMut(&str) -> bool,
}

impl Machine<'_> {
    fn go_on(&mut self, what: &str) -> Result<(), BenchError> {
        if (self.progress)(what) { Ok(()) } else { Err(BenchError::Interrupted) }
    }
}

/// Measures all layers.
///
/// # Errors
/// [`BenchError::NoRoom`], [`BenchError::Interrupted`], and where the folder or a device that was named cannot be written.
pub fn measure(plan: &Plan, machine: &mut Machine<'_>) -> Result<Layers, BenchError> {
    let place = Place::of(&plan.dir);
    let room = room_bytes(&plan.dir)?;
    if room < plan.bytes {
        return Err(BenchError::NoRoom { path: plan.dir.clone(), free: room, needed: plan.bytes });
    }
    let folder = plan.dir.join(format!(".fonio-layers-{}", std::process::id()));
    let _held = (machine.folder)(&folder).map_err(BenchError::system("make", &folder))?;
    let source = folder.join("source");
    let mounted = folder.join("mounted");
    for dir in [&source, &mounted] {
        fs::create_dir(dir).map_err(BenchError::system("make", dir))?;
    }
    let mut layers = device_layers(plan, &place, machine)?;
    machine.go_on("the file system")?;
    let name = place.file_system.clone().unwrap_or_else(|| "file system".to_owned());
    layers.push(in_folder(&name, &source, &source, plan)?);
    for mode in &plan.modes {
        let name = format!("FUSE, {mode}");
        machine.go_on(&name)?;
        layers.push(match (machine.mount)(&source, &mounted, mode) {
            Ok(held) => {
                let layer = in_folder(&name, &mounted, &source, plan)?;
                drop(held);
                layer
            }
            Err(why) => not_measured(name, why),
        });
    }
    tell_once(&mut layers, plan.modes.len());
    let verdict = verdict(&layers);
    Ok(Layers { verdict, place, bytes: plan.bytes, rounds: plan.rounds, layers })
}

fn not_measured(name: String, why: String) -> Layer {
    Layer { name, write_mb_s: None, read_mb_s: None, note: Some(why) }
}

/// Where none of the last `modes` layers could be measured for one and the same reason, one line says it.
fn tell_once(layers: &mut Vec<Layer>, modes: usize) {
    let first = layers.len() - modes;
    let why = layers.get(first).and_then(|layer| layer.note.clone());
    if let Some(why) = why.filter(|why| layers[first..].iter().all(|layer| layer.note.as_ref() == Some(why)))
    {
        layers.truncate(first);
        layers.push(not_measured("FUSE, any mode".to_owned(), why));
    }
}

fn device_layers(plan: &Plan, place: &Place, machine: &mut Machine<'_>) -> Result<Vec<Layer>, BenchError> {
    let (target, path, device) = match &plan.destroy {
        Some((named, again)) => {
            let target = Target::open(named, Some(again))?;
            let device = target.place().device.clone();
            (Some(target), named.clone(), device)
        }
        None => match &place.device {
            Some(device) => (None, Path::new("/dev").join(device), Some(device.clone())),
            None => {
                let note = "this folder is on no block device that is known".to_owned();
                return Ok(vec![not_measured("device".to_owned(), note)]);
            }
        },
    };
    let scheduler = place.scheduler.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut layers = Vec::new();
    if let Some(device) = device.filter(|_| scheduler != "none") {
        let name = "device, scheduler none".to_owned();
        machine.go_on(&name)?;
        layers.push(match (machine.without_scheduler)(&device) {
            Ok(held) => {
                let layer = on_device(name, &path, target.is_some(), plan);
                drop(held);
                layer
            }
            Err(why) => not_measured(name, why),
        });
    }
    let name = format!("device, scheduler {scheduler}");
    machine.go_on(&name)?;
    layers.push(on_device(name, &path, target.is_some(), plan));
    Ok(layers)
}

/// Direct I/O on a device; nothing is written unless the user named it twice.
fn on_device(name: String, path: &Path, writes: bool, plan: &Plan) -> Layer {
    let mut note = None;
    let mut told = |outcome: io::Result<f64>| outcome.map_err(|error| note = Some(error.to_string())).ok();
    let write = if writes {
        median(plan.rounds, || direct(path, plan.bytes, true)).map(&mut told).unwrap_or_default()
    } else {
        None
    };
    let read = median(plan.rounds, || direct(path, plan.bytes, false)).map(&mut told).unwrap_or_default();
    if !writes && note.is_none() {
        note = Some("only read: it holds data".to_owned());
    }
    Layer { name, write_mb_s: write, read_mb_s: read, note }
}

/// In `dir`, whose files are those of `source`.
fn in_folder(name: &str, dir: &Path, source: &Path, plan: &Plan) -> Result<Layer, BenchError> {
    let path = dir.join("file");
    let failed = || BenchError::system("measure in", dir);
    let mut writes = Vec::new();
    let mut reads = Vec::new();
    for _ in 0..plan.rounds {
        writes.push(write_file(&path, plan.bytes).map_err(failed())?);
        reads.push(read_file(&path, &source.join("file")).map_err(failed())?);
        fs::remove_file(&path).map_err(failed())?;
    }
    Ok(Layer { name: name.to_owned(), write_mb_s: middle(writes), read_mb_s: middle(reads), note: None })
}

fn median(rounds: usize, mut once: impl FnMut() -> io::Result<f64>) -> Option<io::Result<f64>> {
    let rates: io::Result<Vec<f64>> = (0..rounds).map(|_| once()).collect();
    match rates {
        Ok(rates) => middle(rates).map(Ok),
        Err(error) => Some(Err(error)),
    }
}

fn middle(mut rates: Vec<f64>) -> Option<f64> {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}

fn mb_s(bytes: u64, started: Instant) -> f64 {
    bytes as f64 / started.elapsed().as_secs_f64() / 1e6
}

fn write_file(path: &Path, bytes: u64) -> io::Result<f64> {
    let data = vec![0x5a; RECORD_BYTES];
    let started = Instant::now();
    let mut file = File::create(path)?;
    for _ in 0..bytes / RECORD_BYTES as u64 {
        file.write_all(&data)?;
    }
    file.sync_all()?;
    Ok(mb_s(bytes, started))
}

/// Reads what neither the page cache of the file itself nor that of the file `below` holds.
fn read_file(path: &Path, below: &Path) -> io::Result<f64> {
    fadvise(File::open(below)?, 0, None, Advice::DontNeed)?;
    let mut data = vec![0; RECORD_BYTES];
    let mut file = File::open(path)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let started = Instant::now();
    let mut bytes = 0;
    loop {
        match file.read(&mut data)? {
            0 => return Ok(mb_s(bytes, started)),
            read => bytes += read as u64,
        }
    }
}

fn direct(path: &Path, bytes: u64, writes: bool) -> io::Result<f64> {
    let flags = OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path)?;
    let mut memory = vec![0x5a; RECORD_BYTES + ALIGNMENT];
    let from = memory.as_ptr().align_offset(ALIGNMENT);
    let data = &mut memory[from..from + RECORD_BYTES];
    let started = Instant::now();
    let mut at = 0;
    while at + RECORD_BYTES as u64 <= bytes {
        if writes {
            file.write_all_at(data, at)?;
        } else if file.read_at(data, at)? == 0 {
            break;
        }
        at += RECORD_BYTES as u64;
    }
    if writes {
        file.sync_all()?;
    }
    Ok(mb_s(at, started))
}

/// The step at which the largest part of what the layers below give is lost, of writes or of reads.
fn verdict(layers: &[Layer]) -> String {
    let by = |of: fn(&Layer) -> Option<f64>| -> Vec<(&str, f64)> {
        layers.iter().filter_map(|layer| Some((layer.name.as_str(), of(layer)?))).collect()
    };
    let of_writes = worst_step("write", &by(|layer| layer.write_mb_s));
    let of_reads = worst_step("read", &by(|layer| layer.read_mb_s));
    let worst = of_writes.into_iter().chain(of_reads).max_by(|one, other| one.0.total_cmp(&other.0));
    match worst {
        Some((loss, sentence)) if loss >= SLIGHT => sentence,
        Some(_) => format!("No layer costs {:.0} % of the throughput or more.", SLIGHT * 100.0),
        None => "Nothing could be measured.".to_owned(),
    }
}

/// The step that loses most, as a share of the fastest layer below FUSE, and the sentence about it.
fn worst_step(what: &str, steps: &[(&str, f64)]) -> Option<(f64, String)> {
    // Modes of FUSE lie beside each other, on the file system.
    let (fuse, below): (Vec<_>, Vec<_>) =
        steps.iter().copied().partition(|(name, _)| name.starts_with("FUSE"));
    let (_, on_top) = *below.last()?;
    // Caches below the device that is seen may give more through the file system than a bare read gets.
    let (fastest, most) = below.iter().copied().max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let of = if fastest == steps[0].0 { "the lowest layer".to_owned() } else { format!("`{fastest}`") };
    let between = below.windows(2).map(|pair| (pair[1].0, pair[0].1 - pair[1].1));
    let losses = between.chain(fuse.iter().map(|(name, rate)| (*name, on_top - rate)));
    let (name, lost) = losses.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let loss = lost / most;
    let percent = loss * 100.0;
    Some((loss, format!("Most {what} throughput is lost at `{name}`: {percent:.0} % of what {of} gives.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Removed(PathBuf);

    impl Drop for Removed {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).expect("it was made");
        }
    }

    fn layer(name: &str, write: f64) -> Layer {
        Layer { name: name.to_owned(), write_mb_s: Some(write), read_mb_s: None, note: None }
    }

    #[test]
    fn the_layer_that_loses_most_is_named() {
        // The study's phone, Figure 2.
        let phone = [
            layer("device, scheduler none", 39.0),
            layer("device, scheduler cfq", 36.3),
            layer("ext4", 33.5),
            layer("FUSE, mode=stock", 7.0),
        ];
        assert_eq!(
            verdict(&phone),
            "Most write throughput is lost at `FUSE, mode=stock`: 68 % of what the lowest layer gives."
        );
        let cached =
            [layer("device, scheduler none", 20.0), layer("ext4", 40.0), layer("FUSE, mode=stock", 10.0)];
        assert_eq!(
            verdict(&cached),
            "Most write throughput is lost at `FUSE, mode=stock`: 75 % of what `ext4` gives."
        );
        let mut reads = cached.clone();
        reads[0].write_mb_s = None;
        for (layer, read) in reads.iter_mut().zip([100.0, 99.0, 92.0]) {
            layer.read_mb_s = Some(read);
        }
        assert_eq!(
            verdict(&reads),
            "Most write throughput is lost at `FUSE, mode=stock`: 75 % of what the lowest layer gives."
        );
        assert_eq!(verdict(&[]), "Nothing could be measured.");
        let fine =
            [layer("device, scheduler none", 39.0), layer("ext4", 38.0), layer("FUSE, mode=auto", 38.5)];
        assert_eq!(verdict(&fine), "No layer costs 5 % of the throughput or more.");
    }

    #[test]
    fn a_folder_is_measured_and_left_as_it_was() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder on a disk");
        let plan = Plan {
            dir: dir.path().to_owned(),
            bytes: 1 << 20,
            rounds: 1,
            destroy: None,
            modes: vec!["mode=none".to_owned(), "mode=other".to_owned()],
        };
        let mut machine = Machine {
            folder: &mut |path| {
                fs::create_dir(path)?;
                Ok(Box::new(Removed(path.to_owned())))
            },
            mount: &mut |_, _, _| Err("not in a test".to_owned()),
            without_scheduler: &mut |_| Err("not in a test".to_owned()),
            progress: &mut |_| true,
        };
        let found = measure(&plan, &mut machine).expect("it is writable");
        assert_eq!(found.layers.last().map(|layer| layer.name.as_str()), Some("FUSE, any mode"));
        let folder = &found.layers[found.layers.len() - 2];
        assert!(folder.write_mb_s.is_some_and(|rate| rate > 0.0) && folder.read_mb_s.is_some());
        assert_eq!(found.layers.last().and_then(|layer| layer.note.as_deref()), Some("not in a test"));
        assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 0);
    }
}
