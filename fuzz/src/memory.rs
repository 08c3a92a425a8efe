//! Limits the memory of one input, and tells panics of fonio from panics that fonio expects.

use std::alloc::System;
use std::backtrace::Backtrace;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use cap::Cap;

/// Maximum number of bytes that one input may take from the heap. fonio promises less than 512 MiB for a
/// process, and a process also needs memory for its program and stacks.
const BYTES_MAX: usize = 384 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The message of the latest panic in another project's crate or in the standard library, and its callers.
static FOREIGN_PANIC: Mutex<Option<(String, Backtrace)>> = Mutex::new(None);

/// Prepares a fuzz target. libFuzzer's hook ends the process at each panic, but fonio handles the panics of the
/// Parquet library. So this hook ends the process only at panics in fonio's own code.
pub fn begin() {
    let end = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let is_own = panic.location().is_none_or(|at| {
            at.file().contains("crates/fonio-")
                || at.file().contains("fuzz_targets/")
                || at.file().starts_with("src/")
        });
        if is_own {
            end(panic);
        }
        let panic = (panic.to_string(), Backtrace::force_capture());
        *FOREIGN_PANIC.lock().expect("no panic holds the lock") = Some(panic);
    }));
}

/// Calls `call` with limited memory. Ends the process if `call` panics or exceeds the limit; libFuzzer then
/// keeps the input.
pub fn bounded<T>(call: impl FnOnce() -> T) -> T {
    ALLOCATOR.set_limit(ALLOCATOR.allocated() + BYTES_MAX).expect("the limit exceeds the memory in use");
    let result = catch_unwind(AssertUnwindSafe(call));
    ALLOCATOR.set_limit(usize::MAX).expect("the limit exceeds the memory in use");
    result.unwrap_or_else(|_| {
        if let Some((message, callers)) = &*FOREIGN_PANIC.lock().expect("no panic holds the lock") {
            eprintln!("{message}\n{callers}");
        }
        std::process::abort()
    })
}
