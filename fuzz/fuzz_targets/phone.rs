//! Reads arbitrary answers of a phone. The first byte selects the parser: the recorder's protocol, a dump by UI Automator,
//! `dumpsys storaged`, `/proc/uid_io/stats`, `pm list packages -U`, the description of the storage, or the facts about the
//! phone. Checks that there is no panic and no endless loop, that nothing is written outside the folder of the answer, and
//! that texts for the terminal are printable. Text after a line `===` is a later reading.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fonio_android::{AppIo, answers, clickable};
use fonio_fuzz::{memory, seeds};
use fonio_machine::{Machine, storage_devices_of};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const LATER: &str = "===\n";

/// Answers with the number of their parser.
const ANSWERS: [(u8, &str); 9] = [
    (0, "ready\nbegan\nended duration\nfile 3 a.parquet\nx\nyfile 2 meta.json\n{}done\n"),
    (0, "ready\nbegan\nended buffer-full\nfile 0 requests.parquet\nfile 9 ../meta.json\n123456789done\n"),
    (
        1,
        "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation=\"0\">\n\
         <node index=\"0\" text=\"a > b\" resource-id=\"\" class=\"android.widget.FrameLayout\" package=\"com.example\" \
         clickable=\"false\" enabled=\"true\" bounds=\"[0,0][1080,2340]\">\n\
         <node index=\"1\" text=\"OK\" resource-id=\"com.example:id/ok\" class=\"android.widget.Button\" \
         package=\"com.example\" clickable=\"true\" enabled=\"true\" bounds=\"[100,200][301,400]\" />\n</node></hierarchy>\n",
    ),
    (
        2,
        "1000,2000\ncom.a 1 2 4 8 16 32 64 128\nroot 0 0 0 1 0 0 0 0\n,3000\ncom.a 1 0 0 0 0 0 0 0\n\
         com.b 18446744073709551615 1 1 1 1 1 1 18446744073709551615\n,18446744073709551615\n",
    ),
    (
        3,
        "0 1 1 4096 0 0 0 0 0 1 0\n10001 9 9 100 200 9 9 10 20 3 4\n===\n0 1 1 4096 0 0 0 0 0 1 0\n\
         10001 9 9 1100 200 9 9 10 30 3 9\n10002 0 0 0 0 0 0 0 512 0 0\ntask,app,10002,1,2,3\n",
    ),
    (4, "package:com.example.notes uid:10101\npackage:com.example.maps uid:10102,1010102\npackage:android uid:1000\n"),
    (
        5,
        "disk /sys/devices/platform/soc/1d84000.ufshc/host0/block/sda\n\
         file /sys/devices/platform/soc/1d84000.ufshc/host0/block/sda/dev 8:0\n\
         file /sys/devices/platform/soc/1d84000.ufshc/host0/block/sda/size 1000\n\
         file /sys/devices/platform/soc/1d84000.ufshc/host0/block/sda/queue/scheduler [none] bfq\n\
         file /sys/devices/platform/soc/1d84000.ufshc/host0/block/sda/sda1/dev 8:1\n\
         file /sys/devices/platform/soc/1d84000.ufshc/host0/block/sda/sda1/partition 1\n\
         link /sys/devices/platform/soc/1d84000.ufshc/host0/block/sda/device /sys/devices/platform/soc/1d84000.ufshc/host0\n\
         file /sys/devices/platform/soc/1d84000.ufshc/host0/model KLUDG8V1EE\n\
         file /sys/devices/platform/soc/1d84000.ufshc/health_descriptor/life_time_estimation_a 0x02\n\
         file /sys/devices/platform/soc/1d84000.ufshc/health_descriptor/eol_info 0x01\n\
         disk /sys/devices/virtual/block/dm-0\nfile /sys/devices/virtual/block/dm-0/dev 252:0\n\
         file /sys/devices/virtual/block/dm-0/dm/name userdata\n\
         link /sys/devices/virtual/block/dm-0/slaves/sda1 /sys/devices/platform/soc/1d84000.ufshc/host0/block/sda/sda1\n\
         mount 30 1 252:0 / /data rw,nosuid shared:4 - f2fs /dev/block/dm-0 rw,lazytime\n\
         counters 8 0 sda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\nboot 01234567-89ab-cdef-0123-456789abcdef\n",
    ),
    (
        5,
        "disk /sys/devices/platform/mmc_host/mmc0/mmc0:0001/block/mmcblk0\n\
         file /sys/devices/platform/mmc_host/mmc0/mmc0:0001/block/mmcblk0/dev 179:0\n\
         link /sys/devices/platform/mmc_host/mmc0/mmc0:0001/block/mmcblk0/device \
         /sys/devices/platform/mmc_host/mmc0/mmc0:0001\n\
         file /sys/devices/platform/mmc_host/mmc0/mmc0:0001/type MMC\n\
         file /sys/devices/platform/mmc_host/mmc0/mmc0:0001/life_time 0x03 0x04\n\
         file /sys/devices/platform/mmc_host/mmc0/mmc0:0001/pre_eol_info 0x01\n\
         file /sys/devices/platform/mmc_host/mmc0/mmc0:0001/manfid 0x000015\nrefused /sys/block/sdb\n\
         disk /sys/devices/virtual/block/dm-0\nfile /sys/devices/virtual/block/dm-0/dev 252:0\n\
         disk /sys/devices/virtual/block/dm-1\nfile /sys/devices/virtual/block/dm-1/dev 252:1\n\
         link /sys/devices/virtual/block/dm-0/slaves/dm-1 /sys/devices/virtual/block/dm-1\n\
         link /sys/devices/virtual/block/dm-1/slaves/dm-0 /sys/devices/virtual/block/dm-0\n",
    ),
    (
        6,
        "sdk=34\nrelease=14\nmodel=Pixel 7\nbuild=user\ntraced=1\nkernel=5.10.157-android13\nuser=2000\nabi=arm64-v8a\n\
         perfetto=/system/bin/perfetto\natrace=\nsu=\n",
    ),
];

/// The process's folder. libFuzzer ends the process without removing it; `cargo xtask fuzz` removes it.
static PLACE: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));

/// Calls `write` with a new folder, and checks that nothing else was written next to it.
fn in_folder<T>(write: impl FnOnce(&Path) -> T) -> T {
    let folder = PLACE.path().join("answer");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("it cannot be removed: {error}"),
        _ => fs::create_dir(&folder).expect("a new folder"),
    }
    let written = write(&folder);
    let beside: Vec<PathBuf> =
        fs::read_dir(PLACE.path()).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(beside, [folder], "something was written outside");
    written
}

fn is_printable(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn apps(apps: &[AppIo]) {
    assert!(apps.iter().flat_map(|app| &app.packages).all(|name| is_printable(name)));
}

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let mut all = Vec::new();
            for parser in 0..7 {
                let alike = ANSWERS.iter().filter(|(other, _)| *other == parser);
                let alike = alike.map(|(_, text)| (*text).to_owned()).collect();
                for text in seeds::spliced(alike, 20, random, |a, b, random| seeds::splice_text(a, b, random)) {
                    all.push([&[parser], text.as_bytes()].concat());
                }
            }
            all
        });
    },
    |input: &[u8]| {
        let Some((parser, bytes)) = input.split_first() else { return };
        // Each answer is read as text, with replacements for what is not UTF-8.
        let text = String::from_utf8_lossy(bytes);
        memory::bounded(|| match parser % 7 {
            0 => in_folder(|folder| {
                let received = answers::recording(bytes, folder);
                let mut sum = 0;
                for entry in fs::read_dir(folder).expect("a folder") {
                    let file = entry.expect("an entry").metadata().expect("a file");
                    assert!(file.is_file());
                    sum += file.len();
                }
                assert!(sum <= bytes.len() as u64);
                match received {
                    Ok(size) => assert_eq!(size, sum),
                    Err(why) => assert!(is_printable(&why), "{why:?}"),
                }
            }),
            1 => {
                let (nodes, own) = (clickable(&text, None), clickable(&text, Some("com.example")));
                assert!(own.len() <= nodes.len() && own.iter().all(|node| nodes.contains(node)));
                assert!(nodes.iter().all(|node| is_printable(&node.name) && is_printable(&node.package)));
            }
            2 => {
                let after = u64::from(*parser / 7) * 100;
                let all = answers::storaged(&text, 0);
                if let Some((end, new)) = answers::storaged(&text, after) {
                    let (last, sums) = all.expect("there is a span");
                    assert!(end == last && new.len() <= sums.len());
                    apps(&sums);
                    assert_eq!(answers::storaged(&text, end).expect("there is a span").1, []);
                }
            }
            3 => {
                let (before, after) = text.split_once(LATER).unwrap_or(("", &text));
                apps(&answers::uid_io(before, after));
                assert_eq!(answers::uid_io(before, before), []);
            }
            4 => {
                let found = answers::packages(&text);
                assert!(found.iter().all(|(_, names)| !names.is_empty()));
                assert!(found.iter().flat_map(|(_, names)| names).all(|name| is_printable(name)));
            }
            5 => in_folder(|folder| {
                let Ok(storage) = answers::storage(&text, folder) else { return };
                assert!(storage.refused.iter().chain(&storage.boot).all(|text| is_printable(text)));
                let devices = storage_devices_of(&Machine::at(folder));
                assert!(devices.len() <= text.lines().count());
            }),
            _ => {
                let phone = answers::facts(&text);
                assert!(is_printable(&phone.name()) && is_printable(&phone.abi));
            }
        });
    }
);
