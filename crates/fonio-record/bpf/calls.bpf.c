// Records the file-system calls of selected processes and their descendants.
//
// `entered` runs at the entry of each system call of the machine. If the process is in `followed` and the call is in
// `call_kinds`, it notes the time in `open_calls`. `exited` removes the time when the call returns, reads the arguments
// from the saved registers, and sends the call to user space through the ring buffer `calls`. `forked` follows the children
// of followed processes. `statements.bpf.h` has the programs for SQL statements.
//
// The descriptor identifies the file of a call. Calls on pipes, sockets and terminals are not recorded. The only data read
// are the first 32 bytes of writes to files named `*-wal` and `*-journal`, which show where the transactions of an SQLite
// database end.

#include "common.bpf.h"

// include/uapi/linux/stat.h
enum { S_IFMT = 0170000, S_IFDIR = 0040000, S_IFBLK = 0060000, S_IFREG = 0100000 };

// The following layouts are repeated in src/probes/calls/layout.rs.
enum { HEAD_MAX = 32, PATH_MAX = 256, CALLS_MAX = 512 };
enum { HAS_FILE = 1, HAS_OFFSET = 2, HAS_BYTES = 4, IS_WAL = 8, IS_JOURNAL = 16, MADE_FILE = 32, IS_FOLDER = 64 };

// include/linux/fs.h: this call created the file.
enum { FMODE_CREATED = 1 << 20 };

// The kinds of numbers in `followed`: a process whose calls are recorded, or a thread whose child processes
// are followed.
enum { FOLLOWED = 1, ONLY_CHILDREN = 2 };

// The kind of a call's arguments; 0 for a call that is not recorded.
enum {
	// (file)
	KIND_FILE = 1,
	// (file, buffer, bytes), at the position of the file
	KIND_AT_POSITION = 2,
	// (file, buffer, bytes, offset)
	KIND_AT_OFFSET = 3,
	// (file, vector, parts), at the position of the file
	KIND_PARTS_AT_POSITION = 4,
	// (file, vector, parts, offset)
	KIND_PARTS_AT_OFFSET = 5,
	// (file, offset, bytes)
	KIND_RANGE = 6,
	// (file, mode, offset, bytes)
	KIND_MODE_RANGE = 7,
	// (file, length)
	KIND_LENGTH = 8,
	// (address, bytes)
	KIND_MEMORY = 9,
	// ()
	KIND_ALL = 10,
	// (path)
	KIND_PATH = 11,
	// (folder, path)
	KIND_PATH_AT = 12,
	// (path, length)
	KIND_PATH_LENGTH = 13,
	// Returns a file: (path), (folder, path)
	KIND_OPEN = 14,
	KIND_OPEN_AT = 15,
	// Added to the kind of a call that writes from its buffer.
	KIND_WRITES = 64,
};

struct counters {
	// Calls not recorded because the ring buffer was full or too many calls were open.
	u64 ring_full;
	u64 not_noted;
	// Processes not followed because there were too many.
	u64 not_followed;
	// Calls of 32-bit programs, which are not recorded.
	u64 compat;
};

struct open_call {
	u64 entered_ns;
	s32 number;
	u32 zero;
};

struct call {
	u64 entered_ns;
	u64 exited_ns;
	s64 result;
	u64 offset;
	u64 bytes;
	u64 inode;
	u32 device;
	u32 tid;
	u32 tgid;
	s32 number;
	u32 flags;
	u32 head_bytes;
	// The flags with which the file was opened.
	u32 file_flags;
	// Distinguishes the file from the other files that have the inode number before or after it.
	u32 generation;
	char comm[COMM_MAX];
	u8 head[HEAD_MAX];
};

// A call with a path.
struct path_call {
	struct call call;
	// The inode number of an opened file's folder.
	u64 folder;
	// Includes the final zero; negative for an error.
	s32 path_bytes;
	u32 folder_generation;
	char path[PATH_MAX];
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, CALLS_MAX);
	TYPE(key, u32);
	TYPE(value, u8);
} call_kinds SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct counters);
} counters SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, u8);
} followed SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, struct open_call);
} open_calls SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 8388608);
} calls SEC(".maps");

INLINE struct counters *all_counters(void)
{
	u32 zero = 0;
	return map_lookup(&counters, &zero);
}

INLINE void add(u64 *to)
{
	__sync_fetch_and_add(to, 1);
}

#include "statements.bpf.h"

INLINE int is_compat(struct task_struct *task)
{
	u32 status = 0;
	if (!EXISTS(struct thread_info, status) || !EXISTS(struct pt_regs___x86, orig_ax))
		return 0;
	READ(status, task->thread_info.status);
	return status & TS_COMPAT;
}

SEC("tp_btf/sys_enter")
int entered(u64 *ctx)
{
	u64 ids = current_ids();
	u32 tgid = ids >> 32, tid = (u32)ids;
	u8 *how = map_lookup(&followed, &tgid);
	if (!how || *how != FOLLOWED)
		return 0;
	u32 number = (u32)ctx[1];
	struct counters *count = all_counters();
	if (!count)
		return 0;
	if (is_compat(current_task())) {
		add(&count->compat);
		return 0;
	}
	u8 *kind = map_lookup(&call_kinds, &number);
	if (!kind || !*kind)
		return 0;
	struct open_call call = { .entered_ns = now_ns(), .number = (s32)number };
	if (map_update(&open_calls, &tid, &call, UPDATE_ANY))
		add(&count->not_noted);
	return 0;
}

// The first four arguments of the system call.
struct arguments {
	u64 at[4];
};

INLINE void read_arguments(void *registers, struct arguments *to)
{
	if (EXISTS(struct pt_regs___x86, orig_ax)) {
		struct pt_regs___x86 *x86 = registers;
		to->at[0] = x86->di;
		to->at[1] = x86->si;
		to->at[2] = x86->dx;
		to->at[3] = x86->r10;
	} else if (EXISTS(struct pt_regs___arm64, syscallno)) {
		struct pt_regs___arm64 *arm = registers;
		to->at[0] = arm->orig_x0;
		READ(to->at[1], arm->regs[1]);
		READ(to->at[2], arm->regs[2]);
		READ(to->at[3], arm->regs[3]);
	}
}

// Notes the inode and device. Returns 0 for a file outside file systems, such as a pipe.
INLINE int note_file(struct file *file, struct call *call)
{
	struct inode *inode = 0;
	u16 mode = 0;

	if (!file || READ(inode, file->f_inode) || !inode || READ(mode, inode->i_mode))
		return 0;
	mode &= S_IFMT;
	if (mode != S_IFREG && mode != S_IFDIR && mode != S_IFBLK)
		return 0;
	if (!read_identity(inode, &call->inode, &call->device))
		return 0;
	READ(call->generation, inode->i_generation);
	call->flags |= HAS_FILE;
	if (mode == S_IFDIR)
		call->flags |= IS_FOLDER;
	READ(call->file_flags, file->f_flags);
	return 1;
}

// Returns the flag of the file's kind if its name ends like an SQLite file.
INLINE u32 kind_by_name(struct file *file)
{
	struct dentry *dentry = 0;
	const unsigned char *name = 0;
	u64 hash_len = 0, last_8 = 0;
	u32 last_4 = 0;

	if (READ(dentry, file->f_path.dentry) || !dentry || READ(name, dentry->d_name.name) || !name)
		return 0;
	if (READ(hash_len, dentry->d_name.hash_len))
		return 0;
	u32 length = hash_len >> 32;
	// A file name has at most 255 bytes.
	if (length < 5 || length > 255 || read_kernel(&last_4, sizeof(last_4), name + length - 4))
		return 0;
	if (last_4 == 0x6c61772d) // -wal
		return IS_WAL;
	if (length < 9 || read_kernel(&last_8, sizeof(last_8), name + length - 8))
		return 0;
	return last_8 == 0x6c616e72756f6a2d /* -journal */ ? IS_JOURNAL : 0;
}

INLINE void note_head(struct file *file, struct call *call, u64 buffer, u64 bytes)
{
	u32 kind = kind_by_name(file);
	if (!kind)
		return;
	call->flags |= kind;
	if (bytes >= HEAD_MAX) {
		if (!read_user(call->head, HEAD_MAX, (void *)buffer))
			call->head_bytes = HEAD_MAX;
	} else if (bytes >= 28) {
		// SQLite marks the end of a journal with 28 bytes.
		if (!read_user(call->head, 28, (void *)buffer))
			call->head_bytes = 28;
	} else if (bytes >= 24) {
		// The header of a frame of a WAL has 24 bytes.
		if (!read_user(call->head, 24, (void *)buffer))
			call->head_bytes = 24;
	} else if (bytes >= 12) {
		// SQLite writes the number of records into the journal header with 12 bytes.
		if (!read_user(call->head, 12, (void *)buffer))
			call->head_bytes = 12;
	}
}

struct part {
	u64 buffer;
	u64 bytes;
};

// Completes a call on an open file. Returns 0 if it must not be recorded.
INLINE int note_open_file(struct task_struct *task, struct arguments *arguments, u8 kind, struct call *call)
{
	struct file *file = file_of(task, arguments->at[0]);
	if (!note_file(file, call))
		return 0;
	int writes = kind & KIND_WRITES;
	struct part part = {};
	s64 position = 0;
	switch (kind & ~KIND_WRITES) {
	case KIND_AT_POSITION:
	case KIND_AT_OFFSET:
		part.buffer = arguments->at[1];
		part.bytes = arguments->at[2];
		call->bytes = part.bytes;
		call->flags |= HAS_BYTES;
		break;
	case KIND_PARTS_AT_POSITION:
	case KIND_PARTS_AT_OFFSET:
		if (arguments->at[2])
			read_user(&part, sizeof(part), (void *)arguments->at[1]);
		break;
	case KIND_RANGE:
		call->offset = arguments->at[1];
		call->bytes = arguments->at[2];
		call->flags |= HAS_OFFSET | HAS_BYTES;
		break;
	case KIND_MODE_RANGE:
		call->offset = arguments->at[2];
		call->bytes = arguments->at[3];
		call->flags |= HAS_OFFSET | HAS_BYTES;
		break;
	case KIND_LENGTH:
		call->offset = arguments->at[1];
		call->flags |= HAS_OFFSET;
		break;
	}
	switch (kind & ~KIND_WRITES) {
	case KIND_AT_OFFSET:
	case KIND_PARTS_AT_OFFSET:
		call->offset = arguments->at[3];
		call->flags |= HAS_OFFSET;
		break;
	case KIND_AT_POSITION:
	case KIND_PARTS_AT_POSITION:
		// The call has moved the position.
		if (call->result >= 0 && !READ(position, file->f_pos) && position >= call->result) {
			call->offset = position - call->result;
			call->flags |= HAS_OFFSET;
		}
		break;
	}
	if (writes && call->result > 0)
		note_head(file, call, part.buffer, part.bytes);
	return 1;
}

INLINE void begin_call(struct call *call, struct open_call *open, u64 ids, s64 result)
{
	call->entered_ns = open->entered_ns;
	call->exited_ns = now_ns();
	call->result = result;
	call->offset = 0;
	call->bytes = 0;
	call->inode = 0;
	call->device = 0;
	call->tid = (u32)ids;
	call->tgid = ids >> 32;
	call->number = open->number;
	call->flags = 0;
	call->head_bytes = 0;
	call->file_flags = 0;
	call->generation = 0;
	current_comm(call->comm, sizeof(call->comm));
	__builtin_memset(call->head, 0, sizeof(call->head));
}

// Returns 0 if the ring buffer is full.
INLINE int give_path_call(struct open_call *open, u64 ids, s64 result, u8 kind, struct arguments *arguments)
{
	struct path_call *record = ring_reserve(&calls, sizeof(*record), 0);
	if (!record)
		return 0;
	struct call *call = &record->call;
	struct dentry *dentry = 0, *folder = 0;
	struct inode *inode = 0;
	unsigned long number = 0;
	u32 mode = 0;
	s64 size = 0;

	begin_call(call, open, ids, result);
	record->folder = 0;
	record->folder_generation = 0;
	u64 path = kind == KIND_PATH_AT || kind == KIND_OPEN_AT ? arguments->at[1] : arguments->at[0];
	record->path_bytes = (s32)read_user_text(record->path, sizeof(record->path), (void *)path);
	if (kind == KIND_PATH_LENGTH) {
		call->offset = arguments->at[1];
		call->flags |= HAS_OFFSET;
	}
	if (kind == KIND_OPEN || kind == KIND_OPEN_AT) {
		struct file *file = result >= 0 ? file_of(current_task(), result) : 0;
		if (!note_file(file, call)) {
			ring_discard(record, RINGBUF_NO_WAKEUP);
			return 1;
		}
		if (!READ(dentry, file->f_path.dentry) && !READ(folder, dentry->d_parent) &&
		    !READ(inode, folder->d_inode) && !READ(number, inode->i_ino)) {
			record->folder = number;
			READ(record->folder_generation, inode->i_generation);
		}
		if (!READ(mode, file->f_mode) && mode & FMODE_CREATED)
			call->flags |= MADE_FILE;
		if (!(call->flags & IS_FOLDER) && !READ(inode, file->f_inode) && !READ(size, inode->i_size)) {
			call->offset = size;
			call->flags |= HAS_OFFSET;
		}
	}
	ring_submit(record, RINGBUF_NO_WAKEUP);
	return 1;
}

INLINE int give_call(struct open_call *open, u64 ids, s64 result, u8 kind, struct arguments *arguments)
{
	struct call *call = ring_reserve(&calls, sizeof(*call), 0);
	if (!call)
		return 0;
	begin_call(call, open, ids, result);
	int is_recorded = 1;
	if (kind == KIND_MEMORY) {
		call->bytes = arguments->at[1];
		call->flags |= HAS_BYTES;
	} else if (kind != KIND_ALL) {
		is_recorded = note_open_file(current_task(), arguments, kind, call);
	}
	// User space polls several times a second; a wake-up for each call would cost more than recording the call.
	if (is_recorded)
		ring_submit(call, RINGBUF_NO_WAKEUP);
	else
		ring_discard(call, RINGBUF_NO_WAKEUP);
	return 1;
}

SEC("tp_btf/sys_exit")
int exited(u64 *ctx)
{
	u64 ids = current_ids();
	u32 tid = (u32)ids;
	struct open_call *noted = map_lookup(&open_calls, &tid);
	if (!noted)
		return 0;
	struct open_call open = *noted;
	map_delete(&open_calls, &tid);
	u32 number = (u32)open.number;
	u8 *known = map_lookup(&call_kinds, &number);
	struct counters *count = all_counters();
	if (!known || !count)
		return 0;
	u8 kind = *known;
	struct arguments arguments = {};
	read_arguments((void *)ctx[0], &arguments);
	s64 result = (s64)ctx[1];
	int has_room;
	if (kind >= KIND_PATH && kind <= KIND_OPEN_AT)
		has_room = give_path_call(&open, ids, result, kind, &arguments);
	else
		has_room = give_call(&open, ids, result, kind, &arguments);
	if (!has_room)
		add(&count->ring_full);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int forked(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 from = parent->tgid, to = child->tgid;
	// A thread has the process of its creator.
	if (from == to)
		return 0;
	u8 *known = map_lookup(&followed, &from);
	if (!known || *known != FOLLOWED) {
		u32 starter = parent->pid;
		known = map_lookup(&followed, &starter);
		if (!known || *known != ONLY_CHILDREN)
			return 0;
	}
	u8 how = FOLLOWED;
	struct counters *count = all_counters();
	if (map_update(&followed, &to, &how, UPDATE_ANY) && count)
		add(&count->not_followed);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int ended(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = task->tgid, tid = task->pid;
	if (!map_lookup(&followed, &tgid))
		return 0;
	map_delete(&open_calls, &tid);
	end_statement(tid);
	// The process number can be reused once the last thread has ended.
	struct atomic live = { .counter = 1 };
	struct signal_struct *signal = 0;
	if (!READ(signal, task->signal) && signal)
		READ(live, signal->live);
	if (!live.counter)
		map_delete(&followed, &tgid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
