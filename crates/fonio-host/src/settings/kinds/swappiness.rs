//! The kernel's preference, from 0 to 200, for swapping out program memory instead of dropping cached files.

use crate::settings::kind::*;

pub(super) struct Swappiness;

const FACTS: Facts = Facts {
    tag: "swappiness",
    title: "the machine's swappiness",
    fixes: &[SettingFix {
        name: "swappiness",
        changes: Group::Memory,
        does: "the kernel drops cached files before it swaps out programs: 10, or N with swappiness=N, on the whole machine",
        needs: "nothing more",
        ..SettingFix::DEFAULT
    }],
    ..Facts::OF_SYSCTL
};

const NAME: &str = "vm.swappiness";

impl Kind for Swappiness {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::number(text, 10, 0..=200)
    }

    fn current(&self, _on: &Object) -> Result<Option<String>, HostError> {
        sysctl::read(NAME).map(Some)
    }

    fn set(&self, _on: &Object, value: &str) -> Result<(), HostError> {
        sysctl::write(NAME, value)
    }

    fn kept_as(&self, _on: &Object, value: &str, _files: &KeptFiles) -> Result<KeptAs, Refusal> {
        Ok(KeptAs::Sysctl(vec![(NAME.to_owned(), value.to_owned())]))
    }
}
