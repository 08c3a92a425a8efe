//! Finds why a thread waits, from the functions on its kernel stack.
//!
//! There are two tables: one of functions in which threads block, and one of functions that wake threads. The
//! innermost function on the stack that is in the table determines the reason. In an interrupt, the functions
//! of the interrupted thread are further out, so they do not count. The names are from Linux 4.4 to 6.18.
//! Names that a kernel lacks are ignored.

use std::collections::BTreeMap;

use fonio_core::WaitReason;

type Table = &'static [(WaitReason, &'static [&'static str])];

/// Builds a table for [`Functions::find`], or the list of names in one row.
#[macro_export]
macro_rules! functions {
    ($meaning:ident { $($variant:ident: $($name:ident)+;)+ }) => {
        &[$(($meaning::$variant, $crate::functions!($($name)+))),+]
    };
    ($($name:ident)+) => {
        &[$(stringify!($name)),+] as &[&str]
    };
}

/// Functions in which a thread blocks. `poll`, `select` and `epoll` are omitted, because only the waker shows
/// for which event such a call waited.
const BLOCKED_IN: Table = functions!(WaitReason {
    Storage:
        // Functions of the block layer and the page cache.
        io_schedule io_schedule_timeout blk_io_schedule bit_wait_io folio_wait_bit_common
        folio_put_wait_locked folio_wait_writeback wait_on_page_bit wait_on_page_bit_common
        wait_on_page_bit_killable wait_on_page_writeback __lock_page __lock_page_killable __wait_on_buffer
        submit_bio_wait blkdev_issue_flush rq_qos_wait wbt_wait blk_mq_get_tag wait_for_completion_io
        wait_for_completion_io_timeout dio_await_completion read_events
        // Functions that wait for write-back.
        balance_dirty_pages balance_dirty_pages_ratelimited balance_dirty_pages_ratelimited_flags
        wb_wait_for_completion inode_wait_for_writeback __inode_wait_for_writeback
        // Functions that wait for the journal of a file system.
        jbd2_log_wait_commit jbd2_complete_transaction jbd2_journal_stop jbd2_journal_lock_updates
        __jbd2_log_wait_for_space start_this_handle wait_transaction_locked wait_transaction_switching
        add_transaction_credits do_get_write_access xlog_wait_on_iclog xlog_grant_head_wait xfs_log_force
        xfs_log_force_seq xfs_buf_iowait btrfs_start_ordered_extent btrfs_wait_ordered_range
        btrfs_wait_for_commit btrfs_commit_transaction wait_log_commit wait_current_trans f2fs_issue_flush
        f2fs_wait_on_page_writeback f2fs_issue_checkpoint nilfs_segctor_sync
        // Functions that wait for a FUSE daemon.
        request_wait_answer fuse_wait_on_page_writeback;
    Network:
        sk_wait_data sk_stream_wait_memory sk_stream_wait_connect inet_wait_for_connect
        __inet_stream_connect inet_stream_connect inet_csk_accept tcp_recvmsg tcp_recvmsg_locked
        tcp_sendmsg_locked udp_recvmsg udpv6_recvmsg __skb_recv_udp raw_recvmsg rpc_wait_bit_killable;
    Lock:
        futex_wait __futex_wait futex_wait_queue futex_wait_queue_me futex_wait_requeue_pi futex_lock_pi
        rwsem_down_read_slowpath rwsem_down_write_slowpath rwsem_down_read_failed rwsem_down_write_failed
        __mutex_lock __mutex_lock_slowpath __mutex_lock_killable_slowpath
        __mutex_lock_interruptible_slowpath __down __down_common percpu_down_write percpu_rwsem_wait
        flock_lock_inode_wait locks_lock_inode_wait fcntl_setlk __do_semtimedop do_semtimedop;
    Thread:
        do_wait kernel_wait4 wait_for_vfork_done kernel_clone _do_fork pipe_read pipe_write anon_pipe_read
        anon_pipe_write pipe_wait pipe_wait_readable pipe_wait_writable wait_for_partner
        unix_stream_data_wait unix_stream_read_generic unix_dgram_recvmsg __unix_dgram_recvmsg
        unix_wait_for_peer unix_accept eventfd_read do_sigtimedwait sigsuspend __x64_sys_pause
        __arm64_sys_pause do_signal_stop ptrace_stop n_tty_read do_msgrcv;
    Timer: do_nanosleep hrtimer_nanosleep common_nsleep alarm_timer_nsleep;
});

/// Functions that wait for a page that the kernel moves in memory. They call functions in which threads also wait for storage.
const MOVED_PAGES: &[&str] = functions!(
    migration_entry_wait migration_entry_wait_on_locked migration_entry_wait_huge pmd_migration_entry_wait
    softleaf_entry_wait_on_locked
);

/// Functions that wake threads.
const WOKEN_BY: Table = functions!(WaitReason {
    Storage:
        blk_update_request blk_mq_end_request bio_endio end_bio_bh_io_sync end_buffer_read_sync
        end_buffer_write_sync iomap_dio_bio_end_io iomap_finish_ioend folio_end_writeback folio_end_read
        end_page_writeback mpage_end_io mpage_read_end_io ext4_end_bio ext4_end_io_rsv_work dio_complete
        aio_complete_rw io_complete_rw jbd2_journal_commit_transaction kjournald2 xlog_ioend_work
        xfs_buf_ioend issue_flush_thread nilfs_segctor_thread wb_workfn fuse_request_end request_end;
    Network:
        tcp_v4_rcv tcp_v6_rcv tcp_rcv_established tcp_rcv_state_process tcp_data_queue tcp_ack
        tcp_child_process udp_rcv __udp4_lib_rcv udp_queue_rcv_one_skb __udp_enqueue_schedule_skb udpv6_rcv
        icmp_rcv raw_local_deliver packet_rcv net_rx_action __napi_poll;
    Timer:
        hrtimer_wakeup process_timeout timerfd_tmrproc timerfd_alarmproc it_real_fn posix_timer_fn
        alarmtimer_fired;
    Lock:
        futex_wake futex_wake_op futex_requeue futex_unlock_pi rwsem_wake up_write up_read __up_read
        mutex_unlock __mutex_unlock_slowpath percpu_up_write locks_wake_up_blocks __locks_wake_up_blocks;
    Thread:
        do_notify_parent mm_release exec_mm_release exit_mm_release pipe_read pipe_write pipe_release
        anon_pipe_read anon_pipe_write unix_stream_sendmsg unix_dgram_sendmsg unix_stream_connect
        unix_release_sock eventfd_write eventfd_signal_mask signal_wake_up_state complete_signal
        n_tty_receive_buf_common;
});

/// The symbols of the running kernel, sorted by address.
#[derive(Clone, Debug)]
pub struct Symbols<'a>(Vec<(u64, &'a str)>);

impl<'a> Symbols<'a> {
    /// Parses the text of `/proc/kallsyms`.
    pub fn from_kallsyms(text: &'a str) -> Symbols<'a> {
        let mut symbols: Vec<(u64, &str)> = text.lines().filter_map(parse_symbol).collect();
        symbols.sort_unstable();
        Symbols(symbols)
    }
}

/// Functions sorted by address, each with a meaning. A function ends where the next symbol begins.
#[derive(Clone, Debug)]
pub struct Functions<T>(Vec<(u64, u64, T)>);

impl<T> Default for Functions<T> {
    fn default() -> Functions<T> {
        Functions(Vec::new())
    }
}

impl<T: Copy> Functions<T> {
    /// Finds the functions of `table` among the symbols. Names that this kernel lacks are ignored.
    pub fn find(symbols: &Symbols<'_>, table: &[(T, &[&str])]) -> Functions<T> {
        let wanted: BTreeMap<&str, T> =
            table.iter().flat_map(|(meaning, names)| names.iter().map(|name| (*name, *meaning))).collect();
        let symbols = &symbols.0;
        let mut found = Vec::new();
        for (at, (begin, name)) in symbols.iter().enumerate() {
            if let Some(meaning) = wanted.get(name) {
                let end = symbols[at..].iter().map(|(next, _)| *next).find(|next| next > begin);
                found.push((*begin, end.unwrap_or(u64::MAX), *meaning));
            }
        }
        found.dedup_by_key(|(begin, ..)| *begin);
        Functions(found)
    }

    /// Returns whether no function was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the meaning of the innermost known function on a stack. The innermost address must come first.
    pub fn innermost(&self, mut stack: impl Iterator<Item = u64>) -> Option<T> {
        stack.find_map(|address| {
            // Subtract 1, because a return address is the address after the call, and the call may be the
            // last instruction of a function.
            let inside = address.checked_sub(1)?;
            let at = self.0.partition_point(|(begin, ..)| *begin <= inside).checked_sub(1)?;
            let (_, end, meaning) = self.0[at];
            (inside < end).then_some(meaning)
        })
    }
}

/// The addresses of the functions in both tables, for one kernel.
#[derive(Clone, Debug, Default)]
pub struct Reasons {
    blocked_in: Functions<WaitReason>,
    moved_pages: Functions<()>,
    woken_by: Functions<WaitReason>,
}

impl Reasons {
    /// Finds the functions in the text of `/proc/kallsyms`.
    pub fn from_kallsyms(text: &str) -> Reasons {
        Reasons::from_symbols(&Symbols::from_kallsyms(text))
    }

    /// Finds the functions of both tables among a kernel's symbols.
    pub fn from_symbols(symbols: &Symbols<'_>) -> Reasons {
        Reasons {
            blocked_in: Functions::find(symbols, BLOCKED_IN),
            moved_pages: Functions::find(symbols, &[((), MOVED_PAGES)]),
            woken_by: Functions::find(symbols, WOKEN_BY),
        }
    }

    /// Returns whether a table is empty because the kernel hides its addresses (`kernel.kptr_restrict`) or
    /// lists no symbols.
    pub fn is_empty(&self) -> bool {
        self.blocked_in.is_empty() || self.woken_by.is_empty()
    }

    /// Returns why a thread with this stack is blocked; `None` if no function on the stack is in the table.
    /// The innermost address must come first.
    pub fn of_blocked(&self, stack: impl Iterator<Item = u64>) -> Option<WaitReason> {
        let mut innermost = None;
        for address in stack {
            if self.moved_pages.innermost(std::iter::once(address)).is_some() {
                return Some(WaitReason::Lock);
            }
            innermost = innermost.or_else(|| self.blocked_in.innermost(std::iter::once(address)));
        }
        innermost
    }

    /// Returns the kind of wait that a thread with this stack ends when it wakes another thread; `None` if no
    /// function on the stack is in the table.
    pub fn of_waker(&self, stack: impl Iterator<Item = u64>) -> Option<WaitReason> {
        self.woken_by.innermost(stack)
    }

    /// Returns whether any function on the stack ends waits of this kind.
    pub fn has_waker(&self, mut stack: impl Iterator<Item = u64>, reason: WaitReason) -> bool {
        stack.any(|address| self.woken_by.innermost(std::iter::once(address)) == Some(reason))
    }
}

/// Returns why a thread is blocked that sleeps in this function of the kernel; `None` if the function is not in the
/// table. A trace of the scheduler names the function by itself.
pub fn reason_of_function(function: &str) -> Option<WaitReason> {
    BLOCKED_IN.iter().find(|(_, names)| names.contains(&function)).map(|(reason, _)| *reason)
}

/// Parses a line such as `ffffffff81000000 T _stext`. The line may end with the name of a module. A part that
/// the compiler split off from a function (`.isra.0`) gets the name of the function. Data symbols get an
/// empty name, because they only mark the end of the preceding function.
fn parse_symbol(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
    let kind = words.next()?;
    let name = words.next()?;
    let is_code = matches!(kind, "t" | "T" | "w" | "W");
    let plain = name.split_once('.').map_or(name, |(plain, _)| plain);
    Some((address, if is_code { plain } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
        ffff0100 T schedule\nffff0200 t io_schedule\nffff0300 T do_poll\nffff0400 t jbd2_log_wait_commit\t[jbd2]\n\
        ffff0500 T hrtimer_wakeup.isra.0\nffff0600 D do_nanosleep\nffff0700 T blk_update_request\nffff0800 T _end\n";

    #[test]
    fn the_innermost_function_decides() {
        let reasons = Reasons::from_kallsyms(SYMBOLS);
        assert!(!reasons.is_empty());
        for (stack, blocked, woken) in [
            (&[0xffff_0110, 0xffff_0210][..], Some(WaitReason::Storage), None),
            (&[0xffff_0110, 0xffff_0310], None, None),
            (&[0xffff_0510, 0xffff_0710], None, Some(WaitReason::Timer)),
            (&[0xffff_0710, 0xffff_0510], None, Some(WaitReason::Storage)),
            // A call at the end of a function returns to the beginning of the next function.
            (&[0xffff_0300], Some(WaitReason::Storage), None),
            (&[0xffff_0200], None, None),
            // A data symbol with the name of a known function is ignored.
            (&[0xffff_0610], None, None),
            (&[0, u64::MAX], None, None),
        ] {
            assert_eq!(reasons.of_blocked(stack.iter().copied()), blocked, "{stack:x?}");
            assert_eq!(reasons.of_waker(stack.iter().copied()), woken, "{stack:x?}");
        }
    }

    #[test]
    fn hidden_addresses_are_no_list() {
        let hidden: String =
            SYMBOLS.lines().map(|line| line.replacen(&line[..8], "0000000000000000", 1) + "\n").collect();
        assert!(Reasons::from_kallsyms(&hidden).is_empty());
        assert!(Reasons::from_kallsyms("nonsense\n\n12 T\n").is_empty());
    }

    #[test]
    fn a_function_by_itself_shows_the_reason() {
        for (function, expected) in [
            ("folio_wait_bit_common", Some(WaitReason::Storage)),
            ("rwsem_down_write_slowpath", Some(WaitReason::Lock)),
            ("worker_thread", None),
            ("", None),
        ] {
            assert_eq!(reason_of_function(function), expected, "{function}");
        }
    }

    #[test]
    fn no_function_has_two_reasons() {
        for table in [BLOCKED_IN, WOKEN_BY] {
            let mut names: Vec<&str> = table.iter().flat_map(|(_, names)| names.iter().copied()).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all);
        }
    }
}
