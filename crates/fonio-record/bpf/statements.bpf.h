// Records which SQL statement each thread steps, with probes at the entry and the return of `sqlite3_step`.
//
// A nested step, as in full-text search, is part of the outer step. Consecutive steps of one thread with the same text and
// connection form one row of `struct statement`. The row goes to user space when the thread steps something else, or ends.
// The text is read from the statement itself: the probe's cookie has the offsets that `sqlite3_sql` and `sqlite3_db_handle`
// of this copy of SQLite use. A text goes to user space once, as `struct statement_text`.
//
// Included by calls.bpf.c, which selects the processes. The layout is repeated in src/probes/statements/layout.rs.

enum { SQL_MAX = 512, SQL_WORDS = SQL_MAX / 8 };

struct statement {
	u64 text; // its hash; 0 for a text that could not be read
	u64 connection; // its address; 0 if it could not be read
	u64 entered_ns;
	u64 exited_ns;
	u64 steps;
	u64 stepping_ns;
	u32 tid;
	u32 tgid;
};

struct statement_text {
	u64 hash;
	u32 bytes; // with the zero at the end, if there is one
	u32 zero;
	char text[SQL_MAX];
};

// The statement that a thread steps.
struct stepping {
	struct statement last;
	// Stack pointer and time at the beginning of the running step; 0 between steps.
	u64 stack;
	u64 began_ns;
	u64 text[SQL_WORDS];
};

struct statement_counters {
	// Rows and texts for which the ring buffer was full.
	u64 ring_full;
	u64 texts_lost;
	// Steps of threads that did not fit into `threads_stepping`.
	u64 not_noted;
};

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 4096);
	TYPE(key, u32);
	TYPE(value, struct stepping);
} threads_stepping SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct stepping);
} no_steps SEC(".maps");

// The hashes of the texts that user space has.
struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 65536);
	TYPE(key, u64);
	TYPE(value, u8);
} texts_given SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct statement_counters);
} statement_counters SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 4194304);
} statements SEC(".maps");

INLINE struct statement_counters *all_statement_counters(void)
{
	u32 zero = 0;
	return map_lookup(&statement_counters, &zero);
}

// Sends the row of a thread to user space.
INLINE void give_statement(struct statement *last)
{
	struct statement *record = ring_reserve(&statements, sizeof(*record), 0);
	if (!record) {
		struct statement_counters *count = all_statement_counters();
		if (count)
			add(&count->ring_full);
		return;
	}
	*record = *last;
	ring_submit(record, RINGBUF_NO_WAKEUP);
}

// Handles the end of a thread.
INLINE void end_statement(u32 tid)
{
	struct stepping *thread = map_lookup(&threads_stepping, &tid);
	if (!thread)
		return;
	if (thread->last.steps)
		give_statement(&thread->last);
	map_delete(&threads_stepping, &tid);
}

// Reads the text of a statement, and returns its hash; 0 if it is not readable.
INLINE u64 read_sql(struct stepping *thread, u64 handle, u32 at, u32 *bytes)
{
	u64 sql = 0;
	*bytes = 0;
	if (!at || read_user(&sql, sizeof(sql), (void *)(handle + at)) || !sql)
		return 0;
	long length = read_user_text(thread->text, SQL_MAX, (void *)sql);
	if (length <= 1 || length > SQL_MAX)
		return 0;
	*bytes = (u32)length;
	// Mixes words like FNV-1a mixes bytes, with a rotation that moves high bits down. Remains of an earlier,
	// longer text in the last word are ignored.
	u64 hash = 0xcbf29ce484222325ULL ^ (u64)length;
	for (u32 word = 0; word < SQL_WORDS; word++) {
		if (word * 8 >= (u32)length)
			break;
		u64 part = thread->text[word];
		u32 left = (u32)length - word * 8;
		if (left < 8)
			part &= (1ULL << (left * 8)) - 1;
		hash = (hash ^ part) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 29;
	}
	return hash ? hash : 1;
}

// Sends a text to user space, unless already sent.
INLINE void give_text(struct stepping *thread, u64 hash, u32 bytes)
{
	if (!hash || map_lookup(&texts_given, &hash))
		return;
	struct statement_counters *count = all_statement_counters();
	struct statement_text *record = ring_reserve(&statements, sizeof(*record), 0);
	if (!record) {
		if (count)
			add(&count->texts_lost);
		return;
	}
	record->hash = hash;
	record->bytes = bytes;
	record->zero = 0;
	__builtin_memcpy(record->text, thread->text, SQL_MAX);
	ring_submit(record, RINGBUF_NO_WAKEUP);
	u8 is_given = 1;
	// If the map is full, the text is sent again with the next row.
	map_update(&texts_given, &hash, &is_given, UPDATE_ANY);
}

INLINE int step_began(u64 handle, u64 stack, u64 cookie)
{
	u64 ids = current_ids();
	u32 tgid = ids >> 32, tid = (u32)ids;
	u8 *how = map_lookup(&followed, &tgid);
	if (!how || *how != FOLLOWED)
		return 0;
	struct stepping *thread = map_lookup(&threads_stepping, &tid);
	if (!thread) {
		u32 zero = 0;
		struct stepping *empty = map_lookup(&no_steps, &zero);
		if (!empty)
			return 0;
		map_update(&threads_stepping, &tid, empty, UPDATE_NOEXIST);
		thread = map_lookup(&threads_stepping, &tid);
	}
	if (!thread) {
		struct statement_counters *count = all_statement_counters();
		if (count)
			add(&count->not_noted);
		return 0;
	}
	// The stack grows down, so a deeper step is nested in the running one. Otherwise the end of the running step
	// was not seen, for example because of a longjmp.
	if (thread->stack && stack < thread->stack)
		return 0;
	u32 bytes = 0;
	u64 hash = read_sql(thread, handle, (u32)cookie, &bytes);
	u64 connection = 0;
	u32 at = cookie >> 32;
	if (at && read_user(&connection, sizeof(connection), (void *)(handle + at - 1)))
		connection = 0;
	u64 now = now_ns();
	if (!thread->last.steps || hash != thread->last.text || connection != thread->last.connection) {
		if (thread->last.steps)
			give_statement(&thread->last);
		give_text(thread, hash, bytes);
		thread->last.text = hash;
		thread->last.connection = connection;
		thread->last.entered_ns = now;
		thread->last.exited_ns = 0;
		thread->last.steps = 0;
		thread->last.stepping_ns = 0;
		thread->last.tid = tid;
		thread->last.tgid = tgid;
	}
	thread->last.steps++;
	thread->stack = stack;
	thread->began_ns = now;
	return 0;
}

INLINE int step_ended(u64 stack)
{
	u32 tid = (u32)current_ids();
	struct stepping *thread = map_lookup(&threads_stepping, &tid);
	// At the return, the stack pointer is the same as at the entry, or one address higher.
	if (!thread || !thread->stack || stack < thread->stack)
		return 0;
	u64 now = now_ns();
	thread->last.exited_ns = now;
	thread->last.stepping_ns += now - thread->began_ns;
	thread->stack = 0;
	return 0;
}

SEC("uprobe")
int stepped(void *ctx)
{
	if (EXISTS(struct pt_regs___x86, orig_ax)) {
		struct pt_regs___x86 *x86 = ctx;
		return step_began(x86->di, x86->sp, attach_cookie(ctx));
	}
	if (EXISTS(struct pt_regs___arm64, syscallno)) {
		struct pt_regs___arm64 *arm = ctx;
		return step_began(arm->regs[0], arm->sp, attach_cookie(ctx));
	}
	return 0;
}

SEC("uretprobe")
int returned(void *ctx)
{
	if (EXISTS(struct pt_regs___x86, orig_ax)) {
		struct pt_regs___x86 *x86 = ctx;
		return step_ended(x86->sp);
	}
	if (EXISTS(struct pt_regs___arm64, syscallno)) {
		struct pt_regs___arm64 *arm = ctx;
		return step_ended(arm->sp);
	}
	return 0;
}
