//! Asks a phone what it is, and whether it can record.

use fonio_core::printable;

use crate::adb::{Adb, failed};
use crate::error::AndroidError;

/// The first version of Android whose `perfetto` may record block requests: 9.
const SDK_MIN: u32 = 28;
/// The first version on which the tracing service always runs: 11.
const SDK_ALWAYS_ON: u32 = 30;

/// The first version on which a shell without root may drop the page cache: 12.
const SDK_DROPS_CACHES: u32 = 31;

/// Prints facts, one a line. Properties that do not exist are empty.
const FACTS: &str = "\
echo sdk=$(getprop ro.build.version.sdk)
echo release=$(getprop ro.build.version.release)
echo model=$(getprop ro.product.model)
echo build=$(getprop ro.build.type)
echo traced=$(getprop persist.traced.enable)
echo kernel=$(uname -r)
echo user=$(id -u)
echo abi=$(getprop ro.product.cpu.abi)
echo perfetto=$(command -v perfetto)
echo atrace=$(command -v atrace)
echo su=$(command -v su)";

/// A phone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phone {
    /// The model, such as `Pixel 7`; empty if the phone does not say it.
    pub model: String,
    /// The version of Android, such as `14`.
    pub release: String,
    /// The number of the version's interface, such as 34.
    pub sdk: u32,
    /// The kind of the build: `user` on phones that people buy, `userdebug` or `eng` on those of developers.
    pub build: String,
    /// The version of the kernel.
    pub kernel: String,
    /// Whether adb's shell is root.
    pub is_root: bool,
    /// The kind of the processor, such as `arm64-v8a`.
    pub abi: String,
    has_perfetto: bool,
    pub(crate) has_atrace: bool,
    pub(crate) has_su: bool,
    is_traced_off: bool,
}

impl Phone {
    /// Asks the phone.
    ///
    /// # Errors
    /// Fails if the phone does not answer.
    pub fn ask(adb: &Adb) -> Result<Phone, AndroidError> {
        let answer = adb.shell(FACTS)?;
        if answer.code != 0 && answer.out.trim().is_empty() {
            return Err(failed(&["shell"], &answer));
        }
        Ok(Phone::parse(&answer.out))
    }

    pub(crate) fn parse(text: &str) -> Phone {
        let mut phone = Phone::default();
        for (name, value) in text.lines().filter_map(|line| line.trim_end().split_once('=')) {
            let text = || printable(value).into_owned();
            match name {
                "sdk" => phone.sdk = value.parse().unwrap_or_default(),
                "release" => phone.release = text(),
                "model" => phone.model = text(),
                "build" => phone.build = text(),
                "kernel" => phone.kernel = text(),
                "user" => phone.is_root = value == "0",
                "abi" => phone.abi = text(),
                "atrace" => phone.has_atrace = !value.is_empty(),
                "su" => phone.has_su = !value.is_empty(),
                "perfetto" => phone.has_perfetto = !value.is_empty(),
                "traced" => phone.is_traced_off = value != "1",
                _ => {}
            }
        }
        phone
    }

    /// Checks that the phone's own Perfetto can record. The error is the reason.
    pub(crate) fn check(&self) -> Result<(), String> {
        let reason = if self.sdk != 0 && self.sdk < SDK_MIN {
            format!("Android {} lets nobody but root record by it", self.release)
        } else if !self.has_perfetto {
            "it has no program `perfetto`".to_owned()
        } else if self.sdk != 0 && self.sdk < SDK_ALWAYS_ON && self.is_traced_off {
            "its tracing service is off; switch it on with `adb shell setprop persist.traced.enable 1`"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(reason)
    }

    /// Returns whether adb's shell may ask for an empty page cache: as root, or from Android 12 on.
    pub(crate) fn can_drop_caches(&self) -> bool {
        self.is_root || self.sdk >= SDK_DROPS_CACHES
    }

    /// Returns the phone in a few words, such as `Pixel 7, Android 14, Linux 5.10.157`.
    pub fn name(&self) -> String {
        let release =
            if self.release.is_empty() { String::new() } else { format!("Android {}", self.release) };
        let kernel = if self.kernel.is_empty() { String::new() } else { format!("Linux {}", self.kernel) };
        let parts = [self.model.clone(), release, kernel];
        let known: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        if known.is_empty() { "a phone that does not say what it is".to_owned() } else { known.join(", ") }
    }

    /// Returns whether Android lets this shell see all events of the block layer.
    pub(crate) fn shows_everything(&self) -> bool {
        self.is_root || ["userdebug", "eng"].contains(&self.build.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIXEL: &str = "sdk=34\nrelease=14\nmodel=Pixel 7\nbuild=user\ntraced=1\nkernel=5.10.157-android13\nuser=2000\n\
                         perfetto=/system/bin/perfetto\n";

    #[test]
    fn facts_are_read() {
        let phone = Phone::parse(PIXEL);
        assert_eq!(phone.name(), "Pixel 7, Android 14, Linux 5.10.157-android13");
        assert!(!phone.is_root && !phone.shows_everything());
        assert!(phone.check().is_ok());
        let rooted = Phone::parse(&PIXEL.replace("user=2000", "user=0\r"));
        assert!(rooted.is_root && rooted.shows_everything());
        assert_eq!(Phone::parse("").name(), "a phone that does not say what it is");
        assert_eq!(Phone::parse("model=x\u{1b}[2J\n").model, "x\\x1b[2J");
    }

    #[test]
    fn a_phone_that_cannot_record_says_why() {
        for (from, to, expected) in [
            (
                "sdk=34\nrelease=14",
                "sdk=27\nrelease=8.1.0",
                "Android 8.1.0 lets nobody but root record by it",
            ),
            ("/system/bin/perfetto", "", "has no program `perfetto`"),
            ("sdk=34", "sdk=29", ""),
            (
                "sdk=34\nrelease=14\nmodel=Pixel 7\nbuild=user\ntraced=1",
                "sdk=29\ntraced=",
                "setprop persist.traced.enable 1",
            ),
        ] {
            let checked = Phone::parse(&PIXEL.replace(from, to)).check();
            match expected {
                "" => assert!(checked.is_ok(), "{checked:?}"),
                part => {
                    let error = checked.expect_err(part);
                    assert!(error.contains(part), "{error}");
                }
            }
        }
    }
}
