//! `fonio launch`: measures the time of a command and the causes of its waits.

use std::io::Write;

use anyhow::{Result, bail, ensure};
use fonio_experiment::{
    Arm, CacheState, LaunchFigures, LaunchOptions, Rounds, Storage, launch_document, launch_series,
};

use crate::cli::run::{Launch, Runs};
use crate::cli::{Colour, Place};
use crate::commands::{android, kernel, lab};
use crate::exit::Exit;
use crate::output;
use crate::progress::Estimate;
use crate::results::{RESULTS, page, results_directory, summarise};
use crate::roles::roles;
use crate::setups::setups;
use crate::signals::begin;

pub fn run(arguments: &Launch, colour: Colour) -> Result<Exit> {
    let at = &arguments.setup;
    if let Some(Place::Phone(phone)) = &at.place {
        return android::launch::run(phone, arguments);
    }
    ensure!(
        arguments.start.is_none(),
        "--start is for the apps of a phone: add --in android, or leave it out"
    );
    if let Some(kernel) = at.guest()? {
        return lab::run_setup(kernel, at, None);
    }
    let stop = begin()?;
    let mut places = Vec::new();
    for (name, setup) in setups(at)? {
        if let (Storage::Directory(place), false) = (&setup.storage, arguments.copy.is_empty()) {
            bail!(
                "--copy copies files to a device that fonio formats; {} is a directory: copy the files there yourself",
                place.display()
            );
        }
        let compared_with = (!places.is_empty()).then_some(0);
        places.push(Arm { name, compared_with, setup });
    }
    let made = places.iter().try_for_each(|place| place.setup.check_kernel());
    made.map_err(|error| kernel::explain(error, places.iter().map(|place| &place.setup)))?;
    let roles = roles()?;
    let options = LaunchOptions {
        command: &arguments.command,
        cache: if arguments.warmup.is_some() { CacheState::Warm } else { CacheState::Cold },
        warmup: arguments.warmup.unwrap_or(1),
        until_idle: arguments.until_idle,
        copy: &arguments.copy,
        show_output: arguments.show_output,
        seed: at.seed,
        roles: &roles,
        stop: &stop,
    };
    let Runs::Number(runs) = at.runs.unwrap_or_default() else {
        bail!("--runs auto needs a workload; give a number, such as --runs 10")
    };
    let mut estimate = Estimate::new();
    let out = results_directory(at.out.as_deref(), RESULTS)?;
    let (series, first) = launch_series(&places, Rounds::Fixed(runs), &options, &out, &mut |measurement| {
        estimate.announce(measurement, &format!("launch on {}", measurement.name));
    })?;
    let text = summarise(&series, &out)?;
    let page = page(at, &out);
    // The result is shown first: the page may not fit on the disk.
    if at.json {
        output::json_text(text.as_bytes())?;
    } else {
        output::show_on_terminal(&launch_document(&series, None), colour)?;
    }
    output::write_html(&launch_document(&series, Some(first.document())), Some(&page))?;
    if !at.json {
        writeln!(output::screen(), "\nFull report with charts: {}", page.display())?;
    }
    let runs = || series.places.iter().flat_map(|place| &place.runs);
    let valid = if runs().all(|run| run.valid) { Exit::Fine } else { Exit::NotValid };
    Ok(valid.worse(Exit::of_command(runs().find_map(LaunchFigures::failure))))
}
