//! The command line of `fonio lab`.

use clap::Subcommand;
use fonio_lab::Wanted;

/// `fonio lab`.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// List Debian's kernels, the newest of each series, and which of them are on this machine.
    List {
        /// List every kernel, not only the newest of each series.
        #[arg(long)]
        all: bool,
        /// Print JSON, described in docs/lab.md.
        #[arg(long)]
        json: bool,
    },
    /// Download kernels, and the programs of guests, so that guests start without a network. Nothing is installed.
    Fetch {
        /// The kernels: 6.12, 6.12.117, newest.
        #[arg(value_name = "KERNEL", default_value = "lab")]
        kernels: Vec<Wanted>,
    },
    /// Start a shell in a guest, on this terminal; `exit` ends the guest.
    Shell {
        /// The kernel: 6.12, 6.12.117, newest.
        #[arg(value_name = "KERNEL", default_value = "lab")]
        kernel: Wanted,
    },
}
