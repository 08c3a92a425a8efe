//! Reads arbitrary ring-buffer pages, `header_page` texts and `format` texts, and checks for panics, endless
//! loops and lost events.
#![no_main]

use std::io;

use fonio_core::meta::{Clock, Source};
use fonio_core::{Batch, DeviceId, Timestamp};
use fonio_tracefs::ring_buffer::{
    BlockDecoder, ByteOrder, EventFormat, FileDecoder, PageLayout, PageSource, RingBufferReader,
};
use fonio_tracefs::whose::Attribution;
use libfuzzer_sys::fuzz_target;

const HEADER_PAGE: &str = include_str!("../../crates/fonio-tracefs/tests/data/linux-6.18-x86_64/header_page");
const FORMATS: &str = include_str!("../../crates/fonio-tracefs/tests/data/linux-6.18-x86_64/formats");
const FILE_FORMATS: &str =
    include_str!("../../crates/fonio-tracefs/tests/data/linux-6.18-x86_64/file_formats");

struct Pages(Vec<Vec<u8>>);

impl PageSource for Pages {
    fn next_page(&mut self, page: &mut Vec<u8>) -> io::Result<Option<u64>> {
        let Some(next) = self.0.pop() else { return Ok(None) };
        *page = next;
        Ok(Some(self.0.len() as u64))
    }
}

fn formats(text: &str) -> Vec<EventFormat> {
    text.split("name: ").filter_map(|part| EventFormat::parse(&format!("name: {part}")).ok()).collect()
}

// The first byte selects the byte order, the number of processors, and the layouts. The layouts are those of
// a real kernel or come from the input, where they precede the pages and end with a NUL.
fuzz_target!(|input: &[u8]| {
    let Some((&choice, mut rest)) = input.split_first() else { return };
    let order = if choice & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let streams = u32::from(choice >> 1 & 3) + 1;
    let (mut header_page, mut known) =
        (HEADER_PAGE.to_owned(), [formats(FORMATS), formats(FILE_FORMATS)].concat());
    if choice & 0x80 != 0 {
        let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        let text = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = &rest[(end + 1).min(rest.len())..];
        known = formats(&text);
        if choice & 0x40 != 0 {
            header_page = text;
        }
    }
    let Ok(layout) = PageLayout::parse(&header_page, order) else { return };
    let Some(decoder) = BlockDecoder::new(&known, order) else { return };
    let files = FileDecoder::new(&known, order);
    let mut attribution = Attribution::new([(DeviceId::new(8, 1), DeviceId::new(8, 0))]);
    let page_bytes = 64 << (choice >> 3 & 3);
    let mut pages: Vec<Vec<u8>> = rest.chunks(page_bytes).map(<[u8]>::to_vec).collect();
    let streams = (0..streams).map(|cpu| {
        let share = pages.split_off(pages.len() / 2);
        (cpu, format!("cpu{cpu}"), Pages(share))
    });
    let streams: Vec<_> = streams.collect();
    let mut reader =
        RingBufferReader::new(layout, decoder, streams, Source::default(), Clock::default(), Timestamp(0));
    let (mut batch, mut events) = (Batch::default(), 0);
    loop {
        let more = reader.next_batch_with(&mut batch, &mut |record, block| match block {
            Some(event) => attribution.block(event),
            None => {
                let file = files.as_ref().and_then(|files| files.decode(record.data));
                file.iter().for_each(|file| attribution.file(record.time, file));
            }
        });
        if !more.expect("the pages are in memory") {
            break;
        }
        for event in &batch.events {
            let _ = attribution.take(event.device, Some(event.sector), event.time);
        }
        events += batch.events.len();
        assert!(events <= input.len());
    }
});
