//! The setting for the read-ahead of files on a device, in KiB.

use std::path::Path;

use fonio_core::ByteCount;

use crate::settings::kind::*;
use crate::settings::places::device_of;

pub(super) struct ReadAhead;

const FACTS: Facts = Facts {
    tag: "queue",
    of: Some("read_ahead"),
    title: "read-ahead in KiB",
    held: Held::QueueFile("read_ahead_kb"),
    fixes: &[SettingFix {
        name: "read-ahead",
        does: "the kernel reads files ahead by 512 KiB, or by SIZE with read-ahead=SIZE",
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

/// Maximum read-ahead. The kernel stores the read-ahead as a 32-bit number of pages.
const MAX: ByteCount = ByteCount(1 << 30);

impl Kind for ReadAhead {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        let size = value::size(text, 512 << 10, 64 << 10)?;
        if size.size() > MAX { Err(format!("use at most {}", MAX.to_exact_text())) } else { Ok(size) }
    }

    /// The kernel uses the read-ahead setting of the device that contains the file system, even if that
    /// device is mapped to other devices.
    fn object(&self, _wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        device_of(path).map(|(device, _)| Object::Disk(device))
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok((wanted.size().0 / 1024).to_string())
    }
}
