//! What can be said to `fonio mount`.

use std::path::PathBuf;

use clap::Args;

/// `fonio mount`.
#[derive(Debug, Args)]
#[command(
    override_usage = "fonio mount [OPTIONS] SOURCE DIR\n       fonio mount stats DIR [--json]",
    after_help = "Options after -o, separated by commas:\n  \
    mode=auto         the best for each file, the default: passthrough, else writeback (says which)\n  \
    mode=stock        requests of 4 KiB, as phones had in 2012: the study's baseline\n  \
    mode=extended     io_unit=512K: larger requests, written through\n  \
    mode=buffered     the study's buffer: buffer=8M entry=2M flush=10ms thread=yes\n  \
    mode=writeback    the kernel's write-back cache\n  \
    mode=passthrough  the kernel reads and writes the files below itself (Linux 6.9, root)\n  \
    write_behind=no   leaves long streams that are passed through to the kernel's own write-back\n  \
    io_unit=SIZE      the most bytes of one request, 4K to 1M\n  \
    timeout=TIME      how long names and attributes are trusted, 1s\n  \
    threads=N         the most requests served at a time, 8\n  \
    files=N           the most file descriptors of the daemon; above three quarters the kernel forgets inodes\n  \
    io_uring=auto     requests through io_uring where the kernel can (Linux 6.14): names several times faster\n  \
    btime             tell times of birth too, for one more request per file\n  \
    prometheus=ADDR   answer Prometheus here, such as 127.0.0.1:9464\n  \
    allow_other ro nosuid nodev noexec noatime fsname=NAME, and what fstab adds for mount(8)\n\n\
    In fstab, with mount.fuse.fonio a link to fonio in /sbin:  /data/media  /mnt/sdcard  fuse.fonio  mode=auto  0 0\n\
    Unmount with umount, as a user with fusermount3 -u. A source called stats is given as ./stats."
)]
pub struct Mount {
    /// The directory to mount, or `stats`.
    pub source: PathBuf,
    /// Where.
    pub dir: PathBuf,
    /// Options, see below.
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Stay in the foreground; Ctrl-C unmounts.
    #[arg(short, long)]
    pub foreground: bool,
    /// `stats` as JSON.
    #[arg(long)]
    pub json: bool,
    /// Accepted from mount(8), and without meaning.
    #[arg(short = 'n', hide = true)]
    pub no_mtab: bool,
    /// From mount(8): say what was mounted.
    #[arg(short = 'v', hide = true)]
    pub verbose: bool,
    /// Accepted from mount(8), and without meaning.
    #[arg(short = 's', hide = true)]
    pub sloppy: bool,
    /// Accepted from mount(8), and without meaning.
    #[arg(short = 't', hide = true)]
    pub kind: Option<String>,
    /// mount(8) has started this.
    #[arg(long, hide = true)]
    pub as_helper: bool,
    /// The process that `fonio mount` leaves behind.
    #[arg(long, hide = true)]
    pub daemon: bool,
}
