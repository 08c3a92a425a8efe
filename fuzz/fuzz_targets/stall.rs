//! Reads arbitrary files of kept stalls and passes their rows to the consumers of recordings. Checks for panics,
//! endless loops and much memory. The first byte of the input selects the consumer. With an even second byte, the
//! other bytes are the file, else they are its contents before compression.
#![no_main]

use std::io::{Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use fonio_core::Random;
use fonio_fuzz::rows::{Bytes, Rows};
use fonio_fuzz::{memory, recording, seeds, sinks};
use fonio_watch::Kept;
use fonio_watch::stall_file::{Head, KeptFile, KeptThread, write};
use libfuzzer_sys::fuzz_target;

/// The magic number and the version at the beginning of the file.
const BEGIN: &[u8; 16] = b"fonio-stall\n\x01\0\0\0";

/// Returns the contents of a valid file before compression.
fn valid(random: &mut Random) -> Vec<u8> {
    let length = 200 + random.below(2000);
    let rows = Rows::read(&mut Bytes::new(&(0..length).map(|_| random.next_u64() as u8).collect::<Vec<_>>()));
    let head = Head {
        meta: serde_json::to_string(&recording::meta()).expect("it is JSON"),
        threads: rows
            .threads
            .into_iter()
            .map(|row| KeptThread {
                tid: row.tid,
                pid: row.pid,
                comm: row.comm.unwrap_or_default(),
                cgroup: row.cgroup,
                unit: row.unit,
            })
            .collect(),
        files: rows
            .files
            .into_iter()
            .map(|row| KeptFile {
                device: row.device.unwrap_or_default(),
                inode: row.inode.unwrap_or(0),
                path: row.path,
                content: row.content,
            })
            .collect(),
        waits: rows.waits,
        counts: rows.blocked_counts,
        ..Head::default()
    };
    let requests = rows.requests.into_iter().filter(|row| row.queued.is_some() && row.completed.is_some());
    let (mut file, mut plain) = (Vec::new(), Vec::new());
    write(&head, requests, &mut file).expect("memory writes");
    GzDecoder::new(&file[BEGIN.len()..]).read_to_end(&mut plain).expect("it was compressed");
    plain
}

fuzz_target!(
    init: {
        memory::begin();
        seeds::write(|random| {
            let files = (0..20).map(|_| valid(random)).collect();
            let files = seeds::spliced(files, 200, random, |a: &Vec<u8>, b: &Vec<u8>, random| {
                let cut = |bytes: &[u8], random: &mut Random| random.below(bytes.len() as u64) as usize;
                let (from, to) = (cut(a, random), cut(b, random));
                [&a[..from], &b[to..]].concat()
            });
            let mut choices = (0..6).cycle();
            files.into_iter().map(|file| [&[choices.next().unwrap_or(0), 1], &file[..]].concat()).collect()
        });
    },
    |input: &[u8]| {
        let Some(([choice, is_plain], bytes)) = input.split_first_chunk() else { return };
        let file = if is_plain % 2 == 0 {
            bytes.to_vec()
        } else {
            let mut encoder = GzEncoder::new(BEGIN.to_vec(), Compression::fast());
            encoder.write_all(bytes).expect("memory writes");
            encoder.finish().expect("memory writes")
        };
        memory::bounded(|| match Kept::decode(&file, Path::new("x.stall")) {
            Ok(kept) => sinks::consume(*choice, &kept.meta, |sink| kept.pour(sink).map(drop)),
            Err(error) => assert!(error.to_string().contains("x.stall"), "the error does not name the file: {error}"),
        });
    }
);
