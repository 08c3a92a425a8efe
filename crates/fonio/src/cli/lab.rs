//! The command line of `fonio lab`.

use std::path::PathBuf;

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
    /// Run a command in a guest that has fonio, every file system, and the programs that guests can have. Example: fonio lab
    /// run 6.12 -- sh compare.sh
    Run {
        /// The kernel: 6.12, 6.12.117, newest.
        #[arg(value_name = "KERNEL", default_value = "lab")]
        kernel: Wanted,
        /// Also copy these files and directories into the guest, to the same paths. Files that the command line names are
        /// copied without it.
        #[arg(long, value_name = "PATH", value_delimiter = ',')]
        with: Vec<PathBuf>,
        /// Bring these files and directories back, if they exist when the command ends.
        #[arg(long, value_name = "PATH", value_delimiter = ',')]
        bring: Vec<PathBuf>,
        /// The command. It runs in this directory; its exit code is that of fonio.
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Start a shell in a guest, on this terminal; `exit` ends the guest.
    Shell {
        /// The kernel: 6.12, 6.12.117, newest.
        #[arg(value_name = "KERNEL", default_value = "lab")]
        kernel: Wanted,
    },
}
