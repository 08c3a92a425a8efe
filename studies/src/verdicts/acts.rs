//! Performs the actions of programs other than fio and SQLite. Each program runs until it is killed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fonio_core::Random;

const LONG: Duration = Duration::from_secs(3600);

/// Performs the action that is named by the first word.
pub fn run(words: &[String]) -> Result<()> {
    let number = |at: usize| -> Result<u64> {
        words.get(at).context("a number is missing")?.parse().context("not a number")
    };
    let path = || words.get(1).map(Path::new).context("a path is missing");
    match words.first().map(String::as_str) {
        Some("spin") => spin(number(1)?),
        Some("lock") => lock(number(1)?),
        Some("sleep") => thread::sleep(LONG),
        Some("network-wait") => network_wait()?,
        Some("network-load") => network_load()?,
        Some("child") => drop(Command::new("sleep").arg("3600").status().context("cannot start sleep")?),
        Some("save") => save(path()?, Duration::from_millis(number(2)?))?,
        Some("save-in-bursts") => save_in_bursts(path()?)?,
        Some("save-once") => save_once(path()?, number(2)?)?,
        Some("sync") => loop {
            thread::sleep(Duration::from_millis(number(1)?));
            rustix::fs::sync();
        },
        act => bail!("unknown act {act:?}"),
    }
    Ok(())
}

fn spin(threads: u64) {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut sum = 0_u64;
                loop {
                    sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
                }
            });
        }
    });
}

/// Starts threads that wait for a lock. The thread that has the lock sleeps.
fn lock(threads: u64) {
    let lock = Mutex::new(());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let _held = lock.lock();
                    thread::sleep(Duration::from_millis(200));
                }
            });
        }
    });
}

fn network_wait() -> Result<()> {
    let server = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(server.local_addr()?)?;
    let _held = server.accept()?;
    client.read_exact(&mut [0])?;
    Ok(())
}

/// Runs a client that receives data at about 20 MB/s.
fn network_load() -> Result<()> {
    let server = TcpListener::bind("127.0.0.1:0")?;
    let address = server.local_addr()?;
    thread::scope(|scope| -> Result<()> {
        scope.spawn(move || -> Result<()> {
            let (mut to, _) = server.accept()?;
            let piece = vec![7_u8; 200_000];
            loop {
                to.write_all(&piece)?;
                thread::sleep(Duration::from_millis(10));
            }
        });
        let mut from = TcpStream::connect(address)?;
        let mut room = vec![0_u8; 64 * 1024];
        loop {
            from.read_exact(&mut room)?;
        }
    })
}

/// Replaces a file safely, again and again.
fn save(path: &Path, every: Duration) -> Result<()> {
    loop {
        replace(path, 10_000)?;
        thread::sleep(every);
    }
}

/// Replaces a file as [`save`] does, but with busy and idle phases: the pauses between saves vary by a factor
/// of ten around 20 ms, and their lengths are correlated over about 50 pauses.
fn save_in_bursts(path: &Path) -> Result<()> {
    let (mut random, mut at) = (Random::new(1), 0.0_f64);
    loop {
        replace(path, [4_000, 10_000, 200_000][random.below(3) as usize])?;
        // The sum of twelve uniform random numbers is almost normal.
        let normal = (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
        at = 0.98 * at + 0.2 * normal;
        thread::sleep(Duration::from_secs_f64(0.02 * at.exp()));
    }
}

fn replace(path: &Path, bytes: usize) -> Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new).with_context(|| format!("cannot make {}", new.display()))?;
    file.write_all(&vec![b'x'; bytes])?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    Ok(())
}

/// Writes a file of `mebibytes` MiB and syncs it, four seconds after the start.
fn save_once(path: &Path, mebibytes: u64) -> Result<()> {
    thread::sleep(Duration::from_secs(4));
    let mut file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    for _ in 0..mebibytes {
        file.write_all(&vec![b'x'; 1 << 20])?;
    }
    file.sync_all()?;
    thread::sleep(LONG);
    Ok(())
}
