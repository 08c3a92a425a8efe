//! The settings of a watch: a TOML file.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fonio_core::ByteCount;
use fonio_core::quantity::{parse_bytes, parse_duration};
use serde::{Deserialize, Deserializer};

use crate::error::WatchError;

/// The file of the settings, unless the user names another one.
pub const DEFAULT_FILE: &str = "/etc/fonio/watch.toml";

/// The devices to watch, and how to record and report them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// The devices; if empty, all disks.
    pub devices: Vec<String>,
    /// A thread that is blocked on storage for this long is a stall.
    #[serde(deserialize_with = "duration")]
    pub stall: Duration,
    /// The time between two writes of the history.
    #[serde(deserialize_with = "duration")]
    pub write_every: Duration,
    /// The maximum number of bytes that are written in 24 hours, kept stalls included.
    #[serde(deserialize_with = "bytes")]
    pub write_at_most: ByteCount,
    /// The address on which figures are served over HTTP; `None` for no server.
    pub listen: Option<SocketAddr>,
    /// The broker to which figures are published; `None` for none.
    pub mqtt: Option<Mqtt>,
    /// The bytes that can be written to each device until it is worn out, as its maker states it.
    #[serde(deserialize_with = "endurances")]
    pub endurance: BTreeMap<String, ByteCount>,
}

/// A broker of MQTT.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mqtt {
    /// `HOST` or `HOST:PORT`; the port is 1883 without one.
    pub broker: String,
    /// The user, if the broker asks for one.
    pub user: Option<String>,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// The name of the device in Home Assistant; the host's name without one.
    pub name: Option<String>,
    /// The prefix under which Home Assistant looks for sensors.
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
    /// Reads a file. A missing [`DEFAULT_FILE`] gives the defaults, any other missing file is an error.
    ///
    /// # Errors
    /// [`WatchError::Settings`] names the mistake, its place, and the text to write.
    pub fn read(file: Option<&Path>) -> Result<Settings, WatchError> {
        let path = file.unwrap_or(Path::new(DEFAULT_FILE));
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && file.is_none() => String::new(),
            read => read.map_err(WatchError::file(path, "read"))?,
        };
        Settings::parse(&text, path)
    }

    /// Reads a text, which errors call `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Settings, WatchError> {
        let wrong = |problem: String| WatchError::Settings { path: path.to_owned(), problem };
        let settings: Settings =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim().to_owned()))?;
        if settings.stall < Duration::from_millis(10) {
            return Err(wrong(
                "`stall` must be at least 10ms; shorter waits are counted, not told".to_owned(),
            ));
        }
        if settings.write_every < Duration::from_secs(60) {
            return Err(wrong(
                "`write-every` must be at least 1min: a minute is the finest figure".to_owned(),
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
            expect!["/etc/w.toml: `stall` must be at least 10ms; shorter waits are counted, not told"],
        );
        check(
            "write-every = \"5s\"",
            expect!["/etc/w.toml: `write-every` must be at least 1min: a minute is the finest figure"],
        );
    }
}
