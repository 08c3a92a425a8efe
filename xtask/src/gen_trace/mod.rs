//! `cargo xtask gen-trace`: generates a blktrace capture of any size, in the format of `blktrace`: one file for each
//! processor, version 7, little-endian.
//!
//! The trace shows one disk used by several processes: sequential and random runs, reads, writes, readahead,
//! synchronous and journal writes, flushes, discards, merges, plugs, a rare requeue, and completions on other
//! processors. The disk accepts 32 requests at once. The same options give the same bytes.
//!
//! An I/O is a request. With at least a thousand I/Os, the trace has exactly five records for each, including
//! notes: Q, G, I, D, C for an ordinary request; Q, G, D, C of the flush itself and one more C for a flush. A
//! merged bio adds two records (Q, M), a plug with its unplug two (P, U), a requeue two (R, D), a note one.
//! If these are too many, requests go to the driver without being inserted (no I), which saves one record
//! each; if too few, requests are plugged. If one record is still missing at the end, it is a message.

mod record;
mod workload;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use self::record::Counts;
use self::workload::Generator;

const HELP: &str = "\
cargo xtask gen-trace [--out PREFIX] [--ios N] [--seed N] [--cpus N]

  --out PREFIX  writes PREFIX.blktrace.0, PREFIX.blktrace.1, … (default: generated)
  --ios N       requests; five records of 48 bytes each (default: 5000000, 1.2 GB)
  --seed N      the same seed gives the same trace (default: 1)
  --cpus N      processors, that is files (default: 2)
";

/// Runs `cargo xtask gen-trace`.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut options = Options { ios: 5_000_000, seed: 1, cpus: 2 };
    let mut prefix = PathBuf::from("generated");
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--help" {
            print!("{HELP}");
            return Ok(());
        }
        let value = words.next().with_context(|| format!("`{word}` takes a value\n\n{HELP}"))?;
        let number = || value.parse().with_context(|| format!("{word} takes a whole number, not `{value}`"));
        match word.as_str() {
            "--out" => prefix = PathBuf::from(value),
            "--ios" => options.ios = number()?,
            "--seed" => options.seed = number()?,
            "--cpus" => options.cpus = number()?,
            other => bail!("`{other}` is not an option\n\n{HELP}"),
        }
    }
    if !(1..=256).contains(&options.cpus) {
        bail!("--cpus takes 1 to 256");
    }
    if let Some(dir) = prefix.parent() {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    let counts = write_files(&prefix, &options)?;
    println!("{}.blktrace.0 to .{}: {counts}", prefix.display(), options.cpus - 1);
    Ok(())
}

/// The options of the generator.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of requests.
    pub ios: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of processors.
    pub cpus: u64,
}

/// Writes `PREFIX.blktrace.0` and so on.
pub fn write_files(prefix: &Path, options: &Options) -> Result<Counts> {
    let mut files = Vec::new();
    for cpu in 0..options.cpus {
        let mut name = prefix.as_os_str().to_owned();
        name.push(format!(".blktrace.{cpu}"));
        let file =
            File::create(&name).with_context(|| format!("cannot create {}", Path::new(&name).display()))?;
        files.push(BufWriter::with_capacity(1 << 20, file));
    }
    let mut generator = Generator::new(options, files);
    let counts = generator.run(options.ios).context("cannot write the trace")?;
    for mut file in generator.files {
        file.flush().context("cannot write the trace")?;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn in_memory(options: Options) -> (Vec<Vec<u8>>, Counts) {
        let mut generator = Generator::new(&options, vec![Vec::new(); options.cpus as usize]);
        let counts = generator.run(options.ios).expect("memory does not fail");
        (generator.files, counts)
    }

    #[test]
    fn five_records_for_each_io() {
        for ios in [1000, 1001, 20_000, 54_321] {
            for seed in 0..5 {
                let (_, counts) = in_memory(Options { ios, seed, cpus: 2 });
                assert_eq!(counts.records, ios * 5, "seed {seed}");
                assert_eq!((counts.issued - counts.requeued, counts.queued - counts.merged), (ios, ios));
                assert!(counts.merged > ios / 20 && counts.unplugged > ios / 50, "{counts}");
                assert!(counts.notes < 20, "{counts}");
            }
        }
        let (_, few) = in_memory(Options { ios: 3, seed: 1, cpus: 1 });
        assert_eq!(few.issued, 3);
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        let options = Options { ios: 5000, seed: 9, cpus: 3 };
        assert!(in_memory(options) == in_memory(options));
        assert!(in_memory(options).0 != in_memory(Options { seed: 10, ..options }).0);
    }

    #[test]
    fn blkparse_and_btt_accept_it() {
        if !fonio_testing::has(&[fonio_testing::Need::Blktrace]) {
            return;
        }
        let dir = std::env::temp_dir().join(format!("gen-trace-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory for the test");
        let prefix = dir.join("small");
        let counts = write_files(&prefix, &Options { ios: 10_000, seed: 1, cpus: 2 }).expect("written");
        let run = |program: &str, arguments: &[&str]| {
            let out = Command::new(program).args(arguments).current_dir(&dir).output().expect("it runs");
            assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{program} {arguments:?}");
            String::from_utf8_lossy(&out.stdout).into_owned()
        };
        let text = run("blkparse", &["-i", "small"]);
        run("blkparse", &["-i", "small", "-d", "small.bin", "-O"]);
        run("btt", &["-i", "small.bin"]);
        std::fs::remove_dir_all(&dir).expect("the test's own directory");

        let actions = |letters: &[&str]| {
            let lines = text.lines().filter(|line| {
                let mut words = line.split_ascii_whitespace();
                words.nth(1).is_some_and(|cpu| cpu.parse::<u32>().is_ok())
                    && words.nth(3).is_some_and(|action| letters.contains(&action))
            });
            lines.count() as u64
        };
        assert_eq!(actions(&["Q"]), counts.queued);
        assert_eq!(actions(&["M", "F"]), counts.merged);
        assert_eq!(actions(&["D"]), counts.issued);
        assert_eq!(actions(&["C"]), counts.completed);
        assert_eq!(actions(&["R"]), counts.requeued);
        let entries = text.lines().find_map(|line| line.strip_prefix("Events (small): ")).unwrap_or_default();
        let entries: String = entries.chars().filter(char::is_ascii_digit).collect();
        let messages = text.lines().filter(|line| line.contains("end of the generated trace")).count() as u64;
        assert_eq!(entries, (counts.records - counts.notes + messages).to_string());
        assert!(text.contains("Skips: 0 forward"));
    }
}
