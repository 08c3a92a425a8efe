// The waits that have not ended: when each of them began.
//
// A thread's wait is in the slot to which its number leads. If another thread's wait is there, it is in a hash table. The
// slots cost a tenth of what the table does, and two open waits rarely lead to one slot.
//
// A thread owns its slot from the exchange that puts its number there until its time has been taken out. Whoever takes the
// time, which only one processor can, gives the slot back. `left` notes, `left` and `woken` take; the events of one thread
// follow each other but for the one case that `left` describes.

enum { SLOTS = 16384 };

// The layout is repeated in src/blocked/layout.rs.
struct slot {
	u32 tid;
	u32 zero;
	// When the wait began; 0 if there is none.
	u64 began;
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, SLOTS);
	TYPE(key, u32);
	TYPE(value, struct slot);
} open_slots SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 32768);
	TYPE(key, u32);
	TYPE(value, u64);
} open_beyond SEC(".maps");

INLINE struct slot *slot_of(u32 tid)
{
	u32 at = tid & (SLOTS - 1);
	return map_lookup(&open_slots, &at);
}

// Takes out when the wait of a thread began. Returns 0 if none is noted.
INLINE u64 take_open(struct counters *count, u32 tid)
{
	struct slot *slot = slot_of(tid);
	if (slot && slot->tid == tid) {
		u64 began = __sync_lock_test_and_set(&slot->began, 0);
		if (began)
			slot->tid = 0;
		return began;
	}
	if (!count->open_beyond)
		return 0;
	u64 *noted = map_lookup(&open_beyond, &tid);
	if (!noted)
		return 0;
	u64 began = *noted;
	if (!map_delete(&open_beyond, &tid))
		add(&count->open_beyond, -1);
	return began;
}

// Notes when the wait of a thread began. Returns whether there was room. All earlier and later reads and writes keep their
// side of it.
INLINE int note_open(struct counters *count, u32 tid, u64 began)
{
	struct slot *slot = slot_of(tid);
	// The results of the last operations are used so that they are not compiled to ones without a memory barrier.
	if (slot && !__sync_val_compare_and_swap(&slot->tid, 0, tid))
		return __sync_lock_test_and_set(&slot->began, began) != ~0ULL;
	add(&count->open_beyond, 1);
	if (!map_update(&open_beyond, &tid, &began, UPDATE_ANY))
		return __sync_fetch_and_add(&count->open_beyond, 0) != ~0ULL;
	add(&count->open_beyond, -1);
	return 0;
}

// Changes when the wait of a thread began, unless it has ended.
INLINE void change_open(u32 tid, u64 from, u64 to)
{
	struct slot *slot = slot_of(tid);
	if (slot && slot->tid == tid)
		__sync_val_compare_and_swap(&slot->began, from, to);
	else
		map_update(&open_beyond, &tid, &to, UPDATE_EXIST);
}
