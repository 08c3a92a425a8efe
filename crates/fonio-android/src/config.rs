//! Writes the configuration of a Perfetto trace, as a protocol buffer: the text form exists only from Android 10 on.
//!
//! The numbers of the fields are those of `protos/perfetto/config/` of google/perfetto (Apache License 2.0,
//! copyright The Android Open Source Project).

use std::time::Duration;

use fonio_core::ByteCount;

/// The events of the kernel. A phone without root refuses some of them, and records the others.
const EVENTS: [&str; 29] = [
    "block/block_rq_issue",
    "block/block_rq_complete",
    "block/block_rq_insert",
    "block/block_rq_requeue",
    "block/block_bio_queue",
    "block/block_bio_backmerge",
    "block/block_bio_frontmerge",
    "block/block_bio_remap",
    "block/block_getrq",
    "block/block_split",
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_blocked_reason",
    "sched/sched_process_exit",
    "sched/sched_process_free",
    "task/task_newtask",
    "task/task_rename",
    "ext4/ext4_sync_file_enter",
    "ext4/ext4_sync_file_exit",
    "f2fs/f2fs_sync_file_enter",
    "f2fs/f2fs_sync_file_exit",
    "filemap/mm_filemap_add_to_page_cache",
    "jbd2/jbd2_run_stats",
    "ufs/ufshcd_command",
    "mmc/mmc_request_start",
    "mmc/mmc_request_done",
    "f2fs/f2fs_write_checkpoint",
    "power/suspend_resume",
    // The markers of programs.
    "ftrace/print",
];
/// Markers of Android, which show launches and frames.
const CATEGORIES: [&str; 5] = ["am", "wm", "view", "gfx", "dalvik"];

/// Memory of the kernel per processor, and of the tracing service. The service writes to the file every 2.5 s.
const KERNEL_BUFFER_KIB: u64 = 8 << 10;
const SERVICE_BUFFER_KIB: u64 = 64 << 10;
const DRAIN_MS: u64 = 250;
const WRITE_MS: u64 = 2500;
const FLUSH_MS: u64 = 5000;
const PRESSURE_MS: u64 = 1000;

/// What is recorded.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) duration: Duration,
    pub(crate) size_max: ByteCount,
}

impl Config {
    /// Returns the configuration (`TraceConfig`).
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut ftrace = Vec::new();
        EVENTS.iter().for_each(|event| text(&mut ftrace, 1, event));
        CATEGORIES.iter().for_each(|category| text(&mut ftrace, 2, category));
        // The markers of all apps.
        text(&mut ftrace, 3, "*");
        number(&mut ftrace, 10, KERNEL_BUFFER_KIB);
        number(&mut ftrace, 11, DRAIN_MS);
        message(&mut ftrace, 12, &field(1, 1));
        number(&mut ftrace, 13, 1);
        // Scan all processes at the beginning, and record the names of threads.
        let processes = [field(2, 1), field(3, 1)].concat();
        let system = [field(10, PRESSURE_MS), field(11, PRESSURE_MS)].concat();
        let mut config = Vec::new();
        message(&mut config, 1, &[field(1, SERVICE_BUFFER_KIB), field(4, 2)].concat());
        for (name, number, content) in [
            ("linux.ftrace", 100, &ftrace[..]),
            ("linux.process_stats", 103, &processes),
            ("linux.sys_stats", 104, &system),
            ("android.packages_list", 109, &[]),
            ("linux.system_info", 119, &[]),
            ("android.surfaceflinger.frametimeline", 0, &[]),
        ] {
            let mut source = Vec::new();
            text(&mut source, 1, name);
            if !content.is_empty() {
                message(&mut source, number, content);
            }
            let mut outer = Vec::new();
            message(&mut outer, 1, &source);
            message(&mut config, 2, &outer);
        }
        number(&mut config, 3, u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX));
        number(&mut config, 8, 1);
        number(&mut config, 9, WRITE_MS);
        number(&mut config, 10, self.size_max.0);
        number(&mut config, 13, FLUSH_MS);
        config
    }
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn number(to: &mut Vec<u8>, field: u32, value: u64) {
    varint(to, u64::from(field) << 3);
    varint(to, value);
}

/// Returns a number as a message of one field.
fn field(number: u32, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    self::number(&mut bytes, number, value);
    bytes
}

fn message(to: &mut Vec<u8>, field: u32, content: &[u8]) {
    varint(to, u64::from(field) << 3 | 2);
    varint(to, content.len() as u64);
    to.extend_from_slice(content);
}

fn text(to: &mut Vec<u8>, field: u32, content: &str) {
    message(to, field, content.as_bytes());
}
