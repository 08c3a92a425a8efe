//! The formats that fonio reads.

use std::fmt;

/// A format that fonio reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The binary format of blktrace, one file per processor or merged.
    Blktrace,
    /// The default text output of blkparse.
    Blkparse,
    /// Text from ftrace's `trace` or `trace_pipe` file.
    Ftrace,
    /// Text of `perf script`, with tracepoints.
    PerfScript,
    /// The file of `perf record`.
    PerfData,
    /// Output of systrace or atrace: HTML, or `TRACE:` followed by text, compressed or not.
    Systrace,
    /// The protocol buffers of Perfetto.
    Perfetto,
    /// The file of trace-cmd, versions 6 and 7.
    TraceDat,
    /// A trace in the Common Trace Format: a folder of LTTng, babeltrace2, barectf or perf.
    Ctf,
    /// The text of biosnoop (bcc, libbpf-tools) and of iosnoop (perf-tools).
    Biosnoop,
    /// The text of ext4slower, its relatives, and fileslower: slow calls of a file system.
    FsSlower,
    /// The CSV of the MSR Cambridge traces.
    MsrCambridge,
    /// The binary traces of VMware's virtual SCSI layer (CloudPhysics).
    Vscsi,
    /// Totals of devices: the text of iostat and sar, copies of /proc/diskstats, and histograms of biolatency.
    Totals,
    /// The iolog of fio, version 2 or 3.
    FioIolog,
    /// The latency, bandwidth and IOPS logs of fio.
    FioLog,
    /// The ASCII traces of DiskSim and MQSim.
    DiskSim,
    /// Any other CSV table. Tables that fonio did not write need a [`Mapping`](crate::csv::Mapping).
    Csv,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 18] = [
        Format::Blktrace,
        Format::Blkparse,
        Format::Ftrace,
        Format::PerfScript,
        Format::PerfData,
        Format::Systrace,
        Format::Perfetto,
        Format::TraceDat,
        Format::Ctf,
        Format::Biosnoop,
        Format::FsSlower,
        Format::MsrCambridge,
        Format::Vscsi,
        Format::Totals,
        Format::FioIolog,
        Format::FioLog,
        Format::DiskSim,
        Format::Csv,
    ];

    /// Returns the format's name on the command line and in `meta.json`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Blktrace => "blktrace",
            Format::Blkparse => "blkparse",
            Format::Ftrace => "ftrace",
            Format::PerfScript => "perf-script",
            Format::PerfData => "perf-data",
            Format::Systrace => "systrace",
            Format::Perfetto => "perfetto",
            Format::TraceDat => "trace-dat",
            Format::Ctf => "ctf",
            Format::Biosnoop => "biosnoop",
            Format::FsSlower => "fs-slower",
            Format::MsrCambridge => "msr-cambridge",
            Format::Vscsi => "vscsi",
            Format::Totals => "totals",
            Format::FioIolog => "fio-iolog",
            Format::FioLog => "fio-log",
            Format::DiskSim => "disksim",
            Format::Csv => "csv",
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Format::Blktrace => "blktrace (binary)",
            Format::Blkparse => "blkparse (its default text)",
            Format::Ftrace => "ftrace (text of trace or trace_pipe)",
            Format::PerfScript => "perf-script (text of perf script)",
            Format::PerfData => "perf-data (perf record)",
            Format::Systrace => "systrace (HTML, or atrace's output)",
            Format::Perfetto => "perfetto (protocol buffers)",
            Format::TraceDat => "trace-dat (trace-cmd)",
            Format::Ctf => "ctf (a folder of LTTng, CTF 1.8)",
            Format::Biosnoop => "biosnoop (text of biosnoop or iosnoop)",
            Format::FsSlower => "fs-slower (text of ext4slower, fsslower, fileslower and similar programs)",
            Format::MsrCambridge => "msr-cambridge (CSV)",
            Format::Vscsi => "vscsi (CloudPhysics)",
            Format::Totals => "totals (iostat, sar -d, copies of /proc/diskstats, biolatency)",
            Format::FioIolog => "fio-iolog (versions 2 and 3)",
            Format::FioLog => "fio-log (latency, bandwidth and IOPS logs)",
            Format::DiskSim => "disksim (ASCII, MQSim's too)",
            Format::Csv => "csv (any, with a column mapping)",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
