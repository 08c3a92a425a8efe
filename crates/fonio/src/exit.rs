//! Re-exports the exit codes of `fonio_recorder::exit`, and determines whether the user gave a command.

use std::ffi::OsString;

pub use fonio_recorder::exit::{Exit, NotShown, end, table, usage};

/// Returns whether the command line contains a command of the user after `--`, and whether the verb runs this
/// command.
pub fn has_command(verbs: &clap::Command, words: &[OsString]) -> bool {
    let Some(at) = words.iter().position(|word| word == "--") else { return false };
    let mut verb = verbs;
    for word in &words[1..at] {
        verb = word.to_str().and_then(|word| verb.find_subcommand(word)).unwrap_or(verb);
    }
    at + 1 < words.len() && verb.get_arguments().any(is_command)
}

fn is_command(argument: &clap::Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    argument.is_last_set() && names.iter().any(|name| name == "CMD")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn the_words_show_whether_there_is_a_command() {
        for (words, expected) in [
            ("fonio record -- true", true),
            ("fonio record --no-such-option -- true", true),
            ("fonio lab run 6.12 -- true", true),
            ("fonio device emulate kingston -- true", true),
            ("fonio launch --on . -- true", true),
            ("fonio fix prove bfq --on . -- true", true),
            ("fonio fix prove bfq webbench --on .", false),
            ("fonio record --", false),
            ("fonio record", false),
            ("fonio report -- x", false),
            ("fonio run mobibench -- -f 1024", false),
        ] {
            let split: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            assert_eq!(has_command(&Cli::command(), &split), expected, "{words}");
        }
    }
}
