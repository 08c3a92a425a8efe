//! The setting that makes journald keep its logs in memory.

use crate::program::run;
use crate::settings::drop_in::DropIn;
use crate::settings::kind::*;

pub(super) struct JournaldInRam;

const KEYS: Keys = Keys::new("journald-in-ram", &["Storage", "RuntimeMaxUse"]);

const FACTS: Facts = Facts {
    of: Some("storage"),
    title: "journald's storage",
    held: Held::DropIn(KEYS),
    fixes: &[SettingFix {
        name: KEYS.name,
        changes: Group::Logs,
        does: "journald keeps its logs in memory, in at most 64 MiB, or SIZE with journald-in-ram=SIZE",
        needs: "systemd",
        loses: Loss::Recent("A power cut or reboot loses the logs since boot; earlier ones stay on disk."),
        source: "systemd's documentation",
        trial: OF_SERVICES,
    }],
    ..Facts::OF_JOURNAL
};

impl Kind for JournaldInRam {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::size(text, 64 << 20, 1 << 20)
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(format!("Storage=volatile, RuntimeMaxUse={}", wanted.size().0))
    }

    fn release(&self, on: &Object) -> Result<(), HostError> {
        DropIn::new(&KEYS, on).take_back()?;
        // Write the logs in memory to the disk, because the logs would be lost at the next boot.
        run("journalctl", "systemd", &["--flush"]).map(drop)
    }
}
