//! Finds the operation in which a thread waits, from the functions on its kernel stack.

use fonio_core::BlockedIn;

use crate::functions;

/// Functions that identify the operation, with their names in Linux 5.15 to 6.18. `__folio_lock_or_retry` (in
/// older kernels `__lock_page_or_retry`) is missing, because `do_swap_page` calls it too: only its caller
/// distinguishes a swap-in from another page fault.
pub const OPERATIONS: &[(BlockedIn, &[&str])] = functions!(BlockedIn {
    PageFault:
        handle_mm_fault __handle_mm_fault do_user_addr_fault do_kern_addr_fault exc_page_fault
        asm_exc_page_fault do_page_fault do_mem_abort filemap_fault faultin_page
        // `do_swap_page` also waits for pages that the kernel moves in memory.
        migration_entry_wait migration_entry_wait_on_locked migration_entry_wait_huge
        pmd_migration_entry_wait softleaf_entry_wait_on_locked;
    SwapIn:
        do_swap_page swapin_readahead swap_cluster_readahead read_swap_cache_async swap_readpage
        swap_read_folio swap_read_page shmem_swapin_folio shmem_swapin_page;
    DirtyLimit: balance_dirty_pages balance_dirty_pages_ratelimited balance_dirty_pages_ratelimited_flags;
    Journal:
        start_this_handle wait_transaction_locked wait_transaction_switching add_transaction_credits
        do_get_write_access jbd2_log_wait_commit jbd2_complete_transaction jbd2_journal_lock_updates
        jbd2_journal_stop __jbd2_log_wait_for_space xlog_grant_head_wait xlog_wait_on_iclog xfs_log_force
        xfs_log_force_seq wait_current_trans wait_log_commit btrfs_wait_for_commit;
});

/// Returns the operation that a function of the kernel identifies. A trace of the scheduler names only the function in
/// which the thread slept, which seldom identifies an operation.
pub fn operation_of_function(function: &str) -> Option<BlockedIn> {
    let mut rows = OPERATIONS.iter();
    rows.find(|(_, names)| names.contains(&function)).map(|(operation, _)| *operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_has_two_operations() {
        let mut names: Vec<&str> = OPERATIONS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn a_function_shows_the_operation() {
        for (function, expected) in [
            ("filemap_fault", Some(BlockedIn::PageFault)),
            ("jbd2_log_wait_commit", Some(BlockedIn::Journal)),
            ("folio_wait_bit_common", None),
            ("", None),
        ] {
            assert_eq!(operation_of_function(function), expected, "{function}");
        }
    }
}
