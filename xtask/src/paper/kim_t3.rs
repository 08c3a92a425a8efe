//! Table III: sequential and 4 KiB random throughput of eight cards, on a phone and on a desktop computer.
//!
//! The profiles were fitted to the phone's columns. The desktop's were not used; what its card reader changes is taken
//! from the other cards. The rule is that of `fonio device verify`.

use anyhow::{Context, Result, ensure};
use fonio_core::Op;
use fonio_sim::measure::Protocol;
use fonio_sim::profile::Profile;
use fonio_sim::published::{CARD_RANGE, CARDS};
use fonio_sim::verify::{Class, verify};

use super::row::Quantity;
use super::{Published, Row};
use crate::emulated;

/// How near the emulator is to be to its model.
const TOLERANCE: f64 = 0.05;

const TABLE: &str = "kim-t3 ";

const WHATS: [&str; 4] = ["seq_write", "seq_read", "rand_write", "rand_read"];

pub(super) fn rows(published: &Published, full: bool) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for card in &published.kim.card {
        let profile =
            Profile::shipped(&card.name).with_context(|| format!("{} has no profile", card.name))?;
        let known =
            CARDS.iter().find(|known| known.name == card.name).context("it is a card of the study")?;
        for (file, program) in [(card.phone_mb_s, known.phone), (card.desktop_mb_s, known.desktop)] {
            let program = [program.seq_write, program.seq_read, program.rand_write, program.rand_read];
            let file = [file.seq_write, file.seq_read, file.rand_write, file.rand_read];
            ensure!(file == program, "{}: papers/published.toml and fonio-sim differ", card.name);
        }
        for check in verify(&profile)? {
            let Some(what) = check.what.strip_prefix(TABLE) else { continue };
            let (published, given) = check.numbers.context("rates are numbers")?;
            let row = rate(published).judged(what, published, given, check.within, &check.tolerance);
            rows.push(row.fitted(check.origin.class() != Class::Predicted));
        }
        if full {
            let measured = emulated::four(&card.name)?;
            for ((what, protocol), measured) in WHATS.into_iter().zip(protocols()).zip(measured) {
                let model = protocol.run(&profile)?;
                let agrees = (measured / model - 1.0).abs() <= TOLERANCE;
                let what = format!("{} emulated beside modelled {what}", card.name);
                let why = "the emulator's way adds to every request";
                rows.push(rate(model).judged(what, model, measured, agrees, why));
            }
        }
    }
    Ok(rows)
}

/// Rates far below 1 MB/s need more decimals.
fn rate(mb_s: f64) -> Quantity {
    Quantity::new("MB/s", if mb_s < 1.0 { 4 } else { 2 }, 1.0 + TOLERANCE, 0.0)
}

fn protocols() -> [Protocol; 4] {
    [
        Protocol::kim_sequential(Op::Write),
        Protocol::kim_sequential(Op::Read),
        Protocol::kim_random(Op::Write, CARD_RANGE),
        Protocol::kim_random(Op::Read, CARD_RANGE),
    ]
}
