//! Finds SQLite in an executable file: the offset of `sqlite3_step`, and the offsets of the text and
//! connection in a statement.
//!
//! `sqlite3_sql` and `sqlite3_db_handle` each only read one field of a statement. The offset of such a field
//! differs between versions and builds of SQLite, so fonio decodes the offset from the instruction that reads
//! the field. With the offset, fonio finds the text of a statement at each step, even if the statement was
//! prepared before the recording or by an inlined call.

use std::fs::File;
use std::io;

use object::elf::{EM_AARCH64, EM_X86_64};
use object::read::elf::{ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSegment, ObjectSymbol, ReadCache};

/// Number of machine-code bytes examined per function.
const CODE_BYTES: u64 = 48;
/// Maximum offset of a field in SQLite's structure of a statement, which has a few hundred bytes.
const FIELD_MAX: u32 = 4096;

/// The offsets in a copy of SQLite that the BPF programs need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Library {
    /// Byte offset of `sqlite3_step` in the file.
    pub step: u64,
    /// Byte offsets of the text pointer and the connection pointer in a statement; `None` if unknown.
    pub text: Option<u32>,
    pub connection: Option<u32>,
}

impl Library {
    /// Packs the offsets for the BPF program. The value for the connection is its offset plus one, so that 0
    /// means unknown. The text's offset is stored unchanged, because the text is never the first field.
    pub(super) fn cookie(self) -> u64 {
        u64::from(self.text.unwrap_or(0)) | self.connection.map_or(0, |at| u64::from(at) + 1) << 32
    }
}

/// Looks for SQLite in an executable file. Returns `None` if the file is not an executable for this
/// processor, or has no symbol `sqlite3_step`. Fails if the file cannot be read.
pub(crate) fn find(file: File) -> io::Result<Option<Library>> {
    let mut magic = [0; 20];
    if std::os::unix::fs::FileExt::read_at(&file, &mut magic, 0)? < magic.len()
        || &magic[..5] != b"\x7fELF\x02"
    {
        return Ok(None);
    }
    let data = ReadCache::new(file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&data) else { return Ok(None) };
    let machine = elf.elf_header().e_machine(elf.endian());
    let read: fn(&[u8]) -> Option<u32> = match machine {
        EM_X86_64 if cfg!(target_arch = "x86_64") => field_x86,
        EM_AARCH64 if cfg!(target_arch = "aarch64") => field_arm64,
        _ => return Ok(None),
    };
    let names = ["sqlite3_step", "sqlite3_sql", "sqlite3_db_handle"];
    let mut found: [Option<u64>; 3] = [None; 3];
    for symbol in elf.dynamic_symbols().chain(elf.symbols()) {
        if found.iter().all(Option::is_some) {
            break;
        }
        let Ok(name) = symbol.name() else { continue };
        if let Some(at) = names.iter().position(|known| *known == name)
            && symbol.is_definition()
        {
            found[at].get_or_insert(symbol.address());
        }
    }
    let [step, sql, db_handle] = found;
    let place = |address: u64| {
        elf.segments().find_map(|segment| {
            let within = address.checked_sub(segment.address())?;
            let (offset, bytes) = segment.file_range();
            (within < bytes).then_some(offset + within)
        })
    };
    let code = |address: u64| {
        let from = elf.segments().find_map(|segment| {
            // The segment may end before `CODE_BYTES` bytes.
            let end = segment.address().checked_add(segment.size())?;
            let bytes = end.checked_sub(address)?.min(CODE_BYTES);
            segment.data_range(address, bytes).ok().flatten()
        });
        from.and_then(read)
    };
    let Some(step) = step.and_then(place) else { return Ok(None) };
    // Offset 0 means unknown, because no version of SQLite has the text at this offset.
    let text = sql.and_then(code).filter(|at| *at > 0);
    Ok(Some(Library { step, text, connection: db_handle.and_then(code) }))
}

/// Decodes the offset from which an x86-64 function reads its result: `mov rax, [rdi + offset]`, perhaps
/// after a test for zero.
fn field_x86(code: &[u8]) -> Option<u32> {
    let mut rest = code;
    loop {
        rest = match rest {
            // Skip `endbr64`.
            [0xf3, 0x0f, 0x1e, 0xfa, rest @ ..] => rest,
            // Skip `xor eax, eax`.
            [0x31, 0xc0, rest @ ..] => rest,
            // Skip `test rdi, rdi` and a short `je` or `jne`.
            [0x48, 0x85, 0xff, 0x74, _, rest @ ..] => rest,
            // Skip `push rbp; mov rbp, rsp`.
            [0x55, 0x48, 0x89, 0xe5, rest @ ..] => rest,
            [0x48, 0x8b, 0x07, ..] => return Some(0),
            [0x48, 0x8b, 0x47, at, ..] if *at < 128 => return Some(u32::from(*at)),
            [0x48, 0x8b, 0x87, a, b, c, d, ..] => {
                return Some(u32::from_le_bytes([*a, *b, *c, *d])).filter(|at| *at < FIELD_MAX);
            }
            _ => return None,
        };
    }
}

/// Reads a field's offset from arm64 code: `ldr x0, [x0, #offset]`.
fn field_arm64(code: &[u8]) -> Option<u32> {
    for word in code.chunks_exact(4) {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        match word {
            // Skip `bti c` and `cbz x0`.
            0xd503_245f => {}
            _ if word & 0xff00_001f == 0xb400_0000 => {}
            // The instruction contains the offset in units of 8 bytes.
            _ if word & 0xffc0_03ff == 0xf940_0000 => {
                return Some((word >> 10 & 0xfff) * 8).filter(|at| *at < FIELD_MAX);
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_field_is_read_from_the_code() {
        // Compiled sqlite3_sql and sqlite3_db_handle: Debian's library, GCC optimising for size, with
        // endbr64, and more complex code.
        let cases: [(&[u8], Option<u32>); 8] = [
            (&[0x48, 0x85, 0xff, 0x74, 0x0b, 0x48, 0x8b, 0x87, 0xf8, 0, 0, 0, 0xc3], Some(0xf8)),
            (&[0x48, 0x85, 0xff, 0x74, 0x0b, 0x48, 0x8b, 0x07, 0xc3], Some(0)),
            (
                &[
                    0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xc0, 0x48, 0x85, 0xff, 0x74, 7, 0x48, 0x8b, 0x47, 0x70,
                    0xc3,
                ],
                Some(0x70),
            ),
            (&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x85, 0xff, 0x74, 7, 0x48, 0x8b, 0x87, 0, 1, 0, 0], Some(0x100)),
            (&[0x48, 0x8b, 0x87, 0, 0, 1, 0, 0xc3], None),
            (&[0x48, 0x83, 0xec, 0x18, 0xe8], None),
            (&[0x48, 0x8b, 0x87, 0xf8], None),
            (&[], None),
        ];
        for (code, expected) in cases {
            assert_eq!(field_x86(code), expected, "{code:x?}");
        }
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        for (code, expected) in [
            // bti c; cbz x0, +8; ldr x0, [x0, #248]; ret
            (vec![0xd503_245f, 0xb400_0040, 0xf940_7c00, 0xd65f_03c0], Some(248)),
            (vec![0xb400_0040, 0xf940_0000, 0xd65f_03c0], Some(0)),
            (vec![0xa9bf_7bfd, 0xf940_7c00], None),
            (vec![], None),
        ] {
            assert_eq!(field_arm64(&words(&code)), expected, "{code:x?}");
        }
    }

    #[test]
    fn files_without_sqlite_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for content in
            [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01 not one, but as long as a header", &[0; 100]]
        {
            std::fs::write(&path, content).unwrap();
            assert_eq!(find(File::open(&path).unwrap()).unwrap(), None);
        }
        let own = std::env::current_exe().unwrap();
        assert_eq!(find(File::open(own).unwrap()).unwrap(), None);
        assert!(find(File::open(folder.path()).unwrap()).is_err());
    }
}
