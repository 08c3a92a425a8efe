//! Launches an app, with the words of Android's own `am start -W`.

use std::fmt;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use fonio_core::printable;

use crate::adb::{Adb, failed};
use crate::error::AndroidError;
use crate::phone::Phone;

/// Time for which the phone is left alone before a launch.
const PAUSE: Duration = Duration::from_secs(2);
/// The key HOME of `input keyevent`.
const HOME: &str = "input keyevent 3";
/// `FLAG_ACTIVITY_NEW_TASK` and `FLAG_ACTIVITY_CLEAR_TASK`: the activity is made anew, in the process that runs.
const NEW_ACTIVITY: &str = "-f 0x10008000 ";
/// Asks Android's init to drop the page cache, which a shell without root may do from Android 12 on, and waits until
/// it has done so.
const DROP_CACHES: &str = "sync; if [ $(id -u) = 0 ]; then echo 3 > /proc/sys/vm/drop_caches && echo dropped; else \
    setprop perf.drop_caches 3; for n in 1 2 3 4 5 6 7 8 9 10; do [ \"$(getprop perf.drop_caches)\" = 0 ] && \
    { echo dropped; break; }; sleep 0.5; done; fi";

/// An activity of an app, such as `com.example/.Main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    package: String,
    activity: String,
}

impl Component {
    /// Returns the package of the app.
    pub fn package(&self) -> &str {
        &self.package
    }
}

impl FromStr for Component {
    type Err = String;

    fn from_str(text: &str) -> Result<Component, String> {
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "._$".contains(c))
        };
        match text.split_once('/') {
            Some((package, activity)) if is_name(package) && is_name(activity) => {
                Ok(Component { package: package.to_owned(), activity: activity.to_owned() })
            }
            _ => Err(format!(
                "{} is not an activity; write PACKAGE/ACTIVITY, as in com.example/.Main. `adb shell cmd package \
                 resolve-activity --brief PACKAGE` names it",
                printable(text)
            )),
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.package, self.activity)
    }
}

/// The state from which an app is launched, as Android's Macrobenchmark defines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFrom {
    /// The process does not run, and the page cache was dropped, if the phone allows that.
    Cold,
    /// The process runs, and the activity is made anew.
    Warm,
    /// The activity exists, and is only brought to the front.
    Hot,
}

/// What `am start -W` said of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// The time until the first frame (`TotalTime`); `None` if Android did not say it, as when an activity is only
    /// brought to the front.
    pub total: Option<Duration>,
    /// The state from which Android itself says that it launched, such as `COLD`.
    pub state: Option<String>,
    /// Whether the page cache was dropped before.
    pub dropped_caches: bool,
}

/// Brings the app into the state from which launches are measured, before the first of them. A warm or hot launch needs
/// a running app.
///
/// # Errors
/// Fails if the app cannot be started, or if the phone does not answer.
pub fn prepare(adb: &Adb, component: &Component, from: StartFrom) -> Result<(), AndroidError> {
    if from != StartFrom::Cold {
        start(adb, component, "")?;
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Launches the app once.
///
/// # Errors
/// Fails if the app cannot be started, or if the phone does not answer.
pub fn launch(
    adb: &Adb,
    phone: &Phone,
    component: &Component,
    from: StartFrom,
) -> Result<Started, AndroidError> {
    adb.shell(HOME)?;
    let mut dropped_caches = false;
    if from == StartFrom::Cold {
        adb.shell(&format!("am force-stop {}", component.package))?;
        if phone.can_drop_caches() {
            dropped_caches = adb.shell(DROP_CACHES)?.out.contains("dropped");
        }
    }
    thread::sleep(PAUSE);
    let started = start(adb, component, if from == StartFrom::Warm { NEW_ACTIVITY } else { "" })?;
    // The end of the launch must be in the trace.
    thread::sleep(PAUSE);
    Ok(Started { dropped_caches, ..started })
}

fn start(adb: &Adb, component: &Component, flags: &str) -> Result<Started, AndroidError> {
    // A name of an inner class contains a dollar sign.
    let answer = adb.shell(&format!("am start -W {flags}-n '{component}'"))?;
    let has_failed =
        answer.out.lines().any(|line| line.starts_with("Error")) || answer.errors.contains("Error");
    if answer.code != 0 || has_failed {
        return Err(failed(&["shell", "am start"], &answer));
    }
    Ok(parse(&answer.out))
}

fn parse(text: &str) -> Started {
    let mut started = Started::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once(": ")) {
        match name.trim() {
            "TotalTime" => started.total = value.trim().parse().ok().map(Duration::from_millis),
            "LaunchState" => started.state = Some(printable(value.trim()).into_owned()),
            _ => {}
        }
    }
    started.total = started.total.filter(|total| !total.is_zero());
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_checked() {
        for (text, is_one) in [
            ("com.example/.Main", true),
            ("com.example.app/com.example.Main$Inner", true),
            ("com.example", false),
            ("com.example/", false),
            ("com.example/.Main; reboot", false),
            ("com.example/.Main'x", false),
        ] {
            assert_eq!(
                text.parse::<Component>().map(|found| found.to_string()).ok(),
                is_one.then(|| text.to_owned())
            );
        }
    }

    #[test]
    fn the_answer_of_am_is_read() {
        // The texts are those of AOSP's ActivityManagerShellCommand.
        let cold = "Starting: Intent { cmp=com.example/.Main }\nStatus: ok\nLaunchState: COLD\n\
                    Activity: com.example/.Main\nTotalTime: 412\nWaitTime: 415\nComplete\n";
        let expected = Started {
            total: Some(Duration::from_millis(412)),
            state: Some("COLD".to_owned()),
            dropped_caches: false,
        };
        assert_eq!(parse(cold), expected);
        let front = "Warning: Activity not started, its current task has been brought to the front\nStatus: ok\n\
                     LaunchState: HOT\nActivity: com.example/.Main\nTotalTime: 0\nWaitTime: 3\nComplete\n";
        assert_eq!((parse(front).total, parse(front).state.as_deref()), (None, Some("HOT")));
    }
}
