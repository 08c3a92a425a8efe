//! Reads the settings of a watch from a TOML file.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fonio_core::ByteCount;
use fonio_core::quantity::{parse_bytes, parse_duration};
use fonio_system::{TrustedFolder, regular};
use serde::{Deserialize, Deserializer};

use crate::error::WatchError;

/// Default path of the settings file.
pub const DEFAULT_FILE: &str = "/etc/fonio/watch.toml";

/// Maximum size of a settings file.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;

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
    /// How a person is told about stalls; `None` means that nobody is told.
    pub notify: Option<Notify>,
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

/// How a person is told about stalls, once a day at most for each cause.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Notify {
    /// The time of day, in the machine's time zone: `HH:MM`.
    #[serde(default = "morning")]
    pub at: String,
    /// A program with its arguments, which gets the text on standard input.
    #[serde(default)]
    pub command: Vec<String>,
    /// An address for e-mail, sent by `sendmail`.
    pub mail: Option<String>,
    /// The address of Home Assistant, such as `http://homeassistant.local:8123`, which shows a persistent notification.
    pub home_assistant: Option<String>,
    /// The path of the file with an access token for Home Assistant.
    pub token_file: Option<PathBuf>,
    /// Also publish the text to the MQTT broker, under the topic `fonio/NAME/notification`.
    #[serde(default)]
    pub mqtt: bool,
    /// The day on which the digest of the week is sent, such as `monday`; `None` for no digest.
    pub weekly: Option<String>,
}

/// The days of a week, in the order of ISO 8601.
pub const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

impl Notify {
    /// Returns the minute of the day at which a person is told.
    pub fn minute(&self) -> Option<i64> {
        let (hour, minute) = self.at.split_once(':')?;
        let (hour, minute): (i64, i64) = (hour.parse().ok()?, minute.parse().ok()?);
        ((0..24).contains(&hour) && (0..60).contains(&minute)).then(|| hour * 60 + minute)
    }

    /// Returns a sentence on the first mistake; `has_broker` tells whether there is an MQTT broker.
    fn mistake(&self, has_broker: bool) -> Option<String> {
        if self.minute().is_none() {
            return Some(format!("`at` of [notify] is `{}`; write a time of day such as 08:00", self.at));
        }
        if let Some(day) = self.weekly.as_ref().filter(|day| !DAYS.contains(&day.as_str())) {
            return Some(format!("`weekly` of [notify] is `{day}`; write one of {}", DAYS.join(", ")));
        }
        if self.home_assistant.is_some() != self.token_file.is_some() {
            return Some("`home-assistant` and `token-file` of [notify] need each other".to_owned());
        }
        if self.mqtt && !has_broker {
            return Some("`mqtt` of [notify] needs a broker: add the section [mqtt]".to_owned());
        }
        let has_way =
            !self.command.is_empty() || self.mail.is_some() || self.home_assistant.is_some() || self.mqtt;
        (!has_way)
            .then(|| "[notify] names no way: add `command`, `mail`, `home-assistant` or `mqtt`".to_owned())
    }
}

fn morning() -> String {
    "08:00".to_owned()
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
            notify: None,
            endurance: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Reads a settings file. Returns the defaults if [`DEFAULT_FILE`] is missing; any other missing file is
    /// an error. A file that a user other than root and this user owns or can write is refused, because it
    /// decides to which addresses the watch sends figures.
    ///
    /// # Errors
    /// Returns [`WatchError::Settings`] with the mistake, its position and the correct form;
    /// [`WatchError::File`] if the file cannot be read or is refused.
    pub fn read(file: Option<&Path>) -> Result<Settings, WatchError> {
        let path = file.unwrap_or(Path::new(DEFAULT_FILE));
        match trusted_text(path, file.is_some())? {
            None if file.is_some() => Err(WatchError::file(path, "read")(ErrorKind::NotFound.into())),
            text => Settings::parse(&text.unwrap_or_default(), path),
        }
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
        match settings.notify.as_ref().and_then(|notify| notify.mistake(settings.mqtt.is_some())) {
            Some(mistake) => Err(wrong(mistake)),
            None => Ok(settings),
        }
    }
}

/// Returns the text of a file that only root and this user can change; `None` if it does not exist. A link is
/// followed if it belongs to one of them. If nobody named the file, others can also change none of its folders.
fn trusted_text(path: &Path, is_named: bool) -> Result<Option<String>, WatchError> {
    let path = &std::path::absolute(path).map_err(WatchError::file(path, "found"))?;
    let own = rustix::process::geteuid().as_raw();
    let refused =
        |why: String| WatchError::file(path, "read")(io::Error::new(ErrorKind::PermissionDenied, why));
    let link = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_symlink);
    let real = match link {
        Some(link) if ![0, own].contains(&link.uid()) => {
            return Err(refused(format!("it is a symbolic link of user {}; remove the link", link.uid())));
        }
        Some(_) => std::fs::canonicalize(path).map_err(WatchError::file(path, "followed"))?,
        None => path.clone(),
    };
    // The folder of a link decides who can exchange the link.
    for folder in [path, &real].iter().filter(|_| !is_named).filter_map(|path| path.parent()) {
        if TrustedFolder::open(folder).map_err(WatchError::used(folder, "used"))?.is_none() {
            return Ok(None);
        }
    }
    let (file, bytes) = match regular::open(&real) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(WatchError::file(path, "read"))?,
    };
    let found = file.metadata().map_err(WatchError::file(path, "read"))?;
    if ![0, own].contains(&found.uid()) {
        return Err(refused(format!("it belongs to user {}; make it your own, or remove it", found.uid())));
    }
    let is_private_group =
        own != 0 && found.uid() == own && found.gid() == rustix::process::getegid().as_raw();
    if found.mode() & 0o002 != 0 || (found.mode() & 0o020 != 0 && !is_private_group) {
        let way = format!("check its contents, then run `chmod go-w {}`", real.display());
        return Err(refused(format!("other users can write to it; {way}")));
    }
    let read = || {
        regular::check_size(bytes, SETTINGS_BYTES_MAX)?;
        let mut text = String::new();
        file.take(SETTINGS_BYTES_MAX).read_to_string(&mut text)?;
        io::Result::Ok(text)
    };
    read().map(Some).map_err(WatchError::file(path, "read"))
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
    fn a_link_is_followed_and_a_file_that_others_can_write_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("real.toml"), dir.path().join("watch.toml"));
        assert!(Settings::read(Some(&file)).unwrap_err().to_string().contains("real.toml cannot be read"));
        std::fs::write(&file, "stall = \"1s\"\n").unwrap();
        std::os::unix::fs::symlink("real.toml", &link).unwrap();
        for path in [&file, &link] {
            assert_eq!(Settings::read(Some(path)).unwrap().stall, Duration::from_secs(1));
        }
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        for path in [&file, &link] {
            let error = Settings::read(Some(path)).unwrap_err().to_string();
            assert!(error.contains("other users can write to it"), "{error}");
        }
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
                unknown field `stal`, expected one of `devices`, `stall`, `write-every`, `write-at-most`, `listen`, `mqtt`, `notify`, `endurance`"#]],
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
        for (text, expected) in [
            ("at = \"8\"", "`at` of [notify] is `8`; write a time of day such as 08:00"),
            ("at = \"9223372036854775807:0\"", "write a time of day such as 08:00"),
            ("mail = \"root\"\nweekly = \"Mon\"", "`weekly` of [notify] is `Mon`; write one of monday"),
            (
                "home-assistant = \"http://h:8123\"",
                "`home-assistant` and `token-file` of [notify] need each other",
            ),
            ("mqtt = true", "`mqtt` of [notify] needs a broker"),
            ("", "[notify] names no way"),
        ] {
            let error =
                Settings::parse(&format!("[notify]\n{text}\n"), Path::new("/etc/w.toml")).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        check(
            "write-every = \"5s\"",
            expect!["/etc/w.toml: `write-every` must be at least 1min: minutes are the finest resolution"],
        );
    }
}
