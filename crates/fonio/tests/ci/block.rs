//! Tests the block writes and flushes of `fonio ci` on a file system of their own.

use fonio_testing::{Need, has, skip};

use super::*;

/// An ext4 on a loop device. Dropping this value removes both.
struct Disk {
    mounted: tempfile::TempDir,
    device: String,
    _image: tempfile::NamedTempFile,
}

impl Disk {
    /// Makes the file system, or skips the test with a reason.
    fn make() -> Option<Disk> {
        if !has(&[Need::Root, Need::Loop, Need::Mkfs, Need::Python]) {
            return None;
        }
        let image = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("an image");
        image.as_file().set_len(256 << 20).expect("its size");
        let options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        let made = Command::new("mkfs.ext4").args(options).arg(image.path()).status();
        assert!(made.is_ok_and(|status| status.success()), "mkfs.ext4 failed");
        let made = Command::new("losetup").args(["--find", "--show"]).arg(image.path()).output();
        let Some(made) = made.ok().filter(|made| made.status.success()) else {
            skip(Need::Loop, "losetup cannot create a loop device here");
            return None;
        };
        let device = text(&made.stdout).trim_end().to_owned();
        let disk = Disk { mounted: tempfile::tempdir().expect("a folder"), device, _image: image };
        let mounted = Command::new("mount").arg(&disk.device).arg(disk.mounted.path()).status();
        assert!(mounted.is_ok_and(|status| status.success()), "{} cannot be mounted", disk.device);
        Some(disk)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A lazy unmount also succeeds while another recorder looks up names there.
        let _ = Command::new("umount").arg("--lazy").arg(self.mounted.path()).status();
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

/// The loop device without a volatile cache. Dropping this value restores the cache, because the kernel keeps this setting
/// for the next file at the same number.
struct WriteThrough(PathBuf);

impl WriteThrough {
    fn set(device: &str) -> Option<WriteThrough> {
        let mode = format!("/sys/block/{}/queue/write_cache", device.trim_start_matches("/dev/"));
        fs::write(&mode, "write through").ok().map(|()| WriteThrough(mode.into()))
    }
}

impl Drop for WriteThrough {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "write back");
    }
}

/// Returns the result as JSON, or skips the test if the kernel cannot trace.
fn counted(out: &Output) -> Option<Value> {
    let json = counts_in(out);
    if json.is_none() {
        skip(Need::Tracefs, format!("block writes are not counted: {}", text(&out.stdout)));
    }
    json
}

/// Returns the result as JSON, if it contains block writes.
fn counts_in(out: &Output) -> Option<Value> {
    let (told, errors) = (text(&out.stdout), text(&out.stderr));
    let json: Value = serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}\n{errors}"));
    Some(json).filter(|json| !json["approximate"].is_null())
}

/// Runs `fonio ci`, a second time if the kernel lost events of the first, and returns the result.
#[track_caller]
fn counts_of(code: i32, run: impl Fn() -> Output) -> Value {
    let first = run();
    let out = if counts_in(&first).is_some() { first } else { run() };
    let (told, errors) = ended(&out, code);
    counts_in(&out).unwrap_or_else(|| panic!("not counted twice: {told}\n{errors}"))
}

/// Returns a field of one of the counts.
fn of<'a>(json: &'a Value, name: &str, field: &str) -> &'a Value {
    let counts = json["approximate"]["counts"].as_array().expect("a list");
    let count = counts.iter().find(|count| count["name"] == name);
    &count.unwrap_or_else(|| panic!("{name} is missing: {json}"))[field]
}

const NAMES: [&str; 3] = ["block.writes", "block.written_bytes", "block.flushes"];

/// Number of equal runs, of which all but one must show no difference.
const EQUAL_RUNS: usize = 12;

#[test]
fn equal_runs_show_no_difference_and_a_changed_one_shows_it() {
    let Some(disk) = Disk::make() else { return };
    let (dir, suite) = (disk.mounted.path(), suite());
    if !is_possible(dir) {
        return;
    }
    let budgets: Vec<String> = NAMES.iter().map(|name| format!("{name}<=100%")).collect();
    let mut words = vec!["--json", "--per", "order=10"];
    words.extend(budgets.iter().flat_map(|budget| ["--budget", budget]));
    let run = |mode: &str| ci(dir, &[&words[..], &["--", "python3", &suite, mode]].concat());
    let written = ci(dir, &["--json", "--per", "order=10", "--update", "--", "python3", &suite, "WAL"]);
    let Some(first) = counted(&written) else { return };
    // Each of the ten orders is synced: one block or more, and a flush.
    for name in NAMES {
        assert!(of(&first, name, "is")["least"].as_u64() >= Some(10), "{name}: {first}");
    }
    let baseline = fs::read_to_string(dir.join("fonio-baseline.json")).expect("a baseline");
    let baseline: Value = serde_json::from_str(&baseline).expect("JSON");
    assert_eq!(baseline["approximate"]["tolerance"], 0.2);
    assert_eq!(baseline["approximate"]["counts"]["block.writes"], *of(&first, "block.writes", "is"));
    let exact = baseline["counts"].as_object().expect("counts");
    assert!(!exact.keys().any(|name| name.starts_with("block")), "{baseline}");

    let mut odd = Vec::new();
    for at in 0..EQUAL_RUNS {
        let out = run("WAL");
        let json = counts_in(&out);
        let is_within =
            |name: &&str| json.as_ref().is_some_and(|json| *of(json, name, "difference") == "within");
        if !out.status.success() || !NAMES.iter().all(is_within) {
            odd.push(format!("run {at}: {}\n{}", text(&out.stdout), text(&out.stderr)));
        }
    }
    // All programs of the machine share the disks' trace and the journal: one of them may fill the buffers, or sync.
    assert!(odd.len() <= 1, "{odd:#?}");

    // Three times as many orders in the same number of units, without a write-ahead log.
    let thrice = format!("for at in 1 2 3; do python3 '{suite}' DELETE; done");
    let changed = ["--", "sh", "-c", &thrice];
    let json = counts_of(1, || ci(dir, &[&words[..], &changed].concat()));
    for (name, budget) in NAMES.iter().zip(json["budgets"].as_array().expect("a list")) {
        assert_eq!(
            (of(&json, name, "difference"), &budget["is_kept"]),
            (&"more".into(), &false.into()),
            "{json}"
        );
        let sentence = budget["sentence"].as_str().expect("a sentence");
        assert!(sentence.contains("outside") && sentence.ends_with("of the baseline"), "{sentence}");
    }
    // The same difference is within a tolerance of 900 %; the exact counts differ.
    let tolerant = ["--json", "--per", "order=10", "--tolerance", "900%", "--budget", "block.flushes<=100%"];
    let json = counts_of(1, || ci(dir, &[&tolerant[..], &changed].concat()));
    assert_eq!(*of(&json, "block.flushes", "difference"), "within");
    assert_eq!(json["budgets"][0]["is_kept"], true, "{json}");

    let comment = ["--per", "order=10", "--comment", "comment.md", "--", "python3", &suite, "WAL"];
    ended(&ci(dir, &comment), 0);
    let comment = fs::read_to_string(dir.join("comment.md")).expect("a comment");
    assert!(comment.contains("| `block.writes` | about "), "{comment}");
    assert!(comment.contains("| within the tolerance |"), "{comment}");
    assert!(comment.contains("Block writes and flushes per order, about (± 20 %)"), "{comment}");
}

#[test]
fn data_that_no_program_syncs_count_too() {
    let Some(disk) = Disk::make() else { return };
    let dir = disk.mounted.path();
    if !is_possible(dir) {
        return;
    }
    let words =
        ["--json", "--budget", "block.flushes<=0", "--", "sh", "-c", "head -c 1000000 /dev/zero > data"];
    let out = ci(dir, &words);
    let Some(json) = counted(&out) else { return };
    ended(&out, 0);
    let bytes = of(&json, "block.written_bytes", "is")["least"].as_u64().expect("a number");
    // The data, and the journal.
    assert!((1_000_000..1_300_000).contains(&bytes), "{json}");

    let Some(_mode) = WriteThrough::set(&disk.device) else {
        return fonio_testing::skip_part(Need::Loop, "the mode of a loop device's cache cannot be set");
    };
    let words = [
        "--json",
        "--budget",
        "block.writes>=1",
        "--",
        "dd",
        "if=/dev/zero",
        "of=x",
        "count=1",
        "conv=fsync",
    ];
    let (told, _) = ended(&ci(dir, &words), 0);
    assert!(told.contains("the kernel sends none to a disk without a volatile cache (loop"), "{told}");
}

#[test]
fn block_writes_that_cannot_be_counted_have_a_reason_and_no_number() {
    if !has(&[Need::Root]) {
        return;
    }
    let dir = folder();
    let dir = dir.path();
    if !is_possible(dir) {
        return;
    }
    let program = dir.join("fonio");
    fonio_testing::copy_program(env!("CARGO_BIN_EXE_fonio"), &program);
    let run = |budget: &str| {
        let mut command = Command::new("setpriv");
        command.args(NOBODY).arg(&program).args(["ci", "--json", "--budget", budget, "--", "true"]);
        command.current_dir(dir).env("HOME", "/nonexistent").output()
    };
    let Ok(out) = run("all.writes>=0") else { return skip(Need::Root, "setpriv is missing") };
    let (told, _) = ended(&out, 0);
    let json: Value = serde_json::from_str(&told).expect("JSON");
    assert!(json["approximate"].is_null(), "{told}");
    let reasons = json["not_counted"].to_string();
    assert!(reasons.contains("block writes and flushes: ") && reasons.contains("root"), "{reasons}");
    let (_, errors) = ended(&run("block.writes<=5").expect("setpriv starts"), 3);
    assert!(errors.contains("the budget for block.writes cannot be checked: "), "{errors}");
}
