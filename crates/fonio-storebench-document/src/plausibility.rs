//! Defines rules that find results that cannot be true or do not describe a device. A result that breaks a
//! rule is stored, and its page shows the reason, but rankings, distributions and dumps omit it.
//!
//! A rule detects a value beyond a physical limit or a contradiction. The rules have a margin for unusual
//! devices.

use fonio_core::DeviceKind;

use crate::document::{Document, Origin};
use crate::figures::{SIZES, size_name};

const ACCESSES: [&str; 4] = ["seq_read", "seq_write", "rand_read", "rand_write"];

type Rule = fn(&Document, u64) -> Option<String>;

/// The rules, in the order in which they are checked.
const RULES: [Rule; 12] = [
    from_the_future,
    virtual_machine,
    virtual_device,
    layer,
    above_the_bus,
    faster_than_the_transfer,
    faster_than_a_request,
    synced_faster_than_flash,
    faster_beside_others,
    sequential_below_random,
    total_is_not_the_sum,
    median_above_p99,
];

/// Returns the reason to hide a document that was received at `now_unix_s`, as the continuation of "hidden
/// because …".
pub fn reason_to_hide(document: &Document, now_unix_s: u64) -> Option<String> {
    RULES.iter().find_map(|rule| rule(document, now_unix_s))
}

/// Maximum time by which a run may seem to begin in the future, because of wrong clocks and time zones.
const AHEAD_MAX_S: u64 = 86_400 + 3_600;

fn from_the_future(document: &Document, now_unix_s: u64) -> Option<String> {
    let ahead = document.began_unix_s.saturating_sub(now_unix_s);
    (ahead > AHEAD_MAX_S).then(|| {
        format!(
            "the run began {} days after it was received; set the clock of the machine",
            ahead.div_ceil(86_400)
        )
    })
}

fn virtual_machine(document: &Document, _: u64) -> Option<String> {
    let is_virtual = document.machine.virtual_machine == Some(true);
    (is_virtual && document.origin == Origin::Measured)
        .then(|| "it was measured in a virtual machine, whose host caches and shares the device".to_owned())
}

fn virtual_device(document: &Document, _: u64) -> Option<String> {
    (document.device.kind.hides_hardware() && document.origin == Origin::Measured)
        .then(|| "the device is virtual, so the figures are those of the machine behind it".to_owned())
}

/// A layer combines any number of devices, so its figures describe none of them.
fn layer(document: &Document, _: u64) -> Option<String> {
    (document.device.kind.is_layer() && document.origin == Origin::Measured).then(|| {
        "the device is a layer over other devices, such as a RAID array, so the figures are not those of one device"
            .to_owned()
    })
}

/// The physical limits of a kind of device. A result beyond a limit was answered by a cache, or is made up.
struct Limits {
    /// The rate of the fastest interface, in 10⁶ bytes per second.
    interface_mb_s: f64,
    /// The shortest time in which any device of this kind can answer a request, in milliseconds.
    response_ms: f64,
}

/// Returns the limits for a kind of device; `None` for a kind without hardware of its own.
///
/// The interfaces are HS400, SD Express with PCIe 4.0 x2, UFS 5.0, PCIe 6.0 x4, USB4 version 2, SATA
/// revision 3, and 24G SAS for other solid-state disks and for unknown devices. Raw flash has at most a
/// channel of ONFI 4.
///
/// The response times are about half of the best published or measured ones, including the kernel: 6 µs for an
/// NVMe device (Optane P5800X), 50 µs for SATA and SAS, 60 µs for UFS and USB, 100 µs for cards and eMMC. The
/// kind of an unknown device may hide a faster one, but such a device would be recognised as NVMe.
fn limits(kind: DeviceKind) -> Option<Limits> {
    let (interface_mb_s, response_ms) = match kind {
        DeviceKind::Emmc => (400.0, 0.03),
        DeviceKind::Sd => (3_940.0, 0.03),
        DeviceKind::Ufs => (10_800.0, 0.02),
        DeviceKind::Nvme => (32_000.0, 0.003),
        DeviceKind::Usb => (10_000.0, 0.02),
        DeviceKind::HardDisk => (600.0, 0.02),
        DeviceKind::SolidState | DeviceKind::Other => (2_400.0, 0.02),
        DeviceKind::RawFlash => (1_600.0, 0.02),
        _ => return None,
    };
    Some(Limits { interface_mb_s, response_ms })
}

/// Returns the rate limit of the bus: the limit in the document, but at most the rate of the fastest
/// interface for this kind of device.
fn limit_mb_s(document: &Document) -> Option<f64> {
    let fastest = limits(document.device.kind).map(|limits| limits.interface_mb_s);
    match (document.device.bus_limit_mb_s, fastest) {
        (Some(stated), Some(fastest)) => Some(stated.min(fastest)),
        (stated, fastest) => stated.or(fastest),
    }
}

/// Limits are nominal; real clocks can be slightly faster.
const BUS_MARGIN: f64 = 1.05;

fn above_the_bus(document: &Document, _: u64) -> Option<String> {
    let limit = limit_mb_s(document)?;
    let rates = ACCESSES.iter().map(|access| format!("bandwidth.{access}"));
    rates.chain(["sustained.first", "sustained.last"].map(str::to_owned)).find_map(|name| {
        let value = document.value(&name)?.value;
        (value > limit * BUS_MARGIN).then(|| {
            format!(
                "{name} is {value:.0} MB/s, above the limit of the bus of {limit:.0} MB/s; \
                 the page cache may have answered"
            )
        })
    })
}

/// Compares the median with the transfer time. Other quantiles are not compared, because a cache may serve a
/// few requests faster.
fn faster_than_the_transfer(document: &Document, _: u64) -> Option<String> {
    let limit = limit_mb_s(document)?;
    for access in ACCESSES {
        for bytes in SIZES {
            let name = format!("response.{access}.{}.p50", size_name(bytes));
            let Some(value) = document.value(&name) else { continue };
            // 1 MB/s is 1000 bytes per millisecond.
            let transfer_ms = bytes as f64 / (limit * BUS_MARGIN * 1000.0);
            if value.value < transfer_ms {
                return Some(format!(
                    "{name} is {:.4} ms, and the bus alone needs {transfer_ms:.4} ms for the data at {limit:.0} MB/s; \
                     requests were answered before the device had the data",
                    value.value
                ));
            }
        }
    }
    None
}

/// Compares every mean and median with the shortest possible response time. A cache may serve some requests
/// faster, but direct I/O does not let it serve half of them.
fn faster_than_a_request(document: &Document, _: u64) -> Option<String> {
    if document.origin != Origin::Measured {
        return None;
    }
    let least_ms = limits(document.device.kind)?.response_ms;
    let responses = ACCESSES.iter().flat_map(|access| {
        SIZES.iter().flat_map(move |bytes| {
            ["mean", "p50"].map(|statistic| format!("response.{access}.{}.{statistic}", size_name(*bytes)))
        })
    });
    responses.chain(["sync.write.4k.p50".to_owned()]).find_map(|name| {
        let value = document.value(&name)?.value;
        (value < least_ms).then(|| {
            format!(
                "{name} is {value:.4} ms, and no {} answers a request in less than {least_ms} ms; requests did not \
                 reach the device",
                document.device.kind.label()
            )
        })
    })
}

/// The smallest ratio of a response time beside other requests to the response time alone. Requests in flight
/// together can be merged or reordered, but they still share the device.
const BESIDE_MIN: f64 = 0.2;

fn faster_beside_others(document: &Document, _: u64) -> Option<String> {
    document.figures.iter().filter(|(name, _)| name.starts_with("slowdown.")).find_map(|(name, measure)| {
        let ratio = measure.value()?.value;
        (ratio < BESIDE_MIN).then(|| {
            format!(
                "{name} is {ratio:.3}, so requests beside others took less than a fifth of their time alone; the device \
                 was not idle when it was measured alone"
            )
        })
    })
}

/// Minimum time to program a page: three quarters of the 100 µs that Z-NAND needs. This is the shortest
/// published program time (Cheong et al., A flash memory controller for 15 µs ultra-low-latency SSD, ISSCC
/// 2018). No card, eMMC or UFS device uses Z-NAND; other flash takes 500 to 700 µs.
const PROGRAM_MIN_MS: f64 = 0.075;

/// A synchronous write was only cached if it takes less time than flash needs to program a page. The rule
/// applies only to cards, eMMC and UFS, because capacitors or batteries may protect the caches of NVMe, SATA
/// and USB drives and of disk controllers.
fn synced_faster_than_flash(document: &Document, _: u64) -> Option<String> {
    let is_judged = matches!(document.device.kind, DeviceKind::Sd | DeviceKind::Emmc | DeviceKind::Ufs);
    if !is_judged || document.origin != Origin::Measured {
        return None;
    }
    let name = "sync.write.4k.p50";
    let median = document.value(name)?.value;
    (median < PROGRAM_MIN_MS).then(|| {
        format!(
            "{name} is {median:.3} ms, and no flash stores a page in less than {PROGRAM_MIN_MS} ms; the syncs did not reach the \
             flash: look for the mount option nobarrier, a queue/write_cache that says write through, or a virtual device"
        )
    })
}

/// The factor by which sequential reads can never be slower than random reads. They can be slower if
/// readahead is poor, but not by this factor, because sequential requests are larger.
const ORDER_FACTOR: f64 = 4.0;

fn sequential_below_random(document: &Document, _: u64) -> Option<String> {
    ["read", "write"].iter().find_map(|op| {
        let sequential = document.value(&format!("bandwidth.seq_{op}"))?.value;
        let random = document.value(&format!("bandwidth.rand_{op}"))?.value;
        (sequential * ORDER_FACTOR < random).then(|| {
            format!(
                "bandwidth.seq_{op} is {sequential:.1} MB/s and bandwidth.rand_{op} is {random:.1} MB/s; \
                 sequential requests are never slower than random ones by this factor"
            )
        })
    })
}

fn total_is_not_the_sum(document: &Document, _: u64) -> Option<String> {
    let total = document.value("bandwidth.total")?.value;
    let values: Option<Vec<f64>> =
        ACCESSES.iter().map(|part| Some(document.value(&format!("bandwidth.{part}"))?.value)).collect();
    let sum: f64 = values?.iter().sum();
    ((total - sum).abs() > 0.01 * sum.max(0.1)).then(|| {
        format!("bandwidth.total is {total:.1} MB/s, and the sum of the four bandwidths is {sum:.1} MB/s")
    })
}

fn median_above_p99(document: &Document, _: u64) -> Option<String> {
    for access in ACCESSES {
        for bytes in SIZES {
            let of = |statistic: &str| {
                document.value(&format!("response.{access}.{}.{statistic}", size_name(bytes)))
            };
            let (Some(median), Some(p99)) = (of("p50"), of("p99")) else { continue };
            // Both values are means over several runs.
            if median.value > p99.value * 1.01 {
                return Some(format!(
                    "the median response of {access} of {} KiB is {:.3} ms, above its 99th percentile of {:.3} ms",
                    bytes >> 10,
                    median.value,
                    p99.value
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::document::Measure;

    use super::*;
    use crate::sample;

    fn set(document: &mut Document, figure: &str, value: f64) {
        match document.figures.get_mut(figure) {
            Some(Measure::Measured(measured)) => measured.value = value,
            other => panic!("{figure} is {other:?}"),
        }
    }

    #[test]
    fn each_rule_has_its_reason_and_a_plausible_card_is_not_hidden() {
        type Change = fn(&mut Document);
        let changes: [Change; 18] = [
            |_| (),
            // The device is virtual and in a virtual machine, but it was emulated on purpose.
            |document| {
                document.origin = Origin::Emulated;
                document.device.kind = DeviceKind::Virtual;
                document.machine.virtual_machine = Some(true);
            },
            |document| document.began_unix_s += 3 * 86_400,
            |document| document.machine.virtual_machine = Some(true),
            |document| document.device.kind = DeviceKind::Virtual,
            |document| set(document, "bandwidth.seq_read", 300.0),
            // A stated limit above the fastest interface is ignored.
            |document| {
                document.device.kind = DeviceKind::Emmc;
                document.device.bus_limit_mb_s = Some(9000.0);
                set(document, "bandwidth.seq_read", 800.0);
            },
            |document| set(document, "response.rand_write.4k.p50", 0.01),
            |document| set(document, "sync.write.4k.p50", 0.031),
            |document| set(document, "bandwidth.seq_read", 2.0),
            |document| set(document, "bandwidth.total", 90.0),
            |document| set(document, "response.seq_read.64k.p50", 9.5),
            // A device of an unknown kind has limits, too.
            |document| {
                document.device.kind = DeviceKind::Other;
                document.device.bus_limit_mb_s = None;
                set(document, "bandwidth.seq_read", 32_000.0);
            },
            |document| {
                document.device.kind = DeviceKind::Other;
                document.device.bus_limit_mb_s = None;
                set(document, "response.rand_read.4k.mean", 0.0001);
            },
            |document| {
                document.device.kind = DeviceKind::SolidState;
                document.device.bus_limit_mb_s = None;
                set(document, "sustained.last", 9_000.0);
            },
            |document| document.device.kind = DeviceKind::Raid,
            |document| set(document, "slowdown.rand_read.1x1", 0.01),
            // The fastest NVMe devices answer within 6 µs.
            |document| {
                document.device.kind = DeviceKind::Nvme;
                document.device.bus_limit_mb_s = None;
                set(document, "response.rand_read.4k.mean", 0.006);
                set(document, "response.rand_read.4k.p50", 0.006);
                set(document, "sync.write.4k.p50", 0.012);
            },
        ];
        let mut shown = String::new();
        for change in changes {
            let mut document = sample::document();
            change(&mut document);
            let reason = reason_to_hide(&document, sample::BEGAN_UNIX_S + 100);
            shown += &format!("{}\n", reason.as_deref().unwrap_or("not hidden"));
        }
        expect_test::expect_file!["../tests/golden/hidden.txt"].assert_eq(&shown);
    }

    #[test]
    fn fast_syncs_are_only_suspicious_where_no_cache_can_be_safe() {
        for (kind, hidden) in [
            (DeviceKind::Sd, true),
            (DeviceKind::Emmc, true),
            (DeviceKind::Ufs, true),
            (DeviceKind::Nvme, false),
            (DeviceKind::SolidState, false),
            (DeviceKind::Usb, false),
            (DeviceKind::HardDisk, false),
            (DeviceKind::Other, false),
        ] {
            for (median, too_fast) in [(0.035, true), (0.074, true), (PROGRAM_MIN_MS, false), (0.2, false)] {
                let mut document = sample::document();
                document.device.kind = kind;
                set(&mut document, "sync.write.4k.p50", median);
                let reason = reason_to_hide(&document, sample::BEGAN_UNIX_S);
                assert_eq!(reason.is_some(), hidden && too_fast, "{kind:?} {median}: {reason:?}");
            }
        }
        // A result is not hidden if it lacks the figure, or if an older fonio measured it.
        let unknown = Some(Measure::NotMeasured("no time left".to_owned()));
        for measure in [unknown, None] {
            let mut document = sample::document();
            document.figures.remove("sync.write.4k.p50");
            document.figures.extend(measure.map(|measure| ("sync.write.4k.p50".to_owned(), measure)));
            assert_eq!(reason_to_hide(&document, sample::BEGAN_UNIX_S), None);
        }
    }
}
