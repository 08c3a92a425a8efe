//! The command line of `fonio lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fonio_core::quantity::parse_bytes;
use fonio_lab::{Architecture, Wanted};

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
    /// Start a shell in a guest, on this terminal. `exit` ends the guest; with --system, `poweroff` does.
    Shell {
        /// The kernel: 6.12, 6.12.117, newest.
        #[arg(value_name = "KERNEL", default_value = "lab")]
        kernel: Wanted,
        /// The kind of guest.
        #[command(flatten)]
        kind: Kind,
    },
    /// Run a command in a guest. Example: fonio lab run --system 6.1 -- systemctl status
    ///
    /// The command's output and exit code are passed on. Afterwards, the guest is removed. Without --system, the guest has
    /// fonio, every file system that fonio can make, and a few programs; files that the command line names are there, in the
    /// same directory. With --system, the command runs in /root.
    Run {
        /// The kernel: 6.12, 6.12.117, newest.
        #[arg(value_name = "KERNEL", default_value = "lab")]
        kernel: Wanted,
        /// The kind of guest.
        #[command(flatten)]
        kind: Kind,
        /// Also copy these files and directories into the guest, to the same paths; with --system, files, to /root. Separate
        /// several by commas.
        #[arg(long, value_name = "PATH", value_delimiter = ',')]
        put: Vec<PathBuf>,
        /// Bring these files and directories back, if they exist when the command ends. Separate several by commas.
        #[arg(long, value_name = "PATH", value_delimiter = ',', conflicts_with = "system")]
        bring: Vec<PathBuf>,
        /// Print JSON, described in docs/lab.md: the exit code, times, and the output of the command.
        #[arg(long)]
        json: bool,
        /// The command and its arguments.
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
}

/// The kind of guest.
#[derive(Debug, Args)]
pub struct Kind {
    /// Start a whole Debian with systemd on a disk, instead of a shell with a few programs in memory.
    #[arg(long)]
    pub system: bool,
    /// The architecture of the guest: amd64, arm64 or armhf.
    #[arg(long, value_name = "ARCHITECTURE", default_value = "amd64", requires = "system")]
    pub arch: Architecture,
    /// Debian packages that the guest has, besides a small base system. Example: --with podman,fio
    #[arg(long, value_name = "PACKAGES", value_delimiter = ',', requires = "system")]
    pub with: Vec<String>,
    /// Give the guest a disk that an NBD server on this machine serves at this Unix socket, such as `fonio device emulate sd_a1
    /// --nbd SOCKET`. It is /dev/sda there, and keeps its content when the guest is gone. Repeatable.
    #[arg(long, value_name = "SOCKET", requires = "system")]
    pub nbd: Vec<PathBuf>,
    /// The guest's memory.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "system", default_value = "1GiB")]
    pub memory: u64,
}
