//! Shares the watch's figures with its servers.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fonio_core::ByteCount;

use crate::summary::{Bounds, Summary};

const BOUNDS: Bounds = Bounds { parties: 60, files: 20, stalls: 20, events: 20 };

/// Maximum number of notifications that wait for a broker.
const NOTIFICATIONS_MAX: usize = 16;

/// The figures of the last minute, and the totals since the watch began.
#[derive(Debug, Default)]
pub struct Shared {
    figures: Mutex<Figures>,
    renewed: Condvar,
}

/// A copy of the watch's figures.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Figures of the last complete minute; `None` during the first minute.
    pub minute: Option<Summary>,
    /// Sum of the figures since the watch began.
    pub total: Summary,
    /// Number of minutes that the watch has completed.
    pub minutes: u64,
    /// Bytes that the watch wrote to the medium in the last 24 hours, as counted by the watch itself.
    pub written: ByteCount,
    /// The last notifications, with their numbers, which count from 1.
    pub notifications: VecDeque<(u64, String)>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, minute: &Summary) {
        let mut figures = self.lock();
        figures.total.merge(minute);
        figures.total.trim(BOUNDS);
        figures.minute = Some(minute.clone());
        figures.minutes += 1;
        drop(figures);
        self.renewed.notify_all();
    }

    pub(crate) fn written(&self, bytes: ByteCount) {
        self.lock().written = bytes;
    }

    /// Hands a notification to the servers, which publish it with the next minute.
    pub fn notify(&self, text: &str) {
        let notifications = &mut self.lock().notifications;
        let number = notifications.back().map_or(1, |(number, _)| number + 1);
        notifications.push_back((number, text.to_owned()));
        if notifications.len() > NOTIFICATIONS_MAX {
            notifications.pop_front();
        }
    }

    /// Returns a copy of the present figures.
    pub fn figures(&self) -> Figures {
        self.lock().clone()
    }

    /// Waits until more than `minutes` minutes are complete, at most for `longest`; returns the figures.
    pub fn wait(&self, minutes: u64, longest: Duration) -> Figures {
        let waited =
            self.renewed.wait_timeout_while(self.lock(), longest, |figures| figures.minutes <= minutes);
        waited.map_or_else(|poisoned| poisoned.into_inner().0.clone(), |(figures, _)| figures.clone())
    }
}
