//! `cargo xtask kernel`: the SmartIO module (`kernel/smartio`), built and tested on Debian's kernels.

#[cfg(feature = "results")]
pub mod applications;
#[cfg(feature = "results")]
pub mod bench;
mod build;
mod decisions;
#[cfg(test)]
mod deep;
#[cfg(test)]
mod equal;
mod guest;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod shares;
#[cfg(test)]
mod turns;

use std::path::PathBuf;

use anyhow::{Result, bail};
#[cfg(feature = "results")]
use sha2::{Digest, Sha256};

use crate::{process, tools};

/// A short name of some content.
#[cfg(feature = "results")]
fn short(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

/// Least, median and most.
#[cfg(feature = "results")]
fn points(values: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some([sorted[0], f64::midpoint(sorted[last / 2], sorted[sorted.len() / 2]), sorted[last]])
}

/// Takes `--fonio PROGRAM`, or builds fonio. Guests need no particular build of it.
fn fonio(arguments: &[String]) -> Result<PathBuf> {
    match arguments {
        [] => process::build_fonio(),
        [option, program] if option == "--fonio" => Ok(std::path::absolute(program)?),
        [word, ..] => bail!("unknown word `{word}`; the only option is --fonio PROGRAM"),
    }
}

/// The kernels that the module is built for, as the laboratory names them.
const KERNELS: [&str; 3] = ["6.1", "6.12", "newest"];

/// `cargo xtask kernel build|test [6.1] [6.12] [newest] [--rounds N] [--seconds N]
/// [--requests N]`.
pub fn run(arguments: &[String]) -> Result<()> {
    let [what, rest @ ..] = arguments else {
        bail!("write `cargo xtask kernel build`, `… test` or `… decisions`")
    };
    if what == "decisions" {
        return decisions::run(rest);
    }
    let (mut kernels, mut rounds, mut seconds, mut requests) = (Vec::new(), 100, 10, 0);
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let mut number = || -> Result<u32> {
            let value = rest.next().and_then(|value| value.parse().ok());
            value.ok_or_else(|| anyhow::anyhow!("{word} needs a number"))
        };
        match word.as_str() {
            "--rounds" if what == "test" => rounds = number()?,
            "--requests" if what == "test" => requests = number()?,
            "--seconds" if what == "test" => seconds = number()?,
            name if KERNELS.contains(&name) => kernels.push(name),
            unknown => bail!("unknown word `{unknown}`; name kernels: {}", KERNELS.join(", ")),
        }
    }
    if kernels.is_empty() {
        kernels = KERNELS.to_vec();
    }
    tools::ensure(&[tools::KERNEL])?;
    process::outlive_signals()?;
    let mut broken = Vec::new();
    for name in kernels {
        match what.as_str() {
            "build" => {
                let built = build::module(name)?;
                println!("Linux {}: {}", built.files.release, built.module.display());
            }
            "test" => {
                let built = build::module(name)?;
                if !guest::test(&built, rounds, seconds, requests)? {
                    broken.push(built.files.release);
                }
            }
            _ => bail!("there is only `cargo xtask kernel build`, `… test` and `… decisions`"),
        }
    }
    if broken.is_empty() { Ok(()) } else { bail!("SmartIO failed on Linux {}", broken.join(", ")) }
}

#[cfg(all(test, feature = "results"))]
mod tests {
    use super::points;

    #[test]
    fn points_of_values() {
        assert_eq!(points(&[3.0, 1.0, 2.0, 6.0]), Some([1.0, 2.5, 6.0]));
        assert_eq!(points(&[]), None);
    }
}
