//! Defines `fonio watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fonio_watch::service::Paths;

use super::{Android, Redact, parse_time};

/// `fonio watch`.
#[derive(Debug, Subcommand)]
pub enum Watch {
    /// Install the watch as a systemd service, and start it now and at each boot.
    ///
    /// Example: sudo fonio watch install
    Install {
        #[command(flatten)]
        place: Place,
    },
    /// Start the watch in the background until the next boot.
    ///
    /// Example: sudo fonio watch start
    Start {
        #[command(flatten)]
        place: Place,
    },
    /// Stop the watch; its history stays.
    ///
    /// Example: sudo fonio watch stop
    Stop {
        #[command(flatten)]
        place: Place,
    },
    /// Show stalls, the programs that write most, and the remaining life of devices.
    ///
    /// Example: sudo fonio watch report
    Report(Report),
    /// Show in one screen whether the watch runs, what stalled most, which fix is ready, and what wears out.
    ///
    /// Example: sudo fonio watch status
    Status(Status),
    /// Print the last week in a few short lines, for the screen of a phone.
    ///
    /// Example: sudo fonio watch digest
    Digest {
        #[command(flatten)]
        place: Place,
    },
    /// Send the complete days of the history to a fleet.
    ///
    /// Reads the watch's history. Sends one file for each day that the fleet does not have yet: sums and histograms, and
    /// the causes of stalls. Paths, threads and traces stay on this machine, and only system services have names
    /// (docs/fleet.md).
    ///
    /// Example: sudo fonio watch send --to /mnt/fleet
    Send(Send),
    /// Stop the watch and remove its service.
    ///
    /// Example: sudo fonio watch uninstall --purge
    Uninstall {
        /// Also remove the watch's history and the recordings of stalls.
        #[arg(long)]
        purge: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Watch in the foreground until SIGTERM or Ctrl-C, as the service does.
    ///
    /// Example: sudo fonio watch run
    Run {
        #[command(flatten)]
        place: Place,
        /// Work in this place, not on this machine.
        ///
        /// PLACE is a phone that `adb devices` lists: android, or android:SERIAL if there are several. The watch then reads
        /// only counters (docs/phones.md).
        #[arg(long = "in", value_name = "PLACE")]
        phone: Option<Android>,
    },
}

/// The files of a watch.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// Read the settings from this file.
    ///
    /// Default: /etc/fonio/watch.toml, if it exists.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Keep the history in this folder.
    ///
    /// The history is written every two hours. Default: /var/lib/fonio/watch.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Keep data in this in-memory folder until it is written to the history.
    ///
    /// Default: /run/fonio/watch.
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
}

impl Place {
    /// Converts these options to the paths of a watch.
    pub fn paths(&self) -> Paths {
        Paths { config: self.config.clone(), state: self.state.clone(), run: self.run.clone() }
    }
}

/// `fonio watch report`.
#[derive(Debug, Args)]
pub struct Report {
    /// The section to show; default: all.
    #[arg(value_enum, conflicts_with = "html")]
    pub what: Option<What>,
    /// Start the time window here.
    ///
    /// TIME is the time before now, in s, min, h or d.
    #[arg(long, value_name = "TIME", value_parser = parse_days_too, default_value = "24h")]
    pub since: Duration,
    /// End the time window here.
    ///
    /// TIME is the time before now, in s, min, h or d. Default: now.
    #[arg(long, value_name = "TIME", value_parser = parse_days_too)]
    pub until: Option<Duration>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a page with charts to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Work in this place, not on this machine.
    ///
    /// PLACE is a phone that was watched: android, or android:SERIAL if there are several. Its stalls are unknown
    /// (docs/phones.md).
    #[arg(long = "in", value_name = "PLACE")]
    pub phone: Option<Android>,
    #[command(flatten)]
    pub place: Place,
}

/// `fonio watch send`.
#[derive(Debug, Args)]
pub struct Send {
    /// Send to this fleet: a folder, which must exist, or the address of a results service (https://HOST).
    #[arg(long, value_name = "PLACE")]
    pub to: PathBuf,
    /// Send the token in this file to the service.
    ///
    /// The operator of the fleet gives each device a token. With http://, others on the network can read it.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Give this name to the device.
    ///
    /// Default: a token that follows from /etc/machine-id, but does not show it.
    #[arg(long, value_name = "NAME")]
    pub device_name: Option<String>,
    #[command(flatten)]
    pub redact: Redact,
    #[command(flatten)]
    pub place: Place,
}

/// `fonio watch status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Work in this place, not on this machine.
    ///
    /// PLACE is a phone that was watched: android, or android:SERIAL if there are several.
    #[arg(long = "in", value_name = "PLACE")]
    pub phone: Option<Android>,
    #[command(flatten)]
    pub place: Place,
}

/// Parses a time as elsewhere, or a number of days, because a watch keeps a year of history.
fn parse_days_too(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.trim().parse::<u32>().ok());
    match days {
        Some(days) => Ok(Duration::from_secs(u64::from(days) * 24 * 3600)),
        None => parse_time(text).map_err(|error| format!("{error}, or days such as 7d")),
    }
}

/// A section of a watch's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// The stalls, the programs that waited, and the causes.
    Stalls,
    /// The programs that wear out the devices, and the remaining life.
    Wear,
    /// Response times and blocked time of each unit and device.
    Load,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_times() {
        assert_eq!(parse_days_too("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(parse_days_too("90min"), Ok(Duration::from_secs(5400)));
        assert!(parse_days_too("7").is_err_and(|error| error.ends_with("such as 30s, or days such as 7d")));
    }
}
