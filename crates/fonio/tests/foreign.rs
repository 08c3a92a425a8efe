//! Runs fonio on texts of other tools, as a user does.

use std::fs;
use std::process::{Command, Stdio};

use fonio_testing::{Need, has};
use serde_json::Value;

use super::{Files, split, text, trace};

/// Writes a file, and returns the report on it as JSON. The call must succeed.
#[track_caller]
fn report(files: &Files, name: &str, content: &str) -> Value {
    fs::write(files.path(name), content).expect("a file");
    let shown = files.shows(&format!("report {name}"));
    assert!(shown.lines().next().is_some_and(|first| first.contains("No verdict")), "{shown}");
    assert!(!shown.contains("not valid"), "{shown}");
    let direct = files.json(&format!("report {name} --json"));
    files.shows(&format!("import {name} --overwrite -o imported"));
    assert_eq!(files.json("report imported --json"), direct, "{name} differs after import");
    direct
}

#[test]
fn totals_have_no_verdict() {
    let files = Files::new();
    let copy =
        |reads: u64| format!("   8       0 sda {reads} 0 {} 40 20 1 160 60 0 {reads} 100\n", reads * 8);
    let found =
        report(&files, "diskstats", &format!("1764258000.5\n{}1764258001.0\n{}", copy(100), copy(110)));
    assert_eq!(found["analysis"]["verdict_id"], "totals-only");
    assert_eq!(found["analysis"]["span"]["duration_ns"], 500_000_000);
    assert_eq!(found["analysis"]["machine"]["disks"][0]["requests"], 10);
    // Nothing happened, but its time is known.
    fs::write(files.path("idle"), format!("1764258000\n{}1764258002\n{}", copy(100), copy(100)))
        .expect("a file");
    let found = files.json("report idle --json");
    assert_eq!(found["analysis"]["span"]["duration_ns"], 2_000_000_000_u64);
    assert!(found["analysis"]["verdict"].as_str().is_some_and(|verdict| verdict.contains(" 2 s")), "{found}");
}

#[test]
fn a_histogram_gives_ranges() {
    let files = Files::new();
    let text = "Tracing block device I/O... Hit Ctrl-C to end.\n\ndisk = vda\t\n\
        \x20    usecs               : count    distribution\n\
        \x20      256 -> 511        : 99       |******|\n\
        \x20      512 -> 1023       : 1        |*     |\n";
    let found = report(&files, "biolatency.txt", text);
    let histogram = &found["analysis"]["latency_histograms"][0];
    assert_eq!((&histogram["name"], &histogram["requests"]), (&"vda".into(), &100.into()));
    assert_eq!(
        histogram["p99"],
        serde_json::json!({"from_ns": 256_000, "below_ns": 512_000, "requests": 99})
    );
    let shown = files.shows("report biolatency.txt");
    assert!(shown.contains("between 512 µs and 1.02 ms"), "{shown}");
}

#[test]
fn slow_calls_name_programs_and_files() {
    let files = Files::new();
    let text = "Tracing ext4 operations slower than 10 ms\n\
        TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME\n\
        06:35:01 cron           16464  R 1249    0          16.05 common-auth\n\
        06:35:02 a\x1b[31mb        7      S 0       0         120.00 my\x1b[31m file\n";
    let found = report(&files, "ext4slower.txt", text);
    let row = &found["analysis"]["slow_calls"]["files"][0];
    assert_eq!((&row["operation"], &row["times"]["time_ns"]), (&"fsync".into(), &120_000_000.into()));
    assert!(found["analysis"]["sqlite"].is_null());
    let shown = files.shows("report ext4slower.txt --all");
    assert!(shown.contains("common-auth") && !shown.contains('\x1b'), "{shown}");
    for absent in ["In flight", "queue depth", "vda"] {
        assert!(!shown.contains(absent), "{shown}");
    }
    // The calls that are missing would be missing in a replay, too.
    let replayed = files.run(&split("replay imported --layer calls --on there"));
    let said = String::from_utf8_lossy(&replayed.stderr);
    assert!(!replayed.status.success() && said.contains("has only some file-system calls"), "{said}");
}

#[test]
fn a_folder_of_lttng_is_read() {
    let files = Files::new();
    let folder = files.path("session/ust/uid/0/64-bit");
    fs::create_dir_all(&folder).expect("a folder");
    for name in ["metadata", "c_0", "c_1"] {
        fs::copy(trace("ctf/lttng-ust").join(name), folder.join(name)).expect("a copy");
    }
    let found = files.json("report session --json");
    assert_eq!(found["analysis"]["totals"]["requests"], 40);
    assert_eq!(found["analysis"]["validity"]["with_service"], 40);
    let alone = files.run(&split("report session/ust/uid/0/64-bit/c_1"));
    assert!(!alone.status.success());
    assert!(text(&alone.stderr).contains("folder"), "{}", text(&alone.stderr));
}

/// Numbers, sums and maxima of a latency log are those of fio's own output. Its percentiles have an error of a 64th.
#[test]
fn the_latencies_of_fio_are_its_own() {
    if !has(&[Need::Fio]) {
        return;
    }
    let files = Files::new();
    let job = "--name=j --filename=data --size=4M --ioengine=psync --bs=4k --rw=randrw --number_ios=400 --log_offset=1 \
        --write_lat_log=log --write_bw_log=log --write_iops_log=log --output-format=json --output=out.json";
    let ran = Command::new("fio").args(split(job)).current_dir(files.path("")).stdin(Stdio::null()).output();
    let ran = ran.expect("fio starts");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let own = fs::read_to_string(files.path("out.json")).expect("fio wrote it");
    let own: Value = serde_json::from_str(&own[own.find('{').expect("it is JSON")..]).expect("it is JSON");
    let own = &own["jobs"][0];
    let found = files.json("report log_clat.1.log --json");
    let groups = found["analysis"]["latency"]["groups"].as_array().expect("a list");
    for (name, of) in [("reads", "read"), ("writes", "write")] {
        let group = groups.iter().find(|group| group["group"] == name).expect("it is there");
        let (found, own) = (&group["service_ns"], &own[of]["clat_ns"]);
        assert_eq!((&found["count"], &found["max"]), (&own["N"], &own["max"]), "{name}");
        let number = |value: &Value| value.as_f64().expect("a number");
        assert!((number(&found["mean"]) - number(&own["mean"])).abs() < 1.0, "{name}");
        for (percentile, key) in [("p50", "50.000000"), ("p90", "90.000000"), ("p99", "99.000000")] {
            let (found, own) = (number(&found[percentile]), number(&own["percentile"][key]));
            assert!((found - own).abs() <= own / 32.0, "{name}, {percentile}: {found} and {own}");
        }
    }
    let totals = files.json("report log_bw.1.log --json");
    let disk = &totals["analysis"]["machine"]["disks"][0];
    assert_eq!(disk["requests"], 400);
    assert_eq!(
        (&disk["read_bytes"], &disk["write_bytes"]),
        (&own["read"]["io_bytes"], &own["write"]["io_bytes"])
    );
}
