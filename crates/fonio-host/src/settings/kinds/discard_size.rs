//! The setting for the maximum size of a discard that the kernel sends to a disk.
//!
//! The kernel accepts only values below 4 GiB that are multiples of the device's discard unit, and caps them
//! at the device's own limit (`block/blk-sysfs.c`). The device's own limit can be 4 GiB or more, and is not
//! always a multiple of this unit. So fonio adapts a value to the device before it sets the value. To set the
//! device's own limit, fonio writes a larger value, which the kernel caps.

use fonio_core::ByteCount;
use fonio_core::quantity::Unit;

use crate::settings::kind::*;

/// The values are sizes in bytes.
pub(super) struct DiscardSize;

const FACTS: Facts = Facts {
    tag: "queue",
    of: Some("discard_size"),
    title: "the maximum discard size in bytes",
    held: Held::QueueFile(FILE),
    fixes: &[SettingFix {
        name: "discard-size",
        does: "the kernel discards at most 128 MiB at once, or SIZE with discard-size=SIZE, so reads and writes wait less for discards",
        needs: "a disk that can discard",
        source: "the kernel's documentation (discard_max_bytes); the size is that of Android's init.rc",
        trial: Trial::Discards,
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

/// The value that Android's `system/core/rootdir/init.rc` sets for internal flash, "to avoid long IO
/// latency".
const SIZE: ByteCount = ByteCount(128 << 20);

/// The setting's file in the `queue` folder of sysfs.
const FILE: &str = "discard_max_bytes";

impl Kind for DiscardSize {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::size(text, SIZE.0, 4 << 10)
    }

    fn value(&self, wanted: &Value, on: &Object) -> Result<String, Refusal> {
        Ok(Discards::of(on.disk())?.fitted(wanted.size())?.0.to_string())
    }

    fn current(&self, on: &Object) -> Result<Option<String>, HostError> {
        let shown = Queue::of(on.disk()).read(FILE)?;
        let discards = Discards::of(on.disk())?;
        Ok(Some(shown.parse().map_or(shown, |shown| discards.in_force(shown).to_string())))
    }

    fn set(&self, on: &Object, value: &str) -> Result<(), HostError> {
        let discards = Discards::of(on.disk())?;
        let written = value.parse().map_or(value.to_owned(), |bytes| discards.written(bytes).to_string());
        Queue::of(on.disk()).write(FILE, &written)
    }

    fn difference(&self, wanted: &Value, on: &Object, new: &str) -> Option<String> {
        Discards::of(on.disk()).ok()?.difference(wanted.size(), ByteCount(new.parse().ok()?))
    }
}

/// Maximum value that the kernel accepts (`queue_var_store`). Discards are not larger, because a bio stores
/// its size in 32 bits.
const WRITTEN_MAX: u64 = u32::MAX as u64;

#[derive(Clone, Copy, Debug)]
struct Discards {
    /// Maximum discard size of the device; 0 if it cannot discard.
    device_max: u64,
    /// A power of two; the kernel accepts only multiples of it. The kernel checks a value with a bit mask
    /// that it derives from the discard granularity.
    step: u64,
}

impl Discards {
    fn new(device_max: u64, granularity: u64) -> Discards {
        Discards { device_max, step: granularity.max(512).next_power_of_two() }
    }

    fn of(device: &str) -> Result<Discards, HostError> {
        let queue = Queue::of(device);
        let number = |attribute: &str| -> Result<u64, HostError> {
            let unreadable = |error: std::num::ParseIntError| {
                let source = std::io::Error::new(std::io::ErrorKind::InvalidData, error);
                HostError::system("understand", format!("/sys/block/{device}/queue/{attribute}"))(source)
            };
            queue.read(attribute)?.parse().map_err(unreadable)
        };
        Ok(Discards::new(number("discard_max_hw_bytes")?, number("discard_granularity")?))
    }

    /// Returns the limit that the device gets if the user requests the limit `wanted`.
    fn fitted(self, wanted: ByteCount) -> Result<ByteCount, String> {
        if self.device_max == 0 {
            return Err(
                "the disk cannot discard (its discard_max_hw_bytes is 0): the device or its adapter does not support it"
                    .to_owned(),
            );
        }
        if wanted.0 >= self.device_max.min(self.written_max()) {
            return Ok(ByteCount(self.device_max));
        }
        match wanted.0 - wanted.0 % self.step {
            0 => Err(format!(
                "discards are in units of {}: write at least one unit",
                ByteCount(self.step).to_exact_text()
            )),
            fitted => Ok(ByteCount(fitted)),
        }
    }

    /// If the limit `fitted` differs from the requested limit, returns a clause that explains how.
    fn difference(self, wanted: ByteCount, fitted: ByteCount) -> Option<String> {
        let fitted_text = fitted.to_exact_text();
        if fitted == wanted {
            None
        } else if fitted.0 == self.device_max {
            // Round the number, because a device's own limit is often not a round number.
            let largest = Unit::Bytes.format(self.device_max.min(WRITTEN_MAX) as f64);
            Some(format!("the device accepts at most {largest} in one discard"))
        } else {
            let unit = ByteCount(self.step).to_exact_text();
            Some(format!("the device discards in units of {unit}, so its limit becomes {fitted_text}"))
        }
    }

    /// Returns the value that fonio must write so that the limit `bytes` is in force.
    fn written(self, bytes: u64) -> u64 {
        if bytes < self.device_max.min(self.written_max()) {
            return bytes;
        }
        self.device_max.next_multiple_of(self.step).min(self.written_max())
    }

    fn written_max(self) -> u64 {
        WRITTEN_MAX - WRITTEN_MAX % self.step
    }

    /// Returns the limit in force if the kernel shows the value `shown`. The kernel may not accept the
    /// device's own limit as a value. The largest value that the kernel accepts allows the same discards,
    /// because each discard consists of complete units and is smaller than 4 GiB.
    fn in_force(self, shown: u64) -> u64 {
        if shown == self.written(self.device_max) { self.device_max } else { shown }
    }
}

#[cfg(test)]
mod tests {
    use fonio_testing::skip_without;

    use super::*;
    use crate::ledger::Ledger;
    use crate::loop_device::{LoopDevice, LoopOptions};
    use crate::settings::{Setting, Settings, Undone};

    #[test]
    fn a_limit_is_fitted_to_the_device() {
        let fitted = |device_max, granularity, wanted| {
            let (discards, wanted) = (Discards::new(device_max, granularity), ByteCount(wanted));
            let fitted = discards.fitted(wanted)?;
            Ok((fitted.0, discards.difference(wanted, fitted)))
        };
        for (device_max, granularity, wanted, expected) in [
            (1 << 30, 4096, 128 << 20, Ok((128 << 20, None))),
            (
                64 << 20,
                512,
                128 << 20,
                Ok((64 << 20, Some("the device accepts at most 64 MiB in one discard"))),
            ),
            (
                1 << 30,
                4 << 20,
                6 << 20,
                Ok((4 << 20, Some("the device discards in units of 4MiB, so its limit becomes 4MiB"))),
            ),
            // On TLC cards, the unit is not a power of two.
            (1 << 30, 12 << 20, 8 << 20, Err("discards are in units of 16MiB: write at least one unit")),
            (
                0,
                0,
                1 << 20,
                Err(
                    "the disk cannot discard (its discard_max_hw_bytes is 0): the device or its adapter does not support it",
                ),
            ),
        ] {
            let expected =
                expected.map(|(bytes, says)| (bytes, says.map(str::to_owned))).map_err(str::to_owned);
            assert_eq!(fitted(device_max, granularity, wanted), expected, "{wanted}");
        }
    }

    #[test]
    fn the_limit_of_the_device_comes_back_though_the_kernel_does_not_take_it() {
        for (device_max, granularity) in [
            (1_u64 << 30, 4096_u64),
            // These limits are those of a loop device (nearly 2^32 bytes) and a zram device (nearly 2^32
            // sectors).
            (4_294_966_784, 4096),
            (2_199_023_255_040, 4096),
            (2_199_023_255_040, 512),
            (12 << 20, 12 << 20),
        ] {
            let discards = Discards::new(device_max, granularity);
            let written = discards.written(device_max);
            assert_eq!(written & (granularity - 1), 0, "the kernel accepts {written}");
            assert!(written <= WRITTEN_MAX);
            assert_eq!(discards.in_force(written.min(device_max)), device_max);
            assert_eq!(discards.fitted(ByteCount(8 << 30)), Ok(ByteCount(device_max)));
            assert_eq!(discards.in_force(1 << 20), 1 << 20);
        }
    }

    /// Checks on a loop device which values the kernel accepts and which values it then shows.
    #[test]
    fn a_real_device_is_limited_and_gets_its_own_limit_back() {
        skip_without!(Root, Loop);
        let dir = tempfile::tempdir().expect("dir");
        let image = dir.path().join("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("image");
        let mut ledger = Ledger::open(&dir.path().join("ledger")).expect("ledger");
        let device = LoopDevice::attach(&mut ledger, &image, &LoopOptions::default()).expect("loop device");
        let shown = || Queue::of(&device.name()).read(FILE).expect("limit");
        let in_force =
            || DiscardSize.current(&Object::Disk(device.name())).expect("limit").expect("it is there");
        let before = in_force();
        assert_eq!(before, shown());
        let setting = |size| Setting::with_value("discard-size", Value::Size(ByteCount(size)));
        let plan = |size| setting(size).plan(device.path());
        if before == "0" {
            let refused = plan(1 << 20).expect_err("refused").to_string();
            assert!(refused.contains("the disk cannot discard (its discard_max_hw_bytes is 0)"), "{refused}");
            return;
        }
        let refused = plan(1 << 60).expect_err("refused").to_string();
        assert!(
            refused.contains("the device accepts at most ")
                && refused.contains(" in one discard, and this value is already in force"),
            "{refused}"
        );
        let mut settings = Settings::open(&dir.path().join("state")).expect("settings");
        // Some kernels discard on loop devices in units of 4 KiB, of which the second size is not a multiple.
        for size in [1 << 20, (2 << 20) + 512] {
            let planned = plan(size).expect("plan");
            settings.apply(&planned).expect("apply");
            assert_eq!(shown(), planned.new);
            assert!(setting(size).is_in_force_as(&planned));
            assert_eq!(setting(size).fitted_to(&planned).is_some(), planned.new != size.to_string());
        }
        let applied = settings.applied().to_vec();
        assert_eq!(settings.undo(&applied[0]).expect("undo"), Undone::Restored);
        assert_eq!(in_force(), before);
    }
}
