//! Draws distribution functions as inline SVG, which needs no script and uses the page's colours. The text
//! next to each chart states the chart's numbers.

use fonio_core::Unit;

use crate::store::summary::Point;

/// The edges of the plot area in the SVG picture.
const LEFT: f64 = 42.0;
const RIGHT: f64 = 352.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 190.0;
const HEIGHT: i32 = 228;
const LEGEND_LINE: i32 = 15;

/// A chart in the form that the template needs.
pub struct Chart {
    pub(super) texts: Texts,
    pub(super) x_label: String,
    pub(super) height: i32,
    pub(super) x_ticks: Vec<Tick>,
    pub(super) y_ticks: Vec<Tick>,
    pub(super) lines: Vec<Line>,
    pub(super) legend: Vec<Legend>,
    pub(super) band: Option<String>,
    pub(super) mark: Option<Tick>,
}

pub(super) struct Tick {
    pub(super) at: String,
    pub(super) label: String,
}

pub(super) struct Line {
    pub(super) class: &'static str,
    pub(super) points: String,
}

pub(super) struct Legend {
    pub(super) class: &'static str,
    pub(super) at: i32,
    pub(super) label: String,
}

/// A distribution function that a chart draws.
pub struct Curve {
    /// The name of the function in the legend.
    pub label: String,
    /// The points of the function, at least one.
    pub points: Vec<Point>,
    /// Half the width of the confidence band around the function.
    pub band: Option<f64>,
}

/// The texts of a chart on a page.
#[derive(Default)]
pub struct Texts {
    /// The id of the chart in the page.
    pub id: &'static str,
    /// The title: the figure that the chart shows.
    pub title: String,
    /// A text with the chart's numbers, for readers who cannot see the chart.
    pub description: String,
    /// The caption below the chart.
    pub caption: String,
}

/// Draws up to four distribution functions with the same unit, and marks a value.
pub fn draw(texts: Texts, unit: Unit, curves: &[Curve], mark: Option<f64>) -> Chart {
    let scale = Scale::of(unit, curves, mark);
    let classes = ["c1", "c2", "c3", "c4"];
    let lines = curves.iter().zip(classes).map(|(curve, class)| {
        let points = curve.points.iter().map(|point| scale.place(point.value, point.share));
        Line { class, points: points.collect::<Vec<_>>().join(" ") }
    });
    let legend: Vec<Legend> = if curves.len() < 2 {
        Vec::new()
    } else {
        let entry = |((curve, class), line): ((&Curve, &'static str), i32)| Legend {
            class,
            at: HEIGHT + 6 + line * LEGEND_LINE,
            label: curve.label.clone(),
        };
        curves.iter().zip(classes).zip(0..).map(entry).collect()
    };
    let band = curves.first().filter(|_| curves.len() == 1).and_then(|curve| {
        let half = curve.band?;
        let edge = |point: &Point, half: f64| scale.place(point.value, (point.share + half).clamp(0.0, 1.0));
        let upper = curve.points.iter().map(|point| edge(point, half));
        let lower = curve.points.iter().rev().map(|point| edge(point, -half));
        Some(upper.chain(lower).collect::<Vec<_>>().join(" "))
    });
    let rows = i32::try_from(legend.len()).expect("four curves");
    Chart {
        texts,
        x_label: if scale.is_log { format!("{} (logarithmic)", axis(unit)) } else { axis(unit).to_owned() },
        height: HEIGHT + if rows > 0 { rows * LEGEND_LINE + 6 } else { 0 },
        x_ticks: scale.ticks(),
        y_ticks: [0.0, 0.25, 0.5, 0.75, 1.0]
            .map(|share| Tick { at: number(height(share)), label: format!("{:.0} %", share * 100.0) })
            .into(),
        lines: lines.collect(),
        legend,
        band,
        mark: mark.map(|value| Tick { at: number(scale.x(value)), label: String::new() }),
    }
}

fn axis(unit: Unit) -> &'static str {
    match unit {
        Unit::MbPerS => "MB/s",
        Unit::Ms => "milliseconds",
        Unit::S => "seconds",
        Unit::Ratio => "ratio",
        Unit::Count => "count",
        Unit::Bytes => "bytes",
        Unit::Percent => "percent",
        other => panic!("{other:?} is not a unit of the catalogue"),
    }
}

fn height(share: f64) -> f64 {
    BOTTOM - share * (BOTTOM - TOP)
}

fn number(value: f64) -> String {
    format!("{value:.1}")
}

struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    fn of(unit: Unit, curves: &[Curve], mark: Option<f64>) -> Scale {
        let values =
            || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.value)).chain(mark);
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(0.0, f64::max);
        // If the values span less than a factor of ten, a linear axis has better ticks.
        let is_log = unit != Unit::Percent && low > 0.0 && high / low > 10.0;
        if is_log {
            return Scale { low: libm::log10(low), high: libm::log10(high), is_log };
        }
        let low = if low.is_finite() && high < 3.0 * low { low } else { 0.0 };
        Scale { low, high: if high > low { high } else { low + 1.0 }, is_log }
    }

    fn x(&self, value: f64) -> f64 {
        let at = if self.is_log { libm::log10(value.max(f64::MIN_POSITIVE)) } else { value };
        LEFT + ((at - self.low) / (self.high - self.low)).clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    fn place(&self, value: f64, share: f64) -> String {
        format!("{:.1},{:.1}", self.x(value), height(share))
    }

    fn ticks(&self) -> Vec<Tick> {
        let values = if self.is_log { self.decades() } else { self.steps() };
        values.into_iter().map(|value| Tick { at: number(self.x(value)), label: label(value) }).collect()
    }

    /// Returns ticks at 1, 2 and 5 times the powers of ten; if the axis covers many decades, returns only
    /// ticks at powers of ten.
    fn decades(&self) -> Vec<f64> {
        let (first, last) = (self.low.floor() as i32, self.high.ceil() as i32);
        let factors: &[f64] = if last - first > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let (low, high) = (libm::pow(10.0, self.low), libm::pow(10.0, self.high));
        let all = (first..=last)
            .flat_map(|power| factors.iter().map(move |factor| factor * libm::pow(10.0, f64::from(power))));
        all.filter(|value| (low * 0.999..=high * 1.001).contains(value)).collect()
    }

    fn steps(&self) -> Vec<f64> {
        let span = self.high - self.low;
        let power = libm::pow(10.0, libm::floor(libm::log10(span)));
        let step = [0.2, 0.5, 1.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| span / step <= 6.0)
            .unwrap_or(power * 2.0);
        let first = (self.low / step).ceil() as i64;
        (first..first + 8)
            .map(|at| at as f64 * step)
            .take_while(|value| *value <= self.high * 1.0001)
            .collect()
    }
}

fn label(value: f64) -> String {
    let text = match value {
        _ if value >= 1e6 => format!("{:.0}M", value / 1e6),
        _ if value >= 1e4 => format!("{:.0}k", value / 1e3),
        _ => format!("{value:.3}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(values: &[f64]) -> Curve {
        let step = 1.0 / values.len() as f64;
        let points = values
            .iter()
            .zip(0..)
            .map(|(value, at)| Point { value: *value, share: step * f64::from(at + 1) });
        Curve { label: "x".to_owned(), points: points.collect(), band: Some(0.1) }
    }

    fn ticks(values: &[f64]) -> Vec<String> {
        let chart = draw(Texts::default(), Unit::MbPerS, &[curve(values)], None);
        for line in &chart.lines {
            for place in line.points.split(' ') {
                let (x, y) = place.split_once(',').unwrap();
                assert!(
                    (LEFT..=RIGHT).contains(&x.parse().unwrap())
                        && (TOP..=BOTTOM).contains(&y.parse().unwrap())
                );
            }
        }
        chart.x_ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(ticks(&[1.0, 30.0, 100.0]), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(ticks(&[0.5, 70_000.0]), ["1", "10", "100", "1000", "10k"]);
        assert_eq!(ticks(&[20.0, 30.0]), ["20", "22", "24", "26", "28", "30"]);
        assert_eq!(ticks(&[0.0, 80.0]), ["0", "20", "40", "60", "80"]);
        assert!(!ticks(&[5.0]).is_empty());
    }
}
