// Stores notes on uncompleted bios.
//
// The address of a bio selects two slots for its note. If both are in use, the new note replaces the older one. That one
// belongs to a merged bio, whose note nobody takes, or its request is reported without a note. A hash table would cost
// more, several times per request.
//
// A slot must be claimed before it is changed. If another processor has claimed it, the change is skipped.

enum { PAIRS = 4096, PAIRS_LOG2 = 12 };
enum { NO_BIO = 0, CLAIMED = 1 };

struct slot {
	// The address of the bio, or one of the two above.
	u64 bio;
	struct note note;
};

struct pair {
	struct slot first, second;
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, PAIRS);
	TYPE(key, u32);
	TYPE(value, struct pair);
} notes SEC(".maps");

INLINE struct pair *pair_of(u64 bio)
{
	// The kernel forbids calculation with addresses; a copy of the lower half is a number.
	u32 low;
	asm("%0 = %1" : "=w"(low) : "w"((u32)bio));
	// Addresses are periodic; multiplying by the golden ratio spreads them evenly.
	u32 at = low * 0x9e3779b1U >> (32 - PAIRS_LOG2);
	return map_lookup(&notes, &at);
}

// Returns the slot with the note of a bio, or 0.
INLINE struct slot *slot_of(u64 bio)
{
	struct pair *pair = bio > CLAIMED ? pair_of(bio) : 0;
	if (!pair)
		return 0;
	if (pair->first.bio == bio)
		return &pair->first;
	return pair->second.bio == bio ? &pair->second : 0;
}

INLINE int claim(struct slot *slot, u64 seen)
{
	return seen != CLAIMED && __sync_val_compare_and_swap(&slot->bio, seen, CLAIMED) == seen;
}

// Ends a claim. This is a memory barrier for earlier reads and writes. Using its result keeps the compiler
// from dropping the barrier.
INLINE int give_back(struct slot *slot, u64 bio)
{
	return __sync_lock_test_and_set(&slot->bio, bio) == CLAIMED;
}

// Stores a note on a bio. Returns whether this succeeded.
INLINE int keep_note(u64 bio, const struct note *note)
{
	struct pair *pair = pair_of(bio);
	if (!pair)
		return 0;
	u64 first = pair->first.bio, second = pair->second.bio, seen = first;
	struct slot *slot = &pair->first;
	int second_is_older = pair->second.note.queued_ns < pair->first.note.queued_ns;
	if (first != bio && (second == bio || (first != NO_BIO && (second == NO_BIO || second_is_older)))) {
		slot = &pair->second;
		seen = second;
	}
	if (!claim(slot, seen))
		return 0;
	slot->note = *note;
	return give_back(slot, bio);
}

// Removes the note of a bio. Returns whether there was one.
INLINE int take_note(u64 bio, struct note *to)
{
	struct slot *slot = slot_of(bio);
	if (!slot || !claim(slot, bio))
		return 0;
	*to = slot->note;
	return give_back(slot, NO_BIO);
}
