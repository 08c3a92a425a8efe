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
    /// Output of systrace or atrace: HTML, or `TRACE:` followed by text, compressed or not.
    Systrace,
    /// The protocol buffers of Perfetto.
    Perfetto,
    /// The CSV of the MSR Cambridge traces.
    MsrCambridge,
    /// The ASCII traces of DiskSim and MQSim.
    DiskSim,
    /// Any other CSV table. Tables that fonio did not write need a [`Mapping`](crate::csv::Mapping).
    Csv,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 8] = [
        Format::Blktrace,
        Format::Blkparse,
        Format::Ftrace,
        Format::Systrace,
        Format::Perfetto,
        Format::MsrCambridge,
        Format::DiskSim,
        Format::Csv,
    ];

    /// Returns the format's name on the command line and in `meta.json`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Blktrace => "blktrace",
            Format::Blkparse => "blkparse",
            Format::Ftrace => "ftrace",
            Format::Systrace => "systrace",
            Format::Perfetto => "perfetto",
            Format::MsrCambridge => "msr-cambridge",
            Format::DiskSim => "disksim",
            Format::Csv => "csv",
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Format::Blktrace => "blktrace (binary)",
            Format::Blkparse => "blkparse (its default text)",
            Format::Ftrace => "ftrace (text of trace or trace_pipe)",
            Format::Systrace => "systrace (HTML, or atrace's output)",
            Format::Perfetto => "perfetto (protocol buffers)",
            Format::MsrCambridge => "msr-cambridge (CSV)",
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
