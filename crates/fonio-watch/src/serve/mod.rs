//! Serves the figures to other programs while the watch runs: over HTTP for Prometheus and Home Assistant's
//! REST sensor, and over MQTT with Home Assistant's discovery. HTTP and MQTT are off by default: HTTP needs
//! an address in the settings, and MQTT needs a broker.

mod http;
mod mqtt;
mod prometheus;
mod status;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use fonio_system::TextServer;

use crate::error::WatchError;
use crate::settings::Settings;
use crate::shared::Shared;

/// The running servers. Dropping this value stops the servers.
pub struct Servers {
    stop: Arc<AtomicBool>,
    http: Option<TextServer>,
    mqtt: Option<JoinHandle<()>>,
}

/// Starts the configured servers. `tell` logs sentences.
///
/// # Errors
/// [`WatchError::Listen`] if the address cannot be used; [`WatchError`] if the broker's password cannot be
/// read.
pub fn start(settings: &Settings, shared: Arc<Shared>, tell: fn(&str)) -> Result<Servers, WatchError> {
    let stop = Arc::new(AtomicBool::new(false));
    let http = settings.listen.map(|address| http::start(address, Arc::clone(&shared))).transpose()?;
    let mqtt =
        settings.mqtt.as_ref().map(|mqtt| mqtt::start(mqtt, shared, Arc::clone(&stop), tell)).transpose()?;
    Ok(Servers { stop, http, mqtt })
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Servers").field("http", &self.address()).finish_non_exhaustive()
    }
}

impl Servers {
    /// Returns the address of the HTTP server, if there is one.
    pub fn address(&self) -> Option<std::net::SocketAddr> {
        self.http.as_ref()?.address()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.mqtt.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
