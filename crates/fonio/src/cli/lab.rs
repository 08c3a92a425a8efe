//! The command line of `fonio lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fonio_core::quantity::parse_bytes;
use fonio_lab::{Architecture, Forward, Wanted};

/// `fonio lab`.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// List the newest Debian kernel of each series, and mark those that are on this machine.
    ///
    /// Example: fonio lab list
    List {
        /// Print everything, not only the most important lines.
        ///
        /// Lists every kernel, not only the newest of each series.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        ///
        /// docs/lab.md describes the JSON.
        #[arg(long)]
        json: bool,
    },
    /// Download kernels and guest programs, so that guests start without a network.
    ///
    /// Nothing is installed.
    ///
    /// Example: fonio lab fetch 6.12
    Fetch {
        /// The kernels: 6.12, 6.12.117, newest.
        #[arg(value_name = "KERNEL", default_value = "lab")]
        kernels: Vec<Wanted>,
    },
    /// Start a shell in a guest, on this terminal.
    ///
    /// `exit` ends the guest; with --system, `poweroff` ends it.
    ///
    /// Example: fonio lab shell 6.12
    Shell {
        /// The kernel: 6.12, 6.12.117, newest.
        #[arg(value_name = "KERNEL", default_value = "lab")]
        kernel: Wanted,
        #[command(flatten)]
        kind: Kind,
    },
    /// Run a command in a guest.
    ///
    /// Prints the command's output, exits with its exit code, and removes the guest. Without --system, the
    /// guest has fonio, every file system that fonio can make, and a few programs. Files named on the command
    /// line are available in the guest too, in the same directory. With --system, the command runs in /root.
    ///
    /// Example: fonio lab run --system 6.1 -- systemctl status
    Run {
        /// The kernel: 6.12, 6.12.117, newest.
        #[arg(value_name = "KERNEL", default_value = "lab")]
        kernel: Wanted,
        #[command(flatten)]
        kind: Kind,
        /// Copy these files and directories to the command's working directory.
        ///
        /// The files keep their paths in the guest; with --system, only files are copied, to /root. Separate
        /// several paths by commas.
        #[arg(long, value_name = "PATH", value_delimiter = ',')]
        copy: Vec<PathBuf>,
        /// Copy these files and directories back if they exist when the command ends. Separate several paths
        /// by commas.
        #[arg(long, value_name = "PATH", value_delimiter = ',', conflicts_with = "system")]
        bring: Vec<PathBuf>,
        /// Print JSON.
        ///
        /// Prints the exit code, the times and the command's output; docs/lab.md describes the JSON.
        #[arg(long)]
        json: bool,
        /// The command and its arguments.
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<String>,
    },
}

/// The kind of guest.
#[derive(Debug, Args)]
pub struct Kind {
    /// Start a complete Debian with systemd on a disk. Without this option, a guest is a shell with a few
    /// programs in memory.
    #[arg(long)]
    pub system: bool,
    /// The architecture of the guest: amd64, arm64 or armhf.
    #[arg(long, value_name = "ARCHITECTURE", default_value = "amd64", requires = "system")]
    pub arch: Architecture,
    /// Install these Debian packages in the guest, separated by commas: podman,fio.
    #[arg(long, value_name = "PACKAGES", value_delimiter = ',', requires = "system")]
    pub packages: Vec<String>,
    /// Give the guest a disk that an NBD server on this machine serves at this Unix socket. Repeatable.
    ///
    /// `fonio device emulate sd_a1 --nbd SOCKET` starts a server. In the guest, the disk is /dev/sda; its
    /// content outlives the guest.
    #[arg(long, value_name = "SOCKET", requires = "system")]
    pub disk: Vec<PathBuf>,
    /// Let programs on this machine connect to a TCP port of the guest. Repeatable.
    ///
    /// `--forward 25555:5555` leads from 127.0.0.1:25555 to the guest's port 5555. The guest itself cannot
    /// connect to anything.
    #[arg(long, value_name = "PORT:PORT", requires = "system")]
    pub forward: Vec<Forward>,
    /// Limit the memory to this size, such as 512MiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, requires = "system", default_value = "1GiB")]
    pub memory: u64,
}
