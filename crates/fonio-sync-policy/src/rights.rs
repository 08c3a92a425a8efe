//! Runs code with the rights of another user.

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// The group without rights on any file (`nogroup`).
const NO_GROUP: u32 = 65_534;

/// Runs `work` with the rights of the user on files, and with the rights of no group. Fails if this process
/// belongs to neither the user nor root.
///
/// The work of root runs in a thread of its own, because rights belong to a thread. Only the effective user
/// changes, so the user cannot send signals to the thread.
pub(crate) fn as_user<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    if geteuid().as_raw() == user {
        return Ok(work());
    }
    let changed = || -> std::io::Result<T> {
        set_thread_groups(&[])?;
        set_thread_res_gid(None, Gid::from_raw(NO_GROUP), None)?;
        set_thread_res_uid(None, Uid::from_raw(user), None)?;
        Ok(work())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, changed)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
