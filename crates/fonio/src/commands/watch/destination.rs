//! The fleet that receives the days of a device: a folder, or a results service.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fonio_system::regular;
use fonio_watch::fleet::{Day, Inbox};

use crate::server::{SentDay, Server};

const TOKEN_BYTES_MAX: u64 = 4096;
/// The number of times that a service is asked to store a day.
const TRIES: u32 = 5;
/// The longest first wait before the service is asked again. The waits double.
const WAIT: Duration = Duration::from_secs(2);
/// The longest wait that a service can ask for.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The fleet that receives the days of one device.
pub enum Destination {
    Folder { inbox: Inbox, device: String },
    Service { server: Server, token: String, device: String, days: BTreeSet<String> },
}

impl Destination {
    /// Opens the folder or the service at `to`. A service needs the file with a token.
    pub fn open(to: &Path, token: Option<&Path>, device: &str) -> Result<Destination> {
        let device = device.to_owned();
        let is_service = |to: &&str| to.starts_with("http://") || to.starts_with("https://");
        let Some(address) = to.to_str().filter(is_service) else {
            if token.is_some() {
                bail!("--token-file is for a results service (https://HOST); {} is a folder", to.display());
            }
            let inbox = Inbox::open(to).with_context(|| {
                format!("create the folder {}, or mount its file system, and send again", to.display())
            })?;
            return Ok(Destination::Folder { inbox, device });
        };
        let Some(file) = token else {
            bail!(
                "{address} needs a token; ask the operator of the fleet for one, and name its file with --token-file"
            )
        };
        let text = regular::read_text(file, TOKEN_BYTES_MAX)
            .with_context(|| format!("{}, the file of --token-file", file.display()))?;
        let token = text.trim().to_owned();
        ensure!(
            !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()),
            "{} does not have a token in its only line",
            file.display()
        );
        let server = Server::at(address)?;
        let days = server.days(&device, &token)?;
        Ok(Destination::Service { server, token, device, days })
    }

    /// Returns whether the fleet has the day.
    pub fn has(&self, day: Day) -> bool {
        match self {
            Destination::Folder { inbox, device } => inbox.has(device, day),
            Destination::Service { days, .. } => days.contains(&day.name()),
        }
    }

    /// Sends the file of a day, and waits and tries again if the fleet cannot store it now. `wait` gets a time to wait,
    /// and the longest time that it adds at random, so that many devices do not come back together. Returns whether the
    /// day is new.
    pub fn put(&self, day: Day, file: &[u8], wait: &mut impl FnMut(Duration, Duration)) -> Result<bool> {
        let (server, token, device) = match self {
            Destination::Folder { inbox, device } => {
                inbox.put(device, day, file, |longest| wait(Duration::ZERO, longest))?;
                return Ok(true);
            }
            Destination::Service { server, token, device, .. } => (server, token, device),
        };
        for attempt in 0.. {
            match server.send_day(device, &day.name(), token, file)? {
                SentDay::Stored => return Ok(true),
                SentDay::Known => return Ok(false),
                SentDay::Later(_, error) if attempt + 1 == TRIES => return Err(error),
                SentDay::Later(after, _) => {
                    wait(after.unwrap_or_default().min(WAIT_MAX), WAIT * 2_u32.pow(attempt));
                }
            }
        }
        unreachable!("the last try returns")
    }
}
