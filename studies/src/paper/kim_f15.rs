//! Reproduces Figure 15: how the throughput of 4 KiB random writes depends on their address range. The study
//! only draws the curves, but its text describes their shapes. The shapes are compared.

use anyhow::{Context, Result};
use fonio_sim::profile::{Profile, Source};
use fonio_sim::published::Shape;
use fonio_sim::verify::{address_range, ranges, shape_of};

use super::measured::{Kind, Origin};
use super::published::{Card, Published};
use super::row::Row;
use super::runs::Runs;

pub(super) fn rows(published: &Published, _: &mut Runs) -> Result<Vec<Row>> {
    let ranges = ranges();
    let mut rows = Vec::new();
    for card in published.at::<Vec<Card>>("kim.card")? {
        let told: String = published.at(&format!("kim.address_range.shape.{}", card.name))?;
        let profile =
            Profile::shipped(&card.name).with_context(|| format!("{} has no profile", card.name))?;
        let curve = address_range(&profile, &ranges)?;
        let ours = shape_of(&ranges, &curve).map_or("none of the published shapes", in_words);
        let origin = Origin::from(Kind::Model).known(chosen_by_it(&profile, &card.name));
        let points: Vec<String> = ranges
            .iter()
            .zip(&curve)
            .map(|(range, mb_s)| format!("{} MiB {mb_s:.3}", range.0 >> 20))
            .collect();
        let row = Row::same(&card.name, &told, Some(ours), origin, "");
        rows.push(row.because(format!("MB/s: {}", points.join(", "))));
    }
    Ok(rows)
}

/// Returns whether Figure 15 determined the translation layer of the card's profile.
fn chosen_by_it(profile: &Profile, card: &str) -> bool {
    let named = format!("kim-f15 {card} random writes over a growing range");
    profile.provenance().iter().any(|number| number.source == Source::Fitted && number.to == named)
}

fn in_words(shape: Shape) -> &'static str {
    match shape {
        Shape::Flat => "flat",
        Shape::MildDrop => "mild drop",
        Shape::TwoDrops => "two drops: at 32 MB and at 1024 MB",
        Shape::HardDrop => "hard drop, then flat",
    }
}
