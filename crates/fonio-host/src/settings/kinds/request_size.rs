//! The setting for the maximum size of a request, including merged requests, in KiB.

use std::path::Path;

use fonio_core::ByteCount;

use crate::settings::kind::*;
use crate::settings::places::disk_of;

pub(super) struct RequestSize;

const FACTS: Facts = Facts {
    tag: "queue",
    of: Some("request_size"),
    title: "the maximum request size in KiB",
    held: Held::QueueFile("max_sectors_kb"),
    fixes: &[SettingFix {
        name: "request-size",
        does: "the kernel issues requests of at most 64 KiB, or of SIZE with request-size=SIZE: a read waits less for a large write ahead of it, but bulk copies are somewhat slower",
        source: "our measurement: docs/scheduler.md, \"Where it does not help\"",
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

impl Kind for RequestSize {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::size(text, 64 << 10, 4 << 10)
    }

    /// Returns the disk; fails if the wanted size is above the device's limit, because the kernel would
    /// refuse this size.
    fn object(&self, wanted: &Wanted<'_>, path: &Path) -> Result<Object, Refusal> {
        let device = disk_of(path)?;
        match Queue::of(&device).read("max_hw_sectors_kb")?.parse::<u64>() {
            Ok(kib) if wanted.value.size().0 > kib << 10 => Err(format!(
                "the device accepts at most {} per request",
                ByteCount(kib << 10).to_exact_text()
            )
            .into()),
            _ => Ok(Object::Disk(device)),
        }
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok((wanted.size().0 / 1024).to_string())
    }
}
