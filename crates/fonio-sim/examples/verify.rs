//! Prints the results of `fonio_sim::verify` for shipped profiles: the named ones, or all.

use std::process::ExitCode;

use fonio_sim::profile::{Profile, SHIPPED};
use fonio_sim::verify::verify;

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let all = SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
    for name in if named.is_empty() { all } else { named } {
        let Some(profile) = Profile::shipped(&name) else {
            eprintln!("{name}: there is no such profile");
            return ExitCode::from(2);
        };
        for check in verify(&profile).expect("a shipped profile gives a device") {
            println!(
                "{:10} {}: published {}, given {}",
                check.outcome().name(),
                check.what,
                check.published,
                check.given
            );
        }
    }
    ExitCode::SUCCESS
}
