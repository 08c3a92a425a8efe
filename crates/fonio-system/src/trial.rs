//! The name of the threads that repeat a stall in a trial.
//!
//! Such threads wait for storage on purpose. The watch recognises them by this name, and does not count their
//! waits as stalls of the program that started fonio.

use std::ffi::CString;

use rustix::thread::{name, set_name};

/// The name of the threads of a trial.
pub const TRIAL_NAME: &str = "fonio-trial";

/// While it exists, the thread that made it, and all threads that this thread starts and that have no name of
/// their own, have the name [`TRIAL_NAME`].
#[derive(Debug)]
pub struct TrialName {
    before: Option<CString>,
}

impl TrialName {
    /// Renames the calling thread.
    pub fn take() -> TrialName {
        let before = name().ok();
        let new = CString::new(TRIAL_NAME).expect("the name has no zero byte");
        TrialName { before: before.filter(|_| set_name(&new).is_ok()) }
    }
}

impl Drop for TrialName {
    fn drop(&mut self) {
        // Without its name, the thread works as before.
        let _ = self.before.take().map(|before| set_name(&before));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    #[test]
    fn threads_of_a_trial_have_its_name() {
        let own = || fs::read_to_string("/proc/thread-self/comm").expect("procfs");
        let before = own();
        let taken = TrialName::take();
        let started = thread::spawn(own).join().expect("it reads its name");
        assert_eq!([own().trim_end(), started.trim_end()], [TRIAL_NAME; 2]);
        drop(taken);
        assert_eq!(own(), before);
    }
}
