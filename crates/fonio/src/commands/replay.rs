//! Implements `fonio replay`, which repeats the I/O of a recording on other storage or with other settings.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fonio_experiment::{CommandOptions, Measured, Replay as Replayed, replay};
use fonio_system::say;

use crate::cli::Colour;
use crate::cli::run::Replay;
use crate::commands::run::{Refusal, Tried, run_and_publish};
use crate::commands::{lab, model};
use crate::exit::Exit;
use crate::last::{self, LAST};
use crate::output;
use crate::roles::roles;
use crate::setups::setups;
use crate::signals::begin;

/// Replays a recording in models, on devices or in folders.
pub fn run(arguments: &Replay, colour: Colour) -> Result<Exit> {
    let recording = last::resolve(&arguments.recording)?;
    if let Some(kernel) = arguments.setup.guest()? {
        ensure!(
            arguments.recording != Path::new(LAST),
            "a guest does not have the recording `{LAST}`: name its folder, {}",
            recording.display()
        );
        return lab::run_setup(kernel, &arguments.setup, None);
    }
    if arguments.setup.places().iter().any(|place| place.starts_with(model::PREFIX)) {
        return model::run(arguments, &recording, colour);
    }
    ensure!(
        arguments.change.is_empty(),
        "--change changes models: use it with --on model:PROFILE, or emulate a changed profile (`fonio device show`)"
    );
    let at = &arguments.setup;
    let stop = begin()?;
    let recording = fs::canonicalize(&recording)
        .with_context(|| format!("cannot find the recording {}", recording.display()))?;
    let sequence = replay::sequence(&recording, arguments.layer.into())?;
    tell(&sequence);
    let setups = setups(at)?;
    let fixes = arguments.fix.as_ref().map_or(&[][..], |fixes| &fixes.0);
    let arms = Tried { candidates: fixes, refusal: Refusal::Error, best: None, verbose: false }
        .arms(&setups, Measured::Replay)?;
    let roles = roles()?;
    let options = CommandOptions {
        command: &[],
        replay: Some(Replayed { recording: &recording, sequence: &sequence, fast: arguments.fast }),
        before_each: None,
        databases: None,
        library: None,
        is_shown: true,
        seed: at.seed,
        roles: &roles,
        stop: &stop,
    };
    run_and_publish(&arms, &options, at, colour)
}

fn tell(sequence: &replay::Sequence) {
    let room = output::bytes(sequence.room());
    match sequence {
        replay::Sequence::Blocks(sequence) => {
            let (accesses, threads) = (sequence.len(), sequence.threads.len());
            say!("Replaying {accesses} reads, writes and flushes of {threads} threads on {room} …");
            if sequence.left_out + sequence.of_other_devices > 0 {
                say!(
                    "left out: {} discards and other operations, {} accesses to other devices",
                    sequence.left_out,
                    sequence.of_other_devices
                );
            }
        }
        replay::Sequence::Calls(sequence) => {
            let (calls, files, threads) = (sequence.len(), sequence.files.len(), sequence.threads.len());
            say!("Replaying {calls} calls on {files} files, at most {threads} at a time, in {room} …");
            for (reason, count) in &sequence.left_out {
                let why = match reason {
                    replay::calls::LeftOut::Failed => "failed in the recording",
                    replay::calls::LeftOut::Elsewhere => {
                        "are on other file systems than most writes and syncs"
                    }
                    replay::calls::LeftOut::Unknown => "have an unknown file or offset in the recording",
                    replay::calls::LeftOut::Kind => {
                        "are of a kind that replay does not support, such as msync"
                    }
                };
                say!("left out: {count} calls that {why}");
            }
        }
    }
}
