//! Reproduces Figures 4 and 5: run times on different devices. The text of the study states by how much the
//! run times on the worst and the second-worst device exceed the run time on the best device. These
//! differences are compared. With `--on`, only the named device and the best device are measured.

use std::rc::Rc;

use anyhow::Result;
use fonio_experiment::Series;
use serde::Deserialize;

use super::measured::{Kind, Measured};
use super::published::Published;
use super::row::{Quantity, Row};
use super::runs::{At, OfRuns, Runs};
use crate::process;

const BEST: &str = "internal_2010";
/// The study's best device, a fast card, a slow card, and the study's worst device.
const FOUR: &str = "internal_2010,transcend,ridata,kingston";
const ALL: &str = "internal_2010,transcend,ridata,sandisk,kingston,wintec,adata,patriot,pny";

const TIMES: Quantity = Quantity::new("times the best", 2, 1.5, 0.0);

const WHY_SCALE: &str = "the slowdown of the slowest card depends on the address range of the writes, which is smaller at a \
     small scale";

/// The apps of Figure 5: the study's name, our name, and the scale at which a run takes half a minute on a
/// slow card. An installation has a fixed size and cannot be scaled.
const APPS: [(&str, &str, Option<&str>); 6] = [
    ("email", "email", Some("0.1")),
    ("maps", "maps", Some("0.3")),
    ("facebook", "facebook", Some("0.05")),
    ("rlbench", "rlbench", Some("0.005")),
    ("pulse", "pulse", Some("0.3")),
    ("app_install", "appinstall", None),
];

const WEBBENCH_SCALE: &str = "0.1";

/// The folder of the app with the real browser, from the root of the repository.
const BROWSER: &str = "studies/apps/webbench";

const WHY_BROWSER: &str = "the browser is fourteen years newer, and the sites are loaded from this machine";

fn on_devices(runs: &mut Runs, link: &str) -> Result<Rc<Series>> {
    let at = runs.place_for(&[]);
    on_devices_at(&at, runs, link)
}

/// Runs WebBench on the devices, on this machine or in a guest.
pub(super) fn on_devices_at(at: &At, runs: &mut Runs, link: &str) -> Result<Rc<Series>> {
    measured(at, runs, "webbench", Some(WEBBENCH_SCALE), link)
}

fn measured(at: &At, runs: &mut Runs, workload: &str, scale: Option<&str>, link: &str) -> Result<Rc<Series>> {
    let (devices, scale) = if runs.full() { (ALL, "1") } else { (FOUR, scale.unwrap_or("1")) };
    let devices = runs.devices(BEST, devices);
    runs.in_the_setup_at(at, workload, &devices, link, &["--runs", &Runs::repeat(), "--scale", scale])
}

/// Returns the rows of Figure 4.
pub(super) fn webbench(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for link in ["wifi", "usb"] {
        let name = format!("webbench_{link}");
        let spread = spread(published, &name)?;
        let series = on_devices(runs, link)?;
        rows.extend(of_spread(
            &format!("WebBench, {link}"),
            &spread,
            &times(Kind::Imitation, &series),
            &why(runs),
        ));
    }
    rows.extend(browser(published, runs)?);
    Ok(rows)
}

/// Returns the rows of a real browser, which loads its sites from this machine. The rows compare the published
/// numbers of the faster link again.
fn browser(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let spread = spread(published, "webbench_usb")?;
    let what = "Chromium, no shaped link";
    let at = runs.place_for(&[]);
    let app = format!("app:{}", process::root().join(BROWSER).display());
    let (devices, scale) = if runs.full() { (ALL, "1") } else { (FOUR, WEBBENCH_SCALE) };
    let devices = runs.devices(BEST, devices);
    let repeat = Runs::repeat();
    let setup = ["--size", "448MiB", "--fs", "ext3", "--mount-options", "data=writeback"];
    let series = runs.run_at(
        &at,
        &[&[&app, "--on", &devices], &setup[..], &["--runs", &repeat, "--scale", scale]].concat(),
    )?;
    let rows = of_spread(what, &spread, &times(Kind::RealProgram, &series), WHY_BROWSER);
    Ok(rows.into_iter().map(|row| row.of_numbers(0)).collect())
}

/// Returns the rows of Figure 5.
pub(super) fn apps(published: &Published, runs: &mut Runs) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (theirs, ours, scale) in APPS {
        if scale.is_none() && !runs.full() {
            let told = times_the_best(spread(published, theirs)?.with_worst);
            rows.push(TIMES.cannot(
                Kind::Imitation,
                ours,
                told,
                "writes 130 MB to each device: measured with --full",
            ));
            continue;
        }
        let at = runs.place_for(&[]);
        let series = measured(&at, runs, ours, scale, "wifi")?;
        rows.extend(of_spread(
            ours,
            &spread(published, theirs)?,
            &times(Kind::Imitation, &series),
            &why(runs),
        ));
    }
    Ok(rows)
}

/// Excess of the run times on the second-worst and the worst device over the best device, in percent.
#[derive(Deserialize)]
struct Spread {
    without_worst: f64,
    with_worst: f64,
}

fn spread(published: &Published, name: &str) -> Result<Spread> {
    published.at(&format!("kim.runtime_spread_percent.{name}"))
}

fn times_the_best(percent: f64) -> f64 {
    percent / 100.0 + 1.0
}

fn times(kind: Kind, series: &Series) -> Vec<(String, Measured)> {
    let mut times: Vec<(String, Measured)> =
        series.variations.iter().map(|variation| (variation.name.clone(), variation.wall_s(kind))).collect();
    // A device without a measurement comes last, and its row says that it was not measured.
    let middle = |times: &Measured| times.value().unwrap_or(f64::INFINITY);
    times.sort_by(|a, b| middle(&a.1).total_cmp(&middle(&b.1)));
    times
}

fn why(runs: &Runs) -> String {
    let processor = runs.processor_why();
    if runs.full() { processor.to_owned() } else { format!("{processor}; and {WHY_SCALE}") }
}

fn of_spread(what: &str, spread: &Spread, times: &[(String, Measured)], why: &str) -> Vec<Row> {
    let [(best, base), .., (worst, longest)] = times else { return Vec::new() };
    let shown: Vec<String> = times
        .iter()
        .map(|(device, times)| format!("{device} {:.2} s", times.value().unwrap_or(f64::NAN)))
        .collect();
    let row = |which: &str, device: &str, times: &Measured, percent: f64| {
        TIMES
            .effect(format!("{what}, {which}"), times_the_best(percent), &times.over(base), why)
            .noted(format!("{device} over {best}"))
            .because(shown.join(", "))
    };
    let second = match times {
        // With two devices, there is no second-worst device.
        [_, .., (second, times), _] => Some(row("second-worst", second, times, spread.without_worst)),
        _ => None,
    };
    second.into_iter().chain([row("worst", worst, longest, spread.with_worst)]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::standing::Verdict;
    use super::*;

    #[test]
    fn spreads_are_compared_as_ratios() {
        let times = [("a", 10.0), ("b", 11.0), ("c", 20.0), ("d", 100.0)]
            .map(|(name, s)| (name.to_owned(), Kind::Imitation.runs([s, s, s, s, s * 1.01])));
        let spread = Spread { without_worst: 100.0, with_worst: 200.0 };
        let rows = of_spread("app", &spread, &times, "");
        assert_eq!(rows[0].published(), "2 times the best");
        assert_eq!(rows[0].ours(), "2.00 times the best (2.00 to 2.00, n = 5, c over a)");
        assert_eq!(
            (rows[0].standing().verdict, rows[1].standing().verdict),
            (Verdict::Agrees, Verdict::Differs)
        );
        let two = of_spread("app", &spread, &times[2..], "");
        assert_eq!(two.iter().map(Row::what).collect::<Vec<_>>(), ["app, worst"]);
    }
}
