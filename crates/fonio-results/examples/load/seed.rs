//! Fills an empty SQLite database with generated results, in table order.
//!
//! Submissions would create the same rows; [`compare`] checks this.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use fonio_core::Random;
use fonio_results::database::{Connection, Location};
use fonio_results::entry::Entry;
use fonio_results::figures;
use fonio_results::store::Summaries;
use fonio_results::store::book::{Book, Submitted};
use fonio_results::store::seeding::{self, Seed};
use fonio_results::texts::Accepted;
use fonio_storebench_document::Submission;
use fonio_storebench_document::document::{Document, Measure};
use fonio_storebench_document::sample;

/// Comparison keys, each with its percentage of the results. Most results have one of a few keys.
const SHARES: [(&str, u32, u32); 8] = [
    ("ext4", 32, 40),
    ("ext4", 64, 20),
    ("ext4", 128, 15),
    ("f2fs", 32, 8),
    ("f2fs", 128, 7),
    ("btrfs", 256, 5),
    ("xfs", 512, 3),
    ("ext4", 1024, 2),
];

const MODELS: u64 = 400;
const REVISIONS: u64 = 3;

/// Returns a random factor, mostly near 1, computed from a sum of uniform random numbers.
fn spread(random: &mut Random) -> f64 {
    let sum: f64 = (0..4).map(|_| random.uniform()).sum();
    // The factor is between 1/4 and 4. The platform's power function is not used, so the results are the same
    // everywhere.
    if sum >= 2.0 { 1.0 + (sum - 2.0) * 1.5 } else { 1.0 / (1.0 + (2.0 - sum) * 1.5) }
}

fn document(base: &Document, number: u64) -> Document {
    let mut random = Random::new(number);
    let mut document = base.clone();
    let mut left = random.below(100) as u32;
    let key = SHARES.iter().find(|(.., share)| {
        let is_in = left < *share;
        left = left.wrapping_sub(*share);
        is_in
    });
    let (file_system, gb, _) = *key.unwrap_or(&SHARES[0]);
    document.key.file_system = file_system.to_owned();
    document.key.size_class_gb = gb;
    document.device.capacity_bytes = u64::from(gb) * 1_000_000_000;
    // The product of two random numbers makes some models more common than others.
    let model = random.below(MODELS) * random.below(MODELS) / MODELS;
    document.device.model = Some(format!("M{model}"));
    document.device.hardware = Some(format!("0x{}", random.below(REVISIONS)));
    document.device.bus_limit_mb_s = Some(985.0);
    document.began_unix_s = sample::BEGAN_UNIX_S + random.below(20_000_000) / 86_400 * 86_400;
    let device = spread(&mut Random::labelled(model, "model"));
    let mut total = 0.0;
    for figure in ["bandwidth.seq_read", "bandwidth.seq_write", "bandwidth.rand_read", "bandwidth.rand_write"]
    {
        total += scale(&mut document, figure, device * spread(&mut random));
    }
    set(&mut document, "bandwidth.total", total);
    for figure in figures::ranked() {
        match figure.name.as_str() {
            name if name.starts_with("bandwidth.") => {}
            // Limit the factor, because iowait is a percentage.
            "cpu.iowait" => {
                scale(&mut document, "cpu.iowait", spread(&mut random).min(3.5));
            }
            name => {
                scale(&mut document, name, spread(&mut random));
            }
        }
    }
    document
}

fn scale(document: &mut Document, figure: &str, factor: f64) -> f64 {
    let value = document.value(figure).expect("the sample has every figure").value;
    // Round to four digits, like a measured value.
    let scaled = (value * factor * 1e4).round() / 1e4;
    set(document, figure, scaled);
    scaled
}

fn set(document: &mut Document, figure: &str, value: f64) {
    if let Some(Measure::Measured(measured)) = document.figures.get_mut(figure) {
        (measured.value, measured.low, measured.high) = (value, value, value);
    }
}

/// Returns the sample without the figures that are not ranked, because they would only make the database
/// larger.
fn base() -> Document {
    let mut base = sample::document();
    let ranked: Vec<&str> = figures::ranked().iter().map(|figure| figure.name.as_str()).collect();
    for (name, measure) in &mut base.figures {
        if !ranked.contains(&name.as_str()) {
            *measure = Measure::NotMeasured("no time left".to_owned());
        }
    }
    base
}

fn entry(base: &Document, number: u64) -> Entry {
    let document = document(base, number);
    // Check only some documents, because checking all of them would take half of the time.
    if number.is_multiple_of(1000) {
        Submission::accept(document.clone()).expect("a generated document has no problems");
    }
    let entry = Entry::new(&document, sample::BEGAN_UNIX_S + 40_000_000);
    assert_eq!(entry.hidden_reason, None, "a generated document is plausible");
    entry
}

/// An incomplete database is useless, so the database needs no log. Without a log, seeding needs only half of
/// the space and writes the data only once. The index of random ids fits into a cache of a gigabyte.
const WITHOUT_LOG: &str =
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -1048576;";

/// Restores the journal mode that the service uses.
const WITH_LOG: &str = "PRAGMA journal_mode = WAL;";

pub fn seed(folder: &Path, results: u64) -> Result<()> {
    let mut connection = Location::Folder(folder.to_owned()).open_writer()?;
    connection.script(WITHOUT_LOG)?;
    let base = base();
    let threads = std::thread::available_parallelism()?.get().max(2) - 1;
    let (send, receive) = std::sync::mpsc::sync_channel::<(u64, Vec<Entry>)>(4 * threads);
    /// Number of documents that a thread generates per batch.
    const PIECE: u64 = 2000;
    let next = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (send, next, base) = (send.clone(), &next, &base);
            scope.spawn(move || {
                loop {
                    let from = next.fetch_add(PIECE, std::sync::atomic::Ordering::Relaxed);
                    if from >= results {
                        return;
                    }
                    let piece =
                        (from..(from + PIECE).min(results)).map(|number| entry(base, number)).collect();
                    if send.send((from, piece)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        // Write the rows in the order of their numbers. In this order, they are appended to the tables.
        let mut waiting = BTreeMap::new();
        let mut expected = 0;
        let mut seed = Seed::begin(connection.as_mut(), Summaries::default())?;
        for (from, piece) in receive {
            waiting.insert(from, piece);
            while let Some(piece) = waiting.remove(&expected) {
                expected += piece.len() as u64;
                seed.add(connection.as_mut(), piece)?;
            }
        }
        seed.end(connection.as_mut())?;
        connection.script(WITH_LOG)?;
        anyhow::Ok(())
    })
}

/// Compares the seeded tables with the tables that submissions create.
pub fn compare(folder: &Path, results: u64) -> Result<()> {
    let other = tempfile::tempdir()?;
    let location = Location::Folder(other.path().to_owned());
    let mut connection = location.open_writer()?;
    let mut book = Book::open(connection.as_mut(), Summaries::default(), Accepted::default())?;
    let base = base();
    for number in 0..results {
        let submitted = vec![Submitted { entry: entry(&base, number), unknown: Vec::new() }];
        book.store(connection.as_mut(), submitted, seeding::RECEIVED_AT)?;
    }
    let mut seeded = Location::Folder(folder.to_owned()).open_reader()?;
    for table in seeding::TABLES {
        let of = |connection: &mut dyn Connection| connection.query(table, &[]);
        ensure!(of(seeded.as_mut())? == of(connection.as_mut())?, "the tables differ: {table}");
    }
    println!("seeding and submitting {results} results create the same tables");
    Ok(())
}
