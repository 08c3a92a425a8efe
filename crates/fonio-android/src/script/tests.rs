use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::run::run_in;
use super::*;
use crate::stand_in::StandIn;

const TEXT: &str = r#"
name = "gallery"
title = "Looks at pictures"
app = "com.example"
idle = { below = 0.2, seconds = 0.0, limit = 5.0 }

[[prepare]]
do = "force_stop"

[[steps]]
do = "launch"
activity = "com.example/.Main$Inner"

[[steps]]
do = "repeat"
times = 2
steps = [
  { do = "tap_any" },
  { do = "monkey", events = 5, seconds = 0.1 },
  { do = "tap_any", app = "com.other" },
]

[[steps]]
do = "swipe"
from = [1, 2]
to = [3, 4]

[[steps]]
do = "text"
text = "it's me; $(reboot)"

[[steps]]
do = "key"
key = "BACK"

[[steps]]
do = "until_idle"

[[steps]]
do = "think"
seconds = 0.01
"#;

/// Writes each line that the phone runs.
const LOG: &str = "#!/bin/sh\necho \"${0##*/}\" \"$@\" >> \"$(dirname \"$0\")/log\"\n";
const UIAUTOMATOR: &str = r#"#!/bin/sh
# The first dump of all fails, as on a screen that moves.
[ -e "$(dirname "$0")/moved" ] || { : > "$(dirname "$0")/moved"; echo "ERROR: could not get idle state."; exit 0; }
printf '<hierarchy rotation="0">' > "$2"
for n in 1 2 3 4 5 6 7 8 9; do
    printf '<node class="Button%s" package="com.example" clickable="true" enabled="true" bounds="[0,%s0][10,%s8]" />' $n $n $n >> "$2"
done
printf '</hierarchy>' >> "$2"
echo "UI hierchary dumped to: $2"
"#;

fn parse(text: &str) -> Result<Script, String> {
    Script::parse(text, Path::new("script.toml")).map_err(|error| error.to_string())
}

/// Runs the script, and returns the actions, and the lines that the phone ran. Whether the stand-in was idle depends on
/// this machine's processors, so it is left out.
fn run_with(seed: u64) -> (Vec<String>, String) {
    let phone = StandIn::new(&[]);
    for name in ["am", "input", "monkey"] {
        phone.program(name, LOG);
    }
    phone.program("uiautomator", UIAUTOMATOR);
    let script = parse(TEXT).expect("a script");
    let stop = AtomicBool::new(false);
    let options = ScriptOptions { seed, pace: 1.0, stop: &stop };
    let mut told = 0;
    let adb = phone.connect();
    let done = run_in(&adb, &script, &script.steps, options, &phone.folder(), &mut |_| told += 1);
    let done = done.expect("it runs");
    assert_eq!(told, done.len());
    let shown = done.into_iter().map(|done| match done.note {
        Some(note) if done.action == "until idle" => {
            assert!(note == "idle" || note == "not idle within 5 s", "{note}");
            done.action
        }
        note => format!("{} ({})", done.action, note.unwrap_or_default()),
    });
    assert_eq!(phone.left(), [] as [PathBuf; 0]);
    (shown.collect(), fs::read_to_string(phone.dir.path().join("log")).expect("a log"))
}

#[test]
fn equal_seeds_give_equal_actions() {
    let (first, log) = run_with(10);
    assert_eq!(first, run_with(10).0);
    assert_ne!(first, run_with(11).0, "another seed, other elements and other events");
    assert_eq!(first.len(), 12, "{first:?}");
    assert_eq!(first[0], "am start -W -n 'com.example/.Main$Inner' ()");
    assert!(first[1].starts_with("input tap 5 ") && first[1].ends_with(", 1 of 9)"), "{first:?}");
    assert!(first[2].starts_with("monkey -p com.example -s ") && first[2].ends_with(" --throttle 100 5 ()"));
    assert_ne!(first[2], first[5], "each repetition has its own events");
    assert_eq!(first[3], "tap any (the screen shows nothing that can be touched)");
    assert_eq!(first[7], "input swipe 1 2 3 4 300 ()");
    assert_eq!(first[10], "until idle");
    // What the phone ran: the text is one word, and nothing in it is a command.
    assert!(log.starts_with("am start -W -n com.example/.Main$Inner\ninput tap 5 "), "{log}");
    assert!(log.contains("\ninput text it's%sme;%s$(reboot)\ninput keyevent BACK\n"), "{log}");
    assert_eq!(log.lines().count(), 8, "{log}");
}

#[test]
fn a_failed_action_names_its_line() {
    let phone = StandIn::new(&[]);
    phone.program("am", "#!/bin/sh\necho 'Error type 3'\necho 'Error: Activity class does not exist.'\n");
    let script = parse(TEXT).expect("a script");
    let stop = AtomicBool::new(false);
    let options = ScriptOptions { seed: 1, pace: 1.0, stop: &stop };
    let error =
        run(&phone.connect(), &script, &script.steps, options, &mut |_| {}).expect_err("no app").to_string();
    assert!(error.contains("am start -W -n 'com.example/.Main$Inner'` failed: Error type 3"), "{error}");
    assert_eq!(phone.left(), [] as [PathBuf; 0]);
}

#[test]
fn mistakes_are_explained() {
    for (from, to, expected) in [
        ("do = \"key\"", "do = \"press\"", "unknown variant `press`"),
        ("key = \"BACK\"", "key = \"BACK; reboot\"", "is not a key"),
        ("times = 2", "times = 2\nfoo = 1", "unknown field"),
        ("times = 2", "times = 4000000000", "more than 100000 steps"),
        ("app = \"com.example\"\nidle", "idle", "needs an app"),
        ("app = \"com.example\"\nidle", "app = \"a b\"\nidle", "a b is not a package"),
        ("below = 0.2", "below = 2.0", "idle.below"),
        ("seconds = 0.01", "seconds = -1.0", "-1 is not a time"),
        ("seconds = 0.01", "seconds = nan", "NaN is not a time"),
        ("text = \"it's me; $(reboot)\"", "text = \"ü\"", "printable ASCII"),
        ("com.example/.Main$Inner", "com.example", "is not an activity"),
    ] {
        assert!(TEXT.contains(from), "{from}");
        let error = parse(&TEXT.replace(from, to)).expect_err(expected);
        assert!(error.contains(expected) && error.contains("script.toml"), "{error}");
    }
    assert!(parse("name = \"x\"\nsteps = []").expect_err("empty").contains("there are no steps"));
}
