//! Facts about the device for which the victim waited, and about the readers of the victim's write-ahead log.

use fonio_core::{Nanos, Unit};

use super::victim::Victim;
use crate::analyser::questions::Analysis;
use crate::device::speed::{DeviceSpeed, SlowRequest};
use crate::figures::facts::Facts;
use crate::question::ratio::ratio;

/// Temperature from which disks lower their speed (our choice; NVMe disks warn at 70 °C or more).
const HOT_MILLICELSIUS: i64 = 70_000;
/// The beginnings of the names of sensors in disks.
const DISK_SENSORS: [&str; 2] = ["nvme", "drivetemp"];

/// Adds the facts, if there is a victim.
pub(super) fn put(facts: &mut Facts, analysis: &Analysis) {
    let Some(victim) = &Victim::of(analysis) else { return };
    let device = victim.device.and_then(|device| analysis.devices.get(device as usize));
    // Other requests may delay a stacked device in the device below.
    let is_lowest = device.is_some_and(|device| device.below.is_empty());
    let speed = analysis.device_speeds.iter().find(|speed| Some(speed.device) == victim.device && is_lowest);
    put_slow_request(facts, speed, victim);
    put_idleness(facts, speed, victim);
    let slower = speed.and_then(|speed| speed.slower_writes.as_ref());
    let label = "bytes after which writes to the delayed program's device became slower";
    facts.amount("victim.slower_after", label, slower.map(|slower| slower.after));
    let label = "write rate of that device before";
    facts.put("victim.rate_before", label, Unit::BytesPerS, slower.map(|slower| slower.before_bytes_per_s));
    let label = "write rate of that device afterwards";
    facts.put("victim.rate_after", label, Unit::BytesPerS, slower.map(|slower| slower.after_bytes_per_s));
    put_temperature(facts, analysis);
    let label = "time of requests in the encryption of the delayed program's device, share of their time";
    facts.share("victim.encryption_share", label, encryption_share(analysis, victim));
    put_wal_reader(facts, analysis, victim);
}

/// Adds the slow request for which the victim waited, if a single long wait makes the program the victim.
fn put_slow_request(facts: &mut Facts, speed: Option<&DeviceSpeed>, victim: &Victim<'_>) {
    let (at, time) = victim.stall.unwrap_or_default();
    let overlap = |slow: &SlowRequest| {
        let end = (slow.at_ns + slow.time_ns).min(at + time);
        Nanos(end.0.saturating_sub(slow.at_ns.max(at).0))
    };
    let slow = speed.and_then(|speed| speed.slow.iter().max_by_key(|slow| overlap(slow)));
    let label = "one slow request without other requests in flight, share of the longest wait";
    facts.share("victim.slow_request_share", label, slow.and_then(|slow| ratio(overlap(slow), time)));
    facts.amount("victim.slow_request", "that request", slow.map(|slow| slow.time_ns));
    let label = "requests of the same kind, median";
    facts.amount("victim.usual_request", label, slow.map(|slow| slow.usual_ns));
}

fn put_idleness(facts: &mut Facts, speed: Option<&DeviceSpeed>, victim: &Victim<'_>) {
    let idle = speed.and_then(|speed| speed.after_idleness.as_ref());
    let label = "additional time of reads after idleness, share of the delayed program's waits";
    facts.share("victim.idleness_share", label, idle.and_then(|idle| ratio(idle.lost(), victim.time)));
    let label = "reads after idleness, median";
    facts.amount("victim.after_idleness", label, idle.map(|idle| idle.median_ns));
    let label = "reads without idleness before, median";
    facts.amount("victim.otherwise", label, idle.map(|idle| idle.otherwise_ns));
}

fn put_temperature(facts: &mut Facts, analysis: &Analysis) {
    let is_disk = |zone: &str| DISK_SENSORS.iter().any(|sensor| zone.starts_with(sensor));
    let disks = analysis.machine.temperature.iter().filter(|row| is_disk(&row.zone));
    let hottest = disks.map(|row| row.max_millicelsius).max();
    let label = "highest temperature of a disk";
    facts.put("temperature.disk", label, Unit::Millicelsius, hottest.map(|hottest| hottest as f64));
    let is_hot = hottest.is_some_and(|hottest| hottest >= HOT_MILLICELSIUS);
    facts.count("temperature.disk_hot", "a disk is so hot that it may be slower", u64::from(is_hot));
}

/// Returns the share of the time of the requests to the victim's encrypted device that was not spent in the
/// device below.
fn encryption_share(analysis: &Analysis, victim: &Victim<'_>) -> Option<f64> {
    let time_of = |number: usize| {
        let row = analysis.io_share.devices.iter().find(|row| row.device as usize == number)?;
        Some(row.share.latency_sum_ns)
    };
    let number = victim.device? as usize;
    let device = analysis.devices.get(number).filter(|device| device.is_encrypted)?;
    let below = analysis.devices.iter().position(|other| device.below.contains(&other.device))?;
    let (above, below) = (time_of(number)?, time_of(below)?);
    ratio(Nanos(above.0.saturating_sub(below.0)), above)
}

/// Adds the process that kept the victim's write-ahead log from being emptied.
fn put_wal_reader(facts: &mut Facts, analysis: &Analysis, victim: &Victim<'_>) {
    let is_of = |log: &str, file: &str| log == file || log.strip_suffix("-wal") == Some(file);
    let reader =
        victim.file.and_then(|file| analysis.wal_readers.iter().find(|reader| is_of(&reader.log, file)));
    let label = "part of the delayed program's write-ahead log that a reader kept from being emptied";
    facts.amount("victim.wal_held_bytes", label, reader.map(|reader| reader.bytes));
    let label = "time for which that reader had a transaction open";
    facts.amount("victim.wal_held_time", label, reader.map(|reader| reader.held_ns));
    if let Some(reader) = reader {
        facts.word("victim.wal_reader", &format!("{} (process {})", reader.program, reader.pid));
        facts.word("victim.wal_log", &reader.log);
    }
}

#[cfg(test)]
mod tests {
    use fonio_core::{Meta, RowSink, Timestamp};

    use crate::analyser::Analyser;
    use crate::analyser::tests::{request, wait};
    use crate::question::options::AnalysisOptions;

    /// Analyses reads of 1 ms every 100 ms for 20 s, except from 5 s to 5.7 s, where thread 7 waits for one read
    /// of 600 ms. `lines` are additional requests.
    fn mechanism(lines: &[&str]) -> Option<String> {
        let usual = (0..200).filter(|at| !(50..57).contains(at));
        let usual = usual.map(|at| format!("R {at}000+8 q{at}00000 d{at}00000 c{at}01000 t7"));
        let slow = "R 9+8 q5010000 d5010000 c5610000 t7".to_owned();
        let requests: Vec<String> =
            usual.chain([slow]).chain(lines.iter().map(|&line| line.to_owned())).collect();
        let mut rows: Vec<_> = (0..).zip(&requests).map(|(id, text)| request(id, text)).collect();
        rows.sort_by_key(|row| row.issued);
        let mut analyser = Analyser::new(AnalysisOptions::default());
        analyser.began(Timestamp(0)).unwrap();
        analyser.wait(&wait("7 read 5010000 5610000")).unwrap();
        rows.iter().for_each(|row| analyser.request(row).unwrap());
        let span = [0, 20_000_000_000].map(|time| Some(Timestamp(time)));
        let mut meta = Meta { began: span[0], ended: span[1], ..Meta::default() };
        meta.source.format = "tracefs".to_owned();
        analyser.finish(&meta).diagnosis?.mechanism
    }

    #[test]
    fn a_request_is_slow_only_if_no_other_was_in_flight() {
        assert_eq!(mechanism(&[]).as_deref(), Some("device-slow-request"));
        let other = "R 700000+8 q5200000 d5200000 c5201000 t8";
        assert_eq!(mechanism(&[other]).as_deref(), Some("small-random-reads"));
    }
}
