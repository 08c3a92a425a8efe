//! Reproduces Table III: throughput of eight cards (sequential, 4 KiB random) on a phone and a desktop.
//!
//! The profiles were fitted to the columns of the phone. The columns of the desktop are computed from these
//! profiles with a single ratio. `fonio device verify` shows the origin of each number.

use anyhow::{Context, Result, ensure};
use fonio_sim::profile::Profile;
use fonio_sim::published::CARDS;
use fonio_sim::verify::{Class, verify};

use super::measured::Kind;
use super::published::{Card, Published};
use super::row::{Quantity, Row};
use super::runs::Runs;

/// The relative tolerance: the study publishes three digits.
const TOLERANCE: f64 = 0.05;

const TABLE: &str = "kim-t3 ";

pub(super) fn rows(published: &Published, _: &mut Runs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for card in published.at::<Vec<Card>>("kim.card")? {
        let profile =
            Profile::shipped(&card.name).with_context(|| format!("{} has no profile", card.name))?;
        let known = CARDS.iter().find(|known| known.name == card.name).context("not a card of the study")?;
        for (file, program) in [(card.phone_mb_s, known.phone), (card.desktop_mb_s, known.desktop)] {
            let program = [program.seq_write, program.seq_read, program.rand_write, program.rand_read];
            let file = [file.seq_write, file.seq_read, file.rand_write, file.rand_read];
            ensure!(file == program, "{}: studies/published.toml and fonio-sim differ", card.name);
        }
        for check in verify(&profile)? {
            let Some(what) = check.what.strip_prefix(TABLE) else { continue };
            let (published, given) = check.numbers.context("rates are numbers")?;
            let is_known = check.origin.class() != Class::Predicted;
            let row = rate(published).row(what, published, &Kind::Model.once(given).known(is_known), "");
            rows.push(row.because([check.tolerance.as_str(), check.origin.explained()].join("; ")));
        }
    }
    Ok(rows)
}

/// Returns the format of a rate: rates far below 1 MB/s need more decimals.
fn rate(mb_s: f64) -> Quantity {
    Quantity::new("MB/s", if mb_s < 1.0 { 4 } else { 2 }, 1.0 + TOLERANCE, 0.0)
}
