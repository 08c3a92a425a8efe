//! The threads that waited: a note app behind a backup.

use fonio_analysis::waits::blocked::{
    Behind, Blocked, BlockedFile, BlockedProgram, FileShare, Interval, LongWait, LongWaits, OperationTime,
    Role, Through,
};
use fonio_analysis::waits::outstanding::TimeShare;

use super::{Dice, LENGTH, SECOND};

pub fn blocked(dice: &mut Dice) -> Blocked {
    let wal = "/data/notes <1>.db-wal".to_owned();
    let behind = |process: &str, file: Option<&str>, is_own, share| Behind {
        process: process.to_owned(),
        unit: None,
        file: file.map(str::to_owned),
        content: "data".to_owned(),
        is_own,
        share,
    };
    let notes = vec![
        behind("rsync", Some("/media/backup/photos.tar"), false, 0.71),
        behind("notes", Some(&wal), true, 0.22),
        behind("jbd2/mmcblk0p2-", None, false, 0.03),
    ];
    let through = Through {
        name: "notes".to_owned(),
        unit: Some("notes.service".to_owned()),
        blocked_in: "fsync".to_owned(),
        file: Some(wal.clone()),
    };
    let program = |name: &str, role: Role, share: f64, operation: &str, file: Option<&str>| BlockedProgram {
        name: name.to_owned(),
        unit: (name == "notes").then(|| "notes.service".to_owned()),
        role,
        threads: 2,
        waits: (share * 4000.0) as u64,
        time_ns: (share * 1.5 * LENGTH as f64) as u64,
        worst_tid: 4711,
        worst: TimeShare { ns: (share * LENGTH as f64) as u64, share },
        longest_ns: Some((share * 4e9) as u64),
        long: 7,
        operations: vec![OperationTime {
            blocked_in: operation.to_owned(),
            waits: (share * 4000.0) as u64,
            time_ns: (share * 1.5 * LENGTH as f64) as u64,
        }],
        file: file.map(|path| FileShare { path: path.to_owned(), share: 0.9, journal: None }),
        behind: if name == "notes" { notes.clone() } else { Vec::new() },
        through: (operation == "other_thread").then(|| through.clone()),
    };
    let interval = |at: u64, program: u32, operation: &str, dice: &mut Dice| Interval {
        at_ns: at * SECOND,
        time_ns: dice.long_tailed(SECOND / 100),
        program,
        blocked_in: operation.to_owned(),
    };
    Blocked {
        programs: vec![
            program("notes", Role::OfInterest, 0.34, "fsync", Some(&wal)),
            program("launcher", Role::OfInterest, 0.21, "other_thread", None),
            program("homeassistant", Role::OfInterest, 0.02, "page_fault", None),
            program("rsync", Role::BulkWork, 0.8, "dirty_limit", Some("/media/backup/photos.tar")),
            program("kworker", Role::Kernel, 0.3, "kernel_thread", None),
        ],
        programs_beyond_cap: 0,
        files: vec![BlockedFile {
            path: Some(wal.clone()),
            waits: 1300,
            time_ns: 70 * SECOND,
            longest_ns: 2 * SECOND,
            program: "notes (notes.service)".to_owned(),
        }],
        long: LongWaits {
            threshold_ns: SECOND / 10,
            count: 9,
            longest: vec![LongWait {
                at_ns: 12 * SECOND,
                time_ns: 4 * SECOND / 3,
                tid: 4711,
                program: "notes (notes.service)".to_owned(),
                blocked_in: "fsync".to_owned(),
                file: Some(wal),
                behind: notes.clone(),
                through: None,
            }],
        },
        intervals: (0..170)
            .flat_map(|at| {
                [
                    interval(at, 0, "fsync", dice),
                    interval(at, 3, "dirty_limit", dice),
                    interval(at, 2 * (at % 2) as u32, "read", dice),
                    interval(at, 1, "other_thread", dice),
                ]
            })
            .collect(),
        intervals_beyond_cap: 812,
        is_partial: false,
        is_sampled: false,
        threads_beyond_cap: 0,
    }
}
