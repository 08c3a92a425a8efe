//! How many requests of a device, of each direction, the kernel holds before it makes programs wait.

use crate::settings::kind::{Facts, Held, Kind, SettingFix};
use crate::settings::object::Object;
use crate::settings::refusal::Refusal;
use crate::settings::value::{self, Value};

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

    fn parse(&self, _fix: &SettingFix, text: Option<&str>) -> Result<Value, String> {
        value::number(text, 16, 4..=1024)
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(wanted.to_string())
    }
}
