//! Implements `fonio device`, which shows the device models and their accuracy.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fonio_sim::profile::{Profile, SHIPPED};
use fonio_sim::verify::{Check, Class, Outcome, Tally, verify};
use fonio_system::regular;
use serde_json::{Map, Value, json};

use crate::cli::{Colour, Device, DeviceCommand};
use crate::commands::emulate;
use crate::commands::fit;
use crate::exit::Exit;
use crate::output;
use crate::progress::{Done, Progress};

/// Maximum number of bytes of a profile. The longest shipped profile has some 10 KiB.
const PROFILE_BYTES_MAX: u64 = 1 << 20;

pub fn run(arguments: &Device, colour: Colour) -> Result<Exit> {
    let colour = output::wants_colour(colour);
    match &arguments.command {
        DeviceCommand::Fit(arguments) => fit::run(arguments),
        DeviceCommand::List { json } => list(*json),
        DeviceCommand::Show { profile, json, toml } => show(profile, *json, *toml),
        DeviceCommand::Verify { profile, json } => run_verify(profile.as_deref(), *json, colour),
        DeviceCommand::Emulate(arguments) => emulate::run(arguments),
        DeviceCommand::Serve => emulate::serve(),
    }
}

fn list(as_json: bool) -> Result<Exit> {
    if as_json {
        let profiles: Vec<Value> =
            SHIPPED.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect();
        return output::json(&json!({ "profiles": profiles }));
    }
    let mut out = output::screen();
    for (name, about) in SHIPPED {
        writeln!(out, "{name:<16} {about}")?;
    }
    writeln!(out, "\nNext: `fonio device show NAME` shows each number with its source.")?;
    Ok(Exit::Fine)
}

fn show(name: &str, as_json: bool, as_toml: bool) -> Result<Exit> {
    let profile = load(name)?;
    if as_toml {
        output::text(&profile.to_toml())?;
    } else if as_json {
        let numbers: Vec<Value> = profile
            .provenance()
            .iter()
            .map(|number| {
                json!({ "key": number.key, "value": number.value, "source": number.source.name(), "to": number.to })
            })
            .collect();
        return output::json(
            &json!({ "name": profile.name(), "about": profile.about(), "numbers": numbers }),
        );
    } else {
        let mut out = output::screen();
        writeln!(out, "{}: {}\n", profile.name(), profile.about())?;
        for number in profile.provenance() {
            let (key, value, source) = (number.key, number.value, number.source.name());
            writeln!(out, "{}", format!("{key:<32} {value:<16} {source:<10} {}", number.to).trim_end())?;
        }
    }
    Ok(Exit::Fine)
}

fn run_verify(name: Option<&str>, as_json: bool, colour: bool) -> Result<Exit> {
    let names: Vec<&str> =
        name.map_or_else(|| SHIPPED.iter().map(|(name, _)| *name).collect(), |name| vec![name]);
    let progress = Progress::phase("Comparing the models");
    let mut all = Vec::new();
    let mut unpublished = Vec::new();
    for (done, name) in names.iter().enumerate() {
        progress.set(format!("Comparing {name}"), Done::Steps(done as u64, names.len() as u64));
        let mut profile = load(name)?;
        // The file name of an edited profile says which device the profile describes.
        if let Some(stem) = Path::new(name).file_stem().and_then(|stem| stem.to_str()) {
            let about = profile.about().to_owned();
            profile.rename(stem, &about);
        }
        let checks = verify(&profile)?;
        if checks.is_empty() {
            unpublished.push(profile.name().to_owned());
        } else {
            all.push((profile, checks));
        }
    }
    drop(progress);
    let checks: Vec<&Check> = all.iter().flat_map(|(_, checks)| checks).collect();
    if as_json {
        let profiles: Vec<Value> = all
            .iter()
            .map(|(profile, checks)| {
                json!({ "name": profile.name(), "checks": checks.iter().map(check_json).collect::<Vec<_>>() })
            })
            .collect();
        let classes: Map<String, Value> = Class::ALL
            .iter()
            .map(|class| {
                let Tally { checks, within } = Tally::of(*class, checks.iter().copied());
                (class.name().to_owned(), json!({ "checks": checks, "within": within }))
            })
            .collect();
        let report = json!({ "classes": classes, "profiles": profiles, "nothing_published": unpublished });
        return output::json(&report);
    }
    let mut out = output::screen();
    write_headline(&mut out, &checks)?;
    for (profile, checks) in &all {
        writeln!(out, "\n{}: {}", profile.name(), profile.about())?;
        for class in Class::ALL {
            for check in checks.iter().filter(|check| check.origin.class() == class) {
                write_check(&mut out, check, colour)?;
            }
        }
    }
    if !unpublished.is_empty() {
        writeln!(out, "\nNo published measurements exist for: {}.", unpublished.join(", "))?;
    }
    Ok(Exit::Fine)
}

/// Writes the number of correct predictions, then the number of checks in each class.
fn write_headline(out: &mut impl Write, checks: &[&Check]) -> io::Result<()> {
    let tally = |class| Tally::of(class, checks.iter().copied());
    let Tally { checks: predicted, within } = tally(Class::Predicted);
    if predicted == 0 {
        writeln!(out, "The published numbers cannot test these models: all of them were used for the fit.")?;
    } else {
        writeln!(out, "{within} of {predicted} predictions agree with the published numbers.")?;
    }
    writeln!(out, "\n  {:<10} {:>6}  within the tolerance", "class", "checks")?;
    for class in Class::ALL {
        let Tally { checks, within } = tally(class);
        writeln!(out, "  {:<10} {checks:>6}  {within:>20}  {}", class.name(), class.meaning())?;
    }
    Ok(())
}

fn write_check(out: &mut impl Write, check: &Check, colour: bool) -> io::Result<()> {
    let outcome = check.outcome();
    let (tint, plain) = match outcome {
        _ if !colour => ("", ""),
        Outcome::Agrees => ("\x1b[32m", "\x1b[0m"),
        Outcome::Differs => ("\x1b[31m", "\x1b[0m"),
        Outcome::Fitted | Outcome::Derived => ("\x1b[2m", "\x1b[0m"),
    };
    let missed = if check.within || outcome == Outcome::Differs { "" } else { " (outside the tolerance)" };
    writeln!(out, "  {tint}{:<10}{plain} {}{missed}", outcome.name(), check.what)?;
    let ratio = check.ratio().map(|ratio| format!(" ({ratio:.2} of it)")).unwrap_or_default();
    let explained = match check.origin.explained() {
        "" => String::new(),
        text => format!("; {text}"),
    };
    writeln!(
        out,
        "             published {}; model {}{ratio}; {}{explained}",
        check.published, check.given, check.tolerance
    )
}

fn check_json(check: &Check) -> Value {
    json!({
        "what": check.what, "published": check.published, "given": check.given, "ratio": check.ratio(),
        "class": check.origin.class().name(), "reason": check.origin.reason(), "outcome": check.outcome().name(),
        "within": check.within, "tolerance": check.tolerance,
    })
}

/// Loads a shipped device profile by its name, or a device profile from a file.
fn load(name: &str) -> Result<Profile> {
    if let Some(profile) = Profile::shipped(name) {
        return Ok(profile);
    }
    if !name.ends_with(".toml") {
        let nearest = fonio_core::nearest(name, SHIPPED.iter().map(|(name, _)| *name));
        bail!(
            "`{name}` is neither a profile nor a file ending in .toml{nearest}; `fonio device list` lists them"
        );
    }
    let text = regular::read_text(Path::new(name), PROFILE_BYTES_MAX)
        .with_context(|| format!("{name} cannot be read"))?;
    Ok(Profile::parse(name, &text)?)
}
