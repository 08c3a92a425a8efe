//! Writes a trace.dat, for tests and fuzzing.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::description::MAGIC;

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The text of `events/header_page`.
    pub header_page: String,
    /// The texts of the formats of ftrace's own events.
    pub ftrace: Vec<String>,
    /// The texts of the formats of each system.
    pub systems: Vec<(String, Vec<String>)>,
    /// Lines of `/proc/kallsyms`.
    pub symbols: String,
    /// Lines of a thread's id and its name.
    pub names: String,
    /// The clock of all buffers, as the kernel's list with brackets.
    pub clock: String,
    /// The name of each buffer, its clock, and the pages of each processor.
    pub buffers: Vec<(String, String, Vec<Vec<u8>>)>,
    /// Size of a page.
    pub page_bytes: usize,
    /// Number of pages in a chunk of a compressed file.
    pub chunk_pages: usize,
    /// Name of the packing: `none`, `zstd`, `zlib`.
    pub packing: String,
}

impl Contents {
    /// Returns a page of the kernel's ring buffer with these records, each with its time since `began` in nanoseconds.
    pub fn page(began: u64, records: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut data = Vec::new();
        let mut before = 0;
        for (time, record) in records {
            let words = record.len().div_ceil(4) as u32;
            data.extend((words | ((time - before) as u32) << 5).to_le_bytes());
            data.extend(record);
            data.resize(data.len().next_multiple_of(4), 0);
            before = *time;
        }
        let mut page = [began.to_le_bytes(), (data.len() as u64).to_le_bytes()].concat();
        page.extend(data);
        page.resize(4096, 0);
        page
    }

    fn header_info(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, text) in [("header_page", self.header_page.as_str()), ("header_event", "# event\n")] {
            out.extend(name.bytes().chain([0]));
            out.extend((text.len() as u64).to_le_bytes());
            out.extend(text.bytes());
        }
        out
    }

    fn ftrace_formats(&self) -> Vec<u8> {
        let mut out = (self.ftrace.len() as u32).to_le_bytes().to_vec();
        for format in &self.ftrace {
            out.extend((format.len() as u64).to_le_bytes());
            out.extend(format.bytes());
        }
        out
    }

    fn event_formats(&self) -> Vec<u8> {
        let mut out = (self.systems.len() as u32).to_le_bytes().to_vec();
        for (system, formats) in &self.systems {
            out.extend(system.bytes().chain([0]));
            out.extend((formats.len() as u32).to_le_bytes());
            for format in formats {
                out.extend((format.len() as u64).to_le_bytes());
                out.extend(format.bytes());
            }
        }
        out
    }

    fn thread_names(&self) -> Vec<u8> {
        [&(self.names.len() as u64).to_le_bytes(), self.names.as_bytes()].concat()
    }

    fn beginning(&self, version: &str) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(version.bytes().chain([0, 0, 8]));
        out.extend((self.page_bytes as u32).to_le_bytes());
        out
    }

    /// Packs bytes as the file does.
    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        match self.packing.as_str() {
            "zstd" => zstd::bulk::compress(bytes, 1).expect("memory writes"),
            "zlib" => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(bytes).expect("memory writes");
                encoder.finish().expect("memory writes")
            }
            _ => bytes.to_vec(),
        }
    }

    /// Returns the file in version 6. The first buffer is the main one, and the others are instances.
    pub fn version_6(&self) -> Vec<u8> {
        let mut out = self.beginning("6");
        out.extend(self.header_info());
        out.extend(self.ftrace_formats());
        out.extend(self.event_formats());
        out.extend((self.symbols.len() as u32).to_le_bytes());
        out.extend(self.symbols.bytes().chain([0; 4]));
        out.extend(self.thread_names());
        let cpus = self.buffers.iter().map(|(_, _, cpus)| cpus.len()).max().unwrap_or(0);
        out.extend((cpus as u32).to_le_bytes());
        out.extend(b"options  \0");
        out.extend(4_u16.to_le_bytes());
        out.extend((self.clock.len() as u32).to_le_bytes());
        out.extend(self.clock.bytes());
        let mut instances = Vec::new();
        for (name, _, _) in self.buffers.iter().skip(1) {
            out.extend(3_u16.to_le_bytes());
            out.extend((8 + name.len() as u32 + 1).to_le_bytes());
            instances.push(out.len());
            out.extend([0; 8]);
            out.extend(name.bytes().chain([0]));
        }
        out.extend([0; 2]);
        for (number, (_, clock, pages)) in self.buffers.iter().enumerate() {
            if let Some(at) = number.checked_sub(1).map(|number| instances[number]) {
                let offset = out.len() as u64;
                out[at..at + 8].copy_from_slice(&offset.to_le_bytes());
            }
            out.extend(b"flyrecord\0");
            let mut offset = (out.len() + 16 * cpus + 8 + clock.len()) as u64;
            for cpu in 0..cpus {
                let size = pages.get(cpu).map_or(0, Vec::len) as u64;
                out.extend(offset.to_le_bytes());
                out.extend(size.to_le_bytes());
                offset += size;
            }
            out.extend((clock.len() as u64).to_le_bytes());
            out.extend(clock.bytes());
            pages.iter().for_each(|pages| out.extend(pages));
        }
        out
    }

    /// Returns the file in version 7.
    pub fn version_7(&self) -> Vec<u8> {
        let mut out = self.beginning("7");
        out.extend(self.packing.bytes().chain([0]).chain(*b"1.0\0"));
        let first_options = out.len();
        out.extend([0; 8]);
        let mut options = Vec::new();
        let option = |options: &mut Vec<u8>, id: u16, data: &[u8]| {
            options.extend(id.to_le_bytes());
            options.extend((data.len() as u32).to_le_bytes());
            options.extend(data);
        };
        let symbols = [&(self.symbols.len() as u32).to_le_bytes(), self.symbols.as_bytes()].concat();
        let sections = [
            (16_u16, self.header_info()),
            (17, self.ftrace_formats()),
            (18, self.event_formats()),
            (19, symbols),
            (21, self.thread_names()),
        ];
        for (id, data) in sections {
            let offset = out.len() as u64;
            option(&mut options, id, &offset.to_le_bytes());
            let packed = self.pack(&data);
            let is_packed = self.packing != "none";
            let size = if is_packed { packed.len() + 8 } else { packed.len() };
            out.extend(id.to_le_bytes());
            out.extend(u16::from(is_packed).to_le_bytes());
            out.extend(0_u32.to_le_bytes());
            out.extend((size as u64).to_le_bytes());
            if is_packed {
                out.extend((packed.len() as u32).to_le_bytes());
                out.extend((data.len() as u32).to_le_bytes());
            }
            out.extend(packed);
        }
        option(&mut options, 4, self.clock.as_bytes());
        for (name, clock, pages) in &self.buffers {
            let mut data = (out.len() as u64).to_le_bytes().to_vec();
            data.extend(name.bytes().chain([0]).chain(clock.bytes()).chain([0]));
            data.extend((self.page_bytes as u32).to_le_bytes());
            data.extend((pages.len() as u32).to_le_bytes());
            for (cpu, pages) in pages.iter().enumerate() {
                data.extend((cpu as u32).to_le_bytes());
                data.extend((out.len() as u64).to_le_bytes());
                let begin = out.len();
                if self.packing == "none" {
                    out.extend(pages);
                } else {
                    let chunks: Vec<&[u8]> =
                        pages.chunks((self.page_bytes * self.chunk_pages).max(1)).collect();
                    out.extend((chunks.len() as u32).to_le_bytes());
                    for chunk in chunks {
                        let packed = self.pack(chunk);
                        out.extend((packed.len() as u32).to_le_bytes());
                        out.extend((chunk.len() as u32).to_le_bytes());
                        out.extend(packed);
                    }
                }
                let counted = if self.packing == "none" { 0 } else { 4 };
                data.extend(((out.len() - begin - counted) as u64).to_le_bytes());
            }
            option(&mut options, 3, &data);
        }
        option(&mut options, 0, &0_u64.to_le_bytes());
        let offset = out.len() as u64;
        out[first_options..first_options + 8].copy_from_slice(&offset.to_le_bytes());
        out.extend([0; 8]);
        out.extend((options.len() as u64).to_le_bytes());
        out.extend(options);
        out
    }
}
