//! Runs fonio as a user does, on real and on damaged traces.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;

use super::{Files, json, lines, split, text, trace};

fn stdout(output: &Output) -> String {
    text(&output.stdout)
}

fn stderr(output: &Output) -> String {
    text(&output.stderr)
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("fonio was not killed")
}

#[test]
fn the_verdict_is_the_first_line() {
    let text = Files::new().shows("report trace");
    // The trace is shorter than a second.
    assert!(text.lines().next().is_some_and(|first| first.contains("No verdict: the trace has ")), "{text}");
    assert!(!text.contains('\x1b'), "output to a pipe contains colour codes");
}

#[test]
fn a_report_on_a_trace_is_the_report_on_its_import() {
    let files = Files::new();
    for trace in ["trace", "ftrace.txt"] {
        files.shows(&format!("import {trace} --overwrite -o imported"));
        let direct = files.shows(&format!("report {trace} --json"));
        assert!(direct == files.shows("report imported --json"), "{trace} differs after import");
    }
}

#[test]
fn a_recording_is_replayed_in_models_of_schedulers() {
    let files = Files::new();
    let found = files.json("replay recording --on model:samsung_s5 --scheduler none,cfq,smartio --json");
    assert_eq!(found["accesses"], 963);
    let runs = found["runs"].as_array().expect("a list");
    let names: Vec<&str> = runs.iter().filter_map(|run| run["scheduler"].as_str()).collect();
    assert_eq!(names, ["noop", "cfq", "smartio"]);
    for run in runs {
        assert_eq!(run["programs"][0]["reads"]["count"], found["recorded"][0]["reads"]["count"]);
    }
}

#[test]
fn a_recording_is_replayed_on_a_grid_of_models() {
    let files = Files::new();
    let line =
        "replay recording --on model:sd_a1,ufs31 --change flash.t_program=1ms,2ms --scheduler none -o grid";
    let found = files.json(&format!("{line} --json"));
    let runs = found["runs"].as_array().expect("a list");
    let folders = [
        "01-sd_a1-flash.t_program=1ms-noop",
        "02-sd_a1-flash.t_program=2ms-noop",
        "03-ufs31-flash.t_program=1ms-noop",
        "04-ufs31-flash.t_program=2ms-noop",
    ];
    assert_eq!(runs.len(), folders.len());
    for (run, folder) in runs.iter().zip(folders) {
        let report = json(&files.run(&split(&format!("report grid/{folder} --json"))));
        assert_eq!(report["analysis"]["totals"]["requests"], run["summary"]["requests"], "{folder}");
    }
    let kept = fs::read_to_string(files.path("grid/summary.json")).expect("it was written");
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    assert_eq!(kept["runs"], found["runs"]);
    assert_eq!(kept["recordings"].as_array().map(Vec::len), Some(folders.len()));
    assert!(files.path("grid/report.html").exists());
}

/// The arguments of each failing call, and a part of its error message.
const WAYS_OUT: &str = include_str!("ways_out.txt");

#[test]
fn an_error_names_what_is_wrong_and_the_way_out() {
    let files = Files::new();
    fs::write(files.path("blank"), b"").expect("a file");
    fs::write(files.path("short"), b"secret").expect("a file");
    let noise: Vec<u8> = (0..5000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(files.path("noise"), noise).expect("a file");
    for (line, way_out) in lines(WAYS_OUT).map(|line| line.split_once('|').expect("two columns")) {
        let output = files.run(&split(line));
        assert_eq!(code(&output), 2, "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(way_out.trim()), "{line}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn filters_narrow_the_report() {
    let files = Files::new();
    let count = |options: &str| -> u64 {
        // If no request passes the filter, the exit code is 3.
        let report = json(&files.run(&split(&format!("report trace --json {options}"))));
        report["analysis"]["totals"]["requests"].as_u64().expect("a count")
    };
    let (all, early, late) = (count(""), count("--until 100ms"), count("--since 100ms"));
    assert!(early > 0 && late > 0);
    assert_eq!(early + late, all);
    for (options, expected) in
        [("--op read", all), ("--op write", 0), ("--device 259:0", all), ("--device 8:0", 0)]
    {
        assert_eq!(count(options), expected, "{options}");
    }
}

#[test]
fn budgets_decide_the_exit_code() {
    let files = Files::new();
    files.shows("report trace --budget totals.requests<=963");
    let broken = files.run(&["report", "trace", "--budget", "totals.requests<963"]);
    assert_eq!(code(&broken), 1);
    assert!(stderr(&broken).contains("963"), "{}", stderr(&broken));
    let figures = files.shows("report trace --figures");
    assert!(figures.lines().any(|line| line.starts_with("totals.requests ")), "{figures}");
}

#[test]
fn a_damaged_trace_gives_what_could_be_read() {
    let files = Files::new();
    let whole = fs::read(files.path("trace")).expect("the trace");
    fs::write(files.path("cut"), &whole[..whole.len() / 2 + 11]).expect("a file");
    let text = files.shows("report cut");
    assert!(text.contains("byte"), "the message does not say where the trace is damaged: {text}");
}

/// Any input file results in a report or an error message, never in a panic.
#[test]
fn hostile_traces_are_answered() {
    let files = Files::new();
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let binary = fs::read(files.path("trace")).expect("the trace");
    let text = fs::read_to_string(files.path("ftrace.txt")).expect("the trace");
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
            fs::write(files.path(name), bytes).expect("a file");
            let output = files.run(&["report", name]);
            assert!([0, 3].contains(&code(&output)), "{name} {round}: {}", stderr(&output));
        }
    }
}

#[test]
fn per_cpu_files_are_one_trace() {
    let files = Files::new();
    fs::create_dir(files.path("of-cpus")).expect("a folder");
    fs::copy(files.path("trace"), files.path("of-cpus/x.blktrace.0")).expect("a copy");
    fs::write(files.path("of-cpus/x.blktrace.1"), b"").expect("an idle processor's file");
    files.shows("report of-cpus/x --json");
    files.shows("report of-cpus --json");
}

#[test]
fn every_export_can_be_written() {
    let files = Files::new();
    for format in ["perfetto", "perfetto-json", "iolog", "iolog-v2", "csv"] {
        files.shows(&format!("export trace --format {format} -o {format}"));
        assert!(fs::metadata(files.path(format)).expect("the file").len() > 1000, "{format}");
    }
    files.shows("report csv --json");
}

/// Returns the contents of all files below a folder, as text.
fn bytes_below(dir: &Path) -> String {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.map(|path| text(&fs::read(path).expect("a file"))).collect()
}

#[test]
fn a_redacted_copy_has_the_same_figures_and_no_names() {
    let files = Files::new();
    fs::write(files.path("key"), "0123456789abcdef").expect("a file");
    let names = |report: &Value| -> Vec<String> {
        let processes = report["analysis"]["processes"]["processes"].as_array().expect("a list").clone();
        processes.iter().map(|process| process["name"].as_str().expect("a name").to_owned()).collect()
    };
    let plain = files.json("report ftrace.txt --json");
    let key = "--redact-key key";
    let [first, second, other] = [("first", key), ("second", key), ("other", "")].map(|(copy, key)| {
        files.shows(&format!("export ftrace.txt --format recording --redact {key} -o {copy}"));
        files.json(&format!("report {copy} --json"))
    });
    assert_eq!(first["analysis"]["totals"], plain["analysis"]["totals"]);
    assert_eq!(names(&first), names(&second), "the same key gives the same tokens");
    assert_ne!(names(&first), names(&other));
    let kept = ["kworker", "jbd2", "<idle>", "(unknown)", "(other)", "tid "];
    let secret: Vec<String> =
        names(&plain).into_iter().filter(|name| !kept.iter().any(|kept| name.starts_with(kept))).collect();
    assert!(!secret.is_empty(), "{:?}", names(&plain));
    for name in secret {
        assert!(!names(&first).contains(&name), "{name}");
        // A short word can occur by chance in any sequence of bytes.
        assert!(name.len() < 6 || !bytes_below(&files.path("first")).contains(&name), "{name}");
    }
    assert_eq!(names(&files.json("report ftrace.txt --json --redact --redact-key key")), names(&first));
}

#[test]
fn comparing_a_trace_with_itself_finds_no_difference() {
    let files = Files::new();
    let text = files.shows("compare trace trace --json");
    assert!(!text.contains("\"answer\":\"higher\"") && !text.contains("\"answer\":\"lower\""), "{text}");
    assert!(text.contains("\"answer\""), "something was compared");
    let several = files.shows("compare --before trace trace trace --after trace trace trace");
    assert!(several.contains("no response time was shown to differ"), "{several}");
}

#[test]
fn recordings_that_are_not_valid_are_not_compared() {
    let output = Files::new().run(&["compare", "trace", "lossy.txt"]);
    assert_eq!(code(&output), 3, "{}{}", stdout(&output), stderr(&output));
    let first = stdout(&output).lines().next().map(str::to_owned);
    assert!(first.is_some_and(|line| line.contains("cannot be compared")), "{}", stdout(&output));
}

#[test]
fn html_and_markdown_are_written() {
    let files = Files::new();
    files.shows("report trace --html report.html");
    let text = fs::read_to_string(files.path("report.html")).expect("the report");
    assert!(text.starts_with("<!DOCTYPE html>") || text.starts_with("<!doctype html>"));
    for outside in ["src=\"http", "href=\"http://", "url(http"] {
        assert!(!text.contains(outside), "the report loads an external file: {outside}");
    }
    assert!(files.shows("report trace --markdown").contains("| "));
}

#[test]
fn the_status_card_needs_nothing() {
    let files = Files::new();
    assert!(files.json("--json")["devices"].is_array());
    assert!(files.shows("").contains("fonio check"));
}

#[test]
fn manual_pages_and_completions_are_made() {
    let files = Files::new();
    files.shows("man .");
    assert!(files.path("fonio-report.1").exists());
    assert!(files.shows("completions bash").contains("fonio"));
}

/// Without permission to trace, fonio reads samples from `/proc`, and reports this.
#[test]
fn a_user_without_rights_gets_a_verdict_from_samples() {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    fonio_testing::skip_without!(Root);
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).expect("root can change the owner");
    // The user may have no access to the folder of the program, but can run the open file.
    let program = fs::File::open(env!("CARGO_BIN_EXE_fonio")).expect("the program");
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
        command.args(words).current_dir(dir.path()).uid(65534).gid(65534);
        command.env("FONIO_LASTING_STATE", dir.path().join("state"));
        command.output().expect("fonio runs")
    };
    let check = |arguments: &[&str]| run(&[&["check", "--for", "1s"], arguments].concat());
    let none = run(&["report", "last"]);
    assert_eq!(code(&none), 2, "{}", stdout(&none));
    assert!(stderr(&none).contains("has none: run `fonio check`"), "{}", stderr(&none));
    let output = check(&["--output", "recording", "--json"]);
    let (said, json) = (stderr(&output), stdout(&output));
    assert_eq!(code(&output), 0, "{said}{json}");
    assert!(said.contains("sampled from /proc, because tracing block I/O needs root"), "{said}");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["analysis"]["blocked"]["is_sampled"], true);
    let verdict = json["verdict"].as_str().expect("a sentence");
    assert!(verdict.ends_with("bulk work such as a copy looks like any other program."), "{verdict}");
    let report = stdout(&super::fonio(&[
        "report".as_ref(),
        dir.path().join("recording").as_os_str(),
        "--all".as_ref(),
    ]));
    assert!(report.contains("As estimates: the threads were sampled"), "{report}");
    assert!(!report.contains("requests in"), "{report}");
    // Without --output, the newest five recordings remain, and the screen names the new one.
    let kept = || -> Vec<String> {
        let Ok(entries) = fs::read_dir(dir.path().join("state/checks")) else { return Vec::new() };
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    };
    let mut made = Vec::new();
    for _ in 0..6 {
        let before = kept();
        let output = check(&[]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let new: Vec<String> = kept().into_iter().filter(|name| !before.contains(name)).collect();
        assert_eq!(new.len(), 1, "{before:?} {new:?}");
        let path = dir.path().join("state/checks").join(&new[0]);
        let shown = stdout(&output);
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = format!("fonio report last --all (`last` is {})", path.display());
        assert!(words.contains(&expected), "{expected}: {shown}");
        for read in [&["report", "last"][..], &["check", "last"]] {
            let again = stdout(&run(read));
            assert_eq!(again.lines().next(), shown.lines().next(), "{read:?}: the same verdict");
            assert!(again.contains("fonio report last --all"), "{read:?}: {again}");
        }
        let again = stdout(&super::fonio(&["report".as_ref(), path.as_os_str()]));
        assert_eq!(again.lines().next(), shown.lines().next(), "the same verdict");
        made.extend(new);
    }
    assert_eq!(kept(), made[1..]);
    // Every command that reads a recording accepts `last`.
    let earlier = format!("state/checks/{}", made[4]);
    for words in
        [&["compare", &earlier, "last"][..], &["export", "last", "--format", "recording", "--output", "copy"]]
    {
        let output = run(words);
        assert!(matches!(code(&output), 0 | 3), "{words:?}: {}", stderr(&output));
    }
    let said = stderr(&run(&["replay", "last", "--on", "."]));
    assert!(said.contains(made.last().expect("there are recordings")), "{said}");
    let said = stderr(&run(&["replay", "last", "--on", "ridata", "--in", "lab"]));
    assert!(said.contains("name its folder"), "{said}");
    // A file with this name is `./last`.
    fs::write(dir.path().join("last"), "").expect("a file");
    assert!(stderr(&run(&["report", "last"])).contains("the file in this folder is `./last`"));
    let output = check(&["--markdown"]);
    assert!(stderr(&output).contains("The recording is kept: `last` is "), "{}", stderr(&output));
    // If the folder cannot be made, the recording is removed.
    fs::remove_dir_all(dir.path().join("state")).expect("it is there");
    fs::write(dir.path().join("state"), "").expect("a file in place of the folder");
    let output = check(&[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("will be removed after the report"), "{}", stderr(&output));
    assert!(stdout(&output).contains("fonio check --output recording"), "{}", stdout(&output));
    // fonio does not replace a recording method that the user names.
    let output = check(&["--blocked", "tracefs"]);
    assert_eq!(code(&output), 2, "{}", stdout(&output));
    assert!(stderr(&output).contains("run the same command with sudo"), "{}", stderr(&output));
}

/// The page is written completely or not at all.
#[test]
fn a_page_that_does_not_fit_leaves_no_part() {
    fonio_testing::skip_without!(Root);
    let files = Files::new();
    // Tests run in threads of one process, so the mount is in another mount namespace.
    let script = "mount -t tmpfs -o size=256k tmpfs disk && echo earlier > disk/report.html && \
                  dd if=/dev/zero of=disk/filler bs=4k 2> disk-full; \
                  \"$0\" report recording --html disk/report.html > shown 2> said; echo $? > code; \
                  \"$0\" report recording --html disk/other.html > shown2 2> said2; echo $? >> code; \
                  ls -A disk > left; cat disk/report.html >> left";
    fs::create_dir(files.path("disk")).expect("a folder");
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(cargo_bin("fonio"))
        .current_dir(files.path(""))
        .output()
        .expect("unshare runs");
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| fs::read_to_string(files.path(name)).expect(name);
    assert_eq!(read("code"), "2\n2\n", "{}", read("said"));
    assert_eq!(read("left"), "filler\nreport.html\nearlier\n");
    for (said, name) in [("said", "report.html"), ("said2", "other.html")] {
        let said = read(said);
        let expected =
            format!("disk/{name} cannot be written, and is as before; name a file on another file system");
        assert!(said.contains(&expected) && said.contains("No space left on device"), "{said}");
    }
    assert!(!read("shown").contains("The report is in"), "{}", read("shown"));
}

#[test]
fn a_command_is_recorded_and_explained() {
    let files = Files::new();
    let script = "exec dd if=/dev/zero of=data bs=64k count=16 conv=fsync";
    let output = files.run(&["record", "-o", "of-command", "--", "sh", "-c", script]);
    if code(&output) != 0 {
        // `record` prints one of these texts if the machine lacks a requirement of recording; any other
        // failure is a bug.
        let said = stderr(&output);
        let lacks =
            "needs root|no tracefs|tracefs cannot be mounted|locked down|is read-only here|no block events";
        assert!(lacks.split('|').any(|sentence| said.contains(sentence)), "{said}{}", stdout(&output));
        return fonio_testing::skip(fonio_testing::Need::Tracefs, said);
    }
    let json = files.json("report of-command --op write --json");
    let figures = json["figures"].as_array().expect("a list");
    let written = figures.iter().find(|figure| figure["name"] == "totals.write_bytes").expect("the figure");
    assert!(written["value"].as_f64().is_some_and(|bytes| bytes >= 1_048_576.0), "{written}");
    assert_eq!(json["analysis"]["validity"]["lost_events"], 0);
    let written_to = |options: &str| -> f64 {
        let json = files.json(&format!("report of-command --json {options}"));
        json["analysis"]["totals"]["write_bytes"].as_f64().expect("a count")
    };
    assert_eq!(written_to("--file no-such-file"), 0.0);
    assert_eq!(written_to("--unit no-such-unit"), 0.0);
    // On some file systems, the kernel does not show to which file and process a request's data belongs.
    let of_file = written_to("--file dat?");
    assert!(of_file == 0.0 || of_file >= 1_048_576.0, "{of_file}");
    files.shows("record --redact -o redacted -- /bin/true");
    let meta = fs::read_to_string(files.path("redacted/meta.json")).expect("a file");
    assert!(!meta.contains("/bin/true") && meta.contains("word-"), "{meta}");
}

/// Returns whether a documented command runs on any machine: without root, a device, a network, the reader's
/// own files and placeholders.
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
        // Without the name of a model, `device verify` checks all models for a minute.
        ["device", "list" | "show", ..] | ["device", "verify", _, ..] => true,
        ["replay", _, "--on", place, ..] => place.starts_with("model:"),
        _ => false,
    }
}

/// Creates the recordings and traces that documents name, except `out`, which the command writes.
fn make_inputs(dir: &Path, out: Option<&str>) {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sample/webbench-on-ridata");
    let recordings = "fonio-recording recording rec mine before after b1 b2 b3 a1 a2 a3".split(' ');
    let traces = ["trace.blktrace.0", "old.blktrace.0", "new.blktrace.0"];
    let inputs = recordings.map(|name| (name, sample.clone()));
    let inputs = inputs.chain(traces.map(|name| (name, trace("takeoverjp-sample.blktrace.0"))));
    for (name, target) in inputs.chain([("trace.html", trace("ftrace-6.18.txt"))]) {
        if out != Some(name) {
            std::os::unix::fs::symlink(target.canonicalize().expect("it is there"), dir.join(name))
                .expect("a link");
        }
    }
    fs::write(dir.join("table.csv"), "ts,rw,off,len,lat\n1,R,0,4096,100\n2,W,4096,4096,200\n")
        .expect("a file");
    fs::write(dir.join("log_clat.1.log"), "5, 100000, 0, 4096, 0\n7, 250000, 1, 4096, 8192\n")
        .expect("a file");
    fs::write(dir.join("job.iolog"), "0 /dev/sdb read 0 4096\n2 /dev/sdb write 8192 4096\n").expect("a file");
    // The recording that `last` names.
    let kept = dir.join("state/checks/2026-11-26T00-00-00Z");
    fs::create_dir_all(&kept).expect("a folder");
    for file in fs::read_dir(&sample).expect("the sample can be listed").flatten() {
        fs::copy(file.path(), kept.join(file.file_name())).expect("a copy");
    }
}

/// Checks that the examples in README and the documents run, including the help texts in `docs/cli.md`.
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
                    .env("FONIO_LASTING_STATE", dir.path().join("state"))
                    .current_dir(dir.path())
                    .stdin(Stdio::null())
                    .output()
                    .expect("fonio starts");
                // Exit codes 1 and 3 are also valid: the sample recording can exceed a budget (1), or lack a
                // figure (3).
                let place = format!("{}:{}", file.display(), command.line);
                assert!(matches!(code(&said), 0 | 1 | 3), "{place}: {}: {}", words.join(" "), stderr(&said));
            }
        }
    }
    assert!(ran.len() >= 20, "{ran:?}");
}

#[test]
fn names_of_strangers_cannot_command_the_terminal() {
    let files = Files::new();
    let table = files.shows("export trace --format csv -o -");
    let header = table.lines().next().expect("a header");
    let name = "cp\x1b[2J\u{9b}31m\u{202e}x";
    let row = |id: u64| {
        let (issued, completed) = (100_000 + id * 1_000_000, 900_000 + id * 1_000_000);
        format!(
            "{id},179:0,write,sync,,{id},4096,{issued},,{issued},,{completed},,1,7,\"{name}\",,,unknown,,0\n"
        )
    };
    let rows: String = (0..100).map(row).collect();
    fs::write(files.dir.path().join("strange.csv"), format!("{header}\n{rows}")).expect("written");
    let none = format!("none{name}");
    for words in [
        &["report", "strange.csv", "--all"][..],
        &["report", "strange.csv", "--json"],
        &["report", "strange.csv", "--markdown"],
        &["report", "strange.csv", "--html", "page.html"],
        &["report", &none],
        &["device", "show", &none],
    ] {
        let output = files.run(words);
        let (shown, told) = (stdout(&output), stderr(&output));
        let foreign = |c: char| c != '\n' && fonio_core::untrusted::is_foreign(c);
        assert!(!shown.contains(foreign) && !told.contains(foreign), "{words:?}: {shown:?}{told:?}");
        // The name is shown, but escaped.
        let is_shown =
            [&shown, &told].iter().any(|text| text.contains("cp\\x1b") || text.contains("cp\\u001b"));
        assert!(is_shown || words.contains(&"--html"), "{words:?}: {shown}{told}");
    }
    let page = fs::read_to_string(files.dir.path().join("page.html")).expect("a page");
    assert!(page.contains("cp\\x1b") && !page.contains(['\x1b', '\u{9b}', '\u{202e}']));
}
