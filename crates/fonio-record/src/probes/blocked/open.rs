//! Describes waits that are still open at the end of the recording, from procfs.
//!
//! The BPF program knows when these waits began. The call and the stack are read from `/proc/TID/syscall` and
//! `/proc/TID/stack` a moment later. The file of the call is unknown.

use fonio_core::BlockedIn;
use fonio_machine::{Machine, read_text};

use super::calls;
use super::judgement::{Judgement, StackFunctions, operation_of_call};
use super::layout::KERNEL_THREAD;

/// `PF_KTHREAD` of `include/linux/sched.h`.
const KERNEL_THREAD_FLAG: u64 = 0x0020_0000;
/// The value in place of the call number if the number is not readable, or if the thread runs again.
const UNREADABLE: i32 = -5;

/// The state of a thread according to `/proc/TID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    is_blocked: bool,
    is_kernel_thread: bool,
}

pub(super) fn is_blocked(machine: &Machine, tid: u32) -> bool {
    state(machine, tid).is_some_and(|state| state.is_blocked)
}

pub(crate) fn blocked_threads(machine: &Machine) -> Vec<u32> {
    let number = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let processes = std::fs::read_dir(machine.proc("")).into_iter().flatten().filter_map(number);
    let threads = processes.flat_map(|pid: u32| {
        let threads = std::fs::read_dir(machine.proc(format!("{pid}/task")));
        threads.into_iter().flatten().filter_map(number).collect::<Vec<u32>>()
    });
    threads.filter(|tid| is_blocked(machine, *tid)).collect()
}

/// Judges the current wait of a blocked thread.
pub(crate) fn judgement(machine: &Machine, tid: u32) -> Judgement {
    let is_kernel_thread = state(machine, tid).is_some_and(|state| state.is_kernel_thread);
    let text = |name: &str| read_text(&machine.proc(format!("{tid}/{name}"))).unwrap_or_default();
    let call = match is_kernel_thread {
        true => KERNEL_THREAD,
        // In a page fault, `/proc/TID/syscall` shows the call number -1.
        false => {
            text("syscall").split_ascii_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(UNREADABLE)
        }
    };
    let (stack, innermost) = (text("stack"), text("wchan"));
    let mut names: Vec<&str> = stack.lines().filter_map(function).collect();
    // Some kernels do not show stacks, but only the function in which a thread sleeps.
    if names.is_empty() {
        names.extend(Some(innermost.trim()).filter(|name| !matches!(*name, "" | "0")));
    }
    let judgement = StackFunctions::of_names(&names, call);
    // Without permission to read the stack, only the call is known.
    let blocked_in = if names.is_empty() { operation_of_call(call) } else { judgement.blocked_in };
    let is_fault = matches!(blocked_in, BlockedIn::PageFault | BlockedIn::SwapIn);
    let is_of_file = !is_fault && calls::call(call).is_some_and(|call| call.has_file);
    Judgement { blocked_in, is_of_file, ..judgement }
}

fn state(machine: &Machine, tid: u32) -> Option<State> {
    parse_state(&read_text(&machine.proc(format!("{tid}/stat")))?)
}

fn parse_state(stat: &str) -> Option<State> {
    // Only the thread's name can contain spaces and brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_ascii_whitespace();
    let is_blocked = words.next()? == "D";
    let flags: u64 = words.nth(5)?.parse().ok()?;
    Some(State { is_blocked, is_kernel_thread: flags & KERNEL_THREAD_FLAG != 0 })
}

/// Parses the function name in a line such as `[<0>] io_schedule+0x46/0x80`.
fn function(line: &str) -> Option<&str> {
    let name = line.split_once("] ")?.1.split(['+', ' ']).next()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use fonio_core::WaitReason;

    use super::*;

    #[test]
    fn procfs_shows_the_call_and_the_functions() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::at(root.path());
        let thread = |tid: u32, state: &str, flags: u64, syscall: &str, stack: &str| {
            let dir = root.path().join(format!("proc/{tid}/task/{tid}"));
            std::fs::create_dir_all(&dir).unwrap();
            let dir = root.path().join(format!("proc/{tid}"));
            let stat = format!("{tid} (a) b) {state} 1 1 0 0 -1 {flags} 0 0");
            for (name, text) in [("stat", stat.as_str()), ("syscall", syscall), ("stack", stack)] {
                std::fs::write(dir.join(name), text).unwrap();
            }
        };
        let fsync = "[<0>] jbd2_log_wait_commit+0x1/0x2 [jbd2]\n[<0>] ext4_sync_file+0x1/0x2\n";
        thread(5, "D", 0, "74 0x3 0x0", fsync);
        thread(6, "S", 0, "0 0x3", "");
        thread(7, "D", KERNEL_THREAD_FLAG, "0", "[<0>] io_schedule+0x1/0x2\n");
        thread(8, "D", 0, "-1 0x7f 0x7f", "");
        thread(9, "D", 0, "running", "");
        let mut blocked = blocked_threads(&machine);
        blocked.sort_unstable();
        assert_eq!(blocked, [5, 7, 8, 9]);
        let found = |tid| {
            let judgement = judgement(&machine, tid);
            (judgement.blocked_in, judgement.reason)
        };
        #[cfg(target_arch = "x86_64")]
        assert_eq!(found(5), (BlockedIn::Fsync, WaitReason::Storage));
        assert_eq!(found(7), (BlockedIn::KernelThread, WaitReason::Storage));
        assert_eq!(found(8), (BlockedIn::PageFault, WaitReason::Unknown));
        assert_eq!(found(9), (BlockedIn::Unknown, WaitReason::Unknown));
        assert!(!is_blocked(&machine, 4));
    }
}
