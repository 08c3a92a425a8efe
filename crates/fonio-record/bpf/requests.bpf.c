// Reports each completed block request to user space, with its times, its file, and the control group that caused it. It is
// for a permanent watch, so a request costs two short programs, compared with five events for tracing.
//
// `queued` notes when a bio was queued, by which thread, and for which file. `split` copies the note to a split-off part of
// a bio. `issued` adds the time at which the driver got the request. `completed` removes the note of the request's first
// bio and reports everything. The note of a merged bio is never removed, but is eventually replaced.
//
// A thread can write data that others changed: a kernel thread in write-back, or a program that syncs a file or renames a
// file over another one. For these writes, `dirtied` notes the last program that changed a file, and `changing` the last one
// that changed the metadata of a journaling file system.
//
// A flush request of the kernel has no bio. It uses the note of the first flush that was queued for its
// device since the last flush completed.

#include "common.bpf.h"
#include "file_of_bio.bpf.h"

// include/linux/blk_types.h: the operation of a bio or request, and the flag for a flush before it.
enum { OP_MASK = 0xff, OP_WRITE = 1, OP_DRIVER_FIRST = 34, PREFLUSH = 1 << 18 };
// include/linux/sched.h
enum { PF_KTHREAD = 0x200000 };
enum { FORMAT_MASK = 0170000, BLOCK_DEVICE = 0060000 };
// include/uapi/linux/bpf.h
enum { RINGBUF_FORCE_WAKEUP = 2, RINGBUF_AVAILABLE = 0 };

// The following layouts are repeated in src/probes/requests/layout.rs.
enum { RING_BYTES = 524288 };
enum { OF_JOURNAL = 1, OF_METADATA = 2, BY_KERNEL = 4, UNNOTED = 8 };

static u64 (*const current_cgroup)(void) = (void *)80;
static u64 (*const ring_query)(void *ring, u64 what) = (void *)134;

struct request_queue {
	struct gendisk *disk;
} KERNEL;
struct request {
	struct request_queue *q;
	u32 cmd_flags;
	u32 __data_len;
	u64 __sector;
	struct bio *bio;
	u64 start_time_ns;
} KERNEL;

struct cause {
	u64 cgroup;
	// When the thread started, by the clock that counts since boot.
	u64 started_ns;
	u32 tid;
	u32 tgid;
	char comm[COMM_MAX];
};

// The last program that changed something.
struct changer {
	struct cause cause;
	// The number of programs that the thread had executed.
	u64 executed;
};

struct note {
	u64 queued_ns;
	u64 issued_ns;
	u64 inode;
	u32 fs;
	// The thread that queued it.
	u32 tid;
	u32 flags;
	// The generation of the file with this inode number; 0 if it has none.
	u32 generation;
	// The program that caused it.
	struct cause cause;
};

struct completed {
	struct note note;
	u64 completed_ns;
	u64 sector;
	u32 device;
	u32 bytes;
	u32 op_flags;
	s32 error;
	u32 cpu;
	u32 zero;
};

struct file_key {
	u64 inode;
	u32 fs;
	u32 generation;
};

struct counters {
	// Requests that did not fit into the ring buffer.
	u64 lost;
	u64 given;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 64);
	TYPE(key, u32);
	TYPE(value, struct note);
} flushes SEC(".maps");

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 4096);
	TYPE(key, struct file_key);
	TYPE(value, struct changer);
} dirtiers SEC(".maps");

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 64);
	TYPE(key, u32);
	TYPE(value, struct changer);
} changers SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct counters);
} counters SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, RING_BYTES);
} completions SEC(".maps");

#include "notes.bpf.h"

// Arguments of a tracepoint and their targets are read without a call: the kernel knows their types.

INLINE int is_kernel_thread(void)
{
	return (typed_current_task()->flags & PF_KTHREAD) != 0;
}

INLINE void name_current(struct cause *cause)
{
	u64 ids = current_ids();
	cause->cgroup = current_cgroup();
	cause->started_ns = typed_current_task()->start_boottime;
	cause->tid = (u32)ids;
	cause->tgid = ids >> 32;
	current_comm(cause->comm, sizeof(cause->comm));
}

// Whether the current thread, with its present program, is this one. Another thread can get the same number.
INLINE int is_current(const struct changer *changer)
{
	struct task_struct *task = typed_current_task();
	return changer->cause.tid == (u32)current_ids() && changer->cause.started_ns == task->start_boottime &&
	       changer->executed == task->self_exec_id;
}

INLINE void name_changer(struct changer *changer)
{
	name_current(&changer->cause);
	changer->executed = typed_current_task()->self_exec_id;
}

INLINE u32 number_of(struct gendisk *disk)
{
	return disk ? (u32)disk->major << 20 | ((u32)disk->first_minor & 0xfffff) : 0;
}

INLINE u32 disk_of(struct bio *bio)
{
	struct block_device *device = bio->bi_bdev;
	return device ? number_of(device->bd_disk) : 0;
}

// Whether the current thread writes the journal of ext4.
INLINE int is_journal(const char *comm)
{
	return comm[0] == 'j' && comm[1] == 'b' && comm[2] == 'd' && comm[3] == '2' && comm[4] == '/';
}

SEC("tp_btf/block_bio_queue")
int queued(u64 *ctx)
{
	struct bio *bio = (void *)ctx[0];
	u32 opf = bio->bi_opf, size = bio->bi_iter.bi_size;
	struct note note = { .queued_ns = now_ns() };

	struct inode *inode = inode_of(bio);
	u16 mode = 0;
	if (inode && !READ(mode, inode->i_mode)) {
		if ((mode & FORMAT_MASK) == BLOCK_DEVICE)
			note.flags |= OF_METADATA;
		else if (read_identity(inode, &note.inode, &note.fs)) {
			READ(note.generation, inode->i_generation);
			if (is_own_file(inode, note.inode))
				note.flags |= OF_METADATA;
		}
	}
	name_current(&note.cause);
	note.tid = note.cause.tid;
	struct changer *changer = 0;
	if (is_kernel_thread()) {
		note.flags |= BY_KERNEL;
		if (is_journal(note.cause.comm))
			note.flags |= OF_JOURNAL;
		if (!note.inode && note.flags & (OF_JOURNAL | OF_METADATA)) {
			u32 fs = partition_of(bio);
			changer = map_lookup(&changers, &fs);
		}
	}
	if (note.inode && opf & TO_DEVICE) {
		struct file_key file = { .inode = note.inode, .fs = note.fs, .generation = note.generation };
		changer = map_lookup(&dirtiers, &file);
	}
	if (changer)
		note.cause = changer->cause;
	if (opf & PREFLUSH) {
		u32 disk = disk_of(bio);
		map_update(&flushes, &disk, &note, UPDATE_NOEXIST);
	}
	if (size)
		keep_note((u64)bio, &note);
	return 0;
}

// The split-off part goes first, and its owner is the rest (`bio_chain`).
SEC("tp_btf/block_split")
int split(u64 *ctx)
{
	struct bio *bio = (void *)ctx[0];
	struct slot *slot = slot_of((u64)bio->bi_private);
	if (!slot)
		return 0;
	struct note note = slot->note;
	keep_note((u64)bio, &note);
	return 0;
}

INLINE u32 disk_of_queue(struct request *request)
{
	if (!EXISTS(struct request_queue, disk))
		return 0;
	struct request_queue *queue = request->q;
	return queue ? number_of(queue->disk) : 0;
}

SEC("tp_btf/block_rq_issue")
int issued(u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	struct bio *bio = request->bio;
	struct note *note = 0;
	if (bio) {
		struct slot *slot = slot_of((u64)bio);
		if (slot)
			note = &slot->note;
	} else {
		u32 disk = disk_of_queue(request);
		note = map_lookup(&flushes, &disk);
	}
	if (note && !note->issued_ns)
		note->issued_ns = now_ns();
	return 0;
}

SEC("tp_btf/block_rq_complete")
int completed(u64 *ctx)
{
	struct request *request = (void *)ctx[0];
	u32 done = (u32)ctx[2], zero = 0;
	u32 op_flags = request->cmd_flags, op = op_flags & OP_MASK, bytes = request->__data_len;
	// A part; the rest follows.
	if (done < bytes)
		return 0;
	struct bio *bio = request->bio;
	// A pure flush request waits for the kernel's own flush request, which is reported instead.
	if (op >= OP_DRIVER_FIRST || (!bytes && op == OP_WRITE))
		return 0;
	struct counters *count = map_lookup(&counters, &zero);
	if (!count)
		return 0;
	u32 disk = bio ? disk_of(bio) : disk_of_queue(request);
	struct completed *given = ring_reserve(&completions, sizeof(*given), 0);
	if (!given) {
		__sync_fetch_and_add(&count->lost, 1);
	} else {
		struct note *flush = bio ? 0 : map_lookup(&flushes, &disk);
		if (flush) {
			given->note = *flush;
		} else if (!bio || !take_note((u64)bio, &given->note)) {
			struct note none = { .queued_ns = request->start_time_ns, .flags = UNNOTED };
			given->note = none;
		}
		given->completed_ns = now_ns();
		given->sector = request->__sector;
		given->device = disk;
		given->bytes = bytes;
		given->op_flags = op_flags;
		given->error = (s32)ctx[1];
		given->cpu = processor();
		given->zero = 0;
		// User space polls about once a second, or earlier if the buffer fills up.
		u64 full = ring_query(&completions, RINGBUF_AVAILABLE);
		ring_submit(given, full > RING_BYTES / 2 ? RINGBUF_FORCE_WAKEUP : RINGBUF_NO_WAKEUP);
		__sync_fetch_and_add(&count->given, 1);
	}
	if (!bio)
		map_delete(&flushes, &disk);
	return 0;
}

// Before Linux 5.18, the tracepoint is called `writeback_dirty_page`.
SEC("tp_btf/writeback_dirty_folio")
int dirtied(u64 *ctx)
{
	struct address_space *mapping = (void *)ctx[1];
	if (!mapping || is_kernel_thread())
		return 0;
	struct inode *inode = mapping->host;
	struct file_key file = {};
	if (!read_identity(inode, &file.inode, &file.fs))
		return 0;
	file.generation = inode->i_generation;
	struct changer *known = map_lookup(&dirtiers, &file);
	if (known && is_current(known))
		return 0;
	struct changer changer = {};
	name_changer(&changer);
	map_update(&dirtiers, &file, &changer, UPDATE_ANY);
	return 0;
}

SEC("tp_btf/jbd2_handle_start")
int changing(u64 *ctx)
{
	u32 fs = (u32)ctx[0];
	if (is_kernel_thread())
		return 0;
	struct changer *known = map_lookup(&changers, &fs);
	if (known && is_current(known))
		return 0;
	struct changer changer = {};
	name_changer(&changer);
	map_update(&changers, &fs, &changer, UPDATE_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
