//! Runs fonio as a user does, on real traces and on damaged ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;

use super::{json, text, trace};

fn blktrace() -> PathBuf {
    trace("takeoverjp-sample.blktrace.0")
}

fn fonio(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    super::fonio(arguments)
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    text(&output.stderr)
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("fonio was not killed")
}

#[test]
fn the_verdict_is_the_first_line() {
    let output = fonio(&[&"report", &blktrace()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    let first = text.lines().next().expect("a line");
    assert!(first.contains("Storage"), "{first}");
    assert!(!text.contains('\x1b'), "no colour in a pipe");
}

#[test]
fn a_report_on_a_trace_is_the_report_on_its_import() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let recording = dir.path().join("recording");
    for trace in [blktrace(), trace("ftrace-6.18.txt")] {
        let imported = fonio(&[&"import", &trace, &"--overwrite", &"--output", &recording]);
        assert_eq!(code(&imported), 0, "{}", stderr(&imported));
        let direct = fonio(&[&"report", &trace, &"--json"]);
        let through = fonio(&[&"report", &recording, &"--json"]);
        assert!(!direct.stdout.is_empty());
        assert!(direct.stdout == through.stdout, "{} differs after import", trace.display());
    }
}

#[test]
fn a_recording_is_replayed_in_models_of_schedulers() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let recording = dir.path().join("recording");
    let imported = fonio(&[&"import", &blktrace(), &"--output", &recording]);
    assert_eq!(code(&imported), 0, "{}", stderr(&imported));
    let replay = |more: &[&str]| {
        let mut words: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"replay", &recording];
        words.extend(more.iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>));
        fonio(&words)
    };
    let output = replay(&["--on", "model:samsung_s5", "--scheduler", "none,cfq,smartio", "--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let found = json(&output);
    assert_eq!(found["accesses"], 963);
    let runs = found["runs"].as_array().expect("a list");
    let names: Vec<&str> = runs.iter().filter_map(|run| run["scheduler"].as_str()).collect();
    assert_eq!(names, ["noop", "cfq", "smartio"]);
    for run in runs {
        assert_eq!(run["programs"][0]["reads"]["count"], found["recorded"][0]["reads"]["count"]);
    }
    for (words, way_out) in [
        (&["--on", "model:samsung_s5", "--scheduler", "x"][..], "no model of a scheduler is called `x`"),
        (&["--on", "model:nothing"], "neither a shipped profile"),
        (&["--on", "model:samsung_s5", "--scheduler", "cqf"], "; the nearest name is `cfq`"),
        (&["--on", "model:samsung_s5,kingston"], "one place"),
        (&["--on", "model:samsung_s5", "--fix", "bfq"], "--fix has no meaning"),
        (&["--on", "model:samsung_s5", "--size", "1MiB"], "use --size"),
    ] {
        let output = replay(words);
        assert_eq!(code(&output), 2, "{words:?}");
        assert!(stderr(&output).contains(way_out), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn filters_narrow_the_report() {
    let count = |arguments: &[&dyn AsRef<std::ffi::OsStr>]| -> u64 {
        let trace = blktrace();
        let mut all: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"report", &trace, &"--json"];
        all.extend_from_slice(arguments);
        let output = fonio(&all);
        json(&output)["analysis"]["totals"]["requests"].as_u64().expect("a count")
    };
    let all = count(&[]);
    let early = count(&[&"--until", &"100ms"]);
    let late = count(&[&"--since", &"100ms"]);
    assert!(early > 0 && late > 0);
    assert_eq!(early + late, all);
    assert_eq!(count(&[&"--op", &"read"]), all);
    assert_eq!(count(&[&"--op", &"write"]), 0);
    assert_eq!(count(&[&"--device", &"259:0"]), all);
    assert_eq!(count(&[&"--device", &"8:0"]), 0);
}

#[test]
fn budgets_decide_the_exit_code() {
    let run = |budget: &str| fonio(&[&"report", &blktrace(), &"--budget", &budget]);
    let kept = run("totals.requests<=963");
    assert_eq!(code(&kept), 0, "{}", stderr(&kept));
    let broken = run("totals.requests<963");
    assert_eq!(code(&broken), 1);
    assert!(stderr(&broken).contains("963"), "{}", stderr(&broken));
    for wrong in ["totals.requests", "no_such_figure<=1", "totals.requests<=1ms"] {
        assert_eq!(code(&run(wrong)), 2, "{wrong}");
    }
    let figures = stdout(&fonio(&[&"report", &blktrace(), &"--figures"]));
    assert!(figures.lines().any(|line| line.starts_with("totals.requests ")), "{figures}");
}

#[test]
fn bad_input_names_the_file_and_the_way_out() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, content: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, content).expect("a file");
        path
    };
    let noise: Vec<u8> = (0..5000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (path, words) in [
        (file("empty", b""), "empty"),
        (file("noise", &noise), "fonio reads"),
        (file("words", b"nothing like a trace\n"), "fonio reads"),
        (dir.path().join("absent"), "no such file"),
        (dir.path().to_owned(), "fonio check"),
    ] {
        let output = fonio(&[&"report", &path]);
        assert_eq!(code(&output), 2, "{}", path.display());
        let said = stderr(&output);
        assert!(said.contains(&path.display().to_string()) && said.contains(words), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_damaged_trace_gives_what_could_be_read() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let whole = fs::read(blktrace()).expect("the trace");
    let cut = dir.path().join("cut");
    fs::write(&cut, &whole[..whole.len() / 2 + 11]).expect("a file");
    let output = fonio(&[&"report", &cut]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("byte"), "the place of the damage is told: {text}");
}

/// Any bytes give a report or an error message, never a panic.
#[test]
fn hostile_traces_are_answered() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let binary = fs::read(blktrace()).expect("the trace");
    let text = fs::read_to_string(trace("ftrace-6.18.txt")).expect("the trace");
    for round in 0..12 {
        let mut damaged = binary.clone();
        for _ in 0..200 {
            let at = random(damaged.len());
            damaged[at] = random(256) as u8;
        }
        let mut lines: Vec<&str> = text.lines().collect();
        let half = lines.len() / 2;
        lines[10..].rotate_left(half);
        for _ in 0..50 * round {
            let (one, other) = (random(lines.len()), random(lines.len()));
            lines.swap(one, other);
        }
        for (name, bytes) in [("damaged", damaged), ("shuffled", lines.join("\n").into_bytes())] {
            let path = dir.path().join(name);
            fs::write(&path, bytes).expect("a file");
            let output = fonio(&[&"report", &path]);
            assert!([0, 3].contains(&code(&output)), "{name} {round}: {}", stderr(&output));
        }
    }
}

#[test]
fn per_cpu_files_are_one_trace() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::copy(blktrace(), dir.path().join("x.blktrace.0")).expect("a copy");
    fs::write(dir.path().join("x.blktrace.1"), b"").expect("an idle processor's file");
    for what in [dir.path().join("x"), dir.path().to_owned()] {
        let output = fonio(&[&"report", &what, &"--json"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
}

#[test]
fn every_export_can_be_written() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for format in ["perfetto", "iolog", "iolog-v2", "csv"] {
        let path = dir.path().join(format);
        let output = fonio(&[&"export", &blktrace(), &"--format", &format, &"--output", &path]);
        assert_eq!(code(&output), 0, "{format}: {}", stderr(&output));
        assert!(fs::metadata(&path).expect("the file").len() > 1000, "{format}");
    }
    let csv = dir.path().join("csv");
    let back = fonio(&[&"report", &csv, &"--json"]);
    assert_eq!(code(&back), 0, "{}", stderr(&back));
}

/// All bytes below a folder, as text.
fn bytes_below(dir: &Path) -> String {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.map(|path| String::from_utf8_lossy(&fs::read(path).expect("a file")).into_owned()).collect()
}

#[test]
fn a_redacted_copy_has_the_same_figures_and_no_names() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let trace = trace("ftrace-6.18.txt");
    let (key, short) = (dir.path().join("key"), dir.path().join("short"));
    fs::write(&key, "0123456789abcdef").expect("a file");
    fs::write(&short, "secret").expect("a file");
    let json = |input: &Path| -> serde_json::Value {
        serde_json::from_slice(&fonio(&[&"report", &input, &"--json"]).stdout).expect("JSON")
    };
    let names = |report: &serde_json::Value| -> Vec<String> {
        let processes = report["analysis"]["processes"]["processes"].as_array().expect("a list").clone();
        processes.iter().map(|process| process["name"].as_str().expect("a name").to_owned()).collect()
    };
    let plain = json(&trace);
    let copies = ["first", "second", "other"].map(|name| dir.path().join(name));
    let with_key: [&dyn AsRef<std::ffi::OsStr>; 2] = [&"--redact-key", &key];
    for (at, copy) in copies.iter().enumerate() {
        let mut words: Vec<&dyn AsRef<std::ffi::OsStr>> =
            vec![&"export", &trace, &"--format", &"recording", &"--redact", &"--output", copy];
        words.extend(with_key.iter().filter(|_| at < 2));
        let output = fonio(&words);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    let redacted = copies.each_ref().map(|copy| json(copy));
    assert_eq!(redacted[0]["analysis"]["totals"], plain["analysis"]["totals"]);
    assert_eq!(names(&redacted[0]), names(&redacted[1]), "the same key gives the same tokens");
    assert_ne!(names(&redacted[0]), names(&redacted[2]));
    let kept = ["kworker", "jbd2", "<idle>", "(unknown)", "(other)", "tid "];
    let secret: Vec<String> =
        names(&plain).into_iter().filter(|name| !kept.iter().any(|kept| name.starts_with(kept))).collect();
    assert!(!secret.is_empty(), "{:?}", names(&plain));
    for name in secret {
        assert!(!names(&redacted[0]).contains(&name), "{name}");
        // A short word can stand in any bytes.
        assert!(name.len() < 6 || !bytes_below(&copies[0]).contains(&name), "{name}");
    }
    let report = fonio(&[&"report", &trace, &"--json", &"--redact", &"--redact-key", &key]);
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(names(&report), names(&redacted[0]));

    let refused = fonio(&[&"report", &trace, &"--redact", &"--redact-key", &short]);
    assert_eq!(code(&refused), 2);
    assert!(stderr(&refused).contains("has 6 bytes; use at least 16"), "{}", stderr(&refused));
    let refused = fonio(&[&"export", &trace, &"--format", &"recording"]);
    assert!(stderr(&refused).contains("name it with `-o DIR`"), "{}", stderr(&refused));
}

#[test]
fn comparing_a_trace_with_itself_finds_no_difference() {
    let output = fonio(&[&"compare", &blktrace(), &blktrace(), &"--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(!text.contains("\"answer\":\"higher\"") && !text.contains("\"answer\":\"lower\""), "{text}");
    assert!(text.contains("\"answer\""), "something was compared");
}

#[test]
fn sides_of_a_comparison() {
    let trace = blktrace();
    let of = |before: usize, after: usize| {
        let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"compare", &"--before"];
        arguments.extend(std::iter::repeat_n(&trace as &dyn AsRef<std::ffi::OsStr>, before));
        arguments.push(&"--after");
        arguments.extend(std::iter::repeat_n(&trace as &dyn AsRef<std::ffi::OsStr>, after));
        fonio(&arguments)
    };
    let several = of(3, 3);
    assert_eq!(code(&several), 0, "{}", stderr(&several));
    assert!(stdout(&several).contains("no response time was shown to differ"), "{}", stdout(&several));
    let few = of(3, 2);
    assert_eq!(code(&few), 2);
    assert!(
        stderr(&few).contains("3 before and 2 after: give at least 3 recordings on each side"),
        "{}",
        stderr(&few)
    );
    assert_eq!(code(&fonio(&[&"compare", &"--before", &trace])), 2, "nothing after");
    assert_eq!(code(&fonio(&[&"compare", &trace])), 2, "one alone");
}

#[test]
fn recordings_that_are_not_valid_are_not_compared() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let lossy = dir.path().join("trace.txt");
    let text = fs::read_to_string(trace("ftrace-6.18.txt")).expect("the trace");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(lines.len() / 2, "CPU:0 [LOST 99999 EVENTS]");
    fs::write(&lossy, lines.join("\n")).expect("a trace with a gap");
    let output = fonio(&[&"compare", &blktrace(), &lossy]);
    assert_eq!(code(&output), 3, "{}{}", stdout(&output), stderr(&output));
    assert!(
        stdout(&output).lines().next().is_some_and(|line| line.contains("cannot be compared")),
        "{}",
        stdout(&output)
    );
}

#[test]
fn html_and_markdown_are_written() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let html = dir.path().join("report.html");
    let output = fonio(&[&"report", &blktrace(), &"--html", &html]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = fs::read_to_string(&html).expect("the report");
    assert!(text.starts_with("<!DOCTYPE html>") || text.starts_with("<!doctype html>"));
    for outside in ["src=\"http", "href=\"http://", "url(http"] {
        assert!(!text.contains(outside), "the report loads something: {outside}");
    }
    assert!(stdout(&fonio(&[&"report", &blktrace(), &"--markdown"])).contains("| "));
}

#[test]
fn the_status_card_needs_nothing() {
    let output = fonio(&[&"--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(json(&output)["devices"].is_array());
    assert!(stdout(&fonio(&[])).contains("fonio check"));
}

#[test]
fn manual_pages_and_completions_are_made() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(code(&fonio(&[&"man", &dir.path()])), 0);
    assert!(dir.path().join("fonio-report.1").exists());
    assert!(stdout(&fonio(&[&"completions", &"bash"])).contains("fonio"));
}

/// Without permission to trace, fonio reads `/proc`, and says so.
#[test]
fn a_user_without_rights_gets_a_verdict_from_samples() {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    if !fonio_testing::has(&[fonio_testing::Need::Root]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).expect("the folder of the user");
    // The user may not enter the folder of the program, but may run the open file.
    let program = fs::File::open(env!("CARGO_BIN_EXE_fonio")).expect("the program");
    let check = |arguments: &[&str]| {
        let mut command = std::process::Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
        command.args(["check", "--for", "1s"]).args(arguments).current_dir(dir.path()).uid(65534).gid(65534);
        command.output().expect("fonio runs")
    };
    let output = check(&["--output", "recording", "--json"]);
    let (said, json) = (stderr(&output), stdout(&output));
    assert_eq!(code(&output), 0, "{said}{json}");
    assert!(said.contains("sampled from /proc, because tracing block I/O needs root"), "{said}");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["analysis"]["blocked"]["is_sampled"], true);
    let verdict = json["verdict"].as_str().expect("a sentence");
    assert!(verdict.ends_with("bulk work such as a copy looks like any other program."), "{verdict}");
    let report = stdout(&fonio(&[&"report", &dir.path().join("recording"), &"--all"]));
    assert!(report.contains("As estimates: the threads were sampled"), "{report}");
    assert!(!report.contains("requests in"), "{report}");
    // A method that the user names is not replaced by another one.
    let output = check(&["--blocked", "tracefs"]);
    assert_eq!(code(&output), 2, "{}", stdout(&output));
    assert!(stderr(&output).contains("run the same command with sudo"), "{}", stderr(&output));
}

#[test]
fn a_command_is_recorded_and_explained() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (recording, data) = (dir.path().join("recording"), dir.path().join("data"));
    let script = format!("dd if=/dev/zero of={} bs=64k count=16 conv=fsync", data.display());
    let output = fonio(&[&"record", &"--output", &recording, &"--", &"sh", &"-c", &format!("exec {script}")]);
    if code(&output) != 0 {
        // `record` uses these sentences if the machine lacks something; any other failure is a bug.
        let said = stderr(&output);
        let lacks =
            "needs root|no tracefs|tracefs cannot be mounted|locked down|is read-only here|no block events";
        assert!(lacks.split('|').any(|sentence| said.contains(sentence)), "{said}{}", stdout(&output));
        return fonio_testing::skip(fonio_testing::Need::Tracefs, said);
    }
    let report = fonio(&[&"report", &recording, &"--op", &"write", &"--json"]);
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let figures = json["figures"].as_array().expect("a list");
    let written = figures.iter().find(|figure| figure["name"] == "totals.write_bytes").expect("the figure");
    assert!(written["value"].as_f64().is_some_and(|bytes| bytes >= 1_048_576.0), "{written}");
    assert_eq!(json["analysis"]["validity"]["lost_events"], 0);
    let written_to = |arguments: &[&dyn AsRef<std::ffi::OsStr>]| -> f64 {
        let mut words: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"report", &recording, &"--json"];
        words.extend_from_slice(arguments);
        let json: serde_json::Value = serde_json::from_slice(&fonio(&words).stdout).expect("JSON");
        json["analysis"]["totals"]["write_bytes"].as_f64().expect("a count")
    };
    assert_eq!(written_to(&[&"--file", &"no-such-file"]), 0.0);
    assert_eq!(written_to(&[&"--unit", &"no-such-unit"]), 0.0);
    // Some file systems do not show whose data a request carries.
    let of_file = written_to(&[&"--file", &"dat?"]);
    assert!(of_file == 0.0 || of_file >= 1_048_576.0, "{of_file}");
    let secret = dir.path().join("redacted");
    let words: [&dyn AsRef<std::ffi::OsStr>; 6] =
        [&"record", &"--redact", &"--output", &secret, &"--", &"/bin/true"];
    assert_eq!(code(&fonio(&words)), 0);
    let meta = fs::read_to_string(secret.join("meta.json")).expect("a file");
    assert!(!meta.contains("/bin/true") && meta.contains("word-"), "{meta}");
    assert_eq!(
        code(&fonio(&[&"record", &"--output", &recording, &"--", &"true"])),
        125,
        "nothing is overwritten"
    );
}

/// Returns whether a documented command needs neither root, a device nor a network, no word that the reader
/// replaces, and no file of the reader's machine.
fn can_run_anywhere(words: &[&str]) -> bool {
    let is_replaced = |word: &str| {
        word.chars().any(char::is_uppercase) && !word.chars().any(char::is_lowercase)
            || word.contains(['…', '$'])
    };
    if words.iter().flat_map(|word| word.split(',')).any(is_replaced) {
        return false;
    }
    match words {
        ["report" | "compare" | "import" | "export", input, ..] => !input.starts_with('/'),
        ["run"] | ["fix"] | ["fix", "show", _, ..] | ["completions", _, ..] => true,
        ["fix", option, ..] => option.starts_with("--"),
        // Without a name, `device verify` takes a minute for all models.
        ["device", "list" | "show", ..] | ["device", "verify", _, ..] => true,
        ["replay", _, "--on", place, ..] => place.starts_with("model:"),
        _ => false,
    }
}

/// Makes the recordings and traces that documents name, except `out`, which the command writes.
fn make_inputs(dir: &Path, out: Option<&str>) {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sample/webbench-on-ridata");
    let recordings = "fonio-recording recording rec mine before after b1 b2 b3 a1 a2 a3".split(' ');
    let traces = ["trace.blktrace.0", "old.blktrace.0", "new.blktrace.0"];
    let inputs = recordings.map(|name| (name, sample.clone()));
    let inputs = inputs.chain(traces.map(|name| (name, blktrace())));
    for (name, target) in inputs.chain([("trace.html", trace("ftrace-6.18.txt"))]) {
        if out != Some(name) {
            std::os::unix::fs::symlink(target.canonicalize().expect("it is there"), dir.join(name))
                .expect("a link");
        }
    }
    fs::write(dir.join("table.csv"), "ts,rw,off,len,lat\n1,R,0,4096,100\n2,W,4096,4096,200\n")
        .expect("a file");
}

/// The examples of README, the documents and the help, which `docs/cli.md` has.
#[test]
fn documented_examples_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut ran = std::collections::BTreeSet::new();
    for folder in [root.clone(), root.join("docs")] {
        let files =
            folder.read_dir().expect("the repository can be listed").flatten().map(|entry| entry.path());
        for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
            let text = fs::read_to_string(&file).expect("a document can be read");
            for command in fonio_testing::markdown::commands(&text, &["fonio"]) {
                let words: Vec<&str> = command.words.iter().skip(1).map(String::as_str).collect();
                if !can_run_anywhere(&words) || !ran.insert(words.join(" ")) {
                    continue;
                }
                let dir = tempfile::tempdir().expect("a temporary folder");
                let out = words.iter().position(|word| ["-o", "--output"].contains(word));
                make_inputs(dir.path(), out.and_then(|at| words.get(at + 1).copied()));
                let said = Command::new(cargo_bin("fonio"))
                    .args(&words)
                    .current_dir(dir.path())
                    .stdin(Stdio::null())
                    .output()
                    .expect("fonio starts");
                // 1 and 3 are answers: a budget that the sample does not keep, or a figure that it does not have.
                let place = format!("{}:{}", file.display(), command.line);
                assert!(matches!(code(&said), 0 | 1 | 3), "{place}: {}: {}", words.join(" "), stderr(&said));
            }
        }
    }
    assert!(ran.len() >= 20, "{ran:?}");
}
