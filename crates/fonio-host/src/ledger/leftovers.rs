//! Remembers the steps that could not be undone, and what keeps their objects in use.
//!
//! Trying to remove a device that is in use takes seconds. So after one try, the ledger notes the users of the
//! device: the processes that have it open, mounts in any mount namespace, a swap area, or devices above it. The
//! step is tried again only when the users have changed. Until then, no process takes the lock of the ledger for
//! this step, so no other process waits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Step;
use crate::device_users::users_and_identity;

/// Time after which a step is tried again if no user of its device is visible.
pub(super) const BLIND_PAUSE: Duration = Duration::from_secs(3600);

/// What keeps the object of a step in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    /// A clause that names the users.
    pub named: String,
    /// A text that stays the same while the users stay the same; empty if no user is visible.
    pub identity: String,
}

/// Returns the users of the device of a step; `None` if the step has no device or the device is gone, so
/// that trying takes no time.
pub(super) fn holder(step: &Step) -> Option<Holder> {
    let device: PathBuf = match step {
        Step::Loop { number, .. } => format!("/dev/loop{number}").into(),
        Step::Ublk { number, .. } => format!("/dev/ublkb{number}").into(),
        Step::Md { number, .. } => format!("/dev/md{number}").into(),
        _ => return None,
    };
    // A device that is gone has nothing to wait for.
    device.exists().then(|| holder_of(&device))
}

fn holder_of(device: &Path) -> Holder {
    let (named, identity) = users_and_identity(device);
    Holder { named, identity }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_gone_is_waited_for_no_longer() {
        let of = |number| holder(&Step::Loop { number, backing: PathBuf::new() });
        assert_eq!(of(999_999), None);
        let first = Path::new("/dev/loop0");
        assert_eq!(of(0).is_some(), first.exists());
    }
}
