//! Prints a shipped profile with its fitted numbers solved for again.

use std::process::ExitCode;

use fonio_sim::fit::fit;
use fonio_sim::profile::Profile;
use fonio_sim::published::targets;

fn main() -> ExitCode {
    let Some(profile) = std::env::args().nth(1).and_then(|name| Profile::shipped(&name)) else {
        eprintln!("usage: refit NAME, the name of a shipped profile");
        return ExitCode::from(2);
    };
    match fit(&profile, &targets(profile.name())) {
        Ok((fitted, met)) => {
            for met in met {
                eprintln!("{}: wanted {}, gives {:.4}", met.to, met.wanted, met.given);
            }
            print!("{}", fitted.to_toml());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
