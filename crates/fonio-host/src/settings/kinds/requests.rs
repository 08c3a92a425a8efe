//! The number of requests of a device and direction that the kernel holds before it makes programs wait.

use crate::settings::kind::*;

pub(super) struct Requests;

const FACTS: Facts = Facts {
    tag: "queue",
    of: Some("requests"),
    title: "the number of requests",
    held: Held::QueueFile("nr_requests"),
    fixes: &[SettingFix {
        name: "requests",
        does: "the kernel holds 16 requests of a device and direction, or N with requests=N, before it makes programs wait",
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

impl Kind for Requests {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::number(text, 16, 4..=1024)
    }
}
