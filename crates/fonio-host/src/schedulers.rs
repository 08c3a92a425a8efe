//! Lists the I/O schedulers that fonio knows, and explains how to install the scheduler that is not part of
//! Linux.

/// The scheduler of a kernel module that comes with fonio.
pub const SMARTIO: &str = "smartio";

const SCHEDULERS: [&str; 5] = ["none", "mq-deadline", "kyber", "bfq", SMARTIO];

/// Returns a sentence, without its full stop, that explains how to install the scheduler `name`; `None` if
/// this scheduler is part of Linux or unknown.
pub fn how_to_get(name: &str) -> Option<&'static str> {
    (name == SMARTIO).then_some(
        "smartio is a module that comes with fonio's sources, for Linux 6.1, 6.12 and 7.3: install dkms and linux-headers-$(uname -r), copy kernel/smartio to /usr/src/smartio-0.1.0, and run `dkms install smartio/0.1.0`",
    )
}

/// Returns the end of an error message about the missing scheduler `name`: [`how_to_get`], or the name that
/// was probably meant.
pub(crate) fn way_to(name: &str) -> String {
    let how = how_to_get(name).map(|how| format!("; {how}"));
    how.unwrap_or_else(|| fonio_core::nearest(name, SCHEDULERS))
}
