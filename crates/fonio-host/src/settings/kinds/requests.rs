//! The number of requests that the kernel queues per device and direction before programs must wait.

use crate::settings::kind::*;

pub(super) struct Requests;

const FACTS: Facts = Facts {
    tag: "queue",
    of: Some("requests"),
    title: "the number of requests",
    held: Held::QueueFile("nr_requests"),
    fixes: &[SettingFix {
        name: "requests",
        does: "the kernel queues 16 requests per device and direction, or N with requests=N, before programs must wait",
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
