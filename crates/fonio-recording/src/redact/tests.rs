use std::fs;
use std::path::Path;

use fonio_core::meta::{Device, Source};
use fonio_core::{
    BlockedCount, ByteCount, CollectedRows, Content, DeviceId, Nanos, Op, Request, Severity, Timestamp, Wait,
    WaitReason,
};

use super::*;
use crate::{Recording, Tables, Writer, WriterOptions};

/// A word that occurs in every name of the rows below.
const SECRET: &str = "gazelle";

fn meta() -> Meta {
    let mount = Mount {
        at: "/home/gazelle".to_owned(),
        fs: "btrfs".to_owned(),
        options: vec!["subvol=/gazelle".to_owned(), "commit=30".to_owned()],
        ..Mount::default()
    };
    let device = Device { name: Some("sda".to_owned()), mounts: vec![mount], ..Device::default() };
    Meta {
        source: Source { files: vec!["/tmp/gazelle.trace".to_owned()], ..Source::default() },
        command: Some(vec!["/opt/gazelle".to_owned(), "--key=gazelle".to_owned()]),
        host: Host { name: Some("gazelle".to_owned()), model: Some("Pi 4".to_owned()), ..Host::default() },
        devices: vec![device],
        ..Meta::default()
    }
}

/// Writes a row of each kind. Each row contains the secret word wherever it can have a name.
fn pour(sink: &mut dyn RowSink) {
    let name = || Some(SECRET.to_owned());
    let thread = |tid, comm: &str| Thread {
        tid,
        comm: Some(comm.to_owned()),
        cgroup: Some("/system.slice/gazelle.service".to_owned()),
        unit: Some("docker gazelle/gazelle.service".to_owned()),
        uid: Some(10_123),
        ..Thread::default()
    };
    let file = |file_id, path: &str| File {
        file_id,
        from: Timestamp(0),
        device: Some(DeviceId::new(8, 1)),
        inode: Some(12),
        path: Some(path.to_owned()),
        content: Content::SqliteDb,
    };
    let mark = |name: &str| Mark { at: Timestamp(1), until: None, name: name.to_owned(), tid: Some(1) };
    let diagnostic = |code: &str| Diagnostic {
        severity: Severity::Warning,
        code: code.to_owned(),
        message: format!("the line {SECRET} was skipped"),
        file: name(),
        record: Some(1),
        offset: None,
        count: 1,
    };
    sink.began(Timestamp(0)).unwrap();
    for row in [thread(1, SECRET), thread(2, "kworker/u8:1-gazelle"), thread(3, "jbd2/gazelle-8")] {
        sink.thread(&row).unwrap();
    }
    for row in [file(1, "/data/gazelle.db"), file(2, "/data/gazelle.db-wal"), file(3, "/gazelle/x")] {
        sink.file(&row).unwrap();
    }
    let mut request = Request::new(DeviceId::new(8, 0), Op::Write, ByteCount(4096));
    (request.tid, request.file_id, request.issued) = (Some(1), Some(1), Some(Timestamp(5)));
    sink.request(&request).unwrap();
    for (metric, subject) in [
        (Metric::NetReceiveBytes, "gazelle"),
        (Metric::NetTransmitBytes, "gazelle"),
        (Metric::NetLinkBytesPerS, "gazelle"),
        (Metric::DiskBusyMs, "sda"),
    ] {
        let sample = Sample { time: Timestamp(3), metric, subject: Some(subject.to_owned()), value: 7 };
        sink.sample(&sample).unwrap();
    }
    for row in [mark("gazelle phase"), mark("command"), mark("launch")] {
        sink.mark(&row).unwrap();
    }
    sink.statement(&Statement {
        tid: 1,
        connection: Some(0),
        entered: Timestamp(4),
        exited: None,
        steps: 1,
        stepping: Nanos(1),
        text: Some(format!("INSERT INTO \"{SECRET}\"({SECRET}.x) VALUES (?, ...) …")),
    })
    .unwrap();
    sink.diagnostic(&diagnostic("damaged-line")).unwrap();
}

fn written(dir: &Path, key: Option<&Key>) {
    let mut writer = Writer::create(dir, WriterOptions::default()).unwrap();
    let meta = match key {
        None => {
            pour(&mut writer);
            meta()
        }
        Some(key) => {
            pour(&mut Redactor::new(key, &mut writer));
            redacted_meta(key, &meta())
        }
    };
    writer.finish(meta).unwrap();
}

fn text_of(dir: &Path) -> String {
    let mut rows = CollectedRows::default();
    let recording = Recording::open(dir).unwrap();
    recording.replay(&mut rows, Tables::ALL).unwrap();
    format!("{rows:?}{:?}", recording.meta())
}

/// Counts the occurrences of a word in the bytes of a folder's files.
fn found_in_bytes(dir: &Path, word: &str) -> usize {
    let files = fs::read_dir(dir).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    files.map(|bytes| bytes.windows(word.len()).filter(|part| *part == word.as_bytes()).count()).sum()
}

#[test]
fn no_name_is_left_in_any_byte() {
    let folder = tempfile::tempdir().unwrap();
    let key = Key::of(b"0123456789abcdef");
    let [plain, redacted] = ["plain", "redacted"].map(|name| folder.path().join(name));
    written(&plain, None);
    written(&redacted, Some(&key));
    // The tables may be compressed, so the test also reads the rows back.
    assert!(found_in_bytes(&plain, SECRET) > 0 && text_of(&plain).matches(SECRET).count() >= 25);
    assert_eq!(found_in_bytes(&redacted, SECRET), 0);
    let text = text_of(&redacted);
    assert!(!text.contains(SECRET) && !text.contains("10123"), "{text}");
    // Values that readers need are kept.
    for kept in [
        "kworker/0:0",
        "jbd2",
        ".db-wal",
        "\"command\"",
        "\"launch\"",
        "sda",
        "Pi 4",
        "commit=30",
        "damaged-line",
        ".service",
        "INSERT INTO n-",
        " VALUES (?, ...) …",
    ] {
        assert!(text.contains(kept), "{kept} is missing:\n{text}");
    }
    // With another key, the tokens differ.
    let other = folder.path().join("other");
    written(&other, Some(&Key::of(b"0123456789abcdeg")));
    assert_ne!(text_of(&other), text);
}

/// A redacted trace of a phone still shows its launches and late frames.
#[test]
fn marks_of_launches_keep_their_form() {
    let package = "com.secret.app";
    let mut redactor = Redactor::new(&Key::of(b"0123456789abcdef"), CollectedRows::default());
    let names = [
        "launchingActivity#7".to_owned(),
        format!("launchingActivity#7:completed-cold:{package}"),
        format!("launching: {package}"),
        "bindApplication".to_owned(),
        "late frame: App Deadline Missed, Display HAL".to_owned(),
        // Names of programs in the same form.
        format!("late frame: {package}"),
        format!("launchingActivity#{package}"),
        format!("launchingActivity#7:{package}:x"),
    ];
    for name in names.clone() {
        redactor.mark(&Mark { at: Timestamp(0), until: None, name, tid: None }).unwrap();
    }
    let unit = Some(package.to_owned());
    redactor.thread(&Thread { unit, ..Thread::default() }).unwrap();
    let rows = redactor.into_inner();
    let token = rows.threads[0].unit.clone().unwrap();
    assert!(!token.contains("secret"));
    let found: Vec<&str> = rows.marks.iter().map(|mark| mark.name.as_str()).collect();
    assert_eq!(found[0], names[0]);
    assert_eq!(found[1], format!("launchingActivity#7:completed-cold:{token}"));
    assert_eq!(found[2], format!("launching: {token}"));
    assert_eq!(found[3..5], names[3..5]);
    assert!(found[5..].iter().all(|name| name.starts_with("mark-") && !name.contains("secret")), "{found:?}");
}

#[test]
fn rows_without_names_do_not_change() {
    let wait = Wait {
        tid: 1,
        began: Timestamp(1),
        ended: Some(Timestamp(9)),
        reason: WaitReason::Storage,
        request_id: Some(1),
        waker_tid: None,
        blocked_in: None,
        file_id: Some(1),
        io_wait: None,
        function: None,
    };
    let count = BlockedCount {
        tid: 1,
        blocked_in: fonio_core::BlockedIn::Read,
        reason: WaitReason::Storage,
        from: Timestamp(0),
        until: Timestamp(9),
        below: Nanos(1000),
        count: 2,
        total: Nanos(700),
    };
    let mut redactor = Redactor::new(&Key::of(b"0123456789abcdef"), CollectedRows::default());
    redactor.wait(&wait).unwrap();
    redactor.blocked_count(&count).unwrap();
    let rows = redactor.into_inner();
    assert_eq!((rows.waits, rows.blocked_counts), (vec![wait], vec![count]));
}
