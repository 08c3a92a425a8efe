//! The setting for the interval at which journald syncs its logs.

use crate::settings::kind::*;

pub(super) struct JournaldSync;

const FACTS: Facts = Facts {
    of: Some("sync_interval"),
    title: "journald's interval between syncs",
    held: Held::DropIn(Keys::new("journald-sync", &["SyncIntervalSec"])),
    fixes: &[SettingFix {
        name: "journald-sync",
        changes: Group::Logs,
        does: "journald syncs its logs every 30 minutes instead of every 5, or every TIME with journald-sync=TIME",
        needs: "systemd",
        loses: Loss::Recent(
            "A power cut can lose the logs since the last sync; journald still syncs at once after critical messages.",
        ),
        source: "systemd's documentation",
        trial: OF_SERVICES,
    }],
    ..Facts::OF_JOURNAL
};

impl Kind for JournaldSync {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn parse(&self, _name: &str, text: Option<&str>) -> Result<Value, String> {
        value::seconds(text, 1800, 1..=86_400)
    }

    fn value(&self, wanted: &Value, _on: &Object) -> Result<String, Refusal> {
        Ok(format!("SyncIntervalSec={wanted}s"))
    }
}
