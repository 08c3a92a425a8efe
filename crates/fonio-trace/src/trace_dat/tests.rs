use std::path::PathBuf;

use expect_test::expect;
use fonio_testing::{Need, skip};
use proptest::prelude::*;

use super::encode::Contents;
use super::*;
use crate::recognise::{Format, OpenError, ReadOptions, open};

const HEADER_PAGE: &str = include_str!("../../../fonio-tracefs/tests/data/linux-6.18-x86_64/header_page");
const FORMATS: &str = include_str!("../../../fonio-tracefs/tests/data/linux-6.18-x86_64/formats");
const CPU0: &[u8] = include_bytes!("../../../fonio-tracefs/tests/data/linux-6.18-x86_64/cpu0.pages");
const CPU1: &[u8] = include_bytes!("../../../fonio-tracefs/tests/data/linux-6.18-x86_64/cpu1.pages");
/// The number of block events on these pages.
const EVENTS: usize = 433;

/// Returns a file with pages of a real kernel.
fn contents(packing: &str) -> Contents {
    let mut starts: Vec<usize> = FORMATS.match_indices("name: ").map(|(at, _)| at).collect();
    starts.push(FORMATS.len());
    let formats = starts.windows(2).map(|range| FORMATS[range[0]..range[1]].to_owned()).collect();
    Contents {
        header_page: HEADER_PAGE.into(),
        ftrace: Vec::new(),
        systems: vec![("block".into(), formats)],
        symbols: String::new(),
        names: "1 init\n77 a name\n".into(),
        clock: "local [mono] boot".into(),
        buffers: vec![(String::new(), "mono".into(), vec![CPU0.into(), CPU1.into()])],
        page_bytes: 4096,
        chunk_pages: 3,
        packing: packing.into(),
    }
}

fn read(bytes: &[u8]) -> Result<(Batch, Clock), String> {
    let mut reader = open(vec![Input::of("t", bytes)], &ReadOptions::default()).map_err(|error| {
        assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
        error.to_string()
    })?;
    assert_eq!(reader.source().format, Format::TraceDat.name());
    Ok((reader.read_all().expect("memory reads"), reader.clock()))
}

fn codes(all: &Batch) -> Vec<&str> {
    all.diagnostics.iter().map(|one| one.code.as_str()).collect()
}

#[test]
fn all_versions_and_packings_give_the_same_events() {
    let (plain, clock) = read(&contents("none").version_6()).expect("it is read");
    assert_eq!((plain.events.len(), codes(&plain), clock.name.as_str()), (EVENTS, vec![], "mono"));
    assert!(plain.events.is_sorted_by_key(|event| event.time));
    for packing in ["none", "zstd", "zlib"] {
        let (other, clock) = read(&contents(packing).version_7()).expect("it is read");
        assert_eq!(clock.name, "mono");
        assert_eq!(
            (&other.events, &other.threads, &other.lost),
            (&plain.events, &plain.threads, &plain.lost),
            "{packing}"
        );
    }
    // A stream without random access is read through memory.
    let mut input = Input::of("t", contents("zstd").version_7());
    input.file = None;
    let mut reader = open(vec![input], &ReadOptions::default()).expect("it is read");
    assert_eq!(reader.read_all().expect("memory reads").events, plain.events);
}

#[test]
fn the_buffer_with_block_events_is_read() {
    let mut contents = contents("none");
    let main = contents.buffers[0].clone();
    contents.buffers = vec![
        (String::new(), "local".into(), vec![Vec::new(), Vec::new()]),
        ("idle".into(), "boot".into(), vec![vec![0; 4096], Vec::new()]),
        ("disks".into(), "local".into(), main.2),
    ];
    contents.clock = "[local] mono".into();
    for bytes in [contents.version_6(), contents.version_7()] {
        let (all, clock) = read(&bytes).expect("it is read");
        assert_eq!((all.events.len(), clock.name.as_str()), (EVENTS, "local"));
        assert_eq!(codes(&all), ["other-buffer", "local-clock"]);
        expect!["The file has several buffers. The buffer `disks` was read; the buffer `idle` was left out. To read it: `trace-cmd report -B NAME trace.dat > trace.txt`."].assert_eq(&all.diagnostics[0].message);
    }
    // The file of trace-cmd 3.1 says `local` for an instance with another clock.
    contents.clock = "local [mono]".into();
    assert_eq!(read(&contents.version_7()).expect("it is read").1.name, "mono");
}

#[test]
fn files_without_requests_are_refused_by_name() {
    let mut shown = String::new();
    let mut say = |bytes: &[u8]| shown += &format!("{}\n", read(bytes).expect_err("it has no requests"));
    let whole = contents("none");
    let mut sched = whole.clone();
    sched.systems =
        vec![("sched".into(), vec!["name: sched_switch\nID: 3\n".into()]), ("irq".into(), vec![])];
    say(&sched.version_6());
    let mut empty = whole.clone();
    empty.buffers[0].2 = vec![Vec::new()];
    say(&empty.version_7());
    let mut lzo = whole.clone();
    lzo.packing = "lzo".into();
    say(&lzo.version_7());
    say(b"\x17\x08\x44tracing5\0");
    say(&whole.version_6()[..200]);
    say(&whole.version_7()[..5000]);
    let mut damaged = contents("zstd").version_7();
    damaged[100] ^= 0xff;
    say(&damaged);
    expect![[r#"
        t: it is a trace.dat of trace-cmd without block events (its events: sched, irq). Record again with `trace-cmd record -e block -C mono`.
        t: it is a trace.dat of trace-cmd without any event. Record again with `trace-cmd record -e block -C mono`.
        t: it is a trace.dat of trace-cmd that is compressed with lzo. fonio unpacks zstd and zlib: `trace-cmd convert -i trace.dat -o new.dat --compression none`.
        t: it is a trace.dat of trace-cmd, but the byte order is damaged or missing at byte 12. Record again, and let trace-cmd end by itself or with Ctrl-C.
        t: it is a trace.dat of trace-cmd, but the header of its pages is damaged or missing at byte 38. Record again, and let trace-cmd end by itself or with Ctrl-C.
        t: it is a trace.dat of trace-cmd, but the id of a section is damaged or missing at byte 50769. Record again, and let trace-cmd end by itself or with Ctrl-C.
        t: it is a trace.dat of trace-cmd, but a section is damaged or missing at byte 211. Record again, and let trace-cmd end by itself or with Ctrl-C.
    "#]].assert_eq(&shown);
}

#[test]
fn a_file_that_is_cut_is_read_as_far_as_it_goes() {
    let bytes = contents("none").version_6();
    let (all, _) = read(&bytes[..bytes.len() - 5000]).expect("the description is complete");
    assert!((EVENTS / 2..EVENTS).contains(&all.events.len()), "{}", all.events.len());
    assert_eq!(codes(&all), ["damaged-page", "damaged-page"]);
    assert_eq!(all.lost.len(), 1);
    // A damaged chunk takes its pages with it.
    let mut bytes = contents("zstd").version_7();
    let at = bytes.windows(4).rposition(|word| word == [0x28, 0xb5, 0x2f, 0xfd]).expect("a chunk");
    bytes[at] = 0;
    let (all, _) = read(&bytes).expect("the description is complete");
    assert!((1..EVENTS).contains(&all.events.len()), "{}", all.events.len());
    assert_eq!((codes(&all), all.lost.len()), (vec!["damaged-page"], 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// No damage makes the reader panic, or read more events than there are.
    #[test]
    fn any_damage(packing in 0_usize..3, places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut in any::<prop::sample::Index>()) {
        let contents = contents(["none", "zstd", "zlib"][packing]);
        for mut bytes in [contents.version_6(), contents.version_7()] {
            for (place, byte) in &places {
                let at = place.index(bytes.len());
                bytes[at] = *byte;
            }
            bytes.truncate(cut.index(4 * bytes.len()));
            if let Ok(mut reader) = TraceDatReader::open(Input::of("t", bytes)) {
                let all = reader.read_all().expect("memory reads");
                prop_assert!(all.events.len() <= 20 * EVENTS);
            }
        }
    }
}

fn shared(name: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/public").join(name);
    if !path.is_file() {
        skip(Need::Shared, format!("{} does not exist", path.display()));
        return None;
    }
    Some(std::fs::read(path).expect("the sample is there"))
}

/// The sample is from a 32-bit machine and has only scheduler events.
#[test]
fn a_public_sample_shows_threads_and_no_requests() {
    let Some(bytes) = shared("tgvm-lab-trace.dat") else { return };
    let mut reader =
        TraceDatReader::open(Input::of("t", bytes.clone())).unwrap_or_else(|refusal| panic!("{refusal:?}"));
    let all = reader.read_all().expect("memory reads");
    assert_eq!(
        (all.events.len(), codes(&all), reader.clock().name.as_str()),
        (0, vec!["local-clock"], "local")
    );
    assert_eq!(reader.source().shows, ["scheduler"]);
    let file = RandomAccess::of(Input::of("t", bytes), KIND).unwrap_or_else(|refusal| panic!("{refusal:?}"));
    let description = Description::read(&file).unwrap_or_else(|refusal| panic!("{refusal:?}"));
    let sched = SchedDecoder::new(&description.formats, description.order).expect("it has sched_switch");
    let streams = streams(&file, &description, &description.buffers[0], "t");
    let mut records = MergedRecords::new(description.layout.clone(), streams, Timestamp(0));
    let (mut switches, mut all) = (0, 0);
    while records
        .next(|_, record| {
            all += 1;
            switches += usize::from(sched.decode(record.data).is_some());
        })
        .expect("memory reads")
    {}
    // `trace-cmd report` prints 102 events.
    assert_eq!((switches, all), (102, 102));
    assert_eq!(description.buffers[0].clock.as_deref(), Some("local"));
}
