use std::io::Write;

use base64::Engine as _;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use proptest::prelude::*;

use super::*;

const TRACE: &str = "# tracer: nop\n\
    #\n\
    #           TASK-PID    CPU#    TIMESTAMP  FUNCTION\n\
    \x20         <idle>-0     [000] d.h3   812.105977: block_rq_complete: 179,0 WS () 9182248 + 8 [0]\n\
    \x20 a \"quoted\" \\ b-12    [001] ...1   812.106977: block_rq_issue: 179,0 WS 0 () 9182248 + 8 [a]\n\
    \x20         app-13    [001] ...1   812.107000: tracing_mark_write: B|13|</b>\n";

/// Returns at most `step` bytes at a time.
struct Steps(io::Cursor<Vec<u8>>, usize);

impl Read for Steps {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(to.len());
        self.0.read(&mut to[..count])
    }
}

fn extract(bytes: &[u8], step: usize) -> (Vec<u8>, Option<String>) {
    let mut extract = Extract::new(Steps(io::Cursor::new(bytes.to_vec()), step));
    let mut text = Vec::new();
    extract.read_to_end(&mut text).expect("memory reads");
    (text, extract.damage)
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory writes")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory writes")
}

fn base64(bytes: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    text.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line).into_owned() + "\n").collect()
}

fn escaped(text: &str) -> String {
    text.replace('\n', "\\n\\\n")
}

fn json(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('#', "\\u0023");
    format!(
        "{{\"traceEvents\": [{{\"name\": \"x\"}}], \"systemTraceEvents\" : \"{text}\", \"metadata\": {{}}}}"
    )
}

/// Returns the same trace in every format.
fn forms() -> Vec<(&'static str, Vec<u8>)> {
    let page = |part: String| {
        let library =
            "<script>\nvar m = /^  var linuxPerfData = \"\\\\$/; if (a < b) f('</div>');\n</script>\n";
        format!("<!DOCTYPE html>\n<html>\n<head>{library}</head>\n<body>\n{part}</body>\n</html>\n")
            .into_bytes()
    };
    let script = |attributes: &str, text: &str| format!("<script {attributes}>\n{text}</script>\n");
    let new = "class=\"trace-data\" type=\"application/text\"";
    vec![
        (
            "2015",
            page(
                script(new, "PROCESS DUMP\nroot 1 0 init\n")
                    + &script(new, TRACE)
                    + &script(new, "{\"traceEvents\": []}"),
            ),
        ),
        ("2013", page(script(new, &escaped(TRACE)))),
        (
            "2012",
            page(format!(
                "<script>\n  var linuxPerfData = \"\\\n{}           dummy-0000  [000] 0.0: 0: trace_event_clock_sync: parent_ts=0.0\\n\";\n  </script>",
                escaped(TRACE)
            )),
        ),
        (
            "base64 of gzip",
            page(script("id=\"viewer-data\" type=\"text/plain\"", &base64(&gzip(TRACE.as_bytes())))),
        ),
        (
            "base64 of gzip of JSON",
            page(script(
                "id=\"viewer-data\" type=\"application/json\"",
                &base64(&gzip(json(TRACE).as_bytes())),
            )),
        ),
        ("base64 of zlib", page(script(new, &base64(&zlib(TRACE.as_bytes()))))),
        ("atrace", format!("capturing trace... done\nTRACE:\n{TRACE}").into_bytes()),
        ("atrace through adb", format!("capturing trace... done\r\r\nTRACE:\r\r\n{TRACE}").into_bytes()),
        ("atrace -z", [b"capturing trace... done\nTRACE:\n".as_slice(), &zlib(TRACE.as_bytes())].concat()),
        ("JSON", json(TRACE).into_bytes()),
        ("text", TRACE.as_bytes().to_vec()),
    ]
}

#[test]
fn every_form_holds_the_same_trace() {
    for (form, bytes) in forms() {
        for step in [1, 7, 4096, usize::MAX] {
            let (text, damage) = extract(&bytes, step);
            assert_eq!(damage, None, "{form}");
            let text = String::from_utf8_lossy(&text).replace("\\n\\\n", "\n");
            assert!(text.contains(TRACE), "{form} in steps of {step}: {text}");
        }
        assert!(form == "text" || recognise(&bytes), "{form}");

        let mut reader = SystraceReader::new(Input::of(form, bytes));
        let batch = reader.read_all().expect("memory reads");
        assert_eq!(batch.events.len(), 2, "{form}");
        assert_eq!(batch.events[0].time.0, 812_105_977_000, "{form}");
        assert_eq!(batch.marks[0].name, "</b>");
        assert!(
            batch.diagnostics.iter().all(|one| one.code == "no-event"),
            "{form}: {:?}",
            batch.diagnostics
        );
        assert_eq!(reader.source().shows, ["issue", "complete"]);
    }
}

#[test]
fn html_without_a_trace_is_said_so() {
    let page = b"<html><script>var x = 1;</script><p>Nothing here.</p></html>";
    let batch = SystraceReader::new(Input::of("x", page)).read_all().expect("memory reads");
    let codes: Vec<&str> = batch.diagnostics.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, ["no-trace"]);
}

#[test]
fn what_came_before_damage_is_kept() {
    let many = TRACE.repeat(5000);
    for packed in [zlib(many.as_bytes()), gzip(many.as_bytes())] {
        let mut bytes = b"TRACE:\n".to_vec();
        bytes.extend(&packed[..packed.len() / 2]);
        let (text, damage) = extract(&bytes, usize::MAX);
        assert!(text.starts_with(TRACE.as_bytes()));
        assert!(damage.is_some());
        let middle = bytes.len() / 2;
        bytes[middle..].fill(0xff);
        let (text, damage) = extract(&bytes, usize::MAX);
        assert!(text.starts_with(TRACE.as_bytes()));
        assert!(damage.is_some());
    }
}

#[test]
fn a_decompression_bomb_takes_little_memory() {
    let bomb = zlib(&vec![b'x'; 200 << 20]);
    let mut extract = Extract::new(io::Cursor::new([b"TRACE:\n".as_slice(), &bomb].concat()));
    let (mut total, mut most) = (0, 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = extract.read(&mut buffer).expect("memory reads");
        if count == 0 {
            break;
        }
        total += count;
        most = most.max(extract.out.text.capacity());
    }
    assert_eq!(total, 200 << 20);
    assert!(most <= 16 << 20, "{most} bytes were held");
}

#[test]
fn packings_in_packings_end() {
    let mut bytes = TRACE.as_bytes().to_vec();
    for _ in 0..10 {
        bytes = gzip(&bytes);
    }
    extract(&[b"TRACE:\n".as_slice(), &bytes].concat(), usize::MAX);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500), form in 0_usize..11, at in any::<usize>(), step in 1_usize..100) {
        let (_, mut trace) = forms().swap_remove(form);
        let at = at % trace.len();
        let end = (at + bytes.len()).min(trace.len());
        trace[at..end].copy_from_slice(&bytes[..end - at]);
        recognise(&trace);
        extract(&trace, step);
        extract(&bytes, step);
    }
}
