// Stores when each open wait began.
//
// The thread number selects the slot of a thread's wait. If another thread uses the slot, the wait goes to a
// hash table. Slots cost a tenth of the table, and two open waits rarely share a slot.
//
// A thread owns its slot from the exchange that stores its number until its time is removed. Only one processor can remove
// the time; it then frees the slot. `left` notes times, `left` and `woken` remove them. The events of one thread are
// sequential, except in the case described in `left`.

enum { SLOTS = 16384 };

// The layout is repeated in src/probes/blocked/layout.rs.
struct slot {
	u32 tid;
	u32 zero;
	// When the wait began; 0 if the slot is free.
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

// Removes and returns the begin time of a thread's wait; 0 if none is noted.
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

// Notes when the wait of a thread began. Returns whether there was room. This is a memory barrier for all
// earlier and later reads and writes.
INLINE int note_open(struct counters *count, u32 tid, u64 began)
{
	struct slot *slot = slot_of(tid);
	// Using the results of the last operations keeps the compiler from dropping their memory barriers.
	if (slot && !__sync_val_compare_and_swap(&slot->tid, 0, tid))
		return __sync_lock_test_and_set(&slot->began, began) != ~0ULL;
	add(&count->open_beyond, 1);
	if (!map_update(&open_beyond, &tid, &began, UPDATE_ANY))
		return __sync_fetch_and_add(&count->open_beyond, 0) != ~0ULL;
	add(&count->open_beyond, -1);
	return 0;
}

// Changes the begin time of a thread's wait, unless it has ended.
INLINE void change_open(u32 tid, u64 from, u64 to)
{
	struct slot *slot = slot_of(tid);
	if (slot && slot->tid == tid)
		__sync_val_compare_and_swap(&slot->began, from, to);
	else
		map_update(&open_beyond, &tid, &to, UPDATE_EXIST);
}
