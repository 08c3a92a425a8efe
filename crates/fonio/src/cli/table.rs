//! Generates `docs/cli.md` from the parser, and checks that each word has one meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::{Arg, Args, Command, CommandFactory};
use expect_test::expect_file;

use super::{Cli, EMULATED, EmulatedTarget, FILTERS, FilterArgs, READING, Reading};

/// The parser, as clap runs it.
fn parser() -> Command {
    let mut parser = Cli::command();
    parser.build();
    parser
}

/// Calls `visit` for each verb with its full name, the parents first.
fn walk<'c>(command: &'c Command, name: &str, visit: &mut dyn FnMut(&str, &'c Command)) {
    visit(name, command);
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        walk(sub, &format!("{name} {}", sub.get_name()), visit);
    }
}

/// The options of a verb, without the options that all verbs have.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_of_each = |arg: &Arg| arg.is_global_set() || ["help", "version"].contains(&arg.get_id().as_str());
    command.get_arguments().filter(move |arg| !arg.is_positional() && !is_of_each(arg))
}

/// The meaning of an argument: the first paragraph of its help.
fn meaning(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// Its names: `-o, --output`.
fn names(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    short.into_iter().chain(long).collect::<Vec<_>>().join(", ")
}

/// The name of its value, such as `DEVICE`; empty for a flag.
fn value(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return String::new();
    }
    let names = arg.get_value_names().unwrap_or_default();
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_word_has_one_meaning_and_a_meaning_has_one_word() {
    let mut meanings: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let mut words: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let parser = parser();
    walk(&parser, "fonio", &mut |verb, command| {
        for arg in options(command) {
            let means = format!("{} | {}", value(arg), meaning(arg));
            let of_arg = arg.get_short().map(|short| format!("-{short}"));
            for word in of_arg.into_iter().chain(arg.get_long().map(|long| format!("--{long}"))) {
                meanings.entry(word).or_default().entry(means.clone()).or_default().push(verb.to_owned());
            }
            // mount(8) defines the options of its helper.
            if !arg.is_hide_set() {
                words.entry(meaning(arg)).or_default().insert(names(arg));
            }
            assert!(arg.get_all_aliases().is_none_or(|aliases| aliases.is_empty()), "{verb} {}", names(arg));
        }
    });
    meanings.retain(|_, of_word| of_word.len() > 1);
    assert!(meanings.is_empty(), "words with several meanings: {meanings:#?}");
    words.retain(|_, of_meaning| of_meaning.len() > 1);
    assert!(words.is_empty(), "meanings with several words: {words:#?}");
}

#[test]
fn a_heading_has_only_its_own_options() {
    let ids = |command: Command| -> Vec<String> {
        command.get_arguments().map(|arg| arg.get_id().to_string()).collect()
    };
    let none = || Command::new("none");
    let mut own: BTreeMap<&str, Vec<String>> = BTreeMap::from([
        (FILTERS, ids(FilterArgs::augment_args(none()))),
        (READING, ids(Reading::augment_args(none()))),
        (EMULATED, ids(EmulatedTarget::augment_args(none()))),
        (fonio_recorder::REDACTION, ids(super::Redact::augment_args(none()))),
    ]);
    own.entry(EMULATED).or_default().push("filesystem".to_owned());
    let parser = parser();
    walk(&parser, "fonio", &mut |verb, command| {
        for arg in command.get_arguments() {
            if let Some(heading) = arg.get_help_heading() {
                let own =
                    own.get(heading).unwrap_or_else(|| panic!("{verb}: {heading} is not declared here"));
                assert!(own.contains(&arg.get_id().to_string()), "{verb}: {} is below {heading}", names(arg));
            }
        }
    });
}

#[test]
fn every_verb_says_what_it_does_in_a_sentence() {
    let parser = parser();
    walk(&parser, "fonio", &mut |verb, command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && !about.contains("Example:"), "{verb}: {about}");
        let is_leaf = !command.has_subcommands() && !command.is_hide_set() && !verb.contains("role");
        let text = format!(
            "{}{}",
            command.get_long_about().map(ToString::to_string).unwrap_or_default(),
            command.get_after_help().map(ToString::to_string).unwrap_or_default()
        );
        let has_example = text.contains("Example") || text.contains(&format!("fonio {verb}"));
        let needs_none = [
            "fonio folder",
            "fonio watch",
            "fonio sync-policy boot",
            "fonio sync-policy stop",
            "fonio device serve",
        ];
        if is_leaf && !needs_none.iter().any(|without| verb.starts_with(without)) {
            assert!(has_example, "{verb} has no example");
        }
    });
}

/// Converts a help text to Markdown, with examples as code.
fn paragraphs(text: &str) -> String {
    let of_one = |paragraph: &str| match paragraph.strip_prefix("Example: ") {
        Some(command) => format!("Example: `{command}`"),
        None => paragraph.to_owned(),
    };
    text.split("\n\n").map(|paragraph| of_one(paragraph.trim())).collect::<Vec<_>>().join("\n\n")
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace("\n\n", " ").replace('\n', " ").replace('|', "\\|").trim().to_owned()
}

/// The complete help of an argument, with its default and possible values.
fn told(arg: &Arg) -> String {
    let mut text = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    if !text.ends_with(['.', '!', '?', ')', ']']) {
        text.push('.');
    }
    let values: Vec<String> =
        arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        let _ = write!(text, " One of {}.", values.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let _ = write!(text, " Default: `{}`.", defaults.join(","));
    }
    cell(&text)
}

fn document() -> String {
    let parser = parser();
    let mut verbs = String::new();
    let mut words: BTreeMap<String, (String, String, Vec<String>)> = BTreeMap::new();
    walk(&parser, "fonio", &mut |verb, command| {
        let hidden = ["fonio role", "fonio folder", "fonio device serve"];
        if hidden.iter().any(|hidden| verb.starts_with(hidden)) {
            return;
        }
        for arg in options(command).filter(|arg| !arg.is_hide_set()) {
            let of_word = words.entry(names(arg)).or_insert_with(|| (value(arg), meaning(arg), Vec::new()));
            of_word.2.push(verb.strip_prefix("fonio ").unwrap_or("fonio").to_owned());
        }
        verb_of(verb, command, &mut verbs);
    });
    let mut rows: Vec<_> = words.into_iter().collect();
    rows.sort_by_key(|(names, _)| {
        names.trim_start_matches(|c| c != '-').replace("-o, ", "").replace("-f, ", "")
    });
    let mut text = "# The command line\n\n\
        This page is generated from the parser (`UPDATE_EXPECT=1 cargo test -p fonio cli::table`). An option has the same meaning \
        in every command; a test compares the parser with the table below. Every command also accepts `--color`, `--help` \
        and `--version`.\n\n\
        ## Words\n\n| option | value | meaning | verbs |\n|---|---|---|---|\n"
        .to_owned();
    for (names, (value, meaning, verbs)) in rows {
        let value = if value.is_empty() { String::new() } else { format!("`{value}`") };
        let _ = writeln!(text, "| `{names}` | {value} | {} | {} |", cell(&meaning), verbs.join(", "));
    }
    text + "\n## Verbs\n" + &verbs
}

/// Writes the section of a verb.
fn verb_of(verb: &str, command: &Command, text: &mut String) {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "\n### {verb}\n\n{}", paragraphs(&about));
    if command.has_subcommands()
        && command.get_arguments().all(|arg| arg.is_global_set() || arg.get_id() == "help")
    {
        return;
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines().map(str::trim).filter(|line| !line.is_empty());
    let _ =
        writeln!(text, "\n{}", usage.map(|line| format!("    usage: {line}")).collect::<Vec<_>>().join("\n"));
    let positional = command.get_positionals().filter(|arg| !arg.is_hide_set());
    let mut arguments: Vec<(String, String)> = Vec::new();
    for arg in positional {
        let dashes = if arg.is_last_set() { "-- " } else { "" };
        arguments.push((format!("{dashes}{}", value(arg)), told(arg)));
    }
    for arg in options(command).filter(|arg| !arg.is_hide_set()) {
        arguments.push((format!("{} {}", names(arg), value(arg)).trim().to_owned(), told(arg)));
    }
    if !arguments.is_empty() {
        let _ = writeln!(text, "\n| argument | meaning |\n|---|---|");
        for (name, told) in arguments {
            let _ = writeln!(text, "| `{}` | {told} |", name.replace('|', "\\|"));
        }
    }
    if let Some(after) = command.get_after_help() {
        let after = after.to_string();
        let _ = writeln!(text, "\n```text\n{}\n```", after.trim_end());
    }
}

/// `UPDATE_EXPECT=1 cargo test` regenerates the document.
#[test]
fn the_document_is_the_command_line() {
    expect_file!["../../../../docs/cli.md"].assert_eq(&document());
}
