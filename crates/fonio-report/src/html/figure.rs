//! Writes a chart: its HTML frame, and its data for the script.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fonio_core::printable;
use serde_json::{Map, Value, json};

use super::escape::{Escaped, json_in_script};
use crate::document::{Axis, Chart, Mark, Plot, Role, Scale, Series};

/// Up to this number of values, decimal text is shorter than packed data, and readable.
const PACKED_FROM: usize = 64;

pub fn write(f: &mut fmt::Formatter<'_>, figure: &Chart) -> fmt::Result {
    let mut class = String::from("plot");
    if matches!(figure.x.scale, Scale::Time | Scale::Clock(_))
        || matches!(figure.plot, Plot::Interval | Plot::Timeline)
    {
        class.push_str(" wide");
    }
    if matches!(figure.plot, Plot::Scatter | Plot::HeatScatter) {
        class.push_str(" cloud");
    }
    // A chart with horizontal bars or intervals needs height for each row.
    let rows = match &figure.y.scale {
        Scale::Categories(names) => Some(names.len()),
        _ => None,
    };
    let mut style = String::new();
    if let Some(rows) = rows {
        class.push_str(" tall");
        style = format!(" style=\"--height:{}px\"", 62 + 24 * rows);
    }
    writeln!(
        f,
        "<figure class=\"{class}\" id=\"figure-{}\"{style}><div class=\"head\"><h3>{}</h3><div class=\"keys\"></div></div>\
         <div class=\"chart\" role=\"img\" aria-label=\"{}. {}\"></div><div class=\"foot\"><figcaption>{}</figcaption>\
         <details hidden><summary>Data as a table</summary><div></div></details></div>\
         <script type=\"application/json\">{}</script></figure>",
        Escaped(&figure.id),
        Escaped(&figure.title),
        Escaped(&figure.title),
        Escaped(&figure.caption),
        Escaped(&figure.caption),
        json_in_script(&data(figure))
    )
}

fn data(figure: &Chart) -> Value {
    let mut value = json!({
        "id": printable(&figure.id),
        "title": printable(&figure.title),
        "caption": printable(&figure.caption),
        "plot": plot_name(figure.plot),
        "x": axis(&figure.x),
        "y": axis(&figure.y),
        "marks": figure.marks.iter().map(mark).collect::<Vec<_>>(),
        "series": figure.series.iter().map(series).collect::<Vec<_>>(),
    });
    if let Some(z) = &figure.z {
        value["z"] = axis(z);
    }
    value
}

fn plot_name(plot: Plot) -> &'static str {
    match plot {
        Plot::Line => "line",
        Plot::StackedArea => "stacked_area",
        Plot::Step => "step",
        Plot::StackedBar => "stacked_bar",
        Plot::GroupedBar => "grouped_bar",
        Plot::Scatter => "scatter",
        Plot::HeatScatter => "heat_scatter",
        Plot::Interval => "interval",
        Plot::Timeline => "timeline",
    }
}

fn axis(axis: &Axis) -> Value {
    let mut value = json!({ "label": printable(&axis.label), "unit": axis.unit });
    match &axis.scale {
        Scale::Linear => value["scale"] = "linear".into(),
        Scale::Log => value["scale"] = "log".into(),
        Scale::Time => value["scale"] = "time".into(),
        Scale::Clock(zero) => {
            value["scale"] = "time".into();
            value["clock"] = (*zero).into();
        }
        Scale::Categories(names) => value["categories"] = names.iter().map(|name| printable(name)).collect(),
    }
    if let Some((from, to)) = axis.bounds {
        value["bounds"] = json!([from, to]);
    }
    value
}

fn mark(mark: &Mark) -> Value {
    match mark {
        Mark::AtX { x, label } => json!({ "x": x, "label": printable(label) }),
        Mark::SpanX { from, to, label } => json!({ "from": from, "to": to, "label": printable(label) }),
        Mark::AtY { y, label } => json!({ "y": y, "label": printable(label) }),
    }
}

fn series(series: &Series) -> Value {
    let mut value = Map::new();
    value.insert("name".into(), printable(&series.name).into());
    value.insert("role".into(), role_name(series.role).into());
    let Series { x, y, z, low, high, .. } = series;
    for (name, numbers) in [("x", x), ("y", y), ("z", z), ("low", low), ("high", high)] {
        assert!(numbers.is_empty() || numbers.len() == x.len(), "the lengths of {name} and x differ");
        if !numbers.is_empty() || name == "x" || name == "y" {
            value.insert(name.into(), pack(numbers));
        }
    }
    value.into()
}

/// Packs numbers as 32-bit floats, which have seven digits: more than a chart shows.
fn pack(numbers: &[f64]) -> Value {
    if numbers.len() <= PACKED_FROM {
        // JSON has no "not a number", so serde_json writes null, which the script converts back.
        return json!(numbers);
    }
    let bytes: Vec<u8> = numbers.iter().flat_map(|&number| (number as f32).to_le_bytes()).collect();
    json!({ "f32": STANDARD.encode(bytes) })
}

fn role_name(role: Role) -> String {
    match role {
        Role::Read => "read".into(),
        Role::Readahead => "readahead".into(),
        Role::WriteAsync => "write-async".into(),
        Role::Write => "write".into(),
        Role::Flush => "flush".into(),
        Role::Discard => "discard".into(),
        Role::All => "all".into(),
        Role::Rest => "rest".into(),
        Role::Before => "before".into(),
        Role::After => "after".into(),
        // The style sheet has eight colours for categories.
        Role::Category(at) => format!("c{}", at % 8),
    }
}
