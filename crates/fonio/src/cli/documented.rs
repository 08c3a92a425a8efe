//! Checks that the commands in the documents are valid, and that their fixes, profiles and workloads exist.
//! `docs/cli.md` contains the examples from the help texts.

use std::path::Path;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use fonio_core::ByteCount;
use fonio_testing::markdown;
use fonio_workload::app::App;
use fonio_workload::definition::Workload;

use super::fix::FixCommand;
use super::run::SetupArgs;
use super::{BenchWhat, Cli, Command, DeviceCommand};
use crate::commands::bench_target::check_profile;
use crate::commands::mount::as_mount_helper;

/// The standalone program of `fonio record`.
const RECORDER: &str = "fonio-recorder";

/// Returns why a command of a document is not valid. Parts of a command, such as `fonio report`, are valid, and so are
/// placeholders in capitals.
fn objection(words: &[String]) -> Option<String> {
    // The standalone recorder has the options of `fonio record`.
    let as_command = |words: &[String]| match words.split_first() {
        Some((program, rest)) if program == RECORDER => {
            ["fonio", "record"].into_iter().map(Into::into).chain(rest.iter().map(Into::into)).collect()
        }
        _ => words.iter().map(Into::into).collect::<Vec<std::ffi::OsString>>(),
    };
    let error = match Cli::try_parse_from(as_mount_helper(as_command(words).into_iter())) {
        Ok(parsed) => return unknown_name(&parsed),
        Err(error) => error,
    };
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => value.as_str(),
        _ => "",
    };
    let is_placeholder = is_placeholder(value);
    let is_valid = match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        | ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand => true,
        ErrorKind::InvalidValue => value.is_empty() || is_placeholder,
        ErrorKind::ValueValidation => is_placeholder,
        _ => false,
    };
    (!is_valid).then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
}

/// Whether a word is a placeholder, such as `WORKLOAD`.
fn is_placeholder(word: &str) -> bool {
    word.chars().any(char::is_uppercase) && !word.chars().any(char::is_lowercase)
}

/// Returns why a name in a command is not the name of a fix, a profile or a workload. The parser checks the
/// names of fixes.
fn unknown_name(parsed: &Cli) -> Option<String> {
    let no_name =
        |word: &&str| is_placeholder(word) || word.contains('/') || word.ends_with(".toml") || *word == ".";
    let workload = |name: &str| match Some(name).filter(|name| !no_name(name) && *name != "mobibench") {
        Some(name) => match name.strip_prefix("app:") {
            Some(app) if no_name(&app) => None,
            Some(app) => {
                let (name, script) =
                    app.split_once(':').map_or((app, None), |(name, script)| (name, Some(script)));
                match App::load(name) {
                    Ok(app) => app.script(script).err().map(|error| error.to_string()),
                    Err(error) => Some(error.to_string()),
                }
            }
            None => Workload::load(name).err().map(|error| error.to_string()),
        },
        None => None,
    };
    let place = |name: &str| {
        let members: Vec<&str> = match name.strip_prefix("md-raid0:") {
            // The size of an array member follows the @.
            Some(members) => {
                members.split('+').map(|name| name.split('@').next().unwrap_or_default()).collect()
            }
            None => vec![name.strip_prefix("model:").unwrap_or(name)],
        };
        let mut members = members.into_iter().filter(|name| !no_name(name));
        members.find_map(|name| check_profile(name, SIZE, 1).err())
    };
    let target = |path: &Path| place(path.to_str().unwrap_or_default()).map(|error| error.to_string());
    let places =
        |setup: &SetupArgs| setup.on.iter().find_map(|name| place(name)).map(|error| error.to_string());
    match parsed.command.as_ref()? {
        Command::Run(run) => {
            let names = run.workload.iter().chain(&run.work.background);
            names.map(String::as_str).find_map(workload).or_else(|| places(&run.setup))
        }
        Command::Launch(launch) => places(&launch.setup),
        Command::Replay(replay) => places(&replay.setup),
        Command::Fix(fix) => match fix.command.as_ref()? {
            FixCommand::Prove(prove)
                if !prove.words.is_empty() && !prove.words.iter().any(|word| is_placeholder(word)) =>
            {
                match prove.proof() {
                    Ok(proof) => {
                        proof.workload.as_deref().and_then(workload).or_else(|| places(&prove.setup))
                    }
                    Err(error) => Some(error.to_string()),
                }
            }
            _ => None,
        },
        Command::Device(device) => match &device.command {
            DeviceCommand::Show { profile, .. } => place(profile).map(|error| error.to_string()),
            DeviceCommand::Verify { profile, .. } => target(Path::new(profile.as_deref()?)),
            DeviceCommand::Emulate(emulate) => target(Path::new(emulate.profile.as_deref()?)),
            _ => None,
        },
        Command::Bench(what) => match what {
            BenchWhat::Device { measurement, .. }
            | BenchWhat::AddressRange(measurement)
            | BenchWhat::Concurrency { measurement, .. }
            | BenchWhat::Interference(measurement) => target(&measurement.bench.target),
            BenchWhat::Layers(layers) => target(&layers.dir),
        },
        Command::StoreBench(bench) if bench.command.is_none() => target(&bench.measure.target),
        _ => None,
    }
}

/// A size that every profile can have.
const SIZE: ByteCount = ByteCount(2 << 30);

#[test]
fn commands_in_documents_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut checked, mut wrong) = (0, Vec::new());
    for folder in [root.clone(), root.join("docs"), root.join("docs/tutorials")] {
        for entry in folder.read_dir().expect("the repository can be listed").flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("each document can be read");
            for command in markdown::commands(&text, &["fonio", RECORDER]) {
                checked += 1;
                if let Some(why) = objection(&command.words) {
                    let name = path.file_name().unwrap_or_default().display();
                    wrong.push(format!("{name}:{}: {}: {why}", command.line, command.words.join(" ")));
                }
            }
        }
    }
    assert!(checked > 100, "{checked} commands were found");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn wrong_commands_are_found() {
    let check = |line: &str| objection(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    for valid in [
        "fonio",
        "fonio report",
        "fonio check --for TIME",
        "fonio record -- ./app",
        "fonio mount stats DIR",
        "fonio run webbench --on md-raid0:ridata+kingston --fix wal-normal",
        "fonio replay RECORDING --on model:samsung_s5,/mnt/sd",
        "fonio fix prove NAMES WORKLOAD --on PLACE",
        "fonio-recorder --for 60s",
    ] {
        assert_eq!(check(valid), None, "{valid}");
    }
    for wrong in [
        "fonio explain",
        "fonio report X --htlm F",
        "fonio check --for 5",
        "fonio bench disk DIR",
        "fonio run webbench --on kingston --fix wal+normal",
        "fonio run webbensh",
        "fonio run webbench --on kingstone",
        "fonio fix prove --safe webbensh --on ridata",
        "fonio device show kingstone",
        "fonio-recorder record",
    ] {
        assert!(check(wrong).is_some(), "{wrong}");
    }
}
