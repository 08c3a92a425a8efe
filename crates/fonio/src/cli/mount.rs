//! The command line of `fonio mount`.

use std::path::PathBuf;

use clap::Args;

/// `fonio mount`.
#[derive(Debug, Args)]
#[command(
    override_usage = "fonio mount [OPTIONS] SOURCE DIR\n       fonio mount stats DIR [--json]",
    after_help = "Options of --mount-options, separated by commas:\n  \
    mode=auto         the default: passthrough if possible, else writeback; fonio prints which\n  \
    mode=stock        requests of 4 KiB, as phones had in 2012: the study's baseline\n  \
    mode=extended     io_unit=512K: larger requests, not buffered\n  \
    mode=buffered     the study's buffer: buffer=8M entry=2M flush=10ms thread=yes\n  \
    mode=writeback    the kernel's write-back cache\n  \
    mode=passthrough  the kernel reads and writes the files of SOURCE itself (Linux 6.9, root)\n  \
    write_behind=no   do not start the write-back of long passed-through streams early\n  \
    io_unit=SIZE      largest request, 4K to 1M\n  \
    timeout=TIME      how long the kernel caches names and attributes, 1s\n  \
    threads=N         largest number of requests served at the same time, 8\n  \
    files=N           largest number of file descriptors\n  \
    file_handles=no   when descriptors become scarce, let the kernel forget inodes instead of holding file handles\n  \
    io_uring=auto     requests through io_uring if possible (Linux 6.14): operations on names are several times faster\n  \
    btime             report birth times, at the cost of one more request per file\n  \
    prometheus=ADDR   serve Prometheus at this address, such as 127.0.0.1:9464\n  \
    default_permissions  the kernel checks permissions even if only one user has access\n  \
    allow_other noallow_other ro nosuid nodev noexec noatime fsname=NAME, and options of fstab for mount(8)\n\n\
    In fstab, with /sbin/mount.fuse.fonio as a link to fonio:  /data/media  /mnt/sdcard  fuse.fonio  mode=auto  0 0\n\
    Unmount with umount; users with fusermount3 -u. For a source with the name stats, write ./stats."
)]
pub struct Mount {
    /// The directory to mount, or `stats`.
    pub source: PathBuf,
    /// The mount point.
    pub dir: PathBuf,
    /// Mount with these options, separated by commas.
    ///
    /// The options are listed below.
    #[arg(long = "mount-options", value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Stay in the foreground; Ctrl-C unmounts.
    #[arg(short, long)]
    pub foreground: bool,
    /// Print JSON.
    ///
    /// Prints the statistics.
    #[arg(long)]
    pub json: bool,
    /// Accepted from mount(8) and ignored.
    #[arg(short = 'n', hide = true)]
    pub no_mtab: bool,
    /// Print more.
    ///
    /// Prints the mount if mount(8) started fonio.
    #[arg(short = 'v', hide = true)]
    pub verbose: bool,
    /// Accepted from mount(8) and ignored.
    #[arg(short = 's', hide = true)]
    pub sloppy: bool,
    /// Accepted from mount(8) and ignored.
    #[arg(short = 't', hide = true)]
    pub kind: Option<String>,
    /// mount(8) has started this process.
    #[arg(long, hide = true)]
    pub as_helper: bool,
    /// Run as the background process of `fonio mount`.
    #[arg(long, hide = true)]
    pub daemon: bool,
}
