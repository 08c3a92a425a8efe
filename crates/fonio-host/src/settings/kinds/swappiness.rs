//! How readily the kernel swaps out memory of programs instead of dropping cached files, from 0 to 200.

use crate::HostError;
use crate::settings::kept::files::KeptFiles;
use crate::settings::kind::{Facts, Group, KeptAs, Kind, SettingFix};
use crate::settings::object::Object;
use crate::settings::refusal::Refusal;
use crate::settings::sysctl;
use crate::settings::value::{self, Value};

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

    fn parse(&self, _fix: &SettingFix, text: Option<&str>) -> Result<Value, String> {
        value::number(text, 10, 0..=200)
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(wanted.to_string())
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
