//! `fonio storebench`.

mod compare;
mod run;
mod show;
mod submit;

use anyhow::Result;

use crate::cli::Colour;
use crate::cli::storebench::{StoreBench, StoreBenchCommand};
use crate::exit::Exit;

pub fn run(arguments: &StoreBench, colour: Colour) -> Result<Exit> {
    match &arguments.command {
        None => run::run(&arguments.measure, colour),
        Some(StoreBenchCommand::Show { file, server, all, output }) => {
            show::run(file, server.as_deref(), *all, output, colour)
        }
        Some(StoreBenchCommand::Compare { first, second, across_keys, output }) => {
            compare::run([first, second], *across_keys, output, colour)
        }
        Some(StoreBenchCommand::Submit { server, yes, file }) => submit::submit(server, *yes, file),
        Some(StoreBenchCommand::Delete { server, token, id }) => submit::delete(server, token.as_deref(), id),
    }
}
