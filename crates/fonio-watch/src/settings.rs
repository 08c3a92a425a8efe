//! Reads the settings of a watch from a TOML file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fonio_core::ByteCount;
use fonio_core::quantity::{parse_bytes, parse_duration};
use serde::{Deserialize, Deserializer};

use crate::error::WatchError;

/// Default path of the settings file.
pub const DEFAULT_FILE: &str = "/etc/fonio/watch.toml";

/// Settings of a watch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// Names of the devices to watch; if empty, all disks are watched.
    pub devices: Vec<String>,
    /// Minimum time for which a thread must be blocked on storage to count as a stall.
    #[serde(deserialize_with = "duration")]
    pub stall: Duration,
    /// Time between two writes of the history.
    #[serde(deserialize_with = "duration")]
    pub write_every: Duration,
    /// Maximum number of bytes written in 24 hours, including kept stalls.
    #[serde(deserialize_with = "bytes")]
    pub write_at_most: ByteCount,
    /// Address on which figures are served over HTTP; `None` means no server.
    pub listen: Option<SocketAddr>,
    /// MQTT broker to which figures are published; `None` means that figures are not published.
    pub mqtt: Option<Mqtt>,
    /// Endurance of each device: the number of written bytes, as stated by its maker.
    #[serde(deserialize_with = "endurances")]
    pub endurance: BTreeMap<String, ByteCount>,
}

/// Settings of an MQTT broker.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mqtt {
    /// Address of the broker: `HOST` or `HOST:PORT`; the default port is 1883.
    pub broker: String,
    /// User name for the broker, if needed.
    pub user: Option<String>,
    /// Path of the file with the password.
    pub password_file: Option<PathBuf>,
    /// Name under which the watch appears in Home Assistant; default: the host name.
    pub name: Option<String>,
    /// Prefix of Home Assistant's discovery topics.
    #[serde(default = "discovery_prefix")]
    pub discovery_prefix: String,
}

fn discovery_prefix() -> String {
    "homeassistant".to_owned()
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            devices: Vec::new(),
            stall: Duration::from_secs(1),
            write_every: Duration::from_secs(2 * 3600),
            write_at_most: ByteCount(1 << 20),
            listen: None,
            mqtt: None,
            endurance: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Reads a settings file. Returns the defaults if [`DEFAULT_FILE`] is missing; any other missing file is
    /// an error.
    ///
    /// # Errors
    /// Returns [`WatchError::Settings`] with the mistake, its position and the correct form.
    pub fn read(file: Option<&Path>) -> Result<Settings, WatchError> {
        let path = file.unwrap_or(Path::new(DEFAULT_FILE));
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && file.is_none() => String::new(),
            read => read.map_err(WatchError::file(path, "read"))?,
        };
        Settings::parse(&text, path)
    }

    /// Parses settings. Error messages name `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Settings, WatchError> {
        let wrong = |problem: String| WatchError::Settings { path: path.to_owned(), problem };
        let settings: Settings =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim().to_owned()))?;
        if settings.stall < Duration::from_millis(10) {
            return Err(wrong("`stall` must be at least 10ms; shorter waits are only counted".to_owned()));
        }
        if settings.write_every < Duration::from_secs(60) {
            return Err(wrong(
                "`write-every` must be at least 1min: minutes are the finest resolution".to_owned(),
            ));
        }
        Ok(settings)
    }
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map_err(serde::de::Error::custom)
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<ByteCount, D::Error> {
    let text = String::deserialize(from)?;
    parse_bytes(&text).map(ByteCount).map_err(serde::de::Error::custom)
}

fn endurances<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, ByteCount>, D::Error> {
    let texts: BTreeMap<String, String> = BTreeMap::deserialize(from)?;
    let read = |(name, text): (String, String)| parse_bytes(&text).map(|bytes| (name, ByteCount(bytes)));
    texts.into_iter().map(read).collect::<Result<_, _>>().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn settings_are_read() {
        let text = r#"
            devices = ["mmcblk0"]
            stall = "500ms"
            write-every = "2h"
            listen = "127.0.0.1:9482"
            [mqtt]
            broker = "127.0.0.1"
            [endurance]
            mmcblk0 = "30TB"
        "#;
        let settings = Settings::parse(text, Path::new("x")).unwrap();
        assert_eq!(
            (settings.stall, settings.write_every),
            (Duration::from_millis(500), Duration::from_secs(7200))
        );
        assert_eq!(settings.endurance["mmcblk0"], ByteCount(30_000_000_000_000));
        assert_eq!(settings.mqtt.unwrap().discovery_prefix, "homeassistant");
        assert_eq!(Settings::parse("", Path::new("x")).unwrap(), Settings::default());
    }

    #[test]
    fn wrong_settings_are_told_with_their_place() {
        let check = |text: &str, expected: Expect| {
            expected.assert_eq(&Settings::parse(text, Path::new("/etc/w.toml")).unwrap_err().to_string());
        };
        check(
            "stal = \"1s\"",
            expect![[r#"
                /etc/w.toml: TOML parse error at line 1, column 1
                  |
                1 | stal = "1s"
                  | ^^^^
                unknown field `stal`, expected one of `devices`, `stall`, `write-every`, `write-at-most`, `listen`, `mqtt`, `endurance`"#]],
        );
        check(
            "stall = \"10\"",
            expect![[r#"
                /etc/w.toml: TOML parse error at line 1, column 9
                  |
                1 | stall = "10"
                  |         ^^^^
                `10` needs a unit; write a time in ns, us, ms, s, min or h, such as 30s"#]],
        );
        check(
            "stall = \"1ms\"",
            expect!["/etc/w.toml: `stall` must be at least 10ms; shorter waits are only counted"],
        );
        check(
            "write-every = \"5s\"",
            expect!["/etc/w.toml: `write-every` must be at least 1min: minutes are the finest resolution"],
        );
    }
}
