//! States the verdict on a result: whether the device is a fake, what its weak points are, and which SD
//! classes it reaches.

use fonio_core::Unit;

use crate::classes::{CLASSES, Class, REQUEST_BYTES};
use crate::document::{CapacityCheck, ClassVerdict, Document, Origin};
use crate::figures;
use crate::standing::{self, Standing};

/// The figures that can be the weak point, each with its name at the beginning of a sentence.
const WEAK: [(&str, &str); 9] = [
    ("bandwidth.rand_write", "Random writes"),
    ("bandwidth.rand_read", "Random reads"),
    ("bandwidth.seq_write", "Sequential writes"),
    ("bandwidth.seq_read", "Sequential reads"),
    ("sustained.last", "Long writes"),
    ("slowdown.seq_read.1x1", "Sequential reads beside writes"),
    ("slowdown.rand_read.1x1", "Random reads beside writes"),
    ("response.rand_write.4k.p99", "The slowest random writes"),
    ("response.rand_read.4k.p99", "The slowest random reads"),
];

/// A figure is not weak if it is better than the figures of this percentage of the models.
const WEAK_PERCENTILE: f64 = 50.0;

const WEAK_MAX: usize = 3;

/// Returns the verdict as sentences.
pub fn sentence(document: &Document) -> String {
    let mut sentences = Vec::new();
    if let CapacityCheck::Fake { reason, .. } = &document.capacity_check {
        sentences.push(format!("This device is a fake: {reason}. Copy your data elsewhere."));
    }
    sentences.extend(weak_point(document));
    sentences.extend(slowdown(document));
    sentences.extend(class_sentence(document));
    if sentences.is_empty() {
        let measured = document.figures.values().filter(|measure| measure.value().is_some()).count();
        sentences.push(format!("{measured} figures were measured, too few for a verdict."));
    }
    sentences.join(" ")
}

struct Part {
    words: &'static str,
    shown: String,
    standing: Standing,
    /// The lowest and highest standing within the value's interval. This range is extended by one model on
    /// each side, because ranks are too coarse for smaller differences.
    range: (f64, f64),
}

impl Part {
    fn of(document: &Document, name: &str, words: &'static str) -> Option<Part> {
        let value = document.value(name)?;
        let standing = standing::among_models(document, name)?;
        let at = |value: f64| Some(standing::among_models_at(document, name, value)?.better_than_percent);
        let (one, other) = (at(value.low)?, at(value.high)?);
        let model = 100.0 / standing.others as f64;
        Some(Part {
            words,
            shown: shown(name, value.value, figures::find(name)?.unit),
            standing,
            range: (one.min(other) - model, one.max(other) + model),
        })
    }
}

fn weak_point(document: &Document) -> Option<String> {
    // Devices are compared with models, so the verdict on a model names no weak point.
    if document.origin == Origin::Model {
        return None;
    }
    let parts = WEAK.iter().filter_map(|(name, words)| Part::of(document, name, words));
    weak_sentence(parts.collect())
}

/// Returns a sentence with the weakest figure, and the figures that do not clearly differ from it.
fn weak_sentence(mut parts: Vec<Part>) -> Option<String> {
    parts.sort_by(|a, b| a.standing.better_than_percent.total_cmp(&b.standing.better_than_percent));
    let weakest = parts.first()?;
    let Standing { better_than_percent, others } = weakest.standing;
    if better_than_percent >= WEAK_PERCENTILE {
        return Some(format!(
            "No weak point: every measured part is better than at least {better_than_percent:.0} % of {others} models of flash devices."
        ));
    }
    let of_models = |part: &Part| {
        format!("better than {:.0} % of {others} models of flash devices", part.standing.better_than_percent)
    };
    let is_weak =
        |part: &&Part| part.standing.better_than_percent < WEAK_PERCENTILE && part.range.0 <= weakest.range.1;
    let weak: Vec<&Part> = parts.iter().filter(is_weak).collect();
    let [first, others @ ..] = &weak[..] else { return None };
    if others.is_empty() {
        return Some(format!("{} are the weak point: {}, {}.", first.words, first.shown, of_models(first)));
    }
    let mut listed = vec![format!("{}, {}, {}", lower(first.words), first.shown, of_models(first))];
    listed.extend(others.iter().take(WEAK_MAX - 1).map(|part| {
        let percent = part.standing.better_than_percent;
        format!("{}, {}, better than {percent:.0} %", lower(part.words), part.shown)
    }));
    if weak.len() > WEAK_MAX {
        listed.push(format!("and {} more", weak.len() - WEAK_MAX));
    }
    Some(format!("{} weak points, which cannot be ranked: {}.", weak.len(), listed.join("; ")))
}

/// Converts the first letter to lower case, for use in the middle of a sentence.
fn lower(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn shown(name: &str, value: f64, unit: Unit) -> String {
    if name.starts_with("bandwidth.rand") {
        format!("{} ({:.0} IOPS)", unit.format(value), value * 1e6 / REQUEST_BYTES)
    } else if name.starts_with("slowdown") {
        format!("{value:.1} times the response time")
    } else {
        unit.format(value)
    }
}

fn slowdown(document: &Document) -> Option<String> {
    let of = |access: &str| document.value(&format!("slowdown.{access}.1x1")).map(|value| value.value);
    let (read, write) = (of("rand_read")?, of("rand_write")?);
    Some(format!(
        "Beside one writer, a random read takes {read:.1} times as long; beside one reader, a write {write:.1} times."
    ))
}

fn class_sentence(document: &Document) -> Option<String> {
    let names = |wanted: fn(&ClassVerdict) -> bool| -> Vec<&str> {
        let of_class = |class: &&Class| document.classes.get(class.name).is_some_and(wanted);
        CLASSES.iter().filter(of_class).map(|class| class.name).collect()
    };
    let met = names(|verdict| *verdict == ClassVerdict::Met);
    let a1 = document.classes.get("A1");
    let mut text = match met.as_slice() {
        [] if names(|verdict| matches!(verdict, ClassVerdict::NotMet(_))).is_empty() => return None,
        [] => "It reaches the figures of no SD class".to_owned(),
        met => format!("It reaches the figures of the SD classes {}", met.join(", ")),
    };
    if let Some(ClassVerdict::NotMet(reason)) = a1 {
        text += &format!("; A1 is missed by {reason}");
    }
    Some(text + ".")
}

/// Returns the first sentence of the verdict on a generated result. It states the origin of the result.
pub fn origin_words(origin: Origin) -> Option<&'static str> {
    match origin {
        Origin::Measured => None,
        Origin::Emulated => Some("Measured on an emulated device, not on a real one."),
        Origin::Model => Some("Computed from a model, not measured."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(words: &'static str, percent: f64, range: (f64, f64)) -> Part {
        Part {
            words,
            shown: "1 MB/s".to_owned(),
            standing: Standing { better_than_percent: percent, others: 18 },
            range,
        }
    }

    #[test]
    fn weak_points_that_are_not_told_apart_are_all_named() {
        let weak = |parts| weak_sentence(parts).unwrap();
        let (writes, reads) =
            (part("Random writes", 44.0, (38.0, 50.0)), part("Random reads", 39.0, (33.0, 45.0)));
        assert_eq!(
            weak(vec![writes, reads]),
            "2 weak points, which cannot be ranked: random reads, 1 MB/s, better than 39 % of 18 models of flash devices; random writes, 1 \
             MB/s, better than 44 %."
        );
        let (writes, reads) =
            (part("Random writes", 44.0, (38.0, 50.0)), part("Random reads", 10.0, (4.0, 16.0)));
        assert_eq!(
            weak(vec![writes, reads]),
            "Random reads are the weak point: 1 MB/s, better than 10 % of 18 models of flash devices."
        );
        // A figure better than the median is not weak, even if its interval reaches below the median.
        let (writes, reads) =
            (part("Random writes", 51.0, (45.0, 57.0)), part("Random reads", 49.0, (43.0, 55.0)));
        assert!(weak(vec![writes, reads]).starts_with("Random reads are the weak point: "));
        let best = weak(vec![part("Random writes", 51.0, (45.0, 57.0))]);
        assert!(
            best.starts_with("No weak point: every measured part is better than at least 51 %"),
            "{best}"
        );
    }
}
