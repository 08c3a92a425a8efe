//! The names of parties and operations in answers.

use fonio_core::BlockedIn;
use fonio_record::observer::{Party, PartyKind};

use crate::summary::Stall;

/// Returns the name under which answers mention a party.
pub fn party_name(party: &Party) -> String {
    match party.kind {
        PartyKind::Kernel => format!("{} (kernel)", party.name),
        _ => party.name.clone(),
    }
}

/// Returns the operation in which the party was blocked longest.
pub fn stall_operation(stall: &Stall) -> &'static str {
    match stall.blocked_in {
        BlockedIn::Read => "read",
        BlockedIn::Write => "write",
        BlockedIn::Fsync => "fsync",
        BlockedIn::Metadata => "an operation on file names",
        BlockedIn::PageFault => "a page fault",
        BlockedIn::SwapIn => "swapping in",
        BlockedIn::DirtyLimit => "a write throttled by the kernel (dirty limit)",
        BlockedIn::Journal => "waiting for the journal",
        BlockedIn::OtherThread => "waiting for another thread",
        BlockedIn::AsyncIo => "waiting for asynchronous I/O",
        BlockedIn::AsyncRead => "waiting for asynchronous reads",
        BlockedIn::AsyncWrite => "waiting for asynchronous writes",
        BlockedIn::KernelThread | BlockedIn::Other | BlockedIn::Unknown => "a wait for storage",
    }
}
