//! Checks that the commands in the documents are valid.

use std::path::Path;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use fonio_testing::markdown;

use super::Cli;
use crate::commands::mount::as_mount_helper;

/// The program that is `fonio record` alone.
const RECORDER: &str = "fonio-recorder";

/// Returns why a command of a document is not valid. Parts of a command, such as `fonio report`, are valid, and so are
/// placeholders in capitals.
fn objection(words: &[String]) -> Option<String> {
    // The recorder alone takes what `fonio record` takes.
    let as_command = |words: &[String]| match words.split_first() {
        Some((program, rest)) if program == RECORDER => {
            ["fonio", "record"].into_iter().map(Into::into).chain(rest.iter().map(Into::into)).collect()
        }
        _ => words.iter().map(Into::into).collect::<Vec<std::ffi::OsString>>(),
    };
    let error = Cli::try_parse_from(as_mount_helper(as_command(words).into_iter())).err()?;
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => value.as_str(),
        _ => "",
    };
    let is_placeholder = value.chars().any(char::is_uppercase) && !value.chars().any(char::is_lowercase);
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

#[test]
fn commands_in_documents_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut checked, mut wrong) = (0, Vec::new());
    for folder in [root.clone(), root.join("docs")] {
        for entry in folder.read_dir().expect("the repository can be listed").flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a document can be read");
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
        "fonio-recorder --for 60s",
    ] {
        assert_eq!(check(valid), None, "{valid}");
    }
    for wrong in [
        "fonio explain",
        "fonio report X --htlm F",
        "fonio check --for 5",
        "fonio bench disk DIR",
        "fonio-recorder record",
    ] {
        assert!(check(wrong).is_some(), "{wrong}");
    }
}
