//! Defines `fonio watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fonio_watch::service::Paths;

use super::parse_time;

/// `fonio watch`.
#[derive(Debug, Subcommand)]
pub enum Watch {
    /// Make the watch a service of systemd and start it, also after each boot.
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
    /// Show what stalled, who writes most, and when a device will be worn out.
    ///
    /// Example: sudo fonio watch report
    Report(Report),
    /// Stop the watch and remove its service.
    ///
    /// Example: sudo fonio watch uninstall --purge
    Uninstall {
        /// Also remove its history and what it kept.
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
    },
}

/// Where a watch keeps its files.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// Read the settings from this file.
    ///
    /// Default: /etc/fonio/watch.toml, if it is there.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Keep the history in this folder.
    ///
    /// It is written every two hours. Default: /var/lib/fonio/watch.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Keep data that is not written yet in this folder in memory.
    ///
    /// Default: /run/fonio/watch.
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
}

impl Place {
    /// The same for the watch.
    pub fn paths(&self) -> Paths {
        Paths { config: self.config.clone(), state: self.state.clone(), run: self.run.clone() }
    }
}

/// `fonio watch report`.
#[derive(Debug, Args)]
pub struct Report {
    /// What to show; default: all.
    #[arg(value_enum, conflicts_with = "html")]
    pub what: Option<What>,
    /// Begin the window of time here.
    ///
    /// A time before now, in s, min, h or d.
    #[arg(long, value_name = "TIME", value_parser = parse_days_too, default_value = "24h")]
    pub since: Duration,
    /// End the window of time here.
    ///
    /// A time before now, in s, min, h or d. Default: now.
    #[arg(long, value_name = "TIME", value_parser = parse_days_too)]
    pub until: Option<Duration>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a page with charts into this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub place: Place,
}

/// Reads a time as elsewhere, and whole days: a watch remembers a year.
fn parse_days_too(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.trim().parse::<u32>().ok());
    match days {
        Some(days) => Ok(Duration::from_secs(u64::from(days) * 24 * 3600)),
        None => parse_time(text).map_err(|error| format!("{error}, or days such as 7d")),
    }
}

/// A question to a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// What stalled, who waited, and why.
    Stalls,
    /// Who wears out the devices, and when they will be worn out.
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
