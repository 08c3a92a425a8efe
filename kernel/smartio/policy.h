/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SmartIO's policy: which waiting request goes to the device next, and when none does.
 *
 * The policy knows neither the kernel nor a clock: the caller gives every instant, in nanoseconds, and instants never go
 * backwards. It allocates nothing and takes no lock; the caller serialises all calls for one `struct sio_policy`.
 * `smartio.c` calls it in the kernel, `test/drive.c` in user space.
 *
 * A request's life: sio_insert, then either sio_remove (it was merged into another one), or sio_dispatch returns it; then
 * sio_complete, or sio_withdraw (the driver gave it back, or it ends without a completion).
 *
 * The policy follows Nguyen et al. 2015, sections 5 and 6: 17 queues, slices, the quantum of algorithm 6.2, reads before
 * writes within a class, and four limits of requests in flight. It adds six things, each of which can be switched off
 * (`sio_settings_study`):
 *
 * - It holds writes back while a read is in flight, and for a moment after one has completed (anticipation). A program that
 *   reads has one read at a time; without this, the device has no read at the only moment at which a write can go.
 * - Reads may lose a given share of their time to writes. The policy measures this loss: the time for which writes were in
 *   flight while a read waited, and the time by which a read was slower than reads without writes.
 * - A write that a program waits for (sync) goes before one of write-back, and has a shorter bound.
 * - On a device that takes few requests, few readers at a time go on, and the others wait (turns). No read waits for twice
 *   `turn_wait_ns` while a younger read of its queue goes; on a slow device, for twice the time of `turn_reads` reads.
 * - While a program reads with short pauses, write-back goes in pieces that fit into the pauses.
 * - The levels of a class have shares of the device instead of slices.
 *
 * Each write has a bound. When a write has been the oldest one of its class for that time, it goes before reads.
 */
#ifndef SMARTIO_POLICY_H
#define SMARTIO_POLICY_H

#include "shim.h"

/* 8 queues of the real-time class, 8 of the best-effort class, 1 of the idle class (section 3.1). */
#define SIO_LEVELS 8
#define SIO_QUEUES 17
#define SIO_NEVER (~0ULL)

enum sio_class { SIO_RT, SIO_BE, SIO_IDLE, SIO_CLASSES };

/* The kinds of requests that have a limit each (section 4.5). */
enum sio_kind { SIO_SEQ_READ, SIO_RAND_READ, SIO_SEQ_WRITE, SIO_RAND_WRITE, SIO_KINDS };

/*
 * The lists of a queue: reads of readers whose turn it is, all other reads, and writes. A program waits for sync writes;
 * nobody waits for async ones.
 */
enum sio_list { SIO_TURN_READS, SIO_READS, SIO_SYNC_WRITES, SIO_ASYNC_WRITES, SIO_LISTS };

enum sio_state { SIO_NEW, SIO_QUEUED, SIO_ISSUED };

/* The number of recent ends of requests that are kept for each direction: this many interleaved streams count as sequential
 * (our choice; the experiments of the study have up to four in each direction). */
#define SIO_STREAMS 8
/* The maximum number of readers that have a turn at the same time. A device that takes this many requests needs no turns. */
#define SIO_READERS_MAX 4
/* On a slow device, a read can wait for the turns of others for this many times `turn_wait_ns`. */
#define SIO_TURN_WAITS 4
/* The number of records of processes that read; a process has the record of its number modulo this. */
#define SIO_PROCESSES 64
/* Sizes of reads whose service times are learnt separately: up to 4 KiB, 16, 64, 256 KiB, and larger ones. */
#define SIO_SIZES 5
/* Numbers of reads in flight at which service times are learnt separately: 1, 2, 4, 8, and from 16 on. */
#define SIO_CROWDS 5
/* Sizes of writes whose service times are learnt separately: from 4 KiB, 8, 16, … on, up to 1 MiB. */
#define SIO_WRITE_SIZES 9
/* The size from which on write-back is not split, in bytes. */
#define SIO_PIECE_MAX (1U << 20)
/* The time of a piece can be halved this many times, and doubled as often as needed for the largest size. */
#define SIO_PIECE_SHIFT 2
#define SIO_PIECE_SHIFT_MAX (SIO_PIECE_SHIFT + 6)

struct sio_link {
	struct sio_link *prev, *next;
};

/* A request, as the policy sees it. The caller sets the first group before sio_insert. */
struct sio_item {
	u64 sector;
	u32 bytes;
	u8 is_write;
	u8 is_sync;	/* a program waits for it; all reads are */
	u8 is_discard;	/* a write without data, such as a discard: its time does not follow from its size */
	u8 class;	/* enum sio_class */
	u8 level;	/* 0, the highest, to 7; ignored in the idle class */
	u32 process;	/* the thread that sent it; its own writes need not wait for its next read */

	struct sio_link link;
	u64 order;	/* of insertion */
	u64 came_ns;
	u64 issued_ns;
	/* The device's total time with writes at the moment when the request came, and when it was issued. */
	u64 writing_came_ns, writing_issued_ns;
	u8 state, kind, list, queue;
	u8 is_after_write;	/* the first read that was issued after a write */
	u8 reader;	/* the reader to whose turn the read belongs: 1 to SIO_READERS_MAX; 0: none */
	u8 crowd;	/* at least 1 << crowd reads were in flight when it was issued */
	u8 is_switch;	/* a read that was issued after reads of several other processes */
};

/* The settings. All can be changed at any time. */
struct sio_settings {
	u64 slice_ns;		/* of a queue; also the bound of async writes (default 100 ms, section 5) */
	u64 sync_bound_ns;	/* the bound of sync writes; if it is not below the slice, they are treated like other writes */
	u64 class_bound_ns;	/* how long a class waits for higher ones before one of its requests goes */
	u64 hold_max_ns;	/* the maximum anticipation after a read; 0: none */
	u64 turn_wait_ns;	/* the maximum time for which a read waits for the turns of other readers; 0: there are no turns */
	u32 turn_reads;		/* on a slow device, a turn fits this many small reads, up to SIO_TURN_WAITS * turn_wait_ns */
	bool has_level_slices;	/* levels of a class have the device one after the other, for a slice each; otherwise by shares */
	u32 quantum;		/* requests in flight of a queue while another one has requests (algorithm 6.2) */
	u32 limits[SIO_KINDS];	/* requests in flight of a kind; 0: no limit */
	u32 in_flight_max;	/* requests in flight in total, the number that the device takes; 0: no limit */
	u32 read_percent;	/* reads may take this percentage of their time without writes: 120; 0: no budget for writes */
	u32 write_back_percent;	/* the same for write-back, for which nobody waits: 250 */
	u64 pause_max_ns;	/* a program that reads again within this time is a reader that pauses; 0: none is */
	u64 write_wait_ns;	/* the time for which a read of such a program waits at most for a piece of write-back */
};

/* The budgets: of sync writes, and of write-back. */
enum { SIO_SYNC, SIO_WRITE_BACK, SIO_BUDGETS };

struct sio_budget {
	/* The time that reads may still lose; negative after a write until reads have earned it. */
	s64 ns;
	/* The number of writes that went during reads and whose cost is not known yet, and the instant of the first one. */
	u32 unsettled;
	u64 unsettled_ns;
	/* The maximum number of writes that may be in flight during reads, or go before their cost is known. It grows while writes
	 * cost reads little. */
	u32 window;
};

struct sio_queue {
	struct sio_link lists[SIO_LISTS][2];	/* sequential, random */
	u32 queued, in_flight;
	u64 used[SIO_LISTS];	/* its virtual time (shares.h): of reads, sync writes, and async ones */
};

/* A record of the reads of a process. Processes with the same number modulo SIO_PROCESSES share it. */
struct sio_process {
	u64 done_ns;		/* when the last one completed; 0: none did */
	u32 issued;		/* the number of the last one among all reads that were issued */
	u64 pause_ns;		/* the average pause before its next read, and the average deviation from it */
	u64 deviation_ns;
	u16 waiting;		/* the number of its reads in SIO_READS */
	bool has_had_turn;	/* since its last pause, a turn of it ended while it was still reading */
};

/* A process whose turn it is. */
struct sio_reader {
	bool is_used;
	u32 process;
	u32 reads;		/* the reads of its turn that are queued or in flight */
	u64 since_ns;		/* the start of its turn */
	u64 came_ns;		/* when its last read came */
};

struct sio_streams {
	u64 ends[SIO_STREAMS];	/* the ends of the latest requests, the latest first */
};

/* Counters since the policy was initialised; they have no effect on decisions. */
struct sio_statistics {
	u64 dispatched[SIO_KINDS];
	u64 class_dispatched[SIO_CLASSES];
	u64 completed[SIO_KINDS];
	u64 service_ns[SIO_KINDS];	/* sum over completed requests */
	u64 wait_ns[SIO_KINDS];		/* sum over dispatched requests, from insertion */
	u64 wait_ns_max[SIO_KINDS];
	u64 reads_lost_ns;		/* time that reads lost to writes */
	u64 turns;			/* a reader got a turn */
	u64 turns_by_bound;		/* a reader got the turn of another one, because its read had waited for long enough */
	u64 held;			/* dispatches that returned nothing because writes were held back */
	u64 held_for_readers;		/* the same because the next read of a reader that pauses was expected */
	u64 writes_by_budget;		/* writes that went although programs were reading, because the budget allowed it */
	u64 writes_by_bound;		/* writes that went because their bound was reached */
	u64 write_late_ns_max;		/* the longest time by which a write missed its bound, except in the idle class */
	u64 classes_by_bound;		/* requests that went before those of a higher class */
};

struct sio_policy {
	struct sio_settings settings;
	struct sio_queue queues[SIO_QUEUES];
	/* For each list, the queues in which it is not empty: bit 0 is queue 0. */
	u32 waiting[SIO_LISTS];
	struct sio_streams streams[2];	/* reads, writes */
	u64 inserted;
	u32 queued;
	u32 reads_queued[SIO_CLASSES], writes_queued[SIO_CLASSES];
	u32 in_flight;
	u32 kind_in_flight[SIO_KINDS];
	u32 reads_in_flight[SIO_CLASSES];
	u32 class_in_flight[SIO_CLASSES];

	/* With slices, the queue that is served, and the end of its slice. */
	int current_queue;
	u64 slice_end_ns;
	/* With shares, the virtual time of the request that went last. */
	u64 used[SIO_CLASSES][SIO_LISTS];
	/* The instants at which a request of the class last went, and a write of each list. */
	u64 class_served_ns[SIO_CLASSES];
	u64 write_served_ns[SIO_CLASSES][SIO_LISTS];
	u32 sync_writes_in_a_row;

	/* Anticipation, by class: the instant at which its last read completed, the average time until its readers' next read,
	 * and the end of the time for which writes are held back. */
	u64 read_done_ns[SIO_CLASSES];
	u64 gap_ns[SIO_CLASSES];
	u64 hold_until_ns[SIO_CLASSES];
	u32 hold_process[SIO_CLASSES];

	/* Turns: the readers whose turn it is, and the records of all readers. */
	struct sio_reader readers[SIO_READERS_MAX];
	struct sio_process processes[SIO_PROCESSES];
	u32 reads_issued;

	struct sio_budget budgets[SIO_BUDGETS];
	/* A write was issued after the last read. */
	bool has_written;
	/* The time with at least one write in flight: the sum of past periods, and the start of the present one. */
	u32 writes_in_flight;
	u64 writing_ns, writing_since_ns;
	u64 write_done_ns;		/* when the last write completed */
	u32 write_back_in_flight;
	bool is_latest_write_back;	/* the latest write that was issued was one of write-back */

	/* Readers that pause: the instant of the last read, the process that reads next, when, and how much later it may be. */
	u64 last_read_ns, next_read_ns, next_slack_ns;
	u32 next_process;
	u64 last_done_ns;	/* when the last request completed */
	u64 busy_until_ns;	/* when the device has probably ended with the data of all write-back */
	u64 margin_ns;		/* how long before the next read a piece has to end; it grows while reads are in debt */
	u64 last_alone_ns;	/* the time of a read like the last one, without writes */
	/* Pieces of write-back have this power of two of their usual time, plus SIO_PIECE_SHIFT: more if they cost reads little, less
	 * if they cost too much. */
	u8 piece_shift;
	u8 reads_to_grow, reads_to_shrink;
	/* The size of pieces while a program reads, and while none does, in bytes; 0: any. */
	u32 piece_bytes, quiet_piece_bytes;
	bool is_piece_stale, is_quiet_piece_stale;
	u32 writes_learnt;

	/*
	 * Learnt: the service time of reads without a write in flight, and of writes. 0: not known. Reads that wait for each other
	 * inside the device have times of their own: compared with these times, a single read during writes would seem quick.
	 */
	u64 read_alone_ns[2][SIO_SIZES][SIO_CROWDS];
	/* The same for sequential reads: of a reader that goes on, and after reads of several other processes. */
	u64 stream_ns[2][SIO_SIZES];
	u64 write_service_ns;
	u64 write_ns[SIO_WRITE_SIZES];
	u64 discard_ns;

	struct sio_statistics statistics;
};

/* Sets the settings of the study alone: neither anticipation nor budget nor turns, and sync writes like other writes. */
void sio_settings_study(struct sio_settings *settings);
/* Sets the settings for a device that takes `depth` requests at once. */
void sio_settings_default(struct sio_settings *settings, u32 depth);

void sio_init(struct sio_policy *policy, const struct sio_settings *settings, u64 now);
void sio_insert(struct sio_policy *policy, struct sio_item *item, u64 now);
/* Removes a queued request. */
void sio_remove(struct sio_policy *policy, struct sio_item *item);
/* Records that a queued request has grown by a merge. */
void sio_resize(struct sio_policy *policy, struct sio_item *item, u64 sector, u32 bytes);
/*
 * Returns the request that goes to the device now, or NULL. If it returns NULL while requests are queued, `*wake_ns` is the
 * next instant at which one may go without another call, or SIO_NEVER: then a completion is due.
 */
struct sio_item *sio_dispatch(struct sio_policy *policy, u64 now, u64 *wake_ns);
/*
 * Returns the earliest instant at which a request may go without another call: `now` if one may go at once, SIO_NEVER if a
 * completion is due first. It is cheaper than a dispatch that returns nothing. The instant may be too early, but is never too late.
 */
u64 sio_next(const struct sio_policy *policy, u64 now);
/* Returns the size to which the caller splits and merges write-back from now on, in bytes; 0: it splits nothing. */
u32 sio_piece_bytes(struct sio_policy *policy, u64 now);
void sio_complete(struct sio_policy *policy, struct sio_item *item, u64 now);
/* Records that an issued request is no longer in flight, although it has not completed. */
void sio_withdraw(struct sio_policy *policy, struct sio_item *item, u64 now);

static inline bool sio_has_work(const struct sio_policy *policy)
{
	return policy->queued > 0;
}

#endif
