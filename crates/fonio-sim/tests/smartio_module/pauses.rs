//! Simulates a program that reads with pauses beside the write-back of a copy, in virtual time. The device
//! serves one request at a time. The block layer splits write-back at the size that the policy asks for, and
//! keeps eight of its requests queued.

use std::collections::BTreeMap;

use fonio_core::Random;
use fonio_testing::skip_without;

use super::policy::Driver;

const READER: u64 = 1;
const WRITE_BACK: u64 = 2;
const QUEUED: usize = 8;
/// The size of write-back without a limit.
const LARGE: u64 = 512 * 1024;
/// The time from a completion to the next action of a program.
const GAP_NS: u64 = 10_000;
/// The time during which the policy learns, and the time that is measured.
const SETTLED_NS: u64 = 500_000_000;
const END_NS: u64 = 2_500_000_000;

/// A device that serves one request at a time. A write takes `write_ns` and `write_kib_ns` for each KiB.
struct Device {
    read_ns: u64,
    write_ns: u64,
    write_kib_ns: u64,
}

impl Device {
    fn write(&self, bytes: u64) -> u64 {
        self.write_ns + self.write_kib_ns * bytes / 1024
    }
}

/// What was measured: the mean and longest response of reads, in multiples of that alone, and the rate of the
/// copy as a share of the rate alone.
struct Measured {
    reads: f64,
    longest: f64,
    copied: f64,
}

/// Runs the reader beside the copy. `pause` returns the length of the next pause.
fn measure(settings: &str, device: &Device, mut pause: impl FnMut() -> u64) -> Measured {
    let mut driver = Driver::start(&format!("scheduler smartio in_flight_max=1{settings}"));
    let (mut now, mut next_id, mut sector) = (0_u64, 0_u64, 0_u64);
    let mut next_read = Some(0_u64);
    // The number of requests of write-back that are queued or in service.
    let mut back = 0;
    // By number: when the request came, and its bytes if it is one of write-back.
    let mut requests: BTreeMap<u64, (u64, Option<u64>)> = BTreeMap::new();
    let mut in_service: Option<(u64, u64)> = None;
    let (mut responses, mut copied) = (Vec::new(), 0_u64);
    while now < END_NS {
        if next_read.is_some_and(|due| due <= now) {
            next_read = None;
            let at = (1_u64 << 32) + next_id * 16;
            driver.event(&format!(
                "insert {now} id={next_id} read sync sector={at} bytes=4096 process={READER} be4"
            ));
            requests.insert(next_id, (now, None));
            next_id += 1;
        }
        while back < QUEUED {
            let piece: u64 =
                driver.event(&format!("piece {now}")).expect("an answer").parse().expect("a size");
            let bytes = if piece == 0 { LARGE } else { piece.min(LARGE) };
            driver.event(&format!(
                "insert {now} id={next_id} write async sector={sector} bytes={bytes} process={WRITE_BACK} be4"
            ));
            requests.insert(next_id, (now, Some(bytes)));
            sector += bytes / 512;
            next_id += 1;
            back += 1;
        }
        let mut timer = None;
        if in_service.is_none() {
            let answer = driver.event(&format!("dispatch {now}")).expect("an answer");
            if let Ok(id) = answer.parse::<u64>() {
                let service = requests[&id].1.map_or(device.read_ns, |bytes| device.write(bytes));
                in_service = Some((now + service, id));
            } else {
                timer = driver.event(&format!("timer {now}")).and_then(|timer| timer.parse::<u64>().ok());
            }
        }
        let events = [next_read, timer, in_service.map(|(end, _)| end)];
        now = events.into_iter().flatten().min().expect("something happens").max(now);
        if let Some((_, id)) = in_service.take_if(|(end, _)| *end <= now) {
            driver.event(&format!("complete {now} id={id}"));
            match requests.remove(&id).expect("it was queued") {
                (came, None) => {
                    if now >= SETTLED_NS {
                        responses.push((now - came) as f64 / device.read_ns as f64);
                    }
                    next_read = Some(now + pause() + GAP_NS);
                }
                (_, Some(bytes)) => {
                    back -= 1;
                    copied += if now >= SETTLED_NS { bytes } else { 0 };
                }
            }
        }
    }
    let alone = LARGE as f64 / device.write(LARGE) as f64;
    Measured {
        reads: responses.iter().sum::<f64>() / responses.len() as f64,
        longest: responses.iter().copied().fold(0.0, f64::max),
        copied: copied as f64 / (END_NS - SETTLED_NS) as f64 / alone,
    }
}

#[test]
fn write_back_fits_into_the_pauses_of_a_reader() {
    skip_without!(Cc);
    // The times of the study's Galaxy S5, and a slow card.
    let devices = [
        ("phone", Device { read_ns: 187_000, write_ns: 120_000, write_kib_ns: 26_000 }),
        ("card", Device { read_ns: 600_000, write_ns: 2_000_000, write_kib_ns: 100_000 }),
    ];
    let mut table = String::new();
    for (name, device) in &devices {
        for (how, settings) in [("as it comes", ""), ("without", " pause_max_ns=0")] {
            for pause_us in [100_u64, 1_000, 5_000, 20_000] {
                let mut random = Random::new(pause_us);
                // Pauses differ by a tenth.
                let of = measure(settings, device, || pause_us * (900 + random.below(200)));
                table += &format!(
                    "{name}, {how}, pauses of {pause_us:>5} µs: reads {:>6.2} times, longest {:>6.1}, copied {:.2}\n",
                    of.reads, of.longest, of.copied
                );
            }
        }
    }
    expect_test::expect_file!["pauses.txt"].assert_eq(&table);
}

/// The policy leaves the device idle for at most `write_wait_ns` at a time while write-back waits.
#[test]
fn the_device_is_not_idle_for_long() {
    skip_without!(Cc);
    let mut driver = Driver::start("scheduler smartio in_flight_max=1");
    let mut now = 0;
    let mut id = 0;
    // A reader with pauses of 30 ms is learnt, beside nothing.
    for _ in 0..20 {
        driver.event(&format!("insert {now} id={id} read sync sector={} bytes=4096 process=1 be4", id * 64));
        assert_eq!(driver.event(&format!("dispatch {now}")), Some(id.to_string()));
        now += 200_000;
        driver.event(&format!("complete {now} id={id}"));
        now += 30_000_000;
        id += 1;
    }
    // Writes of 4 ms each are learnt to take long, and then wait for the reader; but never for longer than 2 ms.
    let mut longest = 0;
    for _ in 0..20 {
        driver.event(&format!(
            "insert {now} id={id} write async sector={} bytes=131072 process=2 be4",
            (1 << 30) + id * 256
        ));
        let came = now;
        while driver.event(&format!("dispatch {now}")).expect("an answer") == "none" {
            now = driver.event(&format!("timer {now}")).expect("an answer").parse().expect("an instant");
        }
        longest = longest.max(now - came);
        now += 4_000_000;
        driver.event(&format!("complete {now} id={id}"));
        id += 1;
    }
    assert!(longest <= 2_000_000, "{longest} ns");
}
