//! The slow calls of ext4slower, compared with the calls that fonio records at the same time, in a guest.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fonio_core::{Call, CollectedRows};
use fonio_lab::System;
use xtask::results::{Cell, StudyResult};

use super::rows::{EQUAL_TIMES, Served, is_equal, of_recording, of_trace};
use crate::process;

const ID: &str = "readers-calls-guest";
const COLUMNS: [&str; 10] = [
    "recorder",
    "writes",
    "bytes",
    "syncs",
    "mean of the syncs",
    "p50",
    "p95",
    "p99",
    "longest",
    "equal to fonio's recording",
];
const SCRIPT: &str = include_str!("slow_calls.sh");
/// Runs the script on a new device, and packs what was recorded.
const GUEST_SCRIPT: &str = "set -eu
rm -rf /root/calls; mkdir /root/calls; head -c 64M /dev/zero >/root/image
DEVICE=$(losetup --direct-io=on --find --show /root/image)
export WORK=/root/calls DEVICE FONIO=/usr/local/bin/fonio CALLS=400
code=0
sh /root/slow_calls.sh >&2 || code=$?
losetup --detach $DEVICE
tar -cf /root/calls.tar -C /root/calls .
exit $code";
/// The file of fio.
const FILE: &str = "load";

/// What one recorder saw of fio's calls on its file.
struct Calls {
    /// The place and length of each write, in the order of their ends.
    writes: Vec<(Option<u64>, u64)>,
    syncs: Served,
}

impl Calls {
    fn of(rows: &CollectedRows) -> Calls {
        let of_fio = |file: &fonio_core::File| {
            let name = file.path.as_deref().map(Path::new).and_then(Path::file_name);
            name.is_some_and(|name| name == FILE).then_some(file.file_id)
        };
        let files: Vec<u32> = rows.files.iter().filter_map(of_fio).collect();
        let is_of_fio =
            |call: &&Call| call.exited.is_some() && call.file_id.is_some_and(|file| files.contains(&file));
        let mut calls: Vec<&Call> = rows.calls.iter().filter(is_of_fio).collect();
        calls.sort_by_key(|call| (call.exited, call.entered));
        let is_write = |call: &&&Call| call.name.contains("write");
        let writes = calls.iter().filter(is_write);
        let writes = writes.map(|call| (call.offset, call.bytes.map_or(0, |bytes| bytes.0))).collect();
        let syncs = calls.iter().filter(|call| call.name.contains("sync"));
        let mut times: Vec<u64> =
            syncs.filter_map(|call| Some(call.exited?.0.saturating_sub(call.entered.0))).collect();
        times.sort_unstable();
        Calls { writes, syncs: Served { requests: times.len(), bytes: 0, times } }
    }

    fn times(&self) -> [f64; 5] {
        let syncs = &self.syncs;
        [syncs.mean(), syncs.percentile(50), syncs.percentile(95), syncs.percentile(99), syncs.max()]
    }

    /// Returns `yes`, or the first difference.
    fn equal(&self, reference: &Calls) -> String {
        if self.writes != reference.writes {
            return "**no: other writes**".to_owned();
        }
        if self.syncs.requests != reference.syncs.requests {
            return "**no: other syncs**".to_owned();
        }
        let times = self.times().into_iter().zip(reference.times());
        match times.into_iter().position(|(ours, theirs)| !is_equal(ours, theirs)) {
            None => "yes".to_owned(),
            Some(place) => format!("**no: {}**", COLUMNS[place + 4]),
        }
    }
}

/// Runs fio on ext4 in the guest, which has fonio, and keeps the result.
pub fn run(system: &mut System, folder: &Path, build: &str, command: &str) -> Result<()> {
    let title = format!(
        "the calls of fio on ext4, recorded by ext4slower and fonio, in Debian with Linux {}",
        system.release()
    );
    let mut result = StudyResult::begin(ID, &title, command, &COLUMNS)?;
    let script = folder.join("slow_calls.sh");
    fs::write(&script, SCRIPT)?;
    system.put(&script, "/root/slow_calls.sh")?;
    let out = system.run(&["sh", "-c", GUEST_SCRIPT])?;
    let complaint = String::from_utf8_lossy(&out.stderr);
    ensure!(
        out.code == 0,
        "recording the calls failed in the guest with exit code {}:\n{complaint}",
        out.code
    );
    let work = folder.join("calls");
    fs::create_dir(&work)?;
    let packed = folder.join("calls.tar");
    system.get("/root/calls.tar", &packed)?;
    process::run(std::process::Command::new("tar").arg("-xf").arg(&packed).arg("-C").arg(&work))?;
    let reference = Calls::of(&of_recording(&work.join("calls"))?.0);
    ensure!(!reference.syncs.times.is_empty(), "fonio recorded no sync of fio");
    let theirs = of_trace(&work.join("slow.csv")).with_context(|| {
        let log = fs::read_to_string(work.join("ext4slower.log")).unwrap_or_default();
        format!("ext4slower recorded nothing that can be read: {log}")
    })?;
    for (name, calls) in [("fonio", &reference), ("ext4slower", &Calls::of(&theirs.0))] {
        let bytes: u64 = calls.writes.iter().map(|(_, bytes)| bytes).sum();
        let mut cells: Vec<Cell> = vec![
            Cell::count(calls.writes.len()),
            Cell::once(bytes as f64, "", 0),
            Cell::count(calls.syncs.requests),
        ];
        cells.extend(calls.times().map(|time| Cell::once(time, "µs", 1)));
        cells.push(calls.equal(&reference).into());
        result.row(name.to_owned(), cells);
    }
    result.remark = format!(
        "{build} of fonio; `ext4slower --csv --min 0` of libbpf-tools; one simulated processor. Equal: the same writes (place and length, in \
         their order), the same number of syncs, and each {EQUAL_TIMES}"
    );
    result.keep(true).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_named() {
        let calls = |writes: &[(Option<u64>, u64)], times: &[u64]| Calls {
            writes: writes.to_vec(),
            syncs: Served { requests: times.len(), bytes: 0, times: times.to_vec() },
        };
        let reference = calls(&[(Some(0), 4096), (Some(8192), 4096)], &[1_000_000, 2_000_000]);
        assert_eq!(reference.equal(&reference), "yes");
        let cases = [
            (calls(&[(Some(0), 4096)], &[1_000_000, 2_000_000]), "**no: other writes**"),
            (calls(&reference.writes, &[1_000_000]), "**no: other syncs**"),
            (calls(&reference.writes, &[1_015_000, 2_000_000]), "**no: p50**"),
        ];
        for (other, expected) in cases {
            assert_eq!(other.equal(&reference), expected);
        }
    }
}
