//! A stand-in for a phone in tests: the client and the programs of the phone are scripts, and the shell is real. No phone is
//! touched.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::adb::Adb;

/// Stands for the adb client: commands of the phone run in this machine's shell.
const ADB: &str = r#"#!/bin/sh
PATH="$(dirname "$0"):$PATH"
case "$1" in
devices) [ -e "$(dirname "$0")/stall" ] && sleep 60; printf 'List of devices attached\nX1 device model:Stand_in\n' ;;
-s) [ "$2 $3 $4" = "X1 shell -T" ] || exit 9; exec sh -c "$5" ;;
esac
"#;
/// Stands for Perfetto: writes its configuration as the trace, and ends after 60 s or when it is asked to.
const PERFETTO: &str = r#"#!/bin/sh
[ "$1 $2 $3" = "-c - -o" ] || { echo "bad arguments" >&2; exit 2; }
[ -e "$(dirname "$0")/refuse" ] && { echo "traced is not running" >&2; exit 3; }
cat > "$4"
trap 'echo stopped >> "$4"; kill $!; exit 0' TERM
[ -e "$(dirname "$0")/short" ] || { sleep 60 & wait $!; }
"#;
const GETPROP: &str =
    "#!/bin/sh\ncase $1 in ro.build.version.sdk) echo 34 ;; ro.product.model) echo Stand-in ;; esac\n";

pub(crate) struct StandIn {
    pub(crate) dir: tempfile::TempDir,
}

impl StandIn {
    /// Creates the programs, and these files next to them.
    pub(crate) fn new(marks: &[&str]) -> StandIn {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, text) in [("adb", ADB), ("perfetto", PERFETTO), ("getprop", GETPROP)] {
            fonio_testing::write_program(&dir.path().join(name), text);
        }
        marks.iter().for_each(|mark| fs::write(dir.path().join(mark), "").expect("written"));
        fs::create_dir(dir.path().join("traces")).expect("created");
        StandIn { dir }
    }

    /// Adds a program of the phone.
    pub(crate) fn program(&self, name: &str, text: &str) -> PathBuf {
        let file = self.dir.path().join(name);
        fonio_testing::write_program(&file, text);
        file
    }

    pub(crate) fn connect(&self) -> Adb {
        Adb::connect_by(self.dir.path().join("adb"), None, Duration::from_secs(5)).expect("it is connected")
    }

    /// Returns the folder that stands for the phone's folder of traces.
    pub(crate) fn folder(&self) -> String {
        self.dir.path().join("traces").display().to_string()
    }

    /// Returns the files in that folder.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder()).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}
