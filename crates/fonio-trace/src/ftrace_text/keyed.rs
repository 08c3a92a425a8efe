//! Parses block events in the format of Perfetto's `traceconv systrace`: the columns of ftrace, followed by a
//! `name=value` for each field, in any order:
//! `block_rq_issue: dev=45824 sector=8 nr_sector=8 bytes=4096 rwbs=WS comm=mmcqd/0 cmd=`.
//!
//! Source: Perfetto's `SystraceSerializer`. The device number differs from the kernel's number; see
//! Perfetto's `TranslateBlockDeviceIDToUserspace`.

use fonio_core::{ByteCount, DeviceId, Sector};

use super::line::number;

/// The fields of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields<'a> {
    pub dev: Option<u64>,
    pub sector: Option<Sector>,
    pub nr_sector: Option<u64>,
    pub bytes: Option<ByteCount>,
    pub rwbs: &'a [u8],
    pub comm: Option<&'a [u8]>,
    pub cmd: &'a [u8],
    pub error: Option<i64>,
    pub old_dev: Option<u64>,
    pub old_sector: Option<Sector>,
    pub new_sector: Option<Sector>,
    pub nr_rq: Option<u64>,
}

/// Returns whether an event's text consists of `name=value` fields.
pub(super) fn is_keyed(text: &[u8]) -> bool {
    let name = text.iter().take_while(|byte| byte.is_ascii_lowercase() || **byte == b'_').count();
    name > 0 && text.get(name) == Some(&b'=')
}

/// Parses the fields of an event. Thread names may contain blanks.
pub(super) fn parse(text: &[u8]) -> Fields<'_> {
    let mut fields = Fields::default();
    let mut rest = text;
    while let Some((key, after)) = key(rest) {
        let end = next_key(after);
        fields.set(key, after[..end].trim_ascii_end());
        rest = after[end..].trim_ascii_start();
    }
    fields
}

/// Reads `name=` at the start of the text if `name` is one of the known names.
fn key(text: &[u8]) -> Option<(&[u8], &[u8])> {
    const KEYS: [&[u8]; 15] = [
        b"dev",
        b"sector",
        b"nr_sector",
        b"bytes",
        b"rwbs",
        b"comm",
        b"cmd",
        b"error",
        b"errors",
        b"old_dev",
        b"old_sector",
        b"new_sector",
        b"nr_rq",
        b"nr_bios",
        b"ioprio",
    ];
    let equals = text.iter().take(11).position(|byte| *byte == b'=')?;
    let (name, after) = (&text[..equals], &text[equals + 1..]);
    KEYS.contains(&name).then_some((name, after))
}

/// Returns the start of the next `name=`, or the end.
fn next_key(text: &[u8]) -> usize {
    memchr::memchr_iter(b' ', text).find(|at| key(&text[at + 1..]).is_some()).unwrap_or(text.len())
}

impl<'a> Fields<'a> {
    fn set(&mut self, key: &[u8], value: &'a [u8]) {
        let whole = || number(value).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value);
        match key {
            b"dev" => self.dev = whole(),
            b"sector" => self.sector = whole().map(Sector),
            b"nr_sector" => self.nr_sector = whole(),
            b"bytes" => self.bytes = whole().map(ByteCount),
            b"rwbs" => self.rwbs = value,
            b"comm" => self.comm = Some(value),
            b"cmd" => self.cmd = value,
            b"error" | b"errors" => {
                let digits = value.strip_prefix(b"-").unwrap_or(value);
                let size = number(digits)
                    .filter(|(_, rest)| rest.is_empty())
                    .and_then(|(size, _)| i64::try_from(size).ok());
                self.error = size.map(|size| if digits.len() < value.len() { -size } else { size });
            }
            b"old_dev" => self.old_dev = whole(),
            b"old_sector" => self.old_sector = whole().map(Sector),
            b"new_sector" => self.new_sector = whole().map(Sector),
            b"nr_rq" => self.nr_rq = whole(),
            _ => {}
        }
    }
}

/// Decodes a device number in user-space encoding, where the bits of the minor number are on both sides of
/// the major number.
pub(super) fn device(dev: u64) -> DeviceId {
    let (major, minor) = (dev >> 8 & 0xfff, (dev & 0xff) | (dev >> 12 & 0xf_ff00));
    DeviceId::new(major as u32, minor as u32)
}
