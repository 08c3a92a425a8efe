// Records every interval in which a thread is blocked uninterruptibly, or waits for such a thread.
//
// `left` runs at each context switch. If the thread that leaves the processor is blocked uninterruptibly, it notes the time
// (open.bpf.h). `woken` runs before each wake-up and removes the time, so only open waits remain noted. The kernel skips
// the program for a wake-up in an interrupt of `woken` itself. Then `left` removes the time when the thread gets a
// processor.
//
// Most threads sleep interruptibly, mostly waiting for work, not for an answer. Such a sleep is recorded only if the thread
// that ended it was blocked for a while during the sleep, and if the sleeper needed that thread:
// - the sleeper had made a request: it had woken that thread shortly before it went to sleep, or later; or
// - the sleeper waited for a lock (a futex that says so); or
// - that thread was the last one of a process, and the sleeper waited for its child to exit.
// A sleep in a call that waits for asynchronous I/O is also recorded; user space finds out what ended it. With libaio or
// io_uring, this can also be a call that waits for an eventfd.
//
// A wait of at least the threshold goes to user space through the ring buffer `long_waits`, with the stacks of the thread
// and its waker. All other waits, and long waits that do not fit into the ring buffer, are counted in `short_waits`. Each
// wait is reported exactly once.
//
// User space raises `settings.period` about once a second. Then the entries of earlier periods are final, and
// user space removes them.

#include "common.bpf.h"

// include/linux/sched.h
enum { TASK_INTERRUPTIBLE = 1, TASK_UNINTERRUPTIBLE = 2, TASK_DEAD = 0x80, TASK_NOLOAD = 0x400 };
enum { PF_IO_WORKER = 0x10, PF_KTHREAD = 0x200000 };
// include/uapi/linux/futex.h
enum { FUTEX_WAIT = 0, FUTEX_LOCK_PI = 6, FUTEX_WAIT_BITSET = 9, FUTEX_LOCK_PI2 = 13, FUTEX_COMMAND = 0x7f };
// The value of a lock with a waiting thread: in glibc, bionic, Rust and Go; and in musl.
enum { LOCK_WAITED_FOR = 2, LOCK_WAITED_FOR_MUSL = 0x80000010 };

// The following layouts are repeated in src/probes/blocked/layout.rs.
enum { ASKERS = 4, ASKED_BEFORE_NS = 1000000000 };
enum { STACK_MAX = 32, WAKER_STACK_MAX = 24 };
enum { NO_CALL = -1, COMPAT_CALL = -2, KERNEL_THREAD = -3, NO_REGISTERS = -4 };
enum { IOWAIT = 1, BEGAN_BEFORE = 2, HAS_FILE = 4, KTHREAD = 8, FOR_ANSWER = 16, FOR_LOCK = 32, ASYNC_IO = 64 };
enum { NO_WAKER = 128, IO_WORKER = 256 };

struct settings {
	u64 threshold_ns;
	// When the recording began.
	u64 began_ns;
	u32 period;
	u32 own_tgid;
	// Whether to sum up the times of each process.
	u32 counts_processes;
	u32 zero;
};

// The lowest bit of a wait's begin time: another processor may have been waking the thread when it left. If
// no wake-up follows, the wake-up preceded the note, and there was no wait.
#define MAYBE_WOKEN 1ULL

struct counters {
	// Waits that could not be noted at the beginning, or not counted, because the maps were full.
	u64 not_noted;
	u64 not_counted;
	// Long waits that were counted as short ones, because the ring buffer was full.
	u64 ring_full;
	// Waits whose end was not seen.
	u64 end_missed;
	u64 long_waits;
	// Long sleeps that did not fit into the ring buffer.
	u64 sleeps_lost;
	// The open waits in the hash table.
	u64 open_beyond;
};

struct short_key {
	u32 period;
	u32 tid;
	s32 call;
	u8 flags;
	// 1 + log2 of the duration in microseconds; 0 for less than one microsecond.
	u8 class;
	u16 zero;
};

struct short_sum {
	u64 count;
	u64 total_ns;
	// The thread's process and name at the first of these waits.
	u32 tgid;
	// The parent of that process.
	u32 parent;
	char comm[COMM_MAX];
	// When the thread started, by the clock that counts since boot.
	u64 started_ns;
};

// The sleeps of a process in one system call.
struct sleep_key {
	u32 tgid;
	s32 call;
	// For a lock: LOCK or PERHAPS_LOCK, see `lock_of`.
	u32 lock;
};

struct long_wait {
	u64 began_ns;
	u64 ended_ns;
	u64 inode;
	u32 device;
	u32 tid;
	u32 tgid;
	u32 waker_tid;
	u32 cpu;
	s32 call;
	u32 flags;
	// In bytes; negative for an error.
	s32 stack_bytes;
	s32 waker_stack_bytes;
	u32 parent;
	// The generation of the file with this inode number; 0 if it has none.
	u32 generation;
	u32 zero;
	// When the thread started, by the clock that counts since boot.
	u64 started_ns;
	char comm[COMM_MAX];
	u64 stack[STACK_MAX];
	u64 waker_stack[WAKER_STACK_MAX];
};

// The known facts about a thread of a program.
struct sleeper {
	// When it last went to sleep interruptibly.
	u64 slept_ns;
	// When its last long wait ended: its own, or one for another thread.
	u64 blocked_until_ns;
	// The last threads that woke it from such a sleep: they may have made a request. If that was a thread of its
	// own process, also the thread that made the request to that thread.
	u64 asked_ns[ASKERS];
	u32 asker[ASKERS];
	// The last one.
	u32 last;
	// The last thread that woke it with an answer.
	u32 answerer;
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct settings);
} settings SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct counters);
} counters SEC(".maps");

// Ended threads are evicted.
struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 32768);
	TYPE(key, u32);
	TYPE(value, struct sleeper);
} sleepers SEC(".maps");

struct started {
	u32 parent;
	u32 zero;
	// By the clock that counts since boot.
	u64 started_ns;
};

// The parent and the start of each recently started process. A process may end before user space looks it up.
struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 32768);
	TYPE(key, u32);
	TYPE(value, struct started);
} started_by SEC(".maps");

// The processor time of the ended threads, by process.
struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 32768);
	TYPE(key, u32);
	TYPE(value, u64);
} ran SEC(".maps");

// The total time of interruptible sleeps of at least the threshold.
struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 16384);
	TYPE(key, struct sleep_key);
	TYPE(value, u64);
} slept SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 65536);
	TYPE(key, struct short_key);
	TYPE(value, struct short_sum);
} short_waits SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 2097152);
} long_waits SEC(".maps");

// Set when the program is loaded: whether the tracepoint sched_switch passes the state of the thread that
// leaves (since Linux 5.18).
const volatile u8 switch_has_state SEC(".rodata") = 1;

INLINE int is_blocked(u32 state)
{
	return (state & TASK_UNINTERRUPTIBLE) && !(state & TASK_NOLOAD);
}

INLINE struct counters *all_counters(void)
{
	u32 zero = 0;
	return map_lookup(&counters, &zero);
}

INLINE void add(u64 *to, u64 number)
{
	__sync_fetch_and_add(to, number);
}

#include "open.bpf.h"

// Adds to a sum in a map.
#define ADD_TO(map, key, number)                                             \
	({                                                                   \
		u64 *sum = map_lookup(map, key), none = 0;                   \
		if (!sum) {                                                  \
			/* Another processor may have added it by now. */    \
			map_update(map, key, &none, UPDATE_NOEXIST);         \
			sum = map_lookup(map, key);                          \
		}                                                            \
		if (sum)                                                     \
			add(sum, number);                                    \
	})

// Adds the processor time of an ended thread to its process.
INLINE void note_end(struct task_struct *task)
{
	u32 zero = 0, tgid = task->tgid;
	struct settings *set = map_lookup(&settings, &zero);
	if (set && set->counts_processes)
		ADD_TO(&ran, &tgid, task->se.sum_exec_runtime);
}

// Whether a processor holds the lock under which threads are woken. If spinlocks have another layout, returns true.
INLINE int is_locked(struct task_struct *task)
{
	u32 lock = 1;
	read_kernel(&lock, sizeof(lock), __builtin_preserve_access_index(&task->pi_lock));
	return lock != 0;
}

// Notes that a thread begins an interruptible sleep.
INLINE void note_sleep(struct task_struct *task)
{
	if (task->flags & PF_KTHREAD)
		return;
	u32 tid = task->pid;
	struct sleeper *known = map_lookup(&sleepers, &tid);
	if (known) {
		known->slept_ns = now_ns();
		return;
	}
	struct sleeper new = { .slept_ns = now_ns() };
	map_update(&sleepers, &tid, &new, UPDATE_ANY);
}

// Reads a field whose size differs between kernels.
#define SIZED(pointer, type, field)                                                                                    \
	({                                                                                                             \
		u64 value = 0;                                                                                         \
		const u8 *at = (const u8 *)(pointer) + __builtin_preserve_field_info(((type *)0)->field, FIELD_OFFSET); \
		read_kernel(&value, __builtin_preserve_field_info(((type *)0)->field, FIELD_BYTES), at);               \
		value;                                                                                                 \
	})

// Whether the thread is still on the processor.
INLINE int is_running(struct task_struct *task)
{
	return EXISTS(struct task_struct, on_cpu) && SIZED(task, struct task_struct, on_cpu);
}

// Whether the scheduler has marked the thread as going to sleep. Since Linux 6.12, such a thread can stay in
// the run queue for a while.
INLINE int is_leaving(struct task_struct *task)
{
	if (!SIZED(task, struct task_struct, on_rq))
		return 1;
	return EXISTS(struct sched_entity, sched_delayed) && task->se.sched_delayed;
}

// Whether the kernel counts the wait as I/O (`BPF_CORE_READ_BITFIELD_PROBED` of libbpf).
INLINE int is_iowait(struct task_struct *task)
{
	const struct task_struct *none = 0;
	u64 bits = 0;
	const u8 *at = (const u8 *)task + __builtin_preserve_field_info(none->in_iowait, FIELD_OFFSET);
	if (read_kernel(&bits, __builtin_preserve_field_info(none->in_iowait, FIELD_BYTES), at))
		return 0;
	bits <<= __builtin_preserve_field_info(none->in_iowait, FIELD_SHIFT_LEFT);
	return bits >> __builtin_preserve_field_info(none->in_iowait, FIELD_SHIFT_RIGHT) & 1;
}

INLINE u32 parent_of(struct task_struct *task)
{
	struct task_struct *parent = task->real_parent;
	return parent ? parent->tgid : 0;
}

struct arguments {
	u64 first;
	u64 second;
	u64 third;
};

// The number and arguments of the thread's system call.
INLINE s32 call_of(struct task_struct *task, struct arguments *arguments)
{
	if (task->flags & PF_KTHREAD)
		return KERNEL_THREAD;
	if (EXISTS(struct pt_regs___x86, orig_ax)) {
		struct pt_regs___x86 *registers = task_registers(task);
		if (!registers)
			return NO_REGISTERS;
		arguments->first = registers->di;
		arguments->second = registers->si;
		arguments->third = registers->dx;
		s64 call = registers->orig_ax;
		if (EXISTS(struct thread_info, status) && call >= 0 &&
		    (task->thread_info.status & TS_COMPAT))
			return COMPAT_CALL;
		return call < 0 ? NO_CALL : (s32)call;
	}
	if (EXISTS(struct pt_regs___arm64, syscallno)) {
		struct pt_regs___arm64 *registers = task_registers(task);
		if (!registers)
			return NO_REGISTERS;
		arguments->first = registers->orig_x0;
		arguments->second = registers->regs[1];
		arguments->third = registers->regs[2];
		return registers->syscallno < 0 ? NO_CALL : registers->syscallno;
	}
	return NO_REGISTERS;
}

// The file of the request that a worker of io_uring carries out; 0 if the request has none, for example with a path.
INLINE struct file *file_of_worker(struct task_struct *task)
{
	struct io_worker *worker = 0;
	struct io_wq_work *work = 0;
	struct file *file = 0;

	if (!EXISTS(struct io_worker, cur_work) || !EXISTS(struct io_kiocb, work))
		return 0;
	if (READ(worker, task->worker_private) || !worker || READ(work, worker->cur_work) || !work)
		return 0;
	struct io_kiocb *request =
		(void *)((u64)work - __builtin_preserve_field_info(((struct io_kiocb *)0)->work, FIELD_OFFSET));
	return READ(file, request->file) ? 0 : file;
}

// Notes the inode and device if the argument is an open file descriptor. User space decides whether the
// argument is a file descriptor.
INLINE void note_file(struct task_struct *task, u64 descriptor, struct long_wait *wait)
{
	struct file *file = wait->flags & IO_WORKER ? file_of_worker(task) : file_of(task, descriptor);
	struct inode *inode = 0;

	if (!file || READ(inode, file->f_inode) || !read_identity(inode, &wait->inode, &wait->device))
		return;
	READ(wait->generation, inode->i_generation);
	wait->flags |= HAS_FILE;
}

INLINE u8 class_of(u64 duration_ns)
{
	u64 us = duration_ns / 1000;
	u8 class = 0;
	if (us >> 32) { class += 32; us >>= 32; }
	if (us >> 16) { class += 16; us >>= 16; }
	if (us >> 8) { class += 8; us >>= 8; }
	if (us >> 4) { class += 4; us >>= 4; }
	if (us >> 2) { class += 2; us >>= 2; }
	return class + (us >> 1 ? 2 : us);
}

// Notes the end of a long wait for the threads that wait for this one.
INLINE void note_blocked(struct task_struct *task, u64 now)
{
	if (task->flags & PF_KTHREAD)
		return;
	u32 tid = task->pid;
	struct sleeper *known = map_lookup(&sleepers, &tid);
	if (known) {
		known->blocked_until_ns = now;
		return;
	}
	struct sleeper new = { .slept_ns = now, .blocked_until_ns = now };
	map_update(&sleepers, &tid, &new, UPDATE_ANY);
}

// Returns whether it fitted into the ring buffer.
INLINE int give(u64 *ctx, struct task_struct *task, u64 began, u64 now, s32 call, u64 descriptor, u32 flags)
{
	struct long_wait *wait = ring_reserve(&long_waits, sizeof(*wait), 0);
	if (!wait)
		return 0;
	u64 ids = current_ids();
	wait->began_ns = began;
	wait->ended_ns = now;
	wait->inode = 0;
	wait->device = 0;
	wait->tid = task->pid;
	wait->tgid = task->tgid;
	wait->waker_tid = flags & NO_WAKER ? 0 : (u32)ids;
	wait->cpu = processor();
	wait->call = call;
	wait->flags = task->flags & PF_IO_WORKER ? flags | IO_WORKER : flags;
	wait->parent = parent_of(task);
	wait->generation = 0;
	wait->zero = 0;
	wait->started_ns = task->start_boottime;
	read_kernel(wait->comm, sizeof(wait->comm), task->comm);
	wait->stack_bytes = task_stack(task, wait->stack, sizeof(wait->stack), 0);
	// The idle thread wakes others only in interrupts.
	wait->waker_stack_bytes = 0;
	if ((u32)ids && !(flags & NO_WAKER))
		wait->waker_stack_bytes = own_stack(ctx, wait->waker_stack, sizeof(wait->waker_stack), 0);
	if (call >= 0)
		note_file(task, descriptor, wait);
	// User space polls several times a second; a wake-up for each wait would cost more than recording the wait.
	ring_submit(wait, RINGBUF_NO_WAKEUP);
	return 1;
}

// System call numbers depend on the architecture.
INLINE int is_futex(s32 call)
{
	return call == (EXISTS(struct pt_regs___x86, orig_ax) ? 202 : 98);
}

INLINE int is_async_io(s32 call)
{
	if (call == 426) // io_uring_enter
		return 1;
	if (EXISTS(struct pt_regs___x86, orig_ax))
		return call == 208 || call == 333; // io_getevents, io_pgetevents
	return call == 4 || call == 292;
}

// Whether the call can wait for an eventfd: read, poll, select, pselect6, ppoll, epoll_wait, epoll_pwait, epoll_pwait2.
INLINE int is_poll(s32 call)
{
	if (call == 441)
		return 1;
	if (EXISTS(struct pt_regs___x86, orig_ax))
		return call == 0 || call == 7 || call == 23 || call == 232 || call == 270 || call == 271 || call == 281;
	return call == 63 || call == 72 || call == 73 || call == 22;
}

// Whether the thread's process has set up libaio, or the thread io_uring.
INLINE int has_async_io(struct task_struct *task)
{
	struct mm_struct *mm = 0;
	void *contexts = 0, *ring = 0;

	if (EXISTS(struct mm_struct, ioctx_table) && !READ(mm, task->mm) && mm && !READ(contexts, mm->ioctx_table) && contexts)
		return 1;
	return EXISTS(struct task_struct, io_uring) && !READ(ring, task->io_uring) && ring;
}

// Whether the call waits for a child to exit: wait4, waitid.
INLINE int is_for_child(s32 call)
{
	if (EXISTS(struct pt_regs___x86, orig_ax))
		return call == 61 || call == 247;
	return call == 260 || call == 95;
}

// Whether the call waits for a lock held by another thread, not for work.
INLINE int is_for_lock(s32 call, const struct arguments *arguments)
{
	if (!is_futex(call))
		return 0;
	u32 command = (u32)arguments->second & FUTEX_COMMAND, value = (u32)arguments->third;
	if (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2)
		return 1;
	return (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET) &&
	       (value == LOCK_WAITED_FOR || value == LOCK_WAITED_FOR_MUSL);
}

// Classes of sleeps that may be waits for a lock. For the sums of sleeps, idle threads must not look like locks: Rust's
// condition variables wait with FUTEX_WAIT_BITSET and any value, musl's with FUTEX_WAIT and the value 2.
enum { LOCK = 1, PERHAPS_LOCK = 2 };

INLINE u32 lock_of(s32 call, const struct arguments *arguments)
{
	u32 command = (u32)arguments->second & FUTEX_COMMAND, value = (u32)arguments->third;
	if (!is_for_lock(call, arguments) || command == FUTEX_WAIT_BITSET)
		return 0;
	return command == FUTEX_WAIT && value == LOCK_WAITED_FOR ? PERHAPS_LOCK : LOCK;
}

INLINE void note_asker(struct sleeper *sleeper, u32 tid, u64 now)
{
	u32 at = 0;
	u64 earliest = ~0ULL;
	for (u32 i = 0; i < ASKERS; i++) {
		if (sleeper->asker[i] == tid) {
			at = i;
			break;
		}
		if (sleeper->asked_ns[i] < earliest) {
			earliest = sleeper->asked_ns[i];
			at = i;
		}
	}
	sleeper->asker[at & (ASKERS - 1)] = tid;
	sleeper->asked_ns[at & (ASKERS - 1)] = now;
	sleeper->last = at;
	if (sleeper->answerer == tid)
		sleeper->answerer = 0;
}

// Whether the thread made a request to another one shortly before or during its sleep.
INLINE int has_asked(u32 tid, u64 slept, const struct sleeper *other)
{
	for (u32 i = 0; i < ASKERS; i++)
		if (other->asker[i] == tid && other->asked_ns[i] + ASKED_BEFORE_NS >= slept)
			return 1;
	return 0;
}

// Handles the end of an interruptible sleep.
INLINE int woken_sleeper(u64 *ctx, struct task_struct *task)
{
	if (task->flags & PF_KTHREAD || (is_running(task) && !is_leaving(task)))
		return 0;
	u32 zero = 0, tid = task->pid, waker_tid = (u32)current_ids(), flags = 0;
	struct sleeper *sleeper = map_lookup(&sleepers, &tid);
	if (!sleeper)
		return 0;
	struct settings *set = map_lookup(&settings, &zero);
	if (!set)
		return 0;
	u64 slept_ns = sleeper->slept_ns, now = now_ns();
	int is_long = now > slept_ns + set->threshold_ns && task->tgid != set->own_tgid;
	if (!is_long) {
		// Most sleeps are short and are ended by the same thread as the previous one.
		if (!waker_tid || waker_tid == sleeper->answerer)
			return 0;
		u32 last = sleeper->last & (ASKERS - 1);
		if (sleeper->asker[last] == waker_tid) {
			sleeper->asked_ns[last] = now;
			return 0;
		}
	}
	struct sleeper *waker = waker_tid && waker_tid != tid ? map_lookup(&sleepers, &waker_tid) : 0;
	struct arguments arguments = {};
	s32 call = NO_CALL;
	// An answer is not a request. Both threads take turns, so the first request decides.
	int is_answer = waker && has_asked(tid, slept_ns, waker);
	if (is_answer) {
		sleeper->answerer = waker_tid;
	} else if (waker_tid) {
		if (waker && (u32)(current_ids() >> 32) == task->tgid && waker->asker[waker->last & (ASKERS - 1)])
			note_asker(sleeper, waker->asker[waker->last & (ASKERS - 1)], now);
		note_asker(sleeper, waker_tid, now);
	}
	if (!is_long)
		return 0;
	call = call_of(task, &arguments);
	if (set->counts_processes) {
		struct sleep_key key = { task->tgid, call, lock_of(call, &arguments) };
		ADD_TO(&slept, &key, now - slept_ns);
	}
	if (waker && waker->blocked_until_ns > slept_ns + set->threshold_ns) {
		if (is_for_lock(call, &arguments))
			flags = FOR_LOCK;
		else if (is_answer || is_for_child(call))
			flags = FOR_ANSWER;
	}
	if (flags)
		sleeper->blocked_until_ns = now;
	else if (is_async_io(call) || (is_poll(call) && has_async_io(task)))
		flags = ASYNC_IO;
	else
		return 0;
	struct counters *count = all_counters();
	if (!count)
		return 0;
	add(&count->long_waits, 1);
	if (!give(ctx, task, slept_ns, now, call, 0, flags))
		add(&count->sleeps_lost, 1);
	return 0;
}

// Reports or counts a finished wait.
INLINE int end(u64 *ctx, struct task_struct *task, u64 began, u64 now, u32 flags)
{
	if (is_iowait(task))
		flags |= IOWAIT;
	if (task->flags & PF_KTHREAD)
		flags |= KTHREAD;
	struct arguments arguments = {};
	s32 call = call_of(task, &arguments);
	u32 zero = 0, tid = task->pid;
	struct settings *set = map_lookup(&settings, &zero);
	struct counters *count = all_counters();
	if (!set || !count)
		return 0;
	u64 duration = now > began ? now - began : 0;
	if (duration >= set->threshold_ns) {
		note_blocked(task, now);
		add(&count->long_waits, 1);
		if (give(ctx, task, began, now, call, arguments.first, flags))
			return 0;
		add(&count->ring_full, 1);
	}
	struct short_key key = {
		.period = set->period,
		.tid = tid,
		.call = call,
		.flags = flags & ~NO_WAKER,
		.class = class_of(duration),
	};
	struct short_sum *sum = map_lookup(&short_waits, &key);
	if (!sum) {
		struct short_sum none = {
			.tgid = task->tgid,
			.parent = parent_of(task),
			.started_ns = task->start_boottime,
		};
		read_kernel(none.comm, sizeof(none.comm), task->comm);
		// Another processor may have added it by now.
		map_update(&short_waits, &key, &none, UPDATE_NOEXIST);
		sum = map_lookup(&short_waits, &key);
	}
	if (!sum) {
		add(&count->not_counted, 1);
		return 0;
	}
	add(&sum->count, 1);
	add(&sum->total_ns, duration);
	return 0;
}

// Ends the wait of a thread that gets a processor although its wake-up was not seen.
INLINE void end_if_missed(u64 *ctx, struct task_struct *next)
{
	u32 zero = 0;
	struct counters *count = all_counters();
	u64 began = count ? take_open(count, next->pid) : 0;
	if (!began)
		return;
	u64 now = now_ns();
	struct settings *set = map_lookup(&settings, &zero);
	if (set && !(began & MAYBE_WOKEN) && next->tgid != set->own_tgid)
		end(ctx, next, began, now, NO_WAKER);
}

SEC("tp_btf/sched_switch")
int left(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	// Idle threads have the number 0 and never wait. On a quiet machine, every second switch is to an idle thread.
	if (next->pid)
		end_if_missed(ctx, next);
	// A thread that was preempted before it slept is still runnable.
	if (ctx[0])
		return 0;
	u32 state = switch_has_state ? (u32)ctx[3] : prev->__state;
	if (state & TASK_INTERRUPTIBLE) {
		note_sleep(prev);
		return 0;
	}
	if (!is_blocked(state)) {
		if (state & TASK_DEAD)
			note_end(prev);
		return 0;
	}
	u32 zero = 0, tid = prev->pid;
	struct settings *set = map_lookup(&settings, &zero);
	if (!set || prev->tgid == set->own_tgid)
		return 0;
	struct counters *count = all_counters();
	if (!count)
		return 0;
	u64 now = now_ns() & ~MAYBE_WOKEN;
	u64 earlier = take_open(count, tid);
	if (earlier && !(earlier & MAYBE_WOKEN))
		add(&count->end_missed, 1);
	if (!note_open(count, tid, now)) {
		add(&count->not_noted, 1);
		return 0;
	}
	// Another processor can wake the thread while it is leaving, and `woken` may have run before the time was noted. Then
	// the lock is still held, or the state has changed. The note is the memory barrier before these two reads.
	if (is_locked(prev)) {
		change_open(tid, now, now | MAYBE_WOKEN);
	} else if (!is_blocked(*(volatile u32 *)&prev->__state)) {
		take_open(count, tid);
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int woken(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 state = task->__state;
	if (state & TASK_INTERRUPTIBLE)
		return woken_sleeper(ctx, task);
	if (!is_blocked(state))
		return 0;
	u32 zero = 0, tid = task->pid, flags = 0;
	struct settings *set = map_lookup(&settings, &zero);
	struct counters *count = all_counters();
	if (!set || !count || task->tgid == set->own_tgid)
		return 0;
	// Read before the note is looked up: a thread that was not running then has left, so its note is visible.
	int was_running = is_running(task);
	u64 now = now_ns(), began = take_open(count, tid);
	if (began) {
		// A thread that did not leave the processor was not blocked: the note is stale.
		if (is_running(task) && !is_leaving(task)) {
			if (!(began & MAYBE_WOKEN))
				add(&count->end_missed, 1);
			return 0;
		}
	} else {
		// It did not leave the processor, it was preempted before it slept and is runnable, or it left before the
		// program was attached.
		if (was_running || !is_leaving(task) || count->not_noted)
			return 0;
		began = set->began_ns;
		flags |= BEGAN_BEFORE;
	}
	return end(ctx, task, began, now, flags);
}

SEC("tp_btf/sched_process_fork")
int forked(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 pid = child->tgid, tid = child->pid;
	struct counters *count = all_counters();
	// Facts about an earlier thread with this number.
	u64 earlier = count ? take_open(count, tid) : 0;
	if (earlier && !(earlier & MAYBE_WOKEN))
		add(&count->end_missed, 1);
	map_delete(&sleepers, &tid);
	if (pid == tid) {
		struct started started = { .parent = parent->tgid, .started_ns = child->start_boottime };
		map_update(&started_by, &pid, &started, UPDATE_ANY);
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
