use expect_test::{Expect, expect};
use fonio_core::EventKind;
use proptest::prelude::*;

use super::*;
use crate::recognise::Format;

/// Returns a reader and its complete output.
fn read_all(bytes: &[u8], mapping: &Mapping) -> (Batch, CsvReader) {
    let mut reader = CsvReader::new(Input::of("t.csv", bytes), mapping, "csv").expect("the mapping fits");
    (reader.read_all().expect("memory reads"), reader)
}

fn check(text: &str, mapping: &Mapping, expected: Expect) {
    let (all, reader) = read_all(text.as_bytes(), mapping);
    let mut shown = format!("shows {:?}, {:?}\n", reader.source().shows, reader.clock());
    for one in &all.requests {
        let time = |time: Option<Timestamp>| time.map_or("-".to_owned(), |time| time.0.to_string());
        shown += &format!(
            "{} {} {:#x}/{:#x} sector {:?} bytes {} Q{} I{} D{} C{} tid {:?} cpu {:?}\n",
            one.device,
            one.op.name(),
            one.flags.0,
            one.flags_known.0,
            one.sector.map(|sector| sector.0),
            one.bytes.0,
            time(one.queued),
            time(one.inserted),
            time(one.issued),
            time(one.completed),
            one.tid,
            one.cpu,
        );
    }
    for one in &all.threads {
        shown += &format!("thread {} {:?} from {}\n", one.tid, one.comm, one.from.0);
    }
    for one in &all.diagnostics {
        shown += &format!("{:?} {} line {:?}: {}\n", one.severity, one.code, one.record, one.message);
    }
    expected.assert_eq(&shown);
}

#[test]
fn msr_cambridge() {
    let text = "128166372003061629,hm,1,Read,383496192,32768,113736\n\
                128166372016382155,hm,1,Write,2822144,4096,234567\n\
                128166372016382155,hm,1,Wipe,2822144,4096,234567\n";
    assert_eq!(
        recognise(text.as_bytes().split_inclusive(|byte| *byte == b'\n').next().expect("a line")),
        Some(Format::MsrCambridge)
    );
    check(
        text,
        &Mapping::msr_cambridge(),
        expect![[r#"
        shows ["issue", "complete"], Clock { name: "realtime", unix_ns_at_zero: Some(0) }
        0:1 read 0x0/0x0 sector Some(749016) bytes 32768 Q- I- D1172163600306162900 C1172163600317536500 tid None cpu None
        0:1 write 0x0/0x0 sector Some(5512) bytes 4096 Q- I- D1172163601638215500 C1172163601661672200 tid None cpu None
        Warning unreadable-row line Some(3): The op `Wipe` is not one of the operations such as read, write, discard or flush; the row was skipped.
    "#]],
    );
}

#[test]
fn mqsim() {
    let text = include_bytes!("../../tests/data/mqsim-tpcc-200.trace");
    assert_eq!(recognise(text), Some(Format::DiskSim));
    assert_eq!(disksim_unit(text), TimeUnit::Nanoseconds);
    let (all, reader) = read_all(text, &Mapping::disksim(TimeUnit::Nanoseconds));
    assert_eq!(all.diagnostics, []);
    assert_eq!(all.requests.len(), 200);
    assert_eq!(reader.source().shows, ["queue"]);
    let first = &all.requests[0];
    assert_eq!((first.device, first.op), (DeviceId::new(0, 4), Op::Write));
    assert_eq!((first.sector, first.bytes), (Some(Sector(264_719_034)), ByteCount(8192)));
    assert_eq!((first.queued, first.issued, first.completed), (Some(Timestamp(938_513_000)), None, None));
    assert!(all.requests.iter().any(|request| request.op == Op::Read));
}

#[test]
fn disksim_has_milliseconds() {
    let text = b"0.123456 0 1024 8 1\n5.5 0 2048 8 0\n";
    assert_eq!(recognise(text), Some(Format::DiskSim));
    assert_eq!(disksim_unit(text), TimeUnit::Milliseconds);
    let (all, _) = read_all(text, &Mapping::disksim(TimeUnit::Milliseconds));
    assert_eq!(all.requests[0].queued, Some(Timestamp(123_456)));
}

#[test]
fn any_table() {
    let mapping: Mapping =
        "time=ts:ms,op=rw,offset=off:kib,size=len:bytes,latency=lat:us,device=dev,process=who,tid=pid,cpu=on"
            .parse()
            .expect("it is right");
    check(
        "\u{feff}TS,rw,off,len,lat,dev,who,pid,on\n\
         1.5,R,4,4096,100.25,\"8,1\",\"my, \"\"app\"\"\",12,3\n\
         # a comment\n\n\
         2,flush,NA,0,,sda,my app,13,\n\
         3,w,0.5,512,na,sda,,,0\n\
         4,1,0,512,1,sda,,,0\n\
         x,r,0,512,1,sda,,,0\n\
         ,r,0,512,,sda,,,0\n\
         5,r,0.1,512,1,nvme0n1,late,13,0\n\
         6,r\n",
        &mapping,
        expect![[r#"
            shows ["issue", "complete"], Clock { name: "unknown", unix_ns_at_zero: None }
            8:1 read 0x0/0x0 sector Some(8) bytes 4096 Q- I- D1500000 C1600250 tid Some(12) cpu Some(3)
            0:0 flush 0x0/0x0 sector None bytes 0 Q- I- D2000000 C- tid Some(13) cpu None
            0:0 write 0x0/0x0 sector Some(1) bytes 512 Q- I- D3000000 C- tid None cpu Some(0)
            0:1 read 0x0/0x0 sector Some(0) bytes 512 Q- I- D5000000 C5001000 tid Some(13) cpu Some(0)
            thread 12 Some("my, \"app\"") from 1500000
            thread 13 Some("my app") from 2000000
            thread 13 Some("late") from 5000000
            Note numbered-device line Some(5): The device `sda` has no number; it gets the number 0:0.
            Warning unreadable-row line Some(7): The op `1` is not a word; say which number means a read, with `op=COLUMN:0-is-read` or `op=COLUMN:1-is-read`; the row was skipped.
            Warning unreadable-row line Some(8): The time `x` is not a time in the column's unit; the row was skipped.
            Warning unreadable-row line Some(9): The time `` is not a time in the column's unit; the row was skipped.
            Note unaligned-offset line Some(10): The offset 102 is inside a sector of 512 bytes; the sector's start is used.
            Note numbered-device line Some(10): The device `nvme0n1` has no number; it gets the number 0:1.
            Warning unreadable-row line None: The time `` is not a time in the column's unit; the row was skipped. The same occurs elsewhere.
        "#]],
    );
}

#[test]
fn names_without_numbers_are_numbered() {
    let mapping: Mapping = "completed=1:s,latency=2:ms,op=3:rwbs,offset=4:sectors,size=5:sectors,process=6,delimiter=space,header=no"
        .parse()
        .expect("it is right");
    check(
        "1.5 250 WFS 8 8 sqlite\n2.5 1 RA 16 8 cat\n3 1 W 0 8 sqlite\n",
        &mapping,
        expect![[r#"
            shows ["issue", "complete"], Clock { name: "unknown", unix_ns_at_zero: None }
            0:0 write 0x5/0x1f sector Some(8) bytes 4096 Q- I- D1250000000 C1500000000 tid Some(1) cpu None
            0:0 read 0x10/0x1f sector Some(16) bytes 4096 Q- I- D2499000000 C2500000000 tid Some(2) cpu None
            0:0 write 0x0/0x1f sector Some(0) bytes 4096 Q- I- D2999000000 C3000000000 tid Some(1) cpu None
            thread 1 Some("sqlite") from 1250000000
            thread 2 Some("cat") from 2499000000
            Note numbered-processes line Some(1): The processes have no numbers; they are numbered from 1 in order of appearance.
        "#]],
    );
}

#[test]
fn a_missing_column_is_named() {
    let mapping: Mapping = "time=ts:ms,op=rw,offset=off:bytes,size=9:bytes".parse().expect("it is right");
    let fails = |text: &'static str| {
        CsvReader::new(Input::of("t.csv", text), &mapping, "csv").err().map(|error| error.to_string())
    };
    assert_eq!(
        fails("ts,rw,off,len\n").as_deref(),
        Some("`size`: the table has no column `9`; its columns are ts, rw, off, len")
    );
    assert_eq!(
        fails("time,rw,off,len\n").as_deref(),
        Some("`size`: the table has no column `9`; its columns are time, rw, off, len")
    );
}

#[test]
fn what_is_a_table() {
    assert_eq!(recognise(b"ts,rw,off,len,lat\n1,r,2,3,4\n"), Some(Format::Csv));
    assert_eq!(
        header(b"ts;rw;off;len\n1;r;2,5;3\n"),
        Some(["ts", "rw", "off", "len"].map(str::to_owned).to_vec())
    );
    for other in [
        &b""[..],
        b"\n",
        b"one line of text\n",
        b"a,b\n1,2\n",
        b"a,b,c,d\n1\n",
        b"1 2 3 4\n",
        b"\0\0\0\0,,,,,\xff\n",
    ] {
        assert_eq!(recognise(other), None, "{other:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b','), Just(b'\n'), Just(b'1')], 0..2000)) {
        recognise(&bytes);
        read_all(&bytes, &Mapping::msr_cambridge());
        read_all(&bytes, &Mapping::disksim(TimeUnit::Milliseconds));
    }
}

/// The mappings are those that `foreign.rs` names for files of fio.
#[test]
fn files_of_fio() {
    check(
        "0, 491188, 0, 4096, 1011712, 0\n7, 512086, 1, 8192, 12419072, 0\n",
        &"issued=1:ms,latency=2:ns,op=3:0-is-read,size=4:bytes,offset=5:bytes,header=no"
            .parse()
            .expect("it is right"),
        expect![[r#"
            shows ["issue", "complete"], Clock { name: "unknown", unix_ns_at_zero: None }
            0:0 read 0x0/0x0 sector Some(1976) bytes 4096 Q- I- D0 C491188 tid None cpu None
            0:0 write 0x0/0x0 sector Some(24256) bytes 8192 Q- I- D7000000 C7512086 tid None cpu None
        "#]],
    );
    check(
        "fio version 3 iolog\n20 /dev/sda add\n201 /dev/sda write 8192 4096\n202 /dev/sda sync\n",
        &"queued=1:ms,device=2,op=3,offset=4:bytes,size=5:bytes,delimiter=blanks,header=no"
            .parse()
            .expect("it is right"),
        expect![[r#"
            shows ["queue"], Clock { name: "unknown", unix_ns_at_zero: None }
            0:0 write 0x0/0x0 sector Some(16) bytes 4096 Q201000000 I- D- C- tid None cpu None
            Warning unreadable-row line Some(1): The op `3` is not one of the operations such as read, write, discard or flush; the row was skipped.
            Warning unreadable-row line Some(2): The op `add` is not one of the operations such as read, write, discard or flush; the row was skipped.
            Note numbered-device line Some(3): The device `/dev/sda` has no number; it gets the number 0:0.
            Warning unreadable-row line Some(4): The size `` is not a number; the row was skipped.
        "#]],
    );
}

/// The mapping for `blkparse -f '%T.%t %p %a %d %S %n %D\\n'`.
fn own_order() -> Mapping {
    "time=1:s,tid=2,event=3,op=4:rwbs,offset=5:sectors,size=6:sectors,device=7,delimiter=blanks,header=no"
        .parse()
        .expect("it is right")
}

#[test]
fn events_in_an_order_of_ones_own() {
    let text = "0.000001 7 Q WS 800 8 8,0\n\
                0.000002 7 P N 0 0 8,0\n\
                0.000005 7 D WS 800 8 8,0\n\
                0.000009 7 Z WS 800 8 8,0\n\
                0.000105 0 C WS 800 8 8,0\n";
    let (all, reader) = read_all(text.as_bytes(), &own_order());
    let events: Vec<_> =
        all.events.iter().map(|one| (one.time.0, one.kind, one.sector.0, one.bytes.0, one.tid)).collect();
    assert_eq!(
        events,
        [
            (1000, EventKind::BioQueue, 800, 4096, Some(7)),
            (5000, EventKind::Issue, 800, 4096, Some(7)),
            (105_000, EventKind::Complete, 800, 4096, Some(0)),
        ]
    );
    assert_eq!(all.requests, []);
    assert_eq!(reader.source().shows, ["queue", "issue", "complete"]);
    expect![
        "The event `Z` is not one of blkparse's letters or the name of a block event; the row was skipped."
    ]
    .assert_eq(&all.diagnostics[0].message);
    let no_time = "event=1,completed=2:s,op=3,offset=4:sectors,size=5:sectors".parse::<Mapping>();
    expect!["with `event`, the mapping needs `time=COLUMN:UNIT` and no other time; a whole mapping looks like `time=ts:ms,op=rw,offset=off:bytes,size=len:bytes,latency=lat:us`"].assert_eq(&no_time.expect_err("it has no time").to_string());
}

/// The columns of blkparse's default text in another order give the same events.
#[test]
fn columns_of_blkparse_in_another_order() {
    let text = include_str!("../../tests/data/takeoverjp-sample.blkparse.txt");
    let mut other = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, _, _, time, tid, action, rwbs, rest @ ..] = words.as_slice() else { continue };
        if device.contains(',') && matches!(*action, "Q" | "G" | "I" | "D" | "C" | "M" | "F") {
            let [sector, _, sectors, ..] = rest else { continue };
            other += &format!("{time} {tid} {action} {rwbs} {sector} {sectors} {device}\n");
        }
    }
    let (ours, _) = read_all(other.as_bytes(), &own_order());
    let mut theirs =
        crate::blkparse::BlkparseReader::new(Input::of("x", text)).read_all().expect("memory reads");
    theirs.events.retain(|event| {
        !matches!(
            event.kind,
            EventKind::Plug | EventKind::Unplug { .. } | EventKind::Remap { .. } | EventKind::Split { .. }
        )
    });
    let key = |event: &BlockEvent| {
        (event.time, event.kind, event.device, event.sector, event.bytes, event.op, event.flags, event.tid)
    };
    let (ours, theirs): (Vec<_>, Vec<_>) =
        (ours.events.iter().map(key).collect(), theirs.events.iter().map(key).collect());
    assert!(ours.len() > 3000, "{}", ours.len());
    assert_eq!(ours, theirs);
}
