//! `cargo xtask kernel`: builds and tests the SmartIO module (`kernel/smartio`) on Debian's kernels.

mod guest;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use crate::smartio::Built;
use crate::{process, smartio, tools};

/// The kernels for which the module is built, by their names in `fonio lab`.
const KERNELS: [&str; 3] = ["6.1", "6.12", "newest"];

/// The options of `cargo xtask kernel`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Build the module (root).
    Build {
        /// Build the module for these Debian kernels.
        #[arg(value_parser = KERNELS, default_values = KERNELS)]
        kernels: Vec<String>,
        /// Build the module for Debian's arm64 instead, with a cross compiler.
        #[arg(long)]
        arm64: bool,
    },
    /// Build the module and test it in guests: under load, with reloads and with device removal.
    ///
    /// Needs root. Takes ten minutes for each kernel on two processors.
    Test {
        /// Test the module on these Debian kernels.
        #[arg(value_parser = KERNELS, default_values = KERNELS)]
        kernels: Vec<String>,
        /// Number of times that the module is removed and loaded.
        #[arg(long, value_name = "N", default_value_t = 100)]
        rounds: u32,
        /// Duration of each load.
        #[arg(long, value_name = "N", default_value_t = 10)]
        seconds: u32,
        /// Number of requests in the mixed load.
        #[arg(long, value_name = "N", default_value_t = 0)]
        requests: u32,
        /// Test the module on Debian's arm64 instead: fewer checks, because the guest has only busybox.
        #[arg(long, conflicts_with_all = ["seconds", "requests"])]
        arm64: bool,
    },
}

/// Builds the SmartIO module, and tests it if requested.
pub fn run(Arguments { action }: Arguments) -> Result<()> {
    tools::ensure(&[tools::KERNEL])?;
    process::outlive_signals()?;
    let mut broken = Vec::new();
    match action {
        Action::Build { kernels, arm64: true } => {
            for name in kernels {
                let built = smartio::module_for_arm64(&name)?;
                println!("Linux {}: {}", built.files.release, built.module.display());
            }
        }
        Action::Build { kernels, arm64: false } => {
            for name in kernels {
                let built = smartio::module(&name)?;
                println!("Linux {}: {}", built.files.release, built.module.display());
            }
        }
        Action::Test { kernels, rounds, arm64: true, .. } => {
            for name in kernels {
                let Built { files, module, .. } = smartio::module_for_arm64(&name)?;
                let release = files.release.clone();
                if !guest::test_on_arm64(&release, files, &module, rounds)? {
                    broken.push(release);
                }
            }
        }
        Action::Test { kernels, rounds, seconds, requests, arm64: false } => {
            for name in kernels {
                let built = smartio::module(&name)?;
                if !guest::test(&built, rounds, seconds, requests)? {
                    broken.push(built.files.release);
                }
            }
        }
    }
    if broken.is_empty() { Ok(()) } else { bail!("SmartIO failed on Linux {}", broken.join(", ")) }
}
