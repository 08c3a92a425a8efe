//! `cargo xtask paper`: tables and figures of the studies, ours beside theirs.

mod bfuse_t1;
mod kim_f15;
mod kim_t3;

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::process;

/// One table or figure.
struct Paper {
    id: &'static str,
    title: &'static str,
    rows: fn(&Published, bool) -> Result<Vec<Row>>,
}

const PAPERS: &[Paper] = &[
    Paper {
        id: "kim-t3",
        title: "raw performance of eight cards (Kim et al. 2012, Table III)",
        rows: kim_t3::rows,
    },
    Paper {
        id: "kim-f15",
        title: "throughput against the write address range (Kim et al. 2012, Figure 15)",
        rows: kim_f15::rows,
    },
    Paper {
        id: "bfuse-t1",
        title: "storage configuration of six phones (Jeong, Won 2014, Table 1)",
        rows: bfuse_t1::rows,
    },
];

/// A published number or statement beside ours.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    published: String,
    ours: String,
    /// Our number was made from this one, so that agreement proves nothing.
    used_in_fit: bool,
    verdict: Verdict,
    /// Where it differs or cannot be had: why.
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Agrees,
    Differs,
    Cannot,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::Cannot => "cannot",
        }
    }

    fn of(agrees: bool) -> Verdict {
        if agrees { Verdict::Agrees } else { Verdict::Differs }
    }
}

/// `papers/published.toml`, as far as it is needed.
#[derive(Deserialize)]
struct Published {
    kim: Kim,
    bfuse: Bfuse,
}

#[derive(Deserialize)]
struct Kim {
    card: Vec<Card>,
    address_range: AddressRange,
}

#[derive(Deserialize)]
struct Card {
    name: String,
    desktop_mb_s: Four,
    phone_mb_s: Four,
}

#[derive(Clone, Copy, Deserialize)]
struct Four {
    seq_write: f64,
    seq_read: f64,
    rand_write: f64,
    rand_read: f64,
}

#[derive(Deserialize)]
struct AddressRange {
    shape: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Bfuse {
    phone: Vec<Phone>,
}

#[derive(Deserialize)]
struct Phone {
    name: String,
    year: u32,
    data: String,
    sdcard: String,
    ext_sdcard: Option<String>,
}

fn published() -> Result<Published> {
    let path = process::root().join("papers/published.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not understood", path.display()))
}

/// `cargo xtask paper [ID…] [--full] [--json]`.
pub fn run(arguments: &[String]) -> Result<()> {
    let (mut full, mut as_json, mut wanted) = (false, false, Vec::new());
    for argument in arguments {
        match argument.as_str() {
            "--full" => full = true,
            "--json" => as_json = true,
            id if PAPERS.iter().any(|paper| paper.id == id) => wanted.push(id),
            other => {
                let ids: Vec<&str> = PAPERS.iter().map(|paper| paper.id).collect();
                bail!(
                    "there is no table or figure `{other}`; there are {}, and --full and --json",
                    ids.join(", ")
                );
            }
        }
    }
    let published = published()?;
    let mut all = BTreeMap::new();
    for paper in PAPERS.iter().filter(|paper| wanted.is_empty() || wanted.contains(&paper.id)) {
        let rows =
            (paper.rows)(&published, full).with_context(|| format!("{} could not be made", paper.id))?;
        if !as_json {
            show(paper, &rows);
        }
        all.insert(paper.id, rows);
    }
    if as_json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(())
}

fn show(paper: &Paper, rows: &[Row]) {
    let count = |verdict| rows.iter().filter(|row| !row.used_in_fit && row.verdict == verdict).count();
    println!("{}: {}", paper.id, paper.title);
    println!(
        "Of what no fit used, {} agree, {} differ, {} cannot be had here; {} were used in a fit.\n",
        count(Verdict::Agrees),
        count(Verdict::Differs),
        count(Verdict::Cannot),
        rows.iter().filter(|row| row.used_in_fit).count()
    );
    println!("{:<28} {:<46} {:<46} {:<8} {:<4}", "", "published", "ours", "verdict", "fit");
    for row in rows {
        println!(
            "{:<28} {:<46} {:<46} {:<8} {:<4} {}",
            row.what,
            row.published,
            row.ours,
            row.verdict.name(),
            if row.used_in_fit { "used" } else { "-" },
            row.why
        );
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The simulator has the cards' numbers too, because it does no I/O; they are the same.
    #[test]
    fn the_published_numbers_are_the_simulators() {
        let published = published().expect("the file is in the repository");
        assert_eq!(published.kim.card.len(), fonio_sim::published::CARDS.len());
        for (card, known) in published.kim.card.iter().zip(&fonio_sim::published::CARDS) {
            assert_eq!(card.name, known.name);
            for (ours, theirs) in [(card.phone_mb_s, known.phone), (card.desktop_mb_s, known.desktop)] {
                assert_eq!(
                    [ours.seq_write, ours.seq_read, ours.rand_write, ours.rand_read],
                    [theirs.seq_write, theirs.seq_read, theirs.rand_write, theirs.rand_read],
                    "{}",
                    card.name
                );
            }
        }
    }

    #[test]
    fn every_paper_has_rows() {
        let published = published().expect("the file is in the repository");
        for paper in PAPERS {
            assert!(!(paper.rows)(&published, false).expect("it runs").is_empty(), "{}", paper.id);
        }
    }
}
