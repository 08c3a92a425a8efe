//! The names of enum values in the recording, in JSON and in filters.

use crate::rows::{BlockedIn, Content, LinkEnd, LinkKind, Metric, Severity, SqliteWrite, WaitReason};

macro_rules! named {
    ($($enum:ident { $($variant:ident = $name:literal),* $(,)? })*) => {$(
        impl $enum {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [$enum] = &[$($enum::$variant),*];

            /// The name in the recording, in JSON and in filters.
            pub fn name(self) -> &'static str {
                match self {
                    $($enum::$variant => $name),*
                }
            }

            /// The value with that name.
            pub fn from_name(name: &str) -> Option<$enum> {
                match name {
                    $($name => Some($enum::$variant),)*
                    _ => None,
                }
            }
        }
    )*};
}

named! {
    Content {
        Unknown = "unknown",
        Data = "data",
        FsMetadata = "fs_metadata",
        FsJournal = "fs_journal",
        SqliteDb = "sqlite_db",
        SqliteJournal = "sqlite_journal",
        SqliteWal = "sqlite_wal",
        Swap = "swap",
    }
    LinkKind {
        Merge = "merge",
        Split = "split",
        Remap = "remap",
        Requeue = "requeue",
        Flush = "flush",
        Cause = "cause",
    }
    LinkEnd {
        Request = "request",
        Bio = "bio",
    }
    Metric {
        CpuActiveTicks = "cpu_active_ticks",
        CpuIdleTicks = "cpu_idle_ticks",
        CpuIowaitTicks = "cpu_iowait_ticks",
        CpuStealTicks = "cpu_steal_ticks",
        MemoryTotalBytes = "memory_total_bytes",
        MemoryAvailableBytes = "memory_available_bytes",
        MemoryDirtyBytes = "memory_dirty_bytes",
        MemoryWritebackBytes = "memory_writeback_bytes",
        SwapInPages = "swap_in_pages",
        SwapOutPages = "swap_out_pages",
        MajorFaults = "major_faults",
        DiskBusyMs = "disk_busy_ms",
        DiskReadBytes = "disk_read_bytes",
        DiskWriteBytes = "disk_write_bytes",
        NetReceiveBytes = "net_receive_bytes",
        NetTransmitBytes = "net_transmit_bytes",
        PressureSomeUs = "pressure_some_us",
        PressureFullUs = "pressure_full_us",
        TemperatureMillicelsius = "temperature_millicelsius",
        CpuFrequencyKhz = "cpu_frequency_khz",
        CpuFrequencyMaxKhz = "cpu_frequency_max_khz",
        ProcessorActiveTicks = "processor_active_ticks",
        NetLinkBytesPerS = "net_link_bytes_per_s",
    }
    WaitReason {
        Storage = "storage",
        Network = "network",
        Timer = "timer",
        Lock = "lock",
        Thread = "thread",
        Cpu = "cpu",
        Unknown = "unknown",
    }
    BlockedIn {
        Read = "read",
        Write = "write",
        Fsync = "fsync",
        Metadata = "metadata",
        PageFault = "page_fault",
        SwapIn = "swap_in",
        DirtyLimit = "dirty_limit",
        Journal = "journal",
        OtherThread = "other_thread",
        AsyncIo = "async_io",
        KernelThread = "kernel_thread",
        Other = "other",
        Unknown = "unknown",
    }
    SqliteWrite {
        JournalHeader = "journal_header",
        JournalEnd = "journal_end",
        WalHeader = "wal_header",
        WalFrame = "wal_frame",
        WalCommit = "wal_commit",
    }
    Severity {
        Note = "note",
        Warning = "warning",
        Error = "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serde derives its names from the variants; both spellings must agree.
    macro_rules! check {
        ($($enum:ident),*) => {$(
            for &value in $enum::ALL {
                let derived = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(value.name());
                let derived = <$enum as serde::Deserialize>::deserialize(derived).unwrap();
                assert_eq!(derived, value);
                assert_eq!($enum::from_name(value.name()), Some(value));
            }
            assert_eq!($enum::from_name("?"), None);
        )*};
    }

    #[test]
    fn names_come_back_and_are_serdes() {
        check!(Content, LinkKind, LinkEnd, Metric, WaitReason, BlockedIn, Severity, SqliteWrite);
    }
}
