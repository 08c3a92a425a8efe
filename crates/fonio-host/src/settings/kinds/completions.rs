//! The processor that handles a device's completed requests.

use crate::settings::kind::*;

pub(super) struct Completions;

const FACTS: Facts = Facts {
    tag: "queue",
    of: Some("completions"),
    title: "the processor of completions",
    held: Held::QueueFile("rq_affinity"),
    fixes: &[SettingFix {
        name: "completions",
        does: "a request completes on the processor that issued it, or with completions=1 on one that shares its cache",
        ..SettingFix::DEFAULT
    }],
    ..Facts::DEFAULT
};

impl Kind for Completions {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::number(text, 2, 0..=2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_values() {
        assert_eq!(Completions.parse("completions", None), value::number(None, 2, 0..=2));
        assert!(Completions.parse("completions", Some("3")).is_err());
    }
}
