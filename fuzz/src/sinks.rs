//! The consumers of a recording's rows.

use std::io;

use fonio_analysis::{Analyser, AnalysisOptions};
use fonio_core::{
    Diagnostic, File, Mark, Meta, Request, RowSink, Sample, Statement, Thread, Timestamp, ignore_rows,
};
use fonio_export::csv::CsvExport;
use fonio_export::fio_iolog::{FioIolog, Version};
use fonio_export::perfetto_json::PerfettoJson;
use fonio_recording::{Key, Redactor, redacted_meta};
use fonio_report::{Document, TerminalStyle, render_json, render_markdown, render_terminal};

/// Maximum number of bytes of a text in a row (`docs/recording-reference.md`, "Limits").
const TEXT_BYTES_MAX: usize = 64 << 10;

const STYLE: TerminalStyle =
    TerminalStyle { colour: true, width: 80, height: 40, unicode: true, rows: 20, first_screen: false };

/// Passes the rows that `pour` gives to the consumer that `choice` selects.
pub fn consume(choice: u8, meta: &Meta, pour: impl FnOnce(&mut dyn RowSink) -> io::Result<()>) {
    let out = io::sink();
    let works = "it does no I/O";
    match choice % 6 {
        0 | 1 => {
            let mut analyser = Analyser::new(AnalysisOptions::default());
            pour(&mut analyser).expect(works);
            let analysis = analyser.finish(meta);
            let document = Document::from_analysis(&analysis, meta);
            render_terminal(&document, STYLE, &mut io::sink()).expect(works);
            render_markdown(&document, &mut io::sink()).expect(works);
            render_json(&analysis, &[], &mut io::sink()).expect(works);
        }
        2 => {
            let mut csv = CsvExport::new(out).expect(works);
            pour(&mut csv).expect(works);
            csv.finish().expect(works);
        }
        3 => {
            let mut perfetto = PerfettoJson::new(Vec::new(), &meta.devices);
            pour(&mut perfetto).expect(works);
            let json = perfetto.finish().expect(works);
            serde_json::from_slice::<serde::de::IgnoredAny>(&json).expect("Perfetto reads JSON");
        }
        4 => {
            let version = if choice < 128 { Version::V2 } else { Version::V3 };
            let mut iolog = FioIolog::new(out, version, &meta.devices).expect(works);
            pour(&mut iolog).expect(works);
            iolog.finish().expect(works);
        }
        _ => {
            let key = Key::random().expect("Linux has random numbers");
            let mut redactor = Redactor::new(&key, Checked::default());
            pour(&mut redactor).expect(works);
            redacted_meta(&key, meta);
        }
    }
}

/// Counts rows, and checks what a reader of recordings promises about them.
#[derive(Debug, Default)]
pub struct Checked {
    pub rows: u64,
    last: Timestamp,
}

impl Checked {
    fn texts(&mut self, texts: &[Option<&String>]) -> io::Result<()> {
        self.rows += 1;
        assert!(texts.iter().flatten().all(|text| text.len() <= TEXT_BYTES_MAX), "a text is too long");
        Ok(())
    }
}

impl RowSink for Checked {
    fn request(&mut self, row: &Request) -> io::Result<()> {
        assert!(row.order_time() >= self.last, "the requests are not in order");
        self.last = row.order_time();
        self.texts(&[])
    }
    fn file(&mut self, row: &File) -> io::Result<()> {
        self.texts(&[row.path.as_ref()])
    }
    fn thread(&mut self, row: &Thread) -> io::Result<()> {
        self.texts(&[row.comm.as_ref(), row.cgroup.as_ref(), row.unit.as_ref()])
    }
    fn statement(&mut self, row: &Statement) -> io::Result<()> {
        self.texts(&[row.text.as_ref()])
    }
    fn sample(&mut self, row: &Sample) -> io::Result<()> {
        self.texts(&[row.subject.as_ref()])
    }
    fn mark(&mut self, row: &Mark) -> io::Result<()> {
        self.texts(&[Some(&row.name)])
    }
    fn diagnostic(&mut self, row: &Diagnostic) -> io::Result<()> {
        self.texts(&[Some(&row.code), Some(&row.message), row.file.as_ref()])
    }
    ignore_rows!(began, bio, link, call, wait, blocked_count, settled);
}
