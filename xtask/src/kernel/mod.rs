//! `cargo xtask kernel`: the SmartIO module (`kernel/smartio`), built and tested on Debian's kernels.

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

use anyhow::{Result, bail};

use crate::{process, smartio, tools};

/// The kernels that the module is built for, as the laboratory names them.
const KERNELS: [&str; 3] = ["6.1", "6.12", "newest"];

/// `cargo xtask kernel build|test [6.1] [6.12] [newest] [--rounds N] [--seconds N]
/// [--requests N]`.
pub fn run(arguments: &[String]) -> Result<()> {
    let [what, rest @ ..] = arguments else { bail!("write `cargo xtask kernel build` or `… test`") };
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
                let built = smartio::module(name)?;
                println!("Linux {}: {}", built.files.release, built.module.display());
            }
            "test" => {
                let built = smartio::module(name)?;
                if !guest::test(&built, rounds, seconds, requests)? {
                    broken.push(built.files.release);
                }
            }
            _ => bail!("there is only `cargo xtask kernel build` and `… test`"),
        }
    }
    if broken.is_empty() { Ok(()) } else { bail!("SmartIO failed on Linux {}", broken.join(", ")) }
}
