//! Table III: sequential and 4 KiB random throughput of eight cards, on a phone and on a desktop computer.
//!
//! The profiles were fitted to the phone's columns. The desktop's were not used; the model knows nothing of its card
//! reader, so where they differ the table shows what the host adds.

use anyhow::{Context, Result};
use fonio_core::Op;
use fonio_sim::measure::Protocol;
use fonio_sim::profile::Profile;
use fonio_sim::published::CARD_RANGE;

use super::{Four, Published, Row, Verdict};
use crate::emulated;

/// Three digits are published, and MB may be 2^20 bytes: 4.9 % more.
const TOLERANCE: f64 = 0.05;

/// Up to here a number was published with one significant digit, which may be half a unit off.
const ONE_DIGIT_MB_S: f64 = 0.095;
const HALF_A_DIGIT_MB_S: f64 = 0.005;

const WHATS: [&str; 4] = ["seq_write", "seq_read", "rand_write", "rand_read"];

pub(super) fn rows(published: &Published, full: bool) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for card in &published.kim.card {
        let profile =
            Profile::shipped(&card.name).with_context(|| format!("{} has no profile", card.name))?;
        let mut model = Vec::new();
        for protocol in protocols() {
            model.push(protocol.run(&profile)?);
        }
        for (place, numbers) in [("phone", card.phone_mb_s), ("desktop", card.desktop_mb_s)] {
            let on_phone = in_order(card.phone_mb_s);
            for (at, (what, published)) in WHATS.into_iter().zip(in_order(numbers)).enumerate() {
                let name = format!("kim-t3 {} {place} {what}", card.name);
                let used_in_fit = profile.provenance().iter().any(|number| number.to == name);
                let why = if place == "desktop" { desktop(on_phone[at], published) } else { String::new() };
                rows.push(row(
                    format!("{} {place} {what}", card.name),
                    published,
                    model[at],
                    used_in_fit,
                    why,
                ));
            }
        }
        if full {
            let measured = emulated::four(&card.name)?;
            for ((what, model), measured) in WHATS.into_iter().zip(&model).zip(measured) {
                let what = format!("{} emulated {what}", card.name);
                let mut row =
                    row(what, *model, measured, false, "the emulator's way adds to every request".to_owned());
                row.published = format!("{} (the model's)", row.published);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

fn protocols() -> [Protocol; 4] {
    [
        Protocol::kim_sequential(Op::Write),
        Protocol::kim_sequential(Op::Read),
        Protocol::kim_random(Op::Write, CARD_RANGE),
        Protocol::kim_random(Op::Read, CARD_RANGE),
    ]
}

fn in_order(four: Four) -> [f64; 4] {
    [four.seq_write, four.seq_read, four.rand_write, four.rand_read]
}

/// The study's own columns differ; no published number says how much of that is the card reader's and how much the
/// benchmark's, which was another one.
fn desktop(phone: f64, desktop: f64) -> String {
    format!(
        "the study's desktop gave {:.2} times its phone; the model was fitted to the phone and has no card reader",
        desktop / phone
    )
}

fn row(what: String, published: f64, ours: f64, used_in_fit: bool, why: String) -> Row {
    let agrees = if published < ONE_DIGIT_MB_S {
        (ours - published).abs() <= HALF_A_DIGIT_MB_S
    } else {
        (ours / published - 1.0).abs() <= TOLERANCE
    };
    Row {
        what,
        published: format!("{published:.4} MB/s"),
        ours: format!("{ours:.4} MB/s, {:.2} times", ours / published),
        used_in_fit,
        verdict: Verdict::of(agrees),
        why: if agrees { String::new() } else { why },
    }
}
